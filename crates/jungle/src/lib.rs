//! Keeps: Jungle, a non-destructive tree database. The tree, its merge rules, the sequencer and the log decide
//! without clock, socket, thread or disk.

mod attributes;
mod blob;
mod commit;
mod database;
mod diff;
mod disk;
mod editor;
mod expiry;
mod history;
mod json;
mod log;
mod map;
mod merge;
mod node;
mod operation;
mod path;
mod sequence;
mod sequencer;
#[cfg(test)]
mod simulated;
mod snapshot;
mod tree;
mod version;
mod wire;

pub use attributes::{Attributes, Iter as AttributeIter};
pub use blob::{
    BLOB, BlobError, BlobHash, BlobId, BlobIdError, BlobRef, BlobWriter, Sealed, blob_file,
    blob_of_file, blobs_of, check_blob,
};
pub use commit::{Change, Commit, Timestamp};
pub use database::{Database, PastError, Reader};
pub use diff::Difference;
pub use disk::{Disk, DiskError, MemoryDisk};
pub use editor::Editor;
pub use expiry::{EXPIRES, deadline};
pub use history::{Blame, Log as NodeLog, LogEntry, Thinning};
pub use json::{
    DocumentBlob, JsonError, Pointed, Pointers, is_equal, json_at, number_order, point, to_json,
    to_json_with_blobs,
};
pub use log::{Durability, Log, LogError, LogSettings, Opened, SegmentLog};
pub use merge::{Conflict, Policy, Rule};
pub use node::{Children, Node, NodeId, NodeIdError, Walk};
pub use operation::{Edit, Expect, Operation, Precondition, Refusal, Transaction};
pub use path::{NodePath, NodePathError};
pub use sequencer::{
    CommitError, Done, Group, Sequencer, SequencerSettings, Settings, Started, free_blobs, start,
    take_snapshot, trim_behind_snapshots, write_and_read_snapshot,
};
pub use snapshot::{SnapshotError, read_snapshot, write_snapshot};
pub use tree::{EditError, Place, Target, Tree};
pub use version::{Committed, Rejected, Retention, Version};
pub use wire::{WireError, decode, encode};

/// A bug that a test plants, to see that the simulator finds it.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "a field of public settings")]
pub enum Planted {
    /// A commit is answered before its sync.
    AnswerBeforeSync,
    /// A torn entry is taken for whole at a start.
    TornGroupTakenWhole,
    /// A failed sync is passed over.
    SyncRetried,
    /// Readers see a group before the log has it.
    PublishBeforeLog,
    /// A version that a reader holds by name is freed.
    HeldVersionFreed,
    /// A start takes for safe what it could read.
    StartWithoutSync,
    /// The log is trimmed before the snapshot is safe.
    TrimmedTooEarly,
    /// What is due is decided by a clock that the log does not have.
    TickByAClock,
    /// A commit names a blob that is not safe.
    BlobNotSynced,
    /// A blob is freed that a kept version names.
    HeldBlobFreed,
    /// A blob is freed before the log is safe that says so.
    BlobFreedTooEarly,
}

/// The page of the documentation, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/jungle.md")]
struct Page;
