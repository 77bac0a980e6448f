//! The page of one run, in the order in which the specification's report has it (8.1.6).

use ::tpcc::{Check, Finding, MEASURE_LEAST, Outcome, Pace, Record, SESSION_SETTINGS};
use cli::text::{count, time};
use databases::DatabaseArgs;
use measure::Histogram;
use report::{Axis, Cell, Column, Curves, Figure, Reference, Report, Section, Series, Table};
use workload::tpcc::{Kind, rules};

use super::times::{self, Limit};
use super::{Broken, Run, command, facts};

/// No figure of throughput has many more points than this.
const POINTS: usize = 240;
/// No point of it stands for a longer time \[s\] (8.1.6.10).
const POINT_MAX_S: f64 = 30.0;
/// New-Orders a minute and warehouse between which a valid configuration lies (4.2.2).
pub(super) const BAND: [(&str, f64); 2] = [("9 a warehouse", 9.0), ("12.86 a warehouse", 12.86)];

pub(super) fn build(report: Report, run: &Run) -> Result<Report, Broken> {
    let (kept, record) = (&run.kept, &run.kept.record);
    let plan = &record.plan;
    let mut report = report
        .fact("run", kept.id.clone(), "")
        .fact("begun", kept.started.clone(), "")
        .fact("warehouses", plan.warehouses.to_string(), "")
        .fact("terminals", plan.terminals().to_string(), "")
        .fact("connections", plan.connections.to_string(), "")
        .fact("measured", format!("{:.1}", record.measured_s), "s");
    report = facts(report, kept).fact("command", command(kept), "");
    report = report
        .section(throughput(run)?)
        .section(Section::new("Transactions").table(transactions(record)?).paragraph(beside(run)))
        .section(responses(record)?);
    if plan.pace.waits() {
        report = report.section(waits(record)?);
    }
    Ok(report
        .section(judged(run)?)
        .section(settings(record)?)
        .section(client(record)?)
        .section(next(run)))
}

/// New orders over the whole run, the ramp included.
fn throughput(run: &Run) -> Result<Section, Broken> {
    let record = &run.kept.record;
    let section = Section::new("New orders over time");
    let points = over_time(record);
    if points.is_empty() {
        return Ok(section.paragraph(format!(
            "The run ended before its first {:?} were over: there is nothing to draw.",
            record.plan.bucket()
        )));
    }
    let (begin, end) = interval(record);
    let (unit, scale) = if end > 600.0 { ("min", 1.0 / 60.0) } else { ("s", 1.0) };
    let axis = Axis::linear("Time since the run began", unit);
    let mean = run.judged.new_orders_per_minute.mean;
    let seen = checkpoints(record);
    let mut curves = Curves::new(axis, Axis::linear("New orders per minute", ""))
        .series(Series::line("new orders", points.iter().map(|&(at, rate)| (at * scale, rate))));
    if end > begin {
        let ends = [(begin * scale, mean), (end * scale, mean)];
        curves = curves.series(Series::dashed("mean of the interval", ends));
    }
    if !seen.is_empty() {
        // On the line, where the nearest point of it is.
        let on = |at: f64| {
            let near = points.iter().min_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs()));
            (at * scale, near.map_or(mean, |&(_, rate)| rate))
        };
        curves = curves.series(Series::dots("checkpoint begun", seen.iter().map(|&at| on(at))));
    }
    curves = curves
        .reference(Reference::x("measured from here", begin * scale))
        .reference(Reference::x("to here", end * scale));
    if record.plan.pace == Pace::Paced {
        for (name, rate) in BAND {
            curves = curves.reference(Reference::y(name, rate * f64::from(record.plan.warehouses)));
        }
    }
    let each =
        points.get(1).map_or(record.plan.bucket().as_secs_f64(), |next| next.0 - points[0].0);
    let checkpoints = match seen.len() {
        0 => "no checkpoint was seen to begin".to_owned(),
        count => format!("{count} checkpoints were seen to begin, to within five seconds"),
    };
    let caption = format!("A point every {each:.0} s, the ramp-up included; {checkpoints}.");
    Ok(section.figure(Figure::new("New orders over time", caption, curves)?))
}

