//! Arrivals of an open load, laid down before the run: at a rate, at a rate that changes, or with the gaps of
//! an access log. A thread's share is a pure function of the seed.
//!
//! The rate over time is the simulator's ([`RateCurve`], the key `rate-curve` of a scenario), and arrivals
//! are drawn from it by the same code, so that a schedule can be simulated before it is run.

use std::sync::Arc;

use gate::Time;
use measure::figures::{rate as rate_text, time};
use measure::{ArrivalSpacing, Course, CurvePieces, Phase};
use workload::{Arrivals, Chance, CurveError, Pieces, RateCurve, stream};

use crate::asks::ARRIVALS;

/// Arrivals of an open load whose rate changes; the warm-up comes before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    source: Source,
    /// Name, start and end of each phase, since the end of the warm-up \[s\].
    phases: Vec<(String, f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Curve {
        curve: RateCurve,
        spacing: ArrivalSpacing,
    },
    /// Moments of the arrivals, in order \[s\].
    Log {
        at: Arc<[f64]>,
        speed: f64,
    },
}

/// Parts into which a ramp and a log are cut.
const PARTS: u32 = 10;

impl Schedule {
    /// Rates [1/s], each for a span \[s\]: a phase each.
    ///
    /// # Errors
    /// If a rate or a span is out of range, or every rate is 0.
    pub fn steps(steps: &[(f64, f64)], spacing: ArrivalSpacing) -> Result<Schedule, CurveError> {
        let (mut points, mut phases, mut at) = (Vec::new(), Vec::new(), 0.0);
        for &(rate, span) in steps {
            points.push((at, rate));
            phases.push((rate_text(rate), at, at + span));
            at += span;
        }
        let curve = RateCurve::new(points, Pieces::Constant, None)?;
        Ok(Schedule { source: Source::Curve { curve, spacing }, phases })
    }

    /// A rate that goes straight from one to another [1/s] within a span \[s\]; its phases are its tenths.
    ///
    /// # Errors
    /// If a rate or the span is out of range, or both rates are 0.
    pub fn ramp(
        from: f64,
        to: f64,
        span: f64,
        spacing: ArrivalSpacing,
    ) -> Result<Schedule, CurveError> {
        let curve = RateCurve::new(vec![(0.0, from), (span, to)], Pieces::Linear, None)?;
        let edge = |part: u32| f64::from(part) / f64::from(PARTS);
        let rate = |part: u32| rate_text(from + (to - from) * edge(part));
        let phases = (0..PARTS).map(|part| {
            let name = format!("{} to {}", rate(part), rate(part + 1));
            (name, edge(part) * span, edge(part + 1) * span)
        });
        Ok(Schedule { phases: phases.collect(), source: Source::Curve { curve, spacing } })
    }

    /// A rate, another one from a moment on for a while, and the first one again to the end: before, blip
    /// and after are its phases. Rates [1/s], times \[s\].
    ///
    /// # Errors
    /// If a rate or a time is out of range, times are not in order, or both rates are 0.
    pub fn blip(
        [base, blip]: [f64; 2],
        [from, to, end]: [f64; 3],
        spacing: ArrivalSpacing,
    ) -> Result<Schedule, CurveError> {
        let points = vec![(0.0, base), (from, blip), (to, base), (end, base)];
        let curve = RateCurve::new(points, Pieces::Constant, None)?;
        let phases = vec![
            (format!("before, {}", rate_text(base)), 0.0, from),
            (format!("blip, {}", rate_text(blip)), from, to),
            (format!("after, {}", rate_text(base)), to, end),
        ];
        Ok(Schedule { source: Source::Curve { curve, spacing }, phases })
    }

