//! `sekisho tpcc acid`: the tests of atomicity and isolation of clause 3.

use std::io::Write;

use ::tpcc::{
    AcidError, AcidFinding, AcidPlan, AcidTest, Execution, Isolation, RunError, Trial, acid,
};
use clap::Args as ClapArgs;
use cli::json::{Answer, Interrupted};
use cli::text::{filled, paragraph, sentence};
use cli::{Failure, Session, Verdict, progress, say, store};
use schemars::JsonSchema;
use serde::Serialize;

use super::target::Target;
use super::terminals::{ExecuteName, IsolationName};
use super::verified::{Verified, and_verified, verified_text};
use databases::DatabaseArgs;
use databases::PrivateArgs;

/// Interleave transactions, and check whether they are kept apart
///
/// Two tests of atomicity and nine of isolation, as clause 3 describes them: a transaction of the
/// product is stopped before its end, another one is let in, and what both show and what the rows
/// hold is compared with what the level promises. Waiting is seen in the server's locks. With no
/// database named, a private PostgreSQL is started, loaded, and removed at the end.
#[derive(ClapArgs)]
#[command(after_help = "\
A transaction that the server runs is stopped before its end like any other, but
not before its own rollback: there a row that a third session holds stops it.
Nobody else may work in the database meanwhile. Transactions commit as those of
a run do; two prices and a district's rows of NEW-ORDER are changed and put
back, and the consistency conditions are verified at the end. Were this program
killed in between, `tpcc verify` would name what is missing. READ COMMITTED
shows three anomalies, which are told and expected. Exit code 3: a test fails.

Examples:
  sekisho tpcc acid
  sekisho tpcc acid --isolation read-committed,serializable --execute functions
  sekisho tpcc acid --db \"$DATABASE_URL\" --json")]
pub(super) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    private: PrivateArgs,
    /// Who runs a transaction: the client, functions of the server, or one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sql")]
    execute: Vec<ExecuteName>,
    /// Isolation of the sessions; several, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "repeatable-read")]
    isolation: Vec<IsolationName>,
    /// Which districts, customers and items are tested follows from it; left out, it is drawn and told
    #[arg(long, value_name = "N", default_value_t = store::drawn_seed(), hide_default_value = true)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// All tests at one level, in one mode.
struct Suite {
    plan: AcidPlan,
    trials: Vec<Trial>,
}

impl Suite {
    fn findings(&self) -> impl Iterator<Item = AcidFinding> {
        self.trials.iter().map(|trial| trial.finding(self.plan.isolation))
    }
}

pub(super) fn run(args: &Args, session: &Session, out: &mut dyn Write) -> Result<Verdict, Failure> {
    session.catch_interrupts()?;
    let Some(target) = Target::open(&args.database, &args.private, (1, args.seed), session)? else {
        return interrupted(args, out, "before the first test");
    };
    let mut suites = Vec::new();
    for isolation in args.isolation.iter().map(|name| name.isolation()) {
        for execution in args.execute.iter().map(|name| name.execution()) {
            let plan = AcidPlan { execution, isolation, seed: args.seed };
            let bar = progress(AcidTest::ALL.len() as u64, isolation.name());
            let trials = acid(&target.config, &plan, &session.interrupt, &mut |done| {
                bar.set_position(done as u64);
            });
            bar.finish_and_clear();
            match trials {
                Ok(trials) => suites.push(Suite { plan, trials }),
                Err(error @ AcidError::Interrupted) => {
                    target.close()?;
                    return interrupted(args, out, &error.to_string());
                }
                Err(error) => return Err(failure(error)),
            }
        }
    }
    let found = Verified::of(&target, session)?;
    let verdict = verdict_of(&suites, found.as_ref());
    if args.json {
        let answer = Tested {
            postgres: target.version(),
            suites: suites.iter().map(SuiteAnswer::from).collect(),
            verified: found.as_ref().map(Verified::holds),
        };
        say(out, &cli::json::answer(verdict, verdict.word(), &answer))?;
    } else {
        say(out, &text(args, &suites, found.as_ref(), verdict, &target))?;
    }
    target.close()?;
    Ok(verdict)
}

fn interrupted(args: &Args, out: &mut dyn Write, when: &str) -> Result<Verdict, Failure> {
    let verdict = Verdict::Interrupted;
    let text = match args.json {
        true => Interrupted::default().line(),
        false => sentence(&format!("interrupted: {}", when.trim_start_matches("interrupted: "))),
    };
    say(out, &text)?;
    Ok(verdict)
}

fn verdict_of(suites: &[Suite], found: Option<&Verified>) -> Verdict {
    let fails = |finding| finding == AcidFinding::Fails;
    let verdict = match suites.iter().flat_map(Suite::findings).any(fails) {
        true => Verdict::Fails,
        false => Verdict::Holds,
    };
    and_verified(verdict, found)
}

