//! Follows a recorded gate job by job: whether its steps can have happened, and what became of
//! each job.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{Action, Event, GateSpec, JobId, Queues, Reason, Role, Slot, Time};
use thiserror::Error;

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

/// News of a job, told as soon as it is known.
pub(crate) struct News {
    /// The job's number in the order of arrivals, from 0.
    pub(crate) nth: u64,
    pub(crate) class: u32,
    pub(crate) fate: Fate,
}

/// Fate of a job. Who is served was started before.
pub(crate) enum Fate {
    Started { wait: Duration },
    Served { wait: Duration, hold: Duration },
    Refused { reason: Reason },
    Reneged,
}

/// The jobs at a recorded gate.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Of each server the most slots that it ever had: a replay keeps memory for them.
    servers: Vec<u32>,
    queues: Queues,
    pub(crate) now: Time,
    last: Option<JobId>,
    /// Number of arrivals so far.
    pub(crate) arrived: u64,
    waiting: BTreeMap<JobId, Waiting>,
    held: BTreeMap<Slot, Holder>,
}

/// A job that waits, or has waited.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    nth: u64,
    arrived: Time,
    class: u32,
}

impl Waiting {
    fn news(self, fate: Fate) -> News {
        News { nth: self.nth, class: self.class, fate }
    }
}

/// Holder of a slot.
#[derive(Debug)]
enum Holder {
    Job {
        job: Waiting,
        started: Time,
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
            arrived: 0,
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
        at: Time,
        event: &Event,
        actions: &[Action],
        mut tell: impl FnMut(News),
    ) -> Result<(), BrokenProtocol> {
        if at < self.now {
            return Err(BrokenProtocol::Backwards { at, before: self.now });
        }
        self.now = at;
        let mut reneged = None;
        match *event {
            Event::Arrive(job) => {
                if self.last >= Some(job.id) {
                    return Err(BrokenProtocol::Number(job.id));
                }
                self.last = Some(job.id);
                let waiting = Waiting { nth: self.arrived, arrived: self.now, class: job.class };
                self.arrived += 1;
                self.waiting.insert(job.id, waiting);
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
            Event::Up(server) | Event::Down(server) | Event::Report { server, .. } => {
                self.server(server)?;
            }
            // `Event` may grow: what concerns neither jobs nor slots changes nothing here.
            _ => {}
        }
        for action in actions {
            self.act(action, &mut tell)?;
        }
        // Deadlines before now are due before the event: such a job was refused, it did not renege.
        if let Some(job) = reneged.and_then(|id| self.waiting.remove(&id)) {
            tell(job.news(Fate::Reneged));
        }
        Ok(())
    }

    fn act(&mut self, action: &Action, tell: &mut impl FnMut(News)) -> Result<(), BrokenProtocol> {
        match *action {
            Action::Start { job: id, slot } => {
                let job = self.waiting.remove(&id).ok_or(BrokenProtocol::DoesNotWait(id))?;
                self.server(slot.server)?;
                let holder = Holder::Job { job, started: self.now };
                if self.held.insert(slot, holder).is_some() {
                    return Err(BrokenProtocol::SlotHeld(slot));
                }
                tell(job.news(Fate::Started { wait: self.now - job.arrived }));
            }
            Action::Refuse { job: id, reason } => {
                let job = self.waiting.remove(&id).ok_or(BrokenProtocol::DoesNotWait(id))?;
                tell(job.news(Fate::Refused { reason }));
            }
        }
        Ok(())
    }

    fn depart(&mut self, slot: Slot) -> Result<Option<News>, BrokenProtocol> {
        let fate = match self.held.remove(&slot).ok_or(BrokenProtocol::SlotFree(slot))? {
            Holder::Job { job, started } => {
                let (wait, hold) = (started - job.arrived, self.now - started);
                Some(job.news(Fate::Served { wait, hold }))
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
