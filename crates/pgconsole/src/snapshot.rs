//! Contents of the console, as plain values that whoever runs the gate fills in: nothing here reads
//! a clock or a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use live::{ClassCounts, Estimate, Times};
use serde::Serialize;

use super::json;

/// The gate at one moment. Numbers of things are now, [`Counts`] since the start.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The program and its version, as in `Sekisho 0.1.0`.
    pub version: String,
    /// The moment.
    pub at: SystemTime,
    /// Since the start of the gate.
    pub uptime: Duration,
    /// Treatment of new clients and jobs.
    pub phase: Phase,
    /// Over how long [`Pool::recent`] was counted; zero before the first period has passed.
    pub period: Duration,
    /// Each pool, those of one database together.
    pub pools: Vec<Pool>,
    /// Each connection of a client.
    pub clients: Vec<Client>,
    /// Each connection to a server.
    pub servers: Vec<Server>,
    /// Each job that waits, the one that is next first.
    pub queue: Vec<Waiter>,
    /// Each client that keeps its slot beyond its job.
    pub pins: Vec<Pin>,
    /// Each database of the configuration.
    pub databases: Vec<Database>,
    /// Each user that is known.
    pub users: Vec<User>,
    /// Each key of the configuration, in alphabetic order.
    pub config: Vec<Setting>,
    /// Memory by kind: `client`, `server` and `buffer`; SHOW LISTS counts the free ones of the
    /// first two.
    pub memory: Vec<Memory>,
    /// The slots of each server of each pool, and those over several pools.
    pub slots: Vec<SlotsOf>,
    /// The gate over all pools, if there is one.
    pub over_all: Option<Slots>,
    /// The model, once one is fitted.
    pub model: Vec<Estimate>,
    /// Connections of clients accepted since the start.
    pub clients_accepted: u64,
    /// Clients that have failed to log in since the start.
    pub logins_failed: u64,
    /// Lines of the log that could not be written since the start.
    pub log_lost: u64,
}

/// Treatment of new clients and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It lets them in.
    Active,
    /// It starts no job.
    Paused,
    /// It lets out what is in, and lets nothing in.
    Draining,
}

/// When a client's slot is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// At the end of a session.
    Session,
    /// At the end of a transaction.
    Transaction,
    /// At the end of a statement.
    Statement,
}

impl Mode {
    /// The word in files and on the console.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        }
    }
}

/// Counters of a pool, in PgBouncer's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Servers given to clients: jobs started.
    pub assignments: u64,
    /// Transactions that ended.
    pub transactions: u64,
    /// Statements that ended.
    pub queries: u64,
    /// Bytes that clients have sent \[byte\].
    #[serde(rename = "received_bytes")]
    pub received: u64,
    /// Bytes sent to clients \[byte\].
    #[serde(rename = "sent_bytes")]
    pub sent: u64,
    /// In transactions, at work or idle, all added up.
    #[serde(rename = "transaction_s", serialize_with = "json::seconds")]
    pub transaction_time: Duration,
    /// At work on statements, all added up.
    #[serde(rename = "query_s", serialize_with = "json::seconds")]
    pub query_time: Duration,
    /// Waiting for a server, all added up; counted when one is given.
    #[serde(rename = "wait_s", serialize_with = "json::seconds")]
    pub wait_time: Duration,
    /// Prepared statements made by clients.
    pub client_parses: u64,
    /// Prepared statements made at servers.
    pub server_parses: u64,
    /// Prepared statements given their parameters.
    pub binds: u64,
}

impl Counts {
    /// Both together.
    pub(super) fn plus(self, other: Counts) -> Counts {
        Counts {
            assignments: self.assignments + other.assignments,
            transactions: self.transactions + other.transactions,
            queries: self.queries + other.queries,
            received: self.received + other.received,
            sent: self.sent + other.sent,
            transaction_time: self.transaction_time + other.transaction_time,
            query_time: self.query_time + other.query_time,
            wait_time: self.wait_time + other.wait_time,
            client_parses: self.client_parses + other.client_parses,
            server_parses: self.server_parses + other.server_parses,
            binds: self.binds + other.binds,
        }
    }
}

/// The slots of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// That exist.
    pub slots: u32,
    /// That are held.
    pub busy: u32,
    /// Jobs that wait for one.
    pub waiting: u32,
}

/// Slots, with their owner and their use.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotsOf {
    /// `DATABASE/USER` for a pool's; `all`, `database NAME` or `user NAME` for those over several.
    pub of: String,
    /// The slots.
    pub slots: Slots,
    /// Slots of a quota that came back because their guard was dropped; those of a server are
    /// [counted](Pool::slots_dropped) by its pool.
    pub dropped: Option<u64>,
    /// At which server, of a pool's.
    pub server: Option<ServerSlots>,
}

