//! One thread decides all commits and owns the log; everybody else sends it wishes through a queue with a bound and
//! reads the newest version without asking.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jungle::{
    BlobId, CommitError, Committed, Database, Disk, Durability, Log, LogError, LogSettings, Reader,
    Retention, SegmentLog, Sequencer, SequencerSettings, Settings, Started, Thinning, Timestamp,
    Transaction, Version, free_blobs, start, trim_behind_snapshots, write_and_read_snapshot,
};
use tokio::sync::{oneshot, watch};

use crate::blobs::Blobs;
use crate::directory::{Directory, DirectoryError};
use crate::disk::FileDisk;
use crate::leases::Leases;
use crate::lifetime::now_in;

/// Bounds and durability of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// The moment of an answer.
    pub durability: Durability,
    /// The time between two syncs, if answers do not wait for them.
    pub interval: Duration,
    /// The most commits that wait.
    pub waiting: usize,
    /// The most bytes of requests whose commits wait \[B\].
    pub waiting_bytes: u64,
    /// The bytes of a segment of the log \[B\].
    pub segment_bytes: u64,
    /// The bytes of log after which a snapshot is taken \[B\].
    pub snapshot_bytes: u64,
    /// Commits that are remembered.
    pub retention: Retention,
    /// Versions that are kept.
    pub thinning: Thinning,
    /// The least time between two ticks, by which nodes whose time is over go: they stay so much longer at most.
    pub tick: Duration,
    /// The least time between two looks for blobs that nobody names any more.
    pub sweep: Duration,
}

impl Default for StoreSettings {
    /// Safe before each answer, 10,000 commits or 256 MiB wait, a snapshot each 256 MiB of log, a tick a second.
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            interval: Duration::from_millis(100),
            waiting: 10_000,
            waiting_bytes: 256 << 20,
            segment_bytes: LogSettings::default().segment_bytes,
            snapshot_bytes: 256 << 20,
            retention: Retention::default(),
            thinning: Thinning::default(),
            tick: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
        }
    }
}

/// The longest time for which the clock is not looked at while a deadline is ahead: it may be set.
const CLOCK_LOOK: Duration = Duration::from_secs(60);
/// The most trees of which nodes are let go at once.
const TICKS: usize = 100;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Log and snapshots.
    #[error("{folder}: {cause}")]
    Log {
        /// The directory.
        folder: String,
        /// The cause.
        cause: LogError,
    },
}

/// Why a wish was not done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The commit was not acknowledged.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Too much waits. Nothing has happened.
    #[error("{0} commits wait already; retry later")]
    Busy(u64),
    /// The store has stopped.
    #[error("the database is stopping; connect again when it has started")]
    Stopped,
    /// A transaction names a blob that is not stored, or not any more. Nothing has happened.
    #[error("blob {0} is not stored: no version that is kept names it any more; store it again")]
    NoBlob(BlobId),
    /// A snapshot failed.
    #[error("no snapshot: {0}")]
    Snapshot(String),
}

enum Wish {
    Commit { transaction: Transaction, bytes: u64, answer: oneshot::Sender<Answer> },
    Look(Box<dyn FnOnce(&mut Database) + Send>),
    Hold { name: String, seq: u64, lease: Option<Duration>, answer: oneshot::Sender<bool> },
    LetGo { name: String, answer: oneshot::Sender<bool> },
    Snapshot(oneshot::Sender<Result<u64, StoreError>>),
    Snapshotted(Result<u64, String>),
    Stop,
}

type Answer = Result<Committed, StoreError>;

