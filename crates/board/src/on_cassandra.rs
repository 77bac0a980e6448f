//! The board on Cassandra: a partition for each thread, its messages in the order of their ids, and one copy of
//! everything, as in the paper's first experiment.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};

use crate::post::{Durability, Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};
use crate::waiting::Room;

const STORE: &str = "cassandra";
/// The partition of all threads.
const BOARD: i32 = 0;

/// Facts of a thread stand once in its partition (`STATIC`), so that a page is one statement about one partition, and
/// of one moment.
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS {}.threads (board int, id bigint, time bigint, author text, title text, \
     PRIMARY KEY (board, id))",
    "CREATE TABLE IF NOT EXISTS {}.messages (thread bigint, id bigint, thread_time bigint STATIC, \
     thread_author text STATIC, title text STATIC, time bigint, author text, body text, edited bigint, \
     PRIMARY KEY (thread, id))",
];

/// A page's row: the thread's time, author and title, and the message's id, time, author, text and edit.
type Line = (
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<i64>,
);

/// A keyspace of a server.
pub(crate) struct OnCassandra {
    session: Session,
    open: Batch,
    append: PreparedStatement,
    edit: PreparedStatement,
    delete: PreparedStatement,
    thread: PreparedStatement,
    threads_after: PreparedStatement,
    threads_newest: PreparedStatement,
    messages_first: PreparedStatement,
    messages_after: PreparedStatement,
    messages_newest: PreparedStatement,
    /// Threads that are known to be there: none ever goes.
    known: RwLock<HashSet<u64>>,
    room: Room,
}

fn failed(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Failed { store: STORE, cause: cause.to_string() }
}

/// An error of a server that was reached: it answers, and not as Cassandra 5 does.
fn odd(cause: impl std::fmt::Display) -> StoreError {
    open_error(format!(
        "{cause}; its log says why, and `--server` wants a Cassandra of version 4 or 5"
    ))
}

fn open_error(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Open { store: STORE, cause: cause.to_string() }
}

/// The most rows, as CQL has numbers.
fn most(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}

/// The class that the server was started with must be the one that is asked for: no client chooses it.
async fn check(session: &Session, durability: Durability) -> Result<(), StoreError> {
    let wanted = match durability {
        Durability::Strict => "batch",
        Durability::Relaxed => "periodic",
    };
    let question = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'";
    let answer = session.query_unpaged(question, ()).await.map_err(odd)?;
    let rows = answer.into_rows_result().map_err(odd)?;
    let (found,): (String,) = rows.single_row().map_err(odd)?;
    if found == wanted {
        return Ok(());
    }
    Err(open_error(format!(
        "its `commitlog_sync` is `{found}`, and the {} class wants `{wanted}`: set it in cassandra.yaml and start it \
         again, or ask for the other class",
        durability.word()
    )))
}

impl OnCassandra {
    /// Connects to a server, `HOST:PORT/KEYSPACE`, and makes the tables if they are not there.
    pub(crate) async fn open(place: &str, durability: Durability) -> Result<Self, StoreError> {
        let (address, keyspace) = place.split_once('/').unwrap_or((place, "board"));
        let session = SessionBuilder::new().known_node(address).build().await;
        // A server that does not speak CQL, or not yet, shows here too.
        let session = session.map_err(|error| {
            open_error(format!("{address}: {error}; start a Cassandra that listens there for CQL"))
        })?;
        check(&session, durability).await?;
        let made = format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        session.query_unpaged(made, ()).await.map_err(odd)?;
        for table in TABLES {
            let made = table.replace("{}", keyspace);
            session.query_unpaged(made, ()).await.map_err(odd)?;
        }
        Self::prepare(session, keyspace).await.map_err(odd)
    }

    async fn prepare(
        session: Session,
        keyspace: &str,
    ) -> Result<Self, scylla::errors::PrepareError> {
        let prepare = async |text: &str| {
            let text = text.replace("threads", &format!("{keyspace}.threads"));
            let text = text.replace("messages", &format!("{keyspace}.messages"));
            let mut prepared = session.prepare(text).await?;
            prepared.set_consistency(Consistency::One);
            Ok::<_, scylla::errors::PrepareError>(prepared)
        };
        let page = "SELECT thread_time, thread_author, title, id, time, author, body, edited FROM messages \
                    WHERE thread = ?";
        // Both or none: it is logged.
        let mut open = Batch::new(BatchType::Logged);
        open.set_consistency(Consistency::One);
        open.append_statement(
            prepare("INSERT INTO threads (board, id, time, author, title) VALUES (?, ?, ?, ?, ?)")
                .await?,
        );
        open.append_statement(
            prepare(
                "INSERT INTO messages (thread, thread_time, thread_author, title) VALUES (?, ?, ?, ?)",
            )
            .await?,
        );
        Ok(Self {
            open,
            append: prepare(
                "INSERT INTO messages (thread, id, time, author, body) VALUES (?, ?, ?, ?, ?)",
            )
            .await?,
            // Without the condition it would make a message of nothing but a text, where there is none.
            edit: prepare(
                "UPDATE messages SET body = ?, edited = ? WHERE thread = ? AND id = ? IF EXISTS",
            )
            .await?,
            delete: prepare("DELETE FROM messages WHERE thread = ? AND id = ? IF EXISTS").await?,
            thread: prepare(
                "SELECT DISTINCT thread_time, thread_author, title FROM messages WHERE thread = ?",
            )
            .await?,
            threads_after: prepare(
                "SELECT id, time, author, title FROM threads WHERE board = ? AND id > ? LIMIT ?",
            )
            .await?,
            threads_newest: prepare(
                "SELECT id, time, author, title FROM threads WHERE board = ? ORDER BY id DESC LIMIT ?",
            )
            .await?,
            messages_first: prepare(&format!("{page} LIMIT ?")).await?,
            messages_after: prepare(&format!("{page} AND id > ? LIMIT ?")).await?,
            messages_newest: prepare(&format!("{page} ORDER BY id DESC LIMIT ?")).await?,
            session,
            known: RwLock::default(),
            room: Room::default(),
        })
    }

