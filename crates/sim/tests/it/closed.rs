//! Closed networks with exact results, and ohmae's software bottleneck.

use gate::{GateSpec, Queues, RouterSpec, ServerSpec};
use sim::{Class, Demand, GateNode, Network, StationKind, Step};
use workload::Dist;

use crate::support::*;

const RING: [f64; 4] = [1.0, 0.8, 0.6, 0.4];

#[test]
fn a_ring_of_stations_and_a_ring_of_gates_are_both_exact() {
    // Mean value analysis in rational numbers: X, and R = N / X.
    let (x, r) = (0.953956715634138, 10.482655906827544);
    let mut stations = Network::default();
    let steps = RING.map(|mean| {
        let station = add_queue(&mut stations, &format!("S{mean}"), 1);
        Step::Visit { station, demand: exponential(mean) }
    });
    stations.add_class(Class::new("jobs", closed(10, no_think()), steps.into()));
    let mut gates = Network::default();
    let steps = RING.map(|mean| {
        let station = add_delay(&mut gates, &format!("S{mean}"));
        let gate = gates.add_gate(GateNode::new(&format!("G{mean}"), GateSpec::fifo(1)));
        Step::Hold { gate, inside: vec![Step::Visit { station, demand: exponential(mean) }] }
    });
    gates.add_class(Class::new("jobs", closed(10, no_think()), steps.into()));
    for (network, seed) in [(stations, 31), (gates, 32)] {
        let outcome = run(&network, seed, 500_000);
        assert_near("X", outcome.classes[0].throughput, x, 0.006);
        assert_near("R", response(&outcome, 0), r, 0.006);
        for (gate, mean) in outcome.gates.iter().zip(RING) {
            assert_near("slots held", gate.busy, x * mean, 0.01);
        }
    }
}

#[test]
fn many_servers_and_many_thinkers_are_exact() {
    // 8 servers, S = 4, Z = 10, N = 40: birth-death chain. Only the mean of the think time counts.
    let (x, r) = (1.998403182308262, 10.01598093623823);
    for think in [Dist::Exponential { mean: 10.0 }, Dist::Uniform { low: 0.0, high: 20.0 }] {
        let kind = StationKind::Queue { servers: 8 };
        let outcome = run(&single(closed(40, think), kind, exponential(4.0)), 33, 500_000);
        assert_near("X", outcome.classes[0].throughput, x, 0.005);
        assert_near("R", response(&outcome, 0), r, 0.01);
    }
    // As a gate of 8 slots.
    let load = closed(40, Dist::Exponential { mean: 10.0 });
    let network = gated(load, GateSpec::fifo(8), StationKind::Delay, exponential(4.0));
    assert_near("gate", response(&run(&network, 34, 300_000), 0), r, 0.01);
}

#[test]
fn one_repairer_and_five_machines_are_exact() {
    let kind = StationKind::Queue { servers: 1 };
    let load = closed(5, Dist::Exponential { mean: 10.0 });
    let outcome = run(&single(load, kind, exponential(3.0)), 35, 300_000);
    assert_near("X", outcome.classes[0].throughput, 0.28693134361601424, 0.01);
    assert_near("R", response(&outcome, 0), 7.425771395303706, 0.01);
    assert_near("U", outcome.stations[0].utilisation.unwrap(), 0.8607940308480427, 0.01);
}

/// ohmae's model of table 3.1 as the digest of the papers infers it: 10 clients of constant think time
/// 10 s, a task held while a virtual task server dispatches (0.5 s, nobody waits for it) and one of
/// four servers works (round robin over FIFO queues, exponential).
fn software_bottleneck(tasks: u32, service_s: f64) -> Network {
    let mut network = Network::default();
    let dispatcher = add_delay(&mut network, "task server");
    let stations = (1..=4).map(|n| add_queue(&mut network, &format!("server {n}"), 1)).collect();
    let pool = network.add_gate(GateNode::new("tasks", GateSpec::fifo(tasks)));
    // A server's slots never run out, so the queue is the station's own: at most 10 come.
    let spec = GateSpec {
        servers: vec![ServerSpec { slots: 10 }; 4],
        queues: Queues::PerServer,
        router: RouterSpec::RoundRobin,
        ..GateSpec::fifo(1)
    };
    let servers = network.add_gate(GateNode { stations, ..GateNode::new("servers", spec) });
    let serve = Step::Hold {
        gate: servers,
        inside: vec![Step::VisitServer { demand: exponential(service_s) }],
    };
    let dispatch = Step::Visit { station: dispatcher, demand: constant(0.5) };
    let route = vec![Step::Hold { gate: pool, inside: vec![dispatch, serve] }];
    network.add_class(Class::new("clients", closed(10, Dist::Constant(10.0)), route));
    network
}

