//! Like servers behind a queue whose arrivals come more evenly than Poisson's: each k-th of them.

use crate::error::{at_least_one, not_negative, positive, stable};
use crate::markov::DelayedWait;
use crate::{Exactness, SolveError};

/// Gaps times servers up to which the levels are summed: a tenth of a second.
const LEVELS_MAX: u64 = 10_000_000;

/// E_k/M/c: c like servers with exponential service and one queue, first in first out, where each k-th
/// arrival of a Poisson stream comes: what each of k queues gets that are served in turn, round robin.
/// All its answers are exact.
///
/// With sigma the root below 1 of sigma = A*(c mu (1 - sigma)), A* the transform of the gaps, a wait
/// that is longer than nothing is exponential with rate c mu (1 - sigma), and so many find so many
/// more jobs that each share is sigma times the one before (GI/M/c: Kendall 1953; Kleinrock 1975, section
/// 6.4). What comes below c jobs follows from what is above it by the balance of flows, in which all terms
/// are positive.
///
/// ```
/// // Four servers in turn, each at 0.8: sigma = 0.69394, where a Poisson stream would have 0.8.
/// let queue = solve::Ekmc::new(0.8, 4, 1.0, 1)?;
/// assert!((queue.wait_probability() - 0.69394).abs() < 1e-5);
/// assert!((queue.response() - 3.2674).abs() < 1e-4);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ekmc {
    lambda: f64,
    service: f64,
    rho: f64,
    wait: DelayedWait,
}

impl Ekmc {
    /// A queue with arrival rate lambda [1/s] of gaps that are sums of k like exponential ones, mean
    /// service time 1/mu \[s\] and c servers.
    ///
    /// # Errors
    /// If a parameter is out of range, k times c is above ten million, or the utilisation is not below 1.
    pub fn new(lambda: f64, gaps: u32, service: f64, servers: u32) -> Result<Ekmc, SolveError> {
        let lambda = not_negative("arrival rate lambda", lambda, "/s")?;
        positive("mean service time 1/mu", service, "s")?;
        at_least_one("servers c", servers)?;
        at_least_one("gaps k", gaps)?;
        if u64::from(gaps) * u64::from(servers) > LEVELS_MAX {
            let most = (LEVELS_MAX / u64::from(servers)) as u32;
            return Err(SolveError::TooLarge { name: "gaps k", value: gaps, most });
        }
        let rho = stable(|| format!("E_{gaps}/M/{servers}"), lambda, service, servers)?;
        // 1 - sigma keeps its digits where sigma is next to 1.
        let left = if rho > 0.0 { left(rho, gaps) } else { 1.0 };
        let probability = if rho > 0.0 { found_full(rho, left, gaps, servers) } else { 0.0 };
        let rate = f64::from(servers) / service * left;
        let wait = DelayedWait { probability, rate, service };
        Ok(Ekmc { lambda, service, rho, wait })
    }

    /// Mean share of busy servers, rho = lambda / (c mu).
    pub fn utilisation(&self) -> f64 {
        self.rho
    }

    /// Probability that a job must wait; with one server it is sigma.
    pub fn wait_probability(&self) -> f64 {
        self.wait.probability
    }

    /// Mean wait \[s\].
    pub fn wait(&self) -> f64 {
        self.wait.probability / self.wait.rate
    }

    /// Variance of the wait \[s^2\].
    pub fn wait_variance(&self) -> f64 {
        self.wait.variance()
    }

    /// Mean response time \[s\].
    pub fn response(&self) -> f64 {
        self.wait() + self.service
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

    /// P(W > t) for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn wait_tail(&self, t: f64) -> Result<f64, SolveError> {
        self.wait.tail(t)
    }

    /// P(R > t) for t \[s\].
    ///
    /// # Errors
    /// If t is negative.
    pub fn response_tail(&self, t: f64) -> Result<f64, SolveError> {
        self.wait.response_tail(t)
    }

    /// The response time \[s\] that a share q of all jobs does not exceed.
    ///
    /// # Errors
    /// If q is not in [0, 1).
    pub fn response_quantile(&self, q: f64) -> Result<f64, SolveError> {
        self.wait.response_quantile(q)
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

/// 1 - sigma, the root above 0 of 1 - y = (1 + y / (k rho))^-k.
fn left(rho: f64, gaps: u32) -> f64 {
    let k = f64::from(gaps);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..1100 {
        let middle = low + (high - low) / 2.0;
        if middle == low || middle == high {
            break;
        }
        // What is left of the transform is above y up to the root, then below.
        let is_below_root = -(-k * (middle / (k * rho)).ln_1p()).exp_m1() > middle;
        if is_below_root { low = middle } else { high = middle }
    }
    high
}

/// The share of arrivals that find all servers busy, from the states m = k n + j with n jobs there and j
/// gaps of k done since the last arrival. The flow up through the cut above m is that of one gap's end
/// at m, and down come the ends of services with m + 1 to m + k, whose rate is that of n servers, c at
/// the most. From m = k c on, each share is the k-th root of sigma times the one before.
fn found_full(rho: f64, left: f64, gaps: u32, servers: u32) -> f64 {
    let (k, c) = (gaps as usize, servers as usize);
    // In units of mu: the rate of one gap's end.
    let ends = f64::from(gaps) * rho * f64::from(servers);
    let ln_step = -(left / (f64::from(gaps) * rho)).ln_1p();
    // Arrivals find n = c, c + 1, ... jobs with shares that fall by sigma, from that at m = k c + k - 1.
    let mut sums = (((k - 1) as f64 * ln_step).exp() / left, 0.0);
    // The k shares above m, the lowest first, and the flow down through the cut above m.
    let mut above: Vec<f64> = (0..k).map(|j| (j as f64 * ln_step).exp()).collect();
    let mut flow = above.iter().sum::<f64>() * f64::from(servers);
    let mut at = 0;
    for m in (0..k * c).rev() {
        let here = flow / ends;
        // The ring's place of m is that of m + k, which the cut below m no longer counts.
        at = (at + k - 1) % k;
        let out = above[at] * f64::from(servers.min(((m + k) / k) as u32));
        above[at] = here;
        flow += here * f64::from((m / k) as u32) - out;
        if m % k == 0 {
            // Sums and differences gather rounding: with each whole level it is counted anew.
            flow = above.iter().sum::<f64>() * f64::from((m / k) as u32);
        }
        if m % k == k - 1 {
            sums.1 += here;
        }
        if here > 1e200 {
            above.iter_mut().for_each(|share| *share *= 1e-200);
            (flow, sums) = (flow * 1e-200, (sums.0 * 1e-200, sums.1 * 1e-200));
        }
    }
    sums.0 / (sums.0 + sums.1)
}
