//! `sekisho measure postgres FILE.sql`: a user's own SQL, under closed load, open load, load that varies, or
//! in search of the knee.

use std::collections::HashSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::load::http::{Idle, Load, Naming};
use ::load::meeting::{Attendance, Meeting};
use ::load::probe::Probed;
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{paragraph, quoted, sentence};
use cli::{Failure, Session, Verdict, advance, say, store, tool};
use indicatif::ProgressBar;
use measure::knee::Probe;
use measure::limit::Limit;
use measure::{Interval, RunHeader, RunPart, RunRecord, Until};
use pgload::script::{Protocol, Scripts, Source};
use pgload::{Plan, PlanSpec, RunError, preflight, probe, record_until};
use postgres::{Private, StartError};
use tpcc::{Config, verify};
use workload::Dist;

use super::knee::{Wanted, limit, no_limit};
use super::knee_parts::{self, Engine};
use super::load::{DrawName, LoadArgs, Run, length_s};
use super::parts;
use super::run_output::{Measurement, Noun, OutputArgs};
use super::typed::Typed;
use databases::DatabaseArgs;
use databases::PrivateArgs;

/// Text where no script is given.
const NO_SCRIPT: &str = "no script is given: write the SQL of one transaction into a file, such as\n\n    \
    \\set item random(1, 100000)\n    select price from item where id = :item;\n\n\
    and name it: `sekisho measure postgres shop.sql --clients 1,4,16`";
/// Connections of a private server beside those of a run.
const CONNECTIONS_SPARE: u32 = 10;

#[derive(ClapArgs)]
#[command(after_help = "\
A script is what pgbench takes with -f: SQL, and the meta-commands \\set, \\sleep,
\\gset, \\aset, \\if, \\elif, \\else, \\endif, \\startpipeline, \\syncpipeline and
\\endpipeline. It is one transaction, which counts as one request. Every
statement is parsed by the server before the load begins. With no database
named, a private PostgreSQL is started, and removed at the end.

Examples:
  sekisho measure postgres shop.sql --db \"$DATABASE_URL\" --clients 1,4,16
  sekisho measure postgres pay.sql@4 browse.sql@10 --rate 200/s
  sekisho measure postgres shop.sql --init schema.sql --knee 'p99<50ms'
      ends with 0 or 4: the knee, or this machine cannot tell it")]
pub(super) struct PostgresArgs {
    /// Scripts, each the SQL of a transaction; FILE@4 is chosen four times as often as FILE
    #[arg(value_name = "FILE[@WEIGHT]")]
    files: Vec<String>,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    private: PrivateArgs,
    /// SQL that fills the private PostgreSQL before the runs
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
    /// How statements are sent, pgbench's -M
    #[arg(long, short = 'M', value_enum, value_name = "PROTOCOL", default_value = "prepared")]
    protocol: ProtocolName,
    /// Give a variable a value
    #[arg(long, short = 'D', value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Tries of a transaction that a serialization failure or a deadlock ends; 0 has no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_tries: u32,
    /// How scripts are drawn by their weights
    #[arg(long, value_enum, default_value = "deck")]
    draw: DrawName,
    /// Generator threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Connections of an open load; an arrival that finds none free waits for one, and that counts
    #[arg(long, value_name = "N", default_value_t = 20)]
    connections: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolName {
    /// Texts with the values in them
    Simple,
    /// Parameters; parsed and planned each time
    Extended,
    /// Parameters; prepared once for each connection
    Prepared,
}

pub(super) fn run(
    args: &PostgresArgs,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let scripts = args.scripts()?;
    let runs = args.runs()?;
    args.output.holds(runs.len(), args.load.knee())?;
    args.hold_parts(runs.len())?;
    let Some(mut target) = Target::open(args, &runs, session)? else {
        return super::json::interrupted(args.output.json, out);
    };
    // What the largest load needs is asked for first: nobody wants to hear of it after the others.
    let largest = runs.iter().max_by_key(|run| args.connections(&run.load));
    let largest = largest.expect("a load is asked for");
    let plan = args.plan(&target, &scripts, largest)?;
    let found = match preflight(&plan, &session.interrupt) {
        Err(RunError::Interrupted) => return super::json::interrupted(args.output.json, out),
        found => found.map_err(|error| target.explained(args, error))?,
    };
    if session.interrupted() {
        return super::json::interrupted(args.output.json, out);
    }
    let release = found.version.split(' ').next().unwrap_or_default();
    target.name = format!("{} (PostgreSQL {release})", target.name);
    if !args.output.json {
        say(out, &sentence(&format!("measuring {}", target.name)))?;
        for note in &found.notes {
            say(out, &paragraph(&format!("note: {note}")))?;
        }
    }
    let verdict = match args.load.knee() {
        Some(_) => look_for_knee(args, &target, &scripts, session, out)?,
        None => measure_all(args, &target, &scripts, &runs, session, out)?,
    };
    target.close()?;
    Ok(verdict)
}

/// Database whose knee is looked for.
struct Sql<'a> {
    session: &'a Session,
    /// The plan of a probe but for its rate and its length.
    base: PlanSpec,
}

