//! Search for the knee by several parts in lockstep: the words that they say, and the decisions of part 1 (the
//! leader) and of the others (the followers). Pure: it knows neither clock nor socket, and is told the time.
//!
//! The leader orders a probe. Each part makes ready for its share, which takes as long as its connections need to
//! open, and says so. When all are ready the leader lays down the start. Every part tells the leader each of its
//! intervals. An interval counts when all parts have told it: the sum is what one process would have seen, and the same
//! sequential test decides by it. The probe then ends in all parts, and the leader orders the next one.

use std::time::Duration;

use measure::knee::{Knee, KneeSpec, Outcome, Probe, Search, Why};
use measure::{Interval, MergeError, RunHeader, RunRecord, RunSummary, parts};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::probe::{Decision, Probed};

/// Time without a word of a probe after which a part is late: ten times the longest interval.
pub const LATE: Duration = Duration::from_secs(10);
/// The most intervals of a part in one probe; a probe has some hundreds.
const INTERVALS_MAX: usize = 100_000;

/// Why a search in several parts could not go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Broken {
    /// A part has gone.
    #[error("part {number} was lost ({why}): see there why, then start all parts again")]
    Lost {
        /// The part.
        number: u32,
        /// The sign of it.
        why: String,
    },
    /// A part is there and measures nothing.
    #[error(
        "part {number} was late: it told nothing of probe {probe} for {} s; give its machine less to do, then \
         start all parts again", LATE.as_secs()
    )]
    Late {
        /// The part.
        number: u32,
        /// The probe, from 1.
        probe: u64,
    },
    /// A part cannot make its share.
    #[error("part {number} could not make its share of probe {probe}: {why}")]
    Failed {
        /// The part.
        number: u32,
        /// The probe, from 1.
        probe: u64,
        /// Why.
        why: String,
    },
    /// The shares are no run together.
    #[error("probe {probe}: {why}")]
    Apart {
        /// The probe, from 1.
        probe: u64,
        /// Why.
        why: MergeError,
    },
}

/// A search as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Course {
    /// Its parameters.
    pub spec: KneeSpec,
    /// Its probes so far, with what came of them.
    pub told: Vec<(Probe, Outcome)>,
}

impl Course {
    /// Knee as far as it is known now, for one who cannot go on.
    pub fn knee(&self) -> Knee {
        let mut search = Search::new(self.spec);
        self.told.iter().for_each(|(probe, outcome)| search.tell(*probe, *outcome, 0.0));
        search.stop(Why::Stopped)
    }
}

/// A probe that all parts are to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Order {
    /// Its number, from 1.
    pub number: u64,
    /// Its rate, of all parts together.
    pub probe: Probe,
    /// Its length at most, warm-up not counted.
    pub length: Duration,
    /// The search before it.
    pub course: Course,
}

/// End of a search, as the leader tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ending {
    /// There is an answer.
    Found(Answer),
    /// The leader's user has stopped it before its first probe.
    Interrupted,
    /// The leader could not search: its own message says why.
    Failed,
}

/// Answer of a search, the same in all parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Answer {
    /// The probes.
    pub course: Course,
    /// Place of the knee, as far as it is known.
    pub knee: Knee,
    /// Time that the search took \[s\].
    pub elapsed_s: f64,
    /// Reason that it ended before its time, if it did.
    pub broken: Option<String>,
    /// True if a user has stopped it.
    pub interrupted: bool,
}

/// Word of the leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LeaderWord {
    /// It is there.
    Here,
    /// The time \[us since 1970\], by the clock of part 1.
    Clock(i64),
    /// The next probe, for which all are to make ready.
    Probe(Box<Order>),
    /// The start of the probe of this number by the clock of part 1 \[us since 1970\].
    Begin(u64, i64),
    /// The probe of this number is over.
    Stop(u64),
    /// The search is over.
    Over(Box<Ending>),
}

