//! The monitor as a whole: its listeners, what it does in a turn, its controls, and how it ends.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use gate::Time;
use linelog::Log;
use live::model::Refusal;
use live::{Estimate, WhatIf};
use measure::Recording;
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Waker};
use thiserror::Error;

use super::admin::{AdminServer, Asked, Ending, Opened};
use super::background::{Background, Done};
use super::client;
use super::client_tls::{ClientEncryption, ClientTls};
use super::config::{AccessLog, Address, Config, StartError};
use super::listen::{Listener, door, listen};
use super::log::lost;
use super::modelling::Models;
use super::reload::{Fresh, ReloadError, Reloaded, Reloading, Set};
use super::server_tls::EncryptionError;
use super::slab::{Key, Socket};
use super::state::{Loop, Phase};
use super::stats::{Finished, Stats};
use super::takeover::{Given, Predecessor, Takeover};
use super::workers::{self, Crew, Next, Watchers};
use pgconsole::Shutdown;
use pgwire::SqlState;
use pgwire::startup::Replication;

/// The loop's own sockets.
const SIGNALS: Socket = Socket::Own(0);
pub(super) const COMMANDS: Socket = Socket::Own(1);
const HANGUPS: Socket = Socket::Own(2);
pub(super) const DOOR: Socket = Socket::Own(3);
pub(super) const SUCCESSOR: Socket = Socket::Own(4);
pub(super) const PREDECESSOR: Socket = Socket::Own(5);
const RENAMES: Socket = Socket::Own(6);
/// That of the first listener; those of others follow.
pub(super) const LISTENERS: u32 = 16;

/// Interval of the look at idle connections.
// Time limits of clients are looked at then, too: to the second is exact enough for these.
const SWEEP: Duration = Duration::from_secs(1);
/// After how long it is tried again to accept where the system had no room.
// Whoever waits at the listener stays there, and the edge that told of it does not come again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A TP monitor that listens and is ready to [run](Monitor::run).
pub struct Monitor {
    config: Config,
    tls: Option<Arc<ClientEncryption>>,
    poll: Poll,
    listeners: Vec<Listener>,
    takeover: Takeover,
    signals: Option<UnixStream>,
    renames: Option<UnixStream>,
    hangups: Option<UnixStream>,
    reloading: Option<Reloading>,
    log: Log,
    access_log: Log,
    commands: mpsc::Receiver<Command>,
    admin_server: Option<AdminServer>,
    awaits_servers: bool,
    handle: Handle,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Monitor").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// The controls of a running monitor, for any thread but the one that runs it: each call waits for
/// its answer.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Unbounded, but each caller waits for its answer, so callers bound it.
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
    addresses: Arc<[Address]>,
    http: Option<SocketAddr>,
}

/// Why a control did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The monitor has ended.
    #[error("the monitor has ended")]
    Ended,
    /// A certificate or key could not be used; all stays as it was.
    #[error(transparent)]
    Tls(#[from] EncryptionError),
}

#[derive(Debug)]
pub(super) enum Command {
    Stats(mpsc::Sender<Stats>),
    Recordings(mpsc::Sender<Vec<Option<Recording>>>),
    Models(mpsc::Sender<Models>),
    Drain(mpsc::Sender<()>),
    ServersAnswer(mpsc::Sender<()>),
    Tls(Option<Arc<ClientEncryption>>, mpsc::Sender<()>),
    Operate(Asked),
    /// Result of work beside the loop.
    Done(Done),
    /// The access log that there is.
    AccessLog(mpsc::Sender<Option<AccessLog>>),
    /// It comes back where it does not [follow](Fresh::follows) the configuration that there is by then.
    Reload(Box<Fresh>, mpsc::Sender<Result<Reloaded, Box<Fresh>>>),
    /// A configuration that was asked for was read, or could not be.
    Fresh(Result<Box<Fresh>, ReloadError>),
    /// The same, of the configuration that was read last with these keys changed.
    Changed(Result<Box<Fresh>, ReloadError>, Vec<Set>),
}

impl Handle {
    /// The address for clients on the network; of several the first.
    ///
    /// # Panics
    /// If there are sockets in the file system alone.
    pub fn address(&self) -> SocketAddr {
        match self.addresses[0] {
            Address::Tcp(address) => address,
            _ => panic!("nobody can connect by the network"),
        }
    }

