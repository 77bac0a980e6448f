//! Stands in: HTTP servers on loopback to measure against.
//!
//! [`Origin`] is a real HTTP server, written here, whose requests each burn a known amount of real
//! CPU time, g(x) = a x + b for a document of x bytes, so that what was measured can be held
//! against what is true. `Apache` (on Linux) starts the machine's own Apache with a private
//! configuration, for what no built-in server can witness.
//!
//! This crate uses nothing else of ours: what is measured must not know who measures.
//!
//! ```
//! use origin::{Demand, Document, Origin, OriginConfig, Serving};
//! use std::io::{Read, Write};
//!
//! let origin = Origin::start(&OriginConfig {
//!     documents: vec![Document { name: "5k".to_owned(), bytes: 5_000 }],
//!     bytes_max: 1_000_000,
//!     demand: Demand { per_byte_s: 1e-8, base_s: 200e-6 },
//!     workers: 2,
//!     serving: Serving::Threads,
//!     cpu: None,
//!     backlog: 64,
//!     keep_alive: false,
//! })?;
//! let mut client = std::net::TcpStream::connect(origin.address())?;
//! client.write_all(b"GET /5k HTTP/1.0\r\n\r\n")?;
//! let mut response = Vec::new();
//! client.read_to_end(&mut response)?;
//! assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
//!
//! let usage = origin.stop();
//! assert_eq!(usage.served, 1);
//! assert_eq!(usage.demand.as_micros(), 250);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod affinity;
#[cfg(target_os = "linux")]
mod apache;
mod board;
mod demand;
mod document;
mod http;
#[cfg(target_os = "linux")]
mod kept;
mod kernel;
mod origin;
mod supervisor;
mod worker;

pub use affinity::{allowed_cpus, pin_current_thread};
#[cfg(target_os = "linux")]
pub use apache::{
    Apache, ApacheConfig, ApacheError, ApacheMissing, ApacheServer, ApacheUsage, HelperUsage, Work,
};
pub use demand::Demand;
pub use document::{Document, DocumentError};
#[cfg(target_os = "linux")]
pub use kernel::{ListenOverflows, listen_overflows};
pub use origin::{Memory, Origin, OriginConfig, Serving, StartError, Usage};
pub use supervisor::{Supervised, run_if_supervisor};
