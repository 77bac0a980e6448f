//! A run whose load varies, for a person and as JSON: phase by phase, without a word of a steady state.

use crate::text::{Table as Lines, filled, paragraph, rate, rate_estimate, time, time_estimate};
use measure::{Course, CurvePieces, Fault, LoadShape, PhaseJudgement, RunRecord};
use report::{Cell, Column, Outcome, Section, Table, TableError};

/// A load that varies in words.
pub fn load_text(record: &RunRecord) -> String {
    let LoadShape::Varying { course, phases, .. } = &record.header.load else {
        return String::new();
    };
    match course {
        Course::RateCurve { points, .. } => {
            let rates = points.iter().map(|(_, rate)| *rate);
            let (low, high) = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| {
                (low.min(rate), high.max(rate))
            });
            format!("open load that varies, {} to {}", rate(low), rate(high))
        }
        Course::Log { requests, speed } => {
            let length: f64 = phases.iter().map(|phase| phase.length_s).sum();
            let speed = if *speed == 1.0 { String::new() } else { format!(" at {speed} x speed") };
            format!("a log's {requests} requests in {}{speed}", time(length))
        }
    }
}

/// The first line's numbers of a load that varies: none that is of a steady state.
pub fn answered(record: &RunRecord, completed: u64, length_s: f64) -> String {
    let began = record.header.load.phases().iter();
    let asked: f64 = began.map(|phase| phase.arrivals).sum();
    format!("{completed} of about {asked:.0} requests answered in {}", time(length_s))
}

/// True if a run, and each phase of it, says something of the server.
pub fn is_valid(record: &RunRecord) -> bool {
    record.is_valid(0.95)
}

/// True if a phase says nothing of the server.
pub fn invalid(phases: &[PhaseJudgement]) -> bool {
    phases.iter().any(|phase| !phase.is_valid())
}

/// The phases as a table, and what must be known of them.
pub fn text(record: &RunRecord, phases: &[PhaseJudgement]) -> String {
    let mut table = Lines::new(&["phase", "asked", "answered", "failed", "mean", "p99"]);
    let mut notes = String::new();
    for part in phases {
        let all = &part.judgement.all;
        let quantile = |q: f64| {
            let at = all.quantiles.iter().find(|quantile| (quantile.q - q).abs() < 1e-9);
            at.and_then(|at| at.response)
                .map_or("-".into(), |value| crate::text::quantile(value.mean))
        };
        let name = match part.complete {
            true => part.phase.name.clone(),
            false => format!("{} (cut off)", part.phase.name),
        };
        table.row(vec![
            name,
            rate(part.phase.arrivals / part.phase.length_s.max(1e-9)),
            rate_estimate(&all.throughput),
            all.failed().to_string(),
            all.response.as_ref().map_or("-".into(), time_estimate),
            quantile(0.99),
        ]);
        let own = |fault: &&Fault| !matches!(fault, Fault::Generator(_));
        for fault in part.judgement.faults.iter().filter(own) {
            notes += &paragraph(&format!("invalid: phase {}: {fault}", part.phase.name));
        }
    }
    let limited = |part: &&PhaseJudgement| {
        part.judgement.faults.iter().any(|fault| matches!(fault, Fault::Generator(_)))
    };
    let limited: Vec<&PhaseJudgement> = phases.iter().filter(limited).collect();
    if let Some(first) = limited.first() {
        let names: Vec<&str> = limited.iter().map(|part| part.phase.name.as_str()).collect();
        let fault =
            first.judgement.faults.iter().find(|fault| matches!(fault, Fault::Generator(_)));
        notes += &paragraph(&format!(
            "invalid in {} of {} phases ({}), in the first because {}",
            limited.len(),
            phases.len(),
            names.join("; "),
            fault.map_or(String::new(), ToString::to_string)
        ));
    }
    let drifting: Vec<&str> = phases
        .iter()
        .filter(|part| !part.drifting.is_empty())
        .map(|part| part.phase.name.as_str())
        .collect();
    if !drifting.is_empty() {
        notes += &paragraph(&format!(
            "Not settled within their phase: {}. A mean there is one over a transient.",
            drifting.join("; ")
        ));
    }
    let missing = record.header.load.phases().len() - phases.len();
    if missing > 0 {
        let phases = if missing == 1 { "phase was" } else { "phases were" };
        notes += &paragraph(&format!("{missing} {phases} not begun."));
    }
    format!(
        "{table}\n{}{notes}{}",
        paragraph(
            "The load varies: the numbers over the whole run above are of no steady state. A request \
             counts in the phase in which it ended."
        ),
        scenario_text(record)
    )
}

/// No longer curve is printed.
const POINTS_MAX: usize = 8;

/// The load as a key of a scenario, so that the same schedule can be simulated.
fn scenario_text(record: &RunRecord) -> String {
    let LoadShape::Varying { course: Course::RateCurve { points, pieces, .. }, .. } =
        &record.header.load
    else {
        return String::new();
    };
    if points.len() > POINTS_MAX {
        return String::new();
    }
    let list: Vec<String> =
        points.iter().map(|(at, rate)| format!("[\"{at}s\", \"{rate}/s\"]")).collect();
    let list = filled("    points = [", "      ", &format!("{}]", list.join(", ")));
    let pieces = match pieces {
        CurvePieces::Constant => "",
        CurvePieces::Linear => "    pieces = \"linear\"\n",
    };
    format!(
        "  The same load in a scenario, below its class:\n    [class.rate-curve]\n{list}{pieces}"
    )
}

/// The phases as a section of a report.
///
/// # Errors
/// If a row has other cells than the table has columns.
pub fn section(record: &RunRecord) -> Result<Section, TableError> {
    let columns = [
        Column::plain("phase"),
        Column::new("asked for", "1/s"),
        Column::new("answered", "1/s"),
        Column::plain("failed"),
        Column::new("mean response", "ms"),
        Column::new("p99", "ms"),
        Column::plain("settled"),
        Column::plain("valid"),
    ];
    let rows = record.judge_phases(0.95).into_iter().map(|part| {
        let all = &part.judgement.all;
        let p99 = all.quantiles.iter().find(|quantile| (quantile.q - 0.99).abs() < 1e-9);
        let ms = |seconds: Option<f64>| seconds.map_or(Cell::Empty, |s| Cell::Number(s * 1e3));
        vec![
            Cell::Text(part.phase.name.clone()),
            Cell::Number(part.phase.arrivals / part.phase.length_s.max(1e-9)),
            Cell::Number(all.throughput.mean),
            Cell::Number(all.failed() as f64),
            ms(all.response.as_ref().map(|response| response.mean)),
            ms(p99.and_then(|quantile| quantile.response).map(|response| response.mean)),
            Cell::Text(if part.drifting.is_empty() { "yes" } else { "no" }.into()),
            Cell::Outcome(match part.is_valid() {
                true => Outcome::Holds,
                false => Outcome::Invalid,
            }),
        ]
    });
    let title = format!("{}, by phase", load_text(record));
    let table = Table::new(title, columns).rows(rows)?;
    Ok(Section::new("By phase").table(table).paragraph(format!(
        "The load of run {} varies: no number of the whole run is one of a steady state. Where a phase \
         did not settle, its numbers are means over a transient.",
        record.header.id
    )))
}
