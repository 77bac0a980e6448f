//! Each other factor varied alone, half of the agents cached; and a pass over ten times as many agents.

use std::sync::Arc;
use std::thread;

use agents::{Destination, PartitionSpec};
use agents_bench::{
    Account, Aim, Costs, Direct, Fired, Load, LoadSpec, Order, Policy, PolicySpec, Reading, Server,
    populate,
};
use agents_store::{PostgresStore, Store};
use gate::EvictionRule;
use sim::agents::Audience;

use crate::arms::{Arm, BATCH, Dirt, Ground, Io};
use crate::{Bench, COSTS, Failed, GOES, SEED, cells, checked, goes_on, table, wall_s};

/// Partitions: of a tenth of the accounts, of as many with 30 kB, of ten times as many, and of two halves.
const FEW: u32 = 10;
const LARGE: u32 = 11;
const MANY: u32 = 12;
const HALVES: [u32; 2] = [13, 14];
/// The second size of an account \[bytes\].
const LARGE_BYTES: usize = 30_000;
/// Receivers of skewed multicasts: a tenth of the agents each.
const SKEWED: Audience = Audience::Popular { exponent: 0.8, share: 0.1 };
/// Passes before skewed multicasts are measured: a cache learns who is popular.
const SKEWED_WARM_UP: u32 = 30;

/// The arms that stand for all: without the scheduler and with it, one by one and in batches.
const ARMS: [(Order, EvictionRule, Io); 4] = [
    (Order::Shuffled, EvictionRule::Lru, Io::Alone),
    (Order::Cohort, EvictionRule::Lru, Io::Alone),
    (Order::Shuffled, EvictionRule::Lru, Io::Batched),
    (Order::Cohort, EvictionRule::Lru, Io::Batched),
];
/// The rule of the server among them, where multicasts are skewed.
const FREQUENT: [(Order, EvictionRule, Io); 2] = [
    (Order::Cohort, EvictionRule::Frequency, Io::Alone),
    (Order::Cohort, EvictionRule::Frequency, Io::Batched),
];

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    println!("\neach factor alone, half of the agents cached; `each` is a message of the pass");
    let base = bench.base();
    let mut rows = Vec::new();
    let full = [
        ("a tenth changed", base.clone()),
        ("none changed", Ground { dirt: Dirt::None, ..base.clone() }),
        ("all changed", Ground { dirt: Dirt::All, ..base.clone() }),
        (
            "skewed, a tenth receives",
            Ground { audience: SKEWED, warm_up: SKEWED_WARM_UP, timed_of: 1, ..base.clone() },
        ),
    ];
    for (name, ground) in full {
        measured(bench, name, &ground, &mut rows)?;
    }
    threads(bench, &base, &mut rows)?;
    let few = filled(bench, (FEW, bench.agents / 10, 1_000))?;
    for outstanding in [1, 4, 16] {
        let name = format!("{} agents, {outstanding} outstanding", few.agents());
        let ground = Ground { outstanding, timed_of: 1, ..few.clone() };
        measured(bench, &name, &ground, &mut rows)?;
    }
    let large = filled(bench, (LARGE, bench.agents / 10, LARGE_BYTES))?;
    let name = format!("{} agents of 30 kB", large.agents());
    measured(bench, &name, &Ground { timed_of: 1, ..large }, &mut rows)?;
    let heads = [&["factor", "order", "eviction", "I/O", "hits", "sim"], &COSTS[..]].concat();
    table::print(&heads, &rows, 4);
    Ok(())
}