/// Counts that only rise, but for the last two.
#[derive(Debug, Default)]
pub struct Counts {
    /// Commits that took effect.
    pub commits: AtomicU64,
    /// Ticks among them, by which nodes went whose time was over.
    pub ticks: AtomicU64,
    /// Transactions that took no effect.
    pub rejected: AtomicU64,
    /// Wishes turned away because too much waited.
    pub busy: AtomicU64,
    /// Groups that the log has kept.
    pub groups: AtomicU64,
    /// The time that the log took for them \[us\].
    pub log_us: AtomicU64,
    /// The bytes of their entries \[B\].
    pub log_bytes: AtomicU64,
    /// Snapshots that were written.
    pub snapshots: AtomicU64,
    /// Snapshots that could not be written.
    pub snapshots_failed: AtomicU64,
    /// Blobs that nobody named any more.
    pub blobs_freed: AtomicU64,
    /// Versions that were handed to be freed.
    pub freed: AtomicU64,
    /// Commits that wait.
    pub waiting: AtomicU64,
    /// The bytes of their requests \[B\].
    pub waiting_bytes: AtomicU64,
}

/// A database on a directory, for any thread.
#[derive(Clone, Debug)]
pub struct Store {
    sender: SyncSender<Wish>,
    reader: Reader,
    head: watch::Receiver<u64>,
    counts: Arc<Counts>,
    failed: Arc<Mutex<Option<String>>>,
    settings: StoreSettings,
    generation: u64,
    blobs: Arc<Blobs>,
}

/// The thread of a store. It ends when it is told to, and by nothing else but a defect.
#[derive(Debug)]
pub struct StoreThread {
    sender: SyncSender<Wish>,
    thread: JoinHandle<(Directory, Option<String>)>,
}

impl std::fmt::Debug for Wish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wish")
    }
}

impl Store {
    /// Opens a directory: the newest snapshot that is whole, and the log behind it.
    ///
    /// # Errors
    /// [`OpenError`], if what was acknowledged cannot be had whole, or the directory is not to be had.
    pub fn open(
        mut directory: Directory,
        settings: StoreSettings,
    ) -> Result<(Self, StoreThread, Started), OpenError> {
        let core = Settings {
            log: LogSettings {
                durability: settings.durability,
                segment_bytes: settings.segment_bytes,
            },
            sequencer: SequencerSettings {
                queue: settings.waiting.max(1),
                ..SequencerSettings::default()
            },
            retention: settings.retention,
            thinning: settings.thinning,
        };
        let folder = directory.folder().display().to_string();
        let opened = start(directory.disk()?, core);
        let (sequencer, log, started) = opened.map_err(|cause| OpenError::Log { folder, cause })?;
        directory.begin(settings.durability, sequencer.reader().version().seq())?;
        let (sender, wishes) = sync_channel(settings.waiting.max(1));
        let (head, seen) = watch::channel(sequencer.reader().version().seq());
        let (counts, failed) = (Arc::new(Counts::default()), Arc::default());
        let place = directory.folder().to_owned();
        let blobs = Blobs::of(place, &directory.disk()?);
        let blobs = Arc::new(blobs.map_err(|error| OpenError::Log {
            folder: directory.folder().display().to_string(),
            cause: LogError::Unreadable(error),
        })?);
        let store = Self {
            sender: sender.clone(),
            reader: sequencer.reader(),
            head: seen,
            counts: Arc::clone(&counts),
            failed: Arc::clone(&failed),
            settings,
            generation: directory.generation(),
            blobs: Arc::clone(&blobs),
        };
        let worker = Worker {
            directory,
            sequencer,
            log,
            answers: std::collections::HashMap::new(),
            ticket: 0,
            ticks: BTreeSet::new(),
            ticked: Timestamp::default(),
            tick_after: Instant::now(),
            blobs,
            swept: None,
            sweep_after: Instant::now(),
            leases: Leases::default(),
            reaper: reaper(),
            head,
            counts,
            failed,
            settings,
            since_snapshot: 0,
            snapshot: None,
            wanted: Vec::new(),
            own: sender.clone(),
        };
        let thread = thread::Builder::new().name("sequencer".into());
        let thread = thread.spawn(move || worker.run(&wishes)).expect("a thread can be had");
        Ok((store, StoreThread { sender, thread }, started))
    }

