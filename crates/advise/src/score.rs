//! A prediction held against a measurement: predicted, simulated and measured values, and the steps
//! that account for the rest.

use measure::{Estimate, LoadShape, Phase, RunRecord};
use sim::Options;

use crate::fit::with_quantum;
use crate::predict::{AskError, Load, Numbers, Point, Value, at, simulate};
use crate::{
    Approximation, DemandEntry, DistEntry, PerByte, Prediction, Scenario, Span, StationName,
};

/// Largest distances of a measured value from the simulated one that count as right, as shares of
/// the simulated value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// For throughput.
    pub throughput: f64,
    /// For the mean response over all documents.
    pub response: f64,
    /// For the mean response of one document.
    pub document: f64,
}

impl Default for Tolerance {
    /// 10 %, 15 % and 25 %.
    fn default() -> Tolerance {
        Tolerance { throughput: 0.10, response: 0.15, document: 0.25 }
    }
}

/// Verdict on a predicted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// The whole interval of the measurement lies within the tolerance.
    Yes,
    /// The interval straddles the tolerance's edge.
    CannotTell,
    /// The whole interval lies outside.
    No,
}

/// One quantity, as three witnesses give it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The quantity.
    pub quantity: Quantity,
    /// The formula.
    pub formula: Option<Value>,
    /// The simulation.
    pub simulated: Value,
    /// The measurement.
    pub measured: Estimate,
    /// Number of requests that the measurement rests on.
    pub completed: u64,
    /// Verdict on the simulated value.
    pub right: Right,
}

impl Row {
    /// Simulated less measured, as a share of measured.
    pub fn error(&self) -> f64 {
        self.simulated.mean / self.measured.mean - 1.0
    }

    /// Formula less measured, as a share of measured.
    pub fn formula_error(&self) -> Option<f64> {
        Some(self.formula?.mean / self.measured.mean - 1.0)
    }
}

/// Quantity of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Completions per second.
    Throughput,
    /// Mean response over all documents.
    Response,
    /// Mean response of a document.
    Document {
        /// Its name.
        name: String,
        /// Its size \[bytes\].
        bytes: u64,
    },
}

/// A step on the way from the formula to the measurement, in mean response \[s\].
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The thing that the step takes into account.
    pub what: String,
    /// The mean response with it \[s\].
    pub response: f64,
}

/// A prediction held against one run.
#[derive(Clone, Debug)]
pub struct Score {
    /// The run.
    pub run: String,
    /// Its load.
    pub load: Load,
    /// The slots that were predicted for.
    pub slots: Option<u32>,
    /// Quantity by quantity.
    pub rows: Vec<Row>,
    /// From the formula to the measurement, step by step; the last one is the measurement.
    pub accounts: Vec<Account>,
    /// Ways in which the prediction lay beyond its calibration.
    pub beyond: Vec<String>,
    /// Error that the formula's numbers may have.
    pub approximation: Approximation,
}

impl Score {
    /// Verdict on the prediction: throughput and mean response must be right; of the documents,
    /// those with at least 30 requests.
    pub fn right(&self) -> Right {
        let counts = |row: &&Row| {
            !matches!(row.quantity, Quantity::Document { .. }) || row.completed >= COMPLETED_MIN
        };
        self.rows.iter().filter(counts).map(|row| row.right).max().unwrap_or(Right::CannotTell)
    }

    /// The largest error of the simulation among the rows that count.
    pub fn worst(&self) -> Option<&Row> {
        let counts = self.rows.iter().filter(|row| row.completed >= COMPLETED_MIN);
        counts.max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))
    }
}

/// Fewer requests than these prove nothing about a document.
const COMPLETED_MIN: u64 = 30;

/// The load of a run, as a prediction names it; of one that varies, its mean rate.
pub fn load_of(run: &RunRecord) -> Load {
    match &run.header.load {
        LoadShape::Closed { clients, .. } => Load::Clients(*clients),
        LoadShape::Poisson { rate, .. } | LoadShape::Fixed { rate, .. } => Load::Rate(*rate),
        LoadShape::Varying { phases, .. } => {
            let sum = |of: fn(&Phase) -> f64| phases.iter().map(of).sum::<f64>();
            Load::Rate(sum(|phase| phase.arrivals) / sum(|phase| phase.length_s).max(1e-9))
        }
    }
}

/// The point of a prediction that speaks of a run's load and, where they are known, its slots; none if the
/// load varied, of which a prediction of a steady state says nothing.
pub fn point_for<'a>(
    prediction: &'a Prediction,
    run: &RunRecord,
    slots: Option<u32>,
) -> Option<&'a Point> {
    let load = load_of(run);
    if run.header.load.varies() {
        return None;
    }
    prediction
        .points
        .iter()
        .find(|point| point.load == load && (slots.is_none() || point.slots == slots))
}

