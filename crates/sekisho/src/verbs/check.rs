//! `sekisho check`: runs against expectations, or against a stored prediction.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use advise::{Prediction, Quantity, Right, Score, Tolerance, Value};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{
    Table, count, filled, label, next, paragraph, percent, quoted, rate, rate_estimate, sentence,
    shell_word, time, time_estimate,
};
use cli::{Failure, Verdict, say, store, turning};
use expectations::{
    Checked, Expectation, ExpectationAnswer, Kind, Outcome, expect, of_runs, quantity_text,
    shortest, verdict_of,
};
use measure::{Change, ChangeVerdict, LoadShape, RunHeader, RunRecord};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Options;

use super::invalid;
use super::json::{RunAnswer, ScoreAnswer};
use super::newest::Newest;
use super::typed::Typed;

mod knees;

pub(super) use knees::CheckedKnee;

/// Hold runs against expectations, or against a stored prediction
#[derive(ClapArgs)]
#[command(after_help = "\
Limits: pQQ (any quantile), max, mean, rate or errors, for all documents or for
one: 'p99<50ms', 'p95(5k)<20ms', 'max<1s', 'mean<10ms', 'rate>=900/s',
'errors<0.1%'.

The record of a search for a knee, ID.knee.json, is held against limits on the
knee: 'knee>=400/s'.

Of several runs on each side, --against knows what differs from run to run; of
one on each side it does not.

Examples:
  sekisho check .sekisho/runs/RUN.jsonl --expect 'p99<50ms'
  sekisho check .sekisho/runs/RUN.jsonl --prediction .sekisho/predictions/P.json
  sekisho check --last 1 --expect 'p99<50ms'
  sekisho check service.knee.json --expect 'knee>=100/s'
  sekisho check .sekisho/runs/RUN.jsonl --against .sekisho/runs/RUN.jsonl")]
pub(crate) struct Args {
    /// Run records, of TPC-C's transactions without waits too; or records of searches for a knee
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    newest: Newest,
    /// A limit that every run must hold
    #[arg(long, value_name = "LIMIT")]
    expect: Vec<Expectation>,
    /// A stored prediction to be scored by the runs
    #[arg(long, value_name = "FILE")]
    prediction: Option<PathBuf>,
    /// An earlier run that the runs may not be worse than, by 5 % or more; given several times, several runs
    #[arg(long, value_name = "RUN")]
    against: Vec<PathBuf>,
    /// The slots that the server had, where the prediction speaks of several numbers
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Also write the outcomes as JUnit XML, for a build server
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write the outcomes as a Markdown table, for a comment
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON object a run instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.expect.is_empty() && args.prediction.is_none() && args.against.is_empty() {
        return Err(Failure::Usage(
            "nothing to check against: say `--expect 'p99<50ms'`, `--prediction FILE` or \
             `--against RUN`"
                .into(),
        ));
    }
    let runs = args.newest.with(&args.runs)?;
    let all = || runs.iter().chain(&args.against);
    if all().any(|path| store::is_knee(path)) {
        if let Some(run) = all().find(|path| !store::is_knee(path)) {
            return Err(Failure::Usage(format!(
                "{} is a run, and others are searches for a knee: limits on the one say nothing of the other, so \
                 check them apart",
                run.display()
            )));
        }
        return knees::run(args, &runs, out);
    }
    let read = |path: &PathBuf| tpcc_verbs::read_run(path);
    let prediction = args.prediction.as_deref().map(read_prediction).transpose()?;
    let baseline = args.against.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let records = runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // What cannot be read is no run, whatever the limits are on.
    of_runs(&args.expect)?;
    // Several runs are compared as a whole, a single one beside its limits.
    let several = !baseline.is_empty() && baseline.len() + records.len() > 2;
    let mut verdict = Verdict::Holds;
    let mut all = Vec::new();
    for record in &records {
        let beside = if several { &[][..] } else { &baseline[..] };
        let one = check(args, record, beside, prediction.as_ref(), out)?;
        verdict = verdict.and(one.verdict);
        all.push(one);
    }
    if several {
        let one = compared(&baseline, &records);
        show_compared(args, &one, out)?;
        verdict = verdict.and(one.verdict);
        all.push(one);
    }
    expectations::write(args.junit.as_deref(), args.markdown.as_deref(), &all)?;
    if !args.json {
        say(out, &format!("\n{}", next(&args.report(&runs))))?;
    }
    Ok(verdict)
}

