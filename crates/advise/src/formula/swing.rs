//! Range over which demands that are not exponential may swing the layered model's answer: the
//! uncertainty of the waits inside, carried through every gate to the response.

use std::cmp::Ordering;

use sim::{Load, Network};
use solve::layered::{LayeredAnswer, Task, Threads};
use solve::{ClosedNetwork, Mmc, Station};

/// The largest shares by which the response may be longer and shorter: the larger time over the
/// smaller one, less 1. On the grid the layered model is up to 27 % off within these, and from 38 %
/// too short and 70 % too long on beyond.
const LONGER_MAX: f64 = 0.25;
const SHORTER_MAX: f64 = 0.35;

/// More customers, or slots, than that are as good as an open load.
const CUSTOMERS_MAX: u32 = 5_000;

/// Ratio of the waits to the model's that is possible at a queue that is gone to with slots, by the
/// squared coefficient of variation of the demands that it serves. In a line of constant demands
/// nobody waits but for the first: all keep the distance that they got there. Behind a large demand
/// all slots wait, and nobody is let in meanwhile.
pub(super) fn longer(scv: f64) -> f64 {
    if scv < 1.0 { scv } else { 1.0 + 0.5 * (scv - 1.0) }
}

/// The same where those inside share the processor. Demands that vary more are no worse there,
/// whatever they are, but few that are alike take turns without meeting.
pub(super) fn longer_shared(scv: f64, with_slots: bool) -> f64 {
    if with_slots { longer(scv.min(1.0)) } else { 1.0 }
}

/// Pauses that vary less than that (squared coefficient of variation) are as good as constant.
const PAUSE_SCV_MIN: f64 = 0.5;

/// Longest constant pause of clients that is in range, in standard deviations of their demand.
const PAUSE_MAX: f64 = 30.0;

/// Clients that pause for nearly a constant time, and ask for nearly as much each time, come back in the
/// order and with the gaps in which they went. They are spread by chance after very many rounds, or never,
/// and the formulas know clients that come by chance.
///
/// `spread` is the standard deviation of all that a client asks for \[s\].
///
/// # Errors
/// If they do.
pub(super) fn keep_in_step(pause: f64, pause_scv: f64, spread: f64) -> Result<(), String> {
    if pause_scv >= PAUSE_SCV_MIN || pause <= PAUSE_MAX * spread {
        return Ok(());
    }
    Err(format!(
        "clients that pause for a nearly constant {pause:.3} s and ask for nearly the same each time keep \
         in step, and the formula was tried on pauses of up to {PAUSE_MAX} times what their demand varies by; \
         give the pause a distribution"
    ))
}

/// The same of every class of clients before gates.
///
/// # Errors
/// If one does.
pub(super) fn in_step(network: &Network, tasks: &[Task]) -> Result<(), String> {
    if network.gates.is_empty() {
        return Ok(());
    }
    for class in &network.classes {
        let Load::Closed { think, .. } = &class.load else { continue };
        let of_class = |task: &&Task| {
            task.name == class.name && matches!(task.threads, Threads::Reference { .. })
        };
        if let Some(task) = tasks.iter().find(of_class) {
            keep_in_step(think.mean(), think.scv(), variance(tasks, task, 0).sqrt())?;
        }
    }
    Ok(())
}

/// Variance of what a call of an entry asks for in all \[s^2\].
fn variance(tasks: &[Task], task: &Task, entry: usize) -> f64 {
    let phase = &task.entries[entry].phases[0];
    let called = phase.calls.iter();
    let called = called.map(|of| of.mean * variance(tasks, &tasks[of.to.task], of.to.entry));
    phase.demand * phase.demand * phase.scv + called.sum::<f64>()
}

