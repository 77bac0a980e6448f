//! `sekisho ask SCENARIO`: what would happen at other loads, or with other slots.

use std::io::Write;
use std::path::{Path, PathBuf};

use advise::{Point, Prediction, Question, Rate, Value};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{Table, label, paragraph, percent, rate, sentence, time, times};
use cli::{Failure, Verdict, say, store, waiting};
use formats::exchange::read_scenario;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::check::point_text;
use super::trial;

/// The question without a name: which loads, with which slots.
#[derive(ClapArgs)]
// The verb itself has a group of this name.
#[group(skip)]
pub(super) struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO", required = true)]
    scenario: Option<PathBuf>,
    /// Closed loads: numbers of clients
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    clients: Vec<u32>,
    /// Open loads: arrivals per second
    #[arg(long, value_delimiter = ',', value_name = "RATE,...")]
    rate: Vec<Rate>,
    /// Slots of the scenario's gate
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    slots: Vec<u32>,
    /// The class whose loads these are; may be left out where there is one
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The seed of the simulations; left out, the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where the prediction is stored
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the prediction as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Throughput and response at other loads or slots, by formula and simulation.
#[derive(Serialize, JsonSchema)]
pub(super) struct PredictedLoads<'a> {
    /// True if the formula's numbers are approximate.
    approximate: bool,
    /// The largest relative error where the formula was tried.
    error: Option<f64>,
    /// File of the prediction, so that `check` can score it.
    prediction_file: &'a Path,
    prediction: &'a Prediction,
}

impl Answer for PredictedLoads<'_> {
    const FORMAT: &'static str = "sekisho/ask/1";
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let path = args.scenario.as_ref().expect("required where no question is named");
    store::no_recording(path, "scenario")?;
    let scenario = read_scenario(path)?;
    let question = Question {
        clients: args.clients.clone(),
        rates: args.rate.iter().map(|rate| rate.0).collect(),
        slots: args.slots.clone(),
        class: args.class.clone(),
    };
    let seed = args.seed.or(scenario.seed).unwrap_or(1);
    let mut prediction = predict(scenario, &question, seed)?;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => {
            let (id, path) = store::claimed("predictions", &prediction.id, "json")?;
            prediction.id = id;
            path
        }
    };
    store_prediction(&path, &prediction)?;
    if args.json {
        let answer = PredictedLoads {
            approximate: prediction.approximation().approximate,
            error: prediction.approximation().error,
            prediction_file: &path,
            prediction: &prediction,
        };
        say(out, &cli::json::answer(Verdict::Holds, Verdict::Holds.word(), &answer))?;
        return Ok(Verdict::Holds);
    }
    say(out, &prediction_text(&prediction))?;
    say(out, &format!("\n  stored: {}\n{}", path.display(), trial::steps(&prediction, &path)))?;
    Ok(Verdict::Holds)
}

/// Puts a question to a scenario.
pub(crate) fn predict(
    scenario: advise::Scenario,
    question: &Question,
    seed: u64,
) -> Result<Prediction, Failure> {
    let bar = waiting("simulating");
    let points = advise::ask(&scenario, question, &advise::options(seed), |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })
    .map_err(Failure::usage)?;
    bar.finish_and_clear();
    Ok(Prediction {
        sekisho_prediction: 1,
        id: store::new_id(),
        date: store::now_rfc3339(),
        seed,
        scenario,
        points,
    })
}

pub(crate) fn store_prediction(
    path: &std::path::Path,
    prediction: &Prediction,
) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(prediction).map_err(Failure::defect)?;
    store::write_whole(path, &text)
}

/// Every point: throughput, mean and quantiles, the two witnesses side by side.
pub(crate) fn prediction_text(prediction: &Prediction) -> String {
    let mut text = format!("{}\n", sentence(&headline(prediction)));
    let mut table =
        Table::new(&["at", "rate", "formula R", "sim R", "apart", "p50", "p90", "p99", "wait"]);
    for point in &prediction.points {
        let numbers = &point.simulation;
        let quantile = |q| {
            let known: Option<Value> = numbers.quantile(q);
            known.map_or("-".into(), |value| cli::text::quantile(value.mean))
        };
        table.row(vec![
            short_point(point),
            rate(numbers.throughput.mean),
            point.formula.as_ref().map_or("-".into(), |formula| time(formula.response.mean)),
            time(numbers.response.mean),
            apart(point).map_or("-".into(), percent),
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            numbers.wait.map_or("-".into(), |wait| time(wait.mean)),
        ]);
    }
    text += &table.to_string();
    if prediction.points.iter().any(|point| !point.simulation.documents.is_empty()) {
        text += &format!(
            "\n  mean response by document, formula / simulation:\n{}",
            by_document(prediction)
        );
    }
    for note in distinct_notes(prediction) {
        text += &paragraph(&format!("formula: {note}"));
    }
    let errors = prediction.points.iter().filter_map(|point| point.formula_error);
    if let Some(who) = errors.reduce(f64::max).and_then(advise::who_answers) {
        text += &paragraph(&who);
    }
    for point in prediction.points.iter().filter(|point| knows_quantiles(point)) {
        text += &paragraph(&quantiles(point));
    }
    for point in &prediction.points {
        for beyond in &point.beyond {
            let place = point_text(point.load, point.slots);
            text += &paragraph(&format!("beyond the calibration: {place}: {beyond}"));
        }
    }
    text + &paragraph(&format!(
        "{}R is the mean response; intervals are in the stored prediction. Seed {}.",
        letters(&prediction.points),
        prediction.seed
    ))
}

