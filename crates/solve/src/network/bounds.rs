//! Bounds that no class of a network can exceed, from demands alone (Lazowska et al. 1984, chapter
//! 5).

use super::model::{Model, Order, Spot};
use super::{Load, Network};
use crate::{Exactness, SolveError};

/// An interval that holds the exact throughput and response time of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassBounds {
    /// The throughput is at least this [1/s].
    pub throughput_min: f64,
    /// The throughput is at most this [1/s].
    pub throughput_max: f64,
    /// The response time is at least this \[s\].
    pub response_min: f64,
    /// The response time is at most this \[s\], where asymptotic bounds know such a limit.
    pub response_max: Option<f64>,
}

impl Network {
    /// Asymptotic bounds of every class, in order: alone in the network it would be as fast as it
    /// can, and behind all others, at every station, as slow as it can. With open load at a station
    /// of several speeds, and where the order of service matters, there is no upper bound of the
    /// response from demands alone.
    ///
    /// # Errors
    /// As [`Network::solve`], where the network itself is at fault.
    pub fn asymptotic_bounds(&self) -> Result<Vec<ClassBounds>, SolveError> {
        let model = Model::new(self)?;
        Ok((0..self.classes.len()).map(|class| of(self, &model, class)).collect())
    }
}

impl ClassBounds {
    /// That the interval holds the answer is a theorem.
    pub fn exactness(&self) -> Exactness {
        Exactness::Exact
    }
}

pub(super) fn of(network: &Network, model: &Model, class: usize) -> ClassBounds {
    let alone: f64 = (0..model.stations.len())
        .map(|k| model.stations[k].demand[class] / model.fastest_for_one(k))
        .sum();
    let longest: Option<f64> = model.stations.iter().map(|spot| longest(spot, model, class)).sum();
    match network.classes[class].load {
        Load::Open { rate } => ClassBounds {
            throughput_min: rate,
            throughput_max: rate,
            response_min: alone,
            response_max: None,
        },
        Load::Closed { customers, think } => {
            let n = f64::from(customers);
            let spots = model.stations.iter().filter(|spot| spot.demand[class] > 0.0);
            let capacity = spots
                .map(|spot| (spot.peak - spot.open_load) / spot.demand[class])
                .fold(f64::INFINITY, f64::min);
            let throughput_max = capacity.min(n / (think + alone));
            ClassBounds {
                throughput_min: longest.map_or(0.0, |longest| n / (think + longest)),
                throughput_max,
                response_min: alone.max(n / throughput_max - think),
                response_max: longest,
            }
        }
    }
}

/// The residence if all customers were at the station whenever a job of the class arrives.
fn longest(spot: &Spot, model: &Model, class: usize) -> Option<f64> {
    let demand = spot.demand[class];
    if demand == 0.0 || spot.is_delay() {
        return Some(demand);
    }
    if spot.order != Order::Product || (spot.open_load > 0.0 && spot.rates.len() > 1) {
        return None;
    }
    let n = model.customers();
    let jobs = (1..).zip(&spot.rates).take(n as usize).map(|(j, a)| f64::from(j) / a);
    let at_last = f64::from(n) / spot.rate_last();
    let beyond = if n as usize >= spot.rates.len() { at_last } else { 0.0 };
    Some(demand * jobs.fold(beyond, f64::max) / (1.0 - spot.open_load / spot.rate_last()))
}
