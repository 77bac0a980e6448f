//! The page of the loop: what was measured, fitted, predicted and checked, as one report. Everything
//! is optional but the runs or the prediction, so that the same page serves `demo` and `report`.

use std::collections::BTreeSet;
use std::path::Path;

use advise::{Calibration, Fit, Load, Point, Prediction, Quantity, Right, Score};
use cli::{Failure, Verdict, text};
use expectations::quantity_text;
use measure::{Histogram, Judgement, KneeRecord, LittleVerdict, LoadShape, RunHeader, RunRecord};
use report::{
    Axis, Cell, Column, Curves, Figure, FigureError, Kind, Live, Mark, Outcome, Plot, Quantiles,
    Reference, Report, Residuals, Role, Section, Series, Sliders, Stack, Strip, Table, TableError,
};

use super::check::{load_text, point_text};
use super::knee::rate_below;
use super::typed::Typed;
use cli::phases;

mod answer;
mod coincide;
mod knees;
mod measured;

pub(crate) use answer::{Answer, of_prediction, of_runs};
use coincide::{Named, merged};
pub(crate) use measured::Held;

/// Content of the page.
pub(crate) struct Story<'a> {
    pub(crate) title: &'a str,
    pub(crate) verdict: Verdict,
    pub(crate) line: String,
    pub(crate) runs: &'a [RunRecord],
    /// The runs, judged for the sake of their limits.
    pub(crate) judged: Vec<(&'a RunRecord, Judgement)>,
    /// Searches for a knee.
    pub(crate) knees: &'a [KneeRecord],
    pub(crate) fit: Option<&'a Fit>,
    pub(crate) prediction: Option<&'a Prediction>,
    /// The file of the scenario that was predicted, if there is one.
    pub(crate) scenario: Option<&'a Path>,
    pub(crate) scores: &'a [Score],
    /// Sentences under the verdict.
    pub(crate) notes: &'a [String],
    /// Runs held against limits.
    pub(crate) held: &'a [Held],
    /// Knee, bottleneck and slots.
    pub(crate) answer: &'a Answer,
    /// Sections after the curves.
    pub(crate) more: Vec<Section>,
}

/// Runs that are held against no limit, judged.
pub(crate) fn judged(runs: &[RunRecord]) -> Vec<(&RunRecord, Judgement)> {
    runs.iter().map(|run| (run, run.judge(0.95))).collect()
}

/// The page.
pub(crate) fn page(story: &Story<'_>) -> Result<Report, Failure> {
    build(story, &story.judged).map_err(|error| Failure::Defect(format!("the report: {error}")))
}

/// A figure or a table with a number that cannot be drawn.
enum Broken {
    Figure(FigureError),
    Table(TableError),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Figure(error) => error.fmt(f),
            Broken::Table(error) => error.fmt(f),
        }
    }
}

impl From<FigureError> for Broken {
    fn from(error: FigureError) -> Broken {
        Broken::Figure(error)
    }
}

impl From<TableError> for Broken {
    fn from(error: TableError) -> Broken {
        Broken::Table(error)
    }
}

impl Story<'_> {
    /// True if there are runs, and nothing that they were held against: of them nothing holds.
    pub(crate) fn is_only_measured(&self) -> bool {
        !self.runs.is_empty()
            && self.knees.is_empty()
            && self.fit.is_none()
            && self.scores.is_empty()
            && self.held.is_empty()
    }
}

type Judged<'a> = [(&'a RunRecord, Judgement)];

