//! Both query protocols, in raw bytes.

use std::sync::LazyLock;

use pgconsole::{
    Access, Control, Heard, Refusal, Reply, Session, Snapshot, Table, Want, is_console,
};
use pgwire::SqlState;
use pgwire::frame::{Backend, Frontend};
use pgwire::message::read;

use super::sample::{empty, filled};
use super::{error, messages, query, session, table, tags};

/// A body of names, each ended, and what follows.
fn body(names: &[&str], rest: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
    bytes.extend_from_slice(rest);
    bytes
}

fn parse(name: &str, text: &str) -> (Frontend, Vec<u8>) {
    (Frontend::Parse, body(&[name, text], &[0, 0]))
}

/// A Bind without parameters, with these formats of columns.
fn bind(portal: &str, statement: &str, formats: &[u16]) -> (Frontend, Vec<u8>) {
    let mut rest = vec![0, 0, 0, 0];
    rest.extend((formats.len() as u16).to_be_bytes());
    rest.extend(formats.iter().flat_map(|format| format.to_be_bytes()));
    (Frontend::Bind, body(&[portal, statement], &rest))
}

fn describe(kind: u8, name: &str) -> (Frontend, Vec<u8>) {
    (Frontend::Describe, [&[kind][..], name.as_bytes(), b"\0"].concat())
}

fn execute(portal: &str) -> (Frontend, Vec<u8>) {
    (Frontend::Execute, body(&[portal], &[0, 0, 0, 0]))
}

fn sync() -> (Frontend, Vec<u8>) {
    (Frontend::Sync, vec![])
}

/// Says messages one after the other; snapshots are given, controls are done.
fn say(session: &mut Session, messages: &[(Frontend, Vec<u8>)]) -> Vec<u8> {
    static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(filled);
    let mut out = Vec::new();
    for (tag, body) in messages {
        let mut heard = session.hear(*tag, body, &mut out);
        while let Heard::Wants(want) = heard {
            let reply = match want {
                Want::Snapshot => Reply::Snapshot(&SNAPSHOT),
                Want::Estimates(_) => Reply::Estimates(&SNAPSHOT.model),
                Want::Control(_) => Reply::Done,
            };
            heard = session.reply(reply, &mut out);
        }
        assert_eq!(heard, Heard::Answered);
    }
    out
}

#[test]
fn two_databases_are_the_console() {
    let found = [&b"pgbouncer"[..], b"sekisho", b"PgBouncer", b"shop", b""].map(is_console);
    assert_eq!(found, [true, true, false, false, false]);
}

#[test]
fn a_client_is_told_what_drivers_look_at() {
    let mut out = Vec::new();
    Session::begin(Access::Show, "0.1.0", &mut out);
    let messages = messages::<Backend>(&out);
    assert!(messages.iter().all(|(tag, _)| *tag == Backend::ParameterStatus));
    let found: Vec<_> = messages.iter().map(|(_, b)| read::parameter_status(b).unwrap()).collect();
    for pair in [
        (&b"server_version"[..], &b"0.1.0/sekisho"[..]),
        (b"client_encoding", b"UTF8"),
        (b"standard_conforming_strings", b"on"),
        (b"integer_datetimes", b"on"),
        (b"is_superuser", b"off"),
    ] {
        assert!(found.contains(&pair), "{pair:?}");
    }
}

#[test]
fn several_commands_of_one_text_have_one_end() {
    let mut session = session(Access::All);
    let out = query(&mut session, "show state; set timezone = 'UTC'; show datestyle", &filled());
    let rows = [Backend::RowDescription, Backend::DataRow, Backend::CommandComplete];
    let state = [&rows[..1], &[rows[1]; 3], &rows[2..]].concat();
    let set = [Backend::NoticeResponse, Backend::CommandComplete];
    let wanted = [&state[..], &set, &rows, &[Backend::ReadyForQuery]].concat();
    assert_eq!(tags(&out), wanted);
    assert_eq!(
        tags(&query(&mut session, " ; ", &filled())),
        [Backend::EmptyQueryResponse, Backend::ReadyForQuery]
    );
    assert_eq!(
        tags(&query(&mut session, "show help", &filled())),
        [Backend::NoticeResponse, Backend::CommandComplete, Backend::ReadyForQuery]
    );
}

