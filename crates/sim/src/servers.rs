//! A queue whose servers must be told apart: they differ in speed, go down, or are taken away from
//! less important jobs. Plain queues need none of this and do without.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gate::Time;

use crate::network::Order;

/// The servers and the line in front of them.
#[derive(Debug)]
pub(crate) struct Crew {
    order: Order,
    hands: Vec<Hand>,
    /// Those that wait, in the order of their ranks.
    line: BTreeMap<Rank, Task>,
    entered: u64,
    /// When the next service is complete; entries of the calendar for other moments are stale.
    due: Option<Time>,
}

/// A server.
#[derive(Debug)]
struct Hand {
    /// 0 while it is down.
    speed: f64,
    task: Option<Task>,
    /// Up to when the work on its task has been counted.
    since: Time,
}

#[derive(Clone, Copy, Debug)]
struct Task {
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

impl Task {
    fn rank(&self, order: Order) -> Rank {
        let left = if order == Order::ShortestRemaining { self.left.to_bits() } else { 0 };
        (Reverse(self.priority), left, self.entered)
    }
}

impl Hand {
    fn work(&mut self, now: Time) {
        if let Some(task) = &mut self.task {
            let span = (now.as_nanos() - self.since.as_nanos()) as f64;
            task.left = (task.left - span * self.speed).max(0.0);
        }
        self.since = now;
    }

    /// When its task is complete.
    fn due(&self) -> Option<Time> {
        let task = self.task.as_ref().filter(|_| self.speed > 0.0)?;
        let span = (task.left / self.speed).ceil() as u64;
        Some(Time::from_nanos(self.since.as_nanos().saturating_add(span)))
    }
}

impl Crew {
    pub(crate) fn new(order: Order, speeds: Vec<f64>) -> Crew {
        let hand = |speed| Hand { speed, task: None, since: Time::ZERO };
        Crew {
            order,
            hands: speeds.into_iter().map(hand).collect(),
            line: BTreeMap::new(),
            entered: 0,
            due: None,
        }
    }

    /// Number of servers that are not down.
    pub(crate) fn up(&self) -> u32 {
        self.hands.iter().filter(|hand| hand.speed > 0.0).count() as u32
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
        let task = Task { customer, priority, entered: self.entered, left: need as f64 };
        self.line.insert(task.rank(self.order), task);
        let interrupts = matches!(self.order, Order::Preemptive | Order::ShortestRemaining);
        if interrupts && self.free().is_none() {
            self.preempt(now, &task);
        }
        self.start(now);
        self.schedule(now)
    }

    /// If a service is complete now, takes that job out. Ask [`next`](Crew::next) when to look again.
    pub(crate) fn complete(&mut self, now: Time) -> Option<u32> {
        if self.due != Some(now) {
            return None;
        }
        self.due = None;
        let done = self.hands.iter_mut().find(|hand| hand.due() == Some(now))?;
        let task = done.task.take()?;
        self.start(now);
        Some(task.customer)
    }

    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        self.schedule(now)
    }

    /// Changes a server's speed; returns when to look again, if that changed.
    pub(crate) fn set_speed(&mut self, now: Time, server: usize, speed: f64) -> Option<Time> {
        self.hands[server].work(now);
        self.hands[server].speed = speed;
        self.start(now);
        self.schedule(now)
    }

    /// The fastest server that is free.
    fn free(&self) -> Option<usize> {
        let free = self.hands.iter().enumerate();
        let free = free.filter(|(_, hand)| hand.task.is_none() && hand.speed > 0.0);
        // The first of equals.
        let fastest = free.rev().max_by(|(_, a), (_, b)| a.speed.total_cmp(&b.speed));
        fastest.map(|(at, _)| at)
    }

    /// Sends the last task in rank back to the line if one came that goes before it, and not only because
    /// of who came first.
    fn preempt(&mut self, now: Time, coming: &Task) {
        let order = self.order;
        let up = self.hands.iter_mut().filter(|hand| hand.speed > 0.0);
        let ranked = up.filter_map(|hand| {
            hand.work(now);
            hand.task.map(|task| (task.rank(order), hand))
        });
        let Some((rank, hand)) = ranked.max_by_key(|(rank, _)| *rank) else { return };
        let ahead = coming.rank(order);
        if (ahead.0, ahead.1) < (rank.0, rank.1) {
            let task = hand.task.take().expect("it was ranked by its task");
            self.line.insert(rank, task);
        }
    }

    fn start(&mut self, now: Time) {
        while !self.line.is_empty()
            && let Some(at) = self.free()
            && let Some((_, task)) = self.line.pop_first()
        {
            self.hands[at].task = Some(task);
            self.hands[at].since = now;
        }
    }

    fn schedule(&mut self, now: Time) -> Option<Time> {
        let due = self.hands.iter().filter_map(Hand::due).min().map(|due| due.max(now));
        let changed = due != self.due;
        self.due = due;
        due.filter(|_| changed)
    }
}
