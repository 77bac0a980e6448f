//! Loads that are stopped, or whose server fails, and go on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tpcc::{Existing, LoadError, LoadPlan, Loaded, Phase, Progress, load};

use super::{Database, server, start};

const PLAN: LoadPlan = LoadPlan {
    seed: 21,
    warehouses: 2,
    jobs: 2,
    grain: tpcc::Grain::Warehouse,
    foreign_keys: tpcc::ForeignKeys::Left,
    existing: Existing::Resume,
    others: tpcc::Others::Refuse,
};
const FRESH: LoadPlan = LoadPlan { existing: Existing::Refuse, ..PLAN };

/// A load that is stopped as soon as `when` says so.
fn stopped(
    database: &Database,
    plan: &LoadPlan,
    when: impl Fn(&Progress) -> bool,
) -> Result<Loaded, LoadError> {
    let stop = AtomicBool::new(false);
    load(&database.0, plan, &stop, &mut |progress| {
        stop.fetch_or(when(&progress), Ordering::Relaxed);
    })
}

/// The tables that a load leaves that nothing breaks.
fn unbroken() -> &'static [(&'static str, String)] {
    static HASHES: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    // Its share first: who has one may wait here for who loads them.
    server();
    HASHES.get_or_init(|| {
        let database = Database::new("unbroken");
        database.load(&FRESH).unwrap();
        database.hashes()
    })
}

/// Stopped twice, once among the rows and once among the keys; what is there in between are whole
/// chunks.
#[test]
fn an_interrupted_load_goes_on_where_it_was() {
    let database = Database::new("stopped_load");
    // In the middle: after the items and some chunk of a warehouse.
    let error = stopped(&database, &FRESH, |progress| progress.done > 600_000).unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error}");
    let sum = "select (select count(*) from item) + (select count(*) from stock) \
        + (select count(*) from customer) + (select count(*) from history) \
        + (select count(*) from orders) + (select count(*) from new_order) \
        + (select count(*) from order_line) + (select count(*) from warehouse) \
        + (select count(*) from district), (select sum(rows) from tpcc_load_chunk)";
    let found = database.ask(sum).remove(0);
    let (rows, noted) = found.split_once('|').unwrap();
    assert_eq!(rows, noted, "rows that are there, and rows of chunks that are noted");
    let kept: u64 = rows.parse().unwrap();
    assert!((100_000..1_090_000).contains(&kept), "it was stopped in the middle, at {kept}");

    let error = stopped(&database, &PLAN, |progress| progress.phase == Phase::Keys).unwrap_err();
    assert!(matches!(error, LoadError::Interrupted), "{error}");
    let loaded = database.load(&PLAN).unwrap();
    assert!(loaded.record.complete);
    assert_eq!(loaded.rows, 0, "all rows were there before");
    assert_eq!(database.hashes(), unbroken());
}

/// The whole server is killed, as a power failure would, and comes up again.
#[test]
fn a_load_survives_the_death_of_its_server() {
    let mut server = start();
    let database = Database::on(&server, "dying");
    let stop = AtomicBool::new(false);
    let result = load(&database.0, &FRESH, &stop, &mut |progress| {
        if progress.done > 400_000 && server.pid().is_some() {
            server.kill().unwrap();
        }
    });
    let error = result.unwrap_err();
    assert!(matches!(error, LoadError::ServerGone { .. }), "{error}");
    let error = database.load(&PLAN).unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }), "while it is down: {error}");

    server.restart().unwrap();
    let database = Database::of(&server, "dying");
    let error = database.load(&FRESH).unwrap_err();
    assert!(matches!(error, LoadError::Incomplete { warehouses: 2, seed: 21 }), "{error}");
    let loaded = database.load(&PLAN).unwrap();
    assert!(loaded.record.complete);
    assert_eq!(database.hashes(), unbroken());
}

/// A full disk, which the server reports in the middle of a COPY. It is the server's own error
/// code, raised by a trigger that every new table of this name gets.
#[test]
fn a_full_disk_is_named_and_the_load_goes_on_afterwards() {
    let database = Database::new("full_disk");
    database.ask(
        "create function full_disk() returns trigger language plpgsql as $$ begin \
             if new.s_i_id > 5000 then \
                 raise 'could not extend file' using errcode = 'disk_full'; \
             end if; return new; end $$; \
         create function spoil() returns event_trigger language plpgsql as $$ begin \
             if to_regclass('stock') is not null then \
                 create or replace trigger spoiled before insert on stock \
                     for each row execute function full_disk(); \
             end if; end $$; \
         create event trigger spoiler on ddl_command_end when tag in ('CREATE TABLE') \
             execute function spoil()",
    );
    let plan = LoadPlan { warehouses: 1, ..FRESH };
    let error = database.load(&plan).unwrap_err();
    assert!(matches!(error, LoadError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("resume"), "{error}");
    assert_eq!(database.ask("select count(*) from stock"), ["0"]);
    database.ask("drop event trigger spoiler; drop trigger spoiled on stock");
    let loaded = database.load(&LoadPlan { existing: Existing::Resume, ..plan }).unwrap();
    assert!(loaded.record.complete);
    assert_eq!(database.ask("select count(*) from stock"), ["100000"]);
}
