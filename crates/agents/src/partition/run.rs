//! Batches: agents whose turn it is are loaded together, handle their messages, and are committed in
//! one transaction with the cursor and the outbox; what cannot be handled is found by halving.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gate::{Cached, Time, Urgent};

use super::known::{Resident, State};
use super::{Action, LoadWay, Partition};
use crate::agent::{Agent, Bound, Context, Effect, Failure, TimerChange, guarded};
use crate::directory::reaches;
use crate::message::{
    DeadLetter, Delivery, Key, Notification, NotificationKey, Outgoing, Priority, TimerName,
};
use crate::planted::Planted;
use crate::store::{Commit, Listed, Outcome, Row, RowWrite, StateWrite, Stored, Timer};

/// Rows without a state that a commit erases at least, if so many can go.
const ERASED_MIN: usize = 100;

/// Agents that run together.
#[derive(Debug)]
pub(super) struct Batch {
    agents: Vec<u32>,
    /// True if they handle urgent messages alone.
    urgent: bool,
    /// Most deliveries with effects.
    changes_max: usize,
}

impl Batch {
    /// Agents of it in the interactive lane.
    pub(super) fn lane(&self) -> u32 {
        if self.urgent { self.agents.len() as u32 } else { 0 }
    }
}

/// A transaction on its way.
#[derive(Debug)]
pub(super) struct Committing<M> {
    pub(super) commit: Arc<Commit<M>>,
    pub(super) again: Option<Time>,
    ran: Vec<Ran>,
    batch: Option<Batch>,
}

/// An agent of a batch.
#[derive(Debug)]
struct Ran {
    agent: u32,
    deliveries: Deliveries,
    /// Those of them that have effects.
    changing: Vec<Delivery>,
    write: Write,
    /// The bounds that it published before its batch, if it publishes others.
    bounds_before: Option<Vec<Bound>>,
    /// The highest priority left, as it was when the agent ran.
    left: Option<u8>,
}

/// Deliveries in order; of one, as a multicast makes, there is nothing to allocate.
#[derive(Debug, Default)]
struct Deliveries {
    first: Option<Delivery>,
    more: Vec<Delivery>,
}

impl Deliveries {
    fn push(&mut self, delivery: Delivery) {
        match self.first {
            None => self.first = Some(delivery),
            Some(_) => self.more.push(delivery),
        }
    }

    fn in_order(self) -> impl Iterator<Item = Delivery> {
        self.first.into_iter().chain(self.more)
    }
}

impl Ran {
    fn new(agent: u32) -> Ran {
        let (deliveries, changing) = (Deliveries::default(), Vec::new());
        Ran { agent, deliveries, changing, write: Write::Nothing, bounds_before: None, left: None }
    }

    /// The agent publishes bounds, which may be others than before.
    fn rebind(&mut self, bounds: &mut Vec<Bound>, now: Vec<Bound>) {
        if *bounds != now {
            let before = std::mem::replace(bounds, now);
            self.bounds_before.get_or_insert(before);
        }
    }

    /// A delivery has effects.
    fn change(&mut self, delivery: Delivery, write: Write) {
        self.write = self.write.max(write);
        if self.changing.last() != Some(&delivery) {
            self.changing.push(delivery);
        }
    }
}

/// The part of an agent's row that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Nothing,
    Header,
    Hot,
    Whole,
    /// A handler failed: all that the agent did in its batch is taken back.
    Again,
}

/// The effects of a batch beside its rows.
#[derive(Debug)]
struct Work<M> {
    notifications: Vec<(NotificationKey, Vec<u8>)>,
    sends: Vec<(Key, Key, Priority, M)>,
    timers: BTreeMap<(Key, TimerName), Option<Timer>>,
    dead: Vec<DeadLetter<M>>,
}

impl<M> Default for Work<M> {
    fn default() -> Work<M> {
        let (notifications, sends, dead) = (Vec::new(), Vec::new(), Vec::new());
        Work { notifications, sends, timers: BTreeMap::new(), dead }
    }
}

impl<M> Work<M> {
    /// The numbers of effects so far.
    fn mark(&self) -> [usize; 3] {
        [self.notifications.len(), self.sends.len(), self.dead.len()]
    }

