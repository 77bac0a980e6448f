//! `sekisho demo agents`: a pass of prices over very many accounts in a private PostgreSQL, with the
//! scheduler that knows its cache and without, beside theory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::agents::{Destination, Key, PartitionSpec};
use agents_bench::{
    Account, Costs, Direct, Fired, Load, LoadSpec, Meter, Order, Policy, PolicySpec, RunError,
    Server, Tick, populate,
};
use agents_store::{PostgresSpec, PostgresStore, Store};
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{Table, bytes, count, paragraph, sentence, time};
use cli::{Failure, Session, Verdict, progress, say, store};
use databases::PrivateArgs;
use gate::EvictionRule;
use indicatif::ProgressBar;
use postgres::{Private, StartError};
use report::{Axis, Cell, Column, Curves, Figure, Report, Section, Series, Table as ReportTable};
use schemars::JsonSchema;
use serde::Serialize;

/// The partition of all accounts.
const PARTITION: u32 = 0;
/// The database keeps all accounts in memory, and no checkpoint falls into a pass.
const PARAMETERS: [(&str, &str); 2] = [("shared_buffers", "512MB"), ("max_wal_size", "4GB")];
/// Most distance of a hit ratio over so many accounts from theory: four standard deviations of the share of as many
/// independent draws, of which each has a variance of at most 1/4. Chance alone goes beyond it once in 16,000 cases.
fn off_most(agents: u32) -> f64 {
    4.0 * (0.25 / f64::from(agents)).sqrt()
}

/// Agents by the hundred thousand: a pass of prices with the scheduler that knows its cache, and without
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho demo agents
      ends with 0 or 4: hits are as in theory; times may be too near to tell")]
pub struct Args {
    /// Number of stock accounts, 1 kB each
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    agents: u32,
    /// Share of them that the server has room for, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=99))]
    cached: u32,
    /// Most accounts that the ways without batches go over, as if there were no others
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    one_by_one: u32,
    /// Measured passes in batches; the ways without batches have one each
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100))]
    passes: u32,
    #[command(flatten)]
    private: PrivateArgs,
    /// The seed of all chance; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "sekisho-demo-agents.html")]
    report: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// There is no server to be had, it fails, or the report cannot be written.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    if !args.json {
        say(out, &introduction(args))?;
    }
    let settings = args.private.settings(&PARAMETERS, Some(Arc::clone(&session.interrupt)));
    let private = match Private::start(&settings) {
        Ok(private) => private,
        Err(StartError::Interrupted) => return interrupted(args, out),
        Err(error) => return Err(Failure::machine(error)),
    };
    let version = private.programs().version().to_owned();
    let bar = progress(0, "opening accounts");
    let measured = measure(args, &private, session, &bar);
    bar.finish_and_clear();
    let stopped = private.stop().map_err(Failure::machine);
    match measured {
        Err(RunError::Stopped) => interrupted(args, out),
        Err(error @ RunError::Other { .. }) => Err(Failure::defect(error)),
        Err(error) => Err(Failure::machine(error)),
        Ok(rows) => {
            stopped?;
            Demo { args, rows, version }.finish(out)
        }
    }
}

fn introduction(args: &Args) -> String {
    paragraph(&format!(
        "A private PostgreSQL with {} of 1 kB: ten holdings and limits of profit and loss each. At a tick \
         each gets a table of 1,000 prices; about a tenth is outside of its limits, writes its state and \
         notifies its owner. The server has room for {} % of them.",
        count(args.agents.into(), "stock account"),
        args.cached
    )) + "\n"
}

fn interrupted(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted { seed: Some(args.seed), ..Interrupted::default() }.line(),
        false => {
            "interrupted: nothing is kept; the server is stopped and its data removed\n".into()
        }
    };
    say(out, &text)?;
    Ok(verdict)
}

/// A way to give a tick to all accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One by one, with LRU.
    OneByOne(Order),
    /// The agent server's core.
    Server,
}