fn build(story: &Story<'_>, judged: &Judged<'_>) -> Result<Report, Broken> {
    let outcome = match story.verdict {
        Verdict::Holds if story.is_only_measured() => Outcome::Measured,
        verdict => verdict.into(),
    };
    let mut report = Report::new(story.title).verdict(outcome, story.line.clone());
    for line in &story.answer.lines {
        report = report.detail(line.clone());
    }
    for note in story.notes {
        report = report.lead(note.clone());
    }
    report = facts(report, story);
    if !judged.is_empty() {
        report = report.section(measured::numbers(judged, story.held)?);
    }
    for knee in story.knees {
        report = report.section(knees::section(knee)?);
    }
    if let Some(section) = against_load(story, judged)? {
        report = report.section(section);
    }
    for section in &story.more {
        report = report.section(section.clone());
    }
    if let Some(section) = measured::over_time(judged)? {
        report = report.section(section);
    }
    for run in story.runs.iter().filter(|run| run.header.load.varies()) {
        report = report.section(phases::section(run)?);
    }
    if let Some(section) = by_size(story, judged)? {
        report = report.section(section);
    }
    if let Some(section) = quantiles(judged)? {
        report = report.section(section);
    }
    if let Some(prediction) = story.prediction
        && let Some(section) = queues(prediction)?
    {
        report = report.section(section);
    }
    if let Some(fit) = story.fit {
        report = report.section(fitted(fit)?);
    }
    for score in story.scores {
        report = report.section(scored(score)?);
    }
    if !judged.is_empty() {
        report = report.section(honesty(judged)?);
    }
    Ok(report.section(next(story)))
}

fn facts(mut report: Report, story: &Story<'_>) -> Report {
    let headers: Vec<&RunHeader> = story
        .runs
        .iter()
        .map(|run| &run.header)
        .chain(story.knees.iter().map(|knee| &knee.header))
        .collect();
    if let Some(header) = headers.first() {
        let host = &header.host;
        let mut targets: Vec<&str> = headers.iter().map(|header| &*header.target).collect();
        targets.sort_unstable();
        targets.dedup();
        report = report
            .fact(if targets.len() > 1 { "targets" } else { "target" }, targets.join(", "), "")
            .fact("measured", header.started.clone(), "")
            .fact("host", format!("{}, {} x {}", host.kernel, host.cpus, host.cpu_model), "")
            .fact("tool", header.tool.clone(), "")
            .fact("command", header.command.join(" "), "");
        let seeds: Vec<String> = headers.iter().map(|header| header.seed.to_string()).collect();
        report = report.fact("seeds of the runs", seeds.join(", "), "");
    }
    if let Some(prediction) = story.prediction {
        report = report.fact("predicted", prediction.date.clone(), "").fact(
            "seed of the simulations",
            prediction.seed.to_string(),
            "",
        );
    }
    report
}

/// The slots behind which a run was made, where a score tells.
fn slots_of(story: &Story<'_>, run: &RunRecord) -> Option<u32> {
    let scored = story.scores.iter().find(|score| score.run == run.header.id);
    scored.and_then(|score| score.slots).or_else(|| {
        let scenario = story.fit.map(|fit| &fit.scenario);
        scenario?.gates.first()?.slots
    })
}

/// x of a load, if it is of the kind that this page is about.
fn x_of(load: Load) -> f64 {
    match load {
        Load::Clients(clients) => f64::from(clients),
        Load::Rate(rate) => rate,
    }
}

/// The different numbers of slots among points and runs, smallest first.
fn all_slots(story: &Story<'_>) -> Vec<Option<u32>> {
    let points = story.prediction.iter().flat_map(|prediction| &prediction.points);
    let mut slots: Vec<Option<u32>> = points.map(|point| point.slots).collect();
    slots.extend(story.runs.iter().map(|run| slots_of(story, run)));
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn slots_name(slots: Option<u32>) -> String {
    slots.map_or("as configured".into(), |slots| format!("{slots} slots"))
}

/// Points that were predicted behind so many slots, smallest load first.
fn points_of<'a>(story: &Story<'a>, slots: Option<u32>) -> Vec<&'a Point> {
    let points = story.prediction.iter().flat_map(|prediction| &prediction.points);
    let mut points: Vec<&Point> = points.filter(|point| point.slots == slots).collect();
    points.sort_by(|a, b| x_of(a.load).total_cmp(&x_of(b.load)));
    points
}

/// A mean with half its interval, if that can be told; none of a run that has no such mean.
type Dot = Option<(f64, Option<f64>)>;

