//! The gate from outside: every event and policy by table, random sequences against a naive model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod deadlines;
mod disciplines;
mod early_rejection;
mod eviction;
#[cfg(feature = "serde")]
mod formats;
mod load_information;
mod model;
mod passes;
mod play;
mod protocol;
mod queues;
mod random;
mod reserves;
mod roles;
mod routers;
mod servers;
