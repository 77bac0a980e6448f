//! Distributions of times and sizes, with the moments that the formulas ask for.

use std::fmt;

use rand::RngExt;
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal};

use crate::Chance;

/// A distribution of a time \[s\] or a size, never negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dist {
    /// Always the same value.
    Constant(f64),
    /// Exponential with this mean.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// The sum of `stages` equal exponentials; squared coefficient of variation `1 / stages`.
    Erlang {
        /// The mean of the sum.
        mean: f64,
        /// How many exponentials are summed, at least 1.
        stages: u32,
    },
    /// Gamma: any squared coefficient of variation above 0. Erlang where that is `1 / stages`.
    Gamma {
        /// The mean.
        mean: f64,
        /// The squared coefficient of variation, above 0; the shape is its inverse.
        scv: f64,
    },
    /// Two exponentials, one of them taken by chance, with balanced means
    /// (`p / mu1 = (1 - p) / mu2`).
    Hyperexponential {
        /// The mean.
        mean: f64,
        /// The squared coefficient of variation, above 1.
        scv: f64,
    },
    /// The exponential of a normal variable.
    Lognormal {
        /// The mean of the logarithm.
        mu: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// Equal chance everywhere between the two.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    },
    /// Pareto of the first kind: `P(X > x) = (low / x)^shape`.
    Pareto {
        /// The smallest value.
        low: f64,
        /// The tail exponent; the mean exists above 1, the variance above 2.
        shape: f64,
    },
}

/// Why numbers describe no distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct DistError {
    /// The distribution's name.
    pub dist: &'static str,
    /// What must hold and does not.
    pub must: &'static str,
    /// The offending value.
    pub value: f64,
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, but it is {}", self.dist, self.must, self.value)
    }
}

impl std::error::Error for DistError {}

impl Dist {
    /// Two moments as a distribution that has exactly these: constant at squared coefficient of
    /// variation 0, gamma below 1 (named Erlang where that is 1/2, 1/3, ...), exponential at 1,
    /// hyperexponential above.
    ///
    /// # Errors
    /// If the mean is negative or the squared coefficient of variation is negative, or either is
    /// not a finite number.
    pub fn from_mean_scv(mean: f64, scv: f64) -> Result<Dist, DistError> {
        let dist = if scv == 0.0 {
            Dist::Constant(mean)
        } else if scv < 1.0 {
            let stages = (1.0 / scv).round();
            // 1/3 and its like are no binary fractions: allow what rounding does to them.
            let is_erlang = (stages * scv - 1.0).abs() < 1e-14 && stages <= f64::from(u32::MAX);
            if is_erlang {
                Dist::Erlang { mean, stages: stages as u32 }
            } else {
                Dist::Gamma { mean, scv }
            }
        } else if scv == 1.0 {
            Dist::Exponential { mean }
        } else {
            Dist::Hyperexponential { mean, scv }
        };
        dist.check()
    }

    /// The lognormal with this mean and squared coefficient of variation.
    ///
    /// # Errors
    /// If the mean or the squared coefficient of variation is not above 0.
    pub fn lognormal_from_mean_scv(mean: f64, scv: f64) -> Result<Dist, DistError> {
        must("lognormal", "its mean must be above 0", mean, mean > 0.0)?;
        must("lognormal", "its squared coefficient of variation must be above 0", scv, scv > 0.0)?;
        let variance = scv.ln_1p();
        Dist::Lognormal { mu: mean.ln() - variance / 2.0, sigma: variance.sqrt() }.check()
    }

