//! The search for the largest number of warehouses that qualifies, and so for the highest throughput
//! (MQTh): which size to try next, for how long, and what has been found. Pure: a function of what
//! was tried, so that it can be followed, tested, and taken up from a record.
//!
//! Short probes bisect; a long run confirms. A probe that holds is believed, since the confirmation
//! looks again; one that fails is not: a size is ruled out by two failures among at most three
//! probes that could tell, so that one bad minute does not cost half of the range. A probe that saw
//! too few to tell counts as neither and is repeated for twice as long. A confirmation that fails
//! overrules all probes: the search steps down and confirms again.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{End, Record};
use super::verdict::{Check, Finding, MEASURE_FULL, MEASURE_LEAST, Outcome, RATE_LEAST};

/// Factor by which a probe may become longer than planned.
const LENGTHEN_MOST: u32 = 4;
/// Failures that rule a size out.
const FAILS_ENOUGH: usize = 2;
/// Probes, or confirmations, of a size in which the terminals were the limit, before it is left.
const INVALID_MOST: usize = 2;
/// Confirmations that may fail.
const CONFIRMATIONS_MOST: usize = 3;
/// The share of the warehouses by which a search steps down after a failed confirmation, or one.
const STEP_DOWN: u32 = 20;

/// Range of a search, and its time limits.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchPlan {
    /// The most warehouses that are tried, 1 or more; the database holds as many.
    pub max: u32,
    /// The first measuring time of a probe; it may become four times as long.
    pub probe: Duration,
    /// The measuring time of the confirmation.
    pub confirm: Duration,
}

/// Why a size is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// To see whether it is worth a long run.
    Probe,
    /// To be sure.
    Confirm,
}

/// A size that was tried.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Active warehouses.
    pub warehouses: u32,
    /// Why.
    pub stage: Stage,
    /// The measuring time planned.
    pub measure: Duration,
    /// The reading.
    pub reading: Reading,
}

/// Reading of a run: its meaning for the number of warehouses.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The database keeps up with them.
    Holds,
    /// It does not: the rules that are violated.
    Fails(Vec<String>),
    /// It cannot be told: the rules of which too few was seen.
    TooFew(Vec<String>),
    /// The terminals were the limit.
    Invalid(String),
    /// The run had no end of its own: the database is lost, or refuses all.
    Broken(String),
    /// The user ended it.
    Interrupted,
}

/// Next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Try this size.
    Try {
        /// Active warehouses.
        warehouses: u32,
        /// Why.
        stage: Stage,
        /// The measuring time.
        measure: Duration,
    },
    /// There is nothing more to try.
    End(Answer),
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A run at so many warehouses, as long as the specification asks for, qualifies.
    Qualifies {
        /// Active warehouses.
        warehouses: u32,
        /// The knowledge of more of them.
        above: Above,
    },
    /// The last run meets every rule for as long as it was measured, which is shorter than that.
    Meets {
        /// Active warehouses.
        warehouses: u32,
        /// For how many whole minutes.
        minutes: u64,
        /// The knowledge of more of them.
        above: Above,
    },
    /// The last run violates no rule, and saw too few to tell of these.
    TooFew {
        /// Active warehouses.
        warehouses: u32,
        /// The rules, with what was measured.
        rules: Vec<String>,
        /// The knowledge of more of them.
        above: Above,
    },
    /// The last run violates no rule, and is shorter than a run of which anything is said.
    TooShort {
        /// Active warehouses.
        warehouses: u32,
        /// The knowledge of more of them.
        above: Above,
    },
    /// Not even one warehouse qualifies.
    None,
    /// It cannot be told; and why.
    Inconclusive(String),
    /// A run was not a measurement of the database; and why.
    Invalid(String),
    /// The user ended the search.
    Interrupted,
}

/// Knowledge of more warehouses than qualify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Above {
    /// No more were to be tried.
    NotTried,
    /// So many are too many.
    Fails(u32),
    /// Of so many it could not be told.
    Undecided(u32),
}

/// Result of the probes of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Status {
    Holds,
    Fails,
    Undecided,
    /// It takes another probe, so long.
    Open(Duration),
}

