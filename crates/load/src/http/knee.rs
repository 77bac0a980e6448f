//! The knee: the highest open load at which a limit on the response time still holds.
//!
//! Three parts that know nothing of each other: [`Search`] says at which rate to try next, a pure
//! function of what was told; [`verdict`] says from a record whether the limit held; [`probe`] runs
//! the load. [`find`] ties them together through a closure, so that it can be tried on any system.
//!
//! ```
//! use load::http::knee::{Knee, KneeSpec, Outcome, find};
//!
//! // An M/M/1 queue with mu = 100/s: p99 of the sojourn is ln(100) / (mu - lambda).
//! let holds = |rate: f64| rate < 100.0 && 100.0_f64.ln() / (100.0 - rate) < 0.5;
//! let spec = KneeSpec { rate_first: 5.0, rate_min: 1.0, rate_max: 1e4, width: 0.05, probes_max: 40 };
//! let found = find(&spec, |probe| {
//!     Ok::<_, ()>(if holds(probe.rate) { Outcome::Holds } else { Outcome::Fails })
//! });
//! let Knee::Between { low, high } = found.unwrap().knee else { panic!("it has a knee") };
//! assert!(low < 90.79 && 90.79 < high && high <= 1.05 * low);
//! ```

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::{Batches, ErrorKind, Fault, GeneratorLimit, Interval, RunRecord, Until};
use thiserror::Error;
use workload::Arrivals;

use super::plan::{Load, Naming, Plan, PlanError, PlanSpec};
use super::run::{RunError, record};

/// A limit on the response time, such as p99 < 50 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The share of all requests, failed and unanswered ones included, that must be answered well
    /// within the limit; above 0 and below 1.
    pub quantile: f64,
    /// The limit.
    pub response: Duration,
    /// The largest share of requests that may fail, where that matters by itself.
    pub errors_max: Option<f64>,
}

/// Parameters of the search for a knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeSpec {
    /// The rate to begin with [1/s].
    pub rate_first: f64,
    /// No lower rate is tried [1/s].
    pub rate_min: f64,
    /// No higher rate is tried [1/s].
    pub rate_max: f64,
    /// The search ends when the upper end of the interval is at most this share above the lower.
    pub width: f64,
    /// It ends inconclusive after so many probes.
    pub probes_max: u32,
}

/// A rate to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Arrivals per second [1/s].
    pub rate: f64,
    /// Length as a multiple of a usual probe's: a rate that could not be decided is tried again
    /// with more effort.
    pub effort: u32,
}

/// Outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The limit holds, and the whole interval of what was measured is within it.
    Holds,
    /// It does not, and the whole interval is beyond it.
    Fails,
    /// The interval straddles the limit.
    Straddles,
    /// Nothing speaks against the limit, but so few requests were seen that a share as small as it
    /// allows cannot be told from none.
    TooFew,
    /// The generator was the limit: the probe says nothing about the server.
    Invalid,
}

/// Place of the knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// The limit holds at `low` and does not at `high`, each seen twice.
    Between {
        /// The highest rate at which it was seen to hold [1/s].
        low: f64,
        /// The lowest rate at which it was seen to fail [1/s].
        high: f64,
    },
    /// It holds even at the highest rate that may be tried.
    Above {
        /// That rate [1/s].
        low: f64,
    },
    /// It fails even at the lowest rate that may be tried.
    Below {
        /// That rate [1/s].
        high: f64,
    },
    /// It could not be narrowed down far enough.
    Inconclusive {
        /// The highest rate at which it was seen to hold [1/s].
        low: Option<f64>,
        /// The lowest rate above that at which it was seen to fail [1/s].
        high: Option<f64>,
        /// Why.
        why: Why,
    },
}

/// Why a search was inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The probes were used up.
    Probes,
    /// Between the two ends no probe could be decided, or probes contradicted each other.
    Noise,
    /// At the rates that matter too few requests were seen, however long they were probed.
    Few,
    /// The generator could not make the load.
    Generator,
}

/// A search and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Place of the knee.
    pub knee: Knee,
    /// Probes that were made, in order.
    pub probes: Vec<(Probe, Outcome)>,
}

