//! Formulas against what was printed, against each other, and against what no answer may break.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code; clippy sees only the test functions"
)]

mod cache;
mod chain;
mod closed;
mod cluster;
mod documents;
mod gaps;
mod large;
mod layered;
mod lps;
mod markov;
mod networks;
mod open;
mod random;
mod refusals;
mod remaining;
mod stations;
mod textbook;
mod times;

/// Fails unless two numbers agree to a relative tolerance; the message replays the case.
#[track_caller]
fn near(got: f64, want: f64, tolerance: f64, case: &dyn std::fmt::Debug) {
    let error = (got - want).abs();
    assert!(error <= tolerance * want.abs(), "got {got}, want {want}: {case:?}");
}

/// Fails unless two numbers agree to the digits that were printed, half a unit of the last one.
#[track_caller]
fn printed(got: f64, want: f64, last_digit: f64, case: &dyn std::fmt::Debug) {
    let slack = last_digit * 0.500_001;
    assert!((got - want).abs() <= slack, "got {got}, printed {want}: {case:?}");
}
