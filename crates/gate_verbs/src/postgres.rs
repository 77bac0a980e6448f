//! `sekisho gate postgres`: a TP monitor for PostgreSQL.

mod from_file;
mod names;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tpcc::{Config as Place, Host};
use advise::{Span, Unreachable};
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{Table, count, label, next, paragraph, sentence, shell_word, time};
use cli::{Failure, Verdict, say};
use gate::{GateSpec, ServerSpec};
use gatefile::{Disk, Files, translate};
use measure::Histogram;
use monitor::{
    AccessLog, Address, Admission, Auto, Config, Database, Encryption, Finished, Logged, Mode,
    Monitor, PoolStats, ServerTls, StartError, Tls,
};
use pgwire::auth::{Credential, Method};
use pgwire::secrets::{Hba, MockKey, Users};

use super::answer::{PostgresEnded, PostgresStarted};
use super::auto::{AutoArgs, Slots, best_slots, keep_model, models, numbers, tell};
use super::start::{
    Asked, Descriptors, ServerPlace, Unanswered, await_servers, places_of, try_databases,
    try_servers,
};
use super::{PolicyArgs, address, keep, reachable, slots};

/// The port of PostgreSQL where nobody names another one.
const PORT: u16 = 5432;
/// Address that clients connect to where nobody says another one.
const LISTEN: &str = "127.0.0.1:6432";

/// Options that a file replaces.
const REPLACED: [&str; 29] = [
    "access_log",
    "db",
    "slots",
    "slots_least",
    "slots_most",
    "shadow",
    "mode",
    "discipline",
    "router",
    "length",
    "ties",
    "load_information",
    "queues",
    "seed",
    "room",
    "wait_max",
    "unreachable",
    "users",
    "hba",
    "auth",
    "admin",
    "admin_http",
    "idle_transaction",
    "cert",
    "key",
    "clients_max",
    "workers",
    "drain_delay",
    "drain",
];

