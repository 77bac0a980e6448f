//! The grid: order x eviction x input and output, at several sizes of the cache, and the server's core.

use agents::{Destination, PartitionSpec};
use agents_bench::{Account, Aim, Aims, Costs, Direct, Order, Policy, PolicySpec, Reading, Server};
use gate::{CohortSpec, EvictionRule, SchedulerSpec};
use sim::agents::{AgentOrder, Audience, Multicasts, hit_ratio};

use crate::{
    Bench, COSTS, Failed, GOES, PARTITION, SEED, cells, checked, goes_on, processor_s, table,
    wall_s,
};

/// Cached shares, in per cent.
const SHARES: [u32; 4] = [10, 50, 90, 100];
const ORDERS: [(Order, &str); 3] =
    [(Order::Same, "same"), (Order::Shuffled, "shuffled"), (Order::Cohort, "cohort")];
const VICTIMS: [(EvictionRule, &str); 4] = [
    (EvictionRule::Lru, "lru"),
    (EvictionRule::Mru, "mru"),
    (EvictionRule::Sieve, "sieve"),
    (EvictionRule::WTinyLfu, "w-tiny-lfu"),
];
/// Passes without content before a pass is measured.
const WARM_UP: u32 = 20;
/// Agents of a batch.
const BATCH: u32 = 1_000;
/// Most distance of the measured hit ratio of one pass from that of `sim`, one by one.
const OFF_MOST: f64 = 0.05;

/// A cell: a pass one by one and one in batches.
struct Measured {
    hits: [f64; 2],
    costs: [Costs; 2],
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    println!(
        "\nthe grid. `sim` goes one by one: a batch holds its agents while it runs, so that MRU and SIEVE\n\
         then choose others."
    );
    for share in SHARES {
        let room = (u64::from(bench.agents) * u64::from(share) / 100) as u32;
        let cached = f64::from(share) / 100.0;
        let lru = solve::lru_hit_ratio(cached)?;
        println!("\n{share} % cached; theory: cohorts {cached:.3}, lru in a new order {lru:.3}");
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        for (order, order_name) in ORDERS {
            for (victim, victim_name) in VICTIMS {
                let simulated = simulated(bench, order, victim, room)?;
                let found = cell(bench, order, victim, room)?;
                if (found.hits[0] - simulated).abs() > OFF_MOST {
                    let told = format!(
                        "{order_name} {victim_name}: hits {}, sim {simulated}",
                        found.hits[0]
                    );
                    return Err(told.into());
                }
                for (at, io) in ["one by one", "batched"].into_iter().enumerate() {
                    let hits = format!("{:.3}", found.hits[at]);
                    let names = [order_name, victim_name, io].map(str::to_owned);
                    let row = [&names[..], &[hits, format!("{simulated:.3}")]].concat();
                    rows.push([row, cells(&found.costs[at..=at], bench.agents.into())].concat());
                }
                all.push(found.costs);
            }
        }
        let (hits, passes) = server(bench, room)?;
        let names = ["the server", "frequency", "batched"].map(str::to_owned);
        let row = [&names[..], &[format!("{hits:.3}"), String::new()]].concat();
        rows.push([row, cells(&passes, bench.agents.into())].concat());
        let heads = [&["order", "eviction", "I/O", "hits", "sim"], &COSTS[..]].concat();
        table::print(&heads, &rows, 3);
        // Orders have four rules each: of each the first one is lru, the second mru.
        gains([&all[4], &all[5], &all[8]], &passes);
        if share == 50 {
            aims(&mut bench.aims, &all[4][0], &passes, bench.agents);
        }
    }
    Ok(())
}

/// Prints the gains by the scheduler and by batches, in time and in processor time.
fn gains([lru, mru, cohort]: [&[Costs; 2]; 3], server: &[Costs]) {
    let wall = |passes: &[Costs]| Reading::of(wall_s(passes));
    for (name, of) in [("time", wall as fn(&[Costs]) -> Reading), ("processor time", processor_s)] {
        let ratio = |one: &Costs, other: &Costs| of(&[*one]).over(of(&[*other]));
        println!(
            "  gain in {name}: scheduler instead of lru {:.2} one by one, {:.2} in batches (mru alone {:.2}, {:.2});\n  \
             batches {:.1} with lru, {:.1} with the scheduler; the server instead of lru one by one {:.1}",
            ratio(&lru[0], &cohort[0]),
            ratio(&lru[1], &cohort[1]),
            ratio(&lru[0], &mru[0]),
            ratio(&lru[1], &mru[1]),
            ratio(&lru[0], &lru[1]),
            ratio(&cohort[0], &cohort[1]),
            of(&[lru[0]]).over(of(server)),
        );
    }
}

