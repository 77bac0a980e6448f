//! One request of each class before any load: a server that is not there, speaks something else or answers
//! with an error is found out at once, with its cause, and not by a record full of failures.
//!
//! Nothing here is measured, so connections block, each up to a limit.

use std::fmt;
use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gate::Time;
use measure::ErrorKind;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConnection, Error as Rustls, StreamOwned};
use thiserror::Error;

use super::conn::{Request, Retry};
use super::http2::Frame;
use super::http2::ended::Ended;
use super::http2::link::{Answered, Keep, Link, News, StreamBounds, Turned};
use super::plan::{Plan, Protocol, Resumption, Trust};
use super::request::Method;
use super::response::{Progress, Response};
use super::run::reachable;
use super::stream::Stream;
use super::target::Scheme;
use super::tls::{HTTP1, Tls, TlsError};
use crate::sys::{self, Epoll, Socket};

/// The limits of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Time in which each request must be answered in full, connection included.
    pub within: Duration,
}

/// An answer to a request that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The class of the request.
    pub class: usize,
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// Status of the answer.
    pub status: u16,
    /// The size of its body \[bytes\], where its head announces it.
    pub bytes: Option<u64>,
    /// The size that the plan says \[bytes\].
    pub planned: Option<u64>,
    /// False if the server closes the connection after it.
    pub keeps_open: bool,
    /// The place that a redirection names, the way of authentication that is asked for, or the first words
    /// of an error's body.
    pub detail: Option<String>,
}

/// Why there was no answer.
#[derive(Debug, Error)]
#[error("{method} {path} at {address}: {fault}")]
pub struct TrialError {
    /// Method of the request that was tried.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// The address.
    pub address: SocketAddr,
    /// Cause.
    pub fault: Fault,
}

/// Cause of a request without an answer.
#[derive(Debug)]
pub enum Fault {
    /// Nobody listens.
    Refused,
    /// No connection was open in time.
    NoConnection(Duration),
    /// There is no way to the address, or the system allows no connection.
    Unreachable(io::Error),
    /// TLS cannot be set up on this side.
    Setup(TlsError),
    /// The certificate is not believed.
    Certificate(Distrust),
    /// The server ended the handshake with an alert.
    Alert(String),
    /// TLS failed in another way.
    Tls(String),
    /// It speaks plain HTTP where TLS was meant.
    SpeaksPlain,
    /// It speaks TLS where plain HTTP was meant.
    SpeaksTls,
    /// It closed the connection after so many bytes of an answer.
    Closed(u64),
    /// It reset the connection.
    Reset,
    /// It did not answer within the limit: not a byte.
    Silent(Duration),
    /// It spoke HTTP/2 within the limit, and had not answered in full.
    Unanswered(Duration),
    /// It began to answer with a status, and had not ended within the limit, after so many bytes.
    Endless(u16, u64, Duration),
    /// It answered something else than HTTP/1: the beginning.
    NotHttp(String),
    /// It speaks HTTP/1 where HTTP/2 was meant.
    SpeaksHttp1,
    /// It speaks HTTP/2 where HTTP/1 was meant.
    SpeaksHttp2,
    /// It answered something else than HTTP/2: the beginning.
    NotHttp2(String),
    /// It reset the request's stream, with this error code of HTTP/2.
    StreamReset(String),
    /// It ended the connection without dealing with the request, with this error code of HTTP/2.
    GoAway(String),
}

