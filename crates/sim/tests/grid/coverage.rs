//! The share of the intervals of a case that hold what is true, and the committed table of that.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::Stop;

use crate::cases::{Case, Of};

/// The runs of one truth of a case, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) runs: u64,
    /// Runs that say that their interval is as narrow as was asked for.
    pub(crate) precise: u64,
    /// Runs whose interval is finite, and of these: those that hold the truth.
    pub(crate) known: u64,
    pub(crate) held: u64,
    /// Sums over known runs, as shares of the truth: how far the means are off, and the half-widths.
    pub(crate) off: f64,
    pub(crate) half_widths: f64,
    /// The mean and the half-width of the first of the runs; none if its interval is not finite.
    pub(crate) first: Option<(f64, f64)>,
}

impl Count {
    /// The share of the known intervals that hold the truth.
    pub(crate) fn coverage(&self) -> f64 {
        self.held as f64 / self.known as f64
    }
}

/// Runs a case, these of its runs, on so many threads.
///
/// # Panics
/// If a run fails.
pub(crate) fn count(case: &Case, at: usize, runs: Range<u64>, threads: usize) -> Vec<Count> {
    let next = AtomicU64::new(runs.start);
    // Sums of floats depend on their order, so that runs are kept until all are there.
    let results = Mutex::new(vec![None; (runs.end - runs.start) as usize]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= runs.end {
                        return;
                    }
                    let outcome = sim::run(&case.network, &case.options(at, n));
                    let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", case.name));
                    let found = case.truths.iter().map(|(of, _)| match of {
                        Of::Class(class) => outcome.classes[*class].response,
                        Of::Station(station) => outcome.stations[*station].sojourn,
                    });
                    let one = (outcome.stop == Stop::Precise, found.collect::<Vec<_>>());
                    results.lock().unwrap_or_else(PoisonError::into_inner)
                        [(n - runs.start) as usize] = Some(one);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut counts = vec![Count::default(); case.truths.len()];
    for (precise, found) in results.into_iter().map(|run| run.expect("every run is over")) {
        for ((count, response), (_, truth)) in counts.iter_mut().zip(found).zip(&case.truths) {
            let is_first = count.runs == 0;
            count.runs += 1;
            count.precise += u64::from(precise);
            let known = response.filter(|response| response.half_width.is_finite());
            let Some(response) = known else { continue };
            if is_first {
                count.first = Some((response.mean, response.half_width));
            }
            count.known += 1;
            count.held += u64::from((response.mean - truth).abs() <= response.half_width);
            count.off += response.mean / truth - 1.0;
            count.half_widths += response.half_width / truth;
        }
    }
    counts
}

/// The first line of the table.
pub(crate) const HEAD: &str = "case,of,seed,plan,precision,truth,runs,precise,known,held,coverage,\
                               mean_off_percent,half_width_percent,first_mean,first_half_width";

/// The part of a row that names the case: where it differs the case is to be run again.
pub(crate) fn key(case: &Case, at: usize, n: usize) -> String {
    let options = case.options(at, 0);
    let plan = format!("{:?}", case.plan);
    let (seed, (of, truth)) = (options.seed, case.truths[n]);
    let of = match of {
        Of::Class(class) => format!("class {class}"),
        Of::Station(station) => format!("station {station}"),
    };
    format!("\"{}\",{of},{seed},{plan},{},{truth:.8}", case.name, case.precision)
}

/// The row of a truth.
pub(crate) fn row(case: &Case, at: usize, n: usize, count: &Count) -> String {
    let of_all = |sum: f64| 100.0 * sum / count.known as f64;
    let Count { runs, precise, known, held, .. } = count;
    let (off, half_width) = (of_all(count.off), of_all(count.half_widths));
    let coverage = count.coverage();
    let key = key(case, at, n);
    let first = first(count);
    format!("{key},{runs},{precise},{known},{held},{coverage:.3},{off:+.3},{half_width:.3},{first}")
}

/// The end of a row: the interval of its first run with every digit. A change of the rule that ends a run,
/// or of the draws, changes it, and the row is of the past.
pub(crate) fn first(count: &Count) -> String {
    let (mean, half_width) = count.first.unwrap_or((f64::NAN, f64::NAN));
    format!("{mean:?},{half_width:?}")
}
