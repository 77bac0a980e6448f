//! A store in a folder of this machine: nothing else to install. The trees are fjall's, a log-structured
//! merge, because a batch then costs one sequential write and one `fsync`; docs/dependencies.md has the
//! measurement.
//!
//! One process at a time has the folder, under a lock; within it one thread at a time writes. So the check
//! of epoch and version before a batch is as good as one inside of a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agents::{
    Append, Commit, Cursor, Entry, Epoch, Header, Key, LoadWay, Notification, Outcome, Outgoing,
    Row, RowWrite, Seq, Snapshot, StateWrite, Stored, TimerName,
};
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable, UserValue,
};

use crate::backup::{BackupError, BackupWriter};
use crate::codec::{self, CodecError, Reader, Writer};
use crate::content::Content;
use crate::folder::Folder;
use crate::store::{
    DeadRow, FORGOTTEN_MAX, LogPart, NOBODY, Store, StoreError, listed, remembered,
};

/// The moment at which a transaction counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After `fsync`: it outlives a loss of power.
    #[default]
    Disk,
    /// In the memory of the system: it outlives the process, not the machine. For trials.
    System,
}

/// Parameters of an embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedSpec {
    /// Memory for blocks that were read and for what is not in the trees yet, at least 16 MiB \[bytes\].
    /// What is not in the trees yet can be twice its share for some moments.
    pub memory_bytes: u64,
    /// The moment at which a transaction counts as written.
    pub durability: Durability,
}

impl Default for EmbeddedSpec {
    fn default() -> EmbeddedSpec {
        EmbeddedSpec { memory_bytes: 64 << 20, durability: Durability::Disk }
    }
}

/// Least memory of a store \[bytes\].
const MEMORY_MIN: u64 = 16 << 20;
/// All journals together, before the trees are written out; the least that the engine takes \[bytes\].
const JOURNAL_BYTES: u64 = 64 << 20;

/// Most attempts to open trees that threads of this process still hold; each waits 0.2 s by itself.
const LOCKED_MAX: u32 = 100;

/// A store in a folder.
pub struct Embedded {
    /// Dropped last: the lock is held as long as anything below is open.
    engine: Mutex<Option<Arc<Engine>>>,
    writing: Mutex<()>,
    spec: EmbeddedSpec,
    folder: Folder,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

/// The open trees.
struct Engine {
    db: Database,
    /// Headers and hot parts, by partition and key.
    hot: Keyspace,
    /// Cold parts, by partition and key.
    cold: Keyspace,
    /// Messages, by partition and position.
    log: Keyspace,
    /// All that is small, by the tags below.
    rest: Keyspace,
}

pub(crate) const STATE: u8 = 1;
const RECEIVED: u8 = 2;
pub(crate) const OUTBOX: u8 = 3;
pub(crate) const SENT: u8 = 4;
pub(crate) const TIMERS: u8 = 5;
pub(crate) const DEAD: u8 = 6;

/// The trees, as backups number them and in their order: whatever says what the others should have comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Rest = 1,
    Log = 2,
    Hot = 3,
    Cold = 4,
}

impl Tree {
    pub(crate) const ALL: [Tree; 4] = [Tree::Rest, Tree::Log, Tree::Hot, Tree::Cold];
}

impl Engine {
    fn tree(&self, tree: Tree) -> &Keyspace {
        match tree {
            Tree::Rest => &self.rest,
            Tree::Log => &self.log,
            Tree::Hot => &self.hot,
            Tree::Cold => &self.cold,
        }
    }
}

/// Rows that are written at once where nobody reads yet.
const FILLED: usize = 2_000;

/// A new store that is filled from a backup.
pub(crate) struct Filling<'a> {
    store: &'a Embedded,
    engine: Arc<Engine>,
    batch: OwnedWriteBatch,
    rows: usize,
}

