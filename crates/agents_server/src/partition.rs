//! A partition in real time: a thread that gives the core its events, and threads that do its calls of the
//! store. All decisions are the core's.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use agents::{
    Action, Agent, Append, Commit, Counts, Entry, Envelope, Epoch, Event, Key, LoadWay,
    Notification, Outcome, Partition, PartitionError, PartitionSpec, PartitionView, Refusal, Seq,
    Snapshot,
};
use agents_rules::{Changes, Message, RuleAgent, Rules};
use agents_store::{Store, StoreError};
use tokio::sync::oneshot;

use crate::clock::{self, Clock};
use crate::delivery::ToDeliver;
use crate::retention::{Ledger, Retention};

/// The answer to an offer.
pub(crate) type Reply = Result<Seq, Refusal>;

/// An input of a partition's thread.
pub(crate) enum Input {
    /// A message of a client.
    Offer(Envelope<Message>, oneshot::Sender<Reply>),
    /// An event of the store, of the delivery or of another partition.
    Event(Event<Message>),
    /// The server ends.
    End,
}

/// A notification that is to be delivered; dropping it without `done` leaves it in the outbox.
pub(crate) struct Parcel {
    pub(crate) notification: Notification,
    pub(crate) done: Sender<Input>,
}

impl Parcel {
    /// It was delivered, or is kept elsewhere.
    pub(crate) fn done(self) {
        // A partition that has ended reads it again from its outbox.
        self.done.send(Input::Event(Event::Delivered(self.notification.n))).ok();
    }
}

/// The face of a running partition.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) id: u32,
    /// The number of its owner.
    pub(crate) epoch: Epoch,
    inputs: Sender<Input>,
    pub(crate) shown: Arc<Shown>,
}

/// What a partition shows to others.
#[derive(Default)]
pub(crate) struct Shown {
    figures: Mutex<Figures>,
    pub(crate) stopped: AtomicBool,
    /// Calls of the store that failed, and the cause of the last one.
    pub(crate) store_errors: AtomicU64,
    /// The part of its log that is kept.
    ledger: Mutex<Option<Ledger>>,
    /// The changes of the rules in that part.
    changes: Mutex<Option<Changes>>,
    last_error: Mutex<Option<String>>,
    /// The causes why the store has no room for messages, and for their effects; none while it has.
    full: Mutex<[Option<String>; 2]>,
}

/// A call that writes.
#[derive(Clone, Copy)]
enum Written {
    Messages,
    Effects,
}

/// Numbers of a partition.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) counts: Counts,
    pub(crate) agents: u64,
    pub(crate) cached: u32,
    pub(crate) state_bytes: u64,
    pub(crate) message_bytes: u64,
    pub(crate) is_idle: bool,
    pub(crate) view: PartitionView,
}

impl Shown {
    /// From now on its log is kept within limits, and the changes in it are known.
    fn keep(&self, limits: Retention, rules: &Arc<Rules>) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ledger::new(limits));
        let none = Changes::none(rules);
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Some(none);
    }

    /// Messages that were appended, or found in the log.
    pub(crate) fn appended<'a>(&self, entries: impl IntoIterator<Item = &'a Entry<Message>>) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(ledger), Some(changes)) = (ledger.as_mut(), changes.as_mut()) else { return };
        for entry in entries {
            let bytes = RuleAgent::message_bytes(&entry.envelope.message);
            ledger.push(entry.seq, entry.at, bytes);
            changes.push(entry.seq, &entry.envelope.message);
        }
    }

    /// The rules at each position of its log, as far as it is kept.
    pub(crate) fn changes(&self) -> Changes {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.clone().expect("they are known from the opening on")
    }

    /// Its log up to a position is forgotten.
    pub(crate) fn forgot(&self, upto: Seq) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter_mut().for_each(|changes| changes.forget(upto));
    }

    /// The last message that need not be kept any more.
    pub(crate) fn spare(&self) -> Seq {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.as_mut().map_or(Seq(0), |ledger| ledger.spare(clock::now()))
    }

    pub(crate) fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cause why the store has no room, as its last call of either kind said.
    pub(crate) fn full(&self) -> Option<String> {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.iter().flatten().next().cloned()
    }

    /// A call has ended: without room it is made again and again, until there is some.
    fn wrote(&self, what: Written, end: &Result<Outcome, StoreError>) {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Err(error @ StoreError::Full { .. }) => full[what as usize] = Some(error.to_string()),
            // What else is wrong with it does not make room.
            Err(_) => {}
            Ok(_) => full[what as usize] = None,
        }
    }

    fn failed(&self, error: &dyn Display) {
        self.store_errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

impl Handle {
    /// Offers a message; the answer comes when it is durable.
    pub(crate) fn offer(&self, envelope: Envelope<Message>) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        if let Err(unsent) = self.inputs.send(Input::Offer(envelope, answer))
            && let Input::Offer(_, answer) = unsent.0
        {
            answer.send(Err(Refusal::Stopped)).ok();
        }
        answered
    }
}

