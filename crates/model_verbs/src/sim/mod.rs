//! `sekisho sim`: a scenario simulated until its answers are precise, or many that differ in parameters; or
//! the load of a recorded gate at other gates.

pub(crate) mod answer;
mod numbers;
mod recorded;
mod stations;
mod sweep;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use advise::Scenario;
use clap::{Args as ClapArgs, ValueEnum};
use cli::text::{
    Table, bytes, count, label, next, paragraph, percent_estimate, plus_minus, quantile_estimate,
    rate, rate_estimate, shell_word, time, time_estimate,
};
use cli::{Failure, Session, Verdict, say, store, turning};
use formats::exchange::{is_recording, read_scenario};
use gate::{WORTH, Why};
use measure::Estimate;
use sim::{ClassOutcome, GateOutcome, Options, Outcome, Plan, SizeRange, Stop};

use self::answer::{Files, Simulated};

/// Simulate a scenario, or a recorded gate with other slots and policies
///
/// Independent replications, or one long run in batches, go on until the mean response of every class is
/// precise, or the budget of requests is used up. The same seed gives the same numbers on any number of threads.
///
/// Of a recording (`gate http --record FILE`) the same jobs come at the same moments and hold their slots for
/// as long as they did, at each gate that the flags below name: first at the recorded one, then with each
/// value, several combined. All else is as it was recorded.
#[derive(ClapArgs)]
#[command(after_help = "\
Examples:
  sekisho sim studies/ohmae/software-bottleneck.toml --precision 5%
  sekisho sim studies/ohmae/software-bottleneck.toml --plan one-run
  sekisho sim studies/slots/thrashing.toml --replications 4
  sekisho sim scenario.toml --sweep 'gate.pool.slots=1..4' --csv sweep.csv
  sekisho sim gate.rec --slots 4,16 --discipline fifo --discipline shortest-job")]
pub struct Args {
    /// The scenario, or a gate's recording
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The seed of all chance; left out, the scenario's, or 1
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// What the intervals rest on
    #[arg(long, value_enum, default_value_t = Basis::Replications)]
    plan: Basis,
    /// Number of replications; left out, 10
    #[arg(long, value_name = "N")]
    replications: Option<u32>,
    /// Stop when the 95 % intervals of the mean responses are within this share of them
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    precision: f64,
    /// Most threads that may run replications; left out, one a processor
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Stop at the latest after about so many requests
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    max_requests: u64,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Simulate every value of a parameter: 'gate.pool.slots=1..10' (from 1 to 10, both included),
    /// 'station.cpu.demand.mean=5ms,10ms'; several are combined
    #[arg(long, value_name = "PATH=VALUES", value_parser = sweep::Axis::parse)]
    sweep: Vec<sweep::Axis>,
    /// Write every number with its interval to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The same as a Parquet file; needs a build with the feature `parquet`
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    other: recorded::OtherGates,
}

/// What the intervals rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Basis {
    /// Independent runs, each with a warm-up of its own; several at a time
    Replications,
    /// One long run with one warm-up, cut into batches until neighbours are not correlated
    OneRun,
}

impl Args {
    fn plan(&self) -> Result<Plan, Failure> {
        match (self.plan, self.replications) {
            (Basis::Replications, n) => Ok(Plan::Replications(n.unwrap_or(10))),
            (Basis::OneRun, None) => Ok(Plan::OneRun),
            (Basis::OneRun, Some(n)) => Err(Failure::Usage(format!(
                "`--plan one-run` has no replications; leave out `--replications {n}`, or `--plan`"
            ))),
        }
    }

    /// Writes the files that were asked for.
    fn write(&self, numbers: &numbers::Numbers) -> Result<(), Failure> {
        if let Some(path) = &self.csv {
            store::write_whole(path, numbers.csv())?;
        }
        #[cfg(feature = "parquet")]
        if let Some(path) = &self.parquet {
            store::write_whole(path, numbers.parquet()?)?;
        }
        Ok(())
    }

    /// Files that numbers are written to.
    fn files(&self) -> Files<'_> {
        Files { csv: self.csv.as_deref(), parquet: self.parquet.as_deref() }
    }

    /// Refuses what is of scenarios only.
    fn check_recorded(&self) -> Result<(), Failure> {
        let flags = [
            ("--plan one-run", self.plan != Basis::Replications),
            ("--replications", self.replications.is_some()),
            ("--sweep", !self.sweep.is_empty()),
            ("--csv", self.csv.is_some()),
            ("--parquet", self.parquet.is_some()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::Usage(format!(
                "`{flag}` goes with a scenario, and {} is a gate's recording; leave it out, and say which \
                 gates you want: `--slots 4,16`",
                self.scenario.display()
            ))),
        }
    }

    /// Refuses before the work what this build cannot write after it.
    fn check(&self) -> Result<(), Failure> {
        if cfg!(feature = "parquet") || self.parquet.is_none() {
            return Ok(());
        }
        Err(Failure::Usage(
            "this build writes no Parquet files; use `--csv`, or build it with \
             `cargo install --path crates/sekisho --features parquet`"
                .to_owned(),
        ))
    }
}

