//! `sekisho tpcc crash`: whether all that was acknowledged outlives the death of the server.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::tpcc::survival::{Acknowledged, OrderKey, Survival, entries};
use ::tpcc::{DeliveryResult, End, Pace, Plan, Record, Screen, Watch};
use advise::Span;
use clap::{Args as ClapArgs, ValueEnum};
use cli::json::{Answer, Interrupted};
use cli::text::{Table, filled, next, paragraph, sentence, time};
use cli::{Failure, Session, Verdict, progress, say, store};
use formats::bounded;
use postgres::{Private, StartError};
use schemars::JsonSchema;
use serde::Serialize;
use workload::tpcc::Request;
use workload::{Dist, stream};

use super::target::{PARAMETERS, Target};
use super::terminals::{self, ExecuteName, IsolationName};
use super::verified::{Verified, verified_text};
use databases::DatabaseArgs;
use databases::PrivateArgs;

/// Kill the server under load, and look whether all it had acknowledged is there
///
/// Terminals without waits work on a private PostgreSQL. Each new order and each payment whose
/// commit was acknowledged goes to a file before it counts. At a moment that the seed draws, all
/// processes of the server are killed at once; it is started again, and what it holds is compared
/// with the file, line by line, and verified.
#[derive(ClapArgs)]
#[command(after_help = "\
A kill loses what the server holds in its own memory, not what it has given to
the system: a loss of power, or of a disk, is not tested. A database that is
named is refused, since its server would be killed.

Exit code 3: something acknowledged is lost, or a consistency condition fails.
With --synchronous-commit off the server acknowledges before anything is
written, and its WAL writer is held still, as on a machine that has no time for
it, so that losses are to be expected.

Examples:
  sekisho tpcc crash
  sekisho tpcc crash --rounds 1 --synchronous-commit off
      ends with 3: what was not written is lost")]
pub(super) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    private: PrivateArgs,
    /// Number of times that the server is killed
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The longest time under load before a kill; the shortest is a fifth of it
    #[arg(long, value_name = "TIME", default_value = "5s")]
    under_load: Span,
    /// Warehouses
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    warehouses: u32,
    /// Connections, and so transactions under way at a kill
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=80))]
    connections: u32,
    /// Who runs a transaction: the client, or functions of the server
    #[arg(long, value_enum, default_value = "sql")]
    execute: ExecuteName,
    /// Isolation of the transactions
    #[arg(long, value_enum, default_value = "repeatable-read")]
    isolation: IsolationName,
    /// Whether the server acknowledges a commit only once it is written
    #[arg(long, value_enum, default_value = "on")]
    synchronous_commit: Synchronous,
    /// The load and the moments of the kills follow from it; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Synchronous {
    /// Nothing acknowledged is lost
    On,
    /// What was acknowledged last is lost
    Off,
}

/// The server's parameters where it acknowledges at once: nobody but its WAL writer writes what was
/// acknowledged, and that one is held still, so that a kill finds something to lose.
const NOT_SYNCHRONOUS: [(&str, &str); 3] =
    [("synchronous_commit", "off"), ("wal_buffers", "128MB"), ("bgwriter_lru_maxpages", "0")];

/// Time beyond the kill that a run is planned to last: it never does.
const SPARE: Duration = Duration::from_secs(3600);
/// Period at which whoever waits for the moment of a kill looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(5);
/// A success file of hours.
const FILE_MIB: u64 = 16 * 1024;

