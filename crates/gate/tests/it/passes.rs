//! Passes, turns of tenants, ageing and the limit on the highest priority: nobody starves, and by how
//! much each waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate::{
    Cached, CohortScheduler, CohortSpec, EvictionRule, PassSpec, SchedulerSpec, SpecError,
    TenantSpec, Time, Urgent,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn spec(capacity: u32) -> SchedulerSpec {
    SchedulerSpec::from(CohortSpec { capacity, run_max: 1, cached_max: None, levels: 2 })
}

fn passes(members_max: Option<u32>, runs_max: u32) -> Option<PassSpec> {
    Some(PassSpec { members_max, runs_max, tenants: None })
}

/// Runs the next agent for one message; `left` is what it has left.
fn run(it: &mut CohortScheduler, left: impl FnOnce(u32) -> Option<u8>) -> Option<u32> {
    let (agent, cached) = it.next(None)?;
    if cached == Cached::Out {
        if it.is_full() {
            it.evict().unwrap();
        }
        it.loaded(agent);
    }
    it.finish(agent, left(agent));
    Some(agent)
}

#[test]
fn who_comes_during_a_pass_waits_for_the_next() {
    let mut it =
        CohortScheduler::with(SchedulerSpec { passes: passes(None, 1), ..spec(4) }).unwrap();
    it.deliver(1, 0);
    it.deliver(2, 0);
    assert_eq!(it.next(None), None, "no pass has started");
    assert_eq!(it.start_pass(), 2);
    it.deliver(3, 1);
    assert_eq!(run(&mut it, |_| Some(0)), Some(1));
    assert_eq!((it.start_pass(), it.members()), (0, 1), "the pass is not over");
    it.join(4, 0);
    it.deliver(5, 2);
    assert_eq!(run(&mut it, |_| None), Some(5), "the highest priority waits for no pass");
    assert_eq!(run(&mut it, |_| None), Some(2));
    assert_eq!(run(&mut it, |_| None), Some(4), "it joined");
    assert_eq!((it.next(None), it.members()), (None, 0));
    assert_eq!(it.start_pass(), 2);
    assert_eq!(run(&mut it, |_| None), Some(3), "on the higher level");
    assert_eq!(run(&mut it, |_| None), Some(1), "it had a message left, and one run a pass");
    assert_eq!((it.start_pass(), it.next(None)), (0, None));
}

#[test]
fn the_backlog_is_evicted_after_the_empty_and_before_the_members() {
    let mut it =
        CohortScheduler::with(SchedulerSpec { passes: passes(None, 1), ..spec(3) }).unwrap();
    for agent in 1..=3 {
        it.join(agent, 0);
        run(&mut it, |_| None).unwrap();
    }
    it.join(1, 0);
    it.deliver(2, 0);
    assert_eq!([it.evict(), it.evict(), it.evict()], [Some(3), Some(2), Some(1)]);
    assert_eq!((it.cached(), it.members()), (0, 1));
    assert_eq!(run(&mut it, |_| None), Some(1), "it has its turn all the same");
}

/// The bound that `PassSpec` states, under a flood: an agent that is `p` places from the head of the
/// backlog runs at the latest in pass 1 + p / members_max, whoever is cached and whatever comes.
/// Seeds are numbers from 0, which a failure names.
#[test]
fn the_wait_for_a_pass_is_bounded() {
    for seed in 0..100 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |most: u64| chance.next_u64() % most;
        let most = 1 + below(6) as u32;
        let runs_max = 1 + below(3) as u32;
        let spec =
            SchedulerSpec { passes: passes(Some(most), runs_max), ..spec(1 + below(5) as u32) };
        let mut it = CohortScheduler::with(spec).unwrap();
        let mut last_pass = BTreeMap::new();
        let (mut pass, mut queue) = (0_u64, BTreeMap::<u32, u64>::new());
        let mut runs = 0;
        for _ in 0..600 {
            let agent = below(20) as u32;
            if queue.insert(agent, 1 + below(3)).is_none() {
                // Everybody who waits may be before it.
                let places = queue.len() as u64 - 1;
                last_pass.insert(agent, pass + 1 + places / u64::from(most));
            }
            it.deliver(agent, below(2) as u8);
            if it.members() == 0 {
                assert!(it.start_pass() <= most, "seed {seed}");
                (pass, runs) = (pass + 1, 0);
            }
            let mut empty = None;
            let ran = run(&mut it, |agent| {
                let left = queue.get_mut(&agent).unwrap();
                *left -= 1;
                empty = (*left == 0).then_some(agent);
                (*left > 0).then_some(0)
            });
            let Some(agent) = ran else { continue };
            runs += 1;
            assert!(runs <= most * runs_max, "seed {seed}");
            if let Some(by) = last_pass.remove(&agent) {
                assert!(pass <= by, "seed {seed}: agent {agent} in pass {pass}, not {by}");
            }
            match empty {
                Some(agent) => _ = queue.remove(&agent),
                None => {
                    let places = queue.len() as u64 - 1;
                    last_pass.insert(agent, pass + 1 + places / u64::from(most));
                }
            }
        }
    }
}

