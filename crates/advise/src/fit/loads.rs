//! Run records as loads: clients, throughput and response of each, whatever was asked for. It is the way
//! of a service whose documents have no known sizes.

use measure::RunRecord;

use super::draft::SourceFit;
use super::observed::{Observed, standard_error};
use super::points::{LoadPoint, Measured, fit_measured};
use super::{Fit, FitError, FitOptions, fit};

/// A fit to runs by what they tell most by.
#[derive(Clone, Debug)]
pub enum Fitted {
    /// By the sizes of the documents: demand of a byte and of a request, and slots.
    BySizes(Fit),
    /// By the loads alone: clients, throughput and response.
    ByLoads(SourceFit),
}

/// Fits a scenario to runs that belong together: by the sizes of their documents where these tell
/// something, else by their loads. The first note says why it was by loads.
///
/// # Errors
/// If the runs have one load, or contradict the model.
pub fn fit_runs(runs: &[RunRecord], options: &FitOptions) -> Result<Fitted, FitError> {
    if options.cores == Some(0) {
        return Err(FitError::TooLittle("`--cores` must be at least 1".into()));
    }
    if options.slots == Some(0) {
        return Err(FitError::TooLittle("`--slots` must be at least 1".into()));
    }
    let why = match by_sizes(runs, options) {
        Ok(fit) => return Ok(Fitted::BySizes(fit)),
        Err(error @ FitError::DoesNotFit(_)) => return Err(error),
        Err(FitError::Run(_, why)) => why,
        Err(lacking) => lacking.to_string(),
    };
    let mut fit = fit_loads(runs, options)?;
    fit.notes.insert(0, format!("fitted to clients, throughput and response, not to sizes: {why}"));
    Ok(Fitted::ByLoads(fit))
}

/// Fit by sizes, where there are several or one is enough.
fn by_sizes(runs: &[RunRecord], options: &FitOptions) -> Result<Fit, FitError> {
    let seen = runs
        .iter()
        .map(|run| Observed::new(run, options.confidence))
        .collect::<Result<Vec<_>, _>>()?;
    // One size tells no slots: they must be given.
    if options.slots.is_none()
        && let Some(one) = seen.iter().find(|run| !run.classes.is_empty() && !run.tells_sizes())
    {
        let why = "all documents have one size, and no slots are given with `--slots`";
        return Err(FitError::Run(one.id.clone(), why.into()));
    }
    fit(runs, options)
}

/// Fits a closed network to runs, each of which is one load.
fn fit_loads(runs: &[RunRecord], options: &FitOptions) -> Result<SourceFit, FitError> {
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
