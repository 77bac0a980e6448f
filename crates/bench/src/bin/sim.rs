//! Speed at which networks are simulated, with all statistics on, against a bare loop in the same
//! run.
//!
//! An event is an arrival or a completion of service. The bare loop simulates M/M/1 and the ring with
//! std's binary heap and counts nothing but completions: it is the ceiling that statistics, gates
//! and generality are paid from. Interleaved; medians of five, per CPU second of one thread.

#![allow(clippy::print_stdout)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use gate::GateSpec;
use rand::RngExt;
use sim::{Class, Demand, GateNode, Load, Network, Options, Station, StationKind, Step};
use workload::{Arrivals, Chance, Dist, stream};

const ROUNDS: usize = 5;
const COMPLETIONS: u64 = 2_000_000;

fn main() {
    let cases: Vec<(&str, Network, f64, u64)> = vec![
        ("M/M/1, rho 0.8", mm1(), 20.0, COMPLETIONS),
        ("ring of four FIFO stations, N 10", ring(), 20.0, COMPLETIONS),
        ("ring of four gates, N 10", ring_of_gates(), 10.0, COMPLETIONS),
        ("gate of 4 slots before sharing, rho 0.8", limited_sharing(), 10.0, COMPLETIONS),
        ("closed ring of 1000 stations, N 2000", wide_ring(), 8.0, 20_000),
    ];
    println!("million events per CPU second, one thread, all statistics on; median of {ROUNDS}");
    println!("{:<42} {:>8} {:>8} {:>11}", "network", "Mev/s", "goal", "of bare loop");
    let mut speeds = vec![Vec::new(); cases.len()];
    let mut bare = Vec::new();
    for _ in 0..ROUNDS {
        bare.push(bare_mm1());
        for (speed, (_, network, _, completions)) in speeds.iter_mut().zip(&cases) {
            speed.push(simulate(network, *completions));
        }
    }
    let bare = median(&mut bare);
    println!("{:<42} {:>8.1} {:>8} {:>11}", "bare loop, M/M/1", bare, "-", "1.00");
    for ((name, _, goal, _), speed) in cases.iter().zip(&mut speeds) {
        let speed = median(speed);
        println!("{name:<42} {speed:>8.1} {goal:>8.0} {:>11.2}", speed / bare);
    }
    replications();
}

/// Replications on one and on two threads: wall time, which is what the user waits for.
#[allow(clippy::disallowed_methods, reason = "it measures how long a run takes")]
fn replications() {
    let network = ring();
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let timed = |threads| {
            let start = std::time::Instant::now();
            sim::run(&network, &options(Some(threads), 4_000_000)).expect("the ring runs");
            start.elapsed().as_secs_f64()
        };
        ratios.push(timed(1) / timed(2));
    }
    println!(
        "two threads over one, wall time, median of 3: {:.2} times as fast",
        median(&mut ratios)
    );
}

fn options(threads: Option<usize>, completions_max: u64) -> Options {
    Options { threads, completions_max, precision: 1e-9, ..Options::default() }
}

fn simulate(network: &Network, completions: u64) -> f64 {
    let start = cpu_s();
    let outcome = sim::run(network, &options(Some(1), completions)).expect("the network runs");
    outcome.events as f64 / (cpu_s() - start) * 1e-6
}

fn exponential(mean: f64) -> Demand {
    Demand::Drawn(Dist::Exponential { mean })
}

fn closed(population: u32) -> Load {
    Load::Closed { population, think: Dist::Constant(0.0) }
}

fn mm1() -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("server", StationKind::Queue { servers: 1 }));
    let visit = Step::Visit { station, demand: exponential(1.0) };
    let load = Load::Open(Arrivals::Poisson { rate: 0.8 });
    network.add_class(Class::new("jobs", load, vec![visit]));
    network
}

fn ring() -> Network {
    let mut network = Network::default();
    let steps = [1.0, 0.8, 0.6, 0.4].map(|mean| {
        let station = Station::new(&format!("S{mean}"), StationKind::Queue { servers: 1 });
        Step::Visit { station: network.add_station(station), demand: exponential(mean) }
    });
    network.add_class(Class::new("jobs", closed(10), steps.into()));
    network
}

fn ring_of_gates() -> Network {
    let mut network = Network::default();
    let steps = [1.0, 0.8, 0.6, 0.4].map(|mean| {
        let station = network.add_station(Station::new(&format!("S{mean}"), StationKind::Delay));
        let gate = network.add_gate(GateNode::new(&format!("G{mean}"), GateSpec::fifo(1)));
        Step::Hold { gate, inside: vec![Step::Visit { station, demand: exponential(mean) }] }
    });
    network.add_class(Class::new("jobs", closed(10), steps.into()));
    network
}

fn limited_sharing() -> Network {
    let mut network = Network::default();
    let station = network.add_station(Station::new("cpu", StationKind::Sharing { processors: 1 }));
    let gate = network.add_gate(GateNode::new("slots", GateSpec::fifo(4)));
    let inside = vec![Step::Visit { station, demand: exponential(1.0) }];
    let load = Load::Open(Arrivals::Poisson { rate: 0.8 });
    network.add_class(Class::new("jobs", load, vec![Step::Hold { gate, inside }]));
    network
}

fn wide_ring() -> Network {
    let mut network = Network::default();
    let steps: Vec<Step> = (0..1000)
        .map(|at| {
            let station = Station::new(&format!("S{at}"), StationKind::Queue { servers: 1 });
            Step::Visit { station: network.add_station(station), demand: exponential(1.0) }
        })
        .collect();
    network.add_class(Class::new("jobs", closed(2000), steps));
    network
}

/// M/M/1 with a heap and a queue and no statistics but the mean response.
fn bare_mm1() -> f64 {
    let start = cpu_s();
    let mut chance = stream(1, 0);
    let mut calendar = BinaryHeap::from([Reverse((nanos(&mut chance, 1.25), false))]);
    let mut waiting: VecDeque<u64> = VecDeque::new();
    let (mut events, mut responses) = (0_u64, 0.0);
    while events < 2 * COMPLETIONS {
        let Some(Reverse((now, departs))) = calendar.pop() else { break };
        events += 1;
        if departs {
            responses += (now - waiting.pop_front().unwrap_or(now)) as f64;
        } else {
            waiting.push_back(now);
            calendar.push(Reverse((now + nanos(&mut chance, 1.25), false)));
        }
        if departs != waiting.is_empty() && (departs || waiting.len() == 1) {
            calendar.push(Reverse((now + nanos(&mut chance, 1.0), true)));
        }
    }
    std::hint::black_box(responses);
    events as f64 / (cpu_s() - start) * 1e-6
}

fn nanos(chance: &mut Chance, mean: f64) -> u64 {
    (-(1.0 - chance.random::<f64>()).ln() * mean * 1e9) as u64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this process [s].
#[allow(unsafe_code)]
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
