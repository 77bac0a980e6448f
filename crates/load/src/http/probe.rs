//! A probe of a search for the knee: a short run at one rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::knee::{Outcome, Probe};
use measure::limit::{Limit, trusted};
use measure::{Interval, RunRecord, SequentialTest, Until};
use thiserror::Error;
use workload::Arrivals;

use super::plan::{Load, Naming, Plan, PlanError, PlanSpec};
use super::run::{RunError, record};

/// Why a probe could not be made.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The plan was for a closed load, in which nobody arrives.
    #[error("a knee is a rate of arrivals: it needs an open load, not {0} clients")]
    Closed(
        /// Number of clients in the plan.
        u32,
    ),
    /// The plan's load changes by itself.
    #[error("a knee is one rate of arrivals: it needs a steady load, not one that varies")]
    Varying,
    /// The plan does not hold at this rate.
    #[error(transparent)]
    Plan(
        /// Why.
        #[from]
        PlanError,
    ),
    /// The run could not begin.
    #[error(transparent)]
    Run(
        /// Why.
        #[from]
        RunError,
    ),
}

/// Run of a probe.
#[derive(Debug)]
pub struct Probed {
    /// Its record, to where it was decided.
    pub record: RunRecord,
    /// Outcome, as far as the generator may be trusted.
    pub outcome: Outcome,
}

/// Runs one probe of at most this length, and a quarter more as warm-up, with Poisson or fixed arrivals as in
/// `base`. It ends as soon as the limit is [decided](SequentialTest). Its seed is that of `base` and the
/// number of the probe, so that no two probes see the same chance.
///
/// # Errors
/// If the plan is not open, or cannot be run.
pub fn probe(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
    limit: &Limit,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<Probed, ProbeError> {
    let mut spec = base.clone();
    spec.load = match base.load {
        Load::Closed { clients, .. } => return Err(ProbeError::Closed(clients)),
        Load::Open { arrivals, in_flight_max } => {
            Load::Open { arrivals: at_rate(arrivals, at.rate), in_flight_max }
        }
        Load::Varying { .. } => return Err(ProbeError::Varying),
    };
    spec.until = Until::Seconds(length.as_secs_f64());
    spec.warmup = length / 4;
    // Ten blocks by the first analysis.
    spec.interval = (length / 160).clamp(INTERVAL_MIN, Duration::from_secs(1));
    spec.seed = base.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let plan = Plan::new(spec)?;
    let naming = Naming {
        id: format!("probe-{number}"),
        started: String::new(),
        tool: String::new(),
        command: Vec::new(),
    };
    let mut test = SequentialTest::new(*limit, length / 4, length);
    let mut outcome = None;
    let stop = AtomicBool::new(false);
    let record = record(&plan, naming, &stop, &mut |interval| {
        outcome = outcome.or_else(|| test.observe(interval));
        if outcome.is_some_and(Outcome::is_decided) || interrupt.load(Ordering::Relaxed) {
            stop.store(true, Ordering::Relaxed);
        }
        sink(interval);
    })?;
    let outcome = outcome.unwrap_or_else(|| test.conclude());
    let outcome = trusted(outcome, &record, limit);
    Ok(Probed { record, outcome })
}

/// Shorter intervals are mostly bookkeeping.
const INTERVAL_MIN: Duration = Duration::from_millis(25);

fn at_rate(arrivals: Arrivals, rate: f64) -> Arrivals {
    match arrivals {
        Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        Arrivals::Fixed { .. } => Arrivals::Fixed { rate },
    }
}
