//! The universal scalability law through points whose throughput falls: the loss of a server to its
//! serial part, and the loss that grows with every pair of clients (Gunther 2007, chapter 4).
//!
//! ```text
//!   X(N) = gamma N / (1 + sigma (N - 1) + kappa N (N - 1))
//! ```
//!
//! N/X is linear in 1/gamma, sigma/gamma and kappa/gamma, none of which is below 0, so that the least
//! squares of its relative errors are found without a search.

use rand_distr::{Distribution, StandardNormal};
use workload::stream;

use super::FitOptions;
use super::draft::Draft;
use super::evidence::interval;
use super::linear::non_negative;
use super::points::LoadPoint;

/// Number of draws of the bootstrap.
const DRAWS: usize = 400;

/// Three numbers are fitted: with fewer loads there is no error to be seen.
const LOADS_MIN: usize = 4;

/// gamma [1/s], sigma and kappa.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    gamma: f64,
    sigma: f64,
    kappa: f64,
}

impl Law {
    /// The law nearest to points (N, X); none where even one client's throughput is not seen.
    fn through(points: &[(f64, f64)]) -> Option<Law> {
        let row = |&(n, x): &(f64, f64)| {
            let weight = x / n;
            vec![weight, weight * (n - 1.0), weight * n * (n - 1.0)]
        };
        let rows: Vec<Vec<f64>> = points.iter().map(row).collect();
        let found = non_negative(&rows, &vec![1.0; points.len()]);
        let [alone, serial, pairs] = found[..] else { return None };
        (alone > 0.0).then(|| Law {
            gamma: 1.0 / alone,
            sigma: serial / alone,
            kappa: pairs / alone,
        })
    }

    fn throughput(&self, n: f64) -> f64 {
        self.gamma * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The clients at which the throughput is highest; infinite where it never falls.
    fn peak(&self) -> f64 {
        if self.kappa == 0.0 {
            return f64::INFINITY;
        }
        // The derivative of X is 0 where 1 - sigma = kappa N^2.
        ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0)
    }
}

/// Fits the law to points of rising load and puts its numbers, with their regions, into the draft;
/// else what is missing.
pub(super) fn fit_scalability(
    points: &[LoadPoint],
    draft: &mut Draft,
    options: &FitOptions,
) -> Option<String> {
    let seen: Vec<(f64, f64)> = points.iter().map(|of| (of.clients, of.throughput)).collect();
    let loads = seen.chunk_by(|a, b| a.0 == b.0).count();
    if loads < LOADS_MIN {
        draft.unidentified.push(format!(
            "sigma and kappa of the universal scalability law: {loads} loads are too few for three \
             numbers and their errors; measure {LOADS_MIN} or more"
        ));
        return None;
    }
    let Some(law) = Law::through(&seen) else {
        draft.unidentified.push(
            "sigma and kappa of the universal scalability law: no load is small enough to tell what \
             one client gets"
                .into(),
        );
        return None;
    };
    let near = regions(&seen, law, options.seed);
    let region = |of: fn(&Law) -> f64| interval(of(&law), near.iter().map(of), options.confidence);
    draft.parameter("throughput-alone", law.gamma, region(|law| law.gamma), "/s", options);
    draft.parameter("sigma", law.sigma, region(|law| law.sigma), "", options);
    draft.parameter("kappa", law.kappa, region(|law| law.kappa), "", options);
    let most = seen[seen.len() - 1].0;
    draft.clients("peak", law.peak(), region(Law::peak), most, options);
    let off = misfit(&seen, law);
    Some(format!(
        "the universal scalability law through all {loads} loads, X = {} N / (1 + sigma (N - 1) + \
         kappa N (N - 1)), is {:.1} % off (root mean square): sigma is what is serial, kappa what \
         grows with every pair of clients",
        measure::figures::digits(law.gamma),
        100.0 * off
    ))
}

/// Root mean square of ln(seen / law), for as many as are free.
fn misfit(seen: &[(f64, f64)], law: Law) -> f64 {
    let square: f64 = seen.iter().map(|&(n, x)| (x / law.throughput(n)).ln().powi(2)).sum();
    (square / (seen.len() as f64 - 3.0).max(1.0)).sqrt()
}

/// Laws that are possible as well: throughputs are drawn anew with the noise that is seen, widened
/// for few points.
fn regions(seen: &[(f64, f64)], law: Law, seed: u64) -> Vec<Law> {
    let freedom = (seen.len() as f64 - 3.0).max(1.0);
    // Student's quantile over the normal one, to second order.
    let student = 1.0 + 1.2 / freedom + 1.9 / freedom.powi(2);
    let noise = student * misfit(seen, law);
    let mut chance = stream(seed, 0x05_1a);
    let mut draw = || {
        let point = |&(n, _): &(f64, f64)| {
            let normal: f64 = StandardNormal.sample(&mut chance);
            (n, law.throughput(n) * (noise * normal).exp())
        };
        Law::through(&seen.iter().map(point).collect::<Vec<_>>())
    };
    let mut laws: Vec<Law> = (0..DRAWS).filter_map(|_| draw()).collect();
    laws.push(law);
    laws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_found_again() {
        let law = Law { gamma: 995.6, sigma: 0.0267, kappa: 7.69e-4 };
        let points: Vec<(f64, f64)> =
            [1.0, 2.0, 8.0, 24.0, 48.0, 96.0].map(|n| (n, law.throughput(n))).to_vec();
        let found = Law::through(&points).unwrap();
        for (a, b) in [(found.gamma, law.gamma), (found.sigma, law.sigma), (found.kappa, law.kappa)]
        {
            assert!((a / b - 1.0).abs() < 1e-6, "{found:?}");
        }
        assert!((law.peak() - (0.9733_f64 / 7.69e-4).sqrt()).abs() < 1e-9);
        assert_eq!(Law { kappa: 0.0, ..law }.peak(), f64::INFINITY);
    }
}