    /// This distribution, if its numbers describe one.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn check(self) -> Result<Dist, DistError> {
        let finite = |x: f64| x.is_finite() && x >= 0.0;
        match self {
            Dist::Constant(value) => {
                must("constant", "its value must be 0 or above", value, finite(value))?;
            }
            Dist::Exponential { mean } => {
                must("exponential", "its mean must be 0 or above", mean, finite(mean))?;
            }
            Dist::Erlang { mean, stages } => {
                must("erlang", "its mean must be 0 or above", mean, finite(mean))?;
                must("erlang", "it must have at least 1 stage", f64::from(stages), stages > 0)?;
            }
            Dist::Gamma { mean, scv } => {
                must("gamma", "its mean must be 0 or above", mean, finite(mean))?;
                must("gamma", "its squared cv must be above 0", scv, finite(scv) && scv > 0.0)?;
            }
            Dist::Hyperexponential { mean, scv } => {
                must("hyperexponential", "its mean must be 0 or above", mean, finite(mean))?;
                let fits = scv.is_finite() && scv > 1.0;
                must("hyperexponential", "its squared cv must be above 1", scv, fits)?;
            }
            Dist::Lognormal { mu, sigma } => {
                must("lognormal", "its mu must be a number", mu, mu.is_finite())?;
                must("lognormal", "its sigma must be 0 or above", sigma, finite(sigma))?;
            }
            Dist::Uniform { low, high } => {
                must("uniform", "its low must be 0 or above", low, finite(low))?;
                let fits = high.is_finite() && high >= low;
                must("uniform", "its high must not be below its low", high, fits)?;
            }
            Dist::Pareto { low, shape } => {
                must("pareto", "its low must be above 0", low, low.is_finite() && low > 0.0)?;
                must(
                    "pareto",
                    "its shape must be above 0",
                    shape,
                    shape.is_finite() && shape > 0.0,
                )?;
            }
        }
        Ok(self)
    }

    /// The first moment; infinite where it does not exist.
    pub fn mean(&self) -> f64 {
        match *self {
            Dist::Constant(value) => value,
            Dist::Exponential { mean }
            | Dist::Erlang { mean, .. }
            | Dist::Gamma { mean, .. }
            | Dist::Hyperexponential { mean, .. } => mean,
            Dist::Lognormal { mu, sigma } => (mu + sigma * sigma / 2.0).exp(),
            Dist::Uniform { low, high } => (low + high) / 2.0,
            Dist::Pareto { low, shape } if shape > 1.0 => shape * low / (shape - 1.0),
            Dist::Pareto { .. } => f64::INFINITY,
        }
    }

    /// The second moment, E(X^2); infinite where it does not exist.
    pub fn second_moment(&self) -> f64 {
        match *self {
            Dist::Constant(value) => value * value,
            Dist::Exponential { mean } => 2.0 * mean * mean,
            Dist::Erlang { mean, stages } => mean * mean * (1.0 + 1.0 / f64::from(stages)),
            Dist::Gamma { mean, scv } | Dist::Hyperexponential { mean, scv } => {
                mean * mean * (1.0 + scv)
            }
            Dist::Lognormal { mu, sigma } => (2.0 * mu + 2.0 * sigma * sigma).exp(),
            Dist::Uniform { low, high } => (low * low + low * high + high * high) / 3.0,
            Dist::Pareto { low, shape } if shape > 2.0 => shape * low * low / (shape - 2.0),
            Dist::Pareto { .. } => f64::INFINITY,
        }
    }

    /// The squared coefficient of variation, Var(X) / E(X)^2; 0 where the mean is 0, infinite where
    /// the variance is.
    pub fn scv(&self) -> f64 {
        let (mean, second) = (self.mean(), self.second_moment());
        match *self {
            _ if mean == 0.0 => 0.0,
            Dist::Pareto { .. } if second.is_infinite() => f64::INFINITY,
            // Rounding must not make a constant vary less than not at all.
            _ => (second / (mean * mean) - 1.0).max(0.0),
        }
    }

    /// A value drawn by chance.
    #[inline]
    pub fn sample(&self, chance: &mut Chance) -> f64 {
        match *self {
            Dist::Constant(value) => value,
            Dist::Exponential { mean } => mean * sample_exp1(chance),
            Dist::Erlang { mean, stages } => sample_gamma(mean, f64::from(stages), chance),
            Dist::Gamma { mean, scv } => sample_gamma(mean, 1.0 / scv, chance),
            Dist::Hyperexponential { mean, scv } => {
                let p = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
                let taken = if chance.random::<f64>() < p { p } else { 1.0 - p };
                sample_exp1(chance) * mean / (2.0 * taken)
            }
            Dist::Lognormal { mu, sigma } => {
                let normal: f64 = StandardNormal.sample(chance);
                (mu + sigma * normal).exp()
            }
            Dist::Uniform { low, high } => low + (high - low) * chance.random::<f64>(),
            Dist::Pareto { low, shape } => low * (1.0 - chance.random::<f64>()).powf(-1.0 / shape),
        }
    }
}

#[inline]
fn sample_exp1(chance: &mut Chance) -> f64 {
    Exp1.sample(chance)
}

fn sample_gamma(mean: f64, shape: f64, chance: &mut Chance) -> f64 {
    // No gamma distribution has the mean 0; its limit is the constant 0.
    Gamma::new(shape, mean / shape).map_or(0.0, |gamma| gamma.sample(chance))
}

fn must(dist: &'static str, must: &'static str, value: f64, holds: bool) -> Result<(), DistError> {
    if holds { Ok(()) } else { Err(DistError { dist, must, value }) }
}
