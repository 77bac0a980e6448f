//! The fitted scenario, simulated, beside the runs that it was fitted to.

use std::collections::BTreeMap;

use sim::Options;

use super::evidence::LINE_ERROR;
use super::observed::{Observed, standard_error};
use super::{FitError, FitOptions, Residual, names};
use crate::units::Span;
use crate::{Scenario, StationName};

/// The quanta that are tried \[s\]; the kernel's slice is between 0.7 and 4 ms on most machines.
pub(super) const QUANTA_S: [f64; 6] = [0.75e-3, 1.5e-3, 2e-3, 2.8e-3, 4e-3, 6e-3];
/// A quantum is taken only if it explains the saturated run clearly better than ideal sharing.
pub(super) const QUANTUM_GAIN: f64 = 0.8;

/// An operating system shares a processor in slices, which short requests never feel: the quantum
/// that explains the saturated run best, if one does clearly better than ideal sharing.
///
/// # Errors
/// If the scenario cannot be simulated.
pub(super) fn choose_quantum(
    scenario: &mut Scenario,
    high: &Observed,
    cores: u32,
    options: &FitOptions,
    notes: &mut Vec<String>,
) -> Result<(), FitError> {
    if cores > 1 {
        notes.push("several processors are taken as ideal sharing, without a quantum".into());
        return Ok(());
    }
    let ideal = misfit(scenario, high, options)?;
    let mut best = (ideal, None);
    for quantum in QUANTA_S {
        let sliced = with_quantum(scenario, Some(quantum));
        let error = misfit(&sliced, high, options)?;
        if error < best.0 {
            best = (error, Some(quantum));
        }
    }
    if let (error, Some(quantum)) = best
        && error < QUANTUM_GAIN * ideal
    {
        *scenario = with_quantum(scenario, Some(quantum));
        notes.push(format!(
            "a quantum of {} explains the saturated run better than ideal sharing (mean error over \
             documents {:.1} % against {:.1} %)",
            Span(quantum),
            error * 100.0,
            ideal * 100.0
        ));
    }
    Ok(())
}

/// The scenario with its processor shared by a quantum, or ideally.
pub(crate) fn with_quantum(scenario: &Scenario, quantum_s: Option<f64>) -> Scenario {
    let mut changed = scenario.clone();
    for station in changed.stations.iter_mut().filter(|station| station.name == names::CPU) {
        station.kind =
            if quantum_s.is_some() { StationName::FairShare } else { StationName::Sharing };
        station.quantum = quantum_s.map(Span);
        station.tick = None;
    }
    changed
}

/// The mean relative error over the documents of a run; a document with more noise counts less.
pub(super) fn misfit(
    scenario: &Scenario,
    run: &Observed,
    options: &FitOptions,
) -> Result<f64, FitError> {
    let fitted = simulate(scenario, run.clients, options)?;
    let (mut sum, mut weights) = (0.0, 0.0);
    for class in &run.classes {
        let Some(fitted) = fitted.get(&class.name) else { continue };
        let noise = standard_error(&class.response) / class.response.mean;
        let weight = 1.0 / (noise * noise + LINE_ERROR * LINE_ERROR);
        sum += weight * (fitted / class.response.mean - 1.0).abs();
        weights += weight;
    }
    Ok(if weights > 0.0 { sum / weights } else { f64::INFINITY })
}

/// Mean response by document \[s\] with so many clients.
pub(super) fn simulate(
    scenario: &Scenario,
    clients: u32,
    options: &FitOptions,
) -> Result<BTreeMap<String, f64>, FitError> {
    let broken = |cause: String| FitError::DoesNotFit(cause);
    let network = scenario
        .with_population(names::CLASS, clients)
        .and_then(|scenario| scenario.network())
        .map_err(|error| broken(error.to_string()))?;
    let sim_options = Options {
        seed: options.seed,
        precision: 0.02,
        completions_max: 100_000,
        ..Options::default()
    };
    let outcome = sim::run(&network, &sim_options).map_err(|error| broken(error.to_string()))?;
    let by_document = outcome.classes[0].sizes.iter().filter_map(|size| {
        let sim::SizeRange::Document { name, .. } = &size.range else { return None };
        Some((name.clone(), size.response.as_ref()?.mean))
    });
    Ok(by_document.collect())
}

pub(super) fn residuals(
    scenario: &Scenario,
    runs: &[Observed],
    options: &FitOptions,
) -> Result<Vec<Residual>, FitError> {
    let mut all = Vec::new();
    for run in runs {
        let fitted = simulate(scenario, run.clients, options)?;
        all.extend(run.classes.iter().filter_map(|class| {
            Some(Residual {
                run: run.id.clone(),
                clients: run.clients,
                document: class.name.clone(),
                bytes: class.bytes,
                completed: class.completed,
                measured: class.response,
                fitted: *fitted.get(&class.name)?,
            })
        }));
    }
    Ok(all)
}

/// Residuals beyond this are worth a word, beyond the second the model is refused.
pub(super) const RESIDUAL_MAX: (f64, f64) = (0.15, 0.60);
/// Fewer measurements of a document than this prove nothing.
pub(super) const COMPLETED_MIN: u64 = 30;

/// # Errors
/// If the fitted scenario is far from the very runs that it was fitted to.
pub(super) fn misfits(residuals: &[Residual]) -> Result<Vec<String>, FitError> {
    let judged = residuals.iter().filter(|residual| residual.completed >= COMPLETED_MIN);
    let Some(worst) = judged.max_by(|a, b| a.relative().abs().total_cmp(&b.relative().abs()))
    else {
        return Ok(vec!["too few requests for a judgement of the residuals".into()]);
    };
    let text = format!(
        "the fitted scenario is {:+.0} % off for `{}` with {} client(s)",
        worst.relative() * 100.0,
        worst.document,
        worst.clients
    );
    match worst.relative().abs() {
        off if off > RESIDUAL_MAX.1 => Err(FitError::DoesNotFit(text)),
        off if off > RESIDUAL_MAX.0 => Ok(vec![text]),
        _ => Ok(Vec::new()),
    }
}
