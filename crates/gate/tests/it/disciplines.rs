//! Choice of the next job: the disciplines with a memory against slow and obvious ones, and small
//! exact cases of all.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::{
    Action, AgentState, Cached, CohortScheduler, CohortSpec, DisciplineSpec, Event, Gate, GateSpec,
    Job, JobId, RouterSpec, Slot, SpecError, Time,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::play::{Play, arrive, at, depart, ms, per_server, start};

/// Those who wait behind one that is served, in the order in which they are served.
fn order(discipline: DisciplineSpec, jobs: &[Job]) -> Vec<u64> {
    let discipline_of = discipline.clone();
    let mut play = Play::new(&GateSpec { discipline: discipline_of, ..GateSpec::fifo(1) });
    play.tell(0, Event::Arrive(Job::new(JobId(1))));
    for job in jobs {
        play.tell(job.since.as_nanos() / 1_000_000, Event::Arrive(*job));
    }
    // What the gate says beforehand, twice, since looking changes nothing.
    let said = [(); 2].map(|()| play.gate.queue(at(1000)).iter().map(|job| job.id.0).collect());
    let mut order = Vec::new();
    while play.gate.waiting() > 0 {
        let actions = play.tell(1000, depart(0, 0));
        let [Action::Start { job, .. }] = actions[..] else { panic!("{actions:?}") };
        order.push(job.0);
    }
    let said: [Vec<u64>; 2] = said;
    assert_eq!(said, [order.clone(), order.clone()], "{discipline:?}");
    order
}

#[test]
fn the_queue_of_a_gate_is_in_the_order_of_service() {
    let jobs: Vec<Job> = (2..40)
        .map(|id| Job {
            class: id as u32 % 3,
            priority: (id * 7 % 5) as u8,
            key: id * 5 % 7,
            size: id * 11 % 13,
            deadline: (id % 4 > 0).then(|| at(2000 + id * 17 % 23)),
            ..Job::new(JobId(id))
        })
        .collect();
    for discipline in [
        DisciplineSpec::Fifo,
        DisciplineSpec::Lifo,
        DisciplineSpec::Priority,
        DisciplineSpec::PriorityAgeing { interval: ms(10) },
        DisciplineSpec::ShortestJob,
        DisciplineSpec::EarliestDeadline,
        DisciplineSpec::DeficitRoundRobin { quantum: 5, weights: vec![1, 3] },
        DisciplineSpec::Cohort(CohortSpec {
            capacity: 2,
            run_max: 3,
            cached_max: Some(4),
            levels: 2,
        }),
    ] {
        assert_eq!(order(discipline, &jobs).len(), jobs.len());
    }
}

#[test]
fn of_several_queues_the_first_come_before_the_second() {
    let mut play = Play::new(&per_server(&[1, 1], RouterSpec::RoundRobin));
    (1..8).for_each(|id| drop(play.tell(0, arrive(id))));
    let queue = |play: &Play| play.gate.queue(at(9)).iter().map(|job| job.id.0).collect::<Vec<_>>();
    assert_eq!(queue(&play), [3, 4, 5, 6, 7]);
    play.tell(1, Event::Renege(JobId(3)));
    assert_eq!(queue(&play), [5, 4, 7, 6], "5 and 7 wait for server 0");
    play.tell(2, Event::Down(0));
    play.tell(2, Event::Down(1));
    assert_eq!(queue(&play).len(), 4, "jobs without a server wait too");
}

fn sized(id: u64, size: u64) -> Job {
    Job { size, ..Job::new(JobId(id)) }
}

#[test]
fn the_shortest_job_is_first_and_unknown_sizes_are_last() {
    let jobs = [sized(2, 0), sized(3, 9), sized(4, 1), sized(5, 9), sized(6, 0), sized(7, 8)];
    assert_eq!(order(DisciplineSpec::ShortestJob, &jobs), [4, 7, 3, 5, 2, 6]);
}

