//! How clients get in: passwords, versions, settings, and what is refused before that.

use std::io::Write;

use monitor::{Admission, Mode};
use pgwire::auth::{Credential, Method};
use pgwire::frame::Backend;
use pgwire::message::read;
use pgwire::secrets::{Hba, MockKey, Users};
use pgwire::startup::{Version, write_ssl_request};
use tokio_postgres::error::SqlState;

use super::{Gate, Raw, ask, code, config, database, directly, enter, runtime, trusting};

fn users(text: &str) -> Users {
    Users::parse(text, MockKey::new([7; 32])).unwrap()
}

#[test]
fn passwords_are_checked_by_every_method_and_wrong_ones_refused() {
    let database_of = |stored: &str, method| {
        let mut config = config(database(Mode::Transaction, 1));
        config.users = users(&format!("\"sekisho\" \"{stored}\""));
        config.admission = Admission::Everybody(method);
        Gate::new(config)
    };
    // The MD5 hash of "mine" with the user's name.
    let hash = "md5149a176725467d519d15fc26ce65f6ce";
    let runtime = runtime();
    let cases = [
        ("mine", Method::ScramSha256),
        ("mine", Method::Md5),
        ("mine", Method::Password),
        (hash, Method::ScramSha256),
        (hash, Method::Md5),
    ];
    for (stored, method) in cases {
        let gate = database_of(stored, method);
        runtime.block_on(async {
            let mut account = gate.account();
            account.password("mine");
            let client =
                enter(&account).await.unwrap_or_else(|e| panic!("{stored} {method:?}: {e}"));
            // The gate's own way in is that of the configuration, whatever the client's was.
            assert_eq!(ask(&client, "select current_user").await.unwrap(), "sekisho");
            account.password("other");
            assert_eq!(code(&enter(&account).await.err().unwrap()), "28P01");
            account.password("mine").user("nobody");
            assert_eq!(code(&enter(&account).await.err().unwrap()), "28P01");
        });
        assert_eq!(gate.stats().logins_failed, 2);
        gate.end();
    }
}

#[test]
fn a_stored_scram_secret_lets_the_client_through_with_its_own_keys() {
    let runtime = runtime();
    let secret = runtime.block_on(async {
        let server = directly().await;
        ask(&server, "create role passer login password 'through'").await.unwrap();
        ask(&server, "select rolpassword from pg_authid where rolname = 'passer'").await.unwrap()
    });
    let mut config = config(database(Mode::Transaction, 2));
    config.users = users(&format!("\"passer\" \"{secret}\""));
    let gate = Gate::new(config);
    runtime.block_on(async {
        let mut account = gate.account();
        account.user("passer").password("through");
        let clients = [enter(&account).await.unwrap(), enter(&account).await.unwrap()];
        for client in &clients {
            assert_eq!(ask(client, "begin; select current_user").await.unwrap(), "passer");
        }
        account.password("wrong");
        assert_eq!(code(&enter(&account).await.err().unwrap()), "28P01");
    });
    gate.end();
    runtime.block_on(async { ask(&directly().await, "drop role passer").await.unwrap() });
}

#[test]
fn what_the_server_says_against_a_login_reaches_the_client() {
    let mut database = database(Mode::Transaction, 1);
    database.login = Some((b"sekisho".to_vec(), Credential::Password(b"wrong".to_vec())));
    let gate = Gate::new(config(database));
    runtime().block_on(async {
        let error = enter(&gate.account()).await.err().unwrap();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD));
        let mut account = gate.account();
        account.dbname("no such database");
        assert_eq!(code(&enter(&account).await.err().unwrap()), "3D000");
    });
    gate.end();
}

#[test]
fn rules_decide_who_comes_in() {
    let mut config = config(database(Mode::Transaction, 1));
    let rules = "host all rejected all reject\nhost all sekisho 127.0.0.1/32 trust\n";
    config.admission = Admission::Rules(Hba::parse(rules).unwrap());
    let gate = Gate::new(config);
    let mut raw = Raw::enter(&gate, Version::V3_0, &[]);
    raw.query("select 1");
    assert_eq!(raw.answer(), ["1", "SELECT 1", "ZI"]);
    for (user, message) in [("rejected", "rejects connection"), ("other", "no pg_hba.conf entry")] {
        let mut raw = Raw::connect(&gate);
        raw.start(Version::V3_0, &[("user", user)]);
        let words = raw.last_words();
        assert!(words.starts_with("FATAL 28000") && words.contains(message), "{words}");
    }
    gate.end();
}

