//! `sekisho demo postgres`: the whole loop on a database, on this machine.
//!
//! A private PostgreSQL is loaded and pressed without waits at several numbers of connections; a
//! closed network of one queue and a delay is fitted to that; it says from which number
//! on more connections hardly help, and is checked at numbers that it never saw.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tpcc::{End, Execution, Isolation, NOT_AUDITED, Outcome, Pace, Plan};
use advise::{
    Calibration, FitError, FitOptions, Prediction, Quantity, Question, Right, Score, SourceFit,
    Span, Tolerance,
};
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{Table, count, paragraph, percent, rate, sentence, time};
use cli::{Failure, Session, Verdict, say, store};
use expectations::verdict_of;
use measure::{Judgement, RunRecord};
use report::{Cell, Column, Section, Table as ReportTable};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Options;
use solve::{ClosedNetwork, Station};
use tpcc_verbs::{Kept, PARAMETERS, Target};

use super::check::{point_text, quick, score_text};
use super::json::{ScoreAnswer, scores};
use super::{ask, fit, loop_report};
use databases::PrivateArgs;

/// Share of the most throughput from which on more connections are not worth it.
const ENOUGH: f64 = 0.95;
/// A private server takes a hundred, of which some are kept for others.
const CONNECTIONS_MAX: i64 = 90;
/// Shorter runs would have no two intervals.
const MEASURE_LEAST: Duration = Duration::from_secs(1);
/// Warehouses that are loaded at most unless more are asked for.
const WAREHOUSES_MAX: u32 = 32;
/// Processors that a server uses besides its connections: to flush, to checkpoint, to vacuum.
const BESIDES: f64 = 0.5;
/// Share of busy processors from which on they are what a load waits for.
const SATURATED: f64 = 0.85;
/// Most by which the machine may be faster or slower at the end than when it was fitted: what a
/// throughput may be off and still count as predicted.
const DRIFT_MOST: f64 = 0.10;

/// The whole loop on a private PostgreSQL: load, press, fit, ask for the best number of connections, check
#[derive(ClapArgs)]
#[command(after_help = "\
Example:
  sekisho demo postgres
      ends with 0 or 4: the predictions are right, or the runs cannot tell

Exit codes: 0 the predictions are right; 3 one is wrong; 4 the runs cannot tell;
5 a run is invalid, as where other programs keep the machine busy; 6 the model
does not fit the runs.")]
pub(crate) struct Args {
    /// Warehouses; with fewer than connections, terminals wait for each other's rows [default: as many
    /// as connections at most, up to 32]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: Option<u32>,
    /// Numbers of connections that are fitted: three at least [default: 1, half as many as processors,
    /// as many, and 2, 3 and 4 times]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: Vec<u32>,
    /// How long each run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "2s")]
    ramp: Span,
    /// How long each run is measured
    #[arg(long, value_name = "TIME", default_value = "12s")]
    measure: Span,
    #[command(flatten)]
    private: PrivateArgs,
    /// The seed of all chance; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "sekisho-demo-postgres.html")]
    report: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    if tpcc_verbs::span(args.measure)? < MEASURE_LEAST {
        let cause = "`--measure` must be 1s at least: runs are counted by half seconds";
        return Err(Failure::usage(cause));
    }
    let cores = std::thread::available_parallelism().map_err(Failure::machine)?.get() as u32;
    let fitted = to_fit(&args.connections, cores)?;
    let most = fitted.last().copied().unwrap_or(1);
    let warehouses = args.warehouses.unwrap_or(most.min(WAREHOUSES_MAX));
    if !args.json {
        say(out, &introduction(warehouses, cores))?;
    }
    let target = Target::lend(&args.private, &PARAMETERS, (warehouses, args.seed), session)?;
    let Some(target) = target else { return interrupted(0, args, out) };
    let press = |connections| Pressed::new(&target, (warehouses, connections), args, session);
    let mut runs = Vec::new();
    for &connections in &fitted {
        match press(connections)? {
            Some(run) => runs.push(run),
            None => return interrupted(runs.len(), args, out),
        }
    }
    let (fit, servers) = match fit_of(&runs, cores, args)? {
        Ok(found) => found,
        Err(error) => {
            let verdict = match error {
                FitError::DoesNotFit(_) => Verdict::DoesNotFit,
                _ => Verdict::Invalid,
            };
            target.close()?;
            return fit::no_fit(verdict, &error, args.json, out);
        }
    };
    let mut demo = Demo::new(runs, (fit, servers), fitted, cores, args)?;
    for connections in demo.unseen.clone() {
        match press(connections)? {
            Some(run) => demo.check(run)?,
            None => return interrupted(demo.runs.len() + demo.checked.len(), args, out),
        }
    }
    match press(demo.repeated())? {
        Some(run) => demo.again = Some(run),
        None => return interrupted(demo.runs.len() + demo.checked.len(), args, out),
    }
    let version = target.version().to_owned();
    target.close()?;
    demo.finish(args, &version, out)
}

