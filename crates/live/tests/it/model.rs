//! The model of what is behind a gate, against closed networks whose demand is known: simulated event
//! by event here, answered by mean value analysis.
//!
//! Seeds are fixed. What is asserted of many seeds are shares of intervals that cover: nominally 95 %,
//! and the bounds below are what a correct method fails once in thousands.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use gate::{Band, Slot, Time};
use live::model::{Model, Now, Refusal, Work};
use live::{Estimate, WhatIf};
use solve::{ClosedNetwork, Station};

use crate::chance::Chance;

/// Clients that think, a gate of slots, and behind it a delay and a station of like servers.
#[derive(Clone, Copy)]
struct Closed {
    clients: u32,
    think: f64,
    slots: u32,
    delay: f64,
    demand: f64,
    servers: usize,
    /// By what the demand grows with each slot held beyond the first.
    slower: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives,
    Reaches(u32),
    Departs(u32),
}

impl Closed {
    /// Runs for so long, and tells a model. Jobs done a second.
    fn run(&self, seconds: f64, seed: u64, model: &mut Model) -> f64 {
        let mut chance = Chance(seed);
        let mut calendar = BinaryHeap::new();
        let after = |now: u64, seconds: f64| now + (seconds * 1e9) as u64;
        for _ in 0..self.clients {
            calendar.push(Reverse((after(0, chance.exponential(self.think)), What::Arrives)));
        }
        let mut free: Vec<u32> = (0..self.slots).rev().collect();
        let (mut waiting, mut queue, mut working) = (0_u64, VecDeque::new(), 0);
        let mut done = 0;
        let end = after(0, seconds);
        while let Some(Reverse((now, what))) = calendar.pop().filter(|next| next.0.0 < end) {
            let at = Time::from_nanos(now);
            model.pass(at);
            match what {
                What::Arrives => {
                    model.arrived();
                    waiting += 1;
                }
                What::Reaches(slot) => queue.push_back(slot),
                What::Departs(slot) => {
                    model.departed(at, Slot { server: 0, index: slot }, Work::Done);
                    done += 1;
                    working -= 1;
                    free.push(slot);
                    let back = after(now, chance.exponential(self.think));
                    calendar.push(Reverse((back, What::Arrives)));
                }
            }
            while waiting > 0 && !free.is_empty() {
                let slot = free.pop().unwrap();
                waiting -= 1;
                model.started(at, Slot { server: 0, index: slot }, slot % 2);
                let reaches = after(now, chance.exponential(self.delay));
                calendar.push(Reverse((reaches, What::Reaches(slot))));
            }
            let held = self.slots - free.len() as u32;
            while working < self.servers && !queue.is_empty() {
                working += 1;
                let demand = self.demand * (1.0 + self.slower * f64::from(held - 1));
                let departs = after(now, chance.exponential(demand));
                calendar.push(Reverse((departs, What::Departs(queue.pop_front().unwrap()))));
            }
            model.level(0, held, waiting);
        }
        f64::from(done) / seconds
    }

    fn inside(&self) -> [Station; 2] {
        let station = Station::multi(self.demand, self.servers as u32).unwrap();
        [Station::delay(self.delay).unwrap(), station]
    }

    fn now(&self) -> Now {
        Now { clients: self.clients, servers: 1, slots: self.slots }
    }
}

/// Half the slots are held on average, so that most levels are seen.
const USUAL: Closed = Closed {
    clients: 40,
    think: 0.15,
    slots: 16,
    delay: 0.02,
    demand: 0.01,
    servers: 2,
    slower: 0.0,
};

fn named<'a>(rows: &'a [Estimate], what: &str) -> &'a Estimate {
    rows.iter().find(|row| row.what == what).unwrap_or_else(|| panic!("no {what} in {rows:?}"))
}

fn estimates(model: &Model) -> Vec<Estimate> {
    model.estimates("shop/alice", |class| format!("c{class}"))
}

