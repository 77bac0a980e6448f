//! Signal 9 under load, again and again: what a store still has of what it acknowledged.
//!
//! Jungle and SQLite live in the board's process, so that is killed: this test program, started again. PostgreSQL has
//! processes of its own, so those are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use board::{Board, Choice, Durability, Server, Span};
use postgres::{Private, Settings};
use rand_core::Rng;
use rivals::Lent;

use crate::places::Place;
use crate::serving::agent;

/// Store, durability class and folder of a board that is started to be killed.
const CHILD: &str = "SEKISHO_BOARD_TO_KILL";
const CLIENTS: usize = 8;
/// Threads of this machine may stand still for so long between a write and what makes it safe: it is shared.
const SLACK: Duration = Duration::from_millis(700);

fn rounds() -> u64 {
    // Ten times as many in the long suite.
    if std::env::var_os("SEKISHO_LONG").is_some() { 40 } else { 4 }
}

/// An append that a client was told is done.
#[derive(Debug)]
struct Told {
    body: String,
    sent: Instant,
    told: Instant,
}

/// Appends one after the other until nobody answers.
fn client(address: &str, name: &str) -> Vec<Told> {
    let (agent, mut all) = (agent(), Vec::new());
    let url = format!("http://{address}/threads/1/messages");
    for number in 0.. {
        let (body, sent) = (format!("{name}.{number}"), Instant::now());
        let request = ureq::http::Request::post(&url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("author=a&body={body}"))
            .unwrap();
        match agent.run(request) {
            Ok(reply) if reply.status() == 303 => {
                all.push(Told { body, sent, told: Instant::now() });
            }
            // It is dead, or its database is.
            _ => break,
        }
    }
    all
}

/// A load on a board until `kill` has ended it: everything that was acknowledged, and the moment of the kill.
fn pressed(address: &str, round: u64, span: Duration, kill: impl FnOnce()) -> (Vec<Told>, Instant) {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(address, &format!("r{round}c{number}"))))
            .collect();
        thread::sleep(span);
        let killed = Instant::now();
        kill();
        (clients.into_iter().flat_map(|one| one.join().unwrap()).collect(), killed)
    })
}

/// Bodies of a board's first thread, in its order, and what a verification finds.
fn stored(choice: &Choice, durability: Durability) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let board = Board::on(choice.open(durability).await.unwrap()).await.unwrap();
        assert_eq!(board.found().faults, Vec::<String>::new(), "{choice:?}");
        let read = board.store().messages(1, Span::After(0), usize::MAX >> 32).await.unwrap();
        board.store().stop().unwrap();
        read.unwrap().1.into_iter().map(|message| message.body).collect()
    })
}

/// What was acknowledged is there but for the last moments that the class leaves open, and nothing is there that came
/// behind something lost. Returns how many were lost.
fn held(
    told: &[Told],
    stored: &[String],
    killed: Instant,
    open: Option<Duration>,
    at: &str,
) -> usize {
    let distinct: BTreeSet<&String> = stored.iter().collect();
    assert_eq!(distinct.len(), stored.len(), "{at}: a message is there twice");
    let (here, lost): (Vec<&Told>, Vec<&Told>) =
        told.iter().partition(|one| distinct.contains(&one.body));
    for one in &lost {
        let age = killed.saturating_duration_since(one.told);
        let within = open.is_some_and(|open| age <= open + SLACK);
        assert!(within, "{at}: {one:?} is lost, {age:?} before the kill; {} are lost", lost.len());
        let behind = here.iter().find(|other| other.sent > one.told);
        assert!(behind.is_none(), "{at}: {one:?} is lost, and {behind:?} behind it is there");
    }
    // Each client waited for its answers: its messages are in the order in which it wrote them.
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for body in stored {
        let (client, number) = body.rsplit_once('.').unwrap();
        let number: u64 = number.parse().unwrap();
        let before = last.insert(client, number);
        let wanted = before.map_or(0, |before| before + 1);
        assert_eq!(number, wanted, "{at}: {client} wrote others before");
    }
    lost.len()
}

