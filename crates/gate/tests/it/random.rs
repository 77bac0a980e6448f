//! Random sequences of events: the gate says what the model says, and keeps what it promises. A
//! failure names the seed and the shortest sequence found that still fails.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use gate::{
    Access, Action, AtZero, CohortSpec, DisciplineSpec, EarlyRejection, Event, Gate, GateSpec, Job,
    JobId, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow, Length, LoadInformation, Queues, Report,
    Reserve, Role, RouterSpec, ServerSpec, Share, Slot, Ties, Time, WeightedOrder, Window,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::model::Model;

/// Step of a driver, such that any part of a sequence is a sequence: it names nothing that an
/// earlier step made.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive {
        priority: u8,
        patience: Option<u64>,
        /// Its class, key and size.
        about: (u32, u64, u64),
    },
    /// The n-th of the slots that are held, if any is.
    Depart(usize),
    /// The job that arrived so many jobs ago.
    Renege(u64),
    Resize {
        server: u32,
        slots: u32,
    },
    /// Somebody holds this slot from before, if nobody holds it.
    Occupy(Slot),
    Tell(Event),
}

/// Steps, each so many nanoseconds after the one before.
type Steps = Vec<(u64, Step)>;

#[test]
fn the_gate_says_what_the_model_says() {
    let mut seed = 0;
    for_each_policy(|policy| {
        for _ in 0..25 {
            seed += 1;
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let spec = draw_spec(&mut chance, policy.clone());
            let steps = draw_steps(&mut chance, &spec, 250);
            check_or_shrink(seed, &spec, steps, compare);
        }
    });
    assert_eq!(seed, 2 * 6 * 5 * 25);
}

#[test]
fn every_policy_keeps_the_promises() {
    for seed in 0..600 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let spec = draw_any_spec(&mut chance);
        let steps = draw_steps(&mut chance, &spec, 250);
        check_or_shrink(seed, &spec, steps, |spec, steps| {
            drive(spec, steps, Wakes::None).map(|_| ())
        });
    }
}

#[test]
fn needless_wakes_change_nothing_and_the_same_events_have_the_same_answers() {
    for seed in 0..600 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let spec = draw_any_spec(&mut chance);
        let steps = draw_steps(&mut chance, &spec, 250);
        check_or_shrink(seed, &spec, steps, |spec, steps| {
            let once = drive(spec, steps, Wakes::None)?;
            must(once == drive(spec, steps, Wakes::None)?, || "a replay differs".into())?;
            must(once == drive(spec, steps, Wakes::Needless)?, || "a wake changed it".into())
        });
    }
}

#[derive(Clone)]
struct Policy {
    queues: Queues,
    discipline: DisciplineSpec,
    router: RouterSpec,
}

/// Those that the model knows: their next job is a function of the jobs that wait.
fn modelled() -> [DisciplineSpec; 6] {
    use DisciplineSpec::{EarliestDeadline, Fifo, Lifo, Priority, PriorityAgeing, ShortestJob};
    let interval = Duration::from_nanos(5);
    [Fifo, Lifo, Priority, PriorityAgeing { interval }, ShortestJob, EarliestDeadline]
}

fn draw_discipline(chance: &mut Xoshiro256PlusPlus) -> DisciplineSpec {
    let weights = pick(chance, &[vec![], vec![3], vec![1, 2, 5]]);
    let cohort = CohortSpec {
        capacity: pick(chance, &[1, 2, 4]),
        run_max: pick(chance, &[1, 3]),
        cached_max: pick(chance, &[None, Some(1), Some(4)]),
        levels: pick(chance, &[1, 2]),
    };
    let quantum = pick(chance, &[1, 4]);
    let mut all = modelled().to_vec();
    all.push(DisciplineSpec::DeficitRoundRobin { quantum, weights });
    all.push(DisciplineSpec::Cohort(cohort));
    pick(chance, &all)
}

