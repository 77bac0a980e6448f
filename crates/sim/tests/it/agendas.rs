//! Loads that change over time, traces, and runs of a set length.

use gate::GateSpec;
use sim::{
    Agenda, Change, Changed, Class, Demand, Load, Network, Options, Order, Plan, Speed,
    StationKind, Step, Stop,
};
use workload::{Pieces, RateCurve, Trace, TraceJob};

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

fn job(at: f64, demand: f64) -> TraceJob {
    TraceJob { at, demand: Some(demand), ..TraceJob::default() }
}

fn replay(jobs: Vec<TraceJob>, period: Option<f64>) -> Network {
    let load = Load::Trace(Trace::new(jobs, period).unwrap());
    let mut network = single(load, ONE, Demand::OfTrace);
    network.agenda = Some(Agenda::default());
    network
}

#[test]
fn a_trace_is_replayed_to_its_end() {
    // By hand: 0 to 2, 2 to 5 (came at 1), 6 to 7.
    let outcome =
        sim::run(&replay(vec![job(0.0, 2.0), job(1.0, 3.0), job(6.0, 1.0)], None), &options(1, 10))
            .unwrap();
    assert_eq!(outcome.stop, Stop::Agenda);
    let mean = response(&outcome, 0).mean;
    assert!((mean - (2.0 + 4.0 + 1.0) / 3.0).abs() < 1e-9, "{mean}");
    assert!((outcome.counted_s - 70.0).abs() < 1e-6, "7 s in each of 10: {}", outcome.counted_s);
    assert!((outcome.stations[0].utilisation.unwrap().mean - 6.0 / 7.0).abs() < 1e-9);
}

#[test]
fn one_run_is_not_for_what_ends() {
    let network = replay(vec![job(0.0, 2.0)], None);
    let one_run = Options { plan: Plan::OneRun, ..options(1, 10) };
    let error = sim::run(&network, &one_run).unwrap_err().to_string();
    assert!(error.contains("`plan`") && error.contains("take replications"), "{error}");
}

#[test]
fn a_trace_that_begins_anew_needs_a_length() {
    let mut network = replay(vec![job(0.0, 1.0), job(0.5, 1.0)], Some(4.0));
    let error = sim::run(&network, &options(1, 10)).unwrap_err().to_string();
    assert!(error.contains("class `jobs`") && error.contains("needs a length"), "{error}");
    let agenda =
        Agenda { length_s: Some(40.0), intervals: 4, period_s: Some(4.0), ..Agenda::default() };
    network.agenda = Some(agenda);
    let outcome = sim::run(&network, &options(1, 10)).unwrap();
    let jobs: Vec<f64> =
        outcome.intervals.iter().map(|interval| interval.stations[0].jobs.mean).collect();
    assert_eq!(jobs.len(), 4);
    for (found, exact) in jobs.iter().zip([1.5, 1.0, 0.0, 0.0]) {
        assert!((found - exact).abs() < 1e-6, "{jobs:?}");
    }
    let throughput: Vec<f64> =
        outcome.intervals.iter().map(|interval| interval.classes[0].throughput.mean).collect();
    for (found, exact) in throughput.iter().zip([0.0, 1.0, 1.0, 0.0]) {
        // What ends at a border belongs to one side of it or the other.
        assert!((found - exact).abs() < 1.01, "{throughput:?}");
    }
    assert!((throughput.iter().sum::<f64>() - 2.0).abs() < 0.12, "{throughput:?}");
}

#[test]
fn sizes_of_a_trace_are_sizes() {
    let sized = |at: f64, size: f64| TraceJob { at, size: Some(size), demand: None };
    let load = Load::Trace(Trace::new(vec![sized(0.0, 100.0), sized(9.0, 300.0)], None).unwrap());
    let mut network =
        single(load, StationKind::Delay, Demand::OfSize { per_byte_s: 0.01, base_s: 0.5 });
    network.agenda = Some(Agenda::default());
    let outcome = sim::run(&network, &options(1, 10)).unwrap();
    assert!((response(&outcome, 0).mean - 2.5).abs() < 1e-9);
    let sizes: Vec<f64> = outcome.classes[0].sizes.iter().map(|size| size.size_mean).collect();
    assert_eq!(sizes, [100.0, 300.0]);
}

#[test]
fn a_varying_load_on_a_delay_follows_its_differential_equation() {
    // M(t)/M/inf: m' = lambda(t) - m / S, exact (Eick, Massey and Whitt 1993). A period of 8 s with
    // 5/s in its first half; S = 2 s. In the periodic state m rises to m1 and falls to m0 = m1 e^-2,
    // with m1 = 10 + (m0 - 10) e^-2, so m1 = 10 / (1 + e^-2).
    let points = vec![(0.0, 5.0), (4.0, 0.0)];
    let curve = RateCurve::new(points, Pieces::Constant, Some(8.0)).unwrap();
    let mut network = single(Load::Varying(curve), StationKind::Delay, exponential(2.0));
    network.agenda = Some(Agenda {
        length_s: Some(8.0 * 2_000.0),
        intervals: 2,
        period_s: Some(8.0),
        ..Agenda::default()
    });
    let outcome = run(&network, 97, 10);
    let decay = (-2.0_f64).exp();
    let (m1, half) = (10.0 / (1.0 + decay), 4.0);
    let m0 = m1 * decay;
    // Integrals over each half: m = 10 + (m0 - 10) e^(-t/2), and m = m1 e^(-t/2).
    let rising = 10.0 + (m0 - 10.0) * 2.0 * (1.0 - decay) / half;
    let falling = m1 * 2.0 * (1.0 - decay) / half;
    assert_near("rising", outcome.intervals[0].stations[0].jobs, rising, 0.01);
    assert_near("falling", outcome.intervals[1].stations[0].jobs, falling, 0.01);
    assert_near("offered", outcome.intervals[0].classes[0].offered, 5.0, 0.01);
    assert_eq!(outcome.intervals[1].classes[0].offered.mean, 0.0);
    assert!((outcome.intervals[1].from_s, outcome.intervals[1].to_s) == (4.0, 8.0));
}

