//! Counts of a running replication, for each class and each gate.

use gate::{Move, Time};
use measure::Histogram;

use crate::network::{Class, Load, Sizes};
use crate::station::span_ns;

/// Counts of the jobs of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassTally {
    /// Attempts, the first and those after a failure.
    pub(crate) offered: u64,
    pub(crate) completed: u64,
    /// Attempts that failed: at gates, at full stations, for want of patience, by time-out.
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) reneged: u64,
    pub(crate) timed_out: u64,
    /// Requests whose last attempt failed.
    pub(crate) gave_up: u64,
    /// Attempts begun and ended at the last mark.
    before: (u64, u64),
    /// Sum of the response times \[s\].
    pub(crate) response_sum: f64,
    pub(crate) histogram: Histogram,
    /// By document, or by power of two of the size.
    pub(crate) by_size: Vec<SizeTally>,
}

/// Response times of jobs of like size.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeTally {
    pub(crate) completed: u64,
    pub(crate) size_sum: f64,
    pub(crate) response_sum: f64,
    /// Only for documents: a power of two is no class of its own.
    pub(crate) histogram: Option<Histogram>,
}

/// Sizes of 2^63 bytes and above share the last bin.
pub(crate) const SIZE_BINS: usize = 64;

impl ClassTally {
    pub(crate) fn new(class: &Class) -> ClassTally {
        let traced = matches!(&class.load, Load::Trace(trace)
            if trace.jobs().iter().any(|job| job.size.is_some()));
        let by_size = match &class.sizes {
            _ if traced => (0..SIZE_BINS).map(|_| SizeTally::default()).collect(),
            Sizes::None => Vec::new(),
            Sizes::Documents(set, _) => (0..set.len())
                .map(|_| SizeTally { histogram: Some(Histogram::new()), ..SizeTally::default() })
                .collect(),
            Sizes::Drawn(_) => (0..SIZE_BINS).map(|_| SizeTally::default()).collect(),
        };
        ClassTally {
            offered: 0,
            completed: 0,
            refused: 0,
            lost: 0,
            reneged: 0,
            timed_out: 0,
            gave_up: 0,
            before: (0, 0),
            response_sum: 0.0,
            histogram: Histogram::new(),
            by_size,
        }
    }

    #[inline]
    pub(crate) fn complete(&mut self, response_ns: u64, group: u32, size: f64) {
        self.completed += 1;
        let response_s = response_ns as f64 * 1e-9;
        self.response_sum += response_s;
        self.histogram.record_nanos(response_ns);
        if let Some(like) = self.by_size.get_mut(group as usize) {
            like.completed += 1;
            like.size_sum += size;
            like.response_sum += response_s;
            if let Some(histogram) = &mut like.histogram {
                histogram.record_nanos(response_ns);
            }
        }
    }

    /// Attempts that failed, in whichever way.
    pub(crate) fn failed(&self) -> u64 {
        self.refused + self.lost + self.reneged + self.timed_out
    }

    /// Attempts begun, and those ended, since the last mark.
    pub(crate) fn since_mark(&self) -> (u64, u64) {
        let (offered, ended) = self.before;
        (self.offered - offered, self.completed + self.failed() - ended)
    }

    pub(crate) fn mark(&mut self) {
        self.before = (self.offered, self.completed + self.failed());
    }

    /// Adds what another one counted.
    pub(crate) fn merge(&mut self, other: &ClassTally) {
        self.offered += other.offered;
        self.completed += other.completed;
        self.refused += other.refused;
        self.lost += other.lost;
        self.reneged += other.reneged;
        self.timed_out += other.timed_out;
        self.gave_up += other.gave_up;
        self.response_sum += other.response_sum;
        self.histogram.merge(&other.histogram);
        for (own, other) in self.by_size.iter_mut().zip(&other.by_size) {
            own.completed += other.completed;
            own.size_sum += other.size_sum;
            own.response_sum += other.response_sum;
            if let (Some(own), Some(other)) = (&mut own.histogram, &other.histogram) {
                own.merge(other);
            }
        }
    }

