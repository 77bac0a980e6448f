//! Every store beside the one in memory, under the core's own simulated world, and killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and prints what replays it"
)]

#[path = "../../../agents/tests/it/account.rs"]
mod account;
#[path = "../../../agents/tests/it/reference.rs"]
mod reference;
#[path = "../../../agents/tests/it/store.rs"]
#[allow(dead_code, reason = "what is read comes from the real store")]
mod simulated;
#[path = "../../../agents/tests/it/world.rs"]
mod world;

mod backup;
mod embedded;
mod full;
mod killed;
mod places;
mod postgres;
mod random;
mod same;
mod store;
mod table;
mod worlds;