/// A death of the server, and what came after.
struct Round {
    /// Under load before the kill \[s\].
    after_s: f64,
    /// From the start of the server until it answers \[s\].
    recovery_s: f64,
    /// Orders and payments of this round alone.
    acknowledged: (u64, u64),
    /// Of all that was acknowledged so far, what this round has lost.
    lost: u64,
    /// Of everything since the load.
    survival: Survival,
    found: Verified,
    /// Orders and payments that were there without having been acknowledged, of this round alone.
    unacknowledged: u64,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if args.database.is_named() {
        return Err(Failure::Usage(
            "`crash` kills the whole server of its database, and so takes none that is named, \
             whoever else works there: leave out `--db`, and unset DATABASE_URL, PGHOST, \
             PGHOSTADDR, PGPORT and PGDATABASE; it starts a private one"
                .into(),
        ));
    }
    let longest = terminals::span(args.under_load)?;
    if longest < Duration::from_millis(100) {
        let text = "`--under-load` is at least 100ms: nothing is acknowledged before";
        return Err(Failure::Usage(text.into()));
    }
    session.catch_interrupts()?;
    let mut parameters = PARAMETERS.to_vec();
    if args.synchronous_commit == Synchronous::Off {
        parameters.extend(NOT_SYNCHRONOUS);
    }
    let target = Target::lend(&args.private, &parameters, (args.warehouses, args.seed), session)?;
    let Some(mut target) = target else { return not_crashed(args, out) };
    let (_, path) = store::claimed("runs", &store::new_id(), "acknowledged.jsonl")?;
    let mut rounds = Vec::new();
    let bar = progress(u64::from(args.rounds), "crashing");
    for number in 1..=args.rounds {
        let before = rounds.last().map(|round: &Round| &round.survival);
        match crash(args, number, longest, before, &path, &mut target, session)? {
            Some(round) => rounds.push(round),
            None => break,
        }
        bar.set_position(u64::from(number));
    }
    bar.finish_and_clear();
    let version = target.version().to_owned();
    target.close()?;
    if rounds.is_empty() {
        return not_crashed(args, out);
    }
    let verdict = verdict_of(args, &rounds, session);
    let text = match args.json {
        true => {
            let answer = Crashed::new((args, &version), &rounds, &path);
            cli::json::answer(verdict, verdict.word(), &answer)
        }
        false => text((args, &version), &rounds, &path, verdict),
    };
    say(out, &text)?;
    Ok(verdict)
}

/// Message where the user did not want to wait for the first crash.
fn not_crashed(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted::default().line(),
        false => "interrupted: before the first crash was over, so nothing is known\n".into(),
    };
    say(out, &text)?;
    Ok(verdict)
}

/// A round; `None` if the user did not want to wait for its end.
fn crash(
    args: &Args,
    number: u32,
    longest: Duration,
    before: Option<&Survival>,
    path: &Path,
    target: &mut Target,
    session: &Session,
) -> Result<Option<Round>, Failure> {
    let moment = moment(args.seed, number, longest);
    let plan = Plan {
        pace: Pace::Stress,
        warehouses: args.warehouses,
        connections: args.connections,
        ramp: Duration::ZERO,
        measure: longest + SPARE,
        execution: args.execute.execution(),
        isolation: args.isolation.isolation(),
        // Other rounds ask for other things.
        seed: args.seed.wrapping_add(u64::from(number)),
    };
    let config = target.config.clone();
    let private = target.private().expect("a verb that kills has its own server");
    let mut success = SuccessFile::open(path)?;
    let with = (args.synchronous_commit, session);
    let (record, after) = killed_under_load(&config, &plan, moment, private, &mut success, with)?;
    success.finish()?;
    match record.end {
        End::Interrupted(_) => return Ok(None),
        End::Lost(..) => {}
        other => {
            return Err(Failure::Machine(format!("the load ended before the kill: {other:?}")));
        }
    }
    let begun = Instant::now();
    match private.restart() {
        Ok(()) => {}
        Err(StartError::Interrupted) => return Ok(None),
        Err(error) => return Err(Failure::machine(error)),
    }
    let recovery_s = begun.elapsed().as_secs_f64();
    let there = entries(&config).map_err(Failure::machine)?;
    let survival = Survival::of(&read(path)?, &there);
    let Some(found) = Verified::of(target, session)? else { return Ok(None) };
    let nothing = Survival::default();
    let before = before.unwrap_or(&nothing);
    Ok(Some(Round {
        after_s: after.as_secs_f64(),
        recovery_s,
        acknowledged: (survival.orders - before.orders, survival.payments - before.payments),
        lost: survival.lost().saturating_sub(before.lost()),
        unacknowledged: survival.unacknowledged().saturating_sub(before.unacknowledged()),
        survival,
        found,
    }))
}

/// Runs a plan until its server is dead; how long it was under load.
fn killed_under_load(
    config: &::tpcc::Config,
    plan: &Plan,
    moment: Duration,
    private: &mut Private,
    success: &mut SuccessFile,
    (synchronous, session): (Synchronous, &Session),
) -> Result<(Record, Duration), Failure> {
    let begun = Arc::clone(&success.begun);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let is_wanted = || !ended.load(Ordering::Relaxed) && !session.interrupted();
            while is_wanted() && !begun.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            let since = Instant::now();
            let held = match synchronous {
                Synchronous::On => Ok(()),
                Synchronous::Off => private.hold_wal_writer(),
            };
            while is_wanted() && since.elapsed() < moment {
                thread::sleep(LOOK.min(moment.saturating_sub(since.elapsed())));
            }
            let after = since.elapsed();
            // Whoever is held still would delay an end that cleans up.
            let killed = match synchronous {
                Synchronous::On if !is_wanted() => Ok(()),
                _ => private.kill(),
            };
            (after, held.and(killed))
        });
        let record = ::tpcc::run(config, plan, &session.interrupt, success);
        ended.store(true, Ordering::Relaxed);
        let (after, killed) =
            killer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        killed?;
        Ok((record.map_err(Failure::machine)?, after))
    })
}

