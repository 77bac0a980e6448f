//! Slots over several pools: of all, of a database, of a user.

use std::time::Duration;

use monitor::{Address, Classes, Config, Database, JobClass, Mode, Quotas, Share, UserTerms};
use pgsession::sql::{Class, Pattern, Rule, Test};
use pgwire::frame::Backend;
use pgwire::startup::{Version, write_startup};

use super::{Gate, Raw, database, shown, trusting};

/// Two databases, `first` and `second`, which are one at the server; each pool has two slots.
fn config(mode: Mode, quotas: Quotas) -> Config {
    let named = |name: &str| {
        let of_test = database(mode, 2);
        let target = Some(of_test.name.clone());
        Database { name: name.to_owned(), target, ..of_test }
    };
    let mut config = trusting(named("first"));
    config.admin.users = vec!["sekisho".to_owned()];
    config.databases.push(named("second"));
    config.quotas = quotas;
    config
}

fn all(slots: u32) -> Quotas {
    Quotas { all: Some(slots), ..Quotas::default() }
}

fn enter(gate: &Gate, database: &str) -> Raw {
    let mut raw = Raw::connect(gate);
    let parameters = [("user", "sekisho"), ("database", database)];
    let parameters = parameters.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut out = Vec::new();
    write_startup(&mut out, Version::V3_0, parameters).unwrap();
    raw.say(&out);
    loop {
        match raw.hear() {
            (Backend::ReadyForQuery, _) => return raw,
            (Backend::ErrorResponse, body) => panic!("{}", shown(&body)),
            _ => {}
        }
    }
}

fn console(gate: &Gate) -> Raw {
    enter(gate, "pgbouncer")
}

fn says(client: &mut Raw, sql: &str) -> String {
    client.query(sql);
    client.answer().swap_remove(0)
}

fn connections(gate: &Gate) -> usize {
    gate.stats().pools.iter().map(|pool| pool.servers).sum()
}

#[test]
fn pools_share_the_slots_of_all_and_close_what_others_leave_idle() {
    let gate = Gate::new(config(Mode::Transaction, all(1)));
    let (mut first, mut second) = (enter(&gate, "first"), enter(&gate, "second"));
    for turn in 0..3 {
        assert_eq!(says(&mut first, "begin"), "BEGIN");
        second.query("select 'served'");
        gate.until("it waits behind its pool's gate", |stats| {
            (stats.quotas[0].waiting, stats.quotas[0].busy) == (1, 1)
        });
        assert_eq!(connections(&gate), 1, "turn {turn}");
        assert_eq!(says(&mut first, "commit"), "COMMIT");
        assert_eq!(second.answer(), ["served", "SELECT 1", "ZI"]);
        assert_eq!(connections(&gate), 1, "turn {turn}: the other one was closed");
    }
    let stats = gate.stats();
    assert_eq!(stats.quotas[0].name, "all");
    assert!(stats.quotas[0].wait.len() >= 6);
    // And so says the console.
    let mut console = console(&gate);
    console.query("SHOW SLOTS");
    let answer = console.answer();
    assert_eq!(answer[..3], ["first/sekisho", "second/sekisho", "all"], "{answer:?}");
    drop((first, second));
    gate.end();
}

/// The monitor asked again and again for the slot that it was refused, and did nothing else any more.
#[test]
fn the_first_client_of_a_pool_hears_that_nobody_may_wait_for_slots_of_others() {
    let mut config = config(Mode::Transaction, all(1));
    for database in &mut config.databases {
        database.gate.room = Some(0);
    }
    let gate = Gate::new(config);
    let mut first = enter(&gate, "first");
    assert_eq!(says(&mut first, "begin"), "BEGIN");
    for _ in 0..3 {
        let mut second = Raw::connect(&gate);
        second.start_at("second", Version::V3_0, &[]);
        let words = loop {
            if let (Backend::ErrorResponse, body) = second.hear() {
                break shown(&body);
            }
        };
        assert_eq!(words, "FATAL 53300 too many clients wait for a server");
    }
    assert_eq!(says(&mut first, "commit"), "COMMIT");
    assert_eq!(says(&mut enter(&gate, "second"), "select 'served'"), "served");
    drop(first);
    gate.end();
}

