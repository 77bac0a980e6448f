//! The server as a whole: sockets, the one thread, and its controls.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc as reply};
use std::time::Duration;

use gate::{Conduct, Report};
use live::model::Fitted;
use live::{Controlled, Estimate};
use measure::Recording;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::access_log::{Course, Requested, Requests};
use super::admin;
use super::config::{Config, SLOTS_MAX, StartError};
use super::connection::Connection;
use super::driver::{Driver, Up};
use super::health;
use super::pool::{Pool, Tally};
use super::reload::{self, ReloadError};
use super::stats::{Stats, UpstreamError, UpstreamStats};
use super::watch::{First, Watches, first};

/// Connections that the system keeps until they are accepted; it may lower this.
const BACKLOG: u32 = 4096;

/// State that all tasks of one server share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The configuration; another one after a reload.
    config: RefCell<Rc<Config>>,
    pub(crate) driver: Rc<Driver>,
    pub(crate) stats: Rc<RefCell<Stats>>,
    /// Of each server; more after a reload that adds some.
    pools: RefCell<Vec<Rc<Pool>>>,
    tallies: RefCell<Vec<Rc<Tally>>>,
    pub(crate) watches: Watches,
    pub(crate) requests: RefCell<Requests>,
    phase: Cell<Phase>,
    tls: RefCell<Option<TlsAcceptorDebug>>,
    open: Cell<usize>,
    /// The most that were open at once.
    open_most: Cell<usize>,
    closed: Notify,
    drain: Notify,
}

/// Phase of the gate's life, by what becomes of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Whoever comes is served, but should go elsewhere: it is told so with each response, and `/readyz`
    /// says so.
    Leaving,
    /// Nobody comes any more, and who asks for nothing goes.
    Draining,
}

/// An acceptor; its configuration holds a key, which is nobody's to print.
struct TlsAcceptorDebug(TlsAcceptor);

impl TlsAcceptorDebug {
    fn new(config: Arc<ServerConfig>) -> TlsAcceptorDebug {
        TlsAcceptorDebug(TlsAcceptor::from(config))
    }
}

impl std::fmt::Debug for TlsAcceptorDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsAcceptor")
    }
}

impl Shared {
    fn new(
        config: Config,
        tls: Option<Arc<ServerConfig>>,
        requests: Requests,
    ) -> Result<Shared, gate::SpecError> {
        let classes = config.classes.len() + 1;
        let pool = |(index, &address)| Rc::new(Pool::new(index, address));
        Ok(Shared {
            driver: Rc::new(Driver::new(&config)?),
            stats: Rc::new(RefCell::new(Stats::new(&config.upstreams, classes))),
            pools: RefCell::new(config.upstreams.iter().enumerate().map(pool).collect()),
            tallies: RefCell::new(
                (0..config.upstreams.len()).map(|index| Rc::new(Tally::new(index))).collect(),
            ),
            watches: Watches::default(),
            requests: RefCell::new(requests),
            phase: Cell::new(Phase::Open),
            tls: RefCell::new(tls.map(TlsAcceptorDebug::new)),
            open: Cell::new(0),
            open_most: Cell::new(0),
            closed: Notify::new(),
            drain: Notify::new(),
            config: RefCell::new(Rc::new(config)),
        })
    }

    /// Counts up to now.
    pub(crate) fn snapshot(&self) -> Stats {
        let mut stats = self.stats.borrow_mut();
        self.driver.refresh_stats(&mut stats);
        stats.log_lines_lost = self.requests.borrow().lost();
        stats.clone()
    }

    /// The configuration as it is now.
    pub(crate) fn config(&self) -> Rc<Config> {
        Rc::clone(&self.config.borrow())
    }

    /// Number of servers.
    pub(crate) fn servers(&self) -> usize {
        self.pools.borrow().len()
    }

    /// Connections of a server.
    pub(crate) fn pool(&self, server: usize) -> Rc<Pool> {
        Rc::clone(&self.pools.borrow()[server])
    }

