//! Contradictions of a configuration, with itself or with the machine: each with its key.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use advise::{DisciplineEntry, LoadInformationEntry, RouterEntry, Span, Unreachable};
use gate::{GateSpec, KeyOf, ServerSpec};
use monitor::CLASSES_MAX;

use super::Files;
use super::config::{
    ClassEntry, Database, GateFile, Health, Method, Mode, Role, Tls, TlsMode, User,
};
use super::convert::SPAN_MAX;
use super::jobs::{self, NO_FINGERPRINT, NO_TAG};
use super::policies::{self, OTHER, has_one_queue, has_texts};
use super::values::{Slots, Timeout};

/// The most slots of a pool; each costs memory.
const SLOTS_MAX: u32 = 1 << 20;
/// A job's id has 24 bits for the place of its connection.
const CONNECTIONS_MAX: u32 = (1 << 24) - 1;

/// Most steps of a recording: they are in memory until its end.
pub(crate) const STEPS_MAX: u64 = 100_000_000;

/// A number of the file by its path, the least and the most that it may be.
type Range = (&'static str, fn(&GateFile) -> u64, u64, u64);

/// Ranges of numbers, which the schema has from here.
pub(super) const RANGES: [Range; 12] = [
    ("workers", |file| file.workers.into(), 1, 64),
    ("limits.connections", |file| file.limits.connections.into(), 1, CONNECTIONS_MAX as u64),
    (
        "limits.login-connections",
        |file| file.limits.login_connections.unwrap_or(1).into(),
        1,
        CONNECTIONS_MAX as u64,
    ),
    ("limits.message", |file| file.limits.message.0, 1024, u32::MAX as u64),
    ("limits.statements", |file| file.limits.statements.into(), 1, 1 << 20),
    ("limits.backlog", |file| file.limits.backlog.into(), 1, 1 << 16),
    ("pool.room", |file| file.pool.room, 0, CONNECTIONS_MAX as u64),
    ("record.steps-max", |file| file.record.as_ref().map_or(1, |one| one.steps_max), 1, STEPS_MAX),
    ("auto.floor", |file| file.auto.floor.into(), 1, SLOTS_MAX as u64),
    ("auto.ceiling", |file| file.auto.ceiling.into(), 1, SLOTS_MAX as u64),
    ("auth.scram-iterations", |file| file.auth.scram_iterations.into(), 1, 10_000_000),
    ("health.failures-max", |file| file.health.as_ref().map_or(1, failures_max), 1, 1000),
];

fn failures_max(health: &Health) -> u64 {
    health.failures_max.into()
}

/// A time of the file by its path; none if it is not said, or off.
type Time = (&'static str, fn(&GateFile) -> Option<Span>);

/// Times that mean nothing at 0, which the schema has from here.
pub(super) const TIMES: [Time; 22] = [
    ("pool.wait-max", |file| Some(file.pool.wait_max)),
    ("timeouts.login", |file| Some(file.timeouts.login)),
    ("timeouts.connect", |file| Some(file.timeouts.connect)),
    ("timeouts.cancel", |file| Some(file.timeouts.cancel)),
    ("timeouts.query", |file| file.timeouts.query.span()),
    ("timeouts.transaction", |file| file.timeouts.transaction.span()),
    ("timeouts.idle-transaction", |file| file.timeouts.idle_transaction.span()),
    ("timeouts.client-idle", |file| file.timeouts.client_idle.span()),
    ("timeouts.stalled", |file| file.timeouts.stalled.span()),
    ("timeouts.wait-notice", |file| file.timeouts.wait_notice.span()),
    ("timeouts.drain", |file| Some(file.timeouts.drain)),
    ("pool.early-rejection", |file| file.pool.early_rejection.span()),
    ("connections.idle", |file| file.connections.idle.span()),
    ("connections.autodb-idle", |file| file.connections.autodb_idle.span()),
    ("pool.reserve-after", |file| file.pool.reserve_after.span()),
    ("admin.stats-period", |file| Some(file.admin.stats_period)),
    ("tcp.keepalive-idle", |file| file.tcp.keepalive_idle),
    ("tcp.keepalive-interval", |file| file.tcp.keepalive_interval),
    ("tcp.unacknowledged", |file| file.tcp.unacknowledged),
    ("health.interval", |file| file.health.as_ref().map(|health| health.interval)),
    ("health.timeout", |file| file.health.as_ref().map(|health| health.timeout)),
    ("health.lag-max", |file| file.health.as_ref().and_then(|health| health.lag_max.span())),
];

/// A time of a user by its key.
type UserTime = (&'static str, fn(&User) -> Option<Span>);

/// Times of a user, above 0 too.
pub(super) const USER_TIMES: [UserTime; 5] = [
    ("wait-max", |user| user.wait_max),
    ("query", |user| user.query.and_then(Timeout::span)),
    ("transaction", |user| user.transaction.and_then(Timeout::span)),
    ("idle-transaction", |user| user.idle_transaction.and_then(Timeout::span)),
    ("client-idle", |user| user.client_idle.and_then(Timeout::span)),
];

/// A time of the file that is always said, by its path.
type SureTime = (&'static str, fn(&GateFile) -> Span);

/// Times that may be 0: at once.
const TIMES_FROM_ZERO: [SureTime; 5] = [
    ("connections.lifetime", |file| file.connections.lifetime),
    ("connections.check-after", |file| file.connections.check_after),
    ("connections.retry", |file| file.connections.retry),
    ("pool.own-writes", |file| file.pool.own_writes),
    ("timeouts.drain-delay", |file| file.timeouts.drain_delay),
];

/// Something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key, `database.0.slots` for instance: names with points, places of a list from 0.
    pub path: String,
    /// The fault, and the way out.
    pub cause: String,
}

/// All that cannot be; empty if a gate can start with it.
pub(super) fn check(file: &GateFile, files: &dyn Files) -> Vec<Contradiction> {
    let mut found = Found { all: Vec::new() };
    found.listen(file);
    found.auth(file);
    found.tls("tls.clients", &file.tls.clients, file);
    found.tls("tls.servers", &file.tls.servers, file);
    found.files(file, files);
    found.numbers(file);
    found.times(file);
    found.databases(file);
    found.users(file);
    found.classes(&file.class, file);
    found.policies(file);
    found.blind(file);
    found.key(file);
    found.health(file);
    found.all
}

/// True if an address `host:port` is of this machine alone.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

struct Found {
    all: Vec<Contradiction>,
}

impl Found {
    fn add(&mut self, path: impl Into<String>, cause: impl Into<String>) {
        self.all.push(Contradiction { path: path.into(), cause: cause.into() });
    }

    fn listen(&mut self, file: &GateFile) {
        let mut known = BTreeSet::new();
        for (index, address) in file.listen.iter().chain(&file.admin.http).enumerate() {
            let path = match index < file.listen.len() {
                true => format!("listen.{index}"),
                false => "admin.http".into(),
            };
            let port = address.rsplit_once(':').and_then(|(host, port)| {
                (!host.is_empty()).then(|| port.parse::<u16>().ok()).flatten()
            });
            if port.is_none() {
                self.add(&path, format!("`{address}` is no address such as \"127.0.0.1:6432\""));
            } else if port != Some(0) && !known.insert(address) {
                self.add(&path, format!("`{address}` stands there twice; remove one"));
            }
        }
        let Some(socket) = &file.unix_socket else { return };
        if socket.directory.is_empty() {
            self.add("unix-socket.directory", "the directory has no name; say one");
        }
        let mode = u32::from_str_radix(&socket.mode, 8).ok().filter(|mode| *mode <= 0o777);
        if mode.is_none() || socket.mode.starts_with('+') {
            let cause = format!("`{}` is no mode such as \"0777\"", socket.mode);
            self.add("unix-socket.mode", cause);
        }
    }

    fn auth(&mut self, file: &GateFile) {
        let auth = &file.auth;
        let remote = file.listen.iter().find(|address| !is_loopback(address));
        if let (Method::Trust | Method::Any, Some(remote), false) =
            (auth.method, remote, auth.trust_remote)
        {
            self.add(
                "auth.method",
                format!(
                    "everybody who reaches {remote} is believed; use `scram-sha-256`, listen on \
                     127.0.0.1, or say `trust-remote = true` in the table `auth`"
                ),
            );
        }
        let knows_users = auth.users_file.is_some()
            || auth.query_user.is_some()
            || file.database.iter().any(|database| database.query_user.is_some());
        let by_secret = matches!(auth.method, Method::Plain | Method::Md5 | Method::ScramSha256);
        if by_secret && !knows_users {
            let cause = "there are no users: say `auth.users-file` or `auth.query-user`";
            self.add("auth.method", cause);
        }
        if auth.method == Method::Hba && auth.hba_file.is_none() {
            self.add("auth.method", "`hba` needs `auth.hba-file`; say it");
        }
        if auth.hba_file.is_some() && auth.method != Method::Hba {
            let cause = "the file decides nothing; say `method = \"hba\"` or remove it";
            self.add("auth.hba-file", cause);
        }
        if auth.ident_file.is_some() && auth.method != Method::Hba {
            let cause = "lines of the HBA file name its maps; say `method = \"hba\"` or remove it";
            self.add("auth.ident-file", cause);
        }
        let verifies = matches!(file.tls.clients.mode, TlsMode::VerifyCa | TlsMode::VerifyFull);
        if auth.method == Method::Cert && !verifies {
            let cause = "`cert` needs `tls.clients.mode = \"verify-ca\"`; say it";
            self.add("auth.method", cause);
        }
        if auth.method == Method::Any {
            for (index, database) in file.database.iter().enumerate() {
                if database.user.is_none() {
                    let cause = "with the method `any` each database has a `user`; say it";
                    self.add(format!("database.{index}"), cause);
                }
            }
        }
        let names: BTreeSet<&str> = file.database.iter().map(|one| &*one.name).collect();
        let databases =
            file.database.iter().enumerate().map(|(index, one)| {
                (format!("database.{index}.query-database"), &one.query_database)
            });
        let asked = [("auth.query-database".to_owned(), &auth.query_database)];
        for (path, database) in asked.into_iter().chain(databases) {
            if let Some(database) = database
                && !names.contains(&**database)
                && !names.contains("*")
            {
                let cause = format!("there is no database `{database}`; add it or name another");
                self.add(path, cause);
            }
        }
    }

    fn tls(&mut self, path: &str, tls: &Tls, file: &GateFile) {
        let is_client_side = std::ptr::eq(tls, &file.tls.clients);
        if tls.cert.is_some() != tls.key.is_some() {
            let cause = "`cert` and `key` belong together; say both or none";
            self.add(path, cause);
        }
        if is_client_side && tls.mode != TlsMode::Disable && tls.cert.is_none() {
            let cause = "encryption towards clients needs a `cert` and its `key`; say them";
            self.add(format!("{path}.mode"), cause);
        }
        if matches!(tls.mode, TlsMode::VerifyCa | TlsMode::VerifyFull) && tls.ca.is_none() {
            let cause = "certificates are verified against `ca`; say it";
            self.add(format!("{path}.mode"), cause);
        }
    }

    fn files(&mut self, file: &GateFile, files: &dyn Files) {
        let (auth, tls) = (&file.auth, &file.tls);
        let named = [
            ("auth.users-file", &auth.users_file),
            ("auth.hba-file", &auth.hba_file),
            ("auth.ident-file", &auth.ident_file),
            ("tls.clients.cert", &tls.clients.cert),
            ("tls.clients.key", &tls.clients.key),
            ("tls.clients.ca", &tls.clients.ca),
            ("tls.servers.cert", &tls.servers.cert),
            ("tls.servers.key", &tls.servers.key),
            ("tls.servers.ca", &tls.servers.ca),
        ];
        for (path, name) in named {
            if let Some(name) = name
                && let Err(cause) = files.stands(Path::new(name))
            {
                self.add(path, format!("cannot use {name}: {cause}"));
            }
        }
    }

    fn numbers(&mut self, file: &GateFile) {
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
        let pool = &file.pool;
        self.slots(
            "pool",
            file,
            &Numbers {
                slots: Some(pool.slots),
                slots_kept: Some(pool.slots_kept),
                reserve: Some(pool.reserve),
            },
        );
    }

    /// Agreement of slots, the connections kept and the reserve. A maximum over several pools may
    /// be less than one of them: then it is what bounds.
    fn slots(&mut self, path: &str, file: &GateFile, numbers: &Numbers) {
        let (pool, auto) = (&file.pool, &file.auto);
        let slots = match numbers.slots.unwrap_or(pool.slots) {
            Slots::Fixed(slots) => slots,
            Slots::Auto => auto.ceiling,
        };
        let reserve = numbers.reserve.unwrap_or(pool.reserve);
        let own = match numbers.slots {
            Some(_) => format!("{path}.slots"),
            None => path.to_owned(),
        };
        if slots == 0 {
            self.add(&own, "0 slots let nobody in; give at least 1");
        }
        if u64::from(slots) + u64::from(reserve) > SLOTS_MAX.into() {
            self.add(&own, format!("more than {SLOTS_MAX} slots are not possible"));
            return;
        }
        if let Some(kept) = numbers.slots_kept.filter(|kept| *kept > slots) {
            let cause = format!("{kept} connections are kept of {slots} slots; keep fewer");
            self.add(format!("{path}.slots-kept"), cause);
        }
    }

    fn times(&mut self, file: &GateFile) {
        let pool = &file.pool;
        let mut spans: Vec<(String, Option<Span>)> =
            TIMES.map(|(path, span)| (path.to_owned(), span(file))).into();
        for (index, database) in file.database.iter().enumerate() {
            spans.push((format!("database.{index}.wait-max"), database.wait_max));
        }
        for (index, user) in file.user.iter().enumerate() {
            let of = |(key, span): UserTime| (format!("user.{index}.{key}"), span(user));
            spans.extend(USER_TIMES.map(of));
        }
        for (index, class) in file.class.iter().enumerate() {
            spans.push((format!("class.{index}.deadline"), class.deadline));
        }
        // Of these, 0 has a meaning: at once.
        let mut may_be_zero: Vec<(String, Option<Span>)> =
            TIMES_FROM_ZERO.map(|(path, span)| (path.to_owned(), Some(span(file)))).into();
        if let Unreachable::AtMost(span) = pool.unreachable {
            may_be_zero.push(("pool.unreachable".to_owned(), Some(span)));
        }
        for (index, database) in file.database.iter().enumerate() {
            may_be_zero.push((format!("database.{index}.lifetime"), database.lifetime));
        }
        for (path, span) in spans.iter().filter_map(|(path, span)| Some((path, (*span)?))) {
            if span.0 <= 0.0 {
                self.add(path, "a time of 0 lets nothing happen; give a longer one");
            }
        }
        for (path, span) in spans.into_iter().chain(may_be_zero) {
            if span.is_some_and(|span| span.0 > SPAN_MAX) {
                self.add(path, "more than ten years; give a shorter time");
            }
        }
    }

    fn databases(&mut self, file: &GateFile) {
        if file.database.is_empty() {
            self.add("database", "there is no database; begin one with `[[database]]`");
        }
        let mut known = BTreeSet::new();
        for (index, database) in file.database.iter().enumerate() {
            let path = format!("database.{index}");
            let name = &database.name;
            if name.is_empty() || name.contains('\0') {
                self.add(format!("{path}.name"), "no database is called so; give it a name");
            }
            if name == "pgbouncer" {
                let cause = "`pgbouncer` is the console's own name; give it another";
                self.add(format!("{path}.name"), cause);
            }
            if !known.insert(name) {
                let cause = format!("database `{name}` stands there twice; remove one");
                self.add(format!("{path}.name"), cause);
            }
            self.servers(&path, database);
            self.pools(&path, database, file);
            if database.password.is_some() && database.user.is_none() {
                let cause = "a `password` is a forced user's; say `user` or remove it";
                self.add(format!("{path}.password"), cause);
            }
            self.slots(
                &path,
                file,
                &Numbers {
                    slots: database.slots,
                    slots_kept: database.slots_kept,
                    reserve: database.reserve,
                },
            );
        }
    }

    /// Agreement of a database's slots, reserve and roles with its mode, router and queues.
    fn pools(&mut self, path: &str, database: &Database, file: &GateFile) {
        let mode = database.mode.unwrap_or(file.pool.mode);
        let slots = database.slots.unwrap_or(file.pool.slots);
        if slots == Slots::Auto && mode == Mode::Session {
            let cause = "`slots = \"auto\"` is not for sessions: how long one is says nothing of the \
                         work; say a number or another `mode`";
            self.add(path, cause);
        }
        let one_queue = has_one_queue(file, database);
        if database.reserve.is_some_and(|slots| slots > 0) && !one_queue {
            let cause = "a reserve needs one queue for all servers; remove it, or say `queues = \
                         \"shared\"` and no `spread = \"stay\"`";
            self.add(format!("{path}.reserve"), cause);
        }
        let has_replicas = database.server.iter().any(|server| server.role == Role::Replica);
        if has_replicas && one_queue && database.server.len() > 1 {
            let cause = "a replica needs a queue for each server: one queue for all sends a job to \
                         whichever server is free; say `queues = \"per-server\"`";
            self.add(format!("{path}.server"), cause);
        }
        let goes_by_weights = match &file.router {
            Some(RouterEntry::Weighted { weights, .. }) => weights.is_empty(),
            _ => false,
        };
        let weighted = database.server.iter().position(|server| server.weight != 1);
        if let Some(at) = weighted.filter(|_| !goes_by_weights) {
            let cause = "nothing looks at it; say `router = \"weighted\"` without `weights`, or \
                         remove it";
            self.add(format!("{path}.server.{at}.weight"), cause);
        }
    }

    fn servers(&mut self, path: &str, database: &Database) {
        let servers = &database.server;
        if servers.is_empty() {
            self.add(format!("{path}.server"), "the database has no server; say one");
            return;
        }
        for (index, server) in servers.iter().enumerate() {
            let path = format!("{path}.server.{index}");
            if server.host.trim().is_empty() {
                self.add(format!("{path}.host"), "the server has no name; say one");
            }
            if server.port == 0 {
                self.add(format!("{path}.port"), "0 is no port; PostgreSQL's is 5432");
            }
        }
        if servers.iter().all(|server| server.role == Role::Replica) {
            let cause = "there are replicas and no primary; give one server `role = \"primary\"`";
            self.add(format!("{path}.server"), cause);
        }
        if servers.iter().all(|server| server.weight == 0) {
            let cause = "every weight is 0; give one server more";
            self.add(format!("{path}.server"), cause);
        }
    }

    fn users(&mut self, file: &GateFile) {
        let mut known = BTreeSet::new();
        for (index, user) in file.user.iter().enumerate() {
            let path = format!("user.{index}");
            let User { name, slots, reserve, .. } = user;
            if name.is_empty() || name.contains('\0') {
                self.add(format!("{path}.name"), "nobody is called so; give a name");
            }
            if !known.insert(name) {
                let cause = format!("user `{name}` stands there twice; remove one");
                self.add(format!("{path}.name"), cause);
            }
            self.slots(
                &path,
                file,
                &Numbers { slots: *slots, slots_kept: None, reserve: *reserve },
            );
            let sought = |slots: Option<Slots>| slots.unwrap_or(file.pool.slots) == Slots::Auto;
            let seeks = match slots {
                None => file.database.iter().any(|database| sought(database.slots)),
                Some(slots) => *slots == Slots::Auto,
            };
            if user.mode == Some(Mode::Session) && seeks {
                let cause = "`slots = \"auto\"` is not for sessions, which this user's are; say a \
                             number in `slots`";
                self.add(format!("{path}.mode"), cause);
            }
            if user.priority.is_some() && !looks_at_priorities(file) {
                self.add(format!("{path}.priority"), NO_PRIORITIES);
            }
        }
    }

    fn classes(&mut self, classes: &[ClassEntry], file: &GateFile) {
        let mut known = BTreeSet::from([OTHER]);
        let databases: BTreeSet<&str> = file.database.iter().map(|one| &*one.name).collect();
        if classes.len() >= CLASSES_MAX {
            let most = CLASSES_MAX - 1;
            self.add("class", format!("more than {most} classes are not possible; merge some"));
        }
        for (index, class) in classes.iter().enumerate() {
            let path = format!("class.{index}");
            let ClassEntry { name, user, database, application_name, tag, fingerprint, .. } = class;
            if name.is_empty() || !known.insert(name) {
                let cause = format!(
                    "`{name}` is empty, or `other`, which is what no class holds, or stands there \
                     twice; give another name"
                );
                self.add(format!("{path}.name"), cause);
            }
            let all = [user, database, application_name, tag, fingerprint];
            if all.iter().all(|one| one.is_none()) {
                let cause = "the class matches nothing in particular; say `user`, `database`, \
                             `application-name`, `tag` or `fingerprint`";
                self.add(&path, cause);
            }
            if tag.as_ref().is_some_and(|tag| !tag.contains('=')) {
                self.add(format!("{path}.tag"), NO_TAG);
            }
            if fingerprint.as_ref().is_some_and(|text| jobs::fingerprint(text).is_err()) {
                self.add(format!("{path}.fingerprint"), NO_FINGERPRINT);
            }
            let is_there = |name: &String| match name.strip_suffix('*') {
                Some(prefix) => databases.iter().any(|one| one.starts_with(prefix)),
                None => databases.contains(&**name),
            };
            if let Some(name) = database.as_ref().filter(|name| !is_there(name))
                && !databases.contains("*")
            {
                let cause = format!("there is no database `{name}`; add it or name another");
                self.add(format!("{path}.database"), cause);
            }
            if class.priority > 0 && !looks_at_priorities(file) {
                self.add(format!("{path}.priority"), NO_PRIORITIES);
            }
        }
    }

    /// Agreement of keys and policies: the key of a job is known where one looks at it, and only
    /// there.
    fn key(&mut self, file: &GateFile) {
        let routed = match &file.router {
            Some(RouterEntry::ByKey { of, .. }) => *of != Some(KeyOf::Class),
            _ => false,
        };
        let cached = matches!(file.discipline, Some(DisciplineEntry::Cohort { .. }));
        if file.key.is_empty() && routed {
            self.add(
                "router",
                "`by-key` needs to know what a job is about; say `key = [{ parameter = 1, type \
                 = \"integer\" }]` or `key = [{ tag = \"name\" }]`",
            );
        }
        if !file.key.is_empty() && !routed && !cached {
            self.add("key", "nothing looks at it; say `router = { by-key = {} }` or remove it");
        }
        if let Err((path, cause)) = jobs::keys(file) {
            self.add(path, cause);
        }
        if let Some(RouterEntry::ByKey { of, table: Some(table), default: None, .. }) = &file.router
            && *of != Some(KeyOf::Class)
            && has_texts(table)
        {
            let cause = "the table names texts, and what it does not name must have a place; say \
                         `default = { server = 0 }` beside it";
            self.add("router", cause);
        }
    }

    /// A user for the health probes of each database.
    fn health(&mut self, file: &GateFile) {
        let Some(health) = &file.health else { return };
        let named = file.database.iter().enumerate().filter(|(_, one)| one.name != "*");
        for (index, database) in named {
            if health.user.is_none() && database.user.is_none() {
                let cause = "nobody is named who may watch its servers; say `user` in the table \
                             `health`";
                self.add(format!("database.{index}"), cause);
            }
        }
    }

    /// Policies that look at what nobody tells this gate.
    fn blind(&mut self, file: &GateFile) {
        if file.discipline == Some(DisciplineEntry::ShortestJob) {
            let cause = "nobody knows how long a transaction will take; say another discipline";
            self.add("discipline", cause);
        }
        if matches!(file.router, Some(RouterEntry::LeastWork { .. })) {
            let cause = "nobody knows how long a transaction will take; say another router";
            self.add("router", cause);
        }
        if file.load_information == Some(LoadInformationEntry::Reported) {
            self.add(
                "load-information",
                "nobody reports to this gate; say another one or leave it out",
            );
        }
    }

    /// The gate's own check of the policies, for every number of servers that occurs.
    fn policies(&mut self, file: &GateFile) {
        let mut tried = BTreeSet::new();
        for (index, database) in file.database.iter().enumerate() {
            let servers = database.server.len();
            let like: Vec<_> =
                database.server.iter().map(|one| (one.weight, one.role == Role::Replica)).collect();
            // Files with thousands of servers for a database are not tried out.
            if servers == 0
                || servers > 4096
                || !tried.insert((policies::stays(file, database), like))
            {
                continue;
            }
            let spec = GateSpec {
                servers: vec![ServerSpec { slots: 1 }; servers],
                room: Some(0),
                wait_max: Some(Duration::from_secs(1)),
                ..GateSpec::fifo(1)
            };
            if let Err(cause) = policies::gate(file, database, spec) {
                let path = match (&file.router, &file.discipline) {
                    (Some(_), _) => "router".to_owned(),
                    (None, Some(_)) => "discipline".to_owned(),
                    (None, None) => format!("database.{index}"),
                };
                self.add(path, cause);
                return;
            }
        }
    }
}

const NO_PRIORITIES: &str = "nothing looks at it; say `discipline = \"priority\"` or remove it";

fn looks_at_priorities(file: &GateFile) -> bool {
    file.discipline.as_ref().is_some_and(DisciplineEntry::has_priorities)
}

/// Slots and connections of one table, as far as it names them.
struct Numbers {
    slots: Option<Slots>,
    slots_kept: Option<u32>,
    reserve: Option<u32>,
}