/// The different numbers of connections, smallest first.
fn to_fit(connections: &[u32], cores: u32) -> Result<Vec<u32>, Failure> {
    let cores = cores.max(2);
    let spread = [1, cores.div_ceil(2), cores, 2 * cores, 3 * cores, 4 * cores];
    let mut fitted = match connections {
        [] => spread.map(|n| n.min(CONNECTIONS_MAX as u32)).to_vec(),
        given => given.to_vec(),
    };
    fitted.sort_unstable();
    fitted.dedup();
    let most = fitted.last().copied().unwrap_or(0);
    if fitted.len() < 3 || fitted.len() == most as usize {
        return Err(Failure::Usage(
            "`--connections` takes three different numbers at least, and must leave one out between 1 \
             and the largest, for the check: 1,2,4,8 say"
                .into(),
        ));
    }
    Ok(fitted)
}

fn introduction(warehouses: u32, cores: u32) -> String {
    paragraph(&format!(
        "A private PostgreSQL with TPC-C's tables of {}. As many terminals as \
         connections work without keying and thinking, on the same {}: a closed load.",
        count(warehouses.into(), "warehouse"),
        count(cores.into(), "processor")
    )) + "\n"
}

fn interrupted(kept: usize, args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted { runs: Some(kept), ..Interrupted::default() }.line(),
        false => {
            sentence(&format!("interrupted: {} kept in .sekisho/runs/", count(kept as u64, "run")))
        }
    };
    say(out, &text)?;
    Ok(verdict)
}

/// The number of connections that PostgreSQL is best used with.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DemonstratedPostgres<'a> {
    /// True if the formula's numbers are approximate.
    approximate: bool,
    /// The largest relative error where the formula was tried.
    error: Option<f64>,
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// Seed of all that was drawn.
    seed: u64,
    /// None, as the next two, where the runs do not tell it.
    connections_best: Option<u32>,
    /// Ends of the region of numbers of connections with the most throughput.
    connections_region: Option<[u32; 2]>,
    /// Most throughput that was measured \[1/s\].
    throughput_best_per_s: Option<f64>,
    /// Relative change of the throughput from the first to the last run of one kind.
    drift: Option<f64>,
    /// Explanation of the region, in words.
    why: String,
    /// Predictions held against measurements.
    scores: Vec<ScoreAnswer<'a>>,
    /// File that the prediction was stored in.
    prediction_file: &'a Path,
    /// File that the scenario was written to.
    scenario_file: &'a Path,
    /// File of the report.
    report: &'a Path,
}

impl Answer for DemonstratedPostgres<'_> {
    const FORMAT: &'static str = "sekisho/demo-postgres/1";
}

/// A run at a number of connections, as a closed load.
struct Pressed {
    kept: Kept,
    run: RunRecord,
    judgement: Judgement,
    /// Why it is of no use, if so.
    invalid: Option<String>,
}

impl Pressed {
    /// Measures one; `None` if the user does not want to wait for it.
    fn new(
        target: &Target,
        (warehouses, connections): (u32, u32),
        args: &Args,
        session: &Session,
    ) -> Result<Option<Pressed>, Failure> {
        let plan = Plan {
            pace: Pace::Stress,
            warehouses,
            connections,
            ramp: tpcc_verbs::span(args.ramp)?,
            measure: tpcc_verbs::span(args.measure)?,
            execution: Execution::Sql,
            isolation: Isolation::RepeatableRead,
            seed: args.seed + u64::from(connections),
        };
        let kept = tpcc_verbs::run_terminals(target, &plan, session)?;
        if session.interrupted() {
            return Ok(None);
        }
        if let End::Lost(at, why) | End::Failed(at, why) = &kept.record.end {
            return Err(Failure::Machine(format!(
                "the private server was lost after {at:.0} s of the run with {connections} connections: \
                 {why}; what was measured is in {}",
                kept.path.display()
            )));
        }
        let run = kept.closed()?;
        let judgement = run.judge(0.95);
        let invalid = match kept.record.judge().outcome {
            Outcome::Invalid(why) => Some(why),
            _ => judgement.faults.first().map(ToString::to_string),
        };
        Ok(Some(Pressed { kept, run, judgement, invalid }))
    }

