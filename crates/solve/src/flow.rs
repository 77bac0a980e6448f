//! Clients in front of a subsystem of which only its throughput against its population is known:
//! a curve that was measured, or that of a network inside.

use crate::error::{at_least_one, not_negative, positive};
use crate::wide::Wide;
use crate::{Exactness, SolveError};

/// N clients that think for Z seconds, and a gate of r slots before a subsystem that completes X(n)
/// jobs a second while it holds n. The rest wait in front of the gate, first in first out.
///
/// The subsystem stands for whatever is inside, as one station whose rate is its throughput
/// (Chandy, Herzog and Woo 1975, Norton's theorem for queueing networks): exact where what is inside
/// has product form and demands at its queues are exponential. For other demands it is an
/// approximation as good as [`ClosedGate`](crate::ClosedGate), of which it is the general form.
///
/// ```
/// // One server of 10 ms, four slots, 40 clients that think 100 ms.
/// let curve = [100.0; 4];
/// let answer = solve::FlowEquivalent::new(40, 0.1, &curve)?.solve();
/// assert!((answer.throughput - 100.0).abs() < 1e-3);
/// assert!((answer.wait + answer.hold - 0.3).abs() < 1e-3);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEquivalent {
    clients: u32,
    think: f64,
    throughput: Vec<f64>,
}

/// Results for clients before a [`FlowEquivalent`], as means over a long time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowAnswer {
    /// Cycles completed, X [1/s].
    pub throughput: f64,
    /// From arrival at the gate to start \[s\].
    pub wait: f64,
    /// From start to departure \[s\].
    pub hold: f64,
    /// Mean number of slots held.
    pub holding: f64,
    /// Mean number of jobs that wait.
    pub waiting: f64,
}

impl FlowEquivalent {
    /// N clients with mean think time Z \[s\], and as many slots as the curve has points:
    /// `throughput[n - 1]` is X(n) [1/s].
    ///
    /// # Errors
    /// If there is no client or no slot, Z is negative, or a throughput is not positive.
    pub fn new(clients: u32, think: f64, throughput: &[f64]) -> Result<FlowEquivalent, SolveError> {
        at_least_one("clients N", clients)?;
        let think = not_negative("think time Z", think, "s")?;
        at_least_one("slots r", u32::try_from(throughput.len()).unwrap_or(u32::MAX))?;
        for x in throughput {
            positive("throughput X(n)", *x, "1/s")?;
        }
        Ok(FlowEquivalent { clients, think, throughput: throughput.to_vec() })
    }

    /// Throughput, wait and hold, from the probabilities of n jobs at the gate, p(n) proportional
    /// to Z^(N-n) / (N-n)! / (X(1) ... X(n)), where X(n) = X(r) beyond r.
    ///
    /// # Panics
    /// If the answer breaks Little's law for the whole cycle.
    pub fn solve(&self) -> FlowAnswer {
        let n_all = self.clients;
        let rate = |n: u32| self.throughput[(n as usize).min(self.throughput.len()) - 1];
        // From all at the gate downwards, so that Z = 0 needs no case of its own.
        let mut weights = vec![Wide::ONE];
        for n in (1..=n_all).rev() {
            let ratio = rate(n) * self.think / f64::from(n_all - n + 1);
            weights.push(weights[weights.len() - 1].times(ratio));
        }
        let sum = weights.iter().fold(Wide::ZERO, |sum, &weight| sum.plus(weight));
        let slots = self.throughput.len() as u32;
        let (mut x, mut waiting, mut holding) = (0.0, 0.0, 0.0);
        for (n, weight) in (1..=n_all).zip(weights.iter().rev().skip(1)) {
            let p = weight.over(sum);
            x += p * rate(n);
            waiting += p * f64::from(n.saturating_sub(slots));
            holding += p * f64::from(n.min(slots));
        }
        let n_all = f64::from(n_all);
        let counted = x * self.think + waiting + holding;
        let slack = 1e-12 * (n_all + 1000.0) * n_all;
        assert!((counted - n_all).abs() <= slack, "{counted} jobs, not {n_all}");
        FlowAnswer { throughput: x, wait: waiting / x, hold: holding / x, holding, waiting }
    }

    /// Exactness of the answer, if all that is known of the demand is the curve.
    pub fn exactness(&self) -> Exactness {
        if self.clients as usize <= self.throughput.len() || self.think == 0.0 {
            return Exactness::Exact;
        }
        Exactness::Approximate { source: "means of exponential demand", error: 0.26 }
    }
}
