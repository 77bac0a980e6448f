//! A cache whose agents run in the order in which their messages arrive, without a scheduler: the arm that
//! a scheduler is compared with, for whoever runs agents and for whoever simulates them.

use std::collections::{BTreeSet, VecDeque};

use super::{Eviction, EvictionRule};

/// Choice of who leaves the cache while messages wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// By an eviction rule, which knows nothing of the messages that wait.
    Rule(EvictionRule),
    /// By yamamoto's rule: the least recently used of those without messages; if all have some, the one
    /// whose next turn is furthest.
    Paper,
}

impl From<EvictionRule> for Victim {
    fn from(rule: EvictionRule) -> Victim {
        Victim::Rule(rule)
    }
}

/// A turn of an agent. It stays in the cache until it has [finished](ArrivalOrder::finish).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTurn {
    /// The agent.
    pub agent: u32,
    /// It was in the cache.
    pub hit: bool,
    /// The agent that left the cache for it.
    pub evicted: Option<u32>,
}

/// Agents with messages, run in the order of arrival, and a cache of them. Pure, as the
/// [scheduler](crate::CohortScheduler) is; every decision is O(log n) in the cached agents, but for
/// [`EvictionRule::Sieve`]. Agents are numbers from 0.
///
/// ```
/// use gate::{ArrivalOrder, EvictionRule, Victim};
///
/// let mut lru = ArrivalOrder::new(Victim::Rule(EvictionRule::Lru), 2);
/// let mut paper = ArrivalOrder::new(Victim::Paper, 2);
/// let mut hits = |it: &mut ArrivalOrder| {
///     let mut hits = 0;
///     for _ in 0..2 {
///         it.deliver(&[0, 1, 2]);
///         while let Some(turn) = it.next() {
///             hits += u32::from(turn.hit);
///             it.finish(turn.agent);
///         }
///     }
///     hits
/// };
/// assert_eq!((hits(&mut lru), hits(&mut paper)), (0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct ArrivalOrder {
    eviction: Eviction,
    capacity: u32,
    spares_waiting: bool,
    agents: Vec<Agent>,
    cached: u32,
    queue: VecDeque<Message>,
    /// The place of the queue's first message.
    first: u64,
    /// The cached agents that wait and do not run, each by the place of its next message: kept where they
    /// are spared.
    waiting: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Agent {
    cached: bool,
    running: bool,
    /// Messages that wait.
    messages: u32,
    /// The places of the first of them and of the last.
    next: u64,
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    agent: u32,
    /// The place of the same agent's next message, if it has another.
    following: u64,
}

impl ArrivalOrder {
    /// No messages, and an empty cache for at least one agent.
    ///
    /// # Panics
    /// If the capacity is 0.
    pub fn new(victim: Victim, capacity: u32) -> ArrivalOrder {
        assert!(capacity > 0, "a cache has room for an agent");
        let (rule, spares_waiting) = match victim {
            Victim::Rule(rule) => (rule, false),
            Victim::Paper => (EvictionRule::Lru, true),
        };
        ArrivalOrder {
            eviction: Eviction::new(rule, capacity),
            capacity,
            spares_waiting,
            agents: Vec::new(),
            cached: 0,
            queue: VecDeque::new(),
            first: 0,
            waiting: BTreeSet::new(),
        }
    }

    /// Messages arrive, each for its agent.
    pub fn deliver(&mut self, agents: &[u32]) {
        for &agent in agents {
            if self.agents.len() <= agent as usize {
                self.agents.resize(agent as usize + 1, Agent::default());
            }
            let place = self.first + self.queue.len() as u64;
            self.queue.push_back(Message { agent, following: 0 });
            let of = &mut self.agents[agent as usize];
            of.messages += 1;
            if of.messages > 1 {
                let before = (of.last - self.first) as usize;
                self.queue[before].following = place;
            } else {
                of.next = place;
                let rests = of.cached && !of.running;
                if self.spares_waiting && rests {
                    self.eviction.hold(agent);
                    self.waiting.insert((place, agent));
                }
            }
            self.agents[agent as usize].last = place;
        }
    }

    /// True if no message waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True if an agent is in the cache.
    pub fn is_cached(&self, agent: u32) -> bool {
        self.agents.get(agent as usize).is_some_and(|of| of.cached)
    }

    /// The next turn; `None` if no message waits, or if the agent of the first one runs.
    ///
    /// # Panics
    /// If the cache is full of agents that run.
    #[allow(clippy::should_implement_trait, reason = "a turn must finish: it is no iterator")]
    pub fn next(&mut self) -> Option<ArrivalTurn> {
        let Message { agent, following } = *self.queue.front()?;
        let of = &mut self.agents[agent as usize];
        if of.running {
            return None;
        }
        let (hit, place) = (of.cached, of.next);
        (of.running, of.messages) = (true, of.messages - 1);
        of.next = following;
        self.queue.pop_front();
        self.first += 1;
        self.waiting.remove(&(place, agent));
        let mut evicted = None;
        if hit {
            self.eviction.hold(agent);
        } else {
            if self.cached == self.capacity {
                evicted = Some(self.evict());
            }
            self.eviction.enter(agent, agent.into());
            self.agents[agent as usize].cached = true;
            self.cached += 1;
        }
        Some(ArrivalTurn { agent, hit, evicted })
    }

    fn evict(&mut self) -> u32 {
        let rests = self.eviction.evict();
        let out = rests.unwrap_or_else(|| {
            let (_, furthest) = self.waiting.pop_last().expect("not all of the cache runs");
            self.eviction.leave(furthest);
            furthest
        });
        self.agents[out as usize].cached = false;
        self.cached -= 1;
        out
    }

    /// The turn of an agent is over.
    ///
    /// # Panics
    /// If it does not run.
    pub fn finish(&mut self, agent: u32) {
        let of = self.agents.get_mut(agent as usize).filter(|of| of.running);
        let of = of.expect("only an agent that runs can finish");
        of.running = false;
        if self.spares_waiting && of.messages > 0 {
            self.waiting.insert((of.next, agent));
        } else {
            self.eviction.free(agent);
        }
    }
}
