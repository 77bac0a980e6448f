//! The steps of `check` and `test`: each with a heading, its time, and the command that repeats it; at
//! the end one line that CI reads.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::background::{self, Done, Task};
use crate::exec;
use crate::processor::Took;
use crate::{Stop, drivers, programs, supply, tidy, web};

/// A step that is one call of cargo.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    /// An environment variable that it needs.
    env: Option<(&'static str, &'static str)>,
}

const FORMAT: Step = Step { name: "format", args: &["fmt", "--all", "--check"], env: None };
const CLIPPY: Step = Step {
    name: "clippy",
    args: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    env: None,
};
const BUILD: Step =
    Step { name: "build the tests", args: &["test", "--workspace", "--no-run"], env: None };
/// Most tests wait, for servers, clients and moments, so more of them run at once than two processors
/// could compute; a fixed number, so that a failure can be repeated as it was. Of these programs
/// [several](programs) run at the same time.
const TESTS: Step = Step {
    name: "tests",
    args: &["test", "--workspace", "--no-fail-fast"],
    env: Some(("RUST_TEST_THREADS", "3")),
};
/// The long suite builds what is off by default too.
const LONG_CLIPPY: Step = Step {
    name: "clippy",
    args: &[
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        OPTIONAL,
        "--",
        "-D",
        "warnings",
    ],
    env: None,
};
const LONG_BUILD: Step = Step {
    name: "build the tests",
    args: &["test", "--workspace", "--features", OPTIONAL, "--no-run"],
    env: None,
};
const LONG_TESTS: Step = Step {
    name: "tests",
    args: &["test", "--workspace", "--features", OPTIONAL, "--no-fail-fast"],
    env: TESTS.env,
};
/// The features that are off by default.
const OPTIONAL: &str = "sekisho/parquet,sekisho/cassandra,sekisho/wasm";
/// The variable that asks the tests for all of their seeds, tables and crashes, and for soaks of so many
/// seconds each.
const LONG: (&str, &str) = ("SEKISHO_LONG", "120");
const DOCUMENTS: Step = Step {
    name: "documentation",
    args: &["doc", "--workspace", "--no-deps", "--keep-going"],
    env: Some(("RUSTDOCFLAGS", "-Dwarnings")),
};
impl Step {
    fn command(&self, root: &Path) -> Command {
        let mut command = exec::cargo(root, self.args);
        command.envs(self.env);
        command
    }

    fn task(&self, root: &Path) -> Task {
        Task { name: self.name, line: self.line(), command: self.command(root) }
    }

    /// What a person types to repeat it.
    fn line(&self) -> String {
        let env = self.env.map(|(name, value)| format!("{name}={value} ")).unwrap_or_default();
        format!("{env}cargo {}", self.args.join(" "))
    }
}

/// What to do before every commit: nothing is installed but the compiler's library for the browser,
/// without which the tests of the sliders would have no module.
pub(crate) fn check(root: &Path) -> Result<(), Stop> {
    let mut pipeline = Pipeline::new(root);
    pipeline.cargo(&FORMAT);
    pipeline.own("tidy", tidy::run);
    pipeline.own("web", web::build);
    pipeline.cargo(&CLIPPY);
    if pipeline.build() {
        pipeline.tests();
    }
    pipeline.end()
}

/// The share of the tests' work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The suite of CI: a bounded share of seeds, tables and crashes.
    Short,
    /// All of it, soaks and optional features too.
    Long,
}

/// Everything that a suite runs.
pub(crate) fn test(root: &Path, suite: Suite) -> Result<(), Stop> {
    let mut pipeline = Pipeline::new(root);
    pipeline.suite = suite;
    pipeline.cargo(&FORMAT);
    pipeline.own("tidy", tidy::run);
    pipeline.own("supply", supply::run);
    let is_built = pipeline.build();
    // The package of Python is built in a folder of its own. It comes first, so that the others do not hold
    // the folder of the tests when the tests in documents look into it.
    let background = background::start(vec![
        pipeline.own_task("python", &["python"]),
        pipeline.own_task("web --check", &["web", "--check"]),
        pipeline.of_suite(&CLIPPY, &LONG_CLIPPY).task(root),
        DOCUMENTS.task(root),
    ]);
    if is_built {
        pipeline.tests();
    }
    let ended = background.join().expect("it only starts commands");
    ended.into_iter().for_each(|done| pipeline.done(done));
    pipeline.drivers();
    pipeline.end()
}