    /// All addresses that clients connect to, in the order of the configuration, those of the
    /// network first.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The address of the metrics and the live page, if there is one.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The figures up to now.
    ///
    /// # Errors
    /// If the monitor has ended.
    pub fn stats(&self) -> Result<Stats, ControlError> {
        self.ask(Command::Stats)
    }

    /// The recordings of all pools up to now, in the order of [`Stats::pools`].
    ///
    /// # Errors
    /// If the monitor has ended.
    pub fn recordings(&self) -> Result<Vec<Option<Recording>>, ControlError> {
        self.ask(Command::Recordings)
    }

    /// Estimates of each pool of which the model knows enough, if something were otherwise.
    ///
    /// # Errors
    /// If the monitor has ended; inside, why no pool has an answer.
    pub fn what_if(&self, asked: &WhatIf) -> Result<Result<Vec<Estimate>, Refusal>, ControlError> {
        Ok(self.ask(Command::Models)?.what_if(asked))
    }

    /// Accepts nobody any more, tells clients with nothing under way to go, lets transactions end,
    /// and ends.
    ///
    /// # Errors
    /// If the monitor has ended.
    pub fn drain(&self) -> Result<(), ControlError> {
        self.ask(Command::Drain)
    }

    /// Ends what [`Monitor::without_servers`] began: a server answers.
    ///
    /// # Errors
    /// If the monitor has ended.
    pub fn servers_answer(&self) -> Result<(), ControlError> {
        self.ask(Command::ServersAnswer)
    }

    /// Reads certificates and keys, from the same files or others, and shows them to clients that
    /// begin from now on; who is in keeps its connection. `None` for no more TLS.
    ///
    /// # Errors
    /// If a file cannot be used, or the monitor has ended.
    pub fn encrypt_clients(&self, tls: Option<&ClientTls>) -> Result<(), ControlError> {
        let loaded = tls.map(ClientEncryption::load).transpose()?.flatten();
        self.ask(|reply| Command::Tls(loaded, reply))
    }

