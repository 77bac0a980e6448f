//! The board on every store beside a naive one, and by HTTP under clients at once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod killed;
mod naive;
mod places;
mod same;
mod serving;
