//! What may be concluded from a run: a pure function of its record, so that a stored record can be
//! judged again.
//!
//! A rule about a share or a rate is measured on a sample, so it is *violated* only if the 99 %
//! interval of what was measured lies outside of what it allows; it is *met* if the measured value
//! lies inside; in between there were *too few*, and it says how many would do.

use std::time::Duration;

use measure::{Estimate, Histogram, trend};
use serde::Serialize;
use workload::tpcc::{Kind, rules};

use super::parts::RunPart;
use super::record::{Client, End, Pace, PartRecord, Record};
use super::transactions::Isolation;

/// What is said with every result.
pub const NOT_AUDITED: &str = "This is not an audited TPC result, nor comparable with one.";

/// The measurement interval that the specification asks for (5.5.2.1).
const MEASURE_FULL: Duration = Duration::from_secs(120 * 60);
/// The shortest measurement interval of which we say that a result qualifies; anything below the
/// specification's is a deviation besides.
pub const MEASURE_LEAST: Duration = Duration::from_secs(10 * 60);
/// The longest time between checkpoints (5.5.2.2).
const CHECKPOINT_SPACING_MAX_S: f64 = 30.0 * 60.0;
/// New-Orders a minute and warehouse that a valid configuration shows (4.2.2).
pub(super) const RATE_LEAST: f64 = 9.0;
/// The most that keying and think times allow.
const RATE_MOST: f64 = 12.86;
/// What terminals would do with a deck of 23 cards and answers that take no time: ten New-Orders in
/// 207 + 270 s of keying and thinking, of ten terminals.
const RATE_NOMINAL: f64 = 12.605;
/// How late a terminal may be, in all but one case of a hundred: the resolution that the
/// specification asks of response times (5.2.5.1).
const LAG_MOST: Duration = Duration::from_millis(100);
/// Share of a processor above which the terminals themselves were the limit.
const CLIENT_BUSY_MOST: f64 = 0.95;
/// The 99 % quantile, two-sided, of the normal distribution.
const Z: f64 = 2.575_829;
/// The 99.9 % quantile of chi-square with 10 degrees of freedom.
const CHI_SQUARE_10: f64 = 29.588;

/// What is concluded from a run.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// New orders per minute (TPC-C-like), with its interval over the buckets of the measurement.
    pub new_orders_per_minute: Estimate,
    /// Each rule and what became of it.
    pub checks: Vec<Check>,
    /// What the run did otherwise than the specification asks, by name.
    pub deviations: Vec<String>,
    /// Checkpoints that were seen inside the measurement interval.
    pub checkpoints: u64,
}

/// A verdict in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No rule is violated.
    Qualified,
    /// No rule is violated, and it was measured for less than ten minutes.
    TooShort,
    /// A rule is violated.
    NotQualified,
    /// Terminals did not wait: throughput, which no rule of pacing is about.
    NoWaits,
    /// Terminals waited less than people do: throughput, too.
    Hastened,
    /// It is one part of a run: what its own terminals saw, and no verdict until all are merged.
    Part(RunPart),
    /// The user ended it.
    Interrupted,
    /// What was measured is not the database under the load that was asked for; and why.
    Invalid(String),
}

/// A rule, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is asked for.
    pub rule: String,
    /// Where the specification asks for it.
    pub clause: &'static str,
    /// What became of it.
    pub finding: Finding,
    /// What was measured.
    pub measured: String,
}

/// What became of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The measured value is as asked for.
    Met,
    /// It is not, and by more than chance explains.
    Violated,
    /// It is not, but chance would explain it; so many would tell.
    TooFew {
        /// How many of what is counted it takes.
        needs: u64,
    },
}

