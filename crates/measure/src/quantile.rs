//! Quantiles of a run in parts, with intervals that own up when the run is too short for them.

use std::time::Duration;

use crate::estimate::{Batches, Estimate};
use crate::histogram::Histogram;

/// Relation of the parts of a run to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// They are independent of one another: replications.
    Independent,
    /// One follows the other in a stationary run: batches.
    Neighbours,
}

/// Neighbours that saw something; with fewer, what they vary says nothing.
const NEIGHBOURS_MIN: usize = 10;

impl Parts {
    /// The ratio of two sums, from each part's numerator and denominator: of independent parts the mean
    /// of their ratios (parts with nothing to divide by have none), of neighbours by [`Batches`]. None
    /// if fewer than 2, or 10, parts have something to divide by.
    pub fn ratio(self, pairs: &[(f64, f64)], confidence: f64) -> Option<Estimate> {
        match self {
            Parts::Independent => {
                let some = pairs.iter().filter(|(_, denominator)| *denominator > 0.0);
                let ratios: Vec<f64> = some.map(|(n, denominator)| n / denominator).collect();
                (ratios.len() >= 2).then(|| Estimate::from_independent(&ratios, confidence))
            }
            Parts::Neighbours => self.batches(pairs, confidence).map(|batches| batches.estimate),
        }
    }

    /// The ratio of two sums of neighbours, and whether these are still correlated; none as for
    /// [`ratio`](Parts::ratio), and for independent parts.
    pub fn batches(self, pairs: &[(f64, f64)], confidence: f64) -> Option<Batches> {
        let seen = pairs.iter().filter(|(_, denominator)| *denominator > 0.0).count();
        if self == Parts::Independent || seen < NEIGHBOURS_MIN {
            return None;
        }
        let (numerators, denominators): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Some(Batches::of_ratio(&numerators, &denominators, confidence))
    }

    /// Quantiles \[s\] of all that the parts recorded, each with its q; none where fewer than 2
    /// independent parts, or 10 neighbours, recorded anything.
    ///
    /// A quantile x of the whole is a share q of what is at most x. How far that share may be from q is
    /// what it varies among the parts, as for any ratio; the quantiles of the whole at both ends of its
    /// interval are the ends of the quantile's (Woodruff, J. Am. Stat. Assoc. 47, 1952). The half-width is the
    /// longer one of the two sides. Unlike the spread of the parts' own quantiles, this neither knows
    /// nor minds that the quantile of a short part is biased. Where the interval of the share reaches 1,
    /// the parts do not say how far up the quantile may be, and the half-width is infinite; so it is where
    /// it reaches the longest duration that a histogram tells apart ([`Histogram::LONGEST`]). It is never
    /// less than half of the bucket that holds the quantile, which is the middle of that.
    ///
    /// What is beyond a far quantile comes in few bunches, and where no large one has come yet, few seem to
    /// vary little: the quantile is then too low, and its interval too short. So the share is taken to vary
    /// as much, for its size, as those ten and a hundred times nearer to the middle, of which more was seen; and where
    /// its interval is a large part of what is beyond the quantile it is wider still, and then infinite.
    /// `tests/grid/tails.csv` of the crate `sim` has what that comes to.
    ///
    /// # Panics
    /// If a quantile or the confidence is not between 0 and 1.
    pub fn quantiles(
        self,
        parts: &[&Histogram],
        quantiles: &[f64],
        confidence: f64,
    ) -> Vec<(f64, Estimate)> {
        let filled: Vec<&Histogram> = parts.iter().copied().filter(|h| !h.is_empty()).collect();
        let (used, enough) = match self {
            Parts::Independent => (filled.as_slice(), filled.len() >= 2),
            Parts::Neighbours => (parts, filled.len() >= NEIGHBOURS_MIN),
        };
        if !enough {
            return Vec::new();
        }
        let mut whole = Histogram::new();
        used.iter().for_each(|part| whole.merge(part));
        // Behind those asked for, the ones that vouch for them.
        let vouchers = |times| quantiles.iter().map(move |&q| nearer(q, times));
        let all: Vec<f64> =
            quantiles.iter().copied().chain(vouchers(10.0)).chain(vouchers(100.0)).collect();
        let values: Vec<Duration> = all.iter().map(|&q| whole.quantile(q)).collect();
        let below: Vec<Below> = used.iter().map(|part| Below::count(part, &values)).collect();
        let estimate = |(at, &q): (usize, &f64)| {
            assert!(0.0 < q && q < 1.0, "a quantile of {q}");
            let (own, n) = self.share_at(&below, at, confidence);
            let spread = |q: f64| (q * (1.0 - q)).sqrt();
            let vouched = |nth: usize| {
                let at = nth * quantiles.len() + at;
                self.share_at(&below, at, confidence).0 * spread(q) / spread(all[at])
            };
            let half = own.max(vouched(1)).max(vouched(2));
            let half = cautious(half, q.min(1.0 - q));
            let resolved = Resolved::of(&whole, q);
            let mean = resolved.value;
            let down = mean - whole.quantile_bounds((q - half).max(0.0)).0;
            let up = match q + half {
                high if high < 1.0 => whole.quantile_bounds(high).1 - mean,
                _ => f64::INFINITY,
            };
            let half_width = down.max(up).max(resolved.unknown(mean + up));
            (q, Estimate { mean, half_width, confidence, n })
        };
        quantiles.iter().enumerate().map(estimate).collect()
    }