#[derive(ClapArgs)]
pub(super) struct PostgresArgs {
    /// Everything from a file: TOML of this gate, or PgBouncer's if its name ends in .ini or .conf.
    /// Beside it only --listen, --take-over, --record, --record-max, --model, --public and --json count, before
    /// what the file says
    #[arg(long, value_name = "FILE", conflicts_with_all = REPLACED)]
    config: Option<PathBuf>,
    /// Address that clients connect to; left out, 127.0.0.1:6432
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The database: postgresql://USER@HOST:PORT/NAME; say it once for each server of it. Left out,
    /// DATABASE_URL or PGHOST, PGDATABASE and so on. A password is better put into PGPASSWORD.
    /// Encryption in libpq's words: ?sslmode=verify-full&sslrootcert=FILE&sslcert=FILE&sslkey=FILE
    #[arg(long, value_name = "URL")]
    db: Vec<String>,
    /// Slots of each pool at each server: one number for all, one for each, or `auto`: as many as a
    /// model and trials say, told on standard error
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,...",
        required_unless_present_any = ["translate", "config", "check"]
    )]
    slots: Vec<Slots>,
    #[command(flatten)]
    auto: AutoArgs,
    /// For how long a client keeps its slot
    #[arg(long, value_enum, default_value = "transaction")]
    mode: ModeName,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Most clients that may wait, in each pool
    #[arg(long, value_name = "N", default_value_t = monitor::ROOM)]
    room: u64,
    /// Longest wait of a client for a slot
    #[arg(long, value_name = "TIME", default_value = "120s")]
    wait_max: Span,
    /// Longest wait of a client while no server can be reached that could be before: a time, `refuse`
    /// for not at all, or `wait` for as long as for a slot
    #[arg(long, value_name = "TIME", default_value = "wait")]
    unreachable: Unreachable,
    /// Users that are known, as in PgBouncer's userlist.txt; left out, the user of `--db` with its password
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Addresses from which users may come, and their proof, as in pg_hba.conf
    #[arg(long, value_name = "FILE", conflicts_with = "auth")]
    hba: Option<PathBuf>,
    /// Proof of who a client is; trust only where `--listen` is a loopback address
    #[arg(long, value_enum, default_value = "scram-sha-256")]
    auth: MethodName,
    /// How long a client may have a transaction open without saying anything; left out, as long as it
    /// likes. It holds a slot all the while
    #[arg(long, value_name = "TIME")]
    idle_transaction: Option<Span>,
    /// Certificate (PEM), for TLS towards clients that want it; a hostssl line of `--hba` demands it
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The most clients
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clients_max: usize,
    /// How many threads read and write, 1 to 64. All serve all clients, with one gate for each pool
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// A user who may operate the gate on its console, by `psql dbname=pgbouncer`; say it once for each
    #[arg(long, value_name = "USER")]
    admin: Vec<String>,
    /// Where metrics and a live page are. Whoever reaches it may look, so use a loopback address, or
    /// one that only a trusted network reaches
    #[arg(long, value_name = "ADDRESS")]
    admin_http: Option<String>,
    /// Write a line of JSON for each transaction (in session mode, each session) to this file, or to standard output
    /// (`-`); SIGUSR1 opens it anew, after it was renamed
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Time that clients are let in after SIGTERM, while /readyz says no already
    #[arg(long, value_name = "TIME", default_value = "0s")]
    drain_delay: Span,
    /// Time that transactions may take to end after that
    #[arg(long, value_name = "TIME", default_value = "30s")]
    drain: Span,
    /// To restart or upgrade without dropping clients, start the same command once more: if a gate of
    /// the same user of the system listens at this socket, it hands over its addresses and each
    /// client in clear as soon as that has nothing under way, and ends; TLS clients and sessions are let out
    /// as by SIGTERM. Then this one listens there. If that fails, the old one serves on
    #[arg(long, value_name = "SOCKET")]
    take_over: Option<PathBuf>,
    /// Allow a server at an address that is neither loopback nor private
    #[arg(long, action = clap::ArgAction::Count)]
    public: u8,
    /// Print a JSON object at the start and one at the end instead of text
    #[arg(long)]
    json: bool,
    /// Print a pgbouncer.ini (named .ini or .conf) as a configuration of this gate, or one of this gate as
    /// a pgbouncer.ini, and do nothing else; what has no counterpart stands in comments
    #[arg(long, value_name = "FILE", exclusive = true)]
    translate: Option<PathBuf>,
    /// Say whether a gate could start from this file, and with what: names of hosts are looked up, and
    /// users, rules and certificates read. Nothing is listened to
    #[arg(long, visible_alias = "check-config", value_name = "FILE", conflicts_with_all = REPLACED, conflicts_with_all = ["config", "listen", "take_over", "record"])]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    /// From its first message until it leaves
    Session,
    /// For a transaction
    Transaction,
    /// For a statement; transactions of several are refused
    Statement,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// By SCRAM, where the gate knows the password or such a secret
    #[value(name = "scram-sha-256")]
    Scram,
    /// By MD5, or by SCRAM where such a secret is known
    Md5,
    /// With the password as it is
    Password,
    /// Not at all
    Trust,
}

pub(super) fn run(args: &PostgresArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if let Some(path) = &args.translate {
        let name = path.display().to_string();
        let cannot = |cause| Failure::Usage(format!("cannot read {name}: {cause}"));
        let text = Disk.text(path).map_err(cannot)?;
        say(out, &translate(&name, &text, &Disk).map_err(Failure::usage)?)?;
        return Ok(Verdict::Holds);
    }
    if let Some(path) = &args.check {
        return from_file::check(path, args.public, args.json, out);
    }
    if args.config.is_some() {
        return from_file::run(args, out);
    }
    let config = args.config()?;
    let servers = args.secured(&config)?;
    let pool = describe(&config);
    let monitor = Monitor::bind(config)
        .and_then(Monitor::drain_on_signals)
        .and_then(|monitor| monitor.log_to(std::io::stderr()));
    let monitor = servers.known_to(monitor.map_err(unstarted)?);
    say(out, &beginning(args, &monitor, &pool))?;
    out.flush()?;
    let finished = monitor.run().map_err(Failure::machine)?;
    let written =
        Written { record: args.policy.record.as_deref(), model: args.auto.model.as_deref() };
    end(&finished, written, args.json, out)
}

