//! One thread of the engine: its epoll, its connections, its clients or its arrivals, its counts.
//!
//! Nothing here is shared with other threads but three atomics that are touched rarely: the stop
//! flag, the tickets (once in sixteen requests) and, in an open load, the number in flight.
//! How its requests begin and end is in `exchange`.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use gate::Time;
use measure::Until;

use super::conn::Conn;
use super::http2::Links;
use super::plan::{Idle, Plan};
use super::source::Source;
use super::tls::Tls;
use crate::asks::Asks;
use crate::sys::{self, Epoll, RawAddress, Ready};
use crate::tally::{Tally, boundary_after};

/// Size of a thread's receive buffer [B]. Longer plain bodies are thrown away in the kernel.
const BUFFER: usize = 64 << 10;
/// The last span before an arrival is spun away: a sleep may end this much late.
const SPIN: Duration = Duration::from_micros(50);
/// A turn of spinning that took longer was interrupted: the processor was somebody else's.
const SPIN_TURN_MAX: Duration = Duration::from_micros(20);
/// The longest sleep: by then a stop is noticed.
const SLEEP: Duration = Duration::from_millis(100);

/// State that all threads of a run see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Requests in flight over all threads; kept in an open load only.
    pub(crate) in_flight: AtomicU32,
}

/// Message of a thread to the collecting side.
#[derive(Debug)]
pub(crate) enum Message {
    /// An interval is over.
    Part(usize, Box<Tally>),
    /// The thread is done; what it saw since its last part, and how many requests it left in flight.
    Done(usize, Option<Box<Tally>>, u64),
    /// Something the user should know.
    Warning(String),
}

/// Parts that a thread is made from.
pub(crate) struct Post<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) shared: &'a Shared,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) asks: Asks<'a>,
    pub(crate) number: u32,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(crate) out: Sender<Message>,
}