    /// Recent results of a server.
    pub(crate) fn tally(&self, server: usize) -> Rc<Tally> {
        Rc::clone(&self.tallies.borrow()[server])
    }

    /// Acceptor of TLS for a client that connects now, if it must use that.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.borrow().as_ref().map(|acceptor| acceptor.0.clone())
    }

    /// True as long as clients are welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.phase.get() == Phase::Open
    }

    /// True once nobody is let in any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase.get() == Phase::Draining
    }

    /// A request has ended: it is counted, and its line is written.
    pub(crate) fn ended(&self, course: &Course, requested: Option<&Requested>, client: IpAddr) {
        let bytes = (course.received, course.sent);
        let class = self.driver.class_now(course.class);
        self.stats.borrow_mut().count_bytes(class, bytes);
        let requests = self.requests.borrow();
        if requests.is_kept() {
            let class = self.driver.class_name(class);
            let server = course.server.map(|server| self.pool(server).address().to_string());
            requests.ended(course, requested, client, (&class, server));
        }
    }

    /// A server was found to be up or down, in the latter case for a reason.
    pub(crate) fn set_up(&self, server: usize, up: Up, error: Option<UpstreamError>) {
        let was = self.driver.is_up(server);
        self.driver.set_up(server, up);
        let address = self.pool(server).address();
        match (was, up) {
            (true, Up::No) => {
                let why = error.map_or("?", UpstreamError::name);
                self.tell(&format!("server {address} is down: {why}"));
            }
            (false, Up::Yes) => self.tell(&format!("server {address} is up")),
            _ => {}
        }
    }

    /// Tells what is decided and what happens, if anybody listens.
    pub(crate) fn tell(&self, line: &str) {
        if let Some(told) = self.config().decisions {
            told(line);
        }
    }

    pub(crate) fn resize(&self, server: usize, slots: u32) -> Result<(), ControlError> {
        let servers = self.servers();
        if server >= servers {
            return Err(ControlError::NoServer { server, servers });
        }
        if slots > SLOTS_MAX {
            return Err(ControlError::Slots { slots });
        }
        if self.config().auto.is_some_and(|auto| auto.conduct == Conduct::Acts) {
            return Err(ControlError::Auto);
        }
        self.driver.resize(server, slots);
        Ok(())
    }

    /// Estimates of the servers.
    pub(crate) fn estimates(&self) -> Vec<Estimate> {
        self.driver.estimates()
    }

    /// Connections of clients that are open.
    pub(crate) fn clients(&self) -> u32 {
        self.open.get() as u32
    }

    /// Another configuration holds from now on, with this certificate. The servers that it adds come behind
    /// those that there are.
    pub(crate) fn replace(self: &Rc<Self>, config: Config, tls: Option<Arc<ServerConfig>>) {
        let before = self.config();
        let had = self.servers();
        let (old, new) = (before.class_names(), config.class_names());
        let numbers: Vec<Option<u32>> = old
            .iter()
            .map(|name| (0..).zip(&new).find(|(_, one)| *one == name).map(|(at, _)| at))
            .collect();
        let mut stats = self.stats.borrow_mut();
        for (index, &address) in config.upstreams.iter().enumerate().skip(had) {
            self.pools.borrow_mut().push(Rc::new(Pool::new(index, address)));
            self.tallies.borrow_mut().push(Rc::new(Tally::new(index)));
            stats.upstreams.push(UpstreamStats::new(address));
        }
        stats.renumber(&numbers, new.len());
        let paused = stats.paused;
        drop(stats);
        let is_other = config.gate != before.gate || old != new || config.auto != before.auto;
        let config = Rc::new(config);
        *self.config.borrow_mut() = Rc::clone(&config);
        *self.tls.borrow_mut() = tls.map(TlsAcceptorDebug::new);
        if is_other {
            self.driver.begin_anew(&config, &numbers, paused);
        }
        for server in had..config.upstreams.len() {
            spawn_local(health::watch(Rc::clone(self), server));
        }
        // The limit of connections may be another one.
        self.closed.notify_one();
    }

    fn modelled(&self) -> Modelled {
        Modelled {
            estimates: self.estimates(),
            control: self.driver.controlled(),
            fitted: self.driver.fitted(self.open_most.get() as u32),
        }
    }

    pub(crate) fn report(&self, server: usize, report: Report) -> Result<(), ControlError> {
        let servers = self.servers();
        if server >= servers {
            return Err(ControlError::NoServer { server, servers });
        }
        self.driver.report(server, report);
        Ok(())
    }

    pub(crate) fn pause(&self) {
        self.stats.borrow_mut().paused = true;
        self.driver.pause();
    }

    pub(crate) fn resume(&self) {
        self.stats.borrow_mut().paused = false;
        self.driver.resume();
    }

    /// Counts a client's connection until it is dropped.
    fn open(self: &Rc<Self>) -> Open {
        self.open.set(self.open.get() + 1);
        self.open_most.set(self.open_most.get().max(self.open.get()));
        let mut stats = self.stats.borrow_mut();
        stats.connections += 1;
        stats.connections_accepted += 1;
        Open(Rc::clone(self))
    }

    fn serve(self: &Rc<Self>, socket: TcpStream, peer: SocketAddr) {
        if socket.set_nodelay(true).is_err() {
            // The client has reset it already.
            return;
        }
        let open = self.open();
        let shared = Rc::clone(self);
        spawn_local(async move {
            Connection::serve(shared, socket, peer).await;
            drop(open);
        });
    }
}