/// One tenant with a hundred agents that always have messages, one with a single agent: by turns the
/// single one runs in every pass, in order of waiting after all the others.
#[test]
fn a_large_tenant_does_not_keep_a_small_one_waiting() {
    let waits = |tenants| {
        let passes = Some(PassSpec { members_max: Some(10), runs_max: 1, tenants });
        let mut it = CohortScheduler::with(SchedulerSpec { passes, ..spec(10) }).unwrap();
        for agent in 0..=100 {
            it.introduce(agent, u64::from(agent), u32::from(agent == 100));
            it.deliver(agent, 0);
        }
        let mut ran = 0;
        while it.start_pass() > 0 {
            while let Some(agent) = run(&mut it, |_| Some(0)) {
                ran += 1;
                if agent == 100 {
                    return ran;
                }
            }
        }
        unreachable!("all agents run");
    };
    assert!(waits(Some(TenantSpec { quantum: 5, weights: vec![] })) <= 10);
    assert!(waits(None) > 100);
}

/// Tenants of weights 1 and 3 that both always have agents waiting get 1 and 3 of 4 runs.
#[test]
fn tenants_share_passes_by_their_weights() {
    let tenants = Some(TenantSpec { quantum: 2, weights: vec![1, 3] });
    let passes = Some(PassSpec { members_max: Some(16), runs_max: 1, tenants });
    let mut it = CohortScheduler::with(SchedulerSpec { passes, ..spec(10) }).unwrap();
    for agent in 0..200 {
        it.introduce(agent, u64::from(agent), agent % 2);
        it.deliver(agent, 0);
    }
    let mut runs = [0, 0];
    for _ in 0..50 {
        assert_eq!(it.start_pass(), 16);
        while let Some(agent) = run(&mut it, |_| Some(0)) {
            runs[agent as usize % 2] += 1;
        }
    }
    assert_eq!(runs, [200, 600]);
}

#[test]
fn the_highest_priority_lets_others_through() {
    let mut it = CohortScheduler::with(SchedulerSpec { urgent_max: Some(3), ..spec(4) }).unwrap();
    it.deliver(1, 2);
    it.deliver(2, 2);
    it.deliver(7, 0);
    let ran: Vec<u32> = (0..8)
        .map(|_| run(&mut it, |agent| Some(if agent == 7 { 0 } else { 2 })).unwrap())
        .collect();
    assert_eq!(ran, [1, 2, 1, 7, 2, 1, 2, 7]);
}

/// A flood on the high level, served as fast as it comes: without ageing the low level never runs; with
/// it, once it has waited for the interval.
#[test]
fn ageing_ends_a_wait_below_a_flood() {
    let waits = |ageing| {
        let mut it = CohortScheduler::with(SchedulerSpec { ageing, ..spec(4) }).unwrap();
        it.deliver(9, 0);
        (0..1_000).find(|&second| {
            it.age(Time::from_nanos(second * 1_000_000_000));
            it.deliver((second % 3) as u32, 1);
            run(&mut it, |_| None) == Some(9)
        })
    };
    assert_eq!(waits(None), None);
    assert_eq!(waits(Some(Duration::from_secs(60))), None, "others are cached, and go before it");
    let cached = |ageing| {
        let mut it = CohortScheduler::with(SchedulerSpec { ageing, ..spec(4) }).unwrap();
        it.deliver(9, 1);
        run(&mut it, |_| None).unwrap();
        it.deliver(9, 0);
        let found = (1..1_000).find(|&second| {
            it.age(Time::from_nanos(second * 1_000_000_000));
            (0..2).for_each(|agent| it.deliver(agent, 1));
            run(&mut it, |_| None) == Some(9)
        });
        (found, it.next_rise())
    };
    assert_eq!(cached(None), (None, None));
    let (found, rise) = cached(Some(Duration::from_secs(60)));
    assert!(found.is_some_and(|second| (60..=62).contains(&second)), "{found:?}");
    assert_eq!(rise, None, "nobody waits below the highest level");
}