/// Simulation, formula and measurement of one quantity behind so many slots; `of` a witness's
/// numbers, `measured` of a judged run.
fn series_of(
    story: &Story<'_>,
    judged: &Judged<'_>,
    slots: Option<u32>,
    of: fn(&advise::Numbers) -> f64,
    (measured, hue): (fn(&Judgement) -> Dot, u8),
) -> Vec<Named> {
    let name = slots_name(slots);
    let points = points_of(story, slots);
    let simulated: Vec<_> = points.iter().map(|p| (x_of(p.load), of(&p.simulation))).collect();
    let by_formula: Vec<_> =
        points.iter().filter_map(|p| Some((x_of(p.load), of(p.formula.as_ref()?)))).collect();
    let dots: Vec<_> = judged
        .iter()
        .filter(|(run, _)| slots_of(story, run) == slots)
        .filter_map(|(run, judgement)| {
            let (mean, half) = measured(judgement)?;
            let interval = half.map(|half| [mean - half, mean + half]);
            Some((x_of(advise::load_of(run)), mean, interval))
        })
        .collect();
    let mut all = Vec::new();
    let mut add = |witness, series| {
        all.push(Named { slots: name.clone(), witness, hue, series });
    };
    if !simulated.is_empty() {
        add("simulated", Series::dashed("", simulated));
    }
    if by_formula.len() > 1 {
        add("formula", Series::line("", by_formula));
    }
    if !dots.is_empty() {
        add("measured", Series::estimated("", dots));
    }
    all
}

/// A mean with its half-width, none where that is not known.
fn drawn(estimate: &measure::Estimate) -> (f64, Option<f64>) {
    (estimate.mean, Some(estimate.half_width).filter(|half| half.is_finite()))
}

fn throughput_series(
    story: &Story<'_>,
    judged: &Judged<'_>,
    slots: Option<u32>,
    hue: u8,
) -> Vec<Named> {
    let measured = |judgement: &Judgement| Some(drawn(&judgement.all.throughput));
    series_of(story, judged, slots, |numbers| numbers.throughput.mean, (measured, hue))
}

/// In milliseconds.
fn response_series(
    story: &Story<'_>,
    judged: &Judged<'_>,
    slots: Option<u32>,
    hue: u8,
) -> Vec<Named> {
    let measured = |judgement: &Judgement| {
        let (mean, half) = drawn(judgement.all.response.as_ref()?);
        Some((mean * 1e3, half.map(|half| half * 1e3)))
    };
    series_of(story, judged, slots, |numbers| numbers.response.mean * 1e3, (measured, hue))
}

/// Throughput and response against load: what was measured, what was predicted.
fn against_load(story: &Story<'_>, judged: &Judged<'_>) -> Result<Option<Section>, Broken> {
    if judged.is_empty() && story.prediction.is_none() && story.fit.is_none() {
        return Ok(None);
    }
    let is_rate = |load: &LoadShape| !matches!(load, LoadShape::Closed { .. }) && !load.varies();
    let open = judged.iter().all(|(run, _)| is_rate(&run.header.load))
        && story
            .prediction
            .is_none_or(|p| p.points.iter().all(|q| matches!(q.load, Load::Rate(_))));
    let closed = judged.iter().all(|(run, _)| matches!(run.header.load, LoadShape::Closed { .. }))
        && story
            .prediction
            .is_none_or(|p| p.points.iter().all(|q| matches!(q.load, Load::Clients(_))));
    if !open && !closed {
        // An open and a closed load have no axis in common.
        return Ok(sliders(story).map(|sliders| Section::new("What if").sliders(sliders)));
    }
    let x = if closed { Axis::linear("Load", "clients") } else { Axis::linear("Load", "1/s") };
    let mut throughput = Curves::new(x.clone(), Axis::linear("Throughput", "1/s"));
    let mut response = Curves::new(x, Axis::linear("Mean response", "ms"));
    let (mut of_throughput, mut of_response) = (Vec::new(), Vec::new());
    for (hue, slots) in all_slots(story).into_iter().enumerate() {
        of_throughput.extend(throughput_series(story, judged, slots, hue as u8));
        of_response.extend(response_series(story, judged, slots, hue as u8));
    }
    if is_one_dot(&of_throughput) {
        // A figure of one dot is a number, and stands in the table above.
        return Ok(sliders(story).map(|sliders| Section::new("What if").sliders(sliders)));
    }
    for series in merged(of_throughput) {
        throughput = throughput.series(series);
    }
    for series in merged(of_response) {
        response = response.series(series);
    }
    if let Some(knee) = story.answer.knee.filter(|_| closed) {
        let name = format!("N* = {knee:.1}");
        throughput = throughput.reference(Reference::x(name.clone(), knee));
        response = response.reference(Reference::x(name, knee));
    }
    if let Some(bound) = story.prediction.and_then(throughput_bound) {
        throughput = throughput.reference(Reference::y("no more is possible", bound));
    }
    if let Some(calibration) = calibration(story) {
        let edge =
            if closed { f64::from(calibration.clients[1]) } else { calibration.throughput_max.0 };
        throughput = throughput.calibrated_to(edge);
        response = response.calibrated_to(edge);
    }
    let caption = if judged.is_empty() {
        "Predicted; nothing was measured."
    } else {
        "Dots are measured, with 95 % intervals where they can be told; lines were predicted."
    };
    let slows = if closed { " A closed load slows down with its server." } else { "" };
    let throughput = Figure::new("Throughput against load", caption, Plot::Curves(throughput))?;
    let response = Figure::new(
        "Mean response against load",
        format!("{caption}{slows}"),
        Plot::Curves(response),
    )?;
    let section = Section::new("Throughput and response against load");
    Ok(Some(match sliders(story) {
        Some(sliders) => section
            .sliders(sliders)
            .figure(throughput.live(Live::Throughput))
            .figure(response.live(Live::Response)),
        None => section.figure(throughput).figure(response),
    }))
}

