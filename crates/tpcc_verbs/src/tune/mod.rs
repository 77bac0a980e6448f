//! `sekisho tpcc tune`: what a server's counters say of its settings, and which other values help,
//! with the benchmark as the judge.

mod kernel;
mod text;
mod trial;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tpcc::tuning::{
    Advice, Machine, Observed, Setting, What, advise, checkpoint, observe, settings,
};
use ::tpcc::{Config, Host, Pace, Plan};
use advise::Span;
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use cli::json::Answer;
use cli::{Failure, Session, Verdict, progress, say, store, tool};
use measure::{ChangeVerdict, Ratio};
use schemars::JsonSchema;
use serde::Serialize;

use super::kept::Kept;
use super::target::Target;
use super::terminals::{self, TerminalArgs};
use super::verified::{Verified, and_verified, verified_text};
use kernel::Kernel;
use trial::{Bench, Change, Trial, Tried};

/// Find the settings of PostgreSQL that help, one at a time, by trying them
///
/// Reads what the server did during a run without waits, says of each setting whether there is a
/// reason to change it, and tries those with a reason: runs with the old and the new value by turns,
/// on the same database, each after a checkpoint. What helps is kept, all else is put back. Settings that could lose
/// acknowledged transactions are never tried. A database that is named is only read, unless --apply
/// is given. Without one a private PostgreSQL is tuned from PostgreSQL's own defaults, and removed.
#[derive(ClapArgs)]
#[command(after_help = "\
A trial is 2 x rounds + 1 runs. What was tried, and the record of every run,
goes to .sekisho/runs/.

Examples:
  sekisho tpcc tune --warehouses 4 --only shared_buffers,wal_compression
      ends with 0 or 4: what helps is told, or chance hides it
  sekisho tpcc tune --warehouses 10 --db \"$DATABASE_URL\"
  sekisho tpcc tune --warehouses 10 --db \"$DATABASE_URL\" --apply
      ends with 0 or 4: the same")]
pub(super) struct Args {
    #[command(flatten)]
    terminals: TerminalArgs,
    /// Connections to the database; each sends without waits
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// How long each run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "3s")]
    ramp: Span,
    /// How long each run is measured, unless a setting needs longer to show
    #[arg(long, value_name = "TIME", default_value = "10s")]
    measure: Span,
    /// How long a run may be for a setting that needs longer to show
    #[arg(long, value_name = "TIME", default_value = "3min")]
    longest: Span,
    /// How often each new value is run; the old one is run once more
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100))]
    rounds: u32,
    /// The least gain for which a setting is kept [%]
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    least: f64,
    /// Only these settings
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(settings()), hide_possible_values = true)]
    only: Vec<String>,
    /// The memory of the machine of a server that is not here [GiB]
    #[arg(long, value_name = "GIB")]
    memory: Option<f64>,
    /// Change settings of the server that is named, and keep what helps
    #[arg(long)]
    apply: bool,
    /// How the server that is named is restarted, for settings that need it
    #[arg(long, value_name = "COMMAND", requires = "apply")]
    restart: Option<String>,
}

/// All that was found, as it is kept.
#[derive(JsonSchema, Serialize)]
struct Tuning {
    /// Version of the format.
    #[serde(rename = "sekisho-tpcc-tune")]
    format: u32,
    /// Name by which it is stored.
    id: String,
    /// Moment at which it began, UTC, RFC 3339.
    started: String,
    /// Program and version that made it.
    tool: String,
    /// The words of the command line that made it, without secrets.
    command: Vec<String>,
    /// Plan of each run.
    plan: Plan,
    machine: Machine,
    /// The run during which the server was observed.
    run: String,
    /// New orders in a minute in the run during which it was observed.
    new_orders_per_minute: f64,
    observed: Observed,
    /// Settings that have a reason to change.
    advice: Vec<Advice>,
    /// Settings of the kernel.
    kernel: Vec<kernel::Line>,
    /// The trials, in their order.
    trials: Vec<Trial>,
    /// All that was kept, against what there was.
    together: Option<Trial>,
    /// Commands that take back what was kept.
    undo: Vec<String>,
}

/// Settings of a server, tried.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tuned<'a> {
    #[serde(flatten)]
    tuning: &'a Tuning,
    /// True if the conditions of the database hold afterwards; none where they were not looked at.
    verified: Option<bool>,
    /// File of what was found.
    record: &'a Path,
}

