//! One HTTP/2 connection that never blocks: it is turned when its socket is ready or it was asked something,
//! and tells what has become of its requests.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use gate::Time;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::budget::Room;
use super::ended::{Cause, Done, Ended, Frame, ended};
use super::silence::Silence;
use crate::http::conn::Request;
use crate::http::stream::{Broken, Opened, Received, Sent, Stream};

/// Window of each stream and of each connection \[bytes\]: the client is never what a server waits for.
const WINDOW: u32 = (1 << 30) - 1;
/// The most that a turn takes from the socket \[bytes\], before the streams are looked at: so much is held at
/// most, and the first bytes of an answer are noticed within so much.
pub(in crate::http) const TURN_MAX: usize = 64 << 10;
/// The most rounds of a turn, before other connections have theirs.
const ROUNDS: u32 = 16;
/// The largest list of header fields that is taken \[bytes\].
const FIELDS_MAX: u32 = 256 << 10;
/// Streams given up whose late frames are still known for what they are.
const RESETS_MAX: usize = 10_000;
/// So much of a body is kept, where any is.
const KEPT_MAX: usize = 4 << 10;
/// So many of the first bytes that came are kept, to tell what the peer speaks.
const FIRST: usize = 24;

/// A request as HTTP/2 has it, ready to be sent again and again.
#[derive(Clone, Debug)]
pub(in crate::http) struct Form {
    pub(in crate::http) head: http::request::Parts,
    pub(in crate::http) body: Bytes,
}

/// What of answers is kept beside counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Keep {
    Nothing,
    /// The fields of the head, and the beginning of the body.
    Heads,
}

/// Bounds on the streams of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct StreamBounds {
    /// In all.
    pub(in crate::http) most: u32,
    /// Until the server's SETTINGS have come: what it refuses before must be sent again.
    pub(in crate::http) first: u32,
}

/// News of a connection.
#[derive(Debug)]
pub(in crate::http) enum News {
    /// The connection is open.
    Opened,
    /// The answer to a request has come in full.
    Answered(Box<Answered>),
    /// A request has failed.
    Failed(Request, Ended),
    /// A request was never sent: the server takes no more on this connection.
    Unsent(Request),
    /// The server has ended the connection with a GOAWAY.
    GoAway(Frame),
}

/// An answer in full.
#[derive(Debug)]
pub(in crate::http) struct Answered {
    pub(in crate::http) request: Request,
    pub(in crate::http) status: u16,
    /// The bytes of its body.
    pub(in crate::http) bytes: u64,
    /// The size that its head announced.
    pub(in crate::http) length: Option<u64>,
    /// The fields of its head and the beginning of its body, where they are kept.
    pub(in crate::http) kept: Option<(HeaderMap, Vec<u8>)>,
}

/// State of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Turned {
    /// It goes on when its socket is ready.
    Waits,
    /// It has more to do at once.
    Unfinished,
    /// It is closed, and carries nothing any more.
    Closed,
}

/// An HTTP/2 connection.
pub(in crate::http) struct Link {
    stage: Stage,
    shared: Arc<Shared>,
    fd: RawFd,
    exchanges: Vec<Option<Exchange>>,
    /// Wakers of the places of streams, each made once.
    wakers: Vec<Waker>,
    free: Vec<u32>,
    /// Requests that have no stream yet: the connection is being opened, or the server allows no more.
    queue: VecDeque<(Request, Form)>,
    stirred: Arc<Stirred>,
    woken: Arc<Mutex<Vec<u32>>>,
    streams: u32,
    bounds: StreamBounds,
    takes: bool,
    silence: Silence,
    pings: Option<PingPong>,
    /// A PING was sent, and the library still waits for its answer.
    ping_is_out: bool,
    /// The peer has vanished: nothing new is put here.
    vanished: bool,
    keep: Keep,
    /// Answers that it has brought.
    pub(in crate::http) served: u64,
    /// When it began to open.
    pub(in crate::http) opened_at: Time,
    /// Class of the request that it was opened for.
    pub(in crate::http) class: u32,
    /// Interest that epoll was told.
    pub(in crate::http) interest: u32,
}