    /// Possible error of the shares below a value and at most it, and the number that it rests on.
    fn share_at(self, below: &[Below], at: usize, confidence: f64) -> (f64, u64) {
        // Where many are equal, those below the value may vary more than those at most it.
        let counts = |of: fn(&Below) -> &Vec<u64>| {
            let pair = |part: &Below| (of(part)[at] as f64, part.all as f64);
            below.iter().map(pair).collect::<Vec<_>>()
        };
        let at_most = self.share(&counts(|part| &part.at_most), confidence);
        let less = self.share(&counts(|part| &part.less), confidence);
        (at_most.half_width.max(less.half_width), at_most.n)
    }

    /// A share of what was recorded; by their weights, because parts are of about one length.
    fn share(self, pairs: &[(f64, f64)], confidence: f64) -> Estimate {
        let (numerators, denominators): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        match self {
            Parts::Independent => {
                Batches::of_ratio_in(&numerators, &denominators, pairs.len(), confidence).estimate
            }
            Parts::Neighbours => Batches::of_ratio(&numerators, &denominators, confidence).estimate,
        }
    }
}

/// The quantile with so many times as much beyond it, of those above the median.
fn nearer(q: f64, times: f64) -> f64 {
    if q > 0.5 { (1.0 - times * (1.0 - q)).max(0.5) } else { q }
}

/// The half-width of a share of which so much is left to the nearer end; infinite where the parts know too
/// little of that. Up to a half of it that is 7 % more at the most.
fn cautious(half: f64, rest: f64) -> f64 {
    let part = half / rest;
    let wider = part / (1.0 - part.powi(4));
    if part < 1.0 && wider < PART_MAX { wider * rest } else { f64::INFINITY }
}

/// The largest part of what is beyond a quantile that may be in doubt, if the quantile is to be known.
const PART_MAX: f64 = 0.8;

/// Numbers of a part's durations that are less than some values, and at most them.
struct Below {
    less: Vec<u64>,
    at_most: Vec<u64>,
    all: u64,
}

impl Below {
    fn count(part: &Histogram, values: &[Duration]) -> Below {
        let mut below =
            Below { less: vec![0; values.len()], at_most: vec![0; values.len()], all: part.len() };
        for (nanos, count) in part.counts() {
            let duration = Duration::from_nanos(nanos);
            for (at, value) in values.iter().enumerate() {
                below.less[at] += if duration < *value { count } else { 0 };
                below.at_most[at] += if duration <= *value { count } else { 0 };
            }
        }
        below
    }
}

/// A quantile as far as its histogram tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    /// The middle of the bucket that holds it \[s\]; of the shortest and the longest its end, which is a
    /// bound.
    pub(crate) value: f64,
    /// From there to the farther end of the bucket \[s\].
    half: f64,
}

impl Resolved {
    pub(crate) fn of(histogram: &Histogram, q: f64) -> Resolved {
        let (low, high) = histogram.quantile_bounds(q);
        let told = Histogram::SHORTEST.as_secs_f64()..Histogram::LONGEST.as_secs_f64();
        let middle = f64::midpoint(low, high);
        let value = if told.contains(&low) && told.contains(&high) { middle } else { high };
        Resolved { value, half: value - low }
    }

    /// Uncertainty from the histogram of a quantile that may lie as high as this \[s\]: its bucket;
    /// everything from its last duration on, where all longer ones are counted; and all below the
    /// first.
    pub(crate) fn unknown(&self, high: f64) -> f64 {
        let first = Histogram::SHORTEST.as_secs_f64();
        if high >= Histogram::LONGEST.as_secs_f64() {
            f64::INFINITY
        } else if self.value <= first {
            first
        } else {
            self.half
        }
    }
}
