//! The driver's clock as the gate sees it. std's `Instant` has no origin, so a recording of it
//! could not be replayed; this one counts from the start of the run.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment on the driver's clock \[ns since the run began\], virtual or real.
///
/// Range: 0 to about 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Time(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than every moment of a run.
    pub const MAX: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The moment `seconds` after the start of the run, rounded to the nanosecond.
    ///
    /// # Panics
    /// If `seconds` is negative or not a number.
    pub fn from_secs_f64(seconds: f64) -> Time {
        assert!(seconds >= 0.0, "a moment before the run began: {seconds} s");
        Time((seconds * 1e9).round() as u64)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run \[s\].
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The span from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_secs_f64())
    }
}
