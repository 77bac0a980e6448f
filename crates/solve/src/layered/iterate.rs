//! The method of layers: each layer's network is solved with what the others found, until all agree.

use std::cell::Cell;
use std::rc::Rc;

use super::LayeredError;
use super::flat::{Body, Flat};
use super::submodel::{Asked, Customers, Flow, Queue, STEPS_MAX, Submodel, Times};

/// State on which all layers agree.
pub(super) struct Found {
    /// By chain and station: wait of a visit \[s\]; at a sharing station, how much longer its
    /// service takes, as a multiple of it.
    pub(super) wait: Vec<Vec<f64>>,
    /// By node, time of a phase \[s\].
    pub(super) hold: Vec<[f64; 2]>,
    /// By node [1/s].
    pub(super) rate: Vec<f64>,
    pub(super) rounds: usize,
    /// By task station: what a wait of open load is \[s\].
    pub(super) open_wait: Vec<f64>,
    /// The largest share of what its threads can do, all held through queues, that open load asks of a
    /// task.
    pub(super) open_share: f64,
}

const ROUNDS_MAX: usize = 600;
/// The largest change of a wait in the last round, as a share of the cycle that it is part of.
const TOLERANCE: f64 = 1e-8;
/// Rounds after which the layers must be closer than they were, or are moved more carefully.
const PATIENCE: usize = 40;

/// # Errors
/// If the layers do not agree in the end, or open load is too much for a station.
pub(super) fn solve(flat: &Flat) -> Result<Found, LayeredError> {
    let networks = flat.layers();
    // Each pair of chains has a number for each station, and each chain is left out once.
    let (chains, stations) = (flat.chains.len() as f64, flat.stations.len() as f64);
    if chains * chains * (chains + stations) > STEPS_MAX / 10.0 {
        return Err(LayeredError::TooLong { steps: STEPS_MAX });
    }
    let mut layers = Layers::new(flat);
    let (mut relax, mut before) = (0.7, f64::INFINITY);
    let mut change = f64::INFINITY;
    for round in 1..=ROUNDS_MAX {
        change = 0.0;
        for layer in 0..networks.len() {
            change = f64::max(change, layers.round(layer, &networks, relax)?);
        }
        if change < TOLERANCE {
            let open_share = layers.check_open(&networks)?;
            let Layers { wait, hold, rate, open_wait, .. } = layers;
            return Ok(Found { wait, hold, rate, open_wait, open_share, rounds: round });
        }
        if round % PATIENCE == 0 {
            if change > 0.1 * before {
                relax *= 0.6;
            }
            before = change;
        }
    }
    layers.check_open(&networks)?;
    Err(LayeredError::NotConverged { rounds: ROUNDS_MAX, change })
}

struct Layers<'a> {
    flat: &'a Flat,
    wait: Vec<Vec<f64>>,
    hold: Vec<[f64; 2]>,
    /// By node, variance of the time of its first phase \[s^2\].
    variance: Vec<f64>,
    rate: Vec<f64>,
    open_wait: Vec<f64>,
    /// By task station: how its busy threads are spread, and what a hold is with 1, 2, ... busy, in
    /// multiples of its mean.
    busy: Vec<Vec<f64>>,
    pace: Vec<Vec<f64>>,
    /// By chain, layer and busy threads: time of a cycle in that layer \[s\].
    given: Vec<Vec<Vec<f64>>>,
    /// Steps that were taken.
    steps: Rc<Cell<f64>>,
}

/// Network of a layer, and the chains of it.
struct Network {
    submodel: Submodel,
    /// Chain of the model for each chain of the network.
    chains: Vec<usize>,
    /// Time of a cycle without the pause for want of work, elsewhere than here \[s\].
    elsewhere: Vec<f64>,
}

