//! Plan of a run, checked before it begins: a [`Plan`] that exists can be run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gate::Time;
use measure::{ClassSpec, LoadShape, RunHeader, RunPart, Until, figures};
use thiserror::Error;
use workload::{Arrivals, Deck, Dist, DistError};

use super::http2::link::Form;
use super::request::{Method, Request};
use super::response::Body;
use super::target::{Scheme, Target};
use super::tls::{HTTP1, HTTP2, Tls, TlsError};
use crate::asks::{Asks, Order, Tickets};
use crate::host;
use crate::schedule::Schedule;

/// The load that is asked for.
#[derive(Clone, Debug, PartialEq)]
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
    /// Arrivals that wait for nobody, at a rate that changes.
    Varying {
        /// When requests arrive.
        schedule: Schedule,
        /// The bound on requests in flight, over all threads; an arrival beyond it counts as failed.
        in_flight_max: u32,
    },
}

impl Load {
    /// The load as a record has it, after a warm-up.
    pub fn shape(&self, warmup: Duration) -> LoadShape {
        match self {
            Load::Closed { clients, think } => {
                LoadShape::Closed { clients: *clients, think_s: think.mean() }
            }
            Load::Open { arrivals: Arrivals::Poisson { rate }, in_flight_max } => {
                LoadShape::Poisson { rate: *rate, in_flight_max: *in_flight_max }
            }
            Load::Open { arrivals: Arrivals::Fixed { rate }, in_flight_max } => {
                LoadShape::Fixed { rate: *rate, in_flight_max: *in_flight_max }
            }
            Load::Varying { schedule, in_flight_max } => LoadShape::Varying {
                course: schedule.course(),
                phases: schedule.phases(warmup.as_secs_f64()),
                in_flight_max: *in_flight_max,
            },
        }
    }

    /// Moments at which an interval ends, whatever its length: the end of the warm-up and of each phase.
    pub fn edges(&self, warmup: Duration) -> Vec<Time> {
        let mut edges = vec![Time::ZERO + warmup];
        if let Load::Varying { schedule, .. } = self {
            let phases = schedule.phases(warmup.as_secs_f64());
            edges.extend(phases.iter().map(|one| Time::from_secs_f64(one.start_s + one.length_s)));
        }
        edges
    }
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

/// Version of HTTP that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: a connection carries one request at a time.
    Http1,
    /// HTTP/2: a connection carries many requests, each on a stream. Over TLS it is agreed on by ALPN; without,
    /// the server is taken to speak it (prior knowledge, RFC 9113, section 3.3).
    Http2 {
        /// The most streams of a connection at once, 1 to 10000; where the server allows fewer, those. When no
        /// connection has room, another one is opened.
        streams_max: u32,
    },
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
    /// Requests that are made; those with one class are counted together.
    pub requests: Vec<Request>,
    /// Order of the requests.
    pub order: Order,
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
    /// Version of HTTP.
    pub protocol: Protocol,
    /// Use of connections.
    pub connections: Connections,
    /// Way in which they are closed.
    pub closing: Closing,
    /// Behaviour of a thread while there is nothing to do.
    pub idle: Idle,
    /// Header fields of every request beyond `Host`, names and values.
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
    /// The part of a run in several processes that this is: load, end and seed are the whole run's, and
    /// threads each part's.
    pub part: RunPart,
}

