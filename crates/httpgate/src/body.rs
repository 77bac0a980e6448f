//! Message bodies: where one ends. A gate and the server behind it must agree on that to the byte,
//! else one client's bytes become another client's request; so this is strict, and it is a pure
//! state machine without sockets.

use thiserror::Error;

/// Length of a message body, by RFC 9112 section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// So many bytes \[B\].
    Length(u64),
    /// In chunks that end themselves.
    Chunked,
    /// Until the sender closes. Only responses may end so.
    UntilClose,
}

/// Why a body was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The size of a chunk is not 1 to 15 hexadecimal digits.
    #[error("a chunk size is not 1 to 15 hexadecimal digits")]
    ChunkSize,
    /// A line or a chunk does not end in CR LF, or a line holds a control character.
    #[error("a chunk or a line of it does not end in CR LF")]
    LineEnd,
    /// Extensions of chunks, or trailer fields, are longer than the bound.
    #[error("chunk extensions or trailer fields are longer than {EXTRA_MAX} bytes")]
    ExtraTooLong,
    /// A trailer field is not a name, a colon and a value.
    #[error("a trailer field is malformed")]
    Trailer,
    /// The sender closed before the end of the body.
    #[error("the sender closed before the end of the body")]
    Truncated,
}

/// Kind of the next bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// After `skip` bytes of framing come `len` bytes of content. Both are consumed.
    Content {
        /// Framing before the content \[B\].
        skip: usize,
        /// Content \[B\].
        len: usize,
    },
    /// So many bytes of framing are consumed, and what follows is not here yet.
    More(usize),
    /// So many bytes of framing are consumed, and the body has ended.
    End(usize),
}

/// Bytes of chunk extensions and trailer fields that one body may have in all \[B\]. They mean
/// nothing to a gate; without a bound they would be work that nobody asked for.
pub const EXTRA_MAX: usize = 8 * 1024;

/// More digits than any body needs; 15 cannot overflow 64 bits.
const SIZE_DIGITS_MAX: u8 = 15;

/// Decodes the chunked transfer coding (RFC 9112 section 7.1), without its leniencies: no white
/// space around the size, no line feed alone. Trailer fields are checked and dropped, as section
/// 7.1.2 allows.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Content of this chunk that has not come yet \[B\]; while the size is read, the size so far.
    left: u64,
    /// Extension and trailer bytes seen \[B\].
    extra: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the size, after so many digits.
    Size(u8),
    Extension,
    SizeLf,
    Content,
    ContentCr,
    ContentLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Ended,
}

impl Default for ChunkedDecoder {
    fn default() -> ChunkedDecoder {
        ChunkedDecoder { state: State::Size(0), left: 0, extra: 0 }
    }
}

impl ChunkedDecoder {
    /// Reads on in `input`, which begins where the last piece ended, for at most `most` bytes of
    /// content.
    ///
    /// # Errors
    /// If the bytes are no chunked body; the decoder is of no use afterwards.
    pub fn next(&mut self, input: &[u8], most: usize) -> Result<Piece, BodyError> {
        for (at, &byte) in input.iter().enumerate() {
            match self.state {
                State::Content => {
                    let here = (input.len() - at).min(most);
                    let len = usize::try_from(self.left).map_or(here, |left| left.min(here));
                    self.left -= len as u64;
                    if self.left == 0 {
                        self.state = State::ContentCr;
                    }
                    return Ok(Piece::Content { skip: at, len });
                }
                State::LastLf => {
                    expect(byte, b'\n')?;
                    self.state = State::Ended;
                    return Ok(Piece::End(at + 1));
                }
                State::Ended => return Ok(Piece::End(at)),
                _ => self.state = self.framing(byte)?,
            }
        }
        Ok(if self.state == State::Ended { Piece::End(0) } else { Piece::More(input.len()) })
    }

