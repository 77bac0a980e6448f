//! The one face that the shell has of all stores, and what can go wrong with each.

use agents::{
    Append, Commit, DeadLetter, Entry, Epoch, Header, Key, Listed, LoadWay, Notification, Outcome,
    Outgoing, Row, Seq, Snapshot,
};

use crate::backup::{BackupError, BackupWriter};
use crate::content::Content;

/// A store of partitions of agents. Dropping it closes it: what was answered [`Outcome::Written`] is
/// durable before.
///
/// An error of [`append`](Store::append) and [`commit`](Store::commit) means that nobody knows their end:
/// the shell logs the cause, tells the core [`Outcome::Unknown`], and the core asks again.
pub trait Store<M: Content>: Send + Sync {
    /// Takes a partition over: reads it and raises its epoch in one transaction. A partition that never
    /// was is empty.
    ///
    /// # Errors
    /// The store is out of reach, or holds what cannot be read.
    fn open(&self, partition: u32) -> Result<Snapshot<M>, StoreError>;

    /// Appends to the log, if epoch and end of the log are the owner's.
    ///
    /// # Errors
    /// The end is unknown, with the cause.
    fn append(&self, partition: u32, append: &Append<M>) -> Result<Outcome, StoreError>;

    /// Commits a batch, if epoch and version are the owner's.
    ///
    /// # Errors
    /// The end is unknown, with the cause.
    fn commit(&self, partition: u32, commit: &Commit<M>) -> Result<Outcome, StoreError>;

    /// The rows of these agents, whose keys are in order; a missing one is empty.
    ///
    /// # Errors
    /// They could not be read.
    fn load(
        &self,
        partition: u32,
        keys: &[Key],
        way: LoadWay,
    ) -> Result<Vec<(Key, Row)>, StoreError>;

    /// The first notifications after a number that are not delivered, in order, at most so many.
    ///
    /// # Errors
    /// They could not be read.
    fn outbox(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Notification>, StoreError>;

    /// The first sent messages after a number that have not arrived, in order, at most so many.
    ///
    /// # Errors
    /// They could not be read.
    fn sent(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Outgoing<M>>, StoreError>;

    /// The rows from a key on, in the order of the keys, at most so many: for queries, copies and new
    /// versions of states. Rows without a state are among them.
    ///
    /// # Errors
    /// They could not be read.
    fn scan(&self, partition: u32, from: Key, limit: usize) -> Result<Vec<(Key, Row)>, StoreError>;

    /// The kept messages after a position, in order, at most so many.
    ///
    /// # Errors
    /// They could not be read.
    fn log(&self, partition: u32, after: Seq, limit: usize) -> Result<LogPart<M>, StoreError>;

    /// Forgets the messages up to a position, but none that the owner may still need, which are those after
    /// [`agents::Cursor::trimmed`]. Commits forget nothing: how long messages are kept is the shell's to
    /// say, and it has to say it from time to time, or the log grows. Each call forgets a bounded number;
    /// the answer is the first position that is still kept.
    ///
    /// # Errors
    /// The end is unknown, with the cause.
    fn forget(&self, partition: u32, upto: Seq) -> Result<Seq, StoreError>;

    /// The first dead letters after a number, in order, at most so many.
    ///
    /// # Errors
    /// They could not be read.
    fn dead(&self, partition: u32, after: u64, limit: usize)
    -> Result<Vec<DeadRow<M>>, StoreError>;

    /// Removes the dead letters of these numbers; the number of those that were there. To send one again:
    /// offer its message to the owner under a message id that its number yields, and remove it when that
    /// is answered. So it takes effect once, wherever this stops.
    ///
    /// # Errors
    /// The end is unknown, with the cause.
    fn remove_dead(&self, partition: u32, numbers: &[u64]) -> Result<u64, StoreError>;

    /// The partitions that were ever opened, in order.
    ///
    /// # Errors
    /// They could not be read.
    fn partitions(&self) -> Result<Vec<u32>, StoreError>;

    /// Adds all partitions as they are at one moment to a backup, while others write.
    ///
    /// # Errors
    /// The store has no backups of this kind, with the way that it has; it cannot be read; or nobody takes the backup.
    fn backup(&self, to: &mut BackupWriter<'_>) -> Result<(), BackupError>;
}

/// A part of the kept messages.
#[derive(Clone, Debug)]
pub struct LogPart<M> {
    /// The messages.
    pub entries: Vec<Entry<M>>,
    /// The first position that is kept: before it everything was forgotten.
    pub first: Seq,
    /// The last message of the log.
    pub end: Seq,
}

/// A dead letter in the store.
#[derive(Clone, Debug)]
pub struct DeadRow<M> {
    /// Its number in its partition, from 1; never given twice.
    pub n: u64,
    /// The delivery that could not be handled.
    pub letter: DeadLetter<M>,
}

/// The cause why a store did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or is busy: the same again may go right later.
    #[error("{place}: {cause}")]
    Unavailable {
        /// The store, as the user named it, and the step.
        place: String,
        /// The cause, and the way out where there is one.
        cause: String,
    },
    /// Its disk has no room: the same again goes right when there is some.
    #[error("{place}: no room is left on its disk ({cause}): make some, and it goes on by itself")]
    Full {
        /// The store, as the user named it, and the step.
        place: String,
        /// The system's words.
        cause: String,
    },
    /// It holds what this version does not write, or is used by somebody else. The same again will fail.
    #[error("{place}: {cause}")]
    Unusable {
        /// The store, as the user named it, and the row.
        place: String,
        /// The cause, and the way out where there is one.
        cause: String,
    },
}

/// The end of a transaction in a partition that nobody has opened: there is no owner that could write.
pub(crate) const NOBODY: Outcome =
    Outcome::Conflict { epoch: Epoch(0), version: 0, log_end: Seq(0) };

/// Most messages that one call forgets.
pub(crate) const FORGOTTEN_MAX: u64 = 10_000;

/// An agent as the directory lists it.
pub(crate) fn listed(header: Header) -> Listed {
    Listed { armed: header.armed, bounds: header.bounds }
}

/// The last message that a row without a state remembers.
pub(crate) fn remembered(header: &Header) -> Seq {
    header.applied.iter().copied().max().unwrap_or_default()
}
