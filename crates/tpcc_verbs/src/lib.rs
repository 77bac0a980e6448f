//! The verbs of TPC-C on PostgreSQL, by the rules of the specification: `tpcc` and `demo monitor`. One module a question.
//! What a run has left, and the database that it ran on, are here for other verbs too.

#![expect(missing_debug_implementations, reason = "arguments are parsed once; nobody prints them")]

mod acid;
mod crash;
mod find;
mod kept;
mod load;
mod merge;
pub mod monitored;
mod page;
mod parts;
mod place;
mod report;
mod run;
mod stress;
mod target;
mod terminals;
mod tune;
mod verified;
mod verify;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};
use cli::json::Format;
use cli::{Failure, Session, Verdict};

pub use kept::{Kept, is_record, read_run};
pub use target::{PARAMETERS, Target};
pub use terminals::{run as run_terminals, span};

/// A question about TPC-C on a database.
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fill a database with the warehouses of a seed
    Load(load::Args),
    /// Let ten terminals a warehouse key and think, and judge what they see
    Run(run::Args),
    /// Let as many terminals as connections work without keying and thinking
    Stress(stress::Args),
    /// Find the most warehouses that hold
    Find(find::Args),
    /// Find the settings of PostgreSQL that help, by trying them
    Tune(tune::Args),
    /// Spread tables, indexes and the log over directories, so that access rates even out
    Place(place::Args),
    /// Make one record of those of all parts of a run, and judge it
    Merge(merge::Args),
    /// Check a database: the twelve consistency conditions, counters, population
    Verify(verify::Args),
    /// Turn records of runs into one HTML file
    Report(report::Args),
    /// Interleave transactions, and check whether they are kept apart
    Acid(acid::Args),
    /// Kill a server under load, and look whether all it had acknowledged is there
    Crash(crash::Args),
}

/// Formats of what these verbs print with `--json`, and of the files that they keep.
pub fn formats() -> Vec<Format> {
    vec![
        Format::of_answer::<acid::Tested<'_>>(),
        Format::of_answer::<crash::Crashed<'_>>(),
        Format::of_answer::<find::FoundSize<'_>>(),
        Format::of_answer::<load::LoadedTables<'_>>(),
        Format::of_answer::<load::StoppedLoad>(),
        Format::of_answer::<monitored::Monitored<'_>>(),
        Format::of_answer::<place::PlacedAnswer<'_>>(),
        Format::of_answer::<place::NotPlaced<'_>>(),
        Format::of_answer::<place::Undone>(),
        Format::of_answer::<place::OnDevices<'_>>(),
        Format::of_answer::<place::ByModel<'_>>(),
        Format::of_answer::<report::ReportedRuns<'_>>(),
        Format::of_answer::<terminals::TpccRun<'_>>(),
        Format::of_answer::<tune::Tuned<'_>>(),
        Format::of_answer::<verify::VerifiedDatabase<'_>>(),
        Format::of_file("sekisho-tpcc/1", cli::json::root::<kept::Kept>()),
    ]
}

/// Answers the question.
///
/// # Errors
/// The question cannot be asked so, or the machine or the database does not do its part.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.what {
        What::Load(args) => load::run(args, session, out),
        What::Run(args) => run::run(args, session, out),
        What::Stress(args) => stress::run(args, session, out),
        What::Find(args) => find::run(args, session, out),
        What::Tune(args) => tune::run(args, session, out),
        What::Place(args) => place::run(args, session, out),
        What::Merge(args) => merge::run(args, session, out),
        What::Verify(args) => verify::run(args, session, out),
        What::Report(args) => report::run(args, out),
        What::Acid(args) => acid::run(args, session, out),
        What::Crash(args) => crash::run(args, session, out),
    }
}
