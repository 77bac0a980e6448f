//! Moments by formula against moments by sampling, and what describes no distribution.

use workload::{Dist, stream};

use crate::sample::Sample;

const N: u32 = 200_000;

/// Every distribution, at ordinary and at extreme parameters; their fourth moments exist, so that
/// the tolerance of the second can be told from the sample.
fn all() -> Vec<Dist> {
    vec![
        Dist::Constant(0.25),
        Dist::Constant(0.0),
        Dist::Exponential { mean: 3.0 },
        Dist::Exponential { mean: 0.0 },
        Dist::Erlang { mean: 2.0, stages: 1 },
        Dist::Erlang { mean: 2.0, stages: 4 },
        Dist::Erlang { mean: 1e-6, stages: 100 },
        Dist::Erlang { mean: 0.0, stages: 3 },
        Dist::Gamma { mean: 2.0, scv: 0.4 },
        Dist::Gamma { mean: 0.01, scv: 1e-6 },
        Dist::Gamma { mean: 5.0, scv: 2.5 },
        Dist::Hyperexponential { mean: 0.5, scv: 1.2 },
        Dist::Hyperexponential { mean: 1.0, scv: 4.0 },
        Dist::Hyperexponential { mean: 1.0, scv: 20.0 },
        Dist::Lognormal { mu: -3.0, sigma: 0.5 },
        Dist::Lognormal { mu: 1.0, sigma: 0.0 },
        Dist::Uniform { low: 0.0, high: 2.0 },
        Dist::Uniform { low: 3.0, high: 3.0 },
        Dist::Uniform { low: 1.0, high: 1.5 },
        Dist::Pareto { low: 2.0, shape: 9.0 },
        Dist::Pareto { low: 0.5, shape: 6.0 },
    ]
}

#[test]
fn samples_have_the_moments_of_the_formulas() {
    for (number, dist) in all().into_iter().enumerate() {
        let dist = dist.check().unwrap();
        let mut chance = stream(11, number as u64);
        let sample = Sample::of(N, || {
            let x = dist.sample(&mut chance);
            assert!(x >= 0.0 && x.is_finite(), "{dist:?} drew {x}");
            x
        });
        let (mean, second) = (dist.mean(), dist.second_moment());
        // Rounding adds up even where chance does not.
        let mean_off = sample.four_sigma(second - mean * mean) + 1e-11 * mean;
        assert!(
            (sample.mean - mean).abs() <= mean_off,
            "{dist:?}: mean {} for {mean}",
            sample.mean
        );
        let off = (sample.second - second).abs();
        let allowed = sample.four_sigma_of_second() + 1e-10 * second;
        assert!(off <= allowed, "{dist:?}: second moment {} for {second}", sample.second);
    }
}

/// Shares of a sample on both sides of points of the distribution function, so that no other shape
/// with the same two moments passes.
#[test]
fn samples_have_the_shape_that_is_named() {
    let exp = |x: f64| 1.0 - (-x).exp();
    let p = (1.0 + (3.0_f64 / 5.0).sqrt()) / 2.0;
    let cases: Vec<(Dist, f64, f64)> = vec![
        (Dist::Exponential { mean: 2.0 }, 1.0, exp(0.5)),
        // Two stages of mean 1: 1 - (1 + x) e^-x.
        (Dist::Erlang { mean: 2.0, stages: 2 }, 2.0, 1.0 - 3.0 * (-2.0_f64).exp()),
        (Dist::Gamma { mean: 2.0, scv: 0.5 }, 2.0, 1.0 - 3.0 * (-2.0_f64).exp()),
        (
            Dist::Hyperexponential { mean: 1.0, scv: 4.0 },
            1.0,
            p * exp(2.0 * p) + (1.0 - p) * exp(2.0 * (1.0 - p)),
        ),
        (Dist::Lognormal { mu: 0.7, sigma: 1.3 }, 0.7_f64.exp(), 0.5),
        (Dist::Lognormal { mu: 0.7, sigma: 1.3 }, 2.0_f64.exp(), 0.841_344_746),
        (Dist::Uniform { low: 1.0, high: 5.0 }, 2.0, 0.25),
        (Dist::Pareto { low: 2.0, shape: 1.5 }, 8.0, 1.0 - 0.125),
        (Dist::Pareto { low: 2.0, shape: 0.5 }, 8.0, 0.5),
    ];
    for (number, (dist, x, expected)) in cases.into_iter().enumerate() {
        let mut chance = stream(12, number as u64);
        let below = Sample::of(N, || f64::from(u8::from(dist.sample(&mut chance) <= x)));
        let allowed = below.four_sigma(expected * (1.0 - expected));
        let off = (below.mean - expected).abs();
        assert!(off <= allowed, "{dist:?}: P(X <= {x}) is {} for {expected}", below.mean);
    }
}

