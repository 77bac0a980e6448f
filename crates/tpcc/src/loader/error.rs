//! Why a database could not be loaded, and the way out.

use std::io;

use tokio_postgres::error::SqlState;

use super::super::connection::ConnectError;

/// Why a load did not begin, or did not end.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A plan of nothing, or of more than the schema's integers hold.
    #[error("{warehouses} warehouses: a load has between 1 and {} of them", super::WAREHOUSES_MAX)]
    Warehouses {
        /// The number that was asked for.
        warehouses: u32,
    },
    /// There is no way into the database.
    #[error("no connection to the database: {cause}. Check the URL, and that the server runs")]
    Connect {
        /// The message of the server or the system.
        cause: String,
    },
    /// The server has no connection left.
    #[error(
        "the server has too few connections ({cause}): ask for fewer jobs, or raise \
         max_connections"
    )]
    Connections {
        /// The message of the server.
        cause: String,
    },
    /// The database holds somebody else's tables.
    #[error(
        "the database holds other tables ({}): name a database of its own, or allow it to be \
         shared",
        list(tables)
    )]
    OtherTables {
        /// Their names.
        tables: Vec<String>,
    },
    /// There are tables of these names that no load of ours has made.
    #[error(
        "the database has tables of TPC-C that were not loaded by Sekisho ({}): nothing of them \
         is touched; name another database",
        list(tables)
    )]
    NotOurs {
        /// Their names.
        tables: Vec<String>,
    },
    /// A load stands there already.
    #[error(
        "the database has been loaded already, with {warehouses} warehouses from seed {seed}: \
         use it, or replace it"
    )]
    Complete {
        /// The number that it has.
        warehouses: u32,
        /// From which seed.
        seed: u64,
    },
    /// A load was interrupted here.
    #[error(
        "a load of {warehouses} warehouses from seed {seed} was interrupted here: resume it, or \
         replace it"
    )]
    Incomplete {
        /// The number that it was to have.
        warehouses: u32,
        /// From which seed.
        seed: u64,
    },
    /// The load to be resumed is another one than was asked for.
    #[error(
        "what was interrupted here is a load of {warehouses} warehouses from seed {seed}: resume \
         it with these numbers, or replace it"
    )]
    Differs {
        /// The number that it was to have.
        warehouses: u32,
        /// From which seed.
        seed: u64,
    },
    /// There is nothing to resume.
    #[error("there is no interrupted load in this database: leave out the resuming")]
    NothingToResume,
    /// Somebody else loads.
    #[error("another load is going on in this database: wait for its end")]
    Busy,
    /// No space is left for the database.
    #[error(
        "the server's disk is full ({cause}): make room, then resume; a warehouse needs about \
         130 MB"
    )]
    DiskFull {
        /// The message of the server.
        cause: String,
    },
    /// The server went away.
    #[error("the server is gone ({cause}): start it again, then resume")]
    ServerGone {
        /// The message of the connection.
        cause: String,
    },
    /// The user asked to stop.
    #[error("interrupted: what is done is kept, and the load can be resumed")]
    Interrupted,
    /// The server refuses.
    #[error("{doing}: {cause}")]
    Refused {
        /// The action.
        doing: String,
        /// The message of the server.
        cause: String,
    },
}

impl LoadError {
    /// The meaning of an error of the server, while `doing` something.
    pub(super) fn of(doing: &str, error: &tokio_postgres::Error) -> LoadError {
        let cause = cause(error);
        let broken =
            std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>());
        let Some(code) = error.code() else {
            return if error.is_closed() || broken {
                LoadError::ServerGone { cause }
            } else {
                LoadError::Refused { doing: doing.into(), cause }
            };
        };
        const ENDS: [SqlState; 3] =
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        match code {
            code if code == &SqlState::DISK_FULL => LoadError::DiskFull { cause },
            code if code == &SqlState::TOO_MANY_CONNECTIONS => LoadError::Connections { cause },
            code if ENDS.contains(code) => LoadError::ServerGone { cause },
            _ => LoadError::Refused { doing: doing.into(), cause },
        }
    }

    /// The meaning of an error of connecting.
    pub(super) fn of_connecting(error: &ConnectError) -> LoadError {
        let cause = error.to_string();
        match error.said() {
            Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => {
                LoadError::Connections { cause }
            }
            _ => LoadError::Connect { cause },
        }
    }
}

/// The innermost words, which say what happened.
fn cause(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(refusal), _) => refusal.message().to_owned(),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    }
}

/// A few names, so that a message stays one.
fn list(tables: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = tables.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match tables.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
