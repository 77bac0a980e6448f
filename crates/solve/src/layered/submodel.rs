//! One layer as a queueing network: chains of customers at the layer's stations, by Linearizer
//! (Chandy and Neuse, CACM 25(2), 1982), with open load beside it, second phases and multi-server
//! stations.
//!
//! The letters are theirs: N customers of a chain, Z its pause, v visits, s service, F(c, k) the
//! share of chain c that is at station k, and D(c, k, j) how F changes with a customer of chain j
//! less.

use std::cell::Cell;
use std::rc::Rc;

use super::LayeredError;
use super::occupancy::Repairman;

/// Chains at the stations of a layer.
#[derive(Clone)]
pub(super) struct Submodel {
    pub(super) chains: Vec<Customers>,
    pub(super) stations: Vec<Queue>,
    /// Steps that were taken, here and in the other networks.
    pub(super) steps: Rc<Cell<f64>>,
}

/// Steps that are taken at most, a few seconds.
pub(super) const STEPS_MAX: f64 = 5e8;

/// A chain, as the layer sees it.
#[derive(Clone, Copy)]
pub(super) struct Customers {
    /// N.
    pub(super) population: u32,
    /// Mean time of a cycle spent elsewhere, Z \[s\].
    pub(super) pause: f64,
}

/// A station of the layer.
#[derive(Clone)]
pub(super) struct Queue {
    pub(super) servers: u32,
    pub(super) is_sharing: bool,
    /// Squared coefficient of variation of the gaps between visits.
    pub(super) gap_scv: f64,
    /// Service with 1, 2, ... servers busy, as multiples of the mean; empty for 1 throughout.
    pub(super) pace: Vec<f64>,
    /// Demand of each chain.
    pub(super) asked: Vec<Asked>,
    /// Open load.
    pub(super) open: Vec<Flow>,
}

/// Open load of one kind.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// Visits [1/s].
    pub(super) rate: f64,
    /// Service of a visit, before and after the reply \[s\].
    pub(super) service: [f64; 2],
    /// Mean square of the service before the reply \[s^2\].
    pub(super) square: f64,
}

/// Demand of a chain at a station in a cycle.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// v.
    pub(super) visits: f64,
    /// Service of a visit, before and after the reply \[s\].
    pub(super) service: [f64; 2],
    /// Mean square of the service before the reply \[s^2\].
    pub(super) square: f64,
}

/// Times that a network found.
#[derive(Clone)]
pub(super) struct Times {
    /// By chain and station: wait of a visit \[s\]; at a sharing station, how much longer its
    /// service takes, as a multiple of it.
    pub(super) wait: Vec<Vec<f64>>,
    /// By station, the same of open load.
    pub(super) open_wait: Vec<f64>,
    /// By chain and station, time of a cycle \[s\].
    pub(super) residence: Vec<Vec<f64>>,
    /// By station, how the busy servers are spread, for multi-server stations.
    pub(super) busy: Vec<Vec<f64>>,
}

const ROUNDS_MAX: usize = 5_000;
const TOLERANCE: f64 = 1e-11;

/// Open load above this share of a station counts as this share until the layers agree, so that a
/// rate that is too high only on the way does not end it.
pub(super) const OPEN_MAX: f64 = 0.995;

/// Mean numbers of customers and throughputs at one population.
struct State {
    /// Population by chain.
    n: Vec<f64>,
    /// F, by chain and station.
    f: Vec<Vec<f64>>,
    /// X, by chain [1/s].
    x: Vec<f64>,
    wait: Vec<Vec<f64>>,
    residence: Vec<Vec<f64>>,
}

