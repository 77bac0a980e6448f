//! A request as the handlers see it, and the answers that they give: nothing here knows of trees.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::idempotency::Key;
use crate::problem::Problem;
use crate::users::Caller;

/// A body that is there, or one that comes.
pub(crate) enum Content {
    Whole(Option<Bytes>),
    Coming(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Coming(parts) => {
                parts.poll_recv(context).map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Coming(_) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Reply = Response<Content>;

/// A request whose head was taken apart.
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// The path, decoded, between its slashes.
    pub(crate) segments: Vec<String>,
    query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The body of a blob, which is not read before it is stored.
    pub(crate) coming: Option<Incoming>,
    pub(crate) caller: Caller,
    /// The key under which an edit takes effect once.
    pub(crate) key: Option<Key>,
}

fn decoded(text: &str) -> Result<String, Problem> {
    let decoded = percent_decode_str(text).decode_utf8();
    let wrong = |_| Problem::bad_request(format!("`{text}` is no UTF-8 once it is decoded"));
    Ok(decoded.map_err(wrong)?.into_owned())
}

/// True of the address of a blob beside a node.
fn is_blob(segments: &[String]) -> bool {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    matches!(words[..], ["trees", _, "nodes", _, "blobs", _])
}

impl Ask {
    /// Reads a request with a body of at most so many bytes, which must be there in time.
    pub(crate) async fn read(
        request: Request<Incoming>,
        caller: Caller,
        body_max: usize,
        patience: Duration,
    ) -> Result<Self, Problem> {
        let (Parts { method, uri, headers, .. }, body) = request.into_parts();
        let segments = uri.path().split('/').skip(1).map(decoded);
        let mut segments: Vec<String> = segments.collect::<Result<_, _>>()?;
        if segments.last().is_some_and(String::is_empty) {
            segments.pop();
        }
        let mut query = BTreeMap::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(&value.replace('+', " "))?);
            if query.insert(name.clone(), value).is_some() {
                return Err(Problem::bad_request(format!("`?{name}=` stands twice; say it once")));
            }
        }
        if method == Method::PUT && is_blob(&segments) {
            let (body, coming) = (Bytes::new(), Some(body));
            return Ok(Self { method, segments, query, headers, body, coming, caller, key: None });
        }
        let told = headers.get(CONTENT_LENGTH).and_then(|told| told.to_str().ok()?.parse().ok());
        let too_large = || {
            Problem::too_large(format!(
                "the body has more than {body_max} B, which is the limit of this server \
                 (--body-max); send it in parts"
            ))
        };
        if told.is_some_and(|told: u64| told > body_max as u64) {
            return Err(too_large());
        }
        let collected = tokio::time::timeout(patience, Limited::new(body, body_max).collect());
        let body = match collected.await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
            Ok(Err(error)) => {
                return Err(Problem::bad_request(format!("the body broke off: {error}")));
            }
            Err(_) => {
                let late = format!("the body was not there within {patience:?}; send it again");
                return Err(Problem::new(408, "late", "The body came too slowly", late));
            }
        };
        let coming = None;
        Ok(Self { method, segments, query, headers, body, coming, caller, key: None })
    }

    /// A parameter of the query, which is used up.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.query.remove(name)
    }

    /// Tells whether the query has a parameter that was not used up.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.query.contains_key(name)
    }

    /// A number of the query, which is used up.
    pub(crate) fn number<T: std::str::FromStr>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.query.remove(name) else { return Ok(None) };
        let wrong = |_| {
            Problem::bad_request(format!("`?{name}={text}`: a whole number from 0 on is wanted"))
        };
        Ok(Some(text.parse().map_err(wrong)?))
    }

    /// Nothing of the query is left; `known` are the parameters that there are.
    pub(crate) fn nothing_left(&self, known: &[&str]) -> Result<(), Problem> {
        let Some(name) = self.query.keys().next() else { return Ok(()) };
        let known = match known {
            [] => "it takes none".to_owned(),
            known => format!("it takes {}", known.join(", ")),
        };
        Err(Problem::bad_request(format!("`?{name}=` is no parameter of this; {known}")))
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Result<Option<&str>, Problem> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        let text = std::str::from_utf8(value.as_bytes());
        let wrong = |_| Problem::bad_request(format!("the header `{name}` is no UTF-8"));
        Ok(Some(text.map_err(wrong)?))
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }

    /// The same, or the default if there is no body.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// The type of the body, without parameters.
    pub(crate) fn content_type(&self) -> &str {
        let told = self.headers.get(CONTENT_TYPE).and_then(|told| told.to_str().ok());
        told.unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }
}

/// An answer with a body of a type.
pub(crate) fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Content::Whole(Some(body.into())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// An answer as JSON.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    let text = serde_json::to_string(body).expect("keys are texts");
    reply(status, "application/json", text + "\n")
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Content::Whole(None));
    *reply.status_mut() = status;
    reply
}

/// An answer whose body comes in parts.
pub(crate) fn coming(kind: &'static str, parts: mpsc::Receiver<Bytes>) -> Reply {
    let mut reply = Response::new(Content::Coming(parts));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A header of an answer, whose text the server has made.
pub(crate) fn set(reply: &mut Reply, name: &'static str, value: &str) {
    // What is no header, a name of a tree in another script say, stays away.
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

/// The answer of a problem.
pub(crate) fn problem(problem: &Problem) -> Reply {
    let status = StatusCode::from_u16(problem.status).expect("statuses are written by us");
    let mut reply = json(status, problem);
    let kind = HeaderValue::from_static("application/problem+json");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    if let Some(header) = &problem.header {
        set(&mut reply, header.0, &header.1);
    }
    if problem.status == 401 {
        set(&mut reply, "www-authenticate", "Bearer");
    }
    if let Some(seconds) = problem.retry_after_s {
        set(&mut reply, "retry-after", &seconds.to_string());
    }
    reply
}
