//! The cohort scheduler: which of very many agents runs next, and which leaves the cache, decided
//! together, so that what is cached is run before it is evicted (yamamoto, sections 3 and 4).

use crate::SpecError;

/// The parameters of a cohort scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct CohortSpec {
    /// Number of agents that the cache holds, at least 1.
    pub capacity: u32,
    /// Most runs of one agent in a row while others wait, at least 1.
    pub run_max: u32,
    /// Most runs of cached agents in a row while an agent that is not cached waits on the same
    /// level; `None` for any number, as in the paper: then those who are not cached wait until no
    /// cached agent has anything to do.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub cached_max: Option<u32>,
    /// Number of levels of priority with cohorts of their own, at least 1: priorities from 0 to one
    /// less. Any higher priority is the highest: it goes before all cohorts.
    pub levels: u8,
}

impl CohortSpec {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let CohortSpec { capacity, run_max, cached_max, levels } = *self;
        let holds = capacity > 0 && run_max > 0 && cached_max != Some(0) && levels > 0;
        if holds { Ok(()) } else { Err(SpecError::Cohort) }
    }
}

/// State of an agent (figure 3 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It has a thread.
    Running,
    /// It is cached and has messages.
    InFilled,
    /// It is cached and has none.
    InEmpty,
    /// It is not cached and has messages.
    OutFilled,
    /// It is not cached and has none.
    OutEmpty,
    /// It has a message of the highest priority, cached or not.
    MaxPriFilled,
}

/// Presence of an agent in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// It is.
    In,
    /// It is not: it must be [loaded](CohortScheduler::loaded) before it runs.
    Out,
}

/// Decides which agent runs next and which leaves the cache. Pure, as the gate is; every decision is
/// O(1) in the agents.
///
/// Agents are numbers from 0 that the driver gives them; memory is set aside for the largest. The
/// driver keeps the messages, and tells the highest priority among those that an agent has left.
///
/// Within a state and a level, agents are listed by how long they have been in it, the longest
/// first. Next is
/// 1. the head of those with a message of the highest priority,
/// 2. the agent that has just run, if it has messages left and has not run
///    [`run_max`](CohortSpec::run_max) times in a row,
/// 3. level by level from the highest: the head of those cached, else the head of those not cached.
///
/// Evicted is the head of the cached agents without messages (the least recently used); else the
/// tail of those with messages, on the lowest level that has any (the most recently finished, whose
/// turn is furthest); else the tail of the cached ones with a message of the highest priority. A
/// running agent is never evicted.
///
/// ```
/// use gate::{Cached, CohortScheduler, CohortSpec};
///
/// let spec = CohortSpec { capacity: 1, run_max: 1, cached_max: None, levels: 1 };
/// let mut cohorts = CohortScheduler::new(spec).expect("a valid specification");
/// cohorts.deliver(7, 0); // Agent 7 gets a message of priority 0.
/// assert_eq!(cohorts.next(None), Some((7, Cached::Out)));
/// cohorts.loaded(7);
/// cohorts.finish(7, None); // It has none left.
/// cohorts.deliver(3, 0);
/// cohorts.deliver(7, 0);
/// assert_eq!(cohorts.next(Some(7)), Some((7, Cached::In)), "cached agents go first");
/// ```
#[derive(Clone, Debug)]
pub struct CohortScheduler {
    spec: CohortSpec,
    agents: Vec<Agent>,
    lists: Vec<List>,
    /// Agents in the cache, running ones included.
    cached: u32,
    /// Counts the moments at which agents enter lists.
    clock: u64,
    /// The agent that ran last, and how often in a row.
    run: (u32, u32),
    /// Runs of cached agents in a row while another waited, level by level.
    cached_runs: Vec<u32>,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Agent {
    prev: u32,
    next: u32,
    /// List that it is in; `NONE` if it runs, or has neither messages nor a place in the cache.
    list: u32,
    since: u64,
    cached: bool,
    running: bool,
    /// The highest priority among its messages, if it has any, while it does not run.
    filled: Option<u8>,
}

const FRESH: Agent = Agent {
    prev: NONE,
    next: NONE,
    list: NONE,
    since: 0,
    cached: false,
    running: false,
    filled: None,
};

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// Lists: cached agents without messages; those with the highest priority, cached and not; then for
/// each level those cached and not.
const IN_EMPTY: usize = 0;
const URGENT_IN: usize = 1;
const URGENT_OUT: usize = 2;
const LEVELS: usize = 3;

impl CohortScheduler {
    /// A scheduler of no agents with an empty cache.
    ///
    /// # Errors
    /// [`SpecError::Cohort`] if a parameter is 0.
    pub fn new(spec: CohortSpec) -> Result<CohortScheduler, SpecError> {
        spec.check()?;
        let lists = LEVELS + 2 * usize::from(spec.levels);
        Ok(CohortScheduler {
            spec,
            agents: Vec::new(),
            lists: vec![List { head: NONE, tail: NONE }; lists],
            cached: 0,
            clock: 0,
            run: (NONE, 0),
            cached_runs: vec![0; usize::from(spec.levels)],
        })
    }

