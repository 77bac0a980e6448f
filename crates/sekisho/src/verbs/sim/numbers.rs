//! Every number of a simulation in a row of its own, as other programs read them: what of, which, unit,
//! mean, half of the interval, and whether that is a bound only. CSV and Parquet have the same rows.

use std::fmt::Write as _;
use std::sync::Arc;

use measure::{Bound, Estimate};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use sim::{Outcome, SizeRange};
use terminal::Failure;

use super::significant;

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

    /// As a Parquet file: one row group, no compression.
    pub(super) fn parquet(&self) -> Result<Vec<u8>, Failure> {
        self.write_parquet().map_err(Failure::machine)
    }

    fn write_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(Vec::new(), self.schema()?, properties)?;
        let mut group = writer.next_row_group()?;
        for at in 0..self.parameters.len() {
            let values: Vec<&str> = self.rows.iter().map(|row| row.values[at].as_str()).collect();
            text_column(&mut group, &values)?;
        }
        let texts: [fn(&Row) -> &str; 4] =
            [|row| row.kind, |row| &row.name, |row| &row.number, |row| row.unit];
        for text in texts {
            text_column(&mut group, &self.rows.iter().map(text).collect::<Vec<_>>())?;
        }
        let numbers: [fn(&Estimate) -> f64; 3] =
            [|value| value.mean, |value| value.half_width, |value| value.confidence];
        for number in numbers {
            let values: Vec<f64> = self.rows.iter().map(|row| number(&row.estimate)).collect();
            number_column(&mut group, &values)?;
        }
        text_column(&mut group, &self.rows.iter().map(Row::bound).collect::<Vec<_>>())?;
        group.close()?;
        writer.into_inner()
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let text = |name: &str| {
            Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::String))
                .build()
        };
        // Where there is no interval, half of it is missing.
        let number = |name: &str| {
            Type::primitive_type_builder(name, PhysicalType::DOUBLE)
                .with_repetition(Repetition::OPTIONAL)
                .build()
        };
        let mut fields = Vec::new();
        for parameter in &self.parameters {
            fields.push(Arc::new(text(parameter)?));
        }
        for column in COLUMNS {
            let is_number = ["mean", "half_width", "confidence"].contains(&column);
            fields.push(Arc::new(if is_number { number(column)? } else { text(column)? }));
        }
        Ok(Arc::new(Type::group_type_builder("simulation").with_fields(fields).build()?))
    }
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn text_column(group: &mut Group<'_>, values: &[&str]) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

/// Values that are not finite are missing.
fn number_column(group: &mut Group<'_>, values: &[f64]) -> Result<(), ParquetError> {
    let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_finite())).collect();
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
    column.close()
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