    async fn ask(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, StoreError> {
        let _place = self.room.enter()?;
        self.session.execute_unpaged(statement, values).await.map_err(failed)
    }

    /// A thread, without its messages.
    async fn thread(&self, id: u64) -> Result<Option<Thread>, StoreError> {
        type Facts = (Option<i64>, Option<String>, Option<String>);
        let rows = self.ask(&self.thread, (id as i64,)).await?;
        let rows = rows.into_rows_result().map_err(failed)?;
        let facts = rows.maybe_first_row::<Facts>().map_err(failed)?;
        let Some((time, author, title)) = facts else { return Ok(None) };
        Ok(thread_of(id, time, author, title))
    }

    /// Learns that a thread is there.
    fn learn(&self, id: u64) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    async fn is_there(&self, id: u64) -> Result<bool, StoreError> {
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&id) {
            return Ok(true);
        }
        let found = self.thread(id).await?.is_some();
        if found {
            self.learn(id);
        }
        Ok(found)
    }

    async fn decide(&self, write: Write) -> Result<Outcome, StoreError> {
        match write {
            Write::Open(Thread { id, time, author, title }) => {
                let (key, time) = (id as i64, time as i64);
                let values = (
                    (BOARD, key, time, author.as_str(), title.as_str()),
                    (key, time, author.as_str(), title.as_str()),
                );
                let _place = self.room.enter()?;
                self.session.batch(&self.open, values).await.map_err(failed)?;
                self.learn(id);
                Ok(Outcome::Done)
            }
            Write::Append { thread, message: Message { id, time, author, body, .. } } => {
                if !self.is_there(thread).await? {
                    return Ok(Outcome::Missing);
                }
                let values = (thread as i64, id as i64, time as i64, author, body);
                self.ask(&self.append, values).await?;
                Ok(Outcome::Done)
            }
            Write::Edit { thread, id, time, body } => {
                let values = (body, time as i64, thread as i64, id as i64);
                applied(self.ask(&self.edit, values).await?)
            }
            Write::Delete { thread, id } => {
                applied(self.ask(&self.delete, (thread as i64, id as i64)).await?)
            }
        }
    }
}

/// Outcome of a statement with a condition.
fn applied(answer: QueryResult) -> Result<Outcome, StoreError> {
    let rows = answer.into_rows_result().map_err(failed)?;
    let row: Row = rows.first_row().map_err(failed)?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(true))) => Ok(Outcome::Done),
        Some(Some(CqlValue::Boolean(false))) => Ok(Outcome::Missing),
        other => Err(failed(format!("it does not say whether it did it: {other:?}"))),
    }
}

/// A thread of its facts; none if one is missing, as in a partition of deleted messages alone.
fn thread_of(
    id: u64,
    time: Option<i64>,
    author: Option<String>,
    title: Option<String>,
) -> Option<Thread> {
    Some(Thread { id, time: time? as u64, author: author?, title: title? })
}

fn message_of((.., id, time, author, body, edited): Line) -> Option<Message> {
    let edited = edited.map(|time| time as u64);
    Some(Message { id: id? as u64, time: time? as u64, author: author?, body: body?, edited })
}

impl Store for OnCassandra {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        // The order is that of ids, wherever a statement overtakes another.
        Box::pin(self.decide(write))
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        Box::pin(async move {
            let answer = match span {
                Span::After(id) => {
                    self.ask(&self.threads_after, (BOARD, id as i64, most(limit))).await
                }
                Span::Newest => self.ask(&self.threads_newest, (BOARD, most(limit))).await,
            };
            let rows = answer?.into_rows_result().map_err(failed)?;
            let mut read = Vec::new();
            for row in rows.rows::<(i64, i64, String, String)>().map_err(failed)? {
                let (id, time, author, title) = row.map_err(failed)?;
                read.push(Thread { id: id as u64, time: time as u64, author, title });
            }
            if span == Span::Newest {
                read.reverse();
            }
            Ok(read)
        })
    }

    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>> {
        Box::pin(async move {
            let (key, limit) = (thread as i64, most(limit));
            let answer = match span {
                Span::After(0) => self.ask(&self.messages_first, (key, limit)).await,
                Span::After(id) => self.ask(&self.messages_after, (key, id as i64, limit)).await,
                Span::Newest => self.ask(&self.messages_newest, (key, limit)).await,
            };
            let rows = answer?.into_rows_result().map_err(failed)?;
            let (mut found, mut read) = (None, Vec::new());
            for row in rows.rows::<Line>().map_err(failed)? {
                let (time, author, title, ..) = row.as_ref().map_err(failed)?;
                if found.is_none() {
                    found = thread_of(thread, *time, author.clone(), title.clone());
                }
                read.extend(message_of(row.map_err(failed)?));
            }
            if found.is_none() {
                // With no message behind the id there is no row that has the thread's facts. These never change, so
                // that both are of one moment still.
                found = self.thread(thread).await?;
            }
            if span == Span::Newest {
                read.reverse();
            }
            Ok(found.map(|found| (found, read)))
        })
    }

    fn stop(&self) -> Result<(), StoreError> {
        // Every answer was safe by its class when it was given, and the connections end with this.
        Ok(())
    }
}
