//! Poisson arrivals, exponential service, c servers and room for K jobs: M/M/c/K.

use super::poisson::Poisson;
use crate::error::{at_least_one, at_most, not_negative, positive, quantile};
use crate::{Exactness, SolveError};

/// Room for jobs that is solved at most; the distribution is kept, 8 bytes a job.
const CAPACITY_MAX: u32 = 10_000_000;

/// M/M/c/K: c like servers, room for K jobs, waiting or served, first in first out; who finds no
/// room is lost. All its answers are exact, and there are answers at any load. K = c is Erlang's
/// loss system.
///
/// Its probabilities follow from each other by factors lambda / (min(n, c) mu), taken outwards from
/// the largest, so that nothing overflows and no digits cancel (Kleinrock 1975, section 3.5 to 3.7).
///
/// ```
/// // One server with room for three, as much work as it can do: all states alike.
/// let queue = solve::Mmck::new(100.0, 10e-3, 1, 3)?;
/// assert!((queue.loss() - 0.25).abs() < 1e-12);
/// assert!((queue.wait() - 10e-3).abs() < 1e-12);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mmck {
    lambda: f64,
    service: f64,
    servers: u32,
    probabilities: Vec<f64>,
}

impl Mmck {
    /// A queue with arrival rate lambda [1/s], mean service time 1/mu \[s\], c servers and room for
    /// K jobs.
    ///
    /// # Errors
    /// If a parameter is out of range, K is below c, or above ten million.
    pub fn new(lambda: f64, service: f64, servers: u32, capacity: u32) -> Result<Mmck, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        positive("mean service time 1/mu", service, "s")?;
        at_least_one("servers c", servers)?;
        at_most("capacity K", capacity, CAPACITY_MAX)?;
        if capacity < servers {
            return Err(SolveError::NoRoom { servers, capacity });
        }
        let offered = lambda * service;
        // States up to the mode grow, those above fall: below c the ratio is a / n, then a / c.
        let full = offered >= f64::from(servers);
        let mode = if full { capacity } else { offered.floor() as u32 };
        let mut weights = vec![0.0; capacity as usize + 1];
        weights[mode as usize] = 1.0;
        for n in (1..=mode).rev() {
            weights[n as usize - 1] = weights[n as usize] * f64::from(n.min(servers)) / offered;
        }
        for n in mode + 1..=capacity {
            weights[n as usize] = weights[n as usize - 1] * offered / f64::from(n.min(servers));
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Ok(Mmck { lambda, service, servers, probabilities: weights })
    }

    /// Probability of 0, 1, ... K jobs, waiting or served.
    pub fn distribution(&self) -> &[f64] {
        &self.probabilities
    }

    /// Share of arrivals that are lost, P(N = K).
    pub fn loss(&self) -> f64 {
        self.probabilities[self.probabilities.len() - 1]
    }

    /// Jobs served, lambda (1 - loss) [1/s].
    pub fn throughput(&self) -> f64 {
        // The accepted are added up: 1 - loss has no digits where nearly all are lost.
        self.lambda * self.accepted()
    }

    /// Mean share of busy servers.
    pub fn utilisation(&self) -> f64 {
        self.throughput() * self.service / f64::from(self.servers)
    }

    /// Mean number of jobs, waiting or served.
    pub fn in_system(&self) -> f64 {
        (0_u32..).zip(&self.probabilities).map(|(n, p)| f64::from(n) * p).sum()
    }

    /// Mean wait of the jobs that are let in, by Little's law \[s\]; 0 if there are none.
    pub fn wait(&self) -> f64 {
        let jobs = (0_u32..).zip(&self.probabilities);
        let waiting: f64 = jobs.map(|(n, p)| f64::from(n.saturating_sub(self.servers)) * p).sum();
        if waiting == 0.0 { 0.0 } else { waiting / self.throughput() }
    }

    /// Mean number of waiting jobs.
    pub fn waiting(&self) -> f64 {
        self.throughput() * self.wait()
    }

    /// Probability that a job that is let in must wait.
    pub fn wait_probability(&self) -> f64 {
        self.found_at_least().first().copied().unwrap_or(0.0)
    }

    /// Variance of the wait of the jobs that are let in \[s^2\]: who finds n >= c waits for
    /// j = n - c + 1 ends of service, E\[W^2\] the sum of j (j + 1) / (c mu)^2.
    pub fn wait_variance(&self) -> f64 {
        let accepted = self.accepted();
        let last = self.probabilities.len() - 1;
        let waiting = &self.probabilities[self.servers as usize..last];
        let jobs = (1_u32..).map(f64::from).zip(waiting);
        let ends: f64 = jobs.map(|(j, p)| j * (j + 1.0) * p / accepted).sum();
        let second = ends * (self.service / f64::from(self.servers)).powi(2);
        (second - self.wait().powi(2)).max(0.0)
    }

    /// Variance of the response time of the jobs that are let in \[s^2\].
    pub fn response_variance(&self) -> f64 {
        self.wait_variance() + self.service.powi(2)
    }

    /// Mean response time of the jobs that are let in \[s\].
    pub fn response(&self) -> f64 {
        self.wait() + self.service
    }

    /// P(W > t) of the jobs that are let in, for t \[s\]: who finds n >= c waits for n - c + 1 ends of
    /// service, an Erlang distribution.
    ///
    /// # Errors
    /// If t is negative.
    pub fn wait_tail(&self, t: f64) -> Result<f64, SolveError> {
        let t = not_negative("time t", t, "s")?;
        Ok(self.wait_tail_from(&self.found_at_least(), t))
    }

    /// The wait \[s\] that a share q of the jobs that are let in does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn wait_quantile(&self, q: f64) -> Result<f64, SolveError> {
        let left = 1.0 - quantile(q)?;
        let found = self.found_at_least();
        if found.first().is_none_or(|&must_wait| must_wait <= left) {
            return Ok(0.0);
        }
        Ok(super::poisson::crossing(self.service, left, |t| self.wait_tail_from(&found, t)))
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    /// P(N < K).
    fn accepted(&self) -> f64 {
        self.probabilities[..self.probabilities.len() - 1].iter().sum()
    }

    /// Probability that a job that is let in finds at least c, c + 1, ... K - 1 jobs.
    fn found_at_least(&self) -> Vec<f64> {
        let last = self.probabilities.len() - 1;
        let accepted = self.accepted();
        let mut sum = 0.0;
        let mut found: Vec<f64> = self.probabilities[self.servers as usize..last]
            .iter()
            .rev()
            .map(|p| {
                sum += p / accepted;
                sum
            })
            .collect();
        found.reverse();
        found
    }

    /// The sum over j of P(j ends of service in t) P(at least c + j found).
    fn wait_tail_from(&self, found: &[f64], t: f64) -> f64 {
        let ends = f64::from(self.servers) * t / self.service;
        Poisson::new(ends).mean_of(|j| found.get(j as usize).copied().unwrap_or(0.0)).min(1.0)
    }
}
