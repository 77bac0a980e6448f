//! One scenario held against an objective: simulated until that is decided, with the formula beside.

use measure::Estimate;
use serde::Serialize;
use sim::{Comparison, Of, Options, Quantity, compare_until};

use super::slo::{Judged, Slo, told};
use super::work::{Hardness, Part};
use super::{QuestionError, SATURATED, all_kept};
use crate::formula::formula;
use crate::{Approximation, FormulaAnswer, NoFormula, Right, Scenario, witnesses};

/// Observations of a scenario in a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// Completions of all classes [1/s].
    #[serde(rename = "throughput_per_s")]
    pub throughput: Estimate,
    /// Mean response time of all requests \[s\].
    #[serde(rename = "response_s")]
    pub response: Option<Estimate>,
    /// Median response time \[s\].
    #[serde(rename = "p50_s")]
    pub p50: Option<Estimate>,
    /// The 0.99 quantile of the response times \[s\].
    #[serde(rename = "p99_s")]
    pub p99: Option<Estimate>,
    /// Share of the requests that gates turned away.
    pub refused: Option<Estimate>,
    /// Share of the requests that failed: turned away, lost at full stations, or left by their clients.
    pub failed: Option<Estimate>,
    /// Utilisation of every gate and station.
    pub busy: Vec<Busy>,
}

/// Utilisation of a gate or a station.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Busy {
    /// Its name.
    pub name: String,
    /// Its kind: a gate or a station.
    pub hardness: Hardness,
    /// Slots or servers.
    pub capacity: u32,
    /// The mean share of them that is busy.
    pub share: Estimate,
}

impl Observed {
    pub(super) fn of(scenario: &Scenario, comparison: &Comparison, network: usize) -> Observed {
        let value = |quantity| comparison.value(network, Of::All, quantity, 1);
        let outcome = &comparison.outcomes[network];
        // A scenario that was simulated has a network.
        let busy = scenario.network().map(|of| busy(&of, outcome)).unwrap_or_default();
        Observed {
            throughput: value(Quantity::Throughput).expect("every replication has a throughput"),
            response: value(Quantity::Response),
            p50: value(Quantity::Quantile(0.5)),
            p99: value(Quantity::Quantile(0.99)),
            refused: value(Quantity::Refused),
            failed: value(Quantity::Failed),
            busy,
        }
    }

    /// The busiest gate or station.
    pub fn busiest(&self) -> Option<&Busy> {
        self.busy.iter().max_by(|a, b| a.share.mean.total_cmp(&b.share.mean))
    }
}

/// Utilisation of every part of a network, as a share of its slots or servers.
pub(super) fn busy(network: &sim::Network, outcome: &sim::Outcome) -> Vec<Busy> {
    let share = |part: Part| match part {
        Part::Gate(at) => {
            let held = &outcome.gates[at].busy;
            let slots = f64::from(part.capacity(network));
            Some(Estimate { mean: held.mean / slots, half_width: held.half_width / slots, ..*held })
        }
        Part::Station(at) => outcome.stations[at].utilisation,
    };
    let busy = |part: Part| {
        Some(Busy {
            name: part.name(network).to_owned(),
            hardness: part.hardness(),
            capacity: part.capacity(network),
            share: share(part)?,
        })
    };
    Part::all(network).into_iter().filter_map(busy).collect()
}

/// Judgement of a scenario by simulation, and by formula where there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assessment {
    /// Verdict on all that was asked for.
    pub kept: Right,
    /// Limit by limit; without an objective, none.
    pub limits: Vec<Judged>,
    /// Simulated values; none where jobs pile up without end.
    pub simulated: Option<Observed>,
    /// The place at which they do.
    pub grows: Option<String>,
    /// The formula's answer, if there is one that is not farther from the simulation than it
    /// states.
    pub formula: Option<FormulaAnswer>,
    /// Name of the formula and its exactness, or the reason why there is none.
    pub formula_note: String,
}

impl Assessment {
    /// Error that the formula's numbers may have, its quantiles among them.
    pub fn approximation(&self) -> Approximation {
        let Some(answer) = &self.formula else { return Approximation::NONE };
        let quantiles = answer.quantiles.as_ref().map(|known| Approximation::from(&known.trust));
        quantiles.into_iter().fold((&answer.trust).into(), Approximation::and)
    }
}

/// Simulates a scenario until it is decided whether it keeps an objective; without one, whether every
/// gate and station stays below [`SATURATED`] and no request fails. `ends` is how many such
/// answers shall hold together.
pub(super) fn assess(
    scenario: &Scenario,
    slo: Option<&Slo>,
    options: &Options,
    ends: u32,
) -> Result<Assessment, QuestionError> {
    assess_beside(formula(scenario), scenario, slo, options, ends)
}

