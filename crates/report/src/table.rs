//! Tables: columns with units, aligned numbers, verdicts with a word and a sign.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Outcome;

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Text of the head.
    pub heading: String,
    /// The unit of its numbers; empty if they have none.
    pub unit: String,
}

impl Column {
    /// A column of numbers in `unit`.
    pub fn new(heading: impl Into<String>, unit: impl Into<String>) -> Column {
        Column { heading: heading.into(), unit: unit.into() }
    }

    /// A column without a unit: words, verdicts, counts.
    pub fn plain(heading: impl Into<String>) -> Column {
        Column::new(heading, "")
    }
}

/// Content of one place of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// Nothing: there is no such value.
    Empty,
    /// Words.
    Text(String),
    /// A number.
    Number(f64),
    /// A number with its interval.
    Interval {
        /// The value.
        value: f64,
        /// The lower end.
        lower: f64,
        /// The upper end.
        upper: f64,
    },
    /// An interval alone.
    Range {
        /// The lower end.
        lower: f64,
        /// The upper end.
        upper: f64,
    },
    /// A verdict.
    Outcome(Outcome),
}

impl Cell {
    /// A number with its interval.
    pub fn interval(value: f64, lower: f64, upper: f64) -> Cell {
        Cell::Interval { value, lower, upper }
    }

    /// A rate or a time and the half width of its interval; infinite or no number, the mean alone. The interval is cut at
    /// 0: below it neither can lie.
    pub fn non_negative(mean: f64, half_width: f64) -> Cell {
        match half_width.is_finite() {
            true => Cell::interval(mean, (mean - half_width).max(0.0), mean + half_width),
            false => Cell::Number(mean),
        }
    }

    /// The numbers in it, up to three.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> + Clone + use<> {
        let numbers = match *self {
            Cell::Empty | Cell::Text(_) | Cell::Outcome(_) => [None; 3],
            Cell::Number(value) => [Some(value), None, None],
            Cell::Interval { value, lower, upper } => [Some(value), Some(lower), Some(upper)],
            Cell::Range { lower, upper } => [Some(lower), Some(upper), None],
        };
        numbers.into_iter().flatten()
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<Outcome> for Cell {
    fn from(outcome: Outcome) -> Cell {
        Cell::Outcome(outcome)
    }
}

/// A table whose rows are as wide as its head and whose numbers are finite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Table {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    #[serde(skip_serializing_if = "Narrow::is_scrolled")]
    narrow: Narrow,
}

/// Form of a table on a page that is narrower than the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Narrow {
    /// It is scrolled in its frame.
    #[default]
    Scrolled,
    /// Each row is a block, with a line for each column.
    Stacked,
}

impl Narrow {
    fn is_scrolled(&self) -> bool {
        *self == Narrow::Scrolled
    }
}

/// A table as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    #[serde(default)]
    narrow: Narrow,
}

impl TryFrom<Unchecked> for Table {
    type Error = TableError;

    fn try_from(table: Unchecked) -> Result<Table, TableError> {
        let Unchecked { caption, columns, rows, narrow } = table;
        Table { narrow, ..Table::new(caption, columns) }.rows(rows)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        Table {
            caption: caption.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            narrow: Narrow::Scrolled,
        }
    }

    /// Makes each row a block of lines on a phone, for a table of more columns than fit there.
    #[must_use]
    pub fn stacked(mut self) -> Table {
        self.narrow = Narrow::Stacked;
        self
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The row is not as wide as the head, a number is not finite, or an interval ends before it
    /// begins.
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Result<Table, TableError> {
        let cells: Vec<Cell> = cells.into_iter().collect();
        if cells.len() != self.columns.len() {
            return Err(TableError::Width {
                table: self.caption,
                row: self.rows.len() + 1,
                cells: cells.len(),
                columns: self.columns.len(),
            });
        }
        for (cell, column) in cells.iter().zip(&self.columns) {
            if !cell.numbers().all(f64::is_finite) {
                return Err(TableError::NotFinite {
                    table: self.caption,
                    row: self.rows.len() + 1,
                    column: column.heading.clone(),
                });
            }
            if let Cell::Interval { lower, upper, .. } | Cell::Range { lower, upper } = cell
                && lower > upper
            {
                return Err(TableError::Reversed {
                    table: self.caption,
                    row: self.rows.len() + 1,
                    column: column.heading.clone(),
                });
            }
        }
        self.rows.push(cells);
        Ok(self)
    }

    /// Adds several rows.
    ///
    /// # Errors
    ///
    /// As [`Table::row`].
    pub fn rows(self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Result<Table, TableError> {
        rows.into_iter().try_fold(self, Table::row)
    }

    /// Caption: what the table shows.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    pub(super) fn narrow(&self) -> Narrow {
        self.narrow
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn lines(&self) -> &[Vec<Cell>] {
        &self.rows
    }
}

/// Why a row does not belong into its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It is not as wide as the head.
    Width {
        /// The table's caption.
        table: String,
        /// The row, from 1.
        row: usize,
        /// Its cells.
        cells: usize,
        /// The table's columns.
        columns: usize,
    },
    /// A number in it is NaN or infinite.
    NotFinite {
        /// The table's caption.
        table: String,
        /// The row, from 1.
        row: usize,
        /// The column's heading.
        column: String,
    },
    /// An interval ends before it begins.
    Reversed {
        /// The table's caption.
        table: String,
        /// The row, from 1.
        row: usize,
        /// The column's heading.
        column: String,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Width { table, row, cells, columns } => {
                write!(f, "table \"{table}\", row {row}: {cells} cells under {columns} columns")
            }
            TableError::NotFinite { table, row, column } => write!(
                f,
                "table \"{table}\", row {row}, column \"{column}\": a number is not finite; \
                 use an empty cell and say in the text why there is no value"
            ),
            TableError::Reversed { table, row, column } => write!(
                f,
                "table \"{table}\", row {row}, column \"{column}\": the interval ends before it \
                 begins; give the lower end first"
            ),
        }
    }
}

impl std::error::Error for TableError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: a page told a rate of 3 /s, from -4 to 10.
    #[test]
    fn no_rate_and_no_time_lies_below_nothing() {
        let told = [(3.0, 7.0), (3.0, 1.0), (3.0, f64::INFINITY), (3.0, f64::NAN)]
            .map(|(mean, half_width)| Cell::non_negative(mean, half_width).numbers().collect());
        let numbers: [Vec<f64>; 4] = told;
        assert_eq!(numbers, [vec![3.0, 0.0, 10.0], vec![3.0, 2.0, 4.0], vec![3.0], vec![3.0]]);
    }
}
