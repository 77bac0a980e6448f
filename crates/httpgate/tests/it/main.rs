//! The HTTP gate on real sockets of 127.0.0.1, with servers behind that behave and that do not,
//! and its parsers against an oracle. Every read has a timeout, so nothing here can hang.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod controls;
mod fuzz;
mod gating;
mod life;
mod operating;
mod passing;
mod policies;
mod refusing;
mod suite;
mod support;
mod upstreams;
