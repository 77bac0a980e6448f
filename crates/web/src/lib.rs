//! Answers inside a page: what the sliders of a report ask, answered by the very formulas and the
//! very simulator that the command runs, compiled to WebAssembly.
//!
//! ```text
//!   page ──request (JSON)──▶ answer ──▶ advise ──▶ solve, sim
//!     ◀──{"ok": ...} or {"error": "..."}──┘
//! ```
//!
//! The one idea: [`answer`] is a function from text to text, so that a native test can hold it
//! against `advise`, and the module needs no glue that a tool would have to write: the module exports
//! `input`, `call` and `output` (see `abi.rs`), which a dozen lines of script can drive.
//!
//! A scenario is answered as it would be written to a file (six significant digits of a quantity),
//! so that what is copied out of the page is what was answered in it.

#[cfg(any(target_family = "wasm", test))]
mod abi;

use advise::{Control, Effort, Load, NoFormula, Numbers, Rate, Scenario, Setting};
use serde::{Deserialize, Serialize};

/// Request of a page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "ask", rename_all = "kebab-case")]
enum Request {
    /// Parameters of the scenario that can be turned.
    Controls { scenario: Scenario },
    /// Answer of the formula, and the scenario's file.
    Formula { scenario: Scenario, setting: Setting, seed: u64 },
    /// Answers of the formula at several loads: clients, or arrivals per second.
    Curve { scenario: Scenario, setting: Setting, loads: Vec<f64> },
    /// Answer of the simulation, within a budget of requests.
    Simulate { scenario: Scenario, setting: Setting, seed: u64, completions_max: u64 },
}

/// An answer, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reply<T> {
    Ok(T),
    Error(String),
}

/// Parameters of a scenario that can be turned, and what the page must know to draw it.
#[derive(Debug, Serialize)]
struct Controls {
    controls: Vec<Control>,
    /// The gates: what somebody configured. Whatever else is busy is hard.
    gates: Vec<String>,
    /// The budget of a whole simulation, as `sekisho ask` has it.
    completions_max: u64,
    /// The version that answers.
    version: &'static str,
}

/// The formula's witness at a setting.
#[derive(Debug, Serialize)]
struct ByFormula {
    load: Load,
    formula: Option<Numbers>,
    note: String,
    beyond: Vec<String>,
    /// The scenario with this setting, as a file.
    toml: String,
}

/// The formula's witness at one load of a curve.
#[derive(Debug, Serialize)]
struct CurvePoint {
    x: f64,
    throughput: f64,
    response: f64,
}

/// Answers a request, both JSON. Whatever is wrong becomes `{"error": "..."}`.
///
/// ```
/// let text = web::answer(r#"{"ask": "controls", "scenario": {}}"#);
/// assert!(text.starts_with(r#"{"error":"the request cannot be read: missing field"#), "{text}");
/// ```
pub fn answer(request: &str) -> String {
    let request: Request = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return reply::<()>(Err(format!("the request cannot be read: {error}"))),
    };
    match request {
        Request::Controls { scenario } => reply(controls(&scenario)),
        Request::Formula { scenario, setting, seed } => {
            reply(by_formula(&scenario, &setting, seed))
        }
        Request::Curve { scenario, setting, loads } => reply(curve(&scenario, &setting, &loads)),
        Request::Simulate { scenario, setting, seed, completions_max } => {
            reply(simulate(&scenario, &setting, seed, completions_max))
        }
    }
}

fn reply<T: Serialize>(result: Result<T, String>) -> String {
    let reply = match result {
        Ok(value) => Reply::Ok(value),
        Err(error) => Reply::Error(error),
    };
    serde_json::to_string(&reply).expect("texts, numbers and lists of them are JSON")
}

fn controls(scenario: &Scenario) -> Result<Controls, String> {
    scenario.network().map_err(|error| error.to_string())?;
    Ok(Controls {
        controls: scenario.controls(),
        gates: scenario.gates.iter().map(|gate| gate.name.clone()).collect(),
        completions_max: advise::options(0).completions_max,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// The scenario with this setting, as it would be read from its file.
fn set(scenario: &Scenario, setting: &Setting) -> Result<Scenario, String> {
    let changed = scenario.set(setting).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&changed).map_err(|error| error.to_string())?;
    serde_json::from_value(written).map_err(|error| error.to_string())
}

/// Load of the one class.
fn load_of(scenario: &Scenario) -> Result<Load, String> {
    let [class] = scenario.classes.as_slice() else {
        let classes = scenario.classes.len();
        return Err(format!("sliders need a scenario with one class, and this one has {classes}"));
    };
    match (class.population, class.rate) {
        (Some(clients), _) => Ok(Load::Clients(clients)),
        (None, Some(Rate(rate))) => Ok(Load::Rate(rate)),
        (None, None) => Err(format!("class `{}` has neither `population` nor `rate`", class.name)),
    }
}

fn by_formula(scenario: &Scenario, setting: &Setting, seed: u64) -> Result<ByFormula, String> {
    let changed = set(scenario, setting)?.with_seed(seed);
    let load = load_of(&changed)?;
    let (formula, note) = match advise::formula_with(&changed, Effort::Quick) {
        Ok(answer) => (Some(Numbers::from_formula(&answer, 0)), answer.note()),
        // An impossible scenario has no second witness either.
        Err(NoFormula::Scenario(error)) => return Err(error.to_string()),
        Err(NoFormula::Shape { reason, .. }) => (None, format!("no formula: {reason}")),
        Err(none @ NoFormula::Solve(_)) => (None, none.to_string()),
    };
    let toml = toml::to_string(&changed).map_err(|error| error.to_string())?;
    Ok(ByFormula { load, formula, note, beyond: advise::beyond(&changed, load), toml })
}

/// Loads for which no formula gives a number are left out.
fn curve(scenario: &Scenario, setting: &Setting, loads: &[f64]) -> Result<Vec<CurvePoint>, String> {
    let changed = set(scenario, setting)?;
    let own = load_of(&changed)?;
    let mut points = Vec::with_capacity(loads.len());
    for &x in loads {
        let load = match own {
            Load::Clients(_) => Load::Clients(x as u32),
            Load::Rate(_) => Load::Rate(x),
        };
        let at = advise::at(&changed, None, load, None).map_err(|error| error.to_string())?;
        if let Ok(means) = advise::formula_means(&at, Effort::Quick) {
            points.push(CurvePoint { x, throughput: means.throughput, response: means.response });
        }
    }
    Ok(points)
}

fn simulate(
    scenario: &Scenario,
    setting: &Setting,
    seed: u64,
    completions_max: u64,
) -> Result<Numbers, String> {
    let changed = set(scenario, setting)?;
    let load = load_of(&changed)?;
    let mut options = advise::options(seed);
    options.completions_max = completions_max.min(options.completions_max);
    advise::simulate(&changed, None, load, &options).map_err(|error| error.to_string())
}
