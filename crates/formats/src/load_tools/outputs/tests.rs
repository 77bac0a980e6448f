//! Parsers against the outputs that tools really wrote, whole and damaged.

use std::fs;
use std::path::Path;

use advise::{MeanFrom, Pace};

use super::*;

fn fixtures() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/explain");
    let entries = fs::read_dir(folder).unwrap();
    let mut all: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn fixture(name: &str) -> String {
    fixtures().into_iter().find(|(known, _)| known == name).unwrap().1
}

/// Chance without a crate: SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// The numbers as a person reads them in the files: clients, answers a second, mean [ms], done,
/// failed.
#[test]
fn the_numbers_of_every_tool_are_read() {
    type Row = (&'static str, Tool, Option<u32>, f64, f64, u64, u64);
    let rows: [Row; 27] = [
        ("ab-1.txt", Tool::Ab, Some(1), 481.31, 2.078, 1200, 0),
        ("ab-16.txt", Tool::Ab, Some(16), 496.90, 32.0, 2000, 0),
        ("h2load-1.txt", Tool::H2load, Some(1), 474.61, 2.11, 1000, 0),
        ("h2load-16.txt", Tool::H2load, Some(16), 495.24, 32.26, 2000, 0),
        ("h2load-d.txt", Tool::H2load, Some(8), 485.75, 16.47, 1943, 0),
        ("hey-1.txt", Tool::Hey, None, 479.3192, 2.1, 1918, 0),
        ("hey-16.txt", Tool::Hey, None, 480.2673, 33.2, 1928, 0),
        ("hey-q.txt", Tool::Hey, None, 158.4015, 29.9, 640, 0),
        ("oha-16.json", Tool::Oha, None, 123.66910903626247, 128.42662557381598, 359, 0),
        ("oha-16.txt", Tool::Oha, None, 118.3378, 136.8662, 464, 0),
        ("oha-q.json", Tool::Oha, None, 100.62687628411203, 10.54076168561873, 299, 0),
        ("pgbench-1.txt", Tool::Pgbench, Some(1), 264.198362, 3.785, 1321, 0),
        ("pgbench-8.txt", Tool::Pgbench, Some(8), 836.791818, 9.540, 5029, 0),
        ("pgbench-connect.txt", Tool::Pgbench, Some(4), 233.079898, 17.161, 700, 0),
        ("pgbench-mix.txt", Tool::Pgbench, Some(4), 1594.607485, 2.508, 4781, 0),
        ("pgbench-rate.txt", Tool::Pgbench, Some(8), 103.349440, 7.308, 619, 0),
        ("pgbench-t.txt", Tool::Pgbench, Some(4), 11289.070768, 0.354, 800, 0),
        ("vegeta-200.json", Tool::Vegeta, None, 200.1145, 10.43693, 800, 0),
        ("vegeta-200.txt", Tool::Vegeta, None, 200.11, 10.437, 800, 0),
        ("vegeta-800.txt", Tool::Vegeta, None, 264.19, 613.931, 1858, 565),
        ("weighttp-1.txt", Tool::Weighttp, Some(1), 479.68, 2.081, 1000, 0),
        ("weighttp-16.txt", Tool::Weighttp, Some(16), 494.108, 32.154, 2000, 0),
        ("wrk-1.txt", Tool::Wrk, Some(1), 481.46, 2.08, 1927, 0),
        ("wrk-16.txt", Tool::Wrk, Some(16), 494.66, 32.17, 2496, 0),
        ("wrk-404.txt", Tool::Wrk, Some(16), 93062.01, 0.23008, 288_329, 288_329),
        ("wrk2-300.txt", Tool::Wrk2, Some(16), 300.01, 4.22, 3602, 0),
        ("wrk2-over.txt", Tool::Wrk2, Some(16), 494.55, 5560.0, 5938, 0),
    ];
    for (name, tool, clients, throughput, ms, completed, failed) in rows {
        let runs = runs_of(&fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [run] = &runs[..] else { panic!("{name}: {} runs", runs.len()) };
        assert_eq!((run.tool, run.clients), (tool, clients), "{name}");
        assert_eq!((run.completed, run.failed), (completed, failed), "{name}");
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 3e-4;
        assert!(near(run.throughput, throughput), "{name}: {}", run.throughput);
        let mean = run.response.unwrap().seconds;
        assert!(near(mean * 1e3, ms), "{name}: {mean}");
    }
}

#[test]
fn what_a_mean_is_worth_is_known() {
    let from = |name: &str| runs_of(&fixture(name)).unwrap()[0].response.unwrap().from;
    assert_eq!(from("pgbench-1.txt"), MeanFrom::Derived);
    assert_eq!(from("pgbench-8.txt"), MeanFrom::Requests);
    assert_eq!(from("ab-1.txt"), MeanFrom::Derived);
    assert_eq!(from("ab-16.txt"), MeanFrom::Requests);
    assert_eq!(from("wrk-16.txt"), MeanFrom::Corrected);
    let pace = |name: &str| runs_of(&fixture(name)).unwrap()[0].pace;
    assert_eq!(pace("wrk2-300.txt"), Pace::Scheduled);
    assert_eq!(pace("pgbench-rate.txt"), Pace::Scheduled);
    assert_eq!(pace("vegeta-200.txt"), Pace::Open);
    let run = &runs_of(&fixture("pgbench-8.txt")).unwrap()[0];
    assert_eq!(run.progress, [783.5, 872.0, 855.0]);
    assert_eq!(run.parts.len(), 7, "{:?}", run.parts);
    assert!(run.parts[1].name.starts_with("UPDATE pgbench_accounts"), "{:?}", run.parts);
    let mix = &runs_of(&fixture("pgbench-mix.txt")).unwrap()[0];
    assert_eq!(mix.parts.len(), 2, "{:?}", mix.parts);
}

#[test]
fn several_outputs_in_one_paste_are_told_apart() {
    let fixtures = fixtures();
    let all: String = fixtures.iter().map(|(_, text)| format!("{text}\n\n")).collect();
    let runs = runs_of(&all).unwrap();
    assert_eq!(runs.len(), fixtures.len());
    let pasted = format!("$ hey -z 4s -c 16 http://host/\n{}", fixture("hey-16.txt"));
    assert_eq!(runs_of(&pasted).unwrap()[0].clients, Some(16));
    let lines_cr = fixture("wrk-16.txt").replace('\n', "\r\n");
    assert_eq!(runs_of(&lines_cr).unwrap(), runs_of(&fixture("wrk-16.txt")).unwrap());
}

/// A number that is needed, made unreadable: an error that names its line.
#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    let cases = [
        ("wrk-16.txt", "494.66"),
        ("wrk-16.txt", "32.17ms"),
        ("ab-16.txt", "496.90"),
        ("hey-16.txt", "480.2673"),
        ("h2load-16.txt", "32.26ms"),
        ("vegeta-200.txt", "10.437ms"),
        ("pgbench-8.txt", "836.791818"),
        ("pgbench-8.txt", "number of clients: 8"),
    ];
    for (name, number) in cases {
        let text = fixture(name);
        let at = text.find(number).unwrap_or_else(|| panic!("{name}: {number}"));
        let line = 1 + text[..at].matches('\n').count();
        for garbage in ["x", "-1", "1e9", "nan", "12.3.4", ""] {
            let broken = runs_of(&text.replacen(number, garbage, 1));
            let Err(error) = broken else { panic!("{name}: {number} as `{garbage}`: {broken:?}") };
            // A line that is gone is missed at the end of its section.
            assert!(error.line == line || number.contains(':'), "{name}, {number}: {error}");
        }
    }
    let error = runs_of("{\"a\": 1}").unwrap_err();
    assert!(error.cause.contains("known are wrk"), "{error}");
    assert!(runs_of(&fixture("vegeta-200.json")[..200]).unwrap_err().cause.contains("broken"));
    let old = "weighttp - a lightweight and simple webserver benchmarking tool\nfinished\n";
    assert!(runs_of(old).unwrap_err().cause.contains("0.5"));
}

