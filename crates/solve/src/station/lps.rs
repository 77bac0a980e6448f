//! Limited processor sharing solved as a Markov chain: exact for demands of exponential phases.

use super::demand::Demand;
use super::phases::PhaseType;
use super::slots::{Drive, Slots};
use super::tagged::Hold;
use crate::error::{at_least_one, at_most, not_negative, positive, stable};
use crate::{Exactness, SolveError};

/// States within a level up to which a chain is solved: five phases up to 4 slots, four up to 8,
/// three up to 16, two up to 169.
const STATES_MAX: u64 = 170;
/// Slots that are solved at most.
const SLOTS_MAX: u32 = 128;
/// The same for the chain of the followed job, which has every queue length besides.
const FOLLOWED_MAX: u64 = 50;
/// Fits in the order in which they are tried: so many exponentials, which keep the moments whose
/// orders are multiples of this step. The step was chosen so that the wait nears that of more
/// exponentials; a demand that is no mixture of exponentials may have only a coarser fit.
pub(super) const FITS: [(usize, f64); 6] =
    [(5, 0.25), (4, 0.3), (3, 0.4), (3, 0.5), (2, 0.6), (2, 0.75)];
/// Share of jobs up to whose demand the hold is followed.
const FOLLOWED: f64 = 0.9995;

/// M/G/1 with limited processor sharing: first in first out in front of r slots, whose holders
/// share one server equally. The server's speed may depend on how many hold a slot.
///
/// The response of a job with demand x is a wait, which does not depend on x, and a hold. Demands
/// that are made of exponential phases give a Markov chain that is solved exactly (Telek and Van
/// Houdt 2018), and along which a job of demand x is followed. Other demands are fitted, by mixtures
/// of as many exponentials as the number of slots lets be solved: five up to 4 slots, three up to 16.
/// Beyond 16 the mixture is of two, chosen so that it continues what three say of 4, 8 and 16 slots.
///
/// How good that is, against simulation at rho 0.2 to 0.9 and 2 to 64 slots with lognormal demand of
/// squared coefficient of variation (SCV) 4, 20 and 60, as what is left beyond the simulation's 95 %
/// interval (`tests/lps_references.csv`; `examples/lps_table.rs` prints it case by case):
///
/// | | mean | given x, from the 1 % to the 99.9 % quantile |
/// | --- | --- | --- |
/// | hyperexponential, SCV 4 to 60 | exact | within 0.2 % |
/// | lognormal, up to 16 slots | within 1.1 % | within 3.5 % |
/// | lognormal, 32 and 64 slots | within 0.1 % | within 16 %, the worst for the smallest jobs |
/// | constant, 2 and 4 slots, rho 0.8 | within 3 % | within 10 % |
///
/// A list of values is fitted like a lognormal demand, but has a least value, which a fit has not: of
/// a thousand documents of a constant work each and one by their size, lognormal with an SCV of 10.9, the
/// mean is within 9.8 % and that of a part of the sizes within 10.5 %, so that 12 and 16 % are stated of
/// lists; both are worst for SCV 3.2, 2 slots and rho 0.9 (`tests/lps_documents.csv`: SCV 0.2 to 6.8, 2 to
/// 32 slots, rho 0.5 to 0.9, made by `examples/lps_documents.rs`). Up to SCV 1 they are within 2.1 and 3.5 %.
///
/// Where a small job of heavy-tailed demand at rho 0.8 to 0.9 hardly ever waits, behind 16 slots or
/// more, the interval is itself up to 86 % wide; no more than that is known of the error there.
///
/// ```
/// use solve::{Demand, Lps};
///
/// // Hyperexponential demand, squared coefficient of variation 4, rho = 0.8, four slots.
/// let answer = Lps::new(0.8, Demand::balanced(1.0, 4.0)?, 4)?.solve()?;
/// assert!((answer.response - 7.92716).abs() < 1e-5);
/// assert!(answer.exactness().is_exact());
/// // A small job mostly waits.
/// assert!((answer.response_given(0.1)? - answer.wait - 0.3).abs() < 0.1);
/// # Ok::<(), solve::SolveError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lps {
    lambda: f64,
    demand: Demand,
    speeds: Vec<f64>,
    rho: f64,
}

