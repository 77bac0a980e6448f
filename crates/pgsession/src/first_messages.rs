//! First-message peek: the text and the parameters of a Bind in a client's first messages, as far
//! as they are here.
//!
//! Nothing here is answered before Sync, Flush, Query or FunctionCall, so that whoever waits for more of
//! the messages before one of these waits for what the client sends of itself.

use crate::sql::Format;
use crate::statements::{Client as Statements, StatementCache};
use pgwire::frame::{Frames, Frontend, HEAD, Piece};

/// Further bytes that are waited for at once where it is not known how many are needed \[byte\].
const STEP: usize = 32 * 1024;

/// Something that first messages say, if that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked<T> {
    /// It is.
    Here(T),
    /// So many bytes must be readable to tell, or to look again.
    More {
        /// Their number \[byte\].
        needs: usize,
    },
}

/// The text that a client's first message says or names, but for a Close before it; empty if it does
/// neither.
pub fn text<'a>(
    frames: &Frames<Frontend>,
    readable: &'a [u8],
    statements: &Statements,
    cache: &'a StatementCache,
) -> Peeked<&'a [u8]> {
    let mut at = 0;
    loop {
        let rest = &readable[at..];
        // What is no message says nothing, and is told so.
        let Ok(piece) = frames.look(rest) else { return Peeked::Here(b"") };
        let (tag, len) = match piece {
            Piece::More { missing } => return Peeked::More { needs: readable.len() + missing },
            Piece::Rest { .. } => return Peeked::Here(b""),
            Piece::Whole { tag, len } | Piece::Begin { tag, len, .. } => (tag, len),
        };
        let body = &rest[HEAD..piece.bytes()];
        let is_cut = piece.bytes() < len;
        let text = match tag {
            Frontend::Close => {
                at += len;
                continue;
            }
            Frontend::Query | Frontend::Parse if is_cut => return Peeked::More { needs: at + len },
            Frontend::Query => string(body).map(|(text, _)| text),
            Frontend::Parse => {
                string(body).and_then(|(_, behind)| string(behind)).map(|(text, _)| text)
            }
            // Names are short: they are here, or the server does not take them.
            Frontend::Bind => string(body)
                .and_then(|(_, behind)| string(behind))
                .and_then(|(name, _)| cache.text(statements, name)),
            Frontend::Describe => body
                .strip_prefix(b"S")
                .and_then(string)
                .and_then(|(name, _)| cache.text(statements, name)),
            _ => None,
        };
        return Peeked::Here(text.unwrap_or_default());
    }
}

/// The Bind that a client's first messages begin with, or that follows its first Parse before anything
/// else is executed; none if there is no such Bind.
pub fn bind<'a>(frames: &Frames<Frontend>, readable: &'a [u8]) -> Peeked<Option<Bind<'a>>> {
    let mut at = 0;
    loop {
        let rest = &readable[at..];
        let Ok(piece) = frames.look(rest) else { return Peeked::Here(None) };
        let (tag, len) = match piece {
            Piece::More { missing } => return Peeked::More { needs: readable.len() + missing },
            Piece::Rest { .. } => return Peeked::Here(None),
            Piece::Whole { tag, len } | Piece::Begin { tag, len, .. } => (tag, len),
        };
        match tag {
            Frontend::Bind => {
                let step = (readable.len() / STEP + 1) * STEP;
                let needs = (piece.bytes() < len).then(|| step.min(at + len));
                let behind = string(&rest[HEAD..piece.bytes()])
                    .and_then(|(_, behind)| string(behind))
                    .map(|(_, behind)| behind);
                return Peeked::Here(behind.map(|behind| Bind { behind, needs }));
            }
            Frontend::Parse if piece.bytes() < len => return Peeked::More { needs: at + len },
            Frontend::Parse | Frontend::Describe | Frontend::Close => at += len,
            _ => return Peeked::Here(None),
        }
    }
}