impl Submodel {
    /// # Errors
    /// If Linearizer does not settle.
    pub(super) fn solve(&self) -> Result<Times, LayeredError> {
        let chains = self.chains.len();
        let n: Vec<f64> = self.chains.iter().map(|chain| f64::from(chain.population)).collect();
        let none = vec![vec![vec![0.0; self.stations.len()]; chains]; chains];
        let mut d = none;
        let mut full = self.core(n.clone(), self.first_guess(), &d)?;
        for _ in 0..2 {
            for j in 0..chains {
                let mut less = n.clone();
                less[j] -= 1.0;
                let state = self.core(less, full.f.clone(), &d)?;
                for (c, d) in d[j].iter_mut().enumerate().filter(|(c, _)| state.n[*c] > 0.0) {
                    for (d, (less, all)) in d.iter_mut().zip(state.f[c].iter().zip(&full.f[c])) {
                        *d = less - all;
                    }
                }
            }
            full = self.core(n.clone(), full.f, &d)?;
        }
        let open_wait = (0..self.stations.len())
            .map(|k| self.wait(k, &full, &self.queued(k, &full, None, &d), None))
            .collect();
        let busy = (0..self.stations.len()).map(|k| self.busy(k, &full)).collect();
        Ok(Times { wait: full.wait, open_wait, residence: full.residence, busy })
    }

    /// The same with so many customers of a chain that pause for so long \[s\].
    pub(super) fn with_busy(&self, chain: usize, population: u32, pause: f64) -> Submodel {
        let mut given = self.clone();
        given.chains[chain] = Customers { population, pause };
        given
    }

    fn first_guess(&self) -> Vec<Vec<f64>> {
        let guess = |(c, chain): (usize, &Customers)| {
            let time = |queue: &Queue| queue.asked[c].visits * queue.asked[c].service[0];
            let cycle = chain.pause + self.stations.iter().map(time).sum::<f64>();
            let share = |queue: &Queue| if cycle > 0.0 { time(queue) / cycle } else { 0.0 };
            self.stations.iter().map(share).collect()
        };
        self.chains.iter().enumerate().map(guess).collect()
    }

    /// The fixed point at one population.
    fn core(
        &self,
        n: Vec<f64>,
        f: Vec<Vec<f64>>,
        d: &[Vec<Vec<f64>>],
    ) -> Result<State, LayeredError> {
        let stations = self.stations.len();
        let mut state = State {
            x: vec![0.0; n.len()],
            wait: vec![vec![0.0; stations]; n.len()],
            residence: vec![vec![0.0; stations]; n.len()],
            n,
            f,
        };
        let mut change = f64::INFINITY;
        for round in 0..ROUNDS_MAX {
            change = self.step(&mut state, d, if round < 50 { 1.0 } else { 0.5 });
            if self.steps.get() > STEPS_MAX {
                return Err(LayeredError::TooLong { steps: STEPS_MAX });
            }
            if change < TOLERANCE && round > 0 {
                return Ok(state);
            }
        }
        Err(LayeredError::NotConverged { rounds: ROUNDS_MAX, change })
    }

    /// One round of mean value analysis; the largest relative change of a cycle.
    fn step(&self, state: &mut State, d: &[Vec<Vec<f64>>], relax: f64) -> f64 {
        let mut change: f64 = 0.0;
        for c in 0..self.chains.len() {
            if state.n[c] == 0.0 {
                continue;
            }
            for (k, queue) in self.stations.iter().enumerate() {
                let asked = queue.asked[c];
                if asked.visits == 0.0 {
                    continue;
                }
                let queued = self.queued(k, state, Some(c), d);
                self.steps.set(self.steps.get() + 10.0 + queued.len() as f64);
                let wait = self.wait(k, state, &queued, Some(c));
                state.wait[c][k] = wait;
                let service = asked.service[0];
                let visit = if queue.is_sharing { service * (1.0 + wait) } else { service + wait };
                state.residence[c][k] = asked.visits * visit;
            }
            let cycle = self.chains[c].pause + state.residence[c].iter().sum::<f64>();
            let before = state.x[c];
            state.x[c] = if cycle > 0.0 { state.n[c] / cycle } else { 0.0 };
            change = change.max((state.x[c] - before).abs() / state.x[c].max(f64::MIN_POSITIVE));
            if !cycle.is_finite() {
                return f64::INFINITY;
            }
            for k in 0..self.stations.len() {
                let share = state.x[c] * state.residence[c][k] / state.n[c];
                change = change.max((share - state.f[c][k]).abs());
                state.f[c][k] += relax * (share - state.f[c][k]);
            }
        }
        change
    }

