//! The measured part of the page: every run with its quantiles, errors and limits, and how it went over
//! time.

use cli::text::untold;
use expectations::Outcome;
use measure::{Histogram, Interval, LoadShape, RunRecord};
use report::{Axis, Cell, Column, Curves, Figure, Plot, Section, Series, Table};

use super::{Broken, Judged, load_text};

/// A run held against one limit.
pub(crate) struct Held {
    /// The run's id.
    pub(crate) run: String,
    /// The limit as it was written.
    pub(crate) limit: String,
    pub(crate) outcome: Outcome,
}

impl Held {
    /// Finding without the limit before it.
    fn finding(&self) -> &str {
        let line = &self.outcome.line;
        line.strip_prefix(&format!("{}: ", self.limit)).unwrap_or(line)
    }
}

/// Fewer responses beyond a quantile do not tell it.
const BEYOND_MIN: f64 = 10.0;
/// Runs that one figure over time can tell apart.
const RUNS_MAX: usize = 6;

/// All runs in numbers, and what they were held against.
pub(super) fn numbers(judged: &Judged<'_>, held: &[Held]) -> Result<Section, Broken> {
    let columns = [
        Column::plain("load"),
        Column::new("throughput", "1/s"),
        Column::new("mean", "ms"),
        Column::new("p50", "ms"),
        Column::new("p95", "ms"),
        Column::new("p99", "ms"),
        Column::new("errors", "%"),
        Column::plain("run"),
    ];
    let interval = |of: &measure::Estimate, factor: f64| {
        Cell::non_negative(of.mean * factor, of.half_width * factor)
    };
    let rows = judged.iter().map(|(run, judgement)| {
        let all = &judgement.all;
        let total = responses(run.steady());
        let failed = all.failed();
        let asked = failed + all.completed;
        let quantile =
            |q| quantile(&total, q).map_or(Cell::Empty, |value| Cell::Number(value * 1e3));
        vec![
            Cell::Text(load(run)),
            interval(&all.throughput, 1.0),
            all.response.as_ref().map_or(Cell::Empty, |mean| interval(mean, 1e3)),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            match asked {
                0 => Cell::Empty,
                asked => Cell::Number(100.0 * failed as f64 / asked as f64),
            },
            Cell::Text(run.header.id.clone()),
        ]
    });
    let table = Table::new("Every run, warm-up left out; intervals are of 95 %", columns)
        .stacked()
        .rows(rows)?;
    let mut section = Section::new("What was measured").table(table);
    if !held.is_empty() {
        let columns =
            ["limit", "verdict", "finding", "run"].map(|name| Column::plain(name.to_owned()));
        let rows = held.iter().map(|held| {
            vec![
                Cell::Text(held.limit.clone()),
                Cell::Outcome(held.outcome.verdict.into()),
                Cell::Text(held.finding().to_owned()),
                Cell::Text(held.run.clone()),
            ]
        });
        section = section.table(Table::new("What was expected", columns).stacked().rows(rows)?);
    }
    Ok(section)
}

/// A load in few words, where its clients do not think.
fn load(run: &RunRecord) -> String {
    match run.header.load {
        LoadShape::Closed { think_s: 0.0, .. } => advise::load_of(run).to_string(),
        _ => load_text(run),
    }
}

/// A quantile \[s\], where enough responses lie beyond it and a histogram tells it.
fn quantile(total: &Histogram, q: f64) -> Option<f64> {
    let value = total.quantile(q).as_secs_f64();
    let known = (1.0 - q) * total.len() as f64 >= BEYOND_MIN;
    (known && value > 0.0 && untold(value).is_none()).then_some(value)
}

/// Quantile of a run \[s\], as far as its histograms tell it.
pub(super) fn quantile_of(run: &RunRecord, q: f64) -> Option<f64> {
    quantile(&responses(run.steady()), q)
}

/// Responses of all classes in these intervals.
fn responses(intervals: &[Interval]) -> Histogram {
    let mut all = Histogram::new();
    for class in intervals.iter().flat_map(|interval| &interval.classes) {
        all.merge(&class.total);
    }
    all
}

/// Throughput and response over time, warm-up included; nothing of runs of a single interval.
pub(super) fn over_time(judged: &Judged<'_>) -> Result<Option<Section>, Broken> {
    let mut throughput = Curves::new(Axis::linear("Time", "s"), Axis::linear("Throughput", "1/s"));
    let mut response = Curves::new(Axis::linear("Time", "s"), Axis::log("Response", "ms"));
    let mut drawn = (0, 0);
    let long: Vec<&RunRecord> =
        judged.iter().map(|(run, _)| *run).filter(|run| whole(run).len() > 1).collect();
    for (nth, run) in long.iter().take(RUNS_MAX).enumerate() {
        let name = name(&long, nth);
        let middle = |interval: &Interval| interval.start_s + interval.length_s / 2.0;
        let rates = whole(run).into_iter().map(|interval| {
            let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
            (middle(interval), completed as f64 / interval.length_s)
        });
        throughput = throughput.series(Series::line(name.clone(), rates).hue(nth as u8));
        drawn.0 += 1;
        for (q, word) in [(0.5, "p50"), (0.99, "p99")] {
            let points = whole(run).into_iter().filter_map(|interval| {
                let value = quantile(&responses(std::slice::from_ref(interval)), q)?;
                Some((middle(interval), value * 1e3))
            });
            let points: Vec<(f64, f64)> = points.collect();
            if points.len() > 1 {
                let series = match word {
                    "p50" => Series::line(format!("{name}, {word}"), points),
                    _ => Series::dashed(format!("{name}, {word}"), points),
                };
                response = response.series(series.hue(nth as u8));
                drawn.1 += 1;
            }
        }
    }
    if drawn.0 == 0 {
        return Ok(None);
    }
    let more = match long.len().saturating_sub(RUNS_MAX) {
        0 => String::new(),
        more => format!(" {more} more runs are not drawn."),
    };
    let warmup = long.iter().map(|run| run.header.warmup_s).fold(0.0, f64::max);
    let of_warmup = match warmup > 0.0 {
        true => {
            format!(" Up to {} it was warm-up, which counts nowhere else.", cli::text::time(warmup))
        }
        false => String::new(),
    };
    let mut section = Section::new("Over time").figure(Figure::new(
        "Throughput over time",
        format!("By interval.{of_warmup}{more}"),
        Plot::Curves(throughput),
    )?);
    if drawn.1 > 0 {
        section = section.figure(Figure::new(
            "Response over time",
            format!("Quantiles of each interval that has ten responses beyond them.{more}"),
            Plot::Curves(response),
        )?);
    }
    Ok(Some(section))
}

/// Intervals that are not a short rest.
fn whole(run: &RunRecord) -> Vec<&Interval> {
    let longest = run.intervals.iter().map(|interval| interval.length_s).fold(0.0, f64::max);
    run.intervals.iter().filter(|interval| interval.length_s > 0.5 * longest).collect()
}

/// Name of the nth of several runs: its load, told apart from earlier ones of the same.
fn name(runs: &[&RunRecord], nth: usize) -> String {
    let of = |run: &RunRecord| load(run);
    let name = of(runs[nth]);
    match runs[..nth].iter().filter(|run| of(run) == name).count() {
        0 => name,
        before => format!("{name} (run {})", before + 1),
    }
}
