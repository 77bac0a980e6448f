//! Questions put to formula and simulation together, and their answers as a prediction that can be
//! stored and scored later.

use std::fmt;

use measure::Estimate;
use serde::{Deserialize, Serialize};
use sim::{Of, Options, Outcome, Quantity, SimError, SizeRange};

use crate::formula::{FormulaAnswer, NoFormula, formula};
use crate::{Approximation, Calibration, Rate, Scenario, ScenarioError, witnesses};

/// Loads and slots for which a scenario is to be predicted: every load with every number of slots.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Closed loads: numbers of clients.
    pub clients: Vec<u32>,
    /// Open loads: arrivals per second [1/s].
    pub rates: Vec<f64>,
    /// Slots of the scenario's one gate; empty for what the scenario says.
    pub slots: Vec<u32>,
    /// The class whose loads these are, and of whose requests the answers speak; may be left out where
    /// there is one.
    pub class: Option<String>,
}

/// A stored answer: what was predicted of which scenario, when, and how far it may be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// The format version of stored predictions: 1.
    #[serde(rename = "sekisho-prediction")]
    pub sekisho_prediction: u32,
    /// Its name.
    pub id: String,
    /// When it was made, UTC, RFC 3339.
    pub date: String,
    /// The seed of the simulations.
    pub seed: u64,
    /// The scenario that it speaks of.
    #[cfg_attr(feature = "schema", schemars(with = "crate::ScenarioKeys"))]
    pub scenario: Scenario,
    /// The answers.
    pub points: Vec<Point>,
}

/// Prediction for one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The load.
    pub load: Load,
    /// The class whose load it is, and of whose requests the numbers speak, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The gate's slots, where there is one gate.
    pub slots: Option<u32>,
    /// The formula's witness, if there is a formula that is not farther from the simulation than it
    /// states.
    pub formula: Option<Numbers>,
    /// Name of the formula and its exactness, or the reason why there is none.
    #[serde(alias = "formula-note")]
    pub formula_note: String,
    /// The largest relative error of the formula's means where it was tried; none if they are exact, or
    /// were not tried.
    #[serde(default, alias = "formula-error", skip_serializing_if = "Option::is_none")]
    pub formula_error: Option<f64>,
    /// True if the formula is approximate though its error is not known: it was not tried.
    #[serde(default, alias = "formula-untried", skip_serializing_if = "std::ops::Not::not")]
    pub formula_untried: bool,
    /// The simulation's witness.
    pub simulation: Numbers,
    /// Ways in which this lies beyond the range that the scenario was calibrated on.
    pub beyond: Vec<String>,
}

impl Point {
    /// Error that the formula's numbers may have.
    pub fn approximation(&self) -> Approximation {
        match (&self.formula, self.formula_error, self.formula_untried) {
            (None, ..) | (_, None, false) => Approximation::NONE,
            (Some(_), error, _) => Approximation::within(error),
        }
    }
}

impl Prediction {
    /// Error that the formula's numbers may have at any of its points.
    pub fn approximation(&self) -> Approximation {
        self.points.iter().map(Point::approximation).collect()
    }
}

/// A load: closed or open, never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// So many clients, each with one request under way.
    Clients(u32),
    /// So many arrivals per second [1/s].
    Rate(f64),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Clients(1) => write!(f, "1 client"),
            Load::Clients(clients) => write!(f, "{clients} clients"),
            Load::Rate(rate) => write!(f, "{rate} requests/s"),
        }
    }
}

/// Numbers of one witness for one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Completions per second [1/s].
    pub throughput: Value,
    /// Mean response time \[s\].
    pub response: Value,
    /// Response-time quantiles \[s\] with their q; of a formula, where it knows them.
    #[serde(default)]
    pub quantiles: Vec<(f64, Value)>,
    /// Mean wait for a slot \[s\], where there is one gate.
    pub wait: Option<Value>,
    /// Mean response by document \[s\].
    #[serde(default)]
    pub documents: Vec<DocumentNumbers>,
    /// Utilisation by gate and station, 0 to 1.
    #[serde(default)]
    pub utilisation: Vec<(String, f64)>,
}

/// Mean response of one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DocumentNumbers {
    /// Its name.
    pub name: String,
    /// Its size \[bytes\].
    pub bytes: u64,
    /// Mean response \[s\].
    pub response: Value,
}

