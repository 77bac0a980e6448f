//! The cohort scheduler: which of very many agents runs next, and which leaves the cache, decided
//! together, so that what is cached is run before it is evicted (yamamoto, sections 3 and 4).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::discipline::{DeficitRoundRobin, Discipline};
use crate::eviction::make_room;
use crate::{Eviction, EvictionRule, Job, JobId, SpecError, Time};

/// The parameters of a cohort scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// The parameters of a cohort scheduler and of all that the paper's lacks. [`from`](SchedulerSpec::from)
/// a [`CohortSpec`] it is the paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct SchedulerSpec {
    /// The cohorts.
    pub cohorts: CohortSpec,
    /// Number of bytes of state that the cache holds, at least 1, beside the number of agents; `None`
    /// counts agents alone.
    pub bytes_max: Option<u64>,
    /// Choice among the cached agents without messages.
    pub eviction: EvictionRule,
    /// Gated passes; `None` for none, as in the paper.
    pub passes: Option<PassSpec>,
    /// Most runs for messages of the highest priority in a row while others wait, at least 1; `None`
    /// for any number, as in the paper.
    pub urgent_max: Option<u32>,
    /// Wait that raises an agent by one level, above 0 and at most a year, but never to the highest
    /// priority; `None` for none, as in the paper.
    pub ageing: Option<Duration>,
}

impl From<CohortSpec> for SchedulerSpec {
    fn from(cohorts: CohortSpec) -> SchedulerSpec {
        SchedulerSpec {
            cohorts,
            bytes_max: None,
            eviction: EvictionRule::Lru,
            passes: None,
            urgent_max: None,
            ageing: None,
        }
    }
}

impl SchedulerSpec {
    fn check(&self) -> Result<(), SpecError> {
        const AGEING_MAX: Duration = Duration::from_secs(366 * 86_400);
        self.cohorts.check()?;
        if self.ageing.is_some_and(|ageing| ageing.is_zero() || ageing > AGEING_MAX) {
            return Err(SpecError::Interval);
        }
        if self.bytes_max == Some(0) || self.urgent_max == Some(0) {
            return Err(SpecError::Cohort);
        }
        let Some(passes) = &self.passes else { return Ok(()) };
        if passes.members_max == Some(0) || passes.runs_max == 0 {
            return Err(SpecError::Cohort);
        }
        match &passes.tenants {
            Some(tenants) if tenants.quantum == 0 || tenants.weights.contains(&0) => {
                Err(SpecError::Quantum)
            }
            _ => Ok(()),
        }
    }
}

/// Gated passes: who takes part in a pass is settled when it starts; whoever gets a message later
/// waits for the next. So an agent that has waited `p` places from the head of the backlog runs at
/// the latest in pass 1 + p / `members_max` from now, and a pass has at most `members_max` times
/// `runs_max` runs beside those for messages of the highest priority.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct PassSpec {
    /// Most agents that a pass takes from the backlog, at least 1; `None` for all of them.
    pub members_max: Option<u32>,
    /// Most runs of an agent in a pass, at least 1; with messages left it goes to the backlog.
    pub runs_max: u32,
    /// Turns of tenants in the order in which a pass takes its members; `None` takes the agent first
    /// that waits longest.
    pub tenants: Option<TenantSpec>,
}

