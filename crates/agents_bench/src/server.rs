//! The server's core over a store: a thread of decisions, and one for each kind of call of the store, as the
//! agent server has them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agents::{
    Action, Agent, Append, Audience, Commit, Counts, Destination, Envelope, Event, Key, LoadWay,
    Notification, Outcome, Partition, PartitionSpec, Priority,
};
use agents_store::{Content, Store, StoreError};
use gate::Time;

use crate::load::{Fired, RunError};

/// Longest wait for anything to happen.
const PATIENCE: Duration = Duration::from_secs(60);

type Ended<M> = Result<Event<M>, StoreError>;

/// Calls of the store that wait for their thread.
struct Calls<M> {
    append: Sender<Arc<Append<M>>>,
    commit: Sender<Arc<Commit<M>>>,
    load: Sender<(u64, Vec<Key>, LoadWay)>,
    outbox: Sender<(u64, usize)>,
}

/// A notification, and the moment at which it was to be delivered: its effects are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The agent.
    pub agent: Key,
    /// The content.
    pub payload: Vec<u8>,
    /// The moment, by the server's clock.
    pub at: Time,
}

/// A partition that runs.
pub struct Server<A: Agent> {
    pub(crate) core: Partition<A>,
    calls: Calls<A::Message>,
    told: Receiver<Ended<A::Message>>,
    threads: Vec<JoinHandle<()>>,
    began: Instant,
    /// Number of the last notification before it was opened: those up to it are another's.
    before: u64,
    fired: Fired,
    /// Messages that were acknowledged.
    answered: u64,
    /// Messages that were offered.
    offered: u64,
    /// The notifications since [`Server::listen`].
    heard: Option<Vec<Told>>,
}

impl<A: Agent> std::fmt::Debug for Server<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("counts", &self.core.counts()).finish_non_exhaustive()
    }
}