    fn connections(&self) -> u32 {
        self.kept.record.plan.connections
    }

    fn throughput(&self) -> f64 {
        self.judgement.all.throughput.mean
    }

    /// Of a hundred transactions, the tries that were repeated.
    fn retries(&self) -> f64 {
        let retries: u64 = self.kept.record.kinds.iter().map(|kind| kind.retries).sum();
        retries as f64 * 100.0 / self.kept.record.completed().max(1) as f64
    }

    /// Processor time of the whole machine for each transaction \[s\], as the machine counted it.
    fn processors_each(&self, cores: u32) -> Option<f64> {
        Some(self.kept.record.machine_busy()? * f64::from(cores) / self.throughput())
    }
}

/// The numbers of servers that the queue may have: as many as there are processors if each does all
/// that it does alone; fewer if they slow each other, or wait for something there is less of.
fn servers(cores: u32) -> Vec<u32> {
    let fewer = std::iter::successors(Some(1_u32), |n| n.checked_mul(2));
    fewer.take_while(|&n| n < cores).chain([cores]).collect()
}

/// The network that fits best, and how many servers its queue has.
fn fit_of(
    runs: &[Pressed],
    cores: u32,
    args: &Args,
) -> Result<Result<(SourceFit, u32), FitError>, Failure> {
    let names: Vec<String> = runs.iter().map(|run| run.kept.id.clone()).collect();
    let judged: Vec<_> = runs.iter().map(|run| (&run.run, run.judgement.clone())).collect();
    let points = fit::points_of(&judged)?;
    let with = |servers| {
        let options = FitOptions {
            slots: None,
            cores: Some(servers),
            seed: args.seed,
            confidence: 0.95,
            date: store::now_rfc3339(),
            name: "demo: TPC-C's transactions on a private PostgreSQL".into(),
        };
        advise::fit_points(&points, &names, &options).map(|fit| (fit, servers))
    };
    // Of those that fit alike the one with all processors; of errors too.
    let misfit = |fit: &Result<(SourceFit, u32), FitError>| {
        fit.as_ref().map_or(f64::INFINITY, |(fit, _)| fit.misfit())
    };
    let fits = servers(cores).into_iter().rev().map(with);
    let best = fits.min_by(|a, b| misfit(a).total_cmp(&misfit(b)));
    best.ok_or_else(|| Failure::Machine("there is no processor".into()))
}

/// From which number of connections on more hardly help.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Best {
    connections: u32,
    /// The least and the most that it may be, by the regions of demand and delay.
    region: [u32; 2],
    /// Its throughput [1/s], and the most of all numbers that were asked about.
    throughput: f64,
    most: f64,
    /// Utilisation of the queue with it.
    busy: f64,
}

/// Throughput [1/s] with 1, 2, ... `most` connections of a demand and a delay \[s\].
fn curve(demand: f64, delay: f64, servers: u32, most: u32) -> Option<Vec<f64>> {
    let stations = [Station::multi(demand, servers).ok()?, Station::delay(delay.max(0.0)).ok()?];
    Some(ClosedNetwork::new(most, 0.0, &stations).ok()?.throughputs())
}

/// The smallest number whose throughput is [enough](ENOUGH) of the most.
fn smallest(curve: &[f64]) -> u32 {
    let most = curve.iter().copied().fold(0.0, f64::max);
    curve.iter().position(|&x| x >= ENOUGH * most).map_or(1, |at| at as u32 + 1)
}

/// `None` where the calibration has not the two numbers of the fit.
fn best(calibration: &Calibration, servers: u32, most: u32) -> Option<Best> {
    let of = |name: &str| calibration.parameters.get(name);
    let (demand, delay) = (of("demand")?, of("delay")?);
    let all = curve(demand.value, delay.value, servers, most)?;
    let connections = smallest(&all);
    // The more of a cycle is a delay, the more connections it takes.
    let at = |demand, delay| Some(smallest(&curve(demand, delay, servers, most)?));
    let region =
        [at(demand.interval[1], delay.interval[0])?, at(demand.interval[0], delay.interval[1])?];
    let throughput = all[connections as usize - 1];
    Some(Best {
        connections,
        region: [region[0].min(connections), region[1].max(connections)],
        throughput,
        most: all.iter().copied().fold(0.0, f64::max),
        busy: (throughput * demand.value / f64::from(servers)).min(1.0),
    })
}

/// Numbers at which the prediction is checked: the nearest on both sides that the fit has not seen,
/// the best one itself before any other.
fn unseen(best: u32, fitted: &[u32], most: u32) -> Vec<u32> {
    let new = |n: &u32| !fitted.contains(n);
    let mut numbers: Vec<u32> = (1..=best).rev().find(new).into_iter().collect();
    numbers.extend((best + 1..=most).find(new));
    numbers
}

