//! The grid on which the coverage of intervals is measured: networks whose mean responses are known
//! exactly, from one queue to ten thousand jobs in flight. `examples/coverage.rs` makes the table of it.

use gate::{DisciplineSpec, GateSpec, Queues, RouterSpec, ServerSpec};
use sim::{
    Class, Demand, GateNode, Load, Network, Options, Order, Plan, Station, StationKind, Step,
    WhenFull,
};
use workload::{Arrivals, Dist};

use crate::truths;

/// A network, how it is run, and what is true of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) network: Network,
    pub(crate) plan: Plan,
    pub(crate) precision: f64,
    /// The mean response of each class, then the mean sojourn at the stations that are looked at \[s\].
    pub(crate) truths: Vec<(Of, f64)>,
}

/// What a truth is of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Class(usize),
    Station(usize),
}

const TEN: Plan = Plan::Replications(10);
const FOUR: Plan = Plan::Replications(4);
const SHARED: StationKind = StationKind::Sharing { processors: 1 };

fn queue(servers: u32) -> StationKind {
    StationKind::Queue { servers }
}

fn exponential(mean: f64) -> Demand {
    Demand::Drawn(Dist::Exponential { mean })
}

fn poisson(rate: f64) -> Load {
    Load::Open(Arrivals::Poisson { rate })
}

fn hyper(mean: f64, scv: f64) -> Demand {
    Demand::Drawn(Dist::Hyperexponential { mean, scv })
}

/// One class that visits these stations one after the other.
fn line(load: Load, stations: Vec<(StationKind, Demand)>) -> Network {
    let mut network = Network::default();
    let mut route = Vec::new();
    for (at, (kind, demand)) in stations.into_iter().enumerate() {
        let station = network.add_station(Station::new(&format!("station {at}"), kind));
        route.push(Step::Visit { station, demand });
    }
    network.add_class(Class::new("jobs", load, route));
    network
}

fn one(rate: f64, kind: StationKind, demand: Demand) -> Network {
    line(poisson(rate), vec![(kind, demand)])
}

/// One class that visits a station while it holds a slot of a gate.
fn behind(rate: f64, spec: GateSpec, kind: StationKind, demand: Demand) -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("station", kind));
    let gate = network.add_gate(GateNode::new("gate", spec));
    let inside = vec![Step::Visit { station, demand }];
    network.add_class(Class::new("jobs", poisson(rate), vec![Step::Hold { gate, inside }]));
    network
}

/// Four servers with a queue each.
fn four(router: RouterSpec) -> GateSpec {
    let servers = vec![ServerSpec { slots: 1 }; 4];
    GateSpec { queues: Queues::PerServer, router, servers, ..GateSpec::fifo(1) }
}

/// 500 slots of 200 ms before a delay of 2 s.
fn slots_before_delay() -> Network {
    let mut network = behind(2000.0, GateSpec::fifo(500), StationKind::Delay, exponential(0.2));
    let station = network.add_station(Station::new("after", StationKind::Delay));
    network.classes[0].route.push(Step::Visit { station, demand: exponential(2.0) });
    network
}

/// Two classes at one server, the first more important.
fn important(order: Order, (first, second): (f64, f64)) -> Network {
    let mut network = Network::default();
    let server = Station { order, ..Station::new("server", queue(1)) };
    let station = network.add_station(server);
    for (name, rate, priority) in [("first", first, 1), ("second", second, 0)] {
        let route = vec![Step::Visit { station, demand: exponential(1.0) }];
        network.add_class(Class { priority, ..Class::new(name, poisson(rate), route) });
    }
    network
}

fn with_room(rate: f64, room: u32) -> Network {
    let mut network = one(rate, queue(1), exponential(1.0));
    network.stations[0].room = Some((room, WhenFull::Lose));
    network
}

fn closed(population: u32, think_s: f64, stations: Vec<(StationKind, Demand)>) -> Network {
    line(Load::Closed { population, think: Dist::Exponential { mean: think_s } }, stations)
}

impl Case {
    /// So many runs say what a share of them does.
    pub(crate) const SEEDS: u64 = 200;

