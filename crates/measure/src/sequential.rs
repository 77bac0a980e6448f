//! Sequential test of a limit on a quantile: decides while a run goes on, as early as may be.
//!
//! Requests that wait in one queue are late together, and a run that is looked at again and again is
//! decided wrongly more often than one that is looked at once. The test minds both:
//!
//! - *Blocks.* The share of late requests is held against the allowed one by the binomial distribution of
//!   as many independent requests as the blocks of neighbours are worth. That number is the number of
//!   requests over the design effect (Kish, *Survey Sampling*, 1965): the variance of the share among
//!   blocks over that of independent requests. Few late requests vary little among blocks, so the share
//!   beyond the quantile with ten times as much beyond it (the median, at the nearest) vouches for them. Where no
//!   request was late at all, the size of the clusters counts in its place ([`Shares::cluster`]).
//! - *Mixing.* A limit does not hold as long as the mean response of the blocks is correlated over a good
//!   part of the run: the run may be within one lull.
//! - *Analyses.* There are [`ANALYSES`] at doubling lengths. The last one has a half of the error rate, the
//!   others share the other half (alpha spending, Lan and DeMets 1983; the parts add up whatever depends on
//!   what).
//! - *Margins.* The late requests must be few enough, in their clusters: of a service of two modes the second lies
//!   beyond any part of the limit. Clusters that were not seen are taken to be of [`UNSEEN`] requests at most, where no
//!   request came near a tenth of the limit. A run that has not mixed, or an early analysis, asks for a margin besides:
//!   a hundred times what is allowed is not reached beyond a hundredth of the limit.
//! - *Overload.* In a stationary run the share of late requests is ever seen to be `c` or more with a
//!   probability of at most the true share over `c`, whatever depends on what and however often it is
//!   looked at (maximal ergodic theorem, Hopf 1954).
//!
//! `crates/measure/tests/it/sequential.rs` has the error rates at queues whose truth is known.

use std::time::Duration;

use statrs::distribution::{Beta, ContinuousCDF};

use crate::knee::Outcome;
use crate::limit::Limit;
use crate::series::{Groups, lag1};
use crate::{Batches, Histogram, Interval, SamplingDistribution};

/// Number of analyses of a run of the planned length: at a sixteenth of it, an eighth, a quarter, a half,
/// and its end.
pub const ANALYSES: u32 = 5;
/// The probability, on either side, of a decision that is wrong, as far as the blocks tell of the dependence.
/// At M/M/1 queues of utilisations 0.5, 0.9 and 0.95 that begin empty, and at one whose service has two modes, it is at
/// most twice as much.
pub const ERROR_RATE: f64 = 0.025;
/// Analyses that are too early for a limit to hold, but by a wide margin.
const EARLY: u32 = 2;
/// Blocks that saw a request, below which what they vary says nothing.
const BLOCKS_MIN: usize = 10;
/// Groups of blocks among which a correlation of the mean response is looked for, and how many standard
/// deviations of it are one: more than chance brings in one of twenty runs.
const MIXED: (usize, f64) = (20, 1.645);
/// The design effect of blocks that have not mixed is taken to be so many times as large.
const UNMIXED: f64 = 3.0;
/// Largest cluster of late requests that is assumed where no response reached a tenth of the limit: what clusters the fast
/// ones says nothing of what has not been seen.
const UNSEEN: f64 = 10.0;
/// A share beyond the limit is held against the share beyond this part of it too.
const MARGIN: f64 = 10.0;
/// No larger share beyond a part of the limit is taken as a margin.
const BULK: f64 = 0.5;
/// A share that is no more than this is one of the tail.
const TAIL: f64 = 0.1;
/// Part of the error rate for the margin below the limit.
const MARGIN_PART: f64 = 0.1;
/// Parts of the error rate for overload beyond the limit, beyond ten times and a hundred times as much.
const OVERLOAD_PARTS: [f64; 3] = [0.8, 0.1, 0.1];
/// So many independent requests must be allowed to be late before their share can be told.
const LATE_MIN: f64 = 10.0;

/// Test of a limit, told of one interval after the other.
#[derive(Clone, Debug)]
pub struct SequentialTest {
    limit: Limit,
    warmup_s: f64,
    length_s: f64,
    analyses: u32,
    requests: Requests,
}

impl SequentialTest {
    /// A test of a run of this planned length after this warm-up.
    pub fn new(limit: Limit, warmup: Duration, length: Duration) -> SequentialTest {
        SequentialTest {
            limit,
            warmup_s: warmup.as_secs_f64(),
            length_s: length.as_secs_f64(),
            analyses: 0,
            requests: Requests::default(),
        }
    }

