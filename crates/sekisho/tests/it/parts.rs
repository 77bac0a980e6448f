//! `sekisho measure http --part`: a run in several processes, from the command line to one verdict.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::browser::Scratch;
use crate::command::{Ended, sekisho, start};
use crate::site::{alone, server};

/// A port where the parts can meet.
pub(crate) fn meeting_place() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("loopback").to_string()
}

/// A folder of its own for each part, as on machines of their own.
fn folders(scratch: &Scratch, of: u32) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> =
        (1..=of).map(|part| scratch.join(&format!("part-{part}"))).collect();
    folders.iter().for_each(|folder| fs::create_dir(folder).expect("a folder of our own"));
    folders
}

/// Runs the same words as each of the parts of a run.
fn parts(folders: &[PathBuf], words: &[&str]) -> Vec<Ended> {
    let (of, place) = (folders.len(), meeting_place());
    let begun: Vec<_> = folders
        .iter()
        .enumerate()
        .map(|(nth, folder)| {
            let part = format!("{}/{of}", nth + 1);
            let own = ["--part", &part, "--meet", &place, "--out", "part.jsonl"];
            start(folder, &[&["measure", "http"], words, &own].concat())
        })
        .collect();
    begun.into_iter().map(|part| part.ended(crate::command::PATIENCE)).collect()
}

fn records(folders: &[PathBuf]) -> Vec<String> {
    folders.iter().map(|folder| folder.join("part.jsonl").display().to_string()).collect()
}

fn merge(folder: &Path, records: &[String], words: &[&str]) -> Ended {
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    sekisho(folder, &[&["measure", "merge"], &records[..], words].concat())
}

#[test]
fn parts_measure_together_and_are_judged_as_one_run() {
    let _alone = alone();
    let (server, scratch) = (server(), Scratch::new());
    let url = format!("http://{}/1k", server.address());
    let folders = folders(&scratch, 2);
    let words = [&url, "--rate", "120/s", "--duration", "2s", "--warmup", "200ms"];
    let ended = parts(&folders, &[&words[..], &["--expect", "p99<10s"]].concat());
    for (part, number) in ended.iter().zip(1..) {
        assert_eq!(part.code, 4, "one part is no verdict: {part:?}");
        assert!(part.out.starts_with("one part, so no verdict: open load, Poisson, 120 /s"));
        assert!(part.out.contains(&format!("Part {number}/2: its load began ")), "{part:?}");
        assert!(part.out.contains("next: sekisho measure merge part.jsonl RECORD"), "{part:?}");
        assert!(!part.out.contains("p99<10s"), "what one part saw is held against nothing");
    }
    let folder = scratch.join("");
    // A part is no run for any other verb, and each says the way out.
    for verb in [&["check", "--expect", "p99<1s"][..], &["report"], &["fit"]] {
        let refused = sekisho(&folder, &[verb, &[&records(&folders)[0]]].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        let words = refused.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("this is part 1/2 of a run"), "{refused:?}");
        assert!(words.contains("`sekisho measure merge RECORD...`"), "{refused:?}");
    }
    let merged = merge(&folder, &records(&folders), &["--json", "--expect", "p99<10s"]);
    assert!([0, 4, 5].contains(&merged.code), "{merged:?}");
    let object = &merged.object("measure");
    let header = &object["header"];
    assert_eq!(header["merged"].as_array().map(Vec::len), Some(2));
    assert!(header["part"].is_null() && header["command"][2] == "merge");
    assert_eq!(header["load"]["poisson"]["rate"], 120.0);
    let completed = object["all"]["completed"].as_u64().expect("a number");
    // 240 arrivals in the mean; six standard deviations of a Poisson count, and what was cut at the edges.
    assert!((140..340).contains(&completed), "{completed} completed");
    assert_eq!(object["expectations"].as_array().map(Vec::len), Some(1));
    // The merged run is one like any other.
    let run = sekisho(&folder, &["runs"]);
    assert!(run.out.contains("1 run under") && run.out.contains(" 120 /s "), "{run:?}");
    let report = sekisho(&folder, &["report", "--last"]);
    // On a busy machine the run itself may be invalid, and the report says so.
    assert!([0, 4, 5].contains(&report.code), "{report:?}");
    assert!(report.out.contains("report.html"), "{report:?}");
    // Of the same seed, one process with as many threads begins as many requests; on a machine that is busy
    // otherwise, what is late at the end is not begun, so that it may take another try.
    let mut seen = Vec::new();
    let alike = (0..4).any(|_| {
        let whole = completed_in_one(&folder, &words);
        let two = if seen.is_empty() { completed } else { completed_in_two(&words) };
        seen.push((whole, two));
        whole.abs_diff(two) <= 12
    });
    assert!(alike, "in one process, and in two: {seen:?}");
}

/// Requests that one process of two threads completes.
fn completed_in_one(folder: &Path, words: &[&str]) -> u64 {
    let more = ["--threads", "2", "--json"];
    let whole = sekisho(folder, &[&["measure", "http"], words, &more].concat());
    whole.objects()[0]["all"]["completed"].as_u64().expect("a number")
}

