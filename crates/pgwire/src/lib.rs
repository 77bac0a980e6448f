//! Speaks: PostgreSQL's protocol and authentication, of both sides, without a socket or a clock.
//!
//! ```text
//!   bytes ──▶ startup ──▶ auth ◀── secrets (users, HBA)
//!                          │
//!   bytes ──▶ frame ───────┴──▶ message (read, write)
//! ```
//!
//! Each part takes bytes that are there and says what they mean, or writes bytes to be sent; the owner
//! of a socket asks again when there are more. Nonces are given by the caller, so every exchange can be
//! replayed.
//!
//! - [`startup`]: the packets without a tag, with which a connection begins;
//! - [`frame`]: the stream behind them, cut into messages where they lie;
//! - [`message`]: the messages that a gate writes itself or must understand;
//! - [`auth`]: proofs of identity, of clients to the gate and of the gate to servers;
//! - [`secrets`]: users and their secrets, and pg_hba.conf's rules of who may come from where.

pub mod auth;
pub mod frame;
pub mod message;
pub mod secrets;
mod sqlstate;
pub mod startup;

pub use sqlstate::SqlState;
