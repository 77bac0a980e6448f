//! Recognises the commands of SQL that touch prepared statements, and those that open a transaction,
//! by their first words. All other text is skipped: strings, names, comments.

use std::ops::Range;
use std::sync::Arc;

use super::{NAME_MAX, Pin};

/// What a command does to the client's statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `DEALLOCATE name`.
    Name(Arc<[u8]>),
    /// `DEALLOCATE ALL`.
    All,
    /// `DISCARD ALL`.
    Discard,
}

/// What a text has in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A transaction may be open behind it that was not before.
    pub(super) opens: bool,
    /// COPY is in it.
    pub(super) copies: bool,
    /// Why its client needs its server for itself from now on.
    pub(super) pin: Option<Pin>,
    /// Which statements it drops, in its order, and where the text says which.
    pub(super) drops: Vec<(Range<usize>, Target)>,
}

/// The most commands that drop statements in one text; one with more is passed as it is.
const DROPS_MAX: usize = 64;

/// Looks through a text. One that does not end, or closes what it did not open, is an error for the
/// server to tell: nothing is found in it.
pub(super) fn look(text: &[u8]) -> Found {
    let mut tokens = Tokens { text, at: 0 };
    let mut found = Found::default();
    loop {
        let Some(first) = tokens.next() else { return unclear() };
        let mut last = first.clone();
        match first {
            Token::End => return found,
            Token::Semicolon => continue,
            Token::Word(word) => match Keyword::of(&text[word]) {
                Keyword::Opens => found.opens = true,
                Keyword::Copy => found.copies = true,
                Keyword::Prepare => found.pin = Some(Pin::Prepare),
                Keyword::Execute => {
                    found.pin.get_or_insert(Pin::Execute);
                }
                Keyword::Deallocate => match target(&mut tokens) {
                    Some((at, target, end)) => {
                        found.drops.push((at, target));
                        last = end;
                    }
                    None => return unclear(),
                },
                Keyword::Discard => match (tokens.next(), tokens.next()) {
                    (Some(Token::Word(all)), Some(end @ (Token::End | Token::Semicolon)))
                        if is(&text[all.clone()], "all") =>
                    {
                        found.drops.push((all, Target::Discard));
                        last = end;
                    }
                    (Some(_), Some(end)) => last = end,
                    _ => return unclear(),
                },
                Keyword::Other => {}
            },
            Token::Quoted(_) | Token::Other(_) => {}
        }
        if found.drops.len() > DROPS_MAX {
            return unclear();
        }
        let mut depth = usize::from(matches!(last, Token::Other(b'(')));
        loop {
            match last {
                Token::End => return found,
                Token::Semicolon if depth == 0 => break,
                _ => {}
            }
            let Some(next) = tokens.next() else { return unclear() };
            match next {
                Token::Other(b'(') => depth += 1,
                Token::Other(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            last = next;
        }
    }
}

fn unclear() -> Found {
    Found { opens: true, ..Found::default() }
}

/// The name behind DEALLOCATE, and what ends the command; none if the server will call it an error.
fn target(tokens: &mut Tokens<'_>) -> Option<(Range<usize>, Target, Token)> {
    let mut name = tokens.next()?;
    let mut end = tokens.next()?;
    if let Token::Word(word) = &name
        && is(&tokens.text[word.clone()], "prepare")
        && matches!(end, Token::Word(_) | Token::Quoted(_))
    {
        name = end;
        end = tokens.next()?;
    }
    let found = match name {
        Token::Word(at) if is(&tokens.text[at.clone()], "all") => (at, Target::All),
        Token::Word(at) => {
            let name = tokens.text[at.clone()].to_ascii_lowercase();
            (at, Target::Name(cut(&name).into()))
        }
        Token::Quoted(at) => {
            let inner = &tokens.text[at.start + 1..at.end - 1];
            let mut name = Vec::with_capacity(inner.len());
            let mut bytes = inner.iter();
            while let Some(&byte) = bytes.next() {
                name.push(byte);
                if byte == b'"' {
                    bytes.next();
                }
            }
            (at, Target::Name(cut(&name).into()))
        }
        _ => return None,
    };
    matches!(end, Token::End | Token::Semicolon).then_some((found.0, found.1, end))
}

/// An identifier as the server cuts it: to 63 bytes, between characters.
fn cut(name: &[u8]) -> &[u8] {
    if name.len() <= NAME_MAX {
        return name;
    }
    let mut end = NAME_MAX;
    while end > 0 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &name[..end]
}

fn is(word: &[u8], keyword: &str) -> bool {
    word.eq_ignore_ascii_case(keyword.as_bytes())
}

enum Keyword {
    Opens,
    Copy,
    Prepare,
    Execute,
    Deallocate,
    Discard,
    Other,
}

impl Keyword {
    fn of(word: &[u8]) -> Keyword {
        let named = |keyword| is(word, keyword);
        match word[0].to_ascii_lowercase() {
            b'b' if named("begin") => Keyword::Opens,
            b's' if named("start") => Keyword::Opens,
            b'c' if named("copy") => Keyword::Copy,
            b'p' if named("prepare") => Keyword::Prepare,
            b'e' if named("execute") => Keyword::Execute,
            b'd' if named("deallocate") => Keyword::Deallocate,
            b'd' if named("discard") => Keyword::Discard,
            _ => Keyword::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A word without quotes.
    Word(Range<usize>),
    /// A name in quotes, with them.
    Quoted(Range<usize>),
    Semicolon,
    /// Anything else, by its first byte.
    Other(u8),
    End,
}

struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl Tokens<'_> {
    /// The next one; none if a string, a name or a comment does not end.
    fn next(&mut self) -> Option<Token> {
        self.blank()?;
        let text = self.text;
        let start = self.at;
        let Some(&byte) = text.get(start) else { return Some(Token::End) };
        self.at += 1;
        Some(match byte {
            b';' => Token::Semicolon,
            b'\'' => self.string(Escapes::None)?,
            b'"' => {
                self.quoted(b'"', Escapes::None)?;
                Token::Quoted(start..self.at)
            }
            b'$' => self.dollar(start)?,
            b'0'..=b'9' => {
                self.word();
                Token::Other(byte)
            }
            byte if is_word(byte) => {
                self.word();
                match (text.get(self.at), &text[start..self.at]) {
                    (Some(b'\''), [b'e' | b'E']) => {
                        self.at += 1;
                        self.string(Escapes::Backslash)?
                    }
                    _ => Token::Word(start..self.at),
                }
            }
            other => Token::Other(other),
        })
    }

    fn word(&mut self) {
        while self.text.get(self.at).is_some_and(|&byte| is_word(byte)) {
            self.at += 1;
        }
    }

    fn string(&mut self, escapes: Escapes) -> Option<Token> {
        self.quoted(b'\'', escapes)?;
        Some(Token::Other(b'\''))
    }

    /// Goes behind the quote that ends what has begun; two of them are one of the text.
    fn quoted(&mut self, quote: u8, escapes: Escapes) -> Option<()> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            if byte == b'\\' && matches!(escapes, Escapes::Backslash) {
                self.at += 1;
            } else if byte == quote {
                if self.text.get(self.at) != Some(&quote) {
                    return Some(());
                }
                self.at += 1;
            }
        }
    }

    /// A string in dollars, or a parameter.
    fn dollar(&mut self, start: usize) -> Option<Token> {
        let text = self.text;
        let mut end = self.at;
        while text.get(end).is_some_and(|&byte| is_word(byte) && byte != b'$') {
            end += 1;
        }
        let is_tag = text.get(end) == Some(&b'$') && !text[self.at].is_ascii_digit();
        if !is_tag {
            return Some(Token::Other(b'$'));
        }
        let tag = &text[start..=end];
        let mut at = end + 1;
        while !text.get(at..)?.starts_with(tag) {
            at += 1 + text.get(at + 1..)?.iter().position(|&byte| byte == b'$')?;
        }
        self.at = at + tag.len();
        Some(Token::Other(b'$'))
    }

    /// Goes over white space and comments, which nest.
    fn blank(&mut self) -> Option<()> {
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'-', b'-', rest @ ..] => {
                    let line = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r');
                    self.at = line.map_or(self.text.len(), |line| self.at + 2 + line);
                }
                [b'/', b'*', ..] => {
                    self.at += 2;
                    let mut depth = 1;
                    while depth > 0 {
                        match self.text.get(self.at..).unwrap_or_default() {
                            [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                            [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                            [_, ..] => self.at += 1,
                            [] => return None,
                        }
                    }
                }
                _ => return Some(()),
            }
        }
    }
}