    /// Takes back all since a mark, which is of this agent alone.
    fn undo(&mut self, [notifications, sends, dead]: [usize; 3], key: Key) {
        self.notifications.truncate(notifications);
        self.sends.truncate(sends);
        self.dead.truncate(dead);
        let all = (key, TimerName(0))..=(key, TimerName(u64::MAX));
        let names: Vec<_> = self.timers.range(all).map(|(&name, _)| name).collect();
        names.iter().for_each(|name| _ = self.timers.remove(name));
    }
}

impl<A: Agent> Partition<A> {
    /// Forms batches of those whose turn it is: urgent ones, then cached ones to run now; meanwhile
    /// others are loaded ahead.
    pub(super) fn form_batches(&mut self, actions: &mut Vec<Action<A::Message>>) {
        self.form_urgent(actions);
        let most = self.spec.batch_agents() as usize;
        let (mut ready, mut absent) = (Vec::new(), Vec::new());
        while self.ready.is_empty()
            && ready.len() < most
            && absent.len() < most
            && self.may_run()
            && let Some((_, cached, Urgent::No)) = self.scheduler.peek()
            && (cached == Cached::In || self.loading.len() < 2)
        {
            let (agent, cached) = self.scheduler.next(None).expect("it was peeked at");
            let into = if cached == Cached::In { &mut ready } else { &mut absent };
            into.push(agent);
            self.start(agent, cached);
        }
        if !ready.is_empty() {
            self.ready.push_back(self.batch(ready, false));
        }
        while self.loading.len() < 2 {
            while absent.len() < most
                && self.may_run()
                && let Some(agent) = self.scheduler.next_to_load()
            {
                absent.push(agent);
                self.start(agent, Cached::Out);
            }
            if absent.is_empty() {
                return;
            }
            let batch = self.batch(std::mem::take(&mut absent), false);
            self.load(batch, actions);
        }
        assert!(absent.is_empty(), "agents that run are in a batch");
    }

    /// Forms batches of agents with urgent messages.
    fn form_urgent(&mut self, actions: &mut Vec<Action<A::Message>>) {
        let most = self.spec.batch_agents() as usize;
        loop {
            let (mut ready, mut absent) = (Vec::new(), Vec::new());
            while ready.len() < most
                && absent.len() < most
                && self.may_run()
                && let Some((_, cached, Urgent::Yes)) = self.scheduler.peek()
            {
                let into = if cached == Cached::In { &mut ready } else { &mut absent };
                let (agent, cached) = self.scheduler.next(None).expect("it was peeked at");
                into.push(agent);
                self.start(agent, cached);
            }
            if ready.is_empty() && absent.is_empty() {
                return;
            }
            if !ready.is_empty() {
                self.line_up(self.batch(ready, true));
            }
            if !absent.is_empty() {
                self.load(self.batch(absent, true), actions);
            }
        }
    }

    /// A batch that can run goes behind all others, or, if it is urgent, behind the urgent ones.
    fn line_up(&mut self, mut batch: Batch) {
        let urgent = self.ready.iter().take_while(|it| it.urgent).count();
        let at = if batch.urgent { urgent } else { self.ready.len() };
        // Messages that come one by one while a commit is on its way are one batch after it.
        if batch.urgent
            && let Some(last) = at.checked_sub(1).and_then(|last| self.ready.get_mut(last))
            && last.changes_max.min(batch.changes_max) == usize::MAX
            && last.agents.len() + batch.agents.len() <= self.spec.batch_agents() as usize
        {
            last.agents.append(&mut batch.agents);
            return;
        }
        self.ready.insert(at, batch);
    }

