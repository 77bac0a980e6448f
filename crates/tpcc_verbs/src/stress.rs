//! `sekisho tpcc stress`: throughput against the number of connections, without waits.

use std::io::Write;
use std::path::PathBuf;

use ::tpcc::{NOT_AUDITED, Pace, Plan};
use advise::Span;
use clap::Args as ClapArgs;
use cli::text::{Table, paragraph, sentence, time};
use cli::{Failure, Session, Verdict, say};
use workload::tpcc::Kind;

use super::kept::Kept;
use super::page::Run;
use super::parts::{self, PartArgs};
use super::report::{ReportArgs, written};
use super::target::Target;
use super::terminals::{self, TerminalArgs};
use super::verified::verified_text;

/// Let as many terminals as connections work without keying and thinking
///
/// A closed load at each number of connections, one after the other, on the same database: what it
/// does at most, and from which number on more connections do not help. Never a qualified result.
/// With no database named, a private PostgreSQL is started, loaded, and removed at the end.
#[derive(ClapArgs)]
#[command(after_help = "\
Of several parts each opens as many connections; together they have so many
terminals, of which one part is no verdict (exit code 4).

Examples:
  sekisho tpcc stress --connections 8
  sekisho tpcc stress --connections 1,2,4,8,16 --execute functions")]
pub(super) struct Args {
    #[command(flatten)]
    terminals: TerminalArgs,
    #[command(flatten)]
    parts: PartArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Numbers of connections, one run each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,
    /// How long each run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "2s")]
    ramp: Span,
    /// How long each run is measured
    #[arg(long, value_name = "TIME", default_value = "10s")]
    measure: Span,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let &TerminalArgs { ref database, ref private, warehouses, json, .. } = &args.terminals;
    let seed = args.parts.seed(&args.terminals)?;
    let meeting = args.parts.meeting(database)?;
    let target = Target::open(database, private, (warehouses, seed), session)?;
    let Some(target) = target else { return terminals::not_begun(&args.terminals, out) };
    let (mut runs, mut verdict) = (Vec::new(), Verdict::Holds);
    let mut report = Err(Failure::Defect("nothing was run".into()));
    for &connections in &args.connections {
        let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
        let plan = args.terminals.plan(Pace::Stress, connections, ramp, measure);
        let plan = Plan { seed, ..plan };
        let kept = parts::run(meeting.as_ref(), &target, &plan, session)?;
        let Some(kept) = kept else {
            // Of those before there are records; the others are not worth the wait.
            verdict = Verdict::Interrupted;
            break;
        };
        let mut run = Run::new(kept);
        if parts::verifies(meeting.as_ref()) {
            let outcome = &run.judged.outcome;
            let found = terminals::verified(&args.terminals, &target, session, outcome)?;
            run.kept.note(found)?;
        }
        let own = run.verdict();
        verdict = verdict.and(own);
        runs.push(run);
        report = args.report.write(&runs);
        if let (true, Some(Run { kept, judged })) = (json, runs.last()) {
            let report = report.as_deref().ok();
            say(out, &terminals::answer(kept, judged, own, report))?;
        }
        if matches!(own, Verdict::Interrupted | Verdict::Invalid) {
            break;
        }
    }
    if runs.is_empty() {
        return terminals::not_begun(&args.terminals, out);
    }
    if !json {
        say(out, &text(&runs, args, &target, &report))?;
    }
    target.close()?;
    report.map(|_| verdict)
}

fn text(runs: &[Run], args: &Args, target: &Target, report: &Result<PathBuf, Failure>) -> String {
    let mean = |judged: &::tpcc::Verdict| judged.new_orders_per_minute.mean;
    let most = runs.iter().max_by(|one, two| mean(&one.judged).total_cmp(&mean(&two.judged)));
    let Some(Run { kept, judged, .. }) = most else { return String::new() };
    let mut text = sentence(&format!(
        "{}: at most {} with {} connections, {}",
        terminals::outcome_text(&judged.outcome),
        terminals::per_minute(judged),
        kept.record.plan.connections,
        target.name(),
    ));
    let head = ["connections", "new orders/min", "NO p50", "NO p90", "retries", "client CPU"];
    let mut table = Table::new(&head);
    for Run { kept: Kept { record, .. }, judged, .. } in runs {
        let of = record.of(Kind::NewOrder);
        let retries: u64 = record.kinds.iter().map(|kind| kind.retries).sum();
        let cpu = record.client.cpu_s / record.client.elapsed_s.max(1e-9) * 100.0;
        table.row(vec![
            record.plan.connections.to_string(),
            format!("{:.0}", mean(judged)),
            time(of.response.quantile(0.5).as_secs_f64()),
            time(of.response.quantile(0.9).as_secs_f64()),
            retries.to_string(),
            format!("{cpu:.0} %"),
        ]);
    }
    text += &format!("\n{table}\n{}\n", terminals::table(&kept.record));
    for Run { kept: Kept { record, .. }, judged, .. } in runs {
        if let ::tpcc::Outcome::Invalid(why) = &judged.outcome {
            let connections = record.plan.connections;
            text += &paragraph(&format!("invalid with {connections} connections: {why}"));
        }
        if let Some(first) = &record.error_first {
            text += &paragraph(&format!("refused: {first}"));
        }
    }
    text += &paragraph(&format!("Deviations: {}.", judged.deviations.join("; ")));
    text += &paragraph(NOT_AUDITED);
    let worst = runs.iter().map(|run| run.kept.verified.as_ref());
    let worst = worst.max_by_key(|found| found.map_or(0, |found| found.failed.len()));
    text += &verified_text(worst.flatten());
    for Run { kept, .. } in runs {
        text += &paragraph(&format!("record: {}", kept.path.display()));
    }
    text += &written(report);
    text += &paragraph(&format!("Seed {}.", kept.record.plan.seed));
    let command = terminals::run_next(target.room(), kept.record.plan.warehouses, 10, "10min");
    text + &args.terminals.database.next(&command)
}
