//! A service-level objective: limits on what clients see, `p99<200ms and refused<1%`.

use std::fmt;
use std::str::FromStr;

use measure::Estimate;
use serde::Serialize;
use sim::{Comparison, Of, Quantity};

use super::QuestionError;
use crate::{FormulaAnswer, Rate, Right, Scenario, Span};

/// Limits that shall all be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// The limits, in the order in which they were written.
    pub limits: Vec<Limit>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The limit as it was written.
    pub text: String,
    /// The limited quantity.
    pub quantity: Quantity,
    /// The class that is meant; none for the requests of all together.
    pub class: Option<String>,
    /// The side of the limit on which it shall be.
    pub side: LimitSide,
    /// The limit: seconds, per second, or a share.
    pub limit: f64,
}

/// The side of its limit on which a quantity shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSide {
    /// Below it, or at it.
    Below,
    /// Above it, or at it.
    Above,
}

/// Why a text is no objective.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{text}`, column {column}: {cause}; an objective is such as 'p99<200ms and refused<1%'")]
pub struct SloError {
    /// The text.
    pub text: String,
    /// Column of the mistake, from 1.
    pub column: usize,
    /// The mistake.
    pub cause: String,
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Slo, SloError> {
        let mut limits = Vec::new();
        let mut from = 0;
        for part in text.split(" and ") {
            limits.push(limit(part).map_err(|(at, cause)| SloError {
                text: text.to_owned(),
                column: text[..from + at].chars().count() + 1,
                cause,
            })?);
            from += part.len() + " and ".len();
        }
        Ok(Slo { limits })
    }
}

/// A limit from its text; else where in it what is wrong.
fn limit(part: &str) -> Result<Limit, (usize, String)> {
    let begin = part.len() - part.trim_start().len();
    if part.trim().is_empty() {
        return Err((begin.min(part.len()), "a limit is missing".into()));
    }
    let Some(at) = part.find(['<', '>']) else {
        return Err((begin, format!("`{}` has no < or >", part.trim())));
    };
    let side = if part[at..].starts_with('<') { LimitSide::Below } else { LimitSide::Above };
    let after = part[at + 1..].trim_start_matches('=');
    let value_at = part.len() - after.trim_start().len();
    let value = after.trim();
    let (name, class) = name_and_class(&part[..at]).map_err(|cause| (begin, cause))?;
    let quantity = quantity(name).map_err(|cause| (begin, cause))?;
    let wrong = |cause: String| (value_at, cause);
    let limit = match quantity {
        Quantity::Response | Quantity::Quantile(_) => {
            value.parse::<Span>().map_err(|error| wrong(error.to_string()))?.0
        }
        Quantity::Throughput => value.parse::<Rate>().map_err(|error| wrong(error.to_string()))?.0,
        Quantity::Refused | Quantity::Failed => {
            let percent = value.strip_suffix('%').and_then(|number| number.trim().parse().ok());
            match percent {
                Some(percent) if (0.0..=100.0).contains(&percent) => percent / 100.0,
                _ => return Err(wrong(format!("`{value}` is not a share such as 1%"))),
            }
        }
    };
    let text = part.trim().to_owned();
    Ok(Limit { text, quantity, class, side, limit })
}

/// `p99(web)` is of one class.
fn name_and_class(what: &str) -> Result<(&str, Option<String>), String> {
    match what.trim().split_once('(') {
        None => Ok((what.trim(), None)),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(class) => Ok((name.trim(), Some(class.trim().to_owned()))),
            None => Err("a ) is missing".into()),
        },
    }
}

fn quantity(name: &str) -> Result<Quantity, String> {
    match name {
        "mean" => return Ok(Quantity::Response),
        "throughput" => return Ok(Quantity::Throughput),
        "refused" => return Ok(Quantity::Refused),
        "failed" => return Ok(Quantity::Failed),
        _ => {}
    }
    let percents = Quantity::QUANTILES.map(|q| format!("p{}", shortest(q * 100.0)));
    if let Some(at) = percents.iter().position(|known| known == name) {
        return Ok(Quantity::Quantile(Quantity::QUANTILES[at]));
    }
    let known =
        percents.iter().map(String::as_str).chain(["mean", "throughput", "refused", "failed"]);
    Err(match measure::nearest(name, known.clone()) {
        Some(near) => format!("`{name}` is nothing that is limited; did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known.collect();
            format!("`{name}` is nothing that is limited; there is {}", known.join(", "))
        }
    })
}

/// Without zeros at the end, and without what rounding added.
fn shortest(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.limits.iter().map(|limit| limit.text.as_str()).collect();
        f.write_str(&texts.join(" and "))
    }
}

/// Judgement of a limit by a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    /// The limit, as it was written.
    pub limit: String,
    /// The simulated value: seconds, per second or a share; none where no request was completed.
    pub simulated: Option<Estimate>,
    /// The formula's value, where there is one that knows it.
    pub formula: Option<f64>,
    /// Verdict on the limit.
    pub kept: Right,
    /// The limited quantity.
    #[serde(skip)]
    pub quantity: Quantity,
    /// The requests that it is of: all, or those of a class.
    #[serde(skip)]
    pub of: Of,
}

