//! The paper's model (section 4): Poisson arrivals, a queue, r slots, and a server that their
//! holders share equally; by formula and by simulation.

use advise::Approximation;
use cli::Failure;
use gate::GateSpec;
use measure::Estimate;
use sim::{
    Class, Demand, GateNode, Load, Network, Options, SizeOutcome, SizeRange, Sizes, Station,
    StationKind, Step,
};
use solve::{Mg1Lps, Moments};
use workload::{Arrivals, Dist};

/// a of g(x) = a x + b, the work demand of a document of x bytes \[s/byte\] (eq. 5).
pub(super) const PER_BYTE_S: f64 = 0.000_485_1e-3;
/// b of g(x) \[s\].
pub(super) const BASE_S: f64 = 21.55e-3;
/// Mean and standard deviation of the natural logarithm of the document size \[byte\] (sec. 4.2).
const MU: f64 = 7.811;
const SIGMA: f64 = 1.573;

/// Sizes of the documents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Documents {
    /// Lognormal, as the paper has them.
    Paper,
    /// Ten times as large: mu grows by ln 10.
    Tenfold,
    /// Exponential with the paper's mean.
    Exponential,
}

/// Treatment of the constant part b of the demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Base {
    Kept,
    Dropped,
}

/// Of which documents a mean response time is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Of all.
    Nothing,
    /// Of those of a size.
    Size,
}

/// One point of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) documents: Documents,
    pub(super) base: Base,
    /// r; `None` for no limit.
    pub(super) slots: Option<u32>,
    /// The load, lambda E\[S\].
    pub(super) rho: f64,
}

/// The numbers of helpers of figures 15 and 16.
pub(super) const SLOTS: [Option<u32>; 5] = [Some(2), Some(4), Some(8), Some(16), None];
/// The loads of figure 14.
pub(super) const LOADS: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 0.9];

impl Case {
    /// The paper's documents.
    pub(super) fn paper(slots: Option<u32>, rho: f64) -> Case {
        Case { documents: Documents::Paper, base: Base::Kept, slots, rho }
    }

    /// Documents 10 times as large, at rho = 0.8.
    pub(super) fn tenfold(base: Base, slots: Option<u32>) -> Case {
        Case { documents: Documents::Tenfold, base, slots, rho: 0.8 }
    }

    /// Exponential sizes, at rho = 0.8.
    pub(super) fn exponential(base: Base, slots: Option<u32>) -> Case {
        Case { documents: Documents::Exponential, base, slots, rho: 0.8 }
    }

    /// The work demand of a document of x bytes, g(x) \[s\].
    pub(super) fn demand_of(&self, bytes: f64) -> f64 {
        PER_BYTE_S * bytes + self.base_s()
    }

    fn base_s(&self) -> f64 {
        match self.base {
            Base::Kept => BASE_S,
            Base::Dropped => 0.0,
        }
    }

    fn sizes(&self) -> Dist {
        match self.documents {
            Documents::Paper => Dist::Lognormal { mu: MU, sigma: SIGMA },
            Documents::Tenfold => Dist::Lognormal { mu: MU + 10_f64.ln(), sigma: SIGMA },
            Documents::Exponential => Dist::Exponential { mean: (MU + SIGMA * SIGMA / 2.0).exp() },
        }
    }

    /// The moments of the demand, S = g(X).
    pub(super) fn demand(&self) -> Result<Moments, Failure> {
        let size = match self.sizes() {
            Dist::Exponential { mean } => Moments::exponential(mean),
            dist => Moments::new(dist.mean(), dist.second_moment()),
        };
        size.and_then(|size| size.affine(PER_BYTE_S, self.base_s())).map_err(Failure::machine)
    }

    /// The arrival rate, lambda = rho / E\[S\] \[1/s\].
    pub(super) fn rate(&self) -> Result<f64, Failure> {
        Ok(self.rho / self.demand()?.mean())
    }

    /// Equations 1 and 2.
    pub(super) fn formula(&self) -> Result<Mg1Lps, Failure> {
        Mg1Lps::new(self.rate()?, self.demand()?, self.slots).map_err(Failure::defect)
    }

    /// Error that the formula's means may have, or, `given` a size, those of documents of any size.
    pub(super) fn approximation(&self, given: Given) -> Result<Approximation, Failure> {
        let formula = self.formula()?;
        let exactness = match given {
            Given::Nothing => formula.exactness(),
            Given::Size => formula.exactness_given(),
        };
        Ok(exactness.into())
    }

