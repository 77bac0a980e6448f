//! One thread of the engine: its epoll, its connections, its clients or its arrivals, its counts.
//!
//! Nothing here is shared with other threads but three atomics that are touched rarely: the stop
//! flag, the tickets (once in sixteen requests) and, in an open load, the number in flight.
//!
//! A request in flight is on exactly one connection. A connection that breaks takes its request
//! with it, except that a reused one that is closed before the first byte of the response is stale:
//! the server closed it while the request was on its way, and the request is sent once more, on a
//! new connection, its time running on (RFC 9112, section 9.3.1).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use gate::Time;
use measure::ErrorKind;
use workload::{Arrivals, Chance, Dist, stream};

use super::asks::{ARRIVALS, Asks, THINKING};
use super::plan::{Closing, Connections, Idle, Load, Method, Plan};
use super::response::{Body, Progress, Response};
use super::stream::{Broken, Opened, Received, Sent, Stream};
use super::tally::Tally;
use super::tls::Tls;
use crate::sys::{self, Epoll, RawAddress, Ready, Socket};

/// What a thread receives into. Longer plain bodies are thrown away in the kernel.
const BUFFER: usize = 64 << 10;
/// How often in a row one connection may receive before the others have their turn.
const RECEIVES: u32 = 16;
/// How many arrivals in a row may start before responses have their turn.
const STARTS: u32 = 64;
/// The last span before an arrival is spun away: a sleep may end this much late.
const SPIN: Duration = Duration::from_micros(50);
/// The longest sleep: by then a stop is noticed.
const SLEEP: Duration = Duration::from_millis(100);

/// What all threads of a run see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    /// Requests in flight over all threads; kept in an open load only.
    pub(crate) in_flight: AtomicU32,
}

/// What a thread tells the collecting side.
#[derive(Debug)]
pub(crate) enum Message {
    /// An interval is over.
    Part(usize, Box<Tally>),
    /// The thread is done; what it saw since its last part, and how many requests it left in flight.
    Done(usize, Option<Box<Tally>>, u64),
    /// Something the user should know.
    Warning(String),
}

/// What a thread is made from.
pub(crate) struct Post<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) shared: &'a Shared,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) asks: Asks<'a>,
    pub(crate) number: u32,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(crate) out: Sender<Message>,
}

/// One thread of the engine.
pub(crate) struct Worker<'a> {
    post: Post<'a>,
    raw_address: RawAddress,
    epoll: Epoll,
    begun: Instant,
    conns: Vec<Conn>,
    free: Vec<u32>,
    source: Source,
    buffer: Box<[u8]>,
    /// Connections that may have more to give although epoll does not say so (TLS).
    unfinished: Vec<u64>,
    in_flight: u64,
    tally: Box<Tally>,
    /// When the interval ends, and when the run does.
    boundary: Time,
    end: Time,
    scan_at: Time,
    cpu_before: Duration,
    /// CPU time spun away before arrivals in this interval.
    spun: Duration,
    abandoned: u64,
}

/// Where requests come from.
enum Source {
    Closed {
        think: Option<Dist>,
        chance: Chance,
        /// Clients that are to ask now and have no connection.
        ready: u32,
        /// Clients that think: until when, and their connection.
        thinking: BinaryHeap<Reverse<(Time, u64)>>,
    },
    Open {
        arrivals: Arrivals,
        chance: Chance,
        /// The next arrival [s], not rounded so that errors do not add up.
        due_s: f64,
        due: Time,
        in_flight_max: u32,
        /// Open connections that nobody uses, the last used on top.
        idle: Vec<u32>,
    },
}

/// No connection, where a client's is named.
const NONE: u64 = u64::MAX;

