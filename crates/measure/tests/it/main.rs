//! The tests of this crate's boundary, in one binary.

// What builds the tests' inputs may fail as loudly as the tests themselves.
#![allow(clippy::unwrap_used)]

mod gates;
mod judging;
mod knee;
mod payloads;
mod recordings;
mod records;
mod sequential;
mod statistics;
mod system;