    /// The newest version.
    pub fn version(&self) -> Arc<Version> {
        self.reader.version()
    }

    /// The number of the newest commit, to wait for the next.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.clone()
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Counts of what has happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Bounds and durability.
    pub fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// The number that grows when something may have been lost that somebody has seen.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The reason why nothing is committed any more, if the log has stopped.
    pub fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Commits a transaction that came in a request of so many bytes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn commit(
        &self,
        transaction: Transaction,
        bytes: u64,
    ) -> Result<Committed, StoreError> {
        let waiting = self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let held = self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let has_room = waiting < self.settings.waiting as u64 && held < self.settings.waiting_bytes;
        let sent = if has_room {
            self.send(Wish::Commit { transaction, bytes, answer })
        } else {
            Err(StoreError::Busy(waiting))
        };
        if let Err(error) = sent {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.busy.fetch_add(1, Ordering::Relaxed);
            return Err(error);
        }
        answered.await.map_err(|_| StoreError::Stopped)?
    }

    /// Asks the past.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Stopped`].
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Database) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        // Whoever asked may have left.
        let look = move |database: &mut Database| drop(answer.send(look(database)));
        self.send(Wish::Look(Box::new(look)))?;
        answered.await.map_err(|_| StoreError::Stopped)
    }

    /// Keeps a version under a name, until the server ends or for a time from now on; tells whether it is there.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Stopped`].
    pub async fn hold(
        &self,
        name: String,
        seq: u64,
        lease: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Wish::Hold { name, seq, lease, answer })?;
        answered.await.map_err(|_| StoreError::Stopped)
    }

    /// Lets go of what is held under a name; tells whether anything was.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Stopped`].
    pub async fn let_go(&self, name: String) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Wish::LetGo { name, answer })?;
        answered.await.map_err(|_| StoreError::Stopped)
    }

    /// Takes a snapshot, beside what goes on; the version that it has.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn snapshot(&self) -> Result<u64, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Wish::Snapshot(answer))?;
        answered.await.map_err(|_| StoreError::Stopped)?
    }

    fn send(&self, wish: Wish) -> Result<(), StoreError> {
        self.sender.try_send(wish).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy(self.counts.waiting.load(Ordering::Relaxed)),
            TrySendError::Disconnected(_) => StoreError::Stopped,
        })
    }
}

impl StoreThread {
    /// Does all that waits, makes it safe, and gives the directory back.
    ///
    /// # Errors
    /// [`DirectoryError`], if the end cannot be written down; everything is safe all the same.
    ///
    /// # Panics
    /// If the thread has panicked, which is a defect.
    pub fn stop(self) -> Result<(), DirectoryError> {
        // A thread that has ended has panicked, which shows below.
        self.sender.send(Wish::Stop).ok();
        let (mut directory, failed) = match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // What a log that has stopped had answered is as safe as its durability promised, and no more.
        if failed.is_some() { Ok(()) } else { directory.end() }
    }

