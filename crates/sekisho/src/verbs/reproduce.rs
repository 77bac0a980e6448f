//! `sekisho reproduce`: a paper's values beside formula, simulation and measurement, and a verdict
//! for each of its claims.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use cli::json::{Answer, Interrupted};
use cli::text::{paragraph, sentence};
use cli::{Failure, Session, Verdict, say, store, turning};
use schemars::JsonSchema;
use serde::Serialize;
use studies::{
    Extent, Measuring, Registry, Reproduced, fujita, nakamura, ohmae, oshiro, present, yamamoto,
};

use databases::PrivateArgs;

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
      ends with 0 or 4: as expected, or a claim cannot be decided here
  sekisho reproduce ohmae --live --postgres 15
      ends with 0 or 4: the same
  sekisho reproduce nakamura --live --small
      ends with 0 or 4: the same
  sekisho reproduce oshiro --live --report oshiro.html
      ends with 3 or 4: what this machine shows; Cassandra itself is not run
  sekisho reproduce oshiro --live --store etcd
      ends with 3 or 4: the same, with one more rival
  sekisho reproduce oshiro --live --full --report oshiro.html
      ends with 3 or 4: the same
  sekisho reproduce yamamoto --live --small --report yamamoto.html
      ends with 0 or 4: as expected, or a claim cannot be decided here")]
pub(crate) struct Args {
    /// The paper
    #[arg(value_enum)]
    study: Study,
    /// Also measure: `fujita` a real Apache, `nakamura`, `ohmae` and `yamamoto` PostgreSQL, `oshiro` boards on
    /// several stores: minutes each
    #[arg(long, conflicts_with = "model")]
    live: bool,
    /// Measure only what claims are about, in shorter runs: about 3 minutes for `nakamura`, 1 for `yamamoto`;
    /// `oshiro` does so unless `--full` is said
    #[arg(long, requires = "live")]
    small: bool,
    /// Measure as the paper did: `oshiro` with 20000 requests of each of 10 to 45 clients in steps of 5
    #[arg(long, requires = "live", conflicts_with = "small")]
    full: bool,
    /// One more rival of `oshiro --live` beside SQLite and PostgreSQL: the paper's `cassandra`, or `etcd`; may be
    /// said twice
    #[arg(long = "store", value_name = "STORE", requires = "live", value_parser = board_verbs::demo::more)]
    more: Vec<board_verbs::demo::MoreName>,
    #[command(flatten)]
    private: PrivateArgs,
    /// Judge the claims on the paper's model only: formulas and simulation
    #[arg(long)]
    model: bool,
    /// Write a report with all figures
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Length of each measured run, in seconds; left out, 2, for `nakamura` 6 (small: 3), for
    /// `ohmae` 15. For `oshiro` the time after which a run is cut off: 5 (full: 600)
    #[arg(long, value_name = "S", requires = "live", value_parser = seconds)]
    seconds: Option<f64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Study {
    /// A web server: benchmark, limited processor sharing, its approximate solution
    Fujita,
    /// Client/server systems: software bottleneck, load balancing, nested servers
    Ohmae,
    /// TPC-C for PostgreSQL: the tool, tables over three disks by a model of them, the TP monitor
    Nakamura,
    /// A bulletin board on Jungle, a tree database, beside the same board on others (needs `--live`)
    Oshiro,
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

impl Args {
    /// Refuses what the paper has no use for.
    fn check(&self) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::Usage(text.into()));
        if self.study == Study::Oshiro && !self.live {
            return refuse(
                "the paper has no model, so that all of it is measured; say `sekisho reproduce oshiro --live`",
            );
        }
        if self.full && self.study != Study::Oshiro {
            return refuse(
                "`--full` is a setting of `oshiro --live`; the others are full by themselves",
            );
        }
        if self.seconds.is_some() && self.study == Study::Yamamoto {
            return refuse(
                "`--seconds` is for runs of a length; a pass of `yamamoto --live` takes as long as its \
                 agents: `--small` has fewer",
            );
        }
        if self.small && !matches!(self.study, Study::Nakamura | Study::Yamamoto | Study::Oshiro) {
            return refuse(
                "`--small` is a setting of `nakamura --live`, `yamamoto --live` and `oshiro --live`; the other \
                 papers' measurements get shorter by `--seconds`",
            );
        }
        if !self.more.is_empty() && self.study != Study::Oshiro {
            return refuse("`--store` is a rival of `oshiro --live`: remove it");
        }
        let has_server = self.study != Study::Fujita;
        if let Some(word) = self.private.chosen()
            && !(self.live && has_server)
        {
            let out = match has_server {
                true => "remove it, or add `--live`",
                false => "`fujita` has none, remove it",
            };
            return Err(Failure::Usage(format!(
                "`--postgres {word}` chooses the server of `nakamura --live`, `ohmae --live`, `oshiro --live` \
                 and `yamamoto --live`: {out}"
            )));
        }
        Ok(())
    }

