//! Delivery of notifications: a gate for each destination, with slots of its own. What a destination does
//! not take at once is kept apart, so that the outbox and the other destinations go on.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use agents::NotificationKey;
use agents_rules::{Digest, Rules};
use bytes::Bytes;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock;
use crate::digest::{User, Window, named};
use crate::kept::{Kept, Shelf};
use crate::mail::Mail;
use crate::partition::Parcel;
use crate::unsent::Unsent;
use crate::webhook::Target;

/// Notifications that wait for a slot of a destination; beyond it they are kept apart.
const QUEUE: usize = 256;
/// The first pause after a failure, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(300));
/// Pause before it is tried again to keep one.
const KEEP_AGAIN: Duration = Duration::from_secs(1);
/// Digests that are made with one call for durability.
const DIGESTS: usize = 1_000;
/// Notifications that a stream can go back to.
const RECENT: usize = 10_000;

/// A destination as it is reached.
pub(crate) enum Means {
    Webhook(Box<Target>),
    /// A file that was opened; `None` for standard output.
    Log(Option<PathBuf>),
    Mail(Box<Mail>),
}

/// The parameters of a destination.
pub(crate) struct Outlet {
    pub(crate) name: String,
    pub(crate) means: Means,
    pub(crate) slots: usize,
    pub(crate) timeout: Duration,
    pub(crate) give_up: Duration,
    pub(crate) digest: Option<Digest>,
}

/// The numbers of a destination, for whoever looks at it.
#[derive(Debug)]
pub(crate) struct OutletFigures {
    /// The way: webhook, mail or log.
    pub(crate) means: &'static str,
    pub(crate) slots: usize,
    pub(crate) in_flight: AtomicU64,
    /// Notifications that arrived there.
    pub(crate) delivered: AtomicU64,
    /// Attempts that failed.
    pub(crate) failed: AtomicU64,
    /// Those of them in a row.
    pub(crate) failures: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl OutletFigures {
    fn of(outlet: &Outlet) -> OutletFigures {
        let means = match outlet.means {
            Means::Webhook(_) => "webhook",
            Means::Mail(_) => "mail",
            Means::Log(_) => "log",
        };
        OutletFigures {
            means,
            slots: outlet.slots,
            in_flight: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_error: Mutex::new(None),
        }
    }

    /// The cause of the last failure.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A notification that was fired, for streams.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    /// Its number in this process, from 1.
    pub(crate) n: u64,
    pub(crate) key: String,
    pub(crate) payload: Bytes,
}

/// The part of the delivery that all share.
pub(crate) struct Board {
    shelf: Arc<Mutex<Shelf>>,
    keeper: Sender<ToKeep>,
    recent: Mutex<(u64, VecDeque<Fired>)>,
    pub(crate) live: broadcast::Sender<Fired>,
    pub(crate) delivered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// The destinations of the file.
    outlets: Mutex<BTreeMap<String, Arc<OutletFigures>>>,
    /// The last deliveries: name of the notification, destination, moment.
    arrived: Mutex<VecDeque<(String, String, u64)>>,
}

impl Board {
    /// What became of a notification, as far as it is known here.
    pub(crate) fn told(&self, key: &str) -> Option<String> {
        let mut told: Vec<String> = Vec::new();
        for kept in self.shelf().of_key(key) {
            let state = match (&kept.user, kept.is_dead) {
                (Some(_), _) => "not sent yet",
                (None, true) => "given up",
                (None, false) => "kept, and tried again",
            };
            let (to, attempts) = (&kept.destination, kept.attempts);
            told.push(format!("{to}: {state}; attempts: {attempts}; {}", kept.cause));
        }
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, to, at) in arrived.iter().filter(|(of, ..)| of == key) {
            let at = std::time::UNIX_EPOCH + Duration::from_nanos(*at);
            told.push(format!("{to}: delivered at {}", humantime::format_rfc3339_millis(at)));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }

