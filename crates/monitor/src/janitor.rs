//! Pool maintenance: prewarmed connections, liveness checks, lifetime, retries, and the message to
//! clients while no server can be reached.

use std::time::Duration;

use gate::Time;
use live::model::Work;
use live::{Permits, SlotGuard};

use super::config::{Address, Database, Mode, Share};
use super::log::Line;
use super::pool::{Pool, PoolIndex};
use super::server::{Begun, Server, State};
use super::slab::{Key, Socket};
use super::state::{Loop, Phase};
use pgwire::SqlState;
use pgwire::auth::Credential;
use pgwire::message::{Report, Severity};
use pgwire::startup::Replication;

/// Upkeep of the connections of a database's pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Connections that a pool keeps, spread over the servers of its database; no more than it has
    /// slots. Only those of pools that have clients, or whose database has a [forced
    /// user](Database::forced): then from the start on.
    pub slots_kept: u32,
    /// Idle time after which a connection beyond these is closed, if not
    /// [`Timeouts::server_idle`](super::Timeouts::server_idle).
    pub idle: Option<Duration>,
    /// Lifetime of a connection, if not
    /// [`Timeouts::server_lifetime`](super::Timeouts::server_lifetime).
    pub lifetime: Option<Duration>,
    /// A query on a fresh connection before anybody has it, and again when its session was
    /// discarded. If it fails, the connection is closed and its client told. Settings are better
    /// [begun with](Database::settings): these are what RESET goes back to.
    pub connect_query: Option<String>,
}

/// The liveness check of a connection that was idle for long, before a client has it. One that
/// fails is replaced, and its client hears nothing of it; where it does not answer in time, other
/// idle ones that were silent for as long are closed too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The query; an empty one does.
    pub query: String,
    /// Idle time after which a connection is asked. One that was idle for a tenth of a second is
    /// read in any case, to see whether its server has ended it.
    pub after: Duration,
}

impl Default for Check {
    /// An empty query after 30 s.
    fn default() -> Check {
        Check { query: String::new(), after: Duration::from_secs(30) }
    }
}

/// Idle time after which a connection is read before it is used: a transaction of a busy pool costs
/// no system call for it.
const LOOK: Duration = Duration::from_millis(100);

/// Time for which a pool believes that nothing in its database asks for sequences. The question reads all
/// defaults, views and functions of the database: a tenth of a second where these are ten thousand.
const INQUIRES_AGAIN: Duration = Duration::from_secs(60);

/// One row if a function, a default, a view or rule, a constraint, a trigger's condition or a policy of
/// the database calls `currval` (function 1575 of PostgreSQL) or `lastval` (2559). Functions of SQL and
/// other languages are texts; what PostgreSQL has read has numbers. Its own, which begin below 16384,
/// call neither.
const HIDDEN: &str = "SELECT 1 WHERE EXISTS (SELECT FROM pg_catalog.pg_proc AS f \
     WHERE f.oid >= 16384 AND pg_catalog.lower(f::text) OPERATOR(pg_catalog.~~) \
     ANY ('{%currval%,%lastval%,%:funcid 1575 %,%:funcid 2559 %}')) \
     OR EXISTS (SELECT FROM (SELECT adbin FROM pg_catalog.pg_attrdef \
     UNION ALL SELECT ev_action FROM pg_catalog.pg_rewrite WHERE oid >= 16384 \
     UNION ALL SELECT ev_qual FROM pg_catalog.pg_rewrite WHERE oid >= 16384 \
     UNION ALL SELECT conbin FROM pg_catalog.pg_constraint \
     UNION ALL SELECT typdefaultbin FROM pg_catalog.pg_type WHERE oid >= 16384 \
     UNION ALL SELECT tgqual FROM pg_catalog.pg_trigger \
     UNION ALL SELECT polqual FROM pg_catalog.pg_policy \
     UNION ALL SELECT polwithcheck FROM pg_catalog.pg_policy) AS t (tree) \
     WHERE tree::text OPERATOR(pg_catalog.~~) ANY ('{%:funcid 1575 %,%:funcid 2559 %}'))";

