//! All commits pass one short gate: the sequencer puts them in an order, decides each on a private version, has
//! the log keep a whole group with one sync, and only then shows and answers them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::blob::{BlobId, blob_file, blob_of_file, blobs_of, is_blob_part, unheld};
use crate::database::{Database, Reader};
use crate::disk::{Disk, DiskError};
use crate::history::Thinning;
use crate::log::{Log, LogError, LogSettings, Opened, SegmentLog};
use crate::operation::Transaction;
use crate::snapshot::{self, SnapshotError};
use crate::version::{Committed, Rejected, Retention, Version};
use crate::wire;

/// Bounds of a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencerSettings {
    /// The most transactions that wait.
    pub queue: usize,
    /// The most transactions of a group.
    pub group: usize,
    /// The bytes at which a group is closed \[B\].
    pub group_bytes: usize,
}

impl Default for SequencerSettings {
    /// 10,000 wait; groups of at most 1,000, closed at 4 MiB.
    fn default() -> Self {
        Self { queue: 10_000, group: 1_000, group_bytes: 4 << 20 }
    }
}

/// Why a commit was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The transaction takes no effect.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The queue is full. Nothing has happened.
    #[error("{0} transactions wait already; retry later")]
    QueueFull(usize),
    /// The log had no room. Nothing has happened.
    #[error(transparent)]
    NoRoom(LogError),
    /// The transaction is more than the log takes. Nothing has happened.
    #[error(transparent)]
    TooLarge(LogError),
    /// The log has stopped. The transaction may be in it or not; that shows when the database starts again.
    #[error("it is not known whether this was committed: {0}")]
    Unknown(LogError),
}

/// The answers to a group, by the tickets of its transactions.
#[derive(Debug, Default)]
pub struct Done {
    /// The answers, in order.
    pub answers: Vec<(u64, Result<Committed, CommitError>)>,
    /// Versions given up, to be freed where nobody waits.
    pub freed: Vec<Arc<Version>>,
}

/// Transactions that are in the log together, by one sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of the first.
    pub first: u64,
    /// The entries; none if all were rejected.
    pub payloads: Vec<Vec<u8>>,
}

/// The order of all commits of a database, as a machine without clock, thread or disk. Between
/// [`Sequencer::next_group`] and [`Sequencer::appended`] the caller has the log keep the group.
#[derive(Debug)]
pub struct Sequencer {
    database: Database,
    settings: SequencerSettings,
    queue: VecDeque<(u64, Transaction)>,
    in_flight: Option<Vec<(u64, Result<Committed, CommitError>)>>,
    stopped: Option<LogError>,
    #[cfg(test)]
    planted: Option<crate::Planted>,
}

