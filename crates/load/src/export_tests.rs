//! Tests of the exporters: what they write is read back by others' readers.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use measure::{ClassSpec, GeneratorHealth, Host, LoadShape, RunHeader, Until};

use super::*;

fn counts(millis: &[u64]) -> ClassCounts {
    let mut counts = ClassCounts { completed: millis.len() as u64, bytes: 7, ..Default::default() };
    for &ms in millis {
        counts.total.record(Duration::from_millis(ms));
        counts.first_byte.record(Duration::from_millis(ms / 2));
    }
    counts
}

fn sample() -> RunRecord {
    let class = |name: &str| ClassSpec { name: name.into(), bytes: None, weight: 1 };
    let header = RunHeader {
        id: "x".into(),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "test".into(),
        command: Vec::new(),
        seed: 1,
        host: Host::default(),
        target: "http://127.0.0.1/".into(),
        load: LoadShape::Closed { clients: 1, think_s: 0.0 },
        until: Until::Seconds(2.0),
        warmup_s: 0.0,
        classes: vec![class("500b"), class("a \"big\", one")],
        settings: BTreeMap::new(),
        part: None,
        merged: Vec::new(),
    };
    let mut failing = counts(&[300]);
    failing.errors.insert(ErrorKind::Timeout, 3);
    let interval = |start_s, classes| Interval {
        start_s,
        length_s: 1.0,
        classes,
        in_flight_mean: 1.5,
        started: 9,
        connects: 2,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.25, 0.5] },
    };
    let intervals = vec![
        interval(0.0, vec![counts(&[10, 20, 30, 40]), counts(&[])]),
        interval(1.0, vec![counts(&[50]), failing]),
    ];
    RunRecord { header, intervals, summary: None }
}

#[test]
fn csv_has_a_row_for_each_interval_and_class() {
    let text = csv(&sample());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4);
    let head: Vec<&str> = lines[0].split(',').collect();
    let field = |line: usize, name: &str| {
        let at = head.iter().position(|&column| column == name).unwrap();
        lines[line].split(',').nth(at).unwrap().to_owned()
    };
    assert_eq!(lines[1].split(',').count(), head.len());
    assert_eq!((field(1, "class"), field(1, "completed")), ("500b".into(), "4".into()));
    let p50: f64 = field(1, "response_p50_s").parse().unwrap();
    assert!((p50 - 0.020).abs() < 1e-4, "{p50}");
    assert_eq!(field(1, "generator_cpu_s"), "0.75");
    // The comma in the quoted name moves every later field of this row by one.
    assert!(lines[4].starts_with("1,1,\"a \"\"big\"\", one\",1,7,"), "{}", lines[4]);
    let timeout = head.iter().position(|&column| column == "timeout").unwrap();
    assert_eq!(lines[4].split(',').nth(timeout + 1), Some("3"));
}

#[test]
fn the_interval_log_is_read_back_by_its_own_library() {
    let text = interval_log(&sample());
    let mut seen = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            LogEntry::StartTime(start) => {
                assert_eq!(start.as_secs(), 1_795_174_200, "2026-11-20T11:30:00Z");
            }
            LogEntry::Interval(entry) => {
                let bytes = base64::Engine::decode(
                    &base64::engine::general_purpose::STANDARD,
                    entry.encoded_histogram(),
                )
                .unwrap();
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                let tag = entry.tag().unwrap().as_str().to_owned();
                seen.push((tag, entry.start_timestamp().as_secs(), histogram.len()));
            }
            LogEntry::BaseTime(_) => {}
        }
    }
    let expected = [("500b", 0, 4), ("500b", 1, 1), ("a_\"big\"__one", 1, 1)]
        .map(|(t, s, n)| (t.into(), s, n));
    assert_eq!(seen, expected);
}

#[test]
fn moments_become_seconds_since_1970() {
    assert_eq!(epoch_s("1970-01-01T00:00:00Z"), Some(0.0));
    assert_eq!(epoch_s("2000-02-29T12:00:00Z"), Some(951_825_600.0));
    assert_eq!(epoch_s("2026-11-20T11:30:00.5Z"), Some(1_795_174_200.5));
    assert_eq!(epoch_s("yesterday"), None);
    assert_eq!(epoch_s(""), None);
}

#[test]
fn percentiles_rise_to_the_maximum_and_stop() {
    let record = sample();
    let text = percentiles(&record, None);
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1]));
    let last = rows.last().unwrap();
    assert!((last[0] - 300.0).abs() < 0.5 && last[1] == 1.0 && last[2] == 6.0, "{last:?}");
    // Half of the six are at most 30 ms.
    let median = rows.iter().find(|row| row[1] >= 0.5).unwrap();
    assert!((median[0] - 30.0).abs() < 0.1, "{median:?}");
    assert!(text.contains("Total count    =            6]"), "{text}");
    assert!(percentiles(&record, Some(1)).contains("Total count    =            1]"));
}
