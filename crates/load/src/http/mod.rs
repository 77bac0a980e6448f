//! The load engine for HTTP servers: closed and open load, in real time.
//!
//! One OS thread a core, each with its own epoll, connections, chance and histograms; two system
//! calls a request. A [`Plan`] says what is to be done, [`run`] does it and hands over the
//! [intervals](measure::Interval) of a run record as they end.

mod asks;
mod collect;
pub mod knee;
mod plan;
mod preflight;
mod response;
mod run;
mod stream;
mod tally;
mod target;
mod tls;
mod worker;

pub use plan::{
    Closing, Connections, Idle, Load, Method, Naming, Plan, PlanError, PlanSpec, Resumption, Trust,
};
pub use preflight::preflight;
pub use run::{RunError, record, run};
pub use target::{Reach, Scheme, Target, TargetError};
pub use tls::TlsError;
