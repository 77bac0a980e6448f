//! `sekisho tpcc run`: terminals that key and think, and whether their throughput qualifies.

use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;

use ::tpcc::{MEASURE_LEAST, Outcome, Pace, Plan};
use advise::Span;
use clap::Args as ClapArgs;
use cli::text::{next, paragraph, sentence};
use cli::{Failure, Session, Verdict, say};

use super::page::Run;
use super::parts::{self, PartArgs};
use super::report::{ReportArgs, written};
use super::target::Target;
use super::terminals::{self, TerminalArgs};
use super::verified::verified_text;
use databases::DatabaseArgs;

/// Let ten terminals a warehouse key and think, and judge what they see
///
/// Each terminal picks from a menu, keys, sends, and thinks, as clause 5.2 has it; response times
/// count from the moment at which it means to send. With no database named, a private PostgreSQL is
/// started, loaded, and removed at the end.
#[derive(ClapArgs)]
#[command(after_help = "\
Of less than ten minutes, as by the defaults, nothing is said (exit code 4);
below the 120 that the specification asks for, a run meets the rules for its
minutes and never qualifies. A rule is met, or it deviates, or too few were seen
to tell (exit code 4). A record goes to .sekisho/runs/, and so do a report, the
results of Deliveries, and a line for each New-Order and Payment that was
acknowledged (ID.success.jsonl).

Where one machine is too slow for all terminals, several share them: each a
part of the warehouses, with as many connections; `tpcc merge` makes one
record of theirs. A part alone is no verdict (exit code 4), and part 1 verifies
the database.

Examples:
  sekisho tpcc run
      ends with 4: two minutes are too short to tell
  sekisho tpcc run --warehouses 8 --hasten 100 --measure 30s
  sekisho tpcc run --part 1/2 --warehouses 900 --db \"$DATABASE_URL\"
      ends with 4: one part is no verdict
  sekisho tpcc run --warehouses 10 --measure 10min --db \"$DATABASE_URL\"
      ends with 0 or 4: the rules are met, or too few were seen to tell")]
pub(super) struct Args {
    #[command(flatten)]
    terminals: TerminalArgs,
    #[command(flatten)]
    parts: PartArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Connections to the database, far fewer than terminals
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Divide keying and think times by this: few warehouses press as many do, which is a deviation and
    /// never qualifies
    #[arg(long, value_name = "N")]
    hasten: Option<NonZeroU32>,
    /// How long the terminals run before they are measured
    #[arg(long, value_name = "TIME", default_value = "30s")]
    ramp: Span,
    /// How long they are measured
    #[arg(long, value_name = "TIME", default_value = "2min")]
    measure: Span,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let &TerminalArgs { ref database, ref private, warehouses, json, .. } = &args.terminals;
    let seed = args.parts.seed(&args.terminals)?;
    let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
    let pace = args.hasten.map_or(Pace::Paced, Pace::Hastened);
    let plan = args.terminals.plan(pace, args.connections, ramp, measure);
    let plan = Plan { seed, ..plan };
    let meeting = args.parts.meeting(database)?;
    let target = Target::open(database, private, (warehouses, seed), session)?;
    let Some(target) = target else { return terminals::not_begun(&args.terminals, out) };
    let kept = parts::run(meeting.as_ref(), &target, &plan, session)?;
    let Some(kept) = kept else { return terminals::not_begun(&args.terminals, out) };
    let mut run = Run::new(kept);
    if parts::verifies(meeting.as_ref()) {
        let outcome = &run.judged.outcome;
        let found = terminals::verified(&args.terminals, &target, session, outcome)?;
        run.kept.note(found)?;
    }
    let report = args.report.write(std::slice::from_ref(&run));
    let verdict = run.verdict();
    if json {
        let report = report.as_deref().ok();
        say(out, &terminals::answer(&run.kept, &run.judged, verdict, report))?;
    } else {
        say(out, &text(&run, &target.name(), Some((database, target.room())), &report))?;
    }
    target.close()?;
    report.map(|_| verdict)
}

/// A run, or what was merged of its parts, for a person; `given` is the database to go on with, and the
/// warehouses that it has room for.
pub(super) fn text(
    run: &Run,
    database: &str,
    given: Option<(&DatabaseArgs, Option<u32>)>,
    report: &Result<PathBuf, Failure>,
) -> String {
    let Run { kept, judged, .. } = run;
    let record = &kept.record;
    let (own, all) = (record.warehouses(), record.plan.warehouses);
    let share = if own == all { String::new() } else { format!("{own} of ") };
    let s = if all == 1 { "" } else { "s" };
    let line = format!(
        "{}: {} at {share}{all} warehouse{s} of {database}, {} connections",
        terminals::outcome_text(&judged.outcome),
        terminals::per_minute(judged),
        record.plan.connections,
    );
    [
        sentence(&line),
        "\n".into(),
        terminals::table(record),
        "\n".into(),
        terminals::why(record, judged),
        verified_text(kept.verified.as_ref()),
        paragraph(&format!("record: {}", kept.path.display())),
        written(report),
        match given {
            Some((database, _)) => database.next_line(&next_command(run, given)),
            None => next(&next_command(run, given)),
        },
    ]
    .concat()
}

fn next_command(run: &Run, given: Option<(&DatabaseArgs, Option<u32>)>) -> String {
    let Run { kept, judged } = run;
    if let Some(part) = &kept.record.part {
        let others = if part.part.of() > 2 { "RECORD..." } else { "RECORD" };
        return format!("sekisho tpcc merge {} {others}", kept.path.display());
    }
    let (minutes, warehouses) = (MEASURE_LEAST.as_secs() / 60, kept.record.plan.warehouses);
    let room = given.and_then(|(_, room)| room);
    let command = match judged.outcome {
        Outcome::Qualified | Outcome::Meets { .. } => {
            terminals::find_next(room, warehouses.saturating_mul(2))
        }
        // As long again it would see as few again.
        Outcome::TooFew => format!("sekisho tpcc run --warehouses {warehouses} --measure 2h"),
        _ => terminals::run_next(room, warehouses, 10, &format!("{minutes}min")),
    };
    given.map_or(command.clone(), |(database, _)| database.again(&command))
}