type Greeting = Pin<
    Box<dyn Future<Output = Result<(SendRequest<Bytes>, Connection<Io, Bytes>), h2::Error>> + Send>,
>;

enum Stage {
    /// TLS.
    Shaking(Box<Stream>),
    /// The preface is being sent.
    Greeting(Greeting),
    Open(Box<(SendRequest<Bytes>, Connection<Io, Bytes>)>),
    Closed,
}

/// A stream with its request.
struct Exchange {
    request: Request,
    /// What of the request is still to be sent lives as long as this.
    _sending: SendStream<Bytes>,
    answer: Answer,
    status: u16,
    length: Option<u64>,
    bytes: u64,
    kept: Option<(HeaderMap, Vec<u8>)>,
}

enum Answer {
    Awaited(ResponseFuture),
    Body(RecvStream),
}

/// Facts of the socket that its owner and the library's driver both need.
#[derive(Debug, Default)]
struct Shared {
    write_blocked: AtomicBool,
    tls_broke: AtomicBool,
    /// Something was received since this was last looked at.
    heard: AtomicBool,
    /// Bytes that this round may still receive.
    allowance: AtomicUsize,
    first: Mutex<Vec<u8>>,
}

/// True if the connection's own task was woken.
#[derive(Debug, Default)]
struct Stirred(AtomicBool);

impl Wake for Stirred {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Notes a stream that was woken.
struct Woken {
    list: Arc<Mutex<Vec<u32>>>,
    place: u32,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
    }
}

impl Link {
    /// A connection over a stream that is being opened, or whose TLS is. It carries at most as many streams as
    /// `bounds` has: in all, and until the server has said how many it allows.
    pub(in crate::http) fn new(
        stream: Stream,
        bounds: StreamBounds,
        keep: Keep,
        now: Time,
    ) -> Link {
        let (shared, fd) = (Arc::new(Shared::default()), stream.fd());
        let is_tls = stream.is_tls();
        let mut link = Link {
            stage: Stage::Closed,
            shared,
            fd,
            exchanges: Vec::new(),
            wakers: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            stirred: Arc::default(),
            woken: Arc::default(),
            streams: 0,
            bounds,
            takes: true,
            silence: Silence::new(now),
            pings: None,
            ping_is_out: false,
            vanished: false,
            keep,
            served: 0,
            opened_at: now,
            class: 0,
            interest: 0,
        };
        link.stage = match is_tls {
            true => Stage::Shaking(Box::new(stream)),
            false => link.greet(stream),
        };
        link
    }

    fn greet(&self, stream: Stream) -> Stage {
        let io = Io { stream: Some(stream), shared: Arc::clone(&self.shared) };
        let mut builder = Builder::new();
        builder
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .initial_max_send_streams(self.bounds.first as usize)
            .max_header_list_size(FIELDS_MAX)
            // Wrong lengths and requests given up are counted, however many: the connection goes on.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(RESETS_MAX)
            .enable_push(false);
        Stage::Greeting(Box::pin(async move { builder.handshake::<_, Bytes>(io).await }))
    }

    pub(in crate::http) fn fd(&self) -> RawFd {
        self.fd
    }

