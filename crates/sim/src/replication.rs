//! One replication: the event loop that drives gates and stations in virtual time.

use std::collections::VecDeque;

use gate::{Action, Conduct, Controller, Gate, GateSpec, JobId, Slot, Time};
use measure::{GateAccount, Recording};
use rand::RngExt;
use workload::{Chance, Drawing, RecordedJob, stream};

use crate::cache::CacheState;
use crate::calendar::{Calendar, Entry};
use crate::network::{CUSTOMERS_MAX, GateNode, Load, Sizes};
use crate::program::{Program, recorded_jobs};
use crate::run::{Options, SimError};
use crate::station::{Changes, StationState};
use crate::tally::{ClassTally, GateTally};
use crate::warmup::Responses;

mod agenda;
mod clients;
mod gates;
mod route;
mod stations;

use agenda::AgendaState;
pub(crate) use agenda::Snapshot;

/// More steps than this for each customer without time going on are a loop that never ends.
const STANDSTILL_MAX: usize = 1_000;
/// The end of the virtual clock: spans fit an i64, which processors turn into a float in one
/// instruction.
const CLOCK_END: Time = Time::from_nanos(i64::MAX as u64);
/// No station, and no gate.
const NOWHERE: u32 = u32::MAX;

/// A running network.
#[derive(Debug)]
pub(crate) struct Replication<'a> {
    program: &'a Program,
    now: Time,
    /// When the counting began.
    since: Time,
    /// Steps since time last went on.
    steps_now: usize,
    /// Arrivals and completions of service so far.
    pub(crate) events: u64,
    calendar: Calendar,
    /// Everybody who is on the way or thinks; what is seldom asked is in `rare_states`, at the same
    /// index.
    customers: Vec<Customer>,
    rare_states: Vec<RareState>,
    /// More customers than this are a queue that grows without end.
    customers_max: usize,
    /// True if they became more.
    overflows: bool,
    /// Jobs that nobody waits for.
    detached: usize,
    free: Vec<u32>,
    stations: Vec<StationState>,
    gates: Vec<GateState>,
    pub(crate) caches: Vec<CacheState>,
    sources: Vec<Source>,
    /// One stream a class and station, so that a change elsewhere leaves its draws alone.
    demands: Vec<Chance>,
    /// Customers that may go on with their route at this moment.
    ready: VecDeque<u32>,
    actions: Vec<Action>,
    /// Stations with a place that has just become free, where stations block.
    vacated: Vec<u32>,
    /// Number of forks so far.
    forks: u32,
    pub(crate) classes: Vec<ClassTally>,
    completed: u64,
    /// At time zero, by customer, the place where it begins; nobody begins elsewhere than at its source when
    /// it is empty.
    initial_place: Vec<u32>,
    /// While the warm-up is looked for: every response time, in order of completion \[s\].
    pub(crate) responses: Option<Responses>,
    pub(crate) recording: Option<(usize, Recording)>,
    /// The account of gate 0, if one is kept.
    pub(crate) account: Option<Box<GateAccount>>,
    agenda: AgendaState,
}

#[derive(Debug)]
struct Customer {
    class: u32,
    /// The class that it began as.
    origin: u32,
    at: u32,
    /// The document, or the bin of the size.
    group: u32,
    /// The station where it is; nowhere while it thinks or waits at a gate.
    station: u32,
    /// Attempts of this request that have failed.
    failed: u32,
    /// When its present request began.
    requested: Time,
    /// When it arrived at the gate where it waits.
    gate_arrival: Time,
    size: f64,
    need: u64,
    held: Vec<Held>,
    role: Role,
}

/// The party that waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Its client.
    Request,
    /// The job that forked it.
    Branch { parent: u32, fork: u32 },
    /// Nobody.
    Detached,
}

/// State that few customers have.
#[derive(Clone, Debug)]
struct RareState {
    /// The gate where it waits, if its client may give up.
    waits: Option<(u32, JobId)>,
    /// When its patience ends; entries of the calendar for other moments are stale.
    patience_ends: Time,
    /// When its client gives up; entries for other moments are stale.
    times_out: Time,
    /// True if its client is gone, and gates know it.
    unwanted: bool,
    /// The station whose server it keeps, though it has been served there.
    keeps: u32,
    /// The fork at which it waits, 0 for none.
    fork: u32,
    /// Number of jobs that must still join.
    need: u32,
    /// Number of jobs on their way.
    out: u32,
    /// Demand by the trace \[s\].
    demand: f64,
    /// Its place in a trace that was recorded at a gate; nowhere otherwise.
    recorded: u32,
}

