//! Claims that only a PostgreSQL can judge: the space of a warehouse, and what memory and
//! checkpoint settings bring.

use std::time::Duration;
use tpcc::{Config, DeliveryResult, Execution, Isolation, Outcome, Pace, Plan, Watch, run};

use cli::Failure;
use measure::{Estimate, Ratio};
use postgres::Private;

use super::super::claim::{Answer, Evidence, Judged, Registry};
use super::super::measuring::Measuring;

/// The paper's table 3 as PostgreSQL had it, in today's names: buffers of what then was the default's
/// order, a log of a few segments. (Sort memory, free space map and vacuum have no part in a run of seconds.)
const PLAIN: [(&str, &str); 4] = [
    ("shared_buffers", "2MB"),
    ("wal_buffers", "64kB"),
    ("max_wal_size", "48MB"),
    ("checkpoint_timeout", "30s"),
];
/// The same, tuned.
const TUNED: [(&str, &str); 4] = [
    ("shared_buffers", "512MB"),
    ("wal_buffers", "16MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
];
const CONNECTIONS: u32 = 4;
/// Plain, tuned, tuned, plain: what grows over time does so for both.
pub(super) const RUNS: u32 = 4;
/// With the two loads.
pub(super) const STEPS: u64 = RUNS as u64 + 2;

/// A server with a warehouse.
struct Lab<'a> {
    server: Private,
    config: Config,
    bytes: u64,
    name: &'static str,
    measuring: &'a Measuring<'a>,
}

impl<'a> Lab<'a> {
    fn open(
        name: &'static str,
        parameters: &[(&str, &str)],
        measuring: &'a Measuring<'a>,
    ) -> Result<Lab<'a>, Failure> {
        let server = measuring.server(parameters, None)?;
        let config: Config = server.url().as_str().parse().map_err(Failure::defect)?;
        let bytes = measuring.load(&config, 1)?;
        Ok(Lab { server, config, bytes, name, measuring })
    }

    /// New-Orders a minute without waits.
    fn run(&self, seed: u64) -> Result<Estimate, Failure> {
        let step = format!("pressing it with {} settings", self.name);
        self.measuring.step(&step)?;
        let plan = Plan {
            pace: Pace::Stress,
            warehouses: 1,
            connections: CONNECTIONS,
            ramp: Duration::from_secs(1),
            measure: self.measuring.length(),
            execution: Execution::Sql,
            isolation: Isolation::RepeatableRead,
            seed,
        };
        let record = run(&self.config, &plan, self.measuring.interrupt(), &mut Unwatched);
        self.measuring.done(&step)?;
        let judged = record.map_err(Failure::machine)?.judge();
        match judged.outcome {
            Outcome::Invalid(why) => Err(Failure::Machine(format!("a run is invalid: {why}"))),
            _ => Ok(judged.new_orders_per_minute),
        }
    }
}

/// Nobody looks on.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn tick(&mut self, _: Duration, _: u64) {}
    fn delivered(&mut self, _: &DeliveryResult) {}
}

/// Judges the claims that need a server.
pub(super) fn measure(registry: &Registry, measuring: &Measuring) -> Result<Vec<Judged>, Failure> {
    let plain = Lab::open("plain", &PLAIN, measuring)?;
    let tuned = Lab::open("tuned", &TUNED, measuring)?;
    let (seed, later) = (measuring.seed, measuring.seed.wrapping_add(1));
    // In the order of [`RUNS`].
    let first = plain.run(seed)?;
    let second = [tuned.run(seed)?, tuned.run(later)?];
    let first = [first, plain.run(later)?];
    let mean = |[one, other]: [Estimate; 2]| Estimate::combine(&[(0.5, one), (0.5, other)]);
    let (first, second) = (mean(first), mean(second));
    let judged = vec![space(registry, tuned.bytes), tuning(registry, first, second)];
    for lab in [plain, tuned] {
        lab.server.stop().map_err(Failure::machine)?;
    }
    Ok(judged)
}

fn space(registry: &Registry, bytes: u64) -> Judged {
    let claim = registry.claim("space");
    let megabytes = bytes as f64 / 1e6;
    claim
        .judge()
        .measured(format!("{megabytes:.0} MB"))
        .found("Tables and indexes of one warehouse, the items with it, right after a load.")
        .number(Evidence::of(&[megabytes], |found| claim.same(found[0], claim.value())))
}

fn tuning(registry: &Registry, plain: Estimate, tuned: Estimate) -> Judged {
    let gain = Ratio::of(plain, tuned);
    registry
        .claim("memory-tuning")
        .judge()
        .measured(format!("x{:.2}", gain.ratio))
        .found(format!(
            "New-Orders with {CONNECTIONS} connections without waits, tuned over untuned: {:.2} to {:.2} \
             times.",
            gain.low, gain.high
        ))
        .shape(Answer::above(1.0, gain.low, gain.high))
}
