//! Prepared statements of several clients on a few servers: scripts by hand. `trap_N` is the trap of
//! this number that poolers fell into.

use pgsession::sql::Reason;
use pgsession::statements::Bounds;
use pgwire::frame::Frontend;
use pgwire::message::write;

use super::*;

#[test]
fn clients_share_statements_under_names_of_their_own() {
    let mut gate = small();
    let read = same(
        &mut gate,
        &[
            (0, vec![runs("a", "select 1")]),
            (1, vec![runs("a", "select 2")]),
            (0, vec![again("a")]),
            (1, vec![again("a")]),
            (0, vec![parse("b", "select 2", &[]), again("b")]),
            (1, vec![parse("", "select 3", &[])]),
            (0, vec![again("a")]),
            // Its server has changed between Parse and Bind.
            (1, vec![again("")]),
        ],
    );
    assert_eq!(has(&read[7], "DataRow"), 1);
    // Two texts, one mark, and the unnamed one.
    assert_eq!(gate.cache.len(), 4);
}

#[test]
fn a_parse_that_fails_registers_no_name() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "selec", &[])]),
            (0, vec![again("a")]),
            (0, vec![runs("a", "select 1")]),
            // The unnamed one goes before its Parse is looked at.
            (
                0,
                vec![
                    parse("", "select 1", &[]),
                    sync(),
                    parse("", "selec", &[]),
                    sync(),
                    again(""),
                ],
            ),
            (0, vec![again("")]),
        ],
    );
    assert_eq!(has(&read[0], "42601"), 1);
    assert_eq!(has(&read[1], "26000 prepared statement \"a\" does not exist"), 1);
    assert_eq!(has(&read[3], "26000 unnamed prepared statement"), 1);
}

#[test]
fn an_unknown_statement_fails_as_in_postgresql() {
    let long = "n".repeat(100);
    let read = same(
        &mut small(),
        &[
            (0, vec![bind("", "no", &[]), execute(""), parse("b", "select 1", &[])]),
            (0, vec![query("begin"), describe(&long), sync(), query("select 1")]),
            (
                0,
                vec![query("rollback"), describe("sekisho.0707070707070707.1"), sync(), again("b")],
            ),
            // Names are the same if their first 63 bytes are.
            (0, vec![parse(&long, "select 1", &[]), again(&long[..70]), again(&long[..62])]),
        ],
    );
    assert_eq!(has(&read[0], "26000"), 1);
    assert_eq!(has(&read[1], "25P02"), 1);
    assert_eq!(has(&read[2], "26000"), 2);
}

#[test]
fn an_error_that_names_a_statement_has_the_clients_name() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "select $1::int", &[]), parse("b", "select $1::int", &[])]),
            (0, vec![again("b"), again("a"), parse("", "select $1::int", &[]), again("")]),
        ],
    );
    for name in ["\"a\"", "\"b\"", "\"\""] {
        let text = format!("0 parameters, but prepared statement {name} requires 1");
        assert_eq!(has(&read[1], &text), 1, "{name}");
    }
}

#[test]
fn deallocate_and_discard_all_drop_the_clients_own_names() {
    let mut gate = small();
    let both = parse("a", "select 1", &[]);
    let read = same(
        &mut gate,
        &[
            (0, vec![both.clone()]),
            (1, vec![both.clone(), parse("", "select 9", &[])]),
            (0, vec![query("DEALLOCATE \"a\"; deallocate prepare A; select 7")]),
            (0, vec![again("a")]),
            (1, vec![again("a")]),
            (0, vec![both.clone(), runs("", "deallocate a"), again("a")]),
            (0, vec![both.clone(), query("deallocate all"), both.clone(), again("a")]),
            (0, vec![runs("d", "deallocate all"), again("a"), again("d")]),
            (0, vec![runs("", "deallocate nobody")]),
            (0, vec![query("begin; select 1/0"), query("deallocate all"), query("rollback")]),
            (1, vec![query("discard all"), again("a")]),
            (1, vec![both.clone(), sync(), runs("", "discard all"), sync(), again("a"), again("")]),
            (0, vec![both.clone(), query("discard all; select 1"), again("a")]),
        ],
    );
    assert_eq!(has(&read[2], "26000 prepared statement \"a\" does not exist"), 1);
    assert_eq!(has(&read[4], "DataRow"), 1);
    assert_eq!(has(&read[6], "DEALLOCATE ALL"), 1);
    assert_eq!(has(&read[7], "DEALLOCATE ALL"), 1);
    assert_eq!(has(&read[10], "DISCARD ALL"), 1);
}