impl RareState {
    const NONE: RareState = RareState {
        waits: None,
        patience_ends: Time::MAX,
        times_out: Time::MAX,
        unwanted: false,
        keeps: NOWHERE,
        fork: 0,
        need: 0,
        out: 0,
        demand: 0.0,
        recorded: NOWHERE,
    };
}

#[derive(Clone, Copy, Debug)]
struct Held {
    gate: u32,
    slot: Slot,
    since: Time,
}

/// A gate and what the driver must keep beside it.
#[derive(Debug)]
struct GateState {
    gate: Gate,
    controller: Option<Box<Controller>>,
    visits: u64,
    armed: Option<Time>,
    /// The speed of each server; empty where all have speed 1.
    speeds: Vec<f64>,
    tally: GateTally,
}

/// Origin of the jobs of a class.
#[derive(Debug)]
struct Source {
    /// Stream of arrivals and think times.
    arrivals: Chance,
    /// Stream of documents and sizes.
    sizes: Chance,
    /// Stream of choices on the way.
    routing: Chance,
    /// Stream of patience, time-outs and pauses.
    client: Chance,
    drawing: Option<Drawing>,
    /// Jobs of its trace that have arrived, and the time of the last arrival \[s\].
    traced: u64,
    last_s: f64,
}

impl<'a> Replication<'a> {
    /// Replication `index` of a run, at time zero: nobody has arrived, closed populations are
    /// thinking, or on their way to where they begin. The first one makes the recording, if one is asked for.
    pub(crate) fn new(program: &'a Program, options: &Options, index: u64) -> Replication<'a> {
        let seed = options.seed;
        // Streams: a block of 2^32 for each replication, so that no two draw the same numbers.
        let chance = |block: u64, n: usize| stream(seed, (index << 32) + (block << 28) + n as u64);
        let sources = program.classes.iter().enumerate().map(|(at, class)| Source {
            arrivals: chance(0, at),
            sizes: chance(1, at),
            routing: chance(2, at),
            client: chance(5, at),
            traced: 0,
            last_s: 0.0,
            drawing: match &class.sizes {
                Sizes::Documents(set, draw) => Some(Drawing::new(set, *draw)),
                Sizes::None | Sizes::Drawn(_) => None,
            },
        });
        let specs: Vec<_> = (program.gates.iter().enumerate())
            .map(|(at, node)| {
                let own = if program.is_recorded { 0 } else { chance(3, at).random::<u64>() };
                let seed = node.spec.seed ^ own;
                let mut spec = GateSpec { seed, ..node.spec.clone() };
                if let Some(controller) = controller(node)
                    && controller.conduct() == Conduct::Acts
                {
                    spec.servers[controller.server() as usize].slots = controller.slots();
                }
                spec
            })
            .collect();
        let mut replication = Replication {
            program,
            now: Time::ZERO,
            since: Time::ZERO,
            steps_now: 0,
            events: 0,
            calendar: Calendar::default(),
            customers: Vec::new(),
            rare_states: Vec::new(),
            overflows: false,
            detached: 0,
            vacated: Vec::new(),
            forks: 0,
            agenda: AgendaState::new(program),
            caches: (program.caches.iter().enumerate())
                .map(|(at, cache)| CacheState::new(cache, chance(6, at)))
                .collect(),
            customers_max: (program.population + options.jobs_max as usize).min(CUSTOMERS_MAX),
            free: Vec::new(),
            stations: stations(program),
            gates: (specs.iter().zip(&program.gates))
                .map(|(spec, node)| GateState::new(spec, node))
                .collect(),
            sources: sources.collect(),
            demands: (0..program.stations.len() * program.classes.len())
                .map(|at| chance(4, at))
                .collect(),
            ready: VecDeque::new(),
            actions: Vec::new(),
            classes: program.classes.iter().map(ClassTally::new).collect(),
            completed: 0,
            initial_place: Vec::new(),
            responses: None,
            recording: (options.record.filter(|_| index == 0))
                .map(|(at, bound)| (at, Recording::new(specs[at].clone(), bound))),
            account: None,
        };
        replication.open();
        replication.schedule_agenda();
        replication
    }

    fn open(&mut self) {
        for class in 0..self.program.classes.len() {
            match &self.program.classes[class].load {
                Load::Open(_) | Load::Varying(_) | Load::Trace(_) => {
                    self.expect_arrival(class as u32);
                }
                Load::Closed { population, .. } => {
                    self.open_closed(class, *population);
                }
                Load::Within => {}
            }
        }
    }

    /// Clients begin about where they are in the long run, where that is known; the others think.
    fn open_closed(&mut self, class: usize, population: u32) {
        let initial = self.program.initial_places.get(class).map_or(&[][..], |initial| initial);
        let places =
            initial.iter().flat_map(|&(place, jobs)| std::iter::repeat_n(place, jobs as usize));
        let places = places.map(Some).chain(std::iter::repeat(None));
        for place in places.take(population as usize) {
            let customer = self.create(class as u32, Role::Request);
            self.initial_place.push(place.unwrap_or(NOWHERE));
            match place {
                Some(_) => self.begin_request(customer),
                None => self.think(customer),
            }
        }
    }

    /// True if a customer passes a place at time zero on the way to where it begins.
    #[cold]
    fn passes(&mut self, customer: u32, place: u32) -> bool {
        match self.initial_place.get_mut(customer as usize) {
            Some(initial) if *initial == place => *initial = NOWHERE,
            Some(initial) => return *initial != NOWHERE,
            None => {}
        }
        false
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
            if !self.step()? {
                return Err(SimError::Deadlock { at: self.now, place: self.fullest() });
            }
        }
        Ok(())
    }

