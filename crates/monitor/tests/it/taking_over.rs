//! A gate takes over from another one: whoever speaks in clear stays, the others are let out, and if it
//! comes to nothing nothing has changed.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use monitor::{Address, Config, Finished, Mode, Monitor, StartError, TakeoverError};
use pgwire::auth::Credential;
use pgwire::frame::Frontend;
use pgwire::message::write;
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::{Version, write_cancel, write_ssl_request};
use postgres::{Private, Settings};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio_postgres::Client;

use super::encrypting::{encrypted, start};
use super::listening::Folder;
use super::session_state::at_the_server;
use super::{
    Gate, Raw, account, ask, config as known, database, directly, enter, runtime, shown, trusting,
};
use pgtest::script::{bind, execute, parse, sync};

impl Folder {
    fn door(&self) -> PathBuf {
        self.0.join("takeover")
    }
}

/// A configuration with a door, of gates that take over from each other.
fn at(folder: &Folder, config: Config) -> Config {
    Config { takeover: Some(folder.door()), ..config }
}

/// Somebody who works all the time, as a driver does: with statements and settings of its own, in
/// transactions or without.
async fn works(client: Client, mine: u32, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Client {
    let memory = format!("{}kB", 1100 + mine);
    client.batch_execute(&format!("set work_mem to '{memory}'")).await.unwrap();
    client.batch_execute(&format!("set application_name to 'worker {mine}'")).await.unwrap();
    let adds = format!("select $1::int4 + {mine}");
    let adds = client.prepare(&adds).await.unwrap();
    let shows = client.prepare("select current_setting('work_mem')").await.unwrap();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let sum: i32 = client.query_one(&adds, &[&turn]).await.unwrap().get(0);
        assert_eq!(sum, turn + mine as i32);
        let set: String = client.query_one(&shows, &[]).await.unwrap().get(0);
        assert_eq!(set, memory, "worker {mine}");
        if mine.is_multiple_of(5) {
            client.batch_execute("begin; set local work_mem to '64kB'").await.unwrap();
            let sum: i32 = client.query_one(&adds, &[&turn]).await.unwrap().get(0);
            assert_eq!(sum, turn + mine as i32);
            client.batch_execute("select pg_sleep(0.02)").await.unwrap();
            client.batch_execute("commit").await.unwrap();
        }
        let name = ask(&client, "select current_setting('application_name')").await.unwrap();
        assert_eq!(name, format!("worker {mine}"));
        done.fetch_add(1, Ordering::Relaxed);
    }
    client
}

