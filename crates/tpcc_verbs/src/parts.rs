//! Run as one part of several: its arguments, and what is told of parts.

use ::tpcc::{MeetError, Meeting, PartRecord, Plan, Record, RunError, RunPart, facts, run_part};
use advise::Span;
use clap::Args as ClapArgs;
use cli::text::{paragraph, time};
use cli::{Failure, Session, store};

use super::kept::{Begun, Kept};
use super::target::Target;
use super::terminals::{self, TerminalArgs, Watcher};
use databases::DatabaseArgs;

#[derive(ClapArgs)]
pub(super) struct PartArgs {
    /// This is part K of N processes that share the terminals, on as many machines: start each with
    /// the same arguments but for this one; they meet in the database, and start together, with its
    /// load's seed unless all are told another
    #[arg(long, value_name = "K/N")]
    part: Option<RunPart>,
    /// How long a part waits for the others
    #[arg(long, value_name = "TIME", default_value = "1min", requires = "part")]
    patience: Span,
}

impl PartArgs {
    /// The seed of a run. All parts draw from one: where none is said, from that of the load in the
    /// database where they meet.
    pub(super) fn seed(&self, args: &TerminalArgs) -> Result<u64, Failure> {
        let is_drawn = args.seed == store::drawn_seed();
        if self.part.is_none() || !is_drawn || !args.database.is_named() {
            return Ok(args.seed);
        }
        let known = facts(&args.database.named()?).map_err(terminals::failure)?;
        Ok(known.load.map_or(args.seed, |load| load.seed))
    }

    /// The part of a run that this is, and how long it waits for the others.
    pub(super) fn meeting(&self, database: &DatabaseArgs) -> Result<Option<Meeting>, Failure> {
        let Some(part) = self.part else { return Ok(None) };
        if !database.is_named() {
            return Err(Failure::Usage(
                "the parts of a run meet in the database that they load: name it with `--db`"
                    .into(),
            ));
        }
        Ok(Some(Meeting { part, patience: terminals::span(self.patience)? }))
    }
}

/// True if this process verifies the database when it ends. Of parts the first does it: what must
/// hold, holds also while others still run.
pub(super) fn verifies(meeting: Option<&Meeting>) -> bool {
    meeting.is_none_or(|meeting| meeting.part.number() == 1)
}

/// Runs a plan, or a part of it; `None` if the user did not want to wait for the other parts.
pub(super) fn run(
    meeting: Option<&Meeting>,
    target: &Target,
    plan: &Plan,
    session: &Session,
) -> Result<Option<Kept>, Failure> {
    let Some(meeting) = meeting else {
        return terminals::run_noted(target, plan, session).map(Some);
    };
    let begun = Begun::run()?;
    let mut watch = Watcher::new(&begun.path("deliveries.jsonl")?, plan)?;
    watch.acknowledges(&begun.path("success.jsonl")?)?;
    let record = run_part(&target.config, plan, meeting, &session.interrupt, &mut watch);
    if let Err(RunError::Meet(MeetError::Interrupted)) = record {
        watch.discard();
        return Ok(None);
    }
    terminals::keep(record, begun, watch, session).map(Some)
}

/// Text on a run in several processes.
pub(super) fn text(record: &Record) -> String {
    if let Some(PartRecord { part, clock_error_s, late_s, .. }) = &record.part {
        return paragraph(&format!(
            "Part {part}: its terminals began {} after the start that all parts agreed on, which it \
             knows to ± {} by the database's clock. Only the records of all parts, merged, make a \
             verdict.",
            time(*late_s),
            time(*clock_error_s),
        ));
    }
    if record.merged.is_empty() {
        return String::new();
    }
    let late = record.merged.iter().map(|merged| merged.part.late_s + merged.part.clock_error_s);
    let machines: Vec<&str> = record.merged.iter().map(|part| part.host.name.as_str()).collect();
    paragraph(&format!(
        "Merged of {} parts, on {}; each began within {} of the common start.",
        record.merged.len(),
        machines.join(", "),
        time(late.fold(0.0, f64::max)),
    ))
}
