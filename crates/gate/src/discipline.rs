//! Choice of the next job. A discipline keeps the jobs that wait in one queue and names the next
//! one.

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::{Job, JobId, Time};

mod cohort;
mod deficit;
mod ranked;

pub(crate) use cohort::Cohort;
pub(crate) use deficit::DeficitRoundRobin;
pub(crate) use ranked::{Rank, Ranked};

/// Order of service of the waiting jobs.
///
/// Jobs are pushed in the order of their ids, except when the server that they waited for went
/// down: then they come with the ids that they have.
pub trait Discipline: Debug + Send {
    /// A job begins to wait.
    fn push(&mut self, now: Time, job: &Job);
    /// A slot is free: takes the next job out; `None` if none waits, or to leave the slot idle on
    /// purpose until [`next_wakeup`](Discipline::next_wakeup).
    fn pop(&mut self, now: Time) -> Option<Job>;
    /// Takes a waiting job out because it gave up or timed out; `None` if it does not wait here.
    fn remove(&mut self, id: JobId) -> Option<Job>;
    /// True if a job that arrives now may start without being pushed: if so, no job waits, and a
    /// [`push`](Discipline::push) and a [`pop`](Discipline::pop) would give back this job and leave
    /// nothing behind that a later answer depends on.
    fn lets_pass(&self) -> bool {
        false
    }
    /// Number of those that wait and are sure to be served before `job` if nobody else comes, where
    /// `job` came last, whether it waits already or not.
    fn ahead(&self, _job: &Job) -> usize {
        0
    }
    /// Number of jobs that wait.
    fn len(&self) -> usize;
    /// True if no job waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether `pop` ever holds a job back.
    fn holds_back(&self) -> bool {
        false
    }
    /// When a job that `pop` holds back becomes ready; later than the `now` of the last call.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// One like it, whose answers change nothing of this one.
    fn copy(&self) -> Box<dyn Discipline>;
}

/// A line of jobs sorted by id. Both ends are O(1), removal from the middle is O(log n): a removed
/// job leaves a gap, and the line is closed up when more than half of it is gaps. Insertion is O(1)
/// in the order of ids; else, when a server went down, it moves up to half of the line.
#[derive(Clone, Debug, Default)]
struct Line {
    places: VecDeque<Place>,
    live: usize,
}

#[derive(Clone, Debug)]
struct Place {
    job: Job,
    live: bool,
}

impl Line {
    fn insert(&mut self, job: &Job) {
        self.live += 1;
        let place = Place { job: *job, live: true };
        if self.places.back().is_none_or(|last| last.job.id < job.id) {
            self.places.push_back(place);
        } else {
            let at = self.places.partition_point(|p| p.job.id < job.id);
            self.places.insert(at, place);
        }
    }

    fn pop_oldest(&mut self) -> Option<Job> {
        while let Some(place) = self.places.pop_front() {
            if place.live {
                self.live -= 1;
                return Some(place.job);
            }
        }
        None
    }

    fn pop_newest(&mut self) -> Option<Job> {
        while let Some(place) = self.places.pop_back() {
            if place.live {
                self.live -= 1;
                return Some(place.job);
            }
        }
        None
    }

    /// The oldest job. Gaps before it are closed.
    fn oldest(&mut self) -> Option<&Job> {
        while self.places.front().is_some_and(|place| !place.live) {
            self.places.pop_front();
        }
        self.places.front().map(|place| &place.job)
    }

    /// Number of jobs beside one that came last.
    fn others(&self, id: JobId) -> usize {
        let last = self.places.back().filter(|place| place.live);
        self.live - usize::from(last.is_some_and(|place| place.job.id == id))
    }

    fn holds(&self, id: JobId) -> bool {
        let at = self.places.binary_search_by_key(&id, |p| p.job.id);
        at.is_ok_and(|at| self.places[at].live)
    }

    fn remove(&mut self, id: JobId) -> Option<Job> {
        let at = self.places.binary_search_by_key(&id, |p| p.job.id).ok()?;
        let place = &mut self.places[at];
        if !place.live {
            return None;
        }
        place.live = false;
        let job = place.job;
        self.live -= 1;
        if self.places.len() > 32 && self.live * 2 < self.places.len() {
            self.places.retain(|p| p.live);
        }
        Some(job)
    }
}

/// First in, first out, by arrival at the gate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo(Line);

impl Discipline for Fifo {
    fn push(&mut self, _now: Time, job: &Job) {
        self.0.insert(job);
    }
    fn pop(&mut self, _now: Time) -> Option<Job> {
        self.0.pop_oldest()
    }
    fn remove(&mut self, id: JobId) -> Option<Job> {
        self.0.remove(id)
    }
    fn lets_pass(&self) -> bool {
        self.0.live == 0
    }
    fn ahead(&self, job: &Job) -> usize {
        self.0.others(job.id)
    }
    fn len(&self) -> usize {
        self.0.live
    }
    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}

/// Last in, first out. Under overload it serves fresh jobs well and lets old ones time out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifo(Line);

impl Discipline for Lifo {
    fn push(&mut self, _now: Time, job: &Job) {
        self.0.insert(job);
    }
    fn pop(&mut self, _now: Time) -> Option<Job> {
        self.0.pop_newest()
    }
    fn remove(&mut self, id: JobId) -> Option<Job> {
        self.0.remove(id)
    }
    fn lets_pass(&self) -> bool {
        self.0.live == 0
    }
    fn len(&self) -> usize {
        self.0.live
    }
    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}

/// Strict priority: the largest [`Job::priority`] first, first in first out within one. Low
/// priorities starve under overload; that is what strict means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Priority {
    /// Sorted by priority, highest first. A level stays once it has been seen: there are at most
    /// 256.
    levels: Vec<(u8, Line)>,
    len: usize,
}

impl Discipline for Priority {
    fn push(&mut self, _now: Time, job: &Job) {
        let at = self.levels.partition_point(|(priority, _)| *priority > job.priority);
        if self.levels.get(at).is_none_or(|(priority, _)| *priority != job.priority) {
            self.levels.insert(at, (job.priority, Line::default()));
        }
        self.levels[at].1.insert(job);
        self.len += 1;
    }
    fn pop(&mut self, _now: Time) -> Option<Job> {
        let job = self.levels.iter_mut().find_map(|(_, line)| line.pop_oldest())?;
        self.len -= 1;
        Some(job)
    }
    fn remove(&mut self, id: JobId) -> Option<Job> {
        let job = self.levels.iter_mut().find_map(|(_, line)| line.remove(id))?;
        self.len -= 1;
        Some(job)
    }
    fn ahead(&self, job: &Job) -> usize {
        let before = self.levels.iter().take_while(|(priority, _)| *priority >= job.priority);
        before.map(|(_, line)| line.others(job.id)).sum()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn copy(&self) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}
