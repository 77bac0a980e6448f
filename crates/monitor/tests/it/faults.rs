//! Servers that are killed, stop or go mute, clients that do, and a log that cannot be written: each
//! client gets an answer or an error within its deadline, and no slot is lost.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monitor::{Address, Admission, Config, Database, Logged, Mode, Monitor};
use pgwire::auth::Method;
use pgwire::frame::Backend;
use pgwire::message::write;
use pgwire::startup::Version;
use postgres::{Private, Settings};
use tokio_postgres::Client;

use super::passage::Passage;
use super::{
    Gate, Raw, account, ask, code, config, database, enter, login, runtime, server, trusting,
};

/// What nobody may wait for longer; a machine that is busy with other things is slow.
const PATIENCE: Duration = Duration::from_secs(60);
const CLIENTS: u64 = 10;
const SLOTS: u32 = 3;

/// A server of a test's own, which is going to be hurt.
fn fragile() -> Private {
    let parameters = [("fsync", "off"), ("shared_buffers", "16MB"), ("max_connections", "30")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Private::start(&Settings { parameters: parameters.to_vec(), ..Settings::default() }).unwrap()
}

/// A gate before a server at this address. Nobody needs a password to come in.
fn before(server: &Private, address: SocketAddr) -> Config {
    let url = account(server.url().as_str());
    let mut database = Database::new(url.get_dbname().unwrap(), vec![Address::Tcp(address)], SLOTS);
    database.login = login(server);
    let mut config = trusting(database);
    config.timeouts.connect = Duration::from_secs(2);
    config
}

fn address(server: &Private) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(PATIENCE, future).await;
    result.unwrap_or_else(|_| panic!("{what}: neither an answer nor an error"))
}

/// What came of what was asked.
#[derive(Default)]
struct Tally {
    answers: AtomicU64,
    errors: AtomicU64,
    over: AtomicBool,
}

impl Tally {
    /// Waits until so many more are there.
    fn grows(&self, what: &str, count: &AtomicU64, by: u64) {
        self.grows_from(what, count, count.load(Ordering::Relaxed), by);
    }

