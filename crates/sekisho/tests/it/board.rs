//! `sekisho board` and `sekisho demo jungle` as a user has them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::browser::Scratch;
use crate::command::{PATIENCE, sekisho, start};
use crate::site::alone;

fn ask(address: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// What was written is there after a stop and a start, and each stop says that everything acknowledged is stored.
#[test]
fn a_board_is_served_stopped_and_served_again() {
    let scratch = Scratch::new();
    for store in ["jungle", "sqlite"] {
        for (round, json) in [(0, false), (1, true)] {
            let mut words = vec!["board", "serve", "--store", store, "--at", "127.0.0.1:0"];
            words.extend(json.then_some("--json"));
            let running = start(&scratch.join(""), &words);
            let said = running.says(if json { "board-serve-start" } else { "next:" });
            let (_, rest) = said.split_once("http://").unwrap_or_else(|| panic!("{said}"));
            let address = rest.split(['"', '\n']).next().expect("a split has a first part");
            if round == 0 {
                let opened = ask(address, "POST /threads", "author=ann&title=One");
                assert!(opened.starts_with("HTTP/1.1 303"), "{opened}");
            }
            let appended = ask(address, "POST /threads/1/messages", "author=bob&body=written");
            assert!(appended.starts_with("HTTP/1.1 303"), "{appended}");
            let page = ask(address, "GET /threads/1", "");
            assert_eq!(page.matches("written").count(), round + 1, "{store}: {page}");
            running.signal("TERM");
            let ended = running.ended(PATIENCE);
            assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
            if json {
                let last = &ended.objects()[1];
                assert_eq!(last["format"], "sekisho/board-serve/1");
                assert_eq!((&last["verdict"], &last["messages"]), (&"holds".into(), &2.into()));
            } else {
                assert!(ended.out.contains("holds: 1 threads and 1 messages"), "{ended:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_the_way_out() {
    let scratch = Scratch::new();
    for (words, told) in [
        (&["--store", "jungel"][..], "'jungle'"),
        (&["--store", "jungle", "--at", "0.0.0.0:7430"], "use 127.0.0.1"),
        (&["--store", "postgres", "--directory", "d"], "leave it out"),
        (&["--store", "sqlite", "--postgres", "15"], "leave it out"),
        (&["--store", "jungle", "--durability", "strickt"], "'strict'"),
        (&["--store", "etcd", "--directory", "d"], "leave it out"),
        (&["--store", "etcd", "--durability", "relaxed"], "say `--durability strict`"),
        (&["--store", "jungle", "--server", "127.0.0.1:2379"], "leave it out"),
        (&["--store", "etcd", "--server", "192.0.2.1:2379"], "as 127.0.0.1:2379"),
    ] {
        let ended = sekisho(&scratch.join(""), &[&["board", "serve"], words].concat());
        let err = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == 2 && err.contains(told), "{words:?}: {ended:?}");
    }
    // Without the feature a client is missing, and with it a class.
    let words = ["board", "serve", "--store", "cassandra", "--server", "127.0.0.1:1"];
    let ended = sekisho(&scratch.join(""), &words);
    let err = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = if cfg!(feature = "cassandra") { "cassandra: " } else { "--features cassandra" };
    assert!(ended.code == 2 && err.contains(told), "{ended:?}");
    let words = ["demo", "jungle", "--store", "sqlite"];
    let ended = sekisho(&scratch.join(""), &words);
    assert!(ended.code == 2 && ended.err.contains("`cassandra` or `etcd`"), "{ended:?}");
    let words = ["reproduce", "ohmae", "--live", "--store", "etcd"];
    let ended = sekisho(&scratch.join(""), &words);
    assert!(ended.code == 2 && ended.err.contains("`oshiro --live`"), "{ended:?}");
    let left = fs::read_dir(scratch.join("")).expect("a folder of our own").count();
    assert_eq!(left, 0, "what was refused has made nothing");
}

/// The demo as short as it goes, on a real PostgreSQL too: whoever is faster on a busy machine, everything acknowledged
/// is stored, and the load engine saw as many acknowledged. Each store has its own processes, whose memory is told.
#[test]
fn the_demo_compares_stores_and_loses_nothing() {
    let _live = alone();
    let scratch = Scratch::new();
    let words = ["demo", "jungle", "--requests", "100", "--choice", "zipf", "--report", "j.html"];
    // Cassandra in the long suite, which has its client.
    let more: &[&str] = match cfg!(feature = "cassandra") {
        true => &["--store", "etcd", "--store", "cassandra"],
        false => &["--store", "etcd"],
    };
    let stores = 3 + more.len() / 2;
    let ended = sekisho(&scratch.join(""), &[&words[..], more, &["--json"]].concat());
    assert!([0, 3, 4].contains(&ended.code), "{ended:?}");
    let object = ended.object("demo-jungle");
    assert_eq!(object["choice"], "zipf");
    let rows = object["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 4 * stores, "four mixes of each: {object}");
    assert_eq!(object["claims"].as_array().map(Vec::len), Some(4 * (stores - 1)), "rivals");
    let number = |row: &serde_json::Value, key: &str| row[key].as_f64().unwrap_or(0.0);
    for row in rows {
        assert_eq!(row["failed"], 0, "{row}");
        assert!(row["cut"] != 0 || row["completed"] == 500, "five rounds: {row}");
        assert!(number(row, "server_cpu_s") > 0.0, "{row}");
        assert!(number(row, "memory_bytes") > 1e6, "{row}");
    }
    for kept in object["kept"].as_array().expect("a list") {
        assert_eq!(kept["faults"].as_array().map(Vec::len), Some(0), "{kept}");
        assert_eq!(kept["stored"], kept["acknowledged"], "{kept}");
        // 50 threads of 20 before, and of each round 100 in W100 and about half of 100 in R50 (chance of less than
        // 25 in a round: below 1 in a million).
        let is_cut = rows.iter().any(|row| row["store"] == kept["store"] && row["cut"] != 0);
        assert!(is_cut || number(kept, "stored") > 1000.0 + 5.0 * (100.0 + 25.0), "{kept}");
    }
    let page = fs::read_to_string(scratch.join("j.html")).expect("it was written");
    assert!(page.contains("Acknowledged and stored") && page.contains("resident memory"));
}

#[test]
fn the_demo_says_as_text_what_it_found_and_what_comes_next() {
    let _live = alone();
    let scratch = Scratch::new();
    let words = ["demo", "jungle", "--requests", "100", "--durability", "relaxed"];
    let ended = sekisho(&scratch.join(""), &words);
    assert!([0, 3, 4].contains(&ended.code), "{ended:?}");
    for part in ["jungle R100", "sqlite R50", "postgres W100", "relaxed", "next: sekisho board"] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
    // Where the output is no terminal a sentence is one line; tables are as wide as they are.
    let mut rows =
        ended.out.lines().filter(|line| line.contains("100  ") || line.contains("R50  "));
    assert!(rows.all(|line| line.chars().count() <= 80), "{ended:?}");
}

/// Experiment 1 as small as it goes, with 900 connections at once: whatever a busy machine finds, every claim is
/// judged, in text, as JSON and in the report, nothing that was acknowledged is lost, and what is short is said.
#[test]
fn the_experiment_of_the_paper_judges_every_claim() {
    let _live = alone();
    let scratch = Scratch::new();
    let words =
        ["reproduce", "oshiro", "--live", "--seconds", "0.5", "--report", "o.html", "--json"];
    let ended = sekisho(&scratch.join(""), &words);
    // Cassandra was not run, which alone makes it inconclusive.
    assert!([3, 4].contains(&ended.code), "{ended:?}");
    let told = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("small setting") && told.contains("leaves nothing"), "{told}");
    let object = ended.object("reproduce");
    let claims = object["claims"].as_array().expect("a list");
    let finding = |id: &str| {
        let claim = claims.iter().find(|claim| claim["id"] == id);
        claim.unwrap_or_else(|| panic!("{id}: {object}"))["finding"].clone()
    };
    assert_eq!(claims.len(), 9, "{object}");
    assert_eq!(finding("cassandra"), "not-run");
    for claim in claims.iter().filter(|claim| claim["id"] != "cassandra") {
        let found = claim["found"].as_str().unwrap_or_default();
        assert!(claim["finding"] != "not-run" && claim["finding"] != "taken", "{claim}");
        assert!(!found.contains("keep what it acknowledged"), "{claim}");
        assert!(!found.contains("requests failed"), "{claim}");
    }
    let page = fs::read_to_string(scratch.join("o.html")).expect("it was written");
    for part in ["R50: time of all requests of a client", "W100: requests a second"] {
        assert!(page.contains(part), "{part}");
    }
}

/// Boards of other processes, PostgreSQL among them, and their folders: an interrupt ends them all, early and late.
#[test]
fn an_interrupted_experiment_leaves_nothing() {
    let _live = alone();
    let scratch = Scratch::new();
    for pause in [Duration::ZERO, Duration::from_secs(8)] {
        let running = start(&scratch.join(""), &["reproduce", "oshiro", "--live"]);
        let mark = format!("-{}-", running.pid());
        let folder = || {
            let folders = fs::read_dir("/var/tmp").expect("it is there").flatten();
            let mut names = folders.map(|one| one.file_name().to_string_lossy().into_owned());
            names.find(|name| name.starts_with("sekisho-board-") && name.contains(&mark))
        };
        let deadline = Instant::now() + PATIENCE;
        while folder().is_none() {
            assert!(Instant::now() < deadline, "no board: {running:?}");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(pause);
        running.signal("INT");
        let ended = running.ended(PATIENCE);
        assert_eq!(ended.code, 130, "{ended:?}");
        let told = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.starts_with("interrupted: while "), "{ended:?}");
        assert!(told.contains("it leaves nothing: what was started is stopped"), "{ended:?}");
        assert!(!ended.err.contains("error:"), "{ended:?}");
        assert_eq!(folder(), None, "{ended:?}");
    }
}

#[test]
fn the_experiment_refuses_what_it_has_no_use_for() {
    let scratch = Scratch::new();
    for (words, told) in [
        (&["oshiro"][..], "all of it is measured"),
        (&["oshiro", "--live", "--full", "--small"], "cannot be used with"),
        (&["fujita", "--live", "--full"], "`oshiro --live`"),
        (&["oshiro", "--full"], "--live"),
        (&["ohmae", "--postgres", "15"], "add `--live`"),
        // It was told to add `--live`, which was there.
        (&["fujita", "--live", "--postgres", "15"], "`fujita` has none, remove it"),
    ] {
        let ended = sekisho(&scratch.join(""), &[&["reproduce"], words].concat());
        let err = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == 2 && err.contains(told), "{words:?}: {ended:?}");
    }
}
