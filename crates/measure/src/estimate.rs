//! Estimates: a mean never stands without an interval that says how far it may be trusted.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

use crate::series::{self, Groups};

/// A mean with its confidence interval, in whatever unit the values had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The point estimate, the centre of the interval.
    pub mean: f64,
    /// Half the width of the interval; infinite where there were too few values to say (`null` in
    /// a file).
    #[serde(with = "infinite_as_null")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub half_width: f64,
    /// The share of such intervals that hold the true value, 0 to 1.
    pub confidence: f64,
    /// Number of values, taken as independent, that it rests on: replications or batches.
    pub n: u64,
}

impl Estimate {
    /// The mean of independent values (replications) with Student's t interval.
    ///
    /// # Panics
    /// If there is no value, or the confidence is not between 0 and 1.
    pub fn from_independent(values: &[f64], confidence: f64) -> Estimate {
        assert!(!values.is_empty(), "an estimate needs a value");
        let (mean, variance) = moments(values);
        let n = values.len() as f64;
        Estimate::new(mean, (variance / n).sqrt(), values.len() as u64, confidence)
    }

    /// The mean of a stationary, correlated series by batch means: see [`Batches`].
    ///
    /// # Panics
    /// If there is no value, or the confidence is not between 0 and 1.
    pub fn from_series(values: &[f64], confidence: f64) -> Estimate {
        Batches::of_mean(values, confidence).estimate
    }

    /// The ratio of the sums of two stationary, correlated series (completions to time, summed
    /// response times to completions) by batch means: see [`Batches`].
    ///
    /// # Panics
    /// If the lengths differ, the denominators do not sum to more than zero, or the confidence is
    /// not between 0 and 1.
    pub fn from_ratio(numerators: &[f64], denominators: &[f64], confidence: f64) -> Estimate {
        Batches::of_ratio(numerators, denominators, confidence).estimate
    }

    /// A weighted sum of independent estimates of one confidence, such as a mean over classes by
    /// their shares. The degrees of freedom are Welch and Satterthwaite's.
    ///
    /// # Panics
    /// If there is no part.
    pub fn combine(parts: &[(f64, Estimate)]) -> Estimate {
        let confidence = parts.first().expect("a combination has a part").1.confidence;
        let mean = parts.iter().map(|(weight, part)| weight * part.mean).sum();
        // A part without weight may be as uncertain as it likes.
        let terms: Vec<_> = parts
            .iter()
            .filter(|(weight, _)| *weight != 0.0)
            .map(|(weight, part)| (weight * part.standard_error(), part.df()))
            .collect();
        let (error, df) = welch_satterthwaite(&terms);
        let half_width = half_width(error, df, confidence);
        Estimate { mean, half_width, confidence, n: df.floor() as u64 + 1 }
    }

    /// An estimate from its mean and the standard error of that, of `n` independent values.
    pub(crate) fn new(mean: f64, standard_error: f64, n: u64, confidence: f64) -> Estimate {
        let half_width = half_width(standard_error, n.saturating_sub(1) as f64, confidence);
        Estimate { mean, half_width, confidence, n }
    }

    /// The lower end of the interval.
    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }

    /// The upper end of the interval.
    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }

    /// True if the interval holds `value`.
    pub fn holds(&self, value: f64) -> bool {
        self.low() <= value && value <= self.high()
    }

    /// Half the width as a share of the mean.
    pub fn relative(&self) -> f64 {
        self.half_width / self.mean.abs()
    }

    fn df(&self) -> f64 {
        self.n.saturating_sub(1) as f64
    }

    fn standard_error(&self) -> f64 {
        if self.n < 2 {
            return f64::INFINITY;
        }
        self.half_width / t_quantile(0.5 + self.confidence / 2.0, self.df())
    }
}

/// Student's t interval around a mean; infinite without a degree of freedom.
fn half_width(standard_error: f64, df: f64, confidence: f64) -> f64 {
    assert!(0.0 < confidence && confidence < 1.0, "a confidence of {confidence}");
    if df >= 1.0 && standard_error.is_finite() {
        standard_error * t_quantile(0.5 + confidence / 2.0, df)
    } else {
        f64::INFINITY
    }
}