/// Next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Try this, and [`tell`](Search::tell).
    Try(Probe),
    /// Nothing more.
    Finished(Knee),
}

/// A search for a knee: pure, told what came of each probe.
///
/// It doubles (or halves) the rate until the knee is enclosed, then halves the gap (geometrically).
/// A probe that straddles is repeated once with twice the effort; what straddles again is grey, and
/// so is a rate whose probes contradict each other. Then the gaps on both sides of the grey are
/// narrowed instead. Both ends are seen twice before they are believed. Where too few requests are seen
/// to tell, a higher rate shows more in the same time; below one that fails there is none, and there
/// it takes more effort.
#[derive(Clone, Debug)]
pub struct Search {
    spec: KneeSpec,
    told: Vec<(Probe, Outcome)>,
}

/// Verdict of all probes at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Colour {
    Holds {
        seen: u32,
    },
    Fails {
        seen: u32,
    },
    /// Told to straddle once: worth another try.
    Open {
        seen: u32,
    },
    /// So few requests so many times, and nothing else.
    Few {
        seen: u32,
    },
    Grey,
    Invalid,
}

/// The rates that matter: `low` holds, all of `grey` is undecided, `high` fails.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    low: Option<(f64, u32)>,
    grey: Option<(f64, f64)>,
    high: Option<(f64, u32)>,
}

/// Number of times that the outcome at an end must be seen.
const SEEN: u32 = 2;
/// Effort is doubled so many times for the sake of more requests.
const DOUBLED: u32 = 3;
/// A knee whose grey makes its interval wider than this many times the wanted width is none.
const GREY_WIDTHS: f64 = 4.0;

impl Search {
    /// A search that knows nothing yet.
    pub fn new(spec: KneeSpec) -> Search {
        Search { spec, told: Vec::new() }
    }

    /// Takes note of what came of a probe.
    pub fn tell(&mut self, probe: Probe, outcome: Outcome) {
        self.told.push((probe, outcome));
    }

    /// Next step.
    pub fn next(&self) -> Step {
        let spec = &self.spec;
        let ends = self.ends();
        if self.rates().iter().any(|&(_, colour)| colour == Colour::Invalid) {
            return self.give_up(ends, Why::Generator);
        }
        let step = self.step(ends);
        match step {
            Step::Try(_) if self.told.len() as u32 >= spec.probes_max => {
                self.give_up(ends, Why::Probes)
            }
            step => step,
        }
    }

    fn step(&self, ends: Ends) -> Step {
        let spec = &self.spec;
        let at = |rate: f64| match self.colour(rate) {
            Colour::Few { seen } if seen > DOUBLED => self.give_up(ends, Why::Few),
            Colour::Few { seen } => Step::Try(Probe { rate, effort: 1 << seen }),
            _ => Step::Try(Probe { rate, effort: 1 }),
        };
        if self.told.is_empty() {
            return at(spec.rate_first.clamp(spec.rate_min, spec.rate_max));
        }
        if let Some(&(rate, Colour::Open { seen })) =
            self.rates().iter().find(|(_, colour)| matches!(colour, Colour::Open { .. }))
        {
            return Step::Try(Probe { rate, effort: 1 << seen.min(3) });
        }
        let lowest_bad = ends.grey.map(|grey| grey.0).or(ends.high.map(|high| high.0));
        let highest_good = ends.grey.map(|grey| grey.1).or(ends.low.map(|low| low.0));
        let few = self.few_below(lowest_bad.unwrap_or(f64::INFINITY));
        let (low, high) = match (ends.low, ends.high) {
            (None, _) => match (few, lowest_bad) {
                (Some(few), None) if few < spec.rate_max => {
                    return at((few * 2.0).min(spec.rate_max));
                }
                (Some(few), _) => return at(few),
                (None, Some(bad)) if bad > spec.rate_min => {
                    return at((bad / 2.0).max(spec.rate_min));
                }
                _ => return self.edge(ends),
            },
            (_, None) => match highest_good {
                Some(good) if good < spec.rate_max => return at((good * 2.0).min(spec.rate_max)),
                _ => return self.edge(ends),
            },
            (Some(low), Some(high)) => (low, high),
        };
        // The gaps that hold no probe: one, or one on each side of the grey.
        let (below, above) = ends.grey.unwrap_or((high.0, high.0));
        let share = if ends.grey.is_some() { spec.width / 2.0 } else { spec.width };
        if below > low.0 * (1.0 + share) {
            return at((low.0 * below).sqrt());
        }
        if high.0 > above * (1.0 + share) {
            return at((above * high.0).sqrt());
        }
        match [low, high].into_iter().find(|end| end.1 < SEEN) {
            Some((rate, seen)) => Step::Try(self.again(rate, seen)),
            None if high.0 <= low.0 * (1.0 + GREY_WIDTHS * spec.width) => {
                Step::Finished(Knee::Between { low: low.0, high: high.0 })
            }
            None => self.give_up(ends, Why::Noise),
        }
    }

