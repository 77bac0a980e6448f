//! Reads a response as it arrives, byte by byte if need be, and keeps nothing but what it says.
//!
//! Pure: fed with bytes, it answers how far it got. It believes nothing: whatever a server sends,
//! it takes a bounded amount of memory and comes to an end.

use std::mem::MaybeUninit;

use measure::ErrorKind;

/// The longest head, and the longest trailers \[bytes\].
const HEAD_MAX: usize = 32 << 10;
/// The most header fields of a response.
const HEADERS_MAX: usize = 128;
/// The longest line that announces a chunk, its extensions included \[bytes\].
const CHUNK_LINE_MAX: usize = 4 << 10;

/// One response, being read.
#[derive(Debug)]
pub(crate) struct Response {
    state: State,
    /// The head as far as it came, if it did not come in one piece.
    partial: Vec<u8>,
    /// Possibility of a body at all, whatever the head announces.
    body: Body,
    status: u16,
    keeps_open: bool,
    /// Length of the body, where the head announces it.
    length: Option<u64>,
    /// All bytes of the response so far, head included.
    bytes: u64,
}

/// Possibility of a body after the head, by the request's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// As the head says.
    Expected,
    /// Never (HEAD).
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    Chunked(Chunk),
    UntilClose,
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the line that announces a chunk.
    Line { size: u64, digits: u32, place: Place, length: usize },
    /// In the chunk.
    Bytes(u64),
    /// In the line end after a chunk.
    End { cr: Cr },
    /// In the trailers: whether the line so far is empty.
    Trailers { line: usize, length: usize, cr: Cr },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size,
    Extension,
    Cr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cr {
    NotYet,
    Seen,
}

/// Progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More is to come.
    More,
    /// It is complete; so many of the bytes given belong to it.
    Complete(usize),
}

impl Response {
    pub(crate) fn new() -> Response {
        Response {
            state: State::Head,
            partial: Vec::new(),
            body: Body::Expected,
            status: 0,
            keeps_open: true,
            length: None,
            bytes: 0,
        }
    }

    /// Begins with the next response.
    pub(crate) fn restart(&mut self, body: Body) {
        self.state = State::Head;
        self.partial.clear();
        self.body = body;
        self.status = 0;
        self.keeps_open = true;
        self.length = None;
        self.bytes = 0;
    }

    /// The length of the body as the head announces it \[bytes\]; of an answer to HEAD, the length that one
    /// to GET would have.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The status; 0 before the head is complete.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// True if the connection may be used again after a complete response.
    pub(crate) fn keeps_open(&self) -> bool {
        self.keeps_open
    }

    /// All bytes so far, head included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes to come of a body of announced length; 0 in every other state.
    pub(crate) fn rest(&self) -> u64 {
        if let State::Length(rest) = self.state { rest } else { 0 }
    }

    /// Takes note of bytes of the body that were thrown away unseen, at most one more than
    /// [`rest`](Response::rest).
    ///
    /// # Errors
    /// `WrongLength` if the body is longer than announced.
    pub(crate) fn discarded(&mut self, count: u64) -> Result<Progress, ErrorKind> {
        let rest = self.rest();
        self.bytes += count;
        if count > rest {
            return Err(ErrorKind::WrongLength);
        }
        self.state = if count == rest { State::Complete } else { State::Length(rest - count) };
        Ok(if count == rest { Progress::Complete(count as usize) } else { Progress::More })
    }

