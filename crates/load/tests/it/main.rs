//! The engine against small servers, good and bad, on loopback.
#![allow(clippy::unwrap_used)]

mod closed;
mod faults;
mod http2;
mod open;
mod parts;
mod requests;
mod server;
mod tls;
mod trial;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::http::{Load, Naming, Plan, PlanSpec, Reach, Target, record};
use measure::{ErrorKind, RunRecord, Until};
use workload::Dist;

fn naming() -> Naming {
    Naming {
        id: "test".into(),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "test".into(),
        command: Vec::new(),
    }
}

/// A closed load without thinking, with limits that keep a test short.
fn closed(url: &str, clients: u32, until: Until) -> PlanSpec {
    spec(url, Load::Closed { clients, think: Dist::Constant(0.0) }, until)
}

fn spec(url: &str, load: Load, until: Until) -> PlanSpec {
    let target = Target::parse(url, Reach::Private).unwrap();
    let mut spec = PlanSpec::new(target, load, until);
    spec.interval = Duration::from_millis(100);
    spec.response_max = Duration::from_secs(10);
    spec
}

fn run(spec: PlanSpec) -> RunRecord {
    let plan = Plan::new(spec).unwrap();
    record(&plan, naming(), &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn completed(record: &RunRecord) -> u64 {
    sum(record, |class| class.completed)
}

fn failed(record: &RunRecord, kind: ErrorKind) -> u64 {
    sum(record, |class| class.errors.get(&kind).copied().unwrap_or(0))
}

fn failed_in_all(record: &RunRecord) -> u64 {
    sum(record, |class| class.errors.values().sum())
}

fn sum(record: &RunRecord, of: impl Fn(&measure::ClassCounts) -> u64) -> u64 {
    record.intervals.iter().flat_map(|interval| &interval.classes).map(of).sum()
}

fn warns(record: &RunRecord, words: &str) -> bool {
    let summary = record.summary.as_ref().expect("a complete record");
    summary.warnings.iter().any(|warning| warning.contains(words))
}

/// Response times of all classes, merged.
fn responses(record: &RunRecord) -> measure::Histogram {
    let mut all = measure::Histogram::new();
    for class in record.intervals.iter().flat_map(|interval| &interval.classes) {
        all.merge(&class.total);
    }
    all
}
