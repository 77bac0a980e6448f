//! The committed table of references, row by row beside its case.

use crate::cases::Case;

/// A case, its scenario, and what was simulated of it.
pub(crate) struct Reference {
    pub(crate) case: Case,
    /// The scenario, as a file.
    pub(crate) text: String,
    /// Completions [1/s], and half of the 95 % interval.
    pub(crate) throughput: (f64, f64),
    /// Mean response \[s\], and half of the 95 % interval.
    pub(crate) response: (f64, f64),
}

impl Reference {
    /// Whether its load is open and nearer to what can be served than simulations tell.
    pub(crate) fn is_beyond(&self) -> bool {
        self.case.is_open() && self.case.share > 0.95
    }
}

/// Every row of a table.
///
/// # Panics
/// If a row is no case of the grid, or a case has no row: the table is made again then.
pub(crate) fn references(table: &str) -> Vec<Reference> {
    let cases = Case::all();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), cases.len(), "the table is whole");
    let of = |case: Case| {
        let row = rows.iter().find(|row| format!("{},{}", row[0], row[1]) == case.key());
        let row = row.unwrap_or_else(|| panic!("{} is not in the table", case.key()));
        let number = |at: usize| row[at].parse::<f64>().expect("the table has numbers");
        let text = if case.is_open() {
            case.open(number(3))
        } else if case.is_many() {
            case.many(number(3))
        } else {
            case.closed()
        };
        let (throughput, response) = ((number(5), number(6)), (number(7), number(8)));
        Reference { case, text, throughput, response }
    };
    cases.into_iter().map(of).collect()
}
