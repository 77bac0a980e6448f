//! Programs that are measured, and the server that they stand before.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use monitor::{Address, Admission, Classes, Config, Database, JobClass, Monitor};
use pgsession::sql::{Class, Pattern, Rule, Test};
use pgwire::auth::{Credential, Method};
use pgwire::secrets::{MockKey, Users};
use postgres::{Private, Settings};

use super::{overload, relay};

/// CPU of the measured program alone; server and load are on the other.
const OWN_CPU: &str = "1";
const OTHER_CPU: &str = "0";
const BOTH_CPUS: &str = "0,1";
/// Time that a process may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// Program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Relay,
    PgBouncer,
    Gate,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Relay => "relay",
            Kind::PgBouncer => "PgBouncer",
            Kind::Gate => "gate",
        }
    }
}

/// When a client gives its connection back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Session,
    Transaction,
}

fn program(variable: &str, name: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

/// # Errors
/// What is missing, and how to get it.
pub(crate) fn check_machine() -> Result<(), String> {
    let needed = [
        (program("PGBOUNCER", "pgbouncer"), "--version", "pgbouncer"),
        (program("PGBENCH", "pgbench"), "--version", "postgresql-contrib"),
        ("taskset".to_owned(), "-V", "util-linux"),
        ("setpriv".to_owned(), "-V", "util-linux"),
    ];
    for (program, flag, package) in needed {
        let mut peer = Command::new(&program);
        if peer.arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Err(format!("{program} is missing: apt-get install {package}"));
        }
    }
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("who is measured needs a CPU of its own, and there is one in all".to_owned());
    }
    Ok(())
}

fn first_line(program: &str) -> String {
    let output = Command::new(program).arg("--version").output().expect("it was there just now");
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn pgbouncer_version() -> String {
    first_line(&program("PGBOUNCER", "pgbouncer"))
}

pub(crate) fn pgbench_version() -> String {
    first_line(&program("PGBENCH", "pgbench"))
}

/// True if PgBouncer keeps prepared statements in transaction mode.
pub(crate) fn pgbouncer_prepares() -> bool {
    let version = pgbouncer_version();
    let mut numbers = version.rsplit(' ').next().unwrap_or_default().split('.');
    let mut next = || numbers.next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    (next(), next()) >= (1, 21)
}

/// A private PostgreSQL with pgbench's tables.
pub(crate) struct Server {
    private: Private,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Server {
        let private = Private::start(&Settings::default()).expect("a private PostgreSQL");
        let process = private.pid().expect("it runs").to_string();
        let pinned = Command::new("taskset").args(["-acp", OTHER_CPU, &process]).output();
        assert!(pinned.expect("taskset is there").status.success(), "{process} cannot be pinned");
        let url = private.url().as_str().to_owned();
        let rest = url.strip_prefix("postgresql://").expect("the form of a URL");
        let (login, place) = rest.split_once('@').expect("it has a user");
        let (user, password) = login.split_once(':').expect("and a password");
        let (_, database) = place.split_once('/').expect("and a database");
        let server = Server {
            user: user.to_owned(),
            password: password.to_owned(),
            database: database.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], private.port())),
            private,
        };
        let filled = server.pgbench(server.address).args(["-i", "-q", "-s", "1"]).output();
        assert!(filled.expect("pgbench is there").status.success(), "pgbench has filled no tables");
        server
    }

    pub(crate) fn version(&self) -> String {
        format!("PostgreSQL {}", self.private.programs().version())
    }

    fn pgbench(&self, address: SocketAddr) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", OTHER_CPU, &program("PGBENCH", "pgbench"), "-h", "127.0.0.1", "-p"]);
        command.arg(address.port().to_string()).args(["-U", &self.user, &self.database]);
        command.env("PGPASSWORD", &self.password);
        command.env("PGSSLMODE", "disable").env("PGGSSENCMODE", "disable");
        command
    }
}

/// One of those that are measured; it ends with this value.
pub(crate) struct Side {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: Option<PathBuf>,
}

impl Drop for Side {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            // What is left is a small folder among the temporary ones.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Results of one run of pgbench.
pub(crate) struct Run {
    /// CPU time of the process a transaction \[us\].
    pub(crate) cpu_us: f64,
    pub(crate) latency_us: f64,
    pub(crate) transactions: f64,
}

impl Side {
    /// Clients come in without a password: what logging in costs is not what is compared.
    pub(crate) fn start(kind: Kind, mode: Mode, server: &Server, slots: u32) -> Side {
        match kind {
            Kind::PgBouncer => pgbouncer(mode, server, slots, ""),
            Kind::Relay => ourselves(OWN_CPU, &["relay", &server.address.to_string()], server),
            Kind::Gate => {
                assert_eq!(mode, Mode::Transaction, "the gate is measured as it is meant");
                Side::gate("gate", OWN_CPU, server, slots, 1)
            }
        }
    }

