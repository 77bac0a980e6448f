//! A server on a real directory, asked by a client that shares no code with it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod addresses;
mod blobs;
#[path = "../../../jungle/tests/it/chance.rs"]
#[allow(dead_code, reason = "the tests of the core use more of it")]
mod chance;
mod client;
mod described;
mod directories;
mod expiry;
mod fuzz;
mod idempotency;
mod jsonpath;
mod limits;
#[path = "../../../jungle/tests/it/play.rs"]
mod play;
mod users;
mod watches;
