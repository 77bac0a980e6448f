//! A run without waits, interval by interval: what a closed load is judged, fitted and checked by.
//!
//! Requests in flight are counted, not computed from response times, so that Little's law stays a
//! check of the books.

use std::time::Duration;

use gate::Time;
use measure::{ClassCounts, ErrorKind, GeneratorHealth, Histogram, Interval};
use workload::tpcc::Kind;

/// No run has more intervals than this.
const INTERVALS_MAX: u32 = 600;
/// Their length in a run that is short enough.
const LENGTH_LEAST: Duration = Duration::from_millis(500);

/// Readings of the machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meters {
    /// The processor time of the terminals' thread.
    pub(super) thread: Duration,
    /// Ticks of all processors of the machine, busy and in all, where they can be read.
    pub(super) machine: Option<(u64, u64)>,
}

/// Counts interval by interval while a run goes on.
pub(super) struct Intervals {
    length: Duration,
    begin: Time,
    open: Open,
    in_flight: u32,
    /// Up to when `in_flight` is in the sum.
    summed: Time,
    meters: Box<dyn FnMut() -> Meters>,
    last: Meters,
    closed: Vec<Interval>,
    busy: Vec<f64>,
}

/// The interval that goes on.
#[derive(Default)]
struct Open {
    classes: [ClassCounts; 5],
    started: u64,
    lag: Histogram,
    in_flight_s: f64,
}

/// Length of the intervals of a run of this length.
pub(super) fn length(run: Duration) -> Duration {
    let shares = run.as_nanos().div_ceil(u128::from(INTERVALS_MAX) * LENGTH_LEAST.as_nanos());
    LENGTH_LEAST * u32::try_from(shares.max(1)).unwrap_or(u32::MAX)
}

impl Intervals {
    pub(super) fn new(length: Duration, mut meters: Box<dyn FnMut() -> Meters>) -> Intervals {
        let last = meters();
        Intervals {
            length,
            begin: Time::ZERO,
            open: Open::default(),
            in_flight: 0,
            summed: Time::ZERO,
            meters,
            last,
            closed: Vec::new(),
            busy: Vec::new(),
        }
    }

    pub(super) fn sent(&mut self, due: Time, now: Time) {
        self.advance(now);
        self.in_flight += 1;
        self.open.started += 1;
        self.open.lag.record(now - due);
    }

    pub(super) fn answered(&mut self, kind: Kind, sent: Time, now: Time) {
        self.advance(now);
        self.in_flight -= 1;
        let of = &mut self.open.classes[kind.index()];
        of.completed += 1;
        of.total.record(now - sent);
    }

    pub(super) fn failed(&mut self, kind: Kind, now: Time) {
        self.advance(now);
        self.in_flight -= 1;
        *self.open.classes[kind.index()].errors.entry(ErrorKind::Refused).or_default() += 1;
    }

    /// The intervals that lie before a moment as a whole, and how busy the machine's processors were
    /// in each; the latter is empty where that cannot be read.
    pub(super) fn close(mut self, until: Time) -> (Vec<Interval>, Vec<f64>) {
        self.advance(until);
        let whole = |interval: &Interval| {
            interval.start_s + interval.length_s <= until.as_secs_f64() + 1e-9
        };
        self.closed.retain(whole);
        self.busy.truncate(self.closed.len());
        if self.busy.len() < self.closed.len() {
            self.busy.clear();
        }
        (self.closed, self.busy)
    }

    /// Sums up to a moment, and closes what has ended by then.
    fn advance(&mut self, now: Time) {
        while self.begin + self.length <= now {
            let end = self.begin + self.length;
            self.sum(end);
            self.shut();
            self.begin = end;
        }
        self.sum(now);
    }

    fn sum(&mut self, now: Time) {
        self.open.in_flight_s += f64::from(self.in_flight) * now.since(self.summed).as_secs_f64();
        self.summed = now;
    }

    fn shut(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.lag.pack();
        open.classes.iter_mut().for_each(|class| class.total.pack());
        let length_s = self.length.as_secs_f64();
        let now = (self.meters)();
        let before = std::mem::replace(&mut self.last, now);
        if let (Some((busy, all)), Some((busy_before, all_before))) = (now.machine, before.machine)
            && all > all_before
        {
            let share = busy.saturating_sub(busy_before) as f64 / (all - all_before) as f64;
            self.busy.push(share.min(1.0));
        }
        self.closed.push(Interval {
            start_s: self.begin.as_secs_f64(),
            length_s,
            classes: open.classes.into(),
            in_flight_mean: open.in_flight_s / length_s,
            started: open.started,
            connects: 0,
            lag: open.lag,
            generator: GeneratorHealth {
                thread_cpu_s: vec![now.thread.saturating_sub(before.thread).as_secs_f64()],
            },
        });
    }
}

