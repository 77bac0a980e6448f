//! The load of a recorded gate, taken to another one: the same jobs at the same moments, each holding its
//! slot for as long as it did, and all that the gate was told from outside. It answers what would have been.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use gate::{Action, Event, GateSpec, Job, JobId, Queues, Role, Slot, Time};
use measure::{GateAccount, Step};
use rand::RngExt;
use workload::{Chance, RecordedJob, RecordedOrder, Trace, stream};

use crate::network::{
    Agenda, CUSTOMERS_MAX, Change, Changed, Class, Demand, GateNode, Load, Network, Station,
    StationKind, Step as Way,
};
use crate::program::Program;
use crate::replication::Replication;
use crate::run::{Options, SimError};

/// The load of a recorded gate.
#[derive(Clone, Debug)]
pub struct RecordedLoad {
    spec: GateSpec,
    jobs: Vec<RecordedJob>,
    /// Of each job: true if its deadline is that of the gate's longest wait.
    bounded: Vec<bool>,
    outside: Vec<Outside>,
    first: Time,
    last: Time,
    gaps: Gaps,
}

/// What a recording does not tell, and what stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Jobs that were never started, so that nobody knows for how long they would have held a slot: the
    /// hold of another job of their class stands for it, drawn with equal chance.
    pub holds_drawn: u64,
    /// Jobs that held a slot at the end of the recording: a longer hold of their class stands for theirs,
    /// drawn likewise, or the time up to the end.
    pub holds_cut_off: u64,
    /// Jobs that gave up while they waited: after as long they do so again.
    pub reneged: u64,
    /// The most slots that were held at a time: the holds are those of at most so many jobs at work.
    pub held_most: u32,
    /// Changes of the number of slots.
    pub resizes: u64,
    /// Changes of servers from up to down.
    pub downs: u64,
}

/// An event from outside.
#[derive(Clone, Copy, Debug)]
struct Outside {
    at: Time,
    order: u32,
    event: Event,
}

/// Why a recording is no load that can be taken to another gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedLoadError {
    /// No job arrives in it.
    NoJob,
    /// No job departs in it, so that nothing is known of holds.
    NoHold,
    /// A slot is occupied after the first arrival by a job that never waited.
    OccupiedLater,
    /// More than 16 777 216 jobs.
    TooManyJobs,
    /// More than 4 294 967 294 steps.
    TooManySteps,
}

impl fmt::Display for RecordedLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordedLoadError::NoJob => {
                "no job arrives in it, so there is nothing to simulate; record the gate under load"
            }
            RecordedLoadError::NoHold => {
                "no job departs in it, so nothing is known of holds; record for longer"
            }
            RecordedLoadError::OccupiedLater => {
                "slots are taken in it by jobs that never waited, after others have arrived; simulate \
                 a scenario instead"
            }
            RecordedLoadError::TooManyJobs => {
                "more than 16777216 jobs arrive in it, and no more can be simulated; record with a \
                 smaller `--record-max`"
            }
            RecordedLoadError::TooManySteps => {
                "it has more than 4294967294 steps, and no more can be simulated; record with a \
                 smaller `--record-max`"
            }
        })
    }
}

impl std::error::Error for RecordedLoadError {}

/// The recorded changes of slots, at another gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizes {
    /// They are made again, where the gate has the servers and slots of the recorded one.
    Again,
    /// They are left out: the gate keeps the slots that it has.
    LeftOut,
}

/// Reads the load of a gate out of its steps, one by one.
#[derive(Debug)]
pub struct RecordedLoadReader {
    load: RecordedLoad,
    /// What is known of the hold of each job.
    holds: Vec<Hold>,
    waiting: BTreeMap<JobId, u32>,
    held: BTreeMap<Slot, Option<(u32, Time)>>,
    wait_max: Option<Duration>,
    steps: u32,
    fault: Option<RecordedLoadError>,
}

/// Knowledge of a job's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Unknown,
    Known,
    /// Longer than this.
    CutOff(Duration),
}

/// A place after all that was recorded of a moment, and before the gate is woken.
const AFTER_ALL: u32 = u32::MAX - 1;

impl RecordedLoadReader {
    /// Nothing of a gate of this specification so far.
    pub fn new(spec: &GateSpec) -> RecordedLoadReader {
        RecordedLoadReader {
            load: RecordedLoad {
                spec: spec.clone(),
                jobs: Vec::new(),
                bounded: Vec::new(),
                outside: Vec::new(),
                first: Time::MAX,
                last: Time::ZERO,
                gaps: Gaps::default(),
            },
            holds: Vec::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            wait_max: spec.wait_max,
            steps: 0,
            fault: None,
        }
    }