/// When it was measured, since the run began \[s\].
fn interval(record: &Record) -> (f64, f64) {
    let begin = record.plan.ramp.as_secs_f64();
    (begin, begin + record.measured_s.max(0.0))
}

/// The middle of each stretch of time \[s\], and its rate \[1/min\].
fn over_time(record: &Record) -> Vec<(f64, f64)> {
    let bucket = record.plan.bucket().as_secs_f64();
    let most = ((POINT_MAX_S / bucket) as usize).max(1);
    let together = record.new_orders.len().div_ceil(POINTS).clamp(1, most);
    let chunks = record.new_orders.chunks(together).enumerate();
    let points = chunks.map(|(nth, counts)| {
        let length = counts.len() as f64 * bucket;
        let begin = (nth * together) as f64 * bucket;
        (begin + length / 2.0, counts.iter().sum::<u64>() as f64 * 60.0 / length)
    });
    points.collect()
}

/// When checkpoints were seen to have begun \[s\].
fn checkpoints(record: &Record) -> Vec<f64> {
    let total = |seen: &::tpcc::Checkpoints| seen.timed + seen.requested;
    let pairs = record.checkpoints.windows(2);
    pairs.filter(|pair| total(&pair[1]) > total(&pair[0])).map(|pair| pair[1].at_s).collect()
}

fn ms(seconds: f64) -> Cell {
    Cell::Number(seconds * 1e3)
}

/// The times of a row, empty where there are none: least, mean, p50, p90, most \[ms\].
fn times_of(times: &Histogram) -> [Cell; 5] {
    if times.is_empty() {
        return [const { Cell::Empty }; 5];
    }
    let quantile = |q| ms(times.quantile(q).as_secs_f64());
    let (min, max) = (times.min().as_secs_f64(), times.max().as_secs_f64());
    [ms(min), ms(times.mean_s()), quantile(0.5), quantile(0.9), ms(max)]
}

fn number(count: u64) -> Cell {
    Cell::Number(count as f64)
}

fn transactions(record: &Record) -> Result<Table, Broken> {
    let columns = [
        Column::plain("transaction"),
        Column::plain("done"),
        Column::new("mix", "%"),
        Column::new("least", "ms"),
        Column::new("mean", "ms"),
        Column::new("p50", "ms"),
        Column::new("p90", "ms"),
        Column::new("most", "ms"),
        Column::new("limit on p90", "s"),
        Column::plain("retries"),
        Column::plain("failed"),
        Column::plain("unfinished"),
    ];
    let caption = "Inside the measurement interval; response times from the moment at which a \
                   terminal means to send, with the wait for a connection and all retries";
    let mut table = Table::new(caption, columns);
    let all = record.completed();
    for kind in Kind::ALL {
        let of = record.of(kind);
        let mix = match all {
            0 => Cell::Empty,
            all => Cell::Number(of.completed as f64 / all as f64 * 100.0),
        };
        let head = [Cell::from(kind.name()), number(of.completed), mix];
        let limit = Cell::Number(kind.rules().response_max.as_secs_f64());
        let tail = [limit, number(of.retries), number(of.failed), number(of.unfinished)];
        table = table.row(head.into_iter().chain(times_of(&of.response)).chain(tail))?;
    }
    if record.plan.pace == Pace::Stress {
        return Ok(table);
    }
    let deferred = &record.deferred;
    let others = [
        ("menu", &record.menu, rules::MENU_RESPONSE_MAX, Cell::Empty, Cell::Empty),
        (
            "Delivery, deferred",
            &deferred.times,
            rules::DELIVERY_DONE_MAX,
            number(deferred.failed),
            number(deferred.unfinished),
        ),
    ];
    for (name, times, limit, failed, open) in others {
        let head = [Cell::from(name), number(times.len()), Cell::Empty];
        let tail = [Cell::Number(limit.as_secs_f64()), Cell::Empty, failed, open];
        table = table.row(head.into_iter().chain(times_of(times)).chain(tail))?;
    }
    Ok(table)
}

