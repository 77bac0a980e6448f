//! The interactive lane beside full passes, and a million armed timers.

use std::sync::Arc;
use std::time::Duration;

use agents::{Destination, PartitionSpec};
use agents_bench::{Aim, Hello, Probes, Reading, RunError, Server, Sleeper, SleeperSpec};
use agents_store::{PostgresSpec, PostgresStore, Store};
use gate::Time;

use crate::{ALLOCATOR, Bench, Failed, GOES, SEED};

/// The partition of the sleepers.
const SLEEPERS: u32 = 20;
/// Urgent messages, fewer where the benchmark is small, and the span between two.
const PROBES: [u32; 2] = [500, 150];
const SPAN: Duration = Duration::from_millis(20);
/// Agents of a batch that this arm tries beside the usual ones: the shorter a batch, the shorter a wait for it.
const BATCHES: [u32; 2] = [1_000, 200];

pub(crate) fn lane(bench: &mut Bench) -> Result<(), Failed> {
    let count = PROBES[usize::from(bench.small)];
    println!(
        "\nthe interactive lane: {count} urgent messages, one each {} ms, to agents that are not cached; half are",
        SPAN.as_millis()
    );
    let ground = bench.base();
    for batch in BATCHES {
        let held_max = bench.agents as usize;
        let spec = PartitionSpec { held_max, ..PartitionSpec::new(ground.partition, ground.room) };
        let spec = PartitionSpec { batch_agents_max: batch, ..spec };
        let mut server = Server::open(bench.store.clone(), spec)?;
        let tick = bench.next();
        let expected = bench.load.expected(std::slice::from_ref(&tick))?[0];
        server.tick([(tick, Destination::All)], expected.count, &GOES)?;
        let probes = Probes { count, every: SPAN, seed: SEED };
        let idle = server.lane(&bench.load, probes, &mut || Ok(None), &GOES)?;
        let (load, mut passes) = (bench.load.clone(), 0);
        let mut next = || -> Result<_, RunError> {
            passes += 1;
            let tick = bench.next();
            let expected = load.expected(std::slice::from_ref(&tick))?[0];
            Ok(Some((tick, expected.count)))
        };
        let busy = server.lane(&load, probes, &mut next, &GOES)?;
        server.close();
        let [idle, busy] = [idle, busy].map(|times| [0.5, 0.99].map(|p| millis(&times, p)));
        println!(
            "  batches of {batch}: idle p50 {:.1} ms, p99 {:.1} ms; beside {passes} passes p50 {:.1} ms, p99 {:.1} ms",
            idle[0], idle[1], busy[0], busy[1]
        );
        if batch == BATCHES[0] {
            let more = Reading::of(busy[1] - idle[1]);
            let name = "p99 of the lane in a pass, above an idle server's [ms]";
            println!("  {}", bench.aims.row(name, more, Aim::Most(5.0)));
        }
    }
    Ok(())
}

/// A quantile \[ms\].
fn millis(times: &[Duration], quantile: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = (quantile * sorted.len() as f64) as usize;
    sorted[at.min(sorted.len() - 1)].as_secs_f64() * 1e3
}

pub(crate) fn timers(bench: &mut Bench) -> Result<(), Failed> {
    let agents = bench.agents;
    let (timers, due) = (u64::from(agents) * 10, u64::from(agents) / 2);
    let (from, span) =
        (Duration::from_secs(if bench.small { 5 } else { 15 }), Duration::from_secs(1));
    println!(
        "\n{timers} armed timers of {agents} agents, half of these cached; {due} are due within a second"
    );
    let spec = SleeperSpec { agents, timers, due, from: Time::ZERO + from, span, bytes: 1_000 };
    let store = PostgresStore::open(bench.config.clone(), &PostgresSpec::default())?;
    let store: Arc<dyn Store<Hello>> = Arc::new(store);
    spec.populate(&*store, SLEEPERS, &GOES)?;
    let open = || {
        let held_max = agents as usize;
        let spec = PartitionSpec { held_max, ..PartitionSpec::new(SLEEPERS, agents / 2) };
        let before = ALLOCATOR.allocated();
        let server = Server::<Sleeper>::open(store.clone(), spec)?;
        Ok::<_, RunError>((server, ALLOCATOR.allocated() as f64 - before as f64))
    };
    let (bare, without) = open()?;
    bare.close();
    spec.arm(&*store, SLEEPERS, &GOES)?;
    bench.meter.run("vacuum analyze")?;
    let (mut server, with) = open()?;
    server.listen();
    // It fills the cache.
    server.tick([(Hello, Destination::All)], 0, &GOES)?;
    if server.now() >= spec.from {
        return Err("the cache was not full before the first timers were due".into());
    }
    // Up to shortly before: what is due keeps it from being idle.
    server.run_until(Time::ZERO + (from - SPAN), &GOES)?;
    let ((), costs) = bench.meter.of(|| server.run_until(spec.from + span, &GOES))?;
    let heard = server.heard();
    server.close();
    let late = heard.iter().map(|told| {
        let timer = Sleeper::timer(&told.payload).filter(|&timer| timer < due);
        let timer = timer.filter(|&timer| spec.agent(timer) == told.agent);
        Ok(told.at.since(spec.due(timer.ok_or("a timer fired that is not due")?)))
    });
    let late = late.collect::<Result<Vec<Duration>, Failed>>()?;
    if late.len() as u64 != due {
        return Err(format!("{} timers fired, {due} were due", late.len()).into());
    }
    println!(
        "  all were handled {:.2} s after that began; late p50 {:.0} ms; processor time a timer: server {:.1} us, \
         database {:.1} us",
        costs.wall.as_secs_f64(),
        millis(&late, 0.5),
        costs.own.as_secs_f64() * 1e6 / due as f64,
        costs.database.as_secs_f64() * 1e6 / due as f64
    );
    let each = Reading::of((with - without) / timers as f64);
    let late = Reading::of(millis(&late, 0.99) / 1e3);
    for (name, found, aim) in [
        ("memory of an armed timer [B]", each, Aim::Most(64.0)),
        ("p99 from when a timer is due to its commit [s]", late, Aim::Most(1.0)),
    ] {
        println!("  {}", bench.aims.row(name, found, aim));
    }
    Ok(())
}
