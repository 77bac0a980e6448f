//! Approximate mean value analysis: the queue that an arriving job finds is estimated from the
//! queues at the whole population, and the equations are solved as a fixed point.
//!
//! The three algorithms differ only in the estimate. With F_ck = Q_ck / N_c, the customers' share at
//! a station, and T_k = Q_k, each is of the form
//!
//! ```text
//!   A_ck = alpha T_k - beta F_ck + E_ck
//!   Bard-Schweitzer   alpha = 1,             beta = 1, E = 0
//!   Linearizer        alpha = 1,             beta = 1, E from Delta_jk(c) = F_jk(N - 1_c) - F_jk(N)
//!   AQL               alpha = (|n|-1) / |n|, beta = 0, E = (|n|-1) gamma_k(c)
//! ```
//!
//! so one iteration costs C K, whatever the algorithm.

use super::answer::Flows;
use super::curve::{Curve, Segment};
use super::model::{BYTES_MAX, Model, Order};
use super::{Algorithm, Preemption};
use crate::{Exactness, SolveError};

/// The iteration has settled when no share moves by more than this.
const TOLERANCE: f64 = 1e-9;
const ITERATIONS_MAX: u32 = 20_000;
/// Numbers of Linearizer that are paid for without being asked: 100 classes and 2000 stations.
const NUMBERS_AFFORDABLE: f64 = 2e7;
/// Numbers that are worked on at once.
const LANES: usize = 8;
/// Every so many rounds the shares leap to where their moves lead.
const ROUNDS_A_LEAP: u32 = 5;
/// Passes of Linearizer and AQL over all populations with one customer less.
const PASSES: usize = 3;
/// Rounds in which stations that are more than full are corrected.
const CORRECTIONS_MAX: u32 = 10_000;
/// The share of a server that is always left to the less urgent, so that they have a residence.
const LEFT_OVER: f64 = 1e-9;

pub(super) fn bard_schweitzer(model: &Model) -> Result<Flows, SolveError> {
    let core = Core::new(model, Algorithm::BardSchweitzer);
    let mut state = core.start();
    core.iterate(&core.whole(), Estimate { alpha: 1.0, beta: 1.0, extra: None }, &mut state)?;
    Ok(core.flows(&mut state))
}

/// True if Linearizer answers within seconds: it solves C + 1 populations of C K equations.
pub(super) fn linearizer_is_affordable(model: &Model) -> bool {
    linearizer_numbers(model) <= NUMBERS_AFFORDABLE
}

/// C^2 K, which are its numbers in memory and its work of one round.
fn linearizer_numbers(model: &Model) -> f64 {
    let classes = model.closed.len() as f64;
    classes * classes * model.stations.len() as f64
}

