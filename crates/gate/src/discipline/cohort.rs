//! Jobs in cohorts by key: yamamoto's agent scheduler as a discipline.

use std::collections::{BTreeMap, VecDeque};

use super::Discipline;
use crate::{Cached, CohortScheduler, CohortSpec, Job, JobId, Time};

/// The cohort scheduler over the keys of jobs. A key is an agent while it has jobs or is taken as
/// cached; a discipline hears of no departures, so that a job counts as handled when it starts.
/// O(log n).
#[derive(Clone, Debug)]
pub(crate) struct Cohort {
    scheduler: CohortScheduler,
    agents: BTreeMap<u64, u32>,
    desks: Vec<Desk>,
    free: Vec<u32>,
    /// The agent and the priority of each job.
    places: BTreeMap<JobId, (u32, u8)>,
    last: Option<u32>,
}

/// An agent's jobs, the highest priority first.
#[derive(Clone, Debug, Default)]
struct Desk {
    key: u64,
    jobs: BTreeMap<std::cmp::Reverse<u8>, VecDeque<Job>>,
}

impl Desk {
    fn highest(&self) -> Option<u8> {
        self.jobs.first_key_value().map(|(priority, _)| priority.0)
    }

    fn take(&mut self, priority: u8, which: impl FnOnce(&VecDeque<Job>) -> Option<usize>) -> Job {
        let line = self.jobs.get_mut(&std::cmp::Reverse(priority)).expect("the job is in it");
        let job = which(line).and_then(|at| line.remove(at)).expect("the job is in it");
        if line.is_empty() {
            self.jobs.remove(&std::cmp::Reverse(priority));
        }
        job
    }
}

impl Cohort {
    pub(crate) fn new(spec: CohortSpec) -> Cohort {
        Cohort {
            scheduler: CohortScheduler::new(spec).expect("the specification was checked"),
            agents: BTreeMap::new(),
            desks: Vec::new(),
            free: Vec::new(),
            places: BTreeMap::new(),
            last: None,
        }
    }

    fn agent(&mut self, key: u64) -> u32 {
        if let Some(&agent) = self.agents.get(&key) {
            return agent;
        }
        let agent = self.free.pop().unwrap_or_else(|| {
            self.desks.push(Desk::default());
            self.desks.len() as u32 - 1
        });
        self.desks[agent as usize].key = key;
        self.agents.insert(key, agent);
        agent
    }

    /// Forgets an agent that is neither cached nor has jobs.
    fn forget(&mut self, agent: u32) {
        if self.scheduler.state(agent) == crate::AgentState::OutEmpty {
            self.agents.remove(&self.desks[agent as usize].key);
            self.free.push(agent);
            self.last = self.last.filter(|last| *last != agent);
        }
    }
}

impl Discipline for Cohort {
    fn push(&mut self, _now: Time, job: &Job) {
        let agent = self.agent(job.key);
        let line = self.desks[agent as usize].jobs.entry(std::cmp::Reverse(job.priority));
        let line = line.or_default();
        let at = line.partition_point(|other| other.id < job.id);
        line.insert(at, *job);
        self.places.insert(job.id, (agent, job.priority));
        self.scheduler.deliver(agent, job.priority);
    }

    fn pop(&mut self, _now: Time) -> Option<Job> {
        let (agent, cached) = self.scheduler.next(self.last)?;
        if cached == Cached::Out {
            let evicted = if self.scheduler.is_full() { self.scheduler.evict() } else { None };
            self.scheduler.loaded(agent);
            evicted.into_iter().for_each(|evicted| self.forget(evicted));
        }
        let desk = &mut self.desks[agent as usize];
        let priority = desk.highest().expect("an agent that is next has jobs");
        let job = desk.take(priority, |_| Some(0));
        self.scheduler.finish(agent, desk.highest());
        self.places.remove(&job.id);
        self.last = Some(agent);
        Some(job)
    }

    fn remove(&mut self, id: JobId) -> Option<Job> {
        let (agent, priority) = self.places.remove(&id)?;
        let desk = &mut self.desks[agent as usize];
        let job = desk.take(priority, |line| line.binary_search_by_key(&id, |job| job.id).ok());
        self.scheduler.retract(agent, desk.highest());
        self.forget(agent);
        Some(job)
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}
