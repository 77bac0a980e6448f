//! A placement as text and as JSON.

use std::path::Path;

use ::measure::{Estimate, Ratio};
use ::tpcc::place::{Access, Arrangement, Kind, LOG, Pattern, Step};
use ::tpcc::{NOT_AUDITED, Outcome};
use cli::Verdict;
use cli::json::{Answer, Interrupted};
use cli::text::{Table, paragraph, pasted, plus_minus, sentence, shell_word, time};
use schemars::JsonSchema;
use serde::Serialize;
use workload::tpcc::Kind as Transaction;

use super::{Measured, Placed};
use crate::kept::Kept;
use crate::verified::{Verified, verified_text};
use databases::DatabaseArgs;

/// Reader of the output: a person or a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

impl Placed<'_> {
    fn head(&self) -> String {
        let (count, busiest) = (self.folders.len(), self.placement.imbalance() * 100.0);
        let even = format!("the busiest of {count} directories {busiest:.0} % above the mean");
        let what = arrangement(self.placement.arrangement);
        let Some(after) = &self.after else {
            return format!("{}: {what}; {even}; nothing was moved", self.word());
        };
        let rates = self.rates(after);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let found = (rates.iter().copied().fold(0.0, f64::max) / mean - 1.0) * 100.0;
        let ratio = self
            .ratio()
            .map_or(String::new(), |ratio| format!("; {} the New-Orders", times(&ratio)));
        format!("{}: {what}; {even} by plan, {found:.0} % as measured{ratio}", self.word())
    }

    /// Whether anything was moved, in a word.
    fn word(&self) -> &'static str {
        if self.after.is_some() { "placed" } else { "plan" }
    }

    fn directories(&self) -> String {
        let head = ["directory", "log", "tables", "indexes", "planned /s", "measured /s", "share"];
        let mut table = Table::new(&head);
        let measured = self.after.as_ref().map(|after| self.rates(after));
        let shown = measured.as_ref().unwrap_or(&self.placement.rates);
        let all: f64 = shown.iter().sum();
        for at in 0..self.folders.len() {
            let count = |kind: Kind| {
                let of = self.before.accesses.all.iter().zip(&self.placement.of);
                of.filter(|(access, of)| access.kind == kind && **of == at).count()
            };
            let stays = self.log.is_some() && self.after.is_some();
            let log = match (count(Kind::Log), stays) {
                (0, _) => "-",
                (_, true) => "advised",
                (_, false) => "log",
            };
            table.row(vec![
                (at + 1).to_string(),
                log.into(),
                count(Kind::Table).to_string(),
                count(Kind::Index).to_string(),
                format!("{:.1}", self.placement.rates[at]),
                measured.as_ref().map_or("-".into(), |rates| format!("{:.1}", rates[at])),
                format!("{:.0} %", shown[at] / all.max(f64::MIN_POSITIVE) * 100.0),
            ]);
        }
        let names: String = self
            .folders
            .iter()
            .enumerate()
            .map(|(at, folder)| paragraph(&format!("{}: {}", at + 1, folder.display())))
            .collect();
        format!("{table}\n{names}")
    }

    fn relations(&self) -> String {
        let mut table = Table::new(&["relation", "kind", "pattern", "read /s", "written /s", "to"]);
        let mut rows: Vec<(&Access, usize)> =
            self.before.accesses.all.iter().zip(self.placement.of.iter().copied()).collect();
        rows.sort_by(|(one, _), (other, _)| other.rate().total_cmp(&one.rate()));
        for (access, to) in rows {
            table.row(vec![
                access.name.clone(),
                kind(access.kind).into(),
                pattern(access.pattern()).into(),
                format!("{:.1}", access.read),
                format!("{:.1}", access.written),
                (to + 1).to_string(),
            ]);
        }
        table.to_string()
    }

    fn runs(&self) -> String {
        let mut table = Table::new(&["run", "new orders/min", "NO p90", "95 % interval"]);
        for (name, run) in [("before", Some(&self.before)), ("after", self.after.as_ref())] {
            let Some(run) = run else { continue };
            let estimate = run.judged.new_orders_per_minute;
            let (low, p90, high) = run.response();
            table.row(vec![
                name.into(),
                plus_minus(&estimate, 0),
                time(p90),
                format!("{} to {}", time(low), time(high)),
            ]);
        }
        table.to_string()
    }

    fn why(&self) -> String {
        let accesses = &self.before.accesses;
        let optimum = match self.placement.above_best() {
            share if share < 1e-9 => "No placement is more even.".to_owned(),
            share => format!(
                "The most even placement would have a busiest directory that is at most {:.1} % less \
                 busy.",
                share * 100.0
            ),
        };
        let mut text = paragraph(&format!(
            "Rates are in blocks of {:.0} kB. Reads are measured, of what the server's own buffers \
             did not hold. Writes of relations are measured in all ({:.1} /s) and shared out by an \
             estimate: pages changed, from rows and growth, times {:.2}. Writes of the log are \
             measured.",
            accesses.block / 1024.0,
            accesses.written,
            accesses.scale
        ));
        if let Some(said) = &self.before.unwritten {
            text += &paragraph(&format!(
                "The server would not write all changed pages at the end of a run (\"{said}\"), so \
                 those still in its buffers are not counted as written."
            ));
        }
        text += &paragraph(&format!("{optimum} {}", self.disks.text()));
        if self.after.is_some() {
            text += &paragraph(
                "The run after follows the one before on tables that have grown; the difference is \
                 that too.",
            );
        }
        text
    }
}

