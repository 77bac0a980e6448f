//! Events and actions at the seam between a gate and its driver. All enums, so that a new variant
//! breaks every driver at compile time.

use std::time::Duration;

use crate::Time;

/// A job's name at one gate. The driver chooses ids; they must strictly increase from arrival to
/// arrival, and the gate asserts it. Drivers keep their own index in the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobId(pub u64);

/// A request for service, as much of it as a policy may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// Its name at this gate.
    pub id: JobId,
    /// Its class, an index that the driver gives meaning to.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero_u32"))]
    pub class: u32,
    /// Its importance: a larger number is served first under strict priority.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero_u8"))]
    pub priority: u8,
    /// Key of its subject (an account, a document), hashed: routing by key looks at it.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero_u64"))]
    pub key: u64,
    /// Access that it needs: a job that only reads may go to a [replica](crate::Role::Replica).
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Access::writes"))]
    pub access: Access,
    /// Service that it will need, as far as anybody knows; 0 if nobody does. The unit is the
    /// driver's (bytes, nanoseconds), the same for all jobs of a gate.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero_u64"))]
    pub size: u64,
    /// The moment at which it must have been started at the latest, else it is refused.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub deadline: Option<Time>,
    /// When it arrived at the gate, which sets it, whatever the driver says: disciplines with ageing
    /// count from here, also when the job is routed anew.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub since: Time,
}

impl Job {
    /// A job of class 0, of the lowest priority, without key, size or deadline.
    pub const fn new(id: JobId) -> Job {
        Job {
            id,
            class: 0,
            priority: 0,
            key: 0,
            access: Access::Write,
            size: 0,
            deadline: None,
            since: Time::ZERO,
        }
    }
}

#[cfg(feature = "serde")]
fn is_zero_u8(n: &u8) -> bool {
    *n == 0
}
#[cfg(feature = "serde")]
fn is_zero_u32(n: &u32) -> bool {
    *n == 0
}
#[cfg(feature = "serde")]
fn is_zero_u64(n: &u64) -> bool {
    *n == 0
}

/// Access of a job to what its servers hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Access {
    /// It may write.
    #[default]
    Write,
    /// It only reads.
    Read,
}

#[cfg(feature = "serde")]
impl Access {
    fn writes(&self) -> bool {
        *self == Access::Write
    }
}

/// Jobs that a server may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Role {
    /// Everything.
    #[default]
    Primary,
    /// Jobs that only [read](Access::Read).
    Replica,
}

/// A permission to be served: the slot `index` of a server. A slot is one worker, thread,
/// connection or task; which one it is stays the same for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slot {
    /// The server, in the order of the specification.
    pub server: u32,
    /// The slot of that server, from 0.
    pub index: u32,
}

