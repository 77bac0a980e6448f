//! Several networks under the same chance, and what differs between them, with paired intervals.
//!
//! Replication k of every network draws from the same streams: the same arrivals, the same think
//! times, station by station the same services (common random numbers; Law, *Simulation Modeling and
//! Analysis*, section 11.2). What one replication has of luck, the others have too, and it falls out of the
//! difference. All networks leave out as many requests as warm-up, and count as many.

use measure::{Estimate, Histogram, Ratio};

use crate::network::Network;
use crate::outcome::{Estimates, Outcome, QUANTILES, Stop};
use crate::program::Program;
use crate::replication::Replication;
use crate::run::{Experiment, Options, Plan, SimError, check, rounds_max};
use crate::tally::ClassTally;

/// The requests that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of all classes together.
    All,
    /// Those of one class, an index into [`Network::classes`].
    Class(usize),
}

/// Quantities that can be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Completions [1/s].
    Throughput,
    /// Mean response time \[s\].
    Response,
    /// A quantile of the response times \[s\], by its q: 0.5, 0.9, 0.95, 0.99 or 0.999.
    Quantile(f64),
    /// Share of the requests that gates turned away, 0 to 1.
    Refused,
    /// Share of the requests that failed, 0 to 1: turned away by gates, lost at full stations, or left by clients who lost
    /// patience or waited no longer. One that is sent again is another one.
    Failed,
}

impl Quantity {
    /// The quantiles that are kept.
    pub const QUANTILES: [f64; 5] = QUANTILES;
}

/// Networks that were simulated side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Outcome of each of them, in the order in which they were given.
    pub outcomes: Vec<Outcome>,
    /// By network, by replication.
    summaries: Vec<Vec<Summary>>,
    confidence: f64,
    interim_analyses: u32,
}

/// Observations of one replication of one network: of all classes together, then of each.
#[derive(Clone, Debug)]
struct Summary(Vec<ClassSummary>);

#[derive(Clone, Debug)]
struct ClassSummary {
    throughput: f64,
    /// None where nothing was completed.
    response: Option<f64>,
    /// The ends of the bucket that each is in \[s\].
    quantiles: Option<[(f64, f64); QUANTILES.len()]>,
    refused: Option<f64>,
    failed: Option<f64>,
}

impl Comparison {
    /// A quantity of one network. `claims` is the number of intervals that shall hold together with
    /// the confidence asked for (Bonferroni); 1 for one alone. None where a replication saw no such
    /// request, or the quantile is not kept.
    ///
    /// A quantile is that of all replications together, and its interval that of the mean of their own, which
    /// are the two sides of a difference. Those of short replications are biased (p99 at M/M/1, rho 0.8, 2000
    /// requests each: 10 % low), which cancels in differences and ratios but not here: the interval reaches
    /// from the one to the other at the least.
    pub fn value(
        &self,
        network: usize,
        of: Of,
        quantity: Quantity,
        claims: u32,
    ) -> Option<Estimate> {
        let values = self.values(network, of, quantity)?;
        let mut estimate = Estimate::from_independent(&values.all, self.confidence_of(claims));
        let mut unresolved = values.unresolved;
        if let Quantity::Quantile(q) = quantity {
            let whole = self.whole(network, of, q);
            unresolved = unresolved.max((whole - estimate.mean).abs());
            estimate.mean = whole;
        }
        Some(self.known(&[network], unresolved, estimate))
    }

    /// A quantile of all replications of a network together \[s\].
    fn whole(&self, network: usize, of: Of, q: f64) -> f64 {
        let classes = &self.outcomes[network].classes;
        let (low, high) = match of {
            Of::Class(class) => classes[class].histogram.quantile_bounds(q),
            Of::All => {
                let mut all = Histogram::new();
                classes.iter().for_each(|class| all.merge(&class.histogram));
                all.quantile_bounds(q)
            }
        };
        f64::midpoint(low, high)
    }

