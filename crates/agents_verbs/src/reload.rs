//! `sekisho agents reload`: a running server reads its file of rules anew.

use std::io::Write;

use agents_server::{
    FieldChangeView, FieldFate, ReloadAnswer, RuleChangeView, RuleFate, TimerChangeView, TimerFate,
};
use clap::Args as ClapArgs;
use cli::text::{count, filled, paragraph, sentence};
use cli::{Failure, Verdict, say};

use crate::client::{Client, ServerArgs};

/// Let a running server read its file of rules anew
///
/// A file that is wrong changes nothing. From one position of the log on the new rules hold: what was accepted
/// before is handled by those of before. A rule with another condition, or another life, begins anew for each
/// agent, as at its creation; one that is the same goes on as it is. A field of the state that gets another kind,
/// or is gone, loses its values: `--dry-run` tells of how many agents.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho agents reload --dry-run
  sekisho agents reload")]
pub(crate) struct ReloadArgs {
    /// Tell what would become of the rules, of what is armed, and of the fields of the state; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

cli::framed! {
    /// A change of the rules of a running server.
    Reloaded(ReloadAnswer) = "sekisho/agents-reload/1";
}

pub(crate) fn run(args: &ReloadArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let client = Client::new(&args.server)?;
    let place = if args.dry_run { "/rules?dry_run=true" } else { "/rules" };
    // A server that changes its rules just now is asked again. One that does not answer may have changed them: asked
    // again it would say that nothing is new.
    let told: ReloadAnswer = client.once("POST", place)?;
    let verdict = Verdict::Holds;
    if args.server.json {
        say(out, &cli::json::answer(verdict, verdict.word(), &Reloaded(&told)))?;
        return Ok(verdict);
    }
    let mut text = sentence(&summary(&told));
    for rule in &told.rules {
        text += &filled("  ", "    ", &line(rule, told.is_dry || !told.is_changed));
    }
    for field in &told.fields {
        text += &filled("  ", "    ", &field_line(field));
    }
    for timer in &told.timers {
        text += &filled("  ", "    ", &timer_line(timer));
    }
    if !told.is_whole {
        let cause = "there was no time, or the state of one cannot be read";
        text += &paragraph(&format!(
            "Not all agents were counted ({cause}): the numbers are of a part."
        ));
    }
    let next =
        if told.is_dry { "sekisho agents reload" } else { "sekisho agents export agents.jsonl" };
    say(out, &(text + &args.server.next(next)))?;
    Ok(verdict)
}

/// A change in one line.
pub(crate) fn summary(told: &ReloadAnswer) -> String {
    let of = |fate: RuleFate| told.rules.iter().filter(|rule| rule.change == fate).count() as u64;
    let parts = [
        (RuleFate::Added, "added"),
        (RuleFate::Changed, "changed"),
        (RuleFate::Removed, "removed"),
        (RuleFate::Unchanged, "unchanged"),
    ];
    let parts: Vec<String> =
        parts.iter().map(|(fate, word)| format!("{} {word}", of(*fate))).collect();
    let rules = format!("{} of {}", parts.join(", "), count(told.agents, "agent"));
    match (told.is_changed, told.is_dry) {
        (false, _) => "rules: the file is the one that holds; nothing was changed".to_owned(),
        (true, true) => format!("rules: nothing was changed; it would be {rules}"),
        (true, false) => {
            let positions: Vec<String> = told.positions.iter().map(u64::to_string).collect();
            format!("rules: {rules}; in force from position {} on", positions.join(", "))
        }
    }
}

/// A field of the state, and what becomes of its values.
pub(crate) fn field_line(field: &FieldChangeView) -> String {
    let name = &field.name;
    let kind = |of: &Option<String>| of.clone().unwrap_or_default();
    let (before, after) = (kind(&field.kind_before), kind(&field.kind));
    let lost = match field.lost {
        0 => "no agent has a value to lose".to_owned(),
        1 => "1 agent loses its value".to_owned(),
        more => format!("{more} agents lose their values"),
    };
    let begins = match &field.start {
        Some(start) => format!("begins with {start}"),
        None => "begins without a value".to_owned(),
    };
    match field.change {
        FieldFate::Added => format!("field {name}: added, {after}; {begins}"),
        FieldFate::Removed => format!("field {name}: removed, {before}; {lost}"),
        FieldFate::Changed => {
            format!("field {name}: changed, {before} to {after}; {lost}; {begins}")
        }
    }
}

/// A timer, and what becomes of it where it is set.
fn timer_line(timer: &TimerChangeView) -> String {
    let (name, set) = (&timer.name, count(timer.set, "agent"));
    match timer.change {
        TimerFate::Added => format!("timer {name}: added; set for no agent"),
        TimerFate::Removed => format!("timer {name}: removed; set for {set}, where it ends"),
        TimerFate::Kept => format!("timer {name}: stays; set for {set}, due when it was"),
    }
}

/// A rule, and what becomes of what is armed for it; `is_to_come` if it has not yet.
fn line(rule: &RuleChangeView, is_to_come: bool) -> String {
    let version = |of: &Option<String>| of.clone().unwrap_or_default();
    let (before, after) = (version(&rule.version_before), version(&rule.version));
    let (agents, armed) = (count(rule.agents, "agent"), rule.armed);
    let have = format!("{agents}, {armed} armed");
    let name = &rule.name;
    match rule.change {
        RuleFate::Added => format!("{name}: added, version {after}; armed for all agents"),
        RuleFate::Removed => {
            let end = if is_to_come { "end" } else { "ended" };
            format!("{name}: removed, version {before}; {have}, which {end}")
        }
        RuleFate::Changed => format!(
            "{name}: changed, version {before} to {after}; {have} before; armed anew for all, as at creation"
        ),
        RuleFate::Unchanged => format!("{name}: unchanged, version {after}; {have}, which stay so"),
    }
}
