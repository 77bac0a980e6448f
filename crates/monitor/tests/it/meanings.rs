//! What a text means when it is prepared: what one client's transaction makes of it is nobody else's, and
//! whoever parses it gets what a server of its own would make of it now.

use monitor::{Admission, Mode};
use pgsession::sql::{Choices, CodeChoice};
use pgwire::auth::Method;
use pgwire::frame::Frontend;
use pgwire::message::write;
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::Version;

use super::session_state::at_the_server;
use super::{Gate, Raw, ask, config, database, directly, enter, runtime, trusting};
use pgtest::script::{bind, execute, parse, query, runs, sync};

fn gate(slots: u32, code: CodeChoice) -> Gate {
    let mut config = trusting(database(Mode::Transaction, slots));
    config.session_state = Choices { code, ..Choices::default() };
    Gate::new(config)
}

/// A client of the gate, and the same in a session of its own.
struct Twin {
    gated: Raw,
    direct: Raw,
}

impl Twin {
    fn new(gate: &Gate) -> Twin {
        Twin { gated: Raw::enter(gate, Version::V3_0, &[]), direct: at_the_server(&[]) }
    }

    /// Both say this and hear the same: what that is.
    fn says(&mut self, messages: &[Vec<u8>]) -> Vec<String> {
        let readies = messages.iter().filter(|one| one[0] == b'Q' || one.ends_with(&sync()));
        let readies = readies.count();
        let [gated, direct] = [&mut self.gated, &mut self.direct].map(|raw| {
            raw.say(&messages.concat());
            (0..readies).flat_map(|_| raw.answer()).collect::<Vec<_>>()
        });
        let shown: Vec<_> = messages.iter().map(|one| one.escape_ascii().to_string()).collect();
        assert_eq!(gated, direct, "{shown:#?}");
        gated
    }
}

fn make(schema: &str, text: &str) {
    let mut direct = at_the_server(&[]);
    let text = format!("drop schema if exists {schema} cascade; create schema {schema}; {text}");
    direct.query(&text);
    let said = direct.answer();
    assert!(said.iter().all(|one| !one.starts_with("ERROR")), "{said:?}");
}

/// Parse, Bind with these values, Execute, Sync, without a name.
fn once(text: &str, values: &[&str]) -> Vec<u8> {
    [parse("", text, &[]), bind("", "", values), execute(""), sync()].concat()
}

/// What one client's `SET LOCAL search_path` had made of a text, with the types of its parameters, was
/// what every later client of the server got, and its statement failed for ever with 42804.
#[test]
fn what_a_local_setting_makes_of_a_text_is_nobody_elses() {
    for schema in ["of_meaning_a", "of_meaning_b"] {
        let table = format!(
            "create type {schema}.status as enum ('{schema}'); \
             create table {schema}.of_status (status {schema}.status)"
        );
        make(schema, &table);
    }
    let gate = gate(1, CodeChoice::Clean);
    let locally = [
        "set local search_path to SCHEMA",
        "select set_config('search_path', 'SCHEMA', true)",
        "select set_config('search_path', 'SCHEMA' || '', true)",
        "select set_config('search_' || 'path', 'SCHEMA', true), 2",
        "do 'begin set local search_path to SCHEMA; end'",
    ];
    let insert = "insert into of_status (status) values ($1)";
    for local in locally {
        let (mut one, mut other) = (Twin::new(&gate), Twin::new(&gate));
        for _ in 0..2 {
            for (twin, schema) in [(&mut one, "of_meaning_a"), (&mut other, "of_meaning_b")] {
                let local = query(&local.replace("SCHEMA", schema));
                let all = [
                    query("begin"),
                    local.clone(),
                    once(insert, &[schema]),
                    once(insert, &[schema]),
                ];
                twin.says(&all);
                let last = twin.says(&[query("savepoint s"), once(insert, &["no status"])]);
                assert!(last.iter().any(|one| one.contains("22P02")), "{local:?}: {last:?}");
                twin.says(&[query("rollback to s"), once(insert, &[schema]), query("commit")]);
                // It is what it was before.
                let last = twin.says(&[once(insert, &[schema])]);
                assert!(last.iter().any(|one| one.contains("42P01")), "{local:?}: {last:?}");
            }
        }
    }
    gate.end();
}

