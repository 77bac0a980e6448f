//! The judgement of runs whose truth is known.

use std::time::Duration;

use measure::{
    ArrivalSpacing, ChangeVerdict, Course, CurvePieces, ErrorKind, Fault, GeneratorLimit,
    Histogram, LittleVerdict, LoadShape, Phase, RunRecord, compare, compare_runs,
};

use measure::knee::Outcome;
use measure::limit::{Limit, verdict};

use crate::system::System;

/// M/M/1 at 60 %: mean response 5 ms, 500 requests of a second.
const SYSTEM: System =
    System { arrivals_per_s: 300.0, services_per_s: 500.0, seconds: 60, seed: 11 };

fn faults(record: &RunRecord) -> Vec<String> {
    record.judge(0.95).faults.iter().map(Fault::to_string).collect()
}

#[test]
fn a_healthy_run_is_valid_and_its_intervals_hold_the_truth() {
    let record = SYSTEM.record();
    let judged = record.judge(0.95);
    assert!(judged.is_valid(), "{:?}", faults(&record));
    assert_eq!(judged.length_s, 60.0);
    assert!(judged.all.throughput.holds(300.0), "{:?}", judged.all.throughput);
    let response = judged.all.response.unwrap();
    assert!(response.holds(SYSTEM.response_s()), "{response:?}");
    assert!(response.relative() < 0.2, "{response:?}");
    // Exponential response times: quantile q is -ln(1 - q) times the mean.
    for quantile in &judged.all.quantiles {
        let truth = -(1.0 - quantile.q).ln() * SYSTEM.response_s();
        let found = quantile.response.unwrap();
        // 18 responses are beyond the last, one block: a value, and no interval.
        assert_eq!(found.half_width.is_finite(), quantile.q < 0.995, "{quantile:?}");
        assert!((found.mean / truth - 1.0).abs() < 0.25, "{quantile:?}, the truth is {truth}");
        assert!(found.holds(truth), "{quantile:?}, the truth is {truth}");
    }
    let sum: u64 = judged.classes.iter().map(|class| class.completed).sum();
    assert_eq!((judged.classes.len(), sum), (2, judged.all.completed));
    let mbit = judged.all.completed as f64 * 8e-3 / 60.0;
    assert!((judged.all.mbit_per_s - mbit).abs() < 1e-9);
    let first_byte = judged.all.first_byte_mean_s.unwrap();
    assert!((first_byte * 2.0 / response.mean - 1.0).abs() < 0.01);
    assert_eq!(judged.all.connect_mean_s, None);
    // rho / (1 - rho) = 1.5 in flight.
    assert!((judged.all.load_factor - 1.5).abs() < 0.15, "{}", judged.all.load_factor);
    assert_eq!(judged.little.verdict, LittleVerdict::Closes);
    // Lag 0.4 %, resolution 0.1 %, edges under 0.1 %.
    assert!(judged.little.tolerance < 0.007 * judged.little.counted, "{:?}", judged.little);
}

#[test]
fn mean_response_intervals_cover() {
    let runs = 40;
    let covered = (0..runs)
        .filter(|&seed| {
            let system = System { seed, seconds: 40, ..SYSTEM };
            system.record().judge(0.95).all.response.unwrap().holds(system.response_s())
        })
        .count();
    // 95 % of 40 is 38; four standard deviations below are 5.5.
    assert!(covered >= 33, "{covered} of {runs}");
}

#[test]
fn few_responses_have_no_far_quantile() {
    let judged = System { seconds: 2, ..SYSTEM }.record().judge(0.95);
    let known: Vec<bool> =
        judged.all.quantiles.iter().map(|quantile| quantile.response.is_some()).collect();
    assert_eq!(known, [true, true, true, false, false]);
}

