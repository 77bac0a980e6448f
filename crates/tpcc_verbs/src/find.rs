//! `sekisho tpcc find`: the most warehouses that hold, and so the highest throughput (MQTh).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::tpcc::find::{Above, Answer, Reading, SearchPlan, Stage, Step, Tried};
use ::tpcc::{NOT_AUDITED, Outcome, Pace, Plan};
use advise::Span;
use clap::Args as ClapArgs;
use cli::json::Interrupted;
use cli::text::{Table, paragraph, plus_minus, sentence, time};
use cli::{Failure, Session, Verdict, say, store, tool};
use measure::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use workload::tpcc::Kind;

use super::kept::Begun;
use super::page::{Run, page_as};
use super::report::written;
use super::target::Target;
use super::terminals::{self, ExecuteName, IsolationName};
use super::verified::{Verified, and_verified, verified_text};
use databases::DatabaseArgs;
use databases::PrivateArgs;

/// Of a trend over shorter runs nothing can be said.
const STEADY_LEAST: Duration = Duration::from_secs(100);
/// A probe that cannot tell is repeated for up to so many times as long.
const LENGTHEN_MOST: u32 = 4;

/// Find the most warehouses that hold, and so the highest throughput (MQTh)
///
/// Loads once for the largest size, tries numbers of active warehouses with short paced probes, and
/// confirms with a long run. A size is ruled out by two of at most three probes that could tell; a
/// probe that saw too few is neither yes nor no and is repeated for longer, up to four times. A
/// confirmation that fails overrules the probes: the search steps down and confirms again.
#[derive(ClapArgs)]
#[command(after_help = "\
A warehouse takes about 110 MB. With no database named, a private PostgreSQL is
started, loaded, and removed at the end. Every trial leaves a record, the search
ID.find.json and a report of the curve. A confirmation below ten minutes is too
short to tell; below two hours it meets the rules for its minutes, or saw too
few to tell, and never qualifies.

Examples:
  sekisho tpcc find --max-warehouses 60
      ends with 0 or 4: so many hold, or too few were seen to tell
  sekisho tpcc find --max-warehouses 200 --confirm 2h --db \"$DATABASE_URL\"
      ends with 0 or 4: the same")]
pub(super) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    private: PrivateArgs,
    /// The most warehouses that are tried; a database that is named must hold as many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_warehouses: u32,
    /// How long a probe is measured at first; steadiness takes 100 s
    #[arg(long, value_name = "TIME", default_value = "2min")]
    probe: Span,
    /// How long the confirmation is measured
    #[arg(long, value_name = "TIME", default_value = "10min")]
    confirm: Span,
    /// How long the terminals of each trial run before they are measured
    #[arg(long, value_name = "TIME", default_value = "30s")]
    ramp: Span,
    /// Connections to the database, far fewer than terminals
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Who runs a transaction: the client, or functions of the server
    #[arg(long, value_enum, default_value = "sql")]
    execute: ExecuteName,
    /// Isolation of the transactions; `read-committed` is a deviation
    #[arg(long, value_enum, default_value = "repeatable-read")]
    isolation: IsolationName,
    /// What the terminals ask for follows from it, and each trial has the next one; left out, it is
    /// drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// Do not verify the database after the search
    #[arg(long)]
    no_verify: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Args {
    fn search(&self) -> Result<SearchPlan, Failure> {
        let (probe, confirm) = (terminals::span(self.probe)?, terminals::span(self.confirm)?);
        if probe.is_zero() || confirm.is_zero() {
            return Err(Failure::Usage(
                "nothing is found in no time: give `--probe` and `--confirm` some".into(),
            ));
        }
        Ok(SearchPlan { max: self.max_warehouses, probe, confirm })
    }

    /// The run that tries a size. Each has a seed of its own, so that two probes are not the same.
    fn plan(&self, nth: u64, warehouses: u32, measure: Duration) -> Result<Plan, Failure> {
        Ok(Plan {
            pace: Pace::Paced,
            warehouses,
            connections: self.connections,
            ramp: terminals::span(self.ramp)?,
            measure,
            execution: self.execute.execution(),
            isolation: self.isolation.isolation(),
            seed: self.seed.wrapping_add(nth),
        })
    }
}

