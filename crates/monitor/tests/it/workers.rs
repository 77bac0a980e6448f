//! Several workers: one gate for all of them, whoever's connections these are, and nothing is heard
//! otherwise than by way of one. `SEKISHO_LONG=SECONDS` has the clients go on for so long;
//! `SEKISHO_WORKERS=N` gives the monitors of all other tests so many.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monitor::{Config, Mode, Stats};
use pgwire::frame::{Backend, HEAD};
use pgwire::message::write;
use pgwire::startup::{Version, write_cancel};

use super::encrypting::{self, Encrypted, encrypted, promised};
use super::{Gate, Raw, database, enter, runtime, shown, trusting};
use pgtest::suite::soak;

const WORKERS: usize = 3;

fn several(mut config: Config) -> Config {
    config.workers = WORKERS;
    config
}

fn gate(mode: Mode, slots: u32) -> Gate {
    Gate::new(several(trusting(database(mode, slots))))
}

/// Each has had something to do, so that what is seen is not the work of one.
fn all_have_worked(stats: &Stats) {
    assert_eq!(stats.turns.len(), WORKERS);
    assert!(stats.turns.iter().all(|turns| *turns > 10), "{:?}", stats.turns);
}

/// Jain's index of fairness: 1 where all have had the same.
fn fairness(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    sum * sum / (counts.len() as f64 * squares)
}

#[test]
fn clients_of_all_workers_wait_in_one_line_and_have_the_same() {
    let gate = gate(Mode::Transaction, 2);
    let soak = soak().unwrap_or_default();
    let began = Instant::now();
    loop {
        let over = AtomicBool::new(false);
        // Twelve on two slots, each there all the time: in one line all have the same number of turns.
        // What differs is what the beginning and the end cut off, and when the system lets each go on.
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..12)
                .map(|number| {
                    let (gate, over) = (&gate, &over);
                    scope.spawn(move || turns_of(gate, number, over))
                })
                .collect();
            let begun = gate.stats().pools.first().map_or(0, |pool| pool.counters.xact_count);
            gate.until("there was enough", |stats| {
                stats.pools.first().is_some_and(|pool| pool.counters.xact_count > begun + 1200)
            });
            over.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(fairness(&counts) > 0.95, "{counts:?}");
        if began.elapsed() >= soak {
            break;
        }
    }
    all_have_worked(&gate.stats());
    // Its recording replays, in which all arrivals stand in one order.
    gate.end();
}

/// How often a client was served, which holds each answer against its question.
fn turns_of(gate: &Gate, number: usize, over: &AtomicBool) -> u64 {
    let mut client = Raw::enter(gate, Version::V3_0, &[]);
    let mut turn = 0;
    while !over.load(Ordering::Relaxed) {
        let nonce = format!("{number}/{turn}");
        client.query(&format!("select '{nonce}', pg_sleep(0.0005)"));
        assert_eq!(client.answer(), [&nonce, "SELECT 1", "ZI"]);
        turn += 1;
    }
    turn
}

#[test]
fn a_client_cancels_by_way_of_any_worker() {
    let gate = gate(Mode::Transaction, 3);
    let mut victims: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_2, &[])).collect();
    for victim in &mut victims {
        victim.query("select pg_sleep(30)");
        gate.until("it runs", |stats| stats.pools[0].busy == 1);
        let began = Instant::now();
        // Connections are dealt in turn, so three in a row come by way of each worker.
        while gate.stats().pools[0].busy == 1 {
            assert!(began.elapsed() < Duration::from_secs(30));
            for _ in 0..3 {
                let mut out = Vec::new();
                write_cancel(&mut out, victim.process, &victim.secret).unwrap();
                let mut raw = Raw::connect(&gate);
                raw.say(&out);
                assert_eq!(raw.rest(), b"");
            }
        }
        let told = victim.answer();
        assert_eq!(told, ["ERROR 57014 canceling statement due to user request", "ZI"]);
    }
    gate.end();
}

/// A row of so many bytes, at which nobody may cut or add.
fn row(bytes: usize, number: usize) -> String {
    let unit = format!("<{number}>");
    unit.repeat(bytes / unit.len() + 1)[..bytes].to_owned()
}

#[test]
fn much_at_once_in_both_directions_arrives_whole_beside_others() {
    let gate = gate(Mode::Transaction, 3);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let small: Vec<_> = (0..4)
            .map(|number| {
                let (gate, over) = (&gate, &over);
                scope.spawn(move || turns_of(gate, number, over))
            })
            .collect();
        let large: Vec<_> = (0..4)
            .map(|number| {
                let gate = &gate;
                scope.spawn(move || {
                    let mut client = Raw::enter(gate, Version::V3_0, &[]);
                    // More than any buffer of the system holds, and the client does not read at first.
                    let text = row(3_000_000, number);
                    client.query(&format!("select '{text}' from generate_series(1, 4)"));
                    std::thread::sleep(Duration::from_millis(200));
                    let told = client.answer();
                    assert_eq!(told.len(), 6, "four rows and two endings");
                    assert!(told[..4].iter().all(|row| *row == text), "client {number}");
                    // Many at once: their answers come in their order.
                    let mut out = Vec::new();
                    (0..500).for_each(|at| write::query(&mut out, &format!("select {at}")));
                    client.say(&out);
                    for at in 0..500 {
                        assert_eq!(client.answer()[0], at.to_string());
                    }
                })
            })
            .collect();
        large.into_iter().for_each(|client| client.join().unwrap());
        over.store(true, Ordering::Relaxed);
        small.into_iter().for_each(|client| assert!(client.join().unwrap() > 0));
    });
    all_have_worked(&gate.stats());
    gate.end();
}

