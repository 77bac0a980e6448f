//! What cannot be simulated is said, with the place, the cause and the way out.

use std::time::Duration;

use gate::{GateSpec, Queues, ServerSpec};
use sim::{
    Class, Demand, GateNode, Load, Network, NetworkError, Options, SimError, Sizes, Station,
    StationKind, Step,
};
use workload::{Arrivals, Dist, DocumentSet, Draw};

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

/// The network, with the error that it must give.
#[track_caller]
fn refuses(network: &Network, place: &str, cause: &str) {
    let error = sim::run(network, &options(1, 10_000)).unwrap_err();
    let SimError::Network(NetworkError { place: found, cause: why, .. }) = &error else {
        panic!("{error:?} is not about the network");
    };
    assert_eq!(found, place, "{error}");
    assert!(why.contains(cause), "wanted `{cause}`, got: {error}");
    assert_eq!(error.to_string(), format!("{place}: {why}"));
}

fn sound() -> Network {
    gated(poisson(0.5), GateSpec::fifo(1), ONE, exponential(1.0))
}

/// The sound network with its route replaced.
fn with_route(route: Vec<Step>) -> Network {
    let mut network = sound();
    network.classes[0].route = route;
    network
}

fn with_demand(demand: Demand) -> Network {
    with_route(vec![Step::Hold { gate: 0, inside: vec![Step::Visit { station: 0, demand }] }])
}

fn visit() -> Step {
    Step::Visit { station: 0, demand: exponential(1.0) }
}

fn hold(gate: usize, inside: Vec<Step>) -> Step {
    Step::Hold { gate, inside }
}

#[test]
fn the_sound_network_runs() {
    sim::run(&sound(), &options(1, 10_000)).unwrap();
}

#[test]
fn every_part_must_be_used() {
    refuses(&Network::default(), "network", "no class");
    refuses(&with_route(vec![visit()]), "gate `gate`", "no class's route passes it");
    refuses(&with_route(vec![hold(0, vec![])]), "station `station`", "no class's route visits it");
    refuses(&with_route(vec![]), "class `jobs`", "its route is empty");
}

#[test]
fn indices_must_exist() {
    let lost = Step::Visit { station: 7, demand: exponential(1.0) };
    refuses(&with_route(vec![lost]), "class `jobs`", "station 7, which does not exist");
    let gate = hold(7, vec![visit()]);
    refuses(&with_route(vec![gate]), "class `jobs`", "gate 7, which does not exist");
    let mut network = sound();
    network.gates[0].stations = vec![7];
    refuses(&network, "gate `gate`", "its station 7 does not exist");
}

#[test]
fn stations_and_gates_must_be_able_to_serve() {
    for kind in [StationKind::Queue { servers: 0 }, StationKind::Sharing { processors: 0 }] {
        let mut network = sound();
        network.stations[0].kind = kind;
        refuses(&network, "station `station`", "at least one server");
    }
    for quantum_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut network = sound();
        network.stations[0].kind = StationKind::FairShare { quantum_s, tick_s: 0.0 };
        refuses(&network, "station `station`", "quantum must be above 0");
    }
    for tick_s in [-1.0, f64::NAN, f64::INFINITY] {
        let mut network = sound();
        network.stations[0].kind = StationKind::FairShare { quantum_s: 1.0, tick_s };
        refuses(&network, "station `station`", "tick must be 0 or more");
    }
    let mut network = sound();
    network.gates[0].spec = GateSpec::fifo(0);
    refuses(&network, "gate `gate`", "no slots");
    network.gates[0].spec.servers.clear();
    refuses(&network, "gate `gate`", "at least one server");
}

#[test]
fn servers_visited_must_have_stations() {
    let inside = vec![Step::VisitServer { demand: exponential(1.0) }];
    let network = with_route(vec![hold(0, inside), visit()]);
    refuses(&network, "gate `gate`", "1 servers but 0 stations");
    let outside = vec![Step::VisitServer { demand: exponential(1.0) }, hold(0, vec![visit()])];
    refuses(&with_route(outside), "class `jobs`", "no gate is around that step");
}

