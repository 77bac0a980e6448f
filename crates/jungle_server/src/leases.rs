//! Leases of versions that are held: whoever asked may have been killed, and nobody may let go for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The moments at which holds end, by their names. A hold without a lease is not among them.
#[derive(Debug, Default)]
pub(crate) struct Leases(BTreeMap<String, Instant>);

impl Leases {
    /// A hold begins, or is asked for again: with a lease from now on, or for good.
    pub(crate) fn begin(&mut self, name: String, lease: Option<Duration>, now: Instant) {
        match lease {
            Some(lease) => drop(self.0.insert(name, now + lease)),
            None => drop(self.0.remove(&name)),
        }
    }

    /// A hold is let go of.
    pub(crate) fn end(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The time until the first ends.
    pub(crate) fn until(&self, now: Instant) -> Option<Duration> {
        self.0.values().min().map(|end| end.saturating_duration_since(now))
    }

    /// Those that have ended, which are forgotten.
    pub(crate) fn over(&mut self, now: Instant) -> Vec<String> {
        let is_over = |(_, end): &(&String, &Instant)| **end <= now;
        let over: Vec<String> =
            self.0.iter().filter(is_over).map(|(name, _)| name.clone()).collect();
        for name in &over {
            self.0.remove(name);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_once_and_can_be_begun_again_or_made_good() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let mut leases = Leases::default();
        leases.begin("a".into(), Some(second), begun);
        leases.begin("b".into(), Some(second * 3), begun);
        leases.begin("c".into(), Some(second), begun);
        leases.begin("for good".into(), None, begun);
        assert_eq!(leases.until(begun), Some(second));
        leases.begin("c".into(), None, begun);
        leases.begin("a".into(), Some(second * 2), begun);
        assert_eq!(leases.over(begun + second), Vec::<String>::new());
        assert_eq!(leases.over(begun + second * 2), ["a"]);
        assert_eq!(leases.over(begun + second * 2), Vec::<String>::new());
        leases.end("b");
        assert_eq!(leases.until(begun), None);
    }
}
