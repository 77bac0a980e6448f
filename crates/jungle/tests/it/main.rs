//! The database as its users see it, and as it must be under any edits, merges, crashes and faults.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod blobs;
mod broken;
mod chance;
mod edits;
mod expiry;
mod fuzz;
mod json;
mod naive;
mod past;
mod play;
mod random;
