//! Pools, databases, servers and users, as a configuration has them.

use std::collections::BTreeMap;

use advise::{Span, Unreachable};
use serde::{Deserialize, Serialize};

use super::super::values::{Hidden, Slots, Timeout};

/// Settings of each pool: (database, user) as the client asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// The time for which a client holds a server connection.
    pub mode: Mode,
    /// Server connections at most.
    pub slots: Slots,
    /// Server connections that are kept open although nobody needs them.
    pub slots_kept: u32,
    /// Further server connections for clients that have waited long; of several servers each has its
    /// part, rounded up.
    pub reserve: u32,
    /// The length of that wait; `"off"` leaves the reserve alone.
    pub reserve_after: Timeout,
    /// The longest wait for a slot.
    pub wait_max: Span,
    /// Clients that may wait.
    pub room: u64,
    /// Time over which the queue's rate is remembered. A job that would wait in vain at that rate is refused at
    /// once. `"off"` refuses none so.
    pub early_rejection: Timeout,
    /// For how long a client's reads do not go to replicas after it may have written, so that it finds
    /// what it wrote.
    pub own_writes: Span,
    /// The choice among idle connections.
    pub reuse: Reuse,
    /// The longest wait of jobs that have not begun while no server can be reached, though one could
    /// be before: a time, or `"wait"` for as long as for a slot, or `"refuse"` for none.
    pub unreachable: Unreachable,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            mode: Mode::Transaction,
            slots: Slots::Fixed(20),
            slots_kept: 0,
            reserve: 0,
            reserve_after: Timeout::After(Span(5.0)),
            wait_max: Span(120.0),
            room: 10_000,
            early_rejection: Timeout::After(Span(60.0)),
            own_writes: Span(10.0),
            reuse: Reuse::Last,
            unreachable: Unreachable::Wait,
        }
    }
}

/// The time for which a client holds a server connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All of its connection.
    Session,
    /// A transaction.
    Transaction,
    /// A statement; transactions of several are refused.
    Statement,
}

/// The choice among idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// The one used last, so that few have most of the work.
    Last,
    /// One after the other.
    Turn,
}

/// The band in which slots are sought that are `"auto"`, at each server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Auto {
    /// Slots are never fewer.
    pub floor: u32,
    /// Slots are never more.
    pub ceiling: u32,
    /// True if it only says what it would do; the slots stay at the ceiling.
    pub shadow: bool,
}

impl Default for Auto {
    fn default() -> Auto {
        Auto { floor: 1, ceiling: 100, shadow: false }
    }
}

/// A database that clients may ask for. What is left out is as the pool's table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::database))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    /// Its name for clients; `*` is every name that stands nowhere.
    pub name: String,
    /// The PostgreSQL servers that have it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub server: Vec<ServerEntry>,
    /// Its name at the servers; left out, as the client says.
    pub dbname: Option<String>,
    /// As whom every client logs in; left out, as itself.
    pub user: Option<String>,
    /// The forced user's password; left out, the users file has its secret.
    pub password: Option<Hidden>,
    /// The time for which a client holds a server connection.
    pub mode: Option<Mode>,
    /// Server connections of a pool at most.
    pub slots: Option<Slots>,
    /// Server connections of a pool that are kept open.
    pub slots_kept: Option<u32>,
    /// Server connections of all its pools at most; left out, as `limits.database-slots`. Where they are
    /// fewer than its servers and no router decides, jobs stay at one server.
    pub slots_all: Option<u32>,
    /// Further server connections for clients that have waited long.
    pub reserve: Option<u32>,
    /// The longest wait for a slot.
    pub wait_max: Option<Span>,
    /// Clients that may wait.
    pub room: Option<u64>,
    /// Clients at most; left out, as `limits.database-connections`.
    pub connections_max: Option<u32>,
    /// After how long a server connection is replaced.
    pub lifetime: Option<Span>,
    /// A query on a fresh server connection before clients have it.
    pub connect_query: Option<String>,
    /// The server of a new connection.
    pub spread: Option<Spread>,
    /// User as whom secrets are looked up.
    pub query_user: Option<String>,
    /// Query for secrets.
    pub query: Option<String>,
    /// Database of the query for secrets.
    pub query_database: Option<String>,
    /// Settings that its server connections start with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A PostgreSQL server of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerEntry {
    /// A name, an address, or the directory of its socket.
    pub host: String,
    /// Its port.
    #[serde(default = "server_port")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub port: u16,
    /// Its share of the jobs, in whole numbers; `router = "weighted"` goes by it.
    #[serde(default = "server_weight", skip_serializing_if = "is_usual_weight")]
    pub weight: u32,
    /// Its role: the jobs that it may be given.
    #[serde(default = "server_role", skip_serializing_if = "is_usual_role")]
    pub role: Role,
}

/// PostgreSQL's own.
pub(crate) fn server_port() -> u16 {
    5432
}

fn server_weight() -> u32 {
    1
}

fn is_usual_weight(weight: &u32) -> bool {
    *weight == server_weight()
}

fn server_role() -> Role {
    Role::Primary
}

fn is_usual_role(role: &Role) -> bool {
    *role == server_role()
}

/// The role of a server: the jobs that it may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything.
    Primary,
    /// Jobs that only read.
    Replica,
}

/// The server of a new connection, of several, where no router decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// One after the other.
    RoundRobin,
    /// The same until it fails.
    Stay,
}

/// Differences for a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct User {
    /// The name.
    pub name: String,
    /// The time for which a client holds a server connection.
    pub mode: Option<Mode>,
    /// Server connections of a pool at most.
    pub slots: Option<Slots>,
    /// Server connections of all its pools at most; left out, as `limits.user-slots`.
    pub slots_all: Option<u32>,
    /// Further server connections for clients that have waited long.
    pub reserve: Option<u32>,
    /// Clients at most; left out, as `limits.user-connections`.
    pub connections_max: Option<u32>,
    /// Importance of its jobs that no class holds; larger goes first.
    pub priority: Option<u8>,
    /// The longest wait for a slot.
    pub wait_max: Option<Span>,
    /// Duration of a query at most.
    pub query: Option<Timeout>,
    /// Duration of a transaction at most.
    pub transaction: Option<Timeout>,
    /// Silence of an open transaction at most.
    pub idle_transaction: Option<Timeout>,
    /// Silence of a client at most.
    pub client_idle: Option<Timeout>,
}
