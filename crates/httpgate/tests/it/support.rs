//! Parts that the tests share: a gate in a thread, servers behind it, and a client that reads
//! strictly.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use httpgate::{Config, Finished, Handle, Server, Stats};

/// Longer than anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// A configuration in front of `upstreams` with timeouts that suit a test.
pub(crate) fn config(upstreams: &[SocketAddr], slots: u32) -> Config {
    let mut config = Config::new(any_port(), upstreams.to_vec(), slots);
    config.admin = Some(any_port());
    config.record_max = 100_000;
    config.timeouts.drain = ms(500);
    config.health.interval = ms(50);
    config.health.timeout = ms(300);
    config
}

/// A gate in a thread of its own, drained at the end.
pub(crate) struct Gate {
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<Finished>>,
}

impl Gate {
    pub(crate) fn start(config: Config) -> Gate {
        let server = Server::bind(config).expect("a valid configuration");
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run().expect("it runs"));
        Gate { handle, thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.handle.address())
    }

    pub(crate) fn stats(&self) -> Stats {
        self.handle.stats().expect("the gate runs")
    }

    /// Waits until the statistics are as wanted.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Stats) -> bool) -> Stats {
        let until = Instant::now() + PATIENCE;
        loop {
            let stats = self.stats();
            if wanted(&stats) {
                return stats;
            }
            assert!(Instant::now() < until, "never {what}: {stats:?}");
            std::thread::sleep(ms(2));
        }
    }

    /// Drains it; checks what must hold at the end of every run.
    pub(crate) fn finish(mut self) -> Finished {
        self.handle.drain().expect("the gate runs");
        self.join()
    }

    /// Waits until it has ended by itself.
    pub(crate) fn join(&mut self) -> Finished {
        let finished = self.thread.take().expect("once").join().expect("no panic");
        let busy: u32 = finished.stats.upstreams.iter().map(|upstream| upstream.busy).sum();
        assert_eq!((busy, finished.stats.waiting), (0, 0), "a slot or a job is left over");
        let recording = finished.recording.as_ref().expect("tests record");
        assert!(!recording.truncated);
        assert_eq!(recording.replay(), Ok(()));
        finished
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.thread.is_some() {
            let _ = self.handle.drain();
            self.join();
        }
    }
}

/// A request as a server behind sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Number of the request on its connection, from 0.
    pub(crate) nth: usize,
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or("")
    }

    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("")
    }
}

/// Fate of a server's connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Close,
}

/// A server behind the gate. It ends with the test process; each connection has a thread.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    stopped: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn start(
        answer: impl Fn(&mut TcpStream, &Seen) -> io::Result<Then> + Send + Sync + 'static,
    ) -> Upstream {
        Upstream::start_at(any_port(), answer)
    }

    pub(crate) fn start_at(
        address: SocketAddr,
        answer: impl Fn(&mut TcpStream, &Seen) -> io::Result<Then> + Send + Sync + 'static,
    ) -> Upstream {
        Upstream::raw_at(address, move |stream, seen| {
            let mut reader = BufReader::new(stream.try_clone()?);
            for nth in 0.. {
                let Some(request) = read_request(&mut reader, nth)? else { break };
                seen.lock().unwrap().push(request.clone());
                if answer(stream, &request)? == Then::Close {
                    break;
                }
            }
            Ok(())
        })
    }

    /// A server that does what it likes with each connection.
    pub(crate) fn raw_at(
        address: SocketAddr,
        serve: impl Fn(&mut TcpStream, &Mutex<Vec<Seen>>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind(address).expect("a free port");
        let upstream = Upstream {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            seen: Arc::default(),
            stopped: Arc::default(),
        };
        let (connections, seen) = (upstream.connections.clone(), upstream.seen.clone());
        let (stopped, serve) = (upstream.stopped.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.expect("accept works");
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let (serve, seen) = (serve.clone(), seen.clone());
                // Errors are clients that left, which tests look at from the other side.
                std::thread::spawn(move || {
                    let _ = serve(&mut stream, &seen);
                });
            }
        });
        upstream
    }

    /// A server that answers every request with its own target.
    pub(crate) fn echo() -> Upstream {
        Upstream::start(|stream, seen| ok(stream, seen.target()))
    }

    /// A server that answers after `delay`, and how many it had at once at most.
    pub(crate) fn slow(delay: Duration) -> (Upstream, Arc<AtomicUsize>) {
        let (inside, peak) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let most = peak.clone();
        let upstream = Upstream::start(move |stream, seen| {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(delay);
            // Before the last byte, for then the slot is another's.
            inside.fetch_sub(1, Ordering::SeqCst);
            ok(stream, seen.target())
        });
        (upstream, peak)
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.target().to_owned()).collect()
    }

    /// Waits until it has seen so many requests.
    pub(crate) fn wait_for(&self, requests: usize) {
        let until = Instant::now() + PATIENCE;
        while self.requests() < requests {
            assert!(Instant::now() < until, "saw {} of {requests}", self.requests());
            std::thread::sleep(ms(1));
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, so that the port is free again.
        let _ = TcpStream::connect(self.address);
    }
}