/// The intervals of parts that ran at the same time as those of one run, as long as all parts ran.
pub(super) fn merged<'a>(parts: impl Iterator<Item = &'a [Interval]>) -> Vec<Interval> {
    let mut parts: Vec<&[Interval]> = parts.collect();
    let length = parts.iter().map(|part| part.len()).min().unwrap_or(0);
    let mut all = parts.pop().map_or_else(Vec::new, |part| part[..length].to_vec());
    for (nth, into) in all.iter_mut().enumerate() {
        for of in parts.iter().map(|part| &part[nth]) {
            for (class, more) in into.classes.iter_mut().zip(&of.classes) {
                class.completed += more.completed;
                class.total.merge(&more.total);
                for (&kind, count) in &more.errors {
                    *class.errors.entry(kind).or_default() += count;
                }
            }
            into.in_flight_mean += of.in_flight_mean;
            into.started += of.started;
            into.lag.merge(&of.lag);
            into.generator.thread_cpu_s.extend(&of.generator.thread_cpu_s);
        }
        into.lag.pack();
        into.classes.iter_mut().for_each(|class| class.total.pack());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Each look at the meters shows 100 ms more of the thread, and 60 more of 80 ticks.
    fn counted() -> Intervals {
        let mut looks = 0;
        let meters = move || {
            looks += 1;
            Meters {
                thread: Duration::from_millis(100 * looks),
                machine: Some((60 * looks, 80 * looks)),
            }
        };
        Intervals::new(Duration::from_millis(500), Box::new(meters))
    }

    #[test]
    fn what_is_in_flight_is_counted_over_the_edges_of_intervals() {
        let mut all = counted();
        all.sent(at(0), at(0));
        all.sent(at(99), at(100));
        all.answered(Kind::Payment, at(99), at(350));
        // Nothing happens for more than an interval.
        all.answered(Kind::NewOrder, at(0), at(1_250));
        all.sent(at(1_250), at(1_250));
        all.failed(Kind::Delivery, at(1_400));
        let (intervals, busy) = all.close(at(1_600));
        let starts: Vec<f64> = intervals.iter().map(|interval| interval.start_s).collect();
        assert_eq!(starts, [0.0, 0.5, 1.0]);
        let flights: Vec<f64> = intervals.iter().map(|interval| interval.in_flight_mean).collect();
        // (500 + 250) ms of 500; all of it; (250 + 150) of 500.
        for (found, wanted) in flights.iter().zip([1.5, 1.0, 0.8]) {
            assert!((found - wanted).abs() < 1e-9, "{flights:?}");
        }
        let done: Vec<u64> = intervals
            .iter()
            .map(|interval| interval.classes.iter().map(|class| class.completed).sum())
            .collect();
        assert_eq!(done, [1, 0, 1]);
        assert_eq!(intervals[0].started, 2);
        let of = &intervals[2].classes[Kind::NewOrder.index()].total;
        assert!((of.mean_s() - 1.25).abs() < 2e-3, "{}", of.mean_s());
        let refused = &intervals[2].classes[Kind::Delivery.index()].errors;
        assert_eq!(refused.get(&ErrorKind::Refused), Some(&1));
        assert!((intervals[1].generator.thread_cpu_s[0] - 0.1).abs() < 1e-9);
        assert_eq!(busy, [0.75; 3]);
    }

    #[test]
    fn parts_add_up_as_long_as_all_of_them_ran() {
        let part = |kind: Kind, until: u64| {
            let mut part = counted();
            part.sent(at(0), at(1));
            part.answered(kind, at(0), at(250));
            part.sent(at(300), at(300));
            part.failed(kind, at(400));
            part.close(at(until)).0
        };
        let parts = [part(Kind::Payment, 1_600), part(Kind::Payment, 1_000)];
        let all = merged(parts.iter().map(|part| &part[..]));
        assert_eq!(all.len(), 2);
        let payments = &all[0].classes[Kind::Payment.index()];
        assert_eq!((payments.completed, payments.total.len()), (2, 2));
        assert_eq!(payments.errors.get(&ErrorKind::Refused), Some(&2));
        assert_eq!((all[0].started, all[0].lag.len()), (4, 4));
        let flight = parts[0][0].in_flight_mean;
        assert!((all[0].in_flight_mean - 2.0 * flight).abs() < 1e-9 && flight > 0.0);
        assert_eq!(all[0].generator.thread_cpu_s.len(), 2);
        assert!(merged(std::iter::empty()).is_empty());
    }

    #[test]
    fn an_interval_that_was_cut_off_says_nothing() {
        let mut all = counted();
        all.sent(at(0), at(0));
        let (intervals, busy) = all.close(at(999));
        assert_eq!((intervals.len(), busy.len()), (1, 1));
        let mut all = counted();
        all.sent(at(0), at(0));
        all.answered(Kind::Payment, at(0), at(1_700));
        assert_eq!(all.close(at(1_200)).0.len(), 2, "what came after the end does not count");
    }

    #[test]
    fn a_run_of_weeks_has_no_more_intervals_than_one_of_minutes() {
        assert_eq!(length(Duration::from_secs(12)), LENGTH_LEAST);
        assert_eq!(length(Duration::from_secs(300)), LENGTH_LEAST);
        let weeks = Duration::from_secs(30 * 86_400);
        assert!(weeks.as_secs_f64() / length(weeks).as_secs_f64() <= f64::from(INTERVALS_MAX));
    }
}
