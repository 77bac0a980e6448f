//! `sekisho tpcc merge`: one record of those that the parts of a run have left.

use std::io::Write;
use std::path::PathBuf;

use ::tpcc::Record;
use clap::Args as ClapArgs;
use cli::{Failure, Session, Verdict, say};

use super::kept::{Begun, Kept};
use super::page::Run;
use super::report::ReportArgs;
use super::run::text;
use super::terminals;

/// Make one record of those of all parts of a run, and judge it
///
/// Histograms merge and counts add, so that it is what one process would have recorded. Parts that
/// are missing, there twice, of another plan, or did not begin together are refused.
#[derive(ClapArgs)]
#[command(after_help = "\
The merged record goes to .sekisho/runs/ too, and so does a report. A run is as
complete as its least complete part.

Examples:
  sekisho tpcc merge part-1.tpcc.json part-2.tpcc.json")]
pub(super) struct Args {
    /// A record of each part, in any order
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let parts: Vec<Kept> =
        args.records.iter().map(|path| Kept::read(path)).collect::<Result<_, _>>()?;
    // Part 1 verified the database when all had ended.
    let verified = parts.iter().find_map(|part| part.verified.clone());
    let records: Vec<Record> = parts.into_iter().map(|part| part.record).collect();
    let record = Record::merge(&records).map_err(Failure::usage)?;
    let mut run = Run::new(Begun::run()?.keep(record, session)?);
    run.kept.note(verified)?;
    let report = args.report.write(std::slice::from_ref(&run));
    let verdict = run.verdict();
    if args.json {
        let report = report.as_deref().ok();
        say(out, &terminals::answer(&run.kept, &run.judged, verdict, report))?;
    } else {
        let words: Vec<&str> = run.kept.record.server.version.split(' ').take(2).collect();
        let database = format!("the database that was named ({})", words.join(" "));
        say(out, &text(&run, &database, None, &report))?;
    }
    report.map(|_| verdict)
}