impl Layers<'_> {
    fn new(flat: &Flat) -> Layers<'_> {
        let (chains, stations, nodes) = (flat.chains.len(), flat.stations.len(), flat.nodes.len());
        let mut layers = Layers {
            flat,
            wait: vec![vec![0.0; stations]; chains],
            hold: vec![[0.0; 2]; nodes],
            variance: vec![0.0; nodes],
            rate: vec![0.0; nodes],
            open_wait: vec![0.0; stations],
            busy: vec![Vec::new(); stations],
            pace: vec![Vec::new(); stations],
            given: vec![vec![Vec::new(); flat.layers().len()]; chains],
            steps: Rc::default(),
        };
        layers.update();
        layers
    }

    /// Holds from waits, and rates from holds.
    fn update(&mut self) {
        let flat = self.flat;
        // Callees first: a hold has those of its calls in it. Rates come from the callers, so below
        // these are first.
        for (index, node) in flat.nodes.iter().enumerate().rev() {
            for (phase, body) in node.bodies.iter().enumerate() {
                self.hold[index][phase] = self.time(node.chain, body);
            }
            self.variance[index] = self.variance_of(node.chain, &node.bodies[0]);
        }
        for (rate, node) in self.rate.iter_mut().zip(&flat.nodes) {
            *rate = node.open_rate;
        }
        for (index, node) in flat.nodes.iter().enumerate() {
            let chain = &flat.chains[node.chain];
            if let (Some(think), Some(population)) = (chain.think, chain.population) {
                self.rate[index] = f64::from(population) / (think + self.both(index));
            }
            for body in &node.bodies {
                for (&to, &mean) in body.calls.iter().chain(&body.sends) {
                    self.rate[to] += mean * self.rate[index];
                }
            }
        }
    }

    fn both(&self, node: usize) -> f64 {
        self.hold[node][0] + self.hold[node][1]
    }

    fn time(&self, chain: usize, body: &Body) -> f64 {
        let mut time = body.delay;
        for (&station, visits) in &body.visits {
            let wait = self.wait[chain][station];
            let is_sharing = self.flat.stations[station].is_sharing;
            let waits = if is_sharing { visits.service } else { visits.count };
            time += visits.service + waits * wait;
        }
        for (&to, &mean) in &body.calls {
            time += mean * (self.wait[chain][self.station_of(to)] + self.hold[to][0]);
        }
        time
    }

    /// Variance of a time, if its parts are independent and waits vary as in M/M/1, where the mean
    /// square of a wait W before a service s is 2 W (W + s).
    fn variance_of(&self, chain: usize, body: &Body) -> f64 {
        let of_wait = |wait: f64, service: f64| wait * (wait + 2.0 * service);
        let mut variance = body.delay_variance;
        for (&station, visits) in &body.visits {
            let (wait, service) = (self.wait[chain][station], visits.service / visits.count);
            variance += visits.count
                * if self.flat.stations[station].is_sharing {
                    (1.0 + wait) * (1.0 + wait) * visits.variance()
                } else {
                    visits.variance() + of_wait(wait, service)
                };
        }
        for (&to, &mean) in &body.calls {
            let wait = self.wait[chain][self.station_of(to)];
            variance += mean * (self.variance[to] + of_wait(wait, self.hold[to][0]));
        }
        for (number, round) in &body.rounds {
            let time = self.time(chain, round);
            variance += number * time * time;
        }
        variance
    }

    fn station_of(&self, node: usize) -> usize {
        let chain = &self.flat.chains[self.flat.nodes[node].chain];
        chain.station.expect("only tasks with threads are called")
    }

    /// Rate of a chain's cycles [1/s], and their mean time \[s\].
    fn cycle(&self, chain: usize) -> (f64, f64) {
        let nodes = &self.flat.chains[chain].nodes;
        let rate: f64 = nodes.iter().map(|&node| self.rate[node]).sum();
        let busy: f64 = nodes.iter().map(|&node| self.rate[node] * self.both(node)).sum();
        (rate, if rate > 0.0 { busy / rate } else { 0.0 })
    }

    /// Demand of a chain at a station in a mean cycle.
    fn asked(&self, chain: usize, station: usize) -> Asked {
        let (rate, _) = self.cycle(chain);
        let mut asked = Asked::default();
        for &node in &self.flat.chains[chain].nodes {
            let weight = self.rate[node] / rate;
            for body in &self.flat.nodes[node].bodies {
                if let Some(visits) = body.visits.get(&station) {
                    asked.visits += weight * visits.count;
                    asked.service[0] += weight * visits.service;
                    asked.square += weight * visits.square;
                }
                for (&to, &mean) in &body.calls {
                    if self.flat.chains[self.flat.nodes[to].chain].station == Some(station) {
                        asked.visits += weight * mean;
                        asked.service[0] += weight * mean * self.hold[to][0];
                        asked.service[1] += weight * mean * self.hold[to][1];
                        asked.square += weight * mean * self.square(to);
                    }
                }
            }
        }
        if asked.visits > 0.0 {
            asked.service = asked.service.map(|service| service / asked.visits);
            asked.square /= asked.visits;
        }
        asked
    }

    /// Time of a chain's cycle at a station, of which it asks so much \[s\].
    fn residence(&self, chain: usize, station: usize, asked: &Asked) -> f64 {
        let wait = self.wait[chain][station];
        let sharing = self.flat.stations[station].is_sharing;
        asked.visits * (asked.service[0] + wait * if sharing { asked.service[0] } else { 1.0 })
    }

    /// Mean square of the time of a node's first phase \[s^2\].
    fn square(&self, node: usize) -> f64 {
        self.hold[node][0] * self.hold[node][0] + self.variance[node]
    }

    /// Open load at a station.
    fn open(&self, station: usize) -> Vec<Flow> {
        let mut flows = Vec::new();
        if let Some(chain) = self.flat.stations[station].chain {
            for &node in &self.flat.chains[chain].nodes {
                flows.push(self.flow(self.flat.nodes[node].open_rate, node));
            }
        }
        for (index, node) in self.flat.nodes.iter().enumerate() {
            let is_open = self.flat.chains[node.chain].population.is_none();
            for body in &node.bodies {
                if let Some(visits) = body.visits.get(&station).filter(|_| is_open) {
                    let service = [visits.service / visits.count, 0.0];
                    let square = visits.square / visits.count;
                    flows.push(Flow { rate: self.rate[index] * visits.count, service, square });
                }
                let calls = body.calls.iter().filter(|_| is_open);
                for (&to, &mean) in calls.chain(&body.sends) {
                    if self.flat.chains[self.flat.nodes[to].chain].station == Some(station) {
                        flows.push(self.flow(self.rate[index] * mean, to));
                    }
                }
            }
        }
        flows.retain(|flow| flow.rate > 0.0);
        flows
    }

    fn flow(&self, rate: f64, node: usize) -> Flow {
        Flow { rate, service: self.hold[node], square: self.square(node) }
    }

    fn network(&self, stations: &[usize]) -> Network {
        let closed = self.flat.chains.iter().enumerate().filter(|(_, c)| c.population.is_some());
        let (mut chains, mut customers, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        let mut asked: Vec<Vec<Asked>> = vec![Vec::new(); stations.len()];
        for (chain, of) in closed {
            let asks: Vec<Asked> = stations.iter().map(|&k| self.asked(chain, k)).collect();
            if asks.iter().all(|asks| asks.visits == 0.0) {
                continue;
            }
            let (rate, cycle) = self.cycle(chain);
            let population = of.population.expect("it is closed");
            let here = stations.iter().zip(&asks).map(|(&k, asks)| self.residence(chain, k, asks));
            let rest = (cycle - here.sum::<f64>()).max(0.0);
            let idle = of.think.unwrap_or((f64::from(population) / rate - cycle).max(0.0));
            chains.push(chain);
            elsewhere.push(rest);
            customers.push(Customers { population, pause: idle + rest });
            asked.iter_mut().zip(asks).for_each(|(of, asks)| of.push(asks));
        }
        let queue = |(&k, asked): (&usize, Vec<Asked>)| {
            let station = &self.flat.stations[k];
            Queue {
                servers: station.servers,
                is_sharing: station.is_sharing,
                gap_scv: station.gap_scv,
                pace: self.pace[k].clone(),
                asked,
                open: self.open(k),
            }
        };
        let stations = stations.iter().zip(asked).map(queue).collect();
        let steps = Rc::clone(&self.steps);
        Network { submodel: Submodel { chains: customers, stations, steps }, chains, elsewhere }
    }

    /// Solves one layer's network; the largest change of a wait, as a share of its cycle.
    fn round(
        &mut self,
        layer: usize,
        networks: &[Vec<usize>],
        relax: f64,
    ) -> Result<f64, LayeredError> {
        let stations = &networks[layer];
        let network = self.network(stations);
        let mut times = network.submodel.solve()?;
        for (index, &chain) in network.chains.iter().enumerate() {
            if let Some(own) = self.flat.chains[chain].station {
                self.given_busy(&network, index, layer, own, &mut times)?;
            }
        }
        let mut change: f64 = 0.0;
        for (at, &k) in stations.iter().enumerate() {
            self.busy[k].clone_from(&times.busy[at]);
            for (index, &chain) in network.chains.iter().enumerate() {
                let customers = &network.submodel.chains[index];
                let asked = network.submodel.stations[at].asked[index];
                if asked.visits == 0.0 {
                    continue;
                }
                let sharing = self.flat.stations[k].is_sharing;
                let part = asked.visits * if sharing { asked.service[0] } else { 1.0 };
                let cycle = customers.pause + times.residence[index].iter().sum::<f64>();
                let step = times.wait[index][at] - self.wait[chain][k];
                let moved = (part * step).abs() / cycle;
                // `max` drops what is not a number, and would take it for agreement.
                change = if moved.is_finite() { change.max(moved) } else { f64::INFINITY };
                self.wait[chain][k] += relax * step;
            }
            let step = times.open_wait[at] - self.open_wait[k];
            change = change.max(step.abs() / (self.open_wait[k] + times.open_wait[at] + 1e-9));
            self.open_wait[k] += relax * step;
            for (chain, of) in self.flat.chains.iter().enumerate() {
                if of.population.is_none() {
                    self.wait[chain][k] = self.open_wait[k];
                }
            }
        }
        self.update();
        for (chain, of) in self.flat.chains.iter().enumerate() {
            if let Some(own) = of.station {
                self.pace_of(chain, own, networks);
            }
        }
        Ok(change)
    }

    /// The waits of a task's threads in this layer, given how many of them are busy, and from them
    /// their mean: what flows out of a pool depends on how full it is.
    fn given_busy(
        &mut self,
        network: &Network,
        index: usize,
        layer: usize,
        own: usize,
        times: &mut Times,
    ) -> Result<(), LayeredError> {
        let threads = self.flat.stations[own].servers;
        if threads == 1 || self.busy[own].is_empty() {
            return Ok(());
        }
        let numbers = grid(threads);
        let mut waits = Vec::with_capacity(numbers.len());
        let mut residences = Vec::with_capacity(numbers.len());
        for &busy in &numbers {
            let given = network.submodel.with_busy(index, busy, network.elsewhere[index]);
            let given = given.solve()?;
            residences.push(given.residence[index].iter().sum::<f64>());
            waits.push(given.wait[index].clone());
        }
        let weights = &self.busy[own];
        let stations = network.submodel.stations.len();
        for (k, mean) in times.wait[index].iter_mut().enumerate() {
            let wait = |busy: usize| between(&numbers, busy, |at| waits[at][k]);
            *mean = mean_over(weights, wait);
        }
        let residence = |busy: usize| between(&numbers, busy, |at| residences[at]);
        let chain = network.chains[index];
        self.given[chain][layer] = (1..=threads as usize).map(residence).collect();
        // In equal parts: only their sum is asked for, as part of the cycle.
        times.residence[index] = vec![mean_over(weights, residence) / stations as f64; stations];
        Ok(())
    }

    /// Dependence of a task's hold on the number of its busy threads: by the layers' answers for
    /// that number alone, whatever the mean hold is on the way to agreement. A pace that followed
    /// the mean would swing with it where a pool is nearly full.
    fn pace_of(&mut self, chain: usize, own: usize, networks: &[Vec<usize>]) {
        let threads = self.busy[own].len();
        let tables: Vec<(usize, &Vec<f64>)> =
            self.given[chain].iter().enumerate().filter(|(_, table)| !table.is_empty()).collect();
        let (_, cycle) = self.cycle(chain);
        if tables.is_empty() || threads == 0 || cycle == 0.0 {
            return;
        }
        let told = tables.iter().flat_map(|(layer, _)| &networks[*layer]);
        let here: f64 = told.map(|&k| self.residence(chain, k, &self.asked(chain, k))).sum();
        let elsewhere = (cycle - here).max(0.0);
        let part = |busy: usize| tables.iter().map(|(_, table)| table[busy - 1]).sum::<f64>();
        let pace = (1..=threads).map(|busy| ((elsewhere + part(busy)) / cycle).max(1e-3));
        self.pace[own] = pace.collect();
    }

    /// The largest share that open load asks of what threads can do that are held through queues.
    ///
    /// # Errors
    /// If open load alone is more than a station can take.
    fn check_open(&self, networks: &[Vec<usize>]) -> Result<f64, LayeredError> {
        let mut most: f64 = 0.0;
        for stations in networks {
            for (queue, &k) in self.network(stations).submodel.stations.iter().zip(stations) {
                let utilisation = queue.open_share_full();
                if utilisation >= super::submodel::OPEN_MAX {
                    let place = self.flat.stations[k].name.clone();
                    return Err(LayeredError::Unstable { place, utilisation });
                }
                if queue.pace.last().is_some_and(|pace| *pace > 1.001) {
                    most = most.max(utilisation);
                }
            }
        }
        Ok(most)
    }
}

/// All numbers of busy threads, or some of many.
fn grid(threads: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut next = 1;
    while next < threads {
        numbers.push(next);
        next = (next + 1).max(next * 5 / 4);
    }
    numbers.push(threads);
    numbers
}

/// A value at a number between those of the grid, on a straight line.
fn between(numbers: &[u32], busy: usize, value: impl Fn(usize) -> f64) -> f64 {
    let above = numbers.iter().position(|&number| number as usize >= busy).unwrap_or(0);
    let high = numbers[above] as usize;
    if high == busy || above == 0 {
        return value(above);
    }
    let low = numbers[above - 1] as usize;
    let share = (busy - low) as f64 / (high - low) as f64;
    value(above - 1) * (1.0 - share) + value(above) * share
}

fn mean_over(weights: &[f64], value: impl Fn(usize) -> f64) -> f64 {
    weights.iter().enumerate().filter(|(_, w)| **w > 0.0).map(|(at, w)| w * value(at + 1)).sum()
}
