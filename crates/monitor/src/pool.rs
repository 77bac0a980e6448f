//! A pool: a database as one user asks for it, with its gate, its connections and what they share.

use std::collections::VecDeque;

use gate::{GateSpec, KeyOf, Time};
use live::{Auto, Driver, placed};

use super::classes::JobClass;
use super::config::{Address, Config, Database, Mode, Reuse};
use super::janitor::Janitor;
use super::slab::Key;
use super::stats::{Counters, PoolStats, ServerStats};
use pgsession::classification_cache::ClassificationCache;
use pgsession::relay::Ahead;
use pgsession::session::Known;
use pgsession::statements::{Bounds, StatementCache};
use pgwire::auth::{Credential, Keys};
use pgwire::secrets::Users;

/// Number of a pool, in the order in which they were asked for.
pub(super) type PoolIndex = usize;

/// Origin of the credential with which the gate logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Configured,
    /// From clients that got in.
    Learnt,
}

/// Part of a job's first messages that tells which of several servers it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    /// Its access: whether it only reads.
    Access,
    /// Its class.
    Class,
    /// Its key, and whether it only reads.
    Key,
}

/// A pool.
#[derive(Debug)]
pub(super) struct Pool {
    /// The database's place in the configuration.
    pub(super) database: usize,
    pub(super) user: Vec<u8>,
    pub(super) mode: Mode,
    pub(super) reuse: Reuse,
    pub(super) driver: Driver<Key>,
    /// The quotas that its jobs pass, in this order.
    pub(super) quotas: Vec<usize>,
    /// The specification of its gate.
    pub(super) spec: GateSpec,
    /// The rule for its slots, if they are left to the gate.
    pub(super) auto: Option<Auto>,
    /// The addresses of its servers, in the order of their places.
    pub(super) addresses: Vec<Address>,
    /// True while the configuration says something of it that has to wait.
    pub(super) behind: bool,
    /// The most clients that were in at once, as far as anybody looked.
    pub(super) clients_most: u32,
    pub(super) cache: StatementCache,
    pub(super) counters: Counters,
    /// Its slots that clients keep beyond their jobs.
    pub(super) kept: u32,
    /// Settings that the first connection to a server was told; clients are told the same.
    pub(super) parameters: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The server that has told it.
    told_by: Option<Address>,
    /// Settings that its clients share.
    pub(super) known: Known,
    /// The classes of their texts.
    pub(super) classification_cache: ClassificationCache,
    /// Clients that are in and wait for these.
    pub(super) waiting_for_welcome: VecDeque<Key>,
    /// The connection that asks for them.
    pub(super) welcome_connection: Option<Key>,
    /// With what the gate logs in.
    credential: Credential,
    source: Source,
    /// The keys of the password at each server, once they were needed: deriving them takes milliseconds,
    /// and servers of one password each have a salt of their own.
    keys: Vec<Option<Keys>>,
    /// Idle connections of each server, the one used longest ago first.
    idle: Vec<VecDeque<Key>>,
    /// Connections of each server, in whatever state. Those of probes are beyond these.
    pub(super) connections: Vec<usize>,
    /// True while it starts no job, and keeps no connection that nobody needs.
    pub(super) paused: bool,
    /// When a server that is down is tried again.
    pub(super) retries: Vec<Option<Time>>,
    /// True once it was closed, and its place is for another one.
    pub(super) vacant: bool,
    /// Maintenance of its connections.
    pub(super) janitor: Janitor,
    /// When it was asked last whether something in the database asks for sequences.
    pub(super) inquired: Option<Time>,
}

impl Pool {
    /// The pool of a user at the database in place `at`.
    ///
    /// # Errors
    /// If its gate cannot be built.
    pub(super) fn new(
        at: usize,
        user: Vec<u8>,
        secret: [u8; 8],
        config: &Config,
    ) -> Result<Pool, gate::SpecError> {
        let database = &config.databases[at];
        let Database { reuse, servers, login, .. } = database;
        let terms = config.terms.get(&user);
        let (gate, mode) = database.pool(terms, config.unreachable_max);
        let (credential, source) = match configured(login.as_ref(), &user) {
            Some(credential) => (credential, Source::Configured),
            None => (Credential::Nothing, Source::Learnt),
        };
        let driver = Driver::new(&gate, config.classes.list().len(), config.record_max)?;
        Ok(Pool {
            database: at,
            user,
            mode,
            reuse: *reuse,
            driver: match mode {
                // How long a session is says nothing of what the server has to do.
                Mode::Session => driver,
                _ => driver.modelled(database.auto(terms)),
            },
            spec: gate,
            auto: database.auto(terms).copied().filter(|_| mode != Mode::Session),
            addresses: servers.clone(),
            behind: false,
            quotas: Vec::new(),
            clients_most: 0,
            cache: StatementCache::new(secret, bounds(config))
                .choosing(config.session_state.clone()),
            counters: Counters::default(),
            kept: 0,
            parameters: None,
            told_by: None,
            known: Known::default(),
            classification_cache: ClassificationCache::default(),
            waiting_for_welcome: VecDeque::new(),
            welcome_connection: None,
            credential,
            source,
            keys: vec![None; servers.len()],
            idle: vec![VecDeque::new(); servers.len()],
            connections: vec![0; servers.len()],
            paused: false,
            retries: vec![None; servers.len()],
            vacant: false,
            janitor: Janitor::default(),
            inquired: None,
        })
    }

