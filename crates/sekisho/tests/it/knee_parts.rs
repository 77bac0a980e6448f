//! `sekisho measure ... --knee --part`: several processes look for one knee in step.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::browser::Scratch;
use crate::clockwork::Clockwork;
use crate::command::{Ended, PATIENCE, Running, sekisho, start};
use crate::parts::meeting_place;
use crate::site::alone;
use crate::tpcc::database;

/// Five places of 10 ms: 500 requests a second, however many processes ask.
fn clockwork() -> Clockwork {
    Clockwork::start(5, Duration::from_millis(10))
}

/// Length of the probes, and spacing by the clock, by which overload shows in some hundreds of requests.
const SEARCH: [&str; 6] = ["--arrivals", "fixed", "--duration", "500ms", "--preflight", "30s"];

/// Starts the same search in so many parts.
fn search(scratch: &Scratch, of: u32, words: &[&str]) -> Vec<Running> {
    search_of(scratch, of, &[&["http"], words, &SEARCH].concat())
}

/// The same of whatever is measured.
fn search_of(scratch: &Scratch, of: u32, words: &[&str]) -> Vec<Running> {
    let place = meeting_place();
    (1..=of)
        .map(|number| {
            let folder: PathBuf = scratch.join(&format!("part-{number}"));
            fs::create_dir(&folder).expect("a folder of our own");
            let part = format!("{number}/{of}");
            let own = ["--part", &part, "--meet", &place];
            start(&folder, &[&["measure"], words, &own].concat())
        })
        .collect()
}

