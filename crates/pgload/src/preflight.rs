//! Looks before a run: whether the database lets in as many as are to come, and whether it understands
//! each statement. Nothing of the scripts is executed.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use postgres_protocol::message::frontend;
use tokio::time::timeout;
use tpcc::Config;
use workload::stream;

use crate::connect::{Opened, Rows, Said, Wire, open, said};
use crate::plan::Plan;
use crate::run::{ANSWER_MAX, RunError, try_all, unless_interrupted};
use crate::script::{Command, Fetch, Protocol, ScriptError, Scripts, Source, Statement, Value};
use crate::session::columns;

/// Facts that a preflight finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The server's release, as it says.
    pub version: String,
    /// Statements that could not be checked beforehand, in sentences.
    pub notes: Vec<String>,
}

/// The classes of errors by which a server says that a name is not known: no such table, column,
/// function, type, schema, prepared statement.
const UNKNOWN: [&str; 7] = ["42P01", "42703", "42883", "42704", "3F000", "26000", "42P02"];

/// Connects as a run of this plan would, with all its connections, and lets the server parse every
/// statement.
///
/// # Errors
/// If the way, the password, the room or a statement is wrong.
pub fn preflight(plan: &Plan, interrupt: &AtomicBool) -> Result<Found, RunError> {
    let spec = plan.spec();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(unless_interrupted(interrupt, async {
        let Opened { mut wire, version, .. } = open(&spec.config).await?;
        let notes = parse_all(&mut wire, &spec.scripts, spec.seed).await?;
        wire.close().await;
        Ok(Found { version, notes })
    }))?;
    try_all(plan, interrupt)?;
    Ok(found)
}

/// Executes the statements of a text in turn, each by itself: what fills a database before a run.
///
/// # Errors
/// If the way or the text is wrong, a statement fails, or the user interrupts it.
pub fn execute(config: &Config, source: &Source, interrupt: &AtomicBool) -> Result<(), RunError> {
    let statements = Scripts::split(source)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(unless_interrupted(interrupt, async {
        let Opened { mut wire, .. } = open(config).await?;
        for (nth, text) in statements.iter().enumerate() {
            frontend::query(text, &mut wire.output)?;
            wire.send().await?;
            let mut refused = None;
            loop {
                let message = wire.next(Rows::Unwanted).await?;
                match message.tag {
                    b'E' => refused = Some(said(wire.body(&message))),
                    b'G' => frontend::copy_fail("the file holds no rows", &mut wire.output)?,
                    _ => {}
                }
                wire.done(&message);
                match message.tag {
                    b'G' => wire.send().await?,
                    b'Z' => break,
                    _ => {}
                }
            }
            if let Some(said) = refused {
                let place = format!("{}, statement {}", source.name, nth + 1);
                return Err(RunError::Filling { place, said });
            }
        }
        wire.close().await;
        Ok(())
    }))
}

async fn parse_all(wire: &mut Wire, scripts: &Scripts, seed: u64) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    // Some statement makes what another one needs.
    let makes =
        scripts.all().iter().flat_map(|script| &script.commands).any(
            |command| matches!(command, Command::Sql(statement) if makes_names(&statement.sql)),
        );
    let mut brought: HashSet<usize> = HashSet::new();
    for (nth, script) in scripts.all().iter().enumerate() {
        for (at, command) in script.commands.iter().enumerate() {
            let Command::Sql(statement) = command else { continue };
            let error = |cause: String| scripts.error(nth, at, cause);
            let Some(text) = text_of(scripts, statement, seed) else {
                notes.push(
                    error("not checked beforehand, for its values come from rows".into())
                        .to_string(),
                );
                continue;
            };
            if statement.joined {
                continue;
            }
            let Ok(parsed) = timeout(ANSWER_MAX, parse(wire, &text)).await else {
                let place =
                    error(String::new()).to_string().trim_end_matches([':', ' ']).to_owned();
                return Err(RunError::NoAnswer { place });
            };
            let described = match parsed {
                Ok(described) => described,
                Err(Refused::Way(broken)) => return Err(broken.into()),
                Err(Refused::Said(said)) if makes && UNKNOWN.contains(&&*said.code) => {
                    notes.push(error(format!("not checked beforehand: {said}")).to_string());
                    continue;
                }
                Err(Refused::Said(said)) => {
                    return Err(at_position(error(said.to_string()), &text, &said).into());
                }
            };
            if let Fetch::Row(prefix) | Fetch::All(prefix) = &statement.fetch {
                if described.is_empty() {
                    return Err(
                        error("\\gset takes a row, and this statement gives none".into()).into()
                    );
                }
                let names = described.iter().map(|column| format!("{prefix}{column}"));
                brought.extend(names.filter_map(|name| scripts.variable(&name)));
            }
        }
    }
    if notes.is_empty() {
        brought_all(scripts, &brought)?;
    }
    Ok(notes)
}

