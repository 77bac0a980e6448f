//! One thread of the engine: its clients or arrivals, its connections, its counts, in one loop that
//! wakes when an answer comes, an arrival is due or an interval ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gate::Time;
use load::asks::{Asks, THINKING};
use load::http::Load;
use load::schedule::Due;
use load::tally::{Tally, boundary_after};
use measure::{ErrorKind, Histogram, Until};
use tpcc::Alarm;
use workload::{Chance, Dist, stream};

use crate::connect::Cancel;
use crate::plan::Plan;
use crate::script::ScriptError;
use crate::session::{Ended, Session, Stage};

/// The longest sleep: by then a stop is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// Rest of a client whose connection failed: a server that is gone is not asked without a pause.
const REST: Duration = Duration::from_millis(100);

/// State that all threads of a run see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Transactions in flight over all threads; kept in an open load only.
    pub(crate) in_flight: AtomicU32,
}

/// Message of a thread to the collecting side.
pub(crate) enum Message {
    /// An interval is over.
    Part(usize, Box<Tally>),
    /// The thread is done.
    Done(usize, Box<Last>),
}

/// News of a thread that is done.
pub(crate) struct Last {
    /// Its counts since its last part.
    pub(crate) part: Option<Tally>,
    /// Transactions that it left in flight.
    pub(crate) in_flight: u64,
    pub(crate) notes: Notes,
    /// The fault of a script that ended the run.
    pub(crate) fault: Option<ScriptError>,
    /// The fault of the machine that did.
    pub(crate) broken: Option<String>,
}

/// Facts that no field of the record tells.
#[derive(Default)]
pub(crate) struct Notes {
    /// The first message of each kind of failure.
    pub(crate) failures: BTreeMap<ErrorKind, String>,
    pub(crate) retries: u64,
    /// Waits of arrivals for a connection, of those that found none.
    pub(crate) waits: Histogram,
    pub(crate) arrivals: u64,
}

/// A transaction that wants a connection.
#[derive(Clone, Copy)]
struct Job {
    class: u32,
    intended: Time,
    /// True if no connection was free when it came.
    waits: bool,
}

/// Origin of transactions.
enum Source {
    Closed { think: Option<Dist>, chance: Chance },
    Open { schedule: Due, in_flight_max: u32 },
}

type Work<'a> = Pin<Box<dyn Future<Output = (Session, Job, Result<Ended, ScriptError>)> + 'a>>;

/// Parts that a thread is made from.
pub(crate) struct Post<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) shared: &'a Shared,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) asks: Asks<'a>,
    pub(crate) number: u32,
    pub(crate) out: Sender<Message>,
}