/// A name that was prepared under a local setting means at each server what it means there.
#[test]
fn a_statement_of_a_local_setting_is_its_clients_in_later_transactions() {
    for schema in ["of_later_a", "of_later_b"] {
        make(schema, &format!("create table {schema}.of_later as select '{schema}'::text as name"));
    }
    let gate = gate(2, CodeChoice::Clean);
    let (mut one, mut other) = (Twin::new(&gate), Twin::new(&gate));
    for local in ["set local search_path to SCHEMA", "select set_config('search_path', $1, true)"] {
        let enters = |schema: &str| match local.contains('$') {
            true => once(local, &[schema]),
            false => once(&local.replace("SCHEMA", schema), &[]),
        };
        let runs = [bind("", "s", &[]), execute(""), sync()].concat();
        for (twin, schema) in [(&mut one, "of_later_a"), (&mut other, "of_later_b")] {
            let parses = [parse("s", "select name from of_later", &[]), sync()].concat();
            let begin = [query("begin"), enters(schema), parses];
            twin.says(&[&begin[..], &[runs.clone(), query("commit")]].concat());
        }
        for _ in 0..4 {
            for (twin, schema) in [(&mut one, "of_later_a"), (&mut other, "of_later_b")] {
                let both = [runs.clone(), runs.clone(), query("commit")];
                let said = twin.says(&[&[query("begin"), enters(schema)][..], &both].concat());
                assert!(said.iter().filter(|one| *one == schema).count() >= 2, "{said:?}");
            }
        }
        for twin in [&mut one, &mut other] {
            twin.says(&[query("deallocate s")]);
        }
    }
    gate.end();
}

/// In one segment a constant was folded under the zone that the statement before it had set, and another
/// client got an instant nine hours off; what followed a local `standard_conforming_strings` was cut
/// as before it.
#[test]
fn in_a_series_what_is_set_locally_counts_for_what_is_behind_it_alone() {
    let gate = gate(1, CodeChoice::Clean);
    let (mut one, mut other) = (Twin::new(&gate), Twin::new(&gate));
    let instant = "select extract(epoch from '2024-01-01 00:00'::timestamptz)::bigint::text";
    let zone = runs("", "set local timezone = 'Asia/Tokyo'");
    for _ in 0..2 {
        let tokyo = one.says(&[[zone.clone(), runs("", instant), sync()].concat()]);
        let usual = other.says(&[once(instant, &[])]);
        assert_ne!(tokyo.last_chunk::<3>(), usual.last_chunk::<3>());
        assert_eq!(one.says(&[once(instant, &[])]), usual);
        one.says(&[query("begin"), [zone.clone(), sync()].concat(), once(instant, &[])]);
        one.says(&[query("rollback"), once(instant, &[]), once(instant, &[])]);
        assert_eq!(other.says(&[once(instant, &[])]), usual);
    }
    // What is a command by one lexer mode is within a string by the other.
    let strings = runs("", "set local standard_conforming_strings = off");
    let cut = runs("", r"select '\'; deallocate s; --'");
    let said = one.says(&[[strings, cut.clone(), sync()].concat()]);
    assert!(said.contains(&"'; deallocate s; --".to_owned()), "{said:?}");
    one.says(&[[parse("s", "select 1", &[]), cut, sync()].concat()]);
    gate.end();
}

/// What the client of another pool changed, each statement met with 0A000 once.
#[test]
fn what_a_user_changes_is_changed_for_the_statements_of_all_users() {
    make("of_pools", "create view of_pools.v as select 1 as a");
    let runtime = runtime();
    runtime.block_on(async {
        let create = "drop role if exists of_meanings; \
                      create role of_meanings superuser login password 'of meanings'";
        ask(&directly().await, create).await.unwrap();
    });
    let mut config = config(database(Mode::Transaction, 1));
    let users = format!(
        "\"sekisho\" \"{}\"\n\"of_meanings\" \"of meanings\"\n",
        String::from_utf8(super::password()).unwrap()
    );
    config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    config.admission = Admission::Everybody(Method::Trust);
    let gate = Gate::new(config);
    let mut one = Raw::enter(&gate, Version::V3_0, &[]);
    let mut told = |text: &str| {
        one.say(&once(text, &[]));
        one.answer()
    };
    let all = "table of_pools.v";
    let before = told(all);
    runtime.block_on(async {
        let mut account = gate.account();
        account.user("of_meanings").password("of meanings");
        let other = enter(&account).await.unwrap();
        let replace = "create or replace view of_pools.v as select 1 as a, 2 as b";
        ask(&other, replace).await.unwrap();
    });
    assert_eq!(told(all), before);
    gate.end();
}

