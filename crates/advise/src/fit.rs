//! From run records to a scenario: the time that a request costs the server, the time that it costs
//! on the way, and the number of slots.
//!
//! The server is taken to be fujita's: a queue, r slots, and processors that the holders of slots
//! share, with a work demand g(x) = a x + b of the document's size x. Two closed runs identify it:
//!
//! - **one client**: nobody waits, R(x) = Z + g(x), where Z is spent on the way; the slope is a;
//! - **saturated**: m busy processors complete X = m / E\[g\] requests a second, which gives b and so
//!   Z; and R(x) = W + (r / m) g(x), whose slope gives r, or, where r is known, a
//!   once more (exact for any demand: by Little's law the wait does not depend on x).
//!
//! Intervals are by parametric bootstrap: every measured mean is drawn anew within its own interval,
//! and the fit repeated. What the runs cannot identify is named, not guessed.

use std::fmt;

use measure::{Estimate, RunRecord};

use crate::Scenario;

mod buckets;
mod build;
mod causes;
mod demands;
mod draft;
mod evidence;
mod falling;
mod identify;
mod linear;
mod loads;
mod logged;
mod observed;
mod points;
mod residuals;
mod scalability;
mod spans;
mod statements;
mod together;

pub use buckets::QuantileWitness;
pub use causes::{Cause, CauseKind, causes};
pub use demands::{DemandEvidence, Window, fit_demands};
pub use draft::{RowStand, SourceFit, SourceRow};
pub use loads::{Fitted, fit_runs};
pub use logged::{LoggedRequest, fit_log};
pub use points::{LoadPoint, fit_points};
pub(crate) use residuals::with_quantum;
pub use spans::{Span as TraceSpan, fit_spans};
pub use statements::{Statement, StatementEvidence, fit_statements};
pub use together::{LeftOut, together};

use build::build;
use evidence::Evidence;
use identify::{identify_cores, identify_slots};
use observed::Observed;
use residuals::{choose_quantum, misfits, residuals};

/// The names of the parts of a fitted scenario.
pub mod names {
    /// The class of all requests.
    pub const CLASS: &str = "http";
    /// The delay outside the server: network, client, proxy.
    pub const PATH: &str = "path";
    /// The gate whose slots requests hold while they are served.
    pub const GATE: &str = "slots";
    /// The processors that the holders of the slots share.
    pub const CPU: &str = "cpu";
}

/// Knowledge from elsewhere, and settings of the fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The server's slots (workers, helpers), if known.
    pub slots: Option<u32>,
    /// The processors that it may use, if known.
    pub cores: Option<u32>,
    /// The seed of the bootstrap and of the simulations.
    pub seed: u64,
    /// The confidence of the intervals.
    pub confidence: f64,
    /// When the fit is made, UTC, RFC 3339.
    pub date: String,
    /// The name of the scenario.
    pub name: String,
}

/// A fitted scenario and what it rests on.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The scenario, with the load of the saturated run.
    pub scenario: Scenario,
    /// Every measured mean beside what the fitted scenario gives for it, by simulation.
    pub residuals: Vec<Residual>,
    /// Notes for the user, in sentences.
    pub notes: Vec<String>,
}

/// A measured mean response beside the fitted one.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The run.
    pub run: String,
    /// Its clients.
    pub clients: u32,
    /// The document.
    pub document: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// Number of measured responses.
    pub completed: u64,
    /// The measured mean response \[s\].
    pub measured: Estimate,
    /// Mean response by the fitted scenario \[s\].
    pub fitted: f64,
}

impl Residual {
    /// Fitted less measured, as a share of measured.
    pub fn relative(&self) -> f64 {
        self.fitted / self.measured.mean - 1.0
    }
}