    /// One side has no end within the rates that may be tried.
    fn edge(&self, ends: Ends) -> Step {
        let confirm =
            |(rate, seen): (f64, u32)| (seen < SEEN).then_some(Step::Try(self.again(rate, seen)));
        match (ends.low, ends.grey, ends.high) {
            (Some(low), None, None) => {
                confirm(low).unwrap_or(Step::Finished(Knee::Above { low: low.0 }))
            }
            (None, None, Some(high)) => {
                confirm(high).unwrap_or(Step::Finished(Knee::Below { high: high.0 }))
            }
            _ => self.give_up(ends, Why::Noise),
        }
    }

    /// The highest rate below this one at which too few requests were seen.
    fn few_below(&self, rate: f64) -> Option<f64> {
        let few = |&(at, colour): &(f64, Colour)| at < rate && matches!(colour, Colour::Few { .. });
        self.rates().into_iter().rev().find(few).map(|(at, _)| at)
    }

    /// The probe that sees an end once more, with as many requests as it took.
    fn again(&self, rate: f64, seen: u32) -> Probe {
        let few = self.told.iter().any(|(at, told)| at.rate == rate && *told == Outcome::TooFew);
        let most =
            self.told.iter().filter(|(at, _)| at.rate == rate).map(|(at, _)| at.effort).max();
        Probe { rate, effort: most.filter(|_| few).unwrap_or(seen) }
    }

    fn give_up(&self, ends: Ends, why: Why) -> Step {
        let (low, high) = (ends.low.map(|end| end.0), ends.high.map(|end| end.0));
        Step::Finished(Knee::Inconclusive { low, high, why })
    }

    /// Each rate that was tried, lowest first, with its colour.
    fn rates(&self) -> Vec<(f64, Colour)> {
        let mut rates: Vec<f64> = self.told.iter().map(|(probe, _)| probe.rate).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates.into_iter().map(|rate| (rate, self.colour(rate))).collect()
    }

    fn colour(&self, rate: f64) -> Colour {
        let count = |wanted: Outcome| {
            let hit = |told: &&(Probe, Outcome)| told.0.rate == rate && told.1 == wanted;
            self.told.iter().filter(hit).count() as u32
        };
        let (holds, fails) = (count(Outcome::Holds), count(Outcome::Fails));
        let (straddles, invalid) = (count(Outcome::Straddles), count(Outcome::Invalid));
        let few = count(Outcome::TooFew);
        match (holds, fails) {
            // The machine may have been busy with something else, once.
            (0, 0) if invalid > 1 => Colour::Invalid,
            (0, 0) if straddles > 1 || straddles > 0 && few > 0 => Colour::Grey,
            (0, 0) if few > 0 => Colour::Few { seen: few },
            (0, 0) => Colour::Open { seen: straddles },
            (1.., 1..) => Colour::Grey,
            // A decision after a doubt, made with more effort, outweighs it; two doubts do not fall.
            _ if straddles > 1 => Colour::Grey,
            (seen, 0) => Colour::Holds { seen },
            (0, seen) => Colour::Fails { seen },
        }
    }

