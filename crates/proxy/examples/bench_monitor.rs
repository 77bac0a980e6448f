//! What a transaction costs at the TP monitor, against PgBouncer, in one run, interleaved; and the
//! memory of a client that says nothing.
//!
//! ```text
//! cargo run --release -p proxy --example bench_monitor [WORDS OF A CASE]
//! ```
//!
//! Both stand before the same private PostgreSQL, in transaction mode, and pgbench presses them in
//! turn with one SELECT by key a transaction. What is compared is the CPU time of the proxy's process
//! for a transaction, which depends far less than the rate on what the others can do. PgBouncer is the
//! one in PATH or in `PGBOUNCER`; before 1.21 it has no prepared statements in transaction mode, so
//! there it is not asked for these.
//!
//! Ends with status 2 if pgbench is missing.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it has measured")]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Private, Settings};
use proxy::postgres::auth::{Credential, Method};
use proxy::postgres::monitor::{Address, Admission, Config, Database, Monitor};
use proxy::postgres::secrets::{MockKey, Users};
use proxy::postgres::startup::{Version, write_startup};

const ROUNDS: usize = 7;
const SECONDS: &str = "3";
const SLOTS: u32 = 10;
/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(10);
/// Clients that say nothing; fewer where the system lets a process have fewer files.
const IDLE: usize = 10_000;
const FILES_KEPT: usize = 100;

struct Case {
    name: &'static str,
    protocol: &'static str,
    clients: &'static str,
}

const CASES: [Case; 4] = [
    Case { name: "simple, 8 clients", protocol: "simple", clients: "8" },
    Case { name: "simple, 64 clients", protocol: "simple", clients: "64" },
    Case { name: "extended, 64 clients", protocol: "extended", clients: "64" },
    Case { name: "prepared, 64 clients", protocol: "prepared", clients: "64" },
];

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.as_slice() {
        [mode, server, password, database, limit] if mode == "monitor" => {
            monitor(server, password, database, limit)
        }
        _ => compare(&words.join(" ")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_monitor: {error}");
            ExitCode::from(2)
        }
    }
}

/// Is the monitor under test: a process of its own, whose figures are its alone.
fn monitor(server: &str, password: &str, database: &str, limit: &str) -> Result<(), Failed> {
    let mut database = Database::new(database, vec![Address::Tcp(server.parse()?)], SLOTS);
    database.login = Some((b"sekisho".to_vec(), Credential::Password(password.into())));
    let users = Users::parse("", MockKey::drawn())?;
    let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)), vec![database], users);
    config.admission = Admission::Everybody(Method::Trust);
    config.limits.clients = limit.parse()?;
    let monitor = Monitor::bind(config)?;
    println!("{}", monitor.handle().address().port());
    monitor.run()?;
    Ok(())
}

/// A proxy that runs, and the port on which it listens.
struct Proxy {
    name: &'static str,
    process: Child,
    port: u16,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let ended = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = ended {
            eprintln!("{} does not end: {error}", self.name);
        }
    }
}

impl Proxy {
    fn monitor(place: &Place) -> Result<Proxy, Failed> {
        let server = format!("127.0.0.1:{}", place.port);
        let words = ["monitor", &server, &place.password, &place.database, "20000"];
        let mut process =
            Command::new(std::env::current_exe()?).args(words).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped above")).read_line(&mut line)?;
        Ok(Proxy { name: "monitor", process, port: line.trim().parse()? })
    }

    /// PgBouncer, where there is one.
    fn pgbouncer(place: &Place, folder: &Path) -> Result<Option<Proxy>, Failed> {
        let program = std::env::var("PGBOUNCER").unwrap_or_else(|_| "pgbouncer".to_owned());
        if Command::new(&program).arg("--version").output().is_err() {
            return Ok(None);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (database, server, password) = (&place.database, place.port, &place.password);
        let (config, users) = (folder.join("pgbouncer.ini"), folder.join("users.txt"));
        fs::write(&users, format!("\"sekisho\" \"{password}\"\n"))?;
        let text = format!(
            "[databases]\n{database} = host=127.0.0.1 port={server} user=sekisho \
             password={password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {SLOTS}\nmax_client_conn = 20000\nlog_connections = 0\n\
             log_disconnections = 0\nlog_pooler_errors = 0\nlog_stats = 0\n",
            users.display()
        );
        fs::write(&config, text)?;
        let mut command = Command::new(program);
        command.arg("-q").arg("-u").arg("nobody").arg(&config);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > START_MAX {
                return Err("PgBouncer does not listen".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(Proxy { name: "PgBouncer", process, port }))
    }

    /// The CPU time of all its threads so far [us].
    fn cpu(&self) -> Result<f64, Failed> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id()))?;
        let mut nanos = 0;
        for task in tasks {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(nanos as f64 / 1000.0)
    }

