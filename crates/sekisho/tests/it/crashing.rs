//! `sekisho tpcc crash`: a server is killed under load, and losses are found where there are some.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::Scratch;
use crate::command::{PATIENCE, sekisho, start};

fn crash(folder: &Path, rest: &[&str]) -> (i32, Value) {
    let words = ["tpcc", "crash", "--under-load", "2s", "--connections", "4", "--json"];
    let ended = sekisho(folder, &[&words[..], rest].concat());
    assert!(!ended.out.is_empty(), "{ended:?}");
    (ended.code, ended.object("tpcc-crash"))
}

fn number(round: &Value, name: &str) -> u64 {
    round[name].as_u64().unwrap_or_else(|| panic!("no number {name}: {round}"))
}

#[test]
fn what_was_acknowledged_outlives_the_server_and_what_was_not_written_does_not() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let crashes = if std::env::var_os("SEKISHO_LONG").is_some() { 10 } else { 2 };
    let (code, safe) = crash(&folder, &["--rounds", &crashes.to_string()]);
    assert_eq!(code, 0, "{safe}");
    let rounds = safe["rounds"].as_array().expect("a list");
    assert_eq!(rounds.len(), crashes);
    for round in rounds {
        assert!(number(round, "orders_acknowledged") > 0, "{safe}");
        assert!(number(round, "payments_acknowledged") > 0, "{safe}");
        assert!(number(round, "unacknowledged") <= 4, "{safe}");
        assert_eq!(round["verified"], true, "{safe}");
        let since = &round["since_load"];
        assert_eq!(number(since, "orders_lost") + number(since, "orders_damaged"), 0, "{safe}");
        assert_eq!(number(since, "payments_lost"), 0, "{safe}");
    }
    // The file holds each of them, and each round goes on where the one before ended.
    let kept = folder.join(safe["acknowledged"].as_str().expect("a name"));
    let kept = std::fs::read_to_string(kept).expect("it is kept");
    let orders = kept.lines().filter(|line| line.starts_with(r#"{"order":"#)).count() as u64;
    let told: u64 = rounds.iter().map(|round| number(round, "orders_acknowledged")).sum();
    assert_eq!(orders, told);
    assert_eq!(orders, number(&rounds[crashes - 1]["since_load"], "orders"));

    let words = ["tpcc", "crash", "--under-load", "2s", "--rounds", "1"];
    let lossy = sekisho(&folder, &[&words[..], &["--synchronous-commit", "off"]].concat());
    assert_eq!(lossy.code, 3, "{lossy:?}");
    assert!(lossy.out.starts_with("fails: 1 crash under load, and of what was acknowledged "));
    assert!(lossy.out.contains("  lost: w 1, d "), "{lossy:?}");
    // What is there is whole: the server lost the end of its log, and nothing out of the middle.
    let row = lossy.out.lines().find(|line| line.starts_with("  1  ")).expect("a row a crash");
    assert!(row.ends_with(" holds"), "{lossy:?}");
    let lost: u64 = row.split_whitespace().nth(5).and_then(|n| n.parse().ok()).expect("a number");
    assert!(lost > 0, "{lossy:?}");
}

#[test]
fn a_named_server_is_never_killed() {
    let scratch = Scratch::new();
    let named = ["tpcc", "crash", "--db", "postgresql://me:secret@127.0.0.1:1/x"];
    let ended = sekisho(&scratch.join(""), &named);
    assert_eq!(ended.code, 2, "{ended:?}");
    let found = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(found.contains("kills the whole server") && found.contains("unset DATABASE_URL"));
    assert!(!found.contains("secret"), "{ended:?}");
}

#[test]
fn an_interrupt_before_the_kill_ends_it_and_is_told() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    let running = start(&folder, &["tpcc", "crash", "--under-load", "1h"]);
    let runs = folder.join(".sekisho/runs");
    let deadline = Instant::now() + PATIENCE;
    // The success file has lines once the load is on.
    let is_there = || {
        let mut files = std::fs::read_dir(&runs).into_iter().flatten().flatten();
        files.any(|file| file.metadata().is_ok_and(|facts| facts.len() > 0))
    };
    while !is_there() {
        assert!(Instant::now() < deadline, "no load begins");
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal("INT");
    let ended = running.ended(PATIENCE);
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.out.starts_with("interrupted: before the first crash"), "{ended:?}");
}