    /// The same where some may be there already: those beyond `from` count.
    fn grows_from(&self, what: &str, count: &AtomicU64, from: u64, by: u64) {
        let began = Instant::now();
        while count.load(Ordering::Relaxed) < from + by {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Asks again and again, and comes back when its session has ended.
async fn works(account: &tokio_postgres::Config, number: u64, tally: &Tally) {
    let mut turn = 0;
    while !tally.over.load(Ordering::Relaxed) {
        let Ok(client) = in_time("to be let in", enter(account)).await else {
            tally.errors.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !tally.over.load(Ordering::Relaxed) {
            turn += 1;
            let nonce = format!("{number}/{turn}");
            if let Err(_ended) = in_time("a transaction", transaction(&client, &nonce)).await {
                tally.errors.fetch_add(1, Ordering::Relaxed);
                if client.is_closed() {
                    break;
                }
                let _ = in_time("its end", ask(&client, "rollback")).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            tally.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn transaction(client: &Client, nonce: &str) -> Result<(), tokio_postgres::Error> {
    ask(client, "begin").await?;
    let heard = ask(client, &format!("select '{nonce}', pg_sleep(0.002)")).await?;
    assert_eq!(heard, nonce, "somebody else's row");
    ask(client, "commit").await?;
    Ok(())
}

/// Hurts what works, and mends it; all must then go on, and every slot be there.
fn survives(config: Config, hurt: impl FnOnce(&Gate, &Tally), mend: impl FnOnce()) {
    let gate = Gate::new(config);
    let tally = Tally::default();
    std::thread::scope(|scope| {
        let (gate, tally) = (&gate, &tally);
        let clients = scope.spawn(move || {
            runtime().block_on(async {
                let account = gate.account();
                let all = (0..CLIENTS).map(|number| works(&account, number, tally));
                let all: Vec<_> = all.map(Box::pin).collect();
                for_all(all).await;
            });
        });
        tally.grows("it works before", &tally.answers, 50);
        hurt(gate, tally);
        mend();
        tally.grows("it works again", &tally.answers, 100);
        tally.over.store(true, Ordering::Relaxed);
        clients.join().unwrap();
    });
    every_slot_is_there(&gate);
    gate.end();
}

/// Polls all until all are done.
async fn for_all(mut all: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// As many transactions are open at once as there are slots, and nothing is left behind them.
fn every_slot_is_there(gate: &Gate) {
    gate.until("nobody is there", |stats| stats.clients == 0 && stats.pools[0].busy == 0);
    runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..SLOTS {
            let client = in_time("to be let in", enter(&gate.account())).await.unwrap();
            in_time("a slot", ask(&client, "begin")).await.unwrap();
            open.push(client);
        }
        let pool = &gate.stats().pools[0];
        assert_eq!((pool.busy, pool.waiting), (SLOTS, 0), "{pool:?}");
    });
    gate.until("all slots are back", |stats| {
        let pool = &stats.pools[0];
        (pool.busy, pool.waiting) == (0, 0) && pool.servers <= SLOTS as usize
    });
}

fn signal(which: &str, process: impl std::fmt::Display) {
    let status = Command::new("kill").args([which, &process.to_string()]).status().unwrap();
    assert!(status.success(), "kill {which} {process}");
}

#[test]
fn a_server_process_that_is_killed_ends_the_sessions_of_its_clients_alone() {
    let server = fragile();
    let kills = |gate: &Gate, tally: &Tally| {
        for _ in 0..2 {
            // PostgreSQL then ends all its processes and begins anew.
            let process = runtime().block_on(async {
                let client = in_time("to be let in", enter(&gate.account())).await.unwrap();
                in_time("an answer", ask(&client, "select pg_backend_pid()")).await.unwrap()
            });
            // The others wait: there may be no more errors than those that come at once.
            let before = tally.errors.load(Ordering::Relaxed);
            signal("-KILL", process);
            tally.grows_from("clients hear of it", &tally.errors, before, 1);
            tally.grows("it works again", &tally.answers, 20);
        }
    };
    survives(before(&server, address(&server)), kills, || {});
    server.stop().unwrap();
}

#[test]
fn a_server_that_is_killed_whole_is_used_again_when_it_is_back() {
    let mut server = fragile();
    let config = before(&server, address(&server));
    let server = std::cell::RefCell::new(&mut server);
    let kills = |_: &Gate, tally: &Tally| {
        let before = tally.errors.load(Ordering::Relaxed);
        server.borrow_mut().kill().unwrap();
        // The others wait for it, so that there may be no more errors than come while it is killed.
        tally.grows_from("who had begun hears of it", &tally.errors, before, 1);
    };
    survives(config, kills, || server.borrow_mut().restart().unwrap());
}

/// The processes of a server.
fn family(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |id: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let children = ids.filter(|&id| parent_of(id) == Some(parent));
    std::iter::once(parent).chain(children).collect()
}

#[test]
fn a_server_that_stops_answering_is_told_of_in_time() {
    let server = fragile();
    let mut config = before(&server, address(&server));
    config.timeouts.query = Some(Duration::from_secs(2));
    config.timeouts.clean = Duration::from_secs(2);
    config.unreachable_max = Some(Duration::ZERO);
    let process = server.pid().unwrap();
    let stopped = std::cell::RefCell::new(Vec::new());
    config.timeouts.cancel = Duration::from_secs(2);
    let stops = |gate: &Gate, tally: &Tally| {
        stopped.replace(family(process));
        stopped.borrow().iter().for_each(|id| signal("-STOP", id));
        // Who was served, and who waited, and who comes.
        tally.grows("clients are told", &tally.errors, 2 * CLIENTS);
        let pool = &gate.stats().pools[0];
        assert!(pool.busy <= SLOTS, "{pool:?}");
    };
    let goes_on = || {
        for id in stopped.borrow().iter() {
            // Some may have ended as the gate went away from them.
            let _ = Command::new("kill").args(["-CONT", &id.to_string()]).status().unwrap();
        }
    };
    survives(config, stops, goes_on);
    server.stop().unwrap();
}

#[test]
fn a_way_to_the_server_that_goes_mute_is_given_up_in_time() {
    let passage = Passage::to(address(server()));
    let mut config = before(server(), passage.address());
    config.timeouts.query = Some(Duration::from_secs(2));
    config.timeouts.clean = Duration::from_secs(2);
    config.timeouts.cancel = Duration::from_secs(2);
    config.unreachable_max = Some(Duration::ZERO);
    let silence = |_: &Gate, tally: &Tally| {
        passage.falls_silent();
        tally.grows("clients are told", &tally.errors, 2 * CLIENTS);
    };
    survives(config, silence, || passage.is_mended());
    assert!(passage.links() > u64::from(SLOTS), "connections that were mute are not used again");
}

#[test]
fn a_client_that_goes_mute_in_a_transaction_keeps_its_slot_for_so_long_and_no_longer() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.idle_transaction = Some(Duration::from_millis(500));
    let gate = Gate::new(config);
    let passage = Passage::to(gate.address());
    let mut mute = Raw::connect_to(passage.address());
    mute.start(Version::V3_0, &[]);
    let mut mute = mute.entered();
    mute.query("begin");
    assert_eq!(mute.answer(), ["BEGIN", "ZT"]);
    passage.falls_silent();
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    other.query("select 'served'");
    assert_eq!(other.answer(), ["served", "SELECT 1", "ZI"]);
    gate.until("it is gone", |stats| stats.clients == 1);
    drop(other);
    gate.end();
}

#[test]
fn a_client_that_does_not_read_holds_up_its_own_server_alone_and_not_for_ever() {
    let mut config = trusting(database(Mode::Transaction, 2));
    config.timeouts.query = Some(Duration::from_secs(1));
    let gate = Gate::new(config);
    let mut deaf = Raw::enter(&gate, Version::V3_0, &[]);
    deaf.query("select repeat('x', 100000) from generate_series(1, 2000)");
    gate.until("it has a server", |stats| stats.pools[0].busy == 1);
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    for turn in 0..100 {
        other.query(&format!("select {turn}"));
        assert_eq!(other.answer()[0], turn.to_string());
    }
    gate.until("its slot is back", |stats| stats.pools[0].busy == 0);
    drop((deaf, other));
    gate.end();
}

/// A disk without room, which also takes its time.
struct Full {
    tried: std::sync::Arc<AtomicU64>,
}

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.tried.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_log_on_a_full_disk_holds_up_nobody() {
    let mut config = config(database(Mode::Transaction, SLOTS));
    config.logged = Logged { connections: true, disconnections: true, ..Logged::default() };
    let tried = std::sync::Arc::new(AtomicU64::new(0));
    let monitor = Monitor::bind(config).unwrap().log_to(Full { tried: tried.clone() }).unwrap();
    let handle = monitor.handle();
    let thread = std::thread::spawn(move || monitor.run().unwrap());
    let gate = Gate { handle, thread: Some(thread) };
    runtime().block_on(async {
        for turn in 0..300 {
            let client = in_time("to be let in", gate.connect()).await;
            let nonce = turn.to_string();
            let heard = in_time("an answer", ask(&client, &format!("select {nonce}"))).await;
            assert_eq!(heard.unwrap(), nonce);
        }
        let mut account = gate.account();
        account.password("wrong");
        assert_eq!(code(&in_time("a refusal", enter(&account)).await.err().unwrap()), "28P01");
    });
    assert!(tried.load(Ordering::Relaxed) > 0, "it was written to");
    every_slot_is_there(&gate);
    gate.end();
}

/// A log that is held, for as long as a channel is open, and then is written to.
struct Held {
    until: Receiver<()>,
    lines: Arc<Mutex<String>>,
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.until.recv();
        *self.lines.lock().unwrap() += std::str::from_utf8(bytes).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A second of failed logins, 5,000 of them, in which the disk writes nothing: fewer than one in a thousand
/// may be lost. However fast they come, they are as many before the first is written.
#[test]
fn of_five_thousand_failed_logins_all_are_in_the_log() {
    const LOGINS: usize = 5000;
    const THREADS: usize = 4;
    let mut config = config(database(Mode::Transaction, 1));
    // Its check costs nothing: the log is what is tried here.
    config.admission = Admission::Everybody(Method::Password);
    config.logged = Logged { errors: true, ..Logged::default() };
    let (release, until) = mpsc::channel();
    let lines = Arc::new(Mutex::new(String::new()));
    let sink = Held { until, lines: Arc::clone(&lines) };
    let monitor = Monitor::bind(config).unwrap().log_to(sink).unwrap();
    let handle = monitor.handle();
    let gate = Gate { handle, thread: Some(std::thread::spawn(move || monitor.run().unwrap())) };
    let address = gate.address();
    let tries = || {
        for _ in 0..LOGINS / THREADS {
            let mut raw = Raw::connect_to(address);
            raw.start(Version::V3_0, &[]);
            assert_eq!(raw.hear().0, Backend::Authentication);
            let mut wrong = Vec::new();
            write::password(&mut wrong, b"wrong");
            raw.say(&wrong);
            assert!(raw.last_words().starts_with("FATAL 28P01 "));
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(tries)));
    });
    assert_eq!(gate.stats().logins_failed, LOGINS as u64);
    assert_eq!(*lines.lock().unwrap(), "", "all of them came before the first line was written");
    drop(release);
    let lost = gate.end().stats.log_lost;
    let lines = lines.lock().unwrap();
    let is_told = |line: &&str| line.contains(" event=error ") && line.contains(" sqlstate=28P01 ");
    let told = lines.lines().filter(is_told).count();
    assert_eq!(told + lost as usize, LOGINS, "what is lost is counted");
    assert!(lost < LOGINS as u64 / 1000, "{lost} are lost");
}