/// The server that a pool's slots belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSlots {
    /// The pool's database and user.
    pub pool: (String, String),
    /// Its address.
    pub address: String,
    /// Its role, as far as is known: `primary` or `replica`.
    pub role: &'static str,
    /// True if it is up, as far as is known.
    pub up: bool,
    /// Jobs that were started there.
    pub started: u64,
    /// Connections to it, in whatever state.
    pub connections: u32,
}

/// The pool of one (database, user), as clients ask for it.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
    /// When a slot is given back.
    pub mode: Mode,
    /// Its gate.
    pub gate: Slots,
    /// Slots that came back because their guard was dropped.
    pub slots_dropped: u64,
    /// The names of its policies: discipline and router.
    pub discipline: String,
    /// See `discipline`.
    pub router: String,
    /// Its clients by state.
    pub clients: PoolClients,
    /// Its servers' connections by state.
    pub servers: PoolServers,
    /// Wait of the client that waits longest; zero if none waits.
    pub wait_oldest: Duration,
    /// The choice of a host, where there are several.
    pub load_balance_hosts: Option<String>,
    /// Since the start.
    pub total: Counts,
    /// In the last [`Snapshot::period`].
    pub recent: Counts,
    /// Each class of its jobs; at least one.
    pub classes: Vec<Class>,
}

/// Clients of a pool by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolClients {
    /// They have a server, or want none.
    pub active: u32,
    /// They wait for a slot.
    pub waiting: u32,
    /// They cancel, and the server has been told.
    pub active_cancel: u32,
    /// They cancel, and the server has not been told yet.
    pub waiting_cancel: u32,
}

/// Connections to servers of a pool by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolServers {
    /// They serve a client.
    pub active: u32,
    /// They carry a cancel.
    pub active_cancel: u32,
    /// They would be free, but a cancel is on its way to them.
    pub being_cancelled: u32,
    /// They are free.
    pub idle: u32,
    /// They have been free so long that they are asked first whether they still are.
    pub used: u32,
    /// They are being asked, or cleaned up.
    pub tested: u32,
    /// They log in.
    pub login: u32,
}

/// One class of jobs in a pool: queue, slots and times.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Jobs that wait.
    pub waiting: u32,
    /// Slots that it holds.
    pub busy: u32,
    /// From arrival to start, of the jobs that started.
    pub wait: Times,
    /// From start to departure.
    pub hold: Times,
    /// Turned away because the queue was full.
    pub refused_queue_full: u64,
    /// Turned away because they had waited too long.
    pub refused_deadline: u64,
    /// Turned away at once, because they would have waited too long.
    pub refused_hopeless: u64,
    /// Turned away because no server could be reached.
    pub refused_unreachable: u64,
    /// Clients that left while they waited.
    pub reneged: u64,
}

impl Class {
    /// The same as its gate counts it.
    pub fn counts(&self) -> ClassCounts {
        ClassCounts {
            waiting: self.waiting.into(),
            busy: self.busy,
            wait: self.wait.clone(),
            hold: self.hold.clone(),
            refused_queue_full: self.refused_queue_full,
            refused_deadline: self.refused_deadline,
            refused_hopeless: self.refused_hopeless,
            refused_unreachable: self.refused_unreachable,
            reneged: self.reneged,
        }
    }

    /// Turned away, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.counts().refused()
    }
}

/// The kind of replication that a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replication {
    /// Not for replication.
    None,
    /// For logical replication.
    Logical,
    /// For physical replication.
    Physical,
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientState {
    /// It logs in: in SHOW SOCKETS only.
    Login,
    /// It has a server.
    Active,
    /// It wants none.
    Idle,
    /// It waits for a slot.
    Waiting,
    /// It cancels, and the server has been told.
    ActiveCancel,
    /// It cancels, and the server has not been told yet.
    WaitingCancel,
}

/// State of a connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// It serves a client.
    Active,
    /// It is free.
    Idle,
    /// It has been free for long.
    Used,
    /// It is asked whether it still lives, or cleaned up.
    Tested,
    /// It logs in.
    New,
    /// It carries a cancel.
    ActiveCancel,
    /// It would be free, but a cancel is on its way to it.
    BeingCancelled,
}

/// Fields that clients and servers share.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its number, which no other connection of either kind has.
    pub id: u64,
    /// The other side's number, if it is joined to one.
    pub link: Option<u64>,
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// The kind of replication that it is for.
    pub replication: Replication,
    /// The other end; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// Our end; `None` for a Unix socket.
    pub local_address: Option<SocketAddr>,
    /// When it was made.
    pub connected: SystemTime,
    /// When something was last asked on it; when it was made, if nothing was.
    pub requested: SystemTime,
    /// For how long the request has gone on; zero if there is none.
    pub waited: Duration,
    /// The other side's process, if it is known.
    pub process: Option<u32>,
    /// The version and cipher of TLS, empty without.
    pub tls: Arc<str>,
    /// The name that the client gave, empty if none.
    pub application_name: Arc<str>,
    /// Prepared statements that it has.
    pub prepared: u32,
    /// Its bytes in buffers.
    pub buffered: Buffered,
}

