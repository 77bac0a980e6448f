//! A server whose answers come at moments that are reckoned: what is measured of it depends on the
//! machine only where the machine is late by itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So many requests are served at once, each for the same time, the others wait in their order. It
/// ends with this value.
#[derive(Debug)]
pub(crate) struct Clockwork {
    address: SocketAddr,
    stops: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// When each place is free again: a request that finds none waits for the first. An answer that the
/// machine sends late delays no other.
#[derive(Debug)]
struct Places {
    free_at: Mutex<Vec<Instant>>,
    service: Duration,
}

impl Places {
    /// Moment of the answer to a request that is here now.
    fn answer_at(&self) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let first = free_at.iter_mut().min().expect("it has places");
        *first = (*first).max(Instant::now()) + self.service;
        *first
    }
}

impl Clockwork {
    pub(crate) fn start(places: usize, service: Duration) -> Clockwork {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let free_at = Mutex::new(vec![Instant::now(); places]);
        let (places, stops) = (Arc::new(Places { free_at, service }), Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stops);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, places) = (stream.expect("the kernel accepts"), Arc::clone(&places));
                thread::spawn(move || serve(stream, &places));
            }
        });
        Clockwork { address, stops, accepting: Some(accepting) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Clockwork {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        // Whoever waits for a client gets this one.
        TcpStream::connect(self.address).ok();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().ok();
        }
    }
}

/// Answers one request after the other, until the client goes.
fn serve(mut stream: TcpStream, places: &Places) {
    stream.set_nodelay(true).ok();
    let (mut open, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        open.extend_from_slice(&bytes[..read]);
        while let Some(end) = open.windows(4).position(|four| four == b"\r\n\r\n") {
            open.drain(..end + 4);
            let at = places.answer_at();
            thread::sleep(at.saturating_duration_since(Instant::now()));
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}
