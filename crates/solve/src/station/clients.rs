//! The closed run whose demand is not exponential: clients that think, a gate, and processors that the
//! holders of its slots share.

use super::demand::Demand;
use super::lps::{FITS, states};
use super::phases::PhaseType;
use super::slots::{Clients, Drive};
use crate::error::{at_least_one, at_most, positive};
use crate::loops::ClosedGateAnswer;
use crate::{Exactness, SolveError};

/// States within a level up to which a chain is solved.
const STATES_MAX: u64 = 170;

/// Errors of the formulas where they were tried: see [`ClosedLps`].
const ERROR_THINK: f64 = 0.10;
const ERROR_FITTED: f64 = 0.10;
const ERROR_LISTED: f64 = 0.15;

/// A closed run with a pause, as [`ClosedGate`](crate::ClosedGate), of which the whole distribution of the
/// demand is known: more clients than slots, and a chain of their number and of the phases of the demands
/// in service.
///
/// Demands that are made of exponential phases are exact where clients think exponentially. Others are
/// fitted as by [`Lps`](crate::Lps), by mixtures of as many exponentials as the number of slots and of
/// clients lets be solved, or, where they vary less than an exponential one, by two phases in a row down to a
/// squared coefficient of variation of 0.5, and from there on by the same slope.
///
/// ```
/// use solve::{ClosedLps, Demand};
///
/// // Hyperexponential demand of 1 s, squared coefficient of variation 20: 20 clients think 25 s.
/// let demand = Demand::balanced(1.0, 20.0)?;
/// let answer = ClosedLps::new(20, 25.0, demand, 2)?.solve()?;
/// assert!((answer.response - 4.487).abs() < 1e-3);
/// assert!(answer.exactness().is_exact());
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLps {
    clients: u32,
    pause: f64,
    demand: Demand,
    slots: u32,
    cores: u32,
    /// The law of the pause.
    thinks: Thinking,
    /// Multiplications that are made at most.
    work: f64,
}

/// Laws of the pauses of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Each is exponential.
    Exponential,
    /// Otherwise, or in several parts: what is told rests on exponential ones.
    Otherwise,
}

impl ClosedLps {
    /// A run of c clients with mean pause Z \[s\], a demand, and r slots before one core.
    ///
    /// # Errors
    /// If there is no client or no slot, the pause is not positive, or moments of the demand are beyond
    /// all measure.
    pub fn new(
        clients: u32,
        pause: f64,
        demand: Demand,
        slots: u32,
    ) -> Result<ClosedLps, SolveError> {
        at_least_one("clients c", clients)?;
        positive("delay Z", pause, "s")?;
        at_least_one("slots r", slots)?;
        demand.moments()?;
        let thinks = Thinking::Exponential;
        Ok(ClosedLps { clients, pause, demand, slots, cores: 1, thinks, work: 2e8 })
    }

    /// The same with more than one core behind the gate.
    ///
    /// # Errors
    /// If there is no core.
    pub fn with_cores(self, cores: u32) -> Result<ClosedLps, SolveError> {
        Ok(ClosedLps { cores: at_least_one("cores", cores)?, ..self })
    }

    /// The same with pauses of this kind.
    #[must_use]
    pub fn thinking(self, thinks: Thinking) -> ClosedLps {
        ClosedLps { thinks, ..self }
    }

    /// The same within a fifth of the time.
    #[must_use]
    pub fn hastened(self) -> ClosedLps {
        ClosedLps { work: self.work / 5.0, ..self }
    }

    /// Throughput, wait and hold.
    ///
    /// # Errors
    /// If clients or slots are too many for the chain.
    pub fn solve(&self) -> Result<ClosedGateAnswer, SolveError> {
        let slots = self.slots.min(self.clients);
        let scv = self.demand.moments()?.scv();
        let exact = (1..=5)
            .filter(|&phases| self.can_pay(slots, phases))
            .find_map(|phases| PhaseType::exact(&self.demand, phases));
        let (found, error) = if let Some(phases) = exact {
            (self.of(slots, &phases)?, 0.0)
        } else if scv <= 1.0 {
            (self.less_variable(slots, scv)?, ERROR_FITTED)
        } else {
            let most = (2..=5).rev().find(|&phases| self.can_pay(slots, phases)).unwrap_or(2);
            let error = if self.demand.is_listed() { ERROR_LISTED } else { ERROR_FITTED };
            (self.of(slots, &self.nearest(most))?, error)
        };
        let error = match self.thinks {
            Thinking::Exponential => error,
            Thinking::Otherwise => f64::max(error, ERROR_THINK),
        };
        let exactness = match error {
            0.0 => Exactness::Exact,
            error => Exactness::Approximate { source: "chain of exponential phases", error },
        };
        Ok(ClosedGateAnswer::of_chain(found, self.demand.mean(), self.cores, exactness))
    }

    /// True if the chain of so many phases is solved in the time that there is.
    fn can_pay(&self, slots: u32, phases: usize) -> bool {
        let states = states(slots, phases);
        states <= STATES_MAX && self.work_of(states) <= self.work
    }

    fn work_of(&self, states: u64) -> f64 {
        f64::from(self.clients) * (states as f64).powi(3)
    }

    fn of(&self, slots: u32, demand: &PhaseType) -> Result<Clients, SolveError> {
        let states = states(slots, demand.count());
        if demand.count() > 1 {
            at_most("slots r", slots, STATES_MAX as u32 - 1)?;
            let most = self.work / (states as f64).powi(3);
            at_most("clients c before such a demand", self.clients, most as u32)?;
        }
        let cores = self.cores;
        let speeds: Vec<f64> = (1..=slots).map(|n| f64::from(n.min(cores))).collect();
        let drive = Drive { lambda: 0.0, demand, speeds: &speeds };
        Ok(drive.of_clients(self.clients, self.pause))
    }

    fn less_variable(&self, slots: u32, scv: f64) -> Result<Clients, SolveError> {
        let mean = self.demand.mean();
        let two = self.of(slots, &PhaseType::less_variable(mean, scv.max(0.5)))?;
        if scv >= 0.5 {
            return Ok(two);
        }
        let one = self.of(slots, &PhaseType::less_variable(mean, 1.0))?;
        let time = |of: &Clients| (of.waiting + of.holding) / of.throughput;
        let (more, less) = (time(&one), time(&two));
        // Nobody is faster than who is alone, nor all together than the cores.
        let clients = f64::from(self.clients);
        let full = clients * mean / f64::from(self.cores.min(slots)) - self.pause;
        let time = (more - (more - less) * (1.0 - scv) / 0.5).max(full).max(mean);
        let throughput = clients / (self.pause + time);
        let hold = (two.holding / two.throughput).min(time);
        let holding = throughput * hold;
        Ok(Clients { waiting: throughput * (time - hold), holding, throughput })
    }

    /// A fit by at most so many exponentials, by fewer where the demand has no such fit.
    fn nearest(&self, phases: usize) -> PhaseType {
        let mut fits = FITS.iter().filter(|&&(count, _)| count <= phases);
        let fitted = fits.find_map(|&(count, step)| PhaseType::fitted(&self.demand, count, step));
        fitted.unwrap_or_else(|| {
            let scv = self.demand.power(2.0) / self.demand.mean().powi(2) - 1.0;
            PhaseType::balanced(self.demand.mean(), scv)
        })
    }
}
