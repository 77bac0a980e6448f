//! A configuration as the running gate is told it: one function for each table of the file.
//!
//! What a file asks for and the gate does not do is told or refused before
//! ([`Loaded::to_run`](super::Loaded::to_run)). Names of hosts are looked up here, users and rules
//! read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use advise::Span;
use gate::{Conduct, Reserve};
use monitor::{
    AccessLog, Address, Admin, Admission, Authorities, Auto, Check, ClientTimeouts, ClientTls,
    Config, Database as Behind, Encryption, Health, Keepalive, KeptNotice, Limits, Logged, Lookup,
    Maintenance, Mode as Held, Quotas, Reuse as Next, ServerTls, Share, SocketFile, Tcp, Timeouts,
    Tls as Identity, TlsMode as Encrypted, TlsVersion as Oldest, UnlistedUsers, UserTerms,
};
use pgwire::auth::{Credential, Method as By};
use pgwire::secrets::{Hba, IdentMaps, MockKey, Secret, Users};

use super::config::{
    Database, GateFile, Method, Mode, Reuse, ServerEntry, Tls, TlsMode, TlsVersion, UnixSocket,
    User,
};
use super::values::{Slots, Timeout};
use super::{FileError, Files, jobs, policies};

/// After how long a name without an address is asked for again, as PgBouncer does
/// (`dns_nxdomain_ttl`).
pub const AGAIN: Duration = Duration::from_secs(15);

/// The configuration of the running gate. `key` makes the secrets of unlisted users; it stays the
/// same as long as the gate runs.
///
/// # Errors
/// If a file that it names cannot be read or says nothing sensible, or a host has no address: the
/// key, the cause and the way out.
pub fn to_monitor(file: &GateFile, files: &dyn Files, key: &MockKey) -> Result<Config, FileError> {
    let users = users(file, files, key)?;
    let databases = file.database.iter().map(|entry| database(file, files, entry, &users));
    let databases = databases.collect::<Result<_, FileError>>()?;
    let unset = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = Config::new(unset, databases, users);
    config.listen = listen(file)?;
    config.sockets = sockets(file, files)?;
    config.takeover = file.take_over.as_ref().map(PathBuf::from);
    config.workers = file.workers as usize;
    config.tcp = tcp(file);
    config.timeouts = timeouts(file);
    config.limits = limits(file);
    config.quotas = quotas(file);
    config.classes = jobs::classes(file).map_err(|(path, cause)| wrong(&path, cause))?;
    config.session_state = jobs::choices(file);
    config.kept_notice = if file.session_state.notice { KeptNotice::Half } else { KeptNotice::Off };
    config.unreachable_max = file.pool.unreachable.limit(None);
    config.startup_ignored.clone_from(&file.startup.ignore);
    config.admin = admin(file)?;
    let terms = file.user.iter().map(|one| user(file, one, &config.timeouts));
    config.terms = terms.collect::<Result<_, FileError>>()?;
    config.unlisted_users = unlisted_users(file);
    config.idents = idents(file, files)?;
    config.admission = admission(file, files, &config.idents)?;
    config.logged = logged(file);
    config.access_log = file.log.access.as_deref().map(Path::new).map(AccessLog::named);
    config.check = check(file);
    config.tls = client_tls(file);
    if let Some(record) = &file.record {
        config.record_max = usize::try_from(record.steps_max).unwrap_or(usize::MAX);
    }
    Ok(config)
}

fn wrong(path: &str, cause: impl std::fmt::Display) -> FileError {
    FileError::new(format!("`{path}`: {cause}"))
}

fn span(span: Span) -> Duration {
    Duration::from_secs_f64(span.0)
}

/// A time after which something ends; `None` for never.
fn timeout(timeout: Timeout) -> Option<Duration> {
    timeout.span().map(span)
}

