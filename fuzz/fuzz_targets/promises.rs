//! Tells a gate any sequence of events that keeps the protocol: what the fuzzer feeds, and what the
//! ordinary tests feed from chance.
//!
//! Input: a specification, then an event after the other, each a few bytes; see `Script`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate::{
    Access, Action, AtZero, CohortSpec, DisciplineSpec, Event, Gate, GateSpec, Job, JobId, KeyDown,
    KeyMap, KeyOf, Length, LoadInformation, Queues, Report, Role, RouterSpec, ServerSpec, Share,
    Slot, Ties, Time, WeightedOrder, Window,
};
use measure::Recording;

/// Plays an input.
///
/// # Panics
/// If the gate does not keep its promises, or told the same again says something else.
pub(crate) fn run(input: &[u8]) {
    let mut script = Script(input);
    let spec = script.spec();
    let mut gate = Gate::new(&spec).expect("the script names 1 to 4 servers of few slots");
    let mut books = Books::new(&spec);
    let mut recording = Recording::new(spec, input.len());
    let mut actions = Vec::new();
    while let Some(event) = script.event(&mut books) {
        actions.clear();
        gate.handle(books.now, event, &mut actions);
        recording.push(books.now, event, &actions);
        books.enter(event, &actions);
        books.compare(&gate);
        // What is not due yet is not done.
        actions.clear();
        gate.handle(books.now, Event::Wake, &mut actions);
        assert_eq!(actions, [], "a needless wake after {event:?}");
    }
    assert!(!recording.truncated);
    if let Err(divergence) = recording.replay() {
        panic!("{divergence}");
    }
    books.close(&recording);
}

