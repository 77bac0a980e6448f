//! `sekisho agents explain`: the rules of a file in words.

use std::io::Write;
use std::path::PathBuf;

use agents_rules::{RuleSummary, TimerSummary, Way};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{count, next, paragraph, sentence, shell_word};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;

use crate::WayArg;

#[derive(ClapArgs)]
pub(crate) struct ExplainArgs {
    /// The file of rules (docs/agents.md)
    rules: PathBuf,
    /// The way in which messages find agents, in place of the better one
    #[arg(long, value_enum)]
    way: Option<WayArg>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The rules of a file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Explained {
    /// Names of its messages.
    messages: Vec<String>,
    /// The rules, in the order in which they are tried.
    rules: Vec<ExplainedRule>,
    /// The timers of agents, by name.
    timers: Vec<ExplainedTimer>,
    /// Names of its destinations.
    destinations: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ExplainedTimer {
    /// Name of the timer.
    name: String,
    /// Messages and timers that set it.
    set_by: Vec<ExplainedSetting>,
    /// Messages and timers that cancel it.
    cancelled_by: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ExplainedSetting {
    /// The message or timer.
    message: String,
    /// The moment when the timer is due, in words.
    due: String,
}

#[derive(Serialize, JsonSchema)]
struct ExplainedRule {
    /// Name of the rule.
    name: String,
    /// The message that it is about.
    message: String,
    /// True if its condition runs as plain operations; else it is interpreted.
    is_compiled: bool,
    /// The field of the message that it compares with limits, if it is a threshold.
    compares: Option<String>,
    /// The way in which its message finds agents: bounds (an index), all, or own (a timer of the agent).
    way: &'static str,
    /// Cause of its outcome, in words.
    why: String,
}

impl Answer for Explained {
    const FORMAT: &'static str = "sekisho/agents-explain/1";
}

impl From<RuleSummary> for ExplainedRule {
    fn from(of: RuleSummary) -> ExplainedRule {
        let way = match of.way {
            Way::Bounds => "bounds",
            Way::All => "all",
            Way::Own => "own",
        };
        let RuleSummary { name, message, is_compiled, compares, why, .. } = of;
        ExplainedRule { name, message, is_compiled, compares, way, why }
    }
}

impl From<TimerSummary> for ExplainedTimer {
    fn from(of: TimerSummary) -> ExplainedTimer {
        let TimerSummary { name, set_by, cancelled_by } = of;
        let set_by = set_by.into_iter().map(|(message, due)| ExplainedSetting { message, due });
        ExplainedTimer { name, set_by: set_by.collect(), cancelled_by }
    }
}

/// A timer in a line.
fn timer_line(timer: &ExplainedTimer) -> String {
    let set = timer.set_by.iter().map(|set| format!("`{}`, due {}", set.message, set.due));
    let set: Vec<String> = set.collect();
    let cancelled: Vec<String> = timer.cancelled_by.iter().map(|it| format!("`{it}`")).collect();
    let cancelled = match cancelled.is_empty() {
        true => "cancelled by nothing".to_owned(),
        false => format!("cancelled by {}", cancelled.join(", ")),
    };
    format!("timer {}: set by {}; {cancelled}", timer.name, set.join(", and by "))
}

pub(crate) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let rules = super::read(&args.rules, args.way)?;
    let explained = Explained {
        messages: rules.messages().map(str::to_owned).collect(),
        rules: rules.summary().into_iter().map(ExplainedRule::from).collect(),
        timers: rules.timers().into_iter().map(ExplainedTimer::from).collect(),
        destinations: rules.destinations().iter().map(|it| it.name.clone()).collect(),
    };
    let verdict = Verdict::Holds;
    if args.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &explained))?;
        return Ok(verdict);
    }
    let rules = count(explained.rules.len() as u64, "rule");
    let mut text = sentence(&format!("holds: {rules} in {}", args.rules.display()));
    for rule in &explained.rules {
        let way = match rule.way {
            "bounds" => "wakes only agents whose bounds a message crosses",
            "own" => "asks its agent alone",
            _ => "asks all agents",
        };
        let how = if rule.is_compiled { "compiled" } else { "interpreted" };
        text += &paragraph(&format!(
            "{}: on `{}`, {how}; {way}, since {}",
            rule.name, rule.message, rule.why
        ));
    }
    for timer in &explained.timers {
        text += &paragraph(&timer_line(timer));
    }
    let forced = match args.way {
        Some(WayArg::Bounds) => " --way bounds",
        Some(WayArg::All) => " --way all",
        None => "",
    };
    text += &next(&format!("sekisho agents serve {}{forced}", shell_word(&args.rules)));
    say(out, &text)?;
    Ok(verdict)
}
