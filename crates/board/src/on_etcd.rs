//! The board on etcd, by its gateway of JSON over HTTP: a key for each thread and message, in the order of their ids. A
//! client of its other protocol, gRPC, would bring a stack of its own and a compiler of protocols to every build.

use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::post::{Durability, Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};
use crate::waiting::Room;

const STORE: &str = "etcd";
/// Tries of an edit that others' edits of the same message overtake.
const TRIES: usize = 64;

/// A thread as it is stored; its id is in its key.
#[derive(Serialize, Deserialize)]
struct StoredThread {
    time: u64,
    author: String,
    title: String,
}

/// A message as it is stored; its id is in its key.
#[derive(Serialize, Deserialize)]
struct StoredMessage {
    time: u64,
    author: String,
    body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<u64>,
}

/// A key with its value and the revision that it was written at.
#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default, alias = "modRevision")]
    mod_revision: String,
}

/// Pairs of a range.
#[derive(Default, Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Pair>,
}

/// Outcome of a transaction.
#[derive(Deserialize)]
struct Decided {
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<Response>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default, alias = "responseRange")]
    response_range: Range,
}

/// Keys of a board on a server.
pub(crate) struct OnEtcd {
    address: String,
    /// In front of every key.
    prefix: String,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    room: Room,
}

fn failed(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Failed { store: STORE, cause: cause.to_string() }
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn decoded(text: &str) -> Result<Vec<u8>, StoreError> {
    BASE64_STANDARD.decode(text).map_err(failed)
}

impl Pair {
    /// The id at the end of its key.
    fn id(&self) -> Result<u64, StoreError> {
        let key = decoded(&self.key)?;
        let digits = key.len().checked_sub(16).and_then(|at| std::str::from_utf8(&key[at..]).ok());
        let id = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        id.ok_or_else(|| failed(format!("a key has no id: {}", String::from_utf8_lossy(&key))))
    }

    fn read<T: for<'a> Deserialize<'a>>(&self) -> Result<T, StoreError> {
        serde_json::from_slice(&decoded(&self.value)?).map_err(failed)
    }

    fn thread(&self) -> Result<Thread, StoreError> {
        let StoredThread { time, author, title } = self.read()?;
        Ok(Thread { id: self.id()?, time, author, title })
    }

    fn message(&self) -> Result<Message, StoreError> {
        let StoredMessage { time, author, body, edited } = self.read()?;
        Ok(Message { id: self.id()?, time, author, body, edited })
    }
}

/// The condition that a key is there.
fn is_there(key: &str) -> Value {
    json!({"key": encoded(key), "target": "VERSION", "result": "GREATER", "version": "0"})
}

fn put(key: &str, value: &impl Serialize) -> Value {
    let text = serde_json::to_string(value).expect("it has no maps but those with names");
    json!({"key": encoded(key), "value": encoded(&text)})
}

/// Keys of a span behind `front`, which ends in a slash.
fn range(front: &str, span: Span, limit: usize) -> Value {
    // The slash and the character behind it.
    let end = format!("{}0", &front[..front.len() - 1]);
    let (first, order) = match span {
        Span::After(id) => (format!("{front}{:016x}", id.saturating_add(1)), "ASCEND"),
        Span::Newest => (front.to_owned(), "DESCEND"),
    };
    json!({
        "key": encoded(&first), "range_end": encoded(&end), "limit": limit.to_string(),
        "sort_order": order, "sort_target": "KEY",
    })
}

impl OnEtcd {
    /// Connects to a server, `HOST:PORT/PREFIX`.
    pub(crate) async fn open(place: &str, durability: Durability) -> Result<Self, StoreError> {
        let open = |cause: String| StoreError::Open { store: STORE, cause };
        if durability == Durability::Relaxed {
            return Err(open(
                "it syncs every write before it answers, and has no relaxed class; use the strict one".into(),
            ));
        }
        let (address, prefix) = place.split_once('/').unwrap_or((place, "board"));
        let store = Self {
            address: address.to_owned(),
            prefix: prefix.to_owned(),
            idle: Mutex::default(),
            room: Room::default(),
        };
        store.ask("/v3/kv/range", &json!({"key": encoded("x")})).await.map_err(|error| {
            let StoreError::Failed { cause, .. } = error else { return error };
            open(format!(
                "{address}: {cause}; start an etcd of 3.4 or newer that listens there for clients"
            ))
        })?;
        Ok(store)
    }

    fn thread_key(&self, id: u64) -> String {
        format!("{}/threads/{id:016x}", self.prefix)
    }

    fn message_key(&self, thread: u64, id: u64) -> String {
        format!("{}/messages/{thread:016x}/{id:016x}", self.prefix)
    }

    /// Asks; the answer of an idle connection, or of a new one.
    async fn ask(&self, path: &str, wish: &Value) -> Result<Bytes, StoreError> {
        let _place = self.room.enter()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle.filter(|one| !one.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", &self.address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(wish.to_string())))
            .map_err(failed)?;
        connection.ready().await.map_err(failed)?;
        let answer = connection.send_request(request).await.map_err(failed)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(failed)?.to_bytes();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        if status.is_success() {
            return Ok(body);
        }
        Err(failed(format!("{status}: {}", String::from_utf8_lossy(&body).trim())))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, StoreError> {
        let stream = TcpStream::connect(&self.address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // Its end shows in the answers of the sender.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn transaction(
        &self,
        compare: &[Value],
        success: &[Value],
    ) -> Result<Decided, StoreError> {
        let wish = json!({"compare": compare, "success": success});
        serde_json::from_slice(&self.ask("/v3/kv/txn", &wish).await?).map_err(failed)
    }

    async fn range(&self, wish: &Value) -> Result<Range, StoreError> {
        serde_json::from_slice(&self.ask("/v3/kv/range", wish).await?).map_err(failed)
    }

    /// Done if a key is there, whatever happens meanwhile.
    async fn if_there(&self, key: &str, wish: Value) -> Result<Outcome, StoreError> {
        let decided = self.transaction(&[is_there(key)], &[wish]).await?;
        Ok(if decided.succeeded { Outcome::Done } else { Outcome::Missing })
    }

    async fn edit(&self, key: &str, time: u64, body: &str) -> Result<Outcome, StoreError> {
        for _ in 0..TRIES {
            let read = self.range(&json!({"key": encoded(key)})).await?;
            let Some(pair) = read.kvs.first() else { return Ok(Outcome::Missing) };
            let mut message: StoredMessage = pair.read()?;
            (message.body, message.edited) = (body.to_owned(), Some(time));
            let unchanged = json!({
                "key": encoded(key), "target": "MOD", "result": "EQUAL",
                "mod_revision": pair.mod_revision,
            });
            let write = json!({"request_put": put(key, &message)});
            if self.transaction(&[unchanged], &[write]).await?.succeeded {
                return Ok(Outcome::Done);
            }
        }
        Err(StoreError::Busy(format!("{TRIES} others have edited it meanwhile")))
    }

    async fn decide(&self, write: Write) -> Result<Outcome, StoreError> {
        match write {
            Write::Open(Thread { id, time, author, title }) => {
                let wish = put(&self.thread_key(id), &StoredThread { time, author, title });
                self.ask("/v3/kv/put", &wish).await.map(|_| Outcome::Done)
            }
            Write::Append { thread, message: Message { id, time, author, body, edited } } => {
                let message = StoredMessage { time, author, body, edited };
                let wish = json!({"request_put": put(&self.message_key(thread, id), &message)});
                self.if_there(&self.thread_key(thread), wish).await
            }
            Write::Edit { thread, id, time, body } => {
                self.edit(&self.message_key(thread, id), time, &body).await
            }
            Write::Delete { thread, id } => {
                let key = self.message_key(thread, id);
                let wish = json!({"request_delete_range": {"key": encoded(&key)}});
                self.if_there(&key, wish).await
            }
        }
    }
}

/// Items of a span, in the order of their ids.
fn ordered<T>(
    range: &Range,
    span: Span,
    read: impl Fn(&Pair) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut all = range.kvs.iter().map(read).collect::<Result<Vec<T>, _>>()?;
    if span == Span::Newest {
        all.reverse();
    }
    Ok(all)
}

impl Store for OnEtcd {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        // The order is that of keys, wherever a request overtakes another.
        Box::pin(self.decide(write))
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        Box::pin(async move {
            let wish = range(&format!("{}/threads/", self.prefix), span, limit);
            ordered(&self.range(&wish).await?, span, Pair::thread)
        })
    }

    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>> {
        Box::pin(async move {
            let front = format!("{}/messages/{thread:016x}/", self.prefix);
            // One transaction, so that both are of one moment.
            let wishes = [
                json!({"request_range": {"key": encoded(&self.thread_key(thread))}}),
                json!({"request_range": range(&front, span, limit)}),
            ];
            let read = self.transaction(&[], &wishes).await?.responses;
            let [found, messages] = &read[..] else {
                return Err(failed("it answers one of two questions"));
            };
            let Some(found) = found.response_range.kvs.first() else { return Ok(None) };
            Ok(Some((found.thread()?, ordered(&messages.response_range, span, Pair::message)?)))
        })
    }

    fn stop(&self) -> Result<(), StoreError> {
        // Every answer was safe when it was given, and the connections end with this.
        Ok(())
    }
}