/// A share written in percent.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number.filter(|percent| *percent > 0.0 && *percent <= 100.0) {
        Some(percent) => Ok(percent / 100.0),
        None => Err("it must be a share above 0 % such as 2%".into()),
    }
}

/// Simulates a scenario, or the load of a recorded gate.
///
/// # Errors
/// The scenario or an argument is wrong, or a file cannot be written.
pub fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    if is_recording(&args.scenario) {
        args.check_recorded()?;
        return recorded::run(args, session, out);
    }
    if let Some(flag) = args.other.first_flag() {
        return Err(Failure::Usage(format!(
            "`{flag}` goes with a gate's recording, and {} is none; in a scenario, change the gate, or \
             sweep over it: `--sweep 'gate.pool.slots=1..4'`",
            args.scenario.display()
        )));
    }
    args.check()?;
    let scenario = read_scenario(&args.scenario)?;
    let failed = |error: String| Failure::Usage(format!("{}: {error}", args.scenario.display()));
    let network = scenario.network().map_err(|error| failed(error.to_string()))?;
    let options = Options {
        seed: args.seed.or(scenario.seed).unwrap_or(1),
        plan: args.plan()?,
        precision: args.precision,
        threads: args.threads,
        completions_max: args.max_requests,
        ..Options::default()
    };
    if !args.sweep.is_empty() {
        return sweep::run(args, &scenario, &options, out);
    }
    let outcome = turning("simulating", || sim::run(&network, &options));
    let outcome = outcome.map_err(|error| failed(error.to_string()))?;
    let verdict = match outcome.stop {
        Stop::Precise | Stop::Agenda => Verdict::Holds,
        Stop::Budget => Verdict::Inconclusive,
    };
    args.write(&numbers::Numbers::of(&outcome))?;
    if args.json {
        let answer = Simulated::new(&scenario, &outcome, args.precision, args.files());
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        say(out, &text(&scenario, &outcome, args))?;
    }
    Ok(verdict)
}

fn text(scenario: &Scenario, outcome: &Outcome, args: &Args) -> String {
    let mut text = format!("{}\n\n", headline(outcome));
    text += &classes(outcome);
    for class in outcome.classes.iter().filter(|class| !class.sizes.is_empty()) {
        // Writing to a string does not fail.
        write!(text, "\n{}", sizes(class)).ok();
    }
    if !outcome.gates.is_empty() {
        write!(text, "\n{}", gates(&outcome.gates)).ok();
    }
    write!(text, "\n{}\n", stations::table(&outcome.stations)).ok();
    // One interval is the whole, which the tables above show.
    if outcome.intervals.len() > 1 {
        writeln!(text, "{}", intervals(outcome)).ok();
    }
    text += &paragraph(&why(outcome, args));
    for class in &outcome.classes {
        text += &failures(class);
    }
    for cache in &outcome.caches {
        if let Some(ratio) = &cache.hit_ratio {
            let ratio = percent(ratio, 1.0);
            text +=
                &paragraph(&format!("Cache `{}` had the key in {ratio} of lookups.", cache.name));
        }
    }
    for gate in &outcome.gates {
        text += &refusals(gate);
        text += &controlled(gate);
    }
    let path = shell_word(&args.scenario);
    let command = match advise::formula(scenario) {
        Ok(_) => format!("sekisho solve {path}"),
        Err(_) => format!("sekisho sim {path} --seed {}", outcome.seed.wrapping_add(1)),
    };
    text + "\n" + &next(&command)
}

fn headline(outcome: &Outcome) -> String {
    let done = match outcome.stop {
        Stop::Precise | Stop::Agenda => "simulated",
        Stop::Budget if outcome.unsettled.is_some() => "inconclusive, no steady state so far",
        Stop::Budget => "inconclusive, not precise",
    };
    match &*outcome.classes {
        [class] => match &class.response {
            Some(response) => format!(
                "{done}: {} at a mean response of {}",
                rate(class.throughput.mean),
                time(response.mean)
            ),
            None => format!("{done}: nothing was completed"),
        },
        classes => {
            let throughput: f64 = classes.iter().map(|class| class.throughput.mean).sum();
            format!("{done}: {} in {} classes", rate(throughput), classes.len())
        }
    }
}

