//! `sekisho report`: records, and a prediction or a scenario, as one HTML file.

use std::io::Write;
use std::path::{Path, PathBuf};

use advise::{Approximation, Prediction, Question, Rate, Scenario, Score, Tolerance};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{paragraph, sentence};
use cli::{Failure, Verdict, say, store, turning};
use expectations::{
    Expectation, ExpectationAnswer, Metric, expect, of_knees, of_runs, shortest, verdict_of,
};
use formats::exchange::read_scenario;
use measure::{Judgement, KneeRecord, RunHeader, RunRecord};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Options;

use super::ask;
use super::check::{expected, quick, read_prediction, slots_told};
use super::json::ScoreAnswer;
use super::knee::{Judged, judged};
use super::loop_report::{self, Held, Story, page};
use super::newest::Newest;
use cli::phases;

/// Turn run records (.jsonl, .tpcc.json), searches for a knee (.knee.json), a stored prediction (.json) or a scenario
/// (.toml) into one HTML file
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
    /// Run records, searches for a knee, and at most one prediction or scenario
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

/// Contents of the files: runs, searches for a knee, and at most one prediction.
#[derive(Default)]
struct Contents {
    runs: Vec<RunRecord>,
    knees: Vec<KneeRecord>,
    prediction: Option<Prediction>,
}

fn read(files: &[PathBuf]) -> Result<Contents, Failure> {
    let (mut runs, mut knees) = (Vec::new(), Vec::new());
    let mut prediction: Option<Prediction> = None;
    for path in files {
        if tpcc_verbs::is_record(path) {
            runs.push(turning("reading", || tpcc_verbs::read_run(path))?);
            continue;
        }
        if store::is_knee(path) {
            knees.push(store::read_knee(path)?);
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
    Ok(Contents { runs, knees, prediction })
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
    let Contents { runs, knees, prediction } = read(&files)?;
    let score = |prediction| scored(prediction, &runs, args.slots);
    let scores = prediction.as_ref().map_or(Ok(Vec::new()), score)?;
    let limits = Limits { given: &args.expect, prediction: prediction.is_some() };
    limits.hold(&runs, &knees)?;
    let judged = limits.judge(&runs);
    let valid = judged.iter().all(is_valid);
    let right = scores.iter().map(Score::right).max().map_or(Verdict::Holds, verdict_of);
    let mut held = limits.held(&judged);
    let (found, of_knees) = limits.of_knees(&knees, &mut held);
    let kept = held.iter().fold(right, |all, held| all.and(held.outcome.verdict)).and(of_knees);
    let verdict = if valid { kept } else { kept.and(Verdict::Invalid) };
    let mut answer = match &prediction {
        Some(prediction) => loop_report::of_prediction(prediction),
        None => turning("fitting", || loop_report::of_runs(&runs)),
    };
    // The first knee stands in the first line, where there is no run.
    answer.begin_with(found.iter().skip(usize::from(runs.is_empty())));
    let notes = unclear(prediction.as_ref(), &runs, args.slots);
    // The page shows the formula's curve, wherever runs were held against it.
    let approximation = prediction.as_ref().map_or(Approximation::NONE, Prediction::approximation);
    let line = match (&found[..], &prediction) {
        ([first, ..], None) if runs.is_empty() => first.clone() + &of_limits(&held),
        _ => line(prediction.as_ref(), runs.len(), scores.len(), &held),
    };
    let is_scenario = |path: &&PathBuf| path.extension().is_some_and(|end| end == "toml");
    let story = Story {
        title: "Sekisho report",
        verdict,
        line: line.clone(),
        judged,
        runs: &runs,
        knees: &knees,
        fit: None,
        prediction: prediction.as_ref(),
        scenario: files.iter().find(is_scenario).map(PathBuf::as_path),
        scores: &scores,
        notes: &notes,
        held: &held,
        answer: &answer,
        more: Vec::new(),
    };
    turning("drawing", || page(&story))?.write(&args.out).map_err(Failure::machine)?;
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
            knees: knees.iter().map(KneeOfSearch::from).collect(),
            answer: &answer.lines,
            report: &path,
        };
        say(out, &cli::json::answer(verdict, word, &answer))?;
        return Ok(verdict);
    }
    let why = reasons(&held, answer.lines.iter().chain(&notes));
    let gap = if why.is_empty() { "" } else { "\n" };
    let line = sentence(&format!("{word}: {line}"));
    say(out, &format!("{line}{gap}{why}\n  report: {}\n", path.display()))?;
    Ok(verdict)
}

