//! Messages that come in: acknowledged when they are durable, recognised when they come again,
//! refused when there is no room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gate::Time;

use super::{Action, Partition, Refusal};
use crate::agent::Agent;
use crate::message::{Audience, Destination, Entry, Envelope, MessageId, Outgoing, Priority, Seq};
use crate::store::{Append, Outcome};
use crate::window::entry_bytes;

/// Messages of one append at most.
const APPEND_MAX: usize = 1_000;

/// Spans of [`retry`](crate::PartitionSpec::retry) for which room is kept for a partition.
const OWED_FOR: u32 = 10;

/// Messages that are not durable yet.
#[derive(Debug)]
pub(super) struct Ingress<M> {
    log_end: Seq,
    /// Of each partition, the last of its messages that is durable here, and the last that is queued.
    received: BTreeMap<u32, u64>,
    queued: BTreeMap<u32, u64>,
    arriving: VecDeque<Arriving<M>>,
    /// The tickets of those that come again while the first is on its way.
    repeated: BTreeMap<MessageId, Vec<u64>>,
    bytes: u64,
    /// Bytes that partitions found no room for, and until when they are kept free for these.
    owed: BTreeMap<u32, (u64, Time)>,
    flying: Option<Flying<M>>,
    /// Messages of the next append at most: fewer while one that the store refuses is looked for.
    append_max: usize,
}

#[derive(Debug)]
struct Arriving<M> {
    at: Time,
    envelope: Envelope<M>,
    bytes: u64,
    reply: Reply,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Ticket(u64),
    Partition(u32, u64),
}

#[derive(Debug)]
struct Flying<M> {
    append: Arc<Append<M>>,
    replies: Vec<(Reply, Option<MessageId>)>,
    bytes: u64,
    again: Option<Time>,
}

impl<M> Ingress<M> {
    pub(super) fn new(log_end: Seq, received: BTreeMap<u32, u64>) -> Ingress<M> {
        Ingress {
            log_end,
            queued: received.clone(),
            received,
            arriving: VecDeque::new(),
            repeated: BTreeMap::new(),
            bytes: 0,
            owed: BTreeMap::new(),
            flying: None,
            append_max: APPEND_MAX,
        }
    }

    pub(super) fn log_end(&self) -> Seq {
        self.log_end
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_idle(&self) -> bool {
        self.arriving.is_empty() && self.flying.is_none()
    }

    pub(super) fn again(&self) -> Option<Time> {
        self.flying.as_ref().and_then(|flying| flying.again)
    }

    /// The partitions of which messages are not known to be durable.
    pub(super) fn partitions(&self) -> impl Iterator<Item = u32> {
        let waits = |&(from, n): &(&u32, &u64)| self.received.get(from) != Some(n);
        self.queued.iter().filter(waits).map(|(&from, _)| from)
    }

    /// The tickets of all that are not durable.
    pub(super) fn tickets(&mut self) -> Vec<u64> {
        let flying = self.flying.iter().flat_map(|flying| flying.replies.iter().map(|it| it.0));
        let replies = flying.chain(self.arriving.iter().map(|it| it.reply));
        let tickets = replies.filter_map(|reply| match reply {
            Reply::Ticket(ticket) => Some(ticket),
            Reply::Partition(..) => None,
        });
        tickets.chain(self.repeated.values().flatten().copied()).collect()
    }
}

impl<A: Agent> Partition<A> {
    pub(super) fn offer(
        &mut self,
        ticket: u64,
        mut envelope: Envelope<A::Message>,
        actions: &mut Vec<Action<A::Message>>,
    ) {
        if let Some(id) = envelope.id {
            if let Some(seq) = self.window.of_id(id) {
                actions.push(Action::Answer { ticket, seq });
                return;
            }
            if let Some(tickets) = self.ingress.repeated.get_mut(&id) {
                tickets.push(ticket);
                return;
            }
        }
        match &mut envelope.to {
            Destination::One(_) => {}
            _ if envelope.priority == Priority::Urgent => {
                actions.push(Action::Refuse { ticket, cause: Refusal::UrgentMulticast });
                return;
            }
            Destination::Keys(keys) => {
                let mut sorted = keys.to_vec();
                sorted.sort_unstable();
                sorted.dedup();
                *keys = sorted.into();
            }
            Destination::Range(..) | Destination::All | Destination::Crossed { .. } => {}
        }
        let bytes = entry_bytes(&envelope.to, A::message_bytes(&envelope.message));
        let ids = self.window.ids() + self.ingress.repeated.len();
        let sends_enough = self.relay.pending() < self.spec.sent_max;
        // One that divides the log is let in: whoever gives it reads what comes after it by it.
        let is_let_in = A::divides(&envelope.message);
        if !is_let_in
            && (!sends_enough
                || !self.has_room(bytes, self.owed())
                || (envelope.id.is_some() && ids >= self.spec.ids_max))
        {
            actions.push(Action::Refuse { ticket, cause: Refusal::Full });
            return;
        }
        if let Some(id) = envelope.id {
            self.ingress.repeated.insert(id, Vec::new());
        }
        self.queue(envelope, bytes, Reply::Ticket(ticket));
    }

