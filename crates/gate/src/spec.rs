//! A gate's parameters as plain values: what a scenario file names, what a recording keeps, and
//! all that [`Gate::new`](crate::Gate::new) needs to build the same gate again.

use std::fmt;
use std::time::Duration;

use crate::{DisciplineSpec, EarlyRejection, LoadInformation, Reserve, Role, RouterSpec};

/// The parameters of a gate.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateSpec {
    /// The servers, at least one and at most [`SERVERS_MAX`](GateSpec::SERVERS_MAX), together with
    /// at most [`SLOTS_MAX`](GateSpec::SLOTS_MAX) slots. Their order is their index.
    pub servers: Vec<ServerSpec>,
    /// One queue for all servers, or one for each.
    pub queues: Queues,
    /// Choice of the server: with a queue for each server, at arrival; with one queue, among the
    /// servers that have a free slot, at the start.
    pub router: RouterSpec,
    /// Age of the load information that the router sees.
    #[cfg_attr(
        feature = "serde",
        serde(default, alias = "sight", skip_serializing_if = "LoadInformation::is_fresh")
    )]
    pub load_information: LoadInformation,
    /// Choice of the next job.
    pub discipline: DisciplineSpec,
    /// Bound on the jobs that wait, over all queues; a job that can be started on arrival needs
    /// none. `None` for no bound (live gates must have one).
    pub room: Option<u64>,
    /// The longest wait, counted from arrival; a job's own deadline may be earlier.
    pub wait_max: Option<Duration>,
    /// The longest wait while no server is up, counted from a job's arrival or from the moment when the
    /// last server went down, whichever is later; 0 refuses at once. Who waited in vain for that is
    /// refused as [`Unreachable`](crate::Reason::Unreachable). `None` makes no difference between a
    /// server that is down and one that is busy.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub unreachable_max: Option<Duration>,
    /// Early rejection of jobs that would wait in vain; `None` lets them.
    #[cfg_attr(
        feature = "serde",
        serde(default, alias = "foresight", skip_serializing_if = "Option::is_none")
    )]
    pub early_rejection: Option<EarlyRejection>,
    /// Slots for times of long waits. Needs one queue.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub reserve: Option<Reserve>,
    /// The role of each server; empty if all are [primaries](Role::Primary). A replica needs a queue
    /// for each server.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub roles: Vec<Role>,
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
            load_information: LoadInformation::Fresh,
            discipline: DisciplineSpec::Fifo,
            room: None,
            wait_max: None,
            unreachable_max: None,
            early_rejection: None,
            reserve: None,
            roles: Vec::new(),
            seed: 0,
        }
    }

    /// The share of the jobs that each server gets whatever becomes of the others: with a queue for each,
    /// as [`RouterSpec::shares`] has it; `None` where jobs go to whoever is free or best.
    pub fn shares(&self) -> Option<Vec<f64>> {
        match self.queues {
            Queues::Shared => None,
            Queues::PerServer => self.router.shares(self.servers.len()),
        }
    }

    /// Checks that there can be such a gate.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        match self.servers.len() {
            0 => return Err(SpecError::NoServer),
            n if n > GateSpec::SERVERS_MAX => return Err(SpecError::TooManyServers),
            _ => {}
        }
        let slots: u64 = self.servers.iter().map(|server| u64::from(server.slots)).sum();
        if slots > u64::from(GateSpec::SLOTS_MAX) {
            return Err(SpecError::TooManySlots);
        }
        self.discipline.check()?;
        self.router.check(self)?;
        self.load_information.check()?;
        self.check_extras(slots)
    }

    /// Checks that reserve and roles fit the servers, which have so many slots.
    fn check_extras(&self, slots: u64) -> Result<(), SpecError> {
        let (servers, shared) = (self.servers.len(), self.queues == Queues::Shared);
        if let Some(reserve) = self.reserve {
            if !shared && servers > 1 {
                return Err(SpecError::ReserveWithQueues);
            }
            if slots + u64::from(reserve.slots) * servers as u64 > u64::from(GateSpec::SLOTS_MAX) {
                return Err(SpecError::ReserveTooLarge);
            }
        }
        if !self.roles.is_empty() && self.roles.len() != servers {
            return Err(SpecError::Roles);
        }
        if shared && self.roles.contains(&Role::Replica) {
            return Err(SpecError::RoleWithoutQueues);
        }
        Ok(())
    }
}

