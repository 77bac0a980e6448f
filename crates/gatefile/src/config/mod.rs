//! The configuration of the gate for PostgreSQL: plain values as they are written, and in
//! [`Default`] of each table what holds when nothing is said.

mod entering;
mod jobs;
mod pools;
mod running;

use advise::{DisciplineEntry, LoadInformationEntry, RouterEntry};
use gate::{Length, Ties};
use serde::{Deserialize, Serialize};

pub use entering::*;
pub use jobs::*;
pub use pools::*;
pub use running::*;

/// The format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// A configuration of `sekisho gate postgres`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct GateFile {
    /// The version of this format, 1; a file without it is none.
    #[serde(default = "no_format")]
    pub format: u32,
    /// The addresses for clients over TCP: `host:port`; `*` is every address of the machine.
    pub listen: Vec<String>,
    /// Threads that read and write; all of them serve all clients.
    pub workers: u32,
    /// The socket for clients on the same machine.
    pub unix_socket: Option<UnixSocket>,
    /// A socket in the file system where the next gate with this file takes over from this one.
    pub take_over: Option<String>,
    /// Authentication: who may come in, and how it is proven.
    pub auth: Auth,
    /// Encryption on both sides.
    pub tls: BothTls,
    /// Defaults for each pool, unless its database or user says otherwise.
    pub pool: Pool,
    /// The band in which slots are sought that are `"auto"`.
    pub auto: Auto,
    /// Databases that clients may ask for.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub database: Vec<Database>,
    /// Differences for single users.
    pub user: Vec<User>,
    /// The rule for the next job, as in a scenario; left out, first in first out.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "fifo")))]
    pub discipline: Option<DisciplineEntry>,
    /// The rule for the server of a job, as in a scenario; left out, round robin.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "round-robin")))]
    pub router: Option<RouterEntry>,
    /// The count by which routers compare queues.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "in-system")))]
    pub length: Option<Length>,
    /// The choice among several equally good servers.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "rotate")))]
    pub ties: Option<Ties>,
    /// The router's view of its servers.
    pub load_information: Option<LoadInformationEntry>,
    /// One queue for all servers of a database, or one for each.
    pub queues: QueuesName,
    /// Classes of jobs; the first that matches holds a job.
    pub class: Vec<ClassEntry>,
    /// The keys of jobs, for routing by key; the first that is for its statement tells. A job that
    /// tells none has the key 0.
    pub key: Vec<KeyEntry>,
    /// The policy for session state that a client leaves.
    pub session_state: SessionState,
    /// The policy for parameters of a session's start.
    pub startup: Startup,
    /// Health probes of servers; left out, there are none.
    pub health: Option<Health>,
    /// Upkeep of connections to servers.
    pub connections: Connections,
    /// Limits of number and size.
    pub limits: Limits,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Options of TCP connections.
    pub tcp: Tcp,
    /// Administrators, readers of statistics, and their addresses.
    pub admin: Admin,
    /// The kinds of events that are logged.
    pub log: Log,
    /// The recording of the gate, to be replayed and simulated.
    pub record: Option<Record>,
}

/// A file that does not say its format has none.
fn no_format() -> u32 {
    0
}

impl Default for GateFile {
    fn default() -> GateFile {
        GateFile {
            format: FORMAT,
            listen: Vec::new(),
            workers: 1,
            unix_socket: None,
            take_over: None,
            auth: Auth::default(),
            tls: BothTls::default(),
            pool: Pool::default(),
            auto: Auto::default(),
            database: Vec::new(),
            user: Vec::new(),
            discipline: None,
            router: None,
            length: None,
            ties: None,
            load_information: None,
            queues: QueuesName::Shared,
            class: Vec::new(),
            key: Vec::new(),
            session_state: SessionState::default(),
            startup: Startup::default(),
            health: None,
            connections: Connections::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            tcp: Tcp::default(),
            admin: Admin::default(),
            log: Log::default(),
            record: None,
        }
    }
}

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixSocket {
    /// The directory that it is made in; its name is `.s.PGSQL.` and the port.
    pub directory: String,
    /// The port in its name.
    #[serde(default = "listen_port")]
    pub port: u16,
    /// The permission to connect, in octal digits.
    #[serde(default = "socket_mode")]
    pub mode: String,
    /// The group that it belongs to; left out, that of the process.
    #[serde(default)]
    pub group: Option<String>,
}

fn listen_port() -> u16 {
    6432
}

fn socket_mode() -> String {
    "0777".into()
}

/// One queue for all servers of a database, or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QueuesName {
    /// One for all.
    Shared,
    /// One for each, chosen at arrival.
    PerServer,
}
