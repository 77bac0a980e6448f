//! Messages that divide the log: one takes effect when all before it have, and what comes after it waits for
//! it. Until then those after it are durable and acknowledged, and in no mailbox and no pass.

use std::collections::VecDeque;

use crate::agent::Agent;
use crate::message::{PRIORITIES, Priority, Seq};

/// The dividers of the log, and how far its messages were given to their agents.
#[derive(Debug)]
pub(super) struct Dividers<M> {
    /// The positions of those that may not have taken effect, in order.
    waiting: VecDeque<Seq>,
    /// Those that some agents may not have behind them, in order.
    met: VecDeque<(Seq, Priority, M)>,
    /// The last one that all agents have behind them.
    passed: Option<M>,
    /// The last of all, behind which messages are read.
    last: Option<M>,
    /// The first that the store refused while there was none: messages came behind it all the same.
    refused: Option<M>,
    /// Messages up to this one were given to their agents.
    released: Seq,
}

impl<M: Clone> Dividers<M> {
    pub(super) fn new(low: Seq) -> Dividers<M> {
        let (waiting, met) = (VecDeque::new(), VecDeque::new());
        Dividers { waiting, met, passed: None, last: None, refused: None, released: low }
    }

    /// All agents have this one behind them, which is not in the log any more.
    pub(super) fn begin_behind(&mut self, divider: M) {
        self.passed.get_or_insert(divider);
    }

    /// The last one that an agent has behind it, if all up to `low` have taken effect and the agent has heard
    /// multicasts up to these.
    pub(super) fn of(&self, low: Seq, heard: &[Seq; PRIORITIES]) -> Option<&M> {
        let is_behind = |&&(seq, priority, _): &&(Seq, Priority, M)| {
            seq <= low || seq <= heard[priority.index()]
        };
        let last = self.met.iter().rev().find(is_behind);
        last.map(|(.., divider)| divider).or(self.passed.as_ref())
    }

    /// A message of the log, each in its turn.
    pub(super) fn meet<A: Agent<Message = M>>(
        &mut self,
        seq: Seq,
        priority: Priority,
        message: &mut M,
    ) {
        match (&self.last, &self.refused) {
            (Some(last), _) => A::behind(last, message),
            (None, Some(refused)) => A::without(refused, message),
            (None, None) => {}
        }
        if A::divides(message) {
            self.waiting.push_back(seq);
            self.met.push_back((seq, priority, message.clone()));
            self.last = Some(message.clone());
        }
    }

    /// One that never comes into the log. Whoever offered it knows that later than the log does, so that messages
    /// come behind it meanwhile; they are behind the last one that came.
    pub(super) fn refuse(&mut self, message: &M) {
        self.refused.get_or_insert_with(|| message.clone());
    }

    /// Nothing waits for those that wait: a defect on purpose.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The last message that may take effect, if all up to `low` have and the log ends at `end`.
    pub(super) fn horizon(&self, low: Seq, end: Seq) -> Seq {
        match self.waiting.iter().find(|&&seq| seq > low) {
            None => end,
            Some(&seq) if seq.0 == low.0 + 1 => seq,
            Some(seq) => Seq(seq.0 - 1),
        }
    }

    /// Messages up to this one were given to their agents.
    pub(super) fn released(&self) -> Seq {
        self.released
    }

