//! One worker: takes a connection, reads requests, spends their demand, sends what they ask for.
//! Threads, preforked processes and forked children all run this code.
//!
//! How demand is kept exact. A worker's CPU clock is divided among its requests without gaps: what
//! it shows is either paid for by a request that was served, or not yet. Serving a request with
//! demand g means to work until the clock stands g after the mark up to which all is paid, and to
//! move the mark there. Accepting, reading, parsing, sending and waking up thus lie inside g. What
//! a worker spends after its last look at the clock (the last piece of the body, the end of the
//! connection) is part of its next request: single requests are off by the difference of two such
//! ends, their sum is exact.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::board::Counters;
use crate::demand::{Demand, Spin, thread_cpu_ns};
use crate::document::{PIECE, PIECE_BYTES};
use crate::http::{After, Catalogue, HEAD_MAX, Part, Refusal, Request, write_head};

/// Time limit for the first byte of a request on a connection.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Time limit from the first byte of a head to the last.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit of a send that stands still, after which the client counts as gone.
const SEND_STALL_MAX: Duration = Duration::from_secs(10);
/// Time for which a worker reads on after a refusal, and limit of the bytes, so that the client
/// sees the refusal and not a reset.
const LINGER_MAX: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 256 * 1024;
/// A request that reaches the end of its work this far above its demand is an overrun [ns].
const OVERRUN_NS: i64 = 5_000;

/// Documents and their cost, the same for all workers of an origin.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) catalogue: Catalogue,
    pub(crate) demand: Demand,
    /// [`After::Keep`] where connections are kept if the client wants it.
    pub(crate) after: After,
    pub(crate) spin: Spin,
}

/// The connection that a worker has in its hands, where whoever stops the worker can shut it down.
#[derive(Debug, Default)]
pub(crate) struct Open(Mutex<Option<RawFd>>);

impl Open {
    fn lock(&self) -> MutexGuard<'_, Option<RawFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends whatever the worker waits for on its connection.
    #[allow(unsafe_code)]
    pub(crate) fn shut_down(&self) {
        let fd = self.lock();
        if let Some(fd) = *fd {
            // SAFETY: the descriptor is open: the worker takes it out under this lock before it
            // closes it.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        }
    }
}

/// End of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing unread is expected: closing sends a FIN.
    Clean,
    /// The client may still be sending: closing at once would reset the connection under it.
    Unread,
}

/// Event on a connection.
enum Next {
    Gone,
    Refused(Refusal),
    Request(Request),
}

