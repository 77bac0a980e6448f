//! Networks of several classes against the sum over all states, textbooks, and each other.

use solve::{Algorithm, Exactness, Mmc, Network, NetworkAnswer, StationKind};

use crate::random::Lcg;
use crate::{near, printed};

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

fn closed(classes: &[(u32, f64)], stations: &[(StationKind, &[f64])]) -> Network {
    let mut network = Network::new();
    for (c, &(customers, think)) in classes.iter().enumerate() {
        network.add_closed(&format!("class {c}"), customers, think).unwrap();
    }
    for (k, (kind, demands)) in stations.iter().enumerate() {
        network.add_station(&format!("station {k}"), kind.clone()).unwrap();
        for (c, &demand) in demands.iter().enumerate() {
            network.set_demand(k, c, demand).unwrap();
        }
    }
    network
}

const ONE: StationKind = StationKind::Sharing { servers: 1 };

/// Where a tool that uses the usual recursion answers R = -125.3, and another one 97.7.
#[test]
fn eight_servers_and_eighty_customers_wait_thirty_seconds() {
    let eight = StationKind::Fifo { servers: 8 };
    let network = closed(&[(80, 10.0)], &[(eight, &[4.0])]);
    let answer = network.solve().unwrap();
    assert_eq!(answer.algorithm, Algorithm::Exact);
    printed(answer.classes[0].response, 30.0000, 1e-4, &answer);
    // The approximation knows the finite source, so it is exact here up to its straight pieces.
    for algorithm in [Algorithm::Linearizer, Algorithm::Aql] {
        near(network.solve_with(algorithm).unwrap().classes[0].response, 30.0, 0.01, &algorithm);
    }
}

/// The ring of the competitors' table: X = 0.953956715634138.
#[test]
fn the_ring_of_four_is_the_same_in_every_way_of_solving_it() {
    let demands = [1.0, 0.8, 0.6, 0.4];
    let ring: Vec<(StationKind, &[f64])> =
        demands.iter().map(|d| (ONE, std::slice::from_ref(d))).collect();
    let answer = closed(&[(10, 0.0)], &ring).solve().unwrap();
    near(answer.classes[0].throughput, 0.953_956_715_634_138, 1e-13, &answer);
    // A curve that is one speed in two pieces takes the other exact algorithm.
    let mut curved = ring.clone();
    curved[2].0 = StationKind::Curve { rates: vec![1.0, 1.0] };
    let answer = closed(&[(10, 0.0)], &curved).solve().unwrap();
    near(answer.classes[0].throughput, 0.953_956_715_634_138, 1e-13, &answer);
    // Two halves of the population are two classes of the same behaviour.
    let twice: Vec<[f64; 2]> = demands.iter().map(|&d| [d, d]).collect();
    let halves: Vec<(StationKind, &[f64])> = twice.iter().map(|d| (ONE, d.as_slice())).collect();
    let answer = closed(&[(5, 0.0), (5, 0.0)], &halves).solve().unwrap();
    for class in &answer.classes {
        near(class.throughput, 0.953_956_715_634_138 / 2.0, 1e-13, &answer);
    }
}

/// Jain 1991, example 34.2: Z = 4 s, CPU 0.125 s in 16 visits, disks 0.3 s in 10 and 0.2 s in 5;
/// one to five users.
#[test]
fn a_timesharing_system_meets_jain() {
    for (users, response, throughput) in [
        (1, 6.000, 0.100),
        (2, 7.400, 0.175),
        (3, 9.088, 0.229),
        (4, 11.051, 0.266),
        (5, 13.256, 0.290),
    ] {
        let network = closed(&[(users, 4.0)], &[(ONE, &[2.0]), (ONE, &[3.0]), (ONE, &[1.0])]);
        let answer = network.solve().unwrap();
        printed(answer.classes[0].response, response, 2e-3, &answer);
        printed(answer.classes[0].throughput, throughput, 1e-3, &answer);
    }
}

