//! The five transactions, as a connection to the database performs them (2.4.2 to 2.8.2).
//!
//! In both modes the same requests leave the same rows. With [`Execution::Sql`] the client runs the
//! profile itself, in as few statements as it can, for each answer that arrives wakes the client: a
//! New-Order reads in one and, when the client has decided, writes in another, each sent together
//! with what begins or ends the transaction; all others are one statement. With
//! [`Execution::Functions`] a transaction is one call of a function that the server holds.
//!
//! Locks are taken in one order: warehouse, district, customer; stocks by warehouse and item. A
//! transaction that the server gives up for the sake of others (40001, 40P01) is tried again with
//! the same inputs.

mod functions;
mod open;
mod screens;
mod sql;
mod statements;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use workload::tpcc::Request;

use super::connection::{Config, ConnectError};
use functions::Functions;
pub(super) use open::OpenTransaction;
pub use screens::{
    Address, Delivered, Entered, LastOrder, LineScreen, OrderScreen, PaymentScreen, Screen,
    StatusLine, StatusScreen,
};
use sql::Statements;

/// Side that runs the profile of a transaction.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// The client, statement by statement.
    Sql,
    /// The server, in PL/pgSQL.
    Functions,
}

/// The isolation of the transactions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Weaker than what clause 3.4.1 asks for.
    ReadCommitted,
    /// Snapshot isolation, under which these five transactions are serialisable (Fekete et al.,
    /// ACM TODS 30, 2005).
    RepeatableRead,
    /// Serialisable, whatever else runs.
    Serializable,
}

impl Isolation {
    /// Its name in SQL, in small letters, as the server shows it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// Limit of the retries of a transaction, before it counts as failed.
const RETRIES_MAX: u32 = 10_000;

/// Settings of every session, to be told with each result: one plan for all parameters from the
/// first call on, by keys (a scan of a small table would conflict with every write to it), without
/// compiling it.
pub const SESSION_SETTINGS: [(&str, &str); 3] =
    [("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off")];

/// A connection that performs transactions, one at a time.
#[derive(Debug)]
pub struct Session {
    client: Client,
    profiles: Profiles,
}

#[derive(Debug)]
enum Profiles {
    Sql(Box<Statements>),
    Functions(Box<Functions>),
}

/// A transaction that was performed.
#[derive(Clone, Debug, PartialEq)]
pub struct Performed {
    /// The screen of the terminal.
    pub screen: Screen,
    /// The number of its retries.
    pub retries: u32,
}

/// Why a transaction was not performed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The connection is gone, and what became of the transaction is not known.
    #[error("the database is lost: {0}")]
    Lost(String),
    /// The database refused a statement.
    #[error("the database refused a statement: {message} (SQLSTATE {code})")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// The message of the database.
        message: String,
    },
    /// A row is missing that every loaded database holds.
    #[error("the database holds no such {what}; it was not loaded whole, load it again")]
    Missing {
        /// The thing that is missing.
        what: &'static str,
    },
    /// It came into conflict too often.
    #[error("a transaction was tried {RETRIES_MAX} times and always came into conflict")]
    GaveUp,
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no connection.
    #[error("cannot connect to the database: {0}")]
    Connect(#[source] ConnectError),
    /// The server has no connection left.
    #[error(
        "the database has no connection left for session {session}: {message}; ask for fewer \
         connections, or raise max_connections"
    )]
    TooMany {
        /// The number of the session, from 1.
        session: u32,
        /// The message of the database.
        message: String,
    },
    /// The tables are not there, or are others than TPC-C's.
    #[error(
        "the database holds no TPC-C tables of ours: {}; load it with `sekisho tpcc load --warehouses N`",
        reason(.0)
    )]
    Schema(#[source] tokio_postgres::Error),
    /// The machine refuses what a connection needs.
    #[error("cannot connect to the database: {0}")]
    Machine(#[source] std::io::Error),
    /// The database refused what prepares a session.
    #[error("the database cannot be prepared: {}", reason(.0))]
    Prepare(#[source] tokio_postgres::Error),
}

/// The message of a database's error, without the word that stands before it.
pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => told.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        },
    }
}

