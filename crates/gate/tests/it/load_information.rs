//! Load information that routers see: every choice of a router that looks at servers is checked
//! against a history that is kept in full and summed up from the start each time. Servers may be
//! resized; none goes down, so that each choice can be seen from outside.

use std::time::Duration;

use gate::{
    Action, AtZero, Event, Gate, GateSpec, Job, JobId, KeyDefault, KeyDown, KeyMap, KeyOf, KeyRow,
    Length, LoadInformation, Queues, Report, RouterSpec, ServerSpec, Share, Slot, SpecError, Ties,
    Time, WeightedOrder, Window,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::play::{Play, arrive, depart, ms, per_server, shared};

const SPEED: u64 = 300_000_000;

/// A server from some moment on.
#[derive(Clone, Debug)]
struct Past {
    since: u64,
    waiting: Vec<u64>,
    service: Vec<(Slot, u64, u64)>,
    slots: u32,
}

impl Past {
    fn share(&self) -> f64 {
        if self.service.len() as u32 >= self.slots {
            1.0
        } else {
            self.service.len() as f64 / f64::from(self.slots)
        }
    }

    fn work(&self, at: u64, speed: Option<u64>) -> u64 {
        let left = |&(_, start, size): &(Slot, u64, u64)| match speed {
            None => size,
            Some(speed) => size.saturating_sub(speed * (at - start) / 1_000_000_000),
        };
        self.waiting.iter().sum::<u64>() + self.service.iter().map(left).sum::<u64>()
    }
}

/// State of a server as it is seen.
#[derive(Debug)]
struct Seen {
    waiting: f64,
    busy: f64,
    utilisation: f64,
    work: f64,
}

struct History {
    spec: GateSpec,
    servers: Vec<Vec<Past>>,
    reports: Vec<Option<Report>>,
}

impl History {
    fn new(spec: &GateSpec) -> History {
        let first = |server: &ServerSpec| {
            let (waiting, service) = (Vec::new(), Vec::new());
            vec![Past { since: 0, waiting, service, slots: server.slots }]
        };
        let servers: Vec<_> = spec.servers.iter().map(first).collect();
        History { reports: vec![None; servers.len()], servers, spec: spec.clone() }
    }

    fn now(&mut self, server: u32, now: u64) -> &mut Past {
        let past = &mut self.servers[server as usize];
        let last = past.last().unwrap().clone();
        past.push(Past { since: now, ..last });
        past.last_mut().unwrap()
    }

    fn window(&self) -> Window {
        match self.spec.router {
            RouterSpec::LowestUtilisation { window, .. } | RouterSpec::Ev { window, .. } => window,
            _ => Window::SinceStart,
        }
    }

    /// The integral of the busy share up to a moment, weighted by the window.
    fn utilisation(&self, server: usize, at: u64) -> f64 {
        let past = &self.servers[server];
        let pieces = past.iter().enumerate().filter(|(_, piece)| piece.since <= at);
        let sum: f64 = pieces
            .map(|(n, piece)| {
                let end = past.get(n + 1).map_or(at, |next| next.since.min(at));
                let weight = match self.window() {
                    Window::SinceStart => (end - piece.since) as f64 / at.max(1) as f64,
                    Window::Recent(window) => {
                        let window = window.as_nanos() as f64;
                        let decay = |then: u64| (-((at - then) as f64) / window).exp();
                        decay(end) - decay(piece.since)
                    }
                };
                piece.share() * weight
            })
            .sum();
        sum
    }

    fn seen(&self, server: usize, now: u64) -> Seen {
        let past = &self.servers[server];
        let speed = match self.spec.router {
            RouterSpec::LeastWork { speed, .. } => speed,
            _ => None,
        };
        let as_of = |piece: &Past, at: u64| Seen {
            waiting: piece.waiting.len() as f64,
            busy: piece.service.len() as f64,
            utilisation: self.utilisation(server, at),
            work: piece.work(at, speed) as f64,
        };
        match (self.spec.load_information, self.reports[server]) {
            (LoadInformation::Delayed(delay), _) => {
                match now.checked_sub(delay.as_nanos() as u64) {
                    None => as_of(&past[0], 0),
                    Some(at) => as_of(past.iter().rev().find(|p| p.since <= at).unwrap(), at),
                }
            }
            (LoadInformation::Refreshed(period), _) => {
                let period = period.as_nanos() as u64;
                let at = now / period * period;
                let before = past.iter().rev().find(|piece| piece.since < at);
                as_of(before.unwrap_or(&past[0]), at)
            }
            (LoadInformation::Reported, Some(report)) => Seen {
                waiting: report.waiting as f64,
                busy: f64::from(report.busy),
                utilisation: report.utilisation.as_f64(),
                work: report.work as f64,
            },
            (LoadInformation::Fresh | LoadInformation::Reported, _) => {
                as_of(past.last().unwrap(), now)
            }
        }
    }

    /// The smaller the better, term by term.
    fn score(&self, seen: &Seen) -> (f64, f64) {
        let count = |length| match length {
            Length::Waiting => seen.waiting,
            Length::InSystem => seen.waiting + seen.busy,
        };
        match self.spec.router {
            RouterSpec::ShortestQueue { length, .. } => (count(length), 0.0),
            RouterSpec::LowestUtilisation { .. } => (seen.utilisation, 0.0),
            RouterSpec::LeastWork { .. } => (seen.work, 0.0),
            RouterSpec::Ev { queue, utilisation, length, at_zero, .. } => {
                let length = match at_zero {
                    AtZero::Best => count(length),
                    AtZero::PlusOne => count(length) + 1.0,
                    AtZero::Floor(floor) => count(length).max(floor),
                };
                let terms = [queue / length, utilisation / seen.utilisation];
                let beyond = terms.iter().filter(|term| term.is_infinite()).count();
                let sum: f64 = terms.iter().filter(|term| term.is_finite()).sum();
                (-(beyond as f64), -sum)
            }
            _ => panic!("it does not compare"),
        }
    }
}

/// Of 600 steps, every choice must be among the best that the history knows, to rounding.
fn check(seed: u64, spec: &GateSpec) {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |n: u64| chance.next_u64() % n;
    let mut gate = Gate::new(spec).unwrap();
    let mut history = History::new(spec);
    let n = spec.servers.len() as u64;
    let (mut now, mut actions, mut sizes) = (0, Vec::new(), std::collections::BTreeMap::new());
    for id in 1..600 {
        now += below(6);
        actions.clear();
        let server = below(n) as u32;
        let held: Vec<Slot> = (history.servers.iter())
            .flat_map(|past| past.last().unwrap().service.iter().map(|(slot, ..)| *slot))
            .collect();
        let event = match below(20) {
            0 => {
                let slots = 1 + below(3) as u32;
                history.now(server, now).slots = slots;
                Event::Resize { server, slots }
            }
            1 => {
                let utilisation = Share::new(below(5) as f64 / 4.0);
                let (waiting, busy) = (below(3), below(3) as u32);
                let report = Report { waiting, busy, utilisation, work: below(9) };
                history.reports[server as usize] = Some(report);
                Event::Report { server, report }
            }
            2..=10 if !held.is_empty() => Event::Depart(held[below(held.len() as u64) as usize]),
            _ => Event::Arrive(Job { size: 1 + below(9), ..Job::new(JobId(id)) }),
        };
        if let Event::Depart(slot) = event {
            history.now(slot.server, now).service.retain(|(other, ..)| *other != slot);
        }
        let before: Vec<u64> = jobs(&gate);
        gate.handle(Time::from_nanos(now), event, &mut actions);
        if let Event::Arrive(job) = event {
            let after = jobs(&gate);
            let chosen = (0..n as usize).find(|&at| after[at] > before[at]).unwrap();
            let seen: Vec<Seen> = (0..n as usize).map(|at| history.seen(at, now)).collect();
            let scores: Vec<_> = seen.iter().map(|seen| history.score(seen)).collect();
            let is_worse = |a: (f64, f64), b: (f64, f64)| {
                let slack = |x: f64| 1e-9 * x.abs().max(1.0);
                a.0 > b.0 + slack(b.0) || (a.0 == b.0 && a.1 > b.1 + slack(b.1))
            };
            let worse = scores.iter().any(|&other| is_worse(scores[chosen], other));
            assert!(!worse, "seed {seed} at {now}: {chosen} of {seen:?} by {spec:?}");
            sizes.insert(job.id, job.size);
            history.now(chosen as u32, now).waiting.push(job.size);
        }
        for action in &actions {
            let Action::Start { job, slot } = action else { panic!("{action:?}") };
            let size = sizes[job];
            let past = history.now(slot.server, now);
            let at = past.waiting.iter().position(|waits| *waits == size).unwrap();
            past.waiting.remove(at);
            past.service.push((*slot, now, size));
        }
    }
}

fn jobs(gate: &Gate) -> Vec<u64> {
    gate.servers().iter().map(|view| view.waiting + u64::from(view.busy)).collect()
}

#[test]
fn every_choice_is_the_best_of_what_is_seen() {
    let span = Duration::from_nanos;
    let windows = [Window::SinceStart, Window::Recent(span(30))];
    let mut seed = 0;
    for load_information in [
        LoadInformation::Fresh,
        LoadInformation::Delayed(span(17)),
        LoadInformation::Refreshed(span(40)),
        LoadInformation::Reported,
    ] {
        for ties in [Ties::Lowest, Ties::Rotate, Ties::Random] {
            let length = [Length::Waiting, Length::InSystem][seed as usize % 2];
            let window = windows[seed as usize / 2 % 2];
            let ev = |at_zero| RouterSpec::Ev {
                queue: 1.0,
                utilisation: 0.7,
                length,
                at_zero,
                window,
                ties,
            };
            for router in [
                RouterSpec::ShortestQueue { length, ties },
                RouterSpec::LowestUtilisation { window, ties },
                RouterSpec::LeastWork { speed: None, ties },
                RouterSpec::LeastWork { speed: Some(SPEED), ties },
                ev(AtZero::Best),
                ev(AtZero::PlusOne),
                ev(AtZero::Floor(0.5)),
            ] {
                for _ in 0..3 {
                    seed += 1;
                    check(
                        seed,
                        &GateSpec {
                            load_information,
                            seed,
                            ..per_server(&[1, 2, 1, 3], router.clone())
                        },
                    );
                }
            }
        }
    }
}

#[test]
fn an_idle_server_is_joined_and_any_if_there_is_none() {
    let router = RouterSpec::JoinIdleQueue { ties: Ties::Lowest };
    let mut play = Play::new(&per_server(&[1, 2, 1], router));
    assert_eq!(play.servers_of(0, 1..5), [0, 1, 1, 2]);
    (5..305).for_each(|id| assert_eq!(play.tell(0, arrive(id)), []));
    // Binomial(300, 1/3): mean 100, standard deviation 8.2.
    for view in play.gate.servers() {
        assert!(view.waiting.abs_diff(100) < 33, "{view:?}");
    }
}

#[test]
fn the_power_of_all_is_the_shortest_queue_and_of_one_is_chance() {
    let (length, ties) = (Length::InSystem, Ties::Lowest);
    let power = |d| per_server(&[1; 5], RouterSpec::PowerOfD { d, length, ties });
    let mut all = Play::new(&power(9));
    let mut shortest = Play::new(&per_server(&[1; 5], RouterSpec::ShortestQueue { length, ties }));
    let mut one = Play::new(&power(1));
    for id in 1..=1000 {
        assert_eq!(all.tell(0, arrive(id)), shortest.tell(0, arrive(id)));
        one.tell(0, arrive(id));
    }
    let lengths = jobs(&one.gate);
    // Binomial(1000, 1/5): mean 200, standard deviation 12.6.
    assert!(lengths.iter().all(|n| n.abs_diff(200) < 51), "{lengths:?}");
    assert!(lengths.iter().any(|n| *n != 200));
}

#[test]
fn weights_are_followed_evenly_and_by_chance() {
    let weights = vec![5, 1, 1];
    let of = |order| RouterSpec::Weighted { weights: weights.clone(), order };
    let mut play = Play::new(&per_server(&[99; 3], of(WeightedOrder::Rotate)));
    assert_eq!(play.servers_of(0, 1..15), [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
    play.tell(0, Event::Down(0));
    let mut rest = play.servers_of(0, 15..19);
    rest.sort_unstable();
    assert_eq!(rest, [1, 1, 2, 2]);
    let mut play = Play::new(&per_server(&[9999; 3], of(WeightedOrder::Random)));
    play.servers_of(0, 1..7001);
    // Binomial(7000, 1/7): mean 1000, standard deviation 29.
    let counts = jobs(&play.gate);
    assert!(counts[1].abs_diff(1000) < 117 && counts[2].abs_diff(1000) < 117, "{counts:?}");
}

fn keyed(map: KeyMap, down: KeyDown) -> RouterSpec {
    RouterSpec::ByKey { of: KeyOf::Key, map, down }
}

/// Servers that the keys 0 to 99 go to.
fn homes(play: &mut Play, first: u64) -> Vec<u32> {
    let home = |key| {
        let job = Job { key, ..Job::new(JobId(first + key)) };
        match *play.tell(0, Event::Arrive(job)) {
            [Action::Start { slot, .. }] => slot.server,
            ref other => panic!("{other:?}"),
        }
    };
    (0..100).map(home).collect()
}

#[test]
fn a_server_that_goes_down_moves_its_own_keys_only() {
    let mut play = Play::new(&per_server(&[999; 5], keyed(KeyMap::Hash, KeyDown::Next)));
    let before = homes(&mut play, 1);
    assert_eq!(before, homes(&mut play, 1001), "a key stays where it is");
    for server in 0..5 {
        let keys = before.iter().filter(|home| **home == server).count();
        // Binomial(100, 1/5): mean 20, standard deviation 4.
        assert!((4..=36).contains(&keys), "{keys}");
        play.tell(0, Event::Down(server));
        let first = 2001 + 1000 * u64::from(server);
        let moved = homes(&mut play, first);
        for (was, is) in before.iter().zip(&moved) {
            assert!(if *was == server { is != was } else { is == was });
        }
        let mut to: Vec<u32> = (before.iter().zip(&moved))
            .filter(|(was, _)| **was == server)
            .map(|(_, is)| *is)
            .collect();
        to.sort_unstable();
        to.dedup();
        assert!(to.len() > 1, "they are spread over the others: {to:?}");
        play.tell(0, Event::Up(server));
    }
    assert_eq!(before, homes(&mut play, 9001), "and come back");
}

#[test]
fn ranges_and_tables_say_where_a_key_belongs() {
    let bounds = vec![10, 90];
    let mut play =
        Play::new(&per_server(&[999; 3], keyed(KeyMap::Range { bounds }, KeyDown::Next)));
    let found = homes(&mut play, 1);
    assert_eq!([found[0], found[9], found[10], found[89], found[90]], [0, 0, 1, 1, 2]);
    play.tell(0, Event::Down(2));
    assert_eq!(homes(&mut play, 1001)[99], 0, "the next, around the end");
    let rows = vec![KeyRow { key: 7, server: 2 }, KeyRow { key: 3, server: 0 }];
    let map = KeyMap::Table { rows, default: KeyDefault::Server(1) };
    let mut play = Play::new(&per_server(&[999; 3], keyed(map.clone(), KeyDown::Wait)));
    let found = homes(&mut play, 1);
    assert_eq!([found[3], found[7], found[8]], [0, 2, 1]);
    // What only server 0 can do waits for it, though others are up.
    play.tell(0, Event::Down(0));
    let job = |id| Event::Arrive(Job { key: 3, ..Job::new(JobId(id)) });
    assert_eq!(play.tell(0, job(501)), []);
    play.tell(0, Event::Down(1));
    assert_eq!(play.tell(0, Event::Up(1)), []);
    assert_eq!(play.gate.waiting(), 1);
    let [Action::Start { slot, .. }] = play.tell(1, Event::Up(0))[..] else { panic!("it starts") };
    assert_eq!(slot.server, 0);
}

#[test]
fn a_report_takes_the_place_of_the_own_view() {
    let router = RouterSpec::ShortestQueue { length: Length::InSystem, ties: Ties::Lowest };
    let mut play = Play::new(&GateSpec {
        load_information: LoadInformation::Reported,
        ..per_server(&[9, 9], router)
    });
    let report = |server, waiting| {
        let report = Report { waiting, ..Report::default() };
        Event::Report { server, report }
    };
    assert_eq!(play.servers_of(0, 1..5), [0, 1, 0, 1], "nobody reported yet");
    play.tell(0, report(0, 7));
    assert_eq!(play.servers_of(0, 5..8), [1, 1, 1]);
    play.tell(0, report(1, 8));
    assert_eq!(play.servers_of(0, 8..11), [0, 0, 0], "and stays so until the next report");
    play.tell(1, depart(0, 0));
    play.tell(1, report(1, 7));
    assert_eq!(play.servers_of(1, 11..12), [0], "a tie");
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let (length, ties, zero) = (Length::Waiting, Ties::Lowest, Duration::ZERO);
    let ev = |queue, utilisation, at_zero, window| RouterSpec::Ev {
        queue,
        utilisation,
        length,
        at_zero,
        window,
        ties,
    };
    let start = Window::SinceStart;
    let order = WeightedOrder::Rotate;
    let row = |key, server| KeyRow { key, server };
    let table = |rows, default| keyed(KeyMap::Table { rows, default }, KeyDown::Next);
    let hash = KeyDefault::Hash;
    for (router, error) in [
        (RouterSpec::LowestUtilisation { window: Window::Recent(zero), ties }, SpecError::Span),
        (ev(1.0, 1.0, AtZero::Best, Window::Recent(zero)), SpecError::Span),
        (ev(0.0, 0.0, AtZero::Best, start), SpecError::Ev),
        (ev(-1.0, 1.0, AtZero::Best, start), SpecError::Ev),
        (ev(1.0, f64::NAN, AtZero::Best, start), SpecError::Ev),
        (ev(1.0, 1.0, AtZero::Floor(0.0), start), SpecError::Ev),
        (RouterSpec::PowerOfD { d: 0, length, ties }, SpecError::Choices),
        (RouterSpec::LeastWork { speed: Some(0), ties }, SpecError::Speed),
        (RouterSpec::Weighted { weights: vec![1], order }, SpecError::Weights),
        (RouterSpec::Weighted { weights: vec![1, 0], order }, SpecError::Weights),
        (keyed(KeyMap::Range { bounds: vec![1, 2] }, KeyDown::Next), SpecError::Bounds),
        (table(vec![row(1, 0), row(1, 1)], hash), SpecError::Table),
        (table(vec![row(1, 2)], hash), SpecError::Table),
        (table(vec![], KeyDefault::Server(2)), SpecError::Table),
    ] {
        let spec = per_server(&[1, 1], router);
        assert_eq!(Gate::new(&spec).unwrap_err(), error, "{spec:?}");
    }
    let router = keyed(KeyMap::Hash, KeyDown::Next);
    let spec = GateSpec { queues: Queues::Shared, router, ..shared(&[1, 1]) };
    assert_eq!(Gate::new(&spec).unwrap_err(), SpecError::KeyWithoutQueues);
    let spec = GateSpec { load_information: LoadInformation::Delayed(ms(0)), ..GateSpec::fifo(1) };
    assert_eq!(Gate::new(&spec).unwrap_err(), SpecError::Span);
}