/// Two classes by hand, with a customer each: a customer alone finds U_j = D_j / (D_j + D_j').
#[test]
fn one_customer_of_each_class_meets_a_sum_on_paper() {
    // Alone: class 0 is at the CPU for 1/4 of the time and at the disk for 3/4; class 1 for 2/6 and
    // 4/6. So R_0 = 1 (1 + 1/3) + 3 (1 + 2/3) = 19/3 and R_1 = 2 (1 + 1/4) + 4 (1 + 3/4) = 19/2.
    let network = closed(&[(1, 0.0), (1, 0.0)], &[(ONE, &[1.0, 2.0]), (ONE, &[3.0, 4.0])]);
    let answer = network.solve().unwrap();
    near(answer.classes[0].response, 19.0 / 3.0, 1e-14, &answer);
    near(answer.classes[1].response, 19.0 / 2.0, 1e-14, &answer);
    near(answer.at(0, 0).utilisation.unwrap(), 3.0 / 19.0, 1e-14, &answer);
    near(answer.utilisation_of(1).unwrap(), 9.0 / 19.0 + 8.0 / 19.0, 1e-14, &answer);
}

/// Visits and service times matter to a response, demands alone to a residence.
#[test]
fn a_response_is_of_one_visit() {
    let mut network = Network::new();
    let class = network.add_open("jobs", 2.0).unwrap();
    let cpu = network.add_station("cpu", StationKind::Fifo { servers: 2 }).unwrap();
    let disk = network.add_station("disk", ONE).unwrap();
    network.set_visits(cpu, class, 5.0, 0.12).unwrap();
    network.set_visits(disk, class, 4.0, 0.10).unwrap();
    let answer = network.solve().unwrap();
    let row = answer.at(cpu, class);
    near(row.response, Mmc::new(10.0, 0.12, 2).unwrap().response(), 1e-12, &row);
    near(row.residence, 5.0 * row.response, 1e-14, &row);
    near(row.utilisation.unwrap(), 0.6, 1e-14, &row);
    assert_eq!((row.arrival_rate, row.throughput), (10.0, 10.0));
    near(answer.at(disk, class).response, 0.1 / 0.2, 1e-12, &answer);
    near(answer.classes[class].jobs, 2.0 * answer.classes[class].response, 1e-14, &answer);
}

/// Thousands of servers and customers, and more states than can be counted through.
#[test]
fn large_networks_are_solved_or_refused_at_once() {
    let pool = StationKind::Sharing { servers: 1000 };
    let network = closed(&[(3000, 1.0)], &[(pool.clone(), &[1.0]), (ONE, &[1e-4])]);
    let answer = network.solve().unwrap();
    assert_eq!(answer.algorithm, Algorithm::Exact);
    near(answer.classes[0].throughput, 1000.0, 1e-6, &answer);
    near(
        network.solve_with(Algorithm::Linearizer).unwrap().classes[0].throughput,
        1000.0,
        0.01,
        &0,
    );

    let many = [(1_000_000, 5.0); 12];
    let network = closed(&many, &[(pool, &[0.1; 12]), (ONE, &[1e-7; 12])]);
    let error = network.solve_with(Algorithm::Exact).unwrap_err().to_string();
    assert!(error.contains("1.0e72 states"), "{error}");
    let answer = network.solve().unwrap();
    assert_eq!(answer.algorithm, Algorithm::Linearizer);
    let total: f64 = answer.classes.iter().map(|class| class.throughput).sum();
    near(total, 10_000.0, 0.01, &answer);
}

#[test]
fn the_classes_own_bounds_hold_the_exact_answer() {
    for seed in 0..300 {
        let drawn = drawn(seed, SMALL);
        let answer = drawn.network.solve().unwrap();
        let bounds = drawn.network.asymptotic_bounds().unwrap();
        for (class, bounds) in answer.classes.iter().zip(bounds) {
            let case = (seed, class, bounds);
            assert!(class.throughput >= bounds.throughput_min * (1.0 - 1e-9), "{case:?}");
            assert!(class.throughput <= bounds.throughput_max * (1.0 + 1e-9), "{case:?}");
            assert!(class.response >= bounds.response_min * (1.0 - 1e-9) - 1e-9, "{case:?}");
            let most = bounds.response_max.unwrap_or(f64::INFINITY);
            assert!(class.response <= most * (1.0 + 1e-9), "{case:?}");
        }
    }
}

