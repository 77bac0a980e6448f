//! The largest load that keeps an objective, as a bracket: at its lower end it surely holds, at its
//! upper end it surely fails.

use serde::Serialize;
use sim::{Options, Quantity};

use super::QuestionError;
use super::assess::{Assessment, assess};
use super::growth::{ClassLoad, Growth};
use super::slo::{Limit, LimitSide, Slo};
use super::work::{Part, full_at, work};
use crate::formula::{Effort, formula, formula_outline};
use crate::{Approximation, Right, Scenario};

/// The largest load that keeps an objective.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// The largest load at which it was seen to hold; none if it holds at none that was tried.
    pub holds_at: Option<CapacityPoint>,
    /// The smallest load at which it was seen to fail; none if it fails at none that was tried.
    pub fails_at: Option<CapacityPoint>,
    /// Verdict on the bracket: yes if the two ends are as near as was asked for. Else loads between
    /// them could not be told.
    pub kept: Right,
    /// The limit by formula, as a factor of the load; none if no formula knows all that is limited, or
    /// it is out of its range there.
    pub formula: Option<f64>,
    /// Name of the formula, or the reason why there is none.
    pub formula_note: String,
    /// The largest relative error of its means where it was tried.
    pub formula_error: Option<f64>,
    /// Every load that was tried.
    pub tried: Vec<CapacityPoint>,
}

impl Capacity {
    /// Error that the formula's numbers may have, at any load that was tried.
    pub fn approximation(&self) -> Approximation {
        let of_limit = match (self.formula, self.formula_error) {
            (Some(_), Some(error)) => Approximation::within(Some(error)),
            _ => Approximation::NONE,
        };
        let ends = [&self.holds_at, &self.fails_at].into_iter().flatten();
        let points = ends.chain(&self.tried).map(|point| point.assessment.approximation());
        points.fold(of_limit, Approximation::and)
    }
}

/// A load that was tried.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityPoint {
    /// The load, as a multiple of the scenario's.
    pub growth: Growth,
    /// The loads that this means.
    pub loads: Vec<ClassLoad>,
    /// Its assessment.
    pub assessment: Assessment,
}

/// More simulations than this, and the limit is left as it is known by then.
const TRIES_MAX: usize = 40;
/// The farthest from the scenario's own load that is looked for.
const FACTORS: (f64, f64) = (1e-4, 1e4);
/// Distance of the two ends at which the search is done, as a share.
const NEAR: f64 = 0.02;
/// The widest bracket that still is an answer, as a share.
const WIDE: f64 = 0.2;