#[test]
fn close_of_what_is_not_there_succeeds_in_its_turn() {
    let read = same(
        &mut small(),
        &[
            (0, vec![close("x"), parse("a", "select 1", &[]), close("a"), close("a"), again("a")]),
            (0, vec![runs("a", "select 1"), named(Frontend::Close, "P", "p", &[]), close("a")]),
        ],
    );
    assert_eq!(has(&read[0], "CloseComplete"), 3);
}

#[test]
fn a_second_parse_of_a_name_is_a_duplicate() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("a", "select 1", &[]), parse("a", "select 1", &[]), close("a")]),
            (0, vec![parse("a", "selec", &[]), sync(), parse("a", "", &[]), sync(), again("a")]),
            (0, vec![query("begin; select 1/0"), parse("a", "select 1", &[]), sync(), again("a")]),
        ],
    );
    assert_eq!(has(&read[0], "42P05 prepared statement \"a\" already exists"), 1);
    assert_eq!((has(&read[1], "42P05"), has(&read[1], "42601")), (1, 1));
    assert_eq!(has(&read[2], "25P02"), 2);
}

#[test]
fn a_query_drops_the_unnamed_statement() {
    let read = same(
        &mut small(),
        &[
            (0, vec![parse("", "select 1", &[]), parse("a", "select 2", &[])]),
            (0, vec![again("")]),
            (0, vec![parse("", "select 1", &[]), query(""), again(""), again("a")]),
        ],
    );
    assert_eq!((has(&read[2], "26000"), has(&read[2], "DataRow")), (1, 1));
}

#[test]
fn what_follows_an_error_is_not_registered_and_what_was_before_is() {
    let read = same(
        &mut small(),
        &[
            (
                0,
                vec![
                    parse("a", "select 1", &[]),
                    runs("", "select 1/0"),
                    parse("b", "select 2", &[]),
                ],
            ),
            (0, vec![again("a"), again("b")]),
            (0, vec![runs("", "select 1/0"), close("a"), query("select 3"), sync(), again("a")]),
            (
                0,
                vec![
                    query("begin"),
                    parse("c", "select 3", &[]),
                    sync(),
                    query("rollback"),
                    again("c"),
                ],
            ),
        ],
    );
    assert_eq!((has(&read[1], "DataRow"), has(&read[1], "26000")), (1, 1));
    assert_eq!((has(&read[2], "DataRow"), has(&read[3], "DataRow")), (1, 1));
}

#[test]
fn sync_within_copy_is_no_end() {
    let mut rows = Vec::new();
    write::message(&mut rows, Frontend::CopyData, |out| out.extend_from_slice(b"5\n"));
    write::bare(&mut rows, Frontend::CopyDone);
    let read = same(
        &mut small(),
        &[
            (0, vec![query("drop table if exists t1; create table t1 (a int)")]),
            (
                0,
                vec![
                    runs("c", "copy t1 from stdin"),
                    sync(),
                    rows.clone(),
                    parse("a", "table t1", &[]),
                ],
            ),
            (0, vec![again("a"), query("copy t1 from stdin"), rows, again("a")]),
        ],
    );
    assert_eq!(has(&read[2], "DataRow"), 3);
}

