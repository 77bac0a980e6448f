//! Starts the program, waits for its end, and reads what it said. Whatever it says to a person must
//! fit a terminal: that is looked at in every call.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_sekisho");

/// A command that takes longer hangs. It is judged by what it says: nothing is asked of the machine's
/// speed, which others may use as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Columns that a terminal shows of a line.
const COLUMNS: usize = 80;

/// End of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Each line of its output as a JSON object.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        let objects: Vec<Value> = self.out.lines().map(parse).collect();
        // Held to the schema when it ended.
        assert!(objects.iter().all(|object| object["format"].is_string()), "{self:?}");
        objects
    }

    /// The first object that it printed, which is of this format: `tpcc-run`.
    #[track_caller]
    pub(crate) fn object(&self, format: &str) -> Value {
        let object = self.objects().into_iter().next().unwrap_or_else(|| panic!("{self:?}"));
        let version = if format.contains('/') { "" } else { "/1" };
        assert_eq!(object["format"], format!("sekisho/{format}{version}"), "{self:?}");
        object
    }

    /// The same of the last such line: a server says what is next when it begins and when it ends.
    #[track_caller]
    pub(crate) fn last(&self, label: &str) -> &str {
        let label = format!("  {label}: ");
        let line = self.out.lines().rev().find_map(|line| line.strip_prefix(&label));
        line.unwrap_or_else(|| panic!("no line `{label}`: {self:?}"))
    }

    /// Text after `<label>: ` in a line of its own, to the end of that line.
    #[track_caller]
    pub(crate) fn after(&self, label: &str) -> &str {
        let label = format!("  {label}: ");
        let line = self.out.lines().find_map(|line| line.strip_prefix(&label));
        line.unwrap_or_else(|| panic!("no line `{label}`: {self:?}"))
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of a log that it writes, none if there is no such file.
#[track_caller]
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// A command that runs. It is ended with this value.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// True if its output is for people.
    is_text: bool,
    said: Arc<Mutex<Vec<u8>>>,
    out: Option<JoinHandle<()>>,
    err: Option<JoinHandle<()>>,
    complained: Arc<Mutex<Vec<u8>>>,
}

/// Runs the program in a folder to its end.
#[track_caller]
pub(crate) fn sekisho(folder: &Path, words: &[&str]) -> Ended {
    start(folder, words).ended(PATIENCE)
}

/// Starts the program in a folder.
pub(crate) fn start(folder: &Path, words: &[&str]) -> Running {
    let mut command = Command::new(PROGRAM);
    command.args(words);
    run(folder, command, !words.contains(&"--json"))
}

/// Starts a line as somebody types it, `sekisho` being the program under test.
pub(crate) fn shell(folder: &Path, line: &str) -> Running {
    shell_on(folder, None, line)
}

/// The same where `DATABASE_URL` is set.
pub(crate) fn shell_on(folder: &Path, database: Option<&str>, line: &str) -> Running {
    let rest = line.strip_prefix("sekisho ").expect("it is a call of the program");
    let mut command = Command::new("sh");
    // In place of the shell, so that a signal reaches the program.
    command.args(["-c", &format!("exec \"$0\" {rest}"), PROGRAM]);
    command.envs(database.map(|url| ("DATABASE_URL", url)));
    run(folder, command, !line.contains(" --json"))
}

/// The same for a server whose files may get a limit: a write beyond it fails, and does not end it.
pub(crate) fn shell_without_room(folder: &Path, line: &str) -> Running {
    let rest = line.strip_prefix("sekisho ").expect("it is a call of the program");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; exec \"$0\" {rest}"), PROGRAM]);
    run(folder, command, !line.contains(" --json"))
}

fn run(folder: &Path, mut command: Command, is_text: bool) -> Running {
    let mut child = command
        .current_dir(folder)
        .env("COLUMNS", COLUMNS.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (said, complained) = (Arc::default(), Arc::default());
    let out = Some(collect(child.stdout.take().expect("piped above"), Arc::clone(&said)));
    let err = Some(collect(child.stderr.take().expect("piped above"), Arc::clone(&complained)));
    Running { child, is_text, said, out, err, complained }
}

fn collect(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut bytes) {
            into.lock().expect("nobody panics with it").extend_from_slice(&bytes[..read]);
        }
    })
}

fn text(of: &Mutex<Vec<u8>>) -> String {
    let bytes = of.lock().expect("nobody panics with it");
    String::from_utf8(bytes.clone()).expect("the program writes UTF-8")
}

impl Running {
    /// Waits until its output holds a text, and returns all that it has said by then.
    #[track_caller]
    pub(crate) fn says(&self, wanted: &str) -> String {
        self.holds(&self.said, wanted)
    }

    /// Waits until it has said something on standard error.
    #[track_caller]
    pub(crate) fn complains(&self, wanted: &str) {
        self.holds(&self.complained, wanted);
    }

    /// Waits until one of its outputs holds a text; a program that has ended says no more.
    #[track_caller]
    fn holds(&self, output: &Mutex<Vec<u8>>, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Asked first: what it said last is read before.
            let readers = [&self.out, &self.err].into_iter().flatten();
            let is_over = readers.into_iter().all(JoinHandle::is_finished);
            let said = text(output);
            if said.contains(wanted) {
                return said;
            }
            assert!(
                !is_over && Instant::now() < deadline,
                "never `{wanted}`: {}{}",
                text(&self.said),
                text(&self.complained)
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("sh").args(["-c", "kill -s $0 $1", name, &pid]).status();
        assert!(status.expect("there is a shell").success(), "no signal {name} to {pid}");
    }

    /// Waits for its end, which must come within `patience`.
    #[track_caller]
    pub(crate) fn ended(mut self, patience: Duration) -> Ended {
        let deadline = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().expect("it is our child");
                let (said, complained) = (text(&self.said), text(&self.complained));
                panic!("no end within {patience:?}: {said}{complained}");
            }
            thread::sleep(Duration::from_millis(5));
        };
        for reader in [self.out.take(), self.err.take()].into_iter().flatten() {
            reader.join().expect("a reader cannot fail");
        }
        let (out, err) = (text(&self.said), without_progress(&text(&self.complained)));
        let code = status.code().unwrap_or_else(|| panic!("it ended with {status}: {out}{err}"));
        assert!(!err.contains("panicked"), "{err}");
        if self.is_text {
            assert_fits(&out);
        }
        assert_fits(&err);
        crate::schemas::hold(&out);
        Ended { code, out, err }
    }
}

/// What it complained of: that long work goes on, as a line says every ten seconds, is no complaint.
fn without_progress(text: &str) -> String {
    let is_progress = |line: &&str| line.ends_with(" so far") || line.contains(" so far, ");
    text.split_inclusive('\n').filter(|line| !is_progress(&line.trim_end())).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Every line fits a terminal, unless a single word, a path say, is as long as a line.
#[track_caller]
fn assert_fits(text: &str) {
    // Lines of a log are for programs.
    for line in text.lines().filter(|line| !line.contains(" event=")) {
        let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        let length = line.chars().count();
        assert!(length <= COLUMNS || longest > 60, "{length} columns: {line}\n\n{text}");
    }
}

/// The story: a server that refused its arguments was waited for ten minutes.
#[test]
#[should_panic(expected = "never `listening`: error: unrecognized subcommand 'no-such-verb'")]
fn a_program_that_has_ended_says_no_more() {
    start(Path::new("."), &["no-such-verb"]).says("listening");
}