impl SearchPlan {
    /// The step after these trials, in the order in which they were made.
    ///
    /// # Panics
    /// If there is no warehouse to try.
    pub fn next(&self, trials: &[Tried]) -> Step {
        assert!(self.max > 0, "a search needs a warehouse");
        for trial in trials {
            match &trial.reading {
                Reading::Interrupted => return Step::End(Answer::Interrupted),
                Reading::Broken(why) => return Step::End(Answer::Invalid(why.clone())),
                _ => {}
            }
        }
        let failed = failed(trials);
        if failed.len() == CONFIRMATIONS_MOST {
            let sizes: Vec<String> = failed.iter().map(u32::to_string).collect();
            return Step::End(Answer::Inconclusive(format!(
                "probes held, and long runs failed at {} warehouses: what holds for minutes does not \
                 last here",
                sizes.join(", ")
            )));
        }
        match trials.last().filter(|last| last.stage == Stage::Confirm) {
            Some(last) if !matches!(last.reading, Reading::Fails(_)) => {
                self.after_confirmation(trials, last)
            }
            _ => self.bisect(trials),
        }
    }

    /// The largest number of warehouses that held so far, 0 where none did, and what is known of
    /// more.
    pub fn known(&self, trials: &[Tried]) -> (u32, Above) {
        let ceiling = self.ceiling(trials);
        let low = self.sizes(trials, Status::Holds).filter(|&size| size <= ceiling).max();
        let low = low.unwrap_or(0);
        let above = |status| self.sizes(trials, status).filter(|&size| low < size).min();
        let (fails, undecided) = (above(Status::Fails), above(Status::Undecided));
        let fails = fails.into_iter().chain(failed(trials)).min();
        let above = match (fails, undecided) {
            (Some(fails), undecided) if undecided.is_none_or(|size| fails < size) => {
                Above::Fails(fails)
            }
            (_, Some(size)) => Above::Undecided(size),
            (_, None) => Above::NotTried,
        };
        (low, above)
    }

    /// The largest number that is worth trying: some way below every long run that failed, whatever
    /// probes say.
    fn ceiling(&self, trials: &[Tried]) -> u32 {
        let below = |size: u32| size - (size / STEP_DOWN).max(1);
        failed(trials).into_iter().map(below).min().unwrap_or(self.max)
    }

    /// Narrows the range between the largest size that holds and the smallest that does not.
    fn bisect(&self, trials: &[Tried]) -> Step {
        let ceiling = self.ceiling(trials);
        let tried: BTreeSet<u32> = trials.iter().map(|trial| trial.warehouses).collect();
        let open = tried.range(..=ceiling).find_map(|&size| match self.status(trials, size) {
            Status::Open(measure) => Some((size, measure)),
            _ => None,
        });
        if let Some((warehouses, measure)) = open {
            return Step::Try { warehouses, stage: Stage::Probe, measure };
        }
        let probe = |warehouses| Step::Try { warehouses, stage: Stage::Probe, measure: self.probe };
        let (low, above) = self.known(trials);
        let high = match above {
            Above::Fails(high) | Above::Undecided(high) if high <= ceiling => high,
            // Most databases hold what they have room for: that is one probe.
            _ if low < ceiling => return probe(ceiling),
            _ if low == 0 => return Step::End(Answer::None),
            _ => return self.confirm(low),
        };
        match (low, high - low) {
            (_, 2..) => probe(low + (high - low) / 2),
            (0, _) if matches!(above, Above::Fails(_)) => Step::End(Answer::None),
            (0, _) => Step::End(Answer::Inconclusive(String::from(
                "of one warehouse, the least there is, it could not be told",
            ))),
            (low, _) => self.confirm(low),
        }
    }

    fn after_confirmation(&self, trials: &[Tried], last: &Tried) -> Step {
        let warehouses = last.warehouses;
        let above = || self.known(trials).1;
        let why = match &last.reading {
            Reading::Holds | Reading::TooFew(_) if self.confirm < MEASURE_LEAST => {
                return Step::End(Answer::TooShort { warehouses, above: above() });
            }
            Reading::Holds if self.confirm < MEASURE_FULL => {
                let minutes = self.confirm.as_secs() / 60;
                return Step::End(Answer::Meets { warehouses, minutes, above: above() });
            }
            Reading::Holds => {
                return Step::End(Answer::Qualifies { warehouses, above: above() });
            }
            // As long again it would see as few again.
            Reading::TooFew(rules) => {
                let rules = rules.clone();
                return Step::End(Answer::TooFew { warehouses, rules, above: above() });
            }
            Reading::Invalid(why) => why.clone(),
            Reading::Fails(_) | Reading::Broken(_) | Reading::Interrupted => {
                unreachable!("the search has stepped down or ended")
            }
        };
        let again = trials
            .iter()
            .filter(|trial| trial.stage == Stage::Confirm && trial.warehouses == warehouses);
        match again.count() < INVALID_MOST {
            true => self.confirm(warehouses),
            false => Step::End(Answer::Inconclusive(why)),
        }
    }

