//! Client without a server: the messages that need one, the replies that the gate gives in a
//! server's place, and the messages passed over in a segment that was refused.
//!
//! At rest nothing is owed, no transaction is open and no COPY runs. Then PostgreSQL answers Sync with
//! ReadyForQuery, does nothing for Flush, and ignores what is left of a COPY; none of it needs a server.
//! All else does, and whoever does not get one is [refused](Unlinked::refuse) as PostgreSQL refuses a
//! message that fails: a Query or FunctionCall with its ReadyForQuery at once, and of a segment nothing
//! is heard any more until its Sync, Query and FunctionCall included.
//!
//! ```
//! use pgsession::unlinked::{Unlinked, Heard, Next};
//! use pgwire::frame::{Frames, Frontend, Limits};
//!
//! let (mut rest, mut frames) = (Unlinked::default(), Frames::<Frontend>::new(Limits::SESSION));
//! let mut out = Vec::new();
//! let said = b"P\0\0\0\x08\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
//! let heard = rest.hear(&mut frames, said, &mut out)?;
//! assert_eq!(heard, Heard { bytes: 0, next: Next::Asks });
//! assert_eq!(rest.refuse(&mut frames, said, &mut out)?, 0);
//! let heard = rest.hear(&mut frames, said, &mut out)?;
//! assert_eq!(heard, Heard { bytes: said.len(), next: Next::More });
//! assert_eq!(out, b"Z\0\0\0\x05I");
//! # Ok::<(), pgsession::unlinked::Nonsense>(())
//! ```

use thiserror::Error;

use pgwire::SqlState;
use pgwire::frame::{FrameError, Frames, Frontend, Piece, Tag};
use pgwire::message::{Status, write};

/// A client without a server, between two messages or within one that is passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unlinked {
    segment: Segment,
}

/// Treatment of the messages that come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Segment {
    /// They count.
    #[default]
    Heard,
    /// They belong to a segment that was refused.
    Refused,
}

/// Result of hearing a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Heard {
    /// The bytes that are done with \[byte\].
    pub bytes: usize,
    /// The next step.
    pub next: Next,
}

/// The bytes that were not taken, by their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing yet: more of it must come.
    More,
    /// A message that needs a server.
    Asks,
    /// Terminate.
    Terminated,
}

/// Protocol fault of a client: it is told so, as FATAL, and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Nonsense {
    /// It is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It belongs to authentication.
    #[error("invalid frontend message type {byte}")]
    Unexpected {
        /// Its tag.
        byte: u8,
    },
}

impl Nonsense {
    /// The code to answer with.
    pub fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }
}

impl Unlinked {
    /// True if what comes next counts: nothing is passed over of a segment that was refused.
    pub fn is_heard(&self) -> bool {
        self.segment == Segment::Heard
    }

    /// Takes all that needs no server, from what a client has sent; writes what it is to hear. `frames`
    /// are those of its stream.
    ///
    /// # Errors
    /// If the client must be told so and closed. What was written before is good.
    #[inline]
    pub fn hear(
        &mut self,
        frames: &mut Frames<Frontend>,
        readable: &[u8],
        to_client: &mut Vec<u8>,
    ) -> Result<Heard, Nonsense> {
        let mut bytes = 0;
        loop {
            let piece = frames.look(&readable[bytes..])?;
            match piece {
                Piece::More { .. } => return Ok(Heard { bytes, next: Next::More }),
                // Of a message that is passed over.
                Piece::Rest { .. } => {}
                Piece::Whole { tag, .. } | Piece::Begin { tag, .. } => match tag {
                    Frontend::Terminate => return Ok(Heard { bytes, next: Next::Terminated }),
                    // As in a session: `SocketBackend` knows no such message behind the login.
                    Frontend::Password => return Err(Nonsense::Unexpected { byte: tag.byte() }),
                    // At rest no transaction is open, so there is nothing to commit and the status is
                    // idle.
                    Frontend::Sync => {
                        self.segment = Segment::Heard;
                        write::ready_for_query(to_client, Status::Idle);
                    }
                    // PostgresMain ignores rows outside of a COPY: a client may send them when its COPY
                    // has failed.
                    Frontend::Flush
                    | Frontend::CopyData
                    | Frontend::CopyDone
                    | Frontend::CopyFail => {}
                    _ if self.segment == Segment::Heard => {
                        return Ok(Heard { bytes, next: Next::Asks });
                    }
                    _ => {}
                },
            }
            bytes += frames.take(piece);
        }
    }

