//! The core of the agent server: very many keyed agents, messages to one and to many, timers and
//! notifications, decided without a clock, a socket, a thread or a store.
//!
//! The one idea: a [`Partition`] is the unit of scheduling, log and fencing. The shell tells it
//! [events](Event) with the time; it answers with [actions](Action): append to the log, load these
//! agents in one batch, commit this batch (states, cursor and outbox in one transaction), answer,
//! deliver. So all of it runs in a simulator, over a store that fails at every point. Order and
//! eviction are the policies of [`gate::CohortScheduler`].
//!
//! The guarantees, each held by the simulator of this crate's tests:
//! - One agent never handles two messages at once, also across an owner that was suspended: a commit
//!   of an old epoch changes nothing.
//! - Messages of one sender to one agent with one priority are handled in order.
//! - An acknowledged message takes effect exactly once. A message whose handler fails is a dead letter.
//! - A notification is delivered at least once, under a key that stays the same.
//! - A multicast reaches every agent that its destination names once the agent has handled all that was
//!   accepted before: it is stored once, with a cursor, however many receive it.

mod agent;
pub mod alert;
mod directory;
mod ended;
mod message;
mod partition;
mod planted;
mod spec;
mod store;
mod tail;
mod timers;
mod window;

pub use agent::{Agent, Bound, Context, Effect, Failure};
pub use message::{
    Audience, DeadLetter, Delivery, Destination, Entry, Envelope, Epoch, Key, MessageId,
    Notification, NotificationKey, Outgoing, Priority, Seq, TimerName,
};
pub use partition::{Action, Counts, Event, LoadWay, Partition, PartitionView, Refusal};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use spec::{PartitionError, PartitionSpec};
pub use store::{
    Append, Commit, Cursor, Header, Listed, Outcome, PassCursor, Row, RowWrite, Snapshot,
    StateWrite, Stored, Timer,
};
