//! Follows a recorded gate job by job: whether its steps can have happened, and what became of
//! each job.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{Action, Event, GateSpec, JobId, Queues, Reason, Role, Slot, Time};
use thiserror::Error;

use crate::Step;

/// More slots than any gate has; a replay sets memory aside for each.
const SLOTS_MAX: u64 = 1 << 24;
const SERVERS_MAX: usize = 1 << 16;

/// Way in which a step of a recording breaks the protocol between a gate and its driver.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokenProtocol {
    /// No server, or more than 65 536.
    #[error("the gate has {0} servers, but 1 to {SERVERS_MAX} are possible")]
    Servers(
        /// Number in the recording.
        usize,
    ),
    /// More slots than any gate has, counting of each server the most that it ever had.
    #[error("the gate has {0} slots, but at most {SLOTS_MAX} are possible")]
    Slots(
        /// Number in the recording.
        u64,
    ),
    /// Time runs backwards.
    #[error("the time is {at}, but it was {before} before")]
    Backwards {
        /// The step's time.
        at: Time,
        /// The time of the step before it.
        before: Time,
    },
    /// A server that the specification does not have.
    #[error("server {0} does not exist")]
    NoServer(
        /// Its number.
        u32,
    ),
    /// A job arrives whose number is not above all before it.
    #[error("{0:?} arrives, but numbers must increase")]
    Number(
        /// The job.
        JobId,
    ),
    /// A job is started or refused that does not wait.
    #[error("{0:?} is started or refused, but does not wait")]
    DoesNotWait(
        /// The job.
        JobId,
    ),
    /// A job is given a slot that another one holds.
    #[error("{0:?} is given to a job, but another holds it")]
    SlotHeld(
        /// The slot.
        Slot,
    ),
    /// A slot is said to be held already that another one holds.
    #[error("{0:?} is occupied, but a job holds it")]
    Occupied(
        /// The slot.
        Slot,
    ),
    /// A server becomes a replica where there is one queue for all.
    #[error("server {0} becomes a replica, but there is one queue for all servers")]
    Role(
        /// Its number.
        u32,
    ),
    /// A slot departs that nobody holds.
    #[error("{0:?} departs, but nobody holds it")]
    SlotFree(
        /// The slot.
        Slot,
    ),
}

/// Fate of a job, told as soon as it is known.
pub(crate) enum Fate {
    Served { class: u32, wait: Duration, hold: Duration },
    Refused { reason: Reason },
    Reneged,
}

/// The jobs at a recorded gate.
pub(crate) struct Ledger {
    /// Of each server the most slots that it ever had: a replay keeps memory for them.
    servers: Vec<u32>,
    queues: Queues,
    pub(crate) now: Time,
    last: Option<JobId>,
    waiting: BTreeMap<JobId, (Time, u32)>,
    held: BTreeMap<Slot, Holder>,
}

/// Holder of a slot.
enum Holder {
    Job {
        arrived: Time,
        started: Time,
        class: u32,
    },
    /// A job that was started before there was this gate, so that nothing is known of it.
    Before,
}

impl Ledger {
    pub(crate) fn new(spec: &GateSpec) -> Result<Ledger, BrokenProtocol> {
        let servers: Vec<u32> = spec.servers.iter().map(|server| server.slots).collect();
        if servers.is_empty() || servers.len() > SERVERS_MAX {
            return Err(BrokenProtocol::Servers(servers.len()));
        }
        let ledger = Ledger {
            servers,
            queues: spec.queues,
            now: Time::ZERO,
            last: None,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        ledger.check_slots()?;
        Ok(ledger)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn busy(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn step(
        &mut self,
        step: &Step,
        mut tell: impl FnMut(Fate),
    ) -> Result<(), BrokenProtocol> {
        let Step { at, event, actions } = step;
        if *at < self.now {
            return Err(BrokenProtocol::Backwards { at: *at, before: self.now });
        }
        self.now = *at;
        let mut reneged = None;
        match *event {
            Event::Arrive(job) => {
                if self.last >= Some(job.id) {
                    return Err(BrokenProtocol::Number(job.id));
                }
                self.last = Some(job.id);
                self.waiting.insert(job.id, (self.now, job.class));
            }
            Event::Depart(slot) => self.depart(slot)?.into_iter().for_each(&mut tell),
            Event::Occupy(slot) => {
                self.reach(slot.server, slot.index.saturating_add(1))?;
                if self.held.insert(slot, Holder::Before).is_some() {
                    return Err(BrokenProtocol::Occupied(slot));
                }
            }
            Event::Renege(id) => reneged = Some(id),
            Event::Resize { server, slots } => self.reach(server, slots)?,
            Event::Role { server, role } => {
                self.server(server)?;
                if role == Role::Replica && self.queues == Queues::Shared {
                    return Err(BrokenProtocol::Role(server));
                }
            }
            Event::Up(server) | Event::Down(server) => {
                self.server(server)?;
            }
            // `Event` may grow: what concerns neither jobs nor slots changes nothing here.
            _ => {}
        }
        for action in actions {
            self.act(action, &mut tell)?;
        }
        // Deadlines before now are due before the event: such a job was refused, it did not renege.
        if reneged.is_some_and(|id| self.waiting.remove(&id).is_some()) {
            tell(Fate::Reneged);
        }
        Ok(())
    }

    fn act(&mut self, action: &Action, tell: &mut impl FnMut(Fate)) -> Result<(), BrokenProtocol> {
        match *action {
            Action::Start { job, slot } => {
                let (arrived, class) =
                    self.waiting.remove(&job).ok_or(BrokenProtocol::DoesNotWait(job))?;
                self.server(slot.server)?;
                let holder = Holder::Job { arrived, started: self.now, class };
                if self.held.insert(slot, holder).is_some() {
                    return Err(BrokenProtocol::SlotHeld(slot));
                }
            }
            Action::Refuse { job, reason } => {
                self.waiting.remove(&job).ok_or(BrokenProtocol::DoesNotWait(job))?;
                tell(Fate::Refused { reason });
            }
        }
        Ok(())
    }

    fn depart(&mut self, slot: Slot) -> Result<Option<Fate>, BrokenProtocol> {
        let fate = match self.held.remove(&slot).ok_or(BrokenProtocol::SlotFree(slot))? {
            Holder::Job { arrived, started, class } => {
                let (wait, hold) = (started - arrived, self.now - started);
                Some(Fate::Served { class, wait, hold })
            }
            Holder::Before => None,
        };
        Ok(fate)
    }

    /// A server has so many slots.
    fn reach(&mut self, server: u32, slots: u32) -> Result<(), BrokenProtocol> {
        let most = self.server(server)?;
        *most = slots.max(*most);
        self.check_slots()
    }

    fn server(&mut self, server: u32) -> Result<&mut u32, BrokenProtocol> {
        self.servers.get_mut(server as usize).ok_or(BrokenProtocol::NoServer(server))
    }

    fn check_slots(&self) -> Result<(), BrokenProtocol> {
        let slots = self.servers.iter().map(|&slots| u64::from(slots)).sum();
        if slots > SLOTS_MAX { Err(BrokenProtocol::Slots(slots)) } else { Ok(()) }
    }
}
