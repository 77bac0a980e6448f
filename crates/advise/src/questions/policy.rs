//! Which policy: routers, disciplines and forms of queue of every gate, one change at a time, under
//! the same chance.

use measure::Estimate;
use serde::Serialize;
use sim::{Of, Options, Quantity, compare};

use super::{Change, QuestionError, gate_named};
use crate::Scenario;

/// What other policies would do.
#[derive(Clone, Debug, Serialize)]
pub struct Policies {
    /// What the scenario has, first; then every change.
    pub rows: Vec<PolicyRow>,
    /// Changes that the scenario cannot have: what, and why.
    pub impossible: Vec<(String, String)>,
}

/// What one policy does.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyRow {
    /// What is changed: a parameter's path; none for the scenario as it is.
    pub path: Option<String>,
    /// What it is set to.
    pub policy: String,
    /// Mean response time of all classes \[s\]; none where jobs pile up without end, and so of all
    /// that follows.
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
    /// The 0.99 quantile \[s\].
    #[serde(rename = "p99_s")]
    pub p99: Option<Estimate>,
    /// Mean response, over that of the scenario as it is; by pairs.
    pub mean_change: Option<Change>,
    /// p99, over that of the scenario as it is; by pairs.
    pub p99_change: Option<Change>,
    /// Throughput, over that of the scenario as it is; by pairs.
    pub throughput_change: Option<Change>,
    /// Mean response by class, over that of the scenario as it is, where there are several.
    pub classes: Vec<(String, Option<Change>)>,
}

/// The keys of a gate that are policies. Which names each may have, the scenario's reader knows.
const KEYS: [&str; 3] = ["discipline", "router", "queues"];

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
    let mut variants = vec![(None, "as it is".to_owned(), scenario.clone())];
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

type Variant = (Option<String>, String, Scenario);

/// Every single change of a gate's policies that makes another network.
fn changes(
    scenario: &Scenario,
    gate: usize,
    variants: &mut Vec<Variant>,
    impossible: &mut Vec<(String, String)>,
) {
    let name = &scenario.gates[gate].name;
    for key in KEYS {
        let path = format!("gate.{name}.{key}");
        for policy in scenario.names_for(&path) {
            match scenario.with_parameter(&path, &policy) {
                Ok(changed) if differs(scenario, &changed, gate) => {
                    variants.push((Some(path.clone()), policy, changed));
                }
                Ok(_) => {}
                Err(error) => impossible.push((format!("{path} = {policy}"), error.cause)),
            }
        }
    }
}

/// Whether the gate decides anything else: not where a name only says what is so anyway, and a router
/// only where it has something to choose.
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
    for (_, _, scenario) in variants {
        networks.push(scenario.network()?);
    }
    let comparison = loop {
        let list: Vec<_> = left.iter().map(|&at| networks[at].clone()).collect();
        match compare(&list, options) {
            Ok(comparison) => break comparison,
            Err((at, error)) if error.overloaded().is_some() && at > 0 => {
                left.remove(at);
            }
            Err((at, error)) => {
                let (path, policy, _) = &variants[left[at]];
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
    let row = |(nth, (path, policy, _)): (usize, &Variant)| {
        let at = left.iter().position(|&other| other == nth);
        let value = |quantity| comparison.value(at?, Of::All, quantity, 1);
        let change =
            |of, quantity| comparison.ratio((0, at?), of, quantity, claims).map(Change::from);
        let of_class = |(nth, class): (usize, &crate::ClassEntry)| {
            (class.name.clone(), change(Of::Class(nth), Quantity::Response))
        };
        let several = scenario.classes.len() > 1;
        let classes = scenario.classes.iter().enumerate().filter(|_| several);
        PolicyRow {
            path: path.clone(),
            policy: policy.clone(),
            response: value(Quantity::Response),
            p99: value(p99),
            mean_change: change(Of::All, Quantity::Response),
            p99_change: change(Of::All, p99),
            throughput_change: change(Of::All, Quantity::Throughput),
            classes: classes.map(of_class).collect(),
        }
    };
    Ok(variants.iter().enumerate().map(row).collect())
}