/// The servers of all databases, tried before the start.
struct Servers {
    all: Vec<ServerPlace>,
    down: Vec<ServerPlace>,
    has_page: bool,
}

impl Servers {
    /// Says which do not answer. `by` names them.
    fn tried(config: &Config, by: String) -> Servers {
        let mut all: Vec<ServerPlace> = Vec::new();
        for place in config.databases.iter().flat_map(|database| places_of(&database.servers)) {
            if !all.contains(&place) {
                all.push(place);
            }
        }
        let meanwhile = match all.len() {
            1 => "clients are refused",
            _ => "its clients are refused, or go to another server of their database",
        };
        let has_page = config.admin.http.is_some();
        let down = try_servers(&all, &Unanswered { by, meanwhile, has_page });
        let down = down.into_iter().map(|at| all[at].clone()).collect();
        Servers { all, down, has_page }
    }

    /// The monitor, which is not ready before one answers.
    fn known_to(self, monitor: Monitor) -> Monitor {
        let Servers { all, down, has_page } = self;
        if !has_page || all.is_empty() || down.len() < all.len() {
            return monitor;
        }
        let handle = monitor.handle();
        // A monitor that has ended needs to know no more.
        await_servers(all, move || drop(handle.servers_answer()));
        monitor.without_servers()
    }
}

fn unstarted(error: StartError) -> Failure {
    match error {
        StartError::Listen { .. }
        | StartError::Takeover { .. }
        | StartError::AccessLog { .. }
        | StartError::Loop(_) => Failure::machine(error),
        error => Failure::usage(error),
    }
}

/// Files that are written in the end, if they are named.
struct Written<'a> {
    record: Option<&'a Path>,
    model: Option<&'a Path>,
}

/// Writes what was recorded and what was found, and says how it ended.
fn end(
    finished: &Finished,
    Written { record, model }: Written<'_>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let mut kept = Vec::new();
    if let Some(path) = record {
        for (at, recording) in finished.recordings.iter().flatten().enumerate() {
            let path = numbered(path, at);
            keep(&path, recording)?;
            kept.push(path);
        }
    }
    let mut modelled = Vec::new();
    for (at, pool) in finished.stats.pools.iter().enumerate() {
        if let (Some(path), Some(fitted)) = (model, &pool.fitted) {
            let path = numbered(path, at);
            let name = format!("{}/{}", pool.database, pool.user);
            keep_model(&path, (&name, "database"), fitted)?;
            modelled.push(path);
        }
    }
    let text = match json {
        true => {
            let answer = PostgresEnded::new(finished, kept, modelled);
            cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer)
        }
        false => ending(finished, &kept, &modelled),
    };
    say(out, &text)?;
    Ok(Verdict::Holds)
}

/// The file of a pool's recording: that of the first is the one that was named.
fn numbered(path: &Path, at: usize) -> PathBuf {
    if at == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", at + 1));
    name.into()
}

/// Words for what is behind the gate.
struct Behind {
    database: String,
    servers: usize,
    user: Option<String>,
}

fn describe(config: &Config) -> Behind {
    let database = &config.databases[0];
    let user = database.login.as_ref().map(|(user, _)| String::from_utf8_lossy(user).into_owned());
    Behind { database: database.name.clone(), servers: database.servers.len(), user }
}

/// The way in where the gate knows users, and which of them reads this is not known: no command can be typed as it is
/// printed.
fn as_a_user(way: &str, database: Option<&str>) -> String {
    let to = database.map(|name| format!(" dbname={name}")).unwrap_or_default();
    let whose = if database.is_some() {
        "as one of its users"
    } else {
        "as one of its users, to a database"
    };
    paragraph(&format!("clients connect to {way}{to}, {whose}"))
}

