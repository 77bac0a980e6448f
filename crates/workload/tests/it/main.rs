//! What is drawn has the moments and the mix that are promised, and is the same on every machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arrivals;
mod chance;
mod dist;
mod documents;
mod sample;
mod tpcc;
