//! A place for a connection, and the request that is on it.

use gate::Time;

use super::response::Response;
use super::stream::Stream;

/// No connection, where a client's is named.
pub(super) const NONE: u64 = u64::MAX;

/// A place for a connection.
pub(super) struct Conn {
    pub(super) stream: Option<Stream>,
    /// Number of this connection among those that stood here: late events name an earlier one.
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) request: Option<Request>,
    pub(super) response: Response,
    /// Bytes of the request that were sent.
    pub(super) sent: usize,
    /// Responses that it has brought.
    pub(super) served: u64,
    /// Interest that epoll was told.
    pub(super) interest: u32,
    pub(super) opened_at: Time,
}

/// State of a connection in the course of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is being opened, for the request that it carries.
    Opening,
    /// The request is partly sent.
    Sending,
    /// The request is sent.
    Awaiting,
    /// It carries no request.
    Idle,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Its number among the plan's requests, and the class of that.
    pub(super) ask: u32,
    pub(super) class: u32,
    pub(super) intended: Time,
    pub(super) began: Time,
    pub(super) first_byte: Option<Time>,
    pub(super) retry: Retry,
}

/// Permission to send a request once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Allowed,
    /// Only if the server says that it has not touched it: its method may not be repeated.
    Untouched,
    Used,
}

impl Conn {
    pub(super) fn empty() -> Conn {
        Conn {
            stream: None,
            generation: 0,
            state: State::Idle,
            request: None,
            response: Response::new(),
            sent: 0,
            served: 0,
            interest: 0,
            opened_at: Time::ZERO,
        }
    }

    pub(super) fn take_up(&mut self, stream: Stream, now: Time) {
        self.stream = Some(stream);
        self.served = 0;
        self.interest = 0;
        self.opened_at = now;
    }

    #[inline]
    pub(super) fn token(&self, slot: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(slot)
    }

    /// True if the server may have closed it before it saw the request.
    pub(super) fn is_stale(&self) -> bool {
        self.served > 0
            && self.response.bytes() == 0
            && self.request.is_some_and(|request| request.retry == Retry::Allowed)
    }
}
