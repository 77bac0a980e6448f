//! Exact mean value analysis for stations of one speed and delays.

use super::answer::Flows;
use super::model::Model;

/// R_ck(n) = D_ck (1 + Q_k(n - 1_c)) / (a_k - rho_k) for every population up to N (Reiser and
/// Lavenberg 1980, with the open load of Lazowska et al. 1984, section 7.4.3). Everything is added,
/// nothing subtracted, so no digits are lost.
///
/// Only two planes of populations are kept: those with as many customers of the largest class, and
/// with one less.
pub(super) fn solve(model: &Model) -> Flows {
    // The first class has no part in a plane: with the largest one first the planes are smallest.
    let mut order: Vec<usize> = (0..model.closed.len()).collect();
    order.sort_by_key(|&c| std::cmp::Reverse(model.population[c]));
    let queues: Vec<usize> =
        (0..model.stations.len()).filter(|&k| !model.stations[k].is_delay()).collect();
    let demand: Vec<Vec<f64>> = order
        .iter()
        .map(|&c| {
            let stretched = |&k: &usize| {
                let spot = &model.stations[k];
                spot.demand[model.closed[c]] / (spot.rates[0] - spot.open_load)
            };
            queues.iter().map(stretched).collect()
        })
        .collect();
    let population: Vec<u32> = order.iter().map(|&c| model.population[c]).collect();
    let pause: Vec<f64> = order.iter().map(|&c| model.pause[c]).collect();
    let last = Recursion::new(&demand, &population, &pause, queues.len()).run();

    let mut flows = Flows::zero(model);
    for (at, &c) in order.iter().enumerate() {
        flows.set_closed(model, c, last.throughput[at], |k| {
            queues.iter().position(|&queue| queue == k).map_or(0.0, |q| last.residence[at][q])
        });
    }
    flows.set_open(model, |k, class| {
        let spot = &model.stations[k];
        let jobs = queues.iter().position(|&queue| queue == k).map_or(0.0, |q| last.jobs[q]);
        spot.demand[class] * (1.0 + jobs) / (spot.rates[0] - spot.open_load)
    });
    flows
}

struct Recursion<'a> {
    demand: &'a [Vec<f64>],
    population: &'a [u32],
    pause: &'a [f64],
    queues: usize,
    /// Places of the populations in a plane: how far apart one customer more of a class is.
    strides: Vec<usize>,
    plane: usize,
}

/// At the whole population, by class in the recursion's order.
struct Last {
    throughput: Vec<f64>,
    residence: Vec<Vec<f64>>,
    jobs: Vec<f64>,
}

impl<'a> Recursion<'a> {
    fn new(
        demand: &'a [Vec<f64>],
        population: &'a [u32],
        pause: &'a [f64],
        queues: usize,
    ) -> Recursion<'a> {
        let mut strides = vec![0; population.len()];
        let mut plane = 1;
        for c in (1..population.len()).rev() {
            strides[c] = plane;
            plane *= population[c] as usize + 1;
        }
        Recursion { demand, population, pause, queues, strides, plane }
    }

    fn run(&self) -> Last {
        let classes = self.population.len();
        let k = self.queues;
        let mut last = Last {
            throughput: vec![0.0; classes],
            residence: vec![vec![0.0; k]; classes],
            jobs: vec![0.0; k],
        };
        if classes == 0 {
            return last;
        }
        let mut before = vec![0.0; self.plane * k];
        let mut now = vec![0.0; self.plane * k];
        let mut residence = vec![0.0; k];
        let mut count = vec![0_u32; classes];
        for first in 0..=self.population[0] {
            count.fill(0);
            count[0] = first;
            for place in 0..self.plane {
                let (done, rest) = now.split_at_mut(place * k);
                let jobs = &mut rest[..k];
                jobs.fill(0.0);
                for c in 0..classes {
                    if count[c] == 0 {
                        continue;
                    }
                    let found = if c == 0 {
                        &before[place * k..][..k]
                    } else {
                        &done[(place - self.strides[c]) * k..][..k]
                    };
                    let mut cycle = self.pause[c];
                    for ((r, d), q) in residence.iter_mut().zip(&self.demand[c]).zip(found) {
                        *r = d * (1.0 + q);
                        cycle += *r;
                    }
                    let x = f64::from(count[c]) / cycle;
                    for (q, r) in jobs.iter_mut().zip(&residence) {
                        *q += x * r;
                    }
                    if count == self.population {
                        last.throughput[c] = x;
                        last.residence[c].copy_from_slice(&residence);
                        last.jobs.copy_from_slice(jobs);
                    }
                }
                self.next(&mut count);
            }
            std::mem::swap(&mut before, &mut now);
        }
        last
    }

    /// The next population of the plane.
    fn next(&self, count: &mut [u32]) {
        for c in (1..count.len()).rev() {
            if count[c] < self.population[c] {
                count[c] += 1;
                return;
            }
            count[c] = 0;
        }
    }
}
