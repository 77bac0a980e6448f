//! One plan in several processes: which terminals are whose, and what their meeting comes to. Pure;
//! `meeting.rs` asks the database.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::record::{Pace, Plan};

/// No run has more parts.
const PARTS_MAX: u32 = 1_000;

/// One of several processes that run a plan together, written `1/2`. Each has a share of the plan's
/// terminals; their chance, and so what all of them ask for, is what it is in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunPart {
    number: u32,
    of: u32,
}

/// A text that names no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no part of a run: it is K/N, K from 1 to N, and N at most {PARTS_MAX}")]
pub struct NotAPart(String);

impl RunPart {
    /// A run in one process.
    pub(super) const WHOLE: RunPart = RunPart { number: 1, of: 1 };

    /// Its number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// The number of parts, 1000 at most.
    pub fn of(self) -> u32 {
        self.of
    }

    /// The active warehouses at which the terminals of this part are at home, of a plan that is
    /// paced: neighbours, and as many in each part as in any other, or one more.
    pub fn warehouses(self, plan: &Plan) -> RangeInclusive<u32> {
        let RunPart { number, of } = self;
        let until =
            |parts: u32| (u64::from(plan.warehouses) * u64::from(parts) / u64::from(of)) as u32;
        until(number - 1) + 1..=until(number)
    }

    /// The terminals of this part, by their numbers from 0 among those of all parts. Without waits
    /// each part has a terminal a connection, so that those of the parts add up.
    pub(super) fn seats(self, plan: &Plan) -> Range<u32> {
        match plan.pace {
            Pace::Paced | Pace::Hastened(_) => {
                let homes = self.warehouses(plan);
                let each = u32::from(workload::tpcc::rules::TERMINALS);
                (homes.start() - 1) * each..homes.end() * each
            }
            Pace::Stress => (self.number - 1) * plan.connections..self.number * plan.connections,
        }
    }

    /// The terminals of all parts.
    pub(super) fn seats_of_all(self, plan: &Plan) -> u32 {
        match plan.pace {
            Pace::Paced | Pace::Hastened(_) => plan.terminals(),
            Pace::Stress => plan.terminals() * self.of,
        }
    }
}

impl FromStr for RunPart {
    type Err = NotAPart;

    fn from_str(text: &str) -> Result<RunPart, NotAPart> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            Some(RunPart { number, of })
        });
        let exists = |part: &RunPart| part.of <= PARTS_MAX && (1..=part.of).contains(&part.number);
        parsed.filter(exists).ok_or_else(|| NotAPart(text.to_owned()))
    }
}

impl TryFrom<String> for RunPart {
    type Error = NotAPart;

    fn try_from(text: String) -> Result<RunPart, NotAPart> {
        text.parse()
    }
}

impl From<RunPart> for String {
    fn from(part: RunPart) -> String {
        part.to_string()
    }
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Plan {
    /// The facts of a plan that must be the same in all parts: names, and values as a person reads
    /// them.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let Plan { pace, warehouses, connections, ramp, measure, execution, isolation, seed } =
            self;
        vec![
            ("pace", format!("{pace:?}").to_lowercase()),
            ("number of warehouses", warehouses.to_string()),
            ("number of connections", connections.to_string()),
            ("ramp", format!("{ramp:?}")),
            ("measurement interval", format!("{measure:?}")),
            ("execution", format!("{execution:?}").to_lowercase()),
            ("isolation", isolation.name().to_owned()),
            ("seed", seed.to_string()),
        ]
    }
}

/// A part that has come, as the database remembers it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Present {
    pub(super) number: u32,
    /// The facts of its plan, `name: value`.
    pub(super) plan: Vec<String>,
    /// When its run begins or began, by the database's clock \[us since 1970\].
    pub(super) start_us: Option<i64>,
}

/// State of a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// All are here: the start can be laid down.
    Complete,
    /// The start is laid down \[us since 1970, by the database's clock\].
    Starts(i64),
    /// These are missing.
    Missing(Vec<u32>),
    /// These are still in another run.
    UnderWay(Vec<u32>),
    /// Another part waits with another plan.
    Differs(Difference),
}

