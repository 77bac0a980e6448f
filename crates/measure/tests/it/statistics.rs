//! Estimates and series against known values, and their promises against simulation.

use std::time::Duration;

use measure::{
    Batches, Estimate, Histogram, Parts, Ratio, mser, quantile_interval, t_quantile, trend,
};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stationary first-order autoregressive series around `mean`, of variance 1.
fn ar1(rng: &mut Xoshiro256PlusPlus, len: usize, phi: f64, mean: f64) -> Vec<f64> {
    let noise = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(rng) };
    let mut value = noise(rng);
    (0..len)
        .map(|_| {
            value = phi * value + (1.0 - phi * phi).sqrt() * noise(rng);
            mean + value
        })
        .collect()
}

/// The share of `runs` of which `holds` is true.
fn share(runs: usize, mut holds: impl FnMut(&mut Xoshiro256PlusPlus) -> bool) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20261120);
    (0..runs).filter(|_| holds(&mut rng)).count() as f64 / runs as f64
}

/// Four standard deviations of the share of `runs` that an event of probability `p` happens in:
/// once in 15 000 seeds would a right program miss it.
fn tolerance(p: f64, runs: usize) -> f64 {
    4.0 * (p * (1.0 - p) / runs as f64).sqrt()
}

#[test]
fn t_quantiles_are_the_tables() {
    // Abramowitz and Stegun, table 26.10; the last digits from higher precision tables.
    for (p, df, known) in [
        (0.975, 1.0, 12.706205),
        (0.975, 2.0, 4.302653),
        (0.95, 5.0, 2.015048),
        (0.975, 10.0, 2.228139),
        (0.995, 30.0, 2.749996),
        (0.975, 39.0, 2.022691),
        (0.975, 120.0, 1.979930),
        (0.975, 1e6, 1.959966),
    ] {
        let found = t_quantile(p, df);
        assert!((found - known).abs() < 2e-6, "t({p}, {df}) = {found}, the table has {known}");
    }
}

#[test]
fn interval_of_a_mean_by_hand() {
    // Mean 3, variance 10 / 4, t(0.975, 4) = 2.776445: 2.776445 sqrt(2.5 / 5).
    let estimate = Estimate::from_independent(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
    assert_eq!((estimate.mean, estimate.n), (3.0, 5));
    assert!((estimate.half_width - 1.963243).abs() < 1e-6, "{estimate:?}");
    assert!(estimate.holds(1.04) && !estimate.holds(1.03));
    // The same by batch means in five groups, and by groups of two of a doubled series.
    let same = Batches::of_mean_in(&[1.0, 2.0, 3.0, 4.0, 5.0], 5, 0.95).estimate;
    assert!((same.half_width - estimate.half_width).abs() < 1e-12);
    let doubled = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0];
    let same = Batches::of_mean_in(&doubled, 5, 0.95).estimate;
    assert!((same.half_width - estimate.half_width).abs() < 1e-12);
}

#[test]
fn one_value_has_no_interval_and_says_so_in_a_file() {
    let estimate = Estimate::from_independent(&[7.0], 0.95);
    assert_eq!((estimate.mean, estimate.half_width), (7.0, f64::INFINITY));
    let json = serde_json::to_string(&estimate).unwrap();
    assert_eq!(json, r#"{"mean":7.0,"half_width":null,"confidence":0.95,"n":1}"#);
    assert_eq!(serde_json::from_str::<Estimate>(&json).unwrap(), estimate);
}

#[test]
fn batch_means_cover_where_naive_intervals_do_not() {
    let (runs, truth) = (600, 5.0);
    for phi in [0.0, 0.5, 0.8] {
        let cover = share(runs, |rng| {
            Estimate::from_series(&ar1(rng, 2000, phi, truth), 0.95).holds(truth)
        });
        assert!((cover - 0.95).abs() < tolerance(0.95, runs), "phi {phi}: covers {cover}");
    }
    // Too short to merge the correlation away: what is left of it is estimated, at a cost.
    let short =
        share(runs, |rng| Estimate::from_series(&ar1(rng, 60, 0.5, truth), 0.95).holds(truth));
    assert!(short > 0.93 - tolerance(0.93, runs), "a short series: covers {short}");
    let naive = share(runs, |rng| {
        Estimate::from_independent(&ar1(rng, 2000, 0.8, truth), 0.95).holds(truth)
    });
    // A variance (1 + 0.8) / (1 - 0.8) = 9 times too small: 1.96 / 3 deviations, 49 %.
    assert!((naive - 0.49).abs() < tolerance(0.49, runs), "the naive interval covers {naive}");
}

#[test]
fn batches_grow_with_correlation_and_own_up_when_the_series_is_too_short() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let independent = Batches::of_mean(&ar1(&mut rng, 640, 0.0, 0.0), 0.95);
    assert_eq!((independent.estimate.n, independent.correlated), (40, false));
    let ramp: Vec<f64> = (0..200).map(f64::from).collect();
    let hopeless = Batches::of_mean(&ramp, 0.95);
    assert!(hopeless.correlated && hopeless.lag1 > 0.5, "{hopeless:?}");
    assert!(hopeless.estimate.n >= 10 && hopeless.estimate.n < 20);
}

