//! Settings of a gate in front of HTTP servers. Plain values; nothing is read from files or the
//! environment except the two files that TLS names.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gate::{DisciplineSpec, GateSpec, LoadInformation, Queues, RouterSpec, ServerSpec};
use thiserror::Error;
use tokio_rustls::rustls::ServerConfig;

pub use super::classes::{Class, Field, Text};
pub use super::rewrite::Forwarded;
pub use live::Auto;
pub use tls::{Tls, TlsError};

/// The parameters of an HTTP gate.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address that clients connect to; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The servers behind, in the order of [`GateSpec::servers`].
    pub upstreams: Vec<SocketAddr>,
    /// The gate. Its `room` and `wait_max` must be set: every queue of a live server has a bound
    /// and every wait a deadline.
    pub gate: GateSpec,
    /// Search for the slots of each server, if that is left to the gate; it begins with those of
    /// `gate`, which are [`Auto::start`](live::Auto::start) then.
    pub auto: Option<Auto>,
    /// Receiver of the decisions about the slots, line by line.
    pub decisions: Option<fn(&str)>,
    /// Classes of requests with their priorities; the first that fits counts, and the first has the
    /// number 1. A request that none fits is of class 0, `other`, and priority 0, without a size. At most
    /// [`CLASSES_MAX`].
    pub classes: Vec<Class>,
    /// Key of a request, for routing and cohorts by key.
    pub key: Key,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Limits of size and number.
    pub limits: Limits,
    /// Health checks of the servers.
    pub health: Health,
    /// The certificate, if clients connect with TLS.
    pub tls: Option<Tls>,
    /// Address of the live page, `/metrics`, `/healthz`, `/readyz` and the controls; port 0 takes a free
    /// one. The controls answer to loopback addresses only.
    pub admin: Option<SocketAddr>,
    /// Log of requests, if there is to be one.
    pub access_log: Option<AccessLog>,
    /// Limit of recorded events of the gate, from the start on; 0 for no recording.
    pub record_max: usize,
    /// Treatment of the forwarded fields that a client sent itself.
    pub forwarded: Forwarded,
}

/// The jobs that may wait, unless told otherwise.
pub const ROOM: u64 = 1024;

impl Config {
    /// A gate that listens on `listen`, with `slots` slots for each of `upstreams`: first in,
    /// first out, one queue with room for [`ROOM`] jobs, which wait 30 s at most, and not at all while no
    /// server is up; round robin.
    pub fn new(listen: SocketAddr, upstreams: Vec<SocketAddr>, slots: u32) -> Config {
        let servers = vec![ServerSpec { slots }; upstreams.len()];
        Config {
            listen,
            upstreams,
            gate: GateSpec {
                servers,
                queues: Queues::Shared,
                router: RouterSpec::RoundRobin,
                load_information: LoadInformation::Fresh,
                discipline: DisciplineSpec::Fifo,
                room: Some(ROOM),
                wait_max: Some(Duration::from_secs(30)),
                unreachable_max: Some(Duration::ZERO),
                seed: 0,
                early_rejection: None,
                reserve: None,
                roles: Vec::new(),
            },
            auto: None,
            decisions: None,
            classes: Vec::new(),
            key: Key::Path,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            health: Health::default(),
            tls: None,
            admin: None,
            access_log: None,
            record_max: 0,
            forwarded: Forwarded::Replace,
        }
    }

