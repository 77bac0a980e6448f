//! Settings that follow clients from server to server, held against sessions of their own.

use pgsession::sql::tokens::{LexerMode, Strings};
use pgsession::sql::{EffectKind, Left, Lost, Settings, SettingsBounds, Side, effects};
use pgwire::message::Status;

use super::{Said, Session, error, server, status};
use pgtest::Chance;

/// A server with what is known of it.
struct Backend {
    session: Session,
    settings: Settings,
    left: Left,
}

impl Backend {
    fn new(base: &[(&str, &str)]) -> Backend {
        let (session, reported) = Session::new(base);
        let mut settings = begun(Side::Server, base);
        for (name, value) in reported {
            settings.reported(&name, &value);
        }
        Backend { session, settings, left: Left::default() }
    }
}

fn begun(side: Side, base: &[(&str, &str)]) -> Settings {
    let base = base.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Settings::new(side, SettingsBounds::default(), base)
}

/// Lets a client ask a text at the server that it has.
fn tell(client: &mut Settings, backend: &mut Backend, text: &[u8]) -> Vec<Said> {
    let found = effects(text, client.lexer_mode());
    backend.left.sent(&found);
    let said = backend.session.ask(text);
    let mut command = 0;
    for part in &said {
        match part {
            Said::Complete(tag) => {
                client.completed(found.of(command), tag);
                backend.settings.completed(found.of(command), tag);
                backend.left.completed(found.of(command), tag);
                command += 1;
            }
            Said::Error { .. } => {
                client.failed();
                backend.settings.failed();
                backend.left.failed();
            }
            Said::Reported(name, value) => {
                client.reported(name, value);
                backend.settings.reported(name, value);
            }
            Said::Ready(status) => {
                client.ready(*status);
                backend.settings.ready(*status);
                backend.left.ready(*status);
            }
            Said::Row(_) => {}
        }
    }
    said
}

/// Makes the server have the client's settings; whether it had to be told.
fn hand_over(client: &mut Settings, backend: &mut Backend) -> Option<String> {
    let text = Settings::difference(&backend.settings, client).unwrap();
    if let Some(text) = &text {
        let said = backend.session.ask(text);
        assert_eq!(error(&said), None, "{}: {said:?}", String::from_utf8_lossy(text));
        for part in &said {
            if let Said::Reported(name, value) = part {
                backend.settings.reported(name, value);
            }
        }
    }
    Settings::handed_over(&mut backend.settings, client);
    let again = Settings::difference(&backend.settings, client);
    assert_eq!(again, Ok(None), "it is told twice");
    text.map(|text| String::from_utf8(text).unwrap())
}

/// The settings that are compared.
const TRACKED: [&str; 14] = [
    "search_path",
    "DateStyle",
    "TimeZone",
    "IntervalStyle",
    "application_name",
    "standard_conforming_strings",
    "client_encoding",
    "work_mem",
    "statement_timeout",
    "log_min_messages",
    "extra_float_digits",
    "default_transaction_isolation",
    "temp_tablespaces",
    "role",
];

fn seen(session: &mut Session) -> Vec<String> {
    let names = TRACKED.map(|name| format!("current_setting('{name}')")).join(", ");
    // A custom setting that was reset is empty where a new session has none.
    let custom =
        ["my.a", "my.b"].map(|name| format!("coalesce(current_setting('{name}', true), '')"));
    let row = session.rows(&format!("select {names}, {}, current_user", custom.join(", ")));
    row[0].split('|').map(str::to_owned).collect()
}

