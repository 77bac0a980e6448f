//! A client's connection: one request after the other, each through the gate.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use gate::{Reason, Time};
use tokio::net::TcpStream;

use super::access_log::{Course, Ended, Requested};
use super::answer::{Answer, WithBody};
use super::body::Framing;
use super::config::{Config, Key};
use super::driver::{Held, Numbered, Wanted};
use super::exchange::{Exchange, Failure, How, Outcome, Plan};
use super::io::{ClientIo, Wires};
use super::message::{Asked, HeadError, HeadScan, HeadSpan, Request, Version, room};
use super::rewrite::{self, After, Origin};
use super::server::Shared;
use super::stats::{Source, UpstreamError};
use super::watch::Watch;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Rc<Shared>,
    watch: Rc<Watch>,
    client: ClientIo,
    origin: Origin,
    wires: Wires,
    /// True if the client may still be sending a body that nobody will read.
    unread: bool,
    /// Course of the request that is under way.
    course: Option<Course>,
    /// The same request as it was asked, if it is logged.
    requested: Option<Requested>,
    since: Time,
    /// Bytes taken from the client and sent to it before that request.
    before: (u64, u64),
}

/// Fate of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    /// It is closed once the client has everything.
    Close,
    /// It is of no use to anybody.
    Drop,
}

impl From<After> for Next {
    fn from(after: After) -> Next {
        match after {
            After::Keep => Next::Request,
            After::Close => Next::Close,
        }
    }
}

/// Result of reading the head of a request.
enum Head {
    Request(Plan),
    /// The gate answers this one itself.
    Answered(After),
    /// There is no request, and nothing to say.
    Nothing,
}

/// Wait of a connection for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// For its first one: the client has just connected and means to send.
    First,
    /// For another one, which may never come.
    Idle,
}

/// Why a request got no slot.
enum Refusal {
    Gate(Reason),
    /// The client left.
    Reneged,
}

/// Time that a client may take to read the last response and close [s].
const LINGER: Duration = Duration::from_secs(1);

/// Most that is read and dropped of what a client still sends, so that closing does not reset the
/// connection under the response [B].
const LINGER_MAX: usize = 256 * 1024;

impl Connection {
    /// Serves a client until its connection ends.
    pub(crate) async fn serve(shared: Rc<Shared>, socket: TcpStream, peer: SocketAddr) {
        let watch = shared.watches.add();
        let since = shared.driver.now();
        let deadline = since + shared.config().timeouts.head;
        let acceptor = shared.acceptor();
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let client = match acceptor {
            None => ClientIo::plain(socket),
            Some(acceptor) => match watch.until(deadline, acceptor.accept(socket)).await {
                Some(Ok(stream)) => ClientIo::tls(stream),
                // No request was made, and there is no way to answer.
                Some(Err(_)) | None => return,
            },
        };
        let origin = Origin::new(peer.ip(), scheme);
        let wires = Wires::new(&shared.config().limits);
        let (course, requested, before) = (None, None, (0, 0));
        let mut connection = Connection {
            shared,
            watch,
            client,
            origin,
            wires,
            unread: false,
            course,
            requested,
            since,
            before,
        };
        connection.run().await;
    }

    async fn run(&mut self) {
        let mut patience = Patience::First;
        loop {
            self.before = self.passed();
            let next = match self.read_head(patience).await {
                Head::Request(plan) => self.request(plan).await,
                Head::Answered(after) => self.flushed(after).await,
                Head::Nothing => Next::Drop,
            };
            self.account();
            match next {
                Next::Request => self.wires.shrink(),
                Next::Close => return self.close().await,
                Next::Drop => return,
            }
            patience = Patience::Idle;
        }
    }

    /// Bytes taken from the client and sent to it so far.
    fn passed(&self) -> (u64, u64) {
        let (received, sent) = self.client.passed();
        (received - self.wires.client_in.len() as u64, sent)
    }

    /// Counts the request that was under way, if one was, and writes its line.
    fn account(&mut self) {
        let Some(mut course) = self.course.take() else { return };
        let (received, sent) = self.passed();
        course.received = received - self.before.0;
        course.sent = sent - self.before.1;
        course.response = self.shared.driver.now().since(self.since);
        self.shared.ended(&course, self.requested.take().as_ref(), self.origin.ip());
    }

    fn ends(&mut self, outcome: Ended, reason: Option<&'static str>) {
        let course = self.course.get_or_insert_default();
        (course.outcome, course.reason) = (Some(outcome), reason);
    }