/// Waits until so much more was done.
async fn go_on(done: &AtomicU64, more: u64) {
    let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
    while done.load(Ordering::Relaxed) < before + more {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn clients_at_work_go_on_with_their_statements_and_settings_and_new_ones_come_all_the_while() {
    let folder = Folder::new("work");
    let config = || at(&folder, known(database(Mode::Transaction, 5)));
    let old = Gate::new(config());
    let account = old.account();
    let place = old.address();
    let stop = Arc::new(AtomicBool::new(false));
    let (done, came) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut new = None;
    runtime().block_on(async {
        let mut workers = Vec::new();
        for mine in 0..50 {
            let client = enter(&account).await.unwrap();
            workers.push(tokio::spawn(works(client, mine, stop.clone(), done.clone())));
        }
        let (again, to, counts) = (stop.clone(), account.clone(), came.clone());
        let visitors = tokio::spawn(async move {
            while !again.load(Ordering::Relaxed) {
                let visitor = enter(&to).await.unwrap();
                assert_eq!(ask(&visitor, "select 7").await.unwrap(), "7");
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        go_on(&done, 200).await;
        let config = config();
        let taken = tokio::task::spawn_blocking(move || Gate::new(config)).await.unwrap();
        assert_eq!(taken.address(), place, "the same socket");
        let finished = tokio::task::spawn_blocking(move || old.thread_ends()).await.unwrap();
        assert_eq!(finished.cut, 0);
        let handed = finished.stats.clients_handed_over;
        assert!(handed >= 50, "{handed}");
        assert_eq!((finished.stats.pools[0].busy, finished.stats.pools[0].waiting), (0, 0));
        assert_eq!(finished.recordings[0].as_ref().unwrap().replay(), Ok(()));
        go_on(&done, 200).await;
        go_on(&came, 3).await;
        assert_eq!(taken.stats().clients_taken_over, handed);
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.await.expect("nobody heard of it");
        }
        visitors.await.expect("everybody got in");
        new = Some(taken);
    });
    let finished = new.unwrap().end();
    assert_eq!(finished.stats.logins_failed, 0);
    assert!(!folder.door().exists(), "it went with the last gate");
}

/// Somebody who wants a query cancelled, and waits until that is done.
fn cancel(gate: &Gate, process: u32, secret: &[u8]) {
    let mut out = Vec::new();
    write_cancel(&mut out, process, secret).unwrap();
    let mut raw = Raw::connect(gate);
    raw.say(&out);
    assert_eq!(raw.rest(), b"", "a cancel request has no answer");
}

/// Cancels again and again until it has hit: a request that comes too early hits nothing.
fn cancel_until(gate: &Gate, raw: &mut Raw) -> Vec<String> {
    let (process, secret) = (raw.process, raw.secret.clone());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                cancel(gate, process, &secret);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let told = raw.answer();
        stop.store(true, Ordering::Relaxed);
        told
    })
}

const CANCELLED: [&str; 2] = ["ERROR 57014 canceling statement due to user request", "ZI"];

#[test]
fn a_cancel_request_finds_its_client_wherever_that_is_by_now() {
    let folder = Folder::new("cancels");
    let config = || at(&folder, trusting(database(Mode::Transaction, 2)));
    let old = Gate::new(config());
    let mut rests = Raw::enter(&old, Version::V3_2, &[]);
    let mut short = Raw::enter(&old, Version::V3_0, &[]);
    let mut works = Raw::enter(&old, Version::V3_2, &[]);
    works.query("select pg_sleep(60)");
    old.until("it works", |stats| stats.pools[0].busy == 1);
    let new = Gate::new(config());
    new.until("those who rest are there", |stats| stats.clients_taken_over == 2);
    // With the new gate.
    for raw in [&mut rests, &mut short] {
        raw.query("select pg_sleep(60)");
        assert_eq!(cancel_until(&new, raw), CANCELLED);
    }
    let mut wrong = works.secret.clone();
    wrong[0] ^= 1;
    cancel(&new, works.process, &wrong);
    // With the old one, which is asked by the new one.
    assert_eq!(cancel_until(&new, &mut works), CANCELLED);
    works.query("select 'there'");
    assert_eq!(works.answer(), ["there", "SELECT 1", "ZI"]);
    let finished = old.thread_ends();
    assert!(finished.stats.cancels >= 1 && finished.stats.cancels_ignored >= 1);
    assert_eq!(new.stats().clients_taken_over, 3);
    works.query("select pg_sleep(60)");
    assert_eq!(cancel_until(&new, &mut works), CANCELLED, "it is the new one's now");
    new.end();
}

fn message(tag: Frontend, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, tag, |out| out.extend_from_slice(body));
    out
}

#[test]
fn what_was_half_said_or_not_read_yet_goes_over_or_is_waited_for() {
    let folder = Folder::new("halves");
    let config = || at(&folder, trusting(database(Mode::Transaction, 4)));
    let old = Gate::new(config());
    let mut half = Raw::enter(&old, Version::V3_2, &[]);
    let mut block = Raw::enter(&old, Version::V3_2, &[]);
    let mut segment = Raw::enter(&old, Version::V3_2, &[]);
    block.query("begin");
    assert_eq!(block.answer(), ["BEGIN", "ZT"]);
    let mut out = Vec::new();
    write::query(&mut out, "select 'all of it'");
    half.say(&out[..7]);
    // A statement without a Sync: what it means is not known yet.
    segment.say(&message(Frontend::Parse, b"mine\0select 'prepared'\0\0\0"));
    old.until("two hold a slot", |stats| stats.pools[0].busy >= 2);
    let new = Gate::new(config());
    let mut fresh = Raw::enter(&new, Version::V3_2, &[]);
    fresh.query("select 'new'");
    assert_eq!(fresh.answer(), ["new", "SELECT 1", "ZI"]);
    assert!(new.stats().clients_taken_over <= 2, "two have servers");
    half.say(&out[7..]);
    assert_eq!(half.answer(), ["all of it", "SELECT 1", "ZI"]);
    segment.say(&message(Frontend::Sync, b""));
    assert_eq!(segment.answer(), ["ParseComplete", "ZI"]);
    block.query("commit");
    assert_eq!(block.answer(), ["COMMIT", "ZI"]);
    let finished = old.thread_ends();
    assert!(finished.cut == 0 && finished.stats.clients_handed_over >= 3, "{:?}", finished.stats);
    let bind = message(Frontend::Bind, b"\0mine\0\0\0\0\0\0\0");
    let execute = message(Frontend::Execute, b"\0\0\0\0\0");
    segment.say(&[bind, execute, message(Frontend::Sync, b"")].concat());
    assert_eq!(segment.answer(), ["BindComplete", "prepared", "SELECT 1", "ZI"]);
    new.end();
}

/// Both have connections to the servers for a while: the old one for what is under way alone.
#[test]
fn the_old_gate_keeps_no_connection_that_nobody_has() {
    let folder = Folder::new("rule");
    let config = || at(&folder, trusting(database(Mode::Transaction, 4)));
    let old = Gate::new(config());
    let mut all: Vec<Raw> = (0..4).map(|_| Raw::enter(&old, Version::V3_2, &[])).collect();
    for raw in &mut all {
        raw.query("begin");
        assert_eq!(raw.answer(), ["BEGIN", "ZT"]);
    }
    for raw in &mut all[..2] {
        raw.query("commit");
        assert_eq!(raw.answer(), ["COMMIT", "ZI"]);
    }
    assert_eq!(old.stats().pools[0].servers, 4, "two of them idle");
    let new = Gate::new(config());
    old.until("it has what is under way", |stats| stats.pools[0].servers == 2);
    let [.., third, _] = &mut all[..] else { panic!("there are four") };
    third.query("commit");
    assert_eq!(third.answer(), ["COMMIT", "ZI"]);
    old.until("one less", |stats| stats.pools[0].servers == 1);
    all[3].query("commit");
    assert_eq!(all[3].answer(), ["COMMIT", "ZI"]);
    assert_eq!(old.thread_ends().stats.clients_handed_over, 4);
    new.until("all are there", |stats| stats.clients_taken_over == 4);
    new.end();
}

/// Both have a slot for each connection that the server takes: who finds it full waits for the other.
#[test]
fn a_server_without_room_for_both_is_asked_again_until_it_has_some() {
    let parameters = [("max_connections", "4"), ("superuser_reserved_connections", "0")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let small = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
    let folder = Folder::new("room");
    let url = account(small.url().as_str());
    let config = || {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], small.port())));
        let mut database = database(Mode::Transaction, 4);
        database.servers = vec![address];
        database.name = url.get_dbname().unwrap().to_owned();
        let password = url.get_password().unwrap().to_vec();
        database.login = Some((b"sekisho".to_vec(), Credential::Password(password)));
        at(&folder, trusting(database))
    };
    let old = Gate::new(config());
    let name = url.get_dbname().unwrap();
    let mut all: Vec<Raw> = (0..5).map(|_| Raw::enter_at(&old, name)).collect();
    for raw in &mut all[..4] {
        raw.query("begin");
        assert_eq!(raw.answer(), ["BEGIN", "ZT"]);
    }
    let new = Gate::new(config());
    new.until("who rests is there", |stats| stats.clients_taken_over == 1);
    all[4].query("select 'in time'");
    new.until("it has a slot", |stats| stats.pools.iter().any(|pool| pool.busy == 1));
    let [first, .., last] = &mut all[..] else { panic!("there are five") };
    first.query("select pg_sleep(0.3)");
    assert_eq!(first.answer(), ["", "SELECT 1", "ZT"]);
    first.query("commit");
    assert_eq!(first.answer(), ["COMMIT", "ZI"]);
    assert_eq!(last.answer(), ["in time", "SELECT 1", "ZI"]);
    for raw in &mut all[1..4] {
        raw.query("commit");
        assert_eq!(raw.answer(), ["COMMIT", "ZI"]);
    }
    assert_eq!(old.thread_ends().cut, 0);
    assert_eq!(new.stats().pools[0].counters.connects_failed, 0);
    new.end();
    small.stop().unwrap();
}