/// The format and value of a parameter; without a value it is NULL.
pub type Parameter<'a> = (Format, Option<&'a [u8]>);

/// A Bind, as far as it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// From the formats of its parameters on.
    behind: &'a [u8],
    /// Bytes that must be readable to look again, if not all of it is here \[byte\].
    needs: Option<usize>,
}

impl<'a> Bind<'a> {
    /// True if all of it is here.
    pub fn is_whole(&self) -> bool {
        self.needs.is_none()
    }

    /// The format and value of a parameter, by its number from 1; none if it is not there.
    pub fn parameter(&self, number: u16) -> Peeked<Option<Parameter<'a>>> {
        match (self.find(number), self.needs) {
            (None, Some(needs)) => Peeked::More { needs },
            (found, _) => Peeked::Here(found),
        }
    }

    fn find(&self, number: u16) -> Option<Parameter<'a>> {
        let index = usize::from(number.checked_sub(1)?);
        let (formats, rest) = count(self.behind)?;
        let (codes, rest) = rest.split_at_checked(formats * 2)?;
        let code = match formats {
            0 => &[0, 0][..],
            1 => codes,
            _ => codes.get(index * 2..index * 2 + 2)?,
        };
        let format = if code == [0, 1] { Format::Binary } else { Format::Text };
        let (values, mut rest) = count(rest)?;
        for at in 0..values {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            // A negative length is NULL.
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (value, behind) = behind.split_at_checked(length.unwrap_or(0))?;
            if at == index {
                return Some((format, length.map(|_| value)));
            }
            rest = behind;
        }
        None
    }
}

fn count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<2>()?;
    Some((usize::from(u16::from_be_bytes(*count)), rest))
}

