//! Plan of a run, checked before it begins: a [`Plan`] that exists can be run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use measure::{ClassSpec, LoadShape, RunHeader, Until, figures};
use thiserror::Error;
use workload::{Arrivals, Dist, DistError, DocumentSet, Draw};

use super::target::{Scheme, Target};
use crate::host;

/// The load that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A fixed population: each client asks, waits for the answer, thinks, and asks again.
    Closed {
        /// Number of clients, at least 1.
        clients: u32,
        /// Think time \[s\]; a constant 0 is none.
        think: Dist,
    },
    /// Arrivals that wait for nobody.
    Open {
        /// When requests arrive.
        arrivals: Arrivals,
        /// The bound on requests in flight, over all threads; an arrival beyond it counts as failed.
        in_flight_max: u32,
    },
}

/// Use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Each serves request after request, until one of the two sides closes it.
    KeepAlive,
    /// Each serves one request; response times then count from before the socket is made to after
    /// it is closed, as WebStone has it.
    PerRequest,
}

/// Way in which the generator closes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// With a FIN, as clients do.
    Fin,
    /// With a RST: cheaper, and leaves no port in TIME_WAIT, but no client does it.
    Rst,
}

/// Behaviour of a thread while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps; then each response that finds it asleep costs the server a wake-up.
    Sleep,
    /// It spins: the server pays for no wake-ups, and a processor is always busy.
    Spin,
}

/// The method of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
}

/// Whom a TLS client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The certificates of `/etc/ssl/certs/ca-certificates.crt`.
    System,
    /// The certificates in this PEM file, and no others.
    File(PathBuf),
    /// Everybody. The record says so.
    Insecure,
}

/// Resumption of TLS sessions by new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// Never: each connection pays for a full handshake, as each new client does.
    Off,
    /// Where the server offers it.
    On,
}

/// Unchecked plan of a run; [`Plan::new`] checks it.
#[derive(Clone, Debug)]
pub struct PlanSpec {
    /// Target of the load.
    pub target: Target,
    /// Documents that are requested: the path of a document is the target's, a slash, and its name.
    /// `None`: the target's own path.
    pub documents: Option<DocumentSet>,
    /// Way in which documents are drawn.
    pub draw: Draw,
    /// The load.
    pub load: Load,
    /// When the run ends. A number of requests includes those of the warm-up.
    pub until: Until,
    /// The length at the start that is recorded, but not to be used.
    pub warmup: Duration,
    /// The length of the record's intervals.
    pub interval: Duration,
    /// Number of threads, at least 1.
    pub threads: u32,
    /// The processors that the threads are bound to, one after the other; empty: none.
    pub cpus: Vec<usize>,
    /// Use of connections.
    pub connections: Connections,
    /// Way in which they are closed.
    pub closing: Closing,
    /// Behaviour of a thread while there is nothing to do.
    pub idle: Idle,
    /// The method of every request.
    pub method: Method,
    /// Header fields beyond `Host`, names and values.
    pub headers: Vec<(String, String)>,
    /// Time limit of opening a connection, TLS included. Whether time is up is looked at twenty
    /// times within it, at least every 250 ms.
    pub connect_max: Duration,
    /// Time limit of a request, from its actual start; looked at as often.
    pub response_max: Duration,
    /// The size asked for receive buffers \[bytes\]; `None`: the system's.
    pub receive_buffer: Option<u32>,
    /// Whom TLS trusts.
    pub trust: Trust,
    /// Resumption of TLS sessions.
    pub resumption: Resumption,
    /// A run in which connections fail, and nothing else has come, for so long has lost its server.
    pub lost_after: Duration,
    /// The seed of all chance.
    pub seed: u64,
}

impl PlanSpec {
    /// A spec with the usual choices: the target's own path (or documents, from a deck), no warm-up,
    /// intervals of a second, one thread, keep-alive, FIN, sleeping, 30 s for a response and 10 s
    /// for a connection, the system's trust.
    pub fn new(target: Target, load: Load, until: Until) -> PlanSpec {
        PlanSpec {
            target,
            documents: None,
            draw: Draw::Deck,
            load,
            until,
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            threads: 1,
            cpus: Vec::new(),
            connections: Connections::KeepAlive,
            closing: Closing::Fin,
            idle: Idle::Sleep,
            method: Method::Get,
            headers: Vec::new(),
            connect_max: Duration::from_secs(10),
            response_max: Duration::from_secs(30),
            receive_buffer: None,
            trust: Trust::System,
            resumption: Resumption::Off,
            lost_after: Duration::from_secs(10),
            seed: 1,
        }
    }
}

