//! The stations at work: how each kind of hardware shares itself among the jobs at it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use gate::{Slot, Time};

use crate::network::{Order, Speed, Station, StationKind, WhenFull};
use crate::servers::Servers;

/// A station during a run.
#[derive(Debug)]
pub(crate) struct StationState {
    pub(crate) jobs: u32,
    pub(crate) served: u64,
    /// Integrals over time since the last reset \[job ns\] and \[processor ns\].
    pub(crate) jobs_area: f64,
    pub(crate) busy_area: f64,
    accumulated: Time,
    /// Number of servers that can be busy at once.
    capacity: u32,
    /// Where the speed depends on the number of jobs: as many servers as are busy with 0, 1, 2, ... of them, when all are
    /// at the largest speed; else empty.
    busy_with: Vec<f64>,
    pub(crate) service: Service,
    /// Number of jobs that there is room for.
    pub(crate) room: u32,
    pub(crate) full: WhenFull,
    /// Jobs lost since the last reset.
    pub(crate) lost: u64,
    /// Jobs there, and served, at the last mark.
    pub(crate) jobs_before: u32,
    pub(crate) served_before: u64,
    /// Jobs elsewhere that wait for room here.
    pub(crate) blocked: VecDeque<u32>,
}

#[derive(Debug)]
pub(crate) enum Service {
    /// First in first out: the jobs that wait, with the service needed \[ns\].
    Queue {
        servers: u32,
        waiting: VecDeque<(u32, u64)>,
    },
    Delay,
    Sharing(Sharing),
    FairShare(FairShare),
    Servers(Servers),
}

impl StationState {
    /// A station; `changes` tells whether its speed will change on the way.
    pub(crate) fn new(station: &Station, changes: Changes) -> StationState {
        let kind = station.kind;
        let capacity = kind.capacity().unwrap_or(u32::MAX);
        let service = match kind {
            StationKind::Queue { servers } => match &station.speed {
                Speed::Servers(speeds) => {
                    Service::Servers(Servers::new(station.order, speeds.clone()))
                }
                _ if station.order != Order::Fifo || changes == Changes::Speed => {
                    Service::Servers(Servers::new(station.order, vec![1.0; servers as usize]))
                }
                _ => Service::Queue { servers, waiting: VecDeque::new() },
            },
            StationKind::Delay => Service::Delay,
            StationKind::Sharing { processors } => {
                let curve = match &station.speed {
                    Speed::Curve(curve) => curve.clone(),
                    Speed::One | Speed::Servers(_) => Vec::new(),
                };
                Service::Sharing(Sharing::new(processors, curve))
            }
            StationKind::FairShare { quantum_s, tick_s } => {
                let quantum = (quantum_s * 1e9).max(1.0) as u64;
                Service::FairShare(FairShare::new(quantum, (tick_s * 1e9) as u64))
            }
        };
        StationState {
            jobs: 0,
            served: 0,
            jobs_area: 0.0,
            busy_area: 0.0,
            accumulated: Time::ZERO,
            capacity,
            busy_with: busy_with(station),
            service,
            room: station.room.map_or(u32::MAX, |(room, _)| room),
            full: station.room.map_or(WhenFull::Lose, |(_, full)| full),
            lost: 0,
            jobs_before: 0,
            served_before: 0,
            blocked: VecDeque::new(),
        }
    }

    /// Changes a server's speed; returns when to look again, if that changed.
    pub(crate) fn set_speed(&mut self, now: Time, server: usize, speed: f64) -> Option<Time> {
        self.accumulate(now);
        match &mut self.service {
            Service::Servers(servers) => {
                let next = servers.set_speed(now, server, speed);
                self.capacity = servers.up();
                next
            }
            Service::Sharing(sharing) => sharing.set_speed(now, speed),
            Service::Queue { .. } | Service::Delay | Service::FairShare(_) => {
                unreachable!("the agenda was checked")
            }
        }
    }

    /// Brings the integrals up to `now`; before every change of `jobs`.
    #[inline]
    pub(crate) fn accumulate(&mut self, now: Time) {
        let span = span_ns(self.accumulated, now);
        self.accumulated = now;
        self.jobs_area += f64::from(self.jobs) * span;
        self.busy_area += self.busy() * span;
    }

    /// Servers that are busy.
    #[inline]
    fn busy(&self) -> f64 {
        match self.busy_with.last() {
            None => f64::from(self.jobs.min(self.capacity)),
            Some(last) => *self.busy_with.get(self.jobs as usize).unwrap_or(last),
        }
    }

    pub(crate) fn reset(&mut self, now: Time) {
        self.accumulate(now);
        self.jobs_area = 0.0;
        self.busy_area = 0.0;
        self.served = 0;
        self.lost = 0;
        self.mark();
    }

