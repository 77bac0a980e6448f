//! The admin console on the wire, and what else shows the same: without sockets, from one
//! [`Snapshot`] that whoever runs the gate fills in.
//!
//! ```text
//!   message ──▶ Session ──▶ Want::Snapshot, Estimates, Control ──▶ who runs the gate
//!     reply ◀──    │     ◀── Reply ◀──────────────────────────────────┘
//!
//!   Snapshot ──▶ tables (psql), prometheus (/metrics), state_json (/state.json) ──▶ PAGE
//! ```
//!
//! Clients that ask for the database `pgbouncer` or `sekisho` ([`is_console`]) get it behind their
//! login. Tables of PgBouncer have its columns of release 1.25 by name, order and type; our own are
//! GATE, QUEUE, PINS, MODEL and WHATIF. Unlike PgBouncer's, the console speaks the extended protocol
//! too, with values in text and in binary, for statements without parameters.
//!
//! Everything is bounded: a text by [`TEXT_MAX`], a reply by [`REPLY_MAX`], metrics by
//! [`CLASSES_MAX`], lists of JSON by [`LIST_MAX`]; where something is left out, the reply says so.
//!
//! ```
//! use pgconsole::{Access, Heard, Session, Want};
//! use pgwire::frame::Frontend;
//!
//! let mut out = Vec::new();
//! let mut session = Session::begin(Access::Show, "0.1.0", &mut out);
//! let heard = session.hear(Frontend::Query, b"show pools\0", &mut out);
//! assert_eq!(heard, Heard::Wants(Want::Snapshot));
//! ```

mod command;
mod extended;
mod json;
mod metrics;
mod row;
mod session;
mod snapshot;
mod tables;

use std::sync::LazyLock;

pub use command::{Command, CommandError, Control, Shutdown, TEXT_MAX};
pub use json::{LIST_MAX, state_json};
pub use metrics::{CLASSES_MAX, prometheus};
pub use row::{Column, Kind};
pub use session::{Access, Heard, REPLY_MAX, Refusal, Reply, Session, Want, is_console};
pub use snapshot::{
    Buffered, Class, Client, ClientState, Connection, Counts, Database, Memory, Mode, Phase, Pin,
    Pool, PoolClients, PoolServers, Replication, Server, ServerSlots, ServerState, Setting, Slots,
    SlotsOf, Snapshot, User, Waiter,
};
pub use tables::Table;

/// The live page: one HTML file that asks for `/state.json` of its own address again and again.
pub static PAGE: LazyLock<String> = LazyLock::new(|| {
    live::page::page(&live::page::GATE, include_str!("page.html"), include_str!("page.js"))
});