    /// Run `n` of the case, the `at`-th of the grid.
    pub(crate) fn options(&self, at: usize, n: u64) -> Options {
        Options {
            seed: 1_000_000 + 1_000 * at as u64 + n,
            plan: self.plan,
            precision: self.precision,
            threads: Some(1),
            ..Options::default()
        }
    }

    pub(crate) fn all() -> Vec<Case> {
        let mut cases = queues();
        cases.extend(many_in_flight());
        cases.extend(shared_and_gated());
        cases.extend(several());
        cases.extend(slow_circles());
        assert_eq!(cases.len(), 33, "the grid has 33 cases");
        cases
    }
}

fn case(name: &'static str, plan: Plan, precision: f64, network: Network, truth: f64) -> Case {
    Case { name, network, plan, precision, truths: vec![(Of::Class(0), truth)] }
}

/// One server.
fn queues() -> Vec<Case> {
    let mm1 = |rho| one(rho, queue(1), exponential(1.0));
    let fixed = Load::Open(Arrivals::Fixed { rate: 0.9 });
    let constant = Demand::Drawn(Dist::Constant(1.0));
    vec![
        case("M/M/1 at 0.5", TEN, 0.02, mm1(0.5), 2.0),
        case("M/M/1 at 0.8", TEN, 0.04, mm1(0.8), 5.0),
        case("M/M/1 at 0.95", TEN, 0.15, mm1(0.95), 20.0),
        case("M/M/1 at 0.8 in one run", Plan::OneRun, 0.04, mm1(0.8), 5.0),
        case("M/M/1 at 0.95 in one run", Plan::OneRun, 0.15, mm1(0.95), 20.0),
        case("M/D/1 at 0.9", TEN, 0.05, one(0.9, queue(1), constant), truths::mg1(0.9, 0.0)),
        case(
            "M/H2/1 at 0.8",
            TEN,
            0.06,
            one(0.8, queue(1), hyper(1.0, 4.0)),
            truths::mg1(0.8, 4.0),
        ),
        case(
            "D/M/1 at 0.9",
            TEN,
            0.05,
            line(fixed, vec![(queue(1), exponential(1.0))]),
            truths::gm1(|s| (-s / 0.9).exp()),
        ),
        case("M/M/1/10 at 0.9", TEN, 0.02, with_room(0.9, 10), truths::mm1k(0.9, 10)),
    ]
}

/// Many servers, or long delays.
fn many_in_flight() -> Vec<Case> {
    let mmc = |servers: u32, rho: f64| {
        let load = rho * f64::from(servers);
        (one(load, queue(servers), exponential(1.0)), 1.0 + truths::erlang_wait(servers, load))
    };
    let many =
        |name, plan, precision, (network, truth)| case(name, plan, precision, network, truth);
    let delay = |rate, demand| one(rate, StationKind::Delay, demand);
    let lognormal = Demand::Drawn(Dist::Lognormal { mu: 1.0, sigma: 1.0 });
    vec![
        many("M/M/4 at 0.9", TEN, 0.06, mmc(4, 0.9)),
        many("M/M/32 at 0.95", TEN, 0.05, mmc(32, 0.95)),
        many("M/M/100 at 0.98", TEN, 0.1, mmc(100, 0.98)),
        many("M/M/1000 at 0.95", TEN, 0.01, mmc(1000, 0.95)),
        many("M/M/1000 at 0.98", FOUR, 0.02, mmc(1000, 0.98)),
        case("10/s over 100 s", TEN, 0.02, delay(10.0, exponential(100.0)), 100.0),
        case("100/s over 100 s", FOUR, 0.02, delay(100.0, exponential(100.0)), 100.0),
        case(
            "10/s over a lognormal delay in one run",
            Plan::OneRun,
            0.02,
            delay(10.0, lognormal),
            1.5_f64.exp(),
        ),
        // Erlang's C of 500 servers at 400 erlangs is 2e-6.
        case("500 slots before a delay at 2000/s", FOUR, 0.02, slots_before_delay(), 2.2),
    ]
}

