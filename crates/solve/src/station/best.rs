//! Number of slots that a server should have, from the throughput that was measured with n in
//! service.

use super::demand::Demand;
use super::lps::Lps;
use super::times::LpsTimes;
use crate::error::positive;
use crate::{Exactness, SolveError};

/// Goals for which the number of slots is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The least mean response time.
    Mean,
    /// The least response time that this share of jobs does not exceed; for demands of exponential
    /// phases.
    Quantile(f64),
}

/// The number of slots that serves a goal best, and what the others would do.
#[derive(Clone, Debug, PartialEq)]
pub struct BestSlots {
    /// Slots, r.
    pub slots: u32,
    /// The response time that is least there \[s\].
    pub response: f64,
    /// Exactness of the response time.
    pub exactness: Exactness,
    /// The number of slots with the highest throughput, the folklore answer.
    pub slots_at_peak: u32,
    /// Response time against slots 1, 2, ... \[s\]; none where they cannot carry the load. For the
    /// mean of a demand that is not made of exponential phases this is a first look, by a fit with
    /// two of them.
    pub curve: Vec<Option<f64>>,
}

/// The number of slots, from 1 to the length of the curve, that serves a goal best at an arrival
/// rate lambda [1/s]. `throughput[n - 1]` is the throughput measured with n in service [1/s], of jobs
/// with this demand.
///
/// With exponential demand the throughput's peak is best. With a demand of high variability it is
/// not: more slots than that let small jobs pass large ones, which is worth some throughput (Gupta
/// and Harchol-Balter, SIGMETRICS 2009).
///
/// # Errors
/// If a parameter is out of range, no number of slots carries the load, or the distribution that a
/// quantile needs is not known.
pub fn best_slots(
    lambda: f64,
    demand: &Demand,
    throughput: &[f64],
    goal: Goal,
) -> Result<BestSlots, SolveError> {
    let mut speeds = Vec::new();
    for &rate in throughput {
        speeds.push(positive("throughput", rate, "/s")? * demand.mean());
    }
    let peak = (0..speeds.len()).max_by(|&a, &b| speeds[a].total_cmp(&speeds[b]).then(b.cmp(&a)));
    let Some(peak) = peak else {
        return Err(SolveError::Zero { name: "slots r" });
    };
    // If the peak cannot carry the load, nothing can: its error says at which load it could.
    Lps::with_speeds(lambda, demand.clone(), &speeds[..=peak])?;
    let mut curve = Vec::new();
    for slots in 1..=speeds.len() {
        let response = match Lps::with_speeds(lambda, demand.clone(), &speeds[..slots]) {
            Err(SolveError::Unstable { .. }) => None,
            Err(error) => return Err(error),
            Ok(station) => Some(match goal {
                Goal::Mean => station.first_look()?,
                Goal::Quantile(q) => {
                    let times = LpsTimes::with_speeds(lambda, demand.clone(), &speeds[..slots])?;
                    times.response_quantile(q)?.0
                }
            }),
        };
        curve.push(response);
    }
    let known = curve.iter().enumerate().filter_map(|(i, response)| Some((i, (*response)?)));
    let (best, response) =
        known.min_by(|a, b| a.1.total_cmp(&b.1)).expect("the peak carries the load");
    let (response, exactness) = match goal {
        Goal::Mean => {
            let answer = Lps::with_speeds(lambda, demand.clone(), &speeds[..=best])?.solve()?;
            (answer.response, answer.exactness())
        }
        Goal::Quantile(_) => {
            (response, Exactness::Approximate { source: "chain cut at 1e-7", error: 0.001 })
        }
    };
    Ok(BestSlots {
        slots: best as u32 + 1,
        response,
        exactness,
        slots_at_peak: peak as u32 + 1,
        curve,
    })
}
