//! What clients leave in the sessions of servers: it goes with them, keeps the server for them, or is
//! refused, and nobody else meets it.

use std::net::TcpStream;
use std::time::Duration;

use monitor::Mode;
use pgsession::sql::tokens::LexerMode;
use pgsession::sql::{Choice, Choices, CodeChoice, Decision, Reason, SetChoice, decide, effects};
use pgwire::frame::{Backend, Frontend};
use pgwire::message::{read, write};
use pgwire::startup::Version;

use super::{Gate, Raw, database, password, server, shown, trusting};
use pgtest::Chance;
use pgtest::Proof;

fn gate(slots: u32, choices: Choices) -> Gate {
    let mut config = trusting(database(Mode::Transaction, slots));
    config.session_state = choices;
    Gate::new(config)
}

fn enter(gate: &Gate) -> Raw {
    Raw::enter(gate, Version::V3_0, &[])
}

/// Everything that can be refused is, but for one setting.
fn strict() -> Choices {
    Choices { tracked: vec![b"work_mem".to_vec()], ..Choices::strict() }
}

/// Settings are tracked, and what would pin is refused: any number of clients can share one slot.
fn without_pins() -> Choices {
    Choices {
        set: SetChoice::Track,
        role: SetChoice::Track,
        code: CodeChoice::Clean,
        ..Choices::strict()
    }
}

impl Raw {
    fn ask(&mut self, sql: &str) -> Vec<String> {
        self.query(sql);
        self.answer()
    }

    /// The same by the extended protocol.
    fn ask_extended(&mut self, sql: &str) -> Vec<String> {
        let mut out = Vec::new();
        extended(&mut out, sql);
        write::bare(&mut out, Frontend::Sync);
        self.say(&out);
        self.answer()
    }
}

/// Parse, Bind and Execute of the unnamed statement.
pub(super) fn extended(out: &mut Vec<u8>, sql: &str) {
    write::message(out, Frontend::Parse, |out| {
        out.push(0);
        out.extend_from_slice(sql.as_bytes());
        out.extend_from_slice(&[0; 3]);
    });
    write::message(out, Frontend::Bind, |out| out.extend_from_slice(&[0; 8]));
    write::message(out, Frontend::Execute, |out| out.extend_from_slice(&[0; 5]));
}

/// A session of its own at the server, without a gate.
pub(super) fn at_the_server(parameters: &[(&str, &str)]) -> Raw {
    let database = super::account(server().url().as_str()).get_dbname().unwrap().to_owned();
    at_the_database(&database, parameters)
}