impl Answer for Tuned<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-tune/2";
    const SPANS: &'static [&'static str] = &["measure", "ramp", "measured", "least"];
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let (plan, longest) = planned(args)?;
    session.catch_interrupts()?;
    let &TerminalArgs { ref database, ref private, warehouses, seed, .. } = &args.terminals;
    let named = database.is_named();
    let target = match named {
        true => Target::open(database, private, (warehouses, seed), session)?,
        // As PostgreSQL comes: that is what there is to tune.
        false => Target::lend(private, &[], (warehouses, seed), session)?,
    };
    let Some(mut target) = target else { return terminals::not_begun(&args.terminals, out) };
    let tries = !named || args.apply;
    if tries {
        checkpoint(&target.config).map_err(Failure::usage)?;
    }
    let (observed, kept) = observe(&target.config, || terminals::run(&target, &plan, session))
        .map_err(Failure::usage)?;
    let kept = kept?;
    let outcome = kept.record.judge().outcome;
    let (machine, kernel) = surroundings(args, &mut target, &observed, &plan);
    let mut tuning = begin(&kept, &plan, observed, machine, kernel, session);
    tuning.advice.retain(|a| args.only.is_empty() || args.only.contains(&a.setting));
    let verdict = match (terminals::verdict_of(&outcome), tries) {
        // No rule of pacing is asked for here, only a run that can be believed.
        (verdict @ (Verdict::Invalid | Verdict::Interrupted), _) => verdict,
        (_, true) => try_all(args, &mut tuning, &mut target, longest, session)?,
        (_, false) => Verdict::Holds,
    };
    let found = terminals::verified(&args.terminals, &target, session, &outcome)?;
    let verdict = and_verified(verdict, found.as_ref());
    let (id, path) = store::claimed("runs", &tuning.id, "tune.json")?;
    tuning.id = id;
    let kept = serde_json::to_string(&tuning).map_err(Failure::defect)?;
    store::write_whole(&path, kept + "\n")?;
    let text = text::Text { tuning: &tuning, outcome: &outcome, named, tries, verdict };
    if args.terminals.json {
        let answer =
            Tuned { tuning: &tuning, verified: found.as_ref().map(Verified::holds), record: &path };
        say(out, &cli::json::answer(verdict, text.word(), &answer))?;
    } else {
        say(out, &text.render(&target.name()))?;
        say(out, &verified_text(found.as_ref()))?;
        say(out, &text.last(&path, database, target.room()))?;
    }
    target.close()?;
    Ok(verdict)
}

/// Plan of each run, and its longest duration.
fn planned(args: &Args) -> Result<(Plan, Duration), Failure> {
    if !(0.0..=100.0).contains(&args.least) || args.least == 0.0 {
        return Err(Failure::Usage(format!("--least {}: a gain of more than 0 %", args.least)));
    }
    if args.memory.is_some_and(|gib| !(0.1..=1e6).contains(&gib)) {
        return Err(Failure::Usage("--memory: from 0.1 to 1000000 GiB".into()));
    }
    let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
    let plan = args.terminals.plan(Pace::Stress, args.connections, ramp, measure);
    Ok((plan, terminals::span(args.longest)?))
}

fn begin(
    kept: &Kept,
    plan: &Plan,
    observed: Observed,
    machine: Machine,
    kernel: Vec<kernel::Line>,
    session: &Session,
) -> Tuning {
    Tuning {
        format: 1,
        id: store::new_id(),
        started: kept.started.clone(),
        tool: tool(),
        command: session.command.clone(),
        plan: plan.clone(),
        machine,
        run: kept.id.clone(),
        new_orders_per_minute: kept.record.new_orders_per_minute(),
        advice: advise(&observed, &machine),
        observed,
        kernel,
        trials: Vec::new(),
        together: None,
        undo: Vec::new(),
    }
}

