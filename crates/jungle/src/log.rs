//! The log is the truth: what is in it, in its order, is the database. It must tell a tail that a crash tore,
//! which nobody was promised, from damage to what somebody was.
//!
//! A segment is a file of zeros that is written from its start. An entry is a header of 32 bytes and a payload,
//! padded to 32; so a header never lies across two sectors, and is after a crash either all there or all zero:
//!
//! | bytes | header of an entry |
//! | --- | --- |
//! | 0-3 | length of the payload \[B\] |
//! | 4-7 | CRC-32C of the payload |
//! | 8-15 | sequence number |
//! | 16-19 | epoch |
//! | 20-23 | distance: this number less the last that was synced when this entry was written |
//! | 24-27 | 0, for later |
//! | 28-31 | CRC-32C of bytes 0-27 |
//!
//! The payload is written exclusive-or a stream that its checksum and number begin, padding included: no payload makes
//! what was written a sector of zeros. Then at the first entry that does not fit there are these cases:
//!
//! - A header that is neither zero nor right is damage: a crash does not leave one. So is one that is zero in a
//!   sector that is not.
//! - A payload that is wrong, and no sector of it is zero, is damage for the same reason.
//! - A segment that ends within an entry is damage: its length was safe before it had entries.
//! - A later entry, or the header of a later segment, says that this one had been synced before: damage.
//! - Else the crash came before the sync, and nobody was promised the entry: a torn tail, which is cut. Without syncs
//!   (`Durability::None`) it may begin in an older segment, and those behind it go too.
//!
//! The header of a segment has a magic number (8 bytes), the epoch (4), the number of its first entry (8), that of the
//! last entry that was safe when it was made (8) and a checksum (4). It is safe before the first entry is written.

use crate::disk::{Disk, DiskError};

const HEADER: usize = 32;
const SECTOR: usize = 512;
const MAGIC: &[u8; 8] = b"JungleL2";
const PREFIX: &str = "log-";
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

fn name(first: u64) -> String {
    format!("{PREFIX}{first:020}")
}

fn padded(payload: usize) -> usize {
    payload.div_ceil(HEADER) * HEADER
}

struct Header {
    length: usize,
    payload_crc: u32,
    seq: u64,
    epoch: u32,
    distance: u32,
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.distance.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header in bytes whose checksum is right.
    fn of(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        (number(28) == crc32c::crc32c(&bytes[..28])).then(|| Self {
            length: number(0) as usize,
            payload_crc: number(4),
            seq: u64::from_le_bytes(bytes[8..16].try_into().expect("eight")),
            epoch: number(16),
            distance: number(20),
        })
    }
}

/// The header of a segment.
#[derive(Clone, Copy)]
struct SegmentHeader {
    epoch: u32,
    first: u64,
    /// The last entry that was safe when the segment was made.
    synced: u64,
}

impl SegmentHeader {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.first.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at the start of a segment, if its magic number and checksum are right.
    fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let crc = u32::from_le_bytes(bytes[28..].try_into().expect("four"));
        (bytes[..8] == *MAGIC && crc == crc32c::crc32c(&bytes[..28])).then(|| Self {
            epoch: u32::from_le_bytes(bytes[8..12].try_into().expect("four")),
            first: u64::from_le_bytes(bytes[12..20].try_into().expect("eight")),
            synced: u64::from_le_bytes(bytes[20..28].try_into().expect("eight")),
        })
    }
}

/// The format that a segment names, where its header is whole and of another version: all versions have the checksum in
/// the same place.
fn other_format(segment: &[u8]) -> Option<String> {
    let bytes = segment.get(..HEADER)?;
    let is_whole = bytes[28..] == crc32c::crc32c(&bytes[..28]).to_le_bytes();
    let is_other = bytes[..7] == MAGIC[..7] && bytes[..8] != *MAGIC && is_whole;
    is_other.then(|| String::from_utf8_lossy(&bytes[..8]).into_owned())
}

