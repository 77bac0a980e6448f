//! Configuration of a TP monitor at its start. Plain values; nothing is read from files or the
//! environment.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gate::{
    DisciplineSpec, EarlyRejection, GateSpec, LoadInformation, Queues, Reserve, RouterSpec,
    ServerSpec,
};
use live::Auto;
use rustls::pki_types::ServerName;
use thiserror::Error;

use super::admin::Admin;
use super::auth_query::Lookup;
use super::classes::Classes;
use super::client_tls::ClientTls;
use super::janitor::{Check, Maintenance};
use super::kept::KeptNotice;
use super::log::Logged;
use super::quotas::Quotas;
use super::server_tls::{Encryption, EncryptionError};
use super::takeover::TakeoverError;
use pgsession::health::Health;
use pgsession::sql::{Choices, KeyRules};
use pgwire::auth::{Credential, Method};
use pgwire::frame;
use pgwire::secrets::{Hba, IdentMaps, Users};
pub use tls::{Tls, TlsError};

/// The jobs that may wait in a pool, unless told otherwise.
pub const ROOM: u64 = 10_000;

/// The parameters of a TP monitor.
#[derive(Debug)]
pub struct Config {
    /// Addresses for clients; port 0 takes a free one. Of IPv6 alone where it says so: who listens
    /// on all addresses of both kinds names both.
    pub listen: Vec<SocketAddr>,
    /// Unix sockets for clients of this machine.
    pub sockets: Vec<SocketFile>,
    /// A socket in the file system where another gate of the same user of the system, started with the
    /// same value, takes over: this one hands it its listeners and each client that speaks in clear
    /// as soon as it has nothing under way, and ends. If a gate listens there when this one starts, it
    /// is taken over from. `None` for no takeover.
    pub takeover: Option<PathBuf>,
    /// Threads that read and write, 1 to 64. All of them serve all pools: each has a part of the
    /// connections, and a decision is made for all. One costs the least per transaction, and is
    /// enough until it is busy all the time.
    pub workers: usize,
    /// Options of connections of the network, with clients and with servers.
    pub tcp: Tcp,
    /// Databases that clients may ask for.
    pub databases: Vec<Database>,
    /// Users whose passwords are known.
    pub users: Users,
    /// Differences for single users, by name.
    pub terms: HashMap<Vec<u8>, UserTerms>,
    /// Admission of unlisted users.
    pub unlisted_users: UnlistedUsers,
    /// Authentication of clients.
    pub admission: Admission,
    /// Maps from names of certificates and of the system to users, for rules that name a map.
    pub idents: IdentMaps,
    /// Encryption with clients, if they may connect with TLS: what they are shown and must show.
    pub tls: Option<ClientTls>,
    /// The policy for session state that clients leave at servers, where they have another server
    /// in each transaction.
    pub session_state: Choices,
    /// Parameters of clients' start-up packets that are taken and not passed on, by their names,
    /// wherever these stand; `options` for all that stand in there.
    pub startup_ignored: Vec<String>,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Limits of number and size.
    pub limits: Limits,
    /// Slots over several pools.
    pub quotas: Quotas,
    /// The classes of jobs.
    pub classes: Classes,
    /// The notice to clients that half of their pool's slots are kept by session state.
    pub kept_notice: KeptNotice,
    /// The longest wait of jobs that have not begun while no server of their pool can be reached that
    /// could be reached before, since one that restarts comes back: counted from a job's arrival or
    /// from the moment when the last server was lost, whichever is later. 0 refuses them at once;
    /// `None` lets them wait as long as for a slot.
    pub unreachable_max: Option<Duration>,
    /// Administrators, and their address.
    pub admin: Admin,
    /// The kinds of events that are logged, if any is: [`Monitor::log_to`](super::Monitor::log_to).
    pub logged: Logged,
    /// The access log, one JSON object a line for each job that has ended; `None` for none. Lines that cannot be
    /// written are lost and counted.
    pub access_log: Option<AccessLog>,
    /// The liveness check of an idle connection to a server, before a client has it; `None` for
    /// none: then what it has said of its end must do.
    pub check: Option<Check>,
    /// Events of each pool's gate that are recorded, from the start on, or from the last
    /// [reload](super::Handle::reload) that made it begin anew; 0 for no recording.
    pub record_max: usize,
    /// The listener for each decision about slots that are left to the gate, and for the progress
    /// of a takeover, each as one line.
    pub decisions: Option<fn(&str)>,
}

