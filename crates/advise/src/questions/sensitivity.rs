//! Sensitivity to each parameter: the percent by which response, throughput and p99 change for each
//! percent of it.

use measure::Ratio;
use serde::Serialize;
use sim::{Comparison, Of, Options, Quantity, compare};

use super::QuestionError;
use crate::{NumberKind, NumericParameter, Scenario};

/// Effects of all parameters.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sensitivity {
    /// The one that changes the mean response most, first.
    pub rows: Vec<Elasticity>,
    /// Parameters that could not be varied: which, and why.
    pub left_out: Vec<(String, String)>,
    /// Number of parameters that are compared: so many intervals of a quantity hold together with
    /// the confidence asked for (Bonferroni).
    pub claims: u32,
}

impl Sensitivity {
    /// Number of parameters that might matter more to the mean response than the one of the first
    /// row: their intervals reach beyond the near end of its interval. All others, where that holds
    /// 0.
    pub fn rivals(&self) -> usize {
        let reach = |row: &Elasticity| {
            let [_, low, high] = row.response?;
            let near = if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) };
            Some([near, low.abs().max(high.abs())])
        };
        let mut reaches = self.rows.iter().filter_map(reach);
        let Some([near, _]) = reaches.next() else { return 0 };
        reaches.filter(|[_, far]| *far >= near).count()
    }
}

impl Elasticity {
    /// True if the mean response changes by more than chance alone would change it.
    pub fn is_told(&self) -> bool {
        self.response.is_some_and(|[_, low, high]| low > 0.0 || high < 0.0)
    }
}

/// Effect of one parameter.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elasticity {
    /// The parameter's path.
    pub path: String,
    /// Its value in SI units.
    pub value: f64,
    /// The values that were compared.
    pub between: [f64; 2],
    /// Percent of mean response for each percent of the parameter: the estimate and the ends of its
    /// interval, wide enough to hold together with those of all other parameters.
    pub response: Option<[f64; 3]>,
    /// Percent of throughput.
    pub throughput: Option<[f64; 3]>,
    /// Percent of p99.
    pub p99: Option<[f64; 3]>,
}

/// Share by which a parameter that is no whole number is raised and lowered.
const STEP: f64 = 0.05;

/// Varies every number of a scenario, one at a time and under the same chance: by 5 % to each side;
/// a whole number by a tenth, and by one at the least. Elasticities are finite differences of
/// logarithms. Their intervals are those of pairs, widened for as many claims as there are
/// parameters. `each` is told after every parameter how many are done, of how many.
///
/// # Errors
/// If the scenario itself cannot be simulated.
pub fn sensitivity(
    scenario: &Scenario,
    options: &Options,
    mut each: impl FnMut(usize, usize),
) -> Result<Sensitivity, QuestionError> {
    scenario.network()?;
    let parameters = scenario.numeric_parameters();
    let claims = u32::try_from(parameters.len()).unwrap_or(u32::MAX);
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    for (done, parameter) in parameters.iter().enumerate() {
        match vary(scenario, parameter, options, claims)? {
            Ok(row) => rows.push(row),
            Err(why) => left_out.push((parameter.path.clone(), why)),
        }
        each(done + 1, parameters.len());
    }
    if rows.is_empty() {
        return Err(QuestionError::NothingToVary(match left_out.first() {
            Some((path, why)) => format!("no parameter can be varied; `{path}`: {why}"),
            None => "the scenario has no number that could be varied".into(),
        }));
    }
    let size = |row: &Elasticity| row.response.map_or(0.0, |[estimate, ..]| estimate.abs());
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    Ok(Sensitivity { rows, left_out, claims })
}

/// Effect of a parameter; else the reason why it cannot be varied.
fn vary(
    scenario: &Scenario,
    parameter: &NumericParameter,
    options: &Options,
    claims: u32,
) -> Result<Result<Elasticity, String>, QuestionError> {
    if parameter.value == 0.0 {
        return Ok(Err("it is 0, of which there are no percents".into()));
    }
    let [low, high] = around(parameter);
    let mut networks = Vec::new();
    for value in [low, high] {
        let changed = scenario.with_parameter(&parameter.path, &parameter.written(value));
        match changed.and_then(|changed| changed.network()) {
            Ok(network) => networks.push(network),
            Err(error) => return Ok(Err(error.cause)),
        }
    }
    let comparison = match compare(&networks, options) {
        Ok(comparison) => comparison,
        Err((at, error)) if error.overloaded().is_some() => {
            let value = parameter.written([low, high][at]);
            return Ok(Err(format!("with {value}, jobs pile up without end")));
        }
        Err((at, error)) => {
            let value = parameter.written([low, high][at]);
            return Err(QuestionError::sim(format!("{} = {value}", parameter.path))(error));
        }
    };
    let step = (high / low).ln();
    let elasticity = |quantity| elasticity(&comparison, quantity, step, claims);
    Ok(Ok(Elasticity {
        path: parameter.path.clone(),
        value: parameter.value,
        between: [low, high],
        response: elasticity(Quantity::Response),
        throughput: elasticity(Quantity::Throughput),
        p99: elasticity(Quantity::Quantile(0.99)),
    }))
}

/// The values to both sides; of the smallest whole number, itself and the next.
fn around(parameter: &NumericParameter) -> [f64; 2] {
    let value = parameter.value;
    match parameter.kind {
        NumberKind::Whole => {
            let step = (value / 10.0).round().max(1.0);
            [(value - step).max(1.0), value + step]
        }
        _ => [value / (1.0 + STEP), value * (1.0 + STEP)],
    }
}

fn elasticity(
    comparison: &Comparison,
    quantity: Quantity,
    step: f64,
    claims: u32,
) -> Option<[f64; 3]> {
    let Ratio { ratio, low, high, .. } = comparison.ratio((0, 1), Of::All, quantity, claims)?;
    Some([ratio, low, high].map(|change| change.ln() / step))
}