    /// True if the connection is being opened.
    pub(in crate::http) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Shaking(_) | Stage::Greeting(_))
    }

    /// True if it waits until its socket can be written to.
    pub(in crate::http) fn waits_to_write(&self) -> bool {
        self.shared.write_blocked.load(Ordering::Relaxed)
    }

    /// The first bytes that came.
    pub(in crate::http) fn first_bytes(&self) -> Vec<u8> {
        self.shared.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its place in the budget of streams.
    pub(in crate::http) fn room(&self) -> Room {
        let streams_max = match &self.stage {
            Stage::Open(open) => {
                u32::try_from(open.0.current_max_send_streams()).unwrap_or(u32::MAX)
            }
            _ => self.bounds.first,
        };
        Room {
            streams: self.streams,
            streams_max: self.bounds.most.min(streams_max),
            takes: self.takes && !self.vanished,
        }
    }

    /// Listens for the peer, from time to time while requests wait: asks it for a sign of life if it was silent for
    /// long. True if a frame is to be sent.
    pub(in crate::http) fn listen(&mut self, now: Time, response_max: Duration) -> bool {
        if self.shared.heard.swap(false, Ordering::Relaxed) {
            self.silence.hear(now);
        }
        self.vanished = self.silence.is_final(now, response_max);
        let waiting = self.exchanges.iter().flatten().map(|exchange| exchange.request.began);
        let Some(oldest) = waiting.chain(self.queue.iter().map(|(request, _)| request.began)).min()
        else {
            return false;
        };
        let Some(pings) = &mut self.pings else { return false };
        if !self.silence.wants_ping(oldest, now, response_max) {
            return false;
        }
        self.silence.ping(now);
        // One that is out already will do: its answer has not come.
        let is_new = pings.send_ping(Ping::opaque()).is_ok();
        self.ping_is_out |= is_new;
        is_new
    }

    /// True if the peer answers nothing any more, by what was last listened for.
    pub(in crate::http) fn has_vanished(&self) -> bool {
        self.vanished
    }

    /// True if it carries no request.
    pub(in crate::http) fn is_empty(&self) -> bool {
        self.streams == 0
    }

    /// Takes a request; it is sent with the next turn.
    pub(in crate::http) fn ask(&mut self, request: Request, form: Form) {
        self.streams += 1;
        self.queue.push_back((request, form));
    }

    /// Goes on with whatever can be gone on with; tells what became of requests, at the time that `clock` has
    /// then.
    pub(in crate::http) fn turn(
        &mut self,
        clock: &mut dyn FnMut() -> Time,
        tell: &mut Vec<News>,
    ) -> Turned {
        self.shared.write_blocked.store(false, Ordering::Relaxed);
        for _ in 0..ROUNDS {
            self.shared.allowance.store(TURN_MAX, Ordering::Relaxed);
            self.stirred.0.store(false, Ordering::Relaxed);
            let over = match self.drive(tell) {
                Ok(Poll::Pending) => false,
                Ok(Poll::Ready(())) => true,
                Err(cause) => {
                    // What was answered before the end counts.
                    self.look_at_streams(clock, tell);
                    self.close(&cause, tell);
                    return Turned::Closed;
                }
            };
            let looked = self.look_at_streams(clock, tell);
            if over {
                self.close(&Cause::Transport(io::ErrorKind::BrokenPipe), tell);
                return Turned::Closed;
            }
            let more = self.shared.allowance.load(Ordering::Relaxed) == 0;
            let stirred = self.stirred.0.load(Ordering::Relaxed);
            if !looked && !more && !stirred {
                return Turned::Waits;
            }
        }
        Turned::Unfinished
    }

    /// The connection itself: opens it, begins what is queued, reads and writes frames.
    fn drive(&mut self, tell: &mut Vec<News>) -> Result<Poll<()>, Cause> {
        let waker = Waker::from(Arc::clone(&self.stirred));
        let mut context = Context::from_waker(&waker);
        if let Stage::Shaking(stream) = &mut self.stage {
            match stream.shake_hands() {
                Ok(Opened::Yes) if !stream.speaks_http2() => return Err(Cause::Broken),
                Ok(Opened::Yes) => {
                    let Stage::Shaking(stream) = mem::replace(&mut self.stage, Stage::Closed)
                    else {
                        unreachable!("it was looked at above")
                    };
                    self.stage = self.greet(*stream);
                }
                Ok(Opened::WantsRead) => return Ok(Poll::Pending),
                Ok(Opened::WantsWrite) => {
                    self.shared.write_blocked.store(true, Ordering::Relaxed);
                    return Ok(Poll::Pending);
                }
                Err(Broken::Tls) => return Err(Cause::Tls),
                Err(Broken::Transport(error)) => return Err(Cause::Transport(error.kind())),
            }
        }
        if let Stage::Greeting(greeting) = &mut self.stage {
            match greeting.as_mut().poll(&mut context) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(error)) => return Err(self.cause(&error)),
                Poll::Ready(Ok(mut open)) => {
                    self.pings = open.1.ping_pong();
                    self.stage = Stage::Open(Box::new(open));
                    tell.push(News::Opened);
                }
            }
        }
        self.begin_queued(&mut context, tell);
        let Stage::Open(open) = &mut self.stage else { return Ok(Poll::Ready(())) };
        match Pin::new(&mut open.1).poll(&mut context) {
            Poll::Pending => {
                if self.ping_is_out
                    && let Some(pings) = &mut self.pings
                {
                    self.ping_is_out = pings.poll_pong(&mut context).is_pending();
                }
                Ok(Poll::Pending)
            }
            Poll::Ready(Ok(())) => {
                self.note_go_away(&mut context, tell);
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(error)) => {
                let cause = self.cause(&error);
                if let Cause::GoAway(code) = cause {
                    self.end_with(Frame::GoAway(code), tell);
                }
                Err(cause)
            }
        }
    }

    fn cause(&self, error: &h2::Error) -> Cause {
        Cause::of(error, self.shared.tls_broke.load(Ordering::Relaxed))
    }

    /// The server takes no more requests here; told once.
    fn end_with(&mut self, frame: Frame, tell: &mut Vec<News>) {
        if mem::replace(&mut self.takes, false) {
            tell.push(News::GoAway(frame));
        }
    }

    /// The connection ended in peace: by a GOAWAY, or without a word.
    fn note_go_away(&mut self, context: &mut Context<'_>, tell: &mut Vec<News>) {
        let Stage::Open(open) = &mut self.stage else { return };
        if let Poll::Ready(Err(error)) = open.0.poll_ready(context)
            && let Cause::GoAway(code) = Cause::of(&error, false)
        {
            self.end_with(Frame::GoAway(code), tell);
        }
    }

    /// Gives a stream to each request that waits for one, as far as the server allows it.
    fn begin_queued(&mut self, context: &mut Context<'_>, tell: &mut Vec<News>) {
        while !self.queue.is_empty() {
            let Stage::Open(open) = &mut self.stage else { return };
            let send = &mut open.0;
            let refused = match send.poll_ready(context) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => Some(error),
                Poll::Ready(Ok(())) => {
                    let Some((request, form)) = self.queue.pop_front() else { return };
                    match begin(send, form) {
                        Ok((answer, sending)) => {
                            self.take_up(request, Answer::Awaited(answer), sending);
                            None
                        }
                        Err(error) => {
                            let cause = self.cause(&error);
                            self.streams -= 1;
                            tell.push(match self.leaves(&cause) {
                                true => News::Unsent(request),
                                false => News::Failed(request, ended(&cause, true, None)),
                            });
                            Some(error)
                        }
                    }
                }
            };
            if let Some(error) = refused {
                let cause = self.cause(&error);
                if let Cause::GoAway(code) = cause {
                    self.end_with(Frame::GoAway(code), tell);
                }
                self.takes = false;
                let leaves = self.leaves(&cause);
                let unsent = Ended { done: Done::Nothing, ..ended(&cause, true, None) };
                for (request, _) in mem::take(&mut self.queue) {
                    self.streams -= 1;
                    tell.push(match leaves {
                        true => News::Unsent(request),
                        false => News::Failed(request, unsent),
                    });
                }
            }
        }
    }

    /// True if a connection that refuses a new stream has only come to its end: by a GOAWAY, or because its numbers
    /// of streams are used up. One that has answered nothing is none that goes on elsewhere.
    fn leaves(&self, cause: &Cause) -> bool {
        self.served > 0 && matches!(cause, Cause::GoAway(_) | Cause::Broken)
    }

    fn take_up(&mut self, request: Request, answer: Answer, sending: SendStream<Bytes>) {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = self.exchanges.len() as u32;
            let woken = Woken { list: Arc::clone(&self.woken), place };
            self.wakers.push(Waker::from(Arc::new(woken)));
            self.exchanges.push(None);
            place
        });
        self.exchanges[place as usize] = Some(Exchange {
            request,
            _sending: sending,
            answer,
            status: 0,
            length: None,
            bytes: 0,
            kept: None,
        });
        // Its first look tells the library whom to wake.
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }

    /// Looks at the streams that were woken; true if there was one.
    fn look_at_streams(&mut self, clock: &mut dyn FnMut() -> Time, tell: &mut Vec<News>) -> bool {
        let woken = mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        for &place in &woken {
            let Some(exchange) = &mut self.exchanges[place as usize] else { continue };
            let mut context = Context::from_waker(&self.wakers[place as usize]);
            let outcome = match exchange.poll(&mut context, clock, self.keep) {
                Poll::Pending => continue,
                Poll::Ready(outcome) => outcome,
            };
            let Some(exchange) = self.exchanges[place as usize].take() else { continue };
            self.free.push(place);
            self.streams -= 1;
            match outcome {
                Ok(()) => {
                    self.served += 1;
                    let Exchange { request, status, bytes, length, kept, .. } = exchange;
                    let answered = Answered { request, status, bytes, length, kept };
                    tell.push(News::Answered(Box::new(answered)));
                }
                Err(error) => {
                    let cause = self.cause(&error);
                    if let Cause::GoAway(code) = cause {
                        self.end_with(Frame::GoAway(code), tell);
                    }
                    let length = exchange.length.map(|length| (length, exchange.bytes));
                    tell.push(News::Failed(exchange.request, ended(&cause, true, length)));
                }
            }
        }
        !woken.is_empty()
    }

    /// Everything that it carries has failed.
    fn close(&mut self, cause: &Cause, tell: &mut Vec<News>) {
        let opened = !self.is_opening();
        self.stage = Stage::Closed;
        self.takes = false;
        for exchange in self.exchanges.iter_mut().filter_map(Option::take) {
            let length = exchange.length.map(|length| (length, exchange.bytes));
            tell.push(News::Failed(exchange.request, ended(cause, opened, length)));
        }
        for (request, _) in mem::take(&mut self.queue) {
            tell.push(News::Failed(request, ended(cause, opened, None)));
        }
        self.streams = 0;
    }

    /// Gives up the requests that `overdue` names; the server is told with the next turn.
    pub(in crate::http) fn give_up(&mut self, overdue: impl Fn(&Request) -> bool) -> Vec<Request> {
        let mut given_up = Vec::new();
        for (place, slot) in self.exchanges.iter_mut().enumerate() {
            if let Some(exchange) = slot.take_if(|exchange| overdue(&exchange.request)) {
                given_up.push(exchange.request);
                self.free.push(place as u32);
            }
        }
        self.queue.retain(|(request, _)| {
            let late = overdue(request);
            if late {
                given_up.push(*request);
            }
            !late
        });
        self.streams -= given_up.len() as u32;
        given_up
    }
}

