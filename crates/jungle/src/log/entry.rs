//! The bytes of a segment and of its entries.
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
//! what was written a sector of zeros.
//!
//! The header of a segment has a magic number (8 bytes), the epoch (4), the number of its first entry (8), that of the
//! last entry that was safe when it was made (8) and a checksum (4). It is safe before the first entry is written.

pub(super) const HEADER: usize = 32;
pub(super) const SECTOR: usize = 512;
pub(super) const MAGIC: &[u8; 8] = b"JungleL2";
pub(super) const PREFIX: &str = "log-";

pub(super) fn name(first: u64) -> String {
    format!("{PREFIX}{first:020}")
}

pub(super) fn padded(payload: usize) -> usize {
    payload.div_ceil(HEADER) * HEADER
}

pub(super) struct Header {
    pub(super) length: usize,
    pub(super) payload_crc: u32,
    pub(super) seq: u64,
    pub(super) epoch: u32,
    pub(super) distance: u32,
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; HEADER] {
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
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
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
pub(super) struct SegmentHeader {
    pub(super) epoch: u32,
    pub(super) first: u64,
    /// The last entry that was safe when the segment was made.
    pub(super) synced: u64,
}

impl SegmentHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
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
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
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
pub(super) fn other_format(segment: &[u8]) -> Option<String> {
    let bytes = segment.get(..HEADER)?;
    let is_whole = bytes[28..] == crc32c::crc32c(&bytes[..28]).to_le_bytes();
    let is_other = bytes[..7] == MAGIC[..7] && bytes[..8] != *MAGIC && is_whole;
    is_other.then(|| String::from_utf8_lossy(&bytes[..8]).into_owned())
}

/// Covers a payload, or uncovers it: exclusive-or a stream (splitmix64) that no payload can be written to match,
/// because its own checksum begins it.
pub(super) fn cover(payload: &mut [u8], crc: u32, seq: u64) {
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

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