#[test]
fn the_earliest_deadline_is_first_and_jobs_without_are_last() {
    let until = |id, ms| Job { deadline: Some(at(ms)), ..Job::new(JobId(id)) };
    let jobs = [Job::new(JobId(2)), until(3, 3000), until(4, 2000), until(5, 3000)];
    assert_eq!(order(DisciplineSpec::EarliestDeadline, &jobs), [4, 3, 5, 2]);
}

#[test]
fn a_wait_of_the_interval_is_worth_a_priority() {
    let job = |id, priority, ms| Job { priority, since: at(ms), ..Job::new(JobId(id)) };
    // Priority 0 at 0 ms is worth as much as priority 2 at 20 ms, and goes first as it is older.
    let jobs = [job(2, 0, 0), job(3, 1, 5), job(4, 2, 20), job(5, 0, 21), job(6, 3, 21)];
    let discipline = DisciplineSpec::PriorityAgeing { interval: ms(10) };
    assert_eq!(order(discipline, &jobs), [6, 3, 2, 4, 5]);
    assert_eq!(order(DisciplineSpec::Priority, &jobs), [6, 4, 3, 2, 5]);
}

#[test]
fn deficit_round_robin_shares_by_work_and_not_by_jobs() {
    let job = |id, class, size| Job { class, size, ..Job::new(JobId(id)) };
    // Class 0 has jobs of 4, class 1 of 1; both have the quantum 2.
    let jobs: Vec<Job> =
        (0..9).map(|n| job(2 + n, u32::from(n >= 3), if n < 3 { 4 } else { 1 })).collect();
    let discipline = DisciplineSpec::DeficitRoundRobin { quantum: 2, weights: vec![] };
    assert_eq!(order(discipline, &jobs), [5, 6, 2, 7, 8, 9, 10, 3, 4]);
    // With twice the weight, class 0 serves a job in each turn.
    let discipline = DisciplineSpec::DeficitRoundRobin { quantum: 2, weights: vec![2] };
    assert_eq!(order(discipline, &jobs), [2, 5, 6, 3, 7, 8, 4, 9, 10]);
}

/// A discipline written as plainly as possible: a list that is searched from end to end.
trait Plain {
    fn push(&mut self, job: Job);
    fn pop(&mut self) -> Option<Job>;
    fn remove(&mut self, id: JobId);
    /// Number of jobs that may be served before one that waits now, if none with priority comes.
    fn wait_max(&self) -> Option<u64> {
        None
    }
}

/// Random arrivals, departures and reneges: the gate serves in the order of the plain discipline.
fn compare(seed: u64, discipline: &DisciplineSpec, plain: &mut dyn Plain) {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |n: u64| chance.next_u64() % n;
    let spec = GateSpec { discipline: discipline.clone(), ..GateSpec::fifo(1) };
    let mut gate = Gate::new(&spec).unwrap();
    let (mut last, mut busy, mut actions, mut popped) = (0, false, Vec::new(), 0);
    // Who waits, since how many pops, and how many more they may wait for.
    let mut waits: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    for step in 0..600 {
        let now = Time::from_nanos(step);
        actions.clear();
        let crowded = step % 200 < 100;
        match below(10) {
            0..=4 if crowded || waits.len() < 3 => {
                last += 1;
                let class = below(3) as u32;
                let (key, size) = (below(7), [0, 1, 2, 5, 23][below(5) as usize]);
                let priority = [0, 0, 0, 0, 1, 2][below(6) as usize];
                let job = Job { class, key, size, priority, ..Job::new(JobId(last)) };
                gate.handle(now, Event::Arrive(job), &mut actions);
                plain.push(job);
                waits.insert(last, (popped, None));
                if !busy {
                    assert_eq!(plain.pop().unwrap().id, job.id);
                    busy = true;
                }
            }
            5 => {
                let id = JobId(last.saturating_sub(below(12)));
                gate.handle(now, Event::Renege(id), &mut actions);
                plain.remove(id);
                waits.remove(&id.0);
            }
            _ if busy => {
                gate.handle(now, Event::Depart(Slot { server: 0, index: 0 }), &mut actions);
                let next = plain.pop();
                popped += 1;
                busy = next.is_some();
                let slot = Slot { server: 0, index: 0 };
                let expected = next.map(|job| Action::Start { job: job.id, slot });
                assert_eq!(actions, Vec::from_iter(expected), "seed {seed} step {step}");
            }
            _ => {}
        }
        for action in &actions {
            let Action::Start { job, .. } = action else { panic!("{action:?}") };
            let (since, bound) = waits.remove(&job.0).unwrap_or((popped, None));
            let waited = popped - since;
            assert!(bound.is_none_or(|most| waited <= most), "seed {seed}: {job:?}: {waited}");
        }
        if let Some(most) = plain.wait_max() {
            waits.values_mut().for_each(|(since, bound)| {
                let promised = popped - *since + most;
                *bound = Some(bound.map_or(promised, |earlier| earlier.max(promised)));
            });
        }
    }
    assert!(popped > 100, "seed {seed}: something was served");
}

