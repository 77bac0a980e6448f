//! Open load: arrivals wait for nobody, and latency counts from when they should have begun.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::http::{Load, PlanSpec, ProbeError, probe};
use load::probe::NoRate;
use measure::knee::{Outcome, Probe};
use measure::limit::{Limit, verdict};
use measure::{LittleVerdict, Until};
use workload::{Arrivals, Dist};

use crate::server::{Server, ok};
use crate::{closed, completed, failed_in_all, responses, run, spec};

fn open(url: &str, arrivals: Arrivals, until: Until) -> PlanSpec {
    spec(url, Load::Open { arrivals, in_flight_max: 500 }, until)
}

/// As the server sees them. For 1000 exponential gaps the standard error of the mean is 3.2 %, of
/// the squared coefficient of variation about sqrt(8 / 1000) = 9 %; four of each are allowed. The
/// latter has no upper bound here: where the machine stops for 50 ms, all that were to arrive come
/// at once. (The intended starts themselves are tested where they are made.)
#[test]
fn poisson_arrivals_have_exponential_gaps() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&arrived);
    let server = Server::answering(move |_| {
        book.lock().unwrap().push(Instant::now());
        ok(10)
    });
    let arrivals = Arrivals::Poisson { rate: 500.0 };
    let mut plan = open(&server.url(), arrivals, Until::Requests(1001));
    plan.threads = 2;
    plan.seed = 11;
    let record = run(plan);
    assert_eq!((completed(&record), failed_in_all(&record)), (1001, 0));
    let mut at = arrived.lock().unwrap().clone();
    at.sort();
    let gaps: Vec<f64> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    let scv = variance / (mean * mean);
    assert!((mean * 500.0 - 1.0).abs() < 4.0 * 0.032, "mean gap {mean}");
    assert!(scv > 1.0 - 4.0 * 0.09, "squared cv {scv}");
}

#[test]
fn fixed_arrivals_come_at_their_rate_over_all_threads() {
    let server = Server::answering(|_| ok(10));
    for threads in [1, 3] {
        let arrivals = Arrivals::Fixed { rate: 300.0 };
        let mut plan = open(&server.url(), arrivals, Until::Seconds(0.9));
        plan.threads = threads;
        let record = run(plan);
        let started: u64 = record.intervals.iter().map(|interval| interval.started).sum();
        // The last ones may be late, and so after the end.
        assert!((260..=270).contains(&started), "{started} of 270");
        let ended = completed(&record) + failed_in_all(&record);
        assert!(started - ended <= 10, "{started} started, {ended} ended");
    }
}

/// A generator that is late, because it is asked for more than it can start: what it is late counts.
/// All requests are answered, so that the books must balance to the resolution of histograms:
/// the counted time in flight is the sum of the response times, both with the lag.
#[test]
fn the_lateness_of_the_generator_counts() {
    let server = Server::answering(|_| ok(10));
    let arrivals = Arrivals::Fixed { rate: 1e6 };
    let record = run(open(&server.url(), arrivals, Until::Requests(400)));
    assert_eq!((completed(&record), failed_in_all(&record)), (400, 0));
    let response_s = responses(&record).mean_s() * 400.0;
    let in_flight_s: f64 = record.intervals.iter().map(|i| i.in_flight_mean * i.length_s).sum();
    let lag_s: f64 = record.intervals.iter().map(|i| i.lag.mean_s() * i.lag.len() as f64).sum();
    assert!(lag_s > 0.005 * response_s, "too little lag for this test: {lag_s} of {response_s} s");
    assert!(response_s > lag_s, "each response time holds its own lag");
    // Without the lag, either of the two would be off by all of it.
    let off_s = (in_flight_s - response_s).abs();
    assert!(
        off_s < 0.25 * lag_s,
        "{in_flight_s} s in flight, {response_s} s of responses, {lag_s}"
    );
}