    pub(crate) fn mark(&mut self) {
        (self.jobs_before, self.served_before) = (self.jobs, self.served);
    }
}

/// As many servers as are busy with 0, 1, 2, ... jobs at a station that has a speed curve; of another, none.
fn busy_with(station: &Station) -> Vec<f64> {
    let Speed::Curve(curve) = &station.speed else { return Vec::new() };
    let servers = station.kind.capacity().map_or(1.0, f64::from);
    let most = curve.iter().copied().fold(0.0, f64::max);
    std::iter::once(0.0).chain(curve.iter().map(|speed| servers * speed / most)).collect()
}

/// The time from one moment to a later one \[ns\]; it fits an i64, because the clock ends before.
#[inline]
pub(crate) fn span_ns(from: Time, to: Time) -> f64 {
    debug_assert!(to >= from, "time runs backwards: {to} after {from}");
    (to.as_nanos() - from.as_nanos()) as i64 as f64
}

/// Changes of a station's speed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Nothing,
    Speed,
}

/// Processor sharing in virtual time: every job at the station is served at the same rate, so
/// their order of completion never changes, and a change of their number costs O(log n).
#[derive(Debug)]
pub(crate) struct Sharing {
    processors: f64,
    /// All jobs' speed together at 1, 2, ... jobs; empty where the processors tell it.
    curve: Vec<f64>,
    /// Speed by the changes so far.
    speed: f64,
    /// Service that each job at the station has received since the station was last empty \[ns\].
    attained: f64,
    updated: Time,
    /// By the attained service at which they complete (as bits: it is never negative), then order.
    jobs: BinaryHeap<Reverse<(u64, u32, u32)>>,
    entered: u32,
    /// When the next one completes; entries of the calendar for other moments are stale.
    due: Option<Time>,
}

impl Sharing {
    fn new(processors: u32, curve: Vec<f64>) -> Sharing {
        Sharing {
            processors: f64::from(processors),
            curve,
            speed: 1.0,
            attained: 0.0,
            updated: Time::ZERO,
            jobs: BinaryHeap::new(),
            entered: 0,
            due: None,
        }
    }

    #[inline]
    fn rate(&self) -> f64 {
        let jobs = self.jobs.len();
        if self.curve.is_empty() {
            return (self.processors / jobs as f64).min(1.0) * self.speed;
        }
        self.curve[jobs.clamp(1, self.curve.len()) - 1] / jobs as f64 * self.speed
    }

    fn set_speed(&mut self, now: Time, speed: f64) -> Option<Time> {
        self.advance(now);
        self.speed = speed;
        self.schedule(now)
    }

    #[inline]
    fn advance(&mut self, now: Time) {
        if !self.jobs.is_empty() {
            self.attained += span_ns(self.updated, now) * self.rate();
        }
        self.updated = now;
    }

    /// Sets when the next completion is due, and returns it if that is a new moment.
    #[inline]
    fn schedule(&mut self, now: Time) -> Option<Time> {
        let Some(Reverse((finish, ..))) = self.jobs.peek() else {
            self.due = None;
            return None;
        };
        let rate = self.rate();
        if rate == 0.0 {
            self.due = None;
            return None;
        }
        let left = (f64::from_bits(*finish) - self.attained).max(0.0) / rate;
        let due = Time::from_nanos(now.as_nanos().saturating_add(left.ceil() as u64));
        (self.due.replace(due) != Some(due)).then_some(due)
    }

    /// A job enters that needs `need` ns of service; returns when to look again, if that changed.
    #[inline]
    pub(crate) fn enter(&mut self, now: Time, customer: u32, need: u64) -> Option<Time> {
        self.advance(now);
        // Anew each time: a sum that grew over the whole run would lose the digits of short services.
        if self.jobs.is_empty() {
            self.attained = 0.0;
        }
        self.entered = self.entered.wrapping_add(1);
        let finish = self.attained + need as f64;
        self.jobs.push(Reverse((finish.to_bits(), self.entered, customer)));
        self.schedule(now)
    }

    /// If a completion is due now, takes that job out.
    #[inline]
    pub(crate) fn complete(&mut self, now: Time) -> Option<u32> {
        if self.due != Some(now) {
            return None;
        }
        self.advance(now);
        let Reverse((finish, _, customer)) = self.jobs.pop()?;
        // The moment was rounded up to the nanosecond: never let attained service fall short.
        self.attained = self.attained.max(f64::from_bits(finish));
        self.due = None;
        Some(customer)
    }

    /// When to look again after a completion.
    #[inline]
    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        self.schedule(now)
    }
}

/// Owner of a share of the processor: a gate and its slot.
pub(crate) type Worker = (u32, Slot);

