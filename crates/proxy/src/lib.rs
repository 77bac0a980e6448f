//! Regulates: gates in real time.
//!
//! The one idea: a live server is a driver. It reads the clock, owns the sockets and tells a
//! [`live::Driver`] what happens; what that decides is carried out, and recorded so that it can be
//! replayed. No discipline and no router is known here by name.

pub mod http;
pub mod postgres;
mod tls;

pub use live::{BUCKETS, Times};
