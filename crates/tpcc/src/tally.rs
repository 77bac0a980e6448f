//! Counts of the terminals. Only what lies inside the measurement interval is measured; the
//! New-Orders of the whole run are counted by buckets, so that it can be seen whether it was
//! steady.

use std::collections::BTreeMap;
use std::time::Duration;

use gate::Time;
use measure::{Histogram, Interval};
use workload::tpcc::{CustomerBy, Kind, Request};

use super::intervals::Intervals;
use super::record::{Checkpoints, DeferredRecord, InputCounts, KindRecord};
use super::transactions::Screen;

/// Counts while a run goes on.
pub(super) struct Tally {
    begin: Time,
    end: Time,
    bucket: Duration,
    kinds: [KindRecord; 5],
    /// Sent inside the interval, by kind.
    sent: [u64; 5],
    menu: Histogram,
    lag: Histogram,
    deferred: DeferredRecord,
    inputs: InputCounts,
    new_orders: Vec<u64>,
    checkpoints: Vec<Checkpoints>,
    errors: BTreeMap<String, u64>,
    error_first: Option<String>,
    /// Of a run without waits.
    intervals: Option<Intervals>,
}

/// Counts of the terminals.
pub(super) struct Counted {
    pub(super) kinds: [KindRecord; 5],
    pub(super) menu: Histogram,
    pub(super) lag: Histogram,
    pub(super) deferred: DeferredRecord,
    pub(super) inputs: InputCounts,
    pub(super) new_orders: Vec<u64>,
    pub(super) checkpoints: Vec<Checkpoints>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) error_first: Option<String>,
    pub(super) intervals: Vec<Interval>,
    pub(super) machine_busy: Vec<f64>,
}

impl Tally {
    pub(super) fn new(
        begin: Time,
        end: Time,
        bucket: Duration,
        intervals: Option<Intervals>,
    ) -> Tally {
        Tally {
            begin,
            end,
            bucket,
            kinds: Default::default(),
            sent: [0; 5],
            menu: Histogram::new(),
            lag: Histogram::new(),
            deferred: DeferredRecord::default(),
            inputs: InputCounts::default(),
            new_orders: Vec::new(),
            checkpoints: Vec::new(),
            errors: BTreeMap::new(),
            error_first: None,
            intervals,
        }
    }

    /// True if something that lasted from one moment to another lies inside the interval.
    fn inside(&self, from: Time, to: Time) -> bool {
        self.begin <= from && to < self.end
    }

    /// A menu pick, and the keying that it begins.
    pub(super) fn picked(&mut self, due: Time, now: Time, kind: Kind, keying: Duration) {
        if self.inside(due, now) {
            self.menu.record(now - due);
            self.kinds[kind.index()].keying.record(keying);
        }
    }

    pub(super) fn sent(&mut self, due: Time, now: Time, kind: Kind) {
        if let Some(intervals) = &mut self.intervals {
            intervals.sent(due, now);
        }
        if self.inside(due, due) {
            self.sent[kind.index()] += 1;
            self.lag.record(now - due);
        }
    }

    /// A transaction that was answered.
    pub(super) fn answered(&mut self, kind: Kind, sent: Time, now: Time, retries: u32) {
        if let Some(intervals) = &mut self.intervals {
            intervals.answered(kind, sent, now);
        }
        if kind == Kind::NewOrder {
            let bucket = (now.since(Time::ZERO).as_nanos() / self.bucket.as_nanos()) as usize;
            if self.new_orders.len() <= bucket {
                self.new_orders.resize(bucket + 1, 0);
            }
            self.new_orders[bucket] += 1;
        }
        if self.inside(sent, now) {
            let of = &mut self.kinds[kind.index()];
            of.completed += 1;
            of.response.record(now - sent);
        }
        self.retried(kind, sent, retries);
    }

    pub(super) fn retried(&mut self, kind: Kind, sent: Time, retries: u32) {
        if self.inside(sent, sent) {
            self.kinds[kind.index()].retries += u64::from(retries);
        }
    }

    pub(super) fn thinks(&mut self, from: Time, kind: Kind, think: Duration) {
        if self.inside(from, from) {
            self.kinds[kind.index()].think.record(think);
        }
    }