/// Rows of a column that had become another one came without an error, at a server that had not prepared
/// the statement before: 1000000000 read as 1315859240 in the format that the client had been told.
#[test]
fn a_plan_that_would_change_its_result_is_refused_at_every_server() {
    make("reshaped", "create table reshaped.t (v int); insert into reshaped.t values (1)");
    let gate = gate(2, CodeChoice::Trust);
    let (mut one, mut other) = (Twin::new(&gate), Twin::new(&gate));
    let statement = || parse("a", "select v from reshaped.t", &[]);
    let again = || [bind("", "a", &[]), execute(""), sync()].concat();
    one.says(&[[statement(), sync()].concat(), again()]);
    // A client that has only said what it wants, and not asked for its columns.
    other.says(&[[statement(), again()].concat()]);
    let pid = |raw: &mut Raw| {
        raw.query("select pg_backend_pid()");
        raw.answer()[0].clone()
    };
    // All servers that have prepared it are held by others; a new one has it from the gate.
    let mut held: Vec<Raw> = (0..2).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    let mut pids = Vec::new();
    for raw in &mut held {
        raw.query("begin");
        raw.answer();
        pids.push(pid(raw));
    }
    let mut direct = at_the_server(&[]);
    direct.query("alter table reshaped.t alter column v type bigint");
    direct.answer();
    // The first server is lost, and another comes in its place.
    direct.query(&format!("select pg_terminate_backend({})", pids[0]));
    direct.answer();
    let refused = "ERROR 0A000 cached plan must not change result type";
    for twin in [&mut one, &mut other] {
        assert_eq!(twin.says(&[again()])[0], refused);
        assert_eq!(twin.says(&[again()])[0], refused, "and for ever");
    }
    // It fails the transaction, and what follows is skipped up to Sync.
    one.says(&[query("begin")]);
    let skips = [bind("", "a", &[]), execute(""), bind("", "a", &[]), execute(""), sync()].concat();
    assert_eq!(one.says(&[skips]), [refused, "ZE"]);
    one.says(&[query("select 1"), query("rollback")]);
    // Whoever prepares it anew has it as it is now, at any server; who has not is refused still.
    let anew = [pgtest::script::close("a"), statement(), sync()].concat();
    one.says(&[anew, again()]);
    drop(held);
    for _ in 0..4 {
        one.says(&[again()]);
        assert_eq!(other.says(&[again()])[0], refused);
    }
}

