//! A formula's answer corrected by a short simulation: what approximations are worth in a sweep.
//!
//! The one idea: how far a formula is off changes slowly along a sweep, so that a few simulated loads
//! tell it for all. Between two of them the ratio of simulation to formula is interpolated, and tried
//! at a load in the middle; where it is off, that load divides the sweep further.
//!
//! A corrected number is no witness (invariant 10): it agrees with the simulation because it was
//! made to. Nothing here is stored with a prediction or scored as the formula's.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use sim::{Options, SimError};

use crate::predict::{AskError, Load, Value, at};
use crate::{FormulaAnswer, NoFormula, Scenario, formula};

/// A formula's answer, what simulation says of it, and both together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Corrected {
    /// The formula's answer, as it is without correction.
    pub formula: FormulaAnswer,
    /// Simulated values at this very point; none where the correction is interpolated.
    pub simulated: Option<Totals>,
    /// The corrected numbers, with 95 % intervals.
    pub value: Totals,
    /// The largest relative error of a corrected number, at 95 % confidence: half the width of the
    /// simulation's interval. Where the correction is interpolated, the error that was seen where
    /// the interpolation was tried is added.
    pub error: f64,
}

/// Throughput and response, over all classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Completions [1/s].
    #[serde(rename = "throughput_per_s")]
    pub throughput: Value,
    /// Mean response time \[s\].
    #[serde(rename = "response_s")]
    pub response: Value,
}

/// Why there is no corrected answer.
#[derive(Clone, Debug, PartialEq)]
pub enum CorrectedError {
    /// There is nothing to correct.
    Formula(NoFormula),
    /// There is nothing to correct it by.
    Sim(SimError),
    /// A load of the sweep does not fit the scenario.
    Ask(AskError),
}

