//! `sekisho report`: records and a prediction as one HTML file.

use std::io::Write;
use std::path::PathBuf;

use advise::{Prediction, Score, Tolerance};
use clap::Args as ClapArgs;
use sim::Options;

use super::check::{quick, read_prediction, verdict_of};
use super::loop_report::{Story, page};
use crate::session::say;
use crate::store;
use crate::verdict::{Failure, Verdict};

/// Turn run records (.jsonl) and a stored prediction (.json) into one HTML file
///
/// Runs that the prediction speaks of are scored.
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho report .sekisho/runs/RUN.jsonl --out report.html")]
pub(crate) struct Args {
    /// Run records and at most one prediction
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the report is written
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let mut runs = Vec::new();
    let mut prediction: Option<Prediction> = None;
    for path in &args.files {
        if path.extension().is_some_and(|extension| extension == "json") {
            if prediction.is_some() {
                return Err(Failure::Usage("a report takes at most one prediction (.json)".into()));
            }
            prediction = Some(read_prediction(path)?);
        } else {
            runs.push(store::read_run(path)?);
        }
    }
    let mut scores: Vec<Score> = Vec::new();
    if let Some(prediction) = &prediction {
        let options = Options { seed: prediction.seed, ..quick() };
        for run in &runs {
            if let Some(point) = advise::point_for(prediction, run, None) {
                let tolerance = Tolerance::default();
                let score = advise::score(&prediction.scenario, point, run, tolerance, &options);
                scores.push(score.map_err(Failure::usage)?);
            }
        }
    }
    let valid = runs.iter().all(|run| run.judge(0.95).is_valid());
    let scored = scores.iter().map(Score::right).max().map_or(Verdict::Holds, verdict_of);
    let verdict = if valid { scored } else { scored.and(Verdict::Invalid) };
    let several = match runs.len() {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let line = match (&prediction, scores.len()) {
        (None, _) => format!("{several}, no prediction to hold against"),
        (Some(_), scores) => format!("{several}, {scores} held against the prediction"),
    };
    let report = page(&Story {
        title: "Sekisho report",
        verdict,
        line: line.clone(),
        runs: &runs,
        fit: None,
        prediction: prediction.as_ref(),
        scores: &scores,
        notes: &[],
    })?;
    report.write(&args.out).map_err(Failure::machine)?;
    let path = std::path::absolute(&args.out)?;
    if args.json {
        let scores: Vec<_> = scores.iter().map(super::json::score).collect();
        let object = serde_json::json!({
            "verdict": verdict.word(), "exit_code": verdict.code(),
            "scores": scores, "report": path,
        });
        say(out, &format!("{object}\n"))?;
        return Ok(verdict);
    }
    say(out, &format!("{}: {line}\n\n  report: {}\n", verdict.word(), path.display()))?;
    Ok(verdict)
}
