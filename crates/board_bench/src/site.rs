//! A board in a process of its own: so its memory and processor time are nobody else's, and PostgreSQL's are beside
//! them.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use cli::Failure;
use serde_json::Value;

use crate::clients::{Mix, Pressed, Size, Threads, press};
use crate::cost::{Cost, cost};

/// Folder of stores: on a disk, which the folder for short-lived files need not be.
const PARENT: &str = "/var/tmp";
/// Threads of a board that is pressed.
const THREADS: usize = 50;
/// Messages of each of them before it is pressed: a page.
const MESSAGES: u64 = 20;
/// The time that a board may take to end, with all that it verifies.
const END: Duration = Duration::from_secs(120);

/// A board to start.
#[derive(Clone, Debug)]
pub struct SiteSpec {
    /// The program that serves: `sekisho` itself.
    pub program: PathBuf,
    /// The store, as `board serve --store` has it.
    pub store: &'static str,
    /// The durability class, as `board serve --durability` has it.
    pub durability: &'static str,
    /// The release or folder of PostgreSQL, if one was chosen.
    pub postgres: Option<String>,
    /// The seed of all chance.
    pub seed: u64,
}

/// Facts of a board that listens, from its own first line.
#[derive(Clone, Debug)]
pub struct Start {
    /// The store's own word for the durability class.
    pub setting: String,
}

/// Contents of a store after all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Messages that the load engine saw acknowledged.
    pub acknowledged: u64,
    /// Messages that are stored.
    pub stored: u64,
    /// Acknowledged writes that are missing, twice or out of order; the first 20.
    pub faults: Vec<String>,
}

