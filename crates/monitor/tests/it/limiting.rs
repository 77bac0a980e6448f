//! How many clients there may be, how much they may say, and how long they may take.

use std::time::Duration;

use monitor::{ClientTimeouts, Mode, UnlistedUsers, UserTerms};
use pgwire::message::write;
use pgwire::startup::Version;

use super::{Gate, Raw, ask, config, database, directly, runtime, trusting};

/// A client of a gate that trusts, with another user and database than usual.
fn raw(gate: &Gate, user: &str, database: &str) -> Raw {
    let mut raw = Raw::connect(gate);
    let mut out = Vec::new();
    let pairs = [("user", user), ("database", database)];
    let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    pgwire::startup::write_startup(&mut out, Version::V3_0, pairs).unwrap();
    raw.say(&out);
    raw
}

#[test]
fn a_database_and_a_user_have_only_so_many_clients() {
    let mut wide = database(Mode::Transaction, 2);
    wide.name = "wide".into();
    wide.target = Some("postgres".into());
    wide.forced = Some(b"sekisho".to_vec());
    let mut narrow = wide.clone();
    narrow.name = "narrow".into();
    narrow.clients = Some(1);
    let mut config = trusting(wide);
    config.databases.push(narrow);
    config.limits.database_clients = Some(3);
    config.limits.user_clients = Some(2);
    config.terms.insert(b"many".to_vec(), UserTerms { clients: Some(9), ..UserTerms::default() });
    let gate = Gate::new(config);
    let enters = |user: &str, database: &str| {
        let mut raw = raw(&gate, user, database);
        raw.answer();
        raw.query("select current_user");
        assert_eq!(raw.answer()[0], "sekisho", "it is forced");
        raw
    };
    let is_refused = |user: &str, database: &str, words: &str| {
        let mut raw = raw(&gate, user, database);
        // It is let in and told so before its database is looked at.
        let mut heard = raw.hear();
        while heard.0 != pgwire::frame::Backend::ErrorResponse {
            heard = raw.hear();
        }
        assert_eq!(super::shown(&heard.1), format!("FATAL 53300 {words}"));
    };
    let _kept = [enters("a", "wide"), enters("a", "narrow")];
    is_refused("a", "wide", "user \"a\" has 2 clients already, and may have no more");
    is_refused("b", "narrow", "database \"narrow\" has 1 clients already, and may have no more");
    let more = [enters("many", "wide"), enters("many", "wide")];
    is_refused("many", "wide", "database \"wide\" has 3 clients already, and may have no more");
    drop(more);
    gate.until("they have gone", |stats| stats.clients == 2);
    enters("many", "wide");
    assert_eq!(gate.stats().clients_refused, 3);
    assert_eq!(gate.stats().pools.len(), 2, "a forced user has one pool for all clients");
    gate.end();
}

#[test]
fn who_is_trusted_and_not_known_does_not_get_in_where_that_is_wanted() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.unlisted_users = UnlistedUsers::Refused;
    let gate = Gate::new(config);
    let mut stranger = raw(&gate, "stranger", "postgres");
    assert_eq!(stranger.last_words(), "FATAL 28000 role \"stranger\" does not exist");
    Raw::enter(&gate, Version::V3_0, &[]);
    gate.end();
}

#[test]
fn a_message_that_is_too_large_is_refused() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.limits.message = 10_000;
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query(&format!("select length('{}')", "x".repeat(9_000)));
    assert_eq!(client.answer(), ["9000", "SELECT 1", "ZI"]);
    let mut out = Vec::new();
    write::query(&mut out, &format!("select '{}'", "x".repeat(10_000)));
    client.say(&out[..100]);
    let words = client.last_words();
    assert!(words.starts_with("FATAL 08P01"), "{words}");
    // Nor does a server send more than that in one.
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("select repeat('x', 10000)");
    let mut heard = client.hear();
    while heard.0 != pgwire::frame::Backend::ErrorResponse {
        heard = client.hear();
    }
    assert!(super::shown(&heard.1).contains("08P01"));
    gate.until("the slot is back", |stats| stats.pools[0].busy == 0);
    gate.end();
}