/// Event as a gate sees it. Every change from outside is an event, so that a recording of the
/// events is all that a replay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Event {
    /// A job asks for service.
    Arrive(Job),
    /// The job in this slot is done; the slot is free.
    Depart(Slot),
    /// The client of a waiting job gave up. Harmless if the job is no longer waiting.
    Renege(JobId),
    /// Nothing happened, but the moment named by [`Gate::next_wakeup`](crate::Gate::next_wakeup)
    /// has come. A needless one is harmless.
    Wake,
    /// The server has this many slots from now on. Jobs in slots that are gone finish in peace;
    /// nobody is started until fewer jobs than that are being served.
    Resize {
        /// The server.
        server: u32,
        /// Its slots from now on; 0 lets nobody in. Jobs are still routed to its queue: what sends
        /// them elsewhere is [`Event::Down`].
        slots: u32,
    },
    /// The server may be used again. Jobs that found no server at all are routed now; those that
    /// wait for another server stay there.
    Up(
        /// The server.
        u32,
    ),
    /// The server must not be given jobs. Jobs that wait for it alone are routed anew, in the order
    /// in which it would have served them, and are not held against the room again; jobs that it
    /// is serving stay until they depart.
    Down(
        /// The server.
        u32,
    ),
    /// The server has this role from now on. Jobs that wait for it alone are routed anew, as if it had
    /// been [down](Event::Down), and so are those that found no server.
    Role {
        /// The server.
        server: u32,
        /// Its role from now on.
        role: Role,
    },
    /// No job is started until [`Event::Resume`]; jobs go on arriving, waiting and timing out.
    Pause,
    /// Jobs may be started again.
    Resume,
    /// The longest wait that is allowed to jobs that arrive from now on; `None` for no limit.
    WaitMax(
        /// The longest wait.
        Option<Duration>,
    ),
    /// Longest wait of a job from now on while no server is up, as
    /// [`GateSpec::unreachable_max`](crate::GateSpec::unreachable_max) has it. If none is, those
    /// that wait may do so for as long from now.
    UnreachableMax(
        /// The wait; `None` makes no difference.
        Option<Duration>,
    ),
    /// Bound on the jobs that wait from now on, as [`GateSpec::room`](crate::GateSpec::room) has
    /// it; those that wait stay.
    Room(
        /// The number; `None` for no bound.
        Option<u64>,
    ),
    /// This slot is held by a job that was started before there was this gate, and departs as any
    /// other. Of a slot beyond those that there are the job ends in peace.
    Occupy(Slot),
    /// A server's state as somebody outside saw it, fresh or stale. A router with
    /// [`LoadInformation::Reported`](crate::LoadInformation::Reported) goes by it from now on; to any other it is
    /// harmless.
    Report {
        /// The server.
        server: u32,
        /// Its content.
        report: Report,
    },
}

/// Report on a server from outside, in place of the gate's own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Jobs that wait for it, wherever they come from.
    pub waiting: u64,
    /// Jobs that it is serving, wherever they come from.
    pub busy: u32,
    /// Utilisation of it, over whatever window the reporter uses.
    pub utilisation: Share,
    /// The work that waits or is being served, in the unit of [`Job::size`].
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero_u64"))]
    pub work: u64,
}

/// A share of a whole, 0 to 1 in steps of a millionth, so that a report can be compared and
/// recorded exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share(u32);

impl Share {
    /// The share nearest to `share`; outside of 0 to 1 it is the nearer end.
    ///
    /// # Panics
    /// If `share` is not a number.
    pub fn new(share: f64) -> Share {
        assert!(!share.is_nan(), "a share that is not a number");
        Share((share.clamp(0.0, 1.0) * 1e6).round() as u32)
    }

    /// It as a number, 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0.min(1_000_000)) * 1e-6
    }
}

/// Why a job was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Reason {
    /// Too many jobs waited, over all queues and of whatever priority.
    QueueFull,
    /// It could not be started before its deadline.
    Deadline,
    /// It came when it was foreseen that it could not: see [`EarlyRejection`](crate::EarlyRejection).
    Hopeless,
    /// No server was up for as long as it might wait for one: see
    /// [`GateSpec::unreachable_max`](crate::GateSpec::unreachable_max).
    Unreachable,
}

impl Reason {
    /// Its name, as metrics, headers and recordings have it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::QueueFull => "queue-full",
            Reason::Deadline => "deadline",
            Reason::Hopeless => "hopeless",
            Reason::Unreachable => "unreachable",
        }
    }
}

/// Order to the driver, to be carried out now. The list that [`Gate::handle`](crate::Gate::handle)
/// fills is complete: there is nothing left to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Action {
    /// Begin serving `job` in `slot`; say [`Event::Depart`] when it is done.
    Start {
        /// The job.
        job: JobId,
        /// The slot that it holds until it departs.
        slot: Slot,
    },
    /// Turn `job` away. It never held a slot.
    Refuse {
        /// The job.
        job: JobId,
        /// Why.
        reason: Reason,
    },
}
