//! Parts merge into what one process would have recorded, or not at all.

use std::time::Duration;

use gate::Time;
use measure::Host;
use rand::RngExt;
use workload::tpcc::{Constants, Cycle, Inputs, Kind, Request, Terminal};

use measure::RunPart;

use super::super::parts::Share;
use super::super::record::Pace;
use super::super::tally::{Counted, Tally};
use super::super::transactions::{Delivered, Execution, Isolation, Screen};
use super::super::{Finding, Outcome};
use super::*;

fn plan() -> Plan {
    Plan {
        pace: Pace::Paced,
        warehouses: 5,
        connections: 6,
        ramp: Duration::from_secs(20),
        measure: Duration::from_secs(300),
        execution: Execution::Sql,
        isolation: Isolation::RepeatableRead,
        seed: 11,
    }
}

/// The work of a part's terminals, by chance that is each terminal's own, so that it is the same
/// whoever counts it.
fn counted(plan: &Plan, part: RunPart, whole: bool) -> Record {
    let (begin, end) = (Time::ZERO + plan.ramp, Time::ZERO + plan.ramp + plan.measure);
    let mut tally = Tally::new(begin, end, plan.bucket(), None);
    let inputs = Inputs::new(Constants::for_run(plan.seed, 100), plan.warehouses);
    let (mut open, mut performed) = (Vec::new(), 0);
    for seat in part.seats(plan) {
        let (warehouse, index) = (seat / 10 + 1, seat % 10);
        let mut terminal = Terminal::new(plan.seed, inputs, warehouse, index as u8);
        let mut chance = workload::stream(99, u64::from(seat));
        let mut now = Time::ZERO + Duration::from_millis(u64::from(seat) * 7);
        while now < end {
            let Cycle { request, keying, think } = terminal.cycle();
            let mut some = |most| Duration::from_micros(chance.random_range(0..most));
            let (late, took) = (some(3_000), some(2_000_000));
            let kind = request.kind();
            tally.picked(now, now + late, kind, keying);
            let sent = now + late + keying;
            if sent >= end {
                break;
            }
            tally.sent(sent, sent + some(500), kind);
            let screen = Screen::Delivery(Delivered { orders: vec![] });
            match chance.random_range(0..50) {
                0 => tally.failed(kind, (sent, sent), "40003", "unknown"),
                1 => tally.failed(kind, (sent, sent), "23505", "twice"),
                2..=12 if kind == Kind::Delivery => {
                    tally.deferred_failed(sent, "57014", "cancelled")
                }
                _ if sent + took < end => {
                    tally.answered(kind, sent, sent + took, chance.random_range(0..3));
                    tally.inputs(sent, sent + took, &request, &screen);
                    performed += 1;
                    if let Request::Delivery(_) = request {
                        match chance.random_range(0..9) {
                            0 => open.push(sent),
                            _ => tally.deferred(sent, sent + took * 3, chance.random_range(0..2)),
                        }
                    }
                }
                _ => {}
            }
            now = sent + took + think;
            tally.thinks(sent + took, kind, think);
        }
    }
    // The server's counters are seen by all, at moments of each one's own.
    for (at, timed) in [(0, 3), (100, 3), (150, 4), (290, 5)] {
        let own = if whole { 0 } else { part.number() - 1 };
        tally.checkpoints(Time::ZERO + Duration::from_secs(at + u64::from(own)), (timed, 1));
    }
    let parts = tally.close(end, &open, Duration::from_secs(80));
    record_of(plan, (!whole).then_some(part), parts, performed)
}