/// Prints what the server should reach where half of the agents are cached.
fn aims(aims: &mut Aims, lru: &Costs, server: &[Costs], agents: u32) {
    let own = Reading::of_processor(server.iter().map(|costs| costs.own).sum());
    let each = own.times(1e6 / server.len() as f64 / f64::from(agents));
    let times = Reading::of(lru.wall.as_secs_f64() / wall_s(server));
    let million = Reading::of(wall_s(server) * 1e6 / f64::from(agents));
    for (name, found, aim) in [
        ("server's processor time of an agent, half cached [us]", each, Aim::Most(1.5)),
        ("times as fast as lru one by one, half cached", times, Aim::Least(40.0)),
        ("a pass over a million, half cached, by proportion [s]", million, Aim::Most(3.0)),
    ] {
        println!("  {}", aims.row(name, found, aim));
    }
}

fn simulated(bench: &Bench, order: Order, victim: EvictionRule, room: u32) -> Result<f64, Failed> {
    let order = match order {
        Order::Same => AgentOrder::Same(room, victim),
        Order::Shuffled => AgentOrder::Shuffled(room, victim),
        Order::Cohort => {
            let cohorts = CohortSpec { capacity: room, run_max: 1, cached_max: None, levels: 1 };
            AgentOrder::Cohorts(SchedulerSpec { eviction: victim, ..SchedulerSpec::from(cohorts) })
        }
    };
    let estimate = hit_ratio(&Multicasts {
        agents: bench.agents,
        order,
        audience: Audience::All,
        outstanding: 1,
        warm_up: WARM_UP,
        rounds: 2,
        seed: SEED,
    });
    Ok(estimate.map_err(|error| format!("{error:?}"))?.mean)
}

fn cell(
    bench: &mut Bench,
    order: Order,
    victim: EvictionRule,
    room: u32,
) -> Result<Measured, Failed> {
    let agents = bench.agents;
    let (mut hits, mut costs) = ([0.0; 2], [Costs::default(); 2]);
    for (at, chunk) in [1, BATCH.min(room / 2)].into_iter().enumerate() {
        let policy = Policy::new(PolicySpec { agents, room, order, victim, seed: SEED });
        let policy = policy.map_err(|error| format!("{error:?}"))?;
        let tick = bench.next();
        let expected = bench.load.expected(std::slice::from_ref(&tick))?[0];
        let warm = (agents, chunk as usize, WARM_UP);
        let mut direct = Direct::open(&*bench.store, PARTITION, policy, warm)?;
        let (fired, cost) = bench.meter.of(|| direct.tick(&tick, &GOES))?;
        checked(&format!("{order:?} {victim:?} {chunk}"), fired, expected)?;
        (hits[at], costs[at]) = (direct.hit_ratio(), cost);
    }
    Ok(Measured { hits, costs })
}

/// The server's core: the hits of all its passes, and the costs of each.
fn server(bench: &mut Bench, room: u32) -> Result<(f64, Vec<Costs>), Failed> {
    let held_max = bench.agents as usize;
    let spec = PartitionSpec { held_max, ..PartitionSpec::new(PARTITION, room) };
    let mut server = Server::<Account>::open(bench.store.clone(), spec)?;
    let pass = |bench: &mut Bench, server: &mut Server<Account>| -> Result<Costs, Failed> {
        let tick = bench.next();
        let expected = bench.load.expected(std::slice::from_ref(&tick))?[0];
        let all = (tick, Destination::All);
        let (fired, costs) = bench.meter.of(|| server.tick([all], expected.count, &GOES))?;
        checked("the server", fired, expected)?;
        Ok(costs)
    };
    // The first one fills the cache.
    pass(bench, &mut server)?;
    let before = server.counts();
    let mut passes = Vec::new();
    while goes_on(&passes) {
        passes.push(pass(bench, &mut server)?);
    }
    let counts = server.counts();
    server.close();
    let (hits, loads) = (counts.hits - before.hits, counts.loads - before.loads);
    Ok((hits as f64 / (hits + loads) as f64, passes))
}