    /// Customers at a station as one of chain `of` finds them, by chain.
    fn queued(&self, k: usize, state: &State, of: Option<usize>, d: &[Vec<Vec<f64>>]) -> Vec<f64> {
        let share = |j: usize| {
            let f = state.f[j][k] + of.map_or(0.0, |of| d[of][j][k]);
            present(state, j, of) * f.clamp(0.0, 1.0)
        };
        (0..self.chains.len()).map(share).collect()
    }

    /// Wait of a visit, from what it finds queued; at a sharing station, how much longer its service
    /// takes, as a multiple of it.
    fn wait(&self, k: usize, state: &State, queued: &[f64], of: Option<usize>) -> f64 {
        let queue = &self.stations[k];
        if queue.servers > 1 {
            return self.wait_multi(k, state, of);
        }
        if queue.is_sharing {
            let free = 1.0 - queue.open_share().min(OPEN_MAX);
            return (1.0 + queued.iter().sum::<f64>()) / free - 1.0;
        }
        // The queue itself grows with the waits, so that only what is in service is corrected.
        let more = self.variability(k, state);
        let mut work = 0.0;
        for (j, asked) in queue.asked.iter().enumerate().filter(|(_, asked)| asked.visits > 0.0) {
            let [s1, s2] = asked.service;
            // Visits by others than the one that comes leave second phases behind.
            let rate = state.x[j] * asked.visits * present(state, j, of) / state.n[j].max(1.0);
            work += queued[j] * (s1 + s2) + rate * ((more - 1.0) * s1 * s1 + s2 * s2);
        }
        for &Flow { rate, service: [s1, s2], .. } in &queue.open {
            work += rate * (more * s1 * s1 + s1 * s2 + s2 * s2);
        }
        let overtaken = of.map_or(0.0, |c| {
            let s2 = queue.asked[c].service[1];
            let pause = self.pause(k, state, c);
            if s2 > 0.0 { s2 * s2 / (s2 + pause) } else { 0.0 }
        });
        let found = queue.found_share(self.busy_share(k, state));
        let free = 1.0 - found * queue.open_share().min(OPEN_MAX);
        let wait = (found * work.max(0.0) + overtaken) / free;
        let has_second = queue.asked.iter().any(|asked| asked.service[1] > 0.0);
        if has_second { wait.max(self.wait_full(k, state, of)) } else { wait }
    }

    /// Mean time from a reply to the next visit of the same customer \[s\].
    fn pause(&self, k: usize, state: &State, c: usize) -> f64 {
        let elsewhere: f64 =
            state.residence[c].iter().enumerate().filter(|(at, _)| *at != k).map(|(_, r)| r).sum();
        (self.chains[c].pause + elsewhere) / self.stations[k].asked[c].visits
    }

    fn wait_multi(&self, k: usize, state: &State, of: Option<usize>) -> f64 {
        let queue = &self.stations[k];
        let Some(repairman) = self.repairman(k, state, of) else { return 0.0 };
        let wait = repairman.wait(&repairman.occupancy());
        if queue.is_sharing {
            return wait / repairman.service;
        }
        let more = self.variability(k, state);
        let found = queue.found_share(self.busy_share(k, state));
        let open = queue.open_share().min(OPEN_MAX);
        let found = found * (1.0 - open) / (1.0 - found * open);
        (wait * more * found).max(wait.min(self.wait_full(k, state, of)))
    }

