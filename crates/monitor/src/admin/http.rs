//! Metrics, the state and the live page over HTTP: one request a connection.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | the live page |
//! | `GET /state.json` | what it shows |
//! | `GET /metrics` | what is counted, as Prometheus reads it |
//! | `GET /healthz` | 200 if the loop goes round within 5 s, else 503 |
//! | `GET /readyz` | 200 if it also lets clients in and a server is there for them, else 503 |
//!
//! Nothing can be changed here. On a loopback address, requests for other names than addresses and
//! `localhost` are refused: a page from elsewhere could have its own name lead here, and read.

use std::net::IpAddr;

use super::connection::{AdminConnection, Reader};
use super::server::AdminThread;
use super::{Answer, Ready};
use crate::admin::Ask;
use crate::connection::Filled;
use crate::slab::Key;
use pgconsole::{PAGE, Snapshot, prometheus, state_json};

/// The longest head \[byte\], and the most fields in it.
const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;

const TEXT: &str = "text/plain; charset=utf-8";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// State of somebody who asks over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It says what it wants.
    Asks,
    /// It waits for the loop.
    Waits(Wanted, Body),
    /// It goes when it has what was written.
    Effects,
}

/// The answer of the loop that must come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Metrics,
    State,
    Health,
    Ready,
}

/// The demand for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Sent,
    Kept,
}

/// The meaning of a head.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    /// More of it must be read.
    Begun,
    Page(Body),
    Wants(Wanted, Body),
    Refused(&'static str, &'static str),
}

/// Reads a head.
fn read(head: &[u8], own: Option<IpAddr>) -> Request {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_MAX => return Request::Begun,
        Ok(_) => {
            return Request::Refused("431 Request Header Fields Too Large", "the head is too long");
        }
        Err(_) => return Request::Refused("400 Bad Request", "this is no request"),
    }
    let mut hosts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map(|one| one.value);
    if own.is_some_and(|own| own.is_loopback()) && host.is_some_and(|host| !is_own(host)) {
        let why = "ask by an address or as localhost: other names do not lead here";
        return Request::Refused("421 Misdirected Request", why);
    }
    let body = match request.method {
        Some("GET") => Body::Sent,
        Some("HEAD") => Body::Kept,
        _ => return Request::Refused("405 Method Not Allowed", "nothing can be changed here"),
    };
    let path = request.path.unwrap_or_default();
    match path.split_once('?').map_or(path, |(path, _)| path) {
        "/" => Request::Page(body),
        "/metrics" => Request::Wants(Wanted::Metrics, body),
        "/state.json" => Request::Wants(Wanted::State, body),
        "/healthz" => Request::Wants(Wanted::Health, body),
        "/readyz" => Request::Wants(Wanted::Ready, body),
        _ => {
            let there = "there are /, /state.json, /metrics, /healthz and /readyz";
            Request::Refused("404 Not Found", there)
        }
    }
}

