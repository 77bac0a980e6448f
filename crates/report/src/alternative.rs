//! A figure without its picture: its numbers as a table, and a sentence for those who hear it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::figure::{At, Axis, Figure, Mark, Plot, Reference, Role, Scale, Series, Stack, Strip};
use super::number::significant;
use super::table::{Cell, Column, Table};

/// All numbers of a figure except its reference lines, which [`notes`] tells.
pub(super) fn table(figure: &Figure) -> Table {
    let caption = format!("Numbers of the figure \u{201c}{}\u{201d}", figure.title());
    match figure.plot() {
        Plot::Curves(curves) => {
            let x = Column::new(&curves.x.label, &curves.x.unit);
            series_table(caption, x, &curves.y.unit, &curves.series, Cell::Number)
        }
        Plot::Quantiles(quantiles) => {
            let x = Column::plain("Percentile");
            let percentile = |quantile| Cell::Text(percentile(quantile));
            series_table(caption, x, &quantiles.y.unit, &quantiles.series, percentile)
        }
        Plot::Residuals(residuals) => {
            let x = Column::new(&residuals.x.label, &residuals.x.unit);
            series_table(caption, x, "%", &residuals.series, Cell::Number)
        }
        Plot::Strip(strip) => strip_table(caption, strip),
        Plot::Stack(stack) => stack_table(caption, stack),
    }
}

/// Reference lines and ranges in words.
pub(super) fn notes(figure: &Figure) -> Vec<String> {
    match figure.plot() {
        Plot::Curves(curves) => {
            let (x, y) = (&curves.x.unit, &curves.y.unit);
            let mut notes: Vec<String> =
                curves.references.iter().map(|line| note(line, significant, x, y)).collect();
            if let Some(to) = curves.calibrated_to {
                notes.push(format!("The model is calibrated up to {}.", with_unit(to, x)));
            }
            notes
        }
        Plot::Quantiles(quantiles) => {
            let lines = quantiles.references.iter();
            lines.map(|line| note(line, percentile, "", &quantiles.y.unit)).collect()
        }
        Plot::Residuals(residuals) => residuals
            .tolerance
            .map(|width| format!("Accepted: up to {} % around zero.", significant(width)))
            .into_iter()
            .collect(),
        Plot::Strip(_) | Plot::Stack(_) => Vec::new(),
    }
}

/// Text of a screen reader in place of the picture.
pub(super) fn sentence(figure: &Figure) -> String {
    let mut text = match figure.plot() {
        Plot::Curves(curves) => {
            let start = format!("Chart of {} against {}.", axis(&curves.y), axis(&curves.x));
            start + &series_sentences(&curves.series, significant)
        }
        Plot::Quantiles(quantiles) => {
            let start = format!("Chart of {} by percentile.", axis(&quantiles.y));
            start + &series_sentences(&quantiles.series, percentile)
        }
        Plot::Residuals(residuals) => {
            let start = format!("Chart of residuals in per cent against {}.", axis(&residuals.x));
            start + &series_sentences(&residuals.series, significant)
        }
        Plot::Strip(strip) => {
            let mut text = "Bars of utilisation.".to_owned();
            for row in &strip.rows {
                let share = significant(row.utilisation * 100.0);
                let _ = write!(text, " {} ({}): {share} %.", row.name, row.kind.word());
            }
            text
        }
        Plot::Stack(stack) => {
            let parts: Vec<&str> = stack.parts.iter().map(|part| part.name.as_str()).collect();
            let mut text = format!("Stacked bars of time: {}.", parts.join(", "));
            for row in &stack.rows {
                let total = with_unit(row.values.iter().sum(), &stack.unit);
                let _ = write!(text, " {}: {total} in all.", row.name);
            }
            text
        }
    };
    for note in notes(figure) {
        text.push(' ');
        text.push_str(&note);
    }
    text + " The numbers stand in the table below."
}