const COMMANDS: [&str; 65] = [
    "set search_path to a, \"B c\", 'd,e'",
    "set search_path = 'select'",
    "set search_path to \"$user\", public",
    "set schema 'x'",
    "reset search_path",
    "select set_config('search_path', 'one, \"Two\"', false)",
    "select pg_catalog.set_config('search_path', '', false);",
    "select set_config('search_path', 'gone', true)",
    "set datestyle to german, ymd",
    "set DateStyle = 'SQL, DMY'",
    "reset datestyle",
    "set datestyle to iso, ymd",
    "set time zone 'Europe/Berlin'",
    "set time zone -7",
    "set time zone interval '-08:00' hour to minute",
    "set time zone local",
    "set timezone to default",
    "set intervalstyle to sql_standard",
    "reset intervalstyle",
    "set application_name to 'it''s \"x\"'",
    "set application_name = E'a\\\\b'",
    "reset application_name",
    "set standard_conforming_strings to off",
    "set standard_conforming_strings to on",
    "set names 'LATIN1'",
    "set names 'UTF8'",
    "set client_encoding to default",
    "set work_mem to 1234",
    "set session work_mem = '3MB'",
    "set local work_mem to 5678",
    "reset work_mem",
    "set work_mem = 010000",
    "set statement_timeout to '7s'",
    "set statement_timeout to default",
    "set log_min_messages to 'debug1'",
    "reset log_min_messages",
    "set extra_float_digits = -3",
    "set extra_float_digits = +2",
    "set my.a to 'x y'",
    "set My.\"B\" to 42",
    "reset my.a",
    "set my.b = E'back\\\\slash ''q'''",
    "set session characteristics as transaction isolation level repeatable read, read write",
    "set session characteristics as transaction isolation level serializable",
    "reset default_transaction_isolation",
    "set role one",
    "set role 'two'",
    "set local role one",
    "set role none",
    "reset role",
    "set session authorization default",
    "reset session authorization",
    "select set_config('session_authorization', null, false)",
    "reset all",
    "begin",
    "begin",
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "savepoint t",
    "rollback to s",
    "release s",
    "select 1/0",
    "prepare transaction 'x'",
];

#[test]
fn settings_are_the_clients_own_wherever_it_goes() {
    let (mut owner, _) = Session::new(&[]);
    for role in ["one", "two"] {
        let create = format!("create role {role}");
        let said = owner.ask(create.as_bytes());
        assert!(matches!(error(&said), None | Some("42710")), "{said:?}");
    }
    let mut chance = Chance::new(0x5e77);
    let bases: [&[(&str, &str)]; 3] = [
        &[],
        &[("DateStyle", "German"), ("application_name", "b")],
        &[("search_path", "c, \"D\"")],
    ];
    let mut backends: Vec<_> = (0..4).map(|_| Backend::new(&[])).collect();
    let mut clients: Vec<_> = bases
        .iter()
        .map(|base| (begun(Side::Client, base), Session::new(base).0, None::<usize>, Vec::new()))
        .collect();
    let (mut told, mut hops, mut lost) = (0, 0, 0);
    for _ in 0..1500 {
        let which = chance.below(clients.len());
        let taken: Vec<_> = clients.iter().filter_map(|client| client.2).collect();
        let free: Vec<_> = (0..backends.len()).filter(|at| !taken.contains(at)).collect();
        let place = clients[which].2.unwrap_or_else(|| free[chance.below(free.len())]);
        let (client, own, at, log) = &mut clients[which];
        let backend = &mut backends[place];
        if at.is_none() {
            hops += 1;
            let batch = hand_over(client, backend);
            told += usize::from(batch.is_some());
            let (found, expected) = (seen(&mut backend.session), seen(own));
            let last = &log[log.len().saturating_sub(12)..];
            assert_eq!(found, expected, "after {last:#?}, with {batch:?}");
        }
        let texts: Vec<_> =
            (0..=chance.below(3)).map(|_| COMMANDS[chance.below(COMMANDS.len())]).collect();
        let text = texts.join("; ");
        let text = if chance.below(40) == 0 { "discard all".to_owned() } else { text };
        log.push(text.clone());
        let (said, direct) = (tell(client, backend, text.as_bytes()), own.ask(text.as_bytes()));
        assert_eq!(error(&said), error(&direct), "{log:#?}");
        assert_eq!(status(&said), status(&direct), "{log:#?}");
        lost += usize::from(client.lost().is_some());
        *at = (status(&said) != Status::Idle).then_some(place);
    }
    println!("{hops} hops, {told} told");
    assert!(told > 100 && told < hops, "{told} of {hops}");
    assert_eq!(lost, 0);
}

