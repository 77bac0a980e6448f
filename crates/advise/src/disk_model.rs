//! Terminals before disks: nakamura's machine as a queueing model, for the verbs that ask what tables on
//! several disks would bring.
//!
//! Ten terminals a warehouse key and think by TPC-C's rules, and a transaction visits each disk once;
//! disks serve first come, first served, for exponential times. How long a transaction works at one
//! disk is fitted to measured response times of one disk; over several it is divided by the share of
//! the accesses that each of them gets. Every time that comes of it is one of this model.

use measure::Estimate;
use sim::{Options, Plan, SimError};
use solve::{FiniteSource, SolveError};
use thiserror::Error;
use workload::tpcc::{Kind, rules};

use crate::{
    Approximation, DemandEntry, DistEntry, DistName, NoFormula, RouteEntry, Scenario,
    ScenarioError, ShapedEntry, Span,
};

/// The scenario with one disk.
const ONE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/nakamura/one-disk.toml"));

/// The limit on the 90th percentile of a New-Order \[s\].
pub fn limit() -> f64 {
    Kind::NewOrder.rules().response_max.as_secs_f64()
}

/// Mean time of a terminal between two transactions, keying and thinking, over a deck of cards
/// \[s\].
pub fn think() -> f64 {
    let cards: f64 = Kind::ALL.iter().map(|kind| f64::from(kind.rules().cards)).sum();
    let time = |kind: &Kind| {
        let rules = kind.rules();
        f64::from(rules.cards) * (rules.keying + rules.think_mean).as_secs_f64()
    };
    Kind::ALL.iter().map(time).sum::<f64>() / cards
}

/// Number of warehouses, and the 90th percentile of a New-Order with so many \[s\].
pub type Point = (u32, f64);

/// nakamura's table 5 with all on one disk: what the model is fitted to, and nothing else.
pub const PAPER_ONE: [Point; 3] = [(4, 1.440), (6, 4.983), (8, 8.250)];
/// The same with tables and log over three disks.
pub const PAPER_THREE: [Point; 5] = [(4, 0.735), (6, 0.783), (8, 1.133), (15, 3.793), (16, 5.910)];

/// A machine whose transactions work at disks.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskModel {
    /// Mean time that a transaction works at disks, at all of them together \[s\].
    pub demand: f64,
    /// The share of that at each disk; they sum to 1.
    pub shares: Vec<f64>,
}

/// Answer of the model for one number of warehouses.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Mean response by formula \[s\].
    pub response: f64,
    /// Transactions by formula [1/s].
    pub throughput: f64,
    /// Error that these two may have.
    pub approximation: Approximation,
    /// The 90th percentile of the response \[s\], simulated.
    pub p90: Estimate,
}

/// Length of the simulation of one point: requests of each of some independent runs.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Requests of a run.
    pub requests: u64,
    /// Independent runs.
    pub runs: u64,
}

/// Why the model gives no answer.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DiskModelError {
    /// The distribution of its response times cannot be computed.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// No formula answers its scenario.
    #[error(transparent)]
    Formula(#[from] NoFormula),
    /// Its scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its scenario cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimError),
    /// The disks hold any number of warehouses.
    #[error("a transaction hardly works at the disks, so they are never the limit")]
    NeverTheLimit,
}

impl DiskModel {
    /// One disk, whose demand makes the exact 90th percentiles as close as can be to those of the
    /// points: the least squares of the logarithms.
    ///
    /// # Errors
    /// If a 90th percentile cannot be computed.
    pub fn fitted(points: &[Point]) -> Result<DiskModel, DiskModelError> {
        let off = |demand: f64| -> Result<f64, DiskModelError> {
            let mut sum = 0.0;
            for (warehouses, p90) in points {
                let model = DiskModel { demand, shares: vec![1.0] };
                sum += (model.p90_of_one(*warehouses)? / p90).ln().powi(2);
            }
            Ok(sum)
        };
        // The 90th percentile grows with the demand, so the sum has one valley; it is narrowed by
        // the golden section, over all demands that a terminal could have.
        let (mut low, mut high) = (1e-4_f64.ln(), think().ln());
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        for _ in 0..60 {
            let (left, right) = (high - golden * (high - low), low + golden * (high - low));
            if off(left.exp())? < off(right.exp())? {
                high = right;
            } else {
                low = left;
            }
        }
        Ok(DiskModel { demand: f64::midpoint(low, high).exp(), shares: vec![1.0] })
    }

    /// The same transactions over disks with these shares of the accesses.
    pub fn over(&self, rates: &[f64]) -> DiskModel {
        let all: f64 = rates.iter().sum();
        DiskModel { demand: self.demand, shares: rates.iter().map(|rate| rate / all).collect() }
    }

    /// The exact 90th percentile, if all is on one disk \[s\].
    ///
    /// # Errors
    /// If it cannot be computed.
    pub fn p90_of_one(&self, warehouses: u32) -> Result<f64, DiskModelError> {
        let terminals = warehouses * u32::from(rules::TERMINALS);
        FiniteSource::new(terminals, think(), self.demand)
            .and_then(|disk| disk.response_quantile(rules::RESPONSE_QUANTILE))
            .map_err(DiskModelError::from)
    }

