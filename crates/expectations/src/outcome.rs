//! Outcome of holding a run against something, in words and as fields.

use advise::{Quantity, Right};
use cli::Verdict;
use measure::Estimate;
use schemars::JsonSchema;
use serde::Serialize;

/// Result of an expectation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its verdict.
    pub verdict: Verdict,
    /// The expectation: a limit as it was written, a quantity against other runs, a rule of measuring.
    pub name: String,
    /// All in one line.
    pub line: String,
    kind: Kind,
    /// Limit and its unit.
    limit: Option<f64>,
    unit: Option<&'static str>,
    found: Option<f64>,
    /// Ends of its interval; an end that is not known is none.
    interval: Option<[Option<f64>; 2]>,
}

/// Kind of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ExpectationKind")]
pub enum Kind {
    /// A limit on what was measured.
    Limit,
    /// To be no worse than other runs; the value is the ratio.
    Change,
    /// To be measured validly.
    Fault,
    /// A prediction to be right.
    Prediction,
}

impl Outcome {
    /// One of this kind, by its name, and what was found in words.
    pub fn new(kind: Kind, verdict: Verdict, name: &str, line: &str) -> Outcome {
        Outcome {
            verdict,
            name: name.to_owned(),
            line: format!("{name}: {line}"),
            kind,
            limit: None,
            unit: None,
            found: None,
            interval: None,
        }
    }

    /// A fault of a measurement, which is its own name.
    pub fn fault(fault: &measure::Fault) -> Outcome {
        Outcome::named_by(Kind::Fault, Verdict::Invalid, fault.to_string())
    }

    /// One whose line is its own name.
    pub fn named_by(kind: Kind, verdict: Verdict, line: String) -> Outcome {
        let outcome = Outcome::new(kind, verdict, &line, "");
        Outcome { line, ..outcome }
    }

    /// The same as a ratio, which has no unit.
    #[must_use]
    pub fn of_ratio(self) -> Outcome {
        Outcome { unit: Some("1"), ..self }
    }

    /// The same with its limit.
    #[must_use]
    pub fn limited(self, limit: f64, unit: &'static str) -> Outcome {
        Outcome { limit: Some(limit), unit: Some(unit), ..self }
    }

    /// The same with what was found.
    #[must_use]
    pub fn found(self, estimate: &Estimate) -> Outcome {
        self.found_between(estimate.mean, estimate.low(), estimate.high())
    }

    /// The same with what was found, and the ends of its interval.
    #[must_use]
    pub fn found_between(self, found: f64, low: f64, high: f64) -> Outcome {
        let known = |value: f64| value.is_finite().then_some(value);
        Outcome { found: known(found), interval: Some([low, high].map(known)), ..self }
    }

    /// The same with what was seen, which is no statistic.
    #[must_use]
    pub fn seen(self, value: Option<f64>) -> Outcome {
        Outcome { found: value, ..self }
    }

    /// The same as fields of JSON.
    pub fn answer(&self) -> ExpectationAnswer<'_> {
        ExpectationAnswer {
            kind: self.kind,
            name: &self.name,
            limit: self.limit,
            unit: self.unit,
            value: self.found,
            interval: self.interval,
            verdict: self.verdict.word(),
            line: &self.line,
        }
    }
}

/// An expectation and what came of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Expectation")]
pub struct ExpectationAnswer<'a> {
    /// Kind of the expectation.
    kind: Kind,
    /// The expectation as it was written, such as `p99<50ms`, or what is compared.
    name: &'a str,
    /// The limit, in its unit; none where there is no number that must not be passed.
    limit: Option<f64>,
    /// Unit of limit and value: `s`, `1/s`; a share or a ratio has the unit `1`.
    unit: Option<&'static str>,
    /// The number that was found; none where too little was seen.
    value: Option<f64>,
    /// Low and high end of its 95 % interval; an end that is not known is null.
    interval: Option<[Option<f64>; 2]>,
    /// Its verdict.
    verdict: &'static str,
    /// All in words.
    line: &'a str,
}

/// Name of what was predicted.
pub fn quantity_text(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Throughput => "throughput".into(),
        Quantity::Response => "mean response".into(),
        Quantity::Document { name, .. } => name.clone(),
    }
}

/// Verdict of a comparison.
pub fn verdict_of(right: Right) -> Verdict {
    match right {
        Right::Yes => Verdict::Holds,
        Right::CannotTell => Verdict::Inconclusive,
        Right::No => Verdict::Fails,
    }
}
