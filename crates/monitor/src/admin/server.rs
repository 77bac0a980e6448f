//! The thread that serves administrators and whoever looks at the metrics: one small loop with bounded
//! admin connections, of which each has a deadline while anything is owed.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gate::Time;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Waker};

use super::connection::{AdminConnection, Administrator, Reader};
use super::{AdminMessage, Admitted, Answer, Ask, Asked, Line, Listening};
use crate::connection::{Buffers, Connection, Stream};
use crate::deadlines::Deadlines;
use crate::slab::{Key, Slab, Socket};
use pgconsole::{
    Buffered, Client, ClientState, Connection as ConnectionRow, Replication, Snapshot,
};
use pgwire::SqlState;
use pgwire::message::{Report, Severity, write};

const LISTENER: Socket = Socket::Own(0);
const MESSAGES: Socket = Socket::Own(1);

/// Administrators at once, and readers over HTTP, at most.
const ADMINISTRATORS_MAX: usize = 64;
const READERS_MAX: usize = 16;

/// Time limit of one who asks over HTTP in all, the loop's answer included.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// Pause after a snapshot, as a multiple of the time that it took: snapshots take a twentieth of
/// the loop's time at most.
const REST: u32 = 19;

/// An admin server that is ready to open: the address of the metrics is taken.
#[derive(Debug)]
pub(crate) struct AdminServer {
    poll: Poll,
    listener: Option<TcpListener>,
    address: Option<SocketAddr>,
    waker: Waker,
    admin_messages: mpsc::Receiver<AdminMessage>,
    to_admin_server: mpsc::Sender<AdminMessage>,
}

/// By what an admin server asks its loop.
pub(crate) struct Opened<F> {
    /// Hands on what is asked; false if the loop has ended.
    pub(crate) ask: F,
}

impl AdminServer {
    /// Listens for whoever looks at the metrics, if they are anywhere, with the socket that was `given`,
    /// if one was.
    ///
    /// # Errors
    /// If the address is taken, or the system has no room for a loop.
    pub(crate) fn bind(
        http: Option<SocketAddr>,
        given: Option<OwnedFd>,
    ) -> io::Result<AdminServer> {
        let poll = Poll::new()?;
        let given = given.map(|socket| TcpListener::from_std(socket.into()));
        let bound = || http.map(TcpListener::bind).transpose();
        let mut listener = given.map_or_else(bound, |given| Ok(Some(given)))?;
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER.token(), Interest::READABLE)?;
        }
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let waker = Waker::new(poll.registry(), MESSAGES.token())?;
        let (to_admin_server, admin_messages) = mpsc::channel();
        Ok(AdminServer { poll, listener, address, waker, admin_messages, to_admin_server })
    }

    /// The address of the metrics and the live page, if there is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The socket of those who look at the metrics once more, for another process.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub(crate) fn socket(&self) -> io::Result<Option<OwnedFd>> {
        let listener = self.listener.as_ref();
        listener.map(|listener| listener.as_fd().try_clone_to_owned()).transpose()
    }

    /// Begins to serve, on a thread of its own, until the line is dropped.
    ///
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn open<F>(self, opened: Opened<F>) -> io::Result<Line>
    where
        F: Fn(Asked) -> bool + Send + 'static,
    {
        let AdminServer { poll, listener, address, waker, admin_messages, to_admin_server } = self;
        let admin_thread = AdminThread {
            poll,
            listener,
            address,
            admin_messages,
            to_loop: Box::new(opened.ask),
            admin_connections: Slab::new(),
            administrators: HashMap::new(),
            readers: 0,
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            again: Vec::new(),
            looks: Looks::default(),
            began: Instant::now(),
            now: Time::ZERO,
            is_open: Opening::Open,
            listening: Listening::GoesOn,
        };
        let thread = std::thread::Builder::new().name("console".to_owned());
        let thread = Some(thread.spawn(move || admin_thread.run())?);
        Ok(Line { admin_messages: to_admin_server, waker, thread })
    }
}

/// The state of the admin server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    Open,
    Closed,
}

/// Admin connections who want to see the gate.
#[derive(Default)]
struct Looks {
    /// Those who have asked since the loop was asked last.
    next: Vec<Key>,
    /// Those whom its next answer is for; the loop was asked if there are any.
    asked: Vec<Key>,
    /// When the loop may be asked again.
    earliest: Time,
}

/// The admin server at work.
pub(super) struct AdminThread {
    poll: Poll,
    listener: Option<TcpListener>,
    pub(super) address: Option<SocketAddr>,
    admin_messages: mpsc::Receiver<AdminMessage>,
    to_loop: Box<dyn Fn(Asked) -> bool + Send>,
    pub(super) admin_connections: Slab<AdminConnection>,
    /// By the numbers by which they may cancel.
    administrators: HashMap<u32, Key>,
    readers: usize,
    pub(super) deadlines: Deadlines,
    pub(super) buffers: Buffers,
    /// Admin connections who may go on, though the system will not say so.
    pub(super) again: Vec<Key>,
    looks: Looks,
    began: Instant,
    pub(super) now: Time,
    is_open: Opening,
    listening: Listening,
}

