//! The grid: order x eviction x input and output, at several sizes of the cache, and the server's core.

use agents_bench::{Aim, Aims, Costs, Order, Reading};
use gate::{EvictionRule, Victim};

use crate::arms::{Arm, BATCH, Ground, Io, Measured, READS};
use crate::{Bench, COSTS, Failed, cells, processor_s, table, wall_s};

/// Cached shares, in per cent.
const SHARES: [u32; 4] = [10, 50, 90, 100];
const ORDERS: [Order; 3] = [Order::Same, Order::Shuffled, Order::Cohort];
const VICTIMS: [Victim; 5] = [
    Victim::Rule(EvictionRule::Lru),
    Victim::Rule(EvictionRule::Mru),
    Victim::Rule(EvictionRule::Sieve),
    Victim::Rule(EvictionRule::WTinyLfu),
    Victim::Paper,
];

/// The arms of a share.
struct Cells(Vec<(Arm, Measured)>);

impl Cells {
    /// The costs of the arm of the grid with these.
    fn of(&self, order: Order, rule: EvictionRule, io: Io) -> Costs {
        let wanted = |arm: &Arm| (arm.order, arm.victim, arm.io) == (order, Victim::Rule(rule), io);
        let found = self.0.iter().find(|(arm, _)| wanted(arm));
        found.expect("the grid has every order with every rule").1.costs
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failed> {
    println!(
        "\nthe grid. Pipelined: {READS} reads are outstanding on one connection, a statement each, and commits are one\n\
         by one; batched: up to {BATCH} agents in a statement and in a commit. `sim` goes one by one: a batch holds\n\
         its agents while it runs, so that MRU and SIEVE then choose others."
    );
    if bench.timed_of() > 1 {
        println!(
            "One by one, 1 of {} blocks of 500 turns is timed, and a pass told by proportion.",
            bench.timed_of()
        );
    }
    for share in SHARES {
        let ground = bench.ground(share);
        let cached = f64::from(share) / 100.0;
        let lru = solve::lru_hit_ratio(cached)?;
        println!(
            "\n{share} % cached; theory: at most c = {cached:.3}, lru in a new order c + (1 - c) ln (1 - c) = {lru:.3}"
        );
        let mut all = Cells(Vec::new());
        for order in ORDERS {
            for victim in VICTIMS {
                // The scheduler's LRU is the paper's rule.
                if (order, victim) == (Order::Cohort, Victim::Paper) {
                    continue;
                }
                for io in Io::ALL {
                    let arm = Arm::new(order, victim, io);
                    let found = ground.measure(bench, &arm)?;
                    all.0.push((arm, found));
                }
            }
        }
        let (hits, passes, messages) = ground.serve(bench)?;
        print(&all, (hits, &passes, messages), cached)?;
        gains(&all, &passes);
        if share == 50 {
            let lru = all.of(Order::Shuffled, EvictionRule::Lru, Io::Alone);
            aims(&mut bench.aims, &lru, &passes, bench.agents);
            sum(&all);
        }
    }
    Ok(())
}

/// Prints the table of a share.
fn print(
    all: &Cells,
    (hits, passes, messages): (f64, &[Costs], u64),
    cached: f64,
) -> Result<(), Failed> {
    let mut rows = Vec::new();
    for (arm, found) in &all.0 {
        let theory = arm.theory(cached)?.map_or(String::new(), |theory| format!("{theory:.3}"));
        let names = [arm.order_name(), arm.victim_name(), arm.io.name()].map(str::to_owned);
        let ratios = [format!("{:.3}", found.hits), format!("{:.3}", found.simulated), theory];
        rows.push([&names[..], &ratios, &cells(&[found.costs], found.messages)].concat());
    }
    let names = ["the server", "frequency", "batched"].map(str::to_owned);
    let ratios = [format!("{hits:.3}"), String::new(), format!("{cached:.3}")];
    rows.push([&names[..], &ratios, &cells(passes, messages)].concat());
    let heads = [&["order", "eviction", "I/O", "hits", "sim", "theory"], &COSTS[..]].concat();
    table::print(&heads, &rows, 3);
    Ok(())
}

/// A figure of passes: their time, or their processor time.
type Figure = fn(&[Costs]) -> Reading;

/// The figures that gains are told of.
const FIGURES: [(&str, Figure); 2] =
    [("time", |passes| Reading::of(wall_s(passes))), ("processor time", processor_s)];

/// Prints the gains by the scheduler and by batches, in time and in processor time.
fn gains(all: &Cells, server: &[Costs]) {
    let cell = |order, rule, io| all.of(order, rule, io);
    let [lru, mru] = [EvictionRule::Lru, EvictionRule::Mru]
        .map(|rule| Io::ALL.map(|io| cell(Order::Shuffled, rule, io)));
    let cohort = Io::ALL.map(|io| cell(Order::Cohort, EvictionRule::Lru, io));
    for (name, of) in FIGURES {
        let ratio = |one: &Costs, other: &Costs| of(&[*one]).over(of(&[*other]));
        let each = |one: &[Costs; 3], other: &[Costs; 3]| {
            let each = one.iter().zip(other).map(|(one, other)| ratio(one, other));
            each.map(|it| format!("{it:.2}")).collect::<Vec<_>>().join(", ")
        };
        println!("  gain in {name}, one by one, pipelined, batched:");
        println!(
            "    the scheduler instead of lru {}; mru alone {}",
            each(&lru, &cohort),
            each(&lru, &mru)
        );
        println!(
            "    pipelining {:.1} with lru, {:.1} with the scheduler; batches {:.1} and {:.1}; the server instead of \
             lru one by one {:.1}",
            ratio(&lru[0], &lru[1]),
            ratio(&cohort[0], &cohort[1]),
            ratio(&lru[0], &lru[2]),
            ratio(&cohort[0], &cohort[2]),
            of(&[lru[0]]).over(of(server)),
        );
    }
}

/// Says what brings more.
fn sum(all: &Cells) {
    let lru = |io| all.of(Order::Shuffled, EvictionRule::Lru, io);
    let cohort = |io| all.of(Order::Cohort, EvictionRule::Lru, io);
    for (name, of) in FIGURES {
        let ratio = |one: Costs, other: Costs| of(&[one]).over(of(&[other]));
        let scheduler = ratio(lru(Io::Alone), cohort(Io::Alone));
        let batches = ratio(lru(Io::Alone), lru(Io::Batched));
        let both = ratio(lru(Io::Alone), cohort(Io::Batched));
        println!(
            "  plainly, half cached, in {name}: the scheduler alone brings {scheduler:.1} times, batches alone \
             {batches:.1} times, both {both:.1} times: batches bring {:.1} times what the scheduler does",
            batches.over(scheduler)
        );
    }
}

/// Prints what the server should reach where half of the agents are cached.
fn aims(aims: &mut Aims, lru: &Costs, server: &[Costs], agents: u32) {
    let own = Reading::of_processor(server.iter().map(|costs| costs.own).sum());
    let each = own.times(1e6 / server.len() as f64 / f64::from(agents));
    let times = Reading::of(lru.wall.as_secs_f64() / wall_s(server));
    for (name, found, aim) in [
        ("server's processor time of an agent, half cached [us]", each, Aim::Most(1.5)),
        ("times as fast as lru one by one, half cached", times, Aim::Least(40.0)),
    ] {
        println!("  {}", aims.row(name, found, aim));
    }
}

/// The accounts of the grid at a cached share.
impl Bench {
    fn ground(&self, share: u32) -> Ground {
        let room = (u64::from(self.agents) * u64::from(share) / 100) as u32;
        Ground { room, ..self.base() }
    }
}