#[test]
fn a_changed_result_type_is_told_until_it_is_prepared_again() {
    let mut gate = Gate::new(1, Bounds::default());
    let table = |sql: &str| query(&format!("drop table if exists t2; create table t2 {sql}"));
    let read = same(
        &mut gate,
        &[
            (0, vec![table("(a int)"), parse("a", "table t2", &[]), again("a")]),
            (0, vec![query("alter table t2 add b int"), again("a")]),
            (1, vec![runs("x", "table t2")]),
        ],
    );
    assert_eq!(has(&read[1], "0A000"), 1);
    assert_eq!(has(&read[2], "BindComplete"), 1);
    let mut client_statements = ClientStatements::new();
    for round in 0..3 {
        let change = query(&format!("alter table t2 add c{round} int"));
        gate.through(&mut client_statements, &step(&[parse(&round.to_string(), "table t2", &[])]));
        gate.through(&mut client_statements, &step(&[change]));
        let first = gate.through(&mut client_statements, &step(&[again("0")]));
        let second = gate.through(&mut client_statements, &step(&[again("0")]));
        let third = gate.through(&mut client_statements, &step(&[again("0")]));
        for said in [first, second, third] {
            assert_eq!(has(&said, "0A000"), 1, "as a server of its own says for ever: {said:?}");
        }
    }
    gate.end(vec![client_statements]);
}

/// Whoever parsed the same text again was answered from memory, and got the time of the first Parse,
/// also at a server that had it from then.
#[test]
fn a_literal_that_says_now_is_read_anew_by_each_parse() {
    let age = "select (now() - 'NOW'::timestamptz < '1 s')::text";
    let read = same(
        &mut small(),
        &[
            (0, vec![runs("", age)]),
            (1, vec![runs("", age)]),
            (0, vec![query("select pg_sleep(1.1)")]),
            (0, vec![runs("", age), sync(), query("select 1"), parse("", age, &[])]),
            (0, vec![again("")]),
        ],
    );
    assert_eq!((has(&read[3], "true"), has(&read[4], "true")), (1, 1));
}

/// What a transaction had made of a table, and of statements on it, counted behind its rollback too: a
/// Parse was answered from memory, and its Bind failed.
#[test]
fn a_parse_behind_a_rollback_is_of_what_was_there_before() {
    let table = "drop table if exists t3; create table t3 (a int); insert into t3 values (1)";
    let alters = "alter table t3 add b int";
    for ends in ["rollback", "rollback to s", "select 1/0"] {
        let begins = "begin; savepoint s";
        same(
            &mut Gate::new(1, Bounds::default()),
            &[
                (0, vec![query(table)]),
                (1, vec![parse("b", "table t3", &[]), again("b")]),
                (0, vec![query(begins)]),
                (0, vec![query(alters)]),
                (0, vec![runs("", "table t3")]),
                (0, vec![query(ends), runs("", "table t3"), sync(), query("rollback")]),
                (0, vec![runs("", "table t3")]),
                (1, vec![again("b")]),
                // The same before the replies are there.
                (0, vec![query(begins), query(alters), runs("", "table t3"), sync(), query(ends)]),
                (1, vec![again("b")]),
            ],
        );
    }
}

/// A new view, and whatever code does, was no reason to parse anew.
#[test]
fn whatever_may_have_changed_a_schema_makes_a_parse_a_new_one() {
    let view = "drop view if exists v4; create view v4 as select 1 as a; \
                drop schema if exists of_v4 cascade; create schema of_v4; \
                create procedure of_v4.more() language plpgsql as \
                $$ begin create or replace view v4 as select 1 as a, 2 as b, 3 as c; end $$";
    for changes in [
        "create or replace view v4 as select 1 as a, 2 as b",
        "do $$ begin create or replace view v4 as select 1 as a, 2 as b; end $$",
        "call of_v4.more()",
    ] {
        let read = same(
            &mut Gate::new(1, Bounds::default()),
            &[
                (0, vec![query(view)]),
                (0, vec![runs("", "table v4")]),
                (1, vec![query(changes)]),
                (0, vec![runs("", "table v4")]),
            ],
        );
        assert_eq!(has(&read[3], "DataRow"), 1, "{changes}");
    }
}

