//! What is counted of the jobs of each class at one gate.

use std::time::Duration;

use gate::Reason;
use measure::Histogram;

use super::classes::JobClass;
use super::stats::ClassStats;

/// The tallies of all classes, each there from its first job on: a class that nobody uses costs
/// nothing.
#[derive(Debug)]
pub(super) struct Tallies(Vec<Option<Box<Tally>>>);

/// What is counted of one class.
#[derive(Clone, Debug, Default)]
struct Tally {
    wait: Histogram,
    hold: Histogram,
    waiting: u64,
    busy: u32,
    refused_queue_full: u64,
    refused_deadline: u64,
    reneged: u64,
}

impl Tallies {
    /// Those of so many classes. If there is only one, nothing is counted: it is the pool.
    pub(super) fn new(classes: usize) -> Tallies {
        Tallies(vec![None; if classes > 1 { classes } else { 0 }])
    }

    #[inline]
    fn of(&mut self, class: u32) -> Option<&mut Tally> {
        let tally = self.0.get_mut(class as usize)?;
        Some(tally.get_or_insert_default())
    }

    pub(super) fn arrived(&mut self, class: u32) {
        if let Some(tally) = self.of(class) {
            tally.waiting += 1;
        }
    }

    pub(super) fn started(&mut self, class: u32, wait: Duration) {
        if let Some(tally) = self.of(class) {
            tally.waiting -= 1;
            tally.busy += 1;
            tally.wait.record(wait);
        }
    }

    pub(super) fn departed(&mut self, class: u32, hold: Duration) {
        if let Some(tally) = self.of(class) {
            tally.busy -= 1;
            tally.hold.record(hold);
        }
    }

    pub(super) fn refused(&mut self, class: u32, reason: Reason) {
        if let Some(tally) = self.of(class) {
            tally.waiting -= 1;
            match reason {
                Reason::QueueFull => tally.refused_queue_full += 1,
                Reason::Deadline => tally.refused_deadline += 1,
            }
        }
    }

    pub(super) fn reneged(&mut self, class: u32) {
        if let Some(tally) = self.of(class) {
            tally.waiting -= 1;
            tally.reneged += 1;
        }
    }

    /// What there is to say of each that has had a job.
    pub(super) fn stats(&self, classes: &[JobClass]) -> Vec<ClassStats> {
        let tallies = self.0.iter().zip(classes).enumerate();
        let said = tallies.filter_map(|(class, (tally, JobClass { name, .. }))| {
            let tally = Tally::clone(tally.as_ref()?);
            Some(ClassStats {
                class: class as u32,
                name: name.clone(),
                wait: tally.wait,
                hold: tally.hold,
                waiting: tally.waiting,
                busy: tally.busy,
                refused_queue_full: tally.refused_queue_full,
                refused_deadline: tally.refused_deadline,
                reneged: tally.reneged,
            })
        });
        said.collect()
    }
}