/// Deficit round robin over tenants, as [`DisciplineSpec::DeficitRoundRobin`] has it over classes.
///
/// [`DisciplineSpec::DeficitRoundRobin`]: crate::DisciplineSpec::DeficitRoundRobin
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct TenantSpec {
    /// Agents in a turn of a tenant of weight 1, at least 1.
    pub quantum: u64,
    /// Quanta of each tenant, by its number, at least 1; tenants beyond the list get 1.
    pub weights: Vec<u32>,
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

/// Presence of a message of the highest priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// There is one.
    Yes,
    /// There is none.
    No,
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
/// Beyond the paper, each by its field of [`SchedulerSpec`]: another rule among the cached agents
/// without messages; passes, where those who wait for the next one are in a backlog and are evicted
/// after those without messages; a limit on the highest priority; ageing.
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
    spec: SchedulerSpec,
    agents: Vec<Agent>,
    lists: Vec<List>,
    eviction: Eviction,
    /// The backlog in the order in which its agents came into it, each by its ticket; or, if tenants
    /// have turns, in the order of these: then a job is an agent.
    backlog: BTreeMap<u64, u32>,
    turns: Option<DeficitRoundRobin>,
    /// Agents of the running pass that are not done, running ones included.
    members: u32,
    /// Agents in the cache, running ones included, and the bytes of their states.
    cached: u32,
    bytes: u64,
    /// Counts the moments at which agents enter lists.
    clock: u64,
    now: Time,
    /// Moments at which waiting agents rise by a level.
    rises: BTreeSet<(Time, u32)>,
    /// The agent that ran last, and how often in a row.
    run: (u32, u32),
    /// Runs for messages of the highest priority in a row while others waited.
    urgent_runs: u32,
    /// Runs of cached agents in a row while another waited, level by level.
    cached_runs: Vec<u32>,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Agent {
    prev: u32,
    next: u32,
    /// List that it is in; `NONE` if it runs or has no messages.
    list: u32,
    tenant: u32,
    since: u64,
    /// Its number in the backlog.
    ticket: u64,
    identity: u64,
    bytes: u64,
    /// When it rises by a level.
    rises: Option<Time>,
    /// Runs in this pass.
    runs: u32,
    standing: Standing,
    cached: bool,
    running: bool,
    /// The highest priority among its messages, if it has any, while it does not run.
    filled: Option<u8>,
    /// The level that it waits on: the same, or higher by ageing.
    level: u8,
}

/// Standing of an agent towards the running pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    None,
    /// It waits for the next one.
    Backlog,
    Member,
}

const FRESH: Agent = Agent {
    prev: NONE,
    next: NONE,
    list: NONE,
    tenant: 0,
    since: 0,
    ticket: 0,
    identity: 0,
    bytes: 0,
    rises: None,
    runs: 0,
    standing: Standing::None,
    cached: false,
    running: false,
    filled: None,
    level: 0,
};

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// Lists: the backlog, cached and not; those with the highest priority, cached and not; then for each
/// level those cached and not.
const BACKLOG_IN: usize = 0;
const BACKLOG_OUT: usize = 1;
const URGENT_IN: usize = 2;
const URGENT_OUT: usize = 3;
const LEVELS: usize = 4;

impl CohortScheduler {
    /// The paper's scheduler, of no agents, with an empty cache.
    ///
    /// # Errors
    /// [`SpecError::Cohort`] if a parameter is 0.
    pub fn new(spec: CohortSpec) -> Result<CohortScheduler, SpecError> {
        CohortScheduler::with(SchedulerSpec::from(spec))
    }

    /// A scheduler of no agents with an empty cache.
    ///
    /// # Errors
    /// [`SpecError::Cohort`], [`SpecError::Interval`] or [`SpecError::Quantum`] if a parameter is out
    /// of its range.
    pub fn with(spec: SchedulerSpec) -> Result<CohortScheduler, SpecError> {
        spec.check()?;
        let levels = usize::from(spec.cohorts.levels);
        let tenants = spec.passes.as_ref().and_then(|passes| passes.tenants.as_ref());
        let turns = tenants.map(|of| DeficitRoundRobin::new(of.quantum, of.weights.clone()));
        Ok(CohortScheduler {
            agents: Vec::new(),
            lists: vec![List { head: NONE, tail: NONE }; LEVELS + 2 * levels],
            eviction: Eviction::new(spec.eviction, spec.cohorts.capacity),
            backlog: BTreeMap::new(),
            turns,
            members: 0,
            cached: 0,
            bytes: 0,
            clock: 0,
            now: Time::ZERO,
            rises: BTreeSet::new(),
            run: (NONE, 0),
            urgent_runs: 0,
            cached_runs: vec![0; levels],
            spec,
        })
    }

