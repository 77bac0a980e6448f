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

use serde_json::Value;

use crate::exec;

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

/// Runs all programs of tests that `cargo test ARGS` would run, several at a time and the largest first,
/// and beside them the tests in documents. The output of a program comes in one piece when it has ended.
///
/// # Errors
/// Cargo cannot list them, or tests fail: all others still run.
pub(crate) fn run(
    root: &Path,
    args: &[&str],
    envs: &[(&str, &str)],
    hear: &mut dyn FnMut(&str),
) -> Result<(), String> {
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
    let failed = side_by_side(commands, envs, hear);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Runs the commands, each known to a person by a name, and returns the reports of those that failed.
fn side_by_side(
    commands: Vec<(String, Command)>,
    envs: &[(&str, &str)],
    hear: &mut dyn FnMut(&str),
) -> Vec<String> {
    let queue = Mutex::new(VecDeque::from(commands));
    let (sender, ended) = mpsc::channel();
    let mut failed = Vec::new();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                while let Some((name, mut command)) = next(queue) {
                    let mut lines = Vec::new();
                    let result = exec::listen(
                        command.envs(envs.iter().copied()),
                        exec::SILENCE_MAX,
                        &mut |line| lines.push(line.to_owned()),
                    );
                    sender.send((name, lines, result)).expect("the loop below takes all");
                }
            });
        }
        drop(sender);
        for (name, lines, result) in ended {
            hear(&format!("\n     Running {name}"));
            lines.iter().for_each(|line| hear(line));
            failed.extend(result.err());
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
        let mut lines = Vec::new();
        let failed =
            side_by_side(Vec::from(commands), &[], &mut |line| lines.push(line.to_owned()));
        assert_eq!(failed.len(), 1, "{failed:?}");
        let at = lines.iter().position(|line| line.ends_with("Running pwd")).unwrap();
        assert_eq!(Path::new(&lines[at + 1]), root.canonicalize().unwrap(), "{lines:?}");
    }
}
