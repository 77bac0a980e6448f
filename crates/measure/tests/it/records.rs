//! Run records as files: what is written is read, what is damaged is refused with a way out.

use std::io::{BufReader, Read};

use std::time::Duration;

use measure::knee::{Knee, KneeSpec, Outcome, Probe, Why};
use measure::limit::Limit;
use measure::{
    ArrivalSpacing, Course, CurvePieces, ErrorKind, Histogram, Interval, KneeLimit, KneeRecord,
    LoadShape, Phase, ProbeRecord, ReadError, RunRecord, RunWriter, Seen, read_knee, read_run,
    write_knee,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::system::System;

fn small() -> RunRecord {
    let system = System { arrivals_per_s: 8.0, services_per_s: 20.0, seconds: 3, seed: 1 };
    let mut record = system.record();
    record.intervals[1].classes[0].errors.insert(ErrorKind::Refused, 4);
    record
}

fn written(record: &RunRecord) -> Vec<u8> {
    let mut writer = RunWriter::new(Vec::new(), &record.header).unwrap();
    record.intervals.iter().for_each(|interval| writer.interval(interval).unwrap());
    writer.finish(record.summary.as_ref().unwrap()).unwrap()
}

/// The record's text with one place changed, which must be there.
fn changed(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(written(&small())).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    text.replacen(from, to, 1).into_bytes()
}

fn refusal(bytes: &[u8]) -> String {
    read_run(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    let record = small();
    assert!(record.intervals.iter().any(|interval| interval.classes[0].completed > 0));
    let bytes = written(&record);
    assert_eq!(read_run(&bytes[..]).unwrap(), record);
    let first = String::from_utf8(bytes).unwrap();
    assert!(first.starts_with(r#"{"sekisho-run":1,"header":{"id":"20261120T113000Z-0a1b","#));
    assert_eq!(first.lines().count(), 5);
}

#[test]
fn a_load_that_varies_is_written_and_read() {
    let mut record = small();
    record.header.load = LoadShape::Varying {
        course: Course::RateCurve {
            points: vec![(0.0, 8.0), (2.0, 4.0)],
            pieces: CurvePieces::Linear,
            period_s: Some(3.0),
            spacing: ArrivalSpacing::Fixed,
        },
        phases: vec![Phase { name: "8 /s".into(), start_s: 0.0, length_s: 3.0, arrivals: 20.0 }],
        in_flight_max: 7,
    };
    let bytes = written(&record);
    assert_eq!(read_run(&bytes[..]).unwrap(), record);
    let text = String::from_utf8(bytes).unwrap();
    let load =
        "\"load\":{\"varying\":{\"course\":{\"rate-curve\":{\"points\":[[0.0,8.0],[2.0,4.0]],";
    assert!(text.contains(load), "{text}");
    let negative = text.replacen("\"arrivals\":20.0", "\"arrivals\":-1.0", 1);
    assert!(refusal(negative.as_bytes()).contains("arrivals of a phase"));
}

/// A search with one probe, whose run it keeps.
fn search() -> KneeRecord {
    let run = small();
    let limit = Limit { quantile: 0.9, response: Duration::from_millis(50) };
    let seen = Some(Seen::of(&run, &limit));
    let probe = Probe { rate: 1000.0 / 3.0, effort: 4 };
    KneeRecord {
        header: run.header.clone(),
        limit: KneeLimit { text: "p90<50ms".into(), quantile: 0.9, response_s: 0.05 },
        spec: KneeSpec { budget_s: 180.0, ..KneeSpec::for_limit(0.9, 0.05) },
        knee: Knee::Inconclusive { low: None, high: Some(1000.0 / 3.0), why: Why::Budget },
        elapsed_s: 1.0 / 3.0,
        broken: Some("part 2 was lost".into()),
        interrupted: true,
        probes: vec![ProbeRecord { probe, outcome: Outcome::Fails, seen }],
        ends: vec![run.into()],
    }
}

#[test]
fn a_search_for_a_knee_is_written_and_read() {
    let search = search();
    let seen = search.probes[0].seen.as_ref().unwrap();
    let answered: u64 =
        small().steady().iter().flat_map(|one| &one.classes).map(|class| class.total.len()).sum();
    assert_eq!((seen.answered, seen.failed), (answered, 4));
    assert!(seen.late > 0 && seen.late <= answered, "{seen:?}");
    let written = |search: &KneeRecord| {
        let mut bytes = Vec::new();
        write_knee(&mut bytes, search).map(|()| bytes)
    };
    let bytes = written(&search).unwrap();
    assert_eq!(read_knee(&bytes[..]).unwrap(), search);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("{\"sekisho-knee\":1,\"search\":{"), "{text}");
    assert_eq!(text.lines().count(), 1);
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        read_knee(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    for (from, to, says) in [
        ("\"sekisho-knee\":1", "\"sekisho-knee\":2", "the format has version 2"),
        ("\"sekisho-knee\"", "\"sekisho-run\"", "this is no knee"),
        ("\"quantile\":0.9", "\"quantile\":1.0", "not between 0 and 1"),
        ("\"response_s\":0.05", "\"response_s\":-1.0", "no limit"),
        ("\"response_s\":0.05", "\"response_s\":1e300", "no limit"),
        ("\"elapsed_s\":0.3", "\"elapsed_s\":-0.3", "`elapsed_s` is"),
        ("\"rate\":333.3", "\"rate\":-333.3", "a rate is -333.3"),
        ("\"in_flight_mean\":", "\"in_flight_mean\":-1", "`in_flight_mean` is"),
        ("\"probes\"", "\"probs\"", "did you mean `probes`?"),
    ] {
        let why = refused(from, to);
        assert!(why.starts_with("line 1") && why.contains(says), "{from} to {to}: {why}");
    }
    let cut = read_knee(&text.as_bytes()[..text.len() / 2]).unwrap_err();
    assert!(matches!(cut, ReadError::NoHeader), "{cut}");
    // The story: a record whose probes say otherwise, or of none, was told as if they said so.
    let (rate, why) = (1000.0 / 3.0, Why::Budget);
    for (knee, says) in [
        (Knee::Inconclusive { low: Some(9e9), high: Some(rate), why }, "not in order"),
        (Knee::Inconclusive { low: None, high: Some(300.0), why }, "fail at 300/s, and no probe"),
        (Knee::Above { low: rate }, "hold at 333.3333333333333/s, and no probe"),
    ] {
        let why = written(&KneeRecord { knee, ..search.clone() }).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
    let crossed = KneeRecord { knee: Knee::Between { low: 2.0, high: 1.0 }, ..search };
    let why = written(&crossed).unwrap_err().to_string();
    assert!(why.contains("not in order"), "{why}");
}

#[test]
fn a_record_cut_off_anywhere_is_read_up_to_there() {
    let record = small();
    let bytes = written(&record);
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap();
    for end in 0..bytes.len() {
        let read = read_run(&bytes[..end]);
        if end < header {
            assert!(matches!(read, Err(ReadError::NoHeader)), "cut at {end}: {read:?}");
            continue;
        }
        let read = read.unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        let lines = bytes[..end].iter().filter(|&&byte| byte == b'\n').count();
        // A last line without its line feed may be complete.
        let seen = read.intervals.len();
        assert!((lines.max(1) - 1..=lines).contains(&seen), "cut at {end}: {seen} intervals");
        assert_eq!(read.intervals, record.intervals[..seen]);
        assert_eq!(read.summary.is_some(), end == bytes.len() - 1, "cut at {end}");
    }
}

#[test]
fn each_error_names_the_line_the_cause_and_the_way_out() {
    assert!(refusal(b"").contains("run it again"));
    let unknown = refusal(&changed(r#""completed":"#, r#""complteed":"#));
    assert!(unknown.starts_with("line 2, column "), "{unknown}");
    assert!(unknown.contains("unknown name `complteed`; did you mean `completed`?"), "{unknown}");
    let kind = refusal(&changed(r#""refused":4"#, r#""refuse":4"#));
    assert!(kind.starts_with("line 3") && kind.contains("did you mean `refused`?"), "{kind}");
    let line = refusal(&changed(r#"{"summary":"#, r#"{"sumary":"#));
    assert!(line.starts_with("line 5") && line.contains("did you mean `summary`?"), "{line}");
    let header = refusal(&changed(r#""warmup_s":"#, r#""zzz":"#));
    assert!(header.starts_with("line 1") && header.contains("one of these"), "{header}");
    let version = refusal(&changed(r#""sekisho-run":1"#, r#""sekisho-run":2"#));
    assert!(version.contains("version 2") && version.contains("wrote it"), "{version}");
    for other in ["hello\n", "{}\n", "[1]\n", "{\"sekisho-recording\":1}\n", "\u{0}\n"] {
        assert!(matches!(read_run(other.as_bytes()), Err(ReadError::NotThis { .. })), "{other}");
    }
    let garbage = refusal(&changed(r#"{"summary":"#, "@\n{\"summary\":"));
    assert!(garbage.starts_with("line 5, column 1: expected value"), "{garbage}");
    let open = refusal(&changed(r#""interrupted":false"#, "\n"));
    assert!(open.starts_with("line 5") && open.contains("EOF"), "{open}");
    let tail = refusal(&[&written(&small())[..], b"\0\0\0\0"].concat());
    assert!(tail.starts_with("line 6, column"), "{tail}");
    let twice = changed(
        r#"{"summary":"#,
        "{\"summary\":{\"elapsed_s\":1,\"interrupted\":false,\"warnings\":[]}}\n{\"summary\":",
    );
    assert!(refusal(&twice).contains("something follows the summary"));
    let histogram = refusal(&changed(r#""lag":"HIST"#, r#""lag":"AAAA"#));
    assert!(histogram.contains("no HdrHistogram"), "{histogram}");
    let negative = refusal(&changed(r#""length_s":1.0"#, r#""length_s":-1.0"#));
    assert!(negative.starts_with("line 2: `length_s` is -1"), "{negative}");
    let back = refusal(&changed(r#""start_s":1.0"#, r#""start_s":2.5"#));
    assert!(back.starts_with("line 4") && back.contains("before the last one"), "{back}");
    let classes = refusal(&changed(
        r#""classes":[{"name":"small","bytes":null,"weight":1},"#,
        r#""classes":["#,
    ));
    assert!(classes.contains("has 2 classes, the header 1"), "{classes}");
}

#[test]
fn a_name_of_megabytes_makes_a_short_message() {
    let long = "x".repeat(1 << 20);
    let message = refusal(&changed(r#""completed":"#, &format!(r#""{long}":"#)));
    assert!(message.len() < 400, "{} bytes", message.len());
    let message = refusal(&changed(r#""seed":1"#, &format!(r#""seed":"{long}""#)));
    assert!(message.len() < 600, "{} bytes", message.len());
}

#[test]
fn a_line_without_end_is_refused() {
    let endless = BufReader::new(std::io::repeat(b' ').take(u64::MAX));
    assert!(matches!(read_run(endless), Err(ReadError::LineTooLong { line: 1 })));
}

#[test]
fn a_writer_refuses_what_could_not_be_read_back() {
    let record = small();
    let refuses = |spoil: fn(&mut Interval)| {
        let mut writer = RunWriter::new(Vec::new(), &record.header).unwrap();
        let mut interval = record.intervals[0].clone();
        writer.interval(&interval).unwrap();
        spoil(&mut interval);
        assert_eq!(
            writer.interval(&interval).unwrap_err().kind(),
            std::io::ErrorKind::InvalidInput
        );
    };
    refuses(|interval| interval.in_flight_mean = f64::NAN);
    refuses(|interval| interval.length_s = f64::INFINITY);
    refuses(|interval| interval.start_s = -1.0);
    refuses(|interval| interval.generator.thread_cpu_s[0] = -0.1);
    refuses(|interval| interval.classes.truncate(1));
    let mut header = record.header.clone();
    header.warmup_s = f64::NAN;
    assert!(RunWriter::new(Vec::new(), &header).is_err());
}

/// Damages bytes at random: flips, cuts, doubles, and words that mean something to the reader.
pub(crate) fn damage(rng: &mut Xoshiro256PlusPlus, bytes: &mut Vec<u8>) {
    const WORDS: [&str; 10] =
        ["\n", "{", "}", "[", "null", "-1", "1e308", "18446744073709551615", "\"", "\\u0000"];
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..bytes.len());
        let end = rng.random_range(at..=bytes.len().min(at + 300));
        match rng.random_range(0..9) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            // Another number, wherever one stands: what most often can still be read.
            4..8 => {
                let digit = (at..bytes.len()).find(|&at| bytes[at].is_ascii_digit());
                bytes[digit.unwrap_or(at)] = rng.random_range(b'0'..=b'9');
            }
            _ => {
                let word = WORDS[rng.random_range(0..WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

#[test]
fn damaged_records_never_panic() {
    let seed = 20261120;
    println!("seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let whole = written(&small());
    let (mut read, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let mut bytes = whole.clone();
        damage(&mut rng, &mut bytes);
        match read_run(&bytes[..]) {
            Ok(record) => {
                read += 1;
                // Whatever can be read can be judged.
                record.judge(0.95);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 40 && refused > 1000, "{read} read, {refused} refused");
}

/// The story: requests that the bound kept back counted as answers of a database that was gone, and as broken
/// connections of a server that stood still.
#[test]
fn only_broken_connections_lose_a_server_and_only_answers_find_it() {
    let interval = |completed: u64, kinds: &[ErrorKind]| {
        let mut one = crate::sequential::interval(0.0, 2.0, Histogram::new(), 0);
        one.classes[0].completed = completed;
        one.classes[0].errors = kinds.iter().map(|kind| (*kind, 1)).collect();
        one
    };
    let lost_s = |completed, kinds: &[ErrorKind]| interval(completed, kinds).lost_s(3.0);
    use ErrorKind::{ConnectRefused, InFlightBound, Malformed, Refused, Reset, SqlOther, Timeout};
    for (kinds, expected) in [
        (&[ConnectRefused][..], 5.0),
        (&[Reset, InFlightBound], 5.0),
        (&[ConnectRefused, Timeout], 5.0),
        (&[InFlightBound], 3.0),
        (&[Timeout, InFlightBound], 3.0),
        (&[], 3.0),
        (&[Refused, ConnectRefused], 0.0),
        (&[Malformed], 0.0),
        (&[SqlOther, Reset], 0.0),
    ] {
        assert_eq!(lost_s(0, kinds), expected, "{kinds:?}");
        assert_eq!(lost_s(1, kinds), 0.0, "{kinds:?}");
    }
}