    /// Moments of arrivals since the first \[s\], in order, the gaps already divided by `speed`; its phases
    /// are its tenths.
    ///
    /// # Panics
    /// If there is none, one is not finite, or they are not in order.
    pub fn log(at: Vec<f64>, speed: f64) -> Schedule {
        let end = *at.last().expect("a log has a request");
        assert!(end.is_finite() && at.is_sorted(), "moments are in order");
        // The last request arrives within the last phase, not at its edge.
        let span = (end * 1.000_001 + 1e-3) / f64::from(PARTS);
        let phase = |part: u32| {
            let (from, to) = (f64::from(part) * span, f64::from(part + 1) * span);
            (format!("{} to {}", time(from), time(to)), from, to)
        };
        let phases = (0..PARTS).map(phase).collect();
        Schedule { source: Source::Log { at: at.into(), speed }, phases }
    }

    /// Length, warm-up not counted \[s\].
    pub fn length_s(&self) -> f64 {
        self.phases.last().map_or(0.0, |(_, _, end)| *end)
    }

    /// True if each arrival stands for a certain request, the one with its number.
    pub fn is_log(&self) -> bool {
        matches!(self.source, Source::Log { .. })
    }

    /// Number of arrivals in the mean, without the warm-up's.
    pub fn arrivals(&self) -> f64 {
        self.phases.iter().map(|(_, from, to)| self.arrivals_within(*from, *to)).sum()
    }

    /// The highest rate, over a second where it is a log's [1/s].
    pub fn rate_max(&self) -> f64 {
        match &self.source {
            Source::Curve { curve, .. } => curve.rate_max(),
            Source::Log { at, .. } => {
                let from = |&end: &f64| at.partition_point(|&one| one <= end - 1.0);
                let within = |(nth, end): (usize, &f64)| nth + 1 - from(end);
                at.iter().enumerate().map(within).max().unwrap_or(0) as f64
            }
        }
    }

    fn arrivals_within(&self, from: f64, to: f64) -> f64 {
        match &self.source {
            Source::Curve { curve, .. } => curve.arrivals_by(to) - curve.arrivals_by(from),
            Source::Log { at, .. } => {
                let before = |end: f64| at.partition_point(|&one| one < end);
                (before(to) - before(from)) as f64
            }
        }
    }

    /// The phases as a record has them, after a warm-up \[s\].
    pub fn phases(&self, warmup_s: f64) -> Vec<Phase> {
        let phase = |(name, from, to): &(String, f64, f64)| Phase {
            name: name.clone(),
            start_s: warmup_s + from,
            length_s: to - from,
            arrivals: self.arrivals_within(*from, *to),
        };
        self.phases.iter().map(phase).collect()
    }

    /// The origin of the rate as a record has it.
    pub fn course(&self) -> Course {
        match &self.source {
            Source::Curve { curve, spacing } => Course::RateCurve {
                points: curve.points().to_vec(),
                pieces: match curve.pieces() {
                    Pieces::Constant => CurvePieces::Constant,
                    Pieces::Linear => CurvePieces::Linear,
                },
                period_s: curve.period(),
                spacing: *spacing,
            },
            Source::Log { at, speed } => Course::Log { requests: at.len() as u64, speed: *speed },
        }
    }

    /// The share of one thread of several, after a warm-up \[s\].
    fn share(&self, warmup_s: f64, seed: u64, number: u32, threads: u32) -> Share {
        match &self.source {
            Source::Curve { curve, spacing } => {
                let curve = curve.clone().led_in(warmup_s);
                let pace = match spacing {
                    // Independent Poisson streams superpose exactly.
                    ArrivalSpacing::Poisson => {
                        let chance = stream(seed, ARRIVALS + u64::from(number));
                        Pace::Poisson(curve.scaled(1.0 / f64::from(threads)), Box::new(chance))
                    }
                    // Equal parts of the curve's area do if the threads take turns.
                    ArrivalSpacing::Fixed => {
                        Pace::Fixed { curve, first: f64::from(number), step: f64::from(threads) }
                    }
                };
                Share { pace, at: 0.0, made: 0 }
            }
            Source::Log { at, .. } => {
                let (next, step) = (number as usize, threads as usize);
                let pace = Pace::Log { at: Arc::clone(at), warmup_s, next, step };
                Share { pace, at: 0.0, made: 0 }
            }
        }
    }
}

