//! Evidence of two kinds of closed runs together: the model's numbers, and the regions within which
//! noise moves them.

use measure::figures;
use rand_distr::{Distribution, StandardNormal};
use workload::stream;

use super::FitError;
use super::observed::{DocumentSeen, Observed, standard_error};

/// The model's numbers, before rounding r.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// a \[s/byte\].
    pub(super) per_byte: f64,
    /// b \[s\].
    pub(super) base: f64,
    /// Z \[s\].
    pub(super) path: f64,
    /// r; none where all documents have one size.
    pub(super) slots: Option<f64>,
}

/// Error of a straight line beyond the noise: weights never make a class more certain than this
/// share of its mean.
pub(super) const LINE_ERROR: f64 = 0.02;

/// A straight line through (bytes, mean response).
pub(super) struct Line {
    pub(super) slope: f64,
    /// The variance of the slope.
    pub(super) variance: f64,
}

/// Weight of a mean response: the inverse of the variance that its noise and the error of the line
/// have together.
pub(super) fn weight(class: &DocumentSeen, mean: f64) -> f64 {
    1.0 / (standard_error(&class.response).powi(2) + (LINE_ERROR * mean).powi(2))
}

/// The weighted least-squares line; none through documents of one size.
pub(super) fn line(classes: &[DocumentSeen], means: &[f64]) -> Option<Line> {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (class, &y) in classes.iter().zip(means) {
        let weight = weight(class, y);
        let x = class.bytes as f64;
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let spread = w * wxx - wx * wx;
    (spread > 1e-9 * w * wxx)
        .then(|| Line { slope: (w * wxy - wx * wy) / spread, variance: w / spread })
}

/// The mean that has the least variance.
pub(super) fn combine(parts: &[(f64, f64)]) -> f64 {
    let weights: f64 = parts.iter().map(|(_, variance)| 1.0 / variance).sum();
    parts.iter().map(|(value, variance)| value / variance).sum::<f64>() / weights
}

/// The runs that identify the model, and what is known besides.
pub(super) struct Evidence<'a> {
    /// The run with one client.
    pub(super) low: &'a Observed,
    /// The saturated runs, the one with most clients first.
    pub(super) full: Vec<&'a Observed>,
    pub(super) cores: u32,
    /// The slots, if they were told: then every saturated run tells the slope too.
    pub(super) slots: Option<u32>,
}

