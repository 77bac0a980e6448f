//! Another configuration while the monitor runs: nobody is dropped, nothing is half applied.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monitor::{Address, Config, Logged, Mode, Monitor, ReloadError, Tls};
use pgwire::frame::Frontend;
use pgwire::message::write;
use pgwire::secrets::{MockKey, Users};
use pgwire::startup::Version;

use super::{Gate, Raw, ask, code, config, database, enter, routing, runtime, server, trusting};

fn slots(slots: u32) -> Config {
    trusting(database(Mode::Transaction, slots))
}

#[test]
fn slots_grow_and_shrink_under_running_transactions() {
    let gate = Gate::new(slots(2));
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::enter(&gate, Version::V3_0, &[])).collect();
    for client in &mut clients[..2] {
        client.query("begin");
        assert_eq!(client.answer(), ["BEGIN", "ZT"]);
    }
    clients[2].query("begin");
    gate.until("it waits", |stats| stats.pools[0].waiting == 1);
    assert_eq!(gate.handle.reload(slots(3)).unwrap().restart, [""; 0]);
    assert_eq!(clients[2].answer(), ["BEGIN", "ZT"], "the new slot is its");
    gate.handle.reload(slots(1)).unwrap();
    assert_eq!((gate.stats().pools[0].slots, gate.stats().pools[0].busy), (1, 3));
    for client in &mut clients {
        client.query("select 'still in'; commit");
        assert_eq!(client.answer(), ["still in", "SELECT 1", "COMMIT", "ZI"]);
    }
    gate.until("as many connections as slots", |stats| stats.pools[0].servers == 1);
    for client in &mut clients {
        client.query("select 'served'");
        assert_eq!(client.answer(), ["served", "SELECT 1", "ZI"]);
    }
    gate.handle.reload(slots(4)).unwrap();
    gate.end();
}

#[test]
fn databases_and_users_come_go_and_change_and_nobody_is_dropped() {
    let first = gate_config("one", "old");
    let gate = Gate::new(first);
    let runtime = runtime();
    let account = |name: &str, password: &str| {
        let mut account = gate.account();
        account.dbname(name).password(password);
        account
    };
    runtime.block_on(async {
        let one = enter(&account("one", "old")).await.unwrap();
        assert_eq!(ask(&one, "select 1").await.unwrap(), "1");
        ask(&one, "begin").await.unwrap();
        assert_eq!(code(&enter(&account("two", "old")).await.unwrap_err()), "3D000");
        gate.handle.reload(gate_config("two", "new")).unwrap();
        assert_eq!(ask(&one, "select 2").await.unwrap(), "2", "its transaction goes on");
        ask(&one, "commit").await.unwrap();
        assert_eq!(ask(&one, "select 3").await.unwrap(), "3", "and its session");
        assert_eq!(code(&enter(&account("one", "new")).await.unwrap_err()), "3D000");
        assert_eq!(code(&enter(&account("two", "old")).await.unwrap_err()), "28P01");
        let two = enter(&account("two", "new")).await.unwrap();
        assert_eq!(ask(&two, "select 4").await.unwrap(), "4");
        // It comes back, at its place, with its pool.
        gate.handle.reload(gate_config("one", "new")).unwrap();
        let again = enter(&account("one", "new")).await.unwrap();
        assert_eq!(ask(&again, "select 5").await.unwrap(), "5");
        assert_eq!(ask(&two, "select 6").await.unwrap(), "6");
    });
    assert_eq!(gate.stats().pools.len(), 2);
    gate.end();
}

/// A gate with one database of this name, whose user has this password.
fn gate_config(name: &str, word: &str) -> Config {
    let mut database = database(Mode::Transaction, 2);
    database.target = Some(database.name.clone());
    database.name = name.into();
    let mut config = config(database);
    let users = format!("\"sekisho\" \"{word}\"\n");
    config.users = Users::parse(&users, MockKey::new([7; 32])).unwrap();
    config
}