/// The test of coordinated omission: for 200 ms the server answers nobody. An open load goes on
/// arriving, and a tenth of all requests feels the stall; a closed client feels it once.
#[test]
fn a_stall_shows_in_the_quantiles_of_an_open_load() {
    let stalling = || {
        let begun = Instant::now();
        Server::answering(move |_| {
            let (from, to) = (Duration::from_millis(500), Duration::from_millis(700));
            let at = begun.elapsed();
            if at >= from && at < to {
                thread::sleep(to - at);
            }
            ok(10)
        })
    };
    let server = stalling();
    let arrivals = Arrivals::Poisson { rate: 200.0 };
    let record = run(open(&server.url(), arrivals, Until::Seconds(2.0)));
    assert_eq!(failed_in_all(&record), 0);
    let open = responses(&record);
    assert!(open.quantile(0.99) > Duration::from_millis(150), "{open:?}");
    assert!(open.quantile(0.95) > Duration::from_millis(60), "{open:?}");
    assert!(open.quantile(0.5) < Duration::from_millis(50), "{open:?}");
    let judged = record.judge(0.95);
    assert_eq!(judged.little.verdict, LittleVerdict::Closes, "{:?}", judged.little);

    let server = stalling();
    let record = run(closed(&server.url(), 1, Until::Seconds(1.5)));
    let closed = responses(&record);
    assert!(closed.max() > Duration::from_millis(150), "{closed:?}");
    assert!(closed.quantile(0.99) < Duration::from_millis(100), "{closed:?}");
}

/// One server at a time, 10 ms each: 100/s at most. At 40/s nearly all are done in 150 ms; at 300/s
/// the queue grows without end, which is known long before the probe's length is over.
#[test]
fn a_probe_for_the_knee_tells_a_load_that_holds_from_one_that_does_not() {
    let one_at_a_time = Arc::new(Mutex::new(()));
    let server = Server::answering(move |_| {
        let _turn = one_at_a_time.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
        ok(10)
    });
    let base = open(&server.url(), Arrivals::Fixed { rate: 1.0 }, Until::Seconds(1.0));
    let limit = Limit { quantile: 0.9, response: Duration::from_millis(150) };
    let interrupt = AtomicBool::new(false);
    let length = Duration::from_secs(3);
    let with = |rate, number, limit: &Limit| {
        let at = Probe { rate, effort: 1 };
        probe(&base, at, number, length, limit, &interrupt, &mut |_| {}).unwrap()
    };
    // On a busy machine the generator may be late itself; a search tries again then, and so does this: with four times
    // its load on the machine, four tries in a row were.
    let try_at = |rate| {
        (0..24)
            .map(|number| with(rate, number, &limit))
            .find(|probed| probed.outcome.is_decided())
            .expect("one try in 24 without a late generator")
    };
    let low = try_at(40.0);
    assert_eq!(low.outcome, Outcome::Holds, "{:?}", responses(&low.record));
    assert_eq!(verdict(&low.record, &limit), Outcome::Holds);
    // Before the queue that a load too high leaves behind in the server.
    let strict = Limit { quantile: 0.9999, ..limit };
    assert_eq!(with(40.0, 9, &strict).outcome, Outcome::TooFew, "120 requests say nothing of it");
    let high = try_at(300.0);
    assert_eq!(high.outcome, Outcome::Fails, "{:?}", responses(&high.record));
    let elapsed_s = high.record.summary.as_ref().unwrap().elapsed_s;
    assert!(elapsed_s < 3.0, "an early decision ends the probe: {elapsed_s} s");

    let mut wrong = base.clone();
    wrong.load = Load::Closed { clients: 3, think: Dist::Constant(0.0) };
    let at = Probe { rate: 1.0, effort: 1 };
    let refused = probe(&wrong, at, 0, length, &limit, &interrupt, &mut |_| {});
    assert!(matches!(refused, Err(ProbeError::NoRate(NoRate::Closed(3)))));
}