impl Record {
    /// The verdict on a run.
    pub fn judge(&self) -> Verdict {
        let mut checks = answered(self);
        if self.plan.pace.waits() {
            checks.extend(mix(self));
        }
        if self.plan.pace == Pace::Paced {
            checks.extend(response_times(self));
            checks.extend(deliveries(self));
            checks.push(rate(self));
            checks.push(steady(self));
        }
        checks.extend(inputs(self));
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
        return Outcome::NotQualified;
    }
    match record.plan.pace {
        Pace::Stress => Outcome::NoWaits,
        Pace::Hastened(_) => Outcome::Hastened,
        Pace::Paced if record.measured_s < MEASURE_LEAST.as_secs_f64() => Outcome::TooShort,
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

/// That the database refused nothing.
fn answered(record: &Record) -> Vec<Check> {
    let failed: u64 = record.errors.values().sum();
    let finding = if failed == 0 { Finding::Met } else { Finding::Violated };
    let says = match &record.error_first {
        Some(first) => format!("{failed} were not; the first: {first}"),
        None => "all were".into(),
    };
    vec![check("every transaction is answered", "2.1", finding, says)]
}

/// The least shares of the completed transactions (5.2.4.2).
fn mix(record: &Record) -> Vec<Check> {
    let all = record.completed();
    let deck: u64 = Kind::ALL.iter().map(|kind| u64::from(kind.rules().cards)).sum();
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        let Some(least) = kind.rules().share_min else { continue };
        let band =
            Band { low: least, high: 1.0, nominal: f64::from(kind.rules().cards) / deck as f64 };
        let rule = format!("{}: at least {:.0} % of the mix", kind.name(), least * 100.0);
        checks.push(share(rule, "5.2.4.2", record.of(kind).completed, all, band));
    }
    checks
}

/// The 90th percentiles (5.2.5.3), and that none is below the mean by what can be told.
fn response_times(record: &Record) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        let of = record.of(kind);
        let limit = kind.rules().response_max;
        let rule = format!("{}: 90 % within {} s", kind.name(), limit.as_secs());
        checks.push(within(rule, "5.2.5.3", &of.response, of.unfinished, limit));
        if of.response.is_empty() {
            continue;
        }
        let (p90, mean) = (of.response.quantile(0.9).as_secs_f64(), of.response.mean_s());
        // Closer than the specification's clock can see they are alike.
        let below = mean - p90 > rules::RESPONSE_RESOLUTION.as_secs_f64();
        let finding = if below { Finding::Violated } else { Finding::Met };
        let rule = format!("{}: its p90 is not below its mean", kind.name());
        checks.push(check(&rule, "5.2.5", finding, format!("{p90:.4} s, {mean:.4} s")));
    }
    let menu = format!("menu: 90 % within {} s", rules::MENU_RESPONSE_MAX.as_secs());
    checks.push(within(menu, "5.2.5.1", &record.menu, 0, rules::MENU_RESPONSE_MAX));
    checks
}

/// The deferred part of Deliveries (2.7.2.2, 9.2.1.7).
fn deliveries(record: &Record) -> Vec<Check> {
    let deferred = &record.deferred;
    let limit = rules::DELIVERY_DONE_MAX;
    let rule = format!("Delivery, deferred: 90 % within {} s", limit.as_secs());
    let done = deferred.times.len();
    let allowed = (done / 100).max(1);
    let finding = if deferred.skipped <= allowed { Finding::Met } else { Finding::Violated };
    vec![
        within(rule, "2.7.2.2", &deferred.times, deferred.overdue, limit),
        check(
            "districts skipped: at most 1 % of Deliveries, or one",
            "9.2.1.7",
            finding,
            format!("{} of {done}", deferred.skipped),
        ),
    ]
}

/// New-Orders a minute and warehouse (4.2.2).
fn rate(record: &Record) -> Check {
    let warehouse_minutes = f64::from(record.warehouses()) * record.measured_s / 60.0;
    let count = record.of(Kind::NewOrder).completed as f64;
    let rule = format!("new orders a minute and warehouse: {RATE_LEAST} to {RATE_MOST}");
    if warehouse_minutes <= 0.0 {
        return check(&rule, "4.2.2", Finding::TooFew { needs: 1 }, "nothing was measured".into());
    }
    // Terminals with think times are steadier than a Poisson process, so that its interval is wide
    // enough.
    let (per, half) = (count / warehouse_minutes, Z * count.max(1.0).sqrt() / warehouse_minutes);
    let band = Band { low: RATE_LEAST, high: RATE_MOST, nominal: RATE_NOMINAL };
    let needs = |edge: f64| (Z * RATE_NOMINAL / (edge - RATE_NOMINAL)).powi(2).ceil() as u64;
    let finding = band.finding(per, (per - half, per + half), needs);
    check(&rule, "4.2.2", finding, format!("{per:.2} ± {half:.2}"))
}

/// That throughput neither rose nor fell over the measurement interval (5.5.1).
fn steady(record: &Record) -> Check {
    let buckets: Vec<f64> = record.buckets().iter().map(|&count| count as f64).collect();
    let (finding, says) = match trend(&buckets) {
        None => {
            let says = format!("{} buckets of {:?}", buckets.len(), record.plan.bucket());
            (Finding::TooFew { needs: 10 }, says)
        }
        Some(trend) => {
            let finding = if trend.p_value < 0.01 { Finding::Violated } else { Finding::Met };
            let drift = trend.drift * 100.0;
            (finding, format!("drift {drift:+.1} %, by chance in {:.3}", trend.p_value))
        }
    };
    check("steady state: no trend in new orders", "5.5.1", finding, says)
}

