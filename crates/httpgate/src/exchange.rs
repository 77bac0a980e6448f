//! One request and its response, passed on in both directions at once, while a slot is held.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gate::Time;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use super::body::{Body, BodyError, Framing, Piece};
use super::buf::Buf;
use super::driver::{Held, Wanted};
use super::io::{ClientIo, SLACK, Wires, poll_fill};
use super::message::{Asked, HeadError, HeadScan, Response, Version, room};
use super::rewrite::{self, After, CHUNK_EXTRA, CHUNK_LAST, Delivery};
use super::server::Shared;
use super::stats::{Source, UpstreamError};
use super::watch::Watch;

/// Part of a request that its exchange must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) asked: Asked,
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    pub(crate) persistent: bool,
    pub(crate) idempotent: bool,
    pub(crate) expects_continue: bool,
    pub(crate) wanted: Wanted,
}

/// End of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The client has the response; whether its connection may be used again.
    Delivered(After),
    /// The kept connection to the server was closed before it took the request, which is still
    /// there whole and may be sent again.
    Stale,
    /// Nothing of the response has gone to the client: it can be told what happened.
    Failed(Failure),
    /// Part of the response has gone: the client must see that it is not all.
    Broken(How),
    /// The client left, or does not read or send any more.
    ClientLost,
}

/// Sign to a client that a response is not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The connection closes before the length, or the last chunk, that was announced.
    CutShort,
    /// Only the close ends this response, so the connection must be reset.
    Reset,
}

/// Reason that a client can be told instead of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Upstream(UpstreamError),
    RequestBody(BodyError),
    RequestSlow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    Running,
    Done,
    /// The server takes no more, or has answered already.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    /// The server's last byte is here.
    Over,
}

/// More informational responses than this before a response are no use to anybody.
const INFORMATIONAL_MAX: u32 = 16;

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Exchange<'c> {
    shared: &'c Shared,
    watch: &'c Watch,
    plan: Plan,
    client: &'c mut ClientIo,
    wires: &'c mut Wires,
    held: &'c mut Option<Held>,
    server_index: usize,
    server: Option<TcpStream>,
    reused: bool,
    upload: Upload,
    request_body: Body,
    /// Bytes of the buffer to the server that have gone. The buffer is kept until all have gone, so
    /// that a request that fits can be sent again.
    sent: usize,
    /// True if the buffer to the server still holds the request from its first byte to its last.
    whole: bool,
    phase: Phase,
    scan: HeadScan,
    informational: u32,
    server_persistent: bool,
    response_body: Body,
    delivery: Delivery,
    client_lost: bool,
    unflushed: bool,
    /// When the slot must be given back.
    limit: Time,
    /// True if the deadline that is set is one of this exchange.
    started: bool,
    moved: bool,
    /// Status of the server's response, once its head is here.
    status: Option<u16>,
    /// Time for which the slot was held, once it is given back here.
    hold: Option<Duration>,
    /// What went wrong with the server.
    error: Option<UpstreamError>,
}