/// The means over all jobs, without following a job of given demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LpsMeans {
    /// From arrival to start \[s\].
    pub wait: f64,
    /// From start to departure \[s\].
    pub hold: f64,
    /// From arrival to departure \[s\].
    pub response: f64,
    /// Exactness of the means.
    pub exactness: Exactness,
}

/// Results of a station with limited processor sharing, as means over a long time.
#[derive(Clone, Debug)]
pub struct LpsAnswer {
    /// From arrival to start \[s\].
    pub wait: f64,
    /// From start to departure \[s\].
    pub hold: f64,
    /// From arrival to departure \[s\].
    pub response: f64,
    /// Mean number of jobs, waiting or served.
    pub in_system: f64,
    given: Hold,
    exactness: Exactness,
    exactness_given: Exactness,
}

impl Lps {
    /// A server with arrival rate lambda [1/s], this demand, and r slots.
    ///
    /// # Errors
    /// If lambda is not positive, there is no slot or are more than 128, or the utilisation is not
    /// below 1.
    pub fn new(lambda: f64, demand: Demand, slots: u32) -> Result<Lps, SolveError> {
        slots_solved(slots)?;
        Lps::with_speeds(lambda, demand, &vec![1.0; slots as usize])
    }

    /// The same with a server whose speed depends on how many it serves: `speeds[n - 1]` is the work
    /// that it does a second with n in service, and their number is that of the slots. Of a measured
    /// curve it is the throughput with n in service times the mean demand.
    ///
    /// # Errors
    /// As [`new`](Lps::new), and if a speed is not positive.
    pub fn with_speeds(lambda: f64, demand: Demand, speeds: &[f64]) -> Result<Lps, SolveError> {
        positive("arrival rate lambda", lambda, "/s")?;
        slots_solved(u32::try_from(speeds.len()).unwrap_or(u32::MAX))?;
        for &speed in speeds {
            positive("speed", speed, "")?;
        }
        demand.moments()?;
        let work = demand.mean() / speeds[speeds.len() - 1];
        let rho = stable(|| "M/G/1 LPS".to_owned(), lambda, work, 1)?;
        Ok(Lps { lambda, demand, speeds: speeds.to_vec(), rho })
    }

    /// Utilisation of the server at the speed that it has with all slots held, rho.
    pub fn utilisation(&self) -> f64 {
        self.rho
    }

    /// Wait, hold, and the hold of a job of given demand.
    ///
    /// # Errors
    /// If moments of the demand are beyond all measure.
    pub fn solve(&self) -> Result<LpsAnswer, SolveError> {
        let chosen = self.chosen()?;
        let drive = self.drive(&chosen.followed);
        let slots = drive.solve();
        let means = self.means_of(&chosen, &slots);
        let given = Hold::new(&drive, &slots, self.demand.quantile(FOLLOWED)?);
        Ok(LpsAnswer {
            wait: means.wait,
            hold: means.hold,
            response: means.response,
            in_system: self.lambda * means.response,
            given,
            exactness: means.exactness,
            exactness_given: chosen.exactness_given,
        })
    }

    /// Wait and hold over all jobs: what [`solve`](Lps::solve) says of them, without the cost of
    /// following a job.
    ///
    /// # Errors
    /// As [`solve`](Lps::solve).
    pub fn means(&self) -> Result<LpsMeans, SolveError> {
        let chosen = self.chosen()?;
        let slots = self.drive(&chosen.followed).solve();
        Ok(self.means_of(&chosen, &slots))
    }