/// Why no scenario could be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// A run is of no use for a fit: its name and why.
    Run(String, String),
    /// The runs ask for different documents.
    Documents,
    /// All runs have one load: its clients.
    OneLoad(u32),
    /// No run has a single client.
    NoLowLoad,
    /// No run is saturated: the most clients, and the utilisation reached with them.
    NotSaturated(u32, f64),
    /// The processors cannot be told from the runs: the most that is possible.
    CoresUnknown(u32),
    /// The slots cannot be told from the runs: why.
    SlotsUnknown(String),
    /// The given evidence does not suffice: the part that is missing, and the way out.
    TooLittle(String),
    /// The numbers contradict the model: how.
    DoesNotFit(String),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Run(run, why) => write!(f, "run {run}: {why}"),
            FitError::Documents => {
                write!(
                    f,
                    "the runs ask for different documents: fit those of one document set together"
                )
            }
            FitError::OneLoad(clients) => write!(
                f,
                "all runs have one load, {}, so a demand cannot be told from a ceiling: \
                 measure a small load and a saturating one, such as `--clients 1,4,16`",
                crate::Load::Clients(*clients)
            ),
            FitError::NoLowLoad => write!(
                f,
                "no run has a single client, so service cannot be told from waiting: measure one with \
                 `--clients 1`"
            ),
            FitError::NotSaturated(clients, busy) => write!(
                f,
                "no run is saturated: with {clients} clients the server is {:.0} % busy; measure one \
                 with about {} clients",
                busy * 100.0,
                clients.saturating_mul(4)
            ),
            FitError::CoresUnknown(most) => write!(
                f,
                "the runs do not tell how many processors the server uses (1 to {most} are possible): \
                 say it with `--cores`"
            ),
            FitError::SlotsUnknown(why) => {
                write!(
                    f,
                    "the runs do not tell how many slots the server has ({why}): say it with `--slots`"
                )
            }
            FitError::TooLittle(what) => f.write_str(what),
            FitError::DoesNotFit(how) => write!(f, "the model does not fit: {how}"),
        }
    }
}

impl std::error::Error for FitError {}

/// Fits a scenario to closed runs of one document set.
///
/// # Errors
/// If the runs do not identify the model, or contradict it.
pub fn fit(runs: &[RunRecord], options: &FitOptions) -> Result<Fit, FitError> {
    let runs = runs
        .iter()
        .map(|run| Observed::new(run, options.confidence))
        .collect::<Result<Vec<_>, _>>()?;
    for run in &runs {
        let error = |why: &str| Err(FitError::Run(run.id.clone(), why.into()));
        if run.classes.is_empty() {
            return error("the sizes of the documents are not known");
        }
        if run.think_s > 0.0 {
            return error(
                "the clients think, so that sizes tell little: measure without `--think`",
            );
        }
    }
    let low = runs.iter().find(|run| run.clients == 1).ok_or(FitError::NoLowLoad)?;
    let high = runs.iter().max_by_key(|run| run.clients).ok_or(FitError::NoLowLoad)?;
    if runs.iter().any(|run| run.documents != low.documents) {
        return Err(FitError::Documents);
    }
    if high.clients == 1 {
        return Err(FitError::NotSaturated(1, high.throughput.mean * low.response_mean()));
    }
    let cores = identify_cores(low, high, options.cores)?;
    let evidence = Evidence::new(&runs, low, high, cores, options.slots);
    let point = evidence.solve(&evidence.as_measured());
    let draws = evidence.bootstrap(options.seed);
    let mut notes = Vec::new();
    let mut unidentified = Vec::new();
    let slots = identify_slots(&point, &draws, high, cores, options, &mut notes)?;
    point.check(high, slots, cores)?;
    if low.classes.len() == 1 {
        unidentified.push(
            "how the demand grows with the size (only one size was asked for): all of it is taken as \
             fixed"
                .into(),
        );
    }
    unidentified.push(
        "how much of the time on the way is spent while a slot is held: all of it is taken as spent \
         outside"
            .into(),
    );
    let mut scenario = build(&evidence, &point, &draws, slots, options);
    if let Some(calibration) = &mut scenario.calibration {
        calibration.runs = runs.iter().map(|run| run.id.clone()).collect();
        calibration.unidentified = unidentified;
    }
    choose_quantum(&mut scenario, high, cores, options, &mut notes)?;
    let residuals = residuals(&scenario, &runs, options)?;
    notes.extend(misfits(&residuals)?);
    Ok(Fit { scenario, residuals, notes })
}