/// How long clients hear why nobody gets in before one of them tries again.
const RETRY: Duration = Duration::from_millis(500);

/// Time that a server that was unavailable may take to accept a connection, so that one that has
/// vanished from the network holds up nobody's next try; for the login it may take longer.
const ACCEPTS: Duration = Duration::from_secs(2);

/// Maintenance of the connections of a pool.
#[derive(Debug, Default)]
pub(super) struct Janitor {
    /// When one was closed last since it was old.
    renewed: Option<Time>,
    /// Those that are being made for nobody, and until when no more are.
    prewarming: Vec<Key>,
    prewarm_from: Option<Time>,
    unavailable: Option<Unavailable>,
}

/// The message to clients while no server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// They are told why at once.
    AtOnce,
    /// They are told why when they have waited in vain.
    InTheEnd,
}

/// Nobody gets in.
#[derive(Debug)]
pub(super) struct Unavailable {
    notice: Notice,
    /// The message that clients hear: the server's own, if it was reached.
    words: Vec<u8>,
    /// When it was tried last.
    tried: Time,
    /// The server that is tried next.
    next: u32,
}

impl Janitor {
    /// A connection was made, or may be.
    pub(super) fn is_in(&mut self) {
        (self.unavailable, self.prewarm_from) = (None, None);
    }

    /// True if the pool's clients wait for a server that was there before: it is tried now and then.
    pub(super) fn awaits_return(&self) -> bool {
        self.unavailable.as_ref().is_some_and(|one| one.notice == Notice::InTheEnd)
    }

    /// The pool's unavailability, if whoever comes hears of it at once.
    pub(super) fn unavailable_at_once(&self) -> Option<&Unavailable> {
        self.unavailable.as_ref().filter(|one| one.notice == Notice::AtOnce)
    }

    /// The message that says why nobody gets in.
    pub(super) fn words(&self) -> Option<Vec<u8>> {
        self.unavailable.as_ref().map(|one| one.words.clone())
    }

    pub(super) fn is_made(&mut self, key: Key) {
        self.is_in();
        self.is_gone(key);
    }

    pub(super) fn is_gone(&mut self, key: Key) {
        self.prewarming.retain(|one| *one != key);
    }
}

impl Server {
    /// True while its client has said nothing on it yet.
    pub(super) fn is_unheard(&self) -> bool {
        let unheard = matches!(
            self.state,
            State::Inquiring
                | State::Introducing
                | State::Checking
                | State::Setting(_)
                | State::Encoding
        );
        // A client that keeps its server has said something there before, though not in this job.
        unheard && self.client.is_some() && self.pinned.is_none() && !self.is_pinned()
    }

    /// True if another connection may take its place unseen: it was idle, and its client has said
    /// nothing on it.
    pub(super) fn is_replaceable(&self) -> bool {
        self.reused && self.is_unheard()
    }
}

impl Loop {
    /// Closes connections that are old or not needed, and makes those that are to be there.
    pub(super) fn tend(&mut self) {
        self.open_kept();
        self.close_autodbs();
        for pool in 0..self.pools.len() {
            if !self.pools[pool].vacant {
                self.close_old(pool);
                self.fill_up(pool);
            }
        }
    }

    /// Opens the pools that keep connections though no client has come.
    pub(super) fn open_kept(&mut self) {
        for at in 0..self.config.databases.len() {
            let database = &self.config.databases[at];
            if database.maintenance.slots_kept == 0 || !self.is_offered(at) {
                continue;
            }
            // Without a forced user nobody knows as whom to connect before a client comes.
            let Some(user) = database.forced.clone() else { continue };
            let known = self.config.users.credential(&user);
            let Some(pool) = self.open_pool(at, user) else { continue };
            self.pools[pool].learn(known, Credential::Nothing);
        }
    }

    /// True if clients may ask for the database in this place by its name.
    fn is_offered(&self, at: usize) -> bool {
        let name = &self.config.databases[at].name;
        *name != Database::REST && self.databases.get(name) == Some(&at)
    }

