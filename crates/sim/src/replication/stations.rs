//! At the stations: who enters, whose service is over, and who must stay where it is because there is
//! no room.

use gate::Time;
use workload::RecordedJob;

use super::{Customer, NOWHERE, Replication, nanos};
use crate::calendar::{Calendar, Entry};
use crate::network::{Demand, WhenFull};
use crate::replication::clients::Failure;
use crate::station::{Service, StationState};

impl Replication<'_> {
    /// A customer comes to a station that works at this speed for it.
    #[inline]
    pub(super) fn visit(&mut self, customer: u32, station: u32, demand: &Demand, speed: f64) {
        if let Some(recorded) = self.recorded(customer) {
            return self.hold_recorded(customer, station, recorded);
        }
        let going = &mut self.customers[customer as usize];
        let seconds = match demand {
            Demand::Drawn(dist) => {
                let stream = going.origin as usize * self.stations.len() + station as usize;
                dist.sample(&mut self.demands[stream])
            }
            Demand::OfSize { per_byte_s, base_s } => per_byte_s * going.size + base_s,
            Demand::OfDocument(by_document) => by_document[going.group as usize],
            Demand::OfTrace => self.rare_states[customer as usize].demand,
        };
        // Drawn though there may be no room: a blocked job takes its demand along, and a lost one does
        // not change what those after it draw.
        going.need = nanos(if speed == 1.0 { seconds } else { seconds / speed });
        let state = &mut self.stations[station as usize];
        if state.jobs >= state.room {
            return self.arrive_full(customer, station);
        }
        let priority = self.program.classes[going.class as usize].priority;
        enter(self.now, (customer, going), (station, state), priority, &mut self.calendar);
        // Blocking after service: the server that it comes from is free once it has a place here.
        if self.program.blocks {
            self.release_kept(customer);
        }
    }

    /// A job holds its slot for as long as it was recorded.
    fn hold_recorded(&mut self, customer: u32, station: u32, recorded: &RecordedJob) {
        self.customers[customer as usize].station = station;
        let state = &mut self.stations[station as usize];
        state.accumulate(self.now);
        state.jobs += 1;
        let (at, order) = (self.now + recorded.hold, recorded.order.departure);
        self.calendar.enter_in_order(at, order, Entry::Customer(customer));
    }

    fn arrive_full(&mut self, customer: u32, station: u32) {
        let state = &mut self.stations[station as usize];
        match state.full {
            WhenFull::Lose => {
                state.lost += 1;
                self.fail(customer, Failure::Lost);
            }
            WhenFull::Block => state.blocked.push_back(customer),
        }
    }

    /// A customer's service in a queue, its delay, its think time or its pause is over.
    #[inline]
    pub(super) fn customer_due(&mut self, customer: u32) {
        let station = std::mem::replace(&mut self.customers[customer as usize].station, NOWHERE);
        if station == NOWHERE {
            return self.attempt_again(customer);
        }
        self.events += 1;
        let state = &mut self.stations[station as usize];
        if !self.program.blocks {
            depart(self.now, state, &mut self.calendar);
        } else if matches!(state.service, Service::Queue { .. }) {
            // Whether its server is free depends on whether there is room where it goes.
            self.rare_states[customer as usize].keeps = station;
        } else {
            self.depart_and_unblock(station);
        }
        self.advance(customer);
    }

    /// The next completion or end of a slice at a station that has no entry for each job.
    #[inline]
    pub(super) fn station_due(&mut self, station: u32) {
        let now = self.now;
        let state = &mut self.stations[station as usize];
        let (completed, next) = match &mut state.service {
            Service::Sharing(sharing) => {
                let completed = sharing.complete(now);
                (completed, if completed.is_some() { sharing.next(now) } else { None })
            }
            // A slice may end without a completion, and the next one begins all the same.
            Service::FairShare(share) => (share.complete(now), share.next(now)),
            Service::Servers(servers) => {
                let completed = servers.complete(now);
                (completed, if completed.is_some() { servers.next(now) } else { None })
            }
            Service::Queue { .. } | Service::Delay => (None, None),
        };
        if let Some(at) = next {
            self.calendar.enter(at, Entry::Station(station));
        }
        if let Some(customer) = completed {
            self.events += 1;
            if self.program.blocks {
                self.depart_and_unblock(station);
            } else {
                depart(now, state, &mut self.calendar);
            }
            self.customers[customer as usize].station = NOWHERE;
            self.advance(customer);
        }
    }

    /// A customer that has been served gives up the server that it has kept.
    pub(super) fn release_kept(&mut self, customer: u32) {
        let keeps = std::mem::replace(&mut self.rare_states[customer as usize].keeps, NOWHERE);
        if keeps != NOWHERE {
            self.depart_and_unblock(keeps);
        }
    }

    /// One job fewer is at a station, where stations block: the one that is blocked longest comes in, and
    /// the server that it has kept is free in turn.
    fn depart_and_unblock(&mut self, station: u32) {
        let now = self.now;
        // A list, not a recursion: who comes in may free a server for the next one, and so on.
        let mut vacated = std::mem::take(&mut self.vacated);
        vacated.push(station);
        while let Some(station) = vacated.pop() {
            let state = &mut self.stations[station as usize];
            depart(now, state, &mut self.calendar);
            let Some(next) = state.blocked.pop_front() else { continue };
            let coming = &mut self.customers[next as usize];
            let priority = self.program.classes[coming.class as usize].priority;
            enter(now, (next, coming), (station, state), priority, &mut self.calendar);
            let keeps = std::mem::replace(&mut self.rare_states[next as usize].keeps, NOWHERE);
            if keeps != NOWHERE {
                vacated.push(keeps);
            }
        }
        self.vacated = vacated;
    }
}

/// A customer enters a station that has room.
#[inline(always)]
fn enter(
    now: Time,
    (customer, going): (u32, &mut Customer),
    (station, state): (u32, &mut StationState),
    priority: u8,
    calendar: &mut Calendar,
) {
    let need = going.need;
    going.station = station;
    state.accumulate(now);
    state.jobs += 1;
    debug_assert!(state.jobs <= state.room, "station {station} has no room");
    let look_again = match &mut state.service {
        Service::Queue { servers, waiting } if state.jobs > *servers => {
            return waiting.push_back((customer, need));
        }
        Service::Queue { .. } | Service::Delay => {
            return calendar.enter_after(now, need, Entry::Customer(customer));
        }
        Service::Sharing(sharing) => sharing.enter(now, customer, need),
        Service::FairShare(share) => {
            let worker = going.held.last().map(|held| (held.gate, held.slot));
            share.enter(now, customer, worker, need)
        }
        Service::Servers(servers) => servers.enter(now, customer, priority, need),
    };
    if let Some(at) = look_again {
        calendar.enter(at, Entry::Station(station));
    }
}

/// One job fewer is at a station; in a queue the next one begins.
#[inline(always)]
fn depart(now: Time, state: &mut StationState, calendar: &mut Calendar) {
    debug_assert!(state.jobs > 0, "somebody leaves an empty station");
    state.accumulate(now);
    state.jobs -= 1;
    state.served += 1;
    if let Service::Queue { servers, waiting } = &mut state.service {
        if let Some((next, need)) = waiting.pop_front() {
            calendar.enter_after(now, need, Entry::Customer(next));
        }
        let most = state.jobs.saturating_sub(*servers) as usize;
        debug_assert_eq!(waiting.len(), most, "a job waits beside a free server");
    }
}