/// True if customers hold threads while they wait for others.
pub(super) fn is_nested(tasks: &[Task]) -> bool {
    let is_finite = |task: usize| matches!(tasks[task].threads, Threads::Finite(_));
    let is_closed = tasks.iter().any(|task| matches!(task.threads, Threads::Reference { .. }));
    let holds = |from: usize| inside(tasks, from).into_iter().any(is_finite);
    is_closed && (0..tasks.len()).any(|task| is_finite(task) && holds(task))
}

/// The tasks that a task calls, and those that these call.
fn inside(tasks: &[Task], from: usize) -> Vec<usize> {
    let phases = tasks[from].entries.iter().flat_map(|entry| &entry.phases);
    let called = phases.flat_map(|phase| &phase.calls).map(|call| call.to.task);
    called.flat_map(|task| [vec![task], inside(tasks, task)].concat()).collect()
}

/// Checks that no class's response swings too far, where the waits at each processor may be
/// `longer` times the model's.
///
/// # Errors
/// If one does.
pub(super) fn check(tasks: &[Task], found: &LayeredAnswer, longer: &[f64]) -> Result<(), String> {
    let mut swing = Swing { tasks, found, longer, times: vec![Vec::new(); tasks.len()] };
    for (at, task) in tasks.iter().enumerate() {
        let is_class = matches!(task.threads, Threads::Reference { .. });
        for entry in 0..task.entries.len() {
            if !is_class && task.entries[entry].open_rate == 0.0 {
                continue;
            }
            let (time, moved) = swing.call(at, entry);
            if time == 0.0 {
                continue;
            }
            let (share, most) = match moved < time {
                true => (time / moved.max(1e-300) - 1.0, SHORTER_MAX),
                false => (moved / time - 1.0, LONGER_MAX),
            };
            // Not a number is out of range, too.
            if !matches!(share.partial_cmp(&most), Some(Ordering::Less | Ordering::Equal)) {
                return Err(format!(
                    "demands that are not exponential, at stations that are gone to with a slot or in \
                     turn, may put the answer {:.0} % off, and beyond {:.0} % the layered model is out of \
                     its range",
                    (100.0 * share).min(999.0),
                    100.0 * most
                ));
            }
        }
    }
    Ok(())
}

struct Swing<'a> {
    tasks: &'a [Task],
    found: &'a LayeredAnswer,
    longer: &'a [f64],
    /// By task and entry: time of a call, and what it may be \[s\]; empty until they are asked for.
    times: Vec<Vec<(f64, f64)>>,
}