#[test]
fn ratio_of_sums_covers_with_unequal_denominators() {
    // Completions in intervals of unequal length at 3 per unit.
    let (runs, truth) = (600, 3.0);
    let cover = share(runs, |rng| {
        let lengths: Vec<f64> = ar1(rng, 60, 0.0, 0.0).iter().map(|z| 1.0 + z.abs()).collect();
        let noise = ar1(rng, 60, 0.0, 0.0);
        let sums: Vec<f64> =
            lengths.iter().zip(noise).map(|(l, z)| truth * l + z * l.sqrt()).collect();
        Estimate::from_ratio(&sums, &lengths, 0.95).holds(truth)
    });
    // The variance of a ratio is right only to first order: one more percent.
    assert!((cover - 0.95).abs() < tolerance(0.95, runs) + 0.01, "covers {cover}");
}

#[test]
fn combined_estimates_by_hand() {
    let part = |mean, half_width| Estimate { mean, half_width, confidence: 0.95, n: 1_000_000 };
    // Nearly normal: half-widths add as standard errors do, 0.5 sqrt(3^2 + 4^2) = 2.5.
    let sum = Estimate::combine(&[(0.5, part(10.0, 3.0)), (0.5, part(20.0, 4.0))]);
    assert!((sum.mean - 15.0).abs() < 1e-12 && (sum.half_width - 2.5).abs() < 1e-4, "{sum:?}");
    let unknown = Estimate::from_independent(&[1.0], 0.95);
    assert!(Estimate::combine(&[(0.5, part(1.0, 1.0)), (0.5, unknown)]).half_width.is_infinite());
    assert!(Estimate::combine(&[(1.0, part(1.0, 1.0)), (0.0, unknown)]).half_width.is_finite());
}

#[test]
fn ratios_cover_and_exchange() {
    let (runs, truth) = (600, 1.25);
    let (mut paired_width, mut unpaired_width) = (0.0, 0.0);
    let mut unpaired_holds = 0;
    let cover = share(runs, |rng| {
        // What both of a pair suffer is ten times what each suffers alone.
        let common = ar1(rng, 8, 0.0, 0.0);
        let side = |rng: &mut _, level: f64| -> Vec<f64> {
            let own = ar1(rng, 8, 0.0, 0.0);
            common.iter().zip(own).map(|(c, z)| level * (0.2 * c + 0.02 * z).exp()).collect()
        };
        let (a, b) = (side(rng, 1.0), side(rng, truth));
        let (paired, unpaired) = (Ratio::paired(&a, &b, 0.95), Ratio::unpaired(&a, &b, 0.95));
        let exchanged = Ratio::unpaired(&b, &a, 0.95);
        assert!((exchanged.low * unpaired.high - 1.0).abs() < 1e-9, "{unpaired:?} {exchanged:?}");
        paired_width += paired.high - paired.low;
        unpaired_width += unpaired.high - unpaired.low;
        unpaired_holds += usize::from(unpaired.low <= truth && truth <= unpaired.high);
        paired.low <= truth && truth <= paired.high
    });
    assert!((cover - 0.95).abs() < tolerance(0.95, runs), "covers {cover}");
    assert!(paired_width * 5.0 < unpaired_width, "{paired_width} {unpaired_width}");
    // The two sides go together, so that intervals which do not know it are far too wide.
    assert!(unpaired_holds >= runs - 1);
    let unpaired_cover = share(runs, |rng| {
        let (a, b) = (ar1(rng, 8, 0.0, 20.0), ar1(rng, 12, 0.0, 25.0));
        let ratio = Ratio::unpaired(&a, &b, 0.95);
        ratio.low <= truth && truth <= ratio.high
    });
    assert!((unpaired_cover - 0.95).abs() < tolerance(0.95, runs), "covers {unpaired_cover}");
}