/// Whoever prepared a text behind a change made past the gate was answered from memory, with another
/// client's statement from before: 0A000 at each use of it, for ever, and so for every client to come.
#[test]
fn who_prepares_behind_a_change_past_the_gate_has_what_is_there_then() {
    let again = || [bind("", "a", &[]), execute(""), sync()].concat();
    let statement = || parse("a", "select * from past.t", &[]);
    let describe = || [pgtest::script::describe("a"), sync()].concat();
    let refused = "ERROR 0A000 cached plan must not change result type";
    let comes: [&[Vec<u8>]; 5] = [
        &[[statement(), sync()].concat(), again()],
        &[[statement(), again()].concat()],
        &[[statement(), sync()].concat(), describe(), again()],
        &[query("begin"), [statement(), sync()].concat(), again(), query("commit")],
        &[[statement(), sync()].concat(), query("execute a")],
    ];
    for (number, comes) in comes.into_iter().enumerate() {
        make("past", "create table past.t (v int); insert into past.t values (1)");
        let gate = gate(2, CodeChoice::Trust);
        let mut old = Twin::new(&gate);
        let mut first: Vec<Raw> = (0..2).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
        for raw in &mut first {
            raw.query("begin");
            raw.answer();
            raw.say(&[statement(), again()].concat());
            raw.answer();
        }
        first.iter_mut().for_each(|raw| raw.query("commit"));
        first.iter_mut().for_each(|raw| drop(raw.answer()));
        drop(first);
        old.says(&[[statement(), sync()].concat(), again()]);
        // Known by its name alone, at servers that others have prepared it at.
        let mut told = Twin::new(&gate);
        told.says(&[[statement(), sync()].concat()]);
        let mut direct = at_the_server(&[]);
        direct.query("alter table past.t add column z int default 9");
        direct.answer();
        for _ in 0..3 {
            let mut new = Twin::new(&gate);
            let said = new.says(comes);
            assert!(said.contains(&"1".to_owned()), "{number}: {said:?}");
            for _ in 0..4 {
                new.says(&[again()]);
                new.says(&[query("execute a")]);
            }
            // Who was told what it was is refused as before.
            assert_eq!(old.says(&[again()])[0], refused);
            assert_eq!(old.says(&[query("execute a")])[0], refused);
        }
        assert_eq!(told.says(&[again()])[0], refused);
    }
}

/// Who has no name for it parses it each time, and the gate answers that: of a change past the gate one
/// of all clients is told, once, and none behind it.
#[test]
fn of_a_change_past_the_gate_unnamed_statements_tell_once() {
    make(
        "past_unnamed",
        "create table past_unnamed.t (v int); create table past_unnamed.u (v int)",
    );
    let gate = gate(2, CodeChoice::Trust);
    let texts = ["select * from past_unnamed.t", "select * from past_unnamed.u"];
    let runs = |raw: &mut Raw, text: &str| {
        raw.say(&once(text, &[]));
        raw.answer()
    };
    let mut clients: Vec<Raw> = (0..2).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    for raw in &mut clients {
        raw.query("begin");
        raw.answer();
        texts.iter().for_each(|text| drop(runs(raw, text)));
    }
    for raw in &mut clients {
        raw.query("commit");
        raw.answer();
    }
    let mut direct = at_the_server(&[]);
    direct.query("alter table past_unnamed.t add z int; alter table past_unnamed.u add z int");
    direct.answer();
    let mut said = Vec::new();
    for _ in 0..4 {
        let mut new = Raw::enter(&gate, Version::V3_0, &[]);
        for text in texts {
            said.extend(runs(&mut new, text));
            for raw in &mut clients {
                said.extend(runs(raw, text));
            }
        }
    }
    assert_eq!(said.iter().filter(|one| one.starts_with("ERROR 0A000")).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|one| one.starts_with("ERROR")).count(), 1, "{said:?}");
}

/// PostgreSQL keeps the types that parameters had, so that what a client sends as four bytes goes on being
/// an integer; a server that prepares the text anew would read them as another type's, or not at all.
#[test]
fn parameters_keep_their_types_at_every_server() {
    make("retyped", "create table retyped.t (v int, of text)");
    let gate = gate(2, CodeChoice::Trust);
    let (mut one, mut other) = (Twin::new(&gate), Twin::new(&gate));
    let statement = || parse("a", "insert into retyped.t (v) values ($1) returning of", &[]);
    // 1000000000, in binary.
    let mut again = Vec::new();
    write::message(&mut again, Frontend::Bind, |out| {
        out.extend_from_slice(b"\0a\0\0\x01\0\x01\0\x01\0\0\0\x04\x3b\x9a\xca\0\0\0");
    });
    let again = [again, execute(""), sync()].concat();
    one.says(&[[statement(), sync()].concat(), again.clone()]);
    other.says(&[[statement(), again.clone()].concat()]);
    let mut held: Vec<Raw> = (0..2).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    let mut direct = at_the_server(&[]);
    for raw in &mut held {
        raw.query("begin");
        raw.answer();
    }
    held[0].query("select pg_backend_pid()");
    let pid = held[0].answer()[0].clone();
    // To a type of another width, and to one of the same, where nothing but the value would tell.
    direct.query("alter table retyped.t alter column v type bigint");
    direct.answer();
    direct.query(&format!("select pg_terminate_backend({pid})"));
    direct.answer();
    for twin in [&mut one, &mut other] {
        let said = twin.says(std::slice::from_ref(&again));
        assert!(said.iter().any(|one| one.contains("INSERT 0 1")), "{said:?}");
    }
    drop(held);
    direct.query("alter table retyped.t alter column v type real");
    direct.answer();
    for _ in 0..4 {
        one.says(std::slice::from_ref(&again));
        other.says(std::slice::from_ref(&again));
    }
    direct.query("select string_agg(distinct v::bigint::text, ' ') from retyped.t");
    assert_eq!(direct.answer()[0], "1000000000", "whoever has written it");
    // Where the value has no way to the column's new type, PostgreSQL says so here as there.
    direct.query("alter table retyped.t alter column v type bytea using null");
    direct.answer();
    for twin in [&mut one, &mut other] {
        let said = twin.says(std::slice::from_ref(&again));
        assert!(said[0].starts_with("ERROR 42804"), "{said:?}");
    }
}

