//! The agents of a pass that are known when it begins: who of them is not done, in the order of keys. It
//! is made once and only loses agents, so that sorted arrays do, which are faster than a tree.

use crate::message::Key;

/// Agents that wait, and those that have waited.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Sorted, each once.
    keys: Vec<Key>,
    done: Vec<bool>,
    left: usize,
    /// All before this place are done.
    first: usize,
    /// The place after the one that was found last: most are asked for in order.
    near: usize,
}

impl Waiting {
    pub(super) fn new(mut keys: Vec<Key>) -> Waiting {
        keys.sort_unstable();
        keys.dedup();
        let (done, left) = (vec![false; keys.len()], keys.len());
        Waiting { keys, done, left, first: 0, near: 0 }
    }

    /// Agents that are not done.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    fn place(&self, key: Key) -> Option<usize> {
        if self.keys.get(self.near) == Some(&key) {
            return Some(self.near);
        }
        self.keys.binary_search(&key).ok()
    }

    /// An agent is done. False if it is none of these.
    pub(super) fn end(&mut self, key: Key) -> bool {
        let Some(at) = self.place(key) else { return false };
        self.left -= usize::from(!self.done[at]);
        self.done[at] = true;
        self.near = at + 1;
        while self.done.get(self.first) == Some(&true) {
            self.first += 1;
        }
        true
    }

    /// True if an agent waits, false if it has; `None` if it is none of these.
    pub(super) fn waits(&self, key: Key) -> Option<bool> {
        self.place(key).map(|at| !self.done[at])
    }

    /// The first that waits.
    pub(super) fn first(&self) -> Option<Key> {
        self.keys.get(self.first).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The agents from a key on, also those that are done, in order.
    pub(super) fn from(&self, key: Key) -> &[Key] {
        &self.keys[self.keys.partition_point(|&other| other < key)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_done_once_in_any_order() {
        let mut waiting = Waiting::new([5, 1, 3, 1].map(Key).to_vec());
        assert_eq!((waiting.first(), waiting.waits(Key(3))), (Some(Key(1)), Some(true)));
        assert!(waiting.end(Key(3)) && waiting.end(Key(3)) && !waiting.end(Key(4)));
        assert_eq!((waiting.waits(Key(3)), waiting.waits(Key(4))), (Some(false), None));
        assert!(waiting.end(Key(1)));
        assert_eq!((waiting.first(), waiting.is_empty()), (Some(Key(5)), false));
        assert_eq!(waiting.from(Key(2)), [Key(3), Key(5)]);
        assert!(waiting.end(Key(5)));
        assert_eq!((waiting.first(), waiting.is_empty()), (None, true));
    }
}
