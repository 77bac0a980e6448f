//! `agents init` and `agents serve --db`: agents in the user's PostgreSQL.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Private, Settings};

use crate::agents_asked::flat;
use crate::browser::Scratch;
use crate::command::{Ended, PATIENCE, Running, sekisho, shell};
use crate::serving_agents::{RULES, address, request, takes_effect_once};
use crate::tpcc::{ask, database};

/// The address of a new database that has the tables.
pub(crate) fn made(name: &str) -> String {
    let url = database(name);
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).expect("a folder of our own");
    let ended = init(&folder, &url, &["--apply"]);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
    url
}

fn init(folder: &Path, url: &str, rest: &[&str]) -> Ended {
    sekisho(folder, &[&["agents", "init", "rules.toml", "--db", url], rest].concat())
}

#[test]
fn the_tables_are_printed_looked_for_and_made() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let url = database("agents_init");
    let there = "select count(*) from information_schema.tables where table_schema = 'of agents'";
    let init = |rest: &[&str]| {
        let ended = init(&folder, &url, &[&["--schema", "of agents"], rest].concat());
        assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
        assert!(!ended.out.contains("sekisho:"), "no password is shown: {ended:?}");
        ended
    };
    // Early, a server says what is missing.
    let line = ["agents", "serve", "rules.toml", "--db", &url, "--schema", "of agents"];
    let early = sekisho(&folder, &line);
    assert!(early.code == 2 && flat(&early.err).contains("sekisho agents init"), "{early:?}");
    let printed = init(&[]);
    assert!(
        flat(&printed.out).contains("create schema if not exists \"of agents\";"),
        "{printed:?}"
    );
    let dry = init(&["--dry-run", "--json"]).object("agents-init");
    assert_eq!(dry["tables"], "would-be-made", "{dry}");
    assert_eq!(ask(&url, there).unwrap(), ["0"], "nothing was made");
    let made = init(&["--apply"]);
    assert!(
        made.out.contains("made: ") && flat(&made.out).contains("--schema 'of agents'"),
        "{made:?}"
    );
    assert_ne!(ask(&url, there).unwrap(), ["0"]);
    assert_eq!(init(&["--apply", "--json"]).object("agents-init")["tables"], "there");
    // What is printed is a script that makes the same, comments included.
    let other = database("agents_init_by_hand");
    ask(&other, &printed.out).expect("it is a script");
    let again = sekisho(
        &folder,
        &["agents", "init", "rules.toml", "--db", &other, "--schema", "of agents", "--dry-run"],
    );
    assert!(again.code == 0 && again.out.contains("there: "), "{again:?}");
}

/// The server is killed again and again; counters are what was acknowledged, firings as many as states say.
#[test]
fn after_kill_9_what_was_acknowledged_took_effect_once_in_postgresql() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = made("agents_killed");
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 50 } else { 6 };
    let line = format!("sekisho agents serve rules.toml --listen 127.0.0.1:0 --db '{url}'");
    takes_effect_once(&folder, &line, kills, |running| {
        drop(running);
        shell(&folder, &line)
    });
}

/// The database is killed as by a loss of power, and comes back; the server goes on by itself.
#[test]
fn a_database_that_is_killed_costs_nothing_that_was_acknowledged() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let mut server = Private::start(&Settings::default()).unwrap();
    let url = server.url().as_str().to_owned();
    assert_eq!(init(&folder, &url, &["--apply"]).code, 0);
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 10 } else { 2 };
    let line = format!("sekisho agents serve rules.toml --listen 127.0.0.1:0 --db '{url}'");
    takes_effect_once(&folder, &line, kills, |running| {
        server.kill().unwrap();
        thread::sleep(Duration::from_millis(300));
        server.restart().unwrap();
        running
    });
    server.stop().unwrap();
}