impl Args {
    /// The report of these runs, held against the same.
    fn report(&self, runs: &[PathBuf]) -> String {
        let mut command = "sekisho report".to_owned();
        for path in runs.iter().chain(&self.prediction) {
            command += &format!(" {}", shell_word(path));
        }
        if let (Some(slots), Some(_)) = (self.slots, &self.prediction) {
            command += &format!(" --slots {slots}");
        }
        for limit in &self.expect {
            command += &format!(" --expect {}", quoted(&limit.to_string()));
        }
        command
    }
}

/// Limits that a run, or a search for a knee, was measured with, as its command line has them.
pub(crate) fn expected(header: &RunHeader) -> Vec<Expectation> {
    let typed = Typed::of(&header.command);
    let limits = typed.iter().flat_map(|typed| typed.values("expect"));
    limits.filter_map(|limit| limit.parse().ok()).collect()
}

/// A run, held against limits, an earlier run and a prediction.
#[derive(Serialize, JsonSchema)]
pub(super) struct CheckedRun<'a> {
    #[serde(flatten)]
    run: RunAnswer<'a>,
    /// True if the prediction rests on an approximate formula; none without a prediction.
    approximate: Option<bool>,
    /// The largest relative error where that formula was tried.
    error: Option<f64>,
    /// The prediction, quantity by quantity, if there is one.
    score: Option<ScoreAnswer<'a>>,
    /// Files that were written, if they were asked for; one for all runs of a command.
    junit: Option<&'a Path>,
    /// The Markdown file, if one was asked for.
    markdown: Option<&'a Path>,
}

impl Answer for CheckedRun<'_> {
    const FORMAT: &'static str = "sekisho/check/1";
}

/// Several runs against several earlier ones.
#[derive(Serialize, JsonSchema)]
pub(super) struct CheckedRuns<'a> {
    /// Runs that are compared, in words.
    comparison: &'a str,
    /// Comparisons of all runs with those before.
    expectations: Vec<ExpectationAnswer<'a>>,
    /// Files that were written, if they were asked for; one for all runs of a command.
    junit: Option<&'a Path>,
    /// The Markdown file, if one was asked for.
    markdown: Option<&'a Path>,
}

impl Answer for CheckedRuns<'_> {
    const FORMAT: &'static str = "sekisho/check-runs/1";
}

/// One run against its limits, a single earlier run and a prediction.
fn check(
    args: &Args,
    record: &RunRecord,
    baseline: &[RunRecord],
    prediction: Option<&Prediction>,
    out: &mut dyn Write,
) -> Result<Checked, Failure> {
    // Only for the limits: a prediction and an earlier run are held against the times themselves.
    let only_limits = prediction.is_none() && args.against.is_empty();
    let judgement = record.judge_for(0.95, shortest(&args.expect).filter(|_| only_limits));
    let mut outcomes: Vec<Outcome> =
        args.expect.iter().map(|expectation| expect(expectation, record, &judgement)).collect();
    for baseline in baseline {
        outcomes.extend(changes(&[baseline], &[record]));
    }
    outcomes.extend(judgement.faults.iter().map(Outcome::fault));
    if judgement.is_valid() {
        // Of a load that varies each phase is judged by itself, too.
        let phases = record.judge_phases(0.95).into_iter();
        let first = phases.flat_map(|phase| phase.judgement.faults).next();
        outcomes.extend(first.as_ref().map(Outcome::fault));
    }
    let score = prediction.map(|p| score_of(p, record, args.slots)).transpose()?;
    let scored = score.as_ref().map_or(Verdict::Holds, |score| verdict_of(score.right()));
    let verdict = outcomes.iter().fold(scored, |all, outcome| all.and(outcome.verdict));
    if args.json {
        let answer = CheckedRun {
            run: RunAnswer::new(record, &judgement, &outcomes),
            approximate: score.as_ref().map(|score| score.approximation.approximate),
            error: score.as_ref().and_then(|score| score.approximation.error),
            score: score.as_ref().map(ScoreAnswer::from),
            junit: args.junit.as_deref(),
            markdown: args.markdown.as_deref(),
        };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        let by_formula =
            score.as_ref().map_or(String::new(), |score| score.approximation.of_formula());
        let load = load_text(record);
        let line = format!("{}: {}: {load}{by_formula}", verdict.word(), record.header.id);
        say(out, &sentence(&line))?;
        for outcome in &outcomes {
            say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
        }
        let changes =
            invalid::change(&[(record, &judgement)], None).map_or(Vec::new(), |it| it.why);
        for change in changes {
            say(out, &paragraph(&format!("to change: {change}")))?;
        }
        if let Some(score) = &score {
            say(out, &score_text(score))?;
        }
    }
    // A prediction is a case of its own in the files.
    if let Some(score) = &score {
        let line = format!("{} quantities", score.rows.len());
        outcomes.push(Outcome::new(Kind::Prediction, scored, "prediction", &line));
    }
    Ok(Checked { name: record.header.id.clone(), load: load_text(record), verdict, outcomes })
}

