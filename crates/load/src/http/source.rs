//! Origin of a thread's requests: clients that think, or arrivals that wait for nobody.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;

use gate::Time;
use workload::{Arrivals, Chance, Dist, stream};

use super::asks::{ARRIVALS, THINKING};
use super::plan::{Load, PlanSpec};
use super::schedule::Share;

/// Origin of requests.
pub(super) enum Source {
    Closed {
        think: Option<Dist>,
        chance: Chance,
        /// Clients that are to ask now and have no connection, with the moment from which they are;
        /// `None` at the start of the run: a client is there when its thread gets to it.
        ready: VecDeque<Option<Time>>,
        /// Clients that think: until when, and their connection.
        thinking: BinaryHeap<Reverse<(Time, u64)>>,
    },
    Open {
        schedule: Due,
        in_flight_max: u32,
        /// Open connections that nobody uses, the last used on top.
        idle: Vec<u32>,
    },
}

impl Source {
    /// The share of thread `number` of the load.
    pub(super) fn new(spec: &PlanSpec, number: u32) -> Source {
        match &spec.load {
            &Load::Closed { clients, think } => Source::Closed {
                think: (think != Dist::Constant(0.0)).then_some(think),
                chance: stream(spec.seed, THINKING + u64::from(number)),
                ready: {
                    let more = u32::from(number < clients % spec.threads);
                    iter::repeat_n(None, (clients / spec.threads + more) as usize).collect()
                },
                thinking: BinaryHeap::new(),
            },
            Load::Open { arrivals, in_flight_max } => Source::Open {
                schedule: Due::steady(*arrivals, spec.seed, number, spec.threads),
                in_flight_max: *in_flight_max,
                idle: Vec::new(),
            },
            Load::Varying { schedule, in_flight_max } => {
                let warmup_s = spec.warmup.as_secs_f64();
                let share = schedule.share(warmup_s, spec.seed, number, spec.threads);
                Source::Open {
                    schedule: Due::varying(share),
                    in_flight_max: *in_flight_max,
                    idle: Vec::new(),
                }
            }
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        matches!(self, Source::Closed { ready, .. } if !ready.is_empty())
    }

    /// When something is to start next, as far as that is known.
    pub(super) fn next_due(&self) -> Option<Time> {
        match self {
            Source::Closed { thinking, .. } => thinking.peek().map(|Reverse((due, _))| *due),
            Source::Open { schedule, .. } => Some(schedule.due()),
        }
    }
}

/// The intended starts of one thread's share of an open load: a pure function of the seed.
#[derive(Debug)]
pub(super) struct Due {
    pace: Pace,
    due: Time,
}

#[derive(Debug)]
enum Pace {
    Steady {
        arrivals: Arrivals,
        chance: Chance,
        /// The next arrival [s], not rounded so that errors do not add up.
        due_s: f64,
    },
    Varying(Share),
}

impl Due {
    fn steady(arrivals: Arrivals, seed: u64, number: u32, threads: u32) -> Due {
        let share = arrivals.scaled(1.0 / f64::from(threads));
        let mut chance = stream(seed, ARRIVALS + u64::from(number));
        let due_s = match arrivals {
            // Independent Poisson streams superpose exactly.
            Arrivals::Poisson { .. } => share.gap_s(&mut chance),
            // Equal gaps do if the threads take turns.
            Arrivals::Fixed { rate } => f64::from(number) / rate,
        };
        let pace = Pace::Steady { arrivals: share, chance, due_s };
        Due { pace, due: Time::from_secs_f64(due_s) }
    }

    fn varying(mut share: Share) -> Due {
        let due = share.next_s().map_or(Time::MAX, Time::from_secs_f64);
        Due { pace: Pace::Varying(share), due }
    }

    /// The next arrival.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Goes on to the arrival after the next one; which that was.
    pub(super) fn take(&mut self) -> Time {
        let due = self.due;
        self.due = match &mut self.pace {
            Pace::Steady { arrivals, chance, due_s } => {
                *due_s += arrivals.gap_s(chance);
                Time::from_secs_f64(*due_s)
            }
            Pace::Varying(share) => share.next_s().map_or(Time::MAX, Time::from_secs_f64),
        };
        due
    }

    /// Nothing arrives any more.
    pub(super) fn stop(&mut self) {
        self.due = Time::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gaps of all threads' arrivals together [s].
    fn gaps(arrivals: Arrivals, threads: u32, per_thread: usize) -> Vec<f64> {
        let mut at: Vec<f64> = Vec::new();
        let mut until = f64::INFINITY;
        for number in 0..threads {
            let mut schedule = Due::steady(arrivals, 7, number, threads);
            let mine: Vec<f64> = (0..per_thread).map(|_| schedule.take().as_secs_f64()).collect();
            until = mine[per_thread - 1].min(until);
            at.extend(mine);
        }
        // Beyond the first thread's end the others are alone.
        at.retain(|&at| at <= until);
        at.sort_by(f64::total_cmp);
        at.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Of 100 000 exponential gaps the mean has a standard error of 0.32 %, the squared coefficient
    /// of variation one of sqrt(8 / n) = 0.9 %; neighbours are uncorrelated within 1 / sqrt(n).
    #[test]
    fn threads_together_make_one_poisson_stream() {
        for threads in [1, 4] {
            let gaps =
                gaps(Arrivals::Poisson { rate: 1000.0 }, threads, 100_000 / threads as usize);
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
            let neighbours =
                gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
            assert!((mean * 1000.0 - 1.0).abs() < 4.0 / n.sqrt(), "mean {mean}");
            assert!((variance / (mean * mean) - 1.0).abs() < 4.0 * (8.0 / n).sqrt());
            assert!((neighbours / (n * variance)).abs() < 4.0 / n.sqrt());
        }
    }

    #[test]
    fn threads_together_make_equal_gaps() {
        for threads in [1, 3] {
            let gaps = gaps(Arrivals::Fixed { rate: 1000.0 }, threads, 3000);
            assert!(gaps.iter().all(|gap| (gap - 0.001).abs() < 2e-9), "{threads} threads");
        }
    }
}