/// Makes the functions of [`Execution::Functions`] in the database, or replaces them.
///
/// # Errors
/// If there is no connection, or they cannot be made.
pub async fn install_functions(config: &Config) -> Result<(), OpenError> {
    let client = connect(config, 1).await?;
    client.batch_execute(include_str!("functions.sql")).await.map_err(OpenError::Prepare)
}

/// Connects. The connection is driven by a task of the runtime, and ends with the client.
pub(super) async fn connect(config: &Config, session: u32) -> Result<Client, OpenError> {
    config.open().await.map_err(|error| match error.said() {
        Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => {
            OpenError::TooMany { session, message: error.to_string() }
        }
        _ => OpenError::Connect(error),
    })
}

impl Session {
    /// Connects and prepares every statement once. `session` numbers the sessions of a run from 1,
    /// for what an error says. The functions must have been [installed](install_functions).
    ///
    /// Sessions plan statements without regard to their parameters, and through indexes: one plan
    /// from the first transaction to the last, whatever the statistics say of small tables.
    ///
    /// # Errors
    /// If there is no connection left, or the tables or functions are missing.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(
        config: &Config,
        execution: Execution,
        isolation: Isolation,
        session: u32,
    ) -> Result<Session, OpenError> {
        let client = connect(config, session).await?;
        let mut settings = format!(
            "set default_transaction_isolation = '{}'; set statement_timeout = 0",
            isolation.name()
        );
        for (name, value) in SESSION_SETTINGS {
            settings += &format!("; set {name} = {value}");
        }
        client.batch_execute(&settings).await.map_err(OpenError::Prepare)?;
        let profiles = match execution {
            Execution::Sql => Statements::prepare(&client).await.map(|s| Profiles::Sql(s.into())),
            Execution::Functions => {
                Functions::prepare(&client).await.map(|f| Profiles::Functions(f.into()))
            }
        };
        Ok(Session { client, profiles: profiles.map_err(OpenError::Schema)? })
    }

    /// Performs a transaction, again and again while it comes into conflict with others. Of a
    /// Delivery this is the deferred part.
    ///
    /// # Errors
    /// If the database is lost, refuses, or lacks a row. Then nothing of it is committed, unless it
    /// was lost while it committed.
    pub async fn perform(&self, request: &Request) -> Result<Performed, TransactionError> {
        let mut retries = 0;
        loop {
            let tried = match &self.profiles {
                Profiles::Sql(statements) => {
                    statements.perform(&self.client, request, Bounds::Own).await
                }
                Profiles::Functions(functions) => functions.perform(&self.client, request).await,
            };
            match tried {
                Ok(screen) => return Ok(Performed { screen, retries }),
                Err(Trouble::Conflict) if retries == RETRIES_MAX => {
                    return Err(TransactionError::GaveUp);
                }
                Err(Trouble::Conflict) => retries += 1,
                Err(Trouble::Final(error)) => return Err(error),
            }
        }
    }
}

/// Side that begins and ends the transaction that a profile runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    /// The profile itself, with its first and its last statement.
    Own,
    /// Whoever calls: what the profile would send for it is empty.
    Callers,
}

impl Bounds {
    fn statement(self, own: &'static str) -> &'static str {
        match self {
            Bounds::Own => own,
            Bounds::Callers => "",
        }
    }
}

/// Failure of one try of a transaction.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server gave it up for the sake of others: it may be tried again.
    Conflict,
    /// It will not do better another time.
    Final(TransactionError),
}

impl Trouble {
    fn missing(what: &'static str) -> Trouble {
        Trouble::Final(TransactionError::Missing { what })
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Trouble {
        let Some(told) = error.as_db_error() else {
            return Trouble::Final(TransactionError::Lost(reason(&error)));
        };
        let (code, message) = (told.code(), told.message().to_owned());
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        {
            return Trouble::Conflict;
        }
        // Class 57P: the server, or this connection, was told to end.
        if code.code().starts_with("57P") {
            return Trouble::Final(TransactionError::Lost(message));
        }
        if *code == SqlState::NO_DATA_FOUND {
            return Trouble::missing("row");
        }
        let code = code.code().to_owned();
        Trouble::Final(TransactionError::Refused { code, message })
    }
}
