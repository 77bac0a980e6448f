//! The configuration of the gate for HTTP as the gate that runs is told it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use advise::{Policies, RouterEntry, Span};
use gate::{Conduct, EarlyRejection, GateSpec, Queues, Reserve, ServerSpec};
use httpgate::{
    AccessLog, Auto, Class, Config, Field, Forwarded, Health, Key, Limits, LoggedTarget, Probe,
    Text, Timeouts, Tls,
};

use super::super::config::QueuesName;
use super::super::values::{Slots, Timeout};
use super::super::{FileError, Files};
use super::config::{ForwardedName, HttpClass, HttpFile, HttpKey};

/// The class of requests that no class holds.
pub(super) const OTHER: &str = "other";

/// The gate that a file describes, which was read without an error.
///
/// # Errors
/// If a host has no address, or the policies do not fit together.
pub fn to_httpgate(file: &HttpFile, files: &dyn Files) -> Result<Config, FileError> {
    let listen = address(files, file.listen.first().map_or("", |address| address))?;
    let servers = file.server.iter().map(|server| {
        let found = files.address(&server.host, server.port);
        found.map_err(|why| FileError::new(format!("there is no host {}: {why}", server.host)))
    });
    let servers = servers.collect::<Result<Vec<SocketAddr>, FileError>>()?;
    let mut config = Config::new(listen, servers, 1);
    config.auto = auto(file);
    let slots = |own: Option<u32>| match (own, file.pool.slots, &config.auto) {
        (_, _, Some(auto)) => auto.start(),
        (Some(slots), ..) | (None, Some(Slots::Fixed(slots)), _) => slots,
        (None, ..) => 0,
    };
    let servers = file.server.iter().map(|server| ServerSpec { slots: slots(server.slots) });
    let wait_max = span(file.pool.wait_max);
    let spec = GateSpec {
        servers: servers.collect(),
        room: Some(file.pool.room),
        wait_max: Some(wait_max),
        unreachable_max: file.pool.unreachable.limit(Some(wait_max)),
        ..config.gate
    };
    config.gate = gate(file, spec).map_err(FileError::new)?;
    config.classes = file.class.iter().map(class).collect();
    config.key = match file.key {
        HttpKey::Path => Key::Path,
        HttpKey::Client => Key::Client,
    };
    config.timeouts = timeouts(file);
    config.limits = Limits {
        connections: file.limits.connections as usize,
        head: file.limits.head.0 as usize,
        buffer: file.limits.buffer.0 as usize,
        pool: file.connections.kept_max as usize,
    };
    let health = &file.health;
    config.health = Health {
        probe: health.path.clone().map_or(Probe::Connect, Probe::Get),
        interval: span(health.interval),
        timeout: span(health.timeout),
        fall: health.failures_max,
        rise: health.successes_min,
    };
    let tls = file.tls.clients.as_ref();
    config.tls = tls.map(|tls| Tls { cert: (&tls.cert).into(), key: (&tls.key).into() });
    config.admin = file.admin.http.as_ref().map(|http| address(files, http)).transpose()?;
    config.access_log = file.log.access.as_ref().map(|name| access_log(name, file.log.query));
    config.record_max = file.record.as_ref().map_or(0, |record| record.steps_max as usize);
    config.forwarded = match file.forwarded {
        ForwardedName::Replace => Forwarded::Replace,
        ForwardedName::Append => Forwarded::Append,
    };
    Ok(config)
}

/// The access log of this name.
fn access_log(name: &str, query: bool) -> AccessLog {
    let target = if query { LoggedTarget::PathAndQuery } else { LoggedTarget::Path };
    AccessLog { target, ..AccessLog::named(Path::new(name)) }
}

fn span(span: Span) -> Duration {
    Duration::from_secs_f64(span.0)
}

fn address(files: &dyn Files, name: &str) -> Result<SocketAddr, FileError> {
    let wrong = |why: &str| FileError::new(format!("there is no address {name}: {why}"));
    let (host, port) = name.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
    let port = port.parse().map_err(|_| wrong("its port is no number"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host == "*" { "0.0.0.0" } else { host };
    files.address(host, port).map_err(|why| wrong(&why))
}

fn auto(file: &HttpFile) -> Option<Auto> {
    let (floor, ceiling) = (file.auto.floor, file.auto.ceiling);
    let conduct = if file.auto.shadow { Conduct::Shadows } else { Conduct::Acts };
    let is_auto = file.pool.slots == Some(Slots::Auto);
    is_auto.then(|| Auto { floor, ceiling, conduct, ..Auto::default() })
}

fn class(entry: &HttpClass) -> Class {
    let field =
        |(name, value): (&String, &String)| Field { name: name.clone(), value: Text::parse(value) };
    Class {
        name: entry.name.clone(),
        path: entry.path.as_deref().map(Text::parse),
        methods: entry.method.clone(),
        fields: entry.header.iter().map(field).collect(),
        priority: entry.priority,
        size: entry.size.unwrap_or(0),
        wait_max: entry.deadline.map(span),
    }
}

fn timeouts(file: &HttpFile) -> Timeouts {
    let of = &file.timeouts;
    Timeouts {
        head: span(of.head),
        idle: span(of.client_idle),
        connect: span(of.connect),
        response: span(of.response),
        stall: span(of.stalled),
        hold: span(of.hold),
        abandoned: span(of.abandoned),
        pool_idle: span(file.connections.idle),
        drain_delay: span(of.drain_delay),
        drain: span(of.drain),
    }
}

/// The gate with the policies of the file, beside what `gate` says of slots and waits.
///
/// # Errors
/// What does not fit together, and the way out.
pub(super) fn gate(file: &HttpFile, gate: GateSpec) -> Result<GateSpec, String> {
    let router = match file.router.clone() {
        Some(RouterEntry::Weighted { weights, order }) if weights.is_empty() => {
            let weights = file.server.iter().map(|server| server.weight).collect();
            Some(RouterEntry::Weighted { weights, order })
        }
        router => router,
    };
    let policies = Policies {
        discipline: file.discipline.clone(),
        router,
        length: file.length,
        ties: file.ties,
        load_information: file.load_information,
    };
    let pool = &file.pool;
    let reserve = pool.reserve.div_ceil(file.server.len().max(1) as u32);
    let after = |timeout: Timeout| timeout.span().map(span);
    let spec = GateSpec {
        queues: match file.queues {
            QueuesName::Shared => Queues::Shared,
            QueuesName::PerServer => Queues::PerServer,
        },
        reserve: after(pool.reserve_after)
            .filter(|_| reserve > 0)
            .map(|after| Reserve { slots: reserve, after }),
        early_rejection: after(pool.early_rejection).map(|memory| EarlyRejection { memory }),
        ..gate
    };
    let names: Vec<&str> =
        std::iter::once(OTHER).chain(file.class.iter().map(|class| &*class.name)).collect();
    policies.at(spec, &names)
}