const GOODBYE: &str = "FATAL 57P01 terminating connection due to administrator command";

#[test]
fn who_cannot_go_over_is_let_out_as_in_a_drain_and_the_login_under_way_goes_on() {
    let folder = Folder::new("drained");
    let config = || {
        let mut config = super::encrypting::config();
        config.admission = trusting(database(Mode::Transaction, 1)).admission;
        config.databases[0].gate.servers[0].slots = 4;
        at(&folder, config)
    };
    let old = Gate::new(config());
    let mut raw = Raw::connect(&old);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    raw.say(&out);
    let mut answer = [0];
    raw.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let mut tls = encrypted(raw, &[]);
    start(&mut tls).unwrap();
    until_ready(&mut tls);
    let mut pinned = Raw::enter(&old, Version::V3_2, &[]);
    pinned.query("listen something");
    assert_eq!(pinned.answer(), ["LISTEN", "ZI"]);
    let slow = Raw::connect(&old);
    old.until("all are there", |stats| stats.clients == 3);
    let new = Gate::new(config());
    assert_eq!(pinned.last_words(), GOODBYE);
    let mut said = Vec::new();
    tls.read_to_end(&mut said).unwrap();
    assert_eq!(shown(&said[5..]), GOODBYE);
    // It was accepted by the old one, gets in there, and goes over.
    let mut slow = slow;
    slow.start(Version::V3_2, &[]);
    let mut slow = slow.entered();
    slow.query("select 'in'");
    assert_eq!(slow.answer(), ["in", "SELECT 1", "ZI"]);
    let finished = old.thread_ends();
    assert_eq!((finished.cut, finished.stats.clients_handed_over), (0, 1));
    slow.query("select 'still'");
    assert_eq!(slow.answer(), ["still", "SELECT 1", "ZI"]);
    new.end();
}

fn until_ready(stream: &mut impl Read) {
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).unwrap();
        assert!(head[0] != b'E', "{}", shown(&body));
        if head[0] == b'Z' {
            return;
        }
    }
}

