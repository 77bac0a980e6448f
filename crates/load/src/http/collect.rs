//! The collecting side: puts the threads' parts together, interval by interval, and notes what the
//! user must know. Its memory does not grow with the run.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use gate::Time;
use measure::figures::count;
use measure::{Histogram, Interval};

use super::http2::Frame;
use super::plan::{Idle, Load, Plan, Trust};
use super::target::Scheme;
use crate::tally::{InFlight, Merged, Odd, Tally};

/// A thread that sleeps when it can and yet uses more of a processor than this is a bottleneck.
const CPU_SHARE_MAX: f64 = 0.8;
/// A lag beyond this is worth a warning, whatever the response times.
const LAG_MAX: Duration = Duration::from_millis(1);

/// Reports of the threads so far.
pub(crate) struct Collector<'a> {
    plan: &'a Plan,
    /// Parts that each thread has handed over, and whether it is done.
    threads: Vec<(usize, Stage)>,
    /// Intervals that are not complete yet; the first one is number `emitted`.
    pending: VecDeque<Merged>,
    emitted: usize,
    sums: Sums,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Done,
}

/// Over the run, its warm-up left out where that matters.
#[derive(Default)]
struct Sums {
    end: Time,
    odd: Odd,
    frames: BTreeMap<Frame, u64>,
    lag: Histogram,
    total: Histogram,
    connect: Histogram,
    steady: u64,
    /// By thread: in how many steady intervals it was busy nearly all the time.
    busy: Vec<u64>,
    started: u64,
    in_flight: InFlight,
    left_in_flight: u64,
    /// By class: true if an answer had another size than the class.
    resized: Vec<bool>,
    /// For how long nothing but failed connections has come \[s\].
    lost_s: f64,
    warnings: Vec<String>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Collector<'a> {
        let threads = plan.spec.threads as usize;
        Collector {
            plan,
            threads: vec![(0, Stage::Running); threads],
            pending: VecDeque::new(),
            emitted: 0,
            sums: Sums {
                busy: vec![0; threads],
                resized: vec![false; plan.classes.len()],
                ..Sums::default()
            },
        }
    }

    /// True if a thread has more to tell.
    pub(crate) fn is_open(&self) -> bool {
        self.threads.iter().any(|&(_, stage)| stage == Stage::Running)
    }

    pub(crate) fn part(&mut self, thread: usize, part: Tally) {
        let at = self.threads[thread].0 - self.emitted;
        self.threads[thread].0 += 1;
        self.sums.end = self.sums.end.max(part.end);
        self.sums.odd.add(part.odd);
        for (frame, count) in &part.frames {
            *self.sums.frames.entry(*frame).or_default() += count;
        }
        for (of_run, &of_part) in self.sums.resized.iter_mut().zip(&part.resized) {
            *of_run |= of_part;
        }
        if self.pending.len() == at {
            let (classes, threads) = (self.plan.classes.len(), self.threads.len());
            self.pending.push_back(Merged::new(classes, threads, part.start));
        }
        self.pending[at].add(thread, part);
    }

    pub(crate) fn done(&mut self, thread: usize, last: Option<Tally>, left_in_flight: u64) {
        if let Some(part) = last {
            // A thread that ends on a boundary has nothing more to tell.
            if part.end > part.start {
                self.part(thread, part);
            }
        }
        self.sums.left_in_flight += left_in_flight;
        self.threads[thread].1 = Stage::Done;
    }

    pub(crate) fn warn(&mut self, warning: String) {
        if !self.sums.warnings.contains(&warning) {
            self.sums.warnings.push(warning);
        }
    }

    /// The next interval that every thread has told of.
    pub(crate) fn next_complete(&mut self) -> Option<Interval> {
        let told = |&(parts, stage): &(usize, Stage)| parts > self.emitted || stage == Stage::Done;
        if !self.threads.iter().all(told) {
            return None;
        }
        let interval = self.pending.pop_front()?.into_interval();
        self.emitted += 1;
        self.sums.add(&interval, self.plan);
        Some(interval)
    }

    /// True if only connections have failed, and nothing else has come, for as long as the plan
    /// says.
    pub(crate) fn has_lost_server(&self) -> bool {
        self.sums.lost_s >= self.plan.spec.lost_after.as_secs_f64() - 1e-9
    }

    /// The end of the run.
    pub(crate) fn finish(mut self) -> Finish {
        self.sums.conclude(self.plan);
        Finish {
            elapsed_s: self.sums.end.as_secs_f64(),
            warnings: self.sums.warnings,
            resized: self.sums.resized,
        }
    }
}

/// The end of a run.
pub(crate) struct Finish {
    /// Duration of the run \[s\].
    pub(crate) elapsed_s: f64,
    pub(crate) warnings: Vec<String>,
    /// By class: true if an answer had another size than the class.
    pub(crate) resized: Vec<bool>,
}