/// Cause of a certificate that is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// Nobody who is trusted has signed it.
    Unknown,
    /// It is for another name.
    Name,
    /// Its time is over, or has not begun.
    Time,
    /// Something else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused => f.write_str("the connection was refused: nobody listens there"),
            Fault::NoConnection(within) => {
                write!(f, "no connection was open within {within:?}")
            }
            Fault::Unreachable(error) => write!(f, "it cannot be reached: {error}"),
            Fault::Setup(error) => error.fmt(f),
            Fault::Certificate(Distrust::Unknown) => {
                f.write_str("its certificate is signed by nobody who is trusted")
            }
            Fault::Certificate(Distrust::Name) => {
                f.write_str("its certificate is for another name")
            }
            Fault::Certificate(Distrust::Time) => {
                f.write_str("its certificate has expired, or is not valid yet")
            }
            Fault::Certificate(Distrust::Other(why)) => write!(f, "its certificate: {why}"),
            Fault::Alert(alert) => {
                write!(f, "the server ended the TLS handshake with the alert {alert}")
            }
            Fault::Tls(why) => write!(f, "the TLS handshake failed: {why}"),
            Fault::SpeaksPlain => f.write_str("it speaks plain HTTP, and no TLS"),
            Fault::SpeaksTls => f.write_str("it speaks TLS, and no plain HTTP"),
            Fault::Closed(0) => f.write_str("it closed the connection before it answered"),
            Fault::Closed(bytes) => {
                write!(f, "it closed the connection within its answer, after {bytes} B")
            }
            Fault::Reset => f.write_str("it reset the connection"),
            Fault::Silent(within) => write!(f, "it did not answer within {within:?}"),
            Fault::Unanswered(within) => {
                write!(f, "it spoke HTTP/2, but did not answer in full within {within:?}")
            }
            Fault::Endless(status, bytes, within) => {
                write!(f, "it answered {status}, but not to the end within {within:?} ({bytes} B)")
            }
            Fault::SpeaksHttp1 => f.write_str("it speaks HTTP/1, and no HTTP/2"),
            Fault::SpeaksHttp2 => f.write_str("it speaks HTTP/2, and no HTTP/1"),
            Fault::NotHttp2(text) => {
                write!(f, "its answer is no HTTP/2: it begins with `{text}`")
            }
            Fault::StreamReset(code) => {
                write!(f, "it reset the stream of the request (RST_STREAM, {code})")
            }
            Fault::GoAway(code) => {
                write!(
                    f,
                    "it ended the connection before it dealt with the request (GOAWAY, {code})"
                )
            }
            Fault::NotHttp(text) => write!(f, "its answer is no HTTP/1: it begins with `{text}`"),
        }
    }
}

/// The most connections of a trial at once.
const AT_ONCE: usize = 8;

/// Makes one request of each class, the first that the plan has of it, up to eight at a time, and returns
/// the answers in the order of the classes. `interrupt` ends it after the requests that are being made;
/// then answers are missing.
///
/// # Errors
/// The first class without an answer in full.
pub fn try_each(
    plan: &Plan,
    trial: Trial,
    interrupt: &AtomicBool,
) -> Result<Vec<Answer>, Box<TrialError>> {
    let mut firsts = vec![usize::MAX; plan.classes.len()];
    for (number, message) in plan.messages.iter().enumerate().rev() {
        firsts[message.class as usize] = number;
    }
    let address = reachable(&plan.spec.target);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..firsts.len().min(AT_ONCE) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) && !interrupt.load(Ordering::Relaxed) {
                    let class = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&number) = firsts.get(class) else { return };
                    let result = try_one(plan, number, address, trial);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((class, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(class, _)| *class);
    results.into_iter().map(|(_, result)| result).collect()
}

fn try_one(
    plan: &Plan,
    number: usize,
    address: SocketAddr,
    trial: Trial,
) -> Result<Answer, Box<TrialError>> {
    let (message, request) = (&plan.messages[number], &plan.spec.requests[number]);
    let made = match plan.spec.protocol {
        Protocol::Http1 => exchange(plan, number, address, trial).map(|(response, head)| Tell {
            status: response.status(),
            bytes: response.length(),
            keeps_open: response.keeps_open(),
            detail: detail(&head, response.status()),
        }),
        Protocol::Http2 { .. } => exchange_http2(plan, number, address, trial),
    };
    let failed =
        |fault| TrialError { method: request.method, path: request.path.clone(), address, fault };
    let made = made.map_err(|fault| failed(explained(plan, address, trial, fault)));
    let Tell { status, bytes, keeps_open, detail } = made?;
    // nginx and Apache say in plain words that their port is one for TLS.
    if plan.spec.target.scheme == Scheme::Http && status == 400 && speaks_tls(plan, address, trial)
    {
        return Err(Box::new(failed(Fault::SpeaksTls)));
    }
    Ok(Answer {
        class: message.class as usize,
        method: request.method,
        path: request.path.clone(),
        status,
        bytes,
        planned: request.bytes,
        keeps_open,
        detail,
    })
}

/// Facts of an answer.
struct Tell {
    status: u16,
    bytes: Option<u64>,
    keeps_open: bool,
    detail: Option<String>,
}

