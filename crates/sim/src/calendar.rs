//! The calendar: what happens next. Ties fall in the order in which they were entered, so that a
//! run is a function of its seed alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gate::Time;

/// Subject of a calendar entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A job of this open class arrives.
    Arrival(u32),
    /// This customer's think time, delay or service in a queue is over.
    Customer(u32),
    /// The next thing happens at this station that shares its processor.
    Station(u32),
    /// The gate asked to be woken.
    Gate(u32),
    /// This customer's patience at a gate is at its end.
    Patience(u32),
    /// This customer's client gives up.
    TimeOut(u32),
    /// An interval of the report ends, or the warm-up.
    IntervalEnd,
    /// This change of the agenda happens.
    Change(u32),
}

const INDEX_BITS: u32 = 29;
/// The largest index that an entry can carry.
const INDEX_MAX: usize = (1 << INDEX_BITS) - 1;

/// A priority queue of entries by (time, order of entry). The key packs into 128 bits: 64 of time,
/// 32 of order (which may wrap: it only breaks ties), 32 of entry.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Reverse<u128>>,
    entered: u32,
}

impl Calendar {
    /// Enters what happens `span` ns after `now`; past the end of the clock counts as at its end.
    #[inline]
    pub(crate) fn enter_after(&mut self, now: Time, span: u64, entry: Entry) {
        self.enter(Time::from_nanos(now.as_nanos().saturating_add(span)), entry);
    }

    #[inline]
    pub(crate) fn enter(&mut self, at: Time, entry: Entry) {
        self.entered = self.entered.wrapping_add(1);
        self.enter_in_order(at, self.entered, entry);
    }

    /// Enters what has this place among all that happens at the same moment. Not beside others that are
    /// entered without one.
    #[inline]
    pub(crate) fn enter_in_order(&mut self, at: Time, order: u32, entry: Entry) {
        let key =
            (u128::from(at.as_nanos()) << 64) | (u128::from(order) << 32) | u128::from(pack(entry));
        self.heap.push(Reverse(key));
    }

    /// When the next thing happens.
    #[inline]
    pub(crate) fn due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(key)| Time::from_nanos((key >> 64) as u64))
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Time, Entry)> {
        let Reverse(key) = self.heap.pop()?;
        Some((Time::from_nanos((key >> 64) as u64), unpack(key as u32)))
    }
}

fn pack(entry: Entry) -> u32 {
    let (kind, index) = match entry {
        Entry::Arrival(class) => (0, class),
        Entry::Customer(customer) => (1, customer),
        Entry::Station(station) => (2, station),
        Entry::Gate(gate) => (3, gate),
        Entry::Patience(customer) => (4, customer),
        Entry::TimeOut(customer) => (5, customer),
        Entry::IntervalEnd => (6, 0),
        Entry::Change(change) => (7, change),
    };
    debug_assert!(index as usize <= INDEX_MAX);
    (kind << INDEX_BITS) | index
}

fn unpack(packed: u32) -> Entry {
    let index = packed & INDEX_MAX as u32;
    match packed >> INDEX_BITS {
        0 => Entry::Arrival(index),
        1 => Entry::Customer(index),
        2 => Entry::Station(index),
        3 => Entry::Gate(index),
        4 => Entry::Patience(index),
        5 => Entry::TimeOut(index),
        6 => Entry::IntervalEnd,
        _ => Entry::Change(index),
    }
}
