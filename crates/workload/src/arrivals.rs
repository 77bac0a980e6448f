//! When the requests of an open load arrive.

use std::time::Duration;

use rand_distr::{Distribution, Exp1};

use crate::Chance;

/// The arrival process of an open load. Independent Poisson streams superpose exactly, so several
/// threads or machines may each run one at a share of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Arrivals {
    /// Exponential gaps, mean `1 / rate`.
    Poisson {
        /// Arrivals per second [1/s], above 0.
        rate: f64,
    },
    /// Equal gaps.
    Fixed {
        /// Arrivals per second [1/s], above 0.
        rate: f64,
    },
}

impl Arrivals {
    /// Arrivals per second [1/s].
    pub fn rate(&self) -> f64 {
        match *self {
            Arrivals::Poisson { rate } | Arrivals::Fixed { rate } => rate,
        }
    }

    /// The same process at a share of the rate.
    pub fn scaled(&self, share: f64) -> Arrivals {
        match *self {
            Arrivals::Poisson { rate } => Arrivals::Poisson { rate: rate * share },
            Arrivals::Fixed { rate } => Arrivals::Fixed { rate: rate * share },
        }
    }

    /// The span from one arrival to the next \[s\].
    #[inline]
    pub fn gap_s(&self, chance: &mut Chance) -> f64 {
        match *self {
            Arrivals::Poisson { rate } => {
                let gap: f64 = Exp1.sample(chance);
                gap / rate
            }
            Arrivals::Fixed { rate } => 1.0 / rate,
        }
    }

    /// The span from one arrival to the next, rounded to the nanosecond.
    pub fn gap(&self, chance: &mut Chance) -> Duration {
        Duration::from_nanos((self.gap_s(chance) * 1e9).round() as u64)
    }
}