pub(crate) struct Worker<'a> {
    post: Post<'a>,
    stage: &'a Stage<'a>,
    source: Source,
    /// Connections that nobody uses; the last used is the next used.
    idle: Vec<Session>,
    /// Clients that think, and connections that rest, by number of their place.
    resting: BinaryHeap<Reverse<(Time, u32)>>,
    parked: BTreeMap<u32, Session>,
    waiting: VecDeque<Job>,
    running: FuturesUnordered<Work<'a>>,
    /// Ways to cancel what is under way, by the number of the session.
    cancels: BTreeMap<u32, Cancel>,
    alarm: Alarm,
    /// When the alarm rings; [`Time::MAX`] where it is not set.
    alarm_at: Time,
    in_flight: u64,
    tally: Box<Tally>,
    boundary: Time,
    end: Time,
    cpu_before: Duration,
    abandoned: u64,
    notes: Notes,
    fault: Option<ScriptError>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        post: Post<'a>,
        stage: &'a Stage<'a>,
        sessions: Vec<Session>,
    ) -> std::io::Result<Worker<'a>> {
        let spec = &post.plan.spec;
        let number = spec.part.thread(post.number, spec.threads);
        let threads = spec.part.threads(spec.threads);
        let source = match &spec.load {
            &Load::Closed { think, .. } => Source::Closed {
                think: (think != Dist::Constant(0.0)).then_some(think),
                chance: stream(spec.seed, THINKING + u64::from(number)),
            },
            &Load::Open { arrivals, in_flight_max } => Source::Open {
                schedule: Due::steady(arrivals, spec.seed, number, threads),
                in_flight_max: spec.part.share(in_flight_max),
            },
            Load::Varying { schedule, in_flight_max } => {
                let warmup_s = spec.warmup.as_secs_f64();
                Source::Open {
                    schedule: Due::varying(schedule, warmup_s, spec.seed, number, threads),
                    in_flight_max: spec.part.share(*in_flight_max),
                }
            }
        };
        let end = match spec.until {
            Until::Seconds(seconds) => Time::from_secs_f64(spec.warmup.as_secs_f64() + seconds),
            Until::Requests(_) => Time::MAX,
        };
        let classes = spec.scripts.all().len();
        Ok(Worker {
            stage,
            source,
            cancels: sessions
                .iter()
                .filter_map(|session| Some((session.number, session.cancel()?)))
                .collect(),
            idle: sessions,
            resting: BinaryHeap::new(),
            parked: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            alarm: Alarm::new()?,
            alarm_at: Time::MAX,
            in_flight: 0,
            tally: Box::new(Tally::new(classes, Time::ZERO, 0)),
            boundary: boundary_after(Time::ZERO, post.plan.spec.interval, &post.plan.edges, end),
            end,
            cpu_before: Duration::ZERO,
            abandoned: 0,
            notes: Notes::default(),
            fault: None,
            post,
        })
    }

    /// Runs to the end of the run; the ways to cancel what is still under way then.
    pub(crate) async fn run(mut self) -> Vec<Cancel> {
        load::host::set_timer_slack_least();
        self.cpu_before = load::host::thread_cpu();
        if let Source::Closed { .. } = self.source {
            let now = self.clock();
            for session in std::mem::take(&mut self.idle) {
                self.ask(session, now);
            }
        }
        let broken = std::future::poll_fn(|context| self.poll(context)).await;
        self.finish(broken).await
    }

    /// One pass of the loop: what has ended, what is due, what can start, when to wake. Ready at the
    /// end of the run.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        loop {
            let now = self.clock();
            if self.is_over(now) {
                return Poll::Ready(None);
            }
            self.stage.sleeps.wake(now);
            self.take_due(now);
            let started = self.start_waiting();
            let mut ended = false;
            // No more at once than the clock should wait for.
            for _ in 0..64 {
                match self.running.poll_next_unpin(context) {
                    Poll::Ready(Some((session, job, result))) => {
                        ended = true;
                        self.ended(session, job, result);
                    }
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            if started || ended {
                continue;
            }
            match self.sleep(context, now) {
                Ok(()) => return Poll::Pending,
                Err(error) => return Poll::Ready(Some(format!("the clock failed: {error}"))),
            }
        }
    }

    fn is_over(&self, now: Time) -> bool {
        now >= self.end
            || self.fault.is_some()
            || self.post.shared.stop.load(Ordering::Relaxed)
            || self.post.interrupt.load(Ordering::Relaxed)
            || (self.in_flight == 0 && self.post.asks.is_over())
    }

    /// Sets the alarm for what comes next and registers for its ring.
    fn sleep(&mut self, context: &mut Context<'_>, now: Time) -> std::io::Result<()> {
        let arrival = match &self.source {
            Source::Open { schedule, .. } => schedule.due(),
            Source::Closed { .. } => Time::MAX,
        };
        let rested = self.resting.peek().map_or(Time::MAX, |Reverse((due, _))| *due);
        let slept = self.stage.sleeps.next_due().unwrap_or(Time::MAX);
        let due = self.boundary.min(now + LOOK).min(arrival).min(rested).min(slept);
        if self.alarm.poll(context)? {
            self.alarm_at = Time::MAX;
        }
        // An alarm that rings too early is cheaper than to set it for every change of plan.
        if due < self.alarm_at {
            self.alarm.set(due.since(self.stage.clock.now()))?;
            self.alarm_at = due;
        }
        Ok(())
    }

    /// Lets everybody act whose moment has come.
    fn take_due(&mut self, now: Time) {
        while let Some(&Reverse((due, number))) = self.resting.peek()
            && due <= now
        {
            self.resting.pop();
            let Some(session) = self.parked.remove(&number) else { continue };
            match self.source {
                Source::Closed { .. } => self.ask(session, due),
                Source::Open { .. } => self.idle.push(session),
            }
        }
        loop {
            let Source::Open { schedule, in_flight_max } = &mut self.source else { return };
            if schedule.due() > now {
                return;
            }
            let Some(class) = self.post.asks.next_request() else {
                schedule.stop();
                return;
            };
            let (due, bound) = (schedule.take(), *in_flight_max);
            self.arrive(class, due, now, bound);
        }
    }

    fn arrive(&mut self, class: u32, due: Time, now: Time, bound: u32) {
        self.tally.started += 1;
        self.tally.lag.record(now.since(due));
        self.notes.arrivals += 1;
        let shared = &self.post.shared.in_flight;
        if shared.fetch_add(1, Ordering::Relaxed) >= bound {
            shared.fetch_sub(1, Ordering::Relaxed);
            self.tally.fail(class, ErrorKind::InFlightBound);
            return;
        }
        self.in_flight += 1;
        self.tally.begin(due);
        let waits = self.idle.len() <= self.waiting.len();
        self.waiting.push_back(Job { class, intended: due, waits });
    }

    /// Starts waiting arrivals on idle connections; true if it started one.
    fn start_waiting(&mut self) -> bool {
        let mut started = false;
        while !self.waiting.is_empty()
            && let Some(session) = self.idle.pop()
            && let Some(job) = self.waiting.pop_front()
        {
            if job.waits {
                self.notes.waits.record(self.stage.clock.now().since(job.intended));
            }
            self.start(session, job);
            started = true;
        }
        started
    }

    /// A client asks, as it was ready to from a moment on.
    fn ask(&mut self, session: Session, ready: Time) {
        let Some(class) = self.post.asks.next_request() else {
            self.parked.insert(session.number, session);
            return;
        };
        self.tally.started += 1;
        self.tally.lag.record(self.stage.clock.now().since(ready));
        self.in_flight += 1;
        self.tally.begin(ready);
        self.start(session, Job { class, intended: ready, waits: false });
    }

    fn start(&mut self, mut session: Session, job: Job) {
        let stage = self.stage;
        self.running.push(Box::pin(async move {
            let result = session.perform(stage, job.class as usize).await;
            (session, job, result)
        }));
    }

    /// Books a transaction that has ended, and lets its client go on.
    fn ended(&mut self, session: Session, job: Job, result: Result<Ended, ScriptError>) {
        let ended = match result {
            Ok(ended) => ended,
            Err(fault) => {
                self.fault = Some(fault);
                self.post.shared.stop.store(true, Ordering::Relaxed);
                return;
            }
        };
        self.clock();
        let at = ended.at;
        self.in_flight -= 1;
        self.tally.end(at);
        self.tally.connects += ended.connects;
        self.notes.retries += ended.retries;
        if let (Some(cancel), true) = (session.cancel(), ended.connects > 0) {
            self.cancels.insert(session.number, cancel);
        }
        let counts = &mut self.tally.classes[job.class as usize];
        counts.bytes += ended.bytes;
        let mut rest = None;
        match ended.result {
            Ok(()) => {
                counts.completed += 1;
                counts.total.record(at.since(job.intended));
            }
            Err(failed) => {
                self.tally.fail(job.class, failed.kind);
                self.notes.failures.entry(failed.kind).or_insert(failed.message);
                rest = failed.lost.then(|| at + REST);
            }
        }
        let ready = match &mut self.source {
            Source::Open { .. } => {
                self.post.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
                rest
            }
            Source::Closed { think, chance } => {
                let thought = think.map(|think| {
                    at + Duration::from_secs_f64(think.sample(chance).clamp(0.0, 86_400.0))
                });
                thought.max(rest)
            }
        };
        match (ready, &self.source) {
            (Some(ready), _) => {
                self.resting.push(Reverse((ready, session.number)));
                self.parked.insert(session.number, session);
            }
            (None, Source::Open { .. }) => self.idle.push(session),
            (None, Source::Closed { .. }) => self.ask(session, at),
        }
    }

    /// The time; hands over the intervals that are over by then.
    fn clock(&mut self) -> Time {
        let now = self.stage.clock.now();
        while now >= self.boundary {
            self.hand_over();
        }
        now
    }

    #[cold]
    fn hand_over(&mut self) {
        let at = self.boundary;
        let part = self.close_tally(at);
        if at == self.end {
            // What ends from here on ends after the run.
            self.abandoned = self.in_flight;
            self.boundary = Time::MAX;
        } else {
            self.boundary =
                boundary_after(at, self.post.plan.spec.interval, &self.post.plan.edges, self.end);
        }
        // The collecting side outlives the threads, unless it panics; then it does not matter.
        let _ = self.post.out.send(Message::Part(self.post.number as usize, part));
    }

    fn close_tally(&mut self, at: Time) -> Box<Tally> {
        let next = Tally::new(self.post.plan.spec.scripts.all().len(), at, self.in_flight);
        let mut tally = std::mem::replace(&mut self.tally, Box::new(next));
        tally.close(at, self.in_flight);
        let cpu = load::host::thread_cpu();
        tally.cpu = cpu.saturating_sub(self.cpu_before);
        self.cpu_before = cpu;
        tally
    }

    /// Tells the rest, and ends the sessions that do nothing; the ways to cancel the others.
    async fn finish(mut self, broken: Option<String>) -> Vec<Cancel> {
        let now = self.clock();
        let part = if self.boundary == Time::MAX && now >= self.end {
            None
        } else {
            self.abandoned = self.in_flight;
            Some(*self.close_tally(now))
        };
        let last = Last {
            part,
            in_flight: self.abandoned,
            notes: std::mem::take(&mut self.notes),
            fault: self.fault.take(),
            broken,
        };
        let number = self.post.number as usize;
        let _ = self.post.out.send(Message::Done(number, Box::new(last)));
        for session in self.idle.into_iter().chain(self.parked.into_values()) {
            self.cancels.remove(&session.number);
            session.close().await;
        }
        if self.running.is_empty() { Vec::new() } else { self.cancels.into_values().collect() }
    }
}
