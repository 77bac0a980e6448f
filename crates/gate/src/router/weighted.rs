//! Servers in proportion to their weights, in turn or by chance.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Router, chance, draw_below};
use crate::{Job, ServerView, Time};

/// Smooth weighted round robin: every usable server is credited with its weight, the one with the
/// most credit (the lowest index among equals) is taken and pays the sum of those weights. Among the
/// same servers each is taken exactly `weight` times in as many turns as the weights sum to.
#[derive(Debug)]
pub(crate) struct WeightedRotation {
    servers: Vec<Credit>,
}

#[derive(Debug)]
struct Credit {
    weight: i64,
    credit: i64,
}

impl WeightedRotation {
    pub(crate) fn new(weights: &[u32]) -> WeightedRotation {
        let servers = weights.iter().map(|&weight| Credit { weight: weight.into(), credit: 0 });
        WeightedRotation { servers: servers.collect() }
    }
}

impl Router for WeightedRotation {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let mut most: Option<usize> = None;
        let mut paid = 0;
        for at in (0..servers.len()).filter(|&at| servers[at].usable) {
            self.servers[at].credit += self.servers[at].weight;
            paid += self.servers[at].weight;
            if most.is_none_or(|most| self.servers[at].credit > self.servers[most].credit) {
                most = Some(at);
            }
        }
        self.servers[most?].credit -= paid;
        most
    }
}

/// A usable server with a chance in proportion to its weight.
#[derive(Debug)]
pub(crate) struct WeightedRandom {
    weights: Vec<u32>,
    chance: Xoshiro256PlusPlus,
}

impl WeightedRandom {
    /// Its chance is a function of `seed`.
    pub(crate) fn new(weights: &[u32], seed: u64) -> WeightedRandom {
        WeightedRandom { weights: weights.to_vec(), chance: chance(seed) }
    }
}

impl Router for WeightedRandom {
    fn route(&mut self, _now: Time, _job: &Job, servers: &[ServerView]) -> Option<usize> {
        let weights = &self.weights;
        let usable = || (0..servers.len()).filter(|&at| servers[at].usable);
        let sum: usize = usable().map(|at| weights[at] as usize).sum();
        let mut left = draw_below(&mut self.chance, sum)?;
        usable().find(|&at| {
            let weight = weights[at] as usize;
            let is_here = left < weight;
            left = left.wrapping_sub(weight);
            is_here
        })
    }
}
