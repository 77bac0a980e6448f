//! Gates that turn jobs away: for lack of room, or because a deadline has passed.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{Action, EarlyRejection, Event, GateSpec, Reason};
use sim::{Class, Demand, GateNode, Network, Options, StationKind, Step};
use workload::Dist;

use crate::support::*;

const DELAY: StationKind = StationKind::Delay;

#[test]
fn a_gate_without_room_loses_what_erlang_says() {
    // B(4, 3); only the mean hold counts.
    let exact = 0.20610687022900764;
    for dist in [
        Dist::Exponential { mean: 1.5 },
        Dist::lognormal_from_mean_scv(1.5, 4.0).unwrap(),
        Dist::Uniform { low: 1.0, high: 2.0 },
    ] {
        let spec = GateSpec { room: Some(0), ..GateSpec::fifo(4) };
        let network = gated(poisson(2.0), spec, DELAY, Demand::Drawn(dist));
        let outcome = run(&network, 41, 500_000);
        let gate = &outcome.gates[0];
        assert_near("refused share", gate.refused_full, exact, 0.02);
        assert_eq!(gate.refused_deadline.mean, 0.0);
        assert_near("refused", outcome.classes[0].refused, 2.0 * exact, 0.02);
        assert_near("X", outcome.classes[0].throughput, 2.0 * (1.0 - exact), 0.01);
        assert_near("busy", gate.busy, 3.0 * (1.0 - exact), 0.01);
        assert_eq!(gate.wait.unwrap().mean, 0.0, "without room nobody waits");
    }
}

/// A gate with room bounds its queue, so a load beyond what its station can do is no mistake: the
/// check for too much work once took it for one.
#[test]
fn a_gate_with_room_may_be_overloaded() {
    // M/M/1/3 with twice the load: 8/15 are refused.
    let spec = GateSpec { room: Some(2), ..GateSpec::fifo(1) };
    let kind = StationKind::Queue { servers: 1 };
    let outcome = run(&gated(poisson(2.0), spec, kind, exponential(1.0)), 42, 300_000);
    assert_near("refused share", outcome.gates[0].refused_full, 0.5333333333333333, 0.01);
    assert_near("U", outcome.stations[0].utilisation.unwrap(), 2.0 * 7.0 / 15.0, 0.01);
}

#[test]
fn deadlines_lose_what_barrer_says() {
    // M/M/1 with constant patience t: P(loss) = lambda p0 e^(-(mu - lambda) t) / mu, with p0 from
    // the sum of all probabilities (Barrer 1957); below and above the capacity.
    for (rate, wait_s, exact) in [(0.8, 3.0, 0.13535018641708815), (1.2, 2.0, 0.3118179169976317)] {
        let wait_max = Some(Duration::from_secs_f64(wait_s));
        let spec = GateSpec { wait_max, ..GateSpec::fifo(1) };
        let outcome = run(&gated(poisson(rate), spec, DELAY, exponential(1.0)), 43, 400_000);
        let gate = &outcome.gates[0];
        assert_near("refused share", gate.refused_deadline, exact, 0.03);
        assert_eq!(gate.refused_full.mean, 0.0);
        // Who is served came in time, and the slot is busy for them alone.
        let longest = gate.wait_histogram.max().as_secs_f64();
        assert!(longest <= wait_s * 1.001, "a wait of {longest} s");
        assert_near("busy", gate.busy, rate * (1.0 - exact), 0.02);
    }
}

/// Twice the load that two slots can bear, and patience of 10 mean holds: whom early rejection refuses would
/// have been refused later, so that as much is served; and hardly anybody waits in vain.
#[test]
fn early_rejection_refuses_those_alone_who_would_be_refused() {
    let outcome = |early_rejection| {
        let wait_max = Some(Duration::from_secs(10));
        let spec = GateSpec { wait_max, early_rejection, ..GateSpec::fifo(2) };
        let network = gated(poisson(4.0), spec, DELAY, exponential(1.0));
        let options = Options { record: Some((0, 60_000)), ..options(48, 100_000) };
        let outcome = sim::run(&network, &options).unwrap();
        let recording = outcome.recording.as_ref().unwrap();
        assert_eq!(recording.replay(), Ok(()));
        let actions = recording.steps.iter().flat_map(|step| &step.actions);
        let (mut early, mut late) = (0.0, 0.0);
        for action in actions {
            match action {
                Action::Refuse { reason: Reason::Hopeless, .. } => early += 1.0,
                Action::Refuse { .. } => late += 1.0,
                Action::Start { .. } => {}
            }
        }
        (outcome.classes[0].throughput.mean, early, late)
    };
    let (with, early, late) = outcome(Some(EarlyRejection::default()));
    let (without, none, _) = outcome(None);
    assert_eq!(none, 0.0);
    assert!((with / without - 1.0).abs() < 0.01, "{with} with early rejection, {without} without");
    // What is left is the caution of two standard deviations: a rate up to a fifth too high.
    println!("foreseen {early}, refused at the deadline {late}, throughput {with} of {without}");
    assert!(early > late, "{early} of {}", early + late);
}