/// The machine of the server and its kernel, as far as it is this one.
fn surroundings(
    args: &Args,
    target: &mut Target,
    observed: &Observed,
    plan: &Plan,
) -> (Machine, Vec<kernel::Line>) {
    let memory = args.memory.map(|gib| (gib * 1024.0 * 1024.0 * 1024.0) as u64);
    let here = target.private().is_some() || is_here(&target.config);
    let folder = observed.settings.get("data_directory").filter(|_| here);
    let folder = folder.map(|setting| PathBuf::from(&setting.value));
    let Some(folder) = folder else {
        return (Machine { memory, free: None, connections: plan.connections }, Vec::new());
    };
    let here = Machine::here(&folder, plan.connections);
    let machine = Machine { memory: memory.or(here.memory), ..here };
    let kernel = Kernel {
        root: Path::new("/"),
        device: std::fs::metadata(&folder).ok().map(|found| number(found.dev())),
        buffers: observed.settings.get("shared_buffers").and_then(Setting::bytes).unwrap_or(0),
        memory: machine.memory.unwrap_or(0),
    };
    (machine, kernel.lines())
}

/// The number of a device as /sys writes it.
fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// True if a server is on this machine, as far as its address tells.
fn is_here(config: &Config) -> bool {
    let of_name = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|at: std::net::IpAddr| at.is_loopback())
        }
    };
    config.get_hosts().iter().all(of_name)
        && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// Tries what there is a reason for, keeps what helps, and looks what it does in all.
fn try_all(
    args: &Args,
    tuning: &mut Tuning,
    target: &mut Target,
    longest: Duration,
    session: &Session,
) -> Result<Verdict, Failure> {
    let tries: Vec<(Change, Duration)> =
        tuning.advice.iter().filter_map(|advice| tried(advice, &tuning.observed)).collect();
    let bar = progress((tries.len() as u64) * u64::from(2 * args.rounds + 1), "trying");
    let restart = args.restart.as_deref();
    let mut bench = Bench { target, restart, session, bar, kept: Vec::new(), tried: Vec::new() };
    let judge = |ratio: Ratio| ChangeVerdict::of(ratio, args.least / 100.0);
    // Of so many intervals, all hold the truth in 95 % of the cases (Bonferroni).
    let confidence = 1.0 - 0.05 / (tries.len() + 1) as f64;
    for (change, least) in tries {
        let changes = [change];
        let plan = Plan { measure: tuning.plan.measure.max(least), ..tuning.plan.clone() };
        let skipped = if !bench.can(&changes[0]) {
            Some(Tried::NotOurs)
        } else if least > longest {
            Some(Tried::TooLong { needs_s: least.as_secs_f64() })
        } else {
            None
        };
        let trial = match skipped {
            Some(result) => Trial::skipped(&changes, result),
            None => bench.trial(&changes, &plan, args.rounds, judge, confidence)?,
        };
        if trial.is_kept() {
            bench.keep(&changes)?;
        }
        let interrupted = matches!(trial.result, Tried::Interrupted);
        tuning.trials.push(trial);
        if interrupted {
            break;
        }
    }
    if bench.kept.len() > 1 && !session.interrupted() {
        let needed = tuning.trials.iter().filter(|trial| trial.is_kept());
        let measure = needed.map(|trial| trial.measured).max().unwrap_or(tuning.plan.measure);
        let changes = bench.unkeep()?;
        let plan = Plan { measure, ..tuning.plan.clone() };
        tuning.together = Some(bench.trial(&changes, &plan, args.rounds, judge, confidence)?);
        bench.keep(&changes)?;
    }
    tuning.undo = bench.kept.iter().map(|(_, before)| before.statement()).collect();
    Ok(verdict_of(&tuning.trials, session))
}

/// Change that an advice proposes, if it can be tried, and how long a run must be for it.
fn tried(advice: &Advice, observed: &Observed) -> Option<(Change, Duration)> {
    let What::Try { to, least, .. } = &advice.what else { return None };
    let restart = observed.settings.get(&advice.setting).is_some_and(Setting::needs_restart);
    let (setting, from) = (advice.setting.clone(), advice.now.clone());
    Some((Change { setting, from, to: to.clone(), restart }, *least))
}

/// Nothing to try is as good as everything tried; where chance hides all there is, it says so.
fn verdict_of(trials: &[Trial], session: &Session) -> Verdict {
    if session.interrupted() {
        return Verdict::Interrupted;
    }
    let told = |trial: &Trial| match &trial.result {
        Tried::Measured { finding, .. } => *finding != trial::finding(ChangeVerdict::Inconclusive),
        _ => false,
    };
    match trials.is_empty() || trials.iter().any(told) {
        true => Verdict::Holds,
        false => Verdict::Inconclusive,
    }
}