/// Ten times as many agents in four named arms.
pub(crate) fn many(bench: &mut Bench) -> Result<(), Failed> {
    let agents = bench.agents * 10;
    println!("\n{agents} agents of 1 kB, half of them cached");
    let ground = filled(bench, (MANY, agents, 1_000))?;
    let timed_of = if bench.small { 10 } else { 40 };
    println!("One by one, 1 of {timed_of} blocks of 500 turns is timed.");
    // A pass is over all agents: what the cache holds is settled after one.
    let ground = Ground { timed_of, warm_up: 3, ..ground };
    let (mut rows, mut one_by_one) = (Vec::new(), Vec::new());
    for (order, rule, io) in [ARMS[0], ARMS[1], ARMS[3]] {
        let arm = Arm::new(order, rule, io);
        let found = ground.measure(bench, &arm)?;
        rows.push(row(&arm, &[found.costs], (found.hits, Some(found.simulated)), found.messages));
        one_by_one.push(found.costs);
    }
    let (hits, passes, messages) = ground.serve(bench)?;
    rows.push(server_row(&passes, hits, messages));
    table::print(&[&["order", "eviction", "I/O", "hits", "sim"], &COSTS[..]].concat(), &rows, 3);
    let times = Reading::of(wall_s(&one_by_one[..1]) / wall_s(&passes));
    println!("  the server is {times:.1} times as fast as lru one by one");
    if !bench.small {
        let pass = Reading::of(wall_s(&passes));
        println!(
            "  {}",
            bench.aims.row("a pass over a million, half cached [s]", pass, Aim::Most(3.0))
        );
    }
    Ok(())
}

/// Accounts of a size in a partition of their own.
fn filled(
    bench: &mut Bench,
    (partition, agents, bytes): (u32, u32, usize),
) -> Result<Ground, Failed> {
    let spec = LoadSpec { bytes, ..LoadSpec::new(agents, SEED + u64::from(partition)) };
    let load = Load::new(spec);
    populate(&load, &*bench.store, partition, (&GOES, |_| ()))?;
    bench.meter.run("vacuum analyze")?;
    bench.meter.run("checkpoint")?;
    Ok(Ground { partition, load, room: agents / 2, ..bench.base() })
}

/// All arms of a factor.
fn measured(
    bench: &mut Bench,
    name: &str,
    ground: &Ground,
    rows: &mut Vec<Vec<String>>,
) -> Result<(), Failed> {
    let frequent = if ground.audience == Audience::All { &[] } else { &FREQUENT[..] };
    for &(order, rule, io) in ARMS.iter().chain(frequent) {
        let arm = Arm::new(order, rule, io);
        let found = ground.measure(bench, &arm)?;
        let ratios = (found.hits, Some(found.simulated));
        rows.push(named(name, row(&arm, &[found.costs], ratios, found.messages)));
    }
    let (hits, passes, messages) = ground.serve(bench)?;
    rows.push(named(name, server_row(&passes, hits, messages)));
    Ok(())
}

fn named(name: &str, row: Vec<String>) -> Vec<String> {
    [vec![name.to_owned()], row].concat()
}

/// A row of an arm: hits measured and, where there is one, simulated.
fn row(
    arm: &Arm,
    passes: &[Costs],
    (hits, simulated): (f64, Option<f64>),
    messages: u64,
) -> Vec<String> {
    let names = [arm.order_name(), arm.victim_name(), arm.io.name()].map(str::to_owned);
    let simulated = simulated.map_or(String::new(), |it| format!("{it:.3}"));
    [&names[..], &[format!("{hits:.3}"), simulated], &cells(passes, messages)].concat()
}

fn server_row(passes: &[Costs], hits: f64, messages: u64) -> Vec<String> {
    let names = ["the server", "frequency", "batched"].map(str::to_owned);
    [&names[..], &[format!("{hits:.3}"), String::new()], &cells(passes, messages)].concat()
}