impl Engine for Sql<'_> {
    type Plan = PlanSpec;

    fn base(&self) -> &PlanSpec {
        &self.base
    }

    fn alone(&self, requests: u64, longest: Duration) -> Result<RunRecord, Failure> {
        let plan = Plan::new(PlanSpec {
            load: Load::Closed { clients: 1, think: Dist::Constant(0.0) },
            until: Until::Requests(requests),
            warmup: Duration::ZERO,
            interval: Duration::from_millis(50),
            part: RunPart::WHOLE,
            ..self.base.clone()
        });
        let begun = Instant::now();
        record_until(
            &plan.map_err(Failure::usage)?,
            naming(self.session),
            &self.session.interrupt,
            &mut |_| match begun.elapsed() > longest {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        )
        .map_err(failure)
    }

    fn probe(
        &self,
        at: Probe,
        number: u64,
        length: Duration,
        limit: &Limit,
        sink: &mut dyn FnMut(&Interval),
    ) -> Result<Probed, Failure> {
        probe(&self.base, at, number, length, limit, &self.session.interrupt, sink).map_err(failure)
    }

    fn header(&self) -> Result<RunHeader, Failure> {
        let plan = Plan::new(self.base.clone()).map_err(Failure::usage)?;
        Ok(plan.header(naming(self.session)))
    }

    fn failure(error: RunError) -> Failure {
        failure(error)
    }
}

fn look_for_knee(
    args: &PostgresArgs,
    target: &Target,
    scripts: &Scripts,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let base = args.spec(target, scripts, args.load.at(args.load.open(1.0)));
    let of_part =
        args.typed(session).map(|typed| typed.for_another_load().without("duration").line());
    let part = args.load.parts.part();
    let wanted = Wanted {
        limit: args.load.knee().ok_or_else(no_limit)?,
        budget_s: args.load.budget_s(),
        length_given_s: args.load.length_given_s(),
        json: args.output.json,
        limits: args.output.limits(),
        keep: &|record| args.output.keep_knee(record),
        idle: Idle::Sleep,
        more: "`--threads`",
        command: args.command(),
        command_of_run: of_part.filter(|_| !part.is_whole()).unwrap_or_else(|| args.command()),
        part,
    };
    let meeting = args.load.parts.meeting(args.database.reach())?;
    knee_parts::run(&wanted, &Sql { session, base }, meeting.as_ref(), session, out)
}

fn measure_all(
    args: &PostgresArgs,
    target: &Target,
    scripts: &Scripts,
    runs: &[Run],
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let seconds = runs.iter().map(|run| length_s(run.until, &run.load, run.warmup)).sum();
    let typed = args.typed(session);
    let meeting = args.load.parts.meeting(args.database.reach())?;
    let measurement = Measurement { noun: Noun::Script, seconds, typed };
    args.output.of_runs(measurement, session, out, runs, |run, bar| {
        press(&args.plan(target, scripts, run)?, meeting.as_ref(), session, bar)
    })
}

fn naming(session: &Session) -> Naming {
    Naming {
        id: store::new_id(),
        started: store::now_rfc3339(),
        tool: tool(),
        command: session.command.clone(),
    }
}

/// Runs a plan, or a part of one, and returns its record; the bar goes on with every interval. None if the user
/// did not want to wait for the other parts.
fn press(
    plan: &Plan,
    meeting: Option<&Meeting>,
    session: &Session,
    bar: &ProgressBar,
) -> Result<Option<RunRecord>, Failure> {
    let mut sink = |interval: &Interval| advance(bar, interval);
    let (naming, interrupt) = (naming(session), &session.interrupt);
    let made = match meeting {
        None => pgload::record(plan, naming, interrupt, &mut sink),
        Some(meeting) => {
            let attendance = Attendance { meeting, waits: &mut parts::waiting(bar) };
            pgload::record_part(plan, naming, attendance, interrupt, &mut sink)
        }
    };
    match made {
        Ok(record) => Ok(Some(record)),
        Err(RunError::Meet(error)) => parts::unmet(error).map_or(Ok(None), Err),
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Start(_) | RunError::Broken(_) => Failure::machine(error),
        error => Failure::usage(error),
    }
}

