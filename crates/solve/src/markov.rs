//! Poisson arrivals, exponential service, one queue: M/M/1 and M/M/c with Erlang's formulas.

use crate::error::{at_least_one, not_negative, positive, quantile, stable};
use crate::{Exactness, SolveError};

/// M/M/1: one server, first in first out. All its answers are exact.
///
/// ```
/// let queue = solve::Mm1::new(80.0, 10e-3)?; // 80 requests a second, 10 ms each
/// assert!((queue.response() - 50e-3).abs() < 1e-12);
/// assert!((queue.response_quantile(0.99)? - 230.3e-3).abs() < 0.1e-3);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mm1 {
    lambda: f64,
    service: f64,
    rho: f64,
}

impl Mm1 {
    /// A queue with arrival rate lambda [1/s] and mean service time 1/mu \[s\].
    ///
    /// # Errors
    /// If a parameter is out of range, or the utilisation is not below 1.
    pub fn new(lambda: f64, service: f64) -> Result<Mm1, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        positive("mean service time 1/mu", service, "s")?;
        let rho = stable(|| "M/M/1".to_owned(), lambda, service, 1)?;
        Ok(Mm1 { lambda, service, rho })
    }

    /// Utilisation, rho = lambda / mu.
    pub fn utilisation(&self) -> f64 {
        self.rho
    }

    /// Probability that a job must wait, rho.
    pub fn wait_probability(&self) -> f64 {
        self.rho
    }

    /// Mean wait, rho / (mu (1 - rho)) \[s\].
    pub fn wait(&self) -> f64 {
        self.rho * self.response()
    }

    /// Variance of the wait, rho (2 - rho) / (mu (1 - rho))^2 \[s^2\].
    pub fn wait_variance(&self) -> f64 {
        self.rho * (2.0 - self.rho) * self.response().powi(2)
    }

    /// Variance of the response time, which is exponential: the square of its mean \[s^2\].
    pub fn response_variance(&self) -> f64 {
        self.response().powi(2)
    }

    /// Mean response time, 1 / (mu (1 - rho)) \[s\].
    pub fn response(&self) -> f64 {
        self.service / (1.0 - self.rho)
    }

    /// Mean number of jobs, waiting or served, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.lambda * self.response()
    }

    /// P(R > t) = exp(-t / E\[R\]) for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        let t = not_negative("time t", t, "s")?;
        Ok((-t / self.response()).exp())
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn response_quantile(&self, q: f64) -> Result<f64, SolveError> {
        // `ln_1p` keeps small quantiles exact; the difference from zero avoids -0.0.
        Ok(0.0 - self.response() * (-quantile(q)?).ln_1p())
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// M/M/c: c like servers, one queue, first in first out. All its answers are exact.
///
/// ```
/// let queue = solve::Mmc::new(0.6, 5.0, 4)?; // ohmae: four scan stations, 0.2 pages a second each
/// assert!((queue.response() - 7.5472).abs() < 1e-4);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmc {
    lambda: f64,
    service: f64,
    servers: u32,
    rho: f64,
    erlang_c: f64,
}

impl Mmc {
    /// A queue with arrival rate lambda [1/s], mean service time 1/mu \[s\] and c servers.
    ///
    /// # Errors
    /// If a parameter is out of range, or the utilisation is not below 1.
    pub fn new(lambda: f64, service: f64, servers: u32) -> Result<Mmc, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        positive("mean service time 1/mu", service, "s")?;
        at_least_one("servers c", servers)?;
        let rho = stable(|| format!("M/M/{servers}"), lambda, service, servers)?;
        let b = erlang_b(lambda * service, servers)?;
        Ok(Mmc { lambda, service, servers, rho, erlang_c: b / (1.0 - rho * (1.0 - b)) })
    }

    /// Mean share of busy servers, rho = lambda / (c mu).
    pub fn utilisation(&self) -> f64 {
        self.rho
    }

    /// Probability that a job must wait, Erlang's C(c, lambda / mu).
    pub fn wait_probability(&self) -> f64 {
        self.erlang_c
    }

    /// Mean wait, C / (c mu - lambda) \[s\].
    pub fn wait(&self) -> f64 {
        self.erlang_c / self.spare_rate()
    }

    /// Mean response time \[s\].
    pub fn response(&self) -> f64 {
        self.wait() + self.service
    }

    /// Variance of the wait, which is 0 or exponential with rate eta = c mu - lambda:
    /// C (2 - C) / eta^2 \[s^2\].
    pub fn wait_variance(&self) -> f64 {
        self.delayed().variance()
    }

    /// Variance of the response time; a job's wait and its service are independent \[s^2\].
    pub fn response_variance(&self) -> f64 {
        self.wait_variance() + self.service.powi(2)
    }

    /// Mean number of waiting jobs, by Little's law.
    pub fn waiting(&self) -> f64 {
        self.lambda * self.wait()
    }

    /// Mean number of jobs, waiting or served, by Little's law.
    pub fn in_system(&self) -> f64 {
        self.lambda * self.response()
    }

    /// P(W > t) = C exp(-(c mu - lambda) t) for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn wait_tail(&self, t: f64) -> Result<f64, SolveError> {
        self.delayed().tail(t)
    }

    /// The wait \[s\] that a share q of all jobs does not exceed; 0 where so many need not wait.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn wait_quantile(&self, q: f64) -> Result<f64, SolveError> {
        let left = 1.0 - quantile(q)?;
        if self.erlang_c <= left {
            return Ok(0.0);
        }
        Ok((self.erlang_c / left).ln() / self.spare_rate())
    }

    /// P(R > t) for t \[s\]: with eta = c mu - lambda the rate at which a wait ends,
    /// exp(-mu t) + C mu (exp(-mu t) - exp(-eta t)) / (eta - mu).
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        self.delayed().response_tail(t)
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn response_quantile(&self, q: f64) -> Result<f64, SolveError> {
        self.delayed().response_quantile(q)
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn delayed(&self) -> DelayedWait {
        DelayedWait { probability: self.erlang_c, rate: self.spare_rate(), service: self.service }
    }

    /// The rate at which a wait ends, c mu - lambda [1/s].
    fn spare_rate(&self) -> f64 {
        f64::from(self.servers) / self.service * (1.0 - self.rho)
    }
}

