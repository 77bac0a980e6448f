//! A limit on a quantile of the response time, and the verdict on it from what a run recorded.

use std::time::Duration;

use crate::knee::Outcome;
use crate::sequential::{ERROR_RATE, Requests, When};
use crate::{ErrorKind, Fault, GeneratorLimit, RunRecord};

/// A limit on the response time, such as p99 < 50 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The share of all requests, failed and unanswered ones included, that must be answered well
    /// within the limit; above 0 and below 1.
    pub quantile: f64,
    /// The limit.
    pub response: Duration,
    /// The largest share of requests that may fail, where that matters by itself.
    pub errors_max: Option<f64>,
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
/// A generator that is late makes requests late, so a limit that holds all the same does hold. Its lag only
/// matters against the limit.
pub fn trusted(outcome: Outcome, record: &RunRecord, limit: &Limit) -> Outcome {
    let faults = record.judge_for(CONFIDENCE, Some(limit.response)).faults;
    let made_less = |limit: &GeneratorLimit| match limit {
        GeneratorLimit::Starts { .. } => true,
        GeneratorLimit::Connect { .. } => record.steady().iter().any(|interval| {
            let classes = &interval.classes;
            classes.iter().any(|class| class.errors.contains_key(&ErrorKind::ConnectOther))
        }),
        GeneratorLimit::Cpu { .. } | GeneratorLimit::Lag { .. } => outcome != Outcome::Holds,
    };
    let is_generator = |fault: &Fault| matches!(fault, Fault::Generator(limit) if made_less(limit));
    if faults.iter().any(is_generator) { Outcome::Invalid } else { outcome }
}
