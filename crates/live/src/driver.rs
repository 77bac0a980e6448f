//! A gate in real time: the one place through which every event of it goes, which records it,
//! measures waits and holds, and says who starts and who is refused.

use std::collections::VecDeque;
use std::time::Duration;

use gate::{Action, Event, Gate, GateSpec, Job, JobId, Reason, Report, Role, Slot, Time};
use measure::{Histogram, Recording};

use crate::control::{Auto, Control, Controlled, Moved};
use crate::guard::{Holder, HolderId, Holders, SlotGuard, placed};
use crate::model::{Model, Work};
use crate::prometheus::Times;
use crate::tally::{ClassCounts, ClassStats, Tallies};

/// The gate's decision about a job.
#[derive(Debug)]
pub struct Decision<O> {
    /// The one whose job it is.
    pub owner: O,
    /// The job, as [`Driver::arrive`] has named it.
    pub job: JobId,
    /// The slot that it has got, or the reason why it gets none.
    pub outcome: Result<SlotGuard, Reason>,
}

/// A gate that is told what happens as it happens. It reads no clock: each event comes with its moment,
/// and no moment is before an earlier one. `O` is what a server knows the owner of a job by.
#[derive(Debug)]
pub struct Driver<O> {
    gate: Gate,
    actions: Vec<Action>,
    places: Vec<Place<O>>,
    vacant: Vec<u32>,
    sequence: u64,
    recording: Option<Recording>,
    up: Vec<bool>,
    holders: Holders,
    /// Guards that were dropped.
    dropped: u64,
    /// The slots of each server whose jobs wait for something else; none if jobs never do.
    kept_waiting: Option<Vec<u32>>,
    tallies: Tallies,
    served: Vec<Served>,
    /// All that were started, also those of servers and classes that are gone.
    starts: u64,
    roles: Vec<Role>,
    wait_max: Duration,
    unreachable_max: Option<Duration>,
    wait: Histogram,
    hold: Histogram,
    /// The mean hold, recent ones weighing more [s]; `None` before the first.
    hold_mean: Option<f64>,
    wait_sum: Duration,
    decisions: VecDeque<Decision<O>>,
    /// Of what is behind the gate, where its jobs say something of that.
    model: Option<Model>,
    /// Controllers of the slots, where these are left to the gate.
    control: Option<Control>,
    resizes: Vec<Event>,
}

/// A job that waits, as whoever looks at the queue sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<O> {
    /// The one whose job it is.
    pub owner: O,
    /// Its class.
    pub class: u32,
    /// Its priority; higher is more urgent.
    pub priority: u8,
    /// The moment of its arrival.
    pub arrived: Time,
    /// The moment from which on it waits in vain.
    pub deadline: Option<Time>,
    /// The wait still before it, if something is known of holds.
    pub estimate: Option<Duration>,
}

/// A server as its gate has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its role, as far as is known.
    pub role: Role,
    /// True if it is up, as far as is known.
    pub up: bool,
    /// Jobs that wait for it alone.
    pub waiting: u64,
    /// Slots that are held.
    pub busy: u32,
    /// Slots that there are.
    pub slots: u32,
    /// Jobs that were started there.
    pub started: u64,
}

/// The jobs that a server has started.
#[derive(Clone, Debug, Default)]
struct Served {
    started: u64,
    wait: Times,
    hold: Times,
}

/// The place of one job that waits. Its index is in the low bits of the job's id.
#[derive(Clone, Copy, Debug)]
struct Place<O> {
    job: JobId,
    arrived: Time,
    owner: O,
    class: u32,
    deadline: Option<Time>,
}

/// A gate that [begins anew](Driver::begin_anew).
#[derive(Debug)]
pub struct Anew<'a> {
    /// Its specification.
    pub spec: &'a GateSpec,
    /// The place that each server had before, if it had one.
    pub places: &'a [Option<usize>],
    /// The number that each class has now that was there before, if it has one.
    pub classes: &'a [Option<u32>],
    /// Number of classes now.
    pub classes_now: usize,
    /// The most steps that are recorded; 0 for no recording.
    pub record_max: usize,
    /// Search for the slots, if they are left to the gate.
    pub auto: Option<&'a Auto>,
    /// True if its jobs say something of what is behind the gate.
    pub models: bool,
}

const PLACE_BITS: u32 = 24;

/// The weight of the newest hold in their mean: about the last 64 count.
const HOLD_WEIGHT: f64 = 1.0 / 64.0;

