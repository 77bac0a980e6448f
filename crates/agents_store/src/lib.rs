//! Stores of the agent server: the transactions that the core of a partition asks for, made durable.
//!
//! One trait, [`Store`], and its stores: [`Memory`] for tests and trials, [`Embedded`] in a folder,
//! [`PostgresStore`] in a schema of the user's PostgreSQL.
//! A store keeps many partitions. Calls block; a shell makes them from a thread of its own, and may load
//! from one thread while it commits from another.
//!
//! Fencing is the store's part of the guarantees: a transaction takes place only if the partition's epoch
//! is the owner's, checked in the transaction itself, so that of two owners one can write at most.
//!
//! ```
//! use agents::{Append, Audience, Destination, Entry, Envelope, Key, Outcome, Priority, Seq};
//! use agents_store::{Memory, Store};
//! use gate::Time;
//!
//! let store: Box<dyn Store<u64>> = Box::new(Memory::new());
//! let first = store.open(0)?;
//! let envelope = Envelope {
//!     id: None,
//!     sender: 1,
//!     to: Destination::One(Key(7)),
//!     audience: Audience::Everyone,
//!     priority: Priority::Normal,
//!     message: 42,
//! };
//! let append = Append {
//!     epoch: first.epoch,
//!     after: first.log_end,
//!     entries: vec![Entry { seq: Seq(1), at: Time::ZERO, envelope }],
//!     received: Default::default(),
//! };
//! assert_eq!(store.append(0, &append)?, Outcome::Written);
//! // A second owner takes over: the first one writes nothing more.
//! let second = store.open(0)?;
//! assert_eq!(second.log[0].envelope.message, 42);
//! assert!(matches!(store.append(0, &append)?, Outcome::Conflict { epoch, .. } if epoch == second.epoch));
//! # Ok::<(), agents_store::StoreError>(())
//! ```

mod backup;
mod codec;
mod content;
mod embedded;
mod folder;
mod memory;
mod postgres;
mod store;

pub use backup::{
    Backed, BackedPartition, BackupError, BackupWriter, check_backup, check_restore, restore,
};
pub use content::Content;
pub use embedded::{Durability, Embedded, EmbeddedSpec};
pub use memory::Memory;
pub use postgres::{Made, PostgresSpec, PostgresStore, Table, TableRow, TableSpec};
pub use store::{DeadRow, LogPart, Store, StoreError};
