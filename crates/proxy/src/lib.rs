//! Regulates: gates in real time.
//!
//! The one idea: a live server is a driver. It reads the clock, owns the sockets and tells a
//! [`gate::Gate`] what happens; what the gate answers is carried out, and recorded so that it can
//! be replayed. No discipline and no router is known here by name.

pub mod http;
pub mod postgres;
mod prometheus;
mod tls;

pub use prometheus::{BUCKETS, Times};