    /// Says who an agent is: what its uses are remembered by when it is not cached, and its tenant.
    /// Else it is its own number, and of tenant 0.
    ///
    /// # Panics
    /// If it has messages, runs, or is cached; or is `u32::MAX`.
    pub fn introduce(&mut self, agent: u32, identity: u64, tenant: u32) {
        self.make_room(agent);
        assert!(self.state(agent) == AgentState::OutEmpty, "agent {agent} is known already");
        let of = &mut self.agents[agent as usize];
        (of.identity, of.tenant) = (identity, tenant);
    }

    fn make_room(&mut self, agent: u32) {
        assert!(agent != NONE, "agents are numbered below u32::MAX");
        make_room(&mut self.agents, agent as usize + 1);
        while self.agents.len() <= agent as usize {
            let identity = self.agents.len() as u64;
            self.agents.push(Agent { identity, ..FRESH });
        }
    }

    /// The time. Agents that have waited long rise by a level; the next call is for
    /// [`next_rise`](CohortScheduler::next_rise) at the latest, if ageing is to be exact.
    pub fn age(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(&(at, agent)) = self.rises.first()
            && at <= self.now
        {
            self.rises.remove(&(at, agent));
            let of = &mut self.agents[agent as usize];
            (of.level, of.rises) = (of.level + 1, None);
            self.place(agent);
        }
    }

    /// The moment at which the next agent rises by a level.
    pub fn next_rise(&self) -> Option<Time> {
        self.rises.first().map(|&(at, _)| at)
    }

    /// Starts the next pass, if the last one is over: takes its members from the backlog. The number
    /// of members; 0 if nobody waits, or without passes, or before the last pass is over.
    pub fn start_pass(&mut self) -> u32 {
        let Some(passes) = &self.spec.passes else { return 0 };
        let most = passes.members_max.unwrap_or(u32::MAX);
        if self.members > 0 {
            return 0;
        }
        while self.members < most {
            let Some(agent) = self.longest_in_backlog() else { break };
            self.admit(agent);
        }
        self.members
    }

    /// Number of agents that the running pass still waits for, running ones included; the pass is over
    /// at 0.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// A message for an agent that belongs to the running pass, although the agent comes only now: a
    /// multicast of the time when the pass started, whose receivers are found bit by bit. Without
    /// passes it is as any other.
    ///
    /// # Panics
    /// If the agent is `u32::MAX`.
    pub fn join(&mut self, agent: u32, priority: u8) {
        self.make_room(agent);
        if self.spec.passes.is_some() {
            self.leave_backlog(agent);
            let of = &mut self.agents[agent as usize];
            if of.standing == Standing::None {
                (of.standing, of.runs) = (Standing::Member, 0);
                self.members += 1;
            }
        }
        let of = &self.agents[agent as usize];
        if !of.running {
            let filled = of.filled.map_or(priority, |highest| highest.max(priority));
            self.fill(agent, Some(filled));
        }
    }

    /// A message of this priority arrives for an agent. While the agent runs that changes nothing:
    /// [`finish`](CohortScheduler::finish) tells what is left.
    ///
    /// # Panics
    /// If the agent is `u32::MAX`.
    pub fn deliver(&mut self, agent: u32, priority: u8) {
        self.make_room(agent);
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

    /// The agent that runs next, and whether it is cached; `None` if none has messages, or none that
    /// takes part in the running pass: then that pass is over, or all its members run. `just_run`
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
        self.count_urgent_run(agent);
        Some((agent, self.start(agent)))
    }

    /// An agent runs from now on.
    fn start(&mut self, agent: u32) -> Cached {
        self.unlist(agent);
        self.rest(agent);
        let levels = self.spec.cohorts.levels;
        let of = &mut self.agents[agent as usize];
        of.runs = of.runs.saturating_add(u32::from(of.filled < Some(levels)));
        of.running = true;
        of.filled = None;
        if of.cached { Cached::In } else { Cached::Out }
    }

