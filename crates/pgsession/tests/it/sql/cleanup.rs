//! Cleaning of servers behind a client, held against sessions that are new.

use std::io::Write as _;

use pgsession::sql::tokens::LexerMode;
use pgsession::sql::{Cleanup, Left, Reason, Settings, SettingsBounds, Side, effects};
use pgwire::frame::Frontend;
use pgwire::message::{Status, write};

use super::{Said, Session, error, status};
use pgtest::Chance;

/// Traces that a client can leave, as far as a server shows them.
fn traces(session: &mut Session) -> Vec<String> {
    let mut found = session.rows(
        // DO loads the language, which brings settings of its own and stays.
        "select name, setting, source from pg_settings
         where name <> 'transaction_isolation' and name not like 'plpgsql.%' order by name",
    );
    for query in [
        "select 'lock', classid, objid from pg_locks
         where locktype = 'advisory' and pid = pg_backend_pid()",
        "select 'listen', * from pg_listening_channels()",
        "select 'cursor', name from pg_cursors where name <> ''",
        "select 'statement', name from pg_prepared_statements",
        "select 'table', relname from pg_class where relpersistence = 't'
         and relnamespace = pg_my_temp_schema() and relkind in ('r', 'v', 'S')",
        "select 'user', current_user, session_user",
    ] {
        found.extend(session.rows(query));
    }
    found
}

/// The lines that one of two has and the other has not.
fn unlike(found: Vec<String>, expected: &[String]) -> Vec<String> {
    let missing = expected.iter().filter(|trace| !found.contains(trace));
    let missing: Vec<_> = missing.map(|trace| format!("missing {trace}")).collect();
    let more = found.into_iter().filter(|trace| !expected.contains(trace));
    more.chain(missing).collect()
}

fn fresh() -> (Session, Settings) {
    let (session, reported) = Session::new(&[]);
    let mut settings = Settings::new(Side::Server, SettingsBounds::default(), []);
    for (name, value) in reported {
        settings.reported(&name, &value);
    }
    (session, settings)
}

/// Lets a client leave something, and says what the server then needs.
fn leave(session: &mut Session, settings: &mut Settings, left: &mut Left, text: &str) -> Vec<Said> {
    let found = effects(text.as_bytes(), LexerMode::default());
    assert_eq!(found.unclear, None);
    left.sent(&found);
    let said = session.ask(text.as_bytes());
    let mut command = 0;
    for part in &said {
        match part {
            Said::Complete(tag) => {
                settings.completed(found.of(command), tag);
                left.completed(found.of(command), tag);
                command += 1;
            }
            Said::Error { .. } => {
                settings.failed();
                left.failed();
            }
            Said::Ready(status) => {
                settings.ready(*status);
                left.ready(*status);
            }
            Said::Reported(name, value) => settings.reported(name, value),
            Said::Row(_) => {}
        }
    }
    said
}

/// Each with what it needs.
const TEXTS: [(&str, &str); 28] = [
    ("select 1; set local work_mem to 99", ""),
    ("set work_mem to 1234", "RESET \"work_mem\""),
    ("set search_path to a; reset search_path", ""),
    ("set role pg_monitor", "RESET ROLE; RESET \"role\""),
    ("listen \"A b\"", "UNLISTEN *"),
    ("listen a; unlisten *", ""),
    ("select pg_advisory_lock(1)", "SELECT pg_catalog.pg_advisory_unlock_all()"),
    ("select pg_try_advisory_lock_shared(2)", "SELECT pg_catalog.pg_advisory_unlock_all()"),
    ("select pg_advisory_lock(1); select pg_advisory_unlock_all()", ""),
    ("select pg_advisory_xact_lock(1)", ""),
    ("create temp table if not exists t (a int)", "DISCARD TEMP"),
    ("create table if not exists pg_temp.u as select 1", "DISCARD TEMP"),
    ("select 1 as a into temporary v_1", "DISCARD TEMP"),
    ("create temp sequence w", "DISCARD TEMP"),
    ("declare c cursor with hold for select 1", "CLOSE ALL"),
    ("prepare p as select 1", "DISCARD ALL"),
    ("set session authorization pg_monitor", "DISCARD ALL"),
    ("do $$ begin perform set_config('work_mem', '999', false); end $$", "all"),
    ("do $$ begin set role pg_monitor; listen x; end $$", "all"),
    (
        "select pg_advisory_lock(1) from generate_series(1, 3)",
        "SELECT pg_catalog.pg_advisory_unlock_all()",
    ),
    ("set application_name to 'x'; set my.x to 1", "RESET \"application_name\"; RESET \"my.x\""),
    ("set search_path to pg_temp; create table x_1 (a int)", "RESET \"search_path\"; DISCARD TEMP"),
    (
        "set search_path to \"$user\", nowhere, pg_temp; create table x_5 (a int)",
        "RESET \"search_path\"; DISCARD TEMP",
    ),
    (
        "select set_config('search_path', 'pg_temp', false); create table x_6 (a int)",
        "RESET \"search_path\"; DISCARD TEMP",
    ),
    (
        "set search_path to pg_temp; discard temp; create table x_7 (a int)",
        "RESET \"search_path\"; DISCARD TEMP",
    ),
    ("begin; set local schema 'pg_temp'; create table x_8 (a int); commit", "DISCARD TEMP"),
    (
        "set application_name to 'x'; set local.tenant = '7'",
        "RESET \"application_name\"; RESET \"local\".\"tenant\"",
    ),
    ("select U&\"pg_advisory_lock\"(1)", "SELECT pg_catalog.pg_advisory_unlock_all()"),
];