/// The story: answers of two hours, all counted as one hour, agreed: p99 was 3600 s ± 0, below any limit
/// of more than an hour, and such a limit was met.
#[test]
fn quantiles_beyond_the_histogram_meet_no_limit() {
    let mut record = SYSTEM.record();
    for counts in record.intervals.iter_mut().flat_map(|interval| &mut interval.classes) {
        let mut long = Histogram::new();
        (0..counts.total.len()).for_each(|_| long.record(Duration::from_secs(7200)));
        counts.total = long;
    }
    for quantile in record.judge(0.95).all.quantiles {
        assert_eq!(quantile.response.unwrap().half_width, f64::INFINITY, "{quantile:?}");
    }
}

/// The story: where all take equally long the quantiles were the end of their bucket, "+- 0".
#[test]
fn quantiles_of_a_record_are_known_to_their_bucket_and_no_better() {
    let mut record = SYSTEM.record();
    for counts in record.intervals.iter_mut().flat_map(|interval| &mut interval.classes) {
        let mut same = Histogram::new();
        (0..counts.total.len()).for_each(|_| same.record(Duration::from_secs(100)));
        counts.total = same;
    }
    for quantile in record.judge(0.95).all.quantiles {
        let found = quantile.response.unwrap();
        assert!(found.holds(100.0) && found.half_width > 0.02, "{found:?}");
    }
}

/// Two of sixteen clients wait a second for a connection, in a window of two: the edges are wide enough for any books.
#[test]
fn a_window_too_short_for_its_response_times_confirms_nothing() {
    let mut record = System { seconds: 2, ..SYSTEM }.record();
    let counts = &mut record.intervals[0].classes[0];
    (0..20).for_each(|_| counts.total.record(Duration::from_secs(1)));
    record.intervals.iter_mut().for_each(|interval| interval.in_flight_mean *= 1.4);
    let little = record.judge(0.95).little;
    assert_eq!(little.verdict, LittleVerdict::CannotTell, "{little:?}");
    assert!(little.tolerance > 0.1 * little.counted, "{little:?}");
}

#[test]
fn wrong_books_do_not_close() {
    let mut record = SYSTEM.record();
    record.intervals.iter_mut().for_each(|interval| interval.in_flight_mean *= 1.05);
    let judged = record.judge(0.95);
    assert_eq!(judged.little.verdict, LittleVerdict::DoesNot);
    assert!(faults(&record)[0].starts_with("Little's law does not close"));
    // Requests that failed may have been in flight; then nobody knows.
    record.intervals[0].classes[0].errors.insert(ErrorKind::Timeout, 3);
    assert_eq!(record.judge(0.95).little.verdict, LittleVerdict::CannotTell);
    record.intervals.iter_mut().for_each(|interval| interval.in_flight_mean *= 0.9);
    assert_eq!(record.judge(0.95).little.verdict, LittleVerdict::DoesNot);
}

#[test]
fn a_busy_generator_was_the_limit_unless_it_spins() {
    let mut record = SYSTEM.record();
    record.intervals.iter_mut().for_each(|interval| {
        interval.generator.thread_cpu_s[1] = 0.9;
    });
    let judged = record.judge(0.95);
    let limit = GeneratorLimit::Cpu { thread: 1, intervals: 1.0 };
    assert_eq!(judged.faults, [Fault::Generator(limit)]);
    record.header.settings.insert("idle".into(), "spin".into());
    assert!(record.judge(0.95).is_valid());
}

/// The system at 60 % for 60 s, then at 30 % for 60 s, then nothing at all for 5 s.
fn varying() -> RunRecord {
    let mut record = SYSTEM.record();
    let slower = System { arrivals_per_s: 150.0, seed: 12, ..SYSTEM }.record();
    let idle = System { arrivals_per_s: 1e-9, seconds: 5, ..SYSTEM }.record();
    for (offset, part) in [(60.0, slower), (120.0, idle)] {
        record.intervals.extend(part.intervals.into_iter().map(|mut interval| {
            interval.start_s += offset;
            interval
        }));
    }
    let phase = |name: &str, start_s, length_s, arrivals| Phase {
        name: name.into(),
        start_s,
        length_s,
        arrivals,
    };
    record.header.load = LoadShape::Varying {
        course: Course::RateCurve {
            points: vec![(0.0, 300.0), (60.0, 150.0), (120.0, 0.0)],
            pieces: CurvePieces::Constant,
            period_s: None,
            spacing: ArrivalSpacing::Poisson,
        },
        phases: vec![
            phase("300/s", 0.0, 60.0, 18_000.0),
            phase("150/s", 60.0, 60.0, 9_000.0),
            phase("0/s", 120.0, 5.0, 0.0),
        ],
        in_flight_max: 10_000,
    };
    record
}

