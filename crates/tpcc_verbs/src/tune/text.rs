//! Output of tuning in a terminal.

use std::path::Path;

use ::tpcc::tuning::{Observed, What};
use ::tpcc::{NOT_AUDITED, Outcome};
use cli::Verdict;
use cli::text::{Table, count, paragraph, sentence};

use super::trial::{Trial, Tried, name};
use super::{Tuning, kernel};
use crate::terminals::run_next;
use databases::DatabaseArgs;

/// Waits of which each is more than this share of the samples are told.
const WAIT_LEAST: f64 = 0.02;

pub(super) struct Text<'a> {
    pub(super) tuning: &'a Tuning,
    pub(super) outcome: &'a Outcome,
    /// True if the database was named.
    pub(super) named: bool,
    /// Whether settings were tried.
    pub(super) tries: bool,
    pub(super) verdict: Verdict,
}

impl Text<'_> {
    pub(super) fn render(&self, target: &str) -> String {
        let mut text = sentence(&format!("{}, {target}", self.headline()));
        if let Outcome::Invalid(why) = self.outcome {
            text += &paragraph(&format!("invalid: {why}"));
        }
        text += &self.trials();
        text += &self.advice();
        text += &seen(&self.tuning.observed);
        text += &kernel_text(&self.tuning.kernel);
        text
    }

    /// The verdict in the word of the headline: where nothing was tried, nothing holds.
    pub(super) fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Holds if !self.tries => "plan",
            verdict => verdict.word(),
        }
    }

    fn headline(&self) -> String {
        let (tuning, verdict) = (self.tuning, self.word());
        let tries = tuning.advice.iter().filter(|a| matches!(a.what, What::Try { .. })).count();
        if matches!(self.outcome, Outcome::Invalid(_)) {
            return format!("{verdict}: the run that was to be observed");
        }
        if !self.tries {
            return format!("{verdict}: {tries} settings to try, nothing was changed");
        }
        let kept: Vec<&Trial> = tuning.trials.iter().filter(|trial| trial.is_kept()).collect();
        let all = tuning.together.as_ref().or(match kept.as_slice() {
            [one] => Some(one),
            _ => None,
        });
        let gain = all.and_then(ratio_text).map_or(String::new(), |ratio| {
            format!(", in all {ratio} as many new orders per minute (TPC-C-like)")
        });
        format!("{verdict}: {} of {tries} settings that were to be tried help{gain}", kept.len())
    }

    /// A row a trial.
    fn trials(&self) -> String {
        let trials = self.tuning.trials.iter().chain(&self.tuning.together);
        let mut table = Table::new(&["setting", "from", "to", "new orders, B over A", "finding"]);
        let mut notes = String::new();
        let mut any = false;
        for trial in trials {
            any = true;
            let (from, to) = match trial.changes.as_slice() {
                [change] => (change.from.clone(), change.to.clone()),
                _ => ("before".to_owned(), "kept".to_owned()),
            };
            let what = match trial.changes.as_slice() {
                [change] => change.setting.clone(),
                changes => name(changes),
            };
            let finding = match &trial.result {
                Tried::Measured { finding, kept: true, .. } => format!("{finding}, kept"),
                Tried::Measured { finding, .. } => (*finding).to_owned(),
                Tried::Refused { .. } => "refused".to_owned(),
                Tried::TooLong { .. } | Tried::NotOurs => "not tried".to_owned(),
                Tried::Interrupted => "interrupted".to_owned(),
            };
            let ratio = ratio_text(trial).unwrap_or_else(|| "-".to_owned());
            table.row(vec![what, from, to, ratio, finding]);
            notes += &note(trial);
        }
        if !any {
            return String::new();
        }
        let runs: usize = self.tuning.trials.iter().map(|trial| trial.runs.len()).sum();
        notes += &paragraph(&format!(
            "{} of {} without waits on {}, old and new value by \
             turns, each after a checkpoint; the intervals allow for a drift of both, and all of \
             them hold in 95 % of the cases.",
            count(runs as u64, "run"),
            count(self.tuning.plan.connections.into(), "connection"),
            count(self.tuning.plan.warehouses.into(), "warehouse"),
        ));
        format!("\n{table}\n{notes}")
    }

    /// Why each was tried, and why the others were not.
    fn advice(&self) -> String {
        let mut text = String::new();
        for advice in &self.tuning.advice {
            let (name, now) = (&advice.setting, &advice.now);
            text += &match &advice.what {
                What::Try { to, why, expected, .. } => {
                    paragraph(&format!("{name} = {now}, try {to}: {why}. Expected: {expected}."))
                }
                What::Advise { to, why } => {
                    paragraph(&format!("{name} = {now}, advised {to}: {why}."))
                }
                What::Leave { why } => paragraph(&format!("{name} = {now}, left: {why}.")),
            };
        }
        format!("\n{text}")
    }

    /// End of the text: where it is kept, how it is undone, and what to do next.
    pub(super) fn last(&self, path: &Path, database: &DatabaseArgs, room: Option<u32>) -> String {
        let mut text = paragraph(NOT_AUDITED);
        text += &paragraph(&format!("record: {}", path.display()));
        if self.named && !self.tuning.undo.is_empty() {
            text += &paragraph(&format!("To take it back: {}.", self.tuning.undo.join("; ")));
        }
        let warehouses = self.tuning.plan.warehouses;
        text += &paragraph(&format!("Seed {}.", self.tuning.plan.seed));
        let command = match self.tries {
            false => format!("sekisho tpcc tune --warehouses {warehouses} --apply"),
            true => run_next(room, warehouses, 10, "10min"),
        };
        text + &database.next(&command)
    }
}