    /// A message of this priority arrives for an agent. While the agent runs that changes nothing:
    /// [`finish`](CohortScheduler::finish) tells what is left.
    ///
    /// # Panics
    /// If the agent is `u32::MAX`.
    pub fn deliver(&mut self, agent: u32, priority: u8) {
        assert!(agent != NONE, "agents are numbered below u32::MAX");
        if self.agents.len() <= agent as usize {
            self.agents.resize(agent as usize + 1, FRESH);
        }
        let of = &self.agents[agent as usize];
        if of.running || of.filled.is_some_and(|highest| highest >= priority) {
            return;
        }
        self.fill(agent, Some(priority));
    }

    /// A message of an agent is taken back before it was handled; `left` is the highest priority
    /// among those that it still has. No change of place if that stays the same.
    ///
    /// # Panics
    /// If the agent is unknown.
    pub fn retract(&mut self, agent: u32, left: Option<u8>) {
        let of = &self.agents[agent as usize];
        if !of.running && of.filled != left {
            self.fill(agent, left);
        }
    }

    /// The agent that runs next, and whether it is cached; `None` if none has messages. `just_run`
    /// is the agent that the asking thread has just run and finished, if any.
    ///
    /// If it is not cached, the driver makes room by [`evict`](CohortScheduler::evict) if the cache
    /// [is full](CohortScheduler::is_full), loads it and says [`loaded`](CohortScheduler::loaded).
    pub fn next(&mut self, just_run: Option<u32>) -> Option<(u32, Cached)> {
        let agent = self.choose(just_run)?;
        self.run = match self.run {
            (last, times) if last == agent => (agent, times.saturating_add(1)),
            _ => (agent, 1),
        };
        self.count_cached_run(agent);
        self.unlist(agent);
        let of = &mut self.agents[agent as usize];
        of.running = true;
        of.filled = None;
        Some((agent, if of.cached { Cached::In } else { Cached::Out }))
    }

    fn choose(&self, just_run: Option<u32>) -> Option<u32> {
        let urgent = [URGENT_IN, URGENT_OUT].map(|list| self.lists[list].head);
        let urgent = urgent.into_iter().filter(|&head| head != NONE);
        if let Some(head) = urgent.min_by_key(|&head| self.agents[head as usize].since) {
            return Some(head);
        }
        if let Some(agent) = just_run
            && self.agents.get(agent as usize).is_some_and(|of| of.filled.is_some())
            && self.run.0 == agent
            && self.run.1 < self.spec.run_max
            && !self.owes(agent)
        {
            return Some(agent);
        }
        (0..self.spec.levels).rev().find_map(|level| {
            let [inside, outside] = [0, 1].map(|out| self.lists[cohort(level) + out].head);
            if inside == NONE || (outside != NONE && self.is_spent(level)) {
                return Some(outside).filter(|&head| head != NONE);
            }
            Some(inside)
        })
    }

    /// True if the cached agents of a level have had all the runs in a row that they may have.
    fn is_spent(&self, level: u8) -> bool {
        let runs = self.cached_runs[usize::from(level)];
        self.spec.cached_max.is_some_and(|most| runs >= most)
    }

    /// True if another run of an agent would keep one waiting that is not cached and whose turn it
    /// is.
    fn owes(&self, agent: u32) -> bool {
        let of = &self.agents[agent as usize];
        let Some(level) = of.filled.filter(|&level| level < self.spec.levels) else { return false };
        of.cached && self.is_spent(level) && self.lists[cohort(level) + 1].head != NONE
    }

