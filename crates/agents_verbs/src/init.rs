//! `sekisho agents init`: the tables of the agents in the user's PostgreSQL.

use std::io::Write;
use std::path::PathBuf;

use agents_store::{Made, PostgresSpec, PostgresStore};
use clap::Args as ClapArgs;
use cli::json::Answer;
use cli::text::{quoted, sentence, shell_word};
use cli::{Failure, Verdict, say};
use databases::DatabaseArgs;
use schemars::JsonSchema;
use serde::Serialize;

/// The schema of the tables where nobody says another one.
pub(crate) const SCHEMA: &str = "sekisho_agents";

#[derive(ClapArgs)]
pub(crate) struct InitArgs {
    /// The file of rules (docs/agents-rules.md)
    rules: PathBuf,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Schema of the tables, which are this store's alone
    #[arg(long, value_name = "NAME", default_value = SCHEMA)]
    schema: String,
    /// Make the tables; left out, the statements that would make them are printed
    #[arg(long)]
    apply: bool,
    /// Look at the database, and say what `--apply` would do
    #[arg(long, conflicts_with = "apply")]
    dry_run: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The tables of agents in a database.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Inited {
    /// The schema.
    schema: String,
    /// The state of the tables: printed, would-be-made, made or there.
    tables: &'static str,
    /// The statements that make them, if they were to be printed.
    statements: Option<String>,
}

impl Answer for Inited {
    const FORMAT: &'static str = "sekisho/agents-init/1";
}

pub(crate) fn run(args: &InitArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    // A file with an error is told before anything is made.
    super::read(&args.rules, None)?;
    let spec = PostgresSpec { schema: args.schema.clone(), ..PostgresSpec::default() };
    let ddl = PostgresStore::ddl(&args.schema).map_err(Failure::usage)?;
    let found = match (args.apply, args.dry_run) {
        (true, _) => Some(PostgresStore::init(args.database.named()?, &spec)),
        (false, true) => Some(PostgresStore::look(args.database.named()?, &spec)),
        (false, false) => None,
    };
    let found = found.transpose().map_err(Failure::usage)?;
    let (tables, statements) = match (found, args.apply) {
        (None, _) => ("printed", Some(ddl)),
        (Some(Made::New), true) => ("made", None),
        (Some(Made::New), false) => ("would-be-made", None),
        (Some(Made::Before), _) => ("there", None),
    };
    let verdict = Verdict::Holds;
    if args.json {
        let answer = Inited { schema: args.schema.clone(), tables, statements };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    say(out, &text(args, tables, statements.as_deref()))?;
    Ok(verdict)
}

/// Columns of a script: as many as the other answers have.
const COLUMNS: usize = 80;

/// Statements in lines that are no longer than a terminal's, as far as their words are not.
fn folded(statements: &str) -> String {
    let mut text = String::new();
    for line in statements.lines() {
        let comment = if line.starts_with("-- ") { "-- " } else { "" };
        let mut start = comment.len();
        let mut prefix = comment.to_owned();
        loop {
            let rest = &line[start..];
            let room = COLUMNS - prefix.len();
            let at = (rest.chars().count() > room).then(|| last_space(rest, room)).flatten();
            let (part, next) = at.map_or((rest, None), |at| (&rest[..at], Some(start + at + 1)));
            text += &format!("{prefix}{part}\n");
            let Some(next) = next else { break };
            start = next;
            prefix = if comment.is_empty() { "    ".to_owned() } else { comment.to_owned() };
        }
    }
    text
}

/// The place of the last space among the first characters that is not within quotation marks: a line that is
/// broken there means the same.
fn last_space(text: &str, most: usize) -> Option<usize> {
    let mut is_quoted = false;
    let mut found = None;
    for (at, one) in text.char_indices().take(most + 1) {
        is_quoted ^= one == '"';
        // Indentation is no place to break.
        if one == ' ' && !is_quoted && !text[..at].trim().is_empty() {
            found = Some(at);
        }
    }
    found
}

fn text(args: &InitArgs, tables: &str, statements: Option<&str>) -> String {
    let schema = if args.schema == SCHEMA {
        String::new()
    } else {
        format!(" --schema {}", quoted(&args.schema))
    };
    let command = |verb: &str, rest: &str| {
        let rules = shell_word(&args.rules);
        let command = args.database.again(&format!("sekisho agents {verb} {rules}"));
        args.database.next_line(&format!("{command}{schema}{rest}"))
    };
    let name = &args.schema;
    match tables {
        // As comments, so that the whole is a script for psql.
        "printed" => {
            let statements = statements.expect("they are what is printed");
            let hint = command("init", " --apply");
            let hint: String = hint.trim().lines().map(|line| format!("-- {line}\n")).collect();
            format!("{}\n{hint}", folded(statements))
        }
        "made" => {
            sentence(&format!("made: the tables in the schema {name}")) + &command("serve", "")
        }
        "there" => {
            sentence(&format!("there: the tables in the schema {name}, as this version makes them"))
                + &command("serve", "")
        }
        _ => {
            sentence(&format!("would be made: the tables in the schema {name}"))
                + &command("init", " --apply")
        }
    }
}