struct Open(Rc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.stats.borrow_mut().connections -= 1;
        self.0.closed.notify_one();
    }
}

/// An HTTP gate that listens and is ready to [run](Server::run).
#[derive(Debug)]
pub struct Server {
    config: Config,
    runtime: Runtime,
    listener: TcpListener,
    admin: Option<TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    requests: Requests,
    down: Vec<usize>,
    commands: mpsc::UnboundedReceiver<Command>,
    handle: Handle,
    signals: Signals,
    source: Option<SourceDebug>,
}

/// A source; what it holds is nobody's to print.
struct SourceDebug(Source);

impl std::fmt::Debug for SourceDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// Effect of signals.
#[derive(Clone, Copy, Debug)]
enum Signals {
    /// What they do to the process anyway.
    Left,
    /// SIGTERM and SIGINT drain, SIGUSR1 opens the log anew, SIGHUP reads the configuration anew if there
    /// is a source of it.
    Heard,
}

/// Reads the configuration anew.
pub(crate) type Source = Arc<Mutex<dyn FnMut() -> Result<Config, String> + Send>>;

/// Results of a gate that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Counts.
    pub stats: Stats,
    /// Recording, if there was to be one.
    pub recording: Option<Recording>,
    /// Findings about the servers.
    pub modelled: Modelled,
    /// Connections that were cut because the drain took too long.
    pub cut: usize,
}

/// Findings of a gate about the servers behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// In numbers.
    pub estimates: Vec<Estimate>,
    /// Decisions about the slots, where they were left to the gate.
    pub control: Option<Controlled>,
    /// As the parts of a scenario, if a knee was seen.
    pub fitted: Option<Fitted>,
}

impl Server {
    /// Checks the configuration, reads the certificate and listens. Clients may connect from now
    /// on; they are served when it [runs](Server::run).
    ///
    /// # Errors
    /// If the configuration is invalid, an address is taken, or a certificate cannot be used.
    pub fn bind(config: Config) -> Result<Server, StartError> {
        let tls = config.tried_out()?;
        let requests = Requests::open(config.access_log.as_ref())?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
        let inside = runtime.enter();
        let listener = listen(config.listen)?;
        let admin = config.admin.map(listen).transpose()?;
        drop(inside);
        let (sender, commands) = mpsc::unbounded_channel();
        let address = local_address(&listener, config.listen)?;
        let admin_address = match (&admin, config.admin) {
            (Some(listener), Some(asked)) => Some(local_address(listener, asked)?),
            _ => None,
        };
        let handle = Handle { commands: sender, address, admin_address };
        Ok(Server {
            config,
            runtime,
            listener,
            admin,
            tls,
            requests,
            down: Vec::new(),
            commands,
            handle,
            signals: Signals::Left,
            source: None,
        })
    }

