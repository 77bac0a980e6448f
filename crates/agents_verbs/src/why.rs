//! `sekisho agents why` and `try`: the past of an agent, and rules that are tried on kept messages.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agents_server::{Began, DecisionView, TrialAnswer, WhyAnswer};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::request::{path, query};
use cli::text::{count, filled, paragraph, sentence, shell_word};
use cli::{Failure, Verdict, say};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::client::{Client, ServerArgs};

/// Tell why an agent fired or did not: messages, states, decisions, deliveries
///
/// The last decisions of an agent are kept with it. For all else its kept messages are handled once more, and
/// the answer says so.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents why alice
  sekisho agents why alice --at 2026-11-27T12:00:00Z")]
pub(crate) struct WhyArgs {
    /// The agent
    agent: String,
    /// The last moment of interest; left out, now
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<u64>,
    /// Most messages that are told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    server: ServerArgs,
}

/// Try rules on kept messages: how many notifications, for whom, at what cost; nothing is sent
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho agents try rules.toml --since 1h")]
pub(crate) struct TryArgs {
    /// The file of rules (docs/agents-rules.md)
    rules: PathBuf,
    /// The span back from now whose messages take part, such as 1h
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = humantime::parse_duration)]
    since: Duration,
    /// Time that it may take; beyond it the answer is about a part of the agents
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = humantime::parse_duration)]
    within: Duration,
    #[command(flatten)]
    server: ServerArgs,
}

cli::framed! {
    /// The past of an agent.
    Why(WhyAnswer) = "sekisho/agents-why/1";
}

/// Rules that were tried.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tried {
    #[serde(flatten)]
    told: TrialAnswer,
    /// The states with which it began.
    began: &'static str,
}

impl Answer for Tried {
    const FORMAT: &'static str = "sekisho/agents-try/1";
}

/// A moment as nanoseconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    let read = humantime::parse_rfc3339_weak(text).ok();
    let since = read.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let nanos = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    nanos.ok_or_else(|| format!("`{text}` is no moment such as 2026-11-27T12:00:00Z"))
}

pub(crate) fn time(nanos: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(nanos)).to_string()
}

pub(crate) fn why(args: &WhyArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let at = args.at.map(|at| at.to_string());
    let query = query(&[("at_ns", at), ("limit", Some(args.limit.to_string()))]);
    let place = format!("{}{query}", path(&["agents", &args.agent, "why"]));
    let told: WhyAnswer = client.ask("GET", &place, None, None)?;
    let verdict = Verdict::Holds;
    match args.server.json {
        true => say(out, &cli::json::answer(verdict, verdict.word(), &Why(&told)))?,
        false => say(out, &why_text(&told))?,
    }
    Ok(verdict)
}

const TOO_LARGE: &str = "not kept: too large";

fn why_text(told: &WhyAnswer) -> String {
    let counts = (told.kept.len() as u64, told.recomputed.len() as u64);
    let mut text = sentence(&format!(
        "{}: {} kept, {} recomputed",
        told.agent,
        count(counts.0, "decision"),
        count(counts.1, "message")
    ));
    for DecisionView { decision, delivery, .. } in &told.kept {
        let end = match (decision.firing, delivery) {
            (Some(n), Some(delivery)) => format!("firing {n}; {delivery}"),
            (Some(n), None) => format!("firing {n}"),
            (None, _) => format!("suppressed: {}", decision.suppressed),
        };
        let head = format!("{} {}: {end}", time(decision.at_ns), decision.name);
        text += &filled("  ", "    ", &head);
        let message = decision.message.as_deref().unwrap_or(TOO_LARGE);
        text += &states(message, decision.before.as_ref(), &decision.changed);
    }
    if told.recomputed.is_empty() {
        return text + &paragraph("No message to it is kept.");
    }
    text += &paragraph(match told.began {
        Began::Declaration => "Recomputed from its declaration on, in the order of acceptance:",
        Began::StateOfToday => {
            "Recomputed in the order of acceptance. Its declaration is not kept any more: this began with \
             its state as it is now and all rules armed anew, so it may differ from what was."
        }
    });
    for one in &told.recomputed {
        let rules: Vec<String> =
            one.rules.iter().map(|(name, end)| format!("{name}: {end}")).collect();
        let end = match (&one.failure, rules.is_empty()) {
            (Some(cause), _) => format!("not handled: {cause}"),
            (None, true) => "no rule is about it".to_owned(),
            (None, false) => rules.join("; "),
        };
        // A timer is in no log.
        let what = match one.position {
            0 => one.message.clone(),
            position => format!("message {position}"),
        };
        let head = format!("{} {what}: {end}", time(one.at_ns));
        text += &filled("  ", "    ", &head);
        text += &states(&one.message, Some(&one.before), &one.changed);
    }
    text
}