/// The same of another database there.
pub(super) fn at_the_database(database: &str, parameters: &[(&str, &str)]) -> Raw {
    let stream = TcpStream::connect(("127.0.0.1", server().port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut raw = Raw { stream, process: 0, secret: Vec::new() };
    raw.start_at(database, Version::V3_0, parameters);
    let mut proof = Proof::of(&password());
    loop {
        match raw.hear() {
            (Backend::ReadyForQuery, _) => return raw,
            (Backend::Authentication, body) => raw.say(&proof.answer(&body)),
            (Backend::ErrorResponse, body) => panic!("{}", shown(&body)),
            _ => {}
        }
    }
}

#[test]
fn what_is_refused_fails_as_postgresql_fails() {
    let gate = gate(1, strict());
    let (mut one, mut other) = (enter(&gate), enter(&gate));
    let refused = |what: &str, verb: &str| {
        format!("ERROR 0A000 {what} {verb} not allowed in transaction mode")
    };
    for (text, error) in [
        ("listen a", refused("LISTEN", "is")),
        ("set statement_timeout to 77", refused("SET", "is")),
        ("set role pg_monitor", refused("SET ROLE", "is")),
        ("select pg_advisory_lock(1)", refused("advisory locks of the session", "are")),
        ("create temp table t (a int)", refused("temporary objects", "are")),
        ("prepare p as select 1", refused("PREPARE and EXECUTE in SQL", "are")),
        ("do $$ begin end $$", refused("DO and CALL", "are")),
    ] {
        assert_eq!(one.ask(text), [&*error, "ZI"]);
        assert_eq!(one.ask_extended(text), [&*error, "ZI"]);
        // A transaction fails with it.
        assert_eq!(one.ask("begin"), ["BEGIN", "ZT"]);
        assert_eq!(one.ask(text), [&*error, "ZE"]);
        assert!(one.ask("select 1")[0].starts_with("ERROR 25P02"));
        assert_eq!(one.ask("rollback"), ["ROLLBACK", "ZI"]);
        assert_eq!(one.ask("begin"), ["BEGIN", "ZT"]);
        assert_eq!(one.ask_extended(text), [&*error, "ZE"]);
        assert_eq!(one.ask("commit"), ["ROLLBACK", "ZI"]);
        assert_eq!(other.ask("select 1"), ["1", "SELECT 1", "ZI"]);
    }
    // The rest of a segment is skipped, and a text of several commands does nothing at all.
    let mut out = Vec::new();
    extended(&mut out, "select 'before'");
    extended(&mut out, "listen a");
    extended(&mut out, "select 'skipped'");
    write::bare(&mut out, Frontend::Sync);
    extended(&mut out, "select 'next'");
    write::bare(&mut out, Frontend::Sync);
    one.say(&out);
    let done = ["ParseComplete", "BindComplete", "before", "SELECT 1"];
    let listen = refused("LISTEN", "is");
    let told = [&done[..], &[&listen, "ZI"]].concat();
    assert_eq!(one.answer(), told);
    assert_eq!(one.answer(), ["ParseComplete", "BindComplete", "next", "SELECT 1", "ZI"]);
    assert_eq!(one.ask("create table not_made (a int); listen a"), [&*listen, "ZI"]);
    assert_eq!(one.ask("select to_regclass('not_made') is null")[0], "t");
    // What drivers set, and what was named, is tracked all the same.
    assert_eq!(one.ask("set application_name to 'x'; set work_mem to '77kB'").len(), 3);
    assert_eq!(other.ask("select current_setting('work_mem')")[0], "4MB");
    let both = "select current_setting('application_name') || current_setting('work_mem')";
    assert_eq!(one.ask(both)[0], "x77kB");
    // Where and why, and the way out.
    one.query("select 1; listen b");
    let (tag, body) = one.hear();
    let fields = read::fields(&body).unwrap();
    assert_eq!((tag, fields.field(b'P')), (Backend::ErrorResponse, Some(&b"11"[..])));
    assert!(fields.field(b'H').unwrap().ends_with(b"session mode."));
    assert_eq!(gate.stats().pins, []);
    gate.end();
}

/// What keeps a server, how that is seen, what ends it, and what the ledger calls it.
const KEEPS: [(&str, &str, &str, Reason); 12] = [
    ("listen a", "select pg_listening_channels()", "unlisten *", Reason::Listen),
    (
        "select pg_advisory_lock_shared(7)",
        "select objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
        "select pg_advisory_unlock_all()",
        Reason::AdvisoryLock,
    ),
    ("create temp table t (a int)", "select count(*) from t", "discard temp", Reason::Temporary),
    (
        "begin; set local search_path to nowhere, pg_temp; create table t (a int); commit",
        "select count(*) from t",
        "reset search_path; discard temp",
        Reason::Temporary,
    ),
    (
        "set search_path to pg_temp; discard temp; create table t (a int)",
        "select count(*) from t",
        "discard all",
        Reason::Temporary,
    ),
    ("set local.a to '9'", "show local.a", "discard all", Reason::Set),
    ("prepare p as select 5", "execute p", "deallocate all", Reason::Prepare),
    (
        "begin; declare c cursor with hold for select 6; commit",
        "select name from pg_cursors where name = 'c'",
        "close all",
        Reason::WithHold,
    ),
    ("set work_mem to '99kB'", "show work_mem", "reset all", Reason::Set),
    (
        "set session authorization pg_monitor",
        "select session_user",
        "discard all",
        Reason::Authorization,
    ),
    ("set my.a to 1", "show my.a", "discard all", Reason::Set),
    ("select set_config('my.a', '2', false), 3", "show my.a", "discard all", Reason::Set),
];

/// A client that kept its server could not be given the settings that it began with, and was ended for
/// that. Its pin never ended, and the next client was told what it had moved of sequences.
#[test]
fn who_keeps_a_server_that_refuses_its_settings_leaves_it_as_others_do() {
    let gate = gate(1, Choices::default());
    let mut other = enter(&gate);
    other.ask("create role short_lived");
    other.ask("create sequence moved; grant all on sequence moved to short_lived");
    let mut keeps = Raw::enter(&gate, Version::V3_0, &[("role", "short_lived")]);
    keeps.ask("listen a");
    let undefined = ["ERROR 55000 lastval is not yet defined in this session", "ZI"];
    assert_eq!(keeps.ask("select lastval()"), undefined, "what others have moved is forgotten");
    assert_eq!(keeps.ask("select nextval('moved')")[0], "1");
    super::runtime().block_on(async {
        let direct = super::directly().await;
        super::ask(&direct, "drop owned by short_lived; drop role short_lived").await.unwrap();
    });
    assert_eq!(keeps.ask("reset role"), ["RESET", "ZI"]);
    let refused = "FATAL 22023 the server refuses the settings of this session: role";
    assert_eq!(keeps.last_words(), refused);
    assert_eq!(other.ask("select lastval()"), undefined);
    assert_eq!(gate.stats().pools[0].counters.pins, 1);
    other.ask("drop sequence moved");
    drop(other);
    gate.end();
}

#[test]
fn who_keeps_a_server_is_in_the_ledger_until_nothing_keeps_it() {
    let gate = gate(2, Choices { set: SetChoice::Pin, ..Choices::default() });
    let mut keeps = Raw::enter(&gate, Version::V3_0, &[("application_name", "keeper")]);
    let mut other = enter(&gate);
    for (effects, sees, ends, reason) in KEEPS {
        keeps.ask(effects);
        let ledger = gate.stats().pins;
        let [pin] = &ledger[..] else { panic!("{effects}: {ledger:?}") };
        assert!(pin.reasons.has(reason), "{effects}: {pin:?}");
        assert_eq!((&*pin.user, &*pin.application_name), ("sekisho", "keeper"));
        assert_eq!(pin.client, keeps.process);
        for _ in 0..3 {
            assert_eq!(other.ask("select 1"), ["1", "SELECT 1", "ZI"]);
            let seen = keeps.ask(sees);
            assert!(seen.len() == 3 && !seen[0].starts_with("ERROR"), "{effects}: {seen:?}");
        }
        gate.until("it costs something", |stats| {
            stats.pins.iter().any(|pin| pin.idle > Duration::ZERO && pin.idle <= pin.held)
        });
        assert!(!keeps.ask(ends)[0].starts_with("ERROR"));
        assert_eq!((gate.stats().pins, gate.stats().pools[0].busy), (vec![], 0), "{ends}");
    }
    // What failed, or ended with its transaction, keeps nothing.
    for effects in [
        "listen a; select 1/0",
        "begin; listen a; rollback",
        "begin; create temp table t (a int) on commit drop; commit",
        "begin; create temp table t (a int); rollback",
        "prepare p as select no_such_column",
        "select pg_advisory_xact_lock(1)",
        "begin; set local work_mem to '99kB'; commit",
    ] {
        keeps.ask(effects);
        assert_eq!(gate.stats().pins, [], "{effects}");
    }
    // What is taken before an error stays.
    keeps.ask("select pg_advisory_lock_shared(8), 1/0");
    keeps.ask("select pg_advisory_lock_shared(8), 1/(random() * 0)::int");
    assert_eq!(gate.stats().pins.len(), 1);
    let counters = gate.stats().pools[0].counters;
    assert!(counters.pins == 12 && counters.pin_idle_time > Duration::ZERO, "{counters:?}");
    drop(keeps);
    gate.until("its slot is back", |stats| stats.pins.is_empty() && stats.pools[0].busy == 0);
    assert_eq!(
        other.ask("select count(*) from pg_locks where locktype = 'advisory' and objid = 8")[0],
        "0"
    );
    assert!(gate.stats().pools[0].counters.connects <= 2, "they were cleaned, not closed");
    gate.end();
}

#[test]
fn settings_go_with_their_client_and_with_what_a_transaction_makes_of_them() {
    let gate = gate(1, Choices::default());
    let parameters = [("options", "-c statement_timeout=7777 --work-mem=1MB -csearch_path=a,b")];
    let mut one = Raw::enter(&gate, Version::V3_0, &parameters);
    let mut next = enter(&gate);
    let sees = "select concat_ws('|', current_setting('work_mem'), current_user, \
                current_setting('statement_timeout'), current_setting('search_path'), \
                current_setting('datestyle'))";
    let begun = "1MB|sekisho|7777ms|a,b|ISO, MDY";
    let clean = "4MB|sekisho|0|\"$user\", public|ISO, MDY";
    let set = "123kB|sekisho|7777ms|a,b|ISO, MDY";
    for (text, then) in [
        ("set work_mem = '123kB'", set),
        ("begin; set work_mem = '124kB'; rollback", set),
        ("begin; set work_mem = '125kB'; select 1/0", set),
        ("set work_mem = '126kB'; select 1/0", set),
        ("begin; set local work_mem = '127kB'; commit", set),
        ("begin; savepoint s; set work_mem = '128kB'; rollback to s; commit", set),
        ("set role pg_monitor", "123kB|pg_monitor|7777ms|a,b|ISO, MDY"),
        ("reset role; reset work_mem", begun),
        ("select set_config('search_path', 'c', false)", "1MB|sekisho|7777ms|c|ISO, MDY"),
        ("set datestyle to german; reset search_path", "1MB|sekisho|7777ms|a,b|German, DMY"),
        ("discard all", begun),
        ("set statement_timeout to 0; reset all", begun),
    ] {
        one.ask(text);
        one.ask("rollback");
        assert_eq!(next.ask(sees)[0], clean, "{text}");
        assert_eq!(one.ask(sees)[0], then, "{text}");
        assert_eq!(one.ask_extended(sees)[2], then, "{text}");
        assert_eq!(gate.stats().pins, [], "{text}");
    }
    // In a pipeline each text is read and prepared under what those before it have set.
    let mut out = Vec::new();
    for text in [
        "begin",
        "set datestyle to sql, dmy",
        "select '02/01/2003'::date::text",
        "rollback",
        "select '02/01/2003'::date::text",
    ] {
        extended(&mut out, text);
        write::bare(&mut out, Frontend::Sync);
    }
    one.say(&out);
    let answers: Vec<_> = (0..5).map(|_| one.answer()).collect();
    assert_eq!((&*answers[2][2], &*answers[4][2]), ("02/01/2003", "2003-02-01"));
    let mut out = Vec::new();
    for text in ["set datestyle to sql, dmy", "select '03/01/2003'::date - '2003-01-01'::date"] {
        extended(&mut out, text);
    }
    write::bare(&mut out, Frontend::Sync);
    one.say(&out);
    assert_eq!(one.answer()[5], "2");
    assert_eq!(next.ask_extended("select '03/01/2003'::date - '2003-01-01'::date")[2], "59");
    // What code does is cleaned up behind it, also what its own text does not show.
    for code in [
        "do $$ begin set role pg_monitor; execute 'listen x'; set work_mem to '88kB'; end $$",
        "do $$ begin perform pg_advisory_lock(5); create temp table x (a int); end $$",
    ] {
        assert_eq!(one.ask(code)[0], "DO");
        assert_eq!(next.ask(sees)[0], clean, "{code}");
        let traces = "select (select count(*) from pg_listening_channels())
            + (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
            + (select count(*) from pg_class where relnamespace = pg_my_temp_schema())";
        assert_eq!(next.ask(traces)[0], "0", "{code}");
    }
    assert_eq!(gate.stats().pools[0].counters.connects, 1, "all on one server");
    gate.end();
}

#[test]
fn a_time_out_of_one_client_hurts_nobody_else() {
    let gate = gate(1, Choices::default());
    let (mut hasty, mut slow) = (enter(&gate), enter(&gate));
    for _ in 0..20 {
        hasty.ask("set statement_timeout to 1; select pg_sleep(0.01)");
        hasty.ask("set statement_timeout to 1");
        assert_eq!(slow.ask("select 'slow' from pg_sleep(0.005)")[0], "slow");
    }
    gate.end();
}

#[test]
fn a_client_with_another_encoding_gets_it_before_its_other_settings() {
    let gate = gate(1, Choices::default());
    let (mut latin, mut utf) = (enter(&gate), enter(&gate));
    latin.ask("set client_encoding to latin1");
    let mut out = Vec::new();
    write::query(&mut out, b"set my.name to 'M\xfcller'");
    latin.say(&out);
    latin.answer();
    for _ in 0..2 {
        utf.ask("set my.name to 'Zo\u{eb}'");
        assert_eq!(utf.ask("show my.name")[0], "Zo\u{eb}");
        assert_eq!(
            latin.ask("select encode(convert_to(current_setting('my.name'), 'LATIN1'), 'hex')")[0],
            "4dfc6c6c6572"
        );
    }
    gate.end();
}

/// Servers report `UTF8` for a client's `utf8`. What was not ASCII could so never be told, and the gate
/// told the encoding alone, again and again, with the slot held.
#[test]
fn an_encoding_in_other_words_than_the_servers_is_told_once() {
    for mode in [Mode::Transaction, Mode::Session] {
        for (encoding, name) in [("utf8", "Zo\u{eb}"), ("Unicode", "Zo\u{eb}"), ("latin1", "Zoe")] {
            let gate = Gate::new(trusting(database(mode, 1)));
            let base = [("client_encoding", encoding), ("application_name", name)];
            let mut direct = at_the_server(&base);
            let mut client = Raw::enter(&gate, Version::V3_0, &base);
            for text in [
                "show application_name",
                "show client_encoding",
                "set my.name to 'Zo\u{eb}'",
                "show my.name",
                "reset client_encoding",
                "show my.name",
                "show client_encoding",
            ] {
                if mode == Mode::Transaction {
                    // Whose settings are others, and whose server is the same.
                    assert_eq!(enter(&gate).ask("show application_name")[0], "");
                }
                assert_eq!(client.ask(text), direct.ask(text), "{mode} {encoding}: {text}");
            }
            drop(client);
            gate.end();
        }
    }
}

/// It begins by going back to the user of the connection, which kept the server for good.
#[test]
fn a_driver_that_resets_its_session_piece_by_piece_keeps_no_server() {
    const NPGSQL: &str = "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;\
                          SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP";
    let gate = gate(1, Choices { authorization: Choice::Refuse, ..Choices::default() });
    let base = [("options", "-c role=pg_monitor -c work_mem=99kB")];
    let (mut plain, mut other) = (enter(&gate), enter(&gate));
    let mut based = Raw::enter(&gate, Version::V3_0, &base);
    let mut direct = at_the_server(&base);
    let sees = "select concat_ws('|', current_user, session_user, current_setting('work_mem'))";
    for text in [NPGSQL, "begin; set local role pg_read_all_data; reset session authorization; end"]
    {
        let effects = "set role pg_read_all_stats; set work_mem to '88kB'; listen a; \
                      create temp table t (a int); select pg_advisory_lock_shared(3)";
        for client in [&mut plain, &mut based] {
            client.ask("set role pg_read_all_stats; set work_mem to '77kB'");
            assert!(!client.ask(text).iter().any(|said| said.starts_with("ERROR")));
            assert_eq!(gate.stats().pins, [], "{text}");
            client.ask(effects);
            assert_eq!(gate.stats().pins.len(), 1);
            client.ask(NPGSQL);
            assert_eq!((gate.stats().pins, gate.stats().pools[0].busy), (vec![], 0));
            assert_eq!(other.ask(sees)[0], "sekisho|sekisho|4MB");
        }
        direct.ask("set role pg_read_all_stats");
        direct.ask(text);
        assert_eq!(direct.ask("show role")[0], "pg_monitor");
        assert_eq!(plain.ask(sees)[0], "sekisho|sekisho|4MB");
        assert_eq!(based.ask(sees)[0], "pg_monitor|sekisho|99kB");
    }
    // Who has become another user in the session is so still.
    drop(gate);
    let gate = self::gate(2, Choices::default());
    let mut client = enter(&gate);
    client.ask("set session authorization pg_monitor");
    client.ask("reset session authorization");
    assert!(gate.stats().pins[0].reasons.has(Reason::Authorization));
    client.ask("discard all");
    assert_eq!(gate.stats().pins, []);
    drop(client);
    gate.end();
}

#[test]
fn what_is_ignored_of_a_start_is_no_setting_and_options_come_in_every_form() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.startup_ignored = vec!["Extra_Thing".to_owned(), "work_mem".to_owned()];
    let gate = Gate::new(config);
    let options = "-c work_mem=1MB -cmy.a=b\\ c --statement-timeout=71 -c lock_timeout=72";
    let mut client =
        Raw::enter(&gate, Version::V3_0, &[("options", options), ("extra_thing", "1")]);
    let sees = "select concat_ws('|', current_setting('work_mem'), current_setting('my.a'), \
                current_setting('statement_timeout'), current_setting('lock_timeout'))";
    assert_eq!(client.ask(sees)[0], "4MB|b c|71ms|72ms");
    gate.end();
    let mut config = trusting(database(Mode::Transaction, 1));
    config.startup_ignored = vec!["options".to_owned()];
    let gate = Gate::new(config);
    let mut client = Raw::enter(&gate, Version::V3_0, &[("options", "-S 1 nonsense")]);
    assert_eq!(client.ask("show work_mem")[0], "4MB");
    gate.end();
}

#[test]
fn a_client_is_told_the_settings_that_it_begins_with() {
    let gate = gate(1, Choices::default());
    let base = [("DateStyle", "German"), ("application_name", "told")];
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &base);
    let told = greeting(&mut raw);
    let has = |setting: &str| told.iter().any(|one| one == setting);
    assert!(has("application_name=told") && has("client_encoding=UTF8"), "{told:?}");
    assert!(has("DateStyle=German, DMY"), "{told:?}");
    assert_eq!(raw.ask("show datestyle")[0], "German, DMY");
    drop(raw);
    gate.end();
}

/// The settings that are told up to the first ReadyForQuery.
fn greeting(raw: &mut Raw) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        match raw.hear() {
            (Backend::ReadyForQuery, _) => return told,
            (Backend::ParameterStatus, body) => {
                let (name, value) = read::parameter_status(&body).unwrap();
                told.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()));
            }
            _ => {}
        }
    }
}

