//! The TP monitor: many clients of PostgreSQL on few connections to servers, with a [`gate::Gate`]
//! between them.
//!
//! ```text
//!   clients ──▶ startup, auth ──▶ [ gate of the pool ] ──▶ slot ──▶ relay ──▶ server
//!                                     └──▶ 53300 with the estimate
//! ```
//!
//! A pool is a database as one user asks for it, and each has a gate. A client asks its gate for a
//! slot with its first message: for a session, a transaction or a statement, as the [`Mode`] has it.
//! The slot is the right to one connection to a server, which is idle already or made then. When
//! nothing is owed any more, the slot is given back and goes to whoever is next; the bytes that this
//! client sent while it waited are read already and go out at once.
//!
//! Who gets no slot, or no server, is told so as an error of what it has asked, as if its first message
//! had failed at a server; what it had sent with that has no effect, and its session goes on. In session
//! mode a session begins at its server, and there is none: it ends. While a client is
//! [unlinked](pgsession::unlinked) the gate answers what needs no server.
//!
//! A job may have a class, by rules over users, databases, programs and texts: the gate's discipline
//! and deadlines go by it. Whoever has a slot keeps it until nothing is owed any more: a transaction
//! that holds locks is never parked behind newcomers, however important these are.
//!
//! Of several servers the gate's router names one; by a key that the first messages tell, if there are
//! rules for it, in whichever pieces they come. Where a transaction says by key, text or access which
//! server it needs, one that a client pipelines behind another waits until that is answered; elsewhere it
//! passes at once. What is declared to be read only, by `BEGIN READ ONLY` or the setting
//! `default_transaction_read_only`, goes to replicas where there are any; nothing is guessed, and a
//! write that was declared read only meets PostgreSQL's own 25006. Servers may be [watched](Health): a
//! replica that is too far behind or a server that does not answer is left alone, and writes follow
//! the primary; while there is none they wait, up to their deadline.
//!
//! One thread runs one loop over `epoll`. Each socket is registered once, edge-triggered; a read that
//! brings less than was asked for is taken for all there is, so that a transaction of one question
//! and one answer costs two reads and two writes. Buffers are borrowed while bytes are pending. With
//! several [workers](Config::workers) each waits for a part of the connections, reads and writes on
//! its own, and takes turns with the others at the one loop, which decides for all. What
//! concerns bytes and what they mean is decided by parts without sockets: [`startup`](pgwire::startup),
//! [`auth`](pgwire::auth), [`relay`](pgsession::relay).
//!
//! A client that goes leaves its server to be cleaned: what it had begun is rolled back, a session is
//! forgotten with `DISCARD ALL`, and only then somebody else has the server. What cannot be cleaned
//! in time is closed. A cancel request goes to the server that its client has at that moment, and
//! nobody else has the server before it has arrived.
//!
//! Where a client has another server in each transaction, texts are looked at: nearly all at a prefilter,
//! the others once. Settings and roles go with their client, as its transactions have made them, and
//! are set at the next server before it hears anything else. What only one server has (LISTEN, advisory
//! locks of the session, temporary tables, cursors WITH HOLD, SQL's PREPARE) keeps that server for its
//! client, or is refused, as [`Config::session_state`] has it; [`Stats::pins`] is the ledger of who keeps one,
//! why, and at which cost. DO and CALL run unseen, and all that they can have left is cleaned up
//! behind them. What a function in a SELECT does within is not seen, but for the settings that
//! servers report: a temporary table that it makes stays on the connection.
//!
//! Connections are kept as [`Maintenance`] has it. One that was idle is read before somebody has it, and
//! asked if it was idle for long ([`Check`]): a server that ends a session between two transactions is
//! not noticed. While the only server lets nobody in, clients hear its own words at once.
//!
//! What a client resets in a transaction has the value again that the client began with as soon as the
//! text or the segment that resets it is done; what is behind it in the same text or segment sees the
//! server's own. In session mode a server begins with what its client has begun with.
//!
//! In transaction and statement mode a [model](live::model) listens to each gate: it says which demand
//! jobs have and what other numbers of slots would do. Where the slots are left to the gate ([`Auto`]), a
//! [`gate::Controller`] for each server moves inside the model's band, by trials; the gate hears of it as
//! of any other resize, so that recordings replay. Fewer slots never cut a job short.
//!
//! Connections to servers are encrypted as [`ServerTls`] has it, in libpq's modes; SCRAM is bound to
//! the server's certificate where the server offers that, and cancel requests go the same way as the
//! session. Clients may be asked for certificates ([`ClientTls`]), and may bind SCRAM to the gate's own:
//! the gate ends each exchange itself, with the secret that it has, and logs in at the server with
//! keys that the exchange leaves behind. An exchange that is bound to the server's certificate cannot
//! pass through anything. Secrets of users that no list has are looked up in a database ([`Lookup`])
//! while their logins wait; that and the hashing of passwords for servers is done beside the loop. A
//! replication connection has a connection of its own, never anybody else's,
//! and holds a slot of its pool until its client leaves, whatever the mode.
//!
//! Another configuration is taken while it runs, also by pools that are there: their gates begin anew,
//! with the slots held that are held and with those waiting who wait.
//!
//! Who operates it has a console and metrics of their own ([`Admin`]), on a thread beside the loop.
//!
//! ```no_run
//! use monitor::{Address, Config, Database, Monitor};
//! use pgwire::secrets::{MockKey, Users};
//!
//! let users = Users::parse("\"alice\" \"secret\"", MockKey::new([7; 32])).expect("a list");
//! let server = Address::Tcp("127.0.0.1:5432".parse().expect("an address"));
//! let database = Database::new("bench", vec![server], 20);
//! let listen = "127.0.0.1:6432".parse().expect("an address");
//! let monitor = Monitor::bind(Config::new(listen, vec![database], users))?;
//! let handle = monitor.handle();
//! let running = std::thread::spawn(move || monitor.run());
//! handle.drain().expect("the monitor runs");
//! running.join().expect("no panic")?;
//! # Ok::<(), monitor::StartError>(())
//! ```

