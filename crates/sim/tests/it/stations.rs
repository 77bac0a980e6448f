//! Stations that are more than a plain queue: rooms, blocking, priorities, speeds.

use gate::GateSpec;
use sim::{
    Agenda, Change, Changed, Class, GateNode, Network, Order, SimError, Speed, Station,
    StationKind, Step, Stop, WhenFull,
};

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

#[test]
fn a_full_station_loses_what_mmck_says() {
    // M/M/2/5, lambda = 3, mu = 1: p_n by the birth and death equations.
    let (lambda, servers, room) = (3.0, 2_u32, 5_u32);
    let mut p = vec![1.0];
    for n in 1..=room {
        let last: f64 = p[n as usize - 1];
        p.push(last * lambda / f64::from(n.min(servers)));
    }
    let sum: f64 = p.iter().sum();
    let lost = p[room as usize] / sum;
    let jobs: f64 = p.iter().enumerate().map(|(n, p)| n as f64 * p / sum).sum();
    let kind = StationKind::Queue { servers };
    let mut network = single(poisson(lambda), kind, exponential(1.0));
    network.stations[0].room = Some((room, WhenFull::Lose));
    let outcome = run(&network, 71, 400_000);
    assert_near("lost", outcome.classes[0].lost, lambda * lost, 0.02);
    assert_near("lost there", outcome.stations[0].lost, lambda * lost, 0.02);
    assert_near("jobs", outcome.stations[0].jobs, jobs, 0.01);
    assert_near("R", response(&outcome, 0), jobs / (lambda * (1.0 - lost)), 0.01);
}

/// Two stations in a row, the second with room for one, blocking.
fn tandem() -> Network {
    let mut network = Network::default();
    let first = add_queue(&mut network, "first", 1);
    let second = add_queue(&mut network, "second", 1);
    network.stations[second].room = Some((1, WhenFull::Block));
    let visit = |station| Step::Visit { station, demand: exponential(1.0) };
    let route = vec![visit(first), visit(second)];
    network.add_class(Class::new("jobs", closed(5, no_think()), route));
    network
}

#[test]
fn blocking_after_service_keeps_the_server() {
    // The first is never empty (5 jobs, at most one elsewhere). States: both work (rate 1 each); the
    // first works alone; the second works while the first is blocked. Balance with equal rates gives
    // 1/3 each, and the second works in two of them: X = 2/3 (Perros 1994, two stations, no buffer).
    let outcome = run(&tandem(), 72, 300_000);
    assert_near("X", outcome.classes[0].throughput, 2.0 / 3.0, 0.01);
    assert_near("second", outcome.stations[1].jobs, 2.0 / 3.0, 0.01);
    assert_near("first", outcome.stations[0].jobs, 5.0 - 2.0 / 3.0, 0.01);
    assert_near("first's server", outcome.stations[0].utilisation.unwrap(), 1.0, 0.01);
}

#[test]
fn what_blocks_holds_its_slots_too() {
    // The same with the first station behind a gate of one slot that is held through both: nobody is
    // ever blocked, and each job takes both services alone.
    let mut network = tandem();
    let inside = network.classes[0].route.clone();
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(1)));
    network.classes[0].route = vec![Step::Hold { gate, inside }];
    assert_near("X", run(&network, 73, 100_000).classes[0].throughput, 0.5, 0.01);
}

#[test]
fn a_ring_that_is_full_is_a_deadlock() {
    let mut network = tandem();
    network.stations[0].room = Some((1, WhenFull::Block));
    network.classes[0].load = closed(2, no_think());
    // Each goes round and round, until both want the place of the other.
    let steps = network.classes[0].route.clone();
    network.classes[0].route = vec![Step::Repeat { again: 0.99, steps }];
    let error = sim::run(&network, &options(74, 10_000)).unwrap_err();
    assert!(matches!(error, SimError::Deadlock { .. }), "{error}");
    // With an agenda too, though its own entries are still to come, and whatever its intervals.
    for intervals in [10, 1, 0] {
        network.agenda = Some(Agenda { length_s: Some(1e4), intervals, ..Agenda::default() });
        let error = sim::run(&network, &options(74, 10_000)).unwrap_err();
        assert!(matches!(error, SimError::Deadlock { .. }), "{intervals}: {error}");
    }
}

fn two_classes(order: Order) -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station { order, ..Station::new("cpu", ONE) });
    for (name, priority, rate, mean) in [("urgent", 1, 0.4, 0.5), ("patient", 0, 0.4, 1.5)] {
        let route = vec![Step::Visit { station, demand: exponential(mean) }];
        network.add_class(Class { priority, ..Class::new(name, poisson(rate), route) });
    }
    network
}