    pub(crate) fn reset(&mut self) {
        self.offered = 0;
        self.completed = 0;
        self.refused = 0;
        self.lost = 0;
        self.reneged = 0;
        self.timed_out = 0;
        self.gave_up = 0;
        self.before = (0, 0);
        self.response_sum = 0.0;
        self.histogram.clear();
        for like in &mut self.by_size {
            like.completed = 0;
            like.size_sum = 0.0;
            like.response_sum = 0.0;
            if let Some(histogram) = &mut like.histogram {
                histogram.clear();
            }
        }
    }
}

/// The bin of a size: the power of two below it.
pub(crate) fn size_bin(size: f64) -> u32 {
    (size.max(1.0).log2() as u32).min(SIZE_BINS as u32 - 1)
}

/// Counts of one gate.
#[derive(Clone, Debug)]
pub(crate) struct GateTally {
    pub(crate) waiting: u32,
    /// Those who waited, and the starts, at the last mark; of a merged one, before the first.
    pub(crate) waiting_before: u32,
    pub(crate) started_before: u64,
    pub(crate) busy: u32,
    pub(crate) waiting_area: f64,
    pub(crate) busy_area: f64,
    accumulated: Time,
    pub(crate) started: u64,
    pub(crate) refused_full: u64,
    pub(crate) refused_deadline: u64,
    pub(crate) refused_unreachable: u64,
    pub(crate) reneged: u64,
    pub(crate) wait_sum: f64,
    pub(crate) hold_sum: f64,
    pub(crate) departed: u64,
    pub(crate) wait: Histogram,
    /// Moves of its controller.
    pub(crate) moves: Vec<(Time, Move)>,
}

impl GateTally {
    pub(crate) fn new() -> GateTally {
        GateTally {
            waiting: 0,
            waiting_before: 0,
            started_before: 0,
            busy: 0,
            waiting_area: 0.0,
            busy_area: 0.0,
            accumulated: Time::ZERO,
            started: 0,
            refused_full: 0,
            refused_deadline: 0,
            refused_unreachable: 0,
            reneged: 0,
            wait_sum: 0.0,
            hold_sum: 0.0,
            departed: 0,
            wait: Histogram::new(),
            moves: Vec::new(),
        }
    }

    /// Brings the integrals up to `now`; before every change of `waiting` or `busy`.
    #[inline]
    pub(crate) fn accumulate(&mut self, now: Time) {
        let span = span_ns(self.accumulated, now);
        self.accumulated = now;
        self.waiting_area += f64::from(self.waiting) * span;
        self.busy_area += f64::from(self.busy) * span;
    }

    #[inline]
    pub(crate) fn start(&mut self, wait_ns: u64) {
        self.started += 1;
        self.wait_sum += wait_ns as f64 * 1e-9;
        self.wait.record_nanos(wait_ns);
    }

    #[inline]
    pub(crate) fn depart(&mut self, hold_ns: u64) {
        self.departed += 1;
        self.hold_sum += hold_ns as f64 * 1e-9;
    }

    pub(crate) fn mark(&mut self) {
        (self.waiting_before, self.started_before) = (self.waiting, self.started);
    }

    /// Adds what the next one counted; who is served, and what its controller did, stays as it is.
    pub(crate) fn merge(&mut self, other: &GateTally) {
        self.waiting = other.waiting;
        self.waiting_area += other.waiting_area;
        self.busy_area += other.busy_area;
        self.started += other.started;
        self.refused_full += other.refused_full;
        self.refused_deadline += other.refused_deadline;
        self.refused_unreachable += other.refused_unreachable;
        self.reneged += other.reneged;
        self.wait_sum += other.wait_sum;
        self.hold_sum += other.hold_sum;
        self.departed += other.departed;
        self.wait.merge(&other.wait);
    }

    pub(crate) fn reset(&mut self, now: Time) {
        self.accumulate(now);
        let (waiting, busy) = (self.waiting, self.busy);
        // The histogram keeps its memory: a run in batches is reset at each of them.
        let mut wait = std::mem::take(&mut self.wait);
        wait.clear();
        let waiting_before = waiting;
        let kept =
            GateTally { waiting, waiting_before, busy, accumulated: now, wait, ..GateTally::new() };
        *self = kept;
    }
}