    /// Its own memory, without what it shares with files [B].
    fn memory(&self) -> Result<f64, Failed> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kilobytes.ok_or("no RssAnon in /proc")?.trim().parse::<f64>()? * 1024.0)
    }
}

/// Where the private server is, and what lets in there.
struct Place {
    pgbench: PathBuf,
    port: u16,
    password: String,
    database: String,
}

impl Place {
    /// What pgbench did at a port, a transaction at a time.
    fn press(&self, port: u16, words: &[&str]) -> Result<String, Failed> {
        let port = port.to_string();
        let place = ["-h", "127.0.0.1", "-p", &port, "-U", "sekisho", &self.database];
        let ended = Command::new(&self.pgbench)
            .args(words)
            .args(place)
            .env("PGPASSWORD", &self.password)
            .output()?;
        if !ended.status.success() {
            return Err(String::from_utf8_lossy(&ended.stderr).into_owned().into());
        }
        Ok(String::from_utf8(ended.stdout)?)
    }
}

fn compare(wanted: &str) -> Result<(), Failed> {
    let parameters = [("fsync", "off"), ("shared_buffers", "64MB"), ("max_connections", "50")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server =
        Private::start(&Settings { parameters: parameters.to_vec(), ..Settings::default() })?;
    let url = server.url();
    let (account, rest) = url.as_str().split_once('@').ok_or("no account in its address")?;
    let place = Place {
        pgbench: server.programs().folder().join("pgbench"),
        port: server.port(),
        password: account.rsplit(':').next().unwrap_or_default().to_owned(),
        database: rest.rsplit('/').next().unwrap_or_default().to_owned(),
    };
    place.press(place.port, &["-i", "-q", "-s", "2"])?;
    // Others must be able to read it: PgBouncer does not run as root.
    let folder = std::env::temp_dir();
    let mut proxies = vec![Proxy::monitor(&place)?];
    proxies.extend(Proxy::pgbouncer(&place, &folder)?);
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        measure(case, &place, &proxies)?;
    }
    if "idle".contains(wanted) {
        idle(&place, &folder)?;
    }
    server.stop()?;
    Ok(())
}

/// Presses the proxies in turn, and prints what a transaction cost.
fn measure(case: &Case, place: &Place, proxies: &[Proxy]) -> Result<(), Failed> {
    let words = ["-n", "-S", "-M", case.protocol, "-c", case.clients, "-T", SECONDS];
    let mut costs: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..ROUNDS {
        for proxy in proxies {
            if proxy.name == "PgBouncer" && case.protocol == "prepared" {
                continue;
            }
            let before = proxy.cpu()?;
            let told = place.press(proxy.port, &words)?;
            let done = told
                .lines()
                .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
            let done: f64 = done.ok_or("pgbench does not say what it did")?.trim().parse()?;
            let cost = (proxy.cpu()? - before) / done;
            match costs.iter_mut().find(|(name, _)| *name == proxy.name) {
                Some((_, costs)) => costs.push(cost),
                None => costs.push((proxy.name, vec![cost])),
            }
        }
    }
    for (name, costs) in &costs {
        let [least, median, most] = spread(costs);
        println!(
            "{}: {name} {median:.1} us of CPU a transaction ({least:.1} to {most:.1})",
            case.name
        );
    }
    if let [(_, ours), (_, theirs)] = &costs[..] {
        let pairs: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        let [least, median, most] = spread(&pairs);
        println!("{}: {median:.2} of PgBouncer's ({least:.2} to {most:.2})", case.name);
    }
    Ok(())
}

/// The least, the median and the greatest.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}

/// Prints what a client costs in memory that has logged in and says nothing.
fn idle(place: &Place, folder: &Path) -> Result<(), Failed> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = files.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let clients = IDLE.min(files.unwrap_or(1024).saturating_sub(FILES_KEPT));
    let mut proxies = vec![Proxy::monitor(place)?];
    proxies.extend(Proxy::pgbouncer(place, folder)?);
    for proxy in &proxies {
        let first = enter(proxy.port, place)?;
        let before = proxy.memory()?;
        let inside: Vec<TcpStream> =
            (0..clients).map(|_| enter(proxy.port, place)).collect::<Result<_, _>>()?;
        let each = (proxy.memory()? - before) / clients as f64;
        println!("idle: {} {each:.0} B of memory a client, of {clients}", proxy.name);
        drop((first, inside));
    }
    Ok(())
}

/// A client that has logged in.
fn enter(port: u16, place: &Place) -> Result<TcpStream, Failed> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(START_MAX))?;
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", place.database.as_bytes())];
    write_startup(&mut out, Version::V3_0, parameters)?;
    stream.write_all(&out)?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        io::copy(&mut (&mut stream).take(u64::from(length) - 4), &mut io::sink())?;
        match head[0] {
            b'Z' => return Ok(stream),
            b'E' => return Err("the proxy refuses a client".into()),
            _ => {}
        }
    }
}
