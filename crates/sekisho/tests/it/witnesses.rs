//! Formula and simulation, which share no code, on the same queues. The library of each is called
//! directly: what scenarios make of them is tested where scenarios are.
//!
//! A simulated mean has an interval of 95 %, at ten replications 2.26 standard errors to each side.
//! Twice that is 4.5 standard errors, which is missed less than once in 500 comparisons; the seeds are
//! fixed, so that a failure is a change of the code and not bad luck. Beside it, the ends of a run cut
//! jobs in two, which is worth [`ENDS`].

use gate::GateSpec;
use measure::Estimate;
use sim::{Class, Demand, GateNode, Load, Network, Options, Outcome, Station, StationKind, Step};
use solve::{ClosedGate, Mg1Fifo, Mg1Lps, Mg1Ps, Mm1, Mmc, Moments};
use workload::{Arrivals, Dist};

const ENDS: f64 = 2e-3;

/// Mean work [s] and its lognormal of squared coefficient of variation 4.
const MEAN: f64 = 10e-3;

fn lognormal(mean: f64, scv: f64) -> Dist {
    Dist::lognormal_from_mean_scv(mean, scv).expect("both are above 0")
}

/// Jobs that come one after the other, each for `demand` of a station, behind a gate if there is one.
fn network(load: Load, kind: StationKind, demand: Dist, slots: Option<u32>) -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("s", kind));
    let mut route = vec![Step::Visit { station, demand: Demand::Drawn(demand) }];
    if let Some(slots) = slots {
        let gate = network.add_gate(GateNode::new("g", GateSpec::fifo(slots)));
        route = vec![Step::Hold { gate, inside: route }];
    }
    network.add_class(Class::new("c", load, route));
    network
}

fn poisson(rate: f64) -> Load {
    Load::Open(Arrivals::Poisson { rate })
}

fn simulate(network: &Network, seed: u64, completions: u64) -> Outcome {
    let options =
        Options { seed, precision: 1e-9, completions_max: completions, ..Options::default() };
    sim::run(network, &options).expect("it has a steady state")
}

fn response(outcome: &Outcome) -> Estimate {
    outcome.classes[0].response.expect("much was completed")
}

/// The formula may be off by `claimed` beside the simulation's own error, of which no more than
/// `width` may hide a difference.
#[track_caller]
fn near(what: &str, formula: f64, simulated: &Estimate, claimed: f64, width: f64) {
    assert!(simulated.relative() <= width, "{what}: {simulated:?} could hide an error");
    let off = formula / simulated.mean - 1.0;
    let allowed = claimed + ENDS + 2.0 * simulated.relative();
    assert!(off.abs() <= allowed, "{what}: {formula}, not {simulated:?}: {off:+.4}");
}

#[test]
fn queues_of_exponential_work() {
    let work = Dist::Exponential { mean: MEAN };
    let one = network(poisson(70.0), StationKind::Queue { servers: 1 }, work, None);
    let formula = Mm1::new(70.0, MEAN).unwrap();
    let outcome = simulate(&one, 1, 2_000_000);
    near("M/M/1", formula.response(), &response(&outcome), 0.0, 0.015);
    let busy = outcome.stations[0].utilisation.expect("it is a queue");
    near("M/M/1, busy", formula.utilisation(), &busy, 0.0, 0.015);
    let four = network(poisson(320.0), StationKind::Queue { servers: 4 }, work, None);
    let formula = Mmc::new(320.0, MEAN, 4).unwrap();
    near("M/M/4", formula.response(), &response(&simulate(&four, 2, 2_000_000)), 0.0, 0.015);
    // Four slots of a gate before machines that never share are four servers.
    let gated = network(poisson(320.0), StationKind::Delay, work, Some(4));
    let outcome = simulate(&gated, 3, 2_000_000);
    near("a gate as M/M/4", formula.response(), &response(&outcome), 0.0, 0.015);
    let wait = outcome.gates[0].wait.expect("much was started");
    near("a gate as M/M/4, wait", formula.wait(), &wait, 0.0, 0.03);
}

#[test]
fn queues_of_any_work() {
    let demand = Moments::with_scv(MEAN, 4.0).unwrap();
    let work = lognormal(MEAN, 4.0);
    let fifo = network(poisson(60.0), StationKind::Queue { servers: 1 }, work, None);
    let formula = Mg1Fifo::new(60.0, demand).unwrap().response();
    near("M/G/1", formula, &response(&simulate(&fifo, 4, 4_000_000)), 0.0, 0.03);
    let sharing = StationKind::Sharing { processors: 1 };
    let all = network(poisson(60.0), sharing, work, None);
    let formula = Mg1Ps::new(60.0, demand).unwrap().response();
    near("M/G/1 PS", formula, &response(&simulate(&all, 5, 2_000_000)), 0.0, 0.015);
}

/// One slot before a processor that is shared is a queue; more slots than jobs are none.
#[test]
fn limited_sharing_at_its_two_ends() {
    let demand = Moments::with_scv(MEAN, 4.0).unwrap();
    let work = lognormal(MEAN, 4.0);
    let sharing = StationKind::Sharing { processors: 1 };
    for (slots, limit, seed, completions) in
        [(1, Some(1), 6, 4_000_000), (100_000, None, 7, 2_000_000)]
    {
        let formula = Mg1Lps::new(60.0, demand, limit).unwrap();
        assert!(formula.exactness().is_exact(), "{formula:?}");
        let outcome =
            simulate(&network(poisson(60.0), sharing, work, Some(slots)), seed, completions);
        near(&format!("LPS, r = {slots}"), formula.response(), &response(&outcome), 0.0, 0.03);
    }
}

/// The formula's own test holds it against these numbers, which it cannot make itself: a formula must
/// not know the simulator. They are made again here: clients, mean of the exponential delay, slots,
/// mean response, for lognormal work of mean 1 and squared coefficient of variation 10.
const CLOSED_GATE: [(u32, f64, u32, f64); 5] = [
    (4, 4.0, 1, 2.308),
    (4, 2.0, 1, 2.783),
    (16, 16.0, 4, 3.599),
    (32, 32.0, 8, 4.871),
    (64, 64.0, 16, 6.799),
];

#[test]
fn what_the_closed_gate_is_judged_by_is_what_is_simulated() {
    let demand = Moments::with_scv(1.0, 10.0).unwrap();
    for (at, (clients, delay, slots, stated)) in CLOSED_GATE.into_iter().enumerate() {
        let load = Load::Closed { population: clients, think: Dist::Exponential { mean: delay } };
        let sharing = StationKind::Sharing { processors: 1 };
        let network = network(load, sharing, lognormal(1.0, 10.0), Some(slots));
        let outcome = simulate(&network, 20 + at as u64, 2_000_000);
        let simulated = response(&outcome);
        // The stated ones have an error of their own: of 200,000 jobs a point, a tenth of what is
        // simulated here, so their intervals are the wider by the square root of ten.
        let claimed = 2.0 * 10.0_f64.sqrt() * simulated.relative();
        let what = format!("{clients} clients, {slots} slots");
        near(&what, stated, &simulated, claimed, 0.03);
        // And the formula keeps its claim against the number made here, too.
        let answer = ClosedGate::new(clients, delay, demand, slots).unwrap().solve();
        let solve::Exactness::Approximate { error, .. } = answer.exactness() else {
            panic!("{answer:?} claims to be exact")
        };
        near(&what, answer.response, &simulated, error, 0.03);
    }
}