/// True if all that a figure would show stands at one load.
fn is_one_dot(all: &[Named]) -> bool {
    let x = |mark: &Mark| -> Vec<f64> {
        match mark {
            Mark::Line(points) | Mark::Dashed(points) => {
                points.iter().map(|point| point[0]).collect()
            }
            Mark::Dots(points) => points.iter().map(|point| point.x).collect(),
            Mark::Band(points) => points.iter().map(|point| point[0]).collect(),
        }
    };
    let all: Vec<f64> = all.iter().flat_map(|one| x(&one.series.mark)).collect();
    all.windows(2).all(|pair| pair[0] == pair[1])
}

/// The scenario for the reader to turn, asked under the kind of load that the page is about.
fn sliders(story: &Story<'_>) -> Option<Sliders> {
    let (scenario, seed) = match (story.prediction, story.fit) {
        (Some(prediction), _) => (&prediction.scenario, prediction.seed),
        (None, Some(fit)) => (&fit.scenario, fit.scenario.seed.unwrap_or(1)),
        (None, None) => return None,
    };
    let [class] = scenario.classes.as_slice() else { return None };
    let asked = story.prediction.iter().flat_map(|prediction| &prediction.points);
    let highest =
        asked.max_by(|a, b| x_of(a.load).total_cmp(&x_of(b.load))).map(|point| point.load);
    let scenario = match (highest, class.population) {
        (Some(load @ Load::Rate(_)), Some(_)) | (Some(load @ Load::Clients(_)), None) => {
            advise::at(scenario, None, load, None).ok()?
        }
        _ => scenario.clone(),
    };
    let model = serde_json::to_string(&scenario).expect("a scenario is texts, numbers and lists");
    Some(Sliders { model, seed })
}

/// Most that the slowest part of a closed scenario can do [1/s] (asymptotic bound).
fn throughput_bound(prediction: &Prediction) -> Option<f64> {
    let of = |point: &Point| {
        let scenario =
            advise::at(&prediction.scenario, point.class.as_deref(), point.load, point.slots)
                .ok()?;
        Some(advise::formula(&scenario).ok()?.bounds?.throughput_max)
    };
    // Of an open load, the bound is the load itself.
    let closed = prediction.points.iter().filter(|point| matches!(point.load, Load::Clients(_)));
    closed.filter_map(of).max_by(f64::total_cmp)
}

fn calibration<'a>(story: &Story<'a>) -> Option<&'a Calibration> {
    story.prediction?.scenario.calibration.as_ref()
}