/// Destination of an access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Standard output.
    Output,
    /// This file, which is added to.
    File(PathBuf),
}

impl AccessLog {
    /// The access log of this name; `-` is standard output.
    pub fn named(name: &Path) -> AccessLog {
        linelog::file_named(name).map_or(AccessLog::Output, AccessLog::File)
    }
}

/// A socket in the file system. One that nobody listens on any more is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFile {
    /// Its path, with the port's number: `/run/gate/.s.PGSQL.6432`.
    pub path: PathBuf,
    /// The permission to connect, as of a file.
    pub mode: u32,
    /// The number of the group that it belongs to; `None` for the process's own.
    pub group: Option<u32>,
}

/// Options of connections of the network; what is `None` is as the system has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Probes of a silent connection; `None` for none.
    pub keepalive: Option<Keepalive>,
    /// Time for which sent data may stay unacknowledged, in milliseconds.
    pub unacknowledged: Option<Duration>,
}

impl Default for Tcp {
    /// Silent connections are probed as the system does it.
    fn default() -> Tcp {
        Tcp { keepalive: Some(Keepalive::default()), unacknowledged: None }
    }
}

/// Probes of a silent connection; what is `None` is as the system has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe, in seconds.
    pub idle: Option<Duration>,
    /// The time between two, in seconds.
    pub interval: Option<Duration>,
    /// Probes that may be lost.
    pub count: Option<u32>,
}

/// Authentication of clients. Where a SCRAM secret is stored, MD5 and passwords in clear give way
/// to SCRAM: it costs the loop nothing to speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// By the rules of a `pg_hba.conf`.
    Rules(Hba),
    /// Everybody by one method; where only an MD5 hash is stored, SCRAM gives way to MD5.
    Everybody(Method),
    /// Everybody by a certificate of one of [`ClientTls::authorities`] whose common name is the user's.
    Certificates,
}

/// Admission of unlisted users: those who are believed without a proof and whom no list knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnlistedUsers {
    /// They get in.
    #[default]
    Believed,
    /// They do not.
    Refused,
}

/// Differences for a user; what is left out is as the database has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserTerms {
    /// The time for which it keeps a server.
    pub mode: Option<Mode>,
    /// The slots of each of its pools, at least 1.
    pub slots: Option<u32>,
    /// The rule for the slots of each of its pools, if they are left to the gate; not beside
    /// [`slots`](UserTerms::slots).
    pub auto: Option<Auto>,
    /// Further slots for jobs that have waited long, for each of its pools with one queue, in all: each
    /// server has its part of them, rounded up.
    pub reserve: Option<Reserve>,
    /// The longest wait of its jobs for one.
    pub wait_max: Option<Duration>,
    /// The clients that it may have at once; `None` for as many as [`Limits::user_clients`] says.
    pub clients: Option<usize>,
    /// Time limits of its clients.
    pub client_timeouts: Option<ClientTimeouts>,
}

/// Time limits of a client, looked at every second; `None` for as long as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// For a query, or what it has asked in one go. The server's work on it is cancelled then, and the
    /// session ended.
    pub query: Option<Duration>,
    /// For a transaction, from its first message.
    pub transaction: Option<Duration>,
    /// With a transaction open, or a message half said, without saying anything: it holds a slot all
    /// the while.
    pub idle_transaction: Option<Duration>,
    /// Without saying anything, where it has no slot.
    pub client_idle: Option<Duration>,
}

/// Division of the slots that a user has for itself among the servers of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Each server has so many.
    #[default]
    Each,
    /// All of them together have so many, as evenly as can be.
    Together,
}

impl Share {
    /// The servers' parts of so many slots. Where these are fewer than the servers, each has one all the
    /// same: any of them may be the one that is up, and [`Database::scarce`] bounds them together.
    pub fn of(self, slots: u32, servers: usize) -> Vec<ServerSpec> {
        let count = servers.max(1) as u32;
        let part = |at: u32| match self {
            Share::Each => slots,
            Share::Together => (slots / count + u32::from(at < slots % count)).max(1),
        };
        (0..servers as u32).map(|at| ServerSpec { slots: part(at) }).collect()
    }
}