pub(crate) struct Worker<'a> {
    service: &'a Service,
    board: &'a Counters,
    row: usize,
    open: &'a Open,
    /// The CPU clock when the worker was ready for its first connection [ns].
    ready_ns: i64,
    /// Up to where on the CPU clock all work is paid for [ns].
    paid_ns: i64,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer that were received and not yet used.
    held: usize,
    head: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// A worker that counts in `row` of the board, and whose CPU time counts from `ready_ns`.
    pub(crate) fn new(
        service: &'a Service,
        board: &'a Counters,
        row: usize,
        open: &'a Open,
        ready_ns: i64,
    ) -> Worker<'a> {
        let buffer = vec![0; HEAD_MAX];
        let head = Vec::with_capacity(256);
        Worker { service, board, row, open, ready_ns, paid_ns: ready_ns, buffer, held: 0, head }
    }

    /// Puts CPU time that others spent on earlier requests on this worker's account.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn owe(&mut self, debt_ns: i64) {
        self.paid_ns -= debt_ns;
    }

    /// The time that it spent and no request has paid for [ns].
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn unpaid_ns(&self) -> i64 {
        thread_cpu_ns() - self.paid_ns
    }

    /// Takes connection after connection from the listener, which the kernel hands out first come,
    /// first served, until the board says to stop.
    pub(crate) fn run(&mut self, listener: &TcpListener) {
        while !self.board.stopping() {
            match listener.accept() {
                Ok((stream, _)) => self.serve(stream),
                Err(error) if is_passing(&error) => {}
                // No descriptors or no memory: the connection stays in the queue, and asking again
                // at once would spend CPU time that belongs to the others.
                Err(_) if !self.board.stopping() => std::thread::sleep(Duration::from_millis(10)),
                Err(_) => {}
            }
        }
    }

    /// Serves one connection to its end.
    pub(crate) fn serve(&mut self, stream: TcpStream) {
        {
            let mut open = self.open.lock();
            if self.board.stopping() {
                return;
            }
            *open = Some(stream.as_raw_fd());
        }
        let end = self.converse(&stream).unwrap_or(End::Clean);
        if end == End::Unread {
            linger(&stream, &mut self.buffer);
        }
        *self.open.lock() = None;
        drop(stream);
        self.publish();
    }

    /// Requests and responses until one side has enough. An error is the end of the connection.
    fn converse(&mut self, stream: &TcpStream) -> io::Result<End> {
        stream.set_write_timeout(Some(SEND_STALL_MAX))?;
        if self.service.after == After::Keep {
            // Without this, the end of a response longer than a piece waits for the client's
            // delayed acknowledgement. Where the connection closes, the FIN pushes it out.
            stream.set_nodelay(true)?;
        }
        self.held = 0;
        loop {
            let request = match self.next(stream)? {
                Next::Gone => return Ok(End::Clean),
                Next::Refused(refusal) => {
                    self.refuse(stream, refusal, After::Close)?;
                    return Ok(End::Unread);
                }
                Next::Request(request) => request,
            };
            let after = match self.service.after {
                After::Keep => request.after,
                After::Close => After::Close,
            };
            match request.bytes {
                Ok(bytes) => self.respond(stream, bytes, request.part, after)?,
                Err(refusal) => self.refuse(stream, refusal, after)?,
            }
            self.buffer.copy_within(request.head..self.held, 0);
            self.held -= request.head;
            if after == After::Close {
                return Ok(if self.held > 0 { End::Unread } else { End::Clean });
            }
        }
    }

    /// Reads until a request is complete.
    fn next(&mut self, stream: &TcpStream) -> io::Result<Next> {
        let mut begun = (self.held > 0).then(Instant::now);
        if begun.is_none() {
            stream.set_read_timeout(Some(IDLE_MAX))?;
        }
        loop {
            if let Some(begun) = begun {
                match self.service.catalogue.read(&self.buffer[..self.held]) {
                    Ok(Some(request)) => return Ok(Next::Request(request)),
                    Ok(None) if self.held == HEAD_MAX => {
                        return Ok(Next::Refused(Refusal::HeadTooLarge));
                    }
                    Ok(None) => {}
                    Err(refusal) => return Ok(Next::Refused(refusal)),
                }
                let left = HEAD_TIME_MAX.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    return Ok(Next::Refused(Refusal::Timeout));
                }
                stream.set_read_timeout(Some(left))?;
            }
            let mut source = stream;
            match source.read(&mut self.buffer[self.held..]) {
                Ok(0) if begun.is_none() => return Ok(Next::Gone),
                Ok(0) => return Ok(Next::Refused(Refusal::BadRequest)),
                Ok(bytes) => {
                    self.held += bytes;
                    begun.get_or_insert_with(Instant::now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && begun.is_some() => {
                    return Ok(Next::Refused(Refusal::Timeout));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves a request: spends its demand and sends what it asked for.
    fn respond(
        &mut self,
        stream: &TcpStream,
        bytes: u64,
        part: Part,
        after: After,
    ) -> io::Result<()> {
        let body = match part {
            Part::Whole => bytes,
            Part::HeadOnly => 0,
        };
        let demand_ns = i64::try_from(self.service.demand.of(body).as_nanos()).unwrap_or(i64::MAX);
        write_head(&mut self.head, Ok(bytes), after);
        self.board.enter(self.row);
        let result = self.work_and_send(stream, body, demand_ns);
        if result.is_ok() {
            self.board.served.fetch_add(1, Ordering::Relaxed);
            self.board.demand_ns.fetch_add(demand_ns.unsigned_abs(), Ordering::Relaxed);
        } else {
            self.board.broken.fetch_add(1, Ordering::Relaxed);
            self.paid_ns = thread_cpu_ns();
        }
        // Last, so that who sees it out of service also sees what it did.
        self.publish();
        self.board.leave(self.row);
        result
    }

    /// The work is spread evenly over the pieces of the body, and each piece leaves when its part
    /// of the work is done, as from a server that produces what it sends.
    fn work_and_send(&mut self, stream: &TcpStream, body: u64, demand_ns: i64) -> io::Result<()> {
        let pieces = body.div_ceil(PIECE as u64).max(1);
        let start_ns = self.paid_ns;
        let mut left = body;
        for piece in 1..=pieces {
            let share = i128::from(demand_ns) * i128::from(piece) / i128::from(pieces);
            let share = i64::try_from(share).expect("a share is at most the whole");
            self.work(start_ns.saturating_add(share))?;
            if piece == pieces {
                self.settle(start_ns.saturating_add(demand_ns));
            }
            let length = left.min(PIECE as u64) as usize;
            let head = if piece == 1 { &self.head[..] } else { &[] };
            send(stream, head, &PIECE_BYTES[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Works until the CPU clock shows `target` [ns].
    fn work(&mut self, target: i64) -> io::Result<()> {
        let before = thread_cpu_ns();
        self.service.spin.until(target, || self.board.stopping());
        if self.board.stopping() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        // Far beyond its target already before it burnt anything: what it did itself cost more
        // than it was allowed. That is forgiven, or small requests would make later ones cheap.
        self.paid_ns = if before > target + OVERRUN_NS { before } else { target };
        Ok(())
    }

    /// Takes note if the work for a request ended beyond its demand.
    fn settle(&self, target: i64) {
        let beyond = self.paid_ns - target;
        if beyond > 0 {
            self.board.overruns.fetch_add(1, Ordering::Relaxed);
            self.board.overrun_ns.fetch_add(beyond.unsigned_abs(), Ordering::Relaxed);
        }
    }

    /// Says why a request gets nothing. That costs what it costs, and no served request pays for it.
    fn refuse(&mut self, stream: &TcpStream, refusal: Refusal, after: After) -> io::Result<()> {
        self.board.refused.fetch_add(1, Ordering::Relaxed);
        write_head(&mut self.head, Err(refusal), after);
        let result = send(stream, &self.head, &[]);
        self.paid_ns = thread_cpu_ns();
        result
    }

    fn publish(&self) {
        let spent = thread_cpu_ns() - self.ready_ns;
        self.board.workers[self.row].cpu_ns.store(spent, Ordering::Relaxed);
    }
}

/// Sends all of `head` and `body`, together where the socket takes them together.
fn send(mut stream: &TcpStream, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut slices = [IoSlice::new(head), IoSlice::new(body)];
    let mut left = &mut slices[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads away what the client still sends, for a short while.
fn linger(mut stream: &TcpStream, scratch: &mut [u8]) {
    let begun = Instant::now();
    let mut bytes = 0;
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    while bytes < LINGER_BYTES_MAX {
        let left = LINGER_MAX.saturating_sub(begun.elapsed());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(scratch) {
            Ok(0) | Err(_) => return,
            Ok(more) => bytes += more,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// A time-out shows as one or the other, by system.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
