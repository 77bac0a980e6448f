//! `sekisho report`: records, and a prediction or a scenario, as one HTML file.

use std::io::Write;
use std::path::{Path, PathBuf};

use advise::{Approximation, Prediction, Question, Rate, Scenario, Score, Tolerance};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{paragraph, sentence};
use cli::{Failure, Verdict, say, store, turning};
use formats::exchange::read_scenario;
use measure::RunRecord;
use schemars::JsonSchema;
use serde::Serialize;
use sim::Options;

use super::ask;
use super::check::{expected, quick, read_prediction, slots_told};
use super::expectation::{Expectation, expect};
use super::json::ScoreAnswer;
use super::loop_report::{self, Held, Story, page};
use super::newest::Newest;
use super::outcome::{ExpectationAnswer, verdict_of};
use super::tpcc;
use cli::phases;

/// Turn run records (.jsonl, .tpcc.json), a stored prediction (.json) or a scenario (.toml) into one HTML file
///
/// Runs that the prediction speaks of are scored. Runs are held against the limits with which they were measured,
/// and those given here. A scenario is predicted at and around its own load; whatever
/// has a scenario gets sliders that turn it inside the page.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho report .sekisho/runs/RUN.jsonl --out report.html
  sekisho report .sekisho/predictions/P.json --last 2
  sekisho report --last 1 --expect 'p99<50ms'")]
pub(crate) struct Args {
    /// Run records and at most one prediction or scenario
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    newest: Newest,
    /// A limit that every run must hold
    #[arg(long, value_name = "LIMIT")]
    expect: Vec<Expectation>,
    /// The slots that the server had, where the prediction speaks of several numbers
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Contents of the files: runs, and at most one prediction.
fn read(files: &[PathBuf]) -> Result<(Vec<RunRecord>, Option<Prediction>), Failure> {
    let mut runs = Vec::new();
    let mut prediction: Option<Prediction> = None;
    for path in files {
        if tpcc::is_record(path) {
            runs.push(turning("reading", || tpcc::read_run(path))?);
            continue;
        }
        let found = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => read_prediction(path)?,
            Some("toml") => around_its_load(read_scenario(path)?)?,
            _ => {
                runs.push(turning("reading", || store::read_run(path))?);
                continue;
            }
        };
        if prediction.replace(found).is_some() {
            let cause = "a report takes at most one prediction (.json) or scenario (.toml)";
            return Err(Failure::Usage(cause.into()));
        }
    }
    Ok((runs, prediction))
}

/// The runs that are not scored because nobody said how many slots their server had.
fn unclear(prediction: Option<&Prediction>, runs: &[RunRecord], slots: Option<u32>) -> Vec<String> {
    let (Some(prediction), None) = (prediction, slots) else { return Vec::new() };
    match runs.iter().filter(|run| slots_told(prediction, run).len() > 1).count() {
        0 => Vec::new(),
        unclear => vec![format!(
            "{unclear} of the runs: not held against the prediction, which speaks of several numbers of \
             slots: say with `--slots` how many the server had"
        )],
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let files = args.newest.with(&args.files)?;
    let (runs, prediction) = read(&files)?;
    let scores = match &prediction {
        Some(prediction) => scored(prediction, &runs, args.slots)?,
        None => Vec::new(),
    };
    let valid = runs.iter().all(phases::is_valid);
    let right = scores.iter().map(Score::right).max().map_or(Verdict::Holds, verdict_of);
    let held = held(&runs, &args.expect);
    let kept = held.iter().fold(right, |all, held| all.and(held.outcome.verdict));
    let verdict = if valid { kept } else { kept.and(Verdict::Invalid) };
    let answer = match &prediction {
        Some(prediction) => loop_report::of_prediction(prediction),
        None => turning("fitting", || loop_report::of_runs(&runs)),
    };
    let notes = unclear(prediction.as_ref(), &runs, args.slots);
    // The page shows the formula's curve, wherever runs were held against it.
    let approximation = prediction.as_ref().map_or(Approximation::NONE, Prediction::approximation);
    let line = line(prediction.as_ref(), runs.len(), scores.len(), &held);
    let is_scenario = |path: &&PathBuf| path.extension().is_some_and(|end| end == "toml");
    let scenario = files.iter().find(is_scenario).map(PathBuf::as_path);
    let story = Story {
        title: "Sekisho report",
        verdict,
        line: line.clone(),
        runs: &runs,
        fit: None,
        prediction: prediction.as_ref(),
        scenario,
        scores: &scores,
        notes: &notes,
        held: &held,
        answer: &answer,
        more: Vec::new(),
    };
    let report = turning("drawing", || page(&story))?;
    report.write(&args.out).map_err(Failure::machine)?;
    let path = std::path::absolute(&args.out)?;
    let word = match verdict {
        Verdict::Holds if story.is_only_measured() => "measured",
        verdict => verdict.word(),
    };
    if args.json {
        let answer = Reported {
            approximate: approximation.approximate,
            error: approximation.error,
            scores: super::json::scores(&scores),
            expectations: expectations(&held),
            knee_clients: answer.knee,
            answer: &answer.lines,
            report: &path,
        };
        say(out, &cli::json::answer(verdict, word, &answer))?;
        return Ok(verdict);
    }
    let line = sentence(&format!("{word}: {line}"));
    let text = format!("{line}\n{}", reasons(&held, answer.lines.iter().chain(&notes)));
    say(out, &format!("{text}\n  report: {}\n", path.display()))?;
    Ok(verdict)
}

/// The limits that do not hold, and what else the page says at its top.
fn reasons<'a>(held: &[Held], lines: impl Iterator<Item = &'a String>) -> String {
    let failing = held.iter().filter(|held| held.outcome.verdict != Verdict::Holds);
    let failing = failing.map(|held| {
        paragraph(&format!(
            "{}: run {}: {}",
            held.outcome.verdict.word(),
            held.run,
            held.outcome.line
        ))
    });
    failing.chain(lines.map(|line| paragraph(line))).collect()
}