    fn arrived(&self, key: &str, destination: &str) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        if arrived.len() == RECENT {
            arrived.pop_front();
        }
        arrived.push_back((key.to_owned(), destination.to_owned(), clock::now().as_nanos()));
    }

    /// The board of a shelf, with the thread that writes to it.
    pub(crate) fn start(shelf: Shelf) -> io::Result<Board> {
        let shelf = Arc::new(Mutex::new(shelf));
        let (keeper, to_keep) = channel();
        let own = shelf.clone();
        thread::Builder::new().name("keep".to_owned()).spawn(move || keep_all(&own, &to_keep))?;
        Ok(Board {
            shelf,
            keeper,
            recent: Mutex::new((0, VecDeque::new())),
            live: broadcast::channel(1_024).0,
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            last_error: Mutex::new(None),
            outlets: Mutex::default(),
            arrived: Mutex::new(VecDeque::new()),
        })
    }

    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The destinations of the file, by name.
    pub(crate) fn outlets(&self) -> BTreeMap<String, Arc<OutletFigures>> {
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn disk_failed(&self, error: &io::Error) {
        let told = format!("a notification cannot be kept: {error}");
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// The recent ones after a number, and true if none between was forgotten.
    pub(crate) fn recent(&self, after: u64) -> (Vec<Fired>, bool) {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let first = recent.1.front().map_or(recent.0 + 1, |it| it.n);
        let part = recent.1.iter().filter(|it| it.n > after).cloned().collect();
        (part, after.saturating_add(1) >= first)
    }

    fn fired(&self, key: &str, payload: &Bytes) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.0 += 1;
        let fired = Fired { n: recent.0, key: key.to_owned(), payload: payload.clone() };
        if recent.1.len() == RECENT {
            recent.1.pop_front();
        }
        recent.1.push_back(fired.clone());
        // Nobody may listen.
        self.live.send(fired).ok();
    }
}

/// The stable name of a notification as others see it.
pub(crate) fn key_text(key: &NotificationKey) -> String {
    let NotificationKey { rule, version, agent, life, firing } = key;
    format!("{rule:08x}-{version}-{:016x}-{}-{firing}", agent.0, life.0)
}

/// A notification on its way to one destination. Dropping it leaves it in the outbox.
struct Item {
    key: String,
    payload: Bytes,
    rest: Arc<Rest>,
}

impl Item {
    /// The same as it is kept for a destination that did not take it.
    fn kept(&self, destination: &str, cause: String) -> Kept {
        Kept {
            destination: destination.to_owned(),
            key: self.key.clone(),
            payload: String::from_utf8_lossy(&self.payload).into_owned(),
            since_ns: clock::now().as_nanos(),
            attempts: 1,
            is_dead: false,
            cause,
            user: None,
            members: Vec::new(),
        }
    }

    /// The same as it waits for a digest.
    fn gathered(&self, destination: &str, digest: &Digest) -> Kept {
        let user = User::of(digest.by.as_deref(), &self.payload);
        let cause = format!("it waits for the digest of {}", user.name);
        Kept { attempts: 0, user: Some(user), ..self.kept(destination, cause) }
    }
}

/// The part of a notification that its items share: it is done with the last of them.
struct Rest {
    left: AtomicUsize,
    parcel: Mutex<Option<Parcel>>,
}

impl Rest {
    fn one_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let parcel = self.parcel.lock().unwrap_or_else(PoisonError::into_inner).take();
            parcel.expect("it is done once").done();
        }
    }
}

/// An input of the delivery.
pub(crate) enum ToDeliver {
    Parcel(Parcel),
    /// From now on notifications go where these rules say.
    Routes(Arc<Rules>, Vec<Outlet>),
}

