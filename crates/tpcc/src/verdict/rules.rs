//! The rules, one by one, with their clauses, and what became of each in a run.

use std::time::Duration;

use measure::{Histogram, SamplingDistribution, trend};
use workload::tpcc::{Kind, rules};

use super::super::record::{Pace, Record};
use super::super::transactions::Isolation;
use super::chance::{Band, Expected, Level, WRONG_MOST};
use super::{
    CHECKPOINT_SPACING_MAX_S, Check, DURABLE, Finding, MEASURE_LEAST, RATE_LEAST, RATE_MOST,
    checkpoints_begun, seconds,
};

/// Below what probability a number is not believed to be right, though it may be chance.
const DOUBT: f64 = 0.01;
/// Error of a time in a histogram, relative.
const HISTOGRAM_ERROR: f64 = 1e-3;

/// The rules that a run is asked about: all of them where terminals wait as people do.
pub(super) fn checks(record: &Record) -> Vec<Check> {
    let mut checks = vec![answered(record)];
    let level = Level::shared_by(numbers_of_chance(record));
    if record.plan.pace.waits() {
        checks.extend(mix(record, level));
    }
    if record.plan.pace == Pace::Paced {
        checks.extend(waits(record, level));
        checks.extend(response_times(record));
        checks.extend(deliveries(record));
        checks.push(rate(record, level));
        checks.push(steady(record, level));
        checks.push(checkpoints(record));
        checks.push(isolation(record));
        checks.push(durable(record));
    }
    checks.extend(inputs(record, level));
    checks
}

/// Number of rules on what chance makes at the terminals: four shares of the mix; five think times,
/// the rate and steadiness; five shares and means of inputs, and two that are remote.
fn numbers_of_chance(record: &Record) -> u32 {
    let mix = if record.plan.pace.waits() { 4 } else { 0 };
    let paced = if record.plan.pace == Pace::Paced { 7 } else { 0 };
    let remote = if record.plan.warehouses > 1 { 2 } else { 0 };
    mix + paced + 5 + remote
}

/// That the database refused nothing.
fn answered(record: &Record) -> Check {
    let failed: u64 = record.errors.values().sum();
    let says = match &record.error_first {
        Some(first) => format!("{failed} were not; the first: {first}"),
        None => "all were".into(),
    };
    check("every transaction is answered", "2.1", met(failed == 0), says)
}

/// The least shares of the completed transactions (5.2.4.2), which are dealt and not drawn.
fn mix(record: &Record, level: Level) -> Vec<Check> {
    let all = record.completed();
    let terminals = record.warehouses() * u32::from(rules::TERMINALS);
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        let Some(least) = kind.rules().share_min else { continue };
        let rule = format!("{}: at least {:.0} % of the mix", kind.name(), least * 100.0);
        let band = Band { low: least, high: 1.0 };
        let expected = Expected::dealt(all, kind, (terminals, least), level);
        checks.push(share(rule, "5.2.4.2", (record.of(kind).completed, all), (band, expected)));
    }
    checks
}

/// Keying and think times as they were waited (5.2.5.7). Keying times are constant. What is asked of
/// think times is the mean of their distribution, which a sample refutes or does not.
fn waits(record: &Record, level: Level) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        let (of, asked) = (record.of(kind), kind.rules());
        let (keying, think) = (asked.keying.as_secs_f64(), asked.think_mean.as_secs_f64());
        let rule = format!("{}: keying of {keying} s at least", kind.name());
        let least = of.keying.min().as_secs_f64();
        let finding = match of.keying.is_empty() {
            true => Finding::TooFew { needs: 1 },
            false => met(least >= keying * (1.0 - HISTOGRAM_ERROR)),
        };
        checks.push(check(&rule, "5.2.5.7", finding, format!("{least:.2} s at least")));
        let rule = format!("{}: think times of {think} s on average at least", kind.name());
        let (mean, n) = (of.think.mean_s(), of.think.len());
        let deviation = think / (n.max(1) as f64).sqrt();
        let half = SamplingDistribution::deviations(DOUBT) * deviation;
        let finding = match n {
            0 => Finding::TooFew { needs: 1 },
            _ => {
                // Cut at ten means, they are a twenty-thousandth shorter.
                let chance = SamplingDistribution::normal(think, deviation);
                let shorter = chance.outside(mean + think * HISTOGRAM_ERROR, f64::INFINITY);
                level.finding(shorter, DOUBT, n)
            }
        };
        checks.push(check(&rule, "5.2.5.7", finding, format!("{mean:.2} ± {half:.2} s of {n}")));
    }
    checks
}

/// The 90th percentiles (5.2.5.3), none of which is below its mean.
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
        let rule = format!("{}: its p90 is not below its mean", kind.name());
        let finding = met(p90 * (1.0 + HISTOGRAM_ERROR) >= mean);
        checks.push(check(&rule, "5.2.5", finding, format!("{p90:.6} s, {mean:.6} s")));
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
    vec![
        within(rule, "2.7.2.2", &deferred.times, deferred.overdue, limit),
        check(
            "districts skipped: at most 1 % of Deliveries, or one",
            "9.2.1.7",
            met(deferred.skipped <= allowed),
            format!("{} of {done}", deferred.skipped),
        ),
    ]
}

