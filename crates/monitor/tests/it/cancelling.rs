//! Cancel requests: the right query or none.

use std::time::{Duration, Instant};

use monitor::Mode;
use pgwire::startup::{Version, write_cancel};

use super::{Gate, Raw, ask, code, database, runtime, trusting};
use pgtest::script::{bind, execute, parse, query, sync};

/// Asks for a cancel as a driver does, and waits until it is done.
fn cancel(gate: &Gate, process: u32, secret: &[u8]) {
    let mut out = Vec::new();
    write_cancel(&mut out, process, secret).unwrap();
    let mut raw = Raw::connect(gate);
    raw.say(&out);
    assert_eq!(raw.rest(), b"", "a cancel request has no answer");
}

#[test]
fn a_cancel_request_hits_its_client_and_nobody_else() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 2)));
    for version in [Version::V3_0, Version::V3_2] {
        let mut mine = Raw::enter(&gate, version, &[]);
        let mut other = Raw::enter(&gate, version, &[]);
        assert_eq!(mine.secret.len(), if version == Version::V3_0 { 4 } else { 32 });
        mine.query("select pg_sleep(30)");
        other.query("select 'slept', pg_sleep(0.7)");
        gate.until("both run", |stats| stats.pools[0].busy == 2);
        // It runs, but perhaps not its query yet: a request that comes too early hits nothing.
        let began = Instant::now();
        while gate.stats().pools[0].busy == 2 {
            assert!(began.elapsed() < Duration::from_secs(20));
            let mut wrong = mine.secret.clone();
            wrong[0] ^= 1;
            cancel(&gate, mine.process, &wrong);
            cancel(&gate, mine.process.wrapping_add(1), &mine.secret);
            cancel(&gate, mine.process, &mine.secret);
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = mine.answer();
        assert_eq!(told, ["ERROR 57014 canceling statement due to user request", "ZI"]);
        assert_eq!(other.answer(), ["slept", "SELECT 1", "ZI"]);
        // Who has nothing under way has nothing cancelled.
        cancel(&gate, mine.process, &mine.secret);
        mine.query("select 'well'");
        assert_eq!(mine.answer(), ["well", "SELECT 1", "ZI"]);
    }
    let stats = gate.stats();
    assert!(stats.cancels >= 2 && stats.cancels_ignored >= 6, "{stats:?}");
    gate.end();
}

#[test]
fn no_cancel_request_hits_who_has_the_server_next() {
    // Short queries and cancels that come at their ends, on one server.
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut victim = Raw::enter(&gate, Version::V3_2, &[]);
    let (process, secret) = (victim.process, victim.secret.clone());
    std::thread::scope(|scope| {
        let cancels = scope.spawn(|| {
            // Until one at least came while there was something to cancel.
            let latest = Instant::now() + Duration::from_secs(30);
            let mut sent = 0;
            while sent < 150 || gate.stats().cancels == 0 && Instant::now() < latest {
                cancel(&gate, process, &secret);
                sent += 1;
            }
        });
        let others = scope.spawn(|| {
            let mut other = Raw::enter(&gate, Version::V3_0, &[]);
            for turn in 0..300 {
                other.query(&format!("select {turn}, pg_sleep(0.001)"));
                assert_eq!(other.answer(), [&turn.to_string(), "SELECT 1", "ZI"]);
            }
        });
        while !(cancels.is_finished() && others.is_finished()) {
            victim.query("select 'mine', pg_sleep(0.002)");
            let told = victim.answer();
            assert!(told[0] == "mine" || told[0].contains("57014"), "{told:?}");
        }
        others.join().unwrap();
    });
    assert!(gate.stats().cancels > 0);
    gate.end();
}

/// Who waited for a slot and gave up went on waiting, for up to `wait-max`: nothing had been asked of a
/// server that could be cancelled there.
#[test]
fn who_waits_for_a_slot_is_cancelled_as_at_a_server_and_goes_on() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    let mut mine = Raw::enter(&gate, Version::V3_0, &[]);
    other.query("begin");
    assert_eq!(other.answer(), ["BEGIN", "ZT"]);
    let cancelled = ["ERROR 57014 canceling statement due to user request", "ZI"];
    let segment = [parse("a", "select 'series'", &[]), bind("", "a", &[]), execute(""), sync()];
    for asks in [query("select 'mine'"), segment.concat()] {
        mine.say(&asks);
        gate.until("it waits", |stats| stats.pools[0].waiting == 1);
        let wrong: Vec<u8> = mine.secret.iter().map(|byte| !byte).collect();
        cancel(&gate, mine.process, &wrong);
        assert_eq!(gate.stats().pools[0].waiting, 1, "not by somebody else");
        cancel(&gate, mine.process, &mine.secret);
        assert_eq!(mine.answer(), cancelled);
        assert_eq!(gate.stats().pools[0].waiting, 0);
    }
    other.query("commit");
    assert_eq!(other.answer(), ["COMMIT", "ZI"]);
    mine.query("select 'well'");
    assert_eq!(mine.answer(), ["well", "SELECT 1", "ZI"]);
    assert_eq!(gate.stats().cancels, 2);
    gate.end();
}

#[test]
fn a_driver_s_own_cancel_works() {
    let gate = Gate::of(Mode::Session, 1);
    runtime().block_on(async {
        let client = gate.connect().await;
        let token = client.cancel_token();
        let cancels = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                token.cancel_query(tokio_postgres::NoTls).await.unwrap();
            }
        });
        let error = ask(&client, "select pg_sleep(30)").await.unwrap_err();
        cancels.abort();
        assert_eq!(code(&error), "57014");
    });
    gate.end();
}
