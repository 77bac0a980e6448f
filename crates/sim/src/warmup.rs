//! When a run may begin to count: a network begins empty, its closed classes about where they are in the long
//! run, and what it does on the way to its steady state is no part of that.
//!
//! Four things must have happened. Nothing in the responses may tell any more that the run began (MSER-5;
//! White 1997). Whoever was in flight must have been replaced several times over: a response that is longer
//! than the run so far is not among those completed, so that they alone never tell (Little's law). That holds
//! for each class by itself, because a fast one replaces its own in no time. And the slowest queue must have
//! had time to forget that it was empty, and every cache must be full.

use crate::balance;
use crate::program::Program;
use crate::replication::Replication;
use crate::run::{Options, SimError, each};

/// Requests of a run after which the end of the warm-up is looked for first, and after which responses that
/// still change do not prolong it.
const PILOT: (u64, u64) = (1_000, 128_000);
/// Completions for each job in flight at the least: what an exponential time leaves over is e^-5, 0.7 %.
const TURNOVERS: u64 = 5;
/// Relaxation times at the least; e^-3 of what is left at the start is 5 % of a difference that is itself
/// a share of the queue, and as much again is left out while the rest is looked at.
const RELAXATIONS: f64 = 3.0;
/// The most values kept of a series of responses.
const KEPT_MAX: usize = 1 << 17;

/// Result of a warm-up.
#[derive(Clone, Debug)]
pub(crate) struct Warmup {
    /// Requests of each run that are left out.
    pub(crate) requests: u64,
    /// True if the end of the transient was found in the responses.
    pub(crate) found: bool,
    /// Why it should have been longer than the budget allows.
    pub(crate) short: Option<String>,
}

