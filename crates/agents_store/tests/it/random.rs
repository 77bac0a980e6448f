//! Transactions by chance, as a core could ask for: what every record can hold, the ends of its numbers too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agents::{
    Append, Audience, Bound, Commit, Cursor, DeadLetter, Delivery, Destination, Entry, Envelope,
    Epoch, Header, Key, MessageId, Notification, NotificationKey, Outgoing, PassCursor, Priority,
    RowWrite, Seq, StateWrite, Stored, Timer, TimerName,
};
use gate::Time;
use rand::RngExt;
use workload::Chance;

/// Keys of agents, some at the ends of the range: few, so that they are met again.
pub(crate) fn any_key(chance: &mut Chance) -> Key {
    match chance.random_range(0..10) {
        0 => Key(u64::MAX),
        1 => Key(1 << 63),
        2 => Key((1 << 63) - 1),
        _ => Key(chance.random_range(0..40)),
    }
}

/// A number of any size.
fn any_number(chance: &mut Chance) -> u64 {
    chance.random_range(0..=u64::MAX) >> chance.random_range(0..64)
}

fn any_bytes(chance: &mut Chance) -> Vec<u8> {
    let len = chance.random_range(0..60);
    (0..len).map(|_| chance.random_range(0..=u8::MAX)).collect()
}

fn any_priority(chance: &mut Chance) -> Priority {
    let all = [Priority::Low, Priority::Normal, Priority::High, Priority::Urgent];
    all[chance.random_range(0..4)]
}

fn any_header(chance: &mut Chance) -> Header {
    let bounds = (0..chance.random_range(0..3)).map(|_| Bound {
        symbol: any_number(chance) as u32,
        low: any_number(chance) as i64,
        high: -(any_number(chance) as i64 >> 1),
    });
    let bounds = bounds.collect();
    Header {
        version: any_number(chance) as u16,
        applied: [0; 4].map(|_| Seq(any_number(chance) >> 1)),
        heard: [0; 4].map(|_| Seq(any_number(chance) >> 1)),
        born: Seq(any_number(chance) >> 1),
        fired: any_number(chance) >> 1,
        armed: chance.random_bool(0.5),
        bounds,
    }
}

fn any_entry(seq: Seq, chance: &mut Chance) -> Entry<Vec<u8>> {
    let to = match chance.random_range(0..5) {
        0 => Destination::One(any_key(chance)),
        1 => {
            let count = chance.random_range(0..5);
            Destination::Keys(Arc::from_iter((0..count).map(|_| any_key(chance))))
        }
        2 => Destination::Range(any_key(chance), any_key(chance)),
        3 => Destination::All,
        _ => Destination::Crossed {
            symbol: any_number(chance) as u32,
            price: any_number(chance) as i64,
        },
    };
    let id = u128::from(any_number(chance)) << 64 | u128::from(any_number(chance));
    let envelope = Envelope {
        id: chance.random_bool(0.5).then_some(MessageId(id)),
        sender: any_number(chance),
        to,
        audience: if chance.random_bool(0.5) { Audience::Armed } else { Audience::Everyone },
        priority: any_priority(chance),
        message: any_bytes(chance),
    };
    Entry { seq, at: Time::from_nanos(any_number(chance)), envelope }
}

/// Appended messages after the end of a log.
pub(crate) fn any_append(epoch: Epoch, after: Seq, chance: &mut Chance) -> Append<Vec<u8>> {
    let count = chance.random_range(0..8);
    let entries = (1..=count).map(|n| any_entry(Seq(after.0 + n), chance)).collect();
    let received = (0..chance.random_range(0..3))
        .map(|_| (chance.random_range(0..3) * (u32::MAX / 2), any_number(chance) >> 1))
        .collect();
    Append { epoch, after, entries, received }
}

fn any_write(key: Key, lives: bool, chance: &mut Chance) -> RowWrite {
    let stored = |chance: &mut Chance| Stored { cold: any_bytes(chance), hot: any_bytes(chance) };
    let state = match chance.random_range(0..6) {
        0 | 1 => StateWrite::Whole(stored(chance)),
        2 | 3 if lives => StateWrite::Hot(any_bytes(chance)),
        4 => StateWrite::Delete,
        _ => StateWrite::Keep,
    };
    RowWrite { key, header: any_header(chance), state }
}