/// At login the gate told what the start-up packet said ("German", "utc"), and what servers make of it
/// with the first question; what a client reset was told as the server's own value ('' for its program);
/// and ISO with the order of days that another client had left: "ISO, DMY".
#[test]
fn what_a_session_begins_with_is_told_as_by_postgresql() {
    let gate = gate(1, Choices::default());
    let mut german = Raw::enter(&gate, Version::V3_0, &[("DateStyle", "German")]);
    let all: [&[(&str, &str)]; 13] = [
        &[("application_name", "B")],
        &[("DateStyle", "ISO")],
        &[("DateStyle", "German"), ("application_name", "B")],
        &[("DateStyle", "sql,european")],
        &[("options", "-c datestyle=sql -c timezone=asia/tokyo")],
        &[("TimeZone", "utc")],
        &[("TimeZone", "est5edt")],
        &[("client_encoding", "utf8")],
        &[("client_encoding", "latin1")],
        &[("client_encoding", "Windows-1252")],
        &[("IntervalStyle", "ISO_8601")],
        &[("standard_conforming_strings", "OFF")],
        &[("DateStyle", "Postgres"), ("TimeZone", "Europe/berlin"), ("client_encoding", "UTF-8")],
    ];
    for begins in all {
        german.ask("select 1");
        let mut gated = Raw::connect(&gate);
        gated.start(Version::V3_0, begins);
        let said = greeting(&mut gated);
        let mut direct = at_the_server(begins);
        for one in &said {
            let (name, value) = one.split_once('=').unwrap();
            if begins.iter().any(|(begun, _)| begun.eq_ignore_ascii_case(name)) {
                assert_eq!(direct.ask(&format!("show {name}"))[0], value, "{begins:?}");
            }
        }
        for text in changes_of(begins) {
            let (gated, direct) = (all_of(&mut gated, &text), all_of(&mut direct, &text));
            assert_eq!(gated, direct, "{begins:?}: {text}");
            german.ask("select 1");
        }
    }
    gate.end();
}