impl AdminThread {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        while self.is_open == Opening::Open {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => self.turn(&events),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Without the system's events nobody can be served; the clients of the gate are.
                Err(_) => return,
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let look = self.looks.is_due().then_some(self.looks.earliest);
        let next = [look, self.deadlines.next()].into_iter().flatten().min()?;
        Some(next.since(Time::ZERO + self.began.elapsed()))
    }

    fn turn(&mut self, events: &Events) {
        self.now = Time::ZERO + self.began.elapsed();
        for event in events {
            match Socket::of(event.token()) {
                Socket::Client(key) => {
                    if let Some(admin_connection) = self.admin_connections.get_mut(key) {
                        admin_connection.connection_mut().note(event);
                    }
                    self.visit(key);
                }
                LISTENER => self.accept(),
                _ => {}
            }
        }
        // In every turn, whatever has woken it: a message is sent before its wake-up, so none is left.
        while let Ok(admin_message) = self.admin_messages.try_recv() {
            self.read(admin_message);
        }
        for key in std::mem::take(&mut self.again) {
            self.visit(key);
        }
        while let Some(Socket::Client(key)) = self.deadlines.due(self.now) {
            self.late(key);
        }
        if self.looks.is_due() && self.looks.earliest <= self.now {
            self.looks.asked = std::mem::take(&mut self.looks.next);
            let admin_connection = self.looks.asked[0];
            self.ask(admin_connection, Ask::Snapshot);
        }
    }

    /// Something happened to an admin connection.
    fn visit(&mut self, key: Key) {
        match self.admin_connections.get(key) {
            Some(AdminConnection::Administrator(_)) => self.hear_administrator(key),
            Some(AdminConnection::Reader(_)) => self.hear_reader(key),
            None => {}
        }
    }

    pub(super) fn ask(&mut self, admin_connection: Key, ask: Ask) {
        if !(self.to_loop)(Asked { admin_connection, ask }) {
            self.is_open = Opening::Closed;
        }
    }

    /// Sees to it that an admin connection is shown the gate as it is from now on.
    pub(super) fn look(&mut self, admin_connection: Key) {
        self.looks.next.push(admin_connection);
    }

    fn read(&mut self, admin_message: AdminMessage) {
        match admin_message {
            AdminMessage::Admitted(admitted) => self.welcome(*admitted),
            AdminMessage::Answer(_, Answer::Snapshot(mut snapshot, took)) => {
                self.looks.earliest = self.now + took * REST;
                self.add_administrators(&mut snapshot);
                for key in std::mem::take(&mut self.looks.asked) {
                    self.show(key, &snapshot);
                }
            }
            AdminMessage::Answer(key, answer) => match self.admin_connections.get(key) {
                Some(AdminConnection::Administrator(_)) => self.reply_administrator(key, &answer),
                Some(AdminConnection::Reader(_)) => self.reply_reader(key, &answer),
                None => {}
            },
            AdminMessage::Cancel(process) => {
                if let Some(&key) = self.administrators.get(&process) {
                    self.cancel_administrator(key);
                }
            }
            AdminMessage::Listen(listening) => self.listen(listening),
            AdminMessage::End => self.close(),
        }
    }

    fn show(&mut self, key: Key, snapshot: &Snapshot) {
        match self.admin_connections.get(key) {
            Some(AdminConnection::Administrator(_)) => self.show_administrator(key, snapshot),
            Some(AdminConnection::Reader(_)) => self.show_reader(key, snapshot),
            None => {}
        }
    }

    /// Administrators are clients, too.
    fn add_administrators(&self, snapshot: &mut Snapshot) {
        let administrators =
            self.admin_connections.iter().filter_map(
                |(_, admin_connection)| match admin_connection {
                    AdminConnection::Administrator(administrator) => {
                        Some(administrator.as_client())
                    }
                    AdminConnection::Reader(_) => None,
                },
            );
        snapshot.clients.extend(administrators);
    }

    fn welcome(&mut self, mut admitted: Admitted) {
        let key = self.admin_connections.next_key();
        let token = Socket::Client(key).token();
        let registered = admitted.connection.stream().register(self.poll.registry(), token).is_ok();
        if !registered || self.administrators.len() >= ADMINISTRATORS_MAX {
            let message = "there are too many administrators at the console";
            let mut out = Vec::new();
            let code = SqlState::TOO_MANY_CONNECTIONS;
            write::error_response(&mut out, &Report::new(Severity::Fatal, code, message));
            // It goes away in any case.
            let _ = admitted.connection.send(&out, &mut self.buffers);
            admitted.connection.close(&mut self.buffers);
            return self.ask(key, Ask::Forget(Some(admitted.process)));
        }
        let process = admitted.process;
        let (administrator, greeting) = Administrator::new(admitted);
        self.admin_connections.insert(AdminConnection::Administrator(Box::new(administrator)));
        self.administrators.insert(process, key);
        self.say(key, &greeting);
        self.again.push(key);
    }