    /// The next batch to run: the first, unless so many urgent ones went before one that is not that
    /// it is the turn of this.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let owes = self.spec.urgent_max.is_some_and(|most| self.urgent_runs >= most);
        let other = self.ready.iter().position(|it| !it.urgent);
        let batch = self.ready.remove(other.filter(|_| owes).unwrap_or(0))?;
        let keeps_waiting = batch.urgent && other.is_some();
        let runs = self.urgent_runs.saturating_add(batch.agents.len() as u32);
        self.urgent_runs = if keeps_waiting { runs } else { 0 };
        Some(batch)
    }

    /// At most half of the cache runs, so that another can always leave it.
    fn may_run(&self) -> bool {
        self.running < self.spec.agents_max / 2
    }

    fn batch(&self, agents: Vec<u32>, urgent: bool) -> Batch {
        Batch { agents, urgent, changes_max: usize::MAX }
    }

    /// An agent is in a batch from now on, and in the cache.
    fn start(&mut self, agent: u32, cached: Cached) {
        self.running += 1;
        match cached {
            Cached::In => self.counts.hits += 1,
            Cached::Out => {
                self.counts.loads += 1;
                while self.scheduler.is_full() {
                    // Bytes alone may go over the bound: then all that is cached runs.
                    let Some(out) = self.scheduler.evict() else { break };
                    self.let_go(out);
                }
                self.scheduler.loaded(agent);
            }
        }
    }

    /// An agent has left the cache.
    fn let_go(&mut self, agent: u32) {
        self.known.set_resident(agent, None);
        self.known.forget(agent, &self.scheduler);
    }

    /// Asks for the states of those of a batch that have none in memory.
    pub(super) fn load(&mut self, batch: Batch, actions: &mut Vec<Action<A::Message>>) {
        let absent = batch.agents.iter().filter(|&&agent| self.known.resident(agent).is_none());
        let mut keys: Vec<Key> = absent.map(|&agent| self.known.key(agent)).collect();
        keys.sort_unstable();
        let [Some(&first), Some(&last)] = [keys.first(), keys.last()] else {
            self.ready.push_front(batch);
            return;
        };
        // Reading three times as many in order costs about as much as reading each.
        let between = self.directory.from(first).take(3 * keys.len() + 1);
        let between = between.take_while(|&(key, _)| key <= last).count();
        let way = if between <= 3 * keys.len() { LoadWay::Range } else { LoadWay::Keys };
        let load = self.loads;
        self.loads += 1;
        self.loading.insert(load, batch);
        actions.push(Action::Load { load, keys, way });
    }

    pub(super) fn loaded(&mut self, load: u64, rows: Option<Vec<(Key, Row)>>) {
        let Some(rows) = rows else {
            if self.loading.contains_key(&load) {
                self.reload.push((self.now + self.spec.retry, load));
            }
            return;
        };
        let Some(batch) = self.loading.remove(&load) else { return };
        let mut rows: BTreeMap<Key, Row> = rows.into_iter().collect();
        for &agent in &batch.agents {
            if self.known.resident(agent).is_some() {
                continue;
            }
            let key = self.known.key(agent);
            let mut row = rows.remove(&key).unwrap_or_default();
            self.remember(agent, key, &mut row);
            let resident = Resident::of(row);
            self.scheduler.resize(agent, resident.bytes());
            self.known.set_resident(agent, Some(resident));
        }
        self.line_up(batch);
    }

    /// Messages that changed nothing are in no row. Of those that the agent has handled since the
    /// partition was opened the core knows: they are not handled again on what came after them.
    fn remember(&mut self, agent: u32, key: Key, row: &mut Row) {
        let heard = self.pass.heard_by(key);
        // What a divider keeps back is in no mailbox yet.
        let end = self.dividers.released();
        let mailbox = self.known.mailbox(agent);
        for priority in Priority::DESCENDING {
            let at = priority.index();
            // An owner before this one has handled these.
            while let Some(seq) =
                mailbox.first(priority).filter(|&seq| seq <= row.header.applied[at])
            {
                mailbox.remove(priority, seq);
                self.window.complete(seq);
            }
            let applied = mailbox.first(priority).map_or(end.0, |first| first.0 - 1);
            row.header.applied[at].0 = row.header.applied[at].0.max(applied);
            row.header.heard[at] = row.header.heard[at].max(heard);
        }
    }

    /// Runs a batch and commits it, if it has changed anything. Agents that fail run again apart from
    /// the others, who need not wait for them.
    pub(super) fn run(&mut self, mut batch: Batch, actions: &mut Vec<Action<A::Message>>) {
        let mut work = Work::default();
        self.counts.urgent += u64::from(batch.lane());
        let (mut handled, mut changes) = (0, 0);
        // A batch that is halved goes as far as its first change: else what changes nothing would be
        // handled over and over, and the halving begin anew.
        let halved = batch.changes_max < usize::MAX;
        let mut firsts = if halved { Vec::new() } else { self.precompute(&batch) }.into_iter();
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for &agent in &batch.agents {
            let mut first = firsts.next();
            let mut ran = Ran::new(agent);
            let before = work.mark();
            while ran.write != Write::Again
                && changes < batch.changes_max
                && (halved || first.is_some() || handled < self.spec.batch_deliveries_max)
                && let Some(delivery) =
                    first.take().or_else(|| self.next_delivery(agent, batch.urgent))
            {
                handled += 1;
                ran.deliveries.push(delivery);
                if let Err(failure) = self.apply(&mut ran, delivery, &mut work) {
                    let key = self.known.key(agent);
                    self.poisoned.insert((key, delivery), failure.0);
                    // Its state may be half changed: it is loaded anew.
                    ran.write = Write::Again;
                    work.undo(before, key);
                } else if ran.changing.last() == Some(&delivery) {
                    changes += 1;
                }
            }
            if ran.write == Write::Again {
                failed.push(ran);
            } else {
                // Only a planted defect goes by what was left then: what counts is what is left at the end.
                if self.planted == Some(Planted::LostWakeUp) {
                    ran.left = self.left(agent);
                }
                all.push(ran);
            }
        }
        if !failed.is_empty() {
            let agents: Vec<u32> = failed.iter().map(|ran| ran.agent).collect();
            batch.agents.retain(|agent| !agents.contains(agent));
            let (urgent, changes_max) = (batch.urgent, batch.changes_max);
            self.take_back(failed, Batch { agents, urgent, changes_max }, changes_max, actions);
        }
        if all.iter().all(|ran| ran.write == Write::Nothing) && work.timers.is_empty() {
            self.finish(all);
            return;
        }
        self.commit(all, Some(batch), work, actions);
    }

    /// The first deliveries of a batch's agents, from its first agent on, taken out of their mailboxes, if the
    /// agents are to precompute them.
    fn precompute(&mut self, batch: &Batch) -> Vec<Delivery> {
        let mut firsts = Vec::new();
        for &agent in batch.agents.iter().take(self.spec.batch_deliveries_max as usize) {
            let Some(delivery) = self.next_delivery(agent, batch.urgent) else { break };
            firsts.push(delivery);
            // Most batches are of a message that all of them get.
            if firsts.len() == 1 && self.to_precompute(agent, delivery).is_none() {
                return firsts;
            }
        }
        let pairs = (batch.agents.iter().zip(&firsts))
            .filter_map(|(&agent, &delivery)| self.to_precompute(agent, delivery));
        let pairs: Vec<(&A, &A::Message)> = pairs.collect();
        guarded(|| {
            A::precompute(&pairs);
            Ok(())
        })
        .ok();
        firsts
    }

    /// An agent and its message, if that is worth precomputing.
    fn to_precompute(&self, agent: u32, delivery: Delivery) -> Option<(&A, &A::Message)> {
        let (Delivery::Message(_, seq) | Delivery::Multicast(_, seq)) = delivery else {
            return None;
        };
        let message = &self.window.get(seq).envelope.message;
        let is_poisoned = || self.poisoned.contains_key(&(self.known.key(agent), delivery));
        match &self.known.resident(agent)?.state {
            State::Live(it) if A::precomputes(message) && !is_poisoned() => Some((it, message)),
            _ => None,
        }
    }

    /// The next delivery of an agent, taken out of its mailbox; multicasts that are not for it are
    /// passed over.
    fn next_delivery(&mut self, agent: u32, urgent: bool) -> Option<Delivery> {
        let until = self.pass.until;
        let key = self.known.key(agent);
        for priority in Priority::DESCENDING {
            let is_urgent = priority == Priority::Urgent;
            if urgent && !is_urgent {
                break;
            }
            if priority == Priority::Normal
                && let Some((due, name)) = self.known.mailbox(agent).take_timer()
            {
                return Some(Delivery::Timer(name, due));
            }
            loop {
                let mailbox = self.known.mailbox(agent);
                let own = mailbox.first(priority).filter(|&seq| is_urgent || seq <= until);
                let resident =
                    self.known.resident_mut(agent).expect("an agent that runs is loaded");
                let heard = resident.header.heard[priority.index()];
                let multicast = self.pass.multicast_after(priority, heard);
                match (own, multicast) {
                    (Some(own), multicast) if multicast.is_none_or(|other| own < other) => {
                        self.known.mailbox(agent).remove(priority, own);
                        return Some(Delivery::Message(priority, own));
                    }
                    (_, Some(seq)) => {
                        let header = &mut resident.header;
                        header.heard[priority.index()] = seq;
                        let envelope = &self.window.get(seq).envelope;
                        let exists = !matches!(resident.state, State::Absent) && header.born < seq;
                        let listed = (header.armed, header.bounds.as_slice());
                        if exists && reaches(&envelope.to, envelope.audience, key, listed) {
                            return Some(Delivery::Multicast(priority, seq));
                        }
                    }
                    _ => break,
                }
            }
        }
        None
    }

    /// The highest priority of what an agent has left for now.
    fn left(&mut self, agent: u32) -> Option<u8> {
        let until = self.pass.until;
        let heard = self.known.resident(agent).map(|resident| resident.header.heard);
        let mailbox = self.known.mailbox(agent);
        let timer = mailbox.has_timers().then_some(Priority::Normal);
        let own = Priority::DESCENDING.into_iter().find(|&priority| {
            let first = mailbox.first(priority);
            first.is_some_and(|seq| priority == Priority::Urgent || seq <= until)
        });
        let multicast = Priority::DESCENDING.into_iter().find(|&priority| {
            let heard = heard.map_or(self.pass.spanned, |heard| heard[priority.index()]);
            self.pass.multicast_after(priority, heard).is_some()
        });
        [timer, own, multicast].into_iter().flatten().max().map(Priority::level)
    }

    /// Hands an agent a delivery and notes its effects.
    fn apply(
        &mut self,
        ran: &mut Ran,
        delivery: Delivery,
        work: &mut Work<A::Message>,
    ) -> Result<(), Failure> {
        let key = self.known.key(ran.agent);
        let oldest = self.known.mailbox(ran.agent).oldest();
        let (message, timer) = match delivery {
            Delivery::Message(_, seq) | Delivery::Multicast(_, seq) => {
                (Some(&self.window.get(seq).envelope.message), None)
            }
            Delivery::Timer(name, due) => {
                let timer = work.timers.get(&(key, name)).copied();
                let timer = timer.unwrap_or_else(|| self.timers.get(key, name));
                // Another time, or none: it was set anew or cancelled meanwhile.
                let Some(timer) = timer.filter(|timer| timer.due == due) else { return Ok(()) };
                work.timers.insert((key, name), timer.after_firing(self.now));
                ran.changing.push(delivery);
                (None, Some(name))
            }
        };
        let resident = self.known.resident_mut(ran.agent).expect("an agent that runs is loaded");
        let header = &mut resident.header;
        if let Delivery::Message(priority, seq) = delivery {
            let applied = &mut header.applied[priority.index()];
            if seq <= *applied {
                return Ok(());
            }
            *applied = seq;
        }
        let mut dead = self.poisoned.get(&(key, delivery)).cloned();
        if let State::Broken(cause) = &resident.state {
            dead = Some(format!("its state cannot be read: {cause}"));
        }
        if dead.is_none()
            && let (State::Absent, Some(message)) = (&resident.state, message)
        {
            match guarded(|| Ok(A::create(key, message)))? {
                Some(agent) => {
                    let Delivery::Message(_, seq) = delivery else { return Ok(()) };
                    resident.state = State::Live(agent);
                    header.born = oldest.map_or(seq, |oldest| oldest.min(seq));
                    header.fired = 0;
                    ran.change(delivery, Write::Whole);
                }
                None => dead = Some("there is no such agent".to_owned()),
            }
        }
        if let Some(reason) = dead {
            work.dead.push(DeadLetter { key, delivery, message: message.cloned(), reason });
            ran.change(delivery, Write::Header);
            return Ok(());
        }
        let State::Live(agent) = &mut resident.state else { return Ok(()) };
        let divider = timer.and_then(|_| self.dividers.of(self.window.low(), &header.heard));
        let mut cx = Context::new(self.now, key, header.fired).due_behind(divider.cloned());
        let (effect, wish) = guarded(|| call(agent, message, timer, ran.write, &mut cx))?;
        self.counts.handled += 1;
        if let Some(Listed { armed, bounds }) = wish {
            header.armed = armed;
            ran.rebind(&mut header.bounds, bounds);
        }
        self.note_effects((ran, delivery), effect, cx, work);
        Ok(())
    }

    fn note_effects(
        &mut self,
        (ran, delivery): (&mut Ran, Delivery),
        effect: Effect,
        cx: Context<A::Message>,
        work: &mut Work<A::Message>,
    ) {
        let key = self.known.key(ran.agent);
        let resident = self.known.resident_mut(ran.agent).expect("an agent that runs is loaded");
        let header = &mut resident.header;
        header.fired = cx.fired();
        let write = match effect {
            Effect::Clean if cx.has_effects() => Write::Header,
            Effect::Clean => Write::Nothing,
            Effect::Hot => Write::Hot,
            Effect::Dirty | Effect::Delete => Write::Whole,
        };
        if write > Write::Nothing {
            ran.change(delivery, write);
        }
        let (version, life) = (A::VERSION, header.born);
        for (rule, firing, payload) in cx.notifications {
            let name = NotificationKey { rule, version, agent: key, life, firing };
            work.notifications.push((name, payload));
        }
        work.sends.extend(cx.sends.into_iter().map(|(to, priority, it)| (key, to, priority, it)));
        for (name, change) in cx.timers {
            let timer = match change {
                TimerChange::Set { at, every } => Some(Timer { due: at, every }),
                TimerChange::Cancel => None,
            };
            work.timers.insert((key, name), timer);
        }
        if effect == Effect::Delete {
            resident.state = State::Absent;
            header.armed = false;
            ran.rebind(&mut header.bounds, Vec::new());
            let set: Vec<TimerName> = self.timers.of(key).collect();
            work.timers.extend(set.into_iter().map(|name| ((key, name), None)));
            work.timers
                .iter_mut()
                .filter(|(at, _)| at.0 == key)
                .for_each(|(_, timer)| *timer = None);
        }
    }

    fn commit(
        &mut self,
        ran: Vec<Ran>,
        batch: Option<Batch>,
        work: Work<A::Message>,
        actions: &mut Vec<Action<A::Message>>,
    ) {
        let mut rows = Vec::new();
        for one in ran.iter().filter(|one| one.write > Write::Nothing) {
            let key = self.known.key(one.agent);
            let resident =
                self.known.resident_mut(one.agent).expect("an agent that runs is loaded");
            let state = resident.write(one.write);
            let mut header = resident.header.clone();
            if self.planted == Some(Planted::HeardNotWritten) {
                header.heard = Default::default();
            }
            rows.push(RowWrite { key, header, state });
        }
        let mut cursor = self.progress();
        let notifications: Vec<Notification> = (work.notifications.into_iter())
            .zip(cursor.notified + 1..)
            .map(|((key, payload), n)| Notification { n, key, payload })
            .collect();
        let sends: Vec<Outgoing<A::Message>> = (work.sends.into_iter())
            .zip(cursor.sent + 1..)
            .map(|((from, to, priority, message), n)| Outgoing { n, from, to, priority, message })
            .collect();
        cursor.notified += notifications.len() as u64;
        cursor.sent += sends.len() as u64;
        // Twice as many as could come with this commit, so that their number falls.
        let most = ERASED_MIN.max(2 * rows.len());
        let written: BTreeSet<Key> = rows.iter().map(|row| row.key).collect();
        let erased = self.ended.erasable(cursor.low).filter(|key| !written.contains(key));
        let erased: Vec<Key> = erased.take(most).collect();
        let commit = Arc::new(Commit {
            epoch: self.epoch,
            version: self.version,
            cursor,
            rows,
            erased,
            notifications,
            delivered: std::mem::take(&mut self.delivered),
            sends,
            timers: work.timers,
            dead: work.dead,
        });
        actions.push(Action::Commit(commit.clone()));
        self.committing = Some(Committing { commit, again: None, ran, batch });
    }

    pub(super) fn committed(&mut self, outcome: Outcome, actions: &mut Vec<Action<A::Message>>) {
        let Some(committing) = &mut self.committing else { return };
        match outcome {
            Outcome::Written => self.commit_written(actions),
            Outcome::Unknown if self.planted == Some(Planted::UnknownTakenForLost) => {
                self.commit_rejected(actions);
            }
            Outcome::Unknown => committing.again = Some(self.now + self.spec.retry),
            Outcome::Conflict { epoch, .. } if epoch != self.epoch => self.stop(epoch, actions),
            Outcome::Conflict { version, .. } => {
                // Nobody else writes in this epoch: it took place when no answer came.
                if self.planted == Some(Planted::UnknownTakenForLost) {
                    self.version = version;
                    self.commit_rejected(actions);
                    return;
                }
                assert_eq!(version, self.version + 1, "the partition was written by nobody");
                self.commit_written(actions);
            }
            Outcome::Rejected(cause) => {
                let changing = committing
                    .ran
                    .iter()
                    .flat_map(|ran| ran.changing.iter().map(|&delivery| (ran.agent, delivery)));
                let only = match changing.collect::<Vec<_>>()[..] {
                    [] => None,
                    [(agent, delivery)] => Some((self.known.key(agent), delivery)),
                    _ => return self.commit_rejected(actions),
                };
                // Nothing is left that could be left out: the progress alone, or a dead letter.
                if only.is_none_or(|it| self.poisoned.contains_key(&it)) {
                    committing.again = Some(self.now + self.spec.retry);
                    return;
                }
                let Failure(cause) =
                    Failure(format!("the store refuses its effects: {cause}")).shortened();
                self.poisoned.extend(only.map(|it| (it, cause)));
                self.commit_rejected(actions);
            }
        }
    }

    fn commit_written(&mut self, actions: &mut Vec<Action<A::Message>>) {
        let Some(Committing { commit, ran, .. }) = self.committing.take() else { return };
        self.counts.commits += 1;
        self.version += 1;
        self.cursor = commit.cursor.clone();
        let lives = |key| {
            let resident = self.known.number(key).and_then(|agent| self.known.resident(agent));
            resident.is_some_and(|resident| !matches!(resident.state, State::Absent))
        };
        let live: BTreeSet<Key> =
            commit.rows.iter().map(|row| row.key).filter(|&key| lives(key)).collect();
        self.note_rows(&commit.rows, |key| live.contains(&key));
        for one in &ran {
            if let (Some(before), Some(resident)) =
                (&one.bounds_before, self.known.resident(one.agent))
            {
                let key = self.known.key(one.agent);
                self.directory.rebind(key, before, &resident.header.bounds);
            }
        }
        for key in &commit.erased {
            self.ended.write(*key, None);
        }
        for (&(key, name), &timer) in &commit.timers {
            self.timers.write(key, name, timer);
        }
        for notification in &commit.notifications {
            if self.outbox.push(notification.n, notification.clone()) {
                actions.push(Action::Deliver(notification.clone()));
                if self.planted == Some(Planted::DeliveredTooEarly) {
                    self.outbox.done(notification.n);
                    self.delivered.push(notification.n);
                }
            }
        }
        commit.sends.iter().for_each(|one| self.relay.push(one.clone()));
        for dead in &commit.dead {
            self.poisoned.remove(&(dead.key, dead.delivery));
        }
        self.finish(ran);
    }

    /// The batch runs again: in halves, or with less for its one agent.
    fn commit_rejected(&mut self, actions: &mut Vec<Action<A::Message>>) {
        let Some(Committing { commit, ran, batch, .. }) = self.committing.take() else { return };
        self.delivered.extend(&commit.delivered);
        let Some(batch) = batch else { return };
        let changes: usize = ran.iter().map(|one| one.changing.len()).sum();
        self.take_back(ran, batch, (changes / 2).max(1), actions);
    }

    /// Undoes what a batch did in memory. The agents that it changed are loaded again; more than one
    /// are split if fewer deliveries than it had are allowed.
    fn take_back(
        &mut self,
        ran: Vec<Ran>,
        batch: Batch,
        changes_max: usize,
        actions: &mut Vec<Action<A::Message>>,
    ) {
        self.counts.taken_back += 1;
        let halve = changes_max < batch.changes_max;
        let (changed, unchanged): (Vec<Ran>, Vec<Ran>) =
            ran.into_iter().partition(|one| one.write > Write::Nothing || !one.changing.is_empty());
        let done: Vec<u32> = unchanged.iter().map(|one| one.agent).collect();
        self.finish(unchanged);
        for one in changed {
            for delivery in one.deliveries.in_order() {
                let mailbox = self.known.mailbox(one.agent);
                match delivery {
                    Delivery::Message(priority, seq) => mailbox.insert(priority, seq),
                    Delivery::Timer(name, due) => {
                        mailbox.insert_timer(due, name);
                    }
                    // The row that is loaded says what was heard.
                    Delivery::Multicast(..) => {}
                }
            }
            self.known.set_resident(one.agent, None);
            self.scheduler.dropped(one.agent);
            self.scheduler.loaded(one.agent);
        }
        let Batch { mut agents, urgent, .. } = batch;
        agents.retain(|agent| !done.contains(agent));
        let second =
            if halve && agents.len() > 1 { agents.split_off(agents.len() / 2) } else { Vec::new() };
        for agents in [agents, second] {
            if !agents.is_empty() {
                self.load(Batch { agents, urgent, changes_max }, actions);
            }
        }
    }

    /// Agents of a batch are done with it: all that they handled has taken effect.
    fn finish(&mut self, ran: Vec<Ran>) {
        for Ran { agent, deliveries, left, .. } in ran {
            let key = self.known.key(agent);
            for delivery in deliveries.in_order() {
                if let Delivery::Message(_, seq) = delivery {
                    self.window.complete(seq);
                }
            }
            let now_left = self.left(agent);
            let left = match self.planted {
                Some(Planted::LostWakeUp) => left,
                _ => now_left,
            };
            if now_left.is_none_or(|level| level == Priority::Urgent.level())
                && self.is_done_with_pass(agent)
            {
                self.pass.done(key);
            }
            if let Some(resident) = self.known.resident(agent) {
                self.scheduler.resize(agent, resident.bytes());
            }
            // States grow in the cache too. What runs cannot leave it, this agent still among them.
            while self.scheduler.bytes() > self.spec.state_bytes_max
                && let Some(out) = self.scheduler.evict()
            {
                self.let_go(out);
            }
            self.running -= 1;
            self.scheduler.finish(agent, left);
            self.known.forget(agent, &self.scheduler);
        }
    }

    /// True if an agent has nothing left of the pass.
    fn is_done_with_pass(&mut self, agent: u32) -> bool {
        let until = self.pass.until;
        let heard = self.known.resident(agent).map(|resident| resident.header.heard);
        let mailbox = self.known.mailbox(agent);
        Priority::DESCENDING.into_iter().filter(|&it| it != Priority::Urgent).all(|priority| {
            let own = mailbox.first(priority).is_none_or(|seq| seq > until);
            let heard = heard.map_or(self.pass.spanned, |heard| heard[priority.index()]);
            own && self.pass.multicast_after(priority, heard).is_none()
        })
    }

    /// Writes the progress where nothing else is going to.
    pub(super) fn keep_house(&mut self, actions: &mut Vec<Action<A::Message>>) {
        if self.pass_can_go_on() {
            actions.push(Action::Continue);
        }
        let idle = self.committing.is_none()
            && self.ready.is_empty()
            && self.loading.is_empty()
            && !self.pass.running;
        if !idle {
            return;
        }
        let mut progress = self.progress();
        progress.trimmed = self.cursor.trimmed;
        let erases = self.ended.erasable(progress.low).next().is_some();
        if progress != self.cursor || !self.delivered.is_empty() || erases {
            self.commit(Vec::new(), None, Work::default(), actions);
        }
    }
}

