//! Slots over several pools: of all, of a database, of a user. Behind its pool's gate a job passes
//! the gates of these, one after the other, before it has a connection: a [`Chain`].

use std::collections::BTreeMap;

use gate::Reason;
use live::{Chain, Permits, SlotGuard};

use super::config::{Config, Database};
use super::pool::{Pool, PoolIndex};
use super::server::{Server, State};
use super::slab::Key;
use super::state::Loop;
use super::stats::QuotaStats;

/// Slots over several pools. Jobs that are served at once count, and connections are never more: an
/// idle one of another pool is closed where one is needed. Those of probes are beyond them. Where they
/// are fewer than a pool's servers, a job that goes to another of these than the one before finds no
/// connection there.
///
/// Pools take turns where several wait. A job that waits here holds a slot of its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Of all pools together.
    pub all: Option<u32>,
    /// Of each database, unless it is named.
    pub database: Option<u32>,
    /// Of databases by name; under [`Database::REST`], of each of those that it stands for.
    pub databases: BTreeMap<String, u32>,
    /// Of each user, unless it is named.
    pub user: Option<u32>,
    /// Of users by name.
    pub users: BTreeMap<Vec<u8>, u32>,
}

impl Quotas {
    /// A database of this name is one of those that [`Database::REST`] stands for: what that may have
    /// for each of its databases, this one has too.
    pub(super) fn name_one_of_the_rest(&mut self, name: &str) {
        if let Some(&slots) = self.databases.get(Database::REST) {
            self.databases.entry(name.to_owned()).or_insert(slots);
        }
    }

    /// There is no database of this name any more that [`Database::REST`] stands for.
    pub(super) fn forget_one_of_the_rest(&mut self, name: &str) {
        // One of another size was said for this name, and stays for when it is asked for again.
        if self.databases.get(name) == self.databases.get(Database::REST) {
            self.databases.remove(name);
        }
    }

    /// Each of them, with a name.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let one = |name, slots: Option<u32>| slots.map(|slots| (name, slots));
        let all = [
            one("quotas.all", self.all),
            one("quotas.database", self.database),
            one("quotas.user", self.user),
        ];
        let databases: Vec<u32> = self.databases.values().copied().collect();
        let users: Vec<u32> = self.users.values().copied().collect();
        let databases = databases.into_iter().map(|slots| ("quotas.databases", slots));
        let users = users.into_iter().map(|slots| ("quotas.users", slots));
        all.into_iter().flatten().chain(databases).chain(users)
    }
}

/// The pools whose jobs a quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Database(usize),
    User(Vec<u8>),
    /// Of one pool that may serve fewer jobs at once than it has servers.
    Pool(usize, Vec<u8>),
    /// Nobody's any more.
    Nobody,
}

impl Scope {
    fn has(&self, pool: &Pool) -> bool {
        (match self {
            Scope::All => true,
            Scope::Database(database) => pool.database == *database,
            Scope::User(user) => pool.user == *user,
            Scope::Pool(database, user) => pool.database == *database && pool.user == *user,
            Scope::Nobody => false,
        }) && !pool.vacant
    }
}

/// Those whose quotas the jobs of a pool pass, in this order.
// The same for all pools, narrow before wide, or two jobs could wait for each other.
fn scopes(database: usize, user: &[u8]) -> [Scope; 4] {
    let pool = Scope::Pool(database, user.to_vec());
    [pool, Scope::User(user.to_vec()), Scope::Database(database), Scope::All]
}

/// The slots of a quota that was lifted: more than all pools can have.
// It stays where it is passed: jobs that hold its slots must find it when they give them back.
pub(super) const UNBOUNDED: u32 = 1 << 24;

/// A quota. Its gate has the same place in the chain.
#[derive(Debug)]
pub(super) struct Quota {
    scope: Scope,
    slots: u32,
}

/// All quotas, with their gates one behind the other.
#[derive(Debug, Default)]
pub(super) struct QuotaChain {
    pub(super) list: Vec<Quota>,
    pub(super) chain: Chain<Key>,
}

