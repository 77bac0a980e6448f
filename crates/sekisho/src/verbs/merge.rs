//! `sekisho measure merge`: one record of those that the parts of a run have left.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use cli::{Failure, Session, Verdict, store, tool};
use measure::RunRecord;

use super::run_output::{Noun, OutputArgs};

/// Make one record of those of all parts of a run, and judge it
///
/// Histograms merge and counts add, so that it is what one process would have recorded. Parts that
/// are missing, there twice, of another plan, or did not begin together are refused.
#[derive(ClapArgs)]
#[command(after_help = "\
The merged record goes to .sekisho/runs/ too. A run is as complete as its least
complete part: of one that ended early, what all parts measured until then is
kept, and it counts as interrupted.

Examples:
  sekisho measure merge part-1.jsonl part-2.jsonl --expect 'p99<50ms'")]
pub(super) struct MergeArgs {
    /// A record of each part, in any order
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(
    args: &MergeArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let parts: Vec<RunRecord> =
        args.records.iter().map(|path| store::read_part(path)).collect::<Result<_, _>>()?;
    let mut record = RunRecord::merge(&parts).map_err(Failure::usage)?;
    record.header.id = store::new_id();
    record.header.tool = tool();
    record.header.command.clone_from(&session.command);
    let noun = match record.header.settings.contains_key("protocol") {
        true => Noun::Script,
        false => Noun::Request,
    };
    args.output.of_merged(record, noun, out)
}
