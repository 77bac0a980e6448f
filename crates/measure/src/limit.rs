//! A limit on a quantile of the response time, and the verdict on it from what a run recorded.

use std::time::Duration;

use crate::knee::Outcome;
use crate::sequential::{ERROR_RATE, Requests, When};
use crate::{ErrorKind, Fault, GeneratorLimit, Histogram, RunRecord};

/// A limit on the response time, such as p99 < 50 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The share of all requests, failed and unanswered ones included, that must be answered well
    /// within the limit; above 0 and below 1.
    pub quantile: f64,
    /// The limit.
    pub response: Duration,
}

/// Confidence at which the generator is judged.
const CONFIDENCE: f64 = 0.95;

/// Verdict on the limit in a run, as one analysis of a [`SequentialTest`](crate::SequentialTest) has it at its
/// end. A request that failed, or was not answered by the end although the limit had passed, is late.
pub fn verdict(record: &RunRecord, limit: &Limit) -> Outcome {
    let mut requests = Requests::default();
    record.intervals.iter().for_each(|interval| requests.add(interval, record.header.warmup_s));
    trusted(requests.decide(limit, ERROR_RATE, When::Late), record, limit)
}

/// What was decided of a run, as far as the generator may be trusted in it: [`Outcome::Invalid`] if it was
/// the generator that was measured.
///
/// A generator that is late makes requests late, so a limit that holds all the same does hold. One that fails does
/// so only if more than what is allowed, and half of all that were late, were sent within a tenth of the limit and
/// late all the same. What was not decided needs more requests, whoever was late.
pub fn trusted(outcome: Outcome, record: &RunRecord, limit: &Limit) -> Outcome {
    let fails = outcome == Outcome::Fails;
    let is_generator = |fault: &Fault| match fault {
        Fault::Generator(GeneratorLimit::Starts { .. }) => true,
        Fault::Generator(GeneratorLimit::Connect { .. }) => {
            record.steady().iter().any(|interval| {
                let classes = &interval.classes;
                classes.iter().any(|class| class.errors.contains_key(&ErrorKind::ConnectOther))
            })
        }
        Fault::Generator(GeneratorLimit::Cpu { .. }) => fails,
        Fault::Generator(GeneratorLimit::Lag { .. }) => fails && !is_late_in_time(record, limit),
        _ => false,
    };
    let faults = record.judge_for(CONFIDENCE, Some(limit.response)).faults;
    if faults.iter().any(is_generator) { Outcome::Invalid } else { outcome }
}

/// True if requests that were sent in time are late by themselves too often; those that are unanswered count.
fn is_late_in_time(record: &RunRecord, limit: &Limit) -> bool {
    let beyond = |histogram: &Histogram, level: Duration| {
        let nanos = u64::try_from(level.as_nanos()).unwrap_or(u64::MAX);
        histogram.counts().filter(|&(value, _)| value > nanos).map(|(_, n)| n).sum::<u64>()
    };
    let mut requests = Requests::default();
    record.intervals.iter().for_each(|interval| requests.add(interval, record.header.warmup_s));
    let unanswered = requests.unanswered_late(limit.response);
    let (mut late, mut lagged, mut all) = (0, 0, 0);
    for interval in record.steady() {
        lagged += beyond(&interval.lag, limit.response / 10);
        for class in &interval.classes {
            let failed = class.errors.values().sum::<u64>();
            late += beyond(&class.total, limit.response) + failed;
            all += class.total.len() + failed;
        }
    }
    let (late, all) = (late as f64 + unanswered, all as f64 + unanswered);
    let own = (late - lagged as f64).max(0.0);
    own >= 0.5 * late && own > (1.0 - limit.quantile) * all
}

/// Good answers of a run, one class (its place in the header) or all, held against a limit: the same analysis, in which
/// requests that failed or are unanswered do not count.
pub fn answers(record: &RunRecord, class: Option<usize>, limit: &Limit) -> Answers {
    let mut requests = Requests::default();
    let (mut answered, mut late) = (0, 0);
    for interval in record.steady() {
        let mut total = Histogram::new();
        let classes = &interval.classes;
        let of = class.map_or(&classes[..], |class| classes.get(class..=class).unwrap_or_default());
        of.iter().for_each(|counts| total.merge(&counts.total));
        answered += total.len();
        let nanos = u64::try_from(limit.response.as_nanos()).unwrap_or(u64::MAX);
        late += total.counts().filter(|&(value, _)| value > nanos).map(|(_, n)| n).sum::<u64>();
        requests.add_block(&total, 0);
    }
    Answers { answered, late, outcome: requests.decide(limit, ERROR_RATE, When::Late) }
}

/// Good answers and a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Number of good answers.
    pub answered: u64,
    /// Number of those that took longer than the limit.
    pub late: u64,
    /// Outcome of the analysis.
    pub outcome: Outcome,
}
