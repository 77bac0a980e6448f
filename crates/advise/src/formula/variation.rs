//! Limits of the layered model's range: the variation of the demands that a queue serves, and the
//! part of the slots that an open load asks for. They hold for scenarios, and for layered models
//! that come from elsewhere.

use sim::{Load, Network, StationKind};
use solve::layered::{Entry, LayeredAnswer, Phase, Processor, ProcessorDiscipline, Task, Threads};

use super::{layers, swing};
use crate::Scenario;

/// The largest squared coefficient of variation of a demand that was tried.
pub(super) const SCV_MAX: f64 = 4.0;

/// Words for a variation beyond it.
pub(super) const TOO_VARIED: &str = "varies more than the layered model was tried with";

/// The error where an open load waits for slots that are held through queues; measured on the grid of
/// `tests/grid`, as the others where they are beyond what the tests show.
const ERROR_OPEN: f64 = 0.20;

/// The largest share of what slots can do, all held through queues, that an open load may ask for. On the
/// grid, from 0.85 on, the mean response was between 89 % too short and 370 % too long.
const OPEN_SHARE_MAX: f64 = 0.75;

/// The error that comes of an open load before slots; 0 where there is none.
///
/// # Errors
/// If it asks for more of them than the layered model was tried with.
pub(super) fn open(found: &LayeredAnswer) -> Result<f64, String> {
    if found.open_share > OPEN_SHARE_MAX {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let (share, most) = (percent(found.open_share), percent(OPEN_SHARE_MAX));
        return Err(format!(
            "the open load asks for {share} of what slots can do that are held through queues, and \
             beyond {most} the layered model is out of its range"
        ));
    }
    Ok(if found.open_share > 0.0 { ERROR_OPEN } else { 0.0 })
}

/// The largest utilisation of a station at which loads meet that hold slots of different gates, or some a slot and
/// others none. With two to six gates the mean response was up to 11 % too short at 0.59; with two 16 % at 0.7 and 39 %
/// at 0.9; with one gate and others beside it 8 % at 0.58 and 47 % at 0.95.
const MEETING_MAX: f64 = 0.6;

/// The error that comes of loads which hold slots of different gates, or of a gate and of none, and meet at a station as
/// busy as this; 0 if they meet nowhere. The layered model takes what comes from each gate for a few customers of its
/// own, and so forgets that all queues are long at the same times.
///
/// # Errors
/// If the station is busier than the layered model was tried with.
pub(super) fn meeting(busiest: f64) -> Result<f64, String> {
    if busiest > MEETING_MAX {
        return Err(format!(
            "loads that hold slots of different gates, or of a gate and of none, meet at a station that they keep \
             busy for {:.0} % of the time, what clients spend waiting left out, and beyond {:.0} % the layered model \
             is out of its range",
            100.0 * busiest,
            100.0 * MEETING_MAX
        ));
    }
    Ok(if busiest > 0.0 { ERROR_OPEN } else { 0.0 })
}

/// The least error that is to be stated of the answer to a layered model that is no scenario of ours by
/// origin; `scenario` is the same model as one, where there is one.
///
/// What a scenario's gates can say is judged as that scenario. Of what they cannot (several entries of one
/// task, second phases, calls that wait for no reply) it is judged what meets at each processor and at each
/// task with threads, but not by how much that makes the answer longer.
///
/// # Errors
/// If it is out of the layered model's range: why.
pub fn layered_error(
    processors: &[Processor],
    tasks: &[Task],
    found: &LayeredAnswer,
    scenario: Option<&Scenario>,
) -> Result<f64, String> {
    let network = scenario.and_then(|scenario| scenario.network().ok());
    if let Some(stated) = network.as_ref().and_then(layers::stated) {
        return stated;
    }
    let mut error = open(found)?;
    let mut longer = vec![1.0; processors.len()];
    for (at, processor) in processors.iter().enumerate() {
        let mut served = Vec::new();
        for (task, answer) in
            tasks.iter().zip(&found.tasks).filter(|(task, _)| task.processor == at)
        {
            for (entry, answer) in task.entries.iter().zip(&answer.entries) {
                let phases = entry.phases.iter().filter(|phase| phase.demand > 0.0);
                served.extend(phases.map(|phase| Served::slices(phase, answer.throughput)));
            }
        }
        served.retain(|served| served.rate > 0.0);
        if processor.servers.is_none() || served.is_empty() {
            continue;
        }
        // As for scenarios: each demand wherever jobs meet, and all together where they wait in one queue.
        let is_queue = processor.discipline == ProcessorDiscipline::Fifo;
        let most = served.iter().map(|of| of.scv).fold(0.0, f64::max);
        let scv = if is_queue { most.max(together(&served)) } else { most };
        if scv > SCV_MAX + 1e-9 {
            return Err(format!(
                "what processor `{}` serves {TOO_VARIED}: a squared coefficient of variation of \
                 {scv:.1}, and {SCV_MAX} at the most",
                processor.name
            ));
        }
        // Without a scenario it is not known who comes with a thread that others need: all may.
        let has_threads = tasks.iter().any(|task| matches!(task.threads, Threads::Finite(_)));
        if has_threads {
            let scv = together(&served);
            longer[at] = match is_queue {
                true => swing::longer(scv),
                false => swing::longer_shared(scv, true),
            };
        }
        let is_varied = served.iter().any(|of| (of.scv - 1.0).abs() > 1e-6);
        if is_varied || is_queue && differ(&served) {
            error = error.max(layers::ERROR);
        }
    }
    for (task, answer) in tasks.iter().zip(&found.tasks) {
        let holds: Vec<f64> = (answer.entries.iter())
            .filter(|entry| entry.throughput > 0.0)
            .map(|entry| entry.hold[0] + entry.hold[1])
            .collect();
        let differ = holds.windows(2).any(|pair| (pair[0] / pair[1] - 1.0).abs() > 1e-6);
        if matches!(task.threads, Threads::Finite(_)) && differ {
            error = error.max(layers::ERROR);
        }
    }
    if swing::is_nested(tasks) {
        error = error.max(layers::ERROR);
    }
    swing::check(tasks, found, &longer)?;
    Ok(error)
}