    fn choose(&self, just_run: Option<u32>) -> Option<u32> {
        let urgent = [URGENT_IN, URGENT_OUT].map(|list| self.lists[list].head);
        let urgent = urgent.into_iter().filter(|&head| head != NONE);
        if let Some(head) = urgent.min_by_key(|&head| self.agents[head as usize].since)
            && !(self.spec.urgent_max.is_some_and(|most| self.urgent_runs >= most)
                && self.others_wait())
        {
            return Some(head);
        }
        if let Some(agent) = just_run
            && self.agents.get(agent as usize).is_some_and(Agent::has_turn)
            && self.run.0 == agent
            && self.run.1 < self.spec.cohorts.run_max
            && !self.owes(agent)
        {
            return Some(agent);
        }
        (0..self.spec.cohorts.levels).rev().find_map(|level| {
            let [inside, outside] = [0, 1].map(|out| self.lists[cohort(level) + out].head);
            if inside == NONE || (outside != NONE && self.is_spent(level)) {
                return Some(outside).filter(|&head| head != NONE);
            }
            Some(inside)
        })
    }

    /// True if an agent waits in a cohort.
    fn others_wait(&self) -> bool {
        self.lists[LEVELS..].iter().any(|list| list.head != NONE)
    }

    /// True if the cached agents of a level have had all the runs in a row that they may have.
    fn is_spent(&self, level: u8) -> bool {
        let runs = self.cached_runs[usize::from(level)];
        self.spec.cohorts.cached_max.is_some_and(|most| runs >= most)
    }

    /// True if another run of an agent would keep one waiting that is not cached and whose turn it
    /// is.
    fn owes(&self, agent: u32) -> bool {
        let of = &self.agents[agent as usize];
        let level = of.level;
        of.cached && self.is_spent(level) && self.lists[cohort(level) + 1].head != NONE
    }

    fn count_cached_run(&mut self, agent: u32) {
        let of = &self.agents[agent as usize];
        if !of.has_turn() {
            return;
        }
        let level = of.level;
        let keeps_waiting = of.cached && self.lists[cohort(level) + 1].head != NONE;
        let runs = &mut self.cached_runs[usize::from(level)];
        *runs = if keeps_waiting { runs.saturating_add(1) } else { 0 };
    }

    fn count_urgent_run(&mut self, agent: u32) {
        let urgent = !self.agents[agent as usize].has_turn();
        let counts = urgent && self.others_wait();
        self.urgent_runs = if counts { self.urgent_runs.saturating_add(1) } else { 0 };
    }

    /// The agent that would run next, whether it is cached, and whether it has a message of the highest
    /// priority.
    pub fn peek(&self) -> Option<(u32, Cached, Urgent)> {
        let agent = self.choose(None)?;
        let of = &self.agents[agent as usize];
        let cached = if of.cached { Cached::In } else { Cached::Out };
        Some((agent, cached, if of.has_turn() { Urgent::No } else { Urgent::Yes }))
    }

    /// An agent that is loaded ahead, while others run that are cached: the first of those in the
    /// cohorts that are not. It counts as running. `None` if there is none, or if only an agent that
    /// has messages could leave the cache for it.
    pub fn next_to_load(&mut self) -> Option<u32> {
        if self.is_full() && self.eviction.evictable() == 0 {
            return None;
        }
        let heads =
            (0..self.spec.cohorts.levels).rev().map(|level| self.lists[cohort(level) + 1].head);
        let agent = heads.into_iter().find(|&head| head != NONE)?;
        self.start(agent);
        Some(agent)
    }

    /// An agent has handled a message; `left` is the highest priority among those that it has now,
    /// `None` if it has none.
    ///
    /// # Panics
    /// If the agent does not run.
    pub fn finish(&mut self, agent: u32, left: Option<u8>) {
        let of = self.agents.get_mut(agent as usize).filter(|of| of.running);
        let of = of.expect("only an agent that runs can finish");
        of.running = false;
        let spent = self.spec.passes.as_ref().is_some_and(|passes| of.runs >= passes.runs_max);
        if of.standing == Standing::Member && spent {
            of.standing = Standing::None;
            self.members -= 1;
        }
        self.fill(agent, left);
    }