impl PlanSpec {
    /// A spec with the usual choices: a GET of the target's own path, requests from a deck, no warm-up,
    /// intervals of a second, one thread, keep-alive, FIN, sleeping, 30 s for a response and 10 s
    /// for a connection, the system's trust.
    pub fn new(target: Target, load: Load, until: Until) -> PlanSpec {
        PlanSpec {
            requests: vec![Request::get(&target.path)],
            target,
            order: Order::Deck,
            load,
            until,
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            threads: 1,
            cpus: Vec::new(),
            protocol: Protocol::Http1,
            connections: Connections::KeepAlive,
            closing: Closing::Fin,
            idle: Idle::Sleep,
            headers: Vec::new(),
            connect_max: Duration::from_secs(10),
            response_max: Duration::from_secs(30),
            receive_buffer: None,
            trust: Trust::System,
            resumption: Resumption::Off,
            lost_after: Duration::from_secs(10),
            seed: 1,
            part: RunPart::WHOLE,
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
    /// Some parts would have nothing to do.
    #[error("{of} parts are too many for {all} {what}: each needs one of its own")]
    Parts {
        /// The number of parts.
        of: u32,
        /// Name of what they share.
        what: &'static str,
        /// Number of it.
        all: u64,
    },
    /// The think time is no distribution.
    #[error("the think time is no distribution: {0}")]
    Think(
        /// Why.
        #[from]
        DistError,
    ),
    /// A header field or a path holds what cannot stand there.
    #[error("{what} `{value}` holds {odd:?}, which cannot be sent there")]
    Character {
        /// Name of its holder.
        what: &'static str,
        /// The text.
        value: String,
        /// The character.
        odd: char,
    },
    /// The requests are no list that can be made.
    #[error("{0}")]
    Requests(
        /// Why, and the way out.
        String,
    ),
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
    /// By number of the request.
    pub(crate) messages: Vec<Message>,
    pub(crate) classes: Vec<ClassSpec>,
    /// Moments at which an interval ends, whatever its length: the end of the warm-up and of each phase.
    pub(crate) edges: Vec<Time>,
}

/// A request as the engine sends it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) class: u32,
    /// The same for HTTP/2, where that is spoken.
    pub(super) form: Option<Box<Form>>,
    /// Possibility of a body in the answer.
    pub(crate) answer: Body,
    pub(crate) method: Method,
}

/// The most classes of a run: each has its histograms in each interval.
const CLASSES_MAX: usize = 2_000;
/// The most requests to choose from.
const REQUESTS_MAX: usize = 1_000_000;
/// The largest body of a request, and of all together \[bytes\].
const BODY_MAX: usize = 16 << 20;
const BODIES_MAX: usize = 256 << 20;
/// The most cards of a deck.
const CARDS_MAX: u64 = 10_000_000;

impl Plan {
    /// Checks a spec. No more threads are used than there are clients.
    ///
    /// # Errors
    /// If a number is out of range, or text cannot be sent.
    pub fn new(mut spec: PlanSpec) -> Result<Plan, PlanError> {
        check_numbers(&spec)?;
        if let Load::Closed { clients, .. } = spec.load {
            // The threads of all parts take turns with the clients, and no thread is without one.
            spec.threads = spec.threads.min(clients / spec.part.of());
        }
        check_headers(&spec.headers)?;
        check_requests(&spec)?;
        let (of, classes) = classes(&spec.requests)?;
        let message = |(request, class): (&Request, u32)| {
            let (bytes, form) = match spec.protocol {
                Protocol::Http1 => (render(&spec, request), None),
                Protocol::Http2 { .. } => (Box::default(), Some(Box::new(form(&spec, request)?))),
            };
            let answer = if request.method == Method::Head { Body::Never } else { Body::Expected };
            Ok(Message { bytes, form, class, answer, method: request.method })
        };
        let messages =
            spec.requests.iter().zip(of).map(message).collect::<Result<_, PlanError>>()?;
        let edges = spec.load.edges(spec.warmup);
        Ok(Plan { spec, messages, classes, edges })
    }

    /// The classes, in their order in the record.
    pub fn classes(&self) -> &[ClassSpec] {
        &self.classes
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
            load: spec.load.shape(spec.warmup),
            until: spec.until,
            warmup_s: spec.warmup.as_secs_f64(),
            classes: self.classes.clone(),
            settings: settings(spec),
            part: None,
            merged: Vec::new(),
        }
    }

    /// TLS for a thread.
    pub(super) fn tls(&self) -> Result<Tls, TlsError> {
        let spec = &self.spec;
        let protocol = match spec.protocol {
            Protocol::Http1 => HTTP1,
            Protocol::Http2 { .. } => HTTP2,
        };
        Tls::new(&spec.target.host, &spec.trust, spec.resumption, protocol)
    }

    /// The asks of a thread.
    pub(crate) fn asks<'a>(&self, tickets: &'a Tickets, thread: u32) -> Asks<'a> {
        let spec = &self.spec;
        match (&spec.load, &spec.order) {
            (Load::Varying { schedule, .. }, Order::Listed(list)) if schedule.is_log() => {
                Asks::in_turns(tickets, list, thread)
            }
            (_, order) => {
                let weights: Vec<u32> =
                    spec.requests.iter().map(|request| request.weight).collect();
                Asks::new(tickets, &weights, order, spec.seed, thread)
            }
        }
    }
}

/// The class of each request, and the classes in the order in which they first come.
fn classes(requests: &[Request]) -> Result<(Vec<u32>, Vec<ClassSpec>), PlanError> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut of, mut classes) = (Vec::with_capacity(requests.len()), Vec::<ClassSpec>::new());
    for request in requests {
        let next = classes.len() as u32;
        let number = *numbers.entry(&request.class).or_insert(next);
        if number == next {
            classes.push(ClassSpec {
                name: request.class.clone(),
                bytes: request.bytes,
                weight: request.weight,
            });
        } else {
            let class = &mut classes[number as usize];
            class.weight = class.weight.saturating_add(request.weight);
            class.bytes = class.bytes.filter(|bytes| request.bytes == Some(*bytes));
        }
        of.push(number);
    }
    if classes.len() > CLASSES_MAX {
        return Err(PlanError::Requests(format!(
            "{} classes of requests are more than a record keeps apart, {CLASSES_MAX}: give several \
             requests one class",
            classes.len()
        )));
    }
    Ok((of, classes))
}