#[test]
fn a_load_that_varies_is_judged_by_phase_and_not_for_drifting() {
    let record = varying();
    assert!(record.judge(0.95).is_valid(), "{:?}", faults(&record));
    let phases = record.judge_phases(0.95);
    assert!(phases.iter().all(|phase| phase.complete && phase.judgement.is_valid()), "{phases:?}");
    for (phase, (rate, response_s)) in phases.iter().zip([(300.0, 0.005), (150.0, 1.0 / 350.0)]) {
        assert!(phase.judgement.all.throughput.holds(rate), "{phase:?}");
        assert!(phase.judgement.all.response.unwrap().holds(response_s), "{phase:?}");
        assert!(phase.drifting.is_empty());
    }
    assert_eq!(phases[2].judgement.all.completed, 0, "nobody was to come");
    assert!(SYSTEM.record().judge_phases(0.95).is_empty(), "no other load has any");
}

#[test]
fn a_phase_with_too_few_starts_makes_the_run_invalid() {
    let mut record = varying();
    let LoadShape::Varying { phases, .. } = &mut record.header.load else { panic!() };
    phases[1].arrivals = 12_000.0;
    assert!(faults(&record)[0].contains("200.0 asked for"), "{:?}", faults(&record));
    // Of a phase that was cut off nothing can be said of its number.
    record.intervals.truncate(80);
    assert!(record.judge(0.95).is_valid(), "{:?}", faults(&record));
    let phases = record.judge_phases(0.95);
    assert_eq!(phases.iter().map(|phase| phase.complete).collect::<Vec<_>>(), [true, false]);
}

/// The story: Python's `Valid` was that of the whole run, in which the lag of one phase drowned, and the command's was
/// that of each phase too.
#[test]
fn a_run_is_as_valid_as_its_worst_phase() {
    let mut record = varying();
    assert!(record.is_valid(0.95));
    for (nth, interval) in record.intervals.iter_mut().enumerate() {
        interval.lag = Histogram::new();
        (0..225).for_each(|_| interval.lag.record(Duration::from_micros(10)));
        let late = if (60..120).contains(&nth) { 4 } else { 0 };
        (0..late).for_each(|_| interval.lag.record(Duration::from_millis(3)));
    }
    assert!(record.judge(0.95).is_valid(), "{:?}", faults(&record));
    let phases = record.judge_phases(0.95);
    let valid: Vec<bool> = phases.iter().map(|phase| phase.is_valid()).collect();
    assert_eq!(valid, [true, false, true], "{phases:?}");
    assert!(!record.is_valid(0.95));
}

#[test]
fn a_backlog_that_is_worked_off_is_told_and_is_no_fault() {
    let mut record = System { arrivals_per_s: 600.0, ..SYSTEM }.record();
    assert!(!record.judge(0.95).is_valid(), "as a steady load it is none");
    let phase = Phase { name: "all".into(), start_s: 0.0, length_s: 60.0, arrivals: 36_000.0 };
    record.header.load = LoadShape::Varying {
        course: Course::Log { requests: 36_000, speed: 1.0 },
        phases: vec![phase],
        in_flight_max: 100_000,
    };
    let phases = record.judge_phases(0.95);
    assert!(phases[0].judgement.is_valid(), "{phases:?}");
    assert_eq!(phases[0].drifting, ["mean response", "requests in flight"]);
    assert!(record.judge(0.95).is_valid());
}