fn listen(file: &GateFile) -> Result<Vec<SocketAddr>, FileError> {
    let mut addresses = Vec::new();
    for name in &file.listen {
        let Some(port) = name.strip_prefix("*:") else {
            addresses.push(first_address(name, "listen")?);
            continue;
        };
        let port = port.parse().map_err(|_| wrong("listen", format!("`{name}` has no port")))?;
        addresses.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        if has_ipv6() {
            addresses.push(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        }
    }
    Ok(addresses)
}

/// True if this machine has IPv6: without, it has no such address.
#[expect(clippy::disallowed_types, reason = "nobody connects: whoever can listen there has IPv6")]
fn has_ipv6() -> bool {
    std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn sockets(file: &GateFile, files: &dyn Files) -> Result<Vec<SocketFile>, FileError> {
    let Some(UnixSocket { directory, port, mode, group }) = &file.unix_socket else {
        return Ok(Vec::new());
    };
    let mode = u32::from_str_radix(mode, 8);
    Ok(vec![SocketFile {
        path: Path::new(directory).join(format!(".s.PGSQL.{port}")),
        mode: mode.map_err(|error| wrong("unix-socket.mode", error))?,
        group: group.as_deref().map(|name| group_number(name, files)).transpose()?,
    }])
}

/// The number of a group of the machine.
fn group_number(name: &str, files: &dyn Files) -> Result<u32, FileError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let path = "unix-socket.group";
    let known = text(files, path, "/etc/group")?;
    let number = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| {
        wrong(path, format!("`{name}` does not stand in /etc/group; name another, or its number"))
    })
}

fn tcp(file: &GateFile) -> Tcp {
    let tcp = &file.tcp;
    let keepalive = Keepalive {
        idle: tcp.keepalive_idle.map(span),
        interval: tcp.keepalive_interval.map(span),
        count: tcp.keepalive_count,
    };
    Tcp {
        keepalive: tcp.keepalive.then_some(keepalive),
        unacknowledged: tcp.unacknowledged.map(span),
    }
}

fn logged(file: &GateFile) -> Logged {
    Logged {
        connections: file.log.connections,
        disconnections: file.log.disconnections,
        errors: file.log.errors,
        stats: file.log.stats.then(|| span(file.admin.stats_period)),
    }
}

/// The first address of `host:port`.
fn first_address(name: &str, path: &str) -> Result<SocketAddr, FileError> {
    let none = |why: &dyn std::fmt::Display| wrong(path, format!("there is no host {name}: {why}"));
    let mut found = name.to_socket_addrs().map_err(|error| none(&error))?;
    found.next().ok_or_else(|| none(&"the name has no address"))
}

fn text(files: &dyn Files, path: &str, name: &str) -> Result<String, FileError> {
    let text = files.text(Path::new(name));
    text.map_err(|cause| wrong(path, format!("cannot read {name}: {cause}")))
}

fn users(file: &GateFile, files: &dyn Files, key: &MockKey) -> Result<Users, FileError> {
    let path = "auth.users-file";
    let (name, text) = match &file.auth.users_file {
        Some(name) => (name.as_str(), text(files, path, name)?),
        None => ("", String::new()),
    };
    let iterations = NonZeroU32::new(file.auth.scram_iterations);
    let iterations = iterations.ok_or_else(|| wrong("auth.scram-iterations", "give at least 1"))?;
    let users = Users::hashed(&text, key.clone(), iterations);
    users.map_err(|error| wrong(path, format!("{name}: {error}")))
}

fn idents(file: &GateFile, files: &dyn Files) -> Result<IdentMaps, FileError> {
    let path = "auth.ident-file";
    let Some(name) = &file.auth.ident_file else { return Ok(IdentMaps::default()) };
    let maps = IdentMaps::parse(&text(files, path, name)?);
    maps.map_err(|error| wrong(path, format!("{name}: {error}")))
}

fn admission(file: &GateFile, files: &dyn Files, maps: &IdentMaps) -> Result<Admission, FileError> {
    Ok(Admission::Everybody(match file.auth.method {
        Method::Trust | Method::Any => By::Trust,
        Method::Plain => By::Password,
        Method::Md5 => By::Md5,
        Method::ScramSha256 => By::ScramSha256,
        Method::Cert => return Ok(Admission::Certificates),
        Method::Hba => {
            let path = "auth.hba-file";
            let name = file.auth.hba_file.as_deref();
            let name = name.ok_or_else(|| wrong(path, "`hba` needs it; say it"))?;
            let rules = Hba::parse(&text(files, path, name)?);
            let rules = rules.map_err(|error| wrong(path, format!("{name}: {error}")))?;
            if let Some((line, map)) = rules.maps().find(|(_, map)| !maps.has(map)) {
                let cause = "no line of `auth.ident-file` begins with it";
                return Err(wrong(path, format!("{name}: line {line}: map `{map}`: {cause}")));
            }
            return Ok(Admission::Rules(rules));
        }
    }))
}

fn unlisted_users(file: &GateFile) -> UnlistedUsers {
    match file.auth.method {
        Method::Any => UnlistedUsers::Believed,
        _ => UnlistedUsers::Refused,
    }
}