#[test]
fn priorities_at_a_station_follow_cobham() {
    // rho1 = 0.2, rho2 = 0.6, W0 = sum lambda E[S^2] / 2 = 0.4 * 0.25 + 0.4 * 2.25 = 1.
    let outcome = run(&two_classes(Order::Priority), 75, 800_000);
    assert_near("urgent", response(&outcome, 0), 0.5 + 1.0 / 0.8, 0.02);
    assert_near("patient", response(&outcome, 1), 1.5 + 1.0 / (0.8 * 0.2), 0.05);
}

#[test]
fn preemption_makes_the_urgent_ones_alone() {
    // Preemptive resume (Kleinrock 1976, 3.28): the urgent see M/M/1, R1 = 0.5 / 0.8; the others
    // R2 = 1.5 / 0.8 + W0 / (0.8 * 0.2), W0 = 1.
    let outcome = run(&two_classes(Order::Preemptive), 76, 800_000);
    assert_near("urgent", response(&outcome, 0), 0.5 / 0.8, 0.02);
    assert_near("patient", response(&outcome, 1), 1.5 / 0.8 + 1.0 / 0.16, 0.05);
    assert_near("busy", outcome.stations[0].utilisation.unwrap(), 0.8, 0.02);
}

/// Schrage and Miller 1966, by hand: demands 0.5 (70 %) and 3 at 0.5 arrivals a second. A short job takes
/// lambda 0.25 / (2 (1 - 0.175)) + 0.5, whatever the classes and their priorities are.
#[test]
fn the_shortest_remaining_demand_goes_first() {
    let mut network = Network::default();
    let order = Order::ShortestRemaining;
    let station = network.add_station(Station { order, ..Station::new("cpu", ONE) });
    for (name, priority, rate, demand) in [("short", 0, 0.35, 0.5), ("long", 9, 0.15, 3.0)] {
        let route = vec![Step::Visit { station, demand: constant(demand) }];
        network.add_class(Class { priority, ..Class::new(name, poisson(rate), route) });
    }
    let outcome = run(&network, 77, 800_000);
    let (load, rho) = (0.175, 0.625);
    let short = 0.5 * 0.25 / (2.0 * (1.0 - load)) + 0.5;
    let second = 0.35 * 0.25 + 0.15 * 9.0;
    let long = second / (2.0 * (1.0 - load) * (1.0 - rho)) + 0.5 + 2.5 / (1.0 - load);
    assert_near("short", response(&outcome, 0), short, 0.01);
    assert_near("long", response(&outcome, 1), long, 0.02);
    assert_near("busy", outcome.stations[0].utilisation.unwrap(), rho, 0.02);
}

#[test]
fn the_fastest_free_server_serves() {
    // M/M/2 with speeds 2 and 1, lambda = 1.5, both idle: the fast one. States 0, F, S, 2, 3, ...
    // p(F) and p(S) from balance; beyond that a birth and death process with death rate 3.
    // 0: 1.5 p0 = 2 pF + pS. S: (1.5 + 1) pS = 2 p2. F: (1.5 + 2) pF = 1.5 p0 + 1 p2.
    // cut between {0, F, S} and 2: 1.5 (pF + pS) = 3 p2.
    let (lambda, fast, slow) = (1.5_f64, 2.0, 1.0);
    // With p2 = 1: pS = fast / (lambda + slow), pF + pS = (fast + slow) / lambda.
    let ps = fast / (lambda + slow);
    let pf = (fast + slow) / lambda - ps;
    let p0 = (fast * pf + slow * ps) / lambda;
    let rho = lambda / (fast + slow);
    let sum = p0 + pf + ps + 1.0 / (1.0 - rho);
    let jobs = (pf + ps + 2.0 / (1.0 - rho) + rho / (1.0 - rho).powi(2)) / sum;
    let kind = StationKind::Queue { servers: 2 };
    let mut network = single(poisson(lambda), kind, exponential(1.0));
    network.stations[0].speed = Speed::Servers(vec![slow, fast]);
    let outcome = run(&network, 77, 400_000);
    assert_near("jobs", outcome.stations[0].jobs, jobs, 0.02);
}

#[test]
fn a_speed_curve_is_a_birth_and_death_process() {
    // Sharing at speeds 1, 1.6, 1.2 and so on: with exponential demand p_n = prod lambda / s(k).
    let lambda = 0.9;
    let curve = vec![1.0, 1.6, 1.2];
    let mut p = vec![1.0_f64];
    for n in 1..200 {
        p.push(p[n - 1] * lambda / curve[n.min(curve.len()) - 1]);
    }
    let sum: f64 = p.iter().sum();
    let jobs: f64 = p.iter().enumerate().map(|(n, p)| n as f64 * p / sum).sum();
    let kind = StationKind::Sharing { processors: 1 };
    let mut network = single(poisson(lambda), kind, exponential(1.0));
    network.stations[0].speed = Speed::Curve(curve);
    let outcome = run(&network, 78, 400_000);
    assert_near("jobs", outcome.stations[0].jobs, jobs, 0.03);
    // It is as busy as its work is a share of the most that it can do.
    assert_near("busy", outcome.stations[0].utilisation.expect("shared"), 0.9 / 1.6, 0.01);
}