fn covers(row: &Estimate, value: f64) -> bool {
    let (low, high) = row.interval.unwrap();
    assert!(low <= row.value && row.value <= high, "{row:?}");
    low <= value && value <= high
}

#[test]
fn intervals_cover_the_demand_the_delay_and_the_knee() {
    let other = Closed { servers: 1, think: 0.4, delay: 0.03, ..USUAL };
    let (mut covered, mut all) = ([0; 5], 0);
    let mut widths = Vec::new();
    for (closed, seed) in [USUAL, other].into_iter().flat_map(|one| (0..20).map(move |k| (one, k)))
    {
        let mut model = Model::new(1);
        closed.run(60.0, 0x5eed + seed, &mut model);
        let rows = estimates(&model);
        let alone = closed.demand + closed.delay;
        let most = closed.servers as f64 / closed.demand;
        let truth = [
            ("time alone", alone),
            ("demand", closed.demand),
            ("delay", closed.delay),
            ("knee", alone * most),
            ("throughput at most", most),
        ];
        for (at, (what, value)) in truth.into_iter().enumerate() {
            covered[at] += u32::from(covers(named(&rows, what), value));
        }
        all += 1;
        let (low, high) = named(&rows, "throughput at most").interval.unwrap();
        widths.push((high - low) / most);
    }
    // Of 40 intervals that cover with 95 %, fewer than 33 do so once in 2000.
    assert!(covered.iter().all(|covered| *covered >= 33), "{covered:?} of {all}");
    let width = widths.iter().sum::<f64>() / widths.len() as f64;
    assert!(width < 0.4, "an interval that covers everything says nothing: {width}");
}

#[test]
fn what_would_be_is_what_mean_value_analysis_says() {
    let mut covered = 0;
    let mut all = 0;
    for seed in 0..10 {
        let mut model = Model::new(1);
        USUAL.run(60.0, 77 + seed, &mut model);
        for (asked, slots, clients) in [
            (WhatIf { slots: Some(4), ..WhatIf::default() }, 4, 40),
            (WhatIf { slots: Some(30), arrivals: Some(2.0), ..WhatIf::default() }, 30, 80),
        ] {
            let rows = model.what_if("shop/alice", &asked, USUAL.now()).unwrap();
            // The gate's throughput by Norton's theorem, from the network inside.
            let inside = ClosedNetwork::new(slots, 0.0, &USUAL.inside()).unwrap().throughputs();
            let truth = solve::FlowEquivalent::new(clients, USUAL.think, &inside).unwrap().solve();
            let throughput = named(&rows, "throughput");
            assert!((throughput.value / truth.throughput - 1.0).abs() < 0.1, "{rows:?} {truth:?}");
            let response = truth.wait + truth.hold;
            assert!((named(&rows, "response").value / response - 1.0).abs() < 0.3, "{rows:?}");
            covered += u32::from(covers(throughput, truth.throughput));
            all += 1;
            assert_eq!(throughput.basis.contains("beyond the range"), slots > 16, "{throughput:?}");
        }
    }
    // The think time and the clients' number of arrivals add noise that intervals do not have.
    assert!(covered >= 14, "{covered} of {all}");
}

#[test]
fn classes_are_told_apart_by_what_they_would_take_alone() {
    let mut model = Model::new(1);
    USUAL.run(120.0, 5, &mut model);
    let rows = estimates(&model);
    let of = |class: &str| -> Vec<&Estimate> {
        rows.iter().filter(|row| row.of == format!("shop/alice class {class}")).collect()
    };
    // Slots take turns, and so classes that go by slots are alike.
    for class in ["c0", "c1"] {
        let rows = of(class);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!((rows[0].value / 0.03 - 1.0).abs() < 0.15, "{rows:?}");
        assert!(rows[1].value > rows[0].value, "a hold is longer than the time alone: {rows:?}");
    }
}

