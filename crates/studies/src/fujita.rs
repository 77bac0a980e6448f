//! fujita: a benchmark of a web server (section 3 of the paper), and its model, limited processor
//! sharing, with an approximate solution (section 4).

mod benchmark;
mod closed;
mod figures;
#[cfg(target_os = "linux")]
mod live;
mod model;
mod open;

use cli::Failure;

use super::claim::{Live, Registry};
use super::measuring::{Measuring, about};
use crate::Reproduced;

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/fujita/expected.toml"));

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Plan of the measurement and its duration, in a sentence.
pub fn plan(seconds: f64) -> String {
    // In all about 60 of the runs as they are named, the longer ones counted by their length.
    let estimate = about(75.0 * (seconds + 0.5) + 60.0);
    format!(
        "fujita on a real Apache on one processor, the clients on another: runs of {seconds} s and small \
         multiples of it, {estimate} on a quiet machine."
    )
}

/// Judges every claim; those that only a measurement can judge if they are to be measured.
///
/// # Errors
/// If a model has no answer, or a measurement cannot be made or is interrupted.
pub fn reproduce(
    registry: &Registry,
    seed: u64,
    live: Option<&Measuring>,
) -> Result<Reproduced, Failure> {
    let mut judged = benchmark::judge(registry, seed)?;
    let runs = open::Runs::simulate(&open::Effort::FULL, seed)?;
    judged.extend(model::judge(registry, &runs)?);
    let sections = figures::sections(&runs)?;
    let facts = vec![("simulated requests".into(), runs.completed().to_string(), String::new())];
    let mut all = Reproduced { judged, sections, facts };
    if let Some(measuring) = live {
        let measured = measure(registry, measuring)?;
        all.judged.extend(measured.judged);
        all.sections.extend(measured.sections);
        all.facts.extend(measured.facts);
    }
    let part = if live.is_some() { Live::Judged } else { Live::LeftOut };
    registry.assert_complete(&all.judged, part);
    Ok(all)
}

#[cfg(target_os = "linux")]
use live::measure;

#[cfg(not(target_os = "linux"))]
fn measure(_: &Registry, _: &Measuring) -> Result<Reproduced, Failure> {
    Err(Failure::Usage("`--live` starts Apache on one processor, which needs Linux".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Finding, verdict};
    use crate::present;
    use cli::Verdict;

    #[test]
    fn titles_and_values_of_the_list_fit_the_table() {
        for claim in registry().claims {
            let (title, value) = if claim.live { (20, 8) } else { (26, 9) };
            assert!(claim.title.chars().count() <= title, "{}", claim.title);
            assert!(claim.paper.chars().count() <= value, "{}: {}", claim.id, claim.paper);
            let known = claim.expect != Finding::DoesNotReproduce || !claim.why.is_empty();
            assert!(known, "`{}` is expected not to reproduce, without a reason", claim.id);
        }
    }

    /// Everything offline, at a tenth of the length. The seed is fixed, so this cannot fail by
    /// chance; the claims and tolerances are those of the full length.
    #[test]
    fn every_claim_that_needs_no_measurement_is_judged_as_expected() {
        let registry = registry();
        let mut judged = benchmark::judge(&registry, 1).unwrap();
        let runs = open::Runs::simulate(&open::Effort::TEST, 1).unwrap();
        judged.extend(model::judge(&registry, &runs).unwrap());
        let text = present::text(&registry, &judged, verdict(&judged), 1);
        assert_eq!(verdict(&judged), Verdict::Holds, "{text}");
        let sections = figures::sections(&runs).unwrap();
        let all = Reproduced { judged, sections, facts: Vec::new() };
        registry.assert_complete(&all.judged, Live::LeftOut);
        let page = present::page(&registry, &all, Verdict::Holds, 1).unwrap();
        assert_eq!(page.figures().count(), 6);
    }
}