/// Texts that change these settings and go back to them.
fn changes_of(begins: &[(&str, &str)]) -> Vec<String> {
    let mut texts = vec!["select 1".to_owned(), "show datestyle".to_owned()];
    for (name, _) in begins {
        let (name, other) = match *name {
            "application_name" => ("application_name", "'Z'"),
            "TimeZone" => ("TimeZone", "'Asia/Tokyo'"),
            "client_encoding" => ("client_encoding", "'LATIN9'"),
            "IntervalStyle" => ("IntervalStyle", "'sql_standard'"),
            "standard_conforming_strings" => ("standard_conforming_strings", "on"),
            _ => ("DateStyle", "'SQL, YMD'"),
        };
        let resets = [
            format!("reset {name}"),
            format!("set {name} to default"),
            format!("begin; set {name} to default; commit"),
            "reset all".to_owned(),
            format!("begin; reset {name}; rollback"),
            "discard all".to_owned(),
        ];
        for reset in resets {
            texts.extend([format!("set {name} = {other}"), reset, format!("show {name}")]);
        }
        texts.push(format!("reset {name}"));
    }
    texts
}

/// All that is heard of a text.
fn all_of(raw: &mut Raw, text: &str) -> Vec<String> {
    raw.query(text);
    let mut heard = Vec::new();
    loop {
        let (tag, body) = raw.hear();
        heard.push(format!("{tag:?} {}", body.escape_ascii()));
        if tag == Backend::ReadyForQuery {
            return heard;
        }
    }
}

