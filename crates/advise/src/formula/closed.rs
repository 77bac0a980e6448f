//! One class of clients that think: product form, or a gate before processors that its slots share.

use solve::{
    ClosedGate, ClosedGateAnswer, ClosedLps, ClosedNetwork, Exactness, SolveError, Thinking,
};
use workload::Dist;

use super::bounds::ProductBounds;
use super::nodes::{Kind, Node, Nodes};
use super::{Effort, Found, NoFormula, Served, swing};

/// Result of the formula for so many clients that think.
///
/// # Errors
/// If none fits.
pub(super) fn found(
    population: u32,
    think: &Dist,
    nodes: &Nodes,
    effort: Effort,
) -> Result<Found, NoFormula> {
    let mut found = undealt(population, think, nodes, effort)?;
    // Where one server is always full, no order of the documents changes anything.
    let is_always_full = think.mean() == 0.0 && nodes.list.len() == 1;
    if nodes.dealt && !is_always_full {
        let (mean, given) = found.exactness;
        found.exactness = (dealt(mean, 0.02), dealt(given, 0.10));
        // They hold the answer of independent documents.
        found.product_bounds = None;
    }
    Ok(found)
}

/// An exact formula asked about documents from a deck. The errors were seen with WebStone's documents
/// before one sharing server, 6 to 16 clients and utilisations from 0.5 to 1: 1.3 % in the mean, and
/// 7.6 % for the largest document.
fn dealt(exactness: Exactness, error: f64) -> Exactness {
    match exactness {
        Exactness::Exact => Exactness::Approximate {
            source: "documents are taken as drawn independently, not dealt from a deck",
            error,
        },
        approximate => approximate,
    }
}

/// A closed load, as if each document were drawn independently.
fn undealt(
    population: u32,
    think: &Dist,
    nodes: &Nodes,
    effort: Effort,
) -> Result<Found, NoFormula> {
    let limited = nodes.list.iter().enumerate();
    let mut limited = limited.filter(|(_, node)| matches!(node.kind, Kind::Limited { .. }));
    let Some((at, node)) = limited.next() else {
        let stations = nodes.product_form()?;
        let network = ClosedNetwork::new(population, think.mean(), &stations)?;
        let answer = network.solve();
        let served = nodes.served(answer.stations.iter().map(|station| station.residence));
        let (name, source) = ("closed network of product form", "exact mean values, Buzen 1973");
        let product_bounds = Some(ProductBounds::of(&network));
        let found = Found::exact(name, source, answer.throughput, served);
        return Ok(Found { product_bounds, ..found });
    };
    let Kind::Limited { slots, processors } = node.kind else { unreachable!("filtered above") };
    let others = || nodes.list.iter().enumerate().filter(|(other, _)| *other != at);
    if let Some((_, other)) = others().find(|(_, other)| other.kind != Kind::Delay) {
        return Err(format!(
            "beside the gate before `{}`, jobs queue at `{}` too, and a closed gate allows delays \
             only",
            node.name, other.name
        )
        .into());
    }
    let Some(moments) = node.moments else { return Err(node.visited_often().into()) };
    if !node.curve.is_empty() {
        return Err(node.not_of_one_speed().into());
    }
    let delay: f64 = think.mean() + others().map(|(_, other)| other.demand).sum::<f64>();
    let gate = ClosedGate::new(population, delay, moments, slots)?.with_cores(processors)?;
    let answer = if gate.exactness().is_exact() {
        gate.solve()
    } else {
        varied(&gate, (population, think), delay, (node, nodes.dealt), effort)?
    };
    let mut served: Vec<Served> = nodes.list.iter().map(|_| Served::alone()).collect();
    let stretch = answer.hold / node.demand;
    served[at] = Served { fixed: answer.wait, stretch, given: None };
    let name = format!("closed gate, c = {population}, r = {slots}");
    let found =
        Found::exact(name, "product form with a limited station", answer.throughput, served);
    Ok(Found { exactness: (answer.exactness(), answer.exactness_given()), ..found })
}

/// Demands that are fitted by exponentials were tried up to these: `tests/grid`, and `tests/it/corners.rs`.
const FITTED_SCV_MAX: f64 = 50.0;
const FITTED_SLOTS_MAX: u32 = 34;

/// The largest share of the response by which documents from a deck may put it off. The chain draws
/// each document anew, and the deck never has two huge ones in a row: the truth lies between the
/// chain and exponential demands.
const DEALT_MAX: f64 = 0.30;

/// A gate before processors that its holders share, clients that think, and a demand that is not
/// exponential. `gate` is the same as if it were.
///
/// # Errors
/// If such a demand has no chain, or its chain is too large.
fn varied(
    gate: &ClosedGate,
    (clients, think): (u32, &Dist),
    pause: f64,
    (node, is_dealt): (&Node, bool),
    effort: Effort,
) -> Result<ClosedGateAnswer, NoFormula> {
    let Kind::Limited { slots, processors } = node.kind else { unreachable!("it has a gate") };
    let Some(law) = &node.law else {
        return Err(format!(
            "such a demand behind a gate and before `{}` has no formula",
            node.name
        )
        .into());
    };
    // What is fitted was tried so far; what is made of a few phases is exact.
    let scv = law.demand.moments()?.scv();
    if !law.is_phased && scv > 1.0 && (scv > FITTED_SCV_MAX || slots > FITTED_SLOTS_MAX) {
        return Err(format!(
            "such a demand before `{}` was tried up to a squared coefficient of variation of \
             {FITTED_SCV_MAX} and {FITTED_SLOTS_MAX} slots, and it has {scv:.1} and {slots}",
            node.name
        )
        .into());
    }
    let spread = law.demand.moments()?.variance().sqrt();
    // Of the pause only the thinking varies here: delays beside it count as constant.
    swing::keep_in_step(pause, think.scv() * (think.mean() / pause).powi(2), spread)?;
    let is_exponential = matches!(think, Dist::Exponential { .. }) && pause == think.mean();
    let thinks = if is_exponential { Thinking::Exponential } else { Thinking::Otherwise };
    let run = ClosedLps::new(clients, pause, law.demand.clone(), slots)?;
    let run = run.with_cores(processors)?.thinking(thinks);
    let run = if effort == Effort::Quick { run.hastened() } else { run };
    let answer = run.solve().map_err(|error| match error {
        SolveError::TooLarge { .. } => NoFormula::from(format!("before `{}`, {error}", node.name)),
        error => error.into(),
    })?;
    if !is_dealt {
        return Ok(answer);
    }
    let apart = (gate.solve().response / answer.response - 1.0).abs();
    if apart > DEALT_MAX {
        return Err(format!(
            "its documents are dealt from a deck, so that huge ones never come together, which may put \
             the answer {:.0} % off",
            100.0 * apart
        )
        .into());
    }
    Ok(answer.within(apart + 0.02))
}