fn draw_router(chance: &mut Xoshiro256PlusPlus, servers: u32, queues: Queues) -> RouterSpec {
    let length = pick(chance, &[Length::Waiting, Length::InSystem]);
    let ties = pick(chance, &[Ties::Lowest, Ties::Rotate, Ties::Random]);
    let recent = Window::Recent(Duration::from_nanos(20));
    let window = pick(chance, &[Window::SinceStart, recent]);
    let at_zero = pick(chance, &[AtZero::Best, AtZero::PlusOne, AtZero::Floor(0.5)]);
    let utilisation = pick(chance, &[0.0, 1.0, 10.0]);
    let weights = (0..servers).map(|_| pick(chance, &[1, 2, 5])).collect();
    let order = pick(chance, &[WeightedOrder::Rotate, WeightedOrder::Random]);
    let mut all = vec![
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        RouterSpec::ShortestQueue { length, ties },
        RouterSpec::LowestUtilisation { window, ties },
        RouterSpec::Ev { queue: 1.0, utilisation, length, at_zero, window, ties },
        RouterSpec::PowerOfD { d: pick(chance, &[1, 2, 9]), length, ties },
        RouterSpec::JoinIdleQueue { ties },
        RouterSpec::LeastWork { speed: pick(chance, &[None, Some(400_000_000)]), ties },
        RouterSpec::Weighted { weights, order },
    ];
    if queues == Queues::PerServer {
        let last = servers - 1;
        let table = KeyMap::Table {
            rows: vec![KeyRow { key: 3, server: last }, KeyRow { key: 1, server: 0 }],
            default: pick(chance, &[KeyDefault::Hash, KeyDefault::Server(last)]),
        };
        let range = KeyMap::Range { bounds: (1..u64::from(servers)).collect() };
        all.push(RouterSpec::ByKey {
            of: pick(chance, &[KeyOf::Key, KeyOf::Class]),
            map: pick(chance, &[KeyMap::Hash, table, range]),
            down: pick(chance, &[KeyDown::Next, KeyDown::Wait]),
        });
    }
    pick(chance, &all)
}

fn draw_any_spec(chance: &mut Xoshiro256PlusPlus) -> GateSpec {
    let queues = pick(chance, &[Queues::Shared, Queues::PerServer]);
    let discipline = draw_discipline(chance);
    let policy = Policy { queues, discipline, router: RouterSpec::Random };
    let mut spec = draw_spec(chance, policy);
    spec.router = draw_router(chance, spec.servers.len() as u32, queues);
    let span = Duration::from_nanos(pick(chance, &[1, 7, 50]));
    let load_information = [
        LoadInformation::Fresh,
        LoadInformation::Delayed(span),
        LoadInformation::Refreshed(span),
        LoadInformation::Reported,
    ];
    spec.load_information = pick(chance, &load_information);
    spec.early_rejection = pick(chance, &[None, Some(EarlyRejection { memory: span })]);
    spec
}

/// Every combination that draws no chance.
fn for_each_policy(mut what: impl FnMut(Policy)) {
    let mut routers = vec![RouterSpec::RoundRobin];
    for length in [Length::Waiting, Length::InSystem] {
        for ties in [Ties::Lowest, Ties::Rotate] {
            routers.push(RouterSpec::ShortestQueue { length, ties });
        }
    }
    for queues in [Queues::Shared, Queues::PerServer] {
        for discipline in modelled() {
            for router in &routers {
                let (discipline, router) = (discipline.clone(), router.clone());
                what(Policy { queues, discipline, router });
            }
        }
    }
}

fn below(chance: &mut Xoshiro256PlusPlus, n: u64) -> u64 {
    chance.next_u64() % n
}

fn pick<T: Clone>(chance: &mut Xoshiro256PlusPlus, among: &[T]) -> T {
    among[below(chance, among.len() as u64) as usize].clone()
}

fn draw_spec(chance: &mut Xoshiro256PlusPlus, policy: Policy) -> GateSpec {
    let servers = 1 + below(chance, 4);
    let servers = (0..servers).map(|_| ServerSpec { slots: pick(chance, &[0, 1, 1, 2, 3]) });
    GateSpec {
        servers: servers.collect(),
        queues: policy.queues,
        router: policy.router,
        load_information: LoadInformation::Fresh,
        discipline: policy.discipline,
        room: pick(chance, &[None, None, Some(0), Some(1), Some(4), Some(40)]),
        wait_max: pick(chance, &[None, None, Some(Duration::from_nanos(12))]),
        unreachable_max: pick(chance, &[None, Some(0), Some(5), Some(20)])
            .map(Duration::from_nanos),
        early_rejection: None,
        reserve: None,
        roles: Vec::new(),
        seed: chance.next_u64(),
    }
}

