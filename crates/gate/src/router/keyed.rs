//! Data-dependent routing: the server that a job's key or class belongs to.

use super::Router;
use crate::{Job, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow, ServerView, Time};

/// The server that a key belongs to.
#[derive(Debug)]
pub(crate) struct ByKey {
    of: KeyOf,
    map: KeyMap,
    down: KeyDown,
}

impl ByKey {
    pub(crate) fn new(of: KeyOf, mut map: KeyMap, down: KeyDown) -> ByKey {
        if let KeyMap::Table { rows, .. } = &mut map {
            rows.sort_unstable_by_key(|row: &KeyRow| row.key);
        }
        ByKey { of, map, down }
    }

    /// The server of a key by range or table; none if that is up to its hash.
    fn named(&self, key: u64) -> Option<usize> {
        match &self.map {
            KeyMap::Hash => None,
            KeyMap::Range { bounds } => Some(bounds.partition_point(|bound| *bound <= key)),
            KeyMap::Table { rows, default } => {
                match (rows.binary_search_by_key(&key, |row| row.key), default) {
                    (Ok(at), _) => Some(rows[at].server as usize),
                    (Err(_), KeyDefault::Server(server)) => Some(*server as usize),
                    (Err(_), KeyDefault::Hash) => None,
                }
            }
        }
    }
}

impl Router for ByKey {
    fn route(&mut self, _now: Time, job: &Job, servers: &[ServerView]) -> Option<usize> {
        let key = match self.of {
            KeyOf::Key => job.key,
            KeyOf::Class => job.class.into(),
        };
        let n = servers.len();
        let usable = |at: &usize| servers[*at].usable;
        match (self.named(key), self.down) {
            (Some(at), KeyDown::Next) => (0..n).map(|i| (at + i) % n).find(usable),
            (Some(at), KeyDown::Wait) => Some(at).filter(usable),
            (None, KeyDown::Next) => (0..n).filter(usable).max_by_key(|&at| rank(key, at)),
            (None, KeyDown::Wait) => (0..n).max_by_key(|&at| rank(key, at)).filter(usable),
        }
    }
}

/// Rank of a server for a key (rendezvous hashing).
fn rank(key: u64, server: usize) -> u64 {
    mix(key ^ mix(server as u64 + 1))
}

/// A permutation of the numbers in which every bit depends on every other (the finaliser of
/// splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