    /// An agent that runs is in the cache from now on, with a state of no bytes until it is
    /// [resized](CohortScheduler::resize).
    ///
    /// # Panics
    /// If it does not run, is in the cache already, or the cache holds as many agents as it can.
    pub fn loaded(&mut self, agent: u32) {
        let full = self.cached >= self.spec.cohorts.capacity;
        assert!(!full, "agent {agent} is loaded into a full cache; evict one first");
        let of = self.agents.get_mut(agent as usize).filter(|of| of.running && !of.cached);
        let of = of.expect("only an agent that runs and is not cached is loaded");
        of.cached = true;
        self.eviction.enter(agent, of.identity);
        self.cached += 1;
    }

    /// The state of a cached agent has this many bytes from now on.
    ///
    /// # Panics
    /// If it is not cached.
    pub fn resize(&mut self, agent: u32, bytes: u64) {
        let of = self.agents.get_mut(agent as usize).filter(|of| of.cached);
        let of = of.expect("only a cached agent has bytes in the cache");
        self.bytes = self.bytes - of.bytes + bytes;
        of.bytes = bytes;
    }

    /// An agent that runs leaves the cache at once: its state is worth nothing any more.
    ///
    /// # Panics
    /// If it does not run, or is not cached.
    pub fn dropped(&mut self, agent: u32) {
        let of = self.agents.get(agent as usize).filter(|of| of.running && of.cached);
        assert!(of.is_some(), "only a cached agent that runs is dropped");
        self.eviction.leave(agent);
        self.uncache(agent);
    }

    fn uncache(&mut self, agent: u32) {
        let of = &mut self.agents[agent as usize];
        self.bytes -= of.bytes;
        (of.cached, of.bytes) = (false, 0);
        self.cached -= 1;
    }

    /// Takes an agent out of the cache, for another to be loaded; `None` if all that are cached
    /// run.
    pub fn evict(&mut self) -> Option<u32> {
        if let Some(agent) = self.eviction.evict() {
            self.uncache(agent);
            return Some(agent);
        }
        let levels = (0..self.spec.cohorts.levels).map(|level| self.lists[cohort(level)].tail);
        let [backlog, urgent] = [BACKLOG_IN, URGENT_IN].map(|list| self.lists[list].tail);
        let mut order = [backlog].into_iter().chain(levels).chain([urgent]);
        let agent = order.find(|&agent| agent != NONE)?;
        self.eviction.leave(agent);
        self.uncache(agent);
        self.place(agent);
        Some(agent)
    }

    /// True if another agent can be loaded only after one was evicted.
    pub fn is_full(&self) -> bool {
        self.cached >= self.spec.cohorts.capacity
            || self.spec.bytes_max.is_some_and(|most| self.bytes >= most)
    }

