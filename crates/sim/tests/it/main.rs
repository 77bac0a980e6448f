//! The simulator against what is known exactly, and against itself.
//!
//! Seeds are fixed. Where a result is compared with an exact value, two things are asserted by
//! [`support::assert_near`]: the interval of the run is narrow enough to mean something (a relative
//! half-width that each test names), and the value lies within three half-widths of a 95 % interval
//! over 10 replications. A right simulator fails that for one seed in ten thousand, a wrong one as
//! soon as it is wrong by more than six times its standard error or so.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod agendas;
mod agents;
mod caches;
mod clients;
mod closed;
mod compare;
mod control;
mod errors;
mod fair_share;
mod families;
mod intervals;
mod queues;
mod recorded;
mod refusals;
mod routes;
mod runs;
mod settling;
mod sharing;
mod stations;
mod support;

#[path = "../grid/cases.rs"]
mod cases;
#[allow(dead_code, reason = "the rows of the table are written by the example")]
#[path = "../grid/coverage.rs"]
mod coverage;
#[allow(dead_code, reason = "the rows of the table are written by the example")]
#[path = "../grid/tails.rs"]
mod tails;
#[path = "../grid/truths.rs"]
mod truths;
