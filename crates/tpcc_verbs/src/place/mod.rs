//! `sekisho tpcc place`: tables, indexes and the log over directories, so that access rates even out
//! with sequential and random access apart (nakamura, 4.3).

mod devices;
mod folders;
mod shown;
mod simulated;

pub(crate) use shown::{NotPlaced, PlacedAnswer, Undone};
pub(crate) use simulated::{ByModel, OnDevices};

use std::io::Write;
use std::path::{Path, PathBuf};

use ::tpcc::place::{
    self, Accesses, AssignError, LOG, PlaceError, Placement, Step, assign, observe, perform,
    undoing,
};
use ::tpcc::{Config, Outcome, Pace};
use advise::Span;
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::shell_word;
use cli::{Failure, Session, Verdict, progress, say};

use self::folders::Disks;
use self::shown::Form;
use super::kept::Kept;
use super::target::Target;
use super::terminals::{self, TerminalArgs};
use super::verified::and_verified;
use databases::DatabaseArgs;

/// Spread tables, indexes and the log over directories, so that access rates even out
///
/// A run measures how often each table, index and the log is accessed; tablespaces over the given
/// directories are chosen so that the rates even out with sequential and random access apart, the
/// log first. With no database named, a private PostgreSQL is started, loaded, placed, measured
/// again and removed; of a database that is named only the plan is printed, unless `--apply`.
#[derive(ClapArgs)]
#[command(after_help = "\
Reads are counted by relation; of writes the server only tells how many there
were, so which relation they belong to is estimated from the rows changed. The
log of a database that is named is never moved: how to is printed.

Examples:
  sekisho tpcc place --on /disk1,/disk2,/disk3
  sekisho tpcc place --on /disk1,/disk2,/disk3 --db \"$DATABASE_URL\" --apply
  sekisho tpcc place --undo --db \"$DATABASE_URL\"
  sekisho tpcc place --simulate")]
pub(super) struct Args {
    /// The directories, best one a disk, on the server's machine
    #[arg(long, value_name = "DIR,...", value_delimiter = ',')]
    #[arg(required_unless_present_any = ["undo", "simulate"])]
    on: Vec<PathBuf>,
    /// Move tables and indexes of a database that is named
    #[arg(long)]
    apply: bool,
    /// Put all back, and remove the tablespaces of an earlier placement
    #[arg(long, conflicts_with_all = ["on", "apply"])]
    undo: bool,
    /// Three disks where there is one: limited block devices, or a queueing model of disks
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto", conflicts_with_all = ["on", "apply", "undo"])]
    simulate: Option<How>,
    /// Reads, and writes, a second of each simulated device
    #[arg(long, value_name = "N", default_value_t = 200, requires = "simulate")]
    #[arg(value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    per_second: u32,
    #[command(flatten)]
    terminals: TerminalArgs,
    /// Whether the terminals of the runs wait as people do
    #[arg(long, value_enum, default_value = "stress")]
    pace: PaceName,
    /// Connections to the database
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// How long a run goes on before its responses count
    #[arg(long, value_name = "TIME", default_value = "2s")]
    ramp: Span,
    /// How long its responses count
    #[arg(long, value_name = "TIME", default_value = "15s")]
    measure: Span,
}

#[derive(Clone, Copy, ValueEnum)]
enum PaceName {
    /// As fast as the connections allow
    Stress,
    /// Keying and thinking, ten terminals a warehouse
    Paced,
}

/// How three disks are simulated.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// By devices if this machine can make them, else by the model
    Auto,
    /// By devices, or not at all
    Devices,
    /// By the model
    Model,
}

/// A private server's buffers are small, so that a warehouse does not fit and reads are seen.
const PARAMETERS: [(&str, &str); 3] =
    [("shared_buffers", "16MB"), ("max_wal_size", "4GB"), ("checkpoint_timeout", "15min")];

impl Args {
    fn form(&self) -> Form {
        if self.terminals.json { Form::Json } else { Form::Text }
    }
}

/// A run, and how often everything was accessed in it.
struct Measured {
    kept: Kept,
    judged: ::tpcc::Verdict,
    accesses: Accesses,
    /// Why changed pages could not be written before they were counted.
    unwritten: Option<String>,
}