/// One thread's share of a schedule.
#[derive(Debug)]
struct Share {
    pace: Pace,
    /// The last arrival \[s\], not rounded so that errors do not add up.
    at: f64,
    made: u64,
}

#[derive(Debug)]
enum Pace {
    Poisson(RateCurve, Box<Chance>),
    Fixed { curve: RateCurve, first: f64, step: f64 },
    Log { at: Arc<[f64]>, warmup_s: f64, next: usize, step: usize },
}

impl Share {
    /// The next arrival since the run began \[s\]; none after the last.
    fn next_s(&mut self) -> Option<f64> {
        let next = match &mut self.pace {
            Pace::Poisson(curve, chance) => curve.arrival_after(self.at, chance),
            Pace::Fixed { curve, first, step } => {
                curve.after(self.at, if self.made == 0 { *first } else { *step })
            }
            Pace::Log { at, warmup_s, next, step } => {
                let due = at.get(*next).map(|at| *warmup_s + at);
                *next += *step;
                due
            }
        };
        self.made += 1;
        self.at = next.unwrap_or(self.at);
        next
    }
}

/// The intended starts of one thread's share of an open load: a pure function of the seed.
#[derive(Debug)]
pub struct Due {
    pace: DuePace,
    due: Time,
}

#[derive(Debug)]
enum DuePace {
    Steady {
        arrivals: Arrivals,
        chance: Chance,
        /// The next arrival \[s\], not rounded so that errors do not add up.
        due_s: f64,
    },
    Varying(Share),
}

impl Due {
    /// The share of thread `number` of so many at one rate.
    pub fn steady(arrivals: Arrivals, seed: u64, number: u32, threads: u32) -> Due {
        let share = arrivals.scaled(1.0 / f64::from(threads));
        let mut chance = stream(seed, ARRIVALS + u64::from(number));
        let due_s = match arrivals {
            // Independent Poisson streams superpose exactly.
            Arrivals::Poisson { .. } => share.gap_s(&mut chance),
            // Equal gaps do if the threads take turns.
            Arrivals::Fixed { rate } => f64::from(number) / rate,
        };
        let pace = DuePace::Steady { arrivals: share, chance, due_s };
        Due { pace, due: Time::from_secs_f64(due_s) }
    }

    /// The share of thread `number` of so many under a schedule, after a warm-up \[s\].
    pub fn varying(
        schedule: &Schedule,
        warmup_s: f64,
        seed: u64,
        number: u32,
        threads: u32,
    ) -> Due {
        let mut share = schedule.share(warmup_s, seed, number, threads);
        let due = share.next_s().map_or(Time::MAX, Time::from_secs_f64);
        Due { pace: DuePace::Varying(share), due }
    }

