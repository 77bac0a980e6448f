//! A little M/M/1 queue that fills run records, so that the truth behind a record is known.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::{
    ClassCounts, ClassSpec, GeneratorHealth, Histogram, Host, Interval, LoadShape, RunHeader,
    RunRecord, RunSummary, Until,
};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp};
use rand_xoshiro::Xoshiro256PlusPlus;

/// An open run on a server with one FIFO queue.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) arrivals_per_s: f64,
    pub(crate) services_per_s: f64,
    pub(crate) seconds: usize,
    pub(crate) seed: u64,
}

impl System {
    /// The true mean response [s], stationary.
    pub(crate) fn response_s(&self) -> f64 {
        1.0 / (self.services_per_s - self.arrivals_per_s)
    }

    /// Record that a generator would have made, in intervals of 1 s: two classes by the flip of a
    /// coin.
    pub(crate) fn record(&self) -> RunRecord {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let gap = Exp::new(self.arrivals_per_s).unwrap();
        let service = Exp::new(self.services_per_s).unwrap();
        let mut record = RunRecord {
            header: self.header(),
            intervals: (0..self.seconds).map(|second| interval(second as f64)).collect(),
            summary: Some(RunSummary {
                elapsed_s: self.seconds as f64,
                interrupted: false,
                warnings: vec!["a simulated run".into()],
            }),
        };
        let (mut now, mut free_at) = (0.0, 0.0f64);
        loop {
            now += gap.sample(&mut rng);
            if now >= self.seconds as f64 {
                return record;
            }
            free_at = free_at.max(now) + service.sample(&mut rng);
            note(&mut record.intervals, now, free_at, usize::from(rng.random_bool(0.5)));
        }
    }

    fn header(&self) -> RunHeader {
        RunHeader {
            id: "20261120T113000Z-0a1b".into(),
            started: "2026-11-20T11:30:00Z".into(),
            tool: "sekisho 0.1.0".into(),
            command: vec!["sekisho".into(), "measure".into()],
            seed: self.seed,
            host: Host { name: "here".into(), cpus: 2, ..Host::default() },
            target: "http://127.0.0.1:8080/".into(),
            load: LoadShape::Poisson { rate: self.arrivals_per_s, in_flight_max: 10_000 },
            until: Until::Seconds(self.seconds as f64),
            warmup_s: 0.0,
            classes: ["small", "large"]
                .map(|name| ClassSpec { name: name.into(), bytes: None, weight: 1 })
                .into(),
            settings: BTreeMap::from([("idle".into(), "sleep".into())]),
            part: None,
            merged: Vec::new(),
        }
    }
}

fn interval(start_s: f64) -> Interval {
    Interval {
        start_s,
        length_s: 1.0,
        classes: vec![ClassCounts::default(); 2],
        in_flight_mean: 0.0,
        started: 0,
        connects: 0,
        lag: Histogram::new(),
        generator: GeneratorHealth { thread_cpu_s: vec![0.2, 0.3] },
    }
}

/// Notes one request from its arrival to its departure.
fn note(intervals: &mut [Interval], arrival: f64, departure: f64, class: usize) {
    let first = &mut intervals[arrival as usize];
    first.started += 1;
    first.lag.record(Duration::from_micros(20));
    let end = intervals.len() as f64;
    let last = departure.min(end - 1e-9) as usize;
    for interval in &mut intervals[arrival as usize..=last] {
        let from = arrival.max(interval.start_s);
        let until = departure.min(interval.start_s + interval.length_s);
        interval.in_flight_mean += until - from;
    }
    if departure < end {
        let counts = &mut intervals[departure as usize].classes[class];
        counts.completed += 1;
        counts.bytes += 1000;
        counts.total.record(Duration::from_secs_f64(departure - arrival));
        counts.first_byte.record(Duration::from_secs_f64((departure - arrival) / 2.0));
    }
}