/// Makes a request by HTTP/2, on a connection of its own.
fn exchange_http2(
    plan: &Plan,
    number: usize,
    address: SocketAddr,
    trial: Trial,
) -> Result<Tell, Fault> {
    let until = Instant::now() + trial.within;
    let tls = match plan.spec.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(plan.tls().map_err(Fault::Setup)?),
    };
    let socket = connect(address, trial.within)?;
    let stream = match tls {
        None => Stream::opened(Socket::of(socket).map_err(Fault::Unreachable)?, None),
        Some(tls) => {
            let (session, socket) = shaken(socket, &tls, until)?.into_parts();
            Stream::opened(Socket::of(socket).map_err(Fault::Unreachable)?, Some(session))
        }
    };
    if !stream.speaks_http2() {
        return Err(Fault::SpeaksHttp1);
    }
    let fd = stream.fd();
    let mut epoll = Epoll::new().map_err(Fault::Unreachable)?;
    let mut link = Link::new(stream, StreamBounds { most: 1, first: 1 }, Keep::Heads, Time::ZERO);
    let message = &plan.messages[number];
    let form = message.form.as_deref().cloned();
    let form = form.expect("a plan of HTTP/2 has a form of each request");
    let (ask, class, at) = (number as u32, message.class, Time::ZERO);
    let request =
        Request { ask, class, intended: at, began: at, first_byte: None, retry: Retry::Used };
    link.ask(request, form);
    epoll.add(fd, sys::IN, 0).map_err(Fault::Unreachable)?;
    let (mut news, mut events) = (Vec::new(), [sys::no_event(); 1]);
    loop {
        if Instant::now() >= until {
            return Err(match link.first_bytes().is_empty() {
                true => Fault::Silent(trial.within),
                false => Fault::Unanswered(trial.within),
            });
        }
        let turned = link.turn(&mut || Time::ZERO, &mut news);
        for one in news.drain(..) {
            match one {
                News::Answered(answered) => return Ok(tell(*answered)),
                News::Failed(_, ended) => return Err(ended_http2(&link, ended)),
                // A connection that has answered nothing leaves nothing unsent.
                News::Opened | News::GoAway(_) | News::Unsent(_) => {}
            }
        }
        if turned == Turned::Waits {
            let interest = if link.waits_to_write() { sys::IN | sys::OUT } else { sys::IN };
            let _ = epoll.change(fd, interest, 0);
            epoll.wait(&mut events, TURN).map_err(Fault::Unreachable)?;
        }
    }
}

/// Facts of an answer by HTTP/2.
fn tell(answered: Answered) -> Tell {
    let Answered { status, bytes, length, kept, .. } = answered;
    let detail = kept.and_then(|(fields, body)| {
        let field = |name| fields.get(name).map(|value| readable(value.as_bytes()));
        match status {
            300..=399 => field(http::header::LOCATION),
            401 | 407 => field(http::header::WWW_AUTHENTICATE),
            400..=599 => Some(words_of(&body)).filter(|text| !text.is_empty()),
            _ => None,
        }
    });
    Tell { status, bytes: length.or(Some(bytes)), keeps_open: true, detail }
}

fn ended_http2(link: &Link, ended: Ended) -> Fault {
    let first = link.first_bytes();
    match (ended.frame, ended.kind) {
        _ if first.starts_with(b"HTTP/1.") => Fault::SpeaksHttp1,
        (Some(frame @ Frame::Reset(_)), _) => Fault::StreamReset(frame.code()),
        (Some(frame @ Frame::GoAway(_)), _) => Fault::GoAway(frame.code()),
        (None, ErrorKind::Reset) if first.is_empty() => Fault::Reset,
        (None, ErrorKind::Reset | ErrorKind::ClosedEarly) => Fault::Closed(first.len() as u64),
        (None, ErrorKind::Tls) => Fault::Tls("TLS broke after the handshake".into()),
        (None, _) => Fault::NotHttp2(beginning(&first)),
    }
}

