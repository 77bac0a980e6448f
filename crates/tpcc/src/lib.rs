//! TPC-C on PostgreSQL, by the rules of [`workload::tpcc`].
//!
//! [`load()`] fills a database, on several connections, from a seed; [`LoadRecord`] is what the
//! database remembers of it, and what a run needs to know. [`run()`] lets terminals work on it,
//! ten a warehouse in one thread, before far fewer connections ([`Session`]); its [`Record`] is
//! [judged](Record::judge) by the specification's rules, then or later. Several processes share a
//! plan with [`run_part`], and their records [merge](Record::merge) into one. [`verify`] looks at any
//! time whether the database is what it must be; [`acid()`] interleaves transactions and looks whether
//! they are kept apart; [`survival`] tells what of all that was acknowledged outlived a crash;
//! [`tuning`] reads what the server did meanwhile, and says which settings to try; [`find`] searches
//! for the most warehouses that qualify; [`place`] spreads the database over directories. Beside TPC-C,
//! [`holding`] holds slots of whatever stands before a server, for times that are known.

mod acid;
mod closed;
mod connection;
mod copy;
pub mod find;
pub mod holding;
mod intervals;
mod loader;
mod meeting;
mod merge;
mod parts;
pub mod place;
mod record;
pub mod schema;
mod server;
pub mod survival;
#[allow(unsafe_code)]
mod sys;
mod tally;
mod terminals;
mod transactions;
pub mod tuning;
mod verdict;
pub mod verify;

pub use acid::{AcidError, AcidFinding, AcidPlan, AcidTest, Expected, Observation, Trial, acid};
pub use closed::NotClosed;
pub use connection::{
    Config, ConnectError, PlaceError, TrustError, Verify, certificate_way_out, encryption_failure,
};
pub use loader::{
    Existing, ForeignKeys, Grain, LoadError, LoadPlan, LoadRecord, Loaded, Others, Phase, Progress,
    load,
};
pub use measure::{Difference, MergeError, NotAPart, PartRecord, RunPart};
pub use meeting::{MeetError, Meeting};
pub use record::{
    Checkpoints, Client, DeferredRecord, End, InputCounts, KindRecord, MergedPart, Pace, Plan,
    Record, Server,
};
pub use server::{Allowance, Facts, allowance, facts};
pub use sys::Alarm;
pub use terminals::{DeliveryResult, RunError, Watch, run, run_part};
pub use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};
pub use transactions::{
    Address, Delivered, Entered, Execution, Isolation, LastOrder, LineScreen, OpenError,
    OrderScreen, PaymentScreen, Performed, SESSION_SETTINGS, Screen, Session, StatusLine,
    StatusScreen, TransactionError, install_functions,
};
pub use verdict::{Check, Finding, MEASURE_FULL, MEASURE_LEAST, NOT_AUDITED, Outcome, Verdict};