/// Turn after turn, one quantum at a time.
struct PlainDeficits {
    quantum: u64,
    weights: Vec<u64>,
    jobs: Vec<Job>,
    /// The classes in the order of their turns, with what they may spend.
    turns: Vec<(u32, u64)>,
    given: bool,
}

impl PlainDeficits {
    fn drop_empty(&mut self) {
        let first = self.turns.first().map(|turn| turn.0);
        self.turns.retain(|(class, _)| self.jobs.iter().any(|job| job.class == *class));
        if self.turns.first().map(|turn| turn.0) != first {
            self.given = false;
        }
    }
}

impl Plain for PlainDeficits {
    fn push(&mut self, job: Job) {
        self.jobs.push(job);
        if self.turns.iter().all(|(class, _)| *class != job.class) {
            self.turns.push((job.class, 0));
        }
    }
    fn pop(&mut self) -> Option<Job> {
        while !self.turns.is_empty() {
            let (class, spare) = &mut self.turns[0];
            if !self.given {
                *spare += self.quantum * self.weights.get(*class as usize).unwrap_or(&1);
                self.given = true;
            }
            let at = self.jobs.iter().position(|job| job.class == *class)?;
            let cost = self.jobs[at].size.max(1);
            if cost <= *spare {
                *spare -= cost;
                let job = self.jobs.remove(at);
                self.drop_empty();
                return Some(job);
            }
            self.turns.rotate_left(1);
            self.given = false;
        }
        None
    }
    fn remove(&mut self, id: JobId) {
        self.jobs.retain(|job| job.id != id);
        self.drop_empty();
    }
}

#[test]
fn deficit_round_robin_says_what_the_plain_one_says() {
    for seed in 0..60 {
        let quantum = [1, 3, 30][seed as usize % 3];
        let weights = [vec![], vec![2, 1, 3]][seed as usize % 2].clone();
        let jobs = Vec::new();
        let wide = weights.iter().map(|&weight| u64::from(weight)).collect();
        let discipline = DisciplineSpec::DeficitRoundRobin { quantum, weights };
        let mut plain =
            PlainDeficits { quantum, weights: wide, jobs, turns: Vec::new(), given: false };
        compare(seed, &discipline, &mut plain);
    }
}

/// Figure 3 as prose: an agent is its jobs, whether it is cached, and since when it is where it is.
struct PlainCohorts {
    spec: CohortSpec,
    agents: BTreeMap<u64, PlainAgent>,
    clock: u64,
    last: Option<(u64, u32)>,
    cached_runs: [u32; 8],
}

#[derive(Default)]
struct PlainAgent {
    jobs: Vec<Job>,
    cached: bool,
    since: u64,
}

impl PlainAgent {
    fn priority(&self) -> Option<u8> {
        self.jobs.iter().map(|job| job.priority).max()
    }
}

