//! The log is the truth: what is in it, in its order, is the database. It must tell a tail that a crash tore,
//! which nobody was promised, from damage to what somebody was.
//!
//! The bytes are decided by [`entry`], the end of a segment by [`scan`], and a start by [`start`].

mod entry;
mod scan;
mod start;

use crate::disk::{Disk, DiskError};
use entry::{HEADER, Header, MAGIC, PREFIX, SegmentHeader, cover, name, padded};
use start::{LeftOut, read_segments};

/// The most bytes of one entry \[B\].
pub(crate) const ENTRY_MAX: usize = 1 << 30;

/// A durable, ordered list of entries: one log today on one disk, later on several nodes.
pub trait Log {
    /// Appends a group of entries with ascending numbers from the next on. They are as safe on return as the
    /// log's [`Durability`] says.
    ///
    /// # Errors
    /// [`LogError`]. After [`LogError::Full`] nothing was appended and the log goes on; after any other it
    /// has stopped for good.
    fn append(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), LogError>;

    /// Makes all entries safe that are not yet.
    ///
    /// # Errors
    /// [`LogError`], after which the log has stopped for good.
    fn sync(&mut self) -> Result<(), LogError>;

    /// The number of the last entry.
    fn head(&self) -> u64;

    /// The number of the last entry that is safe.
    fn synced(&self) -> u64;

    /// The number that grows when entries may have been lost that somebody has seen.
    fn epoch(&self) -> u32;

    /// Lets go of whole segments whose entries are all at or before `through`.
    ///
    /// # Errors
    /// [`LogError`].
    fn trim(&mut self, through: u64) -> Result<(), LogError>;
}

/// The moment at which a commit is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is safe: a power failure loses nothing that was answered.
    #[default]
    Sync,
    /// When it is written; it is safe after the next sync, which the caller asks for at intervals.
    Interval,
    /// When it is written; no entry is synced unless the caller asks for it. For tests and for data that can be made
    /// again.
    None,
}

/// Why the log does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// No room for another segment. Nothing was written.
    #[error("the log cannot grow: {0}")]
    Full(DiskError),
    /// A write or sync failed. What is on the disk is not known any more, so the log has stopped: start again.
    #[error("the log has stopped: {0}; start again, which reads what is really there")]
    Failed(DiskError),
    /// A snapshot was not taken. The log has all that it had.
    #[error("no snapshot was taken: {0}; the log goes on, and has everything")]
    NoSnapshot(String),
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Unreadable(DiskError),
    /// Entries that were safe are damaged.
    #[error(
        "{segment}: damaged at byte {offset}, entry {entry}: {cause}; restore this file from a backup"
    )]
    Damaged {
        /// The file.
        segment: String,
        /// The place in it \[B\].
        offset: u64,
        /// The number of the entry that is to be there.
        entry: u64,
        /// The cause.
        cause: &'static str,
    },
    /// A segment of another version of the format.
    #[error(
        "{segment}: its format is {found}, and this program reads {own}; open the directory with the version that \
         wrote it, export what it has, and import that here",
        own = MAGIC.escape_ascii()
    )]
    Format {
        /// The file.
        segment: String,
        /// The format that it names.
        found: String,
    },
    /// A blob is gone that the newest version names.
    #[error("{file}: it is gone, and the newest version names it; restore this file from a backup")]
    NoBlob {
        /// The file.
        file: String,
    },
    /// Entries are missing between the snapshot and the log, or between two segments.
    #[error(
        "entries from {needed} on are needed, and {found} is the next there; restore the missing segment"
    )]
    Missing {
        /// The first that is needed.
        needed: u64,
        /// The first that is there.
        found: u64,
    },
    /// An entry too large.
    #[error(
        "a transaction of {0} B is more than an entry holds, {ENTRY_MAX} B; commit it in parts"
    )]
    TooLarge(usize),
    /// The entry is none of ours, or does not apply to what comes before it.
    #[error("entry {entry}: {cause}")]
    Entry {
        /// The number of the entry.
        entry: u64,
        /// The cause.
        cause: String,
    },
}

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The entries that were read.
    pub entries: u64,
    /// The torn tail that was cut: file and offset \[B\].
    pub torn: Option<(String, u64)>,
}

