//! Presses: clients in real time.
//!
//! The one idea: what is asked for is laid down beforehand (a seed, a plan), and every latency
//! counts from the moment at which the request *should* have begun. A closed load is a population
//! that waits for its answers; an open load waits for nobody. They are different systems, and a
//! run is one or the other.
//!
//! [`http`] is the engine for HTTP servers, [`tpcc`] is TPC-C on PostgreSQL, [`holding`] holds slots of
//! whatever stands before one; [`export`] writes a run record in the formats of others. The engine needs Linux (epoll).

pub mod export;
pub mod holding;
pub mod http;
pub mod tpcc;

mod certificates;
mod host;
mod reach;
#[allow(unsafe_code)]
mod sys;

pub use reach::{Reach, ReachError, judge, resolve};
