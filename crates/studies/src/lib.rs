//! Studies: papers reproduced, each value beside formula, simulation and measurement.
//!
//! ```text
//!   studies/NAME/expected.toml ──▶ Registry of claims
//!   formula, simulation, measurement ──▶ Judged, one a claim ──▶ verdict ──▶ text, page, JSON
//! ```
//!
//! A paper is a module: [`fujita`], [`nakamura`], [`ohmae`], [`oshiro`], [`yamamoto`]. A claim counts as reproduced
//! only where a value could have contradicted it. Measurements announce themselves and end within
//! seconds of an interrupt ([`Measuring`]); a TP monitor of their own is a [`Gate`].

pub mod fujita;
pub mod nakamura;
pub mod ohmae;
pub mod oshiro;
pub mod present;
pub mod yamamoto;

mod claim;
mod drawn;
mod measuring;
mod monitor;
mod reproduced;

pub use claim::{Judged, Registry, verdict};
pub use measuring::{Extent, Measuring};
pub use monitor::{Gate, Look, Memory};
pub use reproduced::Reproduced;

#[cfg(test)]
mod tests {
    use super::claim::Finding;
    use super::*;

    macro_rules! readme {
        ($path:literal) => {
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path))
        };
    }

    /// The README said "31 of 33 claims", of which ten could have failed. Each finding is held to the
    /// list elsewhere, so that the list's counts are the truth.
    #[test]
    fn the_readmes_count_what_could_have_failed() {
        let lists: [(Registry, &str); 4] = [
            (fujita::registry(), readme!("studies/fujita/README.md")),
            (ohmae::registry(), readme!("studies/ohmae/README.md")),
            (nakamura::registry(), readme!("studies/nakamura/README.md")),
            (yamamoto::registry(), readme!("studies/yamamoto/README.md")),
        ];
        for (registry, study) in lists {
            let offline = registry.claims.iter().filter(|claim| !claim.live);
            let expected: Vec<Finding> = offline.map(|claim| claim.expect).collect();
            let count = |is: fn(&Finding) -> bool| expected.iter().filter(|one| is(one)).count();
            let counted = count(|one| one.counts());
            let holds = counted - count(|one| *one == Finding::DoesNotReproduce);
            let taken = count(|one| *one == Finding::Taken);
            let words = format!("{holds} of {counted} claims that could have failed");
            let others = format!("{taken} more are taken from the paper");
            for (name, text) in [("its own", study), ("the", readme!("README.md"))] {
                let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
                for words in [&words, &others] {
                    assert!(
                        flat.contains(words.as_str()),
                        "{}: {name} README lacks `{words}`",
                        registry.study
                    );
                }
            }
        }
    }

    /// Hit ratios that a store can only confirm were counted as measured.
    #[test]
    fn the_readme_of_yamamoto_counts_what_could_have_failed_on_a_server() {
        let registry = yamamoto::registry();
        let live = registry.claims.iter().filter(|claim| claim.live);
        let expected: Vec<Finding> = live.map(|claim| claim.expect).collect();
        let count = |is: fn(&Finding) -> bool| expected.iter().filter(|one| is(one)).count();
        let counted = count(|one| one.counts());
        let holds = counted - count(|one| *one == Finding::DoesNotReproduce);
        let taken = count(|one| *one == Finding::Taken);
        let flat = readme!("studies/yamamoto/README.md").split_whitespace();
        let flat = flat.collect::<Vec<_>>().join(" ");
        for words in [
            format!("{holds} of {counted} more claims that could have failed"),
            format!("{taken} on the hit ratio are taken"),
        ] {
            assert!(flat.contains(&words), "the README lacks `{words}`");
        }
    }
}