/// Response against document size, for every scored run.
fn by_size(story: &Story<'_>, judged: &Judged<'_>) -> Result<Option<Section>, Broken> {
    let mut section = Section::new("Response against document size");
    let mut drawn = false;
    for score in story.scores {
        let rows: Vec<_> = score
            .rows
            .iter()
            .filter_map(|row| match &row.quantity {
                Quantity::Document { bytes, .. } if *bytes > 0 => Some((*bytes as f64, row)),
                _ => None,
            })
            .collect();
        if rows.len() < 2 || !judged.iter().any(|(run, _)| run.header.id == score.run) {
            continue;
        }
        let mut curves =
            Curves::new(Axis::log("Document size", "bytes"), Axis::log("Mean response", "ms"));
        let formula: Vec<_> =
            rows.iter().filter_map(|(x, row)| Some((*x, row.formula?.mean * 1e3))).collect();
        if formula.len() > 1 {
            curves = curves.series(Series::line("formula", formula));
        }
        curves = curves
            .series(Series::dashed(
                "simulated",
                rows.iter().map(|(x, r)| (*x, r.simulated.mean * 1e3)),
            ))
            .series(Series::measured(
                "measured",
                rows.iter().map(|(x, row)| {
                    let (low, high) = drawable(&row.measured);
                    (*x, row.measured.mean * 1e3, low * 1e3, high * 1e3)
                }),
            ));
        drawn = true;
        section = section.figure(Figure::new(
            format!("Response against size at {}", point_text(score.load, score.slots)),
            "A straight formula on logarithmic axes bends where the work of the bytes outweighs the wait.",
            Plot::Curves(curves),
        )?);
    }
    Ok(drawn.then_some(section))
}

/// An interval that a logarithmic axis can show.
fn drawable(estimate: &measure::Estimate) -> (f64, f64) {
    if !estimate.half_width.is_finite() {
        return (estimate.mean, estimate.mean);
    }
    (estimate.low().max(estimate.mean * 0.05), estimate.high())
}

/// The quantiles that a curve is drawn through.
const CURVE: [f64; 12] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999];

fn quantiles(judged: &Judged<'_>) -> Result<Option<Section>, Broken> {
    let mut figure = Quantiles::new(Axis::log("Response", "ms"));
    let mut drawn = 0;
    let mut seen: Vec<String> = Vec::new();
    let mut untold: BTreeSet<&str> = BTreeSet::new();
    for (run, _) in judged {
        let mut all = Histogram::new();
        for class in run.steady().iter().flat_map(|interval| &interval.classes) {
            all.merge(&class.total);
        }
        // Ten responses beyond a quantile are the least that it may be read from.
        let known: Vec<(f64, f64)> = CURVE
            .iter()
            .filter(|q| (1.0 - **q) * all.len() as f64 >= 10.0)
            .map(|&q| (q, all.quantile(q).as_secs_f64()))
            .filter(|(_, response)| *response > 0.0)
            .collect();
        untold.extend(known.iter().filter_map(|&(_, response)| text::untold(response)));
        let told = known.into_iter().filter(|&(_, response)| text::untold(response).is_none());
        let points: Vec<_> = told.map(|(q, response)| (q, response * 1e3)).collect();
        if points.len() < 2 {
            continue;
        }
        let name = load_text(run);
        let nth = seen.iter().filter(|other| **other == name).count();
        let label = if nth == 0 { name.clone() } else { format!("{name} (run {})", nth + 1) };
        seen.push(name);
        figure = figure.series(Series::line(label, points));
        drawn += 1;
    }
    if drawn == 0 {
        return Ok(None);
    }
    let mut caption =
        "Measured, from the intended start. A curve ends where fewer than ten responses \
                       are beyond it."
            .to_owned();
    if !untold.is_empty() {
        let untold: Vec<&str> = untold.into_iter().collect();
        caption += &format!(" Not drawn: what is {}.", untold.join(" or "));
    }
    let figure = Figure::new("Response by quantile", caption, Plot::Quantiles(figure))?;
    Ok(Some(Section::new("Response by quantile").figure(figure).table(times(judged)?)))
}