#[test]
fn a_load_that_changes_makes_no_claim_of_a_steady_state() {
    let curve = RateCurve::new(vec![(0.0, 0.5)], Pieces::Linear, None).unwrap();
    let network = single(Load::Varying(curve), ONE, exponential(1.0));
    let error = sim::run(&network, &options(1, 10)).unwrap_err().to_string();
    assert!(error.contains("class `jobs`") && error.contains("no steady state"), "{error}");
}

#[test]
fn slots_change_when_the_agenda_says() {
    // Two customers, one slot, two from 10 s on: 1 s each.
    let mut network =
        gated(closed(2, no_think()), GateSpec::fifo(1), StationKind::Delay, constant(1.0));
    let change = |at_s, slots| Change { at_s, what: Changed::Slots { gate: 0, server: 0, slots } };
    network.agenda = Some(Agenda {
        length_s: Some(30.0),
        intervals: 3,
        changes: vec![change(10.0, 2), change(20.0, 0), change(29.5, 1)],
        ..Agenda::default()
    });
    let outcome = sim::run(&network, &options(1, 10)).unwrap();
    let busy: Vec<f64> = outcome.intervals.iter().map(|at| at.gates[0].busy.mean).collect();
    for (found, exact) in busy.iter().zip([1.0, 2.0, 0.05]) {
        assert!((found - exact).abs() < 1e-9, "{busy:?}");
    }
}

#[test]
fn an_outage_of_the_only_gate_is_no_deadlock() {
    // Two customers, one slot, none from 10 to 20 s, and from 30 s on. Intervals of 1 s end meanwhile.
    let mut network =
        gated(closed(2, no_think()), GateSpec::fifo(1), StationKind::Delay, constant(1.0));
    let change = |at_s, slots| Change { at_s, what: Changed::Slots { gate: 0, server: 0, slots } };
    network.agenda = Some(Agenda {
        length_s: Some(40.0),
        intervals: 40,
        changes: vec![change(10.0, 0), change(20.0, 1), change(30.0, 0)],
        ..Agenda::default()
    });
    let outcome = sim::run(&network, &options(1, 10)).unwrap();
    let busy = |from: usize| outcome.intervals[from].gates[0].busy.mean;
    assert!((busy(5) - 1.0).abs() < 1e-9 && (busy(25) - 1.0).abs() < 1e-9);
    assert_eq!((busy(15), busy(35)), (0.0, 0.0), "nobody is served without a slot");
}

#[test]
fn the_same_seed_is_the_same_on_any_number_of_threads() {
    let points = vec![(0.0, 1.0), (5.0, 3.0)];
    let curve = RateCurve::new(points, Pieces::Linear, Some(10.0)).unwrap();
    let kind = StationKind::Queue { servers: 2 };
    let mut network = single(Load::Varying(curve), kind, exponential(0.8));
    network.stations[0].order = Order::Preemptive;
    network.stations[0].speed = Speed::Servers(vec![1.0, 2.0]);
    network.agenda = Some(Agenda { length_s: Some(200.0), intervals: 5, ..Agenda::default() });
    let on = |threads| {
        let options = sim::Options { threads: Some(threads), ..options(98, 10) };
        format!("{:?}", sim::run(&network, &options).unwrap())
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn agendas_that_cannot_be_are_refused() {
    let refuses = |agenda: Agenda, cause: &str| {
        let mut network = single(poisson(0.5), ONE, exponential(1.0));
        network.agenda = Some(agenda);
        let error = sim::run(&network, &options(1, 10)).unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
    };
    let lasting = |length| Agenda { length_s: Some(length), ..Agenda::default() };
    refuses(lasting(0.0), "its length must be above 0 s");
    refuses(lasting(f64::NAN), "its length must be above 0 s");
    refuses(Agenda::default(), "needs a length");
    refuses(Agenda { period_s: Some(6.0), ..lasting(10.0) }, "at least two of them");
    let change = |at_s, what| Agenda { changes: vec![Change { at_s, what }], ..lasting(10.0) };
    let speed = |station, server, speed| Changed::StationSpeed { station, server, speed };
    refuses(change(10.0, speed(0, 0, 1.0)), "before 10 s");
    refuses(change(1.0, speed(7, 0, 1.0)), "station 7 does not exist");
    refuses(change(1.0, speed(0, 1, 1.0)), "has no server 1");
    refuses(change(1.0, speed(0, 0, -1.0)), "out of range");
    refuses(change(1.0, Changed::GateUp { gate: 0, server: 0 }), "gate 0 does not exist");
}

#[test]
fn classes_that_replay_and_classes_that_ask_stand_side_by_side() {
    let mut network = replay(vec![job(0.0, 1.0), job(5.0, 1.0)], None);
    let other = add_delay(&mut network, "other");
    let route = vec![Step::Visit { station: other, demand: constant(1.0) }];
    network.add_class(Class::new("closed", closed(1, no_think()), route));
    network.agenda = Some(Agenda { length_s: Some(10.0), ..Agenda::default() });
    let outcome = sim::run(&network, &options(1, 10)).unwrap();
    assert!((outcome.classes[0].throughput.mean - 0.2).abs() < 1e-9);
    assert!((outcome.classes[1].throughput.mean - 1.0).abs() < 0.11);
}