/// The fitted number that is pressed once more at the end: the nearest to the best.
fn to_repeat(best: u32, fitted: impl Iterator<Item = u32>) -> u32 {
    fitted.min_by_key(|n| n.abs_diff(best)).unwrap_or(best)
}

/// Result of a check on a machine that drifted by this share of its throughput meanwhile: what was
/// fitted is not the machine that was checked.
fn judged(right: Right, drift: Option<f64>) -> Right {
    match drift {
        Some(drift) if drift.abs() <= DRIFT_MOST => right,
        _ => Right::CannotTell,
    }
}

/// That others use the processors too, if they were busier than so few connections can keep them.
fn others(connections: u32, cores: u32, busy: f64) -> Option<String> {
    let used = busy * f64::from(cores);
    let can = f64::from(connections) + BESIDES;
    (can < f64::from(cores) && used > can).then(|| {
        let s = if connections == 1 { "" } else { "s" };
        format!(
            "With {connections} connection{s} {used:.1} processors were busy: other programs use this \
             machine, and what they take looks like demand."
        )
    })
}

/// Queue that a load waits for, as far as that can be told.
fn why(best: &Best, cores: u32, busy: Option<f64>, retries: f64) -> String {
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let model = format!(
        "With {} connections the queue of the model is {} busy; with more they wait for it.",
        best.connections,
        share(best.busy)
    );
    let witness = match busy {
        Some(busy) if busy >= SATURATED => format!(
            "It is the {cores} processors, which server and terminals share: the machine counted them \
             {} busy at the highest load.",
            share(busy)
        ),
        Some(busy) => format!(
            "It is NOT the processors: the machine counted them only {} busy at the highest load. What \
             queues is something that these numbers do not name: the flush of the log at each commit, \
             or locks.",
            share(busy)
        ),
        None => "Whether it is the processors the machine does not tell.".into(),
    };
    let conflicts = match retries {
        retries if retries >= 1.0 => format!(
            " At the highest load {retries:.0} of 100 transactions were repeated after a conflict, \
             which is work that the model takes as part of each."
        ),
        _ => String::new(),
    };
    format!("{model} {witness}{conflicts}")
}

/// Why it is not known how many connections are best.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unknown {
    /// A run is invalid.
    Invalid,
    /// The region of the knee has no end: where it begins.
    Knee(f64),
}

impl Unknown {
    fn text(self) -> String {
        match self {
            Unknown::Invalid => "nothing is recommended, for a run is invalid".into(),
            Unknown::Knee(low) => format!(
                "how many connections are best is not known: the knee lies anywhere from {low:.1} \
                 connections on"
            ),
        }
    }
}

fn unknown(is_invalid: bool, calibration: &Calibration) -> Option<Unknown> {
    if is_invalid {
        return Some(Unknown::Invalid);
    }
    if let Some(least) = calibration.parameters.get("knee-least") {
        return Some(Unknown::Knee(least.value));
    }
    let knee = calibration.parameters.get("knee")?;
    (!fit::is_known(knee, calibration.clients[1].into())).then_some(Unknown::Knee(knee.interval[0]))
}

/// Findings of the loop so far.
struct Demo {
    runs: Vec<Pressed>,
    fit: SourceFit,
    /// Of the queue of the model.
    servers: u32,
    cores: u32,
    best: Best,
    unseen: Vec<u32>,
    prediction: Prediction,
    prediction_path: PathBuf,
    scenario_path: PathBuf,
    checked: Vec<Pressed>,
    scores: Vec<Score>,
    /// A fitted number once more, last of all: whether the machine is still what was fitted.
    again: Option<Pressed>,
}

impl Demo {
    /// Asks about what the fitted runs never saw, before it is measured.
    fn new(
        runs: Vec<Pressed>,
        (fit, servers): (SourceFit, u32),
        fitted: Vec<u32>,
        cores: u32,
        args: &Args,
    ) -> Result<Demo, Failure> {
        let found = fit.scenario.calibration.as_ref().and_then(|of| {
            // Where the throughput falls, only what comes before that was fitted.
            let [_, most] = of.clients;
            Some((best(of, servers, most)?, most))
        });
        let (best, most) = found.ok_or_else(|| Failure::Defect("the fit has no demand".into()))?;
        let unseen = unseen(best.connections, &fitted, most);
        let mut clients = [fitted, unseen.clone(), vec![best.connections]].concat();
        clients.sort_unstable();
        clients.dedup();
        let question = Question { clients, ..Question::default() };
        let mut prediction = ask::predict(fit.scenario.clone(), &question, args.seed)?;
        let (id, path) = store::claimed("predictions", &prediction.id, "json")?;
        prediction.id = id;
        ask::store_prediction(&path, &prediction)?;
        let scenario_path = fit::keep_scenario(&fit.scenario, &prediction.id)?;
        Ok(Demo {
            runs,
            fit,
            servers,
            cores,
            best,
            unseen,
            prediction,
            prediction_path: path,
            scenario_path,
            checked: Vec::new(),
            scores: Vec::new(),
            again: None,
        })
    }

