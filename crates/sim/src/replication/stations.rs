//! At the stations: who enters, whose service is over, and who must stay where it is because there is
//! no room.

use super::{NOWHERE, Replication, nanos};
use crate::calendar::Entry;
use crate::network::{Demand, WhenFull};
use crate::replication::clients::Failure;
use crate::station::Service;

impl Replication<'_> {
    /// A customer comes to a station that works at this speed for it.
    #[inline]
    pub(super) fn visit(&mut self, customer: u32, station: u32, demand: &Demand, speed: f64) {
        let going = &mut self.customers[customer as usize];
        let classes = self.program.classes.len();
        let seconds = match demand {
            Demand::Drawn(dist) => {
                let stream = going.origin as usize * self.desks.len() + station as usize;
                debug_assert!(stream < classes * self.desks.len());
                dist.sample(&mut self.demands[stream])
            }
            Demand::OfSize { per_byte_s, base_s } => per_byte_s * going.size + base_s,
            Demand::OfDocument(by_document) => by_document[going.group as usize],
            Demand::OfTrace => self.affairs[customer as usize].demand,
        };
        going.need = nanos(if speed == 1.0 { seconds } else { seconds / speed });
        let desk = &mut self.desks[station as usize];
        if desk.jobs >= desk.room {
            return self.find_full(customer, station);
        }
        self.enter(customer, station);
        if self.program.blocks {
            self.leave_kept(customer);
        }
    }

    fn find_full(&mut self, customer: u32, station: u32) {
        let desk = &mut self.desks[station as usize];
        match desk.full {
            WhenFull::Lose => {
                desk.lost += 1;
                self.fail(customer, Failure::Lost);
            }
            WhenFull::Block => desk.blocked.push_back(customer),
        }
    }

    /// A customer enters a station that has room.
    #[inline]
    fn enter(&mut self, customer: u32, station: u32) {
        let now = self.now;
        let going = &mut self.customers[customer as usize];
        let need = going.need;
        going.station = station;
        let desk = &mut self.desks[station as usize];
        desk.touch(now);
        desk.jobs += 1;
        let look_again = match &mut desk.service {
            Service::Queue { servers, line } if desk.jobs > *servers => {
                return line.push_back(customer);
            }
            Service::Queue { .. } | Service::Delay => {
                return self.calendar.enter_after(now, need, Entry::Customer(customer));
            }
            Service::Sharing(sharing) => sharing.enter(now, customer, need),
            Service::FairShare(share) => {
                let worker = going.held.last().map(|held| (held.gate, held.slot));
                share.enter(now, customer, worker, need)
            }
            Service::Crew(crew) => {
                let priority = self.program.classes[going.class as usize].priority;
                crew.enter(now, customer, priority, need)
            }
        };
        if let Some(at) = look_again {
            self.calendar.enter(at, Entry::Station(station));
        }
    }

    /// A customer's service in a queue, its delay, its think time or its pause is over.
    #[inline]
    pub(super) fn customer_due(&mut self, customer: u32) {
        let station = std::mem::replace(&mut self.customers[customer as usize].station, NOWHERE);
        if station == NOWHERE {
            return self.ask_again(customer);
        }
        self.events += 1;
        let queue = matches!(self.desks[station as usize].service, Service::Queue { .. });
        if self.program.blocks && queue {
            // Whether its server is free depends on whether there is room where it goes.
            self.affairs[customer as usize].keeps = station;
        } else {
            self.depart(station);
            self.let_in(station);
        }
        self.advance(customer);
    }

    /// One job fewer is at a station; in a queue the next one begins.
    #[inline]
    fn depart(&mut self, station: u32) {
        let now = self.now;
        let desk = &mut self.desks[station as usize];
        desk.touch(now);
        desk.jobs -= 1;
        desk.served += 1;
        if let Service::Queue { line, .. } = &mut desk.service
            && let Some(next) = line.pop_front()
        {
            let need = self.customers[next as usize].need;
            self.calendar.enter_after(now, need, Entry::Customer(next));
        }
    }

    /// The next completion or end of a slice at a station that has no entry for each job.
    #[inline]
    pub(super) fn station_due(&mut self, station: u32) {
        let now = self.now;
        let desk = &mut self.desks[station as usize];
        let (completed, next) = match &mut desk.service {
            Service::Sharing(sharing) => {
                let completed = sharing.complete(now);
                (completed, if completed.is_some() { sharing.next(now) } else { None })
            }
            Service::FairShare(share) => (share.complete(now), share.next(now)),
            Service::Crew(crew) => {
                let completed = crew.complete(now);
                (completed, if completed.is_some() { crew.next(now) } else { None })
            }
            Service::Queue { .. } | Service::Delay => (None, None),
        };
        if let Some(at) = next {
            self.calendar.enter(at, Entry::Station(station));
        }
        if let Some(customer) = completed {
            self.events += 1;
            self.depart(station);
            self.let_in(station);
            self.customers[customer as usize].station = NOWHERE;
            self.advance(customer);
        }
    }

    /// A customer that has been served gives up the server that it has kept.
    pub(super) fn leave_kept(&mut self, customer: u32) {
        let keeps = std::mem::replace(&mut self.affairs[customer as usize].keeps, NOWHERE);
        if keeps != NOWHERE {
            self.depart(keeps);
            self.let_in(keeps);
        }
    }

    /// A station has a place free: the one that is blocked longest comes in, and the server that it
    /// has kept is free in turn.
    #[inline]
    fn let_in(&mut self, station: u32) {
        if !self.program.blocks {
            return;
        }
        let mut vacated = std::mem::take(&mut self.vacated);
        vacated.push(station);
        while let Some(station) = vacated.pop() {
            let Some(next) = self.desks[station as usize].blocked.pop_front() else { continue };
            self.enter(next, station);
            let keeps = std::mem::replace(&mut self.affairs[next as usize].keeps, NOWHERE);
            if keeps != NOWHERE {
                self.depart(keeps);
                vacated.push(keeps);
            }
        }
        self.vacated = vacated;
    }
}