    /// The messages after one and up to another are to be given to their agents now.
    pub(super) fn release(&mut self, low: Seq, end: Seq) -> (Seq, Seq) {
        while self.waiting.front().is_some_and(|&seq| seq <= low) {
            self.waiting.pop_front();
        }
        while self.met.front().is_some_and(|(seq, ..)| *seq <= low) {
            self.passed = self.met.pop_front().map(|(.., divider)| divider);
        }
        let (from, upto) = (self.released.max(low), self.horizon(low, end));
        self.released = self.released.max(upto);
        (from, upto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Context, Effect, Failure};
    use crate::message::Key;

    /// An agent of numbers: whole hundreds divide, and what comes behind one, or without one, has more hundreds.
    struct Hundreds;

    impl Agent for Hundreds {
        type Message = u64;
        const VERSION: u16 = 1;

        fn create(_key: Key, _first: &u64) -> Option<Hundreds> {
            Some(Hundreds)
        }

        fn on(&mut self, _message: &u64, _cx: &mut Context<u64>) -> Result<Effect, Failure> {
            Ok(Effect::Clean)
        }

        fn divides(message: &u64) -> bool {
            message.is_multiple_of(100)
        }

        fn behind(divider: &u64, message: &mut u64) {
            *message += divider;
        }

        fn without(refused: &u64, message: &mut u64) {
            *message += 10 * refused;
        }

        fn encode_cold(&self, _to: &mut Vec<u8>) {}

        fn encode_hot(&self, _to: &mut Vec<u8>) {}

        fn decode(_version: u16, _cold: &[u8], _hot: &[u8]) -> Result<Hundreds, Failure> {
            Ok(Hundreds)
        }
    }

    /// Messages that came behind a refused divider are those without it, until another divides the log.
    #[test]
    fn a_refused_divider_is_taken_back_from_what_came_behind_it() {
        let mut it = Dividers::<u64>::new(Seq(0));
        let met = |it: &mut Dividers<u64>, n, mut message| {
            it.meet::<Hundreds>(Seq(n), Priority::Normal, &mut message);
            message
        };
        assert_eq!(met(&mut it, 1, 1), 1);
        it.refuse(&100);
        // Only the first knows what held before all of them.
        it.refuse(&200);
        assert_eq!(met(&mut it, 2, 2), 1_002);
        it.meet::<Hundreds>(Seq(3), Priority::Normal, &mut 300);
        assert_eq!(met(&mut it, 4, 4), 1_304);
        it.refuse(&400);
        assert_eq!(met(&mut it, 5, 5), 1_305);
    }

    /// An agent has a divider behind it when it has handled it, the others when all have.
    #[test]
    fn the_divider_of_an_agent_is_the_last_one_that_it_has_heard() {
        let mut it = Dividers::<u64>::new(Seq(0));
        let heard = |high: u64, low: u64| [Seq(low), Seq(0), Seq(high), Seq(0)];
        assert_eq!(it.of(Seq(0), &heard(0, 0)), None);
        it.begin_behind(7);
        it.meet::<Hundreds>(Seq(3), Priority::High, &mut 100);
        it.meet::<Hundreds>(Seq(5), Priority::Low, &mut 200);
        assert_eq!(it.of(Seq(2), &heard(0, 0)), Some(&7));
        assert_eq!(it.of(Seq(2), &heard(3, 0)), Some(&100));
        // What it has heard of another priority says nothing.
        assert_eq!(it.of(Seq(2), &heard(2, 4)), Some(&7));
        assert_eq!(it.of(Seq(4), &heard(0, 0)), Some(&100));
        it.release(Seq(4), Seq(5));
        assert_eq!(it.of(Seq(4), &heard(0, 0)), Some(&100));
        assert_eq!(it.of(Seq(4), &heard(0, 5)), Some(&300));
        it.release(Seq(5), Seq(5));
        assert_eq!((it.of(Seq(5), &heard(0, 0)), it.met.len()), (Some(&300), 0));
    }

    #[test]
    fn a_divider_waits_for_all_before_it_and_all_after_it_wait_for_it() {
        let mut it = Dividers::<()>::new(Seq(3));
        it.waiting.extend([Seq(6), Seq(7)]);
        assert_eq!(it.release(Seq(3), Seq(9)), (Seq(3), Seq(5)));
        assert_eq!(it.release(Seq(4), Seq(9)), (Seq(5), Seq(5)));
        assert_eq!((it.release(Seq(5), Seq(9)), it.released()), ((Seq(5), Seq(6)), Seq(6)));
        assert_eq!(it.release(Seq(6), Seq(9)), (Seq(6), Seq(7)));
        assert_eq!(it.release(Seq(7), Seq(9)), (Seq(7), Seq(9)));
        assert_eq!((it.release(Seq(8), Seq(10)), it.waiting.len()), ((Seq(9), Seq(10)), 0));
    }
}