/// Damage of every kind: nothing panics, and what is still read holds together.
#[test]
fn damaged_outputs_never_give_numbers_that_cannot_be() {
    for (name, text) in fixtures() {
        for seed in 0..400 {
            let mut chance = Chance(seed);
            let mut bytes = text.clone().into_bytes();
            for _ in 0..1 + chance.below(8) {
                let at = chance.below(bytes.len());
                match chance.below(5) {
                    0 => bytes[at] = chance.below(256) as u8,
                    1 => bytes.truncate(at + 1),
                    2 => drop(bytes.remove(at)),
                    3 => bytes.insert(at, b"0123456789.-eE%{}[]\n\r msk"[chance.below(25)]),
                    _ => {
                        let end = (at + chance.below(80)).min(bytes.len());
                        let part = bytes[at..end].to_vec();
                        bytes.extend(part);
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let damaged = String::from_utf8_lossy(&bytes);
            let Ok(runs) = runs_of(&damaged) else { continue };
            for run in &runs {
                assert!(sane(run).is_ok(), "{name}, seed {seed}: {run:?}");
                let times = run.quantiles.iter().map(|(_, s)| *s).chain(run.fastest);
                assert!(times.into_iter().all(|s| s >= 0.0 && s.is_finite()), "{name}, {seed}");
            }
            // The judgement of whatever was read must not panic either.
            advise::explain(&runs, &advise::ExplainOptions::default()).ok();
        }
    }
}

#[test]
fn garbage_is_the_output_of_no_tool() {
    for seed in 0..200 {
        let mut chance = Chance(seed);
        let bytes: Vec<u8> = (0..chance.below(600)).map(|_| chance.below(256) as u8).collect();
        let runs = runs_of(&String::from_utf8_lossy(&bytes));
        assert!(runs.is_err() || runs.is_ok_and(|runs| runs.is_empty()), "seed {seed}");
    }
}