    fn check(&mut self, pressed: Pressed) -> Result<(), Failure> {
        let point = advise::point_for(&self.prediction, &pressed.run, None)
            .ok_or_else(|| Failure::Defect("the demo did not ask about its own check".into()))?;
        let options = Options { seed: self.prediction.seed, ..quick() };
        let scenario = &self.prediction.scenario;
        let score = advise::score(scenario, point, &pressed.run, Tolerance::default(), &options)
            .map_err(Failure::machine)?;
        self.scores.push(score);
        self.checked.push(pressed);
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Pressed> {
        self.runs.iter().chain(&self.checked).chain(&self.again)
    }

    fn repeated(&self) -> u32 {
        to_repeat(self.best.connections, self.runs.iter().map(Pressed::connections))
    }

    /// The throughput of the repeated number, as a share of what it was at first, less one.
    fn drift(&self) -> Option<f64> {
        let again = self.again.as_ref()?;
        let first = self.runs.iter().find(|run| run.connections() == again.connections())?;
        Some(again.throughput() / first.throughput() - 1.0)
    }

    /// All runs by their connections, and what each was for.
    fn sorted(&self) -> Vec<(&Pressed, &'static str)> {
        let fitted = self.runs.iter().map(|run| (run, "fitted"));
        let mut all: Vec<_> =
            fitted.chain(self.checked.iter().map(|run| (run, "checked"))).collect();
        all.extend(self.again.iter().map(|run| (run, "again")));
        all.sort_by_key(|(run, _)| run.connections());
        all
    }

    fn verdict(&self) -> Verdict {
        let right = self.scores.iter().map(Score::right).max().unwrap_or(Right::CannotTell);
        let found = verdict_of(judged(right, self.drift()));
        match self.unknown() {
            Some(Unknown::Invalid) => Verdict::Invalid,
            Some(Unknown::Knee(_)) => found.and(Verdict::Inconclusive),
            None => found,
        }
    }

    /// Why no number of connections is recommended, if none is.
    fn unknown(&self) -> Option<Unknown> {
        let invalid = self.all().any(|run| run.invalid.is_some());
        unknown(invalid, self.fit.scenario.calibration.as_ref()?)
    }

    fn headline(&self) -> String {
        self.best_known() + &self.prediction.approximation().of_formula()
    }

    fn best_known(&self) -> String {
        let Best { connections, region: [low, high], throughput, most, .. } = self.best;
        if let Some(unknown) = self.unknown() {
            return format!("{}; {}", unknown.text(), self.found());
        }
        format!(
            "{connections} connections ({low} to {high}) are best: {throughput:.0} transactions/s, \
             {:.0} % of what any number brings; {}",
            throughput / most * 100.0,
            self.found()
        )
    }

    /// Finding of the check, in words.
    fn found(&self) -> String {
        let unseen: Vec<String> = self.unseen.iter().map(ToString::to_string).collect();
        if unseen.is_empty() {
            return "nothing was checked, for up to where the throughput falls each number was fitted: \
                    leave some out of `--connections`"
                .into();
        }
        let rows = self.scores.iter().flat_map(|score| &score.rows);
        let counted =
            rows.filter(|row| matches!(row.quantity, Quantity::Throughput | Quantity::Response));
        let worst = counted
            .map(advise::Row::error)
            .max_by(|a, b| a.abs().total_cmp(&b.abs()))
            .unwrap_or(0.0);
        format!(
            "at {}, which the fit never saw, throughput and mean response were at worst {} off",
            unseen.join(" and "),
            percent(worst)
        )
    }

    fn why(&self) -> String {
        if let Some(Unknown::Invalid) = self.unknown() {
            return "A run is invalid: the numbers below say nothing of the database.".into();
        }
        let last = self.runs.last();
        let busy = last.and_then(|run| run.kept.record.machine_busy());
        let mut text = why(&self.best, self.cores, busy, last.map_or(0.0, Pressed::retries));
        if let Some(first) = self.runs.first()
            && let Some(busy) = first.kept.record.machine_busy()
            && let Some(others) = others(first.connections(), self.cores, busy)
        {
            text += &format!(" {others}");
        }
        if self.servers < self.cores {
            text += &format!(" {}", self.slowed());
        }
        if let Some(drift) = self.drift() {
            text += &format!(" {}", self.drifted(drift));
        }
        let each = |run: Option<&Pressed>| run.and_then(|run| run.processors_each(self.cores));
        if let (Some(one), Some(more)) = (each(self.runs.first()), each(last)) {
            text += &format!(
                " A transaction cost {} of processor time at the lowest load and {} at the highest, as \
                 the machine counted.",
                time(one),
                time(more)
            );
        }
        text
    }

    /// Meaning of fewer servers than processors.
    fn slowed(&self) -> String {
        let Demo { servers, cores, .. } = self;
        let s = if *servers == 1 { "" } else { "s" };
        format!(
            "The throughputs are those of a queue with {servers} server{s}, not of {cores} processors: \
             they slow each other when they work at once, or wait for something there is less of, as \
             the flush of the log."
        )
    }

    /// Finding of a repeated run about the machine.
    fn drifted(&self, drift: f64) -> String {
        let repeated = self.repeated();
        let s = if repeated == 1 { "" } else { "s" };
        let after = match drift.abs() <= DRIFT_MOST {
            true => "the machine kept its speed.",
            false => {
                "the machine has not kept its speed, so the check tells nothing. Run it again when \
                 nothing else uses the machine."
            }
        };
        format!(
            "{repeated} connection{s} once more, at the end, did {} against the first time: {after}",
            percent(drift)
        )
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new(&["connections", "", "done", "X", "mean R", "repeated", "processors busy"]);
        for (run, what) in self.sorted() {
            let busy = run.kept.record.machine_busy();
            table.row(vec![
                run.connections().to_string(),
                what.into(),
                run.judgement.all.completed.to_string(),
                rate(run.throughput()),
                run.judgement.all.response.map_or("-".into(), |response| time(response.mean)),
                format!("{:.1} %", run.retries()),
                busy.map_or("-".into(), |busy| format!("{:.0} %", busy * 100.0)),
            ]);
        }
        table
    }

    fn section(&self) -> Result<Section, Failure> {
        let columns = [
            Column::plain("connections"),
            Column::plain("used"),
            Column::plain("transactions"),
            Column::new("throughput", "1/s"),
            Column::new("repeated", "of 100"),
            Column::new("processors busy", "%"),
            Column::new("processor time each", "ms"),
        ];
        let mut table = ReportTable::new("Every run, as the machine saw it", columns);
        for (run, what) in self.sorted() {
            let number = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Number);
            let busy = run.kept.record.machine_busy();
            let row = [
                Cell::Number(run.connections().into()),
                Cell::from(what),
                Cell::Number(run.judgement.all.completed as f64),
                Cell::Number(run.throughput()),
                Cell::Number(run.retries()),
                number(busy.map(|busy| busy * 100.0)),
                number(run.processors_each(self.cores).map(|each| each * 1e3)),
            ];
            table = table.row(row).map_err(Failure::defect)?;
        }
        let columns = ["parameter", "value", "95 % region"].map(Column::plain);
        let mut fitted = ReportTable::new("The fitted numbers", columns);
        let calibration = self.fit.scenario.calibration.iter();
        for (name, parameter) in calibration.flat_map(|of| &of.parameters) {
            let calibration = self.fit.scenario.calibration.as_ref();
            let [value, region] = fit::value_and_region(name, parameter, calibration);
            let row = [name.clone(), value, region].map(Cell::Text);
            fitted = fitted.row(row).map_err(Failure::defect)?;
        }
        let mut section = Section::new("How many connections, and why")
            .paragraph(self.why())
            .table(table)
            .table(fitted);
        for note in &self.fit.notes {
            section = section.paragraph(format!("Note: {note}."));
        }
        Ok(section)
    }

