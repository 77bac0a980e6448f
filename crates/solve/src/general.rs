//! Poisson arrivals, any demand, one server: first in first out, processor sharing, and fujita's
//! limited processor sharing between the two.

use crate::error::{at_least_one, not_negative, stable};
use crate::{Exactness, Moments, SolveError};

/// M/G/1, first in first out: Pollaczek and Khinchine (fujita, eq. 3). Exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1Fifo {
    open: Open,
}

impl Mg1Fifo {
    /// A queue with arrival rate lambda [1/s] and this demand S \[s\].
    ///
    /// # Errors
    /// If lambda is negative, or the utilisation is not below 1.
    pub fn new(lambda: f64, demand: Moments) -> Result<Mg1Fifo, SolveError> {
        Ok(Mg1Fifo { open: Open::new("M/G/1 FIFO", lambda, demand)? })
    }

    /// Utilisation, rho = lambda E\[S\].
    pub fn utilisation(&self) -> f64 {
        self.open.rho
    }

    /// Probability that a job must wait, rho: Poisson arrivals see what is there over time.
    pub fn wait_probability(&self) -> f64 {
        self.open.rho
    }

    /// Variance of the wait, W^2 + lambda E\[S^3\] / (3 (1 - rho)), of Takacs' recurrence
    /// \[s^2\]; `third` is E\[S^3\] \[s^3\].
    ///
    /// # Errors
    /// If the third moment is negative.
    pub fn wait_variance(&self, third: f64) -> Result<f64, SolveError> {
        let third = not_negative("third moment E[S^3]", third, "s^3")?;
        let Open { lambda, rho, .. } = self.open;
        Ok(self.wait().powi(2) + lambda * third / (3.0 * (1.0 - rho)))
    }

    /// Variance of the response time; a job's wait and its service are independent \[s^2\].
    ///
    /// # Errors
    /// As [`wait_variance`](Self::wait_variance).
    pub fn response_variance(&self, third: f64) -> Result<f64, SolveError> {
        Ok(self.wait_variance(third)? + self.open.demand.variance())
    }

    /// Mean wait, rho / (1 - rho) E\[S^2\] / (2 E\[S\]) \[s\].
    pub fn wait(&self) -> f64 {
        self.open.rho / (1.0 - self.open.rho) * self.open.demand.residual()
    }

    /// Mean response time \[s\].
    pub fn response(&self) -> f64 {
        self.wait() + self.open.demand.mean()
    }

    /// Mean response time of a job with demand x \[s\]: the wait does not depend on it.
    ///
    /// # Errors
    /// If x is negative.
    pub fn response_given(&self, x: f64) -> Result<f64, SolveError> {
        Ok(self.wait() + not_negative("demand x", x, "s")?)
    }

    /// Mean number of jobs, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.open.lambda * self.response()
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// M/G/1, processor sharing without a limit (fujita, eq. 4). Exact, and insensitive: of the demand
/// only the mean matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1Ps {
    open: Open,
}

impl Mg1Ps {
    /// A server with arrival rate lambda [1/s] and this demand S \[s\].
    ///
    /// # Errors
    /// If lambda is negative, or the utilisation is not below 1.
    pub fn new(lambda: f64, demand: Moments) -> Result<Mg1Ps, SolveError> {
        Ok(Mg1Ps { open: Open::new("M/G/1 PS", lambda, demand)? })
    }

    /// Utilisation, rho = lambda E\[S\].
    pub fn utilisation(&self) -> f64 {
        self.open.rho
    }

    /// Variance of the response time of exponential demand, (2 + rho) / (2 - rho) times the square of
    /// its mean (Coffman, Muntz and Trotter 1970) \[s^2\]; none for other demands, of which two moments
    /// are not enough.
    pub fn response_variance(&self) -> Option<f64> {
        let Open { rho, demand, .. } = self.open;
        let variance = (2.0 + rho) / (2.0 - rho) * self.response().powi(2);
        demand.is_exponential().then_some(variance)
    }

    /// Mean response time, E\[S\] / (1 - rho) \[s\].
    pub fn response(&self) -> f64 {
        self.open.demand.mean() / (1.0 - self.open.rho)
    }

    /// Mean response time of a job with demand x \[s\], x / (1 - rho).
    ///
    /// # Errors
    /// If x is negative.
    pub fn response_given(&self, x: f64) -> Result<f64, SolveError> {
        Ok(not_negative("demand x", x, "s")? / (1.0 - self.open.rho))
    }

