//! A new configuration for a monitor that runs: what it changes, and what it cannot change. Nobody is
//! dropped, and nothing is half applied: what describes no monitor leaves all as it was.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};

use gate::Gate;
use mio::Waker;
use thiserror::Error;

use super::admin::Awaited;
use super::client_timeouts::ClientTimeoutsByUser;
use super::client_tls::ClientEncryption;
use super::config::{Config, Database, StartError};
use super::log::Line;
use super::pool::bounds;
use super::pool_rebuild::Renumbering;
use super::quotas::Quotas;
use super::run::Command;
use super::server::State;
use super::slab::Key;
use super::state::Loop;

/// Reads the configuration anew.
pub(super) type Source = Box<dyn FnMut() -> Result<Config, String> + Send>;

/// A configuration that was checked, with its certificate read.
pub(super) struct Fresh {
    config: Config,
    tls: Option<Arc<ClientEncryption>>,
}

impl Config {
    /// Checks that a monitor can begin with it, as far as that can be told without listening.
    ///
    /// # Errors
    /// If it is invalid, or the certificate cannot be used.
    pub fn try_out(self) -> Result<(), StartError> {
        Fresh::new(self).map(drop)
    }
}

impl fmt::Debug for Fresh {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fresh").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Fresh {
    /// # Errors
    /// If the configuration is invalid, or the certificate cannot be used.
    pub(super) fn new(config: Config) -> Result<Fresh, StartError> {
        config.check()?;
        // So that no pool fails to be built later, for a client that only wants in.
        for database in &config.databases {
            Gate::new(&database.gate)?;
        }
        let tls = config.tls.as_ref().map(ClientEncryption::load).transpose()?.flatten();
        Ok(Fresh { config, tls })
    }

    pub(super) fn into_parts(self) -> (Config, Option<Arc<ClientEncryption>>) {
        (self.config, self.tls)
    }
}

/// Result of a new configuration that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changes that count only after a restart, in sentences.
    pub restart: Vec<String>,
    /// Changes that count as soon as they can, in sentences: nobody is dropped for it.
    pub later: Vec<String>,
}

impl Reloaded {
    /// All sentences to be told of it.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        self.restart.iter().chain(&self.later).cloned()
    }
}

/// Why a new configuration was not taken. All is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The monitor has ended.
    #[error("the monitor has ended")]
    Ended,
    /// It describes no monitor, or its certificate cannot be used.
    #[error(transparent)]
    Invalid(#[from] StartError),
    /// It could not be read.
    #[error("{0}")]
    Unread(String),
}

/// The source of new configurations for whoever asks for one.
#[derive(Clone)]
pub(super) struct Reloading {
    source: Arc<Mutex<Source>>,
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
}

impl Reloading {
    pub(super) fn new(
        source: Source,
        commands: mpsc::Sender<Command>,
        waker: Arc<Waker>,
    ) -> Reloading {
        Reloading { source: Arc::new(Mutex::new(source)), commands, waker }
    }

    /// Reads and checks a configuration, and hands it to the loop.
    fn read(&self) {
        let read = match self.source.lock() {
            Ok(mut source) => source().map_err(ReloadError::Unread),
            // The source has panicked: what it holds may be half changed.
            Err(_) => Err(ReloadError::Unread("the last attempt failed within the gate".into())),
        };
        let fresh = read.and_then(|config| Ok(Fresh::new(config)?));
        // Nobody minds if the monitor has ended meanwhile.
        let _ = self.commands.send(Command::Fresh(fresh.map(Box::new)));
        let _ = self.waker.wake();
    }
}

/// The reading of a configuration that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reads {
    #[default]
    Nothing,
    One,
    /// It was asked for again meanwhile.
    OneAndAgain,
}

impl Loop {
    /// Has the configuration read anew on another thread, since passwords are hashed and names looked
    /// up there. [`Loop::refreshed`] is told what became of it, and so is the `admin_connection` that wants
    /// it. False if nobody said where from.
    pub(super) fn begin_reload(&mut self, admin_connection: Option<Key>) -> bool {
        let Some(reloading) = self.reloading.clone() else { return false };
        // What is being read may be of before the last change.
        let awaited = if self.reads == Reads::Nothing { Awaited::This } else { Awaited::Next };
        if let Some(admin_connection) = admin_connection {
            self.await_reload(admin_connection, awaited);
        }
        if self.reads != Reads::Nothing {
            self.reads = Reads::OneAndAgain;
            return true;
        }
        self.reads = Reads::One;
        let thread = std::thread::Builder::new().name("reload".into());
        if let Err(error) = thread.spawn(move || reloading.read()) {
            self.refreshed(Err(ReloadError::Unread(error.to_string())));
        }
        true
    }

