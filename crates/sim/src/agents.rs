//! The agent server's scheduler and cache without the server: multicasts to very many agents, run by
//! the code of `gate` that runs them live, to see what its policies bring.

use gate::{ArrivalOrder, Cached, CohortScheduler, SchedulerSpec, SpecError, Time, Victim};
use measure::Estimate;
use rand::RngExt;
use workload::{Chance, stream};

/// Multicasts, one after the other, to agents of which some are cached.
#[derive(Clone, Debug)]
pub struct Multicasts {
    /// Number of agents, at least 1.
    pub agents: u32,
    /// Order in which messages are handled.
    pub order: AgentOrder,
    /// Receivers of a multicast.
    pub audience: Audience,
    /// Multicasts that are outstanding when their handling starts, at least 1: each receiver has as
    /// many messages.
    pub outstanding: u32,
    /// Rounds before those that are counted.
    pub warm_up: u32,
    /// Rounds that are counted, at least 2.
    pub rounds: u32,
    /// Seed of receivers and orders.
    pub seed: u64,
}

/// Orders in which the messages of multicasts are handled.
#[derive(Clone, Debug)]
pub enum AgentOrder {
    /// Message by message, the receivers of each in the same order every time, for a cache of this
    /// many agents under this rule.
    Same(u32, Victim),
    /// The same, in a new random order each time.
    Shuffled(u32, Victim),
    /// As the scheduler says, for all outstanding messages together.
    Cohorts(SchedulerSpec),
}

/// Receivers of a multicast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Audience {
    /// All agents.
    All,
    /// Each agent independently, the k-th with a chance of `a k^-exponent`, at most 1, where `a` makes
    /// a mean share of `share` of the agents, above 0 and at most 1.
    Popular {
        /// The exponent, 0 or above.
        exponent: f64,
        /// The mean share.
        share: f64,
    },
}

impl Audience {
    /// The chance of each agent to receive a multicast.
    pub fn chances(&self, agents: u32) -> Vec<f64> {
        let Audience::Popular { exponent, share } = *self else {
            return vec![1.0; agents as usize];
        };
        let weights: Vec<f64> = (1..=agents).map(|k| f64::from(k).powf(-exponent)).collect();
        let clipped = |a: f64| weights.iter().map(move |weight| (a * weight).min(1.0));
        let (mut low, mut high) = (0.0, f64::from(agents).powf(exponent) / share.min(1.0));
        for _ in 0..100 {
            let a = (low + high) / 2.0;
            let few = clipped(a).sum::<f64>() < share * f64::from(agents);
            (low, high) = if few { (a, high) } else { (low, a) };
        }
        clipped(high).collect()
    }
}

/// The share of the messages that found their agent in the cache, with a 95 % interval that takes
/// rounds as independent. They share the cache: where its content moves slowly, as with SIEVE, the
/// interval is too narrow, and runs of several seeds tell more.
///
/// # Errors
/// A scheduler that cannot be.
///
/// # Panics
/// If there are no agents, no messages, or fewer than two rounds.
pub fn hit_ratio(multicasts: &Multicasts) -> Result<Estimate, SpecError> {
    let Multicasts { agents, outstanding, warm_up, rounds, .. } = *multicasts;
    assert!(agents > 0 && outstanding > 0 && rounds > 1, "nothing to measure: {multicasts:?}");
    let mut world =
        World { chances: multicasts.audience.chances(agents), chance: stream(multicasts.seed, 0) };
    let mut scheduler = match &multicasts.order {
        AgentOrder::Cohorts(spec) => Some(CohortScheduler::with(spec.clone())?),
        _ => None,
    };
    let mut plain = match multicasts.order {
        AgentOrder::Same(room, rule) | AgentOrder::Shuffled(room, rule) => {
            Some(ArrivalOrder::new(rule, room))
        }
        AgentOrder::Cohorts(_) => None,
    };
    let shuffled = matches!(multicasts.order, AgentOrder::Shuffled(..));
    let mut ratios = Vec::new();
    for round in 0..warm_up + rounds {
        let (mut lookups, mut hits) = (0_u64, 0_u64);
        let mut batches: Vec<Vec<u32>> = Vec::new();
        for _ in 0..outstanding {
            batches.push(world.receivers(shuffled));
        }
        if let Some(scheduler) = &mut scheduler {
            (lookups, hits) = run_cohorts(scheduler, &batches, agents);
        }
        if let Some(plain) = &mut plain {
            batches.iter().for_each(|batch| plain.deliver(batch));
            while let Some(turn) = plain.next() {
                lookups += 1;
                hits += u64::from(turn.hit);
                plain.finish(turn.agent);
            }
        }
        if round >= warm_up && lookups > 0 {
            ratios.push(hits as f64 / lookups as f64);
        }
    }
    Ok(Estimate::from_independent(&ratios, 0.95))
}

