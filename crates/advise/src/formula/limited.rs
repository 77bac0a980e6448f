//! A gate before one sharing processor under an open load: which of two formulas answers, and what
//! number of slots is best by formula.

use serde::Serialize;
use sim::Load;
use solve::{Goal, Lps, Mg1Lps, Moments, SolveError, best_slots};
use workload::Arrivals;

use super::nodes::{Kind, Node, Nodes};
use super::{Alone, Detail, Effort, NoFormula, Served, Trust, laws, named, plain, trust};
use crate::Scenario;

/// Slots up to which a demand that must be fitted by exponentials is solved as a chain: within about a
/// second, a tenth of one where effort is spared.
const FITTED_MAX: u32 = 64;
const FITTED_MAX_QUICK: u32 = 8;

/// Slots that a chain is solved for at most, whatever the demand.
const SLOTS_MAX: u32 = 128;

/// The formula of a gate of so many slots before a processor whose demand has these moments: the
/// chain where it can be paid for, fujita's formula beyond.
pub(super) fn alone(
    lambda: f64,
    node: &Node,
    (slots, moments): (u32, Moments),
    detail: Detail,
) -> Result<Alone, NoFormula> {
    let most = slots_max(node, moments, detail.effort);
    match &node.law {
        Some(law) if slots <= most => chain(lambda, node, (slots, law), detail)
            .map_err(|error| NoFormula::Solve(named(error, node))),
        _ if node.curve.is_empty() => fujita(lambda, node, (slots, moments), most)
            .map_err(|error| NoFormula::Solve(named(error, node))),
        Some(_) => Err(format!(
            "the speed of `{}` depends on how many it serves, which is solved for {most} slots at the \
             most with such a demand, and it has {slots}",
            node.name
        )
        .into()),
        None => Err(format!(
            "the speed of `{}` depends on how many it serves, and such a demand there has no formula",
            node.name
        )
        .into()),
    }
}

/// Slots up to which the chain is solved.
fn slots_max(node: &Node, moments: Moments, effort: Effort) -> u32 {
    let is_fitted = moments.scv() > 1.0 && node.law.as_ref().is_some_and(|law| !law.is_phased);
    match effort {
        _ if !is_fitted => SLOTS_MAX,
        Effort::Full => FITTED_MAX,
        Effort::Quick => FITTED_MAX_QUICK,
    }
}

fn chain(
    lambda: f64,
    node: &Node,
    (slots, law): (u32, &laws::Law),
    detail: Detail,
) -> Result<Alone, SolveError> {
    let station = Lps::with_speeds(lambda, law.demand.clone(), &node.speeds(slots))?;
    // Following a job of each demand costs the most; without sizes nobody asks.
    let (means, given) = if detail.all && node.per_byte > 0.0 {
        let answer = station.solve()?;
        let exactness = (answer.exactness(), answer.exactness_given());
        ((answer.wait, answer.hold, exactness), Some(answer))
    } else {
        let means = station.means()?;
        ((means.wait, means.hold, (means.exactness, means.exactness)), None)
    };
    let (wait, hold, exactness) = means;
    Ok(Alone {
        name: format!("M/G/1 limited processor sharing, r = {slots}"),
        source: "a chain of exponential phases",
        exactness,
        served: Served { fixed: wait, stretch: hold / node.demand, given },
        remark: None,
    })
}

fn fujita(
    lambda: f64,
    node: &Node,
    (slots, moments): (u32, Moments),
    most: u32,
) -> Result<Alone, SolveError> {
    let queue = Mg1Lps::new(lambda, moments, Some(slots))?;
    let stretch = queue.hold_given(node.demand)? / node.demand;
    let why = match node.law {
        Some(_) => format!("its chain is solved for {most} slots at the most with such a demand"),
        None => "such a demand has no chain".into(),
    };
    Ok(Alone {
        name: format!("M/G/1 limited processor sharing, r = {slots}"),
        source: "fujita, eq. 1 and 2",
        exactness: (queue.exactness(), queue.exactness_given()),
        served: Served { fixed: queue.wait(), stretch, given: None },
        remark: Some(why),
    })
}

/// The number of slots that a formula finds best for the mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BestByFormula {
    /// r.
    pub slots: u32,
    /// The mean response time there \[s\].
    #[serde(rename = "response_s")]
    pub response: f64,
    /// The number of slots at which most is served.
    pub peak: u32,
    /// The largest number of slots that was looked at.
    pub most: u32,
    /// Trust that the response deserves.
    pub trust: Trust,
}

/// The number of slots of the scenario's only gate, up to `most`, that is best for the mean response
/// by formula; none but under an open load before one sharing processor.
pub(crate) fn best(scenario: &Scenario, gate: &str, most: u32) -> Option<BestByFormula> {
    // With two slots it is the shape that it has with more.
    let network = scenario.with_slots(gate, 2).ok()?.network().ok()?;
    let network = plain::without_idle_rules(network);
    let [class] = &*network.classes else { return None };
    let Load::Open(Arrivals::Poisson { rate }) = class.load else { return None };
    if plain::beyond_formulas(&network).is_some() || network.gates.len() != 1 {
        return None;
    }
    let nodes = Nodes::of(&network, class).ok()?;
    if nodes.dealt || nodes.busy() != 1 || nodes.dealt_to_several().is_some() {
        return None;
    }
    let node = nodes.list.iter().find(|node| node.kind != Kind::Delay)?;
    let Kind::Limited { processors: 1, .. } = node.kind else { return None };
    let (law, moments) = (node.law.as_ref()?, node.moments?);
    let most = most.min(slots_max(node, moments, Effort::Full)).min(FITTED_MAX);
    let throughput: Vec<f64> =
        node.speeds(most).iter().map(|speed| speed / law.demand.mean()).collect();
    let found = best_slots(rate, &law.demand, &throughput, Goal::Mean).ok()?;
    let others: f64 = nodes.list.iter().map(|node| node.demand).sum::<f64>() - node.demand;
    Some(BestByFormula {
        slots: found.slots,
        response: found.response + others,
        peak: found.slots_at_peak,
        most,
        trust: trust(found.exactness, nodes.fair_share),
    })
}
