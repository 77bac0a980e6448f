//! Ids, indexes, trees and commits need persistent maps whose older versions stay readable: a sequence
//! kept in the order of its keys.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;

use crate::sequence::{Chunk, Item, Iter, Sequence};

/// A persistent ordered map.
pub(crate) struct Map<K: Key, V: Clone> {
    pairs: Sequence<Pair<K, V>>,
}

/// A key of a map.
pub(crate) trait Key: Clone + Ord + fmt::Debug {}

impl<K: Clone + Ord + fmt::Debug> Key for K {}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Pair<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K: Key, V: Clone> Item for Pair<K, V> {
    type Measure = K;

    fn measure(&self) -> K {
        self.key.clone()
    }

    fn join(_: &K, right: &K) -> K {
        right.clone()
    }
}

impl<K: Key, V: Clone> Clone for Map<K, V> {
    fn clone(&self) -> Self {
        Self { pairs: self.pairs.clone() }
    }
}

impl<K: Key, V: Clone> Default for Map<K, V> {
    fn default() -> Self {
        Self { pairs: Sequence::default() }
    }
}

impl<K: Key, V: Clone> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} keys)", self.len())
    }
}

impl<K: Key, V: Clone> Map<K, V> {
    /// A map of pairs that ascend by their keys.
    pub(crate) fn from_ascending(pairs: Vec<Pair<K, V>>) -> Self {
        assert!(pairs.is_sorted_by(|left, right| left.key < right.key), "keys must ascend");
        Self { pairs: Sequence::from_items(pairs) }
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (_, pair) = self.pairs.search(|last| last < key);
        pair.filter(|pair| pair.key == *key).map(|pair| &pair.value)
    }

    /// The value of the key that this order finds.
    pub(crate) fn find(&self, order: impl Fn(&K) -> Ordering) -> Option<&V> {
        let (_, pair) = self.pairs.search(|last| order(last).is_lt());
        pair.filter(|pair| order(&pair.key).is_eq()).map(|pair| &pair.value)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key; the one that it had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (at, found) = self.pairs.search(|last| *last < key);
        if found.is_some_and(|pair| pair.key == key) {
            let pair = self.pairs.get_mut(at, |_| {}).expect("it was found there");
            return Some(std::mem::replace(&mut pair.value, value));
        }
        // A key beyond all others leads a search to the last place of the last chunk.
        self.pairs.insert(at, Pair { key, value });
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (at, found) = self.pairs.search(|last| last < key);
        found.filter(|pair| pair.key == *key)?;
        Some(self.pairs.remove(at).value)
    }

    /// Hands over the pairs of all chunks that were not seen before.
    pub(crate) fn unseen(
        &self,
        seen: &mut BTreeSet<*const Chunk<Pair<K, V>>>,
        each: &mut impl FnMut(&K, &V),
    ) {
        self.pairs.unseen(seen, &mut |pair| each(&pair.key, &pair.value));
    }

    pub(crate) fn iter(&self) -> Iter<'_, Pair<K, V>> {
        self.pairs.iter()
    }

    /// The pairs from a key on.
    pub(crate) fn from(&self, start: Bound<&K>) -> Iter<'_, Pair<K, V>> {
        let at = match start {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.pairs.search(|last| last < key).0,
            Bound::Excluded(key) => self.pairs.search(|last| last <= key).0,
        };
        self.pairs.range(at..usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_map_agrees_with_that_of_the_standard_library() {
        let (mut map, mut model) = (Map::default(), BTreeMap::new());
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (state >> 40) % 3_000;
            if state >> 39 & 1 == 0 {
                assert_eq!(map.insert(key, step), model.insert(key, step));
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
        }
        assert!(map.iter().map(|pair| (pair.key, pair.value)).eq(model.clone()));
        for key in 0..3_000 {
            assert_eq!(map.get(&key), model.get(&key));
            let from = map.from(Bound::Excluded(&key)).next().map(|pair| pair.key);
            assert_eq!(from, model.range(key + 1..).next().map(|(key, _)| *key));
        }
    }
}
