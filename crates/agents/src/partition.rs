//! A partition: events and the time in, actions out. Here are its parts and the order in which an
//! event is taken; `ingress` lets messages in, `pass` says whose turn it is, `run` runs batches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gate::{CohortScheduler, Time};

use crate::agent::Agent;
use crate::directory::Directory;
use crate::ended::Ended;
use crate::message::{
    Delivery, Destination, Envelope, Epoch, Key, Notification, Outgoing, Priority, Seq,
};
use crate::planted::Planted;
use crate::spec::{PartitionError, PartitionSpec};
use crate::store::{Append, Commit, Cursor, Outcome, Row, RowWrite, Snapshot};
use crate::tail::Tail;
use crate::timers::Timers;
use crate::window::Window;

mod dividers;
mod ingress;
mod known;
mod pass;
mod relay;
mod run;
mod view;
mod waiting;

use dividers::Dividers;
use ingress::Ingress;
use known::Known;
use pass::Pass;
use relay::Relay;
use run::{Batch, Committing};
pub use view::PartitionView;

/// A happening outside of the core.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// A client gives a message; the answer has this ticket.
    Offer {
        /// The shell's number for the answer.
        ticket: u64,
        /// The message.
        envelope: Envelope<M>,
    },
    /// Agents of a partition (this one too) sent messages to agents of this one.
    Incoming {
        /// The partition that they come from.
        from: u32,
        /// The messages, in order.
        messages: Vec<Outgoing<M>>,
    },
    /// The end of the append.
    Appended(Outcome),
    /// The end of the commit.
    Committed(Outcome),
    /// The rows of a load, a missing one being empty; `None` if they could not be read.
    Loaded {
        /// The number of the load.
        load: u64,
        /// The rows, for each key that was asked for.
        rows: Option<Vec<(Key, Row)>>,
    },
    /// The part of the outbox that was to be read; `None` if it could not be.
    Outbox(Option<Vec<Notification>>),
    /// The part of the sent messages that was to be read; `None` if it could not be.
    Sent(Option<Vec<Outgoing<M>>>),
    /// A notification was delivered, or given up by its destination's rule.
    Delivered(u64),
    /// All sent messages up to this number were accepted by the partitions that they are for.
    Relayed(u64),
    /// A partition has no room for a sent message now.
    Declined,
    /// Time has passed, or the shell has done all else after [`Action::Continue`].
    Wake,
}

/// A deed that the core asks of the shell.
#[derive(Clone, Debug)]
pub enum Action<M> {
    /// Append to the log, and tell the end.
    Append(Arc<Append<M>>),
    /// Commit a batch, and tell the end.
    Commit(Arc<Commit<M>>),
    /// Load these agents, whose keys are in order, in one batch.
    Load {
        /// The number of the load.
        load: u64,
        /// The keys.
        keys: Vec<Key>,
        /// The way that is likely to be faster.
        way: LoadWay,
    },
    /// Read the notifications after a number, in order.
    ReadOutbox {
        /// The number.
        after: u64,
        /// Most of them.
        limit: usize,
    },
    /// Read the sent messages after a number, in order.
    ReadSent {
        /// The number.
        after: u64,
        /// Most of them.
        limit: usize,
    },
    /// The message of this ticket is durable at this position: acknowledge it.
    Answer {
        /// The shell's number.
        ticket: u64,
        /// The position.
        seq: Seq,
    },
    /// The message of this ticket is not accepted.
    Refuse {
        /// The shell's number.
        ticket: u64,
        /// The cause.
        cause: Refusal,
    },
    /// Deliver a notification, and tell when that is done.
    Deliver(Notification),
    /// Give messages to the partitions of their agents, in order.
    Relay(Vec<Outgoing<M>>),
    /// Tell a partition that all its messages up to a number are durable here.
    Accept {
        /// The partition.
        from: u32,
        /// The number.
        upto: u64,
    },
    /// Tell a partition that there is no room for its messages now.
    Decline {
        /// The partition.
        from: u32,
    },
    /// There is more to do: tell [`Event::Wake`] after the events that wait.
    Continue,
    /// The partition has another owner, of this epoch: this one has ended and acknowledges nothing more.
    Stop(Epoch),
}

