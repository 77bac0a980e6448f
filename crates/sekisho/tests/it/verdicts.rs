//! Verdicts of `check`, on records whose truth is known: 0 holds, 3 fails, 4 inconclusive, 5
//! invalid.

use std::time::Duration;

use measure::RunRecord;

use crate::browser::Scratch;
use crate::command::{Ended, sekisho};
use crate::records;

#[track_caller]
fn check(record: &RunRecord, limits: &[&str], json: bool) -> Ended {
    let scratch = Scratch::new();
    records::write(&scratch.join("run.jsonl"), record);
    let mut words = vec!["check", "run.jsonl"];
    limits.iter().for_each(|limit| words.extend(["--expect", limit]));
    words.extend(json.then_some("--json"));
    sekisho(&scratch.join(""), &words)
}

#[test]
fn check_tells_by_its_exit_code() {
    // 32 clients that never think see 32 times the mean work: 80.8 ms.
    let mut record = records::record(32);
    let mean = 32.0 * records::mean_cost();
    assert!((mean - 80.8e-3).abs() < 1e-12);
    let busy = {
        let mut record = record.clone();
        record.intervals.iter_mut().for_each(|i| i.generator.thread_cpu_s = vec![0.99]);
        record
    };
    for (record, limits, code, word) in [
        (&record, &["mean<100ms"][..], 0, "holds: "),
        (&record, &["mean<70ms"], 3, "fails: "),
        (&record, &["mean<80.8ms"], 4, "inconclusive: "),
        (&record, &["errors<1%", "rate>=300/s", "p99(100k)<200ms"], 0, "holds: "),
        (&record, &["mean<100ms", "p50<1ms"], 3, "fails: "),
        (&record, &["mean<80.8ms", "p50<1ms"], 3, "fails: "),
        (&record, &["mean(no such)<1s"], 4, "inconclusive: "),
        (&busy, &["mean<100ms"], 5, "invalid: "),
        (&busy, &["mean<70ms"], 5, "invalid: "),
    ] {
        let ended = check(record, limits, false);
        assert_eq!(ended.code, code, "{limits:?}: {ended:?}");
        assert!(ended.out.starts_with(word), "{limits:?}: {ended:?}");
        for limit in limits {
            assert!(ended.out.contains(&format!(": {limit}: ")), "{limits:?}: {ended:?}");
        }
        let object = &check(record, limits, true).objects()[0];
        assert_eq!(object["exit_code"], code, "{object}");
        assert_eq!(format!("{}: ", object["verdict"].as_str().unwrap()), word, "{object}");
        assert_eq!(
            object["expectations"][0]["line"].as_str().unwrap().split(": ").next(),
            Some(limits[0])
        );
    }
    // One that was cut off can be read all the same.
    record.intervals.truncate(30);
    assert_eq!(check(&record, &["mean<100ms"], false).code, 0);
}

/// The story: a run in which nothing was completed is off by an infinite share, of which the report
/// made no table, and `report` ended with an internal error.
#[test]
fn a_run_of_nothing_is_scored_and_reported() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    records::write(&folder.join("1.jsonl"), &records::record(1));
    records::write(&folder.join("32.jsonl"), &records::record(32));
    let mut nothing = records::record(8);
    for interval in &mut nothing.intervals {
        interval.classes.iter_mut().for_each(|class| *class = Default::default());
    }
    records::write(&folder.join("8.jsonl"), &nothing);
    let fit = ["fit", "1.jsonl", "32.jsonl", "--cores", "1", "--slots", "4"];
    assert_eq!(sekisho(&folder, &fit).code, 0);
    let ask = ["ask", "scenario.toml", "--clients", "8", "--out", "p.json"];
    assert_eq!(sekisho(&folder, &ask).code, 0);
    for words in [
        &["check", "8.jsonl", "--prediction", "p.json"][..],
        &["check", "8.jsonl", "--prediction", "p.json", "--json"],
        &["report", "8.jsonl", "p.json"],
    ] {
        let ended = sekisho(&folder, words);
        assert_eq!(ended.code, 5, "{words:?}: {ended:?}");
        assert!(!ended.out.contains("inf") && !ended.out.contains("NaN"), "{ended:?}");
    }
}

#[test]
fn several_runs_end_with_the_worst() {
    let scratch = Scratch::new();
    records::write(&scratch.join("1.jsonl"), &records::record(1));
    records::write(&scratch.join("32.jsonl"), &records::record(32));
    let words = ["check", "1.jsonl", "32.jsonl", "--expect", "mean<70ms"];
    let ended = sekisho(&scratch.join(""), &words);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.out.starts_with("holds: ") && ended.out.contains("\nfails: "), "{ended:?}");
}

/// The story: `measure` and `check` said that a run holds a limit for which the lag of the generator matters nothing, and
/// `report` and `runs` that the same run is invalid. Of the limits of own SQL neither knew, so that a run that failed
/// one was shown as valid.
#[test]
fn a_run_has_one_verdict_wherever_it_is_told() {
    let scratch = Scratch::new();
    let folder = scratch.join("");
    std::fs::create_dir_all(scratch.join(".sekisho/runs")).expect("a folder of our own");
    let path = scratch.join(".sekisho/runs/RUN.jsonl");
    let mut record = records::record(32);
    for interval in &mut record.intervals {
        (0..400).for_each(|_| interval.lag.record(Duration::from_millis(20)));
    }
    assert!(!record.is_valid(0.95), "without a limit the lag is a fault");
    let told = |record: &mut RunRecord, words: &str| {
        record.header.command =
            format!("sekisho measure {words}").split(' ').map(str::to_owned).collect();
        records::write(&path, record);
        let listed = sekisho(&folder, &["runs"]);
        let reported = sekisho(&folder, &["report", "--last"]);
        let verdicts = ["holds", "fails", "invalid", "valid"];
        let word = verdicts.into_iter().find(|word| listed.out.contains(&format!(" {word} ")));
        (word, reported.code)
    };
    let http = "http http://127.0.0.1:8080/ --clients 32 --expect";
    assert_eq!(told(&mut record, &format!("{http} mean<10s")), (Some("holds"), 0));
    assert_eq!(told(&mut record, &format!("{http} mean<100ms")), (Some("invalid"), 5));
    let mut record = records::record(32);
    let sql = "postgres shop.sql --clients 32 --expect mean<70ms";
    assert_eq!(told(&mut record, sql), (Some("fails"), 3));
}
