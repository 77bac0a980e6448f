//! A new configuration for a monitor that runs: what it changes, and what it cannot change. Nobody is
//! dropped, and nothing is half applied: what describes no monitor leaves all as it was.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};

use gate::Gate;
use linelog::Log;
use mio::Waker;
use thiserror::Error;

use super::access_log;
use super::admin::Awaited;
use super::client_timeouts::ClientTimeoutsByUser;
use super::client_tls::ClientEncryption;
use super::config::{AccessLog, Config, Database, StartError};
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

/// Makes the configuration that was read last, but for these keys and their values.
pub(super) type Setter = Box<dyn FnMut(&[Set]) -> Result<Config, String> + Send>;

/// A key of PgBouncer's, and the value that an administrator gave it.
pub(super) type Set = (String, String);

/// A configuration that was checked, with its certificate read and its access log opened.
pub(super) struct Fresh {
    config: Config,
    tls: Option<Arc<ClientEncryption>>,
    /// None if it is the log that there was when it was checked.
    access_log: Option<Log>,
}

impl Config {
    /// Checks that a monitor can begin with it, as far as that can be told without listening.
    ///
    /// # Errors
    /// If it is invalid, or the certificate cannot be used.
    pub fn try_out(self) -> Result<(), StartError> {
        self.tried_out().map(drop)
    }

    /// Checks it, and reads the certificate.
    fn tried_out(&self) -> Result<Option<Arc<ClientEncryption>>, StartError> {
        self.check()?;
        // So that no pool fails to be built later, for a client that only wants in.
        for database in &self.databases {
            Gate::new(&database.gate)?;
        }
        Ok(self.tls.as_ref().map(ClientEncryption::load).transpose()?.flatten())
    }
}

impl fmt::Debug for Fresh {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fresh").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Fresh {
    /// `now` is the access log that there is: opened once, it is written to whatever becomes of its name. Another one may
    /// take a while to open, and so it is done here, beside the loop.
    ///
    /// # Errors
    /// If the configuration is invalid, the certificate cannot be used, or another access log cannot be written.
    pub(super) fn new(config: Config, now: Option<&AccessLog>) -> Result<Fresh, StartError> {
        let tls = config.tried_out()?;
        let is_other = config.access_log.as_ref() != now;
        let access_log =
            is_other.then(|| access_log::open(config.access_log.as_ref())).transpose()?;
        Ok(Fresh { config, tls, access_log })
    }

    /// True if it can take the place of this one: its access log is the same, or open. It is not where another one was
    /// taken since it was checked.
    pub(super) fn follows(&self, now: &Config) -> bool {
        self.access_log.is_some() || self.config.access_log == now.access_log
    }

    pub(super) fn into_parts(self) -> (Config, Option<Arc<ClientEncryption>>, Option<Log>) {
        (self.config, self.tls, self.access_log)
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
    /// It describes no monitor, its certificate cannot be used, or its access log cannot be written.
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
    setter: Option<Arc<Mutex<Setter>>>,
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
}

impl Reloading {
    pub(super) fn new(
        source: Source,
        commands: mpsc::Sender<Command>,
        waker: Arc<Waker>,
    ) -> Reloading {
        Reloading { source: Arc::new(Mutex::new(source)), setter: None, commands, waker }
    }

    pub(super) fn set_by(&mut self, setter: Setter) {
        self.setter = Some(Arc::new(Mutex::new(setter)));
    }

    /// Reads and checks a configuration, and hands it to the loop, whose access log is `now`.
    fn read(&self, now: Option<&AccessLog>) {
        let read = match self.source.lock() {
            Ok(mut source) => source().map_err(ReloadError::Unread),
            // The source has panicked: what it holds may be half changed.
            Err(_) => Err(ReloadError::Unread("the last attempt failed within the gate".into())),
        };
        let fresh = read.and_then(|config| Ok(Fresh::new(config, now)?));
        self.hand(Command::Fresh(fresh.map(Box::new)));
    }

    /// Makes and checks the configuration with these keys changed, and hands it to the loop, whose access log is `now`.
    fn set(&self, setter: &Mutex<Setter>, sets: Vec<Set>, now: Option<&AccessLog>) {
        let made = match setter.lock() {
            Ok(mut setter) => setter(&sets).map_err(ReloadError::Unread),
            Err(_) => Err(ReloadError::Unread("the last attempt failed within the gate".into())),
        };
        let fresh = made.and_then(|config| Ok(Fresh::new(config, now)?));
        self.hand(Command::Changed(fresh.map(Box::new), sets));
    }

    fn hand(&self, command: Command) {
        // Nobody minds if the monitor has ended meanwhile.
        let _ = self.commands.send(command);
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
        if self.reloading.is_none() {
            return false;
        }
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
        self.read_configuration();
        true
    }

    /// Reads a configuration on another thread.
    fn read_configuration(&mut self) {
        let reloading =
            self.reloading.clone().expect("nothing is read where nobody said from where");
        let now = self.config.access_log.clone();
        let thread = std::thread::Builder::new().name("reload".into());
        if let Err(error) = thread.spawn(move || reloading.read(now.as_ref())) {
            self.refreshed(Err(ReloadError::Unread(error.to_string())));
        }
    }

