//! Parts that `run` and `stress` have in common: their arguments, what is kept of a run, what is
//! shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tpcc::survival::Acknowledged;
use ::tpcc::{
    Check, DeliveryResult, Execution, Finding, Isolation, KindRecord, MEASURE_FULL, NOT_AUDITED,
    Outcome, Pace, PartRecord, Plan, Record, RunError, SESSION_SETTINGS, Screen, Watch,
};
use advise::Span;
use clap::{Args as ClapArgs, ValueEnum};
use cli::json::{Answer, Interrupted};
use cli::text::{Table, paragraph, plus_minus, time};
use cli::{Failure, Session, Verdict, progress, say, store};
use indicatif::ProgressBar;
use measure::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use workload::tpcc::{Kind, Request};

use super::kept::{Begun, Kept};
use super::parts;
use super::target::Target;
use super::verified::Verified;
use databases::DatabaseArgs;
use databases::PrivateArgs;

#[derive(ClapArgs)]
pub(super) struct TerminalArgs {
    #[command(flatten)]
    pub(super) database: DatabaseArgs,
    #[command(flatten)]
    pub(super) private: PrivateArgs,
    /// Active warehouses; each has ten terminals
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) warehouses: u32,
    /// Who runs a transaction: the client, or functions of the server
    #[arg(long, value_enum, default_value = "sql")]
    execute: ExecuteName,
    /// Isolation of the transactions; `read-committed` is a deviation
    #[arg(long, value_enum, default_value = "repeatable-read")]
    isolation: IsolationName,
    /// What the terminals ask for follows from it; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    pub(super) seed: u64,
    /// Do not verify the database after the run
    #[arg(long)]
    no_verify: bool,
    /// Print JSON objects instead of text
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ExecuteName {
    /// Statements of the client, pipelined
    Sql,
    /// PL/pgSQL, one call a transaction
    Functions,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum IsolationName {
    /// Below what the specification asks for
    ReadCommitted,
    /// Snapshot isolation
    RepeatableRead,
    /// Serialisable whatever else runs
    Serializable,
}

impl ExecuteName {
    pub(super) fn execution(self) -> Execution {
        match self {
            ExecuteName::Sql => Execution::Sql,
            ExecuteName::Functions => Execution::Functions,
        }
    }
}

impl IsolationName {
    pub(super) fn isolation(self) -> Isolation {
        match self {
            IsolationName::ReadCommitted => Isolation::ReadCommitted,
            IsolationName::RepeatableRead => Isolation::RepeatableRead,
            IsolationName::Serializable => Isolation::Serializable,
        }
    }
}

impl TerminalArgs {
    pub(super) fn plan(
        &self,
        pace: Pace,
        connections: u32,
        ramp: Duration,
        measure: Duration,
    ) -> Plan {
        Plan {
            pace,
            warehouses: self.warehouses,
            connections,
            ramp,
            measure,
            execution: self.execute.execution(),
            isolation: self.isolation.isolation(),
            seed: self.seed,
        }
    }
}

/// A length of time that a run may have.
///
/// # Errors
/// More than 30 days.
pub fn span(span: Span) -> Result<Duration, Failure> {
    const MOST: f64 = 30.0 * 86_400.0;
    if span.0 > MOST {
        return Err(Failure::Usage("a run lasts 30 days at most; ask for less".into()));
    }
    Ok(Duration::from_secs_f64(span.0))
}

/// Message where the user did not want to wait for a database.
pub(super) fn not_begun(args: &TerminalArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted::default().line(),
        false => "interrupted: before the terminals began, so nothing was recorded\n".into(),
    };
    say(out, &text)?;
    Ok(verdict)
}

/// Runs a plan, and keeps its record and the result file of its Deliveries.
///
/// # Errors
/// A file cannot be written, or the run cannot begin.
pub fn run(target: &Target, plan: &Plan, session: &Session) -> Result<Kept, Failure> {
    let begun = Begun::run()?;
    let mut watch = Watcher::new(&begun.path("deliveries.jsonl")?, plan)?;
    let record = ::tpcc::run(&target.config, plan, &session.interrupt, &mut watch);
    keep(record, begun, watch, session)
}

/// The same, with a success file beside it where the load is one by the rules or the database is the
/// user's own.
pub(super) fn run_noted(target: &Target, plan: &Plan, session: &Session) -> Result<Kept, Failure> {
    let begun = Begun::run()?;
    let mut watch = Watcher::new(&begun.path("deliveries.jsonl")?, plan)?;
    if plan.pace.waits() || !target.is_private() {
        watch.acknowledges(&begun.path("success.jsonl")?)?;
    }
    let record = ::tpcc::run(&target.config, plan, &session.interrupt, &mut watch);
    keep(record, begun, watch, session)
}