/// Several runs against several earlier ones.
fn compared(baseline: &[RunRecord], records: &[RunRecord]) -> Checked {
    let (a, b): (Vec<&RunRecord>, Vec<&RunRecord>) =
        (baseline.iter().collect(), records.iter().collect());
    let outcomes = changes(&a, &b);
    let verdict = outcomes.iter().fold(Verdict::Holds, |all, outcome| all.and(outcome.verdict));
    let runs = |of: &[RunRecord]| count(of.len() as u64, "run");
    let name = format!("{} against {}", runs(records), runs(baseline));
    Checked { name, load: load_text(&records[0]), verdict, outcomes }
}

fn show_compared(args: &Args, one: &Checked, out: &mut dyn Write) -> Result<(), Failure> {
    if args.json {
        let answer = CheckedRuns {
            comparison: &one.name,
            expectations: one.outcomes.iter().map(Outcome::answer).collect(),
            junit: args.junit.as_deref(),
            markdown: args.markdown.as_deref(),
        };
        return say(out, &cli::json::answer(one.verdict, one.verdict.word(), &answer));
    }
    say(out, &sentence(&format!("{}: {}", one.verdict.word(), one.name)))?;
    for outcome in &one.outcomes {
        say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
    }
    Ok(())
}

/// The smallest change between two runs that matters.
const DIFFERENCE_MIN: f64 = 0.05;

/// Runs against earlier ones: the ratio of each quantity with its interval. To be better is fine; an interval
/// that leaves it open is inconclusive.
fn changes(baseline: &[&RunRecord], records: &[&RunRecord]) -> Vec<Outcome> {
    let compared = measure::compare_runs(baseline, records, 0.95, DIFFERENCE_MIN);
    let against = match baseline {
        [one] => one.header.id.clone(),
        several => count(several.len() as u64, "run"),
    };
    let change = |what: &str, change: &Change| {
        let (verdict, word) = match change.verdict {
            ChangeVerdict::Better => (Verdict::Holds, "better"),
            ChangeVerdict::NoDifference => (Verdict::Holds, "the same for all that matters"),
            ChangeVerdict::Worse => (Verdict::Fails, "worse"),
            ChangeVerdict::Inconclusive => (Verdict::Inconclusive, "not clear"),
        };
        let ratio = change.ratio.map_or("not known in both".into(), |ratio| match ratio.high {
            high if high.is_finite() => {
                format!("{:.3} times ({:.3} to {high:.3})", ratio.ratio, ratio.low)
            }
            _ => format!("{:.3} times (its interval is not known)", ratio.ratio),
        });
        let name = format!("{what} against {against}");
        let outcome = Outcome::new(Kind::Change, verdict, &name, &format!("{ratio}: {word}"));
        match change.ratio {
            Some(ratio) => outcome.found_between(ratio.ratio, ratio.low, ratio.high).of_ratio(),
            None => outcome,
        }
    };
    let mut outcomes = vec![
        change("throughput", &compared.throughput),
        change("mean response", &compared.response),
        change("p99", &compared.p99),
    ];
    if !compared.differing.is_empty() {
        let line = format!("the runs differ in {}", compared.differing.join(", "));
        outcomes.push(Outcome::named_by(Kind::Change, Verdict::Inconclusive, line));
    }
    // A single run's faults stand beside its limits.
    if baseline.len() + records.len() > 2 {
        let faults = compared.faults.iter().flatten();
        outcomes.extend(faults.map(Outcome::fault));
    }
    outcomes
}