    /// Bytes of the cached states.
    pub fn bytes(&self) -> u64 {
        self.bytes
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
            Some(Agent { filled: Some(priority), .. }) if *priority >= self.spec.cohorts.levels => {
                AgentState::MaxPriFilled
            }
            Some(Agent { filled: Some(_), cached: true, .. }) => AgentState::InFilled,
            Some(Agent { filled: Some(_), .. }) => AgentState::OutFilled,
            Some(Agent { cached: true, .. }) => AgentState::InEmpty,
            Some(_) => AgentState::OutEmpty,
        }
    }

    /// Gives an agent that does not run this highest priority, and the place that follows from it.
    fn fill(&mut self, agent: u32, filled: Option<u8>) {
        self.unlist(agent);
        let of = &mut self.agents[agent as usize];
        let level = filled.map_or(0, |priority| priority.min(self.spec.cohorts.levels - 1));
        // With one message more it waits on, on the level that it has reached.
        let waits_on = of.filled.is_some() && filled >= of.filled;
        of.level = if waits_on { of.level.max(level) } else { level };
        of.filled = filled;
        let highest = of.level + 1 >= self.spec.cohorts.levels;
        if !waits_on || highest || filled >= Some(self.spec.cohorts.levels) {
            self.rest(agent);
        }
        let cached = self.agents[agent as usize].cached;
        match filled {
            Some(_) => {
                if cached {
                    self.eviction.hold(agent);
                }
                self.place(agent);
            }
            None => {
                self.leave_backlog(agent);
                let of = &mut self.agents[agent as usize];
                self.members -= u32::from(of.standing == Standing::Member);
                of.standing = Standing::None;
                if cached {
                    self.eviction.free(agent);
                }
            }
        }
    }

    /// Puts an agent that has messages at the tail of the list where it belongs.
    fn place(&mut self, agent: u32) {
        self.unlist(agent);
        self.clock += 1;
        let gated = self.spec.passes.is_some();
        let levels = self.spec.cohorts.levels;
        let of = &mut self.agents[agent as usize];
        let out = usize::from(!of.cached);
        let list = if of.filled >= Some(levels) {
            URGENT_IN + out
        } else if gated && of.standing != Standing::Member {
            if of.standing == Standing::None {
                (of.standing, of.ticket) = (Standing::Backlog, self.clock);
                let job =
                    Job { class: of.tenant, key: u64::from(agent), ..Job::new(JobId(self.clock)) };
                match &mut self.turns {
                    Some(turns) => turns.push(self.now, &job),
                    None => _ = self.backlog.insert(self.clock, agent),
                }
            }
            BACKLOG_IN + out
        } else {
            cohort(of.level) + out
        };
        if let Some(ageing) = self.spec.ageing
            && of.rises.is_none()
            && list != URGENT_IN + out
            && of.level + 1 < levels
        {
            let at = self.now + ageing;
            of.rises = Some(at);
            self.rises.insert((at, agent));
        }
        let tail = self.lists[list].tail;
        let of = &mut self.agents[agent as usize];
        (of.list, of.since, of.prev, of.next) = (list as u32, self.clock, tail, NONE);
        match self.agents.get_mut(tail as usize) {
            Some(before) => before.next = agent,
            None => self.lists[list].head = agent,
        }
        self.lists[list].tail = agent;
    }

    /// An agent rises no more: it waits no longer, or on a level that its messages give it.
    fn rest(&mut self, agent: u32) {
        if let Some(at) = self.agents[agent as usize].rises.take() {
            self.rises.remove(&(at, agent));
        }
    }

    fn leave_backlog(&mut self, agent: u32) {
        let of = &mut self.agents[agent as usize];
        if of.standing == Standing::Backlog {
            of.standing = Standing::None;
            match &mut self.turns {
                Some(turns) => _ = turns.remove(JobId(of.ticket)),
                None => _ = self.backlog.remove(&of.ticket),
            }
        }
    }

    /// The agent of the backlog that the next pass takes first.
    fn longest_in_backlog(&mut self) -> Option<u32> {
        match &mut self.turns {
            Some(turns) => turns.pop(self.now).map(|job| job.key as u32),
            None => self.backlog.pop_first().map(|(_, agent)| agent),
        }
    }

    /// An agent of the backlog takes part in the pass that starts, also if it just runs or waits with
    /// a message of the highest priority.
    fn admit(&mut self, agent: u32) {
        let of = &mut self.agents[agent as usize];
        (of.standing, of.runs) = (Standing::Member, 0);
        self.members += 1;
        if of.list == BACKLOG_IN as u32 || of.list == BACKLOG_OUT as u32 {
            self.place(agent);
        }
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

impl Agent {
    /// True if it is in a cohort.
    fn has_turn(&self) -> bool {
        self.list != NONE && self.list >= LEVELS as u32
    }
}

/// The list of a level's cached agents; that of its others follows.
fn cohort(level: u8) -> usize {
    LEVELS + 2 * usize::from(level)
}
