//! Cuts a stream of bytes into the protocol's messages, without a copy and without an allocation.
//!
//! A message is a byte that names it, a length that counts itself, and a body. A body may have a
//! gigabyte, which no buffer holds; so a large message is not waited for: it is said to begin, and
//! what follows is said to be its rest. What the gate must understand is always whole.
//!
//! ```
//! use pgwire::frame::{Frames, Frontend, HEAD, Limits, Piece};
//!
//! let mut frames = Frames::<Frontend>::new(Limits::SESSION);
//! let mut readable = &b"Q\0\0\0\x0dselect 1\0X\0\0\0"[..];
//! loop {
//!     let piece = frames.look(readable)?;
//!     if let Piece::Whole { tag, len } = piece {
//!         assert_eq!((tag, &readable[HEAD..len]), (Frontend::Query, &b"select 1\0"[..]));
//!     }
//!     match frames.take(piece) {
//!         0 => break,
//!         taken => readable = &readable[taken..],
//!     }
//! }
//! assert_eq!(frames.look(readable)?, Piece::More { missing: 1 });
//! # Ok::<(), pgwire::frame::FrameError>(())
//! ```

use std::fmt;
use std::marker::PhantomData;

use thiserror::Error;

use super::SqlState;

/// The bytes before a body: the tag and the length \[byte\].
pub const HEAD: usize = 5;

/// Reading of messages of a kind: whole or in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Small by its nature: it is always whole, and refused if it is not small.
    Short,
    /// Whole up to [`Limits::whole_max`], and in pieces above.
    Long,
    /// Rows, which the gate never looks into: as they come.
    Bulk,
}

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client.
    Frontend,
    /// A server.
    Backend,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Side::Frontend => "frontend",
            Side::Backend => "backend",
        })
    }
}

/// The byte that names a message: [`Frontend`] or [`Backend`].
pub trait Tag: Copy + fmt::Debug + PartialEq {
    /// The side that sends these.
    const SIDE: Side;
    /// The greatest length of a [`Size::Short`] message \[byte\].
    const SHORT_MAX: u32;

    /// The tag that a byte is, if there is one.
    fn from_byte(byte: u8) -> Option<Self>;

    /// The byte on the wire.
    fn byte(self) -> u8;

    /// The way in which these messages come in.
    fn size(self) -> Size;
}

