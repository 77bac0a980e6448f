//! `sekisho ask`: questions to a scenario. One module a question; all say the verdict first, then the
//! numbers, then why, then what to type next.

mod answer;
mod bottleneck;
mod capacity;
mod holds;
mod loads;
mod policy;
mod sensitivity;
mod servers;
mod slots;
mod trial;

use std::io::Write;
use std::path::Path;

use clap::{Args as ClapArgs, Subcommand};
use cli::json::Format;
use cli::{Failure, Verdict};

pub(crate) use loads::{headline, predict, prediction_text, store_prediction};

/// Ask a scenario what would happen
///
/// With the name of a question, that one. Without: every load is combined with every number of slots,
/// by formula and by simulation, and the answer is stored under .sekisho/predictions/, so that `check`
/// can score it later.
#[derive(ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_value_name = "QUESTION",
    after_help = "\
Example:
  sekisho ask scenario.toml --clients 8,64 --slots 2,8"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Option<Question>,
    #[command(flatten)]
    loads: loads::Args,
}

/// Formats of the answers of `ask --json`.
pub(super) fn formats() -> Vec<Format> {
    let mut formats = answer::formats();
    formats.push(Format::of_answer::<loads::PredictedLoads<'_>>());
    formats
}

#[derive(Subcommand)]
enum Question {
    /// Who saturates first as the load grows, and who next
    Bottleneck(bottleneck::Args),
    /// The largest load that keeps an objective
    Capacity(capacity::Args),
    /// How many slots a gate should have
    Slots(slots::Args),
    /// How many servers are needed for more load
    Servers(servers::Args),
    /// Whether it holds under more load, and what breaks first
    Holds(holds::Args),
    /// Which router and which discipline
    Policy(policy::Args),
    /// Which parameters matter, and how much
    Sensitivity(sensitivity::Args),
}

/// The error for words that begin with neither a question nor a file: the nearest question, and all of them.
pub(crate) fn mistyped(words: &[String]) -> Option<String> {
    let [_, verb, word, ..] = words else { return None };
    let questions = Question::augment_subcommands(clap::Command::new("ask"));
    let names: Vec<&str> = questions.get_subcommands().map(clap::Command::get_name).collect();
    let is_known = names.contains(&word.as_str()) || word == "help";
    if verb != "ask" || word.starts_with('-') || is_known || Path::new(word).exists() {
        return None;
    }
    let meant = measure::nearest(word, names.iter().copied());
    let meant = meant.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    let (last, others) = names.split_last()?;
    Some(format!(
        "error: `{word}` is neither a question nor a file of a scenario{meant}\n\nQuestions: {} and {last}\n\nFor more \
         information, try '--help'.",
        others.join(", ")
    ))
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match &args.question {
        None => loads::run(&args.loads, out),
        Some(Question::Bottleneck(args)) => bottleneck::run(args, out),
        Some(Question::Capacity(args)) => capacity::run(args, out),
        Some(Question::Slots(args)) => slots::run(args, out),
        Some(Question::Servers(args)) => servers::run(args, out),
        Some(Question::Holds(args)) => holds::run(args, out),
        Some(Question::Policy(args)) => policy::run(args, out),
        Some(Question::Sensitivity(args)) => sensitivity::run(args, out),
    }
}
