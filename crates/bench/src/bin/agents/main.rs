//! Passes of prices over stock accounts of 1 kB in a private PostgreSQL: each order with each eviction rule, one
//! by one and in batches, with the hit ratio of `sim` beside; then the server's core beside the same rule as one
//! statement of SQL. All must notify the same owners of the same profits, or it ends.
//!
//!     cargo xtask bench agents              # 100,000 accounts: most of an hour
//!     cargo xtask bench agents --small      # 5,000: minutes
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod grid;
mod index;
mod speed;
mod sql;
mod table;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agents_bench::{Aims, Costs, Fired, Load, LoadSpec, Meter, Reading, Tick, populate};
use agents_store::{PostgresSpec, PostgresStore, Store};
use cap::Cap;
use mimalloc::MiMalloc;
use postgres::{Private, Settings};

#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);
/// Nobody stops it but by ending it.
static GOES: AtomicBool = AtomicBool::new(false);
/// The partition of all accounts.
const PARTITION: u32 = 0;
const SEED: u64 = 1;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let small = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--small") => true,
        Some(other) => return Err(format!("`{other}`: `--small` is the only option").into()),
    };
    let agents = if small { 5_000 } else { 100_000 };
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
    let mut bench = Bench::new(agents, &server)?;
    grid::run(&mut bench)?;
    sql::run(&mut bench)?;
    index::run(&mut bench)?;
    speed::run(&mut bench)?;
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
    config: tpcc::Config,
    load: Load,
    store: Arc<dyn Store<Tick>>,
    meter: Meter,
    /// Number of the last tick.
    tick: u64,
    /// The aims so far, and how many were missed.
    aims: Aims,
}

impl Bench {
    fn new(agents: u32, server: &Private) -> Result<Bench, Failed> {
        let config: tpcc::Config = server.url().as_str().parse()?;
        let spec = PostgresSpec::default();
        PostgresStore::init(config.clone(), &spec)?;
        let store: Arc<dyn Store<Tick>> = Arc::new(PostgresStore::open(config.clone(), &spec)?);
        let meter = Meter::new(&config, server.pid().ok_or("the server has ended")?)?;
        let load = Load::new(LoadSpec::new(agents, SEED));
        populate(&load, &*store, PARTITION, (&GOES, |_| ()))?;
        meter.run("vacuum analyze")?;
        meter.run("checkpoint")?;
        Ok(Bench { agents, config, load, store, meter, tick: 0, aims: Aims::default() })
    }

    /// The next tick.
    fn next(&mut self) -> Tick {
        self.tick += 1;
        self.load.tick(self.tick)
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