/// The message, and the state before and after.
fn states(
    message: &str,
    before: Option<&Map<String, Value>>,
    changed: &Map<String, Value>,
) -> String {
    let shown = |fields: &Map<String, Value>| Value::Object(fields.clone()).to_string();
    let changed = match changed.is_empty() {
        true => "unchanged".to_owned(),
        false => format!("then {}", shown(changed)),
    };
    let before = before.map_or_else(|| TOO_LARGE.to_owned(), shown);
    filled("    ", "      ", &format!("message {message}"))
        + &filled("    ", "      ", &format!("state {before}, {changed}"))
}

pub(crate) fn attempt(args: &TryArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    // An error in the file is told here, with its place, as by the other verbs.
    let (_, rules) = super::read_text(&args.rules, None)?;
    let client = Client::new(&args.server)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = u64::try_from(now.saturating_sub(args.since).as_nanos()).unwrap_or(0);
    let within = args.within.as_millis().to_string();
    let query = query(&[("since_ns", Some(since.to_string())), ("within_ms", Some(within))]);
    let body = Value::String(rules);
    let told: TrialAnswer = client.ask("POST", &format!("/try{query}"), None, Some(&body))?;
    let began = "the states as they are now, with all rules armed anew";
    let answer = Tried { told, began };
    // About a part of the agents or of the span the answer is not known.
    let is_all = answer.told.is_whole && answer.told.is_span_kept;
    let verdict = if is_all { Verdict::Holds } else { Verdict::Inconclusive };
    match args.server.json {
        true => say(out, &cli::json::answer(verdict, verdict.word(), &answer))?,
        false => say(out, &tried_text(args, verdict, &answer))?,
    }
    Ok(verdict)
}

fn tried_text(args: &TryArgs, verdict: Verdict, answer: &Tried) -> String {
    let Tried { told, began } = answer;
    let fired = count(told.fired.values().sum(), "notification");
    let of = (told.agents_fired, count(told.agents, "agent"));
    let mut text =
        sentence(&format!("{}: {fired} would have left, of {} of {}", verdict.word(), of.0, of.1));
    for (rule, fired) in &told.fired {
        let suppressed = told.suppressed.get(rule).copied().unwrap_or(0);
        text += &filled("  ", "    ", &format!("{rule}: {fired} fired, {suppressed} suppressed"));
    }
    for one in &told.most {
        let fired = count(one.fired, "notification");
        text += &filled("  ", "    ", &format!("{}: {fired}", one.agent));
    }
    let cost = (count(told.evaluations, "condition"), count(told.messages, "message"));
    text += &paragraph(&format!(
        "Cost: {} evaluated for {}, {:.2} s in the server.",
        cost.0, cost.1, told.seconds
    ));
    text += &paragraph(&format!(
        "It began with {}, and took messages in the order of acceptance.",
        began
    ));
    if told.failures > 0 {
        let failures = count(told.failures, "message");
        text += &paragraph(&format!("{failures} to an agent could not be handled by these rules."));
    }
    if !told.is_span_kept {
        text += &paragraph(
            match told.messages_since_ns {
                Some(first) => format!("Messages are kept since {} only.", time(first)),
                None => "No message is kept.".to_owned(),
            }
            .as_str(),
        );
    }
    if !told.is_whole {
        text += &paragraph(
            "It is about a part: give it more time with --within, or a shorter --since.",
        );
    }
    text + &cli::text::next(&format!("sekisho agents explain {}", shell_word(&args.rules)))
}
