//! The ingress by HTTP: messages in, states and notifications out. A message is answered 202 when it is
//! durable; without room it is refused with 503 and Retry-After.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use access::ElsewhereError;
use agents::{
    Agent, Audience, Destination, Envelope, Key, LoadWay, MessageId, Priority, Refusal, Seq,
};
use agents_rules::{KeyKind, Message, MessageError, RuleAgent, Rules};
use agents_store::{Store, StoreError};
use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, EXPECT, HOST, HeaderName, ORIGIN, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::answer::{
    AcceptedAnswer, AgentAnswer, AgentsAnswer, LetterView, LettersAnswer, RuleView, RulesAnswer,
    SentAnswer, SilenceView, StateView, UndeliveredAnswer, UndeliveredView,
};
use crate::delivery::{Board, Fired, ToDeliver};
use crate::ids::message_id;
use crate::page;
use crate::partition::{Handle, Reply, Shown, of_key};
use crate::past::{Past, PastError, Trial};
use crate::reload::{Reload, Wish};
use crate::routes::{Operation, RouteError, find};
use crate::server::Named;
use crate::users::{Caller, Right, Users};

/// Bytes of a request's body.
pub(crate) const BODY_MAX: usize = 4 << 20;
/// Bytes of a body that a permit stands for.
pub(crate) const PERMIT_BYTES: usize = 1 << 10;
/// Messages of a batch.
const BATCH_MAX: usize = 10_000;
/// Connections at once; further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 1_024;
/// Time for a request's head, for its body, and for the answer of the store; beyond it, what was begun goes on.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const BODY_WITHIN: Duration = Duration::from_secs(30);
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Time after which it is looked whether the disk is full, while a message waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a body that nobody asked for, and the time for them, so that the connection can go on.
const REST_MAX: usize = 64 * 1024;
const REST_WITHIN: Duration = Duration::from_secs(1);
/// Times that a question is put to the store: it may have two connections that were lost while nobody asked.
const ATTEMPTS: usize = 3;
/// Time that a trial takes at most: a client waits for it.
const TRIAL_MAX: Duration = Duration::from_secs(50);
/// Agents of a page of the list of all.
const LIST: usize = 1_000;
/// Rows of a page of a list.
const PAGE: usize = 100;

/// The parts of the server that requests need.
pub(crate) struct Gateway {
    pub(crate) rules: RwLock<Arc<Rules>>,
    pub(crate) store: Arc<dyn Store<Message>>,
    pub(crate) partitions: Vec<Handle>,
    pub(crate) board: Arc<Board>,
    /// Those who may come; without them everybody on this machine.
    pub(crate) users: Option<Users>,
    /// Room for bodies that are read or not answered yet, in permits.
    pub(crate) bodies: Arc<Semaphore>,
    pub(crate) is_closing: AtomicBool,
    pub(crate) started: Instant,
    /// The bound of memory \[B\].
    pub(crate) memory: u64,
    pub(crate) figures: Figures,
    /// Questions about the past read much: one at a time.
    pub(crate) questions: Semaphore,
    /// The way to the delivery, for other destinations.
    pub(crate) parcels: mpsc::UnboundedSender<ToDeliver>,
    pub(crate) reload: Reload,
    /// The folder of what lies beside the store.
    pub(crate) directory: Option<PathBuf>,
    /// Backups read everything: one at a time.
    pub(crate) backups: Arc<Semaphore>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("rules", &self.rules()).finish_non_exhaustive()
    }
}

/// Numbers of the ingress.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Requests that change something and are not answered.
    pub(crate) open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    lines_refused: AtomicU64,
    /// The last cause of one.
    line_error: Mutex<Option<String>>,
}

impl Figures {
    /// Messages that are durable.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Requests that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A line of a source is no message, or the file cannot be read.
    pub(crate) fn line_refused(&self, told: String) {
        self.lines_refused.fetch_add(1, Ordering::Relaxed);
        *self.line_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    /// Number of such lines, and the cause of the last.
    pub(crate) fn lines_refused(&self) -> (u64, Option<String>) {
        let error = self.line_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.lines_refused.load(Ordering::Relaxed), error)
    }
}

/// A request that is counted as long as it lasts, also if its client leaves.
struct Open<'a>(&'a AtomicU64);

impl Open<'_> {
    fn count(open: &AtomicU64) -> Open<'_> {
        open.fetch_add(1, Ordering::Relaxed);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream, and the place of its user among what may be in flight, as long as somebody reads.
pub(crate) struct Stream {
    channel: Channel<Bytes>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.channel).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.channel.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.channel.size_hint()
    }
}

pub(crate) type Body = Either<Full<Bytes>, Stream>;
pub(crate) type Answer = Response<Body>;