/// Ways to load agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadWay {
    /// Each by its key.
    Keys,
    /// All between the first and the last key, since these are most of them.
    Range,
}

/// The cause why a message is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no memory for it now: later there may be.
    Full,
    /// An urgent multicast: only a message to one agent can be urgent.
    UrgentMulticast,
    /// The store refuses its content.
    Store(String),
    /// The partition has another owner. A message that was on its way into the log may be in it all the
    /// same: under an id it can be given to the other owner again.
    Stopped,
}

/// Numbers of what a partition has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Deliveries that an agent has handled.
    pub handled: u64,
    /// Agents that were cached when their turn came, and those that were loaded for it.
    pub hits: u64,
    /// Agents that were loaded.
    pub loads: u64,
    /// Agents that ran in the interactive lane.
    pub urgent: u64,
    /// Passes that have ended.
    pub passes: u64,
    /// Commits that took place.
    pub commits: u64,
    /// Batches that were taken back and run in parts.
    pub taken_back: u64,
}

/// The core of one partition. See the crate for the guarantees.
#[derive(Debug)]
pub struct Partition<A: Agent> {
    spec: PartitionSpec,
    epoch: Epoch,
    now: Time,
    stopped: bool,
    planted: Option<Planted>,
    /// The version and the cursor that the store has.
    version: u64,
    cursor: Cursor,
    ingress: Ingress<A::Message>,
    window: Window<A::Message>,
    dividers: Dividers<A::Message>,
    directory: Directory,
    /// Rows without a state.
    ended: Ended,
    timers: Timers,
    outbox: Tail<Notification>,
    /// Notifications that were delivered, which the store does not know yet.
    delivered: Vec<u64>,
    relay: Relay<A::Message>,
    scheduler: CohortScheduler,
    known: Known<A>,
    pass: Pass,
    /// Batches that can run, urgent ones first.
    ready: VecDeque<Batch>,
    /// Urgent runs in a row while a batch that is ready waited.
    urgent_runs: u32,
    loading: BTreeMap<u64, Batch>,
    loads: u64,
    /// Loads that failed, with the time to ask again.
    reload: Vec<(Time, u64)>,
    /// Agents in batches.
    running: u32,
    committing: Option<Committing<A::Message>>,
    /// Deliveries that could not be handled, with the cause.
    poisoned: BTreeMap<(Key, Delivery), String>,
    counts: Counts,
}

impl<A: Agent> Partition<A> {
    /// The partition of a new owner.
    ///
    /// # Errors
    /// Parameters out of their ranges.
    pub fn open(
        spec: PartitionSpec,
        now: Time,
        snapshot: Snapshot<A::Message>,
    ) -> Result<Partition<A>, PartitionError> {
        let scheduler = spec.scheduler()?;
        let scheduler = CohortScheduler::with(scheduler).map_err(PartitionError::Scheduler)?;
        let cursor = snapshot.cursor;
        let held = spec.held_max;
        let mut it = Partition {
            epoch: snapshot.epoch,
            now,
            stopped: false,
            planted: None,
            version: snapshot.version,
            ingress: Ingress::new(snapshot.log_end, snapshot.received),
            window: Window::new(cursor.low, cursor.trimmed),
            dividers: Dividers::new(cursor.low),
            directory: Directory::open(snapshot.directory),
            ended: Ended::default(),
            timers: Timers::open(snapshot.timers),
            outbox: Tail::new(0, cursor.notified, held),
            delivered: Vec::new(),
            relay: Relay::new(cursor.relayed, cursor.sent, held),
            scheduler,
            known: Known::new(),
            pass: Pass::new(cursor.spanned),
            ready: VecDeque::new(),
            urgent_runs: 0,
            loading: BTreeMap::new(),
            loads: 0,
            reload: Vec::new(),
            running: 0,
            committing: None,
            poisoned: BTreeMap::new(),
            counts: Counts::default(),
            cursor,
            spec,
        };
        for (key, last) in snapshot.ended {
            it.ended.write(key, Some(last));
        }
        for entry in snapshot.log {
            it.take_in(entry);
        }
        it.window.reopened(now, it.spec.id_window);
        it.resume();
        Ok(it)
    }