#[test]
fn who_waits_in_vain_leaves_at_the_deadline() {
    let wait_max = Duration::from_millis(700);
    let spec = GateSpec { wait_max: Some(wait_max), ..GateSpec::fifo(1) };
    // Rare and long jobs, so that hardly any other event could remind the gate.
    let network = gated(poisson(0.3), spec, DELAY, exponential(10.0));
    let options = Options { record: Some((0, 2_000)), ..options(47, 10_000) };
    let steps = sim::run(&network, &options).unwrap().recording.unwrap().steps;
    let mut arrived = BTreeMap::new();
    let mut refused = 0;
    for step in &steps {
        if let Event::Arrive(job) = step.event {
            arrived.insert(job.id, step.at);
        }
        for action in &step.actions {
            if let Action::Refuse { job, reason } = action {
                assert_eq!(*reason, Reason::Deadline);
                assert_eq!(step.at, arrived[job] + wait_max, "to the nanosecond");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn no_patience_is_no_room_and_much_patience_is_a_queue() {
    let network = |wait_max| {
        let spec = GateSpec { wait_max: Some(wait_max), ..GateSpec::fifo(4) };
        gated(poisson(2.0), spec, DELAY, exponential(1.5))
    };
    let outcome = run(&network(Duration::ZERO), 44, 200_000);
    assert_near("Erlang B", outcome.gates[0].refused_deadline, 0.20610687022900764, 0.02);
    let outcome = run(&network(Duration::from_secs(10_000)), 44, 300_000);
    assert_eq!(outcome.classes[0].refused.mean, 0.0);
    // M/M/4 at 3 Erlang: R = 1.5 + C(4, 3) / (4 / 1.5 - 2), C = 0.50943.
    assert_near("Erlang C", response(&outcome, 0), 1.5 + 0.509433962 / (4.0 / 1.5 - 2.0), 0.03);
}

#[test]
fn who_is_refused_inside_gives_back_what_it_holds_outside() {
    // Two outer slots, an inner gate of one slot without room: if a refused job kept its outer slot,
    // all would be gone after two refusals. The inner gate sees a closed loop of 2 customers:
    // computing 1 s, then 1 s in the inner slot unless it is held. By the three states (n in the
    // slot, 0 or 1): the slot is free for 1/2 s per 1 s of work, so it is held for 2/3 of the time.
    let mut network = Network::default();
    let cpu = add_delay(&mut network, "cpu");
    let db = add_delay(&mut network, "db");
    let outer = network.add_gate(GateNode::new("outer", GateSpec::fifo(2)));
    let spec = GateSpec { room: Some(0), ..GateSpec::fifo(1) };
    let inner = network.add_gate(GateNode::new("inner", spec));
    let query = vec![Step::Visit { station: db, demand: exponential(1.0) }];
    let inside = vec![
        Step::Visit { station: cpu, demand: exponential(1.0) },
        Step::Hold { gate: inner, inside: query },
    ];
    let route = vec![Step::Hold { gate: outer, inside }];
    network.add_class(Class::new("jobs", closed(6, no_think()), route));
    let outcome = run(&network, 45, 200_000);
    assert_near("outer", outcome.gates[outer].busy, 2.0, 1e-9);
    assert_near("inner", outcome.gates[inner].busy, 2.0 / 3.0, 0.01);
    // Arrivals at the inner gate while it is held: 1 a second for 2/3 of the time; while it is free
    // 2 a second for 1/3.
    assert_near("refused", outcome.classes[0].refused, 2.0 / 3.0, 0.02);
    assert_near("completed", outcome.classes[0].throughput, 2.0 / 3.0, 0.02);
    let served = outcome.gates[inner].started.mean;
    assert!((served - outcome.classes[0].throughput.mean).abs() < 1e-3, "all served complete");
}

#[test]
fn every_job_is_completed_or_refused() {
    let spec = GateSpec {
        room: Some(3),
        wait_max: Some(Duration::from_millis(1_500)),
        ..GateSpec::fifo(2)
    };
    let outcome = run(&gated(poisson(3.0), spec, DELAY, exponential(1.0)), 46, 300_000);
    let (class, gate) = (&outcome.classes[0], &outcome.gates[0]);
    let all = class.throughput.mean + class.refused.mean;
    assert!((all - 3.0).abs() < 0.03, "five standard errors of 250 000 arrivals: {all}");
    assert!(gate.refused_full.mean > 0.05 && gate.refused_deadline.mean > 0.05, "{gate:?}");
    let shares = gate.refused_full.mean + gate.refused_deadline.mean;
    let share = class.refused.mean / all;
    assert!((shares - share).abs() < 1e-3, "{shares} and {share} are of nearly the same jobs");
    assert_eq!(
        outcome.classes[0].histogram.len(),
        gate.wait_histogram.len(),
        "within one in flight"
    );
}