/// One thread of the engine.
pub(crate) struct Worker<'a> {
    pub(super) post: Post<'a>,
    pub(super) raw_address: RawAddress,
    pub(super) epoll: Epoll,
    begun: Instant,
    pub(super) conns: Vec<Conn>,
    pub(super) free: Vec<u32>,
    /// Connections of HTTP/2; those above are of HTTP/1.
    pub(super) links: Links,
    pub(super) source: Source,
    pub(super) buffer: Box<[u8]>,
    /// Connections that may have more to give although epoll does not say so (TLS).
    pub(super) unfinished: Vec<u64>,
    pub(super) in_flight: u64,
    pub(super) tally: Box<Tally>,
    /// When the interval ends, and when the run does.
    boundary: Time,
    end: Time,
    pub(super) scan_at: Time,
    cpu_before: Duration,
    /// CPU time spun away before arrivals in this interval.
    spun: Duration,
    abandoned: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(post: Post<'a>) -> io::Result<Worker<'a>> {
        let spec = &post.plan.spec;
        let source = Source::new(spec, post.number);
        let end = match spec.until {
            Until::Seconds(seconds) => Time::from_secs_f64(spec.warmup.as_secs_f64() + seconds),
            Until::Requests(_) => Time::MAX,
        };
        Ok(Worker {
            raw_address: RawAddress::new(&post.address),
            epoll: Epoll::new()?,
            begun: Instant::now(),
            conns: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            source,
            buffer: vec![0; BUFFER].into(),
            unfinished: Vec::new(),
            in_flight: 0,
            tally: Box::new(Tally::new(post.plan.classes.len(), Time::ZERO, 0)),
            boundary: boundary_after(Time::ZERO, post.plan.spec.interval, &post.plan.edges, end),
            end,
            scan_at: Time::ZERO,
            cpu_before: Duration::ZERO,
            spun: Duration::ZERO,
            abandoned: 0,
            post,
        })
    }

    /// Runs to the end of the run; `begun` is the moment that all times count from.
    pub(crate) fn run(mut self, begun: Instant) {
        self.begun = begun;
        sys::set_timer_slack_least();
        let cpus = &self.post.plan.spec.cpus;
        if !cpus.is_empty() {
            let cpu = cpus[self.post.number as usize % cpus.len()];
            if let Err(error) = sys::pin(cpu) {
                let text = format!("a thread could not be bound to processor {cpu}: {error}");
                let _ = self.post.out.send(Message::Warning(text));
            }
        }
        self.cpu_before = sys::thread_cpu();
        if let Err(error) = self.turn() {
            let text = format!("a thread ended early: epoll failed: {error}");
            let _ = self.post.out.send(Message::Warning(text));
        }
        self.finish();
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut events = vec![sys::no_event(); 512];
        let mut spinning: Option<Time> = None;
        loop {
            let now = self.clock();
            if let Some(since) = spinning.take() {
                self.spun += now.since(since).min(SPIN_TURN_MAX);
            }
            if self.is_over(now) {
                return Ok(());
            }
            self.start_due(now);
            self.turn_asked();
            if now >= self.scan_at {
                self.fail_overdue(now);
            }
            let now = self.clock();
            let wait = self.wait(now);
            let count = self.epoll.wait(&mut events, wait.span)?;
            if count == 0 && wait.why == Why::Spin {
                spinning = Some(now);
            }
            for &Ready { events, u64: token } in &events[..count] {
                self.handle(token, events);
            }
            for token in std::mem::take(&mut self.unfinished) {
                self.handle(token, sys::IN);
            }
            self.turn_asked();
        }
    }

    fn is_over(&self, now: Time) -> bool {
        now >= self.end
            || self.post.shared.stop.load(Ordering::Relaxed)
            || self.post.interrupt.load(Ordering::Relaxed)
            || (self.in_flight == 0 && self.post.asks.is_over())
    }

    /// The time; hands over the intervals that are over by then.
    #[inline]
    pub(super) fn clock(&mut self) -> Time {
        let now = Time::from_nanos(self.begun.elapsed().as_nanos() as u64);
        while now >= self.boundary {
            self.hand_over();
        }
        now
    }

    #[cold]
    fn hand_over(&mut self) {
        let at = self.boundary;
        let tally = self.close_tally(at);
        if at == self.end {
            // What ends from here on ends after the run.
            self.abandoned = self.in_flight;
            self.boundary = Time::MAX;
        } else {
            self.boundary =
                boundary_after(at, self.post.plan.spec.interval, &self.post.plan.edges, self.end);
        }
        // The collecting side outlives the threads, unless it panics; then it does not matter.
        let _ = self.post.out.send(Message::Part(self.post.number as usize, tally));
    }

    fn close_tally(&mut self, at: Time) -> Box<Tally> {
        let next = Tally::new(self.post.plan.classes.len(), at, self.in_flight);
        let mut tally = std::mem::replace(&mut self.tally, Box::new(next));
        tally.close(at, self.in_flight);
        let cpu = sys::thread_cpu();
        tally.cpu = cpu.saturating_sub(self.cpu_before).saturating_sub(self.spun);
        self.cpu_before = cpu;
        self.spun = Duration::ZERO;
        tally
    }

    fn finish(mut self) {
        let now = self.clock();
        let part = if self.boundary == Time::MAX && now >= self.end {
            None
        } else {
            self.abandoned = self.in_flight;
            Some(self.close_tally(now))
        };
        let done = Message::Done(self.post.number as usize, part, self.abandoned);
        let _ = self.post.out.send(done);
    }

    fn wait(&self, now: Time) -> Wait {
        let spec = &self.post.plan.spec;
        let works = !self.unfinished.is_empty() || self.links.has_asked();
        if spec.idle == Idle::Spin || works || self.source.has_ready() {
            return Wait { span: Duration::ZERO, why: Why::Busy };
        }
        let mut until = self.boundary.min(now + SLEEP);
        if self.in_flight > 0 {
            until = until.min(self.scan_at);
        }
        if let Some(due) = self.source.next_due() {
            match due.since(now).checked_sub(SPIN) {
                None => return Wait { span: Duration::ZERO, why: Why::Spin },
                Some(span) => until = until.min(now + span),
            }
        }
        Wait { span: until.since(now), why: Why::Sleep }
    }
}

struct Wait {
    span: Duration,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// There is work to do, or the plan says to spin.
    Busy,
    /// An arrival is so near that a sleep might miss it.
    Spin,
    Sleep,
}