impl<O: Copy> Driver<O> {
    /// Drives a fresh gate, for jobs of so many classes.
    ///
    /// # Errors
    /// If `spec` describes none.
    pub fn new(
        spec: &GateSpec,
        classes: usize,
        record_max: usize,
    ) -> Result<Driver<O>, gate::SpecError> {
        Ok(Driver {
            gate: Gate::new(spec)?,
            actions: Vec::new(),
            places: Vec::new(),
            vacant: Vec::new(),
            sequence: 0,
            recording: (record_max > 0).then(|| Recording::new(spec.clone(), record_max)),
            up: vec![true; spec.servers.len()],
            holders: Holders::new(spec.servers.len()),
            dropped: 0,
            kept_waiting: None,
            tallies: Tallies::new(classes),
            served: vec![Served::default(); spec.servers.len()],
            starts: 0,
            roles: match &spec.roles[..] {
                [] => vec![Role::Primary; spec.servers.len()],
                roles => roles.to_vec(),
            },
            wait_max: spec.wait_max.unwrap_or(Duration::MAX),
            unreachable_max: spec.unreachable_max,
            wait: Histogram::new(),
            hold: Histogram::new(),
            hold_mean: None,
            wait_sum: Duration::ZERO,
            decisions: VecDeque::new(),
            model: None,
            control: None,
            resizes: Vec::new(),
        })
    }

    /// The same with a model of what is behind the gate; and with slots that are left to it, if so.
    pub fn modelled(mut self, auto: Option<&Auto>) -> Driver<O> {
        self.model = Some(Model::new(self.up.len()));
        self.control = auto.map(|auto| Control::new(auto, &self.gate));
        self
    }

    /// Until when the job that holds a slot might have waited for it.
    ///
    /// # Panics
    /// If it is of another gate.
    pub fn deadline_at(&self, guard: &SlotGuard) -> Option<Time> {
        self.holders.of(guard).deadline
    }

    /// The slot that somebody holds, as servers are numbered now.
    ///
    /// # Panics
    /// If it is of another gate.
    pub fn slot_of(&self, guard: &SlotGuard) -> Slot {
        self.holders.of(guard).slot
    }

    /// From now on who has a slot goes on waiting, until it is [admitted](Driver::admitted) or
    /// [denied](Driver::denied): that is no part of its hold.
    pub fn keep_waiting(&mut self) {
        self.kept_waiting = Some(vec![0; self.up.len()]);
    }

    /// The holder of a slot has all that it needs.
    ///
    /// # Panics
    /// If the slot is of another gate.
    pub fn admitted(&mut self, now: Time, guard: &SlotGuard) {
        self.reclaim(now);
        let changed = self.pass(now);
        let holder = self.holders.of_mut(guard);
        holder.since = Some(now);
        let holder = *holder;
        self.waits_no_more(holder.slot);
        self.begin(now, &holder);
        self.show_levels();
        self.follow_model(now, changed);
    }

    /// The holder of a slot does not get what else it needs: it is refused for that reason.
    ///
    /// # Panics
    /// If the slot is of another gate.
    pub fn denied(&mut self, now: Time, guard: SlotGuard, reason: Reason) {
        let id = self.holders.redeem(guard);
        self.reclaim(now);
        let Holder { slot, class, .. } = self.holders.take(id);
        self.waits_no_more(slot);
        self.tallies.refused(class, reason);
        let changed = self.pass(now);
        self.carry(now, Event::Depart(slot), changed);
    }

    fn waits_no_more(&mut self, slot: Slot) {
        let waits = self.kept_waiting.as_mut().expect("jobs may wait for something else");
        waits[slot.server as usize] -= 1;
    }

    /// Those who wait, in the order of their arrival, each with its moment. The gate does not hear of
    /// it: it is about to [begin anew](Driver::begin_anew), and to be told that they
    /// [wait on](Driver::wait_on).
    pub fn take_waiting(&mut self) -> Vec<(O, Time)> {
        assert!(self.decisions.is_empty(), "what was decided is carried out first");
        let mut waiting: Vec<Place<O>> =
            self.places.drain(..).filter(|place| place.job != JobId(0)).collect();
        self.vacant.clear();
        waiting.sort_by_key(|place| place.job);
        for place in &waiting {
            self.tallies.taken(place.class);
        }
        waiting.into_iter().map(|place| (place.owner, place.arrived)).collect()
    }

