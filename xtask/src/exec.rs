//! Child processes: started with a clean environment, listened to line by line, and killed with all
//! their children when they have been silent for too long.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::processor;

/// When a child that prints nothing is killed: many times what the slowest crate, test or download
/// takes on an idle machine. The whole of its time has no limit, for a slow machine is no failure.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30 * 60);
/// How often a silent child is asked whether it has ended.
const POLL: Duration = Duration::from_millis(100);
/// How long the pipe of an ended child may stay open: a process that it left behind may hold it.
const PIPE_GRACE: Duration = Duration::from_secs(5);

/// `cargo ARGS` in the repository, as if typed in a shell.
///
/// `cargo run` sets variables that describe *this* package. Build scripts watch some of them, so
/// passing them on would rebuild half the tree at each change between `cargo` and `cargo xtask`.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    clean(&mut command, root);
    // What it says is passed on through a pipe, in which it would leave out its colours.
    if io::stderr().is_terminal() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

/// A command in the repository, without what `cargo run` put into the environment.
pub(crate) fn clean(command: &mut Command, root: &Path) {
    command.current_dir(root);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || matches!(
                &*text,
                "CARGO" | "CARGO_CRATE_NAME" | "CARGO_BIN_NAME" | "CARGO_PRIMARY_PACKAGE"
            );
        if ours {
            command.env_remove(name);
        }
    }
    if env::var("CI").is_ok_and(|ci| ci == "true") {
        // Nothing is built twice in CI: incremental files would only cost time and disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
}

/// What a command that ended well printed.
///
/// # Errors
/// It does not start, fails, or prints something that is not text.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let name = describe(command);
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed something but text"))
}

/// Runs a command and hands each line of its standard output to `hear`; what it prints to standard
/// error goes to ours. Its whole time has no limit: a slow machine is no failure. Only a command that
/// prints nothing for as long as `silence_max`, neither here nor there, is taken to hang.
///
/// # Errors
/// It does not start, is silent for too long (it is then killed with its descendants), or ends with
/// a failure.
pub(crate) fn listen(
    command: &mut Command,
    silence_max: Duration,
    hear: &mut dyn FnMut(&str),
) -> Result<(), String> {
    attend(command, silence_max, hear).result
}

/// A command that has ended.
pub(crate) struct Ended {
    pub(crate) result: Result<(), String>,
    /// Processor time that it took, with all that it waited for, where the system tells.
    pub(crate) processor: Option<Duration>,
}

/// [`listen`], which also tells the processor time of the command.
pub(crate) fn attend(
    command: &mut Command,
    silence_max: Duration,
    hear: &mut dyn FnMut(&str),
) -> Ended {
    let name = describe(command);
    let mut processor = None;
    let mut run = || {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} does not start: {error}"))?;
        let output = read_output(&mut child);
        let status = watch(&mut child, &output, silence_max, hear, &mut processor)
            .map_err(|error| format!("{name} cannot be waited for: {error}"))?;
        match status {
            None => Err(format!(
                "{name} printed nothing for {} s and was killed with its children",
                silence_max.as_secs()
            )),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{name} failed ({status})")),
        }
    };
    let result = run();
    Ended { result, processor }
}

/// A sign of life.
enum Output {
    /// A line of standard output.
    Line(String),
    /// Something on standard error, which was passed on.
    Note,
}

/// The status of the child, or `None` when it was silent for too long.
fn watch(
    child: &mut Child,
    output: &Receiver<Output>,
    silence_max: Duration,
    hear: &mut dyn FnMut(&str),
    processor: &mut Option<Duration>,
) -> io::Result<Option<ExitStatus>> {
    let mut heard = Instant::now();
    loop {
        match output.recv_timeout(POLL) {
            Ok(sign) => {
                heard = Instant::now();
                if let Output::Line(line) = sign {
                    hear(&line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL / 10),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Its time is read before its status is taken, with which the system forgets it.
        let seen = processor::child(child.id());
        if let processor::Child::Ended(spent) = seen {
            *processor = Some(spent);
        }
        if seen != processor::Child::Runs
            && let Some(status) = child.try_wait()?
        {
            drain(output, hear);
            return Ok(Some(status));
        }
        if heard.elapsed() >= silence_max {
            kill_tree(child);
            drain(output, hear);
            return Ok(None);
        }
    }
}

fn drain(output: &Receiver<Output>, hear: &mut dyn FnMut(&str)) {
    let deadline = Instant::now() + PIPE_GRACE;
    loop {
        match output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Output::Line(line)) => hear(&line),
            Ok(Output::Note) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("note: a process was left behind that still holds the output open");
                return;
            }
        }
    }
}

