//! Distributions of response times: first in first out, processor sharing, and between them.

use nalgebra::Complex;

use super::demand::{Demand, Law};
use super::phases::PhaseType;
use super::poisson::crossing;
use super::sojourn::Sojourn;
use crate::error::{not_negative, positive, quantile, stable};
use crate::{Exactness, Moments, SolveError};

/// Terms of the Euler sum before averaging, and averaged.
const TERMS: usize = 40;
const AVERAGED: usize = 12;
/// The discretisation error is exp(-A).
const A: f64 = 18.4;

/// Distribution of the response time of M/G/1, first in first out, by numerical inversion of the
/// Pollaczek-Khinchine transform (Abate and Whitt 1995, the Euler algorithm).
///
/// ```
/// use solve::{Demand, FifoTimes};
///
/// let times = FifoTimes::new(80.0, Demand::exponential(10e-3)?)?;
/// let (p99, exactness) = times.response_quantile(0.99)?;
/// assert!((p99 - 230.26e-3).abs() < 0.01e-3 && !exactness.is_exact());
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FifoTimes {
    lambda: f64,
    demand: Demand,
    moments: Moments,
    rho: f64,
}

impl FifoTimes {
    /// A queue with arrival rate lambda [1/s] and this demand.
    ///
    /// # Errors
    /// If lambda is not positive, the utilisation is not below 1, or the demand is lognormal,
    /// whose transform has no closed form, or uniform.
    pub fn new(lambda: f64, demand: Demand) -> Result<FifoTimes, SolveError> {
        positive("arrival rate lambda", lambda, "/s")?;
        let moments = demand.moments()?;
        let rho = stable(|| "M/G/1 FIFO".to_owned(), lambda, moments.mean(), 1)?;
        if matches!(demand.law, Law::Lognormal(..) | Law::Uniform(..)) {
            return Err(SolveError::NoDistribution {
                place: "M/G/1 FIFO",
                demand: "lognormal or uniform",
                way_out: "give a list of values or a mixture of exponentials, or simulate",
            });
        }
        Ok(FifoTimes { lambda, demand, moments, rho })
    }

    /// P(W > t), for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn wait_tail(&self, t: f64) -> Result<f64, SolveError> {
        Ok(self.wait_beyond(not_negative("time t", t, "s")?))
    }

    /// P(R > t), for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        Ok(self.response_beyond(not_negative("time t", t, "s")?))
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn response_quantile(&self, q: f64) -> Result<(f64, Exactness), SolveError> {
        let left = 1.0 - quantile(q)?;
        let guess = self.moments.mean() / (1.0 - self.rho);
        Ok((crossing(guess, left, |t| self.response_beyond(t)), self.exactness()))
    }

    /// Of the quantiles: 1e-5 for demands of exponential phases; 2 % where the demand is a list of
    /// values, because the distribution has kinks where the inversion has waves.
    pub fn exactness(&self) -> Exactness {
        let error = if matches!(self.demand.law, Law::Discrete(_)) { 0.02 } else { 1e-5 };
        Exactness::Approximate { source: "Euler inversion, Abate and Whitt 1995", error }
    }

    fn wait_transform(&self, s: Complex<f64>) -> Complex<f64> {
        s * (1.0 - self.rho) / (s - self.lambda + self.transform(s) * self.lambda)
    }

    /// E\[exp(-s S)\].
    fn transform(&self, s: Complex<f64>) -> Complex<f64> {
        match &self.demand.law {
            Law::Hyperexponential(list) => list.iter().map(|&(p, m)| (s * m + 1.0).inv() * p).sum(),
            Law::Erlang(k, mean) => (s * (mean / f64::from(*k)) + 1.0).inv().powu(*k),
            Law::Discrete(list) => list.iter().map(|&(v, p)| (-s * v).exp() * p).sum(),
            Law::Lognormal(..) | Law::Uniform(..) => unreachable!("refused when made"),
        }
    }

    fn wait_beyond(&self, t: f64) -> f64 {
        if t == 0.0 {
            return self.rho;
        }
        inverted(t, |s| (-self.wait_transform(s) + 1.0) / s)
    }

    fn response_beyond(&self, t: f64) -> f64 {
        if t == 0.0 {
            return 1.0;
        }
        match &self.demand.law {
            // The demand jumps: only the wait, which is continuous but for its atom, is inverted.
            Law::Discrete(list) => list
                .iter()
                .map(|&(v, p)| p * if t < v { 1.0 } else { self.wait_beyond(t - v) })
                .sum(),
            _ => inverted(t, |s| (-self.wait_transform(s) * self.transform(s) + 1.0) / s),
        }
    }
}

