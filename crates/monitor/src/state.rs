//! All that one loop knows, and the small things that its parts do to it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gate::{Job, JobId, Time};
use live::Driver;
use ring::rand::{SecureRandom, SystemRandom};

use super::admin::Operating;
use super::auth_query::AuthQueries;
use super::autodb::AutoDatabases;
use super::background::Background;
use super::cancel::Cancel;
use super::client::{self, Client};
use super::client_limits::ClientLimits;
use super::client_timeouts::ClientTimeoutsByUser;
use super::client_tls::ClientEncryption;
use super::config::{Address, Config};
use super::connection::{Buffers, Writes};
use super::deadlines::Deadlines;
use super::log::Figures;
use super::pool::{Pool, PoolIndex};
use super::probing::Probes;
use super::quotas::QuotaChain;
use super::reload::{Reads, Reloading};
use super::server::Server;
use super::slab::{Key, Slab, Socket};
use super::stats::Stats;
use super::takeover::Takeover;
use super::workers::Watchers;
use linelog::Log;
use pgwire::SqlState;
use pgwire::message::{Report, Severity, write};
use pgwire::startup::Replication;

/// Phase of the gate's life, by what becomes of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Nobody comes any more; who is here stays as long as it likes.
    Leaving,
    /// Nobody comes any more, and who comes to rest goes over to a successor.
    HandingOver,
    /// Nobody comes any more, and who has nothing under way goes.
    Draining,
}

/// All that one loop knows.
pub(super) struct Loop {
    pub(super) config: Config,
    /// Encryption with clients that want TLS.
    pub(super) tls: Option<Arc<ClientEncryption>>,
    /// Work that is done beside the loop, and the secrets that were looked up there.
    pub(super) background: Background,
    pub(super) auth_queries: AuthQueries,
    pub(super) watchers: Watchers,
    began: Instant,
    began_at: SystemTime,
    /// The moment of what is being done.
    pub(super) now: Time,
    pub(super) phase: Phase,
    /// When nobody is let in any more, while a drain has been asked for and its delay runs.
    pub(super) drains_at: Option<Time>,
    pub(super) clients: Slab<Client>,
    pub(super) servers: Slab<Server>,
    pub(super) cancels: Slab<Cancel>,
    pub(super) pools: Vec<Pool>,
    /// The databases' places in the configuration, by name.
    pub(super) databases: HashMap<String, usize>,
    pub(super) pools_by_name: HashMap<(usize, Vec<u8>), PoolIndex>,
    pub(super) autodb: AutoDatabases,
    /// Clients by the number that they may cancel by.
    pub(super) processes: HashMap<u32, Key>,
    /// Clients that have not logged in yet, by their numbers: the first has tried for longest.
    pub(super) logins: BTreeMap<u64, Key>,
    pub(super) buffers: Buffers,
    pub(super) deadlines: Deadlines,
    /// Connections that may go on, though the system will not say so.
    pub(super) again: VecDeque<Socket>,
    /// Pools whose gate has decided something.
    pub(super) decided: VecDeque<PoolIndex>,
    /// Connections to servers that are being made, and those that wait for their turn.
    pub(super) connecting: usize,
    pub(super) connects: VecDeque<Key>,
    /// Slots over several pools.
    pub(super) quotas: QuotaChain,
    /// The probes of each database.
    pub(super) probes: Vec<Option<Probes>>,
    pub(super) client_limits: ClientLimits,
    pub(super) client_timeouts: ClientTimeoutsByUser,
    /// Servers to which a connection was made.
    pub(super) reached: Vec<Address>,
    /// True if no server answered before the start, and none was [told of](super::run::Handle::servers_answer) since.
    pub(super) awaits_servers: bool,
    pub(super) log: Log,
    pub(super) access_log: Log,
    pub(super) figures: Figures,
    /// The source of new configurations, and the reading that is under way.
    pub(super) reloading: Option<Reloading>,
    pub(super) reads: Reads,
    pub(super) stats: Stats,
    pub(super) admin: Operating,
    pub(super) takeover: Takeover,
    random: SystemRandom,
    /// Bytes that are written in one go, kept for their room.
    pub(super) to_server: Vec<u8>,
    pub(super) to_client: Vec<u8>,
}