#[test]
fn what_cannot_be_known_is_lost_and_nothing_else() {
    let lexer_mode = pgsession::sql::tokens::LexerMode::default();
    let after = |texts: &[&str]| {
        let mut client = begun(Side::Client, &[]);
        for text in texts {
            for (command, part) in text.split(';').enumerate() {
                let tag = part.trim().split(' ').next().unwrap().to_ascii_uppercase();
                client.completed(effects(text.as_bytes(), lexer_mode).of(command), tag.as_bytes());
            }
            client.ready(Status::Idle);
        }
        client.lost()
    };
    assert_eq!(after(&["set a.b to 1", "set role x", "begin;savepoint a;release a;commit"]), None);
    assert_eq!(after(&["select set_config('a.b', x, false) from t"]), Some(Lost::Unknown));
    assert_eq!(after(&["select set_config($1, 'x', false)"]), Some(Lost::Unknown));
    assert_eq!(after(&["select set_config($1, 'x', true)"]), None);
    assert_eq!(after(&["set session authorization x"]), Some(Lost::Authorization));
    assert_eq!(after(&["begin;release a"]), Some(Lost::Unknown));
    assert_eq!(after(&["set session authorization x", "discard all"]), None);
    let many = (0..300).map(|at| format!("set a.b{at} to 1")).collect::<Vec<_>>();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(after(&many), Some(Lost::Bounds));
    assert_eq!(after(&[&format!("set a.b to '{}'", "x".repeat(100_000))]), Some(Lost::Bounds));
    let savepoints = format!("begin;{}", "savepoint a;".repeat(1000));
    assert_eq!(after(&[savepoints.trim_end_matches(';')]), Some(Lost::Bounds));
}

#[test]
fn what_cannot_be_known_is_not_handed_over() {
    let (mut client, server) = (begun(Side::Client, &[]), begun(Side::Server, &[]));
    client.completed(&[EffectKind::SetUnknown], b"SELECT 1");
    assert_eq!(Settings::difference(&server, &client), Err(Lost::Unknown));
}

#[test]
fn values_in_two_encodings_are_refused() {
    let mut server = begun(Side::Server, &[]);
    server.reported(b"client_encoding", b"UTF8");
    let plain = begun(Side::Client, &[("client_encoding", "LATIN1"), ("search_path", "a")]);
    assert!(Settings::difference(&server, &plain).unwrap().is_some());
    let mixed = begun(Side::Client, &[("client_encoding", "LATIN1"), ("search_path", "\u{e4}")]);
    assert_eq!(Settings::difference(&server, &mixed), Err(Lost::Encoding));
    let same = begun(Side::Client, &[("client_encoding", "UTF8"), ("search_path", "\u{e4}")]);
    let batch = Settings::difference(&server, &same).unwrap().unwrap();
    let expected = "SELECT pg_catalog.set_config('search_path', '\u{e4}', false)";
    assert_eq!(batch, expected.as_bytes());
}

/// A client that began with `utf8` for what servers report as `UTF8` was never done.
#[test]
fn an_encoding_that_was_told_is_as_the_server_reports_it() {
    let base = [("client_encoding", "utf8"), ("my.name", "\u{e4}")];
    let (mut server, mut client) = (begun(Side::Server, &[]), begun(Side::Client, &base));
    server.reported(b"client_encoding", b"UTF8");
    assert_eq!(Settings::difference(&server, &client), Err(Lost::Encoding));
    assert_eq!(Settings::encoding_first(&client), b"SET \"client_encoding\" TO 'utf8'");
    assert_eq!(Settings::encoded(&server, &mut client), Ok(()));
    let batch = Settings::difference(&server, &client).unwrap().unwrap();
    assert_eq!(batch, "SET \"my\".\"name\" TO '\u{e4}'".as_bytes());
    // Of a server that never says which it has, nothing can be known.
    let (silent, mut client) = (begun(Side::Server, &[]), begun(Side::Client, &base));
    assert_eq!(Settings::encoded(&silent, &mut client), Err(Lost::Encoding));
}

#[test]
fn scopes_are_those_of_settings_that_change_what_a_text_means() {
    let with = |name: &str, value: &str| begun(Side::Client, &[(name, value)]).scope().unwrap();
    let none = begun(Side::Client, &[]).scope().unwrap();
    assert_eq!(none, with("statement_timeout", "1"));
    assert_ne!(none, with("Search_Path", "a"));
    assert_ne!(with("search_path", "a"), with("search_path", "b"));
    assert_ne!(with("role", "a"), with("search_path", "a"));
    assert_ne!(with("DateStyle", "German"), with("DateStyle", "ISO"));
}

