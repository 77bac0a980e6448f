//! Output of a measurement, whatever it pressed: what is kept of its runs, what is printed of each, and the
//! command to type next.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use cli::text::{
    Table, bytes, label, next, paragraph, rate_estimate, sentence, shell_word, time_estimate,
};
use cli::{Failure, Session, Verdict, progress, say, store};
use expectations::{Expectation, expect, of_knees, of_runs, shortest};
use indicatif::ProgressBar;
use measure::{Judgement, KneeRecord, LoadShape, RunHeader, RunRecord};

use super::invalid;
use super::json::{Measured, PhaseAnswer, RunAnswer};
use super::parts;
use super::typed::Typed;
use cli::phases;

#[derive(ClapArgs)]
pub(super) struct OutputArgs {
    /// Hold every run against a limit, such as 'p99<50ms', 'errors<1%', 'rate>=900/s', 'p99(CLASS)<20ms'
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
    pub(super) json: bool,
}

/// Classes of a run, as a table names them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noun {
    Request,
    Script,
}

/// Several runs of one command.
pub(super) struct Measurement {
    pub(super) noun: Noun,
    /// Length of all runs, as far as it is known beforehand \[s\].
    pub(super) seconds: f64,
    /// Its command line, where it can be typed again.
    pub(super) typed: Option<Typed>,
}

impl OutputArgs {
    /// Checks that so many runs, or a search for the knee, can be kept and judged as is asked for.
    ///
    /// # Errors
    /// One file is named for several, or a file or a limit is of another kind.
    pub(super) fn holds(&self, runs: usize, knee: Option<&Expectation>) -> Result<(), Failure> {
        if knee.is_some() {
            if self.csv.is_some() || self.hlog.is_some() {
                return Err(Failure::Usage(
                    "`--csv` and `--hlog` are of one run, and a search for a knee has many: look for the knee, then \
                     measure at a rate with `--rate`"
                        .into(),
                ));
            }
            return of_knees(&self.expect);
        }
        of_runs(&self.expect)?;
        if self.out.is_some() && runs > 1 {
            return Err(Failure::Usage(
                "`--out` names one file, but several runs are asked for".into(),
            ));
        }
        Ok(())
    }

    /// Presses the runs one after the other, keeps and prints each, and says what to type next. An interrupt ends the run that is under way, which is kept, and leaves out the rest.
    ///
    /// # Errors
    /// A run cannot be pressed, or a file cannot be written.
    pub(super) fn of_runs<R>(
        &self,
        measurement: Measurement,
        session: &Session,
        out: &mut dyn Write,
        runs: impl IntoIterator<Item = R>,
        mut press: impl FnMut(R, &ProgressBar) -> Result<Option<RunRecord>, Failure>,
    ) -> Result<Verdict, Failure> {
        let Measurement { noun, seconds, typed } = measurement;
        let bar = progress((seconds * 10.0) as u64, "measuring");
        let mut verdict = Verdict::Holds;
        let mut kept: Vec<(PathBuf, RunRecord)> = Vec::new();
        for run in runs {
            let Some(mut record) = press(run, &bar)? else {
                bar.finish_and_clear();
                return super::json::interrupted(self.json, out);
            };
            let path = self.keep(&mut record)?;
            verdict = verdict.and(show((&record, &path), noun, self, out)?);
            kept.push((path, record));
            if session.interrupted() {
                verdict = Verdict::Interrupted;
                break;
            }
        }
        bar.finish_and_clear();
        if !self.json {
            say(out, &next_command(&kept, &self.expect, typed))?;
        }
        Ok(verdict)
    }

