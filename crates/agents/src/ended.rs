//! Rows without a state: what took effect on agents that have ended, or never were, for as long as a
//! message of that time could come again.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Key, Seq};

/// Agents without a state of which the store has a row, each with the last message that it remembers.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    rows: BTreeMap<Key, Seq>,
    by_last: BTreeSet<(Seq, Key)>,
}

impl Ended {
    /// An agent has such a row from now on, or has none.
    pub(crate) fn write(&mut self, key: Key, last: Option<Seq>) {
        if let Some(old) = self.rows.remove(&key) {
            self.by_last.remove(&(old, key));
        }
        if let Some(last) = last {
            self.rows.insert(key, last);
            self.by_last.insert((last, key));
        }
    }

    /// The rows that nothing needs any more, since all messages up to `low` have taken effect.
    pub(crate) fn erasable(&self, low: Seq) -> impl Iterator<Item = Key> {
        self.by_last.range(..=(low, Key(u64::MAX))).map(|&(_, key)| key)
    }
}