/// Looks for the largest load (of all classes, or of the class of `along`) that keeps an objective.
/// The search begins where the formula has the limit, or where the utilisation law has somebody
/// full. Each end of the bracket holds with 97.5 % confidence at the default of 95 %, so that both
/// do with 95 %. `each` is told after every load that was tried.
///
/// # Errors
/// If there is no such class, or it cannot be simulated.
pub fn capacity(
    scenario: &Scenario,
    class: Option<&str>,
    slo: &Slo,
    options: &Options,
    each: impl FnMut(&CapacityPoint),
) -> Result<Capacity, QuestionError> {
    slo.check(scenario)?;
    let along = Growth { factor: 1.0, class: class.map(str::to_owned) };
    // What must be above its limit grows with the load: it is judged at the end found for the rest.
    let side = |side| {
        let limits = slo.limits.iter().filter(|limit| limit.side == side).cloned().collect();
        Slo { limits }
    };
    let (below, above) = (side(LimitSide::Below), side(LimitSide::Above));
    let (by_formula, formula_note, formula_error) = formula_limit(scenario, &along, &below);
    let network = scenario.network()?;
    let works = work(&network)?;
    let full = Part::all(&network).into_iter().filter_map(|part| full_at(&network, &works, part));
    let start = by_formula.unwrap_or_else(|| 0.7 * full.fold(f64::INFINITY, f64::min));
    let mut search = Search {
        scenario,
        along: &along,
        whole: along.whole(scenario)?,
        slo: &below,
        options,
        each,
        tried: Vec::new(),
    };
    if below.limits.is_empty() {
        return Err(QuestionError::NothingToVary(
            "the objective limits nothing from above, so that every load keeps it; add such as \
             'p99<200ms'"
                .into(),
        ));
    }
    search.bracket(start.clamp(1e-3, 1e3))?;
    search.narrow()?;
    let end = |kept: Right, pick: fn(f64, f64) -> bool| {
        let of = search.tried.iter().filter(|point| point.assessment.kept == kept);
        of.cloned().reduce(|a, b| if pick(a.growth.factor, b.growth.factor) { a } else { b })
    };
    let fails_at = end(Right::No, |a, b| a < b);
    let ends = search.ends();
    let mut holds_at = end(Right::Yes, |a, b| a > b);
    if let (Some(_), Some((low, _))) = (&fails_at, ends) {
        holds_at = search.tried.iter().find(|point| point.growth.factor == low).cloned();
    }
    let mut kept = match (&holds_at, &fails_at) {
        (None, _) if fails_at.is_some() => Right::No,
        (Some(low), Some(high)) if search.is_near(low, high, WIDE) => Right::Yes,
        _ => Right::CannotTell,
    };
    if let Some(point) = holds_at.as_mut().filter(|_| !above.limits.is_empty()) {
        point.assessment = assess(&point.growth.of(scenario)?, Some(slo), options, 2)?;
        kept = kept.max(point.assessment.kept);
    }
    let tried = search.tried;
    // Where it was held against a simulation and dropped, it tells of no limit either.
    let dropped = [&holds_at, &fails_at]
        .into_iter()
        .flatten()
        .find(|point| by_formula.is_some() && point.assessment.formula.is_none());
    let (formula, formula_note, formula_error) = match dropped {
        Some(point) => (None, point.assessment.formula_note.clone(), None),
        None => (by_formula, formula_note, formula_error),
    };
    Ok(Capacity { holds_at, fails_at, kept, formula, formula_note, formula_error, tried })
}

/// The limit by formula, if it knows all that is limited; its note, and its error. Of a part of the
/// limits it would say more than all of them allow.
fn formula_limit(
    scenario: &Scenario,
    along: &Growth,
    slo: &Slo,
) -> (Option<f64>, String, Option<f64>) {
    let answer = match formula(scenario) {
        Ok(answer) => answer,
        Err(none) => return (None, none.to_string(), None),
    };
    let unknown = slo.limits.iter().filter(|limit| limit.told(scenario, &answer).is_none());
    let unknown: Vec<&str> = unknown.map(|limit| limit.text.as_str()).collect();
    if !unknown.is_empty() {
        let note = format!(
            "no limit by formula: `{}` knows nothing of {}",
            answer.name,
            unknown.join(", ")
        );
        return (None, note, None);
    }
    let means_alone = !slo.limits.iter().any(|of| matches!(of.quantity, Quantity::Quantile(_)));
    let keeps = |factor: f64| {
        let Ok(grown) = along.times(factor).of(scenario) else { return false };
        // So near to saturation that its distribution is not followed any more, none is kept: the
        // simulation looks further.
        let answer = match means_alone {
            true => formula_outline(&grown, Effort::Full),
            false => formula(&grown),
        };
        answer.is_ok_and(|answer| {
            let kept = |limit: &Limit| {
                limit.told(&grown, &answer).is_some_and(|value| value <= limit.limit)
            };
            slo.limits.iter().all(kept)
        })
    };
    let (mut low, mut high) = FACTORS;
    if !keeps(low) || keeps(high) {
        let note = format!("{}: it has no limit at any load that was tried", answer.note());
        return (None, note, answer.trust.error);
    }
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        *(if keeps(middle) { &mut low } else { &mut high }) = middle;
    }
    (Some(low), answer.note(), answer.trust.error)
}

struct Search<'a, F> {
    scenario: &'a Scenario,
    along: &'a Growth,
    /// The population that grows, where loads are whole.
    whole: Option<u32>,
    slo: &'a Slo,
    options: &'a Options,
    each: F,
    tried: Vec<CapacityPoint>,
}