/// After the database came back, the first question is answered as every other one.
#[test]
fn a_question_after_the_database_came_back_is_answered() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let mut server = Private::start(&Settings::default()).unwrap();
    let url = server.url().as_str().to_owned();
    assert_eq!(init(&folder, &url, &["--apply"]).code, 0);
    let line = format!("sekisho agents serve rules.toml --listen 127.0.0.1:0 --db '{url}'");
    let running = shell(&folder, &line);
    let here = address(&running);
    assert_eq!(request(&here, "PUT /agents/alice", &[], "{}").unwrap().0, 202);
    let until = Instant::now() + PATIENCE;
    while request(&here, "GET /agents/alice", &[], "").unwrap().0 != 200 {
        assert!(Instant::now() < until, "she was declared");
        thread::sleep(Duration::from_millis(20));
    }
    for question in ["GET /agents/alice", "GET /agents/alice/why", "GET /dead"] {
        server.kill().unwrap();
        server.restart().unwrap();
        let (status, told) = request(&here, question, &[], "").unwrap();
        assert_eq!(status, 200, "{question}: {told}");
    }
    drop(running);
    server.stop().unwrap();
}

/// One owner at a time: the later one has the agents. The first accepts nothing more, and ends.
#[test]
fn of_two_servers_on_one_database_the_later_one_has_the_agents() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let url = made("agents_two");
    let line = format!("sekisho agents serve rules.toml --listen 127.0.0.1:0 --db '{url}'");
    let first = shell(&folder, &format!("{line} --store first"));
    let of_first = address(&first);
    assert_eq!(request(&of_first, "PUT /agents/alice", &[], "{}").unwrap().0, 202);
    // It is stopped as a machine is that has no time for it, and wakes up when another one has taken over.
    first.signal("STOP");
    let second = shell(&folder, &format!("{line} --store second"));
    let of_second = address(&second);
    let order = "POST /agents/alice/messages/order";
    assert_eq!(request(&of_second, order, &[], "{}").unwrap().0, 202);
    first.signal("CONT");
    let late = request(&of_first, order, &[], "{}");
    assert!(late.as_ref().is_none_or(|(status, _)| *status == 503), "{late:?}");
    let ended = first.ended(PATIENCE);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(flat(&ended.err).contains("another server has taken these agents over"), "{ended:?}");
    second.signal("TERM");
    let ended = second.ended(PATIENCE);
    assert!(ended.code == 0 && ended.out.contains("drained"), "{ended:?}");
    let third = shell(&folder, &line);
    let (_, told) = request(&address(&third), "GET /agents/alice", &[], "").unwrap();
    assert!(told.contains("\"count\":1.0"), "{told}");
    third.signal("TERM");
    assert_eq!(third.ended(PATIENCE).code, 0);
}

/// Writers insert rows while the server is killed so often; the server afterwards.
fn rows_while_killed(
    url: &str,
    folder: &Path,
    line: &str,
    running: Running,
    kills: u64,
) -> Running {
    let mut running = Some(running);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for slow in [false, true] {
            let is_over = &is_over;
            scope.spawn(move || {
                let pause = if slow { "select pg_sleep(0.05);" } else { "" };
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let insert = "insert into orders select from generate_series(1, 5)";
                    ask(url, &format!("begin; {insert}; {pause} commit")).expect("it inserts");
                }
            });
        }
        for n in 0..kills {
            thread::sleep(Duration::from_millis(150 + 97 * (n % 5)));
            // Dropping kills with signal 9.
            drop(running.take());
            address(running.insert(shell(folder, line)));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    running.expect("the last one runs")
}