/// Section on who saturates first, and where the time goes, at the highest load that was predicted.
fn queues(prediction: &Prediction) -> Result<Option<Section>, Broken> {
    let Some(point) = prediction.points.iter().max_by(|a, b| x_of(a.load).total_cmp(&x_of(b.load)))
    else {
        return Ok(None);
    };
    let place = point_text(point.load, point.slots);
    let mut rows: Vec<_> = point.simulation.utilisation.iter().collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    if rows.is_empty() {
        return Ok(None);
    }
    let gates: Vec<&str> =
        prediction.scenario.gates.iter().map(|gate| gate.name.as_str()).collect();
    let mut strip = Strip::new();
    for (name, utilisation) in rows {
        let soft = gates.contains(&name.as_str());
        let note = match (soft, point.simulation.wait) {
            (true, Some(wait)) => format!("mean wait {}", text::time(wait.mean)),
            _ => String::new(),
        };
        let kind = if soft { Kind::Soft } else { Kind::Hard };
        // The busy time of a window may exceed it by the rounding of its sums.
        strip = strip.row(name.clone(), kind, utilisation.clamp(0.0, 1.0), note);
    }
    let mut section =
        Section::new("Who saturates first, and where the time goes").figure(Figure::new(
            format!("Utilisation at {place}"),
            "Simulated. Soft is what somebody configured, hard is what the machine is.",
            Plot::Strip(strip),
        )?);
    if let Some(stack) = time_spent(prediction, point) {
        section = section.figure(Figure::new(
            format!("Where the time goes at {place}"),
            "Simulated means. The wait for a slot is the same for all documents: what the large ones need, \
             the small ones wait for.",
            Plot::Stack(stack),
        )?);
    }
    Ok(Some(section))
}

/// Mean response split into the way, the wait for a slot and the hold of it.
fn time_spent(prediction: &Prediction, point: &Point) -> Option<Stack> {
    let wait = point.simulation.wait?.mean;
    let path = prediction.scenario.calibration.as_ref()?.parameters.get("path")?.value.max(0.0);
    let mut stack = Stack::new("ms")
        .part("on the way", Role::Service)
        .part("wait for a slot", Role::Wait)
        .part("slot held", Role::Service);
    let split = |response: f64| [path * 1e3, wait * 1e3, ((response - wait - path) * 1e3).max(0.0)];
    stack = stack.row("mean request", split(point.simulation.response.mean));
    for document in &point.simulation.documents {
        stack = stack.row(document.name.clone(), split(document.response.mean));
    }
    Some(stack)
}

