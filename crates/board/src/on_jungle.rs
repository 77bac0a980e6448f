//! The board on Jungle, as the paper has it: a page is read from the newest root without asking anybody, and all
//! writes pass one sequencer.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use jungle::{CommitError, Edit, Expect, Node, NodeId, Operation, Target, Transaction, Tree};
use jungle_server::StoreSettings;
use jungle_server::{Directory, Store as Keeper, StoreError as KeeperError, StoreThread};

use crate::post::{Durability, Message, Outcome, Pending, Span, Store, StoreError, Thread, Write};

const STORE: &str = "jungle";
const TREE: &str = "board";

/// A tree: below its root a node for each thread, and below that one for each message, in the order of their ids.
pub(crate) struct OnJungle {
    keeper: Keeper,
    thread: Mutex<Option<StoreThread>>,
}

fn failed(cause: impl std::fmt::Display) -> StoreError {
    StoreError::Failed { store: STORE, cause: cause.to_string() }
}

/// A number in an attribute, as digits: people look at trees.
fn number(node: &Node, name: &str) -> u64 {
    let text = node.attribute(name).and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn text(node: &Node, name: &str) -> String {
    String::from_utf8_lossy(node.attribute(name).unwrap_or_default()).into_owned()
}

fn thread_of(node: &Node) -> Thread {
    Thread {
        id: number(node, "id"),
        time: number(node, "time"),
        author: text(node, "author"),
        title: text(node, "title"),
    }
}

fn message_of(node: &Node) -> Message {
    Message {
        id: number(node, "id"),
        time: number(node, "time"),
        author: text(node, "author"),
        body: text(node, "body"),
        edited: node.attribute("edited").map(|_| number(node, "edited")),
    }
}

/// The position of the first child behind an id: ids of children rise.
fn behind(parent: &Node, id: u64) -> usize {
    let (mut low, mut high) = (0, parent.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let child = parent.child(middle).expect("it lies below the number of children");
        if number(child, "id") <= id { low = middle + 1 } else { high = middle }
    }
    low
}

fn child(parent: &Node, id: u64) -> Option<&Node> {
    let node = parent.child(behind(parent, id).checked_sub(1)?)?;
    (number(node, "id") == id).then_some(node)
}

fn spanned<T>(parent: &Node, span: Span, limit: usize, read: impl Fn(&Node) -> T) -> Vec<T> {
    let first = match span {
        Span::After(0) => 0,
        Span::After(id) => behind(parent, id),
        Span::Newest => parent.len().saturating_sub(limit),
    };
    let end = parent.len().min(first.saturating_add(limit));
    parent.children_at(first..end).map(read).collect()
}

fn edit(edit: Edit) -> Operation {
    Operation::Edit { tree: TREE.to_owned(), edit }
}

fn put(node: NodeId, name: &str, value: &[u8]) -> Operation {
    edit(Edit::Put {
        node: Target::Node(node),
        name: name.to_owned(),
        value: Some(value.to_vec()),
        expect: Expect::Anything,
    })
}

/// The transaction of a write on a tree; `None` if its thread or message is not there.
fn transaction(tree: &Tree, write: &Write) -> Option<Transaction> {
    let root = tree.root();
    let digits = |number: &u64| number.to_string().into_bytes();
    let append = |parent: NodeId, id: &u64, time: &u64, author: &str, own: (&str, &str)| {
        let (id, time) = (digits(id), digits(time));
        let attributes = [
            ("id", &id[..]),
            ("time", &time[..]),
            ("author", author.as_bytes()),
            (own.0, own.1.as_bytes()),
        ];
        Transaction::append(TREE, parent, attributes)
    };
    Some(match write {
        Write::Open(Thread { id, time, author, title }) => {
            append(root.id(), id, time, author, ("title", title))
        }
        Write::Append { thread, message: Message { id, time, author, body, .. } } => {
            append(child(root, *thread)?.id(), id, time, author, ("body", body))
        }
        Write::Edit { thread, id, time, body } => {
            let node = child(child(root, *thread)?, *id)?.id();
            let operations =
                vec![put(node, "body", body.as_bytes()), put(node, "edited", &digits(time))];
            Transaction { operations, ..Transaction::default() }
        }
        Write::Delete { thread, id } => {
            let node = Target::Node(child(child(root, *thread)?, *id)?.id());
            let operations = vec![edit(Edit::Delete { node, from: None })];
            Transaction { operations, ..Transaction::default() }
        }
    })
}

impl OnJungle {
    /// Opens a directory, and makes the tree if it is not there.
    pub(crate) async fn open(folder: &Path, durability: Durability) -> Result<Self, StoreError> {
        let open = |cause: String| StoreError::Open { store: STORE, cause };
        let directory = Directory::take(folder).map_err(|error| open(error.to_string()))?;
        let settings = StoreSettings {
            durability: match durability {
                Durability::Strict => jungle::Durability::Sync,
                Durability::Relaxed => jungle::Durability::Interval,
            },
            ..StoreSettings::default()
        };
        let opened = Keeper::open(directory, settings);
        let (keeper, thread, _) = opened.map_err(|error| open(error.to_string()))?;
        if keeper.version().tree(TREE).is_none() {
            let (root, name) = (NodeId::pending(0), TREE.to_owned());
            let create = Operation::CreateTree { root, name, addressable: true };
            let create = Transaction { operations: vec![create], ..Transaction::default() };
            keeper.commit(create, 0).await.map_err(|error| open(error.to_string()))?;
        }
        Ok(Self { keeper, thread: Mutex::new(Some(thread)) })
    }

    async fn commit(
        keeper: Keeper,
        transaction: Transaction,
        write: Write,
    ) -> Result<Outcome, StoreError> {
        match keeper.commit(transaction, bytes(&write)).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error @ KeeperError::Busy(_)) => Err(StoreError::Busy(error.to_string())),
            // A message that was edited and deleted side by side: it shows now that it is gone.
            Err(KeeperError::Commit(CommitError::Rejected(why))) => {
                let version = keeper.version();
                let tree = version.tree(TREE).expect("it was made at the start");
                match self::transaction(tree, &write) {
                    None => Ok(Outcome::Missing),
                    Some(_) => Err(failed(why)),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The bytes of a write in a queue, about \[B\].
fn bytes(write: &Write) -> u64 {
    let text = match write {
        Write::Open(thread) => thread.author.len() + thread.title.len(),
        Write::Append { message, .. } => message.author.len() + message.body.len(),
        Write::Edit { body, .. } => body.len(),
        Write::Delete { .. } => 0,
    };
    text as u64 + 64
}

impl Store for OnJungle {
    fn write(&self, write: Write) -> Pending<'_, Outcome> {
        let version = self.keeper.version();
        let tree = version.tree(TREE).expect("it was made at the start");
        let Some(transaction) = transaction(tree, &write) else {
            return Box::pin(std::future::ready(Ok(Outcome::Missing)));
        };
        let mut commit: Pin<Box<_>> =
            Box::pin(Self::commit(self.keeper.clone(), transaction, write));
        // The first poll puts it into the sequencer's queue: its place in the order is taken before this returns.
        match commit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            Poll::Pending => commit,
        }
    }

    fn threads(&self, span: Span, limit: usize) -> Pending<'_, Vec<Thread>> {
        let version = self.keeper.version();
        let tree = version.tree(TREE).expect("it was made at the start");
        let read = spanned(tree.root(), span, limit, thread_of);
        Box::pin(std::future::ready(Ok(read)))
    }

    fn messages(
        &self,
        thread: u64,
        span: Span,
        limit: usize,
    ) -> Pending<'_, Option<(Thread, Vec<Message>)>> {
        let version = self.keeper.version();
        let tree = version.tree(TREE).expect("it was made at the start");
        let read = child(tree.root(), thread)
            .map(|node| (thread_of(node), spanned(node, span, limit, message_of)));
        Box::pin(std::future::ready(Ok(read)))
    }

    fn stop(&self) -> Result<(), StoreError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.map_or(Ok(()), |thread| thread.stop().map_err(failed))
    }
}