    fn network(&self) -> Result<Network, Failure> {
        let mut network = Network::default();
        let server = Station::new("server", StationKind::Sharing { processors: 1 });
        let station = network.add_station(server);
        let demand = Demand::OfSize { per_byte_s: PER_BYTE_S, base_s: self.base_s() };
        let visit = Step::Visit { station, demand };
        let step = match self.slots {
            None => visit,
            Some(slots) => {
                let gate = network.add_gate(GateNode::new("helpers", GateSpec::fifo(slots)));
                Step::Hold { gate, inside: vec![visit] }
            }
        };
        let load = Load::Open(Arrivals::Poisson { rate: self.rate()? });
        let class = Class::new("documents", load, vec![step]);
        network.add_class(Class { sizes: Sizes::Drawn(self.sizes()), ..class });
        Ok(network)
    }

    /// Simulates this point.
    fn simulate(&self, effort: &Effort, seed: u64) -> Result<Simulated, Failure> {
        let (precision, completions_max) = match self.documents {
            Documents::Tenfold => effort.tenfold,
            _ if *self == TAIL => effort.tail,
            Documents::Paper | Documents::Exponential => effort.paper,
        };
        let options = Options { seed, precision, completions_max, ..Options::default() };
        let outcome = sim::run(&self.network()?, &options).map_err(Failure::defect)?;
        let class = outcome.classes.into_iter().next().expect("the network has a class");
        let response = class.response.expect("thousands of requests were completed");
        Ok(Simulated { case: *self, response, sizes: class.sizes })
    }
}

/// The point at which the rare largest documents are looked at.
pub(super) const TAIL: Case =
    Case { documents: Documents::Paper, base: Base::Kept, slots: Some(4), rho: 0.8 };

/// Effort of a simulation: half-width of the mean's interval, as a share of it, at which to stop,
/// and the most requests. The paper stops at 5 %; by document size, more is needed to see anything.
pub(super) struct Effort {
    paper: (f64, u64),
    /// [`TAIL`].
    tail: (f64, u64),
    /// The heavy tail of the larger documents takes longer.
    tenfold: (f64, u64),
}

impl Effort {
    pub(super) const FULL: Effort =
        Effort { paper: (0.01, 4_000_000), tail: (0.001, 12_000_000), tenfold: (0.03, 16_000_000) };
    #[cfg(test)]
    pub(super) const TEST: Effort =
        Effort { paper: (0.004, 300_000), tail: (0.004, 1_500_000), tenfold: (0.045, 800_000) };
}

/// A simulated point of the model.
#[derive(Debug)]
pub(super) struct Simulated {
    pub(super) case: Case,
    /// Mean response time \[s\].
    pub(super) response: Estimate,
    sizes: Vec<SizeOutcome>,
}

/// Documents of like size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bin {
    /// Their mean size \[byte\].
    pub(super) bytes: f64,
    /// Their mean response time \[s\].
    pub(super) response: Estimate,
    /// The formula's \[s\]: it is linear in the size, so that the mean size stands for all.
    pub(super) formula: f64,
}

impl Bin {
    /// Error of the formula, as a share, with its interval: (low, middle, high).
    pub(super) fn error(&self) -> (f64, f64, f64) {
        let off = |simulated: f64| self.formula / simulated - 1.0;
        let low = off(self.response.high());
        // An interval that reaches zero leaves the error without an upper end.
        let high = if self.response.low() > 0.0 { off(self.response.low()) } else { f64::INFINITY };
        (low, off(self.response.mean), high)
    }
}

impl Simulated {
    /// By powers of two of the size, where there were enough requests for an interval.
    pub(super) fn bins(&self) -> Result<Vec<Bin>, Failure> {
        let powers = self.sizes.iter().filter_map(|size| match size.range {
            SizeRange::PowerOfTwo(low) => Some(low),
            SizeRange::Document { .. } => None,
        });
        let powers: Vec<f64> = powers.collect();
        powers.into_iter().filter_map(|low| self.between(low, 2.0 * low).transpose()).collect()
    }