/// Counts of one or more runs of cargo's test harness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Adds the counts of a line `test result: ok. 3 passed; 0 failed; 0 ignored; ...`; other lines
    /// count nothing.
    fn read(&mut self, line: &str) {
        let plain = without_colours(line);
        let Some((_, counts)) =
            plain.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// So many failed tests have passed when they were run again.
    fn excuse(&mut self, unsteady: u64) {
        self.failed = self.failed.checked_sub(unsteady).expect("only failed tests are run again");
        self.passed += unsteady;
    }
}

/// A line as it looks on a terminal without colours.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.get(1..).unwrap_or_default();
    }
    plain + rest
}

/// Steps in a row. A step that fails does not stop the next: one run shows all that is wrong.
struct Pipeline<'a> {
    root: &'a Path,
    suite: Suite,
    tally: Tally,
    /// Steps that have failed because tests have.
    of_tests: usize,
    /// The failed steps: name and the command that repeats each.
    failures: Vec<(String, String)>,
    /// Tests that failed, and those that passed when they were run again alone.
    of_programs: programs::Ran,
}

impl<'a> Pipeline<'a> {
    fn new(root: &'a Path) -> Pipeline<'a> {
        let suite = Suite::Short;
        Pipeline {
            root,
            suite,
            tally: Tally::default(),
            of_tests: 0,
            failures: Vec::new(),
            of_programs: programs::Ran::default(),
        }
    }

    /// A step of the suite, which has one of its own where it is the long one.
    fn of_suite(&self, short: &'static Step, long: &'static Step) -> &'static Step {
        match self.suite {
            Suite::Short => short,
            Suite::Long => long,
        }
    }

    /// Runs one step; is it well?
    fn step(&mut self, name: &str, line: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        self.timed(name, line, || exec::Ended { result: work(), processor: None })
    }

    fn timed(&mut self, name: &str, line: &str, work: impl FnOnce() -> exec::Ended) -> bool {
        println!("\n=== {name}: {line}");
        let begun = Instant::now();
        let exec::Ended { result, processor } = work();
        self.end_step(name, line, Took { time: begun.elapsed(), processor }, result)
    }

    /// A step that was run beside others is told as if it had been run now.
    fn done(&mut self, done: Done) {
        println!("\n=== {}: {}", done.name, done.line);
        done.said.iter().for_each(|line| println!("{line}"));
        self.end_step(done.name, &done.line, done.took, done.result);
    }

    fn end_step(&mut self, name: &str, line: &str, took: Took, result: Result<(), String>) -> bool {
        match result {
            Ok(()) => {
                println!("--- {name}: ok, {took}");
                true
            }
            Err(report) => {
                println!("{report}\n--- {name}: FAILED, {took}; to repeat it: {line}");
                self.failures.push((name.to_owned(), line.to_owned()));
                false
            }
        }
    }

    fn own(&mut self, name: &str, check: fn(&Path) -> Result<(), String>) {
        let root = self.root;
        self.step(name, &format!("cargo xtask {name}"), || check(root));
    }

    fn cargo(&mut self, step: &Step) -> bool {
        let mut command = step.command(self.root);
        self.timed(step.name, &step.line(), || {
            exec::attend(&mut command, exec::SILENCE_MAX, &mut |line| println!("{line}"))
        })
    }

    /// Builds the tests, apart from running them, so that the times are told apart.
    fn build(&mut self) -> bool {
        self.cargo(self.of_suite(&BUILD, &LONG_BUILD))
    }