#[test]
fn what_describes_no_monitor_leaves_all_as_it_was() {
    let gate = Gate::new(slots(2));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut broken = slots(5);
    let tls = Tls { cert: "/no/such/cert.pem".into(), key: "/no/such/key.pem".into() };
    broken.tls = Some(tls.into());
    let error = gate.handle.reload(broken).unwrap_err();
    assert!(matches!(error, ReloadError::Invalid(_)) && error.to_string().contains("cert.pem"));
    let mut none = slots(5);
    none.databases.clear();
    assert!(gate.handle.reload(none).unwrap_err().to_string().contains("no database"));
    assert_eq!(client_sees(&mut client), "1");
    assert_eq!(gate.stats().pools[0].slots, 2);
    // What cannot be changed is said, and the rest is taken.
    let mut other = slots(3);
    other.listen = vec!["127.0.0.1:1".parse().unwrap()];
    other.admin.http = Some("127.0.0.1:0".parse().unwrap());
    other.limits.backlog = 7;
    let told = gate.handle.reload(other).unwrap().restart;
    assert!(told.iter().any(|one| one.contains("backlog")), "{told:?}");
    assert!(told[0].starts_with("other addresses") && told[1].contains("metrics"), "{told:?}");
    assert_eq!(gate.stats().pools[0].slots, 3);
    gate.end();
}

fn client_sees(client: &mut Raw) -> String {
    client.query("select 1");
    client.answer()[0].clone()
}

#[test]
fn connections_to_a_server_that_has_moved_end_with_their_transactions() {
    let at = |path: bool| {
        let mut config = slots(2);
        if path {
            let socket: tokio_postgres::Config = server().socket_url().as_str().parse().unwrap();
            let tokio_postgres::config::Host::Unix(folder) = &socket.get_hosts()[0] else {
                panic!("it is a socket")
            };
            let path = folder.join(format!(".s.PGSQL.{}", server().port()));
            config.databases[0].servers = vec![Address::Unix(path)];
        }
        config
    };
    let gate = Gate::new(at(false));
    let [mut busy, mut other] = [0; 2].map(|_| Raw::enter(&gate, Version::V3_0, &[]));
    let local = "select inet_server_addr() is null";
    busy.query(&format!("begin; {local}"));
    assert_eq!(busy.answer()[1], "f");
    other.query(local);
    assert_eq!(other.answer()[0], "f");
    gate.handle.reload(at(true)).unwrap();
    other.query(local);
    assert_eq!(other.answer()[0], "t", "a new connection goes to the new address");
    busy.query(&format!("{local}; commit"));
    assert_eq!(busy.answer()[0], "f", "a transaction ends where it began");
    gate.until("the old connection has gone", |stats| {
        stats.pools[0].busy == 0 && stats.pools[0].servers == 1
    });
    for _ in 0..3 {
        busy.query(local);
        assert_eq!(busy.answer()[0], "t");
    }
    gate.end();
}

fn says(client: &mut Raw, sql: &str) -> String {
    client.query(sql);
    client.answer().swap_remove(0)
}

/// Clients heard what the first connection of all had been told, and had fresh ones set back to that:
/// what a reload said of the settings that connections begin with never counted.
#[test]
fn settings_that_connections_begin_with_count_for_those_who_come() {
    let with = |style: &str| {
        let mut config = slots(2);
        config.databases[0].settings = vec![("datestyle".into(), style.into())];
        config
    };
    let gate = Gate::new(with("SQL, DMY"));
    let style = "show datestyle";
    let [mut busy, mut idle] = [0; 2].map(|_| Raw::enter(&gate, Version::V3_0, &[]));
    assert_eq!(says(&mut idle, style), "SQL, DMY");
    assert_eq!(says(&mut busy, "begin"), "BEGIN");
    for other in ["German, DMY", "ISO, YMD"] {
        let told = gate.handle.reload(with(other)).unwrap();
        assert_eq!((told.restart, told.later), (vec![], vec![]));
        let mut new = Raw::enter(&gate, Version::V3_0, &[]);
        for _ in 0..2 {
            assert_eq!(says(&mut new, style), other);
            assert_eq!(says(&mut idle, style), "SQL, DMY", "what it was told");
        }
        // What the others have was shared with who begins as they did.
        let mut another = Raw::enter(&gate, Version::V3_0, &[]);
        assert_eq!(says(&mut another, style), other);
        assert_eq!(says(&mut busy, style), "SQL, DMY");
    }
    assert_eq!(says(&mut busy, "commit"), "COMMIT");
    drop((busy, idle));
    gate.end();
}