    /// The wait, and the demand to follow in place of the true one.
    fn chosen(&self) -> Result<Chosen, SolveError> {
        let r = self.speeds.len() as u32;
        let scv = self.demand.moments()?.scv();
        let exact = self.exact_phases();
        let (wait, followed, exactness, exactness_given) = if let Some(phases) = exact {
            let wait = self.wait_of(&phases, r);
            (wait, phases, Exactness::Exact, given(0.005))
        } else if r == 1 {
            let speed = self.speeds[0];
            let residual = self.demand.moments()?.residual() / speed;
            let wait = self.rho / (1.0 - self.rho) * residual;
            (wait, self.nearest(2), Exactness::Exact, Exactness::Exact)
        } else if scv <= 1.0 {
            let (wait, phases) = self.less_variable(scv);
            (wait, phases, given(0.03), given(0.10))
        } else {
            self.fitted(r)
        };
        Ok(Chosen { wait, followed, exactness, exactness_given })
    }

    fn means_of(&self, chosen: &Chosen, slots: &Slots) -> LpsMeans {
        // Where the speed is one, the jobs in service hold the work that Little's law gives them.
        let hold = slots.holding / self.lambda;
        let (wait, exactness) = (chosen.wait, chosen.exactness);
        LpsMeans { wait, hold, response: wait + hold, exactness }
    }

    /// Mean response, from the demand itself or a fit of two phases.
    pub(crate) fn first_look(&self) -> Result<f64, SolveError> {
        let scv = self.demand.moments()?.scv();
        let phases = self.exact_phases().unwrap_or_else(|| {
            if scv <= 1.0 {
                PhaseType::less_variable(self.demand.mean(), scv.max(0.5))
            } else {
                self.nearest(2)
            }
        });
        let slots = self.drive(&phases).solve();
        Ok((slots.waiting + slots.holding) / self.lambda)
    }

    /// The demand itself, where it has so few phases that its chain is solved.
    fn exact_phases(&self) -> Option<PhaseType> {
        let r = self.speeds.len() as u32;
        (1..=5)
            .filter(|&phases| states(r, phases) <= STATES_MAX)
            .find_map(|phases| PhaseType::exact(&self.demand, phases))
    }

    fn drive<'a>(&'a self, demand: &'a PhaseType) -> Drive<'a> {
        Drive { lambda: self.lambda, demand, speeds: &self.speeds }
    }

    /// Mean wait if the demand were this, with the first r slots alone.
    fn wait_of(&self, demand: &PhaseType, r: u32) -> f64 {
        let speeds = &self.speeds[..r as usize];
        Drive { lambda: self.lambda, demand, speeds }.solve().waiting / self.lambda
    }

    /// A fit by at most so many exponentials, by fewer where the demand has no such fit.
    fn nearest(&self, phases: usize) -> PhaseType {
        FITS.iter()
            .filter(|&&(count, _)| count <= phases)
            .find_map(|&(count, step)| PhaseType::fitted(&self.demand, count, step))
            .unwrap_or_else(|| {
                let scv = self.demand.power(2.0) / self.demand.mean().powi(2) - 1.0;
                PhaseType::balanced(self.demand.mean(), scv)
            })
    }

    /// For a demand that varies less than an exponential one: two phases down to a squared
    /// coefficient of variation of 0.5, and from there on the same slope.
    fn less_variable(&self, scv: f64) -> (f64, PhaseType) {
        let r = self.speeds.len() as u32;
        let mean = self.demand.mean();
        let phases = PhaseType::less_variable(mean, scv.max(0.5));
        let wait = self.wait_of(&phases, r);
        if scv >= 0.5 {
            return (wait, phases);
        }
        let most = self.wait_of(&PhaseType::less_variable(mean, 1.0), r);
        ((most - (most - wait) * (1.0 - scv) / 0.5).max(0.0), phases)
    }