    /// This program once more, with other words.
    fn own_task(&self, name: &'static str, words: &[&str]) -> Task {
        let mut command = Command::new(env::current_exe().expect("it runs"));
        command.args(words).current_dir(self.root);
        Task { name, line: format!("cargo xtask {}", words.join(" ")), command }
    }

    /// Runs the tests, which are built.
    fn tests(&mut self) {
        let mut tally = Tally::default();
        let tests = self.of_suite(&TESTS, &LONG_TESTS);
        let (mut envs, mut line) = (Vec::from_iter(tests.env), tests.line());
        if self.suite == Suite::Long {
            envs.push(LONG);
            line = format!("{}={} {line}", LONG.0, LONG.1);
        }
        let (root, mut of_programs) = (self.root, programs::Ran::default());
        self.step(tests.name, &line, || {
            of_programs = programs::run(root, tests.args, &envs, &mut |line| {
                tally.read(line);
                println!("{line}");
            })?;
            tally.excuse(of_programs.unsteady.len() as u64);
            print!("{}", costs(&of_programs.took));
            match of_programs.reports.is_empty() {
                true => judge(tally),
                false => Err(of_programs.reports.join("\n")),
            }
        });
        self.of_programs = of_programs;
        self.count(tally);
    }

    /// The tests that need programs of other languages, which are installed first.
    fn drivers(&mut self) {
        let (mut tally, root) = (Tally::default(), self.root);
        self.step("drivers", "cargo xtask drivers", || {
            drivers::run(root, &mut |line| {
                tally.read(line);
                println!("{line}");
            })?;
            judge(tally)
        });
        self.count(tally);
    }

    /// Counts the tests of a step.
    fn count(&mut self, tally: Tally) {
        self.of_tests += usize::from(tally.failed > 0);
        self.tally.passed += tally.passed;
        self.tally.failed += tally.failed;
        self.tally.ignored += tally.ignored;
    }

    /// Prints what failed, then the line that CI reads, alone and last.
    fn end(self) -> Result<(), Stop> {
        println!();
        for (word, failures) in
            [("unsteady", &self.of_programs.unsteady), ("failed", &self.of_programs.failed)]
        {
            failures.iter().for_each(|failure| print!("{}", told(word, failure)));
        }
        for (name, line) in &self.failures {
            println!("failed: {name}; to repeat it: {line}");
        }
        println!("{}", self.verdict());
        if self.failures.is_empty() { Ok(()) } else { Err(Stop::Failed) }
    }

    /// The tests that passed and failed. A failed step without a failed test counts as one, so that
    /// "0 failed" always means that all is well.
    fn verdict(&self) -> String {
        let steps = (self.failures.len().saturating_sub(self.of_tests)) as u64;
        format!("{} passed, {} failed", self.tally.passed, self.tally.failed + steps)
    }
}

/// The programs of tests that took the most, by processor time where the system tells it.
fn costs(took: &[(String, Took)]) -> String {
    let mut took: Vec<&(String, Took)> = took.iter().collect();
    took.sort_by_key(|(_, took)| std::cmp::Reverse((took.processor, took.time)));
    let known: Duration = took.iter().filter_map(|(_, took)| took.processor).sum();
    let mut text =
        format!("\nprograms of tests by processor time, {:.1} s in all:\n", known.as_secs_f64());
    for (name, took) in took.iter().take(COSTS_MAX) {
        text += &format!("    {name}: {took}\n");
    }
    text
}

/// Programs whose cost is printed.
const COSTS_MAX: usize = 20;

/// A failed test once more, with the end of its output: of thousands of lines these are the ones to read.
fn told(word: &str, failure: &programs::Failure) -> String {
    let how = if word == "unsteady" { " (it passed when it was run again alone)" } else { "" };
    let mut text = format!("{word}: {} of {}{how}\n", failure.test, failure.source);
    let hidden = failure.said.len().saturating_sub(SAID_MAX);
    if hidden > 0 {
        text += &format!("    ({hidden} lines more above)\n");
    }
    for line in &failure.said[hidden..] {
        text += &format!("    {line}\n");
    }
    text
}