/// Keeps what came of a run that has begun.
pub(super) fn keep(
    record: Result<Record, RunError>,
    begun: Begun,
    watch: Watcher,
    session: &Session,
) -> Result<Kept, Failure> {
    match record {
        Ok(record) => {
            watch.finish()?;
            begun.keep(record, session)
        }
        Err(error) => {
            watch.discard();
            Err(failure(error))
        }
    }
}

/// Verifies the database after a run, unless the user does not want it or the database is gone.
pub(super) fn verified(
    args: &TerminalArgs,
    target: &Target,
    session: &Session,
    outcome: &Outcome,
) -> Result<Option<Verified>, Failure> {
    if args.no_verify || matches!(outcome, Outcome::Invalid(_) | Outcome::Interrupted) {
        return Ok(None);
    }
    Verified::of(target, session)
}

/// Failure of the machine, which is not the user's to mend; the rest is.
pub(super) fn failure(error: RunError) -> Failure {
    match error {
        RunError::Machine(_) => Failure::machine(error),
        _ => Failure::usage(error),
    }
}

/// Shows how far a run is, and writes the result file of its Deliveries.
pub(super) struct Watcher {
    bar: ProgressBar,
    /// Each line is with the system, whole, before the next thing happens: whoever is killed
    /// leaves none that is torn.
    file: File,
    path: PathBuf,
    /// A line for each New-Order and Payment whose commit was acknowledged, before it counts.
    success: Option<(File, PathBuf)>,
    /// Text of the bar for a run that has begun.
    what: String,
    /// The first line that could not be written; later ones are not tried.
    failed: Option<(PathBuf, std::io::Error)>,
}

impl Watcher {
    pub(super) fn new(path: &Path, plan: &Plan) -> Result<Watcher, Failure> {
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        let seconds = (plan.ramp + plan.measure).as_secs();
        let what = format!("{} terminals", plan.terminals());
        let bar = progress(seconds, &what);
        Ok(Watcher { bar, file, path: path.to_owned(), success: None, what, failed: None })
    }

    /// Writes a success file too.
    pub(super) fn acknowledges(&mut self, path: &Path) -> Result<(), Failure> {
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        self.success = Some((file, path.to_owned()));
        Ok(())
    }

    /// The run has not begun, so that there is nothing to keep.
    pub(super) fn discard(self) {
        self.bar.finish_and_clear();
        // An empty file that cannot be removed does no harm.
        std::fs::remove_file(&self.path).ok();
        if let Some((_, path)) = &self.success {
            std::fs::remove_file(path).ok();
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        match self.failed.take() {
            Some((path, error)) => Err(cannot_write(&path, &error)),
            None => Ok(()),
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Machine(format!("cannot write the results {}: {error}", path.display()))
}

impl Watch for Watcher {
    fn tick(&mut self, elapsed: Duration, new_orders: u64) {
        self.bar.set_position(elapsed.as_secs());
        self.bar.set_message(self.what.clone());
        self.bar.set_prefix(format!("{new_orders} new orders"));
    }

    fn waits(&mut self, parts: &[u32]) {
        let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
        self.bar.set_message(format!("waiting for part {}", parts.join(", ")));
    }

    fn delivered(&mut self, result: &DeliveryResult) {
        if self.failed.is_some() {
            return;
        }
        let moment = |at| humantime::format_rfc3339_millis(at).to_string();
        let line = serde_json::json!({
            "queued": moment(result.queued),
            "w_id": result.warehouse,
            "o_carrier_id": result.carrier,
            "delivered": result.delivered.orders,
            "completed": moment(result.completed),
        });
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        self.failed = written.err().map(|error| (self.path.clone(), error));
    }

    fn acknowledged(&mut self, request: &Request, screen: &Screen) {
        if let Some((file, path)) = &mut self.success
            && self.failed.is_none()
            && let Some(entry) = Acknowledged::of(request, screen)
        {
            let line = serde_json::to_string(&entry).map_err(std::io::Error::from);
            let written = line.and_then(|line| file.write_all((line + "\n").as_bytes()));
            self.failed = written.err().map(|error| (path.clone(), error));
        }
    }
}

/// The exit that an outcome stands for.
pub(super) fn verdict_of(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Qualified | Outcome::Meets { .. } | Outcome::NoWaits | Outcome::Hastened => {
            Verdict::Holds
        }
        Outcome::TooFew | Outcome::TooShort | Outcome::Part(_) => Verdict::Inconclusive,
        Outcome::Deviates => Verdict::Fails,
        Outcome::Interrupted => Verdict::Interrupted,
        Outcome::Invalid(_) => Verdict::Invalid,
    }
}

/// An outcome, as a verdict line begins.
pub(super) fn outcome_text(outcome: &Outcome) -> String {
    let fixed = match outcome {
        Outcome::Meets { minutes } => return meets(*minutes),
        Outcome::Qualified => QUALIFIED,
        Outcome::TooFew => "too few to tell",
        Outcome::TooShort => "too short to tell",
        Outcome::Deviates => "deviates",
        Outcome::NoWaits => "no waits, so no verdict",
        Outcome::Hastened => "hastened, so no verdict",
        Outcome::Part(_) => "one part, so no verdict",
        Outcome::Interrupted => "interrupted",
        Outcome::Invalid(_) => "invalid",
    };
    fixed.to_owned()
}

/// The word of a verdict on runs of these outcomes, as JSON has it: what the text says in numbers too.
/// That nothing went wrong where no rule was asked is no rule that holds.
pub(super) fn word<'a>(
    verdict: Verdict,
    outcomes: impl IntoIterator<Item = &'a Outcome>,
) -> &'static str {
    if verdict != Verdict::Holds {
        return verdict.word();
    }
    let best = outcomes.into_iter().map(|outcome| match outcome {
        Outcome::Qualified => (2, QUALIFIED),
        Outcome::Meets { .. } => (1, MEETS),
        _ => (0, "no verdict"),
    });
    best.max().map_or(verdict.word(), |(_, word)| word)
}