/// What is no query is held to its parameters all the same where PostgreSQL analyses it at its Parse: a
/// CALL whose procedure has another type of argument now wrote 0.0047 for 1000000000.
#[test]
fn commands_with_an_expression_keep_the_types_of_their_parameters() {
    let tables = "create table SCHEMA.t (v int); create table SCHEMA.log (v numeric); \
                  insert into SCHEMA.t values (1000000000)";
    let wider = "alter table SCHEMA.t alter v type real";
    let procedure = "create procedure SCHEMA.p(a int) language sql as \
                     'insert into SCHEMA.log values (a)'";
    let other = "drop procedure SCHEMA.p; create procedure SCHEMA.p(a real) language sql as \
                 'insert into SCHEMA.log values (a::numeric)'";
    let told = "create procedure SCHEMA.p(inout a int) language plpgsql as 'begin end'";
    let told_other = "drop procedure SCHEMA.p; \
                      create procedure SCHEMA.p(inout a real) language plpgsql as 'begin end'";
    let explain = "explain (analyze, costs off, timing off, summary off) \
                   insert into SCHEMA.t values ($1)";
    // What is there before, the statement, what is changed, and whether PostgreSQL runs it still.
    let cases = [
        (procedure, "call SCHEMA.p($1)", other, true),
        (told, "call SCHEMA.p($1)", told_other, false),
        ("", explain, wider, true),
        ("", "create table SCHEMA.made as select v from SCHEMA.t where v = $1", wider, true),
    ];
    for (before, statement, change, runs) in cases {
        let [tables, before, statement, change] =
            [tables, before, statement, change].map(|text| text.replace("SCHEMA", "of_calls"));
        make("of_calls", &format!("{tables}; {before}"));
        let gate = gate(1, CodeChoice::Trust);
        let mut twin = Twin::new(&gate);
        twin.says(&[[parse("a", &statement, &[]), sync()].concat()]);
        let mut direct = at_the_server(&[]);
        direct.query(&change);
        direct.answer();
        // The gate's server is lost, and another comes in its place.
        let mut gated = Raw::enter(&gate, Version::V3_0, &[]);
        gated.query("select pg_backend_pid()");
        let pid = gated.answer()[0].clone();
        direct.query(&format!("select pg_terminate_backend({pid})"));
        direct.answer();
        gate.until("its end is heard of", |stats| stats.pools[0].servers == 0);
        // 1000000000, in binary.
        let mut again = Vec::new();
        write::message(&mut again, Frontend::Bind, |out| {
            out.extend_from_slice(b"\0a\0\0\x01\0\x01\0\x01\0\0\0\x04\x3b\x9a\xca\0\0\0");
        });
        let again = [again, execute(""), sync()].concat();
        let looks = query(
            "select v::numeric from of_calls.log union all select v::numeric from of_calls.t",
        );
        let rolled_back = [query("begin"), again, looks, query("rollback")];
        let said = twin.says(&rolled_back);
        assert_eq!(said.iter().any(|one| one.starts_with("ERROR")), !runs, "{statement}: {said:?}");
        gate.end();
    }
}