impl Handle {
    /// Ends its threads; what was not acknowledged is not done.
    pub(crate) fn end(&self) {
        self.inputs.send(Input::End).ok();
    }
}

/// The cause why a partition does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Spec(#[from] PartitionError),
    #[error("no thread can be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// The shared parts of all partitions.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store<Message>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) parcels: tokio::sync::mpsc::UnboundedSender<ToDeliver>,
}

/// Partitions that were taken over, not running yet.
pub(crate) struct Opened {
    id: u32,
    core: Partition<RuleAgent>,
    inputs: Receiver<Input>,
    handle: Handle,
}

/// Takes a partition over.
pub(crate) fn open(
    spec: PartitionSpec,
    shared: &Shared,
    limits: Retention,
) -> Result<Opened, OpenError> {
    let id = spec.id;
    let mut snapshot: Snapshot<Message> = shared.store.open(id)?;
    let epoch = snapshot.epoch;
    let (inputs, received) = channel();
    let handle = Handle { id, epoch, inputs, shown: Arc::default() };
    handle.shown.keep(limits, &shared.rules);
    read_log(shared, &handle)?;
    // What was accepted before a change and has not taken effect does so by the rules of before.
    let changes = handle.shown.changes();
    for entry in &mut snapshot.log {
        entry.envelope.message.by(changes.at(entry.seq));
    }
    // Timers that are due before another change comes are of the rules that held behind what was forgotten.
    let held = changes.at(snapshot.cursor.trimmed).reminder();
    let mut core = Partition::open(spec, clock::now(), snapshot)?;
    core.begin_behind(held);
    Ok(Opened { id, core, inputs: received, handle })
}

/// Tells the ledger what the log has from before, and which changes of the rules are in it.
fn read_log(shared: &Shared, handle: &Handle) -> Result<(), StoreError> {
    // A message may have 4 MiB.
    const PAGE: usize = 64;
    let mut after = Seq(0);
    loop {
        let mut part = shared.store.log(handle.id, after, PAGE)?;
        // The others are not looked into: only a change says which rules hold behind it.
        let changes = part.entries.iter_mut().map(|entry| &mut entry.envelope.message);
        changes.filter(|it| it.is_kept_change()).for_each(|it| it.by(&shared.rules));
        handle.shown.appended(&part.entries);
        match part.entries.last() {
            Some(last) => after = last.seq,
            None => return Ok(()),
        }
    }
}

impl Opened {
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs it until [`Handle::end`].
    pub(crate) fn run(self, shared: Shared) -> Result<(), OpenError> {
        let calls = Calls::start(self.id, &shared, &self.handle)?;
        let mut running = Running {
            core: self.core,
            clock: Clock::default(),
            own: self.handle.inputs.clone(),
            shown: self.handle.shown.clone(),
            calls,
            shared,
            tickets: HashMap::new(),
            ticket: 0,
            again: true,
        };
        let inputs = self.inputs;
        thread::Builder::new()
            .name(format!("partition {}", self.id))
            .spawn(move || running.go(&inputs))?;
        Ok(())
    }
}

/// Threads that call the store: one for each kind of call that the core has under way at once.
struct Calls {
    append: Sender<Arc<Append<Message>>>,
    commit: Sender<Arc<Commit<Message>>>,
    read: Sender<ReadCall>,
}

enum ReadCall {
    Load { load: u64, keys: Vec<Key>, way: LoadWay },
    Outbox { after: u64, limit: usize },
}

impl Calls {
    fn start(id: u32, shared: &Shared, handle: &Handle) -> Result<Calls, OpenError> {
        let store = shared.store.clone();
        let append = caller(id, "append", handle, move |shown, append: Arc<Append<_>>| {
            Event::Appended(end(shown, Written::Messages, store.append(id, &append)))
        })?;
        let store = shared.store.clone();
        let commit = caller(id, "commit", handle, move |shown, commit: Arc<Commit<_>>| {
            Event::Committed(end(shown, Written::Effects, store.commit(id, &commit)))
        })?;
        let store = shared.store.clone();
        let read = caller(id, "read", handle, move |shown, call| match call {
            ReadCall::Load { load, keys, way } => {
                Event::Loaded { load, rows: found(shown, store.load(id, &keys, way)) }
            }
            ReadCall::Outbox { after, limit } => {
                Event::Outbox(found(shown, store.outbox(id, after, limit)))
            }
        })?;
        Ok(Calls { append, commit, read })
    }
}

