//! Connections and their limits: whoever comes gets an answer, and whoever is there when the server ends is not
//! cut off.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use access::{AccessError, ElsewhereError};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jungle::Started;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::directory::{Directory, DirectoryError};
use crate::exchange::{Ask, Reply, problem, set};
use crate::idempotency::Keys;
use crate::problem::Problem;
use crate::routes;
use crate::shared::{ServerSettings, Shared};
use crate::store::{OpenError, Store, StoreThread};
use crate::users::{Caller, Users};

/// Who may come, and how what is said is kept from others. By default everybody on this machine.
pub type Access = access::Access<Users>;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Others would reach it, without users or TLS, or the certificate cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address is not to be had.
    #[error("cannot listen on {address}: {cause}; name another address, or end who has it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        cause: io::Error,
    },
    /// The system has no threads.
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

/// Connections that may wait to be accepted; the system takes them down to its own limit (somaxconn).
const BACKLOG: i32 = 4096;

/// A socket that listens, for a runtime. All clients of a load generator come at once: whoever finds no room among those
/// that wait tries again after a second, so there is more of it than the 128 of the standard library.
///
/// # Errors
/// The address cannot be listened on.
pub fn listener(address: SocketAddr) -> io::Result<StdListener> {
    let listener = StdListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A server that runs until it is stopped.
pub struct Server {
    address: SocketAddr,
    started: Started,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    thread: StoreThread,
    store: Store,
    room: Arc<Semaphore>,
    settings: ServerSettings,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

impl Server {
    /// Opens a directory, which is made if it is not there, and listens.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        folder: &Path,
        settings: ServerSettings,
        access: Access,
    ) -> Result<Self, StartError> {
        let acceptor = access.check(settings.listen)?;
        let listen = |cause| StartError::Listen { address: settings.listen, cause };
        // Before the directory is touched: a second start by mistake should leave it alone.
        let listener = listener(settings.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let directory = Directory::take(folder).map_err(OpenError::from)?;
        let (store, thread, started) = Store::open(directory, settings.store)?;
        let runtime = Builder::new_multi_thread().enable_all().thread_name("http").build();
        let runtime = runtime.map_err(StartError::Runtime)?;
        let (stop, stopping) = watch::channel(false);
        let room = Arc::new(Semaphore::new(settings.connections_max.max(1)));
        let shared = Arc::new(Shared {
            store: store.clone(),
            settings,
            users: access.users,
            keys: Keys::of(&store.version()),
            folder: folder.to_owned(),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            problems: AtomicU64::new(0),
            stopping,
        });
        let accepting = Arc::clone(&room);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener).map_err(listen)?
        };
        runtime.spawn(accept(listener, shared, accepting, acceptor));
        Ok(Self { address, started, runtime, stop, thread, store, room, settings })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the start found in the directory.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Tells whether the database's thread has ended, which only a defect brings about.
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    /// Accepts nobody any more, lets requests end, makes everything safe, and lets go of the directory.
    ///
    /// # Errors
    /// [`DirectoryError`], if the end cannot be written down.
    pub fn stop(self) -> Result<(), DirectoryError> {
        self.stop.send_replace(true);
        let all = self.settings.connections_max.max(1) as u32;
        let drained = self.room.acquire_many(all);
        // Whoever takes longer is cut off; what was committed stays.
        drop(
            self.runtime
                .block_on(async { tokio::time::timeout(self.settings.drain, drained).await }),
        );
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        self.thread.stop()
    }
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    acceptor: Option<TlsAcceptor>,
) {
    let mut stopping = shared.stopping.clone();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, say: whoever waits is taken as soon as one is free.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
        tokio::spawn(async move {
            shared.connections.fetch_add(1, Ordering::Relaxed);
            connection(stream, Arc::clone(&shared), acceptor).await;
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, acceptor: Option<TlsAcceptor>) {
    // Small answers must not wait for acknowledgements of those before.
    drop(stream.set_nodelay(true));
    // Whoever takes nothing for so long is gone: the system then ends the connection, whatever waits to be sent.
    let silence = u32::try_from(shared.settings.patience.as_millis()).unwrap_or(u32::MAX);
    set_tcp_user_timeout(&stream, silence).ok();
    let Some(acceptor) = acceptor else { return converse(stream, shared).await };
    // Whoever does not end a handshake in time is let go, as whoever sends no head.
    let shaken = tokio::time::timeout(shared.settings.patience, acceptor.accept(stream)).await;
    if let Ok(Ok(stream)) = shaken {
        converse(stream, shared).await;
    }
}

/// Answers the requests of a connection until it ends.
async fn converse<S>(stream: S, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut stopping = shared.stopping.clone();
    let patience = shared.settings.patience;
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(answer(request, &shared).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    // Whoever breaks off or speaks no HTTP has been told by hyper, as far as that was possible.
    tokio::select! {
        ended = served.as_mut() => return drop(ended),
        _ = stopping.wait_for(|stop| *stop) => served.as_mut().graceful_shutdown(),
    }
    drop(served.await);
}

/// Answers a request; an error becomes a problem that names the place.
async fn answer(request: Request<hyper::body::Incoming>, shared: &Arc<Shared>) -> Reply {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let place = request.uri().path().to_owned();
    let answered = async {
        let caller = caller(&request, shared)?;
        let settings = &shared.settings;
        let ask = Ask::read(request, caller, settings.body_max, settings.patience).await?;
        routes::answer(ask, shared).await
    };
    let mut reply = match answered.await {
        Ok(reply) => reply,
        Err(mut told) => {
            shared.problems.fetch_add(1, Ordering::Relaxed);
            told.instance = place.into();
            problem(&told)
        }
    };
    let (generation, seq) = (shared.store.generation(), shared.store.version().seq());
    if !reply.headers().contains_key("jungle-token") {
        set(&mut reply, "jungle-token", &format!("{generation}.{seq}"));
    }
    reply
}

/// Whoever sends a request. What anybody may see, the page and whether the server lives, asks for no access token.
fn caller(request: &Request<Incoming>, shared: &Shared) -> Result<Caller, Problem> {
    let Some(users) = &shared.users else {
        from_here(request)?;
        return Ok(Caller::default());
    };
    if matches!(
        request.uri().path(),
        "/" | "/page.css" | "/page.js" | "/openapi.json" | "/healthz" | "/readyz"
    ) {
        return Ok(Caller::default());
    }
    let said = request.headers().get("authorization").and_then(|said| said.to_str().ok());
    users.caller(said)
}

/// Nothing, where no page of somebody else can have sent the request.
fn from_here<B>(request: &Request<B>) -> Result<(), Problem> {
    let text = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value: &hyper::header::HeaderValue| value.to_str().ok())
    };
    access::from_here(text("host").unwrap_or_default(), text("origin")).map_err(|error| match error
    {
        ElsewhereError::Host(_) => {
            Problem::new(421, "host", "Another server is meant", error.to_string())
        }
        ElsewhereError::Origin(_) => Problem::new(403, "origin", "Not allowed", error.to_string()),
    })
}
