//! Tests of expectations and their verdicts.

use measure::LoadShape;

use super::*;

/// A second of 70,000 requests that take about so long [s].
fn second(seconds: f64) -> RunRecord {
    let block = |nth: u32, seconds: f64| {
        let mut counts = measure::ClassCounts { completed: 1750, ..Default::default() };
        for request in 0..1750 {
            let share = 1.0 + 0.1 * f64::from(nth % 7) + 0.01 * f64::from(request % 11);
            counts.total.record(Duration::from_secs_f64(seconds * share));
        }
        measure::Interval {
            start_s: f64::from(nth) * 0.025,
            length_s: 0.025,
            classes: vec![counts],
            in_flight_mean: 70_000.0 * seconds,
            started: 1750,
            connects: 0,
            lag: measure::Histogram::new(),
            generator: measure::GeneratorHealth::default(),
        }
    };
    RunRecord {
        header: measure::RunHeader {
            id: "second".into(),
            started: String::new(),
            tool: String::new(),
            command: Vec::new(),
            seed: 1,
            host: measure::Host::default(),
            target: "http://127.0.0.1/".into(),
            load: LoadShape::Poisson { rate: 70_000.0, in_flight_max: 10_000 },
            until: measure::Until::Seconds(1.0),
            warmup_s: 0.0,
            classes: vec![measure::ClassSpec { name: "/".into(), bytes: None, weight: 1 }],
            settings: std::collections::BTreeMap::new(),
            part: None,
            merged: Vec::new(),
        },
        intervals: (0..40).map(|nth| block(nth, seconds)).collect(),
        summary: None,
    }
}

#[test]
fn limits_are_read_with_their_units() {
    let read = |text: &str| text.parse::<Expectation>();
    let limit = read("p99(5k)<=20ms").unwrap();
    assert_eq!(limit.metric, Metric::Quantile(0.99));
    assert_eq!(limit.document.as_deref(), Some("5k"));
    assert!((limit.limit - 0.02).abs() < 1e-12);
    assert_eq!(read("rate >= 900/s").unwrap().side, Side::Above);
    assert!((read("errors<0.1%").unwrap().limit - 0.001).abs() < 1e-12);
    assert!(read("p99.9<1s").is_ok());
    assert!(read("maen<1s").unwrap_err().contains("did you mean `mean`"));
    assert!(read("p99<50").unwrap_err().contains("a time such as"));
    for (text, quantile) in [("p95<50ms", 0.95), ("p97.5<1s", 0.975), ("p99.99<1s", 0.9999)] {
        assert_eq!(read(text).unwrap().metric, Metric::Quantile(quantile));
    }
    assert_eq!(read("max<1s").unwrap().metric, Metric::Max);
    assert!(read("p100<1s").unwrap_err().contains("is no metric"));
    assert!(read("p0<1s").unwrap_err().contains("is no metric"));
    assert!(read("p99=50ms").unwrap_err().contains("no < or >"));
}

/// The story: a second of 70,000 requests, a thousand times below their limit, was "too few to tell" or had an
/// interval without end.
#[test]
fn a_second_far_from_its_limit_tells() {
    let record = second(50e-6);
    let told = |record: &RunRecord, limit: &str| {
        expect(&limit.parse().unwrap(), record, &record.judge(0.95)).verdict
    };
    for limit in ["p99<50ms", "p99.99<50ms", "p50<50ms", "max<50ms"] {
        assert_eq!(told(&record, limit), Verdict::Holds, "{limit}");
    }
    assert_eq!(told(&record, "p99>50ms"), Verdict::Fails);
    let record = second(50.0);
    for limit in ["p99<50ms", "p99.99<50ms", "p50<50ms", "max<50ms"] {
        assert_eq!(told(&record, limit), Verdict::Fails, "{limit}");
    }
}