#[test]
fn order_statistics_of_a_quantile() {
    let values = |n: u32| -> Vec<f64> { (1..=n).rev().map(f64::from).collect() };
    // Tables of the sign test: of 10 values the 2nd and 9th hold the median with 97.9 %, the 3rd
    // and 8th with only 89.1 %; of 5 the outermost hold it with 93.8 %.
    assert_eq!(quantile_interval(&values(10), 0.5, 0.95), Some((2.0, 9.0)));
    assert_eq!(quantile_interval(&values(10), 0.5, 0.89), Some((3.0, 8.0)));
    assert_eq!(quantile_interval(&values(6), 0.5, 0.95), Some((1.0, 6.0)));
    assert_eq!(quantile_interval(&values(5), 0.5, 0.95), None);
    assert_eq!(quantile_interval(&values(100), 0.99, 0.95), None);
    assert_eq!(quantile_interval(&[], 0.5, 0.95), None);
    // 0.9 quantile of the normal distribution: 1.281552. Ranks are whole, so it covers more.
    let runs = 600;
    let cover = share(runs, |rng| {
        let (low, high) = quantile_interval(&ar1(rng, 200, 0.0, 0.0), 0.9, 0.95).unwrap();
        low <= 1.281552 && 1.281552 <= high
    });
    assert!(cover > 0.95 - tolerance(0.95, runs) && cover < 0.985, "covers {cover}");
}

#[test]
fn mser_by_hand() {
    // Scores: without the first two 2 / 8^2 = 0.031, without three 1.714 / 7^2 = 0.035, without
    // one 2.25 + ... = 0.84, so two are cut.
    let series = [10.0, 10.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0];
    assert_eq!(mser(&series, 1), Some(2));
    let in_fives: Vec<f64> = series.iter().flat_map(|&value| [value; 5]).collect();
    assert_eq!(mser(&in_fives, 5), Some(10));
    assert_eq!(mser(&[3.0; 40], 5), Some(0), "nothing to cut from a constant");
    // A ramp has no end of its transient: the best cut is the middle, and is rejected.
    let ramp: Vec<f64> = (0..200).map(f64::from).collect();
    assert_eq!(mser(&ramp, 5), None);
    assert_eq!(mser(&series[..3], 1), None);
}

#[test]
fn mser_5_finds_a_transient_in_noise() {
    // 10 exp(-i / 40) is below the noise after 40 ln 10 = 92 of 1000 values.
    let mut cuts: Vec<usize> = Vec::new();
    share(100, |rng| {
        let series: Vec<f64> = ar1(rng, 1000, 0.5, 5.0)
            .iter()
            .enumerate()
            .map(|(i, value)| value + 10.0 * (-(i as f64) / 40.0).exp())
            .collect();
        cuts.extend(mser(&series, 5));
        true
    });
    cuts.sort_unstable();
    assert!(cuts.len() >= 90, "{} of 100 found", cuts.len());
    let median = cuts[cuts.len() / 2];
    assert!((60..=200).contains(&median), "half are cut before {median}");
}

#[test]
fn trend_test_keeps_its_size_and_has_power() {
    let runs = 1000;
    let alarms = |phi: f64, drift: f64| {
        share(runs, |rng| {
            let series: Vec<f64> = ar1(rng, 120, phi, 20.0)
                .iter()
                .enumerate()
                .map(|(i, value)| value + drift * i as f64 / 119.0)
                .collect();
            trend(&series).unwrap().p_value < 0.05
        })
    };
    // Independent values get the promised size; a correction that is itself estimated from 40
    // means costs something where the correlation is strong.
    for (phi, size_max) in [(0.0, 0.05), (0.5, 0.07), (0.8, 0.09)] {
        let size = alarms(phi, 0.0);
        assert!(size < size_max + tolerance(size_max, runs), "phi {phi}: {size}");
        assert!(size > 0.01, "phi {phi}: {size} is a test that never speaks");
    }
    // Of 20 a drift of 2 (10 %), two deviations of the noise.
    assert!(alarms(0.0, 2.0) > 0.99);
    assert!(alarms(0.5, 2.0) > 0.8);
}

