//! Beginning, course and end of a thread's requests.
//!
//! A request in flight is on exactly one connection. A connection that breaks takes its request
//! with it, except that a reused one that is closed before the first byte of the response is stale:
//! the server closed it while the request was on its way, and the request is sent once more, on a
//! new connection, its time running on (RFC 9112, section 9.3.1). One whose method may not be repeated
//! (POST, PATCH) has failed instead.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gate::Time;
use measure::ErrorKind;

use super::conn::{Conn, NONE, Request, Retry, State};
use super::plan::{Closing, Connections, Protocol};
use super::response::Progress;
use super::source::Source;
use super::stream::{Broken, Opened, Received, Sent, Stream};
use super::worker::Worker;
use crate::sys::{self, Socket};

/// Limit of receives of one connection in a row, before the others have their turn.
const RECEIVES: u32 = 16;
/// Limit of arrivals that start in a row, before responses have their turn.
const STARTS: u32 = 64;

/// End of the request that a client or a connection is released from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Response,
    Failure,
}

impl Worker<'_> {
    /// Starts what is due, clients or arrivals.
    pub(super) fn start_due(&mut self, now: Time) {
        let mut now = now;
        for _ in 0..STARTS {
            let (intended, token) = match &mut self.source {
                Source::Closed { ready, thinking, .. } => match ready.pop_front() {
                    Some(since) => (since.unwrap_or(now), NONE),
                    None => match thinking.peek() {
                        Some(&Reverse((due, token))) if due <= now => {
                            thinking.pop();
                            (due, token)
                        }
                        _ => return,
                    },
                },
                Source::Open { schedule, idle, .. } => {
                    if schedule.due() > now {
                        return;
                    }
                    let token = |&slot: &u32| self.conns[slot as usize].token(slot);
                    (schedule.take(), idle.last().map_or(NONE, token))
                }
            };
            let Some(ask) = self.post.asks.next_request() else { return self.retire(token) };
            if !self.admit(ask) {
                continue;
            }
            self.begin(ask, intended, now, token);
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
            Source::Open { schedule, .. } => schedule.stop(),
        }
    }

    /// True if an arrival of an open load is within the bound on requests in flight; counts it as
    /// failed if not.
    fn admit(&mut self, ask: u32) -> bool {
        let Source::Open { in_flight_max, .. } = self.source else { return true };
        let in_flight = &self.post.shared.in_flight;
        if in_flight.fetch_add(1, Ordering::Relaxed) < in_flight_max {
            return true;
        }
        in_flight.fetch_sub(1, Ordering::Relaxed);
        self.tally.started += 1;
        self.tally.fail(self.post.plan.messages[ask as usize].class, ErrorKind::InFlightBound);
        false
    }

    /// Begins a request on the connection that the token names, or on a new one.
    fn begin(&mut self, ask: u32, intended: Time, now: Time, token: u64) {
        self.tally.started += 1;
        self.tally.begin(intended);
        self.tally.lag.record_nanos(now.since(intended).as_nanos() as u64);
        self.in_flight += 1;
        let message = &self.post.plan.messages[ask as usize];
        let retry = if message.method.is_idempotent() { Retry::Allowed } else { Retry::Untouched };
        let class = message.class;
        let request = Request { ask, class, intended, began: now, first_byte: None, retry };
        if self.post.plan.spec.protocol != Protocol::Http1 {
            return self.stream(request, now);
        }
        let Some(slot) = self.slot_of(token) else { return self.open(request, now) };
        if let Source::Open { idle, .. } = &mut self.source {
            idle.pop();
        }
        self.attach(slot, request);
        self.send(slot);
    }

    fn attach(&mut self, slot: u32, request: Request) {
        let body = self.post.plan.messages[request.ask as usize].answer;
        let conn = &mut self.conns[slot as usize];
        conn.request = Some(request);
        conn.sent = 0;
        conn.response.restart(body);
        conn.state = State::Sending;
    }

    /// Opens a connection for a request.
    fn open(&mut self, request: Request, now: Time) {
        let stream = match self.connect() {
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

    /// A connection that begins to open.
    pub(super) fn connect(&self) -> Result<Stream, Broken> {
        let spec = &self.post.plan.spec;
        let socket = Socket::new(&self.post.address)?;
        if let Some(bytes) = spec.receive_buffer {
            socket.set_receive_buffer(bytes)?;
        }
        if spec.closing == Closing::Rst {
            socket.set_reset_on_close()?;
        }
        if spec.protocol != Protocol::Http1 {
            // A stream's frames must not wait for those of another.
            socket.set_no_delay()?;
        }
        Stream::connect(socket, &self.raw_address, self.post.tls.as_ref())
    }

    pub(super) fn note_exhaustion(&mut self, broken: &Broken) {
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
        let sent =
            stream.send(&self.post.plan.messages[request.ask as usize].bytes, &mut conn.sent);
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

    pub(super) fn handle(&mut self, token: u64, events: u32) {
        if self.post.plan.spec.protocol != Protocol::Http1 {
            return self.handle_link(token);
        }
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
    pub(super) fn fail(&mut self, request: Request, kind: ErrorKind) {
        let now = self.clock();
        self.tally.fail(request.class, kind);
        self.leave(now);
        self.release(NONE, now, After::Failure);
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
        let length = conn.response.length();
        conn.served += 1;
        conn.state = State::Idle;
        let mut first_byte = request.first_byte;
        if !stays {
            first_byte = first_byte.or_else(|| Some(self.clock()));
            self.close(slot);
        }
        let now = self.clock();
        self.count(Request { first_byte, ..request }, status, bytes, length, now);
        let token = if stays { self.conns[slot as usize].token(slot) } else { NONE };
        self.release(token, now, After::Response);
    }

    /// Counts a request that was answered in full: with a status, so many bytes, and the size that its body
    /// has.
    #[inline]
    pub(super) fn count(
        &mut self,
        request: Request,
        status: u16,
        bytes: u64,
        length: Option<u64>,
        now: Time,
    ) {
        let counts = &mut self.tally.classes[request.class as usize];
        counts.bytes += bytes;
        match kind_of(status) {
            None => {
                if self.post.plan.classes[request.class as usize]
                    .bytes
                    .is_some_and(|bytes| status < 300 && length != Some(bytes))
                {
                    self.tally.resized[request.class as usize] = true;
                }
                counts.completed += 1;
                counts.total.record_nanos(now.since(request.intended).as_nanos() as u64);
                let first_byte = request.first_byte.unwrap_or(now).since(request.intended);
                counts.first_byte.record_nanos(first_byte.as_nanos() as u64);
            }
            Some(kind) => self.tally.fail(request.class, kind),
        }
        self.leave(now);
    }

    /// Frees the carrier of a request: a client, a connection.
    #[inline]
    pub(super) fn release(&mut self, token: u64, now: Time, after: After) {
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
            // What fails at once must not recurse: such clients go on in the next turn.
            Source::Closed { ready, .. } if after == After::Failure => ready.push_back(Some(now)),
            Source::Closed { .. } => match self.post.asks.next_request() {
                Some(ask) => self.begin(ask, now, now, token),
                None => self.retire(token),
            },
        }
    }

    /// Fails the requests that took too long. Looked for a few times within the shorter of the two
    /// limits, so that the hot path knows nothing of it.
    pub(super) fn fail_overdue(&mut self, now: Time) {
        let spec = &self.post.plan.spec;
        let (connect_max, response_max) = (spec.connect_max, spec.response_max);
        let period = (connect_max.min(response_max) / 20)
            .clamp(Duration::from_millis(2), Duration::from_millis(250));
        self.scan_at = now + period;
        if self.in_flight == 0 {
            return;
        }
        self.fail_overdue_streams(now);
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
