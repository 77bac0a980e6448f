//! Output of a relay as places of bytes, which it does not move itself.

use std::ops::Range;

/// Destination of a direction: bytes of what was given as readable, and others between them.
pub trait Out {
    /// These of the readable bytes. Ranges come in order, and never one that begins where the one
    /// before has ended, unless something was [put](Out::put) between.
    fn pass(&mut self, range: Range<usize>);

    /// These bytes, which are gone after the call.
    fn put(&mut self, bytes: &[u8]);
}

/// The simplest way out: everything is copied behind what a buffer has.
#[derive(Debug)]
pub struct Copied<'a> {
    readable: &'a [u8],
    to: &'a mut Vec<u8>,
}

impl<'a> Copied<'a> {
    /// From `readable`, as it is given to the relay, to `to`.
    pub fn new(readable: &'a [u8], to: &'a mut Vec<u8>) -> Copied<'a> {
        Copied { readable, to }
    }
}

impl Out for Copied<'_> {
    fn pass(&mut self, range: Range<usize>) {
        self.to.extend_from_slice(&self.readable[range]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.to.extend_from_slice(bytes);
    }
}

/// Joins ranges that touch.
pub(super) struct Run<'a, O> {
    out: &'a mut O,
    range: Range<usize>,
}

impl<'a, O: Out> Run<'a, O> {
    pub(super) fn new(out: &'a mut O) -> Run<'a, O> {
        Run { out, range: 0..0 }
    }

    pub(super) fn pass(&mut self, range: Range<usize>) {
        debug_assert!(self.range.end <= range.start, "{range:?} comes behind {:?}", self.range);
        if range.start == self.range.end {
            self.range.end = range.end;
        } else {
            self.end();
            self.range = range;
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        // What has passed stands before what is put: whoever copies keeps this order.
        self.end();
        self.out.put(bytes);
    }

    pub(super) fn end(&mut self) {
        if !self.range.is_empty() {
            self.out.pass(self.range.clone());
        }
        // Empty, but where it was: what comes next must not be taken for what is out already.
        self.range = self.range.end..self.range.end;
    }
}