/// Rows that come while the server is killed again and again, some from transactions that commit late: each takes
/// effect once. A row that is no message is told with its place.
#[test]
fn each_row_of_a_table_takes_effect_once_after_kill_9() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let url = database("agents_table");
    ask(&url, "create table orders (id bigint generated always as identity primary key)").unwrap();
    ask(&url, "create table ticks (id int unique, symbol text, price numeric)").unwrap();
    let line = format!(
        "sekisho agents serve rules.toml --listen 127.0.0.1:0 --source-table order=orders:id \
         --source-table tick=ticks:id --source-db {url}"
    );
    let running = shell(&folder, &line);
    let alice = r#"{"symbol": "A", "high": 10}"#;
    let declared = request(&address(&running), "PUT /agents/alice", &[], alice);
    assert_eq!(declared.map(|it| it.0), Some(202));
    let kills = if std::env::var_os("SEKISHO_LONG").is_some() { 40 } else { 6 };
    let running = rows_while_killed(&url, &folder, &line, running, kills);
    let rows = ask(&url, "select count(*) from orders").unwrap()[0].parse::<f64>().unwrap();
    assert!(rows > 100.0, "{rows}");
    let here = address(&running);
    let count = || {
        let (_, text) = request(&here, "GET /agents/alice", &[], "").expect("an answer");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["state"]["count"]
            .as_f64()
            .unwrap()
    };
    let until = Instant::now() + PATIENCE;
    while count() < rows {
        assert!(Instant::now() < until, "{} of {rows}", count());
        thread::sleep(Duration::from_millis(50));
    }
    // Nothing comes twice.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(count(), rows);
    ask(&url, "insert into ticks values (1, 'A', null), (2, 'A', 11.5)").unwrap();
    running.complains("ticks, id 1: the field `price`");
    let alerts = folder.join("alerts.jsonl");
    let until = Instant::now() + PATIENCE;
    while !fs::read_to_string(&alerts).unwrap_or_default().contains("\"price\":11.5") {
        assert!(Instant::now() < until, "nothing fired");
        thread::sleep(Duration::from_millis(50));
    }
    running.signal("TERM");
    assert_eq!(running.ended(PATIENCE).code, 0);
}

#[test]
fn a_table_that_is_no_source_is_told_with_the_way_out() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let url = database("agents_no_table");
    let early =
        ["agents", "serve", "rules.toml", "--source-table", "tick=tick:id", "--source-db", &url];
    let refused = sekisho(&folder, &[&early[..], &["--listen", "127.0.0.1:0"]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        flat(&refused.err)
            .contains("source tick: the table tick of PostgreSQL: there is no such table"),
        "{refused:?}"
    );
    let without =
        sekisho(&folder, &["agents", "serve", "rules.toml", "--source-table", "tick=ticks:id"]);
    assert!(without.code == 2 && flat(&without.err).contains("--source-db"), "{without:?}");
}

/// The statements of the manual find by SQL those whom a filter finds, where a server has its agents in PostgreSQL.
#[test]
fn agents_are_a_table_that_sql_asks() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let url = made("agents_by_sql");
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let line = format!("sekisho agents serve rules.toml --listen 127.0.0.1:0 --db '{url}'");
    let running = shell(&folder, &line);
    let address = address(&running);
    let declared: Vec<String> = (0..200)
        .map(|n| {
            let symbol = ["ACME", "B"][n % 2];
            format!(r#"{{"agent":"é{n}","state":{{"symbol":"{symbol}","high":{n}}}}}"#)
        })
        .collect();
    let body = format!("[{}]", declared.join(","));
    assert_eq!(request(&address, "POST /agents", &[], &body).unwrap().0, 202);
    let manual = fs::read_to_string("../../docs/agents-rules.md").unwrap();
    let sql = manual.split("```sql\n").nth(1).expect("it is there").split("```").next().unwrap();
    let (view, select) = sql.split_once(";\n").expect("two statements");
    ask(&url, view).unwrap();
    let until = Instant::now() + PATIENCE;
    while ask(&url, "select count(*) from agents").unwrap() != ["200"] {
        assert!(Instant::now() < until, "{body}");
        thread::sleep(Duration::from_millis(20));
    }
    let mut by_sql = ask(&url, select).unwrap();
    by_sql.sort();
    assert_eq!(by_sql.len(), 55, "even numbers below 110");
    let filter = r#"symbol == "ACME" && high < 110"#;
    let words = ["agents", "export", "near.csv", "--where", filter];
    let exported =
        sekisho(&folder, &[&words[..], &["--url", &format!("http://{address}")]].concat());
    assert_eq!(exported.code, 0, "{exported:?}");
    let text = fs::read_to_string(folder.join("near.csv")).unwrap();
    let names = text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, by_sql);
}
