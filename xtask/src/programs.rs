//! Test programs side by side. `cargo test` runs one after the other, and most of them wait: for servers,
//! clients and moments. Each is still run as cargo runs it: in the folder of its package, with its own
//! private servers.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::exec;
use crate::processor::Took;

/// Programs that run at the same time; a fixed number, so that a failure can be repeated as it was.
const SIDE_BY_SIDE: usize = 2;

/// A program of tests, as cargo has built it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    /// Folder of its package, in which it runs.
    package: PathBuf,
    /// Its source, by which a person knows it.
    source: String,
}

/// How many tests may fail beside others and pass alone. More of them are no chance.
const UNSTEADY_MAX: usize = 3;

/// A test that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Source of its program.
    pub(crate) source: String,
    pub(crate) test: String,
    /// Its output.
    pub(crate) said: Vec<String>,
}

/// The end of a run of all programs.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// A report for each program that failed, but for those whose every failed test passed alone.
    pub(crate) reports: Vec<String>,
    /// Tests that failed, and failed again where they were run again.
    pub(crate) failed: Vec<Failure>,
    /// Tests that failed beside others and passed alone.
    pub(crate) unsteady: Vec<Failure>,
    /// What each program took.
    pub(crate) took: Vec<(String, Took)>,
}

/// Runs all programs of tests that `cargo test ARGS` would run, several at a time and the largest first,
/// and beside them the tests in documents. The output of a program comes in one piece when it has ended.
///
/// The tests press live servers and share two processors, so that a machine with other work on it can make
/// one of thousands late. A few tests that fail are therefore run a second time, each with the machine to
/// itself. One that passes then is told as unsteady, with its output; it is not told as if it had passed at once.
///
/// # Errors
/// Cargo cannot list the programs.
pub(crate) fn run(
    root: &Path,
    args: &[&str],
    envs: &[(&str, &str)],
    hear: &mut dyn FnMut(&str),
) -> Result<Ran, String> {
    let mut programs = list(root, args)?;
    // The sizes of programs stand for their times: those that take longest must not begin last.
    programs.sort_by_key(|program| {
        std::cmp::Reverse(fs::metadata(&program.path).map_or(0, |file| file.len()))
    });
    let mut commands: Vec<(String, Command)> =
        programs.iter().map(|program| (program.source.clone(), program.command(root))).collect();
    // Cargo reads one crate after the other for these: last and alone they would leave all processors
    // but one idle. They take longer than most programs, and less long than the largest one.
    let documents = exec::cargo(root, &[args, &["--doc"]].concat());
    commands.insert(1, ("the documents".to_owned(), documents));
    let mut took = Vec::new();
    let ended = side_by_side(commands, envs, hear, &mut took);
    let again = |failure: &Failure| {
        let program = programs.iter().find(|program| program.source == failure.source)?;
        Some(passes_alone(program.alone(root, &failure.test), envs))
    };
    Ok(Ran { took, ..judge_again(ended, again) })
}

/// Does the test pass when it is run by itself? Its output goes to standard output.
fn passes_alone(mut command: Command, envs: &[(&str, &str)]) -> bool {
    println!("\n     Running again, alone: {command:?}");
    let command = command.envs(envs.iter().copied());
    let mut ran = false;
    let result = exec::listen(command, exec::SILENCE_MAX, &mut |line| {
        // No test at all would be well too.
        ran |= line.starts_with("test result: ok. 1 passed; 0 failed; 0 ignored");
        println!("{line}");
    });
    ran && result.is_ok()
}

/// Asks `again` of each failed test, unless there are too many, whether it passes alone. It has no answer
/// for tests that are no program's.
fn judge_again(ended: Vec<Failed>, again: impl Fn(&Failure) -> Option<bool>) -> Ran {
    let is_few = ended.iter().map(|failed| failed.tests.len()).sum::<usize>() <= UNSTEADY_MAX;
    let mut ran = Ran::default();
    for Failed { report, tests } in ended {
        // A program that ended badly without a failed test was killed, or has crashed.
        let mut is_well = !tests.is_empty();
        for failure in tests {
            if is_few && again(&failure) == Some(true) {
                ran.unsteady.push(failure);
            } else {
                is_well = false;
                ran.failed.push(failure);
            }
        }
        ran.reports.extend((!is_well).then_some(report));
    }
    ran
}

