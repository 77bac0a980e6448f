//! A start: all segments that are needed are read, and what was read is made safe before it counts.

use super::entry::{HEADER, SegmentHeader, name};
use super::scan::{End, Scan, says_synced};
use super::{LogError, LogSettings, Opened, Segment};
use crate::disk::{Disk, DiskError};

/// A step of a start that a planted bug leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    Nothing,
    #[cfg(test)]
    Checksums,
    #[cfg(test)]
    Securing,
}

impl LeftOut {
    pub(super) fn of(settings: LogSettings) -> Self {
        #[cfg(test)]
        match settings.planted {
            Some(crate::Planted::TornGroupTakenWhole) => return Self::Checksums,
            Some(crate::Planted::StartWithoutSync) => return Self::Securing,
            _ => {}
        }
        let LogSettings { .. } = settings;
        Self::Nothing
    }

    pub(super) fn checks(self) -> bool {
        #[cfg(test)]
        return self != Self::Checksums;
        #[cfg(not(test))]
        true
    }

    pub(super) fn secures(self) -> bool {
        #[cfg(test)]
        return self != Self::Securing;
        #[cfg(not(test))]
        true
    }
}

/// All that was read of a log.
pub(super) struct Found {
    pub(super) next: u64,
    pub(super) epoch: u32,
    /// Tells whether anybody may have seen something of the log.
    pub(super) was_used: bool,
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
    pub(super) fn secure<D: Disk>(
        self,
        disk: &mut D,
        epoch: u32,
    ) -> Result<Option<Segment>, DiskError> {
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
pub(super) fn read_segments<D: Disk>(
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