/// The parameters of one server behind a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSpec {
    /// Number of jobs that it may serve at once.
    pub slots: u32,
}

/// Queues in which jobs wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Queues {
    /// In one queue for all servers (multiple servers, single queue).
    Shared,
    /// In a queue for each server, chosen at arrival.
    PerServer,
}

/// Why a specification describes no gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no server.
    NoServer,
    /// There are more than [`GateSpec::SERVERS_MAX`].
    TooManyServers,
    /// There are more slots than [`GateSpec::SLOTS_MAX`], over all servers.
    TooManySlots,
    /// The ageing interval is 0, or longer than a year.
    Interval,
    /// The quantum or a weight of deficit round robin is 0.
    Quantum,
    /// Cohorts with a cache, a run or a number of levels of 0.
    Cohort,
    /// The window, delay or refresh period of a router's load information is 0.
    Span,
    /// The weights of EV are negative or infinite, or both 0, or the floor is not above 0.
    Ev,
    /// The power of d with d = 0.
    Choices,
    /// The speed at which work is done is 0.
    Speed,
    /// There is not one weight of 1 to 1,000,000 for each server.
    Weights,
    /// The bounds of key ranges do not increase, or are not one fewer than the servers.
    Bounds,
    /// A table of keys names a key twice, or a server that does not exist.
    Table,
    /// A key is to decide where a job goes, but jobs wait in one queue for all servers.
    KeyWithoutQueues,
    /// A reserve, but a queue for each of several servers.
    ReserveWithQueues,
    /// The reserve and the slots together are more than [`GateSpec::SLOTS_MAX`].
    ReserveTooLarge,
    /// Roles for more or fewer servers than there are.
    Roles,
    /// A replica, but one queue for all servers.
    RoleWithoutQueues,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpecError::NoServer => "a gate needs at least one server",
            SpecError::TooManyServers => "a gate has at most 65536 servers",
            SpecError::TooManySlots => "a gate has at most 16777216 slots, over all servers",
            SpecError::Interval => "an ageing interval is above 0 and at most a year",
            SpecError::Quantum => "deficit round robin needs a quantum and weights of at least 1",
            SpecError::Cohort => {
                "cohorts need a capacity, a longest run and a number of levels of at least 1"
            }
            SpecError::Span => "a window, a delay or a refresh period must be above 0",
            SpecError::Ev => {
                "the weights of EV are numbers of at least 0, one of them above it, and a floor is \
                 above 0"
            }
            SpecError::Choices => "the power of d needs d of at least 1",
            SpecError::Speed => "the speed at which servers work is at least 1 unit per second",
            SpecError::Weights => {
                "a weighted router needs a weight of 1 to 1000000 for each server"
            }
            SpecError::Bounds => "key ranges need increasing bounds, one fewer than servers",
            SpecError::Table => "a table of keys names each key once, and only servers that exist",
            SpecError::KeyWithoutQueues => {
                "routing by key needs a queue for each server, since one queue for all sends a job \
                 to whichever server is free"
            }
            SpecError::ReserveWithQueues => {
                "a reserve needs one queue: with a queue for each server, nobody waits longest"
            }
            SpecError::ReserveTooLarge => {
                "slots and reserve together are at most 16777216, over all servers"
            }
            SpecError::Roles => "there is a role for each server, or none at all",
            SpecError::RoleWithoutQueues => {
                "a replica needs a queue for each server, since one queue for all sends a job to \
                 whichever server is free"
            }
        })
    }
}

impl std::error::Error for SpecError {}
