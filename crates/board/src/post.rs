//! The vocabulary of the board: what is stored, what is written, and what comes of it. Ids and times are given by the
//! front end, so that every store holds the same.

use std::future::Future;
use std::pin::Pin;

/// Messages and threads of a page.
pub const PAGE: usize = 20;

/// A thread. Its messages lie behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Number given by the front end, from 1.
    pub id: u64,
    /// Moment of its writing \[us since 1970\].
    pub time: u64,
    /// Author.
    pub author: String,
    /// Title.
    pub title: String,
}

/// A message of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number given by the front end, unique among threads and messages.
    pub id: u64,
    /// Moment of its writing \[us since 1970\].
    pub time: u64,
    /// Author.
    pub author: String,
    /// Text.
    pub body: String,
    /// Moment of the last edit \[us since 1970\].
    pub edited: Option<u64>,
}

/// A change of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new thread.
    Open(Thread),
    /// A new message at the end of a thread.
    Append {
        /// The thread.
        thread: u64,
        /// The message.
        message: Message,
    },
    /// Another text of a message.
    Edit {
        /// The thread.
        thread: u64,
        /// The message.
        id: u64,
        /// Moment of the edit \[us since 1970\].
        time: u64,
        /// The text.
        body: String,
    },
    /// A message is taken away.
    Delete {
        /// The thread.
        thread: u64,
        /// The message.
        id: u64,
    },
}

/// Outcome of a write that a store has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored, as safely as the durability class says.
    Done,
    /// The thread, or the message in it, is not there. Nothing has happened.
    Missing,
}

/// Choice of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The first ones behind an id; 0 is the beginning.
    After(u64),
    /// The newest ones.
    Newest,
}

/// Safety of an acknowledged write. Runs of different classes are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk: a power failure loses nothing that was acknowledged.
    Strict,
    /// A power failure may lose the newest writes; a crash of the program that holds them need not.
    Relaxed,
}

impl Durability {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Relaxed => "relaxed",
        }
    }
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Too much waits. Nothing has happened.
    #[error("{0}; retry later")]
    Busy(String),
    /// It cannot be opened or made.
    #[error("{store}: {cause}")]
    Open {
        /// The store.
        store: &'static str,
        /// The cause.
        cause: String,
    },
    /// It failed. A write may have happened or not.
    #[error("{store} failed: {cause}")]
    Failed {
        /// The store.
        store: &'static str,
        /// The cause.
        cause: String,
    },
}

/// An answer that comes.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A keeper of threads and messages.
///
/// The order of a page is the order of ids. The front end calls `write` in the order of the ids, one call after the
/// other, and awaits the answers as they come; a store that orders by arrival takes its place in the order inside the
/// call, before it returns.
pub trait Store: Send + Sync {
    /// Writes. The answer is [`Outcome::Done`] only when the write is as safe as the durability class says.
    fn write(&self, write: Write) -> Pending<'_, Outcome>;

    /// Threads of a span, at most `limit`, in the order of ids.
    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>>;

    /// A thread and messages of a span, at most `limit`, in the order of ids; `None` without the thread. Both are of
    /// one moment.
    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>>;

    /// Makes everything safe and lets go of what it holds. Nothing is asked of it any more.
    ///
    /// # Errors
    /// [`StoreError`], if that cannot be done.
    fn stop(&self) -> Result<(), StoreError>;
}
