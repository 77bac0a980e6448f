//! Expectation: a limit on what a run measured, as it is written, and a judged run held against it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use advise::{Rate, Span};
use cli::text::{count, rate_estimate, time_estimate};
use cli::{Failure, Verdict};
use measure::knee::{Believed, Knee, Outcome as Held};
use measure::limit::{Limit, answers};
use measure::{Estimate, Judgement, Measures, RunRecord};

use crate::outcome::{Kind, Outcome};

/// A limit on what a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// As it was written.
    text: String,
    /// Metric that is limited.
    pub metric: Metric,
    /// The document, if only one is meant.
    pub document: Option<String>,
    /// Side of the limit on which a run must be.
    pub side: Side,
    /// The limit \[s, 1/s, or a share from 0 to 1\].
    pub limit: f64,
}

/// A metric of a run or of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// Quantile of the response times, above 0 and below 1.
    Quantile(f64),
    /// The longest response.
    Max,
    /// Mean of the response times.
    Mean,
    /// Requests answered a second.
    Rate,
    /// Share of requests that failed.
    Errors,
    /// Of a search: the highest rate that holds its limit.
    Knee,
}

/// A side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At most the limit.
    Below,
    /// At least the limit.
    Above,
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Expectation, String> {
        let wanted = "a limit such as 'p99<50ms', 'p99(5k)<20ms', 'max<1s', 'mean<10ms', 'rate>=900/s' or 'errors<0.1%'";
        let wrong = |why: String| format!("{why}; wanted is {wanted}");
        let at = text.find(['<', '>']).ok_or_else(|| wrong("it has no < or >".into()))?;
        let side = if text[at..].starts_with('<') { Side::Below } else { Side::Above };
        let limit = text[at + 1..].trim_start_matches('=').trim();
        let what = text[..at].trim();
        let (name, document) = match what.split_once('(') {
            None => (what, None),
            Some((name, rest)) => {
                let document =
                    rest.strip_suffix(')').ok_or_else(|| wrong("a ) is missing".into()))?;
                (name, Some(document.to_owned()))
            }
        };
        let metric = metric(name).ok_or_else(|| {
            let known =
                ["knee", "mean", "max", "rate", "errors", "p50", "p90", "p95", "p99", "p99.9"];
            match measure::nearest(name, known) {
                Some(near) => wrong(format!("`{name}` is no metric, did you mean `{near}`?")),
                None => wrong(format!("`{name}` is no metric")),
            }
        })?;
        let limit = match metric {
            Metric::Quantile(_) | Metric::Mean | Metric::Max => limit
                .parse::<Span>()
                .map(|span| span.0)
                .map_err(|error| wrong(error.to_string()))?,
            Metric::Knee if document.is_some() => {
                return Err(wrong("a knee is one of all documents".into()));
            }
            Metric::Rate | Metric::Knee => limit
                .parse::<Rate>()
                .map(|rate| rate.0)
                .map_err(|error| wrong(error.to_string()))?,
            Metric::Errors => {
                share(limit).ok_or_else(|| wrong(format!("`{limit}` is no share such as 0.1%")))?
            }
        };
        Ok(Expectation { text: text.to_owned(), metric, document, side, limit })
    }
}

fn metric(name: &str) -> Option<Metric> {
    match name {
        "mean" => Some(Metric::Mean),
        "max" => Some(Metric::Max),
        "rate" => Some(Metric::Rate),
        "errors" => Some(Metric::Errors),
        "knee" => Some(Metric::Knee),
        _ => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            // As it was written: p99.9 is 0.999, not the nearest number to 99.9 over 100.
            let quantile = (percent * 1e10).round() / 1e12;
            (0.0 < quantile && quantile < 1.0).then_some(Metric::Quantile(quantile))
        }
    }
}

fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expectation {
    /// Outcome of this expectation.
    fn outcome(&self, verdict: Verdict, line: &str) -> Outcome {
        let unit = match self.metric {
            Metric::Quantile(_) | Metric::Max | Metric::Mean => "s",
            Metric::Rate | Metric::Knee => "1/s",
            Metric::Errors => "1",
        };
        Outcome::new(Kind::Limit, verdict, &self.text, line).limited(self.limit, unit)
    }
}