/// An old connection kept the session that it had begun with until it was an hour old.
#[test]
fn what_fresh_connections_are_asked_counts_at_once() {
    let with = |one: u8| {
        let mut config = slots(1);
        let query = format!("create temp table started as select {one} as one");
        config.databases[0].maintenance.connect_query = Some(query);
        config
    };
    let gate = Gate::new(with(1));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut client, "begin; select one from started"), "BEGIN");
    gate.handle.reload(with(2)).unwrap();
    client.query("select one from started; commit");
    assert_eq!(client.answer()[0], "1", "a transaction ends where it began");
    assert_eq!(says(&mut client, "select one from started"), "2");
    gate.handle.reload(with(3)).unwrap();
    assert_eq!(says(&mut client, "select one from started"), "3");
    drop(client);
    gate.end();
}

/// Who came heard of the server that there had been before.
#[test]
fn who_comes_hears_of_the_server_that_a_database_has_moved_to() {
    let elsewhere = routing::start();
    routing::directly(elsewhere.port(), "alter role sekisho set datestyle to 'German, DMY'");
    let gate = Gate::new(slots(1));
    let mut before = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut before, "show datestyle"), "ISO, MDY");
    let mut moved = slots(1);
    moved.databases[0].servers = vec![Address::Tcp(([127, 0, 0, 1], elsewhere.port()).into())];
    gate.handle.reload(moved).unwrap();
    let mut after = Raw::enter(&gate, Version::V3_0, &[]);
    assert_eq!(says(&mut after, "show datestyle"), "German, DMY");
    drop((before, after));
    gate.end();
}

/// A pool kept as many for good as it might when it began.
#[test]
fn another_number_of_prepared_statements_counts_for_pools_that_are_there() {
    let gate = Gate::new(slots(1));
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut prepare = |names: std::ops::Range<u8>| {
        for name in names {
            client.say(&prepared(name));
            assert_eq!(client.answer().last().unwrap(), "ZI");
        }
        says(&mut client, "select count(*) from pg_prepared_statements")
    };
    assert_eq!(prepare(0..5), "5");
    let mut fewer = slots(1);
    fewer.limits.statements = 2;
    gate.handle.reload(fewer).unwrap();
    assert_eq!(prepare(5..6), "2");
    drop(client);
    gate.end();
}

