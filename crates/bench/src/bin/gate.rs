//! Cost of a gate by the event, against a bare queue and counter in the same run.
//!
//! An event is an arrival or a departure, in the order of an M/M/1 or M/M/4 queue at utilisation
//! 0.8, drawn beforehand. The bare loop is a `VecDeque` of numbers and a count of free slots: the
//! least that could do the work of the first line. Interleaved; medians of five, CPU time. An
//! argument selects the cases whose name contains it, for a profiler.

#![allow(clippy::print_stdout)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use gate::{
    Action, DisciplineSpec, Event, Gate, GateSpec, Job, JobId, Length, Queues, RouterSpec,
    ServerSpec, Slot, Ties, Time, Window,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const ROUNDS: usize = 5;
const EVENTS: usize = 2_000_000;
const RHO: f64 = 0.8;

struct Case {
    name: &'static str,
    spec: GateSpec,
    /// Number of priorities that arrive in turn.
    priorities: u8,
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(&only)).collect();
    let walks = [walk(1), walk(4)];
    let mut bare = Vec::new();
    let mut costs = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        bare.push(timed(|| run_bare(&walks[0])));
        for (cost, case) in costs.iter_mut().zip(&cases) {
            let walk = &walks[usize::from(case.spec.servers.len() > 1)];
            cost.push(timed(|| run_gate(case, walk)));
        }
    }
    println!("CPU time of an event, median of {ROUNDS} runs of {EVENTS} events");
    println!("{:<48} {:>9} {:>13}", "", "ns/event", "of bare queue");
    let bare = median(&mut bare);
    println!("{:<48} {bare:>9.1} {:>13.2}", "bare VecDeque and counter, 1 slot", 1.0);
    for (case, cost) in cases.iter().zip(&mut costs) {
        let cost = median(cost);
        println!("{:<48} {cost:>9.1} {:>13.2}", case.name, cost / bare);
    }
}

fn cases() -> Vec<Case> {
    let fifo = GateSpec::fifo(1);
    let limits = GateSpec {
        room: Some(1_000_000),
        wait_max: Some(Duration::from_secs(3600)),
        ..fifo.clone()
    };
    let priority = GateSpec { discipline: DisciplineSpec::Priority, ..fifo.clone() };
    let servers = vec![ServerSpec { slots: 1 }; 4];
    let shared = GateSpec { servers, ..fifo.clone() };
    let shortest = GateSpec {
        queues: Queues::PerServer,
        router: RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Lowest },
        ..shared.clone()
    };
    let shortest_limits =
        GateSpec { room: limits.room, wait_max: limits.wait_max, ..shortest.clone() };
    let window = Window::Recent(Duration::from_millis(1));
    let busiest = GateSpec {
        router: RouterSpec::LowestUtilisation { window, ties: Ties::Rotate },
        ..shortest.clone()
    };
    let ageing = DisciplineSpec::PriorityAgeing { interval: Duration::from_micros(10) };
    let ageing = GateSpec { discipline: ageing, ..fifo.clone() };
    let deficits = DisciplineSpec::DeficitRoundRobin { quantum: 1, weights: Vec::new() };
    let deficits = GateSpec { discipline: deficits, ..fifo.clone() };
    let case = |name, spec| Case { name, spec, priorities: 1 };
    vec![
        case("FIFO, 1 server", fifo),
        case("FIFO, 1 server, room and deadlines", limits),
        Case { priorities: 4, ..case("priority of 4 levels, 1 server", priority) },
        case("FIFO, 4 servers, one queue", shared),
        case("FIFO, 4 servers, shortest of 4 queues", shortest),
        case("the same, room and deadlines", shortest_limits),
        case("FIFO, 4 servers, lowest recent utilisation", busiest),
        Case { priorities: 4, ..case("priority with ageing, 1 server", ageing) },
        case("deficit round robin, 1 server", deficits),
    ]
}

/// Arrivals and departures as the jumps of an M/M/c queue; true for an arrival.
fn walk(servers: u32) -> Vec<bool> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut jobs = 0_u32;
    let arrives = |_| {
        let (up, down) = (RHO * f64::from(servers), f64::from(jobs.min(servers)));
        let uniform = (chance.next_u64() >> 11) as f64 * (0.5_f64).powi(53);
        let arrives = uniform < up / (up + down);
        jobs = if arrives { jobs + 1 } else { jobs - 1 };
        arrives
    };
    (0..EVENTS).map(arrives).collect()
}

/// The walk never leaves without a job in service: a job that waits has its server busy.
fn run_gate(case: &Case, walk: &[bool]) -> u64 {
    let mut gate = Gate::new(&case.spec).expect("a valid specification");
    let mut held: VecDeque<Slot> = VecDeque::new();
    let mut actions = Vec::new();
    let mut started = 0;
    for (step, &arrives) in walk.iter().enumerate() {
        let now = Time::from_nanos(step as u64 * 1000);
        let event = if arrives {
            let mut job = Job::new(JobId(step as u64));
            job.priority = step as u8 % case.priorities;
            Event::Arrive(job)
        } else {
            let slot = held.pop_front().expect("whoever is there is served, or the server is busy");
            Event::Depart(slot)
        };
        gate.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            if let Action::Start { job, slot } = action {
                started += job.0;
                held.push_back(slot);
            }
        }
        black_box(gate.next_wakeup());
    }
    started
}

fn run_bare(walk: &[bool]) -> u64 {
    let mut queue = VecDeque::new();
    let mut held = VecDeque::new();
    let (mut free, mut started) = (1, 0);
    for (step, &arrives) in walk.iter().enumerate() {
        if arrives {
            queue.push_back(step as u64);
        } else {
            let slot = held.pop_front().expect("whoever is there is served, or the server is busy");
            free += black_box::<u32>(slot);
        }
        if free > 0
            && let Some(job) = queue.pop_front()
        {
            free -= 1;
            started += job;
            held.push_back(1);
        }
    }
    started
}

/// The CPU time of an event \[ns\].
fn timed(run: impl FnOnce() -> u64) -> f64 {
    let start = cpu_s();
    black_box(run());
    (cpu_s() - start) * 1e9 / EVENTS as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this process \[s\].
#[allow(unsafe_code)]
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
