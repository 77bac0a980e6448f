//! The gate itself: queues, slots and deadlines around the two open choices, discipline and router.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::discipline::{Discipline, Fifo};
use crate::early_rejection::{Meter, Outlook, Taken};
use crate::load_information::{Watch, Work};
use crate::reserve::Lending;
use crate::roles::Roles;
use crate::router::Router;
use crate::servers::Server;
use crate::{
    Action, DisciplineSpec, Event, GateSpec, Job, JobId, Queues, Reason, Role, ServerView, Slot,
    SpecError, Time,
};

/// A queue, a discipline, slots and a router, in one pure decision.
///
/// Protocol of use: after each [`handle`](Gate::handle) carry out the actions in order, then ask
/// [`next_wakeup`](Gate::next_wakeup) and send [`Event::Wake`] then, unless another event comes
/// first.
#[derive(Debug)]
pub struct Gate {
    servers: Vec<Server>,
    /// What the router sees, kept up to date server by server.
    views: Vec<ServerView>,
    /// What a router sees that looks at more than lengths now.
    watch: Option<Box<Watch>>,
    /// How many servers have a free slot and are up.
    available: usize,
    /// How many a router may send jobs to.
    usable: usize,
    /// Whether its discipline ever holds a job back beside a free slot.
    holds_back: bool,
    /// One queue, or one for each server.
    queues: Vec<Box<dyn Discipline>>,
    /// Jobs that found no server up, in the order of their arrival; none where the queue is shared.
    unrouted: Fifo,
    queued: Queues,
    discipline: DisciplineSpec,
    router: Box<dyn Router>,
    room: Option<u64>,
    wait_max: Option<Duration>,
    unreachable_max: Option<Duration>,
    /// How many servers are up, whether they have a free slot or not.
    up: usize,
    /// The moments from which on jobs wait in vain if no server comes up, in order, and so in that of the
    /// jobs; empty while a server is up.
    stranded: VecDeque<(Time, JobId)>,
    /// How fast each queue moves, and for how long that counts.
    meters: Option<Box<(Duration, Vec<Meter>)>>,
    lending: Option<Box<Lending>>,
    roles: Option<Box<Roles>>,
    paused: bool,
    waiting: u64,
    /// The deadlines of the jobs that wait, and of no others.
    deadlines: BTreeSet<(Time, JobId)>,
    last_id: Option<JobId>,
    now: Time,
}

/// Which servers an event may have given something to do.
#[derive(Clone, Copy)]
enum Touched {
    None,
    One(usize),
    All,
}

impl Gate {
    /// A gate with empty queues and free slots.
    ///
    /// # Errors
    /// If the specification has no server, more servers or slots than a gate can have, or a policy
    /// with parameters that mean nothing.
    pub fn new(spec: &GateSpec) -> Result<Gate, SpecError> {
        spec.check()?;
        let queues = match spec.queues {
            Queues::Shared => 1,
            Queues::PerServer => spec.servers.len(),
        };
        let mut gate = Gate {
            servers: spec.servers.iter().map(|&server| Server::new(server)).collect(),
            views: vec![ServerView::default(); spec.servers.len()],
            watch: None,
            available: 0,
            usable: 0,
            holds_back: spec.discipline.build().holds_back(),
            queues: (0..queues).map(|_| spec.discipline.build()).collect(),
            unrouted: Fifo::default(),
            queued: spec.queues,
            discipline: spec.discipline.clone(),
            router: spec.router.build(spec.seed),
            room: spec.room,
            wait_max: spec.wait_max,
            unreachable_max: spec.unreachable_max,
            up: spec.servers.len(),
            stranded: VecDeque::new(),
            meters: spec.early_rejection.map(|early_rejection| {
                Box::new((early_rejection.memory, vec![Meter::default(); queues]))
            }),
            lending: spec
                .reserve
                .map(|reserve| Box::new(Lending::new(reserve, spec.servers.len()))),
            roles: Roles::new(&spec.roles),
            paused: false,
            waiting: 0,
            deadlines: BTreeSet::new(),
            last_id: None,
            now: Time::ZERO,
        };
        gate.available = gate.servers.iter().filter(|server| server.available()).count();
        for (server, view) in gate.servers.iter().zip(&mut gate.views) {
            server.show(view, gate.queued);
        }
        gate.usable = gate.views.iter().filter(|view| view.usable).count();
        gate.watch = Watch::new(spec, &gate.views);
        Ok(gate)
    }

