//! `sekisho gate postgres --config`: the gate as a file describes it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::load::Reach;
use ::tpcc::Config as Place;
use cli::text::{next, sentence};
use cli::{Failure, Verdict, say};
use gatefile::{Disk, GateFile, Method, load, to_monitor, unresolved};
use monitor::{Address, Config, Database, Monitor};
use pgwire::auth::Credential;
use pgwire::secrets::MockKey;

use super::super::answer::PostgresChecked;
use super::super::service;
use super::super::start::{Asked, Descriptors, places_of, try_databases};
use super::names::{Names, ask_again};
use super::{
    PostgresArgs, Servers, Written, address, as_a_user, end, started, taking_over, unstarted,
    within_reach,
};

/// Number of databases that are named at the start.
const NAMED: usize = 3;

/// A file that was read, and what is to be told of it.
struct Read {
    config: Config,
    file: GateFile,
    told: Vec<String>,
}

pub(super) fn run(args: &PostgresArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let path = args.config.clone().expect("its caller has looked");
    let listen = args.listen.as_deref().map(|name| address("--listen", name)).transpose()?;
    let key = MockKey::drawn();
    let door = args.take_over.clone();
    let public = args.public;
    let Read { mut config, file, told } = read(&path, listen, &key).map_err(Failure::Usage)?;
    reached(&config, public)?;
    config.takeover = door.clone().or(config.takeover);
    let recorded = file.record.as_ref().map(|record| PathBuf::from(&record.file));
    if args.policy.record.is_some() {
        config.record_max = args.policy.record_max();
    }
    let record = args.policy.record.clone().or(recorded);
    config.decisions = Some(decided);
    tell(&told);
    let servers = secured(&config, &file, format!("its address in {}", path.display()))?;
    let names: Vec<String> = config.databases.iter().map(|one| one.name.clone()).collect();
    let finish = move |config: &mut Config| {
        reached(config, public).map_err(|failure| failure.to_string())?;
        config.takeover = door.clone().or(config.takeover.take());
        config.decisions = Some(decided);
        Ok::<(), String>(())
    };
    let missing = Arc::new(Mutex::new(Names::new(file, &config)));
    let (finishes, asked, secret) = (finish.clone(), Arc::clone(&missing), key.clone());
    let last = Arc::clone(&missing);
    let (changes, hidden) = (finish.clone(), key.clone());
    let changed = move |sets: &[(String, String)]| {
        let mut names = last.lock().map_err(|_| "the file cannot be had any more".to_owned())?;
        names.changed(sets, &Disk, &hidden, &changes)
    };
    let again = move || {
        let Read { mut config, file, told } = read(&path, listen, &key)?;
        finish(&mut config)?;
        tell(&told);
        if let Ok(mut missing) = missing.lock() {
            *missing = Names::new(file, &config);
        }
        Ok(config)
    };
    let monitor = Monitor::bind(config)
        .and_then(Monitor::drain_on_signals)
        .and_then(|monitor| monitor.reload_from(again))
        .map(|monitor| monitor.set_by(changed))
        .and_then(|monitor| monitor.log_to(std::io::stderr()))
        .map(|monitor| servers.known_to(monitor))
        .map_err(unstarted)?;
    let handle = monitor.handle();
    std::thread::Builder::new()
        .name("sekisho-names".into())
        .spawn(move || ask_again(&asked, &handle, &secret, finishes, decided))
        .map_err(Failure::machine)?;
    say(out, &beginning(args, &monitor, &names))?;
    out.flush()?;
    service::ready();
    let finished = monitor.run().map_err(Failure::machine)?;
    let written = Written { record: record.as_deref(), model: args.auto.model.as_deref() };
    end(&finished, written, args.json, out)
}

/// Sees whether the system and the servers give what the file asks for. Servers are asked as the forced user of a
/// database, where the file has the password. `by` names the servers.
fn secured(config: &Config, file: &GateFile, by: String) -> Result<Servers, Failure> {
    let slots = |database: &Database, at: usize| match &database.auto {
        Some(auto) => auto.ceiling,
        None => database.gate.servers[at].slots,
    };
    let most = [file.limits.slots, file.limits.database_slots].into_iter().flatten().min();
    let most = most.unwrap_or(u32::MAX);
    let mut servers = 0;
    let mut asked = Vec::new();
    for database in &config.databases {
        for (at, server) in database.servers.iter().enumerate() {
            let slots = slots(database, at).min(most);
            servers += u64::from(slots);
            let (Address::Tcp(address) | Address::Host { address, .. }) = server else { continue };
            let Some((user, Credential::Password(password))) = &database.login else { continue };
            let mut place = Place::new();
            place.host(address.ip().to_string()).port(address.port()).password(password);
            place.user(String::from_utf8_lossy(user));
            place.dbname(database.target.as_deref().unwrap_or(&database.name));
            // Whoever may stand before it was judged already.
            let Ok(place) = place.within(Reach::Anywhere) else { continue };
            let by = format!("database {}: slots", database.name);
            let places = places_of(std::slice::from_ref(server));
            asked.push(Asked { place, places, slots, by, is_ceiling: database.auto.is_some() });
        }
    }
    let clients = config.limits.clients as u64;
    Descriptors { clients, clients_by: "limits.connections", servers }.secured()?;
    let servers = Servers::tried(config, by);
    try_databases(asked, &servers.down)?;
    Ok(servers)
}

