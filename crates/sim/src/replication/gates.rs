//! At the gates: who knocks, who is let in, and who gives a slot back.

use gate::{Action, Event, Gate, Job, JobId, Reason, Slot, Time};
use workload::RecordedJob;

use super::{GateState, Held, Replication};
use crate::calendar::{Calendar, Entry};
use crate::network::{CUSTOMER_BITS, CUSTOMERS_MAX, Sizes};
use crate::replication::clients::Failure;

impl Replication<'_> {
    /// The gate asked to be woken now, or had asked before something else changed that.
    #[inline]
    pub(super) fn gate_due(&mut self, gate: u32) {
        let state = &mut self.gates[gate as usize];
        if state.armed != Some(self.now) {
            return;
        }
        state.armed = None;
        match state.gate.next_wakeup() {
            Some(wakeup) if wakeup <= self.now => {
                state.tally.accumulate(self.now);
                self.tell(gate, Event::Wake);
            }
            Some(wakeup) => {
                state.arm(gate, wakeup, &mut self.calendar, self.program.is_recorded);
            }
            None => {}
        }
    }

    /// A customer arrives at a gate.
    #[inline]
    pub(super) fn arrive_at_gate(&mut self, customer: u32, gate: u32) {
        if self.program.blocks {
            self.release_kept(customer);
        }
        let now = self.now;
        if self.program.impatient && self.rare_states[customer as usize].unwanted {
            return self.fail(customer, Failure::Unwanted);
        }
        let state = &mut self.gates[gate as usize];
        state.visits += 1;
        state.tally.accumulate(now);
        state.tally.waiting += 1;
        let going = &mut self.customers[customer as usize];
        going.gate_arrival = now;
        let id = JobId((state.visits << CUSTOMER_BITS) | u64::from(customer));
        if let Some(recorded) = self.recorded(customer) {
            let job = Job { id, ..recorded.job };
            return self.arrive_recorded(customer, gate, job, recorded);
        }
        let going = &self.customers[customer as usize];
        let class = &self.program.classes[going.class as usize];
        let job = Job {
            class: going.class,
            priority: class.priority,
            // A document is what a job is about, where it is of the class whose documents these are.
            key: match self.program.classes[going.origin as usize].sizes {
                Sizes::Documents(..) => u64::from(going.group),
                Sizes::None | Sizes::Drawn(_) => 0,
            },
            size: going.size as u64,
            deadline: self.program.classes[going.origin as usize].deadline.map(|span| now + span),
            ..Job::new(id)
        };
        if self.program.impatient {
            self.begin_patience(customer, gate, id);
        }
        self.tell(gate, Event::Arrive(job));
    }

    /// A customer arrives at a gate as it did when it was recorded.
    fn arrive_recorded(&mut self, customer: u32, gate: u32, job: Job, recorded: &RecordedJob) {
        if self.program.impatient {
            let rare = &mut self.rare_states[customer as usize];
            rare.waits = Some((gate, job.id));
            if let Some(patience) = recorded.patience {
                let at = self.now + patience;
                rare.patience_ends = at;
                let order = recorded.order.patience;
                self.calendar.enter_in_order(at, order, Entry::Patience(customer));
            }
        }
        self.tell(gate, Event::Arrive(job));
    }

    /// A customer gives back the slot that it took last.
    #[inline]
    pub(super) fn release(&mut self, customer: u32) {
        let now = self.now;
        let held = self.customers[customer as usize].held.pop();
        let held = held.expect("the compiler pairs every release with an acquire");
        let tally = &mut self.gates[held.gate as usize].tally;
        tally.accumulate(now);
        tally.busy -= 1;
        tally.depart(now.as_nanos() - held.since.as_nanos());
        if self.program.impatient
            && self.rare_states[customer as usize].unwanted
            && let Some(controller) = &mut self.gates[held.gate as usize].controller
        {
            controller.spoil();
        }
        self.tell(held.gate, Event::Depart(held.slot));
    }

    /// A waiting job's client gives up, and the gate knows it.
    pub(super) fn renege(&mut self, gate: u32, id: JobId) {
        let tally = &mut self.gates[gate as usize].tally;
        tally.accumulate(self.now);
        tally.waiting -= 1;
        tally.reneged += 1;
        self.rare_states[customer_of(id) as usize].waits = None;
        self.tell(gate, Event::Renege(id));
    }

    /// Tells a gate what changed from outside.
    pub(super) fn tell_change(&mut self, gate: u32, event: Event) {
        let tally = &mut self.gates[gate as usize].tally;
        tally.accumulate(self.now);
        // Of jobs that were started before there was the gate nothing else is known.
        match event {
            Event::Occupy(_) => tally.busy += 1,
            Event::Depart(_) => tally.busy -= 1,
            _ => {}
        }
        self.tell(gate, event);
    }

    /// Tells a gate what happened and does what it says. Its tally is up to now.
    #[inline(always)]
    fn tell(&mut self, gate: u32, event: Event) {
        let now = self.now;
        let state = &mut self.gates[gate as usize];
        state.gate.handle(now, event, &mut self.actions);
        if let Some((recorded, recording)) = &mut self.recording
            && *recorded == gate as usize
        {
            recording.push(now, event, &self.actions);
        }
        if let (Some(account), 0) = (&mut self.account, gate) {
            account.step(now, &event, &self.actions).expect("the gate keeps its protocol");
        }
        if let Some(wakeup) = state.gate.next_wakeup() {
            state.arm(gate, wakeup, &mut self.calendar, self.program.is_recorded);
        }
        let mut refused = Vec::new();
        for action in &self.actions {
            state.tally.waiting -= 1;
            let customer = match *action {
                Action::Start { job, slot } => {
                    let customer = customer_of(job);
                    debug_assert!(has_slot(&state.gate, slot), "{slot:?} is one too many");
                    let going = &mut self.customers[customer as usize];
                    state.tally.busy += 1;
                    state.tally.start(now.as_nanos() - going.gate_arrival.as_nanos());
                    going.held.push(Held { gate, slot, since: now });
                    self.ready.push_back(customer);
                    customer
                }
                Action::Refuse { job, reason } => {
                    match reason {
                        Reason::QueueFull => state.tally.refused_full += 1,
                        Reason::Unreachable => state.tally.refused_unreachable += 1,
                        Reason::Deadline | Reason::Hopeless => state.tally.refused_deadline += 1,
                    }
                    refused.push(customer_of(job));
                    customer_of(job)
                }
            };
            if self.program.impatient {
                self.rare_states[customer as usize].waits = None;
            }
        }
        debug_assert_eq!(u64::from(state.tally.waiting), state.gate.waiting(), "at gate {gate}");
        debug_assert_eq!(state.tally.busy, state.gate.busy(), "at gate {gate}");
        // Who is refused gives back slots of other gates, which answer into the same list: only now
        // that it has been read to its end.
        self.actions.clear();
        for customer in refused {
            self.fail(customer, Failure::Refused);
        }
        if self.gates[gate as usize].controller.is_some() {
            self.control(gate, &event);
        }
    }

    /// Lets a gate's controller see what it was told, and does what that says.
    #[inline(never)]
    fn control(&mut self, gate: u32, event: &Event) {
        let state = &mut self.gates[gate as usize];
        let Some(controller) = &mut state.controller else { return };
        // Its own answer comes back through here, and would be answered again.
        if matches!(event, Event::Resize { .. }) {
            return;
        }
        let Some(made) = controller.after(self.now, event, &state.gate) else { return };
        let server = controller.server();
        state.tally.moves.push((self.now, made));
        self.tell_change(gate, Event::Resize { server, slots: made.slots });
    }
}

impl GateState {
    /// Sees to it that the gate is woken then, at the latest.
    #[inline]
    fn arm(&mut self, gate: u32, wakeup: Time, calendar: &mut Calendar, is_recorded: bool) {
        if self.armed.is_none_or(|armed| wakeup < armed) {
            self.armed = Some(wakeup);
            match is_recorded {
                // A slot that is free at the very moment of a deadline still serves.
                true => calendar.enter_in_order(wakeup, u32::MAX, Entry::Gate(gate)),
                false => calendar.enter(wakeup, Entry::Gate(gate)),
            }
        }
    }
}

/// True if the server that has just given this slot holds no more than it has.
fn has_slot(gate: &Gate, slot: Slot) -> bool {
    let server = &gate.servers()[slot.server as usize];
    server.busy <= server.slots
}

/// The customer whose job this is at a gate.
#[inline]
fn customer_of(job: JobId) -> u32 {
    (job.0 & (CUSTOMERS_MAX as u64 - 1)) as u32
}
