//! The exact chain of a queue before r slots whose holders share a server: level n, the jobs in the
//! system; within it, how many of the min(n, r) holders are in which phase of their demand.
//!
//! A quasi-birth-death process (Neuts 1981; for this model Telek and Van Houdt 2018): from level r
//! on the steps are alike, and pi(n + 1) = pi(n) R.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};

use super::phases::PhaseType;

/// Number of holders in each phase.
pub(crate) type Counts = Vec<u32>;

/// All ways in which n jobs are distributed over k phases.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) states: Vec<Counts>,
    index: BTreeMap<Counts, usize>,
}

impl Layer {
    pub(crate) fn new(jobs: u32, phases: usize) -> Layer {
        let mut states = Vec::new();
        compose(jobs, phases, &mut Vec::new(), &mut states);
        let index = states.iter().cloned().enumerate().map(|(i, counts)| (counts, i)).collect();
        Layer { states, index }
    }

    /// Index of the state with one job less in a phase, and one more in another.
    pub(crate) fn moved(&self, from: &Counts, less: Option<usize>, more: Option<usize>) -> usize {
        let mut to = from.clone();
        if let Some(phase) = less {
            to[phase] -= 1;
        }
        if let Some(phase) = more {
            to[phase] += 1;
        }
        self.index[&to]
    }
}

fn compose(jobs: u32, phases: usize, prefix: &mut Counts, states: &mut Vec<Counts>) {
    if phases == 1 {
        states.push(prefix.iter().copied().chain([jobs]).collect());
        return;
    }
    for first in 0..=jobs {
        prefix.push(first);
        compose(jobs - first, phases - 1, prefix, states);
        prefix.pop();
    }
}

/// The stationary distribution.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Distribution over the states of levels 0 to r.
    pub(crate) levels: Vec<DVector<f64>>,
    /// The transpose of R, so that distributions can be columns.
    pub(crate) ratio: DMatrix<f64>,
    /// Mean number of jobs that wait.
    pub(crate) waiting: f64,
    /// Mean number of slots held.
    pub(crate) holding: f64,
}

impl Slots {
    /// A number of jobs waiting that is exceeded with a probability of at most `cut`, and not by
    /// far.
    pub(crate) fn longest(&self, cut: f64) -> f64 {
        let top = &self.levels[self.levels.len() - 1];
        let beyond = |power: &DMatrix<f64>| (power * top).sum() > cut;
        let mut powers = vec![self.ratio.clone()];
        while beyond(&powers[powers.len() - 1]) && powers.len() < 20 {
            let last = &powers[powers.len() - 1];
            powers.push(last * last);
        }
        // The length in binary digits, from the largest power down.
        let (mut level, mut length) = (top.clone(), 0.0);
        for (digit, power) in powers.iter().enumerate().rev() {
            let next = power * &level;
            if next.sum() > cut {
                (level, length) = (next, length + 2_f64.powi(digit as i32));
            }
        }
        length + 1.0
    }
}

/// Results of a chain of clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clients {
    /// Mean number of jobs that wait.
    pub(crate) waiting: f64,
    /// Mean number of slots held.
    pub(crate) holding: f64,
    /// Completions [1/s].
    pub(crate) throughput: f64,
}

/// Input of the chain: arrivals, the demand, and the speed of the server with n in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive<'a> {
    pub(crate) lambda: f64,
    pub(crate) demand: &'a PhaseType,
    /// The speed with 1, 2, ... r in service; its length is r.
    pub(crate) speeds: &'a [f64],
}