    /// A client has got in: what is `known` of its user, or else what it `brought`, serves where nothing
    /// was configured, and takes the place of what an earlier client left. What was configured is
    /// never replaced.
    pub(super) fn learn(&mut self, known: Credential, brought: Credential) {
        let latest = if known == Credential::Nothing { brought } else { known };
        let is_new = latest != Credential::Nothing && latest != self.credential;
        if self.source == Source::Learnt && is_new {
            self.credential = latest;
            // These were derived from the password before.
            self.keys.fill(None);
            // Servers may have refused the gate for that password.
            self.janitor.is_in();
        }
    }

    /// The configuration has changed: what it knows now of the user's password counts.
    pub(super) fn configure(&mut self, database: &Database, users: &Users) {
        let configured = configured(database.login.as_ref(), &self.user);
        self.source = match configured {
            Some(_) => Source::Configured,
            None => Source::Learnt,
        };
        let listed = || users.knows(&self.user).then(|| users.credential(&self.user));
        let known = configured.or_else(listed).unwrap_or(Credential::Nothing);
        if known != Credential::Nothing && known != self.credential {
            self.credential = known;
            self.keys.fill(None);
        }
        // With another password, or elsewhere, all may be well.
        self.janitor.is_in();
    }

    /// A fresh connection was told this of its server's settings.
    pub(super) fn hear_parameters(&mut self, told: Vec<(Vec<u8>, Vec<u8>)>, address: &Address) {
        // The first stands: whoever is in was told that, and goes by it until told otherwise.
        if self.parameters.is_none() {
            (self.parameters, self.told_by) = (Some(told), Some(address.clone()));
        }
    }

    /// Forgets what servers have told, which may be another thing by now: the next fresh connection
    /// is heard anew.
    pub(super) fn forget_parameters(&mut self) {
        (self.parameters, self.told_by) = (None, None);
    }

    /// Forgets what a server has told that is none of its servers any more.
    // By address and not by place: another server may have the place by now.
    pub(super) fn forget_unlisted_users(&mut self) {
        if self.told_by.as_ref().is_some_and(|address| !self.addresses.contains(address)) {
            self.forget_parameters();
        }
    }

    /// Its servers have other places from now on, where they are at these addresses.
    pub(super) fn settle_places(&mut self, places: &[Option<usize>], addresses: Vec<Address>) {
        assert_eq!(places.len(), addresses.len(), "each place has an address");
        self.keys = placed(&mut self.keys, places);
        let idle = placed(&mut self.idle, places);
        let connections = placed(&mut self.connections, places);
        // What stays behind belongs to servers that are gone: a connection there would be counted nowhere.
        assert!(self.idle.iter().all(VecDeque::is_empty), "idle ones at other servers are closed");
        assert!(self.connections.iter().all(|&count| count == 0), "so are the others");
        (self.idle, self.connections) = (idle, connections);
        self.retries = placed(&mut self.retries, places);
        self.addresses = addresses;
    }

    /// The part of its jobs' first messages that tells which of several servers they need.
    pub(super) fn says(&self, config: &Config) -> Says {
        // With one server nothing is to be chosen: no message is waited for.
        if self.addresses.len() < 2 {
            return Says::Nothing;
        }
        match self.spec.router.reads() {
            Some(KeyOf::Key) if !config.databases[self.database].keys.is_empty() => Says::Key,
            Some(KeyOf::Class) if config.classes.look_at_texts() => Says::Class,
            _ => self.says_access(),
        }
    }

    fn says_access(&self) -> Says {
        if self.spec.roles.is_empty() { Says::Nothing } else { Says::Access }
    }