impl Sequencer {
    /// A sequencer of a database.
    pub fn new(database: Database, settings: SequencerSettings) -> Self {
        Self {
            database,
            settings,
            queue: VecDeque::new(),
            in_flight: None,
            stopped: None,
            #[cfg(test)]
            planted: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn plant(&mut self, planted: Option<crate::Planted>) {
        self.planted = planted;
        self.database.plant(planted);
    }

    /// Access for readers.
    pub fn reader(&self) -> Reader {
        self.database.reader()
    }

    /// The database, to look at the past and to plan reverts.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The database, to hold versions and let them go. What is committed here passes the log by.
    pub fn database_mut(&mut self) -> &mut Database {
        &mut self.database
    }

    /// The blobs that are named by any kept version, by the newest, or by what waits.
    fn held_blobs(&self) -> BTreeSet<BlobId> {
        #[cfg(test)]
        if self.planted == Some(crate::Planted::HeldBlobFreed) {
            return blobs_of([self.database.private()]);
        }
        let mut held = self.database.held_blobs();
        let waiting = self.queue.iter().flat_map(|(_, transaction)| transaction.blobs());
        held.extend(waiting.map(|blob| blob.id));
        held
    }

    /// The number of transactions that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Queues a transaction under a ticket, by which it will be answered once.
    ///
    /// # Errors
    /// [`CommitError::QueueFull`], and [`CommitError::Unknown`] once the log has stopped; then there is no
    /// other answer.
    pub fn submit(&mut self, ticket: u64, transaction: Transaction) -> Result<(), CommitError> {
        if let Some(stopped) = &self.stopped {
            return Err(CommitError::Unknown(stopped.clone()));
        }
        if self.queue.len() >= self.settings.queue {
            return Err(CommitError::QueueFull(self.queue.len()));
        }
        self.queue.push_back((ticket, transaction));
        Ok(())
    }

    /// Decides the next group on the private version. `None` if nothing waits or a group is with the log.
    pub fn next_group(&mut self) -> Option<Group> {
        if self.queue.is_empty() || self.in_flight.is_some() || self.stopped.is_some() {
            return None;
        }
        let first = self.database.private().seq() + 1;
        let (mut payloads, mut answers) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while answers.len() < self.settings.group && bytes < self.settings.group_bytes {
            let Some((ticket, transaction)) = self.queue.pop_front() else { break };
            let payload = wire::encode(&transaction);
            if payload.len() > crate::log::ENTRY_MAX {
                let error = CommitError::TooLarge(LogError::TooLarge(payload.len()));
                answers.push((ticket, Err(error)));
                continue;
            }
            #[cfg(test)]
            let transaction = self.at_another_time(transaction);
            let staged = self.database.stage(&transaction);
            if staged.is_ok() {
                bytes += payload.len();
                payloads.push(payload);
            }
            answers.push((ticket, staged.map_err(CommitError::Rejected)));
        }
        #[cfg(test)]
        if self.planted == Some(crate::Planted::PublishBeforeLog) {
            drop(self.database.publish());
        }
        self.in_flight = Some(answers);
        Some(Group { first, payloads })
    }

    #[cfg(test)]
    fn at_another_time(&self, mut transaction: Transaction) -> Transaction {
        let is_tick = |one: &crate::Operation| matches!(one, crate::Operation::Tick { .. });
        if self.planted == Some(crate::Planted::TickByAClock)
            && transaction.operations.iter().any(is_tick)
        {
            transaction.time.0 += 20;
        }
        transaction
    }

    /// Takes the log's word on the group: publishes it, or takes it back; the answers.
    ///
    /// # Panics
    /// If no group is with the log.
    pub fn appended(&mut self, kept: Result<(), LogError>) -> Done {
        let answers = self.in_flight.take().expect("a group is with the log");
        let Err(error) = kept else {
            return Done { answers, freed: self.database.publish() };
        };
        self.database.unstage();
        // Rejections too may rest on what is now taken back.
        let mut lost: Vec<u64> = answers.into_iter().map(|(ticket, _)| ticket).collect();
        let answer = if matches!(error, LogError::Full(_)) {
            CommitError::NoRoom(error)
        } else {
            self.stopped = Some(error.clone());
            lost.extend(self.queue.drain(..).map(|(ticket, _)| ticket));
            CommitError::Unknown(error)
        };
        let answers = lost.into_iter().map(|ticket| (ticket, Err(answer.clone()))).collect();
        Done { answers, freed: Vec::new() }
    }

    /// One group from the queue through a log that answers at once. `None` if nothing waits.
    pub fn run(&mut self, log: &mut impl Log) -> Option<Done> {
        let group = self.next_group()?;
        let kept = if group.payloads.is_empty() {
            Ok(())
        } else {
            log.append(group.first, &group.payloads)
        };
        Some(self.appended(kept))
    }
}

/// What a start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// The version of the snapshot that was used; 0 is none.
    pub snapshot: u64,
    /// Snapshots that could not be used, with the reasons.
    pub unusable: Vec<SnapshotError>,
    /// What was found in the log.
    pub log: Opened,
}

/// Everything that a database on a disk is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The log.
    pub log: LogSettings,
    /// The sequencer.
    pub sequencer: SequencerSettings,
    /// Commits that are remembered.
    pub retention: Retention,
    /// Versions that are kept in memory.
    pub thinning: Thinning,
}