#[test]
fn a_late_generator_was_the_limit() {
    // The median is 3.5 ms; a lag p99 of 1 ms is let pass, 2 ms is not.
    for (late, valid) in [(900, true), (2_000, false)] {
        let mut record = SYSTEM.record();
        record.intervals.iter_mut().for_each(|interval| {
            (0..10).for_each(|_| interval.lag.record(Duration::from_micros(late)));
        });
        assert_eq!(record.judge(0.95).is_valid(), valid, "{:?}", faults(&record));
    }
    // Always a little late counts as well: 10 % of the mean response is 0.5 ms.
    let mut record = SYSTEM.record();
    record.intervals.iter_mut().for_each(|interval| {
        interval.lag = Histogram::new();
        (0..300).for_each(|_| interval.lag.record(Duration::from_micros(700)));
    });
    assert!(faults(&record)[0].contains("sent late"), "{:?}", faults(&record));
}

#[test]
fn a_generator_that_begins_too_little_was_the_limit() {
    let mut record = SYSTEM.record();
    record.header.load = LoadShape::Fixed { rate: 330.0, in_flight_max: 10 };
    assert!(faults(&record)[0].contains("330.0 asked for"), "{:?}", faults(&record));
    let mut record = SYSTEM.record();
    record.intervals[5].classes[1].errors.insert(ErrorKind::ConnectOther, 900);
    assert!(faults(&record)[0].contains("900 requests got no connection"));
}

#[test]
fn an_overloaded_server_is_not_stationary() {
    let record = System { arrivals_per_s: 600.0, ..SYSTEM }.record();
    let judged = record.judge(0.95);
    let drifting: Vec<_> = judged
        .faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::Drifts { what, trend } if trend.drift > 1.0 => Some(*what),
            _ => None,
        })
        .collect();
    assert_eq!(drifting, ["mean response", "requests in flight"], "{:?}", judged.faults);
    // The books are right, but of the many in flight at the end none has ended: nobody knows their times.
    assert_eq!(judged.little.verdict, LittleVerdict::CannotTell);
    assert_eq!(judged.faults.len(), 2);
}

#[test]
fn stationary_runs_are_seldom_called_drifting() {
    let runs = 50;
    let alarms = (0..runs)
        .filter(|&seed| {
            let judged = System { seed, seconds: 30, ..SYSTEM }.record().judge(0.95);
            judged.faults.iter().any(|fault| matches!(fault, Fault::Drifts { .. }))
        })
        .count();
    // Three series at 1 %, two of them nearly the same: 1 expected, 5 is four deviations more.
    assert!(alarms <= 5, "{alarms} of {runs}");
}

#[test]
fn warm_up_is_left_out_or_suggested() {
    let mut record = SYSTEM.record();
    // The first six seconds were slow.
    for interval in &mut record.intervals[..6] {
        interval.classes[0].total.clear();
        let slow = interval.classes[0].completed;
        (0..slow).for_each(|_| interval.classes[0].total.record(Duration::from_millis(80)));
    }
    let suggested = record.judge(0.95).warmup_suggested_s.unwrap();
    assert!((6.0..=9.0).contains(&suggested), "{suggested}");
    record.header.warmup_s = 6.0;
    let judged = record.judge(0.95);
    assert_eq!((judged.length_s, judged.warmup_suggested_s), (54.0, None));
    assert!(judged.is_valid(), "{:?}", judged.faults);
    assert_eq!(record.steady()[0].start_s, 6.0);
}

#[test]
fn empty_runs_are_faults_not_panics() {
    let mut record = System { seconds: 3, ..SYSTEM }.record();
    record.header.warmup_s = 10.0;
    assert_eq!(record.judge(0.95).faults, [Fault::NoSteadyInterval]);
    let silent = System { arrivals_per_s: 1e-9, ..SYSTEM }.record();
    let judged = silent.judge(0.95);
    assert_eq!(judged.faults, [Fault::NothingCompleted]);
    assert_eq!((judged.all.response, judged.all.load_factor), (None, 0.0));
    // The story: that nothing was completed hid that the generator had not asked either.
    let mut late = silent;
    late.header.load = LoadShape::Fixed { rate: 1000.0, in_flight_max: 10_000 };
    let told = late.judge(0.95).faults;
    let starts = |fault: &Fault| matches!(fault, Fault::Generator(GeneratorLimit::Starts { .. }));
    assert!(told[0] == Fault::NothingCompleted && told.len() == 2 && starts(&told[1]), "{told:?}");
}