fn record_of(plan: &Plan, part: Option<RunPart>, parts: Counted, transactions: u64) -> Record {
    let own = part.unwrap_or(RunPart::WHOLE);
    let cpu_s = f64::from(own.seats(plan).len() as u32) / 64.0;
    let start_us = 1_700_000_000_000_000;
    Record {
        plan: plan.clone(),
        host: Host { name: format!("machine {}", own.number()), ..Host::default() },
        server: Server { c_load: 100, load_seed: 3, ..Server::default() },
        end: End::Complete,
        measured_s: 300.0,
        kinds: parts.kinds,
        menu: parts.menu,
        deferred: parts.deferred,
        inputs: parts.inputs,
        new_orders: parts.new_orders,
        checkpoints: parts.checkpoints,
        errors: parts.errors,
        error_first: parts.error_first,
        client: Client { cpu_s, elapsed_s: 320.0, transactions, lag: parts.lag },
        intervals: parts.intervals,
        machine_busy: parts.machine_busy,
        part: part.map(|part| PartRecord { part, start_us, clock_error_s: 1e-4, late_s: 0.0 }),
        merged: Vec::new(),
    }
}

fn parts(of: u32) -> Vec<Record> {
    let part = |number| format!("{number}/{of}").parse().unwrap();
    let plan = Plan { connections: 6 / of, ..plan() };
    (1..=of).map(|number| counted(&plan, part(number), false)).collect()
}

fn text(record: &Record) -> serde_json::Value {
    serde_json::to_value(record).unwrap()
}

#[test]
fn parts_merge_into_what_one_process_records() {
    let whole = counted(&plan(), RunPart::WHOLE, true);
    assert!(whole.completed() > 500 && whole.errors.len() == 3, "there is something to lose");
    assert!(whole.deferred.overdue > 0 && whole.deferred.skipped > 0, "{:?}", whole.deferred);
    for of in [2, 3] {
        let merged = Record::merge(&parts(of)).unwrap();
        let names: Vec<&str> = merged.merged.iter().map(|part| part.host.name.as_str()).collect();
        assert_eq!(names, ["machine 1", "machine 2", "machine 3"][..of as usize]);
        let alike = Record { merged: Vec::new(), ..merged.clone() };
        assert_eq!(text(&alike), text(&whole), "{of} parts");
        let (verdict, one) = (merged.judge(), whole.judge());
        assert_eq!(verdict.checks, one.checks, "and so it is judged");
        assert_eq!(verdict.outcome, one.outcome);
    }
}