    /// Takes in the next interval. An outcome ends the run: an analysis was due, and it decided, or it was
    /// the last.
    pub fn observe(&mut self, interval: &Interval) -> Option<Outcome> {
        self.requests.add(interval, self.warmup_s);
        let end_s = interval.start_s + interval.length_s - self.warmup_s;
        let due = |nth: u32| end_s >= self.length_s / f64::from(1 << (ANALYSES - 1 - nth)) - 1e-9;
        if self.analyses >= ANALYSES || !due(self.analyses) {
            return None;
        }
        while self.analyses < ANALYSES && due(self.analyses) {
            self.analyses += 1;
        }
        let last = self.analyses == ANALYSES;
        let part = if last { 0.5 } else { 0.5 / f64::from(ANALYSES - 1) };
        let when = if self.analyses <= EARLY { When::Early } else { When::Late };
        let outcome = self.requests.decide(&self.limit, ERROR_RATE * part, when);
        (last || outcome.is_decided()).then_some(outcome)
    }

    /// Outcome for all that was told, of a run that ended before its planned length: the last analysis.
    pub fn conclude(&self) -> Outcome {
        self.requests.decide(&self.limit, ERROR_RATE * 0.5, When::Late)
    }
}

/// Time of an analysis within the planned length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Early,
    Late,
}

/// The requests of a run, in blocks of neighbours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    blocks: Vec<Block>,
    whole: Histogram,
    started: u64,
    ended: u64,
    length_s: f64,
}

#[derive(Clone, Debug)]
struct Block {
    /// Requests that were begun in it.
    begun: u64,
    /// Durations of good answers \[ns\], shortest first, each with the number of those as long or longer.
    bars: Vec<(u64, u64)>,
    answered: u64,
    /// Sum of the response times \[s\].
    response_s: f64,
    failed: u64,
}

impl Block {
    fn new(total: &Histogram, failed: u64, begun: u64) -> Block {
        let mut bars: Vec<(u64, u64)> = total.counts().collect();
        let mut longer = 0;
        for (_, count) in bars.iter_mut().rev() {
            longer += *count;
            *count = longer;
        }
        let answered = total.len();
        Block { begun, bars, answered, response_s: total.mean_s() * answered as f64, failed }
    }

    /// Number of requests that took longer than this \[ns\], or had no good answer.
    fn beyond(&self, nanos: u64) -> u64 {
        let at = self.bars.partition_point(|&(value, _)| value <= nanos);
        self.bars.get(at).map_or(0, |&(_, longer)| longer) + self.failed
    }
}

impl Requests {
    pub(crate) fn add(&mut self, interval: &Interval, warmup_s: f64) {
        let (mut total, mut failed) = (Histogram::new(), 0u64);
        for class in &interval.classes {
            total.merge(&class.total);
            failed += class.errors.values().sum::<u64>();
        }
        self.started += interval.started;
        self.ended += total.len() + failed;
        self.length_s += interval.length_s;
        if interval.start_s >= warmup_s - 1e-9 {
            self.push(&total, failed, interval.started);
        }
    }

    pub(crate) fn add_block(&mut self, total: &Histogram, failed: u64) {
        self.push(total, failed, 0);
    }

    fn push(&mut self, total: &Histogram, failed: u64, begun: u64) {
        // Blocks without a request say nothing.
        if total.len() + failed + begun > 0 {
            self.blocks.push(Block::new(total, failed, begun));
            self.whole.merge(total);
        }
    }

    /// One analysis, wrong with at most this probability on either side.
    pub(crate) fn decide(&self, limit: &Limit, error_rate: f64, when: When) -> Outcome {
        let shares = Shares::of(self, limit, error_rate);
        if shares.all.is_empty() {
            return Outcome::TooFew;
        }
        shares.outcome(limit.quantile, when)
    }

    /// Requests that had not ended at the end and are late for sure.
    pub(crate) fn unanswered_late(&self, limit: Duration) -> f64 {
        self.unanswered(limit).iter().sum()
    }

    /// Of each block the requests that were begun, had not ended at the end, and are more than the last limit's worth of
    /// arrivals: so many are late for sure. Where requests wait in one queue they are those that were begun last, but for
    /// that worth of arrivals; those that were begun during the warm-up count in the first block.
    fn unanswered(&self, limit: Duration) -> Vec<f64> {
        let mut late = vec![0.0; self.blocks.len()];
        if self.length_s <= 0.0 {
            return late;
        }
        let recent = self.started as f64 / self.length_s * limit.as_secs_f64();
        let mut recent = recent + 4.0 * recent.sqrt();
        let left = self.started.saturating_sub(self.ended) as f64;
        let mut rest = (left - recent).max(0.0);
        for (late, block) in late.iter_mut().zip(&self.blocks).rev() {
            let passed = recent.min(block.begun as f64);
            recent -= passed;
            *late = (block.begun as f64 - passed).min(rest);
            rest -= *late;
        }
        if let Some(first) = late.first_mut() {
            *first += rest;
        }
        late
    }
}

