//! A parameter of a scenario by its path, as sweeps and questions name it: `gate.tasks.slots`,
//! `class.web.think.mean`, `gate.pool.servers.2.slots` (entries of a list count from 1).
//!
//! The one idea: a path is a place in the file's own form. The scenario is written down as that form,
//! one value is changed, and it is read again; so every key that a scenario may have has a path, and
//! what the reader refuses is refused here with the same words.

use serde_json::{Map, Value};

use super::compile::suggest;
use super::{Scenario, ScenarioError};
use crate::units::{PerByte, Rate, Span};

/// The lists of a scenario whose entries have names.
const KINDS: [&str; 3] = ["class", "gate", "station"];
/// Keys whose texts are names, and numbers that are no quantity.
const NOT_NUMERIC: [&str; 5] = ["name", "station", "visit", "priority", "weight"];

/// A parameter that is a number.
#[derive(Clone, Debug, PartialEq)]
pub struct NumericParameter {
    /// Its path.
    pub path: String,
    /// Its value, in SI units.
    pub value: f64,
    /// Its kind of number.
    pub kind: NumberKind,
}

/// A kind of number in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Counts something: slots, servers, customers.
    Whole,
    /// Has no unit: a chance, a squared coefficient of variation.
    Plain,
    /// A time \[s\].
    Time,
    /// A rate [1/s].
    PerSecond,
    /// A time for each byte \[s/byte\].
    TimePerByte,
}

impl NumericParameter {
    /// The parameter with another value, as a file has it; whole numbers are rounded, to 1 at the least.
    pub fn written(&self, value: f64) -> String {
        match self.kind {
            NumberKind::Whole => format!("{}", value.round().max(1.0)),
            NumberKind::Plain => format!("{value}"),
            NumberKind::Time => Span(value).to_string(),
            NumberKind::PerSecond => Rate(value).to_string(),
            NumberKind::TimePerByte => PerByte(value).to_string(),
        }
    }
}

impl Scenario {
    /// The same with another value of one parameter, both as a file has them: `gate.tasks.slots` and
    /// `4`, `class.web.think` and `2s`. Of a distribution, the path may go on with `mean`, `scv` or
    /// `dist`.
    ///
    /// # Errors
    /// If there is no such parameter (the nearest known name is told), the value is not one of its
    /// kind, or the scenario cannot be run with it.
    pub fn with_parameter(&self, path: &str, value: &str) -> Result<Scenario, ScenarioError> {
        let mut file = self.written();
        let slot = Slot::find(&mut file, path)?;
        let candidates = slot.candidates(value)?;
        let mut first: Option<String> = None;
        for candidate in candidates {
            let mut changed = file.clone();
            Slot::find(&mut changed, path)?.set(candidate);
            match serde_json::from_value::<Scenario>(changed) {
                Ok(scenario) => {
                    scenario.network().map_err(|error| wrong(path, value, &error.to_string()))?;
                    return Ok(scenario);
                }
                Err(error) => {
                    first.get_or_insert(error.to_string());
                }
            }
        }
        Err(wrong(path, value, &cause(&first.unwrap_or_default())))
    }

    /// All parameters that are numbers: loads, demands, slots, servers, chances.
    pub fn numeric_parameters(&self) -> Vec<NumericParameter> {
        let mut found = Vec::new();
        let mut file = self.written();
        for kind in KINDS {
            let Some(Value::Array(entries)) = file.get_mut(kind).map(Value::take) else { continue };
            for entry in entries {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
                numbers(&entry, &format!("{kind}.{name}"), &mut found);
            }
        }
        // A class or a station whose name ends another's path would make it mean something else.
        found.retain(|parameter| {
            let mut file = self.written();
            Slot::find(&mut file, &parameter.path).is_ok()
        });
        found
    }

    fn written(&self) -> Value {
        serde_json::to_value(self).expect("a scenario has a form in a file")
    }
}