/// A connection that is tried, plain or not.
enum Tried {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// The longest that a read waits before it looks at the limit.
const TURN: Duration = Duration::from_millis(50);
/// So much of an answer is kept, for its head.
const KEPT: usize = 64 << 10;

/// Makes a request: the response, and the beginning of its bytes.
fn exchange(
    plan: &Plan,
    number: usize,
    address: SocketAddr,
    trial: Trial,
) -> Result<(Response, Vec<u8>), Fault> {
    let until = Instant::now() + trial.within;
    let spec = &plan.spec;
    let tls = match spec.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(plan.tls().map_err(Fault::Setup)?),
    };
    let socket = connect(address, trial.within)?;
    let mut stream = match tls {
        None => Tried::Plain(socket),
        Some(tls) => Tried::Tls(Box::new(shaken(socket, &tls, until)?)),
    };
    let message = &plan.messages[number];
    stream.send(&message.bytes, until, trial)?;
    let mut response = Response::new();
    response.restart(message.answer);
    let (mut kept, mut buffer) = (Vec::new(), vec![0; KEPT]);
    loop {
        if Instant::now() >= until {
            return Err(match response.status() {
                0 => Fault::Silent(trial.within),
                status => Fault::Endless(status, response.bytes(), trial.within),
            });
        }
        let count = match stream.receive(&mut buffer) {
            Ok(0) => {
                return match response.end() {
                    Ok(()) => Ok((response, kept)),
                    Err(_) => Err(Fault::Closed(kept.len() as u64)),
                };
            }
            Ok(count) => count,
            Err(error) if waits(&error) => continue,
            Err(error) => return Err(broken(&error, kept.len() as u64)),
        };
        let room = KEPT - kept.len();
        kept.extend_from_slice(&buffer[..count.min(room)]);
        match response.feed(&buffer[..count]) {
            Ok(Progress::Complete(_)) => return Ok((response, kept)),
            Ok(Progress::More) => {}
            // The preface of a server (RFC 9113, section 3.4): a frame of type SETTINGS.
            Err(_) if matches!(kept[..], [_, _, _, 4, 0, 0, 0, 0, 0, ..]) => {
                return Err(Fault::SpeaksHttp2);
            }
            Err(_) => return Err(Fault::NotHttp(beginning(&kept))),
        }
    }
}

fn connect(address: SocketAddr, within: Duration) -> Result<TcpStream, Fault> {
    let socket =
        TcpStream::connect_timeout(&address, within).map_err(|error| match error.kind() {
            IoKind::ConnectionRefused => Fault::Refused,
            IoKind::TimedOut | IoKind::WouldBlock => Fault::NoConnection(within),
            _ => Fault::Unreachable(error),
        })?;
    let set = socket
        .set_read_timeout(Some(TURN))
        .and_then(|()| socket.set_write_timeout(Some(TURN)))
        .and_then(|()| socket.set_nodelay(true));
    set.map_err(Fault::Unreachable)?;
    Ok(socket)
}

/// A connection whose handshake is over.
fn shaken(
    mut socket: TcpStream,
    tls: &Tls,
    until: Instant,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Fault> {
    let name: ServerName<'static> = tls.name.clone();
    let session = ClientConnection::new(Arc::clone(&tls.config), name);
    let mut session = session.map_err(|error| Fault::Tls(error.to_string()))?;
    while session.is_handshaking() {
        if Instant::now() >= until {
            return Err(Fault::Tls("the server did not go on with it in time".into()));
        }
        match session.complete_io(&mut socket) {
            Ok(_) => {}
            Err(error) if waits(&error) => {}
            Err(error) => return Err(of_handshake(&error)),
        }
    }
    Ok(StreamOwned::new(session, socket))
}

fn of_handshake(error: &io::Error) -> Fault {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Rustls>());
    match cause {
        Some(Rustls::InvalidCertificate(why)) => Fault::Certificate(match why {
            CertificateError::UnknownIssuer => Distrust::Unknown,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Distrust::Name
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Distrust::Time,
            other => Distrust::Other(other.to_string()),
        }),
        Some(Rustls::AlertReceived(alert)) => Fault::Alert(alert_name(*alert)),
        Some(other) => Fault::Tls(other.to_string()),
        None => Fault::Tls(match error.kind() {
            IoKind::UnexpectedEof => "the server closed the connection within it".into(),
            _ => error.to_string(),
        }),
    }
}

/// `HandshakeFailure` is `handshake_failure`, as the standard has it.
fn alert_name(alert: AlertDescription) -> String {
    let mut name = String::new();
    for (at, c) in format!("{alert:?}").chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

impl Tried {
    fn send(&mut self, bytes: &[u8], until: Instant, trial: Trial) -> Result<(), Fault> {
        let mut sent = 0;
        while sent < bytes.len() {
            if Instant::now() >= until {
                return Err(Fault::Silent(trial.within));
            }
            let written = match self {
                Tried::Plain(socket) => socket.write(&bytes[sent..]),
                Tried::Tls(stream) => stream.write(&bytes[sent..]),
            };
            match written {
                Ok(count) => sent += count,
                Err(error) if waits(&error) => {}
                // A server may answer, and close, before it has the whole request.
                Err(error) if is_gone(&error) && sent > 0 => return Ok(()),
                Err(error) => return Err(broken(&error, 0)),
            }
        }
        match self {
            Tried::Plain(_) => Ok(()),
            Tried::Tls(stream) => match stream.flush() {
                Err(error) if !waits(&error) && !is_gone(&error) => Err(broken(&error, 0)),
                _ => Ok(()),
            },
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = match self {
            Tried::Plain(socket) => socket.read(buffer),
            Tried::Tls(stream) => stream.read(buffer),
        };
        match received {
            // Closed without a goodbye of TLS.
            Err(error) if error.kind() == IoKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), IoKind::WouldBlock | IoKind::TimedOut | IoKind::Interrupted)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), IoKind::ConnectionReset | IoKind::BrokenPipe)
}