    /// Tells whether it has ended, which before a stop only a defect brings about.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The way to the thread that frees old versions: freeing a large one takes time.
fn reaper() -> SyncSender<Arc<Version>> {
    let (sender, freed) = sync_channel(4096);
    let reap = move || freed.into_iter().for_each(drop::<Arc<Version>>);
    thread::Builder::new().name("reaper".into()).spawn(reap).expect("a thread can be had");
    sender
}

struct Worker {
    directory: Directory,
    sequencer: Sequencer,
    log: SegmentLog<FileDisk>,
    answers: std::collections::HashMap<u64, (u64, oneshot::Sender<Answer>)>,
    ticket: u64,
    /// The tickets of ticks, whose answers nobody waits for.
    ticks: BTreeSet<u64>,
    /// The time of the last tick that took effect.
    ticked: Timestamp,
    /// The moment before which there is no other tick.
    tick_after: Instant,
    blobs: Arc<Blobs>,
    /// The newest commit when it was last looked for blobs that nobody names; `None` if versions were let go since.
    swept: Option<u64>,
    /// The moment before which it is not looked for them again.
    sweep_after: Instant,
    leases: Leases,
    reaper: SyncSender<Arc<Version>>,
    head: watch::Sender<u64>,
    counts: Arc<Counts>,
    failed: Arc<Mutex<Option<String>>>,
    settings: StoreSettings,
    /// The bytes of log since the last snapshot began \[B\].
    since_snapshot: u64,
    /// The thread that writes a snapshot.
    snapshot: Option<JoinHandle<()>>,
    /// Who waits for that snapshot.
    wanted: Vec<oneshot::Sender<Result<u64, StoreError>>>,
    own: SyncSender<Wish>,
}

impl Worker {
    fn run(mut self, wishes: &Receiver<Wish>) -> (Directory, Option<String>) {
        let mut synced = Instant::now();
        let mut is_stopping = false;
        while !is_stopping {
            let interval = (self.settings.durability == Durability::Interval)
                .then(|| self.settings.interval.saturating_sub(synced.elapsed()));
            let lease = self.leases.until(Instant::now());
            let own = [interval, self.until_tick(), self.until_sweep(), lease];
            let first = match own.into_iter().flatten().min() {
                None => match wishes.recv() {
                    Ok(wish) => Some(wish),
                    Err(_) => break,
                },
                Some(left) => match wishes.recv_timeout(left) {
                    Ok(wish) => Some(wish),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                },
            };
            // All that waits, but no more than a queue of it, so that what is asked for is done in between.
            let waiting = first.into_iter().chain(wishes.try_iter()).take(self.settings.waiting);
            for wish in waiting {
                is_stopping |= self.take(wish);
            }
            self.commit_all();
            self.tick();
            self.end_leases();
            self.sweep();
            if self.settings.durability == Durability::Interval
                && synced.elapsed() >= self.settings.interval
            {
                let result = self.log.sync();
                self.note(result);
                synced = Instant::now();
            }
            if self.since_snapshot >= self.settings.snapshot_bytes {
                self.begin_snapshot();
            }
        }
        self.end(wishes)
    }

    /// Takes a wish up; true if it is to stop.
    fn take(&mut self, wish: Wish) -> bool {
        match wish {
            Wish::Commit { transaction, bytes, answer } => {
                self.ticket += 1;
                self.answers.insert(self.ticket, (bytes, answer));
                let submitted = match self.blobs.missing(&transaction) {
                    Some(blob) => Err(StoreError::NoBlob(blob)),
                    None => {
                        self.sequencer.submit(self.ticket, transaction).map_err(StoreError::from)
                    }
                };
                if let Err(error) = submitted {
                    self.answer(self.ticket, Err(error));
                }
            }
            Wish::Look(look) => {
                // It sees what was asked for before it.
                self.commit_all();
                look(self.sequencer.database_mut());
                // It may have let go of a version.
                self.swept = None;
            }
            Wish::Hold { name, seq, lease, answer } => {
                self.commit_all();
                let held = self.sequencer.database_mut().hold(&name, seq);
                if held {
                    self.leases.begin(name, lease, Instant::now());
                }
                // Under that name another version may have been held.
                self.swept = None;
                // Whoever asked may have left.
                let _ = answer.send(held);
            }
            Wish::LetGo { name, answer } => {
                self.commit_all();
                self.leases.end(&name);
                let was_held = self.sequencer.database_mut().let_go(&name);
                self.swept = None;
                // Whoever asked may have left.
                let _ = answer.send(was_held);
            }
            Wish::Snapshot(answer) => {
                self.commit_all();
                self.wanted.push(answer);
                self.begin_snapshot();
            }
            Wish::Snapshotted(written) => self.snapshotted(written),
            Wish::Stop => return true,
        }
        false
    }