/// Holds a judged run against an expectation; the interval decides whether that is possible.
pub fn expect(expectation: &Expectation, record: &RunRecord, judgement: &Judgement) -> Outcome {
    let outcome = |verdict, line: String| expectation.outcome(verdict, &line);
    let classes = &record.header.classes;
    let class = match &expectation.document {
        None => None,
        Some(name) => match classes.iter().position(|class| class.name == *name) {
            Some(class) => Some(class),
            None => {
                let line = format!("the run has no document `{name}`");
                return outcome(Verdict::Inconclusive, line);
            }
        },
    };
    let measures = class.map_or(&judgement.all, |class| &judgement.classes[class]);
    let estimate = match expectation.metric {
        Metric::Mean => measures.response,
        Metric::Rate => Some(measures.throughput),
        Metric::Errors => errors(measures, judgement),
        Metric::Knee => {
            let line = "a run is at one load, and no search for a knee";
            return outcome(Verdict::Inconclusive, line.into());
        }
        Metric::Quantile(q) => {
            let failing = errors(measures, judgement);
            return quantile(expectation, q, record, (class, measures), failing);
        }
        Metric::Max => {
            let (verdict, line) = longest(expectation, measures);
            return outcome(verdict, line).seen(measures.response_max_s);
        }
    };
    let Some(estimate) = estimate else { return outcome(Verdict::Inconclusive, few(measures)) };
    let verdict = compare(&estimate, expectation.side, expectation.limit);
    let shown = match expectation.metric {
        Metric::Rate => rate_estimate(&estimate),
        Metric::Errors => {
            // The middle of Wilson's interval is not the share that was seen.
            let (failed, all) = (measures.failed(), measures.failed() + measures.completed);
            let (low, high) = (estimate.low().max(0.0), estimate.high());
            // Two figures of the upper end.
            let places = (1.0 - (100.0 * high).log10().floor()).clamp(0.0, 9.0) as usize;
            let ends = format!("{:.places$} to {:.places$} %", 100.0 * low, 100.0 * high);
            let line = format!("{failed} of {} failed, {ends}", count(all, "request"));
            return outcome(verdict, line).found_between(failed as f64 / all as f64, low, high);
        }
        _ => time_estimate(&estimate),
    };
    outcome(verdict, format!("it is {shown}")).found(&estimate)
}

/// Checks that a run can hold these limits.
///
/// # Errors
/// One is on a knee.
pub fn of_runs(limits: &[Expectation]) -> Result<(), Failure> {
    match limits.iter().find(|limit| limit.metric == Metric::Knee) {
        None => Ok(()),
        Some(limit) => Err(Failure::Usage(format!(
            "`{limit}` is a limit on a knee, and a run is at one load: give it to `sekisho measure ... --knee \
             'p99<50ms'`, or give `sekisho check` the record of such a search, ID.knee.json"
        ))),
    }
}

/// Checks that a knee can hold these limits.
///
/// # Errors
/// One is on something else.
pub fn of_knees(limits: &[Expectation]) -> Result<(), Failure> {
    match limits.iter().find(|limit| limit.metric != Metric::Knee) {
        None => Ok(()),
        Some(limit) => Err(Failure::Usage(format!(
            "`{limit}` is a limit on one run, and a search for a knee has many: say how high the knee is to be, such \
             as 'knee>=400/s'"
        ))),
    }
}

/// Holds a knee that was looked for under a limit against an expectation; the ends that are believed decide, and not
/// those that were seen once.
pub fn expect_knee(
    expectation: &Expectation,
    knee: &Knee,
    believed: &Believed,
    under: &str,
) -> Outcome {
    let Believed { low, high } = *believed;
    let (above, below) = (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY));
    let limit = expectation.limit;
    let verdict = match expectation.side {
        Side::Above if above >= limit => Verdict::Holds,
        Side::Above if below <= limit => Verdict::Fails,
        Side::Below if below <= limit => Verdict::Holds,
        Side::Below if above >= limit => Verdict::Fails,
        _ => Verdict::Inconclusive,
    };
    let middle = (above * below).sqrt();
    let outcome = expectation.outcome(verdict, &cli::knee::known(knee, believed, under));
    outcome.found_between(middle, low.unwrap_or(f64::NAN), below)
}

/// Words for failures that are so many that they decide nothing.
const ABOUT: &str = "about as many as may be late";