impl Sums {
    fn add(&mut self, interval: &Interval, plan: &Plan) {
        self.started += interval.started;
        self.in_flight.add(interval);
        let counts = &interval.classes;
        self.lost_s = interval.lost_s(self.lost_s);
        if interval.start_s < plan.spec.warmup.as_secs_f64() - 1e-9 {
            return;
        }
        self.steady += 1;
        for (busy, &cpu_s) in self.busy.iter_mut().zip(&interval.generator.thread_cpu_s) {
            *busy += u64::from(cpu_s > CPU_SHARE_MAX * interval.length_s);
        }
        self.lag.merge(&interval.lag);
        for class in counts {
            self.total.merge(&class.total);
            self.connect.merge(&class.connect);
        }
    }

    fn conclude(&mut self, plan: &Plan) {
        let mut warnings = std::mem::take(&mut self.warnings);
        let mut warn = |text: String| warnings.push(text);
        let spec = &plan.spec;
        for (thread, &busy) in self.busy.iter().enumerate() {
            if spec.idle == Idle::Sleep && busy > 0 {
                warn(format!(
                    "thread {thread} used more than 80 % of a processor in {busy} of {} intervals: \
                     the generator may be the limit; give it more threads or processors",
                    self.steady
                ));
            }
        }
        let (lag, median) = (self.lag.quantile(0.99), self.total.quantile(0.5));
        if lag > LAG_MAX || (!self.total.is_empty() && lag > median / 10) {
            warn(format!(
                "p99 of the generator's lag is {lag:.1?} (median response {median:.1?}): requests \
                 left late, and response times count that; give it processors of its own"
            ));
        }
        self.conclude_connections(&mut warn);
        if !matches!(spec.load, Load::Closed { .. }) && self.left_in_flight * 100 > self.started {
            warn(self.in_flight.left(self.left_in_flight, &count(self.started, "request")));
        }
        for (class, _) in plan.classes.iter().zip(&self.resized).filter(|(_, resized)| **resized) {
            let bytes = class.bytes.unwrap_or(0);
            warn(format!(
                "not every answer of `{}` had {bytes} B: the record has no size for it",
                class.name
            ));
        }
        if spec.target.scheme == Scheme::Https && spec.trust == Trust::Insecure {
            warn("no certificate was checked: anybody could have answered".into());
        }
        self.warnings = warnings;
    }

    /// Says with which error codes an HTTP/2 server ended streams and connections.
    fn conclude_frames(&self, warn: &mut impl FnMut(String)) {
        let mut of = |wanted: fn(&Frame) -> bool, what: &str, how: &str| {
            let frames = || self.frames.iter().filter(|(frame, _)| wanted(frame));
            let all: u64 = frames().map(|(_, count)| count).sum();
            let codes = frames().map(|(frame, count)| format!("{count} with {}", frame.code()));
            let codes = codes.collect::<Vec<_>>().join(", ");
            if all > 0 {
                warn(format!("the server {how} {}: {codes}", count(all, what)));
            }
        };
        of(|frame| matches!(frame, Frame::Reset(_)), "stream", "reset (RST_STREAM)");
        of(|frame| matches!(frame, Frame::GoAway(_)), "connection", "ended (GOAWAY)");
    }

    fn conclude_connections(&self, warn: &mut impl FnMut(String)) {
        let odd = self.odd;
        if odd.retried > 0 {
            warn(format!(
                "{} sent again because the server closed a kept connection, or refused a stream, before it \
                 answered; the time of the answer counts from the first try",
                count(odd.retried, "request")
            ));
        }
        self.conclude_frames(warn);
        if odd.unasked > 0 {
            warn(format!("{} idle connections brought bytes nobody had asked for", odd.unasked));
        }
        if odd.vanished > 0 {
            warn(format!(
                "{} given up: nothing came on it any more, a PING unanswered; requests went on by another",
                count(odd.vanished, "connection")
            ));
        }
        if odd.no_ports > 0 {
            warn(format!(
                "no port was left for {} connections: keep connections alive, close them with RST, \
                 or widen net.ipv4.ip_local_port_range",
                odd.no_ports
            ));
        }
        if odd.no_descriptors > 0 {
            warn(format!(
                "no descriptor was left for {} connections: raise the limit (ulimit -n)",
                odd.no_descriptors
            ));
        }
        // A SYN that was dropped is sent again after 1 s, then after 2 s more, and 4 s.
        for (mode, low_ms, high_ms) in
            [("1 s", 1000, 1200), ("3 s", 3000, 3300), ("7 s", 7000, 7500)]
        {
            let range = low_ms * 1_000_000..high_ms * 1_000_000;
            let in_mode = |&(value, _): &(u64, u64)| range.contains(&value);
            let count: u64 = self.connect.counts().filter(in_mode).map(|(_, count)| count).sum();
            if count > 0 {
                warn(format!(
                    "{count} connections took about {mode} to open: the server's accept queue was \
                     full and dropped them first"
                ));
            }
        }
    }
}

impl Odd {
    fn add(&mut self, other: Odd) {
        self.retried += other.retried;
        self.unasked += other.unasked;
        self.no_ports += other.no_ports;
        self.no_descriptors += other.no_descriptors;
        self.vanished += other.vanished;
    }
}