#[test]
fn a_wrong_text_is_answered_and_the_session_goes_on() {
    let mut session = session(Access::All);
    let out = query(&mut session, "show version; show pool", &filled());
    assert_eq!(tags(&out), [Backend::ErrorResponse, Backend::ReadyForQuery]);
    let said = "the console knows no table \"pool\"; did you mean POOLS?".to_owned();
    assert_eq!(error(&out), Some((SqlState::SYNTAX_ERROR, said)));
    assert_eq!(table(&query(&mut session, "show version", &filled())).1.len(), 1);
}

#[test]
fn a_control_is_handed_on_and_what_follows_waits_for_it() {
    let mut session = session(Access::All);
    let mut out = Vec::new();
    let heard = session.hear(Frontend::Query, b"pause shop; show version\0", &mut out);
    let pause = Control::Pause(Some("shop".to_owned()));
    assert_eq!((heard, out.len()), (Heard::Wants(Want::Control(pause)), 0));
    assert_eq!(session.reply(Reply::Done, &mut out), Heard::Wants(Want::Snapshot));
    let complete = messages::<Backend>(&out);
    assert_eq!(complete, [(Backend::CommandComplete, &b"PAUSE\0"[..])]);
    assert_eq!(session.reply(Reply::Snapshot(&empty()), &mut out), Heard::Answered);
    assert_eq!(tags(&out).last(), Some(&Backend::ReadyForQuery));
}

#[test]
fn what_cannot_be_done_ends_the_text() {
    let mut session = session(Access::All);
    let mut out = Vec::new();
    session.hear(Frontend::Query, b"resume; show version\0", &mut out);
    let refusal = Refusal {
        sqlstate: SqlState::NOT_IN_PREREQUISITE_STATE,
        message: "the gate is not paused".to_owned(),
        hint: None,
    };
    assert_eq!(session.reply(Reply::Refused(&refusal), &mut out), Heard::Answered);
    assert_eq!(tags(&out), [Backend::ErrorResponse, Backend::ReadyForQuery]);
    assert_eq!(error(&out).unwrap().1, "the gate is not paused");
}

#[test]
fn only_administrators_change_something() {
    let mut asks = session(Access::Show);
    for text in ["pause", "kill shop", "reload", "shutdown", "set a = 1", "kill_client 7"] {
        let (code, _) = error(&query(&mut asks, text, &empty())).unwrap();
        assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{text}");
    }
}

#[test]
fn what_if_is_asked_of_the_model_and_answered_in_rows() {
    let mut session = session(Access::Show);
    let mut out = Vec::new();
    let heard = session.hear(Frontend::Query, b"show whatif slots 20\0", &mut out);
    assert!(matches!(heard, Heard::Wants(Want::Estimates(asked)) if asked.slots == Some(20)));
    session.reply(Reply::Estimates(&filled().model), &mut out);
    let (columns, rows) = table(&out);
    let shape: Vec<_> = Table::Model.columns().iter().map(|c| (c.name, c.kind.oid())).collect();
    let found: Vec<_> = columns.iter().map(|(name, oid, ..)| (name.as_str(), *oid)).collect();
    assert_eq!(found, shape);
    assert_eq!(rows[0][3].as_deref(), Some("0.0185"));
}