pub(super) fn linearizer(model: &Model) -> Result<Flows, SolveError> {
    if linearizer_numbers(model) * 8.0 > BYTES_MAX {
        let (classes, stations) = (model.closed.len(), model.stations.len());
        return Err(SolveError::TooManyClasses { classes, stations });
    }
    let core = Core::new(model, Algorithm::Linearizer);
    let (c, k) = (core.classes, core.stations);
    let whole = core.whole();
    let mut state = core.start();
    // Delta_jk(c), in [c][j][k]; and its sum over j, weighted with N_j, in [c][k].
    let mut delta = vec![0.0; c * c * k];
    let mut sums = vec![0.0; c * k];
    let mut extra = vec![0.0; c * k];
    for pass in 0..PASSES {
        for class in 0..c {
            for at in 0..k {
                extra[class * k + at] = sums[class * k + at] - delta[(class * c + class) * k + at];
            }
        }
        let estimate = Estimate { alpha: 1.0, beta: 1.0, extra: Some(&extra) };
        core.iterate(&whole, estimate, &mut state)?;
        if pass + 1 == PASSES {
            break;
        }
        let mut next = vec![0.0; c * c * k];
        for less in 0..c {
            for class in 0..c {
                let own = &delta[(class * c + class) * k..][..k];
                let gone = &delta[(class * c + less) * k..][..k];
                let rows = extra[class * k..][..k].iter_mut().zip(&sums[class * k..][..k]);
                for (((extra, sum), own), gone) in rows.zip(own).zip(gone) {
                    *extra = sum - gone - own;
                }
            }
            let mut fewer = state.clone();
            for (share, moved) in fewer.share.iter_mut().zip(&delta[less * c * k..][..c * k]) {
                *share = (*share + moved).max(0.0);
            }
            let estimate = Estimate { alpha: 1.0, beta: 1.0, extra: Some(&extra) };
            core.iterate(&core.less_one(less), estimate, &mut fewer)?;
            let row = next[less * c * k..][..c * k].iter_mut();
            for ((next, fewer), whole) in row.zip(&fewer.share).zip(&state.share) {
                *next = fewer - whole;
            }
        }
        delta = next;
        for class in 0..c {
            let sums = &mut sums[class * k..][..k];
            sums.fill(0.0);
            for j in 0..c {
                let n = f64::from(model.population[j]);
                for (sum, delta) in sums.iter_mut().zip(&delta[(class * c + j) * k..][..k]) {
                    *sum += n * delta;
                }
            }
        }
    }
    Ok(core.flows(&mut state))
}

pub(super) fn aql(model: &Model) -> Result<Flows, SolveError> {
    let core = Core::new(model, Algorithm::Aql);
    let (c, k) = (core.classes, core.stations);
    let whole = core.whole();
    let all: f64 = whole.iter().sum();
    let mut state = core.start();
    let mut gamma = vec![0.0; c * k];
    for pass in 0..PASSES {
        let estimate = |all: f64, extra: &mut Vec<f64>, gamma: &[f64]| {
            extra.clear();
            extra.extend(gamma.iter().map(|gamma| (all - 1.0) * gamma));
            (all - 1.0) / all
        };
        let mut extra = Vec::with_capacity(c * k);
        let alpha = estimate(all, &mut extra, &gamma);
        core.iterate(&whole, Estimate { alpha, beta: 0.0, extra: Some(&extra) }, &mut state)?;
        // Without the only customer there is nobody left whose share could be told.
        if pass + 1 == PASSES || all < 2.0 {
            break;
        }
        let alpha = estimate(all - 1.0, &mut extra, &gamma);
        let mut next = vec![0.0; c * k];
        let totals = core.totals(&whole, &state.share);
        for less in 0..c {
            let population = core.less_one(less);
            let mut fewer = state.clone();
            let given = Estimate { alpha, beta: 0.0, extra: Some(&extra) };
            core.iterate(&population, given, &mut fewer)?;
            let found = core.totals(&population, &fewer.share);
            for (at, next) in next[less * k..][..k].iter_mut().enumerate() {
                *next = found[at] / (all - 1.0) - totals[at] / all;
            }
        }
        gamma = next;
    }
    Ok(core.flows(&mut state))
}

/// Estimate of the queue found.
#[derive(Clone, Copy)]
struct Estimate<'a> {
    alpha: f64,
    beta: f64,
    /// E_ck, in [c][k].
    extra: Option<&'a [f64]>,
}

/// State of the iteration.
#[derive(Clone)]
struct State {
    /// F_ck, in [c][k], closed classes.
    share: Vec<f64>,
    /// R_ck, in [c][k], closed classes.
    residence: Vec<f64>,
    /// X_c, closed classes.
    throughput: Vec<f64>,
}

struct Core<'a> {
    model: &'a Model,
    algorithm: Algorithm,
    classes: usize,
    stations: usize,
    /// D_ck, in [c][k]; over a - rho at stations of one speed, and zero at delays, whose time is part
    /// of the pause.
    demand: Vec<f64>,
    /// Stations of several speeds.
    curves: Vec<Speeds>,
    /// Stations without product form, with the curve if there is one.
    special: Vec<Speeds>,
}

