//! Verdict on a run: a pure function of its record, so that a stored record can be judged again.
//!
//! A rule is about what was seen: inside of what it allows it is *met*, outside it is *violated*. Of a
//! number that chance makes there may be *too few*: so few that terminals by the rules would miss it
//! too often, and what was seen is no farther off than chance takes them. Of runs by the rules no more
//! than one in twenty is said to deviate, whichever of all these numbers it is by: they share it.

mod chance;
mod rules;

use std::time::Duration;

use measure::{Estimate, PartRecord, RunPart};
use schemars::JsonSchema;
use serde::Serialize;

use super::record::{Client, End, Pace, Record};
use super::transactions::Isolation;

/// Remark that goes with every result.
pub const NOT_AUDITED: &str = "This is not an audited TPC result, nor comparable with one.";

/// The measurement interval that the specification asks for (5.5.2.1).
pub const MEASURE_FULL: Duration = Duration::from_secs(120 * 60);
/// The shortest measurement interval of which we say that it meets the rules, for as long.
pub const MEASURE_LEAST: Duration = Duration::from_secs(10 * 60);
/// The longest time between checkpoints (5.5.2.2).
const CHECKPOINT_SPACING_MAX_S: f64 = 30.0 * 60.0;
/// New-Orders a minute and warehouse that a valid configuration shows (4.2.2).
pub(super) const RATE_LEAST: f64 = 9.0;
/// The most that keying and think times allow.
const RATE_MOST: f64 = 12.86;
/// The cost of a crash where one of these is off (3.5).
const DURABLE: [(&str, &str); 3] = [
    ("synchronous_commit", "an answered transaction may be lost in a crash"),
    ("fsync", "the database may not survive a crash"),
    ("full_page_writes", "a page torn by a crash may be lost"),
];
/// Limit of a terminal's lateness in all but one case of a hundred: the resolution that the
/// specification asks of response times (5.2.5.1).
const LAG_MOST: Duration = Duration::from_millis(100);
/// Share of a processor above which the terminals themselves were the limit.
const CLIENT_BUSY_MOST: f64 = 0.95;

/// Conclusions from a run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// New orders per minute (TPC-C-like), with its interval over the buckets of the measurement.
    pub new_orders_per_minute: Estimate,
    /// Each rule and what became of it.
    pub checks: Vec<Check>,
    /// Deviations of the run from the specification, by name.
    pub deviations: Vec<String>,
    /// Checkpoints that were seen inside the measurement interval.
    pub checkpoints: u64,
}

/// A verdict in a word.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every rule is met, over as long as the specification asks for.
    Qualified,
    /// Every rule is met, over less than that, and ten minutes at least.
    Meets {
        /// For how many whole minutes.
        minutes: u64,
    },
    /// No rule is violated, and of one there were too few to tell.
    TooFew,
    /// No rule is violated, and it was measured for less than ten minutes.
    TooShort,
    /// A rule is violated.
    Deviates,
    /// Terminals did not wait: throughput, which no rule of pacing is about.
    NoWaits,
    /// Terminals waited less than people do: throughput, too.
    Hastened,
    /// It is one part of a run: what its own terminals saw, and no verdict until all are merged.
    Part(RunPart),
    /// The user ended it.
    Interrupted,
    /// The measurement is not of the database under the load that was asked for; and why.
    Invalid(String),
}

/// A rule, and what became of it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Check {
    /// The demand.
    pub rule: String,
    /// The clause of the specification that asks for it.
    pub clause: &'static str,
    /// The finding.
    pub finding: Finding,
    /// The value that was measured.
    pub measured: String,
}

/// Finding on a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The measured value is as asked for.
    Met,
    /// It is not.
    Violated,
    /// It is not, but terminals by the rules would miss it with so few in more runs than its share of
    /// one in twenty; or it could not be seen.
    TooFew {
        /// The number that it takes of what is counted.
        needs: u64,
    },
}

impl Record {
    /// The verdict on a run.
    pub fn judge(&self) -> Verdict {
        let checks = rules::checks(self);
        Verdict {
            outcome: outcome(self, &checks),
            new_orders_per_minute: per_minute(self),
            checks,
            deviations: deviations(self),
            checkpoints: checkpoints_inside(self),
        }
    }

    /// The whole buckets inside the measurement interval.
    fn buckets(&self) -> &[u64] {
        let bucket = self.plan.bucket().as_secs_f64();
        let first = (self.plan.ramp.as_secs_f64() / bucket).ceil() as usize;
        let end = ((self.plan.ramp.as_secs_f64() + self.measured_s) / bucket + 1e-9) as usize;
        let end = end.min(self.new_orders.len());
        &self.new_orders[first.min(end)..end]
    }
}