impl Swing<'_> {
    /// Time of a call, and what it may be \[s\].
    fn call(&mut self, task: usize, entry: usize) -> (f64, f64) {
        if self.times[task].is_empty() {
            let entries = 0..self.tasks[task].entries.len();
            let holds: Vec<(f64, f64)> = entries.map(|entry| self.hold(task, entry)).collect();
            let (wait, moved) = self.wait(task, &holds);
            let times = holds.iter().map(|hold| (wait + hold.0, moved + hold.1));
            self.times[task] = times.collect();
        }
        self.times[task][entry]
    }

    fn hold(&mut self, task: usize, entry: usize) -> (f64, f64) {
        let of = &self.tasks[task];
        let phase = &of.entries[entry].phases[0];
        let hold = self.found.tasks[task].entries[entry].hold[0];
        let (mut called, mut more) = (0.0, 0.0);
        for call in &phase.calls {
            let (time, moved) = self.call(call.to.task, call.to.entry);
            called += call.mean * time;
            more += call.mean * (moved - time);
        }
        let wait = (hold - phase.demand - called).max(0.0);
        (hold, hold + (self.longer[of.processor] - 1.0) * wait + more)
    }

    /// The mean wait for a thread, and what it may be \[s\].
    fn wait(&self, task: usize, holds: &[(f64, f64)]) -> (f64, f64) {
        let Threads::Finite(threads) = self.tasks[task].threads else { return (0.0, 0.0) };
        let answer = &self.found.tasks[task];
        let (x, wait) = (answer.throughput, answer.wait);
        if x <= 0.0 {
            return (wait, wait);
        }
        let mean = |of: fn(&(f64, f64)) -> f64| {
            let sum =
                answer.entries.iter().zip(holds).map(|(entry, hold)| entry.throughput * of(hold));
            sum.sum::<f64>() / x
        };
        let (hold, moved) = (mean(|of| of.0), mean(|of| of.1));
        let pool = Pool { threads, x, customers: self.customers(task), pause: None };
        let pool = pool.pausing(wait + hold);
        let is_moved = (moved / hold - 1.0).abs() > 1e-12;
        // The simple pool tells the change alone: the wait itself stays that of the layered model.
        let more = if is_moved { pool.wait(moved) - pool.wait(hold) } else { 0.0 };
        // Gaps that vary less than Poisson's leave the waits to what varies in the demands.
        // Clients come back with the gaps with which they went; what comes from outside does not.
        let is_dealt = self.tasks[task].gap_scv < 1.0 && pool.customers.is_some();
        let turns = if is_dealt { longer(self.scv(task)) - 1.0 } else { 0.0 };
        (wait, (wait + more + turns * wait).max(0.0))
    }

    /// Squared coefficient of variation of the time for which a thread is held, where that is one
    /// demand; else 1.
    fn scv(&self, task: usize) -> f64 {
        let entries = self.tasks[task].entries.iter();
        let scv = entries.map(|entry| match &*entry.phases[0].calls {
            [call] => self.tasks[call.to.task].entries[call.to.entry].phases[0].scv,
            _ => 1.0,
        });
        // No comparison with NaN holds, so that the first is taken; after it, the farthest from 1.
        scv.fold(
            f64::NAN,
            |most, scv| if (scv - 1.0).abs() < (most - 1.0).abs() { most } else { scv },
        )
    }

    /// Largest number of customers that ask for a task at a time; none where that is not limited.
    fn customers(&self, task: usize) -> Option<u32> {
        if self.tasks[task].entries.iter().any(|entry| entry.open_rate > 0.0) {
            return None;
        }
        let mut sum = 0_u32;
        for (at, from) in self.tasks.iter().enumerate() {
            let phases = from.entries.iter().flat_map(|entry| &entry.phases);
            if phases.flat_map(|phase| &phase.calls).any(|call| call.to.task == task) {
                sum = sum.saturating_add(match from.threads {
                    Threads::Reference { population, .. } => population,
                    Threads::Finite(threads) => {
                        self.customers(at).map_or(threads, |most| most.min(threads))
                    }
                    Threads::Infinite => self.customers(at)?,
                });
            }
        }
        Some(sum)
    }
}

/// Threads, and who asks for them.
struct Pool {
    threads: u32,
    /// Calls [1/s].
    x: f64,
    customers: Option<u32>,
    /// Mean time of a customer elsewhere \[s\].
    pause: Option<f64>,
}

impl Pool {
    /// The pool with customers that are here for so long \[s\], and elsewhere for the rest of their
    /// cycle.
    fn pausing(self, time: f64) -> Pool {
        let few = self.customers.filter(|of| (*of).max(self.threads) <= CUSTOMERS_MAX);
        let pause = few.map(|customers| (f64::from(customers) / self.x - time).max(0.0));
        Pool { pause, ..self }
    }

    /// Mean wait if a thread is held for so long; beyond all measure if they are too few.
    fn wait(&self, hold: f64) -> f64 {
        if hold <= 0.0 {
            return 0.0;
        }
        let found = match (self.customers, self.pause) {
            (Some(customers), Some(pause)) => Station::multi(hold, self.threads)
                .and_then(|station| ClosedNetwork::new(customers, pause, &[station]))
                .map(|network| network.solve().response - hold),
            _ => Mmc::new(self.x, hold, self.threads).map(|queue| queue.wait()),
        };
        found.unwrap_or(f64::INFINITY)
    }
}