/// A program that ended badly.
#[derive(Debug)]
struct Failed {
    report: String,
    tests: Vec<Failure>,
}

/// The failed tests in the output of a program.
fn failures(source: &str, lines: &[String]) -> Vec<Failure> {
    let failed = lines.iter().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.strip_suffix(" - should panic").unwrap_or(name))
    });
    failed
        .map(|test| {
            let head = format!("---- {test} stdout ----");
            let after = lines.iter().skip_while(|line| **line != head).skip(1);
            let said = after.take_while(|line| !line.starts_with("---- ") && *line != "failures:");
            Failure {
                source: source.to_owned(),
                test: test.to_owned(),
                said: said.cloned().collect(),
            }
        })
        .collect()
}

/// Runs the commands, each known to a person by a name, and returns those that failed.
fn side_by_side(
    commands: Vec<(String, Command)>,
    envs: &[(&str, &str)],
    hear: &mut dyn FnMut(&str),
    took: &mut Vec<(String, Took)>,
) -> Vec<Failed> {
    let queue = Mutex::new(VecDeque::from(commands));
    let (sender, ended) = mpsc::channel();
    let mut failed = Vec::new();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some((name, mut command)) = next(queue) {
                    let mut lines = Vec::new();
                    let begun = Instant::now();
                    let ended = exec::attend(
                        command.envs(envs.iter().copied()),
                        exec::SILENCE_MAX,
                        &mut |line| lines.push(line.to_owned()),
                    );
                    let took = Took { time: begun.elapsed(), processor: ended.processor };
                    let ended = (name, lines, took, ended.result);
                    sender.send(ended).expect("the loop below takes all");
                }
            });
        }
        drop(sender);
        for (name, lines, cost, result) in ended {
            hear(&format!("\n     Running {name}"));
            lines.iter().for_each(|line| hear(line));
            let tests = || failures(&name, &lines);
            failed.extend(result.err().map(|report| Failed { report, tests: tests() }));
            took.push((name, cost));
        }
    });
    failed
}

fn next(queue: &Mutex<VecDeque<(String, Command)>>) -> Option<(String, Command)> {
    queue.lock().expect("nobody panics with it").pop_front()
}

impl Program {
    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(&self.path);
        exec::clean(&mut command, root);
        command.current_dir(&self.package);
        command
    }

    /// One test of it, with nothing beside it.
    fn alone(&self, root: &Path, test: &str) -> Command {
        let mut command = self.command(root);
        command.args(["--exact", test, "--test-threads", "1"]);
        command
    }
}

/// The programs that `cargo test ARGS` runs; they are built already.
fn list(root: &Path, args: &[&str]) -> Result<Vec<Program>, String> {
    let args = [args, &["--no-run", "--quiet", "--message-format", "json"]].concat();
    let text = exec::output_of(&mut exec::cargo(root, &args))?;
    let programs: Vec<Program> =
        text.lines().filter_map(|line| program(root, &serde_json::from_str(line).ok()?)).collect();
    match programs.is_empty() {
        true => Err(format!("cargo {} lists no program", args.join(" "))),
        false => Ok(programs),
    }
}

