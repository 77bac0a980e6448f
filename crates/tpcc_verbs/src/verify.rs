//! `sekisho tpcc verify`: whether a database holds what the specification says it must.

use std::io::Write;
use std::time::Instant;

use ::tpcc::facts;
use ::tpcc::verify::{Outcome, Part, ROWS_MAX, Verification, VerifyError, name, verify};
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{count, filled, paragraph, sentence, time};
use cli::{Failure, Session, Verdict, progress, say};
use schemars::JsonSchema;
use serde::Serialize;

use super::terminals;
use databases::DatabaseArgs;

/// Check a database: the twelve consistency conditions, counters, population
///
/// Everything is asked in one snapshot and nothing is written, so that it can be asked at any time,
/// also while a run goes on. What breaks a check is counted, and its first rows are named.
#[derive(ClapArgs)]
#[command(after_help = "\
Exit code 3: a check fails. The conditions are those of clause 3.3.2; the
eleventh counts deliveries too, so that it holds after a run. Tables that
another program loaded are asked all but what needs the note of our load.

Examples:
  sekisho tpcc verify --db \"$DATABASE_URL\"
  sekisho tpcc verify --db \"$DATABASE_URL\" --population --json")]
pub(super) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Check the population too: cardinalities, ranges, and the frequencies of what is drawn by
    /// chance, which a right population misses once in a million
    #[arg(long)]
    population: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let config = args.database.named()?;
    session.catch_interrupts()?;
    let begun = Instant::now();
    let mut parts = vec![Part::Conditions];
    if args.population {
        parts.push(Part::Population);
    }
    let bar = progress(0, "verifying");
    let found = verify(&config, &parts, &session.interrupt, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let found = match found {
        Ok(found) => found,
        Err(error @ VerifyError::Interrupted) => {
            let text = if args.json {
                Interrupted::default().line()
            } else {
                sentence(&error.to_string())
            };
            say(out, &text)?;
            return Ok(Verdict::Interrupted);
        }
        Err(error @ VerifyError::Database { .. }) => return Err(Failure::machine(error)),
        Err(error) => return Err(Failure::usage(error)),
    };
    let verdict = if found.holds() { Verdict::Holds } else { Verdict::Fails };
    let seconds = begun.elapsed().as_secs_f64();
    let version = facts(&config).map_err(terminals::failure)?.version;
    let database = format!("{}, PostgreSQL {version}", name(&config));
    if args.json {
        let answer = VerifiedDatabase::new(&found, seconds, &version);
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        say(out, &text(args, &found, verdict, &database, seconds))?;
    }
    Ok(verdict)
}

fn text(
    args: &Args,
    found: &Verification,
    verdict: Verdict,
    database: &str,
    seconds: f64,
) -> String {
    let (checks, failed) = (found.outcomes.len(), found.failed().count());
    let found_of = match failed {
        0 => format!("all {checks} checks"),
        _ => format!("{failed} of {checks} checks"),
    };
    let warehouses = count(found.warehouses, "warehouse");
    let word = verdict.word();
    let mut text = sentence(&format!("{word}: {found_of} of {warehouses} in {database}"));
    text += &paragraph(&format!(
        "Asked in one snapshot, in {}: conditions 1 to 12, and the counters beside them{}.",
        time(seconds),
        if args.population { "; the rules of the population" } else { "" },
    ));
    if !found.not_asked.is_empty() {
        text += &paragraph(&format!(
            "Another program made these tables: there is no note of a load (table `tpcc_load`). Not \
             asked, since they need it: {}.",
            found.not_asked.join(", "),
        ));
    }
    for outcome in found.failed() {
        text += &offences(outcome);
    }
    if failed == 0 && !args.population {
        text += &format!("\n{}", args.database.next("sekisho tpcc verify --population"));
    } else if failed > 0 {
        text += &format!("\n{}", args.database.next("sekisho tpcc verify --json"));
    }
    text
}

/// A check that fails, with its rows.
fn offences(outcome: &Outcome) -> String {
    let Outcome { check, broken, rows } = outcome;
    let head = format!("{} fails: {}", check.name(), check.statement());
    let mut text = format!("\n{}", filled("  ", "    ", &head));
    for row in rows {
        text += &filled("    ", "      ", &format!("{}: {}", row.row, row.says));
    }
    match broken.saturating_sub(rows.len() as u64) {
        0 => text,
        more => {
            debug_assert_eq!(rows.len(), ROWS_MAX);
            text + &filled("    ", "      ", &format!("and {more} more"))
        }
    }
}

/// The conditions of a database, checked.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VerifiedDatabase<'a> {
    /// Number of warehouses.
    warehouses: u64,
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// Time that it took \[s\].
    took_s: f64,
    /// Conditions that were not asked, since they need a note of the load.
    not_asked: &'a [String],
    /// The conditions, each with its finding.
    checks: Vec<CheckAnswer<'a>>,
}

impl Answer for VerifiedDatabase<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-verify/1";
}

/// A condition.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Condition")]
struct CheckAnswer<'a> {
    /// Its name.
    name: String,
    /// The condition in words.
    statement: &'static str,
    /// True if it holds.
    holds: bool,
    /// Number of rows or groups that break it.
    broken: u64,
    /// The first of them.
    rows: Vec<RowAnswer<'a>>,
}

/// A row that breaks a condition.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrokenRow")]
struct RowAnswer<'a> {
    /// Key of the row.
    row: &'a str,
    /// Contradiction, in words.
    says: &'a str,
}

impl<'a> VerifiedDatabase<'a> {
    fn new(found: &'a Verification, took_s: f64, postgres: &'a str) -> VerifiedDatabase<'a> {
        let check = |outcome: &'a Outcome| CheckAnswer {
            name: outcome.check.name(),
            statement: outcome.check.statement(),
            holds: outcome.broken == 0,
            broken: outcome.broken,
            rows: outcome
                .rows
                .iter()
                .map(|row| RowAnswer { row: &row.row, says: &row.says })
                .collect(),
        };
        VerifiedDatabase {
            warehouses: found.warehouses,
            postgres,
            took_s,
            not_asked: &found.not_asked,
            checks: found.outcomes.iter().map(check).collect(),
        }
    }
}
