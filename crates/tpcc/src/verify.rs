//! Verification that a database holds what the specification says it must: the twelve consistency
//! conditions (3.3.2), the counters that every transaction keeps, and the rules of its population
//! (4.3.3.1).
//!
//! All of it is asked in one snapshot that writes nothing, so it can be asked at any time, also
//! while a run goes on. Each pass reads a table or two as sets; groups are joined in full, and what
//! is NULL where it must not be breaks the rule, so that nothing missing looks like nothing wrong.

mod conditions;
mod note;
mod pass;
mod population;

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel};

use super::connection::{Config, ConnectError};
pub use conditions::Condition;
use conditions::Tables;
pub use population::Rule;

/// The rows that are named for a check that fails.
pub const ROWS_MAX: usize = 10;
/// Time limit of a connection, where the caller does not say.
const CONNECT: Duration = Duration::from_secs(10);
/// Interval between looks for a wish to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Part of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The consistency conditions and the counters; they hold at any time.
    Conditions,
    /// The rules of what was loaded, as far as transactions leave it alone and the conditions do not
    /// ask it; they hold at any time too. Where it is drawn by chance, its frequencies are tested: a right population fails one
    /// of the tests once in a million.
    Population,
}

/// A check: a condition, or a rule of the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Of [`Part::Conditions`].
    Condition(Condition),
    /// Of [`Part::Population`].
    Population(Rule),
}

/// A check and what broke it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The check.
    pub check: Check,
    /// The number of rows or groups that break it.
    pub broken: u64,
    /// The first of them, at most [`ROWS_MAX`].
    pub rows: Vec<Offence>,
}

/// A row, or a group of rows, that breaks a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The row: `w 1, d 3, o 3001`.
    pub row: String,
    /// Its values, and those of others: `O_OL_CNT 9, lines 8`.
    pub says: String,
}

/// Findings of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The warehouses of the database.
    pub warehouses: u64,
    /// Every check that was made, in order.
    pub outcomes: Vec<Outcome>,
    /// The names of the checks that were not, since no note of a load of ours tells what they need:
    /// another program made the tables.
    pub not_asked: Vec<String>,
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// There is no way into the database.
    #[error("no connection to the database {database}: {cause}")]
    Connect {
        /// The database: `tpcc at 10.0.0.1:5432`.
        database: String,
        /// The message of the server or the system.
        cause: String,
    },
    /// The user asked to stop.
    #[error("interrupted: nothing is known of the database")]
    Interrupted,
    /// A table or a column that every load makes is not there.
    #[error(
        "the database has no {missing}: it holds no TPC-C tables, or another program laid them out \
         differently; load it with `sekisho tpcc load --warehouses N`, or name another one"
    )]
    NotOurs {
        /// The first thing that is missing.
        missing: String,
    },
    /// There is nothing to verify.
    #[error(
        "the table `warehouse` is empty: load the database with `sekisho tpcc load --warehouses N`"
    )]
    Empty,
    /// A load has not left its note, without which the population cannot be judged.
    #[error(
        "the table `tpcc_load` has {rows} rows and not 1, so nobody knows what was to be loaded: \
         load the database again with `sekisho tpcc load --warehouses N`"
    )]
    Load {
        /// The number of its rows.
        rows: usize,
    },
    /// The database failed.
    #[error("{asking}: {}", database(source))]
    Database {
        /// The question.
        asking: String,
        /// The answer.
        source: tokio_postgres::Error,
    },
}

impl Check {
    /// A short name, the same in every output: `condition 3`, `stock-remote`.
    pub fn name(&self) -> String {
        match self {
            Check::Condition(condition) => condition.name(),
            Check::Population(rule) => rule.name().to_owned(),
        }
    }

    /// The condition, in the words of the specification's columns.
    pub fn statement(&self) -> &'static str {
        match self {
            Check::Condition(condition) => condition.statement(),
            Check::Population(rule) => rule.statement(),
        }
    }
}

impl Verification {
    /// True if every check holds.
    pub fn holds(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.broken == 0)
    }

    /// The checks that fail.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.broken > 0)
    }
}

