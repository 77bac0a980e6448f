//! Fingerprints, which make statements alike: a number for a text without its literals.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::tokens::{Kind, LexerMode, Token, Tokens, Unclear};

/// FNV-1a over parts, stirred at the end. It is the same on every machine and in every release, so
/// that it may stand in a file. It does not stand against who wants two texts to be alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Bytes that do not run into the next ones.
    pub(super) fn part(&mut self, bytes: &[u8]) {
        // The length before them, or "a" and "bc" would be like "ab" and "c".
        (bytes.len() as u64).to_be_bytes().iter().for_each(|&byte| self.byte(byte));
        bytes.iter().for_each(|&byte| self.byte(byte));
    }

    pub(super) fn end(self) -> u64 {
        // FNV leaves the upper bits little stirred where inputs are short; these are the steps of
        // SplitMix64.
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// The fingerprint of a statement: 64 bits of its tokens.
///
/// Literals with their signs, and parameters, count as places, whatever is in them; `IN` lists and
/// arrays of nothing but places are alike whatever their length. White space, comments, semicolons
/// at the end and the case of what stands without quotes do not count. A name in quotes is never
/// like one without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

/// A text that is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{text}\" is not a fingerprint: it has 16 hexadecimal digits")]
pub struct FingerprintError {
    text: String,
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let hexadecimal = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| hexadecimal);
        number.map(Fingerprint).ok_or_else(|| FingerprintError { text: text.to_owned() })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Fingerprint({self})")
    }
}

impl Fingerprint {
    /// That of a text.
    ///
    /// # Errors
    ///
    /// The text cannot be read.
    pub fn of(text: &[u8], lexer_mode: LexerMode) -> Result<Fingerprint, Unclear> {
        let mut places = Places::new(text, lexer_mode)?;
        while places.next()?.is_some() {}
        Ok(places.fingerprint())
    }
}

/// A literal or a parameter of a text, as its fingerprint counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) token: Token,
    pub(super) sign: Sign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Minus,
    None,
}

/// State of a list whose length does not count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    No,
    /// Behind IN or ARRAY.
    Awaited,
    /// Behind its bracket: the first place.
    Begins,
    /// Behind a place.
    Place,
    /// Behind a comma that is not counted yet.
    Comma,
}

/// Goes through a text from place to place, and makes its fingerprint on the way.
pub(super) struct Places<'a> {
    tokens: Tokens<'a>,
    hash: Hash,
    list: List,
    /// The mark that a sign here would be of a number.
    signs: Signs,
    /// One that waits for a number.
    sign: Option<Token>,
    semicolons: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signs {
    Number,
    Operator,
}

/// Words behind which a sign is a number's.
const BEFORE_NUMBERS: [&str; 20] = [
    "select",
    "where",
    "and",
    "or",
    "not",
    "in",
    "between",
    "like",
    "values",
    "then",
    "else",
    "when",
    "case",
    "limit",
    "offset",
    "return",
    "returning",
    "by",
    "on",
    "to",
];

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a [u8], lexer_mode: LexerMode) -> Result<Places<'a>, Unclear> {
        Ok(Places {
            tokens: Tokens::new(text, lexer_mode)?,
            hash: Hash::default(),
            list: List::No,
            signs: Signs::Number,
            sign: None,
            semicolons: 0,
        })
    }

    /// The text's, when all places have been told.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.hash.end())
    }

    /// The next place.
    pub(super) fn next(&mut self) -> Result<Option<Place>, Unclear> {
        let text = self.tokens.text();
        loop {
            let token = self.tokens.read()?;
            match token.kind {
                Kind::End => {
                    self.unsigned();
                    return Ok(None);
                }
                Kind::Semicolon => {
                    self.unsigned();
                    self.list = List::No;
                    // Counted when something follows: those at the beginning and at the end are none of
                    // the statement.
                    self.semicolons += usize::from(self.hash.0 != Hash::default().0);
                    self.signs = Signs::Number;
                }
                Kind::Literal(_) | Kind::Number | Kind::Parameter => {
                    let sign = self.place(&token);
                    return Ok(Some(Place { token, sign }));
                }
                Kind::Operator
                    if self.signs == Signs::Number
                        && self.sign.is_none()
                        && matches!(text[token.start..token.end], [b'+' | b'-']) =>
                {
                    self.sign = Some(token);
                }
                Kind::Mark(b',') if self.list == List::Place => {
                    self.list = List::Comma;
                    self.signs = Signs::Number;
                }
                _ => self.other(&token),
            }
        }
    }

    fn place(&mut self, token: &Token) -> Sign {
        let text = self.tokens.text();
        let sign = match self.sign.take() {
            // A sign before a string is an operator.
            Some(sign) if token.kind != Kind::Number => {
                self.count(b'o', &text[sign.at()]);
                Sign::None
            }
            Some(sign) if text[sign.start] == b'-' => Sign::Minus,
            _ => Sign::None,
        };
        match self.list {
            // One place stands for all of the list, however many follow.
            List::Comma => self.list = List::Place,
            List::Begins => {
                self.count(b'?', b"");
                self.list = List::Place;
            }
            _ => {
                self.count(b'?', b"");
                self.list = List::No;
            }
        }
        self.signs = Signs::Operator;
        sign
    }

    fn other(&mut self, token: &Token) {
        self.unsigned();
        let text = self.tokens.text();
        let bytes = &text[token.at()];
        self.signs = match token.kind {
            Kind::Operator | Kind::Mark(b'(' | b'[' | b',' | b':') => Signs::Number,
            Kind::Word if BEFORE_NUMBERS.iter().any(|word| token.is(text, word)) => Signs::Number,
            _ => Signs::Operator,
        };
        let list = match token.kind {
            Kind::Word if token.is(text, "in") || token.is(text, "array") => List::Awaited,
            Kind::Mark(b'(' | b'[') if self.list == List::Awaited => List::Begins,
            _ => List::No,
        };
        match token.kind {
            Kind::Word => self.count(b'w', bytes),
            Kind::Quoted | Kind::UnicodeQuoted => self.count(b'q', bytes),
            _ => self.count(b'o', bytes),
        }
        self.list = list;
    }

    /// A sign that no number followed is an operator.
    fn unsigned(&mut self) {
        if let Some(sign) = self.sign.take() {
            self.count(b'o', &self.tokens.text()[sign.at()]);
        }
    }

    fn count(&mut self, kind: u8, bytes: &[u8]) {
        if std::mem::take(&mut self.semicolons) > 0 {
            self.hash.byte(b';');
        }
        if self.list == List::Comma {
            self.list = List::No;
            self.hash.byte(b'o');
            self.hash.byte(b',');
            self.hash.byte(0);
        }
        self.hash.byte(kind);
        for &byte in bytes {
            self.hash.byte(if kind == b'w' { byte.to_ascii_lowercase() } else { byte });
        }
        self.hash.byte(0);
    }
}
