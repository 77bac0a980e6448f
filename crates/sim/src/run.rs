//! Replications until the answer is as precise as was asked for.

use std::fmt;

use gate::Time;
use measure::Estimate;

use crate::network::{Agenda, Network, NetworkError};
use crate::outcome::{Found, Outcome, Stop, gather, intervals};
use crate::program::{Op, Program};
use crate::replication::{CUSTOMERS_MAX, Replication};

/// How a simulation is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all chance; the same seed gives the same outcome on any number of threads.
    pub seed: u64,
    /// Independent replications, at least 2; their means make the intervals.
    pub replications: u32,
    /// Stop when the half-width of every class's mean response time is below this share of it.
    pub precision: f64,
    /// The confidence of all intervals, between 0 and 1.
    pub confidence: f64,
    /// Stop at the latest after about so many requests, completed or refused, over all replications.
    pub completions_max: u64,
    /// More jobs of open classes than this at once in the network count as a queue that grows
    /// without end; at most 2^24.
    pub jobs_max: u32,
    /// How many threads may run replications; `None` for one a processor.
    pub threads: Option<usize>,
    /// Keep so many steps of this gate in the first replication: (gate, steps).
    pub record: Option<(usize, usize)>,
}

impl Default for Options {
    /// Seed 1, 10 replications, 2 % at 95 % confidence, at most 20 million requests, 100 000 jobs at
    /// once.
    fn default() -> Options {
        Options {
            seed: 1,
            replications: 10,
            precision: 0.02,
            confidence: 0.95,
            completions_max: 20_000_000,
            jobs_max: 100_000,
            threads: None,
            record: None,
        }
    }
}

/// Why a simulation gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SimError {
    /// The network cannot be run.
    Network(NetworkError),
    /// An option is out of range: its name and what must hold.
    Option(&'static str, &'static str),
    /// The jobs in the network grow without end.
    Unbounded {
        /// When it was noticed, in virtual time.
        at: Time,
        /// Where most of them are.
        place: String,
    },
    /// Events follow one another without time going on.
    Standstill {
        /// When, in virtual time.
        at: Time,
    },
    /// The run reached the end of the clock, 584 years of virtual time.
    ClockEnds,
    /// Jobs are in the network, but nothing will ever happen.
    Deadlock {
        /// When, in virtual time.
        at: Time,
        /// Where most of them are.
        place: String,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Network(error) => error.fmt(f),
            SimError::Option(name, must) => write!(f, "option `{name}`: {must}"),
            SimError::Unbounded { at, place } => write!(
                f,
                "{place}: its queue grows without end (noticed at {at}): lower the arrival rate, add \
                 capacity, or bound the queue; if so many jobs at once are right, raise `jobs_max`"
            ),
            SimError::Standstill { at } => write!(
                f,
                "time stands still at {at}: some jobs go round without ever being served, or are refused \
                 and come back at once; give them a think time or a demand above 0"
            ),
            SimError::ClockEnds => f.write_str(
                "the clock ends after 584 years of virtual time: give times in a larger unit (1 s for an \
                 hour, say), or ask for fewer completions",
            ),
            SimError::Deadlock { at, place } => write!(
                f,
                "{place}: at {at} jobs wait for each other and nothing will ever happen; look for gates \
                 that are entered in different orders"
            ),
        }
    }
}

impl std::error::Error for SimError {}

impl From<NetworkError> for SimError {
    fn from(error: NetworkError) -> SimError {
        SimError::Network(error)
    }
}

/// Requests of a replication after which the end of the warm-up is looked for first, and the most (or a
/// quarter of the budget).
const PILOT: (u64, u64) = (1_000, 128_000);
/// Requests of a replication after which the precision is looked at first.
const FIRST_ROUND: u64 = 2_000;

/// Simulates a network until the answer is precise, or the budget is used up.
///
/// Each replication first runs a pilot, whose responses, averaged over the replications, are searched
/// for the end of the warm-up (MSER-5; White 1997). The whole pilot is left out: at least twice what
/// the search would cut. Then the replications run on, twice as far each time, until the interval over
/// their means is narrow enough (sequential stopping with the correction of Law and Kelton: a relative
/// half-width of g / (1 + g) for a relative error of g).
///
/// With an agenda each replication begins empty and lasts as long as that says; precision and budget
/// then play no part.
///
/// # Errors
/// If the network or an option is impossible, or the network never settles.
pub fn run(network: &Network, options: &Options) -> Result<Outcome, SimError> {
    check(network, options)?;
    let program = Program::compile(network)?;
    let mut replications: Vec<Replication<'_>> = (0..u64::from(options.replications))
        .map(|index| Replication::new(&program, options, index))
        .collect();
    if let Some(agenda) = &program.agenda {
        return by_agenda(&program, agenda, replications, options);
    }
    let (warmup, warmup_found) = warm_up(&mut replications, options)?;
    let each_max = (options.completions_max / u64::from(options.replications)).max(FIRST_ROUND);
    let mut done = 0;
    let mut round = FIRST_ROUND;
    let (stop, found) = loop {
        each(&mut replications, options, |replication| replication.run(round))?;
        done += round;
        let found = gather(&program, &mut replications, options.confidence);
        let settled = !replications.iter().any(Replication::piles_up);
        if settled && precise(&program, &found, options.precision) {
            break (Stop::Precise, found);
        }
        if done >= each_max {
            break (Stop::Budget, found);
        }
        round = done.min(each_max - done);
    };
    Ok(outcome(found, replications, options, stop, (warmup, warmup_found)))
}

