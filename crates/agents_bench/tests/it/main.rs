//! The load and its ways, held to the paper's example, to `sim`, to theory and to each other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod account;
mod ways;
