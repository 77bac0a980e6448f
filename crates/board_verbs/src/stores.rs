//! The stores of a board as a user names them, and what they need: a folder, or a private PostgreSQL.

use std::path::Path;

use board::{Choice, Durability};
use board_bench::Threads;
use clap::ValueEnum;
use cli::Failure;
use databases::PrivateArgs;
use postgres::{Private, StartError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreName {
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
            Self::Jungle => "jungle",
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
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

/// A store that is there, with the server that it needs.
pub(crate) struct Ready {
    pub(crate) choice: Choice,
    private: Option<Private>,
}

impl Ready {
    /// Starts what a store needs.
    pub(crate) fn start(
        name: StoreName,
        folder: &Path,
        server: &PrivateArgs,
        interrupt: &std::sync::Arc<std::sync::atomic::AtomicBool>,
    ) -> Result<Self, Failure> {
        Ok(match name {
            StoreName::Jungle => Self { choice: Choice::Jungle(folder.to_owned()), private: None },
            StoreName::Sqlite => Self { choice: Choice::Sqlite(folder.to_owned()), private: None },
            StoreName::Postgres => {
                let parameters = [("shared_buffers", "256MB")];
                let settings = server.settings(&parameters, Some(std::sync::Arc::clone(interrupt)));
                let private = Private::start(&settings).map_err(|error| match error {
                    StartError::Interrupted => Failure::Interrupted("start of PostgreSQL".into()),
                    error => Failure::machine(error),
                })?;
                let choice = Choice::Postgres(private.url().as_str().to_owned());
                Self { choice, private: Some(private) }
            }
        })
    }

    pub(crate) fn stop(self) -> Result<(), Failure> {
        self.private.map_or(Ok(()), |private| private.stop().map_err(Failure::machine))
    }
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
