//! Tests at the boundary of the crate. They have a `main` of their own, because the process modes
//! start this executable again, and a supervisor must be one before any other thread exists.

// The lint's exception for tests does not know a test with its own `main`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

mod client;
mod serving;

#[cfg(target_os = "linux")]
mod apache;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod victim;

/// A test by name.
pub(crate) type Test = (&'static str, fn(origin::Supervised));

fn main() -> ExitCode {
    let supervised = origin::run_if_supervisor();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    #[cfg(target_os = "linux")]
    if let Some(role) = arguments.iter().find_map(|a| a.strip_prefix(victim::ARGUMENT)) {
        victim::live(role, supervised);
    }
    let mut tests: Vec<Test> = serving::TESTS.to_vec();
    #[cfg(target_os = "linux")]
    tests.extend([processes::TESTS, apache::TESTS].concat());
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    tests.retain(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(*f)));
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for (name, test) in &tests {
        let begun = std::time::Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(|| test(supervised))).is_ok();
        let word = if passed { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", begun.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    }
    println!("{} passed, {} failed: {failed:?}", tests.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
