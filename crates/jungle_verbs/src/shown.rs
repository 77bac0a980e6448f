//! Answers as a person reads them: one line a thing, no wider than a terminal.

use std::io::Write;

use cli::json::{Answer, answer};
use cli::text::sentence;
use cli::{Failure, Verdict, say};
use jungle_server::{CommitView, CommittedAnswer, NodeView, Problem, Value, Values};

use crate::answer::{Committed, Refused};
use crate::client::{Answered, ServerArgs};

/// Columns of a line that is cut.
const COLUMNS: usize = 79;

/// Text on one line: without what would move the cursor, and cut at the width of a terminal.
pub(crate) fn line(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    if plain.chars().count() > COLUMNS {
        plain = plain.chars().take(COLUMNS - 1).chain(['…']).collect();
    }
    plain.truncate(plain.trim_end().len());
    plain + "\n"
}

/// A number of things: `1 node`, `2 nodes`.
pub(crate) fn counted(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// The text of a value.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Bytes { base64 } => format!("(base64) {base64}"),
    }
}

/// Attributes on one line.
pub(crate) fn values(of: &Values) -> String {
    let pairs = of.iter().map(|(name, of)| format!("{name}={}", value(of)));
    pairs.collect::<Vec<_>>().join("  ")
}

/// A node and those below it, each on its line.
pub(crate) fn node(of: &NodeView, indent: usize, into: &mut String) {
    let mut open = vec![(of, indent)];
    while let Some((node, indent)) = open.pop() {
        let space = " ".repeat(indent);
        let below = match node.children {
            0 => String::new(),
            1 => "  (1 child)".to_owned(),
            children => format!("  ({children} children)"),
        };
        let until = node.expires.as_ref().map(|at| format!("  (until {at})")).unwrap_or_default();
        let values = values(&node.attributes);
        into.push_str(&line(&format!("{space}{}{below}{until}  {values}", node.id)));
        open.extend(node.nodes.iter().rev().map(|child| (child, indent + 2)));
    }
}

/// A commit on its line.
pub(crate) fn commit(of: &CommitView) -> String {
    // Seconds are what a person looks for.
    let time = of.time.split('.').next().unwrap_or_default().replace('T', " ");
    let author = if of.author.is_empty() { "-" } else { &of.author };
    line(&format!("  {:>6}  {time}  {author}  {}", of.seq, of.message))
}

/// Prints an answer, as JSON or as text.
pub(crate) fn done(
    out: &mut dyn Write,
    json: bool,
    body: &impl Answer,
    text: impl FnOnce() -> String,
) -> Result<Verdict, Failure> {
    let told = if json { answer(Verdict::Holds, Verdict::Holds.word(), body) } else { text() };
    say(out, &told)?;
    Ok(Verdict::Holds)
}

/// Prints a refusal: an expectation does not hold.
pub(crate) fn refused(
    out: &mut dyn Write,
    json: bool,
    problem: &Problem,
) -> Result<Verdict, Failure> {
    let text = if json {
        answer(Verdict::Fails, Verdict::Fails.word(), &Refused(problem))
    } else {
        let mut text = sentence(&format!("fails: {}", problem.detail));
        for conflict in &problem.conflicts {
            text.push_str(&line(&format!("  {}", conflict.text)));
        }
        text
    };
    say(out, &text)?;
    Ok(Verdict::Fails)
}

/// Prints what became of a commit.
pub(crate) fn committed(
    out: &mut dyn Write,
    server: &ServerArgs,
    answered: &Answered<CommittedAnswer>,
    then: impl FnOnce(&CommittedAnswer) -> Option<String>,
) -> Result<Verdict, Failure> {
    let done_ = match answered {
        Answered::Refused(problem) => return refused(out, server.json, problem),
        Answered::Done(done) => done,
    };
    done(out, server.json, &Committed(done_), || {
        let mut text = match &done_.made[..] {
            [] => format!("commit {}\n", done_.seq),
            [one] => format!("commit {} made node {one}\n", done_.seq),
            [first, .., last] => {
                format!("commit {} made nodes {first} to {last}\n", done_.seq)
            }
        };
        for conflict in &done_.conflicts {
            text.push_str(&line(&format!("  decided: {}", conflict.text)));
        }
        text.extend(then(done_).map(|command| server.next(&command)));
        text
    })
}