    /// The measurements that are asked for, announced.
    fn measuring<'a>(
        &'a self,
        rivals: &[&'static str],
        supervised: origin::Supervised,
        session: &'a Session,
    ) -> Option<Measuring<'a>> {
        if !self.live {
            return None;
        }
        let is_small = self.small || (self.study == Study::Oshiro && !self.full);
        let extent = if is_small { Extent::Small } else { Extent::Full };
        let (seconds, plan) = match self.study {
            Study::Nakamura => {
                let seconds = self.seconds.unwrap_or(nakamura::seconds(extent));
                (seconds, nakamura::plan(extent, seconds))
            }
            Study::Ohmae => {
                let seconds = self.seconds.unwrap_or(ohmae::SECONDS);
                (seconds, ohmae::plan(seconds))
            }
            Study::Oshiro => {
                let seconds = self.seconds.unwrap_or(oshiro::seconds(extent));
                (seconds, oshiro::plan(extent, rivals, seconds))
            }
            Study::Yamamoto => (0.0, yamamoto::plan(extent)),
            Study::Fujita => {
                let seconds = self.seconds.unwrap_or(2.0);
                (seconds, fujita::plan(seconds))
            }
        };
        let server = self.private.settings(&[], None);
        Some(Measuring::new((self.seed, seconds, extent), (server, supervised, session), &plan))
    }

    /// More rivals, each once.
    fn rivals(&self) -> Result<Vec<&'static str>, Failure> {
        let mut all = Vec::new();
        for name in &self.more {
            let word = name.word()?;
            if !all.contains(&word) {
                all.push(word);
            }
        }
        Ok(all)
    }

    /// Boards are served by this program itself.
    fn oshiro(
        &self,
        registry: &Registry,
        more: &[&'static str],
        measuring: Option<&Measuring>,
    ) -> Result<Reproduced, Failure> {
        let programs = oshiro::Programs {
            sekisho: std::env::current_exe().map_err(Failure::machine)?,
            postgres: self.private.chosen().map(str::to_owned),
            more: more.to_vec(),
        };
        let measuring = measuring.expect("without a measurement it was refused");
        oshiro::reproduce(registry, &programs, measuring)
    }

    /// The same command with a report.
    fn next(&self, study: &str) -> String {
        let postgres = self.private.chosen().map(|word| format!(" --postgres {word}"));
        let seconds = self.seconds.map(|seconds| format!(" --seconds {seconds}"));
        let flags = [
            (self.live, " --live"),
            (self.small, " --small"),
            (self.full, " --full"),
            (self.model, " --model"),
        ];
        let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
        let rivals = self.rivals().unwrap_or_default();
        let rivals = rivals.iter().map(|rival| format!(" --store {rival}")).collect::<String>();
        let rest = [postgres, Some(rivals), seconds].into_iter().flatten().collect::<String>();
        format!("sekisho reproduce {study}{flags}{rest} --report {study}.html")
    }
}