    /// Room for messages. One is let in whatever its size, so that a large one does not wait for ever.
    fn has_room(&self, bytes: u64, owed: u64) -> bool {
        let held = (self.window.bytes() + self.ingress.bytes).saturating_add(owed);
        held == 0 || held.saturating_add(bytes) <= self.spec.message_bytes_max
    }

    /// Bytes that clients leave free: their messages come one by one and would take each bit of room
    /// before there is enough for a group.
    fn owed(&self) -> u64 {
        let owed = self.ingress.owed.values().filter(|&&(_, until)| until > self.now);
        owed.fold(0, |sum, &(bytes, _)| sum.saturating_add(bytes))
    }

    fn queue(&mut self, envelope: Envelope<A::Message>, bytes: u64, reply: Reply) {
        self.ingress.bytes += bytes;
        self.ingress.arriving.push_back(Arriving { at: self.now, envelope, bytes, reply });
    }

    /// All of them are let in, or none: their order must hold.
    pub(super) fn incoming(
        &mut self,
        from: u32,
        messages: Vec<Outgoing<A::Message>>,
        actions: &mut Vec<Action<A::Message>>,
    ) {
        let Some(last) = messages.last().map(|last| last.n) else { return };
        let durable = self.ingress.received.get(&from).copied().unwrap_or(0);
        if last <= durable {
            actions.push(Action::Accept { from, upto: last });
            return;
        }
        let queued = self.ingress.queued.get(&from).copied().unwrap_or(0);
        let fresh = messages.into_iter().filter(|one| one.n > queued);
        let fresh: Vec<(Outgoing<A::Message>, u64)> = fresh
            .map(|one| {
                let bytes = entry_bytes(&Destination::One(one.to), A::message_bytes(&one.message));
                (one, bytes)
            })
            .collect();
        let bytes = fresh.iter().map(|it| it.1).sum();
        if !self.has_room(bytes, 0) {
            let until = self.now + OWED_FOR * self.spec.retry;
            self.ingress.owed.insert(from, (bytes, until));
            actions.push(Action::Decline { from });
            return;
        }
        self.ingress.owed.remove(&from);
        for (one, bytes) in fresh {
            let envelope = Envelope {
                id: None,
                sender: one.from.0,
                to: Destination::One(one.to),
                audience: Audience::Everyone,
                priority: one.priority,
                message: one.message,
            };
            self.queue(envelope, bytes, Reply::Partition(from, one.n));
        }
        self.ingress.queued.insert(from, last.max(queued));
    }

