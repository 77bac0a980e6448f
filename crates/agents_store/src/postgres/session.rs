//! One connection to PostgreSQL and its statements. Calls block, within a time limit; after a fault the
//! connection goes, so that no call meets what an earlier one left behind.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use tpcc::Config;

use super::rows::Sent;
use crate::store::StoreError;

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Statements that a session keeps prepared; there are fewer kinds.
const PREPARED_MAX: usize = 64;

/// A connection that is opened when it is needed.
pub(super) struct Session {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    config: Config,
    patience: Duration,
    client: Option<Client>,
    /// The connection has a transaction open: another one could not go on with it.
    within: bool,
    prepared: HashMap<String, Statement>,
    /// The way out where a table is missing.
    missing: &'static str,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("open", &self.client.is_some()).finish_non_exhaustive()
    }
}

/// The cause why a call did not come to its end.
#[derive(Debug)]
pub(super) struct Fault {
    cause: String,
    /// The same again will fail.
    lasting: bool,
}

impl Fault {
    pub(super) fn told(self, place: &str) -> StoreError {
        let (place, cause) = (place.to_owned(), self.cause);
        match self.lasting {
            true => StoreError::Unusable { place, cause },
            false => StoreError::Unavailable { place, cause },
        }
    }
}

/// The end of a transaction.
#[derive(Debug)]
pub(super) enum End {
    Written,
    /// The first statement found another epoch, version or end.
    Fenced,
    /// The database refuses the content.
    Refused(String),
}

