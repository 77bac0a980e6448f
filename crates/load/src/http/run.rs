//! Runs a plan: starts the threads, collects what they saw, stops them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use measure::{Interval, PartRecord, RunHeader, RunRecord, RunSummary, Until};
use thiserror::Error;

use super::collect::{Collector, Finish};
use super::plan::{Naming, Plan};
use super::preflight::preflight;
use super::target::{Scheme, Target};
use super::tls::TlsError;
use super::worker::{Message, Post, Shared, Worker};
use crate::asks::Tickets;
use crate::joint::Begin;
use crate::meeting::{Attendance, MeetError};

/// Why a run could not begin. What happens later is in its record.
#[derive(Debug, Error)]
pub enum RunError {
    /// A thread or what it needs could not be made.
    #[error("the engine cannot start: {0}")]
    Start(
        /// Why.
        #[from]
        io::Error,
    ),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(
        /// Why.
        #[from]
        TlsError,
    ),
    /// The parts of the run did not meet.
    #[error(transparent)]
    Meet(
        /// Why.
        #[from]
        MeetError,
    ),
}

/// Runs a plan to its end, and hands over each interval when it is over.
///
/// `interrupt` ends the run within a fraction of a second when it becomes true; the summary is then
/// complete all the same, and says so. A run that has lost its server ends early, with a warning.
/// `sink` runs on the calling thread while the load goes on: what it takes long for is late, but
/// not lost. Memory does not grow with the number of requests nor with the length of the run.
///
/// # Errors
/// If threads, descriptors or TLS cannot be set up. A server that does not answer is no error here:
/// its requests fail, and the record counts them.
pub fn run(
    plan: &Plan,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunSummary, RunError> {
    let begin = || Ok(Instant::now());
    drive(plan, interrupt, begin, &mut |interval| sink(&interval)).map(|(summary, _)| summary)
}

/// Runs a plan as [`run`] does, and keeps the whole record. Kept intervals are packed, some kilobytes
/// a class each: for runs of days write them out in the sink of [`run`] instead.
///
/// # Errors
/// As [`run`].
pub fn record(
    plan: &Plan,
    naming: Naming,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, RunError> {
    keep(plan, plan.header(naming), |_| Ok((Instant::now(), None)), interrupt, sink)
}

/// Runs the [part](crate::http::PlanSpec::part) of a run that a plan is, and keeps its record: when all is ready it meets the
/// other parts, and begins with them. [`RunRecord::merge`] makes one record of those of all parts.
///
/// # Errors
/// As [`run`]; and if the parts do not meet.
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
    keep(plan, plan.header(naming), begin, interrupt, sink)
}

/// Runs a part as [`record_part`] does, from the start that `begin` waits for when all is ready.
///
/// # Errors
/// As [`run`]; and if `begin` fails.
pub(super) fn record_from(
    plan: &Plan,
    naming: Naming,
    begin: Begin<'_>,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, RunError> {
    let begin = |_: &RunHeader| begin().map(|(begun, part)| (begun, Some(part)));
    keep(plan, plan.header(naming), begin, interrupt, sink)
}

fn keep(
    plan: &Plan,
    mut header: RunHeader,
    begin: impl FnOnce(&RunHeader) -> Result<(Instant, Option<PartRecord>), MeetError>,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, RunError> {
    let mut intervals = Vec::new();
    let (mut part, told) = (None, header.clone());
    let begin = || {
        let (begun, record) = begin(&told)?;
        part = record;
        Ok(begun)
    };
    let (summary, resized) = drive(plan, interrupt, begin, &mut |mut interval| {
        sink(&interval);
        for class in &mut interval.classes {
            class.total.pack();
            class.first_byte.pack();
            class.connect.pack();
        }
        interval.lag.pack();
        intervals.push(interval);
    })?;
    header.part = part;
    for (class, _) in header.classes.iter_mut().zip(resized).filter(|(_, resized)| *resized) {
        class.bytes = None;
    }
    Ok(RunRecord { header, intervals, summary: Some(summary) })
}

fn drive(
    plan: &Plan,
    interrupt: &AtomicBool,
    begin: impl FnOnce() -> Result<Instant, MeetError>,
    sink: &mut dyn FnMut(Interval),
) -> Result<(RunSummary, Vec<bool>), RunError> {
    let spec = &plan.spec;
    let mut collector = Collector::new(plan);
    preflight(plan).into_iter().for_each(|warning| collector.warn(warning));
    let address = reachable(&spec.target);
    let limit = match spec.until {
        Until::Requests(requests) => Some(requests),
        Until::Seconds(_) => None,
    };
    let tickets = Tickets::of_part(limit, spec.threads, spec.part);
    let shared = Shared { stop: AtomicBool::new(false), in_flight: AtomicU32::new(0) };
    let (out, inbox) = mpsc::channel();
    let mut workers = Vec::new();
    for number in 0..spec.threads {
        let tls = match spec.target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(plan.tls()?),
        };
        let asks = plan.asks(&tickets, number);
        let (out, shared) = (out.clone(), &shared);
        workers.push(Worker::new(Post {
            plan,
            shared,
            interrupt,
            asks,
            number,
            address,
            tls,
            out,
        })?);
    }
    drop(out);
    in_threads(workers, &shared, begin, || collect(&mut collector, &inbox, &shared, sink))?;
    let interrupted = interrupt.load(Ordering::Relaxed);
    let Finish { elapsed_s, warnings, resized } = collector.finish();
    Ok((RunSummary { elapsed_s, interrupted, warnings }, resized))
}

/// Runs each worker on a thread of its own, all from the moment on that `begin` waits for, and `meanwhile` on
/// this one.
fn in_threads(
    workers: Vec<Worker<'_>>,
    shared: &Shared,
    begin: impl FnOnce() -> Result<Instant, MeetError>,
    meanwhile: impl FnOnce(),
) -> Result<(), RunError> {
    thread::scope(|scope| {
        // Whatever ends this scope, a panic in the sink included, ends the threads.
        let _stop = StopOnDrop(&shared.stop);
        let mut threads = Vec::new();
        for (number, worker) in workers.into_iter().enumerate() {
            // A thread begins when it is told the moment, or ends when nobody is left to tell it.
            let (tell, told) = mpsc::channel();
            let thread = thread::Builder::new().name(format!("load-{number}")).spawn_scoped(
                scope,
                move || {
                    if let Ok(begun) = told.recv() {
                        worker.run(begun);
                    }
                },
            )?;
            threads.push((thread, tell));
        }
        let begun = begin()?;
        for (_, tell) in &threads {
            // It only fails if the thread has panicked, which joining it shows.
            let _ = tell.send(begun);
        }
        meanwhile();
        for (thread, _) in threads {
            if let Err(payload) = thread.join() {
                panic::resume_unwind(payload);
            }
        }
        Ok(())
    })
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes in what the threads tell until all are done.
fn collect(
    collector: &mut Collector<'_>,
    inbox: &Receiver<Message>,
    shared: &Shared,
    sink: &mut dyn FnMut(Interval),
) {
    while collector.is_open() {
        match inbox.recv() {
            Ok(Message::Part(thread, part)) => collector.part(thread, *part),
            Ok(Message::Done(thread, last, left)) => {
                collector.done(thread, last.map(|part| *part), left);
            }
            Ok(Message::Warning(warning)) => collector.warn(warning),
            // A thread has panicked; joining it says so.
            Err(_) => return,
        }
        while let Some(interval) = collector.next_complete() {
            sink(interval);
            if collector.has_lost_server() && !shared.stop.swap(true, Ordering::Relaxed) {
                collector.warn(
                    "the run ended early: nothing but failed connections came for so long that \
                     the server is lost"
                        .into(),
                );
            }
        }
    }
}

/// The first address that answers, where a name leads to several (`localhost` is often two, of
/// which a server uses one); the first one if none does.
pub(super) fn reachable(target: &Target) -> SocketAddr {
    let first = target.addresses[0];
    if target.addresses.len() == 1 {
        return first;
    }
    let answers =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok();
    *target.addresses.iter().find(answers).unwrap_or(&first)
}
