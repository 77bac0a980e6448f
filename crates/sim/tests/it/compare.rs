//! Networks side by side: what common random numbers are worth, and whether the intervals hold.

use gate::GateSpec;
use measure::{Estimate, t_quantile};
use sim::{Network, Of, Options, Quantity, StationKind, Stop, compare, compare_until, sweep};
use workload::Dist;

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

/// M/M/1 at half a job a second with this mean demand.
fn queue(mean: f64) -> Network {
    single(poisson(0.5), ONE, exponential(mean))
}

/// E[R] of that.
fn exact(mean: f64) -> f64 {
    mean / (1.0 - 0.5 * mean)
}

#[test]
fn one_network_alone_is_the_run_that_it_always_was() {
    let options = options(80, 100_000);
    let alone = sim::run(&queue(1.0), &options).unwrap();
    let compared = compare(&[queue(1.0)], &options).unwrap();
    assert_eq!(format!("{alone:?}"), format!("{:?}", compared.outcomes[0]));
    let response = compared.value(0, Of::All, Quantity::Response, 1).unwrap();
    assert_eq!(Some(response), alone.classes[0].response);
    assert_eq!(compared.value(0, Of::Class(0), Quantity::Response, 1), Some(response));
    let p99 = compared.value(0, Of::All, Quantity::Quantile(0.99), 1).unwrap();
    // Of all replications together, in both.
    let whole = quantile(&alone.classes[0].quantiles, 0.99);
    assert!(whole.holds(p99.mean) && p99.holds(whole.mean), "{p99:?} {whole:?}");
    assert_eq!(compared.value(0, Of::All, Quantity::Quantile(0.98), 1), None);
    assert_eq!(compared.value(0, Of::Class(1), Quantity::Response, 1), None);
    assert_eq!(compared.value(1, Of::All, Quantity::Response, 1), None);
}

#[test]
fn a_network_does_not_differ_from_itself() {
    let network = single(closed(5, Dist::Exponential { mean: 3.0 }), ONE, exponential(1.0));
    let compared = compare(&[network.clone(), network], &options(81, 20_000)).unwrap();
    for quantity in [Quantity::Throughput, Quantity::Response, Quantity::Quantile(0.9)] {
        let difference = compared.difference((0, 1), Of::All, quantity, 1).unwrap();
        // Of a quantile no more is known than its bucket, 0.1 % wide.
        let known = match quantity {
            Quantity::Quantile(_) => 1e-3 * compared.value(0, Of::All, quantity, 1).unwrap().mean,
            _ => 0.0,
        };
        assert_eq!(difference.mean, 0.0, "{quantity:?}");
        assert!(difference.half_width <= known, "{quantity:?}: {difference:?}");
    }
}

/// What each replication has of luck falls out of the difference of two. Of services 5 % apart, with the
/// same arrivals, nearly all of it does: the interval is asserted to be a quarter of that of independent
/// runs, so that these would need 16 times as many requests; these three seeds give 0.09 to 0.13.
#[test]
fn common_random_numbers_make_differences_sharp() {
    let networks = [queue(1.0), queue(1.05)];
    for seed in [82, 83, 84] {
        let options = options(seed, 200_000);
        let paired = compare(&networks, &options).unwrap();
        let paired = paired.difference((0, 1), Of::All, Quantity::Response, 1).unwrap();
        let other = Options { seed: seed + 1000, ..options.clone() };
        let a = response(&sim::run(&networks[0], &options).unwrap(), 0);
        let b = response(&sim::run(&networks[1], &other).unwrap(), 0);
        let independent = Estimate::combine(&[(1.0, b), (-1.0, a)]);
        let gain = paired.half_width / independent.half_width;
        assert!(gain < 0.25, "{paired:?} of pairs, {independent:?} of independent runs: {gain}");
        assert_near("difference", paired, exact(1.05) - exact(1.0), 0.05);
    }
}

/// Of 95 % intervals, 120 that are independent miss 6 on average; more than 15 is almost four standard
/// deviations (2.4) above that. The warm-up and the ends of a run bias them by far less than their width.
#[test]
fn the_interval_of_a_difference_holds_the_true_one() {
    let truth = exact(0.9) - exact(1.0);
    let networks = [queue(1.0), queue(0.9)];
    let misses = (0..120).filter(|seed| {
        let compared = compare(&networks, &options(9000 + seed, 20_000)).unwrap();
        !compared.difference((0, 1), Of::All, Quantity::Response, 1).unwrap().holds(truth)
    });
    let misses = misses.count();
    assert!((1..=15).contains(&misses), "{misses} of 120 missed");
}