#[test]
fn trend_measures_the_drift() {
    let ramp: Vec<f64> = (0..30).map(|i| 90.0 + 20.0 * f64::from(i) / 29.0).collect();
    let found = trend(&ramp).unwrap();
    assert!((found.drift - 0.2).abs() < 1e-9 && found.p_value < 1e-6, "{found:?}");
    let constant = trend(&[4.0; 30]).unwrap();
    assert_eq!((constant.drift, constant.p_value), (0.0, 1.0));
    assert_eq!(trend(&ramp[..9]), None);
}

/// A histogram of so many milliseconds each.
fn histogram(millis: impl IntoIterator<Item = f64>) -> Histogram {
    let mut histogram = Histogram::new();
    for millis in millis {
        histogram.record_nanos((millis * 1e6) as u64);
    }
    histogram
}

#[test]
fn quantiles_of_parts_by_hand() {
    // Shares at most 100 ms of 0.4, 0.5 and 0.6: standard error 0.0577, t(0.975, 2) = 4.3027, so 0.5
    // +- 0.248, a large part of the half that is beyond: over 1 - (0.248 / 0.5)^4 that is 0.264. Of all 300
    // values, 1 to 200 in steps of 2/3, those quantiles are 47.9 and 152.6 ms.
    let share = |low: u32| {
        let below = (0..low).map(move |at| 1.0 + 99.0 * f64::from(at) / f64::from(low));
        let above =
            (0..100 - low).map(move |at| 101.0 + 99.0 * f64::from(at) / f64::from(100 - low));
        histogram(below.chain(above))
    };
    let parts = [share(40), share(50), share(60)];
    let parts: Vec<&Histogram> = parts.iter().collect();
    let [(q, median)] = Parts::Independent.quantiles(&parts, &[0.5], 0.95)[..] else { panic!() };
    assert!(q == 0.5 && (median.mean - 0.0995).abs() < 0.002 && median.n == 3, "{median:?}");
    assert!((median.half_width - 0.053).abs() < 0.002, "{median:?}");
    // The share at 0.9 varies by less, but three parts cannot say that it stays below 1.
    let high = Parts::Independent.quantiles(&parts, &[0.999], 0.95)[0].1;
    assert!(high.half_width.is_infinite(), "{high:?}");
}

#[test]
fn quantiles_of_what_hardly_varies_are_sharp_and_of_next_to_nothing_unknown() {
    let same: Vec<Histogram> = (0..12).map(|_| histogram([5.0; 30])).collect();
    let same: Vec<&Histogram> = same.iter().collect();
    for relation in [Parts::Independent, Parts::Neighbours] {
        for (q, estimate) in relation.quantiles(&same, &[0.5, 0.99], 0.95) {
            // 5 ms is in a bucket of 4.096 us.
            assert!(estimate.half_width < 2.1e-6, "{relation:?} {q}: {estimate:?}");
            assert!(estimate.holds(5e-3), "{relation:?} {q}: {estimate:?}");
        }
    }
    // Nearly all are 10 ms, and whether more than a half are less than that changes from part to
    // part: the share at most 10 ms is 1 everywhere and would say that nothing is uncertain.
    let mixed = |fast: usize| histogram((0..100).map(move |at| if at < fast { 1.0 } else { 10.0 }));
    let parts = [mixed(30), mixed(60), mixed(45), mixed(55)];
    let parts: Vec<&Histogram> = parts.iter().collect();
    let median = Parts::Independent.quantiles(&parts, &[0.5], 0.95)[0].1;
    assert!((median.mean - 0.01).abs() < 1e-4 && median.low() < 0.0011, "{median:?}");
    let empty = Histogram::new();
    let few = [same[0], &empty, &empty];
    assert!(Parts::Independent.quantiles(&few, &[0.5], 0.95).is_empty());
    assert!(Parts::Neighbours.quantiles(&same[..9], &[0.5], 0.95).is_empty());
    assert_eq!(Parts::Neighbours.ratio(&[(1.0, 2.0); 9], 0.95), None);
    assert_eq!(Parts::Independent.ratio(&[(1.0, 2.0), (0.0, 0.0)], 0.95), None);
    assert_eq!(Parts::Independent.ratio(&[(1.0, 2.0); 2], 0.95).unwrap().mean, 0.5);
}