    /// Does the next thing; false if there is none.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> Result<bool, SimError> {
        self.steps_now += 1;
        if self.steps_now > STANDSTILL_MAX * (STANDSTILL_MAX + self.customers.len()) {
            return Err(SimError::Standstill { at: self.now });
        }
        if self.overflows {
            return Err(SimError::Unbounded { at: self.now, place: self.fullest() });
        }
        // Before the calendar: who can go on does so at this moment, and the next entry may be later.
        if let Some(customer) = self.ready.pop_front() {
            self.advance(customer);
            return Ok(true);
        }
        let Some((at, entry)) = self.calendar.next() else { return Ok(false) };
        if at >= CLOCK_END {
            return Err(SimError::ClockEnds);
        }
        if at > self.now {
            self.steps_now = 0;
            self.now = at;
            self.initial_place.clear();
        } else {
            assert!(at == self.now, "time runs backwards: {at} after {}", self.now);
        }
        match entry {
            Entry::Customer(customer) => self.customer_due(customer),
            Entry::Arrival(class) => self.arrival(class),
            Entry::Station(station) => self.station_due(station),
            Entry::Gate(gate) => self.gate_due(gate),
            Entry::Patience(customer) => self.patience_ends(customer),
            Entry::TimeOut(customer) => self.time_out(customer),
            Entry::IntervalEnd => self.end_interval()?,
            Entry::Change(change) => self.change(change as usize),
        }
        Ok(true)
    }

    /// Forgets what was counted so far, but not where everybody is.
    pub(crate) fn reset(&mut self) {
        let now = self.now;
        self.since = now;
        self.stations.iter_mut().for_each(|state| state.reset(now));
        self.gates.iter_mut().for_each(|state| state.tally.reset(now));
        self.classes.iter_mut().for_each(ClassTally::reset);
        self.caches.iter_mut().for_each(CacheState::reset);
    }

    /// Begins to count growth from here on: what is still on its way was there before.
    pub(crate) fn mark(&mut self) {
        self.stations.iter_mut().for_each(StationState::mark);
        self.gates.iter_mut().for_each(|state| state.tally.mark());
        self.classes.iter_mut().for_each(ClassTally::mark);
    }

    /// The time counted \[s\], with all integrals brought up to now.
    pub(crate) fn accumulate(&mut self) -> f64 {
        let now = self.now;
        self.stations.iter_mut().for_each(|state| state.accumulate(now));
        self.gates.iter_mut().for_each(|state| state.tally.accumulate(now));
        self.assert_conserved();
        now.since(self.since).as_secs_f64()
    }

    /// Nobody is at two places, and nobody at a place is gone: at all stations and before all gates
    /// there are no more jobs than in the network.
    fn assert_conserved(&self) {
        let served: u64 = self.stations.iter().map(|state| u64::from(state.jobs)).sum();
        let waiting: u64 = self.gates.iter().map(|state| u64::from(state.tally.waiting)).sum();
        let inside = self.in_flight() as u64;
        assert!(served + waiting <= inside, "{served} served and {waiting} waiting of {inside}");
    }

    pub(crate) fn stations(&self) -> &[StationState] {
        &self.stations
    }

    pub(crate) fn gate_tallies(&self) -> impl Iterator<Item = &GateTally> {
        self.gates.iter().map(|state| &state.tally)
    }

    /// True if jobs that nobody waits for pile up: more than a few, and more than a small share of
    /// the requests `counted`. No response time would tell.
    pub(crate) fn piles_up(&self, counted: u64) -> bool {
        self.detached > 100 && self.detached as u64 > counted / 50
    }

    /// Customers in the network, those who think included.
    pub(crate) fn in_flight(&self) -> usize {
        self.customers.len() - self.free.len()
    }

    /// Jobs that have arrived by traces.
    pub(crate) fn arrived(&self) -> u64 {
        self.sources.iter().map(|source| source.traced).sum()
    }

    /// Virtual time since the start \[s\].
    pub(crate) fn passed_s(&self) -> f64 {
        self.now.since(Time::ZERO).as_secs_f64()
    }

    /// The place where most jobs are, for the message of an error.
    fn fullest(&self) -> String {
        let gates = self.gates.iter().zip(&self.program.gates);
        let gates = gates.map(|(state, node)| (state.tally.waiting, "gate", &node.name));
        let stations = self.stations.iter().zip(&self.program.stations);
        let stations = stations.map(|(state, station)| (state.jobs, "station", &station.name));
        let fullest = gates.chain(stations).max_by_key(|(jobs, ..)| *jobs);
        fullest.map_or_else(String::new, |(_, kind, name)| format!("{kind} `{name}`"))
    }

    /// The recorded job that a customer is, if it is one.
    #[inline]
    fn recorded(&self, customer: u32) -> Option<&'a RecordedJob> {
        let program = self.program;
        if !program.is_recorded {
            return None;
        }
        let class = self.customers[customer as usize].origin as usize;
        let nth = self.rare_states[customer as usize].recorded;
        recorded_jobs(&program.classes[class]).get(nth as usize)
    }

    /// A place in the table for a job of this class.
    #[inline]
    fn create(&mut self, class: u32, role: Role) -> u32 {
        let customer = Customer {
            class,
            origin: class,
            at: 0,
            group: 0,
            station: NOWHERE,
            failed: 0,
            requested: self.now,
            gate_arrival: self.now,
            size: 0.0,
            need: 0,
            held: Vec::new(),
            role,
        };
        match self.free.pop() {
            Some(at) => {
                // What it holds is empty again, but its memory is worth keeping.
                let held = std::mem::take(&mut self.customers[at as usize].held);
                self.customers[at as usize] = Customer { held, ..customer };
                at
            }
            None => {
                // Only noted: the next step ends the run, from where an error can be returned.
                self.overflows |= self.customers.len() >= self.customers_max;
                self.customers.push(customer);
                self.rare_states.push(RareState::NONE);
                self.customers.len() as u32 - 1
            }
        }
    }

    /// Gives a job's place in the table back.
    #[inline]
    fn dispose(&mut self, customer: u32) {
        if self.program.has_rare_states {
            self.rare_states[customer as usize] = RareState::NONE;
        }
        debug_assert!(self.customers[customer as usize].held.is_empty(), "it leaves with a slot");
        self.detached -= usize::from(self.customers[customer as usize].role == Role::Detached);
        self.free.push(customer);
    }
}

impl GateState {
    fn new(spec: &GateSpec, node: &GateNode) -> GateState {
        let gate = Gate::new(spec).expect("the program was checked");
        let (speeds, tally) = (node.speeds.clone(), GateTally::new());
        let controller = controller(node).map(Box::new);
        GateState { gate, controller, visits: 0, armed: None, speeds, tally }
    }
}

fn controller(node: &GateNode) -> Option<Controller> {
    node.control.as_ref().map(|spec| Controller::new(spec).expect("the program was checked"))
}

fn stations(program: &Program) -> Vec<StationState> {
    let state = |(at, station)| {
        let changes = program.agenda.as_ref().is_some_and(|agenda| agenda.changes_speed(at));
        StationState::new(station, if changes { Changes::Speed } else { Changes::Nothing })
    };
    program.stations.iter().enumerate().map(state).collect()
}

/// To the nearest nanosecond; beyond the end of the clock is its end.
#[inline]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9 + 0.5) as i64 as u64
}
