//! A run as a whole: its intervals, its warm-up, its seeds, its threads, its recordings.

use std::time::Duration;

use gate::{DisciplineSpec, Event, GateSpec, Length, Queues, RouterSpec, ServerSpec, Ties};
use measure::Estimate;
use sim::{
    Class, Demand, GateNode, Network, Options, Outcome, Plan, Sizes, Station, StationKind, Step,
    Stop,
};
use workload::{Dist, DocumentSet, Draw};

use crate::support::*;

const ONE: StationKind = StationKind::Queue { servers: 1 };

/// Something of everything: two classes, two gates, a router, refusals, sharing, sizes.
fn menagerie() -> Network {
    let mut network = Network::default();
    let cpu = network.add_station(Station::new("cpu", StationKind::Sharing { processors: 2 }));
    let fair = StationKind::FairShare { quantum_s: 0.3, tick_s: 0.0 };
    let stations = vec![
        add_queue(&mut network, "disk 0", 1),
        network.add_station(Station::new("disk 1", fair)),
    ];
    let spec = GateSpec {
        room: Some(6),
        wait_max: Some(Duration::from_secs(3)),
        discipline: DisciplineSpec::Priority,
        ..GateSpec::fifo(3)
    };
    let pool = network.add_gate(GateNode::new("pool", spec));
    let spec = GateSpec {
        servers: vec![ServerSpec { slots: 2 }; 2],
        queues: Queues::PerServer,
        router: RouterSpec::ShortestQueue { length: Length::Waiting, ties: Ties::Random },
        ..GateSpec::fifo(1)
    };
    let disks = network.add_gate(GateNode { stations, ..GateNode::new("disks", spec) });
    let read = vec![Step::VisitServer { demand: exponential(0.2) }];
    let route = || {
        let per_byte = Demand::OfSize { per_byte_s: 1e-5, base_s: 0.1 };
        let inside = vec![
            Step::Visit { station: cpu, demand: per_byte },
            Step::Repeat {
                again: 0.5,
                steps: vec![Step::Hold { gate: disks, inside: read.clone() }],
            },
        ];
        vec![Step::Hold { gate: pool, inside }]
    };
    let people = closed(8, Dist::Exponential { mean: 2.0 });
    let sizes = Sizes::Documents(DocumentSet::webstone(), Draw::Deck);
    network.add_class(Class { sizes, priority: 3, ..Class::new("people", people, route()) });
    let sizes = Sizes::Drawn(Dist::Lognormal { mu: 8.0, sigma: 1.0 });
    network.add_class(Class { sizes, ..Class::new("robots", poisson(1.0), route()) });
    network
}