/// Covers a payload, or uncovers it: exclusive-or a stream (splitmix64) that no payload can be written to match,
/// because its own checksum begins it.
fn cover(payload: &mut [u8], crc: u32, seq: u64) {
    let mut state = seq.rotate_left(32) ^ u64::from(crc);
    for chunk in payload.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        for (byte, key) in chunk.iter_mut().zip((z ^ z >> 31).to_le_bytes()) {
            *byte ^= key;
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The end of what a segment holds.
enum End {
    /// Zeros from here on.
    Clean,
    /// A crash left parts of entries that nobody was told of.
    Torn,
}

/// A segment while it is read.
struct Scan<'a> {
    file: &'a str,
    bytes: &'a [u8],
    offset: usize,
    next: u64,
    /// The epoch of the last entry. A start may have raised that of the segment since.
    epoch: u32,
}

impl Scan<'_> {
    fn damaged(&self, cause: &'static str) -> LogError {
        let (segment, offset) = (self.file.to_owned(), self.offset as u64);
        LogError::Damaged { segment, offset, entry: self.next, cause }
    }

    /// Reads the header of the segment; `None` if a crash left none.
    fn begin(&mut self, first: u64) -> Result<Option<SegmentHeader>, LogError> {
        // It was safe before anything else was written.
        if is_zero(self.bytes.get(..HEADER).unwrap_or(self.bytes)) && is_zero(self.bytes) {
            return Ok(None);
        }
        if let Some(found) = other_format(self.bytes) {
            return Err(LogError::Format { segment: self.file.to_owned(), found });
        }
        let header = SegmentHeader::of(self.bytes).filter(|header| header.first == first);
        let header = header.ok_or_else(|| self.damaged("the header of the segment is wrong"))?;
        self.offset = HEADER;
        Ok(Some(header))
    }

    /// Reads entries up to the end.
    fn entries(
        &mut self,
        left_out: LeftOut,
        each: &mut impl FnMut(u64, &[u8]) -> Result<(), LogError>,
    ) -> Result<End, LogError> {
        loop {
            let rest = &self.bytes[self.offset..];
            let Some(bytes) = rest.get(..HEADER) else {
                return if is_zero(rest) {
                    Ok(End::Clean)
                } else {
                    Err(self.damaged("the end of the segment is cut"))
                };
            };
            if is_zero(bytes) {
                if is_zero(rest) {
                    return Ok(End::Clean);
                }
                let sector = (SECTOR - self.offset % SECTOR).min(rest.len());
                if !is_zero(&rest[..sector]) {
                    return Err(self.damaged("a header is gone, and its sector is not"));
                }
                return self.torn(HEADER);
            }
            let header = Header::of(bytes).ok_or_else(|| self.damaged("a header is wrong"))?;
            if header.seq != self.next || header.epoch < self.epoch {
                return Err(self.damaged("an entry is out of order"));
            }
            let end = HEADER + padded(header.length);
            let payload = rest.get(HEADER..end);
            let payload =
                payload.ok_or_else(|| self.damaged("the segment ends within an entry"))?;
            let mut payload = payload.to_vec();
            cover(&mut payload, header.payload_crc, header.seq);
            if crc32c::crc32c(&payload) != header.payload_crc && left_out.checks() {
                if self.has_zero_sector(HEADER, end) {
                    return self.torn(end);
                }
                return Err(self.damaged("a payload is wrong"));
            }
            each(header.seq, &payload[..header.length])?;
            self.epoch = header.epoch;
            self.offset += end;
            self.next += 1;
        }
    }

    /// Tells whether a sector of a part of the entry here is zero as far as it is the entry's.
    fn has_zero_sector(&self, from: usize, to: usize) -> bool {
        let (mut at, to) = (self.offset + from, self.offset + to);
        while at < to {
            let end = (at / SECTOR * SECTOR + SECTOR).min(to);
            if self.bytes[at..end].iter().all(|byte| *byte == 0) {
                return true;
            }
            at = end;
        }
        false
    }

    /// The entry here was not written whole. If a later one says that it had been synced, it is damaged.
    fn torn(&self, from: usize) -> Result<End, LogError> {
        let start = (self.offset + from).next_multiple_of(HEADER);
        if says_synced(&self.bytes[start.min(self.bytes.len())..], self.next, self.epoch) {
            return Err(self.damaged("an entry is gone that a later one had behind it, synced"));
        }
        Ok(End::Torn)
    }
}