    /// Counts the inputs of a completed transaction.
    pub(super) fn inputs(&mut self, sent: Time, now: Time, request: &Request, screen: &Screen) {
        if !self.inside(sent, now) {
            return;
        }
        let counts = &mut self.inputs;
        let by_name = |customer| u64::from(matches!(customer, CustomerBy::LastName(_)));
        match request {
            Request::NewOrder(order) => {
                let rolled_back =
                    matches!(screen, Screen::NewOrder(shown) if shown.entered.is_none());
                counts.rollbacks += u64::from(rolled_back);
                if let Some(count) =
                    order.lines.len().checked_sub(5).and_then(|n| counts.orders_by_lines.get_mut(n))
                {
                    *count += 1;
                }
                let remote =
                    order.lines.iter().filter(|line| line.supply_warehouse != order.warehouse);
                counts.lines_remote += remote.count() as u64;
            }
            Request::Payment(payment) => {
                let remote = payment.customer_warehouse != payment.warehouse;
                counts.payments_remote += u64::from(remote);
                counts.payments_by_name += by_name(payment.customer);
            }
            Request::OrderStatus(status) => counts.statuses_by_name += by_name(status.customer),
            Request::Delivery(_) | Request::StockLevel(_) => {}
        }
    }

    /// The deferred part of a Delivery that has ended, and be it after the interval.
    pub(super) fn deferred(&mut self, queued: Time, now: Time, skipped: u32) {
        if self.inside(queued, queued) {
            self.deferred.times.record(now - queued);
            self.deferred.skipped += u64::from(skipped);
        }
    }

    pub(super) fn failed(&mut self, kind: Kind, (sent, now): (Time, Time), code: &str, text: &str) {
        if let Some(intervals) = &mut self.intervals {
            intervals.failed(kind, now);
        }
        if self.inside(sent, sent) {
            self.kinds[kind.index()].failed += 1;
        }
        self.error(code, text);
    }

    /// A Delivery whose deferred part was refused.
    pub(super) fn deferred_failed(&mut self, queued: Time, code: &str, text: &str) {
        self.deferred.failed += u64::from(self.inside(queued, queued));
        self.error(code, text);
    }

    fn error(&mut self, code: &str, text: &str) {
        *self.errors.entry(code.to_owned()).or_default() += 1;
        self.error_first.get_or_insert_with(|| text.to_owned());
    }

    pub(super) fn checkpoints(&mut self, now: Time, (timed, requested): (i64, i64)) {
        let seen = Checkpoints { at_s: now.as_secs_f64(), timed, requested };
        let same = |last: &Checkpoints| (last.timed, last.requested) == (timed, requested);
        if !self.checkpoints.last().is_some_and(same) {
            self.checkpoints.push(seen);
        }
    }

    /// New-Orders answered so far.
    pub(super) fn new_orders(&self) -> u64 {
        self.new_orders.iter().sum()
    }

    /// Ends the count. `open` are the moments at which the Deliveries were queued that are still
    /// open; those older than `limit` are overdue.
    pub(super) fn close(mut self, until: Time, open: &[Time], limit: Duration) -> Counted {
        for (of, sent) in self.kinds.iter_mut().zip(self.sent) {
            of.unfinished = sent - of.completed - of.failed;
        }
        let overdue = |queued: &&Time| **queued >= self.begin && until.since(**queued) > limit;
        self.deferred.overdue = open.iter().filter(overdue).count() as u64;
        let answered = |queued: &&Time| **queued >= self.begin;
        self.deferred.unfinished = open.iter().filter(answered).count() as u64;
        let whole = (until.since(Time::ZERO).as_nanos() / self.bucket.as_nanos()) as usize;
        self.new_orders.resize(whole, 0); // A bucket that was cut off says nothing.
        let intervals = self.intervals.map(|intervals| intervals.close(until));
        let (intervals, machine_busy) = intervals.unwrap_or_default();
        Counted {
            intervals,
            machine_busy,
            kinds: self.kinds,
            menu: self.menu,
            lag: self.lag,
            deferred: self.deferred,
            inputs: self.inputs,
            new_orders: self.new_orders,
            checkpoints: self.checkpoints,
            errors: self.errors,
            error_first: self.error_first,
        }
    }
}