/// The standard error and degrees of freedom of a sum of independent terms, from each term's
/// (Welch 1947, Satterthwaite 1946).
fn welch_satterthwaite(terms: &[(f64, f64)]) -> (f64, f64) {
    let variance: f64 = terms.iter().map(|(error, _)| error * error).sum();
    let fourth: f64 =
        terms.iter().filter(|(error, _)| *error != 0.0).map(|(error, df)| error.powi(4) / df).sum();
    if variance == 0.0 {
        let df = terms.iter().map(|&(_, df)| df).fold(f64::INFINITY, f64::min);
        return (0.0, df);
    }
    if !variance.is_finite() {
        return (f64::INFINITY, 0.0);
    }
    (variance.sqrt(), variance * variance / fourth)
}

/// The mean and the variance (over n - 1) of values.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (n - 1.0))
}

/// The quantile `p` (0 to 1) of Student's t distribution with `df` degrees of freedom.
///
/// # Panics
/// If `p` or `df` is out of range.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    assert!(0.0 < p && p < 1.0, "a quantile of {p}");
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    // The library's own inverse leaves the fifth digit wrong at a million degrees; its distribution
    // function does not, so that is inverted, by bisection.
    let t = StudentsT::new(0.0, 1.0, df).expect("positive degrees of freedom");
    let (mut low, mut high) = (0.0, 1.0);
    while t.cdf(high) < p {
        (low, high) = (high, high * 2.0);
    }
    while high - low > 1e-12 * high {
        let middle = f64::midpoint(low, high);
        *(if t.cdf(middle) < p { &mut low } else { &mut high }) = middle;
    }
    high
}

/// An estimate from one stationary, correlated series by the method of batch means, in its form
/// for ratios of sums, of which the mean is the case with denominators 1.
///
/// The series is cut into groups of equal length. The length starts at one value and doubles until
/// the residuals of neighbouring groups are not correlated significantly (lag 1, one-sided, 5 %), at
/// most until 10 groups are left; then groups are merged until at most 40 are left, which removes
/// most of what correlation the test could not see (Law, *Simulation Modeling and Analysis*, ch. 9:
/// 20 to 40 batches). Where the series is too short for that, the variance is enlarged by
/// (1 + r) / (1 - r) for the lag-1 correlation r that is left, as it is for a first-order
/// autoregressive series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batches {
    /// The result; its `n` is the number of groups.
    pub estimate: Estimate,
    /// Correlation of neighbouring groups that is left.
    pub lag1: f64,
    /// True if it is still significant: then the interval is too narrow, and the series too short.
    pub correlated: bool,
}

impl Batches {
    /// The mean of a series, with as many groups as its correlation allows.
    ///
    /// # Panics
    /// If there is no value, or the confidence is not between 0 and 1.
    pub fn of_mean(values: &[f64], confidence: f64) -> Batches {
        Batches::of_ratio(values, &vec![1.0; values.len()], confidence)
    }

    /// The ratio of two sums, with as many groups as their correlation allows.
    ///
    /// # Panics
    /// If the lengths differ, the denominators do not sum to more than zero, or the confidence is
    /// not between 0 and 1.
    pub fn of_ratio(numerators: &[f64], denominators: &[f64], confidence: f64) -> Batches {
        let ratio = Groups::ratio(numerators, denominators);
        let residuals = |groups: usize| {
            Groups { numerators, denominators, groups }.residuals(ratio).collect::<Vec<_>>()
        };
        let mut groups = numerators.len();
        while groups / 2 >= GROUPS_MIN && series::is_correlated(&residuals(groups)) {
            groups /= 2;
        }
        let left = if groups > GROUPS_MAX { Left::Merged } else { Left::Inflates };
        while groups > GROUPS_MAX {
            groups /= 2;
        }
        Batches::with_groups(numerators, denominators, groups, left, confidence)
    }

    /// The mean of a series in exactly this many groups.
    ///
    /// # Panics
    /// If there are fewer values than groups, no group, or the confidence is not between 0 and 1.
    pub fn of_mean_in(values: &[f64], groups: usize, confidence: f64) -> Batches {
        Batches::of_ratio_in(values, &vec![1.0; values.len()], groups, confidence)
    }