/// Everything that an outcome holds, as text; of a histogram that is a summary.
fn text(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

#[test]
fn the_seed_decides_everything_and_the_threads_nothing() {
    let network = menagerie();
    let with = |seed, threads| {
        let record = Some((0, 500));
        let options = Options { threads: Some(threads), record, ..options(seed, 20_000) };
        sim::run(&network, &options).unwrap()
    };
    let one = with(71, 1);
    for threads in [1, 2, 3] {
        let other = with(71, threads);
        assert_eq!(text(&one), text(&other), "{threads} threads");
        for (a, b) in one.classes.iter().zip(&other.classes) {
            assert!(a.histogram == b.histogram, "every count of every histogram");
        }
    }
    let other = with(72, 1);
    assert_ne!(one.classes[0].response, other.classes[0].response);
    assert_ne!(one.recording, other.recording);
}

#[test]
fn the_menagerie_obeys_littles_law_everywhere() {
    let outcome = run(&menagerie(), 73, 200_000);
    for gate in &outcome.gates {
        // What waits includes those that are refused for their deadline, who have no wait; so only
        // where nobody is.
        let busy = gate.started.mean * gate.hold.unwrap().mean;
        assert!((gate.busy.mean / busy - 1.0).abs() < 1e-3, "{}: {gate:?}", gate.name);
        if gate.refused_deadline.mean == 0.0 {
            let waiting = gate.started.mean * gate.wait.unwrap().mean;
            assert!((gate.waiting.mean / waiting - 1.0).abs() < 0.01, "{}: {gate:?}", gate.name);
        }
    }
    assert!(outcome.gates[0].refused_deadline.mean > 0.0 && outcome.gates[1].waiting.mean > 0.0);
    // All jobs that are somewhere in the pool's slots are at a station or wait at the disks.
    let inside: f64 = outcome.stations.iter().map(|station| station.jobs.mean).sum();
    let pool = outcome.gates[0].busy.mean;
    assert!((inside + outcome.gates[1].waiting.mean - pool).abs() < 1e-6 * pool);
    for station in &outcome.stations {
        let jobs = station.throughput.mean * station.sojourn.unwrap().mean;
        assert!((station.jobs.mean / jobs - 1.0).abs() < 1e-3, "{station:?}");
    }
}

#[test]
fn a_simulated_gate_replays_to_the_same_actions() {
    let routers = [
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        RouterSpec::ShortestQueue { length: Length::Waiting, ties: Ties::Lowest },
        RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Rotate },
        RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Random },
    ];
    let disciplines = [DisciplineSpec::Fifo, DisciplineSpec::Lifo, DisciplineSpec::Priority];
    for (router, discipline, queues) in routers.iter().flat_map(|router| {
        let queues = [Queues::Shared, Queues::PerServer];
        disciplines
            .iter()
            .flat_map(move |d| queues.map(|queues| (router.clone(), d.clone(), queues)))
    }) {
        let mut network = menagerie();
        network.gates[0].spec = GateSpec {
            servers: vec![ServerSpec { slots: 1 }, ServerSpec { slots: 2 }],
            queues,
            router,
            discipline,
            ..network.gates[0].spec.clone()
        };
        let options =
            Options { record: Some((0, 3_000)), plan: Plan::Replications(2), ..options(74, 4_000) };
        let recording = sim::run(&network, &options).unwrap().recording.unwrap();
        assert!(recording.truncated && recording.steps.len() == 3_000);
        recording.replay().unwrap();
        let measures = recording.measures().unwrap();
        assert!(measures.served.len() > 500 && measures.refused.len() == 2, "{measures:?}");
        let woken = recording.steps.iter().filter(|step| step.event == Event::Wake);
        assert!(woken.clone().count() > 0, "deadlines need wake-ups");
        assert!(woken.clone().all(|step| !step.actions.is_empty()), "and no needless ones");
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    // M/M/1 at rho 0.5, so R = 2. Of 40 intervals of 95 %, 34 or more hold it with probability 0.997;
    // at a true coverage of 70 % that would have probability 0.02.
    let network = single(poisson(0.5), ONE, exponential(1.0));
    let held = (0..40).filter(|seed| {
        let outcome = run(&network, 1_000 + seed, 20_000);
        response(&outcome, 0).holds(2.0)
    });
    let held = held.count();
    assert!((34..40).contains(&held), "{held} of 40; all 40 would mean that they are too wide");
}

#[test]
fn the_warm_up_is_left_out() {
    // 1000 customers all begin at the first of two stations, of 0.5 s; the second, of 1 s, is where
    // nearly all of them are in the end: X = 1 and R = 1000 - 1 s of thought. The first thousand
    // responses grow from 0 to that. If they were counted, R would be 5 % too low.
    let mut network = Network::default();
    let steps = [0.5, 1.0].map(|mean| {
        let station = add_queue(&mut network, &format!("S{mean}"), 1);
        Step::Visit { station, demand: exponential(mean) }
    });
    let load = closed(1_000, Dist::Exponential { mean: 1.0 });
    network.add_class(Class::new("jobs", load, steps.into()));
    let outcome = run(&network, 75, 100_000);
    assert!(outcome.warmup_found && outcome.warmup_completions >= 2_000, "{outcome:?}");
    assert_near("R", response(&outcome, 0), 999.0, 0.012);
}

#[test]
fn a_run_stops_when_it_is_precise_or_when_the_budget_is_spent() {
    let network = single(poisson(0.5), ONE, exponential(1.0));
    let options = |precision, completions_max| Options {
        precision,
        completions_max,
        threads: Some(1),
        ..Options::default()
    };
    let mut events = Vec::new();
    for precision in [0.1, 0.03, 0.01] {
        let outcome = sim::run(&network, &options(precision, 20_000_000)).unwrap();
        assert_eq!(outcome.stop, Stop::Precise);
        let relative = response(&outcome, 0).relative();
        assert!(relative <= precision / (1.0 + precision), "{relative} for {precision}");
        events.push(outcome.events);
    }
    assert!(events[0] < events[1] && events[1] < events[2], "precision costs: {events:?}");
    let outcome = sim::run(&network, &options(1e-4, 50_000)).unwrap();
    assert_eq!(outcome.stop, Stop::Budget);
    let completed = outcome.classes[0].histogram.len();
    assert!((50_000..=50_010).contains(&completed), "{completed}");
    // Two events a request, warm-up included.
    let requests = completed + 10 * outcome.warmup_completions;
    assert!(outcome.events.abs_diff(2 * requests) < 1_000, "{outcome:?}");
}

