//! Sessions of many clients on few servers: each part against itself, against a private PostgreSQL and
//! against damaged bytes. Every read has a timeout, so nothing here can hang.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "real servers and clients are on the other side of a socket, and some of them are late"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy takes only functions marked as tests for tests, not what they share"
)]

mod pipelines;
mod relays;
mod sql;
mod talks;
