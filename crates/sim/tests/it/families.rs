//! Jobs that make other jobs, or become others: second phases, sends, forks, classes.

use gate::GateSpec;
use sim::{Class, GateNode, Join, Load, Network, SimError, Station, StationKind, Step};
use workload::Dist;

use crate::support::*;

fn visit(station: usize, mean: f64) -> Step {
    Step::Visit { station, demand: exponential(mean) }
}

fn fixed(station: usize, seconds: f64) -> Step {
    Step::Visit { station, demand: constant(seconds) }
}

/// A gate of one slot whose job replies after one second at `first` and keeps the slot for another.
fn two_phases(load: Load) -> Network {
    let mut network = Network::default();
    let first = add_delay(&mut network, "first phase");
    let second = add_delay(&mut network, "second phase");
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(1)));
    let inside = vec![fixed(first, 1.0), Step::Reply, fixed(second, 1.0)];
    network.add_class(Class::new("jobs", load, vec![Step::Hold { gate, inside }]));
    network
}

#[test]
fn a_second_phase_keeps_the_slot_while_the_client_goes_on() {
    // One client without think time: it comes back when it has its answer, and finds the slot taken for
    // another second. Each cycle takes 2 s, of which the client waits 1 s for the slot.
    let outcome = run(&two_phases(closed(1, no_think())), 61, 20_000);
    assert_near("X", outcome.classes[0].throughput, 0.5, 1e-3);
    assert_near("R", response(&outcome, 0), 2.0, 1e-3);
    assert_near("slot", outcome.gates[0].busy, 1.0, 1e-3);
    assert_near("hold", outcome.gates[0].hold.unwrap(), 2.0, 1e-3);
    // With 3 s of think time it never waits: an answer takes one second, the slot is held for two.
    let outcome = run(&two_phases(closed(1, Dist::Constant(3.0))), 62, 20_000);
    assert_near("R", response(&outcome, 0), 1.0, 1e-3);
    assert_near("slot", outcome.gates[0].busy, 0.5, 1e-3);
}

#[test]
fn an_open_second_phase_is_a_vacation() {
    // M/G/1 whose server is held for two exponential phases: the wait is Pollaczek and Khinchine's of
    // the sum, E[S] = 0.8, E[S^2] = 2 (0.5^2 + 0.3^2) + 2 * 0.5 * 0.3 = 0.98; the client sees the first
    // phase only. lambda = 0.9: W = 0.9 * 0.98 / (2 (1 - 0.72)) = 1.575.
    let mut network = Network::default();
    let [first, second] = ["first", "second"].map(|name| add_delay(&mut network, name));
    let gate = network.add_gate(GateNode::new("gate", GateSpec::fifo(1)));
    let inside = vec![visit(first, 0.5), Step::Reply, visit(second, 0.3)];
    network.add_class(Class::new("jobs", poisson(0.9), vec![Step::Hold { gate, inside }]));
    let outcome = run(&network, 63, 600_000);
    assert_near("R", response(&outcome, 0), 1.575 + 0.5, 0.02);
    assert_near("slot", outcome.gates[0].busy, 0.72, 0.01);
}

#[test]
fn nobody_waits_for_what_is_sent() {
    let mut network = Network::default();
    let disk = add_queue(&mut network, "disk", 1);
    let cpu = add_delay(&mut network, "cpu");
    let route = vec![Step::Send { way: vec![visit(disk, 1.0)] }, visit(cpu, 0.1)];
    network.add_class(Class::new("jobs", poisson(0.8), route));
    let outcome = run(&network, 64, 400_000);
    assert_near("R", response(&outcome, 0), 0.1, 0.01);
    // The disk is M/M/1 at rho 0.8.
    assert_near("disk", outcome.stations[disk].sojourn.unwrap(), 5.0, 0.05);
    assert_near("X", outcome.classes[0].throughput, 0.8, 0.01);
}

#[test]
fn what_is_sent_counts_as_work() {
    let mut network = Network::default();
    let disk = add_queue(&mut network, "disk", 1);
    let cpu = add_delay(&mut network, "cpu");
    let route = vec![Step::Send { way: vec![visit(disk, 1.0)] }, fixed(cpu, 0.1)];
    network.add_class(Class::new("jobs", poisson(1.25), route));
    let error = sim::run(&network, &options(1, 1_000)).unwrap_err().to_string();
    assert!(error.contains("station `disk`") && error.contains("1.250 times"), "{error}");
    // Where a closed load sends more than the disk can do, the run finds it. Its responses alone are as
    // precise as can be all the while: the run once stopped there, with a disk queue that grew.
    network.classes[0].load = closed(5, Dist::Constant(1.0));
    let error = sim::run(&network, &options(1, 10_000_000)).unwrap_err();
    assert!(matches!(error, SimError::Unbounded { .. }), "{error}");
}

fn forked(join: Join) -> Network {
    let mut network = Network::default();
    let ways: Vec<Vec<Step>> =
        ["left", "right"].map(|name| vec![visit(add_queue(&mut network, name, 1), 1.0)]).into();
    network.add_class(Class::new("jobs", poisson(0.5), vec![Step::Fork { ways, join }]));
    network
}

