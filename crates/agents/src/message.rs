//! Messages and their addresses, so that every part of the core means the same by them.

use std::sync::Arc;

use gate::Time;

/// The key of an agent. The shell maps a user's names to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(pub u64);

/// A position in a partition's log of messages, counted from 1; 0 is before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// The number of an owner of a partition: a later owner has a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// A client's name for a message: a second message of this name within the window is the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u128);

/// Importance of a message to its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// The usual one; timers have it too.
    Normal,
    /// Before the usual ones of the same pass.
    High,
    /// At once, whatever pass runs: a person waits. For messages to one agent only.
    Urgent,
}

/// Number of priorities.
pub(crate) const PRIORITIES: usize = 4;

impl Priority {
    /// All of them, the highest first.
    pub(crate) const DESCENDING: [Priority; PRIORITIES] =
        [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
    /// Number of those that wait for a pass: the levels of the scheduler.
    pub(crate) const LEVELS: u8 = 3;

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn level(self) -> u8 {
        self as u8
    }
}

/// Receivers of a message. All but [`One`](Destination::One) make it a multicast, which is stored
/// once, however many receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One agent, which is created if there is none and the [agent](crate::Agent::create) wants it.
    One(Key),
    /// Those of these agents that exist.
    Keys(Arc<[Key]>),
    /// The agents with keys from the first to the last, both included.
    Range(Key, Key),
    /// All agents.
    All,
    /// The agents with a [bound](crate::Bound) on this symbol that this price is outside of.
    Crossed {
        /// The symbol.
        symbol: u32,
        /// Its price.
        price: i64,
    },
}

/// Receivers among those that a destination names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All of them.
    Everyone,
    /// Those that are [armed](crate::Agent::armed).
    Armed,
}

/// A message as its sender gives it.
#[derive(Clone, Debug)]
pub struct Envelope<M> {
    /// The client's name for it, if it wants repetitions recognised.
    pub id: Option<MessageId>,
    /// Its sender: messages of one sender to one agent with one priority are handled in order.
    pub sender: u64,
    /// Its receivers.
    pub to: Destination,
    /// Those among them that receive it.
    pub audience: Audience,
    /// Its importance.
    pub priority: Priority,
    /// Its content.
    pub message: M,
}

/// A message in the log of a partition.
#[derive(Clone, Debug)]
pub struct Entry<M> {
    /// Its position.
    pub seq: Seq,
    /// The moment at which it was accepted.
    pub at: Time,
    /// The message.
    pub envelope: Envelope<M>,
}

/// A message from an agent to an agent on its way between the partitions of both.
#[derive(Clone, Debug)]
pub struct Outgoing<M> {
    /// Its number among all that its partition sent, from 1.
    pub n: u64,
    /// The agent that sent it.
    pub from: Key,
    /// The agent that it is for.
    pub to: Key,
    /// Its importance.
    pub priority: Priority,
    /// Its content.
    pub message: M,
}

/// The stable name of a notification: whoever receives it twice can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotificationKey {
    /// The rule that fired.
    pub rule: u32,
    /// [`VERSION`](crate::Agent::VERSION) of the agent's code.
    pub version: u16,
    /// The agent.
    pub agent: Key,
    /// Position in the log at which the agent was created: another life has another one.
    pub life: Seq,
    /// Number of the agent's firing in this life, from 1.
    pub firing: u64,
}

/// A notification, to be delivered at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Its number in the partition's outbox, from 1.
    pub n: u64,
    /// Its stable name.
    pub key: NotificationKey,
    /// Its content.
    pub payload: Vec<u8>,
}

/// A timer's name, unique within its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerName(pub u64);

/// A message or a firing of a timer, as an agent handles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// A message to this agent alone.
    Message(Priority, Seq),
    /// A multicast.
    Multicast(Priority, Seq),
    /// A timer that was due at this moment.
    Timer(TimerName, Time),
}

/// A delivery that an agent could not handle.
#[derive(Clone, Debug)]
pub struct DeadLetter<M> {
    /// The agent.
    pub key: Key,
    /// The delivery.
    pub delivery: Delivery,
    /// Its content, if it was a message.
    pub message: Option<M>,
    /// The cause, for a person.
    pub reason: String,
}
