//! The closing remark of the paper: the model for the closed benchmark. By document, at r = 1, 4 and
//! 12 helpers and 16 clients: formula, ideal simulation, fair-share simulation, measurement.

use cli::Failure;
use cli::text::percent;
use measure::Estimate;
use report::{Cell, Column, Section, Table};
use sim::StationKind;
use workload::DocumentSet;

use super::super::super::claim::{Answer, Judged, Registry};
use super::super::closed::{Loop, SHARED};
use super::Part;
use super::clients::{CARDS, cell, demand};
use super::mixes::FAIR;
use super::press::{Ask, Lab, Seen, undisturbed};
use super::sizes::Demands;

const CLIENTS: u32 = 16;
const HELPERS: [u32; 3] = [1, 4, 12];
/// Simulated requests a run.
const COMPLETIONS: u64 = 400_000;
/// Documents of the file list that are asked for often enough to be judged: up to 500 KB.
const JUDGED: usize = 4;

/// One document at one number of helpers.
struct Row {
    name: String,
    seen: u64,
    formula: f64,
    ideal: f64,
    fair: f64,
    measured: Option<Estimate>,
}

impl Row {
    /// Error of a prediction against the measurement, as a share: (low, middle, high).
    fn off(&self, predicted: f64) -> Option<(f64, f64, f64)> {
        let measured = self.measured.filter(|measured| measured.low() > 0.0)?;
        let off = |value: f64| predicted / value - 1.0;
        Some((off(measured.high()), off(measured.mean), off(measured.low())))
    }
}

/// All documents at one number of helpers.
struct Rows {
    helpers: u32,
    rows: Vec<Row>,
    /// Time added to each demand for the run's throughput \[s\].
    extra: f64,
    throughput: Estimate,
}

pub(super) fn measure(registry: &Registry, lab: &Lab, demands: &Demands) -> Result<Part, Failure> {
    let (mut all, mut runs) = (Vec::new(), Vec::new());
    for helpers in HELPERS {
        let server = lab.start(helpers, &DocumentSet::webstone())?;
        let ask = Ask {
            clients: CLIENTS,
            documents: DocumentSet::webstone(),
            length_s: 6.0 * lab.seconds,
            warmup_s: 1.5,
            deck_s: Some(CARDS * demand(demands)),
        };
        let seen = lab.press(&server, ask)?;
        drop(server);
        all.push(predict(helpers, &seen, demands, lab.seed)?);
        runs.push(seen);
    }
    let ideal = |at: usize, id: &str| undisturbed(ideal(registry, id, &all[at]), [&runs[at]]);
    let judged = vec![
        ideal(0, "live-closed-1"),
        ideal(1, "live-closed-4"),
        ideal(2, "live-closed-12"),
        undisturbed(fair(registry, &all[1..]), &runs[1..]),
    ];
    Ok(Part { judged, section: section(&all)? })
}

/// Predictions of formula and simulations for a run, of which only the throughput is taken.
fn predict(helpers: u32, seen: &Seen, demands: &Demands, seed: u64) -> Result<Rows, Failure> {
    let set = DocumentSet::webstone();
    let plain = Loop::new(CLIENTS, helpers, set.clone(), |bytes| demands.of(bytes));
    // The server is never idle, so its mean demand is the time between two departures. What that is more
    // or less than the demands one size at a time is the same for every document: one helper alone
    // closes its connections while nobody uses the processor, and more helpers make more switches.
    let extra = seen.throughput.mean.recip() - plain.demand();
    let run = |server: StationKind| Loop {
        server,
        ..Loop::new(CLIENTS, helpers, set.clone(), |bytes| (demands.of(bytes) + extra).max(0.0))
    };
    let ideal = run(SHARED);
    let formula = solve::SaturatedLoop::new(CLIENTS, helpers, ideal.demand());
    let formula = formula.map_err(Failure::defect)?;
    let shared = ideal.simulate(COMPLETIONS, seed)?;
    let fair = run(FAIR).simulate(COMPLETIONS, seed)?;
    let mut rows = Vec::new();
    for (at, document) in set.documents().iter().enumerate() {
        let simulated = |run: &super::super::closed::Simulated| {
            run.of(at).expect("a deck holds every document").mean
        };
        let given = formula.response_given(ideal.demands[at]);
        rows.push(Row {
            name: document.name.clone(),
            seen: seen.counts[at],
            formula: given.map_err(Failure::defect)?,
            ideal: simulated(&shared),
            fair: simulated(&fair),
            measured: seen.of[at],
        });
    }
    Ok(Rows { helpers, rows, extra, throughput: seen.throughput })
}

