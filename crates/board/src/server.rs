//! Connections of the board: accepted within a bound, on a loopback address, ended with their last answer.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::board::Board;
use crate::choice::Choice;
use crate::post::{Durability, StoreError};
use crate::request::{PATIENCE, answer};
use crate::verify::Verified;

/// The most connections; beyond, none is accepted until one ends.
const CONNECTIONS_MAX: usize = 2_000;
/// The time that requests may take to end after a stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Why a board does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Others would reach it, and there are no users.
    #[error("{0} is no loopback address, and everybody may write on this board: use 127.0.0.1")]
    Public(SocketAddr),
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
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Counts that only rise.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Requests answered.
    pub requests: AtomicU64,
}

struct Shared {
    board: Board,
    traffic: Traffic,
    stopping: watch::Receiver<bool>,
}

/// A board that answers until it is stopped.
pub struct Server {
    address: SocketAddr,
    runtime: Runtime,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    room: Arc<Semaphore>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

impl Server {
    /// Opens a store and listens.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        listen: SocketAddr,
        choice: &Choice,
        durability: Durability,
    ) -> Result<Self, StartError> {
        if !listen.ip().is_loopback() {
            return Err(StartError::Public(listen));
        }
        let wrong = |cause| StartError::Listen { address: listen, cause };
        // Before the store is touched: a second start by mistake should leave it alone.
        let listener = jungle_server::listener(listen).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let runtime = Builder::new_multi_thread().enable_all().thread_name("board").build();
        let runtime = runtime.map_err(StartError::Runtime)?;
        let board = runtime.block_on(async { Board::on(choice.open(durability).await?).await })?;
        let (stop, stopping) = watch::channel(false);
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let shared = Arc::new(Shared { board, traffic: Traffic::default(), stopping });
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener).map_err(wrong)?
        };
        runtime.spawn(accept(listener, Arc::clone(&shared), Arc::clone(&room)));
        Ok(Self { address, runtime, shared, stop, room })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.shared.board
    }

    /// Counts of connections and requests.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    /// Opens a thread from within the process; its id.
    ///
    /// # Errors
    /// [`BoardError`](crate::BoardError).
    pub fn open(&self, author: &str, title: &str) -> Result<u64, crate::BoardError> {
        self.runtime.block_on(self.shared.board.open(crate::request::clock(), author, title))
    }

    /// Holds what is stored against what was acknowledged. Nobody may write meanwhile.
    ///
    /// # Errors
    /// [`StoreError`], if the store cannot be read.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        self.runtime.block_on(self.shared.board.verify())
    }

    /// Accepts nobody any more, lets requests end, holds what is stored against what was acknowledged, and makes
    /// everything safe.
    ///
    /// # Errors
    /// [`StoreError`], if that cannot be done.
    pub fn stop(self) -> Result<Verified, StoreError> {
        self.stop.send_replace(true);
        let drained = self.room.acquire_many(CONNECTIONS_MAX as u32);
        // Whoever takes longer is cut off; what was acknowledged stays.
        drop(self.runtime.block_on(async { tokio::time::timeout(DRAIN, drained).await }));
        let verified = self.runtime.block_on(self.shared.board.verify());
        let stopped = self.shared.board.store().stop();
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        stopped.and(verified)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, room: Arc<Semaphore>) {
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
        shared.traffic.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            connection(stream, shared).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Small answers must not wait for acknowledgements of those before.
    drop(stream.set_nodelay(true));
    let mut stopping = shared.stopping.clone();
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let reply = answer(request, &shared.board).await;
            shared.traffic.requests.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(reply)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    // Whoever breaks off or speaks no HTTP has been told by hyper, as far as that was possible.
    tokio::select! {
        ended = served.as_mut() => return drop(ended),
        _ = stopping.wait_for(|stop| *stop) => served.as_mut().graceful_shutdown(),
    }
    drop(served.await);
}
