//! A checker of histories of lists: appends and whole reads of one list are linearizable exactly if all reads
//! are beginnings of one order that keeps the order of real time.

use std::collections::{BTreeMap, BTreeSet};

/// What a client did to one list, and when.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// An append: acknowledged at `end`, or unknown without it.
    Append { value: u64, start: u64, end: Option<u64> },
    /// An append that was refused.
    Refused { value: u64 },
    /// A read of the whole list.
    Read { values: Vec<u64>, start: u64, end: u64 },
}

/// Checks the history of one list.
pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let reads = events.iter().filter_map(|event| match event {
        Event::Read { values, start, end } => Some((values, *start, *end)),
        _ => None,
    });
    let mut reads: Vec<_> = reads.collect();
    let Some((order, ..)) = reads.iter().max_by_key(|(values, ..)| values.len()).copied() else {
        return Ok(());
    };
    let place: BTreeMap<u64, usize> =
        order.iter().enumerate().map(|(place, value)| (*value, place)).collect();
    if place.len() != order.len() {
        return Err(format!("a value is there twice: {order:?}"));
    }
    if let Some((values, ..)) = reads.iter().find(|(values, ..)| !order.starts_with(values)) {
        return Err(format!("{values:?} is no beginning of {order:?}"));
    }
    // Reads never go back.
    reads.sort_unstable_by_key(|(_, start, _)| *start);
    let mut ended: Vec<(u64, usize)> =
        reads.iter().map(|(list, _, end)| (*end, list.len())).collect();
    ended.sort_unstable();
    let (mut seen, mut next) = (0, 0);
    for (values, start, _) in &reads {
        while ended.get(next).is_some_and(|(end, _)| end < start) {
            seen = seen.max(ended[next].1);
            next += 1;
        }
        if values.len() < seen {
            return Err(format!(
                "a read at {start} saw {} values, after one of {seen}",
                values.len()
            ));
        }
    }
    appends(events, &place, &reads)
}

/// Appends against reads and against each other.
fn appends(
    events: &[Event],
    place: &BTreeMap<u64, usize>,
    reads: &[(&Vec<u64>, u64, u64)],
) -> Result<(), String> {
    let mut known = BTreeSet::new();
    let mut acknowledged: Vec<(u64, u64, u64)> = Vec::new();
    for event in events {
        match event {
            Event::Append { value, start, end } => {
                known.insert(*value);
                acknowledged.extend(end.map(|end| (end, *value, *start)));
                for (values, from, to) in reads {
                    let has = place.get(value).is_some_and(|place| *place < values.len());
                    if end.is_some_and(|end| end < *from) && !has {
                        return Err(format!(
                            "{value} was acknowledged, and a read at {from} lacks it"
                        ));
                    }
                    if start > to && has {
                        return Err(format!("a read at {to} has {value}, which came at {start}"));
                    }
                }
            }
            Event::Refused { value } if place.contains_key(value) => {
                return Err(format!("{value} was refused, and is there"));
            }
            Event::Refused { .. } | Event::Read { .. } => {}
        }
    }
    if let Some(value) = place.keys().find(|value| !known.contains(value)) {
        return Err(format!("{value} was never appended"));
    }
    // Of two appends the one that ended before the other began comes first.
    acknowledged.sort_unstable();
    let mut begun: Vec<(u64, usize)> = acknowledged
        .iter()
        .filter_map(|(_, value, start)| Some((*start, *place.get(value)?)))
        .collect();
    begun.sort_unstable();
    let (mut highest, mut next) = (None, 0);
    for (start, own) in begun {
        while let Some((_, value, _)) = acknowledged.get(next).filter(|(end, ..)| *end < start) {
            highest = highest.max(place.get(value).copied());
            next += 1;
        }
        if highest.is_some_and(|highest| highest > own) {
            return Err(format!("an append at {start} stands before one that had ended"));
        }
    }
    Ok(())
}

#[test]
fn the_checker_tells_good_histories_from_bad_ones() {
    let append = |value, start, end| Event::Append { value, start, end: Some(end) };
    let read = |values: &[u64], start, end| Event::Read { values: values.to_vec(), start, end };
    let good = [append(1, 0, 5), append(2, 1, 6), read(&[2], 2, 3), read(&[2, 1], 7, 8)];
    assert_eq!(check(&good), Ok(()));
    let unknown = Event::Append { value: 3, start: 0, end: None };
    assert_eq!(check(&[unknown, read(&[], 1, 2), read(&[3], 3, 4)]), Ok(()));
    for bad in [
        vec![append(1, 0, 1), read(&[], 2, 3), read(&[1], 4, 5)],
        vec![append(1, 0, 1), append(2, 2, 3), read(&[2, 1], 4, 5)],
        vec![append(1, 4, 5), read(&[1], 2, 3)],
        vec![append(1, 0, 9), append(2, 0, 9), read(&[1], 1, 2), read(&[2, 1], 3, 4)],
        vec![append(1, 0, 9), read(&[1], 1, 2), read(&[], 3, 4)],
        vec![Event::Refused { value: 1 }, read(&[1], 1, 2)],
        vec![read(&[1], 1, 2)],
        vec![append(1, 0, 1), read(&[1, 1], 2, 3)],
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}
