//! What poolers got wrong around the protocol, through the running monitor: clients that go, cancels,
//! roles and settings of others, beginnings, passwords, servers that go. `trap_N` is the trap of this
//! number; those of the protocol itself are the witness's.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use monitor::{Address, Mode};
use pgsession::sql::SequenceChoice;
use pgwire::frame::Backend;
use pgwire::message::{read, write};
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::{Version, write_cancel, write_ssl_request};

use super::passage::Passage;
use super::{Gate, Raw, ask, code, config, database, directly, enter, runtime, server, trusting};
use pgtest::script::{bind, execute, parse, runs};

fn one_slot() -> Gate {
    Gate::new(trusting(database(Mode::Transaction, 1)))
}

fn told(client: &mut Raw, sql: &str) -> Vec<String> {
    client.query(sql);
    client.answer()
}

fn value(client: &mut Raw, sql: &str) -> String {
    told(client, sql).swap_remove(0)
}

#[test]
fn a_series_without_its_end_holds_no_server() {
    let gate = one_slot();
    let mut next = Raw::enter(&gate, Version::V3_0, &[]);
    let segment = [
        parse("", "select pg_sleep(0)", &[]),
        runs("", "select 1"),
        [runs("", "begin"), runs("", "create table of_trap_9 (n int)")].concat(),
        [parse("s", "select 1", &[]), bind("", "s", &[]), execute("")].concat(),
    ];
    for (at, segment) in segment.iter().enumerate() {
        for cut in [segment.len(), segment.len() - 3] {
            let mut client = Raw::enter(&gate, Version::V3_0, &[]);
            client.say(&segment[..cut]);
            drop(client);
            assert_eq!(told(&mut next, "select 'served'"), ["served", "SELECT 1", "ZI"], "{at}");
        }
    }
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and \
                query like '%of_trap_9%' and pid <> pg_backend_pid()";
    assert_eq!(value(&mut next, open), "0");
    assert_eq!(value(&mut next, "select to_regclass('of_trap_9') is null"), "t");
    drop(next);
    gate.end();
}

#[test]
fn a_cancel_that_is_late_finds_nobody_else() {
    // The request is on its way for longer than the query lasts that it was meant for.
    cancels_find_nobody_else(&Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port()))));
}

/// That its connection was reset counted as the end that a server gives it: the request came later, and
/// hit whoever had the server by then.
#[test]
fn a_cancel_that_is_late_finds_nobody_else_though_its_connection_was_reset() {
    let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
    passage.resets_cancels();
    cancels_find_nobody_else(&passage);
}

fn cancels_find_nobody_else(passage: &Passage) {
    passage.is_late_with_cancels(Duration::from_millis(400));
    let mut database = database(Mode::Transaction, 1);
    database.servers = vec![Address::Tcp(passage.address())];
    let gate = Gate::new(trusting(database));
    for version in [Version::V3_0, Version::V3_2] {
        let mut mine = Raw::enter(&gate, version, &[]);
        let mut other = Raw::enter(&gate, version, &[]);
        let before = gate.stats().cancels;
        mine.query("select 'mine', pg_sleep(0.2)");
        let mut request = Vec::new();
        write_cancel(&mut request, mine.process, &mine.secret).unwrap();
        let began = Instant::now();
        while gate.stats().cancels == before {
            assert!(began.elapsed() < Duration::from_secs(20), "no cancel request came in time");
            let mut cancels = Raw::connect(&gate);
            cancels.say(&request);
            std::thread::sleep(Duration::from_millis(20));
            if gate.stats().cancels == before && gate.stats().pools[0].busy == 0 {
                // It was over before anybody asked for its end.
                mine.answer();
                mine.query("select 'mine', pg_sleep(0.2)");
            }
        }
        // The next one has the server only when the request has come to its end.
        other.query("select 'other', pg_sleep(0.6)");
        assert_eq!(mine.answer(), ["mine", "SELECT 1", "ZI"]);
        assert_eq!(other.answer(), ["other", "SELECT 1", "ZI"]);
    }
    gate.end();
}