/// Folder that goes at the end.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make(store: &str) -> Result<Self, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A process may run several at once.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sekisho-board-{store}-{}-{number}", std::process::id());
        let folder = Path::new(PARENT).join(name);
        let made = std::fs::create_dir(&folder);
        made.map_err(|error| Failure::Machine(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the folder for what may be removed.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A process that is told to end by the end of its input, and ended if it does not.
#[derive(Debug)]
struct Process(Child);

impl Process {
    /// Its exit code, if it ends in time by itself.
    fn end(&mut self, within: Duration) -> Option<i32> {
        drop(self.0.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < within {
            if let Ok(Some(status)) = self.0.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // PostgreSQL ends with the board's last breath.
        if self.0.try_wait().is_ok_and(|status| status.is_none()) && self.end(END).is_none() {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }
}

/// A board in a process of its own.
#[derive(Debug)]
pub struct Site {
    spec: SiteSpec,
    // The process ends before its folder goes.
    process: Process,
    lines: Receiver<Value>,
    address: String,
    start: Start,
    threads: Vec<u64>,
    acknowledged: u64,
    /// Appends that may be stored though nobody saw them answered, at most.
    unseen: u64,
    _folder: Folder,
}

impl Site {
    /// Starts a board, opens its threads and fills a page of each.
    ///
    /// # Errors
    /// The board does not start (it has told why on standard error), or does not take its first messages; or an
    /// interrupt.
    pub fn start(spec: SiteSpec, interrupt: &AtomicBool) -> Result<Self, Failure> {
        let folder = Folder::make(spec.store)?;
        let mut process = Process(spawn(&spec, &folder.0)?);
        let lines = lines(process.0.stdout.take().expect("its output is piped"));
        let begun = next(&lines, || interrupt.load(Ordering::Relaxed));
        let (Some(url), Some(setting)) = (begun["listening"].as_str(), begun["setting"].as_str())
        else {
            let code = process.end(END);
            if interrupt.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted(format!("starting {}", spec.store)));
            }
            let code = code.map_or("none".to_owned(), |code| code.to_string());
            return Err(Failure::Machine(format!(
                "the board on {} did not start (exit code {code}); it has said why",
                spec.store
            )));
        };
        let address = url.trim_start_matches("http://").to_owned();
        let start = Start { setting: setting.to_owned() };
        let mut site = Self {
            spec,
            process,
            lines,
            address,
            start,
            threads: Vec::new(),
            acknowledged: 0,
            unseen: 0,
            _folder: folder,
        };
        site.open_threads()?;
        let before = Size {
            clients: 1,
            requests: THREADS as u64 * MESSAGES,
            connections: 20,
            warmup: Duration::ZERO,
            longest: Duration::from_secs(30),
            seed: site.spec.seed,
        };
        let filled = press(&mut site, Mix::W100, Threads::Uniform, before, interrupt)?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted(format!("filling {}", site.store())));
        }
        refuse_unfilled(site.store(), &filled, before.requests)?;
        Ok(site)
    }

    fn open_threads(&mut self) -> Result<(), Failure> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        for number in 0..THREADS {
            let form = format!("author=weighttp&title=experiment+1%2C+thread+{number}");
            let request = agent.post(&format!("http://{}/threads", self.address));
            let request = request.content_type("application/x-www-form-urlencoded");
            let answer = request.send(form).map_err(Failure::machine)?;
            let place = answer.headers().get("location").and_then(|place| place.to_str().ok());
            let id = place.and_then(|place| place.strip_prefix("/threads/")?.parse().ok());
            self.threads.push(id.ok_or_else(|| {
                let status = answer.status();
                Failure::Machine(format!("a thread is not opened on {}: {status}", self.store()))
            })?);
        }
        Ok(())
    }

    /// The store, as the user names it.
    pub fn store(&self) -> &'static str {
        self.spec.store
    }

    /// Facts of its start.
    pub fn started(&self) -> &Start {
        &self.start
    }

    /// Its address, host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Ids of its threads.
    pub(crate) fn threads(&self) -> &[u64] {
        &self.threads
    }

    pub(crate) fn seed(&self) -> u64 {
        self.spec.seed
    }

    /// Costs of the board and its store so far.
    pub(crate) fn cost(&self) -> Cost {
        cost(self.process.0.id())
    }

    /// Counts what the load engine saw acknowledged in a run.
    pub(crate) fn acknowledge(&mut self, pressed: &Pressed, (mix, connections): (Mix, u32)) {
        self.acknowledged += pressed.appended();
        let (_, appends) = mix.weights();
        if appends > 0 {
            // A connection has one request in flight when its client is cut off.
            self.unseen += pressed.cut() as u64 * u64::from(connections) + pressed.failed();
        }
    }

    /// Stops the board, which holds all that is stored against all that was acknowledged, and holds that against what
    /// the load engine saw.
    ///
    /// # Errors
    /// If it does not end as it should.
    pub fn stop(mut self) -> Result<Kept, Failure> {
        drop(self.process.0.stdin.take());
        let begun = Instant::now();
        let ended = next(&self.lines, || begun.elapsed() > END);
        let (Some(stored), Some(faults)) = (ended["messages"].as_u64(), ended["faults"].as_array())
        else {
            return Err(Failure::Machine(format!(
                "the board on {} ended without telling what is stored",
                self.store()
            )));
        };
        let faults = faults.iter().map(|fault| fault.as_str().unwrap_or_default().to_owned());
        let told = ended["acknowledged"].as_u64().unwrap_or(0);
        let told = told.saturating_sub(self.threads.len() as u64);
        let faults = faults.collect();
        let kept = Kept { acknowledged: self.acknowledged, stored, faults };
        let code = self.process.end(END);
        if !matches!(code, Some(0 | 3)) {
            let store = self.store();
            return Err(Failure::Machine(format!("the board on {store} ended with {code:?}")));
        }
        Ok(witnessed(kept, told, self.unseen))
    }
}

/// A board whose pages are not full is another one than the rest of the run takes it for.
fn refuse_unfilled(store: &str, filled: &Pressed, requests: u64) -> Result<(), Failure> {
    if filled.failed() == 0 && filled.cut() == 0 {
        return Ok(());
    }
    Err(Failure::Machine(format!(
        "the board on {store} took {} of its first {requests} messages within {:.0} s, and {} failed; look at it \
         with `sekisho board serve --store {store}`, or try again when this machine is quiet",
        filled.completed(),
        filled.elapsed_s,
        filled.failed()
    )))
}

/// The load engine is a second witness. It has not seen answered what failed, and what was in flight when a run was cut
/// off: so many may be stored beyond those that it saw acknowledged.
fn witnessed(mut kept: Kept, told: u64, unseen: u64) -> Kept {
    let due = kept.acknowledged..=kept.acknowledged + unseen;
    if !due.contains(&kept.stored) || !due.contains(&told) {
        kept.faults.push(format!(
            "{} messages are stored and the board acknowledged {told}; the load engine saw {} acknowledged, and at \
             most {unseen} more were on their way when they failed or were cut off",
            kept.stored, kept.acknowledged
        ));
    }
    kept
}