/// A place for a connection.
struct Conn {
    stream: Option<Stream>,
    /// Which of the connections that stood here this is: late events name an earlier one.
    generation: u32,
    state: State,
    request: Option<Request>,
    response: Response,
    /// Bytes of the request that were sent.
    sent: usize,
    /// Responses that it has brought.
    served: u64,
    /// What epoll was told.
    interest: u32,
    opened_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Sending,
    Awaiting,
    Idle,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    class: u32,
    intended: Time,
    began: Time,
    first_byte: Option<Time>,
    retry: Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Allowed,
    Used,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(post: Post<'a>) -> io::Result<Worker<'a>> {
        let spec = &post.plan.spec;
        let number = u64::from(post.number);
        let source = match spec.load {
            Load::Closed { clients, think } => Source::Closed {
                think: (think != Dist::Constant(0.0)).then_some(think),
                chance: stream(spec.seed, THINKING + number),
                ready: clients / spec.threads + u32::from(post.number < clients % spec.threads),
                thinking: BinaryHeap::new(),
            },
            Load::Open { arrivals, in_flight_max } => {
                Source::open(arrivals, in_flight_max, spec.seed, post.number, spec.threads)
            }
        };
        let end = match spec.until {
            measure::Until::Seconds(seconds) => {
                Time::from_secs_f64(spec.warmup.as_secs_f64() + seconds)
            }
            measure::Until::Requests(_) => Time::MAX,
        };
        Ok(Worker {
            raw_address: RawAddress::new(&post.address),
            epoll: Epoll::new()?,
            begun: Instant::now(),
            conns: Vec::new(),
            free: Vec::new(),
            source,
            buffer: vec![0; BUFFER].into(),
            unfinished: Vec::new(),
            in_flight: 0,
            tally: Box::new(Tally::new(post.plan.requests.len(), Time::ZERO, 0)),
            boundary: boundary_after(Time::ZERO, post.plan, end),
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
                self.spun += now.since(since);
            }
            if self.is_over(now) {
                return Ok(());
            }
            self.start_due(now);
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
    fn clock(&mut self) -> Time {
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
            self.boundary = boundary_after(at, self.post.plan, self.end);
        }
        // The collecting side outlives the threads, unless it panics; then it does not matter.
        let _ = self.post.out.send(Message::Part(self.post.number as usize, tally));
    }

    fn close_tally(&mut self, at: Time) -> Box<Tally> {
        let next = Tally::new(self.post.plan.requests.len(), at, self.in_flight);
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
        if spec.idle == Idle::Spin || !self.unfinished.is_empty() || self.source.has_ready() {
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

/// Where the interval that begins at `at` ends: the warm-up and the run end with one.
fn boundary_after(at: Time, plan: &Plan, end: Time) -> Time {
    let next = at + plan.spec.interval;
    let warm = Time::ZERO + plan.spec.warmup;
    if at < warm { next.min(warm).min(end) } else { next.min(end) }
}

impl Source {
    fn open(
        arrivals: Arrivals,
        in_flight_max: u32,
        seed: u64,
        number: u32,
        threads: u32,
    ) -> Source {
        let share = arrivals.scaled(1.0 / f64::from(threads));
        let mut chance = stream(seed, ARRIVALS + u64::from(number));
        let due_s = match arrivals {
            // Independent Poisson streams superpose exactly.
            Arrivals::Poisson { .. } => share.gap_s(&mut chance),
            // Equal gaps do if the threads take turns.
            Arrivals::Fixed { rate } => f64::from(number) / rate,
        };
        Source::Open {
            arrivals: share,
            chance,
            due_s,
            due: Time::from_secs_f64(due_s),
            in_flight_max,
            idle: Vec::new(),
        }
    }

    fn has_ready(&self) -> bool {
        matches!(self, Source::Closed { ready: 1.., .. })
    }

    fn next_due(&self) -> Option<Time> {
        match self {
            Source::Closed { thinking, .. } => thinking.peek().map(|Reverse((due, _))| *due),
            Source::Open { due, .. } => Some(*due),
        }
    }
}

/// Requests: how they begin and end.
impl Worker<'_> {
    /// Starts what is due, clients or arrivals.
    fn start_due(&mut self, now: Time) {
        let mut now = now;
        for _ in 0..STARTS {
            let (intended, token) = match &mut self.source {
                Source::Closed { ready, .. } if *ready > 0 => {
                    *ready -= 1;
                    (now, NONE)
                }
                Source::Closed { thinking, .. } => match thinking.peek() {
                    Some(&Reverse((due, token))) if due <= now => {
                        thinking.pop();
                        (due, token)
                    }
                    _ => return,
                },
                Source::Open { due, due_s, arrivals, chance, idle, .. } => {
                    if *due > now {
                        return;
                    }
                    let intended = *due;
                    *due_s += arrivals.gap_s(chance);
                    *due = Time::from_secs_f64(*due_s);
                    (intended, idle.last().map_or(NONE, |&slot| self.conns[slot as usize].token(slot)))
                }
            };
            let Some(class) = self.post.asks.next() else { return self.retire(token) };
            if !self.admit(class) {
                continue;
            }
            self.begin(class, intended, now, token);
            now = self.clock();
        }
    }

    /// Nothing is left to be asked: a client goes home, arrivals cease.
    fn retire(&mut self, token: u64) {
        match &mut self.source {
            Source::Closed { .. } => {
                if let Some(slot) = self.slot_of(token) {
                    self.close(slot);
                }
            }
            Source::Open { due, due_s, .. } => {
                *due = Time::MAX;
                *due_s = f64::MAX;
            }
        }
    }

    /// Whether an arrival of an open load is within the bound on requests in flight; counts it as
    /// failed if not.
    fn admit(&mut self, class: u32) -> bool {
        let Source::Open { in_flight_max, .. } = self.source else { return true };
        let in_flight = &self.post.shared.in_flight;
        if in_flight.fetch_add(1, Ordering::Relaxed) < in_flight_max {
            return true;
        }
        in_flight.fetch_sub(1, Ordering::Relaxed);
        self.tally.started += 1;
        self.tally.fail(class, ErrorKind::InFlightBound);
        false
    }

    /// Begins a request on the connection that the token names, or on a new one.
    fn begin(&mut self, class: u32, intended: Time, now: Time, token: u64) {
        self.tally.started += 1;
        self.tally.begin(intended);
        self.tally.lag.record_nanos(now.since(intended).as_nanos() as u64);
        self.in_flight += 1;
        let retry = Retry::Allowed;
        let request = Request { class, intended, began: now, first_byte: None, retry };
        let Some(slot) = self.slot_of(token) else { return self.open(request, now) };
        if let Source::Open { idle, .. } = &mut self.source {
            idle.pop();
        }
        self.attach(slot, request);
        self.send(slot);
    }

    fn attach(&mut self, slot: u32, request: Request) {
        let body = match self.post.plan.spec.method {
            Method::Get => Body::Expected,
            Method::Head => Body::Never,
        };
        let conn = &mut self.conns[slot as usize];
        conn.request = Some(request);
        conn.sent = 0;
        conn.response.restart(body);
        conn.state = State::Sending;
    }

    /// Opens a connection for a request.
    fn open(&mut self, request: Request, now: Time) {
        let spec = &self.post.plan.spec;
        let tls = self.post.tls.as_ref();
        let made = Socket::new(&self.post.address).and_then(|socket| {
            if let Some(bytes) = spec.receive_buffer {
                socket.set_receive_buffer(bytes)?;
            }
            if spec.closing == Closing::Rst {
                socket.set_reset_on_close()?;
            }
            Ok(socket)
        });
        let made = made
            .map_err(Broken::from)
            .and_then(|socket| Stream::connect(socket, &self.raw_address, tls));
        let stream = match made {
            Ok(stream) => stream,
            Err(broken) => {
                self.note_exhaustion(&broken);
                return self.fail(request, broken.kind(false));
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Conn::empty());
            self.conns.len() as u32 - 1
        });
        let is_tls = stream.is_tls();
        self.conns[slot as usize].take_up(stream, now);
        self.attach(slot, request);
        self.conns[slot as usize].state = State::Opening;
        // Where the peer is near, the connection is open already.
        if is_tls { self.shake_hands(slot) } else { self.send(slot) }
    }

    fn note_exhaustion(&mut self, broken: &Broken) {
        let Broken::Transport(error) = broken else { return };
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => self.tally.odd.no_descriptors += 1,
            Some(libc::EADDRNOTAVAIL) => self.tally.odd.no_ports += 1,
            _ => {}
        }
    }

    fn shake_hands(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        let Some(stream) = &mut conn.stream else { return };
        match stream.shake_hands() {
            Ok(Opened::Yes) => {
                self.note_open(slot);
                self.send(slot);
            }
            Ok(Opened::WantsRead) => self.set_interest(slot, sys::IN),
            Ok(Opened::WantsWrite) => self.set_interest(slot, sys::IN | sys::OUT),
            Err(broken) => self.break_off(slot, &broken),
        }
    }

    fn note_open(&mut self, slot: u32) {
        let now = self.clock();
        let conn = &mut self.conns[slot as usize];
        let Some(request) = conn.request else { return };
        self.tally.connects += 1;
        let span = now.since(conn.opened_at);
        self.tally.classes[request.class as usize].connect.record(span);
        conn.state = State::Sending;
    }

    #[inline]
    fn send(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        let (Some(stream), Some(request)) = (&mut conn.stream, conn.request) else { return };
        let sent = stream.send(&self.post.plan.requests[request.class as usize], &mut conn.sent);
        let opened = conn.state == State::Opening && stream.is_connected();
        match sent {
            Ok(sent) => {
                if opened {
                    self.note_open(slot);
                }
                if sent == Sent::All {
                    self.conns[slot as usize].state = State::Awaiting;
                    self.set_interest(slot, sys::IN);
                } else {
                    self.set_interest(slot, sys::IN | sys::OUT);
                }
            }
            Err(broken) => self.break_off(slot, &broken),
        }
    }

    #[inline]
    fn set_interest(&mut self, slot: u32, interest: u32) {
        let conn = &mut self.conns[slot as usize];
        if conn.interest == interest {
            return;
        }
        let token = conn.token(slot);
        let Some(stream) = &conn.stream else { return };
        let told = if conn.interest == 0 {
            self.epoll.add(stream.fd(), interest, token)
        } else {
            self.epoll.change(stream.fd(), interest, token)
        };
        match told {
            Ok(()) => conn.interest = interest,
            // Out of watches or memory: a descriptor that cannot be watched is of no use.
            Err(_) => {
                self.tally.odd.no_descriptors += 1;
                self.abort(slot, ErrorKind::ConnectOther);
            }
        }
    }

    fn handle(&mut self, token: u64, events: u32) {
        let Some(slot) = self.slot_of(token) else { return };
        match self.conns[slot as usize].state {
            State::Opening => match &self.conns[slot as usize].stream {
                Some(stream) if stream.is_tls() => self.shake_hands(slot),
                _ => self.send(slot),
            },
            State::Sending => {
                if events & !sys::IN != 0 {
                    self.send(slot);
                }
                // A server may answer, or close, before it has the whole request.
                if events & sys::IN != 0 && self.slot_of(token).is_some() {
                    self.receive(slot);
                }
            }
            State::Awaiting | State::Idle => self.receive(slot),
        }
    }

    #[inline]
    fn receive(&mut self, slot: u32) {
        for _ in 0..RECEIVES {
            let conn = &mut self.conns[slot as usize];
            let Some(stream) = &mut conn.stream else { return };
            let rest = usize::try_from(conn.response.rest()).unwrap_or(usize::MAX);
            let more = stream.is_tls();
            let (progress, full, surplus) = match stream.receive(&mut self.buffer, rest) {
                Ok(Received::Bytes(count)) => {
                    if conn.request.is_none() {
                        self.tally.odd.unasked += 1;
                        return self.lose_idle(slot);
                    }
                    let progress = conn.response.feed(&self.buffer[..count]);
                    let over = matches!(progress, Ok(Progress::Complete(taken)) if taken < count);
                    (progress, more || count == self.buffer.len(), over)
                }
                Ok(Received::Discarded(count)) => {
                    (conn.response.discarded(count as u64), true, false)
                }
                Ok(Received::Nothing) => return,
                Ok(end @ (Received::End | Received::CutOff)) => return self.ended(slot, end),
                Err(broken) => return self.break_off(slot, &broken),
            };
            match progress {
                Ok(Progress::More) => self.note_first_byte(slot),
                Ok(Progress::Complete(_)) if surplus => {
                    return self.abort(slot, ErrorKind::WrongLength);
                }
                Ok(Progress::Complete(_)) => return self.complete(slot),
                Err(kind) => return self.abort(slot, kind),
            }
            if !full {
                return;
            }
        }
        let conn = &self.conns[slot as usize];
        if conn.stream.as_ref().is_some_and(Stream::is_tls) {
            let token = conn.token(slot);
            self.unfinished.push(token);
        }
    }

    fn note_first_byte(&mut self, slot: u32) {
        let first = |conn: &Conn| conn.request.is_some_and(|request| request.first_byte.is_none());
        if first(&self.conns[slot as usize]) {
            let now = self.clock();
            if let Some(request) = &mut self.conns[slot as usize].request {
                request.first_byte = Some(now);
            }
        }
    }

    /// The peer has closed.
    fn ended(&mut self, slot: u32, end: Received) {
        let conn = &mut self.conns[slot as usize];
        if conn.request.is_none() {
            return self.lose_idle(slot);
        }
        if conn.is_stale() {
            return self.retry(slot);
        }
        match conn.response.end() {
            Ok(()) if end == Received::CutOff => self.abort(slot, ErrorKind::ClosedEarly),
            Ok(()) => self.complete(slot),
            Err(kind) => self.abort(slot, kind),
        }
    }

    /// The connection broke under its request.
    fn break_off(&mut self, slot: u32, broken: &Broken) {
        let conn = &self.conns[slot as usize];
        if conn.request.is_none() {
            return self.lose_idle(slot);
        }
        if conn.is_stale() && matches!(broken, Broken::Transport(_)) {
            return self.retry(slot);
        }
        let connected = conn.stream.as_ref().is_some_and(Stream::is_connected);
        self.note_exhaustion(broken);
        self.abort(slot, broken.kind(connected));
    }

    fn retry(&mut self, slot: u32) {
        let request = self.conns[slot as usize].request.take();
        self.close(slot);
        let Some(request) = request else { return };
        self.tally.odd.retried += 1;
        let now = self.clock();
        self.open(Request { retry: Retry::Used, ..request }, now);
    }

    /// An idle connection is gone.
    fn lose_idle(&mut self, slot: u32) {
        if let Source::Open { idle, .. } = &mut self.source {
            idle.retain(|&other| other != slot);
        }
        self.close(slot);
    }

    fn abort(&mut self, slot: u32, kind: ErrorKind) {
        let request = self.conns[slot as usize].request.take();
        self.close(slot);
        if let Some(request) = request {
            self.fail(request, kind);
        }
    }

    /// A request has failed, and has no connection any more.
    fn fail(&mut self, request: Request, kind: ErrorKind) {
        let now = self.clock();
        self.tally.fail(request.class, kind);
        self.leave(now);
        self.release(NONE, now);
    }

    fn leave(&mut self, now: Time) {
        self.tally.end(now);
        self.in_flight -= 1;
        if let Source::Open { .. } = self.source {
            self.post.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A response is complete.
    #[inline]
    fn complete(&mut self, slot: u32) {
        let keep_alive = self.post.plan.spec.connections == Connections::KeepAlive;
        let conn = &mut self.conns[slot as usize];
        let Some(request) = conn.request.take() else { return };
        let stays = keep_alive && conn.response.keeps_open() && conn.state == State::Awaiting;
        let (status, bytes) = (conn.response.status(), conn.response.bytes());
        conn.served += 1;
        conn.state = State::Idle;
        let mut first_byte = request.first_byte;
        if !stays {
            first_byte = first_byte.or_else(|| Some(self.clock()));
            self.close(slot);
        }
        let now = self.clock();
        let counts = &mut self.tally.classes[request.class as usize];
        counts.bytes += bytes;
        match kind_of(status) {
            None => {
                counts.completed += 1;
                counts.total.record_nanos(now.since(request.intended).as_nanos() as u64);
                let first_byte = first_byte.unwrap_or(now).since(request.intended);
                counts.first_byte.record_nanos(first_byte.as_nanos() as u64);
            }
            Some(kind) => self.tally.fail(request.class, kind),
        }
        self.leave(now);
        let token = if stays { self.conns[slot as usize].token(slot) } else { NONE };
        self.release(token, now);
    }

    /// What had carried a request is free: a client, a connection.
    #[inline]
    fn release(&mut self, token: u64, now: Time) {
        match &mut self.source {
            Source::Open { idle, .. } => {
                if token != NONE {
                    idle.push(token as u32);
                }
            }
            Source::Closed { think: Some(think), chance, thinking, .. } => {
                let due = now + Duration::from_secs_f64(think.sample(chance).min(1e9));
                thinking.push(Reverse((due, token)));
            }
            Source::Closed { ready, .. } if token == NONE => *ready += 1,
            Source::Closed { .. } => match self.post.asks.next() {
                Some(class) => self.begin(class, now, now, token),
                None => self.retire(token),
            },
        }
    }

    /// Fails the requests that took too long. Looked for a few times within the shorter of the two
    /// limits, so that the hot path knows nothing of it.
    fn fail_overdue(&mut self, now: Time) {
        let spec = &self.post.plan.spec;
        let (connect_max, response_max) = (spec.connect_max, spec.response_max);
        let period = (connect_max.min(response_max) / 20)
            .clamp(Duration::from_millis(2), Duration::from_millis(250));
        self.scan_at = now + period;
        if self.in_flight == 0 {
            return;
        }
        for slot in 0..self.conns.len() as u32 {
            let conn = &self.conns[slot as usize];
            let Some(request) = conn.request else { continue };
            if conn.state == State::Opening {
                if now.since(conn.opened_at) >= connect_max {
                    self.abort(slot, ErrorKind::ConnectTimeout);
                }
            } else if now.since(request.began) >= response_max {
                self.abort(slot, ErrorKind::Timeout);
            }
        }
    }

    /// The place that a token names, if what it names still stands there.
    #[inline]
    fn slot_of(&self, token: u64) -> Option<u32> {
        let slot = token as u32;
        let conn = self.conns.get(slot as usize)?;
        (conn.stream.is_some() && conn.generation == (token >> 32) as u32).then_some(slot)
    }

    fn close(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        let Some(stream) = conn.stream.take() else { return };
        conn.generation = conn.generation.wrapping_add(1);
        stream.close();
        self.free.push(slot);
    }
}

impl Conn {
    fn empty() -> Conn {
        Conn {
            stream: None,
            generation: 0,
            state: State::Idle,
            request: None,
            response: Response::new(),
            sent: 0,
            served: 0,
            interest: 0,
            opened_at: Time::ZERO,
        }
    }

    fn take_up(&mut self, stream: Stream, now: Time) {
        self.stream = Some(stream);
        self.served = 0;
        self.interest = 0;
        self.opened_at = now;
    }

    #[inline]
    fn token(&self, slot: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(slot)
    }

    /// Whether the server may have closed it before it saw the request.
    fn is_stale(&self) -> bool {
        self.served > 0
            && self.response.bytes() == 0
            && self.request.is_some_and(|request| request.retry == Retry::Allowed)
    }
}

/// The kind of failure that a status means; none for 2xx and 3xx.
#[inline]
fn kind_of(status: u16) -> Option<ErrorKind> {
    match status {
        200..400 => None,
        400..500 => Some(ErrorKind::Status4xx),
        503 => Some(ErrorKind::Refused),
        500..600 => Some(ErrorKind::Status5xx),
        _ => Some(ErrorKind::StatusOther),
    }
}
