//! Multiplexes: the sessions of many clients of PostgreSQL on few connections to servers, without a
//! socket or a clock.
//!
//! ```text
//!   client's bytes ──▶ relay ──▶ pipeline, statements ──▶ server's bytes
//!                        │
//!                        └──▶ sql: what a text leaves in its session
//! ```
//!
//! Each part takes bytes that are there and says what they mean, or writes bytes to be sent. None of
//! them reads a clock or draws a number, so every run can be replayed.
//!
//! - [`pipeline`]: the pipeline of one connection to a server: what the server still owes, and
//!   whether it may go to another client;
//! - [`statements`]: prepared statements of many clients on few servers;
//! - [`relay`]: these two together, for one connection to a server: what goes where;
//! - [`unlinked`]: the messages of a client without a server, and the replies to one that gets none;
//! - [`sql`]: what a text says: what it leaves in a session, its class, key and fingerprint; and the
//!   settings that follow a client from server to server;
//! - [`session`]: these settings at a server and at the client that has it, while bytes pass;
//! - [`first_messages`]: the text and the parameters of a Bind in what a client says first, by which a
//!   job is classified and routed;
//! - [`classification_cache`]: the classes of texts that come again and again;
//! - [`health`]: which servers are up, and how far replicas are behind.

pub mod classification_cache;
pub mod first_messages;
pub mod health;
pub mod pipeline;
pub mod relay;
pub mod session;
pub mod sql;
pub mod statements;
pub mod unlinked;