/// Two parts whose plans are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The other part.
    pub part: u32,
    /// The thing that differs, in words.
    pub what: String,
    /// Its value there.
    pub there: String,
    /// Its value here.
    pub here: String,
}

/// The state of a part's meeting, in view of those who are there; it may be one of them.
pub(super) fn standing(part: RunPart, plan: &[String], present: &[Present]) -> Standing {
    let own = present.iter().find(|other| other.number == part.number);
    if let Some(start) = own.and_then(|own| own.start_us) {
        return Standing::Starts(start);
    }
    let numbers = |these: &dyn Fn(&Present) -> bool| -> Vec<u32> {
        present.iter().filter(|other| these(other)).map(|other| other.number).collect()
    };
    // Who starts was present with all others: without a start of its own, this is another run.
    let under_way = numbers(&|other| other.start_us.is_some());
    if !under_way.is_empty() {
        return Standing::UnderWay(under_way);
    }
    let differs = present.iter().find_map(|other| difference(other.number, &other.plan, plan));
    if let Some(difference) = differs {
        return Standing::Differs(difference);
    }
    let here = numbers(&|_| true);
    let missing: Vec<u32> =
        (1..=part.of).filter(|number| *number != part.number && !here.contains(number)).collect();
    match (missing.is_empty(), own) {
        (true, Some(_)) => Standing::Complete,
        _ => Standing::Missing(missing),
    }
}

/// The first fact in which two plans differ; a fact that only one of them has is one.
fn difference(part: u32, there: &[String], here: &[String]) -> Option<Difference> {
    let at = (0..there.len().max(here.len())).find(|&at| there.get(at) != here.get(at))?;
    let halves = |facts: &[String]| {
        let fact = facts.get(at).cloned().unwrap_or_default();
        match fact.split_once(": ") {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (fact, String::from("not said")),
        }
    };
    let ((name, value), (own, here)) = (halves(there), halves(here));
    let what = if name.is_empty() { own } else { name };
    Some(Difference { part, what, there: value, here })
}

