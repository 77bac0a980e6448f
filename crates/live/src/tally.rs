//! Counts and times of the jobs of each class at one gate.

use std::time::Duration;

use gate::Reason;
use measure::Histogram;

use crate::prometheus::Times;

/// The tallies of all classes, each there from its first job on: a class that nobody uses costs
/// nothing.
#[derive(Debug)]
pub(crate) struct Tallies {
    list: Vec<Option<Box<Tally>>>,
    /// True if there are histograms of each: those of the only class are the pool's.
    several: bool,
}

/// Counts of one class.
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

/// Counts of one class, as far as they take little room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Jobs that wait.
    pub waiting: u64,
    /// Slots that its jobs hold.
    pub busy: u32,
    /// From arrival to start.
    pub wait: Times,
    /// From start to departure.
    pub hold: Times,
    /// Jobs refused because the queue was full.
    pub refused_queue_full: u64,
    /// Jobs refused because they could not start before their deadline.
    pub refused_deadline: u64,
    /// Jobs refused at once that would have waited in vain.
    pub refused_hopeless: u64,
    /// Jobs refused because no server was up.
    pub refused_unreachable: u64,
    /// Jobs whose owners went while they waited.
    pub reneged: u64,
}

impl ClassCounts {
    /// Jobs refused, by the names of the reasons.
    pub fn refused_by_reason(&self) -> [(&'static str, u64); 4] {
        [
            (Reason::QueueFull.name(), self.refused_queue_full),
            (Reason::Deadline.name(), self.refused_deadline),
            (Reason::Hopeless.name(), self.refused_hopeless),
            (Reason::Unreachable.name(), self.refused_unreachable),
        ]
    }

    /// Jobs refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused_by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// Counts and times of the jobs of one class at one gate.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStats {
    /// Its number.
    pub class: u32,
    /// Its name.
    pub name: String,
    /// From arrival to start.
    pub wait: Histogram,
    /// From start to departure.
    pub hold: Histogram,
    /// Jobs that wait.
    pub waiting: u64,
    /// Slots that its jobs hold.
    pub busy: u32,
    /// Jobs refused because the queue was full.
    pub refused_queue_full: u64,
    /// Jobs refused because they could not start before their deadline.
    pub refused_deadline: u64,
    /// Jobs refused at once that would have waited in vain.
    pub refused_hopeless: u64,
    /// Jobs refused because no server was up.
    pub refused_unreachable: u64,
    /// Jobs whose owners went while they waited.
    pub reneged: u64,
}

impl Tallies {
    /// Those of so many classes.
    pub(crate) fn new(classes: usize) -> Tallies {
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

    /// Counts of each that has had a job, by its number.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (usize, &ClassCounts)> {
        let there = self.list.iter().enumerate();
        there.filter_map(|(class, tally)| Some((class, &tally.as_ref()?.counts)))
    }

    /// So many classes there are from now on: what was counted of each goes on under its new number.
    /// Whoever is here and of none any more is of class 0.
    pub(crate) fn renumber(&mut self, numbers: &[Option<u32>], classes: usize) {
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
    pub(crate) fn taken(&mut self, class: u32) {
        self.of(class).counts.waiting -= 1;
    }

    /// A job is served that never waited here.
    pub(crate) fn occupied(&mut self, class: u32) {
        self.of(class).counts.busy += 1;
    }

    pub(crate) fn arrived(&mut self, class: u32) {
        self.of(class).counts.waiting += 1;
    }

    pub(crate) fn started(&mut self, class: u32, wait: Duration) {
        let Tally { counts, histograms } = self.of(class);
        counts.waiting -= 1;
        counts.busy += 1;
        counts.wait.observe(wait);
        if let Some(histograms) = histograms {
            histograms.wait.record(wait);
        }
    }

    pub(crate) fn departed(&mut self, class: u32, hold: Duration) {
        let Tally { counts, histograms } = self.of(class);
        counts.busy -= 1;
        counts.hold.observe(hold);
        if let Some(histograms) = histograms {
            histograms.hold.record(hold);
        }
    }

    pub(crate) fn refused(&mut self, class: u32, reason: Reason) {
        let counts = &mut self.of(class).counts;
        counts.waiting -= 1;
        match reason {
            Reason::QueueFull => counts.refused_queue_full += 1,
            Reason::Deadline => counts.refused_deadline += 1,
            Reason::Hopeless => counts.refused_hopeless += 1,
            Reason::Unreachable => counts.refused_unreachable += 1,
        }
    }

    pub(crate) fn reneged(&mut self, class: u32) {
        let counts = &mut self.of(class).counts;
        counts.waiting -= 1;
        counts.reneged += 1;
    }

    /// The figures of each that has had a job, if there are several, by these names.
    pub(crate) fn stats<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<ClassStats> {
        let tallies = self.list.iter().zip(names).enumerate();
        let said = tallies.filter_map(|(class, (tally, name))| {
            let Tally { counts, histograms } = tally.as_deref()?;
            let Histograms { wait, hold } = histograms.clone()?;
            Some(ClassStats {
                class: class as u32,
                name: name.to_owned(),
                wait,
                hold,
                waiting: counts.waiting,
                busy: counts.busy,
                refused_queue_full: counts.refused_queue_full,
                refused_deadline: counts.refused_deadline,
                refused_hopeless: counts.refused_hopeless,
                refused_unreachable: counts.refused_unreachable,
                reneged: counts.reneged,
            })
        });
        said.collect()
    }
}