    /// A quantity of network `to` less that of network `from`, replication by replication.
    pub fn difference(
        &self,
        (from, to): (usize, usize),
        of: Of,
        quantity: Quantity,
        claims: u32,
    ) -> Option<Estimate> {
        let (a, b) = (self.values(from, of, quantity)?, self.values(to, of, quantity)?);
        let differences: Vec<f64> = a.all.iter().zip(&b.all).map(|(a, b)| b - a).collect();
        let estimate = Estimate::from_independent(&differences, self.confidence_of(claims));
        Some(self.known(&[from, to], a.unresolved + b.unresolved, estimate))
    }

    /// The estimate, its interval not narrower than what is not told apart; without one where a network has
    /// no steady state so far.
    fn known(&self, networks: &[usize], unresolved: f64, estimate: Estimate) -> Estimate {
        let settled = networks.iter().all(|&at| self.outcomes[at].unsettled.is_none());
        let half_width = if settled { estimate.half_width.max(unresolved) } else { f64::INFINITY };
        Estimate { half_width, ..estimate }
    }

    /// A quantity of network `to` over that of network `from`, replication by replication; none if
    /// one of them is not above zero, too, or has no steady state so far.
    pub fn ratio(
        &self,
        (from, to): (usize, usize),
        of: Of,
        quantity: Quantity,
        claims: u32,
    ) -> Option<Ratio> {
        let (a, b) = (self.values(from, of, quantity)?, self.values(to, of, quantity)?);
        let positive = a.all.iter().chain(&b.all).all(|value| *value > 0.0);
        let settled = [from, to].iter().all(|&at| self.outcomes[at].unsettled.is_none());
        let told = a.unresolved.is_finite() && b.unresolved.is_finite();
        (positive && settled && told).then(|| {
            let paired = Ratio::paired(&a.all, &b.all, self.confidence_of(claims));
            let apart = 1.0 + a.share_unresolved() + b.share_unresolved();
            let (low, high) = (paired.ratio / apart, paired.ratio * apart);
            Ratio { low: paired.low.min(low), high: paired.high.max(high), ..paired }
        })
    }

    /// Number of interim analyses of the intervals up to the end, at the most. Who stops at the first
    /// that tells, claims as much.
    pub fn interim_analyses(&self) -> u32 {
        self.interim_analyses
    }

    fn confidence_of(&self, claims: u32) -> f64 {
        1.0 - (1.0 - self.confidence) / f64::from(claims.max(1))
    }

    fn values(&self, network: usize, of: Of, quantity: Quantity) -> Option<Values> {
        let at = match of {
            Of::All => 0,
            Of::Class(class) => class + 1,
        };
        let quantile = |q: f64| QUANTILES.iter().position(|kept| (kept - q).abs() < 1e-9);
        let value = |summary: &Summary| {
            let summary = summary.0.get(at)?;
            let alone = |value: f64| (value, value);
            match quantity {
                Quantity::Throughput => Some(alone(summary.throughput)),
                Quantity::Response => summary.response.map(alone),
                Quantity::Quantile(q) => Some(summary.quantiles?[quantile(q)?]),
                Quantity::Refused => summary.refused.map(alone),
                Quantity::Failed => summary.failed.map(alone),
            }
        };
        let bounds: Option<Vec<(f64, f64)>> =
            self.summaries.get(network)?.iter().map(value).collect();
        Some(Values::of(&bounds?, quantity))
    }
}

/// Values of a quantity by the replications of one network.
struct Values {
    all: Vec<f64>,
    /// Distance by which a value may be off because it is not told apart from its neighbours;
    /// infinite where a quantile lies at the longest duration that a histogram tells apart.
    unresolved: f64,
}

impl Values {
    fn of(bounds: &[(f64, f64)], quantity: Quantity) -> Values {
        let halves = bounds.iter().map(|(low, high)| (high - low) / 2.0);
        let widest = halves.fold(0.0, f64::max);
        let longest = Histogram::LONGEST.as_secs_f64();
        let is_quantile = matches!(quantity, Quantity::Quantile(_));
        let told = !is_quantile || bounds.iter().all(|(_, high)| *high < longest);
        Values {
            all: bounds.iter().map(|&(low, high)| f64::midpoint(low, high)).collect(),
            unresolved: if told { widest } else { f64::INFINITY },
        }
    }