/// The rest of a message, and its tag.
fn hear(stream: &mut Encrypted) -> (u8, Vec<u8>) {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    (head[0], body)
}

#[test]
fn encrypted_clients_of_all_workers_hear_what_they_asked_for() {
    let mut config = several(encrypting::config());
    config.databases = vec![database(Mode::Transaction, 2)];
    let gate = Gate::new(config);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let gate = &gate;
            scope.spawn(move || {
                let mut stream = encrypted(promised(gate), &[]);
                encrypting::start(&mut stream).unwrap();
                while hear(&mut stream).0 != b'Z' {}
                for turn in 0..40 {
                    let text = row(if turn % 10 == 0 { 300_000 } else { 30 }, number * 100 + turn);
                    let mut out = Vec::new();
                    write::query(&mut out, &format!("select '{text}'"));
                    stream.write_all(&out).unwrap();
                    let mut rows = Vec::new();
                    loop {
                        match hear(&mut stream) {
                            (b'D', body) => rows.push(body),
                            (b'Z', _) => break,
                            (tag, body) => assert_ne!(tag, b'E', "{body:?}"),
                        }
                    }
                    assert_eq!(rows.len(), 1);
                    assert!(rows[0][6..] == *text.as_bytes(), "client {number}, turn {turn}");
                }
            });
        }
    });
    all_have_worked(&gate.stats());
    gate.end();
}

#[test]
fn what_an_administrator_says_holds_for_the_clients_of_all_workers() {
    let mut config = several(trusting(database(Mode::Transaction, 2)));
    config.admin.users = vec!["sekisho".to_owned()];
    let slots = |slots| {
        let mut config = several(trusting(database(Mode::Transaction, slots)));
        config.admin.users = vec!["sekisho".to_owned()];
        config
    };
    let gate = Gate::new(config);
    let mut clients: Vec<Raw> = (0..6).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    for client in &mut clients {
        client.query("begin");
    }
    gate.until("four wait", |stats| stats.pools[0].waiting == 4);
    gate.handle.reload(slots(6)).unwrap();
    for client in &mut clients {
        assert_eq!(client.answer(), ["BEGIN", "ZT"], "with more slots nobody waits");
    }
    runtime().block_on(async {
        let console = enter(gate.account().dbname("pgbouncer")).await.unwrap();
        let name = gate.stats().pools[0].database.clone();
        console.batch_execute(&format!("KILL {name}")).await.unwrap();
        console.batch_execute(&format!("RESUME {name}")).await.unwrap();
    });
    for client in &mut clients {
        assert!(client.last_words().contains("57P01"));
    }
    // A drain lets transactions end, whoever serves them, and sends away who has none.
    let mut clients: Vec<Raw> = (0..6).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    for client in &mut clients[..3] {
        client.query("begin");
        assert_eq!(client.answer(), ["BEGIN", "ZT"]);
    }
    gate.handle.drain().unwrap();
    for client in &mut clients[3..] {
        assert!(client.last_words().contains("57P01"));
    }
    for client in &mut clients[..3] {
        client.query("select 'done'; commit");
        assert_eq!(client.answer(), ["done", "SELECT 1", "COMMIT", "ZI"]);
        assert!(client.last_words().contains("57P01"));
    }
    let finished = gate.thread_ends();
    assert_eq!((finished.cut, finished.stats.pools[0].busy), (0, 0));
    assert_eq!(finished.recordings[0].as_ref().unwrap().replay(), Ok(()));
}

#[test]
fn the_last_words_of_a_server_reach_its_client() {
    // A worker had read them, and the loop found the end of the connection before it passed them on.
    let gate = gate(Mode::Transaction, 3);
    for _ in 0..30 {
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        client.query("select pg_terminate_backend(pg_backend_pid())");
        let words = loop {
            if let (Backend::ErrorResponse, body) = client.hear() {
                break shown(&body);
            }
        };
        assert!(words.starts_with("FATAL 57P01"), "{words}");
        assert_eq!(client.rest(), b"");
    }
    gate.end();
}

/// Reads until an answer is over, or the connection.
fn hear_out(client: &mut Raw) {
    let mut head = [0; HEAD];
    while client.stream.read_exact(&mut head).is_ok() && head[0] != b'Z' {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; length];
        if client.stream.read_exact(&mut body).is_err() {
            return;
        }
    }
}

#[test]
fn servers_and_clients_that_go_at_any_moment_leave_no_slot_behind() {
    let gate = gate(Mode::Transaction, 3);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let gate = &gate;
            scope.spawn(move || {
                for turn in 0..60 {
                    let mut client = Raw::enter(gate, Version::V3_0, &[]);
                    let text = match (number + turn) % 4 {
                        // It goes without hearing its answer, which is long.
                        0 => "select repeat('x', 2000000)",
                        1 => "begin; select pg_sleep(0.001)",
                        // Its server goes.
                        2 => "select pg_terminate_backend(pg_backend_pid())",
                        _ => "select 1",
                    };
                    client.query(text);
                    if turn % 3 == 0 {
                        hear_out(&mut client);
                    }
                }
            });
        }
    });
    gate.until("all have gone", |stats| stats.clients == 0 && stats.pools[0].busy == 0);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select 'well'");
    assert_eq!(client.answer(), ["well", "SELECT 1", "ZI"]);
    all_have_worked(&gate.stats());
    gate.end();
}
