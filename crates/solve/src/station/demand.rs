//! The whole distribution of a demand, for the formulas to which two moments are not enough.

use crate::error::{at_least_one, not_negative, positive};
use crate::{Moments, SolveError};

/// Distribution of the demand of a job \[s\].
///
/// ```
/// use solve::Demand;
///
/// let demand = Demand::lognormal(10e-3, 4.0)?;
/// assert!((demand.moments()?.scv() - 4.0).abs() < 1e-9);
/// assert!((demand.quantile(0.5)? - 10e-3 / 5_f64.sqrt()).abs() < 1e-9);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    pub(crate) law: Law,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Law {
    /// Exponentials, each with its probability and its mean.
    Hyperexponential(Vec<(f64, f64)>),
    /// A sum of so many exponentials of equal mean, and the mean of the sum.
    Erlang(u32, f64),
    /// Mean and standard deviation of the natural logarithm.
    Lognormal(f64, f64),
    /// Any value from the first to the second, all alike.
    Uniform(f64, f64),
    /// Values with their probabilities, in ascending order.
    Discrete(Vec<(f64, f64)>),
}

impl Demand {
    /// Exponential.
    ///
    /// # Errors
    /// If the mean \[s\] is not positive.
    pub fn exponential(mean: f64) -> Result<Demand, SolveError> {
        Demand::hyperexponential(&[(1.0, mean)])
    }

    /// A mixture of exponentials: each with its weight (the sum need not be 1) and its mean \[s\].
    ///
    /// # Errors
    /// If a weight is negative, all weights are zero, or a mean is not positive.
    pub fn hyperexponential(branches: &[(f64, f64)]) -> Result<Demand, SolveError> {
        for &(_, mean) in branches {
            positive("mean of a branch", mean, "s")?;
        }
        Ok(Demand { law: Law::Hyperexponential(shares(branches)?) })
    }

    /// Two exponentials of balanced means (each carries half of the load), with this mean \[s\] and
    /// squared coefficient of variation.
    ///
    /// # Errors
    /// If the mean is not positive or the coefficient is below 1, which no such mixture has.
    pub fn balanced(mean: f64, scv: f64) -> Result<Demand, SolveError> {
        positive("mean E[S]", mean, "s")?;
        if !(1.0..=1e12).contains(&scv) {
            return Err(SolveError::NotHyperexponential { scv });
        }
        let p = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
        let rare = 1.0 / (1.0 + scv) / (2.0 * p);
        Demand::hyperexponential(&[(p, mean / (2.0 * p)), (rare, mean / (2.0 * rare))])
    }

    /// A sum of k exponentials of like means.
    ///
    /// # Errors
    /// If there is no stage or the mean \[s\] of the sum is not positive.
    pub fn erlang(stages: u32, mean: f64) -> Result<Demand, SolveError> {
        at_least_one("stages k", stages)?;
        Ok(Demand { law: Law::Erlang(stages, positive("mean E[S]", mean, "s")?) })
    }

    /// Lognormal, with this mean \[s\] and squared coefficient of variation.
    ///
    /// # Errors
    /// If the mean is not positive or the coefficient is negative or beyond all measure.
    pub fn lognormal(mean: f64, scv: f64) -> Result<Demand, SolveError> {
        positive("mean E[S]", mean, "s")?;
        let variance = not_negative("squared coefficient of variation", scv, "")?.ln_1p();
        let law = Law::Lognormal(mean.ln() - variance / 2.0, variance.sqrt());
        let demand = Demand { law };
        demand.moments()?;
        Ok(demand)
    }

    /// Any value from `low` to `high` \[s\], all alike.
    ///
    /// # Errors
    /// If the lower one is negative, or the higher one is not above it.
    pub fn uniform(low: f64, high: f64) -> Result<Demand, SolveError> {
        not_negative("lowest demand", low, "s")?;
        positive("highest demand less the lowest", high - low, "s")?;
        Ok(Demand { law: Law::Uniform(low, positive("highest demand", high, "s")?) })
    }

    /// The same for every job.
    ///
    /// # Errors
    /// If it is not positive.
    pub fn constant(value: f64) -> Result<Demand, SolveError> {
        positive("demand", value, "s")?;
        Ok(Demand { law: Law::Discrete(vec![(value, 1.0)]) })
    }