/// Text on what the table of transactions does not say.
fn beside(run: &Run) -> String {
    let record = &run.kept.record;
    let retries: u64 = record.kinds.iter().map(|kind| kind.retries).sum();
    let skipped = match record.plan.pace {
        Pace::Paced | Pace::Hastened(_) => format!(
            " Deliveries skipped {} districts that had no order to deliver.",
            record.deferred.skipped
        ),
        Pace::Stress => String::new(),
    };
    format!(
        "{retries} tries came into conflict and were repeated with the same inputs. {} of the New-Orders \
         were rolled back, which counts as done.{skipped}",
        record.inputs.rollbacks
    )
}

/// Section on the distribution of the response times.
fn responses(record: &Record) -> Result<Section, Broken> {
    let mut section = Section::new("Response times");
    let mut all: Vec<(&str, &Histogram, Limit)> = Kind::ALL
        .iter()
        .map(|&kind| {
            (kind.name(), &record.of(kind).response, Limit::on_p90(kind.rules().response_max))
        })
        .collect();
    if record.plan.pace == Pace::Paced {
        let done = Limit::on_p90(rules::DELIVERY_DONE_MAX);
        all.push(("Delivery, deferred", &record.deferred.times, done));
        all.push(("menu", &record.menu, Limit::on_p90(rules::MENU_RESPONSE_MAX)));
    }
    let names = all.iter().map(|&(name, times, _)| (name, times));
    if let Some(figure) = times::by_quantile("Response by quantile", names)? {
        section = section.figure(figure);
    }
    for (name, times, limit) in all {
        section = match times::frequency(&format!("Response time of {name}"), times, limit)? {
            Some(figure) => section.figure(figure),
            None => section.paragraph(format!("{name}: none was answered inside the interval.")),
        };
    }
    Ok(section)
}

/// Keying and think times as they were waited, beside what is asked for.
fn waits(record: &Record) -> Result<Section, Broken> {
    let shortened = match record.plan.pace {
        Pace::Hastened(by) => by.get(),
        Pace::Paced | Pace::Stress => 1,
    };
    let columns = [
        Column::plain("transaction"),
        Column::new("keying asked", "s"),
        Column::new("least", "s"),
        Column::new("mean", "s"),
        Column::new("most", "s"),
        Column::new("mean think asked", "s"),
        Column::new("least think", "s"),
        Column::new("mean think", "s"),
        Column::new("most think", "s"),
        Column::plain("counted"),
    ];
    let mut caption = String::from("As they were waited: keying constant, thinking exponential");
    if shortened > 1 {
        caption += &format!("; this run divided by {shortened} what is asked for");
    }
    let mut table = Table::new(caption, columns);
    let spread = |times: &Histogram| match times.is_empty() {
        true => [const { Cell::Empty }; 3],
        false => [times.min().as_secs_f64(), times.mean_s(), times.max().as_secs_f64()]
            .map(|seconds| Cell::Number(three_digits(seconds))),
    };
    for kind in Kind::ALL {
        let of = record.of(kind);
        let asked = kind.rules();
        let row = [Cell::from(kind.name()), Cell::Number(asked.keying.as_secs_f64())]
            .into_iter()
            .chain(spread(&of.keying))
            .chain([Cell::Number(asked.think_mean.as_secs_f64())])
            .chain(spread(&of.think))
            .chain([number(of.think.len())]);
        table = table.row(row)?;
    }
    let section = Section::new("Keying and think times").table(table);
    let order = record.of(Kind::NewOrder);
    let mean = Kind::NewOrder.rules().think_mean / shortened;
    Ok(match times::think("Think time of New-Order", &order.think, mean)? {
        Some(figure) => section.figure(figure),
        None => section.paragraph("No terminal thought about a New-Order inside the interval."),
    })
}

/// A number of a histogram, which knows no more than three digits.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(2.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