impl Filling<'_> {
    pub(crate) fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.batch.insert(self.engine.tree(tree), key, value);
        self.rows += 1;
        if self.rows < FILLED { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.rows = 0;
        let batch = std::mem::replace(&mut self.batch, self.engine.db.batch());
        batch.commit().map_err(|error| self.store.fault("restoring", error))
    }

    /// Everything is durable.
    pub(crate) fn end(mut self) -> Result<(), StoreError> {
        self.write()?;
        let durable = self.engine.db.persist(PersistMode::SyncAll);
        durable.map_err(|error| self.store.fault("restoring", error))
    }
}

/// The one row of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) epoch: Epoch,
    pub(crate) version: u64,
    pub(crate) log_end: Seq,
    /// Messages up to this one are forgotten.
    pub(crate) forgotten: Seq,
    dead_end: u64,
    pub(crate) cursor: Cursor,
}

impl Embedded {
    /// Opens the store of a folder, or makes one in a folder that is new or empty.
    ///
    /// # Errors
    /// Another process has the folder, something else is in it, a later version wrote it, or it cannot be
    /// read or written.
    pub fn open(folder: &Path, spec: EmbeddedSpec) -> Result<Embedded, StoreError> {
        let folder = Folder::take(folder)?;
        if spec.memory_bytes < MEMORY_MIN {
            let cause = format!(
                "{} bytes of memory are too few: at least {MEMORY_MIN} are needed",
                spec.memory_bytes
            );
            return Err(StoreError::Unusable { place: folder.place(), cause });
        }
        let it = Embedded { engine: Mutex::new(None), writing: Mutex::new(()), spec, folder };
        it.engine()?;
        Ok(it)
    }