/// A number, with the half-width of its interval where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The number, in SI units.
    pub mean: f64,
    /// Half the width of its 95 % interval; none where it has no chance in it, or where the simulation
    /// was too short to say how far off it may be.
    #[serde(default, alias = "half-width", skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

impl Value {
    /// A number without chance.
    pub fn exact(mean: f64) -> Value {
        Value { mean, half_width: None }
    }
}

impl From<&Estimate> for Value {
    fn from(estimate: &Estimate) -> Value {
        let half_width = estimate.half_width.is_finite().then_some(estimate.half_width);
        Value { mean: estimate.mean, half_width }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AskError {
    /// The question names no load.
    NoLoad,
    /// The question names slots, but the scenario has no gate, or several.
    NotOneGate(usize),
    /// The scenario has several classes, which are named, so that a load must say which.
    NotOneClass(Vec<String>),
    /// The changed scenario cannot be.
    Scenario(ScenarioError),
    /// At this load and with these slots it cannot be simulated.
    Sim(String, SimError),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoLoad => {
                write!(f, "the question names no load: say `--clients 8,32` or `--rate 200/s`")
            }
            AskError::NotOneGate(gates) => write!(
                f,
                "`--slots` needs a scenario with exactly one gate, and this one has {gates}: change \
                 the slots in the file"
            ),
            AskError::NotOneClass(classes) => write!(
                f,
                "this scenario has {} classes, and a load must say which is meant: add `--class '{}'`",
                classes.len(),
                classes.join("'`, or `--class '"),
            ),
            AskError::Scenario(error) => error.fmt(f),
            AskError::Sim(place, error) => write!(f, "{place}: {error}"),
        }
    }
}

impl std::error::Error for AskError {}

impl From<ScenarioError> for AskError {
    fn from(error: ScenarioError) -> AskError {
        AskError::Scenario(error)
    }
}

impl Question {
    /// Every load with every number of slots, in order.
    fn points(&self, scenario: &Scenario) -> Result<Vec<(Load, Option<u32>)>, AskError> {
        let clients = self.clients.iter().map(|&clients| Load::Clients(clients));
        let rates = self.rates.iter().map(|&rate| Load::Rate(rate));
        let loads: Vec<Load> = clients.chain(rates).collect();
        if loads.is_empty() {
            return Err(AskError::NoLoad);
        }
        class_of(scenario, self.class.as_deref())?;
        let slots: Vec<Option<u32>> = if self.slots.is_empty() {
            vec![None]
        } else if scenario.gates.len() == 1 {
            self.slots.iter().map(|&slots| Some(slots)).collect()
        } else {
            return Err(AskError::NotOneGate(scenario.gates.len()));
        };
        Ok(slots.iter().flat_map(|&slots| loads.iter().map(move |&load| (load, slots))).collect())
    }
}

/// The class that is named, or the only one.
fn class_of(scenario: &Scenario, class: Option<&str>) -> Result<usize, AskError> {
    match (class, scenario.classes.len()) {
        (Some(class), _) => Ok(scenario.class_index(class)?),
        (None, 1) => Ok(0),
        (None, _) => {
            let names = scenario.classes.iter().map(|class| class.name.clone());
            Err(AskError::NotOneClass(names.collect()))
        }
    }
}

/// A class of the scenario (its only one, if none is named) at another load, and its gate with other
/// slots. The question says whether the load is closed or open: a server that was fitted under one kind
/// may be asked about the other.
///
/// # Errors
/// If there is no such class, none is named of several, or the changed scenario cannot be.
pub fn at(
    scenario: &Scenario,
    class: Option<&str>,
    load: Load,
    slots: Option<u32>,
) -> Result<Scenario, AskError> {
    let mut changed = scenario.clone();
    let class = &mut changed.classes[class_of(scenario, class)?];
    match load {
        Load::Clients(clients) => {
            class.population = Some(clients);
            (class.rate, class.arrivals) = (None, None);
        }
        Load::Rate(rate) => {
            class.rate = Some(Rate(rate));
            (class.population, class.think) = (None, None);
        }
    }
    match (slots, scenario.gates.first()) {
        (Some(slots), Some(gate)) => Ok(changed.with_slots(&gate.name, slots)?),
        _ => Ok(changed),
    }
}