fn flat(text: &str) -> String {
    text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The knee of a search lies where the places are full. A rate 10 % above it makes requests later than the limit
/// within a probe's 500 ms; one that is held back by other processes of this machine may fail somewhat below.
fn is_at_the_places(knee: &Value) -> bool {
    let (low, high) = (knee["knee_low_per_s"].as_f64(), knee["knee_high_per_s"].as_f64());
    let probes = knee["probes"].as_array().map_or(0, Vec::len);
    probes > 3 && low.is_some_and(|low| low < 650.0) && high.is_some_and(|high| high > 350.0)
}

#[test]
fn two_parts_find_the_knee_that_one_process_finds_and_tell_the_same() {
    let _alone = alone();
    let server = clockwork();
    let url = format!("http://{}/", server.address());
    let words = [&url, "--knee", "p90<50ms", "--budget", "12s", "--json"];
    // On a machine that does other work too a search may end without a load that holds, and says that it is
    // inconclusive: then it is made again.
    let mut tries = Vec::new();
    while tries.len() < 4 {
        let knees = two_and_one(&words);
        if knees.iter().all(is_at_the_places) {
            return;
        }
        for knee in &knees {
            assert!(is_at_the_places(knee) || knee["verdict"] == "inconclusive", "{knee}");
        }
        tries.push(knees);
    }
    panic!("never both at the places: {tries:?}");
}

/// The knee as two parts find it, which all of them tell, and as one process does.
fn two_and_one(words: &[&str]) -> [Value; 2] {
    let scratch = Scratch::new();
    let parts = search(&scratch, 2, words);
    let ended: Vec<Ended> = parts.into_iter().map(|part| part.ended(PATIENCE)).collect();
    let knees: Vec<Value> = ended.iter().map(|part| part.object("knee")).collect();
    assert_eq!(ended[0].code, ended[1].code, "{ended:?}");
    for key in ["knee_low_per_s", "knee_high_per_s", "probes", "broken", "elapsed_s"] {
        assert_eq!(knees[0][key], knees[1][key], "all parts tell the same");
    }
    // Part 1 saw all, and keeps the record.
    let record = scratch.join("part-1").join(knees[0]["record"].as_str().expect("a file"));
    assert!(record.is_file() && knees[1]["record"].is_null(), "{knees:?}");
    assert!([0, 4].contains(&ended[0].code), "{ended:?}");
    let line = [&["measure", "http"], words, &SEARCH].concat();
    [knees[0].clone(), sekisho(&scratch.join(""), &line).object("knee")]
}

/// The story: the knee of SQL was looked for by one process alone. Each probe opens its connections anew, which takes a
/// while, so that the parts begin when all of them are ready.
#[test]
fn two_parts_find_the_knee_of_own_sql_and_tell_the_same() {
    let _alone = alone();
    let (scratch, url) = (Scratch::new(), database("knee_parts"));
    let script = scratch.join("slow.sql");
    // A connection does a hundred a second at most, and each part has one.
    fs::write(&script, "select pg_sleep(0.01);\n").expect("a folder of our own");
    let script = script.display().to_string();
    let words = ["postgres", &script, "--db", &url, "--connections", "1", "--knee", "p90<200ms"];
    let short = ["--duration", "1s", "--budget", "20s", "--json"];
    let parts = search_of(&scratch, 2, &[&words[..], &short].concat());
    let ended: Vec<Ended> = parts.into_iter().map(|part| part.ended(PATIENCE)).collect();
    let knees: Vec<Value> = ended.iter().map(|part| part.object("knee")).collect();
    assert_eq!(ended[0].code, ended[1].code, "{ended:?}");
    assert!([0, 4].contains(&ended[0].code), "{ended:?}");
    for key in ["knee_low_per_s", "knee_high_per_s", "probes", "broken"] {
        assert_eq!(knees[0][key], knees[1][key], "all parts tell the same");
    }
    let high = knees[0]["knee_high_per_s"].as_f64().unwrap_or_else(|| panic!("{ended:?}"));
    // Within a second four times as many must be seen to wait.
    assert!(high > 40.0 && high < 800.0, "{high}: {ended:?}");
}

#[test]
fn a_part_that_dies_ends_the_search_in_all_and_is_named() {
    let _alone = alone();
    let server = clockwork();
    let url = format!("http://{}/?a=1&b=2", server.address());
    let words = [&url, "-H", "X-Plan: gold", "--knee", "p90<50ms", "--budget", "60s"];
    for dead in [1, 2] {
        let scratch = Scratch::new();
        let mut parts = search(&scratch, 2, &words);
        parts[0].complains("looking for the knee of p90<50ms");
        thread::sleep(Duration::from_secs(5));
        let killed = parts.remove(dead - 1);
        killed.signal("KILL");
        let ended = parts.remove(0).ended(PATIENCE);
        assert_eq!(ended.code, 5, "{ended:?}");
        let said = flat(&ended.out);
        let lost = format!("part {dead} was lost (its connection was closed): see there why");
        assert!(said.starts_with("invalid: ") && said.contains(&lost), "{ended:?}");
        // What was measured is kept: the table of probes has the first.
        let is_first = |line: &str| line.split_whitespace().next() == Some("1");
        assert!(ended.out.lines().any(is_first), "{ended:?}");
        assert!(said.contains("2 parts made each probe together"), "{ended:?}");
        // The next command reaches the server in the same way; where no load is known to hold, it shows what was kept.
        if let Some((_, next)) = said.split_once("next: ") {
            let own = format!("sekisho measure http '{url}' -H 'X-Plan: gold'");
            let is_load = next.starts_with(&own) && next.contains(" --part ");
            let is_report =
                || next.trim_end() == format!("sekisho report {}", ended.after("recorded"));
            assert!(is_load || is_report(), "{ended:?}");
        }
    }
}

#[test]
fn an_interrupt_in_one_part_ends_all_with_what_is_known() {
    let _alone = alone();
    let server = clockwork();
    let url = format!("http://{}/", server.address());
    for stopped in [1, 2] {
        let scratch = Scratch::new();
        let words = [&url, "--knee", "p90<50ms", "--budget", "60s"];
        let parts = search(&scratch, 2, &words);
        parts[0].complains("looking for the knee of p90<50ms");
        thread::sleep(Duration::from_secs(5));
        parts[stopped - 1].signal("INT");
        let ended: Vec<Ended> = parts.into_iter().map(|part| part.ended(PATIENCE)).collect();
        for part in &ended {
            assert_eq!(part.code, 130, "{part:?}");
            assert!(part.out.starts_with("interrupted: "), "{part:?}");
        }
        assert_eq!(ended[0].out.lines().next(), ended[1].out.lines().next());
    }
}

#[test]
fn parts_of_different_searches_are_refused() {
    let _alone = alone();
    let (server, scratch) = (clockwork(), Scratch::new());
    let url = format!("http://{}/", server.address());
    let place = meeting_place();
    let begin = |number: u32, limit: &str| {
        let folder = scratch.join(&format!("part-{number}"));
        fs::create_dir(&folder).expect("a folder of our own");
        let part = format!("{number}/2");
        let own = ["--part", &part, "--meet", &place, "--patience", "20s", "--knee", limit];
        start(&folder, &[&["measure", "http", &url][..], &SEARCH, &own].concat())
    };
    let first = begin(1, "p90<50ms");
    let other = begin(2, "p90<60ms").ended(PATIENCE);
    assert_eq!(other.code, 2, "{other:?}");
    let said = flat(&other.err);
    assert!(
        said.contains("its limit of the knee is p90<50ms, and here it is p90<60ms"),
        "{other:?}"
    );
    first.signal("INT");
    assert_eq!(first.ended(PATIENCE).code, 130);
}