impl Measured {
    /// The 90th percentile of New-Orders' response times within its 95 % interval, of order
    /// statistics \[s\].
    fn response(&self) -> (f64, f64, f64) {
        let times = &self.kept.record.of(Transaction::NewOrder).response;
        p90(times)
    }
}

/// How many times as much, with its interval: `1.21 times (1.18 to 1.25)`.
fn times(ratio: &Ratio) -> String {
    match ratio.high.is_finite() {
        true => format!("{:.2} times ({:.2} to {:.2})", ratio.ratio, ratio.low, ratio.high),
        false => format!("{:.2} times (too short for an interval)", ratio.ratio),
    }
}

pub(super) fn arrangement(arrangement: Arrangement) -> &'static str {
    match arrangement {
        Arrangement::Apart => "sequential and random access apart",
        Arrangement::LogAlone => "the log apart",
        Arrangement::LogBesideLeastUsed => "the log beside what is least used",
        Arrangement::Even => "the log beside others",
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Log => "log",
        Kind::Table => "table",
        Kind::Index => "index",
    }
}

fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    }
}

/// The 90th percentile of some times within its 95 % interval, of order statistics \[s\].
pub(super) fn p90(times: &::measure::Histogram) -> (f64, f64, f64) {
    let half = 1.96 * (0.9 * 0.1 / times.len().max(1) as f64).sqrt();
    let at = |q: f64| times.quantile(q.clamp(0.0, 1.0)).as_secs_f64();
    (at(0.9 - half), at(0.9), at(0.9 + half))
}

/// The whole text.
pub(super) fn text(placed: &Placed<'_>, verdict: Verdict, found: Option<&Verified>) -> String {
    let mark = if verdict == Verdict::Fails { "fails: " } else { "" };
    let mut text = sentence(&format!("{mark}{}, {}", placed.head(), placed.name));
    text += &format!("\n{}\n{}\n{}\n", placed.directories(), placed.relations(), placed.runs());
    text += &placed.why();
    if let Some(advice) = &placed.log {
        text += &paragraph(
            "The log is not moved: it takes a stop of the server, which is yours to decide. As the \
             server's user:",
        );
        for line in advice.lines() {
            text += &pasted(line, " \\");
        }
    }
    if placed.after.is_none() {
        text += &paragraph("Tables and indexes, with `--apply`:");
        for step in &placed.steps {
            text += &pasted(&format!("{};", step.sql()), "");
        }
    }
    text += &verified_text(found);
    text += &paragraph(&format!("Seed {}.", placed.seed));
    text += &paragraph(NOT_AUDITED);
    for run in std::iter::once(&placed.before).chain(&placed.after) {
        text += &paragraph(&format!("record: {}", run.kept.path.display()));
    }
    text + &placed.given.next_line(&command(placed))
}

