//! yamamoto: an agent server whose scheduler knows its cache: its model, which is the hit ratios of the
//! scheduler and of LRU and the cluster of sections 6 and 7, and one server, measured.

mod cluster;
mod figures;
mod hits;
mod live;

use cli::Failure;

use super::claim::{Live, Registry};
use super::measuring::{Extent, Measuring, about};
use crate::Reproduced;

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/yamamoto/expected.toml"));

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Plan of the measurement and its duration, in a sentence or two.
pub fn plan(extent: Extent) -> String {
    let name = match extent {
        Extent::Full => "full setting",
        Extent::Small => "small setting, with fewer accounts",
    };
    // Passes, and some ten seconds of starting and filling.
    let estimate = about(live::estimate(extent) + 10.0);
    format!(
        "yamamoto on a private PostgreSQL server, {name}: {} accounts, {} steps, {estimate} whatever the \
         machine, since turns and accesses have the paper's rates at half speed.",
        live::agents(extent),
        live::steps()
    )
}

/// Judges every claim; those on a server only if it is to be measured.
///
/// # Errors
/// If a model has no answer, or a measurement cannot be made or is interrupted.
pub fn reproduce(
    registry: &Registry,
    seed: u64,
    live: Option<&Measuring>,
) -> Result<Reproduced, Failure> {
    let hits = hits::Runs::simulate(seed);
    let mut judged = hits.judge(registry)?;
    judged.extend(cluster::judge(registry)?);
    let mut sections = figures::sections(&hits)?;
    let mut facts = vec![("simulated agents".into(), hits::AGENTS.to_string(), String::new())];
    if let Some(measuring) = live {
        measuring.begin(live::steps())?;
        let agents = live::agents(measuring.extent);
        let measured = live::Live::measure(agents, measuring)?;
        judged.extend(measured.judge(registry)?);
        sections.push(measured.section()?);
        facts.push(("measured agents".into(), agents.to_string(), String::new()));
    }
    let part = if live.is_some() { Live::Judged } else { Live::LeftOut };
    registry.assert_complete(&judged, part);
    Ok(Reproduced { judged, sections, facts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claim, present};
    use cli::Verdict;

    #[test]
    fn every_claim_is_judged_as_expected() {
        let registry = registry();
        let all = reproduce(&registry, 1, None).unwrap();
        let verdict = claim::verdict(&all.judged);
        let text = present::text(&registry, &all.judged, verdict, 1);
        assert_eq!(verdict, Verdict::Holds, "{text}");
    }
}