#[test]
fn a_session_that_has_asked_nothing_goes_over_and_one_that_has_is_let_out() {
    let folder = Folder::new("sessions");
    let config = || at(&folder, trusting(database(Mode::Session, 2)));
    let old = Gate::new(config());
    let mut quiet = Raw::enter(&old, Version::V3_2, &[("application_name", "quiet")]);
    let mut asked = Raw::enter(&old, Version::V3_2, &[]);
    let mut asks = Raw::enter(&old, Version::V3_2, &[]);
    asked.query("select 1");
    assert_eq!(asked.answer(), ["1", "SELECT 1", "ZI"]);
    asks.query("select 'slept', pg_sleep(1)");
    old.until("two sessions", |stats| stats.pools[0].busy == 2);
    let new = Gate::new(config());
    assert_eq!(asked.last_words(), GOODBYE);
    assert_eq!(asks.answer(), ["slept", "SELECT 1", "ZI"]);
    assert_eq!(asks.last_words(), GOODBYE);
    assert_eq!(old.thread_ends().stats.clients_handed_over, 1);
    quiet.query("show application_name");
    assert_eq!(quiet.answer(), ["quiet", "SHOW", "ZI"]);
    new.end();
}

/// The columns and the parameters of a statement are those that its client was told by the gate before: a
/// column that had become another one meanwhile came in the other one's format, without an error.
#[test]
fn the_shapes_of_statements_go_over_with_their_clients() {
    let folder = Folder::new("shapes");
    let config = || at(&folder, trusting(database(Mode::Transaction, 2)));
    let mut direct = at_the_server(&[]);
    direct.query(
        "drop schema if exists of_passage cascade; create schema of_passage; \
         create table of_passage.t (v int, of text); \
         insert into of_passage.t values (1000000000, 'one')",
    );
    direct.answer();
    let old = Gate::new(config());
    let mut clients = [Raw::enter(&old, Version::V3_0, &[]), at_the_server(&[])];
    let read = parse("read", "select v from of_passage.t", &[]);
    let find = parse("find", "select of from of_passage.t where v = $1", &[]);
    let unnamed = parse("", "select of from of_passage.t where v = $1", &[]);
    let says = |clients: &mut [Raw; 2], said: &[u8]| {
        let heard = clients.each_mut().map(|client| {
            client.say(said);
            client.answer()
        });
        assert_eq!(heard[0], heard[1]);
        heard[0].clone()
    };
    says(&mut clients, &[read, find, unnamed, sync()].concat());
    let new = Gate::new(config());
    assert_eq!(old.thread_ends().stats.clients_handed_over, 1);
    direct.query("alter table of_passage.t alter column v type float8");
    direct.answer();
    // 1000000000 as an integer, in binary.
    let finds = |name: &[u8]| {
        let value = b"\0\x01\0\x01\0\x01\0\0\0\x04\x3b\x9a\xca\0\0\0";
        let bound = message(Frontend::Bind, &[b"\0", name, b"\0", value].concat());
        [bound, execute(""), sync()].concat()
    };
    assert_eq!(says(&mut clients, &finds(b"")), ["BindComplete", "one", "SELECT 1", "ZI"]);
    assert_eq!(says(&mut clients, &finds(b"find")), ["BindComplete", "one", "SELECT 1", "ZI"]);
    let told = says(&mut clients, &[bind("", "read", &[]), execute(""), sync()].concat());
    assert_eq!(told, ["ERROR 0A000 cached plan must not change result type", "ZI"]);
    assert_eq!(says(&mut clients, &finds(b"find")), ["BindComplete", "one", "SELECT 1", "ZI"]);
    new.end();
}

/// The gate knows a user's keys from its login alone, and could not log in for it without them.
#[test]
fn keys_that_a_client_has_left_go_over_with_it() {
    let folder = Folder::new("keys");
    let secret = runtime().block_on(async {
        let server = directly().await;
        let sql = "select rolpassword from pg_authid where rolname = 'sekisho'";
        ask(&server, sql).await.unwrap()
    });
    assert!(secret.starts_with("SCRAM-SHA-256$"), "{secret}");
    let config = || {
        let mut database = database(Mode::Transaction, 2);
        database.login = None;
        let mut config = known(database);
        let users = format!("\"sekisho\" \"{secret}\"\n");
        config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
        at(&folder, config)
    };
    let old = Gate::new(config());
    runtime().block_on(async {
        let client = old.connect().await;
        let new = tokio::task::spawn_blocking({
            let config = config();
            move || Gate::new(config)
        });
        let new = new.await.unwrap();
        tokio::task::spawn_blocking(move || old.thread_ends()).await.unwrap();
        assert_eq!(ask(&client, "select 'mine'").await.unwrap(), "mine");
        drop(client);
        tokio::task::spawn_blocking(move || new.end()).await.unwrap();
    });
}

