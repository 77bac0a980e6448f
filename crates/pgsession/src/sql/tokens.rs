//! Cuts a SQL text into the tokens that PostgreSQL's scanner sees, as far as the gate needs them,
//! so that nobody here takes a word in a string, a name or a comment for a command.
//!
//! A text is read in one pass and in time linear in its length, about 1 ns a byte in a release
//! build. One that holds a string, a name or a comment without an end is an error for the server to
//! tell: [`Tokens::read`] then says [`Unclear`], and nothing may be claimed of any of it.

use std::fmt;
use std::ops::Range;

/// The bytes by which a server tells names apart (NAMEDATALEN - 1) \[byte\].
const NAME_MAX: usize = 63;

/// Meaning of a backslash in a string without prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// A backslash: `standard_conforming_strings` is on, as it is by default.
    #[default]
    Standard,
    /// An escape: it is off.
    Backslash,
}

/// Effect of a client's encoding on ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A byte below 0x80 is an ASCII character wherever it stands: UTF-8 and all single-byte ones.
    #[default]
    AsciiSafe,
    /// It may be the second half of another: SJIS, BIG5, GBK, UHC, GB18030, JOHAB.
    AsciiUnsafe,
}

impl Encoding {
    /// The one that `client_encoding` has this value for.
    pub fn of(client_encoding: &[u8]) -> Encoding {
        const UNSAFE: [&str; 17] = [
            "sjis",
            "shiftjis",
            "mskanji",
            "shiftjis2004",
            "win932",
            "windows932",
            "big5",
            "win950",
            "windows950",
            "gbk",
            "win936",
            "windows936",
            "uhc",
            "win949",
            "windows949",
            "gb18030",
            "johab",
        ];
        // As `pg_char_to_encoding` compares names: letters and digits, in any case.
        let plain: Vec<u8> = client_encoding
            .iter()
            .filter(|byte| byte.is_ascii_alphanumeric())
            .map(u8::to_ascii_lowercase)
            .collect();
        match UNSAFE.iter().any(|name| name.as_bytes() == plain) {
            true => Encoding::AsciiUnsafe,
            false => Encoding::AsciiSafe,
        }
    }
}

/// Lexer mode of a session's texts; the server reports both parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LexerMode {
    /// By `standard_conforming_strings`.
    pub strings: Strings,
    /// By `client_encoding`.
    pub encoding: Encoding,
}

/// Why nothing is claimed of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// A string, a name or a comment has no end: the server refuses all of the text.
    Unterminated,
    /// The ends of its characters cannot be seen in its encoding.
    Encoding,
}

impl fmt::Display for Unclear {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unclear::Unterminated => "a string, a name or a comment in it has no end",
            Unclear::Encoding => "its encoding uses bytes of ASCII in other characters",
        })
    }
}

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// `U&"name"`, with its UESCAPE where it has one.
    UnicodeQuoted,
    /// A string, with all parts that a line break lets it go on in.
    Literal(Literal),
    /// A number without sign.
    Number,
    /// `$1`.
    Parameter,
    /// An operator of one or more characters.
    Operator,
    /// The end of a command.
    Semicolon,
    /// Any other byte.
    Mark(u8),
    /// The end of the text.
    End,
}

/// Notation of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// Only a doubled quote means something.
    Plain,
    /// Backslashes mean something.
    Escaped,
    /// Between dollars.
    Dollar,
    /// `B''`, `X''`.
    Bits,
    /// `U&''`.
    Unicode,
}

/// A token, where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Its first byte.
    pub start: usize,
    /// Behind its last.
    pub end: usize,
}

impl Token {
    /// Its place in the text.
    pub fn at(&self) -> Range<usize> {
        self.start..self.end
    }

    /// True if it is this keyword, given in lower case.
    pub fn is(&self, text: &[u8], keyword: &str) -> bool {
        self.kind == Kind::Word && text[self.at()].eq_ignore_ascii_case(keyword.as_bytes())
    }

    /// The name that it is: folded to lower case unless quoted, and cut as the server cuts it. None
    /// for what is no name, or one in Unicode escapes.
    pub fn name(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut name = match self.kind {
            Kind::Word => text[self.at()].to_ascii_lowercase(),
            Kind::Quoted => undoubled(&text[self.start + 1..self.end - 1], b'"'),
            // Behind an UESCAPE any character may begin an escape.
            Kind::UnicodeQuoted
                if text[self.end - 1] == b'"' && !text[self.at()].contains(&b'\\') =>
            {
                undoubled(&text[self.start + 3..self.end - 1], b'"')
            }
            _ => return None,
        };
        name.truncate(cut(&name));
        Some(name)
    }

