//! The page of several runs: without waits, throughput and response against connections; paced,
//! response and the rate of a warehouse against warehouses.

use std::collections::BTreeMap;

use ::tpcc::{Outcome, Pace, Record};
use cli::text::count;
use report::{
    Axis, Cell, Column, Curves, Figure, FigureError, Reference, Report, Section, Series, Table,
};
use workload::tpcc::Kind;

use super::one::{BAND, settings};
use super::{Broken, Run, command, facts};
use crate::terminals::{outcome_text, per_minute};

/// A number of a run, `None` where it has none.
type Of = fn(&Record) -> Option<f64>;

pub(super) fn headline(runs: &[Run]) -> String {
    let whole: Vec<&Run> = runs.iter().filter(|run| run.is_whole()).collect();
    let rate = |run: &&Run| run.judged.new_orders_per_minute.mean;
    let paced = runs.iter().all(|run| run.kept.record.plan.pace == Pace::Paced);
    // What was measured for as long as the specification asks for comes first.
    let passed = || {
        let best = |passes: fn(&Outcome) -> bool| {
            let passed = whole.iter().copied().filter(|run| passes(&run.judged.outcome));
            passed.max_by(|one, two| rate(one).total_cmp(&rate(two)))
        };
        best(|outcome| *outcome == Outcome::Qualified)
            .or_else(|| best(|outcome| matches!(outcome, Outcome::Meets { .. })))
    };
    let runs = count(runs.len() as u64, "run");
    let most = whole.iter().copied().max_by(|one, two| rate(one).total_cmp(&rate(two)));
    match (paced, passed(), most) {
        (true, Some(best), _) => format!(
            "{}: {} at {}, the most of {runs}",
            outcome_text(&best.judged.outcome),
            per_minute(&best.judged),
            count(best.kept.record.plan.warehouses.into(), "warehouse"),
        ),
        (true, None, Some(_)) => format!("none of {runs} meets the rules"),
        (false, _, Some(best)) => format!(
            "{}: at most {} with {}, of {runs}",
            outcome_text(&best.judged.outcome),
            per_minute(&best.judged),
            count(best.kept.record.plan.connections.into(), "connection"),
        ),
        (_, _, None) => format!("invalid: none of {runs} came to its end"),
    }
}

pub(super) fn build(report: Report, runs: &[Run]) -> Result<Report, Broken> {
    let Some(first) = runs.first() else { return Ok(report) };
    let mut report = report;
    for different in differences(runs) {
        report = report.lead(different);
    }
    let plan = &first.kept.record.plan;
    report = report.fact("runs", runs.len().to_string(), "");
    if plan.pace == Pace::Stress {
        report = report.fact("warehouses", plan.warehouses.to_string(), "");
    }
    report = facts(report, &first.kept).fact("command of the first", command(&first.kept), "");
    let whole: Vec<&Run> = runs.iter().filter(|run| run.is_whole()).collect();
    if !whole.is_empty() {
        report = report.section(match plan.pace {
            Pace::Stress => against_connections(&whole)?,
            Pace::Paced | Pace::Hastened(_) => against_warehouses(&whole)?,
        });
    }
    report = report.section(tables(runs)?).section(settings(&first.kept.record)?);
    let files: Vec<String> =
        runs.iter().map(|run| format!(".sekisho/runs/{}.tpcc.json", run.kept.id)).collect();
    let each = files.first().map_or("", String::as_str);
    Ok(report.section(
        Section::new("Next").command("All of one run:", format!("sekisho tpcc report {each}")),
    ))
}

/// In what the runs differ that no axis shows: a reader must not take it for the load's effect.
fn differences(runs: &[Run]) -> Vec<String> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Run { kept, .. } in runs {
        let record = &kept.record;
        let own = [
            ("the server's version", record.server.version.clone()),
            ("TLS", record.server.tls.clone().unwrap_or_else(|| "none".into())),
            ("the host of the terminals", record.host.name.clone()),
            ("the seed of the load", record.server.load_seed.to_string()),
            ("the planned interval", format!("{:?}", record.plan.measure)),
        ];
        let settings =
            record.server.settings.iter().map(|(name, value)| (format!("`{name}`"), value.clone()));
        let own = own.into_iter().map(|(what, value)| (what.to_owned(), value));
        for (what, value) in own.chain(settings) {
            let seen = values.entry(what).or_default();
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
    }
    let different = values.into_iter().filter(|(_, values)| values.len() > 1);
    different
        .map(|(what, values)| format!("Note: the runs differ in {what}: {}.", values.join(", ")))
        .collect()
}

