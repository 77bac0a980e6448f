//! ohmae: client/server systems by simulation and queueing models: the software bottleneck (section
//! 4.1 of the paper), load balancing (4.2), nested servers (5).

mod balance;
mod figures;
mod live;
mod scanning;
mod tasks;

use cli::Failure;

use super::claim::{Live, Registry};
use super::measuring::{Measuring, about};
use crate::Reproduced;

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/ohmae/expected.toml"));

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Precision of the simulated mean response times: half-width of the interval over the mean.
struct Effort {
    tasks: f64,
    /// Load balancing, and with how many clients.
    balance: f64,
    clients: &'static [u32],
    scanning: f64,
}

impl Effort {
    const FULL: Effort =
        Effort { tasks: 0.003, balance: 0.008, clients: &balance::CLIENTS, scanning: 0.005 };
    #[cfg(test)]
    const TEST: Effort = Effort { tasks: 0.007, balance: 0.02, clients: &[5, 50], scanning: 0.015 };
}

/// Length of a measured run, unless the user says it \[s\].
pub const SECONDS: f64 = 15.0;

/// Plan of the measurement and its duration, in a sentence.
pub fn plan(seconds: f64) -> String {
    // Each point is warmed up, and then simulated; the models before take about half a minute.
    let estimate = about(f64::from(live::RUNS) * (1.1 * seconds + 2.5) + 45.0);
    format!(
        "ohmae on {} private PostgreSQL servers: {} runs of {seconds} s, {estimate} on two quiet \
         processors.",
        balance::SERVERS,
        live::RUNS
    )
}

/// Judges every claim; those about servers in real time only if they are to be measured.
///
/// # Errors
/// If a model has no answer, or a measurement cannot be made or is interrupted.
pub fn reproduce(
    registry: &Registry,
    seed: u64,
    live: Option<&Measuring>,
) -> Result<Reproduced, Failure> {
    let mut all = reproduce_with(&Effort::FULL, registry, seed)?;
    if let Some(measuring) = live {
        measuring.begin(u64::from(live::RUNS))?;
        let (judged, section) = live::measure(registry, measuring)?;
        all.judged.extend(judged);
        all.sections.push(section);
    }
    let part = if live.is_some() { Live::Judged } else { Live::LeftOut };
    registry.assert_complete(&all.judged, part);
    Ok(all)
}

fn reproduce_with(effort: &Effort, registry: &Registry, seed: u64) -> Result<Reproduced, Failure> {
    let tasks = tasks::Runs::simulate(effort.tasks, seed)?;
    let mut judged = tasks::judge(registry, &tasks)?;
    let balance = balance::Runs::simulate(effort.clients, effort.balance, seed)?;
    judged.extend(balance::judge(registry, &balance));
    let scanning = scanning::Runs::simulate(effort.scanning, seed)?;
    judged.extend(scanning::judge(registry, &scanning)?);
    let sections = figures::sections(&tasks, &balance, &scanning)?;
    Ok(Reproduced { judged, sections, facts: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claim, present};
    use cli::Verdict;

    /// Everything, at a tenth of the length. The seed is fixed, so this cannot fail by chance; the
    /// claims and tolerances are those of the full length.
    #[test]
    fn every_claim_is_judged_as_expected() {
        let registry = registry();
        let all = reproduce_with(&Effort::TEST, &registry, 1).unwrap();
        registry.assert_complete(&all.judged, Live::LeftOut);
        let verdict = claim::verdict(&all.judged);
        let text = present::text(&registry, &all.judged, verdict, 1);
        assert_eq!(verdict, Verdict::Holds, "{text}");
    }
}