/// Speeds of a station, as those who come find them.
struct Speeds {
    station: usize,
    /// For a job of a closed class, which does not find itself.
    closed: Curve,
    /// For a job of an open class.
    open: Option<Curve>,
}

impl<'a> Core<'a> {
    fn new(model: &'a Model, algorithm: Algorithm) -> Core<'a> {
        let (classes, stations) = (model.closed.len(), model.stations.len());
        let mut demand = Vec::with_capacity(classes * stations);
        for &class in &model.closed {
            demand.extend(model.stations.iter().map(|spot| match spot.rates.len() {
                0 => 0.0,
                1 => spot.demand[class] / (spot.rates[0] - spot.open_load),
                _ => spot.demand[class],
            }));
        }
        let others = model.customers().saturating_sub(1);
        let mut curves = Vec::new();
        let mut special = Vec::new();
        for (k, spot) in model.stations.iter().enumerate() {
            let curve = || Speeds {
                station: k,
                closed: Curve::new(spot, others),
                open: (spot.open_load > 0.0).then(|| Curve::new(spot, others + 1)),
            };
            match spot.order {
                Order::Product if spot.rates.len() > 1 => curves.push(curve()),
                Order::Product => {}
                Order::FifoByClass | Order::Ranked { .. } => special.push(curve()),
            }
        }
        Core { model, algorithm, classes, stations, demand, curves, special }
    }

    fn whole(&self) -> Vec<f64> {
        self.model.population.iter().map(|&n| f64::from(n)).collect()
    }

    fn less_one(&self, class: usize) -> Vec<f64> {
        let mut population = self.whole();
        population[class] -= 1.0;
        population
    }

    /// Everybody spread evenly over the stations that the class visits.
    fn start(&self) -> State {
        let k = self.stations;
        let mut share = vec![0.0; self.classes * k];
        for (c, share) in share.chunks_exact_mut(k.max(1)).enumerate().take(self.classes) {
            let demand = &self.demand[c * k..][..k];
            let visited = demand.iter().filter(|demand| **demand > 0.0).count() as f64;
            for (share, demand) in share.iter_mut().zip(demand) {
                *share = if *demand > 0.0 { 1.0 / (visited + 1.0) } else { 0.0 };
            }
        }
        State { residence: self.demand.clone(), throughput: vec![0.0; self.classes], share }
    }

    /// T_k, the queues of all closed classes.
    fn totals(&self, population: &[f64], share: &[f64]) -> Vec<f64> {
        let mut totals = vec![0.0; self.stations];
        for (n, share) in population.iter().zip(share.chunks_exact(self.stations.max(1))) {
            for (total, share) in totals.iter_mut().zip(share) {
                *total += n * share;
            }
        }
        totals
    }

    /// Solves the equations at a population, from where the state is.
    fn iterate(
        &self,
        population: &[f64],
        estimate: Estimate,
        state: &mut State,
    ) -> Result<(), SolveError> {
        let mut totals = self.totals(population, &state.share);
        let (mut step, mut moved_before) = (1.0, f64::INFINITY);
        let mut before = Vec::new();
        let mut last_move = Vec::new();
        for round in 1..=ITERATIONS_MAX {
            let watched = round % ROUNDS_A_LEAP;
            if watched == 0 || watched == ROUNDS_A_LEAP - 1 {
                before.clone_from(&state.share);
            }
            let moved = self.round(population, estimate, state, &mut totals, step);
            if moved <= TOLERANCE {
                return Ok(());
            }
            if watched == ROUNDS_A_LEAP - 1 {
                last_move.clear();
                last_move.extend(state.share.iter().zip(&before).map(|(now, old)| now - old));
            } else if watched == 0 && moved < moved_before {
                leap(&mut state.share, &before, &last_move);
                totals = self.totals(population, &state.share);
            }
            // Steps that do not shrink go back and forth: smaller ones meet in the middle.
            if round > 100 && watched > 1 && moved > 0.999 * moved_before {
                step = f64::max(0.9 * step, 0.05);
            }
            moved_before = moved;
        }
        Err(SolveError::NoConvergence {
            algorithm: self.algorithm.name(),
            iterations: ITERATIONS_MAX,
        })
    }

    /// One step of all classes, one after the other, each with the queues that those before it
    /// left; gives how far the shares moved.
    fn round(
        &self,
        population: &[f64],
        estimate: Estimate,
        state: &mut State,
        totals: &mut [f64],
        step: f64,
    ) -> f64 {
        let k = self.stations;
        let segments: Vec<Segment> = self
            .curves
            .iter()
            .map(|speeds| speeds.closed.segment(totals[speeds.station]))
            .collect();
        let Estimate { alpha, beta, extra } = estimate;
        let mut moved = 0.0_f64;
        for c in 0..self.classes {
            let extra = extra.map(|extra| &extra[c * k..][..k]);
            let share = &state.share[c * k..][..k];
            let demand = &self.demand[c * k..][..k];
            let residence = &mut state.residence[c * k..][..k];
            let rows = residence.iter_mut().zip(demand).zip(&*totals).zip(share);
            match extra {
                Some(extra) => {
                    for ((((r, d), total), share), extra) in rows.zip(extra) {
                        *r = d * (1.0 + at_least_zero(alpha * total - beta * share + extra));
                    }
                }
                None => {
                    for (((r, d), total), share) in rows {
                        *r = d * (1.0 + at_least_zero(alpha * total - beta * share));
                    }
                }
            }
            let found = |at: usize, share: f64| {
                let extra = extra.map_or(0.0, |extra| extra[at]);
                f64::max(alpha * totals[at] - beta * share + extra, 0.0)
            };
            let class = self.model.closed[c];
            for (speeds, segment) in self.curves.iter().zip(&segments) {
                let at = speeds.station;
                let found = found(at, share[at]);
                let factor = segment.at(found).unwrap_or_else(|| speeds.closed.at(found));
                residence[at] = demand[at] * factor;
            }
            for Speeds { station: at, closed: curve, .. } in &self.special {
                let found = found(*at, state.share[c * k + at]);
                let present = self.present(population, state, *at, Some(c));
                let queue = Queue::new(self.model, *at, curve);
                state.residence[c * k + at] = queue.residence(class, &present, found);
            }
            moved = moved.max(self.close(c, population[c], state, totals, step));
        }
        moved
    }

    /// New throughput and shares of a class from its residences; gives how far the shares would
    /// move in a whole step.
    fn close(&self, c: usize, n: f64, state: &mut State, totals: &mut [f64], step: f64) -> f64 {
        let k = self.stations;
        let residence = &state.residence[c * k..][..k];
        let cycle = self.model.pause[c] + sum(residence);
        state.throughput[c] = n / cycle;
        let per_cycle = 1.0 / cycle;
        let share = &mut state.share[c * k..][..k];
        let mut moved = [0.0_f64; LANES];
        let lanes = share.chunks_mut(LANES).zip(residence.chunks(LANES));
        for ((share, residence), totals) in lanes.zip(totals.chunks_mut(LANES)) {
            let rows = share.iter_mut().zip(residence).zip(totals).zip(&mut moved);
            for (((share, r), total), moved) in rows {
                let by = r * per_cycle - *share;
                *share += step * by;
                *total += n * step * by;
                *moved = if by.abs() > *moved { by.abs() } else { *moved };
            }
        }
        moved.into_iter().fold(0.0, f64::max)
    }

    /// The closed jobs at a station and what they ask of it, as a class that is not counted finds
    /// them: by class of the network, the mean number and the throughput.
    fn present(
        &self,
        population: &[f64],
        state: &State,
        station: usize,
        arriving: Option<usize>,
    ) -> Vec<(f64, f64)> {
        let mut present = vec![(0.0, 0.0); self.model.classes];
        for (c, &class) in self.model.closed.iter().enumerate() {
            let n = population[c];
            let others = if arriving == Some(c) { (n - 1.0).max(0.0) } else { n };
            let jobs = others * state.share[c * self.stations + station];
            let x = if n > 0.0 { state.throughput[c] * others / n } else { 0.0 };
            present[class] = (jobs, x);
        }
        present
    }

    /// An estimate that is too low for a station that is nearly full may send more through it than
    /// it can do, by some ten thousandths. Residences there are stretched until it cannot.
    fn hold_capacities(&self, state: &mut State) {
        let k = self.stations;
        let population = self.whole();
        for _ in 0..CORRECTIONS_MAX {
            let mut is_within = true;
            for (at, spot) in self.model.stations.iter().enumerate() {
                let used = |(c, &class): (usize, &usize)| {
                    state.throughput[c] * spot.demand[class] / (spot.peak - spot.open_load)
                };
                let full: f64 = self.model.closed.iter().enumerate().map(used).sum();
                if spot.is_delay() || full <= 1.0 {
                    continue;
                }
                is_within = false;
                for c in 0..self.classes {
                    state.residence[c * k + at] *= full * full * (1.0 + 1e-12);
                }
            }
            if is_within {
                return;
            }
            let mut totals = self.totals(&population, &state.share);
            for (c, &n) in population.iter().enumerate() {
                self.close(c, n, state, &mut totals, 1.0);
            }
        }
    }

    fn flows(&'a self, state: &mut State) -> Flows {
        self.hold_capacities(state);
        let mut flows = Flows::zero(self.model);
        let k = self.stations;
        for (c, &x) in state.throughput.iter().enumerate() {
            flows.set_closed(self.model, c, x, |at| state.residence[c * k + at]);
        }
        if self.model.open.is_empty() {
            return flows;
        }
        let whole = self.whole();
        let totals = self.totals(&whole, &state.share);
        flows.set_open(self.model, |at, class| {
            let spot = &self.model.stations[at];
            let of = |list: &'a [Speeds]| -> Option<&'a Curve> {
                list.iter().find(|speeds| speeds.station == at)?.open.as_ref()
            };
            if let Some(curve) = of(&self.special) {
                let present = self.present(&whole, state, at, None);
                return Queue::new(self.model, at, curve).residence(class, &present, totals[at]);
            }
            match of(&self.curves) {
                Some(curve) => spot.demand[class] * curve.at(totals[at]),
                None => {
                    spot.demand[class] * (1.0 + totals[at]) / (spot.rate_last() - spot.open_load)
                }
            }
        });
        flows
    }
}

/// A sum in several lanes at once, which one after the other would wait for each addition.
fn sum(list: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in list.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

/// As `f64::max` with zero, but for what it does with numbers that are none.
fn at_least_zero(value: f64) -> f64 {
    if value > 0.0 { value } else { 0.0 }
}

/// Moves that shrink by one factor in each round lead to a point that can be told from two of them
/// (Aitken): where the slowest mode of the iteration would arrive.
fn leap(share: &mut [f64], before: &[f64], last_move: &[f64]) {
    let (mut along, mut square) = (0.0, 0.0);
    for ((now, old), last) in share.iter().zip(before).zip(last_move) {
        along += (now - old) * last;
        square += last * last;
    }
    let shrinks = along / square;
    if !(shrinks > 0.0 && shrinks < 0.999) {
        return;
    }
    let far = shrinks / (1.0 - shrinks);
    for (now, old) in share.iter_mut().zip(before) {
        *now = f64::max(*now + far * (*now - old), 0.0);
    }
}

/// A station without product form, where it matters who is found.
struct Queue<'a> {
    model: &'a Model,
    station: usize,
    curve: &'a Curve,
}

impl<'a> Queue<'a> {
    fn new(model: &'a Model, station: usize, curve: &'a Curve) -> Queue<'a> {
        Queue { model, station, curve }
    }

