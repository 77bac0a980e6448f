//! The speeds that depend on no database: agents in cache a second of a core, and bytes of memory an agent.

use std::sync::Arc;
use std::time::Duration;

use agents::{Destination, PartitionSpec};
use agents_bench::{
    Account, Aim, Load, LoadSpec, Price, Reading, Server, Tick, Watch, WatchSpec, populate,
};
use agents_store::{Memory, Store};

use crate::{ALLOCATOR, Bench, Failed, GOES, PARTITION, SEED};

/// Number of agents: so few that memory takes them, so many that a processor's caches do not.
const AGENTS: u32 = 100_000;
/// Processor time that passes are repeated for: it is told in steps of 10 ms.
const TIME: Duration = Duration::from_secs(1);
/// Most passes.
const PASSES_MAX: u32 = 500;
/// The smallest cache that there can be.
const ROOM_MIN: u32 = 16;

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    println!("\n{AGENTS} agents, a store in memory");
    // Limits that no price is outside of.
    let load = Load::new(LoadSpec { limits: 100.0, ..LoadSpec::new(AGENTS, SEED) });
    let store: Arc<dyn Store<Tick>> = Arc::new(Memory::new());
    populate(&load, &*store, PARTITION, (&GOES, |_| ()))?;
    let before = ALLOCATOR.allocated();
    let few = Server::<Account>::open(store.clone(), PartitionSpec::new(PARTITION, ROOM_MIN))?;
    let cold = each(before);
    few.close();
    let before = ALLOCATOR.allocated();
    let mut server = Server::<Account>::open(store, PartitionSpec::new(PARTITION, AGENTS))?;
    let mut pass = |number| -> Result<_, Failed> {
        let tick = load.tick(number);
        let (fired, costs) =
            bench.meter.of(|| server.tick([(tick, Destination::All)], 0, &GOES))?;
        if fired.count > 0 {
            return Err(format!("{} agents are outside of what nothing is", fired.count).into());
        }
        Ok(costs)
    };
    // The first one fills the cache.
    pass(0)?;
    let cached = each(before);
    let (mut own, mut passes) = (Duration::ZERO, 0);
    while own < TIME && passes < PASSES_MAX {
        passes += 1;
        own += pass(passes.into())?.own;
    }
    server.close();
    let agents = Reading::of(f64::from(passes) * f64::from(AGENTS));
    let speed = agents.over(Reading::of_processor(own));
    let [cached, cold, bound] = [cached, cold, bounded(cold)?].map(Reading::of);
    for (name, found, aim) in [
        ("cached, a rule over 10 holdings, agents a second a core", speed, Aim::Least(5e6)),
        ("memory of a cached agent of 1 kB [B]", cached, Aim::Most(1_200.0)),
        ("memory of one that is not cached [B]", cold, Aim::Most(40.0)),
        ("memory of a bound [B]", bound, Aim::Most(16.0)),
    ] {
        println!("  {}", bench.aims.row(name, found, aim));
    }
    Ok(())
}

/// Bytes of a bound: what an agent with one takes beyond one without.
fn bounded(cold: f64) -> Result<f64, Failed> {
    let store: Arc<dyn Store<Price>> = Arc::new(Memory::new());
    let spec = WatchSpec { agents: AGENTS, symbols: 5, bytes: 20 };
    spec.populate(&*store, PARTITION, &GOES)?;
    let before = ALLOCATOR.allocated();
    let server = Server::<Watch>::open(store, PartitionSpec::new(PARTITION, ROOM_MIN))?;
    let all = each(before);
    server.close();
    Ok(all - cold)
}

/// Bytes an agent since then; below zero if more was given back than taken.
fn each(before: usize) -> f64 {
    (ALLOCATOR.allocated() as f64 - before as f64) / f64::from(AGENTS)
}