#[test]
fn every_class_must_be_precise() {
    let mut network = single(poisson(0.5), ONE, exponential(1.0));
    let rare = vec![Step::Visit { station: 0, demand: exponential(1.0) }];
    network.add_class(Class::new("rare", poisson(0.005), rare));
    let options = Options { precision: 0.05, threads: Some(1), ..Options::default() };
    let outcome = sim::run(&network, &options).unwrap();
    assert_eq!(outcome.stop, Stop::Precise);
    assert!(response(&outcome, 1).relative() <= 0.05 / 1.05, "{:?}", outcome.classes[1].response);
}

#[test]
fn a_class_that_is_never_served_has_no_response_time() {
    let spec = GateSpec { room: Some(0), ..GateSpec::fifo(1) };
    let mut network =
        gated(poisson(1.0), spec, StationKind::Queue { servers: 1 }, exponential(1.0));
    // It holds the only slot for longer than the run.
    let hog = vec![Step::Hold {
        gate: 0,
        inside: vec![Step::Visit { station: 0, demand: constant(1e9) }],
    }];
    network.classes.insert(0, Class::new("hog", closed(1, Dist::Constant(1e-6)), hog));
    let outcome = run(&network, 76, 40_000);
    assert_eq!(outcome.stop, Stop::Budget);
    assert!(outcome.classes.iter().all(|class| class.response.is_none()), "{outcome:?}");
    assert!(outcome.classes.iter().all(|class| class.quantiles.is_empty()));
    assert_near("refused", outcome.classes[1].refused, 1.0, 0.03);
    assert_eq!(outcome.gates[0].refused_full.mean, 1.0);
}

#[test]
fn nothing_to_do_takes_no_time() {
    let network = single(closed(3, Dist::Constant(1.0)), ONE, constant(0.0));
    let outcome = run(&network, 77, 4_000);
    assert_eq!(response(&outcome, 0).mean, 0.0);
    // Runs begin and end in the middle of a second.
    let x = outcome.classes[0].throughput.mean;
    assert!((x - 3.0).abs() < 0.03, "{x}");
    assert_eq!(outcome.stations[0].utilisation.unwrap().mean, 0.0);
    // At every kind of station.
    for kind in [
        StationKind::Delay,
        StationKind::Sharing { processors: 1 },
        StationKind::FairShare { quantum_s: 1.0, tick_s: 0.0 },
    ] {
        let outcome = run(&single(closed(3, Dist::Constant(1.0)), kind, constant(0.0)), 77, 4_000);
        assert_eq!(response(&outcome, 0).mean, 0.0, "{kind:?}");
    }
}

/// All customers are synchronous: more requests than a round asks for end in one nanosecond, so that
/// rates were once taken over no time at all.
#[test]
fn many_customers_may_move_at_one_moment() {
    let network = single(closed(5_000, Dist::Constant(10.0)), StationKind::Delay, constant(1.0));
    let outcome = run(&network, 78, 600_000);
    let x = outcome.classes[0].throughput.mean;
    assert!(x.is_finite() && (300.0..800.0).contains(&x), "{x} of 5000 every 11 s");
    assert_near("R", response(&outcome, 0), 1.0, 1e-6);
}

/// Quantile q of the response time of M/M/1 at rho 0.8, services of 1 s.
fn exact_quantile(q: f64) -> f64 {
    -(1.0 - q).ln() / (1.0 - 0.8)
}

