//! The board on SQLite: one thread writes, all that waits in one transaction, as the others' commits share a sync;
//! readers have connections of their own, which the write-ahead log lets go on meanwhile.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::oneshot;

use crate::post::{Durability, Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};

const STORE: &str = "sqlite";
/// The most writes that wait.
const WAITING: usize = 10_000;
/// The most writes of a transaction.
const GROUP: usize = 1_000;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS threads (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, author TEXT NOT NULL,
        title TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS messages (thread INTEGER NOT NULL, id INTEGER NOT NULL, time INTEGER NOT NULL,
        author TEXT NOT NULL, body TEXT NOT NULL, edited INTEGER, PRIMARY KEY (thread, id)) STRICT, WITHOUT ROWID;";

type Answer = Result<Outcome, StoreError>;

enum Wish {
    Write(Write, oneshot::Sender<Answer>),
    Stop,
}

/// A file in a folder.
pub(crate) struct OnSqlite {
    file: PathBuf,
    sender: SyncSender<Wish>,
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

fn failed(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Failed { store: STORE, cause: cause.to_string() }
}

fn open_error(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Open { store: STORE, cause: cause.to_string() }
}

fn apply(connection: &Connection, write: &Write) -> rusqlite::Result<Outcome> {
    let changed = match write {
        Write::Open(Thread { id, time, author, title }) => connection
            .prepare_cached("INSERT INTO threads VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![*id as i64, *time as i64, author, title])?,
        Write::Append { thread, message: Message { id, time, author, body, .. } } => connection
            .prepare_cached(
                "INSERT INTO messages SELECT id, ?2, ?3, ?4, ?5, NULL FROM threads WHERE id = ?1",
            )?
            .execute(params![*thread as i64, *id as i64, *time as i64, author, body])?,
        Write::Edit { thread, id, time, body } => connection
            .prepare_cached(
                "UPDATE messages SET body = ?3, edited = ?4 WHERE thread = ?1 AND id = ?2",
            )?
            .execute(params![*thread as i64, *id as i64, body, *time as i64])?,
        Write::Delete { thread, id } => connection
            .prepare_cached("DELETE FROM messages WHERE thread = ?1 AND id = ?2")?
            .execute(params![*thread as i64, *id as i64])?,
    };
    Ok(if changed == 0 { Outcome::Missing } else { Outcome::Done })
}

fn group(
    connection: &mut Connection,
    writes: &[(Write, oneshot::Sender<Answer>)],
) -> rusqlite::Result<Vec<Outcome>> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let outcomes = writes.iter().map(|(write, _)| apply(&transaction, write));
    let outcomes = outcomes.collect::<Result<_, _>>()?;
    transaction.commit()?;
    Ok(outcomes)
}

fn write_all(mut connection: Connection, wishes: &Receiver<Wish>) {
    let mut is_stopping = false;
    while !is_stopping {
        let Ok(first) = wishes.recv() else { return };
        let mut writes = Vec::new();
        for wish in std::iter::once(first).chain(wishes.try_iter()).take(GROUP) {
            match wish {
                Wish::Write(write, answer) => writes.push((write, answer)),
                Wish::Stop => is_stopping = true,
            }
        }
        let outcomes = group(&mut connection, &writes);
        for (index, (_, answer)) in writes.into_iter().enumerate() {
            // Whoever asked may have left.
            drop(answer.send(match &outcomes {
                Ok(outcomes) => Ok(outcomes[index]),
                Err(error) => Err(failed(error)),
            }));
        }
    }
}

fn thread_of(row: &Row<'_>) -> rusqlite::Result<Thread> {
    Ok(Thread {
        id: row.get::<_, i64>(0)? as u64,
        time: row.get::<_, i64>(1)? as u64,
        author: row.get(2)?,
        title: row.get(3)?,
    })
}

fn message_of(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: row.get::<_, i64>(0)? as u64,
        time: row.get::<_, i64>(1)? as u64,
        author: row.get(2)?,
        body: row.get(3)?,
        edited: row.get::<_, Option<i64>>(4)?.map(|time| time as u64),
    })
}

