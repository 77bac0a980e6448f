//! The core from outside: guarantees by table, and a world of faults by seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod account;
mod alerts;
mod bounds;
mod probe;
mod reference;
mod seeds;
mod store;
mod tables;
mod world;