/// Word of a follower.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FollowerWord {
    /// It is there.
    Here,
    /// It asks for the time.
    Clock,
    /// Word on the probe of this number.
    Share(u64, Told),
    /// Its user asks to stop.
    Interrupted,
}

/// Word on a part's share of a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Told {
    /// All is ready: the share can begin.
    Ready,
    /// The next interval is over.
    Interval(Box<Interval>),
    /// The share is over.
    Ended(Box<RunHeader>, RunSummary),
    /// The share cannot be made.
    Failed(String),
}

/// What the leader hears of a part.
#[derive(Clone, Debug)]
pub enum Heard {
    /// It says something on the probe of this number.
    Share(u64, Told),
    /// Its user asks to stop.
    Interrupted,
    /// It has gone, by this sign.
    Lost(String),
}

/// Share of one part in a probe.
#[derive(Debug, Default)]
struct Share {
    ready: bool,
    intervals: Vec<Interval>,
    end: Option<(RunHeader, RunSummary)>,
    /// Its last word, since the probe was ordered.
    heard: Duration,
}

/// One probe of all parts, as the leader sees it.
#[derive(Debug)]
pub struct Joint {
    number: u64,
    decision: Decision,
    /// Part `i + 1` is at `i`.
    shares: Vec<Share>,
    /// Number of intervals that all parts have told.
    summed: usize,
    decided: bool,
    interrupted: bool,
    broken: Option<Broken>,
}

/// End of a joint probe.
#[derive(Debug)]
pub enum Joined {
    /// It was made, and merged.
    Probed(Box<Probed>),
    /// A user has asked to stop.
    Interrupted,
    /// The parts cannot go on.
    Broken(Broken),
}

impl Joint {
    /// The probe of this number, of so many parts.
    pub fn new(number: u64, of: u32, decision: Decision) -> Joint {
        let shares = (0..of).map(|_| Share::default()).collect();
        let (summed, decided, interrupted, broken) = (0, false, false, None);
        Joint { number, decision, shares, summed, decided, interrupted, broken }
    }

    /// Takes note of what a part tells, so long after the probe was ordered.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn hear(&mut self, part: u32, heard: Heard, now: Duration) {
        match heard {
            Heard::Share(number, told) if number == self.number => self.share(part, told, now),
            // The rest of a probe that is over.
            Heard::Share(..) => {}
            Heard::Interrupted => self.interrupted = true,
            Heard::Lost(why) => self.broke(Broken::Lost { number: part, why }),
        }
    }

    /// Takes note of the time since the probe was ordered: a part that has told nothing for long is late.
    pub fn tick(&mut self, now: Duration) {
        let probe = self.number;
        let is_late = |share: &Share| share.end.is_none() && now.saturating_sub(share.heard) > LATE;
        // The leader tells itself; who asks for the time is not late.
        let late = (1..).zip(&self.shares).skip(1).find(|(_, share)| is_late(share));
        if let Some((number, _)) = late {
            self.broke(Broken::Late { number, probe });
        }
    }

    /// True if all parts are ready to begin.
    pub fn is_ready(&self) -> bool {
        self.shares.iter().all(|share| share.ready)
    }

    /// Takes note that all begin, so long after the probe was ordered: the wait for the slowest made none late.
    pub fn begin(&mut self, now: Duration) {
        self.shares.iter_mut().for_each(|share| share.heard = now);
    }

    /// True if all parts are to end the probe now.
    pub fn stops(&self) -> bool {
        self.decided || self.interrupted || self.broken.is_some()
    }

    /// True if nothing more is waited for: all parts have ended, or what they still tell does not matter.
    pub fn is_over(&self) -> bool {
        self.broken.is_some()
            || self.interrupted
            || self.shares.iter().all(|share| share.end.is_some())
    }

    /// The end of the probe, when it is [over](Joint::is_over).
    ///
    /// # Panics
    /// If it is not.
    pub fn end(self) -> Joined {
        if let Some(broken) = self.broken {
            return Joined::Broken(broken);
        }
        if self.interrupted {
            return Joined::Interrupted;
        }
        let records: Vec<RunRecord> = self
            .shares
            .into_iter()
            .map(|share| {
                let (header, summary) =
                    share.end.expect("a probe that is over has an end of each part");
                RunRecord { header, intervals: share.intervals, summary: Some(summary) }
            })
            .collect();
        match RunRecord::merge(&records) {
            Ok(record) => Joined::Probed(Box::new(self.decision.of(record))),
            Err(why) => Joined::Broken(Broken::Apart { probe: self.number, why }),
        }
    }

    fn share(&mut self, part: u32, told: Told, now: Duration) {
        let probe = self.number;
        let share = &mut self.shares[part as usize - 1];
        share.heard = now;
        let failed = |why| Broken::Failed { number: part, probe, why };
        match told {
            Told::Failed(why) => self.broke(failed(why)),
            Told::Ready => share.ready = true,
            _ if share.end.is_some() => {
                self.broke(failed("it goes on after its end, so it is of another version".into()));
            }
            Told::Ended(header, summary) => share.end = Some((*header, summary)),
            Told::Interval(_) if share.intervals.len() >= INTERVALS_MAX => {
                self.broke(failed("it tells more intervals than a probe has".into()));
            }
            Told::Interval(interval) => {
                share.intervals.push(*interval);
                self.sum();
            }
        }
    }

    /// Lets the test see the intervals that all parts have told by now.
    fn sum(&mut self) {
        while !self.decided {
            let at = self.summed;
            let all: Option<Vec<&Interval>> =
                self.shares.iter().map(|share| share.intervals.get(at)).collect();
            let Some(all) = all else { return };
            self.summed += 1;
            self.decided = self.decision.observe(&parts::sum(&all));
        }
    }

    /// The first reason stands: what follows is its consequence.
    fn broke(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }
}

