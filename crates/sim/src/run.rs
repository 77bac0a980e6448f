//! Replications, or one long run, until the answer is as precise as was asked for.

use std::fmt;

use gate::Time;
use measure::{Estimate, Parts};

use crate::balance;
use crate::network::{CUSTOMERS_MAX, Network, NetworkError, NetworkFault};
use crate::observation::{Batch, Observation};
use crate::outcome::{Estimates, Outcome, Stop, gather, intervals};
use crate::program::{Op, Program};
use crate::replication::Replication;
use crate::sequential::InterimAnalyses;
use crate::warmup::{self, Warmup};

/// Basis of the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// So many independent replications, 2 to 10 000, each with a warm-up of its own: nothing is
    /// assumed, and they run at the same time.
    Replications(u32),
    /// One long run, cut into batches: one warm-up for all, for networks that settle slowly. Batches grow
    /// until the correlation of neighbours is not significant ([`measure::Batches`]). Not with an agenda,
    /// and not for networks that are compared.
    OneRun,
}

impl Plan {
    /// Number of runs.
    pub fn runs(self) -> u32 {
        match self {
            Plan::Replications(n) => n,
            Plan::OneRun => 1,
        }
    }

    /// Share of one run where each replication does `each`: as much as 10 of them.
    pub(crate) fn share(self, each: u64) -> u64 {
        match self {
            Plan::Replications(_) => each,
            Plan::OneRun => 10 * each,
        }
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of all chance; the same seed gives the same outcome on any number of threads.
    pub seed: u64,
    /// Basis of the intervals: replications or one long run.
    pub plan: Plan,
    /// Stop when the half-width of every class's mean response time is below this share of it.
    pub precision: f64,
    /// The confidence of all intervals, between 0 and 1.
    pub confidence: f64,
    /// Stop at the latest after about so many requests, completed or refused, in all.
    pub completions_max: u64,
    /// More jobs of open classes than this at once in the network count as a queue that grows
    /// without end; at most 2^24.
    pub jobs_max: u32,
    /// Number of threads that may run replications; `None` for one a processor.
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
            plan: Plan::Replications(10),
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
        /// The place of most of them.
        place: String,
    },
    /// Events follow one another without time going on.
    Standstill {
        /// When, in virtual time.
        at: Time,
    },
    /// The run reached the end of the clock, 292 years of virtual time.
    ClockEnds,
    /// Jobs are in the network, but nothing will ever happen.
    Deadlock {
        /// When, in virtual time.
        at: Time,
        /// The place of most of them.
        place: String,
    },
}

impl SimError {
    /// The place at which open jobs pile up without end, if that is why: with less load, more
    /// capacity or a bounded queue there would be an answer.
    pub fn overloaded(&self) -> Option<&str> {
        match self {
            SimError::Unbounded { place, .. } => Some(place),
            SimError::Network(NetworkError { place, fault: NetworkFault::Overloaded, .. }) => {
                Some(place)
            }
            _ => None,
        }
    }
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
                "the clock ends after 292 years of virtual time: give times in a larger unit (1 s for an \
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

/// Requests of a replication up to the first interim analysis.
const FIRST_ROUND: u64 = 2_000;
/// Batches of one run at the least; merged in pairs when they are twice as many. Law's 20 to 40 and
/// room for growth where neighbours are correlated.
const BATCHES: u64 = 64;
/// Relaxation times that must be counted at the least, by replications and in one run: a mean over fewer is
/// skewed, and a run stops where it and its interval are small together; 40 batches of five each are
/// hardly correlated.
const RELAXATIONS: (f64, f64) = (100.0, 200.0);

/// Simulates a network until the answer is precise, or the budget is used up.
///
/// Each run first runs a pilot, until its responses, averaged over the replications, tell nothing of the
/// start any more (MSER-5; White 1997), until five times as many jobs have left as are in flight, in each class, and for
/// three times as long as the slowest queue needs to forget that it was empty. The whole pilot is left
/// out. Then the runs go on, at first as far again, then twice as far each time, until as much leaves as
/// arrives and stations are as busy as their work makes them, and the interval over
/// the means of replications or batches is narrow enough, and batches are not correlated any more (sequential stopping with the correction of Law and Kelton: a relative
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
    let mut experiment = Experiment::warm(&program, options)?;
    experiment.count_from_here();
    loop {
        experiment.next_round()?;
        let estimates = experiment.estimates();
        if let Some(stop) = experiment.ends(&estimates) {
            return Ok(experiment.outcome(estimates, stop));
        }
    }
}

