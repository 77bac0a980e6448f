//! Operating a monitor that runs: the console by real drivers and by raw bytes, and what changes when
//! an administrator says so.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use monitor::{Config, Mode};
use pgconsole::Table;
use pgwire::frame::Backend;
use pgwire::message::{read, write};
use pgwire::startup::{Version, write_startup};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Gate, Raw, ask, code, config, database, directly, enter, runtime, shown, trusting};

/// A configuration whose only user may do everything, and `watcher` look.
fn operated(mut config: Config) -> Config {
    config.admin.users = vec!["sekisho".to_owned()];
    config.admin.stats_users = vec!["watcher".to_owned()];
    config
}

fn gate(mode: Mode, slots: u32) -> Gate {
    Gate::new(operated(config(database(mode, slots))))
}

pub(super) async fn console(gate: &Gate) -> Client {
    enter(gate.account().dbname("pgbouncer")).await.unwrap()
}

pub(super) type Row = HashMap<String, String>;

/// The rows of a command, by the names of their columns; NULL is left out.
pub(super) async fn rows(client: &Client, command: &str) -> Vec<Row> {
    let answer = client.simple_query(command).await.unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        let named = row.columns().iter().enumerate();
        let named = named
            .filter_map(|(at, column)| Some((column.name().to_owned(), row.get(at)?.to_owned())));
        named.collect()
    })
    .collect()
}