const WAYS: [Way; 4] = [
    Way::OneByOne(Order::Same),
    Way::OneByOne(Order::Shuffled),
    Way::OneByOne(Order::Cohort),
    Way::Server,
];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::OneByOne(Order::Same) => "LRU, same order",
            Way::OneByOne(Order::Shuffled) => "LRU, new order",
            Way::OneByOne(Order::Cohort) => "cohorts",
            Way::Server => "cohorts, batches",
        }
    }

    /// The hit ratio that theory says, of this cached share.
    fn theory(self, cached: f64) -> Result<f64, Failure> {
        match self {
            Way::OneByOne(Order::Same) => Ok(0.0),
            Way::OneByOne(Order::Shuffled) => solve::lru_hit_ratio(cached).map_err(Failure::defect),
            Way::OneByOne(Order::Cohort) | Way::Server => Ok(cached),
        }
    }
}

/// Measurements of a way, one a pass.
struct Row {
    way: Way,
    /// Number of agents that it goes over.
    agents: u32,
    hit_ratio: f64,
    notified: u64,
    passes: Vec<Costs>,
}

impl Row {
    /// One of the costs of an agent, the mean of its passes.
    fn each(&self, of: fn(&Costs) -> f64) -> f64 {
        let sum: f64 = self.passes.iter().map(of).sum();
        sum / self.passes.len() as f64 / f64::from(self.agents)
    }

    /// The times of an agent \[s\], one a pass.
    fn times(&self) -> impl Iterator<Item = f64> {
        self.passes.iter().map(|costs| wall(costs) / f64::from(self.agents))
    }
}

fn wall(costs: &Costs) -> f64 {
    costs.wall.as_secs_f64()
}

fn own(costs: &Costs) -> f64 {
    costs.own.as_secs_f64()
}

fn database(costs: &Costs) -> f64 {
    costs.database.as_secs_f64()
}

fn wal(costs: &Costs) -> f64 {
    costs.wal as f64
}

/// The parts that all ways have in common.
struct Bench<'a> {
    args: &'a Args,
    load: Load,
    store: Arc<dyn Store<Tick>>,
    meter: Meter,
    session: &'a Session,
    /// Number of the last tick.
    tick: u64,
}

fn measure(
    args: &Args,
    private: &Private,
    session: &Session,
    bar: &ProgressBar,
) -> Result<Vec<Row>, RunError> {
    let config: ::tpcc::Config =
        (private.url().as_str().parse()).map_err(|error| RunError::Database(format!("{error}")))?;
    let spec = PostgresSpec::default();
    PostgresStore::init(config.clone(), &spec)?;
    let store: Arc<dyn Store<Tick>> = Arc::new(PostgresStore::open(config.clone(), &spec)?);
    let process = private.pid().ok_or_else(|| RunError::Database("it has ended".to_owned()))?;
    let meter = Meter::new(&config, process)?;
    let load = Load::new(LoadSpec::new(args.agents, args.seed));
    bar.set_length(args.agents.into());
    populate(&load, &*store, PARTITION, (&*session.interrupt, |done| bar.set_position(done)))?;
    // As the database's own housekeeping would after a while.
    meter.run("vacuum analyze")?;
    meter.run("checkpoint")?;
    let mut bench = Bench { args, load, store, meter, session, tick: 0 };
    bar.set_length(WAYS.len() as u64);
    bar.set_position(0);
    let mut rows = Vec::new();
    for way in WAYS {
        bar.set_message(way.name());
        rows.push(bench.row(way)?);
        bar.inc(1);
    }
    Ok(rows)
}