    /// Of the documents from `low` bytes to below `high`, both powers of two; none if too few were
    /// seen in them for an interval.
    pub(super) fn between(&self, low: f64, high: f64) -> Result<Option<Bin>, Failure> {
        let inside = |size: &&SizeOutcome| match size.range {
            SizeRange::PowerOfTwo(at) => (low..high).contains(&at),
            SizeRange::Document { .. } => false,
        };
        let sizes: Vec<&SizeOutcome> = self.sizes.iter().filter(inside).collect();
        // A bin that only some replications saw has no honest interval; the few requests in it are
        // left out.
        let seen =
            |size: &&SizeOutcome| size.response.filter(|r| r.n >= REPLICATIONS_MIN).is_some();
        let sizes: Vec<&SizeOutcome> = sizes.into_iter().filter(|size| seen(size)).collect();
        let total: u64 = sizes.iter().map(|size| size.completed).sum();
        if total == 0 {
            return Ok(None);
        }
        let share = |size: &SizeOutcome| size.completed as f64 / total as f64;
        let bytes = sizes.iter().map(|size| share(size) * size.size_mean).sum();
        let parts: Vec<(f64, Estimate)> = sizes
            .iter()
            .filter_map(|size| size.response.map(|response| (share(size), response)))
            .collect();
        let response = together(&parts);
        let formula = self.case.formula()?.response_given(self.case.demand_of(bytes));
        Ok(Some(Bin { bytes, response, formula: formula.map_err(Failure::defect)? }))
    }
}

impl Simulated {
    /// The share of documents below `high` bytes, a power of two.
    pub(super) fn share_below(&self, high: f64) -> f64 {
        let (mut below, mut all) = (0, 0);
        for size in &self.sizes {
            all += size.completed;
            if matches!(size.range, SizeRange::PowerOfTwo(low) if low < high) {
                below += size.completed;
            }
        }
        below as f64 / all as f64
    }
}

/// A bin must have been seen in so many replications.
const REPLICATIONS_MIN: u64 = 8;

/// The weighted mean of sizes that were seen in the same replications. They waited in the same
/// queues, so their errors add up rather than cancel: half-widths are averaged as they are.
fn together(parts: &[(f64, Estimate)]) -> Estimate {
    let sum = |of: fn(&Estimate) -> f64| parts.iter().map(|(share, part)| share * of(part)).sum();
    Estimate { mean: sum(|part| part.mean), half_width: sum(|part| part.half_width), ..parts[0].1 }
}

/// All points of the paper's figures, simulated.
#[derive(Debug)]
pub(super) struct Runs(Vec<Simulated>);

impl Runs {
    /// Simulates every point that a figure or a claim needs.
    pub(super) fn simulate(effort: &Effort, seed: u64) -> Result<Runs, Failure> {
        let mut cases: Vec<Case> = LOADS.map(|rho| Case::paper(Some(4), rho)).to_vec();
        cases.extend(SLOTS.map(|slots| Case::paper(slots, 0.8)));
        cases.push(Case::paper(Some(1), 0.8));
        for base in [Base::Kept, Base::Dropped] {
            cases.extend(SLOTS.map(|slots| Case::tenfold(base, slots)));
        }
        cases.extend([Some(2), Some(8), None].map(|slots| Case::exponential(Base::Kept, slots)));
        cases.push(Case::exponential(Base::Dropped, Some(4)));
        let mut runs: Vec<Simulated> = Vec::new();
        for case in cases {
            if !runs.iter().any(|run| run.case == case) {
                runs.push(case.simulate(effort, seed)?);
            }
        }
        Ok(Runs(runs))
    }

    /// The simulation of a point.
    ///
    /// # Panics
    /// If it is none of those that are simulated.
    pub(super) fn of(&self, case: Case) -> &Simulated {
        let found = self.0.iter().find(|run| run.case == case);
        found.unwrap_or_else(|| panic!("{case:?} is not simulated"))
    }

    /// Simulated requests over all points.
    pub(super) fn completed(&self) -> u64 {
        self.0.iter().flat_map(|run| &run.sizes).map(|size| size.completed).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_limits_are_those_of_the_paper() {
        let demand = Case::paper(Some(4), 0.8).demand().unwrap();
        assert!((demand.mean() - 25.675e-3).abs() < 1e-6, "{demand:?}");
        assert!((demand.second() - 844.2e-6).abs() < 0.1e-6, "{demand:?}");
        let dropped = Case::tenfold(Base::Dropped, None);
        assert!((dropped.demand().unwrap().mean() - 41.2e-3).abs() < 0.1e-3);
        assert!((dropped.formula().unwrap().response() - 206e-3).abs() < 0.5e-3);
    }

    #[test]
    fn an_errors_interval_is_that_of_the_simulation_turned_round() {
        let estimate = Estimate { mean: 2.0, half_width: 1.0, confidence: 0.95, n: 10 };
        let bin = Bin { bytes: 1.0, response: estimate, formula: 3.0 };
        assert_eq!(bin.error(), (0.0, 0.5, 2.0));
        let wide = Bin { response: Estimate { half_width: 2.0, ..estimate }, ..bin };
        assert_eq!(wide.error().2, f64::INFINITY);
    }
}
