//! SQL's EXECUTE, PREPARE and DEALLOCATE of names that clients have prepared by the protocol.

use pgsession::sql::Reason;
use pgsession::statements::Bounds;

use super::*;

/// A table of a test's own, with rows 1 and 2.
fn table(name: &str) -> Vec<u8> {
    query(&format!(
        "drop table if exists {name}; create table {name} (a int, b text); \
         insert into {name} values (1, 'x'), (2, 'y')"
    ))
}

#[test]
fn execute_runs_what_the_client_has_prepared_wherever_it_is() {
    let mut gate = small();
    let read = same(
        &mut gate,
        &[
            (0, vec![table("t6"), parse("s1", "select * from t6 where a = $1 and b = $2", &[])]),
            (1, vec![parse("s1", "select 'of the other', $1::text", &[])]),
            (0, vec![query("execute s1(1, 'x')"), query("EXECUTE \"s1\" ('2', 'y')")]),
            (1, vec![query("execute S1(7)")]),
            (2, vec![query("execute s1(1, 'x')")]),
            (0, vec![query("begin"), query("execute s1(1, 'x')"), query("commit")]),
            (1, vec![query("select 1; execute s1('a'); select 2; /* e */ execute s1('b')")]),
            (
                0,
                vec![
                    query("explain execute s1(1, 'x')"),
                    query("explain (costs off) execute s1(1,'')"),
                ],
            ),
            (
                0,
                vec![query(
                    "drop table if exists t7; create table t7 as execute s1(2, 'y'); table t7",
                )],
            ),
            (0, vec![query("execute \"S1\"(1, 'x')"), query("execute s1"), query("execute s1(1)")]),
        ],
    );
    assert_eq!((has(&read[2], "DataRow"), has(&read[3], "of the other")), (2, 1));
    assert_eq!(has(&read[4], "26000 prepared statement \"s1\" does not exist"), 1);
    assert_eq!((has(&read[5], "DataRow"), has(&read[6], "DataRow")), (1, 4));
    assert_eq!((has(&read[7], "DataRow"), has(&read[8], "DataRow")), (4, 1));
    assert_eq!(has(&read[9], "26000 prepared statement \"S1\" does not exist"), 1);
    assert_eq!(has(&read[9], "42601 wrong number of parameters for prepared statement \"s1\""), 2);
    assert!(gate.pins.is_empty(), "{:?}", gate.pins);
}

#[test]
fn execute_within_the_protocol_is_the_same() {
    let mut gate = small();
    let read = same(
        &mut gate,
        &[
            (0, vec![table("t8"), parse("s1", "select * from t8 where a = $1", &[])]),
            (1, vec![parse("s1", "select 'of the other', $1::text", &[])]),
            (0, vec![runs("", "execute s1(1)"), sync(), runs("e", "execute s1(2)")]),
            (1, vec![runs("e", "execute s1(1)"), describe("e"), sync(), again("e")]),
            (0, vec![describe("e"), sync(), again("e"), again("e")]),
            // Behind its own Parse.
            (1, vec![runs("s2", "select 2"), runs("", "execute s2"), close("s2"), again("e")]),
            (1, vec![runs("", "execute s2"), sync(), runs("", "explain execute s1(1)")]),
            (0, vec![parse("s3", "selec", &[]), runs("", "execute s1(1)"), sync(), again("e")]),
            (0, vec![bind("p", "e", &[]), named(Frontend::Describe, "P", "p", &[]), execute("p")]),
        ],
    );
    assert_eq!((has(&read[2], "DataRow"), has(&read[4], "DataRow")), (2, 2));
    assert_eq!((has(&read[3], "columns"), has(&read[4], "columns")), (1, 1));
    assert_eq!((has(&read[5], "DataRow"), has(&read[6], "26000")), (3, 1));
    assert_eq!(has(&read[8], "columns"), 1);
    assert!(gate.pins.is_empty(), "{:?}", gate.pins);
}

#[test]
fn what_fails_fails_as_in_postgresql() {
    let read = same(
        &mut small(),
        &[
            (0, vec![table("t9"), parse("s1", "select a from t9 where a = $1", &[])]),
            (1, vec![parse("s2", "select 1/0", &[]), parse("s3", "select 1", &[])]),
            (1, vec![query("execute s2"), query("select 1; execute s2; select 2")]),
            (1, vec![query("begin"), query("execute s2"), query("execute s3"), query("rollback")]),
            (1, vec![query("begin; execute s3; execute s2"), query("rollback; execute s3")]),
            (
                0,
                vec![
                    query("execute s1('a')"),
                    query("execute s1(true)"),
                    query("execute s1(nocol)"),
                ],
            ),
            (
                1,
                vec![runs("", "execute s3(1)"), query("execute s1(1)"), query("execute s3; selec")],
            ),
            (0, vec![query("alter table t9 alter a type bigint"), query("execute s1(1)")]),
            (1, vec![query("select 1")]),
            (0, vec![query("execute s1(1)"), query("drop table t9"), query("execute s1(1)")]),
            (1, vec![query("execute s3")]),
            (0, vec![query("execute s1(1)"), query("select 3")]),
        ],
    );
    assert_eq!((has(&read[2], "22012"), has(&read[3], "25P02")), (2, 1));
    assert_eq!(has(&read[4], "DataRow"), 2);
    assert_eq!(has(&read[5], "ERROR"), 3);
    assert_eq!((has(&read[7], "0A000"), has(&read[9], "ERROR")), (1, 2));
    assert_eq!(has(&read[11], "DataRow"), 1);
}

