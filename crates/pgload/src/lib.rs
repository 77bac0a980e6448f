//! Presses: a user's own SQL on PostgreSQL, closed and open, in real time.
//!
//! [`script`] reads what pgbench's scripts say; a transaction of a script is a request, and the script
//! its class. A [`Plan`] says what is to be done, [`preflight()`] looks whether the database takes it,
//! and [`record()`] does it: the same record as of any other load, which `fit`, `check` and `report`
//! read. The rules are those of [`load::http`]: a latency counts from the intended start, the deck of
//! scripts is exact, what is in flight at the end is neither completed nor failed.
//!
//! The protocol is spoken here, by way of `postgres-protocol`: no task and no channel stands between a
//! client and its socket, and none of the code is that of the gate or the monitor, which it measures.

mod connect;
mod plan;
mod preflight;
mod run;
pub mod script;
mod session;
mod sleeps;
mod worker;

pub use connect::{OpenError, Said};
pub use plan::{Plan, PlanError, PlanSpec};
pub use preflight::{Found, execute, preflight};
pub use run::{RunError, probe, record, record_part, record_until};