fn draw_steps(chance: &mut Xoshiro256PlusPlus, spec: &GateSpec, len: usize) -> Steps {
    let servers = spec.servers.len() as u64;
    // Some sequences are crowded, so that queues grow long; in some nothing comes from outside.
    let arrivals = pick(chance, &[25, 40, 55]);
    let outside = pick(chance, &[0, 6, 20]);
    let spans = pick(chance, &[1, 3, 8]);
    let step = |_| {
        let server = below(chance, servers) as u32;
        let draw = below(chance, 100);
        let step = if draw < outside {
            match below(chance, 10) {
                8 => {
                    let spans = [None, Some(0), Some(4), Some(20)];
                    Step::Tell(Event::UnreachableMax(
                        pick(chance, &spans).map(Duration::from_nanos),
                    ))
                }
                0 => Step::Resize { server, slots: pick(chance, &[0, 1, 2, 3, 5]) },
                1 => Step::Tell(Event::Down(server)),
                2 => Step::Tell(Event::Up(server)),
                3 => Step::Tell(pick(chance, &[Event::Pause, Event::Resume, Event::Resume])),
                4 => {
                    let spans = [None, Some(0), Some(2), Some(20)];
                    Step::Tell(Event::WaitMax(pick(chance, &spans).map(Duration::from_nanos)))
                }
                5 => {
                    let report = Report {
                        waiting: below(chance, 4),
                        busy: below(chance, 3) as u32,
                        utilisation: Share::new(below(chance, 5) as f64 / 4.0),
                        work: below(chance, 9),
                    };
                    Step::Tell(Event::Report { server, report })
                }
                6 => Step::Tell(Event::Room(pick(chance, &[None, Some(0), Some(2), Some(9)]))),
                7 => Step::Occupy(Slot { server, index: below(chance, 7) as u32 }),
                _ => Step::Tell(Event::Wake),
            }
        } else if draw < outside + arrivals {
            let patience = pick(chance, &[None, None, Some(0), Some(3), Some(9), Some(30)]);
            let about = (below(chance, 3) as u32, below(chance, 5), pick(chance, &[0, 1, 1, 2, 7]));
            Step::Arrive { priority: pick(chance, &[0, 0, 1, 9]), patience, about }
        } else if draw < 90 {
            Step::Depart(below(chance, 64) as usize)
        } else {
            Step::Renege(below(chance, 12))
        };
        (below(chance, spans), step)
    };
    (0..len).map(step).collect()
}

/// Told by the driver besides the steps.
#[derive(Clone, Copy, PartialEq)]
enum Wakes {
    None,
    /// After every event.
    Needless,
}

/// Drives a gate and keeps the books beside it; returns all that it said.
fn drive(spec: &GateSpec, steps: &[(u64, Step)], wakes: Wakes) -> Result<Vec<Action>, String> {
    let mut gate = Gate::new(spec).map_err(|error| error.to_string())?;
    let mut books = Books::new(spec);
    let mut said = Vec::new();
    for (at, event) in books.unfold(steps) {
        let event = match books.resolve(at, event) {
            Some(event) => event,
            None => continue,
        };
        let mut actions = Vec::new();
        gate.handle(at, event, &mut actions);
        books.enter(at, event, &actions)?;
        books.compare(&gate, at).map_err(|cause| format!("after {event:?} at {at}: {cause}"))?;
        if wakes == Wakes::Needless {
            let before = actions.len();
            gate.handle(at, Event::Wake, &mut actions);
            must(actions.len() == before, || format!("a wake after {event:?} says {actions:?}"))?;
        }
        said.extend(actions);
    }
    Ok(said)
}

/// Tells the gate and the model the same, and keeps the books of the gate.
fn compare(spec: &GateSpec, steps: &[(u64, Step)]) -> Result<(), String> {
    let mut gate = Gate::new(spec).map_err(|error| error.to_string())?;
    let mut model = Model::new(spec);
    let mut books = Books::new(spec);
    for (at, event) in books.unfold(steps) {
        let Some(event) = books.resolve(at, event) else { continue };
        let mut actions = Vec::new();
        gate.handle(at, event, &mut actions);
        let expected = model.handle(at, event);
        must(actions == expected, || {
            format!("at {at} {event:?}: the gate says {actions:?}, the model {expected:?}")
        })?;
        books.enter(at, event, &actions)?;
        books.compare(&gate, at).map_err(|cause| format!("after {event:?} at {at}: {cause}"))?;
    }
    Ok(())
}

