//! A segment as it is read: a tail that a crash tore, which nobody was promised, is told from damage to what somebody was.
//!
//! At the first entry that does not fit there are these cases:
//!
//! - A header that is neither zero nor right is damage: a crash does not leave one. So is one that is zero in a
//!   sector that is not.
//! - A payload that is wrong, and no sector of it is zero, is damage for the same reason.
//! - A segment that ends within an entry is damage: its length was safe before it had entries.
//! - A later entry, or the header of a later segment, says that this one had been synced before: damage.
//! - Else the crash came before the sync, and nobody was promised the entry: a torn tail, which is cut. Without syncs
//!   (`Durability::None`) it may begin in an older segment, and those behind it go too.

use super::LogError;
use super::entry::{HEADER, Header, SECTOR, SegmentHeader, cover, is_zero, other_format, padded};
use super::start::LeftOut;

/// The end of what a segment holds.
pub(super) enum End {
    /// Zeros from here on.
    Clean,
    /// A crash left parts of entries that nobody was told of.
    Torn,
}

/// A segment while it is read.
pub(super) struct Scan<'a> {
    pub(super) file: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) offset: usize,
    pub(super) next: u64,
    /// The epoch of the last entry. A start may have raised that of the segment since.
    pub(super) epoch: u32,
}

impl Scan<'_> {
    pub(super) fn damaged(&self, cause: &'static str) -> LogError {
        let (segment, offset) = (self.file.to_owned(), self.offset as u64);
        LogError::Damaged { segment, offset, entry: self.next, cause }
    }

    /// Reads the header of the segment; `None` if a crash left none.
    pub(super) fn begin(&mut self, first: u64) -> Result<Option<SegmentHeader>, LogError> {
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
    pub(super) fn entries(
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
pub(super) fn says_synced(bytes: &[u8], seq: u64, epoch: u32) -> bool {
    bytes.chunks_exact(HEADER).filter_map(Header::of).any(|later| {
        let synced = later.seq.saturating_sub(u64::from(later.distance));
        later.seq > seq && later.epoch >= epoch && synced >= seq
    })
}
