//! Failures: each counted by its kind, and the run goes on where another transaction may succeed.

use std::time::Duration;

use super::*;

#[test]
fn a_refused_transaction_is_rolled_back_and_counted_by_its_class() {
    for (statement, kind) in [
        ("insert into t values (1)", ErrorKind::SqlConstraint),
        ("select 1 / (:client_id * 0)", ErrorKind::SqlData),
        ("select nobody from t", ErrorKind::SqlSyntaxOrAccess),
        ("do $$ begin raise 'no'; end $$", ErrorKind::SqlRaised),
    ] {
        for protocol in [Protocol::Simple, Protocol::Prepared] {
            let url = database("create table t (k int primary key); insert into t values (1)");
            let text = format!("begin;\ninsert into t values (2);\n{statement};\ncommit;");
            let record = run(spec(&url, &text, protocol, closed(1), Until::Requests(5))).unwrap();
            assert_eq!(failed(&record), [(kind, 5)], "{statement}: {}", warnings(&record));
            assert_eq!(completed(&record), 0);
            assert_eq!(ask(&url, "select count(*) from t"), ["1"], "nothing of it stays");
            assert!(warnings(&record).contains("SQLSTATE"), "{}", warnings(&record));
        }
    }
}

/// Read, then write what was read: all but the first to commit are given up.
const CONFLICT: &str = "begin isolation level repeatable read;\n\
    select v as v from t where k = 1 \\gset\n\\sleep 1 ms\n\
    update t set v = :v::int + 1 where k = 1;\ncommit;";

#[test]
fn serialization_failures_count_or_are_tried_again() {
    let tables = "create table t (k int primary key, v int); insert into t values (1, 0)";
    let url = database(tables);
    let base = spec(&url, CONFLICT, Protocol::Prepared, closed(4), Until::Requests(100));
    let record = run(base).unwrap();
    let failures = failed(&record);
    let [(ErrorKind::SerializationFailure, count)] = failures[..] else { panic!("{failures:?}") };
    assert_eq!(completed(&record) + count, 100);
    assert_eq!(ask(&url, "select v from t"), [completed(&record).to_string()]);

    let url = database(tables);
    let base = spec(&url, CONFLICT, Protocol::Prepared, closed(4), Until::Requests(100));
    let record = run(PlanSpec { tries_max: 0, ..base }).unwrap();
    assert_eq!((completed(&record), failed(&record)), (100, vec![]));
    assert_eq!(ask(&url, "select v from t"), ["100"]);
    assert!(warnings(&record).contains("tries of transactions were repeated"));
}

#[test]
fn a_deadlock_has_a_victim_of_its_own_kind() {
    let url =
        database("create table t (k int primary key, v int); insert into t values (1, 0), (2, 0)");
    let text = "\\set first 1 + :client_id % 2\n\\set second 3 - :first\nbegin;\n\
        update t set v = v + 1 where k = :first;\n\\sleep 5 ms\n\
        update t set v = v + 1 where k = :second;\ncommit;";
    let record = run(spec(&url, text, Protocol::Prepared, closed(2), Until::Requests(20))).unwrap();
    let failures = failed(&record);
    let [(ErrorKind::Deadlock, count)] = failures[..] else { panic!("{failures:?}") };
    assert_eq!(completed(&record) + count, 20);
    assert_eq!(ask(&url, "select sum(v) from t"), [(2 * completed(&record)).to_string()]);
}

#[test]
fn a_connection_that_is_ended_is_opened_again() {
    let url = database("create table t (k serial)");
    let text = "insert into t default values;\n\\set dies random(1, 2)\n\\if :dies = 1\n\
        select pg_terminate_backend(pg_backend_pid());\n\\endif\n";
    let record = run(spec(&url, text, Protocol::Prepared, closed(2), Until::Requests(10))).unwrap();
    let failures = failed(&record);
    let [(ErrorKind::SqlOperator, count)] = failures[..] else { panic!("{failures:?}") };
    assert_eq!(completed(&record) + count, 10);
    let connects: u64 = record.intervals.iter().map(|interval| interval.connects).sum();
    assert!(connects >= count - 2 && connects > 0, "{connects} connections for {count} ended");
}

#[test]
fn a_run_that_has_lost_its_server_ends_early() {
    let mut private = start();
    let url = private.url().as_str().to_owned();
    let base = spec(&url, "select 1", Protocol::Prepared, closed(2), Until::Seconds(600.0));
    let spec = PlanSpec {
        lost_after: Duration::from_millis(500),
        interval: Duration::from_millis(100),
        ..base
    };
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        private.kill().unwrap();
        private
    });
    let record = run(spec).unwrap();
    drop(killer.join().unwrap());
    assert!(completed(&record) > 0);
    assert!(warnings(&record).contains("the server is lost"), "{}", warnings(&record));
    let elapsed = record.summary.unwrap().elapsed_s;
    assert!(elapsed < 300.0, "{elapsed} s");
}

#[test]
fn a_script_that_turns_out_to_be_wrong_ends_the_run_at_its_place() {
    for (text, words) in [
        (
            "select 1 where false \\gset",
            "line 1, column 1: \\gset takes exactly one row, and 0 came",
        ),
        (
            "select 1;\nselect generate_series(1, 2) \\gset",
            "line 2, column 1: \\gset takes exactly",
        ),
        ("select 1;\nbegin;\nselect 2;", "line 3, column 1: the script ends within a transaction"),
        ("select 1;\n\\set a 1 / 0", "line 2, column 1: division by zero"),
        ("select 1;\n\\set a random(:client_id, -1)", "must be not empty"),
        ("\\if 0\n\\set a 1\n\\endif\nselect :a::int", "line 4, column 1: `a` has no value yet"),
        ("copy t from stdin", "COPY FROM STDIN wants rows"),
    ] {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let url = database("create table t (k int)");
            let error =
                run(spec(&url, text, protocol, closed(2), Until::Requests(10))).unwrap_err();
            let RunError::Script(_) = error else { panic!("{text}: {error}") };
            let error = error.to_string();
            assert!(error.starts_with("own.sql, ") && error.contains(words), "{text}: {error}");
        }
    }
}
