//! Values by key in the order of their last use, so that the one used least recently can go.

use std::collections::HashMap;
use std::hash::Hash;

// No place is so large (`insert`), so that to look there finds nothing.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    older: u32,
    newer: u32,
}

/// A map that knows which of its keys was used least recently. Every step takes constant time, and
/// none allocates once the map has had its greatest size.
#[derive(Clone, Debug)]
pub(super) struct Recent<K, V> {
    places: HashMap<K, u32>,
    nodes: Vec<Node<K, V>>,
    oldest: u32,
    newest: u32,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new() -> Recent<K, V> {
        Recent { places: HashMap::new(), nodes: Vec::new(), oldest: NONE, newest: NONE }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn peek(&self, key: K) -> Option<&V> {
        self.places.get(&key).map(|&at| &self.nodes[at as usize].value)
    }

    pub(super) fn peek_mut(&mut self, key: K) -> Option<&mut V> {
        self.places.get(&key).map(|&at| &mut self.nodes[at as usize].value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    /// Makes `key` the one used last, if it is there.
    pub(super) fn touch(&mut self, key: K) {
        if let Some(&at) = self.places.get(&key) {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    /// Sets a value, as the one used last.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if let Some(old) = self.peek_mut(key) {
            *old = value;
            return self.touch(key);
        }
        let at = u32::try_from(self.nodes.len()).expect("the bounds are far below");
        assert!(at != NONE, "the bounds are far below");
        self.nodes.push(Node { key, value, older: NONE, newer: NONE });
        self.places.insert(key, at);
        self.link_newest(at);
        debug_assert_eq!(self.places.len(), self.nodes.len(), "a key without a node");
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.places.remove(&key)?;
        // Before it leaves: its neighbours are told by their places, which the next step changes.
        self.unlink(at);
        let node = self.nodes.swap_remove(at as usize);
        // The last node has moved here: its neighbours must know.
        if let Some(moved) = self.nodes.get(at as usize) {
            let (key, older, newer) = (moved.key, moved.older, moved.newer);
            self.places.insert(key, at);
            match older {
                NONE => self.oldest = at,
                older => self.nodes[older as usize].newer = at,
            }
            match newer {
                NONE => self.newest = at,
                newer => self.nodes[newer as usize].older = at,
            }
        }
        debug_assert_eq!(self.places.len(), self.nodes.len(), "a node without a key");
        Some(node.value)
    }

    /// The key used least recently.
    pub(super) fn oldest(&self) -> Option<K> {
        self.nodes.get(self.oldest as usize).map(|node| node.key)
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.nodes.clear();
        (self.oldest, self.newest) = (NONE, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let (older, newer) = {
            let node = &self.nodes[at as usize];
            (node.older, node.newer)
        };
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest as usize].newer = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_used_least_recently() {
        let (mut recent, mut plain, mut state) = (Recent::new(), Vec::<u32>::new(), 1_u32);
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 16) % 24;
            match (state >> 8) % 4 {
                0 => {
                    assert_eq!(recent.remove(key), plain.contains(&key).then_some(key * 2));
                    plain.retain(|&one| one != key);
                }
                1 => {
                    recent.touch(key);
                    if plain.contains(&key) {
                        plain.retain(|&one| one != key);
                        plain.push(key);
                    }
                }
                _ => {
                    recent.insert(key, key * 2);
                    plain.retain(|&one| one != key);
                    plain.push(key);
                }
            }
            assert_eq!((recent.len(), recent.oldest()), (plain.len(), plain.first().copied()));
        }
    }
}