/// A client parsed anew behind a change, and at the next server it had what was prepared before.
#[test]
fn what_was_parsed_anew_is_prepared_anew_at_every_server() {
    let table = "drop table if exists t5; create table t5 (a int); insert into t5 values (1)";
    let read = same(
        &mut small(),
        &[
            (0, vec![query(table)]),
            (0, vec![runs("", "table t5")]),
            (0, vec![runs("", "table t5")]),
            (0, vec![query("alter table t5 add b int")]),
            (0, vec![parse("", "table t5", &[]), parse("n", "table t5", &[])]),
            (0, vec![again(""), again("n")]),
            (0, vec![again("n")]),
        ],
    );
    assert_eq!((has(&read[5], "DataRow"), has(&read[6], "DataRow")), (2, 1));
}

#[test]
fn sql_prepare_is_a_reason_to_keep_the_server() {
    let mut gate = Gate::new(1, Bounds::default());
    let steps = [(
        0,
        vec![query("prepare s as select 1"), query("execute s"), again("s"), query("deallocate s")],
    )];
    assert_eq!(has(&same(&mut gate, &steps)[0], "DataRow"), 2);
    assert!(gate.pins.has(Reason::Prepare));
}

#[test]
fn bounds_are_kept_and_fail_the_transaction() {
    let bounds = Bounds {
        client_max: 3,
        server_max: 4,
        statement_max: 500,
        entries_max: 6,
        ..Bounds::default()
    };
    let mut gate = Gate::new(2, bounds);
    let (mut client_statements, mut other) = (ClientStatements::new(), ClientStatements::new());
    for name in ["a", "b", "c"] {
        // The mark has a name, too.
        let read = gate.through(
            &mut client_statements,
            &step(&[
                query("begin"),
                parse(name, &format!("select '{name}'"), &[]),
                sync(),
                query("rollback"),
            ]),
        );
        assert_eq!(has(&read, "ERROR"), usize::from(name == "c"), "{read:?}");
    }
    let read = gate.through(
        &mut client_statements,
        &step(&[
            query("begin"),
            parse("d", "select 4", &[]),
            sync(),
            query("select 1"),
            query("rollback"),
            close("a"),
        ]),
    );
    assert_eq!((has(&read, "53400"), has(&read, "25P02")), (1, 1));
    let read =
        gate.through(&mut client_statements, &step(&[parse("", &"x".repeat(600), &[]), sync()]));
    assert_eq!(has(&read, "54000"), 1);
    for number in 0..20 {
        let read = gate.through(&mut other, &step(&[runs("", &format!("select {number}"))]));
        assert_eq!(has(&read, "DataRow"), 1);
        assert!(gate.lines.iter().all(|line| line.relay.prepared() <= 4));
        assert!(gate.cache.len() <= 6);
    }
    gate.end(vec![client_statements, other]);
}

/// It was said of the statement that it was too long, and that it might have 8192 bytes.
#[test]
fn who_names_a_portal_and_a_statement_too_long_for_a_bind_is_told_so() {
    let mut gate = small();
    let mut client_statements = ClientStatements::new();
    let told = "54000 the names of the portal and of its statement are too long: at most 8185 bytes \
                together";
    let name = |bytes: usize| "n".repeat(bytes);
    for (portal, statement, refused) in
        [(8186, 0, 1), (0, 8186, 1), (4093, 4093, 1), (8185, 0, 0), (9000, 0, 1)]
    {
        let (portal, statement) = (name(portal), name(statement));
        let said = [parse("", "select 1", &[]), bind(&portal, &statement, &[]), execute(&portal)];
        let read = gate.through(&mut client_statements, &step(&[said.concat(), sync()]));
        assert_eq!((has(&read, told), has(&read, "DataRow")), (refused, 1 - refused), "{read:?}");
    }
    gate.end(vec![client_statements]);
}