    /// The value of a string. None for what is none, and for Unicode escapes and bits.
    pub fn value(&self, text: &[u8]) -> Option<Vec<u8>> {
        let all = &text[self.at()];
        match self.kind {
            Kind::Literal(Literal::Plain) => Some(parts(all, Strings::Standard)?.concat()),
            Kind::Literal(Literal::Escaped) => {
                let all = if all[0] == b'\'' { all } else { &all[1..] };
                let mut value = Vec::with_capacity(all.len());
                for part in parts(all, Strings::Backslash)? {
                    unescape(&part, &mut value)?;
                }
                Some(value)
            }
            Kind::Literal(Literal::Dollar) => {
                let tag = all[1..].iter().position(|&byte| byte == b'$')? + 2;
                Some(all[tag..all.len() - tag].to_vec())
            }
            _ => None,
        }
    }
}

/// Length of an identifier as the server keeps it: 63 bytes, between characters.
fn cut(name: &[u8]) -> usize {
    let mut end = name.len().min(NAME_MAX);
    // As `pg_mbcliplen` for UTF-8: back to the first byte of the character that would be cut.
    while end > 0 && end < name.len() && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    end
}

fn undoubled(inner: &[u8], quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        out.push(byte);
        if byte == quote {
            bytes.next();
        }
    }
    out
}

/// The parts of a string that goes on over lines, without quotes; escapes stay as they are.
fn parts(all: &[u8], strings: Strings) -> Option<Vec<Vec<u8>>> {
    let mut tokens = Tokens { text: all, at: 1, strings, comment: None, signs_end: 0 };
    let (mut found, mut start) = (Vec::new(), 1);
    loop {
        tokens.quoted(b'\'', strings).ok()?;
        found.push(undoubled_unescaped(&all[start..tokens.at - 1], strings));
        if !tokens.goes_on() {
            return Some(found);
        }
        start = tokens.at;
    }
}

/// Doubled quotes made single; a backslash keeps what follows it where it is an escape.
fn undoubled_unescaped(inner: &[u8], strings: Strings) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        out.push(byte);
        match (byte, strings) {
            (b'\'', _) => drop(bytes.next()),
            (b'\\', Strings::Backslash) => out.extend(bytes.next()),
            _ => {}
        }
    }
    out
}

/// The meaning of a string's escapes. None where the server may refuse them, or they name
/// characters by number.
fn unescape(part: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut at = 0;
    while let Some(&byte) = part.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = *part.get(at)?;
        at += 1;
        let (digits, radix) = match escape {
            b'0'..=b'7' => {
                at -= 1;
                (3, 8)
            }
            b'x' if part.get(at).is_some_and(u8::is_ascii_hexdigit) => (2, 16),
            b'u' | b'U' => return None,
            _ => {
                out.push(match escape {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    other => other,
                });
                continue;
            }
        };
        let mut value = 0_u32;
        for _ in 0..digits {
            let Some(digit) = part.get(at).and_then(|&byte| char::from(byte).to_digit(radix))
            else {
                break;
            };
            value = value * radix + digit;
            at += 1;
        }
        // What is not ASCII must fit the encoding, which only the server can tell.
        let value = value as u8;
        if !(1..0x80).contains(&value) {
            return None;
        }
        out.push(value);
    }
    Some(())
}

/// Sets of bytes, as bits of a table.
const WORD: u8 = 1;
const START: u8 = 2;
const OPERATOR: u8 = 4;
const SPACE: u8 = 8;
/// The operators that may end in a sign when one of these is in them.
const STRONG: u8 = 16;

const SETS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 {
            sets[at] = WORD | START;
        } else if byte.is_ascii_digit() || byte == b'$' {
            sets[at] = WORD;
        }
        sets[at] |= match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%' => {
                OPERATOR | STRONG
            }
            b'+' | b'-' | b'*' | b'/' | b'<' | b'>' | b'=' => OPERATOR,
            _ => 0,
        };
        at += 1;
    }
    sets
};

fn is(byte: u8, set: u8) -> bool {
    SETS[usize::from(byte)] & set != 0
}

/// The tokens of a text, one after the other.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    strings: Strings,
    comment: Option<Range<usize>>,
    /// Up to here there are only signs, each an operator of its own.
    signs_end: usize,
}