/// A search as far as it came.
struct Search {
    plan: SearchPlan,
    answer: Answer,
    tried: Vec<Tried>,
    /// The run of each.
    runs: Vec<Run>,
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let plan = args.search()?;
    args.plan(0, 1, plan.probe)?;
    if let Some(note) = too_short(plan.probe) {
        // Who closed standard error does not want to know.
        let _ = write!(std::io::stderr(), "{}", sentence(&note));
    }
    let target =
        Target::open(&args.database, &args.private, (args.max_warehouses, args.seed), session)?;
    let Some(target) = target else { return not_begun(args, out) };
    let begun = Begun::now("find.json")?;
    let search = follow(args, plan, &target, session)?;
    let verdict = search.verdict();
    let found = match (args.no_verify, verdict) {
        (true, _) | (_, Verdict::Interrupted | Verdict::Invalid) => None,
        _ => Verified::of(&target, session)?,
    };
    let verdict = and_verified(verdict, found.as_ref());
    let report = search.report(verdict, found.as_ref(), &begun.path("find.html")?);
    let verified = found.as_ref().map(Verified::holds);
    let told = search.answer(verified, report.as_deref().ok(), (args.seed, target.version()));
    keep(&begun, &told, session)?;
    if args.json {
        let answer = FoundSize { search: told, record: begun.record() };
        say(out, &cli::json::answer(verdict, search.word(verdict), &answer))?;
    } else {
        let text = [
            search.text(&target),
            match verdict {
                Verdict::Interrupted | Verdict::Invalid => String::new(),
                _ => verified_text(found.as_ref()),
            },
            paragraph(&format!("record: {}", begun.record().display())),
            written(&report),
            paragraph(&format!("Seed {}.", args.seed)),
            args.database.next(&search.next_command(target.room())),
        ];
        say(out, &text.concat())?;
    }
    target.close()?;
    report.map(|_| verdict)
}

/// Warning about probes of this length before they begin, if they are too short to tell.
fn too_short(probe: Duration) -> Option<String> {
    let longest = probe * LENGTHEN_MOST;
    let (probe_s, least_s) = (probe.as_secs_f64(), STEADY_LEAST.as_secs());
    let what = match (probe < STEADY_LEAST, longest < STEADY_LEAST) {
        (false, _) => return None,
        (true, false) => "each will have to be repeated for longer",
        (true, true) => "so are those of four times that, and the search will not be decided",
    };
    Some(format!(
        "note: probes of {probe_s} s are too short to tell, since steadiness takes {least_s} s: {what}; \
         `--probe {least_s}s` at least"
    ))
}

fn not_begun(args: &Args, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted::default().line(),
        false => "interrupted: before the first probe, so nothing was recorded\n".into(),
    };
    say(out, &text)?;
    Ok(verdict)
}

/// Tries what the search asks for, until it has its answer.
fn follow(
    args: &Args,
    plan: SearchPlan,
    target: &Target,
    session: &Session,
) -> Result<Search, Failure> {
    let (mut tried, mut runs) = (Vec::new(), Vec::new());
    loop {
        let (warehouses, stage, measure) = match plan.next(&tried) {
            Step::End(answer) => return Ok(Search { plan, answer, tried, runs }),
            Step::Try { warehouses, stage, measure } => (warehouses, stage, measure),
        };
        let asked = args.plan(tried.len() as u64, warehouses, measure)?;
        let kept = match terminals::run(target, &asked, session) {
            Ok(kept) => kept,
            Err(failure) if tried.is_empty() => return Err(failure),
            // What was tried is kept although the database let nobody in any more.
            Err(failure) => {
                let answer = Answer::Invalid(failure.to_string());
                return Ok(Search { plan, answer, tried, runs });
            }
        };
        let reading = kept.record.reading(stage);
        tried.push(Tried { warehouses, stage, measure, reading });
        runs.push(Run::new(kept));
    }
}

/// Writes the search beside the records of its trials.
fn keep(begun: &Begun, search: &SearchAnswer<'_>, session: &Session) -> Result<(), Failure> {
    let kept = KeptSearch {
        format: 1,
        id: begun.id(),
        started: begun.started(),
        tool: &tool(),
        command: &session.command,
        search,
    };
    let text = serde_json::to_string(&kept).map_err(Failure::defect)?;
    store::write_whole(begun.record(), text + "\n")
}