impl<'c> Exchange<'c> {
    /// An exchange over `server`; the head of the request is in the buffer to the server already.
    pub(crate) fn new(
        (shared, watch): (&'c Shared, &'c Watch),
        plan: Plan,
        (client, wires): (&'c mut ClientIo, &'c mut Wires),
        held: &'c mut Option<Held>,
        (server, reused): (TcpStream, bool),
    ) -> Exchange<'c> {
        let (server_index, since) = {
            let held = held.as_ref().expect("an exchange holds a slot");
            (held.server(), held.since())
        };
        Exchange {
            shared,
            watch,
            plan,
            client,
            wires,
            held,
            server_index,
            server: Some(server),
            reused,
            upload: Upload::Running,
            request_body: Body::new(plan.framing),
            sent: 0,
            whole: true,
            phase: Phase::Head,
            scan: HeadScan::default(),
            informational: 0,
            server_persistent: false,
            response_body: Body::Done,
            delivery: Delivery { framing: Framing::None, after: After::Close },
            client_lost: false,
            unflushed: false,
            limit: since + shared.config().timeouts.hold,
            started: false,
            moved: false,
            status: None,
            hold: None,
            error: None,
        }
    }

    /// Passes the request and the response on until it ends.
    pub(crate) async fn run(&mut self) -> Outcome {
        if let Err(error) = self.begin() {
            return Outcome::Failed(Failure::RequestBody(error));
        }
        self.started = false;
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Begins anew over another connection, after [`Outcome::Stale`].
    pub(crate) fn replace(&mut self, server: TcpStream) {
        self.server = Some(server);
        self.reused = false;
        self.sent = 0;
        self.upload = Upload::Running;
        self.scan = HeadScan::default();
        self.wires.server_in.clear();
    }

    /// Takes along what of the body came with the head, so that both leave in one piece.
    fn begin(&mut self) -> Result<(), BodyError> {
        self.wires.server_in.clear();
        if self.whole && self.plan.framing != Framing::None {
            let waits = self.plan.expects_continue
                && self.wires.client_in.is_empty()
                && !self.request_body.is_done();
            if waits {
                self.wires.client_out.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            self.refill()?;
            self.whole = self.request_body.is_done();
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut progress = !std::mem::replace(&mut self.started, true);
        if !progress && self.watch.expired() {
            return Poll::Ready(self.expired());
        }
        loop {
            self.moved = false;
            let step = self
                .poll_upload(cx)
                .and_then(|()| self.poll_respond(cx))
                .and_then(|()| self.poll_deliver(cx));
            if let Err(outcome) = step {
                self.watch.disarm();
                return Poll::Ready(outcome);
            }
            if let Some(outcome) = self.finished() {
                self.watch.disarm();
                return Poll::Ready(outcome);
            }
            if !self.moved {
                break;
            }
            progress = true;
        }
        if progress {
            self.watch.arm(self.deadline(), cx);
        }
        Poll::Pending
    }

    fn finished(&self) -> Option<Outcome> {
        if self.phase != Phase::Over {
            return None;
        }
        if self.client_lost {
            return Some(Outcome::ClientLost);
        }
        if !self.wires.client_out.is_empty() || self.unflushed {
            return None;
        }
        let clean = self.upload == Upload::Done;
        Some(Outcome::Delivered(if clean { self.delivery.after } else { After::Close }))
    }

    /// Until when the next byte must move.
    fn deadline(&self) -> Time {
        let timeouts = self.shared.config().timeouts;
        let awaits_head = self.phase == Phase::Head && self.upload != Upload::Running;
        let span = if awaits_head { timeouts.response } else { timeouts.stall };
        let deadline = self.shared.driver.now() + span;
        if self.phase == Phase::Over { deadline } else { deadline.min(self.limit) }
    }

    /// Outcome of a deadline that passed, by who is to blame.
    fn expired(&mut self) -> Outcome {
        self.watch.disarm();
        let waits_for_client = self.upload == Upload::Running
            && self.sent == self.wires.server_out.len()
            && !self.request_body.is_done();
        let client_full = self.wires.client_out.room() < SLACK;
        match self.phase {
            _ if self.client_lost => Outcome::ClientLost,
            Phase::Over => Outcome::ClientLost,
            Phase::Head if waits_for_client => Outcome::Failed(Failure::RequestSlow),
            Phase::Head => self.failed(UpstreamError::Timeout),
            Phase::Body if client_full || waits_for_client => Outcome::ClientLost,
            Phase::Body => self.broken(UpstreamError::Timeout),
        }
    }

    fn refill(&mut self) -> Result<(), BodyError> {
        let Wires { client_in, server_out, .. } = &mut *self.wires;
        shovel(&mut self.request_body, client_in, server_out, self.plan.framing).map(|_| ())
    }

    /// Client to server.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Outcome> {
        while self.upload == Upload::Running {
            let Some(server) = &mut self.server else {
                self.upload = Upload::Stopped;
                break;
            };
            let rest = &self.wires.server_out.filled()[self.sent..];
            if !rest.is_empty() {
                match Pin::new(server).poll_write(cx, rest) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(n)) if n > 0 => {
                        self.sent += n;
                        self.moved = true;
                    }
                    // It may have answered before it stopped listening.
                    Poll::Ready(_) => self.upload = Upload::Stopped,
                }
                continue;
            }
            if self.request_body.is_done() {
                self.upload = Upload::Done;
                break;
            }
            self.whole = false;
            self.wires.server_out.clear();
            self.sent = 0;
            self.refill().map_err(|error| self.bad_request_body(error))?;
            if self.wires.server_out.is_empty() && !self.request_body.is_done() {
                match self.client.poll_fill(cx, &mut self.wires.client_in) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Ok(n)) if n > 0 => self.moved = true,
                    Poll::Ready(_) => return Err(Outcome::ClientLost),
                }
            }
        }
        Ok(())
    }

    fn bad_request_body(&self, error: BodyError) -> Outcome {
        match self.phase {
            Phase::Head => Outcome::Failed(Failure::RequestBody(error)),
            Phase::Body | Phase::Over => Outcome::ClientLost,
        }
    }

    /// Server to buffer.
    fn poll_respond(&mut self, cx: &mut Context<'_>) -> Result<(), Outcome> {
        loop {
            let more = match self.phase {
                Phase::Over => return Ok(()),
                Phase::Head => self.read_head()? || self.poll_server(cx)?,
                Phase::Body if self.response_body.is_done() => {
                    self.finish_server();
                    true
                }
                Phase::Body => self.poll_body(cx)?,
            };
            if !more {
                return Ok(());
            }
            self.moved = true;
        }
    }

    /// Reads a head if it is all there: an informational one is passed on, a final one begins the
    /// response.
    fn read_head(&mut self) -> Result<bool, Outcome> {
        self.try_read_head().map_err(|_| self.failed(UpstreamError::Garbage))
    }

    fn try_read_head(&mut self) -> Result<bool, HeadError> {
        let Wires { server_in, client_out, head_max, .. } = &mut *self.wires;
        let Some(span) = self.scan.scan(server_in.filled(), *head_max)? else { return Ok(false) };
        let mut fields = room();
        // The whole of it: a server does not send empty lines first.
        let bytes = &server_in.filled()[..span.end];
        let response = Response::parse(bytes, self.plan.asked, &mut fields)?;
        if response.status < 200 {
            self.informational += 1;
            if self.informational > INFORMATIONAL_MAX {
                return Err(HeadError::Status);
            }
            // The gate has answered Expect itself; HTTP/1.0 knows no informational responses.
            let passes = response.status != 100 && self.plan.version == Version::Http11;
            if passes && client_out.room() > SLACK && !self.client_lost {
                rewrite::informational(&response, client_out);
            }
        } else {
            let keep = self.plan.persistent && self.upload == Upload::Done && self.shared.is_open();
            let after = if keep { After::Keep } else { After::Close };
            self.delivery = Delivery::of(&response, self.plan.version, after);
            self.server_persistent = response.persistent;
            self.response_body = Body::new(response.framing);
            self.phase = Phase::Body;
            let status = response.status;
            rewrite::response(&response, self.plan.version, self.delivery, client_out);
            let class = self.shared.driver.class_now(self.plan.wanted.class);
            self.shared.stats.borrow_mut().count_response(class, Source::Upstream, status);
            self.status = Some(status);
        }
        server_in.consume(span.end);
        self.scan = HeadScan::default();
        Ok(true)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<bool, Outcome> {
        let framing = self.delivery.framing;
        let Wires { server_in, client_out, .. } = &mut *self.wires;
        if client_out.room() < SLACK {
            return Ok(false);
        }
        if !server_in.is_empty() {
            return shovel(&mut self.response_body, server_in, client_out, framing)
                .map_err(|_| self.broken(UpstreamError::Garbage));
        }
        let Some(left) = self.response_body.plain().filter(|_| framing != Framing::Chunked) else {
            return self.poll_server(cx);
        };
        // Content that goes on as it is, is read where it is sent from. One byte more than is due
        // is asked for: a read that falls short tells the event loop that there is no more.
        let most = usize::try_from(left.saturating_add(1)).unwrap_or(usize::MAX);
        let server = self.server.as_mut().expect("the response is not over");
        let before = client_out.len();
        match poll_fill(server, cx, client_out, most) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(n)) if n > 0 => {
                let due = usize::try_from(left).map_or(n, |left| left.min(n));
                if due < n {
                    client_out.truncate(before + due);
                    self.server_persistent = false;
                }
                self.response_body.took(due);
                Ok(true)
            }
            Poll::Ready(end) => self.server_closed(&end),
        }
    }

    /// Reads from the server into its buffer.
    fn poll_server(&mut self, cx: &mut Context<'_>) -> Result<bool, Outcome> {
        let server = self.server.as_mut().expect("the response is not over");
        match poll_fill(server, cx, &mut self.wires.server_in, usize::MAX) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(n)) if n > 0 => Ok(true),
            Poll::Ready(end) => self.server_closed(&end),
        }
    }

    fn server_closed(&mut self, end: &io::Result<usize>) -> Result<bool, Outcome> {
        if self.phase == Phase::Head {
            let silent = self.wires.server_in.is_empty() && self.informational == 0;
            let again = self.reused && self.plan.idempotent && self.whole && silent;
            let outcome = if again { Outcome::Stale } else { self.failed(UpstreamError::Closed) };
            return Err(outcome);
        }
        if end.is_err() || self.response_body.close().is_err() {
            return Err(self.broken(UpstreamError::Truncated));
        }
        if self.delivery.framing == Framing::Chunked {
            self.wires.client_out.extend(CHUNK_LAST);
        }
        Ok(true)
    }

    /// The server's last byte is here: its connection may be used again, and the slot is free,
    /// however slowly the client takes the rest.
    fn finish_server(&mut self) {
        self.phase = Phase::Over;
        let clean = self.server_persistent
            && self.upload == Upload::Done
            && self.wires.server_in.is_empty();
        if let Some(server) = self.server.take()
            && clean
        {
            self.shared.pool(self.server_index).put(server, self.shared);
        }
        if let Some(held) = self.held.take() {
            self.hold = Some(self.shared.driver.now().since(held.since()));
        }
    }

    /// Buffer to client.
    fn poll_deliver(&mut self, cx: &mut Context<'_>) -> Result<(), Outcome> {
        if self.client_lost {
            self.wires.client_out.clear();
            return Ok(());
        }
        while !self.wires.client_out.is_empty() {
            match self.client.poll_send(cx, &mut self.wires.client_out) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) => {
                    self.moved = true;
                    self.unflushed = true;
                }
                Poll::Ready(Err(_)) => {
                    self.lose_client();
                    return Ok(());
                }
            }
        }
        if self.unflushed {
            match self.client.poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(_)) => self.lose_client(),
            }
        }
        Ok(())
    }

    /// The server is still at work, so the slot is held on for a while; the response goes nowhere.
    fn lose_client(&mut self) {
        self.client_lost = true;
        self.moved = true;
        self.wires.client_out.clear();
        let patience = self.shared.config().timeouts.abandoned;
        self.limit = self.limit.min(self.shared.driver.now() + patience);
    }

    /// The server failed before its response began.
    fn failed(&mut self, error: UpstreamError) -> Outcome {
        self.count(error);
        Outcome::Failed(Failure::Upstream(error))
    }

    /// The server failed within its response.
    fn broken(&mut self, error: UpstreamError) -> Outcome {
        self.count(error);
        let by_close = self.delivery.framing == Framing::UntilClose;
        Outcome::Broken(if by_close { How::Reset } else { How::CutShort })
    }

    fn count(&mut self, error: UpstreamError) {
        self.error = Some(error);
        self.shared.stats.borrow_mut().upstreams[self.server_index].count_error(error);
    }

    /// What became of it, as far as it has come.
    pub(crate) fn told(&self) -> (Option<u16>, Option<Duration>, Option<UpstreamError>) {
        (self.status, self.hold, self.error)
    }

    /// True if all of the request has been read.
    pub(crate) fn upload_is_done(&self) -> bool {
        self.upload == Upload::Done
    }
}

/// Moves what has come of a body into the buffer that it leaves from in `framing`, as far as there
/// is room.
/// Whether anything moved.
fn shovel(
    body: &mut Body,
    from: &mut Buf,
    to: &mut Buf,
    framing: Framing,
) -> Result<bool, BodyError> {
    if body.is_done() {
        return Ok(false);
    }
    let chunked = framing == Framing::Chunked;
    let mut moved = false;
    while !body.is_done() && !from.is_empty() && to.room() >= SLACK {
        let consumed = match body.next(from.filled(), to.room() - CHUNK_EXTRA)? {
            Piece::Content { skip, len } => {
                let content = &from.filled()[skip..skip + len];
                if chunked {
                    rewrite::chunk_size(len, to);
                    to.extend(content);
                    to.extend(b"\r\n");
                } else {
                    to.extend(content);
                }
                skip + len
            }
            Piece::More(consumed) | Piece::End(consumed) => consumed,
        };
        from.consume(consumed);
        moved = true;
    }
    if chunked && body.is_done() {
        to.extend(CHUNK_LAST);
    }
    Ok(moved)
}
