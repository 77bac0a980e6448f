//! The six published failures of limiters that adapt, on the driver of every live gate: the same gate,
//! model, controllers and recording, in virtual time. A service with 4 servers of 10 ms stands in
//! for the database, so 400 jobs a second are the most that it does.
//!
//! Seeds are fixed, and what is asserted are numbers of slots that a limiter which has failed leaves by
//! far.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use gate::{Conduct, GateSpec, Job, JobId, Time};

use live::model::Work;
use live::{Auto, Driver, SlotGuard};

use crate::chance::Chance;

const SERVERS: usize = 4;

/// Next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives,
    Served(Slot2),
    Departs(Slot2),
}

/// A slot that has an order.
type Slot2 = (u32, u32);

/// A service behind a gate whose slots are left to it, and what comes.
struct Service {
    /// Arrivals a second, at each moment.
    rate: fn(f64) -> f64,
    /// Mean time at one of the servers, at each moment \[s\].
    demand: fn(f64) -> f64,
    /// Mean time at what it calls, which many may do at once \[s\].
    calls: fn(f64) -> f64,
    /// True if every job fails, as if it had timed out.
    fails: bool,
}

const USUAL: Service = Service { rate: |_| 600.0, demand: |_| 0.01, calls: |_| 0.0, fails: false };

struct Ran {
    /// The slots that stood, second by second.
    standing: Vec<u32>,
    done: Vec<u32>,
    moves: u64,
    driver: Driver<()>,
}

impl Service {
    fn run(&self, seconds: u32, auto: &Auto, start: u32, seed: u64) -> Ran {
        let spec = GateSpec {
            room: Some(100),
            wait_max: Some(Duration::from_secs(100)),
            ..GateSpec::fifo(start)
        };
        let mut driver = Driver::new(&spec, 1, 100_000).unwrap().modelled(Some(auto));
        let mut run = Run {
            service: self,
            chance: Chance(seed),
            calendar: BinaryHeap::from([Reverse((0, What::Arrives))]),
            queue: VecDeque::new(),
            held: BTreeMap::new(),
            working: 0,
        };
        let (mut standing, mut done) = (Vec::new(), vec![0; seconds as usize + 1]);
        let end = u64::from(seconds) * 1_000_000_000;
        while let Some(Reverse((now, what))) = run.calendar.pop().filter(|next| next.0.0 < end) {
            let second = now / 1_000_000_000;
            while standing.len() as u64 <= second {
                standing.push(driver.controlled().unwrap().standing[0]);
            }
            if matches!(what, What::Departs(_)) {
                done[second as usize] += 1;
            }
            run.happens(now, what, &mut driver);
        }
        let moves = driver.controlled().unwrap().made;
        Ran { standing, done, moves, driver }
    }
}

struct Run<'a> {
    service: &'a Service,
    chance: Chance,
    calendar: BinaryHeap<Reverse<(u64, What)>>,
    queue: VecDeque<Slot2>,
    held: BTreeMap<Slot2, SlotGuard>,
    working: usize,
}

impl Run<'_> {
    fn happens(&mut self, now: u64, what: What, driver: &mut Driver<()>) {
        let at = Time::from_nanos(now);
        let seconds = at.since(Time::ZERO).as_secs_f64();
        match what {
            What::Arrives => {
                driver.arrive(at, (), at, Job::new(JobId(0)));
                let gap = self.chance.exponential(1.0 / (self.service.rate)(seconds));
                self.after(now, gap, What::Arrives);
            }
            What::Served(slot) => {
                self.working -= 1;
                let calls = self.chance.exponential((self.service.calls)(seconds));
                self.after(now, calls, What::Departs(slot));
            }
            What::Departs(slot) => {
                let work = if self.service.fails { Work::Failed } else { Work::Done };
                let guard = self.held.remove(&slot).expect("it is held");
                driver.depart(at, guard, work);
            }
        }
        while let Some(decision) = driver.next_decision() {
            if let Ok(guard) = decision.outcome {
                let slot = driver.slot_of(&guard);
                self.queue.push_back((slot.server, slot.index));
                self.held.insert((slot.server, slot.index), guard);
            }
        }
        while self.working < SERVERS && !self.queue.is_empty() {
            let slot = self.queue.pop_front().expect("it is not empty");
            self.working += 1;
            let demand = self.chance.exponential((self.service.demand)(seconds));
            self.after(now, demand, What::Served(slot));
        }
    }

    fn after(&mut self, now: u64, seconds: f64, what: What) {
        self.calendar.push(Reverse((now + (seconds * 1e9) as u64, what)));
    }
}

