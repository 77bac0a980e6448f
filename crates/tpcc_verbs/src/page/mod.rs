//! The page of TPC-C runs: verdict first, then what repeats the run, then the figures and tables that
//! the specification asks of a report (8.1.6). Several runs become curves against what they vary.

mod one;
mod several;
mod times;

use ::tpcc::{Execution, NOT_AUDITED, Outcome, Pace, Record};
use cli::text::count;
use cli::{Failure, Verdict};
use report::{self, FigureError, Report, TableError};
use workload::tpcc::Constants;

use super::kept::Kept;
use super::terminals::{outcome_text, per_minute, verdict_of};
use super::verified::and_verified;

/// A run that was kept, and what became of it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) kept: Kept,
    pub(super) judged: ::tpcc::Verdict,
}

impl Run {
    pub(super) fn new(kept: Kept) -> Run {
        Run { judged: kept.record.judge(), kept }
    }

    /// Verdict of a command that made this run.
    pub(super) fn verdict(&self) -> Verdict {
        and_verified(verdict_of(&self.judged.outcome), self.kept.verified.as_ref())
    }

    /// True if what was measured is what was asked for, to its end.
    fn is_whole(&self) -> bool {
        let outcome = &self.judged.outcome;
        !matches!(outcome, Outcome::Invalid(_) | Outcome::Interrupted | Outcome::Part(_))
    }
}

/// A figure or a table that cannot be drawn.
#[derive(Debug)]
struct Broken(String);

impl From<FigureError> for Broken {
    fn from(error: FigureError) -> Broken {
        Broken(error.to_string())
    }
}

impl From<TableError> for Broken {
    fn from(error: TableError) -> Broken {
        Broken(error.to_string())
    }
}

/// Why runs do not belong on one page, if they do not; there is at least one.
pub(super) fn apart(runs: &[Run]) -> Result<(), Failure> {
    let [first, others @ ..] = runs else {
        return Err(Failure::Usage("a report needs a record".into()));
    };
    for other in others {
        let (path, other_path) = (first.kept.path.display(), other.kept.path.display());
        if first.kept.id == other.kept.id {
            let cause = format!("{path} and {other_path} are the same run; name it once");
            return Err(Failure::Usage(cause));
        }
        let (one, two) = (&first.kept.record.plan, &other.kept.record.plan);
        let differ = match () {
            () if one.pace != two.pace => "their terminals waited differently",
            () if one.execution != two.execution => {
                "one ran the client's statements and the other functions of the server"
            }
            () if one.isolation != two.isolation => "their isolation levels differ",
            () if one.pace == Pace::Stress && one.warehouses != two.warehouses => {
                "their warehouses differ, and runs without waits are drawn against connections"
            }
            () => continue,
        };
        return Err(Failure::Usage(format!(
            "{path} and {other_path} do not belong on one page: {differ}; make a report of each"
        )));
    }
    Ok(())
}

/// The page of runs that [belong together](apart), with the verdict of the worst.
pub(super) fn page(runs: &[Run]) -> Result<Report, Failure> {
    let verdict = runs.iter().map(Run::verdict).max().unwrap_or(Verdict::Invalid);
    page_as(runs, verdict, &headline(runs))
}

/// The same with the verdict and the finding of whoever made the runs.
pub(super) fn page_as(runs: &[Run], verdict: Verdict, line: &str) -> Result<Report, Failure> {
    let judged = |run: &Run| !matches!(run.judged.outcome, Outcome::NoWaits | Outcome::Hastened);
    let outcome = match verdict {
        // That nothing went wrong is no rule that holds.
        Verdict::Holds if !runs.iter().any(judged) => report::Outcome::Measured,
        verdict => verdict.into(),
    };
    let report = Report::new(title(runs)).verdict(outcome, line);
    let report = leads(report, runs);
    let built = match runs {
        [run] => one::build(report, run),
        runs => several::build(report, runs),
    };
    built.map_err(|Broken(error)| Failure::Defect(format!("the report: {error}")))
}

fn title(runs: &[Run]) -> String {
    let record = runs.first().map(|run| &run.kept.record);
    let server = record.map_or(String::new(), product);
    match record.map(|record| record.plan.pace) {
        Some(Pace::Stress) => format!("TPC-C-like load without waits: {server}"),
        _ => format!("TPC-C-like load: {server}"),
    }
}

