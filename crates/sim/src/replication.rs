//! One replication: the event loop that drives gates and stations in virtual time.

use std::collections::VecDeque;

use gate::{Action, Event, Gate, GateSpec, Job, JobId, Reason, Slot, Time};
use measure::Recording;
use rand::RngExt;
use workload::{Chance, Drawing, stream};

use crate::calendar::{Calendar, Entry};
use crate::network::{Demand, Load, Sizes};
use crate::program::{Op, Program};
use crate::run::{Options, SimError};
use crate::station::{Desk, Service};
use crate::tally::{ClassTally, GateTally, size_bin};

/// The low bits of a job's id at a gate are the customer, the high bits count its visits.
const CUSTOMER_BITS: u32 = 24;
/// More customers than this at once have no id at a gate.
pub(crate) const CUSTOMERS_MAX: usize = 1 << CUSTOMER_BITS;
/// More steps than this for each customer without time going on are a loop that never ends.
const STANDSTILL_MAX: usize = 1_000;

/// A running network.
#[derive(Debug)]
pub(crate) struct Replication<'a> {
    program: &'a Program,
    now: Time,
    /// When the counting began.
    since: Time,
    /// Steps since time last went on.
    standing: usize,
    /// Arrivals and completions of service so far.
    pub(crate) events: u64,
    calendar: Calendar,
    customers: Vec<Customer>,
    /// More customers than this are a queue that grows without end.
    customers_max: usize,
    free: Vec<u32>,
    desks: Vec<Desk>,
    gates: Vec<Guard>,
    sources: Vec<Source>,
    /// One stream a station, so that a change elsewhere leaves its draws alone.
    demands: Vec<Chance>,
    /// Customers that may go on with their route at this moment.
    ready: VecDeque<u32>,
    actions: Vec<Action>,
    pub(crate) classes: Vec<ClassTally>,
    completed: u64,
    /// While the warm-up is looked for: every response time, in order of completion \[s\].
    pub(crate) responses: Option<Vec<f64>>,
    pub(crate) recording: Option<(usize, Recording)>,
}

#[derive(Debug)]
struct Customer {
    class: u32,
    at: u32,
    /// The document, or the bin of the size.
    group: u32,
    /// The station where it is; none while it thinks or waits at a gate.
    station: Option<u32>,
    /// When its present request began.
    asked: Time,
    /// When it arrived at the gate where it waits.
    knocked: Time,
    size: f64,
    need: u64,
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    gate: u32,
    slot: Slot,
    since: Time,
}

/// A gate and what the driver must keep beside it.
#[derive(Debug)]
struct Guard {
    gate: Gate,
    visits: u64,
    armed: Option<Time>,
    tally: GateTally,
}

/// Where the jobs of a class come from.
#[derive(Debug)]
struct Source {
    when: Chance,
    what: Chance,
    way: Chance,
    drawing: Option<Drawing>,
}