    /// Takes bytes as they came.
    ///
    /// # Errors
    /// `Malformed` if they are not HTTP.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<Progress, ErrorKind> {
        let mut at = 0;
        while at < input.len() && self.state != State::Complete {
            at += match self.state {
                State::Head => self.head(&input[at..])?,
                State::Length(rest) => {
                    let taken = rest.min((input.len() - at) as u64);
                    let left = rest - taken;
                    self.state = if left == 0 { State::Complete } else { State::Length(left) };
                    taken as usize
                }
                State::Chunked(chunk) => self.chunk(chunk, &input[at..])?,
                State::UntilClose => input.len() - at,
                State::Complete => 0,
            };
        }
        self.bytes += at as u64;
        Ok(if self.state == State::Complete { Progress::Complete(at) } else { Progress::More })
    }

    /// The peer has closed.
    ///
    /// # Errors
    /// `WrongLength` in a body of announced length, `ClosedEarly` elsewhere, except where the close
    /// is the end.
    pub(crate) fn end(&mut self) -> Result<(), ErrorKind> {
        match self.state {
            State::UntilClose | State::Complete => {
                self.state = State::Complete;
                Ok(())
            }
            State::Length(_) => Err(ErrorKind::WrongLength),
            // A line that was never ended has not been looked at yet.
            State::Head if parse_head(&self.partial).is_err() => Err(ErrorKind::Malformed),
            State::Head | State::Chunked(_) => Err(ErrorKind::ClosedEarly),
        }
    }

    /// Takes a head, or a part of it; how many bytes of `input` it took.
    #[inline]
    fn head(&mut self, input: &[u8]) -> Result<usize, ErrorKind> {
        if self.partial.is_empty() {
            return match parse_head(input)? {
                Some(head) => {
                    self.accept(&head)?;
                    Ok(head.length)
                }
                None => self.keep(input),
            };
        }
        self.head_in_pieces(input)
    }

    #[cold]
    fn head_in_pieces(&mut self, input: &[u8]) -> Result<usize, ErrorKind> {
        let before = self.partial.len();
        // A head ends with a line, so only a line's end is worth another look.
        if !input.contains(&b'\n') {
            return self.keep(input);
        }
        let taken = input.len().min(HEAD_MAX - before);
        self.partial.extend_from_slice(&input[..taken]);
        let partial = std::mem::take(&mut self.partial);
        let Some(head) = parse_head(&partial)? else {
            if partial.len() >= HEAD_MAX {
                return Err(ErrorKind::Malformed);
            }
            self.partial = partial;
            return Ok(taken);
        };
        self.accept(&head)?;
        // What was kept before held no complete head, so this one ends in what came now.
        Ok(head.length - before)
    }

    fn keep(&mut self, input: &[u8]) -> Result<usize, ErrorKind> {
        if self.partial.len() + input.len() >= HEAD_MAX {
            return Err(ErrorKind::Malformed);
        }
        self.partial.extend_from_slice(input);
        Ok(input.len())
    }

    /// Decides what follows a head (RFC 9112, section 6.3).
    #[inline]
    fn accept(&mut self, head: &Head) -> Result<(), ErrorKind> {
        if (100..200).contains(&head.status) && head.status != 101 {
            // An interim response: the final one follows.
            return Ok(());
        }
        self.status = head.status;
        self.keeps_open = head.keeps_open;
        self.length = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let no_body = self.body == Body::Never || matches!(head.status, 101 | 204 | 304);
        self.state = if no_body {
            State::Complete
        } else {
            match head.framing {
                Framing::Length(0) => State::Complete,
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::Chunked(Chunk::line()),
                Framing::UntilClose => {
                    self.keeps_open = false;
                    State::UntilClose
                }
            }
        };
        Ok(())
    }

    fn chunk(&mut self, chunk: Chunk, input: &[u8]) -> Result<usize, ErrorKind> {
        if let Chunk::Bytes(rest) = chunk {
            let taken = rest.min(input.len() as u64);
            self.state = State::Chunked(match rest - taken {
                0 => Chunk::End { cr: Cr::NotYet },
                left => Chunk::Bytes(left),
            });
            return Ok(taken as usize);
        }
        self.state = match chunk.step(input[0]).ok_or(ErrorKind::Malformed)? {
            Some(next) => State::Chunked(next),
            None => State::Complete,
        };
        Ok(1)
    }
}

impl Chunk {
    fn line() -> Chunk {
        Chunk::Line { size: 0, digits: 0, place: Place::Size, length: 0 }
    }

