//! The time that a job of a given demand holds its slot: the job is followed while the others come
//! and go.
//!
//! Measured in the work that the followed job has been given, every other holder is given work at
//! speed one too, so its phases end at their own rates, however many share the server; only the
//! arrivals come faster, n / c(n) times, with n in service at speed c(n). E\[hold | x\] is the sum
//! of n / c(n) over the work x. The chain is followed by uniformisation (Jensen 1953).

use nalgebra::DVector;

use super::poisson::Poisson;
use super::slots::{Drive, Layer, Slots};

/// Queues are followed one by one up to here; beyond in steps that grow by a twentieth.
const FINE: u32 = 64;
/// The share of jobs that may find a longer queue than is followed.
const CUT: f64 = 1e-6;
/// Steps times transitions that are spent at most.
const WORK_MAX: f64 = 2e9;
/// Relative change over half a mean demand at which the stretch has settled: the slowest changes
/// take hundreds of mean demands, so what is left of them is below a thousandth.
const SETTLED: f64 = 2e-6;

/// Mean hold against demand.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// Steps a second of work.
    clock: f64,
    /// Sum of the stretch over the first 0, 1, 2, ... steps.
    sums: Vec<f64>,
}

/// Queue lengths behind the followed job that are told apart.
struct Ladder {
    rungs: Vec<f64>,
}

impl Ladder {
    fn new(longest: f64) -> Ladder {
        let mut rungs: Vec<f64> = (0..=FINE).map(f64::from).collect();
        while rungs[rungs.len() - 1] < longest {
            rungs.push((rungs[rungs.len() - 1] * 1.05).ceil());
        }
        Ladder { rungs }
    }

    /// The rungs next to a length, and the share of the upper one, so that the mean is kept.
    fn place(&self, length: f64) -> (usize, f64) {
        let upper = self.rungs.partition_point(|&rung| rung <= length);
        if upper == self.rungs.len() {
            return (upper - 1, 0.0);
        }
        let (low, high) = (self.rungs[upper - 1], self.rungs[upper]);
        (upper - 1, (length - low) / (high - low))
    }
}

struct Chain {
    /// Index of the first state with so many others in service and nobody waiting.
    first: Vec<usize>,
    layers: Vec<Layer>,
    ladder: Ladder,
    size: usize,
}

impl Chain {
    fn new(drive: &Drive<'_>, longest: f64) -> Chain {
        let r = drive.slots();
        let layers: Vec<Layer> =
            (0..r).map(|others| Layer::new(others as u32, drive.demand.count())).collect();
        let ladder = Ladder::new(longest);
        let mut first = vec![0];
        for layer in &layers {
            first.push(first[first.len() - 1] + layer.states.len());
        }
        let size = first[r - 1] + layers[r - 1].states.len() * ladder.rungs.len();
        Chain { first, layers, ladder, size }
    }

    /// With all slots held, `state` of the others, and the queue on a rung.
    fn full(&self, state: usize, rung: usize) -> usize {
        let others = self.layers.len() - 1;
        self.first[others] + rung * self.layers[others].states.len() + state
    }

    /// Rates from state to state, as (from, to, rate).
    fn rates(&self, drive: &Drive<'_>) -> Vec<(usize, usize, f64)> {
        let mut rates = Vec::new();
        let top = self.layers.len() - 1;
        for others in 0..top {
            for state in 0..self.layers[others].states.len() {
                let from = self.first[others] + state;
                self.arrivals(drive, others, state, from, &mut rates);
                self.ends(drive, others, state, |phase_end| {
                    let (to_others, to, rate) = phase_end;
                    rates.push((from, self.first[to_others] + to, rate));
                });
            }
        }
        let rungs = &self.ladder.rungs;
        for (state, rung) in
            (0..self.layers[top].states.len()).flat_map(|s| (0..rungs.len()).map(move |q| (s, q)))
        {
            let from = self.full(state, rung);
            let lambda = drive.lambda * drive.stretch(top + 1);
            if rung + 1 < rungs.len() {
                // The longer the step, the more seldom it is made: the mean length grows as by ones.
                let gap = rungs[rung + 1] - rungs[rung];
                rates.push((from, self.full(state, rung + 1), lambda / gap));
            }
            self.ends(drive, top, state, |(to_others, to, rate)| {
                if to_others == top {
                    rates.push((from, self.full(to, rung), rate));
                } else if rung == 0 {
                    rates.push((from, self.first[to_others] + to, rate));
                } else {
                    let gap = rungs[rung] - rungs[rung - 1];
                    self.refill(drive, to, |filled, share| {
                        rates.push((from, self.full(filled, rung - 1), rate * share / gap));
                        rates.push((
                            from,
                            self.full(filled, rung),
                            rate * share * (1.0 - 1.0 / gap),
                        ));
                    });
                }
            });
        }
        rates.retain(|&(from, to, rate)| from != to && rate > 0.0);
        rates
    }

    fn arrivals(
        &self,
        drive: &Drive<'_>,
        others: usize,
        state: usize,
        from: usize,
        rates: &mut Vec<(usize, usize, f64)>,
    ) {
        let lambda = drive.lambda * drive.stretch(others + 1);
        let counts = &self.layers[others].states[state];
        for (phase, share) in drive.demand.start.iter().enumerate() {
            let to = self.layers[others + 1].moved(counts, None, Some(phase));
            rates.push((from, self.first[others + 1] + to, lambda * share));
        }
    }