/// Lines of a failed test that are printed again at the end.
const SAID_MAX: usize = 40;

/// Did the tests run, all of them?
fn judge(tally: Tally) -> Result<(), String> {
    match tally {
        Tally { ignored: 1.., .. } => Err(format!(
            "{} tests were ignored; no test is skipped: mend or remove them",
            tally.ignored
        )),
        Tally { passed: 0, .. } => Err("no test ran".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn results_are_summed_over_binaries() {
        let found = tally(&[
            "running 4 tests",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s",
            "the test result: ok. 99 passed; 9 failed",
            "test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: \u{1b}[32mok\u{1b}[m. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!(found, Tally { passed: 18, failed: 2, ignored: 1 });
    }

    #[test]
    fn an_ignored_test_or_none_at_all_is_a_failure() {
        assert_eq!(judge(Tally { passed: 3, failed: 0, ignored: 0 }), Ok(()));
        assert!(judge(Tally { passed: 3, failed: 0, ignored: 1 }).is_err());
        assert!(judge(Tally::default()).is_err());
    }

    #[test]
    fn the_verdict_counts_failed_steps_that_are_no_tests() {
        let root = Path::new(".");
        let mut pipeline = Pipeline::new(root);
        pipeline.count(Tally { passed: 4, failed: 0, ignored: 0 });
        pipeline.count(Tally { passed: 3, failed: 0, ignored: 0 });
        assert_eq!(pipeline.verdict(), "7 passed, 0 failed");
        assert!(pipeline.step("good", "true", || Ok(())));
        assert_eq!(pipeline.verdict(), "7 passed, 0 failed");
        assert!(!pipeline.step("bad", "false", || Err("cause".to_owned())));
        assert_eq!(pipeline.verdict(), "7 passed, 1 failed");
        assert_eq!(pipeline.failures, [("bad".to_owned(), "false".to_owned())]);
        assert!(!pipeline.step("tests", "false", || Err("two failed".to_owned())));
        pipeline.count(Tally { passed: 1, failed: 2, ignored: 0 });
        assert_eq!(pipeline.verdict(), "8 passed, 3 failed", "two tests and a step");
        assert!(pipeline.end().is_err());
    }

    #[test]
    fn what_passed_when_it_was_run_again_counts_as_passed_and_is_told_with_its_output() {
        let mut counted = Tally { passed: 3, failed: 2, ignored: 0 };
        counted.excuse(1);
        assert_eq!(counted, Tally { passed: 4, failed: 1, ignored: 0 });
        let said = (1..=SAID_MAX + 2).map(|number| format!("line {number}")).collect();
        let failure =
            programs::Failure { source: "it".to_owned(), test: "part::late".to_owned(), said };
        let text = told("unsteady", &failure);
        let start = "unsteady: part::late of it (it passed when it was run again alone)\n    \
                     (2 lines more above)\n    line 3\n";
        assert!(text.starts_with(start) && text.ends_with("    line 42\n"), "{text}");
        assert!(!told("failed", &failure).contains("again alone"));
    }

    #[test]
    fn programs_are_told_by_their_processor_time() {
        let took = |seconds: u64, processor: u64| Took {
            time: Duration::from_secs(seconds),
            processor: Some(Duration::from_millis(processor)),
        };
        let all = [("waits".to_owned(), took(90, 500)), ("computes".to_owned(), took(30, 29_000))];
        let text = costs(&all);
        let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "programs of tests by processor time, 29.5 s in all:",
                "computes: 30.0 s, of processors 29.0 s",
                "waits: 90.0 s, of processors 0.5 s"
            ]
        );
    }

    #[test]
    fn a_step_is_printed_as_one_would_type_it() {
        assert_eq!(
            DOCUMENTS.line(),
            "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --keep-going"
        );
    }
}