impl Drive<'_> {
    pub(crate) fn slots(&self) -> usize {
        self.speeds.len()
    }

    /// Seconds of each holder's time per second of work that it is given, with n in service.
    pub(crate) fn stretch(&self, n: usize) -> f64 {
        n as f64 / self.speeds[n - 1]
    }

    pub(crate) fn solve(&self) -> Slots {
        let r = self.slots();
        let layers: Vec<Layer> =
            (0..=r).map(|n| Layer::new(n as u32, self.demand.count())).collect();
        // From below: pi(n) = pi(n + 1) S(n), here transposed.
        let mut shares: Vec<DMatrix<f64>> = Vec::new();
        for n in 0..r {
            let mut out = -self.local(&layers[n], n);
            if let Some(share) = shares.last() {
                out -= share * self.up(&layers[n - 1], &layers[n]);
            }
            let down = self.down(&layers[n + 1], &layers[n], n + 1);
            let solved = out.transpose().lu().solve(&down.transpose());
            let solved = solved.expect("every level below is left at last");
            shares.push(solved.transpose());
        }
        let arrive = self.up(&layers[r - 1], &layers[r]);
        let refill = self.down(&layers[r], &layers[r - 1], r) * &arrive / self.lambda;
        let local = self.local(&layers[r], r);
        let ratio = rate_matrix(self.lambda, &local, &refill);
        let balance = local + &shares[r - 1] * arrive + &ratio * refill;
        self.normalised(null_vector(balance), &shares, ratio)
    }

    /// The chain of so many clients, more than slots, that each think for a mean of `pause` seconds,
    /// exponential, between one answer and the next request; lambda is of no account.
    ///
    /// Level by level from the last: pi(n + 1) = pi(n) R(n + 1), so that what a state below has above it
    /// is a column that grows with each level, and no level is kept.
    pub(crate) fn of_clients(&self, clients: u32, pause: f64) -> Clients {
        let r = self.slots();
        let layers: Vec<Layer> =
            (0..=r).map(|n| Layer::new(n as u32, self.demand.count())).collect();
        let layer = |n: usize| &layers[n.min(r)];
        let at = |n: usize| Drive { lambda: (f64::from(clients) - n as f64) / pause, ..*self };
        let down = |n: usize| self.down(&layers[n], &layers[n - 1], n);
        // A slot that is given back is taken by who waits.
        let refill = {
            let unit = Drive { lambda: 1.0, ..*self };
            down(r) * unit.up(&layers[r - 1], &layers[r])
        };
        let locals = self.local(&layers[r], r);
        let mut above: Option<(DMatrix<f64>, DMatrix<f64>)> = None;
        let mut scale = 1.0;
        for n in (0..=clients as usize).rev() {
            let here = at(n);
            let local = if n >= r {
                // The one part of it that changes from level to level.
                let more = self.lambda - here.lambda;
                let mut local = locals.clone();
                (0..local.nrows()).for_each(|a| local[(a, a)] += more);
                local
            } else {
                here.local(layer(n), n)
            };
            let size = local.nrows();
            let own = [1.0, (n.max(r) - r) as f64, n.min(r) as f64, f64::from(clients) - n as f64];
            let mut found = DMatrix::from_fn(size, 4, |_, of| scale * own[of]);
            let mut out = -local;
            if let Some((solved, columns)) = above.take() {
                let (back, on);
                if n >= r {
                    (back, on) = (&solved * here.lambda * &refill, columns * here.lambda);
                } else {
                    let up = here.up(layer(n), layer(n + 1));
                    (back, on) = (&up * solved * down(n + 1), up * columns);
                }
                out -= back;
                found += on;
            }
            // The columns grow from level to level. Only their ratios are told, so all are scaled down.
            let most = found.max();
            if most > 1e100 {
                found /= most;
                scale /= most;
            }
            if n == 0 {
                let [sum, waiting, holding, pausing] = [0, 1, 2, 3].map(|of| found[(0, of)]);
                let [waiting, holding] = [waiting, holding].map(|of| of / sum);
                return Clients { waiting, holding, throughput: pausing / sum / pause };
            }
            let solved = out.try_inverse().expect("every level is left at last");
            let columns = &solved * found;
            above = Some((solved, columns));
        }
        unreachable!("the last level is 0")
    }

    fn normalised(&self, top: DVector<f64>, shares: &[DMatrix<f64>], ratio: DMatrix<f64>) -> Slots {
        let r = self.slots();
        let mut levels = vec![top];
        for share in shares.iter().rev() {
            let next = share.tr_mul(&levels[levels.len() - 1]);
            levels.push(next);
        }
        levels.reverse();
        let ratio = ratio.transpose();
        let size = ratio.nrows();
        let inverse = (DMatrix::identity(size, size) - &ratio).lu();
        // Over the levels n from r on: the sum of pi(n), and that of (n - r) pi(n).
        let at_least_r = inverse.solve(&levels[r]).expect("the spectral radius is below 1");
        let tail = inverse.solve(&(&ratio * &at_least_r)).expect("the same matrix");
        let below: f64 = levels[..r].iter().map(DVector::sum).sum();
        let total = below + at_least_r.sum();
        levels.iter_mut().for_each(|level| *level /= total);
        let partly: f64 =
            levels[..r].iter().enumerate().map(|(n, level)| n as f64 * level.sum()).sum();
        Slots {
            holding: partly + r as f64 * at_least_r.sum() / total,
            waiting: tail.sum() / total,
            levels,
            ratio,
        }
    }

    /// Rates of arrivals from level n to n + 1, up to r.
    fn up(&self, from: &Layer, to: &Layer) -> DMatrix<f64> {
        let mut rates = DMatrix::zeros(from.states.len(), to.states.len());
        for (a, counts) in from.states.iter().enumerate() {
            for (phase, share) in self.demand.start.iter().enumerate() {
                if *share > 0.0 {
                    rates[(a, to.moved(counts, None, Some(phase)))] += self.lambda * share;
                }
            }
        }
        rates
    }

    /// Rates of departures from level n <= r to n - 1, nobody starting.
    fn down(&self, from: &Layer, to: &Layer, n: usize) -> DMatrix<f64> {
        let mut rates = DMatrix::zeros(from.states.len(), to.states.len());
        for (a, counts) in from.states.iter().enumerate() {
            for phase in 0..counts.len() {
                if counts[phase] > 0 {
                    let rate = f64::from(counts[phase]) * self.demand.rate[phase] / self.stretch(n);
                    rates[(a, to.moved(counts, Some(phase), None))] +=
                        rate * self.demand.exit(phase);
                }
            }
        }
        rates
    }

    /// Rates within level n <= r, with the total rate out on the diagonal, negative.
    fn local(&self, layer: &Layer, n: usize) -> DMatrix<f64> {
        let mut rates = DMatrix::zeros(layer.states.len(), layer.states.len());
        for (a, counts) in layer.states.iter().enumerate() {
            rates[(a, a)] -= self.lambda;
            for phase in 0..counts.len() {
                if counts[phase] == 0 {
                    continue;
                }
                let rate = f64::from(counts[phase]) * self.demand.rate[phase] / self.stretch(n);
                rates[(a, a)] -= rate;
                for (next, share) in self.demand.next[phase].iter().enumerate() {
                    if *share > 0.0 {
                        rates[(a, layer.moved(counts, Some(phase), Some(next)))] += rate * share;
                    }
                }
            }
        }
        rates
    }
}

