//! `sekisho measure http URL`: closed load, open load, load that varies, or the search for the knee. What it
//! prints of a run, `measure postgres` prints too.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use cli::text::{
    Table, bytes, label, next, paragraph, rate_estimate, sentence, shell_word, time_estimate,
};
use cli::{Failure, Session, Verdict, progress, say, store};
use load::http::{Load, PlanSpec};
use measure::{Judgement, LoadShape, RunRecord};

use super::check::{Expectation, expect};
use super::http_preflight::preflight;
use super::http_target::{TargetArgs, press};
use super::invalid;
use super::load::{LoadArgs, length_s};
use super::measure_postgres::PostgresArgs;
use super::phases;
use super::typed::Typed;

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
    /// load (`--rate`) waits for nobody, and its response times count from the intended start. Before any
    /// load each kind of request is made once: what will not work is told at once.
    #[command(after_help = "\
Examples:
  sekisho measure http http://127.0.0.1:8080/ --clients 1,8,32 --duration 5s
  sekisho measure http http://127.0.0.1:8080/ --rate 1000/s --expect 'p99<50ms'
  sekisho measure http http://127.0.0.1:8080 --get / --post /a '{}' --clients 4
  sekisho measure http http://127.0.0.1:8080/ --log access.log --speed 10
  sekisho measure http http://127.0.0.1:8080/ --steps 10s:100/s,10s:300/s
  sekisho measure http http://127.0.0.1:8080/ --knee 'p99<50ms'")]
    Http(Box<HttpArgs>),
    /// Put load on PostgreSQL with SQL of your own
    Postgres(Box<PostgresArgs>),
}

#[derive(ClapArgs)]
pub(super) struct HttpArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
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

/// Classes of a run, as a table names them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noun {
    Request,
    Script,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let args = match &args.what {
        What::Http(args) => args,
        What::Postgres(args) => return super::measure_postgres::run(args, session, out),
    };
    let Some(runs) = args.prepared(session)? else { return Ok(Verdict::Interrupted) };
    if args.load.knee().is_some() {
        return super::knee::run(args, session, out);
    }
    let seconds: f64 = runs.iter().map(|spec| length_s(spec.until, &spec.load, spec.warmup)).sum();
    let bar = progress((seconds * 10.0) as u64, "measuring");
    let mut verdict = Verdict::Holds;
    let mut kept: Vec<(PathBuf, RunRecord)> = Vec::new();
    for spec in runs {
        let record = press(spec, session, &bar)?;
        let path = match &args.out {
            Some(path) => path.clone(),
            None => store::path("runs", &format!("{}.jsonl", record.header.id))?,
        };
        store::write_run(&path, &record)?;
        args.export(&record)?;
        verdict = verdict.and(show(&record, Noun::Request, &args.expect, args.json, out)?);
        kept.push((path, record));
        if session.interrupted() {
            verdict = Verdict::Interrupted;
            break;
        }
    }
    bar.finish_and_clear();
    if !args.json {
        let typed = Typed::of(&session.command);
        say(out, &next_command(&kept, !args.expect.is_empty(), typed))?;
    }
    Ok(verdict)
}

/// Files of the runs, the change that an invalid one needs, and what to type next.
pub(super) fn next_command(
    kept: &[(PathBuf, RunRecord)],
    is_held: bool,
    typed: Option<Typed>,
) -> String {
    let names: Vec<String> = kept.iter().map(|(path, _)| shell_word(path)).collect();
    let mut text = format!("\n  recorded: {}\n", names.join("\n            "));
    let judgements: Vec<Judgement> = kept.iter().map(|(_, record)| record.judge(0.95)).collect();
    let runs: Vec<(&RunRecord, &Judgement)> =
        kept.iter().map(|(_, record)| record).zip(&judgements).collect();
    if let Some(change) = invalid::change(&runs, typed.clone()) {
        for why in &change.why {
            text += &paragraph(&format!("to change: {why}"));
        }
        return text + &change.command.map_or(String::new(), |command| next(&command));
    }
    let records: Vec<RunRecord> = kept.iter().map(|(_, record)| record.clone()).collect();
    let clients = |at: usize| match records[at].header.load {
        LoadShape::Closed { clients, .. } => Some(clients),
        _ => None,
    };
    let together = advise::together(&records, 0.95).map(|(taken, _)| taken).unwrap_or_default();
    let loads: BTreeSet<u32> = together.into_iter().filter_map(clients).collect();
    let command = match (loads.first(), typed) {
        _ if loads.len() > 1 => format!("sekisho fit {}", names.join(" ")),
        // Of one load nothing can be fitted: a small and a saturating one are added.
        (Some(&one), Some(typed)) if !is_held && one < MOST => {
            let more = if one == 1 { [1, 4, 16] } else { [1, one, one.saturating_mul(4)] };
            let more = more.map(|clients| clients.to_string()).join(",");
            typed.for_another_load().with("clients", more).line()
        }
        _ => format!("sekisho report {}", names.join(" ")),
    };
    text + &next(&command)
}

/// Clients from which on more of them are not advised.
const MOST: u32 = 256;

