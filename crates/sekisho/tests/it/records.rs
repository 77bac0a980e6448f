//! Run records without a run: what a generator would have recorded of a closed loop on a server whose
//! truth is known, so that verbs can be judged on every machine alike.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use measure::knee::{Knee, KneeSpec, Outcome, Probe};
use measure::{
    ClassCounts, ClassSpec, GeneratorHealth, Histogram, Host, Interval, KneeLimit, KneeRecord,
    LoadShape, ProbeRecord, RunHeader, RunRecord, RunSummary, RunWriter, Seen, Until,
};
use solve::SaturatedLoop;

use crate::browser::Scratch;

/// Documents that are asked for: name, bytes, weight.
pub(crate) const DOCUMENTS: [(&str, u64, u32); 3] =
    [("1k", 1_000, 10), ("20k", 20_000, 5), ("100k", 100_000, 5)];
/// Cost of a request to the server \[s/byte\], \[s\].
pub(crate) const COST: (f64, f64) = (50e-9, 1e-3);
/// The slots of the server.
pub(crate) const SLOTS: u32 = 4;

/// The work of a request for so many bytes \[s\].
pub(crate) fn cost(bytes: u64) -> f64 {
    COST.0 * bytes as f64 + COST.1
}

/// The mean work of a request \[s\].
pub(crate) fn mean_cost() -> f64 {
    let weights: u32 = DOCUMENTS.iter().map(|(.., weight)| weight).sum();
    let sum: f64 = DOCUMENTS.iter().map(|(_, b, weight)| f64::from(*weight) * cost(*b)).sum();
    sum / f64::from(weights)
}

/// A minute with `clients` clients that never think, in intervals of 1 s.
pub(crate) fn record(clients: u32) -> RunRecord {
    RunRecord {
        header: header(clients),
        intervals: (0..60).map(|second| interval(second, clients)).collect(),
        summary: Some(RunSummary { elapsed_s: 60.0, interrupted: false, warnings: Vec::new() }),
    }
}

/// A search for a knee that holds 200 a second and fails 220.
pub(crate) fn knee() -> KneeRecord {
    let load = |rate| LoadShape::Poisson { rate, in_flight_max: 10_000 };
    let of = |rate, id: &str| {
        let mut run = record(32);
        run.header.load = load(rate);
        run.header.id = format!("20261120T114000-000knee{id}");
        run
    };
    let words = ["sekisho", "measure", "http", "http://127.0.0.1:8080/", "--knee", "p99<50ms"];
    let mut header = of(200.0, "").header;
    header.command = words.map(str::to_owned).to_vec();
    let probe = |rate, outcome| {
        let late = if outcome == Outcome::Fails { 400 } else { 2 };
        let (quantile_s, interval_s) = (Some(rate * 2e-4), Some([rate * 1.9e-4, rate * 2.1e-4]));
        let seen = Seen { answered: 1000, late, failed: 0, quantile_s, interval_s };
        ProbeRecord { probe: Probe { rate, effort: 1 }, outcome, seen: Some(seen) }
    };
    KneeRecord {
        header,
        limit: KneeLimit { text: "p99<50ms".into(), quantile: 0.99, response_s: 0.05 },
        spec: KneeSpec { budget_s: 180.0, ..KneeSpec::for_limit(0.99, 0.05) },
        knee: Knee::Between { low: 200.0, high: 220.0 },
        elapsed_s: 120.0,
        broken: None,
        interrupted: false,
        probes: vec![
            probe(100.0, Outcome::Holds),
            probe(400.0, Outcome::Fails),
            probe(200.0, Outcome::Holds),
            probe(220.0, Outcome::Fails),
            probe(220.0, Outcome::Fails),
            probe(200.0, Outcome::Holds),
        ],
        ends: vec![of(200.0, "-holds").into(), of(220.0, "-fails").into()],
    }
}

/// Writes the record of a search for a knee.
pub(crate) fn write_knee(path: &Path, knee: &KneeRecord) {
    let mut text = Vec::new();
    measure::write_knee(&mut text, knee).expect("it can be read back");
    fs::write(path, text).expect("a folder of our own");
}

fn header(clients: u32) -> RunHeader {
    let class = |&(name, bytes, weight): &(&str, u64, u32)| ClassSpec {
        name: name.into(),
        bytes: Some(bytes),
        weight,
    };
    RunHeader {
        id: format!("20261120T113000-{clients:03}"),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "sekisho 0.1.0".into(),
        command: vec!["sekisho".into(), "measure".into()],
        seed: 1,
        host: Host { name: "nowhere".into(), cpus: 2, ..Host::default() },
        target: "http://127.0.0.1:8080/".into(),
        load: LoadShape::Closed { clients, think_s: 0.0 },
        until: Until::Seconds(60.0),
        warmup_s: 0.0,
        classes: DOCUMENTS.iter().map(class).collect(),
        settings: [("idle".into(), "sleep".into())].into(),
        part: None,
        merged: Vec::new(),
    }
}

fn interval(second: u32, clients: u32) -> Interval {
    let model = SaturatedLoop::new(clients, SLOTS, mean_cost()).expect("it is a loop");
    let mut classes = Vec::new();
    let mut in_flight_s = 0.0;
    for (index, (_, bytes, weight)) in DOCUMENTS.iter().enumerate() {
        // Twenty shuffled decks fill a second; no two seconds are quite alike.
        let wobble = 1.0 + 0.03 * (f64::from(second) * 2.4 + index as f64).sin();
        let response = model.response_given(cost(*bytes)).expect("a demand") * wobble;
        let mut counts = ClassCounts { completed: u64::from(20 * weight), ..Default::default() };
        let mut total = Histogram::new();
        (0..counts.completed).for_each(|_| total.record(Duration::from_secs_f64(response)));
        in_flight_s += response * counts.completed as f64;
        counts.bytes = counts.completed * bytes;
        counts.first_byte = total.clone();
        counts.total = total;
        classes.push(counts);
    }
    Interval {
        start_s: f64::from(second),
        length_s: 1.0,
        started: classes.iter().map(|class| class.completed).sum(),
        classes,
        in_flight_mean: in_flight_s,
        connects: 0,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.1] },
    }
}

/// Writes a record as `measure` does.
pub(crate) fn write(path: &Path, record: &RunRecord) {
    let file = File::create(path).expect("the folder is there");
    let mut writer = RunWriter::new(file, &record.header).expect("the disk has room");
    for interval in &record.intervals {
        writer.interval(interval).expect("the disk has room");
    }
    let summary = record.summary.as_ref().expect("it has a summary");
    writer.finish(summary).expect("the disk has room");
}

/// Reads a record that the program wrote.
pub(crate) fn read(path: &Path) -> RunRecord {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    measure::read_run(std::io::BufReader::new(file)).expect("the program writes what it reads")
}

/// The tests of the Python package read these records too, whose truth is known.
#[test]
fn the_records_that_python_reads_are_these() {
    let scratch = Scratch::new();
    for clients in [1, 32] {
        let name = format!("{clients}.jsonl");
        let made = scratch.join(&name);
        write(&made, &record(clients));
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests").join(&name);
        if std::fs::read(&kept).ok() != std::fs::read(&made).ok() {
            let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
            std::fs::copy(&made, &new).expect("a folder of our own");
            panic!("python/tests/{name} is another; cp {} python/tests/", new.display());
        }
    }
}
