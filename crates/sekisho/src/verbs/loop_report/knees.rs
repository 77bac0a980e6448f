//! Section of the page on a search for a knee: its probes against their rates, and the runs at its ends.

use cli::knee::word;
use measure::knee::Outcome;
use measure::{KneeRecord, ProbeRecord, RunRecord};
use report::{Axis, Cell, Column, Curves, Figure, Plot, Reference, Section, Series, Table};

use super::Broken;
use super::measured::quantile_of;

/// A search for a knee.
pub(super) fn section(knee: &KneeRecord) -> Result<Section, Broken> {
    let mut section = Section::new(format!("Knee of {}", knee.limit.text));
    if let Some(figure) = figure(knee)? {
        section = section.figure(figure);
    }
    if !knee.ends.is_empty() {
        section = section.table(ends(knee)?);
    }
    Ok(section.table(probes(knee)?))
}

/// Each outcome a series of dots: the quantile of a probe at its rate.
fn figure(knee: &KneeRecord) -> Result<Option<Figure>, Broken> {
    let name = format!("p{}", percent(knee.limit.quantile));
    let mut curves =
        Curves::new(Axis::log("Arrivals", "1/s"), Axis::log(format!("Response, {name}"), "ms"));
    let mut drawn = 0;
    let told = [Outcome::Holds, Outcome::Fails, Outcome::Straddles, Outcome::TooFew];
    for (hue, outcome) in told.into_iter().enumerate() {
        let dot = |probe: &ProbeRecord| {
            let seen = probe.seen.as_ref()?;
            let value = seen.quantile_s.filter(|value| *value > 0.0)?;
            let interval = seen.interval_s.filter(|[low, _]| *low > 0.0);
            Some((probe.probe.rate, value * 1e3, interval.map(|ends| ends.map(|end| end * 1e3))))
        };
        let of = knee.probes.iter().filter(|probe| probe.outcome == outcome);
        let dots: Vec<_> = of.filter_map(dot).collect();
        if !dots.is_empty() {
            drawn += dots.len();
            curves = curves.series(Series::estimated(word(outcome), dots).hue(hue as u8));
        }
    }
    if drawn < 2 {
        // A figure of one dot is a number, and stands in the table.
        return Ok(None);
    }
    curves = curves.reference(Reference::y("limit", knee.limit.response_s * 1e3));
    let (low, high) = knee.knee.ends();
    let believed = knee.believed();
    for (name, end, believed) in
        [("holds at", low, believed.low), ("fails at", high, believed.high)]
    {
        if let Some(end) = end {
            let once = if believed == Some(end) { "" } else { " (seen once)" };
            curves = curves.reference(Reference::x(format!("{name}{once}"), end));
        }
    }
    let caption = "Each dot is a probe: the quantile of its good answers, with its 95 % interval where it is known. \
                   A request that failed counts as late for the outcome, and has no response time.";
    let title = format!("Response against arrivals, {} probes", knee.probes.len());
    Ok(Some(Figure::new(title, caption, Plot::Curves(curves))?))
}

/// The runs at both ends.
fn ends(knee: &KneeRecord) -> Result<Table, Broken> {
    let runs: Vec<RunRecord> = knee.ends.iter().cloned().map(RunRecord::from).collect();
    // A short probe tells no p99, and a column of nothing is none.
    let told: Vec<(&str, f64)> = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)]
        .into_iter()
        .filter(|(_, q)| runs.iter().any(|run| quantile_of(run, *q).is_some()))
        .collect();
    let mut columns = vec![Column::plain("limit"), Column::new("arrivals", "1/s")];
    columns.push(Column::new("throughput", "1/s"));
    columns.push(Column::new("mean", "ms"));
    columns.extend(told.iter().map(|(of, _)| Column::new(*of, "ms")));
    columns.push(Column::new("errors", "%"));
    let rows = runs.iter().map(|run| {
        let all = run.judge(0.95).all;
        let asked = all.failed() + all.completed;
        let mean = all.response.as_ref().map(|response| response.mean);
        let cell =
            |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value * 1e3));
        let mut row = vec![
            Cell::Text(of_end(run).into()),
            rate_of(run).map_or(Cell::Empty, Cell::Number),
            Cell::Number(all.throughput.mean),
            cell(mean),
        ];
        row.extend(told.iter().map(|(_, q)| cell(quantile_of(run, *q))));
        row.push(match asked {
            0 => Cell::Empty,
            asked => Cell::Number(100.0 * all.failed() as f64 / asked as f64),
        });
        row
    });
    let caption = "The runs that decided the ends at last, warm-up left out";
    Ok(Table::new(caption, columns).stacked().rows(rows)?)
}

/// Outcome of the run at an end, by its name.
fn of_end(run: &RunRecord) -> &'static str {
    match run.header.id.ends_with("-holds") {
        true => word(Outcome::Holds),
        false => word(Outcome::Fails),
    }
}

fn rate_of(run: &RunRecord) -> Option<f64> {
    match advise::load_of(run) {
        advise::Load::Rate(rate) => Some(rate),
        advise::Load::Clients(_) => None,
    }
}

fn probes(knee: &KneeRecord) -> Result<Table, Broken> {
    let mut columns = vec![
        Column::plain("probe"),
        Column::new("arrivals", "1/s"),
        Column::plain(knee.limit.text.clone()),
        Column::plain("late"),
        Column::plain("of"),
    ];
    // A phone has no room for a column of nothing.
    let has_failed =
        knee.probes.iter().filter_map(|one| one.seen.as_ref()).any(|seen| seen.failed > 0);
    if has_failed {
        columns.push(Column::plain("failed"));
    }
    let rows = knee.probes.iter().enumerate().map(|(at, probe)| {
        let seen = |of: fn(&measure::Seen) -> u64| {
            probe.seen.as_ref().map_or(Cell::Empty, |seen| Cell::Number(of(seen) as f64))
        };
        let mut row = vec![
            Cell::Text((at + 1).to_string()),
            Cell::Number(probe.probe.rate),
            Cell::Text(word(probe.outcome).into()),
            seen(|seen| seen.late),
            seen(|seen| seen.answered),
        ];
        row.extend(has_failed.then(|| seen(|seen| seen.failed)));
        row
    });
    let caption = "Every probe, in its order, warm-up left out: requests that took longer than the limit, of those that \
                   were answered well. A server that is far behind fails by requests that had no answer yet";
    Ok(Table::new(caption, columns).rows(rows)?)
}

/// A quantile as people say it.
fn percent(quantile: f64) -> f64 {
    (quantile * 1e6).round() / 1e4
}