/// The liveness check of an idle connection.
fn check(file: &GateFile) -> Option<Check> {
    let kept = &file.connections;
    let query = kept.check.clone();
    (kept.check != "off").then(|| Check { query, after: span(kept.check_after) })
}

fn admin(file: &GateFile) -> Result<Admin, FileError> {
    let http = file.admin.http.as_deref().map(|name| first_address(name, "admin.http"));
    Ok(Admin {
        users: file.admin.users.clone(),
        stats_users: file.admin.stats_users.clone(),
        stats_period: span(file.admin.stats_period),
        http: http.transpose()?,
    })
}

fn quotas(file: &GateFile) -> Quotas {
    let databases = file.database.iter();
    let databases = databases.filter_map(|one| Some((one.name.clone(), one.slots_all?)));
    let users = file.user.iter();
    let users = users.filter_map(|one| Some((one.name.clone().into_bytes(), one.slots_all?)));
    Quotas {
        all: file.limits.slots,
        database: file.limits.database_slots,
        databases: databases.collect(),
        user: file.limits.user_slots,
        users: users.collect(),
    }
}

fn database(
    file: &GateFile,
    files: &dyn Files,
    entry: &Database,
    users: &Users,
) -> Result<Behind, FileError> {
    let servers: Vec<Address> = entry.server.iter().map(|server| address(server, files)).collect();
    let share = share(file, entry);
    let slots = entry.slots.unwrap_or(file.pool.slots);
    let auto = auto(file, slots);
    let mut behind = Behind::new(entry.name.clone(), servers, 0);
    behind.scarce = match (share, slots) {
        (Share::Together, Slots::Fixed(slots)) if (slots as usize) < behind.servers.len() => {
            Some(slots)
        }
        _ => None,
    };
    behind.gate.servers = match (slots, &auto) {
        (_, Some(auto)) => Share::Each.of(auto.start(), behind.servers.len()),
        (Slots::Fixed(slots), _) => share.of(slots, behind.servers.len()),
        (Slots::Auto, None) => unreachable!("slots that are sought have a band"),
    };
    behind.auto = auto;
    behind.gate.room = Some(entry.room.unwrap_or(file.pool.room));
    behind.gate.wait_max = Some(span(entry.wait_max.unwrap_or(file.pool.wait_max)));
    let gate = policies::gate(file, entry, behind.gate);
    behind.gate = gate.map_err(|cause| wrong("router", cause))?;
    (behind.keys, behind.key_default) =
        jobs::keys(file).map_err(|(path, cause)| wrong(&path, cause))?;
    behind.share = share;
    behind.clients = entry.connections_max.map(|most| most as usize);
    behind.target = entry.dbname.clone();
    behind.forced = entry.user.as_ref().map(|user| user.clone().into_bytes());
    behind.mode = mode(entry.mode.unwrap_or(file.pool.mode));
    let kept = entry.slots_kept.unwrap_or(file.pool.slots_kept);
    behind.maintenance = Maintenance {
        slots_kept: if entry.name == Behind::REST { 0 } else { kept },
        lifetime: entry.lifetime.map(span),
        connect_query: entry.connect_query.clone(),
        ..Maintenance::default()
    };
    behind.settings = entry.settings.clone().into_iter().collect();
    behind.own_writes = span(file.pool.own_writes);
    behind.reuse = match file.pool.reuse {
        Reuse::Last => Next::Latest,
        Reuse::Turn => Next::Rotate,
    };
    behind.login = login(entry)?;
    behind.lookup = lookup(file, entry, users)?;
    behind.health = health(file, entry);
    if let (Some(_), None) = (&behind.health, &behind.login) {
        let name = file.health.as_ref().and_then(|health| health.user.as_ref());
        let name = name.or(entry.user.as_ref()).ok_or_else(|| {
            wrong("health.user", format!("nobody is named who may watch {}; say one", entry.name))
        })?;
        behind.login = Some((name.clone().into_bytes(), known(users, name, "health.user")?));
    }
    let encryption = Encryption::load(&server_tls(file));
    behind.server_tls = encryption.map_err(|error| wrong("tls.servers", error))?;
    Ok(behind)
}

/// The band of slots that are sought.
fn auto(file: &GateFile, slots: Slots) -> Option<Auto> {
    let (floor, ceiling) = (file.auto.floor, file.auto.ceiling);
    let conduct = if file.auto.shadow { Conduct::Shadows } else { Conduct::Acts };
    (slots == Slots::Auto).then(|| Auto { floor, ceiling, conduct, ..Auto::default() })
}