/// The log on one disk.
#[derive(Debug)]
pub struct SegmentLog<D> {
    disk: D,
    durability: Durability,
    segment_bytes: u64,
    segment: Option<Segment>,
    /// Closed segments whose entries are not safe yet.
    unsynced: Vec<String>,
    head: u64,
    synced: u64,
    epoch: u32,
    failed: Option<LogError>,
    #[cfg(test)]
    planted: Option<crate::Planted>,
}

#[derive(Clone, Debug)]
struct Segment {
    file: String,
    offset: u64,
    bytes: u64,
}

/// Settings of a log on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The moment of the answer.
    pub durability: Durability,
    /// The length of a segment \[B\]; a larger group gets one of its own.
    pub segment_bytes: u64,
    /// A bug for the tests to find.
    #[cfg(test)]
    pub planted: Option<crate::Planted>,
}

impl Default for LogSettings {
    /// Synced before each answer, segments of 64 MiB.
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            segment_bytes: 64 << 20,
            #[cfg(test)]
            planted: None,
        }
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Opens the log, hands over each entry behind `after`, and cuts a torn tail.
    ///
    /// # Errors
    /// [`LogError`]; if entries are damaged or missing nothing is changed.
    pub fn open(
        mut disk: D,
        settings: LogSettings,
        after: u64,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), LogError>,
    ) -> Result<(Self, Opened), LogError> {
        let segments = Self::segments(&disk)?;
        let mut opened = Opened::default();
        let left_out = LeftOut::of(settings);
        let found = read_segments(&disk, &segments, after, &mut opened, &mut each, left_out)?;
        let may_have_lost =
            opened.torn.is_some() || settings.durability != Durability::Sync && found.was_used;
        let epoch = found.epoch + u32::from(may_have_lost);
        let next = found.next;
        let mut segment = None;
        if left_out.secures() {
            segment = found.secure(&mut disk, epoch).map_err(LogError::Failed)?;
        }
        let head = after.max(next - 1);
        let mut log = Self {
            disk,
            durability: settings.durability,
            segment_bytes: settings.segment_bytes,
            // If the snapshot is ahead of the log, entries before it may be gone, and are not needed.
            segment: segment.filter(|_| next > after),
            unsynced: Vec::new(),
            head,
            synced: head,
            epoch,
            failed: None,
            #[cfg(test)]
            planted: settings.planted,
        };
        if may_have_lost && log.segment.is_none() {
            // The epoch must not come twice, so a header has it before anybody sees it.
            log.begin(head + 1, HEADER as u64)?;
        }
        Ok((log, opened))
    }

    /// The first numbers of all segments.
    fn segments(disk: &D) -> Result<Vec<u64>, LogError> {
        let files = disk.list().map_err(LogError::Unreadable)?;
        let first = |file: &String| file.strip_prefix(PREFIX)?.parse().ok();
        let mut segments: Vec<u64> = files.iter().filter_map(first).collect();
        segments.sort_unstable();
        Ok(segments)
    }

    #[cfg(test)]
    pub(crate) fn planted(&self) -> Option<crate::Planted> {
        self.planted
    }

    /// The disk, for snapshots.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// The disk, when the log is closed.
    pub fn into_disk(self) -> D {
        self.disk
    }

    fn fail(&mut self, error: DiskError) -> LogError {
        let failed = LogError::Failed(error);
        self.failed = Some(failed.clone());
        failed
    }

    /// A segment for entries from `first` on, of at least so many bytes.
    fn begin(&mut self, first: u64, bytes: u64) -> Result<(), LogError> {
        // Whoever reads a segment takes what its header says for safe.
        if self.segment.is_some() && self.durability != Durability::None {
            self.sync()?;
        }
        let bytes = bytes.max(self.segment_bytes);
        if self.segment.as_ref().is_some_and(|segment| segment.offset == HEADER as u64) {
            return self.grow(bytes);
        }
        let file = name(first);
        match self.disk.create(&file, bytes) {
            Ok(()) => {}
            Err(full @ DiskError::Full { .. }) => return Err(LogError::Full(full)),
            Err(error) => return Err(self.fail(error)),
        }
        let header = SegmentHeader { epoch: self.epoch, first, synced: self.synced };
        // Length and header are safe whatever the durability: they are how a cut file is told from a torn one.
        let begun = self.disk.write(&file, 0, &header.to_bytes());
        let begun = begun.and_then(|()| self.disk.sync(&file));
        let begun = begun.and_then(|()| self.disk.sync_directory());
        begun.map_err(|error| self.fail(error))?;
        let segment = Segment { file, offset: HEADER as u64, bytes };
        if let Some(closed) = self.segment.replace(segment)
            && self.synced < self.head
        {
            self.unsynced.push(closed.file);
        }
        Ok(())
    }

    /// Makes the segment that has no entries long enough. Another in its place would lose, if a crash came between,
    /// the epoch that its header has.
    fn grow(&mut self, bytes: u64) -> Result<(), LogError> {
        let segment = self.segment.as_mut().expect("the caller has looked");
        let missing = usize::try_from(bytes - segment.bytes).expect("it is shorter than a file");
        let file = segment.file.clone();
        match self.disk.write(&file, segment.bytes, &vec![0; missing]) {
            Ok(()) => {}
            Err(full @ DiskError::Full { .. }) => return Err(LogError::Full(full)),
            Err(error) => return Err(self.fail(error)),
        }
        segment.bytes = bytes;
        self.disk.sync(&file).map_err(|error| self.fail(error))
    }

    fn group(&self, first: u64, payloads: &[Vec<u8>]) -> Result<Vec<u8>, LogError> {
        let mut group = Vec::new();
        for (seq, payload) in (first..).zip(payloads) {
            if payload.len() > ENTRY_MAX {
                return Err(LogError::TooLarge(payload.len()));
            }
            let mut covered = payload.clone();
            covered.resize(padded(payload.len()), 0);
            let payload_crc = crc32c::crc32c(&covered);
            cover(&mut covered, payload_crc, seq);
            let header = Header {
                length: payload.len(),
                payload_crc,
                seq,
                epoch: self.epoch,
                distance: u32::try_from(seq - self.synced).unwrap_or(u32::MAX),
            };
            group.extend_from_slice(&header.to_bytes());
            group.extend_from_slice(&covered);
        }
        Ok(group)
    }
}