/// Requests that two processes complete together.
fn completed_in_two(words: &[&str]) -> u64 {
    let scratch = Scratch::new();
    let folders = folders(&scratch, 2);
    parts(&folders, words);
    let merged = merge(&scratch.join(""), &records(&folders), &["--json"]);
    merged.object("measure")["all"]["completed"].as_u64().expect("a number")
}

#[test]
fn what_are_no_parts_of_one_run_is_told_before_and_after() {
    let _alone = alone();
    let (server, scratch) = (server(), Scratch::new());
    let url = format!("http://{}/1k", server.address());
    let folder = scratch.join("");
    let usage = |words: &[&str], says: &str| {
        let ended = sekisho(&folder, &[&["measure", "http", &url], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        let said = ended.err.replace("\\\n", " ");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{ended:?}");
    };
    let place = meeting_place();
    let meet = |part, more: &[&'static str]| -> Vec<String> {
        let own = ["--part", part, "--meet", &place, "--patience", "1s"];
        own.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let words = |all: &'static [&'static str], part| {
        let all = meet(part, all);
        all.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    for (part, more, says) in [
        ("1/2", &["--clients", "1,2"][..], "`--part` makes one run, and several are asked for"),
        ("3/2", &["--clients", "2"], "`3/2` is no part of a run: it is K/N"),
        ("1/3", &["--clients", "2"], "3 parts are too many for 2 clients: each needs one"),
        ("1/2", &["--clients", "2"], "part 2 of 2 did not come within 1s; start each part"),
        ("2/2", &["--clients", "2"], "part 1 was not found at 127.0.0.1"),
    ] {
        let all = words(more, part);
        usage(&all.iter().map(String::as_str).collect::<Vec<_>>(), says);
    }
    usage(&["--clients", "2", "--part", "1/2"], "--meet <HOST:PORT>");
    usage(
        &["--clients", "2", "--part", "1/2", "--meet", "203.0.113.1:7400"],
        "which is neither loopback nor private",
    );
    // Two runs of two parts each: a part of the one is no part of the other.
    let load = ["--requests", "60", "--warmup", "0s", "--clients", "2"];
    let mut all = Vec::new();
    for run in ["one", "two"] {
        fs::create_dir(scratch.join(run)).expect("a folder of our own");
        let folders: Vec<PathBuf> =
            (1..=2).map(|part| scratch.join(&format!("{run}/{part}"))).collect();
        folders.iter().for_each(|folder| fs::create_dir(folder).expect("the same"));
        let ended = parts(&folders, &[&[url.as_str()][..], &load].concat());
        assert!(ended.iter().all(|part| part.code == 4), "{ended:?}");
        all.push(records(&folders));
    }
    let refused = |records: &[String], says: &str| {
        let ended = merge(&folder, records, &[]);
        assert_eq!(ended.code, 2, "{ended:?}");
        let said = ended.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{ended:?}");
    };
    refused(&all[0][..1], "part 2 of 2 is missing; give the record of each part");
    refused(&[all[0][0].clone(), all[0][0].clone()], "part 1 is given twice");
    refused(&[all[0][0].clone(), all[1][1].clone()], "more than 1 s is too far");
    refused(&["nothing.jsonl".into()], "cannot read the run nothing.jsonl");
    let merged = merge(&folder, &all[0], &["--json"]);
    let object = &merged.objects()[0];
    assert_eq!(object["all"]["completed"], 60, "a number of requests is exact: {merged:?}");
    assert_eq!(object["header"]["load"]["closed"]["clients"], 2);
}

/// A part that is interrupted leaves what it has; the run is what both measured until then, and says so.
#[test]
fn a_part_that_ended_early_is_told_with_its_moment() {
    let _alone = alone();
    let (server, scratch) = (server(), Scratch::new());
    let url = format!("http://{}/1k", server.address());
    let (folders, place) = (folders(&scratch, 2), meeting_place());
    let begin = |nth: usize| {
        let part = format!("{}/2", nth + 1);
        let own = ["--part", &part, "--meet", &place, "--out", "part.jsonl"];
        // On a machine that is busy otherwise the first answer may take seconds.
        let load =
            ["measure", "http", &url, "--clients", "2", "--warmup", "0s", "--duration", "4s"];
        let load = [&load[..], &["--preflight", "30s"]].concat();
        start(&folders[nth], &[&load[..], &own].concat())
    };
    let (first, second) = (begin(0), begin(1));
    // The start lies 1.5 s after the last one has come.
    std::thread::sleep(std::time::Duration::from_secs(4));
    second.signal("INT");
    let second = second.ended(crate::command::PATIENCE);
    assert_eq!(second.code, 130, "{second:?}");
    assert_eq!(first.ended(crate::command::PATIENCE).code, 4);
    let merged = merge(&scratch.join(""), &records(&folders), &[]);
    assert_eq!(merged.code, 130, "{merged:?}");
    let said = merged.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("note: part 2 was interrupted, after "), "{merged:?}");
    assert!(said.contains("run all parts again for the whole"), "{merged:?}");
    // While a part waits, an interrupt ends it at once, and nothing is kept.
    let alone = begin(0);
    std::thread::sleep(std::time::Duration::from_secs(1));
    alone.signal("INT");
    let alone = alone.ended(crate::command::PATIENCE);
    assert_eq!(alone.code, 130, "{alone:?}");
}