/// Starts a database from a disk: the newest snapshot that can be read, then the log behind it.
///
/// # Errors
/// [`LogError`], if what was acknowledged cannot be had whole.
pub fn start<D: Disk>(
    mut disk: D,
    settings: Settings,
) -> Result<(Sequencer, SegmentLog<D>, Started), LogError> {
    let files = disk.list().map_err(LogError::Unreadable)?;
    let mut started = Started::default();
    for file in snapshot::unfinished(&files) {
        disk.remove(file).map_err(LogError::Failed)?;
    }
    let (mut version, mut damaged) = (Version::default(), Vec::new());
    for seq in snapshot::versions(&files) {
        match snapshot::read_snapshot(&disk, seq) {
            Ok(read) => {
                (version, started.snapshot) = (read, seq);
                break;
            }
            Err(error) => {
                if matches!(error, SnapshotError::Damaged { .. }) {
                    damaged.push(seq);
                }
                started.unusable.push(error);
            }
        }
    }
    let mut database = Database::at_version(version, settings.retention, settings.thinning);
    let (mut log, opened) =
        SegmentLog::open(disk, settings.log, started.snapshot, |entry, payload| {
            let wrong = |cause: String| LogError::Entry { entry, cause };
            let transaction = wire::decode(payload).map_err(|error| wrong(error.to_string()))?;
            let committed =
                database.commit(&transaction).map_err(|error| wrong(error.to_string()))?;
            assert_eq!(committed.seq, entry, "entries are numbered as commits are");
            Ok(())
        })?;
    started.log = opened;
    let stored: BTreeSet<BlobId> = files.iter().filter_map(|file| blob_of_file(file)).collect();
    let named = blobs_of([database.private()]);
    if let Some(gone) = named.difference(&stored).next() {
        return Err(LogError::NoBlob { file: blob_file(*gone) });
    }
    // Only now: a start that fails has changed nothing that may be repaired.
    for part in files.iter().filter(|file| is_blob_part(file)) {
        log.disk_mut().remove(part).map_err(LogError::Failed)?;
    }
    snapshot::set_aside(log.disk_mut(), &damaged).map_err(LogError::Failed)?;
    let sequencer = Sequencer::new(database, settings.sequencer);
    #[cfg(test)]
    let sequencer = {
        let mut sequencer = sequencer;
        sequencer.plant(settings.log.planted);
        sequencer
    };
    Ok((sequencer, log, started))
}

/// Writes a snapshot of the newest published version, reads it back, and lets go of what no start needs any more:
/// all but the two newest snapshots, and the log before the older of them.
///
/// # Errors
/// [`LogError::NoSnapshot`], after which everything is as before and the log goes on; others if the log itself fails.
pub fn take_snapshot<D: Disk>(
    sequencer: &Sequencer,
    log: &mut SegmentLog<D>,
) -> Result<u64, LogError> {
    let version = sequencer.reader().version();
    // A snapshot must not hold what the log might still lose.
    log.sync()?;
    #[cfg(test)]
    if log.planted() == Some(crate::Planted::TrimmedTooEarly) {
        log.trim(version.seq())?;
    }
    write_and_read_snapshot(log.disk_mut(), &version)?;
    trim_behind_snapshots(log)?;
    Ok(version.seq())
}

/// Removes the blobs that no kept version names, nor what waits, nor `pinned`; those that are gone. The log is made safe
/// first: what a crash takes back of it may name them.
///
/// # Errors
/// [`LogError`]; then none was removed.
pub fn free_blobs<D: Disk>(
    sequencer: &Sequencer,
    log: &mut SegmentLog<D>,
    pinned: &BTreeSet<BlobId>,
) -> Result<Vec<BlobId>, LogError> {
    let files = log.disk_mut().list().map_err(LogError::Unreadable)?;
    let mut unheld = unheld(&files, &sequencer.held_blobs());
    unheld.retain(|id| !pinned.contains(id));
    if unheld.is_empty() {
        return Ok(unheld);
    }
    #[cfg(test)]
    let is_careless = log.planted() == Some(crate::Planted::BlobFreedTooEarly);
    #[cfg(not(test))]
    let is_careless = false;
    if !is_careless {
        log.sync()?;
    }
    // One that cannot be removed now is removed the next time, or at the next start.
    unheld.retain(|id| log.disk_mut().remove(&blob_file(*id)).is_ok());
    Ok(unheld)
}

fn none(error: DiskError) -> LogError {
    LogError::NoSnapshot(error.to_string())
}

/// Writes a snapshot of a version and reads it back; one that no start could use is set aside. For those who write
/// it beside commits that go on.
///
/// # Errors
/// [`LogError::NoSnapshot`]; the database is as safe as before.
pub fn write_and_read_snapshot<D: Disk>(disk: &mut D, version: &Version) -> Result<(), LogError> {
    snapshot::write_snapshot(disk, version).map_err(none)?;
    if let Err(error) = snapshot::read_snapshot(disk, version.seq()) {
        snapshot::set_aside(disk, &[version.seq()]).map_err(none)?;
        return Err(LogError::NoSnapshot(error.to_string()));
    }
    Ok(())
}

/// Lets go of what no start needs any more, once a snapshot is safe: all but the two newest snapshots, and the log
/// before the older of them.
///
/// # Errors
/// [`LogError`]; the database is as safe as before.
pub fn trim_behind_snapshots<D: Disk>(log: &mut SegmentLog<D>) -> Result<(), LogError> {
    let disk = log.disk_mut();
    let files = disk.list().map_err(none)?;
    let versions = snapshot::versions(&files);
    for old in versions.iter().skip(2) {
        disk.remove(&snapshot::file_of(*old)).map_err(none)?;
    }
    let needed = if versions.len() > 1 { versions[1] } else { 0 };
    log.trim(needed)
}
