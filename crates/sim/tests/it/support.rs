//! What the tests have in common: short names for networks, and how a result is judged.

use gate::GateSpec;
use measure::Estimate;
use sim::{Class, Demand, GateNode, Load, Network, Options, Outcome, Station, StationKind, Step};
use workload::{Arrivals, Dist};

/// A run of about so many completed requests, without regard to precision.
pub(crate) fn options(seed: u64, completions: u64) -> Options {
    Options {
        seed,
        precision: 1e-9,
        completions_max: completions,
        threads: Some(1),
        ..Options::default()
    }
}

pub(crate) fn run(network: &Network, seed: u64, completions: u64) -> Outcome {
    sim::run(network, &options(seed, completions)).unwrap()
}

/// `width` is the relative half-width that the interval must not exceed. The reason for the
/// tolerance is given in `main.rs`.
#[track_caller]
pub(crate) fn assert_near(what: &str, found: Estimate, exact: f64, width: f64) {
    let relative = found.half_width / exact.abs();
    assert!(relative <= width, "{what}: half-width {relative:.4} of {exact}, wanted {width}");
    let off = (found.mean - exact).abs();
    // Where nothing varies, rounding to the nanosecond still does.
    let allowed = 3.0 * found.half_width + 1e-6 * exact.abs();
    let (mean, half_width) = (found.mean, found.half_width);
    assert!(off <= allowed, "{what}: found {mean} +- {half_width}, exact is {exact}");
}

pub(crate) fn response(outcome: &Outcome, class: usize) -> Estimate {
    outcome.classes[class].response.expect("some were completed")
}

pub(crate) fn quantile(quantiles: &[(f64, Estimate)], q: f64) -> Estimate {
    quantiles.iter().find(|(at, _)| *at == q).expect("it is one of those reported").1
}

pub(crate) fn exponential(mean: f64) -> Demand {
    Demand::Drawn(Dist::Exponential { mean })
}

pub(crate) fn constant(seconds: f64) -> Demand {
    Demand::Drawn(Dist::Constant(seconds))
}

pub(crate) fn poisson(rate: f64) -> Load {
    Load::Open(Arrivals::Poisson { rate })
}

pub(crate) fn closed(population: u32, think: Dist) -> Load {
    Load::Closed { population, think }
}

pub(crate) fn no_think() -> Dist {
    Dist::Constant(0.0)
}

pub(crate) fn add_queue(network: &mut Network, name: &str, servers: u32) -> usize {
    network.add_station(Station::new(name, StationKind::Queue { servers }))
}

pub(crate) fn add_delay(network: &mut Network, name: &str) -> usize {
    network.add_station(Station::new(name, StationKind::Delay))
}

/// One class that visits one station.
pub(crate) fn single(load: Load, kind: StationKind, demand: Demand) -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("station", kind));
    network.add_class(Class::new("jobs", load, vec![Step::Visit { station, demand }]));
    network
}

/// One class that visits one station behind a gate.
pub(crate) fn gated(load: Load, spec: GateSpec, kind: StationKind, demand: Demand) -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("station", kind));
    let gate = network.add_gate(GateNode::new("gate", spec));
    let inside = vec![Step::Visit { station, demand }];
    network.add_class(Class::new("jobs", load, vec![Step::Hold { gate, inside }]));
    network
}
