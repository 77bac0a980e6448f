//! A store of one partition in memory: transactions that check epoch, version and end of the log, as
//! every real one must.

use std::collections::BTreeMap;

use agents::{
    Append, Commit, Cursor, DeadLetter, Delivery, Entry, Epoch, Key, Listed, Notification, Outcome,
    Outgoing, Row, Seq, Snapshot, StateWrite, Timer, TimerName,
};

use crate::account::{Message, UNSTORABLE};

#[derive(Debug, Default)]
pub(crate) struct Store {
    epoch: Epoch,
    version: u64,
    cursor: Cursor,
    /// The whole log, trimmed messages too, which only the oracles see.
    pub(crate) log: Vec<Entry<Message>>,
    received: BTreeMap<u32, u64>,
    pub(crate) rows: BTreeMap<Key, Row>,
    timers: BTreeMap<(Key, TimerName), Timer>,
    outbox: BTreeMap<u64, Notification>,
    sent: BTreeMap<u64, Outgoing<Message>>,
    /// All notifications that there ever were.
    pub(crate) notified: Vec<Notification>,
    pub(crate) dead: Vec<DeadLetter<Message>>,
    /// For each agent, when its last effect took place.
    ran_until: BTreeMap<Key, u64>,
}

impl Store {
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn log_end(&self) -> Seq {
        Seq(self.log.len() as u64)
    }

    /// A new owner.
    pub(crate) fn acquire(&mut self) -> Snapshot<Message> {
        self.epoch.0 += 1;
        let lives = |row: &&Row| row.state.is_some();
        let ended = self.rows.iter().filter(|(_, row)| row.state.is_none());
        Snapshot {
            epoch: self.epoch,
            version: self.version,
            cursor: self.cursor.clone(),
            log_end: self.log_end(),
            received: self.received.clone(),
            log: self.log[self.cursor.trimmed.0 as usize..].to_vec(),
            directory: (self.rows.iter())
                .filter(|(_, row)| lives(row))
                .map(|(&key, row)| {
                    let Row { header, .. } = row;
                    (key, Listed { armed: header.armed, bounds: header.bounds.clone() })
                })
                .collect(),
            ended: ended
                .map(|(&key, row)| (key, *row.header.applied.iter().max().unwrap()))
                .collect(),
            timers: self.timers.iter().map(|(&(key, name), &timer)| (key, name, timer)).collect(),
        }
    }

    fn conflict(&self) -> Outcome {
        Outcome::Conflict { epoch: self.epoch, version: self.version, log_end: self.log_end() }
    }

    pub(crate) fn append(&mut self, append: &Append<Message>) -> Outcome {
        if append.epoch != self.epoch || append.after != self.log_end() {
            return self.conflict();
        }
        self.log.extend(append.entries.iter().cloned());
        self.received.extend(&append.received);
        Outcome::Written
    }

    /// A batch that ran from `start` on takes effect at `now`.
    pub(crate) fn commit(&mut self, commit: &Commit<Message>, start: u64, now: u64) -> Outcome {
        let refused = commit.rows.iter().any(|row| {
            let StateWrite::Whole(stored) = &row.state else { return false };
            stored.cold[..8] == UNSTORABLE.to_le_bytes()
        });
        if commit.epoch != self.epoch || commit.version != self.version {
            return self.conflict();
        }
        if refused {
            return Outcome::Rejected("a mark that is not allowed".to_owned());
        }
        self.version += 1;
        self.cursor = commit.cursor.clone();
        for key in &commit.erased {
            assert!(self.rows.remove(key).is_none_or(|row| row.state.is_none()), "{key:?} lives");
        }
        for write in &commit.rows {
            let last = self.ran_until.insert(write.key, now).unwrap_or(0);
            assert!(last <= start, "{:?} ran twice at once: to {last}, from {start}", write.key);
            let row = self.rows.entry(write.key).or_default();
            row.header = write.header.clone();
            match &write.state {
                StateWrite::Keep => {}
                StateWrite::Hot(hot) => row.state.as_mut().unwrap().hot = hot.clone(),
                StateWrite::Whole(stored) => row.state = Some(stored.clone()),
                StateWrite::Delete => row.state = None,
            }
        }
        for notification in &commit.notifications {
            assert_eq!(
                notification.n,
                self.notified.len() as u64 + 1,
                "notifications are numbered on"
            );
            self.outbox.insert(notification.n, notification.clone());
            self.notified.push(notification.clone());
        }
        for n in &commit.delivered {
            assert!(self.outbox.remove(n).is_some(), "notification {n} is not there");
        }
        self.sent.extend(commit.sends.iter().map(|one| (one.n, one.clone())));
        self.sent.retain(|n, _| *n > commit.cursor.relayed);
        for (&at, &timer) in &commit.timers {
            match timer {
                Some(timer) => _ = self.timers.insert(at, timer),
                None => _ = self.timers.remove(&at),
            }
        }
        self.dead.extend(commit.dead.iter().cloned());
        Outcome::Written
    }

    pub(crate) fn load(&self, keys: &[Key]) -> Vec<(Key, Row)> {
        keys.iter().map(|key| (*key, self.rows.get(key).cloned().unwrap_or_default())).collect()
    }

    pub(crate) fn outbox(&self, after: u64, limit: usize) -> Vec<Notification> {
        self.outbox.range(after + 1..).take(limit).map(|(_, one)| one.clone()).collect()
    }

    pub(crate) fn sent(&self, after: u64, limit: usize) -> Vec<Outgoing<Message>> {
        self.sent.range(after + 1..).take(limit).map(|(_, one)| one.clone()).collect()
    }

    /// Nothing is left in a queue.
    pub(crate) fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.sent.is_empty() && self.timers.is_empty()
    }

    /// The positions of the messages of which an agent made dead letters, by agent.
    pub(crate) fn dead_positions(&self) -> Vec<(Key, u64)> {
        let position = |delivery: &Delivery| match delivery {
            Delivery::Message(_, seq) | Delivery::Multicast(_, seq) => seq.0,
            Delivery::Timer(..) => 0,
        };
        self.dead.iter().map(|dead| (dead.key, position(&dead.delivery))).collect()
    }
}
