//! An arm: an order, a rule of eviction, and a way of input and output, over the accounts of a partition.

use agents::{Destination, Key, PartitionSpec};
use agents_bench::{
    Account, Blocks, Costs, Direct, Fired, Load, Order, Policy, PolicySpec, RunError, Server, Tick,
};
use gate::{CohortSpec, EvictionRule, SchedulerSpec, Victim};
use sim::agents::{AgentOrder, Audience, Multicasts, hit_ratio};

use crate::{Bench, Failed, GOES, SEED, checked, goes_on};

/// Agents of a batch.
pub(crate) const BATCH: u32 = 1_000;
/// Reads that are outstanding at once.
pub(crate) const READS: u32 = 128;
/// Turns of a block of a pass that is timed in part.
const BLOCK: usize = 500;
/// Most distance of a measured hit ratio of one pass, one by one, from that of `sim`.
const OFF_MOST: f64 = 0.05;

/// Ways of input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// An agent is loaded, runs and is committed before the next is loaded.
    Alone,
    /// [`READS`] reads are outstanding on one connection, each a statement; commits are one by one.
    Pipelined,
    /// [`BATCH`] agents are loaded and committed together.
    Batched,
}

impl Io {
    pub(crate) const ALL: [Io; 3] = [Io::Alone, Io::Pipelined, Io::Batched];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Io::Alone => "one by one",
            Io::Pipelined => "pipelined",
            Io::Batched => "batched",
        }
    }
}

/// An arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arm {
    pub(crate) order: Order,
    pub(crate) victim: Victim,
    pub(crate) io: Io,
}

impl Arm {
    pub(crate) fn new(order: Order, victim: impl Into<Victim>, io: Io) -> Arm {
        Arm { order, victim: victim.into(), io }
    }

    pub(crate) fn order_name(&self) -> &'static str {
        match self.order {
            Order::Same => "same",
            Order::Shuffled => "shuffled",
            Order::Cohort => "cohort",
        }
    }

    /// The scheduler spares those with messages, so that LRU is the paper's rule there.
    pub(crate) fn victim_name(&self) -> &'static str {
        match (self.order, self.victim) {
            (Order::Cohort, Victim::Rule(EvictionRule::Lru) | Victim::Paper) => "lru = paper",
            (_, Victim::Rule(EvictionRule::Lru)) => "lru",
            (_, Victim::Rule(EvictionRule::Mru)) => "mru",
            (_, Victim::Rule(EvictionRule::Sieve)) => "sieve",
            (_, Victim::Rule(EvictionRule::WTinyLfu)) => "w-tiny-lfu",
            (_, Victim::Rule(EvictionRule::Frequency)) => "frequency",
            (_, Victim::Paper) => "paper",
        }
    }

    /// The hit ratio by theory, where there is one: of full multicasts, one at a time.
    pub(crate) fn theory(&self, cached: f64) -> Result<Option<f64>, Failed> {
        let bound = Some(cached);
        Ok(match (self.order, self.victim) {
            (Order::Cohort, _) | (_, Victim::Paper | Victim::Rule(EvictionRule::Mru)) => bound,
            (Order::Shuffled, Victim::Rule(EvictionRule::Lru)) => {
                Some(solve::lru_hit_ratio(cached)?)
            }
            (Order::Same, Victim::Rule(EvictionRule::Lru)) if cached < 1.0 => Some(0.0),
            (Order::Same | Order::Shuffled, _) if cached >= 1.0 => bound,
            (Order::Same | Order::Shuffled, _) => None,
        })
    }
}

/// Accounts in a partition, and what a pass over them is.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) partition: u32,
    pub(crate) load: Load,
    /// Agents in the cache.
    pub(crate) room: u32,
    pub(crate) dirt: Dirt,
    pub(crate) audience: Audience,
    /// Multicasts that are outstanding.
    pub(crate) outstanding: u32,
    /// Passes without content before a pass is measured.
    pub(crate) warm_up: u32,
    /// Of a pass one by one, one block of so many is timed.
    pub(crate) timed_of: usize,
}

