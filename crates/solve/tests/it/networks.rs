//! Networks of several classes against the sum over all states, textbooks, and each other.

use solve::{Algorithm, Exactness, Network, NetworkAnswer, StationKind};

use crate::near;
use crate::random::Lcg;

/// A random network together with what the oracle needs to know of it.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) network: Network,
    /// Customers and think time by closed class.
    closed: Vec<(u32, f64)>,
    /// a(1), a(2), ..., the last for all larger numbers; empty for a delay.
    rates: Vec<Vec<f64>>,
    /// D by station, then closed class.
    demand: Vec<Vec<f64>>,
    /// The open classes' work by station.
    open_load: Vec<f64>,
    /// D of the open class by station.
    open_demand: Vec<f64>,
}

/// What a draw may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) classes: u32,
    pub(crate) customers: u32,
    pub(crate) stations: u32,
    pub(crate) servers: u32,
    pub(crate) curves: u32,
    /// The share of networks that have an open class too.
    pub(crate) open: f64,
}

pub(crate) fn drawn(seed: u64, range: Range) -> Drawn {
    let mut lcg = Lcg::new(seed);
    let mut network = Network::new();
    let closed: Vec<(u32, f64)> = (0..lcg.count(1, range.classes))
        .map(|_| {
            let think = if lcg.unit() < 0.3 { 0.0 } else { lcg.scale(0.1, 30.0) };
            (lcg.count(1, range.customers), think)
        })
        .collect();
    for (c, &(customers, think)) in closed.iter().enumerate() {
        network.add_closed(&format!("c{c}"), customers, think).unwrap();
    }
    let has_open = lcg.unit() < range.open;
    let stations = lcg.count(1, range.stations) as usize;
    let mut drawn = Drawn {
        rates: Vec::new(),
        demand: vec![vec![0.0; closed.len()]; stations],
        open_load: vec![0.0; stations],
        open_demand: vec![0.0; stations],
        network,
        closed,
    };
    for k in 0..stations {
        let (kind, rates) = kind(&mut lcg, range, k);
        drawn.network.add_station(&format!("s{k}"), kind).unwrap();
        drawn.rates.push(rates);
        for c in 0..drawn.closed.len() {
            // Every class visits the first station, so that its cycle takes time.
            if k == 0 || lcg.unit() < 0.8 {
                let (visits, service) = (lcg.scale(0.2, 5.0), lcg.scale(0.05, 2.0));
                drawn.network.set_visits(k, c, visits, service).unwrap();
                drawn.demand[k][c] = visits * service;
            }
        }
    }
    if has_open {
        let rate = lcg.scale(0.1, 5.0);
        let open = drawn.network.add_open("open", rate).unwrap();
        for k in 0..stations {
            let last = drawn.rates[k].last().copied().unwrap_or(1.0);
            let demand = lcg.unit() * 0.7 * last / rate;
            drawn.network.set_demand(k, open, demand).unwrap();
            drawn.open_load[k] = rate * demand;
            drawn.open_demand[k] = demand;
        }
    }
    drawn
}

fn kind(lcg: &mut Lcg, range: Range, k: usize) -> (StationKind, Vec<f64>) {
    let multi = |servers: u32| (1..=servers).map(f64::from).collect::<Vec<f64>>();
    match lcg.count(1, 2 + range.curves) {
        1 if k > 0 && lcg.unit() < 0.5 => (StationKind::Delay, Vec::new()),
        1 | 2 => {
            let servers = lcg.count(1, range.servers);
            (StationKind::Sharing { servers }, multi(servers))
        }
        _ => {
            let rates: Vec<f64> = (0..lcg.count(1, 6)).map(|_| lcg.scale(0.5, 3.0)).collect();
            (StationKind::Curve { rates: rates.clone() }, rates)
        }
    }
}

/// The sum over all states of a network: every way in which the customers can be spread.
struct States<'a> {
    drawn: &'a Drawn,
    weight: f64,
    thinking: Vec<f64>,
    jobs: Vec<Vec<f64>>,
    open_jobs: Vec<f64>,
}