fn classes(outcome: &Outcome) -> String {
    let mut table = Table::new(&["class", "throughput", "mean response", "refused"]);
    for class in &outcome.classes {
        let refused =
            if class.refused.mean > 0.0 { rate_estimate(&class.refused) } else { "-".into() };
        let response = time_or_dash(class.response.as_ref());
        table.row(vec![label(&class.name), rate_estimate(&class.throughput), response, refused]);
    }
    let mut quantiles = Table::new(&["response of", "p50", "p95", "p99"]);
    for class in &outcome.classes {
        let mut row = vec![label(&class.name)];
        row.extend([0.5, 0.95, 0.99].map(|q| quantile_or_dash(quantile(&class.quantiles, q))));
        quantiles.row(row);
    }
    format!("{table}\n{quantiles}")
}

fn quantile(quantiles: &[(f64, Estimate)], q: f64) -> Option<&Estimate> {
    quantiles.iter().find(|(at, _)| *at == q).map(|(_, value)| value)
}

fn sizes(class: &ClassOutcome) -> Table {
    let mut table = Table::new(&["size", "completed", "mean response", "p99"]);
    // Of a size that came in one replication only there is no interval, and so no number.
    for size in class.sizes.iter().filter(|size| size.response.is_some()) {
        table.row(vec![
            range(&size.range),
            size.completed.to_string(),
            time_or_dash(size.response.as_ref()),
            quantile_or_dash(quantile(&size.quantiles, 0.99)),
        ]);
    }
    table
}

fn range(range: &SizeRange) -> String {
    match range {
        SizeRange::Document { name, .. } => label(name),
        SizeRange::PowerOfTwo(low) => format!("from {}", bytes(*low as u64)),
    }
}

fn gates(gates: &[GateOutcome]) -> Table {
    let mut table = Table::new(&["gate", "wait", "hold", "slots held", "waiting"]);
    for gate in gates {
        table.row(vec![
            label(&gate.name),
            time_or_dash(gate.wait.as_ref()),
            time_or_dash(gate.hold.as_ref()),
            match gate.slots_change {
                false => percent(&gate.busy, f64::from(gate.slots)),
                true => jobs(&gate.busy),
            },
            jobs(&gate.waiting),
        ]);
    }
    table
}

/// Table of each class in each interval of the agenda.
fn intervals(outcome: &Outcome) -> Table {
    let mut table = Table::new(&["from", "class", "offered", "completed", "mean response"]);
    for interval in &outcome.intervals {
        for (class, of) in outcome.classes.iter().zip(&interval.classes) {
            table.row(vec![
                time(interval.from_s),
                label(&class.name),
                rate_estimate(&of.offered),
                rate_estimate(&of.throughput),
                time_or_dash(of.response.as_ref()),
            ]);
        }
    }
    table
}

/// Why attempts of a class failed, beyond what gates refused.
fn failures(class: &ClassOutcome) -> String {
    let ways = [
        (&class.lost, "were lost at full stations"),
        (&class.reneged, "left a gate for want of patience"),
        (&class.timed_out, "timed out"),
    ];
    let ways = ways.iter().filter(|(rate, _)| rate.mean > 0.0);
    let ways: Vec<String> =
        ways.map(|(rate, what)| format!("{} {what}", rate_estimate(rate))).collect();
    if ways.is_empty() {
        return String::new();
    }
    paragraph(&format!(
        "Class `{}`: of {} attempts, {}; {} of requests were given up.",
        class.name,
        rate_estimate(&class.offered),
        ways.join(", "),
        rate_estimate(&class.gave_up)
    ))
}

fn why(outcome: &Outcome, args: &Args) -> String {
    let stop = match outcome.stop {
        Stop::Precise => format!(
            "every mean response is precise within {} %",
            significant(args.precision * 100.0)
        ),
        Stop::Budget if outcome.unsettled.is_some() => format!(
            "the budget of {} requests was used up before there was a steady state, so that the numbers \
             are of this stretch of time and say nothing of a long run ({}); raise --max-requests, or \
             lower the load",
            args.max_requests,
            outcome.unsettled.as_deref().unwrap_or_default()
        ),
        Stop::Budget if outcome.counted_s < outcome.counted_least_s => format!(
            "the budget of {} requests was used up when {} of virtual time were counted, and {} are needed \
             in which queues forget often enough how they were; raise --max-requests",
            args.max_requests,
            time(outcome.counted_s),
            time(outcome.counted_least_s)
        ),
        Stop::Budget => format!(
            "the budget of {} requests was used up before every mean response was precise within \
             {} %{}; raise --max-requests",
            args.max_requests,
            significant(args.precision * 100.0),
            if outcome.correlated {
                " and neighbouring batches uncorrelated: the intervals may be too narrow"
            } else {
                ""
            }
        ),
        Stop::Agenda => format!(
            "each lasts as long as the agenda says, {} of them counted, and no steady state is claimed",
            time(outcome.counted_s / f64::from(outcome.plan.runs()))
        ),
    };
    if outcome.stop == Stop::Agenda {
        return format!("{} {stop}.", seeded(outcome));
    }
    let warmup = if outcome.warmup_found {
        let of_each = match outcome.plan {
            Plan::Replications(_) => " of each replication",
            Plan::OneRun => "",
        };
        format!("{}{of_each} left out as warm-up", count(outcome.warmup_completions, "request"))
    } else {
        format!(
            "the end of the warm-up was not found within {} requests: the load may be too high for a \
             steady state",
            outcome.warmup_completions
        )
    };
    format!("{} {stop}; {warmup}.", seeded(outcome))
}