/// Points of the runs by x, leftmost first.
fn points(runs: &[&Run], x: fn(&Record) -> u32, y: Of) -> Vec<(f64, f64)> {
    let of = |run: &&Run| {
        let record = &run.kept.record;
        Some((f64::from(x(record)), y(record)?))
    };
    let mut points: Vec<_> = runs.iter().filter_map(of).collect();
    points.sort_by(|one, two| one.0.total_cmp(&two.0));
    points
}

/// New orders a minute with their intervals, divided by `share` of the run, by x.
fn rates(runs: &[&Run], x: fn(&Record) -> u32, share: fn(&Record) -> f64) -> Series {
    let mut points: Vec<_> = runs
        .iter()
        .map(|run| {
            let (record, estimate) = (&run.kept.record, &run.judged.new_orders_per_minute);
            let (mean, half) = (estimate.mean / share(record), estimate.half_width / share(record));
            // One that cannot be told is none, and not one of no width.
            let interval = half.is_finite().then_some([mean - half, mean + half]);
            (f64::from(x(record)), mean, interval)
        })
        .collect();
    points.sort_by(|one, two| one.0.total_cmp(&two.0));
    Series::estimated("new orders", points)
}

fn quantile_ms<const TENTHS: u32>(record: &Record) -> Option<f64> {
    let times = &record.of(Kind::NewOrder).response;
    let quantile = || times.quantile(f64::from(TENTHS) / 10.0).as_secs_f64() * 1e3;
    (!times.is_empty()).then(quantile)
}

fn mean_ms(record: &Record) -> Option<f64> {
    let times = &record.of(Kind::NewOrder).response;
    (!times.is_empty()).then(|| times.mean_s() * 1e3)
}

/// Curves of New-Order's response; a curve without a point is left out.
fn responses(mut curves: Curves, runs: &[&Run], x: fn(&Record) -> u32) -> Curves {
    let all: [(&str, Of); 3] =
        [("p50", quantile_ms::<5>), ("mean", mean_ms), ("p90", quantile_ms::<9>)];
    for (name, of) in all {
        let found = points(runs, x, of);
        if !found.is_empty() {
            curves = curves.series(Series::dots(name, found));
        }
    }
    curves
}

fn against_connections(runs: &[&Run]) -> Result<Section, Broken> {
    let connections: fn(&Record) -> u32 = |record| record.plan.connections;
    let axis = || Axis::linear("Connections", "");
    let throughput = Curves::new(axis(), Axis::linear("New orders per minute", "")).series(rates(
        runs,
        connections,
        |_| 1.0,
    ));
    let mut section =
        Section::new("Throughput and response against connections").figure(Figure::new(
            "Throughput against connections",
            "Dots are runs without waits, with 95 % intervals over their seconds where they can be told.",
            throughput,
        )?);
    let curves =
        responses(Curves::new(axis(), Axis::linear("Response time", "ms")), runs, connections);
    if !curves.series.is_empty() {
        section = section.figure(Figure::new(
            "Response of New-Order against connections",
            "A closed load: what does not add throughput waits.",
            curves,
        )?);
    }
    let retries: Of = |record| {
        let retries: u64 = record.kinds.iter().map(|kind| kind.retries).sum();
        let all = record.completed();
        (all > 0).then(|| retries as f64 / all as f64 * 100.0)
    };
    let found = points(runs, connections, retries);
    if !found.is_empty() {
        let curves = Curves::new(axis(), Axis::linear("Retries", "of 100 transactions"))
            .series(Series::dots("retries", found));
        section = section.figure(Figure::new(
            "Conflicts against connections",
            "Tries that came into conflict and were repeated: work that brings no throughput.",
            curves,
        )?);
    }
    Ok(section)
}