/// A wait that is 0, or exponential, before a service that is exponential and independent of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DelayedWait {
    /// The probability of a wait.
    pub(crate) probability: f64,
    /// The rate at which a wait ends, eta [1/s].
    pub(crate) rate: f64,
    /// Mean service time, 1/mu \[s\].
    pub(crate) service: f64,
}

impl DelayedWait {
    /// Of the wait \[s^2\].
    pub(crate) fn variance(self) -> f64 {
        self.probability * (2.0 - self.probability) / self.rate.powi(2)
    }

    /// P(W > t) for t \[s\].
    pub(crate) fn tail(self, t: f64) -> Result<f64, SolveError> {
        let t = not_negative("time t", t, "s")?;
        Ok(self.probability * (-self.rate * t).exp())
    }

    /// P(R > t) for t \[s\].
    pub(crate) fn response_tail(self, t: f64) -> Result<f64, SolveError> {
        let t = not_negative("time t", t, "s")?;
        let (mu, eta) = (1.0 / self.service, self.rate);
        let d = (eta - mu).abs();
        // The difference quotient, written so that it neither cancels at eta = mu nor overflows.
        let spread = if d * t < 1e-12 { t } else { -(-d * t).exp_m1() / d };
        let slow = (-mu.min(eta) * t).exp();
        Ok(((-mu * t).exp() + self.probability * mu * slow * spread).min(1.0))
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    pub(crate) fn response_quantile(self, q: f64) -> Result<f64, SolveError> {
        let left = 1.0 - quantile(q)?;
        let (mut low, mut high) = (0.0, self.service + self.probability / self.rate);
        while self.response_tail(high)? > left {
            (low, high) = (high, 2.0 * high);
        }
        // Halving ends when low and high are neighbours, well within 200 steps.
        for _ in 0..200 {
            let middle = low + (high - low) / 2.0;
            if self.response_tail(middle)? > left {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high)
    }
}

/// A rest below this share of a sum changes no digit of it.
const NEGLIGIBLE: f64 = 1e-17;

/// Erlang's B: the probability that all c servers of a system without a queue (M/G/c/c) are busy,
/// at an offered load of a = lambda E\[S\] erlang. Exact, insensitive to the distribution of
/// service, and without any limit on the load.
///
/// By 1/B = 1 + c/a + c (c-1)/a^2 + ..., whose terms are all positive, up to where the rest no longer
/// counts: some multiples of the root of c, so that billions of servers cost no more than a moment.
///
/// # Errors
/// If the offered load is negative or there is no server.
pub fn erlang_b(offered: f64, servers: u32) -> Result<f64, SolveError> {
    let a = not_negative("offered load a", offered, "erlang")?;
    at_least_one("servers c", servers)?;
    if a == 0.0 {
        return Ok(0.0);
    }
    let (mut sum, mut term) = (1.0, 1.0_f64);
    for busy in (1..=servers).rev() {
        let busy = f64::from(busy);
        term *= busy / a;
        sum += term;
        // Once terms fall, what is left is below a geometric sum; beyond every float, B is 0.
        if term * a < NEGLIGIBLE * sum * (a - busy) || term.is_infinite() {
            break;
        }
    }
    Ok(1.0 / sum)
}
