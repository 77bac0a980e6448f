//! Turns of agents, and those who leave the cache for them, without a store: so that a cache can be brought into
//! the state that many passes leave, in no time.

use gate::{Cached, CohortScheduler, CohortSpec, Eviction, EvictionRule, SchedulerSpec, SpecError};
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
    /// Choice of who leaves.
    pub victim: EvictionRule,
    /// Seed of orders.
    pub seed: u64,
}

/// An agent whose turn it is. It is held in the cache until [`Policy::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The agent.
    pub agent: u32,
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
    cached: Vec<bool>,
    count: u32,
}

#[derive(Debug)]
enum Way {
    Plain { cache: Box<Eviction>, order: Vec<u32>, next: usize, chance: Chance },
    Cohort(Box<CohortScheduler>),
}

impl Policy {
    /// A policy with an empty cache.
    ///
    /// # Errors
    /// A scheduler that cannot be.
    pub fn new(spec: PolicySpec) -> Result<Policy, SpecError> {
        let way = match spec.order {
            Order::Cohort => {
                let (capacity, run_max) = (spec.room, 1);
                let cohorts = CohortSpec { capacity, run_max, cached_max: None, levels: 1 };
                let eviction = spec.victim;
                let spec = SchedulerSpec { eviction, ..SchedulerSpec::from(cohorts) };
                Way::Cohort(Box::new(CohortScheduler::with(spec)?))
            }
            Order::Same | Order::Shuffled => Way::Plain {
                cache: Box::new(Eviction::new(spec.victim, spec.room)),
                order: (0..spec.agents).collect(),
                next: spec.agents as usize,
                chance: stream(spec.seed, 0),
            },
        };
        Ok(Policy { spec, way, cached: vec![false; spec.agents as usize], count: 0 })
    }

    /// Starts a pass: each agent gets a message.
    ///
    /// # Panics
    /// If the pass before is not over.
    pub fn begin(&mut self) {
        match &mut self.way {
            Way::Cohort(it) => (0..self.spec.agents).for_each(|agent| it.deliver(agent, 0)),
            Way::Plain { order, next, chance, .. } => {
                assert_eq!(*next, order.len(), "the pass before is not over");
                *next = 0;
                if self.spec.order == Order::Shuffled {
                    for at in (1..order.len()).rev() {
                        order.swap(at, chance.random_range(0..=at));
                    }
                }
            }
        }
    }

    /// The next turn; `None` when the pass is over.
    ///
    /// # Panics
    /// If all agents of the cache are held.
    pub fn take(&mut self) -> Option<Turn> {
        let is_full = self.count == self.spec.room;
        let (agent, hit, evicted) = match &mut self.way {
            Way::Cohort(it) => {
                let (agent, cached) = it.next(None)?;
                let hit = cached == Cached::In;
                let out = (!hit && it.is_full()).then(|| it.evict());
                if !hit {
                    it.loaded(agent);
                }
                (agent, hit, out)
            }
            Way::Plain { cache, order, next, .. } => {
                let agent = *order.get(*next)?;
                *next += 1;
                let hit = self.cached[agent as usize];
                let out = (!hit && is_full).then(|| cache.evict());
                match hit {
                    true => cache.hold(agent),
                    false => cache.enter(agent, agent.into()),
                }
                (agent, hit, out)
            }
        };
        let evicted = evicted.map(|out| out.expect("not all of the cache is held"));
        if let Some(out) = evicted {
            self.cached[out as usize] = false;
            self.count -= 1;
        }
        if !hit {
            self.cached[agent as usize] = true;
            self.count += 1;
        }
        Some(Turn { agent, hit, evicted })
    }

    /// The turn of an agent is over.
    pub fn done(&mut self, agent: u32) {
        match &mut self.way {
            Way::Cohort(it) => it.finish(agent, None),
            Way::Plain { cache, .. } => cache.free(agent),
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
        (0..self.spec.agents).filter(|&agent| self.cached[agent as usize])
    }
}