/// A station of a layered model, its task, and the slots through which jobs come to it.
pub(super) struct Place {
    pub(super) station: usize,
    pub(super) task: usize,
    pub(super) slots: u64,
    /// True if jobs come, too, that hold no slot.
    pub(super) is_free: bool,
}

/// True if demands of several means or shapes meet in one queue, where the layered model is farther
/// off than with exponential demand of one mean.
///
/// # Errors
/// If what a queue serves varies more than the layered model was tried with, or may put it too far off.
pub(super) fn check(
    network: &Network,
    places: &[Place],
    (processors, tasks): (&[Processor], &[Task]),
    found: &LayeredAnswer,
) -> Result<bool, String> {
    let is_open = network.classes.iter().all(|class| matches!(class.load, Load::Open(_)));
    let mut differs = false;
    // How much longer the waits at each processor may be than the model's, as a multiple of them.
    let mut longer = vec![1.0; processors.len()];
    for place in places {
        let station = &network.stations[place.station];
        let Some(servers) = station.kind.capacity() else { continue };
        let is_queue = matches!(station.kind, StationKind::Queue { .. });
        let with_slots = place.slots > 0 && (place.is_free || place.slots > u64::from(servers));
        if !with_slots && (is_open || !place.is_free) {
            // What comes from outside, one by one, is known however it varies; who has a slot and a server
            // of its own waits for nobody.
            continue;
        }
        let entries = &tasks[place.task].entries;
        let answers = &found.tasks[place.task].entries;
        let served: Vec<Served> = (entries.iter().zip(answers))
            .map(|(entry, answer)| Served::new(entry, answer.throughput))
            .filter(|served| served.rate > 0.0)
            .collect();
        if served.is_empty() {
            continue;
        }
        let scv = together(&served);
        if !is_queue {
            longer[tasks[place.task].processor] = swing::longer_shared(scv, with_slots);
            continue;
        }
        differs |= differ(&served);
        if scv > SCV_MAX + 1e-9 {
            return Err(format!(
                "what `{}` serves in all {TOO_VARIED}: a squared coefficient of variation of {scv:.1}, \
                 and {SCV_MAX} at the most",
                station.name
            ));
        }
        if with_slots {
            longer[tasks[place.task].processor] = swing::longer(scv);
        }
    }
    swing::in_step(network, tasks)?;
    swing::check(tasks, found, &longer)?;
    Ok(differs)
}

/// Demands of one kind that a queue serves.
struct Served {
    /// Visits [1/s].
    rate: f64,
    /// Mean demand \[s\].
    mean: f64,
    /// Squared coefficient of variation of the demand.
    scv: f64,
}

impl Served {
    fn new(entry: &Entry, rate: f64) -> Served {
        let phase = &entry.phases[0];
        Served { rate, mean: phase.demand, scv: phase.scv }
    }

    /// Slices of a phase, the computations between its calls. Their lengths are not known.
    fn slices(phase: &Phase, rate: f64) -> Served {
        // One slice before each call, and one after the last.
        let slices = 1.0 + phase.calls.iter().map(|call| call.mean).sum::<f64>();
        let mean = phase.demand / slices;
        Served { rate: rate * slices, mean, scv: phase.scv }
    }

    fn is_like(&self, other: &Served) -> bool {
        (self.mean / other.mean - 1.0).abs() < 1e-6 && (self.scv - other.scv).abs() < 1e-6
    }
}

/// True if some are unlike others.
fn differ(served: &[Served]) -> bool {
    served.windows(2).any(|pair| !pair[0].is_like(&pair[1]))
}

/// Squared coefficient of variation of all that is served.
fn together(served: &[Served]) -> f64 {
    let rate: f64 = served.iter().map(|of| of.rate).sum();
    let mean = served.iter().map(|of| of.rate * of.mean).sum::<f64>() / rate;
    let square = served.iter().map(|of| of.rate * of.mean * of.mean * (1.0 + of.scv));
    square.sum::<f64>() / rate / (mean * mean) - 1.0
}