fn beginning(args: &PostgresArgs, monitor: &Monitor, behind: &Behind) -> String {
    let handle = monitor.handle();
    let (address, http) = (handle.address(), handle.http());
    if args.json {
        return started(monitor, vec![behind.database.clone()]);
    }
    let mode = match args.mode {
        ModeName::Session => Mode::Session,
        ModeName::Transaction => Mode::Transaction,
        ModeName::Statement => Mode::Statement,
    };
    let servers = count(behind.servers as u64, "server");
    let slots = args.slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let text = sentence(&format!(
        "gate: listening on {address} for database {} at {servers}, slots {slots} per {mode}, {} \
         may wait {} at most",
        behind.database, args.room, args.wait_max,
    ));
    let shown = http.map(|http| paragraph(&format!("live page and metrics: http://{http}/")));
    let text = text + &shown.unwrap_or_default() + &taking_over(monitor);
    let (host, port) = (address.ip(), address.port());
    let database = &behind.database;
    let way = format!("host={host} port={port}");
    match &behind.user {
        Some(user) => text + &next(&format!("psql '{way} user={user} dbname={database}'")),
        None => text + &as_a_user(&way, Some(database)),
    }
}

/// Beginning of a monitor before these databases, in JSON.
fn started(monitor: &Monitor, databases: Vec<String>) -> String {
    let handle = monitor.handle();
    cli::json::notice(&PostgresStarted {
        listening: handle.address().to_string(),
        addresses: handle.addresses().iter().map(ToString::to_string).collect(),
        databases,
        http: handle.http().map(|http| http.to_string()),
        takes_over_from: monitor.predecessor(),
    })
}

/// From whom a gate takes over, if from anybody.
fn taking_over(monitor: &Monitor) -> String {
    let from = monitor.predecessor();
    from.map(|process| paragraph(&format!("takes over from process {process}"))).unwrap_or_default()
}

fn ending(finished: &Finished, kept: &[PathBuf], modelled: &[PathBuf]) -> String {
    let pools = &finished.stats.pools;
    let found = |pool: &PoolStats| best_slots(pool.fitted.as_ref(), &pool.model);
    let sum = |of: fn(&PoolStats) -> u64| pools.iter().map(of).sum::<u64>();
    let transactions = sum(|pool| pool.counters.xact_count);
    let refused = sum(|pool| pool.counters.refused());
    let mut text = sentence(&format!(
        "drained: {}, {}, {refused} refused, {} cut off",
        count(finished.stats.clients_accepted, "client"),
        count(transactions, "transaction"),
        finished.cut
    ));
    let (taken, handed) = (finished.stats.clients_taken_over, finished.stats.clients_handed_over);
    if taken + handed > 0 {
        text += &sentence(&format!(
            "  {} taken over from another process, {handed} handed over to one",
            count(taken, "client")
        ));
    }
    let lost = finished.stats.log_lost;
    if lost > 0 {
        text += &sentence(&format!("  {} of the log could not be written", count(lost, "line")));
    }
    let mut table = Table::new(&["pool", "queries", "wait p50", "p99", "hold p50", "p99"]);
    for pool in pools {
        let at = |times: &Histogram, q| {
            if times.is_empty() { "-".to_owned() } else { time(times.quantile(q).as_secs_f64()) }
        };
        table.row(vec![
            label(&format!("{}/{}", pool.database, pool.user)),
            pool.counters.query_count.to_string(),
            at(&pool.wait, 0.5),
            at(&pool.wait, 0.99),
            at(&pool.hold, 0.5),
            at(&pool.hold, 0.99),
        ]);
    }
    if !pools.is_empty() {
        text += &table.to_string();
    }
    text += &models(pools.iter().map(|pool| &*pool.model));
    for path in kept {
        text += &paragraph(&format!("recorded: {}", path.display()));
    }
    if let [model, ..] = modelled {
        text += &paragraph(&format!("modelled: {}", model.display()));
        return text + &next(&format!("sekisho ask bottleneck {}", shell_word(model)));
    }
    let found = pools.iter().find_map(found);
    if let Some(slots) = found {
        // The command line may hold what only its author knows: it is told what to change in it.
        text +=
            &paragraph(&format!("to keep what was found: `--slots {slots:.0}` in place of auto"));
    }
    match (kept, found) {
        ([recording, ..], _) => text + &next(&format!("sekisho replay {}", shell_word(recording))),
        ([], _) => text,
    }
}