/// Tells whether an entry in these bytes says that entry `seq` had been synced before it was written.
fn says_synced(bytes: &[u8], seq: u64, epoch: u32) -> bool {
    bytes.chunks_exact(HEADER).filter_map(Header::of).any(|later| {
        let synced = later.seq.saturating_sub(u64::from(later.distance));
        later.seq > seq && later.epoch >= epoch && synced >= seq
    })
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

/// A step of a start that a planted bug leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    #[cfg(test)]
    Checksums,
    #[cfg(test)]
    Securing,
}

impl LeftOut {
    fn of(settings: LogSettings) -> Self {
        #[cfg(test)]
        match settings.planted {
            Some(crate::Planted::TornGroupTakenWhole) => return Self::Checksums,
            Some(crate::Planted::StartWithoutSync) => return Self::Securing,
            _ => {}
        }
        let LogSettings { .. } = settings;
        Self::Nothing
    }

    fn checks(self) -> bool {
        #[cfg(test)]
        return self != Self::Checksums;
        #[cfg(not(test))]
        true
    }

    fn secures(self) -> bool {
        #[cfg(test)]
        return self != Self::Securing;
        #[cfg(not(test))]
        true
    }
}

/// All that was read of a log.
struct Found {
    next: u64,
    epoch: u32,
    /// Tells whether anybody may have seen something of the log.
    was_used: bool,
    /// Whole segments that are not known to be safe.
    unsafe_segments: Vec<(String, Vec<u8>)>,
    /// The last segment: its file, its header if a crash left one, and its bytes up to the last whole entry.
    last: Option<(String, SegmentHeader, Vec<u8>)>,
    /// The length of the last segment on the disk \[B\].
    bytes: u64,
    is_torn: bool,
    /// Segments behind a torn one.
    lost: Vec<String>,
}

impl Found {
    fn new(segments: &[u64], after: u64) -> Self {
        Self {
            next: segments.first().copied().unwrap_or(after + 1),
            epoch: 1,
            was_used: after > 0 || !segments.is_empty(),
            unsafe_segments: Vec::new(),
            last: None,
            bytes: 0,
            is_torn: false,
            lost: Vec::new(),
        }
    }

    /// Makes safe what was read, cuts what was torn, and has the last segment say the epoch; that segment. A program
    /// that was killed leaves bytes that only the system's memory has; and after a failed sync Linux shows them and
    /// takes them for written, so that syncing alone would do nothing.
    fn secure<D: Disk>(self, disk: &mut D, epoch: u32) -> Result<Option<Segment>, DiskError> {
        for (file, whole) in &self.unsafe_segments {
            disk.write(file, 0, whole)?;
            disk.sync(file)?;
        }
        let Some((file, header, mut whole)) = self.last else { return Ok(None) };
        whole[..HEADER].copy_from_slice(&SegmentHeader { epoch, ..header }.to_bytes());
        let offset = whole.len() as u64;
        if self.is_torn {
            disk.truncate(&file, offset)?;
        }
        disk.write(&file, 0, &whole)?;
        disk.sync(&file)?;
        for lost in &self.lost {
            disk.remove(lost)?;
        }
        disk.sync_directory()?;
        let bytes = if self.is_torn { offset } else { self.bytes };
        Ok(Some(Segment { file, offset, bytes }))
    }
}