/// The audit of what was drawn (5.5.1.5, 9.2.2.5).
fn inputs(record: &Record) -> Vec<Check> {
    const CLAUSE: &str = "9.2.2.5";
    let counts = &record.inputs;
    let percent = |low: f64, high: f64, nominal: f64| Band {
        low: low / 100.0,
        high: high / 100.0,
        nominal: nominal / 100.0,
    };
    let (orders, payments) =
        (record.of(Kind::NewOrder).completed, record.of(Kind::Payment).completed);
    let statuses = record.of(Kind::OrderStatus).completed;
    let named = percent(57.0, 63.0, 60.0);
    let mut checks = vec![
        share(
            "rolled back: 0.9 to 1.1 % of New-Orders".into(),
            CLAUSE,
            counts.rollbacks,
            orders,
            percent(0.9, 1.1, 1.0),
        ),
        share(
            "by name: 57 to 63 % of Payments".into(),
            CLAUSE,
            counts.payments_by_name,
            payments,
            named,
        ),
        share(
            "by name: 57 to 63 % of Order-Statuses".into(),
            CLAUSE,
            counts.statuses_by_name,
            statuses,
            named,
        ),
        lines_mean(&counts.orders_by_lines),
        lines_uniform(&counts.orders_by_lines),
    ];
    // One warehouse alone has no other to draw on.
    if record.plan.warehouses > 1 {
        let lines = (5_u64..).zip(counts.orders_by_lines).map(|(lines, count)| lines * count).sum();
        checks.push(share(
            "remote: 0.95 to 1.05 % of lines".into(),
            CLAUSE,
            counts.lines_remote,
            lines,
            percent(0.95, 1.05, 1.0),
        ));
        checks.push(share(
            "remote: 14 to 16 % of Payments".into(),
            CLAUSE,
            counts.payments_remote,
            payments,
            percent(14.0, 16.0, 15.0),
        ));
    }
    checks
}

/// The mean number of lines of an order.
fn lines_mean(by_lines: &[u64; 11]) -> Check {
    const RULE: &str = "lines of an order: 9.5 to 10.5 on average";
    let n = by_lines.iter().sum::<u64>() as f64;
    if n == 0.0 {
        return check(RULE, "9.2.2.5", Finding::TooFew { needs: 265 }, "no order".into());
    }
    let sum: f64 = (5_u64..).zip(by_lines).map(|(lines, &count)| (lines * count) as f64).sum();
    let mean = sum / n;
    // Uniform over 11 numbers: variance (11^2 - 1) / 12.
    let half = Z * (10.0 / n).sqrt();
    let band = Band { low: 9.5, high: 10.5, nominal: 10.0 };
    let needs = |_| (Z * 10_f64.sqrt() / 0.5).powi(2).ceil() as u64;
    let finding = band.finding(mean, (mean - half, mean + half), needs);
    check(RULE, "9.2.2.5", finding, format!("{mean:.3} ± {half:.3}"))
}

/// That orders of 5 to 15 lines are equally likely, by chi-square.
fn lines_uniform(by_lines: &[u64; 11]) -> Check {
    const RULE: &str = "lines of an order: 5 to 15, each as often";
    let n: u64 = by_lines.iter().sum();
    // Below five expected a cell chi-square does not have its distribution.
    if n < 55 {
        return check(RULE, "9.2.2.5", Finding::TooFew { needs: 55 }, format!("{n} orders"));
    }
    let expected = n as f64 / 11.0;
    let chi: f64 = by_lines.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let finding = if chi > CHI_SQUARE_10 { Finding::Violated } else { Finding::Met };
    let says = format!("chi-square {chi:.1} of at most {CHI_SQUARE_10:.1}");
    check(RULE, "9.2.2.5", finding, says)
}

/// A band of allowed values, and what a conforming run tends to.
#[derive(Clone, Copy)]
struct Band {
    low: f64,
    high: f64,
    nominal: f64,
}

impl Band {
    /// What becomes of a measured value with its interval; `needs` says how many would tell a
    /// conforming run from the edge that was crossed.
    fn finding(self, value: f64, (low, high): (f64, f64), needs: impl Fn(f64) -> u64) -> Finding {
        if self.low <= value && value <= self.high {
            Finding::Met
        } else if high < self.low || self.high < low {
            Finding::Violated
        } else {
            Finding::TooFew { needs: needs(if value < self.low { self.low } else { self.high }) }
        }
    }
}

