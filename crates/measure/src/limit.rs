//! A limit on a quantile of the response time, and the verdict on it from what a run recorded.

use std::time::Duration;

use crate::knee::Outcome;
use crate::{Batches, ErrorKind, Fault, GeneratorLimit, RunRecord};

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

/// Confidence of a verdict.
const CONFIDENCE: f64 = 0.95;
/// So many requests must be allowed to be late before their share can be told.
const LATE_MIN: f64 = 10.0;

/// Verdict on the limit in a run. A request that failed, or was not answered by the end although
/// the limit had passed, is late. The interval of the share of late ones is the wider of batch
/// means over the run's intervals (neighbours wait together) and the binomial one.
pub fn verdict(record: &RunRecord, limit: &Limit) -> Outcome {
    if generator_failed(record, limit) {
        return Outcome::Invalid;
    }
    let steady = record.steady();
    let limit_nanos = u64::try_from(limit.response.as_nanos()).unwrap_or(u64::MAX);
    let (mut late, mut failed, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for interval in steady {
        let (mut over, mut errors, mut ended) = (0, 0, 0);
        for class in &interval.classes {
            let beyond = |&(value, _): &(u64, u64)| value > limit_nanos;
            over += class.total.counts().filter(beyond).map(|(_, count)| count).sum::<u64>();
            errors += class.errors.values().sum::<u64>();
            ended += class.completed;
        }
        late.push((over + errors) as f64);
        failed.push(errors as f64);
        all.push((ended + errors) as f64);
    }
    let unanswered = unanswered(record, limit);
    if let (Some(late), Some(all)) = (late.last_mut(), all.last_mut()) {
        *late += unanswered;
        *all += unanswered;
    }
    let total: f64 = all.iter().sum();
    let allowed = 1.0 - limit.quantile;
    let mut outcome = share_verdict(&late, &all, allowed);
    // However few they are: if all requests are late, that is enough to know.
    let none_late = late.iter().all(|late| *late == 0.0);
    let may_hold = outcome == Outcome::Holds || outcome == Outcome::Straddles && none_late;
    if may_hold && total * allowed < LATE_MIN {
        outcome = Outcome::TooFew;
    }
    match limit.errors_max.map(|errors_max| share_verdict(&failed, &all, errors_max)) {
        Some(Outcome::Fails) => Outcome::Fails,
        Some(Outcome::Straddles) if outcome == Outcome::Holds => Outcome::Straddles,
        _ => outcome,
    }
}

/// Requests that were begun, had not ended at the end, and are more than the last limit's worth of
/// arrivals: so many are late for sure.
fn unanswered(record: &RunRecord, limit: &Limit) -> f64 {
    let (mut started, mut ended, mut length_s) = (0, 0, 0.0);
    for interval in &record.intervals {
        started += interval.started;
        length_s += interval.length_s;
        for class in &interval.classes {
            ended += class.completed + class.errors.values().sum::<u64>();
        }
    }
    if length_s <= 0.0 {
        return 0.0;
    }
    let recent = started as f64 / length_s * limit.response.as_secs_f64();
    (started.saturating_sub(ended) as f64 - recent - 4.0 * recent.sqrt()).max(0.0)
}

fn share_verdict(hits: &[f64], all: &[f64], allowed: f64) -> Outcome {
    // Intervals without a request say nothing.
    let seen: Vec<usize> = (0..all.len()).filter(|&at| all[at] > 0.0).collect();
    if seen.len() < 5 {
        return Outcome::Straddles;
    }
    let pick = |of: &[f64]| seen.iter().map(|&at| of[at]).collect::<Vec<f64>>();
    let estimate = Batches::of_ratio(&pick(hits), &pick(all), CONFIDENCE).estimate;
    let total: f64 = all.iter().sum();
    let share = estimate.mean.clamp(0.0, 1.0);
    let binomial = 1.96 * (share * (1.0 - share) / total).sqrt();
    let half_width = estimate.half_width.max(binomial);
    if share + half_width <= allowed {
        Outcome::Holds
    } else if share - half_width > allowed {
        Outcome::Fails
    } else {
        Outcome::Straddles
    }
}

/// True if it was the generator that was measured. Its lag only matters against the limit here.
fn generator_failed(record: &RunRecord, limit: &Limit) -> bool {
    record.judge(CONFIDENCE).faults.iter().any(|fault| match fault {
        Fault::Generator(GeneratorLimit::Lag { p99, .. }) => *p99 > limit.response / 10,
        Fault::Generator(GeneratorLimit::Connect { .. }) => {
            record.steady().iter().any(|interval| {
                interval
                    .classes
                    .iter()
                    .any(|class| class.errors.contains_key(&ErrorKind::ConnectOther))
            })
        }
        Fault::Generator(_) => true,
        _ => false,
    })
}
