//! The face of an agent towards the core: what users write. A handler sees its state and a message,
//! and returns effects; without I/O and clock it can be batched, repeated and checked.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use gate::Time;

use crate::message::{Key, Priority, TimerName};
use crate::store::Timer;

/// A kind of agents.
///
/// Handlers are functions of state, message and [`Context::now`] alone: the core may run one again
/// whose effects were not committed. A panic of [`create`](Agent::create), [`decode`](Agent::decode),
/// a handler, [`armed`](Agent::armed) or [`bounds`](Agent::bounds) counts as a failure of the message;
/// one of another function ends the partition.
///
/// ```
/// use agents::{Agent, Context, Effect, Failure, Key};
/// use gate::Time;
///
/// /// Counts, and tells the world at ten.
/// struct Counter(u8);
///
/// impl Agent for Counter {
///     type Message = u8;
///     const VERSION: u16 = 1;
///     fn create(_key: Key, _first: &u8) -> Option<Counter> {
///         Some(Counter(0))
///     }
///     fn decode(_version: u16, cold: &[u8], _hot: &[u8]) -> Result<Counter, Failure> {
///         cold.first().map(|&n| Counter(n)).ok_or(Failure("no bytes".to_owned()))
///     }
///     fn encode_cold(&self, to: &mut Vec<u8>) {
///         to.push(self.0);
///     }
///     fn on(&mut self, add: &u8, cx: &mut Context<u8>) -> Result<Effect, Failure> {
///         let before = self.0;
///         self.0 = before.checked_add(*add).ok_or(Failure("too many".to_owned()))?;
///         if before < 10 && self.0 >= 10 {
///             cx.notify(1, vec![self.0]);
///         }
///         Ok(Effect::Dirty)
///     }
/// }
///
/// let mut counter = Counter::create(Key(7), &4).expect("it wants to be");
/// let mut cx = Context::new(Time::ZERO, Key(7), 0);
/// assert_eq!(counter.on(&12, &mut cx), Ok(Effect::Dirty));
/// assert_eq!(cx.notified(), [(1, 1, vec![12])]);
/// ```
pub trait Agent: Sized {
    /// The content of messages.
    type Message: Clone + fmt::Debug;
    /// Version of the state's bytes: [`decode`](Agent::decode) reads this one and older ones.
    const VERSION: u16;

    /// The agent that a first message makes; `None` if there is none without having been created:
    /// then the message is a dead letter.
    fn create(key: Key, first: &Self::Message) -> Option<Self>;

    /// An agent from the parts of its state.
    ///
    /// # Errors
    /// Bytes that are no state. The agent then keeps them, and its messages are dead letters.
    fn decode(version: u16, cold: &[u8], hot: &[u8]) -> Result<Self, Failure>;

    /// The part of its state that changes seldom.
    fn encode_cold(&self, to: &mut Vec<u8>);

    /// The part of its state that changes often; nothing if it has no such part.
    fn encode_hot(&self, _to: &mut Vec<u8>) {}

    /// Handles a message.
    ///
    /// # Errors
    /// A message that it cannot handle. Its effects are undone, and it is a dead letter. A panic is
    /// taken for the same.
    fn on(
        &mut self,
        message: &Self::Message,
        cx: &mut Context<Self::Message>,
    ) -> Result<Effect, Failure>;

    /// True for a message for which it is worth to call [`precompute`](Agent::precompute).
    fn precomputes(_message: &Self::Message) -> bool {
        false
    }

    /// Called before a batch, with agents of it and the message that each handles next: whatever several handlers
    /// have to compute can be computed at once. An agent may note the answer where no other function shows it. A
    /// panic of it is without consequences.
    fn precompute(_batch: &[(&Self, &Self::Message)]) {}

    /// Handles a timer that it has set. [`Context::behind`] says by which [divider](Agent::divides).
    ///
    /// # Errors
    /// As of [`on`](Agent::on).
    fn on_timer(
        &mut self,
        _name: TimerName,
        _cx: &mut Context<Self::Message>,
    ) -> Result<Effect, Failure> {
        Ok(Effect::Clean)
    }

    /// True if it wants the multicasts that are for armed agents only.
    fn armed(&self) -> bool {
        true
    }

    /// Bounds outside of which a price could make something happen; multicasts to those
    /// [crossed](crate::Destination::Crossed) leave out an agent as long as prices stay inside.
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    /// Size of a message in memory \[bytes\], beside the core's own.
    fn message_bytes(_message: &Self::Message) -> u64 {
        0
    }

    /// True if a message divides the log of its partition: it takes effect when all that was accepted before
    /// it has, and nothing that was accepted after it does before it has. Timers wait for none. Such a message
    /// is never refused for want of room: whoever offers it waits for its end before the next.
    fn divides(_message: &Self::Message) -> bool {
        false
    }

    /// A message of the log is taken as it is behind the last one before it that
    /// [divides](Agent::divides) the log.
    fn behind(_divider: &Self::Message, _message: &mut Self::Message) {}

    /// A message of the log is taken as it is without one that would [divide](Agent::divides) the log before it
    /// and that the store has refused.
    fn without(_refused: &Self::Message, _message: &mut Self::Message) {}

    /// The tenant that an agent belongs to, for turns.
    fn tenant(_key: Key) -> u32 {
        0
    }
}

