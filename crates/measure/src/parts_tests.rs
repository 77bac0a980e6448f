//! Parts of a run and what one process records of it: the same requests, shared out.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::{ErrorKind, Fault, GeneratorLimit};

const START_US: i64 = 1_800_000_000_000_000;
/// Intervals of a second; the first is the warm-up.
const INTERVALS: usize = 12;

fn header(threads: u32) -> RunHeader {
    RunHeader {
        id: "run".into(),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "sekisho 0.1.0".into(),
        command: Vec::new(),
        seed: 7,
        host: Host { name: "one".into(), ..Host::default() },
        target: "http://10.0.0.1/".into(),
        load: LoadShape::Poisson { rate: 400.0, in_flight_max: 1000 },
        until: Until::Seconds(11.0),
        warmup_s: 1.0,
        classes: ["small", "large"]
            .map(|name| ClassSpec { name: name.into(), bytes: Some(9), weight: 1 })
            .into(),
        settings: [("idle", "sleep"), ("threads", &threads.to_string())]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        part: None,
        merged: Vec::new(),
    }
}

fn empty(threads: u32) -> RunRecord {
    let interval = |at: usize| Interval {
        start_s: at as f64,
        length_s: 1.0,
        classes: vec![ClassCounts::default(); 2],
        in_flight_mean: 0.0,
        started: 0,
        connects: 0,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.0; threads as usize] },
    };
    RunRecord {
        header: header(threads),
        intervals: (0..INTERVALS).map(interval).collect(),
        summary: Some(RunSummary {
            elapsed_s: INTERVALS as f64,
            interrupted: false,
            warnings: Vec::new(),
        }),
    }
}

/// One run, and the same requests shared among parts, each with a thread.
fn run_and_parts(of: u32) -> (RunRecord, Vec<RunRecord>) {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut whole = empty(of);
    let mut parts: Vec<RunRecord> = (0..of).map(|_| empty(1)).collect();
    for (nth, part) in parts.iter_mut().enumerate() {
        part.header.host.name = format!("machine {}", nth + 1);
        part.header.part = Some(PartRecord {
            part: format!("{}/{of}", nth + 1).parse().unwrap(),
            start_us: START_US,
            clock_error_s: 1e-4,
            late_s: 2e-5,
        });
    }
    for _ in 0..4_800 {
        let at = chance.random_range(0..INTERVALS);
        let (part, class) = (chance.random_range(0..of) as usize, chance.random_range(0..2));
        let response = Duration::from_micros(chance.random_range(5_000..60_000));
        let lag = Duration::from_micros(chance.random_range(1..90));
        let failed = chance.random_bool(0.02);
        for (record, thread) in [(&mut whole, part), (&mut parts[part], 0)] {
            let interval = &mut record.intervals[at];
            let counts = &mut interval.classes[class];
            match failed {
                true => *counts.errors.entry(ErrorKind::Timeout).or_default() += 1,
                false => {
                    counts.completed += 1;
                    counts.bytes += 200;
                    counts.total.record(response);
                    counts.first_byte.record(response / 2);
                }
            }
            // Powers of two add up exactly, in any order.
            interval.in_flight_mean += 0.125;
            interval.generator.thread_cpu_s[thread] += 0.000_976_562_5;
            interval.started += 1;
            interval.connects += u64::from(failed);
            interval.lag.record(lag);
        }
    }
    (whole, parts)
}

fn text(record: &RunRecord) -> String {
    let intervals = record.intervals.iter().map(|one| serde_json::to_string(one).unwrap());
    let summary = serde_json::to_string(&record.summary).unwrap();
    intervals.collect::<Vec<_>>().join("\n") + &summary
}

