//! `sekisho tpcc verify`: whether a database holds what the specification says it must.

use std::io::Write;
use std::time::Instant;

use ::tpcc::facts;
use ::tpcc::verify::{Outcome, Part, ROWS_MAX, Verification, VerifyError, name, verify};
use clap::Args as ClapArgs;
use cli::text::{filled, next, paragraph, sentence, time};
use cli::{Failure, Session, Verdict, progress, say};
use serde_json::{Value, json};

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
                let verdict = Verdict::Interrupted;
                let object = json!({ "verdict": verdict.word(), "exit_code": verdict.code() });
                format!("{object}\n")
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
        say(out, &format!("{}\n", object(&found, verdict, seconds, &version)))?;
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
    let count = match failed {
        0 => format!("all {checks} checks"),
        _ => format!("{failed} of {checks} checks"),
    };
    let warehouses = match found.warehouses {
        1 => "1 warehouse".to_owned(),
        many => format!("{many} warehouses"),
    };
    let word = verdict.word();
    let mut text = sentence(&format!("{word}: {count} of {warehouses} in {database}"));
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
        text += &format!("\n{}", next(&args.database.again("sekisho tpcc verify --population")));
    } else if failed > 0 {
        text += &format!("\n{}", next(&args.database.again("sekisho tpcc verify --json")));
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

fn object(found: &Verification, verdict: Verdict, seconds: f64, version: &str) -> Value {
    let checks: Vec<Value> = found
        .outcomes
        .iter()
        .map(|outcome| {
            let rows: Vec<Value> = outcome
                .rows
                .iter()
                .map(|row| json!({ "row": row.row, "says": row.says }))
                .collect();
            json!({
                "name": outcome.check.name(),
                "statement": outcome.check.statement(),
                "holds": outcome.broken == 0,
                "broken": outcome.broken,
                "rows": rows,
            })
        })
        .collect();
    json!({
        "verdict": if verdict == Verdict::Holds { "holds" } else { "fails" },
        "exit_code": verdict.code(),
        "warehouses": found.warehouses,
        "postgres": version,
        "took_s": seconds,
        "not_asked": found.not_asked,
        "checks": checks,
    })
}