#[test]
fn a_cancel_that_is_late_spares_what_its_own_client_asks_next() {
    // PostgreSQL signals a process and then its group: a client that did not wait for the end of its
    // request lost its next query as well.
    let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
    passage.is_late_with_cancels(Duration::from_millis(400));
    for mode in [Mode::Session, Mode::Transaction] {
        let mut database = database(mode, 1);
        database.servers = vec![Address::Tcp(passage.address())];
        let gate = Gate::new(trusting(database));
        let mut mine = Raw::enter(&gate, Version::V3_2, &[]);
        let mut request = Vec::new();
        write_cancel(&mut request, mine.process, &mine.secret).unwrap();
        let began = Instant::now();
        while gate.stats().cancels == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "no cancel request came in time");
            mine.query("begin; select 'first', pg_sleep(0.2)");
            std::thread::sleep(Duration::from_millis(50));
            Raw::connect(&gate).say(&request);
            assert_eq!(mine.answer(), ["BEGIN", "first", "SELECT 1", "ZT"]);
            // Neither in the same transaction nor behind it.
            mine.query("select 'second', pg_sleep(0.4); commit");
            assert_eq!(mine.answer(), ["second", "SELECT 1", "COMMIT", "ZI"]);
            mine.query("select 'third', pg_sleep(0.2)");
            assert_eq!(mine.answer(), ["third", "SELECT 1", "ZI"]);
        }
        drop(mine);
        gate.end();
    }
}

#[test]
fn a_role_stays_with_its_client_whatever_is_reset() {
    let gate = one_slot();
    let mut one = Raw::enter(&gate, Version::V3_0, &[]);
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    let whose = "select current_user";
    assert_eq!(told(&mut one, "set role pg_read_all_data"), ["SET", "ZI"]);
    assert_eq!(value(&mut other, whose), "sekisho");
    assert_eq!(value(&mut one, whose), "pg_read_all_data");
    assert_eq!(told(&mut one, "reset all"), ["RESET", "ZI"]);
    assert_eq!(value(&mut one, whose), "pg_read_all_data", "RESET ALL leaves it");
    assert_eq!(value(&mut other, whose), "sekisho");
    drop(one);
    // Its client keeps the server that has this, and takes it with it.
    let mut third = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(told(&mut third, "set session authorization pg_monitor"), ["SET", "ZI"]);
    assert_eq!(value(&mut third, "select session_user"), "pg_monitor");
    drop(third);
    assert_eq!(value(&mut other, "select session_user || ' ' || current_user"), "sekisho sekisho");
    drop(other);
    gate.end();
}

#[test]
fn a_search_path_that_a_dump_empties_is_empty_for_nobody_else() {
    let gate = one_slot();
    let mut dump = Raw::enter(&gate, Version::V3_0, &[]);
    let mut other = Raw::enter(&gate, Version::V3_0, &[]);
    let usual = value(&mut other, "show search_path");
    let path = "select pg_catalog.current_setting('search_path')";
    for empties in
        ["select pg_catalog.set_config('search_path', '', false)", "set search_path = ''"]
    {
        assert_eq!(told(&mut dump, empties).last().unwrap(), "ZI");
        assert!(matches!(&*value(&mut dump, path), "" | "\"\""));
        assert_eq!(value(&mut other, path), usual);
        assert_eq!(told(&mut dump, "begin").last().unwrap(), "ZT");
        assert!(matches!(&*value(&mut dump, path), "" | "\"\""));
        assert_eq!(told(&mut dump, "commit").last().unwrap(), "ZI");
        assert_eq!(told(&mut dump, "reset search_path").last().unwrap(), "ZI");
        assert_eq!(value(&mut dump, path), usual);
    }
    drop((dump, other));
    gate.end();
}

