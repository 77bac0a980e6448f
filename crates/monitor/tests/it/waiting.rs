//! Clients that wait for a slot: who is next, how long, and what those hear who wait in vain.

use std::time::{Duration, Instant};

use monitor::Mode;
use pgwire::startup::Version;

use super::{Gate, Raw, ask, code, config, database, runtime, trusting};

#[test]
fn who_waits_in_vain_is_told_why_and_how_long_it_would_take() {
    let mut database = database(Mode::Transaction, 1);
    database.gate.wait_max = Some(Duration::from_millis(200));
    let gate = Gate::new(config(database));
    runtime().block_on(async {
        let (holder, waits) = (gate.connect().await, gate.connect().await);
        ask(&holder, "begin").await.unwrap();
        let began = Instant::now();
        let error = ask(&waits, "select 1").await.unwrap_err();
        assert!(began.elapsed() >= Duration::from_millis(200));
        assert_eq!(code(&error), "53300");
        let told = error.as_db_error().unwrap();
        assert!(told.detail().unwrap().starts_with("1 slots are there and 0 clients wait; "));
        assert!(told.hint().is_some());
        // Nobody else is hurt.
        assert_eq!(ask(&holder, "select 2").await.unwrap(), "2");
        ask(&holder, "commit").await.unwrap();
        assert_eq!(ask(&waits, "select 3").await.unwrap(), "3", "its session goes on");
    });
    let pool = &gate.stats().pools[0];
    assert_eq!((pool.counters.refused_deadline, pool.counters.refused_queue_full), (1, 0));
    gate.end();
}

#[test]
fn a_full_queue_refuses_at_once() {
    let mut database = database(Mode::Transaction, 1);
    database.gate.room = Some(1);
    let gate = Gate::new(trusting(database));
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    clients[0].query("begin");
    assert_eq!(clients[0].answer(), ["BEGIN", "ZT"]);
    clients[1].query("select 'patient'");
    gate.until("one waits", |stats| stats.pools[0].waiting == 1);
    clients[2].query("select 'late'");
    assert_eq!(clients[2].answer(), ["ERROR 53300 too many clients wait for a server", "ZI"]);
    clients[0].query("commit");
    assert_eq!(clients[0].answer(), ["COMMIT", "ZI"]);
    assert_eq!(clients[1].answer(), ["patient", "SELECT 1", "ZI"]);
    assert_eq!(gate.stats().pools[0].counters.refused_queue_full, 1);
    gate.end();
}

#[test]
fn who_came_first_is_served_first_from_what_it_has_sent_already() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut clients: Vec<Raw> = (0..5).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    clients[0].query("create sequence arrivals");
    clients[0].answer();
    clients[0].query("begin");
    clients[0].answer();
    for (at, client) in clients.iter_mut().enumerate().skip(1) {
        client.query("select nextval('arrivals')");
        gate.until("it waits", |stats| stats.pools[0].waiting == at as u64);
    }
    clients[0].query("commit");
    clients[0].answer();
    for (at, client) in clients.iter_mut().enumerate().skip(1) {
        assert_eq!(client.answer()[0], at.to_string());
    }
    clients[0].query("drop sequence arrivals");
    clients[0].answer();
    gate.end();
}

#[test]
fn who_goes_while_it_waits_leaves_no_trace() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut holder = Raw::enter(&gate, Version::V3_0, &[]);
    holder.query("begin");
    holder.answer();
    let mut waits = Raw::enter(&gate, Version::V3_0, &[]);
    waits.query("select 1");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    drop(waits);
    gate.until("it has gone", |stats| stats.pools[0].waiting == 0 && stats.clients == 1);
    assert_eq!(gate.stats().pools[0].counters.reneged, 1);
    gate.end();
}

/// Found by a test of classes: a server that had just been given a client's settings owed nothing to
/// anybody, and went to the next one before its client had used it. Clients of different settings
/// took it from each other for ever.
#[test]
fn who_is_given_its_settings_is_served_at_once() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut holder = Raw::enter(&gate, Version::V3_0, &[]);
    holder.query("begin");
    holder.answer();
    let mut clients: Vec<Raw> = ["one", "two", "three"]
        .map(|name| Raw::enter(&gate, Version::V3_0, &[("application_name", name)]))
        .into();
    for (at, client) in clients.iter_mut().enumerate() {
        client.query("select current_setting('application_name')");
        gate.until("it waits", |stats| stats.pools[0].waiting == at as u64 + 1);
    }
    let before = gate.stats().pools[0].wait.len();
    holder.query("commit");
    holder.answer();
    for (client, name) in clients.iter_mut().zip(["one", "two", "three"]) {
        assert_eq!(client.answer(), [name, "SELECT 1", "ZI"]);
    }
    assert_eq!(gate.stats().pools[0].wait.len() - before, 3, "each has had the slot once");
    gate.end();
}