impl Slo {
    /// Checks that every class that is named exists.
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), QuestionError> {
        for class in self.limits.iter().filter_map(|limit| limit.class.as_deref()) {
            scenario.class_index(class)?;
        }
        Ok(())
    }

    /// Holds a network of a comparison against every limit. Where `claims` such intervals are looked
    /// at, all hold together.
    pub(super) fn judge(
        &self,
        scenario: &Scenario,
        comparison: &Comparison,
        network: usize,
        claims: u32,
    ) -> Vec<Judged> {
        let judged = |limit: &Limit| {
            let class = limit.class.as_deref().and_then(|class| scenario.class_index(class).ok());
            let of = class.map_or(Of::All, Of::Class);
            let claims = claims * self.limits.len() as u32;
            let simulated = comparison.value(network, of, limit.quantity, claims);
            let kept = simulated.as_ref().map_or(Right::CannotTell, |value| limit.kept(value));
            let quantity = limit.quantity;
            Judged { limit: limit.text.clone(), simulated, formula: None, kept, quantity, of }
        };
        self.limits.iter().map(judged).collect()
    }
}

/// What a formula says of a quantity of these requests, if it knows it.
pub(super) fn told(answer: &FormulaAnswer, quantity: Quantity, of: Of) -> Option<f64> {
    let (throughput, response) = match of {
        Of::All => (answer.throughput, answer.response),
        Of::Class(class) => {
            let class = answer.classes.get(class)?;
            (class.throughput, class.response)
        }
    };
    let is_all = of == Of::All || answer.classes.len() == 1;
    match quantity {
        Quantity::Throughput => Some(throughput),
        Quantity::Response => Some(response),
        // Quantiles are of all requests together, and so is what is turned away.
        Quantity::Quantile(q) => answer.quantiles.as_ref().filter(|_| is_all)?.at(q),
        Quantity::Refused => match answer.refused {
            Some(share) => is_all.then_some(share),
            // Nobody may be turned away, or no formula would have answered.
            None => Some(0.0),
        },
        Quantity::Failed => match (answer.refused, answer.lost) {
            (None, None) => Some(0.0),
            // A formula tells one of them, of whom there is not the other.
            (refused, lost) => is_all.then(|| refused.unwrap_or(0.0) + lost.unwrap_or(0.0)),
        },
    }
}

impl Limit {
    /// What a formula says of what is limited, if it knows it.
    pub(super) fn told(&self, scenario: &Scenario, answer: &FormulaAnswer) -> Option<f64> {
        let of = match &self.class {
            Some(class) => Of::Class(scenario.class_index(class).ok()?),
            None => Of::All,
        };
        told(answer, self.quantity, of)
    }

    fn kept(&self, value: &Estimate) -> Right {
        let (inside, outside) = match self.side {
            LimitSide::Below => (value.high() <= self.limit, value.low() > self.limit),
            LimitSide::Above => (value.low() >= self.limit, value.high() < self.limit),
        };
        match (inside, outside) {
            (true, _) => Right::Yes,
            (_, true) => Right::No,
            _ => Right::CannotTell,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_units() {
        let slo: Slo = "p99(web) < 200ms and refused<=1% and throughput>=90/s".parse().unwrap();
        let [p99, refused, throughput] = &slo.limits[..] else { panic!("{slo:?}") };
        assert_eq!((p99.quantity, p99.limit), (Quantity::Quantile(0.99), 0.2));
        assert_eq!((p99.class.as_deref(), p99.side), (Some("web"), LimitSide::Below));
        assert_eq!((refused.quantity, refused.limit), (Quantity::Refused, 0.01));
        assert_eq!((throughput.side, throughput.limit), (LimitSide::Above, 90.0));
        assert_eq!(slo.to_string(), "p99(web) < 200ms and refused<=1% and throughput>=90/s");
        assert_eq!(
            "p99.9<1s".parse::<Slo>().unwrap().limits[0].quantity,
            Quantity::Quantile(0.999)
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            ("p99<200", 5, "`200` is not a time"),
            ("mean<1s and p98<2s", 13, "did you mean `p9"),
            ("mean<1s and ", 13, "a limit is missing"),
            ("mean<1s and throughput > 5ms", 26, "a rate such as"),
            ("refused<200%", 9, "a share such as"),
            ("p99(web<1s", 1, "a ) is missing"),
            ("speed<1s", 1, "there is p50, p90"),
            ("p99", 1, "has no < or >"),
            ("", 1, "a limit is missing"),
        ];
        for (text, column, cause) in cases {
            let error = text.parse::<Slo>().unwrap_err();
            assert_eq!(error.column, column, "{error}");
            assert!(error.cause.contains(cause), "{error}");
        }
    }
}