/// File of a search.
#[derive(Serialize)]
struct KeptSearch<'a> {
    #[serde(rename = "sekisho-tpcc-find")]
    format: u32,
    id: &'a str,
    started: &'a str,
    tool: &'a str,
    command: &'a [String],
    #[serde(flatten)]
    search: &'a SearchAnswer<'a>,
}

/// A search for the most warehouses.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FoundSize<'a> {
    #[serde(flatten)]
    search: SearchAnswer<'a>,
    /// File of the search.
    record: &'a Path,
}

impl cli::json::Answer for FoundSize<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-find/1";
}

/// A search as far as it came, and its database.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Search")]
struct SearchAnswer<'a> {
    answer: &'a Answer,
    /// The most warehouses that were to be tried.
    max_warehouses: u32,
    /// Length of a probe \[s\].
    probe_s: f64,
    /// Length of the confirmation \[s\].
    confirm_s: f64,
    /// Of the run that the answer rests on; none if there is none.
    new_orders_per_minute: Option<Estimate>,
    /// Deviations from the specification.
    deviations: Vec<String>,
    /// The trials, in their order.
    trials: Vec<TrialAnswer<'a>>,
    /// Sentence that a result that nobody audited must carry.
    not_audited: &'static str,
    /// True if the conditions of the database hold afterwards; none where they were not looked at.
    verified: Option<bool>,
    /// File of the report; none if it could not be written.
    report: Option<&'a Path>,
    /// Seed of all that was drawn.
    seed: u64,
    /// Version of the PostgreSQL.
    postgres: &'a str,
}

/// A probe, or the confirmation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SearchTrial")]
struct TrialAnswer<'a> {
    /// Number of warehouses.
    warehouses: u32,
    stage: Stage,
    /// Seed of all that was drawn.
    seed: u64,
    /// Time that was measured \[s\].
    measured_s: f64,
    reading: &'a Reading,
    /// Its outcome.
    outcome: &'a Outcome,
    /// New orders completed in a minute.
    new_orders_per_minute: Estimate,
    /// New orders in a minute for each warehouse.
    per_warehouse: f64,
    /// By the kind of transaction.
    response_p90_s: BTreeMap<&'static str, f64>,
    /// File of the record of the run.
    record: &'a Path,
}

impl Search {
    fn verdict(&self) -> Verdict {
        match self.answer {
            Answer::Qualifies { .. } | Answer::Meets { .. } => Verdict::Holds,
            Answer::TooFew { .. } | Answer::TooShort { .. } | Answer::Inconclusive(_) => {
                Verdict::Inconclusive
            }
            Answer::None => Verdict::Fails,
            Answer::Invalid(_) => Verdict::Invalid,
            Answer::Interrupted => Verdict::Interrupted,
        }
    }