impl PlainCohorts {
    fn touch(&mut self, key: u64, before: Option<u8>) {
        self.clock += 1;
        let agent = self.agents.get_mut(&key).unwrap();
        if agent.priority() != before {
            agent.since = self.clock;
        }
    }

    /// The oldest of those that are so.
    fn head(&self, is_so: impl Fn(&PlainAgent) -> bool) -> Option<u64> {
        let those = self.agents.iter().filter(|(_, agent)| is_so(agent));
        those.min_by_key(|(_, agent)| agent.since).map(|(key, _)| *key)
    }

    fn tail(&self, is_so: impl Fn(&PlainAgent) -> bool) -> Option<u64> {
        let those = self.agents.iter().filter(|(_, agent)| is_so(agent));
        those.max_by_key(|(_, agent)| agent.since).map(|(key, _)| *key)
    }

    fn next(&self) -> Option<u64> {
        let CohortSpec { run_max, cached_max, levels, .. } = self.spec;
        let urgent = self.head(|agent| agent.priority().is_some_and(|p| p >= levels));
        if urgent.is_some() {
            return urgent;
        }
        let out = |level| self.head(|a| a.priority() == Some(level) && !a.cached);
        let spent = |level: u8| {
            let runs = self.cached_runs[usize::from(level)];
            cached_max.is_some_and(|most| runs >= most) && out(level).is_some()
        };
        if let Some((key, runs)) = self.last
            && let Some(agent) = self.agents.get(&key)
            && let Some(level) = agent.priority()
            && runs < run_max
            && !(agent.cached && spent(level))
        {
            return Some(key);
        }
        (0..levels).rev().find_map(|level| {
            let inside = self.head(|a| a.priority() == Some(level) && a.cached);
            if spent(level) { out(level) } else { inside.or_else(|| out(level)) }
        })
    }

    fn evict(&mut self) {
        let levels = self.spec.levels;
        let mut order = vec![self.head(|a| a.cached && a.jobs.is_empty())];
        for level in 0..levels {
            order.push(self.tail(|a| a.cached && a.priority() == Some(level)));
        }
        order.push(self.tail(|a| a.cached && a.priority().is_some_and(|p| p >= levels)));
        let key = order.into_iter().flatten().next().unwrap();
        self.clock += 1;
        let agent = self.agents.get_mut(&key).unwrap();
        (agent.cached, agent.since) = (false, self.clock);
        self.agents.retain(|_, agent| agent.cached || !agent.jobs.is_empty());
    }
}

impl Plain for PlainCohorts {
    fn push(&mut self, job: Job) {
        let agent = self.agents.entry(job.key).or_default();
        let before = agent.priority();
        agent.jobs.push(job);
        self.touch(job.key, before);
    }
    fn pop(&mut self) -> Option<Job> {
        let key = self.next()?;
        let times = self.last.filter(|last| last.0 == key).map_or(0, |last| last.1);
        self.last = Some((key, times + 1));
        let agent = &self.agents[&key];
        let level = agent.priority().unwrap();
        if level < self.spec.levels {
            let waits = self.agents.iter().any(|(other, agent)| {
                *other != key && !agent.cached && agent.priority() == Some(level)
            });
            let runs = &mut self.cached_runs[usize::from(level)];
            *runs = if agent.cached && waits { *runs + 1 } else { 0 };
        }
        // It runs: it is in no list while another is evicted.
        let mut agent = self.agents.remove(&key).unwrap();
        let cached = self.agents.values().filter(|agent| agent.cached).count();
        if !agent.cached && cached >= self.spec.capacity as usize {
            self.evict();
        }
        let at = agent.jobs.iter().position(|job| Some(job.priority) == agent.priority())?;
        let job = agent.jobs.remove(at);
        self.clock += 1;
        (agent.cached, agent.since) = (true, self.clock);
        self.agents.insert(key, agent);
        Some(job)
    }
    fn remove(&mut self, id: JobId) {
        let found = self.agents.iter().find(|(_, a)| a.jobs.iter().any(|job| job.id == id));
        let Some((&key, agent)) = found else { return };
        let before = agent.priority();
        self.agents.get_mut(&key).unwrap().jobs.retain(|job| job.id != id);
        self.touch(key, before);
        self.agents.retain(|_, agent| agent.cached || !agent.jobs.is_empty());
        if !self.agents.contains_key(&key) {
            self.last = self.last.filter(|last| last.0 != key);
        }
    }
}

