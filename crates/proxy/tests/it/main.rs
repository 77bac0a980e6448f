//! The HTTP gate on real sockets of 127.0.0.1, with servers behind that behave and that do not,
//! and its parsers against an oracle. Every read has a timeout, so nothing here can hang.

mod controls;
mod fuzz;
mod gating;
mod life;
mod passing;
mod refusing;
mod support;
mod upstreams;