fn against_warehouses(runs: &[&Run]) -> Result<Section, Broken> {
    let warehouses: fn(&Record) -> u32 = |record| record.plan.warehouses;
    let axis = || Axis::linear("Active warehouses", "");
    let mut rate = Curves::new(axis(), Axis::linear("New orders per minute and warehouse", ""))
        .series(rates(runs, warehouses, |record| f64::from(record.plan.warehouses)));
    // Hastened runs on one page are all hastened alike.
    let by = match runs[0].kept.record.plan.pace {
        Pace::Hastened(by) => f64::from(by.get()),
        _ => 1.0,
    };
    for (name, edge) in BAND {
        rate = rate.reference(Reference::y(name, edge * by));
    }
    let mut section = Section::new("Response and rate against warehouses");
    let limit = Kind::NewOrder.rules().response_max.as_secs_f64();
    if let Some(figure) = p90s(axis(), runs, warehouses)? {
        section = section.figure(figure);
    }
    let curves =
        responses(Curves::new(axis(), Axis::linear("Response time", "ms")), runs, warehouses);
    if !curves.series.is_empty() {
        let caption = format!("The limit on p90 is {limit} s.");
        section = section.figure(Figure::new("Response of New-Order", caption, curves)?);
    }
    section = section.figure(Figure::new(
        "New orders a minute and warehouse",
        "Dots are runs, with 95 % intervals where they can be told; a valid configuration lies between \
         the lines.",
        rate,
    )?);
    Ok(section)
}

/// The 90th percentile of every kind; `None` where nothing was answered.
fn p90s(axis: Axis, runs: &[&Run], x: fn(&Record) -> u32) -> Result<Option<Figure>, FigureError> {
    let mut curves = Curves::new(axis, Axis::log("p90 of the response time", "ms"));
    for kind in Kind::ALL {
        let mut found: Vec<_> = runs
            .iter()
            .map(|run| &run.kept.record)
            .map(|record| {
                let p90 = record.of(kind).response.quantile(0.9);
                (f64::from(x(record)), p90.as_secs_f64() * 1e3)
            })
            .filter(|&(_, p90)| p90 > 0.0)
            .collect();
        found.sort_by(|one, two| one.0.total_cmp(&two.0));
        if !found.is_empty() {
            curves = curves.series(Series::dots(kind.name(), found));
        }
    }
    if curves.series.is_empty() {
        return Ok(None);
    }
    for (name, limit) in [("limit: 5 s", 5e3), ("limit of Stock-Level: 20 s", 20e3)] {
        curves = curves.reference(Reference::y(name, limit));
    }
    let caption = "Each kind has a limit on its 90th percentile.";
    Figure::new("p90 of every kind against warehouses", caption, curves).map(Some)
}

/// Results of every run, and how it was made.
fn tables(runs: &[Run]) -> Result<Section, Broken> {
    let columns = [
        Column::plain("run"),
        Column::plain("warehouses"),
        Column::plain("connections"),
        Column::plain("new orders a minute"),
        Column::new("p50", "ms"),
        Column::new("p90", "ms"),
        Column::plain("retries"),
        Column::plain("finding"),
    ];
    let mut found = Table::new("What came of every run; the times are of New-Order", columns);
    let columns = [
        Column::plain("run"),
        Column::plain("begun"),
        Column::new("measured", "s"),
        Column::plain("refused"),
        Column::new("client", "% of a processor"),
        Column::plain("seed"),
    ];
    let mut made = Table::new("How every run was made", columns);
    for Run { kept, judged, .. } in runs {
        let (record, estimate) = (&kept.record, &judged.new_orders_per_minute);
        let (plan, client) = (&record.plan, &record.client);
        let rate = Cell::non_negative(estimate.mean, estimate.half_width);
        let of = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Number);
        let retries: u64 = record.kinds.iter().map(|kind| kind.retries).sum();
        found = found.row([
            Cell::from(kept.id.as_str()),
            Cell::Number(plan.warehouses.into()),
            Cell::Number(plan.connections.into()),
            rate,
            of(quantile_ms::<5>(record)),
            of(quantile_ms::<9>(record)),
            Cell::Number(retries as f64),
            Cell::from(outcome_text(&judged.outcome)),
        ])?;
        let share = client.cpu_s / client.elapsed_s * 100.0;
        made = made.row([
            Cell::from(kept.id.as_str()),
            Cell::from(kept.started.as_str()),
            Cell::Number(record.measured_s),
            Cell::Number(record.errors.values().sum::<u64>() as f64),
            of((client.elapsed_s > 0.0).then_some(share)),
            Cell::Text(plan.seed.to_string()),
        ])?;
    }
    Ok(Section::new("The runs").table(found).table(made))
}