/// Measured means, or means drawn within their intervals.
pub(super) struct Seen {
    pub(super) low: Vec<f64>,
    /// By saturated run: the means, and by how many standard errors its busy time a request is off.
    pub(super) full: Vec<(Vec<f64>, f64)>,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(
        runs: &'a [Observed],
        low: &'a Observed,
        high: &'a Observed,
        cores: u32,
        slots: Option<u32>,
    ) -> Evidence<'a> {
        // Twice as many clients as slots keep all slots held, whatever the time on the way.
        let is_full = |run: &&Observed| {
            slots.is_some_and(|slots| run.clients >= slots.max(cores).saturating_mul(2))
        };
        let others = runs.iter().filter(|run| !std::ptr::eq(*run, high)).filter(is_full);
        Evidence { low, full: std::iter::once(high).chain(others).collect(), cores, slots }
    }

    pub(super) fn as_measured(&self) -> Seen {
        Seen {
            low: self.low.means(),
            full: self.full.iter().map(|run| (run.means(), 0.0)).collect(),
        }
    }

    pub(super) fn solve(&self, seen: &Seen) -> Point {
        let cores = f64::from(self.cores);
        let alone = line(&self.low.classes, &seen.low);
        let stretched: Vec<Option<Line>> = self
            .full
            .iter()
            .zip(&seen.full)
            .map(|(run, (means, _))| line(&run.classes, means))
            .collect();
        let mut slopes: Vec<(f64, f64)> =
            alone.iter().map(|line| (line.slope, line.variance)).collect();
        if let Some(slots) = self.slots {
            for (run, line) in self.full.iter().zip(&stretched) {
                // N clients hold at most N slots, and fewer holders than processors do not slow
                // each other.
                let stretch = (f64::from(slots.min(run.clients)) / cores).max(1.0);
                let line = line.as_ref();
                slopes.extend(line.map(|l| (l.slope / stretch, l.variance / (stretch * stretch))));
            }
        }
        let per_byte = if slopes.is_empty() { 0.0 } else { combine(&slopes) };
        let bases = self.full.iter().zip(&seen.full).map(|(run, (_, off))| {
            let (base, error) = run.base(per_byte, cores);
            (base + off * error, error * error + (LINE_ERROR * base).powi(2))
        });
        let base = combine(&bases.collect::<Vec<_>>());
        // With the slope settled, the single client tells what a request of no bytes takes.
        let classes = self.low.classes.iter().zip(&seen.low);
        let (sum, weights) = classes.fold((0.0, 0.0), |(sum, weights), (class, &mean)| {
            let weight = weight(class, mean);
            (sum + weight * (mean - per_byte * class.bytes as f64), weights + weight)
        });
        let slots = match (&alone, stretched.first()) {
            (Some(alone), Some(Some(high))) if alone.slope > 0.0 => {
                Some(cores * high.slope / alone.slope)
            }
            _ => None,
        };
        Point { per_byte, base, path: sum / weights - base, slots }
    }

    pub(super) fn bootstrap(&self, seed: u64) -> Vec<Point> {
        let mut chance = stream(seed, 0xb007);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut chance) };
        let means = |run: &Observed, normal: &mut dyn FnMut() -> f64| -> Vec<f64> {
            let draw = |class: &DocumentSeen| {
                let mean = class.response.mean;
                // A time stays above 0, however far off chance draws it.
                (mean + standard_error(&class.response) * normal()).max(mean * 0.01)
            };
            run.classes.iter().map(draw).collect()
        };
        let draws = (0..DRAWS).map(|_| {
            let low = means(self.low, &mut normal);
            let full = self.full.iter().map(|run| (means(run, &mut normal), normal()));
            self.solve(&Seen { low, full: full.collect() })
        });
        draws.collect()
    }
}

impl Point {
    /// # Errors
    /// If the numbers contradict the model or the run was not saturated.
    pub(super) fn check(&self, high: &Observed, slots: u32, cores: u32) -> Result<(), FitError> {
        if self.per_byte < 0.0 || self.base <= 0.0 {
            return Err(FitError::DoesNotFit(format!(
                "with {cores} processor(s), demand comes out as {} us/kB times the size plus {}, and \
                 neither may be negative; is `--cores` right, is the response cached?",
                figures::digits(self.per_byte * 1e9),
                figures::time(self.base)
            )));
        }
        let demand = self.per_byte * high.bytes_mean() + self.base;
        if self.path < -0.1 * demand {
            return Err(FitError::DoesNotFit(format!(
                "a single client is answered in less time than a request costs in the saturated run \
                 ({} less): is `--cores` right, did the server slow down?",
                figures::time(-self.path)
            )));
        }
        // Full means more than clients enough to cover the time on the way.
        let enough = f64::from(cores.min(slots)) * (1.0 + self.path.max(0.0) / demand);
        if f64::from(high.clients) < 1.5 * enough {
            return Err(FitError::NotSaturated(
                high.clients,
                (f64::from(high.clients) / enough).min(0.99),
            ));
        }
        Ok(())
    }
}

/// Number of draws of the bootstrap.
pub(super) const DRAWS: usize = 400;

/// The interval that holds a share `confidence` of the draws, widened to hold the point.
pub(super) fn interval(point: f64, draws: impl Iterator<Item = f64>, confidence: f64) -> [f64; 2] {
    let mut values: Vec<f64> = draws.collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    [at(tail).min(point), at(1.0 - tail).max(point)]
}
