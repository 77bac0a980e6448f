//! A new configuration for a monitor that runs: what it changes, and what it cannot change. Nobody is
//! dropped, and nothing is half applied: what describes no monitor leaves all as it was.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};

use gate::{Gate, GateSpec};
use mio::Waker;
use thiserror::Error;

use super::arena::Key;
use super::client_tls::ClientEncryption;
use super::config::{Config, Database, StartError};
use super::log::Line;
use super::operating::Awaited;
use super::patience::Patiences;
use super::run::Command;
use super::server::State;
use super::state::Loop;

/// Reads the configuration anew.
pub(super) type Source = Box<dyn FnMut() -> Result<Config, String> + Send>;

/// A configuration that was checked, with its certificate read.
pub(super) struct Fresh {
    config: Config,
    tls: Option<Arc<ClientEncryption>>,
}

impl Config {
    /// Whether a monitor can begin with it, as far as that can be told without listening.
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

/// What became of a new configuration that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What it says and counts only after a restart, in sentences.
    pub restart: Vec<String>,
}

impl Reloaded {
    /// What there is to be told of it.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        self.restart.iter().cloned()
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

/// Where new configurations come from when somebody asks for one.
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
            Err(_) => Err(ReloadError::Unread("the last attempt failed within the gate".into())),
        };
        let fresh = read.and_then(|config| Ok(Fresh::new(config)?));
        // Nobody minds if the monitor has ended meanwhile.
        let _ = self.commands.send(Command::Fresh(fresh.map(Box::new)));
        let _ = self.waker.wake();
    }
}

/// Whether a configuration is being read.
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
    /// up there; [`Loop::refreshed`] is told what became of it, and so is the `visitor` of the console
    /// who wants it. False if nobody said where from.
    pub(super) fn begin_reload(&mut self, visitor: Option<Key>) -> bool {
        let Some(reloading) = self.reloading.clone() else { return false };
        // What is being read may be of before the last change.
        let awaited = if self.reads == Reads::Nothing { Awaited::This } else { Awaited::Next };
        if let Some(visitor) = visitor {
            self.await_reload(visitor, awaited);
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
        config.record_max = self.config.record_max;
        if config.quotas != self.config.quotas {
            told.restart.push("other slots over several pools count after a restart".into());
        }
        config.quotas = self.config.quotas.clone();
        if config.admin.http != self.config.admin.http {
            told.restart.push("another address for metrics counts after a restart".into());
        }
        config.admin.http = self.config.admin.http;
        let wanted = std::mem::take(&mut config.databases);
        let named: HashSet<String> = wanted.iter().map(|one| one.name.clone()).collect();
        let had = std::mem::take(&mut self.config.databases);
        config.databases = self.merge(had.clone(), wanted, &mut told);
        let health = |all: &[Database]| all.iter().map(|one| one.health).collect::<Vec<_>>();
        if health(&had) != health(&config.databases) {
            told.restart.push("how servers are watched counts after a restart".into());
        }
        self.probes.resize_with(config.databases.len(), || None);
        self.config = config;
        self.tls = tls;
        self.lookups.forget();
        self.follow_patience();
        let databases = &self.config.databases;
        self.unnamed.keep(|at| !named.contains(&databases[at].name));
        for pool in 0..self.pools.len() {
            self.reload_pool(pool, &had, &mut told);
            self.settle();
        }
        let mut line = Line::new("reload").with("databases", self.databases.len());
        for restart in &told.restart {
            line = line.text("restart", restart);
        }
        self.log.line(line);
        told
    }

    /// The databases at the places that they have, new ones behind: a place is never another's.
    fn merge(
        &mut self,
        had: Vec<Database>,
        wanted: Vec<Database>,
        told: &mut Reloaded,
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
                Some(Database { name: old.name.clone(), ..rest.clone() })
            });
            let Some(mut new) = named else {
                // Who is in stays; nobody comes any more.
                merged.push(old);
                continue;
            };
            let has_pool = self.pools.iter().any(|pool| pool.database == at);
            if has_pool && new.servers.len() != old.servers.len() {
                let (name, more) = (&new.name, new.servers.len());
                let sentence =
                    format!("the {more} servers of database {name} count after a restart");
                told.restart.push(sentence);
                new = Database {
                    servers: old.servers,
                    gate: GateSpec { servers: old.gate.servers, ..new.gate },
                    share: old.share,
                    ..new
                };
            }
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

    /// What a pool is told that is there already.
    fn reload_pool(&mut self, at: usize, had: &[Database], told: &mut Reloaded) {
        let pool = &mut self.pools[at];
        let database = &self.config.databases[pool.database];
        if pool.vacant || !self.databases.contains_key(&database.name) {
            return;
        }
        let (gate, mode) = database.pool(self.config.terms.get(&pool.user));
        let whose = || format!("{}/{}", database.name, String::from_utf8_lossy(&pool.user));
        let policies = GateSpec {
            servers: pool.spec.servers.clone(),
            wait_max: pool.spec.wait_max,
            ..gate.clone()
        };
        if policies != pool.spec {
            let sentence = format!("the policies of pool {} count after a restart", whose());
            told.restart.push(sentence);
        }
        if mode != pool.mode {
            told.restart.push(format!("the mode of pool {} counts after a restart", whose()));
        }
        pool.reuse = database.reuse;
        pool.readings.forget();
        pool.configure(database, &self.config.users);
        let moved: Vec<usize> = match had.get(pool.database) {
            Some(old) => {
                let pairs = old.servers.iter().zip(&database.servers).enumerate();
                let other =
                    old.encryption != database.encryption || old.target() != database.target();
                pairs
                    .filter(|(_, (old, new))| other || old != new)
                    .map(|(place, _)| place)
                    .collect()
            }
            None => Vec::new(),
        };
        pool.spec.wait_max = gate.wait_max;
        pool.spec.servers.clone_from(&gate.servers);
        if let Some(longest) = gate.wait_max
            && longest != self.pools[at].driver.wait_max()
        {
            self.tell(at, |driver, now| driver.set_wait_max(now, longest));
        }
        // Slots that are left to the gate stay where it has found them.
        let is_controlled = self.pools[at].driver.is_controlled();
        let servers = gate.servers.iter().enumerate();
        for (place, server) in servers.filter(|_| !is_controlled) {
            self.tell(at, |driver, now| driver.resize(now, place as u32, server.slots));
            self.trim(at, place as u32);
        }
        for place in moved {
            self.move_server(at, place as u32);
        }
    }

    /// Closes idle connections beyond the slots that there are.
    fn trim(&mut self, at: usize, place: u32) {
        while self.is_crowded(at, place)
            && let Some(key) = self.pools[at].take_idle(place)
        {
            self.drop_server(key);
        }
    }

    /// Whether a server has more connections than slots.
    pub(super) fn is_crowded(&self, at: usize, place: u32) -> bool {
        let pool = &self.pools[at];
        // A trial with fewer slots is no reason to make connections anew.
        !pool.driver.is_controlled()
            && pool.connections[place as usize] > pool.driver.slots_of(place) as usize
    }

    /// A server has another address from now on: connections to the old one end with their jobs.
    fn move_server(&mut self, at: usize, place: u32) {
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
        self.tell(at, |driver, now| driver.rise(now, place));
    }

    /// How long the clients that are in may take from now on.
    pub(super) fn follow_patience(&mut self) {
        self.patiences = Patiences::new(&self.config);
        let keys: Vec<Key> = self.clients.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(client) = self.clients.get_mut(key)
                && let Some(user) = &client.user
            {
                client.patience = self.patiences.of(user);
            }
        }
    }
}
