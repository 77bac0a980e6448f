//! Likely causes where runs do not fit a model, as far as their records show them: noise, work of others
//! on the machine, a generator that takes what the server needs, connections that the server closes.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::discriminant;

use measure::{LoadShape, RunRecord};

/// A likely cause, seen in one run or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Clients of the runs that show it, each number once, fewest first.
    pub clients: BTreeSet<u32>,
    /// The kind, with the number that shows it most.
    pub kind: CauseKind,
}

/// Kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CauseKind {
    /// The interval of the throughput is wide: its half as a share.
    Noise(f64),
    /// The throughput varies between intervals far more than by chance: its coefficient of variation.
    Elsewhere(f64),
    /// A thread of the generator is busy for so much of the time, as a share.
    Generator(f64),
    /// So many connections were opened for each request although they were to be kept.
    Closed(f64),
    /// So many requests failed, as a share.
    Failed(f64),
}

/// Half an interval of the throughput beyond which a run tells little.
const NOISE: f64 = 0.10;
/// Variation between intervals that is more than a server's own.
const VARIATION: f64 = 0.15;
/// Standard deviations of chance that are no sign of others.
const CHANCE: f64 = 4.0;
/// Share of time in which a busy thread may be what is measured.
const BUSY: f64 = 0.6;
/// Connections a request beyond which the server closes them.
const CONNECTS: f64 = 0.5;
/// Share of requests that may fail.
const FAILED: f64 = 1e-3;

impl CauseKind {
    /// The number that shows it.
    fn size(self) -> f64 {
        match self {
            CauseKind::Noise(size)
            | CauseKind::Elsewhere(size)
            | CauseKind::Generator(size)
            | CauseKind::Closed(size)
            | CauseKind::Failed(size) => size,
        }
    }
}

/// The likely causes in these runs, each once, in the order in which the runs show them.
pub fn causes(runs: &[RunRecord]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for run in runs {
        let LoadShape::Closed { clients, .. } = run.header.load else { continue };
        for kind in of_run(run) {
            let same = |cause: &&mut Cause| discriminant(&cause.kind) == discriminant(&kind);
            match causes.iter_mut().find(same) {
                Some(cause) => {
                    cause.clients.insert(clients);
                    if kind.size() > cause.kind.size() {
                        cause.kind = kind;
                    }
                }
                None => causes.push(Cause { clients: BTreeSet::from([clients]), kind }),
            }
        }
    }
    causes
}

fn of_run(run: &RunRecord) -> Vec<CauseKind> {
    let all = run.judge(0.95).all;
    let mut kinds = Vec::new();
    let variation = variation(run).filter(|(seen, chance)| *seen > VARIATION.max(CHANCE * chance));
    match variation {
        Some((seen, _)) => kinds.push(CauseKind::Elsewhere(seen)),
        // A run of one interval has none of its own.
        None if all.throughput.relative() > NOISE => {
            kinds.push(CauseKind::Noise(all.throughput.relative().min(1.0)));
        }
        None => {}
    }
    kinds.extend(busiest(run).filter(|share| *share > BUSY).map(CauseKind::Generator));
    let steady = run.steady();
    let begun: u64 = steady.iter().map(|interval| interval.started).sum();
    let connects: u64 = steady.iter().map(|interval| interval.connects).sum();
    let kept = run.header.settings.get("keep-alive").is_some_and(|kept| kept == "on");
    let each = connects as f64 / begun.max(1) as f64;
    kinds.extend((kept && each > CONNECTS).then_some(CauseKind::Closed(each)));
    let failed = all.failed();
    let share = failed as f64 / (failed + all.completed).max(1) as f64;
    kinds.extend((share > FAILED).then_some(CauseKind::Failed(share)));
    kinds
}

/// Coefficient of variation of the completions of an interval, and that of chance alone.
fn variation(run: &RunRecord) -> Option<(f64, f64)> {
    let longest = run.steady().iter().map(|interval| interval.length_s).fold(0.0, f64::max);
    let whole = run.steady().iter().filter(|interval| interval.length_s > 0.5 * longest);
    let rate = |interval: &measure::Interval| {
        let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
        completed as f64 / interval.length_s
    };
    let rates: Vec<f64> = whole.map(rate).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    if rates.len() < 3 || mean <= 0.0 {
        return None;
    }
    let square: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    Some(((square / (count - 1.0)).sqrt() / mean, 1.0 / (mean * longest).sqrt()))
}

/// Share of the time that the busiest thread of the generator was busy.
fn busiest(run: &RunRecord) -> Option<f64> {
    if run.header.settings.get("idle").is_some_and(|idle| idle == "spin") {
        return None;
    }
    let steady = run.steady();
    let length: f64 = steady.iter().map(|interval| interval.length_s).sum();
    let threads = steady.iter().map(|interval| interval.generator.thread_cpu_s.len()).max()?;
    let busy = |thread: usize| -> f64 {
        let of = steady.iter().filter_map(|interval| interval.generator.thread_cpu_s.get(thread));
        of.sum::<f64>() / length.max(1e-9)
    };
    (0..threads).map(busy).max_by(f64::total_cmp)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let percent = |share: f64| match self.clients.len() {
            1 => percent(share),
            _ => format!("up to {}", percent(share)),
        };
        let numbers: Vec<String> = self.clients.iter().map(u32::to_string).collect();
        let who = match &numbers[..] {
            [one] if one == "1" => "with 1 client".to_owned(),
            [first @ .., last] if !first.is_empty() => {
                format!("with {} and {last} clients", first.join(", "))
            }
            _ => format!("with {} clients", numbers.concat()),
        };
        match self.kind {
            CauseKind::Noise(half) => write!(
                f,
                "noise: {who} the throughput is known to {} only; measure longer",
                percent(half)
            ),
            CauseKind::Elsewhere(variation) => write!(
                f,
                "load from elsewhere: {who} the throughput varied by {} from interval to interval; \
                 measure again while nothing else uses the machine",
                percent(variation)
            ),
            CauseKind::Generator(busy) => write!(
                f,
                "threads: {who} a thread of the generator was busy {} of the time; give it more with \
                 `--threads`, and processors of its own with `--cpus` if the server runs beside it",
                percent(busy)
            ),
            CauseKind::Closed(each) => write!(
                f,
                "closed connections: {who} {} of the requests opened a connection, because the server \
                 closes them; that cost is part of the demand: let the server keep connections, or \
                 measure every run with `--no-keep-alive`",
                percent(each.min(1.0))
            ),
            CauseKind::Failed(share) => write!(
                f,
                "failures: {who} {}{:.2} % of the requests failed; what fails costs another time than what \
                 is answered",
                if self.clients.len() > 1 { "up to " } else { "" },
                100.0 * share
            ),
        }
    }
}
