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

type Told<M> = Result<Event<M>, StoreError>;

/// Calls of the store that wait for their thread.
struct Calls<M> {
    append: Sender<Arc<Append<M>>>,
    commit: Sender<Arc<Commit<M>>>,
    load: Sender<(u64, Vec<Key>, LoadWay)>,
    outbox: Sender<(u64, usize)>,
}

/// A partition that runs.
pub struct Server<A: Agent> {
    core: Partition<A>,
    calls: Calls<A::Message>,
    told: Receiver<Told<A::Message>>,
    threads: Vec<JoinHandle<()>>,
    began: Instant,
    /// Number of the last notification before it was opened: those up to it are another's.
    before: u64,
    fired: Fired,
    /// Messages that were acknowledged.
    answered: u64,
    /// Messages that were offered.
    offered: u64,
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
        Ok(Server { core, calls, told, threads, began, before, fired, answered: 0, offered: 0 })
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
            self.offered += 1;
            let (audience, priority) = (Audience::Everyone, Priority::Normal);
            let envelope = Envelope { id: None, sender: 0, to, audience, priority, message };
            own.push_back(Event::Offer { ticket: self.offered, envelope });
        }
        loop {
            let is_over = self.answered == self.offered
                && self.fired.count >= expected
                && self.core.is_idle()
                && own.is_empty();
            if is_over {
                return Ok(self.fired);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            let next = match self.told.try_recv() {
                Ok(told) => told?,
                Err(_) => match own.pop_front() {
                    Some(event) => event,
                    None => self.wait()?,
                },
            };
            self.handle(next, &mut own)?;
        }
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

    fn wait(&self) -> Result<Event<A::Message>, RunError> {
        let now = self.now();
        let until = self.core.next_wakeup().map_or(PATIENCE, |at| at.since(now));
        match self.told.recv_timeout(until.min(PATIENCE)) {
            Ok(told) => Ok(told?),
            Err(RecvTimeoutError::Timeout) if until < PATIENCE => Ok(Event::Wake),
            Err(_) => Err(RunError::Silent(PATIENCE.as_secs())),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
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
    tell: &Sender<Told<M>>,
    threads: &mut Vec<JoinHandle<()>>,
    store: &Arc<dyn Store<M>>,
    call: impl Fn(&dyn Store<M>, C) -> Told<M> + Send + 'static,
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