    /// The gate begins anew as another one, at which the slots are held that were held before. It is
    /// recorded from here on. Nobody may wait.
    ///
    /// # Panics
    /// If somebody does, or holds a slot of a server that has no place any more, or the specification
    /// describes no gate.
    pub fn begin_anew(&mut self, now: Time, anew: &Anew<'_>) {
        assert!(self.places.is_empty(), "who waits is taken out before");
        // The gate that was does not hear of it: it still has those who waited.
        for id in self.take_dropped() {
            self.book(now, id, Work::Failed);
        }
        let Anew { spec, places, classes, classes_now, record_max, auto, models } = *anew;
        let is_other = places.iter().enumerate().any(|(at, place)| *place != Some(at))
            || places.len() != self.up.len()
            || classes.len() != classes_now
            || (0..).zip(classes).any(|(at, number)| *number != Some(at));
        self.gate = Gate::new(spec).expect("the configuration was checked");
        self.recording = (record_max > 0).then(|| Recording::new(spec.clone(), record_max));
        self.holders.renumber(places);
        self.served = placed(&mut self.served, places);
        self.up = places.iter().map(|place| place.is_none_or(|at| self.up[at])).collect();
        self.roles = match &spec.roles[..] {
            [] => vec![Role::Primary; places.len()],
            roles => roles.to_vec(),
        };
        self.wait_max = spec.wait_max.unwrap_or(Duration::MAX);
        if spec.unreachable_max != self.unreachable_max {
            // While nobody gets in, another limit may hold than the configured one.
            match self.any_up() {
                true => self.unreachable_max = spec.unreachable_max,
                false => self.handle(now, Event::UnreachableMax(self.unreachable_max)),
            }
        }
        let number = |class: u32| classes.get(class as usize).copied().flatten().unwrap_or(0);
        for holder in self.holders.each_mut() {
            holder.class = number(holder.class);
        }
        self.tallies.renumber(classes, classes_now);
        let kept_waiting = self.kept_waiting.take().map(|_| {
            let mut kept = vec![0; places.len()];
            for holder in self.holders.each().filter(|holder| holder.since.is_none()) {
                kept[holder.slot.server as usize] += 1;
            }
            kept
        });
        self.model = match self.model.take().filter(|_| !is_other) {
            _ if !models => None,
            Some(model) => Some(model),
            None => Some(Model::new(places.len()).since(now)),
        };
        self.control = auto.map(|auto| Control::new(auto, &self.gate));
        for (server, up) in (0..).zip(self.up.clone()) {
            if !up {
                self.handle(now, Event::Down(server));
            }
        }
        let slots: Vec<Slot> = self.holders.each().map(|holder| holder.slot).collect();
        for slot in slots {
            self.handle(now, Event::Occupy(slot));
        }
        // Until here not all that are kept waiting hold their slots.
        self.kept_waiting = kept_waiting;
        self.show_levels();
    }

    /// A job waits on at a gate that has begun anew, up to its own deadline.
    pub fn wait_on(&mut self, now: Time, owner: O, arrived: Time, job: Job) -> JobId {
        self.enter(now, owner, arrived, job)
    }

    /// So many jobs may wait from now on; those that wait stay.
    pub fn set_room(&mut self, now: Time, room: Option<u64>) {
        self.tell(now, Event::Room(room));
    }

    /// A job holds a slot from now on that has never waited here.
    pub fn occupy(&mut self, now: Time, class: u32) -> SlotGuard {
        self.reclaim(now);
        self.sequence += 1;
        let job = JobId(self.sequence << PLACE_BITS);
        let slot = self.holders.free_slot(0);
        let holder = Holder { job, slot, class, arrived: now, deadline: None, since: Some(now) };
        let guard = self.holders.put(holder);
        self.tallies.occupied(class);
        self.happens(now, Event::Occupy(slot));
        guard
    }

    /// A job of `owner` arrives, which may wait until so long after `since`, or until its own
    /// deadline if that is earlier. It is given its name here.
    pub fn arrive(&mut self, now: Time, owner: O, since: Time, job: Job) -> JobId {
        let latest = since + self.wait_max;
        let deadline = Some(job.deadline.map_or(latest, |own| own.min(latest)));
        self.enter(now, owner, now, Job { deadline, ..job })
    }

    fn enter(&mut self, now: Time, owner: O, arrived: Time, job: Job) -> JobId {
        let at = self.vacant.pop().unwrap_or(self.places.len() as u32);
        self.sequence += 1;
        let id = JobId(self.sequence << PLACE_BITS | u64::from(at));
        let Job { class, deadline, .. } = job;
        let place = Place { job: id, arrived, owner, class, deadline };
        self.tallies.arrived(job.class);
        match self.places.get_mut(at as usize) {
            Some(vacant) => *vacant = place,
            None => self.places.push(place),
        }
        self.tell(now, Event::Arrive(Job { id, ..job }));
        id
    }

    /// The owner of a job that waits has gone. What was decided of it and not carried out is undone.
    pub fn renege(&mut self, now: Time, job: JobId) {
        // First of all: the job may get a slot by that.
        self.reclaim(now);
        if let Some(outcome) = self.withdraw(job) {
            if let Ok(guard) = outcome {
                // It has held its slot for no time.
                self.depart(now, guard, Work::Failed);
            }
            return;
        }
        self.happens(now, Event::Renege(job));
        // The gate may have refused it in that same event: its deadline had come.
        if self.withdraw(job).is_none() {
            self.tallies.reneged(self.places[place_of(job)].class);
            self.vacate(job);
        }
    }