    /// Ends of phases: the number of others afterwards, their state, and the rate.
    fn ends(
        &self,
        drive: &Drive<'_>,
        others: usize,
        state: usize,
        mut each: impl FnMut((usize, usize, f64)),
    ) {
        let counts = &self.layers[others].states[state];
        for phase in 0..counts.len() {
            if counts[phase] == 0 {
                continue;
            }
            let rate = f64::from(counts[phase]) * drive.demand.rate[phase];
            let to = self.layers[others - 1].moved(counts, Some(phase), None);
            each((others - 1, to, rate * drive.demand.exit(phase)));
            for (next, share) in drive.demand.next[phase].iter().enumerate() {
                let to = self.layers[others].moved(counts, Some(phase), Some(next));
                each((others, to, rate * share));
            }
        }
    }

    /// The head of the queue takes the slot that has become free.
    fn refill(&self, drive: &Drive<'_>, state: usize, mut each: impl FnMut(usize, f64)) {
        let top = self.layers.len() - 1;
        let counts = &self.layers[top - 1].states[state];
        for (phase, share) in drive.demand.start.iter().enumerate() {
            each(self.layers[top].moved(counts, None, Some(phase)), *share);
        }
    }

    /// The state that a job finds when it gets its slot: on arrival, if one is free (Poisson
    /// arrivals see time averages), else at a departure, which happens in a state as often as that
    /// state's departure rate says; the queue behind is then one shorter.
    fn start(&self, drive: &Drive<'_>, slots: &Slots) -> DVector<f64> {
        let r = drive.slots();
        let mut found = DVector::zeros(self.size);
        for others in 0..r {
            found
                .rows_mut(self.first[others], self.layers[others].states.len())
                .copy_from(&slots.levels[others]);
        }
        let whole = Layer::new(r as u32, drive.demand.count());
        let mut level = &slots.ratio * &slots.levels[r];
        let mut length = 0.0;
        let longest = self.ladder.rungs[self.ladder.rungs.len() - 1];
        while length <= longest {
            let (rung, above) = self.ladder.place(length);
            for (counts, probability) in whole.states.iter().zip(level.iter()) {
                for phase in (0..counts.len()).filter(|&phase| counts[phase] > 0) {
                    let ending = f64::from(counts[phase])
                        * drive.demand.rate[phase]
                        * drive.demand.exit(phase);
                    let rate = probability * ending / drive.stretch(r) / drive.lambda;
                    let state = self.layers[r - 1].moved(counts, Some(phase), None);
                    found[self.full(state, rung)] += rate * (1.0 - above);
                    if above > 0.0 {
                        found[self.full(state, rung + 1)] += rate * above;
                    }
                }
            }
            level = &slots.ratio * level;
            length += 1.0;
        }
        let sum = found.sum();
        found / sum
    }
}

impl Hold {
    /// For demands up to a horizon \[s\]; beyond it the stretch is taken as at the horizon.
    pub(crate) fn new(drive: &Drive<'_>, slots: &Slots, horizon: f64) -> Hold {
        if drive.slots() == 1 {
            let stretch = drive.stretch(1);
            return Hold { clock: 1.0, sums: vec![0.0, stretch] };
        }
        let chain = Chain::new(drive, slots.longest(CUT));
        let rates = chain.rates(drive);
        let mut out = vec![0.0; chain.size];
        for &(from, _, rate) in &rates {
            out[from] += rate;
        }
        let clock = out.iter().copied().fold(0.0, f64::max);
        let stretches = chain.stretches(drive);
        let moves: Vec<(u32, u32, f64)> =
            rates.iter().map(|&(from, to, rate)| (from as u32, to as u32, rate / clock)).collect();
        let stay: Vec<f64> = out.iter().map(|out| 1.0 - out / clock).collect();
        let mut now = chain.start(drive, slots);
        let mut next = now.clone();
        // More steps than a Poisson number of this mean ever comes to.
        let steps = (clock * horizon + 8.0 * (clock * horizon).sqrt() + 20.0)
            .min(WORK_MAX / moves.len() as f64) as usize;
        let half_a_demand = (0.5 * clock * drive.demand.mean()).ceil() as usize;
        let (mut sums, mut before) = (vec![0.0], f64::INFINITY);
        for step in 0..=steps {
            let stretch = stretches.dot(&now);
            sums.push(sums[step] + stretch);
            if step % half_a_demand == 0 {
                if (stretch - before).abs() < SETTLED * stretch {
                    break;
                }
                before = stretch;
            }
            next.iter_mut().zip(now.iter()).zip(&stay).for_each(|((next, now), stay)| {
                *next = now * stay;
            });
            for &(from, to, share) in &moves {
                next[to as usize] += now[from as usize] * share;
            }
            std::mem::swap(&mut now, &mut next);
        }
        Hold { clock, sums }
    }

    /// E\[hold | x\] \[s\], the sum over steps j of the stretch at j times P(more than j steps in
    /// the work x) / clock.
    pub(crate) fn given(&self, x: f64) -> f64 {
        Poisson::new(self.clock * x).mean_of(|j| self.sum(j)) / self.clock
    }

    /// The stretch summed over the first j steps, continued as it ends.
    fn sum(&self, j: f64) -> f64 {
        let last = self.sums.len() - 1;
        if j <= last as f64 {
            return self.sums[j as usize];
        }
        self.sums[last] + (j - last as f64) * (self.sums[last] - self.sums[last - 1])
    }
}

impl Chain {
    fn stretches(&self, drive: &Drive<'_>) -> DVector<f64> {
        let top = self.layers.len() - 1;
        let mut stretches = DVector::from_element(self.size, drive.stretch(top + 1));
        for others in 0..top {
            let count = self.layers[others].states.len();
            stretches.rows_mut(self.first[others], count).fill(drive.stretch(others + 1));
        }
        stretches
    }
}