    /// Writes to the log what has arrived, one transaction at a time.
    pub(super) fn append(&mut self, actions: &mut Vec<Action<A::Message>>) {
        let (now, it) = (self.now, &mut self.ingress);
        if let Some(flying) = &mut it.flying {
            if flying.again.is_some_and(|again| again <= now) {
                flying.again = None;
                actions.push(Action::Append(flying.append.clone()));
            }
            return;
        }
        let count = it.arriving.len().min(it.append_max);
        if count == 0 {
            return;
        }
        let (mut entries, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut received = BTreeMap::new();
        for (arriving, n) in it.arriving.drain(..count).zip(it.log_end.0 + 1..) {
            replies.push((arriving.reply, arriving.envelope.id));
            bytes += arriving.bytes;
            if let Reply::Partition(from, n) = arriving.reply {
                received.insert(from, n);
            }
            entries.push(Entry { seq: Seq(n), at: arriving.at, envelope: arriving.envelope });
        }
        let append = Append { epoch: self.epoch, after: it.log_end, entries, received };
        let append = Arc::new(append);
        actions.push(Action::Append(append.clone()));
        it.flying = Some(Flying { append, replies, bytes, again: None });
    }

    pub(super) fn appended(&mut self, outcome: Outcome, actions: &mut Vec<Action<A::Message>>) {
        let Some(flying) = &mut self.ingress.flying else { return };
        match outcome {
            Outcome::Written => self.append_written(actions),
            Outcome::Unknown => flying.again = Some(self.now + self.spec.retry),
            Outcome::Conflict { epoch, .. } if epoch != self.epoch => self.stop(epoch, actions),
            Outcome::Conflict { log_end, .. } => {
                // Nobody else writes in this epoch: it took place when no answer came.
                let end = Seq(flying.append.after.0 + flying.append.entries.len() as u64);
                assert_eq!(log_end, end, "the log was written by nobody");
                self.append_written(actions);
            }
            Outcome::Rejected(cause) => self.append_rejected(&cause, actions),
        }
    }

    fn append_written(&mut self, actions: &mut Vec<Action<A::Message>>) {
        let Some(Flying { append, replies, bytes, .. }) = self.ingress.flying.take() else {
            return;
        };
        self.ingress.bytes -= bytes;
        self.ingress.log_end.0 += append.entries.len() as u64;
        self.ingress.append_max = (2 * self.ingress.append_max).min(APPEND_MAX);
        self.ingress.received.extend(&append.received);
        let append = Arc::try_unwrap(append).unwrap_or_else(|shared| (*shared).clone());
        for (entry, (reply, id)) in append.entries.into_iter().zip(replies) {
            let seq = entry.seq;
            self.take_in(entry);
            let again = id.and_then(|id| self.ingress.repeated.remove(&id)).unwrap_or_default();
            if let Reply::Ticket(ticket) = reply {
                actions.push(Action::Answer { ticket, seq });
            }
            actions.extend(again.into_iter().map(|ticket| Action::Answer { ticket, seq }));
        }
        actions
            .extend(append.received.into_iter().map(|(from, upto)| Action::Accept { from, upto }));
    }

    /// The append is made anew in halves, until one message is left: its sender hears of it. A message
    /// of an agent is given again by its partition, in order, so that what came after it is dropped too.
    fn append_rejected(&mut self, cause: &str, actions: &mut Vec<Action<A::Message>>) {
        let Some(Flying { append, replies, bytes, .. }) = self.ingress.flying.take() else {
            return;
        };
        if replies.len() > 1 {
            self.ingress.append_max = replies.len() / 2;
            let append = Arc::try_unwrap(append).unwrap_or_else(|shared| (*shared).clone());
            for (Entry { at, envelope, .. }, (reply, _)) in
                append.entries.into_iter().zip(replies).rev()
            {
                let bytes = entry_bytes(&envelope.to, A::message_bytes(&envelope.message));
                self.ingress.arriving.push_front(Arriving { at, envelope, bytes, reply });
            }
            return;
        }
        self.ingress.append_max = APPEND_MAX;
        self.ingress.bytes -= bytes;
        for entry in append.entries.iter().filter(|it| A::divides(&it.envelope.message)) {
            self.dividers.refuse(&entry.envelope.message);
        }
        let mut partitions = Vec::new();
        for (reply, id) in replies {
            let again = id.and_then(|id| self.ingress.repeated.remove(&id)).unwrap_or_default();
            let first = match reply {
                Reply::Ticket(ticket) => Some(ticket),
                Reply::Partition(from, _) => {
                    partitions.push(from);
                    None
                }
            };
            for ticket in first.into_iter().chain(again) {
                let cause = Refusal::Store(cause.to_owned());
                actions.push(Action::Refuse { ticket, cause });
            }
        }
        partitions.sort_unstable();
        partitions.dedup();
        for from in partitions {
            let dropped =
                |it: &Arriving<_>| matches!(it.reply, Reply::Partition(p, _) if p == from);
            let bytes: u64 =
                self.ingress.arriving.iter().filter(|it| dropped(it)).map(|it| it.bytes).sum();
            self.ingress.bytes -= bytes;
            self.ingress.arriving.retain(|it| !dropped(it));
            let durable = self.ingress.received.get(&from).copied().unwrap_or(0);
            self.ingress.queued.insert(from, durable);
            actions.push(Action::Decline { from });
        }
    }
}