/// The position counts from the text that the client has sent.
#[test]
fn the_position_of_an_error_is_that_in_the_clients_text() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("s1", "select $1::int, 'ä'", &[]), parse("s2", "select $1::int", &[])]),
            (0, vec![query("execute s1(nocol)"), query("execute s2(1); execute \"s1\" ( true )")]),
            (0, vec![query("/* äöü */ execute s1(1); select 'ß'; execute s2(nocol)")]),
            (0, vec![runs("", "execute s1(nocol)"), sync(), runs("", " explain execute s1(true)")]),
            (0, vec![query("deallocate s2; select nocol"), query("execute s1(1); select nocol")]),
        ],
    );
    let places = |read: &[String]| -> Vec<String> {
        let all = read.iter().filter_map(|one| one.split_once(" at "));
        all.map(|(_, at)| at.to_owned()).collect()
    };
    assert_eq!(places(&read[1]), ["12", "31"]);
    assert_eq!(places(&read[2]), ["49"]);
    assert_eq!(places(&read[3]), ["12", "21"]);
    assert_eq!(places(&read[4]), ["23", "23"]);
}

#[test]
fn a_name_is_of_the_protocol_or_of_sql_and_never_of_both() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("s1", "select 'protocol'", &[]), query("select 1")]),
            (1, vec![query("select 1"), parse("x", "select 'x'", &[])]),
            (0, vec![query("prepare s1 as select 'sql'"), query("execute s1")]),
            (0, vec![runs("", "prepare \"s1\" as select 'sql'"), sync(), query("execute s1")]),
            (0, vec![query("deallocate s1; prepare s1 as select 'sql'; execute s1"), again("s1")]),
            (0, vec![parse("s1", "select 'again'", &[]), sync(), query("execute s1")]),
            (0, vec![parse("s2", "select 'two'", &[]), sync(), query("execute s2; execute s1")]),
            (0, vec![parse("s1", "selec", &[]), sync(), query("deallocate s1")]),
            (0, vec![parse("s1", "select 'again'", &[]), sync(), query("execute s1"), again("s1")]),
            (
                0,
                vec![
                    query("prepare s4 as select 'four'"),
                    close("s4"),
                    sync(),
                    query("execute s4"),
                ],
            ),
        ],
    );
    assert_eq!(has(&read[9], "26000 prepared statement \"s4\" does not exist"), 1);
    assert_eq!((has(&read[2], "42P05"), has(&read[2], "protocol")), (1, 1));
    assert_eq!((has(&read[3], "42P05"), has(&read[3], "protocol")), (1, 1));
    assert_eq!((has(&read[4], "sql"), has(&read[5], "42P05")), (2, 1));
    assert_eq!((has(&read[5], "DataRow sql"), has(&read[8], "again")), (0, 2));
}

#[test]
fn deallocate_drops_what_execute_would_run() {
    let prepares = || [parse("s1", "select 1", &[]), parse("S1", "select 2", &[])].concat();
    let read = same(
        &mut small(),
        &[
            (0, vec![prepares()]),
            (1, vec![prepares(), parse("x", "select 'x'", &[])]),
            (0, vec![query("deallocate s1"), query("execute s1"), query("execute \"S1\"")]),
            (0, vec![query("deallocate prepare \"S1\"; execute \"S1\"")]),
            (0, vec![query("execute \"S1\""), sync(), prepares()]),
            (1, vec![query("execute s1; deallocate all"), query("execute s1")]),
            (0, vec![query("deallocate all; execute s1"), query("execute s1")]),
            (0, vec![prepares(), runs("", "deallocate s1"), runs("", "execute s1")]),
            (0, vec![close("S1"), sync(), query("execute \"S1\""), query("discard all")]),
        ],
    );
    assert_eq!((has(&read[2], "26000"), has(&read[2], "DataRow")), (1, 1));
    // No rollback takes it back.
    assert_eq!((has(&read[3], "26000"), has(&read[4], "26000")), (1, 1));
    assert_eq!((has(&read[5], "DataRow"), has(&read[5], "26000")), (1, 1));
    assert_eq!((has(&read[6], "26000"), has(&read[8], "26000")), (2, 1));
}