#[test]
fn gates_must_nest_sensibly() {
    let twice = hold(0, vec![hold(0, vec![visit()])]);
    refuses(&with_route(vec![twice]), "gate `gate`", "inside itself");
    let mut network = sound();
    for n in 1..17 {
        network.add_gate(GateNode::new(&format!("gate {n}"), GateSpec::fifo(1)));
    }
    let nested =
        |depth: usize| (0..depth).rev().fold(vec![visit()], |inside, n| vec![hold(n, inside)]);
    network.classes[0].route = nested(17);
    refuses(&network, "gate `gate 16`", "deeper than 16");
    network.gates.pop();
    network.classes[0].route = nested(16);
    sim::run(&network, &options(1, 10_000)).unwrap();
}

#[test]
fn chances_must_be_chances() {
    for chances in [[0.6, 0.6], [-0.1, 0.5], [f64::NAN, 0.5]] {
        let ways = chances.map(|chance| (chance, vec![visit()])).into();
        let network = with_route(vec![hold(0, vec![Step::Choose(ways)])]);
        refuses(&network, "class `jobs`", "chances must be between 0 and 1");
    }
    for again in [1.0, -0.1, f64::NAN] {
        let again = Step::Repeat { again, steps: vec![visit()] };
        refuses(&with_route(vec![hold(0, vec![again])]), "class `jobs`", "chance to repeat");
    }
    let nothing = Step::Repeat { again: 0.5, steps: vec![] };
    refuses(&with_route(vec![nothing]), "class `jobs`", "without steps");
}

#[test]
fn loads_must_be_loads() {
    let mut network = sound();
    network.classes[0].load = closed(0, no_think());
    refuses(&network, "class `jobs`", "population is 0");
    network.classes[0].load = closed(1, Dist::Constant(-1.0));
    refuses(&network, "class `jobs`", "must be 0 or above, but it is -1");
    // Two classes together are one too many.
    network.classes[0].load = closed(1 << 23, Dist::Constant(1.0));
    network.add_class(network.classes[0].clone());
    refuses(&network, "network", "16777216 customers");
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut network = sound();
        network.classes[0].load = poisson(rate);
        refuses(&network, "class `jobs`", "arrival rate must be above 0");
    }
    let mut network = sound();
    network.classes[0].load = poisson(1e9);
    refuses(&network, "class `jobs`", "clock of nanoseconds");
}

#[test]
fn demands_must_fit_the_sizes() {
    let bad = Demand::Drawn(Dist::Exponential { mean: -1.0 });
    refuses(&with_demand(bad), "class `jobs`", "its mean must be 0 or above");
    let by_size = |per_byte_s| Demand::OfSize { per_byte_s, base_s: 0.0 };
    refuses(&with_demand(by_size(1.0)), "class `jobs`", "has no sizes");
    let by_document = |n| Demand::OfDocument(vec![0.1; n]);
    refuses(&with_demand(by_document(5)), "class `jobs`", "has no sizes");
    let webstone = Sizes::Documents(DocumentSet::webstone(), Draw::Random);
    let sized = |sizes: &Sizes, demand| {
        let mut network = with_demand(demand);
        network.classes[0].sizes = sizes.clone();
        network
    };
    refuses(&sized(&webstone, by_document(4)), "class `jobs`", "4 demands are given for 5");
    let negative = Demand::OfDocument(vec![0.1, 0.1, -0.1, 0.1, 0.1]);
    refuses(&sized(&webstone, negative), "class `jobs`", "one is -0.1");
    refuses(&sized(&webstone, by_size(-1.0)), "class `jobs`", "is not 0 or above");
    let drawn = Sizes::Drawn(Dist::Constant(1.0));
    refuses(&sized(&drawn, by_document(5)), "class `jobs`", "without documents");
    let impossible = Sizes::Drawn(Dist::Constant(f64::NAN));
    refuses(&sized(&impossible, exponential(1.0)), "class `jobs`", "must be 0 or above");
}

#[test]
fn too_much_work_is_seen_beforehand() {
    let mut network = sound();
    network.classes[0].load = poisson(1.25);
    refuses(&network, "station `station`", "1.250 times");
    refuses(&network, "station `station`", "below 0.800 of the rate");
    network.classes[0].load = poisson(1.0);
    refuses(&network, "station `station`", "1.000 times");
    // Repetitions and choices count, and two classes are summed: 0.3 / (1 - 0.5) + 0.8 * 0.6 = 1.08.
    let again = Step::Repeat { again: 0.5, steps: vec![visit()] };
    let mut network = with_route(vec![hold(0, vec![again])]);
    network.classes[0].load = Load::Open(Arrivals::Fixed { rate: 0.3 });
    let sometimes = vec![Step::Choose(vec![(0.6, vec![visit()])])];
    network.add_class(Class::new("more", poisson(0.8), sometimes));
    refuses(&network, "station `station`", "1.080 times");
    // More servers do more.
    network.stations[0].kind = StationKind::Queue { servers: 2 };
    network.gates[0].spec = GateSpec::fifo(2);
    sim::run(&network, &options(1, 10_000)).unwrap();
}

