//! Passes of prices over stock accounts of 1 kB in a private PostgreSQL: each order with each eviction rule, one
//! by one, with many reads outstanding and in batches, with the hit ratio of `sim` beside; each other factor alone;
//! ten times as many agents; the server's core beside the same rule as one statement of SQL and beside an index; its
//! speed in memory, its timers, its interactive lane. All must notify the same owners of the same profits, or it ends.
//!
//!     cargo xtask bench agents                      # 100,000 accounts: less than an hour
//!     cargo xtask bench agents --small              # 5,000: minutes
//!     cargo xtask bench agents --rival pekko        # 10,000 beside an actor library of the JVM
//!     cargo xtask bench agents --small --part=grid  # one part of: grid, factors, many, sql, index, speed, lane, timers
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod arms;
mod factors;
mod grid;
mod index;
mod lane;
mod pekko;
mod speed;
mod sql;
mod table;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use agents_bench::{Aims, Costs, Fired, Load, LoadSpec, Meter, Reading, Tick, populate};
use agents_store::{PostgresSpec, PostgresStore, Store};
use cap::Cap;
use mimalloc::MiMalloc;
use postgres::{Private, Settings};
use sim::agents::Audience;

use crate::arms::{Dirt, Ground};

#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);
/// Nobody stops it but by ending it.
static GOES: AtomicBool = AtomicBool::new(false);
/// The partition of all accounts.
const PARTITION: u32 = 0;
const SEED: u64 = 1;
/// Passes without content before a pass is measured.
const WARM_UP: u32 = 20;

type Failed = Box<dyn Error>;
/// A part of the benchmark.
type Part = fn(&mut Bench) -> Result<(), Failed>;

/// The parts, in their order.
const PARTS: [(&str, Part); 8] = [
    ("grid", grid::run),
    ("factors", factors::run),
    ("many", factors::many),
    ("sql", sql::run),
    ("index", index::run),
    ("speed", speed::run),
    ("lane", lane::lane),
    ("timers", lane::timers),
];

