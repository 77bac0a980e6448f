//! The record of a search for a knee: what is kept of it, and what takes it.

use std::fs;
use std::time::Duration;

use measure::knee::{Knee, Outcome};
use serde_json::Value;

use crate::browser::{Scratch, open};
use crate::clockwork::Clockwork;
use crate::command::{Ended, sekisho};
use crate::records;
use crate::site::alone;

fn flat(text: &str) -> String {
    text.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The story: a search for a knee of three minutes left nothing behind it. `--out` and `--expect` were taken, and
/// nothing was written nor held.
#[test]
fn a_knee_that_was_found_is_kept_and_told_again() {
    let _alone = alone();
    let (server, scratch) = (Clockwork::start(5, Duration::from_millis(10)), Scratch::new());
    let folder = scratch.join("");
    let url = format!("http://{}/", server.address());
    let words =
        ["measure", "http", &url, "--knee", "p90<50ms", "--arrivals", "fixed", "--preflight"];
    let short = ["30s", "--duration", "500ms", "--budget", "20s", "--expect", "knee>=1/s"];
    let line = [&words[..], &short].concat();
    let found = sekisho(&folder, &line);
    // A machine on which no rate was seen to hold tells no knee of at least one a second.
    assert!([0, 4].contains(&found.code), "{found:?}");
    let record = found.after("recorded").to_owned();
    assert!(record.ends_with(".knee.json"), "{found:?}");
    assert!(flat(&found.out).contains(": knee>=1/s: "), "{found:?}");
    let kept: Value =
        serde_json::from_str(&fs::read_to_string(folder.join(&record)).expect("it was written"))
            .expect("it is a line of JSON");
    let search = &kept["search"];
    let probes = search["probes"].as_array().expect("there are probes");
    let row = |nth: usize| {
        let is_of = |line: &str| line.split_whitespace().next() == Some(&nth.to_string());
        found.out.lines().any(is_of)
    };
    assert!(row(1) && row(probes.len()) && probes.len() > 3, "{found:?}");
    for end in search["ends"].as_array().expect("a list") {
        let rate = &end["header"]["load"]["fixed"]["rate"];
        assert!(probes.iter().any(|probe| probe["probe"]["rate"] == *rate), "{rate}");
    }
    // As it was typed: the limit is one of the record.
    let listed = sekisho(&folder, &["runs"]);
    assert!(flat(&listed.out).contains("knee of p90<50ms: "), "{listed:?}");
    let word = found.out.split(':').next().expect("a verdict");
    assert!(listed.out.contains(word), "{word}: {listed:?}");
    let checked = sekisho(&folder, &["check", "--last", "--expect", "knee>=1/s"]);
    assert_eq!(checked.code, found.code, "{checked:?}");
    let high = sekisho(&folder, &["check", "--last", "--expect", "knee>=1000000/s"]);
    assert!([3, 4].contains(&high.code), "{high:?}");
    let reported = sekisho(&folder, &["report", "--last"]);
    assert_eq!(reported.code, found.code, "{reported:?}");
    assert!(reported.out.starts_with(word), "{word}: {reported:?}");
    let page = open(&folder.join("report.html"), (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    assert!(page.dom.contains("Knee of p90&lt;50ms"), "the page tells the knee");
}

/// A search in a folder, as a file of its own.
fn stored(scratch: &Scratch, name: &str, low: f64, high: f64) -> String {
    let mut knee = records::knee();
    knee.header.id = name.to_owned();
    knee.knee = Knee::Between { low, high };
    // What is said of the ends is what probes have said.
    for probe in &mut knee.probes {
        probe.probe.rate = if probe.outcome == Outcome::Holds { low } else { high };
    }
    let path = scratch.join(&format!("{name}.knee.json"));
    records::write_knee(&path, &knee);
    path.display().to_string()
}

fn checks(scratch: &Scratch, words: &[&str], code: i32, says: &str) -> Ended {
    let ended = sekisho(&scratch.join(""), &[&["check"], words].concat());
    assert_eq!(ended.code, code, "{words:?}: {ended:?}");
    let said = format!("{} {}", flat(&ended.out), flat(&ended.err));
    assert!(said.contains(says), "{words:?}: {said}");
    ended
}

#[test]
fn a_knee_is_held_against_limits_and_earlier_ones() {
    let scratch = Scratch::new();
    let knee = stored(&scratch, "now", 200.0, 220.0);
    let known = "p99<50ms holds at 200 /s and fails at 220 /s";
    for (limit, code) in [
        ("knee>=200/s", 0),
        ("knee>=201/s", 4),
        ("knee>=220/s", 3),
        ("knee<220/s", 0),
        ("knee<200/s", 3),
    ] {
        checks(&scratch, &[&knee, "--expect", limit], code, &format!("{limit}: {known}"));
    }
    let files = ["--junit", "j.xml", "--markdown", "m.md"];
    checks(&scratch, &[&[&*knee, "--expect", "knee>=220/s"], &files[..]].concat(), 3, "fails");
    let junit = fs::read_to_string(scratch.join("j.xml")).expect("it was written");
    assert!(junit.contains("<failure message=\"knee&gt;=220/s: p99&lt;50ms holds at"), "{junit}");
    for (name, low, high, code, says) in [
        ("same", 200.0, 205.0, 0, "no lower for all that matters"),
        ("near", 210.0, 230.0, 4, "not clear"),
        ("lower", 100.0, 110.0, 0, "higher"),
        ("higher", 300.0, 330.0, 3, "lower"),
    ] {
        let other = stored(&scratch, name, low, high);
        checks(&scratch, &[&knee, "--against", &other], code, says);
    }
    let run = scratch.join("run.jsonl");
    records::write(&run, &records::record(1));
    let run = run.display().to_string();
    checks(&scratch, &[&knee, &run, "--expect", "knee>=1/s"], 2, "so check them apart");
    checks(&scratch, &[&knee, "--expect", "p99<1s"], 2, "a search for a knee has many");
    checks(&scratch, &[&run, "--expect", "knee>=1/s"], 2, "a run is at one load");
    checks(&scratch, &[&knee, "--expect", "knee(a)>=1/s"], 2, "a knee is one of all documents");
    fs::write(scratch.join("cut.knee.json"), "{\"sekisho-knee\":1,\"search\":{\"hea")
        .expect("ours");
    checks(&scratch, &["cut.knee.json", "--expect", "knee>=1/s"], 2, "cut.knee.json: line 1");
    let fitted = sekisho(&scratch.join(""), &["fit", &knee]);
    assert_eq!(fitted.code, 2, "{fitted:?}");
    assert!(flat(&fitted.err).contains("the record of a search for a knee"), "{fitted:?}");
}

#[test]
fn what_one_run_alone_has_is_refused_before_a_search() {
    let scratch = Scratch::new();
    let base = ["measure", "http", "http://127.0.0.1:1/", "--no-preflight"];
    for (words, says) in [
        (&["--knee", "p99<1s", "--csv", "x.csv"][..], "a search for a knee has many"),
        (&["--knee", "p99<1s", "--hlog", "x.hlog"], "a search for a knee has many"),
        (&["--knee", "p99<1s", "--expect", "p99<1s"], "such as 'knee>=400/s'"),
        (&["--clients", "1", "--expect", "knee>=1/s"], "a run is at one load"),
    ] {
        let refused = sekisho(&scratch.join(""), &[&base[..], words].concat());
        assert_eq!(refused.code, 2, "{words:?}: {refused:?}");
        assert!(flat(&refused.err).contains(says), "{words:?}: {refused:?}");
    }
}