    /// The state after one byte of framing.
    fn framing(&mut self, byte: u8) -> Result<State, BodyError> {
        Ok(match self.state {
            State::Size(digits) => return self.size(digits, byte),
            State::Extension => match byte {
                b'\r' => State::SizeLf,
                _ => self.extra_byte(byte).map(|()| State::Extension)?,
            },
            State::SizeLf => {
                expect(byte, b'\n')?;
                if self.left == 0 { State::TrailerStart } else { State::Content }
            }
            State::ContentCr => expect(byte, b'\r').map(|()| State::ContentLf)?,
            State::ContentLf => expect(byte, b'\n').map(|()| State::Size(0))?,
            State::TrailerStart => match byte {
                b'\r' => State::LastLf,
                _ => self.trailer_name(byte)?,
            },
            State::TrailerName => match byte {
                b':' => self.extra_byte(byte).map(|()| State::TrailerValue)?,
                _ => self.trailer_name(byte)?,
            },
            State::TrailerValue => match byte {
                b'\r' => {
                    self.extra += 2;
                    State::TrailerLf
                }
                _ => self.extra_byte(byte).map(|()| State::TrailerValue)?,
            },
            State::TrailerLf => expect(byte, b'\n').map(|()| State::TrailerStart)?,
            State::Content | State::LastLf | State::Ended => unreachable!("not framing"),
        })
    }

    fn size(&mut self, digits: u8, byte: u8) -> Result<State, BodyError> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == SIZE_DIGITS_MAX {
                return Err(BodyError::ChunkSize);
            }
            let before = if digits == 0 { 0 } else { self.left };
            self.left = before * 16 + u64::from(digit);
            return Ok(State::Size(digits + 1));
        }
        match byte {
            _ if digits == 0 => Err(BodyError::ChunkSize),
            b'\r' => Ok(State::SizeLf),
            b';' => self.extra_byte(byte).map(|()| State::Extension),
            _ => Err(BodyError::ChunkSize),
        }
    }

    fn trailer_name(&mut self, byte: u8) -> Result<State, BodyError> {
        if !is_token(byte) {
            return Err(BodyError::Trailer);
        }
        self.extra_byte(byte)?;
        Ok(State::TrailerName)
    }

    fn extra_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        if (byte < b' ' && byte != b'\t') || byte == 0x7f {
            return Err(BodyError::LineEnd);
        }
        self.extra += 1;
        if self.extra > EXTRA_MAX { Err(BodyError::ExtraTooLong) } else { Ok(()) }
    }
}

fn expect(byte: u8, wanted: u8) -> Result<(), BodyError> {
    if byte == wanted { Ok(()) } else { Err(BodyError::LineEnd) }
}

/// True if `byte` may stand in a token (RFC 9110 section 5.6.2), such as a field name.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A body while it is being read.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Left(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    Done,
}

impl Body {
    pub(crate) fn new(framing: Framing) -> Body {
        match framing {
            Framing::None | Framing::Length(0) => Body::Done,
            Framing::Length(length) => Body::Left(length),
            Framing::Chunked => Body::Chunked(ChunkedDecoder::default()),
            Framing::UntilClose => Body::UntilClose,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Body::Done)
    }

    /// Reads on in `input`, for at most `most` bytes of content.
    pub(crate) fn next(&mut self, input: &[u8], most: usize) -> Result<Piece, BodyError> {
        let here = input.len().min(most);
        match self {
            Body::Left(left) => {
                let len = usize::try_from(*left).map_or(here, |left| left.min(here));
                self.took(len);
                Ok(Piece::Content { skip: 0, len })
            }
            Body::UntilClose => Ok(Piece::Content { skip: 0, len: here }),
            Body::Chunked(decoder) => {
                let piece = decoder.next(input, most)?;
                if matches!(piece, Piece::End(_)) {
                    *self = Body::Done;
                }
                Ok(piece)
            }
            Body::Done => Ok(Piece::End(0)),
        }
    }

    /// Number of bytes that may be taken as content without looking at them \[B\].
    pub(crate) fn plain(&self) -> Option<u64> {
        match self {
            Body::Left(left) => Some(*left),
            Body::UntilClose => Some(u64::MAX),
            Body::Chunked(_) | Body::Done => None,
        }
    }

    /// Counts `len` bytes of plain content that were taken.
    pub(crate) fn took(&mut self, len: usize) {
        if let Body::Left(left) = self {
            *left -= len as u64;
            if *left == 0 {
                *self = Body::Done;
            }
        }
    }