/// When the server of a round dies: between a fifth of the time and all of it.
fn moment(seed: u64, round: u32, longest: Duration) -> Duration {
    let high = longest.as_secs_f64();
    let dist = Dist::Uniform { low: high / 5.0, high };
    Duration::from_secs_f64(dist.sample(&mut stream(seed, u64::from(round))))
}

/// The success file: a line for each transaction whose commit was acknowledged. A line is with the
/// system before the transaction counts; the server's death does not touch it there.
struct SuccessFile {
    file: File,
    path: PathBuf,
    begun: Arc<AtomicBool>,
    failed: Option<std::io::Error>,
}

impl SuccessFile {
    /// Goes on at its end.
    fn open(path: &Path) -> Result<SuccessFile, Failure> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(SuccessFile { file, path: path.to_owned(), begun: Arc::default(), failed: None })
    }

    fn finish(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), |error| Err(cannot_write(&self.path, &error)))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Machine(format!("cannot write the success file {}: {error}", path.display()))
}

impl Watch for SuccessFile {
    fn tick(&mut self, _: Duration, _: u64) {
        self.begun.store(true, Ordering::Relaxed);
    }

    fn delivered(&mut self, _: &DeliveryResult) {}

    fn acknowledged(&mut self, request: &Request, screen: &Screen) {
        if let Some(entry) = Acknowledged::of(request, screen)
            && self.failed.is_none()
        {
            let line = serde_json::to_string(&entry).map_err(std::io::Error::from);
            let written = line.and_then(|line| self.file.write_all((line + "\n").as_bytes()));
            self.failed = written.err();
        }
    }
}

fn read(path: &Path) -> Result<Vec<Acknowledged>, Failure> {
    let wrong = |cause: String| {
        Failure::Machine(format!("cannot read the success file {}: {cause}", path.display()))
    };
    let file = bounded::open(path, FILE_MIB).map_err(|error| wrong(error.to_string()))?;
    let entry = |line: std::io::Result<String>| {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))
    };
    BufReader::new(file).lines().map(entry).collect()
}

/// True if a round left more behind than can have been under way.
fn is_too_much(args: &Args, round: &Round) -> bool {
    round.unacknowledged > u64::from(args.connections)
}

fn verdict_of(args: &Args, rounds: &[Round], session: &Session) -> Verdict {
    let fails = |round: &Round| {
        !round.survival.is_whole() || !round.found.holds() || is_too_much(args, round)
    };
    let is_empty = |round: &Round| round.acknowledged.0 == 0;
    match () {
        () if rounds.iter().any(fails) => Verdict::Fails,
        () if session.interrupted() => Verdict::Interrupted,
        () if rounds.iter().any(is_empty) => Verdict::Inconclusive,
        () => Verdict::Holds,
    }
}

fn text((args, version): (&Args, &str), rounds: &[Round], path: &Path, verdict: Verdict) -> String {
    let nothing = Survival::default();
    let all = rounds.last().map_or(&nothing, |round| &round.survival);
    let Survival { orders, payments, orders_lost, orders_damaged, payments_lost, .. } = all;
    let s = if rounds.len() == 1 { "" } else { "es" };
    let line = match all.is_whole() {
        true => format!(
            "{}: {} crash{s} under load, and all {orders} orders and {payments} payments that were \
             acknowledged are there",
            verdict.word(),
            rounds.len()
        ),
        false => format!(
            "{}: {} crash{s} under load, and of what was acknowledged {} of {orders} orders and \
             {payments_lost} of {payments} payments are lost",
            verdict.word(),
            rounds.len(),
            orders_lost + orders_damaged,
        ),
    };
    let mut table = Table::new(&[
        "crash",
        "after",
        "orders",
        "payments",
        "lost",
        "unacknowledged",
        "recovery",
        "verified",
    ]);
    for (at, round) in rounds.iter().enumerate() {
        table.row(vec![
            (at + 1).to_string(),
            time(round.after_s),
            round.acknowledged.0.to_string(),
            round.acknowledged.1.to_string(),
            round.lost.to_string(),
            round.unacknowledged.to_string(),
            time(round.recovery_s),
            if round.found.holds() { "holds" } else { "fails" }.into(),
        ]);
    }
    let mut text = format!("{}\n{table}\n", sentence(&line));
    if !all.first.is_empty() {
        let keys: Vec<String> = all.first.iter().map(key).collect();
        let more = (orders_lost + orders_damaged).saturating_sub(keys.len() as u64);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &filled("  ", "    ", &format!("lost: {}{more}", keys.join("; ")));
    }
    for round in rounds.iter().filter(|round| !round.found.holds()) {
        text += &verified_text(Some(&round.found));
    }
    text += &why(args, rounds);
    let seed = args.seed;
    text += &paragraph(&format!("A private PostgreSQL {version}. Seed {seed}."));
    text += &paragraph(&format!("acknowledged: {}", path.display()));
    text + &next(match args.synchronous_commit {
        Synchronous::On => "sekisho tpcc crash --rounds 1 --synchronous-commit off",
        Synchronous::Off => "sekisho tpcc crash",
    })
}