    /// Applies one event and appends what to do, in order.
    ///
    /// Jobs whose deadline is before `now` are refused first, so that a slot that frees too late
    /// does not serve them; those whose deadline is `now` last, so that one that frees just in time
    /// does.
    ///
    /// # Panics
    /// If the driver breaks the protocol: time runs backwards, ids do not increase, a slot departs
    /// that nobody holds or is occupied that somebody holds, a server does not exist, the slots become
    /// more than [`GateSpec::SLOTS_MAX`]. Also if the gate's own invariants fail: a wake-up is strictly later
    /// than `now`, and no job waits beside a free slot without one.
    pub fn handle(&mut self, now: Time, mut event: Event, actions: &mut Vec<Action>) {
        assert!(now >= self.now, "time runs backwards: {} after {}", now, self.now);
        self.now = now;
        if let Some(watch) = &mut self.watch {
            watch.tick(now);
        }
        if self.has_deadlines() {
            self.expire(now, Expire::Before, actions);
        }
        if let Event::Depart(slot) = event {
            self.before_departure(now, slot);
        }
        let touched = match event {
            Event::Arrive(ref mut job) => self.arrive(now, job, actions),
            Event::Depart(slot) if self.hand_over(now, slot, actions) => Touched::All,
            other => {
                let touched = self.apply(now, other);
                self.dispatch(now, touched, actions);
                touched
            }
        };
        if self.lending.is_some() && self.waiting > 0 {
            self.lend(now, actions);
        }
        // Without a free slot and without a deadline there is nobody to see to.
        if self.waiting > 0 && (self.available > 0 || self.has_deadlines()) {
            self.settle(now, touched, actions);
        }
        if self.meters.is_some() {
            self.measure(now);
        }
    }

