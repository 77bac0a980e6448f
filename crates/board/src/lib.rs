//! Posts: the bulletin board of the oshiro paper, with the same bytes on every store. It is decided once
//! ([`Board`]), keeps threads and messages in a [`Store`], and answers by HTTP ([`Server`]).
//!
//! ```text
//!   HTTP ──▶ Board: id, time, order ──▶ Store: Jungle, SQLite, PostgreSQL, Cassandra, etcd
//!                  ▲                        │
//!                  └── page (pure) ◀── threads, messages
//! ```

mod board;
mod choice;
#[cfg(feature = "cassandra")]
mod on_cassandra;
mod on_etcd;
mod on_jungle;
mod on_postgres;
mod on_sqlite;
mod page;
mod post;
mod request;
mod server;
mod verify;
mod waiting;

pub use board::{AllWrites, BODY_MAX, Board, BoardError, NAME_MAX, Writes};
pub use choice::{Choice, HAS_CASSANDRA};
pub use post::{
    Durability, Message, Outcome, PAGE, Pending, Span, Store, StoreError, Thread, Write,
};
pub use server::{Server, StartError, Traffic};
pub use verify::Verified;