#[test]
fn a_setting_is_sent_when_the_server_has_another_and_not_else() {
    let passage = Passage::to(SocketAddr::from(([127, 0, 0, 1], server().port())));
    let mut database = database(Mode::Transaction, 1);
    database.servers = vec![Address::Tcp(passage.address())];
    let mut config = trusting(database);
    config.session_state.sequences = SequenceChoice::Trust;
    let gate = Gate::new(config);
    let german = [("DateStyle", "German, DMY"), ("TimeZone", "Asia/Tokyo")];
    let mut one = Raw::enter(&gate, Version::V3_0, &german);
    let mut other = Raw::enter(&gate, Version::V3_0, &[("DateStyle", "ISO, MDY")]);
    let date = "select date '2026-11-22'";
    for _ in 0..3 {
        assert_eq!(value(&mut one, date), "22.11.2026");
        passage.said();
        for _ in 0..5 {
            assert_eq!(value(&mut one, date), "22.11.2026");
        }
        let mut alone = Vec::new();
        (0..5).for_each(|_| write::query(&mut alone, date));
        assert_eq!(passage.said().escape_ascii().to_string(), alone.escape_ascii().to_string());
        assert_eq!(value(&mut other, date), "2026-11-22");
        let both = String::from_utf8_lossy(&passage.said()).to_lowercase();
        assert!(both.contains("datestyle") && both.contains("timezone"), "{both:?}");
    }
    // A change is told to its client, and to nobody else.
    one.query("set timezone = 'UTC'");
    let mut reported = None;
    loop {
        match one.hear() {
            (Backend::ParameterStatus, body) => {
                let (name, value) = read::parameter_status(&body).unwrap();
                reported = Some((name.to_vec(), value.to_vec()));
            }
            (Backend::ReadyForQuery, _) => break,
            _ => {}
        }
    }
    assert_eq!(reported, Some((b"TimeZone".to_vec(), b"UTC".to_vec())));
    drop((one, other));
    gate.end();
}