/// The function with this Laplace transform at t > 0, a probability.
fn inverted(t: f64, transform: impl Fn(Complex<f64>) -> Complex<f64>) -> f64 {
    let real =
        |k: usize| transform(Complex::new(A / (2.0 * t), k as f64 * std::f64::consts::PI / t)).re;
    let mut sum = real(0) / 2.0;
    let (mut averaged, mut binomial) = (0.0, 0.5_f64.powi(AVERAGED as i32));
    for k in 1..=TERMS + AVERAGED {
        sum += if k % 2 == 0 { real(k) } else { -real(k) };
        if k >= TERMS {
            let i = k - TERMS;
            averaged += binomial * sum;
            binomial *= (AVERAGED - i) as f64 / (i + 1) as f64;
        }
    }
    ((A / 2.0).exp() / t * averaged).clamp(0.0, 1.0)
}

/// Distribution of the response time of M/M/1 with processor sharing.
///
/// Of all jobs it is found by following a job among the others (uniformisation); of jobs with
/// demand x by inversion of the transform of Coffman, Muntz and Trotter (1970).
///
/// ```
/// use solve::{Demand, PsTimes};
///
/// let times = PsTimes::new(0.8, Demand::exponential(1.0)?)?;
/// assert!((times.response_quantile(0.99)?.0 - 36.94).abs() < 0.01);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PsTimes {
    lambda: f64,
    mean: f64,
    sojourn: Sojourn,
}

impl PsTimes {
    /// A server with arrival rate lambda [1/s] and this demand, which must be exponential.
    ///
    /// # Errors
    /// If lambda is not positive, the utilisation is not below 1 or so near it that the chain is too
    /// large, or the demand is not exponential.
    pub fn new(lambda: f64, demand: Demand) -> Result<PsTimes, SolveError> {
        PsTimes::within(lambda, demand, Sojourn::WORK_MAX)
    }

    /// The same, refused where it would take more than so many multiplications, a billion being
    /// about a second.
    ///
    /// # Errors
    /// As [`new`](PsTimes::new).
    pub fn within(lambda: f64, demand: Demand, work_max: f64) -> Result<PsTimes, SolveError> {
        positive("arrival rate lambda", lambda, "/s")?;
        let Some(mean) = demand.exponential_mean() else {
            return Err(SolveError::NoDistribution {
                place: "M/G/1 PS",
                demand: "non-exponential",
                way_out: "its mean is Mg1Ps's; simulate for quantiles",
            });
        };
        let rho = stable(|| "M/M/1 PS".to_owned(), lambda, mean, 1)?;
        // More slots than are ever held.
        let slots = (Sojourn::CUT.ln() / rho.ln()).ceil().clamp(2.0, 1e6) as usize;
        let phases = PhaseType::exact(&demand, 1).expect("it is exponential");
        let sojourn = Sojourn::new("M/M/1 PS", lambda, &phases, &vec![1.0; slots], work_max)?;
        Ok(PsTimes { lambda, mean, sojourn })
    }