/// A client of the gate, and the same in a session of its own.
struct Twin {
    gated: Raw,
    direct: Raw,
    /// Whether a transaction is open.
    open: bool,
    log: Vec<String>,
}

/// What a session shows of what is left in it.
const SHOWN: &str = "select concat_ws('|', current_user, session_user,
    current_setting('search_path'), current_setting('work_mem'), current_setting('DateStyle'),
    current_setting('statement_timeout'), current_setting('application_name'),
    current_setting('TimeZone'), coalesce(current_setting('my.a', true), ''),
    current_setting('default_transaction_read_only'),
    (select string_agg(c, ',' order by c) from pg_listening_channels() c),
    (select string_agg(objid::text, ',' order by objid) from pg_locks
        where locktype = 'advisory' and pid = pg_backend_pid()),
    (select string_agg(relname, ',' order by relname) from pg_class
        where relnamespace = pg_my_temp_schema() and relkind = 'r'),
    (select string_agg(name, ',' order by name) from pg_prepared_statements
        where name not like 'sekisho.%' and from_sql),
    (select string_agg(name, ',' order by name) from pg_cursors where is_holdable))";

const TEXTS: [&str; 50] = [
    "begin",
    "begin",
    "begin",
    "commit",
    "commit",
    "rollback",
    "savepoint s",
    "rollback to s",
    "release s",
    "select 1/0",
    "select 1",
    "set work_mem to '1111kB'",
    "set work_mem to '2222kB'",
    "set local work_mem to '3333kB'",
    "reset work_mem",
    "set search_path to a, \"B c\"",
    "set search_path to public; select 1/0",
    "select set_config('search_path', 'x', false)",
    "select set_config('search_path', 'y', true)",
    "set role pg_monitor",
    "set role none",
    "reset role",
    "set local role pg_monitor",
    "set datestyle to german",
    "set application_name to 'it''s'",
    "set time zone 'Europe/Berlin'",
    "set statement_timeout to '50s'",
    "set my.a to 'b'",
    "reset my.a",
    "reset all",
    "discard all",
    "listen one",
    "unlisten *",
    "select pg_advisory_lock_shared(4)",
    "select pg_advisory_unlock_all()",
    "create temp table if not exists t (a int)",
    "discard temp",
    "create temp table u (a int) on commit drop",
    "prepare p as select 1",
    "deallocate all",
    "begin; declare c cursor with hold for select 1; commit",
    "close all",
    "set work_mem to '4444kB'; commit; select 1/0",
    "set work_mem to 'nothing'",
    "set datestyle to nonsense",
    "set work_mem to '6666kB'; set search_path to z; set datestyle to nonsense",
    "set role nobody_at_all",
    "select current_setting('work_mem') || current_setting('DateStyle') || current_user",
    "begin; set work_mem to '5555kB'; savepoint s",
    "set session characteristics as transaction read only; set default_transaction_read_only to off",
];

