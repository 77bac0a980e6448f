//! Responses of the server: whole ones, streams, and refusals with their cause.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use agents_rules::MessageError;
use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::{Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

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
    pub(crate) again: bool,
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
    pub(crate) fn full(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::INSUFFICIENT_STORAGE, ..Refused::later(cause) }
    }

    /// It goes on, and its end is not known yet.
    pub(crate) fn late(cause: impl Into<String>) -> Refused {
        Refused { status: StatusCode::GATEWAY_TIMEOUT, ..Refused::later(cause) }
    }

    /// It is not right as it is, and would not be later.
    pub(crate) fn is_bad(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    pub(crate) fn answer(self) -> Answer {
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

pub(crate) fn object(status: StatusCode, value: &impl Serialize) -> Answer {
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

pub(crate) fn text(kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}
