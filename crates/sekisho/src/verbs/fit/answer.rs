//! Answers of `fit --json`: what was fitted to what, or why nothing fits.

use std::path::Path;

use advise::{Fit, FitError, LeftOut, RowStand, Scenario, ScenarioKeys, SourceFit};
use cli::Verdict;
use cli::json::{self, Answer};
use schemars::JsonSchema;
use serde::Serialize;

/// Evidence that told the parameters apart.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FittedBy")]
pub(crate) enum By {
    /// Sizes of documents.
    Sizes,
    /// Loads of runs.
    Loads,
    /// Another source: a log, metrics, statements, spans, a table.
    Source,
}

/// A run that was left out.
#[derive(Serialize, JsonSchema)]
struct Left<'a> {
    /// Name of the run.
    run: &'a str,
    /// Cause why it does not belong to the others.
    why: &'a str,
}

fn left_out(left: &[LeftOut]) -> Vec<Left<'_>> {
    left.iter().map(|one| Left { run: &one.run, why: &one.why }).collect()
}

/// A scenario, fitted to the sizes of documents in run records.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FittedBySizes<'a> {
    by: By,
    #[schemars(with = "ScenarioKeys")]
    scenario: &'a Scenario,
    /// File that the scenario was written to.
    scenario_file: &'a Path,
    /// Measured beside fitted, for each run and document.
    residuals: Vec<Residual<'a>>,
    /// Remarks that a reader must know.
    notes: &'a [String],
    /// Runs that do not belong to the others.
    left_out: Vec<Left<'a>>,
}

/// A document in a run, measured and fitted.
#[derive(Serialize, JsonSchema)]
struct Residual<'a> {
    /// Name of the run.
    run: &'a str,
    /// Number of clients.
    clients: u32,
    /// Name of the document.
    document: &'a str,
    /// Its size \[B\].
    bytes: u64,
    /// Number that were completed.
    completed: u64,
    /// Measured mean \[s\].
    measured_s: f64,
    /// None where there were too few requests to say.
    measured_half_width_s: Option<f64>,
    /// Mean response by the model \[s\].
    fitted_s: f64,
}

impl Answer for FittedBySizes<'_> {
    const FORMAT: &'static str = "sekisho/fit/1";
}

impl<'a> FittedBySizes<'a> {
    pub(super) fn new(fit: &'a Fit, left: &'a [LeftOut], file: &'a Path) -> FittedBySizes<'a> {
        let residual = |residual: &'a advise::Residual| Residual {
            run: &residual.run,
            clients: residual.clients,
            document: &residual.document,
            bytes: residual.bytes,
            completed: residual.completed,
            measured_s: residual.measured.mean,
            measured_half_width_s: known(residual.measured.half_width),
            fitted_s: residual.fitted,
        };
        FittedBySizes {
            by: By::Sizes,
            scenario: &fit.scenario,
            scenario_file: file,
            residuals: fit.residuals.iter().map(residual).collect(),
            notes: &fit.notes,
            left_out: left_out(left),
        }
    }

    pub(super) fn line(&self) -> String {
        json::answer(Verdict::Holds, Verdict::Holds.word(), self)
    }
}

/// A scenario, fitted to the loads of runs, or to another source.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FittedSource<'a> {
    by: By,
    #[schemars(with = "ScenarioKeys")]
    scenario: &'a Scenario,
    /// File that the scenario was written to.
    scenario_file: &'a Path,
    /// Measured beside fitted.
    rows: Vec<Row<'a>>,
    /// Quantiles that the source tells, held against the model.
    quantiles: Vec<Quantile<'a>>,
    /// Remarks that a reader must know.
    notes: &'a [String],
    /// Runs that do not belong to the others.
    left_out: Vec<Left<'a>>,
}

/// A number of the source, and what the fit makes of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FittedRow")]
struct Row<'a> {
    /// Name of the quantity.
    name: &'a str,
    /// Measured value.
    measured: f64,
    /// Value by the model.
    fitted: f64,
    /// Unit of its values.
    unit: &'a str,
    /// True if the fit took the number up, so that it could not have been otherwise.
    taken_up: bool,
}

/// A quantile that the fit did not look at.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QuantileWitness")]
struct Quantile<'a> {
    /// Name of the class.
    class: &'a str,
    /// The quantile, 0 to 1.
    quantile: f64,
    /// Number of windows of the source that were taken together.
    windows: usize,
    /// Mean number of processors that were busy in these.
    busy: f64,
    /// Number of responses that the histogram counted in these.
    completed: f64,
    /// Lower bound by the histogram \[s\].
    above_s: f64,
    /// None where the source does not bound it.
    at_most_s: Option<f64>,
    /// The quantile by the fitted scenario \[s\], simulated.
    simulated_s: f64,
    /// Half the width of its interval \[s\].
    simulated_half_width_s: Option<f64>,
    /// True if its interval meets the bounds.
    agrees: bool,
}

impl Answer for FittedSource<'_> {
    const FORMAT: &'static str = "sekisho/fit-source/1";
}

impl<'a> FittedSource<'a> {
    pub(super) fn new(
        fit: &'a SourceFit,
        by: By,
        left: &'a [LeftOut],
        file: &'a Path,
    ) -> FittedSource<'a> {
        let row = |row: &'a advise::SourceRow| Row {
            name: &row.name,
            measured: row.measured,
            fitted: row.fitted,
            unit: row.unit,
            taken_up: row.stand == RowStand::TakenUp,
        };
        let quantile = |witness: &'a advise::QuantileWitness| Quantile {
            class: &witness.class,
            quantile: witness.quantile,
            windows: witness.windows,
            busy: witness.busy,
            completed: witness.completed,
            above_s: witness.measured[0],
            at_most_s: known(witness.measured[1]),
            simulated_s: witness.fitted.mean,
            simulated_half_width_s: known(witness.fitted.half_width),
            agrees: witness.agrees(),
        };
        FittedSource {
            by,
            scenario: &fit.scenario,
            scenario_file: file,
            rows: fit.rows.iter().map(row).collect(),
            quantiles: fit.witnesses.iter().map(quantile).collect(),
            notes: &fit.notes,
            left_out: left_out(left),
        }
    }

    pub(super) fn line(&self) -> String {
        json::answer(Verdict::Holds, Verdict::Holds.word(), self)
    }
}

/// Measurements that no model fits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NoFit {
    /// Cause why nothing fits, in words.
    pub(super) why: String,
    /// Likely causes, as far as the records tell them.
    pub(super) causes: Vec<String>,
    /// Command of the runs that would tell.
    pub(super) next: Option<String>,
}

impl Answer for NoFit {
    const FORMAT: &'static str = "sekisho/no-fit/1";
}

impl NoFit {
    pub(super) fn new(error: &FitError) -> NoFit {
        NoFit { why: error.to_string(), causes: Vec::new(), next: None }
    }

    pub(super) fn line(&self, verdict: Verdict) -> String {
        json::answer(verdict, verdict.word(), self)
    }
}

fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
