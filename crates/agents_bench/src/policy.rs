//! Turns of agents, and those who leave the cache for them, without a store: so that a cache can be brought into
//! the state that many passes leave, in no time.

use gate::{
    ArrivalOrder, Cached, CohortScheduler, CohortSpec, EvictionRule, SchedulerSpec, SpecError,
    Victim,
};
use rand::RngExt;
use workload::{Chance, stream};

/// Order of the agents of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By key, each time.
    Same,
    /// A new random order each time.
    Shuffled,
    /// Cached agents first: the scheduler of the paper.
    Cohort,
}

/// The parameters of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Number of agents.
    pub agents: u32,
    /// Most of them in the cache, at least 1.
    pub room: u32,
    /// The order.
    pub order: Order,
    /// Choice of who leaves. The scheduler always spares those with messages, so that the paper's is `Lru`
    /// there.
    pub victim: Victim,
    /// Seed of orders and receivers.
    pub seed: u64,
}

/// An agent whose turn it is. It is held in the cache until [`Policy::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The agent.
    pub agent: u32,
    /// The message that it handles: which of its messages of this pass, from 0.
    pub message: u32,
    /// It was in the cache.
    pub hit: bool,
    /// The agent that left the cache for it.
    pub evicted: Option<u32>,
}

/// A cache and an order of turns.
#[derive(Debug)]
pub struct Policy {
    spec: PolicySpec,
    way: Way,
    chance: Chance,
    /// Multicasts of a pass.
    outstanding: u32,
    /// The chance of each agent to receive a multicast, if not all do.
    chances: Option<Vec<f64>>,
    /// The receivers of each multicast of the pass, in their order.
    receivers: Vec<Vec<u32>>,
    /// The number of each agent's messages of the pass, and of those that it has handled.
    messages: Vec<[u32; 2]>,
    /// Messages of the pass that wait.
    left: u64,
}

#[derive(Debug)]
enum Way {
    Plain(Box<ArrivalOrder>),
    Cohort { it: Box<CohortScheduler>, cached: Vec<bool> },
}

impl Policy {
    /// A policy with an empty cache. A pass is one multicast to all.
    ///
    /// # Errors
    /// A scheduler that cannot be.
    pub fn new(spec: PolicySpec) -> Result<Policy, SpecError> {
        let way = match spec.order {
            Order::Cohort => {
                let (capacity, run_max) = (spec.room, 1);
                let cohorts = CohortSpec { capacity, run_max, cached_max: None, levels: 1 };
                let eviction = match spec.victim {
                    Victim::Rule(rule) => rule,
                    Victim::Paper => EvictionRule::Lru,
                };
                let scheduler = SchedulerSpec { eviction, ..SchedulerSpec::from(cohorts) };
                let it = Box::new(CohortScheduler::with(scheduler)?);
                Way::Cohort { it, cached: vec![false; spec.agents as usize] }
            }
            Order::Same | Order::Shuffled => {
                Way::Plain(Box::new(ArrivalOrder::new(spec.victim, spec.room)))
            }
        };
        Ok(Policy {
            spec,
            way,
            chance: stream(spec.seed, 0),
            outstanding: 1,
            chances: None,
            receivers: Vec::new(),
            messages: vec![[0; 2]; spec.agents as usize],
            left: 0,
        })
    }

    /// From now on a pass is so many multicasts, at least 1, that are outstanding when it starts.
    pub fn outstanding(self, outstanding: u32) -> Policy {
        assert!(outstanding > 0, "a pass has a multicast");
        Policy { outstanding, ..self }
    }

    /// From now on each agent receives a multicast with a chance of its own.
    pub fn for_some(self, chances: Vec<f64>) -> Policy {
        assert_eq!(chances.len(), self.spec.agents as usize, "each agent has a chance");
        Policy { chances: Some(chances), ..self }
    }

    /// Multicasts of a pass.
    pub fn multicasts(&self) -> u32 {
        self.outstanding
    }

    /// The receivers of each multicast of the last pass.
    pub fn receivers(&self) -> &[Vec<u32>] {
        &self.receivers
    }

    /// Starts a pass.
    ///
    /// # Panics
    /// If the pass before is not over.
    pub fn begin(&mut self) {
        assert!(self.is_over(), "the pass before is not over");
        // The k-th message of an agent is of the k-th multicast only if it receives all of them.
        assert!(self.chances.is_none() || self.outstanding == 1, "some of several multicasts");
        self.messages.fill([0; 2]);
        self.receivers = (0..self.outstanding).map(|_| self.draw()).collect();
        for &agent in self.receivers.iter().flatten() {
            self.messages[agent as usize][0] += 1;
            self.left += 1;
            if let Way::Cohort { it, .. } = &mut self.way {
                it.deliver(agent, 0);
            }
        }
        if let Way::Plain(it) = &mut self.way {
            self.receivers.iter().for_each(|agents| it.deliver(agents));
        }
    }

    fn draw(&mut self) -> Vec<u32> {
        let (chance, all) = (&mut self.chance, 0..self.spec.agents);
        let mut agents: Vec<u32> = match &self.chances {
            Some(of) => all.filter(|&it| chance.random::<f64>() < of[it as usize]).collect(),
            None => all.collect(),
        };
        if self.spec.order == Order::Shuffled {
            for at in (1..agents.len()).rev() {
                agents.swap(at, chance.random_range(0..=at));
            }
        }
        agents
    }

    /// True if all messages of the pass have had their turn.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The next turn; `None` when the pass is over, or when it is the turn of an agent that has one.
    ///
    /// # Panics
    /// If all agents of the cache are held.
    pub fn take(&mut self) -> Option<Turn> {
        let (agent, hit, evicted) = match &mut self.way {
            Way::Cohort { it, cached } => {
                let (agent, found) = it.next(None)?;
                let hit = found == Cached::In;
                let out = (!hit && it.is_full()).then(|| it.evict());
                let out = out.map(|out| out.expect("not all of the cache is held"));
                if !hit {
                    it.loaded(agent);
                    cached[agent as usize] = true;
                }
                if let Some(out) = out {
                    cached[out as usize] = false;
                }
                (agent, hit, out)
            }
            Way::Plain(it) => {
                let turn = it.next()?;
                (turn.agent, turn.hit, turn.evicted)
            }
        };
        let [_, handled] = &mut self.messages[agent as usize];
        *handled += 1;
        self.left -= 1;
        Some(Turn { agent, message: *handled - 1, hit, evicted })
    }

    /// The turn of an agent is over.
    pub fn done(&mut self, agent: u32) {
        match &mut self.way {
            Way::Cohort { it, .. } => {
                let [all, handled] = self.messages[agent as usize];
                it.finish(agent, (handled < all).then_some(0));
            }
            Way::Plain(it) => it.finish(agent),
        }
    }

    /// Runs a pass without any content; the share of hits.
    pub fn pass(&mut self) -> f64 {
        self.begin();
        let (mut hits, mut all) = (0_u32, 0_u32);
        while let Some(turn) = self.take() {
            all += 1;
            hits += u32::from(turn.hit);
            self.done(turn.agent);
        }
        f64::from(hits) / f64::from(all.max(1))
    }

    /// The agents in the cache, in the order of their keys.
    pub fn cached(&self) -> impl Iterator<Item = u32> {
        (0..self.spec.agents).filter(|&agent| match &self.way {
            Way::Cohort { cached, .. } => cached[agent as usize],
            Way::Plain(it) => it.is_cached(agent),
        })
    }
}
