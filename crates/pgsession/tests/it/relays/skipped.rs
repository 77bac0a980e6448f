//! What a server skips, or fails half-way, leaves a client's statements and portals as it would on a
//! server of the client's own. Each test tells what was otherwise once.

use pgsession::sql::Reason;

use super::*;

/// Steps of one client, through the gate and directly: all that it reads.
fn alone(gate: &mut Gate, steps: Vec<Vec<Vec<u8>>>) -> Vec<String> {
    let steps: Vec<_> = steps.into_iter().map(|step| (0, step)).collect();
    same(gate, &steps).concat()
}

#[test]
fn a_query_behind_one_that_is_skipped_drops_the_unnamed_statement() {
    // The gate took the first Query for the one that drops it, and put the statement back when that
    // turned out to be skipped, also for the second, which was not.
    for second in ["select 3", "", "select 1/0", "deallocate all", "selec"] {
        let read = alone(
            &mut small(),
            vec![vec![
                parse("", "select 1", &[]),
                sync(),
                execute("no"),
                query("select 2"),
                sync(),
                query(second),
                again(""),
            ]],
        );
        assert_eq!((has(&read, "34000"), has(&read, "26000")), (1, 1), "{second}: {read:?}");
    }
}

#[test]
fn what_is_skipped_drops_no_unnamed_statement() {
    let drops = [close(""), query("select 2"), parse("", "selec", &[]), parse("", "select 2", &[])];
    for skipped in drops {
        let read = alone(
            &mut small(),
            vec![vec![
                parse("", "select 'first'", &[]),
                sync(),
                execute("no"),
                skipped.clone(),
                sync(),
                again(""),
            ]],
        );
        assert_eq!((has(&read, "34000"), has(&read, "first")), (1, 1), "{read:?}");
    }
}

#[test]
fn a_message_that_cannot_be_read_drops_no_unnamed_statement() {
    // Of a Query with two texts, and a Parse with half a type, PostgreSQL reads no further.
    let mut two = query("select 2");
    two.extend(b"x\0");
    two[4] += 2;
    let mut half = parse("", "select 2", &[]);
    half.push(0);
    half[4] += 1;
    for unread in [two, half] {
        let steps = vec![
            vec![parse("", "select 'first'", &[])],
            vec![unread, sync(), again("")],
            vec![again("")],
        ];
        let read = alone(&mut small(), steps);
        assert_eq!((has(&read, "08P01"), has(&read, "first")), (1, 2), "{read:?}");
    }
}

#[test]
fn the_unnamed_statement_of_a_batch_waits_for_no_earlier_one() {
    // What an earlier batch makes of it is of no interest where this one has its own.
    let mut gate = small();
    let batches = |text: &str| [runs("", text), sync()].concat();
    let first = ["select 1", "select 2", "select 3"].map(batches).to_vec();
    let second = ["select 4", "select 1/0", "select 5", "selec", "select 6"].map(batches).to_vec();
    let read = alone(&mut gate, vec![first]);
    assert_eq!((has(&read, "DataRow"), gate.later), (3, 0));
    let read = alone(&mut gate, vec![second]);
    assert_eq!((has(&read, "DataRow"), gate.later), (3, 0));
}

#[test]
fn a_parse_that_the_gate_refuses_has_dropped_the_unnamed_statement() {
    // It fails as one that the server refuses, which once left the statement before it in its place.
    let mut gate = Gate::new(1, Bounds { statement_max: 100, ..Bounds::default() });
    let mut client_statements = ClientStatements::new();
    gate.through(&mut client_statements, &step(&[parse("", "select 1", &[])]));
    for wanted in [1, 0] {
        let read = gate.through(&mut client_statements, &step(&[again("")]));
        assert_eq!((has(&read, "DataRow"), has(&read, "26000")), (wanted, 1 - wanted), "{read:?}");
        let long = format!("select '{}'", "x".repeat(200));
        let named = gate.through(&mut client_statements, &step(&[parse("a", &long, &[])]));
        assert_eq!(has(&named, "54000"), 1, "{named:?}");
        let read = gate.through(&mut client_statements, &step(&[again("")]));
        assert_eq!((has(&read, "DataRow"), has(&read, "26000")), (wanted, 1 - wanted), "{read:?}");
        let read = gate.through(&mut client_statements, &step(&[parse("", &long, &[])]));
        assert_eq!(has(&read, "54000"), 1, "{read:?}");
    }
    gate.end(vec![client_statements]);
}

#[test]
fn a_query_behind_a_bind_that_fails_where_its_statement_is_prepared_again_has_no_end() {
    // The gate took the Parse that it had put before the Bind for one put before the Query, and sent
    // the Sync that a Query of its own would have needed: one ReadyForQuery too many.
    let table = "drop table if exists t_put; create table t_put (n int)";
    let mut gate = small();
    let read = same(
        &mut gate,
        &[
            (0, vec![query(table), parse("a", "table t_put", &[])]),
            (1, vec![query("drop table t_put")]),
            (
                0,
                vec![bind("", "a", &[]), execute(""), query("select 1"), sync(), query("select 2")],
            ),
            (
                0,
                vec![bind("", "a", &[]), execute(""), query("select 1"), sync(), query("select 2")],
            ),
        ],
    );
    for read in &read[2..] {
        assert_eq!((has(read, "42P01"), has(read, "DataRow")), (1, 1), "{read:?}");
    }
}

#[test]
fn portals_that_drop_statements_may_be_several() {
    // Only the last one bound was known for what it does.
    let read = alone(
        &mut small(),
        vec![
            vec![parse("a", "select 'a'", &[]), parse("b", "select 'b'", &[])],
            vec![
                [parse("d", "deallocate a", &[]), parse("e", "deallocate b", &[])].concat(),
                [bind("p", "d", &[]), bind("q", "e", &[]), execute("p"), execute("q")].concat(),
                sync(),
                again("a"),
                again("b"),
            ],
        ],
    );
    assert_eq!((has(&read, "DEALLOCATE"), has(&read, "26000")), (2, 2), "{read:?}");
}

#[test]
fn a_portal_is_replaced_by_a_bind_that_is_done_and_by_no_other() {
    // A Bind that was skipped had the gate forget what the portal of this name drops or leaves.
    let by = |portal: &str, name: &str, text: &str| {
        [parse(name, text, &[]), bind(portal, name, &[]), execute(portal)].concat()
    };
    for text in ["deallocate a", "listen skipped"] {
        let mut gate = small();
        let read = alone(
            &mut gate,
            vec![
                vec![parse("a", "select 'a'", &[]), query("begin")],
                vec![
                    [parse("d", text, &[]), bind("", "d", &[])].concat(),
                    by("s", "save", "savepoint s"),
                    sync(),
                    [parse("w", "selec", &[]), bind("", "w", &[])].concat(),
                    sync(),
                    by("r", "back", "rollback to s"),
                    execute(""),
                    sync(),
                ],
                vec![query("commit"), again("a")],
            ],
        );
        assert_eq!(has(&read, "42601"), 1, "{read:?}");
        let drops = usize::from(text.starts_with("deallocate"));
        assert_eq!((has(&read, "DEALLOCATE"), has(&read, "26000")), (drops, drops), "{read:?}");
        assert_eq!(has(&read, "CommandComplete LISTEN"), 1 - drops, "{read:?}");
        assert_eq!(gate.pins.has(Reason::Listen), drops == 0, "{text}");
    }
}