#[test]
fn sockets_of_the_file_system_and_metrics_go_over_and_the_next_one_takes_over_again() {
    let folder = Folder::new("chain");
    let config = || {
        let mut config = trusting(database(Mode::Transaction, 2));
        config.sockets.push(folder.socket());
        config.admin.http = Some("127.0.0.1:0".parse().unwrap());
        at(&folder, config)
    };
    let mut gate = Gate::new(config());
    assert_eq!(std::fs::metadata(folder.door()).unwrap().permissions().mode() & 0o777, 0o600);
    let http = gate.handle.http().unwrap();
    let mut account = tokio_postgres::Config::new();
    account.user("sekisho").dbname(gate.account().get_dbname().unwrap());
    account.host_path(&folder.0).port(6432);
    let runtime = runtime();
    let client = runtime.block_on(enter(&account)).unwrap();
    for turn in 0..3 {
        let next = Gate::new(config());
        assert_eq!(gate.thread_ends().stats.clients_handed_over, 1 + turn);
        gate = next;
        assert_eq!(gate.handle.http(), Some(http));
        let shown = metrics(http);
        assert!(shown.contains("200 OK"), "{shown}");
        let path = folder.socket().path;
        assert!(path.exists() && folder.door().exists(), "its files are the next one's");
        runtime.block_on(async {
            assert_eq!(ask(&client, "select 'here'").await.unwrap(), "here");
            let newer = enter(&account).await.unwrap();
            assert_eq!(ask(&newer, "select 'too'").await.unwrap(), "too");
            std::mem::forget(newer);
        });
    }
    drop(runtime);
    gate.end();
    assert!(!folder.socket().path.exists() && !folder.door().exists());
}

fn metrics(http: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(http).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A program that speaks as a successor does, by bytes.
struct Successor(UnixStream);

/// What both sides say goes over in, as the library has it.
const FORMAT: u32 = 2;

impl Successor {
    fn at(door: &Path) -> Successor {
        let stream = UnixStream::connect(door).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Successor(stream)
    }

    fn says(&mut self, tag: u8, body: &[u8]) {
        let mut frame = vec![tag];
        frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
        frame.extend_from_slice(body);
        self.0.write_all(&frame).unwrap();
    }

    fn hello(&mut self, format: u32) {
        self.says(b'H', &[b"sekisho takeover", &format.to_be_bytes()[..]].concat());
    }

    /// The next word; sockets that come with it are dropped, as those of one who dies are.
    fn hears(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize];
        self.0.read_exact(&mut body).unwrap();
        (head[0], body)
    }

    fn hears_until(&mut self, wanted: u8) -> Vec<u8> {
        loop {
            let (tag, body) = self.hears();
            if tag == wanted {
                return body;
            }
        }
    }
}

/// Whether all is as it ever was: those who are in, and those who come.
fn is_served(gate: &Gate, clients: &mut [Raw]) {
    for (at, raw) in clients.iter_mut().enumerate() {
        raw.query(&format!("select {at}"));
        assert_eq!(raw.answer(), [&at.to_string(), "SELECT 1", "ZI"]);
    }
    let mut fresh = Raw::enter(gate, Version::V3_2, &[]);
    fresh.query("select 'fresh'");
    assert_eq!(fresh.answer(), ["fresh", "SELECT 1", "ZI"]);
}

#[test]
fn a_successor_that_dies_at_any_step_has_hurt_nobody() {
    let folder = Folder::new("deaths");
    let mut config = at(&folder, trusting(database(Mode::Transaction, 2)));
    config.timeouts.connect = Duration::from_secs(3);
    let gate = Gate::new(config);
    let mut clients: Vec<Raw> =
        (0..100).map(|_| Raw::enter(&gate, Version::V3_2, &[("work_mem", "1MB")])).collect();
    type Step = fn(&mut Successor);
    let steps: [Step; 4] = [
        |_| {},
        |new| new.hello(FORMAT),
        |new| {
            new.hello(FORMAT);
            new.hears_until(b'N');
            new.says(b'Y', b"");
        },
        |new| {
            new.hello(FORMAT);
            new.hears_until(b'N');
            new.says(b'Y', b"");
            // Clients are on their way to it.
            new.hears_until(b'C');
        },
    ];
    for step in steps {
        let mut new = Successor::at(&folder.door());
        step(&mut new);
        drop(new);
        is_served(&gate, &mut clients);
    }
    // Who is declined by one that serves is let out.
    let mut new = Successor::at(&folder.door());
    new.hello(FORMAT);
    new.hears_until(b'N');
    new.says(b'Y', b"");
    new.says(b'S', b"");
    new.hears_until(b'C');
    new.says(b'd', &[&1_u64.to_be_bytes()[..], &[0, 0, 0, 2], b"no"].concat());
    assert_eq!(clients.remove(0).last_words(), GOODBYE);
    drop(new);
    is_served(&gate, &mut clients);
    // One that says nothing is told so when its time is over.
    for ready in [false, true] {
        let mut new = Successor::at(&folder.door());
        new.hello(FORMAT);
        new.hears_until(b'N');
        if ready {
            new.says(b'Y', b"");
        }
        let why = String::from_utf8(new.hears_until(b'G')[4..].to_vec()).unwrap();
        assert_eq!(why, "it has said nothing for 3 s");
        is_served(&gate, &mut clients);
        assert_eq!(new.0.read(&mut [0]).unwrap(), 0, "and left alone");
    }
    assert_eq!(gate.stats().clients_handed_over, 0);
    gate.end();
}