enum Escapes {
    None,
    Backslash,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(text: &str) -> Vec<String> {
        let found = look(text.as_bytes());
        let told = found.drops.into_iter().map(|(at, target)| match target {
            Target::Name(name) => format!("{}={}", &text[at], String::from_utf8_lossy(&name)),
            other => format!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn commands_are_found_among_comments_case_quotes_and_others() {
        assert_eq!(drops("deallocate a"), ["a=a"]);
        assert_eq!(
            drops("/* a /* ; */ */DEALLOCATE -- x\n PREPARE \"A \"\"b\";"),
            ["\"A \"\"b\"=A \"b"]
        );
        assert_eq!(
            drops("; Deallocate prepare; discard ALL; deallocate All"),
            ["prepare=prepare", "Discard", "All"]
        );
        assert_eq!(drops("select 'deallocate a; '; deallocate B"), ["B=b"]);
        for none in [
            "select 1",
            "discard plans",
            "deallocate a b",
            "deallocate",
            "select ';deallocate a",
            "select $$;deallocate a$$",
            "select $x$ $$; deallocate a; $x$",
            "select E'\\';deallocate a'",
            "create rule r as on insert to t do (select 1; deallocate a; select 2)",
            "/* deallocate a",
            "select \";deallocate a;\"",
            "deallocate 'a'",
            "deallocate u&\"a\"",
            "select $1;discard all all",
        ] {
            assert_eq!(drops(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn what_opens_or_pins_is_found() {
        assert!(look(b"select 1; BEGIN").opens && look(b" start transaction").opens);
        assert!(!look(b"select 1; commit").opens && look(b"select '").opens);
        assert!(look(b"Copy t from stdin").copies && !look(b"select copy").copies);
        assert_eq!(look(b"prepare a as select 1").pin, Some(Pin::Prepare));
        assert_eq!(look(b"select 2;execute a").pin, Some(Pin::Execute));
        assert_eq!(look(b"select 2 execute").pin, None);
    }

    #[test]
    fn any_bytes_end() {
        let mut state = 7_u32;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..state % 17)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"$$'\"e\\;/**/-\n a1\xff("[(state >> 16) as usize % 18]
                })
                .collect();
            state = state.wrapping_add(12_345);
            look(&text);
        }
    }
}