mod access_log;
mod admin;
mod auth_query;
mod auth_query_connection;
mod auth_query_workers;
mod autodb;
mod backend;
mod background;
mod cancel;
mod classes;
mod classification;
mod client;
mod client_limits;
mod client_timeouts;
mod client_tls;
mod config;
mod connection;
mod deadlines;
mod frontend;
mod invariants;
mod janitor;
mod kept;
mod listen;
mod log;
mod modelling;
mod negotiation;
mod peer;
mod pool;
mod pool_lookup;
mod pool_rebuild;
mod probing;
mod quotas;
mod refusing;
mod reload;
mod run;
mod server;
mod server_tls;
mod serving;
mod session_state;
mod slab;
mod state;
mod stats;
mod takeover;
mod workers;
mod write_half;

pub use admin::Admin;
pub use auth_query::{LOOKUP_QUERY, Lookup};
pub use classes::{CLASSES_MAX, Classes, JobClass};
pub use client_tls::ClientTls;
pub use config::{
    AccessLog, Address, Admission, ClientTimeouts, Config, ConfigError, Database, Keepalive,
    Limits, Mode, ROOM, Reuse, Share, SocketFile, StartError, Tcp, Timeouts, Tls, TlsError,
    UnlistedUsers, UserTerms,
};
pub use janitor::{Check, Maintenance};
pub use kept::KeptNotice;
pub use live::{Auto, ClassStats, Controlled, Moved};
pub use log::Logged;
pub use pgsession::health::Health;
pub use quotas::Quotas;
pub use reload::{ReloadError, Reloaded};
pub use run::{ControlError, Handle, Monitor};
pub use server_tls::{
    Authorities, Encryption, EncryptionError, Negotiation, ServerTls, TlsMode, TlsVersion,
};
pub use stats::{Counters, Finished, Pin, PoolStats, QuotaStats, ServerStats, Stats};
pub use takeover::TakeoverError;