    fn confirm(&self, warehouses: u32) -> Step {
        Step::Try { warehouses, stage: Stage::Confirm, measure: self.confirm }
    }

    /// The sizes of which probes say this.
    fn sizes(&self, trials: &[Tried], status: Status) -> impl Iterator<Item = u32> {
        let sizes = trials.iter().map(|trial| trial.warehouses);
        sizes.filter(move |&size| self.status(trials, size) == status)
    }

    fn status(&self, trials: &[Tried], warehouses: u32) -> Status {
        let (mut holds, mut fails, mut invalid) = (0, 0, 0);
        let mut measure = self.probe;
        let probes = trials.iter().filter(|trial| trial.stage == Stage::Probe);
        for trial in probes.filter(|trial| trial.warehouses == warehouses) {
            match &trial.reading {
                Reading::Holds => holds += 1,
                Reading::Fails(_) => fails += 1,
                Reading::Invalid(_) => invalid += 1,
                Reading::TooFew(_) => measure = measure.max(trial.measure * 2),
                Reading::Broken(_) | Reading::Interrupted => {}
            }
        }
        if holds == 2 || (holds, fails) == (1, 0) {
            Status::Holds
        } else if fails == FAILS_ENOUGH {
            Status::Fails
        } else if invalid == INVALID_MOST || measure > self.probe * LENGTHEN_MOST {
            Status::Undecided
        } else {
            Status::Open(measure)
        }
    }
}

/// The sizes at which a long run failed, in their order.
fn failed(trials: &[Tried]) -> Vec<u32> {
    let fails = |trial: &&Tried| {
        trial.stage == Stage::Confirm && matches!(trial.reading, Reading::Fails(_))
    };
    trials.iter().filter(fails).map(|trial| trial.warehouses).collect()
}

/// The rules that a probe is asked about, by their clauses: answers, response times, deferred
/// Deliveries, the rate, steadiness. The others are about chance in inputs and shares, of which
/// minutes say nothing; the confirmation is judged by all.
const PROBED: [&str; 6] = ["2.1", "5.2.5.1", "5.2.5.3", "2.7.2.2", "4.2.2", "5.5.1"];

impl Record {
    /// The reading of a run for its number of warehouses, for a search.
    pub fn reading(&self, stage: Stage) -> Reading {
        let verdict = self.judge();
        match (&self.end, verdict.outcome) {
            (End::Lost(..) | End::Failed(..), Outcome::Invalid(why)) => {
                return Reading::Broken(why);
            }
            (_, Outcome::Invalid(why)) => return Reading::Invalid(why),
            (_, Outcome::Interrupted) => return Reading::Interrupted,
            _ => {}
        }
        let asked = |check: &&Check| stage == Stage::Confirm || PROBED.contains(&check.clause);
        let checks: Vec<&Check> = verdict.checks.iter().filter(asked).collect();
        let found = |finding: &dyn Fn(&Check) -> bool| -> Vec<String> {
            let checks = checks.iter().filter(|check| finding(check));
            checks.map(|check| format!("{}: {}", check.rule, check.measured)).collect()
        };
        let violated = found(&|check| check.finding == Finding::Violated);
        if !violated.is_empty() {
            return Reading::Fails(violated);
        }
        // By chance a short run is above the band as often as not: that is no lack of speed.
        let per = self.new_orders_per_minute() / f64::from(self.warehouses().max(1));
        let few = found(&|check| {
            let fast = check.clause == "4.2.2" && per >= RATE_LEAST;
            matches!(check.finding, Finding::TooFew { .. }) && (!fast || stage == Stage::Confirm)
        });
        match few.is_empty() {
            true => Reading::Holds,
            false => Reading::TooFew(few),
        }
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
