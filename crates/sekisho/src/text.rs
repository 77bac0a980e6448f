//! Numbers and tables as a person reads them in a terminal of 80 columns.

use std::fmt::Write;

use measure::Estimate;

/// A time with its unit, three significant digits: `12.3 ms`.
pub(crate) fn time(seconds: f64) -> String {
    let (factor, unit) = time_unit(seconds);
    format!("{} {unit}", digits(seconds * factor))
}

/// A time with its interval: `12.3 ms ± 0.4`.
pub(crate) fn time_estimate(estimate: &Estimate) -> String {
    let (factor, unit) = time_unit(estimate.mean);
    with_interval(estimate, factor, unit)
}

/// Two times in the unit of the second: `12.1/12.3 ms`; a missing one is a dash.
pub(crate) fn times(first: Option<f64>, second: Option<f64>) -> String {
    let (factor, unit) = time_unit(second.or(first).unwrap_or(0.0));
    let one = |value: Option<f64>| value.map_or("-".into(), |value| digits(value * factor));
    format!("{}/{} {unit}", one(first), one(second))
}

/// A rate with its interval: `512 /s ± 3`.
pub(crate) fn rate_estimate(estimate: &Estimate) -> String {
    with_interval(estimate, 1.0, "/s")
}

/// A rate with its unit: `512 /s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{} /s", digits(per_second))
}

/// A difference in percent, with its sign: `+3.1 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A size with its unit: `50 kB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", digits(value / 1e3)),
        _ => format!("{} MB", digits(value / 1e6)),
    }
}

fn with_interval(estimate: &Estimate, factor: f64, unit: &str) -> String {
    let mean = estimate.mean * factor;
    if !estimate.half_width.is_finite() {
        return format!("{} {unit} ± ?", digits(mean));
    }
    let half = estimate.half_width * factor;
    // The interval decides how many digits of the mean mean anything.
    let places = if half > 0.0 { (1.0 - half.log10().floor()).clamp(0.0, 3.0) as usize } else { 1 };
    let places = places.saturating_sub(1);
    format!("{mean:.places$} {unit} ± {half:.places$}")
}

fn time_unit(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        s if s >= 1.0 || s == 0.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        _ => (1e6, "us"),
    }
}

/// Three significant digits without an exponent.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.places$}")
}

/// A table whose first column is text and whose others are numbers, two spaces between columns.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                if column == 0 {
                    write!(line, " {cell:<width$}")?;
                } else {
                    write!(line, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Text broken into lines of at most 78 columns, indented by two.
pub(crate) fn paragraph(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 76 {
            lines.push_str("  ");
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push_str("  ");
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, half_width, confidence: 0.95, n: 10 }
    }

    #[test]
    fn numbers_carry_their_unit_and_only_digits_that_mean_something() {
        assert_eq!(time(0.0), "0 s");
        assert_eq!(time(12.34e-6), "12.3 us");
        assert_eq!(time(1.5), "1.50 s");
        assert_eq!(time_estimate(&estimate(12.345e-3, 0.43e-3)), "12.3 ms ± 0.4");
        assert_eq!(time_estimate(&estimate(1.0, f64::INFINITY)), "1.00 s ± ?");
        assert_eq!(rate_estimate(&estimate(512.3, 12.0)), "512 /s ± 12");
        assert_eq!(bytes(500), "500 B");
        assert_eq!(bytes(50_000), "50.0 kB");
        assert_eq!(percent(-0.0312), "-3.1 %");
    }

    #[test]
    fn a_table_aligns_and_a_paragraph_fits_80_columns() {
        let mut table = Table::new(&["document", "n"]);
        table.row(vec!["5k".into(), "500".into()]);
        assert_eq!(table.to_string(), "  document    n\n  5k        500\n");
        let text = paragraph(&"word ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= 78 && line.starts_with("  ")));
        assert_eq!(text.split_whitespace().count(), 60);
    }
}