/// Answer to whether predictions are within a share of what was measured, over several rows; and
/// the worst.
fn judge_rows<'a>(
    rows: impl Iterator<Item = &'a Row>,
    of: fn(&Row) -> f64,
    within: f64,
) -> (Answer, f64, String) {
    let (mut answer, mut worst, mut of_worst) = (Answer::Yes, 0.0_f64, String::new());
    for row in rows {
        let Some((low, middle, high)) = row.off(of(row)) else {
            answer = answer.and(Answer::CannotTell);
            continue;
        };
        answer = answer.and(match () {
            () if low >= -within && high <= within => Answer::Yes,
            () if low > within || high < -within => Answer::No,
            () => Answer::CannotTell,
        });
        if middle.abs() > worst.abs() {
            (worst, of_worst) = (middle, row.name.clone());
        }
    }
    (answer, worst, of_worst)
}

fn ideal(registry: &Registry, id: &str, of: &Rows) -> Judged {
    let claim = registry.claim(id);
    let rows = &of.rows[..JUDGED];
    let (answer, worst, name) = judge_rows(rows.iter(), |row| row.formula, claim.within());
    let (_, simulated, _) = judge_rows(rows.iter(), |row| row.ideal, claim.within());
    claim
        .judge()
        .formula(percent(worst))
        .simulation(percent(simulated))
        .measured("+0 %")
        .found(format!(
            "Largest error of a prediction of a mean response time up to 500 KB (formula: {name}), r = \
             {}.",
            of.helpers
        ))
        .shape(answer)
}

fn fair(registry: &Registry, all: &[Rows]) -> Judged {
    let claim = registry.claim("live-fair-share");
    let rows = || all.iter().flat_map(|of| &of.rows[..JUDGED]);
    let (answer, worst, name) = judge_rows(rows(), |row| row.fair, claim.within());
    claim
        .judge()
        .simulation(percent(worst))
        .measured("+0 %")
        .found(format!("Largest error of a prediction ({name})."))
        .unstated(answer)
}

fn section(all: &[Rows]) -> Result<Section, Failure> {
    let mut section = Section::new("Measured: the closed form of the model").paragraph(format!(
        "Apache prefork with the file list, {CLIENTS} clients. The predictions take the demands measured \
         one size at a time, and from the run only its throughput."
    ));
    let heads = ["formula", "ideal simulation", "fair-share simulation", "measured"];
    for of in all {
        let columns = [Column::plain("document"), Column::plain("seen")]
            .into_iter()
            .chain(heads.map(|head| Column::new(head, "ms")))
            .chain(
                ["formula off", "ideal off", "fair share off"].map(|head| Column::new(head, "%")),
            );
        let caption = format!(
            "r = {}: {:.0} connections/s, {:+.0} us to each demand",
            of.helpers,
            of.throughput.mean,
            of.extra * 1e6
        );
        let mut table = Table::new(caption, columns);
        for row in &of.rows {
            let predicted = [row.formula, row.ideal, row.fair];
            let mut cells = vec![Cell::from(row.name.as_str()), Cell::from(row.seen.to_string())];
            cells.extend(predicted.map(|value| Cell::from(value * 1e3)));
            cells.push(row.measured.map_or(Cell::Empty, |measured| cell(&measured, 1e3)));
            cells.extend(predicted.map(|value| {
                row.off(value).map_or(Cell::Empty, |(_, middle, _)| Cell::from(middle * 100.0))
            }));
            table = table.row(cells).map_err(Failure::defect)?;
        }
        section = section.table(table);
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured: f64, half_width: f64, formula: f64) -> Row {
        let measured = Estimate { mean: measured, half_width, confidence: 0.95, n: 20 };
        let (ideal, fair) = (formula, formula);
        Row { name: "x".into(), seen: 9, formula, ideal, fair, measured: Some(measured) }
    }

    #[test]
    fn one_wrong_row_decides_and_one_uncertain_row_leaves_it_open() {
        let judge = |rows: &[Row]| judge_rows(rows.iter(), |row| row.formula, 0.15);
        let (answer, worst, _) = judge(&[row(1.0, 0.01, 1.1), row(2.0, 0.01, 1.9)]);
        assert_eq!(answer, Answer::Yes);
        assert!((worst - 0.1).abs() < 1e-9);
        assert_eq!(judge(&[row(1.0, 0.01, 1.1), row(1.0, 0.3, 1.1)]).0, Answer::CannotTell);
        assert_eq!(judge(&[row(1.0, 0.3, 1.1), row(1.0, 0.01, 2.2)]).0, Answer::No);
        let unseen = Row { measured: None, ..row(1.0, 0.1, 1.0) };
        assert_eq!(judge(&[unseen]).0, Answer::CannotTell);
    }
}