    fn ends(&self) -> Ends {
        let rates = self.rates();
        let mut doubtful = rates.iter().filter(|(_, colour)| *colour == Colour::Grey);
        let first = doubtful.next().map(|&(rate, _)| rate);
        let last = doubtful.next_back().map(|&(rate, _)| rate).or(first);
        let grey = first.zip(last);
        let clear_of = |rate: f64| grey.is_none_or(|(from, to)| rate < from || rate > to);
        let mut ends = Ends { grey, ..Ends::default() };
        for &(rate, colour) in &rates {
            match colour {
                Colour::Holds { seen } if clear_of(rate) => ends.low = Some((rate, seen)),
                Colour::Fails { seen } if clear_of(rate) && ends.high.is_none() => {
                    ends.high = Some((rate, seen));
                }
                _ => {}
            }
        }
        // A rate that holds above the grey, with nothing that fails below it, proves the grey good;
        // and the other way round.
        if let (Some((low, _)), Some((_, to))) = (ends.low, grey)
            && low > to
        {
            ends.grey = None;
        }
        if let (Some((high, _)), Some((from, _))) = (ends.high, grey)
            && high < from
        {
            ends.grey = None;
        }
        ends
    }
}

/// Looks for a knee with whatever `probe` does.
///
/// # Errors
/// If `probe` fails: that ends the search.
pub fn find<E>(
    spec: &KneeSpec,
    mut probe: impl FnMut(Probe) -> Result<Outcome, E>,
) -> Result<Found, E> {
    let mut search = Search::new(*spec);
    loop {
        match search.next() {
            Step::Finished(knee) => return Ok(Found { knee, probes: search.told }),
            Step::Try(next) => {
                let outcome = probe(next)?;
                search.tell(next, outcome);
            }
        }
    }
}

/// Why a probe could not be made.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The plan was for a closed load, in which nobody arrives.
    #[error("a knee is a rate of arrivals: it needs an open load, not {0} clients")]
    Closed(
        /// Number of clients in the plan.
        u32,
    ),
    /// The plan's load changes by itself.
    #[error("a knee is one rate of arrivals: it needs a steady load, not one that varies")]
    Varying,
    /// The plan does not hold at this rate.
    #[error(transparent)]
    Plan(
        /// Why.
        #[from]
        PlanError,
    ),
    /// The run could not begin.
    #[error(transparent)]
    Run(
        /// Why.
        #[from]
        RunError,
    ),
}

/// Runs one probe of `length` (times its effort), and a quarter more as warm-up, with Poisson or
/// fixed arrivals as in `base`. Its seed is that of `base` and the number of the probe, so that no
/// two probes see the same chance.
///
/// # Errors
/// If the plan is not open, or cannot be run.
pub fn probe(
    base: &PlanSpec,
    at: Probe,
    number: u64,
    length: Duration,
    interrupt: &AtomicBool,
    sink: &mut dyn FnMut(&Interval),
) -> Result<RunRecord, ProbeError> {
    let mut spec = base.clone();
    spec.load = match base.load {
        Load::Closed { clients, .. } => return Err(ProbeError::Closed(clients)),
        Load::Open { arrivals, in_flight_max } => {
            Load::Open { arrivals: at_rate(arrivals, at.rate), in_flight_max }
        }
        Load::Varying { .. } => return Err(ProbeError::Varying),
    };
    let length = length * at.effort;
    spec.until = Until::Seconds(length.as_secs_f64());
    spec.warmup = length / 4;
    // Twenty intervals, so that their correlation shows.
    spec.interval = (length / 20).max(Duration::from_millis(50));
    spec.seed = base.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let plan = Plan::new(spec)?;
    let naming = Naming {
        id: format!("probe-{number}"),
        started: String::new(),
        tool: String::new(),
        command: Vec::new(),
    };
    Ok(record(&plan, naming, interrupt, sink)?)
}

fn at_rate(arrivals: Arrivals, rate: f64) -> Arrivals {
    match arrivals {
        Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
        Arrivals::Fixed { .. } => Arrivals::Fixed { rate },
    }
}

/// Confidence of a verdict.
const CONFIDENCE: f64 = 0.95;
/// So many requests must be allowed to be late before their share can be told.
const LATE_MIN: f64 = 10.0;