/// A database that clients may ask for. Each user of it has a pool with a gate of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// Its name as clients know it; [`Database::REST`] is every name that no other has.
    pub name: String,
    /// Its name at the servers; `None` for the one that the client says.
    pub target: Option<String>,
    /// The user as whom every client logs in at the servers, which then share one pool; `None` for
    /// each as itself.
    pub forced: Option<Vec<u8>>,
    /// The servers that have it, in the order of [`GateSpec::servers`].
    pub servers: Vec<Address>,
    /// Encryption of the connections to them.
    pub server_tls: Encryption,
    /// Jobs that each of its pools may serve at once over all servers, where that is fewer than there
    /// are servers, so that the slots of [`gate`](Database::gate) do not say it. A connection to each
    /// server is kept all the same.
    pub scarce: Option<u32>,
    /// The gate of each of its pools. Its `room` and `wait_max` must be set: every queue of a live
    /// server has a bound and every wait a deadline.
    pub gate: GateSpec,
    /// Division of the slots of [`UserTerms`] among its servers.
    pub share: Share,
    /// Clients at once; `None` for as many as [`Limits::database_clients`] says.
    pub clients: Option<usize>,
    /// The time for which a client keeps a server.
    pub mode: Mode,
    /// The rules for the key of a job, for [`RouterSpec::ByKey`]: in the text that the client's
    /// first message says or names, and in the first Bind before anything is executed. As much of
    /// both is waited for as it takes, up to 1 MiB of each client; who needs more is refused. Who
    /// asks by Flush for the replies before its first Bind gets them from the server of those that
    /// tell no key, and what it runs then is a job of its own.
    pub keys: KeyRules,
    /// The key of jobs that tell none.
    pub key_default: u64,
    /// Read-your-writes window: the time after a job of a client that may have written in which its
    /// reads do not go to replicas, so that it finds what it wrote; zero if it need not. Other
    /// clients' writes reach replicas in their own time.
    pub own_writes: Duration,
    /// The health probe of its servers, by the user of [`login`](Database::login); `None` for none, as
    /// for [`Database::REST`]:
    /// then one that cannot be reached is left alone for a while, and roles stay as they are. Where
    /// the [roles](GateSpec::roles) name no replica, all are asked everything, whatever they say.
    pub health: Option<Health>,
    /// A user with whom the gate can log in though no list says how.
    pub login: Option<(Vec<u8>, Credential)>,
    /// The `auth_query` for users that no list has.
    pub lookup: Option<Lookup>,
    /// The choice among idle connections.
    pub reuse: Reuse,
    /// The maintenance of connections to its servers.
    pub maintenance: Maintenance,
    /// Settings that connections to its servers begin with, by name; what a client begins with itself
    /// goes before. Not those of replication.
    pub settings: Vec<(String, String)>,
    /// The rule for its slots, if they are left to the gate; each server begins with those that
    /// [`gate`](Database::gate) says. Not in session mode.
    pub auto: Option<Auto>,
}

impl Database {
    /// The name that stands for every name that no database has.
    pub const REST: &str = "*";

    /// A database of the same name at each of `servers`, in transaction mode with `slots` slots for
    /// each pool and server: first in, first out, one queue with room for [`ROOM`] jobs, which wait
    /// 120 s at most and are refused at once if that is foreseen to be too short, round robin.
    pub fn new(name: impl Into<String>, servers: Vec<Address>, slots: u32) -> Database {
        Database {
            name: name.into(),
            target: None,
            forced: None,
            gate: GateSpec {
                servers: vec![ServerSpec { slots }; servers.len()],
                queues: Queues::Shared,
                router: RouterSpec::RoundRobin,
                load_information: LoadInformation::Fresh,
                discipline: DisciplineSpec::Fifo,
                room: Some(ROOM),
                wait_max: Some(Duration::from_secs(120)),
                unreachable_max: None,
                early_rejection: Some(EarlyRejection::default()),
                reserve: None,
                roles: Vec::new(),
                seed: 0,
            },
            servers,
            scarce: None,
            server_tls: Encryption::disabled(),
            share: Share::Each,
            clients: None,
            mode: Mode::Transaction,
            keys: KeyRules::default(),
            key_default: 0,
            own_writes: Duration::from_secs(10),
            health: None,
            login: None,
            lookup: None,
            reuse: Reuse::Latest,
            maintenance: Maintenance::default(),
            settings: Vec::new(),
            auto: None,
        }
    }

