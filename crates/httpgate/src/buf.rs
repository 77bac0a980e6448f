//! A bounded byte buffer between two sockets. It takes memory only as far as it was ever filled,
//! so that ten thousand idle connections cost little.

/// Bytes that were read and not yet written, at most `bound` of them.
#[derive(Debug)]
pub(crate) struct Buf {
    /// Initialised memory; `start..end` of it is filled.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    first: usize,
    bound: usize,
}

/// Capacity that an idle connection may keep [B].
const KEPT_MAX: usize = 16 * 1024;

impl Buf {
    /// An empty buffer that begins with `first` bytes of memory and grows up to `bound`.
    pub(crate) fn new(first: usize, bound: usize) -> Buf {
        Buf { bytes: Vec::new(), start: 0, end: 0, first: first.min(bound), bound }
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Room left under the bound [B].
    pub(crate) fn room(&self) -> usize {
        self.bound.saturating_sub(self.len())
    }

    /// Memory to read into; empty only if there is no room.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.compact();
            } else {
                let larger = (self.bytes.len() * 2).clamp(self.first, self.bound);
                if larger > self.bytes.len() {
                    self.bytes.resize(larger, 0);
                }
            }
        }
        let most = self.bytes.len().min(self.end + self.room());
        &mut self.bytes[self.end..most]
    }

    /// Counts `n` bytes that were read into [`space`](Buf::space).
    pub(crate) fn commit(&mut self, n: usize) {
        self.end += n;
        assert!(self.end <= self.bytes.len(), "more was read than there was space for");
    }

    /// Drops the first `n` bytes.
    pub(crate) fn consume(&mut self, n: usize) {
        self.start += n;
        assert!(self.start <= self.end, "more was taken than there was");
        if self.start == self.end {
            self.clear();
        }
    }

    /// Drops all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Gives memory back that only a large message needed.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() && self.bytes.len() > KEPT_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Appends bytes. Only callers that write heads and chunk sizes, which are bounded themselves,
    /// may go past the bound.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let needed = self.end + bytes.len();
        if needed > self.bytes.len() {
            self.make(bytes.len());
        }
        let end = self.end + bytes.len();
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    pub(crate) fn extend_number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.extend(&digits[at..]);
    }

    fn compact(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }

    #[cold]
    fn make(&mut self, more: usize) {
        self.compact();
        let needed = (self.end + more).max(self.first);
        if needed > self.bytes.len() {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_bound_and_no_further() {
        let mut buf = Buf::new(4, 10);
        let mut read = 0;
        while !buf.space().is_empty() {
            buf.space()[0] = read;
            buf.commit(1);
            read += 1;
        }
        assert_eq!(buf.filled(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        buf.consume(3);
        assert_eq!((buf.room(), buf.space().len()), (3, 3));
        assert_eq!(buf.filled(), [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn what_is_appended_follows_what_was_read() {
        let mut buf = Buf::new(4, 8);
        buf.extend(b"ab");
        buf.consume(1);
        buf.extend(b"0123456789");
        buf.extend_number(0);
        buf.extend_number(u64::MAX);
        assert_eq!(buf.filled(), b"b0123456789018446744073709551615");
        assert_eq!(buf.room(), 0);
        assert!(buf.space().is_empty());
    }
}