/// Answers a question by formula, where there is one, and by simulation. `each` is told after every
/// point how many are done.
///
/// # Errors
/// If the question does not fit the scenario, or a point cannot be simulated.
pub fn ask(
    scenario: &Scenario,
    question: &Question,
    options: &Options,
    mut each: impl FnMut(usize, usize),
) -> Result<Vec<Point>, AskError> {
    let asked = question.points(scenario)?;
    let mut points = Vec::with_capacity(asked.len());
    for &(load, slots) in &asked {
        points.push(predict(scenario, question.class.as_deref(), load, slots, options)?);
        each(points.len(), asked.len());
    }
    Ok(points)
}

fn predict(
    scenario: &Scenario,
    class: Option<&str>,
    load: Load,
    slots: Option<u32>,
    options: &Options,
) -> Result<Point, AskError> {
    let changed = at(scenario, class, load, slots)?;
    point(formula(&changed), &changed, class, (load, slots), options)
}

/// A scenario at its load, with this answer as the formula's.
fn point(
    asked: Result<FormulaAnswer, NoFormula>,
    changed: &Scenario,
    class: Option<&str>,
    (load, slots): (Load, Option<u32>),
    options: &Options,
) -> Result<Point, AskError> {
    let of = class_of(changed, class)?;
    let outcome = outcome(changed, load, options)?;
    let (by_formula, formula_note) = match asked {
        Ok(answer) => witnesses::kept(answer, &means(&outcome)),
        Err(none) => (None, none.to_string()),
    };
    Ok(Point {
        load,
        class: class.map(str::to_owned),
        slots: slots.or_else(|| only_slots(changed)),
        formula_error: by_formula.as_ref().and_then(|answer| answer.trust.error),
        formula_untried: by_formula
            .as_ref()
            .is_some_and(|answer| !answer.trust.exact && answer.trust.error.is_none()),
        formula: by_formula.map(|answer| Numbers::from_formula(&answer, of)),
        formula_note,
        simulation: Numbers::from_outcome(&outcome, of),
        beyond: beyond(changed, load),
    })
}

/// Options of a question's simulation: to 1 % of the mean response, with at most a million
/// requests.
pub fn options(seed: u64) -> Options {
    Options { seed, precision: 0.01, completions_max: 1_000_000, ..Options::default() }
}

/// The witness of the simulation; its numbers are of the class that is named, or of the only one;
/// `load` is how it asks, for the message.
///
/// # Errors
/// If the scenario cannot be, or cannot be simulated: a queue grows without end, above all.
pub fn simulate(
    scenario: &Scenario,
    class: Option<&str>,
    load: Load,
    options: &Options,
) -> Result<Numbers, AskError> {
    let class = class_of(scenario, class)?;
    Ok(Numbers::from_outcome(&outcome(scenario, load, options)?, class))
}

fn outcome(scenario: &Scenario, load: Load, options: &Options) -> Result<Outcome, AskError> {
    let network = scenario.network()?;
    sim::run(&network, options).map_err(|error| AskError::Sim(format!("at {load}"), error))
}

/// Throughput and mean response of every class, as they were simulated.
fn means(outcome: &Outcome) -> Vec<(Of, Quantity, Estimate)> {
    let of = |(at, class): (usize, &sim::ClassOutcome)| {
        let throughput = (Of::Class(at), Quantity::Throughput, class.throughput);
        let response = class.response.map(|value| (Of::Class(at), Quantity::Response, value));
        std::iter::once(throughput).chain(response)
    };
    outcome.classes.iter().enumerate().flat_map(of).collect()
}

fn only_slots(scenario: &Scenario) -> Option<u32> {
    match scenario.gates.as_slice() {
        [gate] => gate.slots,
        _ => None,
    }
}

/// Ways in which a load lies beyond the calibration: each is a warning, not a refusal.
pub fn beyond(scenario: &Scenario, load: Load) -> Vec<String> {
    let Some(calibration) = &scenario.calibration else {
        return vec!["the scenario was not fitted to a measurement".into()];
    };
    let mut beyond = match load {
        Load::Clients(clients) if clients > calibration.clients[1] => {
            vec![format!("calibrated to {} clients at the most", calibration.clients[1])]
        }
        Load::Rate(rate) if rate > calibration.throughput_max.0 => {
            vec![format!("calibrated to {} at the most", calibration.throughput_max)]
        }
        Load::Clients(_) | Load::Rate(_) => Vec::new(),
    };
    beyond.extend(delay_in_slots(scenario, calibration, load));
    beyond
}