/// The change that a handler made to its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// None.
    Clean,
    /// A change of the hot part alone.
    Hot,
    /// A change of any part.
    Dirty,
    /// The agent ends: its state and its timers go.
    Delete,
}

/// The cause why a handler could not do its work, for a person: of a longer one its first 1,000 bytes are
/// kept, and control characters become spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    /// The most bytes of a cause that are kept.
    const BYTES_MAX: usize = 1_000;

    /// Short, and of characters that each store can keep as text.
    pub(crate) fn shortened(self) -> Failure {
        let text = self.0.replace(char::is_control, " ");
        let most = text.len().min(Failure::BYTES_MAX);
        let cut = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let more = if cut < text.len() { "..." } else { "" };
        Failure(format!("{}{more}", &text[..cut]))
    }
}

/// Calls a user's code, of which a panic is a failure.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let told = panic.downcast_ref::<&str>().map(|told| (*told).to_owned());
        let told = told.or_else(|| panic.downcast_ref::<String>().cloned());
        let told = told.unwrap_or("no message".to_owned());
        Err(Failure(format!("it panicked: {told}")))
    });
    result.map_err(Failure::shortened)
}

/// Prices of a symbol within which nothing can happen to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// The symbol.
    pub symbol: u32,
    /// The lowest such price.
    pub low: i64,
    /// The highest such price.
    pub high: i64,
}

/// A change of an agent's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerChange {
    Set { at: Time, every: Option<Duration> },
    Cancel,
}

/// The world as a handler sees it, and the effects that it asks for. They take place together with
/// the change of its state, or not at all.
#[derive(Debug)]
pub struct Context<M> {
    now: Time,
    key: Key,
    fired: u64,
    behind: Option<M>,
    pub(crate) sends: Vec<(Key, Priority, M)>,
    pub(crate) notifications: Vec<(u32, u64, Vec<u8>)>,
    pub(crate) timers: Vec<(TimerName, TimerChange)>,
}

impl<M> Context<M> {
    /// A context as the core gives it, for tests of handlers: the time, the agent, and the number of its
    /// notifications so far.
    pub fn new(now: Time, key: Key, fired: u64) -> Context<M> {
        let (sends, notifications, timers) = (Vec::new(), Vec::new(), Vec::new());
        Context { now, key, fired, behind: None, sends, notifications, timers }
    }

    /// The same for a timer that is due behind this divider of the log.
    pub fn due_behind(mut self, divider: Option<M>) -> Context<M> {
        self.behind = divider;
        self
    }

    /// The last message that [divides](Agent::divides) the log and that this agent has behind it, in the
    /// handler of a timer: none if there is none, or if it handles a message, which
    /// [was told so](Agent::behind).
    pub fn behind(&self) -> Option<&M> {
        self.behind.as_ref()
    }

    /// The time of the batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The agent's own key.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Number of notifications of this agent so far, in this life.
    pub fn fired(&self) -> u64 {
        self.fired
    }

    /// Sends a message to an agent, of this or another partition.
    pub fn send(&mut self, to: Key, priority: Priority, message: M) {
        self.sends.push((to, priority, message));
    }

    /// Notifies the world of a firing of a rule; its number.
    pub fn notify(&mut self, rule: u32, payload: Vec<u8>) -> u64 {
        self.fired += 1;
        self.notifications.push((rule, self.fired, payload));
        self.fired
    }

    /// Sets a timer of this name, in place of one of the same name.
    pub fn at(&mut self, name: TimerName, at: Time) {
        self.timers.push((name, TimerChange::Set { at, every: None }));
    }

    /// Sets a timer that is due after this span.
    pub fn after(&mut self, name: TimerName, span: Duration) {
        self.at(name, self.now + span);
    }

    /// Sets a timer that is due after each such span, at least 1 ms. After a stop it fires once, not
    /// once for each span that has passed.
    pub fn every(&mut self, name: TimerName, span: Duration) {
        let span = span.max(Duration::from_millis(1));
        self.timers.push((name, TimerChange::Set { at: self.now + span, every: Some(span) }));
    }

    /// Cancels a timer; no change if there is none.
    pub fn cancel(&mut self, name: TimerName) {
        self.timers.push((name, TimerChange::Cancel));
    }

    /// The notifications so far: rule, number of the firing, content.
    pub fn notified(&self) -> &[(u32, u64, Vec<u8>)] {
        &self.notifications
    }

    /// The changes of timers so far, in order: the time when each is due, `None` if it is cancelled.
    pub fn timers(&self) -> impl Iterator<Item = (TimerName, Option<Time>)> {
        self.timers.iter().map(|&(name, change)| match change {
            TimerChange::Set { at, .. } => (name, Some(at)),
            TimerChange::Cancel => (name, None),
        })
    }

    /// The changes of timers so far, in order: each with its span, `None` if it is cancelled.
    pub fn timers_set(&self) -> impl Iterator<Item = (TimerName, Option<Timer>)> {
        self.timers.iter().map(|&(name, change)| match change {
            TimerChange::Set { at, every } => (name, Some(Timer { due: at, every })),
            TimerChange::Cancel => (name, None),
        })
    }

    pub(crate) fn has_effects(&self) -> bool {
        !(self.sends.is_empty() && self.notifications.is_empty() && self.timers.is_empty())
    }
}