    /// The trees, opened again if a fault has closed them.
    fn engine(&self) -> Result<Arc<Engine>, StoreError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Ok(engine.clone());
        }
        let opened = Arc::new(self.open_trees()?);
        *engine = Some(opened.clone());
        Ok(opened)
    }

    fn open_trees(&self) -> Result<Engine, StoreError> {
        let path = self.folder.trees()?;
        let fault = |error| self.fault("opening", error);
        let open = || {
            Database::builder(&path)
                .cache_size(self.spec.memory_bytes / 2)
                .max_journaling_size(JOURNAL_BYTES)
                .open()
        };
        // Nobody else has the folder: a thread of the trees that were open before has still to end.
        let mut opened = open();
        for _ in 0..LOCKED_MAX {
            if !matches!(opened, Err(fjall::Error::Locked)) {
                break;
            }
            opened = open();
        }
        let db = opened.map_err(fault)?;
        let options =
            || KeyspaceCreateOptions::default().max_memtable_size(self.spec.memory_bytes / 8);
        let tree = |name| db.keyspace(name, options).map_err(fault);
        let (hot, cold, log, rest) = (tree("hot")?, tree("cold")?, tree("log")?, tree("rest")?);
        self.folder.begun()?;
        Ok(Engine { db, hot, cold, log, rest })
    }

    /// An error of the engine, at this step.
    fn fault(&self, step: &str, error: fjall::Error) -> StoreError {
        let place = format!("{}, {step}", self.folder.place());
        match error {
            fjall::Error::InvalidVersion(_) => StoreError::Unusable {
                place,
                cause: format!("{error}: another version of the engine wrote it"),
            },
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                unwritten(place, &error)
            }
            error => StoreError::Unavailable { place, cause: error.to_string() },
        }
    }

    fn damaged(&self, row: &str, error: &CodecError) -> StoreError {
        StoreError::Unusable {
            place: format!("{}, {row}", self.folder.place()),
            cause: error.to_string(),
        }
    }

    /// One transaction: `fill` decides and fills a batch, which then takes place as a whole. If nobody
    /// knows whether it did, the trees are opened again before the next call, which finds out.
    fn transact<T>(
        &self,
        step: &str,
        fill: impl FnOnce(&Engine, &mut OwnedWriteBatch) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = self.engine()?;
        let mut batch = engine.db.batch().durability(Some(match self.spec.durability {
            Durability::Disk => PersistMode::SyncData,
            Durability::System => PersistMode::Buffer,
        }));
        let answer = fill(&engine, &mut batch)?;
        batch.commit().map_err(|error| {
            *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.fault(step, error)
        })?;
        Ok(answer)
    }

    /// The store in an error's words.
    pub(crate) fn place(&self) -> String {
        self.folder.place()
    }

    /// A store that nobody uses yet, to be filled.
    pub(crate) fn filling(&self) -> Result<Filling<'_>, StoreError> {
        let engine = self.engine()?;
        let batch = engine.db.batch();
        Ok(Filling { store: self, engine, batch, rows: 0 })
    }

    /// The rows of all partitions.
    pub(crate) fn states(&self) -> Result<BTreeMap<u32, State>, StoreError> {
        let engine = self.engine()?;
        self.states_at(&engine, &engine.db.snapshot())
    }

    fn states_at(
        &self,
        engine: &Engine,
        snapshot: &fjall::Snapshot,
    ) -> Result<BTreeMap<u32, State>, StoreError> {
        let mut all = BTreeMap::new();
        self.each(snapshot, &engine.rest, &[STATE], |key, value| {
            let number = key.get(1..5).and_then(|bytes| bytes.try_into().ok());
            let number = number.ok_or(CodecError::Damaged("it is of no partition"))?;
            all.insert(u32::from_be_bytes(number), State::decode(value)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn state(&self, engine: &Engine, partition: u32) -> Result<Option<State>, StoreError> {
        let key = tagged(STATE, partition, &[]);
        let bytes = engine.rest.get(key).map_err(|error| self.fault("reading", error))?;
        let row = || format!("partition {partition}");
        bytes.map(|it| State::decode(&it)).transpose().map_err(|error| self.damaged(&row(), &error))
    }

    /// The first rows after a number in a queue, at most so many.
    fn queue<T>(
        &self,
        tag: u8,
        partition: u32,
        after: u64,
        limit: usize,
        decode: impl Fn(u64, &[u8]) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, StoreError> {
        let engine = self.engine()?;
        let from = tagged(tag, partition, &after.to_be_bytes());
        let to = tagged(tag, partition, &u64::MAX.to_be_bytes());
        let rows = engine.rest.range((Excluded(from), Included(to)));
        rows.take(limit)
            .map(|row| {
                let (key, value) =
                    row.into_inner().map_err(|error| self.fault("reading", error))?;
                let n = last_number(&key);
                decode(n, &value).map_err(|error| self.damaged(&format!("row {n}"), &error))
            })
            .collect()
    }

    /// The rows of a tree below a prefix, one after the other: nothing is held but the current one.
    fn each(
        &self,
        snapshot: &fjall::Snapshot,
        tree: &Keyspace,
        prefix: &[u8],
        mut take: impl FnMut(&[u8], &[u8]) -> Result<(), CodecError>,
    ) -> Result<(), StoreError> {
        for row in snapshot.prefix(tree, prefix) {
            let (key, value) = row.into_inner().map_err(|error| self.fault("reading", error))?;
            take(&key, &value)
                .map_err(|error| self.damaged(&format!("row {}", last_number(&key)), &error))?;
        }
        Ok(())
    }

    fn entries<M: Content>(
        &self,
        engine: &Engine,
        partition: u32,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry<M>>, StoreError> {
        let ends = (Excluded(row_key(partition, after.0)), Included(row_key(partition, u64::MAX)));
        let mut entries = Vec::new();
        for row in engine.log.range(ends).take(limit) {
            let (key, value) = row.into_inner().map_err(|error| self.fault("reading", error))?;
            let seq = Seq(last_number(&key));
            let entry = codec::entry(seq, &value);
            entries
                .push(entry.map_err(|error| self.damaged(&format!("message {}", seq.0), &error))?);
        }
        Ok(entries)
    }

    /// The row of an agent from its two parts.
    fn row(
        &self,
        key: Key,
        hot: &[u8],
        cold: impl FnOnce() -> Result<Option<UserValue>, fjall::Error>,
    ) -> Result<Row, StoreError> {
        let place = || format!("agent {}", key.0);
        let (header, state) = hot_row(hot).map_err(|error| self.damaged(&place(), &error))?;
        let Some(hot) = state else { return Ok(Row { header, state: None }) };
        let cold = cold().map_err(|error| self.fault("reading", error))?;
        let missing = CodecError::Damaged("its cold part is missing");
        let cold = cold.ok_or(missing).map_err(|error| self.damaged(&place(), &error))?;
        Ok(Row { header, state: Some(Stored { cold: cold.to_vec(), hot: hot.to_vec() }) })
    }

    /// Writes an agent's row.
    fn put_row(
        &self,
        engine: &Engine,
        batch: &mut OwnedWriteBatch,
        partition: u32,
        write: &RowWrite,
    ) -> Result<(), StoreError> {
        let at = row_key(partition, write.key.0);
        let mut bytes = Vec::with_capacity(128);
        codec::put_header(&write.header, &mut bytes);
        match &write.state {
            StateWrite::Keep => {
                let old = engine.hot.get(at).map_err(|error| self.fault("reading", error))?;
                let place = || format!("agent {}", write.key.0);
                let old = old.as_deref().map(hot_row).transpose();
                let old = old.map_err(|error| self.damaged(&place(), &error))?;
                put_hot(old.and_then(|(_, state)| state), &mut bytes);
            }
            StateWrite::Hot(hot) => put_hot(Some(hot), &mut bytes),
            StateWrite::Whole(Stored { cold, hot }) => {
                put_hot(Some(hot), &mut bytes);
                batch.insert(&engine.cold, at, &cold[..]);
            }
            StateWrite::Delete => {
                put_hot(None, &mut bytes);
                batch.remove(&engine.cold, at);
            }
        }
        batch.insert(&engine.hot, at, bytes);
        Ok(())
    }

    fn put_commit<M: Content>(
        &self,
        engine: &Engine,
        batch: &mut OwnedWriteBatch,
        partition: u32,
        state: &mut State,
        commit: &Commit<M>,
    ) -> Result<(), StoreError> {
        let rest = &engine.rest;
        let number = |tag, n: u64| tagged(tag, partition, &n.to_be_bytes());
        for &key in &commit.erased {
            batch.remove(&engine.hot, row_key(partition, key.0));
            batch.remove(&engine.cold, row_key(partition, key.0));
        }
        for write in &commit.rows {
            self.put_row(engine, batch, partition, write)?;
        }
        for one in &commit.notifications {
            let value = bytes(|to| codec::put_notification(one, to));
            batch.insert(rest, number(OUTBOX, one.n), value);
        }
        commit.delivered.iter().for_each(|&n| batch.remove(rest, number(OUTBOX, n)));
        for one in commit.sends.iter().filter(|one| one.n > commit.cursor.relayed) {
            batch.insert(rest, number(SENT, one.n), bytes(|to| codec::put_outgoing(one, to)));
        }
        // Those before are gone since an earlier commit.
        for n in state.cursor.relayed + 1..=commit.cursor.relayed {
            batch.remove(rest, number(SENT, n));
        }
        for (&(key, name), &timer) in &commit.timers {
            let at = timer_key(partition, key, name);
            match timer {
                Some(timer) => batch.insert(rest, at, bytes(|to| codec::put_timer(timer, to))),
                None => batch.remove(rest, at),
            }
        }
        for letter in &commit.dead {
            state.dead_end += 1;
            let value = bytes(|to| codec::put_dead(letter, to));
            batch.insert(rest, number(DEAD, state.dead_end), value);
        }
        state.version += 1;
        state.cursor = commit.cursor.clone();
        batch.insert(rest, tagged(STATE, partition, &[]), state.encode());
        Ok(())
    }
}

impl<M: Content> Store<M> for Embedded {
    fn open(&self, partition: u32) -> Result<Snapshot<M>, StoreError> {
        self.transact("opening a partition", |engine, batch| {
            let mut state = self.state(engine, partition)?.unwrap_or_default();
            state.epoch.0 += 1;
            batch.insert(&engine.rest, tagged(STATE, partition, &[]), state.encode());
            let snapshot = engine.db.snapshot();
            let (mut directory, mut ended) = (Vec::new(), Vec::new());
            self.each(&snapshot, &engine.hot, &partition.to_be_bytes(), |key, value| {
                let key = Key(last_number(key));
                let (header, hot) = hot_row(value)?;
                match hot {
                    Some(_) => directory.push((key, listed(header))),
                    None => ended.push((key, remembered(&header))),
                }
                Ok(())
            })?;
            let mut timers = Vec::new();
            self.each(&snapshot, &engine.rest, &tagged(TIMERS, partition, &[]), |key, value| {
                let (agent, name) = key.split_at(key.len() - 8);
                let (agent, name) = (Key(last_number(agent)), TimerName(last_number(name)));
                timers.push((agent, name, codec::timer(value)?));
                Ok(())
            })?;
            let mut received = BTreeMap::new();
            self.each(&snapshot, &engine.rest, &tagged(RECEIVED, partition, &[]), |key, value| {
                let from = u32::try_from(last_number(key));
                let from = from.map_err(|_| CodecError::Damaged("it is of no partition"))?;
                received.insert(from, Reader::new(value)?.number()?);
                Ok(())
            })?;
            Ok(Snapshot {
                epoch: state.epoch,
                version: state.version,
                log_end: state.log_end,
                received,
                log: self.entries(engine, partition, state.cursor.trimmed, usize::MAX)?,
                cursor: state.cursor,
                directory,
                ended,
                timers,
            })
        })
    }

    fn append(&self, partition: u32, append: &Append<M>) -> Result<Outcome, StoreError> {
        self.transact("appending", |engine, batch| {
            let Some(mut state) = self.state(engine, partition)? else { return Ok(NOBODY) };
            if append.epoch != state.epoch || append.after != state.log_end {
                return Ok(state.conflict());
            }
            for entry in &append.entries {
                state.log_end.0 += 1;
                assert_eq!(entry.seq, state.log_end, "messages are numbered on");
                let value = bytes(|to| codec::put_entry(entry, to));
                batch.insert(&engine.log, row_key(partition, entry.seq.0), value);
            }
            for (&from, &n) in &append.received {
                let key = tagged(RECEIVED, partition, &u64::from(from).to_be_bytes());
                batch.insert(&engine.rest, key, bytes(|to| _ = Writer::new(to).number(n)));
            }
            batch.insert(&engine.rest, tagged(STATE, partition, &[]), state.encode());
            Ok(Outcome::Written)
        })
    }

    fn commit(&self, partition: u32, commit: &Commit<M>) -> Result<Outcome, StoreError> {
        self.transact("committing", |engine, batch| {
            let Some(mut state) = self.state(engine, partition)? else { return Ok(NOBODY) };
            if commit.epoch != state.epoch || commit.version != state.version {
                return Ok(state.conflict());
            }
            self.put_commit(engine, batch, partition, &mut state, commit)?;
            Ok(Outcome::Written)
        })
    }

    fn load(
        &self,
        partition: u32,
        keys: &[Key],
        way: LoadWay,
    ) -> Result<Vec<(Key, Row)>, StoreError> {
        assert!(keys.is_sorted(), "keys are in order");
        let engine = self.engine()?;
        // One moment for both parts, whatever is committed meanwhile.
        let snapshot = engine.db.snapshot();
        let fault = |error| self.fault("loading", error);
        if way == LoadWay::Range
            && let (Some(&first), Some(&last)) = (keys.first(), keys.last())
        {
            let ends = row_key(partition, first.0)..=row_key(partition, last.0);
            let mut hot = Merge::new(snapshot.range(&engine.hot, ends.clone()));
            let mut cold = Merge::new(snapshot.range(&engine.cold, ends));
            let row = |&key: &Key| {
                let at = row_key(partition, key.0);
                let found = hot.at(&at).map_err(fault)?;
                let row = match found {
                    Some(hot) => self.row(key, &hot, || cold.at(&at))?,
                    None => Row::default(),
                };
                Ok((key, row))
            };
            return keys.iter().map(row).collect();
        }
        let row = |&key: &Key| {
            let at = row_key(partition, key.0);
            let row = match snapshot.get(&engine.hot, at).map_err(fault)? {
                Some(hot) => self.row(key, &hot, || snapshot.get(&engine.cold, at))?,
                None => Row::default(),
            };
            Ok((key, row))
        };
        keys.iter().map(row).collect()
    }

    fn outbox(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Notification>, StoreError> {
        self.queue(OUTBOX, partition, after, limit, codec::notification)
    }

    fn sent(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Outgoing<M>>, StoreError> {
        self.queue(SENT, partition, after, limit, codec::outgoing)
    }

    fn scan(&self, partition: u32, from: Key, limit: usize) -> Result<Vec<(Key, Row)>, StoreError> {
        let engine = self.engine()?;
        let snapshot = engine.db.snapshot();
        let ends = row_key(partition, from.0)..=row_key(partition, u64::MAX);
        let mut cold = Merge::new(snapshot.range(&engine.cold, ends.clone()));
        let mut rows = Vec::new();
        for row in snapshot.range(&engine.hot, ends).take(limit) {
            let (at, hot) = row.into_inner().map_err(|error| self.fault("reading", error))?;
            let key = Key(last_number(&at));
            rows.push((key, self.row(key, &hot, || cold.at(&at))?));
        }
        Ok(rows)
    }

    fn log(&self, partition: u32, after: Seq, limit: usize) -> Result<LogPart<M>, StoreError> {
        // A writer between the two reads would yield messages beyond the end.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = self.engine()?;
        let state = self.state(&engine, partition)?.unwrap_or_default();
        let entries = self.entries(&engine, partition, after, limit)?;
        Ok(LogPart { entries, first: Seq(state.forgotten.0 + 1), end: state.log_end })
    }

    fn forget(&self, partition: u32, upto: Seq) -> Result<Seq, StoreError> {
        self.transact("forgetting messages", |engine, batch| {
            let Some(mut state) = self.state(engine, partition)? else { return Ok(Seq(1)) };
            let most = state.forgotten.0.saturating_add(FORGOTTEN_MAX);
            let upto = upto.min(state.cursor.trimmed).0.min(most);
            for n in state.forgotten.0 + 1..=upto {
                batch.remove(&engine.log, row_key(partition, n));
            }
            state.forgotten.0 = state.forgotten.0.max(upto);
            batch.insert(&engine.rest, tagged(STATE, partition, &[]), state.encode());
            Ok(Seq(state.forgotten.0 + 1))
        })
    }

    fn dead(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadRow<M>>, StoreError> {
        self.queue(DEAD, partition, after, limit, |n, bytes| {
            Ok(DeadRow { n, letter: codec::dead(bytes)? })
        })
    }

    fn remove_dead(&self, partition: u32, numbers: &[u64]) -> Result<u64, StoreError> {
        self.transact("removing dead letters", |engine, batch| {
            let mut removed = 0;
            for n in BTreeSet::from_iter(numbers) {
                let at = tagged(DEAD, partition, &n.to_be_bytes());
                let there = engine.rest.contains_key(&at);
                if there.map_err(|error| self.fault("reading", error))? {
                    batch.remove(&engine.rest, at);
                    removed += 1;
                }
            }
            Ok(removed)
        })
    }

    fn partitions(&self) -> Result<Vec<u32>, StoreError> {
        Ok(self.states()?.into_keys().collect())
    }

    /// A snapshot is of one moment across all trees, and holds nobody up.
    fn backup(&self, to: &mut BackupWriter<'_>) -> Result<(), BackupError> {
        let engine = self.engine()?;
        let snapshot = engine.db.snapshot();
        to.moment(&self.states_at(&engine, &snapshot)?)?;
        for tree in Tree::ALL {
            for row in snapshot.iter(engine.tree(tree)) {
                let (key, value) =
                    row.into_inner().map_err(|error| self.fault("reading", error))?;
                to.row(tree, &key, &value)?;
            }
        }
        Ok(to.rows_end()?)
    }
}

impl State {
    fn conflict(&self) -> Outcome {
        Outcome::Conflict { epoch: self.epoch, version: self.version, log_end: self.log_end }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        bytes(|to| {
            let mut w = Writer::new(to);
            w.number(self.epoch.0).number(self.version).number(self.log_end.0);
            w.number(self.forgotten.0).number(self.dead_end);
            codec::put_cursor(&self.cursor, to);
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<State, CodecError> {
        let mut r = Reader::new(bytes)?;
        let (epoch, version, log_end) = (Epoch(r.number()?), r.number()?, Seq(r.number()?));
        let (forgotten, dead_end) = (Seq(r.number()?), r.number()?);
        let cursor = codec::cursor(r.rest())?;
        Ok(State { epoch, version, log_end, forgotten, dead_end, cursor })
    }
}

/// Rows of a tree that are asked for in the order of their keys.
struct Merge {
    rows: fjall::Iter,
    next: Option<(fjall::UserKey, UserValue)>,
}

impl Merge {
    fn new(rows: fjall::Iter) -> Merge {
        Merge { rows, next: None }
    }

    /// The row of a key, which is not below those asked for before.
    fn at(&mut self, key: &[u8]) -> Result<Option<UserValue>, fjall::Error> {
        loop {
            match &self.next {
                Some((at, value)) if &**at == key => return Ok(Some(value.clone())),
                Some((at, _)) if &**at > key => return Ok(None),
                _ => {}
            }
            let Some(row) = self.rows.next() else { return Ok(None) };
            self.next = Some(row.into_inner()?);
        }
    }
}

/// An error of the system: a disk without room is told as such.
fn unwritten(place: String, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let cause = error.to_string();
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => StoreError::Full { place, cause },
        _ => StoreError::Unavailable { place, cause },
    }
}

fn bytes(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    bytes
}

fn row_key(partition: u32, n: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&partition.to_be_bytes());
    key[4..].copy_from_slice(&n.to_be_bytes());
    key
}

fn tagged(tag: u8, partition: u32, rest: &[u8]) -> Vec<u8> {
    [&[tag], &partition.to_be_bytes()[..], rest].concat()
}

fn timer_key(partition: u32, key: Key, name: TimerName) -> Vec<u8> {
    tagged(TIMERS, partition, &[key.0.to_be_bytes(), name.0.to_be_bytes()].concat())
}

/// The number that a key ends with; keys of this store have one.
fn last_number(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Adds the hot part after its header.
fn put_hot(hot: Option<&[u8]>, to: &mut Vec<u8>) {
    to.push(u8::from(hot.is_some()));
    to.extend_from_slice(hot.unwrap_or_default());
}

/// A header with the hot part; none for a row without a state.
pub(crate) fn hot_row(bytes: &[u8]) -> Result<(Header, Option<&[u8]>), CodecError> {
    let (header, rest) = codec::header(bytes)?;
    match rest.split_first() {
        Some((1, hot)) => Ok((header, Some(hot))),
        Some((0, [])) => Ok((header, None)),
        _ => Err(CodecError::Damaged("its hot part is of an unknown kind")),
    }
}
