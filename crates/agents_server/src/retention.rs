//! The part of a log that is kept for questions about the past: for a time and up to a size.

use std::collections::VecDeque;
use std::time::Duration;

use agents::Seq;
use gate::Time;

/// Marks of a log at most, so that a long one takes no more memory than a short one.
const MARKS: u64 = 1_024;

/// The limits of what is kept beyond the messages that the server itself needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Longest time.
    pub(crate) span: Duration,
    /// Most bytes of messages, by estimate \[B\].
    pub(crate) bytes: u64,
}

/// The lengths of a log, in parts that are forgotten as a whole.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Retention,
    parts: VecDeque<Part>,
    bytes: u64,
    /// The last message that need not be kept.
    spare: Seq,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    last: Seq,
    began: Time,
    ended: Time,
    bytes: u64,
}

impl Ledger {
    pub(crate) fn new(limits: Retention) -> Ledger {
        Ledger { limits, parts: VecDeque::new(), bytes: 0, spare: Seq(0) }
    }

    /// A message was appended; repetitions count once.
    pub(crate) fn push(&mut self, seq: Seq, at: Time, bytes: u64) {
        if self.parts.back().is_some_and(|part| part.last >= seq) {
            return;
        }
        self.bytes += bytes;
        let (most, longest) = (self.limits.bytes / MARKS, self.limits.span / MARKS as u32);
        match self.parts.back_mut() {
            Some(part) if part.bytes + bytes <= most && at.since(part.began) <= longest => {
                (part.last, part.ended) = (seq, part.ended.max(at));
                part.bytes += bytes;
            }
            _ => self.parts.push_back(Part { last: seq, began: at, ended: at, bytes }),
        }
        // Time alone may have passed without a look.
        if self.parts.len() as u64 > 4 * MARKS {
            self.drop_first();
        }
    }

    /// The last message that need not be kept any more; `Seq(0)` for none.
    pub(crate) fn spare(&mut self, now: Time) -> Seq {
        while let Some(part) = self.parts.front() {
            let is_old = now.since(part.ended) >= self.limits.span;
            if !is_old && self.bytes <= self.limits.bytes {
                break;
            }
            self.drop_first();
        }
        self.spare
    }

    fn drop_first(&mut self) {
        if let Some(part) = self.parts.pop_front() {
            self.bytes -= part.bytes;
            self.spare = self.spare.max(part.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agents::Seq;
    use gate::Time;

    use super::{Ledger, MARKS, Retention};

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn messages_are_spare_after_the_time() {
        let limits = Retention { span: Duration::from_secs(100), bytes: 1 << 30 };
        let mut ledger = Ledger::new(limits);
        (1..=50).for_each(|n| ledger.push(Seq(n), at(n), 100));
        assert_eq!(ledger.spare(at(50)), Seq(0));
        assert_eq!(ledger.spare(at(110)), Seq(10));
        assert_eq!(ledger.spare(at(109)), Seq(10), "a clock that goes back changes nothing");
        assert_eq!(ledger.spare(at(1_000)), Seq(50));
    }

    #[test]
    fn messages_are_spare_beyond_the_size() {
        let limits = Retention { span: Duration::from_secs(100), bytes: 10_000 };
        let mut ledger = Ledger::new(limits);
        (1..=100).for_each(|n| ledger.push(Seq(n), at(1), 100));
        assert_eq!(ledger.spare(at(1)), Seq(0));
        (101..=150).for_each(|n| ledger.push(Seq(n), at(1), 100));
        (101..=150).for_each(|n| ledger.push(Seq(n), at(1), 100));
        assert_eq!(ledger.spare(at(1)), Seq(50));
    }

    /// Whatever comes, the marks are bounded, and so is what they leave.
    #[test]
    fn the_marks_are_bounded() {
        let limits = Retention { span: Duration::from_secs(1_000), bytes: 1 << 20 };
        let mut ledger = Ledger::new(limits);
        for n in 1..=1_000_000 {
            ledger.push(Seq(n), at(n / 1_000), 200);
            if n % 1_000 == 0 {
                ledger.spare(at(n / 1_000));
            }
        }
        assert!(ledger.parts.len() as u64 <= 4 * MARKS, "{}", ledger.parts.len());
        let left = 1_000_000 - ledger.spare(at(1_000)).0;
        assert!((5_000..=5_243).contains(&left), "1 MiB of 200 B each: {left}");
    }
}