    /// When to send [`Event::Wake`] at the latest; `None` if only other events can change anything.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        if self.waiting == 0 {
            return None;
        }
        let next = match (self.next_ready(), self.next_deadline()) {
            (Some(ready), Some(deadline)) => Some(ready.min(deadline)),
            (ready, deadline) => ready.or(deadline),
        };
        match &self.lending {
            None => next,
            Some(lending) => [next, self.next_loan(lending)].into_iter().flatten().min(),
        }
    }

    /// How long a job like this would wait that came now, in the queue that is best for it, at the
    /// rate of departures that was seen; `None` if too few were, or if nothing is
    /// [foreseen](crate::EarlyRejection) at all.
    pub fn foreseen_wait(&self, now: Time, job: &Job) -> Option<Duration> {
        let job = Job { id: JobId(u64::MAX), since: now, ..*job };
        let waits = (0..self.queues.len()).filter_map(|queue| match self.serves(queue) {
            true if self.queues[queue].is_empty() => Some(Duration::ZERO),
            _ => self.outlook(now, &job, queue).map(|outlook| outlook.likely),
        });
        waits.min()
    }

    /// Jobs that wait, over all queues.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Jobs that wait and may be served by this server: its own, or all where the queue is shared.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn waiting_for(&self, server: u32) -> u64 {
        let view = &self.views[server as usize];
        match self.queued {
            Queues::Shared => self.waiting,
            Queues::PerServer => view.waiting,
        }
    }

    /// The jobs that wait, in the order in which they would start if no other came and slots became
    /// free one by one from now on; those that the discipline holds back at `now` are not among them.
    /// Where servers have queues of their own, the first of each come before the second of each, and
    /// jobs that found no server are last. Nothing is changed; O(n log n) at worst in the jobs.
    pub fn queue(&self, now: Time) -> Vec<Job> {
        let mut lines: Vec<_> = self.queues.iter().map(|queue| queue.copy()).collect();
        let mut found = Vec::with_capacity(self.waiting as usize);
        let mut more = true;
        while more {
            let before = found.len();
            found.extend(lines.iter_mut().filter_map(|line| line.pop(now)));
            more = found.len() > before;
        }
        let mut unrouted = self.unrouted.copy();
        found.extend(std::iter::from_fn(|| unrouted.pop(now)));
        found
    }

    /// Slots held, over all servers; more than [`slots`](Gate::slots) for a while after a
    /// [resize](Event::Resize) to fewer.
    pub fn busy(&self) -> u32 {
        self.servers.iter().map(|server| server.busy).sum()
    }

    /// Slots that exist, over all servers.
    pub fn slots(&self) -> u32 {
        self.servers.iter().map(|server| server.slots).sum()
    }

    /// The slots of a server without those of the reserve that are lent: what a
    /// [resize](Event::Resize) sets.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn slots_own(&self, server: u32) -> u32 {
        let at = server as usize;
        self.servers[at].slots - self.lending.as_ref().map_or(0, |lending| lending.lent[at])
    }

    /// What each server reports of itself, in the order of the specification.
    pub fn servers(&self) -> &[ServerView] {
        &self.views
    }

    /// The earliest moment from which on a job waits in vain.
    #[inline]
    fn next_deadline(&self) -> Option<Time> {
        // Most gates have no deadlines, and this is asked at every event.
        if !self.has_deadlines() {
            return None;
        }
        let deadline = self.deadlines.first().map(|&(time, _)| time);
        match self.stranded.front() {
            None => deadline,
            Some(&(stranded, _)) => Some(deadline.map_or(stranded, |time| time.min(stranded))),
        }
    }

    /// When a job that a discipline holds back becomes ready, beside a free slot.
    #[inline]
    fn next_ready(&self) -> Option<Time> {
        if !self.holds_back || self.paused || self.waiting == 0 || self.available == 0 {
            return None;
        }
        self.next_held_back()
    }

    fn next_held_back(&self) -> Option<Time> {
        let queues = self.queues.iter().enumerate().filter(|(at, _)| self.serves(*at));
        queues.filter_map(|(_, queue)| queue.next_wakeup()).min()
    }

    /// Applies any event but an arrival; nothing is started yet.
    fn apply(&mut self, now: Time, event: Event) -> Touched {
        match event {
            Event::Arrive(_) => unreachable!("an arrival is answered on the spot"),
            Event::Depart(slot) => {
                let departs = Work::Departs { index: slot.index };
                self.change(slot.server, departs, |server| server.give_back(slot))
            }
            Event::Renege(id) => self.renege(id),
            Event::Wake => Touched::All,
            Event::Resize { server, slots } => self.resize(server, slots),
            Event::Up(server) => self.up(now, server),
            Event::Down(server) => self.down(now, server),
            Event::Role { server, role } => self.assume(now, server, role),
            Event::Pause => {
                self.paused = true;
                Touched::None
            }
            Event::Resume => {
                self.paused = false;
                Touched::All
            }
            Event::WaitMax(span) => {
                self.wait_max = span;
                Touched::None
            }
            Event::UnreachableMax(span) => {
                self.unreachable_max = span;
                self.strand(now);
                Touched::None
            }
            Event::Room(room) => {
                self.room = room;
                Touched::None
            }
            Event::Occupy(slot) => {
                self.forget_rates();
                let touched = self.change(slot.server, Work::Same, |s| s.occupy(slot));
                self.note(slot.server as usize, Work::Starts { index: slot.index, size: 0 });
                touched
            }
            Event::Report { server, report } => {
                let at = server as usize;
                assert!(at < self.servers.len(), "server {at} of {}", self.servers.len());
                if let Some(watch) = &mut self.watch {
                    watch.report(at, report);
                }
                Touched::None
            }
        }
    }

    fn arrive(&mut self, now: Time, job: &mut Job, actions: &mut Vec<Action>) -> Touched {
        assert!(
            self.last_id < Some(job.id),
            "{:?} after {:?}: ids must increase",
            job.id,
            self.last_id
        );
        self.last_id = Some(job.id);
        job.since = now;
        if let Some(span) = self.wait_max {
            let latest = now + span;
            job.deadline = Some(job.deadline.map_or(latest, |own| own.min(latest)));
        }
        if job.deadline.is_some_and(|deadline| deadline < now) {
            actions.push(Action::Refuse { job: job.id, reason: self.reason_of_deadline() });
            return Touched::None;
        }
        if self.up == 0 && self.unreachable_max == Some(Duration::ZERO) {
            actions.push(Action::Refuse { job: job.id, reason: Reason::Unreachable });
            return Touched::None;
        }
        self.waiting += 1;
        if self.pass(now, job, actions) {
            return Touched::None;
        }
        let touched = self.enqueue(now, job);
        // It may start at once, so only a job that could not is held against the room.
        let before = actions.len();
        self.dispatch(now, touched, actions);
        let started = actions[before..]
            .iter()
            .any(|action| matches!(action, Action::Start { job: id, .. } if *id == job.id));
        if !started {
            if let Some(reason) = self.refuses(now, job, touched) {
                self.take_out(job.id).expect("a job that did not start still waits");
                actions.push(Action::Refuse { job: job.id, reason });
                return touched;
            }
            if let Some(deadline) = job.deadline {
                self.deadlines.insert((deadline, job.id));
            }
            if let (0, Some(span)) = (self.up, self.unreachable_max) {
                self.stranded.push_back((now + span, job.id));
            }
            if let Some(lending) = &mut self.lending {
                lending.join(job);
            }
        }
        touched
    }

    /// Starts a job that is counted as waiting at once, where it finds the one queue of all servers
    /// empty and a slot free; false if it must go through the queue.
    #[inline]
    fn pass(&mut self, now: Time, job: &Job, actions: &mut Vec<Action>) -> bool {
        let passes = self.queued == Queues::Shared
            && self.available > 0
            && !self.paused
            && self.queues[0].lets_pass();
        if passes {
            let server = self.route(now, job).expect("a server with a free slot is usable");
            self.start(job, server, actions);
        }
        passes
    }

    /// Gives the slot of a departure to the next job of the one queue, if there is one server and all
    /// its slots are taken: what giving it back and starting a job would come to. False if the departure
    /// must go the long way.
    #[inline]
    fn hand_over(&mut self, now: Time, slot: Slot, actions: &mut Vec<Action>) -> bool {
        let ([server], Queues::Shared, None) = (&*self.servers, self.queued, &self.watch) else {
            return false;
        };
        if self.waiting == 0 || self.paused || !server.passes_on(slot) {
            return false;
        }
        let Some(job) = self.queues[0].pop(now) else { return false };
        self.leave_queue(&job);
        actions.push(Action::Start { job: job.id, slot });
        true
    }

    /// Why a job that could not be started may not wait either, if so.
    fn refuses(&self, now: Time, job: &Job, touched: Touched) -> Option<Reason> {
        if self.room.is_some_and(|room| self.waiting > room) {
            return Some(Reason::QueueFull);
        }
        let queue = match (self.queued, touched) {
            (Queues::Shared, _) => 0,
            (Queues::PerServer, Touched::One(server)) => server,
            (Queues::PerServer, Touched::None | Touched::All) => return None,
        };
        let soonest = self.outlook(now, job, queue)?.soonest;
        (now + soonest > job.deadline?).then_some(Reason::Hopeless)
    }

    /// How long a job would wait in this queue that came last, or comes now.
    fn outlook(&self, now: Time, job: &Job, queue: usize) -> Option<Outlook> {
        let (_, meters) = self.meters.as_deref().filter(|_| !self.paused)?;
        meters[queue].foresee(now, self.queues[queue].ahead(job))
    }

    /// Looks at how fast the queues move, after an event.
    fn measure(&mut self, now: Time) {
        let Some(mut meters) = self.meters.take() else { return };
        let (memory, of) = &mut *meters;
        for (queue, meter) in of.iter_mut().enumerate() {
            let runs = |server: &Server| server.up && server.slots > 0;
            let runs = match self.queued {
                Queues::Shared => self.servers.iter().any(runs),
                Queues::PerServer => runs(&self.servers[queue]),
            };
            let all = runs && !self.paused && !self.serves(queue);
            meter.settle(now, if all { Taken::All } else { Taken::Some }, *memory);
        }
        self.meters = Some(meters);
    }

    /// The servers have changed: what was seen of queues does not hold any more.
    fn forget_rates(&mut self) {
        if let Some(meters) = &mut self.meters {
            meters.1.iter_mut().for_each(Meter::forget);
        }
    }

    /// A job departs: it counts for the rate, and takes a slot in reserve with it that nobody needs.
    #[inline]
    fn before_departure(&mut self, now: Time, slot: Slot) {
        if let Some(meters) = &mut self.meters {
            let queue = if self.queued == Queues::Shared { 0 } else { slot.server as usize };
            if let Some(meter) = meters.1.get_mut(queue) {
                meter.depart(now);
            }
        }
        let Some(lending) = &mut self.lending else { return };
        let is_due = lending.due().is_some_and(|due| due <= now);
        let Some(lent) = lending.lent.get_mut(slot.server as usize) else { return };
        if *lent > 0 && !is_due {
            *lent -= 1;
            self.change(slot.server, Work::Same, |server| server.resize(server.slots - 1));
        }
    }

    /// A server that could lend a slot of its reserve.
    fn lender(&self, lending: &Lending) -> Option<usize> {
        let servers = self.servers.iter().zip(&lending.lent);
        let lends = |(server, lent): (&Server, &u32)| {
            server.up && server.busy == server.slots && *lent < lending.spec.slots
        };
        servers.map(lends).position(|lends| lends)
    }

    fn next_loan(&self, lending: &Lending) -> Option<Time> {
        if self.paused {
            return None;
        }
        lending.due().filter(|_| self.lender(lending).is_some())
    }

    /// Lends slots of the reserve while somebody has waited too long.
    fn lend(&mut self, now: Time, actions: &mut Vec<Action>) {
        loop {
            let Some(lending) = &self.lending else { return };
            if self.next_loan(lending).is_none_or(|due| due > now) {
                return;
            }
            let at = self.lender(lending).expect("somebody lends");
            self.lending.as_mut().expect("it was there above").lent[at] += 1;
            self.change(at as u32, Work::Same, |server| server.resize(server.slots + 1));
            self.dispatch(now, Touched::All, actions);
        }
    }

    /// A server has another role from now on.
    fn assume(&mut self, now: Time, server: u32, role: Role) -> Touched {
        let (at, servers) = (server as usize, self.servers.len());
        assert!(at < servers, "server {at} of {servers}");
        assert!(
            self.queued == Queues::PerServer || role == Role::Primary,
            "a replica, but one queue for all servers"
        );
        let all = || Roles::new(&vec![Role::Primary; servers]).expect("there is a server");
        self.roles.get_or_insert_with(all).set(at, role);
        let was_up = self.servers[at].up;
        let touched = self.down(now, server);
        if was_up { self.up(now, server) } else { touched }
    }

    /// Puts a job that is counted as waiting into its queue.
    fn enqueue(&mut self, now: Time, job: &Job) -> Touched {
        if self.queued == Queues::Shared {
            self.queues[0].push(now, job);
            return Touched::All;
        }
        let Some(server) = self.route(now, job) else {
            self.unrouted.push(now, job);
            return Touched::None;
        };
        assert!(self.views[server].usable, "a router chose server {server}, which is down");
        self.queues[server].push(now, job);
        self.views[server].waiting += 1;
        self.note(server, Work::Joins(job.size));
        Touched::One(server)
    }

    #[inline]
    fn route(&mut self, now: Time, job: &Job) -> Option<usize> {
        if let ([only], None) = (&*self.views, &self.roles) {
            // No choice: what a router sees and remembers of it cannot matter.
            return only.usable.then_some(0);
        }
        let views = match &mut self.watch {
            None => &*self.views,
            Some(watch) => watch.see(now, &self.views),
        };
        match &mut self.roles {
            None if self.usable == views.len() => self.router.route_all(now, job, views),
            None => self.router.route(now, job, views),
            Some(roles) => self.router.route(now, job, roles.see(job, views)),
        }
    }

    /// Tells who watches that the view of a server has changed.
    #[inline]
    fn note(&mut self, server: usize, work: Work) {
        if let Some(watch) = &mut self.watch {
            watch.note(self.now, server, &self.views[server], work);
        }
    }

    fn renege(&mut self, id: JobId) -> Touched {
        if let Some(job) = self.take_out(id)
            && let Some(deadline) = job.deadline
        {
            self.deadlines.remove(&(deadline, id));
        }
        Touched::None
    }

    fn resize(&mut self, server: u32, slots: u32) -> Touched {
        let others = self.servers.iter().enumerate().filter(|(at, _)| *at != server as usize);
        let total = others.map(|(_, s)| u64::from(s.slots)).sum::<u64>() + u64::from(slots);
        assert!(total <= u64::from(GateSpec::SLOTS_MAX), "a resize to {total} slots in all");
        self.forget_rates();
        let lent = self.lending.as_ref().map_or(0, |lending| lending.lent[server as usize]);
        let slots = slots + lent;
        self.change(server, Work::Same, |s| s.resize(slots))
    }

    fn up(&mut self, now: Time, server: u32) -> Touched {
        self.forget_rates();
        self.change(server, Work::Same, |s| s.up = true);
        self.count_up();
        self.stranded.clear();
        let mut unrouted = std::mem::take(&mut self.unrouted);
        while let Some(job) = unrouted.pop(now) {
            self.enqueue(now, &job);
        }
        Touched::All
    }

    fn down(&mut self, now: Time, server: u32) -> Touched {
        self.forget_rates();
        let before = self.up;
        self.change(server, Work::Same, |s| s.up = false);
        self.count_up();
        // Said twice, it is no reason to wait for longer.
        if self.up < before {
            self.strand(now);
        }
        if self.queued == Queues::Shared {
            return Touched::None;
        }
        let server = server as usize;
        // The router must not see the jobs that it is asked to send elsewhere.
        let mut left = std::mem::replace(&mut self.queues[server], self.discipline.build());
        self.views[server].waiting = 0;
        self.note(server, Work::Cleared);
        while let Some(job) = left.pop(now) {
            self.enqueue(now, &job);
        }
        assert!(left.is_empty(), "a discipline that holds jobs back needs a drain");
        Touched::All
    }

    fn count_up(&mut self) {
        self.up = self.servers.iter().filter(|server| server.up).count();
    }

    /// If no server is up: from now on those who wait may do so only as long as that is allowed.
    fn strand(&mut self, now: Time) {
        self.stranded.clear();
        let (0, Some(span)) = (self.up, self.unreachable_max) else { return };
        let mut ids: Vec<JobId> = self.queue(now).into_iter().map(|job| job.id).collect();
        ids.sort_unstable();
        self.stranded.extend(ids.into_iter().map(|id| (now + span, id)));
    }

    #[inline]
    fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty() || !self.stranded.is_empty()
    }

    /// Changes one server and what is derived from it.
    #[inline]
    fn change(&mut self, server: u32, work: Work, how: impl FnOnce(&mut Server)) -> Touched {
        let (at, servers) = (server as usize, self.servers.len());
        assert!(at < servers, "server {at} of {servers}");
        let server = &mut self.servers[at];
        let before = server.available();
        how(server);
        let after = server.available();
        let view = &mut self.views[at];
        let was_usable = view.usable;
        server.show(view, self.queued);
        self.usable = self.usable + usize::from(view.usable) - usize::from(was_usable);
        self.available = self.available + usize::from(after) - usize::from(before);
        self.note(at, work);
        match self.queued {
            Queues::Shared => Touched::All,
            Queues::PerServer => Touched::One(at),
        }
    }

    /// Sees to those who still wait after an event.
    fn settle(&mut self, now: Time, touched: Touched, actions: &mut Vec<Action>) {
        // The event may have come before the overdue wake-up of a queue that it does not touch.
        if self.next_ready().is_some_and(|ready| ready <= now) {
            self.dispatch(now, Touched::All, actions);
        }
        if self.has_deadlines() {
            self.expire(now, Expire::UpTo, actions);
        }
        self.assert_invariants(touched);
    }

    /// Whether a slot is free for the jobs of this queue.
    fn serves(&self, queue: usize) -> bool {
        match self.queued {
            Queues::Shared => self.available > 0,
            Queues::PerServer => self.servers[queue].available(),
        }
    }

    /// Takes a waiting job out of wherever it waits.
    fn take_out(&mut self, id: JobId) -> Option<Job> {
        let job = self.unrouted.remove(id).or_else(|| {
            let mut queues = self.queues.iter_mut().enumerate();
            let (at, job) = queues.find_map(|(at, queue)| Some((at, queue.remove(id)?)))?;
            if self.queued == Queues::PerServer {
                self.views[at].waiting -= 1;
                self.note(at, Work::Leaves(job.size));
            }
            Some(job)
        })?;
        self.waiting -= 1;
        if !self.stranded.is_empty()
            && let Ok(at) = self.stranded.binary_search_by_key(&id, |&(_, one)| one)
        {
            self.stranded.remove(at);
        }
        if let Some(lending) = &mut self.lending {
            lending.leave(&job);
        }
        Some(job)
    }

    /// Starts every job that may start now.
    fn dispatch(&mut self, now: Time, touched: Touched, actions: &mut Vec<Action>) {
        if self.paused || self.waiting == 0 || self.available == 0 {
            return;
        }
        match (touched, self.queued) {
            (Touched::None, _) => {}
            (_, Queues::Shared) => self.dispatch_shared(now, actions),
            (Touched::One(server), Queues::PerServer) => self.dispatch_one(now, server, actions),
            (Touched::All, Queues::PerServer) => {
                for server in 0..self.servers.len() {
                    self.dispatch_one(now, server, actions);
                }
            }
        }
    }

    fn dispatch_shared(&mut self, now: Time, actions: &mut Vec<Action>) {
        while self.available > 0 {
            let Some(job) = self.queues[0].pop(now) else { return };
            let server = self.route(now, &job).expect("a server with a free slot is usable");
            self.start(&job, server, actions);
        }
    }

    fn dispatch_one(&mut self, now: Time, server: usize, actions: &mut Vec<Action>) {
        while self.servers[server].available() {
            let Some(job) = self.queues[server].pop(now) else { return };
            self.views[server].waiting -= 1;
            self.note(server, Work::Leaves(job.size));
            self.start(&job, server, actions);
        }
    }

    fn start(&mut self, job: &Job, server: usize, actions: &mut Vec<Action>) {
        assert!(self.servers[server].available(), "a router chose server {server}, which is full");
        self.leave_queue(job);
        let mut index = 0;
        self.change(server as u32, Work::Same, |s| index = s.take());
        self.note(server, Work::Starts { index, size: job.size });
        let slot = Slot { server: server as u32, index };
        actions.push(Action::Start { job: job.id, slot });
    }

    /// A job that waited is about to start.
    #[inline]
    fn leave_queue(&mut self, job: &Job) {
        self.waiting -= 1;
        if let Some(deadline) = job.deadline
            && !self.deadlines.is_empty()
        {
            self.deadlines.remove(&(deadline, job.id));
        }
        if let Some(lending) = &mut self.lending {
            lending.leave(job);
        }
    }

    /// Refuses the jobs whose deadline has passed. A slot that frees exactly at a deadline still
    /// serves the job, so the deadlines of `now` itself fall due only after the event.
    fn expire(&mut self, now: Time, which: Expire, actions: &mut Vec<Action>) {
        let is_due = |moment: Time| moment < now || (which == Expire::UpTo && moment == now);
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if !is_due(deadline) {
                break;
            }
            self.deadlines.pop_first();
            self.take_out(id).expect("only waiting jobs have a deadline");
            actions.push(Action::Refuse { job: id, reason: self.reason_of_deadline() });
        }
        // Only while no server is up: kept out of the way of all other events.
        if !self.stranded.is_empty() {
            self.expire_stranded(is_due, actions);
        }
    }

    /// Refuses the jobs that have waited for a server as long as they may while none is up.
    #[cold]
    fn expire_stranded(&mut self, is_due: impl Fn(Time) -> bool, actions: &mut Vec<Action>) {
        while let Some(&(moment, id)) = self.stranded.front() {
            if !is_due(moment) {
                break;
            }
            let job = self.take_out(id).expect("only waiting jobs are stranded");
            if let Some(deadline) = job.deadline {
                self.deadlines.remove(&(deadline, id));
            }
            actions.push(Action::Refuse { job: id, reason: Reason::Unreachable });
        }
    }

    /// Why a job was not started before its deadline.
    fn reason_of_deadline(&self) -> Reason {
        match self.unreachable_max {
            Some(_) if self.up == 0 => Reason::Unreachable,
            _ => Reason::Deadline,
        }
    }

    /// By induction only what this event touched needs a look.
    fn assert_invariants(&self, touched: Touched) {
        if let Some(wakeup) = self.next_wakeup() {
            assert!(wakeup > self.now, "a wake-up at {wakeup}, not later than {}", self.now);
        }
        if self.paused || self.available == 0 {
            return;
        }
        let is_stuck = |at: usize| {
            let queue = &self.queues[at];
            self.serves(at) && !queue.is_empty() && queue.next_wakeup().is_none()
        };
        let stuck = match (self.queued, touched) {
            (Queues::Shared, _) => is_stuck(0),
            (Queues::PerServer, Touched::None) => false,
            (Queues::PerServer, Touched::One(at)) => is_stuck(at),
            (Queues::PerServer, Touched::All) => (0..self.servers.len()).any(is_stuck),
        };
        assert!(!stuck, "at {} a job waits beside a free slot and nothing will wake it", self.now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expire {
    Before,
    UpTo,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RouterSpec, ServerSpec};

    /// No discipline that can be named holds jobs back yet, but the gate must stand one: first in
    /// first out, each not before ten nanoseconds after it began to wait.
    #[derive(Clone, Debug, Default)]
    struct HoldsBack {
        line: std::collections::VecDeque<(Time, Job)>,
        wakeups: Wakeups,
    }

    #[derive(Debug, Default, Clone, Copy, PartialEq)]
    enum Wakeups {
        #[default]
        Told,
        Forgotten,
    }

    impl Discipline for HoldsBack {
        fn push(&mut self, now: Time, job: &Job) {
            self.line.push_back((now + Duration::from_nanos(10), *job));
        }
        fn pop(&mut self, now: Time) -> Option<Job> {
            let ready = self.line.front().is_some_and(|(ready, _)| *ready <= now);
            if ready { self.line.pop_front().map(|(_, job)| job) } else { None }
        }
        fn remove(&mut self, id: JobId) -> Option<Job> {
            let at = self.line.iter().position(|(_, job)| job.id == id)?;
            self.line.remove(at).map(|(_, job)| job)
        }
        fn len(&self) -> usize {
            self.line.len()
        }
        fn next_wakeup(&self) -> Option<Time> {
            let first = self.line.front().map(|(ready, _)| *ready);
            first.filter(|_| self.wakeups == Wakeups::Told)
        }
        fn holds_back(&self) -> bool {
            true
        }
        fn copy(&self) -> Box<dyn Discipline> {
            Box::new(self.clone())
        }
    }

    fn gate(queues: Queues, slots: &[u32], wakeups: Wakeups) -> Gate {
        let servers = slots.iter().map(|&slots| ServerSpec { slots }).collect();
        let router = RouterSpec::RoundRobin;
        let spec = GateSpec { servers, queues, router, ..GateSpec::fifo(1) };
        let mut gate = Gate::new(&spec).unwrap();
        gate.holds_back = true;
        for queue in &mut gate.queues {
            *queue = Box::new(HoldsBack { wakeups, ..HoldsBack::default() });
        }
        gate
    }

    fn tell(gate: &mut Gate, nanos: u64, event: Event) -> Vec<u64> {
        let mut actions = Vec::new();
        gate.handle(Time::from_nanos(nanos), event, &mut actions);
        let job = |action: &Action| match action {
            Action::Start { job, .. } | Action::Refuse { job, .. } => job.0,
        };
        actions.iter().map(job).collect()
    }

    fn arrive(id: u64) -> Event {
        Event::Arrive(Job::new(JobId(id)))
    }

    /// Nothing that was started; of what, is to be said where a library knows how to compare more.
    const NONE: [u64; 0] = [];

    fn wakeup(gate: &Gate) -> Option<u64> {
        gate.next_wakeup().map(Time::as_nanos)
    }

    #[test]
    fn a_job_that_is_held_back_starts_when_it_is_ready() {
        for queues in [Queues::Shared, Queues::PerServer] {
            let mut gate = gate(queues, &[1], Wakeups::Told);
            assert_eq!(tell(&mut gate, 0, arrive(1)), NONE);
            assert_eq!(wakeup(&gate), Some(10));
            assert_eq!(tell(&mut gate, 9, Event::Wake), NONE);
            assert_eq!(tell(&mut gate, 10, Event::Wake), [1]);
            assert_eq!(tell(&mut gate, 10, arrive(2)), NONE);
            assert_eq!(wakeup(&gate), None, "no slot is free: a departure comes first");
            assert_eq!(tell(&mut gate, 15, Event::Depart(Slot { server: 0, index: 0 })), NONE);
            assert_eq!(wakeup(&gate), Some(20));
        }
    }

    /// Found by review: while server 0 was busy, the ready time of a job in its queue passed; as
    /// server 1 was free, the gate took that moment for a wake-up in the past and stopped.
    #[test]
    fn a_free_server_does_not_ask_for_wakeups_of_a_busy_one() {
        let mut gate = gate(Queues::PerServer, &[1, 1], Wakeups::Told);
        tell(&mut gate, 0, arrive(1)); // To server 0.
        tell(&mut gate, 0, arrive(2)); // To server 1.
        assert_eq!(tell(&mut gate, 10, Event::Wake), [1, 2]);
        tell(&mut gate, 11, arrive(3)); // To server 0, which is busy.
        assert_eq!(tell(&mut gate, 30, Event::Depart(Slot { server: 1, index: 0 })), NONE);
        assert_eq!(wakeup(&gate), None);
        tell(&mut gate, 30, arrive(4)); // To server 1, which is free.
        assert_eq!(wakeup(&gate), Some(40));
        assert_eq!(tell(&mut gate, 40, Event::Wake), [4]);
        assert_eq!(tell(&mut gate, 41, Event::Depart(Slot { server: 0, index: 0 })), [3]);
    }

    /// Found by the test above: a driver may be late, and then another event comes before the
    /// wake-up that is due. It did not touch the queue, and the gate stopped.
    #[test]
    fn an_event_that_comes_before_an_overdue_wakeup_does_its_work() {
        let elsewhere = Event::Depart(Slot { server: 0, index: 0 });
        for (queues, late) in [
            (Queues::PerServer, elsewhere),
            (Queues::PerServer, Event::Renege(JobId(1))),
            (Queues::Shared, Event::Renege(JobId(1))),
            (Queues::Shared, Event::WaitMax(None)),
        ] {
            let mut gate = gate(queues, &[1, 1], Wakeups::Told);
            tell(&mut gate, 0, arrive(1));
            assert_eq!(tell(&mut gate, 10, Event::Wake), [1]);
            assert_eq!(tell(&mut gate, 20, arrive(2)), NONE);
            assert_eq!(wakeup(&gate), Some(30));
            assert_eq!(tell(&mut gate, 31, late), [2], "{queues:?} {late:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a job waits beside a free slot and nothing will wake it")]
    fn a_discipline_that_forgets_its_jobs_is_stopped() {
        tell(&mut gate(Queues::Shared, &[1], Wakeups::Forgotten), 0, arrive(1));
    }

    #[test]
    #[should_panic(expected = "a discipline that holds jobs back needs a drain")]
    fn no_job_is_lost_when_a_server_goes_down() {
        let mut gate = gate(Queues::PerServer, &[1, 1], Wakeups::Told);
        tell(&mut gate, 0, arrive(1));
        tell(&mut gate, 1, Event::Down(0));
    }
}