impl Loop {
    pub(super) fn new(
        config: Config,
        tls: Option<Arc<ClientEncryption>>,
        background: Background,
        watchers: Watchers,
    ) -> Loop {
        let writes = if watchers.len() > 1 { Writes::Later } else { Writes::Now };
        let stats = Stats { turns: vec![0; watchers.len()], ..Stats::default() };
        let probes = Probes::of(&config);
        let databases = config.databases.iter().enumerate();
        let databases = databases.map(|(at, database)| (database.name.clone(), at)).collect();
        Loop {
            client_timeouts: ClientTimeoutsByUser::new(&config),
            reached: Vec::new(),
            awaits_servers: false,
            config,
            databases,
            tls,
            background,
            auth_queries: AuthQueries::default(),
            watchers,
            began: Instant::now(),
            began_at: SystemTime::now(),
            now: Time::ZERO,
            phase: Phase::Open,
            drains_at: None,
            clients: Slab::new(),
            servers: Slab::new(),
            cancels: Slab::new(),
            pools: Vec::new(),
            pools_by_name: HashMap::new(),
            autodb: AutoDatabases::default(),
            processes: HashMap::new(),
            logins: BTreeMap::new(),
            buffers: Buffers::new(writes),
            deadlines: Deadlines::default(),
            again: VecDeque::new(),
            decided: VecDeque::new(),
            connecting: 0,
            connects: VecDeque::new(),
            quotas: QuotaChain::default(),
            probes,
            client_limits: ClientLimits::default(),
            log: Log::default(),
            access_log: Log::default(),
            figures: Figures::default(),
            reloading: None,
            reads: Reads::default(),
            stats,
            admin: Operating::default(),
            takeover: Takeover::default(),
            random: SystemRandom::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
        }
    }

    /// Looks at the clock.
    pub(super) fn tick(&mut self) {
        self.now = self.clock();
    }