fn text(
    args: &Args,
    suites: &[Suite],
    found: Option<&Verified>,
    verdict: Verdict,
    target: &Target,
) -> String {
    let all = suites.iter().flat_map(Suite::findings);
    let (mut tests, mut failed, mut odd) = (0, 0, 0);
    for finding in all {
        tests += 1;
        match finding {
            AcidFinding::Holds => {}
            AcidFinding::Anomaly(_) => odd += 1,
            AcidFinding::Fails => failed += 1,
        }
    }
    let count = match failed {
        0 => format!("all {tests} tests of atomicity and isolation"),
        _ => format!("{failed} of {tests} tests of atomicity and isolation"),
    };
    let levels: Vec<_> = args.isolation.iter().map(|name| name.isolation().name()).collect();
    let allowed = match odd {
        0 => String::new(),
        _ => format!(", {odd} of them with an anomaly that read committed allows"),
    };
    let mut text = sentence(&format!(
        "{}: {count}, {}, at {}{allowed}",
        verdict.word(),
        target.name(),
        levels.join(", ")
    ));
    for suite in suites {
        text += &format!("\n{}", paragraph(&format!("At {}:", name(&suite.plan))));
        for trial in &suite.trials {
            text += &trial_text(trial, suite.plan.isolation);
        }
    }
    text += "\n";
    text += &verified_text(found);
    if odd > 0 {
        text += &paragraph(
            "Clause 3.4.1 forbids these anomalies. The transactions read each of these rows once, so \
             that what they store is right; but a run at this level is a listed deviation.",
        );
    }
    let command = match args.isolation[..] {
        [IsolationName::RepeatableRead] => {
            args.database.again("sekisho tpcc acid --isolation read-committed")
        }
        // It kills its server, and takes none that is named.
        _ => "sekisho tpcc crash".to_owned(),
    };
    text += &paragraph(&format!("Seed {}.", args.seed));
    text + &args.database.next_line(&command)
}

/// A level and a mode, in words.
fn name(plan: &AcidPlan) -> String {
    let mode = match plan.execution {
        Execution::Sql => "statements of the client",
        Execution::Functions => "functions of the server",
    };
    format!("{}, {mode}", plan.isolation.name())
}

fn trial_text(trial: &Trial, level: Isolation) -> String {
    let finding = match trial.finding(level) {
        AcidFinding::Holds => "holds".to_owned(),
        AcidFinding::Anomaly(anomaly) => format!("shows a {anomaly}, as {} may", level.name()),
        AcidFinding::Fails => "fails".to_owned(),
    };
    let test = trial.test;
    let head = format!("{} (clause {}) {finding}: {}.", test.name(), test.clause(), test.steps());
    let mut text = filled("  ", "    ", &head);
    for seen in &trial.observations {
        let (what, expected) = (&seen.what, seen.expected_at(level));
        let line = match seen.finding(level) {
            AcidFinding::Fails => format!("{what}: {}; EXPECTED {expected}", seen.seen),
            AcidFinding::Anomaly(anomaly) => format!("{what}: {} ({anomaly})", seen.seen),
            AcidFinding::Holds => format!("{what}: {}", seen.seen),
        };
        text += &filled("      ", "        ", &line);
    }
    text
}

/// Tests of atomicity and isolation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tested<'a> {
    /// Version of the PostgreSQL.
    postgres: &'a str,
    /// The suites: atomicity and each isolation level.
    suites: Vec<SuiteAnswer<'a>>,
    /// True if the conditions of the database hold afterwards; none where they were not looked at.
    verified: Option<bool>,
}

impl Answer for Tested<'_> {
    const FORMAT: &'static str = "sekisho/tpcc-acid/1";
}

/// All tests with one execution and one isolation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Suite")]
struct SuiteAnswer<'a> {
    execute: Execution,
    isolation: Isolation,
    /// Seed of all that was drawn.
    seed: u64,
    /// The tests.
    tests: Vec<TestAnswer<'a>>,
}

/// A test of the specification.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Test")]
struct TestAnswer<'a> {
    /// Its name.
    name: &'static str,
    /// Clause of the specification.
    clause: &'static str,
    /// Statements of the sessions, in their order.
    steps: &'static str,
    /// Finding.
    finding: FindingWord,
    /// Observations.
    observations: Vec<ObservationAnswer<'a>>,
}

/// A value that a test saw.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Observation")]
struct ObservationAnswer<'a> {
    /// Fact that is looked at.
    what: &'a str,
    /// Value that is expected.
    expected: &'a str,
    /// Value that was seen.
    seen: &'a str,
    /// Finding.
    finding: FindingWord,
}

/// Finding of a test.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "TestFinding")]
enum FindingWord {
    Holds,
    /// An anomaly that the isolation allows.
    Anomaly,
    Fails,
}

impl From<AcidFinding> for FindingWord {
    fn from(finding: AcidFinding) -> FindingWord {
        match finding {
            AcidFinding::Holds => FindingWord::Holds,
            AcidFinding::Anomaly(_) => FindingWord::Anomaly,
            AcidFinding::Fails => FindingWord::Fails,
        }
    }
}

impl<'a> From<&'a Suite> for SuiteAnswer<'a> {
    fn from(suite: &'a Suite) -> SuiteAnswer<'a> {
        let AcidPlan { execution, isolation, seed } = suite.plan;
        let seen = |seen: &'a ::tpcc::Observation| ObservationAnswer {
            what: &seen.what,
            expected: seen.expected_at(isolation),
            seen: &seen.seen,
            finding: seen.finding(isolation).into(),
        };
        let test = |trial: &'a Trial| TestAnswer {
            name: trial.test.name(),
            clause: trial.test.clause(),
            steps: trial.test.steps(),
            finding: trial.finding(isolation).into(),
            observations: trial.observations.iter().map(seen).collect(),
        };
        let tests = suite.trials.iter().map(test).collect();
        SuiteAnswer { execute: execution, isolation, seed, tests }
    }
}

/// Failure that the user can mend, or one that they cannot.
fn failure(error: AcidError) -> Failure {
    match error {
        AcidError::Begin(RunError::Machine(_))
        | AcidError::Transaction { .. }
        | AcidError::NotUndone { .. } => Failure::machine(error),
        _ => Failure::usage(error),
    }
}
