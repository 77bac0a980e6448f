//! The parts of a run whose differences make the intervals: a replication, or a batch of one long run.

use measure::Histogram;

use crate::replication::Replication;
use crate::station::Desk;
use crate::tally::{ClassTally, GateTally};

/// Counts of one replication, or of one batch.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// Over how long \[s\].
    pub(crate) span: f64,
    pub(crate) classes: &'a [ClassTally],
    pub(crate) gates: Vec<&'a GateTally>,
    pub(crate) desks: Vec<DeskCounts>,
    pub(crate) shelves: Vec<ShelfCounts>,
}

/// Counts of a station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeskCounts {
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
pub(crate) struct ShelfCounts {
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
}

impl<'a> Part<'a> {
    /// A replication as a whole, with the time that it counted, as
    /// [`settle`](Replication::settle) tells it.
    pub(crate) fn of(replication: &'a Replication<'_>, span: f64) -> Part<'a> {
        Part {
            span,
            classes: &replication.classes,
            gates: replication.gate_tallies().collect(),
            desks: replication.desks().iter().map(DeskCounts::of).collect(),
            shelves: (replication.shelves.iter())
                .map(|shelf| ShelfCounts { lookups: shelf.lookups, hits: shelf.hits })
                .collect(),
        }
    }
}

impl DeskCounts {
    fn of(desk: &Desk) -> DeskCounts {
        DeskCounts {
            jobs_s: desk.jobs_area * 1e-9,
            busy_s: desk.busy_area * 1e-9,
            served: desk.served,
            lost: desk.lost,
            more: i64::from(desk.jobs) - i64::from(desk.jobs_before),
            passed: desk.served - desk.served_before,
        }
    }
}

/// Counts of one run in a stretch of it, kept when the next one has begun.
#[derive(Debug)]
pub(crate) struct Batch {
    span: f64,
    classes: Vec<ClassTally>,
    gates: Vec<GateTally>,
    desks: Vec<DeskCounts>,
    shelves: Vec<ShelfCounts>,
}

impl Batch {
    /// Takes what a run has counted since the last one; the run counts on from nothing.
    pub(crate) fn take(replication: &mut Replication<'_>) -> Batch {
        let span = replication.settle();
        let part = Part::of(replication, span);
        let mut batch = Batch {
            span,
            classes: part.classes.to_vec(),
            gates: part.gates.into_iter().cloned().collect(),
            desks: part.desks,
            shelves: part.shelves,
        };
        batch.pack();
        replication.reset();
        batch
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part {
            span: self.span,
            classes: &self.classes,
            gates: self.gates.iter().collect(),
            desks: self.desks.clone(),
            shelves: self.shelves.clone(),
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
        for (own, other) in self.desks.iter_mut().zip(&other.desks) {
            own.jobs_s += other.jobs_s;
            own.busy_s += other.busy_s;
            own.served += other.served;
            own.lost += other.lost;
            own.more += other.more;
            own.passed += other.passed;
        }
        for (own, other) in self.shelves.iter_mut().zip(&other.shelves) {
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