#[test]
fn versions_are_negotiated_and_encryption_declined() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut raw = Raw::connect(&gate);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    raw.say(&out);
    let mut answer = [0];
    std::io::Read::read_exact(&mut raw.stream, &mut answer).unwrap();
    assert_eq!(answer, *b"N");
    raw.say(&[0, 0, 0, 8, 4, 210, 22, 48]);
    std::io::Read::read_exact(&mut raw.stream, &mut answer).unwrap();
    assert_eq!(answer, *b"N", "GSSAPI encryption");
    raw.start(Version { major: 3, minor: 9999 }, &[("_pq_.grease", "1")]);
    let (tag, body) = raw.hear();
    assert_eq!(tag, Backend::NegotiateProtocolVersion);
    let negotiated = read::negotiate_protocol_version(&body).unwrap();
    assert_eq!(negotiated.version, Version::V3_2);
    assert_eq!(negotiated.unknown_options().collect::<Vec<_>>(), [b"_pq_.grease"]);
    while raw.hear().0 != Backend::ReadyForQuery {}
    raw.query("select 1");
    assert_eq!(raw.answer(), ["1", "SELECT 1", "ZI"]);
    gate.end();
}

#[test]
fn hostile_beginnings_end_there() {
    let gate = Gate::new(config(database(Mode::Transaction, 1)));
    // Bytes in clear behind a request for encryption.
    let mut raw = Raw::connect(&gate);
    let mut out = Vec::new();
    write_ssl_request(&mut out);
    out.extend_from_slice(b"injected");
    raw.say(&out);
    assert!(raw.last_words().starts_with("FATAL 08P01 received unencrypted data"));
    for begins in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 8, 0, 2, 0, 0], &[0xff; 64]] {
        let mut raw = Raw::connect(&gate);
        raw.say(begins);
        assert!(raw.last_words().starts_with("FATAL 0"));
    }
    // A message of a gigabyte in place of a password.
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[]);
    assert_eq!(raw.hear().0, Backend::Authentication);
    raw.say(b"p\x3f\xff\xff\xff");
    assert!(raw.last_words().starts_with("FATAL 08P01 invalid length"));
    // A packet in pieces is no different.
    let mut raw = Raw::connect(&gate);
    for byte in [0, 0, 0, 8] {
        raw.stream.write_all(&[byte]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    raw.say(&[4, 210, 22, 48]);
    let mut answer = [0];
    std::io::Read::read_exact(&mut raw.stream, &mut answer).unwrap();
    assert_eq!(answer, *b"N");
    gate.end();
}

#[test]
fn garbage_in_a_session_ends_it_alone() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut well = Raw::enter(&gate, Version::V3_0, &[]);
    for garbage in [&b"?\0\0\0\x04"[..], b"Q\0\0\0\x01", b"Q\x7f\xff\xff\xff", b"p\0\0\0\x05x"] {
        let mut raw = Raw::enter(&gate, Version::V3_0, &[]);
        raw.say(garbage);
        let words = raw.last_words();
        assert!(words.starts_with("FATAL 08P01"), "{garbage:?}: {words}");
        well.query("select 'well'");
        assert_eq!(well.answer(), ["well", "SELECT 1", "ZI"]);
    }
    gate.end();
}

#[test]
fn too_many_clients_are_told_so() {
    let mut config = trusting(database(Mode::Transaction, 1));
    config.limits.clients = 2;
    let gate = Gate::new(config);
    let inside = [Raw::enter(&gate, Version::V3_0, &[]), Raw::enter(&gate, Version::V3_0, &[])];
    let mut third = Raw::connect(&gate);
    third.start(Version::V3_0, &[]);
    assert_eq!(third.last_words(), "FATAL 53300 sorry, too many clients already");
    drop(inside);
    gate.until("there is room", |stats| stats.clients == 0);
    Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(gate.stats().clients_refused, 1);
    gate.end();
}