/// What slots can do while jobs wait for each other inside is a limit that no check beforehand knows; the
/// queue before them grows in the run. That once took 16 million customers, and gigabytes, to be said.
#[test]
fn a_queue_without_end_is_seen_in_the_run() {
    // Four jobs at two queues of 1 s leave 0.8 a second.
    let mut network = gated(poisson(0.95), GateSpec::fifo(4), ONE, exponential(1.0));
    let second = network.add_station(Station::new("second", ONE));
    let Step::Hold { inside, .. } = &mut network.classes[0].route[0] else { unreachable!() };
    inside.push(Step::Visit { station: second, demand: exponential(1.0) });
    for threads in [1, 2] {
        let options = Options { threads: Some(threads), ..options(81, 20_000_000) };
        let error = sim::run(&network, &options).unwrap_err();
        let SimError::Unbounded { at, place } = &error else { panic!("{error:?}") };
        assert_eq!(place, "gate `gate`");
        // It grows by 0.15 a second, to 100 000.
        assert!((600_000.0..740_000.0).contains(&at.as_secs_f64()), "{error}");
        assert!(error.to_string().contains("grows without end"), "{error}");
    }
    let options = Options { jobs_max: 100, ..options(81, 20_000_000) };
    let Err(SimError::Unbounded { at, .. }) = sim::run(&network, &options) else {
        panic!("a lower bound is reached earlier")
    };
    assert!(at.as_secs_f64() < 3000.0, "{at}");
    // The customers of closed classes are known and do not count.
    let crowd = single(closed(500, Dist::Exponential { mean: 1.0 }), ONE, exponential(1.0));
    let options = Options { jobs_max: 100, ..crate::support::options(81, 10_000) };
    sim::run(&crowd, &options).unwrap();
}

#[test]
fn who_is_refused_must_not_come_back_at_once() {
    let spec = |room| GateSpec { room: Some(room), ..GateSpec::fifo(2) };
    let network = |load, spec| gated(load, spec, StationKind::Delay, exponential(1.0));
    refuses(&network(closed(4, no_think()), spec(1)), "gate `gate`", "no think time");
    // With room for all it is sound, and so it is with a think time.
    sim::run(&network(closed(4, no_think()), spec(2)), &options(82, 10_000)).unwrap();
    let thinking = closed(4, Dist::Exponential { mean: 1.0 });
    sim::run(&network(thinking, spec(1)), &options(82, 10_000)).unwrap();
    // Without patience it shows only in the run.
    let spec = GateSpec { wait_max: Some(Duration::ZERO), ..GateSpec::fifo(2) };
    let error = sim::run(&network(closed(4, no_think()), spec), &options(82, 10_000)).unwrap_err();
    assert!(matches!(error, SimError::Standstill { .. }), "{error:?}");
    assert!(error.to_string().contains("are refused and come back at once"), "{error}");
}

/// Customers that go through gates alone were once passed on for ever within one step of the loop.
#[test]
fn time_must_go_on() {
    let idle = Step::Choose(vec![(0.0, vec![visit(), hold(0, vec![])])]);
    let nothing = vec![Step::Visit { station: 0, demand: constant(0.0) }, hold(0, vec![])];
    for route in [vec![idle], nothing] {
        let mut network = with_route(route);
        network.classes[0].load = closed(3, no_think());
        let error = sim::run(&network, &options(83, 10_000)).unwrap_err();
        assert!(matches!(error, SimError::Standstill { .. }), "{error:?}");
        assert!(error.to_string().starts_with("time stands still at 0.0"), "{error}");
    }
}