    /// The gate with so many workers, which has no CPU of its own.
    pub(crate) fn of_workers(server: &Server, slots: u32, workers: usize) -> Side {
        Side::gate("gate", BOTH_CPUS, server, slots, workers)
    }

    /// One that lets nobody wait for longer than makes sense; the gate is told of the two classes.
    pub(crate) fn of_classes(kind: Kind, server: &Server, slots: u32) -> Side {
        let wait = format!("query_wait_timeout = {}\n", overload::WAIT_MAX.as_secs_f64());
        match kind {
            Kind::Gate => Side::gate("classed-gate", OWN_CPU, server, slots, 1),
            Kind::PgBouncer => pgbouncer(Mode::Transaction, server, slots, &wait),
            Kind::Relay => unreachable!("a relay lets nobody wait"),
        }
    }

    fn gate(what: &str, cpus: &str, server: &Server, slots: u32, workers: usize) -> Side {
        let (address, slots) = (server.address.to_string(), slots.to_string());
        ourselves(cpus, &[what, &address, &slots, &workers.to_string()], server)
    }

    pub(crate) fn press(&self, server: &Server, protocol: &str, clients: u32, seconds: u32) -> Run {
        let before = self.cpu_ns();
        let output = server
            .pgbench(self.address)
            .args(["-n", "-S", "-j", "1", "-M", protocol])
            .args(["-c", &clients.to_string(), "-T", &seconds.to_string()])
            .output()
            .expect("taskset is there");
        let spent = self.cpu_ns() - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pgbench: {text}{errors}");
        let after = |label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label)).expect("it sums up");
            let number = line.trim().split([' ', '/']).next().unwrap_or_default();
            number.parse::<f64>().expect("a number")
        };
        let transactions = after("number of transactions actually processed:");
        Run {
            cpu_us: spent * 1e-3 / transactions,
            latency_us: after("latency average =") * 1e3,
            transactions,
        }
    }

    /// Number of sends of the process for a transaction, as strace counts.
    ///
    /// # Errors
    /// strace is missing, or its words where it has counted nothing: it may not be let.
    pub(crate) fn sends(
        &self,
        server: &Server,
        protocol: &str,
        clients: u32,
    ) -> Result<f64, String> {
        let calls = "trace=sendto,sendmsg,write,writev";
        let process = self.child.id().to_string();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-c", "-U", "calls", "-e", calls, "-p", &process]);
        let strace = strace.stderr(Stdio::piped()).spawn();
        let strace = strace.map_err(|error| format!("strace cannot be started: {error}"))?;
        // It is attached before the first transaction, or these are too many to matter.
        let run = self.press(server, protocol, clients, 2);
        let asked = Command::new("kill").args(["-INT", &strace.id().to_string()]).status();
        asked.expect("kill is there");
        let output = strace.wait_with_output().expect("it was started");
        let text = String::from_utf8_lossy(&output.stderr);
        let sum = text.lines().find_map(|line| line.strip_suffix(" total")?.trim().parse().ok());
        let sum: f64 = sum.ok_or_else(|| format!("strace has no sum: {}", text.trim()))?;
        Ok(sum / run.transactions)
    }

    /// CPU time of all its threads so far \[ns\].
    pub(crate) fn cpu_ns(&self) -> f64 {
        cpu_ns(&self.child.id().to_string())
    }

    /// Memory of its own that is not of a file \[B\].
    pub(crate) fn memory(&self) -> f64 {
        let text =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a child");
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is told");
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("a number") * 1024.0
    }
}

/// CPU time of all threads of a process so far \[ns\].
fn cpu_ns(process: &str) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let ran = tasks.map(|task| {
        let path = task.expect("a thread of it").path().join("schedstat");
        let text = fs::read_to_string(path).expect("the kernel counts");
        text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).expect("a number")
    });
    ran.sum()
}

/// CPU time of this program so far \[ns\].
pub(crate) fn own_cpu_ns() -> f64 {
    cpu_ns("self")
}

fn on_cpus(cpus: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus, program]);
    command
}

/// This program again, as another process.
fn ourselves(cpus: &str, words: &[&str], server: &Server) -> Side {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut command = on_cpus(cpus, me.to_str().expect("a path that is text"));
    command.args(words).args([&server.user, &server.database]);
    command.env("PGPASSWORD", &server.password);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("taskset is there");
    let mut line = String::new();
    let out = child.stdout.take().expect("its output is piped");
    BufReader::new(out).read_line(&mut line).expect("it says its address");
    Side { child, address: line.trim().parse().expect("an address"), folder: None }
}