/// Agents without a scheduler.
struct World {
    chances: Vec<f64>,
    chance: Chance,
}

impl World {
    fn receivers(&mut self, shuffled: bool) -> Vec<u32> {
        let World { chances, chance, .. } = self;
        let draws = |p: f64, chance: &mut Chance| p >= 1.0 || chance.random::<f64>() < p;
        let mut all: Vec<u32> = (0..chances.len())
            .filter(|&at| draws(chances[at], chance))
            .map(|at| at as u32)
            .collect();
        if shuffled {
            for at in (1..all.len()).rev() {
                all.swap(at, chance.random_range(0..=at));
            }
        }
        all
    }
}

/// Messages that were handled, and those among them whose agent was cached.
fn run_cohorts(it: &mut CohortScheduler, batches: &[Vec<u32>], agents: u32) -> (u64, u64) {
    let mut left = vec![0_u32; agents as usize];
    for &agent in batches.iter().flatten() {
        left[agent as usize] += 1;
        it.deliver(agent, 0);
    }
    let (mut lookups, mut hits, mut last) = (0, 0, None);
    loop {
        let Some((agent, cached)) = it.next(last) else {
            if it.start_pass() == 0 {
                return (lookups, hits);
            }
            continue;
        };
        lookups += 1;
        hits += u64::from(cached == Cached::In);
        if cached == Cached::Out {
            if it.is_full() {
                it.evict().expect("one agent runs, so that another can leave a cache of two");
            }
            it.loaded(agent);
        }
        left[agent as usize] -= 1;
        it.finish(agent, (left[agent as usize] > 0).then_some(0));
        last = Some(agent);
    }
}

/// The hazard of serving first those who are cached: an agent that is not cached has a message and
/// waits, behind cached ones that have one message each and get more.
#[derive(Clone, Debug)]
pub struct ColdAgent {
    /// The scheduler; its cache holds at least the hot agents.
    pub scheduler: SchedulerSpec,
    /// Number of cached agents, at least 1.
    pub hot: u32,
    /// Messages that they get together in the time that one takes to handle: a Poisson process.
    pub load: f64,
    /// Messages after which the trial gives up.
    pub limit: u64,
    /// Seed of the arrivals.
    pub seed: u64,
}

impl ColdAgent {
    /// Number of messages that are handled before the one of the agent that is not cached; `None` if
    /// it still waits at the limit.
    ///
    /// # Errors
    /// A scheduler that cannot be.
    pub fn wait(&self) -> Result<Option<u64>, SpecError> {
        let ColdAgent { hot, load, limit, .. } = *self;
        let mut chance = stream(self.seed, 1);
        let mut it = CohortScheduler::with(self.scheduler.clone())?;
        for agent in 0..hot {
            it.join(agent, 0);
            it.next(None).expect("it has a message");
            it.loaded(agent);
            it.finish(agent, None);
        }
        let mut left = vec![1_u32; hot as usize];
        (0..=hot).for_each(|agent| it.deliver(agent, 0));
        let mut next_arrival = exponential(load, &mut chance);
        let mut last = None;
        for handled in 0..limit {
            let now = handled as f64;
            while next_arrival <= now {
                let agent = chance.random_range(0..hot);
                left[agent as usize] += 1;
                it.deliver(agent, 0);
                next_arrival += exponential(load, &mut chance);
            }
            it.age(Time::from_nanos(handled));
            let next = it.next(last).or_else(|| {
                it.start_pass();
                it.next(last)
            });
            let (agent, _) = next.expect("the agent that is not cached waits");
            if agent == hot {
                return Ok(Some(handled));
            }
            left[agent as usize] -= 1;
            it.finish(agent, (left[agent as usize] > 0).then_some(0));
            last = Some(agent);
        }
        Ok(None)
    }
}

fn exponential(rate: f64, chance: &mut Chance) -> f64 {
    if rate <= 0.0 { f64::INFINITY } else { -(1.0 - chance.random::<f64>()).ln() / rate }
}