    /// Takes another configuration, all of it but where it listens, what is recorded, and a console or
    /// metrics where there were none. Nobody is dropped: whose database is gone stays until it leaves,
    /// connections to servers that have moved or gone end with their jobs, and gates with other
    /// policies, classes or servers begin anew with those who are served and who wait. What has to
    /// wait for somebody is [told](Reloaded::later).
    ///
    /// # Errors
    /// If the monitor has ended, the configuration describes none, its certificate cannot be used, or its access log, if
    /// it is another one, cannot be written; then all is as it was.
    pub fn reload(&self, mut config: Config) -> Result<Reloaded, ReloadError> {
        loop {
            let now = self.ask(Command::AccessLog).map_err(|_| ReloadError::Ended)?;
            let fresh = Box::new(Fresh::new(config, now.as_ref())?);
            let taken = self.ask(|reply| Command::Reload(fresh, reply));
            match taken.map_err(|_| ReloadError::Ended)? {
                Ok(reloaded) => return Ok(reloaded),
                // Somebody else has moved the log meanwhile.
                Err(fresh) => (config, ..) = fresh.into_parts(),
            }
        }
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T, ControlError> {
        // Sent before the loop is woken: it looks once, and would find nothing.
        let (sender, answer) = mpsc::channel();
        self.commands.send(command(sender)).map_err(|_| ControlError::Ended)?;
        self.waker.wake().map_err(|_| ControlError::Ended)?;
        answer.recv().map_err(|_| ControlError::Ended)
    }
}

impl Monitor {
    /// Checks the configuration, reads the certificate, opens the access log and listens. Clients may connect from now on; they
    /// are served when it [runs](Monitor::run). Where another gate [listens for it](Config::takeover), its
    /// listeners are shared, and it serves until this one runs.
    ///
    /// # Errors
    /// If the configuration is invalid, the address is taken, the certificate cannot be used, or the access log cannot
    /// be written; if a gate is there to take over from, and does not hand over: it serves as before.
    pub fn bind(config: Config) -> Result<Monitor, StartError> {
        let (config, tls, access_log) = Fresh::new(config, None)?.into_parts();
        let access_log = access_log.unwrap_or_default();
        let poll = Poll::new().map_err(StartError::Loop)?;
        let registry = poll.registry();
        let mut takeover = Takeover::default();
        let mut given = Given::default();
        if let Some(path) = &config.takeover {
            let failed = |cause| StartError::Takeover { path: path.clone(), cause };
            let called = Predecessor::call(path, config.timeouts.connect).map_err(failed)?;
            if let Some((predecessor, listeners)) = called {
                (takeover.predecessor, given) = (Some(predecessor), listeners);
            }
        }
        // Behind the call: the sockets that the gate before gave are taken, and not made anew.
        let (mut listeners, addresses) = listen(&config, &mut given)?;
        if let Some(path) = &config.takeover {
            let mut door = door(path, &mut given)?;
            door.register(registry, DOOR.token()).map_err(StartError::Loop)?;
            takeover.door = Some(door);
        }
        for (listener, own) in listeners.iter_mut().zip(LISTENERS..) {
            let token = Socket::Own(own).token();
            listener.register(registry, token).map_err(StartError::Loop)?;
        }
        let waker = Waker::new(registry, COMMANDS.token()).map_err(StartError::Loop)?;
        let (sender, commands) = mpsc::channel();
        let http = config.admin.http.and_then(|address| given.http(address));
        let admin_server = Monitor::admin_server(&config, http)?;
        if let Some(socket) =
            admin_server.as_ref().and_then(|admin_server| admin_server.socket().transpose())
        {
            let named = config.admin.http.map(|address| address.to_string()).unwrap_or_default();
            takeover.http = Some((named, socket.map_err(StartError::Loop)?));
        }
        let http = admin_server.as_ref().and_then(AdminServer::address);
        if let Some(predecessor) = &mut takeover.predecessor {
            predecessor.leave(given.left());
        }
        let addresses = addresses.into();
        let handle = Handle { commands: sender, waker: Arc::new(waker), addresses, http };
        let (signals, renames, hangups, reloading) = (None, None, None, None);
        let log = Log::default();
        Ok(Monitor {
            config,
            tls,
            poll,
            listeners,
            takeover,
            signals,
            renames,
            hangups,
            reloading,
            log,
            access_log,
            commands,
            admin_server,
            awaits_servers: false,
            handle,
        })
    }

    /// Begins where no server answers: `/readyz` says no until a client reaches one, or until
    /// [`Handle::servers_answer`] says that one does.
    #[must_use]
    pub fn without_servers(mut self) -> Monitor {
        self.awaits_servers = true;
        self
    }

    /// The number of the process that it takes over from, if any.
    pub fn predecessor(&self) -> Option<u32> {
        self.takeover.predecessor.as_ref().map(Predecessor::process)
    }

    /// An admin server for whoever operates it, if there is anybody.
    fn admin_server(
        config: &Config,
        given: Option<OwnedFd>,
    ) -> Result<Option<AdminServer>, StartError> {
        if !config.admin.is_used() {
            return Ok(None);
        }
        let admin_server =
            AdminServer::bind(config.admin.http, given).map_err(|source| match config.admin.http {
                Some(address) => StartError::Listen { address: Address::Tcp(address), source },
                None => StartError::Loop(source),
            });
        admin_server.map(Some)
    }

    /// The controls of this monitor.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Lets SIGTERM and SIGINT begin a drain; a second one cuts it short. SIGUSR1 opens the file of the access log
    /// anew, after somebody has renamed it, and does nothing where there is none.
    ///
    /// # Errors
    /// If the system's signals cannot be listened to.
    pub fn drain_on_signals(mut self) -> Result<Monitor, StartError> {
        let signals = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];
        self.signals = Some(self.listen_to(&signals, SIGNALS).map_err(StartError::Loop)?);
        let renames = self.listen_to(&[signal_hook::consts::SIGUSR1], RENAMES);
        self.renames = Some(renames.map_err(StartError::Loop)?);
        Ok(self)
    }