macro_rules! tags {
    (
        $(#[$doc:meta])* $name:ident, $short_max:literal:
        $($(#[$about:meta])* $tag:ident = $byte:literal $size:ident,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$about])* $tag = $byte,)*
        }

        impl Tag for $name {
            const SIDE: Side = Side::$name;
            const SHORT_MAX: u32 = $short_max;

            #[inline]
            fn from_byte(byte: u8) -> Option<$name> {
                match byte {
                    $($byte => Some($name::$tag),)*
                    _ => None,
                }
            }

            #[inline]
            fn byte(self) -> u8 {
                self as u8
            }

            #[inline]
            fn size(self) -> Size {
                match self {
                    $($name::$tag => Size::$size,)*
                }
            }
        }

        impl From<$name> for u8 {
            fn from(tag: $name) -> u8 {
                tag as u8
            }
        }
    };
}

tags! {
    /// The messages of clients, by the names of PostgreSQL's documentation. Which of them are small,
    /// and how small, is as PostgreSQL has it.
    Frontend, 10_000:
    /// Gives a prepared statement its parameters.
    Bind = b'B' Long,
    /// Forgets a prepared statement or a portal.
    Close = b'C' Short,
    /// Rows for COPY.
    CopyData = b'd' Bulk,
    /// The end of the rows.
    CopyDone = b'c' Short,
    /// The end of the rows, and none of them counts.
    CopyFail = b'f' Short,
    /// Asks for the shape of a statement or a portal.
    Describe = b'D' Short,
    /// Runs a portal.
    Execute = b'E' Short,
    /// Asks for the replies so far.
    Flush = b'H' Short,
    /// Calls a function, as large objects do.
    FunctionCall = b'F' Long,
    /// Prepares a statement.
    Parse = b'P' Long,
    /// PasswordMessage, SASLInitialResponse, SASLResponse or GSSResponse, as the state has it. In a
    /// session it is as unknown as any other byte.
    Password = b'p' Long,
    /// Statements in one text.
    Query = b'Q' Long,
    /// Ends a batch.
    Sync = b'S' Short,
    /// Ends the session.
    Terminate = b'X' Short,
}

tags! {
    /// The messages of servers, by the names of PostgreSQL's documentation.
    Backend, 30_000:
    /// A step of authentication, or its good end.
    Authentication = b'R' Short,
    /// The key for cancelling.
    BackendKeyData = b'K' Short,
    /// A Bind is done.
    BindComplete = b'2' Short,
    /// A Close is done.
    CloseComplete = b'3' Short,
    /// A statement is done.
    CommandComplete = b'C' Short,
    /// Rows of COPY.
    CopyData = b'd' Bulk,
    /// The end of the rows.
    CopyDone = b'c' Short,
    /// COPY wants rows.
    CopyInResponse = b'G' Short,
    /// COPY brings rows.
    CopyOutResponse = b'H' Short,
    /// Both, for replication.
    CopyBothResponse = b'W' Short,
    /// A row.
    DataRow = b'D' Bulk,
    /// The text of a query was empty.
    EmptyQueryResponse = b'I' Short,
    /// An error.
    ErrorResponse = b'E' Long,
    /// Result of a function.
    FunctionCallResponse = b'V' Long,
    /// An older version than was asked for, or options that are not known.
    NegotiateProtocolVersion = b'v' Short,
    /// There will be no rows.
    NoData = b'n' Short,
    /// A notice, at any time.
    NoticeResponse = b'N' Long,
    /// Notification of another session, at any time.
    NotificationResponse = b'A' Long,
    /// The types of a statement's parameters.
    ParameterDescription = b't' Long,
    /// A setting's value, at any time.
    ParameterStatus = b'S' Short,
    /// A Parse is done.
    ParseComplete = b'1' Short,
    /// Execute stopped at its limit of rows.
    PortalSuspended = b's' Short,
    /// The server waits; says whether in a transaction.
    ReadyForQuery = b'Z' Short,
    /// The columns of the rows that follow.
    RowDescription = b'T' Long,
}

/// Length limits of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The greatest length of any message, as the length counts: without the tag \[byte\].
    pub length_max: u32,
    /// The largest message of [`Size::Long`] that is waited for, tag included \[byte\]. The reader's
    /// buffer must be able to hold this much, and a short message.
    pub whole_max: usize,
}

impl Limits {
    /// For a session: PostgreSQL's 1 GiB - 1, and a buffer of 8 KiB until there is need for more.
    pub const SESSION: Limits = Limits { length_max: 0x3fff_ffff, whole_max: 8192 };
    /// For a client that has not authenticated itself: small, and therefore whole. The longest
    /// passwords in use are tokens of cloud providers, of some kilobytes.
    pub const AUTHENTICATION: Limits = Limits { length_max: 8191, whole_max: 8192 };
}

/// The piece at the front of the readable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<T> {
    /// Too little to say: at least `missing` more bytes are needed.
    More {
        /// Their number \[byte\].
        missing: usize,
    },
    /// A whole message: the first `len` bytes, of which the first [`HEAD`] are no body.
    Whole {
        /// The message.
        tag: T,
        /// Its bytes, head included \[byte\].
        len: usize,
    },
    /// The first `here` bytes of a large message. Of a [`Size::Long`] one these are at least
    /// [`Limits::whole_max`], so that what stands at its front can be read.
    Begin {
        /// The message.
        tag: T,
        /// Its bytes in all, head included \[byte\].
        len: usize,
        /// Those that are here, fewer \[byte\].
        here: usize,
    },
    /// The next bytes of the message that began.
    Rest {
        /// Their number \[byte\].
        here: usize,
        /// The number that follows \[byte\]; 0 if this ends it.
        left: usize,
    },
}

impl<T> Piece<T> {
    /// The number of readable bytes that it covers; 0 only if more are needed \[byte\].
    pub fn bytes(&self) -> usize {
        match *self {
            Piece::More { .. } => 0,
            Piece::Whole { len, .. } => len,
            Piece::Begin { here, .. } | Piece::Rest { here, .. } => here,
        }
    }
}

