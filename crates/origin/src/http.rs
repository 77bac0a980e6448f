//! The little of HTTP that a stand-in needs: request heads in, response heads out. What it does not
//! take (a request body, a version it does not know) it refuses by name instead of guessing.

use std::collections::HashMap;
use std::io::Write;

use crate::document::Document;

/// The longest request head \[byte\].
pub(crate) const HEAD_MAX: usize = 8 * 1024;

/// The most header fields in a request.
const FIELDS_MAX: usize = 64;

/// A status that refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    HeadTooLarge,
    VersionNotSupported,
}

impl Refusal {
    fn status(self) -> &'static str {
        match self {
            Refusal::BadRequest => "400 Bad Request",
            Refusal::NotFound => "404 Not Found",
            Refusal::MethodNotAllowed => "405 Method Not Allowed\r\nAllow: GET, HEAD",
            Refusal::Timeout => "408 Request Timeout",
            Refusal::HeadTooLarge => "431 Request Header Fields Too Large",
            Refusal::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// A request that was understood, whether or not there is something to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The size of what it asks for \[byte\], or why it gets nothing.
    pub(crate) bytes: Result<u64, Refusal>,
    /// The wanted part of it.
    pub(crate) part: Part,
    /// The fate of the connection.
    pub(crate) after: After,
    /// The length of its head \[byte\].
    pub(crate) head: usize,
}

/// The part of a document that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    HeadOnly,
    Whole,
}

/// Fate of the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Close,
    Keep,
}

/// The documents that can be asked for.
#[derive(Debug)]
pub(crate) struct Catalogue {
    documents: HashMap<String, u64>,
    bytes_max: u64,
}

impl Catalogue {
    pub(crate) fn new(documents: &[Document], bytes_max: u64) -> Catalogue {
        let documents = documents.iter().map(|d| (d.name.clone(), d.bytes)).collect();
        Catalogue { documents, bytes_max }
    }

    /// The size of what a request target names \[byte\].
    fn find(&self, target: &str) -> Result<u64, Refusal> {
        let path = match target.strip_prefix("http://") {
            Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => target,
        };
        let path = path.split('?').next().unwrap_or(path);
        let name = path.strip_prefix('/').ok_or(Refusal::BadRequest)?;
        if let Some(&bytes) = self.documents.get(name) {
            return Ok(bytes);
        }
        let digits = name.strip_prefix("size/").ok_or(Refusal::NotFound)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::NotFound);
        }
        match digits.parse() {
            Ok(bytes) if bytes <= self.bytes_max => Ok(bytes),
            _ => Err(Refusal::NotFound),
        }
    }

    /// Reads the request at the start of `bytes`; `None` if its head is not complete.
    ///
    /// # Errors
    /// If it is none that this server takes, so that the connection must be closed: where the next
    /// one would begin is not known.
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Option<Request>, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        let head = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
            Err(httparse::Error::Version) => return Err(Refusal::VersionNotSupported),
            Err(_) => return Err(Refusal::BadRequest),
        };
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Refusal::BadRequest);
        };
        let after = read_fields(parsed.headers, minor)?;
        let (bytes, part) = match method {
            "GET" => (self.find(target), Part::Whole),
            "HEAD" => (self.find(target), Part::HeadOnly),
            _ => (Err(Refusal::MethodNotAllowed), Part::Whole),
        };
        Ok(Some(Request { bytes, part, after, head }))
    }
}

/// The fate of the connection by the header fields; refuses a request with a body, and one of
/// HTTP/1.1 that does not name its host exactly once (RFC 9112, section 3.2).
fn read_fields(fields: &[httparse::Header<'_>], minor: u8) -> Result<After, Refusal> {
    let named = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name))
    };
    let body = named("content-length").any(|field| field.value != b"0")
        || named("transfer-encoding").next().is_some();
    let hosts = named("host").count();
    if body || hosts > 1 || (hosts == 0 && minor > 0) {
        return Err(Refusal::BadRequest);
    }
    let option = |wanted: &[u8]| {
        named("connection")
            .flat_map(|field| field.value.split(|&byte| byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(wanted))
    };
    if option(b"close") || (minor == 0 && !option(b"keep-alive")) {
        return Ok(After::Close);
    }
    Ok(After::Keep)
}

