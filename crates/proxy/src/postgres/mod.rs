//! The gate for PostgreSQL: the TP monitor in [`monitor`], and its core, which is what the protocol
//! says, without sockets, tasks or a clock.
//!
//! ```text
//!   bytes ──▶ startup ──▶ auth ◀── secrets (users, HBA)
//!                          │
//!   bytes ──▶ frame ───────┴──▶ message (read, write)
//!               │
//!               └──▶ relay ──▶ conversation, statements ──▶ bytes
//! ```
//!
//! Each part takes bytes that are there and says what they mean or writes bytes to be sent; who
//! reads and writes sockets asks again when there are more. Chance is given by the caller, so every
//! answer can be replayed.
//!
//! - [`startup`]: the packets without a tag, with which a connection begins;
//! - [`frame`]: the stream behind them, cut into messages where they lie;
//! - [`message`]: the messages that the gate says itself or must understand;
//! - [`conversation`]: what a server still owes, and whether it may go to another client;
//! - [`auth`]: how clients prove who they are, and how the gate does to servers;
//! - [`secrets`]: what it knows of users, and who may come from where;
//! - [`statements`]: prepared statements of many clients on few servers;
//! - [`relay`]: these two together, for one connection to a server: what goes where;
//! - [`at_rest`]: what a client says that has no server, and what it hears that gets none;
//! - [`sql`]: what a text says: what it leaves in a session, its class, key and fingerprint; and the
//!   settings that follow a client from server to server;
//! - [`console`]: the admin console, metrics and the live page, from a snapshot;
//! - [`monitor`]: all of it on real sockets, with a gate for each pool.

pub mod at_rest;
pub mod auth;
pub mod console;
pub mod conversation;
pub mod frame;
pub mod message;
pub mod monitor;
pub mod relay;
pub mod secrets;
pub mod sql;
mod sqlstate;
pub mod startup;
pub mod statements;

pub use sqlstate::SqlState;