    /// A configuration was read, or could not be.
    pub(super) fn refreshed(&mut self, fresh: Result<Box<Fresh>, ReloadError>) {
        assert!(self.reads != Reads::Nothing, "a configuration is read when somebody asks");
        match fresh {
            Ok(fresh) => {
                let told = self.reload(*fresh);
                self.tell_reload(Ok(&told));
            }
            Err(error) => {
                let cause = error.to_string();
                self.log.line(Line::new("reload").text("failed", &cause));
                self.tell_reload(Err(&cause));
            }
        }
        if std::mem::take(&mut self.reads) == Reads::OneAndAgain {
            self.begin_reload(None);
        }
    }

    /// Takes a new configuration.
    pub(super) fn reload(&mut self, fresh: Fresh) -> Reloaded {
        let (mut config, tls) = fresh.into_parts();
        let mut told = Reloaded::default();
        if config.listen != self.config.listen || config.sockets != self.config.sockets {
            told.restart.push("other addresses to listen on count after a restart".into());
        }
        (config.listen, config.sockets) =
            (self.config.listen.clone(), std::mem::take(&mut self.config.sockets));
        if config.workers != self.config.workers {
            told.restart.push("another number of workers counts after a restart".into());
        }
        config.workers = self.config.workers;
        // Recordings of gates that go on have the length that they began with.
        config.record_max = self.config.record_max;
        if config.takeover != self.config.takeover {
            told.restart.push("another socket for takeovers counts after a restart".into());
        }
        config.takeover.clone_from(&self.config.takeover);
        if config.admin.http != self.config.admin.http {
            told.restart.push("another address for metrics counts after a restart".into());
        }
        config.admin.http = self.config.admin.http;
        if config.limits.backlog != self.config.limits.backlog {
            told.restart.push("another backlog counts after a restart".into());
        }
        config.limits.backlog = self.config.limits.backlog;
        if config.admin.is_used() && !self.admin.is_open() {
            told.restart.push("a console where there was none counts after a restart".into());
        }
        let wanted = std::mem::take(&mut config.databases);
        let named: HashSet<String> = wanted.iter().map(|one| one.name.clone()).collect();
        let had = std::mem::take(&mut self.config.databases);
        config.databases = self.merge(had.clone(), wanted, &mut config.quotas);
        // From both, while both are here.
        let classes = Renumbering::new(&self.config, &config);
        self.probes.resize_with(config.databases.len(), || None);
        self.config = config;
        self.tls = tls;
        // A secret that was found by the old query, or elsewhere, proves nothing any more.
        self.auth_queries.forget();
        self.follow_patience();
        let all = self.config.databases.iter().enumerate();
        // A place that nobody has any more has no name either.
        let unnamed = all.filter(|(_, one)| !one.name.is_empty() && !named.contains(&one.name));
        self.autodb.are(unnamed.map(|(at, _)| at), self.now);
        for at in 0..self.config.databases.len() {
            let watched = |one: &Database| {
                (one.health, one.servers.clone(), one.gate.roles.clone(), one.login.clone())
            };
            let new = watched(&self.config.databases[at]);
            if had.get(at).map(watched) != Some(new) {
                self.watch_anew(at);
            }
        }
        for pool in 0..self.pools.len() {
            self.reload_pool(pool, &had, &classes, &mut told);
            self.settle();
        }
        self.reload_quotas();
        self.settle();
        let mut line = Line::new("reload").with("databases", self.databases.len());
        for restart in &told.restart {
            line = line.text("restart", restart);
        }
        for later in &told.later {
            line = line.text("later", later);
        }
        self.log.line(line);
        told
    }