/// Result of a placement.
struct Placed<'a> {
    name: String,
    folders: &'a [PathBuf],
    disks: Disks,
    before: Measured,
    placement: Placement,
    /// The statements for tables and indexes.
    steps: Vec<Step>,
    /// The run after they were moved.
    after: Option<Measured>,
    /// Advice about the log, where moving it is not ours to do.
    log: Option<String>,
    /// The database that was named, if one was.
    given: &'a DatabaseArgs,
    seed: u64,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    if args.undo {
        return undo(args, session, out);
    }
    if args.simulate.is_some() {
        return simulated::run(args, session, out);
    }
    let &TerminalArgs { ref database, ref private, warehouses, seed, .. } = &args.terminals;
    let is_named = database.is_named();
    let folders = if is_named { folders::there(&args.on)? } else { folders::here(&args.on)? };
    let target = if is_named {
        Target::open(database, private, (warehouses, seed), session)?
    } else {
        Target::lend(private, &PARAMETERS, (warehouses, seed), session)?
    };
    let Some(mut target) = target else { return terminals::not_begun(&args.terminals, out) };
    let verdict = match place_all(args, &mut target, &folders, session) {
        Ok(placed) => finish(args, &placed, &target, session, out)?,
        Err(stop) => stop.tell(args.form(), out)?,
    };
    target.close()?;
    Ok(verdict)
}

/// Why it went no further.
enum Stop {
    /// The user asked; where it was.
    Interrupted(String),
    /// A run that tells nothing.
    Invalid(Box<(Kept, ::tpcc::Verdict)>),
    Failed(Failure),
}

