//! Small servers that block: a thread for each connection, which does what a closure says.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A server; it ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Connections accepted so far.
    pub(crate) connections: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Runs `serve` on each connection.
    pub(crate) fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, accepted) = (Arc::clone(&stop), Arc::clone(&connections));
        let serve = Arc::new(serve);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                accepted.fetch_add(1, Ordering::SeqCst);
                // No thread of a test outlives it by much.
                stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
                stream.set_nodelay(true).unwrap();
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Server { address, connections, stop, thread: Some(thread) }
    }

    /// Answers each request (its head) with what `answer` says, until the client closes.
    pub(crate) fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
        Server::new(move |mut stream| {
            while let Some(head) = read_head(&mut stream) {
                if stream.write_all(&answer(&head)).is_err() {
                    return;
                }
            }
        })
    }

    /// Answers the first request of each connection, then closes it.
    pub(crate) fn once(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
        Server::new(move |mut stream| {
            if let Some(head) = read_head(&mut stream) {
                let _ = stream.write_all(&answer(&head));
            }
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accept.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A request's head; `None` if the client closed. (The engine sends one request at a time.)
pub(crate) fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8(head).expect("the engine sends ASCII"))
}

/// A good response with a body of this many bytes.
pub(crate) fn ok(length: usize) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    response.resize(response.len() + length, b'x');
    response
}

/// The path of a request's head.
pub(crate) fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or("")
}
