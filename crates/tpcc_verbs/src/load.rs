//! `sekisho tpcc load`: fills a database with the population of a seed.

use std::io::Write;

use ::tpcc::{
    Config, Existing, ForeignKeys, Grain, LoadError, LoadPlan, Loaded, Others, Phase, Progress,
    facts,
};
use clap::{Args as ClapArgs, ValueEnum};
use cli::json::Answer;
use cli::text::{bytes, paragraph, time};
use cli::{Failure, Session, Verdict, progress, say, store};
use indicatif::ProgressBar;
use schemars::JsonSchema;
use serde::Serialize;

use super::terminals;
use databases::DatabaseArgs;

/// Fill a database with the warehouses of a seed
///
/// Rows follow from the seed alone, by clause 4.3.3.1 of the specification. They come on several
/// connections, in pieces that are there whole or not at all, so that a load that was interrupted
/// can be resumed. Keys, indexes, vacuum and statistics come after.
#[derive(ClapArgs)]
#[command(after_help = "\
A warehouse takes about 110 MB. The database must be empty or hold a load of
Sekisho's; what belongs to others is never touched.

Examples:
  sekisho tpcc load --warehouses 10 --db \"$DATABASE_URL\"
  sekisho tpcc load --warehouses 10 --db \"$DATABASE_URL\" --replace --seed 7")]
pub(super) struct Args {
    /// Number of warehouses
    #[arg(long, value_name = "N")]
    warehouses: u32,
    #[command(flatten)]
    database: DatabaseArgs,
    /// All rows follow from it; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// Connections at once; left out, one a processor of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// What comes in one transaction
    #[arg(long, value_enum, default_value = "warehouse")]
    grain: GrainName,
    /// Also add the foreign keys of clause 1.3, which the specification does not demand
    #[arg(long)]
    foreign_keys: bool,
    /// Go on with a load that was interrupted
    #[arg(long, conflicts_with = "replace")]
    resume: bool,
    /// Remove a load of Sekisho's that is there
    #[arg(long)]
    replace: bool,
    /// Load although the database holds tables of others
    #[arg(long)]
    beside_others: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum GrainName {
    /// A warehouse: little is lost by an interruption, work is shared evenly
    Warehouse,
    /// Whole tables, written frozen: nothing is written twice, nothing can be resumed within
    Table,
}

impl Args {
    fn plan(&self, seed: u64) -> LoadPlan {
        let usual = LoadPlan::new(seed, self.warehouses);
        LoadPlan {
            jobs: self.jobs.map_or(usual.jobs, usize::from),
            grain: match self.grain {
                GrainName::Warehouse => Grain::Warehouse,
                GrainName::Table => Grain::Table,
            },
            foreign_keys: if self.foreign_keys { ForeignKeys::Added } else { ForeignKeys::Left },
            existing: match (self.resume, self.replace) {
                (true, _) => Existing::Resume,
                (false, true) => Existing::Replace,
                (false, false) => Existing::Refuse,
            },
            others: if self.beside_others { Others::Allow } else { Others::Refuse },
            ..usual
        }
    }

    /// The command that goes on with this load.
    fn resuming(&self) -> String {
        let Args { warehouses, seed, .. } = self;
        let command = format!("sekisho tpcc load --warehouses {warehouses} --seed {seed} --resume");
        self.database.again(&command)
    }