    fn withdraw(&mut self, job: JobId) -> Option<Result<SlotGuard, Reason>> {
        let at = self.decisions.iter().position(|verdict| verdict.job == job)?;
        self.decisions.remove(at).map(|verdict| verdict.outcome)
    }

    /// A slot is given back, and what became of the job; how long it was held.
    ///
    /// # Panics
    /// If the slot is of another gate.
    pub fn depart(&mut self, now: Time, guard: SlotGuard, work: Work) -> Duration {
        let id = self.holders.redeem(guard);
        self.reclaim(now);
        self.end(now, id, work)
    }

    /// Guards that were dropped give their slots back.
    fn reclaim(&mut self, now: Time) {
        if self.holders.any_dropped() {
            for id in self.take_dropped() {
                self.end(now, id, Work::Failed);
            }
        }
    }

    fn take_dropped(&mut self) -> Vec<HolderId> {
        let ids = self.holders.take_dropped();
        self.dropped += ids.len() as u64;
        ids
    }

    /// Guards that were dropped instead of given back, so far as their slots are back.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Guards that somebody has, those of decisions that nobody has taken yet included. What is held
    /// beyond them was dropped, and comes back at the next event.
    pub fn guards(&self) -> usize {
        self.holders.guards()
    }

    fn end(&mut self, now: Time, id: HolderId, work: Work) -> Duration {
        let (slot, hold, changed) = self.book(now, id, work);
        self.carry(now, Event::Depart(slot), changed);
        hold
    }

    /// A job's end in the books: its slot, which the gate is to have, its hold, and whether the model
    /// says something else now.
    fn book(&mut self, now: Time, id: HolderId, work: Work) -> (Slot, Duration, bool) {
        let Holder { slot, class, since, .. } = self.holders.take(id);
        let Some(since) = since else {
            // Its owner went while it waited for something else.
            self.waits_no_more(slot);
            self.tallies.reneged(class);
            return (slot, Duration::ZERO, self.pass(now));
        };
        let hold = now.since(since);
        self.hold.record(hold);
        self.tallies.departed(class, hold);
        self.served[slot.server as usize].hold.observe(hold);
        let seconds = hold.as_secs_f64();
        let mean = self.hold_mean.get_or_insert(seconds);
        *mean += HOLD_WEIGHT * (seconds - *mean);
        if let (Some(control), Work::Failed) = (&mut self.control, work) {
            control.spoil(slot.server);
        }
        let changed = self.pass(now);
        if let Some(model) = &mut self.model {
            model.departed(now, slot, work);
        }
        (slot, hold, changed)
    }

    /// A server has so many slots from now on, beside what is lent of a reserve. Jobs in slots that
    /// are gone end in peace.
    pub fn resize(&mut self, now: Time, server: u32, slots: u32) {
        if self.gate.slots_own(server) == slots {
            return;
        }
        self.tell(now, Event::Resize { server, slots });
    }

    /// The slots of a server, with what is lent to it of a reserve.
    pub fn slots_of(&self, server: u32) -> u32 {
        self.gate.servers()[server as usize].slots
    }

    /// A server was found to be up.
    pub fn rise(&mut self, now: Time, server: u32) {
        if !std::mem::replace(&mut self.up[server as usize], true) {
            self.tell(now, Event::Up(server));
        }
    }

    /// A server was found to be down. The last one stays up until whoever has found it says what
    /// becomes of those who wait, and [lowers](Driver::lower) it. Whether others are up.
    pub fn fall(&mut self, now: Time, server: u32) -> bool {
        let others = self.has_others(server);
        if others && std::mem::replace(&mut self.up[server as usize], false) {
            self.tell(now, Event::Down(server));
        }
        others
    }

    /// True if a server is up, as far as is known.
    pub fn is_up(&self, server: u32) -> bool {
        self.up[server as usize]
    }

    /// True if any server is up.
    pub fn any_up(&self) -> bool {
        self.up.contains(&true)
    }

    /// True if another server is up.
    pub fn has_others(&self, server: u32) -> bool {
        self.up.iter().enumerate().any(|(at, up)| *up && at != server as usize)
    }

    /// Starts no job until it is [resumed](Driver::resume).
    pub fn pause(&mut self, now: Time) {
        self.tell(now, Event::Pause);
    }

    /// Starts jobs again.
    pub fn resume(&mut self, now: Time) {
        self.tell(now, Event::Resume);
    }

    /// Jobs that arrive from now on wait so long at most.
    pub fn set_wait_max(&mut self, now: Time, longest: Duration) {
        self.wait_max = longest;
        self.tell(now, Event::WaitMax(Some(longest)));
    }

    /// From now on jobs wait so long at most while no server is up.
    pub fn set_unreachable_max(&mut self, now: Time, longest: Option<Duration>) {
        if std::mem::replace(&mut self.unreachable_max, longest) != longest {
            self.tell(now, Event::UnreachableMax(longest));
        }
    }