    /// Mean number of jobs, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.open.lambda * self.response()
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// M/G/1 with limited processor sharing: first in first out in front of r slots whose holders share
/// one server equally. fujita's approximation (section 4.1, eq. 1 and 2):
///
/// ```text
///   E[R | S = x] = rho^r / (1 - rho) * E[S^2] / (2 E[S])  +  (1 - rho^r) / (1 - rho) * x
/// ```
///
/// The first term is the wait for a slot, which does not depend on x; the second is the time that
/// the slot is held. r = 1 is [`Mg1Fifo`] and no limit is [`Mg1Ps`], both exact. The mean, x =
/// E\[S\], is Avi-Itzhak's and Halfin's (1988) and is exact for exponential demand at every r.
///
/// Errata: the text that we have of the paper has lost the exponent r of rho in both terms of eq. 1
/// and 2, and prints the limits r = 1 and r = infinity alike as "r = 1". Both were restored from
/// eq. 3 and 4, which the restored formula meets.
///
/// How good it is, against simulation and exact solutions: the mean is within 1.2 % at the paper's
/// sizes and within 10 % at sizes 10 times as large (rho = 0.8, r = 2 to 16); given x it is 25 %
/// high for small jobs and 23 % low for the largest in the worst cases tried.
///
/// ```
/// use solve::{Mg1Lps, Moments};
///
/// let demand = Moments::new(25.68e-3, 844.2e-6)?;
/// let lambda = 0.8 / demand.mean();
/// let four = Mg1Lps::new(lambda, demand, Some(4))?;
/// assert!((four.response() - 109.5e-3).abs() < 0.1e-3);
/// assert!(!four.exactness().is_exact());
/// assert!(Mg1Lps::new(lambda, demand, Some(1))?.exactness().is_exact());
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1Lps {
    open: Open,
    slots: Option<u32>,
}

impl Mg1Lps {
    /// A server with arrival rate lambda [1/s], this demand S \[s\], and r slots; `None` for no
    /// limit.
    ///
    /// # Errors
    /// If lambda is negative, there is no slot, or the utilisation is not below 1.
    pub fn new(lambda: f64, demand: Moments, slots: Option<u32>) -> Result<Mg1Lps, SolveError> {
        if let Some(slots) = slots {
            at_least_one("slots r", slots)?;
        }
        Ok(Mg1Lps { open: Open::new("M/G/1 LPS", lambda, demand)?, slots })
    }

    /// Utilisation of the server, rho = lambda E\[S\]; that of the slots is another thing.
    pub fn utilisation(&self) -> f64 {
        self.open.rho
    }

    /// Mean wait for a slot, the first term of eq. 1 \[s\].
    pub fn wait(&self) -> f64 {
        self.rho_to_the_r() / (1.0 - self.open.rho) * self.open.demand.residual()
    }

    /// Mean time that a job with demand x \[s\] holds its slot, the second term of eq. 1.
    ///
    /// # Errors
    /// If x is negative.
    pub fn hold_given(&self, x: f64) -> Result<f64, SolveError> {
        Ok(self.stretch() * not_negative("demand x", x, "s")?)
    }

    /// Mean response time \[s\] (eq. 2).
    pub fn response(&self) -> f64 {
        self.wait() + self.stretch() * self.open.demand.mean()
    }

    /// Mean response time of a job with demand x \[s\] (eq. 1).
    ///
    /// # Errors
    /// If x is negative.
    pub fn response_given(&self, x: f64) -> Result<f64, SolveError> {
        Ok(self.wait() + self.hold_given(x)?)
    }

    /// Mean number of jobs, waiting or served, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.open.lambda * self.response()
    }

    /// Of [`wait`](Self::wait), [`response`](Self::response) and [`in_system`](Self::in_system).
    pub fn exactness(&self) -> Exactness {
        if self.is_limit() || self.open.demand.is_exponential() {
            return Exactness::Exact;
        }
        Exactness::Approximate { source: "fujita eq. 2, Avi-Itzhak and Halfin 1988", error: 0.10 }
    }

    /// Of [`hold_given`](Self::hold_given) and [`response_given`](Self::response_given).
    pub fn exactness_given(&self) -> Exactness {
        if self.is_limit() {
            return Exactness::Exact;
        }
        Exactness::Approximate { source: "fujita eq. 1", error: 0.25 }
    }

    /// True if the formula is one of the two exact limits that it joins.
    fn is_limit(&self) -> bool {
        matches!(self.slots, None | Some(1)) || self.open.rho == 0.0
    }

    fn rho_to_the_r(&self) -> f64 {
        self.slots.map_or(0.0, |r| self.open.rho.powf(f64::from(r)))
    }

    /// (1 - rho^r) / (1 - rho), without the cancellation that the plain form has as rho nears 1.
    fn stretch(&self) -> f64 {
        let share = self.slots.map_or(1.0, |r| -(f64::from(r) * self.open.rho.ln()).exp_m1());
        share / (1.0 - self.open.rho)
    }
}

/// An open load that the server can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Open {
    lambda: f64,
    demand: Moments,
    rho: f64,
}

impl Open {
    fn new(place: &str, lambda: f64, demand: Moments) -> Result<Open, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        let rho = stable(|| place.to_owned(), lambda, demand.mean(), 1)?;
        Ok(Open { lambda, demand, rho })
    }
}