/// The health probe of a database's servers; those whose databases are named by clients have none.
fn health(file: &GateFile, entry: &Database) -> Option<Health> {
    let health = file.health.as_ref().filter(|_| entry.name != Behind::REST)?;
    Some(Health {
        interval: span(health.interval),
        timeout: span(health.timeout),
        failures_max: health.failures_max,
        lag_max: timeout(health.lag_max),
    })
}

/// The `auth_query` for users that the users file has not.
fn lookup(file: &GateFile, entry: &Database, users: &Users) -> Result<Option<Lookup>, FileError> {
    let auth = &file.auth;
    let path = match entry.query_user {
        Some(_) => format!("database.{}.query-user", entry.name),
        None => "auth.query-user".to_owned(),
    };
    let Some(user) = entry.query_user.as_ref().or(auth.query_user.as_ref()) else {
        return Ok(None);
    };
    Ok(Some(Lookup {
        user: user.clone().into_bytes(),
        credential: known(users, user, &path)?,
        query: entry.query.clone().unwrap_or_else(|| auth.query.clone()),
        database: entry.query_database.clone().or_else(|| auth.query_database.clone()),
    }))
}

/// With what the gate logs in as a user of the users file; with nothing as one who is not in it, or has
/// no secret there: a server that trusts the gate asks for none.
fn known(users: &Users, name: &str, path: &str) -> Result<Credential, FileError> {
    if !users.has_secret(name.as_bytes()) {
        return Ok(Credential::Nothing);
    }
    match users.credential(name.as_bytes()) {
        Credential::Nothing => {
            let cause = "a SCRAM secret lets nobody in at a server; give the users file the \
                         password itself";
            Err(wrong(path, format!("`{name}`: {cause}")))
        }
        credential => Ok(credential),
    }
}

fn client_tls(file: &GateFile) -> Option<ClientTls> {
    let tls = &file.tls.clients;
    let identity = identity(tls)?;
    let (mode, oldest) = (tls_mode(tls.mode), oldest(tls.min_version));
    (tls.mode != TlsMode::Disable).then(|| ClientTls {
        mode,
        identity,
        authorities: authorities(tls),
        oldest,
    })
}

fn server_tls(file: &GateFile) -> ServerTls {
    let tls = &file.tls.servers;
    // Only these two verify what a server shows, whoever may have signed it.
    let verifies = matches!(tls.mode, TlsMode::VerifyCa | TlsMode::VerifyFull);
    ServerTls {
        mode: tls_mode(tls.mode),
        authorities: if verifies { authorities(tls) } else { Authorities::Unnamed },
        identity: identity(tls),
        oldest: oldest(tls.min_version),
        ..ServerTls::default()
    }
}

fn identity(tls: &Tls) -> Option<Identity> {
    let (cert, key) = (tls.cert.as_ref()?, tls.key.as_ref()?);
    Some(Identity { cert: cert.into(), key: key.into() })
}

fn authorities(tls: &Tls) -> Authorities {
    tls.ca.as_ref().map_or(Authorities::Unnamed, |ca| Authorities::File(ca.into()))
}

fn tls_mode(mode: TlsMode) -> Encrypted {
    match mode {
        TlsMode::Disable => Encrypted::Disable,
        TlsMode::Allow => Encrypted::Allow,
        TlsMode::Prefer => Encrypted::Prefer,
        TlsMode::Require => Encrypted::Require,
        TlsMode::VerifyCa => Encrypted::VerifyCa,
        TlsMode::VerifyFull => Encrypted::VerifyFull,
    }
}

fn oldest(version: TlsVersion) -> Oldest {
    match version {
        TlsVersion::V12 => Oldest::V12,
        TlsVersion::V13 => Oldest::V13,
    }
}

/// With what the gate logs in as the user that is forced.
fn login(entry: &Database) -> Result<Option<(Vec<u8>, Credential)>, FileError> {
    let (Some(user), Some(password)) = (&entry.user, &entry.password) else { return Ok(None) };
    let (user, password) = (user.clone().into_bytes(), &password.0);
    let credential = if password.starts_with("md5") || password.starts_with("SCRAM-SHA-256$") {
        let secret = Secret::stored(&user, password, &MockKey::drawn());
        let path = format!("database.{}.password", entry.name);
        match secret.map_err(|error| wrong(&path, error))?.credential() {
            Credential::Nothing => {
                let cause = "a SCRAM secret lets nobody in at a server; give the password itself";
                return Err(wrong(&path, cause));
            }
            credential => credential,
        }
    } else {
        Credential::Password(password.clone().into_bytes())
    };
    Ok(Some((user, credential)))
}