/// Every replication lasts as long as the agenda says: nothing is looked for, and nothing is claimed
/// beyond that time.
fn by_agenda(
    program: &Program,
    agenda: &Agenda,
    mut replications: Vec<Replication<'_>>,
    options: &Options,
) -> Result<Outcome, SimError> {
    each(&mut replications, options, Replication::run_agenda)?;
    let found = gather(program, &mut replications, options.confidence);
    let intervals = intervals(program, agenda, &replications, options.confidence);
    let outcome = outcome(found, replications, options, Stop::Agenda, (0, true));
    Ok(Outcome { intervals, ..outcome })
}

fn outcome(
    found: Found,
    mut replications: Vec<Replication<'_>>,
    options: &Options,
    stop: Stop,
    (warmup_completions, warmup_found): (u64, bool),
) -> Outcome {
    let Found { classes, gates, stations, caches, counted_s } = found;
    Outcome {
        seed: options.seed,
        replications: options.replications,
        events: replications.iter().map(|replication| replication.events).sum(),
        warmup_completions,
        warmup_found,
        counted_s,
        stop,
        classes,
        gates,
        stations,
        caches,
        intervals: Vec::new(),
        recording: replications[0].recording.take().map(|(_, recording)| recording),
    }
}

fn check(network: &Network, options: &Options) -> Result<(), SimError> {
    let must =
        |holds: bool, name, must| if holds { Ok(()) } else { Err(SimError::Option(name, must)) };
    must(options.replications >= 2, "replications", "at least 2 are needed for an interval")?;
    must(options.replications <= 10_000, "replications", "at most 10000")?;
    let precision = options.precision > 0.0 && options.precision.is_finite();
    must(precision, "precision", "it must be a number above 0")?;
    let confidence = options.confidence > 0.0 && options.confidence < 1.0;
    must(confidence, "confidence", "it must be between 0 and 1")?;
    let jobs = options.jobs_max > 0 && options.jobs_max as usize <= CUSTOMERS_MAX;
    must(jobs, "jobs_max", "at least 1, at most 2^24")?;
    must(options.threads != Some(0), "threads", "at least 1")?;
    let gate = options.record.is_none_or(|(gate, _)| gate < network.gates.len());
    must(gate, "record", "the gate to be recorded does not exist")
}

/// Runs the pilot and forgets it; returns its length and whether the warm-up ended within it.
fn warm_up(
    replications: &mut [Replication<'_>],
    options: &Options,
) -> Result<(u64, bool), SimError> {
    let (first, most) = PILOT;
    let most = most.min(options.completions_max / u64::from(options.replications) / 4).max(first);
    let mut length = 0;
    let mut step = first;
    replications.iter_mut().for_each(|replication| replication.responses = Some(Vec::new()));
    let found = loop {
        each(replications, options, |replication| replication.run(step))?;
        length += step;
        let found = measure::mser(&mean_series(replications), 5).is_some();
        if found || length >= most {
            break found;
        }
        step = length;
    };
    for replication in replications {
        replication.responses = None;
        replication.reset();
    }
    Ok((length, found))
}

/// The n-th response, averaged over the replications: what the start has in common stands out.
fn mean_series(replications: &[Replication<'_>]) -> Vec<f64> {
    let series = |replication: &Replication<'_>| replication.responses.as_ref().map_or(0, Vec::len);
    let length = replications.iter().map(series).min().unwrap_or(0);
    let mut mean = vec![0.0; length];
    for responses in replications.iter().filter_map(|replication| replication.responses.as_ref()) {
        for (sum, response) in mean.iter_mut().zip(responses) {
            *sum += response / replications.len() as f64;
        }
    }
    mean
}

fn precise(program: &Program, found: &Found, precision: f64) -> bool {
    let target = precision / (1.0 + precision);
    let narrow = |response: &Estimate| response.half_width <= target * response.mean.abs();
    // Where jobs change their class, it may be that none ends as the class that it began as.
    let changes = program.ops.iter().any(|op| matches!(op, Op::Become { .. }));
    found.classes.iter().all(|class| class.response.as_ref().map_or(changes, narrow))
        && found.classes.iter().any(|class| class.response.is_some())
}

/// Does the same with every replication, on as many threads as there may be. The order in which they
/// finish changes nothing: each is a world of its own.
#[cfg(not(target_family = "wasm"))]
fn each<'p>(
    replications: &mut [Replication<'p>],
    options: &Options,
    what: impl Fn(&mut Replication<'p>) -> Result<(), SimError> + Sync,
) -> Result<(), SimError> {
    use std::sync::Mutex;

    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.unwrap_or_else(processors).min(replications.len());
    if threads <= 1 {
        return replications.iter_mut().try_for_each(what);
    }
    let left = Mutex::new(replications.iter_mut().enumerate());
    let failed: Mutex<Option<(usize, SimError)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no thread panics with it").next();
                    let Some((at, replication)) = next else { return };
                    // They are handed out in order: all before the one that failed are on their way.
                    if failed.lock().expect("no thread panics with it").is_some() {
                        return;
                    }
                    if let Err(error) = what(replication) {
                        let mut failed = failed.lock().expect("no thread panics with it");
                        // The error of the first replication, whichever thread was faster.
                        if failed.as_ref().is_none_or(|(other, _)| at < *other) {
                            *failed = Some((at, error));
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("no thread panics with it") {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// In a browser there is one thread.
#[cfg(target_family = "wasm")]
fn each<'p>(
    replications: &mut [Replication<'p>],
    _options: &Options,
    what: impl Fn(&mut Replication<'p>) -> Result<(), SimError>,
) -> Result<(), SimError> {
    replications.iter_mut().try_for_each(what)
}