#[test]
fn a_series_of_the_extended_protocol_is_answered_message_by_message() {
    let mut session = session(Access::Show);
    let series = [
        parse("s", "SHOW POOLS"),
        describe(b'S', "s"),
        bind("", "s", &[1]),
        describe(b'P', ""),
        (Frontend::Flush, vec![]),
        execute(""),
        sync(),
    ];
    let out = say(&mut session, &series);
    let head = [
        Backend::ParseComplete,
        Backend::ParameterDescription,
        Backend::RowDescription,
        Backend::BindComplete,
        Backend::RowDescription,
    ];
    let rows = [Backend::DataRow; 3];
    let end = [Backend::CommandComplete, Backend::ReadyForQuery];
    assert_eq!(tags(&out), [&head[..], &rows, &end].concat());
    // The first row: `shop` and `alice` in bytes, then an int4 of four bytes.
    let messages = messages::<Backend>(&out);
    let (_, row) = messages.iter().find(|(tag, _)| *tag == Backend::DataRow).unwrap();
    assert!(row.starts_with(b"\0\x11\0\0\0\x04shop\0\0\0\x05alice\0\0\0\x04\0\0\0\x05"), "{row:?}");
    // The statement stays, the portal is gone with its Sync.
    let again = say(&mut session, &[execute(""), sync()]);
    assert_eq!(error(&again).unwrap().0, SqlState::UNDEFINED_CURSOR);
    let closed =
        say(&mut session, &[(Frontend::Close, b"Ss\0".to_vec()), bind("", "s", &[]), sync()]);
    assert_eq!(error(&closed).unwrap().0, SqlState::UNDEFINED_STATEMENT);
    let wanted = [Backend::CloseComplete, Backend::ErrorResponse, Backend::ReadyForQuery];
    assert_eq!(tags(&closed), wanted);
}

#[test]
fn a_control_without_rows_says_so_and_is_done_once() {
    let mut session = session(Access::All);
    let series = [parse("", "RECONNECT"), describe(b'S', ""), bind("p", "", &[]), execute("p")];
    let out = say(&mut session, &series);
    let wanted = [
        Backend::ParseComplete,
        Backend::ParameterDescription,
        Backend::NoData,
        Backend::BindComplete,
        Backend::CommandComplete,
    ];
    assert_eq!(tags(&out), wanted);
    let twice = say(&mut session, &[execute("p"), sync()]);
    assert_eq!(error(&twice).unwrap().0, SqlState::NOT_IN_PREREQUISITE_STATE);
    let nothing = say(&mut session, &[parse("", ""), bind("", "", &[]), execute(""), sync()]);
    assert_eq!(tags(&nothing)[2], Backend::EmptyQueryResponse);
}

#[test]
fn an_error_skips_to_sync() {
    let mut session = session(Access::Show);
    let skipped = [parse("", "SHOW POOLS"), bind("", "", &[]), execute("")];
    let short = [0, 0, 0, 1, 0, 0, 0, 1, b'x', 0, 0];
    let two_formats = bind("", "v", &[0, 0]);
    for (wrong, code) in [
        (parse("", "shwo pools"), SqlState::SYNTAX_ERROR),
        (parse("", "show pools; show pools"), SqlState::SYNTAX_ERROR),
        (parse("v", "show version"), SqlState::DUPLICATE_STATEMENT),
        (bind("", "unknown", &[]), SqlState::UNDEFINED_STATEMENT),
        (two_formats, SqlState::PROTOCOL_VIOLATION),
        (bind("", "v", &[2]), SqlState::PROTOCOL_VIOLATION),
        ((Frontend::Bind, body(&["", "v"], &short)), SqlState::PROTOCOL_VIOLATION),
        ((Frontend::Bind, body(&["", "v"], &[])), SqlState::PROTOCOL_VIOLATION),
        (describe(b'P', "unknown"), SqlState::UNDEFINED_CURSOR),
        (describe(b'X', ""), SqlState::PROTOCOL_VIOLATION),
        ((Frontend::Parse, b"\0show \xff\0\0\0".to_vec()), SqlState::PROTOCOL_VIOLATION),
        ((Frontend::Execute, b"\0\0\0\0\0\0".to_vec()), SqlState::PROTOCOL_VIOLATION),
    ] {
        say(
            &mut session,
            &[(Frontend::Close, b"Sv\0".to_vec()), parse("v", "show version"), sync()],
        );
        let series = [&[wrong.clone()][..], &skipped, &[sync()]].concat();
        let out = say(&mut session, &series);
        assert_eq!(tags(&out), [Backend::ErrorResponse, Backend::ReadyForQuery], "{wrong:?}");
        assert_eq!(error(&out).unwrap().0, code, "{wrong:?}");
        assert_eq!(say(&mut session, &skipped).first(), Some(&b'1'), "{wrong:?}");
        say(&mut session, &[sync()]);
    }
}