/// What a report tells.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reported<'a> {
    /// True if the formula's numbers are approximate.
    approximate: bool,
    /// The largest relative error where the formula was tried.
    error: Option<f64>,
    /// The prediction, held against each run of one of its loads.
    scores: Vec<ScoreAnswer<'a>>,
    /// Every run, held against its limits and those that were given.
    expectations: Vec<ExpectationOfRun<'a>>,
    /// Clients at which the asymptotes of the throughput meet; none where it is not known.
    knee_clients: Option<f64>,
    /// The answer in words.
    answer: &'a [String],
    /// File of the report.
    report: &'a Path,
}

impl Answer for Reported<'_> {
    const FORMAT: &'static str = "sekisho/report/1";
}

/// A limit, held against a run.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExpectationOfRun<'a> {
    /// Name of the run.
    run: &'a str,
    #[serde(flatten)]
    expectation: ExpectationAnswer<'a>,
}

fn expectations(held: &[Held]) -> Vec<ExpectationOfRun<'_>> {
    held.iter()
        .map(|one| ExpectationOfRun { run: &one.run, expectation: one.outcome.answer() })
        .collect()
}

/// Every run against the limits with which it was measured, and those given now.
fn held(runs: &[RunRecord], given: &[Expectation]) -> Vec<Held> {
    let mut all = Vec::new();
    for run in runs {
        let judgement = run.judge(0.95);
        let mut limits = expected(run);
        limits.extend(
            given.iter().filter(|limit| !limits.contains(limit)).cloned().collect::<Vec<_>>(),
        );
        all.extend(limits.iter().map(|limit| {
            let outcome = expect(limit, run, &judgement);
            Held { run: run.header.id.clone(), limit: limit.to_string(), outcome }
        }));
    }
    all
}

/// `; of 3 limits 2 hold, 1 fails`.
fn of_limits(held: &[Held]) -> String {
    let count = |verdict| held.iter().filter(|held| held.outcome.verdict == verdict).count();
    let several = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let all = held.len();
    match (all, count(Verdict::Holds)) {
        (0, _) => String::new(),
        (1, 1) => "; the limit holds".into(),
        (1, _) => format!("; {}", held[0].outcome.line),
        (_, holding) if all == holding => format!("; all {all} limits hold"),
        (_, holding) => {
            let parts = [
                several(holding, "holds", "hold"),
                several(count(Verdict::Fails), "fails", "fail"),
                several(count(Verdict::Inconclusive), "is unclear", "are unclear"),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("; of {all} limits {}", parts.join(", "))
        }
    }
}

/// Subject in a line; `scores` of so many `runs` speak of the prediction.
fn line(prediction: Option<&Prediction>, runs: usize, scores: usize, held: &[Held]) -> String {
    let several = match runs {
        1 => "1 run".to_owned(),
        _ => format!("{runs} runs"),
    };
    match (prediction, scores) {
        (None, _) if held.is_empty() => format!("{several}, no prediction to hold against"),
        (None, _) => several + &of_limits(held),
        (Some(prediction), _) if runs == 0 => {
            let (name, headline) = (&prediction.scenario.name, ask::headline(prediction));
            format!("{name}: {}", headline.trim_start_matches("answered: "))
        }
        (Some(prediction), scores) => {
            let by_formula = prediction.approximation().of_formula();
            let limits = of_limits(held);
            format!("{several}, {scores} held against the prediction{by_formula}{limits}")
        }
    }
}

/// Each run of which the prediction speaks, held against it.
fn scored(
    prediction: &Prediction,
    runs: &[RunRecord],
    slots: Option<u32>,
) -> Result<Vec<Score>, Failure> {
    let options = Options { seed: prediction.seed, ..quick() };
    let mut scores = Vec::new();
    for run in runs {
        if slots.is_none() && slots_told(prediction, run).len() > 1 {
            continue;
        }
        if let Some(point) = advise::point_for(prediction, run, slots) {
            let tolerance = Tolerance::default();
            let score = turning("simulating what was measured", || {
                advise::score(&prediction.scenario, point, run, tolerance, &options)
            });
            scores.push(score.map_err(Failure::usage)?);
        }
    }
    Ok(scores)
}

/// Prediction by formula and simulation of a scenario at the load that it has and, where that is
/// the load of one class, around it: a curve tells more than a point.
fn around_its_load(scenario: Scenario) -> Result<Prediction, Failure> {
    let mut question = Question::default();
    match scenario.classes.as_slice() {
        [class] => {
            question.clients.extend(class.population.into_iter().flat_map(clients_around));
            question.rates.extend(class.rate.into_iter().flat_map(rates_up_to));
        }
        classes => {
            question.clients.extend(classes.iter().filter_map(|class| class.population));
            question.rates.extend(classes.iter().filter_map(|class| class.rate).map(|rate| rate.0));
        }
    }
    let seed = scenario.seed.unwrap_or(1);
    ask::predict(scenario, &question, seed)
}

/// From one client to twice as many as there are.
fn clients_around(population: u32) -> Vec<u32> {
    let around = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0].map(|share| f64::from(population) * share);
    let mut clients: Vec<u32> = around.map(|clients| clients.ceil() as u32).into();
    clients.insert(0, 1);
    clients.dedup();
    clients
}

/// Up to the rate that there is: above it the queues may grow without end.
fn rates_up_to(Rate(rate): Rate) -> Vec<f64> {
    [0.2, 0.4, 0.6, 0.8, 0.9, 1.0].map(|share| share * rate).into()
}
