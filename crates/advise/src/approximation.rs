//! The one place that marks numbers of formulas as approximate: in words, at the place where the
//! numbers are said first, and for programs as `approximate` and `error`.

use serde::Serialize;
use solve::Exactness;

use crate::formula::Trust;

/// Mark on several numbers: true if any of them is of an approximate formula, with the error that
/// it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Approximation {
    /// True if one of them is approximate.
    pub approximate: bool,
    /// The largest relative error stated for any of them; none if all are exact, or if one of them was
    /// never tried.
    pub error: Option<f64>,
}

impl Approximation {
    /// Every number is the model's true value, or of no formula.
    pub const NONE: Approximation = Approximation { approximate: false, error: None };

    /// A mark for numbers of an approximate formula with this error, if it was tried.
    pub fn within(error: Option<f64>) -> Approximation {
        Approximation { approximate: true, error }
    }

    /// The mark for the numbers of both together.
    #[must_use]
    pub fn and(self, other: Approximation) -> Approximation {
        match (self.approximate, other.approximate) {
            (false, _) => other,
            (_, false) => self,
            (true, true) => {
                let both = self.error.zip(other.error);
                Approximation::within(both.map(|(one, other)| one.max(other)))
            }
        }
    }

    /// Words behind numbers that are the formula's own: `, approximate within 12 %`; nothing where
    /// they are exact.
    pub fn behind_numbers(&self) -> String {
        if self.approximate { format!(", {}", self.words()) } else { String::new() }
    }

    /// Words behind numbers of a simulation, or a verdict on them, where a formula's stand below:
    /// `; its formula is approximate within 12 %`.
    pub fn of_formula(&self) -> String {
        if self.approximate { format!("; its formula is {}", self.words()) } else { String::new() }
    }

    fn words(&self) -> String {
        let Some(error) = self.error else { return "approximate, its error not known".into() };
        let percent = error * 100.0;
        // One digit that says something, however small the error is.
        let places = if percent >= 0.95 { 0.0 } else { (-percent.log10()).ceil().min(12.0) };
        // What is stated is not rounded below what was seen.
        let scale = 10_f64.powf(places);
        let percent = (percent * scale - 1e-6).ceil() / scale;
        format!("approximate within {percent:.0$} %", places as usize)
    }
}

impl From<&Trust> for Approximation {
    fn from(trust: &Trust) -> Approximation {
        if trust.exact { Approximation::NONE } else { Approximation::within(trust.error) }
    }
}

impl From<Exactness> for Approximation {
    fn from(exactness: Exactness) -> Approximation {
        match exactness {
            Exactness::Exact => Approximation::NONE,
            Exactness::Approximate { error, .. } => Approximation::within(Some(error)),
        }
    }
}

impl Extend<Approximation> for Approximation {
    fn extend<T: IntoIterator<Item = Approximation>>(&mut self, others: T) {
        *self = others.into_iter().fold(*self, Approximation::and);
    }
}

impl FromIterator<Approximation> for Approximation {
    fn from_iter<T: IntoIterator<Item = Approximation>>(of: T) -> Approximation {
        of.into_iter().fold(Approximation::NONE, Approximation::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_is_told() {
        let [twelve, three] = [0.12, 0.03].map(|error| Approximation::within(Some(error)));
        let all: Approximation = [Approximation::NONE, three, twelve].into_iter().collect();
        assert_eq!(all, twelve);
        assert_eq!(all.behind_numbers(), ", approximate within 12 %");
        assert_eq!(all.of_formula(), "; its formula is approximate within 12 %");
        let untried = all.and(Approximation::within(None));
        assert_eq!(untried, Approximation::within(None), "an error not known is no small one");
        assert_eq!(untried.behind_numbers(), ", approximate, its error not known");
        let none: Approximation = [].into_iter().collect();
        assert_eq!(
            (none, none.behind_numbers() + &none.of_formula()),
            (Approximation::NONE, "".into())
        );
    }

    #[test]
    fn a_stated_error_is_not_rounded_down() {
        for (error, said) in [
            (0.12, "12 %"),
            (0.124, "13 %"),
            (0.35, "35 %"),
            (0.03, "3 %"),
            (0.001, "0.1 %"),
            (0.0014, "0.2 %"),
            (1e-6, "0.0001 %"),
        ] {
            let said = format!(", approximate within {said}");
            assert_eq!(Approximation::within(Some(error)).behind_numbers(), said);
        }
    }
}