/// The program that a message of cargo tells of: an artifact of the test profile that can be run.
fn program(root: &Path, message: &Value) -> Option<Program> {
    let is_test = message["profile"]["test"].as_bool()?;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let source = message["target"]["src_path"].as_str()?;
    Some(Program {
        path: path.into(),
        package: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        source: source.strip_prefix(root.to_str()?).map_or(source, |rest| &rest[1..]).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::env;

    use serde_json::json;

    use super::*;

    fn artifact(executable: &Value, test: bool) -> Value {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/house/crates/gate/Cargo.toml",
            "target": { "name": "it", "src_path": "/house/crates/gate/tests/it/main.rs" },
            "profile": { "test": test },
            "executable": executable,
        })
    }

    #[test]
    fn programs_of_tests_are_listed_and_nothing_else() {
        let root = Path::new("/house");
        let path = json!("/house/target/debug/deps/it-1");
        let found = program(root, &artifact(&path, true)).unwrap();
        assert_eq!(found.package, Path::new("/house/crates/gate"));
        assert_eq!(found.source, "crates/gate/tests/it/main.rs");
        assert_eq!(program(root, &artifact(&path, false)), None, "a command is no test");
        assert_eq!(program(root, &artifact(&Value::Null, true)), None, "a library has none");
        assert_eq!(program(root, &json!({"reason": "build-finished"})), None);
    }

    #[test]
    fn one_that_fails_stops_no_other_and_is_told() {
        let root = env::temp_dir();
        let shell = |name: &str| Program {
            path: Path::new("/bin").join(name),
            package: root.clone(),
            source: name.to_owned(),
        };
        let programs = ["false", "true", "pwd"].map(shell);
        let commands = programs.map(|program| (program.source.clone(), program.command(&root)));
        let (mut lines, mut took) = (Vec::new(), Vec::new());
        let failed = side_by_side(
            Vec::from(commands),
            &[],
            &mut |line| lines.push(line.to_owned()),
            &mut took,
        );
        assert_eq!(took.len(), 3, "{took:?}");
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].tests.is_empty(), "{failed:?}");
        let at = lines.iter().position(|line| line.ends_with("Running pwd")).unwrap();
        assert_eq!(Path::new(&lines[at + 1]), root.canonicalize().unwrap(), "{lines:?}");
    }

    /// The output of a program with a test that passes and two that do not.
    fn output() -> Vec<String> {
        let text = "running 3 tests\n\
                    test good ... ok\n\
                    test part::bad ... FAILED\n\
                    test part::bad has been running for over 60 seconds\n\
                    test worse - should panic ... FAILED\n\
                    \n\
                    failures:\n\
                    \n\
                    ---- part::bad stdout ----\n\
                    left: 1\n\
                    right: 2\n\
                    ---- worse stdout ----\n\
                    no panic\n\
                    failures:\n    part::bad\n    worse\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored";
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn failed_tests_are_read_with_what_they_said() {
        let found = failures("it", &output());
        let told: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|failure| (&*failure.test, failure.said.iter().map(String::as_str).collect()))
            .collect();
        let bad = ("part::bad", vec!["left: 1", "right: 2"]);
        assert_eq!(told, [bad, ("worse", vec!["no panic"])]);
        assert!(failures("it", &output()[..2]).is_empty());
    }

    #[test]
    fn a_test_that_passes_alone_is_unsteady_and_one_that_fails_again_has_failed() {
        let ended = || {
            vec![
                Failed { report: "it".to_owned(), tests: failures("it", &output()) },
                Failed { report: "killed".to_owned(), tests: Vec::new() },
            ]
        };
        let names = |failures: &[Failure]| {
            failures.iter().map(|failure| failure.test.clone()).collect::<Vec<_>>()
        };
        let ran = judge_again(ended(), |failure| Some(failure.test == "worse"));
        assert_eq!(
            (names(&ran.unsteady), names(&ran.failed)),
            (vec!["worse".to_owned()], vec!["part::bad".to_owned()])
        );
        assert_eq!(ran.reports, ["it", "killed"]);
        let ran = judge_again(ended(), |_| Some(true));
        assert_eq!((ran.unsteady.len(), ran.failed.len()), (2, 0));
        assert_eq!(ran.reports, ["killed"], "nothing was run again for it");
        let ran = judge_again(ended(), |_| None);
        assert_eq!((ran.unsteady.len(), ran.failed.len()), (0, 2));
    }

    #[test]
    fn many_failures_are_no_chance() {
        let many =
            || (0..2).map(|_| Failed { report: "it".to_owned(), tests: failures("it", &output()) });
        let ran = judge_again(many().collect(), |_| panic!("none is run again"));
        assert_eq!((ran.unsteady.len(), ran.failed.len(), ran.reports.len()), (0, 4, 2));
    }

    #[test]
    fn only_one_test_that_ran_has_passed_alone() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let result = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'";
        assert!(passes_alone(shell(result), &[]));
        assert!(!passes_alone(shell(&format!("{result}; exit 101")), &[]), "it failed at its end");
        assert!(!passes_alone(shell("echo 'test result: ok. 0 passed; 0 failed; 0 ignored'"), &[]));
    }
}