/// `× 1.21 (1.18 to 1.25)`.
fn ratio_text(trial: &Trial) -> Option<String> {
    let Tried::Measured { ratio, .. } = &trial.result else { return None };
    let (low, high) = (ratio.low, ratio.high);
    Some(format!("× {:.3} ({low:.3} to {high:.3})", ratio.ratio))
}

fn note(trial: &Trial) -> String {
    let name = name(&trial.changes);
    match &trial.result {
        Tried::Refused { why } => paragraph(&format!("{name}: {why}")),
        Tried::TooLong { needs_s } => paragraph(&format!(
            "{name} was not tried: only runs of {needs_s:.0} s show it; allow them with --longest \
             {:.0}s",
            needs_s.ceil()
        )),
        Tried::NotOurs => paragraph(&format!(
            "{name} was not tried: it needs a restart, and the server is not ours; say how with \
             --restart"
        )),
        Tried::Interrupted | Tried::Measured { .. } => String::new(),
    }
}

/// Activity of the server in the run that was observed.
fn seen(observed: &Observed) -> String {
    let mut table = Table::new(&["table", "size", "read/s", "hit", "HOT", "dead", "scans"]);
    let share = |part: u64, whole: u64| match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    };
    for (name, table_use) in &observed.tables {
        table.row(vec![
            name.clone(),
            format!("{} MB", table_use.bytes >> 20),
            format!("{:.0}", table_use.blocks_read as f64 / observed.elapsed_s.max(1e-9)),
            share(table_use.blocks_hit, table_use.blocks_hit + table_use.blocks_read),
            share(table_use.hot_updates, table_use.updates),
            share(table_use.dead, table_use.dead + table_use.live),
            table_use.sequential_scans.to_string(),
        ]);
    }
    let rate = observed.wal_bytes as f64 / observed.elapsed_s.max(1e-9) / 1e6;
    let mut text = format!("\n{table}\n");
    text += &paragraph(&format!(
        "In {:.0} s: {} commits; {rate:.1} MB/s of log with {} images of pages; {} checkpoints by \
         time and {} by the log; sessions wrote {} of {} blocks.",
        observed.elapsed_s,
        observed.commits,
        observed.wal_images,
        observed.checkpoints_timed,
        observed.checkpoints_requested,
        observed.session_writes,
        observed.writes,
    ));
    let all = observed.waits.values().sum::<u64>().max(1) as f64;
    let mut waits: Vec<(&String, f64)> =
        observed.waits.iter().map(|(name, &count)| (name, count as f64 / all)).collect();
    waits.retain(|(_, share)| *share >= WAIT_LEAST);
    waits.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let waits = waits.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0));
    let waits: Vec<String> = waits.collect();
    if !waits.is_empty() {
        text += &paragraph(&format!("Sessions at work: {}.", waits.join(", ")));
    }
    text + &statements(observed)
}

fn statements(observed: &Observed) -> String {
    let Some(statements) = &observed.statements else {
        return paragraph(
            "Statements were not counted: that needs pg_stat_statements in \
             shared_preload_libraries, and in the database.",
        );
    };
    let mut text = String::new();
    for statement in statements {
        text += &paragraph(&format!(
            "{} calls, {:.2} s, {} kB of log: {}",
            statement.calls,
            statement.total_s,
            statement.wal_bytes >> 10,
            statement.text
        ));
    }
    text
}

fn kernel_text(lines: &[kernel::Line]) -> String {
    if lines.is_empty() {
        return paragraph(
            "The kernel's settings were not read: the server is not on this machine.",
        );
    }
    let mut text = format!("\n{}", paragraph("The kernel, which is read and never set:"));
    let mut well = Vec::new();
    for line in lines {
        let (setting, now) = (line.setting, &line.now);
        match &line.advice {
            Some((to, why)) => {
                text += &paragraph(&format!("{setting} is {now}, advised {to}: {why}."));
            }
            None => well.push(format!("{setting} is {now}")),
        }
    }
    if !well.is_empty() {
        text += &paragraph(&format!("Well as it is: {}.", well.join(", ")));
    }
    text
}
