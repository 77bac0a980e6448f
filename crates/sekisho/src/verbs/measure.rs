//! `sekisho measure http URL`: closed load, open load, or the search for the knee. What it prints of a
//! run, `measure postgres` prints too.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use advise::{Rate, Span};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use cli::text::{Table, bytes, label, next, paragraph, rate_estimate, sentence, time_estimate};
use cli::{Failure, Session, Verdict, progress, say, store};
use load::http::{Load, PlanSpec};
use measure::{Judgement, RunRecord, Until};
use workload::{Arrivals, Dist};

use super::check::{Expectation, expect};
use super::http_target::{TargetArgs, press};
use super::measure_postgres::PostgresArgs;

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Put load on an HTTP server
    ///
    /// A closed load (`--clients`) has so many clients that each wait for their answer; an open
    /// load (`--rate`) waits for nobody, and its response times count from the intended start.
    #[command(after_help = "\
Examples:
  sekisho measure http http://127.0.0.1:8080/ --clients 1,8,32 --duration 5s
  sekisho measure http http://127.0.0.1:8080/ --rate 1000/s --expect 'p99<50ms'
  sekisho measure http http://127.0.0.1:8080/ --knee 'p99<50ms'")]
    Http(Box<HttpArgs>),
    /// Put load on PostgreSQL with SQL of your own
    Postgres(Box<PostgresArgs>),
}

#[derive(ClapArgs)]
pub(super) struct HttpArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Closed load: numbers of clients, one run each
    #[arg(long, value_delimiter = ',', value_name = "N,...", conflicts_with_all = ["rate", "knee"])]
    clients: Vec<u32>,
    /// Mean think time of closed clients, exponential
    #[arg(long, value_name = "TIME", requires = "clients")]
    think: Option<Span>,
    /// Open load: arrivals per second
    #[arg(long, value_name = "RATE", conflicts_with = "knee")]
    rate: Option<Rate>,
    /// How open arrivals are spaced
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Spacing,
    /// Most requests in flight under open load; one more counts as failed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    in_flight: u32,
    /// Find the highest open load that holds a limit on a quantile
    #[arg(long, value_name = "LIMIT")]
    knee: Option<Expectation>,
    /// How long each run is measured, warm-up not counted
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "requests")]
    duration: Span,
    /// End each run after so many requests instead
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Length at the start of each run that is not used
    #[arg(long, value_name = "TIME", default_value = "1s")]
    warmup: Span,
    /// Hold every run against a limit, such as 'p99<50ms', 'errors<1%', 'rate>=900/s'
    #[arg(long, value_name = "LIMIT")]
    expect: Vec<Expectation>,
    /// Keep the record here rather than under .sekisho/runs/ (one run only)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write a row for each interval and class
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write an HdrHistogram interval log, classes as tags
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Print one JSON object a run instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Spacing {
    /// Exponential gaps
    Poisson,
    /// Equal gaps
    Fixed,
}

impl Spacing {
    /// Arrivals of this rate, spaced so.
    pub(super) fn at(self, rate: f64) -> Arrivals {
        match self {
            Spacing::Poisson => Arrivals::Poisson { rate },
            Spacing::Fixed => Arrivals::Fixed { rate },
        }
    }
}

/// Classes of a run, as a table names them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noun {
    Document,
    Script,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let args = match &args.what {
        What::Http(args) => args,
        What::Postgres(args) => return super::measure_postgres::run(args, session, out),
    };
    if args.knee.is_some() {
        return super::knee::run(args, session, out);
    }
    let loads = args.loads()?;
    if args.out.is_some() && loads.len() > 1 {
        return Err(Failure::Usage(
            "`--out` names one file, but several runs are asked for".into(),
        ));
    }
    let seconds = match args.requests {
        Some(_) => 0.0,
        None => (args.duration.0 + args.warmup.0) * loads.len() as f64,
    };
    let bar = progress((seconds * 10.0) as u64, "measuring");
    let mut verdict = Verdict::Holds;
    let mut kept = Vec::new();
    for load in loads {
        let spec = args.spec(load)?;
        let record = press(spec, session, &bar)?;
        let path = match &args.out {
            Some(path) => path.clone(),
            None => store::path("runs", &format!("{}.jsonl", record.header.id))?,
        };
        store::write_run(&path, &record)?;
        args.export(&record)?;
        verdict = verdict.and(show(&record, Noun::Document, &args.expect, args.json, out)?);
        kept.push(path);
        if session.interrupted() {
            verdict = Verdict::Interrupted;
            break;
        }
    }
    bar.finish_and_clear();
    if !args.json {
        say(out, &next_command(&kept))?;
    }
    Ok(verdict)
}

/// Where the records are, and the command to type next.
pub(super) fn next_command(kept: &[PathBuf]) -> String {
    let names: Vec<String> = kept.iter().map(|path| path.display().to_string()).collect();
    let recorded = format!("\n  recorded: {}\n", names.join("\n            "));
    let verb = if kept.len() > 1 { "fit" } else { "report" };
    recorded + &next(&format!("sekisho {verb} {}", names.join(" ")))
}

impl HttpArgs {
    fn loads(&self) -> Result<Vec<Load>, Failure> {
        if let Some(rate) = self.rate {
            return Ok(vec![self.open(rate.0)]);
        }
        if self.clients.is_empty() {
            return Err(Failure::Usage(
                "say what load: `--clients 1,8,32` (closed), `--rate 200/s` (open) or `--knee 'p99<50ms'`"
                    .into(),
            ));
        }
        let think = match self.think {
            Some(Span(mean)) if mean > 0.0 => Dist::Exponential { mean },
            _ => Dist::Constant(0.0),
        };
        Ok(self.clients.iter().map(|&clients| Load::Closed { clients, think }).collect())
    }