impl QuotaChain {
    /// A new quota, in this place.
    fn set(&mut self, at: usize, scope: Scope, slots: u32, config: &Config) {
        let room = config.databases.iter().filter_map(|database| database.gate.room).sum();
        let gate = live::turns(slots, Some(room));
        self.chain.set(at, &gate, config.record_max).expect("its parts were checked");
        let quota = Quota { scope, slots };
        match self.list.get_mut(at) {
            Some(place) => *place = quota,
            None => self.list.push(quota),
        }
        assert_eq!(self.list.len(), self.chain.len(), "each quota has its gate in the same place");
    }

    /// The place of each that is somebody's.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.list.iter().enumerate().filter(|(_, quota)| !quota.is_vacant()).map(|(at, _)| at)
    }
}

impl Quota {
    /// True if it is nobody's any more.
    pub(super) fn is_vacant(&self) -> bool {
        self.scope == Scope::Nobody
    }
}

impl Loop {
    /// The quotas that the jobs of a new pool pass, in this order: whoever waits for a wide one holds
    /// narrow ones, and not the other way round.
    pub(super) fn quotas_of(&mut self, database: usize, user: &[u8]) -> Vec<usize> {
        let mut passed = Vec::new();
        for scope in scopes(database, user) {
            let Some(slots) = self.slots_over(&scope) else { continue };
            let list = &self.quotas.list;
            let there = list.iter().position(|quota| quota.scope == scope);
            let vacant = || list.iter().position(Quota::is_vacant);
            let at = there.or_else(vacant).unwrap_or(list.len());
            if there.is_none() {
                self.quotas.set(at, scope, slots, &self.config);
            }
            passed.push(at);
        }
        passed
    }

    /// A pool that has passed these is closed: those that no other one passes are nobody's.
    pub(super) fn leave_quotas(&mut self, quotas: &[usize]) {
        for at in quotas {
            if !self.pools.iter().any(|pool| !pool.vacant && pool.quotas.contains(at)) {
                let (busy, waiting) = (self.quotas.chain.busy(*at), self.quotas.chain.waiting(*at));
                assert_eq!((busy, waiting), (0, 0), "a pool is closed when nobody is at it");
                self.quotas.list[*at].scope = Scope::Nobody;
            }
        }
    }

    /// The holder of a slot asks for the slots of its quotas. What stands for it is a server that has
    /// no connection yet.
    pub(super) fn begin_admission(
        &mut self,
        pool: PoolIndex,
        client: Option<Key>,
        slot: SlotGuard,
    ) -> Key {
        let relay = super::backend::relay_of(self.pools[pool].mode, self.config.limits.message);
        let driver = &self.pools[pool].driver;
        let (place, deadline) = (driver.slot_of(&slot).server, driver.deadline_at(&slot));
        let address = self.address_of(pool, place);
        let mut server = Server::new(pool, (place, address), relay, self.now);
        (server.state, server.slot, server.client) = (State::Admitting, Some(slot), client);
        let key = self.servers.insert(server);
        if let Some(client) = client {
            self.give_server(client, key);
        }
        // By pool, so that quotas take turns between pools and not between the classes of jobs.
        let class = pool as u32;
        let client = client.and_then(|client| self.clients.get(client));
        let since = client.map_or(self.now, |client| client.since);
        // The client's one deadline is for the pool's queue and these together.
        let passed = &self.pools[pool].quotas;
        let pass = self.quotas.chain.enter(self.now, (key, class), passed, (since, deadline));
        self.servers.get_mut(key).expect("it was just put there").asks = Some(pass);
        key
    }

    /// The configuration says other slots over several pools: those that there are have as many from now
    /// on, and pools that pass others pass these too.
    pub(super) fn reload_quotas(&mut self) {
        // Fewer slots cut nobody short: the gates let nobody pass until enough are back.
        for at in 0..self.quotas.list.len() {
            let slots = self.slots_over(&self.quotas.list[at].scope).unwrap_or(UNBOUNDED);
            if self.quotas.list[at].slots != slots {
                self.quotas.list[at].slots = slots;
                self.quotas.chain.resize(self.now, at, slots);
            }
        }
        self.catch_up_quotas();
    }