    /// Lets SIGHUP, and the console, have the configuration read anew: `source` is called then, on a
    /// thread of its own, and what it gives is taken as by [`Handle::reload`]. What it cannot give is
    /// logged, and all stays as it was.
    ///
    /// # Errors
    /// If the system's signals cannot be listened to.
    pub fn reload_from(
        mut self,
        source: impl FnMut() -> Result<Config, String> + Send + 'static,
    ) -> Result<Monitor, StartError> {
        let hangups = self.listen_to(&[signal_hook::consts::SIGHUP], HANGUPS);
        self.hangups = Some(hangups.map_err(StartError::Loop)?);
        let Handle { commands, waker, .. } = self.handle.clone();
        self.reloading = Some(Reloading::new(Box::new(source), commands, waker));
        Ok(self)
    }

    /// Lets the console's SET change what the source of [`Monitor::reload_from`] says: `setter` is called
    /// with every key of PgBouncer's that was set since the source was read last, and its value, in the order
    /// in which they were first set; each key comes once. It gives the configuration that was read last with these changed, on a
    /// thread of its own. What it gives is taken as by [`Handle::reload`]; what it cannot give is told
    /// to who has set it, and all stays as it was.
    ///
    /// # Panics
    /// If there is no source yet.
    #[must_use]
    pub fn set_by(
        mut self,
        setter: impl FnMut(&[(String, String)]) -> Result<Config, String> + Send + 'static,
    ) -> Monitor {
        let reloading = self.reloading.as_mut().expect("a source comes before what changes it");
        reloading.set_by(Box::new(setter));
        self
    }

    /// Logs to `sink` what [`Config::logged`] names, from a thread of its own: lines of `key=value`
    /// behind the time. What cannot be written holds nobody up; it is counted, and said when there is
    /// room again.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn log_to(mut self, sink: impl Write + Send + 'static) -> Result<Monitor, StartError> {
        self.log = Log::to(sink, lost).map_err(StartError::Loop)?;
        Ok(self)
    }

    fn listen_to(&self, signals: &[i32], socket: Socket) -> io::Result<UnixStream> {
        // A signal handler may do little more than write a byte, which then is an event like others.
        let (read, write) = StdUnixStream::pair()?;
        for &signal in signals {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        read.set_nonblocking(true)?;
        let mut read = UnixStream::from_std(read);
        self.poll.registry().register(&mut read, socket.token(), Interest::READABLE)?;
        Ok(read)
    }

    /// Serves on the calling thread, which may have been pinned to a CPU, until a drain has ended; with
    /// several [workers](Config::workers) on as many threads, which begin on the caller's CPUs.
    ///
    /// # Errors
    /// If the system's event queues fail, or it has no threads left; if the gate that it takes over
    /// from does not let go, or serves again since it has heard nothing for too long.
    ///
    /// # Panics
    /// If a gate breaks one of its invariants: it stops rather than lie about its slots.
    pub fn run(self) -> Result<Finished, StartError> {
        let Monitor {
            config,
            tls,
            poll,
            listeners,
            mut takeover,
            signals,
            renames,
            hangups,
            reloading,
            log,
            access_log,
            commands,
            admin_server,
            awaits_servers,
            handle,
        } = self;
        let background = background(handle.clone()).map_err(StartError::Loop)?;
        let Handle { commands: sender, waker, .. } = handle;
        let mut queues = vec![(poll, Arc::clone(&waker))];
        while queues.len() < config.workers {
            queues.push(workers::queue().map_err(StartError::Loop)?);
        }
        let registries = queues.iter().map(|(poll, _)| poll.registry().try_clone());
        let registries = registries.collect::<io::Result<Vec<_>>>().map_err(StartError::Loop)?;
        let mut inner = Loop::new(config, tls, background, Watchers::new(registries));
        (inner.log, inner.access_log, inner.reloading) = (log, access_log, reloading);
        inner.awaits_servers = awaits_servers;
        let path = inner.config.takeover.clone().unwrap_or_default();
        // As late as can be: from here on the gate before accepts nobody, unless this one goes.
        if let Some(predecessor) = &mut takeover.predecessor {
            let failed = |cause| StartError::Takeover { path: path.clone(), cause };
            predecessor.begin(inner.watchers.first()).map_err(failed)?;
            // So that it is told in the first turn that this gate serves.
            inner.again.push_back(PREDECESSOR);
        }
        inner.takeover = takeover;
        let mut running = Running {
            inner,
            listeners,
            signals,
            renames,
            hangups,
            commands,
            sweep: Time::ZERO,
            accept_again: None,
            until: None,
            failed: None,
        };
        if let Some(admin_server) = admin_server {
            let ask =
                move |asked| sender.send(Command::Operate(asked)).is_ok() && waker.wake().is_ok();
            let line = admin_server.open(Opened { ask }).map_err(StartError::Loop)?;
            running.inner.admin.open(line);
        }
        running.inner.open_kept();
        let mut running = Crew::run(running, queues)?;
        let given_up = running.inner.takeover.given_up.take();
        let finished = running.finish();
        match given_up {
            Some(cause) => Err(StartError::Takeover { path, cause }),
            None => Ok(finished),
        }
    }
}