/// The story: a server that answered nothing was not told from a late generator, although nearly all requests had left in
/// time.
#[test]
fn what_is_unanswered_and_left_in_time_is_late_by_itself() {
    let silent = |lagged: u64| {
        let mut record = System { arrivals_per_s: 1e-9, seconds: 20, ..SYSTEM }.record();
        for interval in &mut record.intervals {
            interval.started = 100;
            (0..100 - lagged).for_each(|_| interval.lag.record(Duration::from_micros(10)));
            (0..lagged).for_each(|_| interval.lag.record(Duration::from_millis(20)));
        }
        record.header.load = LoadShape::Fixed { rate: 100.0, in_flight_max: 10_000 };
        verdict(&record, &Limit { quantile: 0.9, response: Duration::from_millis(50) })
    };
    assert_eq!(silent(10), Outcome::Fails);
    assert_eq!(silent(90), Outcome::Invalid);
}

/// The story: a run of five seconds and one of twenty-five have intervals of other lengths in their records. They differed
/// "in settings", as if they were of other loads, and nothing said in which.
#[test]
fn runs_differ_in_settings_that_are_named_and_not_in_the_length_of_their_intervals() {
    let record = SYSTEM.record();
    let with = |name: &str, value: &str| {
        let mut other = record.clone();
        other.header.settings.insert(name.to_owned(), value.to_owned());
        compare(&record, &other, 0.95, 0.05).differing
    };
    assert!(with("interval", "125ms").is_empty());
    assert_eq!(with("keep-alive", "false"), ["keep-alive"]);
    let mut other = record.clone();
    other.header.target = "http://10.0.0.7/".into();
    assert_eq!(compare(&record, &other, 0.95, 0.05).differing, ["target"]);
}

#[test]
fn two_runs_compared() {
    let long = System { seconds: 120, ..SYSTEM };
    let (a, b) = (long.record(), System { seed: 12, ..long }.record());
    let same = compare(&a, &b, 0.95, 0.3);
    assert_eq!(same.throughput.verdict, ChangeVerdict::NoDifference, "{same:?}");
    assert_eq!(same.response.verdict, ChangeVerdict::NoDifference, "{same:?}");
    assert!(same.differing.is_empty());
    // At a finer grain the response of a queue is too noisy to say.
    assert_eq!(compare(&a, &b, 0.95, 0.001).response.verdict, ChangeVerdict::Inconclusive);

    // A server 1.2 times as fast: 3.33 ms instead of 5 ms.
    let faster = System { services_per_s: 600.0, seed: 13, ..long }.record();
    let better = compare(&a, &faster, 0.95, 0.05);
    assert_eq!(better.response.verdict, ChangeVerdict::Better, "{better:?}");
    let ratio = better.response.ratio.unwrap();
    assert!(ratio.low < 2.0 / 3.0 && 2.0 / 3.0 < ratio.high, "{ratio:?}");
    assert_eq!(compare(&faster, &a, 0.95, 0.05).response.verdict, ChangeVerdict::Worse);
    assert_eq!(better.p99.verdict, ChangeVerdict::Better, "{better:?}");
    assert_ne!(better.throughput.verdict, ChangeVerdict::Better, "{better:?}");

    let more = System { arrivals_per_s: 360.0, seed: 14, ..long }.record();
    let more = compare(&a, &more, 0.95, 0.05);
    assert_eq!(more.throughput.verdict, ChangeVerdict::Better, "{more:?}");
    assert_eq!(more.differing, ["load"]);

    // A run that is not valid proves nothing.
    let mut spoilt = faster;
    spoilt.header.warmup_s = 1e6;
    let nothing = compare(&a, &spoilt, 0.95, 0.05);
    assert_eq!(nothing.response.verdict, ChangeVerdict::Inconclusive);
    assert_eq!(nothing.faults, [vec![], vec![Fault::NoSteadyInterval]]);
}

