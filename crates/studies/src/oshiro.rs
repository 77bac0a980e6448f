//! oshiro: a bulletin board on Jungle, a non-destructive tree database, beside the same board on another one
//! (experiment 1 of the paper). Nothing of it is a model of the paper's: everything is measured.

mod experiment;
mod figures;
mod judge;
mod model;

use std::path::PathBuf;

use cli::Failure;

use super::claim::{Live, Registry};
use super::measuring::{Extent, Measuring, about};
use crate::Reproduced;
use experiment::{Experiment, Scale};

/// The paper's claims, and how each is expected to be judged.
const EXPECTED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/oshiro/expected.toml"));

/// Programs that the boards are served by.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program that serves boards: `sekisho` itself.
    pub sekisho: PathBuf,
    /// The release or folder of PostgreSQL, if one was chosen.
    pub postgres: Option<String>,
    /// More rivals beside SQLite and PostgreSQL, as `board serve --store` has them.
    pub more: Vec<&'static str>,
}

/// The list of claims.
pub fn registry() -> Registry {
    Registry::parse(EXPECTED)
}

/// Time after which a run is cut off, unless the user says it \[s\].
pub fn seconds(extent: Extent) -> f64 {
    match extent {
        Extent::Full => 600.0,
        Extent::Small => 5.0,
    }
}

/// Plan of the measurement and its duration, in a sentence or two.
pub fn plan(extent: Extent, more: &[&'static str], seconds: f64) -> String {
    let scale = Scale::of(extent, more);
    let clients: Vec<String> = scale.clients.iter().map(u32::to_string).collect();
    let runs = scale.runs();
    let name = match extent {
        Extent::Full => "full setting, as the paper",
        Extent::Small => {
            "small setting, with fewer requests and fewer numbers of clients than the paper's 20000 \
             requests and 10 to 45 clients in steps of 5 (`--full`)"
        }
    };
    let most = about(
        f64::from(runs) * (seconds + 0.5)
            + f64::from(scale.runs_of_one()) * experiment::ONE_S
            + 18.0,
    );
    format!(
        "oshiro, experiment 1, {name}: {} clients at once, each with {} keep-alive connections and {} \
         requests, four mixes on {}, {} rounds, {runs} runs of at most {seconds} s: {most} at most.",
        clients.join(", "),
        experiment::CONNECTIONS,
        scale.requests,
        scale.stores.join(", "),
        experiment::ROUNDS
    )
}

/// Measures, and judges every claim.
///
/// # Errors
/// If this machine has too few descriptors, a board does not start, a run cannot be made, or an interrupt.
pub fn reproduce(
    registry: &Registry,
    programs: &Programs,
    measuring: &Measuring,
) -> Result<Reproduced, Failure> {
    let scale = Scale::of(measuring.extent, &programs.more);
    board_bench::preflight(scale.connections())?;
    measuring.begin(u64::from(scale.runs() + scale.runs_of_one()))?;
    let experiment = Experiment::run(&scale, programs, measuring)?;
    let models = model::models(&experiment, measuring)?;
    let judged = judge::judge(registry, &experiment, &models);
    registry.assert_complete(&judged, Live::Judged);
    let sections = figures::sections(&experiment, &models)?;
    Ok(Reproduced { judged, sections, facts: experiment.facts() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Finding;

    #[test]
    fn titles_and_values_of_the_list_fit_the_table_and_all_is_measured() {
        for claim in registry().claims {
            assert!(claim.live, "`{}`: without a measurement nothing is judged", claim.id);
            assert!(claim.title.chars().count() <= 20, "{}", claim.title);
            assert!(claim.paper.chars().count() <= 8, "{}: {}", claim.id, claim.paper);
            let known = claim.expect != Finding::DoesNotReproduce || !claim.why.is_empty();
            assert!(known, "`{}` is expected not to reproduce, without a reason", claim.id);
        }
    }

    #[test]
    fn the_plan_says_that_the_small_setting_is_small() {
        let small = plan(Extent::Small, &[], seconds(Extent::Small));
        assert!(small.contains("small setting") && small.contains("`--full`"), "{small}");
        let minutes: f64 = small
            .split("about ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse().ok())
            .expect("it says how long");
        assert!(minutes <= 10.0, "{small}");
        let full = plan(Extent::Full, &["cassandra"], seconds(Extent::Full));
        assert!(full.contains("10, 15, 20, 25, 30, 35, 40, 45 clients"), "{full}");
        assert!(full.contains("20000 requests"), "{full}");
        assert!(
            full.contains("on jungle, sqlite, postgres, cassandra, 2 rounds, 256 runs"),
            "{full}"
        );
    }
}
