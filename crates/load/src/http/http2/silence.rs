//! Silence of a peer: the moment at which it is asked for a sign of life (PING), and the one from which its
//! connection carries nothing more. Pure.
//!
//! A peer that vanished without a word (a cable, a machine, a firewall that forgot) would keep a connection, and
//! every request on it, until TCP gives up, a quarter of an hour later. A slow answer is no such silence: whoever
//! is slow still answers a PING.

use std::time::Duration;

use gate::Time;

/// Silence on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Silence {
    /// The last moment at which something had come.
    heard: Time,
    /// The moment of the first PING since then.
    pinged: Option<Time>,
}

impl Silence {
    /// A connection that begins now.
    pub(in crate::http) fn new(now: Time) -> Silence {
        Silence { heard: now, pinged: None }
    }

    /// Something came.
    pub(in crate::http) fn hear(&mut self, now: Time) {
        *self = Silence::new(now);
    }

    /// A PING is sent.
    pub(in crate::http) fn ping(&mut self, now: Time) {
        self.pinged.get_or_insert(now);
    }

    /// True if a PING is due: nothing came for half of the time that a response may take, while the oldest request
    /// waited, since `oldest`.
    pub(in crate::http) fn wants_ping(
        &self,
        oldest: Time,
        now: Time,
        response_max: Duration,
    ) -> bool {
        self.pinged.is_none() && now.since(self.heard.max(oldest)) >= response_max / 2
    }

    /// True if a PING was not answered for a quarter of the time that a response may take: before the first request
    /// times out, so that none of those that follow it is sent into the void.
    pub(in crate::http) fn is_final(&self, now: Time, response_max: Duration) -> bool {
        self.pinged.is_some_and(|at| now.since(at) >= response_max / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Time {
        Time::from_secs_f64(seconds as f64)
    }

    #[test]
    fn silence_is_counted_while_a_request_waits() {
        let silence = Silence::new(at(0));
        assert!(!silence.wants_ping(at(0), at(3), LIMIT));
        assert!(silence.wants_ping(at(0), at(4), LIMIT));
        // A connection that was idle for a minute owes nothing.
        assert!(!silence.wants_ping(at(60), at(63), LIMIT));
        assert!(silence.wants_ping(at(60), at(64), LIMIT));
    }

    #[test]
    fn only_an_unanswered_ping_is_final() {
        let mut silence = Silence::new(at(0));
        assert!(!silence.is_final(at(100), LIMIT), "nobody was asked");
        silence.ping(at(4));
        assert!(!silence.wants_ping(at(0), at(5), LIMIT), "once is enough");
        silence.ping(at(5));
        assert!(!silence.is_final(at(5), LIMIT));
        assert!(silence.is_final(at(6), LIMIT), "it counts from the first");
        silence.hear(at(7));
        assert!(!silence.is_final(at(100), LIMIT));
        assert!(!silence.wants_ping(at(0), at(10), LIMIT));
    }
}