    /// Pools pass the quotas that the configuration has for them. What they hold already counts; while a
    /// job of one waits to be admitted, it is left as it is.
    pub(super) fn catch_up_quotas(&mut self) {
        for pool in (0..self.pools.len()).filter(|at| !self.pools[*at].vacant).collect::<Vec<_>>() {
            let (database, user) = (self.pools[pool].database, self.pools[pool].user.clone());
            let lacks = |scope: &Scope| {
                let at = self.quotas.list.iter().position(|quota| quota.scope == *scope);
                let passes = at.is_some_and(|at| self.pools[pool].quotas.contains(&at));
                self.slots_over(scope).is_some() && !passes
            };
            let lacking = scopes(database, &user).iter().any(lacks);
            // A job on its way passes the quotas that there were when it set out.
            if !lacking || self.is_admitting(pool) {
                continue;
            }
            if self.pools[pool].quotas.is_empty() {
                self.pools[pool].driver.keep_waiting();
            }
            let passed = self.quotas_of(database, &user);
            let had = std::mem::replace(&mut self.pools[pool].quotas, passed.clone());
            let added = passed.into_iter().filter(|quota| !had.contains(quota));
            for quota in added.collect::<Vec<_>>() {
                self.occupy_quota(pool, quota);
            }
            // Those that are lifted stay where they are passed.
            let lifted = had.into_iter().filter(|quota| !self.pools[pool].quotas.contains(quota));
            let lifted: Vec<usize> = lifted.collect();
            self.pools[pool].quotas.extend(lifted);
        }
    }

    /// Counts the slots that a pool holds at a quota, from now on.
    fn occupy_quota(&mut self, pool: PoolIndex, quota: usize) {
        let mine = self.servers.iter().filter(|(_, one)| one.pool == pool && one.slot.is_some());
        let mine: Vec<Key> = mine.map(|(key, _)| key).collect();
        for key in mine {
            let slot = self.quotas.chain.occupy(self.now, quota, pool as u32);
            if let Some(server) = self.servers.get_mut(key) {
                let has = server.permits.iter().any(|(at, _)| *at == quota);
                assert!(!has, "a job has one slot of a quota");
                server.permits.push((quota, slot));
            }
        }
    }

    /// Slots over several pools.
    fn slots_over(&self, scope: &Scope) -> Option<u32> {
        let quotas = &self.config.quotas;
        match scope {
            Scope::All => quotas.all,
            Scope::Database(at) => {
                let name = &self.config.databases[*at].name;
                quotas.databases.get(name).copied().or(quotas.database)
            }
            Scope::User(user) => quotas.users.get(user).copied().or(quotas.user),
            Scope::Pool(at, user) => {
                self.config.databases[*at].slots_scarce(self.config.terms.get(user))
            }
            Scope::Nobody => None,
        }
    }

    /// Carries out what the gates of quotas have decided.
    pub(super) fn settle_quotas(&mut self) {
        while let Some(passed) = self.quotas.chain.next_passed(self.now) {
            let key = passed.owner;
            let server = self.servers.get_mut(key).expect("who goes while waiting is withdrawn");
            assert_eq!(server.asks.take(), Some(passed.pass));
            match passed.outcome {
                Ok(permits) => self.admitted(key, permits),
                Err(reason) => self.not_admitted(key, reason),
            }
        }
    }