    /// The scenario of so many warehouses.
    pub fn scenario(&self, warehouses: u32) -> Scenario {
        let mut scenario: Scenario =
            toml::from_str(ONE).expect("the study's scenario is well formed");
        let disks = self.shares.len();
        scenario.name = format!("terminals of {warehouses} warehouses before {disks} disks");
        let class = &mut scenario.classes[0];
        class.population = Some(warehouses * u32::from(rules::TERMINALS));
        class.think = Some(exponential(think()));
        let disk = scenario.stations[0].clone();
        class.route.clear();
        scenario.stations.clear();
        for (at, share) in self.shares.iter().enumerate() {
            // A disk that nothing lies on is not visited.
            if *share > 0.0 {
                let name = format!("disk-{}", at + 1);
                let mut station = disk.clone();
                station.name.clone_from(&name);
                station.demand = Some(DemandEntry::Time(exponential(self.demand * share)));
                scenario.stations.push(station);
                scenario.classes[0].route.push(RouteEntry::Name(name));
            }
        }
        scenario
    }

    /// Answer of formula and simulation for this number of warehouses.
    ///
    /// # Errors
    /// If one of them has no answer.
    pub fn answer(
        &self,
        warehouses: u32,
        effort: Effort,
        seed: u64,
    ) -> Result<Answer, DiskModelError> {
        let scenario = self.scenario(warehouses);
        let formula = crate::formula(&scenario)?;
        let network = scenario.network()?;
        let mut p90s = Vec::new();
        for run in 0..effort.runs {
            let options = Options {
                seed: seed.wrapping_mul(1_000).wrapping_add(run),
                plan: Plan::Replications(2),
                // It ends by its length, not by its precision.
                precision: 1e-9,
                completions_max: effort.requests,
                threads: Some(1),
                ..Options::default()
            };
            let outcome = sim::run(&network, &options)?;
            let histogram = &outcome.classes[0].histogram;
            p90s.push(histogram.quantile(rules::RESPONSE_QUANTILE).as_secs_f64());
        }
        Ok(Answer {
            response: formula.response,
            throughput: formula.throughput,
            approximation: (&formula.trust).into(),
            p90: Estimate::from_independent(&p90s, 0.95),
        })
    }

    /// The most warehouses whose 90th percentile is within the limit; 0 if not even one is.
    ///
    /// # Errors
    /// If a 90th percentile has no answer, or the disks are never the limit.
    pub fn valid_most(&self, effort: Effort, seed: u64) -> Result<u32, DiskModelError> {
        let is_valid = |warehouses: u32| -> Result<bool, DiskModelError> {
            if self.shares.len() == 1 {
                return Ok(self.p90_of_one(warehouses)? <= limit());
            }
            Ok(self.answer(warehouses, effort, seed)?.p90.mean <= limit())
        };
        // More warehouses never answer sooner, so that there is one edge: it is passed by doubling,
        // then found by halving.
        let (mut low, mut high) = (0, 1);
        while is_valid(high)? {
            (low, high) = (high, high * 2);
            if high > 512 {
                return Err(DiskModelError::NeverTheLimit);
            }
        }
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if is_valid(middle)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

fn exponential(mean: f64) -> DistEntry {
    DistEntry::Shaped(ShapedEntry {
        mean: Span(mean),
        dist: Some(DistName::Exponential),
        scv: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { requests: 20_000, runs: 5 };

    fn model(demand: f64, shares: &[f64]) -> DiskModel {
        DiskModel { demand, shares: shares.to_vec() }
    }

    #[test]
    fn a_turn_of_a_terminal_is_that_of_the_specification() {
        // 10 x 30 + 10 x 15 + 12 + 7 + 7 seconds over 23 cards.
        assert!((think() - 476.0 / 23.0).abs() < 1e-12);
        assert_eq!(limit(), 5.0);
    }

    #[test]
    fn formula_and_simulation_agree_on_one_disk() {
        for warehouses in [4, 8] {
            let model = model(0.33, &[1.0]);
            let answer = model.answer(warehouses, SHORT, 1).unwrap();
            let exact = model.p90_of_one(warehouses).unwrap();
            // Five runs of 20 000 requests know a 90th percentile to a few percent.
            assert!((answer.p90.mean / exact - 1.0).abs() < 0.05, "{answer:?}, {exact}");
            let source = FiniteSource::new(warehouses * 10, think(), 0.33).unwrap();
            assert!((answer.response / source.response() - 1.0).abs() < 1e-6, "{answer:?}");
        }
    }

    #[test]
    fn a_fit_finds_the_demand_that_made_the_points() {
        let made = model(0.2, &[1.0]);
        let points = [4, 8, 12].map(|w| (w, made.p90_of_one(w).unwrap()));
        let fitted = DiskModel::fitted(&points).unwrap();
        assert!((fitted.demand / 0.2 - 1.0).abs() < 1e-6, "{fitted:?}");
    }

    #[test]
    fn more_disks_hold_more_warehouses_and_an_unused_one_none() {
        let one = model(0.33, &[1.0]);
        let most = |rates: &[f64]| one.over(rates).valid_most(SHORT, 1).unwrap();
        let (single, even, uneven) = (most(&[7.0]), most(&[1.0, 1.0, 1.0]), most(&[2.0, 1.0, 1.0]));
        assert!(single < uneven && uneven < even, "{single} {uneven} {even}");
        assert_eq!(one.over(&[5.0, 0.0]).scenario(8).stations.len(), 1);
        let error = model(1e-6, &[1.0]).valid_most(SHORT, 1).unwrap_err().to_string();
        assert!(error.contains("hardly works"), "{error}");
    }
}