/// Some long statements of one client filled the room of all: every new statement of every other was
/// refused, unnamed ones too.
#[test]
fn who_has_long_statements_fills_no_room_but_its_own() {
    let bounds = Bounds { client_bytes_max: 1000, bytes_max: 4000, ..Bounds::default() };
    let mut gate = Gate::new(1, bounds);
    let long = |name: &str| parse(name, &format!("select '{name:0>400}'"), &[]);
    let mut guests: Vec<_> = (0..5).map(|_| ClientStatements::new()).collect();
    for (at, client_statements) in guests.iter_mut().enumerate() {
        let name = |number: usize| format!("{at}-{number}");
        let all: Vec<_> = (0..8).map(|number| [long(&name(number)), sync()].concat()).collect();
        let read = gate.through(client_statements, &step(&all));
        // The last one finds no room but that of unnamed ones, which is for nothing else.
        let (own, all) = if at < 4 { (6, 0) } else { (0, 8) };
        assert_eq!(has(&read, "53400 too long prepared"), own, "{at}: {read:?}");
        assert_eq!(has(&read, "53400 too many prepared"), all, "{at}: {read:?}");
        // What a client has closed is its own again.
        let read = gate
            .through(client_statements, &step(&[close(&name(0)), sync(), long(&name(9)), sync()]));
        assert_eq!(has(&read, "53400"), usize::from(at == 4), "{at}: {read:?}");
        let mut other = ClientStatements::new();
        let read = gate.through(&mut other, &step(&[long(""), again("")]));
        assert_eq!((has(&read, "53400"), has(&read, "DataRow")), (0, 1), "{read:?}");
        gate.cache.forget(other.client);
    }
    gate.end(guests);
    // Those that wait for their replies in a pipeline count, too, and are not refused.
    let mut gate = Gate::new(1, bounds);
    let pipeline: Vec<_> = (0..20)
        .map(|number| [long(""), parse("", &format!("select {number}"), &[]), again("")].concat())
        .collect();
    let read = same(&mut gate, &[(0, pipeline)]);
    assert_eq!((has(&read[0], "DataRow"), has(&read[0], "53400")), (20, 0));
    assert!(gate.later > 0, "nothing had to wait");
}

#[test]
fn what_the_gate_has_parsed_to_be_checked_is_nobodys_statement() {
    // A Close of it that an error let the server skip once left it to the next client.
    let mut gate = Gate::new(1, Bounds::default());
    let read = same(
        &mut gate,
        &[
            (
                0,
                vec![
                    runs("a", "select 1"),
                    query("begin"),
                    parse("", "select 1", &[]),
                    sync(),
                    query("commit"),
                ],
            ),
            (1, vec![execute("no"), bind("", "", &[]), sync(), again("")]),
        ],
    );
    assert_eq!((has(&read[1], "34000"), has(&read[1], "26000")), (1, 1));
}

#[test]
fn a_parse_is_not_answered_for_a_transaction_that_may_have_failed() {
    let begun = [query("begin; select 1/0"), query("rollback")];
    let [begin, rollback] = begun;
    let read = same(
        &mut Gate::new(1, Bounds::default()),
        &[
            (0, vec![runs("a", "select 1")]),
            (0, vec![begin.clone(), parse("b", "select 1", &[]), sync(), rollback.clone()]),
            (0, vec![begin]),
            (0, vec![parse("c", "select 1", &[]), sync(), rollback, again("b"), again("c")]),
        ],
    );
    assert_eq!((has(&read[1], "25P02"), has(&read[3], "25P02")), (1, 1));
    assert_eq!(has(&read[3], "26000"), 2);
}

#[test]
fn what_an_earlier_batch_prepares_is_waited_for() {
    let fails = parse("", "table nowhere", &[]);
    let read = same(
        &mut Gate::new(1, Bounds::default()),
        &[(0, vec![fails.clone(), sync(), fails.clone(), sync(), fails, again("")])],
    );
    assert_eq!(has(&read[0], "42P01"), 3);
}