impl<A: Agent<Message: Content + Send + Sync + 'static>> Server<A> {
    /// Takes a partition over.
    ///
    /// # Errors
    /// The store fails, there can be no such partition, or a thread cannot be had.
    pub fn open(
        store: Arc<dyn Store<A::Message>>,
        spec: PartitionSpec,
    ) -> Result<Server<A>, RunError> {
        let id = spec.id;
        let snapshot = store.open(id)?;
        let before = snapshot.cursor.notified;
        let core = Partition::open(spec, Time::ZERO, snapshot)?;
        let (tell, told) = channel();
        let mut threads = Vec::new();
        let calls = Calls {
            append: caller(
                &tell,
                &mut threads,
                &store,
                move |store, append: Arc<Append<A::Message>>| {
                    store.append(id, &append).map(Event::Appended)
                },
            )?,
            commit: caller(
                &tell,
                &mut threads,
                &store,
                move |store, commit: Arc<Commit<A::Message>>| {
                    store.commit(id, &commit).map(Event::Committed)
                },
            )?,
            load: caller(&tell, &mut threads, &store, move |store, (load, keys, way)| {
                let keys: Vec<Key> = keys;
                let rows = store.load(id, &keys, way)?;
                Ok(Event::Loaded { load, rows: Some(rows) })
            })?,
            outbox: caller(&tell, &mut threads, &store, move |store, (after, limit)| {
                store.outbox(id, after, limit).map(|read| Event::Outbox(Some(read)))
            })?,
        };
        let (began, fired) = (Instant::now(), Fired::default());
        let (answered, offered, heard) = (0, 0, None);
        Ok(Server { core, calls, told, threads, began, before, fired, answered, offered, heard })
    }

    /// Gives messages, each to its agents, and waits until each has handled its own, all that follows is committed, and
    /// each of the `expected` notifications was delivered, to nobody; who fired.
    ///
    /// # Errors
    /// The store fails or refuses, nothing happens for a minute, or `stop` was set.
    pub fn tick(
        &mut self,
        messages: impl IntoIterator<Item = (A::Message, Destination)>,
        expected: u64,
        stop: &AtomicBool,
    ) -> Result<Fired, RunError> {
        self.fired = Fired::default();
        let mut own = VecDeque::new();
        for (message, to) in messages {
            let offer = self.offer(message, to, Priority::Normal);
            own.push_back(offer);
        }
        while !(own.is_empty() && self.is_idle() && self.fired.count >= expected) {
            self.step(&mut own, PATIENCE, stop)?;
        }
        Ok(self.fired)
    }

    /// Runs until a moment of its clock at least, and until nothing is left to do then.
    ///
    /// # Errors
    /// The store fails or refuses, or `stop` was set.
    pub fn run_until(&mut self, until: Time, stop: &AtomicBool) -> Result<(), RunError> {
        let mut own = VecDeque::new();
        while self.now() < until || !(own.is_empty() && self.is_idle()) {
            let patience = if self.now() < until { until.since(self.now()) } else { PATIENCE };
            self.step(&mut own, patience, stop)?;
        }
        Ok(())
    }

    /// From now on notifications are kept, until they are [taken](Server::heard).
    pub fn listen(&mut self) {
        self.heard = Some(Vec::new());
    }

    /// The notifications since the last call.
    pub fn heard(&mut self) -> Vec<Told> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The moment by its clock, which began when it was open.
    pub fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// True if all that was offered was answered and handled.
    pub(crate) fn is_idle(&self) -> bool {
        self.answered == self.offered && self.core.is_idle()
    }

    /// A message on its way in.
    pub(crate) fn offer(
        &mut self,
        message: A::Message,
        to: Destination,
        priority: Priority,
    ) -> Event<A::Message> {
        self.offered += 1;
        let audience = Audience::Everyone;
        let envelope = Envelope { id: None, sender: 0, to, audience, priority, message };
        Event::Offer { ticket: self.offered, envelope }
    }

    /// Takes the next event: the end of a call, else one of its own, else what happens within a time.
    pub(crate) fn step(
        &mut self,
        own: &mut VecDeque<Event<A::Message>>,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let next = match self.told.try_recv() {
            Ok(told) => told?,
            Err(_) => match own.pop_front() {
                Some(event) => event,
                None => match self.wait(patience)? {
                    Some(event) => event,
                    None => return Ok(()),
                },
            },
        };
        self.handle(next, own)
    }

    /// Numbers of what was done.
    pub fn counts(&self) -> Counts {
        self.core.counts()
    }

    /// Ends its threads.
    pub fn close(self) {
        drop(self.calls);
        // One that panicked has said so.
        self.threads.into_iter().for_each(|thread| _ = thread.join());
    }

    /// The next event; `None` if nothing happens for so long, which is an error after [`PATIENCE`].
    fn wait(&self, patience: Duration) -> Result<Option<Event<A::Message>>, RunError> {
        let wakes = self.core.next_wakeup().map(|at| at.since(self.now()));
        let most = wakes.unwrap_or(PATIENCE).min(patience);
        match self.told.recv_timeout(most) {
            Ok(told) => Ok(Some(told?)),
            Err(RecvTimeoutError::Timeout) if wakes.is_some_and(|wakes| wakes <= most) => {
                Ok(Some(Event::Wake))
            }
            Err(RecvTimeoutError::Timeout) if patience < PATIENCE => Ok(None),
            Err(_) => Err(RunError::Silent(PATIENCE.as_secs())),
        }
    }

    fn handle(
        &mut self,
        event: Event<A::Message>,
        own: &mut VecDeque<Event<A::Message>>,
    ) -> Result<(), RunError> {
        if let Event::Appended(end) | Event::Committed(end) = &event
            && *end != Outcome::Written
        {
            return Err(RunError::Refused(end.clone()));
        }
        let mut actions = Vec::new();
        self.core.handle(self.now(), event, &mut actions);
        for action in actions {
            self.act(action, own)?;
        }
        Ok(())
    }

    /// A thread that does calls ends with this one alone, so that sending to it does not fail.
    fn act(
        &mut self,
        action: Action<A::Message>,
        own: &mut VecDeque<Event<A::Message>>,
    ) -> Result<(), RunError> {
        match action {
            Action::Append(append) => _ = self.calls.append.send(append),
            Action::Commit(commit) => _ = self.calls.commit.send(commit),
            Action::Load { load, keys, way } => _ = self.calls.load.send((load, keys, way)),
            Action::ReadOutbox { after, limit } => _ = self.calls.outbox.send((after, limit)),
            Action::Answer { .. } => self.answered += 1,
            Action::Deliver(Notification { n, key, payload }) => {
                if n > self.before {
                    self.fired.add(key.agent, &payload);
                    let at = self.now();
                    if let Some(heard) = &mut self.heard {
                        heard.push(Told { agent: key.agent, payload, at });
                    }
                }
                own.push_back(Event::Delivered(n));
            }
            Action::Continue => own.push_back(Event::Wake),
            Action::Refuse { .. }
            | Action::Stop(_)
            | Action::ReadSent { .. }
            | Action::Relay(_)
            | Action::Accept { .. }
            | Action::Decline { .. } => {
                return Err(RunError::Unwanted(format!("{action:?}")));
            }
        }
        Ok(())
    }
}

/// A thread that does calls in their order, and tells how each ended.
fn caller<M: Content + Send + 'static, C: Send + 'static>(
    tell: &Sender<Ended<M>>,
    threads: &mut Vec<JoinHandle<()>>,
    store: &Arc<dyn Store<M>>,
    call: impl Fn(&dyn Store<M>, C) -> Ended<M> + Send + 'static,
) -> Result<Sender<C>, RunError> {
    let (calls, called) = channel::<C>();
    let (tell, store) = (tell.clone(), Arc::clone(store));
    let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
        for one in called {
            if tell.send(call(&*store, one)).is_err() {
                return;
            }
        }
    })?;
    threads.push(thread);
    Ok(calls)
}
