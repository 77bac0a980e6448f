//! Messages from agents to agents on their way: committed with the batch that sent them, given to the
//! partitions of their agents in order, and given again until these have them.

use gate::Time;

use super::Action;
use crate::message::Outgoing;
use crate::tail::Tail;

/// Sent messages that have not arrived.
#[derive(Debug)]
pub(super) struct Relay<M> {
    tail: Tail<Outgoing<M>>,
    /// All up to this number have arrived.
    upto: u64,
    /// The last number of those that are on their way.
    flying: Option<u64>,
    again: Option<Time>,
    ready: bool,
}

/// Messages that are on their way at once.
const GROUP: usize = 256;

impl<M: Clone> Relay<M> {
    pub(super) fn new(upto: u64, end: u64, room: usize) -> Relay<M> {
        Relay { tail: Tail::new(upto, end, room), upto, flying: None, again: None, ready: true }
    }

    pub(super) fn push(&mut self, message: Outgoing<M>) {
        self.tail.push(message.n, message);
    }

    pub(super) fn read(&mut self, read: Option<Vec<Outgoing<M>>>, again: Time) {
        match read {
            Some(read) => self.tail.read(read.into_iter().map(|one| (one.n, one)).collect()),
            None => self.tail.read_failed(again),
        }
    }

    pub(super) fn relayed(&mut self, upto: u64) {
        for n in self.upto + 1..=upto.min(self.flying.unwrap_or(0)) {
            self.tail.done(n);
            self.upto = n;
        }
        if self.flying.is_some_and(|flying| flying <= self.upto) {
            (self.flying, self.again, self.ready) = (None, None, true);
        }
    }

    pub(super) fn declined(&mut self, again: Time) {
        if self.flying.is_some() {
            self.again = Some(again);
        }
    }

    /// The time at which what is on its way is given again, or what is in the store is read again.
    pub(super) fn again(&self) -> Option<Time> {
        [self.again, self.tail.again()].into_iter().flatten().min()
    }

    /// The time has come.
    pub(super) fn retry(&mut self, now: Time) {
        if self.again.is_some_and(|again| again <= now) {
            (self.again, self.ready) = (None, true);
        }
    }

    pub(super) fn go_on(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        if let Some((after, limit)) = self.tail.wants(now) {
            actions.push(Action::ReadSent { after, limit });
        }
        if !self.ready {
            return;
        }
        let group: Vec<Outgoing<M>> = self.tail.first(GROUP).map(|(_, one)| one.clone()).collect();
        if let Some(last) = group.last() {
            (self.flying, self.ready) = (Some(last.n), false);
            actions.push(Action::Relay(group));
        }
    }

    /// Messages that have not arrived.
    pub(super) fn pending(&self) -> u64 {
        self.tail.end() - self.upto
    }

    pub(super) fn upto(&self) -> u64 {
        self.upto
    }

    pub(super) fn end(&self) -> u64 {
        self.tail.end()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.upto == self.tail.end()
    }
}