/// Command to type next.
fn command(placed: &Placed<'_>) -> String {
    let folders: Vec<String> = placed.folders.iter().map(|folder| shell_word(folder)).collect();
    let on = format!("sekisho tpcc place --on {}", folders.join(","));
    match (&placed.log, &placed.after) {
        // It was a private one, which is gone.
        (None, _) => format!("{on} --db \"$DATABASE_URL\""),
        (Some(_), None) => placed.given.again(&format!("{on} --apply")),
        (Some(_), Some(_)) => placed.given.again("sekisho tpcc place --undo"),
    }
}

/// Tables, indexes and log, placed on directories.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlacedAnswer<'a> {
    /// True if it was applied.
    applied: bool,
    /// Arrangement of tables, indexes and log over the directories, in words.
    arrangement: String,
    /// The directories.
    directories: Vec<&'a Path>,
    /// Planned rate of blocks of each directory \[1/s\].
    planned_blocks_per_s: &'a [f64],
    /// Rate of the busiest directory above the mean, as a share.
    imbalance: f64,
    /// The same above the best that is possible.
    above_best: f64,
    /// Disks under the directories: `apart`, `one`, `shared` or `unknown`.
    disks: &'static str,
    /// Size of a block \[B\].
    block_bytes: f64,
    /// Rate of blocks that are written \[1/s\].
    written_blocks_per_s: f64,
    /// Tables and indexes.
    relations: Vec<RelationAnswer<'a>>,
    /// Statements that make the placement.
    steps: Vec<String>,
    /// Advice about the log, line by line.
    log_advice: Option<Vec<&'a str>>,
    before: PlacedRun<'a>,
    /// None if it was not applied.
    after: Option<PlacedRun<'a>>,
    new_orders_ratio: Option<Ratio>,
    /// True if the conditions of the database hold afterwards; none where they were not looked at.
    verified: Option<bool>,
    /// Sentence that a result that nobody audited must carry.
    not_audited: &'static str,
}

impl Answer for PlacedAnswer<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-place/1";
}

/// A table, an index or the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Relation")]
struct RelationAnswer<'a> {
    /// Its name.
    name: &'a str,
    /// Kind: table or index.
    kind: &'static str,
    /// Pattern of its accesses.
    pattern: &'static str,
    /// Its size \[block\].
    pages: f64,
    /// Blocks that are read \[1/s\].
    read_per_s: f64,
    /// Blocks that are written \[1/s\].
    written_per_s: f64,
    /// `measured` or `estimated`.
    written_is: &'static str,
    /// Number of its directory, from 1.
    directory: usize,
}

/// A run on a placement.
#[derive(Serialize, JsonSchema)]
struct PlacedRun<'a> {
    /// New orders completed in a minute.
    new_orders_per_minute: Estimate,
    /// 90th percentile of the response of new orders \[s\].
    new_order_p90_s: f64,
    /// Ends of its interval \[s\].
    new_order_p90_interval_s: [f64; 2],
    /// Rate of blocks of each directory \[1/s\].
    blocks_per_s_by_directory: Vec<f64>,
    /// File of the record of the run.
    record: &'a Path,
}

/// A run that says nothing about accesses.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NotPlaced<'a> {
    /// Cause why it says nothing.
    why: &'a str,
    /// File of the record of the run.
    record: &'a Path,
}

impl Answer for NotPlaced<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-not-placed/1";
}

