//! Slots that are left to the gate, before a server whose law is known: of each transaction 4 ms are
//! asleep alone and 4 ms asleep with a lock that one at a time can have, whatever the machine does
//! meanwhile. So one slot does 125 transactions a second at most, and however many do 250.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gate::{Conduct, Event};
use live::WhatIf;
use live::model::Refusal;
use monitor::{Auto, Database, Mode, Moved, PoolStats};

use super::{Gate, config, database, runtime};

/// A transaction with a lock of this number.
fn transaction(lock: u32) -> String {
    format!(
        "begin; select pg_sleep(0.004); select pg_advisory_xact_lock({lock}); \
         select pg_sleep(0.004); commit"
    )
}

/// Twice as many as slots, so that somebody waits all the time, without which nothing is tried.
const CLIENTS: usize = 40;
/// On a machine that others use a trial tells nothing before its last look: 64 pairs of windows of a
/// second each. On a quiet one it takes ten.
const PATIENCE: Duration = Duration::from_secs(900);

fn left_to_the_gate(conduct: Conduct) -> Database {
    let mut database = database(Mode::Transaction, 20);
    let window = Duration::from_millis(250);
    database.auto = Some(Auto { floor: 2, ceiling: 24, conduct, window });
    database
}

/// Clients ask until the pool is as it should be. What it was then, and what the clients counted.
fn press(gate: &Gate, lock: u32, holds: impl Fn(&PoolStats) -> bool) -> (PoolStats, u64) {
    let ends = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let found = runtime().block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let client = gate.connect().await;
            let (ends, done) = (Arc::clone(&ends), Arc::clone(&done));
            let transaction = transaction(lock);
            clients.push(tokio::spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    client.simple_query(&transaction).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let began = Instant::now();
        let found = loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let pool = gate.stats().pools.remove(0);
            if holds(&pool) {
                break pool;
            }
            assert!(began.elapsed() < PATIENCE, "{:?} {:?}", pool.control, pool.model);
        };
        ends.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("no transaction is cut short");
        }
        found
    });
    (found, done.load(Ordering::Relaxed))
}

fn knows(pool: &PoolStats) -> bool {
    pool.model.iter().any(|row| row.what == "time alone")
}

#[test]
fn slots_left_to_the_gate_come_down_to_what_the_server_can_use() {
    let gate = Gate::new(config(left_to_the_gate(Conduct::Acts)));
    let (pool, done) = press(&gate, 4711, |pool| {
        let standing = pool.control.as_ref().map(|control| control.standing[0]);
        standing <= Some(12) && knows(pool)
    });
    let control = pool.control.as_ref().unwrap();
    assert!(control.moves.iter().any(Moved::stands), "each decision has its reason: {control:?}");
    let alone = pool.model.iter().find(|row| row.what == "time alone").unwrap();
    assert!(alone.interval.unwrap().1 >= 0.008, "nobody sleeps for less: {alone:?}");
    let asked = WhatIf { slots: Some(1), ..WhatIf::default() };
    match gate.handle.what_if(&asked).unwrap() {
        Ok(rows) => {
            let throughput = rows.iter().find(|row| row.what == "throughput").unwrap();
            assert!(throughput.interval.unwrap().0 <= 125.0, "{throughput:?}");
        }
        // A machine that stands still for a while fits no law; then the model must say so.
        Err(refused) => {
            let named = matches!(refused, Refusal::Misfit { .. } | Refusal::NotNow { .. });
            assert!(named, "{refused}");
        }
    }
    let finished = gate.end();
    assert_eq!(finished.stats.pools[0].counters.xact_count, done, "none was cut short");
    let recording = finished.recordings[0].as_ref().unwrap();
    let resize = |step: &measure::Step| matches!(step.event, Event::Resize { .. });
    assert!(recording.steps.iter().any(resize), "the resizes are recorded");
}

#[test]
fn a_shadow_tells_and_does_nothing() {
    let gate = Gate::new(config(left_to_the_gate(Conduct::Shadows)));
    let (pool, _) = press(&gate, 4712, knows);
    assert_eq!(pool.slots, 20);
    let row = pool.model.iter().find(|row| row.what == "slots, if it acted");
    assert!(row.is_some(), "{:?}", pool.model);
    let finished = gate.end();
    let recording = finished.recordings[0].as_ref().unwrap();
    let resize = |step: &measure::Step| matches!(step.event, Event::Resize { .. });
    assert!(!recording.steps.iter().any(resize));
}
