//! Ends of streams and connections: what an error of HTTP/2 means for the requests that it met. Pure.

use std::io;

use h2::Reason;
use measure::ErrorKind;

/// Frame with which a server ends something, and its error code (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Frame {
    /// RST_STREAM: one request.
    Reset(u32),
    /// GOAWAY: a connection, and the requests on it that the server has not dealt with.
    GoAway(u32),
}

impl Frame {
    /// The name of its error code.
    pub(crate) fn code(self) -> String {
        let (Frame::Reset(code) | Frame::GoAway(code)) = self;
        let names = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        names.get(code as usize).map_or_else(|| format!("0x{code:x}"), |name| (*name).to_owned())
    }
}

/// Way in which a request ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Ended {
    /// The kind of its failure.
    pub(in crate::http) kind: ErrorKind,
    /// The frame that ended it, if the server sent one.
    pub(in crate::http) frame: Option<Frame>,
    /// How much the server has done about it.
    pub(in crate::http) done: Done,
}

/// What a server has done about a request that it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Done {
    /// Nothing: it says so, and the request may be sent again whatever its method (RFC 9113, section 8.7).
    Nothing,
    /// The connection broke; nobody knows.
    Unknown,
    /// It was dealt with, and failed.
    Failed,
}

/// Facts of an error, as the library tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum Cause {
    /// The transport failed.
    Transport(io::ErrorKind),
    /// TLS failed.
    Tls,
    /// The server reset the stream.
    Reset(u32),
    /// The server sent a GOAWAY that leaves the request out.
    GoAway(u32),
    /// What the server sent is no HTTP/2.
    Broken,
}

impl Cause {
    /// The cause behind an error of the library.
    pub(in crate::http) fn of(error: &h2::Error, tls_broke: bool) -> Cause {
        let code = || u32::from(error.reason().unwrap_or(Reason::NO_ERROR));
        match error.get_io() {
            Some(_) if tls_broke => Cause::Tls,
            Some(error) => Cause::Transport(error.kind()),
            None if error.is_reset() && error.is_remote() => Cause::Reset(code()),
            None if error.is_go_away() && error.is_remote() => Cause::GoAway(code()),
            None => Cause::Broken,
        }
    }
}

/// The end of a request that this cause met; `opened` says whether its connection had ever been open, and
/// `length` is the announced size of its body and what came of it.
pub(in crate::http) fn ended(cause: &Cause, opened: bool, length: Option<(u64, u64)>) -> Ended {
    let unknown = |kind| Ended { kind, frame: None, done: Done::Unknown };
    match *cause {
        Cause::Tls => Ended { done: Done::Failed, ..unknown(ErrorKind::Tls) },
        Cause::Transport(io::ErrorKind::ConnectionRefused) => unknown(ErrorKind::ConnectRefused),
        Cause::Transport(io::ErrorKind::TimedOut) if opened => unknown(ErrorKind::Timeout),
        Cause::Transport(io::ErrorKind::TimedOut) => unknown(ErrorKind::ConnectTimeout),
        Cause::Transport(io::ErrorKind::ConnectionReset) => unknown(ErrorKind::Reset),
        // The library's word for an end without a goodbye.
        Cause::Transport(io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => {
            unknown(ErrorKind::ClosedEarly)
        }
        Cause::Transport(_) if opened => unknown(ErrorKind::Reset),
        Cause::Transport(_) => unknown(ErrorKind::ConnectOther),
        Cause::Reset(code) => Ended {
            kind: ErrorKind::StreamReset,
            frame: Some(Frame::Reset(code)),
            done: match code == u32::from(Reason::REFUSED_STREAM) {
                true => Done::Nothing,
                false => Done::Failed,
            },
        },
        Cause::GoAway(code) => {
            Ended { kind: ErrorKind::GoAway, frame: Some(Frame::GoAway(code)), done: Done::Nothing }
        }
        Cause::Broken => Ended {
            kind: match length {
                Some((announced, came)) if announced != came => ErrorKind::WrongLength,
                _ => ErrorKind::Malformed,
            },
            frame: None,
            done: Done::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_standard() {
        for code in 0..=13 {
            let reason = format!("{:?}", Reason::from(code));
            assert_eq!(Frame::Reset(code).code(), reason);
        }
        assert_eq!(Frame::GoAway(0xfe).code(), "0xfe");
    }

    #[test]
    fn only_what_the_server_has_not_touched_may_be_sent_again() {
        let of = |cause| ended(&cause, true, None);
        let refused = of(Cause::Reset(7));
        assert_eq!((refused.kind, refused.done), (ErrorKind::StreamReset, Done::Nothing));
        assert_eq!(of(Cause::Reset(2)).done, Done::Failed);
        let left_out = of(Cause::GoAway(0));
        assert_eq!((left_out.kind, left_out.done), (ErrorKind::GoAway, Done::Nothing));
        assert_eq!(left_out.frame, Some(Frame::GoAway(0)));
        let closed = of(Cause::Transport(io::ErrorKind::BrokenPipe));
        assert_eq!((closed.kind, closed.done), (ErrorKind::ClosedEarly, Done::Unknown));
    }

    #[test]
    fn the_moment_tells_one_kind_from_another() {
        let timed_out = Cause::Transport(io::ErrorKind::TimedOut);
        assert_eq!(ended(&timed_out, false, None).kind, ErrorKind::ConnectTimeout);
        assert_eq!(ended(&timed_out, true, None).kind, ErrorKind::Timeout);
        let other = Cause::Transport(io::ErrorKind::AddrNotAvailable);
        assert_eq!(ended(&other, false, None).kind, ErrorKind::ConnectOther);
        assert_eq!(ended(&Cause::Broken, true, Some((9, 4))).kind, ErrorKind::WrongLength);
        assert_eq!(ended(&Cause::Broken, true, Some((9, 9))).kind, ErrorKind::Malformed);
        assert_eq!(ended(&Cause::Broken, true, None).kind, ErrorKind::Malformed);
    }
}