    /// Longest wait of jobs while no server is up; `None` makes no difference.
    pub fn unreachable_max(&self) -> Option<Duration> {
        self.unreachable_max
    }

    /// Longest wait of jobs.
    pub fn wait_max(&self) -> Duration {
        self.wait_max
    }

    /// A server must not be used, whatever there is beside it.
    pub fn lower(&mut self, now: Time, server: u32) {
        if std::mem::replace(&mut self.up[server as usize], false) {
            self.tell(now, Event::Down(server));
        }
    }

    /// A server tells how it is.
    pub fn report(&mut self, now: Time, server: u32, report: Report) {
        self.tell(now, Event::Report { server, report });
    }

    /// A server was found to have this role.
    pub fn assume(&mut self, now: Time, server: u32, role: Role) {
        if std::mem::replace(&mut self.roles[server as usize], role) != role {
            self.tell(now, Event::Role { server, role });
        }
    }

    /// The moment has come that [`next_wakeup`](Driver::next_wakeup) named.
    pub fn wake(&mut self, now: Time) {
        self.reclaim(now);
        if self.gate.next_wakeup().is_some_and(|wakeup| wakeup <= now) {
            self.tell(now, Event::Wake);
        }
    }

    /// When to [`wake`](Driver::wake) it at the latest: at once if a guard was dropped.
    pub fn next_wakeup(&self) -> Option<Time> {
        match self.holders.any_dropped() {
            true => Some(Time::ZERO),
            false => self.gate.next_wakeup(),
        }
    }

    /// Next decision that is not yet carried out, in order.
    pub fn next_decision(&mut self) -> Option<Decision<O>> {
        self.decisions.pop_front()
    }

    fn tell(&mut self, now: Time, event: Event) {
        self.reclaim(now);
        self.happens(now, event);
    }

    /// An event, before which [`reclaim`](Driver::reclaim) was called, and whatever depends on nobody
    /// else's slot coming back in between was done.
    fn happens(&mut self, now: Time, event: Event) {
        let changed = self.pass(now);
        self.carry(now, event, changed);
    }

    /// The model hears that time has passed. Whether it says something else now.
    fn pass(&mut self, now: Time) -> bool {
        self.model.as_mut().is_some_and(|model| model.pass(now))
    }

    /// Tells the gate, and then of each number of slots that follows from that.
    fn carry(&mut self, now: Time, event: Event, changed: bool) {
        self.handle(now, event);
        let Some(control) = &mut self.control else { return };
        let mut resizes = std::mem::take(&mut self.resizes);
        control.after(now, &event, &self.gate, &mut resizes);
        self.resizes = resizes;
        self.follow_model(now, changed);
    }

    /// Tells the gate each number of slots that follows from what was seen.
    fn follow_model(&mut self, now: Time, changed: bool) {
        let Some(control) = &mut self.control else { return };
        let mut resizes = std::mem::take(&mut self.resizes);
        if let (Some(model), true) = (&self.model, changed) {
            control.learn(now, model, &mut resizes);
        }
        for resize in resizes.drain(..) {
            self.handle(now, resize);
        }
        self.resizes = resizes;
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.actions.clear();
        self.gate.handle(now, event, &mut self.actions);
        if let Some(recording) = &mut self.recording {
            recording.push(now, event, &self.actions);
        }
        for at in 0..self.actions.len() {
            let (job, outcome) = match self.actions[at] {
                Action::Start { job, slot } => (job, Ok(slot)),
                Action::Refuse { job, reason } => (job, Err(reason)),
            };
            let place = self.places[place_of(job)];
            assert_eq!(place.job, job, "the gate speaks of a job that is not there");
            self.vacate(job);
            let outcome = outcome.map(|slot| self.hold_slot(now, place, slot));
            if let Err(reason) = outcome {
                self.tallies.refused(place.class, reason);
            }
            self.decisions.push_back(Decision { owner: place.owner, job, outcome });
        }
        self.show(&event);
    }

    /// The model hears what has become of the levels.
    fn show(&mut self, event: &Event) {
        let Some(model) = &mut self.model else { return };
        if matches!(event, Event::Arrive(_)) {
            model.arrived();
        }
        self.show_levels();
    }

    fn show_levels(&mut self) {
        let Some(model) = &mut self.model else { return };
        let Some(kept) = &self.kept_waiting else {
            for (at, server) in self.gate.servers().iter().enumerate() {
                model.level(at, server.busy, self.gate.waiting());
            }
            return;
        };
        let waiting = self.gate.waiting() + kept.iter().map(|&jobs| u64::from(jobs)).sum::<u64>();
        for (at, (server, kept)) in self.gate.servers().iter().zip(kept).enumerate() {
            model.level(at, server.busy - kept, waiting);
        }
    }

    /// Model of what is behind the gate.
    pub fn model(&self) -> Option<&Model> {
        self.model.as_ref()
    }