#[test]
fn parts_merge_into_what_one_process_records() {
    for of in [2, 3, 5] {
        let (whole, parts) = run_and_parts(of);
        let merged = RunRecord::merge(&parts).unwrap();
        let names: Vec<&str> =
            merged.header.merged.iter().map(|part| part.host.name.as_str()).collect();
        assert_eq!(names, (1..=of).map(|n| format!("machine {n}")).collect::<Vec<_>>());
        assert_eq!(text(&merged), text(&whole), "{of} parts");
        let (one, all) = (whole.judge(0.95), merged.judge(0.95));
        assert_eq!((one.all, one.faults), (all.all, all.faults), "and so it is judged");
    }
}

#[test]
fn the_order_of_the_parts_does_not_matter() {
    let (_, parts) = run_and_parts(3);
    let one = RunRecord::merge(&parts).unwrap();
    for order in [[1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        let turned = order.map(|at: usize| parts[at].clone());
        assert_eq!(RunRecord::merge(&turned).unwrap(), one);
    }
}

#[test]
fn a_merged_record_and_a_part_are_read_as_they_were_written() {
    let (_, parts) = run_and_parts(2);
    for record in [parts[1].clone(), RunRecord::merge(&parts).unwrap()] {
        let mut writer = crate::RunWriter::new(Vec::new(), &record.header).unwrap();
        record.intervals.iter().for_each(|interval| writer.interval(interval).unwrap());
        let bytes = writer.finish(record.summary.as_ref().unwrap()).unwrap();
        assert_eq!(crate::read_run(&bytes[..]).unwrap(), record);
    }
}

fn refused(change: impl FnOnce(&mut Vec<RunRecord>)) -> String {
    let (_, mut parts) = run_and_parts(3);
    change(&mut parts);
    RunRecord::merge(&parts).unwrap_err().to_string()
}

#[test]
fn what_are_not_the_parts_of_one_run_is_refused() {
    let says = |text: String, words: &str| assert!(text.contains(words), "{text}");
    says(refused(Vec::clear), "no record");
    says(refused(|parts| parts.truncate(1)), "parts 2, 3 of 3 are missing");
    says(refused(|parts| drop(parts.remove(1))), "part 2 of 3 is missing");
    says(refused(|parts| parts[2] = parts[0].clone()), "part 1 is given twice");
    says(refused(|parts| parts[1].header.part = None), "record 2 is of a whole run");
    says(
        refused(|parts| parts[1].header.seed = 12),
        "parts 1 and 2 are not of one run: the seed is 7 in the one and 12 in the other",
    );
    says(refused(|parts| parts[2].header.target = "http://b/".into()), "the target is http://10");
    says(refused(|parts| parts[1].header.tool = "sekisho 9".into()), "the version of sekisho is");
    says(refused(|parts| parts[1].header.warmup_s = 2.0), "the warm-up is 1 s in the one");
    says(
        refused(|parts| parts[1].header.until = Until::Requests(9)),
        "the end is after 11 s in the one and after 9 r",
    );
    let rate = |parts: &mut Vec<RunRecord>| {
        parts[2].header.load = LoadShape::Poisson { rate: 500.0, in_flight_max: 1000 };
    };
    says(refused(rate), "the rate is 400/s (poisson) in the one and 500/s (poisson)");
    let clients = |parts: &mut Vec<RunRecord>| {
        parts[2].header.load = LoadShape::Closed { clients: 4, think_s: 0.0 };
    };
    says(refused(clients), "the load is open in the one and closed in the other");
    says(refused(|parts| parts[2].header.classes[1].weight = 3), "small x1, large x3");
    let threads = |parts: &mut Vec<RunRecord>| {
        parts[1].header.settings.insert("threads".into(), "4".into());
    };
    says(refused(threads), "the threads is 1 in the one and 4 in the other");
    // A setting that only one of them has moved all behind it: `the idle is sleep in the one and 2 in the other`.
    let version = |parts: &mut Vec<RunRecord>| {
        parts[1].header.settings.insert("http-version".into(), "2".into());
    };
    says(refused(version), "the http-version is not said in the one and 2 in the other");
    let size = |parts: &mut Vec<RunRecord>| {
        parts[0].header.part.as_mut().unwrap().part = "1/2".parse().unwrap();
    };
    says(refused(size), "number of parts is 2 in the one and 3 in the other");
    says(refused(|parts| parts[1].intervals.clear()), "part 2 ended before its first interval");
    let moved = |parts: &mut Vec<RunRecord>| parts[1].intervals[4].start_s = 4.5;
    says(refused(moved), "interval 5 of part 2 begins at 4.50 s and not at 4.00 s");
    // Bound to other processors, and answered with another size, it is the same run.
    let (_, mut parts) = run_and_parts(2);
    parts[1].header.settings.insert("cpus".into(), "3".into());
    parts[1].header.classes[0].bytes = None;
    let sizes = RunRecord::merge(&parts).unwrap().header.classes;
    assert_eq!((sizes[0].bytes, sizes[1].bytes), (None, Some(9)));
}

#[test]
fn parts_that_did_not_begin_together_are_refused() {
    let shift = |change: fn(&mut PartRecord)| {
        let (_, mut parts) = run_and_parts(3);
        change(parts[1].header.part.as_mut().unwrap());
        RunRecord::merge(&parts).map(drop)
    };
    assert_eq!(shift(|part| part.late_s = 0.9), Ok(()));
    let late = shift(|part| part.late_s = 1.1).unwrap_err();
    assert!(matches!(late, MergeError::Apart { one: 1, other: 2, .. }), "{late}");
    assert!(shift(|part| part.start_us += 3_600_000_000).is_err());
    assert!(shift(|part| part.start_us = i64::MIN).is_err());
    assert!(shift(|part| part.clock_error_s = 2.0).is_err());
    assert!(shift(|part| part.clock_error_s = f64::NAN).is_err());
}

#[test]
fn a_run_is_as_complete_as_its_least_complete_part() {
    let ended = |change: fn(&mut RunRecord)| {
        let (_, mut parts) = run_and_parts(2);
        // 6.4 s: the seventh interval is cut.
        parts[1].intervals.truncate(7);
        parts[1].intervals[6].length_s = 0.4;
        parts[1].summary.as_mut().unwrap().elapsed_s = 6.4;
        change(&mut parts[1]);
        let merged = RunRecord::merge(&parts).unwrap();
        assert_eq!(merged.intervals.len(), 6, "in which both ran in full");
        let summary = merged.summary.unwrap();
        assert!(summary.interrupted && summary.elapsed_s == 6.0);
        summary.warnings.join("; ")
    };
    let interrupted = ended(|part| part.summary.as_mut().unwrap().interrupted = true);
    assert!(interrupted.starts_with("part 2 was interrupted, after 6.4"), "{interrupted}");
    assert!(interrupted.contains("run all parts again"), "{interrupted}");
    let killed = ended(|part| part.summary = None);
    assert!(killed.starts_with("part 2 was cut off, after 6.4"), "{killed}");
    let lost = ended(|part| {
        part.summary.as_mut().unwrap().warnings.push("the server is lost".into());
    });
    assert!(lost.starts_with("part 2 ended before its time, after 6.4"), "{lost}");
    assert!(lost.ends_with("part 2: the server is lost"), "{lost}");
}

/// A run of so many requests ends when each part has made its share; until then the others go on.
#[test]
fn parts_of_a_number_of_requests_end_one_after_the_other() {
    let (_, mut parts) = run_and_parts(2);
    parts[1].intervals.truncate(11);
    let share = ended(&parts[1]);
    assert!(ended(&parts[0]) > share);
    for part in &mut parts {
        part.header.until = Until::Requests(2 * share);
    }
    parts[1].intervals[10].length_s = 0.5;
    parts[1].intervals[10].in_flight_mean = 4.0;
    parts[0].intervals[10].in_flight_mean = 3.0;
    parts[1].summary.as_mut().unwrap().elapsed_s = 10.5;
    let merged = RunRecord::merge(&parts).unwrap();
    assert_eq!(merged.intervals.len(), INTERVALS);
    assert_eq!(merged.intervals[10].in_flight_mean, 5.0, "half of it is 2 over the whole");
    assert_eq!(merged.intervals[11].generator.thread_cpu_s.len(), 2);
    let summary = merged.summary.unwrap();
    assert!(!summary.interrupted && summary.elapsed_s == 12.0 && summary.warnings.is_empty());

    // One that made less than its share (its server was lost) was taken for whole.
    for part in &mut parts {
        part.header.until = Until::Requests(2 * share + 2);
    }
    let summary = RunRecord::merge(&parts).unwrap().summary.unwrap();
    assert!(summary.interrupted);
    let told = summary.warnings.join("; ");
    assert!(told.starts_with("part 2 ended before its time, after 10.5"), "{told}");
}

/// A part begins its share of the rate, which is no fault of its generator; less than that is one.
#[test]
fn a_part_is_judged_by_its_share_of_the_rate() {
    let (_, mut parts) = run_and_parts(2);
    let slow = |record: &RunRecord| {
        let is = |one: &Fault| matches!(one, Fault::Generator(GeneratorLimit::Starts { .. }));
        record.judge(0.95).faults.iter().any(is)
    };
    assert!(!slow(&parts[0]) && !slow(&parts[1]));
    parts[1].intervals.iter_mut().for_each(|one| one.started = one.started * 3 / 4);
    assert!(slow(&parts[1]));
}

/// Of twenty parts one has a p99 of a second, and the lag of all has one of less than 0.1 ms.
#[test]
fn each_part_must_have_kept_up() {
    let (_, mut parts) = run_and_parts(20);
    let merged = |parts: &[RunRecord]| RunRecord::merge(parts).unwrap().judge(0.95);
    let lags = |faults: &[Fault]| {
        let is_lag = |one: &&Fault| matches!(one, Fault::Generator(GeneratorLimit::Lag { .. }));
        faults.iter().filter(is_lag).count()
    };
    assert_eq!(lags(&merged(&parts).faults), 0);
    for interval in &mut parts[6].intervals[2..5] {
        interval.lag.record(Duration::from_secs(1));
    }
    assert_eq!(lags(&merged(&parts).faults), 1);
}

#[test]
fn a_part_is_written_as_it_is_read() {
    for text in ["1/1", "2/3", "1000/1000"] {
        assert_eq!(text.parse::<RunPart>().unwrap().to_string(), text);
    }
    for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1/1001"] {
        let error = text.parse::<RunPart>().unwrap_err();
        assert_eq!(error, NotAPart(text.into()));
    }
}

#[test]
fn shares_are_without_gap_or_overlap() {
    for (all, of) in [(7, 1), (7, 2), (7, 7), (3, 5), (1_000_000, 999), (u32::MAX, 1000)] {
        let first: RunPart = format!("1/{of}").parse().unwrap();
        let (mut next, mut least, mut most) = (0, u32::MAX, 0);
        for part in first.all() {
            assert_eq!(part.before(all), next, "{part} of {all}");
            let share = part.share(all);
            (least, most) = (least.min(share), most.max(share));
            next += share;
        }
        assert_eq!(next, all);
        assert!(most - least <= 1, "{least} to {most}");
    }
    let threads = ["1/3", "2/3", "3/3"].map(|part| part.parse::<RunPart>().unwrap());
    let numbers = threads.map(|part| [part.thread(0, 2), part.thread(1, 2)]);
    assert_eq!(numbers, [[0, 1], [2, 3], [4, 5]]);
    assert_eq!(threads[0].threads(2), 6);
}

#[test]
fn numbers_are_named() {
    assert_eq!(named(&[2]), "part 2");
    assert_eq!(named(&[2, 3]), "parts 2, 3");
}