#[test]
fn cohorts_are_served_as_the_plain_ones_are() {
    for seed in 0..120 {
        let n = seed as usize;
        let spec = CohortSpec {
            capacity: [1, 2, 4][n % 3],
            run_max: [1, 2, 50][n / 3 % 3],
            cached_max: [None, Some(1), Some(3)][n / 9 % 3],
            levels: [1, 2, 8][n / 27 % 3],
        };
        let (agents, cached_runs) = (BTreeMap::new(), [0; 8]);
        let mut plain = PlainCohorts { spec, agents, clock: 0, last: None, cached_runs };
        compare(seed, &DisciplineSpec::Cohort(spec), &mut plain);
    }
}

/// One key asks on and on, cached; another, not cached, asks once. Without a limit it would wait for
/// ever; with one it is served after at most that many.
#[test]
fn a_limit_on_the_cached_cohort_starves_nobody() {
    for (cached_max, served_by) in [(None, None), (Some(3), Some(5))] {
        let spec = CohortSpec { capacity: 2, run_max: 2, cached_max, levels: 1 };
        let discipline = DisciplineSpec::Cohort(spec);
        let mut play = Play::new(&GateSpec { discipline, ..GateSpec::fifo(1) });
        let keyed = |id, key| Event::Arrive(Job { key, ..Job::new(JobId(id)) });
        // Keys 1 and 2 fill the cache; then both always have another job, and key 9 has one.
        play.tell(0, keyed(1, 1));
        play.tell(0, keyed(2, 2));
        play.tell(0, depart(0, 0));
        play.tell(0, keyed(3, 9));
        let mut found = None;
        for n in 1..=100 {
            play.tell(n, keyed(10 * n + 1, 1));
            play.tell(n, keyed(10 * n + 2, 2));
            let actions = play.tell(n, depart(0, 0));
            if actions == [start(3, 0, 0)] {
                found = Some(n);
                break;
            }
        }
        assert!(found.is_some() == served_by.is_some(), "{cached_max:?}: {found:?}");
        assert!(found <= served_by, "{cached_max:?}: {found:?}");
    }
}

fn cohorts(capacity: u32, run_max: u32) -> CohortScheduler {
    let spec = CohortSpec { capacity, run_max, cached_max: None, levels: 1 };
    CohortScheduler::new(spec).unwrap()
}

#[test]
fn agents_go_through_the_states_of_the_paper() {
    let mut it = cohorts(1, 1);
    assert_eq!(it.state(4), AgentState::OutEmpty);
    it.deliver(4, 0);
    assert_eq!(it.state(4), AgentState::OutFilled);
    assert_eq!(it.next(None), Some((4, Cached::Out)));
    assert_eq!(it.state(4), AgentState::Running);
    it.loaded(4);
    it.finish(4, Some(0));
    assert_eq!(it.state(4), AgentState::InFilled);
    assert_eq!(it.next(Some(4)), Some((4, Cached::In)));
    it.finish(4, None);
    assert_eq!(it.state(4), AgentState::InEmpty);
    it.deliver(4, 1);
    assert_eq!(it.state(4), AgentState::MaxPriFilled);
    assert_eq!(it.next(None), Some((4, Cached::In)));
    assert_eq!(it.evict(), None, "the only one that is cached runs");
    it.finish(4, None);
    assert_eq!(it.evict(), Some(4));
    assert_eq!((it.state(4), it.cached()), (AgentState::OutEmpty, 0));
}

