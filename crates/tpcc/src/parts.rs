//! One plan in several processes: which terminals are whose, and what their meeting comes to. Pure;
//! `meeting.rs` asks the database.

use std::ops::{Range, RangeInclusive};

use measure::parts::difference;
use measure::{Difference, RunPart};

use super::record::{Pace, Plan};

/// The share of a plan that is a part's.
pub(super) trait Share {
    /// The active warehouses at which the terminals of this part are at home, of a plan that is
    /// paced: neighbours, and as many in each part as in any other, or one more.
    fn warehouses(self, plan: &Plan) -> RangeInclusive<u32>;

    /// The terminals of this part, by their numbers from 0 among those of all parts. Without waits
    /// each part has a terminal a connection, so that those of the parts add up.
    fn seats(self, plan: &Plan) -> Range<u32>;

    /// The terminals of all parts.
    fn seats_of_all(self, plan: &Plan) -> u32;
}

impl Share for RunPart {
    fn warehouses(self, plan: &Plan) -> RangeInclusive<u32> {
        let before = self.before(plan.warehouses);
        before + 1..=before + self.share(plan.warehouses)
    }

    fn seats(self, plan: &Plan) -> Range<u32> {
        match plan.pace {
            Pace::Paced | Pace::Hastened(_) => {
                let homes = self.warehouses(plan);
                let each = u32::from(workload::tpcc::rules::TERMINALS);
                (homes.start() - 1) * each..homes.end() * each
            }
            Pace::Stress => {
                (self.number() - 1) * plan.connections..self.number() * plan.connections
            }
        }
    }

    fn seats_of_all(self, plan: &Plan) -> u32 {
        match plan.pace {
            Pace::Paced | Pace::Hastened(_) => plan.terminals(),
            Pace::Stress => plan.terminals() * self.of(),
        }
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

/// The state of a part's meeting, in view of those who are there; it may be one of them.
pub(super) fn standing(part: RunPart, plan: &[String], present: &[Present]) -> Standing {
    let own = present.iter().find(|other| other.number == part.number());
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
    let missing: Vec<u32> = (1..=part.of())
        .filter(|number| *number != part.number() && !here.contains(number))
        .collect();
    match (missing.is_empty(), own) {
        (true, Some(_)) => Standing::Complete,
        _ => Standing::Missing(missing),
    }
}

/// The facts of a plan, and of those who run it, as parts tell them each other.
pub(super) fn told(part: RunPart, plan: &Plan) -> Vec<String> {
    let version = ("version of sekisho", env!("CARGO_PKG_VERSION").to_owned());
    let facts = [version, ("number of parts", part.of().to_string())];
    let facts = facts.into_iter().chain(plan.facts());
    facts.map(|(name, value)| format!("{name}: {value}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Execution, Isolation};
    use super::*;

    fn part(number: u32, of: u32) -> RunPart {
        format!("{number}/{of}").parse().unwrap()
    }

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
                let parts = (1..=of).map(|number| part(number, of));
                let mut next = 0;
                for part in parts {
                    let seats = part.seats(&plan);
                    assert_eq!(seats.start, next);
                    assert!(!seats.is_empty(), "{part:?}");
                    next = seats.end;
                }
                assert_eq!(next, part(of, of).seats_of_all(&plan));
                let sizes = (1..=of).map(|number| part(number, of).warehouses(&plan).count());
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= 1, "{least} to {most} warehouses a part");
            }
        }
    }

    fn present(number: u32, of: u32, plan: &Plan, start_us: Option<i64>) -> Present {
        Present { number, plan: told(part(number, of), plan), start_us }
    }

    fn stands(present: &[Present]) -> Standing {
        let part = part(2, 3);
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
}