/// Looks again and again until what is shown is as it should be.
pub(super) async fn until(
    client: &Client,
    command: &str,
    holds: impl Fn(&[Row]) -> bool,
) -> Vec<Row> {
    let began = Instant::now();
    loop {
        let rows = rows(client, command).await;
        if holds(&rows) {
            return rows;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{command}: {rows:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn refused(client: &Client, command: &str) -> (String, String) {
    let error = client.simple_query(command).await.unwrap_err();
    (code(&error), error.as_db_error().unwrap().message().to_owned())
}

#[test]
fn every_table_is_shown_and_says_what_is_there() {
    let gate = gate(Mode::Transaction, 2);
    runtime().block_on(async {
        let one = enter(gate.account().application_name("till")).await.unwrap();
        let statement = one.prepare("SELECT 1").await.unwrap();
        one.query(&statement, &[]).await.unwrap();
        one.batch_execute("BEGIN").await.unwrap();
        let console = console(&gate).await;
        for table in Table::ALL {
            rows(&console, &format!("SHOW {}", table.name())).await;
        }
        let pools = rows(&console, "SHOW POOLS").await;
        assert_eq!((&*pools[0]["cl_active"], &*pools[0]["sv_active"]), ("1", "1"));
        assert_eq!(pools[0]["pool_mode"], "transaction");
        let clients = rows(&console, "SHOW CLIENTS").await;
        let servers = rows(&console, "SHOW SERVERS").await;
        assert_eq!((clients.len(), servers.len()), (2, 1), "{clients:?}");
        assert_eq!((&*clients[0]["application_name"], &*clients[0]["state"]), ("till", "active"));
        assert_eq!(
            (&clients[0]["link"], &servers[0]["link"]),
            (&servers[0]["ptr"], &clients[0]["ptr"])
        );
        assert_eq!(clients[0]["local_port"], gate.address().port().to_string());
        assert_eq!(clients[1]["database"], "pgbouncer");
        let direct = directly().await;
        let pid = &servers[0]["remote_pid"];
        let known = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        assert_eq!(ask(&direct, &known).await.unwrap(), "1");
        let stats = rows(&console, "SHOW STATS_TOTALS").await;
        assert_eq!((&*stats[0]["client_parse_count"], &*stats[0]["bind_count"]), ("1", "1"));
        assert_eq!(stats[0]["server_parse_count"], "1");
        let assigned: u64 = stats[0]["server_assignment_count"].parse().unwrap();
        assert!(assigned > stats[0]["xact_count"].parse().unwrap(), "one is open: {stats:?}");
        let users = rows(&console, "SHOW USERS").await;
        assert_eq!((&*users[0]["name"], &*users[0]["current_connections"]), ("sekisho", "1"));
        let databases = rows(&console, "SHOW DATABASES").await;
        assert_eq!((&*databases[0]["pool_size"], &*databases[0]["paused"]), ("2", "0"));
        // A driver without the simple protocol may ask, too.
        let typed = console.query("SHOW LISTS", &[]).await.unwrap();
        let used: i32 =
            typed.iter().find(|row| row.get::<_, &str>(0) == "used_clients").unwrap().get(1);
        assert_eq!(used, 2);
        one.batch_execute("COMMIT").await.unwrap();
    });
    let finished = gate.end();
    assert_eq!(finished.stats.pools.len(), 1, "the console has no pool");
}

#[test]
fn only_administrators_get_in_and_those_who_may_look_change_nothing() {
    let mut config = operated(trusting(database(Mode::Transaction, 1)));
    config.admin.users = vec!["boss".to_owned()];
    let gate = Gate::new(config);
    runtime().block_on(async {
        let as_user = |user: &str| {
            let mut account = gate.account();
            account.user(user).dbname("pgbouncer");
            account
        };
        let error = enter(&as_user("nobody")).await.unwrap_err();
        assert_eq!(code(&error), "42501");
        let watcher = enter(&as_user("watcher")).await.unwrap();
        assert!(!rows(&watcher, "SHOW CONFIG").await.is_empty());
        assert_eq!(refused(&watcher, "PAUSE").await.0, "42501");
        let boss = enter(&as_user("boss")).await.unwrap();
        assert_eq!(refused(&boss, "PAUSE elsewhere").await.0, "3D000");
        assert_eq!(refused(&boss, "KILL pgbouncer").await.0, "0A000");
        assert_eq!(refused(&boss, "SHOW POOL").await.0, "42601");
        assert_eq!(refused(&boss, "SHOW WHATIF slots 3").await.0, "55000");
    });
    gate.end();
}

#[test]
fn who_may_operate_proves_who_it_is_as_every_client_does() {
    let gate = gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let mut wrong = gate.account();
        wrong.dbname("pgbouncer").password("guessed");
        for _ in 0..200 {
            assert_eq!(code(&enter(&wrong).await.unwrap_err()), "28P01");
        }
        let console = console(&gate).await;
        assert_eq!(rows(&console, "SHOW LISTS").await.len(), 14);
    });
    let finished = gate.end();
    assert_eq!(finished.stats.logins_failed, 200);
}

#[test]
fn without_administrators_there_is_no_console() {
    let gate = Gate::of(Mode::Transaction, 1);
    runtime().block_on(async {
        let error = enter(gate.account().dbname("pgbouncer")).await.unwrap_err();
        assert_eq!(code(&error), "42501");
    });
    gate.end();
}

#[test]
fn the_console_is_there_when_the_gate_is_full() {
    let mut config = operated(config(database(Mode::Transaction, 1)));
    config.limits.clients = 1;
    let gate = Gate::new(config);
    runtime().block_on(async {
        let _one = gate.connect().await;
        assert_eq!(code(&enter(&gate.account()).await.unwrap_err()), "53300");
        let console = console(&gate).await;
        assert_eq!(rows(&console, "SHOW CLIENTS").await.len(), 2);
    });
    gate.end();
}

#[test]
fn a_pause_is_done_when_no_server_is_in_use_and_jobs_wait_until_it_ends() {
    let gate = gate(Mode::Transaction, 2);
    let name = database(Mode::Transaction, 1).name;
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        let (console, other) = (console(&gate).await, console(&gate).await);
        let pause = tokio::spawn(async move {
            console.simple_query("PAUSE").await.unwrap();
            console
        });
        until(&other, "SHOW DATABASES", |rows| rows[0]["paused"] == "1").await;
        assert!(!pause.is_finished(), "a transaction goes on");
        assert_eq!(refused(&other, "PAUSE").await.0, "55000");
        assert_eq!(refused(&other, &format!("RESUME {name}")).await.0, "55000");
        // Whoever is in its transaction ends it; whoever begins one waits, newcomers too.
        let two = gate.connect().await;
        let waits = tokio::spawn(async move { ask(&two, "SELECT 2").await.unwrap() });
        until(&other, "SHOW QUEUE", |rows| rows.len() == 1).await;
        assert_eq!(ask(&one, "SELECT 1").await.unwrap(), "1");
        one.batch_execute("COMMIT").await.unwrap();
        let console = pause.await.unwrap();
        assert!(rows(&console, "SHOW SERVERS").await.is_empty());
        let state = rows(&console, "SHOW STATE").await;
        assert_eq!((&*state[0]["value"], &*state[1]["value"]), ("no", "yes"));
        assert!(!waits.is_finished());
        other.simple_query("RESUME").await.unwrap();
        assert_eq!(waits.await.unwrap(), "2");
        assert_eq!(refused(&other, "RESUME").await.0, "55000");
    });
    gate.end();
}