    /// Keeps and prints a run that was merged of its parts.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn of_merged(
        &self,
        mut record: RunRecord,
        noun: Noun,
        out: &mut dyn Write,
    ) -> Result<Verdict, Failure> {
        self.holds(1, None)?;
        let path = self.keep(&mut record)?;
        let verdict = show((&record, &path), noun, self, out)?;
        if !self.json {
            say(out, &next_command(&[(path, record)], &self.expect, None))?;
        }
        Ok(verdict)
    }

    /// The limits that were asked for.
    pub(super) fn limits(&self) -> &[Expectation] {
        &self.expect
    }

    /// Writes the record of a search for a knee; its file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep_knee(&self, record: &mut KneeRecord) -> Result<PathBuf, Failure> {
        let path = match &self.out {
            Some(path) => path.clone(),
            None => {
                let (id, path) = store::claimed("runs", &record.header.id, "knee.json")?;
                record.header.id = id;
                path
            }
        };
        store::write_knee(&path, record)?;
        Ok(path)
    }

    /// Writes a record, and what else is asked for of it; the record's file.
    fn keep(&self, record: &mut RunRecord) -> Result<PathBuf, Failure> {
        let path = match &self.out {
            Some(path) => path.clone(),
            None => {
                let (id, path) = store::claimed("runs", &record.header.id, "jsonl")?;
                record.header.id = id;
                path
            }
        };
        store::write_run(&path, record)?;
        self.export(record)?;
        Ok(path)
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

/// Files of the runs, the change that an invalid one needs, and what to type next. A run is invalid or not for the sake of
/// the limits that it was held against.
fn next_command(
    kept: &[(PathBuf, RunRecord)],
    limits: &[Expectation],
    typed: Option<Typed>,
) -> String {
    let names: Vec<String> = kept.iter().map(|(path, _)| shell_word(path)).collect();
    let mut text = format!("\n  recorded: {}\n", names.join("\n            "));
    if let [(path, RunRecord { header: RunHeader { part: Some(part), .. }, .. })] = kept {
        return text + &parts::next_command(part.part, path);
    }
    let judgement = |(_, record): &(PathBuf, RunRecord)| record.judge_for(0.95, shortest(limits));
    let judgements: Vec<Judgement> = kept.iter().map(judgement).collect();
    let runs: Vec<(&RunRecord, &Judgement)> =
        kept.iter().map(|(_, record)| record).zip(&judgements).collect();
    let needs = typed.as_ref().and_then(|typed| typed.needs);
    let needs = needs.map_or(String::new(), paragraph);
    if let Some(change) = invalid::change(&runs, typed.clone()) {
        for why in &change.why {
            text += &paragraph(&format!("to change: {why}"));
        }
        return text + &change.command.map_or(String::new(), |command| needs + &next(&command));
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
        (Some(&one), Some(typed)) if limits.is_empty() && one < MOST => {
            let more = if one == 1 { [1, 4, 16] } else { [1, one, one.saturating_mul(4)] };
            let more = more.map(|clients| clients.to_string()).join(",");
            return text + &needs + &next(&typed.for_another_load().with("clients", more).line());
        }
        _ => format!("sekisho report {}", names.join(" ")),
    };
    text + &next(&command)
}

/// Clients from which on more of them are not advised.
const MOST: u32 = 256;

/// Prints one run and says how it ended.
fn show(
    (record, path): (&RunRecord, &Path),
    noun: Noun,
    args: &OutputArgs,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let expectations = &args.expect;
    let judgement = record.judge_for(0.95, shortest(expectations));
    let of_phases = record.judge_phases(0.95);
    // What a part alone has seen is neither good nor bad.
    let is_part = record.header.part.is_some();
    let held = if is_part { &[][..] } else { expectations };
    let outcomes: Vec<_> =
        held.iter().map(|expectation| expect(expectation, record, &judgement)).collect();
    let mut verdict = match is_part {
        true => Verdict::Inconclusive,
        false => outcomes.iter().fold(Verdict::Holds, |all, one| all.and(one.verdict)),
    };
    if !is_part && (!judgement.is_valid() || phases::invalid(&of_phases)) {
        verdict = verdict.and(Verdict::Invalid);
    }
    if record.summary.as_ref().is_some_and(|summary| summary.interrupted) {
        verdict = verdict.and(Verdict::Interrupted);
    }
    // Without a limit there is nothing that could hold.
    let word = match verdict {
        Verdict::Holds if outcomes.is_empty() => "measured",
        Verdict::Inconclusive if is_part => "one part, so no verdict",
        verdict => verdict.word(),
    };
    if args.json {
        let answer = Measured {
            run: RunAnswer::new(record, &judgement, &outcomes),
            phases: of_phases.iter().map(PhaseAnswer::from).collect(),
            record: path,
            csv: args.csv.as_deref(),
            hlog: args.hlog.as_deref(),
        };
        say(out, &cli::json::answer(verdict, word, &answer))?;
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
        say(out, &format!("\n{}", phases::text(record, &of_phases)))?;
    }
    say(out, &format!("\n{}", why(record, &judgement)))?;
    say(out, &parts::text(record))?;
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
    // The weight of a script alone says nothing, and would make the line longer than a terminal.
    let is_alone = matches!(noun, Noun::Script) && judgement.classes.len() == 1;
    let shown = |mut cells: Vec<String>| {
        if is_alone {
            cells.remove(1);
        }
        cells
    };
    let head = [&head[..], &["mean", "p50", "p95", "p99", "max"]].concat();
    let head = shown(head.into_iter().map(str::to_owned).collect());
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
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
        shown(vec![
            label(name),
            size,
            measures.completed.to_string(),
            measures.response.as_ref().map_or("-".into(), mean),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            measures.response_max_s.map_or("-".into(), cli::text::quantile),
        ])
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
        measure::LittleVerdict::CannotTell => {
            "cannot be judged (failures, or response times as long as the run)"
        }
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