    /// The slots that were found for a server, where finding them is left to the gate and it acts:
    /// neither those of a trial nor what is lent.
    pub fn found(&self, server: u32) -> Option<u32> {
        self.control.as_ref()?.found(server)
    }

    /// The slots that a server has now by what was decided, those of a trial too, where that is done.
    pub fn sought(&self, server: u32) -> Option<u32> {
        self.control.as_ref()?.sought(server)
    }

    /// True if the slots are left to the gate.
    pub fn is_controlled(&self) -> bool {
        self.control.is_some()
    }

    /// Decisions about the slots, where these are left to the gate.
    pub fn controlled(&self) -> Option<Controlled> {
        self.control.as_ref().map(Control::controlled)
    }

    /// A decision about the slots that nobody has been told of yet.
    pub fn next_untold(&mut self) -> Option<Moved> {
        self.control.as_mut().and_then(Control::next_untold)
    }

    /// The slots of each server.
    pub fn slots_each(&self) -> impl Iterator<Item = u32> + '_ {
        self.gate.servers().iter().map(|server| server.slots)
    }

    /// A job has got a slot.
    fn hold_slot(&mut self, now: Time, place: Place<O>, slot: Slot) -> SlotGuard {
        let Place { job, class, arrived, deadline, .. } = place;
        let mut holder = Holder { job, slot, class, arrived, deadline, since: None };
        if let Some(kept) = &mut self.kept_waiting {
            kept[slot.server as usize] += 1;
        } else {
            holder.since = Some(now);
            self.begin(now, &holder);
        }
        self.holders.put(holder)
    }

    /// A job begins.
    fn begin(&mut self, now: Time, holder: &Holder) {
        let wait = now.since(holder.arrived);
        self.wait.record(wait);
        self.wait_sum += wait;
        self.tallies.started(holder.class, wait);
        let served = &mut self.served[holder.slot.server as usize];
        served.started += 1;
        served.wait.observe(wait);
        self.starts += 1;
        if let Some(model) = &mut self.model {
            model.started(now, holder.slot, holder.class);
        }
    }

    fn vacate(&mut self, job: JobId) {
        let at = place_of(job);
        self.places[at].job = JobId(0);
        self.vacant.push(at as u32);
    }

    /// The jobs that wait, in the order in which they would start.
    pub fn queue(&self, now: Time) -> Vec<Waiting<O>> {
        let jobs = self.gate.queue(now).into_iter().enumerate();
        jobs.map(|(at, job)| {
            let place = self.places[place_of(job.id)];
            Waiting {
                owner: place.owner,
                class: job.class,
                priority: job.priority,
                arrived: place.arrived,
                deadline: job.deadline,
                estimate: self.wait_behind(at as u64),
            }
        })
        .collect()
    }

    /// Predicted wait of a job that came now: as the gate foresees, else those before it, served by
    /// all slots at the recent mean hold; `None` if nothing is known of holds yet.
    pub fn predicted_wait(&self, now: Time) -> Option<Duration> {
        if let Some(wait) = self.gate.foreseen_wait(now, &Job::new(JobId(0))) {
            return Some(wait);
        }
        self.wait_behind(self.gate.waiting())
    }

    fn wait_behind(&self, jobs: u64) -> Option<Duration> {
        let servers = self.gate.servers().iter().zip(&self.up);
        let slots: u32 = servers.filter(|(_, up)| **up).map(|(server, _)| server.slots).sum();
        let hold = self.hold_mean.filter(|_| slots > 0)?;
        let wait = (jobs + 1) as f64 * hold / f64::from(slots);
        Duration::try_from_secs_f64(wait).ok()
    }

    /// The jobs that wait.
    pub fn waiting(&self) -> u64 {
        self.gate.waiting()
    }

    /// Wait so far of the job that has waited longest; zero if none waits.
    pub fn wait_oldest(&self, now: Time) -> Duration {
        let waiting = self.places.iter().filter(|place| place.job != JobId(0));
        waiting.map(|place| now.since(place.arrived)).max().unwrap_or_default()
    }

    /// The slots that are held, of all servers.
    pub fn busy(&self) -> u32 {
        self.gate.busy()
    }

    /// The slots of all servers.
    pub fn slots(&self) -> u32 {
        self.gate.slots()
    }

    /// From arrival to start.
    pub fn wait(&self) -> &Histogram {
        &self.wait
    }

    /// All waits together.
    pub fn wait_sum(&self) -> Duration {
        self.wait_sum
    }

    /// The jobs of these waits.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// From start to departure.
    pub fn hold(&self) -> &Histogram {
        &self.hold
    }

    /// The same for each class that has had a job, if there are several, by these names.
    pub fn classes<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<ClassStats> {
        self.tallies.stats(names)
    }

    /// The counts of each class that has had a job, by its number.
    pub fn counts(&self) -> impl Iterator<Item = (usize, &ClassCounts)> {
        self.tallies.counts()
    }

    /// True if a server is up that may be asked everything.
    pub fn has_primary(&self) -> bool {
        self.up.iter().zip(&self.roles).any(|(up, role)| *up && *role == Role::Primary)
    }

    /// The state of each server.
    pub fn servers(&self) -> impl Iterator<Item = Server> + '_ {
        self.gate.servers().iter().enumerate().map(|(at, view)| Server {
            role: self.roles[at],
            up: self.up[at],
            waiting: view.waiting,
            busy: view.busy,
            slots: view.slots,
            started: self.served[at].started,
        })
    }

    /// The times of the jobs that a server has started: from arrival to start, and from start to
    /// departure.
    pub fn times_at(&self, server: u32) -> [&Times; 2] {
        let Served { wait, hold, .. } = &self.served[server as usize];
        [wait, hold]
    }

    /// All that was recorded so far, if anything is.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }
}