impl fmt::Display for CorrectedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CorrectedError::Formula(none) => none.fmt(f),
            CorrectedError::Sim(error) => write!(f, "no correction: {error}"),
            CorrectedError::Ask(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CorrectedError {}

impl From<NoFormula> for CorrectedError {
    fn from(none: NoFormula) -> CorrectedError {
        CorrectedError::Formula(none)
    }
}

impl From<AskError> for CorrectedError {
    fn from(error: AskError) -> CorrectedError {
        CorrectedError::Ask(error)
    }
}

/// The relative error that a correction is for.
const TARGET: f64 = 0.02;

/// The options of a simulation short enough for a correction: intervals of 1 %, within a few
/// hundred thousand requests.
pub fn short_simulation(seed: u64) -> Options {
    Options { seed, precision: 0.01, completions_max: 600_000, ..Options::default() }
}

/// A scenario's formula, corrected by a simulation of the very scenario.
///
/// # Errors
/// If no formula answers it, or it cannot be simulated.
pub fn corrected(scenario: &Scenario, options: &Options) -> Result<Corrected, CorrectedError> {
    Ok(Anchor::of(scenario, options)?.corrected())
}

/// A sweep of a scenario's one class over loads that grow, all closed or all open, with a few of them
/// simulated.
///
/// # Errors
/// If a load does not fit the scenario, no formula answers it, or it cannot be simulated.
pub fn corrected_sweep(
    scenario: &Scenario,
    loads: &[Load],
    options: &Options,
) -> Result<Vec<Corrected>, CorrectedError> {
    let scenarios: Vec<Scenario> =
        loads.iter().map(|&load| at(scenario, None, load, None)).collect::<Result<_, _>>()?;
    let formulas: Vec<FormulaAnswer> = scenarios.iter().map(formula).collect::<Result<_, _>>()?;
    let positions: Vec<f64> = loads.iter().map(position).collect();
    let mut anchors: BTreeMap<usize, Anchor> = BTreeMap::new();
    // How far off the interpolation was, by the anchors to its left.
    let mut off: BTreeMap<usize, f64> = BTreeMap::new();
    let Some(last) = loads.len().checked_sub(1) else { return Ok(Vec::new()) };
    for end in [0, last] {
        anchors.insert(end, Anchor::of(&scenarios[end], options)?);
    }
    let mut open = vec![(0, last)];
    while let Some((low, high)) = open.pop() {
        if high - low < 2 {
            continue;
        }
        let middle = low + (high - low) / 2;
        let anchor = Anchor::of(&scenarios[middle], options)?;
        let guess = between(&anchors, &positions, middle);
        let distance = (0..2).map(|i| (guess[i] / anchor.ratio[i] - 1.0).abs());
        let distance = distance.fold(0.0, f64::max);
        // An anchor's own noise is no fault of the interpolation, so that it comes on top.
        let allowed = 0.5 * TARGET + anchor.error;
        anchors.insert(middle, anchor);
        if distance <= allowed {
            // This one load tried the whole stretch; each half is known by the anchor at its left.
            off.insert(low, distance);
            off.insert(middle, distance);
        } else {
            open.extend([(low, middle), (middle, high)]);
        }
    }
    let point = |(index, formula): (usize, FormulaAnswer)| match anchors.get(&index) {
        Some(anchor) => anchor.clone().corrected(),
        None => interpolated(formula, index, &anchors, &positions, &off),
    };
    Ok(formulas.into_iter().enumerate().map(point).collect())
}

fn position(load: &Load) -> f64 {
    match *load {
        Load::Clients(clients) => f64::from(clients),
        Load::Rate(rate) => rate,
    }
}

/// The ratios of throughput and of response at a load, on a straight line between two anchors.
fn between(anchors: &BTreeMap<usize, Anchor>, positions: &[f64], index: usize) -> [f64; 2] {
    let (&low, before) = anchors.range(..=index).next_back().expect("the first load is one");
    let (&high, after) = anchors.range(index..).next().expect("the last load is one");
    let width = positions[high] - positions[low];
    let share = if width == 0.0 { 0.0 } else { (positions[index] - positions[low]) / width };
    [0, 1].map(|i| before.ratio[i] * (1.0 - share) + after.ratio[i] * share)
}

fn interpolated(
    formula: FormulaAnswer,
    index: usize,
    anchors: &BTreeMap<usize, Anchor>,
    positions: &[f64],
    off: &BTreeMap<usize, f64>,
) -> Corrected {
    let ratio = between(anchors, positions, index);
    let (low, before) = anchors.range(..index).next_back().expect("the first load is one");
    let after = anchors.range(index..).next().map_or(0.0, |(_, anchor)| anchor.error);
    let tried = off.get(low).copied().unwrap_or(0.0);
    let error = before.error.max(after) + tried;
    let value = |mean: f64| Value { mean, half_width: Some(mean * error) };
    let value = Totals {
        throughput: value(formula.throughput * ratio[0]),
        response: value(formula.response * ratio[1]),
    };
    Corrected { formula, simulated: None, value, error }
}

/// A load that was simulated.
#[derive(Clone)]
struct Anchor {
    formula: FormulaAnswer,
    simulated: Totals,
    /// Simulation over formula, of throughput and of response.
    ratio: [f64; 2],
    /// Half the width of the simulation's intervals, relative.
    error: f64,
}

impl Anchor {
    fn of(scenario: &Scenario, options: &Options) -> Result<Anchor, CorrectedError> {
        let formula = formula(scenario)?;
        let network = scenario.network().map_err(NoFormula::from)?;
        let outcome = sim::run(&network, options).map_err(CorrectedError::Sim)?;
        let simulated = totals(&outcome);
        let ratio = [
            simulated.throughput.mean / formula.throughput,
            simulated.response.mean / formula.response,
        ];
        let width = |value: Value| value.half_width.map_or(f64::INFINITY, |w| w / value.mean);
        let error = width(simulated.throughput).max(width(simulated.response));
        Ok(Anchor { formula, simulated, ratio, error })
    }

    /// At an anchor the corrected value is the simulated one.
    fn corrected(self) -> Corrected {
        let Anchor { formula, simulated, error, .. } = self;
        Corrected { formula, simulated: Some(simulated), value: simulated, error }
    }
}

/// All classes together. Their intervals are added as if they went wrong together.
fn totals(outcome: &sim::Outcome) -> Totals {
    let (mut throughput, mut half) = (0.0, Some(0.0));
    let (mut jobs, mut jobs_half) = (0.0, Some(0.0));
    for class in &outcome.classes {
        let through = Value::from(&class.throughput);
        let response = class.response.as_ref().map_or(Value::exact(0.0), Value::from);
        throughput += through.mean;
        half = half.zip(through.half_width).map(|(sum, more)| sum + more);
        jobs += through.mean * response.mean;
        jobs_half = jobs_half.zip(response.half_width).map(|(sum, more)| sum + through.mean * more);
    }
    Totals {
        throughput: Value { mean: throughput, half_width: half },
        response: Value {
            mean: jobs / throughput,
            half_width: jobs_half.map(|half| half / throughput),
        },
    }
}