fn fitted(fit: &Fit) -> Result<Section, Broken> {
    let mut section = Section::new("The fit").paragraph(format!("{}.", super::fit::headline(fit)));
    if let Some(calibration) = &fit.scenario.calibration {
        let columns = [
            Column::plain("parameter"),
            Column::plain("unit"),
            Column::plain("value with 95 % interval"),
        ];
        let rows = calibration.parameters.iter().map(|(name, parameter)| {
            let (factor, unit) = match parameter.unit.as_str() {
                "s" => (1e3, "ms"),
                "s/byte" => (1e9, "us/kB"),
                unit => (1.0, unit),
            };
            let [low, high] = parameter.interval;
            vec![
                Cell::Text(name.clone()),
                Cell::Text(unit.into()),
                Cell::interval(parameter.value * factor, low * factor, high * factor),
            ]
        });
        section = section.table(Table::new("Fitted parameters", columns).rows(rows)?);
        for sentence in &calibration.unidentified {
            section = section.paragraph(format!("Not identified: {sentence}."));
        }
    }
    for note in &fit.notes {
        section = section.paragraph(format!("Note: {note}."));
    }
    let mut residuals = Residuals::new(Axis::log("Document size", "bytes")).tolerance(15.0);
    let mut clients: Vec<u32> = fit.residuals.iter().map(|residual| residual.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    for n in clients {
        let of_run =
            fit.residuals.iter().filter(|residual| residual.clients == n && residual.bytes > 0);
        let dots = of_run.map(|residual| {
            let noise = residual.measured.half_width / residual.measured.mean;
            let noise = if noise.is_finite() { noise.min(1.0) } else { 0.0 };
            let at = residual.relative();
            (residual.bytes as f64, at * 100.0, (at - noise) * 100.0, (at + noise) * 100.0)
        });
        let dots: Vec<_> = dots.collect();
        if !dots.is_empty() {
            residuals = residuals.series(Series::measured(Load::Clients(n).to_string(), dots));
        }
    }
    Ok(section.figure(Figure::new(
        "Residuals of the fit",
        "Fitted less measured mean response, of measured; the bars are the measurement's own 95 % \
         interval.",
        Plot::Residuals(residuals),
    )?))
}

fn right(right: Right) -> Outcome {
    match right {
        Right::Yes => Outcome::Holds,
        Right::CannotTell => Outcome::Inconclusive,
        Right::No => Outcome::Fails,
    }
}

fn scored(score: &Score) -> Result<Section, Broken> {
    let place = point_text(score.load, score.slots);
    let columns = [
        Column::plain("quantity"),
        Column::plain("unit"),
        Column::plain("requests"),
        Column::plain("formula"),
        Column::plain("simulated"),
        Column::plain("measured"),
        Column::new("error", "%"),
        Column::plain("verdict"),
    ];
    let rows = score.rows.iter().map(|row| {
        let (factor, unit) = match row.quantity {
            Quantity::Throughput => (1.0, "1/s"),
            Quantity::Response | Quantity::Document { .. } => (1e3, "ms"),
        };
        let measured = &row.measured;
        vec![
            Cell::Text(quantity_text(&row.quantity)),
            Cell::Text(unit.into()),
            Cell::Number(row.completed as f64),
            row.formula.map_or(Cell::Empty, |value| Cell::Number(value.mean * factor)),
            Cell::Number(row.simulated.mean * factor),
            Cell::non_negative(measured.mean * factor, measured.half_width * factor),
            // Of a run in which nothing was completed nothing can be off by a share.
            if row.error().is_finite() { Cell::Number(row.error() * 100.0) } else { Cell::Empty },
            Cell::Outcome(right(row.right)),
        ]
    });
    let mut section = Section::new(format!("Checked: {place}")).table(
        Table::new(format!("Predicted, simulated and measured at {place}"), columns)
            .stacked()
            .rows(rows)?,
    );
    if !score.accounts.is_empty() {
        let columns = [
            Column::plain("taking into account"),
            Column::new("mean response", "ms"),
            Column::new("step", "%"),
        ];
        let mut before: Option<f64> = None;
        let rows: Vec<_> = score
            .accounts
            .iter()
            .map(|account| {
                let step = before
                    .map_or(Cell::Empty, |b| Cell::Number((account.response / b - 1.0) * 100.0));
                before = Some(account.response);
                vec![Cell::Text(account.what.clone()), Cell::Number(account.response * 1e3), step]
            })
            .collect();
        section =
            section.table(Table::new("What accounts for the difference", columns).rows(rows)?);
    }
    for beyond in &score.beyond {
        section = section.paragraph(format!("Beyond the calibration: {beyond}."));
    }
    Ok(section)
}

/// Quantiles and the longest response of every run; a cell is empty where fewer than ten responses are beyond.
fn times(judged: &Judged<'_>) -> Result<Table, Broken> {
    let mut columns = vec![Column::plain("run"), Column::plain("load")];
    columns.extend(["mean", "p50", "p95", "p99", "p99.9", "max"].map(|of| Column::new(of, "ms")));
    let rows = judged.iter().map(|(run, judgement)| {
        let all = &judgement.all;
        let quantile = |q: f64| {
            let of = all.quantiles.iter().find(|of| (of.q - q).abs() < 1e-9);
            of.and_then(|of| of.response).map(|response| response.mean)
        };
        let mut values = vec![all.response.as_ref().map(|response| response.mean)];
        values.extend([0.5, 0.95, 0.99, 0.999].map(quantile));
        values.push(all.response_max_s);
        let told = |value: Option<f64>| value.filter(|&value| text::untold(value).is_none());
        let cell = |value| told(value).map_or(Cell::Empty, |value| Cell::Number(value * 1e3));
        let names = [Cell::Text(run.header.id.clone()), Cell::Text(load_text(run))];
        names.into_iter().chain(values.into_iter().map(cell)).collect()
    });
    Ok(Table::new("Response times of every run, warm-up left out", columns).stacked().rows(rows)?)
}

/// Section on how far each run may be believed.
fn honesty(judged: &Judged<'_>) -> Result<Section, Broken> {
    let columns = [
        Column::plain("run"),
        Column::plain("load"),
        Column::new("throughput", "1/s"),
        Column::new("variation between intervals", "%"),
        Column::plain("Little's law"),
        Column::plain("valid"),
    ];
    let rows = judged.iter().map(|(run, judgement)| {
        let little = match judgement.little.verdict {
            LittleVerdict::Closes => "closes",
            LittleVerdict::CannotTell => "cannot be judged",
            LittleVerdict::DoesNot => "does not close",
        };
        vec![
            Cell::Text(run.header.id.clone()),
            Cell::Text(load_text(run)),
            Cell::Number(judgement.all.throughput.mean),
            variation(run).map_or(Cell::Empty, |cv| Cell::Number(cv * 100.0)),
            Cell::Text(little.into()),
            Cell::Outcome(if judgement.is_valid() { Outcome::Holds } else { Outcome::Invalid }),
        ]
    });
    let mut section = Section::new("How far the runs may be believed")
        .table(Table::new("Every run, warm-up left out", columns).stacked().rows(rows)?);
    for (run, judgement) in judged {
        for fault in &judgement.faults {
            section = section.paragraph(format!("Invalid: run {}: {fault}.", run.header.id));
        }
        let warnings = run.summary.iter().flat_map(|summary| &summary.warnings);
        for warning in warnings {
            section = section.paragraph(format!("Run {}: {warning}", run.header.id));
        }
    }
    Ok(section)
}

/// The coefficient of variation of completions per second between intervals.
fn variation(run: &RunRecord) -> Option<f64> {
    let rates: Vec<f64> = run
        .steady()
        .iter()
        .filter(|interval| interval.length_s > 0.0)
        .map(|interval| {
            let completed: u64 = interval.classes.iter().map(|class| class.completed).sum();
            completed as f64 / interval.length_s
        })
        .collect();
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    if rates.len() < 2 || mean <= 0.0 {
        return None;
    }
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt() / mean)
}