/// An answer of 200 with this body.
pub(crate) fn ok(stream: &mut TcpStream, body: &str) -> io::Result<Then> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes())?;
    Ok(Then::Keep)
}

/// These bytes as they are.
pub(crate) fn say(stream: &mut TcpStream, bytes: &str) -> io::Result<Then> {
    stream.write_all(bytes.as_bytes())?;
    Ok(Then::Keep)
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return if head.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
    }
    Ok(Some(head))
}

fn field(head: &str, name: &str) -> Option<String> {
    let mut found = head.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    });
    let value = found.next();
    assert!(found.next().is_none(), "{name} twice in {head}");
    value
}

fn read_length(reader: &mut impl Read, length: &str) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length.parse().expect("a length")];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        let mut end = [0; 2];
        reader.read_exact(&mut end)?;
        assert_eq!(&end, b"\r\n", "a chunk ends in a line end; the gate drops trailers");
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_request(reader: &mut impl BufRead, nth: usize) -> io::Result<Option<Seen>> {
    let Some(head) = read_head(reader)? else { return Ok(None) };
    let body = match (field(&head, "content-length"), field(&head, "transfer-encoding")) {
        (None, None) => Vec::new(),
        (Some(length), None) => read_length(reader, &length)?,
        (None, Some(coding)) => {
            assert_eq!(coding, "chunked");
            read_chunks(reader)?
        }
        (Some(_), Some(_)) => panic!("two framings: {head}"),
    };
    Ok(Some(Seen { head, body, nth }))
}

/// A response as a client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status")
    }

    pub(crate) fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Asserts that the gate turned the request away for this reason, and said when to come again.
    pub(crate) fn assert_refused(&self, reason: &str) {
        assert_eq!(self.status(), 503, "{self:?}");
        assert_eq!(self.field("sekisho-refused").as_deref(), Some(reason));
        let seconds: u64 = self.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=3600).contains(&seconds));
    }
}

/// A client with one connection.
pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, text: impl AsRef<[u8]>) {
        self.reader.get_mut().write_all(text.as_ref()).expect("the gate reads");
    }

    /// Sends the rest as far as anybody takes it.
    pub(crate) fn try_send(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.reader.get_mut().write_all(text.as_ref());
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    pub(crate) fn response(&mut self) -> Response {
        self.try_response("GET").expect("a whole response")
    }

    pub(crate) fn head_response(&mut self) -> Response {
        self.try_response("HEAD").expect("a whole response")
    }

    /// A response to `method`, or why there is none that is whole.
    pub(crate) fn try_response(&mut self, method: &str) -> io::Result<Response> {
        let head = read_head(&mut self.reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut response = Response { head, body: Vec::new() };
        let status = response.status();
        if method == "HEAD" || status < 200 || matches!(status, 204 | 304) {
            return Ok(response);
        }
        response.body =
            match (response.field("content-length"), response.field("transfer-encoding")) {
                (Some(length), None) => read_length(&mut self.reader, &length)?,
                (None, Some(_)) => read_chunks(&mut self.reader)?,
                (None, None) => {
                    let mut body = Vec::new();
                    self.reader.read_to_end(&mut body)?;
                    body
                }
                (Some(_), Some(_)) => panic!("two framings: {response:?}"),
            };
        Ok(response)
    }

    /// True if nothing comes for a while.
    pub(crate) fn is_silent(&mut self, span: Duration) -> bool {
        assert!(self.reader.buffer().is_empty());
        let stream = self.reader.get_mut();
        stream.set_read_timeout(Some(span)).unwrap();
        let read = stream.read(&mut [0; 1]);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// True if the gate closes, or has closed, without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0; 1]), Ok(0))
    }
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind(any_port()).unwrap().local_addr().unwrap()
}
