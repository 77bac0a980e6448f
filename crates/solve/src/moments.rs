//! The little that most formulas need to know of a distribution: its first two moments.

use crate::SolveError;
use crate::error::{not_negative, positive};

/// Mean and second moment of a positive quantity: a demand \[s\], or a document size \[byte\] on
/// its way to one.
///
/// ```
/// use solve::Moments;
///
/// // fujita, section 4.2: lognormal sizes, and g(x) = a x + b milliseconds of work for x bytes.
/// let size = Moments::lognormal(7.811, 1.573)?;
/// let demand = size.affine(0.000_485_1e-3, 21.55e-3)?;
/// assert!((demand.mean() - 25.68e-3).abs() < 0.01e-3);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    mean: f64,
    second: f64,
    law: Law,
}

/// The law of the distribution, as far as it is known beyond its moments: some answers are exact
/// only for one law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Exponential,
    Unknown,
}

impl Moments {
    /// Of a distribution of which nothing is known but the mean, E\[S\] \[s\], and the second
    /// moment, E\[S^2\] \[s^2\].
    ///
    /// # Errors
    /// If the mean is not positive, or the second moment is less than its square.
    pub fn new(mean: f64, second: f64) -> Result<Moments, SolveError> {
        positive("mean E[S]", mean, "s")?;
        let least = mean * mean;
        // Sums of a list of like values fall short of the square by rounding alone.
        if second.is_nan() || second < least * (1.0 - 1e-9) {
            return Err(SolveError::SecondMoment { mean, second });
        }
        positive("residual demand E[S^2] / (2 E[S])", second / (2.0 * mean), "s")?;
        Ok(Moments { mean, second: second.max(least), law: Law::Unknown })
    }

    /// Of a distribution with this mean \[s\] and squared coefficient of variation, Var\[S\] /
    /// E\[S\]^2.
    ///
    /// # Errors
    /// If the mean is not positive or the coefficient is negative.
    pub fn with_scv(mean: f64, scv: f64) -> Result<Moments, SolveError> {
        not_negative("squared coefficient of variation", scv, "")?;
        Moments::new(mean, mean * mean * (1.0 + scv))
    }

    /// Of an exponential distribution.
    ///
    /// # Errors
    /// If the mean \[s\] is not positive.
    pub fn exponential(mean: f64) -> Result<Moments, SolveError> {
        Ok(Moments { law: Law::Exponential, ..Moments::new(mean, 2.0 * mean * mean)? })
    }

    /// Of a constant \[s\].
    ///
    /// # Errors
    /// If it is not positive.
    pub fn constant(value: f64) -> Result<Moments, SolveError> {
        Moments::new(value, value * value)
    }

    /// Of a lognormal distribution: mu and sigma are mean and standard deviation of the natural
    /// logarithm. E\[S^k\] = exp(k mu + k^2 sigma^2 / 2).
    ///
    /// # Errors
    /// If sigma is negative or a moment is beyond all measure.
    pub fn lognormal(mu: f64, sigma: f64) -> Result<Moments, SolveError> {
        not_negative("sigma", sigma, "")?;
        let moment = |k: f64| (k * mu + k * k * sigma * sigma / 2.0).exp();
        Moments::new(moment(1.0), moment(2.0))
    }

    /// Of a list of values \[s\], each with its weight (a frequency or a count; the sum need not be
    /// 1): a document list.
    ///
    /// # Errors
    /// If a value or a weight is negative, or all weights are zero.
    pub fn weighted(list: &[(f64, f64)]) -> Result<Moments, SolveError> {
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for &(value, weight) in list {
            not_negative("value", value, "s")?;
            not_negative("weight", weight, "")?;
            total += weight;
            first += weight * value;
            second += weight * value * value;
        }
        positive("sum of weights", total, "")?;
        Moments::new(first / total, second / total)
    }

    /// Of a S + b: work demand from document size, g(x) = a x + b (fujita, eq. 5), with a
    /// \[s/byte\] and b \[s\].
    ///
    /// # Errors
    /// If a or b is negative, or both are zero.
    pub fn affine(self, a: f64, b: f64) -> Result<Moments, SolveError> {
        not_negative("slope a", a, "s/byte")?;
        not_negative("intercept b", b, "s")?;
        let (m1, m2) = (self.mean, self.second);
        let moments = Moments::new(a * m1 + b, a * a * m2 + 2.0 * a * b * m1 + b * b)?;
        let law = if b == 0.0 { self.law } else { Law::Unknown };
        Ok(Moments { law, ..moments })
    }

    /// The mean, E\[S\] \[s\].
    pub fn mean(self) -> f64 {
        self.mean
    }

    /// The second moment, E\[S^2\] \[s^2\].
    pub fn second(self) -> f64 {
        self.second
    }

    /// Squared coefficient of variation: 0 for a constant, 1 for an exponential distribution.
    pub fn scv(self) -> f64 {
        (self.second / (self.mean * self.mean) - 1.0).max(0.0)
    }

    /// Variance, E\[S^2\] - E\[S\]^2 \[s^2\].
    pub fn variance(self) -> f64 {
        (self.second - self.mean * self.mean).max(0.0)
    }

    /// Mean of what is left of a demand when it is looked at while in progress,
    /// E\[S^2\] / (2 E\[S\]) \[s\].
    pub fn residual(self) -> f64 {
        self.second / (2.0 * self.mean)
    }

    /// True if the distribution is known to be exponential, not only to have such moments.
    pub(crate) fn is_exponential(self) -> bool {
        self.law == Law::Exponential
    }
}
