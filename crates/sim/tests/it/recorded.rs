//! A recorded load at other gates: as it was, against a recursion, and what is conserved whatever the
//! policies.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::ControlFlow;
use std::time::Duration;

use gate::{
    Action, AtZero, DisciplineSpec, Event, Gate, GateSpec, Job, JobId, Length, Queues, Reason,
    Report, RouterSpec, ServerSpec, Share, Slot, Ties, Time, Window,
};
use measure::{GateAccount, JobFate, Recording};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::recorded::{RecordedLoad, RecordedLoadError, RecordedLoadReader, Resizes};
use sim::{Class, Client, GateNode, Network, Options, Plan, Step};
use workload::Dist;

use crate::support::*;

fn load(recording: &Recording) -> RecordedLoad {
    let mut reader = RecordedLoadReader::new(&recording.spec);
    recording.steps.iter().for_each(|step| reader.step(step));
    reader.finish(1).unwrap()
}

fn account(recording: &Recording) -> GateAccount {
    let mut account = GateAccount::new(&recording.spec).unwrap().with_fates();
    for step in &recording.steps {
        account.step(step.at, &step.event, &step.actions).unwrap();
    }
    account
}

fn simulate(load: &RecordedLoad, spec: &GateSpec) -> GateAccount {
    load.simulate(spec, Resizes::Again, &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .expect("nobody ended it")
}

/// Each job had the same fate, so far as the recording tells it; returns how many waited.
#[track_caller]
fn assert_same(recorded: &GateAccount, simulated: &GateAccount) -> usize {
    assert_eq!(recorded.fates().len(), simulated.fates().len());
    let pairs = recorded.fates().iter().zip(simulated.fates()).enumerate();
    for (nth, (before, now)) in pairs.filter(|(_, (before, _))| **before != JobFate::Waiting) {
        assert_eq!(before, now, "job {nth}");
    }
    let waited = |fate: &&JobFate| fate.wait().is_some_and(|wait| wait > Duration::ZERO);
    recorded.fates().iter().filter(waited).count()
}

/// M/M/4, so many steps of it recorded by the simulator.
fn queue(steps: usize, spec: GateSpec, client: Client) -> Recording {
    let slots = 4;
    let mut network = Network::default();
    let gate = network.add_gate(GateNode::new("gate", spec));
    let station = network.add_station(sim::Station::new("work", sim::StationKind::Delay));
    let inside = vec![Step::Visit { station, demand: exponential(0.1) }];
    let route = vec![Step::Hold { gate, inside }];
    for (at, share) in [0.6, 0.4].into_iter().enumerate() {
        let load = poisson(0.85 * share * f64::from(slots) / 0.1);
        let sizes = sim::Sizes::Drawn(Dist::Exponential { mean: 1e4 });
        let class = Class {
            priority: at as u8,
            sizes,
            client: client.clone(),
            ..Class::new("jobs", load, route.clone())
        };
        network.add_class(class);
    }
    let options =
        Options { record: Some((0, steps)), plan: Plan::Replications(2), ..options(7, 40_000) };
    sim::run(&network, &options).unwrap().recording.expect("it was asked for")
}

#[test]
fn the_same_gate_lets_every_job_wait_as_it_was_recorded() {
    let recording = queue(30_000, GateSpec::fifo(4), Client::default());
    let (load, before) = (load(&recording), account(&recording));
    let now = simulate(&load, &recording.spec);
    assert!(assert_same(&before, &now) > 3_000);
    assert_eq!(load.gaps().held_most, 4);
    // To the moment of the last step the levels are the same too.
    for (before, now) in [
        (before.held_mean(), now.held_mean()),
        (before.waiting_mean(), now.waiting_mean()),
        (before.slots_mean(), now.slots_mean()),
    ] {
        assert!((before - now).abs() < 1e-9 * before, "{before} {now}");
    }
    let mean = now.all().waits.mean_s().unwrap();
    // Erlang's formula for M/M/4 at 85 %; 10 000 jobs of a queue that forgets slowly.
    assert!((0.06..0.18).contains(&mean), "{mean}");
}

/// The waits of jobs that are served first come first served by so many slots, by the recursion of Kiefer
/// and Wolfowitz: each takes the slot that is free first.
fn recursion(load: &RecordedLoad, slots: usize) -> Vec<Duration> {
    let mut free: BinaryHeap<Reverse<Time>> = (0..slots).map(|_| Reverse(Time::ZERO)).collect();
    let wait = |job: &workload::RecordedJob| {
        let Reverse(first) = free.pop().unwrap();
        let start = first.max(job.job.since);
        free.push(Reverse(start + job.hold));
        start.since(job.job.since)
    };
    load.jobs().iter().map(wait).collect()
}

#[test]
fn other_slots_give_the_waits_of_the_recursion_exactly() {
    let load = load(&queue(30_000, GateSpec::fifo(4), Client::default()));
    for slots in [1, 2, 3, 4, 5, 8, 64] {
        let account = simulate(&load, &GateSpec::fifo(slots));
        let waits: Vec<Duration> =
            account.fates().iter().map(|fate| fate.wait().expect("all are served")).collect();
        assert_eq!(waits, recursion(&load, slots as usize), "{slots} slots");
        assert_eq!(account.unfinished(), (0, 0));
    }
}

/// Two servers with a queue each, by turns, are two queues of every other job: the recursion of Lindley.
#[test]
fn two_queues_by_turns_are_two_recursions() {
    let load = load(&queue(30_000, GateSpec::fifo(4), Client::default()));
    let spec = GateSpec {
        servers: vec![ServerSpec { slots: 1 }; 2],
        queues: Queues::PerServer,
        router: RouterSpec::RoundRobin,
        ..GateSpec::fifo(1)
    };
    let account = simulate(&load, &spec);
    let mut free = [Time::ZERO; 2];
    for (nth, job) in load.jobs().iter().enumerate() {
        let start = free[nth % 2].max(job.job.since);
        free[nth % 2] = start + job.hold;
        assert_eq!(account.fates()[nth].wait(), Some(start.since(job.job.since)), "job {nth}");
    }
}

fn disciplines() -> Vec<DisciplineSpec> {
    vec![
        DisciplineSpec::Fifo,
        DisciplineSpec::Lifo,
        DisciplineSpec::Priority,
        DisciplineSpec::PriorityAgeing { interval: Duration::from_millis(50) },
        DisciplineSpec::ShortestJob,
        DisciplineSpec::EarliestDeadline,
        DisciplineSpec::DeficitRoundRobin { quantum: 1_000, weights: vec![1, 3] },
    ]
}

fn routers() -> Vec<RouterSpec> {
    let (length, ties) = (Length::InSystem, Ties::Random);
    let window = Window::Recent(Duration::from_millis(200));
    vec![
        RouterSpec::Random,
        RouterSpec::RoundRobin,
        RouterSpec::ShortestQueue { length, ties },
        RouterSpec::PowerOfD { d: 2, length, ties },
        RouterSpec::JoinIdleQueue { ties },
        RouterSpec::LeastWork { speed: None, ties },
        RouterSpec::LowestUtilisation { window, ties: Ties::Rotate },
        RouterSpec::Ev {
            queue: 1.0,
            utilisation: 0.5,
            length,
            at_zero: AtZero::PlusOne,
            window,
            ties: Ties::Lowest,
        },
    ]
}

/// Whatever the policies: each job that came is served, refused or gone, and slots are held for as long as
/// the jobs that were served hold them.
#[test]
fn no_policy_loses_or_makes_jobs_or_work() {
    let patient = Client { patience: Some(Dist::Exponential { mean: 0.3 }), ..Client::default() };
    let recorded = GateSpec { room: Some(9), ..GateSpec::fifo(4) };
    let load = load(&queue(8_000, recorded, patient));
    let gaps = load.gaps();
    assert!(gaps.reneged > 20 && gaps.holds_drawn > gaps.reneged, "{gaps:?}");
    for discipline in disciplines() {
        for router in routers() {
            for queues in [Queues::Shared, Queues::PerServer] {
                let spec = GateSpec {
                    servers: vec![ServerSpec { slots: 2 }, ServerSpec { slots: 1 }],
                    queues,
                    router: router.clone(),
                    discipline: discipline.clone(),
                    room: Some(20),
                    wait_max: Some(Duration::from_millis(700)),
                    ..GateSpec::fifo(1)
                };
                let account = simulate(&load, &spec);
                let told = format!("{} {} {queues:?}", discipline.name(), router.name());
                let all = account.all();
                let fates = all.waits.count() + all.refused_in_all() + all.reneged;
                assert_eq!((all.arrived, fates), (load.jobs().len() as u64, all.arrived), "{told}");
                assert_eq!(account.unfinished(), (0, 0), "{told}");
                let served = load.jobs().iter().zip(account.fates());
                let served = served.filter(|(_, fate)| fate.wait().is_some());
                let work: Duration = served.map(|(job, _)| job.hold).sum();
                let mean = work.as_secs_f64() / all.holds.count() as f64;
                assert!((all.holds.mean_s().unwrap() - mean).abs() < 1e-12, "{told}");
                // The last jobs end after the recording, whose time is what levels are averaged over.
                let held = account.held_mean() * account.length().as_secs_f64();
                let late = work.as_secs_f64() - held;
                assert!((-1e-6..10.0).contains(&late), "{told}: {late}");
                // Twice the same is the same.
                assert_eq!(simulate(&load, &spec).fates(), account.fates(), "{told}");
            }
        }
    }
}

/// Where all holds are equal, no discipline that keeps no slot free changes the sum of the waits.
#[test]
fn with_equal_holds_the_order_does_not_change_the_mean_wait() {
    let recording = queue(30_000, GateSpec::fifo(4), Client::default());
    let mut steps = Vec::new();
    let (mut gate, mut actions) = (Gate::new(&GateSpec::fifo(1_000)).unwrap(), Vec::new());
    let hold = Duration::from_millis(100);
    let mut ends: BinaryHeap<Reverse<(Time, Slot)>> = BinaryHeap::new();
    let mut tell = |at, event, ends: &mut BinaryHeap<Reverse<(Time, Slot)>>| {
        actions.clear();
        gate.handle(at, event, &mut actions);
        for action in &actions {
            let Action::Start { slot, .. } = *action else { panic!("nobody is refused") };
            ends.push(Reverse((at + hold, slot)));
        }
        steps.push(measure::Step { at, event, actions: actions.clone() });
    };
    for step in &recording.steps {
        if let Event::Arrive(_) = step.event {
            while let Some(&Reverse((at, slot))) = ends.peek()
                && at <= step.at
            {
                ends.pop();
                tell(at, Event::Depart(slot), &mut ends);
            }
            tell(step.at, step.event, &mut ends);
        }
    }
    while let Some(Reverse((at, slot))) = ends.pop() {
        tell(at, Event::Depart(slot), &mut ends);
    }
    let mut reader = RecordedLoadReader::new(&GateSpec::fifo(1_000));
    steps.iter().for_each(|step| reader.step(step));
    let load = reader.finish(1).unwrap();
    let sum = |discipline: DisciplineSpec| -> Duration {
        let account = simulate(&load, &GateSpec { discipline, ..GateSpec::fifo(4) });
        account.fates().iter().filter_map(|fate| fate.wait()).sum()
    };
    let fifo = sum(DisciplineSpec::Fifo);
    assert!(fifo > Duration::from_secs(100), "{fifo:?}");
    for discipline in disciplines() {
        assert_eq!(sum(discipline.clone()), fifo, "{}", discipline.name());
    }
}

/// Drives a real gate by chance, on a clock so coarse that most moments have several events, and records it.
fn by_chance(spec: &GateSpec, seed: u64, steps: usize) -> Recording {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut gate = Gate::new(spec).unwrap();
    let mut recording = Recording::new(spec.clone(), usize::MAX);
    let (mut waiting, mut held) = (BTreeSet::new(), Vec::new());
    let (mut now, mut last, mut actions) = (Time::ZERO, 0, Vec::new());
    let servers = spec.servers.len() as u32;
    // One that was there before.
    let before = Slot { server: 0, index: 0 };
    let mut next = Some(Event::Occupy(before));
    held.push(before);
    for _ in 0..steps {
        let event = next.take().unwrap_or_else(|| match rng.random_range(0..100) {
            0..45 => {
                last += 1;
                waiting.insert(JobId(last));
                let deadline = (rng.random_range(0..4) == 0)
                    .then(|| now + Duration::from_nanos(rng.random_range(0..300)));
                Event::Arrive(Job {
                    class: rng.random_range(0..3),
                    priority: rng.random_range(0..3),
                    key: rng.random_range(0..5),
                    size: rng.random_range(0..50),
                    deadline,
                    ..Job::new(JobId(last))
                })
            }
            45..85 if !held.is_empty() => {
                Event::Depart(held.swap_remove(rng.random_range(0..held.len())))
            }
            85..90 if !waiting.is_empty() => {
                let nth = rng.random_range(0..waiting.len());
                Event::Renege(*waiting.iter().nth(nth).unwrap())
            }
            90 => Event::Resize {
                server: rng.random_range(0..servers),
                slots: rng.random_range(0..4),
            },
            91 => Event::Down(rng.random_range(0..servers)),
            92 => Event::Up(rng.random_range(0..servers)),
            93 => Event::Pause,
            94 => Event::Room(Some(rng.random_range(3..20))),
            95 => Event::WaitMax(Some(Duration::from_nanos(rng.random_range(50..900)))),
            96 => Event::Report {
                server: rng.random_range(0..servers),
                report: Report { utilisation: Share::new(rng.random()), ..Report::default() },
            },
            _ => Event::Resume,
        });
        actions.clear();
        gate.handle(now, event, &mut actions);
        recording.push(now, event, &actions);
        follow(&actions, &mut waiting, &mut held);
        if let Event::Renege(id) = event {
            waiting.remove(&id);
        }
        if rng.random_range(0..3) == 0 {
            let until = now + Duration::from_nanos(rng.random_range(1..40));
            while let Some(wakeup) = gate.next_wakeup().filter(|wakeup| *wakeup < until) {
                actions.clear();
                gate.handle(wakeup, Event::Wake, &mut actions);
                recording.push(wakeup, Event::Wake, &actions);
                follow(&actions, &mut waiting, &mut held);
            }
            now = until;
        }
    }
    recording
}

fn follow(actions: &[Action], waiting: &mut BTreeSet<JobId>, held: &mut Vec<Slot>) {
    for action in actions {
        match *action {
            Action::Start { job, slot } => {
                waiting.remove(&job);
                held.push(slot);
            }
            Action::Refuse { job, .. } => {
                waiting.remove(&job);
            }
        }
    }
}

/// The story: recorded events that share their moment were simulated in another order.
#[test]
fn anything_that_is_recorded_is_simulated_as_it_was() {
    let mut waited = 0;
    for (seed, discipline) in (0..).zip(disciplines()) {
        for (more, router) in (0..).zip(routers()) {
            let seed = 100 * seed + more;
            let spec = GateSpec {
                servers: vec![ServerSpec { slots: 2 }, ServerSpec { slots: 1 }],
                queues: if seed % 2 == 0 { Queues::Shared } else { Queues::PerServer },
                router,
                discipline: discipline.clone(),
                room: Some(12),
                wait_max: Some(Duration::from_nanos(500)),
                unreachable_max: (seed % 3 == 0).then_some(Duration::from_nanos(60)),
                seed,
                ..GateSpec::fifo(1)
            };
            let recording = by_chance(&spec, seed, 3_000);
            assert_eq!(recording.replay(), Ok(()), "seed {seed}");
            let load = load(&recording);
            waited += assert_same(&account(&recording), &simulate(&load, &spec));
        }
    }
    assert!(waited > 5_000, "{waited}");
}

/// Live servers write the gate's longest wait into each job; another gate has its own.
#[test]
fn a_longer_wait_is_allowed_to_jobs_that_only_the_gate_had_limited() {
    let span = Duration::from_millis(10);
    let spec = GateSpec { wait_max: Some(span), ..GateSpec::fifo(1) };
    let mut gate = Gate::new(&spec).unwrap();
    let mut recording = Recording::new(spec.clone(), 100);
    let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
    let mut tell = |millis, event| {
        let mut actions = Vec::new();
        gate.handle(at(millis), event, &mut actions);
        recording.push(at(millis), event, &actions);
    };
    let job = |id, deadline| Job { deadline: Some(deadline), ..Job::new(JobId(id)) };
    tell(100, Event::Arrive(job(1, at(110))));
    // A little after it could have asked.
    tell(101, Event::Arrive(job(2, Time::from_nanos(at(111).as_nanos() - 5_000))));
    // With a deadline of its own.
    tell(102, Event::Arrive(job(3, at(105))));
    tell(105, Event::Wake);
    tell(111, Event::Wake);
    tell(130, Event::Depart(Slot { server: 0, index: 0 }));
    let load = load(&recording);
    assert_eq!(load.gaps().holds_drawn, 2);
    assert_same(&account(&recording), &simulate(&load, &spec));
    let longer = GateSpec { wait_max: Some(Duration::from_millis(40)), ..spec };
    let started = |millis| JobFate::Started(Duration::from_millis(millis));
    let fates = [started(0), started(29), JobFate::Refused(Reason::Deadline)];
    assert_eq!(simulate(&load, &longer).fates(), fates);
    // Without the jobs that it turned away, the load of a shorter one.
    let shorter = GateSpec { wait_max: Some(Duration::from_millis(2)), ..longer };
    let refused = JobFate::Refused(Reason::Deadline);
    assert_eq!(simulate(&load, &shorter).fates(), [started(0), refused, refused]);
}

#[test]
fn what_cannot_be_simulated_is_told() {
    let spec = GateSpec::fifo(2);
    let finish = |events: &[Event]| {
        let mut gate = Gate::new(&spec).unwrap();
        let mut reader = RecordedLoadReader::new(&spec);
        for (nth, event) in (0..).zip(events) {
            let (at, mut actions) = (Time::from_nanos(nth), Vec::new());
            gate.handle(at, *event, &mut actions);
            reader.step(&measure::Step { at, event: *event, actions });
        }
        reader.finish(1).map(|load| load.jobs().len())
    };
    let arrive = Event::Arrive(Job::new(JobId(1)));
    let slot = |index| Slot { server: 0, index };
    assert_eq!(finish(&[]), Err(RecordedLoadError::NoJob));
    assert_eq!(finish(&[arrive]), Err(RecordedLoadError::NoHold));
    assert_eq!(finish(&[arrive, Event::Depart(slot(0))]), Ok(1));
    let later = [arrive, Event::Occupy(slot(1)), Event::Depart(slot(0))];
    assert_eq!(finish(&later), Err(RecordedLoadError::OccupiedLater));
}

/// Slots that were changed while it was recorded are changed again at the recorded gate, and at no gate that
/// is to have a number of its own.
#[test]
fn changes_of_slots_are_made_again_or_left_out() {
    let spec = GateSpec::fifo(1);
    let mut gate = Gate::new(&spec).unwrap();
    let mut recording = Recording::new(spec.clone(), 100);
    let slot = |index| Slot { server: 0, index };
    let arrive = |id| Event::Arrive(Job::new(JobId(id)));
    for (millis, event) in [
        (0, arrive(1)),
        (1, arrive(2)),
        (4, Event::Resize { server: 0, slots: 2 }),
        (10, Event::Depart(slot(0))),
        (14, Event::Depart(slot(1))),
    ] {
        let (at, mut actions) = (Time::ZERO + Duration::from_millis(millis), Vec::new());
        gate.handle(at, event, &mut actions);
        recording.push(at, event, &actions);
    }
    let load = load(&recording);
    assert_eq!(load.gaps().resizes, 1);
    let wait = |spec: &GateSpec, resizes| {
        let account = load.simulate(spec, resizes, &mut |_| ControlFlow::Continue(()));
        account.unwrap().unwrap().fates()[1]
    };
    let started = |millis| JobFate::Started(Duration::from_millis(millis));
    assert_eq!(wait(&spec, Resizes::Again), started(3));
    assert_eq!(wait(&spec, Resizes::LeftOut), started(9));
    assert_eq!(wait(&GateSpec::fifo(3), Resizes::Again), started(0));
}

#[test]
fn a_simulation_ends_when_it_is_told_to() {
    let load = load(&queue(30_000, GateSpec::fifo(4), Client::default()));
    let mut asked = 0;
    let mut stop = |_| {
        asked += 1;
        if asked == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert!(load.simulate(load.spec(), Resizes::Again, &mut stop).unwrap().is_none());
    assert_eq!(asked, 2);
}