#[test]
fn several_claims_together_are_made_with_wider_intervals() {
    let compared = compare(&[queue(1.0), queue(0.9)], &options(85, 20_000)).unwrap();
    let width = |claims| {
        compared.difference((0, 1), Of::All, Quantity::Response, claims).unwrap().half_width
    };
    // Ten replications have nine degrees of freedom; of five claims each may miss a fifth as often.
    let wanted = t_quantile(0.995, 9.0) / t_quantile(0.975, 9.0);
    assert!((width(5) / width(1) / wanted - 1.0).abs() < 1e-9, "{} of {}", width(5), width(1));
    let ratio = |claims| compared.ratio((0, 1), Of::All, Quantity::Response, claims).unwrap();
    assert!(ratio(5).low < ratio(1).low && ratio(1).high < ratio(5).high);
    assert!(ratio(1).high < 1.0, "a tenth less demand is surely faster: {:?}", ratio(1));
}

#[test]
fn it_goes_on_until_there_is_enough_or_the_budget_is_spent() {
    let options = options(86, 640_000);
    let analysed = |enough_at: u32| {
        let mut analyses = 0;
        let compared = compare_until(&[queue(1.0)], &options, |_| {
            analyses += 1;
            analyses == enough_at
        });
        (analyses, compared.unwrap())
    };
    let (_, first) = analysed(1);
    let (_, third) = analysed(3);
    let counted = |compared: &sim::Comparison| compared.outcomes[0].counted_s;
    let factor = counted(&third) / counted(&first);
    assert!((3.6..4.4).contains(&factor), "twice as far each time: {factor}");
    // 64,000 for each replication, from 2,000 on: 2, 4, 8, 16, 32, 64 thousand.
    let (analyses, spent) = analysed(1000);
    assert_eq!((analyses, spent.interim_analyses()), (6, 6));
    assert_eq!(spent.outcomes[0].stop, Stop::Budget);
}

#[test]
fn who_cannot_be_simulated_is_named() {
    let options = options(87, 20_000);
    let (at, error) = compare(&[queue(1.0), queue(2.5)], &options).unwrap_err();
    assert_eq!((at, error.overloaded()), (1, Some("station `station`")), "{error:?}");
    // Of a gate that is too small, that shows only while it runs.
    let gated = gated(poisson(0.5), GateSpec::fifo(1), StationKind::Delay, exponential(2.5));
    let few = Options { jobs_max: 1000, completions_max: 20_000_000, ..options.clone() };
    let (at, error) = compare(&[queue(1.0), gated], &few).unwrap_err();
    assert_eq!((at, error.overloaded()), (1, Some("gate `gate`")), "{error:?}");
    let one_run = Options { plan: sim::Plan::OneRun, ..options.clone() };
    let (_, error) = compare(&[queue(1.0)], &one_run).unwrap_err();
    assert!(error.to_string().contains("take replications"), "{error}");
    let zero = Options { plan: sim::Plan::Replications(1), ..options.clone() };
    let (_, error) = compare(&[queue(1.0)], &zero).unwrap_err();
    assert_eq!(error.overloaded(), None, "{error:?}");
    let outcomes = sweep(&[queue(1.0), queue(2.5), queue(0.5)], &options, || {});
    let fails: Vec<bool> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(fails, [false, true, false]);
}

#[test]
fn a_sweep_is_its_runs_on_any_number_of_threads() {
    let networks: Vec<Network> = [0.4, 0.8, 1.2, 1.6].map(queue).into();
    let options = options(88, 20_000);
    let text = |outcome: &sim::Outcome| format!("{outcome:?}");
    let wanted: Vec<String> =
        networks.iter().map(|network| text(&sim::run(network, &options).unwrap())).collect();
    for threads in [1, 2, 3, 9] {
        let options = Options { threads: Some(threads), ..options.clone() };
        let done = std::sync::atomic::AtomicUsize::new(0);
        let outcomes = sweep(&networks, &options, || {
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let outcomes: Vec<String> = outcomes.iter().map(|o| text(o.as_ref().unwrap())).collect();
        assert_eq!(outcomes, wanted, "{threads} threads");
        assert_eq!(done.into_inner(), networks.len());
    }
    assert!(sweep(&[], &options, || {}).is_empty());
}

/// The story: a quantile was the mean of the replications' own, and those of short ones are too low, so that
/// an objective on p99 was met too easily: 10 % low over these seeds, and 26 of 40 intervals held the truth. Now
/// it is 2 % and 33, as short replications tell little of a far quantile.
#[test]
fn quantiles_of_short_replications_are_not_too_low() {
    let p99 = exact(1.6) * 100_f64.ln();
    let (mut held, mut sum) = (0, 0.0);
    for seed in 900..940 {
        let compared = compare(&[queue(1.6)], &options(seed, 20_000)).unwrap();
        let found = compared.value(0, Of::All, Quantity::Quantile(0.99), 1).unwrap();
        held += u32::from(found.holds(p99));
        sum += found.mean;
    }
    // The mean of 40 has a standard error of about 2.5 %.
    let off = sum / 40.0 / p99 - 1.0;
    assert!(off.abs() < 0.06 && held >= 31, "{off}, {held} of 40");
}