/// Runs the pilot.
///
/// # Errors
/// As a replication's run.
pub(crate) fn run(
    runs: &mut [Replication<'_>],
    options: &Options,
    program: &Program,
) -> Result<Warmup, SimError> {
    let plan = options.plan;
    let (first, quiet) = (plan.share(PILOT.0), plan.share(PILOT.1));
    // What is left out is not more than half of what may be counted.
    let most = (options.completions_max / u64::from(plan.runs()) / 2).max(first);
    let flows = balance::flows(program);
    let mut requests = 0;
    let mut step = first;
    runs.iter_mut().for_each(|run| run.responses = Some(Responses::default()));
    let (found, short) = loop {
        each(runs, options, |run| run.run(step))?;
        requests += step;
        let found = measure::mser(&mean_series(runs), 5).is_some();
        let short = missing(runs, &flows, requests, program);
        if (short.is_none() && (found || requests >= quiet)) || requests >= most {
            break (found, short);
        }
        step = requests.min(most - requests);
    };
    runs.iter_mut().for_each(|run| run.responses = None);
    Ok(Warmup { requests, found, short })
}

/// Number of jobs of some classes that have come and not gone since the start, and of those that
/// have gone.
fn inside_and_left(run: &Replication<'_>, classes: &[usize]) -> (u64, u64) {
    let tallies = || classes.iter().map(|&at| &run.classes[at]);
    let left = tallies().map(|class| class.completed + class.failed()).sum();
    let come: u64 = tallies().map(|class| class.offered).sum();
    assert!(come >= left, "{left} have gone of {come}");
    (come - left, left)
}

/// The reason against counting from here on; none if there is none.
fn missing(
    runs: &[Replication<'_>],
    flows: &[(String, Vec<usize>)],
    requests: u64,
    program: &Program,
) -> Option<String> {
    let in_flight = runs.iter().map(Replication::in_flight).max().unwrap_or(0) as u64;
    if requests < TURNOVERS * in_flight {
        return Some(format!(
            "{in_flight} jobs are in flight after {requests} requests of warm-up, and {TURNOVERS} times \
             as many should have been completed"
        ));
    }
    let slow = flows.iter().find_map(|(name, classes)| {
        let of = |run: &Replication<'_>| inside_and_left(run, classes);
        let lacks = |&(inside, left): &(u64, u64)| left < TURNOVERS * inside;
        runs.iter().map(of).filter(lacks).max().map(|counts| (name, counts))
    });
    if let Some((name, (inside, left))) = slow {
        return Some(format!(
            "{inside} jobs of {name} are in flight after {left} of them that are done in the warm-up, and \
             {TURNOVERS} times as many should be"
        ));
    }
    let filling = program.caches.iter().enumerate().find_map(|(at, cache)| {
        let fills = runs.iter().filter_map(|run| run.caches[at].fills()).min()?;
        Some((&cache.name, fills))
    });
    if let Some((name, (taken_in, least))) = filling {
        return Some(format!(
            "cache `{name}` has taken in {taken_in} keys in {requests} requests of warm-up, and {least} are \
             needed before it no longer tells that it began empty"
        ));
    }
    let passed = runs.iter().map(Replication::passed_s).fold(f64::INFINITY, f64::min);
    let ((longest, stay_s), relaxation_s) = (program.longest_stay, program.relaxation_s);
    let least = TURNOVERS as f64 * stay_s;
    if passed < least {
        let class = &program.classes[longest].name;
        return Some(format!(
            "class `{class}` is served for {stay_s:.3e} s, and the warm-up of {requests} requests lasted \
             {passed:.3e} s, where {least:.3e} s are needed"
        ));
    }
    let least = RELAXATIONS * relaxation_s;
    (passed < least).then(|| {
        format!(
            "the load is so high that queues forget their start in some {relaxation_s:.3e} s, and the \
             warm-up of {requests} requests lasted {passed:.3e} s, where {least:.3e} s are needed"
        )
    })
}

/// Response times in order of completion \[s\]; of long series the means of some at a time.
#[derive(Debug)]
pub(crate) struct Responses {
    stride: u32,
    sum: f64,
    summed: u32,
    means: Vec<f64>,
}

impl Default for Responses {
    fn default() -> Responses {
        Responses { stride: 1, sum: 0.0, summed: 0, means: Vec::new() }
    }
}

impl Responses {
    #[inline]
    pub(crate) fn push(&mut self, response_s: f64) {
        self.sum += response_s;
        self.summed += 1;
        if self.summed < self.stride {
            return;
        }
        self.means.push(self.sum / f64::from(self.stride));
        (self.sum, self.summed) = (0.0, 0);
        if self.means.len() == KEPT_MAX {
            self.means = self.means.chunks_exact(2).map(|two| (two[0] + two[1]) / 2.0).collect();
            self.stride *= 2;
        }
    }
}

/// The n-th response, averaged over the replications: what the start has in common stands out.
fn mean_series(runs: &[Replication<'_>]) -> Vec<f64> {
    let all = || runs.iter().filter_map(|run| run.responses.as_ref());
    let length = all().map(|responses| responses.means.len()).min().unwrap_or(0);
    // Of runs that completed other numbers one may have begun to keep means of twice as many.
    let stride = all().map(|responses| responses.stride).max().unwrap_or(1);
    let mut mean = vec![0.0; length];
    let mut shortest = length;
    for responses in all() {
        let together = (stride / responses.stride) as usize;
        let means = responses.means.chunks_exact(together);
        shortest = shortest.min(means.len());
        for (sum, some) in mean.iter_mut().zip(means) {
            *sum += some.iter().sum::<f64>() / (together * runs.len()) as f64;
        }
    }
    mean.truncate(shortest);
    mean
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, Responses};

    #[test]
    fn long_series_are_kept_as_means() {
        let mut responses = Responses::default();
        (0..3 * KEPT_MAX).for_each(|n| responses.push(n as f64));
        assert_eq!(responses.stride, 4);
        assert_eq!(responses.means.len(), 3 * KEPT_MAX / 4);
        assert_eq!(responses.means[..2], [1.5, 5.5]);
    }
}