/// The word of what every rule was met by, for as long as the specification asks for.
pub(super) const QUALIFIED: &str = "qualified";
/// The same for less.
pub(super) const MEETS: &str = "meets the rules";

/// That every rule was met over less than the specification asks for.
pub(super) fn meets(minutes: u64) -> String {
    format!("{MEETS} for {minutes} minutes")
}

/// The command that lets `wanted` warehouses work for so long, after one with `now` of them. A database
/// with room for fewer would refuse that, and has room for `now`.
pub(super) fn run_next(room: Option<u32>, now: u32, wanted: u32, measure: &str) -> String {
    let warehouses = room.map_or(wanted, |room| wanted.min(room)).max(now);
    format!("sekisho tpcc run --warehouses {warehouses} --measure {measure}")
}

/// The command that searches up to `wanted` warehouses, or that makes room for them.
pub(super) fn find_next(room: Option<u32>, wanted: u32) -> String {
    match room {
        Some(room) if room < wanted => {
            format!("sekisho tpcc load --warehouses {wanted} --replace")
        }
        _ => format!("sekisho tpcc find --max-warehouses {wanted}"),
    }
}

/// New orders per minute with their interval.
pub(super) fn per_minute(judged: &::tpcc::Verdict) -> String {
    let estimate = &judged.new_orders_per_minute;
    // A paced run makes twelve a warehouse, one without waits tens of thousands.
    let decimals = usize::from(estimate.mean < 1000.0);
    let why = match estimate.half_width.is_finite() {
        true => "",
        false => " (too short for an interval)",
    };
    format!("{}{why} new orders per minute (TPC-C-like)", plus_minus(estimate, decimals))
}

/// A row a kind of transaction.
pub(super) fn table(record: &Record) -> String {
    let mut table =
        Table::new(&["transaction", "done", "mix", "mean", "p50", "p90", "max", "limit"]);
    let all = record.completed().max(1) as f64;
    for kind in Kind::ALL {
        let of = record.of(kind);
        let quantile = |q| time(of.response.quantile(q).as_secs_f64());
        let times = match of.response.is_empty() {
            true => vec!["-".into(); 4],
            false => vec![
                time(of.response.mean_s()),
                quantile(0.5),
                quantile(0.9),
                time(of.response.max().as_secs_f64()),
            ],
        };
        let share = format!("{:.1} %", of.completed as f64 / all * 100.0);
        let limit = format!("{} s", kind.rules().response_max.as_secs());
        table.row(
            [vec![kind.name().into(), of.completed.to_string(), share], times, vec![limit]]
                .concat(),
        );
    }
    table.to_string()
}

