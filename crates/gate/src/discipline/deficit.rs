//! Deficit round robin (Shreedhar and Varghese, "Efficient fair queuing using deficit round robin",
//! SIGCOMM 1995): classes in turn, each as far as its quantum of work goes.

use std::collections::VecDeque;

use super::{Discipline, Line};
use crate::{Job, JobId, Time};

/// Classes in turn. A class that comes to its turn is given its quantum; it is served while that
/// covers its next job, and keeps what is left for its next turn while it has jobs. O(1) amortised
/// in the jobs where the quantum is as large as jobs are, else O(classes).
#[derive(Clone, Debug)]
pub(crate) struct DeficitRoundRobin {
    quantum: u64,
    weights: Vec<u32>,
    /// Sorted by class. A flow stays once its class has been seen: there are as many as classes.
    flows: Vec<Flow>,
    /// The places in `flows` of those with jobs, in the order of their turns.
    turns: VecDeque<usize>,
    /// True if the first of them was given its quantum for this turn.
    given: bool,
    len: usize,
}

#[derive(Clone, Debug)]
struct Flow {
    class: u32,
    quantum: u64,
    /// Work that it may still spend.
    deficit: u64,
    line: Line,
    /// The work of all that wait, and the most of one of them since none did.
    work: u64,
    most: u64,
}

/// The work of a job; 1 if nobody knows.
fn cost(job: &Job) -> u64 {
    job.size.max(1)
}

impl Flow {
    /// Number of quanta that it still lacks for its next job.
    fn lacks(&mut self) -> u64 {
        let cost = self.line.oldest().map_or(0, cost);
        cost.saturating_sub(self.deficit).div_ceil(self.quantum)
    }

    fn push(&mut self, job: &Job) {
        self.line.insert(job);
        self.work = self.work.saturating_add(cost(job));
        self.most = self.most.max(cost(job));
    }

    /// A job waits no longer.
    fn took(&mut self, job: &Job) {
        self.work = self.work.saturating_sub(cost(job));
        if self.line.live == 0 {
            self.most = 0;
        }
    }

    /// Number of its turns that are over before this one's last, at least.
    fn turns_before(&self, job: &Job) -> u64 {
        let waits = self.line.holds(job.id);
        let until = if waits { self.work } else { self.work.saturating_add(cost(job)) };
        until.saturating_sub(self.deficit.saturating_add(1)) / self.quantum
    }

    /// Number of jobs that it is sure to have served after so many turns.
    fn served(&self, turns: u64) -> u64 {
        turns.saturating_mul(self.quantum) / self.most.max(1)
    }

    fn give(&mut self, quanta: u64) {
        self.deficit = self.deficit.saturating_add(self.quantum.saturating_mul(quanta));
    }
}

impl DeficitRoundRobin {
    pub(crate) fn new(quantum: u64, weights: Vec<u32>) -> DeficitRoundRobin {
        let (flows, turns) = (Vec::new(), VecDeque::new());
        DeficitRoundRobin { quantum, weights, flows, turns, given: false, len: 0 }
    }

    /// The place of a class's flow, made if there is none.
    fn flow(&mut self, class: u32) -> usize {
        self.flows.binary_search_by_key(&class, |flow| flow.class).unwrap_or_else(|at| {
            let weight = self.weights.get(class as usize).copied().unwrap_or(1);
            let quantum = self.quantum.saturating_mul(u64::from(weight));
            let line = Line::default();
            let flow = Flow { class, quantum, deficit: 0, line, work: 0, most: 0 };
            self.flows.insert(at, flow);
            self.turns.iter_mut().filter(|turn| **turn >= at).for_each(|turn| *turn += 1);
            at
        })
    }

    /// Ends the turn of the first.
    fn pass(&mut self) {
        self.turns.rotate_left(1);
        self.given = false;
    }

    /// A flow has no jobs left: it leaves the round, and its deficit with it.
    fn retire(&mut self, flow: usize) {
        self.flows[flow].deficit = 0;
        if self.turns.front() == Some(&flow) {
            self.given = false;
        }
        self.turns.retain(|&turn| turn != flow);
    }
}

