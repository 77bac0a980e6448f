//! A store in memory, for tests and trials: nothing is left when it goes. It is the plainest statement of
//! what every store does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agents::{
    Append, Commit, Cursor, Entry, Epoch, Key, LoadWay, Notification, Outcome, Outgoing, Row,
    RowWrite, Seq, Snapshot, StateWrite, Timer, TimerName,
};

use crate::backup::{BackupError, BackupWriter};
use crate::content::Content;
use crate::store::{
    DeadRow, FORGOTTEN_MAX, LogPart, NOBODY, Store, StoreError, listed, remembered,
};

/// A store in memory.
#[derive(Debug)]
pub struct Memory<M> {
    partitions: Mutex<BTreeMap<u32, Partition<M>>>,
}

#[derive(Debug)]
struct Partition<M> {
    epoch: Epoch,
    version: u64,
    cursor: Cursor,
    log_end: Seq,
    dead_end: u64,
    log: BTreeMap<Seq, Entry<M>>,
    received: BTreeMap<u32, u64>,
    rows: BTreeMap<Key, Row>,
    timers: BTreeMap<(Key, TimerName), Timer>,
    outbox: BTreeMap<u64, Notification>,
    sent: BTreeMap<u64, Outgoing<M>>,
    dead: BTreeMap<u64, DeadRow<M>>,
}

impl<M> Default for Partition<M> {
    fn default() -> Partition<M> {
        Partition {
            epoch: Epoch(0),
            version: 0,
            cursor: Cursor::default(),
            log_end: Seq(0),
            dead_end: 0,
            log: BTreeMap::new(),
            received: BTreeMap::new(),
            rows: BTreeMap::new(),
            timers: BTreeMap::new(),
            outbox: BTreeMap::new(),
            sent: BTreeMap::new(),
            dead: BTreeMap::new(),
        }
    }
}

impl<M> Memory<M> {
    /// An empty store.
    pub fn new() -> Memory<M> {
        Memory { partitions: Mutex::new(BTreeMap::new()) }
    }

    /// Version and progress of a partition, without a new owner.
    pub fn progress(&self, partition: u32) -> (u64, Cursor) {
        let all = self.all();
        all.get(&partition).map(|it| (it.version, it.cursor.clone())).unwrap_or_default()
    }

    /// All partitions. A thread that panicked inside has left nothing half done: each change is checked
    /// before it begins.
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Partition<M>>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Default for Memory<M> {
    fn default() -> Memory<M> {
        Memory::new()
    }
}

impl<M: Content> Store<M> for Memory<M> {
    fn open(&self, partition: u32) -> Result<Snapshot<M>, StoreError> {
        let mut all = self.all();
        let it = all.entry(partition).or_default();
        it.epoch.0 += 1;
        let (live, ended): (Vec<_>, Vec<_>) =
            it.rows.iter().partition(|(_, row)| row.state.is_some());
        Ok(Snapshot {
            epoch: it.epoch,
            version: it.version,
            cursor: it.cursor.clone(),
            log_end: it.log_end,
            received: it.received.clone(),
            log: it.after(it.cursor.trimmed, usize::MAX),
            directory: live
                .into_iter()
                .map(|(&key, row)| (key, listed(row.header.clone())))
                .collect(),
            ended: ended.into_iter().map(|(&key, row)| (key, remembered(&row.header))).collect(),
            timers: it.timers.iter().map(|(&(key, name), &timer)| (key, name, timer)).collect(),
        })
    }

    fn append(&self, partition: u32, append: &Append<M>) -> Result<Outcome, StoreError> {
        let mut all = self.all();
        let Some(it) = all.get_mut(&partition) else { return Ok(NOBODY) };
        if append.epoch != it.epoch || append.after != it.log_end {
            return Ok(it.conflict());
        }
        for entry in &append.entries {
            it.log_end.0 += 1;
            assert_eq!(entry.seq, it.log_end, "messages are numbered on");
            it.log.insert(entry.seq, entry.clone());
        }
        it.received.extend(&append.received);
        Ok(Outcome::Written)
    }

    fn commit(&self, partition: u32, commit: &Commit<M>) -> Result<Outcome, StoreError> {
        let mut all = self.all();
        let Some(it) = all.get_mut(&partition) else { return Ok(NOBODY) };
        if commit.epoch != it.epoch || commit.version != it.version {
            return Ok(it.conflict());
        }
        if let Some(write) = commit.rows.iter().find(|write| !it.fits(write)) {
            return Ok(Outcome::Rejected(no_state(write.key)));
        }
        it.write(commit);
        Ok(Outcome::Written)
    }

    fn load(
        &self,
        partition: u32,
        keys: &[Key],
        _way: LoadWay,
    ) -> Result<Vec<(Key, Row)>, StoreError> {
        let all = self.all();
        let row = |key: &Key| all.get(&partition)?.rows.get(key).cloned();
        Ok(keys.iter().map(|key| (*key, row(key).unwrap_or_default())).collect())
    }

