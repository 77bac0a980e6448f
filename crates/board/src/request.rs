//! Requests of browsers and of load, and their answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use crate::board::{BODY_MAX, Board, BoardError};
use crate::post::{Span, StoreError};

/// The most bytes of a form \[B\]: each byte of a text may take three.
const FORM_MAX: usize = 4 * BODY_MAX;
/// The time for a form to arrive.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) type Reply = Response<Full<Bytes>>;

/// A request that is not done, with its reason.
struct Refused(StatusCode, String);

fn refused(status: StatusCode, text: impl Into<String>) -> Refused {
    Refused(status, text.into())
}

impl From<BoardError> for Refused {
    fn from(error: BoardError) -> Self {
        let status = match &error {
            BoardError::Missing(_) => StatusCode::NOT_FOUND,
            BoardError::Text(_) => StatusCode::UNPROCESSABLE_ENTITY,
            BoardError::Store(StoreError::Busy(_)) => StatusCode::SERVICE_UNAVAILABLE,
            BoardError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn html(page: String) -> Reply {
    reply(StatusCode::OK, "text/html; charset=utf-8", page)
}

/// To the page that shows what was written.
fn see(place: &str) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::SEE_OTHER;
    let place = HeaderValue::from_str(place).expect("it is made of digits and slashes");
    reply.headers_mut().insert(LOCATION, place);
    reply
}

fn empty() -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

/// The moment \[us since 1970\].
pub(crate) fn clock() -> u64 {
    // Before 1970 every moment is the first; time does not go back all the same.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

fn span(query: Option<&str>) -> Result<Span, Refused> {
    let wrong = |query| {
        let text = format!("`?{query}`: pages are `?after=ID` and `?newest`");
        refused(StatusCode::BAD_REQUEST, text)
    };
    match query.unwrap_or_default() {
        "" => Ok(Span::After(0)),
        "newest" => Ok(Span::Newest),
        query => {
            let after = query.strip_prefix("after=").ok_or_else(|| wrong(query))?;
            let id: u64 = after.parse().map_err(|_| wrong(query))?;
            // What is greater than every id of every store is behind the end as well.
            Ok(Span::After(id.min(i64::MAX as u64)))
        }
    }
}

fn id(text: &str) -> Result<u64, Refused> {
    let id = text.parse().ok().filter(|id| *id <= i64::MAX as u64);
    id.ok_or_else(|| refused(StatusCode::NOT_FOUND, format!("`{text}` is no id of the board")))
}

/// A body; `None` if it is too large. Some of what is too much is read all the same: who is answered while it still
/// sends would see a broken connection instead of the answer.
async fn whole(mut body: Incoming) -> Result<Option<Vec<u8>>, hyper::Error> {
    let (mut bytes, mut read) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(portion) = frame?.into_data() else { continue };
        read += portion.len();
        if read <= FORM_MAX {
            bytes.extend_from_slice(&portion);
        } else if read > 8 * FORM_MAX {
            break;
        }
    }
    Ok((read <= FORM_MAX).then_some(bytes))
}

/// The body of a request, also of one that needs none: a connection on which something is still to come would be
/// closed, perhaps over the client's next request.
async fn received(body: Incoming) -> Result<Vec<u8>, Refused> {
    match tokio::time::timeout(PATIENCE, whole(body)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            let text = format!("the form has more than {FORM_MAX} B; write less");
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Ok(Err(error)) => {
            Err(refused(StatusCode::BAD_REQUEST, format!("the form broke off: {error}")))
        }
        Err(_) => {
            let text = "the form came too slowly; send it again";
            Err(refused(StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}

/// Fields of a form.
struct Form(Vec<(String, String)>);

impl Form {
    fn read(body: Result<Vec<u8>, Refused>) -> Result<Self, Refused> {
        Self::parse(&body?).ok_or_else(|| {
            let text = "the body is no form (application/x-www-form-urlencoded, UTF-8)";
            refused(StatusCode::BAD_REQUEST, text)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let decoded = |text: &str| {
            let spaces = text.replace('+', " ");
            percent_decode_str(&spaces).decode_utf8().ok().map(std::borrow::Cow::into_owned)
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    fn field(&self, name: &str) -> Result<&str, Refused> {
        let found = self.0.iter().find(|(own, _)| own == name);
        let missing = || {
            let text = format!("the form has no field `{name}`");
            refused(StatusCode::UNPROCESSABLE_ENTITY, text)
        };
        found.map(|(_, value)| value.as_str()).ok_or_else(missing)
    }
}

/// A page of somebody else in a browser of this machine must not write here: it sends its own origin.
fn from_here(request: &Request<Incoming>) -> Result<(), Refused> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    match header("origin") {
        Some(origin) if origin.split_once("://").map(|(_, host)| host) != header("host") => {
            let text = format!("pages of `{origin}` may not ask this server");
            Err(refused(StatusCode::FORBIDDEN, text))
        }
        _ => Ok(()),
    }
}

/// Answers a request.
pub(crate) async fn answer(request: Request<Incoming>, board: &Board) -> Reply {
    match routed(request, board).await {
        Ok(reply) => reply,
        Err(Refused(status, text)) => {
            let mut reply = reply(status, "text/plain; charset=utf-8", format!("{text}\n"));
            if status == StatusCode::METHOD_NOT_ALLOWED {
                reply
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("GET, POST, PUT, DELETE"));
            }
            reply
        }
    }
}

async fn routed(request: Request<Incoming>, board: &Board) -> Result<Reply, Refused> {
    let from_here = from_here(&request);
    let (parts, body) = request.into_parts();
    // Before any refusal: a client may still send what it began, and its next request comes after that.
    let body = received(body).await;
    from_here?;
    let path: Vec<&str> = parts.uri.path().split('/').skip(1).collect();
    let query = parts.uri.query();
    match (&parts.method, &path[..]) {
        (&Method::GET, [""]) => Ok(html(board.threads(span(query)?).await?)),
        (&Method::GET, ["threads", thread]) => {
            Ok(html(board.messages(id(thread)?, span(query)?).await?))
        }
        (&Method::GET, ["verify"]) => {
            let found = board.verify().await.map_err(BoardError::from)?;
            let text = serde_json::to_string(&found).expect("keys are texts");
            Ok(reply(StatusCode::OK, "application/json", text + "\n"))
        }
        (&Method::POST, ["threads"]) => {
            let form = Form::read(body)?;
            let made = board.open(clock(), form.field("author")?, form.field("title")?).await?;
            Ok(see(&format!("/threads/{made}")))
        }
        (&Method::POST, ["threads", thread, "messages"]) => {
            let (thread, form) = (id(thread)?, Form::read(body)?);
            let (author, text) = (form.field("author")?, form.field("body")?);
            let made = board.append(clock(), thread, author, text).await?;
            Ok(see(&format!("/threads/{thread}?newest#m{made}")))
        }
        (&Method::PUT, ["threads", thread, "messages", message]) => {
            let (thread, message) = (id(thread)?, id(message)?);
            let form = Form::read(body)?;
            board.edit(clock(), thread, message, form.field("body")?).await?;
            Ok(empty())
        }
        (&Method::DELETE, ["threads", thread, "messages", message]) => {
            board.delete(id(thread)?, id(message)?).await?;
            Ok(empty())
        }
        (_, [""] | ["verify"] | ["threads", ..]) => {
            let text = format!(
                "`{}` is not done with this address; docs/board.md lists what is",
                parts.method
            );
            Err(refused(StatusCode::METHOD_NOT_ALLOWED, text))
        }
        _ => {
            let text = format!("`{}` is no page of the board; begin at /", parts.uri.path());
            Err(refused(StatusCode::NOT_FOUND, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_what_browsers_send() {
        let form = Form::parse(b"author=a+b&body=%3Cb%3E%0D%0A%C3%A4&empty=").expect("a form");
        assert_eq!(form.0[0], ("author".into(), "a b".into()));
        assert_eq!(form.0[1], ("body".into(), "<b>\r\n\u{e4}".into()));
        assert_eq!(form.0[2], ("empty".into(), String::new()));
        for wrong in [&b"author"[..], b"body=%FF", b"\xff=1"] {
            assert!(Form::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
