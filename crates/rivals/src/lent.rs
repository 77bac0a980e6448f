//! The private server: made, started, stopped, killed, started again and removed.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::watchdog::Watchdog;

/// Folder of servers: on a disk, which the folder for short-lived files need not be.
const PARENT: &str = "/var/tmp";
/// Interval between looks at the state of a server.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Time that a server has to stop before it is killed.
const STOP: Duration = Duration::from_secs(60);
/// Starts that are tried if somebody takes a free port before the server does.
const STARTS: u32 = 3;
/// The last lines of a log that an error shows.
const LINES: usize = 8;

/// Settings of a private server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder below which the server gets one of its own; `/var/tmp` by default.
    pub parent: PathBuf,
    /// The folder of fetched programs; `None` is the user's cache.
    pub cache: Option<PathBuf>,
    /// Time limit until the server answers.
    pub patience: Duration,
    /// Set by whoever wants to stop while this waits.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Told what takes long, a line each.
    pub notice: fn(&str),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parent: PathBuf::from(PARENT),
            cache: None,
            patience: Duration::from_secs(180),
            interrupt: None,
            notice: |_| {},
        }
    }
}

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program is not on this machine.
    #[error(
        "no {program} that will do{}: {reason}; on Debian, as root, run: \
         apt-get install --yes --no-install-recommends {package}",
        listed(found)
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// Those that were found and will not do.
        found: Vec<String>,
        /// Purpose of the program.
        reason: String,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// There is no place for what is fetched.
    #[error("no folder for what is fetched: set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// Maven did not bring Cassandra.
    #[error("mvn did not bring Cassandra {release} from Maven Central; it says:\n{log}")]
    Fetch {
        /// The release.
        release: &'static str,
        /// The beginning of its output.
        log: String,
    },
    /// The server ended, or was not ready in time.
    #[error("{server} {what}; its log ends:\n{log}")]
    NotReady {
        /// The server.
        server: &'static str,
        /// The behaviour of the server.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The purpose of the call.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Why a server did not stop as it should.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It had to be killed.
    #[error("{server} did not stop within {} s and was killed", waited.as_secs())]
    Killed {
        /// The server.
        server: &'static str,
        /// The time that it was given.
        waited: Duration,
    },
    /// Its folder is still there.
    #[error("cannot remove {}: {source}; remove it yourself", folder.display())]
    Remove {
        /// The server's folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot end {server}: {source}")]
    System {
        /// The server.
        server: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

fn listed(found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" ({})", found.join("; ")) }
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::System { what, source }
}

/// A kind of server: how it is started in a folder on two ports of 127.0.0.1, and how it shows that it answers.
pub(crate) trait Kind: std::fmt::Debug + Send + Sync {
    /// Name of the server.
    fn name(&self) -> &'static str;

    /// Writes its configuration, and gives the command that starts it.
    fn command(&self, folder: &Path, ports: [u16; 2]) -> io::Result<Command>;

    /// True if it answers clients at an address.
    fn is_ready(&self, at: SocketAddr) -> bool;
}

/// A private server; ends, and is removed, when dropped.
#[derive(Debug)]
pub struct Lent {
    kind: Box<dyn Kind>,
    folder: PathBuf,
    ports: [u16; 2],
    child: Option<Child>,
    settings: Settings,
    /// Ends the server and removes the folder if we do not. The last field: all else is done first.
    _watchdog: Watchdog,
}

impl Lent {
    pub(crate) fn start(kind: Box<dyn Kind>, settings: &Settings) -> Result<Self, StartError> {
        let parent = fs::canonicalize(&settings.parent)
            .map_err(system(format!("use the folder {}", settings.parent.display())))?;
        let folder = make(&parent, kind.name())
            .map_err(system(format!("make a folder in {}", parent.display())))?;
        let watchdog = Watchdog::new(&folder).map_err(|source| {
            // The error in hand is the one that matters.
            let _ = fs::remove_dir_all(&folder);
            StartError::System { what: "start /bin/sh".to_owned(), source }
        })?;
        let settings = settings.clone();
        let mut server =
            Self { kind, folder, ports: [0, 0], child: None, settings, _watchdog: watchdog };
        for left in (0..STARTS).rev() {
            server.ports = free_ports().map_err(system("find free ports"))?;
            match server.launch() {
                Err(StartError::NotReady { log, .. }) if left > 0 && is_taken(&log) => {}
                result => return result.map(|()| server),
            }
        }
        unreachable!("the last try returns")
    }

    /// Address for clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]))
    }

    /// Its folder: configuration, log and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it at once: nothing is written or cleaned up.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait().map(|_| ())
    }

    /// Starts it again on the same ports and what it has stored, after a clean stop if it runs.
    ///
    /// # Errors
    /// If it does not come up; it is then stopped, and can be started again.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.shut_down().map_err(|error| StartError::NotReady {
            server: self.kind.name(),
            what: format!("could not be stopped ({error})"),
            log: self.log(),
        })?;
        self.launch()
    }

    /// Stops it, and removes its folder.
    ///
    /// # Errors
    /// If it had to be killed, or its folder is still there.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StopError> {
        let stopped = self.shut_down();
        let removed = match fs::remove_dir_all(&self.folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StopError::Remove { folder: self.folder.clone(), source })
            }
            _ => Ok(()),
        };
        stopped.and(removed)
    }

    fn shut_down(&mut self) -> Result<(), StopError> {
        let server = self.kind.name();
        let wrong = |source| StopError::System { server, source };
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let begun = Instant::now();
        // It is not waited for, so that its number is its own; it may have ended by itself.
        if child.try_wait().map_err(wrong)?.is_none() {
            let pid = Pid::from_raw(child.id() as i32).expect("a process has a number above 0");
            kill_process(pid, Signal::TERM).map_err(|error| wrong(error.into()))?;
        }
        while begun.elapsed() < STOP {
            if child.try_wait().map_err(wrong)?.is_some() {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        child.kill().and_then(|()| child.wait()).map_err(wrong)?;
        Err(StopError::Killed { server, waited: STOP })
    }

    fn launch(&mut self) -> Result<(), StartError> {
        let server = self.kind.name();
        let log = self.folder.join("server.log");
        let out = File::create(&log).map_err(system(format!("write {}", log.display())))?;
        let errors = out.try_clone().map_err(system("write the server's log"))?;
        let command = self.kind.command(&self.folder, self.ports);
        let mut command = command.map_err(system("write the server's configuration"))?;
        // Ctrl-C in a terminal is for whoever started it, who then ends it in good order.
        command.current_dir(&self.folder).process_group(0);
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        let child = command.spawn().map_err(system(format!("start {server}")))?;
        let child = self.child.insert(child);
        let begun = Instant::now();
        let what = loop {
            if let Some(status) = child.try_wait().map_err(system(format!("wait for {server}")))? {
                break ended(status);
            }
            if self.kind.is_ready(SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]))) {
                return Ok(());
            }
            if self.settings.is_interrupted() {
                self.kill().map_err(system(format!("end {server}")))?;
                return Err(StartError::Interrupted);
            }
            if begun.elapsed() > self.settings.patience {
                break format!("was not ready within {} s", self.settings.patience.as_secs());
            }
            thread::sleep(LOOK);
        };
        self.kill().map_err(system(format!("end {server}")))?;
        Err(StartError::NotReady { server, what, log: self.log() })
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // There is nobody to tell; the watchdog tries again when we are gone.
        let _ = self.end();
    }
}

fn ended(status: ExitStatus) -> String {
    format!("ended ({status}) before it was ready")
}

fn is_taken(log: &str) -> bool {
    ["Address already in use", "address already in use", "is in use by another process"]
        .iter()
        .any(|words| log.contains(words))
}

/// A new folder below `parent` with a name of its own, closed to others.
fn make(parent: &Path, server: &str) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sekisho-{server}-{}-{number}", std::process::id());
        let path = parent.join(name.to_lowercase());
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left by a process of the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ports that were free a moment ago.
fn free_ports() -> io::Result<[u16; 2]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (bind()?, bind()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}