impl Twin {
    fn new(gate: &Gate, base: &[(&str, &str)]) -> Twin {
        let gated = Raw::enter(gate, Version::V3_0, base);
        Twin { gated, direct: at_the_server(base), open: false, log: Vec::new() }
    }

    /// Both say and hear the same.
    fn step(&mut self, chance: &mut Chance, choices: &Choices) {
        let mut texts = Vec::new();
        for _ in 0..=chance.below(3) {
            texts.push(TEXTS[chance.below(TEXTS.len())]);
        }
        let extended_protocol = chance.below(3) == 0;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for text in &texts {
            let refused = matches!(
                decide(&effects(text.as_bytes(), LexerMode::default()), choices),
                Decision::Refuse(_)
            );
            // What the gate refuses fails otherwise without it.
            let instead = if refused { "execute no_such_statement" } else { text };
            if extended_protocol && !text.contains(';') {
                for (out, text) in [(&mut here, *text), (&mut there, instead)] {
                    extended(out, text);
                    write::bare(out, Frontend::Sync);
                }
            } else {
                write::query(&mut here, text);
                write::query(&mut there, instead);
            }
            self.log.push(format!("{text}{}", if refused { " (refused)" } else { "" }));
        }
        self.gated.say(&here);
        self.direct.say(&there);
        for text in texts {
            let (gated, direct) = (self.gated.answer(), self.direct.answer());
            let refused = gated.iter().any(|said| said.starts_with("ERROR 0A000"));
            let same = |said: &[String]| {
                let kept = said.iter().filter(|one| !one.starts_with("ERROR") || !refused);
                kept.filter(|one| !one.ends_with("Complete") || !refused)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(same(&gated), same(&direct), "{text}\n{}", self.log.join("\n"));
            self.open = gated.last().unwrap() != "ZI";
        }
    }

    fn compare(&mut self) {
        if self.gated.ask("select 1").last().unwrap() == "ZE" {
            self.direct.ask("select 1");
            return;
        }
        self.direct.ask("select 1");
        let (gated, direct) = (self.gated.ask(SHOWN), self.direct.ask(SHOWN));
        assert_eq!(gated, direct, "\n{}", self.log.join("\n"));
        if !self.open {
            self.log.push(format!("-- {}", gated[0]));
        }
    }
}

/// Until its end a transaction saw the server's own values of what it had reset, and so did a session
/// that had its server for itself.
#[test]
fn what_is_reset_is_at_once_as_the_session_began() {
    let base = [("options", "-c work_mem=99kB -c my.a=begun"), ("DateStyle", "German")];
    let shown = "select concat_ws('|', current_setting('work_mem'), \
                 current_setting('my.a', true), current_setting('DateStyle'))";
    let sayings = [
        "begin",
        "reset work_mem",
        "set work_mem to '1MB'",
        "savepoint s",
        "set datestyle to iso",
        "reset all",
        "rollback to s",
        "reset all",
        "commit",
        "set my.a to 'other'",
        "reset my.a",
        "discard all",
        "begin; set work_mem to '2MB'",
        "set local work_mem to '3MB'",
        "reset work_mem",
        "rollback",
    ];
    for mode in [Mode::Transaction, Mode::Session] {
        for pipelined in [false, true] {
            let gate = Gate::new(trusting(database(mode, 1)));
            let mut gated = Raw::enter(&gate, Version::V3_0, &base);
            let mut direct = at_the_server(&base);
            for saying in sayings {
                let both = [&mut gated, &mut direct].map(|raw| {
                    if pipelined {
                        let mut out = Vec::new();
                        write::query(&mut out, saying);
                        write::query(&mut out, shown);
                        raw.say(&out);
                    } else {
                        raw.query(saying);
                    }
                    let first = raw.answer();
                    if !pipelined {
                        raw.query(shown);
                    }
                    [first, raw.answer()].concat()
                });
                assert_eq!(both[0], both[1], "{mode} {saying}");
            }
            drop(gated);
            gate.end();
        }
    }
}

/// The settings of a client have a round trip of their own before its text, and this is why: a server
/// that refuses one of them must not have heard the text yet.
#[test]
fn where_a_server_refuses_settings_nothing_is_run_under_others() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let [mut one, mut other] = [0; 2].map(|_| Raw::enter(&gate, Version::V3_0, &[]));
    let asks = |raw: &mut Raw, sql: &str| {
        raw.query(sql);
        raw.answer().swap_remove(0)
    };
    asks(&mut other, "create role of_a_moment; create sequence untouched");
    asks(&mut other, "grant all on sequence untouched to of_a_moment");
    assert_eq!(asks(&mut one, "set role of_a_moment"), "SET");
    assert_eq!(asks(&mut one, "select current_user"), "of_a_moment");
    assert_eq!(asks(&mut other, "select current_user"), "sekisho");
    assert_eq!(asks(&mut other, "drop owned by of_a_moment; drop role of_a_moment"), "DROP OWNED");
    let mut out = Vec::new();
    write::query(&mut out, "select nextval('untouched')");
    extended(&mut out, "select nextval('untouched')");
    write::bare(&mut out, Frontend::Sync);
    one.say(&out);
    let words = one.last_words();
    assert_eq!(words, "FATAL 22023 the server refuses the settings of this session: role");
    assert_eq!(asks(&mut other, "select is_called from untouched"), "f");
    drop(other);
    gate.end();
}

