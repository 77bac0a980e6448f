//! How much what a queue serves may vary before the layered model is out of its range.

use sim::{Load, Network, StationKind};
use solve::layered::{Entry, LayeredAnswer, Task};

use super::layers::SCV_MAX;

/// The largest share of the response that the variation of demands may make longer or shorter, at queues
/// where jobs that hold slots meet. The layered model leaves nearly all of it out, and what slots are
/// held longer for comes on top: of the simulated cases in `tests/it/variation.rs` those within it keep
/// the stated error, and those beyond it are up to 86 % off.
const SHARE_MAX: f64 = 0.25;

/// A station of a layered model, its task, and the slots through which jobs come to it.
pub(super) struct Place {
    pub(super) station: usize,
    pub(super) task: usize,
    pub(super) slots: u64,
    /// Whether jobs come, too, that hold no slot.
    pub(super) is_free: bool,
}

/// Whether demands of several means or shapes meet in one queue, where the layered model is farther off
/// than with exponential demand of one mean.
///
/// `jobs` are those inside, and those of them that wait for a slot.
///
/// # Errors
/// If what a queue serves varies more than the layered model was tried with.
pub(super) fn check(
    network: &Network,
    places: &[Place],
    tasks: &[Task],
    found: &LayeredAnswer,
    (jobs, before_gates): (f64, f64),
) -> Result<bool, String> {
    let is_open = network.classes.iter().all(|class| matches!(class.load, Load::Open(_)));
    let (mut longer, mut shorter) = (0.0, 0.0);
    let mut differs = false;
    // Who waits for a slot of an open load does so for as long as slots are held; clients wait for no more
    // than each other.
    let before_gates = if is_open { before_gates } else { 0.0 };
    let (mut most, mut least) = (0.0_f64, 0.0_f64);
    for place in places {
        let station = &network.stations[place.station];
        let StationKind::Queue { servers } = station.kind else { continue };
        let with_slots = place.slots > 0 && (place.is_free || place.slots > u64::from(servers));
        if !with_slots && (is_open || !place.is_free) {
            // What comes from outside, one by one, is known however it varies; who has a slot and a server
            // of its own waits for nobody.
            continue;
        }
        let entries = &tasks[place.task].entries;
        let answers = &found.tasks[place.task].entries;
        let served: Vec<Served> = (entries.iter().zip(answers))
            .map(|(entry, answer)| Served::new(entry, answer.throughput, answer.hold[0]))
            .filter(|served| served.rate > 0.0)
            .collect();
        if served.is_empty() {
            continue;
        }
        differs |= served.windows(2).any(|pair| !pair[0].is_like(&pair[1]));
        let scv = together(&served);
        if scv > SCV_MAX + 1e-9 {
            return Err(format!(
                "what `{}` serves in all varies more than the layered model was tried with: a squared \
                 coefficient of variation of {scv:.1}, and {SCV_MAX} at the most",
                station.name
            ));
        }
        if with_slots {
            let waiting: f64 = served.iter().map(|of| of.rate * (of.time - of.mean)).sum();
            let more = 0.5 * (scv - 1.0);
            (most, least) = (most.max(more), least.min(more));
            longer += more.max(0.0) * waiting.max(0.0);
            shorter -= more.min(0.0) * waiting.max(0.0);
        }
    }
    longer += most * before_gates;
    shorter -= least * before_gates;
    let share = f64::max(longer / (jobs + longer), shorter / (jobs - shorter).max(0.0));
    if share > SHARE_MAX {
        return Err(format!(
            "demands that are not exponential, at queues that are gone to with a slot, may put the answer \
             {:.0} % off, and beyond {:.0} % the layered model is out of its range",
            (100.0 * share).min(999.0),
            100.0 * SHARE_MAX
        ));
    }
    Ok(differs)
}

/// What a queue serves of one kind.
struct Served {
    /// Visits [1/s].
    rate: f64,
    /// Mean demand \[s\].
    mean: f64,
    /// Squared coefficient of variation of the demand.
    scv: f64,
    /// Mean time there, with the wait \[s\].
    time: f64,
}

impl Served {
    fn new(entry: &Entry, rate: f64, time: f64) -> Served {
        let phase = &entry.phases[0];
        Served { rate, mean: phase.demand, scv: phase.scv, time }
    }

    fn is_like(&self, other: &Served) -> bool {
        (self.mean / other.mean - 1.0).abs() < 1e-6 && (self.scv - other.scv).abs() < 1e-6
    }
}

/// Squared coefficient of variation of all that is served.
fn together(served: &[Served]) -> f64 {
    let rate: f64 = served.iter().map(|of| of.rate).sum();
    let mean = served.iter().map(|of| of.rate * of.mean).sum::<f64>() / rate;
    let square = served.iter().map(|of| of.rate * of.mean * of.mean * (1.0 + of.scv));
    square.sum::<f64>() / rate / (mean * mean) - 1.0
}