#[test]
fn alternating_ratios_cover_whatever_both_drift_by() {
    let (runs, truth) = (2000, 1.1);
    for drift in [0.0, -0.2] {
        let cover = share(runs, |rng| {
            let noise = ar1(rng, 7, 0.0, 0.0);
            let side = |nth: usize| if nth % 2 == 1 { truth } else { 1.0 };
            let values = noise.iter().enumerate();
            let values: Vec<f64> =
                values.map(|(nth, z)| side(nth) * (drift * nth as f64 + 0.03 * z).exp()).collect();
            let ratio = Ratio::alternating(&values, 0.95);
            ratio.low <= truth && truth <= ratio.high
        });
        assert!((cover - 0.95).abs() < tolerance(0.95, runs), "covers {cover} at {drift}");
    }
    // By hand: logarithms 0, 1, 0, 1, 0 with a line of slope 2 under them leave nothing over.
    let exact: Vec<f64> = [0.0, 3.0, 4.0, 7.0, 8.0].map(f64::exp).into();
    let ratio = Ratio::alternating(&exact, 0.95);
    assert!((ratio.ratio - std::f64::consts::E).abs() < 1e-9, "{ratio:?}");
    assert!(ratio.high - ratio.low < 1e-6, "{ratio:?}");
    // And 1, 0, 0, 0, 0: levels 1/3 and 0, slope -1/5, squares 4/15 with two degrees of freedom, so
    // a standard error of sqrt(2/15 * 5/6) = 1/3 and 4.3027 of them to either side.
    let one: Vec<f64> = [1.0, 0.0, 0.0, 0.0, 0.0].map(f64::exp).into();
    let ratio = Ratio::alternating(&one, 0.95);
    assert!((ratio.ratio.ln() + 1.0 / 3.0).abs() < 1e-9, "{ratio:?}");
    assert!((ratio.high.ln() - (-1.0 + 4.3027) / 3.0).abs() < 1e-4, "{ratio:?}");
}

/// The story: two hours were "3601 s +- 0" and half a microsecond "1 us +- 0": the histogram's ends,
/// told as if they had been measured.
#[test]
fn quantiles_beyond_the_histogram_are_not_known() {
    let parts = |nanos: u64| {
        let mut histogram = Histogram::new();
        (0..100).for_each(|n| histogram.record_nanos(nanos + n % 3));
        vec![histogram; 3]
    };
    let median = |nanos: u64| {
        let parts = parts(nanos);
        let parts: Vec<&Histogram> = parts.iter().collect();
        Parts::Independent.quantiles(&parts, &[0.5], 0.95)[0].1
    };
    assert_eq!(median(7_200_000_000_000).half_width, f64::INFINITY);
    assert!(median(3_000_000_000_000).half_width.is_finite());
    let short = median(400);
    assert!(short.mean - short.half_width <= 4e-7, "{short:?}");
    // The second bucket ends at 1023 ns.
    let second = median(600);
    assert!(second.holds(6e-7) && second.half_width < 1e-6, "{second:?}");
}

/// The story: of a constant 100 s the median was "100.0593 s +- 0": the end of its bucket, and no word that
/// a histogram knows no more than that.
#[test]
fn a_quantile_is_known_to_its_bucket_and_no_better() {
    for seconds in [1.5e-6, 5e-5, 1.0 / 3.0, 1.0, 100.0, 3000.0] {
        let mut histogram = Histogram::new();
        (0..20_000).for_each(|_| histogram.record(Duration::from_secs_f64(seconds)));
        let mut packed = histogram.clone();
        packed.pack();
        for part in [&histogram, &packed] {
            let (low, high) = part.quantile_bounds(0.5);
            assert!(low <= seconds + 1e-9 && seconds - 1e-9 <= high, "{seconds}: {low} to {high}");
            for relation in [Parts::Independent, Parts::Neighbours] {
                for (q, found) in relation.quantiles(&[part; 12], &[0.5, 0.999], 0.95) {
                    assert!(found.holds(seconds), "{q} of {seconds}: {found:?}");
                    assert!(
                        found.half_width >= 0.499 * (high - low),
                        "{q} of {seconds}: {found:?}"
                    );
                    // Three digits, or half a microsecond.
                    let told = found.half_width <= (5e-4 * seconds).max(5.2e-7);
                    assert!(told, "{q} of {seconds}: {found:?}");
                }
            }
        }
    }
}