    /// The controls of this gate.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Begins with these servers, by their numbers, down: they did not answer before the start. A probe brings one
    /// up again.
    #[must_use]
    pub fn without_servers(mut self, down: Vec<usize>) -> Server {
        self.down = down;
        self
    }

    /// Lets SIGTERM and SIGINT begin a drain; a second one ends its delay, a third one cuts it short. SIGUSR1
    /// opens the access log anew.
    #[must_use]
    pub fn drain_on_signals(mut self) -> Server {
        self.signals = Signals::Heard;
        self
    }

    /// Lets SIGHUP have the configuration read anew: `source` is called then, on a thread that may block. What
    /// is wrong with it is told where [`Config::decisions`] are, and all stays as it was. With
    /// [`drain_on_signals`](Server::drain_on_signals) only.
    #[must_use]
    pub fn reload_from(
        mut self,
        source: impl FnMut() -> Result<Config, String> + Send + 'static,
    ) -> Server {
        self.source = Some(SourceDebug(Arc::new(Mutex::new(source))));
        self
    }

    /// Serves on the calling thread, which may have been pinned to a CPU, until a drain has ended.
    ///
    /// # Errors
    /// If the system's signals cannot be listened to.
    ///
    /// # Panics
    /// If the gate breaks one of its invariants: it stops rather than lie about its slots.
    pub fn run(self) -> Result<Finished, StartError> {
        let Server { config, runtime, listener, admin, tls, requests, down, commands, .. } = self;
        drop(self.handle);
        let shared = Rc::new(Shared::new(config, tls, requests)?);
        let tasks = LocalSet::new();
        let cut = tasks.block_on(&runtime, async {
            let mut asked = Asked::new(self.signals).map_err(StartError::Runtime)?;
            if let Signals::Heard = self.signals {
                heed(&shared, self.source).map_err(StartError::Runtime)?;
            }
            down.into_iter().for_each(|server| shared.driver.set_up(server, Up::No));
            spawn_keepers(&shared, commands, admin);
            let served = async {
                accept_until_drain(&shared, listener, &mut asked).await;
                drain(&shared, &mut asked).await;
            };
            let ended = first(served, shared.driver.death()).await;
            assert!(ended == First::One, "the gate broke one of its invariants; see above");
            Ok::<usize, StartError>(shared.open.get())
        })?;
        // Tasks that were cut give back their slots here, so the recording ends complete.
        drop(tasks);
        shared.requests.borrow_mut().end();
        Ok(Finished {
            stats: shared.snapshot(),
            recording: shared.driver.recording(),
            modelled: shared.modelled(),
            cut,
        })
    }
}

/// Starts the tasks that live as long as the server.
fn spawn_keepers(
    shared: &Rc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    admin: Option<TcpListener>,
) {
    spawn_local(Rc::clone(&shared.driver).keep_time());
    let clock = Rc::clone(shared);
    spawn_local(async move {
        let tick = || clock.config().timeouts.tick();
        let expire = || {
            let now = clock.driver.now();
            let age = clock.config().timeouts.pool_idle;
            let since = Duration::from_nanos(now.as_nanos()).saturating_sub(age);
            for pool in &*clock.pools.borrow() {
                pool.expire(gate::Time::ZERO + since);
            }
            now
        };
        clock.watches.keep_time(tick, expire).await;
    });
    for server in 0..shared.servers() {
        spawn_local(health::watch(Rc::clone(shared), server));
    }
    spawn_local(obey(Rc::clone(shared), commands));
    if let Some(listener) = admin {
        spawn_local(admin::serve(Rc::clone(shared), listener));
    }
}