    fn count_cached_run(&mut self, agent: u32) {
        let of = &self.agents[agent as usize];
        let Some(level) = of.filled.filter(|&level| level < self.spec.levels) else { return };
        let keeps_waiting = of.cached && self.lists[cohort(level) + 1].head != NONE;
        let runs = &mut self.cached_runs[usize::from(level)];
        *runs = if keeps_waiting { runs.saturating_add(1) } else { 0 };
    }

    /// An agent has handled a message; `left` is the highest priority among those that it has now,
    /// `None` if it has none.
    ///
    /// # Panics
    /// If the agent does not run.
    pub fn finish(&mut self, agent: u32, left: Option<u8>) {
        let of = self.agents.get_mut(agent as usize).filter(|of| of.running);
        of.expect("only an agent that runs can finish").running = false;
        self.fill(agent, left);
    }

    /// An agent that runs is in the cache from now on.
    ///
    /// # Panics
    /// If it does not run, is in the cache already, or the cache is full.
    pub fn loaded(&mut self, agent: u32) {
        assert!(!self.is_full(), "agent {agent} is loaded into a full cache; evict one first");
        let of = self.agents.get_mut(agent as usize).filter(|of| of.running && !of.cached);
        of.expect("only an agent that runs and is not cached is loaded").cached = true;
        self.cached += 1;
    }

    /// Takes an agent out of the cache, for another to be loaded; `None` if all that are cached
    /// run.
    pub fn evict(&mut self) -> Option<u32> {
        let levels = (0..self.spec.levels).map(|level| self.lists[cohort(level)].tail);
        let urgent = self.lists[URGENT_IN].tail;
        let mut order = [self.lists[IN_EMPTY].head].into_iter().chain(levels).chain([urgent]);
        let agent = order.find(|&agent| agent != NONE)?;
        self.cached -= 1;
        let filled = self.agents[agent as usize].filled;
        self.agents[agent as usize].cached = false;
        self.fill(agent, filled);
        Some(agent)
    }

    /// True if another agent can be loaded only after one was evicted.
    pub fn is_full(&self) -> bool {
        self.cached >= self.spec.capacity
    }

    /// Number of cached agents, running ones included.
    pub fn cached(&self) -> u32 {
        self.cached
    }

    /// State of an agent; an unknown one is not cached and has no messages.
    pub fn state(&self, agent: u32) -> AgentState {
        match self.agents.get(agent as usize) {
            None => AgentState::OutEmpty,
            Some(of) if of.running => AgentState::Running,
            Some(Agent { filled: Some(priority), .. }) if *priority >= self.spec.levels => {
                AgentState::MaxPriFilled
            }
            Some(Agent { filled: Some(_), cached: true, .. }) => AgentState::InFilled,
            Some(Agent { filled: Some(_), .. }) => AgentState::OutFilled,
            Some(Agent { cached: true, .. }) => AgentState::InEmpty,
            Some(_) => AgentState::OutEmpty,
        }
    }

    /// Gives an agent that does not run this highest priority, and the place that follows from it:
    /// at the tail.
    fn fill(&mut self, agent: u32, filled: Option<u8>) {
        self.unlist(agent);
        let of = &mut self.agents[agent as usize];
        of.filled = filled;
        let list = match (filled, of.cached) {
            (None, false) => return,
            (None, true) => IN_EMPTY,
            (Some(priority), cached) if priority >= self.spec.levels => {
                if cached {
                    URGENT_IN
                } else {
                    URGENT_OUT
                }
            }
            (Some(level), cached) => cohort(level) + usize::from(!cached),
        };
        self.clock += 1;
        let tail = self.lists[list].tail;
        let of = &mut self.agents[agent as usize];
        (of.list, of.since, of.prev, of.next) = (list as u32, self.clock, tail, NONE);
        match self.agents.get_mut(tail as usize) {
            Some(before) => before.next = agent,
            None => self.lists[list].head = agent,
        }
        self.lists[list].tail = agent;
    }

    fn unlist(&mut self, agent: u32) {
        let Agent { prev, next, list, .. } = self.agents[agent as usize];
        let Some(list) = self.lists.get_mut(list as usize) else { return };
        match self.agents.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => list.head = next,
        }
        match self.agents.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => list.tail = prev,
        }
        let of = &mut self.agents[agent as usize];
        (of.prev, of.next, of.list) = (NONE, NONE, NONE);
    }
}

/// The list of a level's cached agents; that of its others follows.
fn cohort(level: u8) -> usize {
    LEVELS + 2 * usize::from(level)
}