/// The letters that [`short_point`] puts behind its numbers, explained, where there are some.
fn letters(points: &[Point]) -> String {
    let has_clients = points.iter().any(|point| matches!(point.load, advise::Load::Clients(_)));
    let has_slots = points.iter().any(|point| point.slots.is_some());
    match (has_clients, has_slots) {
        (true, true) => "At: c are clients and r slots. ".into(),
        (true, false) => "At: c are clients. ".into(),
        (false, true) => "At: r are slots. ".into(),
        (false, false) => String::new(),
    }
}

/// Answer in a line, and the error that the formula's numbers may have.
pub(crate) fn headline(prediction: &Prediction) -> String {
    most_throughput(prediction) + &prediction.approximation().of_formula()
}

fn most_throughput(prediction: &Prediction) -> String {
    let fastest = prediction
        .points
        .iter()
        .max_by(|a, b| a.simulation.throughput.mean.total_cmp(&b.simulation.throughput.mean));
    match fastest {
        Some(point) => format!(
            "answered: most throughput at {}: {} at a mean response of {}",
            point_text(point.load, point.slots),
            rate(point.simulation.throughput.mean),
            time(point.simulation.response.mean)
        ),
        None => "answered".into(),
    }
}

/// The notes on the formulas, each kind once: those that differ in their numbers alone are one kind.
fn distinct_notes(prediction: &Prediction) -> Vec<&str> {
    let kind = |note: &str| note.replace(|c: char| c.is_ascii_digit(), "");
    let mut notes: Vec<&str> = Vec::new();
    for point in &prediction.points {
        if !notes.iter().any(|known| kind(known) == kind(&point.formula_note)) {
            notes.push(&point.formula_note);
        }
    }
    notes
}

/// `64c 8r`: a load and its slots in few letters.
fn short_point(point: &Point) -> String {
    let load = match point.load {
        advise::Load::Clients(clients) => format!("{clients}c"),
        advise::Load::Rate(rate) => format!("{rate}/s"),
    };
    point.slots.map_or(load.clone(), |slots| format!("{load} {slots}r"))
}

fn knows_quantiles(point: &Point) -> bool {
    point.formula.as_ref().is_some_and(|formula| !formula.quantiles.is_empty())
}

/// The formula's quantiles beside the simulation's.
fn quantiles(point: &Point) -> String {
    let Some(formula) = &point.formula else { return String::new() };
    let pair = |(q, value): &(f64, Value)| {
        let simulated = point.simulation.quantile(*q)?.mean;
        let pair = match cli::text::untold(simulated) {
            Some(told) => format!("{}/{told}", time(value.mean)),
            None => times(Some(value.mean), Some(simulated)),
        };
        Some(format!("p{} {pair}", (q * 1000.0).round() / 10.0))
    };
    let pairs: Vec<String> = formula.quantiles.iter().filter_map(pair).collect();
    format!("{}: formula / simulation: {}", short_point(point), pairs.join(", "))
}

/// Formula less simulation in mean response, as a share of the simulation's.
fn apart(point: &Point) -> Option<f64> {
    Some(point.formula.as_ref()?.response.mean / point.simulation.response.mean - 1.0)
}

fn by_document(prediction: &Prediction) -> Table {
    let documents: Vec<&str> = prediction
        .points
        .first()
        .map(|point| point.simulation.documents.iter().map(|d| d.name.as_str()).collect())
        .unwrap_or_default();
    let cell = |point: &Point, name: &str| {
        let of = |numbers: &advise::Numbers| numbers.document(name).map(|value| value.mean);
        times(point.formula.as_ref().and_then(of), of(&point.simulation))
    };
    let labels: Vec<String> = documents.iter().map(|name| label(name)).collect();
    let places: Vec<String> = prediction.points.iter().map(short_point).collect();
    // What there is more of goes downwards.
    let down = documents.len() > places.len();
    let (corner, across) = if down { ("document", &places) } else { ("at", &labels) };
    let mut head = vec![corner];
    head.extend(across.iter().map(String::as_str));
    let mut table = Table::new(&head);
    if down {
        for (name, label) in documents.iter().zip(&labels) {
            let cells = prediction.points.iter().map(|point| cell(point, name));
            table.row([label.clone()].into_iter().chain(cells).collect());
        }
    } else {
        for (point, place) in prediction.points.iter().zip(&places) {
            let cells = documents.iter().map(|name| cell(point, name));
            table.row([place.clone()].into_iter().chain(cells).collect());
        }
    }
    table
}