    /// # Errors
    /// If this describes no gate.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (servers, upstreams) = (self.gate.servers.len(), self.upstreams.len());
        if servers != upstreams {
            return Err(ConfigError::Upstreams { servers, upstreams });
        }
        if self.gate.room.is_none() {
            return Err(ConfigError::NoRoom);
        }
        if self.gate.wait_max.is_none() {
            return Err(ConfigError::NoWaitMax);
        }
        if let Some(auto) = &self.auto {
            auto.check().map_err(ConfigError::Auto)?;
        }
        let slots = self.gate.servers.iter().map(|server| server.slots).max().unwrap_or(0);
        let limits = &self.limits;
        let ranges = [
            ("limits.head", limits.head, 256, 1 << 20),
            ("limits.buffer", limits.buffer, 4096, 1 << 26),
            ("limits.connections", limits.connections, 1, CONNECTIONS_MAX),
            ("slots", slots as usize, 0, SLOTS_MAX as usize),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::Limit { name, value, least, most });
            }
        }
        self.check_classes()?;
        let path = match &self.health.probe {
            Probe::Get(path) => path.as_str(),
            Probe::Connect => "/",
        };
        if !path.starts_with('/') || !path.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(ConfigError::ProbePath(path.to_owned()));
        }
        Ok(())
    }

    /// Checks that a gate can begin with it, as far as that can be told without listening.
    ///
    /// # Errors
    /// If it is invalid, or the certificate cannot be used.
    pub fn try_out(&self) -> Result<(), StartError> {
        self.tried_out().map(drop)
    }

    /// The same, with its certificate.
    ///
    /// # Errors
    /// If it is invalid, or the certificate cannot be used.
    pub(crate) fn tried_out(&self) -> Result<Option<Arc<ServerConfig>>, StartError> {
        self.check()?;
        // The specification is checked here rather than in the thread that runs it.
        gate::Gate::new(&self.gate)?;
        Ok(self.tls.as_ref().map(|tls| tls::load(tls, b"http/1.1")).transpose()?)
    }

    fn check_classes(&self) -> Result<(), ConfigError> {
        let (value, most) = (self.classes.len(), CLASSES_MAX);
        if value > most {
            return Err(ConfigError::Limit { name: "classes", value, least: 0, most });
        }
        for (at, class) in self.classes.iter().enumerate() {
            let others = self.classes[..at].iter().map(|class| &*class.name);
            if others.chain([OTHER]).any(|name| name == class.name) {
                return Err(ConfigError::ClassTwice(class.name.clone()));
            }
        }
        Ok(())
    }

    /// The names of the classes, by their number: that of requests of none is `other`.
    pub(crate) fn class_names(&self) -> Vec<String> {
        let names = self.classes.iter().map(|class| class.name.clone());
        std::iter::once(OTHER.to_owned()).chain(names).collect()
    }
}

/// The class of requests that no class fits.
const OTHER: &str = "other";

/// The most classes of a gate beside `other`, as each is told in the metrics.
pub const CLASSES_MAX: usize = 255;

/// The log of requests: one JSON object a line for each request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The file, which is added to; none is standard output.
    pub file: Option<PathBuf>,
    /// Part of the target that is written.
    pub target: LoggedTarget,
}

impl AccessLog {
    /// The access log of this name, of the path alone; `-` is standard output.
    pub fn named(name: &Path) -> AccessLog {
        AccessLog { file: linelog::file_named(name), target: LoggedTarget::Path }
    }
}

/// Part of a request's target that is written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedTarget {
    /// The path alone: a query may hold what is nobody's to read.
    Path,
    /// The path with the query.
    PathAndQuery,
}

/// The most slots that one server may have; each costs memory.
pub(crate) const SLOTS_MAX: u32 = 1 << 20;

/// A job's id has 24 bits for the place of its connection.
pub(crate) const CONNECTIONS_MAX: usize = (1 << 24) - 1;

/// Key of a request: requests of one key go to one server where that is decided by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The path of its target, without the query.
    Path,
    /// The address of its client.
    Client,
}

