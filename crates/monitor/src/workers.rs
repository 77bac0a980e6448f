//! The workers: threads that move bytes for one loop, each with an event queue of its own.
//!
//! ```text
//!   worker 1: wait ─ read ─┐           ┌─ write ─ wait ...
//!                          ├─ the loop ┤   clients, gates, servers: one worker at a time
//!   worker 2: wait ─ ... ──┘           └─ write ─ wait ...
//! ```
//!
//! Nearly all that a transaction costs is system calls. Where there are several workers, each reads
//! what its connections have sent before it takes the loop, and writes what is to be said when it has
//! let that go; what all of it means, and who is served next, is decided with the loop alone. So the
//! gate is one, jobs start in the order of their arrival over all workers, and nothing is handed from
//! one to the other: whoever hears a client writes to its server, and whoever hears the server writes
//! to the client, wherever the two are watched. With one worker all is read and written at once.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mio::{Events, Poll, Registry, Waker};

use super::client;
use super::config::StartError;
use super::connection::{Buffer, Connection, Reading};
use super::run::{COMMANDS, Running};
use super::server::{self, Server};
use super::slab::Socket;
use super::state::Loop;
use super::write_half::WriteHalf;

/// Events that one that is alone takes from the system at once.
// Many: each round of waiting is a system call.
const EVENTS_ALONE: usize = 1024;
/// Events that each of several takes: what it does with them holds up the others.
const EVENTS_EACH: usize = 64;

/// The event queues of all workers: each connection is watched by one of them.
#[derive(Debug)]
pub(super) struct Watchers {
    all: Vec<Registry>,
    /// The worker that watches the next client, and the next connection to a server: they take
    /// turns, so that each has as many, whoever connects and however often.
    next_client: usize,
    next_other: usize,
}

impl Watchers {
    pub(super) fn new(all: Vec<Registry>) -> Watchers {
        Watchers { all, next_client: 0, next_other: 0 }
    }

    /// Number of workers.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The queue of the first, which watches what is nobody's connection.
    pub(super) fn first(&self) -> &Registry {
        &self.all[0]
    }

    /// Lets one of them watch a connection from now on.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub(super) fn watch(&mut self, connection: &mut Connection, socket: Socket) -> io::Result<()> {
        let next = match socket {
            Socket::Client(_) => &mut self.next_client,
            _ => &mut self.next_other,
        };
        let watcher = *next;
        *next = (watcher + 1) % self.all.len();
        connection.watched(watcher, socket);
        connection.stream().register(&self.all[watcher], socket.token())
    }

    /// Nobody watches it any more.
    ///
    /// # Errors
    /// If nobody did.
    pub(super) fn release(&self, connection: &Connection) -> io::Result<()> {
        // Only the queue that it is in knows of it.
        connection.stream().deregister(&self.all[connection.watcher()])
    }
}

/// Shared state of the workers.
pub(super) struct Crew {
    running: Mutex<Running>,
    wakers: Vec<Arc<Waker>>,
}

/// One worker.
struct Worker<'a> {
    crew: &'a Crew,
    /// Its place among them.
    at: usize,
    poll: Poll,
    events: Events,
    /// Reads before the loop is taken, and writes when it is let go; kept for their room.
    classification_cache: Vec<(Socket, Reading)>,
    queue: Vec<Arc<WriteHalf>>,
    spare: Vec<Buffer>,
    /// Connections that could not be written to.
    broken: Vec<Socket>,
}

/// Wakes the others when a worker ends, however it does: they see why, and end too.
struct Departure<'a>(&'a Crew);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        for waker in &self.0.wakers {
            // One that has ended needs no waking.
            let _ = waker.wake();
        }
    }
}

impl Crew {
    /// Works on a loop until it is done, with a worker for each queue: the caller is the first.
    ///
    /// # Errors
    /// If the system's event queues fail, or there is no thread left.
    pub(super) fn run(
        running: Running,
        queues: Vec<(Poll, Arc<Waker>)>,
    ) -> Result<Running, StartError> {
        let (polls, wakers): (Vec<Poll>, Vec<Arc<Waker>>) = queues.into_iter().unzip();
        let events = if polls.len() > 1 { EVENTS_EACH } else { EVENTS_ALONE };
        let crew = Crew { running: Mutex::new(running), wakers };
        let mut workers = polls.into_iter().enumerate().map(|(at, poll)| Worker {
            crew: &crew,
            at,
            poll,
            events: Events::with_capacity(events),
            classification_cache: Vec::new(),
            queue: Vec::new(),
            spare: Vec::new(),
            broken: Vec::new(),
        });
        let first = workers.next().expect("there is one at least");
        std::thread::scope(|scope| {
            for worker in workers {
                let name = format!("worker {}", worker.at + 1);
                let thread = std::thread::Builder::new().name(name);
                if let Err(error) = thread.spawn_scoped(scope, move || worker.run()) {
                    crew.lock().fail(error);
                }
            }
            first.run();
        });
        let running = crew.running.into_inner().expect("a worker that panics is not survived");
        running.outcome()
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // Whoever panicked may have left a slot counted twice: nobody goes on with that.
        self.running.lock().expect("a worker that panics is not survived")
    }
}

