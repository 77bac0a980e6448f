//! TPC-C for PostgreSQL: terminals, transactions and what is concluded from them.

mod record;
mod server;
mod tally;
mod terminals;
mod transactions;

pub use record::{
    Checkpoints, Client, DeferredRecord, End, InputCounts, KindRecord, Pace, Plan, Record, Server,
};
pub use terminals::{DeliveryResult, RunError, Watch, run};
pub use transactions::*;