impl PostgresArgs {
    fn config(&self) -> Result<Config, Failure> {
        let listen_name = self.listen.as_deref().unwrap_or(LISTEN);
        let listen = address("--listen", listen_name)?;
        if matches!(self.auth, MethodName::Trust) && !listen.ip().is_loopback() {
            return Err(Failure::Usage(format!(
                "`--auth trust` lets in whoever comes, and `--listen {}` is no loopback address: \
                 let clients prove who they are, or listen on 127.0.0.1",
                listen_name
            )));
        }
        let places = self.places()?;
        let database = self.database(&places)?;
        let users = self.known(database.login.as_ref())?;
        let mut config = Config::new(listen, vec![database], users);
        config.unreachable_max = self.unreachable.limit(None);
        config.admission = match &self.hba {
            Some(path) => Admission::Rules(read(path, "--hba", Hba::parse)?),
            None => Admission::Everybody(match self.auth {
                MethodName::Scram => Method::ScramSha256,
                MethodName::Md5 => Method::Md5,
                MethodName::Password => Method::Password,
                MethodName::Trust => Method::Trust,
            }),
        };
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            config.tls = Some(Tls { cert: cert.clone(), key: key.clone() }.into());
        }
        config.limits.clients = self.clients_max;
        config.workers = self.workers;
        config.timeouts.idle_transaction =
            self.idle_transaction.map(|span| Duration::from_secs_f64(span.0));
        config.timeouts.drain_delay = Duration::from_secs_f64(self.drain_delay.0);
        config.timeouts.drain = Duration::from_secs_f64(self.drain.0);
        config.admin.users.clone_from(&self.admin);
        if let Some(name) = &self.admin_http {
            config.admin.http = Some(address("--admin-http", name)?);
        }
        config.access_log = self.access_log.as_deref().map(AccessLog::named);
        config.record_max = self.policy.record_max();
        config.takeover.clone_from(&self.take_over);
        // Failed logins, servers that are not reached, jobs that are refused: as from a file.
        config.logged = Logged { errors: true, ..Logged::default() };
        config.decisions = Some(tell);
        Ok(config)
    }

    /// Sees whether the system and the servers give what is asked for.
    fn secured(&self, config: &Config) -> Result<Servers, Failure> {
        let gated = &config.databases[0];
        let slots = |at: usize| match &gated.auto {
            Some(auto) => auto.ceiling,
            None => gated.gate.servers[at].slots,
        };
        let all = (0..gated.servers.len()).map(|at| u64::from(slots(at))).sum();
        let clients = self.clients_max as u64;
        Descriptors { clients, clients_by: "--clients-max", servers: all }.secured()?;
        let by = if self.db.is_empty() { "DATABASE_URL" } else { "`--db`" };
        let servers = Servers::tried(config, by.to_owned());
        // Without a password there may be nothing to ask with: the list of users has the secrets.
        let known = self.users.is_none();
        let reach = databases::reach(self.public, databases::STANDS_BEFORE);
        let within = |(place, _): (Place, _)| place.within(reach).ok();
        let places = self.places()?.into_iter().filter_map(within);
        let asked = places.filter(|_| known).enumerate().map(|(at, place)| Asked {
            places: addresses(&place).map(|servers| places_of(&servers)).unwrap_or_default(),
            place,
            slots: slots(at.min(gated.servers.len() - 1)),
            by: if gated.auto.is_some() { "--slots-most" } else { "--slots" }.to_owned(),
            is_ceiling: gated.auto.is_some(),
        });
        try_databases(asked.collect(), &servers.down)?;
        Ok(servers)
    }

    /// The servers that are named, each with the database and the user there, and how they are
    /// encrypted.
    fn places(&self) -> Result<Vec<(Place, ServerTls)>, Failure> {
        let said = std::env::var("DATABASE_URL").ok().filter(|_| self.db.is_empty());
        let urls: Vec<_> = self.db.iter().chain(&said).filter(|url| !url.is_empty()).collect();
        if urls.is_empty() {
            return Ok(vec![databases::server(None)?]);
        }
        urls.into_iter().map(|url| databases::server(Some(url))).collect()
    }

    fn database(&self, places: &[(Place, ServerTls)]) -> Result<Database, Failure> {
        let (first, tls) = &places[0];
        let user = first.get_user();
        let name = first.get_dbname().or(user).ok_or_else(|| {
            Failure::Usage("`--db` names no database: postgresql://USER@HOST:PORT/NAME".into())
        })?;
        let mut servers = Vec::new();
        for (place, encryption) in places {
            if encryption != tls {
                return Err(Failure::Usage(
                    "each `--db` is a server of one database: say the same of encryption (sslmode \
                     and so on) in all of them"
                        .into(),
                ));
            }
            if place.get_dbname().or(place.get_user()) != Some(name) || place.get_user() != user {
                return Err(Failure::Usage(
                    "each `--db` is a server of one database: name the same database and user in \
                     all of them"
                        .into(),
                ));
            }
            servers.extend(addresses(place)?);
        }
        within_reach(&servers, self.public)?;
        let mut database = Database::new(name, servers, 0);
        database.server_tls = Encryption::load(tls).map_err(Failure::usage)?;
        database.auto = self.auto()?;
        let slots = match &database.auto {
            Some(auto) => vec![ServerSpec { slots: auto.start() }; database.servers.len()],
            None => slots("--db", &numbers(&self.slots), database.servers.len())?,
        };
        if slots.iter().all(|server| server.slots == 0) {
            return Err(Failure::Usage("`--slots 0` lets nobody in".into()));
        }
        let gate = GateSpec {
            servers: slots,
            room: Some(self.room),
            wait_max: Some(Duration::from_secs_f64(self.wait_max.0)),
            ..database.gate
        };
        database.gate = self.policy.at(gate, &["all"])?;
        database.mode = match self.mode {
            ModeName::Session => Mode::Session,
            ModeName::Transaction => Mode::Transaction,
            ModeName::Statement => Mode::Statement,
        };
        database.login = user.map(|user| {
            let password = first.get_password().map(<[u8]>::to_vec);
            let credential = password.map_or(Credential::Nothing, Credential::Password);
            (user.as_bytes().to_vec(), credential)
        });
        Ok(database)
    }

    /// Search for the slots, if these are left to the gate.
    fn auto(&self) -> Result<Option<Auto>, Failure> {
        let auto = self.auto.auto(&self.slots)?;
        if auto.is_some() && matches!(self.mode, ModeName::Session) {
            return Err(Failure::Usage(
                "`--slots auto` needs `--mode transaction` or `statement`: how long a session is \
                 says nothing of the work"
                    .into(),
            ));
        }
        Ok(auto)
    }

    /// Users that are known: those of the list, or the user of `--db`.
    fn known(&self, login: Option<&(Vec<u8>, Credential)>) -> Result<Users, Failure> {
        let key = MockKey::drawn();
        if let Some(path) = &self.users {
            return read(path, "--users", |text| Users::parse(text, key));
        }
        let text = match login {
            Some((user, Credential::Password(password))) => {
                let quoted = |text: &[u8]| String::from_utf8_lossy(text).replace('"', "\"\"");
                format!("\"{}\" \"{}\"", quoted(user), quoted(password))
            }
            _ if matches!(self.auth, MethodName::Trust) || self.hba.is_some() => String::new(),
            _ => {
                return Err(Failure::Usage(
                    "nobody could log in: name the users with `--users userlist.txt`, or give the \
                     password of the user of `--db` in PGPASSWORD; `--auth trust` asks for none"
                        .into(),
                ));
            }
        };
        Users::parse(&text, key).map_err(|error| {
            Failure::Usage(format!("the user of `--db` cannot be let in: {}", error.cause))
        })
    }
}