    /// The next arrival; [`Time::MAX`] where there is none.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Goes on to the arrival after the next one; which that was.
    pub fn take(&mut self) -> Time {
        let due = self.due;
        self.due = match &mut self.pace {
            DuePace::Steady { arrivals, chance, due_s } => {
                *due_s += arrivals.gap_s(chance);
                Time::from_secs_f64(*due_s)
            }
            DuePace::Varying(share) => share.next_s().map_or(Time::MAX, Time::from_secs_f64),
        };
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

    fn all(schedule: &Schedule, warmup_s: f64, threads: u32, end: f64) -> Vec<f64> {
        let mut at = Vec::new();
        for number in 0..threads {
            let mut share = schedule.share(warmup_s, 7, number, threads);
            at.extend(std::iter::from_fn(|| share.next_s().filter(|next| *next < end)));
        }
        at.sort_by(f64::total_cmp);
        at
    }

    /// Of a Poisson count of mean 2 000 four standard deviations are 9 %.
    #[test]
    fn threads_together_make_the_steps_after_the_warm_up() {
        for threads in [1, 3] {
            let steps = [(100.0, 20.0), (400.0, 10.0), (0.0, 5.0), (200.0, 10.0)];
            let schedule = Schedule::steps(&steps, ArrivalSpacing::Poisson).unwrap();
            assert_eq!((schedule.length_s(), schedule.arrivals()), (45.0, 8000.0));
            let at = all(&schedule, 5.0, threads, 50.0);
            for phase in schedule.phases(5.0) {
                let within =
                    |at: &&f64| **at >= phase.start_s && **at < phase.start_s + phase.length_s;
                let count = at.iter().filter(within).count() as f64;
                let off = (count - phase.arrivals).abs();
                assert!(off <= 4.0 * phase.arrivals.sqrt(), "{}: {count}", phase.name);
            }
            let warm = at.iter().filter(|at| **at < 5.0).count() as f64;
            assert!((warm - 500.0).abs() < 4.0 * 500_f64.sqrt(), "the first rate holds before");
        }
    }

    #[test]
    fn equal_areas_make_equal_gaps_at_each_rate() {
        for threads in [1, 4] {
            let steps = [(100.0, 1.0), (1000.0, 1.0)];
            let schedule = Schedule::steps(&steps, ArrivalSpacing::Fixed).unwrap();
            let at = all(&schedule, 0.0, threads, 2.0 - 1e-9);
            assert_eq!(at.len(), 1100);
            let gaps: Vec<f64> = at.windows(2).map(|two| two[1] - two[0]).collect();
            assert!(gaps[..99].iter().all(|gap| (gap - 0.01).abs() < 1e-9));
            assert!(gaps[100..].iter().all(|gap| (gap - 0.001).abs() < 1e-9));
        }
    }

    #[test]
    fn a_log_keeps_its_moments_on_any_number_of_threads() {
        let moments = vec![0.0, 0.5, 0.5, 2.0, 9.0];
        let schedule = Schedule::log(moments.clone(), 1.0);
        for threads in [1, 2, 7] {
            let at: Vec<f64> = all(&schedule, 1.0, threads, 100.0);
            assert_eq!(at, moments.iter().map(|at| at + 1.0).collect::<Vec<_>>());
        }
        let phases = schedule.phases(1.0);
        assert_eq!(phases.iter().map(|phase| phase.arrivals).sum::<f64>(), 5.0);
        assert_eq!(phases[9].arrivals, 1.0, "the last request is in the last phase");
        assert_eq!(schedule.rate_max(), 3.0);
    }

    #[test]
    fn a_ramp_and_a_blip_have_the_area_that_they_should() {
        let ramp = Schedule::ramp(0.0, 100.0, 10.0, ArrivalSpacing::Poisson).unwrap();
        assert!((ramp.arrivals() - 500.0).abs() < 1e-9);
        assert_eq!(ramp.phases(0.0)[9].name, "90.0 /s to 100 /s");
        let times = [4.0, 5.0, 10.0];
        let blip = Schedule::blip([10.0, 200.0], times, ArrivalSpacing::Poisson).unwrap();
        assert_eq!(blip.arrivals(), 90.0 + 200.0);
        assert!(Schedule::blip([10.0, 1.0], [4.0, 4.0, 9.0], ArrivalSpacing::Fixed).is_err());
    }

    /// The simulator draws the arrivals of a scenario's `rate-curve` one by one from a stream: a thread
    /// that is alone makes the same ones.
    #[test]
    fn one_thread_makes_the_arrivals_that_the_simulator_draws() {
        let schedule = Schedule::ramp(10.0, 100.0, 10.0, ArrivalSpacing::Poisson).unwrap();
        let points = vec![(0.0, 10.0), (10.0, 100.0)];
        let curve = RateCurve::new(points, Pieces::Linear, None).unwrap();
        let mut chance = stream(7, ARRIVALS);
        let mut at = 0.0;
        for live in all(&schedule, 0.0, 1, 10.0) {
            at = curve.arrival_after(at, &mut chance).unwrap();
            assert_eq!(at, live);
        }
    }
}