/// What a transaction set for itself was in no scope, and what it prepared was everybody's.
#[test]
fn what_is_set_locally_is_in_the_scope_until_the_transaction_ends() {
    let mut client = begun(Side::Client, &[]);
    let none = client.scope();
    let does = |client: &mut Settings, text: &str, tag: &str| {
        client.completed(effects(text.as_bytes(), client.lexer_mode()).of(0), tag.as_bytes());
        client.scope()
    };
    let local = "set local search_path to a";
    let a = does(&mut client, local, "SET");
    assert!(a.is_some() && a != none);
    assert_eq!(does(&mut client, "savepoint s", "SAVEPOINT"), a);
    assert_ne!(does(&mut client, "set search_path to b", "SET"), a);
    assert_eq!(does(&mut client, local, "SET"), a);
    assert_eq!(does(&mut client, "release s", "RELEASE"), a);
    does(&mut client, "savepoint s", "SAVEPOINT");
    assert_eq!(does(&mut client, "select set_config('search_path', $1, true)", "SELECT 1"), None);
    assert_eq!(does(&mut client, "rollback to s", "ROLLBACK"), a);
    assert_eq!(does(&mut client, "select set_config($1, $2, true)", "SELECT 1"), None);
    assert_eq!(does(&mut client, "reset all", "RESET"), None);
    let b = does(&mut client, "rollback to s", "ROLLBACK");
    assert_eq!(b, a);
    // What was set for good stays.
    let kept = begun(Side::Client, &[("search_path", "b")]).scope();
    does(&mut client, "commit", "COMMIT");
    client.ready(Status::Idle);
    assert_eq!((client.lost(), client.scope()), (None, kept));
    does(&mut client, "set local standard_conforming_strings to off", "SET");
    assert_eq!(client.lexer_mode().strings, Strings::Backslash);
    does(&mut client, "rollback", "ROLLBACK");
    assert_eq!((client.lexer_mode(), client.scope()), (LexerMode::default(), kept));
    // Half of a DateStyle says nothing of the other half.
    let half = |base: &str| {
        let mut client = begun(Side::Client, &[("DateStyle", base)]);
        does(&mut client, "set local datestyle to dmy", "SET")
    };
    assert_ne!(half("German"), half("ISO"));
    // What nobody knows is nobody's to share.
    assert_eq!(does(&mut client, "select set_config(a, b, false)", "SELECT 1"), None);
}

/// pg_dump sets the search path to nothing by a function, and the next client found no table.
#[test]
fn the_search_path_of_a_dump_stays_with_its_client() {
    let mut backend = Backend::new(&[]);
    let (mut dump, mut other) = (begun(Side::Client, &[]), begun(Side::Client, &[]));
    let path = |backend: &mut Backend| backend.session.rows("show search_path").remove(0);
    hand_over(&mut dump, &mut backend);
    tell(&mut dump, &mut backend, b"SELECT pg_catalog.set_config('search_path', '', false);");
    assert_eq!(path(&mut backend), "");
    assert_eq!(hand_over(&mut other, &mut backend).as_deref(), Some("RESET \"search_path\""));
    assert_eq!(path(&mut backend), "\"$user\", public");
    let batch = hand_over(&mut dump, &mut backend);
    let expected = "SELECT pg_catalog.set_config('search_path', '', false)";
    assert_eq!(batch.as_deref(), Some(expected));
    assert_eq!(path(&mut backend), "");
}

/// A pooler compared `ISO` with the `ISO, MDY` that servers report, and set it in each transaction.
#[test]
fn a_setting_that_a_server_reports_in_other_words_is_set_once() {
    let mut backends = [Backend::new(&[]), Backend::new(&[])];
    let mut client = begun(Side::Client, &[("DateStyle", "ISO"), ("client_encoding", "utf-8")]);
    let mut told = Vec::new();
    for turn in 0..6 {
        let backend = &mut backends[turn % 2];
        told.extend(hand_over(&mut client, backend));
        tell(&mut client, backend, b"select 1");
    }
    assert!(told.len() <= 1, "{told:?}");
    // What one sets all in one batch, and the client's own view is what it gets.
    tell(&mut client, &mut backends[1], b"set datestyle to sql; set time zone 'UTC'");
    let batch = hand_over(&mut client, &mut backends[0]).unwrap();
    assert_eq!(batch, "SET \"datestyle\" TO 'SQL, MDY'; SET \"timezone\" TO 'UTC'");
    assert_eq!(backends[0].session.rows("show datestyle"), ["SQL, MDY"]);
    let _ = server();
}