#[test]
fn cursors_functions_and_other_messages_are_refused_or_passed_over() {
    let mut session = session(Access::Show);
    let limited = (Frontend::Execute, b"\0\0\0\0\x01".to_vec());
    let out = say(&mut session, &[parse("", "show pools"), bind("", "", &[]), limited, sync()]);
    assert_eq!(error(&out).unwrap().0, SqlState::FEATURE_NOT_SUPPORTED);
    let out = say(&mut session, &[(Frontend::FunctionCall, vec![])]);
    assert_eq!(tags(&out), [Backend::ErrorResponse, Backend::ReadyForQuery]);
    let copies = [Frontend::CopyData, Frontend::CopyDone, Frontend::CopyFail, Frontend::Flush];
    assert_eq!(say(&mut session, &copies.map(|tag| (tag, vec![]))), b"");
    let mut out = Vec::new();
    assert_eq!(session.hear(Frontend::Password, b"secret\0", &mut out), Heard::Ends);
    assert_eq!(error(&out).unwrap().0, SqlState::PROTOCOL_VIOLATION);
    assert_eq!(session.hear(Frontend::Terminate, b"", &mut Vec::new()), Heard::Ends);
}

#[test]
fn what_a_client_leaves_behind_is_bounded() {
    let mut session = session(Access::Show);
    let many: Vec<_> = (0..101).map(|n| parse(&format!("s{n}"), "show pools")).collect();
    let out = say(&mut session, &many);
    assert_eq!(tags(&out)[..100], [Backend::ParseComplete; 100]);
    assert_eq!(error(&out).unwrap().0, SqlState::PROGRAM_LIMIT_EXCEEDED);
    say(&mut session, &[sync()]);
    let many: Vec<_> = (0..101).map(|n| bind(&format!("p{n}"), "s0", &[])).collect();
    let out = say(&mut session, &many);
    assert_eq!(tags(&out)[..100], [Backend::BindComplete; 100]);
    assert_eq!(error(&out).unwrap().0, SqlState::PROGRAM_LIMIT_EXCEEDED);
}

#[test]
fn any_body_is_answered_and_the_session_is_ready_at_sync() {
    const HEARD: [Frontend; 7] = [
        Frontend::Parse,
        Frontend::Bind,
        Frontend::Describe,
        Frontend::Execute,
        Frontend::Close,
        Frontend::Query,
        Frontend::Flush,
    ];
    let mut session = session(Access::All);
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (state >> 33) as usize
    };
    for round in 0..5_000 {
        let tag = HEARD[next() % HEARD.len()];
        let pieces: [&[u8]; 7] =
            [b"\0", b"s\0", b"\0\0", b"\0\x01", b"show pools\0", b"S", b"\xff"];
        let body: Vec<u8> = (0..next() % 6).flat_map(|_| pieces[next() % 7].to_vec()).collect();
        say(&mut session, &[(tag, body.clone())]);
        let out = say(&mut session, &[sync()]);
        assert_eq!(tags(&out), [Backend::ReadyForQuery], "round {round}: {tag:?} {body:?}");
    }
}