/// R by logarithmic reduction (Latouche and Ramaswami 1993), arrivals leaving the phase alone.
/// It stops when G is stochastic to 1e-13; going on would divide rounding by rounding.
fn rate_matrix(lambda: f64, local: &DMatrix<f64>, down: &DMatrix<f64>) -> DMatrix<f64> {
    let size = local.nrows();
    let identity = DMatrix::<f64>::identity(size, size);
    let out = (-local).lu();
    let mut up = out.solve(&(&identity * lambda)).expect("every state is left at some rate");
    let mut low = out.solve(down).expect("the same matrix");
    let (mut g, mut passed) = (low.clone(), up.clone());
    for _ in 0..60 {
        let least = g.row_iter().map(|row| row.sum()).fold(1.0, f64::min);
        if least > 1.0 - 1e-13 {
            break;
        }
        let both = (&identity - (&up * &low + &low * &up)).lu();
        let (Some(low_next), Some(up_next)) =
            (both.solve(&(&low * &low)), both.solve(&(&up * &up)))
        else {
            break;
        };
        (low, up) = (low_next, up_next);
        g += &passed * &low;
        passed = &passed * &up;
    }
    let visits = -(local + g * lambda);
    visits.lu().solve(&identity).expect("the process drifts down") * lambda
}

/// The row vector x with x M = 0 and sum 1, as a column.
fn null_vector(balance: DMatrix<f64>) -> DVector<f64> {
    let size = balance.nrows();
    // One of the equations follows from the others: the sum takes its place.
    let mut transposed = balance.transpose();
    transposed.row_mut(0).fill(1.0);
    let mut right = DVector::zeros(size);
    right[0] = 1.0;
    transposed.lu().solve(&right).expect("the chain is irreducible")
}