    fn close_old(&mut self, pool: PoolIndex) {
        let maintenance = &self.config.databases[self.pools[pool].database].maintenance;
        let idle_max = maintenance.idle.unwrap_or(self.config.timeouts.server_idle);
        let kept = self.kept_now(pool);
        let mut there: usize = self.pools[pool].connections.iter().sum();
        let idle: Vec<Key> = self.pools[pool].idle_longest().collect();
        for key in idle {
            let server = self.servers.get(key).expect("idle connections are there");
            let (active, since) = (server.active, server.since);
            // Those idle for longest come first: what is kept are the ones used last.
            let needless = there > kept && self.now.since(active) > idle_max;
            if needless || self.is_old(pool, since) {
                self.drop_server(key);
                there -= 1;
            }
        }
    }

    /// True if a connection that was made then is to be closed for its age: those that were made at
    /// once are not all renewed at once.
    pub(super) fn is_old(&mut self, pool: PoolIndex, since: Time) -> bool {
        let maintenance = &self.config.databases[self.pools[pool].database].maintenance;
        let lifetime = maintenance.lifetime.unwrap_or(self.config.timeouts.server_lifetime);
        if self.now.since(since) <= lifetime {
            return false;
        }
        // So all are renewed in one lifetime. Those that began together would else end together, and jobs
        // would wait for as many new ones at once.
        let apart = lifetime / self.pools[pool].driver.slots().max(1);
        let janitor = &mut self.pools[pool].janitor;
        if janitor.renewed.is_some_and(|last| self.now.since(last) < apart) {
            return false;
        }
        janitor.renewed = Some(self.now);
        true
    }

    /// Connections that a pool keeps even if nobody needs them.
    fn kept_now(&self, pool: PoolIndex) -> usize {
        let database = &self.config.databases[self.pools[pool].database];
        let kept = database.maintenance.slots_kept as usize;
        // There may be a pool for each user who ever came: one that nobody is in keeps nothing.
        let is_used = database.forced.is_some() || self.client_limits.of_pool(pool) > 0;
        let goes_on = self.phase == Phase::Open && !self.pools[pool].paused;
        if is_used && goes_on { kept } else { 0 }
    }

    /// Begins the connections that a pool lacks of those that it keeps.
    fn fill_up(&mut self, pool: PoolIndex) {
        let kept = self.kept_now(pool);
        let later = self.pools[pool].janitor.prewarm_from.is_some_and(|from| self.now < from);
        if kept == 0 || later || !self.databases.contains_key(self.database_of(pool)) {
            return;
        }
        let places = self.pools[pool].connections.len();
        let parts = Share::Together.of(kept as u32, places);
        for (place, part) in parts.into_iter().enumerate() {
            let driver = &self.pools[pool].driver;
            let most = part.slots.min(driver.slots_of(place as u32)) as usize;
            // While clients are told at once that nobody gets in, these tries find out that one does again.
            while self.pools[pool].connections[place] < most
                && (self.pools[pool].driver.is_up(place as u32)
                    || self.pools[pool].janitor.unavailable_at_once().is_some())
                && self.may_connect(pool)
            {
                self.make_prewarmed(pool, place as u32);
                if self.pools[pool].janitor.prewarm_from.is_some() {
                    // It could not even be begun.
                    return;
                }
            }
        }
    }

    fn database_of(&self, pool: PoolIndex) -> &str {
        &self.config.databases[self.pools[pool].database].name
    }

    /// Begins a connection that is nobody's; a job that needs one while it is being made gets it.
    fn make_prewarmed(&mut self, pool: PoolIndex, place: u32) {
        let key = self.new_server(pool, place);
        // Before it is tried: it may fail at once, and is taken off the list then.
        self.pools[pool].janitor.prewarming.push(key);
        let latest = self.now + self.connect_timeout_of(pool);
        let server = self.servers.get_mut(key).expect("it has just been put there");
        self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        self.connects.push_back(key);
        self.connect_next();
    }