/// The threads beside the loop, which tell it what they have done as if it were a command.
fn background(handle: Handle) -> io::Result<Background> {
    let Handle { commands, waker, .. } = handle;
    Background::start(move |done| {
        // A loop that has ended needs nothing any more.
        if commands.send(Command::Done(done)).is_ok() {
            let _ = waker.wake();
        }
    })
}

/// A loop that runs.
pub(super) struct Running {
    pub(super) inner: Loop,
    pub(super) listeners: Vec<Listener>,
    signals: Option<UnixStream>,
    renames: Option<UnixStream>,
    hangups: Option<UnixStream>,
    commands: mpsc::Receiver<Command>,
    /// When idle connections are looked at next.
    sweep: Time,
    pub(super) accept_again: Option<Time>,
    /// When what is still in flight is cut off.
    pub(super) until: Option<Time>,
    /// Why a worker has ended before its time.
    failed: Option<io::Error>,
}

impl Running {
    /// Time for which nothing will have to be done, unless something happens.
    fn timeout(&self) -> Option<Duration> {
        // The system tells of none of these again.
        if !self.inner.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let gates = self.inner.pools.iter().filter_map(|pool| pool.driver.next_wakeup()).min();
        let sweep = (!self.inner.pools.is_empty()).then_some(self.sweep);
        let quotas = self.inner.quotas.chain.next_wakeup();
        let (deadline, takeover) =
            (self.inner.deadlines.next(), self.inner.takeover.next_deadline());
        let (accept, drain) = (self.accept_again, self.inner.drains_at);
        let moments = [gates, quotas, sweep, deadline, accept, self.until, takeover, drain];
        // None: nothing is due before something happens, and the worker sleeps until then.
        let next = moments.into_iter().flatten().min()?;
        // The system counts milliseconds and rounds up.
        Some(next.since(self.inner.clock()))
    }

    /// Does what there is to do. Servers come first, so that nobody is given one that has gone.
    /// `broken`: connections that could not be written to when the loop had been let go.
    pub(super) fn turn(&mut self, events: &Events, broken: &mut Vec<Socket>) {
        self.inner.tick();
        // Before the events: a slot that a broken connection held is free for whoever asks in this turn.
        for socket in broken.drain(..) {
            self.happens(socket);
        }
        let is_server = |socket: &Socket| matches!(socket, Socket::Server(_));
        let sockets = || events.iter().map(|event| Socket::of(event.token()));
        for socket in sockets().filter(is_server) {
            self.happens(socket);
        }
        for socket in sockets().filter(|socket| !is_server(socket)) {
            self.happens(socket);
        }
        // Those that are there now: what they add has its turn behind the system's next events.
        for _ in 0..self.inner.again.len() {
            if let Some(socket) = self.inner.again.pop_front() {
                self.happens(socket);
            }
        }
        self.keep_time();
        if self.inner.has_waits() {
            self.inner.look_at_waits();
        }
        if cfg!(debug_assertions) {
            self.inner.check_invariants();
        }
    }

    fn happens(&mut self, socket: Socket) {
        // Waits and holds are measured: with one moment for a whole batch, its first would wait for nothing.
        self.inner.tick();
        match socket {
            Socket::Client(key) => self.inner.client_event(key),
            Socket::Server(key) => self.inner.server_event(key),
            Socket::Cancel(key) => self.inner.cancel_event(key),
            SIGNALS => self.hear_signals(),
            COMMANDS => self.obey(),
            HANGUPS => self.hear_hangups(),
            RENAMES => self.hear_renames(),
            DOOR => self.answer_door(),
            SUCCESSOR => self.hear_successor(),
            PREDECESSOR => self.hear_predecessor(),
            Socket::Own(own) => {
                if let Some(at) = own.checked_sub(LISTENERS) {
                    self.accept(at as usize);
                }
            }
        }
        self.inner.settle();
    }

