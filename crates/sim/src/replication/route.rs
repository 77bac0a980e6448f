//! Along a route: a customer goes on until it must wait for something. Forks and jobs of their own
//! begin and end here.

use rand::RngExt;

use super::{Customer, NOWHERE, Replication, Role};
use crate::program::Op;
use crate::replication::clients::Failure;

impl Replication<'_> {
    /// Takes a customer along its route until it must wait for something.
    #[inline]
    pub(super) fn advance(&mut self, customer: u32) {
        let program = self.program;
        loop {
            let going = &mut self.customers[customer as usize];
            let class = going.origin as usize;
            let at = going.at as usize;
            going.at += 1;
            match &program.ops[at] {
                Op::Visit { station, demand } => {
                    if !self.initial_place.is_empty() && self.passes(customer, *station) {
                        continue;
                    }
                    return self.visit(customer, *station, demand, 1.0);
                }
                Op::VisitServer { gate, demand } => {
                    let held = going.held.last().expect("the compiler saw a gate around it");
                    let server = held.slot.server as usize;
                    let station = program.gates[*gate as usize].stations[server] as u32;
                    if !self.initial_place.is_empty() && self.passes(customer, station) {
                        continue;
                    }
                    let speeds = &self.gates[*gate as usize].speeds;
                    let speed = speeds.get(server).copied().unwrap_or(1.0);
                    return self.visit(customer, station, demand, speed);
                }
                Op::Acquire { gate } => {
                    // A gate is never passed by: who begins behind it needs a slot of it there.
                    if !self.initial_place.is_empty() {
                        self.passes(customer, program.stations.len() as u32 + *gate);
                    }
                    return self.arrive_at_gate(customer, *gate);
                }
                Op::Release => self.release(customer),
                Op::Choose(ways) => {
                    let draw = self.sources[class].routing.random::<f64>();
                    if let Some((_, target)) = ways.iter().find(|(sum, _)| draw < *sum) {
                        going.at = *target;
                    }
                }
                Op::Jump(target) => going.at = *target,
                Op::Again { chance, target } => {
                    if self.sources[class].routing.random::<f64>() < *chance {
                        going.at = *target;
                    }
                }
                Op::Done => return self.done(customer),
                Op::Become { class } => going.class = *class,
                Op::Lookup { cache, miss } => {
                    if !self.caches[*cache as usize].look_up() {
                        going.at = *miss;
                    }
                }
                Op::Reply { resume } => self.reply(customer, *resume),
                Op::Send { resume } => {
                    going.at = *resume;
                    self.spawn(customer, at as u32 + 1, Role::Detached);
                }
                Op::Fork { ways, need, resume } => {
                    return self.fork(customer, ways, *need, *resume);
                }
                Op::Join | Op::End => return self.end(customer),
            }
        }
    }

    #[inline]
    fn done(&mut self, customer: u32) {
        if self.program.blocks {
            self.release_kept(customer);
        }
        let going = &self.customers[customer as usize];
        if going.role == Role::Detached {
            return self.dispose(customer);
        }
        let response = self.now.as_nanos() - going.requested.as_nanos();
        // Another class has other sizes, or none.
        let group = if going.class == going.origin { going.group } else { u32::MAX };
        self.classes[going.class as usize].complete(response, group, going.size);
        if let Some(responses) = &mut self.responses {
            responses.push(response as f64 * 1e-9);
        }
        if self.program.impatient {
            self.rare_states[customer as usize].times_out = gate::Time::MAX;
        }
        self.end_request(customer);
    }

    /// A job of its own begins there; returns it.
    fn spawn(&mut self, parent: u32, at: u32, role: Role) -> u32 {
        let child = self.create(self.customers[parent as usize].origin, role);
        self.detached += usize::from(role == Role::Detached);
        let &Customer { class, group, size, requested, .. } = &self.customers[parent as usize];
        let born = &mut self.customers[child as usize];
        (born.class, born.group, born.size, born.requested) = (class, group, size, requested);
        born.at = at;
        self.rare_states[child as usize].demand = self.rare_states[parent as usize].demand;
        self.ready.push_back(child);
        child
    }

    /// The client goes on; the slot is kept by what follows.
    fn reply(&mut self, customer: u32, resume: u32) {
        if self.program.blocks {
            self.release_kept(customer);
        }
        let at = std::mem::replace(&mut self.customers[customer as usize].at, resume);
        let second = self.spawn(customer, at, Role::Detached);
        let held = self.customers[customer as usize].held.pop();
        self.customers[second as usize].held.extend(held);
    }

    fn fork(&mut self, customer: u32, ways: &[u32], need: u32, resume: u32) {
        if self.program.blocks {
            self.release_kept(customer);
        }
        // A number of its own, so that those who come late find nobody waiting; 0 is no fork.
        self.forks = self.forks.wrapping_add(1).max(1);
        let fork = self.forks;
        self.customers[customer as usize].at = resume;
        let rare = &mut self.rare_states[customer as usize];
        (rare.fork, rare.need, rare.out) = (fork, need, ways.len() as u32);
        for &way in ways {
            self.spawn(customer, way, Role::Branch { parent: customer, fork });
        }
    }

    /// A job of its own is through.
    fn end(&mut self, child: u32) {
        if self.program.blocks {
            self.release_kept(child);
        }
        let role = self.customers[child as usize].role;
        self.dispose(child);
        let Role::Branch { parent, fork } = role else { return };
        let waiting = &mut self.rare_states[parent as usize];
        if waiting.fork != fork {
            return;
        }
        debug_assert!(waiting.need <= waiting.out, "{} of {} must join", waiting.need, waiting.out);
        waiting.out -= 1;
        waiting.need -= 1;
        if waiting.need == 0 {
            waiting.fork = 0;
            self.ready.push_back(parent);
        }
    }

    /// A job of a fork failed; if too many did, so does the one that waits.
    pub(super) fn branch_failed(&mut self, parent: u32, fork: u32) {
        let waiting = &mut self.rare_states[parent as usize];
        if waiting.fork != fork {
            return;
        }
        waiting.out -= 1;
        if waiting.out < waiting.need {
            waiting.fork = 0;
            self.customers[parent as usize].station = NOWHERE;
            self.fail(parent, Failure::Fork);
        }
    }
}