impl Bench<'_> {
    fn row(&mut self, way: Way) -> Result<Row, RunError> {
        match way {
            Way::OneByOne(order) => self.one_by_one(order),
            Way::Server => self.server(),
        }
    }

    /// The next ticks, each with the notifications of so many agents that it must lead to.
    fn next(&mut self, count: u32, agents: u32) -> Result<Vec<(Tick, Fired)>, RunError> {
        let numbers = self.tick + 1..=self.tick + u64::from(count);
        self.tick += u64::from(count);
        let ticks: Vec<Tick> = numbers.map(|number| self.load.tick(number)).collect();
        let keys = (0..u64::from(agents)).map(Key);
        let expected = self.load.expected_of(keys, &ticks)?;
        Ok(ticks.into_iter().zip(expected).collect())
    }

    fn one_by_one(&mut self, order: Order) -> Result<Row, RunError> {
        let agents = self.args.agents.min(self.args.one_by_one);
        let room = room(self.args, agents);
        let (victim, seed) = (EvictionRule::Lru.into(), self.args.seed);
        let policy = Policy::new(PolicySpec { agents, room, order, victim, seed });
        let policy = policy.map_err(RunError::Scheduler)?;
        let (tick, expected) = self.next(1, agents)?.swap_remove(0);
        let mut direct = Direct::open(&*self.store, PARTITION, policy, (agents, 1, 3))?;
        let stop = &self.session.interrupt;
        let (fired, costs) = self.meter.of(|| direct.tick(&tick, stop))?;
        checked(fired, expected)?;
        let (way, hit_ratio) = (Way::OneByOne(order), direct.hit_ratio());
        Ok(Row { way, agents, hit_ratio, notified: fired.count, passes: vec![costs] })
    }

    fn server(&mut self) -> Result<Row, RunError> {
        // All notifications of a pass are delivered from memory, as they are where they go quickly.
        let agents = self.args.agents;
        let held_max = agents as usize;
        let room = room(self.args, agents);
        let spec = PartitionSpec { held_max, ..PartitionSpec::new(PARTITION, room) };
        let ticks = self.next(self.args.passes + 1, agents)?;
        let mut server = Server::<Account>::open(Arc::clone(&self.store), spec)?;
        let (mut passes, mut notified) = (Vec::new(), 0);
        let mut before = server.counts();
        // The first one fills the cache.
        for (pass, (tick, expected)) in ticks.into_iter().enumerate() {
            let (stop, all) = (&self.session.interrupt, Destination::All);
            let (fired, costs) =
                self.meter.of(|| server.tick([(tick, all)], expected.count, stop))?;
            checked(fired, expected)?;
            if pass == 0 {
                before = server.counts();
                continue;
            }
            notified += fired.count;
            passes.push(costs);
        }
        let counts = server.counts();
        server.close();
        let (hits, loads) = (counts.hits - before.hits, counts.loads - before.loads);
        let hit_ratio = hits as f64 / (hits + loads).max(1) as f64;
        let notified = notified / u64::from(self.args.passes);
        Ok(Row { way: Way::Server, agents, hit_ratio, notified, passes })
    }
}

/// Number of agents that there is room for, of so many.
fn room(args: &Args, agents: u32) -> u32 {
    (u64::from(agents) * u64::from(args.cached) / 100) as u32
}

/// All ways must notify the same owners of the same profits.
fn checked(fired: Fired, expected: Fired) -> Result<(), RunError> {
    if fired == expected { Ok(()) } else { Err(RunError::Other { fired, expected }) }
}

struct Demo<'a> {
    args: &'a Args,
    rows: Vec<Row>,
    version: String,
}

