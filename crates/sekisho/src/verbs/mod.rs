//! The verbs: what a user can ask for. One module each, those of gates and models in crates of their own.

mod ask;
mod check;
mod demo;
mod demo_postgres;
mod fit;
mod http_requests;
mod http_target;
mod invalid;
mod json;
mod knee;
mod knee_http;
mod knee_parts;
mod load;
mod loop_report;
mod measure;
mod measure_postgres;
mod merge;
mod newest;
mod parts;
mod report;
mod reproduce;
mod run_output;
mod runs;
mod typed;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cli::json::{Format, Interrupted};
use cli::{Failure, Session, Verdict, complain};

/// Measure a service, find the load at which it breaks and the queue that breaks it, put a gate
/// there that holds, and check whether that was right.
#[derive(Parser)]
#[command(name = "sekisho", version, max_term_width = 80, after_help = AFTER)]
struct Call {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "\
Exit codes: 0 holds; 1 a defect of ours; 2 usage or configuration; 3 an
expectation fails; 4 inconclusive; 5 the measurement is invalid; 6 the model
does not fit; 130 interrupted.

Example:
  sekisho demo";

#[derive(Subcommand)]
enum Verb {
    /// The whole loop on a real HTTP server, on this machine, in under 90 seconds
    Demo(demo::Args),
    /// Put load on a service and record what happens
    Measure(measure::Args),
    /// Fit a scenario to run records, logs, metrics, statements, spans or a table
    Fit(fit::Args),
    /// Ask a scenario what would happen at other loads or with other slots
    Ask(ask::Args),
    /// Solve a scenario by formula
    Solve(model_verbs::solve::Args),
    /// Simulate a scenario, or a recorded gate with other slots and policies
    Sim(model_verbs::sim::Args),
    /// Put a gate in front of a service
    Gate(gate_verbs::Args),
    /// Serve keyed agents that follow the rules of a file
    Agents(agents_verbs::Args),
    /// Hold a gate's recording against today's gate, and say what is in it
    Replay(model_verbs::replay::Args),
    /// A tree database that keeps every version: its server and its clients
    Jungle(Box<jungle_verbs::Args>),
    /// A bulletin board on a store: Jungle and its rivals
    Board(board_verbs::Args),
    /// TPC-C on PostgreSQL
    Tpcc(tpcc_verbs::Args),
    /// Hold a run against expectations, or against a stored prediction
    Check(check::Args),
    /// Say what the output of another load tool means
    Explain(model_verbs::explain::Args),
    /// List the stored runs
    Runs(runs::Args),
    /// Turn records and predictions into one HTML file
    Report(report::Args),
    /// Reproduce a paper: its values beside formula, simulation and measurement
    Reproduce(reproduce::Args),
}

/// Formats of everything that `--json` prints, and of the files that a command keeps, with their schemas.
pub fn formats() -> Vec<Format> {
    let mut formats = vec![
        Format::of_answer::<Interrupted>(),
        Format::of_answer::<demo::Demonstrated<'_>>(),
        Format::of_answer::<demo_postgres::DemonstratedPostgres<'_>>(),
        Format::of_answer::<json::Measured<'_>>(),
        Format::of_answer::<knee::KneeAnswer<'_>>(),
        Format::of_answer::<fit::answer::FittedBySizes<'_>>(),
        Format::of_answer::<fit::answer::FittedSource<'_>>(),
        Format::of_answer::<fit::answer::NoFit>(),
        Format::of_answer::<check::CheckedRun<'_>>(),
        Format::of_answer::<check::CheckedRuns<'_>>(),
        Format::of_answer::<check::CheckedKnee<'_>>(),
        Format::of_notice::<runs::StoredRun<'_>>(),
        Format::of_answer::<report::Reported<'_>>(),
        Format::of_answer::<reproduce::ReproducedStudy<'_>>(),
        Format::of_file("sekisho-run/1", ::measure::schemas::run_record()),
        Format::of_file("sekisho-knee/1", ::measure::schemas::knee()),
        Format::of_file("sekisho-recording/1", ::measure::schemas::recording()),
        Format::of_file("sekisho-prediction/1", cli::json::root::<advise::Prediction>()),
    ];
    formats.extend(ask::formats());
    formats.extend(tpcc_verbs::formats());
    formats.extend(model_verbs::formats());
    formats.extend(gate_verbs::formats());
    formats.extend(agents_verbs::formats());
    formats.extend(demo_verbs::formats());
    formats.extend(jungle_verbs::formats());
    formats.extend(board_verbs::formats());
    formats
}

/// Does what the command line asks for.
pub fn main(supervised: origin::Supervised) -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(error) = ask::mistyped(&words) {
        complain(&error);
        return ExitCode::from(Failure::Usage(String::new()).code());
    }
    let call = match Call::try_parse() {
        Ok(call) => call,
        Err(error) if error.use_stderr() => {
            complain(&in_plain_words(&error.to_string()));
            return ExitCode::from(Failure::Usage(String::new()).code());
        }
        // Help and version, which are no errors.
        Err(shown) => shown.exit(),
    };
    let session = Session::new();
    let mut out = std::io::stdout().lock();
    let ran = catch_unwind(AssertUnwindSafe(|| run(&call.verb, supervised, &session, &mut out)));
    match ran {
        Ok(Ok(verdict)) => verdict.into(),
        // What it was has been said where it happened.
        Err(_) => ExitCode::from(Failure::Defect(String::new()).code()),
        Ok(Err(failure)) => {
            // Where even that cannot be written, the exit code still tells.
            complain(&format!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

/// Words of a parser of numbers, as what is wanted instead.
fn in_plain_words(error: &str) -> String {
    [
        ("invalid digit found in string", "a whole number from 0 on is wanted"),
        ("cannot parse integer from empty string", "a whole number from 0 on is wanted"),
        ("number too large to fit in target type", "it is too large a number; give a smaller one"),
        ("invalid float literal", "a number is wanted"),
        ("cannot parse float from empty string", "a number is wanted"),
    ]
    .iter()
    .fold(error.to_owned(), |text, (said, meant)| text.replace(said, meant))
}

fn run(
    verb: &Verb,
    supervised: origin::Supervised,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    match verb {
        Verb::Demo(args) => demo::run(args, session, out),
        Verb::Measure(args) => measure::run(args, session, out),
        Verb::Fit(args) => fit::run(args, out),
        Verb::Ask(args) => ask::run(args, out),
        Verb::Solve(args) => model_verbs::solve::run(args, out),
        Verb::Sim(args) => model_verbs::sim::run(args, session, out),
        Verb::Gate(args) => gate_verbs::run(args, out),
        Verb::Agents(args) => agents_verbs::run(args, session, out),
        Verb::Replay(args) => model_verbs::replay::run(args, session, out),
        Verb::Jungle(args) => jungle_verbs::run(args, session, out),
        Verb::Board(args) => board_verbs::run(args, session, out),
        Verb::Tpcc(args) => tpcc_verbs::run(args, session, out),
        Verb::Check(args) => check::run(args, out),
        Verb::Explain(args) => model_verbs::explain::run(args, out),
        Verb::Runs(args) => runs::run(args, out),
        Verb::Report(args) => report::run(args, out),
        Verb::Reproduce(args) => reproduce::run(args, supervised, session, out),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::Call;

    /// The commands that are told where a server is. A client of a server of ours makes a request, as curl does, and
    /// presses nothing: its address has a default.
    fn told_where<'a>(command: &'a Command, path: &str, into: &mut Vec<(String, &'a Command)>) {
        let path = format!("{path} {}", command.get_name());
        let is_told = command
            .get_arguments()
            .filter(|one| one.get_default_values().is_empty())
            .any(|one| ["db", "url", "upstream"].contains(&one.get_id().as_str()));
        if is_told {
            into.push((path.clone(), command));
        }
        for inner in command.get_subcommands() {
            told_where(inner, &path, into);
        }
    }

    /// `tpcc` once connected to whatever `--db` named: only `measure` knew of `--public`.
    #[test]
    fn whatever_connects_to_a_server_that_is_named_knows_how_public_is_allowed() {
        let call = Call::command();
        let mut all = Vec::new();
        told_where(&call, "", &mut all);
        let names: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
        for one in
            ["measure http", "gate http", "gate postgres", "tpcc load", "tpcc run", "tpcc find"]
        {
            assert!(names.iter().any(|path| path.ends_with(one)), "{one}: {names:?}");
        }
        for (path, command) in &all {
            let knows = command.get_arguments().any(|one| one.get_id() == "public");
            assert!(knows, "`{path}` takes an address and no `--public`");
        }
    }
}