/// "p99.9" for 0.999.
fn percentile(quantile: f64) -> String {
    let text = format!("{:.12}", quantile * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn with_unit(value: f64, unit: &str) -> String {
    let separator = if unit.is_empty() { "" } else { " " };
    format!("{}{separator}{unit}", significant(value))
}

fn axis(axis: &Axis) -> String {
    let unit = if axis.unit.is_empty() { String::new() } else { format!(" [{}]", axis.unit) };
    let scale = match axis.scale {
        Scale::Linear => "",
        Scale::Log => " (logarithmic)",
    };
    format!("{}{unit}{scale}", axis.label)
}

fn note(line: &Reference, x_text: impl Fn(f64) -> String, x: &str, y: &str) -> String {
    let name = &line.name;
    match line.at {
        At::X(value) if x.is_empty() => format!("{name}: {}.", x_text(value)),
        At::X(value) => format!("{name}: {} {x}.", x_text(value)),
        At::Y(value) => format!("{name}: {}.", with_unit(value, y)),
        At::Slope { intercept, slope } => format!(
            "{name}: {} + {} for each unit of the horizontal axis.",
            with_unit(intercept, y),
            with_unit(slope, y)
        ),
    }
}

fn series_sentences(series: &[Series], x_text: impl Fn(f64) -> String) -> String {
    let mut text = String::new();
    for Series { name, mark, .. } in series {
        let shape = match mark {
            Mark::Line(_) => "line",
            Mark::Dashed(_) => "dashed line",
            Mark::Dots(_) => "dots",
            Mark::Band(_) => "band",
        };
        let cells = cells(mark);
        let (Some((first, at_first)), Some((last, at_last))) = (cells.first(), cells.last()) else {
            continue;
        };
        let (first, last) = (x_text(*first), x_text(*last));
        let (at_first, at_last) = (spoken(at_first), spoken(at_last));
        let _ = write!(text, " {name} ({shape}): {at_first} at {first}, {at_last} at {last}.");
    }
    text
}

fn spoken(cell: &Cell) -> String {
    match cell {
        Cell::Range { lower, upper } => {
            format!("{} to {}", significant(*lower), significant(*upper))
        }
        other => other.numbers().next().map(significant).unwrap_or_default(),
    }
}

/// A series' numbers by x, in the order of x.
fn cells(mark: &Mark) -> Vec<(f64, Cell)> {
    let mut cells: Vec<(f64, Cell)> = match mark {
        Mark::Line(points) | Mark::Dashed(points) => {
            points.iter().map(|[x, y]| (*x, Cell::Number(*y))).collect()
        }
        Mark::Dots(points) => points
            .iter()
            .map(|point| match point.interval {
                None => (point.x, Cell::Number(point.y)),
                Some([lower, upper]) => (point.x, Cell::interval(point.y, lower, upper)),
            })
            .collect(),
        Mark::Band(points) => points
            .iter()
            .map(|[x, lower, upper]| (*x, Cell::Range { lower: *lower, upper: *upper }))
            .collect(),
    };
    cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    cells
}

/// A finite x and how often its series had it before; the order of a table's rows. Two runs at the
/// same load are two rows, so that no number is lost.
#[derive(Clone, Copy, PartialEq)]
struct Place(f64, usize);

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

fn series_table(
    caption: String,
    x: Column,
    y_unit: &str,
    series: &[Series],
    x_cell: impl Fn(f64) -> Cell,
) -> Table {
    let mut rows: BTreeMap<Place, Vec<Cell>> = BTreeMap::new();
    for (index, series) in series.iter().enumerate() {
        let mut before = Place(f64::NAN, 0);
        for (x, cell) in cells(&series.mark) {
            // -0 and 0 are one place, though `total_cmp` tells them apart.
            let x = x + 0.0;
            before = Place(x, if x == before.0 { before.1 + 1 } else { 0 });
            let row = rows.entry(before).or_default();
            row.resize(index, Cell::Empty);
            row.push(cell);
        }
    }
    let mut columns = vec![x];
    columns.extend(series.iter().map(|series| Column::new(&series.name, y_unit)));
    let rows = rows.into_iter().map(|(Place(x, _), mut cells)| {
        cells.resize(series.len(), Cell::Empty);
        cells.insert(0, x_cell(x));
        cells
    });
    checked(Table::new(caption, columns), rows)
}

fn strip_table(caption: String, strip: &Strip) -> Table {
    let columns = [
        Column::plain("Gate or station"),
        Column::plain("Kind"),
        Column::new("Utilisation", "%"),
        Column::plain("Queue and wait"),
    ];
    let rows = strip.rows.iter().map(|row| {
        vec![
            Cell::from(row.name.as_str()),
            Cell::from(row.kind.word()),
            Cell::Number(row.utilisation * 100.0),
            Cell::from(row.note.as_str()),
        ]
    });
    checked(Table::new(caption, columns), rows)
}

fn stack_table(caption: String, stack: &Stack) -> Table {
    let mut columns = vec![Column::plain("Whose time")];
    columns.extend(stack.parts.iter().map(|part| {
        let role = match part.role {
            Role::Wait => "wait",
            Role::Service => "service",
        };
        Column::new(format!("{} ({role})", part.name), &stack.unit)
    }));
    columns.push(Column::new("In all", &stack.unit));
    let rows = stack.rows.iter().map(|row| {
        let mut cells = vec![Cell::from(row.name.as_str())];
        cells.extend(row.values.iter().map(|value| Cell::Number(*value)));
        cells.push(Cell::Number(row.values.iter().sum()));
        cells
    });
    checked(Table::new(caption, columns), rows)
}

fn checked(table: Table, rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    table.rows(rows).expect("a figure's numbers are finite and its rows as wide as its head")
}