    /// A connection that is being made for nobody yet.
    pub(super) fn take_prewarmed(&mut self, pool: PoolIndex, place: u32) -> Option<Key> {
        let prewarming = &mut self.pools[pool].janitor.prewarming;
        let is_there = |key: &Key| self.servers.get(*key).is_some_and(|one| one.place == place);
        let at = prewarming.iter().position(is_there)?;
        Some(prewarming.swap_remove(at))
    }

    /// The settings that a server begins with for a client: in session mode those that this has
    /// begun with, so that RESET goes back there. But for the name of its program, which may be
    /// another for each: it is set.
    pub(super) fn begun_of(&self, pool: PoolIndex, client: Option<Key>) -> Begun {
        let client = client.and_then(|client| self.clients.get(client));
        // In the other modes clients share connections, and each sets what it began with.
        let Some(client) = client.filter(|_| self.pools[pool].mode == Mode::Session) else {
            return Begun::new();
        };
        let begun = client.settings.begun_with().filter(|(name, _)| *name != b"application_name");
        begun.map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    /// An idle connection that its server has not ended, and that began with these settings.
    pub(super) fn take_idle(&mut self, pool: PoolIndex, place: u32, begun: &Begun) -> Option<Key> {
        let is_session = self.pools[pool].mode == Mode::Session;
        loop {
            let servers = &self.servers;
            let fits = |key: &Key| servers.get(*key).is_some_and(|server| server.begun == *begun);
            let taken = match is_session {
                true => self.pools[pool].take_idle_that(place, fits),
                false => self.pools[pool].take_idle(place),
            };
            match taken {
                Some(key) if self.is_alive(key) => return Some(key),
                Some(_) => {}
                None => break,
            }
        }
        // One that began otherwise makes room for the one that is made now.
        let Pool { connections, driver, .. } = &self.pools[pool];
        if is_session
            && connections[place as usize] >= driver.slots_of(place) as usize
            && let Some(key) = self.pools[pool].take_idle(place)
        {
            self.drop_server(key);
        }
        None
    }

    fn is_alive(&mut self, key: Key) -> bool {
        let server = self.servers.get_mut(key).expect("idle connections are there");
        assert!(matches!(server.state, State::Idle) && server.slot.is_none(), "it is nobody's");
        if self.now.since(server.active) < LOOK {
            return true;
        }
        // An event of its end may wait in the queue behind this turn. A read finds out now.
        server.connection.as_mut().expect("it is made").mark_readable();
        self.hear_server(key);
        let Some(server) = self.servers.get(key) else { return false };
        let well = matches!(server.state, State::Idle) && server.stands_between();
        if !well {
            self.drop_server(key);
        }
        well
    }

    /// Asks a connection that was idle for long whether it is alive. False if it need not be asked.
    pub(super) fn check(&mut self, key: Key) -> bool {
        let Some(check) = &self.config.check else { return false };
        let server = self.servers.get_mut(key).expect("its caller has it");
        if self.now.since(server.active) <= check.after {
            return false;
        }
        let query = check.query.clone();
        server.state = State::Checking;
        self.query(key, query.as_bytes());
        // Shorter than that of other questions: a client waits for it.
        let latest = self.now + self.check_max();
        if let Some(server) = self.servers.get_mut(key) {
            self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        }
        true
    }

    /// Another connection takes the place of one whose client has said nothing on it.
    pub(super) fn replace(&mut self, key: Key) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let (pool, client, slot) = (server.pool, server.client.take(), server.slot.take());
        // The slots go on to the next connection: with them given back, the client would queue again.
        let permits = std::mem::take(&mut server.permits);
        self.drop_server(key);
        match (client, slot) {
            (Some(_), Some(slot)) => drop(self.provide(pool, client, slot, permits)),
            (_, slot) => self.give_up_slot(pool, slot, permits),
        }
    }

