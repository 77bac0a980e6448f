//! The loop on the command line, from a server behind a real gate to the report: measure, fit,
//! ask, check, report.

use std::fs;
use std::time::Duration;

use advise::Scenario;
use measure::RunRecord;

use crate::browser::{Scratch, open};
use crate::clockwork::Clockwork;
use crate::command::{Ended, sekisho};
use crate::records::{self, COST, DOCUMENTS, SLOTS, cost};
use crate::site::{Recorded, alone, write_documents};

/// The share of a second of processor time that a run's completed requests needed in a second.
fn busy(record: &RunRecord) -> f64 {
    let length: f64 = record.steady().iter().map(|interval| interval.length_s).sum();
    let work: f64 = record
        .steady()
        .iter()
        .flat_map(|interval| interval.classes.iter().zip(DOCUMENTS))
        .map(|(class, (_, bytes, _))| class.completed as f64 * cost(bytes))
        .sum();
    work / length
}

#[track_caller]
fn valid_or_not(ended: &Ended) {
    assert!([0, 5].contains(&ended.code), "{ended:?}");
}

/// A server that keeps time: what else runs on the machine does not make its work longer. It is four
/// times as slow as the costs say, so that what the machine adds counts for little.
const SLOWER: f64 = 4.0;

#[test]
fn from_measurement_to_report() {
    let live = alone();
    let scratch = Scratch::new();
    let folder = scratch.join("");
    write_documents(&folder.join("set.toml"));
    let server = Clockwork::shared(|bytes| Duration::from_secs_f64(SLOWER * cost(bytes)));
    let site = Recorded::before(server.address(), SLOTS);
    let url = site.url();
    let measure = |clients: &str| {
        let words = ["measure", "http", &url, "--documents", "set.toml", "--clients", clients];
        let length = ["--duration", "3s", "--warmup", "500ms"];
        let measured = sekisho(&folder, &[&words[..], &length].concat());
        valid_or_not(&measured);
        assert!(!measured.out.contains("failed: "), "{measured:?}");
        measured
    };
    let measured = measure("1,16");
    let runs = measured.out.split_whitespace().filter(|word| word.ends_with(".jsonl"));
    let runs: Vec<&str> = runs.take(2).collect();
    let words = ["fit", runs[0], runs[1], "--cores", "1", "--slots", "4", "--out", "fitted.toml"];
    let fitted = sekisho(&folder, &words);
    assert_eq!(fitted.code, 0, "{fitted:?}");
    assert!(fitted.out.starts_with("fits: a request for x bytes costs"), "{fitted:?}");
    let later = measure("8").after("recorded").to_owned();
    drop(live);
    let finished = site.stop();
    assert!(finished.recording.expect("it was recorded").replay().is_ok());

    // One processor cannot give more than a second of work a second.
    let busiest: Vec<f64> =
        runs.iter().map(|run| SLOWER * busy(&records::read(&folder.join(run)))).collect();
    assert!(busiest.iter().all(|busy| (0.01..=1.05).contains(busy)), "{busiest:?}");

    let text = fs::read_to_string(folder.join("fitted.toml")).expect("it was written");
    let scenario: Scenario = toml::from_str(&text).expect("`fit` writes what can be read");
    let calibration = scenario.calibration.expect("it was fitted");
    // A machine that is busy with other things sends larger answers later; twice the truth is beyond it.
    let per_byte = calibration.parameters["per-byte"].value;
    assert!((0.75..1.5).contains(&(per_byte / (SLOWER * COST.0))), "{per_byte}: {fitted:?}");

    let words = ["ask", "fitted.toml", "--clients", "8,24", "--slots", "4,12", "--out", "p.json"];
    let asked = sekisho(&folder, &words);
    assert_eq!(asked.code, 0, "{asked:?}");
    assert!(asked.out.starts_with("answered: most throughput at "), "{asked:?}");
    assert!(asked.out.contains("beyond the calibration: 24 clients"), "{asked:?}");
    assert!(
        asked.out.contains("8c 4r") && asked.out.contains("c are clients and r slots"),
        "{asked:?}"
    );
    let words = ["check", &later, "--prediction", "p.json"];
    let unclear = sekisho(&folder, &[&words[..], &["--slots", "5"]].concat());
    assert_eq!(unclear.code, 2, "{unclear:?}");
    assert!(unclear.err.contains("it speaks of 8 clients"), "{unclear:?}");
    let checked = sekisho(&folder, &[&words[..], &["--slots", "4"]].concat());
    assert!([0, 3, 4, 5].contains(&checked.code), "{checked:?}");
    for wanted in ["throughput", "mean response", "100k", "formula", "simulated", "  next: "] {
        assert!(checked.out.contains(wanted), "no `{wanted}`: {checked:?}");
    }

    let words = ["report", runs[0], runs[1], &later, "p.json", "--out", "report.html"];
    let reported = sekisho(&folder, &words);
    assert!([0, 3, 4, 5].contains(&reported.code), "{reported:?}");
    let page = open(&folder.join("report.html"), (1200, 900));
    assert_eq!(page.root_data("errors"), Some("0"), "{:?}", page.script_messages());
    let figures = page.dom.matches("<figure ").count();
    assert!(figures >= 4, "only {figures} figures");
    assert_eq!(page.root_data("figures"), Some(figures.to_string().as_str()));
}