/// Random sequences of what changes sessions, from two clients by turns: each is as in a session of
/// its own.
fn by_turns(slots: u32, choices: &Choices, seed: u64, rounds: usize) {
    let mut chance = Chance::new(seed);
    let gate = gate(slots, choices.clone());
    let bases: [&[(&str, &str)]; 2] =
        [&[("options", "-c work_mem=99kB -c search_path=b"), ("TimeZone", "UTC")], &[]];
    let mut twins = bases.map(|base| Twin::new(&gate, base));
    let mut which = 0;
    for _ in 0..rounds {
        // With one slot nobody else moves while a transaction has it.
        if slots > 1 || !twins[which].open {
            which = chance.below(2);
        }
        twins[which].step(&mut chance, choices);
        if slots > 1 || !twins[which].open {
            twins.iter_mut().for_each(Twin::compare);
        } else {
            twins[which].compare();
        }
    }
    let counters = gate.stats().pools[0].counters;
    assert!(slots == 1 || counters.pins > 1, "{counters:?}");
    drop(twins);
    gate.until("all is given back", |stats| stats.pools[0].busy == 0);
    gate.end();
}

#[test]
fn two_clients_on_one_slot_are_as_on_servers_of_their_own() {
    by_turns(1, &without_pins(), 0x1ef7, 300);
}

