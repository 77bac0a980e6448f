//! Arrivals of an open load, laid down before the run: a thread's share is a pure function of the seed.

use gate::Time;
use workload::{Arrivals, Chance, stream};

use crate::asks::ARRIVALS;

/// The intended starts of one thread's share of an open load: a pure function of the seed.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    chance: Chance,
    /// The next arrival \[s\], not rounded so that errors do not add up.
    due_s: f64,
    due: Time,
}

impl Schedule {
    /// The share of thread `number` of so many.
    pub fn new(arrivals: Arrivals, seed: u64, number: u32, threads: u32) -> Schedule {
        let share = arrivals.scaled(1.0 / f64::from(threads));
        let mut chance = stream(seed, ARRIVALS + u64::from(number));
        let due_s = match arrivals {
            // Independent Poisson streams superpose exactly.
            Arrivals::Poisson { .. } => share.gap_s(&mut chance),
            // Equal gaps do if the threads take turns.
            Arrivals::Fixed { rate } => f64::from(number) / rate,
        };
        Schedule { arrivals: share, chance, due_s, due: Time::from_secs_f64(due_s) }
    }

    /// The next arrival.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Goes on to the arrival after the next one; which that was.
    pub fn take(&mut self) -> Time {
        let due = self.due;
        self.due_s += self.arrivals.gap_s(&mut self.chance);
        self.due = Time::from_secs_f64(self.due_s);
        due
    }

    /// Nothing arrives any more.
    pub fn stop(&mut self) {
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
            let mut schedule = Schedule::new(arrivals, 7, number, threads);
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
