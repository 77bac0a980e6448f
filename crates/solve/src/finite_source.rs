//! One exponential server with a finite source: the machine repairman, and how long his queue takes.

use crate::error::{at_least_one, at_most, not_negative, positive, quantile};
use crate::{Exactness, SolveError};

/// The most customers: the sums below take their number squared.
const CUSTOMERS_MAX: u32 = 10_000;

/// M/M/1//N: each of N customers thinks for a time of mean Z, whatever its distribution, then waits
/// for one exponential server of mean S, first come, first served. Exact.
///
/// With a = S / Z, j of n customers are at the server with a chance in proportion to
/// n! / (n - j)! a^j. One who arrives finds what the others, N - 1 of them, would have on their own
/// (Sevcik and Mitrani 1981; Lavenberg and Reiser 1980), so the response is a sum of j + 1
/// exponentials:
///
/// ```text
///   P(R > t) = sum over j of p_j(N - 1) sum over i <= j of e^(-t/S) (t/S)^i / i!
/// ```
///
/// ```
/// let disk = solve::FiniteSource::new(80, 20.7, 0.33)?;
/// assert!((disk.response() - 5.83).abs() < 0.01);
/// assert!((disk.response_quantile(0.9)? - 9.58).abs() < 0.01);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FiniteSource {
    /// S \[s\].
    service: f64,
    /// The chance that an arrival finds 0, 1, ... at the server.
    found: Vec<f64>,
}

impl FiniteSource {
    /// N customers, mean think time Z \[s\], mean service time S \[s\].
    ///
    /// # Errors
    /// If there is no customer or more than 10 000, Z is negative, or S is not positive.
    pub fn new(customers: u32, think: f64, service: f64) -> Result<FiniteSource, SolveError> {
        at_least_one("customers N", customers)?;
        at_most("customers N", customers, CUSTOMERS_MAX)?;
        not_negative("think time Z", think, "s")?;
        positive("service time S", service, "s")?;
        let others = customers as usize - 1;
        // Weights from the full queue down: (n - j)! (Z/S)^(n - j) falls, so nothing overflows that
        // matters, and Z = 0 leaves the full queue alone.
        let mut weights = vec![0.0; others + 1];
        weights[others] = 1.0;
        let mut scale = 1.0_f64;
        for thinking in 1..=others {
            // p_(n-k) / p_(n-k+1) = Z / (k S).
            scale *= think / (thinking as f64 * service);
            weights[others - thinking] = scale;
            if scale > 1e250 {
                weights.iter_mut().for_each(|weight| *weight /= scale);
                scale = 1.0;
            }
        }
        let sum: f64 = weights.iter().sum();
        Ok(FiniteSource { service, found: weights.iter().map(|weight| weight / sum).collect() })
    }

    /// Mean response time, (1 + E\[found\]) S \[s\].
    pub fn response(&self) -> f64 {
        let found: f64 = self.found.iter().enumerate().map(|(j, p)| j as f64 * p).sum();
        (1.0 + found) * self.service
    }

    /// The chance that a response takes longer than t, 0 to 1.
    fn above(&self, t: f64) -> f64 {
        let x = t / self.service;
        // e^(-x) x^i / i! by logarithms: x may be in the thousands.
        let (mut log_term, mut tail, mut all) = (-x, 0.0, 0.0);
        for (i, chance) in self.found.iter().enumerate() {
            tail += log_term.exp();
            all += chance * tail.min(1.0);
            log_term += x.ln() - (i as f64 + 1.0).ln();
        }
        all
    }

    /// The response time that a share q of all does not exceed \[s\].
    ///
    /// # Errors
    /// If q is not between 0 and 1.
    pub fn response_quantile(&self, q: f64) -> Result<f64, SolveError> {
        let left = 1.0 - quantile(q)?;
        let mut low = 0.0;
        let mut high = self.response();
        while self.above(high) > left {
            (low, high) = (high, 2.0 * high);
        }
        // Bisected until the two ends differ by less than a number can tell.
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            if self.above(middle) > left {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high)
    }

    /// Exact.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_customer_is_never_behind_another() {
        let alone = FiniteSource::new(1, 3.0, 0.5).unwrap();
        assert!((alone.response() - 0.5).abs() < 1e-12);
        let p90 = alone.response_quantile(0.9).unwrap();
        assert!((p90 - 0.5 * 10.0_f64.ln()).abs() < 1e-9, "{p90}");
    }

    #[test]
    fn customers_that_never_think_wait_for_all_others() {
        let busy = FiniteSource::new(3, 0.0, 2.0).unwrap();
        assert!((busy.response() - 6.0).abs() < 1e-12);
        // The median of the sum of three exponentials of mean 1 is 2.674.
        assert!((busy.response_quantile(0.5).unwrap() - 2.0 * 2.674_06).abs() < 1e-4);
    }

    #[test]
    fn the_mean_is_that_of_the_network_and_the_tail_integrates_to_it() {
        for (customers, think, service) in [(2, 1.0, 1.0), (80, 20.7, 0.33), (900, 20.0, 0.01)] {
            let one = FiniteSource::new(customers, think, service).unwrap();
            let network = crate::ClosedNetwork::new(
                customers,
                think,
                &[crate::Station::queue(service).unwrap()],
            );
            let response = network.unwrap().solve().response;
            assert!((one.response() / response - 1.0).abs() < 1e-9, "{customers}: {response}");
            let step = one.response() / 2000.0;
            let area: f64 = (0..80_000).map(|at| one.above((at as f64 + 0.5) * step) * step).sum();
            assert!((area / response - 1.0).abs() < 1e-3, "{customers}: {area}");
        }
    }

    #[test]
    fn what_is_no_model_is_refused() {
        assert!(FiniteSource::new(0, 1.0, 1.0).is_err());
        assert!(FiniteSource::new(10_001, 1.0, 1.0).is_err());
        assert!(FiniteSource::new(1, -1.0, 1.0).is_err());
        assert!(FiniteSource::new(1, 1.0, 0.0).is_err());
        assert!(FiniteSource::new(1, 1.0, 1.0).unwrap().response_quantile(1.0).is_err());
    }
}