impl<A: Agent> Resident<A> {
    /// The part of its state that is written.
    fn write(&mut self, write: Write) -> StateWrite {
        // Bytes of another version are replaced as a whole.
        let old = self.header.version != A::VERSION;
        match &self.state {
            State::Broken(_) => StateWrite::Keep,
            State::Absent if write == Write::Whole => {
                (self.cold_bytes, self.hot_bytes) = (0, 0);
                StateWrite::Delete
            }
            State::Absent => StateWrite::Keep,
            State::Live(agent) => {
                let (mut cold, mut hot) = (Vec::new(), Vec::new());
                match write {
                    Write::Nothing | Write::Header | Write::Again => return StateWrite::Keep,
                    Write::Hot if !old => {
                        agent.encode_hot(&mut hot);
                        self.hot_bytes = hot.len() as u64;
                        return StateWrite::Hot(hot);
                    }
                    Write::Hot | Write::Whole => {}
                }
                self.header.version = A::VERSION;
                agent.encode_cold(&mut cold);
                agent.encode_hot(&mut hot);
                (self.cold_bytes, self.hot_bytes) = (cold.len() as u64, hot.len() as u64);
                StateWrite::Whole(Stored { cold, hot })
            }
        }
    }
}

/// Has an agent handle a message or a timer; and its wishes for multicasts, if they may have changed.
fn call<A: Agent>(
    agent: &mut A,
    message: Option<&A::Message>,
    timer: Option<TimerName>,
    before: Write,
    cx: &mut Context<A::Message>,
) -> Result<(Effect, Option<Listed>), Failure> {
    let effect = match (message, timer) {
        (Some(message), _) => agent.on(message, cx)?,
        (None, Some(name)) => agent.on_timer(name, cx)?,
        (None, None) => Effect::Clean,
    };
    // It may just have been created, and changes nothing.
    let changes = before == Write::Whole || matches!(effect, Effect::Hot | Effect::Dirty);
    let wish = changes.then(|| Listed { armed: agent.armed(), bounds: agent.bounds() });
    Ok((effect, wish))
}
