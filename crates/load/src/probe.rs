//! Probe of a search for the knee, as every engine makes it: a short run at one rate that ends as soon as the
//! limit is decided.

use std::time::Duration;

use measure::knee::{Outcome, Probe};
use measure::limit::{Limit, trusted};
use measure::{Interval, RunRecord, SequentialTest, Until};
use thiserror::Error;
use workload::Arrivals;

use crate::http::{Load, Naming};

/// Shorter intervals are mostly bookkeeping.
const INTERVAL_MIN: Duration = Duration::from_millis(25);

/// Why a load has no rate that could be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoRate {
    /// The plan was for a closed load, in which nobody arrives.
    #[error("a knee is a rate of arrivals: it needs an open load, not {0} clients")]
    Closed(
        /// Number of clients in the plan.
        u32,
    ),
    /// The plan's load changes by itself.
    #[error("a knee is one rate of arrivals: it needs a steady load, not one that varies")]
    Varying,
}

/// Fields of the plan of a probe that differ from those of its base.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The load, at the rate of the probe.
    pub load: Load,
    /// Its end.
    pub until: Until,
    /// A quarter of its length.
    pub warmup: Duration,
    /// The length of its intervals.
    pub interval: Duration,
    /// The seed, made from that of the base and the number of the probe, so that no two probes see the same
    /// chance.
    pub seed: u64,
    /// The names of its record.
    pub naming: Naming,
}

impl Layout {
    /// Probe number `number` of at most this length, warm-up not counted, with Poisson or fixed arrivals as in
    /// `base`.
    ///
    /// # Errors
    /// If the base is not an open load of one rate.
    pub fn new(
        base: &Load,
        seed: u64,
        at: Probe,
        number: u64,
        length: Duration,
    ) -> Result<Layout, NoRate> {
        let load = match *base {
            Load::Closed { clients, .. } => return Err(NoRate::Closed(clients)),
            Load::Open { arrivals, in_flight_max } => {
                Load::Open { arrivals: at_rate(arrivals, at.rate), in_flight_max }
            }
            Load::Varying { .. } => return Err(NoRate::Varying),
        };
        Ok(Layout {
            load,
            until: Until::Seconds(length.as_secs_f64()),
            warmup: length / 4,
            // Ten blocks by the first analysis.
            interval: (length / 160).clamp(INTERVAL_MIN, Duration::from_secs(1)),
            seed: seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            naming: Naming {
                id: format!("probe-{number}"),
                started: String::new(),
                tool: String::new(),
                command: Vec::new(),
            },
        })
    }
}

fn at_rate(arrivals: Arrivals, rate: f64) -> Arrivals {
    match arrivals {
        Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        Arrivals::Fixed { .. } => Arrivals::Fixed { rate },
    }
}

/// Run of a probe.
#[derive(Debug)]
pub struct Probed {
    /// Its record, to where it was decided.
    pub record: RunRecord,
    /// Outcome, as far as the generator may be trusted.
    pub outcome: Outcome,
}

/// Test of a limit while a probe runs.
#[derive(Debug)]
pub struct Decision {
    limit: Limit,
    test: SequentialTest,
    outcome: Option<Outcome>,
}

impl Decision {
    /// Nothing is decided yet in a probe of at most this length, after a quarter of it as warm-up.
    pub fn new(limit: &Limit, length: Duration) -> Decision {
        let test = SequentialTest::new(*limit, length / 4, length);
        Decision { limit: *limit, test, outcome: None }
    }

    /// Takes note of the next interval; true if the probe may end, for the limit is
    /// [decided](SequentialTest).
    pub fn observe(&mut self, interval: &Interval) -> bool {
        self.outcome = self.outcome.or_else(|| self.test.observe(interval));
        self.outcome.is_some_and(Outcome::is_decided)
    }

    /// The probe with its outcome.
    pub fn of(self, record: RunRecord) -> Probed {
        let outcome = self.outcome.unwrap_or_else(|| self.test.conclude());
        let outcome = trusted(outcome, &record, &self.limit);
        Probed { record, outcome }
    }
}