/// The input as a script. What it names is what it can name at that moment, so that almost every
/// byte means something.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[usize::from(self.byte().unwrap_or(0)) % among.len()].clone()
    }

    fn spec(&mut self) -> GateSpec {
        let slots = self.byte().unwrap_or(0);
        let servers = 1 + usize::from(self.byte().unwrap_or(0) % 4);
        let queues = self.pick(&[Queues::Shared, Queues::PerServer]);
        GateSpec {
            servers: (0..servers)
                .map(|at| ServerSpec { slots: u32::from(slots >> (2 * at)) % 4 })
                .collect(),
            queues,
            router: self.router(servers, queues),
            load_information: self.load_information(),
            discipline: self.discipline(),
            room: self.pick(&[None, Some(0), Some(1), Some(5)]),
            wait_max: self.span(),
            unreachable_max: self.span(),
            early_rejection: None,
            reserve: None,
            roles: Vec::new(),
            seed: u64::from(slots),
        }
    }

    fn router(&mut self, servers: usize, queues: Queues) -> RouterSpec {
        let length = self.pick(&[Length::Waiting, Length::InSystem]);
        let ties = self.pick(&[Ties::Lowest, Ties::Rotate, Ties::Random]);
        let window = self.pick(&[Window::SinceStart, Window::Recent(Duration::from_nanos(20))]);
        let at_zero = self.pick(&[AtZero::Best, AtZero::PlusOne, AtZero::Floor(0.5)]);
        let weights: Vec<u32> = (1..=servers as u32).collect();
        let order = self.pick(&[WeightedOrder::Rotate, WeightedOrder::Random]);
        let mut all = vec![
            RouterSpec::RoundRobin,
            RouterSpec::Random,
            RouterSpec::ShortestQueue { length, ties },
            RouterSpec::LowestUtilisation { window, ties },
            RouterSpec::Ev { queue: 1.0, utilisation: 1.0, length, at_zero, window, ties },
            RouterSpec::PowerOfD { d: 2, length, ties },
            RouterSpec::JoinIdleQueue { ties },
            RouterSpec::LeastWork { speed: self.pick(&[None, Some(1_000_000_000)]), ties },
            RouterSpec::Weighted { weights, order },
        ];
        if queues == Queues::PerServer {
            let bounds = (1..servers as u64).collect();
            all.push(RouterSpec::ByKey {
                of: self.pick(&[KeyOf::Key, KeyOf::Class]),
                map: self.pick(&[KeyMap::Hash, KeyMap::Range { bounds }]),
                down: KeyDown::Next,
            });
        }
        self.pick(&all)
    }

    fn load_information(&mut self) -> LoadInformation {
        let span = Duration::from_nanos(7);
        let load_information = [
            LoadInformation::Fresh,
            LoadInformation::Delayed(span),
            LoadInformation::Refreshed(span),
            LoadInformation::Reported,
        ];
        self.pick(&load_information)
    }

    fn discipline(&mut self) -> DisciplineSpec {
        let cached_max = self.pick(&[None, Some(2)]);
        let cohort = CohortSpec { capacity: 2, run_max: 2, cached_max, levels: 2 };
        self.pick(&[
            DisciplineSpec::Fifo,
            DisciplineSpec::Lifo,
            DisciplineSpec::Priority,
            DisciplineSpec::PriorityAgeing { interval: Duration::from_nanos(5) },
            DisciplineSpec::ShortestJob,
            DisciplineSpec::EarliestDeadline,
            DisciplineSpec::DeficitRoundRobin { quantum: 2, weights: vec![1, 3] },
            DisciplineSpec::Cohort(cohort),
        ])
    }

    /// None, none at all, short beside the gaps between events, or longer than any clock runs.
    fn span(&mut self) -> Option<Duration> {
        let spans = [None, Some(0), Some(3), Some(9), Some(30), Some(u64::MAX)];
        self.pick(&spans).map(Duration::from_nanos)
    }

    /// The next event, at the books' clock; `None` at the end of the input.
    fn event(&mut self, books: &mut Books) -> Option<Event> {
        let byte = self.byte()?;
        let gap = [0, 1, 4, 11][usize::from(byte >> 6)];
        books.now = books.now + Duration::from_nanos(gap);
        let detail = self.byte()?;
        let server = u32::from(detail) % books.servers.len() as u32;
        Some(match byte & 31 {
            0..=10 => {
                books.last += 1 + u64::from(detail & 1);
                let mut job = Job::new(JobId(books.last));
                job.priority = detail >> 5;
                job.class = u32::from(detail & 3);
                job.key = u64::from(detail >> 2 & 7);
                job.size = u64::from(detail >> 4);
                job.deadline = self.span().map(|span| books.now + span);
                job.access = self.pick(&[Access::Write, Access::Read]);
                Event::Arrive(job)
            }
            11..=20 if books.busy_all() > 0 => {
                let nth = usize::from(detail) % books.busy_all();
                let mut all = books.held.keys().chain(&books.before);
                Event::Depart(*all.nth(nth).expect("one of those there are"))
            }
            21..=23 => Event::Renege(JobId(books.last.saturating_sub(u64::from(detail % 16)))),
            24 if detail & 8 == 0 => Event::Resize { server, slots: u32::from(detail >> 4) % 5 },
            24 => match (Slot { server, index: u32::from(detail >> 4) % 6 }) {
                slot if books.is_held(slot) => Event::Wake,
                slot => Event::Occupy(slot),
            },
            25 => Event::Down(server),
            26 => Event::Up(server),
            27 => Event::Pause,
            28 => Event::Resume,
            29 if detail & 12 == 0 => Event::WaitMax(self.span()),
            29 if detail & 12 == 4 => Event::UnreachableMax(self.span()),
            29 => Event::Room(self.pick(&[None, Some(0), Some(2), Some(4)])),
            30 => {
                let waiting = u64::from(detail >> 4);
                let (busy, utilisation) = (u32::from(detail & 3), Share::new(0.5));
                Event::Report {
                    server,
                    report: Report { waiting, busy, utilisation, work: waiting },
                }
            }
            31 if !books.shared => {
                Event::Role { server, role: self.pick(&[Role::Primary, Role::Replica]) }
            }
            _ => Event::Wake,
        })
    }
}

/// What is known of a gate from its events and answers alone.
struct Books {
    now: Time,
    last: u64,
    /// Slots, and whether it is up.
    servers: Vec<(u32, bool)>,
    shared: bool,
    paused: bool,
    room: Option<u64>,
    wait_max: Option<Duration>,
    waiting: BTreeMap<JobId, Option<Time>>,
    held: BTreeMap<Slot, JobId>,
    /// Slots that jobs hold which were started before there was the gate.
    before: BTreeSet<Slot>,
    arrived: BTreeSet<JobId>,
    started: u64,
    refused: u64,
    reneged: u64,
}

impl Books {
    fn new(spec: &GateSpec) -> Books {
        Books {
            now: Time::ZERO,
            last: 0,
            servers: spec.servers.iter().map(|server| (server.slots, true)).collect(),
            shared: spec.queues == Queues::Shared,
            paused: false,
            room: spec.room,
            wait_max: spec.wait_max,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            before: BTreeSet::new(),
            arrived: BTreeSet::new(),
            started: 0,
            refused: 0,
            reneged: 0,
        }
    }

