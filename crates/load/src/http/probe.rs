//! A probe of a search for the knee: a short run at one rate.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::knee::Probe;
use measure::{Interval, RunRecord, Until};
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

/// Runs one probe of `length` (times its effort), and a quarter more as warm-up, with Poisson or
/// fixed arrivals as in `base`. Its seed is that of `base` and the number of the probe, so that no
/// two probes see the same chance.
///
/// # Errors
/// If the plan is not open, or cannot be run.
pub fn probe(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, ProbeError> {
    let mut spec = base.clone();
    spec.load = match base.load {
        Load::Closed { clients, .. } => return Err(ProbeError::Closed(clients)),
        Load::Open { arrivals, in_flight_max } => {
            Load::Open { arrivals: at_rate(arrivals, at.rate), in_flight_max }
        }
    };
    let length = length * at.effort;
    spec.until = Until::Seconds(length.as_secs_f64());
    spec.warmup = length / 4;
    // Twenty intervals, so that their correlation shows.
    spec.interval = (length / 20).max(Duration::from_millis(50));
    spec.seed = base.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let plan = Plan::new(spec)?;
    let naming = Naming {
        id: format!("probe-{number}"),
        started: String::new(),
        tool: String::new(),
        command: Vec::new(),
    };
    Ok(record(&plan, naming, interrupt, sink)?)
}

fn at_rate(arrivals: Arrivals, rate: f64) -> Arrivals {
    match arrivals {
        Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        Arrivals::Fixed { .. } => Arrivals::Fixed { rate },
    }
}