/// What waited for a quota on behalf of clients that had gone got its slots while the gate closed what
/// was left, and began a connection that nobody closed: its slot never came back.
#[test]
fn a_gate_that_is_cut_short_gives_back_what_a_quota_lets_pass_at_the_end() {
    let mut config = config(Mode::Transaction, all(1));
    config.timeouts.drain = Duration::from_millis(100);
    let gate = Gate::new(config);
    let mut first = enter(&gate, "first");
    first.query("select pg_sleep(3)");
    gate.until("it is served", |stats| stats.quotas[0].busy == 1);
    let mut second = Raw::connect(&gate);
    second.start_at("second", Version::V3_0, &[]);
    gate.until("its pool asks for the welcome", |stats| stats.quotas[0].waiting == 1);
    assert_eq!(gate.end().cut, 1);
}

#[test]
fn a_pool_keeps_its_turn_so_that_not_each_job_costs_a_connection() {
    let gate = Gate::new(config(Mode::Transaction, all(1)));
    let mut holder = enter(&gate, "first");
    let mut clients: Vec<Raw> =
        (0..16).map(|at| enter(&gate, if at % 2 == 0 { "first" } else { "second" })).collect();
    assert_eq!(says(&mut holder, "begin"), "BEGIN");
    let before: u64 = gate.stats().pools.iter().map(|pool| pool.counters.connects).sum();
    for client in &mut clients {
        client.query("select 'served'");
    }
    // Of each pool one has a slot of it, or two where nobody else has one.
    gate.until("they wait", |stats| {
        stats.quotas[0].waiting + stats.pools.iter().map(|pool| pool.waiting).sum::<u64>() == 16
    });
    assert_eq!(says(&mut holder, "commit"), "COMMIT");
    for client in &mut clients {
        assert_eq!(client.answer()[0], "served");
    }
    let after: u64 = gate.stats().pools.iter().map(|pool| pool.counters.connects).sum();
    assert!(after - before <= 16, "{before} connections, then {after}");
    assert_eq!(connections(&gate), 1);
    drop((holder, clients));
    gate.end();
}

#[test]
fn a_quota_of_a_database_or_user_is_of_that_alone() {
    let of_database = Quotas { database: Some(1), ..Quotas::default() };
    let named = Quotas {
        databases: [("first".to_owned(), 1)].into(),
        users: [(b"sekisho".to_vec(), 2)].into(),
        ..Quotas::default()
    };
    for quotas in [of_database, named] {
        let gate = Gate::new(config(Mode::Transaction, quotas));
        let (mut first, mut again) = (enter(&gate, "first"), enter(&gate, "first"));
        let mut second = enter(&gate, "second");
        assert_eq!(says(&mut first, "begin"), "BEGIN");
        again.query("select 'patient'");
        gate.until("it waits", |stats| stats.quotas.iter().any(|quota| quota.waiting == 1));
        let waits = gate.stats().quotas.into_iter().find(|quota| quota.waiting == 1);
        assert_eq!(waits.unwrap().name, "database first");
        if gate.stats().quotas.iter().all(|quota| quota.name != "user sekisho") {
            assert_eq!(says(&mut second, "select 'at once'"), "at once");
        }
        assert_eq!(says(&mut first, "commit"), "COMMIT");
        assert_eq!(again.answer()[0], "patient");
        assert_eq!(says(&mut second, "select 'then'"), "then");
        drop((first, again, second));
        gate.end();
    }
}

/// A pool of one slot before two servers was refused, though PgBouncer takes it.
#[test]
fn a_pool_may_have_fewer_slots_than_servers_and_any_of_them_serves() {
    let up = database(Mode::Transaction, 1).servers[0].clone();
    let down = Address::Tcp(([127, 0, 0, 1], 1).into());
    for servers in [vec![up.clone(), up.clone()], vec![down.clone(), up.clone()], vec![up, down]] {
        let mut database = database(Mode::Transaction, 1);
        database.gate.servers = Share::Together.of(1, 2);
        (database.servers, database.share, database.scarce) = (servers, Share::Together, Some(1));
        let gate = Gate::new(trusting(database));
        let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
        for round in 0..6 {
            assert_eq!(says(&mut clients[round % 3], "begin"), "BEGIN");
            let next = (round + 1) % 3;
            clients[next].query("select 'patient'");
            gate.until("it waits", |stats| {
                stats.pools[0].waiting == 1 || stats.quotas[0].waiting == 1
            });
            assert!(connections(&gate) <= 2, "one at each server");
            assert_eq!(gate.stats().quotas[0].busy, 1, "jobs at once");
            assert_eq!(says(&mut clients[round % 3], "commit"), "COMMIT");
            assert_eq!(clients[next].answer()[0], "patient");
        }
        let name = gate.stats().quotas[0].name.clone();
        assert!(name.starts_with("pool ") && name.ends_with("/sekisho"), "{name}");
        drop(clients);
        gate.end();
    }
}