    /// R of a class that finds `present` there, with `found` closed jobs in all.
    fn residence(&self, class: usize, present: &[(f64, f64)], found: f64) -> f64 {
        let spot = &self.model.stations[self.station];
        let (visits, service) = (spot.visits[class], spot.service[class]);
        if visits * service == 0.0 {
            return 0.0;
        }
        match &spot.order {
            Order::Product => unreachable!("stations of product form are not special"),
            Order::FifoByClass => visits * (service + self.fifo_wait(present, found)),
            Order::Ranked { preemption, ranks } => {
                visits * self.ranked_response(class, present, *preemption, ranks)
            }
        }
    }

    /// Reiser 1979: every job found is waited for with its own service time. With several servers,
    /// as long as product form would make of their mean.
    fn fifo_wait(&self, present: &[(f64, f64)], found: f64) -> f64 {
        let spot = &self.model.stations[self.station];
        let jobs: f64 = present.iter().map(|(jobs, _)| jobs).sum();
        let work: f64 = present.iter().zip(&spot.service).map(|((jobs, _), s)| jobs * s).sum();
        let closed_mean = if jobs > 0.0 { work / jobs } else { 0.0 };
        let open = self.model.open.iter().zip(&self.model.lambda);
        let open_work: f64 =
            open.map(|(&c, lambda)| lambda * spot.demand[c] * spot.service[c]).sum();
        let counted = found + spot.open_load;
        if counted == 0.0 {
            return 0.0;
        }
        let mean = (found * closed_mean + open_work) / counted;
        (self.curve.at(found) - 1.0).max(0.0) * mean
    }

