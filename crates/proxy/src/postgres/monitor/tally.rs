//! What is counted of the jobs of each class at one gate.

use std::time::Duration;

use gate::Reason;
use measure::Histogram;

use super::classes::JobClass;
use super::stats::ClassStats;
use crate::Times;

/// The tallies of all classes, each there from its first job on: a class that nobody uses costs
/// nothing.
#[derive(Debug)]
pub(super) struct Tallies {
    list: Vec<Option<Box<Tally>>>,
    /// Whether there are histograms of each: those of the only class are the pool's.
    several: bool,
}

/// What is counted of one class.
#[derive(Clone, Debug)]
struct Tally {
    counts: ClassCounts,
    histograms: Option<Histograms>,
}

#[derive(Clone, Debug, Default)]
struct Histograms {
    wait: Histogram,
    hold: Histogram,
}

/// What was counted of one class, as far as it takes little room.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassCounts {
    pub(super) waiting: u64,
    pub(super) busy: u32,
    /// From arrival to start, and from start to departure.
    pub(super) wait: Times,
    pub(super) hold: Times,
    pub(super) refused_queue_full: u64,
    pub(super) refused_deadline: u64,
    pub(super) refused_hopeless: u64,
    pub(super) reneged: u64,
}

impl Tallies {
    /// Those of so many classes.
    pub(super) fn new(classes: usize) -> Tallies {
        Tallies { list: vec![None; classes.max(1)], several: classes > 1 }
    }

    #[inline]
    fn of(&mut self, class: u32) -> &mut Tally {
        let histograms = || self.several.then(Histograms::default);
        let new = || Box::new(Tally { counts: ClassCounts::default(), histograms: histograms() });
        // At the gate of a quota classes are pools, and counted as one.
        let last = self.list.len() - 1;
        self.list[last.min(class as usize)].get_or_insert_with(new)
    }

    /// What was counted of each that has had a job, by its number.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, &ClassCounts)> {
        let there = self.list.iter().enumerate();
        there.filter_map(|(class, tally)| Some((class, &tally.as_ref()?.counts)))
    }

    /// So many classes there are from now on: what was counted of each goes on under its new number.
    /// Whoever is here and of none any more is of class 0.
    pub(super) fn renumber(&mut self, numbers: &[Option<u32>], classes: usize) {
        let had = std::mem::replace(&mut self.list, vec![None; classes.max(1)]);
        self.several = classes > 1;
        let (mut busy, mut waiting) = (0, 0);
        for (tally, number) in had.into_iter().zip(numbers) {
            let Some(mut tally) = tally else { continue };
            match number {
                Some(number) => {
                    if self.several {
                        tally.histograms.get_or_insert_with(Histograms::default);
                    }
                    self.list[*number as usize] = Some(tally);
                }
                None => {
                    busy += tally.counts.busy;
                    waiting += tally.counts.waiting;
                }
            }
        }
        if busy > 0 || waiting > 0 {
            let counts = &mut self.of(0).counts;
            counts.busy += busy;
            counts.waiting += waiting;
        }
    }

    /// A job that waits does so elsewhere from now on.
    pub(super) fn taken(&mut self, class: u32) {
        self.of(class).counts.waiting -= 1;
    }

    /// A job is served that never waited here.
    pub(super) fn occupied(&mut self, class: u32) {
        self.of(class).counts.busy += 1;
    }

    pub(super) fn arrived(&mut self, class: u32) {
        self.of(class).counts.waiting += 1;
    }

    pub(super) fn started(&mut self, class: u32, wait: Duration) {
        let Tally { counts, histograms } = self.of(class);
        counts.waiting -= 1;
        counts.busy += 1;
        counts.wait.observe(wait);
        if let Some(histograms) = histograms {
            histograms.wait.record(wait);
        }
    }

    pub(super) fn departed(&mut self, class: u32, hold: Duration) {
        let Tally { counts, histograms } = self.of(class);
        counts.busy -= 1;
        counts.hold.observe(hold);
        if let Some(histograms) = histograms {
            histograms.hold.record(hold);
        }
    }

    pub(super) fn refused(&mut self, class: u32, reason: Reason) {
        let counts = &mut self.of(class).counts;
        counts.waiting -= 1;
        match reason {
            Reason::QueueFull => counts.refused_queue_full += 1,
            Reason::Deadline => counts.refused_deadline += 1,
            Reason::Hopeless => counts.refused_hopeless += 1,
        }
    }

    pub(super) fn reneged(&mut self, class: u32) {
        let counts = &mut self.of(class).counts;
        counts.waiting -= 1;
        counts.reneged += 1;
    }

    /// What there is to say of each that has had a job, if there are several.
    pub(super) fn stats(&self, classes: &[JobClass]) -> Vec<ClassStats> {
        let tallies = self.list.iter().zip(classes).enumerate();
        let said = tallies.filter_map(|(class, (tally, JobClass { name, .. }))| {
            let Tally { counts, histograms } = tally.as_deref()?;
            let Histograms { wait, hold } = histograms.clone()?;
            Some(ClassStats {
                class: class as u32,
                name: name.clone(),
                wait,
                hold,
                waiting: counts.waiting,
                busy: counts.busy,
                refused_queue_full: counts.refused_queue_full,
                refused_deadline: counts.refused_deadline,
                refused_hopeless: counts.refused_hopeless,
                reneged: counts.reneged,
            })
        });
        said.collect()
    }
}