    /// All agents have this message behind them, which [divided](Agent::divides) the log before the part of it
    /// that was read: [timers](crate::Context::behind) know it.
    pub fn begin_behind(&mut self, divider: A::Message) {
        self.dividers.begin_behind(divider);
    }

    /// Plants a defect.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, planted: Planted) {
        self.planted = Some(planted);
    }

    /// Takes an event at a moment of the shell's clock, which counts from the same origin for all
    /// owners; a moment before the last one counts as that.
    pub fn handle(
        &mut self,
        now: Time,
        event: Event<A::Message>,
        actions: &mut Vec<Action<A::Message>>,
    ) {
        self.now = self.now.max(now);
        if self.stopped {
            match event {
                Event::Offer { ticket, .. } => {
                    actions.push(Action::Refuse { ticket, cause: Refusal::Stopped });
                }
                Event::Incoming { from, .. } => actions.push(Action::Decline { from }),
                _ => {}
            }
            return;
        }
        self.window.trim(self.now, self.spec.id_window);
        match event {
            Event::Offer { ticket, envelope } => self.offer(ticket, envelope, actions),
            Event::Incoming { from, messages } => self.incoming(from, messages, actions),
            Event::Appended(outcome) => self.appended(outcome, actions),
            Event::Committed(outcome) => self.committed(outcome, actions),
            Event::Loaded { load, rows } => self.loaded(load, rows),
            Event::Outbox(read) => match read {
                Some(read) => {
                    read.iter().for_each(|one| actions.push(Action::Deliver(one.clone())));
                    self.outbox.read(read.into_iter().map(|one| (one.n, one)).collect());
                }
                None => self.outbox.read_failed(self.now + self.spec.retry),
            },
            Event::Sent(read) => self.relay.read(read, self.now + self.spec.retry),
            Event::Delivered(n) => {
                if self.outbox.done(n) {
                    self.delivered.push(n);
                }
            }
            Event::Relayed(upto) => self.relay.relayed(upto),
            Event::Declined => self.relay.declined(self.now + self.spec.retry),
            Event::Wake => {}
        }
        if !self.stopped {
            self.go_on(actions);
        }
    }

    /// The moment at which the core wants to be told [`Event::Wake`], if nothing else happens before.
    pub fn next_wakeup(&self) -> Option<Time> {
        let again = self.committing.as_ref().and_then(|committing| committing.again);
        let all = [
            self.timers.next_due(),
            self.scheduler.next_rise(),
            self.ingress.again(),
            self.relay.again(),
            self.outbox.again(),
            again,
            self.reload.iter().map(|&(at, _)| at).min(),
        ];
        if self.stopped { None } else { all.into_iter().flatten().min() }
    }

    /// Numbers of what was done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of cached states and of messages in memory.
    pub fn bytes(&self) -> (u64, u64) {
        (self.scheduler.bytes(), self.window.bytes() + self.ingress.bytes())
    }

    /// Number of agents that have a state, and of those in the cache.
    pub fn agents(&self) -> (usize, u32) {
        (self.directory.len(), self.scheduler.cached())
    }

    /// True if nothing is left to do before the next event or timer.
    pub fn is_idle(&self) -> bool {
        self.window.low() == self.ingress.log_end()
            && self.ingress.is_idle()
            && self.relay.is_idle()
            && self.committing.is_none()
            && self.running == 0
            && !self.pass.running
    }

    /// All that an event may have made possible.
    fn go_on(&mut self, actions: &mut Vec<Action<A::Message>>) {
        self.scheduler.age(self.now);
        self.give_timers();
        self.ask_again(actions);
        if let Some((after, limit)) = self.outbox.wants(self.now) {
            actions.push(Action::ReadOutbox { after, limit });
        }
        self.relay.retry(self.now);
        self.relay.go_on(self.now, actions);
        self.append(actions);
        self.move_pass();
        self.form_batches(actions);
        let delivers_enough = self.outbox.pending() < self.spec.outbox_max;
        if self.committing.is_none()
            && delivers_enough
            && let Some(batch) = self.next_batch()
        {
            self.run(batch, actions);
            self.move_pass();
            self.form_batches(actions);
        }
        if self.committing.is_none() && delivers_enough && !self.ready.is_empty() {
            actions.push(Action::Continue);
        }
        self.keep_house(actions);
    }

    /// Timers that are due go to their agents.
    fn give_timers(&mut self) {
        while let Some((due, key, name)) = self.timers.take(self.now) {
            let agent = self.known.meet::<A>(key, &mut self.scheduler);
            self.known.mailbox(agent).insert_timer(due, name);
            self.scheduler.deliver(agent, Priority::Normal.level());
        }
    }

    /// What the store did not answer is asked again.
    fn ask_again(&mut self, actions: &mut Vec<Action<A::Message>>) {
        if let Some(committing) = &mut self.committing
            && committing.again.is_some_and(|again| again <= self.now)
        {
            committing.again = None;
            actions.push(Action::Commit(committing.commit.clone()));
        }
        let due: Vec<u64> =
            (self.reload.iter()).filter(|(at, _)| *at <= self.now).map(|&(_, load)| load).collect();
        self.reload.retain(|(at, _)| *at > self.now);
        for load in due {
            if let Some(batch) = self.loading.remove(&load) {
                self.load(batch, actions);
            }
        }
    }

    /// Another owner has the partition.
    fn stop(&mut self, epoch: Epoch, actions: &mut Vec<Action<A::Message>>) {
        self.stopped = true;
        for ticket in self.ingress.tickets() {
            actions.push(Action::Refuse { ticket, cause: Refusal::Stopped });
        }
        actions.extend(self.ingress.partitions().map(|from| Action::Decline { from }));
        actions.push(Action::Stop(epoch));
    }

    /// A message of the log that has not taken effect everywhere.
    fn take_in(&mut self, mut entry: crate::message::Entry<A::Message>) {
        let seq = entry.seq;
        let priority = entry.envelope.priority;
        self.dividers.meet::<A>(seq, priority, &mut entry.envelope.message);
        if self.planted == Some(Planted::DividerPassedOver) {
            self.dividers.forget();
        }
        // A multicast of a pass that is over has reached all.
        let done = !matches!(entry.envelope.to, Destination::One(_)) && seq <= self.pass.until;
        let content = A::message_bytes(&entry.envelope.message);
        self.window.push(entry, content, done);
        self.release();
    }

    /// Messages that no divider keeps back any more go to their agents.
    fn release(&mut self) {
        let (low, end) = (self.window.low(), self.window.end());
        let fresh = self.dividers.release(low, end);
        let entries: Vec<_> = self.window.between(fresh.0, fresh.1).cloned().collect();
        entries.iter().for_each(|entry| self.give(entry));
    }

    /// A message to one agent goes to its mailbox; multicasts are the business of passes.
    fn give(&mut self, entry: &crate::message::Entry<A::Message>) {
        let (seq, priority) = (entry.seq, entry.envelope.priority);
        let Destination::One(key) = entry.envelope.to else { return };
        let agent = self.known.meet::<A>(key, &mut self.scheduler);
        self.known.mailbox(agent).insert(priority, seq);
        if priority == Priority::Urgent || seq <= self.pass.until {
            self.scheduler.deliver(agent, priority.level());
        }
    }

    /// The progress as it is now, beside what a commit in the making adds.
    fn progress(&mut self) -> Cursor {
        let low = self.window.low();
        Cursor {
            low,
            spanned: self.pass.spanned,
            pass: self.pass.cursor(self.planted),
            trimmed: self.window.trim(self.now, self.spec.id_window),
            relayed: self.relay.upto(),
            notified: self.outbox.end(),
            sent: self.relay.end(),
        }
    }

    /// Rows that a commit wrote.
    fn note_rows(&mut self, rows: &[RowWrite], has_state: impl Fn(Key) -> bool) {
        for RowWrite { key, header, .. } in rows {
            let lives = has_state(*key);
            self.directory.write(*key, lives.then_some(header.armed));
            let last = header.applied.into_iter().max().unwrap_or_default();
            self.ended.write(*key, (!lives).then_some(last));
        }
    }
}