/// Writes the head of a response to `out`.
pub(crate) fn write_head(out: &mut Vec<u8>, outcome: Result<u64, Refusal>, after: After) {
    out.clear();
    let connection = match after {
        After::Close => "close",
        After::Keep => "keep-alive",
    };
    let result = match outcome {
        Ok(bytes) => write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {bytes}\r\nConnection: {connection}\r\n\r\n"
        ),
        Err(refusal) => write!(
            out,
            "HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: {connection}\r\n\r\n",
            refusal.status()
        ),
    };
    result.expect("a vector takes every byte");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::new(&[Document { name: "5k".to_owned(), bytes: 5_000 }], 1_000_000)
    }

    fn read(head: &str) -> Result<Option<Request>, Refusal> {
        catalogue().read(head.as_bytes())
    }

    fn after(head: &str) -> After {
        read(head).unwrap().unwrap().after
    }

    #[test]
    fn targets_are_found_in_every_form() {
        let find = |target: &str| catalogue().find(target);
        assert_eq!(find("/5k"), Ok(5_000));
        assert_eq!(find("/5k?x=1"), Ok(5_000));
        assert_eq!(find("http://localhost:80/5k"), Ok(5_000));
        assert_eq!(find("/size/1000000"), Ok(1_000_000));
        assert_eq!(find("/size/0"), Ok(0));
        for unknown in ["/", "/5K", "/5k/", "/size/1000001", "/size/", "/size/-1", "/size/+1"] {
            assert_eq!(find(unknown), Err(Refusal::NotFound), "{unknown}");
        }
        assert_eq!(find("/size/99999999999999999999"), Err(Refusal::NotFound));
        assert_eq!(find("5k"), Err(Refusal::BadRequest));
        assert_eq!(find("http://localhost"), Err(Refusal::NotFound));
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        assert_eq!(after("GET /5k HTTP/1.1\r\nHost: a\r\n\r\n"), After::Keep);
        assert_eq!(after("GET /5k HTTP/1.0\r\n\r\n"), After::Close);
        let old = "GET /5k HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
        assert_eq!(after(old), After::Keep);
        let both = "GET /5k HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Close\r\n\r\n";
        assert_eq!(after(both), After::Close);
    }

    #[test]
    fn what_is_no_plain_request_is_refused() {
        let refused = |head: &str| read(head).unwrap_err();
        assert_eq!(refused("GET /5k HTTP/1.1\r\n\r\n"), Refusal::BadRequest);
        assert_eq!(refused("GET /5k HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Refusal::BadRequest);
        let body = |field: &str| format!("GET /5k HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        assert_eq!(refused(&body("Content-Length: 3")), Refusal::BadRequest);
        assert_eq!(refused(&body("Transfer-Encoding: chunked")), Refusal::BadRequest);
        assert!(read(&body("Content-Length: 0")).is_ok());
        assert_eq!(refused("GET /5k HTTP/2.0\r\n\r\n"), Refusal::VersionNotSupported);
        assert_eq!(refused("\u{1}\u{2}\r\n\r\n"), Refusal::BadRequest);
        assert_eq!(refused(&body(&"a: b\r\n".repeat(70))), Refusal::HeadTooLarge);
    }

    #[test]
    fn a_head_that_is_not_complete_waits() {
        let whole = "HEAD /5k HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Ok(None), "{end}");
        }
        let request = read(&format!("{whole}GET")).unwrap().unwrap();
        assert_eq!((request.part, request.head), (Part::HeadOnly, whole.len()));
        let other = read("POST /5k HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap();
        assert_eq!(other.bytes, Err(Refusal::MethodNotAllowed));
    }
}