/// What a statement leaves is there whoever runs it.
#[test]
fn what_a_statement_leaves_it_leaves_by_execute_too() {
    let mut gate = Gate::new(1, Bounds::default());
    let lock = "select pg_advisory_lock(77) is null";
    same(&mut gate, &[(0, vec![parse("s", lock, &[]), query("select 1")])]);
    assert!(gate.pins.is_empty());
    let steps = [(0, vec![parse("s", lock, &[]), query("execute s")])];
    same(&mut gate, &steps);
    assert!(gate.pins.has(Reason::AdvisoryLock) && !gate.pins.has(Reason::Prepare));
}

#[test]
fn more_than_a_server_keeps_are_refused_and_no_fewer() {
    let bounds = Bounds { server_max: 3, ..Bounds::default() };
    let mut gate = Gate::new(1, bounds);
    let all: Vec<_> = (0..4)
        .map(|number| parse(&format!("s{number}"), &format!("select {number}"), &[]))
        .collect();
    let steps = [
        (0, all),
        (0, vec![query("execute s0; execute s1; execute s2; execute s0")]),
        (0, vec![query("execute s3; execute s1")]),
    ];
    let read = same(&mut gate, &steps);
    assert_eq!((has(&read[1], "DataRow"), has(&read[2], "DataRow")), (4, 2));
    let mut client_statements = ClientStatements::new();
    let all = "execute s0; execute s1; execute s2; execute s3";
    let prepares: Vec<_> = (0..4)
        .map(|number| parse(&format!("s{number}"), &format!("select {number}"), &[]))
        .collect();
    gate.through(&mut client_statements, &step(&prepares));
    let read = gate.through(&mut client_statements, &step(&[query(all), query("execute s3")]));
    assert_eq!((has(&read, "54000"), has(&read, "DataRow")), (1, 1), "{read:?}");
    gate.end(vec![client_statements]);
}

/// The types of parameters are those of the Parse, also where the table has others by now.
#[test]
fn arguments_have_the_types_that_the_statement_was_prepared_with() {
    let read = same(
        &mut small(),
        &[
            (0, vec![table("t10"), parse("s1", "select b from t10 where a = $1", &[])]),
            (1, vec![query("alter table t10 alter a type text")]),
            (0, vec![query("execute s1(1)"), query("execute s1('x')")]),
            (0, vec![query("alter table t10 alter a type bigint using a::bigint")]),
            (0, vec![query("execute s1(1)")]),
            (0, vec![query("execute s1(1)"), query("execute s1(4000000000)")]),
        ],
    );
    assert_eq!((has(&read[4], "DataRow"), has(&read[5], "22003")), (1, 1));
}

/// A `DISCARD ALL` counted as a name that it drops, and the gate refused to run it. PostgreSQL says in its
/// own words that it cannot be run so, and explains it.
#[test]
fn discard_all_may_be_executed_and_explained() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("s1", "discard all", &[]), parse("s2", "select 2", &[])]),
            (1, vec![parse("s1", "select 1", &[])]),
            (0, vec![query("explain execute s1")]),
            (0, vec![query("execute s1"), again("s2")]),
            (0, vec![query("begin"), query("execute s1"), query("rollback"), again("s2")]),
            (0, vec![runs("", "explain execute s1"), sync(), runs("", "execute s1")]),
            (0, vec![again("s2"), query("explain execute s1; execute s2")]),
            (1, vec![again("s1")]),
        ],
    );
    assert_eq!((has(&read[2], "CommandComplete EXPLAIN"), has(&read[3], "25001")), (1, 1));
    assert_eq!((has(&read[5], "CommandComplete EXPLAIN"), has(&read[7], "DataRow")), (1, 1));
}

/// What is only explained was taken for done: a client that listened was let go by an `UNLISTEN *` of which
/// it had seen the plan, and a setting was the client's that no server had.
#[test]
fn what_is_explained_takes_nothing_away() {
    for (leaves, text, reason) in [
        ("listen explained", "unlisten *", Reason::Listen),
        ("listen explained", "discard all", Reason::Listen),
        ("select pg_advisory_lock(78)", "select pg_advisory_unlock_all()", Reason::AdvisoryLock),
        ("select 1", "select set_config('explained.a', 'b', false)", Reason::Set),
    ] {
        for explain in ["explain execute s", "explain (costs off) execute s"] {
            let mut gate = Gate::new(1, Bounds::default());
            let mut client = ClientStatements::new();
            let steps = [query(leaves), parse("s", text, &[]), sync(), query(explain)];
            let at = gate.free.pop_front().unwrap();
            gate.passes(&mut client, at, &step(&steps), Ending::Settled);
            let relay = &gate.lines[at].relay;
            assert!(relay.kept().is_none() && relay.pins().has(reason), "{text}: {explain}");
            // What is run is done.
            gate.passes(&mut client, at, &step(&[query("execute s")]), Ending::Settled);
            let relay = &gate.lines[at].relay;
            let stays = reason == Reason::Set || text == "discard all";
            assert_eq!(relay.pins().has(reason), stays, "{text}");
            gate.effects(client, at);
        }
    }
}
