//! A live gate and the same gate in virtual time: what a real gate did under real load is done again
//! from its recording, and the books of both agree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gate::{Action, Event, Gate, JobId, Slot, Time};
use httpgate::Finished;
use load::http::{Load, Naming, Plan, PlanSpec, Reach, Request, Target};
use measure::{Recording, Until};
use workload::{Arrivals, Dist, Document, DocumentSet};

use crate::records::DOCUMENTS;
use crate::site::{Recorded, alone, server};

/// Presses a gate with 1000 requests, and changes its slots in the middle.
fn pressed(load: Load) -> Finished {
    let _live = alone();
    let origin = server();
    let site = Recorded::before(origin.address(), 2);
    let target = Target::parse(&site.url(), Reach::Private).expect("it is a URL");
    let mut spec = PlanSpec::new(target, load, Until::Requests(1000));
    let documents =
        DOCUMENTS.map(|(name, bytes, weight)| Document { name: name.into(), bytes, weight });
    let documents = DocumentSet::new(documents.into()).expect("it is a set");
    spec.requests = Request::documents(&spec.target, &documents);
    spec.interval = Duration::from_millis(20);
    spec.warmup = Duration::ZERO;
    let plan = Plan::new(spec).expect("it can be run");
    let naming = Naming {
        id: "live".into(),
        started: "2026-11-20T11:30:00Z".into(),
        tool: "sekisho test".into(),
        command: Vec::new(),
    };
    let slots = [5, 1, 4];
    let mut seen = 0;
    let record = load::http::record(&plan, naming, &AtomicBool::new(false), &mut |_| {
        if let Some(slots) = slots.get(seen) {
            site.gate.resize(0, *slots).expect("the gate runs");
        }
        seen += 1;
    })
    .expect("the engine starts");
    assert!(seen >= 2, "no change was made under load");
    let completed: u64 =
        record.intervals.iter().flat_map(|i| &i.classes).map(|class| class.completed).sum();
    assert!(completed > 500, "hardly any load: {completed}");
    let finished = site.stop();
    origin.stop();
    finished
}

fn agrees(finished: &Finished) {
    let recording = finished.recording.as_ref().expect("it was asked for");
    assert!(!recording.truncated);
    let resized = recording.steps.iter().filter(|step| matches!(step.event, Event::Resize { .. }));
    assert!(resized.count() >= 2);
    if let Err(divergence) = recording.replay() {
        panic!("{divergence}");
    }
    // Through a file it is the same recording.
    let mut file = Vec::new();
    recording.write(&mut file).expect("memory has room");
    let read = Recording::read(file.as_slice(), usize::MAX).expect("it reads what it writes");
    assert_eq!(&read, recording);

    let measures = recording.measures().expect("a live gate keeps the protocol");
    let server = &finished.stats.upstreams[0];
    assert_eq!(measures.unfinished, 0);
    assert_eq!(measures.served.len() as u64, server.hold.count());
    assert_eq!(measures.reneged, finished.stats.reneged);
    let sum =
        |of: fn(&measure::JobTimes) -> Duration| measures.served.iter().map(of).sum::<Duration>();
    let (waits, holds) = (sum(|job| job.wait), sum(|job| job.hold));
    assert!(waits > Duration::ZERO, "nobody waited, so nothing was tried");
    // The moment of a step is that of its statistics.
    assert_eq!((waits, holds), (server.wait.sum(), server.hold.sum()));
    assert_eq!(virtual_waits(recording), live_waits(recording));
}

/// The wait of each job that was started, as it was recorded.
fn live_waits(recording: &Recording) -> BTreeMap<JobId, Duration> {
    let mut arrived = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for step in &recording.steps {
        if let Event::Arrive(job) = step.event {
            arrived.insert(job.id, step.at);
        }
        for action in &step.actions {
            if let Action::Start { job, .. } = action {
                waits.insert(*job, step.at.since(arrived[job]));
            }
        }
    }
    waits
}

/// The wait of each job that is started when the same jobs come at the same times and hold their slots
/// for as long as they did live: a simulation that is told nothing of when jobs were started.
fn virtual_waits(recording: &Recording) -> BTreeMap<JobId, Duration> {
    let mut holds = BTreeMap::new();
    let mut held: BTreeMap<Slot, (JobId, Time)> = BTreeMap::new();
    let mut outside = Vec::new();
    for step in &recording.steps {
        match step.event {
            Event::Depart(slot) => {
                let (job, since) = held.remove(&slot).expect("it was held");
                holds.insert(job, step.at.since(since));
            }
            event => outside.push((step.at, event)),
        }
        for action in &step.actions {
            if let Action::Start { job, slot } = *action {
                held.insert(slot, (job, step.at));
            }
        }
    }
    let mut gate = Gate::new(&recording.spec).expect("it existed");
    let mut departures: BinaryHeap<Reverse<(Time, Slot)>> = BinaryHeap::new();
    let mut outside = outside.into_iter().peekable();
    let (mut arrived, mut waits, mut actions) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    loop {
        let next = departures.peek().map(|Reverse((at, _))| *at);
        let (now, event) = match (next, outside.peek()) {
            (None, None) => return waits,
            (Some(at), Some((other, _))) if at <= *other => depart(&mut departures, at),
            (Some(at), None) => depart(&mut departures, at),
            (_, Some(_)) => outside.next().expect("it was peeked at"),
        };
        if let Event::Arrive(job) = event {
            arrived.insert(job.id, now);
        }
        actions.clear();
        gate.handle(now, event, &mut actions);
        for action in &actions {
            if let Action::Start { job, slot } = *action {
                waits.insert(job, now.since(arrived[&job]));
                departures.push(Reverse((now + holds[&job], slot)));
            }
        }
    }
}

fn depart(departures: &mut BinaryHeap<Reverse<(Time, Slot)>>, at: Time) -> (Time, Event) {
    let Reverse((_, slot)) = departures.pop().expect("it was peeked at");
    (at, Event::Depart(slot))
}

#[test]
fn a_closed_load_on_a_live_gate_is_done_again_in_virtual_time() {
    agrees(&pressed(Load::Closed { clients: 12, think: Dist::Constant(0.0) }));
}

#[test]
fn an_open_load_on_a_live_gate_is_done_again_in_virtual_time() {
    let arrivals = Arrivals::Poisson { rate: 300.0 };
    agrees(&pressed(Load::Open { arrivals, in_flight_max: 1000 }));
}