/// True if a run, and each phase of it, says something of the server.
fn is_valid((run, judgement): &(&RunRecord, Judgement)) -> bool {
    judgement.is_valid() && !phases::invalid(&run.judge_phases(0.95))
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
    /// The searches for a knee.
    knees: Vec<KneeOfSearch<'a>>,
    /// The answer in words.
    answer: &'a [String],
    /// File of the report.
    report: &'a Path,
}

impl Answer for Reported<'_> {
    const FORMAT: &'static str = "sekisho/report/1";
}

/// A search for a knee.
#[derive(Serialize, JsonSchema)]
pub(super) struct KneeOfSearch<'a> {
    /// Name of the search.
    id: &'a str,
    /// The limit under which the knee was looked for.
    limit: &'a str,
    /// The highest rate at which it was seen to hold.
    knee_low_per_s: Option<f64>,
    /// The lowest rate at which it was seen to fail.
    knee_high_per_s: Option<f64>,
}

impl<'a> From<&'a KneeRecord> for KneeOfSearch<'a> {
    fn from(of: &'a KneeRecord) -> KneeOfSearch<'a> {
        let (knee_low_per_s, knee_high_per_s) = of.knee.ends();
        KneeOfSearch { id: &of.header.id, limit: &of.limit.text, knee_low_per_s, knee_high_per_s }
    }
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

/// Limits of a report: those with which a run, or a knee, was measured, and those given now.
struct Limits<'a> {
    given: &'a [Expectation],
    /// True beside a prediction, which is held against the times themselves.
    prediction: bool,
}

impl Limits<'_> {
    /// Checks that what is given can be held by what there is.
    fn hold(&self, runs: &[RunRecord], knees: &[KneeRecord]) -> Result<(), Failure> {
        match (runs.is_empty(), knees.is_empty()) {
            (true, false) => of_knees(self.given),
            (_, true) => of_runs(self.given),
            (false, false) => Ok(()),
        }
    }

    /// Limits of a run; a limit on a knee is none of them.
    fn of_run(&self, run: &RunRecord) -> Vec<Expectation> {
        self.of(&run.header).into_iter().filter(|limit| limit.metric != Metric::Knee).collect()
    }

    fn of(&self, header: &RunHeader) -> Vec<Expectation> {
        let mut limits = expected(header);
        let more = self.given.iter().filter(|limit| !limits.contains(limit)).cloned();
        let more: Vec<Expectation> = more.collect();
        limits.extend(more);
        limits
    }

    /// Runs, each judged for the sake of its limits.
    fn judge<'r>(&self, runs: &'r [RunRecord]) -> Vec<(&'r RunRecord, Judgement)> {
        let judged = |run: &RunRecord| {
            run.judge_for(0.95, shortest(&self.of_run(run)).filter(|_| !self.prediction))
        };
        runs.iter().map(|run| (run, judged(run))).collect()
    }

    fn held(&self, judged: &[(&RunRecord, Judgement)]) -> Vec<Held> {
        let of = |(run, judgement): &(&RunRecord, Judgement)| -> Vec<Held> {
            let limits = self.of_run(run).into_iter().map(|limit| {
                let outcome = expect(&limit, run, judgement);
                Held { run: run.header.id.clone(), limit: limit.to_string(), outcome }
            });
            limits.collect()
        };
        judged.iter().flat_map(of).collect()
    }

    /// Findings and verdict of searches for a knee; limits on a knee are added to what is held.
    fn of_knees(&self, knees: &[KneeRecord], held: &mut Vec<Held>) -> (Vec<String>, Verdict) {
        let (mut lines, mut all) = (Vec::new(), Verdict::Holds);
        for knee in knees {
            let Judged { verdict, line, outcomes } = self.of_knee(knee);
            all = all.and(verdict);
            lines.push(line);
            held.extend(outcomes.into_iter().map(|outcome| Held {
                run: knee.header.id.clone(),
                limit: outcome.name.clone(),
                outcome,
            }));
        }
        (lines, all)
    }

    fn of_knee(&self, knee: &KneeRecord) -> Judged {
        let mut limits = self.of(&knee.header);
        limits.retain(|limit| limit.metric == Metric::Knee);
        judged(&knee.into(), &knee.limit.text, &limits, "threads or processors")
    }
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