/// Reads a file that says who may come in.
fn read<T, E: std::fmt::Display>(
    path: &Path,
    flag: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Failure> {
    let wrong = |cause: &dyn std::fmt::Display| {
        Failure::Usage(format!("`{flag} {}`: {cause}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    parse(&text).map_err(|error| wrong(&error))
}

/// The servers of one address, which may name several.
fn addresses(place: &Place) -> Result<Vec<Address>, Failure> {
    let ports = place.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
    let hosts = place.get_hosts();
    let numbers = place.get_hostaddrs();
    if !numbers.is_empty() {
        let numbers = numbers.iter().enumerate();
        return Ok(numbers
            .map(|(at, ip)| match hosts.get(at) {
                Some(Host::Tcp(name)) => tcp(name, (*ip, port(at)).into()),
                _ => Address::Tcp((*ip, port(at)).into()),
            })
            .collect());
    }
    hosts
        .iter()
        .enumerate()
        .map(|(at, host)| match host {
            Host::Tcp(name) => {
                let wrong = |why: &dyn std::fmt::Display| {
                    Failure::Usage(format!("`--db`: there is no host {name}: {why}"))
                };
                let mut found =
                    (name.as_str(), port(at)).to_socket_addrs().map_err(|error| wrong(&error))?;
                let found = found.next().ok_or_else(|| wrong(&"the name has no address"))?;
                Ok(tcp(name, found))
            }
            Host::Unix(folder) => Ok(Address::Unix(folder.join(format!(".s.PGSQL.{}", port(at))))),
        })
        .collect()
}

/// Checks that a gate may stand in front of these servers, if `--public` was said so often.
fn within_reach(servers: &[Address], public: u8) -> Result<(), Failure> {
    for server in servers {
        match server {
            Address::Tcp(address) => reachable(&address.to_string(), [address.ip()], public)?,
            Address::Host { name, address } => reachable(name, [address.ip()], public)?,
            // It is asked when there is an address, before anybody connects.
            Address::Unresolved { .. } | Address::Unix(_) => {}
        }
    }
    Ok(())
}

/// An address, and the name by which it was found if that says more.
fn tcp(name: &str, address: SocketAddr) -> Address {
    if name.parse::<IpAddr>().is_ok() {
        return Address::Tcp(address);
    }
    Address::Host { name: name.to_owned(), address }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PostgresArgs,
    }

    /// The story: `gate http` took a time there, and this gate `wait` and `refuse` alone.
    #[test]
    fn an_unreachable_server_is_waited_for_as_long_as_is_said() {
        let limit = |said: &[&str]| {
            let url = "postgresql://clerk@127.0.0.1/shop";
            let line = ["gate", "--db", url, "--slots", "1", "--auth", "trust"];
            let line = line.into_iter().chain(said.iter().copied());
            Line::try_parse_from(line).ok()?.args.config().ok().map(|config| config.unreachable_max)
        };
        let most = Duration::from_millis(2500);
        assert_eq!(limit(&["--unreachable", "2500ms"]), Some(Some(most)));
        assert_eq!(limit(&["--unreachable", "refuse"]), Some(Some(Duration::ZERO)));
        assert_eq!((limit(&["--unreachable", "wait"]), limit(&[])), (Some(None), Some(None)));
        assert_eq!(limit(&["--unreachable", "2500"]), None, "a time has a unit");
    }

    /// Asks the decision, and connects nowhere.
    #[test]
    fn a_gate_before_a_public_server_is_asked_for_once() {
        let at = |text: &str| Address::Tcp(text.parse().unwrap());
        let named =
            Address::Host { name: "db".into(), address: "203.0.113.9:5432".parse().unwrap() };
        let socket = Address::Unix("/tmp/.s.PGSQL.5432".into());
        let own = [at("127.0.0.1:5432"), socket, at("[fd00::1]:5432")];
        assert!(within_reach(&own, 0).is_ok());
        for public in [at("203.0.113.9:5432"), named] {
            let servers = [at("10.0.0.1:5432"), public];
            let error = within_reach(&servers, 0).unwrap_err().to_string();
            assert!(error.contains("203.0.113.9") && error.contains("`--public` says"), "{error}");
            assert!(within_reach(&servers, 1).is_ok());
        }
    }
}