/// Each variable that only a column can bring must have a column that does.
fn brought_all(scripts: &Scripts, brought: &HashSet<usize>) -> Result<(), ScriptError> {
    for (nth, script) in scripts.all().iter().enumerate() {
        for (at, command) in script.commands.iter().enumerate() {
            let Command::Sql(statement) = command else { continue };
            let missing = |variable: &&usize| {
                scripts.is_of_column(**variable) && !brought.contains(*variable)
            };
            if let Some(variable) = statement.parameters.iter().find(missing) {
                let cause = format!(
                    "{} is set nowhere, and no column of \\gset or \\aset brings it",
                    scripts.name(*variable)
                );
                return Err(scripts.error(nth, at, cause));
            }
        }
    }
    Ok(())
}

/// True if a statement may make a name that others use.
fn makes_names(sql: &str) -> bool {
    let first = sql.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    ["create", "alter", "set", "do", "call", "prepare", "import"].contains(&&*first)
        || first == "select" && sql.to_ascii_lowercase().contains(" into ")
}

/// The text that the server is to parse; `None` if its values are not known yet.
fn text_of(scripts: &Scripts, statement: &Statement, seed: u64) -> Option<String> {
    if scripts.protocol() != Protocol::Simple {
        return Some(statement.sql.clone());
    }
    let variables = dry_run(scripts, seed);
    let mut text = String::new();
    scripts.write(statement, &variables, &mut text).ok().map(|()| text)
}

/// Variables as the `\set`s of all scripts leave them, branches aside.
fn dry_run(scripts: &Scripts, seed: u64) -> Vec<Option<Value>> {
    let (mut variables, mut chance) = (scripts.variables(0, seed), stream(seed, 0));
    for command in scripts.all().iter().flat_map(|script| &script.commands) {
        if let Command::Set(assignment) = command {
            // What has no value yet has one when its time comes, or the run says so.
            let _ = scripts.assign(assignment, &mut variables, &mut chance);
        }
    }
    variables
}

enum Refused {
    Way(std::io::Error),
    Said(Said),
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::Way(error)
    }
}

/// Lets the server parse a statement; the names of its columns.
async fn parse(wire: &mut Wire, text: &str) -> Result<Vec<String>, Refused> {
    frontend::parse("", text, [], &mut wire.output)?;
    frontend::describe(b'S', "", &mut wire.output)?;
    frontend::sync(&mut wire.output);
    wire.send().await?;
    let (mut names, mut refused) = (Vec::new(), None);
    loop {
        let message = wire.next(Rows::Unwanted).await?;
        match message.tag {
            b'T' => names = columns(wire.body(&message)),
            b'E' => refused = Some(said(wire.body(&message))),
            _ => {}
        }
        wire.done(&message);
        if message.tag == b'Z' {
            return refused.map_or(Ok(names), |said| Err(Refused::Said(said)));
        }
    }
}

/// An error with the words at which the server stumbled.
fn at_position(mut error: ScriptError, text: &str, said: &Said) -> ScriptError {
    if let Some(position) = said.position {
        let rest: String = text.chars().skip(position.saturating_sub(1)).take(30).collect();
        let words: Vec<&str> = rest.split_whitespace().take(4).collect();
        if !words.is_empty() {
            error.cause = format!("{}, at `{}`", error.cause, words.join(" "));
        }
    }
    error
}