/// The finding, in the words of `run` and `stress`.
pub(super) fn headline(runs: &[Run]) -> String {
    match runs {
        [run] => of_one(run),
        runs => several::headline(runs),
    }
}

fn of_one(run: &Run) -> String {
    let plan = &run.kept.record.plan;
    format!(
        "{}: {} at {}, {} terminals, {}",
        outcome_text(&run.judged.outcome),
        per_minute(&run.judged),
        count(plan.warehouses.into(), "warehouse"),
        plan.terminals(),
        count(plan.connections.into(), "connection"),
    )
}

/// Facts that must be known before a number is believed.
fn leads(mut report: Report, runs: &[Run]) -> Report {
    report = report.lead(NOT_AUDITED);
    for run in runs {
        let whose = match runs {
            [_] => String::new(),
            _ => format!("Run {}: ", run.kept.id),
        };
        if let Outcome::Invalid(why) = &run.judged.outcome {
            report = report.lead(format!("{whose}invalid: {why}."));
        }
        if let Outcome::Part(part) = &run.judged.outcome {
            report = report.lead(format!(
                "{whose}part {part} of a run: what its own terminals saw. The verdict is of the records \
                 of all parts, merged (`sekisho tpcc merge`)."
            ));
        }
        match &run.kept.verified {
            Some(found) if found.holds() => {}
            Some(found) => {
                let (failed, all) = (found.failed.len(), found.checks);
                report = report.lead(format!(
                    "{whose}afterwards {failed} of {all} checks of the database FAIL: the server or the \
                     terminals did something wrong, and no number of this run counts."
                ));
            }
            None => {}
        }
    }
    let verified: Vec<_> = runs.iter().filter_map(|run| run.kept.verified.as_ref()).collect();
    if verified.len() == runs.len() && verified.iter().all(|found| found.holds()) {
        let count = verified.first().map_or(0, |found| found.checks);
        report =
            report.lead(format!("Verified afterwards: all {count} checks of the database hold."));
    }
    report
}

/// Facts that repeat a run, except what `several` runs vary.
fn facts(mut report: Report, kept: &Kept) -> Report {
    let Kept { record, .. } = kept;
    let (plan, host, server) = (&record.plan, &record.host, &record.server);
    report = report.fact("seed", plan.seed.to_string(), "").fact(
        "seed of the load",
        server.load_seed.to_string(),
        "",
    );
    report = match server.c_load {
        load @ 0..=255 => report.fact("C-Load of C_LAST", load.to_string(), "").fact(
            "C-Run of C_LAST",
            Constants::for_run(plan.seed, load).last.to_string(),
            "",
        ),
        load => report.fact("C-Load of C_LAST", format!("{load}, which is none"), ""),
    };
    let execution = match plan.execution {
        Execution::Sql => "SQL of the client, pipelined",
        Execution::Functions => "PL/pgSQL functions",
    };
    let gib = host.memory_bytes as f64 / f64::from(1 << 30);
    report
        .fact("execution", execution, "")
        .fact("isolation", plan.isolation.name(), "")
        .fact("ramp-up", plan.ramp.as_secs_f64().to_string(), "s")
        .fact("interval as planned", plan.measure.as_secs_f64().to_string(), "s")
        .fact("server", server.version.clone(), "")
        .fact("connections speak", server.tls.clone().unwrap_or_else(|| "no TLS".into()), "")
        .fact(
            "host of the terminals",
            format!("{}, {} x {}, {gib:.1} GiB", host.kernel, host.cpus, host.cpu_model),
            "",
        )
}

/// The words of the command, the program without its folder.
fn command(kept: &Kept) -> String {
    let mut words = kept.command.iter();
    let program = words.next().map(|program| program.rsplit('/').next().unwrap_or(program));
    let words: Vec<&str> = program.into_iter().chain(words.map(String::as_str)).collect();
    format!("`{}`", words.join(" "))
}

/// The server and its release, of all that it says of itself.
fn product(record: &Record) -> String {
    let words: Vec<&str> = record.server.version.split(' ').take(2).collect();
    match words.join(" ") {
        name if name.is_empty() => "a server that did not say its name".into(),
        name => name,
    }
}