pub(crate) fn run(
    args: &Args,
    supervised: origin::Supervised,
    session: &Session,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    args.check()?;
    let registry = match args.study {
        Study::Fujita => fujita::registry(),
        Study::Yamamoto => yamamoto::registry(),
        Study::Nakamura => nakamura::registry(),
        Study::Ohmae => ohmae::registry(),
        Study::Oshiro => oshiro::registry(),
    };
    let rivals = args.rivals()?;
    let measuring = args.measuring(&rivals, supervised, session);
    let live = measuring.as_ref();
    let work = || match args.study {
        Study::Fujita => fujita::reproduce(&registry, args.seed, live),
        Study::Yamamoto => yamamoto::reproduce(&registry, args.seed, live),
        Study::Nakamura => nakamura::reproduce(&registry, args.seed, live),
        Study::Ohmae => ohmae::reproduce(&registry, args.seed, live),
        Study::Oshiro => args.oshiro(&registry, &rivals, live),
    };
    // What is measured shows its own progress.
    let reproduced = match live {
        Some(_) => work(),
        None => turning("judging the claims", work),
    };
    let facts = live.map_or(Vec::new(), Measuring::facts);
    // Its bar goes before anything is said.
    drop(measuring);
    match reproduced {
        Ok(reproduced) => told(args, &registry, reproduced, facts, out),
        Err(Failure::Interrupted(at)) => interrupted(args, &at, out),
        Err(failure) => Err(failure),
    }
}

/// A paper's claims, as they were found.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReproducedStudy<'a> {
    #[serde(flatten)]
    found: present::Answer<'a>,
    /// Facts of the measurement; empty where nothing was measured.
    measured_with: Vec<String>,
    /// File of the report, if one was asked for.
    report: Option<&'a Path>,
}

impl Answer for ReproducedStudy<'_> {
    const FORMAT: &'static str = "sekisho/reproduce/1";
}

/// Tells what was found, as a page, as JSON or as text.
fn told(
    args: &Args,
    registry: &Registry,
    mut reproduced: Reproduced,
    facts: Vec<(String, String, String)>,
    out: &mut dyn Write,
) -> Result<Verdict, Failure> {
    let measured: Vec<String> = facts
        .iter()
        .map(|(key, value, unit)| format!("{key} {value} {unit}").trim_end().to_owned())
        .collect();
    let verdict = studies::verdict(&reproduced.judged);
    reproduced.facts.extend(facts);
    if let Some(path) = &args.report {
        let page = present::page(registry, &reproduced, verdict, args.seed);
        store::write_whole(path, report::render(&page?))?;
    }
    if args.json {
        let found = present::answer(registry, &reproduced.judged, args.seed);
        let report = args.report.as_deref();
        let answer = ReproducedStudy { found, measured_with: measured, report };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
        return Ok(verdict);
    }
    say(out, &present::text(registry, &reproduced.judged, verdict, args.seed))?;
    if !measured.is_empty() {
        say(out, &format!("\n{}", paragraph(&format!("Measured: {}.", measured.join(", ")))))?;
    }
    let next = match &args.report {
        Some(path) => format!("\n  report: {}\n", path.display()),
        None => format!("\n  next: {}\n", args.next(&registry.study)),
    };
    say(out, &next)?;
    Ok(verdict)
}

/// Tells of an interrupt: what was measured by then is no reproduction, and is not kept.
fn interrupted(args: &Args, at: &str, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let left = "nothing: what was started is stopped, and its data is removed";
    let text = match args.json {
        true => {
            let (at, left) = (Some(at.to_owned()), Some(left.to_owned()));
            Interrupted { at, left, seed: Some(args.seed), ..Interrupted::default() }.line()
        }
        false => sentence(&format!("interrupted: while {at}; it leaves {left}")),
    };
    say(out, &text)?;
    Ok(verdict)
}
