//! The content of a partition's store as plain values: what the core reads at the start, and what it
//! has written in one transaction. Shells turn them into rows.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::Time;

use crate::agent::Bound;
use crate::message::{
    DeadLetter, Entry, Epoch, Key, Notification, Outgoing, PRIORITIES, Seq, TimerName,
};

/// The core's own part of an agent's row, written whenever the row is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Version of the state's bytes.
    pub version: u16,
    /// For each priority, the last message to this agent alone that took effect.
    pub applied: [Seq; PRIORITIES],
    /// For each priority, the last multicast that the agent handled or was passed over by.
    pub heard: [Seq; PRIORITIES],
    /// Position in the log at which it was created; multicasts before it are not for it.
    pub born: Seq,
    /// Number of its notifications.
    pub fired: u64,
    /// Its wish for multicasts.
    pub armed: bool,
    /// Its bounds.
    pub bounds: Vec<Bound>,
}

/// The parts of an agent's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The part that changes seldom.
    pub cold: Vec<u8>,
    /// The part that changes often.
    pub hot: Vec<u8>,
}

/// An agent's row. Without a state it only remembers what took effect before the agent ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The core's part.
    pub header: Header,
    /// The agent's part.
    pub state: Option<Stored>,
}

/// The change of an agent's state in its row; the header is always written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateWrite {
    /// None.
    Keep,
    /// The hot part.
    Hot(Vec<u8>),
    /// Both parts.
    Whole(Stored),
    /// The state goes.
    Delete,
}

/// A write of an agent's row.
#[derive(Clone, Debug)]
pub struct RowWrite {
    /// The agent.
    pub key: Key,
    /// The core's part.
    pub header: Header,
    /// The agent's part.
    pub state: StateWrite,
}

/// A timer in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it is due.
    pub due: Time,
    /// The span after which it is due again.
    pub every: Option<Duration>,
}

/// A pass that was not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassCursor {
    /// The last message of the log that takes part.
    pub until: Seq,
    /// All agents below this key have handled the multicasts of the pass.
    pub position: Key,
}

/// The progress of a partition: one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// All messages up to this one have taken effect; `Seq(0)` for none.
    pub low: Seq,
    /// All multicasts up to this one have reached their receivers.
    pub spanned: Seq,
    /// The pass that runs.
    pub pass: Option<PassCursor>,
    /// Messages up to this one are forgotten, and their ids with them.
    pub trimmed: Seq,
    /// Sent messages up to this one have arrived.
    pub relayed: u64,
    /// Number of notifications, and of sent messages, that there ever were.
    pub notified: u64,
    /// The same of messages from agents to agents.
    pub sent: u64,
}

/// A transaction that appends to the log. It takes place only if the partition's epoch is `epoch` and
/// the last message of its log is `after`.
#[derive(Clone, Debug)]
pub struct Append<M> {
    /// The owner.
    pub epoch: Epoch,
    /// The last message before.
    pub after: Seq,
    /// The new messages, in order, numbered from `after` on.
    pub entries: Vec<Entry<M>>,
    /// Of each partition from which agents sent some of them, the number of the last.
    pub received: BTreeMap<u32, u64>,
}

/// A transaction of a batch: states, cursor and outbox together. It takes place only if the
/// partition's epoch is `epoch` and its version is `version`, which becomes one more.
#[derive(Clone, Debug)]
pub struct Commit<M> {
    /// The owner.
    pub epoch: Epoch,
    /// The version before.
    pub version: u64,
    /// The progress.
    pub cursor: Cursor,
    /// Rows of agents.
    pub rows: Vec<RowWrite>,
    /// Rows without a state that nothing needs any more.
    pub erased: Vec<Key>,
    /// New notifications, numbered on.
    pub notifications: Vec<Notification>,
    /// Numbers of notifications that were delivered, or given up.
    pub delivered: Vec<u64>,
    /// New messages from agents to agents, numbered on.
    pub sends: Vec<Outgoing<M>>,
    /// Timers as they are now; `None` for none.
    pub timers: BTreeMap<(Key, TimerName), Option<Timer>>,
    /// Deliveries that could not be handled.
    pub dead: Vec<DeadLetter<M>>,
}

/// The end of a transaction as far as the shell knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took place.
    Written,
    /// It did not take place, because epoch, version or end of the log are others: these.
    Conflict {
        /// The epoch of the partition.
        epoch: Epoch,
        /// Its version.
        version: u64,
        /// The last message of its log.
        log_end: Seq,
    },
    /// Nobody knows: no answer came. It may still take place.
    Unknown,
    /// It did not take place and never will, because the store refuses its content.
    Rejected(String),
}

/// An agent as the directory of a partition lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its wish for multicasts.
    pub armed: bool,
    /// Its bounds.
    pub bounds: Vec<Bound>,
}

/// A partition as its owner finds it, read in the transaction that raised its epoch.
#[derive(Clone, Debug)]
pub struct Snapshot<M> {
    /// The new epoch.
    pub epoch: Epoch,
    /// The version.
    pub version: u64,
    /// The progress.
    pub cursor: Cursor,
    /// The last message of the log.
    pub log_end: Seq,
    /// Of each partition, the number of the last message that its agents sent here.
    pub received: BTreeMap<u32, u64>,
    /// The messages after [`Cursor::trimmed`], in order.
    pub log: Vec<Entry<M>>,
    /// The agents that have a state.
    pub directory: Vec<(Key, Listed)>,
    /// The rows without a state, each with the last message that it remembers.
    pub ended: Vec<(Key, Seq)>,
    /// The timers.
    pub timers: Vec<(Key, TimerName, Timer)>,
}