/// Processor sharing, slots before it, and routers.
fn shared_and_gated() -> Vec<Case> {
    let lifo = GateSpec { discipline: DisciplineSpec::Lifo, ..GateSpec::fifo(1) };
    let held = |rate, spec| behind(rate, spec, StationKind::Delay, exponential(1.0));
    // The gaps of every fourth arrival are the sum of four.
    let fourth = truths::gm1(|s| (3.2 / (3.2 + s)).powi(4));
    vec![
        case("M/M/1-PS at 0.8", TEN, 0.05, one(0.8, SHARED, exponential(1.0)), 5.0),
        case("M/H2/1-PS at 0.7", TEN, 0.05, one(0.7, SHARED, hyper(1.0, 4.0)), 1.0 / 0.3),
        case(
            "4 slots before sharing at 0.8",
            TEN,
            0.05,
            behind(0.8, GateSpec::fifo(4), SHARED, exponential(1.0)),
            5.0,
        ),
        case(
            "50 slots before sharing at 0.9",
            TEN,
            0.08,
            behind(0.9, GateSpec::fifo(50), SHARED, exponential(1.0)),
            10.0,
        ),
        case("last in first out at 0.8", TEN, 0.05, held(0.8, lifo), 5.0),
        case("four queues by chance at 0.8", TEN, 0.05, held(3.2, four(RouterSpec::Random)), 5.0),
        case(
            "four queues in turn at 0.8",
            TEN,
            0.04,
            held(3.2, four(RouterSpec::RoundRobin)),
            fourth,
        ),
    ]
}

/// Several stations or classes, and closed ones.
fn several() -> Vec<Case> {
    let tandem = vec![(queue(1), exponential(1.0)), (queue(2), exponential(1.5))];
    let two = |name, order, truths: [f64; 2]| {
        let network = important(order, (0.3, 0.5));
        let truths = truths.into_iter().enumerate().map(|(at, truth)| (Of::Class(at), truth));
        Case { name, network, plan: TEN, precision: 0.05, truths: truths.collect() }
    };
    // Cobham 1954; Kleinrock 1976, 3.6.
    let waits = [0.8 / 0.7, 0.8 / (0.7 * 0.2)];
    let preempted = [1.0 / 0.7, (1.0 + 0.8 / 0.2) / 0.7];
    let machines = closed(20, 10.0, vec![(queue(1), exponential(1.0))]);
    let crowd = closed(1000, 100.0, vec![(queue(8), exponential(0.8))]);
    vec![
        case(
            "two stations in line at 0.7 and 0.525",
            TEN,
            0.03,
            line(poisson(0.7), tandem),
            1.0 / 0.3 + 1.5 + 1.5 * truths::erlang_wait(2, 1.05),
        ),
        two("two priorities", Order::Priority, waits.map(|wait| 1.0 + wait)),
        two("two priorities that preempt", Order::Preemptive, preempted),
        case("20 clients, one server", TEN, 0.01, machines, truths::closed(20, 10.0, 1, 1.0)),
        case("1000 clients, eight servers", TEN, 0.05, crowd, truths::closed(1000, 100.0, 8, 0.8)),
    ]
}

/// Clients who never think and move slowly between two queues: their response hardly tells where they are.
fn slow_circles() -> Vec<Case> {
    let two = |name, plan, clients: u32, faster: f64| {
        let stations = vec![(queue(1), exponential(faster)), (queue(1), exponential(1.0))];
        let think = Dist::Constant(0.0);
        let network = line(Load::Closed { population: clients, think }, stations);
        let (rate, jobs) = truths::two_queues(clients, faster);
        let response = case(name, plan, 0.02, network, f64::from(clients) / rate);
        Case { truths: vec![response.truths[0], (Of::Station(0), jobs / rate)], ..response }
    };
    vec![
        two("200 clients, two queues, the faster at 0.9", TEN, 200, 0.9),
        two("1000 clients, two queues, the faster at 0.95", TEN, 1000, 0.95),
        two("1000 clients, two queues, the faster at 0.95, in one run", Plan::OneRun, 1000, 0.95),
    ]
}