    /// A list of values \[s\], each with its weight (the sum need not be 1): a document list, or
    /// what was measured.
    ///
    /// # Errors
    /// If a value or weight is negative, or all weights or all values are zero.
    pub fn weighted(list: &[(f64, f64)]) -> Result<Demand, SolveError> {
        Moments::weighted(list)?;
        let swapped: Vec<(f64, f64)> =
            list.iter().map(|&(value, weight)| (weight, value)).collect();
        let mut list: Vec<(f64, f64)> =
            shares(&swapped)?.into_iter().map(|(weight, value)| (value, weight)).collect();
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Demand { law: Law::Discrete(list) })
    }

    /// The mean, E\[S\] \[s\].
    pub fn mean(&self) -> f64 {
        self.power(1.0)
    }

    /// Mean and second moment.
    ///
    /// # Errors
    /// If they are beyond all measure.
    pub fn moments(&self) -> Result<Moments, SolveError> {
        match self.exponential_mean() {
            Some(mean) => Moments::exponential(mean),
            None => Moments::new(self.power(1.0), self.power(2.0)),
        }
    }

    /// The third moment, E\[S^3\] \[s^3\].
    pub fn third_moment(&self) -> f64 {
        self.power(3.0)
    }

    /// P(S > x), for x \[s\].
    ///
    /// # Errors
    /// If x is negative.
    pub fn tail(&self, x: f64) -> Result<f64, SolveError> {
        let x = not_negative("demand x", x, "s")?;
        Ok(match &self.law {
            Law::Hyperexponential(list) => list.iter().map(|(p, mean)| p * (-x / mean).exp()).sum(),
            Law::Erlang(stages, mean) => {
                let a = f64::from(*stages) * x / mean;
                let mut term = (-a).exp();
                (1..=*stages)
                    .map(|k| {
                        let now = term;
                        term *= a / f64::from(k);
                        now
                    })
                    .sum()
            }
            Law::Lognormal(mu, sigma) if *sigma == 0.0 => f64::from(u8::from(x.ln() < *mu)),
            Law::Lognormal(mu, sigma) => normal_tail((x.ln() - mu) / sigma),
            Law::Uniform(low, high) => ((high - x) / (high - low)).clamp(0.0, 1.0),
            Law::Discrete(list) => list.iter().filter(|(v, _)| *v > x).map(|(_, p)| p).sum(),
        })
    }

    /// The demand \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn quantile(&self, q: f64) -> Result<f64, SolveError> {
        let left = 1.0 - crate::error::quantile(q)?;
        let (mut low, mut high) = (0.0, self.mean());
        while self.tail(high)? > left {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-13 * high {
            let middle = low + (high - low) / 2.0;
            if self.tail(middle)? > left { low = middle } else { high = middle }
        }
        Ok(high)
    }

    /// True for a list of values, which has a least one: a mixture of exponentials has none.
    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.law, Law::Discrete(_))
    }

    /// The mean, if this is an exponential distribution.
    pub(crate) fn exponential_mean(&self) -> Option<f64> {
        match &self.law {
            Law::Hyperexponential(list) if list.len() == 1 => Some(list[0].1),
            Law::Erlang(1, mean) => Some(*mean),
            _ => None,
        }
    }

    /// E\[S^s\] for s >= 0, a fraction allowed.
    pub(crate) fn power(&self, s: f64) -> f64 {
        match &self.law {
            Law::Hyperexponential(list) => {
                gamma(1.0 + s) * list.iter().map(|(p, mean)| p * mean.powf(s)).sum::<f64>()
            }
            Law::Erlang(stages, mean) => {
                let k = f64::from(*stages);
                (ln_gamma(k + s) - ln_gamma(k) + s * (mean / k).ln()).exp()
            }
            Law::Lognormal(mu, sigma) => (s * mu + s * s * sigma * sigma / 2.0).exp(),
            Law::Uniform(low, high) => {
                (high.powf(s + 1.0) - low.powf(s + 1.0)) / ((s + 1.0) * (high - low))
            }
            Law::Discrete(list) => list.iter().map(|(value, p)| p * value.powf(s)).sum(),
        }
    }
}

/// Demand of a part of the jobs: those of a demand up to x, or below it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    law: Law,
    /// Of a list: the share of jobs and the sums of their demands and of their squares up to the values
    /// 0, 1, ...
    sums: Vec<[f64; 3]>,
}

impl Part {
    pub(crate) fn new(demand: &Demand) -> Part {
        let mut law = demand.law.clone();
        if let Law::Lognormal(mu, 0.0) = law {
            law = Law::Discrete(vec![(mu.exp(), 1.0)]);
        }
        let mut sums = Vec::new();
        if let Law::Discrete(list) = &law {
            let mut sum = [0.0; 3];
            sums.push(sum);
            for (value, p) in list {
                sum = [sum[0] + p, sum[1] + p * value, sum[2] + p * value * value];
                sums.push(sum);
            }
        }
        Part { law, sums }
    }

    /// The values of a list; none of a continuous demand.
    pub(crate) fn values(&self) -> Option<impl Iterator<Item = f64>> {
        let Law::Discrete(list) = &self.law else { return None };
        Some(list.iter().map(|(value, _)| *value))
    }

    /// The share of jobs of a demand up to x, and the mean of the demand and of its square over all jobs
    /// as if those of the others were 0.
    pub(crate) fn up_to(&self, x: f64) -> [f64; 3] {
        match &self.law {
            Law::Discrete(list) => self.sums[list.partition_point(|(value, _)| *value <= x)],
            law => moments_up_to(law, x),
        }
    }

