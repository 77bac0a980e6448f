//! The agents that are in memory: those cached, and those with messages of their own. All others cost
//! the partition a line of its directory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gate::{AgentState, CohortScheduler, Time};

use crate::agent::{Agent, guarded};
use crate::message::{Key, Priority, Seq, TimerName};
use crate::store::{Header, Row};

/// Agents by number.
#[derive(Debug)]
pub(super) struct Known<A> {
    slots: Vec<Slot<A>>,
    numbers: BTreeMap<Key, u32>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<A> {
    key: Key,
    mailbox: Mailbox,
    resident: Option<Resident<A>>,
}

/// The messages of one agent, multicasts apart. Most agents have none, and are asked several times: so they
/// take a word, and say so at once.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Option<Box<Letters>>);

#[derive(Debug, Default)]
struct Letters {
    /// The highest priority first, within it in the order of the log.
    messages: BTreeSet<(Reverse<Priority>, Seq)>,
    /// Timers that are due, in that order; their priority is the usual one.
    timers: BTreeSet<(Time, TimerName)>,
}

/// An agent whose state is in memory.
#[derive(Debug)]
pub(super) struct Resident<A> {
    pub(super) header: Header,
    pub(super) state: State<A>,
    /// Bytes of the parts of its state as they were written or read last.
    pub(super) cold_bytes: u64,
    pub(super) hot_bytes: u64,
}

#[derive(Debug)]
pub(super) enum State<A> {
    /// It does not exist.
    Absent,
    Live(A),
    /// Its state cannot be read, for this cause.
    Broken(String),
}

impl Mailbox {
    pub(super) fn insert(&mut self, priority: Priority, seq: Seq) {
        self.0.get_or_insert_default().messages.insert((Reverse(priority), seq));
    }

    pub(super) fn remove(&mut self, priority: Priority, seq: Seq) {
        if let Some(letters) = &mut self.0 {
            letters.messages.remove(&(Reverse(priority), seq));
            self.shrink();
        }
    }

    /// A timer is due.
    pub(super) fn insert_timer(&mut self, due: Time, name: TimerName) {
        self.0.get_or_insert_default().timers.insert((due, name));
    }

    /// The first timer that is due, taken out.
    pub(super) fn take_timer(&mut self) -> Option<(Time, TimerName)> {
        let first = self.0.as_mut()?.timers.pop_first();
        self.shrink();
        first
    }

    pub(super) fn has_timers(&self) -> bool {
        self.0.as_ref().is_some_and(|letters| !letters.timers.is_empty())
    }

    fn shrink(&mut self) {
        let empty = |it: &Letters| it.messages.is_empty() && it.timers.is_empty();
        if self.0.as_deref().is_some_and(empty) {
            self.0 = None;
        }
    }

    /// The first message of a priority.
    pub(super) fn first(&self, priority: Priority) -> Option<Seq> {
        let letters = self.0.as_ref()?;
        let range = (Reverse(priority), Seq(0))..=(Reverse(priority), Seq(u64::MAX));
        letters.messages.range(range).next().map(|&(_, seq)| seq)
    }

    /// The first message of all in the order of the log.
    pub(super) fn oldest(&self) -> Option<Seq> {
        Priority::DESCENDING.into_iter().filter_map(|priority| self.first(priority)).min()
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl<A> Resident<A> {
    /// The agent of a row.
    pub(super) fn of(row: Row) -> Resident<A>
    where
        A: Agent,
    {
        let Row { header, state } = row;
        let (cold_bytes, hot_bytes) =
            state.as_ref().map_or((0, 0), |it| (it.cold.len() as u64, it.hot.len() as u64));
        let state = match state {
            None => State::Absent,
            Some(it) => match guarded(|| A::decode(header.version, &it.cold, &it.hot)) {
                Ok(agent) => State::Live(agent),
                Err(failure) => State::Broken(failure.0),
            },
        };
        Resident { header, state, cold_bytes, hot_bytes }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.cold_bytes + self.hot_bytes
    }
}

impl<A> Known<A> {
    pub(super) fn new() -> Known<A> {
        Known { slots: Vec::new(), numbers: BTreeMap::new(), free: Vec::new() }
    }

    /// The number of an agent, which has one from now on.
    pub(super) fn meet<T: Agent>(&mut self, key: Key, scheduler: &mut CohortScheduler) -> u32 {
        if let Some(&agent) = self.numbers.get(&key) {
            return agent;
        }
        let fresh = Slot { key, mailbox: Mailbox::default(), resident: None };
        let agent = match self.free.pop() {
            Some(agent) => {
                self.slots[agent as usize] = fresh;
                agent
            }
            None => {
                // A vector that doubles would be half empty.
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(self.slots.len() / 8 + 16);
                }
                self.slots.push(fresh);
                self.slots.len() as u32 - 1
            }
        };
        self.numbers.insert(key, agent);
        scheduler.introduce(agent, key.0, T::tenant(key));
        agent
    }

    /// Gives a number back if nothing is known of its agent.
    pub(super) fn forget(&mut self, agent: u32, scheduler: &CohortScheduler) {
        let slot = &self.slots[agent as usize];
        let empty = slot.resident.is_none() && slot.mailbox.is_empty();
        if empty && scheduler.state(agent) == AgentState::OutEmpty {
            self.numbers.remove(&slot.key);
            self.free.push(agent);
        }
    }

    pub(super) fn number(&self, key: Key) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    pub(super) fn key(&self, agent: u32) -> Key {
        self.slots[agent as usize].key
    }

    pub(super) fn mailbox(&mut self, agent: u32) -> &mut Mailbox {
        &mut self.slots[agent as usize].mailbox
    }

    pub(super) fn resident(&self, agent: u32) -> Option<&Resident<A>> {
        self.slots[agent as usize].resident.as_ref()
    }

    pub(super) fn resident_mut(&mut self, agent: u32) -> Option<&mut Resident<A>> {
        self.slots[agent as usize].resident.as_mut()
    }

    pub(super) fn set_resident(&mut self, agent: u32, resident: Option<Resident<A>>) {
        self.slots[agent as usize].resident = resident;
    }

    /// The agents from one key to another whose states are in memory, in the order of their keys.
    pub(super) fn residents(&self, first: Key, last: Key) -> impl Iterator<Item = (Key, u32)> {
        let all = (first <= last).then(|| self.numbers.range(first..=last)).into_iter().flatten();
        all.map(|(&key, &agent)| (key, agent))
            .filter(|&(_, agent)| self.slots[agent as usize].resident.is_some())
    }
}