/// A follower between the words of the leader.
#[derive(Debug, Default)]
pub struct Follower {
    last: u64,
    /// The number of the probe that it makes now.
    pressing: Option<u64>,
    over: bool,
}

/// Step that a follower takes at a word.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// It goes on with what it does.
    Nothing,
    /// It makes ready for its share of a probe.
    Press(Box<Order>),
    /// It begins its share at this moment by the clock of part 1 \[us since 1970\].
    Begin(i64),
    /// It ends its share.
    Stop,
    /// It ends its share, if it makes one, and the search.
    End(Box<Ending>),
    /// The leader says what no leader of this version says: it ends all.
    Refuse(String),
}

impl Follower {
    /// The step that a word of the leader asks for.
    pub fn hear(&mut self, word: LeaderWord) -> Act {
        match word {
            _ if self.over => Act::Nothing,
            LeaderWord::Here | LeaderWord::Clock(_) => Act::Nothing,
            LeaderWord::Probe(order) => {
                if self.pressing.is_some() || order.number <= self.last {
                    self.over = true;
                    let (number, last) = (order.number, self.last);
                    return Act::Refuse(format!(
                        "it orders probe {number} after {last} out of turn"
                    ));
                }
                self.last = order.number;
                self.pressing = Some(order.number);
                Act::Press(order)
            }
            LeaderWord::Begin(number, start_us) if self.pressing == Some(number) => {
                Act::Begin(start_us)
            }
            // The share may have failed meanwhile.
            LeaderWord::Begin(..) => Act::Nothing,
            // The share may have ended by itself meanwhile.
            LeaderWord::Stop(number) if self.pressing == Some(number) => Act::Stop,
            LeaderWord::Stop(_) => Act::Nothing,
            LeaderWord::Over(ending) => {
                self.over = true;
                Act::End(ending)
            }
        }
    }

    /// Takes note that the share of this probe is over, and told.
    pub fn ended(&mut self, number: u64) {
        self.pressing = self.pressing.filter(|own| *own != number);
    }
}

#[cfg(test)]
#[path = "lockstep_tests.rs"]
mod tests;