#[test]
fn a_pause_of_one_database_is_of_all_its_pools_and_a_cancel_undoes_it() {
    let gate = gate(Mode::Session, 2);
    let name = database(Mode::Session, 1).name;
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("SELECT 1").await.unwrap();
        let (waits, other) = (console(&gate).await, console(&gate).await);
        let token = waits.cancel_token();
        let command = format!("PAUSE {name}");
        let pause = tokio::spawn(async move { waits.simple_query(&command).await.unwrap_err() });
        until(&other, "SHOW DATABASES", |rows| rows[0]["paused"] == "1").await;
        // The session keeps its server, so this never ends by itself.
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        assert_eq!(code(&pause.await.unwrap()), "57014");
        assert_eq!(rows(&other, "SHOW DATABASES").await[0]["paused"], "0");
        assert_eq!(ask(&one, "SELECT 3").await.unwrap(), "3");
    });
    gate.end();
}

#[test]
fn connections_are_replaced_as_they_become_free_and_one_may_wait_for_it() {
    let gate = gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let one = gate.connect().await;
        let console = console(&gate).await;
        let pid = "SELECT pg_backend_pid()";
        let before = ask(&one, pid).await.unwrap();
        console.simple_query("WAIT_CLOSE").await.unwrap();
        console.simple_query("RECONNECT").await.unwrap();
        let after = ask(&one, pid).await.unwrap();
        assert_ne!(before, after, "the idle connection was closed at once");
        one.batch_execute("BEGIN").await.unwrap();
        console.simple_query("RECONNECT").await.unwrap();
        assert_eq!(rows(&console, "SHOW SERVERS").await[0]["close_needed"], "1");
        let wait = tokio::spawn(async move { console.simple_query("WAIT_CLOSE").await.map(drop) });
        assert_eq!(ask(&one, pid).await.unwrap(), after, "a transaction keeps its connection");
        assert!(!wait.is_finished());
        one.batch_execute("COMMIT").await.unwrap();
        wait.await.unwrap().unwrap();
        assert_ne!(ask(&one, pid).await.unwrap(), after);
    });
    gate.end();
}

#[test]
fn a_killed_database_has_nobody_left_and_newcomers_wait() {
    let gate = gate(Mode::Transaction, 2);
    let name = database(Mode::Transaction, 1).name;
    runtime().block_on(async {
        let (one, two) = (gate.connect().await, gate.connect().await);
        one.batch_execute("BEGIN").await.unwrap();
        let console = console(&gate).await;
        console.simple_query(&format!("KILL {name}")).await.unwrap();
        assert_eq!(rows(&console, "SHOW CLIENTS").await.len(), 1, "the console itself");
        assert!(rows(&console, "SHOW SERVERS").await.is_empty());
        for client in [&one, &two] {
            assert!(client.simple_query("SELECT 1").await.is_err());
        }
        let account = gate.account();
        let comes = tokio::spawn(async move {
            let client = enter(&account).await.unwrap();
            ask(&client, "SELECT 4").await.unwrap()
        });
        until(&console, "SHOW QUEUE", |rows| rows.len() == 1).await;
        console.simple_query(&format!("RESUME {name}")).await.unwrap();
        assert_eq!(comes.await.unwrap(), "4");
    });
    gate.end();
}

