//! The stores of a board as a user names them, and what they need: a folder, or a private server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use board::{Choice, Durability};
use board_bench::Threads;
use clap::ValueEnum;
use cli::Failure;
use cli::text::sentence;
use databases::PrivateArgs;
use postgres::{Private, StartError};
use rivals::{CommitLog, Lent};

/// Heap of a private Cassandra \[MiB\].
const HEAP_MIB: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreName {
    /// A private Cassandra, fetched once, started for this, and removed at the end with all that is in it; needs a
    /// build with `--features cassandra`
    Cassandra,
    /// A private etcd, started for this, and removed at the end with all that is in it; strict alone
    Etcd,
    /// The tree database, in this process
    Jungle,
    /// A private PostgreSQL, started for this, and removed at the end with all that is in it
    Postgres,
    /// SQLite with a write-ahead log, in this process
    Sqlite,
}

impl StoreName {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cassandra => "cassandra",
            Self::Etcd => "etcd",
            Self::Jungle => "jungle",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }

    /// True if it is in the board's process, with a folder of the user's.
    pub(crate) fn has_folder(self) -> bool {
        matches!(self, Self::Jungle | Self::Sqlite)
    }

    /// Refuses a store that this build has no client of, or that has no such class.
    pub(crate) fn check(self, durability: DurabilityName) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::Usage(text.into()));
        match (self, durability) {
            (Self::Cassandra, _) if !board::HAS_CASSANDRA => refuse(
                "this build has no client of Cassandra, which few need: build it with `cargo build --release -p \
                 sekisho --features cassandra`",
            ),
            (Self::Etcd, DurabilityName::Relaxed) => refuse(
                "etcd syncs every write before it answers, and has no relaxed class: say `--durability strict`, or \
                 leave etcd out",
            ),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    /// An acknowledged write is on the disk
    Strict,
    /// A power failure may lose the newest writes
    Relaxed,
}

impl DurabilityName {
    pub(crate) fn word(self) -> &'static str {
        self.class().word()
    }

    pub(crate) fn class(self) -> Durability {
        match self {
            Self::Strict => Durability::Strict,
            Self::Relaxed => Durability::Relaxed,
        }
    }
}

/// Server that a store needs, started for it.
enum Server {
    Postgres(Private),
    Rival(Lent),
}

/// A store that is there, with the server that it needs.
pub(crate) struct Ready {
    pub(crate) choice: Choice,
    server: Option<Server>,
}

impl Ready {
    /// Starts what a store needs, or takes the server at an address.
    pub(crate) fn start(
        name: StoreName,
        durability: Durability,
        folder: &Path,
        (postgres, at): (&PrivateArgs, Option<SocketAddr>),
        interrupt: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let lent = || rivals::Settings {
            interrupt: Some(Arc::clone(interrupt)),
            notice: tell,
            ..rivals::Settings::default()
        };
        let place = |address: SocketAddr| format!("{address}/sekisho_board");
        Ok(match (name, at) {
            (StoreName::Jungle, _) => Self::of(Choice::Jungle(folder.to_owned())),
            (StoreName::Sqlite, _) => Self::of(Choice::Sqlite(folder.to_owned())),
            (StoreName::Cassandra, Some(at)) => Self::of(Choice::Cassandra(place(at))),
            (StoreName::Etcd, Some(at)) => Self::of(Choice::Etcd(place(at))),
            (StoreName::Cassandra, None) => {
                let commit_log = match durability {
                    Durability::Strict => CommitLog::Batch,
                    Durability::Relaxed => CommitLog::Periodic,
                };
                let server = Lent::cassandra(&lent(), commit_log, HEAP_MIB).map_err(not_started)?;
                let choice = Choice::Cassandra(place(server.address()));
                Self { choice, server: Some(Server::Rival(server)) }
            }
            (StoreName::Etcd, None) => {
                let server = Lent::etcd(&lent(), None).map_err(not_started)?;
                let choice = Choice::Etcd(place(server.address()));
                Self { choice, server: Some(Server::Rival(server)) }
            }
            (StoreName::Postgres, _) => {
                let parameters = [("shared_buffers", "256MB")];
                let settings = postgres.settings(&parameters, Some(Arc::clone(interrupt)));
                let private = Private::start(&settings).map_err(|error| match error {
                    StartError::Interrupted => Failure::Interrupted("start of PostgreSQL".into()),
                    error => Failure::machine(error),
                })?;
                let choice = Choice::Postgres(private.url().as_str().to_owned());
                Self { choice, server: Some(Server::Postgres(private)) }
            }
        })
    }

    fn of(choice: Choice) -> Self {
        Self { choice, server: None }
    }

    pub(crate) fn stop(self) -> Result<(), Failure> {
        match self.server {
            None => Ok(()),
            Some(Server::Postgres(private)) => private.stop().map_err(Failure::machine),
            Some(Server::Rival(server)) => server.stop().map_err(Failure::machine),
        }
    }
}

fn not_started(error: rivals::StartError) -> Failure {
    match error {
        rivals::StartError::Interrupted => Failure::Interrupted("start of the store".into()),
        error => Failure::machine(error),
    }
}

/// Tells what takes long before it begins: a download, with its size.
fn tell(line: &str) {
    // Who closed standard error does not want to know.
    let _ = write!(std::io::stderr(), "{}", sentence(line));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChoiceName {
    /// Each thread as often as any other
    Uniform,
    /// Few threads most of the time: the k-th has a weight of 1/k (Zipf's law)
    Zipf,
}

impl ChoiceName {
    pub(crate) fn threads(self) -> Threads {
        match self {
            Self::Uniform => Threads::Uniform,
            Self::Zipf => Threads::Zipf,
        }
    }
}
