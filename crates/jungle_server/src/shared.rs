//! The bounds of a server, and what all of its requests share.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;

use crate::idempotency::Keys;
use crate::store::{Store, StoreSettings};
use crate::users::Users;

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSettings {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// The most bytes of a request's body \[B\].
    pub body_max: usize,
    /// The most bytes of a blob \[B\].
    pub blob_max: u64,
    /// The most connections; beyond, none is accepted until one ends.
    pub connections_max: usize,
    /// The time between two positions that a watch is told.
    pub heartbeat: Duration,
    /// The time for a head or a body to arrive, and for which a client may take nothing of an answer.
    pub patience: Duration,
    /// The time that requests may take to end after a stop.
    pub drain: Duration,
    /// The store.
    pub store: StoreSettings,
}

impl ServerSettings {
    /// Bodies of 8 MiB, blobs of 1 GiB, 1,000 connections, a position each 10 s.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            body_max: 8 << 20,
            blob_max: 1 << 30,
            connections_max: 1_000,
            heartbeat: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            store: StoreSettings::default(),
        }
    }
}

/// Everything that requests share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) settings: ServerSettings,
    pub(crate) users: Option<Users>,
    pub(crate) keys: Keys,
    pub(crate) folder: std::path::PathBuf,
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) problems: AtomicU64,
    /// True once the server is to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}
