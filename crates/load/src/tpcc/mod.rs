//! TPC-C on PostgreSQL, by the rules of [`workload::tpcc`].
//!
//! [`load()`] fills a database, on several connections, from a seed; [`LoadRecord`] is what the
//! database remembers of it, and what a run needs to know. [`verify`] asks whether what is there is
//! what must be there.

mod copy;
mod loader;
pub mod schema;
pub mod verify;

pub use loader::{
    Existing, ForeignKeys, Grain, LoadError, LoadPlan, LoadRecord, Loaded, Others, Phase, Progress,
    load,
};
pub use tokio_postgres::Config;
pub use tokio_postgres::config::SslMode;
