//! TPC-C for PostgreSQL: terminals, transactions and what is concluded from them.

mod record;
mod server;
mod tally;
mod terminals;
mod transactions;
mod verdict;

pub use record::{
    Checkpoints, Client, DeferredRecord, End, InputCounts, KindRecord, Pace, Plan, Record, Server,
};
pub use terminals::{DeliveryResult, RunError, Watch, run};
pub use transactions::*;
pub use verdict::{Check, Finding, MEASURE_LEAST, NOT_AUDITED, Outcome, Verdict};