/// An agent that had risen by waiting fell back to the level of its next message, and began to wait
/// anew: the more messages it had the later it ran.
#[test]
fn a_further_message_takes_no_level_away_that_was_reached_by_waiting() {
    let spec = CohortSpec { capacity: 4, run_max: 1, cached_max: None, levels: 3 };
    let ageing = Some(Duration::from_secs(60));
    let spec = SchedulerSpec { ageing, passes: passes(None, 1), ..SchedulerSpec::from(spec) };
    let second = |n: u64| Time::from_nanos(n * 1_000_000_000);
    let mut it = CohortScheduler::with(spec).unwrap();
    it.deliver(9, 0);
    it.start_pass();
    [60, 120].map(second).into_iter().for_each(|now| it.age(now));
    it.join(5, 1);
    it.deliver(9, 1);
    it.join(9, 0);
    assert_eq!(it.peek(), Some((9, Cached::Out, Urgent::No)), "it is on the highest level");
    assert_eq!(run(&mut it, |_| None), Some(9));
    assert_eq!(run(&mut it, |_| None), Some(5));
    it.deliver(9, 0);
    it.age(second(170));
    it.deliver(9, 1);
    assert_eq!(it.next_rise(), Some(second(180)), "60 s after it began to wait");
    it.retract(9, Some(0));
    it.age(second(180));
    assert_eq!(it.next_rise(), Some(second(230)), "what is left gives the level");
}

#[test]
fn a_cache_is_bounded_in_bytes_too() {
    let mut it = CohortScheduler::with(SchedulerSpec { bytes_max: Some(100), ..spec(10) }).unwrap();
    for (agent, bytes) in [(1, 40), (2, 59)] {
        it.deliver(agent, 0);
        it.next(None).unwrap();
        it.loaded(agent);
        it.resize(agent, bytes);
        it.finish(agent, None);
    }
    assert!(!it.is_full());
    it.resize(1, 41);
    assert!(it.is_full());
    assert_eq!((it.evict(), it.bytes()), (Some(1), 59));
    it.deliver(2, 0);
    it.next(None).unwrap();
    it.dropped(2);
    it.finish(2, Some(1));
    assert_eq!((it.bytes(), it.cached(), it.next(None)), (0, 0, Some((2, Cached::Out))));
}

/// Messages in, runs out, under every setting at once: nobody is lost, nobody runs twice at once, the
/// cache keeps its bound. Seeds are numbers from 0, which a failure names.
#[test]
fn every_message_is_run_once_under_every_setting() {
    for seed in 0..400 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |most: u64| chance.next_u64() % most;
        let spec = any_spec(&mut below);
        let capacity = spec.cohorts.capacity;
        let mut it = CohortScheduler::with(spec).unwrap();
        let mut queues = BTreeMap::<u32, Vec<u8>>::new();
        let mut running = BTreeSet::new();
        for step in 0..800 {
            it.age(Time::from_nanos(step));
            let agent = below(15) as u32;
            match below(4) {
                0 if step < 600 => {
                    let priority = below(4) as u8;
                    queues.entry(agent).or_default().push(priority);
                    if below(5) == 0 {
                        it.join(agent, priority)
                    } else {
                        it.deliver(agent, priority)
                    }
                }
                1 if queues.get(&agent).is_some_and(|of| !of.is_empty())
                    && !running.contains(&agent) =>
                {
                    let of = queues.get_mut(&agent).unwrap();
                    of.remove(below(of.len() as u64) as usize);
                    it.retract(agent, of.iter().max().copied());
                }
                2 if (running.len() as u32) < capacity - 1 => {
                    if it.members() == 0 {
                        it.start_pass();
                    }
                    let Some((agent, cached)) = it.next(None) else { continue };
                    assert!(running.insert(agent), "seed {seed}: {agent} runs twice");
                    if cached == Cached::Out {
                        while it.is_full() && it.evict().is_some() {}
                        it.loaded(agent);
                        it.resize(agent, below(30));
                    }
                }
                _ => {
                    let Some(&agent) = running.first() else { continue };
                    running.remove(&agent);
                    let of = queues.get_mut(&agent).unwrap();
                    let at = (0..of.len()).max_by_key(|&at| of[at]).expect("it had a message");
                    of.remove(at);
                    if below(9) == 0 {
                        it.dropped(agent);
                    }
                    it.finish(agent, of.iter().max().copied());
                }
            }
            assert!(it.cached() <= capacity, "seed {seed}");
        }
        while let Some(agent) = running.pop_first() {
            queues.get_mut(&agent).unwrap().pop();
            let left = queues[&agent].iter().max().copied();
            it.finish(agent, left);
        }
        drain(&mut it, &mut queues);
        assert!(queues.values().all(Vec::is_empty), "seed {seed}: {queues:?}");
        assert_eq!((it.members(), it.start_pass()), (0, 0), "seed {seed}");
    }
}