    /// Takes one byte outside a chunk's data: the next state, `Some(None)` at the very end, `None`
    /// if the byte must not stand here.
    fn step(self, byte: u8) -> Option<Option<Chunk>> {
        match self {
            Chunk::Line { size, digits, place, length } => {
                Chunk::step_line(size, digits, place, length, byte).map(Some)
            }
            Chunk::Bytes(_) => None,
            Chunk::End { cr } => match (cr, byte) {
                (Cr::NotYet, b'\r') => Some(Some(Chunk::End { cr: Cr::Seen })),
                (Cr::Seen, b'\n') => Some(Some(Chunk::line())),
                _ => None,
            },
            Chunk::Trailers { line, length, cr } => match (cr, byte) {
                _ if length >= HEAD_MAX => None,
                (Cr::NotYet, b'\r') => {
                    Some(Some(Chunk::Trailers { line, length: length + 1, cr: Cr::Seen }))
                }
                (Cr::Seen, b'\n') if line == 0 => Some(None),
                (Cr::Seen, b'\n') => {
                    Some(Some(Chunk::Trailers { line: 0, length: length + 1, cr: Cr::NotYet }))
                }
                (Cr::NotYet, b'\n') | (Cr::Seen, _) => None,
                (Cr::NotYet, _) => {
                    Some(Some(Chunk::Trailers { line: line + 1, length: length + 1, cr }))
                }
            },
        }
    }

    fn step_line(size: u64, digits: u32, place: Place, length: usize, byte: u8) -> Option<Chunk> {
        if length >= CHUNK_LINE_MAX {
            return None;
        }
        let on =
            |size, digits, place| Some(Chunk::Line { size, digits, place, length: length + 1 });
        match (place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < 16 => {
                let digit = (byte as char).to_digit(16).expect("the pattern holds hex digits");
                on(size << 4 | u64::from(digit), digits + 1, Place::Size)
            }
            (Place::Size, _) if digits == 0 => None,
            (Place::Size, b';' | b' ' | b'\t') => on(size, digits, Place::Extension),
            (Place::Size | Place::Extension, b'\r') => on(size, digits, Place::Cr),
            (Place::Extension, b'\n') => None,
            (Place::Extension, _) => on(size, digits, Place::Extension),
            (Place::Cr, b'\n') if size == 0 => {
                Some(Chunk::Trailers { line: 0, length: 0, cr: Cr::NotYet })
            }
            (Place::Cr, b'\n') => Some(Chunk::Bytes(size)),
            _ => None,
        }
    }
}

/// Facts of a head about the message that it begins.
struct Head {
    length: usize,
    status: u16,
    keeps_open: bool,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Reads a head; `None` if it is not complete.
#[inline]
fn parse_head(input: &[u8]) -> Result<Option<Head>, ErrorKind> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        input,
        &mut headers,
    );
    let length = match parsed.map_err(|_| ErrorKind::Malformed)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let mut head = Head {
        length,
        status: response.code.unwrap_or(0),
        keeps_open: response.version == Some(1),
        framing: Framing::UntilClose,
    };
    let mut announced = None;
    let mut coded = None;
    for header in response.headers.iter() {
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = decimal(header.value).ok_or(ErrorKind::Malformed)?;
                if announced.is_some_and(|before| before != length) {
                    return Err(ErrorKind::Malformed);
                }
                announced = Some(length);
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                coded = Some(last_word_is(header.value, b"chunked"));
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                if has_word(header.value, b"close") {
                    head.keeps_open = false;
                } else if has_word(header.value, b"keep-alive") {
                    head.keeps_open = true;
                }
            }
            _ => {}
        }
    }
    // A transfer coding overrides a length; one that does not end in `chunked` ends with the close.
    head.framing = match (coded, announced) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    };
    Ok(Some(head))
}

/// Digits and nothing else, below 2^63.
#[inline]
fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    value.iter().try_fold(0_u64, |number, &byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

fn words(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn has_word(value: &[u8], wanted: &[u8]) -> bool {
    words(value).any(|word| word.eq_ignore_ascii_case(wanted))
}

fn last_word_is(value: &[u8], wanted: &[u8]) -> bool {
    words(value).next_back().is_some_and(|word| word.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
