//! The running of the gate, as a configuration has it: health, connections, bounds, times, and
//! whoever operates it.

use advise::{Bytes, Span};
use serde::{Deserialize, Serialize};

use super::super::values::Timeout;

/// Health probes: on a connection of its own each server is asked whether it answers, whether it
/// takes writes, and how far it is. Where no server has `role = "replica"`, whether it answers is
/// all that counts: each is asked everything, whatever it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// As whom they are asked, with the secret of the users file; left out, as the forced user of the
    /// database. Databases that only `*` names are not watched.
    pub user: Option<String>,
    /// From one question to the next; whole seconds count.
    pub interval: Span,
    /// Time limit of an answer.
    pub timeout: Span,
    /// A server is down that has not answered so many in a row.
    pub failures_max: u32,
    /// A replica that is further behind is left alone; `"off"` is no bound.
    pub lag_max: Timeout,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            user: None,
            interval: Span(2.0),
            timeout: Span(5.0),
            failures_max: 3,
            lag_max: Timeout::After(Span(10.0)),
        }
    }
}

/// Upkeep of connections to servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Connections {
    /// Age at which a connection is replaced.
    pub lifetime: Span,
    /// Idle time after which one is closed that nobody needs.
    pub idle: Timeout,
    /// Idle time for which a connection counts as alive without a check.
    pub check_after: Span,
    /// The query that checks it; `"off"` is no check, an empty text an empty query.
    pub check: String,
    /// Pause before a server that let nobody in is tried again.
    pub retry: Span,
    /// Idle time after which pools of databases are dropped that only `*` names, or that a reload has left
    /// out.
    pub autodb_idle: Timeout,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            lifetime: Span(3600.0),
            idle: Timeout::After(Span(600.0)),
            check_after: Span(30.0),
            check: String::new(),
            retry: Span(15.0),
            autodb_idle: Timeout::After(Span(3600.0)),
        }
    }
}

/// Limits of number and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Clients.
    pub connections: u32,
    /// Clients that have not logged in yet, beside those; left out, as many, and at least 128.
    pub login_connections: Option<u32>,
    /// Clients of a database; left out, any number.
    pub database_connections: Option<u32>,
    /// Clients of a user; left out, any number.
    pub user_connections: Option<u32>,
    /// Server connections of all pools; left out, any number.
    pub slots: Option<u32>,
    /// Server connections of a database; left out, any number.
    pub database_slots: Option<u32>,
    /// Server connections of a user; left out, any number.
    pub user_slots: Option<u32>,
    /// Prepared statements that a server connection keeps.
    pub statements: u32,
    /// A message of the protocol.
    pub message: Bytes,
    /// Connections that wait to be accepted; another number counts after a restart.
    pub backlog: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            login_connections: None,
            database_connections: None,
            user_connections: None,
            slots: None,
            database_slots: None,
            user_slots: None,
            statements: 200,
            message: Bytes(1 << 30),
            backlog: 1024,
        }
    }
}

/// Limits of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timeouts {
    /// A client's login.
    pub login: Span,
    /// Connecting and logging in at a server.
    pub connect: Span,
    /// A cancel request's wait.
    pub cancel: Span,
    /// A query; its server connection is cut then.
    pub query: Timeout,
    /// A transaction that is open.
    pub transaction: Timeout,
    /// An open transaction that says nothing.
    pub idle_transaction: Timeout,
    /// A client that says nothing.
    pub client_idle: Timeout,
    /// A client that holds a server connection and takes nothing of what was sent to it.
    pub stalled: Timeout,
    /// A wait after which the client is told that it waits.
    pub wait_notice: Timeout,
    /// From SIGTERM until no client is let in any more; `/readyz` says no meanwhile.
    pub drain_delay: Span,
    /// Sessions still open when the gate ends.
    pub drain: Span,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            login: Span(60.0),
            connect: Span(15.0),
            cancel: Span(10.0),
            query: Timeout::Off,
            transaction: Timeout::Off,
            idle_transaction: Timeout::Off,
            client_idle: Timeout::Off,
            stalled: Timeout::After(Span(300.0)),
            wait_notice: Timeout::After(Span(5.0)),
            drain_delay: Span(0.0),
            drain: Span(30.0),
        }
    }
}

/// Options of TCP connections; what is left out is as the system has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// True if silent connections are probed.
    pub keepalive: bool,
    /// Probes that may be lost.
    pub keepalive_count: Option<u32>,
    /// Silence before the first.
    pub keepalive_idle: Option<Span>,
    /// Time between two.
    pub keepalive_interval: Option<Span>,
    /// Time for which sent data may stay unacknowledged.
    pub unacknowledged: Option<Span>,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            keepalive: true,
            keepalive_count: None,
            keepalive_idle: None,
            keepalive_interval: None,
            unacknowledged: None,
        }
    }
}

/// Administrators, readers of statistics, and their addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admin {
    /// Users who may do everything on the console.
    pub users: Vec<String>,
    /// Users who may look.
    pub stats_users: Vec<String>,
    /// Period over which the console averages.
    pub stats_period: Span,
    /// The address of the metrics and the live page.
    pub http: Option<String>,
}

impl Default for Admin {
    fn default() -> Admin {
        Admin { users: Vec::new(), stats_users: Vec::new(), stats_period: Span(60.0), http: None }
    }
}

/// The kinds of events that are logged, on standard error, and the log of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Log {
    /// Logins.
    pub connections: bool,
    /// Ends of connections, with the reason.
    pub disconnections: bool,
    /// Errors that clients are told.
    pub errors: bool,
    /// A line of figures every `admin.stats-period`.
    pub stats: bool,
    /// The file of the access log, a line for each transaction that has ended; `"-"` is standard output. Left out, there is
    /// none.
    pub access: Option<String>,
}

impl Default for Log {
    fn default() -> Log {
        Log { connections: true, disconnections: true, errors: true, stats: true, access: None }
    }
}

/// The recording of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    /// The file.
    pub file: String,
    /// Steps at most.
    #[serde(default = "record_steps")]
    pub steps_max: u64,
}

fn record_steps() -> u64 {
    1_000_000
}