impl Demo<'_> {
    fn cached(&self) -> f64 {
        f64::from(self.args.cached) / 100.0
    }

    fn server(&self) -> &Row {
        self.rows.last().expect("the server is a way")
    }

    /// The gains over LRU in a new order: by cohorts alone, and by batches beside.
    fn gains(&self) -> [f64; 2] {
        let of = |at: usize| self.rows[at].each(wall);
        [of(1) / of(2), of(2) / of(3)]
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let mut off = 0.0_f64;
        for row in &self.rows {
            let distance = (row.hit_ratio - row.way.theory(self.cached())?).abs();
            off = off.max(distance / off_most(row.agents));
        }
        let longest = self.server().times().fold(0.0, f64::max);
        let others = self.rows.iter().filter(|row| row.way != Way::Server);
        let shortest = others.flat_map(Row::times).fold(f64::INFINITY, f64::min);
        Ok(judge(off, longest, shortest))
    }

    fn headline(&self) -> String {
        let (server, [cohorts, batches]) = (self.server(), self.gains());
        format!(
            "{} in {}, {} % of them cached: {:.1} times faster than one by one with LRU in a new order; \
             the cohorts bring {cohorts:.1} times, the batches {batches:.1} times",
            count(self.args.agents.into(), "account"),
            time(server.each(wall) * f64::from(self.args.agents)),
            self.args.cached,
            cohorts * batches,
        )
    }

    fn why(&self) -> String {
        format!(
            "With a cache of {} and LRU, a pass in the same order each time finds nobody (by the time an \
             agent's turn comes, it was evicted), and one in a new random order c + (1 - c) ln (1 - c), where \
             c is the cached share. \
             Cached agents first is the bound: nothing can hit more than c. The rest must be loaded by \
             whatever order: one by one is a statement an agent, the server loads a thousand by one \
             statement, while cached ones run, and commits them in one transaction.",
            count(room(self.args, self.args.agents).into(), "agent")
        )
    }

    fn table(&self) -> Result<Table, Failure> {
        let heads = ["way", "agents", "hits", "theory", "time", "server", "database", "log"];
        let mut table = Table::new(&heads);
        for row in &self.rows {
            let theory = row.way.theory(self.cached())?;
            table.row(vec![
                row.way.name().to_owned(),
                row.agents.to_string(),
                format!("{:.3}", row.hit_ratio),
                format!("{theory:.3}"),
                time(row.each(wall)),
                time(row.each(own)),
                time(row.each(database)),
                bytes(row.each(wal).round() as u64),
            ]);
        }
        Ok(table)
    }

    fn report(&self, verdict: Verdict) -> Result<Report, Failure> {
        let title = "Sekisho demo: a scheduler that knows its cache";
        Ok(Report::new(title)
            .verdict(verdict.into(), self.headline())
            .lead(self.why())
            .section(self.figures()?)
            .section(self.numbers()?))
    }

    fn figures(&self) -> Result<Section, Failure> {
        let shares = || (0..=100).map(|at| f64::from(at) / 100.0);
        let lru = shares().map(|c| solve::lru_hit_ratio(c).map(|hits| (c, hits)));
        let lru = lru.collect::<Result<Vec<_>, _>>().map_err(Failure::defect)?;
        let mut curves =
            Curves::new(Axis::linear("Cached share c", ""), Axis::linear("Hit ratio", ""))
                .series(Series::line("cohorts: c", shares().map(|c| (c, c))))
                .series(Series::dashed("LRU, new order: c + (1 - c) ln (1 - c)", lru));
        for row in &self.rows {
            let point = (self.cached(), row.hit_ratio);
            curves = curves.series(Series::dots(format!("{}, measured", row.way.name()), [point]));
        }
        let caption = "Lines are theory, dots this run.";
        let hits = Figure::new("Hit ratio against the cached share", caption, curves)
            .map_err(Failure::defect)?;
        Ok(Section::new("Hits beside theory").figure(hits))
    }

    fn numbers(&self) -> Result<Section, Failure> {
        let columns = [
            Column::plain("way"),
            Column::plain("pass"),
            Column::plain("agents"),
            Column::plain("hit ratio"),
            Column::new("time", "s"),
            Column::new("server's processor time", "us an agent"),
            Column::new("database's processor time", "us an agent"),
            Column::new("write-ahead log", "bytes an agent"),
            Column::plain("notified"),
        ];
        let mut table = ReportTable::new("Every pass", columns);
        for row in &self.rows {
            let each = |value: f64| Cell::Number(value / f64::from(row.agents));
            for (nth, costs) in row.passes.iter().enumerate() {
                let cells = [
                    Cell::from(row.way.name()),
                    Cell::Number((nth + 1) as f64),
                    Cell::Number(row.agents.into()),
                    Cell::Number(row.hit_ratio),
                    Cell::Number(wall(costs)),
                    each(own(costs) * 1e6),
                    each(database(costs) * 1e6),
                    each(wal(costs)),
                    Cell::Number(row.notified as f64),
                ];
                table = table.row(cells).map_err(Failure::defect)?;
            }
        }
        let section = Section::new("The numbers")
            .paragraph(
                "Each way notified the owners, of the profits, that a loop over all accounts says; the hit ratio and the notifications of the server are of all its passes.",
            )
            .table(table);
        Ok(section)
    }

    fn finish(&self, out: &mut dyn Write) -> Result<Verdict, Failure> {
        let verdict = self.verdict()?;
        self.report(verdict)?.write(&self.args.report).map_err(Failure::machine)?;
        if self.args.json {
            let answer = self.answer()?;
            say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
            return Ok(verdict);
        }
        let mut text = sentence(&format!("{}: {}", verdict.word(), self.headline()));
        text += &format!("\n{}\n{}", self.table()?, paragraph(&self.why()));
        text += &paragraph(&format!(
            "`time` is that of an agent, `server` and `database` its processor times, `log` its bytes of the \
             write-ahead log. All but the last way load and commit one agent at a time. Each way notified \
             whom a loop over all accounts says. A private PostgreSQL {}. Seed {}.",
            self.version, self.args.seed
        ));
        text += &format!(
            "\n  report: {}\n  next: sekisho reproduce yamamoto --model\n",
            std::path::absolute(&self.args.report)?.display()
        );
        say(out, &text)?;
        Ok(verdict)
    }

    fn answer(&self) -> Result<DemonstratedAgents<'_>, Failure> {
        let rows = self.rows.iter().map(|row| self.way(row)).collect::<Result<_, _>>()?;
        Ok(DemonstratedAgents {
            agents: self.args.agents,
            cached_share: self.cached(),
            postgres: &self.version,
            seed: self.args.seed,
            ways: rows,
            report: &self.args.report,
        })
    }

    fn way(&self, row: &Row) -> Result<WayAnswer, Failure> {
        Ok(WayAnswer {
            way: row.way.name(),
            agents: row.agents,
            hit_ratio: row.hit_ratio,
            hit_ratio_theory: row.way.theory(self.cached())?,
            notified: row.notified,
            pass_s: row.passes.iter().map(wall).collect(),
            server_s_an_agent: row.each(own),
            database_s_an_agent: row.each(database),
            log_bytes_an_agent: row.each(wal),
        })
    }
}