#[test]
fn the_order_of_figure_3() {
    let mut it = cohorts(2, 2);
    for agent in [1, 2] {
        it.deliver(agent, 0);
        assert_eq!(it.next(None), Some((agent, Cached::Out)));
        it.loaded(agent);
        it.finish(agent, None);
    }
    // 3 is out and first; 1 and 2 are in; 5 gets a message of the highest priority.
    for (agent, priority) in [(3, 0), (2, 0), (1, 0), (5, 1)] {
        it.deliver(agent, priority);
    }
    assert_eq!(it.next(None), Some((5, Cached::Out)), "first the highest priority");
    assert_eq!(it.evict(), Some(1), "nobody is empty: the tail of the cached cohort");
    it.loaded(5);
    it.finish(5, Some(0));
    assert_eq!(it.next(Some(5)), Some((5, Cached::In)), "then the one that has just run");
    it.finish(5, Some(0));
    assert_eq!(it.next(Some(5)), Some((2, Cached::In)), "twice in a row; then the cached cohort");
    it.finish(2, None);
    assert_eq!(it.next(Some(2)), Some((5, Cached::In)));
    it.finish(5, None);
    assert_eq!(it.next(Some(5)), Some((3, Cached::Out)), "then the others, by age");
    assert_eq!(it.evict(), Some(2), "of the empty ones the one that is so longest");
    it.loaded(3);
    it.finish(3, None);
    assert_eq!(it.next(Some(3)), Some((1, Cached::Out)));
}

#[test]
fn the_order_of_eviction() {
    let mut it = cohorts(4, 1);
    for agent in 1..=4 {
        it.deliver(agent, 0);
        it.next(None);
        it.loaded(agent);
        it.finish(agent, None);
    }
    it.deliver(1, 1); // The highest priority.
    it.deliver(2, 0);
    it.deliver(3, 0);
    assert_eq!([it.evict(), it.evict(), it.evict()], [Some(4), Some(3), Some(2)]);
    assert_eq!([it.evict(), it.evict()], [Some(1), None]);
    assert_eq!([it.state(1), it.state(3)], [AgentState::MaxPriFilled, AgentState::OutFilled]);
}

/// yamamoto, section 5: with the scheduler, the share of runs that hit the cache is the cached share
/// of the agents, though every agent gets its message in the same order each time.
#[test]
fn the_hit_ratio_of_scans_is_the_cached_share() {
    let (agents, capacity) = (1000, 300);
    let mut it = cohorts(capacity, 1);
    let mut hits = 0;
    for scan in 0..5 {
        (0..agents).for_each(|agent| it.deliver(agent, 0));
        while let Some((agent, cached)) = it.next(None) {
            match cached {
                Cached::In => hits += u32::from(scan > 0),
                Cached::Out => {
                    if it.is_full() {
                        it.evict().unwrap();
                    }
                    it.loaded(agent);
                }
            }
            it.finish(agent, None);
        }
    }
    assert_eq!(hits, 4 * capacity, "of 4 scans of {agents}");
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let cohort = |capacity, run_max, cached_max, levels| {
        DisciplineSpec::Cohort(CohortSpec { capacity, run_max, cached_max, levels })
    };
    let quantum = |quantum, weights| DisciplineSpec::DeficitRoundRobin { quantum, weights };
    let ageing = |interval| DisciplineSpec::PriorityAgeing { interval };
    for (discipline, error) in [
        (ageing(Duration::ZERO), SpecError::Interval),
        (ageing(Duration::MAX), SpecError::Interval),
        (quantum(0, vec![]), SpecError::Quantum),
        (quantum(1, vec![1, 0]), SpecError::Quantum),
        (cohort(0, 1, None, 1), SpecError::Cohort),
        (cohort(1, 0, None, 1), SpecError::Cohort),
        (cohort(1, 1, Some(0), 1), SpecError::Cohort),
        (cohort(1, 1, None, 0), SpecError::Cohort),
    ] {
        let spec = GateSpec { discipline, ..GateSpec::fifo(1) };
        assert_eq!(Gate::new(&spec).unwrap_err(), error, "{spec:?}");
    }
}