#[test]
fn what_cannot_be_solved_is_refused_by_name() {
    let refusal = |network: &Network| network.solve().unwrap_err().to_string();
    let mut network = Network::new();
    assert_eq!(refusal(&network), "the number of classes is 0; give at least 1");
    let text = network.add_closed("users", 0, 1.0).unwrap_err().to_string();
    assert_eq!(text, "class `users`: the number of customers N is 0; give at least 1");
    let text = network.add_closed("users", 1, -1.0).unwrap_err().to_string();
    assert!(text.starts_with("class `users`: think time Z = -1 s"), "{text}");
    let text = network.add_open("stream", 0.0).unwrap_err().to_string();
    assert!(text.starts_with("class `stream`: arrival rate lambda = 0 /s"), "{text}");
    let text = network.add_station("cpu", StationKind::Fifo { servers: 0 }).unwrap_err();
    assert_eq!(text.to_string(), "station `cpu`: the number of servers is 0; give at least 1");
    for rates in [vec![], vec![1.0, 0.0]] {
        let text = network.add_station("cpu", StationKind::Curve { rates }).unwrap_err();
        assert!(text.to_string().starts_with("station `cpu`: "), "{text}");
    }
    let users = network.add_closed("users", 3, 0.0).unwrap();
    let cpu = network.add_station("cpu", StationKind::Fifo { servers: 2 }).unwrap();
    assert!(refusal(&network).starts_with("class `users`: think time and all demands are 0"));
    let text = network.set_visits(cpu, users, -1.0, 0.1).unwrap_err().to_string();
    assert!(text.starts_with("station `cpu`, class `users`: visits V = -1 per job"), "{text}");
    let text = network.set_demand(cpu, users, f64::NAN).unwrap_err().to_string();
    assert!(text.starts_with("station `cpu`, class `users`: service time S = NaN s"), "{text}");
    assert!(network.set_demand(9, users, 0.1).unwrap_err().to_string().contains("no station 9"));
    assert!(network.set_demand(cpu, 9, 0.1).unwrap_err().to_string().contains("no such class 9"));
    assert!(network.set_rank(9, 1).is_err() && network.set_think(9, 1.0).is_err());

    network.set_demand(cpu, users, 0.1).unwrap();
    let stream = network.add_open("stream", 30.0).unwrap();
    assert!(refusal(&network).starts_with("class `stream`: the number of stations with a demand"));
    network.set_demand(cpu, stream, 0.1).unwrap();
    let text = refusal(&network);
    assert!(text.starts_with("station `cpu`, class `stream`: utilisation rho = 1.5"), "{text}");
    assert!(text.contains("below 20 /s"), "{text}");
    network.set_demand(cpu, stream, 0.05).unwrap();
    let text = network.solve_with(Algorithm::Exact).unwrap_err().to_string();
    assert!(text.starts_with("station `cpu`: first in first out with service times"), "{text}");
    assert!(!network.solve().unwrap().exactness().is_exact());
}

/// Times from 1e-99 to 1e99 in one network are absurd, but accepted: they are answered or refused.
#[test]
fn absurd_scales_are_answered_or_refused() {
    let mut answered = 0;
    for seed in 0..200 {
        let mut lcg = Lcg::new(seed);
        let mut network = Network::new();
        for c in 0..2 {
            let customers = lcg.count(1, 20);
            network.add_closed(&format!("c{c}"), customers, lcg.scale(1e-99, 1e99)).unwrap();
        }
        let curve = StationKind::Curve { rates: vec![lcg.scale(1e-9, 1e9), lcg.scale(1e-9, 1e9)] };
        for kind in [ONE, StationKind::Fifo { servers: 3 }, curve] {
            let station = network.add_station("station", kind).unwrap();
            for c in 0..2 {
                network.set_demand(station, c, lcg.scale(1e-99, 1e99)).unwrap();
            }
        }
        let exact = [Algorithm::Linearizer, Algorithm::Aql, Algorithm::BardSchweitzer]
            .map(|algorithm| network.solve_with(algorithm))
            .into_iter()
            .chain([network.solve()]);
        for answer in exact.flatten() {
            answered += 1;
            for class in &answer.classes {
                let is_number = class.throughput.is_finite() && class.response.is_finite();
                assert!(is_number && class.throughput > 0.0, "{seed} {network:?} {answer:?}");
            }
        }
    }
    assert!(answered > 400, "only {answered} answers");
}

/// Nothing but thinking: X = N / Z.
#[test]
fn a_network_without_stations_only_thinks() {
    let network = closed(&[(6, 3.0)], &[]);
    for algorithm in [Algorithm::Exact, Algorithm::Linearizer, Algorithm::Aql] {
        let answer = network.solve_with(algorithm).unwrap();
        near(answer.classes[0].throughput, 2.0, 1e-14, &answer);
        assert_eq!(answer.classes[0].response, 0.0);
    }
}