    /// Its name at the servers.
    pub(super) fn target(&self) -> &str {
        self.target.as_deref().unwrap_or(&self.name)
    }

    /// The rule for the slots of a pool, if they are left to the gate.
    pub(super) fn auto<'a>(&'a self, terms: Option<&'a UserTerms>) -> Option<&'a Auto> {
        let own = terms.and_then(|terms| terms.auto.as_ref());
        // Whose slots are said for itself has so many.
        let has_own = terms.is_some_and(|terms| terms.slots.is_some());
        own.or(self.auto.as_ref().filter(|_| !has_own))
    }

    /// Connections that a pool of a user with these terms may have, where that is fewer than it has
    /// servers.
    pub(super) fn slots_scarce(&self, terms: Option<&UserTerms>) -> Option<u32> {
        let own = terms.filter(|terms| terms.slots.is_some() || terms.auto.is_some());
        let slots = match own {
            Some(terms) => terms.slots.filter(|_| self.share == Share::Together),
            None => self.scarce,
        };
        slots.filter(|slots| (*slots as usize) < self.servers.len())
    }

    /// The gate and the mode of the pool that a user with these terms has.
    pub(super) fn pool(
        &self,
        terms: Option<&UserTerms>,
        unreachable_max: Option<Duration>,
    ) -> (GateSpec, Mode) {
        let (mut gate, mode) = self.pool_as_reached(terms);
        gate.unreachable_max = unreachable_max.or(gate.wait_max);
        (gate, mode)
    }

    fn pool_as_reached(&self, terms: Option<&UserTerms>) -> (GateSpec, Mode) {
        let mut gate = self.gate.clone();
        let Some(terms) = terms else { return (gate, self.mode) };
        if let Some(slots) = terms.slots {
            gate.servers = self.share.of(slots, self.servers.len());
        }
        if let Some(auto) = &terms.auto {
            gate.servers = Share::Each.of(auto.start(), self.servers.len());
        }
        if let Some(Reserve { slots, after }) = terms.reserve {
            let has_one_queue = gate.queues == Queues::Shared || self.servers.len() == 1;
            let slots = slots.div_ceil(self.servers.len().max(1) as u32);
            gate.reserve = Some(Reserve { slots, after }).filter(|_| slots > 0 && has_one_queue);
        }
        gate.wait_max = terms.wait_max.or(gate.wait_max);
        (gate, terms.mode.unwrap_or(self.mode))
    }
}

/// The time for which a client keeps a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// From its first message until it leaves.
    Session,
    /// For a transaction.
    #[default]
    Transaction,
    /// For a statement: transactions of several are refused.
    Statement,
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        })
    }
}

/// The choice among idle connections to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// The one that was used last: the fewest connections, and the warmest.
    #[default]
    Latest,
    /// The one that was used longest ago.
    Rotate,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// On the network.
    Tcp(SocketAddr),
    /// On the network, at an address that a name was resolved to: its certificate is for the name.
    Host {
        /// The name.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// On the network, by a name that has no address yet: nobody connects there.
    Unresolved {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
    /// On a Unix socket, by its path with the port's number.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(out, "{address}"),
            Address::Host { name, address } => write!(out, "{name} ({address})"),
            Address::Unresolved { name, port } => write!(out, "{name}:{port}"),
            Address::Unix(path) => write!(out, "{}", path.display()),
        }
    }
}

impl Address {
    /// Why nobody can connect to a server whose name has no address.
    pub(super) fn unresolved(name: &str) -> io::Error {
        io::Error::other(format!("there is no host {name}: its name is looked up again soon"))
    }

