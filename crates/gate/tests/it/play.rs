//! A gate that is told events at milliseconds, and short names for what it says.

use std::time::Duration;

use gate::{
    Action, Event, Gate, GateSpec, Job, JobId, Queues, Reason, RouterSpec, ServerSpec, Slot, Time,
};

pub(crate) struct Play {
    pub(crate) gate: Gate,
}

impl Play {
    pub(crate) fn new(spec: &GateSpec) -> Play {
        Play { gate: Gate::new(spec).expect("a valid specification") }
    }

    /// Tells an event and returns what the gate says.
    pub(crate) fn tell(&mut self, ms: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.gate.handle(at(ms), event, &mut actions);
        actions
    }

    /// Plays a whole table: at this moment, this event, these answers.
    pub(crate) fn table(&mut self, rows: &[(u64, Event, &[Action])]) {
        for (row, (ms, event, expected)) in rows.iter().enumerate() {
            assert_eq!(self.tell(*ms, *event), *expected, "row {row}: at {ms} ms {event:?}");
        }
    }

    /// Jobs arrive at this moment, in this order; the servers that are started, one by one.
    pub(crate) fn servers_of(&mut self, ms: u64, jobs: std::ops::Range<u64>) -> Vec<u32> {
        let actions = jobs.flat_map(|id| self.tell(ms, arrive(id)));
        actions.map(|action| slot_of(&action).server).collect()
    }
}

pub(crate) fn slot_of(action: &Action) -> Slot {
    match action {
        Action::Start { slot, .. } => *slot,
        Action::Refuse { .. } => panic!("{action:?} is not a start"),
    }
}

/// One server with this many slots for each number, one queue.
pub(crate) fn shared(slots: &[u32]) -> GateSpec {
    let servers = slots.iter().map(|&slots| ServerSpec { slots }).collect();
    GateSpec { servers, ..GateSpec::fifo(1) }
}

/// The same with a queue for each server.
pub(crate) fn per_server(slots: &[u32], router: RouterSpec) -> GateSpec {
    GateSpec { queues: Queues::PerServer, router, ..shared(slots) }
}

pub(crate) fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn arrive(id: u64) -> Event {
    Event::Arrive(Job::new(JobId(id)))
}

pub(crate) fn arrive_with(id: u64, priority: u8) -> Event {
    Event::Arrive(Job { priority, ..Job::new(JobId(id)) })
}

pub(crate) fn arrive_until(id: u64, deadline_ms: u64) -> Event {
    Event::Arrive(Job { deadline: Some(at(deadline_ms)), ..Job::new(JobId(id)) })
}

pub(crate) fn renege(id: u64) -> Event {
    Event::Renege(JobId(id))
}

pub(crate) fn depart(server: u32, index: u32) -> Event {
    Event::Depart(Slot { server, index })
}

pub(crate) fn resize(server: u32, slots: u32) -> Event {
    Event::Resize { server, slots }
}

pub(crate) fn start(id: u64, server: u32, index: u32) -> Action {
    Action::Start { job: JobId(id), slot: Slot { server, index } }
}

pub(crate) fn full(id: u64) -> Action {
    Action::Refuse { job: JobId(id), reason: Reason::QueueFull }
}

pub(crate) fn late(id: u64) -> Action {
    Action::Refuse { job: JobId(id), reason: Reason::Deadline }
}
