//! The share of the work that a suite does: `SEKISHO_LONG=SECONDS` asks for the whole, as
//! `cargo xtask test --long` does.

use std::time::Duration;

/// The factor between the seeds of the two suites.
const LONG: u64 = 10;

/// The time that each soak of the long suite lasts; none in the short one.
pub(crate) fn soak() -> Option<Duration> {
    let seconds = std::env::var("SEKISHO_LONG").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("SEKISHO_LONG is a number of seconds")))
}

/// The number of seeds or inputs of a suite, of which the short one has this many.
pub(crate) fn many(short: u64) -> u64 {
    if soak().is_some() { short * LONG } else { short }
}