/// A rule about a share `count` of `n`, by Wilson's interval.
fn share(rule: String, clause: &'static str, count: u64, n: u64, band: Band) -> Check {
    let p = band.nominal;
    let needs = |edge: f64| (Z.powi(2) * p * (1.0 - p) / (edge - p).powi(2)).ceil() as u64;
    if n == 0 {
        let edge = if band.high - p < p - band.low { band.high } else { band.low };
        return check(&rule, clause, Finding::TooFew { needs: needs(edge) }, "none".into());
    }
    let (low, high) = wilson(count, n);
    let value = count as f64 / n as f64;
    let finding = band.finding(value, (low, high), needs);
    let says = format!(
        "{:.2} % of {n} (99 %: {:.2} to {:.2} %)",
        value * 100.0,
        low * 100.0,
        high * 100.0
    );
    check(&rule, clause, finding, says)
}

/// A rule that nine of ten are within a limit; those not answered count as beyond it.
fn within(
    rule: String,
    clause: &'static str,
    times: &Histogram,
    unanswered: u64,
    limit: Duration,
) -> Check {
    let n = times.len() + unanswered;
    if n == 0 {
        return check(&rule, clause, Finding::TooFew { needs: 1 }, "none".into());
    }
    let limit = limit.as_nanos() as u64;
    let slow: u64 =
        times.counts().filter(|&(nanos, _)| nanos > limit).map(|(_, count)| count).sum();
    let slow = slow + unanswered;
    let (value, (low, high)) = (slow as f64 / n as f64, wilson(slow, n));
    // One in ten exactly is allowed, whatever 1 - 0.9 is in binary.
    let most = 1.0 - rules::RESPONSE_QUANTILE + 1e-12;
    let band = Band { low: 0.0, high: most, nominal: 0.0 };
    // As many as tell this share from the limit, if it stays what it is.
    let needs =
        |edge: f64| (Z.powi(2) * edge * (1.0 - edge) / (value - edge).powi(2)).ceil() as u64;
    let finding = band.finding(value, (low, high), needs);
    // With those beyond that were never answered, the quantile lies further up.
    let q = rules::RESPONSE_QUANTILE * n as f64 / times.len().max(1) as f64;
    let says = if times.is_empty() || q > 1.0 {
        format!("p90 not reached: {unanswered} of {n} without an answer")
    } else {
        format!("p90 {:.4} s of {n}", times.quantile(q).as_secs_f64())
    };
    check(&rule, clause, finding, says)
}

/// Wilson's 99 % interval of a share.
fn wilson(count: u64, n: u64) -> (f64, f64) {
    let (p, n) = (count as f64 / n as f64, n as f64);
    let z2 = Z * Z;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    (centre - half, centre + half)
}

fn check(rule: &str, clause: &'static str, finding: Finding, measured: String) -> Check {
    Check { rule: rule.to_owned(), clause, finding, measured }
}

/// New-Orders a minute; its interval by the means of batches of buckets.
fn per_minute(record: &Record) -> Estimate {
    let scale = 60.0 / record.plan.bucket().as_secs_f64();
    let buckets: Vec<f64> = record.buckets().iter().map(|&count| count as f64 * scale).collect();
    let mean = record.new_orders_per_minute();
    if buckets.len() < 2 {
        let n = buckets.len() as u64;
        return Estimate { mean, half_width: f64::INFINITY, confidence: 0.95, n };
    }
    Estimate { mean, ..Estimate::from_series(&buckets, 0.95) }
}

/// Checkpoints begun inside the measurement interval.
fn checkpoints_inside(record: &Record) -> u64 {
    let begin = record.plan.ramp.as_secs_f64();
    let end = begin + record.measured_s;
    let total = |seen: &super::Checkpoints| seen.timed + seen.requested;
    let until = |moment: f64| record.checkpoints.iter().filter(move |seen| seen.at_s <= moment);
    let before = until(begin).next_back().or(record.checkpoints.first()).map_or(0, total);
    let after = until(end).next_back().map_or(before, total);
    u64::try_from(after - before).unwrap_or(0) // The statistics may have been reset.
}

/// What the run did otherwise than the specification asks.
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
    for (name, danger) in [
        ("synchronous_commit", "an answered transaction may be lost in a crash"),
        ("fsync", "the database may not survive a crash"),
        ("full_page_writes", "a page torn by a crash may be lost"),
    ] {
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
