//! Gaps between arrivals.

use std::time::Duration;

use workload::{Arrivals, stream};

use crate::sample::Sample;

const N: u32 = 200_000;

#[test]
fn poisson_gaps_are_exponential() {
    for rate in [0.01, 250.0, 1e6] {
        let arrivals = Arrivals::Poisson { rate };
        let mut chance = stream(3, 1);
        let sample = Sample::of(N, || arrivals.gap_s(&mut chance));
        let mean = 1.0 / rate;
        let off = (sample.mean - mean).abs();
        assert!(off <= sample.four_sigma(mean * mean), "rate {rate}: mean {}", sample.mean);
        let off = (sample.second - 2.0 * mean * mean).abs();
        assert!(off <= sample.four_sigma_of_second(), "rate {rate}: scv {}", sample.scv());
        // No gap tells of the next: their product has the mean of independent ones, and the
        // variance E[X^2]^2 - E[X]^4 = 3 mean^4.
        let product = Sample::of(N, || arrivals.gap_s(&mut chance) * arrivals.gap_s(&mut chance));
        let off = (product.mean - mean * mean).abs();
        assert!(off <= product.four_sigma(3.0 * mean.powi(4)), "rate {rate}: {}", product.mean);
    }
}

#[test]
fn fixed_gaps_do_not_vary() {
    let arrivals = Arrivals::Fixed { rate: 8.0 };
    let mut chance = stream(3, 1);
    for _ in 0..10 {
        assert_eq!(arrivals.gap_s(&mut chance), 0.125);
        assert_eq!(arrivals.gap(&mut chance), Duration::from_millis(125));
    }
    assert_eq!(chance, stream(3, 1), "and need no chance");
}

#[test]
fn gaps_are_rounded_to_the_nanosecond() {
    let arrivals = Arrivals::Poisson { rate: 1e7 };
    let (mut seconds, mut rounded) = (stream(5, 0), stream(5, 0));
    for _ in 0..1000 {
        let nanos = arrivals.gap_s(&mut seconds) * 1e9;
        let gap = arrivals.gap(&mut rounded).as_nanos() as f64;
        assert!((gap - nanos).abs() <= 0.5, "{gap} for {nanos}");
    }
}

#[test]
fn a_share_of_the_rate_is_the_same_process() {
    for (arrivals, half) in [
        (Arrivals::Poisson { rate: 10.0 }, Arrivals::Poisson { rate: 5.0 }),
        (Arrivals::Fixed { rate: 10.0 }, Arrivals::Fixed { rate: 5.0 }),
    ] {
        assert_eq!(arrivals.scaled(0.5), half);
        assert_eq!((arrivals.rate(), half.rate()), (10.0, 5.0));
    }
}

#[cfg(feature = "serde")]
#[test]
fn arrivals_go_round_through_files() {
    use serde_json::{from_value, json, to_value};
    for (arrivals, expected) in [
        (Arrivals::Poisson { rate: 2.5 }, json!({"poisson": {"rate": 2.5}})),
        (Arrivals::Fixed { rate: 4.0 }, json!({"fixed": {"rate": 4.0}})),
    ] {
        assert_eq!(to_value(arrivals).unwrap(), expected);
        assert_eq!(from_value::<Arrivals>(expected).unwrap(), arrivals);
    }
    let unknown = json!({"poisson": {"rate": 1.0, "burst": 2}});
    let error = from_value::<Arrivals>(unknown).unwrap_err().to_string();
    assert!(error.contains("unknown field `burst`"), "{error}");
}