/// Shares of requests beyond some levels, by blocks.
struct Shares<'a> {
    requests: &'a Requests,
    /// The blocks that have a request which ended or is late for sure, each with its place among all.
    blocks: Vec<(usize, &'a Block)>,
    /// All requests of each block.
    all: Vec<f64>,
    total: f64,
    limit: Duration,
    error_rate: f64,
}

impl<'a> Shares<'a> {
    fn of(requests: &'a Requests, limit: &Limit, error_rate: f64) -> Shares<'a> {
        let unanswered = requests.unanswered(limit.response);
        let of_block = |((at, block), late): ((usize, &'a Block), f64)| {
            let all = (block.answered + block.failed) as f64 + late;
            (all > 0.0).then_some(((at, block), all))
        };
        let blocks = requests.blocks.iter().enumerate().zip(unanswered);
        let (blocks, all): (Vec<(usize, &Block)>, Vec<f64>) = blocks.filter_map(of_block).unzip();
        Shares { requests, blocks, total: all.iter().sum(), all, limit: limit.response, error_rate }
    }

    fn outcome(&self, quantile: f64, when: When) -> Outcome {
        let allowed = 1.0 - quantile;
        let late = self.beyond(self.limit);
        if self.is_overload(&late, allowed) {
            return Outcome::Fails;
        }
        if self.all.len() < BLOCKS_MIN {
            return Outcome::TooFew;
        }
        let mixed = self.is_mixed();
        let own = self.design_effect(&late) * if mixed { 1.0 } else { UNMIXED };
        // Where many may be late anyhow, a crest of the queue is soon most of a run that has not mixed.
        let tells = mixed || allowed <= TAIL + 1e-9;
        if tells && self.is_above(&late, own, allowed) {
            return Outcome::Fails;
        }
        let size = self.cluster(&late, quantile);
        let rest = self.error_rate * (1.0 - MARGIN_PART);
        let far = || {
            let near = self.beyond(self.limit.div_f64(MARGIN * MARGIN));
            let (size, allowed) =
                (self.cluster(&near, quantile), (MARGIN * MARGIN * allowed).min(BULK));
            self.is_below(&near, size, allowed, self.error_rate * MARGIN_PART)
        };
        // A margin vouches for what has not been seen of the queue. The late requests must be few enough by themselves,
        // in their clusters: whatever their number beyond a part of the limit, a second mode may lie beyond all of it.
        let unmixed = if mixed { 1.0 } else { UNMIXED };
        let nearest = self.beyond(self.limit.div_f64(MARGIN));
        let size = match nearest.iter().all(|hits| *hits == 0.0) {
            true => (size * unmixed).min(UNSEEN),
            false => size * unmixed,
        };
        let few_enough = self.is_below(&late, size, allowed, rest);
        if few_enough && (mixed && when == When::Late || far()) {
            return Outcome::Holds;
        }
        // Nothing speaks against the limit, and more requests would tell.
        let share = late.iter().sum::<f64>() / self.total;
        let few = self.total / size * allowed < LATE_MIN;
        if share <= allowed / 2.0 || few && share <= allowed {
            Outcome::TooFew
        } else {
            Outcome::Straddles
        }
    }

    /// Requests of each block that took longer than this, or had no good answer.
    fn beyond(&self, level: Duration) -> Vec<f64> {
        let nanos = u64::try_from(level.as_nanos()).unwrap_or(u64::MAX);
        let unanswered = self.requests.unanswered(level.max(self.limit));
        let hits = |&(at, block): &(usize, &Block)| block.beyond(nanos) as f64 + unanswered[at];
        self.blocks.iter().map(hits).collect()
    }

    /// By the maximal ergodic theorem, for the limit and for ten and a hundred times as much.
    fn is_overload(&self, late: &[f64], allowed: f64) -> bool {
        let share = |hits: &[f64]| hits.iter().sum::<f64>() / self.total;
        let beyond = |times: f64| share(&self.beyond(self.limit.mul_f64(times)));
        let [at, far, farthest] = OVERLOAD_PARTS.map(|part| allowed / (ERROR_RATE * part));
        share(late) >= at
            || beyond(MARGIN) >= far / MARGIN
            || beyond(MARGIN * MARGIN) >= farthest / (MARGIN * MARGIN)
    }

    /// Number of requests that say as much as an independent one of how many are beyond a level.
    ///
    /// Of a level that some exceed: the larger design effect of that level and of the quantile with ten times as
    /// much beyond it. Of a level that none exceeds: the mean size of a cluster beyond the
    /// former quantile, because clusters are what was not seen; where that is no tail, a cluster has no size.
    fn cluster(&self, hits: &[f64], quantile: f64) -> f64 {
        let nearer = (1.0 - 10.0 * (1.0 - quantile)).max(0.5);
        let near = self.beyond(self.requests.whole.quantile(nearer));
        let effect = self.design_effect(&near);
        if nearer > 0.5 && hits.iter().all(|hits| *hits == 0.0) {
            return self.cluster_size(&near).map_or(effect, |size| size.clamp(1.0, effect));
        }
        effect.max(self.design_effect(hits))
    }

    /// The reciprocal of the extremal index by the blocks estimator (Hsing 1993; Smith and Weissman 1994): of
    /// blocks of m requests, of which each is beyond a level with probability p, a share (1 - p)^(m / c) has
    /// none if they come in clusters of c. The largest one over all lengths of blocks; none where all blocks
    /// have some, being too long to tell.
    fn cluster_size(&self, hits: &[f64]) -> Option<f64> {
        let share = hits.iter().sum::<f64>() / self.total;
        if share <= 0.0 || share >= 1.0 {
            return None;
        }
        let mut largest: Option<f64> = None;
        let mut groups = hits.len();
        while groups >= BLOCKS_MIN {
            let sums = Groups { numerators: hits, denominators: &self.all, groups }.sums();
            let none = sums.filter(|(hits, _)| *hits == 0.0).count() as f64;
            // One more without, for the sake of caution.
            let empty = (none + 1.0) / (groups as f64 + 1.0);
            if none > 0.0 && empty < 1.0 {
                let size = self.total / groups as f64 * (1.0 - share).ln() / empty.ln();
                largest = Some(largest.map_or(size, |largest| largest.max(size)));
            }
            groups /= 2;
        }
        largest
    }

    /// Variance of a share among blocks over that of as many independent requests, Student's factor for the
    /// number of blocks included; 1 at least.
    fn design_effect(&self, hits: &[f64]) -> f64 {
        let share = hits.iter().sum::<f64>() / self.total;
        let independent = share * (1.0 - share) / self.total;
        if independent <= 0.0 || hits.len() < 2 {
            return 1.0;
        }
        let of_blocks = Batches::of_ratio(hits, &self.all, 1.0 - 2.0 * self.error_rate).estimate;
        let error = of_blocks.half_width / SamplingDistribution::deviations(self.error_rate);
        (error * error / independent).max(1.0)
    }

    /// False if the mean response of the blocks is correlated over a good part of the run.
    fn is_mixed(&self) -> bool {
        let blocks = &self.blocks;
        let sums: Vec<f64> = blocks.iter().map(|(_, block)| block.response_s).collect();
        let counts: Vec<f64> = blocks.iter().map(|(_, block)| block.answered as f64).collect();
        if counts.iter().sum::<f64>() <= 0.0 {
            return true;
        }
        let ratio = Groups::ratio(&sums, &counts);
        let groups = blocks.len().min(MIXED.0);
        let means = Groups { numerators: &sums, denominators: &counts, groups };
        let residuals: Vec<f64> = means.residuals(ratio).collect();
        let n = groups as f64;
        lag1(&residuals) + 1.0 / n <= MIXED.1 / n.sqrt()
    }

    /// True if so few would be beyond with at most this probability if more than what is allowed were.
    fn is_below(&self, hits: &[f64], cluster: f64, allowed: f64, error_rate: f64) -> bool {
        let all = self.total / cluster;
        let hit = (hits.iter().sum::<f64>() / cluster).ceil();
        // P(Binomial(all, allowed) <= hit) = P(Beta(hit + 1, all - hit) > allowed).
        hit < all && beta(hit + 1.0, all - hit).sf(allowed) <= error_rate
    }

    /// True if so many would be beyond with at most the error rate if no more than what is allowed were.
    fn is_above(&self, hits: &[f64], effect: f64, allowed: f64) -> bool {
        let hit: f64 = hits.iter().sum();
        // Where all are late, the blocks are independent at best.
        let block = if hit < self.total { 1.0 } else { self.total / self.all.len() as f64 };
        let effect = effect.max(block);
        let all = self.total / effect;
        let hit = (hit / effect).floor().min(all);
        // P(Binomial(all, allowed) >= hit) = P(Beta(hit, all - hit + 1) < allowed).
        hit >= 1.0 && beta(hit, all - hit + 1.0).cdf(allowed) <= self.error_rate
    }
}

fn beta(a: f64, b: f64) -> Beta {
    Beta::new(a, b).expect("both are above 0")
}
