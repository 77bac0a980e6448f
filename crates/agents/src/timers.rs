//! The timers of a partition: which are due, and what they become after a firing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate::Time;

use crate::message::{Key, TimerName};
use crate::store::Timer;

/// All timers of a partition, as the store has them.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    timers: BTreeMap<(Key, TimerName), Slot>,
    /// Those that have not been given to their agents.
    due: BTreeSet<(Time, Key, TimerName)>,
}

/// A timer in less memory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    due: Time,
    /// The span after which it is due again \[ns\]; 0 for none.
    every: u64,
}

impl Slot {
    fn of(timer: Timer) -> Slot {
        Slot { due: timer.due, every: timer.every.map_or(0, nanos) }
    }
}

impl Timers {
    /// The timers of a snapshot: trees that are built in one go have full nodes.
    pub(crate) fn open(all: Vec<(Key, TimerName, Timer)>) -> Timers {
        Timers {
            due: all.iter().map(|&(key, name, timer)| (timer.due, key, name)).collect(),
            timers: all.into_iter().map(|(key, name, it)| ((key, name), Slot::of(it))).collect(),
        }
    }

    pub(crate) fn get(&self, key: Key, name: TimerName) -> Option<Timer> {
        let Slot { due, every } = *self.timers.get(&(key, name))?;
        Some(Timer { due, every: (every > 0).then_some(Duration::from_nanos(every)) })
    }

    /// The change is durable.
    pub(crate) fn write(&mut self, key: Key, name: TimerName, timer: Option<Timer>) {
        if let Some(old) = self.timers.remove(&(key, name)) {
            self.due.remove(&(old.due, key, name));
        }
        if let Some(timer) = timer {
            self.timers.insert((key, name), Slot::of(timer));
            self.due.insert((timer.due, key, name));
        }
    }

    /// The next timer that is due, which counts as given to its agent.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, Key, TimerName)> {
        let first = *self.due.first().filter(|(due, ..)| *due <= now)?;
        self.due.remove(&first);
        Some(first)
    }

    /// Number of timers that are set.
    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(due, ..)| due)
    }

    /// The names of an agent's timers.
    pub(crate) fn of(&self, key: Key) -> impl Iterator<Item = TimerName> {
        let range = self.timers.range((key, TimerName(0))..=(key, TimerName(u64::MAX)));
        range.map(|(&(_, name), _)| name)
    }
}

impl Timer {
    /// It after it fired at `now`: due at the first moment of its row that is later, however many have
    /// passed; `None` if it has no row.
    pub fn after_firing(self, now: Time) -> Option<Timer> {
        let every = self.every?;
        let span = nanos(every);
        let late = now.as_nanos().saturating_sub(self.due.as_nanos());
        let due = self.due.as_nanos().saturating_add((late / span + 1).saturating_mul(span));
        Some(Timer { due: Time::from_nanos(due), every: self.every })
    }
}

/// At least 1.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_was_missed_sixty_times_is_due_once() {
        let at = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let timer = Timer { due: at(10), every: Some(Duration::from_secs(1)) };
        assert_eq!(timer.after_firing(at(70)).unwrap().due, at(71));
        assert_eq!(timer.after_firing(at(10)).unwrap().due, at(11));
        assert_eq!(Timer { every: None, ..timer }.after_firing(at(10)), None);
    }

    #[test]
    fn timers_come_in_the_order_in_which_they_are_due() {
        let mut timers = Timers::default();
        for (name, due) in [(1, 30), (2, 10), (3, 20)] {
            let timer = Timer { due: Time::from_nanos(due), every: None };
            timers.write(Key(7), TimerName(name), Some(timer));
        }
        timers.write(Key(7), TimerName(3), None);
        assert_eq!(timers.next_due(), Some(Time::from_nanos(10)));
        let now = Time::from_nanos(29);
        assert_eq!(timers.take(now).map(|(.., name)| name), Some(TimerName(2)));
        assert_eq!(timers.take(now), None);
        assert_eq!(timers.of(Key(7)).count(), 2);
        assert_eq!(timers.of(Key(8)).count(), 0);
    }
}
