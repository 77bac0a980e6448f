//! Clients without number: raw connections that log in without a password, and one loop for all.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use pgwire::message::write;
use pgwire::startup::{Version, write_startup};

use super::sides::{Server, Side};

/// The end of every reply: ReadyForQuery of a session without a transaction.
pub(crate) const READY: &[u8] = b"Z\0\0\0\x05I";

/// So many clients that have logged in.
pub(crate) fn enter(side: &Side, server: &Server, clients: usize) -> Vec<TcpStream> {
    (0..clients).map(|_| log_in(side.address, server)).collect()
}

fn log_in(address: SocketAddr, server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a TCP socket");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a deadline");
    let mut hello = Vec::new();
    let settings =
        [(&b"user"[..], server.user.as_bytes()), (b"database", server.database.as_bytes())];
    write_startup(&mut hello, Version { major: 3, minor: 0 }, settings).expect("a short packet");
    stream.write_all(&hello).expect("it reads");
    hear(&mut stream);
    stream
}

/// Reads to the end of a reply.
fn hear(stream: &mut TcpStream) {
    let (mut heard, mut buffer) = (Vec::new(), [0; 2048]);
    while !heard.ends_with(READY) {
        let read = stream.read(&mut buffer).expect("it answers in time");
        assert!(read > 0, "it hung up: {}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&buffer[..read]);
    }
}

fn question() -> Vec<u8> {
    let mut text = Vec::new();
    write::query(&mut text, "select 1");
    text
}

/// Each asks one question, in turn.
pub(crate) fn ask_once(clients: &mut [TcpStream]) {
    let question = question();
    for client in clients {
        client.write_all(&question).expect("it reads");
        hear(client);
    }
}

/// Observations of a crowd.
pub(crate) struct Seen {
    /// Answers a second.
    pub(crate) rate: f64,
    pub(crate) p50_s: f64,
    pub(crate) p99_s: f64,
    /// Jain's index of the clients' numbers of answers: 1 if all are alike.
    pub(crate) jain: f64,
}

struct Asking {
    stream: mio::net::TcpStream,
    since: Instant,
    answers: u64,
    /// The last bytes of what was heard, as many as the end of a reply has.
    tail: Vec<u8>,
}

/// All ask again and again, for so long \[s\] after every one of them has had an answer.
pub(crate) fn press(clients: Vec<TcpStream>, seconds: f64) -> Seen {
    let question = question();
    let mut poll = Poll::new().expect("a poll");
    let mut events = Events::with_capacity(4096);
    let mut asking: Vec<Asking> = Vec::with_capacity(clients.len());
    for (at, stream) in clients.into_iter().enumerate() {
        stream.set_nonblocking(true).expect("a socket");
        let mut stream = mio::net::TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(at), Interest::READABLE).expect("room");
        stream.write_all(&question).expect("an empty socket takes a question");
        asking.push(Asking { stream, since: Instant::now(), answers: 0, tail: Vec::new() });
    }
    let (mut waiting_first, mut began) = (asking.len(), None);
    let mut latencies: Vec<f64> = Vec::new();
    loop {
        poll.poll(&mut events, Some(Duration::from_secs(30))).expect("a poll");
        assert!(!events.is_empty(), "nobody is answered any more");
        for event in &events {
            let client = &mut asking[event.token().0];
            if !client.hears() {
                continue;
            }
            let now = Instant::now();
            match began {
                Some(_) => {
                    latencies.push((now - client.since).as_secs_f64());
                    client.answers += 1;
                }
                None if client.answers == 0 => {
                    client.answers = 1;
                    waiting_first -= 1;
                }
                None => {}
            }
            client.since = now;
            client.stream.write_all(&question).expect("an empty socket takes a question");
        }
        if waiting_first == 0 && began.is_none() {
            began = Some(Instant::now());
            asking.iter_mut().for_each(|client| client.answers = 0);
        }
        if began.is_some_and(|began| began.elapsed().as_secs_f64() >= seconds) {
            break;
        }
    }
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies[(latencies.len() as f64 * share) as usize];
    let sum: f64 = asking.iter().map(|client| client.answers as f64).sum();
    let squares: f64 = asking.iter().map(|client| (client.answers as f64).powi(2)).sum();
    Seen {
        rate: latencies.len() as f64 / seconds,
        p50_s: at(0.5),
        p99_s: at(0.99),
        jain: sum * sum / (asking.len() as f64 * squares),
    }
}

impl Asking {
    /// Reads what is there; whether a reply has ended.
    fn hears(&mut self) -> bool {
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("it hung up"),
                Ok(read) => {
                    self.tail.extend_from_slice(&buffer[..read]);
                    let spare = self.tail.len().saturating_sub(READY.len());
                    self.tail.drain(..spare);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("it is lost: {error}"),
            }
        }
        let ended = self.tail == READY;
        if ended {
            self.tail.clear();
        }
        ended
    }
}
