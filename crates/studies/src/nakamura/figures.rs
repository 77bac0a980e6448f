//! Table 5 as a figure, and table 6.

use advise::disk_model::{PAPER_ONE, PAPER_THREE, Point, limit};
use cli::Failure;
use report::{Axis, Cell, Column, Curves, Figure, Section, Series, Table};

use super::disks::{Row, Runs, SECTORS};

/// The sections of the report that show them.
pub(super) fn sections(runs: &Runs) -> Result<Vec<Section>, Failure> {
    let section = Section::new("Tables over three disks: section 4 of the paper")
        .paragraph(format!(
            "Every time here is one of the disk model: ten terminals a warehouse, a transaction that \
             works for {} s at disks in the mean, first come, first served. That one number is fitted \
             to the three times of one disk. The times of three disks are predictions: nothing of \
             them was used but how table 6 shares out the sectors.",
            runs.demand_text()
        ))
        .figure(table_5(runs)?)
        .table(table_6()?);
    Ok(vec![section])
}

fn table_5(runs: &Runs) -> Result<Figure, Failure> {
    let printed = |points: &[(u32, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|(warehouses, p90)| (f64::from(*warehouses), *p90)).collect()
    };
    let found = |rows: &[Row]| -> Vec<(f64, f64)> {
        rows.iter().map(|row| (f64::from(row.warehouses), row.answer.p90.mean)).collect()
    };
    let warehouses = || runs.single.iter().chain(&runs.spread).map(|row| f64::from(row.warehouses));
    let span = [warehouses().fold(f64::INFINITY, f64::min), warehouses().fold(0.0, f64::max)];
    let curves = Curves::new(
        Axis::linear("Warehouses", ""),
        Axis::linear("90th percentile of New-Order", "s"),
    )
    .series(Series::line("model, one disk: fitted", found(&runs.single)))
    .series(Series::line("model, three disks: predicted", found(&runs.spread)))
    .series(Series::dots("paper, one disk", printed(&PAPER_ONE)))
    .series(Series::dots("paper, three disks", printed(&PAPER_THREE)))
    .series(Series::dashed("limit", span.map(|at| (at, limit())).to_vec()));
    Figure::new("Table 5: the 90th percentile by warehouses", caption(runs), curves)
        .map_err(Failure::defect)
}

/// Caption of the curves, in the model's numbers.
fn caption(runs: &Runs) -> String {
    let [one, three, _] = runs.valid;
    format!(
        "Within {} s the model holds {one} warehouses on one disk and {three} over three, {:.2} times as \
         many; the paper {} and {}.",
        limit(),
        f64::from(three) / f64::from(one),
        within(&PAPER_ONE),
        within(&PAPER_THREE),
    )
}

/// The most warehouses of the paper's table whose time is within the limit.
fn within(points: &[Point]) -> u32 {
    points
        .iter()
        .filter(|(_, p90)| *p90 <= limit())
        .map(|(warehouses, _)| *warehouses)
        .max()
        .unwrap_or(0)
}

fn table_6() -> Result<Table, Failure> {
    let heads = ["disk", "sectors a second", "share"].map(Column::plain);
    let mut table = Table::new("Table 6, spread, at 8 warehouses: how the model shares out", heads);
    let all: f64 = SECTORS.iter().sum();
    for (at, sectors) in SECTORS.iter().enumerate() {
        let cells = [
            (at + 1).to_string(),
            format!("{sectors:.2}"),
            format!("{:.1} %", sectors / all * 100.0),
        ];
        table = table.row(cells.map(Cell::from)).map_err(Failure::defect)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use advise::disk_model::Effort;
    use report::Report;

    use super::*;

    /// The story: a caption said "2.5 times as many" of a model that said 2.67; it was typed.
    #[test]
    fn the_caption_of_table_5_is_computed_from_the_runs_that_it_shows() {
        let mut runs = Runs::simulate(Effort { requests: 2_000, runs: 2 }, 1).unwrap();
        let printed = format!("the paper {} and {}.", within(&PAPER_ONE), within(&PAPER_THREE));
        for (one, three, times) in [(3, 8, "2.67"), (4, 10, "2.50"), (7, 7, "1.00")] {
            (runs.valid[0], runs.valid[1]) = (one, three);
            let mut report = Report::new("Table 5");
            for section in sections(&runs).unwrap() {
                report = report.section(section);
            }
            let page = report::render(&report);
            let wanted = format!(
                "Within {} s the model holds {one} warehouses on one disk and {three} over three, {times} \
                 times as many; {printed}",
                limit()
            );
            assert!(page.contains(&wanted), "{wanted}");
        }
    }
}