    /// The same as a share of the least value, all of which are above zero.
    fn share_unresolved(&self) -> f64 {
        self.unresolved / self.all.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Simulates networks side by side until each of them is precise, or the budget of each is used up.
///
/// # Errors
/// That of the first network that cannot be simulated: its index and why. [`Plan::OneRun`] is refused.
pub fn compare(networks: &[Network], options: &Options) -> Result<Comparison, (usize, SimError)> {
    compare_until(networks, options, |comparison| {
        comparison.outcomes.iter().all(|outcome| outcome.stop == Stop::Precise)
    })
}

/// The same, until `enough` says so or the budget of each network is used up. `enough` is asked after
/// every round, [`Comparison::interim_analyses`] times at the most.
///
/// # Errors
/// That of the first network that cannot be simulated: its index and why. [`Plan::OneRun`] is refused.
pub fn compare_until(
    networks: &[Network],
    options: &Options,
    mut enough: impl FnMut(&Comparison) -> bool,
) -> Result<Comparison, (usize, SimError)> {
    // Of many networks nothing is recorded.
    let options = &Options { record: None, ..options.clone() };
    if options.plan == Plan::OneRun {
        let must =
            "networks are compared replication by replication: take replications, not one run";
        return Err((0, SimError::Option("plan", must)));
    }
    let mut programs = Vec::with_capacity(networks.len());
    for (at, network) in networks.iter().enumerate() {
        check(network, options).map_err(|error| (at, error))?;
        programs.push(Program::compile(network).map_err(|error| (at, error.into()))?);
    }
    let mut experiments = Vec::with_capacity(networks.len());
    for (at, program) in programs.iter().enumerate() {
        experiments.push(Experiment::warm(program, options).map_err(|error| (at, error))?);
    }
    let warmup = experiments.iter().map(|experiment| experiment.warmup.requests).max().unwrap_or(0);
    for (at, experiment) in experiments.iter_mut().enumerate() {
        experiment.warm_to(warmup).map_err(|error| (at, error))?;
        experiment.count_from_here();
    }
    loop {
        for (at, experiment) in experiments.iter_mut().enumerate() {
            experiment.next_round().map_err(|error| (at, error))?;
        }
        let comparison = comparison_of(&mut experiments, options);
        if enough(&comparison) || experiments.iter().all(Experiment::is_spent) {
            return Ok(comparison);
        }
    }
}

/// Comparison by the counts so far.
fn comparison_of(experiments: &mut [Experiment<'_>], options: &Options) -> Comparison {
    let mut outcomes = Vec::with_capacity(experiments.len());
    let mut summaries = Vec::with_capacity(experiments.len());
    for experiment in experiments {
        let estimates: Estimates = experiment.estimates();
        let stop = experiment.ends(&estimates).unwrap_or(Stop::Budget);
        summaries.push(experiment.replications.iter_mut().map(summarise).collect());
        outcomes.push(experiment.outcome(estimates, stop));
    }
    let confidence = options.confidence;
    let interim_analyses = rounds_max(options);
    Comparison { outcomes, summaries, confidence, interim_analyses }
}

fn summarise(replication: &mut Replication<'_>) -> Summary {
    let span = replication.accumulate();
    let summary = |of: &[&ClassTally], histogram: &Histogram| {
        let count =
            |count: fn(&ClassTally) -> u64| of.iter().map(|class| count(class)).sum::<u64>();
        let completed = count(|class| class.completed);
        let share = |failed: u64| {
            (completed + failed > 0).then(|| failed as f64 / (completed + failed) as f64)
        };
        let response_sum: f64 = of.iter().map(|class| class.response_sum).sum();
        ClassSummary {
            throughput: completed as f64 / span,
            response: (completed > 0).then(|| response_sum / completed as f64),
            quantiles: (completed > 0).then(|| QUANTILES.map(|q| histogram.quantile_bounds(q))),
            refused: share(count(|class| class.refused)),
            failed: share(count(ClassTally::failed)),
        }
    };
    let classes: Vec<&ClassTally> = replication.classes.iter().collect();
    let mut merged = Histogram::new();
    classes.iter().for_each(|class| merged.merge(&class.histogram));
    let all = summary(&classes, &merged);
    let each = classes.iter().map(|class| summary(&[class], &class.histogram));
    Summary([all].into_iter().chain(each).collect())
}