/// Foundations of the numbers, and what stands in their way.
pub(super) fn why(record: &Record, judged: &::tpcc::Verdict) -> String {
    let mut text = String::new();
    if let Outcome::Invalid(why) = &judged.outcome {
        text += &paragraph(&format!("invalid: {why}"));
    }
    let with = |finding: fn(&Finding) -> bool| {
        judged.checks.iter().filter(move |check: &&Check| finding(&check.finding))
    };
    for check in with(|finding| *finding == Finding::Violated) {
        let Check { rule, clause, measured, .. } = check;
        text += &paragraph(&format!("violated: {rule} (clause {clause}): {measured}"));
    }
    let few: Vec<String> = with(|finding| matches!(finding, Finding::TooFew { .. }))
        .map(|check| match check.finding {
            Finding::TooFew { needs } => format!("{} (needs {needs})", check.rule),
            _ => check.rule.clone(),
        })
        .collect();
    let met = with(|finding| *finding == Finding::Met).count();
    text += &paragraph(&format!("{met} of {} rules are met.", judged.checks.len()));
    if let Outcome::Meets { minutes } = judged.outcome {
        let full = MEASURE_FULL.as_secs() / 60;
        text += &paragraph(&format!(
            "Nothing is qualified that was measured for {minutes} minutes: the specification asks for \
             {full} (clause 5.5.2.1)."
        ));
    }
    if !few.is_empty() {
        text += &paragraph(&format!(
            "Too few to judge (needs: how many of what a rule counts): {}.",
            few.join("; ")
        ));
    }
    let retries: u64 = record.kinds.iter().map(|kind| kind.retries).sum();
    text += &paragraph(&format!(
        "{retries} tries came into conflict and were repeated with the same inputs, and that time \
         counts. {} checkpoints inside the interval. The terminals used {:.1} % of a \
         processor. Seed {}.",
        judged.checkpoints,
        record.client.cpu_s / record.client.elapsed_s.max(1e-9) * 100.0,
        record.plan.seed,
    ));
    if record.deferred.unfinished > 0 {
        text += &paragraph(&format!(
            "{} Deliveries were answered when they were queued, and were not done five seconds after \
             the end.",
            record.deferred.unfinished
        ));
    }
    text += &parts::text(record);
    let settings = SESSION_SETTINGS.map(|(name, value)| format!("{name} = {value}"));
    text += &paragraph(&format!("Sessions of the terminals: {}.", settings.join(", ")));
    text += &paragraph(&format!("Deviations: {}.", judged.deviations.join("; ")));
    text + &paragraph(NOT_AUDITED)
}

/// A run of TPC-C's transactions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TpccRun<'a> {
    /// Its outcome.
    outcome: &'a Outcome,
    /// New orders completed in a minute.
    new_orders_per_minute: Estimate,
    /// Sentence that a result that nobody audited must carry.
    not_audited: &'static str,
    /// Settings that each session has, by name.
    session_settings: BTreeMap<&'static str, &'static str>,
    /// Number of warehouses.
    warehouses: u32,
    /// Part that this is, of a run that several processes share.
    part: Option<PartRecord>,
    /// Parts that it was merged of.
    merged: Vec<PartRecord>,
    /// Number of connections.
    connections: u32,
    /// Seed of all that was drawn.
    seed: u64,
    /// Version of the server.
    server: &'a str,
    /// Time that was measured \[s\].
    measured_s: f64,
    /// By the kind of transaction.
    transactions: BTreeMap<&'static str, KindAnswer>,
    /// 90th percentile of the time until a deferred delivery is done \[s\].
    deferred_p90_s: f64,
    /// Number of deferred deliveries that were not done at the end.
    deferred_unfinished: u64,
    /// Number of districts that a delivery found without an order.
    districts_skipped: u64,
    /// 90th percentile of the response of the menu \[s\].
    menu_p90_s: f64,
    /// Requirements of the specification that were looked at.
    checks: &'a [Check],
    /// Deviations from the specification.
    deviations: &'a [String],
    /// Number of checkpoints that ended while it was measured.
    checkpoints: u64,
    /// Processor time of the clients \[s\].
    client_cpu_s: f64,
    /// Number of errors by their SQLSTATE.
    errors: &'a BTreeMap<String, u64>,
    /// True if the conditions of the database hold afterwards; none where they were not looked at.
    verified: Option<bool>,
    /// File of the run's record.
    record: &'a Path,
    /// File of the report; none if it could not be written.
    report: Option<&'a Path>,
}

impl Answer for TpccRun<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-run/1";
}