#[test]
fn each_client_has_its_own_settings_on_a_shared_server() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let of = |name: &str, options: &str| {
        let parameters = [("application_name", name), ("options", options), ("TimeZone", "UTC")];
        Raw::enter(&gate, Version::V3_0, &parameters)
    };
    let mut clients = [
        of("it's one", "-c statement_timeout=1234 -c search_path=a,b"),
        of("two", "--work-mem=3MB"),
        Raw::enter(&gate, Version::V3_0, &[]),
    ];
    let shown = "select concat_ws('|', current_setting('application_name'), \
                 current_setting('statement_timeout'), current_setting('search_path'), \
                 current_setting('work_mem'))";
    let expected =
        ["it's one|1234ms|a,b|4MB", "two|0|\"$user\", public|3MB", "|0|\"$user\", public|4MB"];
    for _ in 0..3 {
        for (client, expected) in clients.iter_mut().zip(expected) {
            client.query(shown);
            assert_eq!(client.answer()[0], expected);
        }
    }
    // What a client sets of these goes with it, and to nobody else.
    clients[0].query("set application_name = 'renamed'");
    clients[0].answer();
    clients[2].query(shown);
    assert_eq!(clients[2].answer()[0], expected[2]);
    clients[0].query(shown);
    assert_eq!(clients[0].answer()[0], "renamed|1234ms|a,b|4MB");
    assert_eq!(gate.stats().pools[0].counters.connects, 1, "all on one server");
    gate.end();
}

#[test]
fn a_setting_that_the_server_refuses_ends_the_session_by_name() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut raw = Raw::enter(&gate, Version::V3_0, &[("options", "-c no_such_setting=1")]);
    raw.query("select 1");
    let words = raw.last_words();
    assert!(words.starts_with("FATAL 42704") && words.ends_with("no_such_setting"), "{words}");
    let mut raw = Raw::connect(&gate);
    raw.start(Version::V3_0, &[("options", "-S 4096")]);
    assert!(raw.last_words().starts_with("FATAL 0A000 the switch -S"));
    let mut well = Raw::enter(&gate, Version::V3_0, &[]);
    well.query("select 'well'");
    assert_eq!(well.answer(), ["well", "SELECT 1", "ZI"]);
    gate.end();
}

#[test]
fn what_a_transaction_leaves_in_its_session_meets_nobody_else() {
    let gate = Gate::new(trusting(database(Mode::Transaction, 1)));
    let mut first = Raw::enter(&gate, Version::V3_0, &[("options", "-c statement_timeout=7777")]);
    let mut next = Raw::enter(&gate, Version::V3_0, &[]);
    let clean = "select concat_ws('|', current_setting('work_mem'), current_user, \
                 (select count(*) from pg_listening_channels()), \
                 (select count(*) from pg_cursors))";
    for effects in [
        "set work_mem = '123kB'",
        "set role pg_read_all_data",
        "do $$ begin execute 'listen channel'; end $$",
        "listen channel; unlisten *",
        "begin; declare c cursor with hold for select 1; commit; close all",
        "reset role",
    ] {
        first.query(effects);
        assert_eq!(first.answer().last().unwrap(), "ZI", "{effects}");
        next.query(clean);
        assert_eq!(next.answer()[0], "4MB|sekisho|0|0", "{effects}");
    }
    // Nor when its client goes before it has heard that it is done.
    let mut hasty = Raw::enter(&gate, Version::V3_0, &[]);
    hasty.query("select pg_sleep(0.1); set work_mem = '321kB'");
    drop(hasty);
    next.query(clean);
    assert_eq!(next.answer()[0], "4MB|sekisho|0|0");
    // What a client began with is its own, whatever it resets.
    for resets in ["reset all", "discard all", "set statement_timeout = 1111; reset all"] {
        first.query(resets);
        first.answer();
        next.query("select current_setting('statement_timeout')");
        assert_eq!(next.answer()[0], "0", "{resets}");
        first.query("select current_setting('statement_timeout')");
        assert_eq!(first.answer()[0], "7777ms", "{resets}");
    }
    assert_eq!(gate.stats().pools[0].counters.connects, 1, "all on one server");
    gate.end();
}