    /// Refuses the request with which the readable bytes begin: the client has been told, or will
    /// be before what this writes. Returns the number of bytes that are done with; the rest is
    /// [heard](Unlinked::hear).
    ///
    /// # Errors
    /// If no message can begin so.
    ///
    /// # Panics
    /// If it asks nothing.
    pub fn refuse(
        &mut self,
        frames: &mut Frames<Frontend>,
        readable: &[u8],
        to_client: &mut Vec<u8>,
    ) -> Result<usize, Nonsense> {
        let piece = frames.look(readable)?;
        let (Piece::Whole { tag, .. } | Piece::Begin { tag, .. }) = piece else {
            panic!("who is refused has asked for something");
        };
        // An error of these skips nothing: the next message counts again.
        if matches!(tag, Frontend::Query | Frontend::FunctionCall) {
            write::ready_for_query(to_client, Status::Idle);
            return Ok(frames.take(piece));
        }
        debug_assert!(self.is_heard(), "who is passed over has asked for nothing");
        // The message itself belongs to the segment, and is passed over with the rest of it.
        self.segment = Segment::Refused;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgwire::frame::{HEAD, Limits};

    /// Messages of these tags, a letter each.
    fn messages(tags: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for tag in tags.bytes() {
            write::message(&mut out, tag, |out| out.extend_from_slice(b"body\0"));
        }
        out
    }

    /// The replies to a client that says this in pieces of so many bytes, and is refused whatever
    /// it asks: E for an error, Z for ReadyForQuery; then true if it has terminated.
    fn refused(said: &[u8], step: usize) -> Result<(String, bool), Nonsense> {
        let (mut rest, mut frames) = (Unlinked::default(), Frames::new(Limits::SESSION));
        let (mut heard, mut here, mut to_come) = (String::new(), Vec::new(), said.chunks(step));
        loop {
            let mut out = Vec::new();
            let Heard { bytes, next } = rest.hear(&mut frames, &here, &mut out)?;
            here.drain(..bytes);
            if next == Next::Asks {
                out.push(b'E');
                let bytes = rest.refuse(&mut frames, &here, &mut out)?;
                here.drain(..bytes);
            }
            heard.extend(out.iter().filter(|byte| b"EZ".contains(byte)).map(|&b| char::from(b)));
            if next == Next::Terminated {
                return Ok((heard, true));
            }
            if next == Next::More {
                let Some(more) = to_come.next() else { return Ok((heard, false)) };
                here.extend_from_slice(more);
            }
            assert!(here.len() <= 10_001 + step, "it is kept: {}", here.len());
        }
    }

    #[test]
    fn each_series_hears_one_error_and_each_sync_that_it_is_ready() {
        for (said, heard) in [
            ("Q", "EZ"),
            ("F", "EZ"),
            ("QQF", "EZEZEZ"),
            ("S", "Z"),
            ("HH", ""),
            ("PBDESQ", "EZEZ"),
            ("CS", "EZ"),
            ("DHS", "EZ"),
            ("BES", "EZ"),
            ("PBEHHPBE", "E"),
            // What comes before the Sync is skipped, whatever it is.
            ("PQFQHS", "EZ"),
            ("PdcfSS", "EZZ"),
            // A COPY that was refused: its rows are for nobody.
            ("QdddcQ", "EZEZ"),
            ("PBEdddcSS", "EZZ"),
            ("QdddfS", "EZZ"),
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(refused(&messages(said), step), Ok((heard.to_owned(), false)), "{said}");
            }
        }
    }

    #[test]
    fn a_session_can_end_within_a_series_that_is_passed_over() {
        let end = b"X\0\0\0\x04";
        let said = [&messages("PB")[..], end, &messages("Q")].concat();
        assert_eq!(refused(&said, 7), Ok(("E".to_owned(), true)));
        assert_eq!(refused(end, 7), Ok((String::new(), true)));
    }

    #[test]
    fn what_is_no_message_is_none_within_a_series_that_is_passed_over_either() {
        let said = [&messages("PB")[..], b"p\0\0\0\x05x"].concat();
        assert_eq!(refused(&said, 100), Err(Nonsense::Unexpected { byte: b'p' }));
        let said = [&messages("PB")[..], b"!\0\0\0\x05x"].concat();
        let error = refused(&said, 100).unwrap_err();
        assert_eq!(error.to_string(), "invalid frontend message type 33");
        assert_eq!(error.sqlstate(), SqlState::PROTOCOL_VIOLATION);
    }

    #[test]
    fn a_large_message_is_passed_over_as_it_comes() {
        for (tag, heard) in [(b'Q', "EZEZ"), (b'P', "E"), (b'd', "EZ")] {
            let mut said = Vec::new();
            write::message(&mut said, tag, |out| out.resize(out.len() + 300_000, b'x'));
            assert!(said.len() > 300_000 + HEAD - 1);
            said.extend(messages("Q"));
            assert_eq!(refused(&said, 4096), Ok((heard.to_owned(), false)));
        }
    }

    /// In whichever pieces it comes, the same is heard; also of what is no message.
    #[test]
    fn pieces_make_no_difference() {
        let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |bound: usize| {
            chance ^= chance >> 12;
            chance ^= chance << 25;
            chance ^= chance >> 27;
            (chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
        };
        let mut ends = 0;
        for round in 0..100 {
            let mut said = Vec::new();
            for _ in 0..below(30) {
                let tag = b"QQFPPBDECSSSHdcf"[below(16)];
                let length = [0, 10, 9_000][below(3)];
                write::message(&mut said, tag, |out| out.resize(out.len() + length, b'S'));
            }
            if below(4) == 0 {
                let at = below(said.len() + 1);
                said.insert(at, b"X\0\0Sp!"[below(6)]);
            }
            let whole = refused(&said, said.len().max(1));
            ends += usize::from(whole.is_err());
            for step in [1 + below(5), 1 + below(5000)] {
                let (pieces, whole) = (refused(&said, step), &whole);
                assert_eq!(&pieces, whole, "round {round}, pieces of {step} of {said:?}");
            }
        }
        assert!(ends > 5, "{ends} were no messages");
    }

    #[test]
    #[should_panic(expected = "who is refused has asked for something")]
    fn who_has_asked_nothing_is_not_refused() {
        let _ =
            Unlinked::default().refuse(&mut Frames::new(Limits::SESSION), b"Q", &mut Vec::new());
    }
}
