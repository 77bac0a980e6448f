//! Series of numbers over time: are neighbours correlated, where does the initial transient end,
//! is there a trend.

use statrs::distribution::{ContinuousCDF, Normal};

/// Two series of equal length, cut into `groups` of neighbours whose lengths differ by one at most.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    pub(crate) numerators: &'a [f64],
    pub(crate) denominators: &'a [f64],
    pub(crate) groups: usize,
}

impl<'a> Groups<'a> {
    /// The ratio of the sums.
    ///
    /// # Panics
    /// If the lengths differ, or the denominators do not sum to more than zero.
    pub(crate) fn ratio(numerators: &[f64], denominators: &[f64]) -> f64 {
        assert_eq!(numerators.len(), denominators.len(), "a ratio needs pairs");
        let total: f64 = denominators.iter().sum();
        assert!(total > 0.0, "a ratio to {total}");
        numerators.iter().sum::<f64>() / total
    }

    /// The sums of each group.
    pub(crate) fn sums(self) -> impl Iterator<Item = (f64, f64)> + 'a {
        let len = self.numerators.len();
        assert!(0 < self.groups && self.groups <= len, "{} groups of {len} values", self.groups);
        (0..self.groups).map(move |group| {
            let range = group * len / self.groups..(group + 1) * len / self.groups;
            let sum = |values: &[f64]| values[range.clone()].iter().sum::<f64>();
            (sum(self.numerators), sum(self.denominators))
        })
    }

    /// Difference of each group's numerator from what the ratio makes of its denominator.
    pub(crate) fn residuals(self, ratio: f64) -> impl Iterator<Item = f64> + 'a {
        self.sums().map(move |(numerator, denominator)| numerator - ratio * denominator)
    }
}

/// The correlation of neighbours; 0 for a constant series.
pub(crate) fn lag1(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// True if neighbours are correlated positively (one-sided, 5 %): for independent values the
/// correlation is about normal with mean -1/n and variance 1/n. A negative one makes intervals too
/// wide, which is no harm.
pub(crate) fn is_correlated(values: &[f64]) -> bool {
    let n = values.len() as f64;
    lag1(values) + 1.0 / n > 1.645 / n.sqrt()
}

/// By how much a lag-1 correlation `r`, found in `n` values, enlarges the variance of their mean: (1 +
/// r) / (1 - r), r corrected for its bias (Kendall 1954) and taken as 0 at least and 0.8 at most.
pub(crate) fn inflation(r: f64, n: usize) -> f64 {
    let unbiased = (r + (1.0 + 4.0 * r) / n as f64).clamp(0.0, 0.8);
    (1.0 + unbiased) / (1.0 - unbiased)
}

/// End of the initial transient of a series, by the marginal standard error rule: the number of
/// values to leave out, a multiple of `batch`; `None` if the series is too short to tell.
///
/// MSER-m: over means z of `batch` values each, the d that minimises
/// sum_(i > d) (z_i - mean)^2 / (n - d)^2 (White 1997; with `batch` 5, MSER-5: White, Cobb and
/// Spratt 2000). A minimum at the middle of the series is rejected: there the transient may not have
/// ended at all. For values that are themselves means over intervals, `batch` 1 will do.
///
/// # Panics
/// If `batch` is 0.
pub fn mser(values: &[f64], batch: usize) -> Option<usize> {
    let means: Vec<f64> =
        values.chunks_exact(batch).map(|chunk| chunk.iter().sum::<f64>() / batch as f64).collect();
    let (n, middle) = (means.len(), means.len() / 2);
    if n < 4 {
        return None;
    }
    // From the end, mean and squares of what is left grow value by value (Welford 1962).
    let (mut mean, mut squares, mut left) = (0.0, 0.0, 0.0);
    let (mut best, mut best_at) = (f64::INFINITY, middle);
    for at in (0..n).rev() {
        left += 1.0;
        let step = means[at] - mean;
        mean += step / left;
        squares += step * (means[at] - mean);
        let score = squares / (left * left);
        // Of equally good ends of the transient the earliest one wastes least.
        if at <= middle && score <= best {
            (best, best_at) = (score, at);
        }
    }
    (best_at < middle).then_some(best_at * batch)
}

/// Drift of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The probability of a drift at least as clear in a series that has none.
    pub p_value: f64,
    /// The drift from the first to the last value, as a share of the mean: the median of all
    /// slopes (Theil and Sen).
    pub drift: f64,
}

/// Tests a series for a trend; `None` for fewer than 10 values, where no test has power.
///
/// Mann and Kendall's test on at most 40 means of neighbours. Correlation makes it cry wolf, so the
/// variance is enlarged by (1 + r) / (1 - r), r being the lag-1 correlation of what is left when
/// the trend is taken out (Hamed and Rao 1998, Yue and Wang 2004), corrected for its bias (Kendall
/// 1954) and taken as 0.8 at most. Rank-based, so that a few slow intervals do not decide it. A series
/// whose correlation reaches over a good part of its length cannot be told from one with a trend;
/// there, by that limit, it errs towards finding one.
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < 10 {
        return None;
    }
    let mut groups = values.len();
    while groups > 40 {
        groups = groups.div_ceil(2);
    }
    let ones = vec![1.0; values.len()];
    let means: Vec<f64> = Groups { numerators: values, denominators: &ones, groups }
        .sums()
        .map(|(sum, count)| sum / count)
        .collect();
    let n = means.len() as f64;
    let (mut score, mut slopes) = (0.0, Vec::new());
    for (i, early) in means.iter().enumerate() {
        for (j, late) in means.iter().enumerate().skip(i + 1) {
            let change = late - early;
            score += if change == 0.0 { 0.0 } else { change.signum() };
            slopes.push(change / (j - i) as f64);
        }
    }
    let middle = slopes.len() / 2;
    let slope = *slopes.select_nth_unstable_by(middle, f64::total_cmp).1;
    let left: Vec<f64> =
        means.iter().enumerate().map(|(i, mean)| mean - slope * i as f64).collect();
    let inflation = inflation(lag1(&left), groups);
    let deviation = ((n * (n - 1.0) * (2.0 * n + 5.0) - ties(&means)) / 18.0 * inflation).sqrt();
    // Continuity: the score moves in steps of 2.
    let z = if score == 0.0 { 0.0 } else { (score.abs() - 1.0) / deviation };
    let mean = means.iter().sum::<f64>() / n;
    Some(Trend {
        p_value: (2.0 * Normal::standard().sf(z)).min(1.0),
        drift: if mean == 0.0 { 0.0 } else { slope * (n - 1.0) / mean },
    })
}

/// Part that equal values take from the variance of Mann and Kendall's score (Kendall 1975).
fn ties(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .chunk_by(|a, b| a == b)
        .map(|equal| equal.len() as f64)
        .map(|t| t * (t - 1.0) * (2.0 * t + 5.0))
        .sum()
}