/// The rules with what became of them, and how the run deviates.
fn judged(run: &Run) -> Result<Section, Broken> {
    let columns = ["rule", "clause", "finding", "measured"].map(Column::plain);
    let caption = "A rule is met inside of what it allows, violated outside; of a number that chance \
                   makes there are too few where right terminals would miss its bound too often: no more \
                   than one of twenty of their runs is said to deviate, by whichever rule";
    let mut table = Table::new(caption, columns);
    for Check { rule, clause, finding, measured } in &run.judged.checks {
        let finding = match finding {
            Finding::Met => "\u{2713} met".to_owned(),
            Finding::Violated => "\u{2717} VIOLATED".to_owned(),
            Finding::TooFew { needs } => format!("? too few, needs {needs}"),
        };
        let cells = [rule.as_str(), clause, &finding, measured.as_str()];
        table = table.row(cells.map(Cell::from))?;
    }
    let mut deviations = Table::new(
        "What the run did otherwise than the specification asks",
        [Column::plain("deviation")],
    );
    for deviation in &run.judged.deviations {
        deviations = deviations.row([Cell::from(deviation.as_str())])?;
    }
    Ok(Section::new("The rules, and how the run deviates").table(table).table(deviations))
}

/// Settings of the server and of the sessions of the terminals.
pub(super) fn settings(record: &Record) -> Result<Section, Broken> {
    let columns = ["setting", "value", "of"].map(Column::plain);
    let mut table = Table::new("What decides the worth of a result", columns);
    for (name, value) in &record.server.settings {
        table = table.row([name.as_str(), value, "server"].map(Cell::from))?;
    }
    for (name, value) in SESSION_SETTINGS {
        table = table.row([name, value, "sessions of the terminals"].map(Cell::from))?;
    }
    Ok(Section::new("Settings").table(table))
}

/// Cost of the terminals themselves, and their lateness.
fn client(record: &Record) -> Result<Section, Broken> {
    let client = &record.client;
    let mut rows = vec![("transactions performed", client.transactions.to_string())];
    if client.elapsed_s > 0.0 {
        let share = client.cpu_s / client.elapsed_s * 100.0;
        rows.push(("processor time", format!("{}, {share:.1} % of one", time(client.cpu_s))));
    }
    if client.transactions > 0 {
        let each = client.cpu_s / client.transactions as f64;
        rows.push(("the same, a transaction", time(each)));
    }
    if !client.lag.is_empty() {
        let late = |q| time(client.lag.quantile(q).as_secs_f64());
        let most = time(client.lag.max().as_secs_f64());
        rows.push(("late, median, p99, most", format!("{}, {}, {most}", late(0.5), late(0.99))));
    }
    let columns = ["terminals", "measured"].map(Column::plain);
    let mut table = Table::new("What the terminals cost and how late they acted", columns);
    for (what, value) in rows {
        table = table.row([Cell::from(what), Cell::Text(value)])?;
    }
    let mut section = Section::new("The terminals").table(table);
    if !record.errors.is_empty() {
        let columns = ["SQLSTATE", "transactions"].map(Column::plain);
        let mut table = Table::new("What the database refused, in the whole run", columns);
        for (code, refused) in &record.errors {
            table = table.row([Cell::from(code.as_str()), number(*refused)])?;
        }
        section = section.table(table);
    }
    if let Some(first) = &record.error_first {
        section = section.paragraph(format!("The first that was refused: {first}"));
    }
    Ok(section)
}

fn next(run: &Run) -> Section {
    let plan = &run.kept.record.plan;
    let minutes = MEASURE_LEAST.as_secs() / 60;
    let (label, command) = match &run.judged.outcome {
        Outcome::Hastened => (
            "As people wait:".to_owned(),
            format!("sekisho tpcc run --warehouses {}", plan.warehouses),
        ),
        Outcome::NoWaits => (
            "Where more connections stop to help:".to_owned(),
            format!(
                "sekisho tpcc stress --warehouses {} --connections 1,2,4,8,16",
                plan.warehouses
            ),
        ),
        Outcome::Qualified | Outcome::Meets { .. } => (
            format!("Whether more than {} hold:", count(plan.warehouses.into(), "warehouse")),
            format!(
                "sekisho tpcc run --warehouses {} --measure {minutes}min",
                plan.warehouses.saturating_mul(2)
            ),
        ),
        _ => (
            format!("For {minutes} minutes, by the rules:"),
            format!(
                "sekisho tpcc run --warehouses {} --measure {minutes}min",
                plan.warehouses.max(10)
            ),
        ),
    };
    let database = DatabaseArgs::typed(&run.kept.command);
    Section::new("Next").command(label, database.again(&command))
}