#[test]
fn a_prediction_is_held_against_what_came() {
    let mut model = Model::new(1);
    USUAL.run(100.0, 6, &mut model);
    let rows = estimates(&model);
    let score = named(&rows, "throughput, predicted");
    let happened = score.happened.unwrap();
    assert!((score.value / happened - 1.0).abs() < 0.1, "{score:?}");
}

#[test]
fn what_becomes_slower_is_seen_soon() {
    let mut model = Model::new(1);
    let mut both = Closed { demand: 0.01, ..USUAL };
    both.run(300.0, 7, &mut model);
    let before = named(&estimates(&model), "throughput at most").value;
    assert!((before / 200.0 - 1.0).abs() < 0.15, "{before}");
    // From here on the same clients at a server of a quarter of the speed, in the same model.
    both.demand = 0.04;
    let mut later = Shifted { by: Duration::from_secs(301), inner: &mut model };
    later.run(&both, 120.0, 8);
    // All slots are held all the time: only the throughput there is known.
    let after = named(&estimates(&model), "throughput, predicted").value;
    assert!((after / 50.0 - 1.0).abs() < 0.15, "{after}");
}

/// A run that begins later.
struct Shifted<'a> {
    by: Duration,
    inner: &'a mut Model,
}

impl Shifted<'_> {
    fn run(&mut self, closed: &Closed, seconds: f64, seed: u64) {
        // All slots are held all the time, so one server's jobs depart one after the other.
        let mut chance = Chance(seed);
        let (mut now, end) = (0.0, seconds);
        let start = |now: f64| Time::ZERO + self.by + Duration::from_secs_f64(now);
        for index in 0..closed.slots {
            self.inner.pass(start(now));
            self.inner.started(start(now), Slot { server: 0, index }, 0);
        }
        self.inner.level(0, closed.slots, 9);
        let mut index = 0;
        while now < end {
            now += chance.exponential(closed.demand / closed.servers as f64);
            self.inner.pass(start(now));
            self.inner.arrived();
            let slot = Slot { server: 0, index };
            self.inner.departed(start(now), slot, Work::Done);
            self.inner.started(start(now), slot, 0);
            index = (index + 1) % closed.slots;
        }
    }
}

#[test]
fn a_database_that_slows_down_with_more_slots_is_not_modelled() {
    // Each slot more makes the demand half as long again: from 4 to 16 slots the throughput falls by
    // two thirds.
    let thrashing = Closed { slower: 0.5, servers: 4, delay: 0.001, ..USUAL };
    let asked = WhatIf { slots: Some(4), ..WhatIf::default() };
    // Most levels are seen, and no curve of the model goes through them.
    let mut model = Model::new(1);
    Closed { clients: 16, think: 0.1, ..thrashing }.run(120.0, 3, &mut model);
    let refused = model.what_if("a/b", &asked, Now { clients: 16, servers: 1, slots: 16 });
    match refused {
        Err(Refusal::Misfit { .. }) => {
            let band = model.band(1, 7, 64);
            assert_eq!(band, Band { least: 1, best: 7, most: 64 }, "it says nothing of the slots");
        }
        other => panic!("{other:?} {:?}", estimates(&model)),
    }
}

#[test]
fn too_little_and_what_needs_simulation_are_refused_with_a_way_out() {
    let asked = WhatIf { servers: Some(3), policy: Some("ev".into()), ..WhatIf::default() };
    let mut model = Model::new(1);
    assert_eq!(model.what_if("a/b", &asked, USUAL.now()), Err(Refusal::TooLittle));
    assert!(estimates(&model).is_empty());
    USUAL.run(30.0, 9, &mut model);
    let refused = model.what_if("a/b", &asked, USUAL.now()).unwrap_err();
    assert!(refused.to_string().contains("policy shared"), "{refused}");
    let shared = WhatIf { policy: Some("shared".into()), ..asked };
    let rows = model.what_if("a/b", &shared, USUAL.now()).unwrap();
    // Three servers take nearly all that 40 clients can ask for: 40 / (0.15 + 0.03).
    let throughput = named(&rows, "throughput");
    assert!((throughput.value / (40.0 / 0.18) - 1.0).abs() < 0.05, "{throughput:?}");
}