fn main() -> Result<(), Failed> {
    let (mut small, mut parts, mut rival) = (false, Vec::new(), false);
    for word in std::env::args().skip(1) {
        match word.strip_prefix("--part=") {
            None if word == "--small" => small = true,
            None if word == "--rival=pekko" => rival = true,
            Some(name) if PARTS.iter().any(|(known, _)| *known == name) => {
                parts.push(name.to_owned());
            }
            _ => {
                let known = PARTS.map(|(name, _)| name).join(", ");
                let told = format!(
                    "`{word}`: it takes `--small`, `--rival=pekko`, and `--part=` one of {known}"
                );
                return Err(told.into());
            }
        }
    }
    let agents = match (rival, small) {
        (true, true) => 2_000,
        (true, false) => 10_000,
        (false, true) => 5_000,
        (false, false) => 100_000,
    };
    let parameters = [("shared_buffers", "512MB"), ("max_wal_size", "8GB")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server =
        Private::start(&Settings { parameters: parameters.to_vec(), ..Settings::default() })?;
    println!(
        "{agents} accounts of 1 kB, a tenth fires at a tick; PostgreSQL {}, fsync on; one thread of \
         decisions; load of the machine {}",
        server.programs().version(),
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
    );
    let mut bench = Bench::new((agents, small), &server)?;
    for (name, part) in PARTS {
        if (parts.is_empty() && !rival) || parts.iter().any(|it| it == name) {
            let start = Instant::now();
            part(&mut bench)?;
            println!("  part {name}: {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    if rival {
        pekko::run(&mut bench, &server)?;
    }
    println!(
        "\nload of the machine at the end {}",
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
    );
    server.stop()?;
    println!("{}", bench.aims);
    Ok(())
}

/// The parts that all arms have in common.
struct Bench {
    agents: u32,
    small: bool,
    config: tpcc::Config,
    load: Load,
    postgres: Arc<PostgresStore>,
    /// The same.
    store: Arc<dyn Store<Tick>>,
    meter: Meter,
    /// Number of the last tick.
    tick: u64,
    /// The aims so far, and how many were missed.
    aims: Aims,
}

impl Bench {
    fn new((agents, small): (u32, bool), server: &Private) -> Result<Bench, Failed> {
        let config: tpcc::Config = server.url().as_str().parse()?;
        let spec = PostgresSpec::default();
        PostgresStore::init(config.clone(), &spec)?;
        let postgres = Arc::new(PostgresStore::open(config.clone(), &spec)?);
        let store: Arc<dyn Store<Tick>> = postgres.clone();
        let meter = Meter::new(&config, server.pid().ok_or("the server has ended")?)?;
        let load = Load::new(LoadSpec::new(agents, SEED));
        populate(&load, &*store, PARTITION, (&GOES, |_| ()))?;
        meter.run("vacuum analyze")?;
        meter.run("checkpoint")?;
        let (tick, aims) = (0, Aims::default());
        Ok(Bench { agents, small, config, load, postgres, store, meter, tick, aims })
    }

    /// Another store over the same tables, with connections of its own.
    fn another(&self) -> Result<Arc<PostgresStore>, Failed> {
        Ok(Arc::new(PostgresStore::open(self.config.clone(), &PostgresSpec::default())?))
    }

    /// Of a pass one by one, one block of so many is timed: whole ones would take most of an hour.
    fn timed_of(&self) -> usize {
        if self.small { 2 } else { 4 }
    }

    /// All accounts, half of them cached, a tenth changed by a multicast to all.
    fn base(&self) -> Ground {
        Ground {
            partition: PARTITION,
            load: self.load.clone(),
            room: self.agents / 2,
            dirt: Dirt::Tenth,
            audience: Audience::All,
            outstanding: 1,
            warm_up: WARM_UP,
            timed_of: self.timed_of(),
        }
    }

    /// The number of the next tick.
    fn number(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// The next tick.
    fn next(&mut self) -> Tick {
        let number = self.number();
        self.load.tick(number)
    }
}

/// All arms must notify the same owners of the same profits.
fn checked(arm: &str, fired: Fired, expected: Fired) -> Result<(), Failed> {
    if fired == expected {
        Ok(())
    } else {
        Err(format!("{arm}: {fired:?}, must be {expected:?}").into())
    }
}

/// Cells of a row of so many passes: the median of their times, and what an agent costs in the mean.
fn cells(passes: &[Costs], agents: u64) -> Vec<String> {
    let (count, agents) = (passes.len() as f64, agents.max(1) as f64);
    let median = wall_s(passes);
    let processor = |of: fn(&Costs) -> Duration| {
        let sum: Duration = passes.iter().map(of).sum();
        Reading::of_processor(sum).times(1e6 / count / agents).to_string()
    };
    let wal: u64 = passes.iter().map(|costs| costs.wal).sum();
    vec![
        format!("{:.2}", median * 1e3),
        format!("{:.2}", median * 1e6 / agents),
        processor(|costs| costs.own),
        processor(|costs| costs.database),
        format!("{:.0}", wal as f64 / count / agents),
    ]
}

/// The median of times \[s\].
fn wall_s(passes: &[Costs]) -> f64 {
    let mut walls: Vec<Duration> = passes.iter().map(|costs| costs.wall).collect();
    walls.sort_unstable();
    walls[walls.len() / 2].as_secs_f64()
}

/// Processor time of a pass, of server and database \[s\].
fn processor_s(passes: &[Costs]) -> Reading {
    let sum: Duration = passes.iter().map(|costs| costs.own + costs.database).sum();
    Reading::of_processor(sum).times(1.0 / passes.len() as f64)
}

/// An arm's name and the costs of its passes.
type Arm = (&'static str, Vec<Costs>);

/// Prints which arm had the shortest pass at each share, as the median.
fn winners(levels: &[(String, Vec<Arm>)]) {
    let won = levels.iter().map(|(share, arms)| {
        let shortest = arms.iter().min_by(|one, other| wall_s(&one.1).total_cmp(&wall_s(&other.1)));
        format!("{share} {}", shortest.map_or("nobody", |(name, _)| name))
    });
    println!("  shortest: {}", won.collect::<Vec<_>>().join("; "));
}

/// True until passes have told enough: an even number of at least four, and a second or 40.
fn goes_on(passes: &[Costs]) -> bool {
    let wall: Duration = passes.iter().map(|costs| costs.wall).sum();
    passes.len() < 4
        || passes.len() % 2 == 1
        || (wall < Duration::from_secs(1) && passes.len() < 40)
}

/// Heads of [`cells`].
const COSTS: [&str; 5] = ["pass ms", "us each", "server us", "database us", "log B"];