#[test]
fn one_client_is_killed_and_no_other() {
    let gate = gate(Mode::Transaction, 2);
    runtime().block_on(async {
        let one = enter(gate.account().application_name("one")).await.unwrap();
        let two = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        let (console, other) = (console(&gate).await, console(&gate).await);
        let clients = rows(&console, "SHOW CLIENTS").await;
        let of = |name: &str| {
            let found = clients.iter().find(|row| row["application_name"] == name).unwrap();
            format!("KILL_CLIENT {}", found["id"])
        };
        console.simple_query(&of("one")).await.unwrap();
        assert!(one.simple_query("SELECT 1").await.is_err());
        assert_eq!(ask(&two, "SELECT 5").await.unwrap(), "5");
        assert_eq!(refused(&console, &of("one")).await.0, "22023");
        // Administrators are clients, too.
        let mine = rows(&console, "SHOW CLIENTS").await;
        let consoles: Vec<_> = mine.iter().filter(|row| row["database"] == "pgbouncer").collect();
        assert_eq!(consoles.len(), 2);
        // The other one first: nobody kills behind its own end.
        for row in consoles.iter().rev() {
            let _ = console.simple_query(&format!("KILL_CLIENT {}", row["id"])).await;
        }
        assert!(console.simple_query("SHOW STATE").await.is_err());
        assert!(other.simple_query("SHOW STATE").await.is_err());
    });
    gate.end();
}

#[test]
fn a_disabled_database_lets_nobody_in_and_keeps_whom_it_has() {
    let gate = gate(Mode::Transaction, 1);
    let name = database(Mode::Transaction, 1).name;
    runtime().block_on(async {
        let one = gate.connect().await;
        let console = console(&gate).await;
        console.simple_query(&format!("DISABLE \"{name}\"")).await.unwrap();
        assert_eq!(rows(&console, "SHOW DATABASES").await[0]["disabled"], "1");
        assert_eq!(code(&enter(&gate.account()).await.unwrap_err()), "55000");
        assert_eq!(ask(&one, "SELECT 6").await.unwrap(), "6");
        console.simple_query(&format!("ENABLE {name}")).await.unwrap();
        gate.connect().await;
    });
    gate.end();
}

#[test]
fn what_is_set_is_in_force() {
    let gate = gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        let console = console(&gate).await;
        console
            .simple_query("SET query_wait_timeout = '50ms'; SET max_client_conn = 2")
            .await
            .unwrap();
        let config = rows(&console, "SHOW CONFIG").await;
        let wait = config.iter().find(|row| row["key"] == "query_wait_timeout").unwrap();
        assert_eq!((&*wait["value"], &*wait["changeable"]), ("0.05", "yes"));
        let two = gate.connect().await;
        assert_eq!(code(&two.simple_query("SELECT 1").await.unwrap_err()), "53300");
        assert!(!two.is_closed(), "its session goes on");
        drop(two);
        until(&console, "SHOW CLIENTS", |rows| rows.len() == 2).await;
        let _three = gate.connect().await;
        assert_eq!(code(&enter(&gate.account()).await.unwrap_err()), "53300");
        assert_eq!(refused(&console, "SET pool_mode = session").await.0, "55000");
        assert_eq!(refused(&console, "SET server_lifetime = 0").await.0, "22023");
        console
            .simple_query("SET server_idle_timeout = 0; SET cancel_wait_timeout = 7")
            .await
            .unwrap();
        console.simple_query("SET query_timeout = '20ms'").await.unwrap();
        let config = rows(&console, "SHOW CONFIG").await;
        let value = |key: &str| &*config.iter().find(|row| row["key"] == key).unwrap()["value"];
        assert_eq!((value("server_idle_timeout"), value("cancel_wait_timeout")), ("0", "7"));
        let late = one.simple_query("SELECT pg_sleep(20)").await.unwrap_err();
        assert!(late.is_closed() || late.as_db_error().is_some(), "{late}");
        console.simple_query("SET query_timeout = 0").await.unwrap();
    });
    gate.end();
}

