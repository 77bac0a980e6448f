//! Passes: a stretch of the log whose messages reach all their receivers before the next begins. The
//! cached receivers of multicasts come first, the others in the order of their keys, found bit by
//! bit, so that nothing grows with their number.

use std::collections::BTreeSet;

use super::Partition;
use super::waiting::Waiting;
use crate::agent::Agent;
use crate::directory::reaches;
use crate::message::{Audience, Destination, Envelope, Key, PRIORITIES, Priority, Seq};
use crate::planted::Planted;
use crate::store::PassCursor;

/// The pass that runs, or the end of the last one.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) running: bool,
    /// The last message that takes part.
    pub(super) until: Seq,
    /// The last message of the pass before.
    pub(super) spanned: Seq,
    /// The multicasts, by priority.
    lists: [Vec<Seq>; PRIORITIES],
    /// The agents that are named key by key or crossed.
    named: BTreeSet<Key>,
    /// The agents that could be receivers are all up to this key; `None` if only those named could be.
    last: Option<Key>,
    /// Candidates from this key on have not been asked; `None` if all have.
    next: Option<Key>,
    /// Receivers that are not done: those that were cached when the pass began or have messages of
    /// their own, and the others.
    waiting: Waiting,
    waiting_out: BTreeSet<Key>,
    /// Others from `next` on that are done.
    early: BTreeSet<Key>,
}

/// Lines of the directory that are looked at before other things have their turn.
const LOOK_MAX: usize = 20_000;

impl Pass {
    pub(super) fn new(spanned: Seq) -> Pass {
        Pass {
            running: false,
            until: spanned,
            spanned,
            lists: Default::default(),
            named: BTreeSet::new(),
            last: None,
            next: None,
            waiting: Waiting::default(),
            waiting_out: BTreeSet::new(),
            early: BTreeSet::new(),
        }
    }

    /// The first multicast of a priority after one.
    pub(super) fn multicast_after(&self, priority: Priority, heard: Seq) -> Option<Seq> {
        let list = &self.lists[priority.index()];
        list.get(list.partition_point(|&seq| seq <= heard)).copied()
    }

    /// The last multicast that an agent has heard or was passed over by, as far as the pass knows.
    pub(super) fn heard_by(&self, key: Key) -> Seq {
        let known = self.waiting.waits(key);
        let waits = known.unwrap_or_else(|| self.waiting_out.contains(&key));
        let done = known == Some(false) || self.early.contains(&key);
        let asked = self.next.is_none_or(|next| key < next) || done;
        if self.running && (waits || !asked) { self.spanned } else { self.until }
    }

    /// An agent has handled all that the pass has for it.
    pub(super) fn done(&mut self, key: Key) {
        if self.running && !self.waiting.end(key) {
            self.waiting_out.remove(&key);
            if self.next.is_some_and(|next| key >= next) {
                self.early.insert(key);
            }
        }
    }

    /// Agents that are known to wait.
    pub(super) fn left(&self) -> usize {
        self.waiting.left() + self.waiting_out.len()
    }

    fn is_over(&self) -> bool {
        self.next.is_none() && self.waiting.is_empty() && self.waiting_out.is_empty()
    }

    /// The progress that a commit says: nobody below the position waits.
    pub(super) fn cursor(&self, planted: Option<Planted>) -> Option<PassCursor> {
        let first = [self.waiting.first(), self.waiting_out.first().copied(), self.next];
        let mut position = first.into_iter().flatten().min();
        if planted == Some(Planted::CursorTooEarly) {
            position = self.next;
        }
        let position = position.unwrap_or(Key(u64::MAX));
        self.running.then_some(PassCursor { until: self.until, position })
    }
}

const EVERYTHING: (Key, Key) = (Key(0), Key(u64::MAX));

/// The shortest range that has both.
fn hull(one: Option<(Key, Key)>, other: (Key, Key)) -> (Key, Key) {
    one.map_or(other, |one| (one.0.min(other.0), one.1.max(other.1)))
}

impl<A: Agent> Partition<A> {
    /// Goes on with the pass that the last owner did not end.
    pub(super) fn resume(&mut self) {
        if let Some(PassCursor { until, position }) = self.cursor.pass {
            self.begin(until, position);
        }
    }

    /// Ends a pass, begins the next, lets the next agents in.
    pub(super) fn move_pass(&mut self) {
        if self.pass.running && self.pass.is_over() {
            let lists = std::mem::take(&mut self.pass.lists);
            for seq in lists.into_iter().flatten() {
                self.window.complete(seq);
            }
            self.pass = Pass::new(self.pass.until);
            self.counts.passes += 1;
        }
        self.release();
        if !self.pass.running && self.may_take_effect() > self.pass.until {
            let until = self.pass.until.0.saturating_add(self.spec.pass_messages_max);
            self.begin(self.may_take_effect().min(Seq(until)), Key(0));
        }
        let few = 2 * self.spec.batch_agents() as usize;
        if self.pass.next.is_some() && self.pass.waiting_out.len() < few {
            self.ask_candidates(few);
        }
        if self.scheduler.members() == 0 {
            self.scheduler.start_pass();
        }
    }

