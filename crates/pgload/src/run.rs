//! Runs a plan: connects, starts the threads from one moment on, puts together what they saw.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use gate::Time;
use load::asks::Tickets;
use load::http::{Load, Naming};
use load::joint::{Base, Begin};
use load::meeting::{Attendance, MeetError};
use load::probe::{Decision, Layout, NoRate, Probed};
use load::tally::{InFlight, Merged, Tally};
use measure::knee::Probe;
use measure::limit::Limit;
use measure::{Interval, PartRecord, RunHeader, RunRecord, RunSummary, Until, figures};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tpcc::Config;

use crate::connect::{Cancel, OpenError, Said, cancel};
use crate::plan::{Plan, PlanError, PlanSpec};
use crate::script::{ScriptError, Scripts};
use crate::session::{Session, Stage};
use crate::sleeps::{Clock, Sleeps};
use crate::worker::{Last, Message, Notes, Post, Shared, Worker};

/// Time that is given to the end of an earlier run's connections: the server ends them in its time.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time for the wishes to cancel at the end of a run.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// Why a run came to nothing. What else happens is in its record.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan does not hold.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The load has no rate whose knee could be looked for.
    #[error(transparent)]
    NoRate(#[from] NoRate),
    /// A connection could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A script turned out to be wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A statement that was to fill the database failed.
    #[error("{place}: {said}")]
    Filling {
        /// The file, and the statement's number.
        place: String,
        /// Answer of the server.
        said: Said,
    },
    /// The parts of the run did not meet.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// The user did not want to wait for it.
    #[error("interrupted")]
    Interrupted,
    /// The server has not answered.
    #[error(
        "{place}: the server has not answered for {} s: does something hold a lock on a table?",
        ANSWER_MAX.as_secs()
    )]
    NoAnswer {
        /// The statement.
        place: String,
    },
    /// A thread or what it needs could not be made.
    #[error("the engine cannot start: {0}")]
    Start(#[from] io::Error),
    /// A thread's clock failed.
    #[error("the engine ended early: {0}")]
    Broken(String),
}

/// Time for a statement to be parsed.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The longest time until an interruption is noticed.
const LOOK: Duration = Duration::from_millis(100);

/// Does work that goes on until its end or an interruption.
pub(crate) async fn unless_interrupted<T>(
    interrupt: &AtomicBool,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let mut work = std::pin::pin!(work);
    loop {
        match timeout(LOOK, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) if interrupt.load(Ordering::Relaxed) => return Err(RunError::Interrupted),
            Err(_) => {}
        }
    }
}

/// Runs a plan to its end and keeps the whole record; `sink` sees each interval when it is over.
///
/// `interrupt` ends the run within a fraction of a second when it becomes true; the record is then
/// complete all the same, and says so. What is under way at the end is cancelled, so that it does not
/// go on in the server.
///
/// # Errors
/// If not all connections can be opened, or a script turns out to be wrong while it runs.
pub fn record(
    plan: &Plan,
    naming: Naming,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, RunError> {
    record_until(plan, naming, interrupt, &mut |interval| {
        sink(interval);
        ControlFlow::Continue(())
    })
}

/// The same; the run also ends when `sink` breaks off.
///
/// # Errors
/// As [`record()`].
pub fn record_until(
    plan: &Plan,
    naming: Naming,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval) -> ControlFlow<()>,
) -> Result<RunRecord, RunError> {
    keep(plan, plan.header(naming), |_| Ok((Instant::now(), None)), interrupt, sink)
}

/// Runs the [part](PlanSpec::part) of a run that a plan is, and keeps its record: when its connections are open
/// it meets the other parts, and begins with them. [`RunRecord::merge`] makes one record of those of all parts.
///
/// # Errors
/// As [`record()`]; and if the parts do not meet.
pub fn record_part(
    plan: &Plan,
    naming: Naming,
    attendance: Attendance<'_>,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, RunError> {
    let begin = |told: &RunHeader| {
        attendance.begin(told, interrupt).map(|(begun, part)| (begun, Some(part)))
    };
    keep(plan, plan.header(naming), begin, interrupt, &mut |interval| {
        sink(interval);
        ControlFlow::Continue(())
    })
}

