//! Two gates under one load, job by job: whether a simulation does what was recorded, and by how much the
//! mean waits differ.

use std::time::Duration;

use measure::{Batches, Estimate, GateAccount, JobFate};
use sim::recorded::RecordedLoad;

/// The recorded gate, simulated, against the recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reproduction {
    /// Jobs whose fate the recording tells.
    pub(super) compared: u64,
    /// Jobs that were served in one and not in the other, or refused for another reason.
    pub(super) other_fate: u64,
    /// Jobs that were served in both after different waits.
    pub(super) other_wait: u64,
    /// The largest difference of a wait.
    pub(super) largest: Duration,
    /// Mean waits of the jobs served in both, recorded and simulated \[s\].
    means: [f64; 2],
}

/// Share of the jobs that may have another fate, and relative difference of the mean waits, at which the
/// simulation still stands for the recorded gate.
const FATES_MAX: f64 = 0.001;
const MEANS_MAX: f64 = 0.01;
/// A difference of the mean waits that no clock tells [s].
const UNTOLD: f64 = 1e-6;

impl Reproduction {
    pub(super) fn of(recorded: &GateAccount, simulated: &GateAccount) -> Reproduction {
        let mut all = Reproduction::default();
        let (mut sums, mut both) = ([0.0; 2], 0.0);
        for (before, now) in recorded.fates().iter().zip(simulated.fates()) {
            if *before == JobFate::Waiting {
                continue;
            }
            all.compared += 1;
            match (before.wait(), now.wait()) {
                (Some(before), Some(now)) => {
                    all.other_wait += u64::from(before != now);
                    all.largest = all.largest.max(before.abs_diff(now));
                    sums[0] += before.as_secs_f64();
                    sums[1] += now.as_secs_f64();
                    both += 1.0;
                }
                _ => all.other_fate += u64::from(before != now),
            }
        }
        if both > 0.0 {
            all.means = sums.map(|sum| sum / both);
        }
        all
    }

    /// True if every job has the fate and the wait of the recording, to the nanosecond.
    pub(super) fn is_exact(&self) -> bool {
        self.other_fate + self.other_wait == 0
    }

    /// True if it is so near to the recording that what it says of other gates counts.
    pub(super) fn is_near(&self) -> bool {
        let [recorded, simulated] = self.means;
        let apart = (recorded - simulated).abs();
        self.other_fate as f64 <= FATES_MAX * self.compared as f64
            && (apart <= UNTOLD || apart <= MEANS_MAX * recorded)
    }
}

/// Blocks of time into which a recording is cut; the interval rests on their differences.
const BLOCKS: usize = 200;

/// The mean, over the jobs that two gates serve, of the wait at the second minus that at the first, with its
/// interval by blocks of time; `None` if there is no such job.
pub(super) fn differences(
    load: &RecordedLoad,
    first: &[JobFate],
    second: &[JobFate],
    class: Option<u32>,
) -> Option<Estimate> {
    let (from, to) = load.span();
    let length = to.since(from).as_secs_f64().max(1e-9);
    let (mut sums, mut counts) = (vec![0.0; BLOCKS], vec![0.0; BLOCKS]);
    for (job, (first, second)) in load.jobs().iter().zip(first.iter().zip(second)) {
        let is_wanted = class.is_none_or(|class| job.job.class == class);
        if let (true, Some(first), Some(second)) = (is_wanted, first.wait(), second.wait()) {
            let at = job.job.since.since(from).as_secs_f64() / length;
            let block = ((at * BLOCKS as f64) as usize).min(BLOCKS - 1);
            sums[block] += second.as_secs_f64() - first.as_secs_f64();
            counts[block] += 1.0;
        }
    }
    let served: f64 = counts.iter().sum();
    if served == 0.0 {
        return None;
    }
    let Batches { mut estimate, correlated, .. } = Batches::of_ratio(&sums, &counts, 0.95);
    // Neighbours that still tell of each other make an interval too narrow: none is claimed. Nor is one of
    // few jobs. Where no job waits differently, there is nothing to doubt.
    let differs = sums.iter().any(|sum| *sum != 0.0);
    if differs && (correlated || served < BLOCKS as f64) {
        estimate.half_width = f64::INFINITY;
    }
    Some(estimate)
}
