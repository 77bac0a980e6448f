//! Refusals of a load, which then has touched nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use tpcc::verify::{Part, verify};
use tpcc::{Existing, LoadError, LoadPlan, Others, load};

use super::Database;

const PLAN: LoadPlan = LoadPlan {
    seed: 5,
    warehouses: 1,
    jobs: 1,
    grain: tpcc::Grain::Warehouse,
    foreign_keys: tpcc::ForeignKeys::Left,
    existing: Existing::Refuse,
    others: Others::Refuse,
};

#[test]
fn tables_of_others_are_left_alone() {
    let database = Database::new("foreign_tables");
    database.ask("create table accounts (id int); create schema apart; create table apart.b ()");
    let error = database.load(&PLAN).unwrap_err();
    let LoadError::OtherTables { tables } = &error else { panic!("{error}") };
    assert_eq!(tables, &["accounts", "apart.b"]);
    assert_eq!(database.tables(), ["accounts"]);
    database.load(&LoadPlan { others: Others::Allow, ..PLAN }).unwrap();
    assert_eq!(database.tables().len(), 12);
}

/// Even with every permission: what another tool has loaded may be somebody's measurement.
#[test]
fn a_schema_that_is_not_ours_is_left_alone() {
    let database = Database::new("not_ours");
    database.ask("create table warehouse (w_id int); insert into warehouse values (1)");
    for existing in [Existing::Refuse, Existing::Resume, Existing::Replace] {
        let plan = LoadPlan { existing, others: Others::Allow, ..PLAN };
        let error = database.load(&plan).unwrap_err();
        let LoadError::NotOurs { tables } = &error else { panic!("{existing:?}: {error}") };
        assert_eq!(tables, &["warehouse"]);
    }
    assert_eq!(database.tables(), ["warehouse"]);
    assert_eq!(database.ask("select w_id from warehouse"), ["1"]);
}

#[test]
fn a_load_that_is_there_is_replaced_only_when_told() {
    let database = Database::new("there");
    let error = database.load(&LoadPlan { existing: Existing::Resume, ..PLAN }).unwrap_err();
    assert!(matches!(error, LoadError::NothingToResume), "{error}");
    assert!(database.tables().is_empty());

    let stop = AtomicBool::new(false);
    let half = load(&database.0, &PLAN, &stop, &mut |progress| {
        stop.fetch_or(progress.done > 100_000, Ordering::Relaxed);
    });
    assert!(matches!(half, Err(LoadError::Interrupted)));
    for other in [LoadPlan { seed: 6, ..PLAN }, LoadPlan { warehouses: 3, ..PLAN }] {
        let plan = LoadPlan { existing: Existing::Resume, ..other };
        let error = database.load(&plan).unwrap_err();
        assert!(matches!(error, LoadError::Differs { warehouses: 1, seed: 5 }), "{error}");
    }
    let plan = LoadPlan { existing: Existing::Replace, seed: 9, ..PLAN };
    database.load(&plan).unwrap();
    for existing in [Existing::Refuse, Existing::Resume] {
        let error = database.load(&LoadPlan { existing, ..PLAN }).unwrap_err();
        assert!(matches!(error, LoadError::Complete { warehouses: 1, seed: 9 }), "{error}");
    }
    assert_eq!(database.ask("select count(*) from stock"), ["100000"]);
}

#[test]
fn two_loads_at_once_are_one_too_many() {
    let database = Database::new("busy");
    let mut second = None;
    load(&database.0, &PLAN, &AtomicBool::new(false), &mut |_| {
        second.get_or_insert_with(|| database.load(&PLAN).unwrap_err());
    })
    .unwrap();
    let error = second.expect("a load tells how far it is");
    assert!(matches!(error, LoadError::Busy), "{error}");
}

#[test]
fn what_cannot_be_reached_or_asked_for_is_named() {
    let none = Database::new("none");
    for warehouses in [0, 2_000_000] {
        let error = none.load(&LoadPlan { warehouses, ..PLAN }).unwrap_err();
        assert!(matches!(error, LoadError::Warehouses { .. }), "{error}");
    }
    let mut missing = Database(none.0.clone());
    missing.0.dbname("missing");
    let error = missing.load(&PLAN).unwrap_err().to_string();
    assert!(error.contains("\"missing\" does not exist"), "{error}");
    let mut stranger = Database(none.0.clone());
    stranger.0.user("stranger").password("wrong");
    let error = stranger.load(&PLAN).unwrap_err().to_string();
    assert!(error.contains("no connection") && error.contains("stranger"), "{error}");
    let mut silent = Database(tpcc::Config::new());
    silent.0.host("127.0.0.1").port(1).user("nobody");
    let error = silent.load(&PLAN).unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
    assert!(none.tables().is_empty());
}

/// The connection that holds the lock is all that this user may have.
#[test]
fn too_few_connections_are_named() {
    let database = Database::new("few");
    database.ask(
        "create role poor login password 'poor' connection limit 1; \
                  grant all on schema public to poor",
    );
    let mut config = database.0.clone();
    config.user("poor").password("poor");
    let poor = Database(config);
    let error = poor.load(&PLAN).unwrap_err();
    assert!(matches!(error, LoadError::Connections { .. }), "{error}");
    assert!(error.to_string().contains("jobs"), "{error}");
}

/// A socket that lets everybody in and never says a word.
#[test]
fn who_listens_and_says_nothing_is_not_waited_for_without_end() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let url = format!("postgresql://u@127.0.0.1:{port}/d?connect_timeout=1");
    let config: tpcc::Config = url.parse().unwrap();
    let begun = std::time::Instant::now();
    let error = load(&config, &PLAN, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no session began within 1 s"), "{error}");
    assert!(error.to_string().contains("connect_timeout"), "it says how to wait longer: {error}");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// A server that refuses every session so.
fn refusing(code: &'static str, message: &'static str) -> tpcc::Config {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = door.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in door.incoming().flatten() {
            let body = format!("SFATAL\0VFATAL\0C{code}\0M{message}\0\0");
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            // Its first words are whole in one packet; one that has gone needs no answer.
            if stream.read(&mut [0; 1024]).is_ok() {
                drop(stream.write_all(&[b"E", &length[..], body.as_bytes()].concat()));
            }
        }
    });
    format!("postgresql://u@127.0.0.1:{port}/d?sslmode=disable").parse().unwrap()
}

/// The story: who was refused for want of a certificate was told so, and not how to show one.
#[test]
fn a_certificate_that_is_missing_or_anothers_is_told_with_the_way_out() {
    let stop = AtomicBool::new(false);
    let told = |code, message| {
        let config = refusing(code, message);
        let loading = load(&config, &PLAN, &stop, &mut |_| {}).unwrap_err().to_string();
        let verifying = verify(&config, &[Part::Conditions], &stop, &mut |_, _| {}).unwrap_err();
        [loading, verifying.to_string()]
    };
    for (message, way_out) in [
        (
            "connection requires a valid client certificate",
            "; name yours and its key, as in sslcert=",
        ),
        ("certificate authentication failed for user \"u\"", "or pg_ident.conf must map it"),
    ] {
        for told in told("28000", message) {
            assert!(told.contains(message) && told.contains(way_out), "{told}");
        }
    }
    // Another refusal has no certificate in it.
    for told in told("28000", "no pg_hba.conf entry for host") {
        assert!(told.contains("no pg_hba.conf entry") && !told.contains("sslcert"), "{told}");
    }
}
