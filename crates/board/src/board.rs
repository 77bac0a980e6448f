//! The board itself: it gives ids and times, keeps the order in which a store sees them, and refuses what no store
//! should have to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::page;
use crate::post::{Message, Outcome, PAGE, Pending, Span, Store, StoreError, Thread, Write};
use crate::verify::{self, Verified};

/// The most bytes of a title or an author \[B\].
pub const NAME_MAX: usize = 200;
/// The most bytes of a message \[B\].
pub const BODY_MAX: usize = 16 << 10;

/// Why a wish was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// The thread or message is not there.
    #[error("{0} is not there; the pages of the board name what is")]
    Missing(String),
    /// A text is empty, too long, or has what no text has.
    #[error("{0}")]
    Text(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes of a kind since the board was opened.
#[derive(Debug, Default)]
pub struct Writes {
    /// Number that was acknowledged.
    pub acknowledged: AtomicU64,
    /// Number whose fate nobody knows: the store failed, or whoever asked went before the answer.
    pub unknown: AtomicU64,
}

/// Writes since the board was opened, by kind.
#[derive(Debug, Default)]
pub struct AllWrites {
    /// Threads opened.
    pub threads: Writes,
    /// Messages appended.
    pub messages: Writes,
    /// Messages edited.
    pub edits: Writes,
    /// Messages deleted.
    pub deletions: Writes,
}

#[derive(Debug)]
struct Stamp {
    id: u64,
    time: u64,
}

/// Fate of a write that a store was given: unknown if it fails, or if whoever asked for it goes before the answer comes.
struct Fate<'a> {
    unknown: &'a AtomicU64,
    is_known: bool,
}

impl Drop for Fate<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A bulletin board on a store.
pub struct Board {
    store: Arc<dyn Store>,
    /// One short gate for all writes: the stamp and the store's place in the order are one step.
    stamp: Mutex<Stamp>,
    writes: AllWrites,
    found: Verified,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").field("stamp", &self.stamp).finish_non_exhaustive()
    }
}

fn checked(name: &str, text: &str, most: usize) -> Result<(), BoardError> {
    let wrong = if text.is_empty() {
        format!("`{name}` is empty; write something")
    } else if text.len() > most {
        format!("`{name}` has {} B, and at most {most} are taken; write less", text.len())
    } else if text.contains('\0') {
        format!("`{name}` holds the character NUL, which no text has; take it out")
    } else {
        return Ok(());
    };
    Err(BoardError::Text(wrong))
}

impl Board {
    /// A board on what a store holds; all of it is read once, so that ids go on behind the greatest.
    ///
    /// # Errors
    /// [`StoreError`], if it cannot be read.
    pub async fn on(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let found = verify::read(&*store).await?;
        let stamp = Mutex::new(Stamp { id: found.id_max, time: found.time_max });
        Ok(Self { store, stamp, writes: AllWrites::default(), found })
    }

    /// What was there when it was opened.
    pub fn found(&self) -> &Verified {
        &self.found
    }

    /// Writes since then.
    pub fn writes(&self) -> &AllWrites {
        &self.writes
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Stamps a write and gives it to the store, as one step. Time never goes back, whatever the clock does.
    fn stamped(&self, clock: u64, write: impl FnOnce(u64, u64) -> Write) -> Pending<'_, Outcome> {
        let mut stamp = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        stamp.id += 1;
        stamp.time = stamp.time.max(clock);
        self.store.write(write(stamp.id, stamp.time))
    }

    async fn done(
        &self,
        answer: Pending<'_, Outcome>,
        writes: &Writes,
        what: impl FnOnce() -> String,
    ) -> Result<(), BoardError> {
        let mut fate = Fate { unknown: &writes.unknown, is_known: false };
        let decided = answer.await;
        fate.is_known = !matches!(decided, Err(StoreError::Failed { .. }));
        match decided {
            Ok(Outcome::Done) => {
                writes.acknowledged.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(Outcome::Missing) => Err(BoardError::Missing(what())),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a thread at a moment \[us since 1970\]; its id.
    ///
    /// # Errors
    /// [`BoardError`].
    pub async fn open(&self, clock: u64, author: &str, title: &str) -> Result<u64, BoardError> {
        checked("author", author, NAME_MAX)?;
        checked("title", title, NAME_MAX)?;
        let mut made = 0;
        let answer = self.stamped(clock, |id, time| {
            made = id;
            Write::Open(Thread { id, time, author: author.to_owned(), title: title.to_owned() })
        });
        self.done(answer, &self.writes.threads, || "the board".into()).await?;
        Ok(made)
    }

    /// Appends a message to a thread; its id.
    ///
    /// # Errors
    /// [`BoardError`].
    pub async fn append(
        &self,
        clock: u64,
        thread: u64,
        author: &str,
        body: &str,
    ) -> Result<u64, BoardError> {
        checked("author", author, NAME_MAX)?;
        checked("body", body, BODY_MAX)?;
        let mut made = 0;
        let answer = self.stamped(clock, |id, time| {
            made = id;
            let (author, body) = (author.to_owned(), body.to_owned());
            Write::Append { thread, message: Message { id, time, author, body, edited: None } }
        });
        self.done(answer, &self.writes.messages, || format!("thread {thread}")).await?;
        Ok(made)
    }

    /// Gives a message another text.
    ///
    /// # Errors
    /// [`BoardError`].
    pub async fn edit(
        &self,
        clock: u64,
        thread: u64,
        id: u64,
        body: &str,
    ) -> Result<(), BoardError> {
        checked("body", body, BODY_MAX)?;
        let edit = |_, time| Write::Edit { thread, id, time, body: body.to_owned() };
        let answer = self.stamped(clock, edit);
        let what = || format!("message {id} of thread {thread}");
        self.done(answer, &self.writes.edits, what).await
    }

    /// Takes a message away.
    ///
    /// # Errors
    /// [`BoardError`].
    pub async fn delete(&self, thread: u64, id: u64) -> Result<(), BoardError> {
        let answer = self.stamped(0, |_, _| Write::Delete { thread, id });
        let what = || format!("message {id} of thread {thread}");
        self.done(answer, &self.writes.deletions, what).await
    }

    /// The page of threads.
    ///
    /// # Errors
    /// [`BoardError::Store`].
    pub async fn threads(&self, span: Span) -> Result<String, BoardError> {
        let read = self.store.threads(span, PAGE + 1).await?;
        Ok(page::threads(&read, span))
    }

    /// The page of a thread.
    ///
    /// # Errors
    /// [`BoardError`].
    pub async fn messages(&self, thread: u64, span: Span) -> Result<String, BoardError> {
        let read = self.store.messages(thread, span, PAGE + 1).await?;
        let missing = || BoardError::Missing(format!("thread {thread}"));
        let (thread, read) = read.ok_or_else(missing)?;
        Ok(page::messages(&thread, &read, span))
    }
}