/// Acts as such a process; true if this program was asked to be one.
pub(crate) fn run_as_child(what: &str, words: &[String]) -> bool {
    let (upstream, rest) = match (what, words) {
        ("relay" | "gate" | "classed-gate", [upstream, rest @ ..]) => (upstream, rest),
        _ => return false,
    };
    let upstream: SocketAddr = upstream.parse().expect("our parent names an address");
    thread::spawn(|| {
        // Nothing is ever written to it: it ends when the parent does.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    match what {
        "relay" => {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = mio::net::TcpListener::bind(any).expect("a free port");
            println!("{}", listener.local_addr().expect("it is bound"));
            relay::run(listener, upstream).expect("it runs until it is killed");
        }
        "classed-gate" => run_gate(classed(gate(upstream, rest))),
        _ => run_gate(gate(upstream, rest)),
    }
    true
}

/// The gate, as `sekisho gate postgres` starts it.
fn gate(upstream: SocketAddr, words: &[String]) -> Config {
    let [slots, workers, user, database] = words else {
        panic!("our parent says slots, workers, user, database")
    };
    let password = std::env::var("PGPASSWORD").expect("our parent says the password");
    let slots = slots.parse().expect("a number");
    let mut database = Database::new(database.as_str(), vec![Address::Tcp(upstream)], slots);
    database.login = Some((user.as_bytes().to_vec(), Credential::Password(password.into())));
    // More wait here than anybody should let wait.
    database.gate.room = Some(20_000);
    let users = Users::parse("", MockKey::drawn()).expect("an empty list");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = Config::new(any, vec![database], users);
    config.admission = Admission::Everybody(Method::Trust);
    config.limits.clients = 20_000;
    config.workers = workers.parse().expect("a number");
    config
}

/// One class is served before the other, and none waits for longer than makes sense.
fn classed(mut config: Config) -> Config {
    let names = overload::NAMES;
    let class = |name: &str| JobClass { name: name.to_owned(), wait_max: None };
    let rule = |at: usize| Rule {
        tests: vec![Test::ApplicationName(Pattern::new(names[at].as_bytes()))],
        class: Class { class: at as u32 + 1, priority: 1 - at as u8 },
    };
    let classes = Classes::new(names.map(class).to_vec(), vec![rule(0), rule(1)]);
    config.classes = classes.expect("each rule names a class that is there");
    let gate = &mut config.databases[0].gate;
    gate.discipline = gate::DisciplineSpec::Priority;
    gate.wait_max = Some(overload::WAIT_MAX);
    config
}

fn run_gate(config: Config) {
    let monitor = Monitor::bind(config).expect("a free port");
    println!("{}", monitor.handle().address());
    monitor.run().expect("it runs until it is killed");
}

/// PgBouncer refuses to run as root, and so runs as PostgreSQL does.
fn pgbouncer(mode: Mode, server: &Server, slots: u32, more: &str) -> Side {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let folder = std::env::temp_dir().join(format!("bench_postgres-{}", address.port()));
    fs::create_dir(&folder).expect("a new folder for temporary files");
    let Server { user, password, database, .. } = server;
    let users = folder.join("users.txt");
    fs::write(&users, format!("\"{user}\" \"{password}\"\n")).expect("room for a file");
    let mode_name = match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
    };
    let prepared = match pgbouncer_prepares() {
        true => "max_prepared_statements = 200\n",
        false => "",
    };
    let text = format!(
        "[databases]\n{database} = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode_name}\n\
         default_pool_size = {slots}\nmax_client_conn = 20000\nlog_connections = 0\n\
         log_disconnections = 0\nlog_stats = 0\n{prepared}{more}",
        server.address.port(),
        address.port(),
        users.display(),
    );
    let file = folder.join("pgbouncer.ini");
    fs::write(&file, text).expect("room for a configuration");
    let mut command = on_cpus(OWN_CPU, "setpriv");
    if let Some((user, group)) = server.private.user() {
        std::os::unix::fs::chown(&users, Some(user), Some(group)).expect("we are root");
        command.args([format!("--reuid={user}"), format!("--regid={group}")]).arg("--clear-groups");
    }
    command.arg(program("PGBOUNCER", "pgbouncer")).arg("-q").arg(&file);
    let child =
        command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("taskset is there");
    let side = Side { child, address, folder: Some(folder) };
    let deadline = Instant::now() + START_MAX;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "PgBouncer does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    side
}