/// A statement of this name is prepared and executed.
fn prepared(name: u8) -> Vec<u8> {
    let mut out = Vec::new();
    write::message(&mut out, Frontend::Parse, |out| {
        out.extend_from_slice(format!("s{name}\0select {name}\0\0\0").as_bytes());
    });
    write::message(&mut out, Frontend::Bind, |out| {
        out.extend_from_slice(format!("\0s{name}\0\0\0\0\0\0\0").as_bytes());
    });
    write::message(&mut out, Frontend::Execute, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    write::bare(&mut out, Frontend::Sync);
    out
}

#[test]
fn the_console_waits_for_the_configuration_and_hears_what_is_wrong() {
    let next = Arc::new(Mutex::new(Err("gate.toml:3: `slots`: 0 slots let nobody in".to_owned())));
    let first = |slots_now: u32| {
        let mut config = slots(slots_now);
        config.admin.users = vec!["sekisho".to_owned()];
        config
    };
    let source = Arc::clone(&next);
    let monitor = Monitor::bind(first(2)).unwrap();
    let monitor = monitor.reload_from(move || {
        let next: Result<u32, String> = source.lock().unwrap().clone();
        let mut config = first(next?);
        config.listen = vec!["127.0.0.1:1".parse().unwrap()];
        Ok(config)
    });
    let monitor = monitor.unwrap();
    let handle = monitor.handle();
    let gate = Gate { handle, thread: Some(std::thread::spawn(|| monitor.run().unwrap())) };
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    console.query("RELOAD");
    let told = "ERROR F0000 gate.toml:3: `slots`: 0 slots let nobody in";
    assert_eq!(console.answer(), [told, "ZI"]);
    *next.lock().unwrap() = Ok(3);
    // Two at once: what the second one waits for is read after it has asked.
    let mut other = Raw::enter_at(&gate, "pgbouncer");
    for console in [&mut console, &mut other] {
        console.query("RELOAD");
    }
    for console in [&mut console, &mut other] {
        let answer = console.answer();
        assert!(answer[0].starts_with("NOTICE 00000 other addresses"), "{answer:?}");
        assert_eq!(answer[1..], ["RELOAD", "ZI"]);
    }
    assert_eq!(client_sees(&mut client), "1", "nobody is dropped");
    assert_eq!(gate.stats().pools[0].slots, 3);
    // Who gives it up hears so, or that it is done already.
    console.query("RELOAD");
    let (process, secret) = (console.process, console.secret.clone());
    let mut cancel = Raw::connect(&gate);
    let mut out = Vec::new();
    pgwire::startup::write_cancel(&mut out, process, &secret).unwrap();
    cancel.say(&out);
    let answer = console.answer();
    assert!(answer[0].contains("57014") || answer[1] == "RELOAD", "{answer:?}");
    console.query("SHOW VERSION");
    assert!(console.answer()[0].starts_with("PgBouncer 1.25.0 console of Sekisho "));
    gate.end();
    // One that was not started from a file says so.
    let gate = Gate::new(first(1));
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    console.query("RELOAD");
    assert!(console.answer()[0].starts_with("ERROR 0A000"));
    gate.end();
}

/// What was written, for a test to read.
#[derive(Clone, Default)]
pub(super) struct Paper(pub(super) Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_log_says_who_came_and_went_and_why_and_no_secret() {
    let paper = Paper::default();
    let mut config = config(database(Mode::Transaction, 1));
    config.logged = Logged {
        connections: true,
        disconnections: true,
        errors: true,
        stats: Some(Duration::from_millis(1)),
    };
    let monitor = Monitor::bind(config).unwrap().log_to(paper.clone()).unwrap();
    let handle = monitor.handle();
    let gate = Gate { handle, thread: Some(std::thread::spawn(|| monitor.run().unwrap())) };
    runtime().block_on(async {
        let client = gate.connect().await;
        ask(&client, "select 1").await.unwrap();
        let mut wrong = gate.account();
        wrong.password("sesame sesame");
        enter(&wrong).await.unwrap_err();
    });
    gate.until("they have gone", |stats| stats.clients == 0);
    // Two looks at the clock of figures.
    std::thread::sleep(Duration::from_millis(2500));
    gate.end();
    let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    let has =
        |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["event=login", " user=sekisho ", "from=127.0.0.1:", "tls=no"]), "{written}");
    assert!(has(&["event=end", " user=sekisho ", "reason=left", "seconds="]), "{written}");
    assert!(has(&["event=error", "sqlstate=28P01", "message=\"password"]), "{written}");
    assert!(has(&["event=stats", "clients=", "transactions=", "waited="]), "{written}");
    let secret = String::from_utf8(super::password()).unwrap();
    assert!(!written.contains("sesame") && !written.contains(&secret), "{written}");
}