fn why(args: &Args, rounds: &[Round]) -> String {
    let connections = args.connections;
    let mut text = paragraph(&format!(
        "Unacknowledged is what was done while its reply was under way: at most one of each of the \
         {connections} connections. Recovery lasts from the start of the server until it answers."
    ));
    if rounds.iter().any(|round| is_too_much(args, round)) {
        text += &paragraph(&format!(
            "More than {connections} in a round cannot have been under way: what was acknowledged \
             is not what was done."
        ));
    }
    text += &paragraph(match args.synchronous_commit {
        Synchronous::On => {
            "All processes of the server were killed at once. That loses what it held in its own \
             memory, and tests neither a loss of power nor of a disk."
        }
        Synchronous::Off => {
            "With synchronous_commit = off the server acknowledges before anything is written, and \
             its WAL writer was held still: what it acknowledged last is lost when it dies."
        }
    });
    text
}

fn key(key: &OrderKey) -> String {
    format!("w {}, d {}, o {}", key.warehouse, key.district, key.order)
}

/// A server that was killed under load, again and again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Crashed<'a> {
    /// Number of warehouses.
    warehouses: u32,
    /// Number of connections.
    connections: u32,
    /// True if commits waited for the log to be on disk.
    synchronous_commit: bool,
    /// Seed of all that was drawn.
    seed: u64,
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// The rounds, each with a kill of the server.
    rounds: Vec<RoundAnswer<'a>>,
    /// File of everything that was acknowledged.
    acknowledged: &'a Path,
}

impl Answer for Crashed<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-crash/1";
}

/// A kill and what was there afterwards.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Round")]
struct RoundAnswer<'a> {
    /// Time under load until the kill \[s\].
    under_load_s: f64,
    /// From the start of the server until it answers.
    recovery_s: f64,
    /// Number of orders that were acknowledged in this round.
    orders_acknowledged: u64,
    /// Number of payments that were acknowledged in this round.
    payments_acknowledged: u64,
    /// Number of all that was acknowledged so far that this round has lost.
    lost: u64,
    /// Number that is there without having been acknowledged, of this round alone.
    unacknowledged: u64,
    since_load: &'a Survival,
    /// True if the conditions of the database hold.
    verified: bool,
}

impl<'a> Crashed<'a> {
    fn new(
        (args, postgres): (&Args, &'a str),
        rounds: &'a [Round],
        acknowledged: &'a Path,
    ) -> Crashed<'a> {
        let round = |round: &'a Round| RoundAnswer {
            under_load_s: round.after_s,
            recovery_s: round.recovery_s,
            orders_acknowledged: round.acknowledged.0,
            payments_acknowledged: round.acknowledged.1,
            lost: round.lost,
            unacknowledged: round.unacknowledged,
            since_load: &round.survival,
            verified: round.found.holds(),
        };
        Crashed {
            warehouses: args.warehouses,
            connections: args.connections,
            synchronous_commit: args.synchronous_commit == Synchronous::On,
            seed: args.seed,
            postgres,
            rounds: rounds.iter().map(round).collect(),
            acknowledged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_kill_follows_from_seed_and_round() {
        let longest = Duration::from_secs(5);
        let one = moment(1, 1, longest);
        assert_eq!(one, moment(1, 1, longest));
        assert_ne!(one, moment(1, 2, longest));
        assert_ne!(one, moment(2, 1, longest));
        for seed in 0..100 {
            let drawn = moment(seed, 1, longest);
            assert!(Duration::from_secs(1) <= drawn && drawn <= longest, "{drawn:?}");
        }
    }
}