/// Bytes of a connection in buffers \[byte\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffered {
    /// Read from it, and not yet looked at.
    pub unread: u32,
    /// Of the message that comes in, not yet here.
    pub missing: u32,
    /// To be sent to it.
    pub unsent: u32,
}

/// A connection of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Fields that servers have too.
    pub connection: Connection,
    /// Its state.
    pub state: ClientState,
}

/// A connection to a server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Fields that clients have too.
    pub connection: Connection,
    /// Its state.
    pub state: ServerState,
    /// True if it is closed as soon as it is free.
    pub closing: bool,
}

/// A job that waits.
#[derive(Clone, Debug, Serialize)]
pub struct Waiter {
    /// The number of its client.
    pub client: u64,
    /// Its pool.
    #[serde(serialize_with = "json::text")]
    pub database: Arc<str>,
    /// See `database`.
    #[serde(serialize_with = "json::text")]
    pub user: Arc<str>,
    /// Its class.
    #[serde(serialize_with = "json::text")]
    pub class: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// For how long.
    #[serde(rename = "waited_s", serialize_with = "json::seconds")]
    pub waited: Duration,
    /// Time until its deadline; `None` if there is no limit.
    #[serde(rename = "left_s", serialize_with = "json::maybe_seconds")]
    pub left: Option<Duration>,
    /// Remaining wait by the gate's estimate, if that has one.
    #[serde(rename = "estimate_s", serialize_with = "json::maybe_seconds")]
    pub estimate: Option<Duration>,
}

/// A line of the pinning ledger: a client that keeps its slot beyond its job.
#[derive(Clone, Debug, Serialize)]
pub struct Pin {
    /// The number of the client.
    pub client: u64,
    /// The number of the server's connection that it keeps.
    pub server: u64,
    /// Its pool.
    pub database: String,
    /// See `database`.
    pub user: String,
    /// The name that it gave.
    pub application_name: String,
    /// Why: the statement that left something behind, as a kind, never its text.
    pub reason: String,
    /// For how long by now.
    #[serde(rename = "held_s", serialize_with = "json::seconds")]
    pub held: Duration,
    /// Of that, between its jobs: for this time the slot could have served others.
    #[serde(rename = "idle_s", serialize_with = "json::seconds")]
    pub idle: Duration,
}

impl Pin {
    /// Cost of the pin \[slots\]: the share of the time since it was pinned that its slot was idle.
    pub fn cost(&self) -> f64 {
        if self.held.is_zero() {
            return 0.0;
        }
        (self.idle.as_secs_f64() / self.held.as_secs_f64()).min(1.0)
    }
}

/// A database of the configuration.
#[derive(Clone, Debug)]
pub struct Database {
    /// As clients call it.
    pub name: String,
    /// The host of its server; `None` for a Unix socket in its usual place.
    pub host: Option<String>,
    /// At which port.
    pub port: u16,
    /// As its server calls it.
    pub database: String,
    /// As whom the gate logs in, if that is fixed.
    pub force_user: Option<String>,
    /// Slots of a pool.
    pub pool_size: u32,
    /// Connections of a pool that are kept open.
    pub pool_size_min: u32,
    /// Slots that a pool may have besides.
    pub reserve_pool_size: u32,
    /// Age of a connection to a server at most.
    pub server_lifetime: Duration,
    /// When a slot is given back, if it has a mode of its own.
    pub mode: Option<Mode>,
    /// The choice of a host, where there are several.
    pub load_balance_hosts: Option<String>,
    /// Connections to servers that it may have; 0 is no limit.
    pub connections_max: u32,
    /// Those that it has.
    pub connections: u32,
    /// Clients that it may have; 0 is no limit.
    pub clients_max: u32,
    /// Those that it has.
    pub clients: u32,
    /// True while no job of it starts.
    pub paused: bool,
    /// True while no client may come.
    pub disabled: bool,
}

/// A user that is known.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// Slots of a pool, if it has a number of its own.
    pub pool_size: Option<u32>,
    /// Reserve slots, if it has a number of its own.
    pub reserve_pool_size: Option<u32>,
    /// When a slot is given back, if it has a mode of its own.
    pub mode: Option<Mode>,
    /// Connections to servers that it may have; 0 is no limit.
    pub connections_max: u32,
    /// Those that it has.
    pub connections: u32,
    /// Clients that it may have; 0 is no limit.
    pub clients_max: u32,
    /// Those that it has.
    pub clients: u32,
}

/// A key of the configuration.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// Its value; passwords are never here.
    pub value: String,
    /// Its default.
    pub default: String,
    /// True if SET may change it.
    pub changeable: bool,
}

/// Memory that is kept for one kind of thing.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The kind.
    pub name: String,
    /// Of one \[byte\].
    pub size: u32,
    /// Pieces in use.
    pub used: u32,
    /// Pieces kept for later.
    pub free: u32,
}