/// The servers of a list share a pool's slots; of a list where one is used at a time, each has all.
fn share(file: &GateFile, entry: &Database) -> Share {
    if policies::stays(file, entry) { Share::Each } else { Share::Together }
}

/// The address of a server. A name that has none puts out its own database alone, until it has one.
fn address(server: &ServerEntry, files: &dyn Files) -> Address {
    let ServerEntry { host, port, .. } = server;
    if host.starts_with('/') {
        return Address::Unix(PathBuf::from(host).join(format!(".s.PGSQL.{port}")));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Address::Tcp(SocketAddr::new(address, *port));
    }
    match files.address(host, *port) {
        Ok(address) => Address::Host { name: host.clone(), address },
        Err(_) => Address::Unresolved { name: host.clone(), port: *port },
    }
}

/// The names that have no address, each as what is told of it.
pub fn unresolved(config: &Config) -> Vec<String> {
    let of = |database: &Behind| {
        let name = database.name.clone();
        let missing = database.servers.iter().filter_map(move |server| match server {
            Address::Unresolved { name: host, .. } => Some(format!(
                "database `{name}`: there is no host {host}; nobody gets in there until its name \
                 is found, which is asked again every {} s",
                AGAIN.as_secs()
            )),
            _ => None,
        });
        missing.collect::<Vec<_>>()
    };
    config.databases.iter().flat_map(of).collect()
}

fn mode(mode: Mode) -> Held {
    match mode {
        Mode::Session => Held::Session,
        Mode::Transaction => Held::Transaction,
        Mode::Statement => Held::Statement,
    }
}

fn user(file: &GateFile, user: &User, usual: &Timeouts) -> Result<(Vec<u8>, UserTerms), FileError> {
    let own = [user.query, user.transaction, user.idle_transaction, user.client_idle];
    let usual = usual.client_timeouts();
    let or = |own: Option<Timeout>, usual| own.map_or(usual, timeout);
    let client_timeouts = ClientTimeouts {
        query: or(user.query, usual.query),
        transaction: or(user.transaction, usual.transaction),
        idle_transaction: or(user.idle_transaction, usual.idle_transaction),
        client_idle: or(user.client_idle, usual.client_idle),
    };
    let terms = UserTerms {
        mode: user.mode.map(mode),
        slots: user.slots.and_then(Slots::number),
        auto: user.slots.and_then(|slots| auto(file, slots)),
        reserve: user.reserve.map(|slots| Reserve {
            slots: if file.pool.reserve_after == Timeout::Off { 0 } else { slots },
            after: timeout(file.pool.reserve_after).unwrap_or(Duration::MAX),
        }),
        wait_max: user.wait_max.map(span),
        clients: user.connections_max.map(|most| most as usize),
        client_timeouts: own.iter().any(Option::is_some).then_some(client_timeouts),
    };
    Ok((user.name.clone().into_bytes(), terms))
}

fn timeouts(file: &GateFile) -> Timeouts {
    Timeouts {
        login: span(file.timeouts.login),
        connect: span(file.timeouts.connect),
        cancel: span(file.timeouts.cancel),
        query: timeout(file.timeouts.query),
        transaction: timeout(file.timeouts.transaction),
        wait_notice: timeout(file.timeouts.wait_notice),
        idle_transaction: timeout(file.timeouts.idle_transaction),
        client_idle: timeout(file.timeouts.client_idle),
        stalled: timeout(file.timeouts.stalled),
        server_idle: timeout(file.connections.idle).unwrap_or(Duration::MAX),
        server_lifetime: span(file.connections.lifetime),
        server_retry: span(file.connections.retry),
        autodb_idle: timeout(file.connections.autodb_idle),
        drain_delay: span(file.timeouts.drain_delay),
        drain: span(file.timeouts.drain),
        ..Timeouts::default()
    }
}

fn limits(file: &GateFile) -> Limits {
    let usual = Limits::default();
    Limits {
        clients: file.limits.connections as usize,
        login_clients: file.limits.login_connections.map(|most| most as usize),
        database_clients: file.limits.database_connections.map(|most| most as usize),
        user_clients: file.limits.user_connections.map(|most| most as usize),
        statements: file.limits.statements as usize,
        message: u32::try_from(file.limits.message.0)
            .map_or(usual.message, |most| most.min(usual.message)),
        backlog: file.limits.backlog,
        ..usual
    }
}