/// A scheduler of any setting.
fn any_spec(below: &mut impl FnMut(u64) -> u64) -> SchedulerSpec {
    let rules = [
        EvictionRule::Lru,
        EvictionRule::Mru,
        EvictionRule::Sieve,
        EvictionRule::Frequency,
        EvictionRule::WTinyLfu,
    ];
    let tenants =
        (below(2) == 0).then(|| TenantSpec { quantum: 1 + below(3), weights: vec![2, 1] });
    let limit = (below(2) == 0).then(|| 1 + below(5) as u32);
    let gated = PassSpec { members_max: limit, runs_max: 1 + below(3) as u32, tenants };
    SchedulerSpec {
        cohorts: CohortSpec {
            capacity: 2 + below(6) as u32,
            run_max: 1 + below(3) as u32,
            cached_max: (below(2) == 0).then_some(2),
            levels: 1 + below(3) as u8,
        },
        bytes_max: (below(2) == 0).then_some(50),
        eviction: rules[below(5) as usize],
        passes: (below(3) > 0).then_some(gated),
        urgent_max: (below(2) == 0).then_some(2),
        ageing: (below(2) == 0).then_some(Duration::from_nanos(20)),
    }
}

/// Runs everybody who has messages.
fn drain(it: &mut CohortScheduler, queues: &mut BTreeMap<u32, Vec<u8>>) {
    loop {
        it.start_pass();
        let urgent = matches!(it.peek(), Some((.., Urgent::Yes)));
        let ran = run_in_bytes(it, |agent| {
            let highest = queues[&agent].iter().max().copied();
            assert!(!urgent || highest >= Some(1), "{agent} has nothing urgent: {queues:?}");
            queues.get_mut(&agent).unwrap().pop().expect("it has a message");
            queues[&agent].iter().max().copied()
        });
        if ran.is_none() {
            break;
        }
    }
}

/// The same as `run`, with a cache that may be full of bytes.
fn run_in_bytes(it: &mut CohortScheduler, left: impl FnOnce(u32) -> Option<u8>) -> Option<u32> {
    let (agent, cached) = it.next(None)?;
    if cached == Cached::Out {
        while it.is_full() && it.evict().is_some() {}
        it.loaded(agent);
    }
    it.finish(agent, left(agent));
    Some(agent)
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let refused = |spec: SchedulerSpec| CohortScheduler::with(spec).unwrap_err();
    let tenants = |quantum, weights| {
        let tenants = Some(TenantSpec { quantum, weights });
        SchedulerSpec {
            passes: Some(PassSpec { members_max: None, runs_max: 1, tenants }),
            ..spec(1)
        }
    };
    assert_eq!(refused(SchedulerSpec { bytes_max: Some(0), ..spec(1) }), SpecError::Cohort);
    assert_eq!(refused(SchedulerSpec { urgent_max: Some(0), ..spec(1) }), SpecError::Cohort);
    assert_eq!(refused(SchedulerSpec { passes: passes(Some(0), 1), ..spec(1) }), SpecError::Cohort);
    assert_eq!(refused(SchedulerSpec { passes: passes(None, 0), ..spec(1) }), SpecError::Cohort);
    assert_eq!(refused(tenants(0, vec![])), SpecError::Quantum);
    assert_eq!(refused(tenants(1, vec![0])), SpecError::Quantum);
    let ageing = Some(Duration::ZERO);
    assert_eq!(refused(SchedulerSpec { ageing, ..spec(1) }), SpecError::Interval);
}

#[test]
fn agents_are_loaded_ahead_only_where_nobody_with_messages_leaves_for_them() {
    let mut it = CohortScheduler::with(spec(2)).unwrap();
    for agent in [1, 2] {
        it.deliver(agent, 0);
        run(&mut it, |_| None).unwrap();
    }
    for agent in [1, 3, 4] {
        it.deliver(agent, 0);
    }
    it.deliver(9, 2);
    assert_eq!(it.next_to_load(), Some(3), "2 can leave; the highest priority is not its business");
    assert_eq!(it.evict(), Some(2));
    it.loaded(3);
    assert_eq!(it.next_to_load(), None, "1 has a message, 3 runs");
    assert_eq!(it.peek(), Some((9, Cached::Out, Urgent::Yes)));
    it.finish(3, None);
    assert_eq!(it.next_to_load(), Some(4));
}
