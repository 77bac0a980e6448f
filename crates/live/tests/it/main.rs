//! The driver, its controllers and its model, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included, and say what replays them"
)]

mod chance;
mod control;
mod guards;
mod model;