/// A lag of 2 ms is the generator's fault where responses take a tenth of a millisecond, and nothing to a limit of 50 ms.
#[test]
fn the_lag_is_judged_against_the_limit_that_was_asked_for() {
    let system = System { arrivals_per_s: 200.0, services_per_s: 10_000.0, seconds: 20, seed: 4 };
    let mut record = system.record();
    for interval in &mut record.intervals {
        (0..200).for_each(|_| interval.lag.record(Duration::from_millis(2)));
    }
    let lag = |faults: &[Fault]| {
        faults.iter().any(|fault| matches!(fault, Fault::Generator(GeneratorLimit::Lag { .. })))
    };
    assert!(lag(&record.judge(0.95).faults));
    assert!(!lag(&record.judge_for(0.95, Some(Duration::from_millis(50))).faults));
    assert!(lag(&record.judge_for(0.95, Some(Duration::from_millis(10))).faults));
}

/// The interval of any quantile, not only of those that are printed.
#[test]
fn any_quantile_comes_from_the_histograms() {
    let system = System { arrivals_per_s: 500.0, services_per_s: 1000.0, seconds: 100, seed: 5 };
    let record = system.record();
    for q in [0.75, 0.95, 0.98] {
        let truth = -(1.0f64 - q).ln() * system.response_s();
        let found = record.quantile(None, q, 0.999).unwrap();
        assert!(found.holds(truth), "{q}: {found:?}, {truth}");
        assert!(found.relative() < 0.3, "{q}: {found:?}");
    }
    let judged = record.judge(0.95);
    assert_eq!(record.quantile(Some(1), 0.95, 0.95), judged.classes[1].quantiles[2].response);
    let longest = judged.all.response_max_s.unwrap();
    assert!(longest >= judged.all.quantiles[4].response.unwrap().mean);
}

/// Five runs that differ by 10 % from one to the next: two of them differ clearly by their own intervals, and not when
/// what differs from run to run is known.
#[test]
fn the_noise_from_run_to_run_is_in_the_comparison_of_several() {
    let runs = |rates: [f64; 5]| {
        rates.map(|rate| {
            System { arrivals_per_s: 100.0, services_per_s: rate, seconds: 60, seed: rate as u64 }
                .record()
        })
    };
    let before = runs([500.0, 560.0, 440.0, 530.0, 470.0]);
    let after = runs([505.0, 555.0, 445.0, 525.0, 475.0]);
    let one = compare(&before[1], &before[2], 0.95, 0.05);
    assert_eq!(one.response.verdict, ChangeVerdict::Worse, "{one:?}");
    let (a, b): (Vec<&RunRecord>, Vec<&RunRecord>) =
        (before.iter().collect(), after.iter().collect());
    let several = compare_runs(&a, &b, 0.95, 0.05);
    let ratio = several.response.ratio.unwrap();
    assert!(ratio.low < 1.0 && 1.0 < ratio.high, "{ratio:?}");
    assert!(several.response.verdict != ChangeVerdict::Worse, "{several:?}");
    // One run against five: within what they differ by.
    let single = compare_runs(&a, &[&before[2]], 0.95, 0.05);
    assert!(single.response.verdict == ChangeVerdict::Inconclusive, "{single:?}");
    // Twice as slow shows.
    let slower = runs([250.0, 280.0, 220.0, 265.0, 235.0]);
    let slower: Vec<&RunRecord> = slower.iter().collect();
    let worse = compare_runs(&a, &slower, 0.95, 0.05);
    assert_eq!(worse.response.verdict, ChangeVerdict::Worse, "{worse:?}");
}