/// Knowledge of a gate from its events and answers alone.
struct Books {
    servers: Vec<(u32, bool)>,
    shared: bool,
    /// True if a job may wait for a server that is down while others are up.
    waits_for_its_own: bool,
    paused: bool,
    room: u64,
    wait_max: Option<Duration>,
    unreachable_max: Option<Duration>,
    /// Since when no server is up, or for how long jobs may wait since then.
    all_down: Option<Time>,
    last: u64,
    waiting: BTreeMap<JobId, Option<Time>>,
    arrivals: BTreeMap<JobId, Time>,
    held: BTreeMap<Slot, JobId>,
    arrived: u64,
    /// Started, refused or reneged.
    settled: u64,
}

impl Books {
    fn new(spec: &GateSpec) -> Books {
        Books {
            servers: spec.servers.iter().map(|server| (server.slots, true)).collect(),
            shared: spec.queues == Queues::Shared,
            waits_for_its_own: matches!(spec.router, RouterSpec::ByKey { down: KeyDown::Wait, .. }),
            paused: false,
            room: spec.room.unwrap_or(u64::MAX),
            wait_max: spec.wait_max,
            unreachable_max: spec.unreachable_max,
            all_down: None,
            last: 0,
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            held: BTreeMap::new(),
            arrived: 0,
            settled: 0,
        }
    }

    /// The moments of the steps.
    fn unfold(&self, steps: &[(u64, Step)]) -> Vec<(Time, Step)> {
        let mut now = 0;
        let moment = |&(span, step): &(u64, Step)| {
            now += span;
            (Time::from_nanos(now), step)
        };
        steps.iter().map(moment).collect()
    }

    /// The event of a step; `None` if there is nothing to depart.
    fn resolve(&mut self, now: Time, step: Step) -> Option<Event> {
        Some(match step {
            Step::Arrive { priority, patience, about: (class, key, size) } => {
                self.last += 2;
                let deadline = patience.map(|nanos| now + Duration::from_nanos(nanos));
                let job = Job::new(JobId(self.last));
                Event::Arrive(Job { priority, deadline, class, key, size, ..job })
            }
            Step::Depart(nth) => {
                let nth = nth % self.held.len().max(1);
                Event::Depart(*self.held.keys().nth(nth)?)
            }
            Step::Renege(ago) => Event::Renege(JobId(self.last.saturating_sub(ago))),
            Step::Resize { server, slots } => Event::Resize { server, slots },
            Step::Occupy(slot) if self.held.contains_key(&slot) => return None,
            Step::Occupy(slot) => Event::Occupy(slot),
            Step::Tell(event) => event,
        })
    }

    fn enter(&mut self, now: Time, event: Event, actions: &[Action]) -> Result<(), String> {
        let mut arrived = None;
        match event {
            Event::Arrive(job) => {
                let latest = self.wait_max.map(|span| now + span);
                let deadline = [job.deadline, latest].into_iter().flatten().min();
                self.waiting.insert(job.id, deadline);
                self.arrivals.insert(job.id, now);
                self.arrived += 1;
                arrived = Some(job.id);
            }
            Event::Depart(slot) => {
                self.held.remove(&slot);
            }
            Event::Resize { server, slots } => self.servers[server as usize].0 = slots,
            Event::Up(server) => {
                self.servers[server as usize].1 = true;
                self.all_down = None;
            }
            Event::Down(server) => {
                self.servers[server as usize].1 = false;
                if self.all_down.is_none() && !self.servers.iter().any(|(_, up)| *up) {
                    self.all_down = Some(now);
                }
            }
            Event::UnreachableMax(span) => {
                self.unreachable_max = span;
                self.all_down = self.all_down.map(|_| now);
            }
            Event::Pause => self.paused = true,
            Event::Resume => self.paused = false,
            Event::WaitMax(span) => self.wait_max = span,
            Event::Room(room) => self.room = room.unwrap_or(u64::MAX),
            Event::Occupy(slot) => {
                self.held.insert(slot, JobId(0));
            }
            Event::Renege(_) | Event::Wake | Event::Report { .. } | Event::Role { .. } => {}
        }
        for action in actions {
            self.act(now, action)?;
        }
        if let Event::Renege(id) = event
            && self.waiting.remove(&id).is_some()
        {
            self.settled += 1;
        }
        let is_new = arrived.is_some_and(|id| self.waiting.contains_key(&id));
        must(!is_new || self.waiting.len() as u64 <= self.room, || "no room".into())
    }