fn threads(connection: &Connection, span: Span, limit: usize) -> rusqlite::Result<Vec<Thread>> {
    let (after, sql) = match span {
        Span::After(id) => {
            (id, "SELECT id, time, author, title FROM threads WHERE id > ?1 ORDER BY id LIMIT ?2")
        }
        Span::Newest => (
            0,
            "SELECT id, time, author, title FROM threads WHERE id > ?1 ORDER BY id DESC LIMIT ?2",
        ),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![after as i64, limit as i64], thread_of)?;
    let mut read = rows.collect::<Result<Vec<_>, _>>()?;
    if span == Span::Newest {
        read.reverse();
    }
    Ok(read)
}

fn messages(
    connection: &mut Connection,
    thread: u64,
    span: Span,
    limit: usize,
) -> rusqlite::Result<Option<(Thread, Vec<Message>)>> {
    // One transaction, so that both are of one moment.
    let connection = connection.transaction()?;
    let found = connection
        .prepare_cached("SELECT id, time, author, title FROM threads WHERE id = ?1")?
        .query_row(params![thread as i64], thread_of)
        .optional()?;
    let Some(found) = found else { return Ok(None) };
    let (after, sql) = match span {
        Span::After(id) => (
            id,
            "SELECT id, time, author, body, edited FROM messages WHERE thread = ?1 AND id > ?2 ORDER BY id \
             LIMIT ?3",
        ),
        Span::Newest => (
            0,
            "SELECT id, time, author, body, edited FROM messages WHERE thread = ?1 AND id > ?2 ORDER BY id \
             DESC LIMIT ?3",
        ),
    };
    let mut read = {
        let mut statement = connection.prepare_cached(sql)?;
        let parameters = params![thread as i64, after as i64, limit as i64];
        let rows = statement.query_map(parameters, message_of)?;
        rows.collect::<Result<Vec<_>, _>>()?
    };
    if span == Span::Newest {
        read.reverse();
    }
    connection.commit()?;
    Ok(Some((found, read)))
}

impl OnSqlite {
    /// Opens the file `board.sqlite` of a folder, which is made if it is not there.
    pub(crate) fn open(folder: &Path, durability: Durability) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(|error| {
            open_error(format!("{}: {error}; name a folder that can be made", folder.display()))
        })?;
        let file = folder.join("board.sqlite");
        let wrong = |error| open_error(format!("{}: {error}", file.display()));
        let connection = Connection::open(&file).map_err(wrong)?;
        let synchronous = match durability {
            Durability::Strict => "FULL",
            Durability::Relaxed => "NORMAL",
        };
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        let mode = mode.map_err(wrong)?;
        if mode != "wal" {
            let cause = format!("{}: it keeps no write-ahead log here, but {mode}", file.display());
            return Err(open_error(cause));
        }
        connection.pragma_update(None, "synchronous", synchronous).map_err(wrong)?;
        connection.execute_batch(SCHEMA).map_err(wrong)?;
        let (sender, wishes) = sync_channel(WAITING);
        let writer = thread::Builder::new().name("sqlite".into());
        let writer = writer.spawn(move || write_all(connection, &wishes));
        let writer = Mutex::new(Some(writer.map_err(open_error)?));
        Ok(Self { file, sender, readers: Mutex::default(), writer })
    }

    /// Reads with a connection that nobody else has. A page is some 20 rows of memory, mostly; it is read where it was
    /// asked for, since handing it to another thread would cost more.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Pending<'_, T> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| Connection::open(&self.file), Ok);
        let answer = connection.and_then(|mut connection| {
            let answer = read(&mut connection)?;
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            Ok(answer)
        });
        Box::pin(std::future::ready(answer.map_err(failed)))
    }
}

impl Store for OnSqlite {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        let (answer, answered) = oneshot::channel();
        if let Err(error) = self.sender.try_send(Wish::Write(write, answer)) {
            let error = match error {
                TrySendError::Full(_) => StoreError::Busy(format!("{WAITING} writes wait already")),
                TrySendError::Disconnected(_) => failed("its thread has ended"),
            };
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(async move { answered.await.map_err(|_| failed("it is stopping"))? })
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        self.read(|connection| threads(connection, span, limit))
    }

    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>> {
        self.read(|connection| messages(connection, thread, span, limit))
    }

    fn stop(&self) -> Result<(), StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Ok(()) };
        // A thread that has ended has panicked, which shows below.
        self.sender.send(Wish::Stop).ok();
        writer.join().map_err(|_| failed("its thread has panicked"))
    }
}
