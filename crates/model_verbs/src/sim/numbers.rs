//! Every number of a simulation in a row of its own, as other programs read them: what of, which, unit,
//! mean, half of the interval, and whether that is a bound only. CSV and Parquet have the same rows.

use std::fmt::Write as _;

use measure::{Bound, Estimate};
use sim::{Outcome, SizeRange};

use super::significant;

#[cfg(feature = "parquet")]
mod columns;

/// Rows of numbers.
pub(super) struct Numbers {
    /// The parameters that were varied; their values begin each row.
    parameters: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    values: Vec<String>,
    kind: &'static str,
    name: String,
    number: String,
    unit: &'static str,
    estimate: Estimate,
    /// Of a quantile that is no more than a bound.
    bound: Option<Bound>,
}

impl Row {
    fn bound(&self) -> &'static str {
        self.bound.map_or("", Bound::name)
    }
}

/// The columns after those of the parameters.
const COLUMNS: [&str; 8] =
    ["kind", "name", "number", "unit", "mean", "half_width", "confidence", "bound"];

impl Numbers {
    /// Those of one run.
    pub(super) fn of(outcome: &Outcome) -> Numbers {
        let mut numbers = Numbers::new(Vec::new());
        numbers.add(&[], outcome);
        numbers
    }

    /// None so far.
    pub(super) fn new(parameters: Vec<String>) -> Numbers {
        Numbers { parameters, rows: Vec::new() }
    }

    /// Adds those of a run with these values of the parameters.
    pub(super) fn add(&mut self, values: &[String], outcome: &Outcome) {
        let mut rows = Rows { rows: &mut self.rows, values, kind: "class", name: "" };
        for class in &outcome.classes {
            rows.name = &class.name;
            rows.row("throughput", "1/s", &class.throughput);
            rows.row("refused", "1/s", &class.refused);
            rows.maybe("response", "s", class.response.as_ref());
            rows.quantiles("response", &class.quantiles);
            for size in &class.sizes {
                let of = match &size.range {
                    SizeRange::Document { name, .. } => format!("response of {name}"),
                    SizeRange::PowerOfTwo(low) => format!("response from {low} B"),
                };
                rows.maybe(&of, "s", size.response.as_ref());
                rows.quantiles(&of, &size.quantiles);
            }
        }
        rows.kind = "gate";
        for gate in &outcome.gates {
            rows.name = &gate.name;
            rows.row("started", "1/s", &gate.started);
            rows.maybe("wait", "s", gate.wait.as_ref());
            rows.quantiles("wait", &gate.wait_quantiles);
            rows.maybe("hold", "s", gate.hold.as_ref());
            rows.row("waiting", "jobs", &gate.waiting);
            rows.row("slots held", "slots", &gate.busy);
            rows.row("refused full", "share", &gate.refused_full);
            rows.row("refused deadline", "share", &gate.refused_deadline);
            if gate.refused_unreachable.mean > 0.0 {
                rows.row("refused unreachable", "share", &gate.refused_unreachable);
            }
        }
        rows.kind = "station";
        for station in &outcome.stations {
            rows.name = &station.name;
            rows.maybe("utilisation", "share", station.utilisation.as_ref());
            rows.row("jobs", "jobs", &station.jobs);
            rows.maybe("sojourn", "s", station.sojourn.as_ref());
            rows.row("throughput", "1/s", &station.throughput);
        }
    }

    /// As CSV (RFC 4180).
    pub(super) fn csv(&self) -> String {
        let mut text = String::new();
        let head = self.parameters.iter().map(String::as_str).chain(COLUMNS);
        line(&mut text, head);
        for row in &self.rows {
            let Estimate { mean, half_width, confidence, .. } = row.estimate;
            let half = if half_width.is_finite() { half_width.to_string() } else { String::new() };
            let numbers = [mean.to_string(), half, confidence.to_string()];
            let names = [row.kind, &row.name, &row.number, row.unit];
            let values = row.values.iter().map(String::as_str);
            let numbers = numbers.iter().map(String::as_str).chain([row.bound()]);
            line(&mut text, values.chain(names).chain(numbers));
        }
        text
    }
}

/// Rows about one thing after the other.
struct Rows<'a> {
    rows: &'a mut Vec<Row>,
    values: &'a [String],
    kind: &'static str,
    name: &'a str,
}

impl Rows<'_> {
    fn row(&mut self, number: &str, unit: &'static str, estimate: &Estimate) {
        self.bounded(number, unit, estimate, None);
    }

    fn bounded(
        &mut self,
        number: &str,
        unit: &'static str,
        estimate: &Estimate,
        bound: Option<Bound>,
    ) {
        self.rows.push(Row {
            values: self.values.to_vec(),
            kind: self.kind,
            name: self.name.to_owned(),
            number: number.to_owned(),
            unit,
            estimate: *estimate,
            bound,
        });
    }

    fn maybe(&mut self, number: &str, unit: &'static str, estimate: Option<&Estimate>) {
        if let Some(estimate) = estimate {
            self.row(number, unit, estimate);
        }
    }

    fn quantiles(&mut self, of: &str, quantiles: &[(f64, Estimate)]) {
        for (q, estimate) in quantiles {
            let number = format!("{of} p{}", significant(q * 100.0));
            self.bounded(&number, "s", estimate, Bound::of(estimate.mean));
        }
    }
}

/// A line of CSV.
fn line<'f>(text: &mut String, fields: impl Iterator<Item = &'f str>) {
    for (at, field) in fields.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        // Writing to a string does not fail.
        if field.contains(['"', ',', '\n', '\r']) {
            write!(text, "{comma}\"{}\"", field.replace('"', "\"\"")).ok();
        } else {
            write!(text, "{comma}{field}").ok();
        }
    }
    text.push('\n');
}
