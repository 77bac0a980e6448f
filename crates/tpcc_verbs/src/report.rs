//! `sekisho tpcc report`: kept records as one HTML page; and the page that `run` and `stress` write.

use std::io::Write;
use std::path::{Path, PathBuf};

use ::tpcc::{Finding, Outcome};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{paragraph, sentence};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;

use super::kept::Kept;
use super::page::{Run, apart, headline, page};
use super::terminals;

/// Turn the record of a run, or of several, into one HTML file
///
/// Of one run: throughput over time, how every response time and the think times are distributed,
/// each rule and what became of it, each deviation. Of several: without waits, throughput and
/// response against connections; paced, against warehouses.
#[derive(ClapArgs)]
#[command(after_help = "\
The exit code is that of the worst of the runs.

Examples:
  sekisho tpcc report .sekisho/runs/ID.tpcc.json
  sekisho tpcc report .sekisho/runs/*.tpcc.json --out tpcc.html")]
pub(super) struct Args {
    /// Records of `tpcc run` or of `tpcc stress`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What a report of runs tells.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReportedRuns<'a> {
    /// All in one line.
    finding: String,
    /// Names of the runs.
    runs: Vec<&'a str>,
    /// Outcome of each run.
    outcomes: Vec<&'a Outcome>,
    /// Version of each run's server.
    servers: Vec<&'a str>,
    /// File of the report.
    report: &'a Path,
}

impl Answer for ReportedRuns<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-report/1";
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let runs = args.files.iter().map(|path| Ok(Run::new(Kept::read(path)?)));
    let runs: Vec<Run> = runs.collect::<Result<_, Failure>>()?;
    apart(&runs)?;
    page(&runs)?.write(&args.out).map_err(Failure::machine)?;
    let verdict = runs.iter().map(Run::verdict).max().unwrap_or(Verdict::Invalid);
    let path = std::path::absolute(&args.out)?;
    if args.json {
        let answer = ReportedRuns {
            finding: headline(&runs),
            runs: runs.iter().map(|run| run.kept.id.as_str()).collect(),
            outcomes: runs.iter().map(|run| &run.judged.outcome).collect(),
            servers: runs.iter().map(|run| run.kept.record.server.version.as_str()).collect(),
            report: &path,
        };
        let word = terminals::word(verdict, runs.iter().map(|run| &run.judged.outcome));
        say(out, &cli::json::answer(verdict, word, &answer))?;
    } else {
        let line = sentence(&headline(&runs));
        let runs: String = runs.iter().map(told).collect();
        say(out, &format!("{line}\n{runs}  report: {}\n", path.display()))?;
    }
    Ok(verdict)
}

/// The server of a run, each rule that it violates, and its deviations.
fn told(run: &Run) -> String {
    let record = &run.kept.record;
    let broken = run.judged.checks.iter().filter(|check| check.finding == Finding::Violated);
    let broken: String =
        broken.map(|check| format!(" Violated: {} ({}).", check.rule, check.measured)).collect();
    paragraph(&format!(
        "{}: PostgreSQL {}, seed {}.{broken} Deviations: {}.",
        run.kept.id,
        record.server.version,
        record.plan.seed,
        run.judged.deviations.join("; ")
    ))
}

/// Where the page of a command that measures goes.
#[derive(ClapArgs)]
pub(super) struct ReportArgs {
    /// File of the report [default: beside the record, .sekisho/runs/ID.html]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ReportArgs {
    /// Writes the page of runs, at least one; where it is. What was measured is told in any case, so
    /// that the failure is for the end.
    pub(super) fn write(&self, runs: &[Run]) -> Result<PathBuf, Failure> {
        let beside = |run: &Run| {
            let folder = run.kept.path.parent().unwrap_or(Path::new(""));
            folder.join(format!("{}.html", run.kept.id))
        };
        let path = match (&self.report, runs.first()) {
            (Some(path), _) => path.clone(),
            (None, Some(first)) => beside(first),
            (None, None) => return Err(Failure::Defect("there is no run to report of".into())),
        };
        page(runs)?.write(&path).map_err(Failure::machine)?;
        Ok(path)
    }
}

/// Place of the report, as a line of text; its failure ends the command later.
pub(super) fn written(report: &Result<PathBuf, Failure>) -> String {
    match report {
        Ok(path) => format!("  report: {}\n", path.display()),
        Err(_) => paragraph("report: it could not be written; the record was"),
    }
}