/// Holds a predicted point against a run.
///
/// # Errors
/// If the scenario cannot be simulated again for the accounts.
pub fn score(
    scenario: &Scenario,
    point: &Point,
    run: &RunRecord,
    tolerance: Tolerance,
    options: &Options,
) -> Result<Score, AskError> {
    let judgement = run.judge(options.confidence);
    let mut rows = vec![row(
        Quantity::Throughput,
        point.formula.as_ref().map(|formula| formula.throughput),
        point.simulation.throughput,
        judgement.all.throughput,
        judgement.all.completed,
        tolerance.throughput,
    )];
    if let Some(measured) = judgement.all.response {
        rows.push(row(
            Quantity::Response,
            point.formula.as_ref().map(|formula| formula.response),
            point.simulation.response,
            measured,
            judgement.all.completed,
            tolerance.response,
        ));
    }
    for (spec, measures) in run.header.classes.iter().zip(&judgement.classes) {
        let (Some(measured), Some(simulated)) =
            (measures.response, point.simulation.document(&spec.name))
        else {
            continue;
        };
        rows.push(row(
            Quantity::Document { name: spec.name.clone(), bytes: spec.bytes.unwrap_or(0) },
            point.formula.as_ref().and_then(|formula| formula.document(&spec.name)),
            simulated,
            measured,
            measures.completed,
            tolerance.document,
        ));
    }
    let accounts = match judgement.all.response {
        Some(measured) => {
            accounts(scenario, point, judgement.all.throughput.mean, measured.mean, options)?
        }
        None => Vec::new(),
    };
    Ok(Score {
        run: run.header.id.clone(),
        load: load_of(run),
        slots: point.slots,
        rows,
        accounts,
        beyond: point.beyond.clone(),
        approximation: point.approximation(),
    })
}

fn row(
    quantity: Quantity,
    formula: Option<Value>,
    simulated: Value,
    measured: Estimate,
    completed: u64,
    tolerance: f64,
) -> Row {
    let (low, high) = (simulated.mean * (1.0 - tolerance), simulated.mean * (1.0 + tolerance));
    let right = if low <= measured.low() && measured.high() <= high {
        Right::Yes
    } else if measured.high() < low || high < measured.low() {
        Right::No
    } else {
        Right::CannotTell
    };
    Row { quantity, formula, simulated, measured, completed, right }
}

/// Steps that account for the difference between formula and measurement, one thing after the
/// other.
fn accounts(
    scenario: &Scenario,
    point: &Point,
    throughput: f64,
    response: f64,
    options: &Options,
) -> Result<Vec<Account>, AskError> {
    let account = |what: &str, response| Account { what: what.into(), response };
    let again = |scenario: &Scenario| -> Result<Numbers, AskError> {
        let class = point.class.as_deref();
        simulate(&at(scenario, class, point.load, point.slots)?, class, point.load, options)
    };
    let mut steps = Vec::new();
    if let Some(formula) = &point.formula {
        steps.push(account("formula", formula.response.mean));
    }
    if scenario.stations.iter().any(|station| station.quantum.is_some()) {
        let ideal = again(&with_quantum(scenario, None))?;
        steps.push(account("simulation, ideal sharing: no approximation", ideal.response.mean));
        steps.push(account(
            "simulation with the quantum of the kernel",
            point.simulation.response.mean,
        ));
    } else {
        steps.push(account("simulation: no approximation", point.simulation.response.mean));
    }
    // Under a closed load the throughput tells how fast the server worked in this very run.
    if let Load::Clients(_) = point.load {
        let slower = point.simulation.throughput.mean / throughput;
        let scaled = again(&with_demand_scaled(scenario, slower))?;
        let percent = (slower - 1.0) * 100.0;
        steps.push(account(
            &format!("demands {percent:+.1} %, as the throughput of this run says"),
            scaled.response.mean,
        ));
    }
    steps.push(account("measured", response));
    Ok(steps)
}

/// The scenario with all demands multiplied for which jobs queue.
fn with_demand_scaled(scenario: &Scenario, factor: f64) -> Scenario {
    let mut changed = scenario.clone();
    for station in &mut changed.stations {
        match &mut station.demand {
            Some(DemandEntry::BySize(demand)) => {
                demand.per_byte = PerByte(demand.per_byte.0 * factor);
                demand.base = Span(demand.base.0 * factor);
            }
            Some(DemandEntry::Time(_)) if station.kind == StationName::Delay => {}
            Some(DemandEntry::Time(DistEntry::Constant(time))) => time.0 *= factor,
            Some(DemandEntry::Time(DistEntry::Shaped(shaped))) => shaped.mean.0 *= factor,
            Some(DemandEntry::OfTrace(_)) | None => {}
        }
    }
    changed
}
