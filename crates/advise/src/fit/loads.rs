//! Run records as loads: clients, throughput and response of each, whatever was asked for. It is the way
//! of a service whose documents have no known sizes.

use measure::RunRecord;

use super::draft::SourceFit;
use super::observed::{Observed, standard_error};
use super::points::{LoadPoint, Measured, fit_measured};
use super::{FitError, FitOptions};

/// Fits a closed network to runs, each of which is one load.
pub(super) fn fit_loads(runs: &[RunRecord], options: &FitOptions) -> Result<SourceFit, FitError> {
    let seen = runs
        .iter()
        .map(|run| Observed::new(run, options.confidence))
        .collect::<Result<Vec<_>, _>>()?;
    let point = |(nth, run): (usize, &Observed)| LoadPoint {
        line: nth + 1,
        clients: f64::from(run.clients),
        throughput: run.throughput.mean,
        response: Some(run.response_mean()),
    };
    let points: Vec<LoadPoint> = seen.iter().enumerate().map(point).collect();
    let noise = |run: &Observed| standard_error(&run.throughput) / run.throughput.mean;
    let noise: Vec<f64> = seen.iter().map(noise).collect();
    let names: Vec<String> = seen.iter().map(|run| run.id.clone()).collect();
    let think = seen.first().map_or(0.0, |run| run.think_s);
    fit_measured(&points, &Measured { noise: &noise, think }, &names, options)
}