/// A string that ends with 0, and what is behind it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::Bounds;
    use pgwire::frame::Limits;
    use pgwire::message::write;

    fn text_of(bytes: &[u8]) -> Peeked<String> {
        let cache = StatementCache::new([0; 8], Bounds::default());
        let frames = Frames::new(Limits::SESSION);
        match text(&frames, bytes, &Statements::new(0), &cache) {
            Peeked::Here(text) => Peeked::Here(String::from_utf8(text.to_vec()).unwrap()),
            Peeked::More { needs } => Peeked::More { needs },
        }
    }

    fn here(text: &str) -> Peeked<String> {
        Peeked::Here(text.to_owned())
    }

    fn message(tag: Frontend, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write::message(&mut out, tag, |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn the_first_message_says_the_text_or_nothing() {
        let mut query = Vec::new();
        write::query(&mut query, "select 1");
        assert_eq!(text_of(&query), here("select 1"));
        let cut = text_of(&query[..query.len() - 1]);
        assert_eq!(cut, Peeked::More { needs: query.len() }, "it is not all here");
        assert_eq!(text_of(&message(Frontend::Parse, b"name\0select $1\0\0\0")), here("select $1"));
        let closed = [message(Frontend::Close, b"Sname\0"), query].concat();
        assert_eq!(text_of(&closed), here("select 1"));
        assert_eq!(
            text_of(&closed[..12]),
            Peeked::More { needs: 16 },
            "and what is behind a Close"
        );
        let large = message(Frontend::Query, &[b'x'; 10_000]);
        assert_eq!(text_of(&large[..9000]), Peeked::More { needs: large.len() });
        for (tag, body) in [
            (Frontend::Bind, &b"\0unknown\0\0\0\0\0\0\0"[..]),
            (Frontend::Describe, b"Sunknown\0"),
            (Frontend::Query, b"without an end"),
            (Frontend::Sync, b""),
        ] {
            assert_eq!(text_of(&message(tag, body)), here(""), "{tag:?}");
        }
    }

    #[test]
    fn a_parameter_is_found_in_the_first_bind() {
        let frames = Frames::new(Limits::SESSION);
        let parameter = |bytes: &[u8], number| match bind(&frames, bytes) {
            Peeked::Here(None) => Peeked::Here(None),
            Peeked::More { needs } => Peeked::More { needs },
            Peeked::Here(Some(bind)) => match bind.parameter(number) {
                Peeked::More { needs } => Peeked::More { needs },
                Peeked::Here(found) => {
                    Peeked::Here(found.map(|(format, value)| (format, value.map(<[u8]>::to_vec))))
                }
            },
        };
        let found =
            |format, value: Option<&[u8]>| Peeked::Here(Some((format, value.map(<[u8]>::to_vec))));
        let parse = message(Frontend::Parse, b"\0select $1, $2, $3\0\0\0");
        let describe = message(Frontend::Describe, b"S\0");
        // Formats for each; 7 in binary, NULL, a text.
        let each =
            b"\0\0\0\x03\0\x01\0\0\0\0\0\x03\0\0\0\x02\0\x07\xff\xff\xff\xff\0\0\0\x02ab\0\0";
        let bound = message(Frontend::Bind, each);
        let all = [&parse[..], &describe, &bound].concat();
        for bytes in [&all[..], &bound] {
            assert_eq!(parameter(bytes, 1), found(Format::Binary, Some(&[0, 7])));
            assert_eq!(parameter(bytes, 2), found(Format::Text, None), "NULL");
            assert_eq!(parameter(bytes, 3), found(Format::Text, Some(b"ab")));
            assert_eq!(parameter(bytes, 4), Peeked::Here(None));
            assert_eq!(parameter(bytes, 0), Peeked::Here(None));
        }
        for short in 0..all.len() {
            let more =
                matches!(parameter(&all[..short], 1), Peeked::More { needs } if needs > short);
            assert!(more, "it is not all here: {short}");
        }
        for short in 2..each.len() - 3 {
            let cut = message(Frontend::Bind, &each[..short]);
            assert_eq!(parameter(&cut, 3), Peeked::Here(None), "{short} bytes of it");
        }
        // One format for all.
        let one = message(Frontend::Bind, b"\0\0\0\x01\0\x01\0\x01\0\0\0\x01x\0\0");
        assert_eq!(parameter(&one, 1), found(Format::Binary, Some(b"x")));
        // What asks for replies, or runs something, has no Bind before it.
        for tag in [Frontend::Query, Frontend::Sync, Frontend::Flush, Frontend::Execute] {
            let said = [&parse[..], &message(tag, b"\0\0\0\0\0"), &bound].concat();
            assert_eq!(parameter(&said, 1), Peeked::Here(None), "{tag:?}");
        }
    }

    #[test]
    fn a_parameter_counts_before_the_rest_of_its_bind_is_here() {
        let frames = Frames::new(Limits::SESSION);
        let document = vec![b'x'; 100_000];
        let value = |out: &mut Vec<u8>, value: &[u8]| {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        };
        let mut body = b"\0\0\0\0\0\x03".to_vec();
        value(&mut body, b"42");
        value(&mut body, &document);
        value(&mut body, b"43");
        body.extend_from_slice(b"\0\0");
        let said = message(Frontend::Bind, &body);
        let look = |here: usize, number| match bind(&frames, &said[..here]) {
            Peeked::Here(Some(bind)) => bind.parameter(number),
            other => panic!("{other:?}"),
        };
        let (first, last) =
            (Some((Format::Text, Some(&b"42"[..]))), Some((Format::Text, Some(&b"43"[..]))));
        for here in [9000, 32_768, 70_000, said.len()] {
            assert_eq!(look(here, 1), Peeked::Here(first), "{here}");
        }
        assert_eq!(look(9000, 3), Peeked::More { needs: 32_768 });
        assert_eq!(look(32_768, 3), Peeked::More { needs: 65_536 });
        assert_eq!(look(99_000, 3), Peeked::More { needs: said.len() });
        assert_eq!(look(said.len(), 3), Peeked::Here(last));
        assert_eq!(look(said.len(), 4), Peeked::Here(None));
    }
}