#[test]
fn nothing_is_said_of_a_load_of_which_nothing_gets_done() {
    let asked = WhatIf { slots: Some(20), ..WhatIf::default() };
    let mut model = Model::new(1);
    USUAL.run(60.0, 12, &mut model);
    assert!(model.what_if("a/b", &asked, USUAL.now()).is_ok());
    // The database is down: for an hour one job in a while is tried, and fails.
    let mut now = Time::ZERO + Duration::from_secs(60);
    for _ in 0..7200 {
        now = now + Duration::from_millis(500);
        model.pass(now);
        model.arrived();
        model.started(now, Slot { server: 0, index: 0 }, 0);
        model.departed(now, Slot { server: 0, index: 0 }, Work::Failed);
        model.level(0, 0, 9);
    }
    assert_eq!(model.what_if("a/b", &asked, USUAL.now()), Err(Refusal::Idle));
    assert_eq!(model.fitted(USUAL.now()), None);
}

#[test]
fn what_nobody_has_is_answered_or_refused_in_its_time() {
    let mut model = Model::new(1);
    USUAL.run(60.0, 13, &mut model);
    let many = WhatIf { arrivals: Some(1e6), ..WhatIf::default() };
    let refused = model.what_if("a/b", &many, USUAL.now()).unwrap_err();
    assert_eq!(refused, Refusal::Clients { asked: 4e7 });
    // A server for each of a million clients: all get what they ask for.
    let most = u32::MAX;
    for (slots, servers) in [(40, 26_000), (most, 1), (1, most), (most, most)] {
        let (slots, servers, arrivals) = (Some(slots), Some(servers), Some(26_000.0));
        let asked = WhatIf { slots, servers, arrivals, policy: None };
        let rows = model.what_if("a/b", &asked, USUAL.now()).unwrap();
        assert!(named(&rows, "throughput").value > 100.0, "{rows:?}");
    }
}

#[test]
fn a_band_is_around_the_fewest_slots_that_keep_the_throughput() {
    let mut model = Model::new(1);
    assert_eq!(model.band(2, 9, 50), Band { least: 2, best: 9, most: 50 });
    USUAL.run(60.0, 10, &mut model);
    let curve = ClosedNetwork::new(50, 0.0, &USUAL.inside()).unwrap().throughputs();
    let right = curve.iter().position(|x| *x >= 0.95 * curve[49]).unwrap() as u32 + 1;
    let band = model.band(2, 9, 50);
    assert!(band.least <= right && right <= band.most && band.most < 50, "{band:?}, {right}");
    assert!(band.best.abs_diff(right) <= 3, "{band:?}, {right}");
    assert_eq!(model.band(2, 9, 4).most, 4, "the ceiling");
}

#[test]
fn two_clients_in_each_others_way_take_no_slots_from_many() {
    // One server behind, so that two clients do hardly more than one: more was not seen, and stays.
    let narrow = Closed { servers: 1, delay: 0.0, demand: 0.005, ..USUAL };
    let band = |clients: u32, think: f64, standing: u32| {
        let mut model = Model::new(1);
        Closed { clients, think, ..narrow }.run(60.0, 11, &mut model);
        (model.band(1, standing, 50), named(&estimates(&model), "knee").value)
    };
    let (few, knee) = band(2, 0.01, 16);
    assert!(knee < 2.0, "a knee is seen: {knee}");
    assert!(few.least <= 2 && (few.best, few.most) == (16, 16), "{few:?}");
    let (many, _) = band(30, 0.13, 16);
    assert!(many.most < 8, "where 16 were held, it is known: {many:?}");
    let (lower, _) = band(2, 0.01, 2);
    assert!(lower.most <= 4, "what was held may be taken: {lower:?}");
}