impl Discipline for DeficitRoundRobin {
    fn push(&mut self, _now: Time, job: &Job) {
        let at = self.flow(job.class);
        if self.flows[at].line.live == 0 {
            self.turns.push_back(at);
        }
        self.flows[at].push(job);
        self.len += 1;
    }

    fn pop(&mut self, _now: Time) -> Option<Job> {
        let mut passed = 0;
        while let Some(&at) = self.turns.front() {
            if !self.given {
                self.flows[at].give(1);
                self.given = true;
            }
            let flow = &mut self.flows[at];
            if flow.lacks() == 0 {
                let job = flow.line.pop_oldest()?;
                flow.deficit -= cost(&job);
                flow.took(&job);
                if flow.line.live == 0 {
                    self.retire(at);
                }
                self.len -= 1;
                return Some(job);
            }
            self.pass();
            passed += 1;
            if passed == self.turns.len() {
                // Nobody could go in a whole round: so many rounds go by in one step.
                let flows = &mut self.flows;
                let rounds = self.turns.iter().map(|&at| flows[at].lacks()).min()?;
                self.turns.iter().for_each(|&at| flows[at].give(rounds - 1));
                passed = 0;
            }
        }
        None
    }

    fn remove(&mut self, id: JobId) -> Option<Job> {
        let (at, job) = (self.flows.iter_mut().enumerate())
            .find_map(|(at, flow)| Some((at, flow.line.remove(id)?)))?;
        self.flows[at].took(&job);
        if self.flows[at].line.live == 0 {
            self.retire(at);
        }
        self.len -= 1;
        Some(job)
    }

    fn ahead(&self, job: &Job) -> usize {
        let Ok(own) = self.flows.binary_search_by_key(&job.class, |flow| flow.class) else {
            return 0;
        };
        let turns = self.flows[own].turns_before(job);
        let before = |flow: &Flow| {
            let waiting = flow.line.others(job.id);
            match flow.class == job.class {
                true => waiting,
                // Between two turns of one flow each other has one.
                false => {
                    usize::try_from(flow.served(turns)).map_or(waiting, |most| most.min(waiting))
                }
            }
        };
        self.flows.iter().map(before).sum()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, class: u32, size: u64) -> Job {
        Job { class, size, ..Job::new(JobId(id)) }
    }

    #[test]
    fn classes_with_large_quanta_put_nobody_behind_more_than_are_served_first() {
        let mut line = DeficitRoundRobin::new(100, vec![]);
        for id in 0..100 {
            line.push(Time::ZERO, &job(id, (id % 2) as u32, 0));
        }
        // Its class has its turn, of a hundred jobs.
        assert_eq!(line.ahead(&job(100, 0, 0)), 50);
    }

    /// What is said to be ahead is served before, in any mixture of classes, weights and sizes, also
    /// in the middle of a turn. Seeds are numbers from 0, which a failure names.
    #[test]
    fn who_is_said_to_be_ahead_is_served_before() {
        for seed in 0..2000_u64 {
            let mut state = seed;
            let mut below = |most: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
                (state >> 33) % most
            };
            let quantum = 1 + below(20);
            let mut line = DeficitRoundRobin::new(quantum, vec![1, 1 + below(3) as u32, 2]);
            let sizes = 1 + below(30);
            let count = below(60);
            for id in 0..count {
                line.push(Time::ZERO, &job(id, below(3) as u32, below(sizes)));
                if below(4) == 0 {
                    line.pop(Time::ZERO);
                }
            }
            let mine = job(count, below(3) as u32, below(sizes));
            let before = line.ahead(&mine);
            line.push(Time::ZERO, &mine);
            assert!(line.ahead(&mine) < line.len(), "seed {seed}");
            let again = line.ahead(&mine);
            let mut served = 0;
            while line.pop(Time::ZERO).is_some_and(|next| next.id != mine.id) {
                served += 1;
            }
            assert!(
                before <= served && again <= served,
                "{before}, {again}: {served}, seed {seed}"
            );
        }
    }
}