/// A placement that was put back.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Undone {
    /// Number of tables and indexes that are back.
    moved: usize,
    /// Statements that take the placement back.
    steps: Vec<String>,
}

impl Answer for Undone {
    const FORMAT: &'static str = "sekisho/tpcc-place-undone/1";
}

/// One line of JSON.
pub(super) fn answer(placed: &Placed<'_>, verdict: Verdict, found: Option<&Verified>) -> String {
    let accesses = &placed.before.accesses;
    let relations = accesses.all.iter().zip(&placed.placement.of);
    let relations = relations.map(|(access, to)| RelationAnswer {
        name: &access.name,
        kind: kind(access.kind),
        pattern: pattern(access.pattern()),
        pages: access.pages,
        read_per_s: access.read,
        written_per_s: access.written,
        written_is: if access.name == LOG { "measured" } else { "estimated" },
        directory: to + 1,
    });
    let placed_answer = PlacedAnswer {
        applied: placed.after.is_some(),
        arrangement: format!("{:?}", placed.placement.arrangement),
        directories: placed.folders.iter().map(|one| one.as_path()).collect(),
        planned_blocks_per_s: &placed.placement.rates,
        imbalance: placed.placement.imbalance(),
        above_best: placed.placement.above_best(),
        disks: placed.disks.word(),
        block_bytes: accesses.block,
        written_blocks_per_s: accesses.written,
        relations: relations.collect(),
        steps: placed.steps.iter().map(Step::sql).collect(),
        log_advice: placed.log.as_ref().map(|advice| advice.lines().collect()),
        before: placed_run(placed, &placed.before),
        after: placed.after.as_ref().map(|run| placed_run(placed, run)),
        new_orders_ratio: placed.ratio(),
        verified: found.map(Verified::holds),
        not_audited: NOT_AUDITED,
    };
    let word = if verdict == Verdict::Holds { placed.word() } else { verdict.word() };
    cli::json::answer(verdict, word, &placed_answer)
}

fn placed_run<'a>(placed: &Placed<'_>, run: &'a Measured) -> PlacedRun<'a> {
    let (low, p90, high) = run.response();
    PlacedRun {
        new_orders_per_minute: run.judged.new_orders_per_minute,
        new_order_p90_s: p90,
        new_order_p90_interval_s: [low, high],
        blocks_per_s_by_directory: placed.rates(run),
        record: &run.kept.path,
    }
}

/// Message after an interrupt.
pub(super) fn interrupted(at: &str, form: Form) -> String {
    if form == Form::Json {
        return Interrupted { at: Some(at.to_owned()), ..Interrupted::default() }.line();
    }
    sentence(at)
}

/// A run that says nothing about accesses.
pub(super) fn invalid(kept: &Kept, judged: &::tpcc::Verdict, form: Form) -> String {
    let Outcome::Invalid(why) = &judged.outcome else { unreachable!("only such a run is shown") };
    let path = kept.path.display();
    if form == Form::Json {
        let verdict = Verdict::Invalid;
        let answer = NotPlaced { why, record: &kept.path };
        return cli::json::answer(verdict, verdict.word(), &answer);
    }
    sentence(&format!("invalid: {why}; nothing was placed"))
        + &paragraph(&format!("record: {path}"))
}

/// Message about what was put back.
pub(super) fn undone(steps: &[Step], given: &DatabaseArgs, form: Form) -> String {
    let verdict = Verdict::Holds;
    let moved = steps.iter().filter(|step| matches!(step, Step::Move { .. })).count();
    if form == Form::Json {
        let steps: Vec<String> = steps.iter().map(Step::sql).collect();
        return cli::json::answer(verdict, "undone", &Undone { moved, steps });
    }
    let removed = steps.len() - moved;
    if steps.is_empty() {
        return "undone: nothing, no tablespaces of a placement are there\n".into();
    }
    sentence(&format!(
        "undone: {moved} tables and indexes are back, {removed} tablespaces are removed"
    )) + &given.next("sekisho tpcc verify")
}