    /// The name that the server's certificate is for; none on a Unix socket, and where no certificate
    /// can be for it.
    pub(super) fn name(&self) -> Option<ServerName<'static>> {
        match self {
            Address::Tcp(address) => Some(ServerName::from(address.ip())),
            Address::Host { name, .. } | Address::Unresolved { name, .. } => {
                ServerName::try_from(name.clone()).ok()
            }
            Address::Unix(_) => None,
        }
    }
}

/// Limits of time. The wait at the gate is in [`GateSpec::wait_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a client's connection to the end of its login.
    pub login: Duration,
    /// From the beginning of a connection to a server to the end of the login there; in a
    /// [takeover](Config::takeover), how long the other gate may say nothing.
    pub connect: Duration,
    /// For a cancel request on its way to a server.
    pub cancel: Duration,
    /// For a server to be clean again after its client has gone, or to take settings. What it still
    /// does for a client that has gone is cancelled then. So long it may also take nothing of what
    /// such a client has sent.
    pub clean: Duration,
    /// Duration of a query at most: [`ClientTimeouts::query`].
    pub query: Option<Duration>,
    /// Duration of a transaction at most: [`ClientTimeouts::transaction`].
    pub transaction: Option<Duration>,
    /// Silence of a transaction at most: [`ClientTimeouts::idle_transaction`].
    pub idle_transaction: Option<Duration>,
    /// Silence of a client at most: [`ClientTimeouts::client_idle`].
    pub client_idle: Option<Duration>,
    /// Time for which a client that holds a server may take nothing of what was sent to it, looked
    /// at every second: then the server's work is cancelled, and the session ended. A server that
    /// waits for a reader holds a slot, locks and old rows, and no other time-out sees it: its
    /// query runs. Longer than anything but a reader that is stopped or gone should take. `None`
    /// for as long as it likes.
    pub stalled: Option<Duration>,
    /// Wait for a slot after which a client is told of it by a notice, looked at every second;
    /// `None` for never.
    pub wait_notice: Option<Duration>,
    /// Time for which a connection to a server is kept without a client, unless its database says.
    pub server_idle: Duration,
    /// Age up to which a connection to a server is used at all, unless its database says; it is
    /// closed when it is idle next. No two of a pool are within this time divided by the pool's
    /// slots.
    pub server_lifetime: Duration,
    /// Pause before a server that could not be reached is tried again, where there are others. The
    /// only one is tried again by whoever asks half a second after the last try failed, or sooner
    /// if this is shorter; who asks meanwhile hears why the last one failed.
    pub server_retry: Duration,
    /// Time for which a database that only `*` names, or that a reload has left out, is kept that
    /// nobody uses, with its pools; it goes sooner where others need the room. `None` for as long as
    /// nobody does.
    pub autodb_idle: Option<Duration>,
    /// From the beginning of a drain until no client is let in any more: `/readyz` says no meanwhile, so that a
    /// load balancer sends nobody here by then.
    pub drain_delay: Duration,
    /// From the end of that until what is still in flight is cut off.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            login: Duration::from_secs(60),
            connect: Duration::from_secs(15),
            cancel: Duration::from_secs(10),
            clean: Duration::from_secs(30),
            query: None,
            transaction: None,
            idle_transaction: None,
            client_idle: None,
            stalled: Some(Duration::from_secs(300)),
            wait_notice: None,
            server_idle: Duration::from_secs(600),
            server_lifetime: Duration::from_secs(3600),
            server_retry: Duration::from_secs(15),
            autodb_idle: Some(Duration::from_secs(3600)),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// The limits of users without terms of their own.
    pub fn client_timeouts(&self) -> ClientTimeouts {
        let Timeouts { query, transaction, idle_transaction, client_idle, .. } = *self;
        ClientTimeouts { query, transaction, idle_transaction, client_idle }
    }
}

/// Limits of number and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients that are logged in; those beyond are told so and closed.
    pub clients: usize,
    /// Clients that have not logged in yet, beside those; beyond, the one that has tried for longest
    /// makes room for the next. `None` for as many as clients, and at least 128.
    pub login_clients: Option<usize>,
    /// Clients of one database; `None` for any number.
    pub database_clients: Option<usize>,
    /// Clients of one user; `None` for any number.
    pub user_clients: Option<usize>,
    /// Pools, each of a database and a user.
    pub pools: usize,
    /// Connections to servers that are being made at once.
    pub connecting: usize,
    /// Settings that a client may begin with.
    pub settings: usize,
    /// Prepared statements that a connection to a server keeps.
    pub statements: usize,
    /// A message of either side \[byte\], without its tag.
    pub message: u32,
    /// Connections that wait to be accepted, at each address.
    pub backlog: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 10_000,
            login_clients: None,
            database_clients: None,
            user_clients: None,
            pools: 1000,
            connecting: 16,
            settings: 64,
            statements: 200,
            message: frame::Limits::SESSION.length_max,
            backlog: 1024,
        }
    }
}