    /// P(R > t), for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        Ok(self.sojourn.tail(not_negative("time t", t, "s")?))
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 0.9999].
    pub fn response_quantile(&self, q: f64) -> Result<(f64, Exactness), SolveError> {
        self.sojourn.quantile(q)
    }

    /// P(R > t | x), for t and demand x \[s\].
    ///
    /// # Errors
    /// If x is not positive or t is negative.
    pub fn response_tail_given(&self, x: f64, t: f64) -> Result<f64, SolveError> {
        positive("demand x", x, "s")?;
        Ok(self.beyond_given(x, not_negative("time t", t, "s")?))
    }

    /// The response time \[s\] that a share q of the jobs with demand x \[s\] does not exceed.
    ///
    /// # Errors
    /// If x is not positive or q is not in [0, 1).
    pub fn response_quantile_given(&self, x: f64, q: f64) -> Result<(f64, Exactness), SolveError> {
        positive("demand x", x, "s")?;
        let left = 1.0 - quantile(q)?;
        // A job that is alone all the time takes x exactly.
        let alone = (1.0 - self.lambda * self.mean) * (-self.lambda * x).exp();
        let exactness = Exactness::Approximate {
            source: "Coffman, Muntz and Trotter 1970, inverted",
            error: 0.001,
        };
        if left >= 1.0 - alone {
            return Ok((x, exactness));
        }
        Ok((x + crossing(x, left, |over| self.beyond_given(x, x + over)), exactness))
    }

    fn beyond_given(&self, x: f64, t: f64) -> f64 {
        if t < x {
            return 1.0;
        }
        if t == x {
            return 1.0 - (1.0 - self.lambda * self.mean) * (-self.lambda * x).exp();
        }
        // What is inverted is the time beyond x; its transform is exp(s x) times theirs.
        inverted(t - x, |s| (-self.delay_transform(x, s) + 1.0) / s)
    }

    /// E\[exp(-s (R - x)) | x\].
    fn delay_transform(&self, x: f64, s: Complex<f64>) -> Complex<f64> {
        let (lambda, mu) = (self.lambda, 1.0 / self.mean);
        let rho = lambda / mu;
        let b = s + lambda + mu;
        // The root of lambda r^2 - (lambda + mu + s) r + mu inside the unit circle, as the product
        // of both over the larger, so that no digits cancel.
        let root = (b * b - 4.0 * lambda * mu).sqrt();
        let larger = if (b + root).norm() > (b - root).norm() { b + root } else { b - root };
        let r = Complex::from(2.0 * mu) / larger;
        let one = Complex::from(1.0);
        let decay = (-(one - r * r * rho) / r * (mu * x)).exp();
        let top = (one - r * r * rho) * (1.0 - rho) * ((r - one) * (lambda * x)).exp();
        top / ((one - r * rho).powu(2) - (one - r).powu(2) * decay * rho)
    }
}

/// Distribution of the response time of M/PH/1 with limited processor sharing, by following a job
/// from arrival to departure (uniformisation), for demands of few exponential phases and few slots.
///
/// ```
/// use solve::{Demand, LpsTimes};
///
/// let times = LpsTimes::new(0.8, Demand::exponential(1.0)?, 4)?;
/// assert!((times.response_quantile(0.99)?.0 - 25.25).abs() < 0.01);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LpsTimes {
    sojourn: Sojourn,
}

impl LpsTimes {
    /// A server with arrival rate lambda [1/s], this demand, and r slots.
    ///
    /// # Errors
    /// As [`Lps::new`](crate::Lps::new), and if the demand is not made of exponential phases, or the
    /// chain would be too large.
    pub fn new(lambda: f64, demand: Demand, slots: u32) -> Result<LpsTimes, SolveError> {
        crate::Lps::new(lambda, demand.clone(), slots)?;
        LpsTimes::with_speeds(lambda, demand, &vec![1.0; slots as usize])
    }

    /// The same with a speed for each number in service: see
    /// [`Lps::with_speeds`](crate::Lps::with_speeds).
    ///
    /// # Errors
    /// As [`new`](LpsTimes::new), and if a speed is not positive.
    pub fn with_speeds(
        lambda: f64,
        demand: Demand,
        speeds: &[f64],
    ) -> Result<LpsTimes, SolveError> {
        LpsTimes::within(lambda, demand, speeds, Sojourn::WORK_MAX)
    }

    /// The same, refused where it would take more than so many multiplications, a billion being
    /// about a second.
    ///
    /// # Errors
    /// As [`with_speeds`](LpsTimes::with_speeds).
    pub fn within(
        lambda: f64,
        demand: Demand,
        speeds: &[f64],
        work_max: f64,
    ) -> Result<LpsTimes, SolveError> {
        crate::Lps::with_speeds(lambda, demand.clone(), speeds)?;
        let Some(phases) = PhaseType::exact(&demand, 5) else {
            return Err(SolveError::NoDistribution {
                place: "M/G/1 LPS",
                demand: "lognormal, listed or many-phased",
                way_out: "give a mixture of at most five exponentials, or simulate",
            });
        };
        Ok(LpsTimes { sojourn: Sojourn::new("M/G/1 LPS", lambda, &phases, speeds, work_max)? })
    }

    /// P(R > t), for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        Ok(self.sojourn.tail(not_negative("time t", t, "s")?))
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 0.9999].
    pub fn response_quantile(&self, q: f64) -> Result<(f64, Exactness), SolveError> {
        self.sojourn.quantile(q)
    }
}
