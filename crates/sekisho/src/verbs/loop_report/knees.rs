//! Section of the page on a search for a knee: its probes against their rates, and the runs at its ends.

use cli::knee::word;
use measure::knee::Outcome;
use measure::{KneeRecord, ProbeRecord, RunRecord};
use report::{Axis, Cell, Column, Curves, Figure, Plot, Reference, Section, Series, Table};

use super::Broken;
use super::measured::quantiles_of;

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
    for (name, end) in [("holds up to", low), ("fails at", high)] {
        if let Some(end) = end {
            curves = curves.reference(Reference::x(name, end));
        }
    }
    let caption = "Each dot is a probe: the quantile of its good answers, with its 95 % interval where it is known. \
                   A request that failed counts as late for the outcome, and has no response time.";
    let title = format!("Response against arrivals, {} probes", knee.probes.len());
    Ok(Some(Figure::new(title, caption, Plot::Curves(curves))?))
}

/// The runs at both ends.
fn ends(knee: &KneeRecord) -> Result<Table, Broken> {
    let mut columns = vec![Column::plain("run"), Column::new("arrivals", "1/s")];
    columns.push(Column::new("throughput", "1/s"));
    columns.extend(["mean", "p50", "p95", "p99"].map(|of| Column::new(of, "ms")));
    columns.push(Column::new("errors", "%"));
    let rows = knee.ends.iter().map(|end| {
        let run = RunRecord::from(end.clone());
        let all = run.judge(0.95).all;
        let asked = all.failed() + all.completed;
        let mean = all.response.as_ref().map(|response| response.mean);
        let cell =
            |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value * 1e3));
        let mut row = vec![
            Cell::Text(run.header.id.clone()),
            rate_of(&run).map_or(Cell::Empty, Cell::Number),
            Cell::Number(all.throughput.mean),
            cell(mean),
        ];
        row.extend(quantiles_of(&run, [0.5, 0.95, 0.99]).map(cell));
        row.push(match asked {
            0 => Cell::Empty,
            asked => Cell::Number(100.0 * all.failed() as f64 / asked as f64),
        });
        row
    });
    let caption = "The runs that decided the ends at last, warm-up left out";
    Ok(Table::new(caption, columns).rows(rows)?)
}

fn rate_of(run: &RunRecord) -> Option<f64> {
    match advise::load_of(run) {
        advise::Load::Rate(rate) => Some(rate),
        advise::Load::Clients(_) => None,
    }
}

fn probes(knee: &KneeRecord) -> Result<Table, Broken> {
    let columns = [
        Column::plain("probe"),
        Column::new("arrivals", "1/s"),
        Column::plain(knee.limit.text.clone()),
        Column::plain("answered"),
        Column::plain("later than the limit"),
        Column::plain("failed"),
    ];
    let rows = knee.probes.iter().enumerate().map(|(at, probe)| {
        let seen = |of: fn(&measure::Seen) -> u64| {
            let count = probe.seen.as_ref().map(|seen| Cell::Text(of(seen).to_string()));
            count.unwrap_or(Cell::Empty)
        };
        vec![
            Cell::Text((at + 1).to_string()),
            Cell::Number(probe.probe.rate),
            Cell::Text(word(probe.outcome).into()),
            seen(|seen| seen.answered),
            seen(|seen| seen.late),
            seen(|seen| seen.failed),
        ]
    });
    Ok(Table::new("Every probe, in its order, warm-up left out", columns).rows(rows)?)
}

/// A quantile as people say it.
fn percent(quantile: f64) -> f64 {
    (quantile * 1e6).round() / 1e4
}
