//! A client that knows only sockets: what it says about the servers must not depend on their code.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A response, taken apart.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (its_name, value) = line.split_once(':')?;
            its_name.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// A connection to a server. No read waits longer than 20 s, so that a server that hangs fails its
/// test.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub(crate) fn send(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// A GET over a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"))
}

/// Sends `text` and takes all that comes until the server closes.
pub(crate) fn exchange(address: SocketAddr, text: &str) -> Response {
    let stream = connect(address);
    send(&stream, text);
    let response = receive_all(&stream);
    take_apart(&response).0
}

pub(crate) fn receive_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// The first response in `bytes`, and what comes after it. A body without a length goes to the end.
pub(crate) fn take_apart(bytes: &[u8]) -> (Response, &[u8]) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut response = Response { status, head, body: Vec::new() };
    let length = response.field("content-length").map(|text| text.parse::<usize>().unwrap());
    let rest = &bytes[end..];
    let length = length.unwrap_or(rest.len()).min(rest.len());
    response.body = rest[..length].to_vec();
    (response, &rest[length..])
}

/// One response on a connection that stays open.
pub(crate) fn receive_one(mut stream: &TcpStream) -> Response {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            let (response, _) = take_apart(&bytes);
            let wanted: usize = response.field("content-length").unwrap().parse().unwrap();
            if response.body.len() == wanted {
                return response;
            }
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {} bytes", bytes.len());
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// True if nothing comes within `span`.
pub(crate) fn is_silent(mut stream: &TcpStream, span: Duration) -> bool {
    stream.set_read_timeout(Some(span)).unwrap();
    let result = stream.read(&mut [0; 1]);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    result.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Waits until `condition` holds, and fails if it does not within 10 s.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