/// Time limits. The clock that watches them ticks every quarter of the shortest of them, 10 ms to
/// 100 ms: they end late by up to a tick. The wait at the gate has a timer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request, or the connection, to the end of its head; the TLS
    /// handshake has as long.
    pub head: Duration,
    /// Time that a connection without a request is kept.
    pub idle: Duration,
    /// To connect to a server.
    pub connect: Duration,
    /// From the last byte of a request to the head of its response.
    pub response: Duration,
    /// Without a byte moving in either direction while bodies are passed on.
    pub stall: Duration,
    /// Longest time that a slot may be held in all.
    pub hold: Duration,
    /// Time that a slot is held on for a server that is still busy with a response that no client
    /// waits for any more; after that the connection to the server is cut.
    pub abandoned: Duration,
    /// Time that a connection to a server is kept without a request.
    pub pool_idle: Duration,
    /// From the beginning of a drain until no connection is accepted any more: `/readyz` says no meanwhile,
    /// so that a load balancer sends nobody here by then.
    pub drain_delay: Duration,
    /// From the end of that until what is still in flight is cut off.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            connect: Duration::from_secs(5),
            response: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            hold: Duration::from_secs(600),
            abandoned: Duration::from_secs(5),
            pool_idle: Duration::from_secs(4),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// Period of the clock that watches them.
    pub(crate) fn tick(&self) -> Duration {
        let Timeouts { head, idle, connect, response, stall, .. } = *self;
        let Timeouts { hold, abandoned, pool_idle, .. } = *self;
        let others = [idle, connect, response, stall, hold, abandoned, pool_idle];
        let shortest = others.into_iter().fold(head, Duration::min);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_millis(100))
    }
}

/// Limits of size and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients' connections; at the limit, none is accepted until one ends.
    pub connections: usize,
    /// A head \[B\].
    pub head: usize,
    /// Part of a response that is kept for a client that is slower than the server \[B\]. A server
    /// whose response fits gets its slot back at once; a larger one holds it until all but this
    /// much has gone to the client.
    pub buffer: usize,
    /// Connections kept open to each server without a request. At any time a server has at most as
    /// many connections as it had slots.
    pub pool: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 10_000, head: 16 * 1024, buffer: 64 * 1024, pool: 64 }
    }
}

/// Health checks of the servers. They are up at first. A refused connection counts as down at once;
/// everything else when it came `fall` times in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Request of the check.
    pub probe: Probe,
    /// Period of the checks.
    pub interval: Duration,
    /// Time limit of an answer.
    pub timeout: Duration,
    /// After so many failures in a row it is down.
    pub fall: u32,
    /// After so many good probes in a row it is up again.
    pub rise: u32,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            probe: Probe::Connect,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            fall: 3,
            rise: 1,
        }
    }
}

/// Kind of health check. A probe passes the gate by: it takes no slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Only a server that is down is probed, by connecting to it.
    Connect,
    /// Every server is asked for this path; 200 to 399 is good.
    Get(String),
}

/// Why a configuration describes no gate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are not as many upstreams as servers in the specification.
    #[error("the gate has {servers} servers, but there are {upstreams} upstreams: name one each")]
    Upstreams {
        /// Servers of the specification.
        servers: usize,
        /// Upstreams.
        upstreams: usize,
    },
    /// The queue has no bound.
    #[error("the gate's queue has no bound; a live gate must have one: set room")]
    NoRoom,
    /// The wait has no deadline.
    #[error("the wait at the gate has no limit; a live gate must have one: set wait_max")]
    NoWaitMax,
    /// The slots cannot be found so.
    #[error("the slots cannot be left to the gate: {0}")]
    Auto(gate::ControlError),
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
    /// The health check asks for something that is no path.
    #[error("the health check's path {0:?} must begin with / and hold no spaces")]
    ProbePath(String),
    /// Two classes have one name.
    #[error(
        "the class {0:?} is there twice, or has the name of those of no class; name each otherwise"
    )]
    ClassTwice(String),
}

/// Why a gate could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration describes no gate.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gate's own specification is invalid.
    #[error(transparent)]
    Gate(#[from] gate::SpecError),
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}; is something else listening there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The log could not be opened.
    #[error("cannot write the access log {}: {source}; name a file in a folder that exists", path.display())]
    AccessLog {
        /// Its file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate or key could not be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The runtime could not be started.
    #[error("cannot start the event loop: {0}")]
    Runtime(#[source] io::Error),
}
