//! nakamura: TPC-C for PostgreSQL. The rules of the tool, tuning, tables over several disks, and the TP
//! monitor.

mod disks;
mod figures;
mod live;
mod tiers;
mod tool;

use advise::disk_model::{DiskModelError, Effort};
use cli::Failure;

use super::claim::{Live, Registry};
use super::measuring::{Extent, Measuring, about};
use crate::Reproduced;

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/nakamura/expected.toml"));

const FULL: Effort = Effort { requests: 60_000, runs: 8 };

/// Length of a measured run, unless the user says it \[s\].
pub fn seconds(extent: Extent) -> f64 {
    match extent {
        Extent::Full => 6.0,
        Extent::Small => 3.0,
    }
}

/// Plan of the measurement and its duration, in a sentence or two.
pub fn plan(extent: Extent, seconds: f64) -> String {
    let sizes: Vec<String> = tiers::warehouses(extent).iter().map(u32::to_string).collect();
    let runs = live::RUNS + tiers::runs(extent);
    // Each run has a second of ramp and about one until its terminals are in; a warehouse takes two
    // to three to load, and the models some ten.
    let loads = 2.0 + f64::from(tiers::MOST);
    let estimate = about(f64::from(runs) * (seconds + 2.0) + loads * 2.5 + 15.0);
    let name = match extent {
        Extent::Full => "full setting",
        Extent::Small => "small setting, with fewer points and shorter runs: more may be undecided",
    };
    format!(
        "nakamura on private PostgreSQL servers, {name}: {runs} runs of {seconds} s, at {} warehouses, \
         {estimate} on two quiet processors.",
        sizes.join(", ")
    )
}

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Judges every claim; those that need a PostgreSQL only if it is to be measured.
///
/// # Errors
/// If a model has no answer, or a measurement cannot be made or is interrupted.
pub fn reproduce(
    registry: &Registry,
    seed: u64,
    live: Option<&Measuring>,
) -> Result<Reproduced, Failure> {
    let mut all = reproduce_with(FULL, registry, seed)?;
    if let Some(measuring) = live {
        measuring.begin(live::STEPS + tiers::steps(measuring.extent))?;
        all.judged.extend(live::measure(registry, measuring)?);
        let (judged, section) = tiers::measure(registry, measuring)?;
        all.judged.extend(judged);
        all.sections.push(section);
    }
    let part = if live.is_some() { Live::Judged } else { Live::LeftOut };
    registry.assert_complete(&all.judged, part);
    Ok(all)
}

fn reproduce_with(effort: Effort, registry: &Registry, seed: u64) -> Result<Reproduced, Failure> {
    let mut judged = tool::judge(registry, seed);
    let runs = disks::Runs::simulate(effort, seed).map_err(|error| match error {
        DiskModelError::NeverTheLimit => Failure::usage(error),
        error => Failure::machine(error),
    })?;
    judged.extend(disks::judge(registry, &runs)?);
    let facts = vec![
        ("disk time of a transaction, fitted to one disk".into(), runs.demand_text(), "s".into()),
        ("times".into(), "of the disk model, not of a machine".into(), String::new()),
    ];
    Ok(Reproduced { judged, sections: figures::sections(&runs)?, facts })
}

#[cfg(test)]
mod tests {
    use advise::Approximation;

    use super::*;
    use crate::{claim, present};
    use cli::Verdict;

    /// Where the formulas beside the claims were approximate, nothing said so. Those of this study are exact
    /// (terminals before disks that serve exponential times have a product form), so that the other case
    /// is made here.
    #[test]
    fn what_formulas_are_worth_is_told() {
        let registry = registry();
        let mut runs = disks::Runs::simulate(Effort { requests: 2_000, runs: 2 }, 1).unwrap();
        let told = |runs: &disks::Runs| {
            let judged = disks::judge(&registry, runs).unwrap();
            let object = serde_json::to_value(present::answer(&registry, &judged, 1)).unwrap();
            let claims = object["claims"].as_array().unwrap();
            let of = |claim: &&serde_json::Value| claim["approximate"] == true;
            let claims: Vec<String> =
                claims.iter().filter(of).map(|one| one["id"].as_str().unwrap().into()).collect();
            let text = present::text(&registry, &judged, Verdict::Holds, 1);
            let first: Vec<&str> = text.split("\n\n").next().unwrap().split_whitespace().collect();
            (object["approximate"].clone(), object["error"].clone(), claims, first.join(" "))
        };
        let (approximate, error, claims, first) = told(&runs);
        assert_eq!((approximate, error, claims.len()), (false.into(), ().into(), 0));
        assert!(!first.contains("approximate"), "{first}");
        runs.spread[2].answer.approximation = Approximation::within(Some(0.12));
        let (approximate, error, claims, first) = told(&runs);
        assert_eq!((approximate, error), (true.into(), 0.12.into()));
        assert_eq!(claims, ["three-8", "spread-throughput", "sectors-per-transaction"]);
        assert!(first.contains("; its formula is approximate within 12 %"), "{first}");
    }

    /// Everything, at a quarter of the length. The seed is fixed, so this cannot fail by chance.
    #[test]
    fn every_claim_is_judged_as_expected() {
        let registry = registry();
        let all = reproduce_with(Effort { requests: 20_000, runs: 5 }, &registry, 1).unwrap();
        registry.assert_complete(&all.judged, Live::LeftOut);
        let verdict = claim::verdict(&all.judged);
        let text = present::text(&registry, &all.judged, verdict, 1);
        assert_eq!(verdict, Verdict::Holds, "{text}");
    }
}