/// Two partitions of half the agents, each on a thread and on connections of its own.
fn threads(bench: &mut Bench, base: &Ground, rows: &mut Vec<Vec<String>>) -> Result<(), Failed> {
    let halves = [
        filled(bench, (HALVES[0], bench.agents / 2, 1_000))?,
        filled(bench, (HALVES[1], bench.agents / 2, 1_000))?,
    ];
    let stores = [bench.another()?, bench.another()?];
    let name = "two threads, half each";
    for (order, rule, io) in [ARMS[0], ARMS[3]] {
        let arm = Arm::new(order, rule, io);
        let costs = direct_threads(bench, (&halves, &stores), &arm)?;
        let simulated = base.simulated(&arm)?;
        let mut row = row(&arm, &[costs], (0.0, Some(simulated)), bench.agents.into());
        row[3] = String::new();
        rows.push(named(name, row));
    }
    let passes = server_threads(bench, (&halves, &stores))?;
    let mut row = server_row(&passes, 0.0, bench.agents.into());
    row[3] = String::new();
    rows.push(named(name, row));
    Ok(())
}

/// The halves, and a store of its own for each.
type Threads<'a> = (&'a [Ground; 2], &'a [Arc<PostgresStore>; 2]);

/// A pass of an arm on two threads.
fn direct_threads(
    bench: &mut Bench,
    (halves, stores): Threads<'_>,
    arm: &Arm,
) -> Result<Costs, Failed> {
    let number = bench.number();
    let mut passes = Vec::new();
    for (half, store) in halves.iter().zip(stores) {
        let (agents, room) = (half.agents(), half.room);
        let spec = PolicySpec { agents, room, order: arm.order, victim: arm.victim, seed: SEED };
        let policy = Policy::new(spec).map_err(|error| format!("{error:?}"))?;
        let chunk = if arm.io == Io::Alone { 1 } else { BATCH.min(room / 2) } as usize;
        let warm = (agents, chunk, half.warm_up);
        passes.push((Direct::open(&**store, half.partition, policy, warm)?, half.tick(number)));
    }
    let (fired, costs) = bench.meter.of(|| {
        thread::scope(|scope| {
            let each = passes
                .iter_mut()
                .map(|(direct, tick)| scope.spawn(|| direct.tick(tick, &GOES)))
                .collect::<Vec<_>>();
            each.into_iter().map(|it| it.join().expect("it did not panic")).collect()
        })
    })?;
    all_told(halves, number, fired)?;
    Ok(costs)
}

/// Passes of the server's core on two threads.
fn server_threads(bench: &mut Bench, (halves, stores): Threads<'_>) -> Result<Vec<Costs>, Failed> {
    let open = |(half, store): (&Ground, &Arc<PostgresStore>)| {
        let store: Arc<dyn Store<_>> = store.clone();
        let held_max = half.agents() as usize;
        let spec = PartitionSpec { held_max, ..PartitionSpec::new(half.partition, half.room) };
        Server::<Account>::open(store, spec)
    };
    let servers: Result<Vec<_>, _> = halves.iter().zip(stores).map(open).collect();
    let (mut servers, mut passes, mut is_warm) = (servers?, Vec::new(), false);
    while goes_on(&passes) {
        let number = bench.number();
        let mut ticks = Vec::new();
        for half in halves {
            let tick = half.tick(number);
            let count = half.load.expected(std::slice::from_ref(&tick))?[0].count;
            ticks.push((tick, count));
        }
        let (fired, costs) = bench.meter.of(|| {
            thread::scope(|scope| {
                let each = servers.iter_mut().zip(ticks).map(|(server, (tick, count))| {
                    scope.spawn(move || server.tick([(tick, Destination::All)], count, &GOES))
                });
                let each: Vec<_> = each.collect();
                each.into_iter().map(|it| it.join().expect("it did not panic")).collect()
            })
        })?;
        all_told(halves, number, fired)?;
        // The first one fills the caches.
        if is_warm {
            passes.push(costs);
        }
        is_warm = true;
    }
    servers.into_iter().for_each(Server::close);
    Ok(passes)
}

fn all_told(halves: &[Ground; 2], number: u64, fired: Vec<Fired>) -> Result<(), Failed> {
    for (half, fired) in halves.iter().zip(fired) {
        let expected = half.load.expected(&[half.tick(number)])?[0];
        checked("two threads", fired, expected)?;
    }
    Ok(())
}