/// Reads all segments that have entries behind `after`.
fn read_segments<D: Disk>(
    disk: &D,
    segments: &[u64],
    after: u64,
    opened: &mut Opened,
    each: &mut impl FnMut(u64, &[u8]) -> Result<(), LogError>,
    left_out: LeftOut,
) -> Result<Found, LogError> {
    // The segments before the last one that begins at or before the first entry needed are not read.
    let start = segments.iter().rposition(|first| *first <= after + 1).unwrap_or(0);
    let (passed, segments) = segments.split_at(start);
    if let Some(first) = segments.first().filter(|first| **first > after + 1) {
        return Err(LogError::Missing { needed: after + 1, found: *first });
    }
    let mut found = Found::new(segments, after);
    let mut entry_epoch = 0;
    for (index, first) in segments.iter().enumerate() {
        let file = name(*first);
        let bytes = disk.read(&file).map_err(LogError::Unreadable)?;
        let mut scan =
            Scan { file: &file, bytes: &bytes, offset: 0, next: found.next, epoch: entry_epoch };
        let mut read = |seq: u64, payload: &[u8]| {
            if seq <= after {
                return Ok(());
            }
            opened.entries += 1;
            each(seq, payload)
        };
        let header = scan.begin(*first)?;
        let end = match header {
            Some(_) => scan.entries(left_out, &mut read)?,
            None => End::Torn,
        };
        (found.next, entry_epoch) = (scan.next, scan.epoch);
        found.epoch = found.epoch.max(entry_epoch).max(match (header, passed.last()) {
            (Some(header), _) => header.epoch,
            // A crash left no header here, so the epoch is where it was before.
            (None, Some(before)) => segment_header(disk, *before)?.epoch,
            (None, None) => 0,
        });
        let later = &segments[index + 1..];
        let follows = later.first().is_none_or(|at| *at == found.next);
        let is_whole = matches!(end, End::Clean) && follows;
        let whole = bytes[..scan.offset].to_vec();
        if is_whole && let Some(at) = later.first() {
            // Its entries may have come to the system's memory alone. A header that is wrong is told in its turn.
            if !segment_header(disk, *at).is_ok_and(|header| header.synced + 1 >= *at) {
                found.unsafe_segments.push((file, whole));
            }
            continue;
        }
        let (lost, epoch) = lost_behind(disk, &scan, end, later)?;
        (found.lost, found.epoch) = (lost, found.epoch.max(epoch));
        found.is_torn = !is_whole;
        if found.is_torn {
            opened.torn = Some((file.clone(), scan.offset as u64));
        }
        let none = SegmentHeader { epoch: 1, first: *first, synced: first - 1 };
        let whole = if header.is_some() { whole } else { none.to_bytes().to_vec() };
        (found.bytes, found.last) =
            (bytes.len() as u64, Some((file, header.unwrap_or(none), whole)));
        break;
    }
    Ok(found)
}

/// The segments behind one that ends too early, which go with its end, and their epoch, which has been seen.
///
/// # Errors
/// If any of them says that what is gone had been synced: it was promised then.
fn lost_behind<D: Disk>(
    disk: &D,
    scan: &Scan<'_>,
    end: End,
    later: &[u64],
) -> Result<(Vec<String>, u32), LogError> {
    let (mut lost, mut epoch) = (Vec::new(), 0);
    for first in later {
        let file = name(*first);
        let bytes = disk.read(&file).map_err(LogError::Unreadable)?;
        let header = SegmentHeader::of(&bytes);
        let entries = bytes.get(HEADER..).unwrap_or_default();
        if *first < scan.next
            || header.is_some_and(|header| header.synced >= scan.next)
            || says_synced(entries, scan.next, scan.epoch)
        {
            return Err(match end {
                End::Clean => LogError::Missing { needed: scan.next, found: later[0] },
                End::Torn => scan.damaged("the rest of the segment is gone"),
            });
        }
        epoch = epoch.max(header.map_or(0, |header| header.epoch));
        lost.push(file);
    }
    Ok((lost, epoch))
}

fn segment_header<D: Disk>(disk: &D, first: u64) -> Result<SegmentHeader, LogError> {
    let file = name(first);
    let bytes = disk.read(&file).map_err(LogError::Unreadable)?;
    let header = SegmentHeader::of(&bytes).filter(|header| header.first == first);
    let cause = "the header of the segment is wrong";
    header.ok_or(LogError::Damaged { segment: file, offset: 0, entry: first, cause })
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
