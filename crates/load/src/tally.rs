//! Observations of a thread in an interval, and the threads' parts put together.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::http::Frame;
use gate::Time;
use measure::{ClassCounts, ErrorKind, GeneratorHealth, Histogram, Interval};

/// Observations of one thread in one interval.
#[derive(Debug)]
pub struct Tally {
    /// Its start.
    pub start: Time,
    /// Its end, once it is over.
    pub end: Time,
    /// By class, requests that ended.
    pub classes: Vec<ClassCounts>,
    /// Requests whose intended start fell into it.
    pub started: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// Actual less intended start of each request.
    pub lag: Histogram,
    /// CPU time that the thread used.
    pub cpu: Duration,
    /// By class: true if an answer had another size than the class.
    pub resized: Vec<bool>,
    /// Facts beside the counts.
    pub odd: Odd,
    /// Frames with which an HTTP/2 server ended streams and connections.
    pub(crate) frames: BTreeMap<Frame, u64>,
    /// Time in flight, summed over requests, since `start` \[ns\]. Each start subtracts its moment and
    /// each end adds its own, modulo 2^64: only the sum must fit.
    area: u64,
}

/// Requests in flight in an open run, over its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct InFlight {
    /// Their number, integrated over the time \[s\].
    area_s: f64,
    length_s: f64,
}

impl InFlight {
    /// Takes note of an interval.
    pub fn add(&mut self, interval: &Interval) {
        self.area_s += interval.in_flight_mean * interval.length_s;
        self.length_s += interval.length_s;
    }

    /// Note on those that were left at the end, of so many that began, as a person reads it. In a run that keeps up
    /// there are as many at the end as at any other time; where they grow steadily, there are twice as many as on
    /// average.
    pub fn left(&self, left: u64, began: &str) -> String {
        let mean = self.area_s / self.length_s.max(1e-9);
        let has_grown = left as f64 > 1.5 * mean + 3.0 * mean.max(1.0).sqrt();
        let verdict = if has_grown { ": the server did not keep up" } else { "" };
        format!(
            "{left} of {began} still in flight at the end, in no histogram; {mean:.1} were on average{verdict}"
        )
    }
}

/// End of the interval of a record that begins at `at`: the warm-up, each phase (at their `edges`) and the run
/// end with one.
pub fn boundary_after(at: Time, interval: Duration, edges: &[Time], end: Time) -> Time {
    let next = at + interval;
    let edge = edges.iter().find(|edge| **edge > at);
    edge.map_or(next, |edge| next.min(*edge)).min(end)
}

/// Facts that the user should know, and no field of the record tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// Requests sent again because a reused connection was closed before their response began.
    pub retried: u64,
    /// Bytes came that nobody had asked for, on an idle connection.
    pub unasked: u64,
    /// No port was left to connect from.
    pub no_ports: u64,
    /// No descriptor was left.
    pub no_descriptors: u64,
    /// HTTP/2 connections whose peer answered nothing any more, a PING included.
    pub vanished: u64,
}

impl Tally {
    /// An interval that begins with so many requests in flight.
    pub fn new(classes: usize, start: Time, in_flight: u64) -> Tally {
        Tally {
            start,
            end: start,
            classes: vec![ClassCounts::default(); classes],
            started: 0,
            connects: 0,
            lag: Histogram::new(),
            cpu: Duration::ZERO,
            odd: Odd::default(),
            frames: BTreeMap::new(),
            resized: vec![false; classes],
            area: 0_u64.wrapping_sub(in_flight.wrapping_mul(start.as_nanos())),
        }
    }

    /// A request came into flight.
    #[inline]
    pub fn begin(&mut self, intended: Time) {
        self.area = self.area.wrapping_sub(intended.as_nanos());
    }

    /// A request left flight.
    #[inline]
    pub fn end(&mut self, at: Time) {
        self.area = self.area.wrapping_add(at.as_nanos());
    }

    /// The interval is over, with so many requests still in flight.
    pub fn close(&mut self, at: Time, in_flight: u64) {
        self.end = at;
        self.area = self.area.wrapping_add(in_flight.wrapping_mul(at.as_nanos()));
    }

    /// A request of a class failed.
    pub fn fail(&mut self, class: u32, kind: ErrorKind) {
        *self.classes[class as usize].errors.entry(kind).or_default() += 1;
    }
}

/// The parts of one interval, merged as they come.
#[derive(Debug)]
pub struct Merged {
    start: Time,
    end: Time,
    classes: Vec<ClassCounts>,
    started: u64,
    connects: u64,
    lag: Histogram,
    cpu: Vec<Duration>,
    /// \[request ns\]; a part may be a little negative, where a request counts from an intended start
    /// that lies before the interval's. The sum over intervals is exact.
    area: i64,
}