fn auto() -> Auto {
    Auto { floor: 1, ceiling: 100, ..Auto::default() }
}

/// The most and the fewest that stood from a second on.
fn stood(ran: &Ran, from: usize) -> (u32, u32) {
    let later = || ran.standing[from..].iter().copied();
    (later().min().unwrap(), later().max().unwrap())
}

#[test]
fn it_comes_to_what_the_service_can_use_and_its_recording_replays() {
    for (start, seed) in [(40, 1), (1, 2)] {
        let ran = USUAL.run(600, &auto(), start, seed);
        let (least, most) = stood(&ran, 500);
        assert!(least >= 4 && most <= 12, "{start}: {least} to {most}, {:?}", ran.standing);
        let end: u32 = ran.done[500..600].iter().sum();
        assert!(end >= 38_000, "95 % of 400/s is kept, trials included: {end} in 100 s");
        let recording = ran.driver.recording().unwrap();
        assert_eq!(recording.replay(), Ok(()));
        let resize = |step: &measure::Step| matches!(step.event, gate::Event::Resize { .. });
        assert!(recording.steps.iter().any(resize), "the resizes are in it");
    }
}

#[test]
fn failure_1_a_modest_overload_does_not_let_it_grow() {
    let modest = Service { rate: |_| 500.0, ..USUAL };
    let (_, most) = stood(&modest.run(1200, &auto(), 6, 3), 0);
    assert!(most <= 12, "{most}");
}

#[test]
fn failure_2_flat_time_outs_do_not_let_it_climb() {
    let flat = Service { fails: true, ..USUAL };
    let ran = flat.run(600, &auto(), 6, 4);
    assert_eq!((stood(&ran, 0), ran.moves), ((6, 6), 0), "nothing done says nothing");
}

#[test]
fn failure_3_a_slow_dependency_is_not_taken_for_overload() {
    // 8 slots fill the servers before, 44 while what is called takes ten times as long.
    let slow =
        Service { calls: |at| if (600.0..1500.0).contains(&at) { 0.1 } else { 0.01 }, ..USUAL };
    let ran = slow.run(2400, &auto(), 10, 5);
    let at = |second: usize| ran.standing[second];
    let found = [at(599), at(1499), at(2399)];
    assert!((5..=22).contains(&found[0]), "{found:?}");
    assert!(found[1] >= 25, "more are needed while it is slow: {found:?}");
    assert!((5..=30).contains(&found[2]), "and fewer again: {found:?}");
}

#[test]
fn failure_4_a_sustained_overload_does_not_let_it_climb() {
    let (least, most) = stood(&USUAL.run(3600, &auto(), 6, 6), 0);
    assert!(least >= 3 && most <= 12, "{least} to {most}");
}

#[test]
fn failure_5_windows_without_samples_change_nothing() {
    let silent =
        Service { rate: |at| if (600.0..1800.0).contains(&at) { 0.01 } else { 600.0 }, ..USUAL };
    let ran = silent.run(2400, &auto(), 6, 7);
    let before = ran.standing[600];
    let (least, most) =
        (ran.standing[601..1800].iter().min(), ran.standing[601..1800].iter().max());
    assert_eq!((least, most), (Some(&before), Some(&before)), "nothing moves in silence");
    let (least, most) = stood(&ran, 0);
    assert!(least >= 3 && most <= 12, "{least} to {most}");
}

#[test]
fn failure_6_a_drifting_latency_does_not_matter() {
    // Four times slower in the end, a little each second; as many slots are right all the time.
    let drifting = Service { demand: |at| 0.01 * 4.0_f64.powf((at / 1800.0).min(1.0)), ..USUAL };
    let (least, most) = stood(&drifting.run(2400, &auto(), 6, 8), 0);
    assert!(least >= 3 && most <= 14, "{least} to {most}");
}

#[test]
fn a_shadow_follows_the_model_and_changes_nothing() {
    let shadow = Auto { conduct: Conduct::Shadows, ..auto() };
    // Arrivals below what it can do, so that most levels are seen.
    let light = Service { rate: |_| 360.0, ..USUAL };
    let ran = light.run(300, &shadow, 40, 9);
    assert_eq!(ran.driver.slots(), 40);
    let standing = *ran.standing.last().unwrap();
    assert!((4..=12).contains(&standing), "{standing}");
    let recording = ran.driver.recording().unwrap();
    let resize = |step: &measure::Step| matches!(step.event, gate::Event::Resize { .. });
    assert!(!recording.steps.iter().any(resize));
}