/// True if a host is an address or this machine.
fn is_own(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn respond(status: &str, kind: &str, text: &str, body: Body) -> Vec<u8> {
    let length = text.len();
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
    );
    if status.starts_with("405") {
        out.push_str("Allow: GET, HEAD\r\n");
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    if body == Body::Sent {
        out.extend_from_slice(text.as_bytes());
    }
    out
}

impl AdminThread {
    fn reader(&mut self, key: Key) -> Option<&mut Reader> {
        match self.admin_connections.get_mut(key) {
            Some(AdminConnection::Reader(reader)) => Some(reader),
            _ => None,
        }
    }

    /// Something happened to a connection over HTTP.
    pub(super) fn hear_reader(&mut self, key: Key) {
        let own = self.address.map(|address| address.ip());
        let Some(AdminConnection::Reader(reader)) = self.admin_connections.get_mut(key) else {
            return;
        };
        if reader.connection.flush(&mut self.buffers).is_err() {
            return self.part(key);
        }
        if reader.state == State::Effects {
            if !reader.connection.is_blocked() || reader.connection.has_hung_up() {
                self.part(key);
            }
            return;
        }
        while reader.state == State::Asks {
            match reader.connection.fill(&mut self.buffers) {
                Filled::Bytes(_) => {}
                Filled::Nothing => return,
                Filled::Ended(_) | Filled::NoRoom => return self.part(key),
            }
            let request = read(reader.connection.read(), own);
            if request == Request::Begun {
                continue;
            }
            let bytes = reader.connection.read().len();
            reader.connection.take(bytes, &mut self.buffers);
            return self.serve(key, &request);
        }
        // It waits. One that only sends no more still reads; one that is gone is found by writing.
    }

    fn serve(&mut self, key: Key, request: &Request) {
        match *request {
            Request::Begun => {}
            Request::Page(body) => {
                self.finish(key, "200 OK", "text/html; charset=utf-8", &PAGE, body);
            }
            Request::Refused(status, why) => {
                self.finish(key, status, TEXT, &format!("{why}\n"), Body::Sent);
            }
            Request::Wants(wanted, body) => {
                if let Some(reader) = self.reader(key) {
                    reader.state = State::Waits(wanted, body);
                }
                match wanted {
                    Wanted::Metrics | Wanted::State => self.look(key),
                    Wanted::Health | Wanted::Ready => self.ask(key, Ask::Pulse),
                }
            }
        }
    }

    /// Says all there is to say, and closes when it is written.
    fn finish(&mut self, key: Key, status: &str, kind: &str, text: &str, body: Body) {
        if let Some(reader) = self.reader(key) {
            reader.state = State::Effects;
        }
        self.say(key, &respond(status, kind, text, body));
        self.again.push(key);
    }

    pub(super) fn show_reader(&mut self, key: Key, snapshot: &Snapshot) {
        let Some(State::Waits(wanted, body)) = self.reader(key).map(|reader| reader.state) else {
            return;
        };
        let (kind, text) = match wanted {
            Wanted::Metrics => ("text/plain; version=0.0.4; charset=utf-8", prometheus(snapshot)),
            _ => ("application/json", state_json(snapshot)),
        };
        self.finish(key, "200 OK", kind, &text, body);
    }

    pub(super) fn reply_reader(&mut self, key: Key, answer: &Answer) {
        let Some(State::Waits(wanted, body)) = self.reader(key).map(|reader| reader.state) else {
            return;
        };
        let Answer::Pulse(ready) = answer else { return };
        let (status, text) = match ready {
            Ready::Draining if wanted == Wanted::Ready => (UNAVAILABLE, "draining\n"),
            Ready::NoServer if wanted == Wanted::Ready => (UNAVAILABLE, "no server is up\n"),
            _ => ("200 OK", "ok\n"),
        };
        self.finish(key, status, TEXT, text, body);
    }

    /// An admin connection has taken too long.
    pub(super) fn late(&mut self, key: Key) {
        if let Some(State::Waits(_, body)) = self.reader(key).map(|reader| reader.state) {
            let text = "the gate does not answer\n";
            let response = respond(UNAVAILABLE, TEXT, text, body);
            self.say(key, &response);
        }
        self.part(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(head: &str) -> Request {
        read(head.as_bytes(), Some([127, 0, 0, 1].into()))
    }

    #[test]
    fn only_what_is_there_can_be_asked_for() {
        let get = |path: &str| ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:9\r\n\r\n"));
        assert_eq!(get("/"), Request::Page(Body::Sent));
        assert_eq!(get("/metrics?x=1"), Request::Wants(Wanted::Metrics, Body::Sent));
        assert!(matches!(get("/etc"), Request::Refused("404 Not Found", _)));
        let head = ask("HEAD /readyz HTTP/1.0\r\n\r\n");
        assert_eq!(head, Request::Wants(Wanted::Ready, Body::Kept));
        assert!(
            matches!(ask("POST / HTTP/1.1\r\n\r\n"), Request::Refused(status, _) if status.starts_with("405"))
        );
        assert!(matches!(ask("\0\r\n"), Request::Refused("400 Bad Request", _)));
        assert_eq!(ask("GET / HT"), Request::Begun);
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(HEAD_MAX));
        assert!(matches!(ask(&long), Request::Refused(status, _) if status.starts_with("431")));
    }

    #[test]
    fn a_page_from_elsewhere_cannot_read_what_is_on_this_machine() {
        for own in ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:80", "[::1]", "10.0.0.7"] {
            assert!(is_own(own.as_bytes()), "{own}");
        }
        let elsewhere = "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
        let refused = ask(elsewhere);
        assert!(matches!(refused, Request::Refused("421 Misdirected Request", _)), "{refused:?}");
        let open = read(elsewhere.as_bytes(), Some([10, 0, 0, 7].into()));
        assert_eq!(open, Request::Wants(Wanted::Metrics, Body::Sent));
    }
}