/// A thread that does calls in their order, and tells the partition how each ended.
fn caller<C: Send + 'static>(
    id: u32,
    name: &str,
    handle: &Handle,
    call: impl Fn(&Shown, C) -> Event<Message> + Send + 'static,
) -> Result<Sender<C>, OpenError> {
    let (calls, called) = channel::<C>();
    let (inputs, shown) = (handle.inputs.clone(), handle.shown.clone());
    let name = format!("{name} {id}");
    thread::Builder::new().name(name).spawn(move || {
        for one in called {
            if inputs.send(Input::Event(call(&shown, one))).is_err() {
                return;
            }
        }
    })?;
    Ok(calls)
}

fn end(shown: &Shown, what: Written, outcome: Result<Outcome, StoreError>) -> Outcome {
    shown.wrote(what, &outcome);
    outcome.unwrap_or_else(|error| {
        shown.failed(&error);
        Outcome::Unknown
    })
}

fn found<T>(shown: &Shown, read: Result<T, StoreError>) -> Option<T> {
    read.map_err(|error| shown.failed(&error)).ok()
}

struct Running {
    core: Partition<RuleAgent>,
    clock: Clock,
    own: Sender<Input>,
    shown: Arc<Shown>,
    calls: Calls,
    shared: Shared,
    tickets: HashMap<u64, oneshot::Sender<Reply>>,
    ticket: u64,
    /// The core has more to do.
    again: bool,
}

/// Inputs after which a partition that is never idle shows its figures.
const TURN: u64 = 1_000;
/// Longest sleep, so that a clock that was set forward is seen.
const SLEEP_MAX: Duration = Duration::from_secs(1);

impl Running {
    fn go(&mut self, inputs: &Receiver<Input>) {
        for turn in 1_u64.. {
            if turn.is_multiple_of(TURN) {
                self.show();
            }
            let input = inputs.try_recv().or_else(|error| match error {
                TryRecvError::Disconnected => Err(RecvTimeoutError::Disconnected),
                // Whoever looks at an idle partition sees it as it is.
                TryRecvError::Empty => {
                    self.show();
                    inputs.recv_timeout(self.wait())
                }
            });
            match input {
                Ok(Input::Offer(envelope, answer)) => {
                    self.ticket += 1;
                    let ticket = self.ticket;
                    self.tickets.insert(ticket, answer);
                    self.handle(Event::Offer { ticket, envelope });
                }
                Ok(Input::Event(event)) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {
                    self.again = false;
                    self.handle(Event::Wake);
                }
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn wait(&mut self) -> Duration {
        if self.again {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let until = self.core.next_wakeup().map_or(SLEEP_MAX, |at| at.since(now));
        until.min(SLEEP_MAX)
    }

    fn show(&self) {
        let (agents, cached) = self.core.agents();
        let (state_bytes, message_bytes) = self.core.bytes();
        let figures = Figures {
            counts: self.core.counts(),
            agents: agents as u64,
            cached,
            state_bytes,
            message_bytes,
            is_idle: self.core.is_idle(),
            view: self.core.view(),
        };
        *self.shown.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    fn handle(&mut self, event: Event<Message>) {
        let mut actions = Vec::new();
        self.core.handle(self.clock.now(), event, &mut actions);
        for action in actions {
            self.act(action);
        }
    }

    /// A thread that does calls ends with this one alone, so that sending to it does not fail.
    fn act(&mut self, action: Action<Message>) {
        match action {
            Action::Append(append) => {
                // Also if it fails in the end: what is spare is spare, and the store knows its own end.
                self.shown.appended(&append.entries);
                self.calls.append.send(append).ok();
            }
            Action::Commit(commit) => _ = self.calls.commit.send(commit),
            Action::Load { load, keys, way } => {
                self.calls.read.send(ReadCall::Load { load, keys, way }).ok();
            }
            Action::ReadOutbox { after, limit } => {
                self.calls.read.send(ReadCall::Outbox { after, limit }).ok();
            }
            Action::Answer { ticket, seq } => self.answer(ticket, Ok(seq)),
            Action::Refuse { ticket, cause } => self.answer(ticket, Err(cause)),
            Action::Deliver(notification) => {
                let done = self.own.clone();
                let parcel = Parcel { notification, done };
                // Without a receiver the server ends; the outbox keeps it.
                self.shared.parcels.send(ToDeliver::Parcel(parcel)).ok();
            }
            Action::ReadSent { .. }
            | Action::Relay(_)
            | Action::Accept { .. }
            | Action::Decline { .. } => unreachable!("agents that follow rules send nothing"),
            Action::Continue => self.again = true,
            Action::Stop(_) => self.shown.stopped.store(true, Ordering::Relaxed),
        }
    }

    fn answer(&mut self, ticket: u64, reply: Reply) {
        if let Some(answer) = self.tickets.remove(&ticket) {
            // A client that has gone needs no answer.
            answer.send(reply).ok();
        }
    }
}

/// The partition of a key, of so many.
pub(crate) fn of_key(key: Key, partitions: u32) -> u32 {
    // Numbers as keys follow one another: their low bits spread them.
    (key.0 % u64::from(partitions)) as u32
}