fn numbers(value: &Value, path: &str, found: &mut Vec<NumericParameter>) {
    let mut push = |value: f64, kind| {
        found.push(NumericParameter { path: path.to_owned(), value, kind });
    };
    match value {
        Value::Number(number) => {
            let kind = if number.is_u64() { NumberKind::Whole } else { NumberKind::Plain };
            push(number.as_f64().unwrap_or(0.0), kind);
        }
        Value::String(text) => {
            if let Ok(Span(seconds)) = text.parse() {
                push(seconds, NumberKind::Time);
            } else if let Ok(Rate(rate)) = text.parse() {
                push(rate, NumberKind::PerSecond);
            } else if let Ok(PerByte(time)) = text.parse() {
                push(time, NumberKind::TimePerByte);
            }
        }
        Value::Object(table) => {
            for (key, value) in table.iter().filter(|(key, _)| !NOT_NUMERIC.contains(&&***key)) {
                numbers(value, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(list) => {
            // A text in a list is a step's name, whatever it looks like.
            for (at, value) in list.iter().enumerate().filter(|(_, value)| !value.is_string()) {
                numbers(value, &format!("{path}.{}", at + 1), found);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The place that a path names: a key of a table, or an entry of a list.
enum Slot<'a> {
    Key(&'a mut Map<String, Value>, String),
    Entry(&'a mut Value),
}

impl<'a> Slot<'a> {
    fn find(file: &'a mut Value, path: &str) -> Result<Slot<'a>, ScenarioError> {
        let (kind, rest) = path.split_once('.').unwrap_or((path, ""));
        if !KINDS.contains(&kind) {
            let way_out = suggest("kind of part", kind, KINDS);
            return Err(unknown(
                path,
                &format!("a path begins with class, gate or station; {way_out}"),
            ));
        }
        let entries = match file.get_mut(kind) {
            Some(Value::Array(entries)) => entries,
            _ => return Err(unknown(path, &format!("the scenario has no {kind}"))),
        };
        let names: Vec<String> = entries
            .iter()
            .map(|entry| entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
            .collect();
        // A name may hold dots itself: the longest that fits is meant.
        let fits = |name: &str| {
            let after = rest.strip_prefix(name)?;
            if after.is_empty() { Some("") } else { after.strip_prefix('.') }
        };
        let found = names.iter().enumerate().filter_map(|(at, name)| Some((at, fits(name)?)));
        let Some((at, keys)) = found.min_by_key(|(_, keys)| keys.len()) else {
            let name = rest.split('.').next().unwrap_or_default();
            let way_out = suggest(kind, name, names.iter().map(String::as_str));
            return Err(unknown(path, &format!("no {kind} is called `{name}`; {way_out}")));
        };
        let mut keys: Vec<&str> = keys.split('.').collect();
        let last = keys.pop().filter(|last| !last.is_empty());
        let mut value = &mut entries[at];
        for key in keys {
            value = step(value, key, path)?;
        }
        let Some(last) = last else { return Err(several(path, value)) };
        if last == "mean" && value.is_string() {
            return Ok(Slot::Entry(value));
        }
        match shaped(value, last) {
            Value::Object(table) => Ok(Slot::Key(table, last.to_owned())),
            value @ Value::Array(_) => step(value, last, path).map(Slot::Entry),
            _ => Err(unknown(path, &format!("there is nothing within which `{last}` could be"))),
        }
    }

    fn value(&self) -> Option<&Value> {
        match self {
            Slot::Key(table, key) => table.get(key),
            Slot::Entry(value) => Some(value),
        }
    }

    fn set(self, to: Value) {
        match self {
            Slot::Key(table, key) => drop(table.insert(key, to)),
            Slot::Entry(value) => *value = to,
        }
    }

    /// Values that a text may mean there, in the order in which they are tried.
    fn candidates(&self, text: &str) -> Result<Vec<Value>, ScenarioError> {
        let number = serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
        let text = Value::String(text.to_owned());
        Ok(match (self.value(), number) {
            (Some(value @ (Value::Object(_) | Value::Array(_))), _) => {
                return Err(several("it", value));
            }
            (Some(Value::Number(_)), Some(number)) => vec![number],
            (Some(Value::String(_)), _) | (_, None) => vec![text],
            (_, Some(number)) => vec![number, text],
        })
    }
}

/// A plain time gets a shape, where the path says so.
fn shaped<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if value.is_string() && ["scv", "dist"].contains(&key) {
        let mean = value.take();
        *value = Value::Object(Map::from_iter([("mean".to_owned(), mean)]));
    }
    value
}

fn step<'v>(value: &'v mut Value, key: &str, path: &str) -> Result<&'v mut Value, ScenarioError> {
    match shaped(value, key) {
        Value::Object(table) => {
            let known: Vec<String> = table.keys().cloned().collect();
            table.get_mut(key).ok_or_else(|| {
                let way_out = suggest("key", key, known.iter().map(String::as_str));
                unknown(path, &format!("there is no `{key}`; {way_out}"))
            })
        }
        Value::Array(list) => {
            let all = list.len();
            let at = key.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            at.and_then(|at| list.get_mut(at)).ok_or_else(|| {
                unknown(path, &format!("`{key}` is no entry of a list of {all}, counted from 1"))
            })
        }
        _ => Err(unknown(path, &format!("there is nothing within which `{key}` could be"))),
    }
}

fn several(path: &str, value: &Value) -> ScenarioError {
    let keys: Vec<String> = match value {
        Value::Object(table) => table.keys().map(|key| format!("`{key}`")).collect(),
        Value::Array(list) => (1..=list.len()).map(|at| format!("`{at}`")).collect(),
        _ => Vec::new(),
    };
    unknown(path, &format!("it is no single value; go on with one of {}", keys.join(", ")))
}

fn unknown(path: &str, cause: &str) -> ScenarioError {
    ScenarioError { place: format!("parameter `{path}`"), cause: cause.to_owned() }
}

fn wrong(path: &str, value: &str, cause: &str) -> ScenarioError {
    ScenarioError { place: format!("parameter `{path}` = {value}"), cause: cause.to_owned() }
}

/// The reader's message with the nearest known name.
fn cause(message: &str) -> String {
    let Some((name, known)) = measure::unknown_name(message) else { return message.to_owned() };
    format!("`{name}` is unknown; {}", suggest("name", &name, known.iter().map(String::as_str)))
}