/// In how many of so many runs the intervals of the mean response, p95, p99 and p99.9, the
/// throughput and the utilisation of M/M/1 at rho 0.8 hold the exact value.
fn held(runs: u64, options: impl Fn(u64) -> Options) -> [usize; 6] {
    let network = single(poisson(0.8), ONE, exponential(1.0));
    let mut held = [0; 6];
    for seed in 0..runs {
        let outcome = sim::run(&network, &options(2_000 + seed)).unwrap();
        let class = &outcome.classes[0];
        let quantile_holds = |q| quantile(&class.quantiles, q).holds(exact_quantile(q));
        let holds = [
            response(&outcome, 0).holds(5.0),
            quantile_holds(0.95),
            quantile_holds(0.99),
            quantile_holds(0.999),
            class.throughput.holds(0.8),
            outcome.stations[0].utilisation.unwrap().holds(0.8),
        ];
        held.iter_mut().zip(holds).for_each(|(held, holds)| *held += usize::from(holds));
    }
    held
}

/// Intervals of quantiles were once made of the replications' own quantiles. Those of short
/// replications are biased: the 95 % interval of p99 held the truth in 72 % of runs as short as
/// these, that of p99.9 in 3 %.
#[test]
fn quantiles_of_short_replications_hold_the_truth() {
    // Of 100 intervals of 95 %, 88 or more hold it with probability 0.996.
    let held = held(100, |seed| options(seed, 20_000));
    assert!(held.iter().all(|held| *held >= 88), "{held:?} of 100");
}

#[test]
fn batches_of_one_run_hold_the_truth() {
    // 88 as above; the mean responses of batches are skewed and a little correlated, which costs
    // some more.
    let one_run = |seed| Options { plan: Plan::OneRun, ..options(seed, 60_000) };
    let held = held(100, one_run);
    assert!(held.iter().all(|held| *held >= 86), "{held:?} of 100");
    // And they are worth something.
    let network = single(poisson(0.8), ONE, exponential(1.0));
    let outcome = sim::run(&network, &one_run(1)).unwrap();
    let batches = response(&outcome, 0).n;
    assert!((10..=40).contains(&batches), "{batches}");
    assert!(response(&outcome, 0).relative() < 0.2, "{outcome:?}");
    assert!(quantile(&outcome.classes[0].quantiles, 0.95).relative() < 0.4, "{outcome:?}");
}

#[test]
fn one_run_counts_what_replications_count() {
    let network = menagerie();
    let one = |seed| Options { plan: Plan::OneRun, ..options(seed, 200_000) };
    let outcome = sim::run(&network, &one(79)).unwrap();
    let replicated = run(&network, 80, 200_000);
    assert_eq!((outcome.plan, replicated.plan), (Plan::OneRun, Plan::Replications(10)));
    let near = |what: &str, a: Estimate, b: Estimate| {
        let allowed = 2.5 * (a.half_width + b.half_width) + 1e-9;
        assert!((a.mean - b.mean).abs() <= allowed, "{what}: {a:?} {b:?}");
    };
    for (a, b) in outcome.classes.iter().zip(&replicated.classes) {
        near("throughput", a.throughput, b.throughput);
        near("response", a.response.unwrap(), b.response.unwrap());
        near("refused", a.refused, b.refused);
        near("p95", quantile(&a.quantiles, 0.95), quantile(&b.quantiles, 0.95));
        assert_eq!(a.histogram.len(), a.sizes.iter().map(|size| size.completed).sum::<u64>());
        assert!(a.histogram.len() > 40_000, "all rounds are in it");
    }
    for (a, b) in outcome.gates.iter().zip(&replicated.gates) {
        near("wait", a.wait.unwrap(), b.wait.unwrap());
        near("busy", a.busy, b.busy);
        near("refused", a.refused_deadline, b.refused_deadline);
    }
    for (a, b) in outcome.stations.iter().zip(&replicated.stations) {
        near("utilisation", a.utilisation.unwrap(), b.utilisation.unwrap());
        near("sojourn", a.sojourn.unwrap(), b.sojourn.unwrap());
    }
    // The same seed, the same run; a precise one stops early, and not before it is uncorrelated.
    assert_eq!(text(&outcome), text(&sim::run(&network, &one(79)).unwrap()));
    let precise = Options { precision: 0.05, ..one(79) };
    let outcome = sim::run(&network, &Options { completions_max: 20_000_000, ..precise }).unwrap();
    assert_eq!((outcome.stop, outcome.correlated), (Stop::Precise, false));
    assert!(outcome.classes.iter().all(|class| class.response.unwrap().relative() <= 0.05 / 1.05));
}
