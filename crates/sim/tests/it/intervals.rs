//! The intervals of runs hold what is true as often as they say: the committed table of the
//! whole grid, and a bounded share of it anew.

use crate::cases::Case;
use crate::coverage;

const TABLE: &str = include_str!("../grid/coverage.csv");

/// The columns of a row behind its key: runs, precise, known, held, coverage.
fn row(case: &Case, at: usize, class: usize) -> Vec<f64> {
    let key = format!("{},", coverage::key(case, at, class));
    let row = TABLE.lines().find_map(|row| row.strip_prefix(&key));
    let row = row.unwrap_or_else(|| panic!("{key} is not in the table: make it anew"));
    row.split(',').map(|number| number.parse().unwrap()).collect()
}

/// The story: at M/M/1 89 to 93 % of the intervals of 95 % held the truth, because a run stopped where
/// they were narrow by chance; where thousands were in flight none did.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let cases = Case::all();
    let classes = |case: &Case| 0..case.truths.len();
    let rows: Vec<(&str, Vec<f64>)> = (cases.iter().enumerate())
        .flat_map(|(at, case)| classes(case).map(move |class| (case.name, row(case, at, class))))
        .collect();
    assert_eq!(TABLE.lines().count(), rows.len() + 1, "the table has other rows, too");
    for (name, row) in &rows {
        let (runs, known, held) = (row[0], row[2], row[3]);
        assert_eq!((runs, known), (Case::SEEDS as f64, runs), "{name}: all runs have an answer");
        assert!(held / known >= 0.9, "{name}: {held} of {known}");
    }
    assert_eq!(TABLE.lines().next(), Some(coverage::HEAD));
    let sum = |column: usize| rows.iter().map(|(_, row)| row[column]).sum::<f64>();
    let pooled = sum(3) / sum(2);
    assert!((0.94..=0.96).contains(&pooled), "{pooled} of all intervals hold the truth");
}

/// Ten cases that take little time, eight seeds that the table does not have. Of 80 intervals of 95 % at
/// least 69 hold the truth in all but one of a thousand sets of seeds.
#[test]
fn a_share_of_the_grid_is_found_again() {
    let quick = [
        "M/M/1 at 0.5",
        "M/M/1 at 0.8",
        "M/M/1 at 0.8 in one run",
        "M/M/1/10 at 0.9",
        "M/M/4 at 0.9",
        "10/s over 100 s",
        "4 slots before sharing at 0.8",
        "four queues in turn at 0.8",
        "two stations in line at 0.7 and 0.525",
        "20 clients, one server",
    ];
    let cases = Case::all();
    let chosen = cases.iter().enumerate().filter(|(_, case)| quick.contains(&case.name));
    let counts: Vec<_> =
        chosen.map(|(at, case)| coverage::count(case, at, 500..508, 2).remove(0)).collect();
    assert_eq!(counts.len(), quick.len());
    assert!(counts.iter().all(|count| count.precise == count.runs), "{counts:?}");
    let held: u64 = counts.iter().map(|count| count.held).sum();
    assert!(held >= 69, "{held} of 80 hold the truth: {counts:?}");
}