/// Gives each notification to the destinations of its rule. A rule that the file has no more notifies those
/// that it did as long as the server runs, for what it had fired before.
pub(crate) async fn dispatch(mut inputs: mpsc::UnboundedReceiver<ToDeliver>, board: Arc<Board>) {
    let mut queues: HashMap<String, (mpsc::Sender<Item>, Arc<Outlet>)> = HashMap::new();
    let mut routes: HashMap<u32, Vec<String>> = HashMap::new();
    let mut running = JoinSet::new();
    while let Some(input) = inputs.recv().await {
        let parcel = match input {
            ToDeliver::Parcel(parcel) => parcel,
            ToDeliver::Routes(rules, outlets) => {
                let mut shown = BTreeMap::new();
                for outlet in outlets {
                    let (queue, queued) = mpsc::channel(QUEUE);
                    let runner = Runner::new(outlet, board.clone());
                    shown.insert(runner.outlet.name.clone(), runner.figures.clone());
                    // One that had the name ends with what it has.
                    queues.insert(runner.outlet.name.clone(), (queue, runner.outlet.clone()));
                    running.spawn(runner.run(queued));
                }
                *board.outlets.lock().unwrap_or_else(PoisonError::into_inner) = shown;
                for (rule, names) in rules.routes() {
                    routes.insert(rule, names.into_iter().map(str::to_owned).collect());
                }
                while running.try_join_next().is_some() {}
                continue;
            }
        };
        let key = key_text(&parcel.notification.key);
        let payload = Bytes::from(parcel.notification.payload.clone());
        let to = routes.get(&parcel.notification.key.rule).map_or(&[][..], Vec::as_slice);
        board.fired(&key, &payload);
        if to.is_empty() {
            parcel.done();
            continue;
        }
        let left = AtomicUsize::new(to.len());
        let rest = Arc::new(Rest { left, parcel: Mutex::new(Some(parcel)) });
        for name in to {
            let (queue, outlet) = &queues[name];
            let item = Item { key: key.clone(), payload: payload.clone(), rest: rest.clone() };
            if let Some(digest) = &outlet.digest {
                let kept = item.gathered(name, digest);
                tokio::spawn(keep(board.clone(), item, kept));
            } else if let Err(unsent) = queue.try_send(item) {
                let item = unsent.into_inner();
                let kept = item.kept(name, "its slots were taken".to_owned());
                tokio::spawn(keep(board.clone(), item, kept));
            }
        }
    }
}

/// Keeps an item apart, durably. As long as that cannot be, it stays in the outbox, and is tried again.
async fn keep(board: Arc<Board>, item: Item, kept: Kept) {
    loop {
        let (told, done) = oneshot::channel();
        // Its thread ends with the board alone.
        board.keeper.send((kept.clone(), told)).ok();
        match done.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(true) => return item.rest.one_done(),
            Ok(false) => {}
            Err(error) => board.disk_failed(&error),
        }
        tokio::time::sleep(KEEP_AGAIN).await;
    }
}

/// A notification that is to be kept, and who is told; false means that there is no room.
type ToKeep = (Kept, oneshot::Sender<io::Result<bool>>);

/// Notifications that are written with one call for durability.
const KEEP_AT_ONCE: usize = 1_000;