    fn act(&mut self, now: Time, action: &Action) -> Result<(), String> {
        self.settled += 1;
        let (Action::Start { job, .. } | Action::Refuse { job, .. }) = action;
        let deadline = self.waiting.remove(job).ok_or(format!("{action:?}: it does not wait"))?;
        let Action::Start { slot, .. } = *action else { return Ok(()) };
        must(!self.paused, || format!("{action:?} while paused"))?;
        must(deadline.is_none_or(|deadline| deadline >= now), || format!("{action:?} too late"))?;
        let (slots, up) = self.servers[slot.server as usize];
        must(up, || format!("{action:?} at a server that is down"))?;
        must(slot.index < slots, || format!("{action:?}: there is no such slot"))?;
        must(self.held.insert(slot, *job).is_none(), || format!("{action:?}: it is held"))?;
        must(self.busy(slot.server) <= slots as usize, || format!("{action:?} above {slots} slots"))
    }

    fn busy(&self, server: u32) -> usize {
        self.held.keys().filter(|slot| slot.server == server).count()
    }

    /// Compares the gate's own account with that of the books, and sees that nobody waits beside a
    /// free slot.
    fn compare(&self, gate: &Gate, now: Time) -> Result<(), String> {
        let waiting = self.waiting.len() as u64;
        must(self.arrived == self.settled + waiting, || "a job is lost or counted twice".into())?;
        must(gate.waiting() == waiting, || format!("waiting: {} for {waiting}", gate.waiting()))?;
        must(gate.busy() as usize == self.held.len(), || format!("busy: {}", gate.busy()))?;
        let slots: u32 = self.servers.iter().map(|(slots, _)| slots).sum();
        must(gate.slots() == slots, || format!("slots: {} for {slots}", gate.slots()))?;
        let stranded = self.all_down.zip(self.unreachable_max).and_then(|(since, span)| {
            self.waiting.keys().map(|id| self.arrivals[id].max(since) + span).min()
        });
        let deadline = self.waiting.values().flatten().min().copied();
        let wakeup = [stranded, deadline].into_iter().flatten().min();
        must(gate.next_wakeup() == wakeup, || format!("wake-up: {:?}", gate.next_wakeup()))?;
        must(wakeup.is_none_or(|wakeup| wakeup > now), || format!("a wake-up at {wakeup:?}"))?;
        for (at, (view, &(slots, up))) in gate.servers().iter().zip(&self.servers).enumerate() {
            let busy = self.busy(at as u32) as u32;
            let free = up && busy < slots;
            let usable = if self.shared { free } else { up };
            let is_true = (view.busy, view.slots, view.usable) == (busy, slots, usable);
            must(is_true, || format!("server {at} says {view:?}"))?;
            let work = if self.shared { waiting } else { view.waiting };
            must(self.paused || !free || work == 0, || format!("work beside free server {at}"))?;
            must(up || view.waiting == 0, || format!("jobs wait for server {at}, which is down"))?;
        }
        let routed: u64 = gate.servers().iter().map(|view| view.waiting).sum();
        let any_up = self.servers.iter().any(|&(_, up)| up);
        let expected = if self.shared || !any_up { 0 } else { waiting };
        let holds = routed == expected || (self.waits_for_its_own && routed < expected);
        must(holds, || format!("{routed} of {expected} wait for a server"))
    }
}

fn must(holds: bool, cause: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(cause()) }
}

