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
    /// Whether the first of them was given its quantum for this turn.
    given: bool,
    len: usize,
}

#[derive(Clone, Debug)]
struct Flow {
    class: u32,
    quantum: u64,
    /// What it may still spend.
    deficit: u64,
    line: Line,
}

/// The work of a job; 1 if nobody knows.
fn cost(job: &Job) -> u64 {
    job.size.max(1)
}

impl Flow {
    /// How many more quanta it needs for its next job.
    fn lacks(&mut self) -> u64 {
        let cost = self.line.oldest().map_or(0, cost);
        cost.saturating_sub(self.deficit).div_ceil(self.quantum)
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
            self.flows.insert(at, Flow { class, quantum, deficit: 0, line });
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
        self.flows[at].line.insert(job);
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
        if self.flows[at].line.live == 0 {
            self.retire(at);
        }
        self.len -= 1;
        Some(job)
    }

    /// The work of jobs that it does not know counts as 1; that of all others too.
    fn ahead(&self, job: &Job) -> usize {
        let Ok(own) = self.flows.binary_search_by_key(&job.class, |flow| flow.class) else {
            return 0;
        };
        let (own, turns) = (&self.flows[own], self.flows[own].line.others(job.id) as u64);
        let before = |flow: &Flow| {
            let part = turns.saturating_mul(flow.quantum) / own.quantum;
            (flow.line.others(job.id) as u64).min(part) as usize
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