/// Verdict on the limit in a run. A request that failed, or was not answered by the end although
/// the limit had passed, is late. The interval of the share of late ones is the wider of batch
/// means over the run's intervals (neighbours wait together) and the binomial one.
pub fn verdict(record: &RunRecord, limit: &Limit) -> Outcome {
    if generator_failed(record, limit) {
        return Outcome::Invalid;
    }
    let steady = record.steady();
    let limit_nanos = u64::try_from(limit.response.as_nanos()).unwrap_or(u64::MAX);
    let (mut late, mut failed, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for interval in steady {
        let (mut over, mut errors, mut ended) = (0, 0, 0);
        for class in &interval.classes {
            let beyond = |&(value, _): &(u64, u64)| value > limit_nanos;
            over += class.total.counts().filter(beyond).map(|(_, count)| count).sum::<u64>();
            errors += class.errors.values().sum::<u64>();
            ended += class.completed;
        }
        late.push((over + errors) as f64);
        failed.push(errors as f64);
        all.push((ended + errors) as f64);
    }
    let unanswered = unanswered(record, limit);
    if let (Some(late), Some(all)) = (late.last_mut(), all.last_mut()) {
        *late += unanswered;
        *all += unanswered;
    }
    let total: f64 = all.iter().sum();
    let allowed = 1.0 - limit.quantile;
    let mut outcome = share_verdict(&late, &all, allowed);
    // However few they are: if all requests are late, that is enough to know.
    let none_late = late.iter().all(|late| *late == 0.0);
    let may_hold = outcome == Outcome::Holds || outcome == Outcome::Straddles && none_late;
    if may_hold && total * allowed < LATE_MIN {
        outcome = Outcome::TooFew;
    }
    match limit.errors_max.map(|errors_max| share_verdict(&failed, &all, errors_max)) {
        Some(Outcome::Fails) => Outcome::Fails,
        Some(Outcome::Straddles) if outcome == Outcome::Holds => Outcome::Straddles,
        _ => outcome,
    }
}

/// Requests that were begun, had not ended at the end, and are more than the last limit's worth of
/// arrivals: so many are late for sure.
fn unanswered(record: &RunRecord, limit: &Limit) -> f64 {
    let (mut started, mut ended, mut length_s) = (0, 0, 0.0);
    for interval in &record.intervals {
        started += interval.started;
        length_s += interval.length_s;
        for class in &interval.classes {
            ended += class.completed + class.errors.values().sum::<u64>();
        }
    }
    if length_s <= 0.0 {
        return 0.0;
    }
    let recent = started as f64 / length_s * limit.response.as_secs_f64();
    (started.saturating_sub(ended) as f64 - recent - 4.0 * recent.sqrt()).max(0.0)
}

fn share_verdict(hits: &[f64], all: &[f64], allowed: f64) -> Outcome {
    // Intervals without a request say nothing.
    let seen: Vec<usize> = (0..all.len()).filter(|&at| all[at] > 0.0).collect();
    if seen.len() < 5 {
        return Outcome::Straddles;
    }
    let pick = |of: &[f64]| seen.iter().map(|&at| of[at]).collect::<Vec<f64>>();
    let estimate = Batches::of_ratio(&pick(hits), &pick(all), CONFIDENCE).estimate;
    let total: f64 = all.iter().sum();
    let share = estimate.mean.clamp(0.0, 1.0);
    let binomial = 1.96 * (share * (1.0 - share) / total).sqrt();
    let half_width = estimate.half_width.max(binomial);
    if share + half_width <= allowed {
        Outcome::Holds
    } else if share - half_width > allowed {
        Outcome::Fails
    } else {
        Outcome::Straddles
    }
}

/// True if it was the generator that was measured. Its lag only matters against the limit here.
fn generator_failed(record: &RunRecord, limit: &Limit) -> bool {
    record.judge(CONFIDENCE).faults.iter().any(|fault| match fault {
        Fault::Generator(GeneratorLimit::Lag { p99, .. }) => *p99 > limit.response / 10,
        Fault::Generator(GeneratorLimit::Connect { .. }) => {
            record.steady().iter().any(|interval| {
                interval
                    .classes
                    .iter()
                    .any(|class| class.errors.contains_key(&ErrorKind::ConnectOther))
            })
        }
        Fault::Generator(_) => true,
        _ => false,
    })
}

#[cfg(test)]
#[path = "knee_tests.rs"]
mod tests;