/// Points of clients and responses do not tell whether a delay passes inside a slot or outside: it is taken as outside.
/// Where it matters, the throughput if it is inside.
fn delay_in_slots(scenario: &Scenario, calibration: &Calibration, load: Load) -> Option<String> {
    let value = |name| calibration.parameters.get(name).map(|of| of.value);
    let (delay, demand) = (value("delay")?, value("demand")?);
    let slots = only_slots(scenario)?;
    let wanted = match load {
        Load::Clients(clients) => f64::from(clients) / (delay + demand),
        Load::Rate(rate) => rate,
    };
    let inside = f64::from(slots) / (delay + demand);
    // A queue that is as slow as that without the delay hides it.
    (inside < wanted.min(0.9 / demand)).then(|| {
        format!(
            "the runs do not tell where the delay of {:.1} ms passes. It is taken as outside the slots; if a slot \
             is held meanwhile (a sleep, a lock, a call elsewhere), {slots} of them serve {inside:.0} /s at most",
            delay * 1e3
        )
    })
}

impl Numbers {
    fn from_outcome(outcome: &Outcome, class: usize) -> Numbers {
        let class = &outcome.classes[class];
        let document = |size: &sim::SizeOutcome| {
            let SizeRange::Document { name, bytes, .. } = &size.range else { return None };
            let response = Value::from(size.response.as_ref()?);
            Some(DocumentNumbers { name: name.clone(), bytes: *bytes, response })
        };
        let gates = outcome
            .gates
            .iter()
            .map(|gate| (gate.name.clone(), gate.busy.mean / f64::from(gate.slots.max(1))));
        let stations = outcome
            .stations
            .iter()
            .filter_map(|station| Some((station.name.clone(), station.utilisation.as_ref()?.mean)));
        Numbers {
            throughput: Value::from(&class.throughput),
            response: class.response.as_ref().map_or(Value::exact(0.0), Value::from),
            quantiles: class.quantiles.iter().map(|(q, value)| (*q, value.into())).collect(),
            wait: match outcome.gates.as_slice() {
                [gate] => gate.wait.as_ref().map(Value::from),
                _ => None,
            },
            documents: class.sizes.iter().filter_map(document).collect(),
            utilisation: gates.chain(stations).collect(),
        }
    }

    /// Numbers of a formula for a class, by its index.
    pub fn from_formula(answer: &FormulaAnswer, class: usize) -> Numbers {
        let document = |document: &crate::formula::DocumentAnswer| DocumentNumbers {
            name: document.name.clone(),
            bytes: document.bytes,
            response: Value::exact(document.response),
        };
        let (throughput, response) = match answer.classes.get(class) {
            Some(class) => (class.throughput, class.response),
            None => (answer.throughput, answer.response),
        };
        let quantiles = answer.quantiles.iter().flat_map(|known| &known.list);
        Numbers {
            throughput: Value::exact(throughput),
            response: Value::exact(response),
            quantiles: quantiles.map(|(q, value)| (*q, Value::exact(*value))).collect(),
            wait: answer.wait.map(Value::exact),
            documents: answer.documents.iter().map(document).collect(),
            utilisation: answer.utilisation.clone(),
        }
    }

    /// The mean response of a document \[s\].
    pub fn document(&self, name: &str) -> Option<Value> {
        self.documents.iter().find(|document| document.name == name).map(|d| d.response)
    }

    /// The response-time quantile q \[s\].
    pub fn quantile(&self, q: f64) -> Option<Value> {
        self.quantiles.iter().find(|(at, _)| (at - q).abs() < 1e-9).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::tests::out_of_its_range;

    /// It was stored as a witness, for `check` to score.
    #[test]
    fn a_formula_beyond_its_stated_error_is_no_witness() {
        let (scenario, answer) = out_of_its_range();
        let options = crate::short_simulation(3);
        let ask = |asked| point(asked, &scenario, None, (Load::Clients(20), None), &options);
        let found = ask(Ok(answer)).unwrap();
        assert_eq!((&found.formula, found.formula_error), (&None, None));
        assert!(found.formula_note.contains("out of its range"), "{}", found.formula_note);
        let stored = serde_json::to_value(&found).unwrap();
        assert!(stored["formula"].is_null() && stored.get("formula_error").is_none(), "{stored}");
        let true_answer = formula(&scenario).unwrap();
        let found = ask(Ok(true_answer.clone())).unwrap();
        assert_eq!(found.formula, Some(Numbers::from_formula(&true_answer, 0)));
        assert_eq!(found.formula_error, true_answer.trust.error);
    }
}
