//! A queue whose whole is in the store and of which only so many elements are in memory: the outbox,
//! and the messages from agents on their way.

use std::collections::BTreeMap;

use gate::Time;

/// The elements of a numbered queue that are not done, as many of them in memory as there is room for.
#[derive(Debug)]
pub(crate) struct Tail<T> {
    held: BTreeMap<u64, T>,
    /// All that are not done up to this number are held.
    held_to: u64,
    /// The last number that the store has.
    end: u64,
    room: usize,
    /// A read on its way: the number of elements asked for, and the last one that there was then.
    reading: Option<(usize, u64)>,
    /// When a read that failed is tried again.
    again: Option<Time>,
}

impl<T> Tail<T> {
    /// The elements after `done` and up to `end`, of which none is in memory.
    pub(crate) fn new(done: u64, end: u64, room: usize) -> Tail<T> {
        Tail { held: BTreeMap::new(), held_to: done, end, room, reading: None, again: None }
    }

    /// The last number that there is.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Elements that are not done: those in memory, and at most as many in the store.
    pub(crate) fn pending(&self) -> u64 {
        self.held.len() as u64 + (self.end - self.held_to)
    }

    /// An element that is durable from now on. True if it is held, false if it is left to be read.
    pub(crate) fn push(&mut self, n: u64, element: T) -> bool {
        assert_eq!(n, self.end + 1, "elements are numbered on");
        self.end = n;
        let holds = self.held_to + 1 == n && self.held.len() < self.room && self.reading.is_none();
        if holds {
            self.held_to = n;
            self.held.insert(n, element);
        }
        holds
    }

    /// The number after which elements are to be read, and how many; `None` if none, or while a read is
    /// on its way.
    pub(crate) fn wants(&mut self, now: Time) -> Option<(u64, usize)> {
        self.again = self.again.filter(|&again| again > now);
        let wants = self.held_to < self.end && self.held.len() <= self.room / 2;
        (wants && self.reading.is_none() && self.again.is_none()).then(|| {
            let asked = self.room - self.held.len();
            self.reading = Some((asked, self.end));
            (self.held_to, asked)
        })
    }

    /// The elements that were read. Those that came into the store after all that is known to be there
    /// are left for later.
    pub(crate) fn read(&mut self, elements: Vec<(u64, T)>) {
        let Some((asked, end)) = self.reading.take() else { return };
        let last = elements.last().map_or(0, |&(n, _)| n).min(self.end);
        self.held_to = if elements.len() < asked { last.max(end) } else { last };
        self.held.extend(elements.into_iter().filter(|&(n, _)| n <= last));
    }

    /// A read failed: it is wanted again at this moment.
    pub(crate) fn read_failed(&mut self, again: Time) {
        (self.reading, self.again) = (None, Some(again));
    }

    /// The moment of the next read after one that failed.
    pub(crate) fn again(&self) -> Option<Time> {
        self.again
    }

    /// An element is done. False if it was not held.
    pub(crate) fn done(&mut self, n: u64) -> bool {
        self.held.remove(&n).is_some()
    }

    /// The first elements in memory.
    pub(crate) fn first(&self, count: usize) -> impl Iterator<Item = (u64, &T)> {
        self.held.iter().take(count).map(|(&n, element)| (n, element))
    }
}