#[test]
fn a_query_and_a_transaction_that_take_too_long_are_ended_at_the_server_too() {
    let patient = ClientTimeouts::default();
    let mut config = trusting(database(Mode::Transaction, 2));
    config.timeouts.query = Some(Duration::from_millis(300));
    config.databases[0].forced = Some(b"sekisho".to_vec());
    let terms = |client_timeouts| UserTerms {
        client_timeouts: Some(client_timeouts),
        ..UserTerms::default()
    };
    let slow = ClientTimeouts { transaction: Some(Duration::from_millis(400)), ..patient };
    config.terms.insert(b"slow".to_vec(), terms(slow));
    config.terms.insert(b"patient".to_vec(), terms(patient));
    let gate = Gate::new(config);
    let name = gate.account().get_dbname().unwrap().to_owned();
    let enter = |user: &str| {
        let mut raw = raw(&gate, user, &name);
        raw.answer();
        raw
    };
    let (mut usual, mut slow, mut patient) = (enter("sekisho"), enter("slow"), enter("patient"));
    usual.query("select pg_sleep(600)");
    let words = "FATAL 57014 canceling statement due to query timeout of the gate";
    assert_eq!(usual.last_words(), words);
    gate.until("its slot is back", |stats| stats.pools[0].busy == 0);
    let sleeping = "select count(*) from pg_stat_activity where query like '%sleep(600)%' and \
                    state = 'active' and pid <> pg_backend_pid()";
    runtime().block_on(async {
        let direct = directly().await;
        while ask(&direct, sleeping).await.unwrap() != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    slow.query("begin");
    slow.answer();
    let words = "FATAL 25P04 terminating connection due to transaction timeout";
    assert_eq!(slow.last_words(), words);
    patient.query("begin; select pg_sleep(2.5)");
    assert_eq!(patient.answer(), ["BEGIN", "", "SELECT 1", "ZT"], "it may take its time");
    patient.query("commit");
    assert_eq!(patient.answer(), ["COMMIT", "ZI"]);
    gate.end();
}

#[test]
fn a_transaction_that_thinks_is_no_query_that_takes_long() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.query = Some(Duration::from_millis(100));
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("begin");
    client.answer();
    // Longer than any look at clients is away.
    std::thread::sleep(Duration::from_millis(2500));
    client.query("commit");
    assert_eq!(client.answer(), ["COMMIT", "ZI"]);
    gate.end();
}

#[test]
fn who_waits_for_long_is_told_once() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.timeouts.wait_notice = Some(Duration::from_millis(100));
    let gate = Gate::new(config);
    let mut holder = Raw::enter(&gate, Version::V3_0, &[]);
    let mut waits = Raw::enter(&gate, Version::V3_0, &[]);
    for _ in 0..2 {
        holder.query("begin");
        holder.answer();
        waits.query("select 'at last'");
        let (_, notice) = waits.hear();
        let words = "NOTICE 00000 all server connections are busy: the query waits for one";
        assert_eq!(super::shown(&notice), words);
        // Another look at it comes and goes.
        std::thread::sleep(Duration::from_millis(1500));
        holder.query("commit");
        holder.answer();
        assert_eq!(waits.answer(), ["at last", "SELECT 1", "ZI"]);
    }
    gate.end();
}

#[test]
fn a_user_has_slots_a_mode_and_a_wait_of_its_own() {
    let mut config = config(database(Mode::Transaction, 3));
    let terms = UserTerms {
        mode: Some(Mode::Session),
        slots: Some(1),
        wait_max: Some(Duration::from_millis(200)),
        ..UserTerms::default()
    };
    config.terms.insert(b"sekisho".to_vec(), terms);
    let gate = Gate::new(config);
    runtime().block_on(async {
        let (holds, waits) = (gate.connect().await, gate.connect().await);
        ask(&holds, "select 1").await.unwrap();
        let error = ask(&waits, "select 1").await.unwrap_err();
        assert_eq!(super::code(&error), "53300", "the one slot is another's session's");
    });
    assert_eq!(gate.stats().pools[0].slots, 1);
    gate.end();
}