    /// The time until nodes are let go; `None` if none has a deadline, or nothing is committed any more.
    fn until_tick(&self) -> Option<Duration> {
        let version = self.sequencer.reader().version();
        let deadline = version.next_deadline()?;
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return None;
        }
        let due = deadline.0.saturating_sub(now_in(&version).0);
        // What was due at the last tick already, and found no room in it, does not wait.
        let pause = if deadline <= self.ticked { Instant::now() } else { self.tick_after };
        let pause = pause.saturating_duration_since(Instant::now());
        Some(Duration::from_micros(due).max(pause).min(CLOCK_LOOK))
    }

    /// Lets go of nodes whose time is over: a commit for each tree, so that each is told to those who may read it.
    fn tick(&mut self) {
        if self.until_tick() != Some(Duration::ZERO) {
            return;
        }
        self.tick_after = Instant::now() + self.settings.tick;
        let version = self.sequencer.reader().version();
        let now = now_in(&version);
        let mut is_done = true;
        for tree in version.due(now).take(TICKS) {
            self.ticket += 1;
            match self.sequencer.submit(self.ticket, Transaction::tick(tree, now)) {
                Ok(()) => drop(self.ticks.insert(self.ticket)),
                Err(_) => is_done = false,
            }
        }
        drop(version);
        let before = self.counts.ticks.load(Ordering::Relaxed);
        self.commit_all();
        // Without room there is another attempt after the pause.
        if is_done && self.counts.ticks.load(Ordering::Relaxed) > before {
            self.ticked = now;
        }
    }

    /// Lets go of versions whose leases are over.
    fn end_leases(&mut self) {
        for name in self.leases.over(Instant::now()) {
            self.sequencer.database_mut().let_go(&name);
            self.swept = None;
        }
    }