    fn outbox(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Notification>, StoreError> {
        Ok(part(self.all().get(&partition).map(|it| &it.outbox), after, limit))
    }

    fn sent(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Outgoing<M>>, StoreError> {
        Ok(part(self.all().get(&partition).map(|it| &it.sent), after, limit))
    }

    fn scan(&self, partition: u32, from: Key, limit: usize) -> Result<Vec<(Key, Row)>, StoreError> {
        let all = self.all();
        let Some(it) = all.get(&partition) else { return Ok(Vec::new()) };
        Ok(it.rows.range(from..).take(limit).map(|(&key, row)| (key, row.clone())).collect())
    }

    fn log(&self, partition: u32, after: Seq, limit: usize) -> Result<LogPart<M>, StoreError> {
        let all = self.all();
        let Some(it) = all.get(&partition) else {
            return Ok(LogPart { entries: Vec::new(), first: Seq(1), end: Seq(0) });
        };
        Ok(LogPart { entries: it.after(after, limit), first: it.first(), end: it.log_end })
    }

    fn forget(&self, partition: u32, upto: Seq) -> Result<Seq, StoreError> {
        let mut all = self.all();
        let Some(it) = all.get_mut(&partition) else { return Ok(Seq(1)) };
        let first = it.first();
        let upto = upto.min(it.cursor.trimmed).min(Seq(first.0 - 1 + FORGOTTEN_MAX));
        it.log.retain(|&seq, _| seq > upto);
        Ok(it.first())
    }

    fn dead(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadRow<M>>, StoreError> {
        Ok(part(self.all().get(&partition).map(|it| &it.dead), after, limit))
    }

    fn remove_dead(&self, partition: u32, numbers: &[u64]) -> Result<u64, StoreError> {
        let mut all = self.all();
        let Some(it) = all.get_mut(&partition) else { return Ok(0) };
        Ok(numbers.iter().filter(|n| it.dead.remove(n).is_some()).count() as u64)
    }

    fn partitions(&self) -> Result<Vec<u32>, StoreError> {
        Ok(self.all().keys().copied().collect())
    }

    fn backup(&self, _: &mut BackupWriter<'_>) -> Result<(), BackupError> {
        let place = "the store in memory".to_owned();
        let cause = "nothing is kept there that could be restored: serve from a folder".to_owned();
        Err(StoreError::Unusable { place, cause }.into())
    }
}

impl<M: Content> Partition<M> {
    fn conflict(&self) -> Outcome {
        Outcome::Conflict { epoch: self.epoch, version: self.version, log_end: self.log_end }
    }

    /// The first message that is kept.
    fn first(&self) -> Seq {
        self.log.first_key_value().map_or(Seq(self.log_end.0 + 1), |(&seq, _)| seq)
    }

    fn after(&self, after: Seq, limit: usize) -> Vec<Entry<M>> {
        let rest = self.log.range(Seq(after.0.saturating_add(1))..);
        rest.take(limit).map(|(_, entry)| entry.clone()).collect()
    }

    /// A hot part needs the cold one.
    fn fits(&self, write: &RowWrite) -> bool {
        let lives = || self.rows.get(&write.key).is_some_and(|row| row.state.is_some());
        !matches!(write.state, StateWrite::Hot(_)) || lives()
    }

    fn write(&mut self, commit: &Commit<M>) {
        self.version += 1;
        self.cursor = commit.cursor.clone();
        for key in &commit.erased {
            self.rows.remove(key);
        }
        for write in &commit.rows {
            let row = self.rows.entry(write.key).or_default();
            row.header = write.header.clone();
            match &write.state {
                StateWrite::Keep => {}
                StateWrite::Hot(hot) => {
                    row.state.as_mut().expect("it was looked for above").hot.clone_from(hot);
                }
                StateWrite::Whole(stored) => row.state = Some(stored.clone()),
                StateWrite::Delete => row.state = None,
            }
        }
        self.outbox.extend(commit.notifications.iter().map(|one| (one.n, one.clone())));
        for n in &commit.delivered {
            self.outbox.remove(n);
        }
        self.sent.extend(commit.sends.iter().map(|one| (one.n, one.clone())));
        self.sent.retain(|n, _| *n > commit.cursor.relayed);
        for (&at, &timer) in &commit.timers {
            match timer {
                Some(timer) => _ = self.timers.insert(at, timer),
                None => _ = self.timers.remove(&at),
            }
        }
        for letter in &commit.dead {
            self.dead_end += 1;
            let row = DeadRow { n: self.dead_end, letter: letter.clone() };
            self.dead.insert(row.n, row);
        }
    }
}

/// The first after a number, at most so many.
fn part<T: Clone>(of: Option<&BTreeMap<u64, T>>, after: u64, limit: usize) -> Vec<T> {
    let Some(of) = of else { return Vec::new() };
    of.range(after.saturating_add(1)..).take(limit).map(|(_, one)| one.clone()).collect()
}

/// The cause why a batch is refused that writes the hot part of an agent without a state.
pub(crate) fn no_state(key: Key) -> String {
    format!("agent {} has no state in the store: something else has written there", key.0)
}