/// One processor, shared fairly between workers by a quantum: the worker with the least processor
/// time goes next. A worker that comes back from idling gets no credit for it: it starts at the
/// least processor time among those that want the processor, or wanted it last. Outside all gates
/// every visit is a worker of its own, and starts there too.
#[derive(Debug)]
pub(crate) struct FairShare {
    quantum: u64,
    /// From one tick to the next, or 0 \[ns\].
    tick: u64,
    /// Processor time of each worker when its last job was complete \[ns\].
    ran: BTreeMap<Worker, u64>,
    /// The least processor time among those that want the processor; never falls.
    floor: u64,
    /// Those that want the processor, the running one not among them.
    runnable: BinaryHeap<Reverse<Runner>>,
    entered: u64,
    running: Option<Runner>,
    /// When the present slice began.
    since: Time,
    /// When it ends; entries of the calendar for other moments are stale.
    due: Option<Time>,
}

/// A job at a processor that is shared fairly. Its order is who goes next: the least processor time,
/// and among equals the one that has waited longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Runner {
    ran: u64,
    entered: u64,
    worker: Option<Worker>,
    customer: u32,
    left: u64,
}

impl FairShare {
    fn new(quantum: u64, tick: u64) -> FairShare {
        FairShare {
            quantum,
            tick,
            ran: BTreeMap::new(),
            floor: 0,
            runnable: BinaryHeap::new(),
            entered: 0,
            running: None,
            since: Time::ZERO,
            due: None,
        }
    }

    /// A job enters on behalf of `worker`; returns when to look again, if that changed.
    pub(crate) fn enter(
        &mut self,
        now: Time,
        customer: u32,
        worker: Option<Worker>,
        need: u64,
    ) -> Option<Time> {
        self.raise_floor(now);
        let known = worker.and_then(|worker| self.ran.get(&worker).copied());
        let ran = known.map_or(self.floor, |ran| ran.max(self.floor));
        self.wait(Runner { ran, entered: 0, worker, customer, left: need });
        if self.running.is_none() {
            return self.run_next(now);
        }
        // The running worker may have been alone, with no end to its slice but its job's.
        let slice_end = after(self.since, self.turn(self.since)).max(now);
        let due = self.due.map_or(slice_end, |due| due.min(slice_end));
        (self.due.replace(due) != Some(due)).then_some(due)
    }

    /// If a slice ends now: the customer whose job is complete, if one is. Ask
    /// [`next`](FairShare::next) when to look again.
    pub(crate) fn complete(&mut self, now: Time) -> Option<u32> {
        if self.due != Some(now) {
            return None;
        }
        self.due = None;
        self.raise_floor(now);
        let mut runner = self.running.take()?;
        let span = now.as_nanos() - self.since.as_nanos();
        debug_assert!(span <= runner.left, "a slice of {span} ns for {} ns", runner.left);
        runner.ran += span;
        runner.left -= span;
        if runner.left > 0 {
            self.wait(runner);
            return None;
        }
        if let Some(worker) = runner.worker {
            self.ran.insert(worker, runner.ran);
        }
        Some(runner.customer)
    }

    /// When to look again after a slice has ended.
    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        if self.running.is_some() { None } else { self.run_next(now) }
    }

    fn wait(&mut self, runner: Runner) {
        self.entered += 1;
        self.runnable.push(Reverse(Runner { entered: self.entered, ..runner }));
    }

    /// Before somebody comes or goes. If the last one goes, the floor stays at what it has reached:
    /// else those that come after it would have credit against it.
    fn raise_floor(&mut self, now: Time) {
        let running = self.running.map(|r| r.ran + (now.as_nanos() - self.since.as_nanos()));
        let waiting = self.runnable.peek().map(|Reverse(runner)| runner.ran);
        let least = running.into_iter().chain(waiting).min();
        self.floor = self.floor.max(least.unwrap_or(0));
    }

    /// Length of a turn that begins now while others want the processor: its quantum, and on to the
    /// next tick.
    fn turn(&self, now: Time) -> u64 {
        let end = now.as_nanos().saturating_add(self.quantum);
        let on = if self.tick == 0 { 0 } else { (self.tick - end % self.tick) % self.tick };
        self.quantum.saturating_add(on)
    }

    fn run_next(&mut self, now: Time) -> Option<Time> {
        let Reverse(runner) = self.runnable.pop()?;
        let slice =
            if self.runnable.is_empty() { runner.left } else { runner.left.min(self.turn(now)) };
        self.running = Some(runner);
        self.since = now;
        let due = after(now, slice);
        self.due = Some(due);
        Some(due)
    }
}

fn after(now: Time, span: u64) -> Time {
    Time::from_nanos(now.as_nanos().saturating_add(span))
}
