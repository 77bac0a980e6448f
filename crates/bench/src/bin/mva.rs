//! Prints how long the network algorithms take: `cargo run --release -p bench --bin bench_mva`.

#![allow(clippy::print_stdout, reason = "a benchmark that prints")]

use std::hint::black_box;
use std::time::Instant;

use solve::{Algorithm, Network, SolveError, StationKind};

/// Demands from 1 ms to 10 ms that differ from pair to pair.
fn network(
    populations: &[u32],
    stations: usize,
    servers: u32,
    think: f64,
) -> Result<Network, SolveError> {
    let mut network = Network::new();
    for (c, &customers) in populations.iter().enumerate() {
        network.add_closed(&format!("class {c}"), customers, think)?;
    }
    for k in 0..stations {
        network.add_station(&format!("station {k}"), StationKind::Sharing { servers })?;
        for c in 0..populations.len() {
            let spread = ((c * 7919 + k * 104_729 + c * k * 31) % 1009) as f64 / 1009.0;
            network.set_demand(k, c, 1e-3 + 9e-3 * spread)?;
        }
    }
    Ok(network)
}

/// The least seconds of some runs.
fn best(runs: u32, mut run: impl FnMut()) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), SolveError> {
    use Algorithm::{Aql, BardSchweitzer, Exact, Linearizer};
    let hundred = vec![10; 100];
    let cases: [(&str, Network, Algorithm, u32); 9] = [
        ("exact MVA, N = (20, 50), K = 5", network(&[20, 50], 5, 1, 0.1)?, Exact, 2000),
        ("exact MVA, N = 1000, K = 4", network(&[1000], 4, 1, 1.0)?, Exact, 200),
        ("exact, 4 servers each, N = (20, 50), K = 5", network(&[20, 50], 5, 4, 0.1)?, Exact, 20),
        ("exact, 8 servers, N = 80, K = 1", network(&[80], 1, 8, 10.0)?, Exact, 200),
        ("Linearizer, N = (20, 50), K = 5", network(&[20, 50], 5, 1, 0.1)?, Linearizer, 200),
        (
            "Bard-Schweitzer, 100 classes, K = 1000",
            network(&hundred, 1000, 1, 1.0)?,
            BardSchweitzer,
            5,
        ),
        ("Linearizer, 100 classes, K = 1000", network(&hundred, 1000, 1, 1.0)?, Linearizer, 3),
        (
            "Linearizer, the same with 4 servers each",
            network(&hundred, 1000, 4, 1.0)?,
            Linearizer,
            1,
        ),
        ("AQL, 100 classes, K = 1000", network(&hundred, 1000, 1, 1.0)?, Aql, 3),
    ];
    for (name, network, algorithm, runs) in cases {
        let throughput = network.solve_with(algorithm)?.classes[0].throughput;
        let seconds = best(runs, || {
            black_box(black_box(&network).solve_with(algorithm)).expect("it was solved before");
        });
        let (time, unit) =
            if seconds < 1e-2 { (seconds * 1e6, "us") } else { (seconds * 1e3, "ms") };
        println!("{name:<44} {time:>9.1} {unit}   X = {throughput:.4} /s");
    }
    Ok(())
}
