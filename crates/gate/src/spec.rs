//! A gate's parameters as plain values: what a scenario file names, what a recording keeps, and
//! all that [`Gate::new`](crate::Gate::new) needs to build the same gate again.

use std::fmt;
use std::time::Duration;

use crate::discipline::{Discipline, Fifo, Lifo, Priority};
use crate::router::{Random, RoundRobin, Router, ShortestQueue};

/// The parameters of a gate.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct GateSpec {
    /// The servers, at least one and at most [`SERVERS_MAX`](GateSpec::SERVERS_MAX), together with
    /// at most [`SLOTS_MAX`](GateSpec::SLOTS_MAX) slots. Their order is their index.
    pub servers: Vec<ServerSpec>,
    /// One queue for all servers, or one for each.
    pub queues: Queues,
    /// Where to: with a queue for each server, at arrival; with one queue, among the servers that
    /// have a free slot, at the start.
    pub router: RouterSpec,
    /// Who is next.
    pub discipline: DisciplineSpec,
    /// How many jobs may wait, over all queues; a job that can be started on arrival needs none.
    /// `None` for no bound (live gates must have one).
    pub room: Option<u64>,
    /// The longest wait, counted from arrival; a job's own deadline may be earlier.
    pub wait_max: Option<Duration>,
    /// The seed of every choice by chance.
    pub seed: u64,
}

impl GateSpec {
    /// The most servers that a gate may have.
    pub const SERVERS_MAX: usize = 1 << 16;
    /// The most slots that a gate may have, over all servers. Memory is set aside for each.
    pub const SLOTS_MAX: u32 = 1 << 24;

    /// One server with `slots` slots, first in first out, without bounds.
    pub fn fifo(slots: u32) -> GateSpec {
        GateSpec {
            servers: vec![ServerSpec { slots }],
            queues: Queues::Shared,
            router: RouterSpec::RoundRobin,
            discipline: DisciplineSpec::Fifo,
            room: None,
            wait_max: None,
            seed: 0,
        }
    }
}

/// The parameters of one server behind a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct ServerSpec {
    /// How many jobs it may serve at once.
    pub slots: u32,
}

/// Where jobs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Queues {
    /// In one queue for all servers (multiple servers, single queue).
    Shared,
    /// In a queue for each server, chosen at arrival.
    PerServer,
}

/// Who is next, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum DisciplineSpec {
    /// First in, first out.
    Fifo,
    /// Last in, first out.
    Lifo,
    /// The highest priority first, first in first out within one.
    Priority,
}

impl DisciplineSpec {
    pub(crate) fn build(self) -> Box<dyn Discipline> {
        match self {
            DisciplineSpec::Fifo => Box::new(Fifo::default()),
            DisciplineSpec::Lifo => Box::new(Lifo::default()),
            DisciplineSpec::Priority => Box::new(Priority::default()),
        }
    }
}

/// Where to, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum RouterSpec {
    /// Each server with equal chance.
    Random,
    /// One after the other.
    RoundRobin,
    /// The server with the fewest jobs.
    ShortestQueue {
        /// Which jobs count.
        length: Length,
        /// Which of several equally short ones.
        ties: Ties,
    },
}

impl RouterSpec {
    pub(crate) fn build(self, seed: u64) -> Box<dyn Router> {
        match self {
            RouterSpec::Random => Box::new(Random::new(seed)),
            RouterSpec::RoundRobin => Box::new(RoundRobin::default()),
            RouterSpec::ShortestQueue { length, ties } => {
                Box::new(ShortestQueue::new(length, ties, seed))
            }
        }
    }
}

/// What the length of a queue counts. ohmae's findings on load balancing hold for one of the two
/// and not for the other, so it is always said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Length {
    /// Jobs that wait for this server alone; with one queue for all servers that is none, and every
    /// choice is a tie.
    Waiting,
    /// Jobs that wait or are being served.
    InSystem,
}

/// Which of several equally good servers is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Ties {
    /// The one with the lowest index.
    Lowest,
    /// The next one after the server chosen last.
    Rotate,
    /// Any, with equal chance.
    Random,
}

/// Why a specification describes no gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// There is no server.
    NoServer,
    /// There are more than [`GateSpec::SERVERS_MAX`].
    TooManyServers,
    /// There are more slots than [`GateSpec::SLOTS_MAX`], over all servers.
    TooManySlots,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpecError::NoServer => "a gate needs at least one server",
            SpecError::TooManyServers => "a gate has at most 65536 servers",
            SpecError::TooManySlots => "a gate has at most 16777216 slots, over all servers",
        })
    }
}

impl std::error::Error for SpecError {}