    /// A connection that was idle has not answered in time. Other idle ones to its server that were not
    /// heard for as long are closed too: whatever lies in between may have forgotten them all at once,
    /// and its client would wait for each of them.
    pub(super) fn distrust_silent(&mut self, key: Key) {
        let server = self.servers.get(key).expect("its caller has it");
        let (pool, place) = (server.pool, server.place);
        let idle: Vec<Key> = self.pools[pool].idle_longest().collect();
        for key in idle {
            let server = self.servers.get(key).expect("idle connections are there");
            if server.place == place && self.now.since(server.active) >= self.check_max() {
                self.drop_server(key);
            }
        }
    }

    /// Time that a connection may take to say that it is alive.
    fn check_max(&self) -> Duration {
        self.config.timeouts.connect.min(self.config.timeouts.clean)
    }

    fn give_up_slot(&mut self, pool: PoolIndex, slot: Option<SlotGuard>, permits: Permits) {
        self.release_permits(permits);
        if let Some(slot) = slot {
            self.tell(pool, |driver, now| driver.depart(now, slot, Work::Failed));
        }
    }

    /// Asks a server that others had before whether something in its database asks what a session has moved
    /// of sequences, which no text shows that uses it: once on each connection. False if it is known, or
    /// was asked a while ago.
    pub(super) fn inquire(&mut self, key: Key) -> bool {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let pool = &self.pools[server.pool];
        if !server.relay.has_others_sequences() || !pool.cache.minds_sequences() {
            return false;
        }
        // A pool without an answer asks at once; later a connection asks once, and not too often.
        let asked = std::mem::replace(&mut server.inquired, true);
        if pool.inquired.is_some_and(|at| asked || self.now.since(at) < INQUIRES_AGAIN) {
            return false;
        }
        server.state = State::Inquiring;
        self.query(key, HIDDEN.as_bytes());
        true
    }

    /// It has answered. One that cannot tell may have anything.
    pub(super) fn inquired(&mut self, key: Key, failed: Option<SqlState>, rows: u64) {
        let server = self.servers.get(key).expect("its caller has it");
        let pool = &mut self.pools[server.pool];
        pool.inquired = Some(self.now);
        if failed.is_some() || rows > 0 {
            pool.cache.asked_of_sequences();
        }
        match server.client {
            Some(_) => self.prepare(key),
            None => self.give_back(key),
        }
    }

    /// Asks a fresh session what its database wants asked. False if that is nothing.
    pub(super) fn introduce(&mut self, key: Key) -> bool {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let database = &self.config.databases[self.pools[server.pool].database];
        let Some(query) = &database.maintenance.connect_query else { return false };
        // A physical replication connection takes no SQL.
        if server.replication != Replication::No {
            return false;
        }
        let query = query.clone();
        server.state = State::Introducing;
        self.query(key, query.as_bytes());
        true
    }

    /// A session was discarded: it begins again.
    pub(super) fn begin_anew(&mut self, key: Key) {
        if !self.introduce(key) {
            self.give_back(key);
        }
    }

    /// A fresh session has answered what its database wants asked.
    pub(super) fn introduced(&mut self, key: Key, failed: Option<SqlState>) {
        let server = self.servers.get_mut(key).expect("its caller has it");
        let Some(sqlstate) = failed else {
            return if server.client.is_some() { self.prepare(key) } else { self.give_back(key) };
        };
        let (pool, client) = (server.pool, server.client.take());
        server.work = Work::Failed;
        let message = format!(
            "the server refuses what is asked on each fresh connection to database \"{}\"",
            self.database_of(pool)
        );
        self.log.line(Line::new("server-error").text("error", &format!("{sqlstate} {message}")));
        self.drop_server(key);
        // Each prewarmed one would fail the same way, every second.
        self.rest(pool);
        if let Some(client) = client {
            self.part_from_server(client, key);
            self.refuse_job(client, &Report::new(Severity::Error, sqlstate, &message));
        }
    }

    /// No connection is made for nobody for a while.
    fn rest(&mut self, pool: PoolIndex) {
        let from = self.now + self.config.timeouts.server_retry;
        self.pools[pool].janitor.prewarm_from = Some(from);
    }
}

