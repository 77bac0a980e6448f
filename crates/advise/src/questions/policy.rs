//! Comparison of policies: routers, disciplines and forms of queue of every gate, one change at a
//! time, under the same chance.

use gate::Queues;
use measure::Estimate;
use serde::Serialize;
use serde_json::Value;
use sim::{Of, Options, Quantity, compare};

use super::{Change, QuestionError, gate_named};
use crate::{GateEntry, Scenario, disciplines, routers};

/// Effects of other policies.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policies {
    /// The scenario as it is, first; then every change.
    pub rows: Vec<PolicyRow>,
    /// Changes that the scenario cannot have: what, and why.
    pub impossible: Vec<(String, String)>,
}

/// Effect of one policy.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyRow {
    /// Path of the parameter that is changed; none for the scenario as it is.
    pub path: Option<String>,
    /// Its new value, short.
    pub policy: String,
    /// The same as a scenario file has it; none for the scenario as it is.
    pub setting: Option<String>,
    /// Mean response time of all classes \[s\]; none where jobs pile up without end, and so of all
    /// that follows.
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
    /// The 0.99 quantile \[s\].
    #[serde(rename = "p99_s")]
    pub p99: Option<Estimate>,
    /// Share of the requests that fail.
    pub failed: Option<Estimate>,
    /// True if surely more fail than with the scenario as it is.
    pub fails_more: bool,
    /// Mean response, over that of the scenario as it is; by pairs.
    pub mean_change: Option<Change>,
    /// p99, over that of the scenario as it is; by pairs.
    pub p99_change: Option<Change>,
    /// Throughput, over that of the scenario as it is; by pairs.
    pub throughput_change: Option<Change>,
    /// Mean response by class, over that of the scenario as it is, where there are several.
    pub classes: Vec<(String, Option<Change>)>,
}

/// Compares every policy that a scenario can name, at one gate or at each, with what it has. All run
/// under the same chance; the intervals of all comparisons hold together.
///
/// # Errors
/// If there is no such gate, nothing can be changed, or it cannot be simulated.
pub fn policy(
    scenario: &Scenario,
    gate: Option<&str>,
    options: &Options,
) -> Result<Policies, QuestionError> {
    let gates = match gate {
        Some(name) => vec![gate_named(scenario, Some(name))?],
        None => (0..scenario.gates.len()).collect(),
    };
    let as_it_is = "as it is".to_owned();
    let first = Variant { path: None, policy: as_it_is, setting: None, scenario: scenario.clone() };
    let mut variants = vec![first];
    let mut impossible = Vec::new();
    for at in gates {
        changes(scenario, at, &mut variants, &mut impossible);
    }
    if variants.len() < 2 {
        return Err(QuestionError::NothingToVary(
            "no gate of the scenario can have another policy; add a [[gate]], or `servers` to one"
                .into(),
        ));
    }
    let rows = rows(scenario, &variants, options)?;
    Ok(Policies { rows, impossible })
}

/// A change: its path and what it is set to, none for the scenario as it is; and the scenario with it.
struct Variant {
    path: Option<String>,
    policy: String,
    setting: Option<String>,
    scenario: Scenario,
}

/// Every single change of a gate's policies that makes another network. Policies with parameters have
/// usual ones.
fn changes(
    scenario: &Scenario,
    gate: usize,
    variants: &mut Vec<Variant>,
    impossible: &mut Vec<(String, String)>,
) {
    let name = &scenario.gates[gate].name;
    let mut offer = |key: &str, value: Value, change: &dyn Fn(&mut GateEntry)| {
        let path = format!("gate.{name}.{key}");
        let mut changed = scenario.clone();
        change(&mut changed.gates[gate]);
        match changed.network() {
            Ok(_) if differs(scenario, &changed, gate) => variants.push(Variant {
                path: Some(path),
                policy: short(&value),
                setting: Some(inline(&value)),
                scenario: changed,
            }),
            Ok(_) => {}
            Err(error) => impossible.push((format!("{path} = {}", short(&value)), error.cause)),
        }
    };
    for entry in disciplines() {
        offer("discipline", written(&entry), &|gate| gate.discipline = Some(entry.clone()));
    }
    for entry in routers() {
        offer("router", written(&entry), &|gate| gate.router = Some(entry.clone()));
    }
    for queues in [Queues::Shared, Queues::PerServer] {
        offer("queues", written(&queues), &|gate| gate.queues = Some(queues));
    }
}