    /// The rule for the transactions of a pipeline: one that says which server it needs waits for
    /// the one before. In session mode that is said once.
    pub(super) fn ahead(&self, config: &Config) -> Ahead {
        // To wait costs a pipeline one round trip for each of its transactions.
        match self.mode == Mode::Session || self.says(config) == Says::Nothing {
            true => Ahead::Passes,
            false => Ahead::Waits,
        }
    }

    /// With what to log in now: by what is remembered of a server, if it is one of the pool's.
    pub(super) fn credential(&self, server: Option<u32>) -> Credential {
        match server.and_then(|server| self.keys[server as usize].as_ref()) {
            Some(keys) => Credential::Keys(keys.clone()),
            None => self.credential.clone(),
        }
    }

    /// With what to log in, if nothing was configured: what clients have brought.
    pub(super) fn learnt(&self) -> Credential {
        match self.source {
            Source::Learnt => self.credential.clone(),
            Source::Configured => Credential::Nothing,
        }
    }

    /// Remembers the keys that the gate's password came to at a server.
    pub(super) fn remember(&mut self, server: u32, keys: &Keys) {
        // Other credentials are used as they are: nothing of them was derived.
        if matches!(self.credential, Credential::Password(_)) {
            self.keys[server as usize] = Some(keys.clone());
        }
    }

    /// A login failed: what was remembered may be of a password that was changed since.
    pub(super) fn forget_keys(&mut self, server: u32) {
        // Derived anew, they go by the salt that the server has now.
        self.keys[server as usize] = None;
    }

    /// An idle connection to a server, which is nobody's from here on.
    pub(super) fn take_idle(&mut self, server: u32) -> Option<Key> {
        let idle = &mut self.idle[server as usize];
        match self.reuse {
            Reuse::Latest => idle.pop_back(),
            Reuse::Rotate => idle.pop_front(),
        }
    }

    /// The same of those that fit.
    pub(super) fn take_idle_that(
        &mut self,
        server: u32,
        fits: impl Fn(&Key) -> bool,
    ) -> Option<Key> {
        let idle = &mut self.idle[server as usize];
        let at = match self.reuse {
            Reuse::Latest => idle.iter().rposition(fits),
            Reuse::Rotate => idle.iter().position(fits),
        };
        idle.remove(at?)
    }

    pub(super) fn put_idle(&mut self, server: u32, key: Key) {
        debug_assert!(!self.idle[server as usize].contains(&key), "it is given to one at a time");
        self.idle[server as usize].push_back(key);
    }

    /// An idle connection has gone.
    pub(super) fn drop_idle(&mut self, server: u32, key: Key) {
        self.idle[server as usize].retain(|one| *one != key);
    }

    /// Those that are idle longest, server by server.
    pub(super) fn idle_longest(&self) -> impl Iterator<Item = Key> + '_ {
        self.idle.iter().flat_map(|idle| idle.iter().copied())
    }

    /// Its figures.
    pub(super) fn stats(&self, now: Time, database: &str, classes: &[JobClass]) -> PoolStats {
        let driver = &self.driver;
        let counters = Counters { wait_time: driver.wait_sum(), ..self.counters };
        PoolStats {
            database: database.to_owned(),
            user: String::from_utf8_lossy(&self.user).into_owned(),
            counters,
            wait: driver.wait().clone(),
            hold: driver.hold().clone(),
            classes: driver.classes(classes.iter().map(|class| &*class.name)),
            waiting: driver.waiting(),
            busy: driver.busy(),
            slots: driver.slots(),
            slots_dropped: driver.dropped(),
            servers: self.connections.iter().sum(),
            servers_idle: self.idle.iter().map(VecDeque::len).sum(),
            model: self.estimates(database, classes),
            control: driver.controlled(),
            per_server: self.per_server().collect(),
            predicted_wait: driver.predicted_wait(now),
            fitted: self.fitted(),
        }
    }

    /// The state of each server, in the order of the database's.
    pub(super) fn per_server(&self) -> impl Iterator<Item = ServerStats> + '_ {
        let servers = self.driver.servers().zip(&self.connections);
        servers.map(|(server, &connections)| ServerStats {
            role: server.role,
            up: server.up,
            waiting: server.waiting,
            busy: server.busy,
            slots: server.slots,
            started: server.started,
            connections,
        })
    }
}

/// Bounds of the prepared-statement cache of a pool.
pub(super) fn bounds(config: &Config) -> Bounds {
    Bounds { server_max: config.limits.statements, ..Bounds::default() }
}

/// The credential of a user that a configuration gives beside its lists.
fn configured(login: Option<&(Vec<u8>, Credential)>, user: &[u8]) -> Option<Credential> {
    let known = login.filter(|(name, known)| name == user && *known != Credential::Nothing);
    known.map(|(_, credential)| credential.clone())
}