async fn accept_until_drain(shared: &Rc<Shared>, listener: TcpListener, asked: &mut Asked) {
    let accept = async {
        loop {
            while shared.open.get() >= shared.config().limits.connections {
                shared.closed.notified().await;
            }
            match listener.accept().await {
                Ok((socket, peer)) => shared.serve(socket, peer),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // Out of descriptors or memory, most likely: there will be some again.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let leave = async {
        asked.drain(shared).await;
        shared.phase.set(Phase::Leaving);
        shared.stats.borrow_mut().draining = true;
        let delay = shared.config().timeouts.drain_delay;
        if !delay.is_zero() {
            shared.tell(&format!("is not ready any more; closes its listener in {delay:?}"));
            first(tokio::time::sleep(delay), asked.signal()).await;
        }
    };
    first(leave, accept).await;
    shared.phase.set(Phase::Draining);
    // Who has connected already is served still; closing the listener would reset them.
    if let Ok(listener) = listener.into_std() {
        while let Ok((socket, peer)) = listener.accept() {
            let nonblocking = socket.set_nonblocking(true);
            if let Ok(socket) = nonblocking.and_then(|()| TcpStream::from_std(socket)) {
                shared.serve(socket, peer);
            }
        }
    }
}

/// Waits until all connections are gone, or for as long as a drain may take.
async fn drain(shared: &Rc<Shared>, asked: &mut Asked) {
    shared.watches.wake_all();
    let gone = async {
        while shared.open.get() > 0 {
            shared.closed.notified().await;
        }
    };
    let patience = tokio::time::sleep(shared.config().timeouts.drain);
    let enough = async {
        first(patience, asked.signal()).await;
    };
    first(gone, enough).await;
}

/// Origin of a request for a drain.
struct Asked {
    signals: Option<[tokio::signal::unix::Signal; 2]>,
}

impl Asked {
    fn new(signals: Signals) -> std::io::Result<Asked> {
        let signals = match signals {
            Signals::Left => None,
            Signals::Heard => {
                Some([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?])
            }
        };
        Ok(Asked { signals })
    }

    async fn signal(&mut self) {
        match &mut self.signals {
            None => std::future::pending().await,
            Some([terminate, interrupt]) => {
                let terminated = async {
                    terminate.recv().await;
                };
                let interrupted = async {
                    interrupt.recv().await;
                };
                first(terminated, interrupted).await;
            }
        }
    }

    async fn drain(&mut self, shared: &Shared) {
        first(shared.drain.notified(), self.signal()).await;
    }
}

/// Listens to the signals that do not end the gate.
fn heed(shared: &Rc<Shared>, source: Option<SourceDebug>) -> std::io::Result<()> {
    let mut renamed = signal(SignalKind::user_defined1())?;
    let log = Rc::clone(shared);
    spawn_local(async move {
        while renamed.recv().await.is_some() {
            log.requests.borrow().reopen();
        }
    });
    let Some(SourceDebug(source)) = source else { return Ok(()) };
    let mut hangups = signal(SignalKind::hangup())?;
    let shared = Rc::clone(shared);
    spawn_local(async move {
        while hangups.recv().await.is_some() {
            for line in reload::from(&shared, Arc::clone(&source)).await {
                shared.tell(&line);
            }
        }
    });
    Ok(())
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|source| StartError::Listen { address, source })
}

fn local_address(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|source| StartError::Listen { address: asked, source })
}

/// The controls of a running gate, for any thread but the one that runs it: each call waits for
/// its answer.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Unbounded, but each caller waits for its answer, so callers bound it.
    commands: mpsc::UnboundedSender<Command>,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
}

/// Why a control did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The gate has ended.
    #[error("the gate has ended")]
    Ended,
    /// There is no such server.
    #[error("there is no server {server}: there are {servers}, counted from 0")]
    NoServer {
        /// Index that was named.
        server: usize,
        /// Number of servers.
        servers: usize,
    },
    /// The gate finds the slots itself.
    #[error("the slots are left to the gate: start it with a number of slots to set them")]
    Auto,
    /// So many slots would only cost memory.
    #[error("{slots} slots are more than {SLOTS_MAX}")]
    Slots {
        /// Number of slots asked for.
        slots: u32,
    },
}