    /// The time until it is looked for blobs that nobody names; `None` if nothing has changed that could free one.
    fn until_sweep(&self) -> Option<Duration> {
        let (are_any, is_fresh) = self.blobs.are_any();
        let is_swept = self.swept == Some(self.sequencer.reader().version().seq());
        if !are_any || is_swept && !is_fresh {
            return None;
        }
        if self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return None;
        }
        Some(self.sweep_after.saturating_duration_since(Instant::now()))
    }

    /// Removes blobs that no kept version names.
    fn sweep(&mut self) {
        if self.until_sweep() != Some(Duration::ZERO) {
            return;
        }
        self.sweep_after = Instant::now() + self.settings.sweep;
        self.swept = Some(self.sequencer.reader().version().seq());
        let freed = self.blobs.free(|pinned| free_blobs(&self.sequencer, &mut self.log, pinned));
        match freed {
            Ok(freed) => drop(self.counts.blobs_freed.fetch_add(freed, Ordering::Relaxed)),
            Err(error) => self.note(Err(error)),
        }
    }

    fn commit_all(&mut self) {
        while let Some(group) = self.sequencer.next_group() {
            let begun = Instant::now();
            let kept = if group.payloads.is_empty() {
                Ok(())
            } else {
                self.log.append(group.first, &group.payloads)
            };
            if kept.is_ok() && !group.payloads.is_empty() {
                let bytes = group.payloads.iter().map(|payload| payload.len() as u64).sum();
                let took = begun.elapsed().as_micros() as u64;
                self.counts.groups.fetch_add(1, Ordering::Relaxed);
                self.counts.log_us.fetch_add(took, Ordering::Relaxed);
                self.counts.log_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.since_snapshot += bytes;
                // Before it is answered: a directory that loses it then is not taken for a new one.
                if let Err(error) = self.directory.has_committed() {
                    let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert_with(|| error.to_string());
                }
            }
            self.note(kept.clone());
            let done = self.sequencer.appended(kept);
            self.head.send_replace(self.sequencer.reader().version().seq());
            for (ticket, answer) in done.answers {
                self.answer(ticket, answer.map_err(StoreError::from));
            }
            for version in done.freed {
                self.counts.freed.fetch_add(1, Ordering::Relaxed);
                // Is the reaper behind, the version is freed here, which slows down what makes more.
                drop(self.reaper.try_send(version));
            }
        }
    }

    fn answer(&mut self, ticket: u64, answer: Answer) {
        if self.ticks.remove(&ticket) {
            self.counts.ticks.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
            self.counts.commits.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
            return;
        }
        let (bytes, sender) = self.answers.remove(&ticket).expect("a ticket is answered once");
        let count = if answer.is_ok() { &self.counts.commits } else { &self.counts.rejected };
        count.fetch_add(1, Ordering::Relaxed);
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        // Whoever asked may have left.
        drop(sender.send(answer));
    }

    /// Remembers that the log has stopped.
    fn note(&self, result: Result<(), LogError>) {
        if let Err(error) = result
            && !matches!(error, LogError::Full(_) | LogError::TooLarge(_) | LogError::NoSnapshot(_))
        {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// Begins a snapshot of the newest version, unless one is being written.
    fn begin_snapshot(&mut self) {
        if self.snapshot.is_some() {
            return;
        }
        self.since_snapshot = 0;
        // A snapshot must not hold what the log might still lose.
        let ready = self.log.sync().map_err(|error| error.to_string());
        let disk = ready.and_then(|()| self.directory.disk().map_err(|error| error.to_string()));
        let mut disk = match disk {
            Ok(disk) => disk,
            Err(error) => return self.snapshotted(Err(error)),
        };
        let (version, own) = (self.sequencer.reader().version(), self.own.clone());
        let write = move || {
            let written = write_and_read_snapshot(&mut disk, &version);
            if written.is_err() {
                remove_parts(&mut disk);
            }
            let written = written.map(|()| version.seq()).map_err(|error| error.to_string());
            // A store that has stopped does not ask any more.
            drop(own.send(Wish::Snapshotted(written)));
        };
        let thread = thread::Builder::new().name("snapshot".into()).spawn(write);
        self.snapshot = Some(thread.expect("a thread can be had"));
    }

    /// A snapshot is there, or is not.
    fn snapshotted(&mut self, written: Result<u64, String>) {
        if let Some(thread) = self.snapshot.take() {
            thread.join().expect("a snapshot is written or refused");
        }
        let trimmed = written.and_then(|seq| {
            let trimmed = trim_behind_snapshots(&mut self.log);
            self.note(trimmed.clone());
            trimmed.map(|()| seq).map_err(|error| error.to_string())
        });
        let count =
            if trimmed.is_ok() { &self.counts.snapshots } else { &self.counts.snapshots_failed };
        count.fetch_add(1, Ordering::Relaxed);
        for wanted in self.wanted.drain(..) {
            drop(wanted.send(trimmed.clone().map_err(StoreError::Snapshot)));
        }
    }

    /// Makes everything safe and lets go of the directory.
    fn end(mut self, wishes: &Receiver<Wish>) -> (Directory, Option<String>) {
        for wish in wishes.try_iter() {
            self.take(wish);
        }
        self.commit_all();
        let synced = self.log.sync();
        self.note(synced);
        while self.snapshot.is_some() {
            match wishes.recv() {
                Ok(wish) => drop(self.take(wish)),
                Err(_) => break,
            }
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.directory, failed)
    }
}

/// Removes what a snapshot that failed has left, which would keep a full disk full.
fn remove_parts(disk: &mut FileDisk) {
    for file in disk.list().unwrap_or_default() {
        if file.starts_with("snapshot-") && file.ends_with(".part") {
            // If it cannot be removed, the next start does it.
            drop(disk.remove(&file));
        }
    }
}