    /// Utilisation of a station.
    fn busy_share(&self, k: usize, state: &State) -> f64 {
        let queue = &self.stations[k];
        let busy = queue
            .asked
            .iter()
            .zip(&state.x)
            .map(|(asked, x)| x * asked.visits * (asked.service[0] + asked.service[1]));
        busy.sum::<f64>() / f64::from(queue.servers) + queue.open_share()
    }

    /// The least wait with which the servers can do what is asked: no approximation of the rest may
    /// hasten anybody beyond that.
    fn wait_full(&self, k: usize, state: &State, of: Option<usize>) -> f64 {
        let gone = if of.is_some() { 1.0 } else { 0.0 };
        let repairman = self.repairman(k, state, of);
        repairman.map_or(0.0, |repairman| repairman.wait_full(repairman.population + gone))
    }

    /// Ratio of waits to those with exponential service.
    fn variability(&self, k: usize, state: &State) -> f64 {
        let queue = &self.stations[k];
        let (mut squares, mut exponential) = (0.0, 0.0);
        let mut add = |rate: f64, [s1, _]: [f64; 2], square: f64| {
            squares += rate * square / 2.0;
            exponential += rate * s1 * s1;
        };
        for (j, asked) in queue.asked.iter().enumerate().filter(|(_, asked)| asked.visits > 0.0) {
            add(state.x[j] * asked.visits, asked.service, asked.square);
        }
        for flow in &queue.open {
            add(flow.rate, flow.service, flow.square);
        }
        if exponential == 0.0 {
            return 1.0;
        }
        // Gaps that vary less leave more of what is left to the service (Kingman 1961: the sum of both
        // squared coefficients of variation counts).
        let scv = 2.0 * squares / exponential - 1.0;
        let ratio = (queue.gap_scv + scv) / (queue.gap_scv + 1.0);
        let Some(repairman) = self.repairman(k, state, None) else { return 1.0 };
        Repairman { population: (repairman.population - 1.0).max(0.0), ..repairman }
            .variability(ratio)
    }

    fn busy(&self, k: usize, state: &State) -> Vec<f64> {
        if self.stations[k].servers == 1 {
            return vec![1.0];
        }
        self.repairman(k, state, None)
            .map_or(Vec::new(), |repairman| repairman.busy_weights(&repairman.occupancy()))
    }

    /// All chains together at one station, seen by one of chain `of`.
    fn repairman(&self, k: usize, state: &State, of: Option<usize>) -> Option<Repairman<'_>> {
        let queue = &self.stations[k];
        let mut busy = 0.0;
        // Of all customers, and of those whom the one that comes may find: at a processor, one that hardly pauses is
        // none of them, and would make all others hasten.
        let (mut all, mut others) = (Pauses::default(), Pauses::default());
        let mut population = 0.0;
        for (j, asked) in queue.asked.iter().enumerate().filter(|(_, asked)| asked.visits > 0.0) {
            let visits = state.x[j] * asked.visits;
            population += present(state, j, of);
            let of_chain = Pauses {
                // Who has the reply while the server goes on counts as still there.
                outside: state.n[j] * (1.0 - state.f[j][k]) - visits * asked.service[1],
                rate: visits,
            };
            all.add(of_chain, 1.0);
            others.add(of_chain, present(state, j, of) / state.n[j].max(1.0));
            busy += visits * (asked.service[0] + asked.service[1]);
        }
        let rate = all.rate;
        let (mut open_rate, mut open_busy) = (0.0, 0.0);
        for &Flow { rate, service: [s1, s2], .. } in &queue.open {
            open_rate += rate;
            open_busy += rate * (s1 + s2);
        }
        if rate + open_rate == 0.0 || busy + open_busy == 0.0 {
            return None;
        }
        let cut = OPEN_MAX / queue.open_share_full().max(OPEN_MAX);
        let service = (busy + open_busy) / (rate + open_rate);
        // Before slots, of which each is held for longer when more are, the mean of all was nearer: with that of the
        // others alone, the slots of a nested gate did more than they can.
        let found = if queue.pace.is_empty() { others } else { all };
        let pause = if found.rate > 0.0 { found.outside / found.rate } else { 1.0 };
        let pause = pause.max(1e-9 * service);
        let round = if rate > 0.0 { (all.outside + busy) / rate } else { 0.0 };
        Some(Repairman {
            population: if rate > 0.0 { population } else { 0.0 },
            pause,
            round,
            open_rate: cut * open_rate,
            service,
            servers: queue.servers,
            pace: &queue.pace,
            steps: &self.steps,
        })
    }
}