    /// The verdict in the word of the headline.
    fn word(&self, verdict: Verdict) -> &'static str {
        match (&self.answer, verdict) {
            (Answer::Qualifies { .. }, Verdict::Holds) => terminals::QUALIFIED,
            (Answer::Meets { .. }, Verdict::Holds) => terminals::MEETS,
            (_, verdict) => verdict.word(),
        }
    }

    /// The run that the answer rests on.
    fn confirmed(&self) -> Option<&Run> {
        let last = self.tried.last().filter(|tried| tried.stage == Stage::Confirm)?;
        matches!(last.reading, Reading::Holds | Reading::TooFew(_))
            .then(|| self.runs.last())
            .flatten()
    }

    fn text(&self, target: &Target) -> String {
        let mut text = sentence(&format!("{}, on {}", self.headline(), target.name()));
        text += &format!("\n{}\n", self.curve());
        for (nth, tried) in self.tried.iter().enumerate() {
            let rules = match &tried.reading {
                Reading::Fails(rules) | Reading::TooFew(rules) => rules.as_slice(),
                Reading::Invalid(why) | Reading::Broken(why) => std::slice::from_ref(why),
                Reading::Holds | Reading::Interrupted => continue,
            };
            let word = says(&tried.reading);
            let first = rules.first().map_or("", String::as_str);
            let more = rules.len().saturating_sub(1);
            let more = if more == 0 { String::new() } else { format!("; and {more} more") };
            let size = of(tried.warehouses);
            text += &paragraph(&format!("{}. {size}, {word}: {first}{more}", nth + 1));
        }
        text += &paragraph(
            "A size is ruled out by two probes that fail, and one that sees too few to tell counts as \
             neither. Probes are asked about answers, response times, rate and steadiness; the \
             confirmation about every rule.",
        );
        if self.confirmed().is_some() {
            text += &paragraph(&format!("Deviations: {}.", self.deviations().join("; ")));
        }
        text += &paragraph(&format!(
            "All trials ran on one load, whose tables have grown by {} orders meanwhile. Deliveries \
             take as many orders as New-Orders bring but for the 1 % that are rolled back, so that \
             those undelivered last.",
            self.runs.iter().map(entered).sum::<u64>(),
        ));
        text + &paragraph(NOT_AUDITED)
    }

    /// Deviations from the specification of the run that the answer rests on.
    fn deviations(&self) -> Vec<String> {
        let Some(run) = self.confirmed() else { return Vec::new() };
        let mut found = run.judged.deviations.clone();
        let (active, loaded) = (run.kept.record.plan.warehouses, self.plan.max);
        if active < loaded {
            found.push(format!("{active} of {loaded} loaded warehouses were active"));
        }
        found
    }

    fn headline(&self) -> String {
        let rate = self.confirmed().map_or(String::new(), |run| terminals::per_minute(&run.judged));
        let hold = |warehouses: u32, above: Above| {
            let least = if above == Above::NotTried { "at least " } else { "" };
            format!("{least}{} hold", of(warehouses))
        };
        // Of what was too short or saw too few nothing is claimed.
        let untold = |warehouses: u32| format!("{} violated no rule", of(warehouses));
        let known = |above: Above| match above {
            Above::NotTried => String::new(),
            Above::Fails(size) => format!(", {size} are too many"),
            Above::Undecided(size) => format!(", of {size} it could not be told"),
        };
        match &self.answer {
            Answer::Qualifies { warehouses, above } => {
                let hold = hold(*warehouses, *above);
                format!("{}: {hold}, {rate}{}", terminals::QUALIFIED, known(*above))
            }
            Answer::Meets { warehouses, minutes, above } => {
                let (meets, hold) = (terminals::meets(*minutes), hold(*warehouses, *above));
                format!("{meets}: {hold}, {rate}{}", known(*above))
            }
            Answer::TooFew { warehouses, above, .. } => {
                format!("too few to tell: {}, {rate}{}", untold(*warehouses), known(*above))
            }
            Answer::TooShort { warehouses, above } => {
                format!("too short to tell: {}, {rate}{}", untold(*warehouses), known(*above))
            }
            Answer::None => "deviates: 1 warehouse does, the least there is".into(),
            Answer::Inconclusive(why) => format!("inconclusive: {why}"),
            Answer::Invalid(why) => format!("invalid: {why}"),
            Answer::Interrupted => {
                let (low, above) = self.plan.known(&self.tried);
                let (trials, known) = (self.tried.len(), known(above));
                let low = if low == 0 { "none".into() } else { of(low) };
                format!("interrupted: in trial {trials}; so far {low} held{known}")
            }
        }
    }

    fn curve(&self) -> Table {
        let head = [
            "trial",
            "warehouses",
            "stage",
            "measured",
            "new orders/min",
            "each",
            "NO p90",
            "says",
        ];
        let mut table = Table::new(&head);
        for (nth, (tried, run)) in self.tried.iter().zip(&self.runs).enumerate() {
            let (record, estimate) = (&run.kept.record, &run.judged.new_orders_per_minute);
            table.row(vec![
                (nth + 1).to_string(),
                tried.warehouses.to_string(),
                word_of(tried.stage).into(),
                format!("{:.0} s", record.measured_s),
                plus_minus(estimate, 1),
                format!("{:.2}", estimate.mean / f64::from(tried.warehouses)),
                time(record.of(Kind::NewOrder).response.quantile(0.9).as_secs_f64()),
                says(&tried.reading).into(),
            ]);
        }
        table
    }

    /// The search with what was found beside it.
    fn answer<'a>(
        &'a self,
        verified: Option<bool>,
        report: Option<&'a Path>,
        (seed, postgres): (u64, &'a str),
    ) -> SearchAnswer<'a> {
        let trial = |(tried, run): (&'a Tried, &'a Run)| {
            let record = &run.kept.record;
            let p90 = |kind: Kind| record.of(kind).response.quantile(0.9).as_secs_f64();
            TrialAnswer {
                warehouses: tried.warehouses,
                stage: tried.stage,
                seed: record.plan.seed,
                measured_s: record.measured_s,
                reading: &tried.reading,
                outcome: &run.judged.outcome,
                new_orders_per_minute: run.judged.new_orders_per_minute,
                per_warehouse: record.new_orders_per_minute() / f64::from(tried.warehouses),
                response_p90_s: Kind::ALL.map(|kind| (kind.name(), p90(kind))).into(),
                record: &run.kept.path,
            }
        };
        SearchAnswer {
            answer: &self.answer,
            max_warehouses: self.plan.max,
            probe_s: self.plan.probe.as_secs_f64(),
            confirm_s: self.plan.confirm.as_secs_f64(),
            new_orders_per_minute: self.confirmed().map(|run| run.judged.new_orders_per_minute),
            deviations: self.deviations(),
            trials: self.tried.iter().zip(&self.runs).map(trial).collect(),
            not_audited: NOT_AUDITED,
            verified,
            report,
            seed,
            postgres,
        }
    }

    /// Writes the curve as a page, with the verdict of the search and not of its worst trial; where it
    /// is.
    fn report(
        &self,
        verdict: Verdict,
        found: Option<&Verified>,
        path: &Path,
    ) -> Result<PathBuf, Failure> {
        let headline = self.headline();
        // The page says these words itself.
        let line = headline.strip_prefix(&format!("{}: ", verdict.word())).unwrap_or(&headline);
        let verified = verified_text(found);
        let verified = verified.split_whitespace().collect::<Vec<_>>().join(" ");
        page_as(&self.runs, verdict, line)?.lead(verified).write(path).map_err(Failure::machine)?;
        Ok(path.to_owned())
    }

    fn next_command(&self, room: Option<u32>) -> String {
        let max = self.plan.max;
        match &self.answer {
            Answer::Qualifies { above: Above::NotTried, .. }
            | Answer::Meets { above: Above::NotTried, .. } => {
                terminals::find_next(room, max.saturating_mul(2))
            }
            Answer::Qualifies { warehouses, .. }
            | Answer::Meets { warehouses, .. }
            | Answer::TooFew { warehouses, .. } => {
                format!("sekisho tpcc run --warehouses {warehouses} --measure 2h")
            }
            Answer::None => "sekisho tpcc tune".into(),
            Answer::TooShort { warehouses, .. } => {
                format!("sekisho tpcc run --warehouses {warehouses} --measure 10min")
            }
            Answer::Inconclusive(_) => {
                let longer = self.plan.probe.as_secs().max(60) * 2;
                format!("sekisho tpcc find --max-warehouses {max} --probe {longer}s")
            }
            Answer::Invalid(_) | Answer::Interrupted => {
                format!("sekisho tpcc find --max-warehouses {max}")
            }
        }
    }
}

fn of(warehouses: u32) -> String {
    format!("{warehouses} warehouse{}", if warehouses == 1 { "" } else { "s" })
}

/// The orders that a run has entered, its ramp included; by what it counts, those rolled back too.
fn entered(run: &Run) -> u64 {
    run.kept.record.new_orders.iter().sum()
}

fn word_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Probe => "probe",
        Stage::Confirm => "confirm",
    }
}

fn says(reading: &Reading) -> &'static str {
    match reading {
        Reading::Holds => "holds",
        Reading::Fails(_) => "fails",
        Reading::TooFew(_) => "too few",
        Reading::Invalid(_) => "invalid",
        Reading::Broken(_) => "broken",
        Reading::Interrupted => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_cannot_tell_are_said_to_before_they_begin() {
        let said = |seconds| too_short(Duration::from_secs(seconds));
        assert_eq!(said(120), None);
        assert_eq!(said(100), None);
        assert!(said(50).is_some_and(|note| note.contains("repeated for longer")));
        assert!(said(5).is_some_and(|note| note.contains("will not be decided")));
    }
}