fn check_requests(spec: &PlanSpec) -> Result<(), PlanError> {
    let wrong = |text: String| Err(PlanError::Requests(text));
    let requests = &spec.requests;
    if requests.is_empty() || requests.len() > REQUESTS_MAX {
        let count = requests.len();
        return wrong(format!("a run makes 1 to {REQUESTS_MAX} different requests, not {count}"));
    }
    let mut bodies = 0;
    for request in requests {
        check_headers(&request.headers)?;
        check_text("the path", &request.path, char::is_ascii_graphic)?;
        if !request.path.starts_with('/') {
            return wrong(format!("the path `{}` does not begin with a slash", request.path));
        }
        if request.weight == 0 {
            let name = &request.class;
            return wrong(format!("`{name}` has weight 0: give it 1 or more, or leave it out"));
        }
        bodies += request.body.len();
        if request.body.len() > BODY_MAX || bodies > BODIES_MAX {
            return wrong(format!(
                "the body of `{}` is too much: a body may have {} MiB, all together {} MiB",
                request.class,
                BODY_MAX >> 20,
                BODIES_MAX >> 20
            ));
        }
        if matches!(request.method, Method::Get | Method::Head) && !request.body.is_empty() {
            let method = request.method;
            return wrong(format!(
                "`{}` has a body, which {method} does not send: use POST, PUT, PATCH or DELETE",
                request.class
            ));
        }
    }
    match &spec.order {
        Order::Listed(list) => match list.iter().find(|one| **one as usize >= requests.len()) {
            Some(one) => wrong(format!("the list names request {one}, and there are fewer")),
            None if list.is_empty() => wrong("the list of requests is empty".into()),
            None => Ok(()),
        },
        Order::Deck => {
            let weights: Vec<u32> = requests.iter().map(|request| request.weight).collect();
            match Deck::size_of(&weights) {
                size if size > CARDS_MAX => wrong(format!(
                    "the weights make a deck of {size} cards, and {CARDS_MAX} are the most: give \
                     smaller weights, or draw at random"
                )),
                _ => Ok(()),
            }
        }
        Order::Random => Ok(()),
    }
}