/// The cause why a request is not done: status, cause, and whether it may go right later.
pub(crate) struct Refused {
    status: StatusCode,
    pub(crate) cause: String,
    again: bool,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, cause: impl Into<String>) -> Refused {
        Refused { status, cause: cause.into(), again: false }
    }

    pub(crate) fn bad(cause: impl Into<String>) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, cause)
    }

    pub(crate) fn later(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::SERVICE_UNAVAILABLE, cause: cause.into(), again: true }
    }

    /// Its sender has too much under way.
    pub(crate) fn crowded(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::TOO_MANY_REQUESTS, ..Refused::later(cause) }
    }

    /// The disk is full.
    fn full(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::INSUFFICIENT_STORAGE, ..Refused::later(cause) }
    }

    /// It goes on, and its end is not known yet.
    pub(crate) fn late(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::GATEWAY_TIMEOUT, ..Refused::later(cause) }
    }

    /// It is not right as it is, and would not be later.
    fn is_bad(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    fn answer(self) -> Answer {
        let mut answer = object(self.status, &json!({ "error": self.cause }));
        if self.again {
            answer.headers_mut().insert(RETRY_AFTER, 1.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = hyper::header::HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}

impl From<MessageError> for Refused {
    fn from(error: MessageError) -> Refused {
        Refused::bad(error.to_string())
    }
}

/// Serves connections until the server closes.
pub(crate) async fn serve(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    acceptor: Option<TlsAcceptor>,
    mut closed: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // No descriptor is left: one that closes makes room.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            _ = closed.changed() => return,
        };
        stream.set_nodelay(true).ok();
        let (gateway, acceptor, closed) = (gateway.clone(), acceptor.clone(), closed.clone());
        tokio::spawn(async move {
            match acceptor {
                None => converse(stream, gateway, closed).await,
                // Whoever does not end a handshake in time is let go, as whoever sends no head.
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, acceptor.accept(stream)).await {
                        converse(stream, gateway, closed).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Answers the requests of a connection until it ends.
async fn converse<S>(stream: S, gateway: Arc<Gateway>, mut closed: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| {
        let gateway = gateway.clone();
        async move { Ok::<_, Infallible>(answer(&gateway, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
}

async fn answer(gateway: &Arc<Gateway>, mut request: Request<Incoming>) -> Answer {
    let _open = (request.method() != Method::GET).then(|| Open::count(&gateway.figures.open));
    let answer = route(gateway, &mut request).await.unwrap_or_else(|refused| {
        gateway.figures.refused.fetch_add(1, Ordering::Relaxed);
        refused.answer()
    });
    // A client that asks first whether to send its body gets its answer without.
    if !request.headers().contains_key(EXPECT) {
        timeout(REST_WITHIN, drain(request.body_mut())).await.ok();
    }
    answer
}

/// Drops what is left of a body. A connection on which something is still to come would be closed, perhaps over the
/// client's next request; what is longer is no rest, and closes it.
async fn drain(body: &mut Incoming) {
    let mut left = REST_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let len = frame.data_ref().map_or(0, Bytes::len);
        let Some(less) = left.checked_sub(len) else { return };
        left = less;
    }
}

async fn route(gateway: &Arc<Gateway>, request: &mut Request<Incoming>) -> Result<Answer, Refused> {
    let path = request.uri().path().to_owned();
    let parts: Vec<String> = path.split('/').skip(1).map(plain).collect::<Result<_, _>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let found = find(request.method().as_str(), &parts);
    let mut caller = match &found {
        Ok((route, _)) if route.right == Right::Anybody => Caller::default(),
        // Also where there is nothing: a stranger is not told which places there are.
        _ => gateway.caller(request)?,
    };
    let (route, names) = found.map_err(|error| unrouted(error, request.method(), &path))?;
    caller.must(route.right)?;
    let query = query(request)?;
    let name = |at: usize| names[at];
    match route.operation {
        Operation::Health => Ok(text("text/plain", "ok\n".to_owned())),
        Operation::Readiness => gateway.ready(),
        Operation::Page => Ok(text("text/html; charset=utf-8", page::PAGE.clone())),
        Operation::PageState => Ok(text("application/json", gateway.page_state())),
        Operation::Metrics => Ok(text("text/plain; version=0.0.4", gateway.metrics())),
        Operation::Message => gateway.post(request, name(0), &query, None).await,
        Operation::MessageToAgent => gateway.post(request, name(1), &query, Some(name(0))).await,
        Operation::List => gateway.list(&query).await,
        Operation::DeclareAll => gateway.declare_all(request).await,
        Operation::Declare => gateway.declare(request, name(0)).await,
        Operation::End => {
            let message = gateway.rules().end();
            gateway.one(request, name(0), message, Priority::Normal).await
        }
        Operation::Snooze => {
            let span = query.get("for").and_then(|text| humantime::parse_duration(text).ok());
            let span = span.ok_or_else(|| Refused::bad("say for how long, such as `?for=1h`"))?;
            let message = gateway.rules().snooze(span);
            gateway.one(request, name(0), message, Priority::High).await
        }
        Operation::State => gateway.state(name(0)).await,
        Operation::Why => gateway.why(name(0), &query).await,
        Operation::Rules => Ok(object(StatusCode::OK, &gateway.form())),
        Operation::Reload => {
            let is_dry = query.get("dry_run").is_some_and(|it| it != "false");
            let told = gateway.reload(if is_dry { Wish::DryRun } else { Wish::Now }).await?;
            let is_new = told.is_changed && !is_dry;
            let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
            Ok(object(status, &told))
        }
        Operation::Trial => gateway.attempt(request, &query).await,
        Operation::Stream => gateway.stream(request, &query, caller.take_permit()),
        Operation::Backup => gateway.backup(caller.take_permit()).await,
        Operation::Dead => gateway.dead(&query).await,
        Operation::ResendDead => gateway.resend_dead(&query).await,
        Operation::Undelivered => gateway.undelivered(&query).await,
        Operation::ResendUndelivered => gateway.resend_undelivered(&query).await,
    }
}

fn unrouted(error: RouteError, method: &Method, path: &str) -> Refused {
    match error {
        RouteError::Method => {
            let cause = format!("{method} is not done at {path}");
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, cause)
        }
        RouteError::Path => Refused::new(
            StatusCode::NOT_FOUND,
            "known: /messages/NAME, /agents/NAME, /notifications, /dead, /undelivered, /try, /rules, /backup, \
             /metrics, /, /healthz, /readyz",
        ),
    }
}

/// A part of a path or a query without its escapes.
fn plain(text: &str) -> Result<String, Refused> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let digits = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
            let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
            bytes.push(byte.ok_or_else(|| Refused::bad(format!("`{text}`: two digits follow %")))?);
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).map_err(|_| Refused::bad(format!("`{text}` is no UTF-8")))
}

fn query(request: &Request<Incoming>) -> Result<BTreeMap<String, String>, Refused> {
    let text = request.uri().query().unwrap_or_default();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((plain(key)?, plain(&value.replace('+', " "))?))
        })
        .collect()
}

fn object(status: StatusCode, value: &impl Serialize) -> Answer {
    let value = serde_json::to_string(value).expect("keys are texts");
    let mut answer = text("application/json", value + "\n");
    *answer.status_mut() = status;
    answer
}

/// An answer that goes on.
pub(crate) fn streamed(
    kind: &'static str,
    channel: Channel<Bytes>,
    permit: Option<OwnedSemaphorePermit>,
) -> Answer {
    let mut answer = Response::new(Either::Right(Stream { channel, _permit: permit }));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    answer
}

fn text(kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}

/// A request's content, and the room that it takes as long as it is not answered.
struct Read {
    content: Value,
    _room: OwnedSemaphorePermit,
}

async fn body(room: &Arc<Semaphore>, request: &mut Request<Incoming>) -> Result<Read, Refused> {
    let body = request.body_mut();
    let length = body.size_hint().exact().unwrap_or(BODY_MAX as u64).min(BODY_MAX as u64);
    let permits = length as usize / PERMIT_BYTES + 1;
    let room = room.clone().try_acquire_many_owned(permits as u32);
    let room = room.map_err(|_| Refused::later("there is no room for more messages now"))?;
    let read = timeout(BODY_WITHIN, Limited::new(body, BODY_MAX).collect()).await;
    let late = || Refused::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
    let read = read.map_err(|_| late())?;
    let bytes = read.map_err(|_| {
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 4 MiB: send it in parts")
    })?;
    let bytes = bytes.to_bytes();
    let value = serde_json::from_slice(&bytes);
    let content = value.map_err(|error| Refused::bad(format!("the body is no JSON: {error}")))?;
    Ok(Read { content, _room: room })
}

fn id_of(headers: &hyper::HeaderMap) -> Result<Option<String>, Refused> {
    let Some(id) = headers.get("idempotency-key") else { return Ok(None) };
    let wrong = || Refused::bad("Idempotency-Key is a text of 1 to 200 ASCII characters");
    let id = id.to_str().map_err(|_| wrong())?;
    if id.is_empty() || id.len() > 200 {
        return Err(wrong());
    }
    Ok(Some(id.to_owned()))
}

fn priority(query: &BTreeMap<String, String>) -> Result<Priority, Refused> {
    Ok(match query.get("priority").map(String::as_str) {
        None | Some("normal") => Priority::Normal,
        Some("low") => Priority::Low,
        Some("high") => Priority::High,
        Some("urgent") => Priority::Urgent,
        Some(other) => {
            let cause = format!("unknown priority `{other}`; known: low, normal, high, urgent");
            return Err(Refused::bad(cause));
        }
    })
}

/// A message with its receivers.
struct Send {
    /// Those that its sender names; `None` for those concerned.
    to: Option<(Destination, Audience)>,
    priority: Priority,
    message: Message,
    id: Option<MessageId>,
}

impl Gateway {
    /// The rules of today.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The form of agents today.
    fn form(&self) -> RulesAnswer {
        let rules = self.rules();
        let key = match rules.key_kind() {
            KeyKind::Text => "text",
            KeyKind::Number => "number",
        };
        let state = rules.state().map(|(name, kind)| (name.to_owned(), kind.word().to_owned()));
        RulesAnswer { key: key.to_owned(), state: state.collect() }
    }

    /// Whoever sends a request.
    fn caller(&self, request: &Request<Incoming>) -> Result<Caller, Refused> {
        let said = |name: HeaderName| request.headers().get(name).and_then(|it| it.to_str().ok());
        let Some(users) = &self.users else {
            let is_here = access::from_here(said(HOST).unwrap_or_default(), said(ORIGIN));
            is_here.map_err(|error| {
                let status = match error {
                    ElsewhereError::Host(_) => StatusCode::MISDIRECTED_REQUEST,
                    ElsewhereError::Origin(_) => StatusCode::FORBIDDEN,
                };
                Refused::new(status, error.to_string())
            })?;
            return Ok(Caller::default());
        };
        users.caller(said(AUTHORIZATION))
    }

    fn ready(&self) -> Result<Answer, Refused> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(Refused::later("the server ends"));
        }
        if self.partitions.iter().any(|it| it.shown.stopped.load(Ordering::Relaxed)) {
            return Err(Refused::later("another server has taken the agents over"));
        }
        if let Some(cause) = self.partitions.iter().find_map(|it| it.shown.full()) {
            return Err(Refused::full(cause));
        }
        Ok(text("text/plain", "ready\n".to_owned()))
    }

    /// The numbers of the live page.
    fn page_state(&self) -> String {
        let figures = &self.figures;
        page::state_json(page::Shown {
            partitions: &self.partitions,
            board: &self.board,
            uptime: self.started.elapsed(),
            memory: self.memory,
            is_closing: self.is_closing.load(Ordering::Relaxed),
            requests: [figures.open.load(Ordering::Relaxed), figures.accepted(), figures.refused()],
            lines_refused: figures.lines_refused(),
        })
    }

    /// Offers messages; the positions, when all are durable.
    async fn offer(&self, sends: Vec<Send>) -> Result<Vec<Seq>, Refused> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(Refused::later("the server ends"));
        }
        // Those that wait already ask whether there is room again.
        if let Some(cause) = self.partitions.iter().find_map(|it| it.shown.full()) {
            return Err(Refused::full(cause));
        }
        let answers = self.hand_over(sends)?;
        let mut positions = Vec::new();
        let mut refused = None;
        for (shown, answer) in answers {
            match answered(shown, answer).await {
                Ok(seq) => positions.push(seq),
                Err(cause) => refused = Some(cause),
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None => {
                self.figures.accepted.fetch_add(positions.len() as u64, Ordering::Relaxed);
                Ok(positions)
            }
        }
    }

    /// Gives messages to their partitions. Meanwhile the rules stay: a message is before a change of them, and
    /// read and addressed by those of before, or behind it, and by the others.
    fn hand_over(&self, mut sends: Vec<Send>) -> Result<Vec<Handed<'_>>, Refused> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        for send in &mut sends {
            send.message.by(&rules);
            if let Some(cause) = send.message.unknown() {
                let cause = format!("it is no message by the rules that hold now: {cause}");
                return Err(Refused::bad(cause));
            }
        }
        let count = self.partitions.len() as u32;
        let mut answers = Vec::new();
        for Send { to, priority, message, id } in sends {
            let (to, audience) = to.unwrap_or_else(|| rules.concerned(&message));
            let own = match &to {
                Destination::One(key) => of_key(*key, count)..of_key(*key, count) + 1,
                _ => 0..count,
            };
            for partition in own {
                let (to, message) = (to.clone(), message.clone());
                let envelope = Envelope { id, sender: 0, to, audience, priority, message };
                let partition = &self.partitions[partition as usize];
                answers.push((&*partition.shown, partition.offer(envelope)));
            }
        }
        Ok(answers)
    }

    /// All messages behind this change of the rules are read by them; the answers of the partitions that it is
    /// for.
    pub(crate) fn change(
        &self,
        rules: &Arc<Rules>,
        envelope: &Envelope<Message>,
        of: &[usize],
    ) -> Vec<oneshot::Receiver<Reply>> {
        let mut own = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        *own = rules.clone();
        of.iter().map(|&at| self.partitions[at].offer(envelope.clone())).collect()
    }

    /// Offers messages to those concerned; if not, true if the same may go right later, and the cause.
    pub(crate) async fn take(
        &self,
        messages: Vec<(Message, MessageId)>,
    ) -> Result<(), (bool, String)> {
        let _open = Open::count(&self.figures.open);
        let sends = messages.into_iter().map(|(message, id)| Send {
            to: None,
            priority: Priority::Normal,
            message,
            id: Some(id),
        });
        let offered = self.offer(sends.collect()).await;
        offered.map(|_| ()).map_err(|refused| (refused.again, refused.cause))
    }

    async fn one(
        &self,
        request: &Request<Incoming>,
        agent: &str,
        message: Message,
        priority: Priority,
    ) -> Result<Answer, Refused> {
        let id = id_of(request.headers())?.map(|id| message_id(&["one", agent, &id]));
        let to = one(self.rules().key(agent)?);
        self.accept(vec![Send { to, priority, message, id }]).await
    }

    async fn accept(&self, sends: Vec<Send>) -> Result<Answer, Refused> {
        let count = sends.len();
        let positions = self.offer(sends).await?;
        let position = positions.iter().map(|seq| seq.0).max();
        let told = AcceptedAnswer { accepted: count as u64, position };
        Ok(object(StatusCode::ACCEPTED, &told))
    }

    async fn declare(
        &self,
        request: &mut Request<Incoming>,
        agent: &str,
    ) -> Result<Answer, Refused> {
        let Read { content, _room } = body(&self.bodies, request).await?;
        let message = self.rules().declaration(agent, &content)?;
        let id = id_of(request.headers())?.map(|id| message_id(&["declare", agent, &id]));
        let to = one(self.rules().key(agent)?);
        self.accept(vec![Send { to, priority: Priority::Normal, message, id }]).await
    }

    /// A message of the file, or a list of such.
    async fn post(
        &self,
        request: &mut Request<Incoming>,
        name: &str,
        query: &BTreeMap<String, String>,
        agent: Option<&str>,
    ) -> Result<Answer, Refused> {
        if !self.rules().messages().any(|known| known == name) {
            // Before the body, so that a wrong address is told as such.
            self.rules().event(name, &json!({}))?;
        }
        let priority = priority(query)?;
        let Read { content, _room } = body(&self.bodies, request).await?;
        let id = id_of(request.headers())?;
        let all = match content {
            Value::Array(all) if all.len() > BATCH_MAX => {
                let cause = format!("a batch has at most {BATCH_MAX} messages: send it in parts");
                return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, cause));
            }
            Value::Array(all) => all,
            one => vec![one],
        };
        let rules = self.rules();
        let mut sends = Vec::new();
        for (at, fields) in all.iter().enumerate() {
            let message = rules.event(name, fields).map_err(|error| {
                let place =
                    if all.len() > 1 { format!("message {}: ", at + 1) } else { String::new() };
                Refused::bad(format!("{place}{error}"))
            })?;
            let to = match agent {
                Some(agent) => one(rules.key(agent)?),
                None => receivers(&rules, query)?,
            };
            let id = id.as_ref().map(|id| {
                message_id(&["event", name, agent.unwrap_or_default(), id, &at.to_string()])
            });
            sends.push(Send { to, priority, message, id });
        }
        self.accept(sends).await
    }

    async fn state(&self, agent: &str) -> Result<Answer, Refused> {
        let key = self.rules().key(agent)?;
        let partition = of_key(key, self.partitions.len() as u32);
        let rows = self.blocking(move |store| store.load(partition, &[key], LoadWay::Keys)).await?;
        let row = rows.into_iter().next().map(|(_, row)| row).unwrap_or_default();
        let Some(state) = row.state else {
            let cause = format!("there is no agent `{agent}`");
            return Err(Refused::new(StatusCode::NOT_FOUND, cause));
        };
        let read = RuleAgent::decode(row.header.version, &state.cold, &state.hot);
        let read =
            read.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.0))?;
        if read.name() != agent {
            let cause = format!("there is no agent `{agent}`");
            return Err(Refused::new(StatusCode::NOT_FOUND, cause));
        }
        let today = self.rules();
        let rules = read.alerts().map(|(id, alert)| {
            let name = today.rule(id).unwrap_or("(not in the file)");
            let last_silence = alert
                .last_silence()
                .map(|(at, cause)| SilenceView { at_ns: at.as_nanos(), cause: cause.to_string() });
            let (is_armed, silences) = (alert.is_ready(), alert.silences());
            (name.to_owned(), RuleView { is_armed, silences, last_silence })
        });
        let rules = rules.collect();
        let (agent, state) = (agent.to_owned(), read.fields());
        let told = AgentAnswer { agent, state, fired: row.header.fired, rules };
        Ok(object(StatusCode::OK, &told))
    }

    /// Agents of a partition with their states, in the order of their keys.
    async fn list(&self, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let partitions = self.partitions.len() as u64;
        let partition = number(query, "partition")?.unwrap_or(0);
        if partition >= partitions {
            return Err(Refused::bad(format!("there are {partitions} partitions, from 0 on")));
        }
        let from = Key(number(query, "from")?.unwrap_or(0));
        let rows = self.blocking(move |store| store.scan(partition as u32, from, LIST)).await?;
        let next = (rows.len() == LIST).then(|| rows.last().map(|(key, _)| key.0)).flatten();
        // As a text: programs that read JSON may have no whole numbers of 64 bits.
        let next = next.and_then(|key| key.checked_add(1)).map(|key| key.to_string());
        let mut agents = Vec::new();
        for (_, row) in rows {
            let Some(state) = row.state else { continue };
            let read = RuleAgent::decode(row.header.version, &state.cold, &state.hot);
            let wrong = |cause: String| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, cause);
            let read = read.map_err(|error| wrong(error.0))?;
            agents.push(StateView { agent: read.name().to_owned(), state: read.fields() });
        }
        let told = AgentsAnswer { agents, next, partitions };
        Ok(object(StatusCode::OK, &told))
    }

    /// Declares agents of a list.
    async fn declare_all(&self, request: &mut Request<Incoming>) -> Result<Answer, Refused> {
        let Read { content, _room } = body(&self.bodies, request).await?;
        let shape = || Refused::bad("a list of agents is `[{\"agent\": NAME, \"state\": {...}}]`");
        let all = content.as_array().ok_or_else(shape)?;
        if all.len() > BATCH_MAX {
            let cause = format!("a batch has at most {BATCH_MAX} agents: send it in parts");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, cause));
        }
        let id = id_of(request.headers())?;
        let rules = self.rules();
        let mut sends = Vec::new();
        for (at, given) in all.iter().enumerate() {
            let name = given["agent"].as_str().ok_or_else(shape)?;
            let placed = |error: MessageError| Refused::bad(format!("agent {}: {error}", at + 1));
            let message = rules.declaration(name, &given["state"]).map_err(placed)?;
            let to = one(rules.key(name).map_err(placed)?);
            let id = id.as_ref().map(|id| message_id(&["declare", name, id]));
            let priority = Priority::Normal;
            sends.push(Send { to, priority, message, id });
        }
        self.accept(sends).await
    }

    /// The past of an agent.
    async fn why(&self, agent: &str, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let key = self.rules().key(agent)?;
        let upto = number(query, "at_ns")?.unwrap_or(u64::MAX);
        let most = number(query, "limit")?.unwrap_or(20).clamp(1, 1_000) as usize;
        let partition = of_key(key, self.partitions.len() as u32);
        let past = Past {
            changes: self.partitions[partition as usize].shown.changes(),
            store: self.store.clone(),
            partition,
            key,
        };
        let (name, board) = (agent.to_owned(), self.board.clone());
        self.asked(move || past.why(&name, upto, most, |id| board.told(id)), agent).await
    }

    /// Rules that are tried on kept messages.
    async fn attempt(
        &self,
        request: &mut Request<Incoming>,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let since_ns = number(query, "since_ns")?.unwrap_or(0);
        let within = Duration::from_millis(number(query, "within_ms")?.unwrap_or(30_000));
        if within > TRIAL_MAX {
            return Err(Refused::bad("a trial takes at most 50 s"));
        }
        let Read { content, _room } = body(&self.bodies, request).await?;
        let text = content.as_str().ok_or_else(|| Refused::bad("the body is a text of rules"))?;
        let rules = Rules::read("rules", text).map_err(|error| Refused::bad(error.to_string()))?;
        let (store, partitions) = (self.store.clone(), self.partitions.len() as u32);
        let trial = Trial { rules, store, partitions, since_ns, within };
        self.asked(move || trial.run(), "").await
    }

    /// Answers a question about the past, after those before it.
    async fn asked<T: Serialize + std::marker::Send + 'static>(
        &self,
        answer: impl Fn() -> Result<T, PastError> + std::marker::Send + 'static,
        agent: &str,
    ) -> Result<Answer, Refused> {
        self.known(answer, agent).await.map(|told| object(StatusCode::OK, &told))
    }

    /// The same as it is.
    pub(crate) async fn known<T: std::marker::Send + 'static>(
        &self,
        answer: impl Fn() -> Result<T, PastError> + std::marker::Send + 'static,
        agent: &str,
    ) -> Result<T, Refused> {
        let _turn = timeout(ANSWER_WITHIN, self.questions.acquire()).await;
        let _turn = _turn.map_err(|_| Refused::later("another question takes long"))?;
        let again = move || {
            let is_lost = |end: &Result<T, PastError>| {
                matches!(end, Err(PastError::Store(StoreError::Unavailable { .. })))
            };
            (1..ATTEMPTS).map(|_| answer()).find(|end| !is_lost(end)).unwrap_or_else(&answer)
        };
        let told = tokio::task::spawn_blocking(again).await;
        let told = told
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        told.map_err(|error| match error {
            PastError::Store(error) => Refused::later(error.to_string()),
            PastError::State(cause) => Refused::new(StatusCode::INTERNAL_SERVER_ERROR, cause),
            PastError::Absent => {
                Refused::new(StatusCode::NOT_FOUND, format!("there is no agent `{agent}`"))
            }
        })
    }

    /// A call of the store on a thread that may block. A connection that was lost while nobody asked is
    /// noticed by the call: it is made again.
    async fn blocking<T: std::marker::Send + 'static>(
        &self,
        call: impl Fn(&dyn Store<Message>) -> Result<T, StoreError> + std::marker::Send + 'static,
    ) -> Result<T, Refused> {
        let store = self.store.clone();
        let again = move || {
            let is_lost =
                |end: &Result<T, StoreError>| matches!(end, Err(StoreError::Unavailable { .. }));
            (1..ATTEMPTS)
                .map(|_| call(&*store))
                .find(|end| !is_lost(end))
                .unwrap_or_else(|| call(&*store))
        };
        let done = tokio::task::spawn_blocking(again).await;
        match done {
            Ok(result) => result.map_err(|error| Refused::later(error.to_string())),
            Err(error) => Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }

    /// Notifications as server-sent events, from a cursor on.
    fn stream(
        self: &Arc<Gateway>,
        request: &Request<Incoming>,
        query: &BTreeMap<String, String>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Refused> {
        let last = request.headers().get("last-event-id").and_then(|it| it.to_str().ok());
        let cursor = last.or(query.get("after").map(String::as_str));
        let cursor = cursor.map(|text| text.parse::<u64>());
        let cursor = cursor
            .transpose()
            .map_err(|_| Refused::bad("a cursor is a whole number: the id of the last event"))?;
        let mut live = self.board.live.subscribe();
        let (mut sender, channel) = Channel::<Bytes>::new(64);
        let board = self.board.clone();
        tokio::spawn(async move {
            let mut after = cursor;
            if let Some(cursor) = after {
                let (part, is_whole) = board.recent(cursor);
                if !is_whole && sender.send_data("event: gap\ndata: {}\n\n".into()).await.is_err() {
                    return;
                }
                for fired in part {
                    after = Some(fired.n);
                    if sender.send_data(event(&fired)).await.is_err() {
                        return;
                    }
                }
            }
            loop {
                let next = timeout(Duration::from_secs(15), live.recv()).await;
                let part = match next {
                    // A comment tells the other side that the stream lives.
                    Err(_) => Bytes::from_static(b": \n\n"),
                    Ok(Ok(fired)) if after.is_some_and(|after| fired.n <= after) => continue,
                    Ok(Ok(fired)) => event(&fired),
                    Ok(Err(RecvError::Lagged(_))) => {
                        Bytes::from_static(b"event: gap\ndata: {}\n\n")
                    }
                    Ok(Err(RecvError::Closed)) => return,
                };
                if sender.send_data(part).await.is_err() {
                    return;
                }
            }
        });
        Ok(streamed("text/event-stream", channel, permit))
    }

    async fn dead(&self, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let partition = number(query, "partition")?.unwrap_or(0) as u32;
        let after = number(query, "after")?.unwrap_or(0);
        let rows = self.blocking(move |store| store.dead(partition, after, PAGE)).await?;
        let next = (rows.len() == PAGE).then(|| rows.last().map(|row| row.n)).flatten();
        let letters = rows.iter().map(|row| LetterView {
            n: row.n,
            partition: u64::from(partition),
            key: row.letter.key.0.to_string(),
            cause: row.letter.reason.clone(),
            message: row.letter.message.as_ref().map(|message| message.told(500)),
        });
        let (letters, partitions) = (letters.collect(), self.partitions.len() as u64);
        Ok(object(StatusCode::OK, &LettersAnswer { letters, next, partitions }))
    }

    /// Dead letters take effect once, however often this is asked: their number is their message's id. Those that
    /// are no messages of today's rules stay, and those that come meanwhile: one that is sent again may die again.
    async fn resend_dead(&self, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let only = number(query, "n")?;
        let partition = number(query, "partition")?;
        if only.is_some() && partition.is_none() && self.partitions.len() > 1 {
            return Err(Refused::bad("a number is one of a partition: say `partition` too"));
        }
        let (mut sent, mut left) = (0, 0);
        let all = 0..self.partitions.len() as u32;
        for partition in all.filter(|it| partition.is_none_or(|wanted| wanted == u64::from(*it))) {
            let mut after = only.map_or(0, |n| n.saturating_sub(1));
            let end = match only {
                Some(n) => n,
                None => self.last_dead(partition).await?,
            };
            while after < end {
                let rows = self.blocking(move |store| store.dead(partition, after, PAGE)).await?;
                let Some(last) = rows.last().map(|row| row.n) else { break };
                after = last;
                let wanted = |n: u64| n <= end && only.is_none_or(|only| n == only);
                for row in rows.into_iter().filter(|row| wanted(row.n)) {
                    let Some(mut message) = row.letter.message else {
                        left += 1;
                        continue;
                    };
                    if message.is_kept_change() {
                        // As it is, it would let the rules of its day hold again.
                        message = self.rules().reminder();
                    }
                    let id = [&*partition.to_string(), &*row.n.to_string()];
                    let send = Send {
                        to: one(row.letter.key),
                        priority: Priority::Normal,
                        message,
                        id: Some(message_id(&["dead", id[0], id[1]])),
                    };
                    match self.offer(vec![send]).await {
                        Err(refused) if refused.is_bad() && only.is_none() => {
                            left += 1;
                            continue;
                        }
                        offered => offered?,
                    };
                    let n = row.n;
                    self.blocking(move |store| store.remove_dead(partition, &[n])).await?;
                    sent += 1;
                }
            }
        }
        Ok(object(StatusCode::OK, &SentAnswer { sent, left }))
    }

    /// The number of the last dead letter of a partition; 0 if there is none.
    async fn last_dead(&self, partition: u32) -> Result<u64, Refused> {
        let mut last = 0;
        loop {
            let rows = self.blocking(move |store| store.dead(partition, last, PAGE)).await?;
            last = rows.last().map_or(last, |row| row.n);
            if rows.len() < PAGE {
                return Ok(last);
            }
        }
    }

    async fn undelivered(&self, query: &BTreeMap<String, String>) -> Result<Answer, Refused> {
        let after = number(query, "after")?.unwrap_or(0);
        let rows = self.board.shelf().part(after, PAGE);
        let next = (rows.len() == PAGE).then(|| rows.last().map(|(n, _)| *n)).flatten();
        let notifications = rows.into_iter().map(|(n, kept)| UndeliveredView {
            n,
            destination: kept.destination,
            id: kept.key,
            members: kept.members,
            attempts: kept.attempts,
            is_dead: kept.is_dead,
            cause: kept.cause,
            since_ns: kept.since_ns,
        });
        let notifications = notifications.collect();
        Ok(object(StatusCode::OK, &UndeliveredAnswer { notifications, next }))
    }

    async fn resend_undelivered(
        &self,
        query: &BTreeMap<String, String>,
    ) -> Result<Answer, Refused> {
        let only = number(query, "n")?;
        let board = self.board.clone();
        let now = crate::clock::now().as_nanos();
        let sent = tokio::task::spawn_blocking(move || {
            let only = only.map(|n| [n]);
            board.shelf().revive(only.as_ref().map(|it| &it[..]), now)
        });
        let sent = sent
            .await
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let sent = sent.map_err(|error| Refused::later(format!("cannot be kept: {error}")))?;
        Ok(object(StatusCode::OK, &SentAnswer { sent: sent as u64, left: 0 }))
    }

    fn metrics(&self) -> String {
        let mut all = Named::new();
        let mut add = |name: &'static str, value: u64| *all.entry(name).or_insert(0) += value;
        for partition in &self.partitions {
            let figures = partition.shown.figures();
            let counts = figures.counts;
            add("handled_total", counts.handled);
            add("cache_hits_total", counts.hits);
            add("loads_total", counts.loads);
            add("passes_total", counts.passes);
            add("commits_total", counts.commits);
            add("taken_back_total", counts.taken_back);
            add("agents", figures.agents);
            add("agents_cached", figures.cached.into());
            add("state_bytes", figures.state_bytes);
            add("message_bytes", figures.message_bytes);
            add("store_errors_total", partition.shown.store_errors.load(Ordering::Relaxed));
        }
        let full = self.partitions.iter().filter(|it| it.shown.full().is_some()).count();
        add("store_full", full as u64);
        let kept = self.board.shelf().counts();
        add("messages_accepted_total", self.figures.accepted());
        add("requests_refused_total", self.figures.refused());
        let (lines, line_error) = self.figures.lines_refused();
        add("source_lines_refused_total", lines);
        add("notifications_delivered_total", self.board.delivered.load(Ordering::Relaxed));
        add("notification_failures_total", self.board.failed.load(Ordering::Relaxed));
        add("notifications_in_flight", self.board.in_flight.load(Ordering::Relaxed));
        add("notifications_kept", kept.waiting as u64);
        add("notifications_dead", kept.dead as u64);
        add("notifications_gathered", kept.gathered as u64);
        add("rules_changes_total", self.reload.changes.load(Ordering::Relaxed));
        add("uptime_seconds", self.started.elapsed().as_secs());
        let mut text = String::new();
        for (name, value) in all {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            // Writing to a string does not fail.
            writeln!(text, "# TYPE sekisho_agents_{name} {kind}\nsekisho_agents_{name} {value}")
                .ok();
        }
        for error in self.partitions.iter().filter_map(|it| it.shown.last_error()) {
            writeln!(text, "# last error of the store: {}", error.replace('\n', " ")).ok();
        }
        if let Some(error) = line_error {
            writeln!(text, "# last error of a source: {}", error.replace('\n', " ")).ok();
        }
        if let Some(error) = self.board.last_error() {
            writeln!(text, "# last error of the delivery: {}", error.replace('\n', " ")).ok();
        }
        text
    }
}

/// The face of a partition that was given a message, and where its answer comes.
type Handed<'a> = (&'a Shown, oneshot::Receiver<Reply>);

