//! The record of a search for a knee: what is kept of it, and what takes it.

use std::fs;
use std::time::Duration;

use measure::knee::{Knee, Outcome, Why};
use serde_json::Value;

use crate::browser::{Scratch, open};
use crate::clockwork::Clockwork;
use crate::command::{Ended, sekisho};
use crate::records;
use crate::site::alone;
use crate::walks::fits_a_phone;

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
    let short = ["30s", "--duration", "500ms", "--budget", "10s", "--expect", "knee>=1/s"];
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

/// The story: of a search whose time was used up each end had been seen once, the one by a bad moment of the machine, and
/// a limit on the knee held by it, also in `runs`, on the page and against another search.
#[test]
fn an_end_that_was_seen_once_decides_nothing() {
    let scratch = Scratch::new();
    let mut knee = records::knee();
    knee.header.id = "once".into();
    knee.header.command.extend(["--expect", "knee>=100/s"].map(str::to_owned));
    knee.knee = Knee::Inconclusive { low: Some(200.0), high: Some(220.0), why: Why::Budget };
    // 100 and 200 hold, 220 and 400 fail: two hold at 100 or beyond it, one at 200.
    knee.probes.truncate(4);
    let folder = scratch.join(".sekisho/runs");
    fs::create_dir_all(&folder).expect("ours");
    let path = folder.join("once.knee.json");
    records::write_knee(&path, &knee);
    let once = path.display().to_string();
    let known = "p99<50ms holds at 200 /s (seen once) and fails at 220 /s (seen once)";
    for (limit, code) in [
        ("knee>=100/s", 0),
        ("knee>=101/s", 4),
        ("knee>=220/s", 4),
        ("knee>=400/s", 3),
        ("knee<220/s", 4),
        ("knee<400/s", 0),
    ] {
        checks(&scratch, &[&once, "--expect", limit], code, &format!("{limit}: {known}"));
    }
    let earlier = stored(&scratch, "earlier", 300.0, 310.0);
    checks(&scratch, &[&once, "--against", &earlier], 4, "0.66 times (0.32 to 1.33): not clear");
    let listed = sekisho(&scratch.join(""), &["runs"]);
    assert!(listed.out.contains("holds"), "{listed:?}");
    // One probe at each end.
    knee.probes.retain(|probe| [200.0, 220.0].contains(&probe.probe.rate));
    records::write_knee(&path, &knee);
    checks(&scratch, &[&once, "--expect", "knee>=1/s"], 4, &format!("knee>=1/s: {known}"));
    let unseen = "not both ends were seen twice in both";
    checks(&scratch, &[&once, "--against", &earlier], 4, unseen);
    let listed = sekisho(&scratch.join(""), &["runs"]);
    assert!(listed.out.contains("inconclusive"), "{listed:?}");
    let reported = sekisho(&scratch.join(""), &["report", &once]);
    assert_eq!(reported.code, 4, "{reported:?}");
    fits_a_phone(&scratch, "report.html");
    // Of a search alone nothing is fitted, and `--last` says what is there.
    let fitted = sekisho(&scratch.join(""), &["fit", "--last"]);
    assert_eq!(fitted.code, 2, "{fitted:?}");
    let said = flat(&fitted.err);
    for wanted in [
        "only searches for a knee are stored",
        "sekisho measure http http://127.0.0.1:8080/ --clients 1,4,16",
        "sekisho report .sekisho/runs/once.knee.json",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // A record that says more than its probes is none.
    knee.knee = Knee::Between { low: 200.0, high: 220.0 };
    let search = serde_json::to_string(&knee).expect("it is data");
    fs::write(&path, format!("{{\"sekisho-knee\":1,\"search\":{search}}}\n")).expect("ours");
    checks(&scratch, &[&once, "--expect", "knee>=1/s"], 2, "no two probes say so of 200/s");
}

/// The story: of a server that was overloaded the next probe measured what the last had left. Nothing was answered, which
/// was taken for too few requests, and the search went on doubling, to a million requests a second.
#[test]
fn a_search_with_short_probes_does_not_climb_beyond_overload() {
    let _alone = alone();
    let (server, scratch) = (Clockwork::start(5, Duration::from_millis(10)), Scratch::new());
    let url = format!("http://{}/", server.address());
    let words = ["measure", "http", &url, "--knee", "p90<50ms", "--preflight", "30s"];
    let short = ["--arrivals", "fixed", "--duration", "500ms", "--budget", "10s", "--json"];
    let found = sekisho(&scratch.join(""), &[&words[..], &short].concat());
    assert!([0, 4].contains(&found.code), "{found:?}");
    let object = found.objects().remove(0);
    let probes = object["probes"].as_array().expect("there are probes");
    let highest =
        probes.iter().filter_map(|probe| probe["rate_per_s"].as_f64()).fold(0.0, f64::max);
    // It serves 500 a second; twice, and with a machine that is late eight times as many are seen to wait.
    assert!(highest < 8.0 * 500.0, "{object}");
    let low = object["knee_low_per_s"].as_f64().unwrap_or(0.0);
    assert!(low <= 500.0, "{object}");
    let refused = sekisho(
        &scratch.join(""),
        &["measure", "http", &url, "--knee", "p90<50ms", "--duration", "199ms"],
    );
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(flat(&refused.err).contains("say at least `--duration 200ms`"), "{refused:?}");
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