/// Checks that the gate may stand in front of every server that the file names.
pub(super) fn reached(config: &Config, public: u8) -> Result<(), Failure> {
    config.databases.iter().try_for_each(|database| within_reach(&database.servers, public))
}

/// Says whether a gate could start from a file.
pub(super) fn check(
    path: &Path,
    public: u8,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let name = path.display();
    let Read { config, file, mut told } =
        read(path, None, &MockKey::drawn()).map_err(Failure::Usage)?;
    // Nothing is connected to here, so that it is told and refused nothing.
    let unreached = reached(&config, public).err();
    told.extend(unreached.as_ref().map(Failure::to_string));
    let users = config.users.names().count();
    config.try_out().map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let databases: Vec<&str> = file.database.iter().map(|one| &*one.name).collect();
    if json {
        let (classes, notes) = (file.class.len(), told);
        let answer = PostgresChecked { databases, users, classes, notes };
        say(out, &cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer))?;
        return Ok(Verdict::Holds);
    }
    let counted = |number: usize, one: &str, more: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    };
    let mut text = sentence(&format!(
        "{name}: a gate can start with it: {}, {}, {}",
        counted(databases.len(), "database", "databases"),
        counted(users, "known user", "known users"),
        counted(file.class.len() + 1, "class", "classes"),
    ));
    for told in &told {
        text += &sentence(&format!("note: {told}"));
    }
    let public = if unreached.is_some() || public > 0 { " --public" } else { "" };
    say(out, &(text + &next(&format!("sekisho gate postgres --config {name}{public}"))))?;
    Ok(Verdict::Holds)
}

/// Says on standard error what was decided about slots that are left to the gate, and how a takeover
/// goes.
fn decided(line: &str) {
    super::tell(line);
}

/// Says on standard error what is remarkable about a file.
fn tell(told: &[String]) {
    for told in told {
        // Who closed standard error does not want to know.
        let _ = write!(std::io::stderr(), "{}", sentence(&format!("note: {told}")));
    }
}

/// Reads the file; an address of the command line stands in place of those that it names.
fn read(path: &Path, listen: Option<SocketAddr>, key: &MockKey) -> Result<Read, String> {
    let mut loaded = load(path).map_err(|error| error.to_string())?;
    if let Some(listen) = listen {
        let file = &mut loaded.file;
        let trusts = matches!(file.auth.method, Method::Trust | Method::Any);
        if trusts && !listen.ip().is_loopback() && !file.auth.trust_remote {
            return Err(format!(
                "`--listen {listen}` is no loopback address, and {} lets in whoever comes: let \
                 clients prove who they are, or listen on 127.0.0.1",
                path.display()
            ));
        }
        file.listen = vec![listen.to_string()];
    }
    let (file, mut told) = loaded.to_run().map_err(|error| error.to_string())?;
    let config = to_monitor(&file, &Disk, key);
    let config = config.map_err(|error| format!("{}: {error}", path.display()))?;
    told.extend(unresolved(&config));
    Ok(Read { config, file, told })
}

fn beginning(args: &PostgresArgs, monitor: &Monitor, names: &[String]) -> String {
    let handle = monitor.handle();
    let addresses = handle.addresses();
    let first = &addresses[0];
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    if args.json {
        return started(monitor, names.to_vec());
    }
    let mut named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("{} more", names.len().saturating_sub(NAMED));
    if names.len() > NAMED {
        named.push(&more);
    }
    let kind = if names.len() == 1 { "database" } else { "databases" };
    let text = sentence(&format!(
        "gate: listening on {} for {kind} {}",
        shown.join(" and "),
        named.join(", ")
    )) + &taking_over(monitor);
    let place = match first {
        Address::Tcp(address) | Address::Host { address, .. } => {
            format!("host={} port={}", address.ip(), address.port())
        }
        Address::Unresolved { name, port } => format!("host={name} port={port}"),
        Address::Unix(path) => {
            let port = path.extension().unwrap_or_default().display();
            format!("host={} port={port}", path.parent().unwrap_or(path).display())
        }
    };
    let database = names.iter().find(|name| *name != "*").map(String::as_str);
    text + &as_a_user(&place, database)
}