#[derive(Debug)]
enum Command {
    Resize { server: usize, slots: u32, reply: reply::Sender<Result<(), ControlError>> },
    Pause(reply::Sender<()>),
    Resume(reply::Sender<()>),
    WaitMax(Duration, reply::Sender<()>),
    Stats(reply::Sender<Stats>),
    Recording(reply::Sender<Option<Recording>>),
    Reload(Box<Config>, reply::Sender<Result<Vec<String>, ReloadError>>),
    Drain(reply::Sender<()>),
}

impl Handle {
    /// Address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of `/metrics`, if it is served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Gives a server this many slots from now on. Jobs in slots that are gone finish in peace.
    ///
    /// # Errors
    /// If there is no such server, or the gate has ended.
    pub fn resize(&self, server: usize, slots: u32) -> Result<(), ControlError> {
        self.ask(|reply| Command::Resize { server, slots, reply })?
    }

    /// Starts no job until [`resume`](Handle::resume); jobs go on arriving, waiting and timing out.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn pause(&self) -> Result<(), ControlError> {
        self.ask(Command::Pause)
    }

    /// Starts jobs again.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn resume(&self) -> Result<(), ControlError> {
        self.ask(Command::Resume)
    }

    /// Sets the longest wait of jobs that arrive from now on.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn set_wait_max(&self, span: Duration) -> Result<(), ControlError> {
        self.ask(|reply| Command::WaitMax(span, reply))
    }

    /// Counts up to now.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn stats(&self) -> Result<Stats, ControlError> {
        self.ask(Command::Stats)
    }

    /// Recording up to now; `None` if nothing is to be.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn recording(&self) -> Result<Option<Recording>, ControlError> {
        self.ask(Command::Recording)
    }

    /// Takes another configuration; whoever waits or is served notices nothing. Sentences about what counts
    /// only after a restart.
    ///
    /// # Errors
    /// If it describes no gate, its certificate cannot be used, it takes away or reorders servers, or its access
    /// log, if it is another one, cannot be written; or if the gate has ended. All is as it was then.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, ReloadError> {
        self.ask(|reply| Command::Reload(Box::new(config), reply))?
    }

    /// Accepts nobody any more, serves what is in flight or waits, and ends.
    ///
    /// # Errors
    /// If the gate has ended.
    pub fn drain(&self) -> Result<(), ControlError> {
        self.ask(Command::Drain)
    }

    fn ask<T>(&self, command: impl FnOnce(reply::Sender<T>) -> Command) -> Result<T, ControlError> {
        let (sender, answer) = reply::channel();
        self.commands.send(command(sender)).map_err(|_| ControlError::Ended)?;
        answer.recv().map_err(|_| ControlError::Ended)
    }
}

/// Carries out commands. Ends when nobody is left to give any.
async fn obey(shared: Rc<Shared>, mut commands: mpsc::UnboundedReceiver<Command>) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Resize { server, slots, reply } => tell(reply, shared.resize(server, slots)),
            Command::Pause(reply) => {
                shared.pause();
                tell(reply, ());
            }
            Command::Resume(reply) => {
                shared.resume();
                tell(reply, ());
            }
            Command::WaitMax(span, reply) => {
                shared.driver.set_wait_max(span);
                tell(reply, ());
            }
            Command::Stats(reply) => tell(reply, shared.snapshot()),
            Command::Reload(config, reply) => tell(reply, reload::take(&shared, *config).await),
            Command::Recording(reply) => tell(reply, shared.driver.recording()),
            Command::Drain(reply) => {
                shared.drain.notify_one();
                tell(reply, ());
            }
        }
    }
}

/// Who asked may have stopped waiting; the command is carried out all the same.
fn tell<T>(reply: reply::Sender<T>, answer: T) {
    let _ = reply.send(answer);
}
