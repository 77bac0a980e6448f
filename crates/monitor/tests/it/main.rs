//! The TP monitor on real sockets, before a private PostgreSQL, with real clients and raw ones.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod access_log;
mod adapting;
mod cancelling;
mod classes;
mod copying;
mod dying;
mod encrypted_servers;
mod encrypting;
mod entering;
mod faults;
mod kept;
mod limiting;
mod listening;
mod looking;
mod looking_up;
mod maintenance;
mod meanings;
mod modelling;
mod modes;
mod operating;
mod passage;
mod quotas;
mod refusing;
mod reloading;
mod renewing;
mod replicating;
mod routing;
mod sequences;
mod session_state;
mod taking_over;
mod traps;
mod waiting;
mod watching;
mod witness;
mod workers;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use monitor::{
    Address, Admission, Config, Database, Finished, Handle, Mode, Monitor, Reuse, Stats,
};
use pgwire::auth::{Credential, Method};
use pgwire::frame::Backend;
use pgwire::message::{read, write};
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::{Version, write_startup};
use postgres::{Private, Settings};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use pgtest::{Bound, password_of};

/// The connections of each server that tests share, and those that a test may have at once, gates' and its own.
const CONNECTIONS_MAX: usize = 100;
const SHARE: usize = 15;

/// One bound for all these servers: a test that held a share of one and waited for another could wait for itself.
static CONNECTIONS: Bound = Bound::of(CONNECTIONS_MAX, SHARE);

/// The server of all tests here; it ends with this process.
fn server() -> &'static Private {
    static SERVER: OnceLock<Private> = OnceLock::new();
    CONNECTIONS.enter();
    SERVER.get_or_init(|| {
        let most = CONNECTIONS_MAX.to_string();
        let parameters =
            [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", &*most)];
        let parameters =
            parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Private::start(&Settings { parameters, ..Settings::default() }).unwrap()
    })
}

/// What a client needs to log in, at the server and at the gate.
fn account(url: &str) -> tokio_postgres::Config {
    url.parse().unwrap()
}

fn password() -> Vec<u8> {
    password_of(server())
}

/// As whom a gate logs in at a private server.
fn login(server: &Private) -> Option<(Vec<u8>, Credential)> {
    Some((b"sekisho".to_vec(), Credential::Password(password_of(server))))
}

/// The one database of the server, with as many slots.
fn database(mode: Mode, slots: u32) -> Database {
    let url = account(server().url().as_str());
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], server().port())));
    let mut database = Database::new(url.get_dbname().unwrap(), vec![address], slots);
    database.mode = mode;
    database.reuse = Reuse::Rotate;
    database.login = login(server());
    database
}

/// A configuration that lets in the server's own user.
fn config(database: Database) -> Config {
    let password = String::from_utf8(password()).unwrap();
    let users = format!("\"sekisho\" \"{password}\"\n");
    let users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), vec![database], users);
    config.timeouts.drain = Duration::from_secs(10);
    config.record_max = 1_000_000;
    config.workers = workers();
    config
}

/// How many workers the monitors of all tests here have that do not say so themselves.
fn workers() -> usize {
    let said = std::env::var("SEKISHO_WORKERS");
    said.map_or(1, |number| number.parse().expect("SEKISHO_WORKERS is a number"))
}

/// A monitor that runs. It is drained, and all that it recorded replayed, when it is dropped.
struct Gate {
    handle: Handle,
    thread: Option<std::thread::JoinHandle<Finished>>,
}

impl Gate {
    fn new(config: Config) -> Gate {
        let monitor = Monitor::bind(config).unwrap();
        let handle = monitor.handle();
        let thread = std::thread::spawn(move || monitor.run().unwrap());
        Gate { handle, thread: Some(thread) }
    }

    fn of(mode: Mode, slots: u32) -> Gate {
        Gate::new(config(database(mode, slots)))
    }

    fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    fn stats(&self) -> Stats {
        self.handle.stats().unwrap()
    }