/// The database of the runs.
struct Target {
    config: Config,
    /// Stopped and removed with this.
    private: Option<Private>,
    /// Name where one says what was measured.
    name: String,
}

impl Target {
    /// The database that is named; else a private one, filled. `None` if the user did not want to
    /// wait for that.
    fn open(
        args: &PostgresArgs,
        runs: &[Run],
        session: &Session,
    ) -> Result<Option<Target>, Failure> {
        args.private.none_beside(&args.database)?;
        if args.database.is_named() {
            if args.init.is_some() {
                return Err(Failure::Usage(
                    "`--init` fills a private PostgreSQL, and a database is named (`--db`, \
                     DATABASE_URL, PGHOST ...): fill that one yourself, with `psql -f`"
                        .into(),
                ));
            }
            let config = args.database.named()?;
            let name = verify::name(&config);
            return Ok(Some(Target { config, private: None, name }));
        }
        let most = runs.iter().map(|run| args.connections(&run.load));
        let connections = most.max().unwrap_or(1).saturating_add(CONNECTIONS_SPARE).max(100);
        let connections = connections.to_string();
        let parameters = [
            ("shared_buffers", "512MB"),
            ("max_wal_size", "4GB"),
            ("max_connections", &*connections),
        ];
        let settings = args.private.settings(&parameters, Some(Arc::clone(&session.interrupt)));
        let private = match Private::start(&settings) {
            Ok(private) => private,
            Err(StartError::Interrupted) => return Ok(None),
            Err(error) => return Err(Failure::machine(error)),
        };
        let config: Config = private.url().as_str().parse().map_err(Failure::machine)?;
        if let Some(path) = &args.init {
            let text = store::read_text(path, "file of SQL")?;
            let source = Source { name: path.display().to_string(), text, weight: 1 };
            match pgload::execute(&config, &source, &session.interrupt) {
                Err(RunError::Interrupted) => return Ok(None),
                filled => filled.map_err(failure)?,
            }
        }
        Ok(Some(Target { config, private: Some(private), name: "a private server".into() }))
    }

    /// The failure of a look before the load; where a table is missing on an empty server, how it gets
    /// there.
    fn explained(&self, args: &PostgresArgs, error: RunError) -> Failure {
        let missing =
            matches!(&error, RunError::Script(fault) if fault.cause.contains("(SQLSTATE 42P01)"));
        if !missing {
            return failure(error);
        }
        let way_out = match (&self.private, &args.init) {
            (Some(_), None) => {
                "the private PostgreSQL is empty: fill it with `--init schema.sql`, or name a database \
                 with --db"
            }
            (Some(_), Some(_)) => "the file of `--init` does not make it",
            (None, _) => "is this the database that is meant?",
        };
        Failure::Usage(format!("{error}; {way_out}"))
    }

    /// Stops and removes a private server.
    fn close(self) -> Result<(), Failure> {
        self.private.map_or(Ok(()), |private| private.stop().map_err(Failure::machine))
    }
}