#[test]
fn ohmaes_software_bottleneck_is_reproduced() {
    // Table 3.1. The digest: with a service mean of 4.85 s, tasks 2 to 10 come within about 3.5 %;
    // the paper's numbers are one short run each, so 4 % is what can be asked.
    let stated = [17.9, 11.3, 9.35, 8.69, 8.30, 8.23, 8.26, 8.28, 8.28];
    for (tasks, stated) in (2..=10).zip(stated) {
        let found = response(&run(&software_bottleneck(tasks, 4.85), 36, 200_000), 0);
        assert!(found.relative() < 0.012, "{tasks} tasks: {found:?}");
        let off = found.mean / stated - 1.0;
        assert!(off.abs() < 0.04, "{tasks} tasks: {} s, the paper has {stated} s", found.mean);
    }
}

#[test]
fn one_task_before_fast_servers_serves_like_many_before_slow_ones() {
    // Table 3.2, one task: nobody else is at the servers, so R follows from the hold alone; the
    // claim: 6 tasks at today's servers equal one task at servers four times as fast.
    let many = run(&software_bottleneck(6, 5.0), 37, 60_000);
    let fast = run(&software_bottleneck(1, 1.25), 37, 60_000);
    let stated = 7.24;
    let found = response(&fast, 0).mean;
    assert!((found / stated - 1.0).abs() < 0.1, "{found} s, the paper has {stated} s");
    // In the paper 8.30 and 7.24 s, 0.54 and 0.58 a second.
    let x = |outcome: &sim::Outcome| outcome.classes[0].throughput.mean;
    assert!((x(&many) / x(&fast) - 1.0).abs() < 0.1, "{} and {} a second", x(&many), x(&fast));
    let busy = fast.gates[0].busy;
    assert!(busy.mean > 0.98, "one task is the bottleneck: {busy:?}");
}

#[test]
fn a_pool_around_a_pool_holds_the_outer_slot_all_the_time() {
    // 10 customers without think time, 3 threads, each computing for 2 s (exponential) and then
    // waiting for the only database connection for 1 s of work: with the 3 threads always busy the
    // connection sees a closed network of 3 with think time 2, so X = 0.789474 and the thread is held
    // for 3 / X = 3.8 s.
    let mut network = Network::default();
    let cpu = add_delay(&mut network, "cpu");
    let db = add_delay(&mut network, "db");
    let threads = network.add_gate(GateNode::new("threads", GateSpec::fifo(3)));
    let connections = network.add_gate(GateNode::new("connections", GateSpec::fifo(1)));
    let query = vec![Step::Visit { station: db, demand: exponential(1.0) }];
    let inside = vec![
        Step::Visit { station: cpu, demand: exponential(2.0) },
        Step::Hold { gate: connections, inside: query },
    ];
    let route = vec![Step::Hold { gate: threads, inside }];
    network.add_class(Class::new("jobs", closed(10, no_think()), route));
    let outcome = run(&network, 38, 300_000);
    assert_near("X", outcome.classes[0].throughput, 0.7894736842105263, 0.01);
    assert_near("threads held", outcome.gates[threads].busy, 3.0, 1e-9);
    assert_near("thread hold", outcome.gates[threads].hold.unwrap(), 3.8, 0.01);
    assert_near("db hold", outcome.gates[connections].hold.unwrap(), 1.0, 0.01);
    assert_near("db wait", outcome.gates[connections].wait.unwrap(), 0.8, 0.02);
    assert_near("R", response(&outcome, 0), 10.0 / 0.7894736842105263, 0.01);
}

#[test]
fn a_class_may_visit_the_same_gate_again() {
    // Two rounds through one slot of constant 1 s, 4 customers: every visit takes 4 s in the mean.
    let mut network = Network::default();
    let work = add_delay(&mut network, "work");
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(1)));
    let demand = || Demand::Drawn(Dist::Constant(1.0));
    let visit =
        || Step::Hold { gate, inside: vec![Step::Visit { station: work, demand: demand() }] };
    network.add_class(Class::new("jobs", closed(4, no_think()), vec![visit(), visit()]));
    let outcome = run(&network, 39, 4_000);
    assert_near("R", response(&outcome, 0), 8.0, 1e-6);
    assert_near("wait", outcome.gates[0].wait.unwrap(), 3.0, 1e-6);
}