fn place_of(job: JobId) -> usize {
    (job.0 & ((1 << PLACE_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Job = Job::new(JobId(0));

    fn driver() -> (Driver<char>, [char; 3]) {
        let spec =
            GateSpec { room: Some(1), wait_max: Some(Duration::from_secs(9)), ..GateSpec::fifo(1) };
        (Driver::new(&spec, 2, 100).unwrap(), ['a', 'b', 'c'])
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_slot_goes_from_client_to_client_and_all_of_it_replays() {
        let (mut driver, [a, b, c]) = driver();
        driver.arrive(at(0), a, at(0), JOB);
        let first = driver.next_decision().unwrap().outcome.unwrap();
        let slot = driver.slot_of(&first);
        driver.arrive(at(1), b, at(1), JOB);
        assert!(driver.next_decision().is_none());
        driver.arrive(at(1), c, at(1), JOB);
        let refused = driver.next_decision().unwrap();
        assert_eq!((refused.owner, refused.outcome.unwrap_err()), (c, Reason::QueueFull));
        assert_eq!(driver.depart(at(3), first, Work::Done), Duration::from_secs(3));
        let next = driver.next_decision().unwrap();
        let second = next.outcome.unwrap();
        assert_eq!((next.owner, driver.slot_of(&second)), (b, slot));
        assert_eq!(driver.predicted_wait(at(3)), Some(Duration::from_secs(3)));
        driver.depart(at(4), second, Work::Done);
        assert_eq!((driver.busy(), driver.waiting(), driver.wait().len()), (0, 0, 2));
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
    }

    #[test]
    fn who_waits_too_long_is_refused_and_who_goes_is_forgotten() {
        let (mut driver, [a, b, c]) = driver();
        driver.arrive(at(0), a, at(0), JOB);
        let slot = driver.next_decision().unwrap().outcome.unwrap();
        let gone = driver.arrive(at(1), b, at(1), JOB);
        driver.renege(at(2), gone);
        driver.arrive(at(2), c, at(2), JOB);
        assert_eq!(driver.next_wakeup(), Some(at(11)));
        driver.wake(at(11));
        let refused = driver.next_decision().unwrap();
        assert_eq!((refused.owner, refused.outcome.unwrap_err()), (c, Reason::Deadline));
        driver.depart(at(12), slot, Work::Done);
        assert!(driver.next_decision().is_none());
        assert_eq!(driver.vacant.len(), driver.places.len());
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
    }

    #[test]
    fn the_predicted_wait_follows_the_queue() {
        let spec = GateSpec { wait_max: Some(Duration::from_secs(9)), ..GateSpec::fifo(2) };
        let mut driver = Driver::new(&spec, 1, 0).unwrap();
        let predicted = |driver: &Driver<char>, now| driver.predicted_wait(at(now));
        assert_eq!(predicted(&driver, 0), Some(Duration::ZERO), "a slot is free");
        for owner in ['a', 'b', 'c'] {
            driver.arrive(at(0), owner, at(0), JOB);
        }
        assert_eq!(predicted(&driver, 0), None, "nothing is known of holds yet");
        let slot = driver.next_decision().unwrap().outcome.unwrap();
        driver.depart(at(4), slot, Work::Done);
        driver.arrive(at(4), 'd', at(4), JOB);
        driver.arrive(at(4), 'e', at(4), JOB);
        assert_eq!(predicted(&driver, 4), Some(Duration::from_secs(6)), "3 jobs of 4 s on 2 slots");
        driver.lower(at(4), 0);
        assert_eq!(predicted(&driver, 4), None, "nobody is let in");
    }

    /// The wait for the slots of a quota was counted as hold, so that the model took it for demand.
    #[test]
    fn who_waits_for_something_else_does_not_hold_its_slot_yet() {
        let (driver, [a, b, c]) = driver();
        let mut driver = driver.modelled(None);
        driver.keep_waiting();
        let starts = |driver: &mut Driver<char>, now, client| {
            driver.arrive(now, client, now, JOB);
            driver.next_decision().unwrap().outcome.unwrap()
        };
        let slot = starts(&mut driver, at(0), a);
        assert_eq!((driver.wait().len(), driver.busy()), (0, 1));
        driver.admitted(at(3), &slot);
        assert_eq!(driver.wait_sum(), Duration::from_secs(3));
        assert_eq!(driver.depart(at(4), slot, Work::Done), Duration::from_secs(1));
        assert_eq!(driver.hold_mean, Some(1.0));
        let slot = starts(&mut driver, at(5), b);
        driver.denied(at(6), slot, Reason::Deadline);
        let slot = starts(&mut driver, at(7), c);
        assert_eq!(driver.depart(at(8), slot, Work::Failed), Duration::ZERO);
        assert_eq!((driver.wait().len(), driver.hold().len(), driver.busy()), (1, 1, 0));
        let counts: Vec<_> = driver.counts().map(|(_, counts)| counts.clone()).collect();
        let counts = &counts[0];
        assert_eq!((counts.waiting, counts.busy), (0, 0));
        assert_eq!((counts.refused_deadline, counts.reneged), (1, 1));
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
    }

    /// A reload from 1 slot to 2 while another was lent changed nothing, and when that was given back
    /// there was 1 again.
    #[test]
    fn what_is_lent_of_a_reserve_is_beside_the_slots_that_are_set() {
        let reserve = gate::Reserve { slots: 1, after: Duration::from_secs(1) };
        let spec = GateSpec { reserve: Some(reserve), ..GateSpec::fifo(1) };
        let mut driver = Driver::new(&spec, 1, 100).unwrap();
        let starts = |driver: &mut Driver<char>| driver.next_decision().unwrap().outcome.unwrap();
        for client in ['a', 'b'] {
            driver.arrive(at(0), client, at(0), JOB);
        }
        let _own = starts(&mut driver);
        driver.wake(at(1));
        let lent = starts(&mut driver);
        assert_eq!(driver.slots_of(0), 2);
        driver.resize(at(2), 0, 2);
        assert_eq!(driver.slots_of(0), 3);
        driver.depart(at(3), lent, Work::Done);
        assert_eq!(driver.slots_of(0), 2);
        let steps = driver.recording().unwrap().steps.len();
        driver.resize(at(4), 0, 2);
        assert_eq!(driver.recording().unwrap().steps.len(), steps, "nothing is told in vain");
    }

    /// A job that holds locks must end before others can: nothing that happens at its gate takes its
    /// slot, and who is more important waits for it.
    #[test]
    fn who_has_a_slot_keeps_it_whoever_comes_and_when_slots_shrink() {
        let spec = GateSpec {
            discipline: gate::DisciplineSpec::Priority,
            room: Some(9),
            wait_max: Some(Duration::from_secs(9)),
            ..GateSpec::fifo(2)
        };
        let mut driver = Driver::new(&spec, 2, 100).unwrap();
        let [a, b, c, d] = ['a', 'b', 'c', 'd'];
        driver.arrive(at(0), a, at(0), JOB);
        driver.arrive(at(0), b, at(0), JOB);
        let [first, second] =
            [0; 2].map(|_| driver.next_decision().unwrap().outcome.expect("two slots are there"));
        driver.arrive(at(1), c, at(1), JOB);
        driver.arrive(at(1), d, at(1), Job { class: 1, priority: 9, ..JOB });
        driver.tell(at(2), Event::Resize { server: 0, slots: 1 });
        assert!(driver.next_decision().is_none());
        assert_eq!((driver.busy(), driver.slots()), (2, 1));
        driver.depart(at(3), first, Work::Done);
        assert!(driver.next_decision().is_none(), "as many are served as there are slots");
        driver.depart(at(4), second, Work::Done);
        let next = driver.next_decision().unwrap();
        assert_eq!(next.owner, d, "the more important one");
        let slot = next.outcome.unwrap();
        assert_eq!(driver.slot_of(&slot).index, 0, "the slot that is left");
        driver.tell(at(5), Event::Resize { server: 0, slots: 3 });
        let last = driver.next_decision().unwrap();
        assert_eq!(last.owner, c);
        driver.depart(at(6), slot, Work::Done);
        driver.depart(at(6), last.outcome.unwrap(), Work::Done);
        assert_eq!(driver.recording().unwrap().replay(), Ok(()));
        let classes = driver.classes(["other", "web"].into_iter());
        let counts = |class: &ClassStats| (class.wait.len(), class.hold.len(), class.busy);
        assert_eq!(classes.iter().map(counts).collect::<Vec<_>>(), [(3, 3, 0), (1, 1, 0)]);
    }
}