#[test]
fn clients_that_keep_servers_are_as_on_servers_of_their_own() {
    by_turns(3, &Choices::default(), 0x0b3e, 300);
}

#[test]
fn over_many_servers_by_turns_nothing_stays_behind() {
    const SERVERS: u32 = 6;
    let gate = gate(SERVERS, Choices::default());
    let mut clients: Vec<_> = (0..SERVERS).map(|_| enter(&gate)).collect();
    clients.iter_mut().for_each(|client| drop(client.ask("begin")));
    clients.iter_mut().for_each(|client| drop(client.ask("commit")));
    for (at, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("set my.number to {at}"));
        client.ask(&format!("set work_mem to '{}kB'; set role pg_monitor", 100 + at));
    }
    let mut seen = std::collections::BTreeSet::new();
    for turn in 0..2 * SERVERS as usize {
        // So that nobody meets the same servers in each turn.
        clients[0].ask("select 1");
        for (at, client) in clients.iter_mut().enumerate() {
            let sql = "select concat_ws('|', current_setting('my.number'), \
                       current_setting('work_mem'), current_user)";
            assert_eq!(client.ask(sql)[0], format!("{at}|{}kB|pg_monitor", 100 + at), "{turn}");
            seen.insert(client.ask("select pg_backend_pid()")[0].clone());
            seen.insert(client.ask_extended("select pg_backend_pid()")[2].clone());
        }
    }
    assert_eq!(seen.len(), SERVERS as usize);
    gate.end();
}

/// What PostgreSQL sends for one question, as tags.
fn tags_of(raw: &mut Raw, asked: &[u8]) -> Vec<Backend> {
    raw.say(asked);
    let mut tags = Vec::new();
    loop {
        let (tag, _) = raw.hear();
        tags.push(tag);
        if tag == Backend::ReadyForQuery {
            return tags;
        }
    }
}

#[test]
fn nothing_of_the_gates_own_settings_reaches_a_client() {
    let gate = gate(1, Choices::default());
    let parameters = |name| [("application_name", name), ("TimeZone", "Asia/Tokyo")];
    let mut one = Raw::enter(&gate, Version::V3_0, &parameters("one"));
    let mut simple = Vec::new();
    write::query(&mut simple, "select 1");
    let mut pipeline = Vec::new();
    extended(&mut pipeline, "select 1");
    write::bare(&mut pipeline, Frontend::Sync);
    use Backend::*;
    let alike = |asked: &[u8]| match asked == simple {
        true => vec![RowDescription, DataRow, CommandComplete, ReadyForQuery],
        false => vec![ParseComplete, BindComplete, DataRow, CommandComplete, ReadyForQuery],
    };
    // Noise with other settings, with none, and with what is reset.
    let mut other = Raw::enter(&gate, Version::V3_0, &[("application_name", "other")]);
    let mut plain = enter(&gate);
    for _ in 0..3 {
        for asked in [&simple, &pipeline] {
            for raw in [&mut one, &mut other, &mut plain] {
                assert_eq!(tags_of(raw, asked), alike(asked));
            }
        }
        plain.ask("set DateStyle to 'German'");
        plain.ask("reset DateStyle");
    }
    assert_eq!(one.ask("show application_name"), ["one", "SHOW", "ZI"]);
    // What its own command brings about it is told, as by PostgreSQL, at the gate's hands or not.
    let told = |raw: &mut Raw, sql: &str| {
        let mut asked = Vec::new();
        write::query(&mut asked, sql);
        raw.say(&asked);
        let mut told = Vec::new();
        loop {
            match raw.hear() {
                (ParameterStatus, body) => {
                    let (name, value) = read::parameter_status(&body).unwrap();
                    told.push([name, value].map(|part| String::from_utf8_lossy(part).into_owned()));
                }
                (ReadyForQuery, _) => return told,
                _ => {}
            }
        }
    };
    assert_eq!(told(&mut one, "set application_name to two"), [["application_name", "two"]]);
    assert_eq!(told(&mut other, "select 1"), [[""; 2]; 0]);
    let mut last = told(&mut one, "reset application_name");
    last.extend(told(&mut one, "select 1"));
    assert_eq!(last.last().unwrap(), &["application_name", "one"], "{last:?}");
}