fn check_numbers(spec: &PlanSpec) -> Result<(), PlanError> {
    const DAY: Duration = Duration::from_secs(86_400);
    let range = |what, must, is: String, holds: bool| {
        if holds { Ok(()) } else { Err(PlanError::Range { what, must, is }) }
    };
    match &spec.load {
        &Load::Closed { clients, think } => {
            let holds = (1..=1_000_000).contains(&clients);
            range("the number of clients", "1 to 1000000", clients.to_string(), holds)?;
            let mean = think.check()?.mean();
            range("the mean think time", "below a day", figures::time(mean), mean < 86_400.0)?;
        }
        Load::Open { arrivals, .. } => {
            let rate = arrivals.rate();
            let holds = rate.is_finite() && rate > 0.0 && rate <= 1e8;
            range("the rate", "above 0 and at most 100000000/s", figures::rate(rate), holds)?;
        }
        Load::Varying { schedule, .. } => {
            if schedule.is_log() && !matches!(spec.order, Order::Listed(_)) {
                let text = "a log's gaps go with its order, which the plan does not have";
                return Err(PlanError::Requests(text.into()));
            }
        }
    }
    if let Load::Open { in_flight_max, .. } | Load::Varying { in_flight_max, .. } = spec.load {
        let holds = (1..=1_000_000).contains(&in_flight_max);
        let is = in_flight_max.to_string();
        range("the bound on requests in flight", "1 to 1000000", is, holds)?;
    }
    check_part(spec)?;
    if let Protocol::Http2 { streams_max } = spec.protocol {
        let holds = (1..=10_000).contains(&streams_max);
        range("the number of streams", "1 to 10000", streams_max.to_string(), holds)?;
        if spec.connections == Connections::PerRequest {
            let text =
                "HTTP/2 keeps its connections: have none opened for each request, or speak HTTP/1";
            return Err(PlanError::Requests(text.into()));
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

/// Checks that every part has something to do.
fn check_part(spec: &PlanSpec) -> Result<(), PlanError> {
    let of = spec.part.of();
    let enough = |what, all: u64| match all < u64::from(of) {
        true => Err(PlanError::Parts { of, what, all }),
        false => Ok(()),
    };
    if let Until::Requests(requests) = spec.until {
        enough("requests", requests.max(1))?;
    }
    match spec.load {
        Load::Closed { clients, .. } => enough("clients", u64::from(clients)),
        Load::Open { in_flight_max, .. } | Load::Varying { in_flight_max, .. } => {
            enough("requests in flight", u64::from(in_flight_max))
        }
    }
}

/// Requests that are sent again.
fn retries(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 => {
            "once, if a reused connection closes before a byte of the response; not POST, PATCH"
        }
        Protocol::Http2 { .. } => {
            "once, if the server says that it left the request out, or if a reused connection breaks \
             before a byte of the response; the latter not POST, PATCH"
        }
    }
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

/// The header fields of a request beyond those that follow from the protocol, in their order.
fn fields(spec: &PlanSpec, request: &Request) -> Vec<(String, String)> {
    let own =
        |wanted: &str| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let common =
        |wanted: &str| spec.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let mut fields = Vec::new();
    if let Some(authorization) = &spec.target.authorization
        && !own("authorization")
        && !common("authorization")
    {
        fields.push(("Authorization".to_owned(), authorization.clone()));
    }
    let common = spec.headers.iter().filter(|(name, _)| !own(name));
    fields.extend(common.chain(&request.headers).cloned());
    if request.method.has_length() || !request.body.is_empty() {
        fields.push(("Content-Length".to_owned(), request.body.len().to_string()));
    }
    fields
}

/// A request as HTTP/2 has it.
fn form(spec: &PlanSpec, request: &Request) -> Result<Form, PlanError> {
    let cannot = |what: String| {
        PlanError::Requests(format!("`{}` cannot be sent by HTTP/2: {what}", request.class))
    };
    let scheme = if spec.target.scheme == Scheme::Https { "https" } else { "http" };
    let uri = http::Uri::builder()
        .scheme(scheme)
        .authority(spec.target.authority())
        .path_and_query(request.path.as_str());
    let uri = uri.build().map_err(|error| {
        cannot(format!("the path `{}` is none ({error}); write it percent-encoded", request.path))
    })?;
    let mut builder = http::Request::builder().method(request.method.name()).uri(uri);
    for (name, value) in fields(spec, request) {
        if OF_CONNECTION.contains(&name.to_ascii_lowercase().as_str()) {
            let text = format!("the header `{name}` is one of HTTP/1's connections; leave it out");
            return Err(cannot(text));
        }
        builder = builder.header(name, value);
    }
    let made = builder.body(()).map_err(|error| cannot(error.to_string()))?;
    let body = Bytes::from_owner(Arc::clone(&request.body));
    Ok(Form { head: made.into_parts().0, body })
}

/// Header fields that HTTP/2 does not have (RFC 9113, section 8.2.2), beside those that are the engine's own.
const OF_CONNECTION: [&str; 4] = ["keep-alive", "proxy-connection", "upgrade", "te"];

fn render(spec: &PlanSpec, request: &Request) -> Box<[u8]> {
    let (method, path) = (request.method.name(), &request.path);
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", spec.target.authority());
    for (name, value) in fields(spec, request) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if spec.connections == Connections::PerRequest {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes.into()
}

/// Everything in force that has no field of its own in the record.
fn settings(spec: &PlanSpec) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| drop(settings.insert(name.to_owned(), value));
    let keep_alive = spec.connections == Connections::KeepAlive;
    set("keep-alive", if keep_alive { "on" } else { "off" }.into());
    if let Protocol::Http2 { streams_max } = spec.protocol {
        set("http-version", "2".into());
        set("streams-max", streams_max.to_string());
    }
    set("closing", if spec.closing == Closing::Fin { "fin" } else { "rst" }.into());
    set("idle", if spec.idle == Idle::Sleep { "sleep" } else { "spin" }.into());
    let order = match &spec.order {
        Order::Deck => "deck",
        Order::Random => "random",
        Order::Listed(_) => "listed",
    };
    set("draw", order.into());
    let made = |method: &Method| spec.requests.iter().any(|request| request.method == *method);
    let methods: Vec<&str> =
        Method::ALL.iter().filter(|one| made(one)).map(|one| one.name()).collect();
    set("method", methods.join(","));
    set("threads", spec.threads.to_string());
    if !spec.cpus.is_empty() {
        let cpus: Vec<String> = spec.cpus.iter().map(usize::to_string).collect();
        set("cpus", cpus.join(","));
    }
    set("interval", format!("{:?}", spec.interval));
    set("connect-max", format!("{:?}", spec.connect_max));
    set("response-max", format!("{:?}", spec.response_max));
    set("lost-after", format!("{:?}", spec.lost_after));
    set("retry", retries(spec.protocol).into());
    if let Some(bytes) = spec.receive_buffer {
        set("receive-buffer", format!("{bytes}B"));
    }
    if let Load::Closed { think, .. } = spec.load
        && think != Dist::Constant(0.0)
    {
        set("think", format!("{think:?}"));
    }
    // Names only: a value may be a secret.
    let own = spec.requests.iter().flat_map(|request| &request.headers);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in spec.headers.iter().chain(own) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if !names.is_empty() {
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
