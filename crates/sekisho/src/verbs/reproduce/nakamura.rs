//! nakamura: TPC-C for PostgreSQL. The rules of the tool, tuning, tables over several disks, and the TP
//! monitor.

mod disks;
mod figures;
mod live;
mod tiers;
mod tool;

use crate::verbs::disk_model::Effort;
use crate::verdict::Failure;

use super::Reproduced;
use super::claim::{Live, Registry};

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/nakamura/expected.toml"));

const FULL: Effort = Effort { requests: 60_000, runs: 8 };

/// How long a measured run is, unless the user says \[s\].
pub(super) const SECONDS: f64 = 6.0;

/// The list of claims.
pub(super) fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Judges every claim; those that need a PostgreSQL only by `live` runs of this length \[s\].
pub(super) fn reproduce(
    registry: &Registry,
    seed: u64,
    live: Option<f64>,
) -> Result<Reproduced, Failure> {
    let mut all = reproduce_with(FULL, registry, seed)?;
    if let Some(seconds) = live {
        all.judged.extend(live::measure(registry, seed, seconds)?);
        let (judged, section) = tiers::measure(registry, seed, seconds)?;
        all.judged.extend(judged);
        all.sections.push(section);
    }
    let part = if live.is_some() { Live::Judged } else { Live::LeftOut };
    registry.assert_complete(&all.judged, part);
    Ok(all)
}

fn reproduce_with(effort: Effort, registry: &Registry, seed: u64) -> Result<Reproduced, Failure> {
    let mut judged = tool::judge(registry, seed);
    let runs = disks::Runs::simulate(effort, seed)?;
    judged.extend(disks::judge(registry, &runs)?);
    let facts = vec![
        ("disk time of a transaction, fitted to one disk".into(), runs.demand_text(), "s".into()),
        ("times".into(), "of the disk model, not of a machine".into(), String::new()),
    ];
    Ok(Reproduced { judged, sections: figures::sections(&runs)?, facts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::reproduce::{claim, present};
    use crate::verdict::Verdict;

    /// Everything, at a quarter of the length. The seed is fixed, so this cannot fail by chance.
    #[test]
    fn every_claim_is_judged_as_expected() {
        let registry = registry();
        let all = reproduce_with(Effort { requests: 20_000, runs: 5 }, &registry, 1).unwrap();
        registry.assert_complete(&all.judged, Live::LeftOut);
        let verdict = claim::verdict(&all.judged);
        let text = present::text(&registry, &all.judged, verdict, 1);
        assert_eq!(verdict, Verdict::Holds, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