fn written(entry: &impl Serialize) -> Value {
    serde_json::to_value(entry).expect("a policy has a form in a file")
}

/// A policy's name, with its parameters behind it.
fn short(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| match value {
                Value::Object(inner) if inner.is_empty() => key.clone(),
                Value::Object(_) => format!("{key} ({})", short(value)),
                _ => format!("{key} {}", short(value)),
            };
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The same in one line of a scenario file.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".into(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{key} = {}", inline(value));
            format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// True if the gate decides anything else. That is not so where a name only says what is so anyway,
/// and with another router only where it has something to choose.
fn differs(scenario: &Scenario, changed: &Scenario, gate: usize) -> bool {
    let spec = |scenario: &Scenario| {
        let network = scenario.network().expect("it was read, and so it can be run");
        network.gates[gate].spec.clone()
    };
    let (before, after) = (spec(scenario), spec(changed));
    let alone = before.servers.len() == 1;
    let same_apart_from_routing =
        gate::GateSpec { router: before.router.clone(), queues: before.queues, ..after.clone() }
            == before;
    before != after && !(alone && same_apart_from_routing)
}

fn rows(
    scenario: &Scenario,
    variants: &[Variant],
    options: &Options,
) -> Result<Vec<PolicyRow>, QuestionError> {
    let mut left: Vec<usize> = (0..variants.len()).collect();
    let mut networks = Vec::new();
    for variant in variants {
        networks.push(variant.scenario.network()?);
    }
    let comparison = loop {
        let list: Vec<_> = left.iter().map(|&at| networks[at].clone()).collect();
        match compare(&list, options) {
            Ok(comparison) => break comparison,
            Err((at, error)) if error.overloaded().is_some() && at > 0 => {
                left.remove(at);
            }
            Err((at, error)) => {
                let Variant { path, policy, .. } = &variants[left[at]];
                let place = match path {
                    Some(path) => format!("{path} = {policy}"),
                    None => format!("`{}`", scenario.name),
                };
                return Err(QuestionError::sim(place)(error));
            }
        }
    };
    let claims = left.len().saturating_sub(1) as u32;
    let p99 = Quantity::Quantile(0.99);
    let row = |(nth, variant): (usize, &Variant)| {
        let at = left.iter().position(|&other| other == nth);
        let value = |quantity| comparison.value(at?, Of::All, quantity, 1);
        let change =
            |of, quantity| comparison.ratio((0, at?), of, quantity, claims).map(Change::from);
        let more = |at| comparison.difference((0, at), Of::All, Quantity::Failed, claims);
        let of_class = |(nth, class): (usize, &crate::ClassEntry)| {
            (class.name.clone(), change(Of::Class(nth), Quantity::Response))
        };
        let several = scenario.classes.len() > 1;
        let classes = scenario.classes.iter().enumerate().filter(|_| several);
        PolicyRow {
            path: variant.path.clone(),
            policy: variant.policy.clone(),
            setting: variant.setting.clone(),
            response: value(Quantity::Response),
            p99: value(p99),
            failed: value(Quantity::Failed),
            fails_more: at.and_then(more).is_some_and(|more| more.low() > 0.0),
            mean_change: change(Of::All, Quantity::Response),
            p99_change: change(Of::All, p99),
            throughput_change: change(Of::All, Quantity::Throughput),
            classes: classes.map(of_class).collect(),
        }
    };
    Ok(variants.iter().enumerate().map(row).collect())
}
