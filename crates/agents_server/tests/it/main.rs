//! The server on loopback: messages in, notifications out, with stores and sinks that fail.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod delivering;
mod digesting;
mod http;
mod keeping;
mod mailbox;
mod mailing;
mod reloading;
mod sink;
mod source;
mod timing;
mod users;
