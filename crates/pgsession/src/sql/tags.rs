//! Reads what programs write into comments for those who see their texts:
//! `/*class='x',route='%2Fa'*/` (sqlcommenter) and `/* key: 42 */`.
//!
//! A comment counts that stands before the first command or behind the last. Pairs are parted by
//! commas, a name from its value by `=` or `:`. A value in quotes is url-decoded, and so is its
//! name; one without is as it stands, without blanks around it. What is no pair ends its comment.

use std::ops::Range;

use super::tokens::{Kind, LexerMode, Tokens, Unclear};

/// The tags of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<(Vec<u8>, Vec<u8>)>);

/// Limit of the pairs that are read of a text.
const TAGS_MAX: usize = 64;

impl Tags {
    /// Those of a text, none where there is no comment.
    ///
    /// # Errors
    ///
    /// The text cannot be read.
    pub fn of(text: &[u8], lexer_mode: LexerMode) -> Result<Tags, Unclear> {
        let mut tags = Tags::default();
        // Nearly all texts have none.
        if !text.windows(2).any(|two| two == b"/*") {
            return Ok(tags);
        }
        let mut tokens = Tokens::new(text, lexer_mode)?;
        let mut first = tokens.read()?;
        let mut comment = tokens.comment();
        while let Some(at) = comment.take() {
            tags.comment(text, at);
            if first.kind == Kind::Semicolon {
                first = tokens.read()?;
                comment = tokens.comment();
            }
        }
        // A comment behind counts if no token but semicolons follows it.
        let mut last: Option<Range<usize>> = None;
        while first.kind != Kind::End {
            let semicolon = first.kind == Kind::Semicolon;
            first = tokens.read()?;
            let found = tokens.comment();
            if found.is_some() || !semicolon {
                last = found;
            }
        }
        if let Some(at) = last {
            tags.comment(text, at);
        }
        Ok(tags)
    }

    /// The value of a tag; of several by this name the first.
    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.0.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_slice())
    }

    fn comment(&mut self, text: &[u8], at: Range<usize>) {
        // Between the marks of the comment.
        let mut rest = &text[at.start + 2..at.end - 2];
        while self.0.len() < TAGS_MAX {
            let Some((name, value, behind)) = pair(rest) else { return };
            self.0.push((name, value));
            let Some(next) = behind.trim_ascii_start().strip_prefix(b",") else { return };
            rest = next;
        }
    }
}

/// A name, its value, and what is behind.
type Pair<'a> = (Vec<u8>, Vec<u8>, &'a [u8]);

fn pair(text: &[u8]) -> Option<Pair<'_>> {
    let middle = text.iter().position(|&byte| matches!(byte, b'=' | b':' | b','))?;
    let name = text[..middle].trim_ascii();
    if name.is_empty() || text[middle] == b',' {
        return None;
    }
    let value = text[middle + 1..].trim_ascii_start();
    let Some(quoted) = value.strip_prefix(b"'") else {
        let end = value.iter().position(|&byte| byte == b',').unwrap_or(value.len());
        let (value, behind) = value.split_at(end);
        return Some((name.to_vec(), value.trim_ascii().to_vec(), behind));
    };
    let (mut found, mut bytes) = (Vec::new(), quoted.iter().enumerate());
    while let Some((index, &byte)) = bytes.next() {
        match byte {
            b'\\' => found.push(*bytes.next()?.1),
            b'\'' => return Some((decoded(name)?, decoded(&found)?, &quoted[index + 1..])),
            _ => found.push(byte),
        }
    }
    None
}

/// None if it is not url-encoded.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (mut found, mut bytes) = (Vec::with_capacity(text.len()), text.iter());
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            found.push(byte);
            continue;
        }
        let mut digit = || char::from(*bytes.next()?).to_digit(16);
        found.push((digit()? * 16 + digit()?) as u8);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_before_or_behind_a_text_in_both_ways() {
        let value = |text: &str, name: &str| {
            let tags = Tags::of(text.as_bytes(), LexerMode::default()).unwrap();
            tags.value(name.as_bytes()).map(|value| String::from_utf8(value.to_vec()).unwrap())
        };
        for (text, expected) in [
            ("select 1 /*class='x',route='%2Fa%20b'*/", Some("/a b")),
            ("/*class='x', route='%2Fa%20b'*/ select 1;", Some("/a b")),
            ("select 1; /* route: /a b , x: 1 */ ;", Some("/a b")),
            ("select 1 /*route='it%27s \\'so\\''*/ -- more\n", Some("it's 'so'")),
            ("select 1 /* nothing */", None),
            ("select /*route='a'*/ 1", None),
            ("select '/*route=''a''*/'", None),
            ("select 1 /*route='a*/", None),
            ("select 1 /*route='%zz'*/", None),
            ("select 1 /*,route='a'*/", None),
            ("-- /*route='a'*/\nselect 1", None),
            ("/*route='a'*/", Some("a")),
        ] {
            assert_eq!(value(text, "route").as_deref(), expected, "{text}");
        }
        assert_eq!(Tags::of(b"/* a", LexerMode::default()), Err(Unclear::Unterminated));
        let many = format!("/*{}z=1*/", "a=1,".repeat(1000));
        assert_eq!(value(&many, "z"), None, "a text has a bounded number of tags");
    }
}