    fn accept(&mut self, at: usize) {
        if self.inner.phase != Phase::Open {
            // An event from before; a successor accepts now.
            return;
        }
        let Some(listener) = self.listeners.get(at) else { return };
        if !self.inner.accept(listener) {
            self.accept_again = Some(self.inner.now + ACCEPT_AGAIN);
        }
    }

    fn accept_all(&mut self) {
        self.accept_again = None;
        for at in 0..self.listeners.len() {
            self.accept(at);
            self.inner.settle();
        }
    }

    /// Does what is due by now.
    fn keep_time(&mut self) {
        self.inner.tick();
        // One moment for all: what is due behind it is the next turn's, or this might never end.
        let now = self.inner.now;
        for pool in 0..self.inner.pools.len() {
            if self.inner.pools[pool].driver.next_wakeup().is_some_and(|moment| moment <= now) {
                self.inner.tell(pool, |driver, now| driver.wake(now));
            }
        }
        self.inner.quotas.chain.wake(self.inner.now);
        self.inner.settle();
        // Each of these clears its deadline, sets a later one, or ends its connection.
        while let Some(socket) = self.inner.deadlines.due(now) {
            match socket {
                Socket::Client(key) => self.inner.client_late(key),
                Socket::Server(key) => self.inner.server_late(key),
                Socket::Cancel(key) => self.inner.cancel_late(key),
                Socket::Own(_) => unreachable!("only connections have deadlines"),
            }
            self.inner.settle();
        }
        if self.sweep <= now {
            self.sweep = now + SWEEP;
            self.inner.sweep();
            self.inner.catch_up();
            self.inner.tell_decisions();
            self.inner.count_clients();
            self.inner.turn_period();
            self.inner.log_figures();
            self.inner.settle();
        }
        if self.inner.drains_at.is_some_and(|moment| moment <= now) {
            self.drain();
        }
        if self.accept_again.is_some_and(|moment| moment <= now) {
            self.accept_all();
        }
        if self.inner.takeover.next_deadline().is_some_and(|moment| moment <= now) {
            self.tend_takeover();
        }
    }

    fn hear_hangups(&mut self) {
        if heard(self.hangups.as_mut()) > 0 {
            self.inner.begin_reload(None);
        }
    }

    fn hear_renames(&mut self) {
        if heard(self.renames.as_mut()) > 0 {
            self.inner.access_log.reopen();
        }
    }

    fn hear_signals(&mut self) {
        // The first announces the drain, if that has a delay, and the next begins it; one more cuts it short.
        for _ in 0..heard(self.signals.as_mut()).min(3) {
            if self.inner.phase == Phase::Draining {
                self.until = Some(self.inner.now);
            } else if self.inner.drains_at.is_some() {
                self.drain();
            } else {
                self.announce_drain();
            }
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            // Who asked may have stopped waiting; the command is carried out all the same.
            match command {
                Command::Stats(reply) => {
                    let _ = reply.send(self.inner.snapshot());
                }
                Command::Recordings(reply) => {
                    let _ = reply.send(self.inner.recordings());
                }
                Command::Models(reply) => {
                    let _ = reply.send(self.inner.models());
                }
                Command::Drain(reply) => {
                    self.announce_drain();
                    let _ = reply.send(());
                }
                Command::ServersAnswer(reply) => {
                    self.inner.awaits_servers = false;
                    let _ = reply.send(());
                }
                Command::Tls(tls, reply) => {
                    self.inner.tls = tls;
                    let _ = reply.send(());
                }
                Command::Operate(asked) => {
                    if let Ending::Ends(when) = self.inner.operate(asked) {
                        self.shut_down(when);
                    }
                }
                Command::Done(done) => {
                    self.inner.hear_of(done);
                    self.inner.settle();
                }
                Command::AccessLog(reply) => {
                    let _ = reply.send(self.inner.config.access_log.clone());
                }
                Command::Reload(fresh, reply) => {
                    let taken = match fresh.follows(&self.inner.config) {
                        true => Ok(self.inner.reload(*fresh)),
                        false => Err(fresh),
                    };
                    let _ = reply.send(taken);
                }
                Command::Fresh(fresh) => self.inner.refreshed(fresh),
                Command::Changed(fresh, sets) => self.inner.changed(fresh, sets),
            }
        }
    }

