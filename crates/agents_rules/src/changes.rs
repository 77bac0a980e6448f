//! The changes of the rules in a log: which rules hold at a position of it.

use std::sync::Arc;

use agents::Seq;

use crate::message::Message;
use crate::rules::Rules;

/// The rules at each position of a log. One without changes has those of today at all of them.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The rules before the first change.
    first: Arc<Rules>,
    /// The position of each change, and the rules from there on; in order.
    all: Vec<(Seq, Arc<Rules>)>,
}

impl Changes {
    /// No changes so far.
    pub fn none(today: &Arc<Rules>) -> Changes {
        Changes { first: today.clone(), all: Vec::new() }
    }

    /// A message that is at this position now. One that was there, or behind it, never came into the log.
    pub fn push(&mut self, seq: Seq, message: &Message) {
        while self.all.last().is_some_and(|(last, _)| *last >= seq) {
            self.all.pop();
        }
        let Some((from, to)) = message.change() else { return };
        if let (true, Some(from)) = (self.all.is_empty(), from) {
            self.first = from.clone();
        }
        self.all.push((seq, to.clone()));
    }

    /// The rules by which the message at a position is handled.
    pub fn at(&self, seq: Seq) -> &Arc<Rules> {
        let behind = self.all.partition_point(|(of, _)| *of <= seq);
        behind.checked_sub(1).map_or(&self.first, |at| &self.all[at].1)
    }

    /// The rules at the end, if a change of them is kept.
    pub fn last(&self) -> Option<&Arc<Rules>> {
        self.all.last().map(|(_, rules)| rules)
    }

    /// The log up to this position is forgotten.
    pub fn forget(&mut self, upto: Seq) {
        let gone = self.all.partition_point(|(seq, _)| *seq <= upto);
        if let Some((_, rules)) = self.all.drain(..gone).next_back() {
            self.first = rules;
        }
    }
}