impl<'a> Replication<'a> {
    /// Replication `index` of a run, at time zero: nobody has arrived, closed populations are
    /// thinking. The first one makes the recording, if one is asked for.
    pub(crate) fn new(program: &'a Program, options: &Options, index: u64) -> Replication<'a> {
        let seed = options.seed;
        // Streams: a block of 2^32 for each replication, so that no two draw the same numbers.
        let chance = |block: u64, n: usize| stream(seed, (index << 32) + (block << 28) + n as u64);
        let sources = program.classes.iter().enumerate().map(|(at, class)| Source {
            when: chance(0, at),
            what: chance(1, at),
            way: chance(2, at),
            drawing: match &class.sizes {
                Sizes::Documents(set, draw) => Some(Drawing::new(set, *draw)),
                Sizes::None | Sizes::Drawn(_) => None,
            },
        });
        let specs: Vec<_> = (program.gates.iter().enumerate())
            .map(|(at, node)| {
                let seed = node.spec.seed ^ chance(3, at).random::<u64>();
                GateSpec { seed, ..node.spec.clone() }
            })
            .collect();
        let mut replication = Replication {
            program,
            now: Time::ZERO,
            since: Time::ZERO,
            standing: 0,
            events: 0,
            calendar: Calendar::default(),
            customers: Vec::new(),
            customers_max: (program.population + options.jobs_max as usize).min(CUSTOMERS_MAX),
            free: Vec::new(),
            desks: program.stations.iter().map(|station| Desk::new(station.kind)).collect(),
            gates: specs.iter().map(Guard::new).collect(),
            sources: sources.collect(),
            demands: (0..program.stations.len()).map(|at| chance(4, at)).collect(),
            ready: VecDeque::new(),
            actions: Vec::new(),
            classes: program.classes.iter().map(ClassTally::new).collect(),
            completed: 0,
            responses: None,
            recording: (options.record.filter(|_| index == 0))
                .map(|(at, bound)| (at, Recording::new(specs[at].clone(), bound))),
        };
        replication.open();
        replication
    }

    fn open(&mut self) {
        for class in 0..self.program.classes.len() {
            match &self.program.classes[class].load {
                Load::Open(arrivals) => {
                    let gap = nanos(arrivals.gap_s(&mut self.sources[class].when));
                    self.calendar.enter_after(self.now, gap, Entry::Arrival(class as u32));
                }
                Load::Closed { population, .. } => {
                    for _ in 0..*population {
                        let customer = self.admit(class as u32);
                        self.think(customer);
                    }
                }
            }
        }
    }

    /// Runs until `completed` more jobs have left the network, well or refused, and until time has
    /// gone on since the last reset: what was counted over no time has no rate.
    ///
    /// # Errors
    /// If the jobs in the network grow without end, time stands still or reaches the end of the
    /// clock, or nothing can happen.
    pub(crate) fn run(&mut self, completed: u64) -> Result<(), SimError> {
        let target = self.completed + completed;
        while self.completed < target || self.now == self.since {
            self.standing += 1;
            if self.standing > STANDSTILL_MAX * (STANDSTILL_MAX + self.customers.len()) {
                return Err(SimError::Standstill { at: self.now });
            }
            if let Some(customer) = self.ready.pop_front() {
                self.advance(customer);
                continue;
            }
            let Some((at, entry)) = self.calendar.next() else {
                return Err(SimError::Deadlock { at: self.now, place: self.fullest() });
            };
            if at == Time::MAX {
                return Err(SimError::ClockEnds);
            }
            if at > self.now {
                self.standing = 0;
                self.now = at;
            }
            match entry {
                Entry::Customer(customer) => self.customer_due(customer),
                Entry::Arrival(class) => self.arrival(class)?,
                Entry::Station(station) => self.station_due(station),
                Entry::Gate(gate) => self.gate_due(gate),
            }
        }
        Ok(())
    }

    /// Forgets what was counted so far, but not where everybody is.
    pub(crate) fn reset(&mut self) {
        let now = self.now;
        self.since = now;
        self.desks.iter_mut().for_each(|desk| desk.reset(now));
        self.gates.iter_mut().for_each(|guard| guard.tally.reset(now));
        self.classes.iter_mut().for_each(ClassTally::reset);
    }

    /// The time counted \[s\], with all integrals brought up to now.
    pub(crate) fn settle(&mut self) -> f64 {
        let now = self.now;
        self.desks.iter_mut().for_each(|desk| desk.touch(now));
        self.gates.iter_mut().for_each(|guard| guard.tally.touch(now));
        now.since(self.since).as_secs_f64()
    }

    pub(crate) fn desk(&self, station: usize) -> &Desk {
        &self.desks[station]
    }

    pub(crate) fn gate(&self, gate: usize) -> &GateTally {
        &self.gates[gate].tally
    }

    /// Where most jobs are, for the message of an error.
    fn fullest(&self) -> String {
        let gates = self.gates.iter().zip(&self.program.gates);
        let gates = gates.map(|(guard, node)| (guard.tally.waiting, "gate", &node.name));
        let desks = self.desks.iter().zip(&self.program.stations);
        let desks = desks.map(|(desk, station)| (desk.jobs, "station", &station.name));
        let fullest = gates.chain(desks).max_by_key(|(jobs, ..)| *jobs);
        fullest.map_or_else(String::new, |(_, kind, name)| format!("{kind} `{name}`"))
    }

    /// A place in the table for a customer of this class.
    fn admit(&mut self, class: u32) -> u32 {
        let customer = Customer {
            class,
            at: 0,
            group: 0,
            station: None,
            asked: self.now,
            knocked: self.now,
            size: 0.0,
            need: 0,
            held: Vec::new(),
        };
        match self.free.pop() {
            Some(at) => {
                // What it holds is empty again, but its memory is worth keeping.
                let held = std::mem::take(&mut self.customers[at as usize].held);
                self.customers[at as usize] = Customer { held, ..customer };
                at
            }
            None => {
                self.customers.push(customer);
                self.customers.len() as u32 - 1
            }
        }
    }

    fn arrival(&mut self, class: u32) -> Result<(), SimError> {
        self.events += 1;
        if self.free.is_empty() && self.customers.len() >= self.customers_max {
            return Err(SimError::Unbounded { at: self.now, place: self.fullest() });
        }
        if let Load::Open(arrivals) = &self.program.classes[class as usize].load {
            let gap = nanos(arrivals.gap_s(&mut self.sources[class as usize].when));
            self.calendar.enter_after(self.now, gap, Entry::Arrival(class));
        }
        let customer = self.admit(class);
        self.ask(customer);
        Ok(())
    }

    /// A closed customer begins to think.
    fn think(&mut self, customer: u32) {
        let class = self.customers[customer as usize].class as usize;
        if let Load::Closed { think, .. } = &self.program.classes[class].load {
            let span = nanos(think.sample(&mut self.sources[class].when));
            if span == 0 {
                self.ask(customer);
            } else {
                self.calendar.enter_after(self.now, span, Entry::Customer(customer));
            }
        }
    }

    /// A customer begins a request.
    fn ask(&mut self, customer: u32) {
        let asking = &mut self.customers[customer as usize];
        let class = asking.class as usize;
        asking.asked = self.now;
        asking.at = self.program.entries[class];
        let source = &mut self.sources[class];
        match &self.program.classes[class].sizes {
            Sizes::None => {}
            Sizes::Documents(set, _) => {
                let drawing = source.drawing.as_mut().expect("made for every set");
                let document = drawing.draw(&mut source.what);
                asking.group = document as u32;
                asking.size = set.documents()[document].bytes as f64;
            }
            Sizes::Drawn(dist) => {
                asking.size = dist.sample(&mut source.what);
                asking.group = size_bin(asking.size);
            }
        }
        self.ready.push_back(customer);
    }

    /// A customer's service in a queue, its delay or its think time is over.
    fn customer_due(&mut self, customer: u32) {
        let Some(station) = self.customers[customer as usize].station else {
            self.ask(customer);
            return;
        };
        let now = self.now;
        let desk = &mut self.desks[station as usize];
        desk.touch(now);
        desk.jobs -= 1;
        desk.served += 1;
        self.events += 1;
        if let Service::Queue { line, .. } = &mut desk.service
            && let Some(next) = line.pop_front()
        {
            let need = self.customers[next as usize].need;
            self.calendar.enter_after(now, need, Entry::Customer(next));
        }
        self.customers[customer as usize].station = None;
        self.advance(customer);
    }

    /// The next completion or end of a slice at a station that shares its processor.
    fn station_due(&mut self, station: u32) {
        let now = self.now;
        let desk = &mut self.desks[station as usize];
        let (completed, next) = match &mut desk.service {
            Service::Sharing(sharing) => {
                let completed = sharing.complete(now);
                (completed, if completed.is_some() { sharing.next(now) } else { None })
            }
            Service::FairShare(share) => (share.complete(now), share.next(now)),
            Service::Queue { .. } | Service::Delay => (None, None),
        };
        if let Some(at) = next {
            self.calendar.enter(at, Entry::Station(station));
        }
        if let Some(customer) = completed {
            desk.touch(now);
            desk.jobs -= 1;
            desk.served += 1;
            self.events += 1;
            self.customers[customer as usize].station = None;
            self.advance(customer);
        }
    }

    /// Takes a customer along its route until it must wait for something.
    fn advance(&mut self, customer: u32) {
        let program = self.program;
        loop {
            let going = &mut self.customers[customer as usize];
            let class = going.class as usize;
            let at = going.at as usize;
            going.at += 1;
            match &program.ops[at] {
                Op::Visit { station, demand } => return self.visit(customer, *station, demand),
                Op::VisitServer { gate, demand } => {
                    let held = going.held.last().expect("the compiler saw a gate around it");
                    let station = program.gates[*gate as usize].stations[held.slot.server as usize];
                    return self.visit(customer, station as u32, demand);
                }
                Op::Acquire { gate } => return self.knock(customer, *gate),
                Op::Release => self.release(customer),
                Op::Choose(ways) => {
                    let draw = self.sources[class].way.random::<f64>();
                    if let Some((_, target)) = ways.iter().find(|(sum, _)| draw < *sum) {
                        going.at = *target;
                    }
                }
                Op::Jump(target) => going.at = *target,
                Op::Again { chance, target } => {
                    if self.sources[class].way.random::<f64>() < *chance {
                        going.at = *target;
                    }
                }
                Op::Done => return self.done(customer),
            }
        }
    }

    fn visit(&mut self, customer: u32, station: u32, demand: &Demand) {
        let now = self.now;
        let going = &mut self.customers[customer as usize];
        let need = nanos(match demand {
            Demand::Drawn(dist) => dist.sample(&mut self.demands[station as usize]),
            Demand::OfSize { per_byte_s, base_s } => per_byte_s * going.size + base_s,
            Demand::OfDocument(by_document) => by_document[going.group as usize],
        });
        going.need = need;
        going.station = Some(station);
        let desk = &mut self.desks[station as usize];
        desk.touch(now);
        desk.jobs += 1;
        let look_again = match &mut desk.service {
            Service::Queue { servers, line } if desk.jobs > *servers => {
                return line.push_back(customer);
            }
            Service::Queue { .. } | Service::Delay => {
                return self.calendar.enter_after(now, need, Entry::Customer(customer));
            }
            Service::Sharing(sharing) => sharing.enter(now, customer, need),
            Service::FairShare(share) => {
                let worker = going.held.last().map(|held| (held.gate, held.slot));
                share.enter(now, customer, worker, need)
            }
        };
        if let Some(at) = look_again {
            self.calendar.enter(at, Entry::Station(station));
        }
    }

    /// The gate asked to be woken now, or had asked before something else changed that.
    fn gate_due(&mut self, gate: u32) {
        let guard = &mut self.gates[gate as usize];
        if guard.armed != Some(self.now) {
            return;
        }
        guard.armed = None;
        match guard.gate.next_wakeup() {
            Some(wakeup) if wakeup <= self.now => {
                guard.tally.touch(self.now);
                self.tell(gate, Event::Wake);
            }
            wakeup => self.arm(gate, wakeup),
        }
    }

    /// Sees to it that the gate is woken then, at the latest.
    #[inline]
    fn arm(&mut self, gate: u32, wakeup: Option<Time>) {
        let guard = &mut self.gates[gate as usize];
        if let Some(wakeup) = wakeup
            && guard.armed.is_none_or(|armed| wakeup < armed)
        {
            guard.armed = Some(wakeup);
            self.calendar.enter(wakeup, Entry::Gate(gate));
        }
    }

    /// A customer arrives at a gate.
    fn knock(&mut self, customer: u32, gate: u32) {
        let now = self.now;
        let guard = &mut self.gates[gate as usize];
        guard.visits += 1;
        guard.tally.touch(now);
        guard.tally.waiting += 1;
        let going = &mut self.customers[customer as usize];
        going.knocked = now;
        let class = &self.program.classes[going.class as usize];
        let id = JobId((guard.visits << CUSTOMER_BITS) | u64::from(customer));
        let job = Job {
            class: going.class,
            priority: class.priority,
            key: match class.sizes {
                Sizes::Documents(..) => u64::from(going.group),
                Sizes::None | Sizes::Drawn(_) => 0,
            },
            size: going.size as u64,
            deadline: class.deadline.map(|span| now + span),
            ..Job::new(id)
        };
        self.tell(gate, Event::Arrive(job));
    }

    /// A customer gives back the slot that it took last.
    fn release(&mut self, customer: u32) {
        let now = self.now;
        let held = self.customers[customer as usize].held.pop();
        let held = held.expect("the compiler pairs every release with an acquire");
        let tally = &mut self.gates[held.gate as usize].tally;
        tally.touch(now);
        tally.busy -= 1;
        tally.depart(now.as_nanos() - held.since.as_nanos());
        self.tell(held.gate, Event::Depart(held.slot));
    }

    /// Tells a gate what happened and does what it says. Its tally is up to now.
    #[inline(always)]
    fn tell(&mut self, gate: u32, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        let guard = &mut self.gates[gate as usize];
        guard.gate.handle(self.now, event, &mut actions);
        let wakeup = guard.gate.next_wakeup();
        if let Some((recorded, recording)) = &mut self.recording
            && *recorded == gate as usize
        {
            recording.push(self.now, event, &actions);
        }
        if wakeup.is_some() {
            self.arm(gate, wakeup);
        }
        self.carry_out(gate, actions);
    }

    /// Does what a gate said.
    fn carry_out(&mut self, gate: u32, mut actions: Vec<Action>) {
        let now = self.now;
        let tally = &mut self.gates[gate as usize].tally;
        let mut refused = Vec::new();
        for action in actions.drain(..) {
            tally.waiting -= 1;
            match action {
                Action::Start { job, slot } => {
                    let customer = customer_of(job);
                    let going = &mut self.customers[customer as usize];
                    tally.busy += 1;
                    tally.start(now.as_nanos() - going.knocked.as_nanos());
                    going.held.push(Held { gate, slot, since: now });
                    self.ready.push_back(customer);
                }
                Action::Refuse { job, reason } => {
                    match reason {
                        Reason::QueueFull => tally.refused_full += 1,
                        _ => tally.refused_deadline += 1,
                    }
                    refused.push(customer_of(job));
                }
            }
        }
        // Who is refused gives other gates something to say, so the list is put back first.
        self.actions = actions;
        for customer in refused {
            self.refuse(customer);
        }
    }

    /// A customer was turned away: it gives back all that it holds and leaves.
    fn refuse(&mut self, customer: u32) {
        while !self.customers[customer as usize].held.is_empty() {
            self.release(customer);
        }
        let class = self.customers[customer as usize].class as usize;
        self.classes[class].refused += 1;
        self.leave(customer);
    }

    fn done(&mut self, customer: u32) {
        let going = &self.customers[customer as usize];
        let response = self.now.as_nanos() - going.asked.as_nanos();
        self.classes[going.class as usize].complete(response, going.group, going.size);
        if let Some(responses) = &mut self.responses {
            responses.push(response as f64 * 1e-9);
        }
        self.leave(customer);
    }

    fn leave(&mut self, customer: u32) {
        self.completed += 1;
        let class = self.customers[customer as usize].class as usize;
        match &self.program.classes[class].load {
            Load::Open(_) => self.free.push(customer),
            Load::Closed { .. } => self.think(customer),
        }
    }
}

impl Guard {
    fn new(spec: &GateSpec) -> Guard {
        let gate = Gate::new(spec).expect("the program was checked");
        Guard { gate, visits: 0, armed: None, tally: GateTally::new() }
    }
}

/// The customer whose job this is at a gate.
#[inline]
fn customer_of(job: JobId) -> u32 {
    (job.0 & (CUSTOMERS_MAX as u64 - 1)) as u32
}

/// To the nearest nanosecond; beyond the end of the clock is its end.
#[inline]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9 + 0.5) as u64
}