fn broken(error: &io::Error, got: u64) -> Fault {
    match error.kind() {
        IoKind::ConnectionReset | IoKind::BrokenPipe if got == 0 => Fault::Reset,
        IoKind::ConnectionReset | IoKind::BrokenPipe => Fault::Closed(got),
        _ => of_handshake(error),
    }
}

/// The beginning of an answer as a person may read it.
fn beginning(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(24)
        .flat_map(|byte| std::ascii::escape_default(*byte))
        .map(char::from)
        .collect()
}

/// A second look where the server may speak the other protocol: the cause that is behind the first one.
fn explained(plan: &Plan, address: SocketAddr, trial: Trial, fault: Fault) -> Fault {
    let is_http2 = plan.spec.protocol != Protocol::Http1;
    match (&fault, plan.spec.target.scheme) {
        (Fault::Tls(_) | Fault::Closed(0) | Fault::Reset, Scheme::Https)
            if speaks_plain(address, trial) =>
        {
            Fault::SpeaksPlain
        }
        (
            Fault::Closed(_) | Fault::Reset | Fault::NotHttp(_) | Fault::NotHttp2(_),
            Scheme::Http,
        ) if speaks_tls(plan, address, trial) => Fault::SpeaksTls,
        (Fault::Closed(_) | Fault::Reset | Fault::NotHttp2(_) | Fault::Silent(_), Scheme::Http)
            if is_http2 && speaks_plain(address, trial) =>
        {
            Fault::SpeaksHttp1
        }
        (Fault::Alert(alert), Scheme::Https) if is_http2 && alert == "no_application_protocol" => {
            Fault::SpeaksHttp1
        }
        _ => fault,
    }
}

fn speaks_plain(address: SocketAddr, trial: Trial) -> bool {
    let until = Instant::now() + trial.within;
    let Ok(mut socket) = connect(address, trial.within) else { return false };
    if socket
        .write_all(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .is_err()
    {
        return false;
    }
    let mut seen = Vec::new();
    let mut buffer = [0; 16];
    while seen.len() < 7 && Instant::now() < until {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
            Err(error) if waits(&error) => {}
            Err(_) => break,
        }
    }
    seen.starts_with(b"HTTP/1.")
}

fn speaks_tls(plan: &Plan, address: SocketAddr, trial: Trial) -> bool {
    let until = Instant::now() + trial.within;
    let tls = Tls::new(&plan.spec.target.host, &Trust::Insecure, Resumption::Off, HTTP1);
    let (Ok(tls), Ok(socket)) = (tls, connect(address, trial.within)) else { return false };
    // An alert is TLS, too.
    matches!(shaken(socket, &tls, until), Ok(_) | Err(Fault::Alert(_)))
}

/// Detail of an answer that tells what to do about it.
fn detail(kept: &[u8], status: u16) -> Option<String> {
    let wanted = match status {
        300..=399 => "location",
        401 | 407 => "www-authenticate",
        400..=599 => "",
        _ => return None,
    };
    let mut rest = kept;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut head = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = head.parse(rest) else { return None };
        if (100..200).contains(&head.code.unwrap_or(0)) {
            rest = &rest[length..];
            continue;
        }
        if wanted.is_empty() {
            let chunked = |name: &str| name.eq_ignore_ascii_case("transfer-encoding");
            let plain = !head.headers.iter().any(|header| chunked(header.name));
            return plain.then(|| words_of(&rest[length..])).filter(|text| !text.is_empty());
        }
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(wanted))?;
        return Some(readable(found.value));
    }
}

/// The value of a field as a person may read it.
fn readable(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

/// Limit of the words of an error that are told.
const WORDS_MAX: usize = 80;

/// The first words of a body, tags of HTML left out.
fn words_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let (mut words, mut in_tag) = (String::new(), false);
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                words.push(' ');
            }
            _ if in_tag => {}
            c if c.is_control() => words.push(' '),
            c => words.push(c),
        }
    }
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(WORDS_MAX).collect()
}