/// Why a spec is no plan.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// A number is out of its range.
    #[error("{what} must be {must}, but it is {is}")]
    Range {
        /// Name of the number.
        what: &'static str,
        /// Condition that it must meet.
        must: &'static str,
        /// Its value.
        is: String,
    },
    /// The think time is no distribution.
    #[error("the think time is no distribution: {0}")]
    Think(
        /// Why.
        #[from]
        DistError,
    ),
    /// A header field or a document's name holds what cannot stand there.
    #[error("{what} `{value}` holds {odd:?}, which cannot be sent there")]
    Character {
        /// Name of its holder.
        what: &'static str,
        /// The text.
        value: String,
        /// The character.
        odd: char,
    },
    /// A header field that the engine sends itself.
    #[error("the header `{0}` is the engine's own: it follows from the plan")]
    OwnHeader(
        /// Its name.
        String,
    ),
}

/// The names that only the caller knows, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Naming {
    /// The run's name, unique in its folder.
    pub id: String,
    /// When it began, UTC, RFC 3339.
    pub started: String,
    /// The program and its version.
    pub tool: String,
    /// The words of the command line, secrets removed.
    pub command: Vec<String>,
}

/// Plan of a run; checked, so that it can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) spec: PlanSpec,
    /// By class: the request, ready to be sent.
    pub(crate) requests: Vec<Box<[u8]>>,
    /// Documents that are requested, with weights.
    pub(crate) documents: DocumentSet,
    classes: Vec<ClassSpec>,
}

impl Plan {
    /// Checks a spec. No more threads are used than there are clients.
    ///
    /// # Errors
    /// If a number is out of range, or text cannot be sent.
    pub fn new(mut spec: PlanSpec) -> Result<Plan, PlanError> {
        check_numbers(&spec)?;
        if let Load::Closed { clients, .. } = spec.load {
            spec.threads = spec.threads.min(clients);
        }
        check_headers(&spec.headers)?;
        let (documents, paths, classes) = match &spec.documents {
            None => {
                let path = spec.target.path.clone();
                let class = ClassSpec { name: path.clone(), bytes: None, weight: 1 };
                (DocumentSet::single(&path, 0), vec![path], vec![class])
            }
            Some(set) => {
                let mut paths = Vec::new();
                for document in set.documents() {
                    check_text("the document", &document.name, char::is_ascii_graphic)?;
                    paths.push(path_of(&spec.target.path, &document.name));
                }
                let classes = set.documents().iter().map(|document| ClassSpec {
                    name: document.name.clone(),
                    bytes: Some(document.bytes),
                    weight: document.weight,
                });
                (set.clone(), paths, classes.collect())
            }
        };
        let requests = paths.iter().map(|path| render(&spec, path)).collect();
        Ok(Plan { spec, requests, documents, classes })
    }

    /// The spec, as it is run.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// The head of the run's record.
    pub fn header(&self, naming: Naming) -> RunHeader {
        let spec = &self.spec;
        RunHeader {
            id: naming.id,
            started: naming.started,
            tool: naming.tool,
            command: naming.command,
            seed: spec.seed,
            host: host::facts(),
            target: spec.target.url(),
            load: match spec.load {
                Load::Closed { clients, think } => {
                    LoadShape::Closed { clients, think_s: think.mean() }
                }
                Load::Open { arrivals: Arrivals::Poisson { rate }, in_flight_max } => {
                    LoadShape::Poisson { rate, in_flight_max }
                }
                Load::Open { arrivals: Arrivals::Fixed { rate }, in_flight_max } => {
                    LoadShape::Fixed { rate, in_flight_max }
                }
            },
            until: spec.until,
            warmup_s: spec.warmup.as_secs_f64(),
            classes: self.classes.clone(),
            settings: settings(spec),
        }
    }
}

