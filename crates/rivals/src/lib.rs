//! Lends: a private server of a rival store, Cassandra or etcd. It is found on the machine or fetched, started in a
//! folder of its own on free ports of 127.0.0.1, stopped, and removed with everything in it.
//!
//! [`Lent::cassandra`] and [`Lent::etcd`] do all of that. A server cannot outlive the process that started it, however
//! that one ends. This crate uses nothing else of ours, and speaks neither protocol: what is measured must not know
//! who measures.
//!
//! ```no_run
//! use rivals::{Lent, Settings};
//!
//! let server = Lent::etcd(&Settings::default(), None)?;
//! println!("connect to {}", server.address());
//! server.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cassandra;
mod etcd;
mod lent;
mod maven;
mod programs;
mod watchdog;

pub use cassandra::CommitLog;
pub use lent::{Lent, Settings, StartError, StopError};
