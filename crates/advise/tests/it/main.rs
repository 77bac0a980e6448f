//! Promises of `advise`, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod agree;
mod behaviour;
mod caches;
mod corners;
mod counted;
mod explain;
mod fit;
mod formula;
mod fuzz;
mod grid;
mod kinds;
mod layers;
mod loads;
mod meeting;
mod policies;
mod product;
mod questions;
mod queue;
mod scenario;
mod servers;
mod setting;
mod sources;
mod stations;
mod variation;

#[allow(dead_code, reason = "it is shared with what makes the references")]
#[path = "../grid/cases.rs"]
mod cases;
#[path = "../grid/table.rs"]
mod table;

/// Is this the long suite, which leaves nothing out?
fn is_long() -> bool {
    std::env::var_os("SEKISHO_LONG").is_some()
}