fn check_numbers(spec: &PlanSpec) -> Result<(), PlanError> {
    const DAY: Duration = Duration::from_secs(86_400);
    let range = |what, must, is: String, holds: bool| {
        if holds { Ok(()) } else { Err(PlanError::Range { what, must, is }) }
    };
    match spec.load {
        Load::Closed { clients, think } => {
            let holds = (1..=1_000_000).contains(&clients);
            range("the number of clients", "1 to 1000000", clients.to_string(), holds)?;
            let mean = think.check()?.mean();
            range("the mean think time", "below a day", figures::time(mean), mean < 86_400.0)?;
        }
        Load::Open { arrivals, in_flight_max } => {
            let rate = arrivals.rate();
            let holds = rate.is_finite() && rate > 0.0 && rate <= 1e8;
            range("the rate", "above 0 and at most 100000000/s", figures::rate(rate), holds)?;
            let holds = (1..=1_000_000).contains(&in_flight_max);
            let is = in_flight_max.to_string();
            range("the bound on requests in flight", "1 to 1000000", is, holds)?;
        }
    }
    match spec.until {
        Until::Requests(requests) => {
            range("the number of requests", "at least 1", requests.to_string(), requests > 0)?;
        }
        Until::Seconds(seconds) => {
            let holds = seconds > 0.0 && seconds <= 30.0 * 86_400.0;
            range("the duration", "above 0 and at most 30 days", figures::time(seconds), holds)?;
        }
    }
    let threads = spec.threads;
    range(
        "the number of threads",
        "1 to 1024",
        threads.to_string(),
        (1..=1024).contains(&threads),
    )?;
    for (what, span) in [
        ("the interval", spec.interval),
        ("the time for a connection", spec.connect_max),
        ("the time for a response", spec.response_max),
        ("the time after which a server is lost", spec.lost_after),
    ] {
        let holds = (Duration::from_millis(10)..=DAY).contains(&span);
        range(what, "10 ms to a day", format!("{span:?}"), holds)?;
    }
    range("the warm-up", "at most a day", format!("{:?}", spec.warmup), spec.warmup <= DAY)
}

/// Header names are tokens, values are visible characters and spaces (RFC 9110, section 5).
fn check_headers(headers: &[(String, String)]) -> Result<(), PlanError> {
    const OWN: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", "expect"];
    for (name, value) in headers {
        let token = |c: &char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c);
        check_text("the header name", name, token)?;
        if name.is_empty() || OWN.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(PlanError::OwnHeader(name.clone()));
        }
        check_text("the header value", value, |c| c.is_ascii_graphic() || " \t".contains(*c))?;
    }
    Ok(())
}

fn check_text(
    what: &'static str,
    value: &str,
    fits: impl Fn(&char) -> bool,
) -> Result<(), PlanError> {
    match value.chars().find(|c| !fits(c)) {
        Some(odd) => Err(PlanError::Character { what, value: value.to_owned(), odd }),
        None => Ok(()),
    }
}

/// The target's path, its query left at the end, and the document's name.
fn path_of(base: &str, name: &str) -> String {
    let (path, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    format!("{}/{}{query}", path.trim_end_matches('/'), name.trim_start_matches('/'))
}

fn render(spec: &PlanSpec, path: &str) -> Box<[u8]> {
    let method = match spec.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", spec.target.authority());
    let given =
        |wanted: &str| spec.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if let Some(authorization) = &spec.target.authorization
        && !given("authorization")
    {
        head.push_str(&format!("Authorization: {authorization}\r\n"));
    }
    for (name, value) in &spec.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if spec.connections == Connections::PerRequest {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes().into()
}

/// Everything in force that has no field of its own in the record.
fn settings(spec: &PlanSpec) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| drop(settings.insert(name.to_owned(), value));
    let keep_alive = spec.connections == Connections::KeepAlive;
    set("keep-alive", if keep_alive { "on" } else { "off" }.into());
    set("closing", if spec.closing == Closing::Fin { "fin" } else { "rst" }.into());
    set("idle", if spec.idle == Idle::Sleep { "sleep" } else { "spin" }.into());
    set("draw", if spec.draw == Draw::Deck { "deck" } else { "random" }.into());
    set("method", if spec.method == Method::Get { "GET" } else { "HEAD" }.into());
    set("threads", spec.threads.to_string());
    if !spec.cpus.is_empty() {
        let cpus: Vec<String> = spec.cpus.iter().map(usize::to_string).collect();
        set("cpus", cpus.join(","));
    }
    set("interval", format!("{:?}", spec.interval));
    set("connect-max", format!("{:?}", spec.connect_max));
    set("response-max", format!("{:?}", spec.response_max));
    set("lost-after", format!("{:?}", spec.lost_after));
    set("retry", "once, if a reused connection closes before a byte of the response".into());
    if let Some(bytes) = spec.receive_buffer {
        set("receive-buffer", format!("{bytes}B"));
    }
    if let Load::Closed { think, .. } = spec.load
        && think != Dist::Constant(0.0)
    {
        set("think", format!("{think:?}"));
    }
    if !spec.headers.is_empty() {
        // Names only: a value may be a secret.
        let names: Vec<&str> = spec.headers.iter().map(|(name, _)| name.as_str()).collect();
        set("headers", names.join(","));
    }
    if spec.target.scheme == Scheme::Https {
        set(
            "tls-trust",
            match &spec.trust {
                Trust::System => "system".into(),
                Trust::File(path) => format!("file {}", path.display()),
                Trust::Insecure => "insecure: no certificate was checked".into(),
            },
        );
        let resumes = spec.resumption == Resumption::On;
        set("tls-resumption", if resumes { "on" } else { "off" }.into());
    }
    settings
}