#[test]
fn bytes_that_are_no_successor_s_and_other_formats_are_refused() {
    let folder = Folder::new("hostile");
    let mut config = at(&folder, trusting(database(Mode::Transaction, 2)));
    config.timeouts.connect = Duration::from_secs(1);
    let gate = Gate::new(config);
    let mut clients = [Raw::enter(&gate, Version::V3_2, &[])];
    let mut new = Successor::at(&folder.door());
    new.hello(7);
    let (tag, body) = new.hears();
    let why = String::from_utf8(body[4..].to_vec()).unwrap();
    assert!(
        tag == b'R' && why.contains(&format!("format {FORMAT}")) && why.contains("format 7"),
        "{why}"
    );
    assert_eq!(new.0.read(&mut [0]).unwrap(), 0);
    // Two at once.
    let mut first = Successor::at(&folder.door());
    first.hello(FORMAT);
    first.hears_until(b'N');
    let (tag, body) = Successor::at(&folder.door()).hears();
    assert_eq!((tag, &body[4..]), (b'R', &b"another one is taking over"[..]));
    drop(first);
    let mut hello = b"H\0\0\0\x14sekisho takeover\0\0\0\x01".to_vec();
    let hostile: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: gate\r\n\r\n",
        &[0xff; 100_000],
        b"H\0\0\0\x04nope",
        b"Y\0\0\0\0",
        b"S\0\0\0\0",
        b"h\0\0\0\x08\0\0\0\0\0\0\0\x01",
    ];
    for (bytes, greets) in hostile.iter().flat_map(|bytes| [(bytes, false), (bytes, true)]) {
        let mut new = Successor::at(&folder.door());
        if greets {
            // It was closed perhaps before all was said.
            hello.truncate(25);
            let _ = new.0.write_all(&[&hello, *bytes].concat());
        } else {
            let _ = new.0.write_all(bytes);
        }
        let mut said = Vec::new();
        // The system may tell of unread bytes behind the end.
        let _ = new.0.read_to_end(&mut said);
        is_served(&gate, &mut clients);
    }
    gate.end();
}

#[test]
fn a_gate_that_cannot_take_over_says_why_and_the_other_one_serves() {
    let folder = Folder::new("refusals");
    let config = || at(&folder, trusting(database(Mode::Transaction, 2)));
    let gate = Gate::new(config());
    let mut clients = [Raw::enter(&gate, Version::V3_2, &[])];
    let bound = Monitor::bind(config()).unwrap();
    assert_eq!(bound.predecessor(), Some(std::process::id()));
    match Monitor::bind(config()).unwrap_err() {
        StartError::Takeover { cause: TakeoverError::Refused(why), path } => {
            assert_eq!((why.as_str(), path), ("another one is taking over", folder.door()));
        }
        other => panic!("{other}"),
    }
    // One that ends before it runs.
    drop(bound);
    is_served(&gate, &mut clients);
    // What is no gate's socket.
    std::fs::remove_file(folder.door()).unwrap();
    let _other = UnixListener::bind(folder.door()).unwrap();
    let mut hasty = config();
    hasty.timeouts.connect = Duration::from_millis(200);
    let error = Monitor::bind(hasty).unwrap_err();
    assert!(matches!(&error, StartError::Takeover { cause: TakeoverError::Silent, .. }), "{error}");
    is_served(&gate, &mut clients);
    gate.end();
}

/// A gate that is told to end while it takes over: what the other one has goes on there, and ends too.
#[test]
fn one_whose_metrics_address_is_taken_takes_nothing_over() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = Folder::new("taken");
    let config = || at(&folder, trusting(database(Mode::Transaction, 1)));
    let old = Gate::new(config());
    let mut clients = [Raw::enter(&old, Version::V3_2, &[])];
    let mut new = config();
    new.admin.http = Some(taken.local_addr().unwrap());
    let error = Monitor::bind(new).unwrap_err().to_string();
    assert!(error.contains(&taken.local_addr().unwrap().to_string()), "{error}");
    is_served(&old, &mut clients);
    assert_eq!(old.stats().clients_handed_over, 0);
    let new = Gate::new(config());
    new.until("its client is there", |stats| stats.clients_taken_over == 1);
    old.thread_ends();
    new.end();
}

#[test]
fn both_end_when_the_new_one_is_told_to() {
    let folder = Folder::new("both");
    let config = || at(&folder, trusting(database(Mode::Transaction, 2)));
    let old = Gate::new(config());
    let mut rests = Raw::enter(&old, Version::V3_2, &[]);
    let mut works = Raw::enter(&old, Version::V3_2, &[]);
    works.query("begin");
    assert_eq!(works.answer(), ["BEGIN", "ZT"]);
    let new = Gate::new(config());
    new.until("who rests is there", |stats| stats.clients_taken_over == 1);
    new.end();
    assert_eq!(rests.last_words(), GOODBYE);
    works.query("commit");
    assert_eq!(works.answer(), ["COMMIT", "ZI"]);
    assert_eq!(works.last_words(), GOODBYE);
    assert_eq!(old.thread_ends().cut, 0);
    assert!(!folder.door().exists(), "nobody listens there any more");
}