#[test]
fn a_beginning_may_come_in_every_form_and_in_pieces() {
    let gate = one_slot();
    let options = "-c work_mem=123kB --statement-timeout=77s -cenable_seqscan=off";
    let long = format!("{options} {}-c extra_float_digits=2", " ".repeat(6000));
    let parameters = [("options", &*long), ("extra_float_digits", "3"), ("application_name", "é")];
    let mut asks = Raw::connect(&gate);
    // Encryption is asked for, in both ways, and declined.
    let mut encryption = Vec::new();
    write_ssl_request(&mut encryption);
    let by_gssapi = [0, 0, 0, 8, 4, 210, 22, 48];
    for request in [&encryption[..], &by_gssapi] {
        asks.say(request);
        let mut answer = [0];
        asks.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    let mut out = Vec::new();
    let name = super::account(server().url().as_str()).get_dbname().unwrap().to_owned();
    let all = [("user", "sekisho"), ("database", &*name)].into_iter().chain(parameters);
    let all = all.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    pgwire::startup::write_startup(&mut out, Version::V3_0, all).unwrap();
    for piece in out.chunks(97) {
        asks.say(piece);
        std::thread::sleep(Duration::from_micros(300));
    }
    while asks.hear().0 != Backend::ReadyForQuery {}
    let mut shows = |name: &str| value(&mut asks, &format!("show {name}"));
    assert_eq!(shows("work_mem"), "123kB");
    assert_eq!(shows("statement_timeout"), "77s");
    assert_eq!(shows("enable_seqscan"), "off");
    assert_eq!(shows("extra_float_digits"), "3", "what stands by itself goes before options");
    // As PostgreSQL keeps what is no ASCII, before its release 16 and since.
    assert!(matches!(&*shows("application_name"), "??" | "\\xc3\\xa9"));
    drop(asks);
    // What nobody knows is refused by its name.
    let mut asks = Raw::connect(&gate);
    asks.start(Version::V3_0, &[("no_such_setting", "1")]);
    loop {
        match asks.hear() {
            (Backend::ErrorResponse, body) => {
                let words = super::shown(&body);
                assert!(words.contains("42704") && words.contains("no_such_setting"), "{words}");
                break;
            }
            (Backend::ReadyForQuery, _) => asks.query("select 1"),
            _ => {}
        }
    }
    drop(asks);
    gate.end();
}

#[test]
fn the_keys_of_clients_do_not_replace_those_of_a_forced_user() {
    let runtime = runtime();
    let secret = runtime.block_on(async {
        let server = directly().await;
        ask(&server, "create role of_trap_15 login password 'its own'").await.unwrap();
        let text = "select rolpassword from pg_authid where rolname = 'of_trap_15'";
        let secret = ask(&server, text).await.unwrap();
        ask(&server, "drop role of_trap_15").await.unwrap();
        secret
    });
    let mut database = database(Mode::Transaction, 2);
    database.forced = Some(b"sekisho".to_vec());
    let mut config = config(database);
    let users = format!("\"of_trap_15\" \"{secret}\"\n");
    config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    let gate = Gate::new(config);
    runtime.block_on(async {
        let mut account = gate.account();
        account.user("of_trap_15").password("its own");
        for _ in 0..3 {
            let clients = [enter(&account).await.unwrap(), enter(&account).await.unwrap()];
            for client in &clients {
                let process = ask(client, "begin; select pg_backend_pid()").await.unwrap();
                assert_eq!(ask(client, "select current_user").await.unwrap(), "sekisho");
                ask(client, "commit").await.unwrap();
                // The next login of the gate's comes after another proof of a client's.
                let ends = format!("select pg_terminate_backend({process}, 5000)");
                assert_eq!(ask(&directly().await, &ends).await.unwrap(), "t");
            }
            gate.until("both are gone", |stats| stats.pools[0].servers == 0);
        }
        account.password("another's");
        assert_eq!(code(&enter(&account).await.err().unwrap()), "28P01");
    });
    gate.end();
}

#[test]
fn a_server_that_goes_between_two_transactions_is_not_noticed() {
    let gate = one_slot();
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    for turn in 0..10 {
        // It ends by itself while it is idle, whether or not that was seen yet.
        let process = value(&mut client, "select pg_backend_pid()");
        runtime().block_on(async {
            let ends = format!("select pg_terminate_backend({process}, 5000)");
            assert_eq!(ask(&directly().await, &ends).await.unwrap(), "t");
        });
        if turn % 2 == 0 {
            gate.until("the loss is seen", |stats| stats.pools[0].servers == 0);
        }
        assert_eq!(told(&mut client, "select 'well'"), ["well", "SELECT 1", "ZI"]);
    }
    drop(client);
    gate.end();
}

#[test]
fn lengths_are_looked_at_before_anybody_is_let_in_and_errors_are_whole() {
    let gate = Gate::new(config(database(Mode::Transaction, 1)));
    let lengths = [0, 1, 3, 7, 10_001, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff_u32];
    for length in lengths {
        // In place of the first packet, and of a password.
        for head in [&b""[..], b"p"] {
            let mut raw = Raw::connect(&gate);
            if !head.is_empty() {
                raw.start(Version::V3_0, &[]);
                assert_eq!(raw.hear().0, Backend::Authentication);
            }
            let bytes = [head, &length.to_be_bytes(), &[0; 8]].concat();
            // It may have been closed before all was said.
            let _ = std::io::Write::write_all(&mut raw.stream, &bytes);
            let mut heard = Vec::new();
            // With bytes that nobody has read, the end is a reset.
            let _ = raw.stream.read_to_end(&mut heard);
            if heard.is_empty() {
                assert!(head.is_empty(), "{length}: closed without a word");
                continue;
            }
            assert_eq!(heard[0], b'E', "{length}: {}", heard.escape_ascii());
            let fields = read::fields(&heard[5..]).unwrap();
            for kind in *b"SVCM" {
                assert!(fields.field(kind).is_some_and(|text| !text.is_empty()), "{length}");
            }
            assert_eq!(fields.field(b'C').unwrap().len(), 5);
        }
    }
    gate.end();
}