    /// An admission has all slots that it needs.
    fn admitted(&mut self, key: Key, permits: Permits) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let (pool, client) = (server.pool, server.client.take());
        let slot = server.slot.take().expect("it holds one of its pool");
        assert!(matches!(server.state, State::Admitting), "it waits for this");
        assert_eq!(permits.len(), self.pools[pool].quotas.len(), "it has passed each quota once");
        let is_welcome_connection = self.pools[pool].welcome_connection == Some(key);
        // Its slot was taken out above: to drop it gives nothing back.
        self.drop_server(key);
        self.tell(pool, |driver, now| driver.admitted(now, &slot));
        if let Some(client) = client {
            let place = self.pools[pool].driver.slot_of(&slot).server;
            self.note_start(client, place);
        }
        let made = self.provide(pool, client, slot, permits);
        if is_welcome_connection {
            self.pools[pool].welcome_connection = made;
        }
    }

    /// A quota does not let a job pass: its client hears of it as of its pool.
    fn not_admitted(&mut self, key: Key, reason: Reason) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let (pool, client, slot) = (server.pool, server.client.take(), server.slot.take());
        let is_welcome_connection = self.pools[pool].welcome_connection == Some(key);
        self.drop_server(key);
        if let Some(slot) = slot {
            self.tell(pool, |driver, now| driver.denied(now, slot, reason));
        }
        // It asked for all who wait for the welcome: the first one hears of it, and the next one asks.
        let waiting =
            self.pools[pool].waiting_for_welcome.front().copied().filter(|_| is_welcome_connection);
        if let Some(client) = client.or(waiting) {
            self.turn_away(client, reason);
        }
    }

    /// Gives back what a server holds of quotas.
    pub(super) fn release_permits(&mut self, permits: Permits) {
        self.quotas.chain.release(self.now, permits);
    }

    /// Closes idle connections of other pools, the ones used longest ago first, where one more would be
    /// too many.
    pub(super) fn evict_idle(&mut self, pool: PoolIndex) {
        for at in 0..self.pools[pool].quotas.len() {
            let quota = &self.quotas.list[self.pools[pool].quotas[at]];
            // Looked at for each quota anew: what made room for one counts for the next.
            let within = self.pools.iter().filter(|pool| quota.scope.has(pool));
            let used = |key: Key| Some((key, self.servers.get(key)?.active));
            let idle = within.flat_map(Pool::idle_longest).filter_map(used);
            let (open, most) = (self.open_within(&quota.scope), self.connections_most(quota));
            for key in live::evicted(open, most, idle) {
                self.drop_server(key);
            }
        }
    }

    /// The connections that a quota counts.
    fn open_within(&self, scope: &Scope) -> usize {
        let within = self.pools.iter().filter(|pool| scope.has(pool));
        within.map(|pool| pool.connections.iter().sum::<usize>()).sum()
    }

    /// True if a pool may have one connection more without closing others'.
    pub(super) fn may_connect(&self, pool: PoolIndex) -> bool {
        // Idle ones of others are not closed for what nobody has asked for yet.
        self.pools[pool].quotas.iter().all(|&at| {
            let quota = &self.quotas.list[at];
            self.open_within(&quota.scope) < self.connections_most(quota)
        })
    }

    /// Connections that a quota lets be: as many as jobs, but for those of a pool with more servers,
    /// to which jobs go by turns. A connection at each is kept there, idle ones too, or each job would
    /// have one made for it and another one's closed.
    fn connections_most(&self, quota: &Quota) -> usize {
        let servers = match &quota.scope {
            Scope::Pool(database, _) => self.config.databases[*database].servers.len(),
            _ => 0,
        };
        servers.max(quota.slots as usize)
    }

    /// Figures of the quotas.
    pub(super) fn quota_stats(&self) -> Vec<QuotaStats> {
        let there = self.quotas.places().map(|at| (at, &self.quotas.list[at]));
        let said = there.map(|(at, quota)| QuotaStats {
            name: match &quota.scope {
                Scope::All => "all".to_owned(),
                Scope::Database(at) => format!("database {}", self.config.databases[*at].name),
                Scope::User(user) => format!("user {}", String::from_utf8_lossy(user)),
                Scope::Pool(at, user) => {
                    let database = &self.config.databases[*at].name;
                    format!("pool {database}/{}", String::from_utf8_lossy(user))
                }
                Scope::Nobody => String::new(),
            },
            slots: quota.slots,
            busy: self.quotas.chain.busy(at),
            slots_dropped: self.quotas.chain.dropped(at),
            waiting: self.quotas.chain.waiting(at),
            wait: self.quotas.chain.wait(at).clone(),
        });
        said.collect()
    }
}