/// The share of agents that a tick changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirt {
    None,
    Tenth,
    All,
}

/// A pass of an arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) hits: f64,
    /// The costs of a whole pass, by proportion where a part was timed.
    pub(crate) costs: Costs,
    /// Messages of the pass.
    pub(crate) messages: u64,
    /// The hit ratio by `sim`.
    pub(crate) simulated: f64,
}

impl Ground {
    pub(crate) fn agents(&self) -> u32 {
        self.load.spec().agents
    }

    pub(crate) fn tick(&self, number: u64) -> Tick {
        match self.dirt {
            Dirt::None => self.load.calm(number),
            Dirt::Tenth => self.load.tick(number),
            Dirt::All => self.load.shock(number),
        }
    }

    /// The next ticks, and what each must lead to at these receivers.
    fn ticks(&self, bench: &mut Bench) -> Vec<Tick> {
        (0..self.outstanding).map(|_| self.tick(bench.number())).collect()
    }

    /// The hit ratio of an arm by the simulator, over the same policies.
    pub(crate) fn simulated(&self, arm: &Arm) -> Result<f64, Failed> {
        let order = match arm.order {
            Order::Same => AgentOrder::Same(self.room, arm.victim),
            Order::Shuffled => AgentOrder::Shuffled(self.room, arm.victim),
            Order::Cohort => {
                let (capacity, run_max) = (self.room, 1);
                let cohorts = CohortSpec { capacity, run_max, cached_max: None, levels: 1 };
                let eviction = match arm.victim {
                    Victim::Rule(rule) => rule,
                    Victim::Paper => EvictionRule::Lru,
                };
                AgentOrder::Cohorts(SchedulerSpec { eviction, ..SchedulerSpec::from(cohorts) })
            }
        };
        let estimate = hit_ratio(&Multicasts {
            agents: self.agents(),
            order,
            audience: self.audience,
            outstanding: self.outstanding,
            warm_up: self.warm_up,
            rounds: 2,
            seed: SEED,
        });
        Ok(estimate.map_err(|error| format!("{error:?}"))?.mean)
    }

    fn policy(&self, arm: &Arm) -> Result<Policy, Failed> {
        let (agents, room) = (self.agents(), self.room);
        let spec = PolicySpec { agents, room, order: arm.order, victim: arm.victim, seed: SEED };
        let policy = Policy::new(spec).map_err(|error| format!("{error:?}"))?;
        let policy = policy.outstanding(self.outstanding);
        Ok(match self.audience {
            Audience::All => policy,
            Audience::Popular { .. } => policy.for_some(self.audience.chances(agents)),
        })
    }

    /// A pass of an arm.
    pub(crate) fn measure(&self, bench: &mut Bench, arm: &Arm) -> Result<Measured, Failed> {
        let simulated = self.simulated(arm)?;
        let most = (self.room / 2).max(1);
        let chunk = match arm.io {
            Io::Alone => 1,
            Io::Pipelined => READS.min(most),
            Io::Batched => BATCH.min(most),
        };
        let postgres = bench.postgres.clone();
        let each = |keys: &[Key]| postgres.read_each(self.partition, keys);
        let store = bench.store.clone();
        let warm = (self.agents(), chunk as usize, self.warm_up);
        let direct = Direct::open(&*store, self.partition, self.policy(arm)?, warm)?;
        let mut direct = match arm.io {
            Io::Pipelined => direct.reading_each(&each),
            Io::Alone | Io::Batched => direct,
        };
        let ticks = self.ticks(bench);
        let is_sampled = arm.io == Io::Alone && self.timed_of > 1;
        let (fired, costs) = match is_sampled {
            true => self.sample(bench, &mut direct, &ticks[0])?,
            false => bench.meter.of(|| direct.pass(&ticks, &GOES))?,
        };
        let mut messages = 0;
        for ((receivers, tick), fired) in direct.receivers().iter().zip(&ticks).zip(fired) {
            messages += receivers.len() as u64;
            let keys = receivers.iter().map(|&agent| Key(agent.into()));
            let expected = self.load.expected_of(keys, std::slice::from_ref(tick))?[0];
            checked(&format!("{arm:?}"), fired, expected)?;
        }
        let hits = direct.hit_ratio();
        // A batch holds its agents while it runs, so that some rules then choose others.
        if arm.io == Io::Alone && (hits - simulated).abs() > OFF_MOST {
            return Err(format!("{arm:?}: hits {hits}, sim {simulated}").into());
        }
        Ok(Measured { hits, costs, messages, simulated })
    }