impl<F: FnMut(&CapacityPoint)> Search<'_, F> {
    /// The factor of a load that can be: of a whole number of clients.
    fn whole_factor(&self, factor: f64) -> f64 {
        match self.whole {
            Some(population) => {
                let population = f64::from(population);
                (factor * population).round().max(1.0) / population
            }
            None => factor,
        }
    }

    fn assess(&mut self, factor: f64) -> Result<Right, QuestionError> {
        let growth = self.along.times(self.whole_factor(factor));
        if let Some(known) = self.tried.iter().find(|point| point.growth == growth) {
            return Ok(known.assessment.kept);
        }
        let grown = growth.of(self.scenario)?;
        // The bracket has two ends, which shall hold together.
        let assessment = assess(&grown, Some(self.slo), self.options, 2)?;
        let kept = assessment.kept;
        let point = CapacityPoint { growth, loads: ClassLoad::of(&grown), assessment };
        (self.each)(&point);
        self.tried.push(point);
        Ok(kept)
    }

    /// Goes up from a load until it fails, and down until it holds.
    fn bracket(&mut self, start: f64) -> Result<(), QuestionError> {
        let mut factor = start;
        let mut step = 1.5;
        while self.assess(factor)? != Right::No && factor < FACTORS.1 && self.may_go_on() {
            if self.grown_beyond(factor * step) {
                break;
            }
            // Each step is the square of the last: few are needed from a start nearby, and not many
            // from one far off.
            factor *= step;
            step *= step;
        }
        let lowest = |whole: Option<u32>| whole.map_or(FACTORS.0, |all| 1.0 / f64::from(all));
        let (mut factor, mut step) = (start, 1.5);
        while self.assess(factor)? != Right::Yes && factor > lowest(self.whole) && self.may_go_on()
        {
            factor = (factor / step).max(lowest(self.whole));
            step *= step;
        }
        Ok(())
    }

    /// True if so much more is more than a scenario can have.
    fn grown_beyond(&self, factor: f64) -> bool {
        self.along.times(factor).of(self.scenario).is_err()
    }

    fn may_go_on(&self) -> bool {
        self.tried.len() < TRIES_MAX
    }

    /// Halves what lies between the two ends; where the middle cannot be told, what lies between it
    /// and each end.
    fn narrow(&mut self) -> Result<(), QuestionError> {
        while self.may_go_on() {
            let Some((low, high)) = self.ends() else { return Ok(()) };
            if self.is_between(low, high) {
                return Ok(());
            }
            let mut untold: Vec<f64> = self
                .tried
                .iter()
                .map(|point| point.growth.factor)
                .filter(|factor| (low..high).contains(factor) && *factor > low)
                .collect();
            untold.sort_by(f64::total_cmp);
            let (Some(first), Some(last)) = (untold.first(), untold.last()) else {
                self.assess((low * high).sqrt())?;
                continue;
            };
            let (first, last) = (*first, *last);
            let before = self.tried.len();
            for (from, to) in [(low, first), (last, high)] {
                if !self.is_between(from, to) {
                    self.assess((from * to).sqrt())?;
                }
            }
            if self.tried.len() == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The largest load that holds below the smallest that fails.
    fn ends(&self) -> Option<(f64, f64)> {
        let of = |kept: Right| {
            let points = self.tried.iter().filter(move |point| point.assessment.kept == kept);
            points.map(|point| point.growth.factor)
        };
        let high = of(Right::No).reduce(f64::min)?;
        let low = of(Right::Yes).filter(|low| *low < high).reduce(f64::max)?;
        Some((low, high))
    }

    /// True if nothing more is to be tried between two loads.
    fn is_between(&self, low: f64, high: f64) -> bool {
        let middle = self.whole_factor((low * high).sqrt());
        high / low <= 1.0 + NEAR || middle <= low || middle >= high
    }

    fn is_near(&self, low: &CapacityPoint, high: &CapacityPoint, near: f64) -> bool {
        let (low, high) = (low.growth.factor, high.growth.factor);
        high / low <= 1.0 + near || self.is_between(low, high)
    }
}