/// The facts of a plan, and of those who run it, as parts tell them each other.
pub(super) fn told(part: RunPart, plan: &Plan) -> Vec<String> {
    let version = ("version of sekisho", env!("CARGO_PKG_VERSION").to_owned());
    let facts = [version, ("number of parts", part.of.to_string())];
    let facts = facts.into_iter().chain(plan.facts());
    facts.map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Numbers of parts, as a message names them: `part 2`, `parts 2, 3`.
pub(super) fn named(numbers: &[u32]) -> String {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let s = if numbers.len() == 1 { "" } else { "s" };
    format!("part{s} {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Execution, Isolation};
    use super::*;

    fn plan() -> Plan {
        Plan {
            pace: Pace::Paced,
            warehouses: 7,
            connections: 3,
            ramp: Duration::from_secs(30),
            measure: Duration::from_secs(120),
            execution: Execution::Sql,
            isolation: Isolation::RepeatableRead,
            seed: 1,
        }
    }

    #[test]
    fn parts_share_the_terminals_without_gap_or_overlap() {
        for pace in [Pace::Paced, Pace::Stress, Pace::Hastened(3.try_into().unwrap())] {
            for (warehouses, of) in [(7, 1), (7, 2), (7, 7), (100_000, 999)] {
                let plan = Plan { pace, warehouses, ..plan() };
                let parts = (1..=of).map(|number| RunPart { number, of });
                let mut next = 0;
                for part in parts {
                    let seats = part.seats(&plan);
                    assert_eq!(seats.start, next);
                    assert!(!seats.is_empty(), "{part:?}");
                    next = seats.end;
                }
                assert_eq!(next, RunPart { number: of, of }.seats_of_all(&plan));
                let sizes = (1..=of).map(|number| RunPart { number, of }.warehouses(&plan).count());
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= 1, "{least} to {most} warehouses a part");
            }
        }
    }

    fn present(number: u32, of: u32, plan: &Plan, start_us: Option<i64>) -> Present {
        Present { number, plan: told(RunPart { number, of }, plan), start_us }
    }

    fn stands(present: &[Present]) -> Standing {
        let part = RunPart { number: 2, of: 3 };
        standing(part, &told(part, &plan()), present)
    }

    #[test]
    fn a_meeting_is_complete_when_all_are_there() {
        let here = |number| present(number, 3, &plan(), None);
        assert_eq!(stands(&[]), Standing::Missing(vec![1, 3]));
        assert_eq!(stands(&[here(2), here(3)]), Standing::Missing(vec![1]));
        assert_eq!(stands(&[here(1), here(2), here(3)]), Standing::Complete);
        // As long as it has not said so itself, it is not there.
        assert_eq!(stands(&[here(1), here(3)]), Standing::Missing(vec![]));
        let starts = |number| present(number, 3, &plan(), Some(77));
        assert_eq!(stands(&[starts(1), starts(2), starts(3)]), Standing::Starts(77));
        // One that was lost after the start was laid down changes nothing.
        assert_eq!(stands(&[starts(2), starts(3)]), Standing::Starts(77));
    }

    #[test]
    fn who_is_still_in_another_run_is_waited_for_whatever_its_plan() {
        let other = Plan { seed: 9, ..plan() };
        let busy = present(1, 2, &other, Some(5));
        assert_eq!(stands(&[busy, present(3, 3, &plan(), None)]), Standing::UnderWay(vec![1]));
    }

    #[test]
    fn what_differs_is_named() {
        let differs = |of, change: fn(&mut Plan)| {
            let mut other = plan();
            change(&mut other);
            let Standing::Differs(found) = stands(&[present(1, of, &other, None)]) else {
                panic!("they differ")
            };
            assert_eq!(found.part, 1);
            format!("{}: {} there, {} here", found.what, found.there, found.here)
        };
        assert_eq!(differs(4, |_| ()), "number of parts: 4 there, 3 here");
        assert_eq!(differs(3, |plan| plan.seed = 4), "seed: 4 there, 1 here");
        assert_eq!(differs(3, |plan| plan.warehouses = 8), "number of warehouses: 8 there, 7 here");
        assert_eq!(
            differs(3, |plan| plan.connections = 8),
            "number of connections: 8 there, 3 here"
        );
        assert_eq!(
            differs(3, |plan| plan.measure = Duration::from_secs(9)),
            "measurement interval: 9s there, 120s here"
        );
        assert_eq!(differs(3, |plan| plan.ramp = Duration::ZERO), "ramp: 0ns there, 30s here");
        assert_eq!(
            differs(3, |plan| plan.isolation = Isolation::Serializable),
            "isolation: serializable there, repeatable read here"
        );
        assert_eq!(
            differs(3, |plan| plan.execution = Execution::Functions),
            "execution: functions there, sql here"
        );
        assert_eq!(differs(3, |plan| plan.pace = Pace::Stress), "pace: stress there, paced here");
        let old = Present { number: 1, plan: vec!["version of sekisho: 0".into()], start_us: None };
        let Standing::Differs(found) = stands(&[old]) else { panic!("it is older") };
        assert_eq!((found.what.as_str(), found.there.as_str()), ("version of sekisho", "0"));
    }

    #[test]
    fn a_part_is_written_as_it_is_read() {
        for text in ["1/1", "2/3", "1000/1000"] {
            assert_eq!(text.parse::<RunPart>().unwrap().to_string(), text);
        }
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1/1001"] {
            let error = text.parse::<RunPart>().unwrap_err();
            assert_eq!(error, NotAPart(text.into()));
        }
    }

    #[test]
    fn numbers_are_named() {
        assert_eq!(named(&[2]), "part 2");
        assert_eq!(named(&[2, 3]), "parts 2, 3");
    }
}
