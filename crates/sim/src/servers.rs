//! A queue whose servers must be told apart: they differ in speed, go down, or are taken away from
//! less important jobs. Plain queues need none of this and do without.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gate::Time;

use crate::network::Order;

/// The servers and the queue in front of them.
#[derive(Debug)]
pub(crate) struct Servers {
    order: Order,
    servers: Vec<Server>,
    /// Those that wait, in the order of their ranks.
    waiting: BTreeMap<Rank, Job>,
    entered: u64,
    /// When the next service is complete; entries of the calendar for other moments are stale.
    due: Option<Time>,
}

/// A server.
#[derive(Debug)]
struct Server {
    /// 0 while it is down.
    speed: f64,
    job: Option<Job>,
    /// Up to when the work on its job has been counted.
    since: Time,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    customer: u32,
    priority: u8,
    entered: u64,
    /// Work that is left \[ns at speed 1\].
    left: f64,
}

/// Rank of a job, the first one least: the most important, then the one with the least left, as the
/// bits of a number that is not negative and where the order looks at it, then the one that came
/// first.
type Rank = (Reverse<u8>, u64, u64);

impl Job {
    fn rank(&self, order: Order) -> Rank {
        // Of numbers that are not negative the bits have the order of the numbers.
        debug_assert!(self.left >= 0.0, "{self:?}");
        let left = if order == Order::ShortestRemaining { self.left.to_bits() } else { 0 };
        (Reverse(self.priority), left, self.entered)
    }
}

impl Server {
    fn work(&mut self, now: Time) {
        if let Some(job) = &mut self.job {
            let span = (now.as_nanos() - self.since.as_nanos()) as f64;
            job.left = (job.left - span * self.speed).max(0.0);
        }
        self.since = now;
    }

    /// When its job is complete.
    fn due(&self) -> Option<Time> {
        let job = self.job.as_ref().filter(|_| self.speed > 0.0)?;
        let span = (job.left / self.speed).ceil() as u64;
        Some(Time::from_nanos(self.since.as_nanos().saturating_add(span)))
    }
}

impl Servers {
    pub(crate) fn new(order: Order, speeds: Vec<f64>) -> Servers {
        let server = |speed| Server { speed, job: None, since: Time::ZERO };
        Servers {
            order,
            servers: speeds.into_iter().map(server).collect(),
            waiting: BTreeMap::new(),
            entered: 0,
            due: None,
        }
    }

    /// Number of servers that are not down.
    pub(crate) fn up(&self) -> u32 {
        self.servers.iter().filter(|server| server.speed > 0.0).count() as u32
    }

    /// A job enters that needs `need` ns at speed 1; returns when to look again, if that changed.
    pub(crate) fn enter(
        &mut self,
        now: Time,
        customer: u32,
        priority: u8,
        need: u64,
    ) -> Option<Time> {
        self.entered += 1;
        let priority = match self.order {
            Order::Fifo | Order::ShortestRemaining => 0,
            Order::Priority | Order::Preemptive => priority,
        };
        let job = Job { customer, priority, entered: self.entered, left: need as f64 };
        self.waiting.insert(job.rank(self.order), job);
        let interrupts = matches!(self.order, Order::Preemptive | Order::ShortestRemaining);
        if interrupts && self.free().is_none() {
            self.preempt(now, &job);
        }
        self.start(now);
        self.schedule(now)
    }

    /// If a service is complete now, takes that job out. Ask [`next`](Servers::next) when to look
    /// again.
    pub(crate) fn complete(&mut self, now: Time) -> Option<u32> {
        if self.due != Some(now) {
            return None;
        }
        self.due = None;
        let done = self.servers.iter_mut().find(|server| server.due() == Some(now))?;
        let job = done.job.take()?;
        self.start(now);
        Some(job.customer)
    }

    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        self.schedule(now)
    }

    /// Changes a server's speed; returns when to look again, if that changed.
    pub(crate) fn set_speed(&mut self, now: Time, server: usize, speed: f64) -> Option<Time> {
        self.servers[server].work(now);
        self.servers[server].speed = speed;
        self.start(now);
        self.schedule(now)
    }

    /// The fastest server that is free.
    fn free(&self) -> Option<usize> {
        let free = self.servers.iter().enumerate();
        let free = free.filter(|(_, server)| server.job.is_none() && server.speed > 0.0);
        // The first of equals.
        let fastest = free.rev().max_by(|(_, a), (_, b)| a.speed.total_cmp(&b.speed));
        fastest.map(|(at, _)| at)
    }

    /// Sends the last job in rank back to the queue if one came that goes before it, and not only
    /// because of who came first.
    fn preempt(&mut self, now: Time, coming: &Job) {
        let order = self.order;
        let up = self.servers.iter_mut().filter(|server| server.speed > 0.0);
        let ranked = up.filter_map(|server| {
            server.work(now);
            server.job.map(|job| (job.rank(order), server))
        });
        let Some((rank, server)) = ranked.max_by_key(|(rank, _)| *rank) else { return };
        let ahead = coming.rank(order);
        if (ahead.0, ahead.1) < (rank.0, rank.1) {
            let job = server.job.take().expect("it was ranked by its job");
            self.waiting.insert(rank, job);
        }
    }

    fn start(&mut self, now: Time) {
        while !self.waiting.is_empty()
            && let Some(at) = self.free()
            && let Some((_, job)) = self.waiting.pop_first()
        {
            self.servers[at].job = Some(job);
            self.servers[at].since = now;
        }
    }

    fn schedule(&mut self, now: Time) -> Option<Time> {
        let due = self.servers.iter().filter_map(Server::due).min().map(|due| due.max(now));
        // The calendar forgets nothing: an entry for a moment that is still due is there already.
        let changed = due != self.due;
        self.due = due;
        due.filter(|_| changed)
    }
}
