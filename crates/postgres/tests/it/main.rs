//! Tests at the boundary of the crate, against real servers. They have a `main` of their own, because
//! this executable is started again: as an ordinary user, and as a process that is killed.

// The lint's exception for tests does not know a test with its own `main`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

mod failing;
mod fetching;
mod life;
mod outliving;
mod sql;

/// A test by name.
pub(crate) type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = arguments.iter().find_map(|a| a.strip_prefix(outliving::ARGUMENT)) {
        outliving::live(role);
        return ExitCode::SUCCESS;
    }
    let mut tests = [life::TESTS, failing::TESTS, outliving::TESTS, fetching::TESTS].concat();
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    tests.retain(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(*f)));
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for (name, test) in &tests {
        let begun = std::time::Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(test)).is_ok();
        let word = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", begun.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    }
    println!("{} passed, {} failed: {failed:?}", tests.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