/// Calls on a session, one at a time.
pub(super) fn on<T>(
    session: &Mutex<Session>,
    call: impl FnOnce(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    call(&mut session.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whoever drops it may be in an event loop of another's, where nobody may wait.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    pub(super) fn new(config: Config, place: &str, patience: Duration) -> Session {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.unwrap_or_else(|error| panic!("{place}: no event loop can be had: {error}"));
        let (runtime, prepared) = (Some(runtime), HashMap::new());
        let missing = "`sekisho agents init` makes the tables";
        Session { runtime, config, patience, client: None, within: false, prepared, missing }
    }

    /// The same with another way out where a table is missing.
    pub(super) fn with_missing(mut self, missing: &'static str) -> Session {
        self.missing = missing;
        self
    }

    /// The rows of a statement.
    pub(super) fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.prepare(sql)?;
        self.call(async |client, prepared| client.query(&prepared[sql], params).await)
    }

    /// The rows of a statement for a partition and each of these numbers; all are sent at once.
    pub(super) fn rows_each(
        &mut self,
        sql: &str,
        partition: i64,
        numbers: &[i64],
    ) -> Result<Vec<Row>, Fault> {
        self.prepare(sql)?;
        self.call(async |client, prepared| {
            let all = numbers.iter().map(async |number| {
                let params: Params<'_> = &[&partition, number];
                client.query(&prepared[sql], params).await
            });
            let rows: Result<Vec<_>, _> = join_all(all).await.into_iter().collect();
            Ok(rows?.into_iter().flatten().collect())
        })
    }

    /// Begins a transaction: what comes before its end is on this connection, or fails.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        self.script("begin")?;
        self.within = true;
        Ok(())
    }

    /// Ends the transaction by `commit` or `rollback`, on the connection that has it: on another one,
    /// `commit` would go right and commit nothing.
    pub(super) fn end(&mut self, sql: &str) -> Result<(), Fault> {
        self.within = false;
        self.call(async |client, _| client.batch_execute(sql).await)
    }

    /// Runs statements without parameters.
    pub(super) fn script(&mut self, sql: &str) -> Result<(), Fault> {
        self.connect()?;
        self.call(async |client, _| client.batch_execute(sql).await)
    }

    /// A transaction: all its statements are sent at once, and it is committed if the first one changed a
    /// row and each other as many as it must.
    pub(super) fn transaction(&mut self, batch: &[Sent<'_>]) -> Result<End, Fault> {
        for statement in batch {
            self.prepare(&statement.sql)?;
        }
        let ends = self.call(async |client, prepared| {
            let begin = client.batch_execute("begin");
            let all = batch.iter().map(|it| {
                client.execute_raw(&prepared[&it.sql], it.params.iter().map(|param| &**param))
            });
            // They are sent in the order in which they are polled first: this one's.
            let (begun, ends) = join(begin, join_all(all)).await;
            begun.map(|()| ends)
        })?;
        // What came after a fence that found another owner may have failed because of that one's rows.
        if matches!(ends.first(), Some(Ok(count)) if *count != 1) {
            return self.end("rollback").map(|()| End::Fenced);
        }
        let mut counts = Vec::with_capacity(ends.len());
        for end in ends {
            match end {
                Ok(count) => counts.push(count),
                Err(error) => return self.failed(&error),
            }
        }
        let short = |(it, count): &(&Sent<'_>, &u64)| it.rows.is_some_and(|rows| rows != **count);
        if let Some((statement, count)) = batch.iter().zip(&counts).find(short) {
            let cause = format!("{}: {count} rows changed", statement.lacking);
            return self.end("rollback").map(|()| End::Refused(cause));
        }
        self.end("commit").map(|()| End::Written)
    }

    /// The database refused a statement: because of its content, or for now.
    fn failed(&mut self, error: &Error) -> Result<End, Fault> {
        if error.code().is_some_and(is_about_content) {
            let cause = cause_of(error);
            return self.end("rollback").map(|()| End::Refused(cause));
        }
        self.client = None;
        Err(fault_of(error, self.missing))
    }

    fn prepare(&mut self, sql: &str) -> Result<(), Fault> {
        self.connect()?;
        if self.prepared.contains_key(sql) {
            return Ok(());
        }
        if self.prepared.len() == PREPARED_MAX {
            self.prepared.clear();
        }
        let statement = self.call(async |client, _| client.prepare(sql).await)?;
        self.prepared.insert(sql.to_owned(), statement);
        Ok(())
    }

    /// A connection that is not known to be closed.
    fn connect(&mut self) -> Result<(), Fault> {
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        if std::mem::take(&mut self.within) {
            let cause = "the connection was lost within a transaction".to_owned();
            return Err(Fault { cause, lasting: false });
        }
        self.client = None;
        self.prepared.clear();
        let (config, patience) = (&self.config, self.patience);
        let open = async { timeout(patience, config.open()).await };
        let runtime = self.runtime.as_ref().expect("it is there as long as the session");
        let opened = runtime.block_on(open).map_err(|_| silent(patience))?;
        let client = opened.map_err(|error| Fault { cause: error.to_string(), lasting: false })?;
        self.client = Some(client);
        // A session that stands still in a transaction would keep the partition from its next owner.
        // A transaction is durable when it is answered, also where the default is otherwise. A plan for any
        // array could compare each of its keys with each; one for this array does not. To compile a statement
        // takes longer than any of these.
        let millis = self.patience.as_millis();
        let settings = format!(
            "set idle_in_transaction_session_timeout = {millis}; set statement_timeout = {millis}; \
             set plan_cache_mode = force_custom_plan; set jit = off; \
             select set_config('synchronous_commit', 'on', false) \
             where current_setting('synchronous_commit') = 'off'"
        );
        self.call(async |client, _| client.batch_execute(&settings).await)
    }

    /// Runs a call within the time limit.
    fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&Client, &HashMap<String, Statement>) -> Result<T, Error>,
    ) -> Result<T, Fault> {
        let Some(client) = &self.client else {
            return Err(Fault { cause: "the connection is closed".to_owned(), lasting: false });
        };
        let (prepared, patience) = (&self.prepared, self.patience);
        let limited = async { timeout(patience, call(client, prepared)).await };
        let runtime = self.runtime.as_ref().expect("it is there as long as the session");
        let fault = match runtime.block_on(limited) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => fault_of(&error, self.missing),
            Err(_) => silent(patience),
        };
        (self.client, self.within) = (None, false);
        Err(fault)
    }
}

/// Data exceptions, violated constraints, limits of a program: the same again fails too, the rest of the
/// batch need not.
fn is_about_content(code: &SqlState) -> bool {
    ["22", "23", "54"].iter().any(|class| code.code().starts_with(class))
}

fn silent(patience: Duration) -> Fault {
    let cause = format!("no answer within {} s", patience.as_secs_f64());
    Fault { cause, lasting: false }
}

fn fault_of(error: &Error, way_out: &str) -> Fault {
    let code = error.code();
    let missing = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    if code.is_some_and(|code| missing.contains(code)) {
        let cause = format!("{}: {way_out}", cause_of(error));
        return Fault { cause, lasting: true };
    }
    Fault { cause: cause_of(error), lasting: code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) }
}

/// The database's own words, or the way's.
fn cause_of(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