impl Stop {
    /// Says so, as the command's last words.
    fn tell(self, form: Form, out: &mut dyn Write) -> Result<Verdict, Failure> {
        match self {
            Stop::Interrupted(at) => {
                say(out, &shown::interrupted(&at, form))?;
                Ok(Verdict::Interrupted)
            }
            Stop::Invalid(run) => {
                say(out, &shown::invalid(&run.0, &run.1, form))?;
                Ok(terminals::verdict_of(&run.1.outcome))
            }
            Stop::Failed(failure) => Err(failure),
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<PlaceError> for Stop {
    fn from(error: PlaceError) -> Stop {
        match error {
            PlaceError::Interrupted { .. } => Stop::Interrupted(error.to_string()),
            PlaceError::Machine(_) => Stop::Failed(Failure::machine(error)),
            PlaceError::Placed { .. } => {
                Stop::Failed(Failure::Usage(format!("{error} (`--undo`)")))
            }
            _ => Stop::Failed(Failure::usage(error)),
        }
    }
}

/// Measures, decides, and where that is wanted moves and measures again.
fn place_all<'a>(
    args: &'a Args,
    target: &mut Target,
    folders: &'a [PathBuf],
    session: &Session,
) -> Result<Placed<'a>, Stop> {
    let before = measure(args, target, session)?;
    let rated = before.accesses.rated();
    let placement = assign(&rated, folders.len()).map_err(|error| match error {
        AssignError::Idle => Failure::Usage(format!("{error} (`--measure`)")),
        _ => Failure::usage(error),
    })?;
    let disks = if is_here(&target.config) { Disks::of(folders) } else { Disks::Unknown };
    let log_at = placement.of.first().copied().unwrap_or(0);
    let is_ours = target.private().is_some();
    let places = match target.private() {
        Some(server) => folders
            .iter()
            .map(|folder| server.lend(folder).map_err(Failure::usage))
            .collect::<Result<Vec<PathBuf>, Failure>>()?,
        None => folders.to_vec(),
    };
    let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    let steps = place::steps(&before.accesses, &placement, &places);
    let log = match target.private() {
        Some(server) => {
            server.move_log(places[log_at]).map_err(Failure::machine)?;
            None
        }
        None => Some(advice(&target.config, &folders[log_at], session)?),
    };
    let &TerminalArgs { database: ref given, seed, .. } = &args.terminals;
    let (after, name) = (None, target.name());
    let mut placed =
        Placed { name, folders, disks, before, placement, steps, after, log, given, seed };
    if is_ours || args.apply {
        let bar = progress(placed.steps.len() as u64, "moving tables and indexes");
        let moved = perform(&target.config, &placed.steps, &session.interrupt, &mut |done| {
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        moved?;
        placed.after = Some(measure(args, target, session)?);
    }
    Ok(placed)
}

/// A run between two looks at the counters.
fn measure(args: &Args, target: &Target, session: &Session) -> Result<Measured, Stop> {
    let pace = match args.pace {
        PaceName::Stress => Pace::Stress,
        PaceName::Paced => Pace::Paced,
    };
    let (ramp, measure) = (terminals::span(args.ramp)?, terminals::span(args.measure)?);
    let plan = args.terminals.plan(pace, args.connections, ramp, measure);
    let before = observe(&target.config, &session.interrupt)?;
    let kept = terminals::run(target, &plan, session)?;
    let judged = kept.record.judge();
    match judged.outcome {
        Outcome::Interrupted => {
            let path = kept.path.display();
            return Err(Stop::Interrupted(format!("interrupted: in a run; record: {path}")));
        }
        Outcome::Invalid(_) => return Err(Stop::Invalid(Box::new((kept, judged)))),
        _ => {}
    }
    let after = observe(&target.config, &session.interrupt)?;
    let seconds = kept.record.client.elapsed_s;
    let accesses = Accesses::between(&before.snapshot, &after.snapshot, seconds);
    let accesses = accesses.ok_or_else(|| {
        Failure::Machine(
            "the server's statistics were reset while they were counted, or somebody made or removed \
             tables: measure again"
                .into(),
        )
    })?;
    Ok(Measured { kept, judged, accesses, unwritten: after.unwritten.or(before.unwritten) })
}

/// Says what came of it, and whether the database still holds.
fn finish(
    args: &Args,
    placed: &Placed<'_>,
    target: &Target,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let outcome = &placed.after.as_ref().unwrap_or(&placed.before).judged.outcome;
    let found = terminals::verified(&args.terminals, target, session, outcome)?;
    // Where nothing can become faster, a run that was slower says nothing.
    let slower = placed.disks == Disks::Apart && placed.ratio().is_some_and(|it| it.high < 1.0);
    let verdict = if slower { Verdict::Fails } else { Verdict::Holds };
    let verdict = and_verified(verdict, found.as_ref());
    if args.terminals.json {
        say(out, &shown::answer(placed, verdict, found.as_ref()))?;
    } else {
        say(out, &shown::text(placed, verdict, found.as_ref()))?;
    }
    Ok(verdict)
}

impl Placed<'_> {
    /// New-Orders after over before.
    fn ratio(&self) -> Option<::measure::Ratio> {
        let [before, after] =
            [&self.before, self.after.as_ref()?].map(|run| run.judged.new_orders_per_minute);
        (before.mean > 0.0 && after.mean > 0.0).then(|| ::measure::Ratio::of(before, after))
    }

    /// The rate of each directory in a run, by where everything was placed \[1/s\].
    fn rates(&self, run: &Measured) -> Vec<f64> {
        let mut rates = vec![0.0; self.folders.len()];
        for (access, directory) in run.accesses.all.iter().zip(&self.placement.of) {
            // The log of somebody else's server stayed where it was.
            if access.name != LOG || self.log.is_none() || self.after.is_none() {
                rates[*directory] += access.rate();
            }
        }
        rates
    }
}

/// True if a server is on this machine, as far as its address tells.
fn is_here(config: &Config) -> bool {
    use ::tpcc::Host;
    let by_name = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    });
    by_name && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// Advice on how to move the log of a server that is not ours to stop.
fn advice(config: &Config, folder: &Path, session: &Session) -> Result<String, Stop> {
    let data = place::data_directory(config, &session.interrupt)?;
    let data = shell_word(&data.unwrap_or_else(|| PathBuf::from("$PGDATA")));
    let to = shell_word(folder);
    Ok(format!(
        "pg_ctl -D {data} stop\nmv {data}/pg_wal {to}/pg_wal\nln -s {to}/pg_wal {data}/pg_wal\n\
         pg_ctl -D {data} start"
    ))
}

/// Puts everything back.
fn undo(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let config = args.terminals.database.named()?;
    let steps = undoing(&config, &session.interrupt);
    let done = steps.and_then(|steps| {
        let bar = progress(steps.len() as u64, "putting tables and indexes back");
        let done = perform(&config, &steps, &session.interrupt, &mut |done| {
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        done.map(|()| steps)
    });
    match done.map_err(Stop::from) {
        Ok(steps) => {
            say(out, &shown::undone(&steps, &args.terminals.database, args.form()))?;
            Ok(Verdict::Holds)
        }
        Err(Stop::Interrupted(at)) => {
            say(out, &shown::interrupted(&at, args.form()))?;
            Ok(Verdict::Interrupted)
        }
        Err(Stop::Failed(failure)) => Err(failure),
        Err(Stop::Invalid(_)) => unreachable!("nothing was run"),
    }
}