    /// The ratio of two sums in exactly this many groups.
    ///
    /// # Panics
    /// As [`of_ratio`](Batches::of_ratio), and if there are fewer values than groups, or no group.
    pub fn of_ratio_in(
        numerators: &[f64],
        denominators: &[f64],
        groups: usize,
        confidence: f64,
    ) -> Batches {
        Batches::with_groups(numerators, denominators, groups, Left::Merged, confidence)
    }

    fn with_groups(
        numerators: &[f64],
        denominators: &[f64],
        groups: usize,
        left: Left,
        confidence: f64,
    ) -> Batches {
        let ratio = Groups::ratio(numerators, denominators);
        let residuals: Vec<f64> =
            Groups { numerators, denominators, groups }.residuals(ratio).collect();
        let b = groups as f64;
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let total: f64 = denominators.iter().sum();
        let lag1 = series::lag1(&residuals);
        let inflation = match left {
            Left::Merged => 1.0,
            Left::Inflates => series::inflation(lag1, groups),
        };
        let error = (squares * b / (b - 1.0) * inflation).sqrt() / total;
        Batches {
            estimate: Estimate::new(ratio, error, groups as u64, confidence),
            lag1,
            correlated: series::is_correlated(&residuals),
        }
    }
}

/// Treatment of the correlation of neighbouring groups that is left.
#[derive(Clone, Copy)]
enum Left {
    /// Nothing: the groups were merged beyond where it was last seen, or the caller chose them.
    Merged,
    /// It enlarges the variance.
    Inflates,
}

/// Fewer groups make the interval itself too uncertain.
const GROUPS_MIN: usize = 10;
/// More groups make the interval hardly narrower (t at 39 degrees is 3 % above the normal's).
const GROUPS_MAX: usize = 40;

/// The ratio of two positive quantities, b to a, with its interval.
///
/// Intervals are made on the logarithm and taken back: they never reach zero, and exchanging a and
/// b gives the reciprocal interval, which neither the delta method on the ratio nor Fieller's
/// interval (unbounded where a is uncertain) does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// b over a.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end; infinite where there were too few values to say (`null` in a file).
    #[serde(with = "infinite_as_null")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
    /// The share of such intervals that hold the true ratio, 0 to 1.
    pub confidence: f64,
}

