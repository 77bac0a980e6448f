//! The agents of a partition by key and by the bounds that they publish: who receives a multicast.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::agent::Bound;
use crate::message::{Audience, Destination, Key};
use crate::store::Listed;

/// All agents that have a state, whether in memory or not. Their bounds are in the index alone: what an
/// agent published before, whoever changes it tells.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Each with its wish for multicasts.
    agents: BTreeMap<Key, bool>,
    symbols: BTreeMap<u32, Limits>,
}

/// The bounds on one symbol by price, those that a price can be below of and those that it can be above.
#[derive(Debug, Default)]
struct Limits {
    lows: BTreeSet<(i64, Key)>,
    highs: BTreeSet<(i64, Key)>,
}

impl Directory {
    /// The agents of a snapshot: trees that are built in one go have full nodes.
    pub(crate) fn open(listed: Vec<(Key, Listed)>) -> Directory {
        let (mut lows, mut highs) = (BTreeMap::new(), BTreeMap::new());
        for (key, listed) in &listed {
            for bound in &listed.bounds {
                let put = |into: &mut BTreeMap<u32, Vec<(i64, Key)>>, price| {
                    into.entry(bound.symbol).or_default().push((price, *key));
                };
                low_of(bound).into_iter().for_each(|low| put(&mut lows, low));
                high_of(bound).into_iter().for_each(|high| put(&mut highs, high));
            }
        }
        let mut symbols: BTreeMap<u32, Limits> = BTreeMap::new();
        for (symbol, all) in lows {
            symbols.entry(symbol).or_default().lows = all.into_iter().collect();
        }
        for (symbol, all) in highs {
            symbols.entry(symbol).or_default().highs = all.into_iter().collect();
        }
        let agents = listed.into_iter().map(|(key, listed)| (key, listed.armed)).collect();
        Directory { agents, symbols }
    }

    /// An agent is, or is armed otherwise; `None` if it has ended.
    pub(crate) fn write(&mut self, key: Key, armed: Option<bool>) {
        match armed {
            Some(armed) => _ = self.agents.insert(key, armed),
            None => _ = self.agents.remove(&key),
        }
    }

    /// An agent publishes other bounds than before.
    pub(crate) fn rebind(&mut self, key: Key, before: &[Bound], now: &[Bound]) {
        for bound in before {
            let limits = self.symbols.entry(bound.symbol).or_default();
            low_of(bound).into_iter().for_each(|low| _ = limits.lows.remove(&(low, key)));
            high_of(bound).into_iter().for_each(|high| _ = limits.highs.remove(&(high, key)));
            if limits.lows.is_empty() && limits.highs.is_empty() {
                self.symbols.remove(&bound.symbol);
            }
        }
        for bound in now {
            let limits = self.symbols.entry(bound.symbol).or_default();
            limits.lows.extend(low_of(bound).map(|low| (low, key)));
            limits.highs.extend(high_of(bound).map(|high| (high, key)));
        }
    }

    /// True if an agent is armed; `None` if there is none.
    pub(crate) fn get(&self, key: Key) -> Option<bool> {
        self.agents.get(&key).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.agents.len()
    }

    /// The agents from a key on, in order, each with its wish.
    pub(crate) fn from(&self, key: Key) -> impl Iterator<Item = (Key, bool)> {
        self.agents.range(key..).map(|(&key, &armed)| (key, armed))
    }

    /// The agents with a bound that this price is outside of.
    pub(crate) fn crossed(&self, symbol: u32, price: i64) -> impl Iterator<Item = Key> {
        let last = Key(u64::MAX);
        let limits = self.symbols.get(&symbol).into_iter();
        limits.flat_map(move |limits| {
            let lows = limits.lows.range((Excluded((price, last)), Unbounded));
            lows.chain(limits.highs.range(..(price, Key(0)))).map(|&(_, key)| key)
        })
    }
}

/// The price that others can be below of; none if nothing is lower.
fn low_of(bound: &Bound) -> Option<i64> {
    (bound.low > i64::MIN).then_some(bound.low)
}

/// The price that others can be above of; none if nothing is higher.
fn high_of(bound: &Bound) -> Option<i64> {
    (bound.high < i64::MAX).then_some(bound.high)
}

/// True if a multicast reaches an agent that is listed so. Keys are sorted.
pub(crate) fn reaches(
    to: &Destination,
    audience: Audience,
    key: Key,
    (armed, bounds): (bool, &[Bound]),
) -> bool {
    if audience == Audience::Armed && !armed {
        return false;
    }
    match to {
        Destination::One(one) => *one == key,
        Destination::Keys(keys) => keys.binary_search(&key).is_ok(),
        Destination::Range(from, to) => (from..=to).contains(&&key),
        Destination::All => true,
        Destination::Crossed { symbol, price } => {
            let outside = |bound: &Bound| *price < bound.low || *price > bound.high;
            bounds.iter().any(|bound| bound.symbol == *symbol && outside(bound))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index and the plain question agree, for all prices around all bounds.
    #[test]
    fn those_crossed_are_those_outside_of_a_bound() {
        let bound = |symbol, low, high| Bound { symbol, low, high };
        let agents = [
            (1, vec![bound(1, 5, 8), bound(2, 3, 3)]),
            (2, vec![bound(1, i64::MIN, 6)]),
            (3, vec![bound(2, 0, i64::MAX)]),
            (4, vec![]),
            (5, vec![bound(1, 1, 2)]),
        ];
        // Some are there from the start, the others come and go later.
        let listed = |(key, bounds): &(u64, Vec<Bound>)| {
            (Key(*key), Listed { armed: true, bounds: bounds.clone() })
        };
        let mut directory = Directory::open(agents[..2].iter().map(listed).collect());
        for (key, bounds) in &agents[2..] {
            directory.write(Key(*key), Some(true));
            directory.rebind(Key(*key), &[], bounds);
        }
        directory.write(Key(5), None);
        directory.rebind(Key(5), &agents[4].1, &[]);
        let (old, other) = (agents[0].1.clone(), [bound(3, 1, 2)]);
        directory.rebind(Key(1), &old, &other);
        assert_eq!(directory.crossed(3, 3).collect::<Vec<_>>(), [Key(1)]);
        directory.rebind(Key(1), &other, &old);
        assert!(!directory.symbols.contains_key(&3), "nobody has a bound on it");
        for symbol in 0..4 {
            for price in [i64::MIN, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, i64::MAX] {
                let to = Destination::Crossed { symbol, price };
                let plain = agents[..4].iter().filter(|(key, bounds)| {
                    reaches(&to, Audience::Everyone, Key(*key), (true, bounds))
                });
                let plain: BTreeSet<Key> = plain.map(|(key, _)| Key(*key)).collect();
                let found: BTreeSet<Key> = directory.crossed(symbol, price).collect();
                assert_eq!(found, plain, "{symbol}, {price}");
            }
        }
        assert_eq!((directory.len(), directory.from(Key(3)).count()), (4, 2));
    }
}