    /// A configuration was read, or could not be.
    pub(super) fn refreshed(&mut self, fresh: Result<Box<Fresh>, ReloadError>) {
        assert!(self.reads != Reads::Nothing, "a configuration is read when somebody asks");
        match fresh {
            // Whoever waits for it waits on.
            Ok(fresh) if !fresh.follows(&self.config) => return self.read_configuration(),
            Ok(fresh) => {
                // What the source says stands in place of what was set.
                self.admin.forget_sets();
                let told = self.reload(*fresh);
                self.tell_reload(Ok(&told));
            }
            Err(error) => {
                let cause = error.to_string();
                self.log.line(Line::new("reload").text("failed", &cause));
                self.tell_reload(Err(&cause));
            }
        }
        self.read_again();
    }

    fn read_again(&mut self) {
        if std::mem::take(&mut self.reads) == Reads::OneAndAgain {
            self.begin_reload(None);
        }
    }

    /// Whether keys are set that the source of configurations says.
    pub(super) fn has_setter(&self) -> bool {
        self.reloading.as_ref().is_some_and(|reloading| reloading.setter.is_some())
    }

    /// Has a configuration made in which these keys are changed, on another thread as for
    /// [`Loop::begin_reload`]; `admin_connection` is told what became of it. False if one is being read
    /// already: what it says would be lost, or what is set.
    ///
    /// # Panics
    /// If keys are not set so.
    pub(super) fn begin_set(&mut self, admin_connection: Key, sets: Vec<Set>) -> bool {
        if self.reads != Reads::Nothing {
            return false;
        }
        self.await_reload(admin_connection, Awaited::This);
        self.reads = Reads::One;
        self.make_configuration(sets);
        true
    }

    /// Makes a configuration in which these keys are changed, on another thread.
    fn make_configuration(&mut self, sets: Vec<Set>) {
        let reloading = self.reloading.clone().expect("its caller has looked");
        let setter = reloading.setter.clone().expect("the same");
        let now = self.config.access_log.clone();
        let thread = std::thread::Builder::new().name("reload".into());
        if let Err(error) = thread.spawn(move || reloading.set(&setter, sets, now.as_ref())) {
            self.changed(Err(ReloadError::Unread(error.to_string())), Vec::new());
        }
    }

    /// A configuration was made in which these keys are changed, or could not be.
    pub(super) fn changed(&mut self, fresh: Result<Box<Fresh>, ReloadError>, sets: Vec<Set>) {
        assert!(self.reads != Reads::Nothing, "a configuration is made when somebody asks");
        match fresh {
            Ok(fresh) if !fresh.follows(&self.config) => return self.make_configuration(sets),
            Ok(mut fresh) => {
                // Single values that were set stand in no source.
                self.admin.set_again(&mut fresh.config);
                self.admin.keep_sets(sets);
                let told = self.reload(*fresh);
                self.tell_reload(Ok(&told));
            }
            Err(error) => self.tell_unset(&error.to_string()),
        }
        self.read_again();
    }

    /// Takes a new configuration.
    ///
    /// # Panics
    /// If it does not [follow](Fresh::follows) the configuration that there is.
    pub(super) fn reload(&mut self, fresh: Fresh) -> Reloaded {
        let (mut config, tls, access_log) = fresh.into_parts();
        let restart = self.keep_until_restart(&mut config);
        let mut told = Reloaded { restart, later: Vec::new() };
        if config.access_log != self.config.access_log {
            self.access_log.replace(access_log.expect("another log is open where it is taken"));
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

    /// Keeps what a monitor that runs cannot change. Sentences about what counts after a restart only.
    fn keep_until_restart(&mut self, config: &mut Config) -> Vec<String> {
        let mut restart = Vec::new();
        if config.listen != self.config.listen || config.sockets != self.config.sockets {
            restart.push("other addresses to listen on count after a restart".into());
        }
        (config.listen, config.sockets) =
            (self.config.listen.clone(), std::mem::take(&mut self.config.sockets));
        if config.workers != self.config.workers {
            restart.push("another number of workers counts after a restart".into());
        }
        config.workers = self.config.workers;
        // Recordings of gates that go on have the length that they began with.
        config.record_max = self.config.record_max;
        if config.takeover != self.config.takeover {
            restart.push("another socket for takeovers counts after a restart".into());
        }
        config.takeover.clone_from(&self.config.takeover);
        if config.admin.http != self.config.admin.http {
            restart.push("another address for metrics counts after a restart".into());
        }
        config.admin.http = self.config.admin.http;
        if config.limits.backlog != self.config.limits.backlog {
            restart.push("another backlog counts after a restart".into());
        }
        config.limits.backlog = self.config.limits.backlog;
        if config.admin.is_used() && !self.admin.is_open() {
            restart.push("a console where there was none counts after a restart".into());
        }
        restart
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