    /// A pass one by one, of which some blocks are timed: the costs of the whole by proportion.
    fn sample(
        &self,
        bench: &Bench,
        direct: &mut Direct<'_>,
        tick: &Tick,
    ) -> Result<(Vec<Fired>, Costs), Failed> {
        let (mut costs, mut parts) = (Costs::default(), 0);
        let blocks = Blocks { turns: BLOCK, of: self.timed_of };
        let mut timed = |part: &mut dyn FnMut() -> Result<(), RunError>| {
            let ((), cost) = bench.meter.of(part)?;
            costs.add(&cost);
            parts += 1;
            Ok(())
        };
        let fired = direct.sampled(tick, &GOES, (blocks, &mut timed))?;
        let all = f64::from(self.agents());
        assert_eq!(self.agents() as usize % BLOCK, 0, "all blocks are full ones");
        Ok((vec![fired], costs.times(all / (f64::from(parts) * BLOCK as f64))))
    }

    /// The parameters of the server's core.
    fn spec(&self) -> PartitionSpec {
        let held_max = self.agents() as usize;
        PartitionSpec { held_max, ..PartitionSpec::new(self.partition, self.room) }
    }

    pub(crate) fn open(&self, bench: &Bench) -> Result<Server<Account>, Failed> {
        Ok(Server::<Account>::open(bench.store.clone(), self.spec())?)
    }

    /// The server's core: the hits of all its passes, the costs of each, and the messages of a pass.
    pub(crate) fn serve(&self, bench: &mut Bench) -> Result<(f64, Vec<Costs>, u64), Failed> {
        let mut server = self.open(bench)?;
        // The policy draws the receivers and does nothing else.
        let mut drawn = self.policy(&Arm::new(Order::Same, EvictionRule::Mru, Io::Alone))?;
        let mut messages = 0;
        let mut pass = |bench: &mut Bench, server: &mut Server<Account>| -> Result<_, Failed> {
            drawn.pass();
            let ticks = self.ticks(bench);
            let (mut offers, mut expected) = (Vec::new(), Fired::default());
            for (tick, receivers) in ticks.into_iter().zip(drawn.receivers()) {
                let keys: Vec<Key> = receivers.iter().map(|&agent| Key(agent.into())).collect();
                let one = std::slice::from_ref(&tick);
                expected.merge(self.load.expected_of(keys.iter().copied(), one)?[0]);
                messages = keys.len() as u64 * u64::from(self.outstanding);
                let to = match self.audience {
                    Audience::All => Destination::All,
                    Audience::Popular { .. } => Destination::Keys(keys.into()),
                };
                offers.push((tick, to));
            }
            let (fired, costs) = bench.meter.of(|| server.tick(offers, expected.count, &GOES))?;
            checked("the server", fired, expected)?;
            Ok(costs)
        };
        // The first ones fill the cache.
        let warm_up = if self.audience == Audience::All { 1 } else { self.warm_up };
        for _ in 0..warm_up {
            pass(bench, &mut server)?;
        }
        let before = server.counts();
        let mut passes = Vec::new();
        while goes_on(&passes) {
            passes.push(pass(bench, &mut server)?);
        }
        let counts = server.counts();
        server.close();
        let loads = (counts.loads - before.loads) as f64;
        // An agent that is loaded handles all its messages: a hit is a message without a load.
        let handled = (counts.handled - before.handled) as f64;
        Ok((1.0 - loads / handled, passes, messages))
    }
}