/// The command that a search for a knee asks for: a run below it, or a longer search where none was seen to hold.
fn below_knee(knee: &KneeRecord) -> Option<(&'static str, String)> {
    let limit = &knee.limit.text;
    let whole =
        Typed::of(&knee.header.command)?.without("part").without("meet").without("patience");
    let again = whole.for_another_load();
    Some(match knee.knee.ends() {
        (Some(low), _) => {
            let run = again.without("duration").with("rate", rate_below(low)).with("expect", limit);
            ("A run below the knee, held against the limit:", run.line())
        }
        (None, _) => {
            let budget = format!("{:.0}s", 2.0 * knee.spec.budget_s);
            let longer = again.with("knee", limit).with("budget", budget);
            ("A search of twice the time:", longer.line())
        }
    })
}

fn next(story: &Story<'_>) -> Section {
    let section = Section::new("Next");
    if let Some(prediction) = story.prediction {
        let (what, slots) = match prediction.scenario.gates.len() {
            1 => ("loads and slots", " --slots 2,8"),
            _ => ("loads", ""),
        };
        let Some(file) = story.scenario else {
            return section.command("Look at the runs that are stored:", "sekisho runs");
        };
        section.command(
            format!("Ask the scenario about other {what}:"),
            format!("sekisho ask {} --clients 8,64{slots}", text::shell_word(file)),
        )
    } else if story.answer.knee.is_some() {
        section.command(
            "Fit a scenario to the runs of this service, and ask it:",
            "sekisho fit .sekisho/runs/*.jsonl --out scenario.toml",
        )
    } else if let Some((words, command)) = story.knees.iter().find_map(below_knee) {
        section.command(words, command)
    } else {
        section.command(
            "A fit needs a small and a saturating load (`--clients 1,4,16`). The runs that are stored:",
            "sekisho runs",
        )
    }
}