/// A limit on a quantile: by its interval, and where that does not decide by the number of requests beyond the
/// limit, which tells sooner. A request that failed is later than any limit.
fn quantile(
    expectation: &Expectation,
    q: f64,
    record: &RunRecord,
    (class, measures): (Option<usize>, &Measures),
    failing: Option<Estimate>,
) -> Outcome {
    let outcome = |verdict, line: String| expectation.outcome(verdict, &line);
    let failed = measures.failed();
    let (good, all) = (measures.completed as f64, (measures.completed + failed) as f64);
    let all_requests = count(measures.completed + failed, "request");
    let late = (1.0 - q) * all - failed as f64;
    if failed > 0 && late <= 0.0 {
        let surely = failing.is_some_and(|share| share.low() > 1.0 - q);
        let verdict = match (surely, expectation.side) {
            (false, _) => Verdict::Inconclusive,
            (true, Side::Below) => Verdict::Fails,
            (true, Side::Above) => Verdict::Holds,
        };
        let beside = if surely { "later than any limit" } else { ABOUT };
        return outcome(verdict, format!("{failed} of {all_requests} failed, {beside}"));
    }
    // So many good answers may be late beside them.
    let q = if failed == 0 { q } else { 1.0 - late / good };
    let estimate = record.quantile(class, q, 0.95);
    let with = |outcome: Outcome| match &estimate {
        Some(found) => outcome.found(found),
        None => outcome,
    };
    let by_interval = estimate
        .as_ref()
        .map_or(Verdict::Inconclusive, |found| compare(found, expectation.side, expectation.limit));
    let mut shown = estimate.as_ref().map(cli::text::quantile_estimate);
    if let (Some(shown), 1..) = (&mut shown, failed) {
        *shown += &format!(", with the {failed} that failed as later than any limit");
    }
    if by_interval != Verdict::Inconclusive {
        return with(outcome(by_interval, format!("it is {}", shown.unwrap_or_default())));
    }
    let response = Duration::from_secs_f64(expectation.limit.max(0.0));
    let seen = answers(record, class, &Limit { quantile: q, response });
    let verdict = match (seen.outcome, expectation.side) {
        (Held::Holds, Side::Below) | (Held::Fails, Side::Above) => Verdict::Holds,
        (Held::Fails, Side::Below) | (Held::Holds, Side::Above) => Verdict::Fails,
        _ => Verdict::Inconclusive,
    };
    let beyond = format!("{} of {} took longer", seen.late, count(seen.answered, "request"));
    with(outcome(
        verdict,
        match (verdict, shown) {
            (Verdict::Inconclusive, None) if failed > 0 => {
                format!("{failed} of {all_requests} failed, {ABOUT}")
            }
            (Verdict::Inconclusive, None) => format!("{}: {beyond}", few(measures)),
            (_, None) => beyond,
            (_, Some(shown)) => format!("it is {shown}; {beyond}"),
        },
    ))
}

/// The longest response, which is no statistic: it was seen, or it was not. A request that failed is later
/// than any limit.
fn longest(expectation: &Expectation, measures: &Measures) -> (Verdict, String) {
    let of = |is_within: bool| match is_within == (expectation.side == Side::Below) {
        true => Verdict::Holds,
        false => Verdict::Fails,
    };
    match (measures.failed(), measures.response_max_s) {
        (failed @ 1.., _) => {
            (of(false), format!("{} failed, later than any limit", count(failed, "request")))
        }
        (0, None) => (Verdict::Inconclusive, few(measures)),
        (0, Some(longest)) => (
            of(longest <= expectation.limit),
            format!("the longest took {}", cli::text::quantile(longest)),
        ),
    }
}

fn few(measures: &Measures) -> String {
    format!("{} are too few to tell", count(measures.completed, "request"))
}

/// The share of requests that failed, with the interval of Wilson's score: it is right near 0 too.
fn errors(measures: &Measures, judgement: &Judgement) -> Option<Estimate> {
    let failed = measures.failed();
    let n = failed + measures.completed;
    if n == 0 {
        return None;
    }
    let confidence = judgement.all.throughput.confidence;
    let z = measure::t_quantile(0.5 + confidence / 2.0, 1e9);
    let (n_f, p) = (n as f64, failed as f64 / n as f64);
    let centre = (p + z * z / (2.0 * n_f)) / (1.0 + z * z / n_f);
    let half = z / (1.0 + z * z / n_f) * (p * (1.0 - p) / n_f + z * z / (4.0 * n_f * n_f)).sqrt();
    Some(Estimate { mean: centre, half_width: half, confidence, n })
}

fn compare(estimate: &Estimate, side: Side, limit: f64) -> Verdict {
    let (sure, out_of_question) = match side {
        Side::Below => (estimate.high() <= limit, estimate.low() > limit),
        Side::Above => (estimate.low() >= limit, estimate.high() < limit),
    };
    match (sure, out_of_question) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Fails,
        _ => Verdict::Inconclusive,
    }
}

/// The shortest limit on a response time: the one against which a late generator matters.
pub fn shortest(expectations: &[Expectation]) -> Option<Duration> {
    let of_time = |expectation: &&Expectation| {
        matches!(expectation.metric, Metric::Quantile(_) | Metric::Mean | Metric::Max)
    };
    let limits = expectations.iter().filter(of_time).map(|expectation| expectation.limit);
    let shortest = limits.fold(f64::INFINITY, f64::min);
    shortest.is_finite().then(|| Duration::from_secs_f64(shortest.max(0.0)))
}

#[cfg(test)]
#[path = "expectation_tests.rs"]
mod tests;