impl PostgresArgs {
    fn scripts(&self) -> Result<Scripts, Failure> {
        if self.files.is_empty() {
            return Err(Failure::Usage(NO_SCRIPT.into()));
        }
        let mut sources =
            self.files.iter().map(|word| source(word)).collect::<Result<Vec<_>, _>>()?;
        // The name of a file will do, where it is the name of one.
        let short = |name: &str| {
            Path::new(name).file_name().map_or(name.to_owned(), |file| file.display().to_string())
        };
        let names: HashSet<String> = sources.iter().map(|source| short(&source.name)).collect();
        if names.len() == sources.len() {
            sources.iter_mut().for_each(|source| source.name = short(&source.name));
        } else if let Some(twice) = twice(&sources) {
            let cause = format!("{twice} is given twice: give it once, with a weight ({twice}@2)");
            return Err(Failure::Usage(cause));
        }
        let definitions = self.define.iter().map(|text| {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| {
                Failure::Usage(format!("`-D {text}` has no value: write `-D NAME=VALUE`"))
            })
        });
        let definitions = definitions.collect::<Result<Vec<_>, _>>()?;
        let protocol = match self.protocol {
            ProtocolName::Simple => Protocol::Simple,
            ProtocolName::Extended => Protocol::Extended,
            ProtocolName::Prepared => Protocol::Prepared,
        };
        Scripts::read(&sources, &definitions, protocol).map_err(Failure::usage)
    }

    /// Checks that the parts of a run can meet, and press one database.
    fn hold_parts(&self, runs: usize) -> Result<(), Failure> {
        self.load.parts.holds(runs)?;
        let meeting = self.load.parts.meeting(self.database.reach())?;
        if meeting.is_some() && !self.database.is_named() {
            return Err(Failure::Usage(
                "the parts of a run press one database: name it with `--db`".into(),
            ));
        }
        Ok(())
    }

    /// The runs that are asked for. A search for the knee is one at some rate.
    fn runs(&self) -> Result<Vec<Run>, Failure> {
        match self.load.knee() {
            Some(expectation) => {
                limit(expectation)?;
                Ok(vec![self.load.at(self.load.open(1.0))])
            }
            None => self.load.runs(None),
        }
    }

    /// Connections that a load needs.
    fn connections(&self, load: &Load) -> u32 {
        match load {
            Load::Closed { clients, .. } => *clients,
            Load::Open { .. } | Load::Varying { .. } => self.connections,
        }
    }

    /// The command as it was typed, without any secret.
    fn typed(&self, session: &Session) -> Option<Typed> {
        let typed = Typed::of(&session.command)?;
        // The words of a session have lost the user of an address with its password.
        let mut typed = match self.database.shown() {
            Some(address) => typed.with("db", address),
            None => typed.without("db"),
        };
        typed.needs = self.database.needs();
        Some(typed)
    }

    /// The same command on the same database, without a load.
    fn command(&self) -> String {
        let words = |flag: &str, values: &[String]| -> String {
            values.iter().map(|value| format!(" {flag} {}", quoted(value))).collect()
        };
        let files: String = self.files.iter().map(|file| format!(" {}", quoted(file))).collect();
        let mut command = self.database.again(&format!("sekisho measure postgres{files}"));
        if let Some(release) = self.private.chosen() {
            command += &words("--postgres", &[release.to_owned()]);
        }
        if let Some(path) = &self.init {
            command += &words("--init", &[path.display().to_string()]);
        }
        match self.protocol {
            ProtocolName::Simple => command += " --protocol simple",
            ProtocolName::Extended => command += " --protocol extended",
            ProtocolName::Prepared => {}
        }
        command += &words("-D", &self.define);
        if self.max_tries != 1 {
            command += &format!(" --max-tries {}", self.max_tries);
        }
        format!("{command} --connections {}", self.connections)
    }

    fn plan(&self, target: &Target, scripts: &Scripts, run: &Run) -> Result<Plan, Failure> {
        Plan::new(self.spec(target, scripts, run.clone())).map_err(Failure::usage)
    }

    fn spec(&self, target: &Target, scripts: &Scripts, run: Run) -> PlanSpec {
        let Run { load, until, warmup, interval } = run;
        let (config, name) = (target.config.clone(), target.name.clone());
        let mut spec = PlanSpec::new(config, name, scripts.clone(), load, until);
        spec.connections = self.connections;
        spec.warmup = warmup;
        spec.interval = interval.unwrap_or(spec.interval);
        spec.threads = self.threads;
        spec.tries_max = self.max_tries;
        spec.seed = self.seed;
        spec.part = self.load.parts.part();
        spec.order = self.draw.order();
        spec
    }
}

/// The script that a word of the command line names, and its weight.
fn source(word: &str) -> Result<Source, Failure> {
    let (path, weight) = match word.rsplit_once('@') {
        Some((path, weight)) if !Path::new(word).exists() => (path, weight),
        _ => (word, "1"),
    };
    let weight = weight.parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
    let weight = weight.ok_or_else(|| {
        Failure::Usage(format!("`{word}`: the weight after @ must be a whole number from 1 on"))
    })?;
    let text = store::read_text(Path::new(path), "script")?;
    Ok(Source { name: path.to_owned(), text, weight })
}

/// A name that two scripts have.
fn twice(sources: &[Source]) -> Option<&str> {
    let mut seen = HashSet::new();
    sources.iter().map(|source| source.name.as_str()).find(|name| !seen.insert(*name))
}