/// Transactions of a kind.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TransactionKind")]
struct KindAnswer {
    /// Number sent and answered in the interval.
    completed: u64,
    /// Number sent in the interval and not answered at its end.
    unfinished: u64,
    /// Number that the database refused.
    failed: u64,
    /// Number of tries that came into conflict and were repeated.
    retries: u64,
    /// Mean response \[s\].
    response_mean_s: f64,
    /// Median of the response \[s\].
    response_p50_s: f64,
    /// 90th percentile of the response \[s\].
    response_p90_s: f64,
    /// Longest response \[s\].
    response_max_s: f64,
    /// Mean keying time \[s\].
    keying_mean_s: f64,
    /// Mean think time \[s\].
    think_mean_s: f64,
}

impl From<&KindRecord> for KindAnswer {
    fn from(of: &KindRecord) -> KindAnswer {
        let seconds = |q| of.response.quantile(q).as_secs_f64();
        KindAnswer {
            completed: of.completed,
            unfinished: of.unfinished,
            failed: of.failed,
            retries: of.retries,
            response_mean_s: of.response.mean_s(),
            response_p50_s: seconds(0.5),
            response_p90_s: seconds(0.9),
            response_max_s: of.response.max().as_secs_f64(),
            keying_mean_s: of.keying.mean_s(),
            think_mean_s: of.think.mean_s(),
        }
    }
}

/// A run as a line of JSON.
pub(super) fn answer(
    kept: &Kept,
    judged: &::tpcc::Verdict,
    verdict: Verdict,
    report: Option<&Path>,
) -> String {
    let Kept { record, path, verified, .. } = kept;
    let run = TpccRun {
        outcome: &judged.outcome,
        new_orders_per_minute: judged.new_orders_per_minute,
        not_audited: NOT_AUDITED,
        session_settings: BTreeMap::from(SESSION_SETTINGS),
        warehouses: record.warehouses(),
        part: record.part,
        merged: record.merged.iter().map(|merged| merged.part).collect(),
        connections: record.plan.connections,
        seed: record.plan.seed,
        server: &record.server.version,
        measured_s: record.measured_s,
        transactions: Kind::ALL.map(|kind| (kind.name(), record.of(kind).into())).into(),
        deferred_p90_s: record.deferred.times.quantile(0.9).as_secs_f64(),
        deferred_unfinished: record.deferred.unfinished,
        districts_skipped: record.deferred.skipped,
        menu_p90_s: record.menu.quantile(0.9).as_secs_f64(),
        checks: &judged.checks,
        deviations: &judged.deviations,
        checkpoints: judged.checkpoints,
        client_cpu_s: record.client.cpu_s,
        errors: &record.errors,
        verified: verified.as_ref().map(Verified::holds),
        record: path,
        report,
    };
    cli::json::answer(verdict, word(verdict, [&judged.outcome]), &run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tpcc report --json` of a run without waits said "holds", and its text that there was no verdict.
    #[test]
    fn json_says_no_kinder_word_than_the_text() {
        let meets = Outcome::Meets { minutes: 10 };
        let holds = |outcomes: &[&Outcome]| word(Verdict::Holds, outcomes.iter().copied());
        assert_eq!(holds(&[&Outcome::NoWaits]), "no verdict");
        assert_eq!(holds(&[&Outcome::Hastened, &Outcome::Hastened]), "no verdict");
        assert_eq!(holds(&[&meets]), "meets the rules");
        assert_eq!(holds(&[&meets, &Outcome::Qualified]), "qualified");
        assert_eq!(word(Verdict::Fails, [&Outcome::NoWaits]), "fails");
        for outcome in [Outcome::Qualified, meets] {
            assert!(outcome_text(&outcome).starts_with(holds(&[&outcome])), "{outcome:?}");
        }
    }

    /// Of a database with two warehouses the next command asked for ten, and was refused.
    #[test]
    fn the_next_command_asks_for_no_more_warehouses_than_a_named_database_has() {
        let ten = |room, now| run_next(room, now, 10, "10min");
        assert_eq!(ten(None, 2), "sekisho tpcc run --warehouses 10 --measure 10min");
        assert_eq!(ten(Some(2), 2), "sekisho tpcc run --warehouses 2 --measure 10min");
        assert_eq!(ten(Some(5), 2), "sekisho tpcc run --warehouses 5 --measure 10min");
        assert_eq!(ten(Some(20), 20), "sekisho tpcc run --warehouses 20 --measure 10min");
        assert_eq!(find_next(None, 8), "sekisho tpcc find --max-warehouses 8");
        assert_eq!(find_next(Some(8), 8), "sekisho tpcc find --max-warehouses 8");
        assert_eq!(find_next(Some(4), 8), "sekisho tpcc load --warehouses 8 --replace");
    }
}