/// A gate that is told to end when another one has its sockets already, and then begins.
#[test]
fn a_gate_that_ends_leaves_its_files_to_who_takes_over_then() {
    let folder = Folder::new("late");
    let mut config = at(&folder, trusting(database(Mode::Transaction, 2)));
    config.sockets.push(folder.socket());
    let gate = Gate::new(config);
    let mut works = Raw::enter(&gate, Version::V3_2, &[]);
    works.query("begin");
    assert_eq!(works.answer(), ["BEGIN", "ZT"]);
    let mut new = Successor::at(&folder.door());
    new.hello(FORMAT);
    new.hears_until(b'N');
    gate.handle.drain().unwrap();
    new.says(b'Y', b"");
    new.hears_until(b'B');
    new.says(b'S', b"");
    let path = folder.socket().path;
    assert!(path.exists() && folder.door().exists(), "they are the other one's");
    // That one dies: who is here ends its work, and then this gate ends all the same.
    drop(new);
    works.query("commit");
    assert_eq!(works.answer(), ["COMMIT", "ZI"]);
    assert_eq!(works.last_words(), GOODBYE);
    assert_eq!(gate.thread_ends().cut, 0);
}

/// A program that speaks as a gate does that hands over, by bytes.
struct Predecessor {
    door: UnixListener,
    path: PathBuf,
}

impl Predecessor {
    fn at(path: PathBuf) -> Predecessor {
        Predecessor { door: UnixListener::bind(&path).unwrap(), path }
    }

    /// Gives whoever comes the door alone, until that one serves.
    fn hands_over(&self) -> Successor {
        let mut new = Successor(self.door.accept().unwrap().0);
        new.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let hello = [&b"sekisho takeover"[..], &FORMAT.to_be_bytes()].concat();
        assert_eq!(new.hears(), (b'H', hello));
        new.says(b'W', &7_u32.to_be_bytes());
        let inode = std::fs::metadata(&self.path).unwrap().ino();
        let path = bytes(self.path.as_os_str().as_bytes());
        new.gives(b'L', &[&[3][..], &path, &inode.to_be_bytes()].concat(), &self.door);
        new.says(b'N', &1_u32.to_be_bytes());
        assert_eq!(new.hears(), (b'Y', vec![]));
        new.says(b'B', b"");
        assert_eq!(new.hears(), (b'S', vec![]));
        new
    }
}

impl Successor {
    /// Says something, and gives it a socket.
    fn gives(&mut self, tag: u8, body: &[u8], socket: &impl AsFd) {
        let mut frame = vec![tag];
        frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
        frame.extend_from_slice(body);
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let sockets = [socket.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)));
        let frame = [IoSlice::new(&frame)];
        sendmsg(&self.0, &frame, &mut control, SendFlags::empty()).unwrap();
    }
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A client with nothing under way as it goes over, with a setting and a statement: what is said here may change
/// with the format alone.
fn resting(number: u64, pool: u32, process: u32) -> Vec<u8> {
    let none = 0_u32.to_be_bytes();
    let one = 1_u32.to_be_bytes();
    let mut body = [&number.to_be_bytes()[..], &pool.to_be_bytes(), &bytes(b"sekisho")].concat();
    body.extend([&process.to_be_bytes()[..], &bytes(b"four"), &[0], &none].concat());
    body.extend([&one[..], &bytes(b"work_mem"), &[0], &bytes(b"3MB"), &none, &none].concat());
    body.extend([&one[..], &bytes(b"mine"), &9_u64.to_be_bytes(), &[0]].concat());
    body
}

fn pool(number: u32, mode: u8) -> Vec<u8> {
    let name = database(Mode::Transaction, 1).name;
    [&number.to_be_bytes()[..], &bytes(name.as_bytes()), &[mode, 0]].concat()
}

/// Runs a gate that takes over from a program which says all of this by bytes.
fn takes_over(folder: &Folder) -> (JoinHandle<Result<Finished, StartError>>, Successor) {
    let old = Predecessor::at(folder.door());
    let config = at(folder, trusting(database(Mode::Transaction, 2)));
    let running = std::thread::spawn(move || Monitor::bind(config)?.run());
    let new = old.hands_over();
    // Its file stays when its last owner here goes: another process listens there.
    (running, new)
}