#[test]
fn each_thing_left_is_cleaned_and_nothing_more_is_said() {
    let expected = traces(&mut fresh().0);
    for (text, needed) in TEXTS {
        let (mut session, mut settings) = fresh();
        let mut left = Left::default();
        let said = leave(&mut session, &mut settings, &mut left, text);
        assert_eq!(error(&said), None, "{text}: {said:?}");
        let cleaning = Cleanup::of(&left, &settings);
        let says = cleaning.text().map(|text| String::from_utf8(text.to_vec()).unwrap());
        let says = says.unwrap_or_default().replace("\"my\".\"x\"", "\"my.x\"");
        let needed = needed.replace("RESET ROLE; RESET \"role\"", "RESET ROLE");
        match needed.as_str() {
            "all" => assert!(says.contains("RESET ROLE; RESET ALL; UNLISTEN *"), "{says}"),
            needed => assert_eq!(says, needed, "{text}"),
        }
        if needed.is_empty() {
            assert_eq!(cleaning, Cleanup::Nothing, "{text}");
        } else {
            let traces = unlike(traces(&mut session), &expected);
            assert!(!traces.is_empty(), "{text} leaves nothing that can be seen");
            let said = session.ask(cleaning.text().unwrap());
            assert_eq!(error(&said), None, "{text}: {said:?}");
        }
        assert_eq!(unlike(traces(&mut session), &expected), [""; 0], "{text}");
    }
}

#[test]
fn whatever_mixture_is_left_a_cleaned_server_is_as_a_new_one() {
    let expected = traces(&mut fresh().0);
    let mut chance = Chance::new(0xc1ea);
    let (mut session, mut settings) = fresh();
    let mut left = Left::default();
    for round in 0..240 {
        let mut log = Vec::new();
        for _ in 0..=chance.below(8) {
            let text = match chance.below(12) {
                0 | 1 => "begin",
                2 => "rollback",
                3 => "select 1/0",
                4 => "savepoint s",
                5 => "rollback to s",
                6 => "commit",
                7 => "savepoint t; unlisten *; discard temp; rollback to t; commit",
                _ => TEXTS[chance.below(TEXTS.len())].0,
            };
            log.push(text);
            leave(&mut session, &mut settings, &mut left, text);
        }
        let said = leave(&mut session, &mut settings, &mut left, "rollback");
        assert_eq!(status(&said), Status::Idle);
        let cleaning = Cleanup::of(&left, &settings);
        if let Some(text) = cleaning.text() {
            let said = session.ask(text);
            assert_eq!(error(&said), None, "{log:?}: {said:?}");
            for part in said {
                if let Said::Reported(name, value) = part {
                    settings.reported(&name, &value);
                }
            }
        }
        let unlike = unlike(traces(&mut session), &expected);
        assert_eq!(unlike, [""; 0], "round {round}: {log:?}, {cleaning:?}");
        settings.discarded();
        left.cleaned();
    }
}

