//! Lends: a private PostgreSQL server. It is found on the machine or fetched, started in a folder of
//! its own, stopped, and removed with everything in it.
//!
//! [`Private::start`] does all of that. The server listens on a socket and on a free port of
//! 127.0.0.1, and nobody comes in without its password, which is random unless told. It cannot outlive
//! the process that started it, however that one ends. PostgreSQL refuses to run as root, so there it runs as an
//! unprivileged user, and nothing is read or written as root in a folder that this user owns.
//!
//! This crate uses nothing else of ours, and speaks no SQL: what is measured must not know who
//! measures.
//!
//! ```no_run
//! use postgres::{Private, Settings};
//!
//! let settings = Settings {
//!     parameters: vec![("shared_buffers".to_owned(), "256MB".to_owned())],
//!     ..Settings::default()
//! };
//! let server = Private::start(&settings)?;
//! println!("connect to {}", server.url().as_str());
//! server.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod archive;
mod folder;
mod lent;
mod private;
mod process;
mod programs;
mod url;
mod watchdog;

pub use account::AccountError;
pub use archive::{FetchError, MAVEN_CENTRAL};
pub use private::{Keep, Private, RestartError, Settings, StartError, StopError};
pub use programs::{MAJOR_MAX, MAJOR_MIN, Programs, Rejected, Search};
pub use url::Url;
