//! Where to. A router sees what each server reports of itself and names one.

use std::fmt::Debug;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Job, Length, ServerView, Ties, Time};

/// Which server a job goes to.
pub trait Router: Debug + Send {
    /// The server for `job`, an index into `servers`; `None` if none of them is
    /// [usable](ServerView::usable).
    fn route(&mut self, now: Time, job: &Job, servers: &[ServerView]) -> Option<usize>;
}

/// Each usable server with equal chance.
#[derive(Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A router whose choices are a function of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
}

impl Router for Random {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let usable = servers.iter().filter(|s| s.usable).count();
        let nth = draw_below(&mut self.0, usable)?;
        servers.iter().enumerate().filter(|(_, s)| s.usable).map(|(at, _)| at).nth(nth)
    }
}

/// One server after the other, passing over those that are not usable.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Router for RoundRobin {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let n = servers.len();
        let at = (0..n).map(|i| (self.next + i) % n).find(|&at| servers[at].usable)?;
        self.next = (at + 1) % n;
        Some(at)
    }
}

/// The usable server with the fewest jobs.
#[derive(Debug)]
pub struct ShortestQueue {
    length: Length,
    ties: Ties,
    last: usize,
    chance: Xoshiro256PlusPlus,
}

impl ShortestQueue {
    /// A router that counts `length` and breaks ties by `ties`; its chance is a function of `seed`.
    pub fn new(length: Length, ties: Ties, seed: u64) -> ShortestQueue {
        // The first turn of `Rotate` must fall on server 0.
        ShortestQueue { length, ties, last: usize::MAX, chance: SeedableRng::seed_from_u64(seed) }
    }
}

impl Router for ShortestQueue {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let n = servers.len();
        let length = self.length;
        let count = |at: usize| match length {
            Length::Waiting => servers[at].waiting,
            Length::InSystem => servers[at].waiting + u64::from(servers[at].busy),
        };
        let usable = |at: &usize| servers[*at].usable;
        let least = (0..n).filter(usable).map(count).min()?;
        let is_least = |at: &usize| usable(at) && count(*at) == least;
        let at = match self.ties {
            Ties::Lowest => (0..n).find(is_least)?,
            Ties::Rotate => (1..=n).map(|i| (self.last.wrapping_add(i)) % n).find(is_least)?,
            Ties::Random => {
                let among = (0..n).filter(is_least).count();
                let nth = draw_below(&mut self.chance, among)?;
                (0..n).filter(is_least).nth(nth)?
            }
        };
        self.last = at;
        Some(at)
    }
}

/// A number below `n` with equal chance (Lemire's multiplication; its bias of at most `n / 2^64` is
/// far below what any run could see); `None` if `n` is 0.
fn draw_below(chance: &mut Xoshiro256PlusPlus, n: usize) -> Option<usize> {
    if n == 0 {
        return None;
    }
    Some(((u128::from(chance.next_u64()) * n as u128) >> 64) as usize)
}
