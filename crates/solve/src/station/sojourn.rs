//! A job followed from arrival to departure through limited processor sharing: the chain whose
//! absorption time is the response time.

use super::phases::PhaseType;
use super::poisson::{Poisson, crossing};
use super::slots::{Drive, Layer, Slots};
use crate::error::quantile;
use crate::{Exactness, SolveError};

/// Share of jobs that are still there when the chain is no longer followed.
const LEFT: f64 = 1e-5;

/// The distribution of a response time.
#[derive(Clone, Debug)]
pub(crate) struct Sojourn {
    /// Steps a second.
    clock: f64,
    /// Share of jobs still there after 0, 1, 2, ... steps.
    left: Vec<f64>,
}

/// The states: first those in which the followed job waits, (jobs ahead, holders, jobs behind), then
/// those in which it holds a slot, (own phase, the other holders, jobs behind).
struct Chain {
    layers: Vec<Layer>,
    ahead_max: usize,
    behind_max: usize,
    phases: usize,
    /// Index of the first state of each number of others, of the first own phase.
    first: Vec<usize>,
    /// States of one own phase.
    own_size: usize,
}

impl Chain {
    fn new(drive: &Drive<'_>, longest: usize) -> Chain {
        let r = drive.slots();
        let phases = drive.demand.count();
        let layers: Vec<Layer> = (0..=r).map(|n| Layer::new(n as u32, phases)).collect();
        let (ahead_max, behind_max) = (longest, longest);
        let waiting = (ahead_max + 1) * (behind_max + 1) * layers[r].states.len();
        let mut first = vec![waiting];
        for layer in &layers[..r - 1] {
            first.push(first[first.len() - 1] + layer.states.len());
        }
        let own_size = first[r - 1] - waiting + layers[r - 1].states.len() * (behind_max + 1);
        Chain { layers, ahead_max, behind_max, phases, first, own_size }
    }

    fn size(&self) -> usize {
        self.first[0] + self.phases * self.own_size
    }

    fn waiting(&self, ahead: usize, state: usize, behind: usize) -> usize {
        let holders = self.layers[self.layers.len() - 1].states.len();
        (ahead * (self.behind_max + 1) + behind) * holders + state
    }

    fn holding(&self, own: usize, others: usize, state: usize, behind: usize) -> usize {
        let within = behind * self.layers[others].states.len() + state;
        self.first[others] + own * self.own_size + within
    }

    fn start(&self, drive: &Drive<'_>, slots: &Slots) -> Vec<f64> {
        let r = drive.slots();
        let mut now = vec![0.0; self.size()];
        for others in 0..r {
            for (state, probability) in slots.levels[others].iter().enumerate() {
                for (own, share) in drive.demand.start.iter().enumerate() {
                    now[self.holding(own, others, state, 0)] += probability * share;
                }
            }
        }
        let mut level = slots.levels[r].clone();
        for ahead in 0..=self.ahead_max {
            for (state, probability) in level.iter().enumerate() {
                now[self.waiting(ahead, state, 0)] += probability;
            }
            level = &slots.ratio * level;
        }
        let sum: f64 = now.iter().sum();
        now.iter_mut().for_each(|value| *value /= sum);
        now
    }

    /// Rates from state to state; who leaves the chain departs. The second answer is the total rate
    /// out of each state.
    fn rates(&self, drive: &Drive<'_>) -> (Vec<(u32, u32, f64)>, Vec<f64>) {
        let mut rates = Vec::new();
        let mut out = vec![0.0; self.size()];
        let mut add = |from: usize, to: Option<usize>, rate: f64| {
            if rate > 0.0 && to != Some(from) {
                out[from] += rate;
                if let Some(to) = to {
                    rates.push((from as u32, to as u32, rate));
                }
            }
        };
        self.waiting_rates(drive, &mut add);
        self.holding_rates(drive, &mut add);
        (rates, out)
    }

    fn waiting_rates(&self, drive: &Drive<'_>, add: &mut impl FnMut(usize, Option<usize>, f64)) {
        let r = drive.slots();
        for (state, counts) in self.layers[r].states.iter().enumerate() {
            let ends = ends(drive, &self.layers, r, counts, drive.stretch(r));
            for (ahead, behind) in pairs(self.ahead_max, self.behind_max) {
                let from = self.waiting(ahead, state, behind);
                if behind < self.behind_max {
                    add(from, Some(self.waiting(ahead, state, behind + 1)), drive.lambda);
                }
                for &(others, to, rate) in &ends {
                    if others == r {
                        add(from, Some(self.waiting(ahead, to, behind)), rate);
                        continue;
                    }
                    for (phase, share) in drive.demand.start.iter().enumerate() {
                        let target = if ahead == 0 {
                            self.holding(phase, r - 1, to, behind)
                        } else {
                            let left = &self.layers[r - 1].states[to];
                            let filled = self.layers[r].moved(left, None, Some(phase));
                            self.waiting(ahead - 1, filled, behind)
                        };
                        add(from, Some(target), rate * share);
                    }
                }
            }
        }
    }

