//! The search for a knee with the test that decides its probes, on queues whose knee is known: the whole of
//! `--knee` but for the sockets.

use std::time::Duration;

use measure::knee::{Knee, KneeSpec, Outcome, Probe, Search, Step};
use measure::limit::Limit;
use measure::{ERROR_RATE, Histogram, SequentialTest};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::sequential::interval;

/// The budget of `measure --knee`.
const BUDGET_S: f64 = 180.0;

/// Service of a request.
#[derive(Clone, Copy, Debug)]
enum Service {
    Exponential,
    /// One of 250 takes a hundred times as long as the others: a miss, a lock.
    TwoModes,
    /// Nine of ten are short, the others forty times as long and exponential: the coefficient of variation is about 4.
    Hyperexponential,
}

/// A server with Poisson arrivals, one queue, and a constant delay behind it.
#[derive(Clone, Copy, Debug)]
struct Server {
    workers: usize,
    service: Service,
    /// Requests that a worker serves \[1/s\].
    service_rate: f64,
    delay_s: f64,
    quantile: f64,
    limit_s: f64,
}

/// M/M/1 behind a delay.
const fn one(service_rate: f64, delay_s: f64, quantile: f64, limit_s: f64) -> Server {
    Server { workers: 1, service: Service::Exponential, service_rate, delay_s, quantile, limit_s }
}

impl Server {
    /// P(T > t) = exp(-(mu - lambda) (t - d)).
    fn knee(&self) -> f64 {
        assert!(self.workers == 1 && matches!(self.service, Service::Exponential), "{self:?}");
        self.service_rate + (1.0 - self.quantile).ln() / (self.limit_s - self.delay_s)
    }

    /// The same by bisection on runs of 1,600 s, where there is no formula.
    fn simulated_knee(&self) -> f64 {
        let late_share = |rate: f64| {
            let (mut late, mut all) = (0u64, 0u64);
            for seed in 0..4 {
                self.run(rate, 400.0, 1_000_000 + seed, |arrival, end| {
                    all += 1;
                    late += u64::from(end - arrival > self.limit_s);
                });
            }
            late as f64 / all as f64
        };
        let (mut low, mut high) = (1.0, self.service_rate * self.workers as f64);
        for _ in 0..12 {
            let middle = f64::sqrt(low * high);
            if late_share(middle) <= 1.0 - self.quantile { low = middle } else { high = middle }
        }
        f64::sqrt(low * high)
    }

    fn limit(&self) -> Limit {
        Limit { quantile: self.quantile, response: Duration::from_secs_f64(self.limit_s) }
    }