/// A batch of a partition with this cursor and version; `lives` tells the agents that have a state.
pub(crate) fn any_commit(
    epoch: Epoch,
    version: u64,
    before: &Cursor,
    log_end: Seq,
    lives: &dyn Fn(Key) -> Option<bool>,
    chance: &mut Chance,
) -> Commit<Vec<u8>> {
    let mut rows = BTreeMap::new();
    let mut erased = Vec::new();
    for _ in 0..chance.random_range(0..20) {
        let key = any_key(chance);
        if rows.contains_key(&key) || erased.contains(&key) {
            continue;
        }
        if lives(key) == Some(false) && chance.random_bool(0.3) {
            erased.push(key);
        } else {
            rows.insert(key, any_write(key, lives(key) == Some(true), chance));
        }
    }
    let mut cursor = before.clone();
    let notifications = (0..chance.random_range(0..6)).map(|_| {
        cursor.notified += 1;
        any_notification(cursor.notified, chance)
    });
    let notifications = notifications.collect();
    let sends = (0..chance.random_range(0..6)).map(|_| {
        cursor.sent += 1;
        Outgoing {
            n: cursor.sent,
            from: any_key(chance),
            to: any_key(chance),
            priority: any_priority(chance),
            message: any_bytes(chance),
        }
    });
    let sends = sends.collect();
    cursor.relayed = chance.random_range(cursor.relayed..=cursor.sent);
    cursor.low = Seq(chance.random_range(cursor.low.0..=log_end.0));
    cursor.trimmed = Seq(chance.random_range(cursor.trimmed.0..=cursor.low.0));
    cursor.spanned = cursor.low;
    let pass = PassCursor { until: cursor.low, position: any_key(chance) };
    cursor.pass = chance.random_bool(0.5).then_some(pass);
    let delivered = (0..chance.random_range(0..4)).filter(|_| before.notified > 0);
    let delivered = delivered.map(|_| 0).collect::<Vec<u64>>();
    let delivered =
        delivered.into_iter().map(|_| chance.random_range(1..=before.notified)).collect();
    let timers = (0..chance.random_range(0..6)).map(|_| any_timer(chance)).collect();
    let dead = (0..chance.random_range(0..2)).map(|_| any_letter(chance)).collect();
    let rows = rows.into_values().collect();
    Commit { epoch, version, cursor, rows, erased, notifications, delivered, sends, timers, dead }
}

fn any_notification(n: u64, chance: &mut Chance) -> Notification {
    let key = NotificationKey {
        rule: any_number(chance) as u32,
        version: any_number(chance) as u16,
        agent: any_key(chance),
        life: Seq(any_number(chance)),
        firing: any_number(chance),
    };
    Notification { n, key, payload: any_bytes(chance) }
}

fn any_timer(chance: &mut Chance) -> ((Key, TimerName), Option<Timer>) {
    let name = TimerName(chance.random_range(0..3) * (u64::MAX / 2));
    let every = Duration::from_nanos(any_number(chance));
    let timer = Timer {
        due: Time::from_nanos(any_number(chance)),
        every: chance.random_bool(0.5).then_some(every),
    };
    ((any_key(chance), name), chance.random_bool(0.7).then_some(timer))
}

fn any_letter(chance: &mut Chance) -> DeadLetter<Vec<u8>> {
    let delivery = match chance.random_range(0..3) {
        0 => Delivery::Message(any_priority(chance), Seq(any_number(chance))),
        1 => Delivery::Multicast(any_priority(chance), Seq(any_number(chance))),
        _ => Delivery::Timer(TimerName(any_number(chance)), Time::from_nanos(any_number(chance))),
    };
    DeadLetter {
        key: any_key(chance),
        delivery,
        message: chance.random_bool(0.5).then(|| any_bytes(chance)),
        reason: format!("cause \u{1f4a5} {}", any_number(chance)),
    }
}