/// The replications of one network on their way.
pub(crate) struct Experiment<'p> {
    program: &'p Program,
    options: &'p Options,
    pub(crate) replications: Vec<Replication<'p>>,
    pub(crate) warmup: Warmup,
    /// Requests of each run counted so far.
    done: u64,
    /// Counts of one run, in order; none of replications, which count on.
    batches: Vec<Batch>,
    analyses: InterimAnalyses,
}

impl<'p> Experiment<'p> {
    /// At the end of the warm-up.
    pub(crate) fn warm(
        program: &'p Program,
        options: &'p Options,
    ) -> Result<Experiment<'p>, SimError> {
        let mut replications: Vec<Replication<'p>> = (0..u64::from(options.plan.runs()))
            .map(|index| Replication::new(program, options, index))
            .collect();
        // By an agenda everything counts, from the start: nothing is claimed beyond its time.
        let warmup = match program.agenda {
            Some(_) => Warmup { requests: 0, found: true, short: None },
            None => warmup::run(&mut replications, options, program)?,
        };
        let batches = Vec::new();
        let analyses = InterimAnalyses::default();
        Ok(Experiment { program, options, replications, warmup, done: 0, batches, analyses })
    }

    /// Makes the warm-up longer: networks that are compared leave out the same requests.
    pub(crate) fn warm_to(&mut self, requests: u64) -> Result<(), SimError> {
        if self.program.agenda.is_some() {
            return Ok(());
        }
        if let Some(more @ 1..) = requests.checked_sub(self.warmup.requests) {
            each(&mut self.replications, self.options, |replication| replication.run(more))?;
            self.warmup.requests = requests;
        }
        Ok(())
    }

    pub(crate) fn count_from_here(&mut self) {
        if self.program.agenda.is_some() {
            return;
        }
        self.replications.iter_mut().for_each(Replication::reset);
    }

    /// The most requests of a replication that are counted.
    fn each_max(&self) -> u64 {
        each_max(self.options)
    }

    /// Runs every replication on: as far again as it has come, within the budget; by an agenda, to
    /// its end.
    pub(crate) fn next_round(&mut self) -> Result<(), SimError> {
        if self.program.agenda.is_some() {
            if !self.is_spent() {
                each(&mut self.replications, self.options, Replication::run_agenda)?;
                self.done = self.each_max();
            }
            return Ok(());
        }
        let round = match self.done {
            // As long as the warm-up at the least: what takes long to settle takes long to tell.
            0 => {
                self.options.plan.share(FIRST_ROUND).max(self.warmup.requests).min(self.each_max())
            }
            done => done.min(self.each_max() - done),
        };
        // Growth is looked for in the later half of what is counted. A last round that the budget cuts
        // shorter than that keeps the mark of the round before.
        if 2 * round >= self.done {
            self.replications.iter_mut().for_each(Replication::mark);
        }
        match self.options.plan {
            Plan::Replications(_) => {
                each(&mut self.replications, self.options, |replication| replication.run(round))?;
            }
            Plan::OneRun => self.next_batches(round)?,
        }
        self.done += round;
        Ok(())
    }

    /// Runs on in batches as long as those before; between rounds there are [`BATCHES`] to twice as many.
    fn next_batches(&mut self, requests: u64) -> Result<(), SimError> {
        let batches = match self.batches.len() as u64 {
            0 => BATCHES,
            before => (before * requests / self.done).max(1),
        };
        let run = &mut self.replications[0];
        for at in 0..batches {
            // The differences add up to `requests`, whatever the division leaves over.
            run.run(requests * (at + 1) / batches - requests * at / batches)?;
            self.batches.push(Batch::take(run));
        }
        if self.batches.len() as u64 >= 2 * BATCHES {
            self.batches = Batch::merge_pairs(std::mem::take(&mut self.batches));
        }
        let batches = self.batches.len() as u64;
        assert!((BATCHES..2 * BATCHES).contains(&batches), "{batches} batches after a round");
        Ok(())
    }

    /// True if the budget is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.done >= self.each_max()
    }

    /// The end of the run with what was found; none if it goes on.
    pub(crate) fn ends(&self, estimates: &Estimates) -> Option<Stop> {
        match () {
            () if self.program.agenda.is_some() => Some(Stop::Agenda),
            () if self.is_precise(estimates) => Some(Stop::Precise),
            () if self.is_spent() => Some(Stop::Budget),
            () => None,
        }
    }

    /// True if the intervals are narrow enough, and nothing piles up.
    pub(crate) fn is_precise(&self, estimates: &Estimates) -> bool {
        let settled = !self.replications.iter().any(|run| run.piles_up(self.done));
        let settled = settled && estimates.unsettled.is_none();
        let is_long = estimates.counted_s >= self.counted_least_s();
        settled
            && is_long
            && !estimates.correlated
            && precise(self.program, estimates, self.options.precision)
    }

    /// The virtual time that must be counted in all at the least \[s\].
    fn counted_least_s(&self) -> f64 {
        let relaxations = match self.options.plan {
            Plan::Replications(_) => RELAXATIONS.0,
            Plan::OneRun => RELAXATIONS.1,
        };
        relaxations * self.program.relaxation_s
    }

    pub(crate) fn estimates(&mut self) -> Estimates {
        let (mut estimates, unsettled) = self.estimates_now();
        if self.program.agenda.is_none() {
            self.analyses.widen(self.done, &mut estimates);
        }
        match unsettled {
            Some(why) => estimates.unknown(why),
            None => estimates,
        }
    }

    /// Estimates of this interim analysis, and the reason if there is no steady state.
    fn estimates_now(&mut self) -> (Estimates, Option<String>) {
        match self.options.plan {
            Plan::Replications(_) => {
                let spans: Vec<f64> =
                    self.replications.iter_mut().map(Replication::accumulate).collect();
                let observations = self.replications.iter().zip(spans);
                let observations: Vec<Observation<'_>> =
                    observations.map(|(run, span)| Observation::of(run, span)).collect();
                self.gathered(&observations, Parts::Independent)
            }
            Plan::OneRun => {
                let observations: Vec<Observation<'_>> =
                    self.batches.iter().map(Batch::observation).collect();
                self.gathered(&observations, Parts::Neighbours)
            }
        }
    }

    fn gathered(
        &self,
        observations: &[Observation<'_>],
        relation: Parts,
    ) -> (Estimates, Option<String>) {
        let estimates = gather(self.program, observations, relation, self.options.confidence);
        // By an agenda no steady state is claimed.
        let unsettled = match self.program.agenda {
            Some(_) => None,
            None => self
                .warmup
                .short
                .clone()
                .or_else(|| balance::imbalance(self.program, observations, relation)),
        };
        (estimates, unsettled)
    }

    /// The whole outcome of what was found so far. The recording is there at the end only.
    pub(crate) fn outcome(&mut self, estimates: Estimates, stop: Stop) -> Outcome {
        let Estimates { classes, gates, stations, caches, counted_s, correlated, unsettled } =
            estimates;
        let intervals = match &self.program.agenda {
            Some(agenda) => {
                intervals(self.program, agenda, &self.replications, self.options.confidence)
            }
            None => Vec::new(),
        };
        Outcome {
            seed: self.options.seed,
            plan: self.options.plan,
            correlated,
            events: self.replications.iter().map(|replication| replication.events).sum(),
            warmup_completions: self.warmup.requests,
            warmup_found: self.warmup.found,
            unsettled,
            counted_s,
            counted_least_s: self.counted_least_s(),
            stop,
            classes,
            gates,
            stations,
            caches,
            intervals,
            recording: self.replications[0].recording.take().map(|(_, recording)| recording),
        }
    }
}

