//! Statements on chance, against the terminals themselves.

use workload::tpcc::{Constants, Inputs, Terminal};

use super::*;

/// The transactions that one terminal whose answers take no time completes from 60 to 660 s, by
/// kind.
fn ten_minutes(seed: u64, index: u8) -> [u64; 5] {
    let mut terminal = Terminal::new(seed, Inputs::new(Constants::for_run(seed, 100), 2), 1, index);
    let (mut at, mut counts) = (2.0 * f64::from(index), [0; 5]);
    while at < 660.0 {
        let cycle = terminal.cycle();
        at += cycle.keying.as_secs_f64();
        if (60.0..660.0).contains(&at) {
            counts[cycle.request.kind().index()] += 1;
        }
        at += cycle.think.as_secs_f64();
    }
    counts
}

/// The mean, and the variance of it times `n`.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// The variance of a sample of 3000 is off by 2.6 % (one deviation) where what is measured is nearly
/// normal, so that a tenth is four deviations.
#[test]
fn terminals_deal_new_orders_and_shares_with_the_variance_that_is_said() {
    let runs: Vec<[u64; 5]> =
        (0..3_000).map(|nth| ten_minutes(nth / 10, (nth % 10) as u8)).collect();
    let orders: Vec<f64> = runs.iter().map(|counts| counts[0] as f64).collect();
    let (mean, variance) = moments(&orders);
    // Ten terminals for ten minutes make a warehouse's rate ten times.
    assert!((mean / rate_nominal() - 1.0).abs() < 0.01, "{mean} for {}", rate_nominal());
    let (decks, edges) = variance_of_new_orders();
    let said = decks * 600.0 + edges;
    assert!((variance / said - 1.0).abs() < 0.1, "{variance} for {said}");
    for kind in [Kind::Payment, Kind::StockLevel] {
        let p = f64::from(kind.rules().cards) / cards();
        let beyond =
            |counts: &[u64; 5]| counts[kind.index()] as f64 - p * counts.iter().sum::<u64>() as f64;
        let (mean, variance) = moments(&runs.iter().map(beyond).collect::<Vec<f64>>());
        let said = cut(p * (1.0 - p));
        assert!(mean.abs() < 0.1, "{kind:?}: {mean}");
        assert!((variance / said - 1.0).abs() < 0.1, "{kind:?}: {variance} for {said}");
    }
}

#[test]
fn few_are_those_of_whom_one_run_in_twenty_misses() {
    let band = Band { low: 0.14, high: 0.16 };
    let alone = Level::shared_by(1);
    let needs = Expected::drawn(1, 0.15, band, alone).needs;
    assert_eq!(needs, 4898);
    let off = |n| Expected::drawn(n, 0.15, band, alone).finding(0.1395, band);
    assert_eq!(off(needs * 21 / 20), Finding::Violated);
    assert_eq!(off(needs * 3 / 4), Finding::TooFew { needs });
    assert_eq!(
        Expected::drawn(1260, 0.15, band, alone).finding(0.1, band),
        Finding::Violated,
        "far off"
    );
    assert_eq!(
        Expected::drawn(5, 0.15, band, alone).finding(0.16, band),
        Finding::Met,
        "on the bound"
    );
}

/// Of terminals that are asked one thing, one run of twenty may be called wrong for it; of those that
/// are asked ten, one of two hundred for each.
#[test]
fn the_more_is_asked_the_more_seldom_chance_must_be() {
    let band = Band { low: 0.14, high: 0.16 };
    let found = |numbers| {
        // Three deviations below, as chance takes one run of 370.
        let n = 11_500;
        Expected::drawn(n, 0.15, band, Level::shared_by(numbers)).finding(0.1398, band)
    };
    assert_eq!(found(1), Finding::Violated);
    assert_eq!(found(10), Finding::Violated);
    assert!(matches!(found(100), Finding::TooFew { .. }));
    let level = Level::shared_by(10);
    assert_eq!(level.finding(0.004, 0.05, 7), Finding::Violated);
    assert_eq!(level.finding(0.006, 0.05, 7), Finding::TooFew { needs: 14 });
    assert_eq!(level.finding(0.05, 0.05, 7), Finding::Met);
}