/// RESET ALL keeps the role, and the next client had the rights of the one before.
#[test]
fn no_role_stays_behind_its_client() {
    let (mut session, mut settings) = fresh();
    let mut left = Left::default();
    leave(&mut session, &mut settings, &mut left, "set role pg_monitor; set work_mem to 77");
    session.rows("reset all");
    assert_eq!(session.rows("select current_user"), ["pg_monitor"], "the trap is there");
    let cleaning = Cleanup::of(&left, &settings);
    assert_eq!(cleaning.text(), Some(&b"RESET ROLE; RESET \"work_mem\""[..]));
    session.ask(cleaning.text().unwrap());
    assert_eq!(session.rows("select current_user"), ["sekisho"]);
    // Under a role that may not reset it, a client's setting is reset all the same.
    let text = "set log_min_messages to fatal; set role pg_monitor";
    let (mut session, mut settings) = fresh();
    leave(&mut session, &mut settings, &mut left, text);
    let next = Settings::new(Side::Client, SettingsBounds::default(), []);
    let batch = Settings::difference(&settings, &next).unwrap().unwrap();
    assert!(batch.starts_with(b"RESET ROLE; "), "{}", batch.escape_ascii());
    assert_eq!(error(&session.ask(&batch)), None);
    assert_eq!(session.rows("select current_user"), ["sekisho"]);
    assert_eq!(session.rows("show log_min_messages"), ["warning"]);
}

#[test]
fn a_library_closes_and_what_is_undone_unpins() {
    let settings = Settings::new(Side::Server, SettingsBounds::default(), []);
    let mut left = Left::default();
    left.sent(&effects(b"load 'plpgsql'", LexerMode::default()));
    assert_eq!(Cleanup::of(&left, &settings), Cleanup::Close);

    let (mut session, mut settings) = fresh();
    let mut left = Left::default();
    let mut leave = |left: &mut Left, text| drop(leave(&mut session, &mut settings, left, text));
    leave(&mut left, "begin; listen a");
    leave(&mut left, "unlisten *; rollback");
    leave(&mut left, "begin; listen a; select 1/0");
    leave(&mut left, "rollback");
    leave(&mut left, "begin; create temp table x_3 (a int) on commit drop; commit");
    assert_eq!((left.keeps().count(), left.is_moving()), (0, false), "nothing was committed");
    leave(&mut left, "listen a");
    leave(&mut left, "begin; unlisten *; rollback");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Listen], "what was rolled back stays");
    // So does what a savepoint has brought back; whoever was next heard it, or met the table.
    leave(&mut left, "begin; savepoint s; unlisten *; rollback to s; commit");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Listen]);
    leave(&mut left, "unlisten *");
    assert_eq!(left.keeps().count(), 0);
    leave(&mut left, "create temp table x_4 (a int)");
    leave(&mut left, "begin; savepoint s; discard temp; rollback to s; commit");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Temporary]);
    leave(&mut left, "begin; savepoint s; discard temp; release s; commit");
    assert_eq!(left.keeps().count(), 0);
    // Under a path to the schema for temporary things there may be new ones behind DISCARD TEMP.
    leave(&mut left, "set search_path to pg_temp; discard temp");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Temporary]);
    leave(&mut left, "begin; reset search_path; discard temp; rollback");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Temporary]);
    leave(&mut left, "reset all; discard temp");
    assert_eq!(left.keeps().count(), 0);
    leave(&mut left, "create temp table x_2 (a int); prepare q as select 1");
    assert_eq!(left.keeps().collect::<Vec<_>>(), [Reason::Temporary, Reason::Prepare]);
    leave(&mut left, "discard temp");
    leave(&mut left, "deallocate all");
    assert_eq!(left.keeps().count(), 0);
}

/// A PREPARE within code stayed, and the next client could run it, or was refused its name.
#[test]
fn a_server_where_code_has_prepared_a_statement_is_not_used_on() {
    let prepares = "do $$ begin execute 'prepare p as select 1'; end $$";
    for (code, failed) in [(prepares, Some("22P02")), ("do $$ begin end $$", None)] {
        let (mut session, mut settings) = fresh();
        let mut left = Left::default();
        // One of the gate's, by the protocol: it is for all clients, and stays.
        let mut out = Vec::new();
        write::message(&mut out, Frontend::Parse, |out| out.extend(b"ours\0select 2\0\0\0"));
        session.stream.write_all(&out).unwrap();
        assert_eq!(error(&leave(&mut session, &mut settings, &mut left, code)), None);
        let cleaning = Cleanup::of(&left, &settings);
        let said = session.ask(cleaning.text().unwrap());
        assert_eq!(error(&said), failed, "{said:?}");
        if failed.is_none() {
            assert_eq!(session.rows("select name from pg_prepared_statements"), ["ours"]);
        }
    }
}