/// A board in a process of its own, which has a thread.
fn started(store: &str, durability: Durability, folder: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_board_to_kill", "--nocapture", "--test-threads", "1"])
        .env(CHILD, format!("{store} {} {}", durability.word(), folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let line = out
        .lines()
        .map(Result::unwrap)
        .find_map(|line| line.split_once("listening on ").map(|(_, address)| address.to_owned()));
    (child, line.expect("it listens"))
}

/// The board that is killed. Without its variable it is a test like any other, of a board that ends with its input.
#[test]
fn a_board_to_kill() {
    let place = Place::new();
    let own = format!("jungle strict {}", place.0.join("own").display());
    let given = std::env::var(CHILD);
    let words = given.clone().unwrap_or(own);
    let [store, durability, folder] = words.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{CHILD}: {words}")
    };
    let folder = folder.into();
    let choice = match store {
        "jungle" => Choice::Jungle(folder),
        _ => Choice::Sqlite(folder),
    };
    let durability = match durability {
        "strict" => Durability::Strict,
        _ => Durability::Relaxed,
    };
    let server = Server::start("127.0.0.1:0".parse().unwrap(), &choice, durability).unwrap();
    if server.board().found().threads == 0 {
        assert_eq!(server.open("ann", "to kill").unwrap(), 1);
    }
    println!("listening on {}", server.address());
    if given.is_ok() {
        // Who started it kills it, or ends, and its input with it.
        drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
    }
    assert_eq!(server.stop().unwrap().faults, Vec::<String>::new());
}

/// A kill is no loss of power: what was given to the kernel stays. SQLite gives it all before it answers, and Jungle
/// too, whose relaxed class leaves 100 ms open by its word.
#[test]
fn killed_boards_keep_what_they_acknowledged() {
    for (store, durability, open) in [
        ("jungle", Durability::Strict, None),
        ("jungle", Durability::Relaxed, Some(Duration::from_millis(100))),
        ("sqlite", Durability::Strict, None),
        ("sqlite", Durability::Relaxed, None),
    ] {
        let place = Place::new();
        let folder = place.0.join(store);
        let choice = match store {
            "jungle" => Choice::Jungle(folder.clone()),
            _ => Choice::Sqlite(folder.clone()),
        };
        let mut chance = workload::stream(1, 0);
        let (mut before, mut all, mut lost) = (0, 0, 0);
        for round in 0..rounds() {
            let at = format!("{store}, {durability:?}, round {round}");
            let (mut child, address) = started(store, durability, &folder);
            let span = Duration::from_millis(150 + chance.next_u64() % 250);
            let (told, killed) = pressed(&address, round, span, || child.kill().unwrap());
            child.wait().unwrap();
            assert!(!told.is_empty(), "{at}: somebody was answered in {span:?}");
            let stored = stored(&choice, durability);
            lost += held(&told, &stored, killed, open, &at);
            assert!(stored.len() >= before, "{at}: what was there is there");
            (before, all) = (stored.len(), all + told.len());
        }
        println!("{store}, {durability:?}: {lost} of {all} acknowledged were lost");
    }
}

/// PostgreSQL, all of whose processes are killed: with `synchronous_commit` off it may lose three times the pause of its
/// WAL writer, 0.6 s, and no more.
#[test]
fn a_killed_postgres_keeps_what_it_acknowledged() {
    for (durability, open) in
        [(Durability::Strict, None), (Durability::Relaxed, Some(Duration::from_millis(600)))]
    {
        let parameters = vec![("shared_buffers".to_owned(), "32MB".to_owned())];
        let mut private = Private::start(&Settings { parameters, ..Settings::default() }).unwrap();
        let choice = Choice::Postgres(private.url().as_str().to_owned());
        let mut chance = workload::stream(1, 1);
        let (mut all, mut lost) = (0, 0);
        for round in 0..rounds() {
            let at = format!("postgres, {durability:?}, round {round}");
            let listen = "127.0.0.1:0".parse().unwrap();
            let server = Server::start(listen, &choice, durability).unwrap();
            if round == 0 {
                assert_eq!(server.open("ann", "to kill").unwrap(), 1);
            }
            let address = server.address().to_string();
            let span = Duration::from_millis(150 + chance.next_u64() % 250);
            let (told, killed) = pressed(&address, round, span, || private.kill().unwrap());
            assert!(!told.is_empty(), "{at}: somebody was answered in {span:?}");
            // Its store is gone, so that it cannot say what is stored.
            assert!(server.stop().is_err(), "{at}");
            private.restart().unwrap();
            lost += held(&told, &stored(&choice, durability), killed, open, &at);
            all += told.len();
        }
        println!("postgres, {durability:?}: {lost} of {all} acknowledged were lost");
        private.stop().unwrap();
    }
}

/// Servers with a log of their own, which are killed: it is given to the kernel before they answer.
fn killed_servers(name: &str, durability: Durability, start: impl FnOnce() -> Lent) {
    let mut server = start();
    let choice = match name {
        "etcd" => Choice::Etcd(format!("{}/killed", server.address())),
        _ => Choice::Cassandra(format!("{}/killed", server.address())),
    };
    let mut chance = workload::stream(1, 2);
    let (mut all, mut lost) = (0, 0);
    for round in 0..rounds().min(8) {
        let at = format!("{name}, {durability:?}, round {round}");
        let listen = "127.0.0.1:0".parse().unwrap();
        let board = Server::start(listen, &choice, durability).unwrap();
        if round == 0 {
            assert_eq!(board.open("ann", "to kill").unwrap(), 1);
        }
        let address = board.address().to_string();
        let span = Duration::from_millis(300 + chance.next_u64() % 500);
        let (told, killed) = pressed(&address, round, span, || server.kill().unwrap());
        assert!(!told.is_empty(), "{at}: somebody was answered in {span:?}");
        // Its store is gone, so that it cannot say what is stored.
        assert!(board.stop().is_err(), "{at}");
        server.restart().unwrap();
        lost += held(&told, &stored(&choice, durability), killed, None, &at);
        all += told.len();
    }
    println!("{name}, {durability:?}: {lost} of {all} acknowledged were lost");
    server.stop().unwrap();
}

#[test]
fn a_killed_etcd_keeps_what_it_acknowledged() {
    let start = || Lent::etcd(&rivals::Settings::default(), None).unwrap();
    killed_servers("etcd", Durability::Strict, start);
}

#[cfg(feature = "cassandra")]
#[test]
fn a_killed_cassandra_keeps_what_it_acknowledged() {
    use rivals::CommitLog;
    let settings = rivals::Settings::default();
    let start = |commit_log| move || Lent::cassandra(&settings, commit_log, 512).unwrap();
    killed_servers("cassandra", Durability::Strict, start(CommitLog::Batch));
}

/// The checks themselves: what is lost, twice or out of order is found.
#[test]
fn what_a_kill_may_not_do_is_found() {
    let begun = Instant::now();
    let at = |ms: u64| begun + Duration::from_millis(ms);
    let told = |number: u64, sent: u64| Told {
        body: format!("c.{number}"),
        sent: at(sent),
        told: at(sent + 5),
    };
    let all = [told(0, 0), told(1, 10), told(2, 20)];
    let body = |number: u64| format!("c.{number}");
    let try_it = |stored: &[u64], killed: u64, open: Option<u64>| {
        let stored: Vec<String> = stored.iter().copied().map(body).collect();
        let open = open.map(Duration::from_millis);
        std::panic::catch_unwind(|| held(&all, &stored, at(killed), open, "x")).ok()
    };
    assert_eq!(try_it(&[0, 1, 2], 30, None), Some(0));
    assert_eq!(try_it(&[0, 1], 30, None), None, "strict loses nothing");
    assert_eq!(try_it(&[0, 1], 30, Some(100)), Some(1));
    assert_eq!(try_it(&[0, 1], 3_000, Some(100)), None, "relaxed loses nothing old");
    assert_eq!(try_it(&[0, 2], 30, Some(100)), None, "nothing stands behind something lost");
    assert_eq!(try_it(&[1, 0, 2], 30, Some(100)), None, "out of order");
    assert_eq!(try_it(&[0, 1, 2, 2], 30, Some(100)), None, "twice");
}