fn outcome(record: &Record, checks: &[Check]) -> Outcome {
    match &record.end {
        End::Lost(at, why) => return Outcome::Invalid(format!("after {at:.0} s: {why}")),
        End::Failed(at, why) => return Outcome::Invalid(format!("after {at:.0} s: {why}")),
        End::Interrupted(_) => return Outcome::Interrupted,
        End::Complete => {}
    }
    if let Some(why) = terminals_were_the_limit(record) {
        return Outcome::Invalid(why);
    }
    if let Some(PartRecord { part, .. }) = record.part {
        return Outcome::Part(part);
    }
    if checks.iter().any(|check| check.finding == Finding::Violated) {
        return Outcome::Deviates;
    }
    match record.plan.pace {
        Pace::Stress => Outcome::NoWaits,
        Pace::Hastened(_) => Outcome::Hastened,
        Pace::Paced if record.measured_s < MEASURE_LEAST.as_secs_f64() => Outcome::TooShort,
        Pace::Paced if checks.iter().any(|check| check.finding != Finding::Met) => Outcome::TooFew,
        Pace::Paced if record.measured_s < MEASURE_FULL.as_secs_f64() => {
            Outcome::Meets { minutes: (record.measured_s / 60.0) as u64 }
        }
        Pace::Paced => Outcome::Qualified,
    }
}

/// Why the measurement says more about the terminals than about the database, if so. Each of the
/// processes that shared them must have kept up: one that was slow is lost among many.
fn terminals_were_the_limit(record: &Record) -> Option<String> {
    if record.merged.is_empty() {
        return limited(record.plan.pace, &record.client);
    }
    record.merged.iter().find_map(|merged| {
        let why = limited(record.plan.pace, &merged.client)?;
        Some(format!("part {}: {why}", merged.part.part))
    })
}

/// Why one process could not keep up, if so.
fn limited(pace: Pace, client: &Client) -> Option<String> {
    let late = client.lag.quantile(0.99);
    if pace == Pace::Paced && late > LAG_MOST {
        let late = late.as_secs_f64() * 1e3;
        return Some(format!(
            "one of a hundred terminals was {late:.0} ms late or more: this machine is too slow"
        ));
    }
    let busy = client.cpu_s / client.elapsed_s.max(1e-9);
    (busy > CLIENT_BUSY_MOST).then(|| {
        format!(
            "the terminals used {:.0} % of a processor: they were the limit; ask for fewer",
            busy * 100.0
        )
    })
}

/// Fewer buckets make no interval, as fewer blocks make none of a quantile.
const BUCKETS_MIN: usize = 5;

/// New-Orders a minute; its interval by the means of batches of buckets. Buckets that are all the same
/// tell of none: what is counted varies.
fn per_minute(record: &Record) -> Estimate {
    let scale = 60.0 / record.plan.bucket().as_secs_f64();
    let buckets: Vec<f64> = record.buckets().iter().map(|&count| count as f64 * scale).collect();
    let mean = record.new_orders_per_minute();
    let n = buckets.len() as u64;
    let untold = Estimate { mean, half_width: f64::INFINITY, confidence: 0.95, n };
    if buckets.len() < BUCKETS_MIN {
        return untold;
    }
    let of_series = Estimate::from_series(&buckets, 0.95);
    if of_series.half_width > 0.0 { Estimate { mean, ..of_series } } else { untold }
}

/// When checkpoints were seen to have begun, since the run began \[s\]: whatever changes the server's
/// count after it was first seen, upwards, since its statistics may be reset.
fn checkpoints_begun(record: &Record) -> Vec<f64> {
    let total = |seen: &super::Checkpoints| seen.timed + seen.requested;
    let pairs = record.checkpoints.windows(2);
    pairs
        .filter_map(|two| {
            let begun = total(&two[1]) - total(&two[0]);
            usize::try_from(begun).ok().map(|begun| std::iter::repeat_n(two[1].at_s, begun))
        })
        .flatten()
        .collect()
}

/// Checkpoints begun inside the measurement interval.
fn checkpoints_inside(record: &Record) -> u64 {
    let begin = record.plan.ramp.as_secs_f64();
    let inside = begin..=begin + record.measured_s;
    checkpoints_begun(record).iter().filter(|at| inside.contains(at)).count() as u64
}

/// The deviations of the run from the specification.
fn deviations(record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |text: String| found.push(text);
    if record.plan.pace == Pace::Stress {
        add("no waits: terminals neither key nor think".into());
        add("Deliveries are waited for, not deferred".into());
    }
    if let Pace::Hastened(by) = record.plan.pace {
        add(format!("keying and think times are divided by {by}"));
    }
    let minutes = record.measured_s / 60.0;
    if record.measured_s < MEASURE_FULL.as_secs_f64() {
        add(format!("short interval: {minutes:.1} minutes of 120"));
    }
    if record.plan.isolation == Isolation::ReadCommitted {
        add("isolation: read committed, below what clause 3.4.1 asks for".into());
    }
    let setting = |name: &str| record.server.settings.get(name).map_or("", String::as_str);
    for (name, danger) in DURABLE {
        if setting(name) == "off" {
            add(format!("{name} is off: {danger}"));
        }
    }
    if checkpoints_inside(record) == 0 {
        add("no checkpoint inside the interval".into());
    }
    if seconds(setting("checkpoint_timeout")).is_some_and(|s| s > CHECKPOINT_SPACING_MAX_S) {
        add("checkpoints may be more than 30 minutes apart".into());
    }
    if record.plan.warehouses == 1 {
        add("one warehouse: no remote lines or payments".into());
    }
    found
}

/// A time as PostgreSQL writes a setting: `30min`.
fn seconds(setting: &str) -> Option<f64> {
    let digits = setting.find(|c: char| !c.is_ascii_digit())?;
    let number: f64 = setting[..digits].parse().ok()?;
    let unit = match &setting[digits..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