/// Clients that log in have room, however few may be logged in.
const LOGIN_CLIENTS_LEAST: usize = 128;

impl Limits {
    /// Clients that have not logged in yet.
    pub(super) fn login_clients(&self) -> usize {
        self.login_clients.unwrap_or(self.clients.max(LOGIN_CLIENTS_LEAST))
    }
}

/// A job's id has 24 bits for its place.
pub(super) const CLIENTS_MAX: usize = (1 << 24) - 1;

/// The most workers: the loop that they take turns at is busy with far fewer.
const WORKERS_MAX: usize = 64;

/// The most slots that one server may have; each costs memory.
const SLOTS_MAX: usize = 1 << 20;

impl Config {
    /// A monitor that listens on `listen`, and lets everybody in who proves by SCRAM to be one of
    /// `users`.
    pub fn new(listen: SocketAddr, databases: Vec<Database>, users: Users) -> Config {
        Config {
            listen: vec![listen],
            sockets: Vec::new(),
            takeover: None,
            workers: 1,
            tcp: Tcp::default(),
            databases,
            users,
            terms: HashMap::new(),
            unlisted_users: UnlistedUsers::Believed,
            admission: Admission::Everybody(Method::ScramSha256),
            idents: IdentMaps::default(),
            tls: None,
            session_state: Choices::default(),
            kept_notice: KeptNotice::Off,
            unreachable_max: None,
            startup_ignored: Vec::new(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            quotas: Quotas::default(),
            classes: Classes::default(),
            admin: Admin::default(),
            logged: Logged::default(),
            access_log: None,
            check: Some(Check::default()),
            record_max: 0,
            decisions: None,
        }
    }

    /// # Errors
    /// If this describes no monitor.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.databases.is_empty() {
            return Err(ConfigError::NoDatabase);
        }
        if self.listen.is_empty() && self.sockets.is_empty() {
            return Err(ConfigError::NoListen);
        }
        let mut names = HashSet::new();
        for database in &self.databases {
            if !names.insert(&database.name) {
                return Err(ConfigError::Twice { database: database.name.clone() });
            }
            self.check_database(database)?;
        }
        let verifies = self.tls.as_ref().is_some_and(|tls| tls.mode.verifies());
        if self.admission == Admission::Certificates && !verifies {
            return Err(ConfigError::NoCertificates);
        }
        for (name, slots) in self.quotas.each() {
            check_range(name, slots as usize, 1, SLOTS_MAX)?;
        }
        self.check_terms()?;
        let Limits { clients, pools, connecting, settings, statements, message, .. } = self.limits;
        check_range("workers", self.workers, 1, WORKERS_MAX)?;
        check_range("limits.clients", clients, 1, CLIENTS_MAX)?;
        check_range("limits.login_clients", self.limits.login_clients(), 1, CLIENTS_MAX)?;
        check_range("limits.pools", pools, 1, 1 << 20)?;
        check_range("limits.connecting", connecting, 1, 1 << 20)?;
        check_range("limits.settings", settings, 0, 1 << 10)?;
        let period = usize::try_from(self.admin.stats_period.as_secs()).unwrap_or(usize::MAX);
        check_range("admin.stats-period, in seconds,", period, 1, 1 << 20)?;
        check_range("limits.statements", statements, 1, 1 << 20)?;
        let message_max = frame::Limits::SESSION.length_max as usize;
        check_range("limits.message", message as usize, 1024, message_max)
    }

    /// Checks the differences for single users.
    fn check_terms(&self) -> Result<(), ConfigError> {
        for (user, terms) in &self.terms {
            let Some(auto) = &terms.auto else { continue };
            let user = String::from_utf8_lossy(user).into_owned();
            auto.check().map_err(|cause| ConfigError::UserAuto { user, cause })?;
            check_range("the ceiling of the slots", auto.ceiling as usize, 1, SLOTS_MAX)?;
        }
        let own = self.terms.values().filter_map(|terms| terms.slots);
        let servers = self.databases.iter().map(|database| database.servers.len()).max();
        for slots in own {
            check_range("slots", slots as usize, 1, SLOTS_MAX)?;
            // Each server of a database may have so many.
            let all = slots as usize * servers.unwrap_or(1);
            check_range("slots", all, 1, GateSpec::SLOTS_MAX as usize)?;
        }
        Ok(())
    }

    fn check_database(&self, database: &Database) -> Result<(), ConfigError> {
        let name = || database.name.clone();
        let (servers, addresses) = (database.gate.servers.len(), database.servers.len());
        if servers != addresses {
            return Err(ConfigError::Servers { database: name(), servers, addresses });
        }
        let is_nameless =
            |one: &&Address| matches!(one, Address::Host { .. }) && one.name().is_none();
        if let Some(address) = database.servers.iter().find(is_nameless) {
            let address = address.to_string();
            return Err(ConfigError::Nameless { database: name(), address });
        }
        if database.health.is_some() && database.name == Database::REST {
            return Err(ConfigError::WatchedRest);
        }
        if database.health.is_some() && database.login.is_none() {
            return Err(ConfigError::NoProbeUser { database: name() });
        }
        if let Some(asked) = database.lookup.as_ref().and_then(|one| one.database.as_ref())
            && !self
                .databases
                .iter()
                .any(|other| other.name == *asked || other.name == Database::REST)
        {
            let asked = asked.clone();
            return Err(ConfigError::NoLookup { database: name(), asked });
        }
        if database.gate.room.is_none() {
            return Err(ConfigError::NoRoom { database: name() });
        }
        if database.gate.wait_max.is_none() {
            return Err(ConfigError::NoWaitMax { database: name() });
        }
        let slots = database.gate.servers.iter().map(|server| server.slots as usize);
        if let Some(auto) = &database.auto {
            check_auto(auto, database)?;
        }
        check_range("slots", slots.max().unwrap_or(0), 0, SLOTS_MAX)
    }
}

