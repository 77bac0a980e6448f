//! yamamoto: an agent server whose scheduler knows its cache. Here its model: the hit ratios of the
//! scheduler and of LRU, and the cluster of sections 6 and 7.

mod cluster;
mod figures;
mod hits;

use cli::Failure;

use super::claim::{Live, Registry};
use crate::Reproduced;

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/yamamoto/expected.toml"));

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Judges every claim on the model.
///
/// # Errors
/// If a model has no answer, or a measurement cannot be made or is interrupted.
pub fn reproduce(registry: &Registry, seed: u64) -> Result<Reproduced, Failure> {
    let hits = hits::Runs::simulate(seed);
    let mut judged = hits.judge(registry)?;
    judged.extend(cluster::judge(registry)?);
    registry.assert_complete(&judged, Live::LeftOut);
    let facts = vec![("simulated agents".into(), hits::AGENTS.to_string(), String::new())];
    Ok(Reproduced { judged, sections: figures::sections(&hits)?, facts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claim, present};
    use cli::Verdict;

    #[test]
    fn every_claim_is_judged_as_expected() {
        let registry = registry();
        let all = reproduce(&registry, 1).unwrap();
        let verdict = claim::verdict(&all.judged);
        let text = present::text(&registry, &all.judged, verdict, 1);
        assert_eq!(verdict, Verdict::Holds, "{text}");
    }
}