impl<D: Disk> Log for SegmentLog<D> {
    fn append(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), LogError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        assert_eq!(first, self.head + 1, "entries are appended without a gap");
        let group = self.group(first, payloads)?;
        let needed = group.len() as u64;
        let room = self.segment.as_ref().map_or(0, |segment| segment.bytes - segment.offset);
        if room < needed {
            self.begin(first, HEADER as u64 + needed)?;
        }
        let segment = self.segment.as_mut().expect("there is one with room");
        let written = self.disk.write(&segment.file, segment.offset, &group);
        segment.offset += needed;
        written.map_err(|error| self.fail(error))?;
        self.head += payloads.len() as u64;
        if self.durability == Durability::Sync {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.synced == self.head {
            return Ok(());
        }
        #[cfg(test)]
        if self.planted == Some(crate::Planted::AnswerBeforeSync) {
            self.synced = self.head;
            return Ok(());
        }
        let open = &self.segment.as_ref().expect("an entry lies in a segment").file;
        let closed = std::mem::take(&mut self.unsynced);
        let synced = closed.iter().chain([open]).try_for_each(|file| self.disk.sync(file));
        if let Err(error) = synced {
            #[cfg(test)]
            if self.planted == Some(crate::Planted::SyncRetried) {
                self.synced = self.head;
                return Ok(());
            }
            return Err(self.fail(error));
        }
        self.synced = self.head;
        Ok(())
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn synced(&self) -> u64 {
        self.synced
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn trim(&mut self, through: u64) -> Result<(), LogError> {
        let segments = Self::segments(&self.disk)?;
        let mut removed = false;
        for pair in segments.windows(2) {
            let file = name(pair[0]);
            let is_open = self.segment.as_ref().is_some_and(|segment| segment.file == file);
            if pair[1] > through + 1 || is_open {
                break;
            }
            self.disk.remove(&file).map_err(|error| self.fail(error))?;
            removed = true;
        }
        if removed {
            self.disk.sync_directory().map_err(|error| self.fail(error))?;
        }
        Ok(())
    }
}