impl<'a> Tokens<'a> {
    /// Those of `text`.
    ///
    /// # Errors
    ///
    /// Its encoding does not let it be read.
    pub fn new(text: &'a [u8], lexer_mode: LexerMode) -> Result<Tokens<'a>, Unclear> {
        if lexer_mode.encoding == Encoding::AsciiUnsafe && !text.is_ascii() {
            return Err(Unclear::Encoding);
        }
        Ok(Tokens { text, at: 0, strings: lexer_mode.strings, comment: None, signs_end: 0 })
    }

    /// The text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The last comment in `/* */` before the token that was last told, and behind the one before.
    pub fn comment(&self) -> Option<Range<usize>> {
        self.comment.clone()
    }

    /// The next one; [`Kind::End`] at the end, as often as asked.
    ///
    /// # Errors
    ///
    /// A string, a name or a comment does not end.
    pub fn read(&mut self) -> Result<Token, Unclear> {
        self.blank()?;
        let (text, start) = (self.text, self.at);
        let Some(&byte) = text.get(start) else { return Ok(self.made(Kind::End, start)) };
        self.at += 1;
        let kind = match byte {
            byte if is(byte, START) => {
                self.while_in(WORD);
                self.prefixed(start)?
            }
            b';' => Kind::Semicolon,
            b'\'' => self.literal(self.strings)?,
            b'"' => {
                self.quoted(b'"', Strings::Standard)?;
                Kind::Quoted
            }
            b'$' => self.dollar(start)?,
            b'0'..=b'9' => self.number(start),
            b'.' if text.get(self.at).is_some_and(u8::is_ascii_digit) => self.number(start),
            b'.' if text.get(self.at) == Some(&b'.') => {
                self.at += 1;
                Kind::Operator
            }
            byte if is(byte, OPERATOR) => self.operator(start),
            other => Kind::Mark(other),
        };
        Ok(self.made(kind, start))
    }

    fn made(&self, kind: Kind, start: usize) -> Token {
        debug_assert!(self.at <= self.text.len(), "behind the end of the text");
        debug_assert_eq!(kind == Kind::End, start == self.at, "a token without a byte at {start}");
        Token { kind, start, end: self.at }
    }

    fn while_in(&mut self, set: u8) {
        while self.text.get(self.at).is_some_and(|&byte| is(byte, set)) {
            self.at += 1;
        }
    }

    /// The kind of a word: some, directly before a quote, say how to read what is in it.
    fn prefixed(&mut self, start: usize) -> Result<Kind, Unclear> {
        let text = self.text;
        // All prefixes have one letter, and nothing may stand between it and the quote.
        if self.at - start != 1 {
            return Ok(Kind::Word);
        }
        Ok(match (text[start] | 0x20, text.get(self.at), text.get(self.at + 1)) {
            (b'e', Some(b'\''), _) => {
                self.at += 1;
                self.literal(Strings::Backslash)?
            }
            (b'b' | b'x', Some(b'\''), _) => {
                self.at += 1;
                self.bits()?
            }
            (b'u', Some(b'&'), Some(b'"')) => {
                self.at += 2;
                self.quoted(b'"', Strings::Standard)?;
                self.uescape()?;
                Kind::UnicodeQuoted
            }
            (b'u', Some(b'&'), Some(b'\'')) => {
                self.at += 2;
                self.literal(Strings::Standard)?;
                Kind::Literal(Literal::Unicode)
            }
            _ => Kind::Word,
        })
    }

    /// Goes behind UESCAPE, where a name has it: the server takes it for a part of the name too.
    fn uescape(&mut self) -> Result<(), Unclear> {
        // PostgreSQL skips white space and comments before UESCAPE. Where no UESCAPE follows, they are
        // read again before the next token.
        let (end, comment) = (self.at, self.comment.clone());
        self.blank()?;
        let start = self.at;
        self.while_in(WORD);
        if !self.text[start..self.at].eq_ignore_ascii_case(b"uescape") {
            self.at = end;
        }
        self.comment = comment;
        Ok(())
    }

    fn literal(&mut self, strings: Strings) -> Result<Kind, Unclear> {
        loop {
            self.quoted(b'\'', strings)?;
            if !self.goes_on() {
                return Ok(Kind::Literal(match strings {
                    Strings::Standard => Literal::Plain,
                    Strings::Backslash => Literal::Escaped,
                }));
            }
        }
    }

    /// In these a quote ends the string whatever follows.
    fn bits(&mut self) -> Result<Kind, Unclear> {
        loop {
            let rest = &self.text[self.at..];
            let end = rest.iter().position(|&byte| byte == b'\'').ok_or(Unclear::Unterminated)?;
            self.at += end + 1;
            if !self.goes_on() {
                return Ok(Kind::Literal(Literal::Bits));
            }
        }
    }

    /// Goes behind the quote that ends what has begun; two of them are one of the text.
    fn quoted(&mut self, quote: u8, strings: Strings) -> Result<(), Unclear> {
        let text = self.text;
        loop {
            let byte = *text.get(self.at).ok_or(Unclear::Unterminated)?;
            self.at += 1;
            if byte == quote {
                if text.get(self.at) != Some(&quote) {
                    return Ok(());
                }
                self.at += 1;
            // Whatever follows means something else, a quote above all.
            } else if byte == b'\\' && strings == Strings::Backslash {
                self.at += 1;
            }
        }
    }

    /// True if a string goes on behind its quote, as it does in a later line; then goes into it.
    fn goes_on(&mut self) -> bool {
        let (text, mut at, mut lines) = (self.text, self.at, false);
        loop {
            match text.get(at) {
                Some(b'\n' | b'\r') => lines = true,
                // Only behind a line break: `'a' 'b'` is an error, which the server tells.
                Some(b'\'') if lines => {
                    self.at = at + 1;
                    return true;
                }
                Some(b'-') if text.get(at + 1) == Some(&b'-') => {
                    at = line_end(text, at);
                    continue;
                }
                Some(&byte) if is(byte, SPACE) => {}
                _ => return false,
            }
            at += 1;
        }
    }

    /// A string in dollars, or a parameter.
    fn dollar(&mut self, start: usize) -> Result<Kind, Unclear> {
        let text = self.text;
        if text.get(self.at).is_some_and(u8::is_ascii_digit) {
            while text.get(self.at).is_some_and(u8::is_ascii_digit) {
                self.at += 1;
            }
            return Ok(Kind::Parameter);
        }
        // A tag is a name without dollars; one that begins with a digit was a parameter above.
        let mut end = self.at;
        while text.get(end).is_some_and(|&byte| is(byte, WORD) && byte != b'$') {
            end += 1;
        }
        if text.get(end) != Some(&b'$') {
            return Ok(Kind::Mark(b'$'));
        }
        let tag = &text[start..=end];
        let mut at = end + 1;
        loop {
            let rest = text.get(at..).ok_or(Unclear::Unterminated)?;
            let dollar = rest.iter().position(|&byte| byte == b'$').ok_or(Unclear::Unterminated)?;
            at += dollar;
            if text[at..].starts_with(tag) {
                self.at = at + tag.len();
                return Ok(Kind::Literal(Literal::Dollar));
            }
            at += 1;
        }
    }

    fn digits(&mut self, of: fn(&u8) -> bool) {
        while let Some(byte) = self.text.get(self.at) {
            // PostgreSQL 16 lets an underscore stand between digits.
            let parted = *byte == b'_' && self.text.get(self.at + 1).is_some_and(of);
            if !of(byte) && !parted {
                return;
            }
            self.at += 1;
        }
    }

    fn number(&mut self, start: usize) -> Kind {
        let text = self.text;
        self.at = start;
        if let [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', digit, ..] = text[start..]
            && digit.is_ascii_hexdigit()
        {
            self.at += 2;
            self.digits(u8::is_ascii_hexdigit);
            return Kind::Number;
        }
        self.digits(u8::is_ascii_digit);
        // Two dots are not of the number: 1..2.
        if text.get(self.at) == Some(&b'.') && text.get(self.at + 1) != Some(&b'.') {
            self.at += 1;
            self.digits(u8::is_ascii_digit);
        }
        if let Some(b'e' | b'E') = text.get(self.at) {
            let sign = usize::from(matches!(text.get(self.at + 1), Some(b'+' | b'-')));
            if text.get(self.at + 1 + sign).is_some_and(u8::is_ascii_digit) {
                self.at += 1 + sign;
                self.digits(u8::is_ascii_digit);
            }
        }
        Kind::Number
    }

    /// As many characters as go together; a comment ends it, and signs at its end are of their own
    /// unless it has a character that SQL's own operators lack.
    fn operator(&mut self, start: usize) -> Kind {
        let text = self.text;
        if start < self.signs_end {
            return Kind::Operator;
        }
        let (mut end, mut strong) = (start, false);
        while let Some(&byte) = text.get(end)
            && is(byte, OPERATOR)
            && !matches!(text[end..], [b'/', b'*', ..] | [b'-', b'-', ..])
        {
            strong |= is(byte, STRONG);
            end += 1;
        }
        self.at = end;
        if !strong {
            // `a*-1` is a product, not an operator `*-`: the rule of scan.l for operators of SQL's own
            // characters.
            while self.at > start + 1 && matches!(text[self.at - 1], b'+' | b'-') {
                self.at -= 1;
            }
            self.signs_end = end;
        }
        Kind::Operator
    }

    /// Goes over white space and comments, which nest.
    fn blank(&mut self) -> Result<(), Unclear> {
        let text = self.text;
        self.comment = None;
        loop {
            self.while_in(SPACE);
            match text.get(self.at..).unwrap_or_default() {
                [b'-', b'-', ..] => self.at = line_end(text, self.at),
                [b'/', b'*', ..] => {
                    let start = self.at;
                    self.at += 2;
                    let mut depth = 1_usize;
                    while depth > 0 {
                        match text.get(self.at..).unwrap_or_default() {
                            [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                            [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                            [_, ..] => self.at += 1,
                            [] => return Err(Unclear::Unterminated),
                        }
                    }
                    self.comment = Some(start..self.at);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// End of the line in which `at` is.
fn line_end(text: &[u8], at: usize) -> usize {
    let line = text[at..].iter().position(|&byte| byte == b'\n' || byte == b'\r');
    line.map_or(text.len(), |line| at + line)
}

/// The tokens of a text with its commands apart: a semicolon within parentheses, or within the body
/// of a function that stands in the text as SQL, is a mark and ends nothing.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    tokens: Tokens<'a>,
    depth: usize,
    routine: Routine,
}

/// State of a command that may have commands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routine {
    Start,
    /// CREATE, OR, REPLACE.
    Create,
    /// CREATE FUNCTION or PROCEDURE.
    Yes,
    /// The same, behind BEGIN.
    Begin,
    /// In its body, where a statement may begin: only there END ends the body.
    Statement,
    /// Within a statement of its body: END is the end of a CASE there, or a name, with or without AS.
    Within,
    No,
}

impl<'a> Commands<'a> {
    /// Those of a text.
    ///
    /// # Errors
    ///
    /// As [`Tokens::new`].
    pub fn new(text: &'a [u8], lexer_mode: LexerMode) -> Result<Commands<'a>, Unclear> {
        let tokens = Tokens::new(text, lexer_mode)?;
        Ok(Commands { tokens, depth: 0, routine: Routine::Start })
    }

    /// The text.
    pub fn text(&self) -> &'a [u8] {
        self.tokens.text
    }

    /// Number of parentheses that are open behind the token that was last told.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// True if the token that was last told is in the body of a function. None ends there.
    pub fn is_in_body(&self) -> bool {
        matches!(self.routine, Routine::Statement | Routine::Within)
    }

    /// The next token.
    ///
    /// # Errors
    ///
    /// As [`Tokens::read`].
    pub fn read(&mut self) -> Result<Token, Unclear> {
        let mut token = self.tokens.read()?;
        match token.kind {
            Kind::Mark(b'(') => self.depth += 1,
            // One too many is an error that the server tells; until then the text goes on being cut.
            Kind::Mark(b')') => self.depth = self.depth.saturating_sub(1),
            Kind::Semicolon if self.depth > 0 => token.kind = Kind::Mark(b';'),
            // BEGIN ATOMIC ... END holds statements of SQL, each with its semicolon (PostgreSQL 14).
            Kind::Semicolon if self.is_in_body() => {
                token.kind = Kind::Mark(b';');
                self.routine = Routine::Statement;
                return Ok(token);
            }
            Kind::Semicolon => {
                self.routine = Routine::Start;
                return Ok(token);
            }
            Kind::Word => {
                self.word(&token);
                return Ok(token);
            }
            Kind::End => return Ok(token),
            _ => {}
        }
        self.routine = match self.routine {
            Routine::Yes | Routine::Begin => Routine::Yes,
            Routine::Statement | Routine::Within => Routine::Within,
            Routine::Start | Routine::Create | Routine::No => Routine::No,
        };
        Ok(token)
    }

    fn word(&mut self, token: &Token) {
        let text = self.tokens.text;
        let is = |keyword| token.is(text, keyword);
        self.routine = match self.routine {
            Routine::Start if is("create") => Routine::Create,
            Routine::Create if is("or") || is("replace") => Routine::Create,
            Routine::Create if is("function") || is("procedure") => Routine::Yes,
            Routine::Yes | Routine::Begin if is("begin") && self.depth == 0 => Routine::Begin,
            Routine::Begin if is("atomic") => Routine::Statement,
            Routine::Yes | Routine::Begin => Routine::Yes,
            Routine::Statement if is("end") => Routine::No,
            Routine::Statement | Routine::Within => Routine::Within,
            _ => Routine::No,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, strings: Strings) -> Result<Vec<(Kind, &str)>, Unclear> {
        let lexer_mode = LexerMode { strings, ..LexerMode::default() };
        let (mut tokens, mut found) = (Tokens::new(text.as_bytes(), lexer_mode)?, Vec::new());
        loop {
            let token = tokens.read()?;
            if token.kind == Kind::End {
                return Ok(found);
            }
            found.push((token.kind, &text[token.at()]));
        }
    }

    fn cut(text: &str) -> Vec<&str> {
        read(text, Strings::Standard).unwrap().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn texts_are_cut_as_the_server_cuts_them() {
        for (text, expected) in [
            ("select a.b,1", &["select", "a", ".", "b", ",", "1"][..]),
            ("1.5e-3+.5 1..2 1e 7.", &["1.5e-3", "+", ".5", "1", "..", "2", "1", "e", "7."]),
            ("0x1F 1_000 0b", &["0x1F", "1_000", "0", "b"]),
            (
                "a=-1 a<>-1 a@-1 a*-/**/b",
                &["a", "=", "-", "1", "a", "<>", "-", "1", "a", "@-", "1", "a", "*", "-", "b"],
            ),
            ("a+-+b --x\n-c", &["a", "+", "-", "+", "b", "-", "c"]),
            ("$1$2 $a$ $b$ $ $a$x", &["$1", "$2", "$a$ $b$ $ $a$", "x"]),
            ("a$b$c $$;$$", &["a$b$c", "$$;$$"]),
            ("'a''b' \"c\"\"d\" U&\"e\" u&'f'", &["'a''b'", "\"c\"\"d\"", "U&\"e\"", "u&'f'"]),
            ("'a' -- x\n 'b' 'c'", &["'a' -- x\n 'b'", "'c'"]),
            ("e'a\\'b'\n'c\\'d' re'x'", &["e'a\\'b'\n'c\\'d'", "re", "'x'"]),
            ("/* /* */ ' */a", &["a"]),
            ("x'1F' b'1' n'a'", &["x'1F'", "b'1'", "n", "'a'"]),
        ] {
            assert_eq!(cut(text), expected, "{text}");
        }
        assert_eq!(read("'\\' '", Strings::Standard), Err(Unclear::Unterminated));
        assert_eq!(read("'\\' '", Strings::Backslash).map(|found| found.len()), Ok(1));
    }

    #[test]
    fn what_has_no_end_is_unclear() {
        for text in ["'a", "\"a", "/* /* */", "$$a$", "$a$ $$", "E'\\'", "U&'", "b'0", "e'\\"] {
            assert_eq!(read(text, Strings::Standard), Err(Unclear::Unterminated), "{text}");
        }
        let unsafe_bytes =
            LexerMode { encoding: Encoding::of(b"Shift_JIS"), ..LexerMode::default() };
        assert_eq!(Tokens::new(b"'\x95\\'", unsafe_bytes).unwrap_err(), Unclear::Encoding);
        assert!(Tokens::new(b"'a'", unsafe_bytes).is_ok());
    }

    #[test]
    fn strings_and_names_have_their_value() {
        let value = |text: &str| {
            let token = Tokens::new(text.as_bytes(), LexerMode::default()).unwrap().read().unwrap();
            let value = token.value(text.as_bytes()).or_else(|| token.name(text.as_bytes()));
            value.map(|value| String::from_utf8(value).unwrap())
        };
        for (text, expected) in [
            ("'a''b'\n'c'", "a'bc"),
            ("E'\\ta\\'''\\x41\\101\\q'\n'\\n'", "\ta''AAq\n"),
            ("$x$a$x$", "a"),
            ("\"A\"\"b\"", "A\"b"),
            ("U&\"A\"", "A"),
            ("U&\"A\" uescapes", "A"),
            ("AbC", "abc"),
        ] {
            assert_eq!(value(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "E'\\u0041'",
            "E'\\0'",
            "U&'a'",
            "U&\"\\0041\"",
            "U&\"!0041\" /* x */ uEscape '!'",
            "b'1'",
            "1",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