/// The answer of a partition. Nobody waits for a disk without room.
async fn answered(shown: &Shown, mut answer: oneshot::Receiver<Reply>) -> Result<Seq, Refused> {
    const AGAIN: &str = "the message may be kept: send it again with the same Idempotency-Key";
    let until = Instant::now() + ANSWER_WITHIN;
    while Instant::now() < until {
        match timeout(LOOK_EVERY, &mut answer).await {
            Ok(Ok(reply)) => return told(reply),
            // The thread has ended, or the store does not answer.
            Ok(Err(_)) => return Err(Refused::later("the partition has ended")),
            Err(_) => {
                if let Some(cause) = shown.full() {
                    return Err(Refused::full(format!("{cause}; {AGAIN}")));
                }
            }
        }
    }
    Err(Refused::late(format!("the store did not answer in time; {AGAIN}")))
}

/// The receivers that a query names; `None` for those concerned.
fn receivers(
    rules: &Rules,
    query: &BTreeMap<String, String>,
) -> Result<Option<(Destination, Audience)>, Refused> {
    let everyone = Audience::Everyone;
    if let Some(keys) = query.get("agents") {
        let keys: Result<Vec<Key>, MessageError> =
            keys.split(',').map(|name| rules.key(name)).collect();
        return Ok(Some((Destination::Keys(keys?.into()), everyone)));
    }
    if let (Some(from), Some(to)) = (query.get("from"), query.get("upto")) {
        if rules.key_kind() != KeyKind::Number {
            let cause = "a range needs keys with an order: `key = \"number\"` in the file";
            return Err(Refused::bad(cause));
        }
        let (from, to) = (rules.key(from)?, rules.key(to)?);
        return Ok(Some((Destination::Range(from, to), everyone)));
    }
    match query.get("to").map(String::as_str) {
        None | Some("concerned") => Ok(None),
        Some("all") => Ok(Some((Destination::All, everyone))),
        Some("armed") => Ok(Some((Destination::All, Audience::Armed))),
        Some(other) => {
            Err(Refused::bad(format!("unknown receivers `{other}`; known: concerned, all, armed")))
        }
    }
}

/// One agent as the receiver.
fn one(key: Key) -> Option<(Destination, Audience)> {
    Some((Destination::One(key), Audience::Everyone))
}

fn number(query: &BTreeMap<String, String>, key: &str) -> Result<Option<u64>, Refused> {
    let number = query.get(key).map(|text| text.parse());
    number.transpose().map_err(|_| Refused::bad(format!("`{key}` is a whole number")))
}

fn told(reply: Reply) -> Result<Seq, Refused> {
    reply.map_err(|refusal| match refusal {
        Refusal::Full => Refused::later("there is no room for more messages now"),
        Refusal::UrgentMulticast => Refused::bad("only a message to one agent can be urgent"),
        Refusal::Store(cause) => Refused::bad(format!("the store refuses it: {cause}")),
        Refusal::Stopped => Refused::later("another server has taken the agents over"),
    })
}

fn event(fired: &Fired) -> Bytes {
    let content = String::from_utf8_lossy(&fired.payload);
    let rest = content.strip_prefix('{').unwrap_or(&content);
    format!("id: {}\ndata: {{\"id\":\"{}\",{rest}\n\n", fired.n, fired.key).into()
}