    fn enter(&mut self, event: Event, actions: &[Action]) {
        match event {
            Event::Arrive(job) => {
                let latest = self.wait_max.map(|span| self.now + span);
                let deadline = [job.deadline, latest].into_iter().flatten().min();
                self.waiting.insert(job.id, deadline);
                self.arrived.insert(job.id);
            }
            Event::Depart(slot) => {
                self.held.remove(&slot);
                self.before.remove(&slot);
            }
            Event::Occupy(slot) => {
                self.before.insert(slot);
            }
            Event::Room(room) => self.room = room,
            Event::Resize { server, slots } => self.servers[server as usize].0 = slots,
            Event::Up(server) => self.servers[server as usize].1 = true,
            Event::Down(server) => self.servers[server as usize].1 = false,
            Event::Pause => self.paused = true,
            Event::Resume => self.paused = false,
            Event::WaitMax(span) => self.wait_max = span,
            Event::UnreachableMax(_) => {}
            Event::Renege(_) | Event::Wake | Event::Report { .. } | Event::Role { .. } => {}
        }
        for action in actions {
            self.act(action);
        }
        if let Event::Renege(id) = event {
            self.reneged += u64::from(self.waiting.remove(&id).is_some());
        }
        if let Event::Arrive(job) = event
            && self.waiting.contains_key(&job.id)
        {
            let waiting = self.waiting.len() as u64;
            assert!(self.room.is_none_or(|room| waiting <= room), "no room for {:?}", job.id);
        }
    }

    fn act(&mut self, action: &Action) {
        let (Action::Start { job, .. } | Action::Refuse { job, .. }) = action;
        let deadline = self.waiting.remove(job).expect("only those who wait are acted on");
        let Action::Start { slot, .. } = *action else {
            self.refused += 1;
            return;
        };
        self.started += 1;
        assert!(!self.paused, "{action:?} while paused");
        assert!(deadline.is_none_or(|deadline| deadline >= self.now), "{action:?} too late");
        let (slots, up) = self.servers[slot.server as usize];
        assert!(up && slot.index < slots, "{action:?} at a slot that is not there");
        assert!(!self.is_held(slot), "{action:?}: it is held");
        self.held.insert(slot, *job);
        assert!(self.busy(slot.server) <= slots, "{action:?} above {slots} slots");
    }

    fn is_held(&self, slot: Slot) -> bool {
        self.held.contains_key(&slot) || self.before.contains(&slot)
    }

    fn busy(&self, server: u32) -> u32 {
        self.held.keys().chain(&self.before).filter(|slot| slot.server == server).count() as u32
    }

    fn busy_all(&self) -> usize {
        self.held.len() + self.before.len()
    }

    /// The gate's own account is that of the books, and nobody waits beside a free slot.
    fn compare(&self, gate: &Gate) {
        let waiting = self.waiting.len() as u64;
        assert_eq!(self.arrived.len() as u64, self.started + self.refused + self.reneged + waiting);
        assert_eq!(gate.waiting(), waiting);
        assert_eq!(gate.busy() as usize, self.busy_all());
        assert_eq!(gate.slots(), self.servers.iter().map(|(slots, _)| slots).sum::<u32>());
        let deadline = self.waiting.values().flatten().min().copied();
        let wakeup = gate.next_wakeup();
        if self.servers.iter().any(|(_, up)| *up) {
            assert_eq!(wakeup, deadline);
        } else {
            // While no server is up, jobs may be refused before their deadlines.
            let is_in_time =
                deadline.is_none_or(|deadline| wakeup.is_some_and(|at| at <= deadline));
            assert!(is_in_time, "{wakeup:?} for {deadline:?}");
        }
        assert!(wakeup.is_none_or(|wakeup| wakeup > self.now), "overdue: {wakeup:?}");
        for (at, (view, &(slots, up))) in gate.servers().iter().zip(&self.servers).enumerate() {
            assert_eq!((view.busy, view.slots), (self.busy(at as u32), slots));
            let work = if self.shared { waiting } else { view.waiting };
            assert!(self.paused || !up || view.busy >= slots || work == 0, "work beside {at}");
            assert!(up || view.waiting == 0, "jobs wait for {at}, which is down");
        }
    }

    /// The record's own account, which is kept by other code, is that of the books.
    fn close(&self, recording: &Recording) {
        let measures = recording.measures().expect("the script keeps the protocol");
        assert_eq!(measures.served.len() as u64, self.started - self.held.len() as u64);
        assert_eq!(measures.refused.values().sum::<u64>(), self.refused);
        assert_eq!(measures.reneged, self.reneged);
        assert_eq!(measures.unfinished as usize, self.waiting.len() + self.busy_all());
    }
}
