//! The configuration of the gate for HTTP: plain values as they are written, and in [`Default`] of each
//! table what holds when nothing is said. The words are those of the gate for PostgreSQL where they mean
//! the same.

use std::collections::BTreeMap;

use advise::{Bytes, DisciplineEntry, LoadInformationEntry, RouterEntry, Span, Unreachable};
use gate::{Length, Ties};
use serde::{Deserialize, Serialize};

use super::super::config::{Auto, FORMAT, QueuesName, Record};
use super::super::values::{Slots, Timeout};

/// A configuration of `sekisho gate http`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpFile {
    /// The version of this format, 1; a file without it is none.
    #[serde(default = "no_format")]
    pub format: u32,
    /// The address for clients, one: `["host:port"]`.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1)))]
    pub listen: Vec<String>,
    /// Encryption towards clients.
    pub tls: HttpTls,
    /// Slots and queue.
    pub pool: HttpPool,
    /// The band in which slots are sought that are `"auto"`.
    pub auto: Auto,
    /// The servers behind the gate.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub server: Vec<HttpServer>,
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
    /// One queue for all servers, or one for each.
    pub queues: QueuesName,
    /// Classes of requests; the first that matches holds a request.
    pub class: Vec<HttpClass>,
    /// The key of a request, for routing by key.
    pub key: HttpKey,
    /// Health probes of servers.
    pub health: HttpHealth,
    /// Connections to servers that no request uses.
    pub connections: HttpConnections,
    /// Limits of number and size.
    pub limits: HttpLimits,
    /// Limits of time.
    pub timeouts: HttpTimeouts,
    /// Treatment of the forwarded fields that a client sent itself.
    pub forwarded: ForwardedName,
    /// The address of the metrics, the live page and the controls.
    pub admin: HttpAdmin,
    /// The log of requests.
    pub log: HttpLog,
    /// The recording of the gate, to be replayed and simulated.
    pub record: Option<Record>,
}

/// A file that does not say its format has none.
fn no_format() -> u32 {
    0
}

impl Default for HttpFile {
    fn default() -> HttpFile {
        HttpFile {
            format: FORMAT,
            listen: Vec::new(),
            tls: HttpTls::default(),
            pool: HttpPool::default(),
            auto: Auto::default(),
            server: Vec::new(),
            discipline: None,
            router: None,
            length: None,
            ties: None,
            load_information: None,
            queues: QueuesName::Shared,
            class: Vec::new(),
            key: HttpKey::Path,
            health: HttpHealth::default(),
            connections: HttpConnections::default(),
            limits: HttpLimits::default(),
            timeouts: HttpTimeouts::default(),
            forwarded: ForwardedName::Replace,
            admin: HttpAdmin::default(),
            log: HttpLog::default(),
            record: None,
        }
    }
}

/// Encryption towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpTls {
    /// The certificate, if clients connect with TLS; left out, they connect without.
    pub clients: Option<HttpCertificate>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpCertificate {
    /// Our certificate and its chain, PEM.
    pub cert: String,
    /// Its private key, PEM.
    pub key: String,
}

/// Slots and queue of the gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpPool {
    /// Requests in service at each server at most; a server may say its own.
    pub slots: Option<Slots>,
    /// Further slots for requests that have waited long; of several servers each has its part, rounded up.
    pub reserve: u32,
    /// The length of that wait; `"off"` leaves the reserve alone.
    pub reserve_after: Timeout,
    /// The longest wait for a slot.
    pub wait_max: Span,
    /// Requests that may wait.
    pub room: u64,
    /// Time over which the queue's rate is remembered. A request that would wait in vain at that rate is refused
    /// at once. `"off"` refuses none so.
    pub early_rejection: Timeout,
    /// The longest wait of requests while no server can be reached: a time, or `"wait"` for as long as for
    /// a slot, or `"refuse"` for none.
    pub unreachable: Unreachable,
}

impl Default for HttpPool {
    fn default() -> HttpPool {
        HttpPool {
            slots: None,
            reserve: 0,
            reserve_after: Timeout::After(Span(5.0)),
            wait_max: Span(30.0),
            room: httpgate::ROOM,
            early_rejection: Timeout::Off,
            unreachable: Unreachable::Refuse,
        }
    }
}

/// A server behind the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpServer {
    /// A name or an address; a name is looked up when the file is read.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its share of the jobs, in whole numbers; `router = "weighted"` goes by it.
    #[serde(default = "server_weight")]
    pub weight: u32,
    /// Its slots; left out, as `pool.slots`. 0 gives it no request, so that it can be taken out.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_048_576)))]
    pub slots: Option<u32>,
}