impl Merged {
    /// An interval of which no thread has told yet.
    pub fn new(classes: usize, threads: usize, start: Time) -> Merged {
        Merged {
            start,
            end: start,
            classes: vec![ClassCounts::default(); classes],
            started: 0,
            connects: 0,
            lag: Histogram::new(),
            cpu: vec![Duration::ZERO; threads],
            area: 0,
        }
    }

    /// Adds the part of a thread.
    pub fn add(&mut self, thread: usize, part: Tally) {
        self.end = self.end.max(part.end);
        for (sum, of_part) in self.classes.iter_mut().zip(part.classes) {
            sum.completed += of_part.completed;
            sum.bytes += of_part.bytes;
            for (kind, count) in of_part.errors {
                *sum.errors.entry(kind).or_default() += count;
            }
            merge(&mut sum.total, of_part.total);
            merge(&mut sum.first_byte, of_part.first_byte);
            merge(&mut sum.connect, of_part.connect);
        }
        self.started += part.started;
        self.connects += part.connects;
        merge(&mut self.lag, part.lag);
        self.cpu[thread] = part.cpu;
        self.area = self.area.wrapping_add(part.area as i64);
    }

    /// The interval, all parts together.
    pub fn into_interval(self) -> Interval {
        let length = self.end.since(self.start);
        let nanos = length.as_nanos().max(1) as f64;
        Interval {
            start_s: self.start.as_secs_f64(),
            length_s: length.as_secs_f64(),
            classes: self.classes,
            in_flight_mean: (self.area as f64 / nanos).max(0.0),
            started: self.started,
            connects: self.connects,
            lag: self.lag,
            generator: GeneratorHealth {
                thread_cpu_s: self.cpu.iter().map(Duration::as_secs_f64).collect(),
            },
        }
    }
}

/// The first part is taken as it is: with one thread nothing is copied.
fn merge(sum: &mut Histogram, part: Histogram) {
    if sum.is_empty() {
        *sum = part;
    } else {
        sum.merge(&part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn requests_in_flight_are_integrated_over_interval_bounds() {
        // One request from 2 to 14 ms, one from 4 to 8 ms; intervals of 10 ms.
        let mut first = Tally::new(1, ms(0), 0);
        first.begin(ms(2));
        first.begin(ms(4));
        first.end(ms(8));
        first.close(ms(10), 1);
        let mut second = Tally::new(1, ms(10), 1);
        second.end(ms(14));
        second.close(ms(20), 0);
        let mean = |part| {
            let mut merged = Merged::new(1, 1, ms(0));
            merged.start = ms(0).max(Time::ZERO);
            merged.add(0, part);
            merged.area as f64 / 10e6
        };
        assert_eq!(mean(first), 1.2);
        assert_eq!(mean(second), 0.4);
    }

    #[test]
    fn the_area_wraps_without_harm() {
        let day = Time::from_secs_f64(86_400.0 * 30.0);
        let mut tally = Tally::new(1, day, 3_000_000);
        tally.close(day + Duration::from_secs(1), 3_000_000);
        let mut merged = Merged::new(1, 1, day);
        merged.add(0, tally);
        assert_eq!(merged.into_interval().in_flight_mean, 3_000_000.0);
    }

    fn told(in_flight: impl Fn(f64) -> f64, left: u64) -> String {
        let mut all = InFlight::default();
        for nth in 0..100 {
            all.add(&Interval {
                start_s: f64::from(nth) * 0.1,
                length_s: 0.1,
                classes: Vec::new(),
                in_flight_mean: in_flight((f64::from(nth) + 0.5) / 100.0),
                started: 0,
                connects: 0,
                lag: Histogram::new(),
                generator: GeneratorHealth { thread_cpu_s: Vec::new() },
            });
        }
        all.left(left, "400 requests")
    }

    /// The story: of a service that answers in 300 ms, at 40 a second, 12 requests are always in flight. A run of five
    /// seconds said of it that it did not keep up.
    #[test]
    fn as_many_in_flight_at_the_end_as_on_average_is_no_queue_that_grew() {
        let steady = told(|_| 12.0, 13);
        assert_eq!(
            steady,
            "13 of 400 requests still in flight at the end, in no histogram; 12.0 were on average"
        );
        assert!(!told(|_| 12.0, 24).contains("keep up"), "a burst");
        let grown = told(|share| 100.0 * share, 100);
        assert!(grown.ends_with("50.0 were on average: the server did not keep up"), "{grown}");
    }
}