#[test]
fn the_order_of_the_parts_does_not_matter() {
    let one = Record::merge(&parts(3)).unwrap();
    for order in [[1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        let parts = parts(3);
        let turned = order.map(|at: usize| parts[at].clone());
        assert_eq!(text(&Record::merge(&turned).unwrap()), text(&one));
    }
}

#[test]
fn a_record_that_was_kept_merges_as_it_was() {
    let kept = |record: &Record| serde_json::from_value(text(record)).unwrap();
    let again: Vec<Record> = parts(2).iter().map(kept).collect();
    assert_eq!(text(&Record::merge(&again).unwrap()), text(&Record::merge(&parts(2)).unwrap()));
}

fn refused(change: impl FnOnce(&mut Vec<Record>)) -> String {
    let mut parts = parts(3);
    change(&mut parts);
    Record::merge(&parts).unwrap_err().to_string()
}

#[test]
fn what_are_not_the_parts_of_one_run_is_refused() {
    let says = |text: String, words: &str| assert!(text.contains(words), "{text}");
    says(refused(Vec::clear), "no record");
    says(refused(|parts| parts.truncate(1)), "parts 2, 3 of 3 are missing");
    says(refused(|parts| drop(parts.remove(1))), "part 2 of 3 is missing");
    says(refused(|parts| parts[2] = parts[0].clone()), "part 1 is given twice");
    says(refused(|parts| parts[1].part = None), "record 2 is of a whole run");
    says(
        refused(|parts| parts[1].plan.seed = 12),
        "parts 1 and 2 are not of one run: the seed is 11 in the one and 12 in the other",
    );
    says(refused(|parts| parts[2].plan.warehouses = 6), "number of warehouses");
    says(refused(|parts| parts[2].plan.connections = 9), "number of connections");
    says(refused(|parts| parts[2].server.load_seed = 4), "seed of the load is 3");
    let other = |parts: &mut Vec<Record>| {
        parts[1].server.settings.insert("fsync".into(), "off".into());
    };
    says(refused(other), "the fsync is not said in the one and off in the other");
    let size = |parts: &mut Vec<Record>| {
        parts[0].part.as_mut().unwrap().part = "1/2".parse().unwrap();
    };
    says(refused(size), "number of parts is 2 in the one and 3 in the other");
}

#[test]
fn parts_that_did_not_begin_together_are_refused() {
    let shift = |change: fn(&mut PartRecord)| {
        let mut parts = parts(3);
        change(parts[1].part.as_mut().unwrap());
        Record::merge(&parts).map(drop)
    };
    assert_eq!(shift(|part| part.late_s = 0.9), Ok(()));
    let late = shift(|part| part.late_s = 1.1).unwrap_err();
    assert!(matches!(late, MergeError::Apart { one: 1, other: 2, .. }), "{late}");
    assert!(shift(|part| part.start_us += 3_600_000_000).is_err());
    assert!(shift(|part| part.start_us = i64::MIN).is_err());
    assert!(shift(|part| part.clock_error_s = 2.0).is_err());
    assert!(shift(|part| part.clock_error_s = f64::NAN).is_err());
}

#[test]
fn a_run_is_as_complete_as_its_least_complete_part() {
    let ended = |ends: [End; 2]| {
        let mut parts = parts(2);
        for (part, end) in parts.iter_mut().zip(ends) {
            part.end = end;
        }
        parts[1].measured_s = 55.0;
        parts[1].new_orders.truncate(7);
        let merged = Record::merge(&parts).unwrap();
        assert_eq!((merged.measured_s, merged.new_orders.len()), (300.0, 7));
        (merged.end.clone(), merged.judge().outcome)
    };
    let stopped = End::Interrupted(75.0);
    assert_eq!(ended([End::Complete, stopped.clone()]), (stopped.clone(), Outcome::Interrupted));
    let later = End::Interrupted(80.0);
    assert_eq!(ended([later, stopped.clone()]), (stopped.clone(), Outcome::Interrupted));
    let lost = End::Lost(75.0, "connection closed".into());
    let (end, outcome) = ended([lost.clone(), stopped]);
    assert_eq!(end, lost);
    assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome:?}");
}

#[test]
fn a_part_alone_is_no_verdict_and_is_judged_by_its_own_warehouses() {
    let plan = Plan { connections: 3, ..plan() };
    for (part, homes) in [("1/2", 2), ("2/2", 3)] {
        let part: RunPart = part.parse().unwrap();
        let record = counted(&plan, part, false);
        assert_eq!(record.warehouses(), homes);
        let verdict = record.judge();
        assert_eq!(verdict.outcome, Outcome::Part(part));
        let rate = verdict.checks.iter().find(|check| check.clause == "4.2.2").unwrap();
        assert_ne!(rate.finding, Finding::Violated, "{rate:?}");
    }
}

/// Among many, one machine that cannot keep up is lost in the percentiles of all.
#[test]
fn each_part_must_have_kept_up() {
    let mut slow = parts(3);
    let client = &mut slow[2].client;
    (client.cpu_s, client.elapsed_s) = (319.0, 320.0);
    let outcome = Record::merge(&slow).unwrap().judge().outcome;
    assert!(
        matches!(&outcome, Outcome::Invalid(why) if why.starts_with("part 3/3: ")),
        "{outcome:?}"
    );
    let mut busy = parts(3);
    busy.iter_mut().for_each(|part| part.client.cpu_s = 200.0);
    let merged = Record::merge(&busy).unwrap();
    assert_eq!(merged.client.cpu_s, 600.0);
    assert!(!matches!(merged.judge().outcome, Outcome::Invalid(_)), "three machines have three");
}