    /// The MVA priority approximation (Bryant, Krzesinski, Lakshmi and Chandy 1984). Work W that is
    /// found takes W / (1 - U), where U is the utilisation of the more urgent classes who come
    /// meanwhile; who is found there himself does not come again, so that the work of a more urgent
    /// class j is stretched by U less U_j / N_j only.
    fn ranked_response(
        &self,
        class: usize,
        present: &[(f64, f64)],
        preemption: Preemption,
        ranks: &[u32],
    ) -> f64 {
        let spot = &self.model.stations[self.station];
        let mut order: Vec<u32> = ranks.to_vec();
        order.sort_unstable();
        order.dedup();
        let lambda = self.lambda();
        let used = |j: usize| (present[j].1 + lambda[j]) * spot.demand[j];
        let in_service = |j: usize| used(j) * spot.service[j];
        let is_resumed = preemption == Preemption::Resume;
        // Work of open jobs of the ranks so far, found waiting (or, if they are resumed, at all).
        let mut open_work = 0.0;
        let mut urgent = 0.0;
        for rank in order {
            let of = |wanted: fn(&u32, &u32) -> bool| {
                (0..ranks.len()).filter(move |&j| wanted(&ranks[j], &rank))
            };
            let left = f64::max(1.0 - urgent, LEFT_OVER);
            let open_load: f64 = of(u32::eq).map(|j| lambda[j] * spot.demand[j]).sum();
            let own_left = f64::max(left - open_load, LEFT_OVER);
            // How long the closed jobs of more urgent classes take that are found.
            let ahead: f64 = of(u32::lt)
                .filter(|&j| lambda[j] == 0.0)
                .map(|j| {
                    let again = urgent - used(j) / self.customers(j);
                    present[j].0 * spot.service[j] / f64::max(1.0 - again, LEFT_OVER)
                })
                .sum();
            let closed = of(u32::eq).filter(|&j| lambda[j] == 0.0);
            let (response, own_open_work) = if is_resumed {
                let serves: f64 =
                    of(u32::eq).map(|j| lambda[j] * spot.demand[j] * spot.service[j]).sum();
                let base = open_work + closed.map(|j| present[j].0 * spot.service[j]).sum::<f64>();
                // R = (S + base + own) / left + ahead, and own is the sum of lambda S R.
                let own = (serves + open_load * (base + ahead * left)) / own_left;
                ((spot.service[class] + base + own) / left + ahead, own)
            } else {
                let waiting: f64 =
                    closed.map(|j| (present[j].0 - used(j)).max(0.0) * spot.service[j]).sum();
                // Who is in service is waited for, whoever it is; urgent closed ones are ahead.
                let residual: f64 = (0..ranks.len())
                    .filter(|&j| lambda[j] > 0.0 || ranks[j] >= rank)
                    .map(in_service)
                    .sum();
                let wait = (residual + waiting + open_work + ahead * left) / own_left;
                (wait + spot.service[class], open_load * wait)
            };
            if rank == ranks[class] {
                return response;
            }
            open_work += own_open_work;
            urgent += of(u32::eq).map(used).sum::<f64>();
        }
        unreachable!("every class has a rank")
    }