/// A file may have PgBouncer's keys that change nothing here; SET of them was an error, with which scripts
/// for PgBouncer ended.
#[test]
fn set_of_a_key_without_effect_is_taken_with_a_notice() {
    let gate = Gate::new(operated(trusting(database(Mode::Transaction, 1))));
    let mut console = Raw::enter_at(&gate, "pgbouncer");
    for key in ["verbose", "server_reset_query", "dns_max_ttl", "pidfile"] {
        console.query(&format!("SET {key} = '7'"));
        let heard = console.answer();
        let [notice, done, ready] = &heard[..] else { panic!("{key}: {heard:?}") };
        let words =
            format!("NOTICE 00000 \"{key}\" changes nothing in this gate: docs/pgbouncer.md");
        assert!(notice.starts_with(&words), "{notice}");
        assert_eq!((&**done, &**ready), (&*format!("SET {key}=7"), "ZI"));
    }
    // One that nobody knows is none of them.
    console.query("SET verbos = '7'");
    assert!(console.answer()[0].starts_with("ERROR 22023 "));
    gate.end();
}

#[test]
fn the_order_of_the_queue_is_that_of_service() {
    let gate = gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        let console = console(&gate).await;
        let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
        for at in 1..=5 {
            let (client, done) = (gate.connect().await, done.clone());
            tokio::spawn(async move {
                client.simple_query("SELECT 1").await.unwrap();
                done.send(at).unwrap();
            });
            until(&console, "SHOW QUEUE", |rows| rows.len() == at).await;
        }
        let queue = rows(&console, "SHOW QUEUE").await;
        let places: Vec<_> = queue.iter().map(|row| row["place"].as_str()).collect();
        assert_eq!(places, ["1", "2", "3", "4", "5"]);
        let ids: Vec<u64> = queue.iter().map(|row| row["client"].parse().unwrap()).collect();
        assert!(ids.is_sorted(), "they came one after the other: {ids:?}");
        let gates = rows(&console, "SHOW GATE").await;
        assert_eq!((&*gates[0]["waiting"], &*gates[0]["busy"]), ("5", "1"));
        one.batch_execute("COMMIT").await.unwrap();
        for at in 1..=5 {
            assert_eq!(order.recv().await, Some(at));
        }
        let gates = rows(&console, "SHOW GATE").await;
        assert_eq!((&*gates[0]["waiting"], &*gates[0]["busy"]), ("0", "0"));
    });
    gate.end();
}

#[test]
fn recent_counts_are_those_of_the_last_period() {
    let mut config = operated(config(database(Mode::Transaction, 1)));
    config.admin.stats_period = Duration::from_secs(1);
    let gate = Gate::new(config);
    runtime().block_on(async {
        let one = gate.connect().await;
        let console = console(&gate).await;
        let began = Instant::now();
        loop {
            one.simple_query("SELECT 1").await.unwrap();
            let totals = rows(&console, "SHOW TOTALS").await;
            let of = |name: &str| {
                let row = totals.iter().find(|row| row["name"] == name).unwrap();
                row["value"].parse::<u64>().unwrap()
            };
            if of("avg_xact_count") > 0 {
                assert!(of("avg_xact_count") <= of("total_xact_count"));
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Nothing is asked any more, so that in the end nothing is recent.
        until(&console, "SHOW STATS_AVERAGES", |rows| rows[0]["xact_count"] == "0").await;
    });
    gate.end();
}

#[test]
fn a_shutdown_is_at_once_or_waits_for_clients() {
    let gate = gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let one = gate.connect().await;
        let console = console(&gate).await;
        console.simple_query("SHUTDOWN WAIT_FOR_CLIENTS").await.unwrap();
        assert!(enter(&gate.account()).await.is_err(), "nobody comes any more");
        assert_eq!(ask(&one, "SELECT 7").await.unwrap(), "7", "who is here stays");
        drop(one);
    });
    gate.thread_ends();
    let gate = self::gate(Mode::Transaction, 1);
    runtime().block_on(async {
        let one = gate.connect().await;
        one.batch_execute("BEGIN").await.unwrap();
        let console = console(&gate).await;
        // It may end before its answer is read.
        let _ = console.simple_query("SHUTDOWN").await;
        assert!(one.simple_query("SELECT 1").await.is_err());
    });
    assert_eq!(gate.thread_ends().cut, 1);
}