    /// The same of those below x.
    pub(crate) fn below(&self, x: f64) -> [f64; 3] {
        match &self.law {
            Law::Discrete(list) => self.sums[list.partition_point(|(value, _)| *value < x)],
            law => moments_up_to(law, x),
        }
    }
}

/// The integrals of dF, t dF and t^2 dF from 0 to x of a continuous distribution.
fn moments_up_to(law: &Law, x: f64) -> [f64; 3] {
    if x <= 0.0 {
        return [0.0; 3];
    }
    match law {
        Law::Hyperexponential(list) => list.iter().fold([0.0; 3], |sum, &(p, mean)| {
            let of = erlang_up_to(1, mean, x);
            [0, 1, 2].map(|s| sum[s] + p * of[s])
        }),
        Law::Erlang(stages, mean) => erlang_up_to(*stages, *mean, x),
        Law::Lognormal(mu, sigma) => {
            let z = (x.ln() - mu) / sigma;
            [0.0, 1.0, 2.0].map(|s: f64| {
                let whole = (s * mu + s * s * sigma * sigma / 2.0).exp();
                whole * normal_tail(s * sigma - z)
            })
        }
        Law::Uniform(low, high) => {
            let x = x.clamp(*low, *high);
            [1, 2, 3].map(|s| (x.powi(s) - low.powi(s)) / (f64::from(s) * (high - low)))
        }
        Law::Discrete(_) => unreachable!("a list has sums"),
    }
}

/// The same of a sum of k exponentials: k (k + 1) ... times powers of the mean of one, times the
/// probability that a sum of some more is up to x.
fn erlang_up_to(stages: u32, mean: f64, x: f64) -> [f64; 3] {
    let k = f64::from(stages);
    let one = mean / k;
    // P(a sum of j is up to x) = 1 - exp(-a) sum a^i / i! below j; small ones by their own series.
    let up_to = |j: u32| {
        let a = x / one;
        let first = (f64::from(j) * a.ln() - a - ln_gamma(f64::from(j) + 1.0)).exp();
        if a < f64::from(j) + 1.0 {
            let mut term = first;
            let mut sum = 0.0;
            let mut i = j;
            while term > 1e-17 * sum {
                sum += term;
                i += 1;
                term *= a / f64::from(i);
            }
            return sum;
        }
        // From the largest term of those below j down.
        let mut term = first * f64::from(j) / a;
        let mut sum = 0.0;
        for i in (1..j).rev() {
            sum += term;
            term *= f64::from(i) / a;
        }
        1.0 - (sum + term)
    };
    [up_to(stages), mean * up_to(stages + 1), mean * (mean + one) * up_to(stages + 2)]
}

/// The pairs whose first member, a weight, is not zero, with the weights divided by their sum.
fn shares(pairs: &[(f64, f64)]) -> Result<Vec<(f64, f64)>, SolveError> {
    for &(weight, _) in pairs {
        not_negative("weight", weight, "")?;
    }
    let sum = positive("sum of weights", pairs.iter().map(|pair| pair.0).sum(), "")?;
    Ok(pairs.iter().filter(|pair| pair.0 > 0.0).map(|&(p, value)| (p / sum, value)).collect())
}

pub(crate) fn gamma(x: f64) -> f64 {
    ln_gamma(x).exp()
}

/// Logarithm of the gamma function for x >= 1, by Stirling's series after a shift to x >= 10
/// (Abramowitz and Stegun 6.1.41); the first term left out is below 1e-14.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series =
        1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series / x
}

/// P(Z > z) of the standard normal distribution: the series of its integral near zero, the
/// continued fraction beyond (Abramowitz and Stegun 26.2.10 and 26.2.14).
fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for k in 1..100 {
            term *= z * z / f64::from(2 * k + 1);
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=60).rev().fold(z, |below, k| z + f64::from(k) / below);
    density / fraction
}

#[cfg(test)]
mod tests {
    use super::{gamma, normal_tail};

    #[test]
    fn special_functions_meet_the_tables() {
        for (x, value) in [(1.0, 1.0), (1.5, 0.886_226_925_452_758), (3.4, 2.981_206_426_810_33)] {
            assert!((gamma(x) / value - 1.0).abs() < 1e-12, "{x}");
        }
        for (z, value) in [(0.0, 0.5), (1.959_963_984_540_05, 0.025), (3.090_232_306_167_81, 1e-3)]
        {
            assert!((normal_tail(z) / value - 1.0).abs() < 1e-11, "{z}");
            assert!((normal_tail(-z) - (1.0 - value)).abs() < 1e-13, "{z}");
        }
        assert!((normal_tail(3.0 - 1e-12) / normal_tail(3.0) - 1.0).abs() < 1e-10);
    }
}