/// Why a stream cannot be cut any further. All that remains is to say so and to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// No message begins with this byte.
    #[error("invalid {side} message type {byte}")]
    UnknownTag {
        /// The side that sent it.
        side: Side,
        /// The byte.
        byte: u8,
    },
    /// The length does not even count itself.
    #[error("invalid length {length} of {side} message type {tag}: the least is 4")]
    TooShort {
        /// The side that sent it.
        side: Side,
        /// The tag.
        tag: char,
        /// The length, which a signed reader may take for a negative one \[byte\].
        length: i32,
    },
    /// The length is more than such a message may have.
    #[error("invalid length {length} of {side} message type {tag}: the most is {length_max}")]
    TooLong {
        /// The side that sent it.
        side: Side,
        /// The tag.
        tag: char,
        /// The length \[byte\].
        length: u32,
        /// The most here and now \[byte\].
        length_max: u32,
    },
}

impl FrameError {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

/// The state of cutting one direction of one connection: how much is left of a large message.
#[derive(Clone, Debug)]
pub struct Frames<T> {
    limits: Limits,
    left: usize,
    tags: PhantomData<T>,
}

impl<T: Tag> Frames<T> {
    /// A stream of which nothing was read.
    pub fn new(limits: Limits) -> Frames<T> {
        Frames { limits, left: 0, tags: PhantomData }
    }

    /// Goes on with other limits, as after authentication.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// True if the next byte begins a message.
    pub fn is_between(&self) -> bool {
        self.left == 0
    }

    /// Says what stands at the front of `readable`. Nothing is remembered, so that a message may be
    /// looked at again, until it is [taken](Frames::take). With less of `readable`, less is said to
    /// be here of a large message.
    ///
    /// # Errors
    /// If no message can begin so.
    pub fn look(&self, readable: &[u8]) -> Result<Piece<T>, FrameError> {
        if self.left > 0 {
            return Ok(match self.left.min(readable.len()) {
                0 => Piece::More { missing: 1 },
                here => Piece::Rest { here, left: self.left - here },
            });
        }
        let Some(&byte) = readable.first() else { return Ok(Piece::More { missing: HEAD }) };
        let tag = T::from_byte(byte).ok_or(FrameError::UnknownTag { side: T::SIDE, byte })?;
        let Some(&[_, a, b, c, d]) = readable.first_chunk::<HEAD>() else {
            return Ok(Piece::More { missing: HEAD - readable.len() });
        };
        let len = self.checked(tag, u32::from_be_bytes([a, b, c, d]))?;
        let wanted = match tag.size() {
            Size::Short => len,
            Size::Long => len.min(self.limits.whole_max),
            Size::Bulk => HEAD,
        };
        Ok(match readable.len() {
            there if there >= len => Piece::Whole { tag, len },
            there if there >= wanted => Piece::Begin { tag, len, here: there },
            there => Piece::More { missing: wanted - there },
        })
    }

    /// Goes past `piece`, which [`look`](Frames::look) has just said; how many bytes that are.
    pub fn take(&mut self, piece: Piece<T>) -> usize {
        match piece {
            Piece::Begin { len, here, .. } => self.left = len - here,
            Piece::Rest { left, .. } => self.left = left,
            Piece::More { .. } | Piece::Whole { .. } => {}
        }
        piece.bytes()
    }

    /// The bytes of a message, tag included, if its length is one that it may have.
    fn checked(&self, tag: T, length: u32) -> Result<usize, FrameError> {
        let short_max = match tag.size() {
            Size::Short => T::SHORT_MAX,
            Size::Long | Size::Bulk => i32::MAX.unsigned_abs(),
        };
        let length_max = self.limits.length_max.min(short_max);
        let (side, letter) = (T::SIDE, char::from(tag.byte()));
        if length < 4 || length > i32::MAX.unsigned_abs() {
            return Err(FrameError::TooShort { side, tag: letter, length: length.cast_signed() });
        }
        if length > length_max {
            return Err(FrameError::TooLong { side, tag: letter, length, length_max });
        }
        Ok(length as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_its_byte_and_no_other_byte_is_one() {
        let frontend = (0..=255).filter_map(Frontend::from_byte);
        assert_eq!(frontend.clone().count(), 14);
        assert!(frontend.clone().all(|tag| Frontend::from_byte(tag.byte()) == Some(tag)));
        let backend = (0..=255).filter_map(Backend::from_byte);
        assert_eq!(backend.clone().count(), 24);
        assert!(backend.clone().all(|tag| Backend::from_byte(tag.byte()) == Some(tag)));
    }

    #[test]
    fn a_connection_remembers_little() {
        assert!(size_of::<Frames<Frontend>>() <= 24);
    }
}