impl HttpArgs {
    /// The runs that are asked for, after a look at the server; none if the user interrupted that. Of a
    /// search for the knee there is none, and the look is made all the same.
    fn prepared(&self, session: &Session) -> Result<Option<Vec<PlanSpec>>, Failure> {
        let mut site = self.target.site()?;
        let mut runs = match self.load.knee() {
            Some(limit) => super::knee::limit(limit).map(|_| Vec::new())?,
            None => {
                let runs = self.load.runs(site.log.as_ref())?.into_iter();
                runs.map(|run| run.on(site.spec.clone())).collect()
            }
        };
        if self.out.is_some() && runs.len() > 1 {
            return Err(Failure::Usage(
                "`--out` names one file, but several runs are asked for".into(),
            ));
        }
        // What is wrong with the plan is told before anybody is asked.
        for spec in &runs {
            load::http::Plan::new(spec.clone()).map_err(Failure::usage)?;
        }
        let mut notes = std::mem::take(&mut site.notes);
        if let Some(within) = site.preflight {
            notes.extend(preflight(&mut site.spec, within, session)?);
            runs.iter_mut().for_each(|spec| spec.requests.clone_from(&site.spec.requests));
        }
        if session.interrupted() {
            return Ok(None);
        }
        for note in &notes {
            say(&mut std::io::stderr(), &sentence(&format!("note: {note}")))?;
        }
        Ok(Some(runs))
    }

    /// An open load of this rate, spaced as asked for.
    pub(super) fn open(&self, rate: f64) -> Load {
        self.load.open(rate)
    }

    pub(super) fn spec(&self, load: Load) -> Result<PlanSpec, Failure> {
        Ok(self.load.at(load).on(self.target.site()?.spec))
    }

    pub(super) fn knee_limit(&self) -> Option<&Expectation> {
        self.load.knee()
    }

    /// URL that is measured.
    pub(super) fn url(&self) -> String {
        self.target.url()
    }

    /// Length of a run's measurement, if it was asked for [s].
    pub(super) fn length_given_s(&self) -> Option<f64> {
        self.load.length_given_s()
    }

    /// Longest time of a search for the knee [s].
    pub(super) fn budget_s(&self) -> f64 {
        self.load.budget_s()
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
    let judgement = record.judge_for(0.95, super::check::shortest(expectations));
    let parts = record.judge_phases(0.95);
    let outcomes: Vec<_> =
        expectations.iter().map(|expectation| expect(expectation, record, &judgement)).collect();
    let mut verdict = outcomes.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict));
    if !judgement.is_valid() || phases::invalid(&parts) {
        verdict = verdict.and(Verdict::Invalid);
    }
    if record.summary.as_ref().is_some_and(|summary| summary.interrupted) {
        verdict = verdict.and(Verdict::Interrupted);
    }
    // Without a limit there is nothing that could hold.
    let word = match verdict {
        Verdict::Holds if outcomes.is_empty() => "measured",
        verdict => verdict.word(),
    };
    if json {
        let mut object = super::json::run(record, &judgement, &outcomes, verdict);
        object["verdict"] = word.into();
        if !parts.is_empty() {
            object["phases"] = phases::json(&parts);
        }
        say(out, &format!("{object}\n"))?;
        return Ok(verdict);
    }
    let all = &judgement.all;
    let response = all.response.as_ref().map_or(", nothing was completed".into(), |response| {
        format!(" at a mean response of {}", time_estimate(response))
    });
    let found = match record.header.load.varies() {
        true => phases::answered(record, all.completed, judgement.length_s),
        false => format!("{}{response}", rate_estimate(&all.throughput)),
    };
    let load = super::check::load_text(record);
    say(out, &sentence(&format!("{word}: {load}: {found}")))?;
    say(out, "\n")?;
    say(out, &table(record, noun, &judgement).to_string())?;
    if record.header.load.varies() {
        say(out, &format!("\n{}", phases::text(record, &parts)))?;
    }
    say(out, &format!("\n{}", why(record, &judgement)))?;
    for outcome in &outcomes {
        say(out, &paragraph(&format!("{}: {}", outcome.verdict.word(), outcome.line)))?;
    }
    Ok(verdict)
}

fn table(record: &RunRecord, noun: Noun, judgement: &Judgement) -> Table {
    let head = match noun {
        Noun::Request => ["request", "size", "requests"],
        Noun::Script => ["script", "weight", "transactions"],
    };
    let mut table = Table::new(&[&head[..], &["mean", "p50", "p95", "p99", "max"]].concat());
    let varies = record.header.load.varies();
    // An interval is one of a steady state.
    let mean = |response: &measure::Estimate| match varies {
        true => cli::text::time(response.mean),
        false => time_estimate(response),
    };
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
            measures.response.as_ref().map_or("-".into(), mean),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            measures.response_max_s.map_or("-".into(), cli::text::quantile),
        ]
    };
    for (spec, measures) in record.header.classes.iter().zip(&judgement.classes) {
        let second = match noun {
            Noun::Request => spec.bytes.map_or("?".into(), bytes),
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
        text += &paragraph(&format!("invalid: {fault}"));
    }
    let warnings = record.summary.iter().flat_map(|summary| &summary.warnings);
    for warning in warnings {
        text += &paragraph(&format!("note: {warning}"));
    }
    text
}