#[test]
fn what_goes_over_is_as_this_format_has_it_and_what_is_not_is_declined() {
    let folder = Folder::new("format");
    let (running, mut new) = takes_over(&folder);
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let why = |heard: (u8, Vec<u8>), number: u64| {
        assert_eq!((heard.0, &heard.1[..8]), (b'd', &number.to_be_bytes()[..]));
        String::from_utf8(heard.1[12..].to_vec()).unwrap()
    };
    new.gives(b'C', &resting(1, 5, 77), &theirs);
    assert_eq!(why(new.hears(), 1), "its pool was not told");
    new.says(b'P', &pool(5, 0));
    new.says(b'T', &[&9_u64.to_be_bytes()[..], &[0; 10], &bytes(b"select 'mine'\0\0\0")].concat());
    new.gives(b'C', &resting(2, 5, 77), &theirs);
    let told = why(new.hears(), 2);
    assert_eq!(told, "its pool was in session mode, and is in transaction mode now");
    new.says(b'P', &pool(5, 1));
    new.gives(b'C', &resting(3, 5, 0), &theirs);
    assert_eq!(why(new.hears(), 3), "its key for cancelling cannot be used here");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    new.gives(b'C', &resting(4, 5, 77), &listener);
    assert_eq!(why(new.hears(), 4), "its socket is no connection");
    new.gives(b'C', &resting(5, 5, 77), &theirs);
    assert_eq!(new.hears(), (b'h', 5_u64.to_be_bytes().to_vec()));
    new.gives(b'C', &resting(6, 5, 77), &theirs);
    assert_eq!(why(new.hears(), 6), "its key for cancelling cannot be used here");
    drop(theirs);
    let mut client = Speaks(ours);
    assert_eq!(client.asks(&query("show work_mem")), "3MB");
    let bind = message(Frontend::Bind, b"\0mine\0\0\0\0\0\0\0");
    let execute = message(Frontend::Execute, b"\0\0\0\0\0");
    let segment = [bind, execute, message(Frontend::Sync, b"")].concat();
    assert_eq!(client.asks(&segment), "mine");
    // The other one goes on, and so this one ends, with a word to the client that it has.
    new.says(b'G', &bytes(b"it is late"));
    let mut said = Vec::new();
    client.0.read_to_end(&mut said).unwrap();
    assert_eq!(shown(&said[5..]), GOODBYE);
    match running.join().unwrap().unwrap_err() {
        StartError::Takeover { cause: TakeoverError::GivenUp(why), .. } => {
            assert_eq!(why, "it is late");
        }
        other => panic!("{other}"),
    }
    assert!(folder.door().exists(), "its file is the other one's");
}

/// A predecessor that has not heard who is here when it ends has told them to go.
#[test]
fn whom_the_gate_before_has_told_to_go_is_not_served_here() {
    let folder = Folder::new("goodbyes");
    let old = Predecessor::at(folder.door());
    let config = at(&folder, trusting(database(Mode::Transaction, 2)));
    let (tell, told) = mpsc::channel();
    let running = std::thread::spawn(move || {
        let monitor = Monitor::bind(config)?;
        tell.send(monitor.handle()).expect("the test waits for it");
        monitor.run()
    });
    let mut new = old.hands_over();
    // From here on it hears nothing.
    new.0.shutdown(std::net::Shutdown::Read).unwrap();
    new.says(b'P', &pool(5, 1));
    new.says(b'T', &[&9_u64.to_be_bytes()[..], &[0; 10], &bytes(b"select 'mine'\0\0\0")].concat());
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    new.gives(b'C', &resting(1, 5, 77), &theirs);
    new.says(b'E', &0_u64.to_be_bytes());
    // It is told so by the one that ends, and what it asks meanwhile is nobody's to answer.
    let mut client = Speaks(ours);
    client.0.write_all(&query("select 'twice'")).unwrap();
    client.0.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = client.0.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    told.recv().unwrap().drain().unwrap();
    let finished = running.join().unwrap().unwrap();
    assert_eq!(finished.stats.clients_taken_over, 0);
    let left = client.0.read(&mut [0]).unwrap_err();
    assert_eq!(left.kind(), ErrorKind::WouldBlock, "nobody has said anything to it");
}

#[test]
fn bytes_that_are_no_predecessor_s_end_the_takeover_and_nothing_else() {
    for (tag, body) in [(b'C', &b"short"[..]), (b'?', b""), (b'W', b"\0\0\0\x01"), (b'h', &[0; 8])]
    {
        let folder = Folder::new("nonsense");
        let (running, mut new) = takes_over(&folder);
        new.says(tag, body);
        let error = running.join().unwrap().unwrap_err();
        let is_so = |cause: &TakeoverError| matches!(cause, TakeoverError::Misunderstood(_));
        assert!(
            matches!(&error, StartError::Takeover { cause, .. } if is_so(cause)),
            "{tag}: {error}"
        );
        assert_eq!(new.0.read(&mut [0]).unwrap(), 0);
    }
}

/// A client that was let in long ago.
struct Speaks(UnixStream);

impl Speaks {
    /// The first column of the first row of the answer.
    fn asks(&mut self, said: &[u8]) -> String {
        self.0.write_all(said).unwrap();
        let mut row = String::new();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            match head[0] {
                b'D' => row = String::from_utf8(body[6..].to_vec()).unwrap(),
                b'E' => panic!("{}", shown(&body)),
                b'Z' => return row,
                _ => {}
            }
        }
    }
}

fn query(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::query(&mut out, sql);
    out
}
