//! Measures how often the intervals of quantiles hold the truth, up to p99.9.
//!
//! ```text
//! cargo run --release -p sim --example tails
//! ```
//!
//! It writes `crates/sim/tests/grid/tails.csv`, all of it, in two minutes of CPU time.

#![allow(clippy::print_stdout)]

#[path = "../tests/grid/tails.rs"]
mod tails;
#[path = "../tests/grid/truths.rs"]
#[allow(dead_code)]
mod truths;

use tails::{HEAD, QUANTILES, Tail};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grid/tails.csv");

fn main() {
    let mut table = format!("{HEAD}\n");
    print!("{table}");
    for (at, tail) in Tail::all().iter().enumerate() {
        for (q, count) in QUANTILES.iter().zip(tail.count(at, 0..Tail::SEEDS)) {
            let row = format!("{}\n", tail.row(at, *q, &count));
            print!("{row}");
            table += &row;
        }
    }
    std::fs::write(TABLE, table).unwrap_or_else(|error| panic!("{TABLE}: {error}"));
}