    /// Waits until the figures are as they should be.
    fn until(&self, what: &str, holds: impl Fn(&Stats) -> bool) {
        let began = Instant::now();
        while !holds(&self.stats()) {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.stats());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Drains it, and holds that every slot was given back and the recordings replay.
    fn end(mut self) -> Finished {
        self.handle.drain().unwrap();
        let finished = self.thread.take().unwrap().join().unwrap();
        for (pool, recording) in finished.stats.pools.iter().zip(&finished.recordings) {
            assert_eq!((pool.busy, pool.waiting, pool.slots_dropped), (0, 0, 0), "{pool:?}");
            assert_eq!(recording.as_ref().unwrap().replay(), Ok(()));
        }
        for (quota, recording) in finished.stats.quotas.iter().zip(&finished.quota_recordings) {
            assert_eq!((quota.busy, quota.waiting, quota.slots_dropped), (0, 0, 0), "{quota:?}");
            assert_eq!(recording.as_ref().unwrap().replay(), Ok(()));
        }
        finished
    }

    /// What is left when a drain that was asked for has ended.
    fn thread_ends(mut self) -> Finished {
        self.thread.take().unwrap().join().unwrap()
    }

    /// The account of the server's own user, by way of the gate.
    fn account(&self) -> tokio_postgres::Config {
        let mut account = account(server().url().as_str());
        let (user, name) = (account.get_user().unwrap().to_owned(), password());
        let database = account.get_dbname().unwrap().to_owned();
        account = tokio_postgres::Config::new();
        account.user(user).password(name).dbname(database);
        account.host("127.0.0.1").port(self.address().port());
        account.connect_timeout(Duration::from_secs(20));
        account
    }

    async fn connect(&self) -> Client {
        enter(&self.account()).await.unwrap()
    }
}

/// A client whose connection is served until it goes.
async fn enter(account: &tokio_postgres::Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = account.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The first column of the first row.
async fn ask(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    let answer = client.simple_query(sql).await?;
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.unwrap_or_default().to_owned())
}

/// The code of an error that the other side has told.
fn code(error: &tokio_postgres::Error) -> String {
    let code = error.code().map(|code| code.code().to_owned());
    code.unwrap_or_else(|| format!("no code: {error}"))
}

/// The server's own account, without a detour.
async fn directly() -> Client {
    enter(&account(server().url().as_str())).await.unwrap()
}

/// A configuration that lets in whoever comes.
fn trusting(database: Database) -> Config {
    let mut config = config(database);
    config.admission = Admission::Everybody(Method::Trust);
    config
}

/// A client that says and hears bytes.
struct Raw {
    stream: TcpStream,
    /// By which it may cancel.
    process: u32,
    secret: Vec<u8>,
}

impl Raw {
    fn connect(gate: &Gate) -> Raw {
        Raw::connect_to(gate.address())
    }

    fn connect_to(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, process: 0, secret: Vec::new() }
    }

    /// One that is in, without a password, and has heard all that there is to hear.
    fn enter(gate: &Gate, version: Version, parameters: &[(&str, &str)]) -> Raw {
        let mut raw = Raw::connect(gate);
        raw.start(version, parameters);
        raw.entered()
    }

    /// Hears all until it is in.
    fn entered(mut self) -> Raw {
        loop {
            match self.hear() {
                (Backend::ReadyForQuery, _) => return self,
                (Backend::BackendKeyData, body) => {
                    let (process, secret) = read::backend_key_data(&body).unwrap();
                    (self.process, self.secret) = (process, secret.to_vec());
                }
                (Backend::ErrorResponse, body) => panic!("{}", shown(&body)),
                _ => {}
            }
        }
    }

    /// The same of another database.
    fn enter_at(gate: &Gate, database: &str) -> Raw {
        let mut raw = Raw::connect(gate);
        raw.start_at(database, Version::V3_2, &[]);
        raw.entered()
    }

    fn start(&mut self, version: Version, parameters: &[(&str, &str)]) {
        let database = account(server().url().as_str()).get_dbname().unwrap().to_owned();
        self.start_at(&database, version, parameters);
    }

    fn start_at(&mut self, database: &str, version: Version, parameters: &[(&str, &str)]) {
        self.start_of(("sekisho", database), version, parameters);
    }

    fn start_of(
        &mut self,
        (user, database): (&str, &str),
        version: Version,
        parameters: &[(&str, &str)],
    ) {
        let all = [("user", user), ("database", database)];
        let all =
            all.iter().chain(parameters).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut out = Vec::new();
        write_startup(&mut out, version, all).unwrap();
        self.say(&out);
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn query(&mut self, sql: &str) {
        let mut out = Vec::new();
        write::query(&mut out, sql);
        self.say(&out);
    }

    /// The next message.
    fn hear(&mut self) -> (Backend, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).unwrap();
        use pgwire::frame::Tag;
        (Backend::from_byte(head[0]).unwrap(), body)
    }

    /// The messages up to ReadyForQuery, as tags with the first column of rows and codes of errors.
    fn answer(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            match self.hear() {
                (Backend::ReadyForQuery, body) => {
                    heard.push(format!("Z{}", char::from(body[0])));
                    return heard;
                }
                (Backend::DataRow, body) => {
                    let length = i32::from_be_bytes([body[2], body[3], body[4], body[5]]);
                    let end = 6 + usize::try_from(length).unwrap_or(0);
                    heard.push(String::from_utf8_lossy(&body[6..end]).into_owned());
                }
                (Backend::ErrorResponse, body) => heard.push(shown(&body)),
                (Backend::RowDescription | Backend::ParameterStatus, _) => {}
                (Backend::CommandComplete, body) => {
                    heard.push(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned());
                }
                (Backend::NoticeResponse, body) => heard.push(shown(&body)),
                (tag, _) => heard.push(format!("{tag:?}")),
            }
        }
    }

    /// All that comes until the other side closes.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    /// The error that comes, and the end behind it.
    fn last_words(&mut self) -> String {
        let (tag, body) = self.hear();
        assert_eq!(tag, Backend::ErrorResponse);
        assert_eq!(self.rest(), b"", "it was closed");
        shown(&body)
    }
}

/// An error as `SEVERITY CODE message`.
fn shown(body: &[u8]) -> String {
    let fields = read::fields(body).unwrap();
    let text = |kind| String::from_utf8_lossy(fields.field(kind).unwrap_or_default()).into_owned();
    format!("{} {} {}", text(b'S'), text(b'C'), text(b'M'))
}