fn server_weight() -> u32 {
    1
}

/// A class of requests. Everything that it names must match; it names something. A `*` at the end of a
/// path or a field's value stands for all that begin so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::http_class))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpClass {
    /// Its name, in metrics, logs and policies.
    pub name: String,
    /// Requests for this path, as it was sent and without the query.
    pub path: Option<String>,
    /// Requests with one of these methods.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(transform = crate::schema::http_methods))]
    pub method: Vec<String>,
    /// Requests with these fields in their heads.
    #[serde(default)]
    pub header: BTreeMap<String, String>,
    /// Its importance; larger goes first.
    #[serde(default)]
    pub priority: u8,
    /// Service that its requests need, in any one unit.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub size: Option<u64>,
    /// The longest wait of its requests, if that is shorter than the pool's.
    #[cfg_attr(feature = "schema", schemars(transform = advise::schema::above_zero))]
    pub deadline: Option<Span>,
}

/// The key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HttpKey {
    /// The path of its target, without the query.
    Path,
    /// The address of its client.
    Client,
}

/// Health probes of servers. A refused connection counts as down at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpHealth {
    /// Every server is asked for this path; 200 to 399 is healthy. Left out, only a server that is down is
    /// probed, by connecting to it.
    pub path: Option<String>,
    /// From one question to the next.
    pub interval: Span,
    /// Time limit of an answer.
    pub timeout: Span,
    /// A server is down that has failed so many times in a row.
    pub failures_max: u32,
    /// A server is up again that has answered so many probes in a row.
    pub successes_min: u32,
}

impl Default for HttpHealth {
    fn default() -> HttpHealth {
        HttpHealth {
            path: None,
            interval: Span(1.0),
            timeout: Span(2.0),
            failures_max: 3,
            successes_min: 1,
        }
    }
}

/// Connections to servers that no request uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpConnections {
    /// Idle time after which one is closed.
    pub idle: Span,
    /// Most connections that are kept to each server.
    pub kept_max: u32,
}

impl Default for HttpConnections {
    fn default() -> HttpConnections {
        HttpConnections { idle: Span(4.0), kept_max: 64 }
    }
}

/// Limits of number and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpLimits {
    /// Clients' connections; at the limit, none is accepted until one ends.
    pub connections: u32,
    /// The head of a request or response.
    pub head: Bytes,
    /// Part of a response that is kept for a client that is slower than the server: a larger response holds
    /// its slot until all but this much has gone.
    pub buffer: Bytes,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits { connections: 10_000, head: Bytes(16 << 10), buffer: Bytes(64 << 10) }
    }
}

/// Limits of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpTimeouts {
    /// A request's head, from its first byte or the connection on; the TLS handshake has as long.
    pub head: Span,
    /// A client that asks for nothing.
    pub client_idle: Span,
    /// Connecting to a server.
    pub connect: Span,
    /// From the last byte of a request to the head of its response.
    pub response: Span,
    /// Bodies of which no byte moves in either direction.
    pub stalled: Span,
    /// A slot that is held.
    pub hold: Span,
    /// Time for which a slot is held for a response that no client waits for any more.
    pub abandoned: Span,
    /// From SIGTERM until no connection is accepted any more; `/readyz` says no meanwhile.
    pub drain_delay: Span,
    /// Requests still in service after that.
    pub drain: Span,
}

impl Default for HttpTimeouts {
    fn default() -> HttpTimeouts {
        HttpTimeouts {
            head: Span(10.0),
            client_idle: Span(60.0),
            connect: Span(5.0),
            response: Span(60.0),
            stalled: Span(30.0),
            hold: Span(600.0),
            abandoned: Span(5.0),
            drain_delay: Span(0.0),
            drain: Span(30.0),
        }
    }
}

/// Treatment of a client's own X-Forwarded-* and Forwarded fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedName {
    /// They are dropped: right for the first proxy that clients reach.
    Replace,
    /// They are kept and added to: right behind another trusted proxy.
    Append,
}

/// The address for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpAdmin {
    /// The address of the metrics, the live page and the controls.
    pub http: Option<String>,
}

/// The log of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::http_log))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpLog {
    /// The file of the access log; `"-"` is standard output. Left out, there is none.
    pub access: Option<String>,
    /// True if the access log has queries too.
    pub query: bool,
}
