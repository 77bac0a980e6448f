//! Demands as passages through exponential phases, exactly or as near as so many phases come.

use super::demand::{Demand, Law, gamma};

/// A demand made of exponential phases: where it starts, how fast each phase ends, and where it
/// goes on; what is missing to 1 leaves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PhaseType {
    pub(crate) start: Vec<f64>,
    pub(crate) rate: Vec<f64>,
    pub(crate) next: Vec<Vec<f64>>,
}

impl PhaseType {
    fn mixture(branches: &[(f64, f64)]) -> PhaseType {
        let k = branches.len();
        PhaseType {
            start: branches.iter().map(|branch| branch.0).collect(),
            rate: branches.iter().map(|branch| 1.0 / branch.1).collect(),
            next: vec![vec![0.0; k]; k],
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.start.len()
    }

    /// Probability that the end of a phase is the end of the demand.
    pub(crate) fn exit(&self, phase: usize) -> f64 {
        1.0 - self.next[phase].iter().sum::<f64>()
    }

    /// Its mean \[s\]: the visits to each phase, which come in order, times their lengths.
    pub(crate) fn mean(&self) -> f64 {
        let mut visits = self.start.clone();
        for phase in 0..self.count() {
            debug_assert!(self.next[phase][..=phase].iter().all(|share| *share == 0.0), "{self:?}");
            for later in phase + 1..self.count() {
                visits[later] += visits[phase] * self.next[phase][later];
            }
        }
        visits.iter().zip(&self.rate).map(|(visits, rate)| visits / rate).sum()
    }

    /// The demand itself, if it is made of at most so many phases.
    pub(crate) fn exact(demand: &Demand, phases: usize) -> Option<PhaseType> {
        match &demand.law {
            Law::Hyperexponential(list) if list.len() <= phases => Some(PhaseType::mixture(list)),
            Law::Erlang(stages, mean) if *stages as usize <= phases => {
                Some(PhaseType::erlang(*stages as usize, *mean))
            }
            _ => None,
        }
    }

    fn erlang(stages: usize, mean: f64) -> PhaseType {
        let mut next = vec![vec![0.0; stages]; stages];
        let mut start = vec![0.0; stages];
        start[0] = 1.0;
        for stage in 1..stages {
            next[stage - 1][stage] = 1.0;
        }
        PhaseType { start, rate: vec![stages as f64 / mean; stages], next }
    }

    /// Two exponentials, each with half of the load.
    pub(crate) fn balanced(mean: f64, scv: f64) -> PhaseType {
        let p = (1.0 + ((scv - 1.0) / (scv + 1.0)).max(0.0).sqrt()) / 2.0;
        let rare = 1.0 / (1.0 + scv.max(1.0)) / (2.0 * p);
        PhaseType::mixture(&[(p, mean / (2.0 * p)), (rare, mean / (2.0 * rare))])
    }

    /// Exponential, or less variable: two phases in a row, the second sometimes skipped, with this
    /// mean and a squared coefficient of variation from 0.5 to 1.
    pub(crate) fn less_variable(mean: f64, scv: f64) -> PhaseType {
        // A phase of mean a always, and one of like mean with probability p: the mean is a (1 + p),
        // the second moment 2 a^2 (1 + 2 p); so (1 + scv) (1 + p)^2 = 2 (1 + 2 p).
        debug_assert!((0.5..=1.0).contains(&scv), "squared coefficient of variation {scv}");
        let c = 1.0 + scv;
        let p = ((2.0 - c) + (2.0 * (2.0 - c)).sqrt()) / c;
        let p = p.min(1.0);
        let rate = (1.0 + p) / mean;
        PhaseType {
            start: vec![1.0, 0.0],
            rate: vec![rate; 2],
            next: vec![vec![0.0, p], vec![0.0; 2]],
        }
    }

    /// A mixture of two or three exponentials, with the mean of the demand and the moments of order
    /// step, 2 step, ... as far as they determine it: Gauss's quadrature of the mixing
    /// distribution. With S = X E, E exponential of mean 1, E\[X^s\] = E\[S^s\] / Gamma(1 + s).
    ///
    /// None where no mixture has such moments.
    pub(crate) fn fitted(demand: &Demand, phases: usize, step: f64) -> Option<PhaseType> {
        let mean = demand.mean();
        let moments: Vec<f64> = (0..2 * phases)
            .map(|i| step * i as f64)
            .map(|s| demand.power(s) / mean.powf(s) / gamma(1.0 + s))
            .collect();
        let atoms = gauss(&moments)?;
        let branches: Vec<(f64, f64)> =
            atoms.iter().map(|&(weight, y)| (weight, y.powf(1.0 / step))).collect();
        // The mean is among the moments only if a multiple of the step is 1, and the utilisation must
        // be that of the demand.
        let fitted: f64 = branches.iter().map(|branch| branch.0 * branch.1).sum();
        let scaled: Vec<(f64, f64)> =
            branches.iter().map(|&(p, m)| (p, m * mean / fitted)).collect();
        scaled.iter().all(|branch| branch.1.is_finite()).then(|| PhaseType::mixture(&scaled))
    }
}

/// Weights and places of the two or three atoms that have these 4 or 6 moments, if they are
/// positive.
fn gauss(moments: &[f64]) -> Option<Vec<(f64, f64)>> {
    let k = moments.len() / 2;
    let hankel = nalgebra::DMatrix::from_fn(k, k, |i, j| moments[i + j]);
    let right = nalgebra::DVector::from_fn(k, |i, _| -moments[i + k]);
    let c = hankel.lu().solve(&right)?;
    // The atoms are the roots of the orthogonal polynomial, eigenvalues of its companion matrix.
    let companion = nalgebra::DMatrix::from_fn(k, k, |i, j| {
        let below = if i == j + 1 { 1.0 } else { 0.0 };
        if j == k - 1 { below - c[i] } else { below }
    });
    let roots = companion.eigenvalues()?;
    let powers = nalgebra::DMatrix::from_fn(k, k, |i, j| roots[j].powi(i as i32));
    let weights = powers.lu().solve(&nalgebra::DVector::from_column_slice(&moments[..k]))?;
    let atoms: Vec<(f64, f64)> = weights.iter().copied().zip(roots.iter().copied()).collect();
    // An atom without weight would only add phases.
    let sound = atoms.iter().all(|&(weight, y)| weight > 1e-9 && y > 0.0);
    sound.then_some(atoms)
}
