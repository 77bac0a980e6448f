//! Disciplines that order jobs by a rank that never changes while they wait: shortest job first,
//! earliest deadline first, and priority with ageing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Discipline, Line};
use crate::{Job, JobId, Time};

/// Key that jobs are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The smallest first; unknown sizes last.
    Size,
    /// The earliest first; jobs without last.
    Deadline,
    /// By when a job of the highest priority would have had to arrive to be as important. All
    /// waiting jobs gain importance at the same speed, so that their order never changes.
    Ageing { interval: Duration },
}

impl Rank {
    /// The smaller, the sooner.
    fn of(self, job: &Job) -> u64 {
        match self {
            Rank::Size if job.size == 0 => u64::MAX,
            Rank::Size => job.size,
            Rank::Deadline => job.deadline.map_or(u64::MAX, Time::as_nanos),
            Rank::Ageing { interval } => {
                (job.since + interval * u32::from(u8::MAX - job.priority)).as_nanos()
            }
        }
    }
}

/// The lowest rank first, first in first out within one. O(log n).
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    rank: Rank,
    line: Line,
    /// All who wait, and for a while some who do not any more.
    heap: BinaryHeap<Reverse<(u64, JobId)>>,
}

impl Ranked {
    pub(crate) fn new(rank: Rank) -> Ranked {
        Ranked { rank, line: Line::default(), heap: BinaryHeap::new() }
    }
}

impl Discipline for Ranked {
    fn push(&mut self, _now: Time, job: &Job) {
        self.line.insert(job);
        self.heap.push(Reverse((self.rank.of(job), job.id)));
    }

    fn pop(&mut self, _now: Time) -> Option<Job> {
        while let Some(Reverse((_, id))) = self.heap.pop() {
            if let Some(job) = self.line.remove(id) {
                return Some(job);
            }
        }
        None
    }

    fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = self.line.remove(id)?;
        if self.heap.len() > 32 && self.line.live * 2 < self.heap.len() {
            let line = &self.line;
            self.heap.retain(|Reverse((_, id))| line.holds(*id));
        }
        Some(job)
    }

    fn ahead(&self, job: &Job) -> usize {
        let mine = (self.rank.of(job), job.id);
        let before = |other: &Job| (self.rank.of(other), other.id) < mine;
        self.line.places.iter().filter(|place| place.live && before(&place.job)).count()
    }

    fn len(&self) -> usize {
        self.line.live
    }

    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}
