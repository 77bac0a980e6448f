//! Open queues with exact results: a station with servers, and a gate with slots before a delay,
//! which is the same law by another way, since the gate's own queue does the waiting.

use gate::{DisciplineSpec, GateSpec};
use sim::{Class, Demand, GateNode, Network, StationKind, Step};
use workload::Dist;

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

#[test]
fn an_mm1_queue_has_its_mean_its_quantiles_and_its_load() {
    let outcome = run(&single(poisson(0.8), ONE, exponential(1.0)), 11, 1_500_000);
    // R = 1 / (mu - lambda), and R is exponential.
    assert_near("R", response(&outcome, 0), 5.0, 0.03);
    let quantiles = &outcome.classes[0].quantiles;
    assert_near("p50", quantile(quantiles, 0.5), 5.0 * 2_f64.ln(), 0.04);
    assert_near("p99", quantile(quantiles, 0.99), 5.0 * 100_f64.ln(), 0.06);
    assert_near("X", outcome.classes[0].throughput, 0.8, 0.005);
    let station = &outcome.stations[0];
    assert_near("utilisation", station.utilisation.unwrap(), 0.8, 0.01);
    assert_near("jobs", station.jobs, 4.0, 0.04);
    assert_near("sojourn", station.sojourn.unwrap(), 5.0, 0.03);
    assert_near("throughput", station.throughput, 0.8, 0.005);
    assert_eq!(outcome.classes[0].refused.mean, 0.0);
}

#[test]
fn an_mm4_queue_is_the_same_as_a_station_and_as_a_gate() {
    // ohmae's part A: each server 0.2/s.
    for (rate, exact, width, completions) in
        [(0.4, 5.4348, 0.012, 400_000), (0.7, 12.3786, 0.05, 700_000)]
    {
        let station = single(poisson(rate), StationKind::Queue { servers: 4 }, exponential(5.0));
        let found = run(&station, 12, completions);
        assert_near("as a station", response(&found, 0), exact, width);
        let utilisation = found.stations[0].utilisation.unwrap();
        assert_near("utilisation", utilisation, rate / 0.8, 0.02);

        let spec = GateSpec::fifo(4);
        let gate = gated(poisson(rate), spec, StationKind::Delay, exponential(5.0));
        let found = run(&gate, 13, completions);
        assert_near("as a gate", response(&found, 0), exact, width);
        let gate = &found.gates[0];
        assert_eq!(gate.slots, 4);
        assert_near("wait", gate.wait.unwrap(), exact - 5.0, width * exact / (exact - 5.0));
        assert_near("hold", gate.hold.unwrap(), 5.0, 0.01);
        assert_near("busy", gate.busy, rate * 5.0, 0.02);
        assert_near("started", gate.started, rate, 0.01);
    }
}

#[test]
fn an_mg1_queue_follows_pollaczek_and_khinchine() {
    // W = lambda E[S^2] / (2 (1 - rho)).
    let lognormal = Dist::lognormal_from_mean_scv(1.0, 4.0).unwrap();
    let hyperexponential = Dist::Hyperexponential { mean: 1.0, scv: 10.0 };
    let erlang = Dist::Erlang { mean: 1.0, stages: 4 };
    for (dist, rho, wait, width) in [
        (lognormal, 0.6, 3.75, 0.05),
        (hyperexponential, 0.5, 5.5, 0.06),
        (erlang, 0.8, 2.5, 0.04),
        (Dist::Constant(1.0), 0.8, 2.0, 0.03),
    ] {
        let station = run(&single(poisson(rho), ONE, Demand::Drawn(dist)), 14, 1_500_000);
        assert_near(&format!("{dist:?}"), response(&station, 0), wait + 1.0, width);
    }
    let delay = StationKind::Delay;
    let network = gated(poisson(0.5), GateSpec::fifo(1), delay, Demand::Drawn(hyperexponential));
    let found = run(&network, 15, 500_000);
    assert_near("as a gate", found.gates[0].wait.unwrap(), 5.5, 0.06);
    assert_near("waiting", found.gates[0].waiting, 0.5 * 5.5, 0.07);
}

#[test]
fn a_delay_makes_nobody_wait() {
    let network = single(poisson(40.0), StationKind::Delay, exponential(1.0));
    let outcome = run(&network, 16, 200_000);
    assert_near("R", response(&outcome, 0), 1.0, 0.01);
    assert_near("jobs", outcome.stations[0].jobs, 40.0, 0.01);
    assert!(outcome.stations[0].utilisation.is_none(), "a delay has no servers to be busy");
}

#[test]
fn priorities_follow_cobham() {
    // Nonpreemptive M/M/1 with two classes: W1 = W0 / (1 - rho1), W2 = W0 / ((1 - rho1) (1 - rho)),
    // W0 = lambda E[S^2] / 2 = 0.7.
    let (network, gate) = two_priorities(DisciplineSpec::Priority);
    let outcome = run(&network, 17, 800_000);
    assert_near("urgent", response(&outcome, 0), 1.0 + 1.0, 0.02);
    assert_near("patient", response(&outcome, 1), 1.0 + 0.7 / (0.7 * 0.3), 0.04);
    // The conservation law: the mean over both is that of FIFO.
    let wait = outcome.gates[gate].wait.unwrap();
    assert_near("all", wait, 0.7 / 0.3, 0.04);
}

#[test]
fn without_a_priority_discipline_priorities_are_ignored() {
    for discipline in [DisciplineSpec::Fifo, DisciplineSpec::Lifo] {
        let (network, _) = two_priorities(discipline);
        let outcome = run(&network, 18, 500_000);
        for class in [0, 1] {
            assert_near("R", response(&outcome, class), 1.0 / 0.3, 0.05);
        }
    }
}

/// Classes 0 (urgent, 0.3/s) and 1 (0.4/s) before one slot, service exponential of mean 1.
fn two_priorities(discipline: DisciplineSpec) -> (Network, usize) {
    let mut network = Network::default();
    let station = add_delay(&mut network, "work");
    let spec = GateSpec { discipline, ..GateSpec::fifo(1) };
    let gate = network.add_gate(GateNode::new("gate", spec));
    for (name, rate, priority) in [("urgent", 0.3, 1), ("patient", 0.4, 0)] {
        let inside = vec![Step::Visit { station, demand: exponential(1.0) }];
        let class = Class::new(name, poisson(rate), vec![Step::Hold { gate, inside }]);
        network.add_class(Class { priority, ..class });
    }
    (network, gate)
}
