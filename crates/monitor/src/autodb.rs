//! Databases that the configuration does not name: those for which `*` stands, each with a place and
//! pools of its own when it is asked for, and those that a reload has left out. Those that nobody uses
//! go, so that names without end take memory for a few.

use std::collections::BTreeMap;

use gate::Time;

use super::pool::PoolIndex;
use super::server::State;
use super::slab::Key;
use super::state::Loop;

/// Databases that the configuration does not name, and places that nobody has any more.
#[derive(Debug, Default)]
pub(super) struct AutoDatabases {
    /// Their places, and when each was seen in use last.
    used: BTreeMap<usize, Time>,
    vacant_databases: Vec<usize>,
    vacant_pools: Vec<PoolIndex>,
}

impl AutoDatabases {
    /// A place for a database, if there is one to be had.
    pub(super) fn take_database(&mut self) -> Option<usize> {
        self.vacant_databases.pop()
    }

    /// A place for a pool, if there is one to be had.
    pub(super) fn take_pool(&mut self) -> Option<PoolIndex> {
        self.vacant_pools.pop()
    }

    /// The database in this place is asked for.
    pub(super) fn is_used(&mut self, at: usize, now: Time) {
        self.used.insert(at, now);
    }

    /// The configuration has changed, and does not name those in these places.
    pub(super) fn are(&mut self, places: impl Iterator<Item = usize>, now: Time) {
        let before = std::mem::take(&mut self.used);
        self.used = places.map(|at| (at, before.get(&at).copied().unwrap_or(now))).collect();
    }
}

impl Loop {
    /// Makes room for one pool more of the database in place `of`, if need be in place of another
    /// one that nobody uses. False if there is none.
    pub(super) fn has_room_for_pool(&mut self, of: usize) -> bool {
        if self.pools.len() - self.autodb.vacant_pools.len() < self.config.limits.pools {
            return true;
        }
        let used = self.autodb.used.iter().filter(|(at, _)| **at != of);
        let mut longest: Vec<(Time, usize)> = used.map(|(&at, &used)| (used, at)).collect();
        longest.sort_unstable();
        longest.into_iter().any(|(_, at)| self.is_unused(at) && self.close_database(at))
    }

    /// Closes databases that the configuration does not name and that nobody has used for long.
    pub(super) fn close_autodbs(&mut self) {
        let Some(kept) = self.config.timeouts.autodb_idle else { return };
        let all: Vec<usize> = self.autodb.used.keys().copied().collect();
        for at in all {
            if !self.is_unused(at) {
                self.autodb.is_used(at, self.now);
            } else if self.now.since(self.autodb.used[&at]) > kept {
                self.close_database(at);
            }
        }
    }

    fn pools_at(&self, at: usize) -> Vec<PoolIndex> {
        let pools = self.pools.iter().enumerate().filter(|(_, pool)| !pool.vacant);
        pools.filter(|(_, pool)| pool.database == at).map(|(index, _)| index).collect()
    }

    /// True if nobody is at a database, and no connection of it does anything.
    fn is_unused(&self, at: usize) -> bool {
        let works = |index: &PoolIndex| {
            let pool = &self.pools[*index];
            let of =
                self.servers.iter().filter(|(_, one)| one.pool == *index && one.probe.is_none());
            pool.driver.busy() > 0
                || pool.driver.waiting() > 0
                || of.into_iter().any(|(_, server)| !matches!(server.state, State::Idle))
        };
        self.client_limits.of_database(at) == 0 && !self.pools_at(at).iter().any(works)
    }

    /// Closes a database that nobody uses, with its pools; their places are for others.
    fn close_database(&mut self, at: usize) -> bool {
        let pools = self.pools_at(at);
        self.withdraw_probes(&pools);
        self.probes[at] = None;
        for index in pools {
            let idle: Vec<Key> = self.pools[index].idle_longest().collect();
            for key in idle {
                self.drop_server(key);
            }
            let pool = &mut self.pools[index];
            pool.vacant = true;
            let (user, quotas) = (pool.user.clone(), std::mem::take(&mut pool.quotas));
            self.pools_by_name.remove(&(at, user));
            self.admin.forget_pool(index);
            self.leave_quotas(&quotas);
            self.autodb.vacant_pools.push(index);
        }
        // No client can ask for a database without a name.
        let name = std::mem::take(&mut self.config.databases[at].name);
        // One that a reload has left out may have been asked for again since, by `*`, at another place.
        if self.databases.get(&name) == Some(&at) {
            self.databases.remove(&name);
            self.config.quotas.forget_one_of_the_rest(&name);
        }
        self.autodb.used.remove(&at);
        self.autodb.vacant_databases.push(at);
        true
    }
}