/// The most requests of a replication that are counted.
fn each_max(options: &Options) -> u64 {
    let plan = options.plan;
    (options.completions_max / u64::from(plan.runs())).max(plan.share(FIRST_ROUND))
}

/// Number of interim analyses before the budget is used up, at the most.
pub(crate) fn rounds_max(options: &Options) -> u32 {
    let rounds = each_max(options).div_ceil(options.plan.share(FIRST_ROUND));
    u64::BITS - (rounds - 1).leading_zeros() + 1
}

pub(crate) fn check(network: &Network, options: &Options) -> Result<(), SimError> {
    let must =
        |holds: bool, name, must| if holds { Ok(()) } else { Err(SimError::Option(name, must)) };
    if let Plan::Replications(n) = options.plan {
        must(n >= 2, "replications", "at least 2 are needed for an interval")?;
        must(n <= 10_000, "replications", "at most 10000")?;
    } else {
        let agenda = network.agenda.is_some();
        must(!agenda, "plan", "a run with an agenda ends: take replications, not one run")?;
    }
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

fn precise(program: &Program, estimates: &Estimates, precision: f64) -> bool {
    let target = precision / (1.0 + precision);
    let narrow = |response: &Estimate| response.half_width <= target * response.mean.abs();
    // Where jobs change their class, it may be that none ends as the class that it began as.
    let changes = program.ops.iter().any(|op| matches!(op, Op::Become { .. }));
    estimates.classes.iter().all(|class| class.response.as_ref().map_or(changes, narrow))
        && estimates.classes.iter().any(|class| class.response.is_some())
}

/// Does the same with every replication, on as many threads as there may be. The order in which they
/// finish changes nothing: each is a world of its own.
pub(crate) fn each<'p>(
    replications: &mut [Replication<'p>],
    options: &Options,
    what: impl Fn(&mut Replication<'p>) -> Result<(), SimError> + Sync,
) -> Result<(), SimError> {
    for_each(replications, threads(options), what)
}

/// Number of threads that may be used.
pub(crate) fn threads(options: &Options) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    options.threads.unwrap_or_else(processors)
}

/// Does the same with every item, in order, on so many threads at the most; after an error no more
/// are begun, and of several errors that of the first item is returned.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn for_each<T: Send>(
    items: &mut [T],
    threads: usize,
    what: impl Fn(&mut T) -> Result<(), SimError> + Sync,
) -> Result<(), SimError> {
    use std::sync::Mutex;

    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter_mut().try_for_each(what);
    }
    let left = Mutex::new(items.iter_mut().enumerate());
    let failed: Mutex<Option<(usize, SimError)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no thread panics with it").next();
                    let Some((at, item)) = next else { return };
                    // They are handed out in order: all before the one that failed are on their way.
                    if failed.lock().expect("no thread panics with it").is_some() {
                        return;
                    }
                    if let Err(error) = what(item) {
                        let mut failed = failed.lock().expect("no thread panics with it");
                        // The error of the first item, whichever thread was faster.
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
pub(crate) fn for_each<T>(
    items: &mut [T],
    _threads: usize,
    what: impl Fn(&mut T) -> Result<(), SimError>,
) -> Result<(), SimError> {
    items.iter_mut().try_for_each(what)
}
