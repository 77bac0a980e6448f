//! Effect of chance on a share or a mean: a rule that a number misses says something only where
//! chance alone would seldom make a right source miss it.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

/// The sampling distribution of a number, if its source is as supposed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingDistribution {
    law: Law,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// The share of `n` independent draws, each with this chance.
    Binomial(Binomial),
    /// The normal distribution; of no deviation: a constant.
    Normal { mean: f64, deviation: f64 },
}

impl SamplingDistribution {
    /// That of a share of `n` independent draws, each with chance `p`.
    ///
    /// # Panics
    /// If `p` is no probability.
    pub fn of_share(n: u64, p: f64) -> SamplingDistribution {
        let law = Binomial::new(p, n).expect("a probability lies between 0 and 1");
        SamplingDistribution { law: Law::Binomial(law) }
    }

    /// The normal distribution, of many small influences.
    ///
    /// # Panics
    /// If the deviation is negative or no number.
    pub fn normal(mean: f64, deviation: f64) -> SamplingDistribution {
        assert!(mean.is_finite() && deviation >= 0.0, "{mean}, {deviation}");
        SamplingDistribution { law: Law::Normal { mean, deviation } }
    }

    /// Number of deviations above its mean at which a normal number lies no more often than with
    /// this probability.
    ///
    /// # Panics
    /// If that is no probability between 0 and 1.
    pub fn deviations(probability: f64) -> f64 {
        assert!(0.0 < probability && probability < 1.0, "{probability}");
        -Normal::standard().inverse_cdf(probability)
    }

    /// The probability of a number below `low` or above `high`.
    pub fn outside(&self, low: f64, high: f64) -> f64 {
        // A bound that is met exactly is met, whatever it is in binary.
        let slack = 1e-9;
        match self.law {
            Law::Binomial(law) => {
                let n = law.n() as f64;
                let least = (low * n - slack * n.max(1.0)).ceil().max(0.0);
                let most = (high * n + slack * n.max(1.0)).floor();
                let below = if least < 1.0 { 0.0 } else { law.cdf(least as u64 - 1) };
                let above = if most < 0.0 { 1.0 } else { law.sf(most.min(n) as u64) };
                (below + above).min(1.0)
            }
            Law::Normal { mean, deviation: 0.0 } => f64::from(mean < low || high < mean),
            Law::Normal { mean, deviation } => {
                let z = |value: f64| (value - mean) / deviation;
                let normal = Normal::standard();
                normal.cdf(z(low)) + normal.sf(z(high))
            }
        }
    }

    /// The probability of a number as far off as this one, on either side: twice that of its own
    /// side, 1 at most.
    pub fn as_far_as(&self, value: f64) -> f64 {
        let (lower, upper) = match self.law {
            Law::Binomial(law) => {
                let count = (value * law.n() as f64).round() as u64;
                let upper = if count == 0 { 1.0 } else { law.sf(count - 1) };
                (law.cdf(count), upper)
            }
            Law::Normal { mean, deviation: 0.0 } => {
                (f64::from(mean <= value), f64::from(mean >= value))
            }
            Law::Normal { mean, deviation } => {
                let z = (value - mean) / deviation;
                (Normal::standard().cdf(z), Normal::standard().sf(z))
            }
        };
        (2.0 * lower.min(upper)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SamplingDistribution;

    /// Against sums of the probabilities themselves.
    #[test]
    fn the_chance_to_lie_outside_is_that_of_all_counts_outside() {
        let (n, p) = (40_u32, 0.15);
        let mut each = vec![(1.0_f64 - p).powi(n as i32)];
        for k in 0..n {
            let last = each[k as usize];
            each.push(last * f64::from(n - k) / f64::from(k + 1) * p / (1.0 - p));
        }
        let sum = |counts: &dyn Fn(f64) -> bool| -> f64 {
            (0..=n).filter(|&k| counts(f64::from(k))).map(|k| each[k as usize]).sum()
        };
        let share = SamplingDistribution::of_share(u64::from(n), p);
        for (low, high) in [(0.1, 0.2), (0.125, 0.175), (0.0, 1.0), (0.14, 0.16), (0.15, 0.15)] {
            let outside = |k: f64| k / 40.0 < low - 1e-12 || k / 40.0 > high + 1e-12;
            let (found, exact) = (share.outside(low, high), sum(&outside));
            assert!((found - exact).abs() < 1e-9, "{low} to {high}: {found}, {exact}");
        }
        for count in 0..=n {
            let k = f64::from(count);
            let (below, above) = (sum(&|other| other <= k), sum(&|other| other >= k));
            let exact = (2.0 * below.min(above)).min(1.0);
            let found = share.as_far_as(k / 40.0);
            assert!((found - exact).abs() < 1e-9, "{count}: {found}, {exact}");
        }
    }

    #[test]
    fn of_the_normal_distribution_two_deviations_are_one_in_twenty() {
        let normal = SamplingDistribution::normal(10.0, 2.0);
        assert!((normal.outside(6.08, 13.92) - 0.05).abs() < 1e-4);
        assert!((normal.as_far_as(13.92) - 0.05).abs() < 1e-4);
        assert!((normal.outside(f64::NEG_INFINITY, 10.0) - 0.5).abs() < 1e-9);
        assert!((SamplingDistribution::deviations(0.025) - 1.959_964).abs() < 1e-6);
        let constant = SamplingDistribution::normal(10.0, 0.0);
        assert_eq!((constant.outside(9.0, 11.0), constant.outside(11.0, 12.0)), (0.0, 1.0));
        assert_eq!((constant.as_far_as(10.0), constant.as_far_as(9.0)), (1.0, 0.0));
    }
}