    fn holding_rates(&self, drive: &Drive<'_>, add: &mut impl FnMut(usize, Option<usize>, f64)) {
        let r = drive.slots();
        for others in 0..r {
            let stretch = drive.stretch(others + 1);
            let behind_max = if others == r - 1 { self.behind_max } else { 0 };
            for (state, counts) in self.layers[others].states.iter().enumerate() {
                let ends = ends(drive, &self.layers, others, counts, stretch);
                for (own, behind) in pairs(self.phases - 1, behind_max) {
                    let from = self.holding(own, others, state, behind);
                    let rate = drive.demand.rate[own] / stretch;
                    add(from, None, rate * drive.demand.exit(own));
                    for (next, share) in drive.demand.next[own].iter().enumerate() {
                        add(from, Some(self.holding(next, others, state, behind)), rate * share);
                    }
                    self.holding_arrival(drive, (own, others, state, behind), add);
                    for &(left, to, rate) in &ends {
                        if left == others {
                            add(from, Some(self.holding(own, others, to, behind)), rate);
                        } else if behind == 0 {
                            add(from, Some(self.holding(own, left, to, 0)), rate);
                        } else {
                            let counts = &self.layers[left].states[to];
                            for (phase, share) in drive.demand.start.iter().enumerate() {
                                let filled = self.layers[others].moved(counts, None, Some(phase));
                                let to = self.holding(own, others, filled, behind - 1);
                                add(from, Some(to), rate * share);
                            }
                        }
                    }
                }
            }
        }
    }

    fn holding_arrival(
        &self,
        drive: &Drive<'_>,
        (own, others, state, behind): (usize, usize, usize, usize),
        add: &mut impl FnMut(usize, Option<usize>, f64),
    ) {
        let from = self.holding(own, others, state, behind);
        if others + 1 == drive.slots() {
            if behind < self.behind_max {
                add(from, Some(self.holding(own, others, state, behind + 1)), drive.lambda);
            }
            return;
        }
        let counts = &self.layers[others].states[state];
        for (phase, share) in drive.demand.start.iter().enumerate() {
            let to = self.layers[others + 1].moved(counts, None, Some(phase));
            add(from, Some(self.holding(own, others + 1, to, 0)), drive.lambda * share);
        }
    }
}

fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=a).flat_map(move |i| (0..=b).map(move |j| (i, j)))
}

/// Ends of phases among so many jobs: how many are left, in which state, and the rate.
fn ends(
    drive: &Drive<'_>,
    layers: &[Layer],
    jobs: usize,
    counts: &[u32],
    stretch: f64,
) -> Vec<(usize, usize, f64)> {
    let mut ends = Vec::new();
    let counts = counts.to_vec();
    for phase in (0..counts.len()).filter(|&phase| counts[phase] > 0) {
        let rate = f64::from(counts[phase]) * drive.demand.rate[phase] / stretch;
        let to = layers[jobs - 1].moved(&counts, Some(phase), None);
        ends.push((jobs - 1, to, rate * drive.demand.exit(phase)));
        for (next, share) in drive.demand.next[phase].iter().enumerate() {
            if *share > 0.0 {
                ends.push((
                    jobs,
                    layers[jobs].moved(&counts, Some(phase), Some(next)),
                    rate * share,
                ));
            }
        }
    }
    ends
}

impl Sojourn {
    /// Share of jobs that find or leave a longer queue than is followed.
    pub(crate) const CUT: f64 = 1e-7;

    /// Transitions times steps that are spent at most, unless less is asked for: some seconds.
    pub(crate) const WORK_MAX: f64 = 4e9;

    /// # Errors
    /// If the chain would take more than so many transitions times steps.
    pub(crate) fn new(
        place: &'static str,
        lambda: f64,
        demand: &PhaseType,
        speeds: &[f64],
        work_max: f64,
    ) -> Result<Sojourn, SolveError> {
        let drive = Drive { lambda, demand, speeds };
        let too_large = SolveError::NoDistribution {
            place,
            demand: "variable or nearly saturating",
            way_out: "lower the load, take fewer slots or phases, or simulate",
        };
        let slots = drive.solve();
        let longest = slots.longest(Sojourn::CUT);
        let holders = slots.levels[speeds.len()].len() as f64;
        if holders * (longest + 1.0) * (longest + 1.0) > 1e6 {
            return Err(too_large);
        }
        let chain = Chain::new(&drive, longest as usize);
        let (rates, out) = chain.rates(&drive);
        let clock = out.iter().copied().fold(0.0, f64::max);
        let mut now = chain.start(&drive, &slots);
        let mut left = vec![1.0];
        let stay: Vec<f64> = out.iter().map(|out| 1.0 - out / clock).collect();
        let mut next = now.clone();
        while left[left.len() - 1] > LEFT {
            if left.len() as f64 * rates.len() as f64 > work_max {
                return Err(too_large);
            }
            next.iter_mut().zip(&now).zip(&stay).for_each(|((next, now), stay)| *next = now * stay);
            for &(from, to, rate) in &rates {
                next[to as usize] += now[from as usize] * (rate / clock);
            }
            std::mem::swap(&mut now, &mut next);
            left.push(now.iter().sum());
        }
        Ok(Sojourn { clock, left })
    }

    pub(crate) fn tail(&self, t: f64) -> f64 {
        let last = self.left.len() - 1;
        // Beyond the last step the shares go on falling as they fell at last.
        let factor = self.left[last] / self.left[last - 1];
        let share = |j: f64| {
            if j <= last as f64 {
                self.left[j as usize]
            } else {
                self.left[last] * factor.powf(j - last as f64)
            }
        };
        Poisson::new(self.clock * t).mean_of(share)
    }

    pub(crate) fn quantile(&self, q: f64) -> Result<(f64, Exactness), SolveError> {
        let left = 1.0 - quantile(q)?;
        if q > 0.9999 {
            return Err(SolveError::QuantileTooHigh { value: q, most: 0.9999 });
        }
        let exactness = Exactness::Approximate { source: "chain cut at 1e-7", error: 0.001 };
        Ok((crossing(1.0 / self.clock, left, |t| self.tail(t)), exactness))
    }
}