/// Keeps what comes, all that waits with one call for durability, until nobody can send any more.
fn keep_all(shelf: &Mutex<Shelf>, to_keep: &Receiver<ToKeep>) {
    while let Ok(first) = to_keep.recv() {
        let more = to_keep.try_iter().take(KEEP_AT_ONCE - 1);
        let (kept, told): (Vec<Kept>, Vec<_>) = std::iter::once(first).chain(more).unzip();
        let done = shelf.lock().unwrap_or_else(PoisonError::into_inner).keep(kept);
        for (at, told) in told.into_iter().enumerate() {
            let result = match &done {
                Ok(count) => Ok(at < *count),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            // Who does not wait any more finds it in the outbox.
            told.send(result).ok();
        }
    }
}

struct Runner {
    outlet: Arc<Outlet>,
    figures: Arc<OutletFigures>,
    board: Arc<Board>,
    attempts: JoinSet<(Attempt, Result<(), Unsent>)>,
    /// Failures in a row, and the moment before which nothing is tried after them.
    failures: u32,
    until: Instant,
    /// The number up to which kept ones were taken up in this round.
    after: u64,
}

enum Attempt {
    Fresh(Item),
    Kept(u64, Kept),
}

impl Runner {
    fn new(outlet: Outlet, board: Arc<Board>) -> Runner {
        Runner {
            figures: Arc::new(OutletFigures::of(&outlet)),
            outlet: Arc::new(outlet),
            board,
            attempts: JoinSet::new(),
            failures: 0,
            until: Instant::now(),
            after: 0,
        }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Item>) {
        let mut look = tokio::time::interval(PAUSE.0);
        loop {
            let is_down = self.failures > 0 && Instant::now() < self.until;
            // While it fails, one attempt at a time asks whether it is back.
            let slots = if self.failures > 0 { 1 } else { self.outlet.slots };
            let has_room = self.attempts.len() < slots;
            tokio::select! {
                item = queue.recv(), if has_room || self.failures > 0 => match item {
                    None => break,
                    Some(item) if self.failures > 0 => {
                        let kept = item.kept(&self.outlet.name, "the one before failed".to_owned());
                        tokio::spawn(keep(self.board.clone(), item, kept));
                    }
                    Some(item) => self.start(Attempt::Fresh(item)),
                },
                Some(ended) = self.attempts.join_next(), if !self.attempts.is_empty() => {
                    match ended {
                        Ok((attempt, result)) => {
                            self.ended(attempt, result).await;
                            // A place is free, and nobody waits for it but those that are kept.
                            if self.failures == 0 && queue.is_empty() {
                                self.take_up(self.outlet.slots);
                            }
                        }
                        // A panic inside is a failure like others; the outbox keeps the item.
                        Err(_) => self.fails(),
                    }
                }
                _ = look.tick(), if has_room && !is_down => {
                    self.digest().await;
                    self.take_up(slots);
                }
                _ = sleep_until(self.until), if is_down => {}
            }
        }
        // What is under way may end; what is left is kept or in the outbox.
        while let Some(ended) = self.attempts.join_next().await {
            if let Ok((attempt, result)) = ended {
                self.ended(attempt, result).await;
            }
        }
    }

    /// Makes the digests that are due.
    async fn digest(&mut self) {
        let (board, outlet) = (self.board.clone(), self.outlet.clone());
        let Some(digest) = &outlet.digest else {
            // One that had the name may have made some.
            return board.shelf().release(&outlet.name);
        };
        let window = Window { every: digest.every, count: digest.count as usize };
        let made = tokio::task::spawn_blocking(move || {
            let now = clock::now().as_nanos();
            board.shelf().digest(&outlet.name, window, now, DIGESTS)
        });
        if let Err(error) = made.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            self.board.disk_failed(&error);
        }
    }

    /// Kept ones are tried again, the oldest first.
    fn take_up(&mut self, slots: usize) {
        while self.attempts.len() < slots {
            let next = {
                let shelf = self.board.shelf();
                shelf.next(&self.outlet.name, self.after).map(|(n, kept)| (n, kept.clone()))
            };
            match next {
                Some((n, kept)) => {
                    self.after = n;
                    self.start(Attempt::Kept(n, kept));
                }
                None => {
                    self.after = 0;
                    return;
                }
            }
        }
    }

    fn start(&mut self, attempt: Attempt) {
        let (key, payload) = match &attempt {
            Attempt::Fresh(item) => (item.key.clone(), item.payload.clone()),
            Attempt::Kept(_, kept) => (kept.key.clone(), Bytes::from(kept.payload.clone())),
        };
        let outlet = self.outlet.clone();
        self.board.in_flight.fetch_add(1, Ordering::Relaxed);
        self.figures.in_flight.fetch_add(1, Ordering::Relaxed);
        self.attempts.spawn(async move {
            let limit = outlet.timeout;
            let result = timeout(limit, outlet.send(&key, payload)).await;
            let late = || format!("no answer within {}", humantime::format_duration(limit));
            (attempt, result.unwrap_or_else(|_| Err(late().into())))
        });
    }

    async fn ended(&mut self, attempt: Attempt, result: Result<(), Unsent>) {
        self.board.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.figures.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Err(Unsent { cause, .. }) = &result {
            self.figures.failed.fetch_add(1, Ordering::Relaxed);
            let mut last = self.figures.last_error.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(cause.clone());
        }
        match &result {
            Ok(()) => {
                self.arrived(&attempt);
                self.failures = 0;
            }
            // It answers, and others may arrive.
            Err(Unsent { is_final: true, .. }) => {
                self.board.failed.fetch_add(1, Ordering::Relaxed);
                self.failures = 0;
            }
            Err(_) => self.fails(),
        }
        self.figures.failures.store(self.failures.into(), Ordering::Relaxed);
        match (attempt, result) {
            (Attempt::Fresh(item), Ok(())) => item.rest.one_done(),
            (Attempt::Fresh(item), Err(Unsent { cause, is_final })) => {
                let kept = Kept { is_dead: is_final, ..item.kept(&self.outlet.name, cause) };
                tokio::spawn(keep(self.board.clone(), item, kept));
            }
            (Attempt::Kept(n, kept), result) => {
                let age = clock::now().as_nanos().saturating_sub(kept.since_ns);
                let is_old = Duration::from_nanos(age) >= self.outlet.give_up;
                let board = self.board.clone();
                let written = tokio::task::spawn_blocking(move || match result {
                    Ok(()) => board.shelf().remove(n).map(drop),
                    Err(Unsent { cause, is_final }) => {
                        board.shelf().failed(n, &cause, is_final || is_old)
                    }
                });
                let written = written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                if let Err(error) = written {
                    self.board.disk_failed(&error);
                }
            }
        }
    }

    /// Counts what has arrived, each notification of a digest by itself.
    fn arrived(&self, attempt: &Attempt) {
        let keys = match attempt {
            Attempt::Kept(_, kept) if !kept.members.is_empty() => &kept.members[..],
            Attempt::Kept(_, kept) => std::slice::from_ref(&kept.key),
            Attempt::Fresh(item) => std::slice::from_ref(&item.key),
        };
        self.board.delivered.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.figures.delivered.fetch_add(keys.len() as u64, Ordering::Relaxed);
        for key in keys {
            self.board.arrived(key, &self.outlet.name);
        }
    }

    fn fails(&mut self) {
        self.board.failed.fetch_add(1, Ordering::Relaxed);
        self.failures = self.failures.saturating_add(1);
        let pause = PAUSE.0.saturating_mul(1 << self.failures.min(16)).min(PAUSE.1);
        self.until = Instant::now() + pause;
        // The oldest is asked again.
        self.after = 0;
    }
}

impl Outlet {
    async fn send(&self, key: &str, payload: Bytes) -> Result<(), Unsent> {
        match &self.means {
            Means::Webhook(target) => target.send(key, payload).await,
            Means::Mail(mail) => mail.send(key, &payload).await,
            Means::Log(path) => {
                let line = named(key, &String::from_utf8_lossy(&payload)) + "\n";
                let path = path.clone();
                let written =
                    tokio::task::spawn_blocking(move || write_line(path, line.as_bytes())).await;
                let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
                Ok(written.map_err(|error| error.to_string())?)
            }
        }
    }
}

fn write_line(path: Option<PathBuf>, line: &[u8]) -> io::Result<()> {
    match path {
        // One write, so that lines of several slots do not mix.
        // Not by the lock of standard output, which whoever runs the server may hold.
        None => File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(line),
        Some(path) => {
            let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(line)?;
            file.sync_data()
        }
    }
}
