//! A probe of a search for the knee: a short run at one rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::Interval;
use measure::knee::Probe;
use measure::limit::Limit;
use thiserror::Error;

use super::plan::{Plan, PlanError, PlanSpec};
use super::run::{RunError, record};
use crate::probe::{Decision, Layout, NoRate, Probed};

/// Why a probe could not be made.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The plan is not for an open load of one rate.
    #[error(transparent)]
    NoRate(
        /// Why.
        #[from]
        NoRate,
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

/// Runs one probe of at most this length, and a quarter more as warm-up, with Poisson or fixed arrivals as in
/// `base`. It ends as soon as the limit is [decided](measure::SequentialTest). Its seed is that of `base` and
/// the number of the probe, so that no two probes see the same chance.
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
    let Layout { load, until, warmup, interval, seed, naming } =
        Layout::new(&base.load, base.seed, at, number, length)?;
    let plan = Plan::new(PlanSpec { load, until, warmup, interval, seed, ..base.clone() })?;
    let mut decision = Decision::new(limit, length);
    let stop = AtomicBool::new(false);
    let record = record(&plan, naming, &stop, &mut |interval| {
        if decision.observe(interval) || interrupt.load(Ordering::Relaxed) {
            stop.store(true, Ordering::Relaxed);
        }
        sink(interval);
    })?;
    Ok(decision.of(record))
}