    /// The sender has closed.
    ///
    /// # Errors
    /// If the body had not ended.
    pub(crate) fn close(&mut self) -> Result<(), BodyError> {
        match self {
            Body::UntilClose | Body::Done => {
                *self = Body::Done;
                Ok(())
            }
            Body::Left(_) | Body::Chunked(_) => Err(BodyError::Truncated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a complete body and how many bytes of `input` it was.
    fn decode(input: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize)>, BodyError> {
        let (mut decoder, mut content, mut at) = (ChunkedDecoder::default(), Vec::new(), 0);
        let mut upto = step.min(input.len());
        loop {
            match decoder.next(&input[at..upto], usize::MAX)? {
                Piece::Content { skip, len } => {
                    content.extend_from_slice(&input[at + skip..at + skip + len]);
                    at += skip + len;
                }
                Piece::End(used) => return Ok(Some((content, at + used))),
                Piece::More(used) => {
                    at += used;
                    assert_eq!(at, upto);
                    if upto == input.len() {
                        return Ok(None);
                    }
                    upto = (upto + step).min(input.len());
                }
            }
        }
    }

    #[test]
    fn good_bodies_decode_the_same_at_every_step() {
        let table: &[(&[u8], &[u8], usize)] = &[
            (b"0\r\n\r\n", b"", 0),
            (b"5\r\nhello\r\n0\r\n\r\nGET /", b"hello", 5),
            (b"5;a=b;c=\"d\"\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!", 0),
            (b"00A\r\n0123456789\r\n000\r\nX: y\r\nZ:\r\n\r\n", b"0123456789", 0),
            (b"2\r\n\r\n\r\n0;x\r\n\r\n", b"\r\n", 0),
        ];
        for (input, content, rest) in table {
            for step in 1..=input.len() {
                let (found, used) = decode(input, step).unwrap().expect("complete");
                assert_eq!((found.as_slice(), input.len() - used), (*content, *rest));
            }
        }
    }

    #[test]
    fn bad_bodies_are_refused_at_every_step() {
        let long = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(EXTRA_MAX));
        let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(EXTRA_MAX / 3));
        let table: &[(&[u8], BodyError)] = &[
            (b"\r\n", BodyError::ChunkSize),
            (b" 5\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"5 \r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"+5\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"-1\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"0x5\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"5_0\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"ffffffffffffffff\r\n", BodyError::ChunkSize),
            (b"10000000000000005\r\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"5\nhello\r\n0\r\n\r\n", BodyError::ChunkSize),
            (b"5;a\nhello\r\n0\r\n\r\n", BodyError::LineEnd),
            (b"5\rhello", BodyError::LineEnd),
            (b"5\r\nhelloX\r\n", BodyError::LineEnd),
            (b"5\r\nhello\n0\r\n\r\n", BodyError::LineEnd),
            (b"5\r\nhello\r0\r\n\r\n", BodyError::LineEnd),
            (b"0\r\nX\r\n\r\n", BodyError::Trailer),
            (b"0\r\n X: y\r\n\r\n", BodyError::Trailer),
            (b"0\r\nX : y\r\n\r\n", BodyError::Trailer),
            (b"0\r\nX: y\n\r\n", BodyError::LineEnd),
            (b"0\r\n\rX", BodyError::LineEnd),
            (b"0;\0\r\n\r\n", BodyError::LineEnd),
            (long.as_bytes(), BodyError::ExtraTooLong),
            (trailers.as_bytes(), BodyError::ExtraTooLong),
        ];
        for (input, error) in table {
            for step in (1..=input.len()).take(40).chain([input.len()]) {
                let found = decode(input, step);
                let shown = String::from_utf8_lossy(&input[..input.len().min(80)]);
                assert_eq!(found, Err(*error), "{shown:?}");
            }
        }
    }

    #[test]
    fn content_is_handed_out_in_portions_no_larger_than_asked() {
        let mut decoder = ChunkedDecoder::default();
        let input = b"5\r\nhello\r\n0\r\n\r\n";
        assert_eq!(decoder.next(input, 2), Ok(Piece::Content { skip: 3, len: 2 }));
        assert_eq!(decoder.next(&input[5..], 9), Ok(Piece::Content { skip: 0, len: 3 }));
        assert_eq!(decoder.next(&input[8..], 9), Ok(Piece::End(7)));
    }

    #[test]
    fn a_close_ends_only_a_body_that_lasts_until_the_close() {
        assert_eq!(Body::new(Framing::UntilClose).close(), Ok(()));
        assert_eq!(Body::new(Framing::Length(0)).close(), Ok(()));
        assert_eq!(Body::new(Framing::Length(1)).close(), Err(BodyError::Truncated));
        assert_eq!(Body::new(Framing::Chunked).close(), Err(BodyError::Truncated));
    }
}
