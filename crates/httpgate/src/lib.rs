//! The HTTP gate: a reverse proxy with a [`gate::Gate`] in front.
//!
//! ```text
//!   clients ──▶ head ──▶ [ gate ] ──▶ slot ──▶ server
//!                           └──▶ 503 with Retry-After
//! ```
//!
//! A request asks for a slot when its head is complete, and holds it until the server's last byte
//! is read into a bounded buffer: a client that reads slowly does not hold it, unless the response
//! is larger than the buffer. A client that leaves while it waits reneges. A client that leaves
//! while it is served leaves a server at work, so its slot is held on for a while.
//!
//! A request that could not be connected to its server gives its slot back and arrives anew, with
//! the deadline that it had, so that another server may take it. While no server is up, requests
//! wait as long as [`GateSpec::unreachable_max`](gate::GateSpec::unreachable_max) says; by default
//! they are refused at once.
//!
//! A connection that a client half-closes counts as closed while its request waits. Trailer fields
//! are dropped in both directions. `Upgrade`, CONNECT and TRACE are refused.
//!
//! Inside, a core without sockets ([`message`], [`body`]) reads heads and bodies and refuses what
//! could be read in two ways; one task a connection, all on one thread, moves bytes; one driver
//! tells the gate what happened and when.
//!
//! ```no_run
//! use httpgate::{Config, Server};
//!
//! let listen = "127.0.0.1:8080".parse().expect("an address");
//! let server = "127.0.0.1:8081".parse().expect("an address");
//! let gate = Server::bind(Config::new(listen, vec![server], 8))?;
//! let handle = gate.handle();
//! let running = std::thread::spawn(move || gate.run());
//! handle.resize(0, 16).expect("the gate runs");
//! handle.drain().expect("the gate runs");
//! running.join().expect("no panic")?;
//! # Ok::<(), httpgate::StartError>(())
//! ```

mod access_log;
mod admin;
mod answer;
pub mod body;
mod buf;
mod classes;
mod config;
mod connection;
mod driver;
mod exchange;
mod fields;
mod health;
mod io;
pub mod message;
mod pool;
mod reload;
mod rewrite;
mod server;
mod state;
mod stats;
mod watch;

pub use config::{
    AccessLog, Auto, CLASSES_MAX, Class, Config, ConfigError, Field, Forwarded, Health, Key,
    Limits, LoggedTarget, Probe, ROOM, StartError, Text, Timeouts, Tls, TlsError,
};
pub use live::{BUCKETS, Times};
pub use reload::ReloadError;
pub use server::{ControlError, Finished, Handle, Modelled, Server};
pub use stats::{Stats, Traffic, UpstreamError, UpstreamStats};
