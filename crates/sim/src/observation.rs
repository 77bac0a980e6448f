//! The parts of a run whose differences make the intervals: a replication, or a batch of one long run.

use measure::Histogram;

use crate::replication::Replication;
use crate::station::StationState;
use crate::tally::{ClassTally, GateTally};

/// Counts of one replication, or of one batch.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    /// Over how long \[s\].
    pub(crate) span: f64,
    pub(crate) classes: &'a [ClassTally],
    pub(crate) gates: Vec<&'a GateTally>,
    pub(crate) stations: Vec<StationCounts>,
    pub(crate) caches: Vec<CacheCounts>,
}

/// Counts of a station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StationCounts {
    /// Integrals over time \[job s\] and \[server s\].
    pub(crate) jobs_s: f64,
    pub(crate) busy_s: f64,
    pub(crate) served: u64,
    pub(crate) lost: u64,
    /// By how many the jobs there have become more since the last mark, and how many have been served.
    pub(crate) more: i64,
    pub(crate) passed: u64,
}

/// Counts of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheCounts {
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
}

impl<'a> Observation<'a> {
    /// A replication as a whole, with the time that it counted, as
    /// [`accumulate`](Replication::accumulate) tells it.
    pub(crate) fn of(replication: &'a Replication<'_>, span: f64) -> Observation<'a> {
        Observation {
            span,
            classes: &replication.classes,
            gates: replication.gate_tallies().collect(),
            stations: replication.stations().iter().map(StationCounts::of).collect(),
            caches: (replication.caches.iter())
                .map(|cache| CacheCounts { lookups: cache.lookups, hits: cache.hits })
                .collect(),
        }
    }
}

impl StationCounts {
    fn of(state: &StationState) -> StationCounts {
        StationCounts {
            jobs_s: state.jobs_area * 1e-9,
            busy_s: state.busy_area * 1e-9,
            served: state.served,
            lost: state.lost,
            more: i64::from(state.jobs) - i64::from(state.jobs_before),
            passed: state.served - state.served_before,
        }
    }
}

/// Counts of one run in a stretch of it, kept when the next one has begun.
#[derive(Debug)]
pub(crate) struct Batch {
    span: f64,
    classes: Vec<ClassTally>,
    gates: Vec<GateTally>,
    stations: Vec<StationCounts>,
    caches: Vec<CacheCounts>,
}

impl Batch {
    /// Takes what a run has counted since the last one; the run counts on from nothing.
    pub(crate) fn take(replication: &mut Replication<'_>) -> Batch {
        let span = replication.accumulate();
        let observation = Observation::of(replication, span);
        let mut batch = Batch {
            span,
            classes: observation.classes.to_vec(),
            gates: observation.gates.into_iter().cloned().collect(),
            stations: observation.stations,
            caches: observation.caches,
        };
        batch.pack();
        replication.reset();
        batch
    }

    pub(crate) fn observation(&self) -> Observation<'_> {
        Observation {
            span: self.span,
            classes: &self.classes,
            gates: self.gates.iter().collect(),
            stations: self.stations.clone(),
            caches: self.caches.clone(),
        }
    }

    /// Makes one batch of every two neighbours.
    pub(crate) fn merge_pairs(batches: Vec<Batch>) -> Vec<Batch> {
        let mut merged: Vec<Batch> = Vec::with_capacity(batches.len().div_ceil(2));
        for (at, batch) in batches.into_iter().enumerate() {
            match merged.last_mut().filter(|_| at % 2 == 1) {
                Some(first) => first.merge(&batch),
                None => merged.push(batch),
            }
        }
        merged
    }

    fn merge(&mut self, other: &Batch) {
        self.span += other.span;
        for (own, other) in self.classes.iter_mut().zip(&other.classes) {
            own.merge(other);
        }
        for (own, other) in self.gates.iter_mut().zip(&other.gates) {
            own.merge(other);
        }
        for (own, other) in self.stations.iter_mut().zip(&other.stations) {
            own.jobs_s += other.jobs_s;
            own.busy_s += other.busy_s;
            own.served += other.served;
            own.lost += other.lost;
            own.more += other.more;
            own.passed += other.passed;
        }
        for (own, other) in self.caches.iter_mut().zip(&other.caches) {
            own.lookups += other.lookups;
            own.hits += other.hits;
        }
        self.pack();
    }

    /// Histograms are large while they are open, and a run has many batches.
    fn pack(&mut self) {
        for class in &mut self.classes {
            class.histogram.pack();
            let by_size = class.by_size.iter_mut().filter_map(|like| like.histogram.as_mut());
            by_size.for_each(Histogram::pack);
        }
        self.gates.iter_mut().for_each(|gate| gate.wait.pack());
    }
}
