//! `sekisho tpcc run`: terminals that key and think, and whether their throughput qualifies.

use std::io::Write;

use ::load::tpcc::{MEASURE_LEAST, Pace};
use advise::Span;
use clap::Args as ClapArgs;
use serde_json::json;

use super::page::Run;
use super::report::{ReportArgs, written};
use super::target::Target;
use super::terminals::{self, TerminalArgs};
use crate::session::{Session, say};
use crate::text::{next, paragraph, sentence};
use crate::verdict::{Failure, Verdict};

/// Let ten terminals a warehouse key and think, and judge what they see
///
/// Each terminal picks from a menu, keys, sends, and thinks, as clause 5.2 has it; response times
/// count from the moment at which it means to send. With no database named, a private PostgreSQL is
/// started, loaded, and removed at the end.
#[derive(ClapArgs)]
#[command(after_help = "\
Less than ten minutes never qualify, and the specification asks for 120. A
record goes to .sekisho/runs/, and so do a report and the results of Deliveries.

Examples:
  sekisho tpcc run
  sekisho tpcc run --warehouses 10 --measure 10min --db \"$DATABASE_URL\"")]
pub(super) struct Args {
    #[command(flatten)]
    terminals: TerminalArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Connections to the database, far fewer than terminals
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// How long the terminals run before they are measured
    #[arg(long, value_name = "TIME", default_value = "30s")]
    ramp: Span,
    /// How long they are measured
    #[arg(long, value_name = "TIME", default_value = "2min")]
    measure: Span,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let &TerminalArgs { warehouses, seed, json, .. } = &args.terminals;
    let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
    let plan = args.terminals.plan(Pace::Paced, args.connections, ramp, measure);
    let target = Target::open(&args.terminals.database, warehouses, seed, session)?;
    let Some(target) = target else { return terminals::not_begun(&args.terminals, out) };
    let kept = terminals::run(&target, &plan, session)?;
    let mut run = Run::new(kept, None);
    run.found = terminals::verified(&args.terminals, &target, session, &run.judged.outcome)?;
    let report = args.report.write(std::slice::from_ref(&run));
    let verdict = run.verdict();
    let Run { kept, judged, found } = run;
    if json {
        let mut object = terminals::object(&kept, &judged, found.as_ref(), verdict);
        object["report"] = json!(report.as_ref().ok());
        say(out, &format!("{object}\n"))?;
    } else {
        let s = if warehouses == 1 { "" } else { "s" };
        let line = format!(
            "{}: {} at {warehouses} warehouse{s} of {}, {} connections",
            terminals::outcome_text(&judged.outcome),
            terminals::per_minute(&judged),
            target.name(),
            args.connections,
        );
        let record = &kept.record;
        let text = [
            sentence(&line),
            "\n".into(),
            terminals::table(record),
            "\n".into(),
            terminals::why(record, &judged),
            terminals::verified_text(found.as_ref()),
            paragraph(&format!("record: {}", kept.path.display())),
            written(&report),
            next(&next_command(warehouses)),
        ];
        say(out, &text.concat())?;
    }
    target.close()?;
    report.map(|_| verdict)
}

fn next_command(warehouses: u32) -> String {
    let minutes = MEASURE_LEAST.as_secs() / 60;
    format!("sekisho tpcc run --warehouses {} --measure {minutes}min", warehouses.max(10))
}