fn begin(
    send: &mut SendRequest<Bytes>,
    form: Form,
) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
    let ends = form.body.is_empty();
    let (answer, mut sending) =
        send.send_request(http::Request::from_parts(form.head, ()), ends)?;
    if !ends {
        sending.send_data(form.body, true)?;
    }
    Ok((answer, sending))
}

impl Exchange {
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        clock: &mut dyn FnMut() -> Time,
        keep: Keep,
    ) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut self.answer {
                Answer::Awaited(future) => {
                    let response = match Pin::new(future).poll(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(response) => response?,
                    };
                    self.request.first_byte.get_or_insert_with(&mut *clock);
                    let (head, body) = response.into_parts();
                    self.status = head.status.as_u16();
                    let length = head.headers.get(http::header::CONTENT_LENGTH);
                    self.length = length.and_then(|text| text.to_str().ok()?.parse().ok());
                    if keep == Keep::Heads {
                        self.kept = Some((head.headers, Vec::new()));
                    }
                    self.answer = Answer::Body(body);
                }
                Answer::Body(body) => {
                    let data = match body.poll_data(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(None) => {
                            // Trailers are read over.
                            return body.poll_trailers(context).map_ok(drop);
                        }
                        Poll::Ready(Some(data)) => data?,
                    };
                    // Given free at once: the server is never held up by the client.
                    body.flow_control().release_capacity(data.len())?;
                    self.bytes += data.len() as u64;
                    if let Some((_, kept)) = &mut self.kept {
                        let room = KEPT_MAX - kept.len();
                        kept.extend_from_slice(&data[..data.len().min(room)]);
                    }
                }
            }
        }
    }
}