/// The story: a station was busy whenever anybody was there, so that one of speed 16 which was asked for 2 a second was
/// busy for 86 %. And a load that a station can do only as long as few are there was run until its queue was very long.
#[test]
fn a_speed_curve_is_a_limit_by_its_largest_speed_and_by_its_last() {
    let kind = StationKind::Sharing { processors: 1 };
    let mut network = single(poisson(2.0), kind, exponential(1.0));
    network.stations[0].speed = Speed::Curve((1..=16).map(f64::from).collect());
    let busy = run(&network, 80, 200_000).stations[0].utilisation;
    assert_near("busy", busy.expect("shared"), 2.0 / 16.0, 0.02);
    network.stations[0].speed = Speed::Curve(vec![1.0, 2.0, 1.6]);
    let error = sim::run(&network, &options(80, 1_000)).unwrap_err();
    assert_eq!(error.overloaded(), Some("station `station`"), "{error}");
    assert!(error.to_string().contains("1.250 times"), "{error}");
    // Behind a gate there are never more than two.
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(2)));
    let inside = std::mem::take(&mut network.classes[0].route);
    network.classes[0].route = vec![Step::Hold { gate, inside }];
    network.classes[0].load = poisson(1.5);
    let busy = run(&network, 81, 200_000).stations[0].utilisation;
    assert_near("busy", busy.expect("shared"), 0.75, 0.02);
}

#[test]
fn servers_of_a_gate_have_their_speeds() {
    let mut network = Network::default();
    let delay = add_delay(&mut network, "machine");
    let spec = GateSpec {
        servers: vec![gate::ServerSpec { slots: 1 }; 2],
        queues: gate::Queues::PerServer,
        ..GateSpec::fifo(1)
    };
    let stations = vec![delay; 2];
    let node = GateNode { stations, speeds: vec![1.0, 4.0], ..GateNode::new("pool", spec) };
    let gate = network.add_gate(node);
    let inside = vec![Step::VisitServer { demand: constant(1.0) }];
    let route = vec![Step::Hold { gate, inside }];
    network.add_class(Class::new("jobs", closed(1, no_think()), route));
    // Round robin: 1 s and 0.25 s in turn.
    let outcome = run(&network, 79, 10_000);
    assert_near("R", response(&outcome, 0), 0.625, 0.001);
}

#[test]
fn a_server_is_slow_or_down_for_a_while() {
    // One job after the other of 1 s: full speed for 10 s, a tenth for 10 s, down for 10 s, full for 10.
    let mut network = single(closed(1, no_think()), ONE, constant(1.0));
    let speed =
        |at_s, speed| Change { at_s, what: Changed::StationSpeed { station: 0, server: 0, speed } };
    network.agenda = Some(Agenda {
        length_s: Some(40.5),
        changes: vec![speed(10.0, 0.1), speed(20.0, 0.0), speed(30.0, 1.0)],
        ..Agenda::default()
    });
    let outcome = sim::run(&network, &options(80, 10)).unwrap();
    assert_eq!(outcome.stop, Stop::Agenda);
    // 10 in the first 10 s, 1 in the next, none, 10 in the last; the service that a change meets goes
    // on where it was.
    assert!((outcome.classes[0].throughput.mean * 40.5 - 21.0).abs() < 1e-9);
    assert!(outcome.classes[0].throughput.half_width < 1e-9, "nothing is left to chance");
    let busy = outcome.stations[0].utilisation.unwrap().mean * 40.5;
    assert!((busy - 30.5).abs() < 1e-6, "down is not busy: {busy}");
}

#[test]
fn stations_that_cannot_be_are_refused() {
    let refuses = |kind, change: &dyn Fn(&mut Station), cause: &str| {
        let mut network = single(poisson(0.1), kind, exponential(1.0));
        change(&mut network.stations[0]);
        let error = sim::run(&network, &options(1, 1_000)).unwrap_err().to_string();
        assert!(error.contains("station `station`") && error.contains(cause), "{error}");
    };
    refuses(ONE, &|s| s.room = Some((0, WhenFull::Lose)), "room for nobody");
    refuses(StationKind::Delay, &|s| s.order = Order::Priority, "only a queue has an order");
    refuses(ONE, &|s| s.speed = Speed::Servers(vec![1.0, 2.0]), "1 servers but 2 speeds");
    refuses(ONE, &|s| s.speed = Speed::Servers(vec![0.0]), "out of range");
    refuses(ONE, &|s| s.speed = Speed::Curve(vec![1.0]), "only a sharing station");
    let blocks = |s: &mut Station| {
        s.order = Order::Priority;
        s.room = Some((3, WhenFull::Block));
    };
    refuses(ONE, &blocks, "in a network in which stations block");
}