    pub(super) fn clock(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// A moment by the calendar: that of the beginning, as the system had it then, and what has passed.
    pub(super) fn calendar(&self, moment: Time) -> SystemTime {
        // Not the system's clock of now: one that is set meanwhile would put events out of their order.
        self.began_at + Duration::from_nanos(moment.as_nanos())
    }

    /// Chance from the system.
    pub(super) fn draw<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).expect("the system gives chance to whoever asks");
        bytes
    }

    /// Tells a pool's gate something. What it decides is carried out in [`settle`](Loop::settle).
    pub(super) fn tell<T>(
        &mut self,
        pool: PoolIndex,
        what: impl FnOnce(&mut Driver<Key>, Time) -> T,
    ) -> T {
        let answer = what(&mut self.pools[pool].driver, self.now);
        // Not carried out here: a decision may close the very client or server that the caller is at.
        self.decided.push_back(pool);
        answer
    }

    /// Carries out what the gates have decided, until they have decided nothing more.
    pub(super) fn settle(&mut self) {
        loop {
            // A quota that lets a job pass or refuses it tells the pool's gate, which may decide
            // again then: so both go on until neither has anything more.
            self.settle_pools();
            if !self.quotas.chain.has_decided() {
                return;
            }
            self.settle_quotas();
        }
    }

    fn settle_pools(&mut self) {
        while let Some(pool) = self.decided.pop_front() {
            while let Some(verdict) = self.pools[pool].driver.next_decision() {
                let waits = self.clients.get(verdict.owner).and_then(|client| client.state.job());
                // The driver takes a verdict back whose client reneges before it is carried out, so
                // each one finds its client waiting. A slot given to nobody would never come back.
                assert_eq!(waits, Some(verdict.job), "who goes while waiting reneges");
                match verdict.outcome {
                    Ok(slot) => self.start(verdict.owner, slot),
                    Err(reason) => self.turn_away(verdict.owner, reason),
                }
            }
        }
    }

    /// A client's job arrives at the gate of its pool. Where nobody gets in, it may be the one that
    /// tries again.
    pub(super) fn arrive(&mut self, key: Key, since: Time) -> JobId {
        let job = self.job_of(key);
        let client = self.clients.get(key).expect("who asks is there");
        // A second job would be orphaned: the state has room for the name of one.
        assert_eq!(client.state.job(), None, "a client has one job at a time");
        let (pool, is_own) = (client.pool, client.replication != Replication::No);
        let tried = self.open_for_one(pool, is_own);
        let wait_max = self.config.classes.list()[job.class as usize].wait_max;
        let deadline = wait_max.map(|wait_max| since + wait_max);
        let job = Job { deadline, ..job };
        self.note_arrival(key, since, job.class);
        let id = self.tell(pool, |driver, now| driver.arrive(now, key, since, job));
        if let Some(place) = tried {
            // It has its slot; whoever comes behind it is refused until it is known what came of it.
            self.tell(pool, |driver, now| driver.lower(now, place));
        }
        id
    }

    /// Writes to a client; a broken connection is found when it is read.
    pub(super) fn say(&mut self, key: Key, bytes: &[u8]) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(key) else { return Ok(()) };
        client.connection.send(bytes, &mut self.buffers)
    }

    /// Tells a client why its session ends, and ends it.
    pub(super) fn fail(&mut self, key: Key, sqlstate: SqlState, message: &str) {
        self.fail_with(key, &Report::new(Severity::Fatal, sqlstate, message));
    }

    /// The same with detail and hint.
    pub(super) fn fail_with(&mut self, key: Key, report: &Report<'_>) {
        self.log_error(key, report.sqlstate, report.message);
        if let Some(client) = self.clients.get_mut(key) {
            client.ended_with = Some(report.sqlstate);
        }
        let mut out = std::mem::take(&mut self.to_client);
        out.clear();
        write::error_response(&mut out, report);
        self.end_with(key, &out);
        self.to_client = out;
    }

    /// Says the last words to a client, and closes its connection when they are written.
    pub(super) fn end_with(&mut self, key: Key, words: &[u8]) {
        if self.say(key, words).is_err() {
            self.close(key);
            return;
        }
        // Not when all is written: a client may take its time for that, and others wait for its slot.
        self.part(key);
        // With several workers the words are only queued until this flush, which finds out whether
        // the system has room for them.
        let Some(client) = self.clients.get_mut(key) else { return };
        if client.connection.flush(&mut self.buffers).is_ok() && client.connection.is_blocked() {
            let timeout = self.now + self.config.timeouts.cancel;
            self.deadlines.set(Socket::Client(key), &mut client.deadline, timeout);
        } else {
            self.close(key);
        }
    }

    /// Closes a client's connection.
    pub(super) fn close(&mut self, key: Key) {
        self.part(key);
        let Some(mut client) = self.clients.remove(key) else { return };
        self.deadlines.clear(Socket::Client(key), &mut client.deadline);
        self.log_end(&client);
        self.count_out(&client);
        client.connection.close(&mut self.buffers);
    }

    /// Takes a client away from all that it has to do with, but for its socket.
    fn part(&mut self, key: Key) {
        self.note_leave(key);
        let Some(client) = self.clients.get_mut(key) else { return };
        // Who is told why it ends comes here twice, before its last words and at its close: the
        // second time there must be nothing left to give back.
        let state = std::mem::replace(&mut client.state, client::State::Ending);
        self.logins.remove(&client.id);
        let pool = client.pool;
        if client.secret_bytes > 0 {
            client.secret_bytes = 0;
            let cancels = self.processes.remove(&client.process);
            assert_eq!(cancels, Some(key), "a number for cancelling is of one client");
        }
        match state {
            client::State::WaitingForWelcome(job) => {
                self.pools[pool].waiting_for_welcome.retain(|one| *one != key);
                if let Some(job) = job {
                    self.renege(pool, job);
                }
                // It may have been the one that asked a server on behalf of all.
                self.invite(pool);
            }
            client::State::Waits(job) => {
                self.renege(pool, job);
                self.forget(key);
            }
            client::State::Idle => self.forget(key),
            client::State::Served(server) => self.leave(key, server),
            // Nothing of these is at a gate.
            _ => {}
        }
    }

    /// A client has this server from now on.
    pub(super) fn give_server(&mut self, key: Key, server: Key) {
        let client = self.clients.get_mut(key).expect("who asks is there");
        // One that it has had is gone: what stood for its wait at quotas, or a connection that is replaced.
        let has_one = client.state.server().is_some_and(|at| self.servers.get(at).is_some());
        assert!(!has_one, "a client has one server");
        client.state = client::State::Served(server);
    }

    /// A client has its server, which is this one, no longer, and nothing at the gate.
    pub(super) fn part_from_server(&mut self, key: Key, server: Key) -> &mut Client {
        let client = self.clients.get_mut(key).expect("who has a server is there");
        assert_eq!(client.state.server(), Some(server), "a server's client names that server");
        client.state = client::State::Idle;
        client
    }

    pub(super) fn renege(&mut self, pool: PoolIndex, job: JobId) {
        self.pools[pool].counters.reneged += 1;
        self.tell(pool, |driver, now| driver.renege(now, job));
    }

    /// A client goes that has no server: so do its names for statements.
    fn forget(&mut self, key: Key) {
        let client = self.clients.get_mut(key).expect("its caller has it");
        let statements = std::mem::take(&mut client.statements);
        self.pools[client.pool].cache.forget(statements);
    }
}