/// The bytes of a connection, as the library wants them.
struct Io {
    stream: Option<Stream>,
    shared: Arc<Shared>,
}

impl Io {
    fn failed(&self, broken: Broken) -> io::Error {
        match broken {
            Broken::Transport(error) => error,
            Broken::Tls => {
                self.shared.tls_broke.store(true, Ordering::Relaxed);
                io::ErrorKind::InvalidData.into()
            }
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.close();
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let allowance = self.shared.allowance.load(Ordering::Relaxed);
        // Beyond it the round ends, and another one follows.
        let length = buffer.remaining().min(allowance);
        if length == 0 {
            return Poll::Pending;
        }
        let room = &mut buffer.initialize_unfilled()[..length];
        let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(())) };
        match stream.receive(room, 0) {
            Ok(Received::Bytes(count)) => {
                buffer.advance(count);
                let filled = buffer.filled();
                let fresh = &filled[filled.len() - count..];
                let mut first = self.shared.first.lock().unwrap_or_else(PoisonError::into_inner);
                if first.len() < FIRST {
                    let wanted = FIRST - first.len();
                    first.extend_from_slice(&fresh[..count.min(wanted)]);
                }
                drop(first);
                self.shared.heard.store(true, Ordering::Relaxed);
                self.shared.allowance.store(allowance - count, Ordering::Relaxed);
                Poll::Ready(Ok(()))
            }
            Ok(Received::Nothing) => Poll::Pending,
            // Nothing is thrown away unseen here.
            Ok(Received::End | Received::CutOff | Received::Discarded(_)) => Poll::Ready(Ok(())),
            Err(broken) => Poll::Ready(Err(self.failed(broken))),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut sent = 0;
        match stream.send(bytes, &mut sent) {
            Ok(how) => {
                if how == Sent::Partly {
                    self.shared.write_blocked.store(true, Ordering::Relaxed);
                }
                if sent == 0 { Poll::Pending } else { Poll::Ready(Ok(sent)) }
            }
            Err(broken) => Poll::Ready(Err(self.failed(broken))),
        }
    }

    /// What TLS holds back is sent as soon as the socket takes it.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.is_tls()) else {
            return Poll::Ready(Ok(()));
        };
        let mut sent = 0;
        match stream.send(&[], &mut sent) {
            Ok(Sent::All) => Poll::Ready(Ok(())),
            Ok(Sent::Partly) => {
                self.shared.write_blocked.store(true, Ordering::Relaxed);
                Poll::Pending
            }
            Err(broken) => Poll::Ready(Err(self.failed(broken))),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