/// Each job went to the server whose turn it was, found the one connection at the other, and had its own
/// made: 12 transactions on 12 connections.
#[test]
fn a_pool_of_fewer_slots_than_servers_keeps_a_connection_at_each() {
    let up = database(Mode::Transaction, 1).servers[0].clone();
    for (slots, count) in [(1, 2), (2, 3)] {
        let mut database = database(Mode::Transaction, 1);
        database.gate.servers = Share::Together.of(slots, count);
        database.servers = vec![up.clone(); count];
        (database.share, database.scarce) = (Share::Together, Some(slots));
        let gate = Gate::new(trusting(database));
        let mut client = Raw::enter(&gate, Version::V3_0, &[]);
        let asked = (0..12).map(|_| says(&mut client, "select pg_backend_pid()"));
        let asked: Vec<String> = asked.collect();
        let distinct: std::collections::BTreeSet<&String> = asked.iter().collect();
        assert_eq!(distinct.len(), count, "{asked:?}");
        for at in 0..12 - count {
            assert_eq!(asked[at], asked[at + count], "each has its turn: {asked:?}");
        }
        assert_eq!(connections(&gate), count);
        drop(client);
        gate.end();
    }
}

#[test]
fn who_waits_for_a_quota_in_vain_is_told_so_and_who_goes_leaves_no_trace() {
    for mode in [Mode::Transaction, Mode::Session] {
        let mut config = config(mode, all(1));
        for database in &mut config.databases {
            database.gate.wait_max = Some(Duration::from_secs(1));
        }
        let gate = Gate::new(config);
        let (mut late, mut gone) = (enter(&gate, "second"), enter(&gate, "second"));
        let mut holder = enter(&gate, "first");
        assert_eq!(says(&mut holder, "begin"), "BEGIN");
        gone.query("select 1");
        gate.until("it waits", |stats| stats.quotas[0].waiting == 1);
        drop(gone);
        gate.until("it has gone", |stats| stats.quotas[0].waiting == 0);
        late.query("select 1");
        let words = "53300 no server became free in time";
        match mode {
            Mode::Session => assert_eq!(late.last_words(), format!("FATAL {words}")),
            _ => assert_eq!(late.answer(), [&format!("ERROR {words}"), "ZI"]),
        }
        assert_eq!(says(&mut holder, "commit"), "COMMIT");
        drop(holder);
        let mut next = enter(&gate, "second");
        assert_eq!(says(&mut next, "select 'well'"), "well");
        drop(next);
        gate.end();
    }
}

/// Nobody looked at them there: who was to wait a tenth of a second waited as long as the database
/// allows, and who might wait longer did not.
#[test]
fn deadlines_of_classes_and_users_hold_where_a_quota_is_waited_for() {
    let says_user = |wait_max: Duration| {
        let mut config = config(Mode::Transaction, all(1));
        let terms = UserTerms { wait_max: Some(wait_max), ..UserTerms::default() };
        config.terms.insert(b"sekisho".to_vec(), terms);
        config
    };
    let hasty = Duration::from_millis(200);
    let mut says_class = config(Mode::Transaction, all(1));
    let class = JobClass { name: "hasty".to_owned(), wait_max: Some(hasty) };
    let test = Test::ApplicationName(Pattern::new(b"hasty"));
    let rule = Rule { tests: vec![test], class: Class { class: 1, priority: 0 } };
    says_class.classes = Classes::new(vec![class], vec![rule]).unwrap();
    let mut patient = says_user(Duration::from_secs(100));
    for database in &mut patient.databases {
        database.gate.wait_max = Some(hasty);
    }
    for (config, is_patient) in [(says_user(hasty), false), (says_class, false), (patient, true)] {
        let gate = Gate::new(config);
        let mut late = Raw::connect(&gate);
        late.start_at("second", Version::V3_0, &[("application_name", "hasty")]);
        let mut late = late.entered();
        let mut holder = enter(&gate, "first");
        assert_eq!(says(&mut holder, "begin"), "BEGIN");
        late.query("select 'served'");
        gate.until("it waits", |stats| stats.quotas[0].waiting == 1);
        if is_patient {
            std::thread::sleep(2 * hasty);
        } else {
            assert_eq!(late.answer(), ["ERROR 53300 no server became free in time", "ZI"]);
        }
        assert_eq!(says(&mut holder, "commit"), "COMMIT");
        if is_patient {
            assert_eq!(late.answer()[0], "served");
        }
        drop((late, holder));
        gate.end();
    }
}
