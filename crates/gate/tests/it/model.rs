//! The gate once more, as slowly and plainly as possible: lists that are searched from end to end,
//! nothing that is kept up to date.

use std::time::Duration;

use gate::{
    Action, DisciplineSpec, Event, GateSpec, Job, Length, Queues, Reason, RouterSpec, Slot, Ties,
    Time,
};

pub(crate) struct Model {
    spec: GateSpec,
    servers: Vec<Server>,
    /// Jobs that wait, in the order of arrival, and for which server; `None` for any.
    waiting: Vec<(Job, Option<usize>)>,
    paused: bool,
    /// Since when no server is up, or other limits hold of that.
    all_down: Option<Time>,
    now: Time,
    /// The server chosen last.
    last: Option<usize>,
    /// Counts the moments at which slots became free.
    clock: u64,
}

struct Server {
    up: bool,
    slots: u32,
    held: Vec<u32>,
    /// The free slots, each with the moment since when.
    free: Vec<(u64, u32)>,
}

impl Server {
    fn has_free(&self) -> bool {
        self.up && self.held.len() < self.slots as usize
    }
}

impl Model {
    pub(crate) fn new(spec: &GateSpec) -> Model {
        let servers = spec.servers.iter().map(|server| Server {
            up: true,
            slots: server.slots,
            held: Vec::new(),
            free: (0..server.slots).map(|index| (0, index)).collect(),
        });
        let servers = servers.collect();
        let spec = spec.clone();
        Model {
            spec,
            servers,
            waiting: Vec::new(),
            paused: false,
            all_down: None,
            now: Time::ZERO,
            last: None,
            clock: 0,
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.now = now;
        self.refuse_late(|deadline| deadline < now, &mut actions);
        let mut arrived = None;
        match event {
            Event::Arrive(mut job) => {
                let latest = self.spec.wait_max.map(|span| now + span);
                job.deadline = [job.deadline, latest].into_iter().flatten().min();
                if job.deadline.is_some_and(|deadline| deadline < now) {
                    actions.push(Action::Refuse { job: job.id, reason: self.late() });
                } else if self.all_down.is_some()
                    && self.spec.unreachable_max == Some(Duration::ZERO)
                {
                    actions.push(Action::Refuse { job: job.id, reason: Reason::Unreachable });
                } else {
                    job.since = now;
                    let server = self.route_waiting();
                    self.waiting.push((job, server));
                    arrived = Some(job.id);
                }
            }
            Event::Depart(slot) => self.depart(slot),
            Event::Renege(id) => self.waiting.retain(|(job, _)| job.id != id),
            // It is told of no routers that go by reports.
            Event::Wake | Event::Report { .. } => {}
            Event::Resize { server, slots } => self.resize(server as usize, slots),
            Event::Up(server) => {
                self.servers[server as usize].up = true;
                self.all_down = None;
                for at in 0..self.waiting.len() {
                    if self.waiting[at].1.is_none() {
                        self.waiting[at].1 = self.route_waiting();
                    }
                }
            }
            Event::Down(server) => {
                self.down(server as usize);
                if self.all_down.is_none() && !self.servers.iter().any(|server| server.up) {
                    self.all_down = Some(now);
                }
            }
            Event::UnreachableMax(span) => {
                self.spec.unreachable_max = span;
                self.all_down = self.all_down.map(|_| now);
            }
            Event::Pause => self.paused = true,
            Event::Resume => self.paused = false,
            Event::WaitMax(span) => self.spec.wait_max = span,
            Event::Room(room) => self.spec.room = room,
            Event::Occupy(slot) => {
                let server = &mut self.servers[slot.server as usize];
                server.free.retain(|&(_, index)| index != slot.index);
                server.held.push(slot.index);
            }
            Event::Role { .. } => unreachable!("the model has primaries alone"),
        }
        self.start_all(&mut actions);
        if let Some(id) = arrived
            && let Some(at) = self.waiting.iter().position(|(job, _)| job.id == id)
            && self.spec.room.is_some_and(|room| self.waiting.len() as u64 > room)
        {
            self.waiting.remove(at);
            actions.push(Action::Refuse { job: id, reason: Reason::QueueFull });
        }
        self.refuse_late(|deadline| deadline <= now, &mut actions);
        actions
    }

    fn refuse_late(&mut self, is_late: impl Fn(Time) -> bool, actions: &mut Vec<Action>) {
        let late = |job: &Job| job.deadline.filter(|&deadline| is_late(deadline));
        let mut refused: Vec<_> =
            self.waiting.iter().filter_map(|(job, _)| Some((late(job)?, job.id))).collect();
        refused.sort_unstable();
        for (_, id) in refused {
            self.waiting.retain(|(job, _)| job.id != id);
            actions.push(Action::Refuse { job: id, reason: self.late() });
        }
        let Some((since, span)) = self.all_down.zip(self.spec.unreachable_max) else { return };
        let stranded = |job: &Job| is_late(job.since.max(since) + span);
        let refused: Vec<_> = self
            .waiting
            .iter()
            .map(|(job, _)| job)
            .filter(|job| stranded(job))
            .map(|job| job.id)
            .collect();
        let mut refused = refused;
        refused.sort_unstable();
        for id in refused {
            self.waiting.retain(|(job, _)| job.id != id);
            actions.push(Action::Refuse { job: id, reason: Reason::Unreachable });
        }
    }

    /// Why who is late is refused.
    fn late(&self) -> Reason {
        match (self.all_down, self.spec.unreachable_max) {
            (Some(_), Some(_)) => Reason::Unreachable,
            _ => Reason::Deadline,
        }
    }

    fn depart(&mut self, slot: Slot) {
        self.clock += 1;
        let server = &mut self.servers[slot.server as usize];
        server.held.retain(|&index| index != slot.index);
        if slot.index < server.slots {
            server.free.push((self.clock, slot.index));
        }
    }

    fn resize(&mut self, server: usize, slots: u32) {
        self.clock += 1;
        let server = &mut self.servers[server];
        server.free.retain(|&(_, index)| index < slots);
        for index in server.slots..slots {
            if !server.held.contains(&index) {
                server.free.push((self.clock, index));
            }
        }
        server.slots = slots;
    }

    fn down(&mut self, server: usize) {
        self.servers[server].up = false;
        if self.spec.queues == Queues::Shared {
            return;
        }
        let mut moved = Vec::new();
        while let Some(job) = self.take_next(Some(server)) {
            moved.push(job);
        }
        for job in moved {
            let to = self.route_waiting();
            let at = self.waiting.partition_point(|(other, _)| other.id < job.id);
            self.waiting.insert(at, (job, to));
        }
    }

    /// Server that a job is to wait for; `None` for any.
    fn route_waiting(&mut self) -> Option<usize> {
        match self.spec.queues {
            Queues::Shared => None,
            Queues::PerServer => {
                let up = (0..self.servers.len()).filter(|&at| self.servers[at].up).collect();
                self.route(up)
            }
        }
    }

    fn route(&mut self, among: Vec<usize>) -> Option<usize> {
        let n = self.servers.len();
        // The servers, beginning with the one after the last.
        let rotated: Vec<usize> =
            (0..n).map(|i| self.last.map_or(i, |last| (last + 1 + i) % n)).collect();
        let rotated: Vec<usize> = rotated.into_iter().filter(|at| among.contains(at)).collect();
        let chosen = match &self.spec.router {
            RouterSpec::RoundRobin => rotated.first().copied(),
            RouterSpec::ShortestQueue { length, ties } => {
                let order = if *ties == Ties::Rotate { &rotated } else { &among };
                // `min_by_key` takes the first of equals.
                order.iter().copied().min_by_key(|&at| self.length(at, *length))
            }
            other => panic!("{other:?} draws chance; the model cannot know"),
        };
        self.last = chosen.or(self.last);
        chosen
    }

    fn length(&self, server: usize, length: Length) -> usize {
        let waiting = self.waiting.iter().filter(|(_, at)| *at == Some(server)).count();
        match length {
            Length::Waiting => waiting,
            Length::InSystem => waiting + self.servers[server].held.len(),
        }
    }

    /// Takes out who is next among those who wait for this server, or for any.
    fn take_next(&mut self, server: Option<usize>) -> Option<Job> {
        let among = self.waiting.iter().filter(|(_, at)| *at == server).map(|(job, _)| job);
        let next = match &self.spec.discipline {
            DisciplineSpec::Fifo => among.min_by_key(|job| job.id),
            DisciplineSpec::Lifo => among.max_by_key(|job| job.id),
            DisciplineSpec::Priority => among.min_by_key(|job| (u8::MAX - job.priority, job.id)),
            DisciplineSpec::PriorityAgeing { interval } => {
                // What it has waited now, and what its priority is worth.
                let worth =
                    |job: &Job| (self.now - job.since) + *interval * u32::from(job.priority);
                among.min_by_key(|job| (std::cmp::Reverse(worth(job)), job.id))
            }
            DisciplineSpec::ShortestJob => {
                among.min_by_key(|job| (job.size == 0, job.size, job.id))
            }
            DisciplineSpec::EarliestDeadline => {
                among.min_by_key(|job| (job.deadline.is_none(), job.deadline, job.id))
            }
            other => panic!("{other:?} is not in the model"),
        };
        let id = next?.id;
        let at = self.waiting.iter().position(|(job, _)| job.id == id)?;
        Some(self.waiting.remove(at).0)
    }

    fn start_all(&mut self, actions: &mut Vec<Action>) {
        if self.paused {
            return;
        }
        match self.spec.queues {
            Queues::PerServer => {
                for server in 0..self.servers.len() {
                    while self.servers[server].has_free()
                        && let Some(job) = self.take_next(Some(server))
                    {
                        self.start(job, server, actions);
                    }
                }
            }
            Queues::Shared => loop {
                let free: Vec<usize> =
                    (0..self.servers.len()).filter(|&at| self.servers[at].has_free()).collect();
                if free.is_empty() {
                    return;
                }
                let Some(job) = self.take_next(None) else { return };
                let Some(server) = self.route(free) else { return };
                self.start(job, server, actions);
            },
        }
    }

    fn start(&mut self, job: Job, at: usize, actions: &mut Vec<Action>) {
        let server = &mut self.servers[at];
        server.free.sort_unstable();
        let (_, index) = server.free.remove(0);
        server.held.push(index);
        actions.push(Action::Start { job: job.id, slot: Slot { server: at as u32, index } });
    }
}