/// New-Orders a minute and warehouse (4.2.2).
fn rate(record: &Record, level: Level) -> Check {
    let warehouses = record.warehouses();
    let minutes = f64::from(warehouses) * record.measured_s / 60.0;
    let rule = format!("new orders a minute and warehouse: {RATE_LEAST} to {RATE_MOST}");
    if minutes <= 0.0 {
        return check(&rule, "4.2.2", Finding::TooFew { needs: 1 }, "nothing was measured".into());
    }
    let per = record.of(Kind::NewOrder).completed as f64 / minutes;
    let band = Band { low: RATE_LEAST, high: RATE_MOST };
    let finding = Expected::rate(warehouses, record.measured_s, band, level).finding(per, band);
    check(&rule, "4.2.2", finding, format!("{per:.2} over {minutes:.0} minutes of a warehouse"))
}

/// That throughput neither rose nor fell over the measurement interval (5.5.1).
fn steady(record: &Record, level: Level) -> Check {
    let buckets: Vec<f64> = record.buckets().iter().map(|&count| count as f64).collect();
    let (finding, says) = match trend(&buckets) {
        None => {
            let says = format!("{} buckets of {:?}", buckets.len(), record.plan.bucket());
            (Finding::TooFew { needs: 10 }, says)
        }
        Some(trend) => {
            let says =
                format!("drift {:+.1} %, by chance in {:.3}", trend.drift * 100.0, trend.p_value);
            (level.finding(trend.p_value, WRONG_MOST, buckets.len() as u64), says)
        }
    };
    check("steady state: no trend in new orders", "5.5.1", finding, says)
}

/// That a checkpoint lies inside the interval with all its work, and none is more than 30 minutes
/// from the next (5.5.2.2).
fn checkpoints(record: &Record) -> Check {
    const RULE: &str = "checkpoints: one as a whole, at most 30 minutes apart";
    let begin = record.plan.ramp.as_secs_f64();
    let end = begin + record.measured_s;
    let begun = checkpoints_begun(record);
    let setting = record.server.settings.get("checkpoint_timeout");
    let spacing = setting.and_then(|setting| seconds(setting));
    let inside: Vec<f64> = begun.iter().copied().filter(|&at| begin <= at && at <= end).collect();
    // Its work is spread over the time to the next, and over no more.
    let whole = match (&inside[..], spacing) {
        ([_, _, ..], _) => true,
        (&[at], Some(spacing)) => at + spacing <= end,
        _ => false,
    };
    let before = begun.iter().copied().rfind(|&at| at < begin).unwrap_or(begin);
    let mut moments: Vec<f64> = vec![before];
    moments.extend(&inside);
    moments.push(end);
    let apart = moments.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
    let longest = spacing.unwrap_or(0.0).max(apart);
    let finding = if longest > CHECKPOINT_SPACING_MAX_S {
        Finding::Violated
    } else if whole {
        Finding::Met
    } else if record.measured_s < MEASURE_LEAST.as_secs_f64() {
        Finding::TooFew { needs: 1 }
    } else {
        Finding::Violated
    };
    let set = setting.map_or("not recorded", String::as_str);
    let says = format!("{} begun, {apart:.0} s apart at most; every {set}", inside.len());
    check(RULE, "5.5.2.2", finding, says)
}

/// That transactions are isolated as they must (3.4.1).
fn isolation(record: &Record) -> Check {
    let isolation = record.plan.isolation;
    let finding = met(isolation != Isolation::ReadCommitted);
    check("isolation: repeatable read at least", "3.4.1", finding, isolation.name().into())
}

/// That what was answered survives a crash (3.5).
fn durable(record: &Record) -> Check {
    let set = |name: &str| record.server.settings.get(name).map(String::as_str);
    let off: Vec<&str> =
        DURABLE.iter().map(|&(name, _)| name).filter(|name| set(name) == Some("off")).collect();
    let unknown: Vec<&str> =
        DURABLE.iter().map(|&(name, _)| name).filter(|name| set(name).is_none()).collect();
    let (finding, says) = match (&off[..], &unknown[..]) {
        ([], []) => (Finding::Met, "all are on".to_owned()),
        ([], unknown) => {
            (Finding::TooFew { needs: 1 }, format!("not recorded: {}", unknown.join(", ")))
        }
        (off, _) => (Finding::Violated, format!("off: {}", off.join(", "))),
    };
    let rule = "durability: fsync, full_page_writes, synchronous_commit";
    check(rule, "3.5", finding, says)
}