/// Somebody at the console by raw bytes, without a password.
fn raw(gate: &Gate) -> Raw {
    let mut raw = Raw::connect(gate);
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", b"pgbouncer")];
    write_startup(&mut out, Version::V3_2, parameters).unwrap();
    raw.say(&out);
    loop {
        match raw.hear() {
            (Backend::ReadyForQuery, _) => return raw,
            (Backend::BackendKeyData, body) => {
                let (process, secret) = read::backend_key_data(&body).unwrap();
                assert_eq!((process != 0, secret.len()), (true, 32));
            }
            (Backend::ErrorResponse, body) => panic!("{}", shown(&body)),
            _ => {}
        }
    }
}

#[test]
fn garbage_at_the_console_ends_one_console_and_nothing_else() {
    let gate = Gate::new(operated(trusting(database(Mode::Transaction, 1))));
    let bystander = raw(&gate);
    for garbage in
        [&b"\0\0\0\0\0\0\0"[..], b"Q\0\0\0\x03", b"Q\x7f\xff\xff\xff", b"p\0\0\0\x05\0", b"~~~~~~"]
    {
        let mut one = raw(&gate);
        one.say(garbage);
        let (tag, _) = one.hear();
        assert_eq!(tag, Backend::ErrorResponse, "{garbage:?}");
        assert_eq!(one.rest(), b"");
    }
    // A text that is no command, or no text at all, is told so, and the console goes on.
    let mut bystander = bystander;
    let mut out = Vec::new();
    write::message(&mut out, b'Q', |body| body.extend_from_slice(b"\xff\xfe\0"));
    bystander.say(&out);
    let answer = bystander.answer();
    assert!(answer[0].starts_with("ERROR"), "{answer:?}");
    bystander.query("SHOW VERSION");
    assert!(bystander.answer()[0].starts_with("PgBouncer 1.25.0 console of Sekisho "));
    gate.end();
}

#[test]
fn one_who_does_not_read_is_not_read_from_and_holds_up_nobody() {
    let gate = Gate::new(operated(trusting(database(Mode::Transaction, 1))));
    let mut deaf = raw(&gate);
    deaf.stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // Replies of megabytes in all; with nobody who reads them the questions are not read either.
    let mut out = Vec::new();
    for _ in 0..200 {
        write::query(&mut out, &"SHOW CONFIG;".repeat(600));
    }
    use std::io::Write;
    let (mut said, began) = (0, Instant::now());
    while said < out.len() && began.elapsed() < Duration::from_secs(20) {
        match deaf.stream.write(&out[said..]) {
            Ok(more) => said += more,
            Err(_) => break,
        }
    }
    let mut other = raw(&gate);
    other.query("SHOW MEM");
    assert!(other.answer().len() > 3);
    let mut client = Raw::enter(&gate, Version::V3_0, &[]);
    client.query("SELECT 8");
    assert_eq!(client.answer()[0], "8");
    gate.end();
}

#[test]
fn there_are_so_many_administrators_and_no_more() {
    let gate = Gate::new(operated(trusting(database(Mode::Transaction, 1))));
    let consoles: Vec<Raw> = (0..64).map(|_| raw(&gate)).collect();
    let mut more = Raw::connect(&gate);
    let mut out = Vec::new();
    let parameters = [(&b"user"[..], &b"sekisho"[..]), (b"database", b"pgbouncer")];
    write_startup(&mut out, Version::V3_2, parameters).unwrap();
    more.say(&out);
    assert_eq!(more.hear().0, Backend::Authentication);
    let words = more.last_words();
    assert!(words.starts_with("FATAL 53300"), "{words}");
    drop(consoles);
    gate.end();
}