fn check_auto(auto: &Auto, database: &Database) -> Result<(), ConfigError> {
    let name = || database.name.clone();
    let wrong = |cause| ConfigError::Auto { database: name(), cause };
    auto.check().map_err(wrong)?;
    check_range("the ceiling of the slots", auto.ceiling as usize, 1, SLOTS_MAX)?;
    if database.mode == Mode::Session {
        return Err(ConfigError::AutoSessions { database: name() });
    }
    let within = |server: &ServerSpec| (auto.floor..=auto.ceiling).contains(&server.slots);
    match database.gate.servers.iter().all(within) {
        true => Ok(()),
        false => Err(wrong(gate::ControlError::Limits)),
    }
}

fn check_range(
    name: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::Limit { name, value, least, most })
    }
}

/// Why a configuration describes no monitor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nobody could ask for anything.
    #[error("there is no database: name one")]
    NoDatabase,
    /// Nobody could connect.
    #[error("there is no address to listen on: name one")]
    NoListen,
    /// Two databases of one name.
    #[error("database \"{database}\" is there twice: give one of them another name")]
    Twice {
        /// The name.
        database: String,
    },
    /// There are not as many addresses as servers in the specification.
    #[error(
        "the gate of database \"{database}\" has {servers} servers, but there are {addresses} \
         addresses: name one each"
    )]
    Servers {
        /// The database.
        database: String,
        /// Servers of the specification.
        servers: usize,
        /// Addresses.
        addresses: usize,
    },
    /// No certificate could be for the server's name.
    #[error("database \"{database}\": {address} has no name of a host; name its address instead")]
    Nameless {
        /// The database.
        database: String,
        /// The server.
        address: String,
    },
    /// The servers of databases that no name is known of are to be watched.
    #[error("the servers of database \"*\" cannot be watched: name the databases that are to be")]
    WatchedRest,
    /// Its servers are to be watched, but nobody can log in.
    #[error("the servers of database \"{database}\" cannot be watched: name a user to log in as")]
    NoProbeUser {
        /// The database.
        database: String,
    },
    /// Secrets are to be looked up in a database that is not there.
    #[error(
        "database \"{database}\" looks secrets up in \"{asked}\", which is not there: name it too"
    )]
    NoLookup {
        /// The database.
        database: String,
        /// The database that it asks.
        asked: String,
    },
    /// The queue has no bound.
    #[error("the queue of database \"{database}\" has no bound: a live gate must have one")]
    NoRoom {
        /// The database.
        database: String,
    },
    /// The wait has no deadline.
    #[error("the wait for database \"{database}\" has no limit: a live gate must have one")]
    NoWaitMax {
        /// The database.
        database: String,
    },
    /// A rule is of a class that does not exist.
    #[error("rule {rule} of the classes names class {class}, which is not there")]
    NoClass {
        /// The number of the rule, from 1.
        rule: usize,
        /// The class.
        class: u32,
    },
    /// Clients are to be known by certificates that nobody asks them for.
    #[error("clients are let in by their certificates: encrypt with verify-ca or verify-full")]
    NoCertificates,
    /// The slots cannot be left to the gate in this way.
    #[error("the slots of database \"{database}\" cannot be left to the gate: {cause}")]
    Auto {
        /// The database.
        database: String,
        /// The fault.
        cause: gate::ControlError,
    },
    /// The same of a user's pools.
    #[error("the slots of user \"{user}\" cannot be left to the gate: {cause}")]
    UserAuto {
        /// The user.
        user: String,
        /// The fault.
        cause: gate::ControlError,
    },
    /// A session holds its slot whether it does something or not.
    #[error(
        "the slots of database \"{database}\" cannot be left to the gate in session mode: how long \
         a session is says nothing of the work; use transaction mode, or a number"
    )]
    AutoSessions {
        /// The database.
        database: String,
    },
    /// A limit is out of its range.
    #[error("{name} is {value}, but must be {least} to {most}")]
    Limit {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The least it may be.
        least: usize,
        /// The most it may be.
        most: usize,
    },
}