    /// An administrator ends the monitor.
    fn shut_down(&mut self, when: Shutdown) {
        match when {
            Shutdown::WaitForServers => self.drain(),
            Shutdown::Now => {
                self.drain();
                self.until = Some(self.inner.now);
            }
            Shutdown::WaitForClients if self.inner.phase == Phase::Open => {
                // Whoever has connected already would be reset with the listener.
                self.accept_all();
                self.inner.phase = Phase::Leaving;
                self.stop_for_good();
            }
            // It goes on as it is.
            Shutdown::WaitForClients => {}
        }
    }

    /// Says that it drains, and begins after the delay: until then everybody is served as ever.
    fn announce_drain(&mut self) {
        let delay = self.inner.config.timeouts.drain_delay;
        if delay.is_zero() || self.inner.phase != Phase::Open {
            return self.drain();
        }
        let at = self.inner.now + delay;
        self.inner.drains_at.get_or_insert(at);
    }

    /// Lets nobody in any more, and sends away who has nothing under way.
    pub(super) fn drain(&mut self) {
        if self.inner.phase == Phase::Draining {
            return;
        }
        // Who waits at a listener that stays the predecessor's is let in there.
        if self.inner.takeover.given_up.is_none() {
            self.accept_all();
        }
        self.inner.phase = Phase::Draining;
        self.inner.drains_at = None;
        self.stop_for_good();
        self.inner.tell_predecessor_of_end();
        self.until = Some(self.inner.now + self.inner.config.timeouts.drain);
        let clients: Vec<Key> = self.inner.clients.iter().map(|(key, _)| key).collect();
        // By keys: what follows from the end of one may be the end of others.
        for key in clients {
            self.inner.dismiss(key);
            self.inner.settle();
        }
    }

    /// Nobody comes any more, neither clients nor a successor.
    fn stop_for_good(&mut self) {
        self.part_with_files();
        self.listeners.clear();
        self.inner.takeover.door = None;
        self.accept_again = None;
    }

    /// The next step of a worker.
    pub(super) fn next(&self) -> Next {
        if self.is_done() { Next::Ends } else { Next::Waits(self.timeout()) }
    }

    /// A worker cannot go on: all end.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// All workers have ended.
    ///
    /// # Errors
    /// If one of them could not go on.
    pub(super) fn outcome(mut self) -> Result<Running, StartError> {
        match self.failed.take() {
            Some(error) => Err(StartError::Loop(error)),
            None => Ok(self),
        }
    }

    fn is_done(&self) -> bool {
        if self.failed.is_some() {
            return true;
        }
        let may = match self.inner.phase {
            Phase::Open => false,
            // Before that it may have to serve on, whoever has gone by then.
            Phase::HandingOver => self.inner.takeover.is_served(),
            Phase::Leaving | Phase::Draining => true,
        };
        may && (self.inner.clients.is_empty()
            || self.until.is_some_and(|until| until <= self.inner.now))
    }

    /// Closes what is left. All slots are given back, so the recordings end complete.
    fn finish(mut self) -> Finished {
        self.inner.end_takeover();
        let clients: Vec<Key> = self.inner.clients.iter().map(|(key, _)| key).collect();
        let cut = clients.len();
        for key in clients {
            self.inner.send_away(key);
            self.inner.close(key);
            self.inner.settle();
        }
        // In rounds: the slots of one may let another job through its quotas, for which one more is made.
        while !self.inner.servers.is_empty() {
            let servers: Vec<Key> = self.inner.servers.iter().map(|(key, _)| key).collect();
            for key in servers {
                self.inner.drop_server(key);
                self.inner.settle();
            }
        }
        let busy = self.inner.pools.iter().map(|pool| pool.driver.busy()).sum::<u32>();
        assert_eq!(busy, 0, "all slots are back");
        self.inner.log.end();
        self.inner.access_log.end();
        let stats = self.inner.snapshot();
        let recordings = self.inner.recordings();
        let quotas = &self.inner.quotas;
        let recording = |at| quotas.chain.recording(at).cloned();
        let quota_recordings = quotas.places().map(recording).collect();
        Finished { stats, recordings, quota_recordings, cut }
    }
}

