//! The server, the gate before it, and how a driver's program is run between its limits of time.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pgtest::Bound;
use postgres::{Private, Settings};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Number of clients that a program has at the same time, where it shows what many do.
pub(crate) const CLIENTS: usize = 8;
/// Number of slots that these share: as many as one check needs at once, which are who is looked
/// at, who looks, and who goes on beside.
const SLOTS: usize = 3;
/// A program that takes longer hangs. A busy machine has many times what it needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// For how long a client keeps its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Transaction,
    Session,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Transaction => "transaction",
            Mode::Session => "session",
        }
    }
}

/// The server of all tests here; it ends with this process.
pub(crate) fn server() -> &'static Private {
    // Of a program's clients, directly, and of the gate.
    static CONNECTIONS: Bound = Bound::of(80, CLIENTS + SLOTS);
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let parameters = [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "80")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings { parameters: parameters.to_vec(), ..Settings::default() };
        Private::start(&settings).expect("a server starts")
    })
}

/// A gate that runs before the server. It is ended with this value.
pub(crate) struct Behind {
    gate: Child,
    mode: Mode,
    account: tokio_postgres::Config,
}

impl Behind {
    pub(crate) fn start(mode: Mode) -> Behind {
        Behind::start_with(mode, &["--slots", &SLOTS.to_string()])
    }

    /// One with these options.
    pub(crate) fn start_with(mode: Mode, options: &[&str]) -> Behind {
        let url = server().url();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sekisho"));
        command.args(["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url.as_str()]);
        command.args(["--mode", mode.name(), "--admin", "sekisho"]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut gate = command.spawn().expect("the gate starts");
        let mut said = BufReader::new(gate.stdout.take().expect("piped above"));
        let mut text = String::new();
        let address = loop {
            assert!(said.read_line(&mut text).expect("it writes UTF-8") > 0, "{text}");
            // The address is whole when something stands behind it.
            if let Some((_, rest)) = text.split_once("listening on ")
                && let Some((address, _)) = rest.split_once(char::is_whitespace)
            {
                break address.to_owned();
            }
        };
        // What it says at its end must find somebody who reads.
        thread::spawn(move || said.read_to_string(&mut text));
        let mut account: tokio_postgres::Config = url.as_str().parse().expect("it is an address");
        let (_, port) = address.rsplit_once(':').expect("it has a port");
        let password = account.get_password().expect("there is one").to_vec();
        let (user, database) = (account.get_user(), account.get_dbname());
        let (user, database) = (user.expect("it has one"), database.expect("it has one"));
        let mut gated = tokio_postgres::Config::new();
        gated.user(user).dbname(database).password(password).host("127.0.0.1");
        gated.port(port.parse().expect("it is a number"));
        account = gated;
        Behind { gate, mode, account }
    }

    /// Account by which a client of the gate logs in.
    pub(crate) fn account(&self) -> &tokio_postgres::Config {
        &self.account
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Tells a program what it must know, in the variables that most drivers read by themselves.
    /// Its tables are its own.
    pub(crate) fn tell(&self, command: &mut Command, name: &str) {
        let password = self.account.get_password().expect("there is one");
        let password = std::str::from_utf8(password).expect("it is made of letters");
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.account.get_ports()[0].to_string());
        command.env("PGUSER", self.account.get_user().expect("it has one"));
        command.env("PGDATABASE", self.account.get_dbname().expect("it has one"));
        command.env("PGPASSWORD", password).env("SEKISHO_MODE", self.mode.name());
        command.env("SEKISHO_CLIENTS", CLIENTS.to_string());
        command.env("SEKISHO_TABLE", format!("{name}_{}", self.mode.name()));
    }

    /// Holds that no slot and no client is left over, and ends the gate.
    pub(crate) fn end(mut self) {
        let began = Instant::now();
        loop {
            let left = self.pools();
            if left.iter().all(|(_, counts)| counts.iter().all(|count| count == "0")) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "still there: {left:?}");
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.console("shutdown wait_for_servers");
        while self.gate.try_wait().expect("it is our child").is_none() {
            assert!(began.elapsed() < Duration::from_secs(90), "the gate does not end");
            thread::sleep(Duration::from_millis(20));
        }
        let status = self.gate.wait().expect("it has ended");
        assert!(status.success(), "the gate ended with {status}");
    }

    /// Clients and servers of each pool that are in use.
    fn pools(&self) -> Vec<(String, Vec<String>)> {
        let columns = ["cl_active", "cl_waiting", "cl_active_cancel_req", "sv_active"];
        let rows = self.console("show pools");
        let of_database = rows.into_iter().filter(|row| row.get("database") != Some("pgbouncer"));
        of_database
            .map(|row| {
                let counts = columns.map(|column| row.get(column).unwrap_or_default().to_owned());
                (row.get("database").unwrap_or_default().to_owned(), counts.to_vec())
            })
            .collect()
    }

    fn console(&self, command: &str) -> Vec<tokio_postgres::SimpleQueryRow> {
        let mut account = self.account.clone();
        account.dbname("pgbouncer");
        runtime().block_on(async {
            let (client, connection) = account.connect(NoTls).await.expect("the console answers");
            tokio::spawn(connection);
            let heard = client.simple_query(command).await.unwrap_or_default();
            let rows = heard.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            rows.collect()
        })
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // It has ended by itself unless a test fails.
        let _ = self.gate.kill();
        let _ = self.gate.wait();
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is room")
}

/// Runs a program to its end; the names of what it has shown.
pub(crate) fn run(mut program: Command) -> Vec<String> {
    let said = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = said.unwrap_or_else(|error| panic!("{program:?} does not start: {error}"));
    let pipe = BufReader::new(child.stdout.take().expect("piped above"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        pipe.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let (deadline, mut checks) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                checks.extend(line.strip_prefix("ok ").map(str::to_owned));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // A child that has ended meanwhile is as good.
                let _ = child.kill();
                let _ = child.wait();
                panic!("{program:?} hangs after {checks:?}");
            }
        }
    }
    let status = child.wait().expect("it is our child");
    assert!(status.success(), "{program:?} ended with {status} after {checks:?}");
    checks
}
