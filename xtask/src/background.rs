//! Steps that only compute, run beside the tests, which mostly wait: at a priority that takes the processors only
//! when nothing else wants them. What each says comes in one piece when the tests have ended.

use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::exec;
use crate::processor::Took;

/// A step that is to be run in the background.
pub(crate) struct Task {
    pub(crate) name: &'static str,
    /// What a person types to repeat it.
    pub(crate) line: String,
    pub(crate) command: Command,
}

/// A step that has ended.
pub(crate) struct Done {
    pub(crate) name: &'static str,
    pub(crate) line: String,
    pub(crate) took: Took,
    /// Its output, and its errors between.
    pub(crate) said: Vec<String>,
    pub(crate) result: Result<(), String>,
}

/// Runs the tasks one after the other, all of them, also behind one that fails.
pub(crate) fn start(tasks: Vec<Task>) -> JoinHandle<Vec<Done>> {
    thread::spawn(move || tasks.into_iter().map(done).collect())
}

fn done(task: Task) -> Done {
    let begun = Instant::now();
    let mut said = Vec::new();
    let mut command = idle(&task.command);
    let exec::Ended { result, processor } =
        exec::attend(&mut command, exec::SILENCE_MAX, &mut |line| said.push(line.to_owned()));
    let took = Took { time: begun.elapsed(), processor };
    Done { name: task.name, line: task.line, took, said, result }
}

/// The same command at the priority of idle time, errors and output in one stream.
fn idle(command: &Command) -> Command {
    let has_chrt = Command::new("chrt")
        .args(["--idle", "0", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let (program, priority) =
        if has_chrt { ("chrt", ["--idle", "0"]) } else { ("nice", ["-n", "19"]) };
    let mut idle = Command::new(program);
    idle.args(priority).args(["sh", "-c", "exec \"$0\" \"$@\" 2>&1"]);
    idle.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    idle
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn shell(name: &'static str, script: &str) -> Task {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Task { name, line: script.to_owned(), command }
    }

    #[test]
    fn each_is_run_and_told_with_its_errors_between() {
        let mut here = shell("here", "pwd; echo $ONE$HOME");
        here.command.current_dir(env::temp_dir()).env("ONE", "1").env_remove("HOME");
        let tasks = vec![shell("bad", "echo a; echo b >&2; echo c; exit 3"), here];
        let ended = start(tasks).join().unwrap();
        assert_eq!((ended[0].name, &*ended[0].said.concat()), ("bad", "abc"));
        assert!(ended[0].result.as_ref().unwrap_err().contains("failed"));
        let folder = env::temp_dir().canonicalize().unwrap().display().to_string();
        assert_eq!(ended[1].said, [folder, "1".to_owned()]);
        assert_eq!(ended[1].result, Ok(()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_else_waits_for_it() {
        // The 41st word of a process's status is its policy, 5 for idle time; the 19th its niceness.
        let said = start(vec![shell("priority", "cat /proc/$$/stat")]).join().unwrap();
        let words: Vec<&str> = said[0].said[0].rsplit_once(") ").unwrap().1.split(' ').collect();
        assert!(words[38] == "5" || words[16] == "19", "{words:?}");
    }
}
