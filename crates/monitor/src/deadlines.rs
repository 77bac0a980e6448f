//! Moments at which something must have happened: one for each connection at most.

use std::collections::BTreeSet;

use gate::Time;
use mio::Token;

use super::slab::Socket;

/// The deadlines of all connections, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    moments: BTreeSet<(Time, Token)>,
}

/// The deadline of one connection. It is in the set of all as long as it is not `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline(Option<Time>);

impl Deadlines {
    /// Sets the deadline of `socket`, in place of the one that it had.
    pub(super) fn set(&mut self, socket: Socket, deadline: &mut Deadline, moment: Time) {
        self.clear(socket, deadline);
        deadline.0 = Some(moment);
        let is_new = self.moments.insert((moment, socket.token()));
        assert!(is_new, "a connection has one deadline");
    }

    /// It needs none any more.
    pub(super) fn clear(&mut self, socket: Socket, deadline: &mut Deadline) {
        if let Some(moment) = deadline.0.take() {
            let was_set = self.moments.remove(&(moment, socket.token()));
            assert!(was_set, "it is in the set as long as its connection has it");
        }
    }

    /// The next one.
    pub(super) fn next(&self) -> Option<Time> {
        self.moments.first().map(|&(moment, _)| moment)
    }

    /// One whose deadline has come; it stays in the set until it is cleared, as its connection goes.
    pub(super) fn due(&self, now: Time) -> Option<Socket> {
        let &(moment, token) = self.moments.first()?;
        (moment <= now).then(|| Socket::of(token))
    }
}