#[test]
fn the_clock_has_an_end() {
    // 10^8 s a job, a thousand jobs a replication: 3000 years.
    let network = single(closed(1, no_think()), ONE, constant(1e8));
    let error = sim::run(&network, &options(84, 10_000)).unwrap_err();
    assert_eq!(error, SimError::ClockEnds);
    assert!(error.to_string().contains("292 years"), "{error}");
    for dist in [Dist::Constant(1e300), Dist::Pareto { low: 1e9, shape: 0.01 }] {
        for kind in [ONE, StationKind::Delay, StationKind::Sharing { processors: 1 }] {
            let network = single(closed(1, dist), kind, Demand::Drawn(dist));
            let error = sim::run(&network, &options(84, 10_000)).unwrap_err();
            assert_eq!(error, SimError::ClockEnds, "{dist:?} {kind:?}");
        }
        let kind = StationKind::FairShare { quantum_s: 1e300, tick_s: 0.0 };
        let network = single(closed(2, no_think()), kind, Demand::Drawn(dist));
        let error = sim::run(&network, &options(84, 10_000)).unwrap_err();
        assert_eq!(error, SimError::ClockEnds, "{dist:?} fair share");
    }
}

#[test]
fn jobs_that_wait_for_each_other_are_found() {
    // Two classes take two gates of one slot in opposite orders, with work between.
    let mut network = sound();
    let other = network.add_gate(GateNode::new("other", GateSpec::fifo(1)));
    network.stations[0] = Station::new("station", StationKind::Delay);
    network.classes.clear();
    for (name, first, second) in [("one", 0, other), ("two", other, 0)] {
        let route = vec![hold(first, vec![visit(), hold(second, vec![visit()])])];
        network.add_class(Class::new(name, closed(2, no_think()), route));
    }
    let error = sim::run(&network, &options(85, 10_000)).unwrap_err();
    let SimError::Deadlock { place, .. } = &error else { panic!("{error:?}") };
    assert!(place.starts_with("gate `"), "{error}");
    assert!(error.to_string().contains("different orders"), "{error}");
}

#[test]
fn options_must_be_in_range() {
    let bad = |name: &str, options: Options| {
        let error = sim::run(&sound(), &options).unwrap_err();
        let SimError::Option(found, _) = error else { panic!("{error:?}") };
        assert_eq!(found, name);
        assert!(error.to_string().starts_with(&format!("option `{name}`: ")), "{error}");
    };
    let sound = || options(86, 10_000);
    for replications in [0, 1, 10_001] {
        let plan = sim::Plan::Replications(replications);
        bad("replications", Options { plan, ..sound() });
    }
    for precision in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        bad("precision", Options { precision, ..sound() });
    }
    for confidence in [0.0, 1.0, f64::NAN] {
        bad("confidence", Options { confidence, ..sound() });
    }
    for jobs_max in [0, (1 << 24) + 1] {
        bad("jobs_max", Options { jobs_max, ..sound() });
    }
    bad("threads", Options { threads: Some(0), ..sound() });
    bad("record", Options { record: Some((1, 10)), ..sound() });
}

#[test]
fn a_gate_that_may_refuse_hides_what_comes_after_it() {
    // In a repetition only the first time is sure; after the gate nothing is.
    let mut network = sound();
    network.gates[0].spec = GateSpec { room: Some(0), ..GateSpec::fifo(1) };
    let again = Step::Repeat { again: 0.9, steps: vec![visit(), hold(0, vec![visit()])] };
    network.classes[0].route = vec![again];
    network.classes[0].load = poisson(0.2);
    sim::run(&network, &options(87, 10_000)).unwrap();
    network.classes[0].load = poisson(1.1);
    refuses(&network, "station `station`", "1.100 times");
}

#[test]
fn several_servers_share_what_a_blind_router_gives_them() {
    let mut network = sound();
    let second = add_queue(&mut network, "second", 1);
    network.gates[0] = GateNode {
        stations: vec![0, second],
        ..GateNode::new(
            "gate",
            GateSpec {
                servers: vec![ServerSpec { slots: 50 }; 2],
                queues: Queues::PerServer,
                ..GateSpec::fifo(1)
            },
        )
    };
    let serve = vec![Step::VisitServer { demand: exponential(1.0) }];
    network.classes[0].route = vec![hold(0, serve)];
    network.classes[0].load = poisson(2.2);
    refuses(&network, "station `station`", "1.100 times");
    network.classes[0].load = poisson(1.0);
    sim::run(&network, &options(88, 10_000)).unwrap();
}