fn read_output(child: &mut Child) -> Receiver<Output> {
    let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let mut notes = child.stderr.take().expect("standard error is piped");
    let (sender, receiver) = channel();
    let of_notes = sender.clone();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while lines.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            if sender.send(Output::Line(line)).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = notes.read(&mut bytes) {
            // Nobody may be there to read it: the command goes on.
            let _ = io::stderr().write_all(&bytes[..count]);
            if of_notes.send(Output::Note).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Kills the child, then all its descendants, by their ids. A process group would be simpler, but
/// then an interrupt from the keyboard would no longer reach them.
fn kill_tree(child: &mut Child) {
    let descendants = descendants(child.id(), &parents());
    // Both fail only when the process has ended by itself, which is what is wanted.
    let _ = child.kill();
    let _ = child.wait();
    for id in descendants {
        let _ = Command::new("sh")
            .args(["-c", "kill -9 \"$0\"", &id.to_string()])
            .stderr(Stdio::null())
            .status();
    }
}

/// The parent of every process of this machine; empty where there is no `/proc`.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // "id (name) state parent ...", where the name may hold anything, even ") ".
            let (_, after_name) = stat.rsplit_once(')')?;
            Some((id, after_name.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect()
}

fn descendants(ancestor: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut family = vec![ancestor];
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        family.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(id, _)| *id));
        next += 1;
    }
    family.split_off(1)
}

/// The command as a person would type it.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy()));
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn every_line_is_heard() {
        let mut heard = Vec::new();
        let result =
            listen(&mut shell("echo one; printf two"), Duration::from_secs(20), &mut |line| {
                heard.push(line.to_owned())
            });
        assert_eq!(result, Ok(()));
        assert_eq!(heard, ["one", "two"]);
    }

    #[test]
    fn a_failure_is_an_error_that_names_the_command() {
        let error = listen(&mut shell("exit 3"), Duration::from_secs(20), &mut |_| {}).unwrap_err();
        assert!(error.contains("`sh -c exit 3` failed"), "{error}");
    }

    /// An orphan may stay as a zombie until its new parent looks; dead is dead.
    fn is_alive(id: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_silent_command_is_killed_with_its_children() {
        let mut heard = Vec::new();
        let begun = Instant::now();
        let error = listen(
            &mut shell("sleep 600 & echo $!; wait"),
            Duration::from_millis(500),
            &mut |line| heard.push(line.to_owned()),
        )
        .unwrap_err();
        assert!(error.contains("was killed"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(300), "the sleep was not waited for");
        let child = heard.first().expect("the shell printed the id of its child");
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_alive(child) {
            assert!(Instant::now() < deadline, "process {child} lives");
            thread::sleep(POLL);
        }
    }

    /// A fresh build on a busy machine was cut off after 20 minutes although it went on. Each line
    /// here comes well within the silence that is allowed, and all of them together do not.
    #[test]
    fn a_slow_command_that_goes_on_is_not_cut_off() {
        for to in ["1", "2"] {
            let script = format!("for i in 1 2 3 4 5 6 7 8; do echo $i >&{to}; sleep 1; done");
            let result = listen(&mut shell(&script), Duration::from_secs(6), &mut |_| {});
            assert_eq!(result, Ok(()));
        }
    }

    #[test]
    fn descendants_are_found_over_generations() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (9, 8)]);
        assert_eq!(descendants(2, &parents), [3, 4]);
        assert_eq!(descendants(1, &parents), [2, 5, 3, 4]);
        assert!(descendants(4, &parents).is_empty());
    }
}
