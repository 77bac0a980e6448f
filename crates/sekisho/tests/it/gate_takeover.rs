//! `sekisho gate postgres --take-over` as an operator uses it: the same command once more, in a process
//! of its own, while clients are at work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postgres::{Private, Settings};
use tokio_postgres::{Client, NoTls};

use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, Running, start};
use crate::tpcc::ask;

fn private() -> Private {
    let parameters = vec![("fsync".to_owned(), "off".to_owned())];
    Private::start(&Settings { parameters, ..Settings::default() }).expect("a server starts")
}

/// The command; what it listens on is the system's choice the first time.
fn gate(folder: &Path, url: &str) -> Running {
    let listens = ["gate", "postgres", "--listen", "127.0.0.1:0", "--db", url, "--slots", "4"];
    let rest = ["--admin", "sekisho", "--take-over", "gate.sock"];
    start(folder, &[&listens[..], &rest].concat())
}

/// Address that clients connect to.
fn address(running: &Running) -> String {
    let said = running.says("next: psql ");
    let (_, rest) = said.split_once("listening on ").expect("it says so");
    rest.split(' ').next().expect("it says where").to_owned()
}

async fn enter(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it gets in");
    tokio::spawn(connection);
    client
}

/// Works all the while, each time with its own statement and setting, some in transactions.
async fn works(url: String, mine: i32, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let client = enter(&url).await;
    let name = format!("worker {mine}");
    client.batch_execute(&format!("set application_name to '{name}'")).await.expect("it is set");
    let asks = "select $1::int4 + 7, current_setting('application_name')";
    let asks = client.prepare(asks).await.expect("it is prepared");
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        if mine % 3 == 0 {
            client.batch_execute("begin; select pg_sleep(0.01)").await.expect("it begins");
        }
        let row = client.query_one(&asks, &[&turn]).await.expect("it is answered");
        assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (turn + 7, name.clone()));
        if mine % 3 == 0 {
            client.batch_execute("commit").await.expect("it commits");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn go_on(done: &AtomicU64, more: u64) {
    let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
    while done.load(Ordering::Relaxed) < before + more {
        assert!(began.elapsed() < PATIENCE, "nothing goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it has nothing behind it")
}

/// End of a gate, while clients go on.
async fn end(running: Running) -> Ended {
    tokio::task::spawn_blocking(|| running.ended(PATIENCE)).await.expect("it ends")
}

#[test]
fn a_gate_is_upgraded_under_load_and_nobody_notices() {
    let server = private();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let first = gate(&folder, url.as_str());
    let place = address(&first);
    let (account, rest) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = rest.split_once('/').expect("there is a database");
    let gated = format!("{account}@{place}/{database}");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let last = runtime().block_on(async {
        let mut running = first;
        let workers: Vec<_> = (0..20)
            .map(|mine| tokio::spawn(works(gated.clone(), mine, stop.clone(), done.clone())))
            .collect();
        go_on(&done, 100).await;
        for _ in 0..2 {
            let next = gate(&folder, url.as_str());
            assert_eq!(address(&next), place, "the same socket");
            let said = next.says("takes over from process");
            assert!(said.contains(&format!("process {}\n", running.pid())), "{said}");
            let ended = end(running).await;
            assert_eq!(ended.code, 0, "{ended:?}");
            assert!(ended.out.contains(" 0 cut off"), "{ended:?}");
            assert!(ended.err.contains("were handed over to process"), "{ended:?}");
            next.complains("clients were taken over from it");
            running = next;
            go_on(&done, 100).await;
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.await.expect("nobody heard of it");
        }
        running
    });
    last.signal("TERM");
    let ended = last.ended(PATIENCE);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("taken over from another process"), "{ended:?}");
    assert!(!folder.join("gate.sock").exists());
    server.stop().expect("it stops");
}

#[test]
fn a_new_gate_that_is_killed_leaves_the_old_one_as_it_was_and_so_does_one_that_is_refused() {
    let server = private();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let old = gate(&folder, url.as_str());
    let (account, rest) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = rest.split_once('/').expect("there is a database");
    let gated = format!("{account}@{}/{database}", address(&old));
    runtime().block_on(async {
        // All have a transaction open: nobody is with the new one when that is killed.
        let mut clients = Vec::new();
        for mine in 0..3 {
            let client = enter(&gated).await;
            let begins = format!("set work_mem to '{mine}MB'; begin").replace("'0MB'", "'9MB'");
            client.batch_execute(&begins).await.expect("it begins");
            clients.push(client);
        }
        let next = gate(&folder, url.as_str());
        old.complains("takes over; 3 clients are in");
        let refused = gate(&folder, url.as_str()).ended(PATIENCE);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("does not hand over"), "{refused:?}");
        next.signal("KILL");
        old.complains("this gate");
        drop(next);
        for (mine, client) in clients.iter().enumerate() {
            client.batch_execute("commit").await.expect("it goes on");
            let shown = client.query_one("show work_mem", &[]).await.expect("it is answered");
            assert_eq!(shown.get::<_, String>(0), format!("{}MB", [9, 1, 2][mine]));
        }
        let fresh = enter(&gated).await;
        let row = fresh.query_one("select 7", &[]).await.expect("who comes is served");
        assert_eq!(row.get::<_, i32>(0), 7);
        // And the next one takes over.
        let next = gate(&folder, url.as_str());
        assert_eq!(end(old).await.code, 0);
        for client in clients.iter().chain([&fresh]) {
            client.batch_execute("select 1").await.expect("it is with the new one");
        }
        drop(next);
    });
    server.stop().expect("it stops");
}

#[test]
fn an_old_gate_that_is_killed_takes_none_of_those_with_it_who_have_gone_over() {
    let server = private();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = server.url();
    let old = gate(&folder, url.as_str());
    let (account, rest) = url.as_str().split_once('@').expect("there is a password");
    let (_, database) = rest.split_once('/').expect("there is a database");
    let place = address(&old);
    let gated = format!("{account}@{place}/{database}");
    let runtime = runtime();
    let (rests, works) = runtime.block_on(async {
        let rests = [enter(&gated).await, enter(&gated).await, enter(&gated).await];
        let works = enter(&gated).await;
        works.batch_execute("begin").await.expect("it begins");
        (rests, works)
    });
    let next = gate(&folder, url.as_str());
    old.complains("takes over; 4 clients are in");
    // Whoever comes now comes to the new one; its console knows who is there, itself included.
    let console = format!("{account}@{place}/pgbouncer");
    let began = Instant::now();
    while ask(&console, "show clients").expect("it is the new one's").len() < rests.len() + 1 {
        assert!(began.elapsed() < PATIENCE, "they do not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    old.signal("KILL");
    next.complains("has died; 3 clients");
    runtime.block_on(async {
        for client in &rests {
            client.batch_execute("select 1").await.expect("it is with the new one");
        }
        let error = works.batch_execute("commit").await.expect_err("its gate was killed");
        assert!(error.is_closed() || error.code().is_none(), "{error}");
        enter(&gated).await.batch_execute("select 1").await.expect("who comes is served");
    });
    drop(old);
    // The next one takes over from it as from any other.
    let last = gate(&folder, url.as_str());
    assert_eq!(next.ended(PATIENCE).code, 0);
    drop(last);
    server.stop().expect("it stops");
}
