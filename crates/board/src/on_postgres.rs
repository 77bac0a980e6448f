//! The board on PostgreSQL: a few connections, on each of which statements go one behind the other without waiting
//! for answers; each write is a transaction of its own, and those of several connections share a sync.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::post::{Durability, Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};
use crate::waiting::{Room, Waiting};

const STORE: &str = "postgres";
/// Connections, by turns.
const CONNECTIONS: usize = 16;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS threads (id bigint PRIMARY KEY, time bigint NOT NULL, author text NOT NULL,
        title text NOT NULL);
    CREATE TABLE IF NOT EXISTS messages (thread bigint NOT NULL, id bigint NOT NULL, time bigint NOT NULL,
        author text NOT NULL, body text NOT NULL, edited bigint, PRIMARY KEY (thread, id));";

/// A database.
pub(crate) struct OnPostgres {
    lanes: Vec<Lane>,
    turn: AtomicUsize,
    room: Room,
}

/// A connection with its statements.
struct Lane {
    client: Client,
    open: Statement,
    append: Statement,
    edit: Statement,
    delete: Statement,
    threads_after: Statement,
    threads_newest: Statement,
    messages_after: Statement,
    messages_newest: Statement,
}

fn failed(cause: tokio_postgres::Error) -> StoreError {
    StoreError::Failed { store: STORE, cause: told(&cause) }
}

/// An error with the server's words: the error's own text leaves them out.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => told.to_string(),
        // Its own words name the step; the cause stands behind them.
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

impl Lane {
    async fn connect(url: &str, durability: Durability) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // Its end shows in the answers of the client.
        tokio::spawn(async move { drop(connection.await) });
        let commit = match durability {
            Durability::Strict => "on",
            Durability::Relaxed => "off",
        };
        client.batch_execute(&format!("SET synchronous_commit = {commit}")).await?;
        client.batch_execute("SET client_min_messages = warning").await?;
        // The thread stands before its messages, and alone if it has none: one statement, one moment.
        let page = |order: &str, condition: &str| {
            format!(
                "SELECT t.id, t.time, t.author, t.title, m.id, m.time, m.author, m.body, m.edited \
                 FROM threads t LEFT JOIN LATERAL (SELECT * FROM messages WHERE thread = t.id{condition} \
                 ORDER BY id {order} LIMIT $2) m ON true WHERE t.id = $1 ORDER BY m.id"
            )
        };
        Ok(Self {
            open: client.prepare("INSERT INTO threads VALUES ($1, $2, $3, $4)").await?,
            append: client
                .prepare(
                    "INSERT INTO messages SELECT id, $2, $3, $4, $5, NULL FROM threads WHERE id = $1",
                )
                .await?,
            edit: client
                .prepare("UPDATE messages SET body = $3, edited = $4 WHERE thread = $1 AND id = $2")
                .await?,
            delete: client.prepare("DELETE FROM messages WHERE thread = $1 AND id = $2").await?,
            threads_after: client
                .prepare("SELECT * FROM threads WHERE id > $2 ORDER BY id LIMIT $1")
                .await?,
            threads_newest: client
                .prepare("SELECT * FROM threads ORDER BY id DESC LIMIT $1")
                .await?,
            messages_after: client.prepare(&page("ASC", " AND id > $3")).await?,
            messages_newest: client.prepare(&page("DESC", "")).await?,
            client,
        })
    }

    async fn write(&self, write: Write) -> Result<Outcome, tokio_postgres::Error> {
        let changed = match write {
            Write::Open(Thread { id, time, author, title }) => {
                let (id, time) = (id as i64, time as i64);
                self.client.execute(&self.open, &[&id, &time, &author, &title]).await?
            }
            Write::Append { thread, message: Message { id, time, author, body, .. } } => {
                let (thread, id, time) = (thread as i64, id as i64, time as i64);
                let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&thread, &id, &time, &author, &body];
                self.client.execute(&self.append, &parameters).await?
            }
            Write::Edit { thread, id, time, body } => {
                let (thread, id, time) = (thread as i64, id as i64, time as i64);
                self.client.execute(&self.edit, &[&thread, &id, &body, &time]).await?
            }
            Write::Delete { thread, id } => {
                let (thread, id) = (thread as i64, id as i64);
                self.client.execute(&self.delete, &[&thread, &id]).await?
            }
        };
        Ok(if changed == 0 { Outcome::Missing } else { Outcome::Done })
    }
}

fn thread_of(row: &Row) -> Thread {
    Thread {
        id: row.get::<_, i64>(0) as u64,
        time: row.get::<_, i64>(1) as u64,
        author: row.get(2),
        title: row.get(3),
    }
}

fn message_of(row: &Row) -> Option<Message> {
    Some(Message {
        id: row.get::<_, Option<i64>>(4)? as u64,
        time: row.get::<_, i64>(5) as u64,
        author: row.get(6),
        body: row.get(7),
        edited: row.get::<_, Option<i64>>(8).map(|time| time as u64),
    })
}

impl OnPostgres {
    /// Connects, and makes the tables if they are not there.
    pub(crate) async fn open(url: &str, durability: Durability) -> Result<Self, StoreError> {
        let open = |error: tokio_postgres::Error| {
            let cause = format!("{}; see that PostgreSQL runs and lets the user in", told(&error));
            StoreError::Open { store: STORE, cause }
        };
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(open)?;
        let made = tokio::spawn(connection);
        client.batch_execute(SCHEMA).await.map_err(open)?;
        drop(client);
        // The connection ends because its client has gone.
        drop(made.await);
        let mut lanes = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            lanes.push(Lane::connect(url, durability).await.map_err(open)?);
        }
        Ok(Self { lanes, turn: AtomicUsize::new(0), room: Room::default() })
    }

    /// The next connection, with a place for as long as its answer is waited for; refused if too much waits.
    fn lane(&self) -> Result<(&Lane, Waiting<'_>), StoreError> {
        let place = self.room.enter()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Ok((&self.lanes[turn % self.lanes.len()], place))
    }
}

impl Store for OnPostgres {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        // The order is that of ids, wherever a statement overtakes another.
        Box::pin(async move {
            let (lane, _place) = self.lane()?;
            lane.write(write).await.map_err(failed)
        })
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        Box::pin(async move {
            let (lane, _place) = self.lane()?;
            let limit = limit as i64;
            let rows = match span {
                Span::After(id) => {
                    lane.client.query(&lane.threads_after, &[&limit, &(id as i64)]).await
                }
                Span::Newest => lane.client.query(&lane.threads_newest, &[&limit]).await,
            };
            let mut read: Vec<Thread> = rows.map_err(failed)?.iter().map(thread_of).collect();
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
            let (lane, _place) = self.lane()?;
            let (thread, limit) = (thread as i64, limit as i64);
            let rows = match span {
                Span::After(id) => {
                    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                        [&thread, &limit, &(id as i64)];
                    lane.client.query(&lane.messages_after, &parameters).await
                }
                Span::Newest => lane.client.query(&lane.messages_newest, &[&thread, &limit]).await,
            };
            let rows = rows.map_err(failed)?;
            let Some(first) = rows.first() else { return Ok(None) };
            Ok(Some((thread_of(first), rows.iter().filter_map(message_of).collect())))
        })
    }

    fn stop(&self) -> Result<(), StoreError> {
        // Every answer was safe by its class when it was given, and the connections end with this.
        Ok(())
    }
}