    /// Arrival rates by class of the network; zero for closed ones.
    fn lambda(&self) -> Vec<f64> {
        let mut lambda = vec![0.0; self.model.classes];
        for (&open, &rate) in self.model.open.iter().zip(&self.model.lambda) {
            lambda[open] = rate;
        }
        lambda
    }

    /// N of a closed class.
    fn customers(&self, class: usize) -> f64 {
        let at = self.model.closed.iter().position(|&closed| closed == class);
        f64::from(self.model.population[at.expect("a class without arrival rate is closed")])
    }
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Exact => "the exact algorithm",
            Algorithm::BardSchweitzer => "Bard-Schweitzer",
            Algorithm::Linearizer => "Linearizer",
            Algorithm::Aql => "AQL",
        }
    }
}

/// Error of an algorithm as far as it was seen, in throughput or response time of any class, on
/// random networks of one to four classes, up to 20 customers each, and up to six stations, against
/// the exact solution or the Markov chain; the tests draw the same networks again.
pub(super) fn exactness(model: &Model, algorithm: Algorithm) -> Exactness {
    if algorithm == Algorithm::Exact || is_one_open_queue(model) {
        return Exactness::Exact;
    }
    let (mut error, mut source) = match algorithm {
        Algorithm::BardSchweitzer => (0.35, "Bard-Schweitzer"),
        Algorithm::Linearizer => (0.04, "Linearizer"),
        _ => (0.08, "AQL"),
    };
    let mut at_least = |least: f64, because: &'static str| {
        if least > error {
            (error, source) = (least, because);
        }
    };
    for spot in &model.stations {
        if spot.rates.windows(2).any(|pair| pair[1] < pair[0]) {
            at_least(1.2, "a rate curve that falls, by its mean queue");
        } else if spot.rates.len() > 1 {
            at_least(0.13, "several servers, by their mean queue");
        }
        match spot.order {
            Order::Product => {}
            Order::FifoByClass => at_least(0.5, "Reiser's FIFO with a service time for each class"),
            Order::Ranked { .. } => at_least(0.7, "MVA priority approximation"),
        }
    }
    Exactness::Approximate { source, error }
}

/// Poisson arrivals at one station of one server, visited once: Reiser's FIFO is Pollaczek and
/// Khinchine's formula then, and the priority approximation Cobham's.
fn is_one_open_queue(model: &Model) -> bool {
    let mut queues = model.stations.iter().filter(|spot| !spot.is_delay());
    let is_simple = |spot: &super::model::Spot| {
        spot.rates == [1.0] && spot.visits.iter().all(|&visits| visits <= 1.0)
    };
    model.closed.is_empty() && queues.next().is_some_and(is_simple) && queues.next().is_none()
}