#[test]
fn a_pair_of_queues_joins_as_flatto_and_hahn_say() {
    // Two M/M/1 fed by the same Poisson stream: R = (12 - rho) / 8 * R1 (Flatto and Hahn 1984; Nelson
    // and Tantawi 1988). rho = 0.5, R1 = 2: 2.875.
    let outcome = run(&forked(Join::All), 65, 400_000);
    assert_near("R of both", response(&outcome, 0), 2.875, 0.02);
    // The sum of maximum and minimum is that of the two: the first one takes 4 - 2.875.
    let outcome = run(&forked(Join::First(1)), 66, 400_000);
    assert_near("R of the first", response(&outcome, 0), 1.125, 0.02);
    assert_near("left", outcome.stations[0].utilisation.unwrap(), 0.5, 0.02);
}

#[test]
fn a_quorum_is_the_order_statistic() {
    // Three delays of mean 1, two of them waited for: 1/3 + 1/2.
    let mut network = Network::default();
    let delay = add_delay(&mut network, "replica");
    let ways = vec![vec![visit(delay, 1.0)]; 3];
    let route = vec![Step::Fork { ways, join: Join::First(2) }];
    network.add_class(Class::new("jobs", closed(4, no_think()), route));
    let outcome = run(&network, 67, 200_000);
    assert_near("R", response(&outcome, 0), 5.0 / 6.0, 0.01);
}

#[test]
fn a_fork_fails_when_its_quorum_cannot_be() {
    // One way is always refused: its gate has no room, and a job that never leaves holds the slot.
    let network = |join| {
        let mut network = Network::default();
        let delay = add_delay(&mut network, "delay");
        let spec = GateSpec { room: Some(0), ..GateSpec::fifo(1) };
        let gate = network.add_gate(GateNode::new("gate", spec));
        let hold = Step::Hold { gate, inside: vec![fixed(delay, 1.0)] };
        // Of the two that come at once, one gets in.
        let ways = vec![vec![hold.clone()], vec![hold]];
        let route = vec![Step::Fork { ways, join }];
        network.add_class(Class::new("jobs", closed(1, Dist::Constant(2.0)), route));
        run(&network, 68, 10_000)
    };
    let all = network(Join::All);
    assert!(all.classes[0].response.is_none(), "it never has both");
    assert_near("refused", all.classes[0].refused, 0.5, 0.01);
    let first = network(Join::First(1));
    assert_near("R", response(&first, 0), 1.0, 1e-6);
    assert_eq!(first.classes[0].refused.mean, 0.0);
}

#[test]
fn a_job_that_changes_its_class_is_seen_as_that() {
    // Half of the jobs become urgent before a gate by priority. Cobham: lambda = 0.4 each, mean 1,
    // W0 = 0.8, W1 = 0.8 / (1 - 0.4), W2 = 0.8 / (0.6 * 0.2). Counted where they end.
    let mut network = Network::default();
    let delay = add_delay(&mut network, "delay");
    let spec = GateSpec { discipline: gate::DisciplineSpec::Priority, ..GateSpec::fifo(1) };
    let gate = network.add_gate(GateNode::new("gate", spec));
    let hold = Step::Hold { gate, inside: vec![visit(delay, 1.0)] };
    let become_urgent = Step::Choose(vec![(0.5, vec![Step::Become { class: 1 }])]);
    network.add_class(Class::new("plain", poisson(0.8), vec![become_urgent, hold]));
    network.add_class(Class { priority: 1, ..Class::new("urgent", Load::Within, vec![]) });
    let outcome = run(&network, 69, 1_000_000);
    assert_near("plain", response(&outcome, 0), 1.0 + 0.8 / 0.12, 0.04);
    assert_near("urgent", response(&outcome, 1), 1.0 + 0.8 / 0.6, 0.02);
    assert_near("X urgent", outcome.classes[1].throughput, 0.4, 0.01);
    assert_near("offered", outcome.classes[0].offered, 0.8, 0.01);
    assert_eq!(outcome.classes[1].offered.mean, 0.0);
}

#[test]
fn families_that_cannot_be_are_refused() {
    let refuses = |step: Step, cause: &str| {
        let mut network = Network::default();
        let station = network.add_station(Station::new("delay", StationKind::Delay));
        network.add_class(Class::new("jobs", poisson(1.0), vec![visit(station, 1.0), step]));
        let error = sim::run(&network, &options(1, 1_000)).unwrap_err().to_string();
        assert!(error.contains("class `jobs`") && error.contains(cause), "{error}");
    };
    refuses(Step::Reply, "it replies where it cannot");
    refuses(Step::Send { way: vec![] }, "a way without steps");
    let ways = vec![vec![visit(0, 1.0)]];
    refuses(Step::Fork { ways: ways.clone(), join: Join::First(2) }, "waits for 2 of them");
    refuses(Step::Fork { ways, join: Join::First(0) }, "waits for 0 of them");
    refuses(Step::Become { class: 7 }, "class 7, which does not exist");
    refuses(Step::Lookup { cache: 0, hit: vec![], miss: vec![] }, "cache 0, which does not exist");
}
