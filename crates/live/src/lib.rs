//! Drives: a gate in real time, for every server.
//!
//! ```text
//!   server: sockets, clock ──▶ Driver ──▶ gate::Gate ──▶ Decision ──▶ server
//!                               │  ├──▶ recording, counts and times by class
//!                               │  └──▶ model of what is behind the gate
//!                               └◀── controller of the slots, within the model's band
//! ```
//!
//! A [`Driver`] owns one gate. A server tells it what happens, each time with the moment, and carries
//! out what it decides; it asks when it wants to be woken. So every live gate is recorded, measured and
//! controlled alike, and all of it runs in virtual time as well: nothing here has a clock, a thread or
//! a socket. Whoever has a slot has a [`SlotGuard`], which gives it back even if it is dropped. A
//! [`Chain`] has several gates that a job passes one after the other, as quotas are.

pub mod model;
pub mod page;
pub mod prometheus;

mod chain;
mod control;
mod driver;
mod estimate;
mod figures;
mod guard;
mod tally;

pub use chain::{Chain, PassId, Passed, Permits, TURN, evicted, turns};
pub use control::{Auto, Controlled, Moved};
pub use driver::{Anew, Decision, Driver, Server, Waiting};
pub use estimate::{Estimate, WhatIf};
pub use guard::{SlotGuard, placed};
pub use prometheus::{BUCKETS, Times};
pub use tally::{ClassCounts, ClassStats};