impl Ratio {
    /// From pairs measured side by side, interleaved (a, b, b, a, ...): the t interval of the mean
    /// log ratio, from which whatever slows both of a pair cancels.
    ///
    /// # Panics
    /// If the lengths differ, there is no pair, or a value is not positive.
    pub fn paired(a: &[f64], b: &[f64], confidence: f64) -> Ratio {
        assert_eq!(a.len(), b.len(), "pairs have two sides");
        let logs: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| log(b) - log(a)).collect();
        Ratio::from_log(Estimate::from_independent(&logs, confidence))
    }

    /// From independent values of each that do not belong together: Welch's interval of the
    /// difference of the mean logarithms, which allows the two to vary differently.
    ///
    /// # Panics
    /// If a side has no value, or a value is not positive.
    pub fn unpaired(a: &[f64], b: &[f64], confidence: f64) -> Ratio {
        let logs = |values: &[f64]| {
            let logs: Vec<f64> = values.iter().map(|&value| log(value)).collect();
            Estimate::from_independent(&logs, confidence)
        };
        Ratio::from_log(Estimate::combine(&[(1.0, logs(b)), (-1.0, logs(a))]))
    }

    /// From values of several runs on each side: [`unpaired`](Ratio::unpaired), and where one side is a single run the
    /// spread of the other one is taken for both. Of two single runs the interval is infinite.
    ///
    /// # Panics
    /// If a side has no value, or a value is not positive.
    pub fn of_runs(a: &[f64], b: &[f64], confidence: f64) -> Ratio {
        assert!(!a.is_empty() && !b.is_empty(), "a ratio has two sides");
        let many = if a.len() >= b.len() { a } else { b };
        if a.len().min(b.len()) > 1 || many.len() < 2 {
            return Ratio::unpaired(a, b, confidence);
        }
        let logs = |values: &[f64]| values.iter().map(|&value| log(value)).collect::<Vec<f64>>();
        let mean = |values: &[f64]| logs(values).iter().sum::<f64>() / values.len() as f64;
        let n = many.len() as f64;
        let error = (moments(&logs(many)).1 * (1.0 + 1.0 / n)).sqrt();
        let log = Estimate::new(mean(b) - mean(a), error, many.len() as u64, confidence);
        Ratio::from_log(log)
    }

    /// From one estimate of each of the same confidence: Welch's interval on logarithms, the standard
    /// error of a logarithm being the relative one (delta method).
    ///
    /// # Panics
    /// If a mean is not positive.
    pub fn of(a: Estimate, b: Estimate) -> Ratio {
        let log_of = |estimate: Estimate| Estimate {
            mean: log(estimate.mean),
            half_width: estimate.relative(),
            ..estimate
        };
        Ratio::from_log(Estimate::combine(&[(1.0, log_of(b)), (-1.0, log_of(a))]))
    }

    /// From a, b, a, b, ..., a measured one after the other in like steps: least squares on the
    /// logarithms with a line for the drift of both (a database that grows, a machine that warms
    /// up), which this order keeps apart from the difference, and Student's t interval.
    ///
    /// # Panics
    /// If there are fewer than five values or an even number, or a value is not positive.
    pub fn alternating(values: &[f64], confidence: f64) -> Ratio {
        let n = values.len();
        assert!(n >= 5 && n % 2 == 1, "{n} values are no a, b, a, b, a");
        let logs: Vec<f64> = values.iter().map(|&value| log(value)).collect();
        // Times are symmetric about zero on either side, so the line is orthogonal to the levels.
        let time = |nth: usize| nth as f64 - (n - 1) as f64 / 2.0;
        let slope = logs.iter().enumerate().map(|(nth, y)| time(nth) * y).sum::<f64>()
            / (0..n).map(|nth| time(nth).powi(2)).sum::<f64>();
        let (bs, all) = ((n / 2) as f64, n as f64);
        let level =
            |side: usize, count: f64| logs.iter().skip(side).step_by(2).sum::<f64>() / count;
        let levels = [level(0, all - bs), level(1, bs)];
        let residual = |(nth, y): (usize, &f64)| y - levels[nth % 2] - slope * time(nth);
        let squares: f64 = logs.iter().enumerate().map(|value| residual(value).powi(2)).sum();
        let freedom = all - 3.0;
        let error = (squares / freedom * (1.0 / bs + 1.0 / (all - bs))).sqrt();
        let half_width = half_width(error, freedom, confidence);
        let mean = levels[1] - levels[0];
        Ratio::from_log(Estimate { mean, half_width, confidence, n: n as u64 })
    }

    fn from_log(log: Estimate) -> Ratio {
        Ratio {
            ratio: log.mean.exp(),
            low: log.low().exp(),
            high: log.high().exp(),
            confidence: log.confidence,
        }
    }
}

fn log(value: f64) -> f64 {
    assert!(value > 0.0, "{value} has no ratio to anything");
    value.ln()
}

/// An interval of the quantile `q` (0 to 1) from independent values, whatever their distribution:
/// the order statistics between which it lies with at least `confidence`, equal tails (Clopper and
/// Pearson's binomial limits on the rank). `None` if there are too few values for that.
///
/// # Panics
/// If `q` or `confidence` is not between 0 and 1.
pub fn quantile_interval(values: &[f64], q: f64, confidence: f64) -> Option<(f64, f64)> {
    assert!(0.0 < q && q < 1.0, "a quantile of {q}");
    assert!(0.0 < confidence && confidence < 1.0, "a confidence of {confidence}");
    let tail = (1.0 - confidence) / 2.0;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The value of rank k (from 1) is above the quantile if fewer than k values are at most the
    // quantile: with probability P(Binomial(n, q) < k) = P(Beta(k, n - k + 1) > q).
    let above = |rank: usize| {
        let (k, rest) = (rank as f64, (n - rank + 1) as f64);
        1.0 - Beta::new(k, rest).expect("both are at least 1").cdf(q)
    };
    // It grows with the rank, so both ends are found by bisection.
    let ranks: Vec<usize> = (1..=n).collect();
    let low = ranks.partition_point(|&rank| above(rank) <= tail);
    let high = ranks.partition_point(|&rank| above(rank) < 1.0 - tail);
    (low >= 1 && high < n).then(|| (sorted[low - 1], sorted[high]))
}

/// JSON has no infinity.
mod infinite_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}
