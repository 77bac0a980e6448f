//! Where to. A router sees what each server reports of itself and names one.

use std::fmt::Debug;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Job, ServerView, Time};

mod keyed;
mod least;
mod weighted;

pub(crate) use keyed::ByKey;
pub(crate) use least::{JoinIdle, Least, PowerOfD, Score};
pub(crate) use weighted::{WeightedRandom, WeightedRotation};

/// Which server a job goes to.
pub trait Router: Debug + Send {
    /// The server for `job`, an index into `servers`; `None` if none of them is
    /// [usable](ServerView::usable), or if the job must wait for one that is not.
    fn route(&mut self, now: Time, job: &Job, servers: &[ServerView]) -> Option<usize>;
    /// What [`route`](Router::route) says where all servers are usable, perhaps found without a look at each
    /// of them.
    fn route_all(&mut self, now: Time, job: &Job, servers: &[ServerView]) -> Option<usize> {
        self.route(now, job, servers)
    }
}

/// Each usable server with equal chance.
#[derive(Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A router whose choices are a function of `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random(chance(seed))
    }
}

impl Router for Random {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let usable = servers.iter().filter(|s| s.usable).count();
        let nth = draw_below(&mut self.0, usable)?;
        servers.iter().enumerate().filter(|(_, s)| s.usable).map(|(at, _)| at).nth(nth)
    }

    fn route_all(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        draw_below(&mut self.0, servers.len())
    }
}

/// One server after the other, passing over those that are not usable.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    next: usize,
}

impl Router for RoundRobin {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let n = servers.len();
        let mut at = self.next;
        for _ in 0..n {
            let next = if at + 1 == n { 0 } else { at + 1 };
            if servers[at].usable {
                self.next = next;
                return Some(at);
            }
            at = next;
        }
        None
    }
}

fn chance(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// A number below `n` with equal chance (Lemire's multiplication; its bias of at most `n / 2^64` is
/// far below what any run could see); `None` if `n` is 0.
fn draw_below(chance: &mut Xoshiro256PlusPlus, n: usize) -> Option<usize> {
    if n == 0 {
        return None;
    }
    Some(((u128::from(chance.next_u64()) * n as u128) >> 64) as usize)
}
