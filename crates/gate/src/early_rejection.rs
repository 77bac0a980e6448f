//! Tells a job at once that it would wait in vain: how fast a queue moves while all its slots are
//! taken, and so when a job could start at the earliest.

use std::time::Duration;

use crate::Time;

/// Early rejection of a job that would not start before its deadline.
///
/// What counts is the rate of departures while all slots of a queue were taken: it is what they can
/// do together, however long single jobs take, and one that takes very long costs one slot of it.
/// Quiet times do not count. Departures are forgotten as new ones come, so that about the last 48
/// count, and all of them after a quiet time of [`memory`](EarlyRejection::memory) or when the slots
/// change. With fewer than eight nothing is foreseen. A job is refused only if it would be late even
/// at a rate two standard deviations above the one seen (departures as a Poisson process: the
/// square root of their number), behind those alone that are sure to be served before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlyRejection {
    /// For how long a quiet time may last until all is forgotten.
    pub memory: Duration,
}

impl Default for EarlyRejection {
    /// A minute.
    fn default() -> EarlyRejection {
        EarlyRejection { memory: Duration::from_secs(60) }
    }
}

/// The fewest departures from which anything is foreseen.
const LEAST: u32 = 8;
/// At so many departures half of them is forgotten.
const MOST: u32 = 64;

/// Rate of departures of one queue while all its slots are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// Departures, and the time that they took.
    departures: u32,
    span: Duration,
    /// The last departure, or since when all slots are taken; `None` if they are not.
    since: Option<Time>,
    /// When they ceased to be.
    quiet: Time,
}

impl Meter {
    /// A job departs, before anything comes of it.
    #[inline]
    pub(crate) fn depart(&mut self, now: Time) {
        let Some(since) = &mut self.since else { return };
        self.span += now.since(*since);
        *since = now;
        self.departures += 1;
        if self.departures == MOST {
            self.departures /= 2;
            self.span /= 2;
        }
    }

    /// Something has happened, and all slots are taken or not.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time, taken: Taken, memory: Duration) {
        match (taken, self.since) {
            (Taken::All, None) => {
                if now.since(self.quiet) > memory {
                    self.forget();
                }
                self.since = Some(now);
            }
            (Taken::Some, Some(since)) => {
                self.span += now.since(since);
                (self.since, self.quiet) = (None, now);
            }
            (Taken::All, Some(_)) | (Taken::Some, None) => {}
        }
    }

    /// Forgets what was seen: it does not hold any more.
    pub(crate) fn forget(&mut self) {
        (self.departures, self.span) = (0, Duration::ZERO);
        self.since = None;
    }

    /// When a job could start behind so many others.
    pub(crate) fn foresee(&self, now: Time, ahead: usize) -> Option<Outlook> {
        if self.departures < LEAST {
            return None;
        }
        let open = self.since.map_or(Duration::ZERO, |since| now.since(since));
        let span = (self.span + open).as_secs_f64() * (ahead as f64 + 1.0);
        let departures = f64::from(self.departures);
        let wait = |departures: f64| Duration::try_from_secs_f64(span / departures).ok();
        Some(Outlook {
            likely: wait(departures)?,
            soonest: wait(departures + 2.0 * departures.sqrt())?,
        })
    }
}

/// Occupancy of a queue's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    All,
    Some,
}

/// Predicted wait of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// At the rate that was seen.
    pub(crate) likely: Duration,
    /// At a rate two standard deviations above it.
    pub(crate) soonest: Duration,
}