/// Connects to a database and verifies `parts` of it in one snapshot, until `stop` is set.
/// `progress` is told how many of how many passes are done.
///
/// # Errors
/// If there is no way into the database, it is not one of ours, is empty, or fails; or if it was to
/// stop.
pub fn verify(
    config: &Config,
    parts: &[Part],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Verification, VerifyError> {
    let built = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = built.map_err(|error| VerifyError::connect(config, &error))?;
    runtime.block_on(async {
        let mut config = config.clone();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        let connected = config.open().await;
        let mut client = connected.map_err(|error| VerifyError::connect(&config, &Said(&error)))?;
        let token = client.cancel_token();
        let mut verifying = pin!(verify_with(&mut client, parts, progress));
        loop {
            if let Ok(found) = timeout(LOOK, &mut verifying).await {
                return found;
            }
            if stop.load(Ordering::Relaxed) {
                // A server that does not even hear this will notice that we are gone.
                let _ = timeout(CONNECT, config.cancel(&token)).await;
                return Err(VerifyError::Interrupted);
            }
        }
    })
}

/// The same on a connection of the caller's, which has no transaction open.
///
/// # Errors
/// If the database is not one of ours, is empty, or fails.
pub async fn verify_with(
    client: &mut Client,
    parts: &[Part],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Verification, VerifyError> {
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await
        .map_err(asking("a snapshot"))?;
    // Sorts and hashes of whole tables; the server's own setting is meant for small ones.
    transaction
        .batch_execute("set local work_mem = '64MB'; set local jit = off")
        .await
        .map_err(asking("memory for its answers"))?;
    pass::examine_schema(&transaction).await?;
    let row = transaction
        .query_one("select count(*) from warehouse", &[])
        .await
        .map_err(asking("the number of warehouses"))?;
    let warehouses = row.get::<_, i64>(0) as u64;
    if warehouses == 0 {
        return Err(VerifyError::Empty);
    }
    let has = |part| parts.contains(&part);
    let note = note::Note::read(&transaction).await?;
    let tables = if note.is_some() { Tables::Ours } else { Tables::Others };
    let mut not_asked = Vec::new();
    if tables == Tables::Others && has(Part::Conditions) {
        not_asked.extend(conditions::OURS_ALONE.map(|condition| condition.name()));
    }
    let passes = conditions::passes(tables);
    let conditions = if has(Part::Conditions) { passes.len() } else { 0 };
    let total = conditions + if has(Part::Population) { population::STEPS } else { 0 };
    let mut outcomes = Vec::new();
    for (done, pass) in passes.iter().take(conditions).enumerate() {
        progress(done, total);
        outcomes.extend(pass.run(&transaction).await?);
    }
    // Passes go by table; people look for conditions by number.
    outcomes.sort_by_key(|outcome| match outcome.check {
        Check::Condition(condition) => condition.order(),
        Check::Population(_) => usize::MAX,
    });
    if has(Part::Population) {
        let mut step = |done| progress(conditions + done, total);
        outcomes.extend(population::run(&transaction, (warehouses, note), &mut step).await?);
    }
    progress(total, total);
    transaction.rollback().await.map_err(asking("the end of the snapshot"))?;
    Ok(Verification { warehouses, outcomes, not_asked })
}

/// An error of connecting in its innermost words, which say what happened.
struct Said<'a>(&'a ConnectError);

impl fmt::Display for Said<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(said) = self.0.said() else {
            return self.0.fmt(out);
        };
        let way_out = match *said.code() {
            SqlState::INVALID_CATALOG_NAME => ": make it with `createdb`, or name another one",
            SqlState::INVALID_PASSWORD => ": set PGPASSWORD, or put it into the URL",
            SqlState::TOO_MANY_CONNECTIONS => ": end others, or raise max_connections",
            _ => return self.0.fmt(out),
        };
        write!(out, "{}{way_out}", said.message())
    }
}

impl VerifyError {
    fn connect(config: &Config, cause: &dyn fmt::Display) -> VerifyError {
        VerifyError::Connect { database: name(config), cause: cause.to_string() }
    }
}

/// A database in words, without the password of who asks: `tpcc at 10.0.0.1:5432`.
pub fn name(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => config.get_hostaddrs().first().map_or("?".to_owned(), ToString::to_string),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_dbname().or(config.get_user()) {
        Some(database) => format!("{database} at {host}:{port}"),
        None => format!("{host}:{port}"),
    }
}

fn asking(asking: impl Into<String>) -> impl FnOnce(tokio_postgres::Error) -> VerifyError {
    let asking = asking.into();
    move |source| VerifyError::Database { asking, source }
}

/// The message of the server, where it gave one; a broken connection says little.
fn database(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}