    /// Begins a pass of the messages after the last one and up to `until`, of whose multicasts all
    /// agents below `position` are done.
    fn begin(&mut self, until: Seq, position: Key) {
        let spanned = self.pass.spanned;
        self.pass = Pass { running: true, until, ..Pass::new(spanned) };
        let entries: Vec<_> = self.window.between(spanned, until).cloned().collect();
        let mut waiting = Vec::new();
        let mut named = BTreeSet::new();
        let mut range: Option<(Key, Key)> = None;
        for entry in &entries {
            let (priority, to) = (entry.envelope.priority, &entry.envelope.to);
            match to {
                // It runs before the pass, or in it; in any case multicasts after it are for its agent.
                Destination::One(key) if priority == Priority::Urgent => {
                    waiting.push(*key);
                    continue;
                }
                Destination::One(key) => {
                    let agent = self.known.meet::<A>(*key, &mut self.scheduler);
                    waiting.push(*key);
                    self.scheduler.deliver(agent, priority.level());
                    continue;
                }
                Destination::Keys(_) if range == Some(EVERYTHING) => {}
                Destination::Keys(keys) => named.extend(keys.iter().copied()),
                Destination::Crossed { symbol, price } => {
                    named.extend(self.directory.crossed(*symbol, *price));
                }
                Destination::Range(from, to) => range = Some(hull(range, (*from, *to))),
                Destination::All => range = Some(EVERYTHING),
            }
            self.pass.lists[priority.index()].push(entry.seq);
        }
        if self.pass.lists.iter().all(Vec::is_empty) {
            self.pass.waiting = Waiting::new(waiting);
            return;
        }
        self.pass.next = Some(position);
        if let Some(range) = range {
            let ends = named.first().copied().zip(named.last().copied());
            let (first, last) = ends.map_or(range, |ends| hull(Some(range), ends));
            self.pass.next = Some(position.max(first));
            self.pass.last = Some(last);
        }
        self.pass.named = named;
        for (key, agent) in self.cached_receivers(position) {
            waiting.push(key);
            self.scheduler.join(agent, Priority::Normal.level());
        }
        self.pass.waiting = Waiting::new(waiting);
    }

    /// The receivers from a key on whose states are in memory.
    fn cached_receivers(&self, position: Key) -> Vec<(Key, u32)> {
        let receives = |key: Key, agent: u32| {
            let resident = self.known.resident(agent)?;
            let (armed, bounds) = (resident.header.armed, resident.header.bounds.as_slice());
            let reached = |envelope: &Envelope<A::Message>| {
                reaches(&envelope.to, envelope.audience, key, (armed, bounds))
            };
            (key >= position && self.multicasts().any(reached)).then_some((key, agent))
        };
        match self.pass.last {
            None => (self.pass.named.iter())
                .filter_map(|&key| receives(key, self.known.number(key)?))
                .collect(),
            Some(last) => {
                let all = self.known.residents(position, last);
                all.filter_map(|(key, agent)| receives(key, agent)).collect()
            }
        }
    }

    /// The multicasts of the pass.
    fn multicasts(&self) -> impl Iterator<Item = &Envelope<A::Message>> {
        let all = self.pass.lists.iter().flatten();
        all.map(|&seq| &self.window.get(seq).envelope)
    }

    /// True if a multicast of the pass could reach an agent that is not in memory. One that is crossed by
    /// another multicast is taken as crossed: its row has its bounds.
    fn could_receive(&self, key: Key, armed: bool) -> bool {
        self.multicasts().any(|it| match it.to {
            Destination::Crossed { .. } => {
                (armed || it.audience == Audience::Everyone) && self.pass.named.contains(&key)
            }
            _ => reaches(&it.to, it.audience, key, (armed, &[])),
        })
    }

    /// The next receivers, in the order of their keys, take part.
    fn ask_candidates(&mut self, few: usize) {
        let Some(next) = self.pass.next else { return };
        let (mut found, mut last) = (Vec::new(), None);
        let mut known = self.pass.waiting.from(next).iter().peekable();
        let mut ask = |key: Key, armed: Option<bool>| {
            last = Some(key);
            while known.next_if(|&&other| other < key).is_some() {}
            let is_new = known.peek() != Some(&&key) && !self.pass.early.contains(&key);
            if is_new && armed.is_some_and(|armed| self.could_receive(key, armed)) {
                found.push(key);
            }
            found.len() < few
        };
        let looked = match self.pass.last {
            Some(last) => {
                let some = self.directory.from(next).take_while(|&(key, _)| key <= last);
                let some = some.take(LOOK_MAX);
                some.take_while(|&(key, armed)| ask(key, Some(armed))).count()
            }
            None => {
                let some = self.pass.named.range(next..).take(LOOK_MAX);
                some.take_while(|&&key| ask(key, self.directory.get(key))).count()
            }
        };
        // Cut off early, or at the end.
        let cut = found.len() >= few || looked == LOOK_MAX;
        self.pass.next = last.filter(|_| cut).and_then(|last| last.0.checked_add(1)).map(Key);
        match self.pass.next {
            Some(next) => self.pass.early = self.pass.early.split_off(&next),
            None => self.pass.early.clear(),
        }
        for key in found {
            let agent = self.known.meet::<A>(key, &mut self.scheduler);
            self.pass.waiting_out.insert(key);
            self.scheduler.join(agent, Priority::Normal.level());
        }
    }

    /// The last message that no divider keeps back.
    fn may_take_effect(&self) -> Seq {
        self.dividers.horizon(self.window.low(), self.window.end())
    }

    /// True if the pass can go on at once: candidates are to be asked, or it is over, or the next has
    /// not begun.
    pub(super) fn pass_can_go_on(&self) -> bool {
        let few = 2 * self.spec.batch_agents() as usize;
        let asks = self.pass.next.is_some() && self.pass.waiting_out.len() < few;
        let over = self.pass.running && self.pass.is_over();
        asks || over || (!self.pass.running && self.may_take_effect() > self.pass.until)
    }
}
