//! `sekisho reproduce`: a paper's values beside formula, simulation and measurement, and a verdict
//! for each of its claims.

mod claim;
mod fujita;
mod nakamura;
mod ohmae;
mod present;
mod yamamoto;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::report;
use crate::session::say;
use crate::store;
use crate::verdict::{Failure, Verdict};

use claim::Judged;

#[derive(ClapArgs)]
#[command(after_help = "\
Each claim gets a finding: reproduces; shape only (it holds, but the text prints
no number); does not (with the reason); taken from the paper (fitted, copied, or
chosen so that it holds: not counted); not stated; undecided; not run. The
verdict holds if every finding is the one that studies/ expects; a claim that
could not be run or decided makes it inconclusive.

Examples:
  sekisho reproduce fujita --report fujita.html
  sekisho reproduce ohmae --report ohmae.html
  sekisho reproduce yamamoto --model
  sekisho reproduce nakamura --report nakamura.html
  sekisho reproduce fujita --live --seconds 3 --report fujita.html
  sekisho reproduce ohmae --live")]
pub(crate) struct Args {
    /// The paper
    #[arg(value_enum)]
    study: Study,
    /// Also measure: `fujita` a real Apache, `nakamura` and `ohmae` PostgreSQL: minutes each
    #[arg(long, conflicts_with = "model")]
    live: bool,
    /// Judge the claims on the paper's model only: formulas and simulation
    #[arg(long)]
    model: bool,
    /// Write a report with all figures
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Length of each measured run, in seconds; left out, 2, for `nakamura` 6, for `ohmae` 15
    #[arg(long, value_name = "S", requires = "live", value_parser = seconds)]
    seconds: Option<f64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Study {
    /// A web server: benchmark, limited processor sharing, its approximate solution
    Fujita,
    /// Client/server systems: software bottleneck, load balancing, nested servers
    Ohmae,
    /// TPC-C for PostgreSQL: the tool, tables over three disks by a model of them, the TP monitor
    Nakamura,
    /// An agent server: a scheduler that knows its cache, and a model of a cluster
    Yamamoto,
}

/// Shorter runs see too few of the rare documents, longer ones are no short runs any more.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    if (0.5..=600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("it must be from 0.5 to 600".into())
    }
}

/// What the judging of a paper gave.
struct Reproduced {
    /// All claims that were to be judged, in the order of the paper.
    judged: Vec<Judged>,
    /// Figures and tables for the report.
    sections: Vec<report::Section>,
    /// What is needed to judge or to repeat it: key, value, unit.
    facts: Vec<(String, String, String)>,
}

pub(crate) fn run(
    args: &Args,
    supervised: origin::Supervised,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    if args.live && matches!(args.study, Study::Yamamoto) {
        return Err(Failure::Usage(
            "`--live` measures for `fujita`, `nakamura` and `ohmae`: remove it".into(),
        ));
    }
    let (registry, reproduced) = match args.study {
        Study::Fujita => {
            let registry = fujita::registry();
            let length = args.live.then_some(args.seconds.unwrap_or(2.0));
            let reproduced = fujita::reproduce(&registry, args.seed, length, supervised)?;
            (registry, reproduced)
        }
        Study::Yamamoto if !args.model => {
            return Err(Failure::Usage(
                "the paper's measurements need an agent server, which Sekisho does not have yet; say \
                 `sekisho reproduce yamamoto --model` for its model"
                    .into(),
            ));
        }
        Study::Yamamoto => {
            let registry = yamamoto::registry();
            let reproduced = yamamoto::reproduce(&registry, args.seed)?;
            (registry, reproduced)
        }
        Study::Nakamura => {
            let registry = nakamura::registry();
            let live = args.live.then_some(args.seconds.unwrap_or(nakamura::SECONDS));
            let reproduced = nakamura::reproduce(&registry, args.seed, live)?;
            (registry, reproduced)
        }
        Study::Ohmae => {
            let registry = ohmae::registry();
            let live = args.live.then_some(args.seconds.unwrap_or(ohmae::SECONDS));
            let reproduced = ohmae::reproduce(&registry, args.seed, live)?;
            (registry, reproduced)
        }
    };
    let verdict = claim::verdict(&reproduced.judged);
    if let Some(path) = &args.report {
        let page = present::page(&registry, &reproduced, verdict, args.seed);
        store::write_whole(path, report::render(&page?))?;
    }
    if args.json {
        let json = present::json(&registry, &reproduced.judged, verdict, args.seed);
        say(out, &format!("{json}\n"))?;
        return Ok(verdict);
    }
    say(out, &present::text(&registry, &reproduced.judged, verdict, args.seed))?;
    let next = match &args.report {
        Some(path) => format!("\n  report: {}\n", path.display()),
        None => {
            let study = &registry.study;
            let part = [(args.live, " --live"), (args.model, " --model")];
            let part: String = part.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
            format!("\n  next: sekisho reproduce {study}{part} --report {study}.html\n")
        }
    };
    say(out, &next)?;
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::claim::{Finding, Registry};
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
}
