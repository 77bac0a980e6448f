//! The two witnesses held against each other: a formula that is farther from the simulation than the
//! error that it states is out of its range, whatever it was tried on.

use measure::Estimate;
use sim::{Of, Quantity};

use crate::FormulaAnswer;
use crate::formula::Trust;

/// The confidence with which an interval of the simulation holds, where it is a witness against a
/// formula: one in a thousand formulas that keep to their error is dropped by chance.
const CONFIDENCE: f64 = 0.999;

/// Error that the simulation itself may have beside its chance: jobs cut in two by the ends of a
/// run.
const ENDS: f64 = 5e-3;

/// A mean, as both witnesses give it.
pub(crate) struct Pair<'a> {
    /// Name of the mean, and of the class whose requests it is of: `mean response`, `throughput of
    /// class `web``.
    pub(crate) what: String,
    pub(crate) formula: f64,
    pub(crate) simulated: &'a Estimate,
}

/// Outcome of holding a formula against a simulation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// They agree as nearly as the formula states.
    Agrees,
    /// They are farther apart than an approximate formula states: it is out of its range.
    Dropped(String),
    /// They are farther apart than chance allows, and the formula is exact.
    Disputed(String),
}

/// Holds a formula of this name and trust against what was simulated. A formula that states no error,
/// since it was never tried, keeps whatever it says.
pub(crate) fn standing(name: &str, trust: &Trust, pairs: &[Pair<'_>]) -> Standing {
    let error = match (trust.exact, trust.error) {
        (true, _) => 0.0,
        (false, Some(error)) => error,
        (false, None) => return Standing::Agrees,
    };
    let beyond = |pair: &&Pair<'_>| pair.beyond(error) > 0.0;
    let worst = pairs.iter().filter(beyond).max_by(|a, b| a.apart().total_cmp(&b.apart()));
    let Some(worst) = worst else { return Standing::Agrees };
    let apart = worst.told();
    if trust.exact {
        return Standing::Disputed(format!(
            "{apart}, more than chance allows, and the formula is exact: the simulation was too short, \
             or one of them is wrong"
        ));
    }
    Standing::Dropped(format!(
        "dropped, since it is out of its range: {apart}, and `{name}` states {:.1} % at the most",
        error * 100.0
    ))
}

impl Pair<'_> {
    /// Formula less simulation, as a share of the simulation's, without its sign.
    fn apart(&self) -> f64 {
        (self.formula / self.simulated.mean - 1.0).abs()
    }

    /// Distance between them beyond the error that is stated and chance allow; negative where they
    /// are not so far apart, or where the simulation was too short to say.
    fn beyond(&self, error: f64) -> f64 {
        let Estimate { mean, half_width, confidence, n } = *self.simulated;
        let t = |confidence: f64| measure::t_quantile(0.5 + 0.5 * confidence, n as f64 - 1.0);
        let half = match n {
            0 | 1 => f64::INFINITY,
            _ => half_width * (t(CONFIDENCE) / t(confidence)).max(1.0),
        };
        // The truth is within `half` of the mean, and the formula within its error of the truth.
        (self.formula - mean).abs() - (error + ENDS) * mean.abs() - (1.0 + error) * half
    }

    fn told(&self) -> String {
        let sign = if self.formula < self.simulated.mean { "below" } else { "above" };
        format!("its {} is {:.0} % {sign} the simulation's", self.what, self.apart() * 100.0)
    }
}

/// Throughput and mean response of every class, as formula and simulation give them; `simulated` has
/// none where no request of the class was completed.
pub(crate) fn pairs<'a>(
    answer: &FormulaAnswer,
    simulated: &'a [(Of, Quantity, Estimate)],
) -> Vec<Pair<'a>> {
    let pair = |(of, quantity, estimate): &'a (Of, Quantity, Estimate)| {
        let (throughput, response, whose) = match of {
            Of::All => (answer.throughput, answer.response, String::new()),
            Of::Class(class) => {
                let class = answer.classes.get(*class)?;
                let whose = match answer.classes.len() {
                    1 => String::new(),
                    _ => format!(" of class `{}`", class.name),
                };
                (class.throughput, class.response, whose)
            }
        };
        let (what, formula) = match quantity {
            Quantity::Throughput => ("throughput", throughput),
            Quantity::Response => ("mean response", response),
            Quantity::Quantile(_) | Quantity::Refused | Quantity::Failed => return None,
        };
        Some(Pair { what: format!("{what}{whose}"), formula, simulated: estimate })
    };
    simulated.iter().filter_map(pair).collect()
}

/// A formula and its note, once they have been held against what was simulated: none that is out of its
/// range.
pub(crate) fn kept(
    answer: FormulaAnswer,
    simulated: &[(Of, Quantity, Estimate)],
) -> (Option<FormulaAnswer>, String) {
    match standing(&answer.name, &answer.trust, &pairs(&answer, simulated)) {
        Standing::Agrees => {
            let note = answer.note();
            (Some(answer), note)
        }
        Standing::Dropped(why) => (None, why),
        Standing::Disputed(why) => {
            let note = format!("{}; {why}", answer.note());
            (Some(answer), note)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, half_width, confidence: 0.95, n: 10 }
    }

    fn of(trust: &Trust, formula: f64, simulated: &Estimate) -> Standing {
        let pair = Pair { what: "mean response".into(), formula, simulated };
        standing("layered model", trust, &[pair])
    }

    fn within(error: f64) -> Trust {
        Trust { exact: false, error: Some(error), text: String::new() }
    }

    #[test]
    fn a_formula_is_dropped_beyond_its_error_and_the_interval_alone() {
        let simulated = estimate(1.0, 0.01);
        // t is 4.78 at 99.9 % and 2.26 at 95 %, with 9 degrees of freedom: 0.0211 to each side.
        let edge = 0.12 + 0.005 + 1.12 * 0.0211;
        assert_eq!(of(&within(0.12), 1.0 + edge - 1e-3, &simulated), Standing::Agrees);
        assert_eq!(of(&within(0.12), 1.0 - edge + 1e-3, &simulated), Standing::Agrees);
        let found = of(&within(0.12), 1.0 - edge - 1e-3, &simulated);
        let Standing::Dropped(why) = found else { panic!("{found:?}") };
        assert!(why.contains("out of its range"), "{why}");
        assert!(why.contains("15 % below the simulation's"), "{why}");
        assert!(why.contains("states 12.0 % at the most"), "{why}");
        assert!(matches!(of(&within(0.12), 1.0 + edge + 1e-3, &simulated), Standing::Dropped(_)));
    }

    #[test]
    fn an_exact_formula_is_kept_and_the_disagreement_told() {
        let exact = Trust { exact: true, error: None, text: "exact".into() };
        assert_eq!(of(&exact, 1.02, &estimate(1.0, 0.01)), Standing::Agrees);
        let found = of(&exact, 1.066, &estimate(0.82, 0.013));
        let Standing::Disputed(why) = found else { panic!("{found:?}") };
        assert!(why.contains("30 % above the simulation's, more than chance allows"), "{why}");
    }

    #[test]
    fn what_is_not_known_contradicts_nobody() {
        let untried = Trust { exact: false, error: None, text: String::new() };
        assert_eq!(of(&untried, 5.0, &estimate(1.0, 0.01)), Standing::Agrees);
        let unknown = Estimate { half_width: f64::INFINITY, n: 1, ..estimate(1.0, 0.0) };
        assert_eq!(of(&within(0.1), 5.0, &unknown), Standing::Agrees);
    }
}