    /// Takes the next step, which keeps the protocol of gates.
    pub fn step(&mut self, step: &Step) {
        let (at, order) = (step.at, self.steps);
        if order == AFTER_ALL {
            self.fault = Some(RecordedLoadError::TooManySteps);
            return;
        }
        self.steps += 1;
        self.load.first = self.load.first.min(at);
        self.load.last = at;
        let mut reneges = None;
        match step.event {
            Event::Arrive(job) => self.arrive(at, order, job),
            Event::Depart(slot) => match self.held.remove(&slot).flatten() {
                Some((nth, started)) => {
                    let job = &mut self.load.jobs[nth as usize];
                    (job.hold, job.order.departure) = (at - started, order);
                    self.holds[nth as usize] = Hold::Known;
                }
                None => self.outside(at, order, step.event),
            },
            Event::Renege(id) => reneges = Some(id),
            // The simulated gate asks to be woken itself.
            Event::Wake => {}
            event => self.outside(at, order, event),
        }
        for action in &step.actions {
            match *action {
                Action::Start { job, slot } => {
                    let nth = self.waiting.remove(&job);
                    self.held.insert(slot, nth.map(|nth| (nth, at)));
                }
                Action::Refuse { job, .. } => {
                    self.waiting.remove(&job);
                }
            }
        }
        if let Some(nth) = reneges.and_then(|id| self.waiting.remove(&id)) {
            let job = &mut self.load.jobs[nth as usize];
            (job.patience, job.order.patience) = (Some(at - job.job.since), order);
            self.load.gaps.reneged += 1;
        }
        let gaps = &mut self.load.gaps;
        gaps.held_most = gaps.held_most.max(self.held.len() as u32);
    }

    fn arrive(&mut self, at: Time, order: u32, job: Job) {
        if self.load.jobs.len() == CUSTOMERS_MAX {
            self.fault = Some(RecordedLoadError::TooManyJobs);
            return;
        }
        self.waiting.insert(job.id, self.load.jobs.len() as u32);
        self.load.jobs.push(RecordedJob {
            job: Job { since: at, ..job },
            hold: Duration::ZERO,
            patience: None,
            order: RecordedOrder { arrival: order, departure: AFTER_ALL, patience: AFTER_ALL },
        });
        self.holds.push(Hold::Unknown);
        // Live servers write the gate's own limit into the job, counted from the moment when they could
        // have asked, which may be a little earlier.
        let is_bounded = match (job.deadline, self.wait_max) {
            (Some(deadline), Some(span)) => deadline.since(at) >= span.mul_f64(0.99),
            (None, _) | (_, None) => false,
        };
        self.load.bounded.push(is_bounded);
    }

    fn outside(&mut self, at: Time, order: u32, event: Event) {
        match event {
            Event::Occupy(slot) => {
                if !self.load.jobs.is_empty() {
                    self.fault = Some(RecordedLoadError::OccupiedLater);
                }
                self.held.insert(slot, None);
            }
            Event::Resize { .. } => self.load.gaps.resizes += 1,
            Event::Down(_) => self.load.gaps.downs += 1,
            Event::WaitMax(span) => self.wait_max = span,
            _ => {}
        }
        self.load.outside.push(Outside { at, order, event });
    }

    /// The load, with holds drawn by this seed where nobody knows them.
    ///
    /// # Errors
    /// If there is none, or it cannot be taken to another gate.
    pub fn finish(mut self, seed: u64) -> Result<RecordedLoad, RecordedLoadError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let last = self.load.last;
        for (nth, started) in self.held.values().flatten() {
            self.holds[*nth as usize] = Hold::CutOff(last - *started);
        }
        self.draw_holds(seed)?;
        Ok(self.load)
    }

    fn draw_holds(&mut self, seed: u64) -> Result<(), RecordedLoadError> {
        let load = &mut self.load;
        if load.jobs.is_empty() {
            return Err(RecordedLoadError::NoJob);
        }
        let mut known: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
        let mut all = Vec::new();
        for (job, _) in load.jobs.iter().zip(&self.holds).filter(|(_, hold)| **hold == Hold::Known)
        {
            known.entry(job.job.class).or_default().push(job.hold);
            all.push(job.hold);
        }
        if all.is_empty() {
            return Err(RecordedLoadError::NoHold);
        }
        known.values_mut().for_each(|holds| holds.sort_unstable());
        all.sort_unstable();
        let mut chance = stream(seed, 0);
        for (job, hold) in load.jobs.iter_mut().zip(&self.holds) {
            let of_class = known.get(&job.job.class).unwrap_or(&all);
            match *hold {
                Hold::Known => {}
                Hold::Unknown => {
                    load.gaps.holds_drawn += 1;
                    job.hold = drawn(of_class, &mut chance).expect("a class in the list has holds");
                }
                Hold::CutOff(least) => {
                    load.gaps.holds_cut_off += 1;
                    let longer = of_class.partition_point(|hold| *hold <= least);
                    job.hold = drawn(&of_class[longer..], &mut chance).unwrap_or(least);
                }
            }
        }
        Ok(())
    }
}