/// Runs a check; when it fails, leaves out steps as long as it still fails, and tells.
fn check_or_shrink(
    seed: u64,
    spec: &GateSpec,
    mut steps: Steps,
    check: impl Fn(&GateSpec, &[(u64, Step)]) -> Result<(), String>,
) {
    let fails = |steps: &[(u64, Step)]| {
        let run = catch_unwind(AssertUnwindSafe(|| check(spec, steps)));
        run.unwrap_or_else(|_| Err("the gate stopped, see above".into())).err()
    };
    let Some(mut cause) = fails(&steps) else { return };
    let mut chunk = steps.len().div_ceil(2);
    loop {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            let gone = fewer.drain(at..(at + chunk).min(steps.len()));
            // Those who stay, stay at their moments.
            let span: u64 = gone.map(|(span, _)| span).sum();
            if let Some(next) = fewer.get_mut(at) {
                next.0 += span;
            }
            match fails(&fewer) {
                Some(other) => (steps, cause) = (fewer, other),
                None => at += chunk,
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    panic!("seed {seed}: {cause}\n{spec:?}\n{} steps: {steps:#?}", steps.len());
}

/// The minimiser itself: a check that only two of the steps can fail must be left with those two.
#[test]
fn failures_are_shrunk() {
    let spec = GateSpec::fifo(1);
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(3);
    let steps = draw_steps(&mut chance, &spec, 250);
    let shrunk = catch_unwind(AssertUnwindSafe(|| {
        check_or_shrink(3, &spec, steps, |_, steps| {
            let arrivals = steps.iter().filter(|(_, s)| matches!(s, Step::Arrive { .. })).count();
            must(arrivals < 2, || "two arrivals".into())
        });
    }));
    let text = shrunk.expect_err("it fails").downcast::<String>().expect("panics carry text");
    assert!(text.contains("seed 3: two arrivals") && text.contains("2 steps"), "{text}");
}

/// With a reserve or roles: nobody has two slots, no slot two jobs, no server more jobs than it has
/// slots and reserve; who writes goes to no replica, and a wake-up is always in the future.
#[test]
fn reserves_and_roles_keep_their_promises() {
    for seed in 0..400 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut spec = draw_any_spec(&mut chance);
        let mut roles = vec![Role::Primary; spec.servers.len()];
        if spec.queues == Queues::Shared {
            let after = Duration::from_nanos(pick(&mut chance, &[0, 3, 20]));
            spec.reserve = Some(Reserve { slots: pick(&mut chance, &[1, 2]), after });
        } else {
            let draw = |_| pick(&mut chance, &[Role::Primary, Role::Replica]);
            roles = roles.into_iter().map(draw).collect();
            spec.roles = roles.clone();
        }
        let reserve = spec.reserve.map_or(0, |reserve| reserve.slots);
        let mut slots: Vec<u32> = spec.servers.iter().map(|server| server.slots).collect();
        // What was started before a resize to fewer ends in peace.
        let mut most = slots.clone();
        let mut gate = Gate::new(&spec).unwrap();
        let (mut waiting, mut held) = (BTreeMap::new(), BTreeMap::new());
        let mut now = 0;
        for step in 1..600 {
            now += below(&mut chance, 5);
            let wakeup = gate.next_wakeup().map(Time::as_nanos);
            now = wakeup.map_or(now, |wakeup| now.min(wakeup));
            let server = below(&mut chance, slots.len() as u64) as u32;
            let event = match below(&mut chance, 12) {
                _ if wakeup == Some(now) => Event::Wake,
                0..=4 => {
                    let access = pick(&mut chance, &[Access::Write, Access::Read]);
                    waiting.insert(JobId(step), access);
                    Event::Arrive(Job { access, ..Job::new(JobId(step)) })
                }
                5..=8 => held.pop_first().map_or(Event::Wake, |(slot, _)| Event::Depart(slot)),
                9 => pick(&mut chance, &[Event::Down(server), Event::Up(server), Event::Resume]),
                10 if spec.queues == Queues::PerServer => {
                    let role = pick(&mut chance, &[Role::Primary, Role::Replica]);
                    roles[server as usize] = role;
                    Event::Role { server, role }
                }
                _ => {
                    slots[server as usize] = pick(&mut chance, &[0, 1, 2, 3]);
                    let most = &mut most[server as usize];
                    *most = slots[server as usize].max(*most);
                    Event::Resize { server, slots: slots[server as usize] }
                }
            };
            let mut actions = Vec::new();
            gate.handle(Time::from_nanos(now), event, &mut actions);
            for action in actions {
                let (Action::Start { job, .. } | Action::Refuse { job, .. }) = action;
                let access = waiting.remove(&job).expect("it waits");
                let Action::Start { slot, .. } = action else { continue };
                let at = slot.server as usize;
                assert!(held.insert(slot, job).is_none(), "seed {seed}: {slot:?} is held");
                let busy = held.keys().filter(|held| held.server == slot.server).count() as u32;
                assert!(busy <= slots[at] + reserve, "seed {seed}: {busy} at server {at}");
                assert!(slot.index < most[at] + reserve, "seed {seed}: {slot:?}");
                let fits = access == Access::Read || roles[at] == Role::Primary;
                assert!(fits, "seed {seed}: {job:?} writes at a replica");
            }
            let next = gate.next_wakeup().map(Time::as_nanos);
            assert!(next.is_none_or(|next| next > now), "seed {seed}: {next:?} at {now}");
            assert_eq!(gate.waiting(), waiting.len() as u64, "seed {seed}");
        }
    }
}