    /// All rows follow from it. What is resumed goes on with its own, if nobody says another.
    fn seed(&self, config: &Config) -> Result<u64, Failure> {
        if !self.resume || self.seed != store::drawn_seed() {
            return Ok(self.seed);
        }
        let known = facts(config).map_err(terminals::failure)?;
        Ok(known.load.map_or(self.seed, |load| load.seed))
    }
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let config = args.database.named()?;
    let plan = args.plan(args.seed(&config)?);
    let bar = progress(0, "loading rows");
    let mut last = None;
    let result = ::tpcc::load(&config, &plan, &session.interrupt, &mut |progress| {
        show(&bar, &progress);
        last = Some(progress);
    });
    bar.finish_and_clear();
    let (verdict, text, line) = match result {
        Ok(loaded) => {
            let version = facts(&config).map_err(terminals::failure)?.version;
            let text = done_text(args, &loaded, &version);
            let answer = LoadedTables::new(&loaded, &version);
            (Verdict::Holds, text, cli::json::answer(Verdict::Holds, "loaded", &answer))
        }
        Err(LoadError::Interrupted) => {
            let verdict = Verdict::Interrupted;
            let answer = StoppedLoad::new(args, last);
            let line = cli::json::answer(verdict, verdict.word(), &answer);
            (verdict, stopped_text(args, last), line)
        }
        Err(error) => return Err(failure(&error)),
    };
    if args.json {
        say(out, &line)?;
    } else {
        say(out, &text)?;
    }
    Ok(verdict)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(progress.of);
    bar.set_position(progress.done);
    match progress.phase {
        Phase::Rows => bar.set_prefix(format!("{:.0} rows/s", progress.rate())),
        Phase::Keys => {
            bar.set_message("keys, indexes, vacuum");
            bar.set_prefix("");
        }
    }
}

fn done_text(args: &Args, loaded: &Loaded, version: &str) -> String {
    let (rows_s, keys_s) = (loaded.rows_took.as_secs_f64(), loaded.keys_took.as_secs_f64());
    let warehouses = loaded.record.warehouses;
    let s = if warehouses == 1 { "" } else { "s" };
    let each = (rows_s + keys_s) / f64::from(warehouses);
    let resumed = if args.resume { ", the rest of them" } else { "" };
    let facts = format!(
        "{} rows{resumed} in {} ({:.0} /s), then keys, indexes, vacuum and statistics in {}. \
         Tables and indexes take {}, in PostgreSQL {version}. C-Load is {}, which a run needs and the database keeps.",
        loaded.rows,
        time(rows_s),
        loaded.rows as f64 / rows_s.max(1e-9),
        time(keys_s),
        bytes(loaded.bytes),
        loaded.record.c_load
    );
    format!(
        "loaded: {warehouses} warehouse{s} from seed {}, {} each\n{}{}",
        loaded.record.seed,
        time(each),
        paragraph(&facts),
        args.database.next(&format!("sekisho tpcc run --warehouses {warehouses}"))
    )
}

/// Tables that were loaded.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LoadedTables<'a> {
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// Number of warehouses.
    warehouses: u32,
    /// Seed of all that was drawn.
    seed: u64,
    /// Constant C of the load, as the specification has it.
    c_load: u16,
    /// Number of rows, of all tables.
    rows: u64,
    /// Time for the rows.
    rows_s: f64,
    /// Time for keys, indexes, vacuum and statistics.
    keys_s: f64,
    /// Size of tables and indexes.
    bytes: u64,
}

impl Answer for LoadedTables<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-load/1";
}

impl<'a> LoadedTables<'a> {
    fn new(loaded: &Loaded, postgres: &'a str) -> LoadedTables<'a> {
        LoadedTables {
            postgres,
            warehouses: loaded.record.warehouses,
            seed: loaded.record.seed,
            c_load: loaded.record.c_load,
            rows: loaded.rows,
            rows_s: loaded.rows_took.as_secs_f64(),
            keys_s: loaded.keys_took.as_secs_f64(),
            bytes: loaded.bytes,
        }
    }
}

/// A load that was interrupted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StoppedLoad {
    /// Number of warehouses.
    warehouses: u32,
    /// Seed of all that was drawn.
    seed: u64,
    /// None if it was at the keys already, or had not begun.
    rows_done: Option<u64>,
}

impl Answer for StoppedLoad {
    const FORMAT: &'static str = "sekisho/tpcc-load-stopped/1";
}

impl StoppedLoad {
    fn new(args: &Args, last: Option<Progress>) -> StoppedLoad {
        let rows = last.filter(|progress| progress.phase == Phase::Rows);
        StoppedLoad {
            warehouses: args.warehouses,
            seed: args.seed,
            rows_done: rows.map(|progress| progress.done),
        }
    }
}

fn stopped_text(args: &Args, last: Option<Progress>) -> String {
    let share = last.map_or(0.0, |progress| match progress.phase {
        Phase::Rows => 100.0 * progress.done as f64 / progress.of as f64,
        Phase::Keys => 100.0,
    });
    format!(
        "interrupted: about {share:.0} % of the rows were there\n{}{}",
        paragraph("What was whole is kept; the rest was undone by the database."),
        args.database.next_line(&args.resuming())
    )
}

/// Failure with what the user can do, in the words of this command.
fn failure(error: &LoadError) -> Failure {
    let way = match error {
        LoadError::OtherTables { .. } => " (`--beside-others`)",
        LoadError::Complete { .. } => " (`--replace`)",
        LoadError::Incomplete { .. } | LoadError::Differs { .. } => " (`--resume`, `--replace`)",
        LoadError::NothingToResume | LoadError::DiskFull { .. } | LoadError::ServerGone { .. } => {
            " (`--resume`)"
        }
        LoadError::Connections { .. } => " (`--jobs`)",
        _ => "",
    };
    let text = format!("{error}{way}");
    match error {
        LoadError::DiskFull { .. } | LoadError::ServerGone { .. } | LoadError::Refused { .. } => {
            Failure::Machine(text)
        }
        _ => Failure::Usage(text),
    }
}