fn drawn(holds: &[Duration], chance: &mut Chance) -> Option<Duration> {
    (!holds.is_empty()).then(|| holds[chance.random_range(0..holds.len())])
}

impl RecordedLoad {
    /// Specification of the gate that was recorded.
    pub fn spec(&self) -> &GateSpec {
        &self.spec
    }

    /// Its jobs, in the order of their arrivals.
    pub fn jobs(&self) -> &[RecordedJob] {
        &self.jobs
    }

    /// The moments of its first and its last step.
    pub fn span(&self) -> (Time, Time) {
        (self.first, self.last)
    }

    /// What it does not tell.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Simulates another gate under this load, from its first arrival until all jobs have left. Levels are
    /// averaged over the time of the recording. `go_on` is told now and then how many jobs have arrived.
    ///
    /// What a changed parameter replaces is left out of what came from outside: changes of the longest wait
    /// where that differs from the recorded one, of the room and of the slots likewise.
    ///
    /// # Errors
    /// If the specification is none, or the clock ends. `Ok(None)` if `go_on` has ended it.
    pub fn simulate(
        &self,
        spec: &GateSpec,
        resizes: Resizes,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<GateAccount>, SimError> {
        let network = self.network(spec, resizes);
        let program = Program::compile(&network).map_err(SimError::Network)?;
        drop(network);
        let options = Options { jobs_max: CUSTOMERS_MAX as u32, ..Options::default() };
        let mut run = Replication::new(&program, &options, 0);
        let account = GateAccount::new(spec).expect("the program was checked");
        run.account = Some(Box::new(account.with_fates().between(self.first, self.last)));
        let mut steps = 0_u64;
        while run.step()? {
            steps += 1;
            if steps.is_multiple_of(1 << 14) && go_on(run.arrived()).is_break() {
                return Ok(None);
            }
        }
        Ok(run.account.map(|account| *account))
    }

    fn network(&self, spec: &GateSpec, resizes: Resizes) -> Network {
        let mut network = Network::default();
        let gate = network.add_gate(GateNode::new("gate", spec.clone()));
        let station = network.add_station(Station::new("behind the gate", StationKind::Delay));
        let jobs = self.jobs.iter().zip(&self.bounded).map(|(job, bounded)| {
            let mut job = *job;
            if *bounded && spec.wait_max != self.spec.wait_max {
                job.job.deadline = None;
            }
            job
        });
        let trace = Trace::recorded(jobs.collect()).expect("time goes on in a recording");
        let inside = vec![Way::Visit { station, demand: Demand::OfTrace }];
        let route = vec![Way::Hold { gate, inside }];
        network.add_class(Class::new("recorded", Load::Trace(trace), route));
        let changes = self.outside_at(spec, resizes).map(|Outside { at, order, event }| Change {
            at_s: 0.0,
            what: Changed::Told { gate, at, event, order },
        });
        network.agenda = Some(Agenda { changes: changes.collect(), ..Agenda::default() });
        network
    }

    /// What came from outside, as far as it concerns a gate of this specification.
    fn outside_at(&self, spec: &GateSpec, resizes: Resizes) -> impl Iterator<Item = Outside> {
        let own = &self.spec;
        let servers = spec.servers.len() as u32;
        let is_same = spec.servers == own.servers;
        let shared = spec.queues == Queues::Shared;
        // Who held a slot from the beginning holds one here too, though maybe another one.
        let mut occupied: BTreeMap<Slot, Slot> = BTreeMap::new();
        self.outside.iter().filter_map(move |one| {
            let event = match one.event {
                Event::Resize { .. } if !is_same || resizes == Resizes::LeftOut => return None,
                Event::WaitMax(_) if spec.wait_max != own.wait_max => return None,
                Event::Room(_) if spec.room != own.room => return None,
                Event::UnreachableMax(_) if spec.unreachable_max != own.unreachable_max => {
                    return None;
                }
                Event::Role { role: Role::Replica, .. } if shared => return None,
                Event::Up(server)
                | Event::Down(server)
                | Event::Role { server, .. }
                | Event::Report { server, .. }
                    if server >= servers =>
                {
                    return None;
                }
                Event::Occupy(slot) if !is_same => {
                    let nth = occupied.len() as u32;
                    let moved = Slot { server: nth % servers, index: nth / servers };
                    occupied.insert(slot, moved);
                    Event::Occupy(moved)
                }
                Event::Depart(slot) => Event::Depart(occupied.remove(&slot).unwrap_or(slot)),
                event => event,
            };
            Some(Outside { event, ..*one })
        })
    }
}