impl<'a> States<'a> {
    fn sum(drawn: &'a Drawn) -> States<'a> {
        let (classes, stations) = (drawn.closed.len(), drawn.rates.len());
        let mut states = States {
            drawn,
            weight: 0.0,
            thinking: vec![0.0; classes],
            jobs: vec![vec![0.0; classes]; stations],
            open_jobs: vec![0.0; stations],
        };
        let rest: Vec<u32> = drawn.closed.iter().map(|&(n, _)| n).collect();
        states.spread(0, &rest, 1.0, &mut Vec::new());
        states
    }

    fn spread(&mut self, k: usize, rest: &[u32], weight: f64, there: &mut Vec<(Vec<u32>, f64)>) {
        if k == self.drawn.rates.len() {
            return self.count(rest, weight, there);
        }
        let mut here = vec![0; rest.len()];
        loop {
            let (factor, open) = self.factor(k, &here);
            let left: Vec<u32> = rest.iter().zip(&here).map(|(r, h)| r - h).collect();
            there.push((here.clone(), open));
            self.spread(k + 1, &left, weight * factor, there);
            there.pop();
            let Some(c) = (0..rest.len()).find(|&c| here[c] < rest[c]) else { return };
            here[..c].fill(0);
            here[c] += 1;
        }
    }

    /// The weight of so many jobs at a station, summed over the open ones, and their mean number.
    fn factor(&self, k: usize, here: &[u32]) -> (f64, f64) {
        let rates = &self.drawn.rates[k];
        let all: u32 = here.iter().sum();
        let own: f64 = here
            .iter()
            .zip(&self.drawn.demand[k])
            .map(|(&n, d)| (1..=n).map(|i| d / f64::from(i)).product::<f64>())
            .product();
        if rates.is_empty() {
            return (own, self.drawn.open_load[k]);
        }
        let rate = |j: u32| rates[(j as usize).min(rates.len()) - 1];
        let closed = own * (1..=all).map(|j| f64::from(j) / rate(j)).product::<f64>();
        let (mut term, mut sum, mut mean) = (1.0, 1.0, 0.0);
        for open in 1..3000 {
            let j = all + open;
            term *= self.drawn.open_load[k] * f64::from(j) / f64::from(open) / rate(j);
            sum += term;
            mean += term * f64::from(open);
            if term < 1e-18 * sum {
                break;
            }
        }
        (closed * sum, mean / sum)
    }

    fn count(&mut self, rest: &[u32], weight: f64, there: &[(Vec<u32>, f64)]) {
        let thinking = rest
            .iter()
            .zip(&self.drawn.closed)
            .map(|(&n, &(_, z))| (1..=n).map(|i| z / f64::from(i)).product::<f64>());
        let weight = weight * thinking.product::<f64>();
        self.weight += weight;
        for (sum, &n) in self.thinking.iter_mut().zip(rest) {
            *sum += weight * f64::from(n);
        }
        for (k, (here, open)) in there.iter().enumerate() {
            self.open_jobs[k] += weight * open;
            for (sum, &n) in self.jobs[k].iter_mut().zip(here) {
                *sum += weight * f64::from(n);
            }
        }
    }
}

const SMALL: Range =
    Range { classes: 3, customers: 4, stations: 4, servers: 4, curves: 2, open: 0.5 };

#[test]
fn exact_answers_are_the_sum_over_all_states() {
    for seed in 0..300 {
        let drawn = drawn(seed, SMALL);
        let answer = drawn.network.solve_with(Algorithm::Exact).unwrap();
        let states = States::sum(&drawn);
        let case = (seed, &drawn.network);
        assert!(answer.exactness().is_exact());
        for (c, &(_, think)) in drawn.closed.iter().enumerate() {
            if think > 0.0 {
                let x = states.thinking[c] / states.weight / think;
                near(answer.classes[c].throughput, x, 1e-10, &case);
            }
            for k in 0..drawn.rates.len() {
                near(answer.at(k, c).jobs, states.jobs[k][c] / states.weight, 1e-10, &case);
            }
        }
        if drawn.network.classes() > drawn.closed.len() {
            let open = drawn.closed.len();
            for k in 0..drawn.rates.len() {
                let want = states.open_jobs[k] / states.weight;
                near(answer.at(k, open).jobs, want, 1e-9, &case);
            }
        }
    }
}

/// The largest relative error in throughput or response time of any class, and where.
fn worst(algorithm: Algorithm, range: Range, cases: u64) -> (f64, u64) {
    let mut worst = (0.0, 0);
    for seed in 0..cases {
        let drawn = drawn(seed, range);
        let exact = drawn.network.solve_with(Algorithm::Exact).unwrap();
        let found = drawn.network.solve_with(algorithm).unwrap();
        let error = error_of(&found, &exact);
        let Exactness::Approximate { error: stated, .. } = found.exactness() else {
            panic!("{algorithm} claims to be exact: {seed} {range:?}")
        };
        assert!(error <= stated, "{algorithm}: {error} is above {stated}: {seed} {range:?}");
        if error > worst.0 {
            worst = (error, seed);
        }
    }
    worst
}

fn error_of(found: &NetworkAnswer, exact: &NetworkAnswer) -> f64 {
    let off = |a: f64, b: f64| (a / b - 1.0).abs();
    let classes = found.classes.iter().zip(&exact.classes);
    classes
        .map(|(a, b)| off(a.throughput, b.throughput).max(off(a.response, b.response)))
        .fold(0.0, f64::max)
}

/// What each algorithm states is what it shows here: not less, and not much more.
#[test]
fn approximate_answers_are_as_good_as_they_state() {
    let plain = Range { classes: 4, customers: 12, stations: 6, servers: 1, curves: 0, open: 0.3 };
    let multi = Range { classes: 3, customers: 20, stations: 5, servers: 12, ..plain };
    let curves = Range { curves: 2, customers: 12, ..multi };
    for (range, cases) in [(plain, 400), (multi, 400), (curves, 400)] {
        for algorithm in [Algorithm::BardSchweitzer, Algorithm::Linearizer, Algorithm::Aql] {
            let (error, seed) = worst(algorithm, range, cases);
            println!("{algorithm}: {error:.4} at seed {seed} of {range:?}");
        }
    }
}