    fn finish(&self, args: &Args, version: &str, out: &mut dyn Write) -> Result<Verdict, Failure> {
        let verdict = self.verdict();
        let runs: Vec<RunRecord> = self.all().map(|pressed| pressed.run.clone()).collect();
        let page = loop_report::page(&loop_report::Story {
            title: "Sekisho demo: how many connections PostgreSQL is best used with",
            verdict,
            line: self.headline(),
            judged: loop_report::judged(&runs),
            runs: &runs,
            knees: &[],
            fit: None,
            prediction: Some(&self.prediction),
            scenario: Some(&self.scenario_path),
            scores: &self.scores,
            notes: &[NOT_AUDITED.to_owned()],
            held: &[],
            answer: &loop_report::of_prediction(&self.prediction),
            more: vec![self.section()?],
        })?;
        page.write(&args.report).map_err(Failure::machine)?;
        let known = self.unknown().is_none();
        if args.json {
            let answer = DemonstratedPostgres {
                approximate: self.prediction.approximation().approximate,
                error: self.prediction.approximation().error,
                postgres: version,
                seed: args.seed,
                connections_best: known.then_some(self.best.connections),
                connections_region: known.then_some(self.best.region),
                throughput_best_per_s: known.then_some(self.best.throughput),
                drift: self.drift(),
                why: self.why(),
                scores: scores(&self.scores),
                prediction_file: &self.prediction_path,
                scenario_file: &self.scenario_path,
                report: &args.report,
            };
            say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
            return Ok(verdict);
        }
        say(out, &self.text(verdict))?;
        let seed = args.seed;
        say(out, &paragraph(&format!("A private PostgreSQL {version}. Seed {seed}.")))?;
        say(
            out,
            &format!(
                "\n  prediction: {}\n  scenario: {}\n  report: {}\n  \
                 next: {}\n",
                self.prediction_path.display(),
                self.scenario_path.display(),
                std::path::absolute(&args.report)?.display(),
                match known {
                    true => {
                        let best = self.best.connections;
                        // Without a database of somebody's it works on a private one, as this did.
                        format!("sekisho tpcc stress --connections {best}")
                    }
                    false => "sekisho demo postgres --measure 30s".to_owned(),
                }
            ),
        )?;
        Ok(verdict)
    }