    /// Tells arrival and end of each request of a run \[s\] that begins empty.
    fn run(&self, rate: f64, length_s: f64, seed: u64, mut each: impl FnMut(f64, f64)) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (gap, unit) = (Exp::new(rate).unwrap(), Exp::new(1.0).unwrap());
        let mean_s = 1.0 / self.service_rate;
        let mut free_at = vec![0.0f64; self.workers];
        let mut now = 0.0;
        loop {
            now += gap.sample(&mut rng);
            if now >= length_s {
                return;
            }
            let service_s = match self.service {
                Service::Exponential => mean_s * unit.sample(&mut rng),
                Service::TwoModes if rng.random_bool(0.004) => mean_s * 100.0 / 1.396,
                Service::TwoModes => mean_s / 1.396,
                Service::Hyperexponential if rng.random_bool(0.1) => {
                    mean_s * 40.0 / 4.9 * unit.sample(&mut rng)
                }
                Service::Hyperexponential => mean_s / 4.9,
            };
            let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a worker");
            *first = first.max(now) + service_s;
            each(now, *first + self.delay_s);
        }
    }

    /// A probe of at most this length \[s\], as the load engines make it, and how long it took.
    fn probe(&self, at: Probe, length_s: f64, seed: u64) -> (Outcome, f64) {
        let (warmup_s, interval_s) = (length_s / 4.0, (length_s / 160.0).clamp(0.025, 1.0));
        let end_s = warmup_s + length_s;
        let intervals = (end_s / interval_s).ceil() as usize;
        let mut seen: Vec<(Histogram, u64)> =
            (0..intervals).map(|_| (Histogram::new(), 0)).collect();
        self.run(at.rate, end_s, seed, |arrival, end| {
            seen[(arrival / interval_s) as usize].1 += 1;
            if let Some((total, _)) = seen.get_mut((end / interval_s) as usize) {
                total.record(Duration::from_secs_f64(end - arrival));
            }
        });
        let (warmup, length) =
            (Duration::from_secs_f64(warmup_s), Duration::from_secs_f64(length_s));
        let mut test = SequentialTest::new(self.limit(), warmup, length);
        for (nth, (total, started)) in seen.into_iter().enumerate() {
            let start_s = nth as f64 * interval_s;
            let outcome = test.observe(&interval(start_s, interval_s, total, started));
            if let Some(outcome) = outcome.filter(|outcome| outcome.is_decided()) {
                return (outcome, start_s + interval_s);
            }
        }
        (test.conclude(), end_s)
    }

    /// A search from half of the rate that requests one after the other come at, and how long it took \[s\].
    fn search(&self, seed: u64) -> (Knee, f64) {
        let alone_s = 1.0 / self.service_rate + self.delay_s;
        let spec = KneeSpec {
            budget_s: BUDGET_S,
            rate_first: 0.5 / alone_s,
            ..KneeSpec::for_limit(self.quantile, self.limit_s)
        };
        let (mut search, mut spent_s) = (Search::new(spec), 0.0);
        loop {
            match search.next() {
                Step::Finished(knee) => return (knee, spent_s),
                Step::Try(probe) => {
                    let number = search.probes().len() as u64;
                    let (outcome, took_s) =
                        self.probe(probe, search.length_s(probe), seed * 1_000 + number);
                    search.tell(probe, outcome, took_s);
                    spent_s += took_s;
                }
            }
        }
    }
}

/// Servers of which three minutes hold the requests of the probes, from a sharp knee to one that is as flat as can be: a
/// limit of ten service times, where the share of late requests doubles in 7 % of the service rate.
const SERVERS: [Server; 12] = [
    one(2_000.0, 0.0, 0.99, 0.05),
    one(10_000.0, 0.0, 0.99, 0.05),
    one(10_000.0, 0.0, 0.99, 0.002),
    one(10_000.0, 0.0, 0.999, 0.01),
    one(1_000.0, 0.0, 0.99, 0.01),
    one(500.0, 0.0, 0.99, 0.1),
    one(500.0, 0.05, 0.99, 0.2),
    one(200.0, 0.0, 0.99, 0.1),
    one(200.0, 0.02, 0.95, 0.1),
    one(100.0, 0.0, 0.9, 0.2),
    one(500.0, 0.05, 0.95, 0.2),
    one(500.0, 0.05, 0.9, 0.2),
];

/// The story: of ten searches of three minutes none answered, because probes were repeated where nothing could be told.
///
/// 240 searches: at least nine of ten answer, for each server at least three of four (of 20 with 0.9 each, fewer than 15
/// come in 1 % of the cases). An answer is an interval of at most a factor of two. An end that two probes saw, which
/// err at 2.5 % a side and at 5 % at the very limit, is wrong by chance in fewer than one of 400 pairs, of which a search
/// has a dozen: at most 3 % are.
#[test]
fn nine_of_ten_searches_answer_within_their_budget() {
    const SEEDS: u64 = 20;
    let (mut answers, mut wrong) = (0, 0);
    for server in SERVERS {
        let truth = server.knee();
        let spec = KneeSpec::for_limit(server.quantile, server.limit_s);
        assert!(spec.search_s(truth) <= BUDGET_S, "{server:?} is slow: {}", spec.search_s(truth));
        let mut of_server = 0;
        for seed in 0..SEEDS {
            let (knee, spent_s) = server.search(seed);
            assert!(spent_s <= BUDGET_S + 1.0, "{server:?}, seed {seed}: {spent_s} s");
            if let Knee::Between { low, high } = knee {
                assert!(high <= 2.0 * low + 1e-9, "{server:?}, seed {seed}: {low} to {high}");
                of_server += 1;
                wrong += u64::from(truth < low || truth > high);
            }
        }
        assert!(of_server >= SEEDS * 3 / 4, "{server:?}: {of_server} of {SEEDS}");
        answers += of_server;
    }
    let searches = SEEDS * SERVERS.len() as u64;
    assert!(answers * 10 >= searches * 9, "{answers} of {searches} answered");
    assert!(wrong * 33 <= searches, "{wrong} of {searches} are wrong");
    println!("{answers} of {searches} searches answered, {wrong} of them wrongly");
}