fn seeded(outcome: &Outcome) -> String {
    let throughput = &outcome.classes[0].throughput;
    let over = match outcome.plan {
        Plan::Replications(n) => format!("over {n} replications"),
        Plan::OneRun => format!("by {} batches of one run", throughput.n),
    };
    format!(
        "Intervals are of {} % confidence {over}, seed {}{};",
        significant(throughput.confidence * 100.0),
        outcome.seed,
        if unknown(outcome) { " (± ?: too short a run to say)" } else { "" }
    )
}

/// True if a quantile that is shown has no end of its interval.
fn unknown(outcome: &Outcome) -> bool {
    let shown = outcome.classes.iter().flat_map(|class| {
        let sizes = class.sizes.iter().filter_map(|size| quantile(&size.quantiles, 0.99));
        [0.5, 0.95, 0.99].into_iter().filter_map(|q| quantile(&class.quantiles, q)).chain(sizes)
    });
    shown.into_iter().any(|estimate| estimate.half_width.is_infinite())
}

/// The plan as a word.
fn plan_word(plan: Plan) -> &'static str {
    match plan {
        Plan::Replications(_) => "replications",
        Plan::OneRun => "one-run",
    }
}

fn refusals(gate: &GateOutcome) -> String {
    let mut text = String::new();
    for (share, why) in [
        (&gate.refused_full, "its queue was full"),
        (&gate.refused_deadline, "they waited too long"),
        (&gate.refused_unreachable, "no server was up"),
    ] {
        if share.mean > 0.0 {
            let share = percent(share, 1.0);
            text += &paragraph(&format!(
                "Gate `{}` refused {share} of its jobs because {why}.",
                gate.name
            ));
        }
    }
    text
}

/// Most changes of slots that are listed.
const CHANGES_LISTED: usize = 20;

/// Decisions of a gate's controller, if it has one.
fn controlled(gate: &GateOutcome) -> String {
    let judged = |why: &Why| matches!(why, Why::More(_) | Why::Fewer(_) | Why::Stays(_));
    let trials = gate.moves.iter().filter(|(_, made)| judged(&made.why)).count();
    let Some((_, last)) = gate.moves.iter().rfind(|(_, made)| judged(&made.why)) else {
        return String::new();
    };
    let changes: Vec<_> = (gate.moves.iter())
        .filter_map(|(at, made)| match made.why {
            Why::More(found) | Why::Fewer(found) => Some((at, found)),
            _ => None,
        })
        .collect();
    let mut table = Table::new(&["at", "from", "to", "elasticity, 95 %", "pairs"]);
    for (at, found) in changes.iter().take(CHANGES_LISTED) {
        let [low, high] = found.elasticity;
        table.row(vec![
            time(at.as_secs_f64()),
            found.from.to_string(),
            found.to.to_string(),
            format!("{low:+.2} to {high:+.2}"),
            found.pairs.to_string(),
        ]);
    }
    let more = match changes.len().saturating_sub(CHANGES_LISTED) {
        0 => String::new(),
        more => format!("; {more} later changes are not listed"),
    };
    let text = paragraph(&format!(
        "Gate `{}` began with {} slots and ended with {} in the first replication. Of {trials} trials, {} \
         changed them{more}. More are worth it where the elasticity of the throughput in the slots is \
         above {WORTH}.",
        gate.name,
        gate.slots,
        last.slots,
        changes.len()
    ));
    if changes.is_empty() { text } else { format!("{text}\n{table}") }
}

fn time_or_dash(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".into(), time_estimate)
}

fn quantile_or_dash(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".into(), quantile_estimate)
}

/// A part of a whole with its interval: `80.1 % ± 0.3`.
fn percent(part: &Estimate, whole: f64) -> String {
    let (mean, half_width) = (part.mean / whole, part.half_width / whole);
    percent_estimate(&Estimate { mean, half_width, ..*part }, 1)
}

/// A number of jobs with its interval: `3.2 ± 0.1`.
fn jobs(estimate: &Estimate) -> String {
    let places = if estimate.mean.abs() >= 100.0 { 0 } else { 2 };
    plus_minus(estimate, places)
}

/// Without zeros at the end.
fn significant(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
