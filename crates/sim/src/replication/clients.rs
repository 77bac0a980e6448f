//! Clients: when they ask and think, when they lose patience, and when they try again.

use gate::{JobId, Time};
use rand::RngExt;

use super::{NOWHERE, Replication, Role, nanos};
use crate::calendar::Entry;
use crate::network::{Load, Noticed, Retry, Sizes};
use crate::tally::size_bin;

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A gate turned it away.
    Refused,
    /// A station was full.
    Lost,
    /// Its patience at a gate was at its end.
    Reneged,
    /// Too many jobs of its fork failed.
    Fork,
    /// Its client had given up before.
    Unwanted,
}

impl Replication<'_> {
    /// Enters the next arrival of an open class.
    pub(super) fn expect_arrival(&mut self, class: u32) {
        let source = &mut self.sources[class as usize];
        match &self.program.classes[class as usize].load {
            Load::Open(arrivals) => {
                let gap = nanos(arrivals.gap_s(&mut source.arrivals));
                self.calendar.enter_after(self.now, gap, Entry::Arrival(class));
            }
            Load::Varying(curve) => {
                if let Some(next) = curve.arrival_after(source.last_s, &mut source.arrivals) {
                    source.last_s = next;
                    self.calendar.enter(Time::from_nanos(nanos(next)), Entry::Arrival(class));
                }
            }
            Load::Trace(trace) => {
                if let Some(job) = trace.recorded_jobs().get(source.traced as usize) {
                    let (at, order) = (job.job.since, job.order.arrival);
                    self.calendar.enter_in_order(at, order, Entry::Arrival(class));
                } else if let Some((at, _)) = trace.job(source.traced) {
                    self.calendar.enter(Time::from_nanos(nanos(at)), Entry::Arrival(class));
                }
            }
            Load::Closed { .. } | Load::Within => {}
        }
    }

    #[inline]
    pub(super) fn arrival(&mut self, class: u32) {
        self.events += 1;
        let traced = self.sources[class as usize].traced;
        self.sources[class as usize].traced += 1;
        self.expect_arrival(class);
        let customer = self.create(class, Role::Request);
        self.begin_request(customer);
        // In time: the attempt is only in line, and asks for size and demand when its turn comes.
        if let Load::Trace(trace) = &self.program.classes[class as usize].load
            && let Some((_, job)) = trace.job(traced)
        {
            if !trace.recorded_jobs().is_empty() {
                self.rare_states[customer as usize].recorded = traced as u32;
            }
            self.rare_states[customer as usize].demand = job.demand.unwrap_or(0.0);
            if let Some(size) = job.size {
                let asking = &mut self.customers[customer as usize];
                asking.size = size;
                asking.group = size_bin(size);
            }
        }
    }

    /// A closed customer begins to think.
    #[inline]
    pub(super) fn think(&mut self, customer: u32) {
        let class = self.customers[customer as usize].origin as usize;
        if let Load::Closed { think, .. } = &self.program.classes[class].load {
            let span = nanos(think.sample(&mut self.sources[class].arrivals));
            if span == 0 {
                self.begin_request(customer);
            } else {
                self.calendar.enter_after(self.now, span, Entry::Customer(customer));
            }
        }
    }

    /// A customer begins a request.
    #[inline]
    pub(super) fn begin_request(&mut self, customer: u32) {
        let asking = &mut self.customers[customer as usize];
        let class = asking.origin as usize;
        asking.requested = self.now;
        asking.class = asking.origin;
        let source = &mut self.sources[class];
        match &self.program.classes[class].sizes {
            Sizes::None => {}
            Sizes::Documents(set, _) => {
                let drawing = source.drawing.as_mut().expect("made for every set");
                let document = drawing.draw(&mut source.sizes);
                asking.group = document as u32;
                asking.size = set.documents()[document].bytes as f64;
            }
            Sizes::Drawn(dist) => {
                asking.size = dist.sample(&mut source.sizes);
                asking.group = size_bin(asking.size);
            }
        }
        self.attempt(customer);
    }

    /// A customer asks, for the first time or again.
    #[inline]
    pub(super) fn attempt(&mut self, customer: u32) {
        let asking = &mut self.customers[customer as usize];
        let class = asking.origin as usize;
        asking.class = asking.origin;
        asking.at = self.program.entries[class];
        self.classes[class].offered += 1;
        if self.program.impatient
            && let Some(time_out) = &self.program.classes[class].client.time_out
        {
            let span = nanos(time_out.after.sample(&mut self.sources[class].client));
            let at = Time::from_nanos(self.now.as_nanos().saturating_add(span));
            self.rare_states[customer as usize].times_out = at;
            if at < Time::MAX {
                self.calendar.enter(at, Entry::TimeOut(customer));
            }
        }
        self.ready.push_back(customer);
    }

    /// A customer that thought, or paused after a failure, asks.
    #[inline]
    pub(super) fn attempt_again(&mut self, customer: u32) {
        if self.customers[customer as usize].failed == 0 {
            self.begin_request(customer);
        } else {
            self.attempt(customer);
        }
    }

    /// A customer that may give up begins to wait at a gate.
    pub(super) fn begin_patience(&mut self, customer: u32, gate: u32, id: JobId) {
        let going = &self.customers[customer as usize];
        let class = going.origin as usize;
        let rare = &mut self.rare_states[customer as usize];
        rare.waits = Some((gate, id));
        // Jobs that nobody waits for have nobody to lose patience.
        if going.role == Role::Request
            && let Some(patience) = &self.program.classes[class].client.patience
        {
            let span = nanos(patience.sample(&mut self.sources[class].client));
            let at = Time::from_nanos(self.now.as_nanos().saturating_add(span));
            rare.patience_ends = at;
            if at < Time::MAX {
                self.calendar.enter(at, Entry::Patience(customer));
            }
        }
    }

    pub(super) fn patience_ends(&mut self, customer: u32) {
        let rare = &mut self.rare_states[customer as usize];
        if rare.patience_ends != self.now {
            return;
        }
        rare.patience_ends = Time::MAX;
        if let Some((gate, id)) = rare.waits {
            self.renege(gate, id);
            self.fail(customer, Failure::Reneged);
        }
    }

    /// A client gives up its attempt. The job runs on without it, or leaves where that is noticed; the
    /// client goes on as a customer of its own.
    pub(super) fn time_out(&mut self, job: u32) {
        if self.rare_states[job as usize].times_out != self.now {
            return;
        }
        self.rare_states[job as usize].times_out = Time::MAX;
        let left = &mut self.customers[job as usize];
        left.role = Role::Detached;
        self.detached += 1;
        let (origin, failed, requested) = (left.origin, left.failed, left.requested);
        let (group, size, demand) = (left.group, left.size, self.rare_states[job as usize].demand);
        self.classes[left.class as usize].timed_out += 1;
        let client = self.create(origin, Role::Request);
        let asking = &mut self.customers[client as usize];
        (asking.failed, asking.requested) = (failed, requested);
        (asking.group, asking.size) = (group, size);
        self.rare_states[client as usize].demand = demand;
        let noticed = self.program.classes[origin as usize].client.time_out.as_ref();
        if noticed.is_some_and(|time_out| time_out.noticed == Noticed::AtGates) {
            self.rare_states[job as usize].unwanted = true;
            if let Some((gate, id)) = self.rare_states[job as usize].waits {
                self.renege(gate, id);
                self.fail(job, Failure::Unwanted);
            }
        }
        self.retry(client);
    }

    /// An attempt failed: the job gives back all that it holds and leaves.
    pub(super) fn fail(&mut self, customer: u32, failure: Failure) {
        if self.program.blocks {
            self.release_kept(customer);
        }
        while !self.customers[customer as usize].held.is_empty() {
            self.release(customer);
        }
        let failed = &self.customers[customer as usize];
        match failed.role {
            Role::Detached => self.dispose(customer),
            Role::Branch { parent, fork } => {
                self.dispose(customer);
                self.branch_failed(parent, fork);
            }
            Role::Request => {
                let tally = &mut self.classes[failed.class as usize];
                match failure {
                    Failure::Refused | Failure::Fork | Failure::Unwanted => tally.refused += 1,
                    Failure::Lost => tally.lost += 1,
                    Failure::Reneged => tally.reneged += 1,
                }
                // The attempt has failed once; its time-out, still to come, would count it again.
                self.rare_states[customer as usize].times_out = Time::MAX;
                self.retry(customer);
            }
        }
    }

    /// After an attempt that failed, a client tries again or gives up.
    fn retry(&mut self, customer: u32) {
        let client = &mut self.customers[customer as usize];
        let class = client.origin as usize;
        client.station = NOWHERE;
        match &self.program.classes[class].client.retry {
            Some(retry) if client.failed < retry.more => {
                let pause = pause(retry, client.failed, self.sources[class].client.random());
                client.failed += 1;
                self.calendar.enter_after(self.now, nanos(pause), Entry::Customer(customer));
            }
            _ => {
                self.classes[class].gave_up += 1;
                self.end_request(customer);
            }
        }
    }

    /// A request is over, well or not.
    #[inline]
    pub(super) fn end_request(&mut self, customer: u32) {
        self.completed += 1;
        if let Some(initial) = self.initial_place.get_mut(customer as usize) {
            *initial = NOWHERE;
        }
        let client = &mut self.customers[customer as usize];
        client.failed = 0;
        match &self.program.classes[client.origin as usize].load {
            Load::Closed { .. } => self.think(customer),
            Load::Open(_) | Load::Varying(_) | Load::Trace(_) | Load::Within => {
                self.dispose(customer);
            }
        }
    }
}

/// The pause \[s\] after so many failed attempts before; `draw` is from 0 to below 1.
fn pause(retry: &Retry, before: u32, draw: f64) -> f64 {
    let grown = retry.back_off_s * retry.factor.powi(before.min(10_000) as i32);
    grown.min(retry.back_off_max_s) * (1.0 - retry.jitter * draw)
}