#[test]
fn an_interval_across_the_limit_is_inconclusive() {
    let estimate = Estimate { mean: 10.0, half_width: 1.0, confidence: 0.95, n: 9 };
    assert_eq!(compare(&estimate, Side::Below, 11.5), Verdict::Holds);
    assert_eq!(compare(&estimate, Side::Below, 10.5), Verdict::Inconclusive);
    assert_eq!(compare(&estimate, Side::Below, 8.5), Verdict::Fails);
    assert_eq!(compare(&estimate, Side::Above, 8.5), Verdict::Holds);
    assert_eq!(compare(&estimate, Side::Above, 12.0), Verdict::Fails);
    let unsure = Estimate { half_width: f64::INFINITY, ..estimate };
    assert_eq!(compare(&unsure, Side::Below, 1e9), Verdict::Inconclusive);
}

/// The story: of a service that failed every other request within no time, p99 and max held.
#[test]
fn a_request_that_failed_is_later_than_any_limit() {
    let mut record = second(50e-6);
    let told = |record: &RunRecord, limit: &str| {
        let judgement = record.judge(0.95);
        expect(&limit.parse().unwrap(), record, &judgement)
    };
    let fail = |record: &mut RunRecord, each: u64| {
        for interval in &mut record.intervals {
            interval.classes[0].errors.insert(measure::ErrorKind::Timeout, each);
        }
    };
    // The middle of the interval was told as what was seen: 0.003 % of none.
    let none = told(&record, "errors<1%");
    assert!(none.line.ends_with("0 of 70000 requests failed, 0.0000 to 0.0055 %"), "{}", none.line);
    // 40 of 70,040 are no hindrance to p99, and one is to the longest.
    fail(&mut record, 1);
    assert_eq!(told(&record, "p99<50ms").verdict, Verdict::Holds);
    assert!(told(&record, "p99<50ms").line.contains("with the 40 that failed"));
    assert_eq!(told(&record, "max<50ms").verdict, Verdict::Fails);
    assert_eq!(told(&record, "max>50ms").verdict, Verdict::Holds);
    fail(&mut record, 1750);
    for (limit, verdict) in [
        ("p99<50ms", Verdict::Fails),
        ("p99>50ms", Verdict::Holds),
        ("p40<50ms", Verdict::Holds),
        ("p50<50ms", Verdict::Inconclusive),
    ] {
        let seen = told(&record, limit);
        assert_eq!(seen.verdict, verdict, "{}", seen.line);
    }
    assert!(told(&record, "p99<50ms").line.contains("70000 of 140000 requests failed"));
    assert!(told(&record, "p50<50ms").line.contains("about as many as may be late"));
}

/// The story: a limit on the knee held by an end of an undecided search that one probe had seen, in a bad moment.
#[test]
fn a_knee_is_held_by_the_ends_that_are_believed() {
    use measure::knee::Why;
    let knee = Knee::Inconclusive { low: Some(200.0), high: Some(220.0), why: Why::Budget };
    let verdict = |limit: &str, low, high| {
        let limit: Expectation = limit.parse().unwrap();
        expect_knee(&limit, &knee, &Believed { low, high }, "p99<50ms")
    };
    for (limit, low, high, wanted) in [
        ("knee>=100/s", None, None, Verdict::Inconclusive),
        ("knee>=100/s", Some(100.0), None, Verdict::Holds),
        ("knee>=200/s", Some(100.0), None, Verdict::Inconclusive),
        ("knee>=400/s", None, Some(220.0), Verdict::Fails),
        ("knee>=400/s", None, None, Verdict::Inconclusive),
        ("knee<400/s", None, Some(400.0), Verdict::Holds),
        ("knee<100/s", Some(100.0), None, Verdict::Fails),
    ] {
        let outcome = verdict(limit, low, high);
        assert_eq!(outcome.verdict, wanted, "{limit}, {low:?}, {high:?}: {}", outcome.line);
    }
    let line = verdict("knee>=100/s", Some(200.0), Some(400.0)).line;
    assert!(line.contains("holds at 200 /s and fails at 220 /s (seen once)"), "{line}");
}