/// Servers of other kinds, whose knees are found by long runs. Eight workers are answered like one. Where late requests
/// come in large clusters three minutes do not tell: then the search says so, and it does not answer wrongly. It
/// knows at least an end within a factor of four all the same.
#[test]
fn servers_of_other_kinds_are_answered_or_left_open() {
    const SEEDS: u64 = 20;
    let of = |workers, service, service_rate, limit_s| Server {
        workers,
        service,
        ..one(service_rate, 0.0, 0.99, limit_s)
    };
    for (server, least) in [
        (of(8, Service::Exponential, 125.0, 0.05), SEEDS * 9 / 10),
        (of(1, Service::TwoModes, 1_000.0, 0.08), 0),
        (of(1, Service::Hyperexponential, 1_000.0, 0.1), 0),
    ] {
        let truth = server.simulated_knee();
        let (mut answers, mut wrong, mut told) = (0, 0, 0);
        for seed in 0..SEEDS {
            let (low, high) = match server.search(seed).0 {
                Knee::Between { low, high } => {
                    answers += 1;
                    (low, high)
                }
                Knee::Inconclusive { low, high, .. } => {
                    (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY))
                }
                knee => panic!("{server:?}, seed {seed}: {knee:?}"),
            };
            wrong += u64::from(truth < low || truth > high);
            told += u64::from(low * 4.0 >= truth || high <= truth * 4.0);
        }
        println!(
            "{server:?}: knee {truth:.0} /s, {answers} of {SEEDS} answered, {told} know an end, {wrong} wrong"
        );
        assert!(told * 10 >= SEEDS * 9, "{server:?}: {told} of {SEEDS} know an end");
        assert!(answers >= least, "{server:?}: {answers} of {SEEDS} answered");
        // One of 20 is 5 %, what two probes at the very limit may err.
        assert!(wrong <= 1, "{server:?}: {wrong} of {SEEDS} do not hold {truth}");
    }
}

/// The story: at a knee of two modes every other long probe held, because a tenth of the limit was seldom reached: the
/// late requests come in clusters of thirty, and were counted as independent ones.
///
/// Twice the error rate is what the test promises; 200 probes show it with a standard error of 1.5 %, of which three are
/// allowed.
#[test]
fn probes_at_the_knee_of_two_modes_err_as_seldom_as_they_say() {
    const PROBES: u64 = 200;
    let promised = 2.0 * ERROR_RATE;
    let most = promised + 3.0 * (promised * (1.0 - promised) / PROBES as f64).sqrt();
    let server = Server { service: Service::TwoModes, ..one(1_000.0, 0.0, 0.99, 0.08) };
    let spec = KneeSpec::for_limit(server.quantile, server.limit_s);
    let rate = server.simulated_knee();
    for effort in [1, 4, 16] {
        let probe = Probe { rate, effort };
        let outcomes: Vec<Outcome> =
            (0..PROBES).map(|seed| server.probe(probe, spec.length_s(probe), seed).0).collect();
        for wrong in [Outcome::Holds, Outcome::Fails] {
            let count = outcomes.iter().filter(|outcome| **outcome == wrong).count();
            let share = count as f64 / PROBES as f64;
            assert!(share <= most, "effort {effort}: {share} {wrong:?}");
        }
    }
}