    /// Waits for a request and the whole of its head; writes the head for the server into its
    /// buffer.
    async fn read_head(&mut self, patience: Patience) -> Head {
        let mut scan = HeadScan::default();
        let mut begun = !self.wires.client_in.is_empty();
        let mut armed = false;
        let Connection { shared, watch, client, wires, .. } = self;
        let timeouts = shared.config().timeouts;
        let found = std::future::poll_fn(|cx| {
            loop {
                match scan.scan(wires.client_in.filled(), wires.head_max) {
                    Ok(Some(span)) => return Poll::Ready(Ok(span)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(Some(error))),
                }
                if armed && watch.expired() {
                    return Poll::Ready(Err(None));
                }
                match client.poll_fill(cx, &mut wires.client_in) {
                    Poll::Ready(Ok(n)) if n > 0 => {
                        if !begun {
                            begun = true;
                            armed = false;
                        }
                    }
                    Poll::Ready(_) => return Poll::Ready(Err(None)),
                    Poll::Pending => {
                        let idle = !begun && patience == Patience::Idle;
                        if idle && shared.is_draining() {
                            return Poll::Ready(Err(None));
                        }
                        if !armed {
                            armed = true;
                            let span = if idle { timeouts.idle } else { timeouts.head };
                            watch.arm(shared.driver.now() + span, cx);
                        }
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
        let late = watch.expired();
        watch.disarm();
        match found {
            Ok(span) => self.parse(span),
            Err(Some(error)) => self.refuse_head(error),
            Err(None) if late && begun => {
                self.since = self.shared.driver.now();
                self.ends(Ended::Invalid, Some("head-timeout"));
                let text = "the head of the request did not arrive in time\n";
                self.answer(&Answer::plain(408, text), None, After::Close);
                Head::Answered(After::Close)
            }
            Err(None) => Head::Nothing,
        }
    }

    fn parse(&mut self, span: HeadSpan) -> Head {
        self.since = self.shared.driver.now();
        let config = self.shared.config();
        let Wires { client_in, server_out, .. } = &mut self.wires;
        let bytes = &client_in.filled()[span.start..span.end];
        let mut fields = room();
        let request = match Request::parse(bytes, &mut fields) {
            Ok(request) => request,
            Err(error) => return self.refuse_head(error),
        };
        let numbering = self.shared.driver.numbering();
        let plan = plan(&request, &config, numbering, &self.origin);
        self.course = Some(Course { class: plan.wanted.class, ..Course::default() });
        let target = config.access_log.as_ref().map(|log| log.target);
        self.requested =
            target.and_then(|target| self.shared.requests.borrow().requested(&request, target));
        let here = request.hops_max == Some(0);
        if !here {
            let after = if config.limits.pool == 0 { After::Close } else { After::Keep };
            server_out.clear();
            rewrite::request(&request, &self.origin, config.forwarded, after, server_out);
        }
        client_in.consume(span.end);
        if here {
            // RFC 9110 section 7.6.2: an OPTIONS that may go no further is answered here.
            self.ends(Ended::Answered, None);
            let after = self.after_answer(&plan);
            let answer = Answer { fields: &[("Allow", ALLOW)], ..Answer::plain(200, "") };
            self.answer(&answer, Some(&plan), after);
            return Head::Answered(after);
        }
        Head::Request(plan)
    }

    fn refuse_head(&mut self, error: HeadError) -> Head {
        self.since = self.shared.driver.now();
        self.ends(Ended::Invalid, None);
        let text = format!("{error}\n");
        let fields: &[(&str, &str)] =
            if error == HeadError::Method { &[("Allow", ALLOW)] } else { &[] };
        let answer = Answer { fields, ..Answer::plain(error.status(), &text) };
        self.answer(&answer, None, After::Close);
        Head::Answered(After::Close)
    }

    /// Passes one request through the gate and on to a server.
    async fn request(&mut self, plan: Plan) -> Next {
        let since = self.since;
        self.unread = !matches!(plan.framing, Framing::None | Framing::Length(0));
        // A server that does not let anybody connect has not seen the request, so another may.
        let mut tries = self.shared.servers().min(3);
        loop {
            let mut held = match self.admit(&plan, since).await {
                Ok(held) => Some(held),
                Err(refusal) => return self.refuse(&plan, refusal).await,
            };
            if let (Some(course), Some(held)) = (&mut self.course, &held) {
                course.wait = Some(held.since().since(since));
                course.server = Some(held.server());
            }
            tries -= 1;
            let outcome = self.exchange(plan, &mut held).await;
            if let (Some(held), false) = (&mut held, matches!(outcome, Outcome::Delivered(_))) {
                held.fails();
            }
            // Whatever happened, the slot is not held while the client is told of it.
            drop(held);
            return match outcome {
                Outcome::Delivered(after) => {
                    self.ends(Ended::Served, None);
                    after.into()
                }
                Outcome::Failed(Failure::Upstream(error)) if tries > 0 && error.is_connect() => {
                    continue;
                }
                Outcome::Failed(failure) => self.fail(&plan, failure).await,
                Outcome::ClientLost => {
                    self.shared.stats.borrow_mut().clients_lost += 1;
                    self.ends(Ended::ClientLost, None);
                    self.client.reset_on_close();
                    Next::Drop
                }
                Outcome::Broken(how) => {
                    let reason = self.course.and_then(|course| course.reason);
                    self.ends(Ended::Broken, reason);
                    match how {
                        How::CutShort => self.flushed(After::Close).await,
                        How::Reset => {
                            self.client.reset_on_close();
                            Next::Drop
                        }
                    }
                }
                Outcome::Stale => unreachable!("a fresh connection is not stale"),
            };
        }
    }

    /// Waits for a slot. What the client sends meanwhile is kept, as far as there is room; if it
    /// closes, it reneges.
    async fn admit(&mut self, plan: &Plan, since: Time) -> Result<Held, Refusal> {
        let Connection { shared, client, wires, .. } = self;
        let ticket = shared.driver.arrive(plan.wanted, since);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(verdict) = ticket.poll(cx) {
                return Poll::Ready(verdict.map_err(Refusal::Gate));
            }
            while wires.client_in.room() > 0 {
                match client.poll_fill(cx, &mut wires.client_in) {
                    Poll::Ready(Ok(n)) if n > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Err(Refusal::Reneged)),
                    Poll::Pending => break,
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Talks to the server whose slot is held.
    async fn exchange(&mut self, plan: Plan, held: &mut Option<Held>) -> Outcome {
        let Connection { shared, watch, client, wires, .. } = self;
        let index = held.as_ref().expect("a slot is held").server();
        let pool = shared.pool(index);
        let began = held.as_ref().map(Held::since);
        let failed = |error| Outcome::Failed(Failure::Upstream(error));
        let server = match pool.take(shared) {
            Some(kept) => (kept, true),
            None => match pool.connect(shared, watch).await {
                Ok(fresh) => (fresh, false),
                Err(error) => return failed(error),
            },
        };
        let now = || shared.driver.now();
        let mut exchange = Exchange::new((shared, watch), plan, (client, wires), held, server);
        let mut outcome = exchange.run().await;
        if outcome == Outcome::Stale {
            shared.stats.borrow_mut().upstreams[index].retries += 1;
            outcome = match pool.connect(shared, watch).await {
                Ok(fresh) => {
                    exchange.replace(fresh);
                    exchange.run().await
                }
                Err(error) => failed(error),
            };
        }
        if exchange.upload_is_done() {
            self.unread = false;
        }
        if let (Some(course), Some(began)) = (&mut self.course, began) {
            let (status, hold, error) = exchange.told();
            course.status = status;
            course.hold = Some(hold.unwrap_or_else(|| now().since(began)));
            course.reason = error.map(UpstreamError::name);
        }
        drop(exchange);
        outcome
    }

    /// Tells the client that it was turned away, and when it may come again.
    async fn refuse(&mut self, plan: &Plan, refusal: Refusal) -> Next {
        let reason = match refusal {
            Refusal::Reneged => {
                self.ends(Ended::Reneged, None);
                return Next::Drop;
            }
            Refusal::Gate(reason) => reason.name(),
        };
        self.ends(Ended::Refused, Some(reason));
        let seconds = match refusal {
            Refusal::Gate(Reason::Unreachable) => {
                self.shared.config().health.interval.as_secs().max(1)
            }
            _ => self.shared.driver.retry_after(),
        };
        let fields = [("Retry-After", &*seconds.to_string()), ("Sekisho-Refused", reason)];
        let text = format!("refused: {reason}\n");
        let after = self.after_answer(plan);
        let answer = Answer { fields: &fields, ..Answer::plain(503, &text) };
        self.answer(&answer, Some(plan), after);
        self.flushed(after).await
    }

    /// Tells the client what went wrong.
    async fn fail(&mut self, plan: &Plan, failure: Failure) -> Next {
        let (status, text, outcome, reason) = match failure {
            Failure::RequestBody(error) => {
                (400, format!("{error}\n"), Ended::Invalid, "request-body")
            }
            Failure::RequestSlow => {
                let text = "the body of the request stalled\n".to_owned();
                (408, text, Ended::Invalid, "request-timeout")
            }
            Failure::Upstream(error) => {
                let (status, text) = upstream_failure(error);
                (status, format!("{text}\n"), Ended::Failed, error.name())
            }
        };
        self.ends(outcome, Some(reason));
        let after = self.after_answer(plan);
        self.answer(&Answer::plain(status, &text), Some(plan), after);
        self.flushed(after).await
    }

    /// State of the connection after an answer of the gate itself: not of use if a body is still to
    /// come that nobody will read.
    fn after_answer(&self, plan: &Plan) -> After {
        let keep = plan.persistent
            && matches!(plan.framing, Framing::None | Framing::Length(0))
            && self.shared.is_open();
        if keep { After::Keep } else { After::Close }
    }

    fn answer(&mut self, answer: &Answer<'_>, plan: Option<&Plan>, after: After) {
        let version = plan.map_or(Version::Http11, |plan| plan.version);
        let body = match plan.map(|plan| plan.asked) {
            Some(Asked::Head) => WithBody::No,
            _ => WithBody::Yes,
        };
        answer.write(version, body, after, &mut self.wires.client_out);
        let class = plan.map_or(0, |plan| self.shared.driver.class_now(plan.wanted.class));
        self.shared.stats.borrow_mut().count_response(class, Source::Gate, answer.status);
        if let Some(course) = &mut self.course {
            course.status = Some(answer.status);
        }
    }

    /// Sends what is left for the client.
    async fn flushed(&mut self, after: After) -> Next {
        let Connection { shared, watch, client, wires, .. } = self;
        let deadline = shared.driver.now() + shared.config().timeouts.stall;
        let sent = std::future::poll_fn(|cx| {
            while !wires.client_out.is_empty() {
                match client.poll_send(cx, &mut wires.client_out) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => return Poll::Pending,
                }
            }
            client.poll_flush(cx).map(|flushed| flushed.is_ok())
        });
        if watch.until(deadline, sent).await == Some(true) { after.into() } else { Next::Drop }
    }

    /// Closes so that the client gets all that was sent: first this side, then, after what the
    /// client was still sending, the other.
    async fn close(&mut self) {
        let Connection { shared, watch, client, wires, .. } = self;
        if !self.unread && wires.client_in.is_empty() && client.is_plain() {
            return;
        }
        let deadline = shared.driver.now() + LINGER;
        let mut shut = false;
        let mut dropped = 0;
        wires.client_in.clear();
        let closed = std::future::poll_fn(|cx| {
            loop {
                if !shut {
                    match client.poll_shutdown(cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(_)) => return Poll::Ready(()),
                        Poll::Ready(Ok(())) => shut = true,
                    }
                }
                match client.poll_fill(cx, &mut wires.client_in) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(n)) if n > 0 && dropped < LINGER_MAX => dropped += n,
                    Poll::Ready(_) => return Poll::Ready(()),
                }
                wires.client_in.clear();
            }
        });
        watch.until(deadline, closed).await;
    }
}

/// Whoever is cut off at the end of the gate, or by a fault, is counted too.
impl Drop for Connection {
    fn drop(&mut self) {
        self.account();
    }
}

/// The methods that are served, for Allow.
const ALLOW: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";

fn plan(request: &Request<'_, '_>, config: &Config, numbering: u32, origin: &Origin) -> Plan {
    let number = config.classes.iter().position(|class| class.holds(request));
    let class = number.map(|number| &config.classes[number]);
    Plan {
        asked: if request.method == "HEAD" { Asked::Head } else { Asked::Other },
        version: request.version,
        framing: request.framing,
        persistent: request.persistent,
        idempotent: request.is_idempotent(),
        expects_continue: request.expects_continue,
        wanted: Wanted {
            class: Numbered { class: number.map_or(0, |number| number as u32 + 1), numbering },
            priority: class.map_or(0, |class| class.priority),
            size: class.map_or(0, |class| class.size),
            wait_max: class.and_then(|class| class.wait_max),
            key: match config.key {
                Key::Path => hash(request.target.rest.split('?').next().unwrap_or_default()),
                Key::Client => hash(origin.address()),
            },
        },
    }
}

/// The same number for the same text on every machine (FNV-1a).
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn upstream_failure(error: UpstreamError) -> (u16, &'static str) {
    match error {
        UpstreamError::Connect => (502, "the server behind cannot be connected to"),
        UpstreamError::ConnectTimeout => (504, "the server behind did not accept in time"),
        UpstreamError::Closed => (502, "the server behind closed before it answered"),
        UpstreamError::Garbage => (502, "the server behind did not answer with valid HTTP"),
        UpstreamError::Timeout => (504, "the server behind did not answer in time"),
        UpstreamError::Truncated => (502, "the server behind closed within its answer"),
    }
}