    /// Another process accepts those who look at the metrics, or does not any more.
    fn listen(&mut self, listening: Listening) {
        self.listening = listening;
        let Some(listener) = &mut self.listener else { return };
        let registry = self.poll.registry();
        // Without it nobody looks at the metrics here; clients are served.
        let _ = match listening {
            Listening::Stops => registry.deregister(listener),
            Listening::GoesOn => registry.register(listener, LISTENER.token(), Interest::READABLE),
        };
    }

    fn accept(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            if self.listening == Listening::Stops {
                return;
            }
            let (socket, _) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                // The system has no room; whoever comes next is accepted with those who wait.
                Err(_) => return,
            };
            let connection = Connection::new(Stream::Tcp(socket));
            let key = self.admin_connections.next_key();
            let registered =
                connection.stream().register(self.poll.registry(), Socket::Client(key).token());
            if registered.is_err() || self.readers >= READERS_MAX {
                connection.close(&mut self.buffers);
                continue;
            }
            let mut reader = Reader::new(connection);
            let latest = self.now + READER_PATIENCE;
            self.deadlines.set(Socket::Client(key), &mut reader.deadline, latest);
            self.admin_connections.insert(AdminConnection::Reader(reader));
            self.readers += 1;
        }
    }

    /// Writes to an admin connection, or keeps what cannot be written yet.
    pub(super) fn say(&mut self, key: Key, bytes: &[u8]) {
        let Some(admin_connection) = self.admin_connections.get_mut(key) else { return };
        if admin_connection.connection_mut().send(bytes, &mut self.buffers).is_err() {
            self.part(key);
        }
    }

    /// Closes an admin connection's connection, and forgets it.
    pub(super) fn part(&mut self, key: Key) {
        let Some(mut admin_connection) = self.admin_connections.remove(key) else { return };
        self.deadlines.clear(Socket::Client(key), admin_connection.deadline_mut());
        match &admin_connection {
            AdminConnection::Reader(_) => self.readers -= 1,
            AdminConnection::Administrator(administrator) => {
                self.administrators.remove(&administrator.process);
                self.ask(key, Ask::Forget(Some(administrator.process)));
            }
        }
        admin_connection.into_connection().close(&mut self.buffers);
    }

    /// The monitor ends: administrators hear so.
    fn close(&mut self) {
        let mut words = Vec::new();
        let message = "terminating connection due to administrator command";
        let report = Report::new(Severity::Fatal, SqlState::ADMIN_SHUTDOWN, message);
        write::error_response(&mut words, &report);
        let keys: Vec<Key> = self.admin_connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(AdminConnection::Administrator(_)) = self.admin_connections.get(key) {
                self.say(key, &words);
            }
            self.part(key);
        }
        self.is_open = Opening::Closed;
    }

    /// Closes the connection of an administrator by its number on the console.
    pub(super) fn kill(&mut self, id: u64) -> Killed {
        let found =
            self.admin_connections.iter().find(|(_, admin_connection)| match admin_connection {
                AdminConnection::Administrator(administrator) => administrator.id == id,
                AdminConnection::Reader(_) => false,
            });
        match found.map(|(key, _)| key) {
            Some(key) => {
                self.part(key);
                Killed::Gone
            }
            None => Killed::Unknown,
        }
    }
}

/// Outcome for an administrator that was to go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Killed {
    Gone,
    Unknown,
}

impl Looks {
    /// True if the loop is to be asked.
    fn is_due(&self) -> bool {
        self.asked.is_empty() && !self.next.is_empty()
    }
}

impl Administrator {
    fn as_client(&self) -> Client {
        Client {
            connection: ConnectionRow {
                id: self.id,
                link: None,
                user: self.user.clone(),
                database: self.database.clone(),
                replication: Replication::None,
                address: self.ends.0,
                local_address: self.ends.1,
                connected: self.came,
                requested: self.requested,
                waited: Duration::ZERO,
                process: None,
                tls: self.connection.server_tls().into(),
                application_name: self.application_name.clone(),
                prepared: 0,
                buffered: Buffered {
                    unread: u32::try_from(self.connection.read().len()).unwrap_or(u32::MAX),
                    missing: 0,
                    unsent: u32::try_from(self.connection.unsent()).unwrap_or(u32::MAX),
                },
            },
            state: ClientState::Active,
        }
    }
}
