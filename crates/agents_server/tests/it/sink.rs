//! A sink of webhooks and a client, both of blocking sockets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The conduct of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    Takes,
    Fails,
    /// It refuses the notifications of agent `a0` for good, and takes the others.
    Refuses,
    /// It reads and never answers.
    Hangs,
}

/// A request that a sink has read.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
    conduct: Arc<Mutex<Conduct>>,
}

impl Sink {
    pub(crate) fn start(conduct: Conduct) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sink =
            Sink { address, received: Arc::default(), conduct: Arc::new(Mutex::new(conduct)) };
        let own = sink.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, own) = (stream.unwrap(), own.clone());
                thread::spawn(move || own.serve(stream));
            }
        });
        sink
    }

    pub(crate) fn set(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let Some((headers, body)) = message(&mut reader) else { return };
        let is_refused = body.contains("\"agent\":\"a0\"");
        let received = Received { headers, body, at: Instant::now() };
        self.received.lock().unwrap().push(received);
        let conduct = *self.conduct.lock().unwrap();
        match conduct {
            Conduct::Hangs => thread::sleep(Duration::from_secs(60)),
            conduct => {
                let status = match conduct {
                    Conduct::Fails => "500 no",
                    Conduct::Refuses if is_refused => "422 never",
                    _ => "204 ok",
                };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    }

    /// Waits until it has read so many.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Received> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let received = self.received.lock().unwrap().clone();
            if received.len() >= count {
                return received;
            }
            assert!(Instant::now() < until, "{} of {count}", received.len());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The headers and the body of a message of HTTP, the first line under the name "".
fn message(reader: &mut impl BufRead) -> Option<(BTreeMap<String, String>, String)> {
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        match line.trim_end() {
            "" => break,
            line => {
                let (name, value) = line.split_once(": ").unwrap_or(("", line));
                headers.insert(name.to_lowercase(), value.to_owned());
            }
        }
    }
    let mut body = String::new();
    match headers.get("content-length") {
        Some(length) => {
            let mut bytes = vec![0; length.parse().ok()?];
            reader.read_exact(&mut bytes).ok()?;
            body = String::from_utf8(bytes).ok()?;
        }
        None => _ = reader.read_to_string(&mut body).ok()?,
    }
    Some((headers, body))
}

/// A request with extra header lines; the status, the headers and the body of the answer.
pub(crate) fn request(
    to: SocketAddr,
    line: &str,
    headers: &[&str],
    body: &str,
) -> (u16, BTreeMap<String, String>, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let extra: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let (headers, body) = message(&mut BufReader::new(stream)).expect("an answer");
    let status = headers[""].split(' ').nth(1).unwrap().parse().unwrap();
    (status, headers, body)
}