/// Reads a stored prediction.
pub(crate) fn read_prediction(path: &Path) -> Result<Prediction, Failure> {
    let text = store::read_text(path, "prediction")?;
    let broken = |error: &dyn fmt::Display| {
        Failure::Usage(format!("{}: it is no stored prediction: {error}", path.display()))
    };
    let prediction: Prediction = serde_json::from_str(&text).map_err(|error| broken(&error))?;
    if prediction.sekisho_prediction != 1 {
        return Err(broken(&format!(
            "its format version is {}, this program reads version 1",
            prediction.sekisho_prediction
        )));
    }
    Ok(prediction)
}

/// Scores the part of a prediction that speaks of a run's load.
fn score_of(
    prediction: &Prediction,
    record: &RunRecord,
    slots: Option<u32>,
) -> Result<Score, Failure> {
    let several = slots_told(prediction, record);
    if slots.is_none() && several.len() > 1 {
        let several: Vec<String> = several.iter().map(u32::to_string).collect();
        return Err(Failure::Usage(format!(
            "the prediction {} speaks of {} with {} slots: say with `--slots` how many the server had",
            prediction.id,
            advise::load_of(record),
            several.join(" and ")
        )));
    }
    let Some(point) = advise::point_for(prediction, record, slots) else {
        let known: Vec<String> =
            prediction.points.iter().map(|point| point_text(point.load, point.slots)).collect();
        return Err(Failure::Usage(format!(
            "the prediction {} says nothing of {}; it speaks of {}",
            prediction.id,
            point_text(advise::load_of(record), slots),
            known.join(", ")
        )));
    };
    let options = Options { seed: prediction.seed, ..quick() };
    let (scenario, tolerance) = (&prediction.scenario, Tolerance::default());
    turning("simulating", || advise::score(scenario, point, record, tolerance, &options))
        .map_err(Failure::usage)
}

/// The numbers of slots with which a prediction speaks of a run's load.
pub(crate) fn slots_told(prediction: &Prediction, record: &RunRecord) -> BTreeSet<u32> {
    let load = advise::load_of(record);
    let points = prediction.points.iter().filter(|point| point.load == load);
    points.filter_map(|point| point.slots).collect()
}

/// Simulations that only explain need not be precise.
pub(crate) fn quick() -> Options {
    Options { precision: 0.02, completions_max: 200_000, ..Options::default() }
}

/// A load and its slots in words: `32 clients, 4 slots`.
pub(crate) fn point_text(load: advise::Load, slots: Option<u32>) -> String {
    match slots {
        Some(1) => format!("{load}, 1 slot"),
        Some(slots) => format!("{load}, {slots} slots"),
        None => load.to_string(),
    }
}

fn right_word(right: Right) -> &'static str {
    match right {
        Right::Yes => "yes",
        Right::CannotTell => "unsure",
        Right::No => "no",
    }
}

/// Predicted, simulated and measured side by side, and what accounts for the rest.
pub(crate) fn score_text(score: &Score) -> String {
    let mut table =
        Table::new(&["", "requests", "formula", "simulated", "measured", "error", "right"]);
    for row in &score.rows {
        let value = |value: Value| match row.quantity {
            Quantity::Throughput => rate(value.mean),
            Quantity::Response | Quantity::Document { .. } => time(value.mean),
        };
        let measured = match row.quantity {
            Quantity::Throughput => rate_estimate(&row.measured),
            Quantity::Response | Quantity::Document { .. } => time_estimate(&row.measured),
        };
        table.row(vec![
            label(&quantity_text(&row.quantity)),
            row.completed.to_string(),
            row.formula.map_or("-".into(), value),
            value(row.simulated),
            measured,
            percent(row.error()),
            right_word(row.right).into(),
        ]);
    }
    let mut text = format!("\n{table}");
    if !score.accounts.is_empty() {
        text += "\n  mean response, from the formula to the measurement:\n";
        let mut before: Option<f64> = None;
        for account in &score.accounts {
            let step =
                before.map_or(String::new(), |before| percent(account.response / before - 1.0));
            let response = time(account.response);
            text +=
                &filled(&format!("    {response:>9} {step:>8}  "), &" ".repeat(24), &account.what);
            before = Some(account.response);
        }
    }
    for beyond in &score.beyond {
        text += &paragraph(&format!("beyond the calibration: {beyond}"));
    }
    text
}

