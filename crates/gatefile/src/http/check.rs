//! Contradictions of a configuration of the gate for HTTP, with itself or with the machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use advise::{DisciplineEntry, RouterEntry, Span, Unreachable};
use gate::{GateSpec, KeyOf, ServerSpec};

use super::super::Files;
use super::super::check::{Contradiction, STEPS_MAX};
use super::super::convert::SPAN_MAX;
use super::super::values::{Slots, Timeout};
use super::config::{HttpFile, HttpKey};
use super::to_httpgate::{OTHER, gate};

/// The most slots of a server; each costs memory.
const SLOTS_MAX: u32 = 1 << 20;
/// A job's id has 24 bits for the place of its connection.
const CONNECTIONS_MAX: u64 = (1 << 24) - 1;

/// A number of the file by its path, the least and the most that it may be.
pub(crate) type Range = (&'static str, fn(&HttpFile) -> u64, u64, u64);

/// Ranges of numbers, which the schema has from here.
pub(crate) const RANGES: [Range; 12] = [
    ("limits.connections", |file| file.limits.connections.into(), 1, CONNECTIONS_MAX),
    ("limits.head", |file| file.limits.head.0, 256, 1 << 20),
    ("limits.buffer", |file| file.limits.buffer.0, 4096, 1 << 26),
    ("connections.kept-max", |file| file.connections.kept_max.into(), 0, 1 << 16),
    ("pool.slots", |file| slots(file).into(), 0, SLOTS_MAX as u64),
    ("pool.reserve", |file| file.pool.reserve.into(), 0, SLOTS_MAX as u64),
    ("record.steps-max", |file| file.record.as_ref().map_or(1, |one| one.steps_max), 1, STEPS_MAX),
    ("pool.room", |file| file.pool.room, 0, CONNECTIONS_MAX),
    ("auto.floor", |file| file.auto.floor.into(), 1, SLOTS_MAX as u64),
    ("auto.ceiling", |file| file.auto.ceiling.into(), 1, SLOTS_MAX as u64),
    ("health.failures-max", |file| file.health.failures_max.into(), 1, 1 << 16),
    ("health.successes-min", |file| file.health.successes_min.into(), 1, 1 << 16),
];

fn slots(file: &HttpFile) -> u32 {
    file.pool.slots.and_then(Slots::number).unwrap_or(0)
}

/// A time of the file by its path.
pub(crate) type Time = (&'static str, fn(&HttpFile) -> Span);

/// Times that mean nothing at 0, which the schema has from here.
pub(crate) const ABOVE_ZERO: [Time; 12] = [
    ("pool.wait-max", |file| file.pool.wait_max),
    ("pool.reserve-after", |file| or_any(file.pool.reserve_after)),
    ("pool.early-rejection", |file| or_any(file.pool.early_rejection)),
    ("health.interval", |file| file.health.interval),
    ("health.timeout", |file| file.health.timeout),
    ("connections.idle", |file| file.connections.idle),
    ("timeouts.head", |file| file.timeouts.head),
    ("timeouts.client-idle", |file| file.timeouts.client_idle),
    ("timeouts.connect", |file| file.timeouts.connect),
    ("timeouts.response", |file| file.timeouts.response),
    ("timeouts.stalled", |file| file.timeouts.stalled),
    ("timeouts.hold", |file| file.timeouts.hold),
];

/// Times that may be 0.
const MAY_BE_ZERO: [Time; 4] = [
    ("pool.unreachable", |file| match file.pool.unreachable {
        Unreachable::AtMost(span) => span,
        Unreachable::Wait | Unreachable::Refuse => Span(0.0),
    }),
    ("timeouts.abandoned", |file| file.timeouts.abandoned),
    ("timeouts.drain-delay", |file| file.timeouts.drain_delay),
    ("timeouts.drain", |file| file.timeouts.drain),
];

/// The time, or one that is right where there is none.
fn or_any(timeout: Timeout) -> Span {
    timeout.span().unwrap_or(Span(1.0))
}

/// All that cannot be; empty if a gate can start with it.
pub(super) fn check(file: &HttpFile, files: &dyn Files) -> Vec<Contradiction> {
    let mut found = Found { all: Vec::new() };
    found.addresses(file);
    found.servers(file, files);
    found.numbers(file);
    found.times(file);
    found.classes(file);
    found.files(file, files);
    found.policies(file);
    found.all
}

struct Found {
    all: Vec<Contradiction>,
}

/// True if a text is a port with the host before it.
fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Found {
    fn add(&mut self, path: impl Into<String>, cause: impl Into<String>) {
        self.all.push(Contradiction { path: path.into(), cause: cause.into() });
    }

    fn addresses(&mut self, file: &HttpFile) {
        match &file.listen[..] {
            [] => self.add("listen", "nobody can connect; say `listen = [\"127.0.0.1:8080\"]`"),
            [_] => {}
            _ => {
                self.add("listen.1", "the gate for HTTP listens on one address; remove the others")
            }
        }
        for (at, address) in file.listen.iter().enumerate() {
            if !is_address(address) {
                let cause = format!("`{address}` is no address such as \"127.0.0.1:8080\"");
                self.add(format!("listen.{at}"), cause);
            }
        }
        if let Some(address) = &file.admin.http {
            if !is_address(address) {
                let cause = format!("`{address}` is no address such as \"127.0.0.1:9187\"");
                self.add("admin.http", cause);
            } else if file.listen.contains(address) && !address.ends_with(":0") {
                self.add("admin.http", format!("`{address}` is that of the clients; name another"));
            }
        }
    }

    fn servers(&mut self, file: &HttpFile, files: &dyn Files) {
        if file.server.is_empty() {
            let way = "say `[[server]]` with `host = \"127.0.0.1\"` and `port = 9000`";
            self.add("server", format!("there is no server behind the gate; {way}"));
        }
        let goes_by_weights = match &file.router {
            Some(RouterEntry::Weighted { weights, .. }) => weights.is_empty(),
            _ => false,
        };
        let routed = match &file.router {
            Some(RouterEntry::ByKey { of, .. }) => *of != Some(KeyOf::Class),
            _ => false,
        };
        let cached = matches!(file.discipline, Some(DisciplineEntry::Cohort { .. }));
        if file.key != HttpKey::Path && !routed && !cached {
            self.add("key", "nothing looks at it; say `router = { by-key = {} }` or remove it");
        }
        for (at, server) in file.server.iter().enumerate() {
            let path = format!("server.{at}");
            if server.weight != 1 && !goes_by_weights {
                let cause = "nothing looks at it; say `router = \"weighted\"` without `weights`, or \
                             remove it";
                self.add(format!("{path}.weight"), cause);
            }
            if server.port == 0 {
                self.add(format!("{path}.port"), "no server listens on port 0; say 1 to 65535");
            }
            if server.host.contains("://") || server.host.contains('/') {
                let cause = format!("`{}` is a URL; name the host alone", server.host);
                self.add(format!("{path}.host"), cause);
            } else if let Err(why) = files.address(&server.host, server.port) {
                let cause = format!("there is no host {}: {why}", server.host);
                self.add(format!("{path}.host"), cause);
            }
            match (server.slots, file.pool.slots) {
                (None, None) => {
                    self.add(path, "it has no slots; say `pool.slots`, or `slots` here");
                }
                (Some(_), Some(Slots::Auto)) => {
                    let cause = "`pool.slots = \"auto\"` is for all servers; remove this";
                    self.add(format!("{path}.slots"), cause);
                }
                (Some(slots), _) if slots > SLOTS_MAX => {
                    let cause = format!("{slots} is not possible, only 0 to {SLOTS_MAX}");
                    self.add(format!("{path}.slots"), cause);
                }
                _ => {}
            }
        }
        let some = file.server.iter().any(|server| match (server.slots, file.pool.slots) {
            (Some(slots), _) | (None, Some(Slots::Fixed(slots))) => slots > 0,
            _ => true,
        });
        if !some && file.admin.http.is_none() && !file.server.is_empty() {
            let cause = "0 slots let nobody in, and without `admin.http` nobody can change that";
            self.add("pool.slots", cause);
        }
    }

    fn numbers(&mut self, file: &HttpFile) {
        let auto = &file.auto;
        for (path, value, least, most) in RANGES {
            let value = value(file);
            if !(least..=most).contains(&value) {
                self.add(path, format!("{value} is not possible, only {least} to {most}"));
            }
        }
        if auto.floor > auto.ceiling {
            let cause = format!("the floor {} is above the ceiling {}", auto.floor, auto.ceiling);
            self.add("auto.floor", format!("{cause}; lower it"));
        }
        if file.log.query && file.log.access.is_none() {
            self.add("log.query", "there is no access log; say `log.access`, or remove this");
        }
    }

    fn times(&mut self, file: &HttpFile) {
        let positive = ABOVE_ZERO.map(|(path, span)| (path, span(file)));
        let any = MAY_BE_ZERO.map(|(path, span)| (path, span(file)));
        for (path, span) in positive {
            if span.0 <= 0.0 {
                self.add(path, "it is no time at all; give one above 0");
            }
        }
        for (path, span) in positive.into_iter().chain(any) {
            if span.0 > SPAN_MAX {
                self.add(path, "it is longer than ten years; give a shorter one");
            }
        }
    }

    fn classes(&mut self, file: &HttpFile) {
        let most = httpgate::CLASSES_MAX;
        if file.class.len() > most {
            let cause = format!("there are {} classes, and {most} at most", file.class.len());
            self.add(format!("class.{most}"), cause);
        }
        let mut names = BTreeSet::from([OTHER]);
        for (at, class) in file.class.iter().enumerate() {
            let path = format!("class.{at}");
            if class.name.is_empty() {
                self.add(format!("{path}.name"), "it has no name; say one");
            } else if !names.insert(&class.name) {
                let cause = match &*class.name {
                    OTHER => {
                        "`other` are the requests that no class holds; name it otherwise".into()
                    }
                    name => format!("`{name}` stands there twice; name one otherwise"),
                };
                self.add(format!("{path}.name"), cause);
            }
            if class.path.is_none() && class.method.is_empty() && class.header.is_empty() {
                self.add(
                    &path,
                    "it names nothing that a request must have; say path, method or header",
                );
            }
            if let Some(text) = class.path.as_ref().filter(|path| !path.starts_with(['/', '*'])) {
                self.add(format!("{path}.path"), format!("`{text}` does not begin with /"));
            }
            if class.path.as_ref().is_some_and(|path| path.contains('?')) {
                let cause = "the query is not compared; end before the `?`";
                self.add(format!("{path}.path"), cause);
            }
            if let Some(method) = class.method.iter().find(|method| !METHODS.contains(&&***method))
            {
                let cause = format!("`{method}` is not served; there are {}", METHODS.join(", "));
                self.add(format!("{path}.method"), cause);
            }
            if let Some(name) = class.header.keys().find(|name| !is_token(name)) {
                let cause = format!("`{name}` is no name of a field");
                self.add(format!("{path}.header"), cause);
            }
            if class.priority > 0 && !looks_at_priorities(file) {
                self.add(format!("{path}.priority"), NO_PRIORITIES);
            }
            if class.size == Some(0) {
                self.add(format!("{path}.size"), "0 is no size; leave it out if nobody knows");
            }
            if class.deadline.is_some_and(|span| span.0 <= 0.0 || span.0 > SPAN_MAX) {
                self.add(format!("{path}.deadline"), "give a time above 0 and below ten years");
            }
        }
    }

    fn files(&mut self, file: &HttpFile, files: &dyn Files) {
        if let Some(tls) = &file.tls.clients {
            for (path, name) in [("tls.clients.cert", &tls.cert), ("tls.clients.key", &tls.key)] {
                if let Err(cause) = files.stands(Path::new(name)) {
                    self.add(path, format!("cannot read {name}: {cause}"));
                }
            }
        }
    }

    fn policies(&mut self, file: &HttpFile) {
        if file.server.is_empty() {
            return;
        }
        let spec = GateSpec {
            servers: vec![ServerSpec { slots: 1 }; file.server.len()],
            room: Some(0),
            wait_max: Some(Duration::from_secs(1)),
            ..GateSpec::fifo(1)
        };
        if let Err(cause) = gate(file, spec) {
            let path = match (&file.router, &file.discipline) {
                (Some(_), _) => "router",
                (None, Some(_)) => "discipline",
                (None, None) => "server",
            };
            self.add(path, cause);
        }
    }
}

/// The methods that the gate serves.
pub(crate) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

const NO_PRIORITIES: &str = "nothing looks at it; say `discipline = \"priority\"` or remove it";

fn looks_at_priorities(file: &HttpFile) -> bool {
    file.discipline.as_ref().is_some_and(DisciplineEntry::has_priorities)
}

/// True if a text may be the name of a field (RFC 9110 section 5.6.2).
fn is_token(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(letter)
}