/// The audit of what was drawn (5.5.1.5, 9.2.2.5).
fn inputs(record: &Record, level: Level) -> Vec<Check> {
    let counts = &record.inputs;
    let drawn = |rule: &str, (count, n): (u64, u64), [low, p, high]: [f64; 3]| {
        let band = Band { low: low / 100.0, high: high / 100.0 };
        let expected = Expected::drawn(n, p / 100.0, band, level);
        share(rule.into(), "9.2.2.5", (count, n), (band, expected))
    };
    let completed = |kind: Kind| record.of(kind).completed;
    let (orders, payments) = (completed(Kind::NewOrder), completed(Kind::Payment));
    let statuses = completed(Kind::OrderStatus);
    let named = [57.0, 60.0, 63.0];
    let rolled_back = (counts.rollbacks, orders);
    let mut checks = vec![
        drawn("rolled back: 0.9 to 1.1 % of New-Orders", rolled_back, [0.9, 1.0, 1.1]),
        drawn("by name: 57 to 63 % of Payments", (counts.payments_by_name, payments), named),
        drawn("by name: 57 to 63 % of Order-Statuses", (counts.statuses_by_name, statuses), named),
        lines_mean(&counts.orders_by_lines, level),
        lines_uniform(&counts.orders_by_lines, level),
    ];
    // One warehouse alone has no other to draw on.
    if record.plan.warehouses > 1 {
        let lines = (5_u64..).zip(counts.orders_by_lines).map(|(lines, count)| lines * count).sum();
        let remote = (counts.lines_remote, lines);
        checks.push(drawn("remote: 0.95 to 1.05 % of lines", remote, [0.95, 1.0, 1.05]));
        let remote = (counts.payments_remote, payments);
        checks.push(drawn("remote: 14 to 16 % of Payments", remote, [14.0, 15.0, 16.0]));
    }
    checks
}

/// The mean number of lines of an order.
fn lines_mean(by_lines: &[u64; 11], level: Level) -> Check {
    const RULE: &str = "lines of an order: 9.5 to 10.5 on average";
    let n: u64 = by_lines.iter().sum();
    let band = Band { low: 9.5, high: 10.5 };
    // Uniform over 11 numbers: variance (11^2 - 1) / 12.
    let expected = Expected::mean(n, (10.0, 10.0), band, level);
    if n == 0 {
        return check(RULE, "9.2.2.5", expected.none(), "no order".into());
    }
    let sum: f64 = (5_u64..).zip(by_lines).map(|(lines, &count)| (lines * count) as f64).sum();
    let mean = sum / n as f64;
    check(RULE, "9.2.2.5", expected.finding(mean, band), format!("{mean:.3} of {n}"))
}

/// That orders of 5 to 15 lines are equally likely, by chi-square.
fn lines_uniform(by_lines: &[u64; 11], level: Level) -> Check {
    const RULE: &str = "lines of an order: 5 to 15, each as often";
    let n: u64 = by_lines.iter().sum();
    // Below five expected a cell chi-square does not have its distribution.
    if n < 55 {
        return check(RULE, "9.2.2.5", Finding::TooFew { needs: 55 }, format!("{n} orders"));
    }
    let expected = n as f64 / 11.0;
    let chi: f64 = by_lines.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let more = chi_square_10_beyond(chi);
    let says = format!("chi-square {chi:.1} with 10 degrees, by chance in {more:.3}");
    check(RULE, "9.2.2.5", level.finding(more, DOUBT, n), says)
}

/// The probability of more than this, of chi-square with 10 degrees of freedom: that of fewer than
/// five of a Poisson number whose mean is half of it.
fn chi_square_10_beyond(chi: f64) -> f64 {
    let half = chi / 2.0;
    let (mut term, mut sum) = (1.0, 0.0);
    for nth in 1..=5 {
        sum += term;
        term *= half / f64::from(nth);
    }
    (-half).exp() * sum
}

/// A rule about a share `count` of `n`.
fn share(
    rule: String,
    clause: &'static str,
    (count, n): (u64, u64),
    (band, expected): (Band, Expected),
) -> Check {
    if n == 0 {
        return check(&rule, clause, expected.none(), "none".into());
    }
    let value = count as f64 / n as f64;
    let says = format!("{:.2} % of {n}", value * 100.0);
    check(&rule, clause, expected.finding(value, band), says)
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
    // One in ten exactly is allowed, whatever 1 - 0.9 is in binary.
    let most = 1.0 - rules::RESPONSE_QUANTILE + 1e-12;
    let finding = met((slow + unanswered) as f64 / n as f64 <= most);
    // With those beyond that were never answered, the quantile lies further up.
    let q = rules::RESPONSE_QUANTILE * n as f64 / times.len().max(1) as f64;
    let says = if times.is_empty() || q > 1.0 {
        format!("p90 not reached: {unanswered} of {n} without an answer")
    } else {
        format!("p90 {:.4} s of {n}", times.quantile(q).as_secs_f64())
    };
    check(&rule, clause, finding, says)
}

/// The finding on a rule that chance has no part in.
fn met(holds: bool) -> Finding {
    if holds { Finding::Met } else { Finding::Violated }
}

fn check(rule: &str, clause: &'static str, finding: Finding, measured: String) -> Check {
    Check { rule: rule.to_owned(), clause, finding, measured }
}