    fn fitted(&self, r: u32) -> (f64, PhaseType, Exactness, Exactness) {
        let largest = |most: u64| (2..=5).rev().find(|&k| states(r, k) <= most).unwrap_or(2);
        let phases = largest(STATES_MAX);
        if phases > 2 {
            let wait = self.wait_of(&self.nearest(phases), r);
            let followed = self.nearest(largest(FOLLOWED_MAX).min(3));
            let (mean, each) = if self.demand.is_listed() { (0.12, 0.16) } else { (0.03, 0.04) };
            return (wait, followed, given(mean), given(each));
        }
        let pair = self.pair_continued(r).unwrap_or_else(|| self.nearest(2));
        let mean = if self.demand.is_listed() { 0.12 } else { 0.03 };
        (self.wait_of(&pair, r), pair, given(mean), given(0.16))
    }

    /// Two exponentials for more slots than three can be solved for. The order of the moments that
    /// two must keep to give the wait that three give changes slowly and smoothly with the logarithm
    /// of the number of slots; a parabola through 4, 8 and 16 is continued.
    fn pair_continued(&self, r: u32) -> Option<PhaseType> {
        let three = self.nearest(3);
        if three.count() < 3 {
            return None;
        }
        let step = |slots: u32| self.step_for(slots, self.wait_of(&three, slots));
        let (a, b, c) = (step(4)?, step(8)?, step(16)?);
        let t = f64::from(r).log2() - 4.0;
        let (slope, bend) = ((3.0 * c - 4.0 * b + a) / 2.0, (c - 2.0 * b + a) / 2.0);
        let continued = (c + slope * t + bend * t * t).clamp(0.3, 0.75);
        PhaseType::fitted(&self.demand, 2, continued)
    }

    /// The step for which two exponentials give this wait; the wait grows with the step.
    fn step_for(&self, slots: u32, wait: f64) -> Option<f64> {
        let (mut low, mut high) = (0.3, 0.75);
        for _ in 0..20 {
            let middle = 0.5 * (low + high);
            let pair = PhaseType::fitted(&self.demand, 2, middle)?;
            if self.wait_of(&pair, slots) < wait { low = middle } else { high = middle }
        }
        Some(0.5 * (low + high))
    }
}

/// Solution for a demand: its mean wait, and the demand of few phases that a job is followed with.
struct Chosen {
    wait: f64,
    followed: PhaseType,
    exactness: Exactness,
    exactness_given: Exactness,
}

impl LpsAnswer {
    /// Mean time that a job with demand x \[s\] holds its slot. Beyond the demand that 99.95 % of
    /// jobs do not exceed, more work is taken to last as long as it does there.
    ///
    /// # Errors
    /// If x is negative.
    pub fn hold_given(&self, x: f64) -> Result<f64, SolveError> {
        let x = not_negative("demand x", x, "s")?;
        Ok(if x == 0.0 { 0.0 } else { self.given.given(x) })
    }

    /// Mean response time of a job with demand x \[s\].
    ///
    /// # Errors
    /// If x is negative.
    pub fn response_given(&self, x: f64) -> Result<f64, SolveError> {
        Ok(self.wait + self.hold_given(x)?)
    }

    /// Of all the means.
    pub fn exactness(&self) -> Exactness {
        self.exactness
    }

    /// Of [`hold_given`](Self::hold_given) and [`response_given`](Self::response_given).
    pub fn exactness_given(&self) -> Exactness {
        self.exactness_given
    }
}

fn given(error: f64) -> Exactness {
    Exactness::Approximate { source: "chain of exponential phases", error }
}

fn slots_solved(slots: u32) -> Result<(), SolveError> {
    at_least_one("slots r", slots)?;
    at_most("slots r", slots, SLOTS_MAX)?;
    Ok(())
}

/// In how many ways r jobs are distributed over k phases.
pub(super) fn states(r: u32, k: usize) -> u64 {
    (1..k as u64).fold(1, |ways, i| ways * (u64::from(r) + i) / i)
}