/// Availability of the servers of a pool.
impl Loop {
    /// Time that a connection of a pool may take to be made.
    pub(super) fn connect_timeout_of(&self, pool: PoolIndex) -> Duration {
        let connect = self.config.timeouts.connect;
        match self.pools[pool].janitor.unavailable {
            Some(_) => connect.min(ACCEPTS),
            None => connect,
        }
    }

    /// A server has accepted a connection: it may take its time to let the gate in.
    pub(super) fn hurries_no_more(&mut self, key: Key) {
        let Some(server) = self.servers.get_mut(key) else { return };
        if self.pools[server.pool].janitor.unavailable.is_some() && server.probe.is_none() {
            let latest = self.now + self.config.timeouts.connect;
            self.deadlines.set(Socket::Server(key), &mut server.deadline, latest);
        }
    }

    /// A connection could not be made, and there is no other server to turn to. If the pool has none
    /// that works, its gate refuses whoever waits, and whoever comes before it is tried again.
    pub(super) fn goes_out(&mut self, pool: PoolIndex, place: u32, words: &[u8]) {
        self.rest(pool);
        let works = |server: &Server| {
            server.pool == pool && server.greeting.is_none() && server.probe.is_none()
        };
        // One that works is proof enough that others can be made, however this one failed.
        if self.pools[pool].driver.has_others(place)
            || self.servers.iter().any(|(_, server)| works(server))
        {
            return;
        }
        let unavailable = Unavailable {
            notice: Notice::AtOnce,
            words: words.to_vec(),
            tried: self.now,
            next: (place + 1) % self.pools[pool].addresses.len() as u32,
        };
        self.pools[pool].janitor.unavailable = Some(unavailable);
        let soon = self.now + self.retry();
        self.pools[pool].retries[place as usize] = Some(soon);
        for retry in self.pools[pool].retries.iter_mut().flatten() {
            *retry = soon.min(*retry);
        }
        self.refuse_waiting_for_welcome(pool, words);
        self.tell(pool, |driver, now| {
            driver.set_unreachable_max(now, Some(Duration::ZERO));
            driver.lower(now, place);
        });
        let not_begun = |server: &Server| {
            server.pool == pool && server.connection.is_none() && server.probe.is_none()
        };
        let all = self.servers.iter().filter(|(_, server)| not_begun(server));
        let all: Vec<Key> = all.map(|(key, _)| key).collect();
        // These have slots already, and would try one after the other what has just failed.
        for key in all {
            let Some(server) = self.servers.get_mut(key) else { continue };
            let client = server.client.take();
            server.work = Work::Failed;
            self.drop_server(key);
            if let Some(client) = client {
                self.part_from_server(client, key);
                self.leave_unserved(client, words);
            }
        }
    }

    /// The last server of a pool cannot be reached, but could be before: it is tried again every now and
    /// then, and who asks for it waits.
    pub(super) fn awaits_return(&mut self, pool: PoolIndex, place: u32, words: &[u8]) {
        self.rest(pool);
        let (notice, words) = (Notice::InTheEnd, words.to_vec());
        self.pools[pool].janitor.unavailable =
            Some(Unavailable { notice, words, tried: self.now, next: place });
        let soon = self.now + self.retry();
        self.pools[pool].retries[place as usize] = Some(soon);
        let longest = self.pools[pool].spec.unreachable_max;
        self.tell(pool, |driver, now| {
            driver.set_unreachable_max(now, longest);
            driver.lower(now, place);
        });
    }

    /// True if clients wait for a server that cannot be reached: it was reached before.
    pub(super) fn may_return(&self, address: &Address) -> bool {
        self.config.unreachable_max != Some(Duration::ZERO) && self.reached.contains(address)
    }