fn keep(
    plan: &Plan,
    mut header: RunHeader,
    begin: impl FnOnce(&RunHeader) -> Result<(Instant, Option<PartRecord>), MeetError>,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval) -> ControlFlow<()>,
) -> Result<RunRecord, RunError> {
    let mut intervals = Vec::new();
    let (mut part, told) = (None, header.clone());
    let begin = || {
        let (begun, record) = begin(&told)?;
        part = record;
        Ok(begun)
    };
    let summary = drive(plan, interrupt, begin, &mut |mut interval| {
        let goes_on = sink(&interval);
        interval.classes.iter_mut().for_each(|class| class.total.pack());
        interval.lag.pack();
        intervals.push(interval);
        goes_on
    })?;
    header.part = part;
    Ok(RunRecord { header, intervals, summary: Some(summary) })
}

/// Runs one probe of a search for the knee: an open load at this rate, of at most `length`, and a quarter more
/// as warm-up, with Poisson or fixed arrivals as in `base`. It ends as soon as the limit is
/// [decided](measure::SequentialTest). Its seed is that of `base` and the number of the probe, so that no two
/// probes see the same chance.
///
/// # Errors
/// As [`record()`], if `base` is not an open load of one rate, and if the plan does not hold at this rate.
pub fn probe(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
    limit: &Limit,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<Probed, RunError> {
    let Layout { load, until, warmup, interval, seed, naming } =
        Layout::new(&base.load, base.seed, at, number, length)?;
    let plan = Plan::new(PlanSpec { load, until, warmup, interval, seed, ..base.clone() })?;
    let mut decision = Decision::new(limit, length);
    let record = record_until(&plan, naming, interrupt, &mut |interval| {
        sink(interval);
        if decision.observe(interval) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(decision.of(record))
}

impl Base for PlanSpec {
    type Error = RunError;

    fn layout(&self, at: Probe, number: u64, length: Duration) -> Result<Layout, NoRate> {
        Layout::new(&self.load, self.seed, at, number, length)
    }

    fn press(
        &self,
        layout: Layout,
        begin: Begin<'_>,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<RunRecord, RunError> {
        let Layout { load, until, warmup, interval, seed, naming } = layout;
        let spec = PlanSpec { load, until, warmup, interval, seed, ..self.clone() };
        let plan = Plan::new(spec)?;
        let begin = |_: &RunHeader| begin().map(|(begun, part)| (begun, Some(part)));
        keep(&plan, plan.header(naming), begin, stop, &mut |interval| {
            sink(interval);
            ControlFlow::Continue(())
        })
    }
}

fn drive(
    plan: &Plan,
    interrupt: &AtomicBool,
    begin: impl FnOnce() -> Result<Instant, MeetError>,
    sink: &mut dyn FnMut(Interval) -> ControlFlow<()>,
) -> Result<RunSummary, RunError> {
    let spec = &plan.spec;
    let mut collector = Collector::new(plan);
    match load::host::raise_descriptor_limit() {
        Ok(limit) if limit < u64::from(plan.connections()) + 64 => collector.warn(format!(
            "{} connections, but this process may have only {limit} descriptors: raise the hard limit \
             (ulimit -Hn)",
            plan.connections()
        )),
        Ok(_) => {}
        Err(error) => collector.warn(format!("the limit on descriptors cannot be raised: {error}")),
    }
    let limit = match spec.until {
        Until::Requests(all) => Some(all),
        Until::Seconds(_) => None,
    };
    let tickets = Tickets::of_part(limit, spec.threads, spec.part);
    let shared = Shared::default();
    let (out, inbox) = mpsc::channel();
    thread::scope(|scope| {
        // Whatever ends this scope ends the threads.
        let _stop = StopOnDrop(&shared.stop);
        let (ready, readies) = mpsc::channel();
        let mut threads = Vec::new();
        for number in 0..spec.threads {
            let asks = plan.asks(&tickets, number);
            let post = Post { plan, shared: &shared, interrupt, asks, number, out: out.clone() };
            let (tell, told) = mpsc::channel();
            let ready = ready.clone();
            let thread = thread::Builder::new()
                .name(format!("sql-{number}"))
                .spawn_scoped(scope, move || work(post, &ready, &told))?;
            threads.push((thread, tell));
        }
        drop((out, ready));
        for _ in 0..spec.threads {
            // A thread that has panicked says nothing; joining it shows that.
            if let Ok(opened) = readies.recv() {
                opened?;
            }
        }
        let begun = begin()?;
        for (_, tell) in &threads {
            let _ = tell.send(begun);
        }
        collect(&mut collector, &inbox, &shared, sink);
        for (thread, _) in threads {
            if let Err(payload) = thread.join() {
                panic::resume_unwind(payload);
            }
        }
        Ok::<(), RunError>(())
    })?;
    collector.finish(interrupt.load(Ordering::Relaxed))
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread's life: it connects, waits for the moment at which all begin, and works.
fn work(post: Post<'_>, ready: &Sender<Result<(), RunError>>, told: &Receiver<Instant>) {
    let plan = post.plan;
    let spec = plan.spec();
    let opened = runtime().map_err(RunError::from).and_then(|runtime| {
        let all = plan.numbers();
        let mine = all.clone().filter(|at| (at - all.start) % spec.threads == post.number);
        let sessions = runtime.block_on(open_all(plan, mine, post.interrupt))?;
        Ok((runtime, sessions))
    });
    let (runtime, sessions) = match opened {
        Ok(opened) => opened,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let _ = ready.send(Ok(()));
    // Nobody is left to tell it if another thread could not connect.
    let Ok(begun) = told.recv() else { return };
    let stage = Stage {
        config: &spec.config,
        scripts: &spec.scripts,
        sleeps: Sleeps::default(),
        clock: Clock(begun),
        tries_max: spec.tries_max,
    };
    let (number, out) = (post.number as usize, post.out.clone());
    runtime.block_on(async {
        match Worker::new(post, &stage, sessions) {
            Ok(worker) => {
                let left = worker.run().await;
                // What takes longer is left to the server.
                let _ = timeout(CANCEL_MAX, cancel_all(&spec.config, &left)).await;
            }
            Err(error) => {
                let broken = Some(error.to_string());
                let notes = Notes::default();
                let last = Last { part: None, in_flight: 0, notes, fault: None, broken };
                let _ = out.send(Message::Done(number, Box::new(last)));
            }
        }
    });
}

async fn cancel_all(config: &Config, sessions: &[Cancel]) {
    for session in sessions {
        // A server that does not hear it any more needs no cancelling.
        let _ = cancel(config, session).await;
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Opens the sessions of these numbers.
async fn open_all(
    plan: &Plan,
    numbers: impl Iterator<Item = u32>,
    interrupt: &AtomicBool,
) -> Result<Vec<Session>, OpenError> {
    let (spec, of) = (plan.spec(), plan.connections());
    let (mut sessions, began) = (Vec::new(), Instant::now());
    for number in numbers {
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        let mut session = Session::new(&spec.scripts, number, spec.seed);
        loop {
            let nth = number - plan.numbers().start;
            match open_one(&mut session, &spec.config, &spec.scripts, [nth, of]).await {
                // The connections of a run before may still be ending.
                Err(OpenError::TooMany { .. }) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        sessions.push(session);
    }
    Ok(sessions)
}

async fn open_one(
    session: &mut Session,
    config: &Config,
    scripts: &Scripts,
    [nth, of]: [u32; 2],
) -> Result<(), OpenError> {
    // Statements are prepared meanwhile, which waits for whoever holds a lock on a table.
    let opened = timeout(ANSWER_MAX, session.open(config, scripts)).await;
    opened.unwrap_or(Err(OpenError::Silent(ANSWER_MAX))).map_err(|error| match error {
        OpenError::Refused(said) if said.code == "53300" => {
            OpenError::TooMany { number: nth + 1, of, said }
        }
        error => error,
    })
}

/// Checks that the server has room for all connections of a plan: opens them at once, and closes them.
pub(crate) fn try_all(plan: &Plan, interrupt: &AtomicBool) -> Result<(), RunError> {
    runtime()?.block_on(unless_interrupted(interrupt, async {
        for session in open_all(plan, plan.numbers(), interrupt).await? {
            session.close().await;
        }
        Ok(())
    }))
}

/// Takes in what the threads tell until all are done.
fn collect(
    collector: &mut Collector<'_>,
    inbox: &Receiver<Message>,
    shared: &Shared,
    sink: &mut dyn FnMut(Interval) -> ControlFlow<()>,
) {
    while collector.open > 0 {
        match inbox.recv() {
            Ok(Message::Part(thread, part)) => collector.part(thread, *part),
            Ok(Message::Done(thread, last)) => collector.done(thread, *last),
            // A thread has panicked; joining it says so.
            Err(_) => return,
        }
        while let Some(interval) = collector.next_complete() {
            if sink(interval).is_break() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            if collector.lost_s >= collector.plan.spec.lost_after.as_secs_f64() - 1e-9
                && !shared.stop.swap(true, Ordering::Relaxed)
            {
                collector.warn(
                    "the run ended early: nothing but failed connections came for so long that the \
                     server is lost"
                        .into(),
                );
            }
        }
    }
}

/// Reports of the threads so far.
struct Collector<'a> {
    plan: &'a Plan,
    /// Parts that each thread has handed over; `None` when it is done.
    parts: Vec<usize>,
    done: Vec<bool>,
    open: usize,
    pending: VecDeque<Merged>,
    emitted: usize,
    end: Time,
    notes: Notes,
    started: u64,
    in_flight: InFlight,
    left: u64,
    /// Time for which nothing but failed connections has come [s].
    lost_s: f64,
    warnings: Vec<String>,
    fault: Option<ScriptError>,
    broken: Option<String>,
}

impl<'a> Collector<'a> {
    fn new(plan: &'a Plan) -> Collector<'a> {
        let threads = plan.spec.threads as usize;
        Collector {
            plan,
            parts: vec![0; threads],
            done: vec![false; threads],
            open: threads,
            pending: VecDeque::new(),
            emitted: 0,
            end: Time::ZERO,
            notes: Notes::default(),
            started: 0,
            in_flight: InFlight::default(),
            left: 0,
            lost_s: 0.0,
            warnings: Vec::new(),
            fault: None,
            broken: None,
        }
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn part(&mut self, thread: usize, part: Tally) {
        let at = self.parts[thread] - self.emitted;
        self.parts[thread] += 1;
        self.end = self.end.max(part.end);
        if self.pending.len() == at {
            let (classes, threads) = (self.plan.classes.len(), self.parts.len());
            self.pending.push_back(Merged::new(classes, threads, part.start));
        }
        self.pending[at].add(thread, part);
    }

    fn done(&mut self, thread: usize, last: Last) {
        // A thread that ends on a boundary has nothing more to tell.
        if let Some(part) = last.part.filter(|part| part.end > part.start) {
            self.part(thread, part);
        }
        self.left += last.in_flight;
        self.notes.retries += last.notes.retries;
        self.notes.arrivals += last.notes.arrivals;
        self.notes.waits.merge(&last.notes.waits);
        for (kind, message) in last.notes.failures {
            self.notes.failures.entry(kind).or_insert(message);
        }
        self.fault = self.fault.take().or(last.fault);
        self.broken = self.broken.take().or(last.broken);
        self.done[thread] = true;
        self.open -= 1;
    }

    /// The next interval that every thread has told of.
    fn next_complete(&mut self) -> Option<Interval> {
        let told = |(&parts, &done): (&usize, &bool)| parts > self.emitted || done;
        if !self.parts.iter().zip(&self.done).all(told) {
            return None;
        }
        let interval = self.pending.pop_front()?.into_interval();
        self.emitted += 1;
        self.started += interval.started;
        self.in_flight.add(&interval);
        self.lost_s = interval.lost_s(self.lost_s);
        Some(interval)
    }

    fn finish(mut self, interrupted: bool) -> Result<RunSummary, RunError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault.into());
        }
        if let Some(broken) = self.broken.take() {
            return Err(RunError::Broken(broken));
        }
        self.conclude();
        let elapsed_s = self.end.as_secs_f64();
        Ok(RunSummary { elapsed_s, interrupted, warnings: self.warnings })
    }

    /// Notes what the user must know.
    fn conclude(&mut self) {
        let notes = std::mem::take(&mut self.notes);
        let mut warnings = Vec::new();
        for message in notes.failures.values() {
            warnings.push(format!("the first failure of its kind: {message}"));
        }
        if notes.retries > 0 {
            warnings.push(format!(
                "{} tries of transactions were repeated (serialization failures, deadlocks); their \
                 time ran on",
                notes.retries
            ));
        }
        if !matches!(self.plan.spec.load, Load::Closed { .. }) {
            let (waited, connections) = (notes.waits.len(), self.plan.spec.connections);
            if waited * 100 > notes.arrivals {
                warnings.push(format!(
                    "{waited} of {} arrivals found no connection of {connections} free and \
                     waited, {} in the mean, which their response times count: with more connections \
                     (`--connections`) they would wait in the server",
                    notes.arrivals,
                    figures::time(notes.waits.mean_s())
                ));
            }
            if self.left * 100 > self.started {
                let began = figures::count(self.started, "transaction");
                warnings.push(self.in_flight.left(self.left, &began));
            }
        }
        self.warnings.append(&mut warnings);
    }
}