/// It holds if hits are as theory says, their greatest distance in units of what is allowed, and each pass of the server
/// was shorter than each other one.
fn judge(off: f64, longest: f64, shortest: f64) -> Verdict {
    match () {
        () if off > 1.0 => Verdict::Fails,
        () if longest < shortest => Verdict::Holds,
        () => Verdict::Inconclusive,
    }
}

/// A pass of prices over accounts, with the scheduler and without.
#[derive(Serialize, JsonSchema)]
pub struct DemonstratedAgents<'a> {
    /// Number of agents.
    agents: u32,
    /// Share of the agents that the cache holds, 0 to 1.
    cached_share: f64,
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// Seed of all that was drawn.
    seed: u64,
    /// Ways in which the pass was made.
    ways: Vec<WayAnswer>,
    /// File of the report.
    report: &'a Path,
}

impl Answer for DemonstratedAgents<'_> {
    const FORMAT: &'static str = "sekisho/demo-agents/1";
}

/// A way to give a tick to all accounts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AgentsWay")]
struct WayAnswer {
    /// Name of the way.
    way: &'static str,
    /// Number of agents that it went over.
    agents: u32,
    /// Share of the agents that were found in the cache, 0 to 1.
    hit_ratio: f64,
    /// The same by theory.
    hit_ratio_theory: f64,
    /// Notifications of a pass, the mean of its passes.
    notified: u64,
    /// A number a pass.
    pass_s: Vec<f64>,
    /// Processor time of this process.
    server_s_an_agent: f64,
    /// Processor time of the database.
    database_s_an_agent: f64,
    /// Write-ahead log of the database.
    log_bytes_an_agent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_must_be_theorys_and_each_pass_of_the_server_the_shorter_one() {
        assert_eq!(judge(0.9, 0.2, 5.0), Verdict::Holds);
        assert_eq!(judge(0.9, 5.0, 5.0), Verdict::Inconclusive);
        assert_eq!(judge(1.1, 0.2, 5.0), Verdict::Fails);
        assert!((off_most(10_000) - 0.02).abs() < 1e-12);
    }
}
