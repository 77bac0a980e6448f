//! The HTTP interface: connections, and requests with their callers and bodies, which its parts answer. A
//! message is answered 202 when it is durable; without room it is refused with 503 and Retry-After.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use access::ElsewhereError;
use agents::Priority;
use agents_rules::{KeyKind, Message, Rules};
use agents_store::Store;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, EXPECT, HOST, HeaderName, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::answer::RulesAnswer;
use crate::delivery::{Board, ToDeliver};
use crate::figures::{Figures, Open};
use crate::page;
use crate::partition::Handle;
use crate::reload::{Reload, Wish};
use crate::response::{Answer, Refused, object, text};
use crate::routes::{Operation, RouteError, find};
use crate::users::{Caller, Right, Scope, Users};

mod ingress;
mod letters;
mod metrics;
mod notifications;
mod reads;

/// Bytes of a request's body.
pub(crate) const BODY_MAX: usize = 4 << 20;
/// Bytes of a body that a permit stands for.
pub(crate) const PERMIT_BYTES: usize = 1 << 10;
/// Connections at once; further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 1_024;
/// Time for a request's head, for its body, and for the answer of the store; beyond it, what was begun goes on.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const BODY_WITHIN: Duration = Duration::from_secs(30);
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of a body that nobody asked for, and the time for them, so that the connection can go on.
const REST_MAX: usize = 64 * 1024;
const REST_WITHIN: Duration = Duration::from_secs(1);

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
    let name = |at: usize| names[at];
    match route.scope {
        // Those of a list are looked at where it is read.
        Scope::Nothing | Scope::Listed => {}
        Scope::Named => caller.must_reach(name(0))?,
        Scope::Everything => caller.must_reach_all()?,
    }
    let query = query(request)?;
    match route.operation {
        Operation::Health => Ok(text("text/plain", "ok\n".to_owned())),
        Operation::Readiness => gateway.ready(),
        Operation::Page => Ok(text("text/html; charset=utf-8", page::PAGE.clone())),
        Operation::PageState => Ok(text("application/json", gateway.page_state())),
        Operation::Metrics => Ok(text("text/plain; version=0.0.4", gateway.metrics())),
        Operation::Message => gateway.post_to_many(request, name(0), &query, &caller).await,
        Operation::MessageToAgent => gateway.post(request, name(1), &query, Some(name(0))).await,
        Operation::List => gateway.list(&query, &caller.reach()).await,
        Operation::DeclareAll => gateway.declare_all(request, &caller).await,
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
        Operation::Stream => {
            let reach = caller.reach();
            gateway.stream(request, &query, reach, caller.take_permit())
        }
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
}

fn number(query: &BTreeMap<String, String>, key: &str) -> Result<Option<u64>, Refused> {
    let number = query.get(key).map(|text| text.parse());
    number.transpose().map_err(|_| Refused::bad(format!("`{key}` is a whole number")))
}