/// A run's load in words.
pub(crate) fn load_text(record: &RunRecord) -> String {
    match record.header.load {
        LoadShape::Varying { .. } => cli::phases::load_text(record),
        LoadShape::Closed { clients, think_s } if think_s > 0.0 => {
            format!("closed load, {clients} clients that think {}", time(think_s))
        }
        LoadShape::Closed { clients: 1, .. } => "closed load, 1 client".into(),
        LoadShape::Closed { clients, .. } => format!("closed load, {clients} clients"),
        LoadShape::Poisson { rate: asked, .. } => format!("open load, Poisson, {}", rate(asked)),
        LoadShape::Fixed { rate: asked, .. } => format!("open load, fixed rate, {}", rate(asked)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty intervals of a client's requests that take so long.
    fn run(id: &str, seconds: f64) -> RunRecord {
        let clients = |seconds: f64| {
            let mut counts = measure::ClassCounts { completed: 1000, ..Default::default() };
            for nth in 0..1000 {
                let span = seconds * (1.0 + 0.001 * f64::from(nth % 5));
                counts.total.record(std::time::Duration::from_secs_f64(span));
            }
            counts
        };
        RunRecord {
            header: measure::RunHeader {
                id: id.into(),
                started: String::new(),
                tool: String::new(),
                command: Vec::new(),
                seed: 1,
                host: measure::Host::default(),
                target: "http://127.0.0.1/".into(),
                load: LoadShape::Closed { clients: 1, think_s: 0.0 },
                until: measure::Until::Seconds(20.0),
                warmup_s: 0.0,
                classes: vec![measure::ClassSpec { name: "/".into(), bytes: None, weight: 1 }],
                settings: std::collections::BTreeMap::new(),
                part: None,
                merged: Vec::new(),
            },
            intervals: (0..20)
                .map(|nth| measure::Interval {
                    start_s: f64::from(nth) * 1000.0 * seconds,
                    length_s: 1000.0 * seconds,
                    classes: vec![clients(seconds)],
                    in_flight_mean: 1.002,
                    started: 1000,
                    connects: 0,
                    lag: measure::Histogram::new(),
                    generator: measure::GeneratorHealth { thread_cpu_s: vec![0.01] },
                })
                .collect(),
            summary: None,
        }
    }

    #[test]
    fn a_run_is_no_worse_than_itself_and_a_slower_one_is() {
        let all = |of: &[Outcome]| of.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict));
        let (first, slower) = (run("first", 0.01), run("slower", 0.02));
        let same = changes(&[&first], &[&first]);
        let lines: Vec<&str> = same.iter().map(|outcome| outcome.line.as_str()).collect();
        assert_eq!(all(&same), Verdict::Holds, "{lines:?}, {:?}", first.judge(0.95).faults);
        let against = changes(&[&first], &[&slower]);
        assert_eq!(all(&against), Verdict::Fails);
        assert!(against[1].line.contains("worse"), "{}", against[1].line);
        assert_eq!(all(&changes(&[&slower], &[&first])), Verdict::Holds, "better is fine");
    }

    /// The story: of a generator that had no processor left it said `use more threads`, where the run itself had said to
    /// ask for less.
    #[test]
    fn a_run_that_is_invalid_is_told_with_what_to_change() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let typed = ["check", "run.jsonl", "--expect", "p99<1s"];
        let Line { args } = clap::Parser::parse_from(typed);
        let told = |cpu_s: f64| {
            let mut record = run("one", 0.01);
            record.header.host.cpus = 1;
            for interval in &mut record.intervals {
                interval.generator.thread_cpu_s = vec![cpu_s];
            }
            let mut out = Vec::new();
            let checked = check(&args, &record, &[], None, &mut out).expect("it is written");
            let text = String::from_utf8(out).expect("it is a text");
            (checked.verdict, text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let (verdict, text) = told(9.9);
        assert_eq!(verdict, Verdict::Invalid, "{text}");
        let change = "to change: the generator was the limit, and there is no processor left for it: ask for less";
        assert!(text.contains(change) && !text.contains("threads"), "{text}");
        let (verdict, text) = told(0.01);
        assert!(verdict == Verdict::Holds && !text.contains("to change"), "{text}");
    }
}
