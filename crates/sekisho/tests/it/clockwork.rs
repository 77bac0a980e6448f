//! Servers whose answers come at moments that are reckoned: what is measured of them depends on the
//! machine only where the machine is late by itself. An answer that is sent late delays no other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::records::DOCUMENTS;

/// A server of the one or the other kind. It ends with this value.
#[derive(Debug)]
pub(crate) struct Clockwork {
    address: SocketAddr,
    stops: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// The work of a request, done by waiting.
trait Service: Send + Sync + 'static {
    /// Waits until the request of this path is served, and returns the size of its answer \[bytes\].
    fn serve(&self, path: &str) -> usize;
}

/// So many requests are served at once, each for the same time, the others wait in their order: the
/// moment at which each place is free again.
#[derive(Debug)]
struct Places {
    free_at: Mutex<Vec<Instant>>,
    service: Duration,
}

impl Service for Places {
    fn serve(&self, _: &str) -> usize {
        let at = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let first = free_at.iter_mut().min().expect("it has places");
            *first = (*first).max(Instant::now()) + self.service;
            *first
        };
        thread::sleep(at.saturating_duration_since(Instant::now()));
        2
    }
}

/// One processor, shared evenly by all who are served: a request needs what `cost` says of its document.
#[derive(Debug)]
struct Shared {
    cost: fn(bytes: u64) -> Duration,
    processor: Mutex<Processor>,
}

/// Work that everybody who is served has received, as in virtual-time fair queueing.
#[derive(Debug)]
struct Processor {
    /// Received by one who has been there from the beginning [s].
    attained: f64,
    /// The moment of `attained`.
    at: Instant,
    /// Values of `attained` at which those who are served leave, in order [s].
    marks: Vec<f64>,
}

impl Processor {
    /// Lets time go on to `now`, with all departures on the way.
    fn advance(&mut self, now: Instant) {
        while let Some(&mark) = self.marks.first() {
            let left = Duration::from_secs_f64((mark - self.attained) * self.marks.len() as f64);
            if self.at + left > now {
                let share = now.duration_since(self.at).as_secs_f64() / self.marks.len() as f64;
                self.attained += share;
                break;
            }
            self.at += left;
            self.attained = self.marks.remove(0);
        }
        self.at = self.at.max(now);
    }

    /// Time until the one with this mark leaves, if nobody comes.
    fn left(&self, mark: f64) -> Duration {
        let earlier = self.marks.iter().take_while(|&&other| other <= mark);
        let (mut left, mut before) = (0.0, self.attained);
        for (nth, &other) in earlier.enumerate() {
            left += (other - before) * (self.marks.len() - nth) as f64;
            before = other;
        }
        Duration::from_secs_f64(left)
    }
}

impl Service for Shared {
    fn serve(&self, path: &str) -> usize {
        let (_, bytes, _) = DOCUMENTS
            .into_iter()
            .find(|(name, ..)| path.trim_start_matches('/') == *name)
            .unwrap_or_else(|| panic!("`{path}` is none of its documents"));
        let lock = || self.processor.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = {
            let mut processor = lock();
            processor.advance(Instant::now());
            let mark = processor.attained + (self.cost)(bytes).as_secs_f64();
            let place = processor.marks.partition_point(|&other| other <= mark);
            processor.marks.insert(place, mark);
            mark
        };
        loop {
            let left = {
                let mut processor = lock();
                processor.advance(Instant::now());
                if processor.attained >= mark {
                    return bytes as usize;
                }
                processor.left(mark)
            };
            // Who comes meanwhile makes it longer, and nobody makes it shorter.
            thread::sleep(left);
        }
    }
}

impl Clockwork {
    /// A server with so many places, each request taking one for this time.
    pub(crate) fn start(places: usize, service: Duration) -> Clockwork {
        let free_at = Mutex::new(vec![Instant::now(); places]);
        Clockwork::serving(Places { free_at, service })
    }

    /// A server of [`DOCUMENTS`] with one processor.
    pub(crate) fn shared(cost: fn(bytes: u64) -> Duration) -> Clockwork {
        let processor = Processor { attained: 0.0, at: Instant::now(), marks: Vec::new() };
        Clockwork::serving(Shared { cost, processor: Mutex::new(processor) })
    }

    fn serving(service: impl Service) -> Clockwork {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let (service, stops) = (Arc::new(service), Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stops);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, service) = (stream.expect("the kernel accepts"), Arc::clone(&service));
                thread::spawn(move || serve(stream, &*service));
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
fn serve(mut stream: TcpStream, service: &impl Service) {
    stream.set_nodelay(true).ok();
    let (mut open, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        open.extend_from_slice(&bytes[..read]);
        while let Some(end) = open.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = open.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head);
            let length = service.serve(head.split_whitespace().nth(1).expect("it names a path"));
            let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            answer.extend(std::iter::repeat_n('.', length));
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

#[test]
fn a_shared_processor_keeps_time() {
    let begin = Instant::now();
    let mut processor = Processor { attained: 0.0, at: begin, marks: vec![1.0, 1.0, 3.0] };
    let after = |seconds| begin + Duration::from_secs_f64(seconds);
    assert_eq!(processor.left(1.0), Duration::from_secs(3));
    assert_eq!(processor.left(3.0), Duration::from_secs(5));
    processor.advance(after(1.5));
    assert_eq!((processor.attained, processor.marks.len()), (0.5, 3));
    processor.advance(after(4.0));
    assert_eq!((processor.attained, &*processor.marks), (2.0, &[3.0][..]));
    processor.advance(after(9.0));
    assert_eq!((processor.attained, processor.marks.len()), (3.0, 0));
}
