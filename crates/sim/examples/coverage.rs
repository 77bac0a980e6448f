//! Measures how often the intervals of a run hold the truth, on the grid of cases whose truth is known.
//!
//! ```text
//! cargo run --release -p sim --example coverage
//! ```
//!
//! It writes `crates/sim/tests/grid/coverage.csv`, case by case; a case that is there already with the
//! same seeds, the same truth and the same interval in its first run is left alone, so that an interrupted
//! run goes on where it was. Remove the file, or lines of it, to make them anew: all take about ten minutes
//! of CPU time. Words in the
//! command line choose cases by their names, for a look at some of them: then nothing is written.

#![allow(clippy::print_stdout)]

#[path = "../tests/grid/cases.rs"]
mod cases;
#[path = "../tests/grid/coverage.rs"]
mod coverage;
#[path = "../tests/grid/truths.rs"]
mod truths;

use std::fmt::Write as _;

use cases::Case;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grid/coverage.csv");

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let before = match std::fs::read_to_string(TABLE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.unwrap_or_else(|error| panic!("{TABLE}: {error}")),
    };
    let mut after = format!("{}\n", coverage::HEAD);
    println!("{}", coverage::HEAD);
    let all = Case::all();
    let chosen =
        |case: &Case| words.is_empty() || words.iter().any(|word| case.name.contains(word));
    for (at, case) in all.iter().enumerate().filter(|(_, case)| chosen(case)) {
        let truths = 0..case.truths.len();
        let keys: Vec<String> = truths.map(|n| coverage::key(case, at, n)).collect();
        let row = |key: &String| before.lines().find(|row| row.starts_with(&format!("{key},")));
        let kept: Option<Vec<String>> =
            keys.iter().map(|key| row(key).map(str::to_owned)).collect();
        // Rows of before a change of the rule that ends a run are none of now.
        let kept = kept.filter(|rows| {
            let firsts = coverage::count(case, at, 0..1, 1);
            let same = |(row, count)| str::ends_with(row, &format!(",{}", coverage::first(count)));
            rows.iter().map(String::as_str).zip(&firsts).all(same)
        });
        let rows = kept.filter(|_| words.is_empty()).unwrap_or_else(|| {
            let counts = coverage::count(case, at, 0..Case::SEEDS, threads);
            let rows = counts.iter().enumerate();
            rows.map(|(of, count)| coverage::row(case, at, of, count)).collect()
        });
        for row in rows {
            println!("{row}");
            writeln!(after, "{row}").expect("a string takes all");
        }
        if words.is_empty() {
            // Rows of later cases stay until their turn.
            let later = all.iter().skip(at + 1).enumerate().flat_map(|(n, case)| {
                (0..case.truths.len()).map(move |of| coverage::key(case, at + 1 + n, of))
            });
            let mut text = after.clone();
            for row in later.filter_map(|key| row(&key)) {
                writeln!(text, "{row}").expect("a string takes all");
            }
            std::fs::write(TABLE, text).unwrap_or_else(|error| panic!("{TABLE}: {error}"));
        }
    }
}