impl Worker<'_> {
    /// Works until the loop is done.
    fn run(mut self) {
        let _departure = Departure(self.crew);
        let mut timeout = Some(Duration::ZERO);
        loop {
            match self.poll.poll(&mut self.events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => self.events.clear(),
                Err(error) => return self.crew.lock().fail(error),
            }
            match self.turn() {
                Next::Waits(longest) => timeout = longest,
                Next::Ends => return,
            }
        }
    }

    fn turn(&mut self) -> Next {
        let is_bare = self.queue.is_empty() && self.classification_cache.is_empty();
        assert!(is_bare, "what the last turn took is read and written in that turn");
        let mut running = self.crew.lock();
        running.inner.stats.turns[self.at] += 1;
        // The queue is edge-triggered: an edge that nobody notes never comes again, so all are
        // noted before any connection is read.
        running.inner.note(&self.events);
        if self.crew.wakers.len() > 1 {
            running.inner.begin_reads(&self.events, &mut self.classification_cache);
            if !self.classification_cache.is_empty() {
                drop(running);
                for (_, reading) in &mut self.classification_cache {
                    reading.read();
                }
                running = self.crew.lock();
                running.inner.end_reads(&mut self.classification_cache);
            }
            for buffer in self.spare.drain(..) {
                running.inner.buffers.give(buffer);
            }
        }
        running.turn(&self.events, &mut self.broken);
        running.inner.buffers.take_queued(&mut self.queue);
        let next = running.next();
        drop(running);
        // Whoever has the loop next may add to these, and that goes out with what is here.
        for write_half in self.queue.drain(..) {
            let written = write_half.write_queued();
            self.spare.extend(written.spare);
            self.broken.extend(written.broken);
        }
        // This worker alone knows of broken ones, and can act with the loop only: it takes its next
        // turn at once.
        match next {
            Next::Waits(_) if !self.broken.is_empty() => Next::Waits(Some(Duration::ZERO)),
            next => next,
        }
    }
}

impl Loop {
    /// Hears what the system has to tell of connections.
    fn note(&mut self, events: &Events) {
        for event in events {
            if let Some(connection) = self.connection_of(Socket::of(event.token())) {
                connection.note(event);
            }
        }
    }

    fn connection_of(&mut self, socket: Socket) -> Option<&mut Connection> {
        match socket {
            Socket::Client(key) => Some(&mut self.clients.get_mut(key)?.connection),
            Socket::Server(key) => self.servers.get_mut(key)?.connection.as_mut(),
            Socket::Cancel(key) => Some(&mut self.cancels.get_mut(key)?.connection),
            Socket::Own(_) => None,
        }
    }

    /// Lets a worker read of connections what would be read of them next, without the loop.
    fn begin_reads(&mut self, events: &Events, reads: &mut Vec<(Socket, Reading)>) {
        for event in events {
            let socket = Socket::of(event.token());
            if !self.would_read(socket) {
                continue;
            }
            // The buffers are taken aside while the connection is looked up.
            let mut buffers = std::mem::take(&mut self.buffers);
            let reading = self
                .connection_of(socket)
                .and_then(|connection| connection.begin_read(&mut buffers));
            self.buffers = buffers;
            reads.extend(reading.map(|reading| (socket, reading)));
        }
    }

    /// True if bytes of this connection are for somebody who can take them now. What belongs to the
    /// beginning of a connection is read with the loop.
    fn would_read(&self, socket: Socket) -> bool {
        // For somebody who cannot take it nothing is read: what stays in the system's buffers slows
        // the sender down, and costs the gate no memory.
        match socket {
            Socket::Client(key) => {
                let Some(client) = self.clients.get(key) else { return false };
                let server = match client.state {
                    client::State::Idle => return true,
                    client::State::Served(at) => self.servers.get(at),
                    _ => return false,
                };
                let takes = |server: &Server| {
                    let connection = server.connection.as_ref();
                    matches!(server.state, server::State::Serving)
                        && connection.is_some_and(|connection| !connection.is_blocked())
                };
                server.is_some_and(takes) && !client.connection.is_blocked()
            }
            Socket::Server(key) => {
                use server::State::{Admitting, Connecting, Hashing, LoggingIn};
                let Some(server) = self.servers.get(key) else { return false };
                let begins =
                    matches!(server.state, Admitting | Connecting | LoggingIn(_) | Hashing);
                let client = server.client.and_then(|client| self.clients.get(client));
                !begins && client.is_none_or(|client| !client.connection.is_blocked())
            }
            Socket::Cancel(_) | Socket::Own(_) => false,
        }
    }

    /// Takes what a worker has read.
    fn end_reads(&mut self, reads: &mut Vec<(Socket, Reading)>) {
        // No edge was lost meanwhile: this worker alone is told of these sockets, and it was reading.
        let mut buffers = std::mem::take(&mut self.buffers);
        for (socket, reading) in reads.drain(..) {
            match self.connection_of(socket) {
                Some(connection) => connection.end_read(reading, &mut buffers),
                // It has gone meanwhile.
                None => reading.give_back(&mut buffers),
            }
        }
        self.buffers = buffers;
    }
}

/// The next step of a worker that has let the loop go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It waits for events, so long at most.
    Waits(Option<Duration>),
    /// All is done.
    Ends,
}

/// A queue of events, and what wakes whoever waits there: it looks for commands then.
///
/// # Errors
/// If the system has no room for one.
pub(super) fn queue() -> io::Result<(Poll, Arc<Waker>)> {
    let poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), COMMANDS.token())?;
    Ok((poll, Arc::new(waker)))
}