/// Number of signals that have come.
fn heard(signals: Option<&mut UnixStream>) -> usize {
    let Some(signals) = signals else { return 0 };
    // All of them are taken: the queue is edge-triggered, and one left would be heard with the next only.
    let mut bytes = [0; 16];
    let mut heard = 0;
    while let Ok(some @ 1..) = signals.read(&mut bytes) {
        heard += some;
    }
    heard
}

impl Loop {
    /// The figures up to now.
    pub(super) fn snapshot(&self) -> Stats {
        let pools = self.pools.iter().filter(|pool| !pool.vacant);
        let classes = self.config.classes.list();
        let pools = pools
            .map(|pool| pool.stats(self.now, &self.config.databases[pool.database].name, classes));
        let log_lost = self.log.lost() + self.access_log.lost();
        Stats {
            clients: self.clients.len(),
            pools: pools.collect(),
            quotas: self.quota_stats(),
            pins: self.pins(),
            log_lost,
            ..self.stats.clone()
        }
    }

    /// Goes on with what waited for work beside the loop.
    fn hear_of(&mut self, done: Done) {
        match done {
            Done::Hashed { server, step } => self.hashed(server, step),
            Done::LookedUp { database, user, found } => self.looked_up(database, user, found),
        }
    }

    fn recordings(&self) -> Vec<Option<Recording>> {
        let pools = self.pools.iter().filter(|pool| !pool.vacant);
        let classes = self.config.classes.list().iter().map(|class| class.name.clone());
        let classes: Vec<String> = classes.collect();
        let recordings = pools.map(|pool| {
            let mut recording = pool.driver.recording()?.clone();
            (recording.classes, recording.quotas) = (classes.clone(), pool.quotas.len() as u32);
            Some(recording)
        });
        recordings.collect()
    }

    /// A client has taken too long, to log in or to hear the last words.
    fn client_late(&mut self, key: Key) {
        let client = self.clients.get_mut(key).expect("it has a deadline");
        self.deadlines.clear(Socket::Client(key), &mut client.deadline);
        let is_at_rest = matches!(client.state, client::State::Idle | client::State::Migrating);
        assert!(!is_at_rest, "who is in and has nothing under way has no deadline");
        if matches!(client.state, client::State::Ending | client::State::Cancelling) {
            return self.close(key);
        }
        self.stats.logins_failed += 1;
        let seconds = self.config.timeouts.login.as_secs_f64();
        let message = format!("the login took longer than {seconds} s");
        self.fail(key, SqlState::PROTOCOL_VIOLATION, &message);
    }

    /// A drain begins: a client goes, unless a transaction of it is under way or waits.
    fn dismiss(&mut self, key: Key) {
        let Some(client) = self.clients.get(key) else { return };
        match client.state {
            client::State::Opening(_)
            | client::State::Looking(_)
            | client::State::Asked(_)
            | client::State::WaitingForWelcome(_) => {
                let message = "the gate is shutting down";
                self.fail(key, SqlState::CANNOT_CONNECT_NOW, message);
            }
            client::State::Idle => self.send_away(key),
            // What it keeps a server for may be a transaction, or only its session.
            client::State::Served(at) => self.dismiss_served(key, at),
            client::State::Waits(_)
            | client::State::Migrating
            | client::State::Ending
            | client::State::Cancelling => {}
        }
    }

    /// The same of one that has a server: it goes if its session alone keeps that.
    pub(super) fn dismiss_served(&mut self, key: Key, at: Key) {
        let server = self.servers.get(at).expect("who is served has a server");
        let client = self.clients.get(key).expect("its caller has it");
        let idle = server.relay.kept().is_none() && client.connection.read().is_empty();
        // Nothing tells where its stream could end; standbys connect again by themselves.
        let replicates = client.replication != Replication::No;
        if replicates || self.stays(server) && idle && server.greeting.is_none() {
            self.send_away(key);
        }
    }
}