/// The same, with this answer as the formula's.
fn assess_beside(
    asked: Result<FormulaAnswer, NoFormula>,
    scenario: &Scenario,
    slo: Option<&Slo>,
    options: &Options,
    ends: u32,
) -> Result<Assessment, QuestionError> {
    let network = scenario.network()?;
    let judged = |comparison: &Comparison| {
        let claims = ends * comparison.interim_analyses();
        slo.map(|slo| slo.judge(scenario, comparison, 0, claims)).unwrap_or_default()
    };
    let kept = |comparison: &Comparison| match slo {
        Some(_) => all_kept(&judged(comparison)),
        None => has_room(&network, comparison, ends * comparison.interim_analyses()),
    };
    let found = compare_until(std::slice::from_ref(&network), options, |comparison| {
        decided(kept(comparison), slo, &judged(comparison))
    });
    let comparison = match found {
        Ok(comparison) => comparison,
        Err((_, error)) => {
            let Some(place) = error.overloaded() else {
                return Err(QuestionError::sim(format!("`{}`", scenario.name))(error));
            };
            return Ok(growing(place, asked));
        }
    };
    let mut limits = judged(&comparison);
    let (by_formula, formula_note) = match asked {
        Ok(answer) => {
            let means = means(&comparison, answer.classes.len());
            witnesses::kept(answer, &means)
        }
        Err(none) => (None, none.to_string()),
    };
    if let Some(answer) = &by_formula {
        limits.iter_mut().for_each(|limit| limit.formula = told(answer, limit.quantity, limit.of));
    }
    Ok(Assessment {
        kept: kept(&comparison),
        limits,
        simulated: Some(Observed::of(scenario, &comparison, 0)),
        grows: None,
        formula: by_formula,
        formula_note,
    })
}

/// Throughput and mean response of all requests, and of every class, as they were simulated.
fn means(comparison: &Comparison, classes: usize) -> Vec<(Of, Quantity, Estimate)> {
    let of = |of: Of| {
        let value = move |quantity| {
            let estimate = comparison.value(0, of, quantity, 1)?;
            Some((of, quantity, estimate))
        };
        [Quantity::Throughput, Quantity::Response].into_iter().filter_map(value)
    };
    // Of one class, all requests are its requests.
    let classes = (0..classes).filter(|_| classes > 1).map(Of::Class);
    std::iter::once(Of::All).chain(classes).flat_map(of).collect()
}

/// Judgement of a scenario whose jobs pile up without end at a place, though a formula may have an
/// answer.
fn growing(place: &str, asked: Result<FormulaAnswer, NoFormula>) -> Assessment {
    let (by_formula, formula_note) = match asked {
        // So near to what can be served that a simulation sees no end, an exact formula may.
        Ok(answer) if answer.trust.exact => {
            let note = answer.note();
            (Some(answer), note)
        }
        Ok(answer) => {
            let name = &answer.name;
            let why =
                "dropped, since it is out of its range: simulated, jobs pile up without end at";
            (None, format!("{why} {place}, and `{name}` sees a steady state"))
        }
        Err(none) => (None, none.to_string()),
    };
    Assessment {
        kept: Right::No,
        limits: Vec::new(),
        simulated: None,
        grows: Some(place.to_owned()),
        formula: by_formula,
        formula_note,
    }
}

/// One limit that is surely broken is enough; to be kept, all must be.
fn decided(kept: Right, slo: Option<&Slo>, judged: &[Judged]) -> bool {
    let broken = slo.is_some() && judged.iter().any(|limit| limit.kept == Right::No);
    broken || kept != Right::CannotTell
}

/// Verdict on the room that is left: yes if nothing is saturated and no request fails. Where
/// `claims` such answers are looked at, all hold together, for every gate and station.
fn has_room(network: &sim::Network, comparison: &Comparison, claims: u32) -> Right {
    let outcome = &comparison.outcomes[0];
    let all = busy(network, outcome);
    let claims = f64::from(claims) * all.len().max(1) as f64;
    let room = |busy: &Busy| {
        let Estimate { mean, half_width, confidence, n } = busy.share;
        let t = |claims: f64| {
            measure::t_quantile(1.0 - (1.0 - confidence) / claims / 2.0, n as f64 - 1.0)
        };
        // The interval is that of one claim; by Bonferroni all claims together need a wider one.
        let half = half_width * t(claims) / t(1.0);
        match (mean + half < SATURATED, mean - half >= SATURATED) {
            (true, _) => Right::Yes,
            (_, true) => Right::No,
            _ => Right::CannotTell,
        }
    };
    let failed = comparison.value(0, Of::All, Quantity::Failed, 1);
    let failed = match failed {
        // One request that fails is enough.
        Some(share) if share.mean > 0.0 => Right::No,
        _ => Right::Yes,
    };
    all.iter().map(room).max().unwrap_or(Right::Yes).max(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::tests::out_of_its_range;

    /// It was shown beside the simulation, as if it said the same.
    #[test]
    fn a_formula_beyond_its_stated_error_is_dropped() {
        let (scenario, answer) = out_of_its_range();
        let options = crate::short_simulation(3);
        let slo: Slo = "mean<1s".parse().unwrap();
        let ask = |answer| assess_beside(Ok(answer), &scenario, Some(&slo), &options, 1).unwrap();
        let seen = ask(answer.clone());
        assert_eq!((seen.formula, seen.limits[0].formula), (None, None));
        assert!(seen.formula_note.contains("out of its range"), "{}", seen.formula_note);
        // What it really says stands.
        let true_answer = formula(&scenario).unwrap();
        assert_ne!(true_answer, answer);
        let seen = ask(true_answer.clone());
        assert_eq!(seen.limits[0].formula, Some(true_answer.response));
        assert_eq!(seen.formula, Some(true_answer));
    }

    #[test]
    fn a_formula_that_sees_a_steady_state_where_jobs_pile_up_is_dropped() {
        let (_, answer) = out_of_its_range();
        let seen = growing("gate `slots`", Ok(answer));
        assert_eq!(seen.formula, None);
        assert!(seen.formula_note.contains("pile up without end at gate `slots`"), "{seen:?}");
    }
}