/// Pauses of customers between their visits of a station.
#[derive(Clone, Copy, Default)]
struct Pauses {
    /// Mean number of those who pause.
    outside: f64,
    /// Visits [1/s].
    rate: f64,
}

impl Pauses {
    fn add(&mut self, other: Pauses, share: f64) {
        self.outside += share * other.outside;
        self.rate += share * other.rate;
    }
}

/// Customers of chain j, without the one of chain `of` that comes.
fn present(state: &State, j: usize, of: Option<usize>) -> f64 {
    (state.n[j] - if of == Some(j) { 1.0 } else { 0.0 }).max(0.0)
}

impl Queue {
    /// Utilisation by open load alone.
    pub(super) fn open_share(&self) -> f64 {
        let busy = self.open.iter().map(|flow| flow.rate * (flow.service[0] + flow.service[1]));
        busy.sum::<f64>() / f64::from(self.servers)
    }

    /// Utilisation by open load alone where all servers are busy, which slows their service down by
    /// their pace: from 1 on there is no steady state.
    pub(super) fn open_share_full(&self) -> f64 {
        self.open_share() * self.pace.last().copied().unwrap_or(1.0)
    }

    /// Share of the mean number of jobs that an arrival finds: 1 for Poisson arrivals. With gaps of
    /// gamma distribution it finds a server of utilisation rho busy with probability sigma = A*(mu
    /// (1 - sigma)), as in GI/M/1 (Kendall 1953).
    fn found_share(&self, rho: f64) -> f64 {
        if self.gap_scv == 1.0 || rho <= 0.0 || rho >= 1.0 {
            return 1.0;
        }
        let scv = self.gap_scv.max(1e-6);
        let transform = |sigma: f64| (1.0 + scv * (1.0 - sigma) / rho).powf(-1.0 / scv);
        // The transform is above the diagonal up to sigma, then below it until 1.
        let (mut low, mut high) = (0.0_f64, 1.0 - f64::EPSILON);
        while high - low > 1e-12 {
            let sigma = 0.5 * (low + high);
            if transform(sigma) > sigma { low = sigma } else { high = sigma }
        }
        low / rho
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Submodel};

    #[test]
    fn arrivals_that_take_turns_find_less() {
        let turns = |gap_scv| {
            let (pace, asked, open) = (Vec::new(), Vec::new(), Vec::new());
            Queue { servers: 1, is_sharing: false, gap_scv, pace, asked, open }
        };
        // E_4/M/1 at rho = 0.5: sigma = (2 / (3 - sigma))^4, which is 0.3019.
        let sigma = 0.5 * turns(0.25).found_share(0.5);
        assert!((sigma - (2.0 / (3.0 - sigma)).powi(4)).abs() < 1e-10, "{sigma}");
        assert!((0.29..0.31).contains(&sigma), "{sigma}");
        assert!((turns(1.0).found_share(0.5) - 1.0).abs() < 1e-12);
        assert!(turns(0.25).found_share(0.999) > 0.99);
        // Nobody there is nobody who waits.
        let empty = Submodel {
            chains: Vec::new(),
            stations: vec![turns(1.0)],
            steps: std::rc::Rc::default(),
        };
        assert_eq!(empty.solve().unwrap().open_wait, [0.0]);
    }
}