#[test]
fn two_moments_are_met_exactly() {
    for mean in [1e-9, 0.3, 1.0, 1e6] {
        for scv in [0.0, 1e-12, 0.1, 0.3, 1.0 / 3.0, 0.5, 0.7, 0.999, 1.0, 1.001, 5.0, 1e4] {
            let dist = Dist::from_mean_scv(mean, scv).unwrap();
            assert!((dist.mean() / mean - 1.0).abs() < 1e-12, "{dist:?}");
            assert!((dist.scv() - scv).abs() < 1e-11 * (1.0 + scv), "{dist:?}: {}", dist.scv());
        }
        for scv in [0.01, 0.5, 1.0, 4.0, 100.0] {
            let dist = Dist::lognormal_from_mean_scv(mean, scv).unwrap();
            assert!((dist.mean() / mean - 1.0).abs() < 1e-12, "{dist:?}");
            assert!((dist.scv() / scv - 1.0).abs() < 1e-10, "{dist:?}: {}", dist.scv());
        }
    }
}

#[test]
fn two_moments_choose_the_best_known_name() {
    let named = |scv| Dist::from_mean_scv(2.0, scv).unwrap();
    assert_eq!(named(0.0), Dist::Constant(2.0));
    assert_eq!(named(0.5), Dist::Erlang { mean: 2.0, stages: 2 });
    assert_eq!(named(1.0 / 49.0), Dist::Erlang { mean: 2.0, stages: 49 });
    assert_eq!(named(0.4), Dist::Gamma { mean: 2.0, scv: 0.4 });
    assert_eq!(named(1e-12), Dist::Gamma { mean: 2.0, scv: 1e-12 });
    assert_eq!(named(1.0), Dist::Exponential { mean: 2.0 });
    assert_eq!(named(1.5), Dist::Hyperexponential { mean: 2.0, scv: 1.5 });
}

#[test]
fn moments_that_do_not_exist_are_infinite() {
    let moments = |shape| {
        let dist = Dist::Pareto { low: 1.0, shape };
        (dist.mean(), dist.second_moment(), dist.scv())
    };
    let infinite = f64::INFINITY;
    assert_eq!(moments(0.5), (infinite, infinite, infinite));
    assert_eq!(moments(1.0), (infinite, infinite, infinite));
    assert_eq!(moments(2.0), (2.0, infinite, infinite));
    assert_eq!(moments(3.0), (1.5, 3.0, 3.0 / 2.25 - 1.0));
    // What does not vary has no squared cv below 0, however it is rounded.
    for value in [0.1, 0.3, 1e-7, 123.456] {
        let scv = Dist::Uniform { low: value, high: value }.scv();
        assert!((0.0..1e-15).contains(&scv), "{scv}");
    }
    assert_eq!(Dist::Exponential { mean: 0.0 }.scv(), 0.0);
}

#[test]
fn numbers_out_of_range_describe_nothing() {
    let nan = f64::NAN;
    let cases = [
        (Dist::Constant(-1.0), "constant: its value must be 0 or above, but it is -1"),
        (Dist::Constant(f64::INFINITY), "constant: its value must be 0 or above, but it is inf"),
        (Dist::Exponential { mean: nan }, "exponential: its mean must be 0 or above"),
        (Dist::Erlang { mean: -1.0, stages: 1 }, "erlang: its mean must be 0 or above"),
        (Dist::Erlang { mean: 1.0, stages: 0 }, "erlang: it must have at least 1 stage"),
        (Dist::Gamma { mean: -0.1, scv: 1.0 }, "gamma: its mean must be 0 or above"),
        (Dist::Gamma { mean: 1.0, scv: 0.0 }, "gamma: its squared cv must be above 0"),
        (Dist::Gamma { mean: 1.0, scv: f64::INFINITY }, "gamma: its squared cv must be above 0"),
        (Dist::Hyperexponential { mean: nan, scv: 2.0 }, "hyperexponential: its mean"),
        (Dist::Hyperexponential { mean: 1.0, scv: 1.0 }, "its squared cv must be above 1"),
        (Dist::Hyperexponential { mean: 1.0, scv: nan }, "its squared cv must be above 1"),
        (Dist::Lognormal { mu: nan, sigma: 1.0 }, "lognormal: its mu must be a number"),
        (Dist::Lognormal { mu: 0.0, sigma: -1.0 }, "lognormal: its sigma must be 0 or above"),
        (Dist::Uniform { low: -1.0, high: 1.0 }, "uniform: its low must be 0 or above"),
        (Dist::Uniform { low: 2.0, high: 1.0 }, "uniform: its high must not be below its low"),
        (Dist::Uniform { low: 2.0, high: nan }, "uniform: its high must not be below its low"),
        (Dist::Pareto { low: 0.0, shape: 2.0 }, "pareto: its low must be above 0"),
        (Dist::Pareto { low: 1.0, shape: 0.0 }, "pareto: its shape must be above 0"),
    ];
    for (dist, text) in cases {
        let error = dist.check().unwrap_err().to_string();
        assert!(error.contains(text), "{dist:?}: {error}");
    }
    // A negative squared cv was once taken for an Erlang distribution of one stage.
    for (mean, scv) in [(1.0, -0.5), (1.0, nan), (1.0, f64::INFINITY), (-1.0, 0.5), (nan, 1.0)] {
        assert!(Dist::from_mean_scv(mean, scv).is_err(), "mean {mean}, scv {scv}");
        assert!(Dist::lognormal_from_mean_scv(mean, scv).is_err(), "mean {mean}, scv {scv}");
    }
    assert!(Dist::lognormal_from_mean_scv(0.0, 1.0).is_err());
    assert!(Dist::lognormal_from_mean_scv(1.0, 0.0).is_err());
}