    fn text(&self, verdict: Verdict) -> String {
        let mut text = sentence(&format!("{}: {}", verdict.word(), self.headline()));
        text += &format!("\n{}\n{}", self.table(), paragraph(&self.why()));
        text += &paragraph(NOT_AUDITED);
        text += &format!("\n1. measured and fitted\n\n{}", fit::source_text(&self.fit));
        let asked = ask::prediction_text(&self.prediction);
        text += &format!("\n2. asked, before it was measured\n\n{asked}\n3. checked\n");
        for score in &self.scores {
            let right = verdict_of(score.right());
            text += &format!("\n  {}: {}\n", right.word(), point_text(score.load, score.slots));
            text += &score_text(score);
        }
        for run in self.all() {
            if let Some(why) = &run.invalid {
                text += &paragraph(&format!("invalid: run {}: {why}", run.kept.id));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use advise::Parameter;

    use super::*;

    /// A fit with these demands and delays \[s\]: value, least, most.
    fn calibration(demand: [f64; 3], delay: [f64; 3]) -> Calibration {
        let parameter = |[value, low, high]: [f64; 3]| Parameter {
            value,
            interval: [low, high],
            confidence: 0.95,
            unit: "s".into(),
        };
        Calibration {
            date: String::new(),
            runs: Vec::new(),
            clients: [1, 16],
            throughput_max: "100/s".parse().unwrap(),
            parameters: BTreeMap::from([
                ("demand".into(), parameter(demand)),
                ("delay".into(), parameter(delay)),
            ]),
            unidentified: Vec::new(),
        }
    }

    #[test]
    fn without_a_delay_as_many_connections_as_processors_are_enough() {
        let exact = calibration([2e-3; 3], [0.0; 3]);
        let best = best(&exact, 2, 16).unwrap();
        assert_eq!((best.connections, best.region), (2, [2, 2]));
        assert!((best.throughput - 1000.0).abs() < 1e-6 && (best.busy - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_delay_asks_for_more_and_an_uncertain_one_for_a_wider_region() {
        // X(N) of M/M/2 sharing with a delay of twice the demand: the asymptotes meet at 6.
        let exact = best(&calibration([2e-3; 3], [4e-3; 3]), 2, 16).unwrap();
        assert!((6..=9).contains(&exact.connections), "{exact:?}");
        assert!(exact.throughput >= ENOUGH * exact.most, "{exact:?}");
        let all = curve(2e-3, 4e-3, 2, 16).unwrap();
        assert!(all[exact.connections as usize - 2] < ENOUGH * exact.most, "one less is enough");
        let rough = best(&calibration([2e-3, 1.8e-3, 2.2e-3], [4e-3, 2e-3, 6e-3]), 2, 16).unwrap();
        let [low, high] = rough.region;
        assert!(low < exact.connections && exact.connections < high, "{rough:?}");
    }

    /// An invalid result recommended a number, and a knee of 2 to 398,775 clients was given as known.
    #[test]
    fn nothing_is_recommended_of_invalid_runs_or_of_a_knee_without_an_end() {
        let mut calibration = calibration([2e-3; 3], [1e-3; 3]);
        let mut knee = |interval: [f64; 2]| {
            let unit = "clients".into();
            let parameter = Parameter { value: 2.3, interval, confidence: 0.95, unit };
            calibration.parameters.insert("knee".into(), parameter);
            (unknown(false, &calibration), unknown(true, &calibration))
        };
        assert_eq!(knee([2.1, 2.6]), (None, Some(Unknown::Invalid)));
        assert_eq!(knee([2.1, 32.0]).0, None, "twice of 16 that were measured");
        let (endless, _) = knee([2.1, 398_775.0]);
        assert_eq!(endless, Some(Unknown::Knee(2.1)));
        let text = endless.unwrap().text();
        assert!(text.contains("not known") && !text.contains("398"), "{text}");
        assert!(Unknown::Invalid.text().contains("nothing is recommended"));
        let parameter = calibration.parameters["knee"].clone();
        let shown = fit::value_and_region("knee", &parameter, Some(&calibration));
        assert_eq!(shown, ["not known", "from 2.1 clients on"]);
        // A fit says no more than where such a region begins.
        let least = Parameter { value: 2.1, interval: [2.1, 2.1], ..parameter };
        let shown = fit::value_and_region("knee-least", &least, Some(&calibration));
        assert_eq!(shown, ["not known", "from 2.1 clients on"]);
        calibration.parameters.remove("knee");
        calibration.parameters.insert("knee-least".into(), least);
        assert_eq!(unknown(false, &calibration), Some(Unknown::Knee(2.1)));
    }

    #[test]
    fn the_check_is_where_the_fit_has_not_been() {
        let fitted = [1, 2, 4, 8, 16];
        assert_eq!(unseen(3, &fitted, 16), [3, 5]);
        assert_eq!(unseen(4, &fitted, 16), [3, 5]);
        assert_eq!(unseen(4, &fitted, 4), [3], "beyond its calibration a fit is not checked");
        assert_eq!(unseen(2, &fitted, 16), [3]);
        assert!(unseen(2, &[1, 2, 4], 2).is_empty(), "each up to the peak was fitted");
        assert_eq!(unseen(16, &fitted, 16), [15]);
        assert!(to_fit(&[1, 2, 3], 2).is_err() && to_fit(&[1, 8], 2).is_err());
        assert_eq!(to_fit(&[8, 2, 2, 1], 2).unwrap(), [1, 2, 8]);
    }

    #[test]
    fn a_machine_that_changes_its_speed_leaves_nothing_to_judge() {
        assert_eq!(to_repeat(3, [1, 2, 4, 8].into_iter()), 2);
        assert_eq!(to_repeat(7, [1, 2, 4, 8].into_iter()), 8);
        for right in [Right::Yes, Right::No] {
            assert_eq!(judged(right, Some(-0.09)), right);
            assert_eq!(judged(right, Some(-0.24)), Right::CannotTell, "slower meanwhile");
            assert_eq!(judged(right, Some(0.11)), Right::CannotTell, "faster meanwhile");
            assert_eq!(judged(right, None), Right::CannotTell, "nobody looked");
        }
    }

    #[test]
    fn what_is_fitted_grows_with_the_machine() {
        assert_eq!(to_fit(&[], 1).unwrap(), [1, 2, 4, 6, 8]);
        assert_eq!(to_fit(&[], 2).unwrap(), [1, 2, 4, 6, 8]);
        assert_eq!(to_fit(&[], 8).unwrap(), [1, 4, 8, 16, 24, 32]);
        assert_eq!(to_fit(&[], 64).unwrap(), [1, 32, 64, 90]);
    }

    #[test]
    fn others_on_the_machine_are_noticed_where_few_connections_could_not_be_it() {
        assert_eq!(others(1, 2, 0.6), None);
        assert!(others(1, 2, 0.9).is_some_and(|text| text.contains("1.8 processors were busy")));
        assert_eq!(others(2, 2, 1.0), None, "two connections may do that by themselves");
    }

    #[test]
    fn the_processors_are_named_only_if_the_machine_saw_them_busy() {
        let best = best(&calibration([2e-3; 3], [1e-3; 3]), 2, 16).unwrap();
        assert!(why(&best, 2, Some(0.97), 0.0).contains("It is the 2 processors"));
        let idle = why(&best, 2, Some(0.4), 30.0);
        assert!(idle.contains("NOT the processors") && idle.contains("30 of 100"), "{idle}");
        assert!(why(&best, 2, None, 0.0).contains("does not tell"));
    }
}