/// The lines of a board, as JSON, as they come.
fn lines(out: impl Read + Send + 'static) -> Receiver<Value> {
    let (told, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            // Nobody may be left who wants it.
            drop(told.send(serde_json::from_str(&line).unwrap_or(Value::Null)));
        }
    });
    lines
}

/// The next line; nothing if the board has ended, or nobody wants to wait any more.
fn next(lines: &Receiver<Value>, is_enough: impl Fn() -> bool) -> Value {
    loop {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => return line,
            Err(RecvTimeoutError::Timeout) if !is_enough() => {}
            Err(_) => return Value::Null,
        }
    }
}

fn spawn(spec: &SiteSpec, folder: &Path) -> Result<Child, Failure> {
    let mut words: Vec<OsString> =
        ["board", "serve", "--json", "--until-eof", "--at", "127.0.0.1:0"].map(Into::into).into();
    words.extend(["--store", spec.store, "--durability", spec.durability].map(Into::into));
    match (spec.store, &spec.postgres) {
        ("jungle" | "sqlite", _) => {
            words.extend(["--directory".into(), folder.join("store").into()]);
        }
        ("postgres", Some(word)) => words.extend(["--postgres".into(), word.into()]),
        _ => {}
    }
    let mut command = Command::new(&spec.program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C in a terminal is for whoever started it, who then ends it in good order.
    command.process_group(0);
    command
        .spawn()
        .map_err(|error| Failure::Machine(format!("{}: {error}", spec.program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_engine_is_a_second_witness() {
        let kept = |acknowledged, stored| Kept { acknowledged, stored, faults: Vec::new() };
        assert_eq!(witnessed(kept(5, 5), 5, 0), kept(5, 5));
        assert_eq!(witnessed(kept(5, 4), 5, 0).faults.len(), 1, "lost");
        assert_eq!(witnessed(kept(5, 6), 5, 0).faults.len(), 1, "twice");
        assert_eq!(witnessed(kept(5, 5), 4, 0).faults.len(), 1, "the board counts otherwise");
        assert_eq!(witnessed(kept(5, 6), 6, 2), kept(5, 6));
        assert_eq!(witnessed(kept(5, 4), 5, 2).faults.len(), 1, "lost, though it was cut");
    }

    /// After one run that was cut off anything more than what was acknowledged was right, for good.
    #[test]
    fn a_run_that_was_cut_excuses_no_more_than_was_in_flight() {
        let kept = |stored| Kept { acknowledged: 5, stored, faults: Vec::new() };
        assert_eq!(witnessed(kept(7), 7, 2), kept(7));
        assert_eq!(witnessed(kept(8), 7, 2).faults.len(), 1, "stored twice");
        assert_eq!(witnessed(kept(7), 8, 2).faults.len(), 1, "the board counts otherwise");
    }

    /// Boards whose first messages failed were pressed as if their pages were full.
    #[test]
    fn a_board_that_does_not_take_its_first_messages_is_refused() {
        let mut filled = Pressed::of_rate(1_000.0);
        refuse_unfilled("jungle", &filled, 1_000).unwrap();
        filled.clients[0].failed = 1;
        let told = refuse_unfilled("jungle", &filled, 1_000).unwrap_err().to_string();
        assert!(told.contains("jungle") && told.contains("1 failed"), "{told}");
        let mut cut = Pressed::of_rate(10.0);
        cut.clients[0].was_cut = true;
        let told = refuse_unfilled("sqlite", &cut, 1_000).unwrap_err().to_string();
        assert!(told.contains("took 10 of its first 1000"), "{told}");
    }

    #[test]
    fn a_program_that_is_no_board_is_told() {
        let spec = SiteSpec {
            program: "/bin/false".into(),
            store: "jungle",
            durability: "strict",
            postgres: None,
            seed: 1,
        };
        let failed = Site::start(spec.clone(), &AtomicBool::new(false)).unwrap_err();
        assert!(failed.to_string().contains("did not start (exit code 1)"), "{failed}");
        let missing = SiteSpec { program: "/nowhere/sekisho".into(), ..spec };
        let failed = Site::start(missing, &AtomicBool::new(false)).unwrap_err();
        assert!(failed.to_string().contains("/nowhere/sekisho"), "{failed}");
    }
}