    /// The moment has come to try a server again that is down. While clients wait for it to come back, a
    /// connection that is nobody's tries it, and it stays down until that is made: if it came up to be
    /// tried by a job, the waits of all would begin anew each time. Without room for such a connection
    /// a job has to.
    pub(super) fn try_again(&mut self, pool: PoolIndex, place: u32) {
        let is_awaited = |one: &Unavailable| one.notice == Notice::InTheEnd;
        let Pool { janitor, driver, connections, .. } = &self.pools[pool];
        let awaited = janitor.unavailable.as_ref().is_some_and(is_awaited) && !driver.any_up();
        let has_slot = connections[place as usize] < driver.slots_of(place) as usize;
        let is_there = |key: &Key| self.servers.get(*key).is_some_and(|one| one.place == place);
        let tries = janitor.prewarming.iter().any(is_there);
        if awaited && has_slot && !tries && !self.may_connect(pool) {
            self.evict_idle(pool);
        }
        if awaited && (tries || has_slot && self.may_connect(pool)) {
            self.pools[pool].retries[place as usize] = Some(self.now + self.retry());
            if !tries {
                self.make_prewarmed(pool, place);
            }
            return;
        }
        self.pools[pool].retries[place as usize] = None;
        self.tell(pool, |driver, now| driver.rise(now, place));
    }

    /// A connection of a pool is made: whoever has waited for its server to come back gets in.
    pub(super) fn is_back(&mut self, pool: PoolIndex) {
        if !self.pools[pool].driver.any_up() {
            self.let_in_again(pool);
        }
    }

    /// A connection to a server was made.
    pub(super) fn was_reached(&mut self, address: &Address) {
        // It stays in the list for good: addresses are those of configurations, and few.
        if !self.reached.contains(address) {
            self.reached.push(address.clone());
        }
    }

    /// Time after the last try of a server before which nobody tries again.
    fn retry(&self) -> Duration {
        RETRY.min(self.config.timeouts.server_retry)
    }

    /// Marks one server of an unavailable pool as up, for one job that is about to arrive: if the
    /// last try is some time ago, or is not this job's to be kept from. Others hear of what becomes
    /// of it.
    pub(super) fn open_for_one(&mut self, pool: PoolIndex, is_own: bool) -> Option<u32> {
        let (now, retry) = (self.now, self.retry());
        let Pool { janitor, driver, addresses, retries, .. } = &mut self.pools[pool];
        let Some(unavailable) = &mut janitor.unavailable else {
            self.let_in_again(pool);
            return None;
        };
        // Those who wait do so until a sweep raises the server; and one that is up needs nobody to try it.
        if unavailable.notice == Notice::InTheEnd || driver.any_up() {
            return None;
        }
        if now.since(unavailable.tried) < retry && !is_own {
            return None;
        }
        let servers = addresses.len() as u32;
        let place = unavailable.next % servers;
        (unavailable.tried, unavailable.next) = (now, (place + 1) % servers);
        retries[place as usize].get_or_insert(now);
        self.tell(pool, |driver, now| driver.rise(now, place));
        Some(place)
    }

    /// Ends the unavailability of a pool. If no other server was found to be up since, those that
    /// were to be tried again are up.
    fn let_in_again(&mut self, pool: PoolIndex) {
        let longest = self.pools[pool].spec.unreachable_max;
        if self.pools[pool].driver.unreachable_max() != longest {
            self.tell(pool, |driver, now| driver.set_unreachable_max(now, longest));
        }
        if self.pools[pool].driver.any_up() {
            return;
        }
        for place in 0..self.pools[pool].retries.len() {
            if self.pools[pool].retries[place].take().is_some() {
                self.tell(pool, |driver, now| driver.rise(now, place as u32));
            }
        }
    }

    /// Nobody can tell the clients that wait for the welcome the settings of the pool's servers.
    pub(super) fn refuse_waiting_for_welcome(&mut self, pool: PoolIndex, words: &[u8]) {
        // The list first: each that goes has the next one ask in its place, and none is to.
        for waiting in std::mem::take(&mut self.pools[pool].waiting_for_welcome) {
            self.stats.logins_failed += 1;
            self.end_with(waiting, words);
        }
    }
}