/// Why a monitor could not start, or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration describes no monitor.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A gate's own specification is invalid.
    #[error(transparent)]
    Gate(#[from] gate::SpecError),
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}; is something else listening there?")]
    Listen {
        /// The address.
        address: Address,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate or key could not be used.
    #[error(transparent)]
    Tls(#[from] EncryptionError),
    /// The gate that runs could not be taken over from.
    #[error("no takeover by {}: {cause}", path.display())]
    Takeover {
        /// The socket of the gate that runs.
        path: PathBuf,
        /// The failure.
        cause: TakeoverError,
    },
    /// The file of the access log could not be written.
    #[error("cannot write the access log {}: {source}; name a file in a folder that exists", path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The event loop could not be started, or failed.
    #[error("the event loop failed: {0}")]
    Loop(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgwire::secrets::MockKey;

    fn config(databases: Vec<Database>) -> Config {
        let users = Users::parse("", MockKey::new([0; 32])).unwrap();
        Config::new("127.0.0.1:0".parse().unwrap(), databases, users)
    }

    fn database() -> Database {
        Database::new("bench", vec![Address::Tcp("127.0.0.1:1".parse().unwrap())], 2)
    }

    #[test]
    fn what_describes_no_monitor_is_refused_by_name() {
        let cause = |config: Config| config.check().unwrap_err().to_string();
        assert_eq!(config(vec![database()]).check(), Ok(()));
        assert!(cause(config(vec![])).contains("no database"));
        assert!(cause(config(vec![database(), database()])).contains("\"bench\" is there twice"));
        let mut one = database();
        one.gate.room = None;
        assert!(cause(config(vec![one])).contains("no bound"));
        let mut one = database();
        one.gate.wait_max = None;
        assert!(cause(config(vec![one])).contains("no limit"));
        let mut one = database();
        one.servers.clear();
        assert!(cause(config(vec![one])).contains("has 1 servers, but there are 0"));
        let mut many = config(vec![database()]);
        many.limits.clients = 0;
        assert!(cause(many).contains("limits.clients is 0, but must be 1 to"));
    }
}