    /// An open load of this rate, spaced as asked for.
    pub(super) fn open(&self, rate: f64) -> Load {
        Load::Open { arrivals: self.arrivals.at(rate), in_flight_max: self.in_flight }
    }

    pub(super) fn spec(&self, load: Load) -> Result<PlanSpec, Failure> {
        let until = match self.requests {
            Some(requests) => Until::Requests(requests),
            None => Until::Seconds(self.duration.0),
        };
        let mut spec = self.target.spec(load, until)?;
        spec.warmup = Duration::from_secs_f64(self.warmup.0);
        Ok(spec)
    }

    pub(super) fn knee_limit(&self) -> Option<&Expectation> {
        self.knee.as_ref()
    }

    /// URL that is measured.
    pub(super) fn url(&self) -> String {
        self.target.url()
    }

    /// Length of a run's measurement [s].
    pub(super) fn length_s(&self) -> f64 {
        self.duration.0
    }

    pub(super) fn json(&self) -> bool {
        self.json
    }

    fn export(&self, record: &RunRecord) -> Result<(), Failure> {
        if let Some(path) = &self.csv {
            store::write_whole(path, load::export::csv(record))?;
        }
        if let Some(path) = &self.hlog {
            store::write_whole(path, load::export::interval_log(record))?;
        }
        Ok(())
    }
}

/// Prints one run and says how it ended.
pub(super) fn show(
    record: &RunRecord,
    noun: Noun,
    expectations: &[Expectation],
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let judgement = record.judge(0.95);
    let outcomes: Vec<_> =
        expectations.iter().map(|expectation| expect(expectation, record, &judgement)).collect();
    let mut verdict = outcomes.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict));
    if !judgement.is_valid() {
        verdict = verdict.and(Verdict::Invalid);
    }
    if record.summary.as_ref().is_some_and(|summary| summary.interrupted) {
        verdict = verdict.and(Verdict::Interrupted);
    }
    if json {
        say(out, &format!("{}\n", super::json::run(record, &judgement, &outcomes, verdict)))?;
        return Ok(verdict);
    }
    let all = &judgement.all;
    let response = all.response.as_ref().map_or(", nothing was completed".into(), |response| {
        format!(" at a mean response of {}", time_estimate(response))
    });
    say(
        out,
        &sentence(&format!(
            "{}: {}: {}{response}",
            verdict.word(),
            super::check::load_text(record),
            rate_estimate(&all.throughput)
        )),
    )?;
    say(out, "\n")?;
    say(out, &table(record, noun, &judgement).to_string())?;
    say(out, &format!("\n{}", why(record, &judgement)))?;
    for outcome in &outcomes {
        say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
    }
    Ok(verdict)
}

fn table(record: &RunRecord, noun: Noun, judgement: &Judgement) -> Table {
    let head = match noun {
        Noun::Document => ["document", "size", "requests"],
        Noun::Script => ["script", "weight", "transactions"],
    };
    let mut table = Table::new(&[&head[..], &["mean", "p50", "p90", "p99"]].concat());
    let row = |name: &str, size: String, measures: &measure::Measures| {
        let quantile = |q: f64| {
            let at = measures.quantiles.iter().find(|quantile| (quantile.q - q).abs() < 1e-9);
            at.and_then(|at| at.response)
                .map_or("-".into(), |value| cli::text::quantile(value.mean))
        };
        vec![
            label(name),
            size,
            measures.completed.to_string(),
            measures.response.as_ref().map_or("-".into(), time_estimate),
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
        ]
    };
    for (spec, measures) in record.header.classes.iter().zip(&judgement.classes) {
        let second = match noun {
            Noun::Document => spec.bytes.map_or("?".into(), bytes),
            Noun::Script => spec.weight.to_string(),
        };
        table.row(row(&spec.name, second, measures));
    }
    if judgement.classes.len() > 1 {
        table.row(row("all", String::new(), &judgement.all));
    }
    table
}

/// Foundations of the numbers: Little's law, errors, faults and warnings.
fn why(record: &RunRecord, judgement: &Judgement) -> String {
    let little = &judgement.little;
    let closes = match little.verdict {
        measure::LittleVerdict::Closes => "closes",
        measure::LittleVerdict::CannotTell => "cannot be judged",
        measure::LittleVerdict::DoesNot => "does NOT close",
    };
    let mut text = paragraph(&format!(
        "Little's law {closes}: {:.2} requests in flight by counting, {:.2} by throughput times \
         response. {:.1} Mbit/s. Seed {}.",
        little.counted, little.computed, judgement.all.mbit_per_s, record.header.seed
    ));
    if !judgement.all.errors.is_empty() {
        let kinds =
            judgement.all.errors.iter().map(|(kind, n)| format!("{n} {}", super::json::name(kind)));
        text += &paragraph(&format!("failed: {}", kinds.collect::<Vec<_>>().join(", ")));
    }
    for fault in &judgement.faults {
        text += &paragraph(&format!("INVALID: {fault}"));
    }
    let warnings = record.summary.iter().flat_map(|summary| &summary.warnings);
    for warning in warnings {
        text += &paragraph(&format!("note: {warning}"));
    }
    text
}