    /// The databases at the places that they have, new ones behind: a place is never another's.
    fn merge(
        &mut self,
        had: Vec<Database>,
        wanted: Vec<Database>,
        quotas: &mut Quotas,
    ) -> Vec<Database> {
        let rest = wanted.iter().find(|one| one.name == Database::REST).cloned();
        let mut wanted: Vec<Option<Database>> = wanted.into_iter().map(Some).collect();
        let places = wanted.iter().flatten().enumerate();
        let places: HashMap<String, usize> =
            places.map(|(at, database)| (database.name.clone(), at)).collect();
        let mut names = HashMap::new();
        let mut merged: Vec<Database> = Vec::with_capacity(had.len());
        for (at, old) in had.into_iter().enumerate() {
            let named = places.get(&old.name).and_then(|&place| wanted[place].take());
            // Of those that only the rest names, the ones that are asked for have a place.
            let named = named.or_else(|| {
                let rest = rest.as_ref().filter(|_| self.databases.contains_key(&old.name))?;
                quotas.name_one_of_the_rest(&old.name);
                Some(Database { name: old.name.clone(), ..rest.clone() })
            });
            let Some(new) = named else {
                // Who is in stays; nobody comes any more.
                merged.push(old);
                continue;
            };
            names.insert(new.name.clone(), at);
            merged.push(new);
        }
        for new in wanted.into_iter().flatten() {
            names.insert(new.name.clone(), merged.len());
            merged.push(new);
        }
        self.databases = names;
        merged
    }

    /// Tells a pool that is there already what has changed.
    fn reload_pool(
        &mut self,
        at: usize,
        had: &[Database],
        classes: &Renumbering,
        told: &mut Reloaded,
    ) {
        let place = self.pools[at].database;
        let name = self.config.databases[place].name.clone();
        let pool = &mut self.pools[at];
        if pool.vacant {
            return;
        }
        pool.classification_cache.forget();
        pool.cache.choose(&self.config.session_state);
        pool.cache.bound(bounds(&self.config));
        let database = &self.config.databases[place];
        pool.reuse = database.reuse;
        if self.databases.contains_key(&name) {
            pool.configure(database, &self.config.users);
        }
        let old = had.get(place);
        let moves = old.is_some_and(|old| {
            old.server_tls != database.server_tls || old.target() != database.target()
        });
        let begins_otherwise = old.is_some_and(|old| {
            let query = |one: &Database| one.maintenance.connect_query.clone();
            old.settings != database.settings || query(old) != query(database)
        });
        for wait in self.bring_up(at, classes) {
            let user = String::from_utf8_lossy(&self.pools[at].user).into_owned();
            told.later.push(format!("pool {name}/{user}: {wait}"));
        }
        if moves {
            for place in 0..self.pools[at].addresses.len() {
                self.move_server(at, place as u32);
            }
        }
        if begins_otherwise {
            self.renew(at);
        }
        if moves || begins_otherwise {
            self.pools[at].forget_parameters();
        }
    }

    /// Closes idle connections beyond the slots that there are.
    pub(super) fn trim(&mut self, at: usize, place: u32) {
        while self.is_crowded(at, place)
            && let Some(key) = self.pools[at].take_idle(place)
        {
            self.drop_server(key);
        }
    }

    /// True if a server has more connections than slots.
    pub(super) fn is_crowded(&self, at: usize, place: u32) -> bool {
        let pool = &self.pools[at];
        // A trial with fewer slots is no reason to make connections anew.
        !pool.driver.is_controlled()
            && pool.connections[place as usize] > pool.driver.slots_of(place) as usize
    }

    /// A server has another address from now on: connections to the old one end with their jobs.
    pub(super) fn move_server(&mut self, at: usize, place: u32) {
        let there = self.servers.iter().filter(|(_, one)| one.pool == at && one.place == place);
        let there: Vec<Key> = there.map(|(key, _)| key).collect();
        for key in there {
            let server = self.servers.get_mut(key).expect("it was there above");
            match server.state {
                State::Idle if server.slot.is_none() => self.drop_server(key),
                _ => server.tainted = true,
            }
        }
        self.pools[at].retries[place as usize] = None;
        // The other one has a salt of its own.
        self.pools[at].forget_keys(place);
        self.tell(at, |driver, now| driver.rise(now, place));
    }

    /// Gives the clients that are in their new time limits.
    pub(super) fn follow_patience(&mut self) {
        self.client_timeouts = ClientTimeoutsByUser::new(&self.config);
        let keys: Vec<Key> = self.clients.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(client) = self.clients.get_mut(key)
                && let Some(user) = &client.user
            {
                client.timeouts = self.client_timeouts.of(user);
                // Its class may be another by now.
                client.class = None;
            }
        }
    }
}
