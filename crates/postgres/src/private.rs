//! The private server: made, started, stopped, started again, killed and removed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::{self, Account, AccountError};
use crate::archive::{self, Fetch, FetchError, MAVEN_CENTRAL};
use crate::folder::Folder;
use crate::lent::Lent;
use crate::process;
use crate::programs::{Programs, Rejected, Search};
use crate::url::Url;
use crate::watchdog::Watchdog;

/// The server's only user, and the database that every server has.
const USER: &str = "sekisho";
const DATABASE: &str = "postgres";
/// Folder of servers: on a disk, which the folder for short-lived files need not be.
const PARENT: &str = "/var/tmp";
/// Limit of further free ports that are tried if somebody takes one before the server does.
const PORTS_MAX: u32 = 5;
/// The most that the path of a socket may be \[byte\], by the kernel's structure.
const SOCKET_MAX: usize = 107;
/// Interval between looks at the state of a server.
const LOOK: Duration = Duration::from_millis(10);
/// Time that a server has to stop before it is killed.
const STOP: Duration = Duration::from_secs(60);
const STOP_AT_ONCE: Duration = Duration::from_secs(5);

/// `$1` is the folder that gets `pg_wal`. The old one goes last, so that a failure leaves it.
const MOVE_LOG: &str = r#"
set -e
old=$(readlink -f data/pg_wal)
mkdir -m 700 "$1/pg_wal"
trap '[ "$?" = 0 ] || rm -rf -- "$1/pg_wal"' EXIT
cp -a "$old/." "$1/pg_wal/"
ln -s "$1/pg_wal" data/pg_wal.new
mv data/pg_wal data/pg_wal.old
mv data/pg_wal.new data/pg_wal
[ ! -L data/pg_wal.old ] || rm -rf -- "$old"
rm -rf -- data/pg_wal.old
"#;

/// Fate of a server's folder at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// It is removed.
    #[default]
    Nothing,
    /// It stays, shut down cleanly: data, log and password.
    Folder,
}

/// Settings of a private server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The places to look for PostgreSQL's programs.
    pub search: Search,
    /// The source to fetch them from: the address or the folder of a Maven repository.
    pub repository: String,
    /// The folder of fetched programs; `None` is the user's cache, for root `/var/cache`.
    pub cache: Option<PathBuf>,
    /// The folder below which the server gets one of its own; `/var/tmp` by default.
    pub parent: PathBuf,
    /// PostgreSQL's own settings, as in `("shared_buffers", "256MB")`; the last one of a name
    /// counts. Each can be changed later, with `ALTER SYSTEM` and [`Private::restart`].
    pub parameters: Vec<(String, String)>,
    /// The password of its user, for servers that one gate stands before; `None` draws one.
    pub password: Option<String>,
    /// Time limit until the server answers, recovery after a crash included.
    pub patience: Duration,
    /// The fate of the folder.
    pub keep: Keep,
    /// Set by whoever wants to stop while this waits.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Told what takes long, a line each.
    pub notice: fn(&str),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            search: Search::Anywhere,
            repository: MAVEN_CENTRAL.to_owned(),
            cache: None,
            parent: PathBuf::from(PARENT),
            parameters: Vec::new(),
            password: None,
            patience: Duration::from_secs(120),
            keep: Keep::Nothing,
            interrupt: None,
            notice: |_| {},
        }
    }
}

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// None on this machine, and none could be fetched.
    #[error(
        "no PostgreSQL to start{}; as root, run: \
         apt-get install --yes --no-install-recommends postgresql", missing(rejected, fetch.as_ref())
    )]
    Missing {
        /// The programs that were found and will not do.
        rejected: Vec<Rejected>,
        /// Why none was fetched, if it was tried.
        fetch: Option<FetchError>,
    },
    /// Nobody to run it as.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The user that the server runs as cannot get there.
    #[error(
        "{} is closed to the user that PostgreSQL runs as, since it refuses root: \
         put the server elsewhere, as in /var/tmp", folder.display()
    )]
    Closed {
        /// The folder in the way.
        folder: PathBuf,
    },
    /// A socket's path has a limit.
    #[error(
        "{} is too long a path: its socket's would have more than {SOCKET_MAX} bytes; \
         put the server elsewhere, as in /var/tmp", folder.display()
    )]
    TooLong {
        /// The server's folder.
        folder: PathBuf,
    },
    /// A setting cannot be written down.
    #[error("PostgreSQL has no setting `{name}` = `{value}`: a name has letters, digits, _ and .")]
    Parameter {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// The files of a database could not be made.
    #[error("PostgreSQL could not make its files in {}{}\n{log}", folder.display(), advice(log))]
    Init {
        /// The server's folder.
        folder: PathBuf,
        /// The last output of `initdb`.
        log: String,
    },
    /// The server ended, or was not ready in time.
    #[error("PostgreSQL {what}{}; its log ends:\n{log}", advice(log))]
    NotReady {
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

/// Why a server did not start again.
pub type RestartError = StartError;

/// Why a server did not stop as it should.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It had to be killed.
    #[error("PostgreSQL did not stop within {} s and was killed", waited.as_secs())]
    Killed {
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
    #[error("cannot end PostgreSQL: {0}")]
    System(#[from] io::Error),
}

/// A private PostgreSQL server; ends, and is removed, when dropped.
#[derive(Debug)]
pub struct Private {
    programs: Programs,
    account: Option<Account>,
    folder: Folder,
    /// Folders on other disks.
    lent: Vec<Lent>,
    port: u16,
    password: String,
    postmaster: Option<Child>,
    patience: Duration,
    keep: Keep,
    interrupt: Option<Arc<AtomicBool>>,
    /// Ends the server and removes the folder if we do not. The last field: all else is done first.
    _watchdog: Watchdog,
}

impl Private {
    /// Finds or fetches PostgreSQL, makes a database and starts a server on it. When this returns,
    /// it answers.
    ///
    /// # Errors
    /// If there is no PostgreSQL, the system refuses something, or the server does not come up;
    /// nothing is left running or lying about then.
    pub fn start(settings: &Settings) -> Result<Private, StartError> {
        let account = Account::to_serve()?;
        let programs = find(settings, account.as_ref())?;
        let parent = fs::canonicalize(&settings.parent)
            .map_err(system(format!("use the folder {}", settings.parent.display())))?;
        if let Some(folder) = account.as_ref().and_then(|_| archive::closed(&parent)) {
            return Err(StartError::Closed { folder });
        }
        let password = match &settings.password {
            Some(password) => password.clone(),
            None => random().map_err(system("draw a password"))?,
        };
        let folder = Folder::new(&parent, &password, account.as_ref())
            .map_err(system(format!("make a folder in {}", parent.display())))?;
        if longest_socket(folder.path()) > SOCKET_MAX {
            // The error in hand is the one that matters.
            let _ = folder.remove();
            return Err(StartError::TooLong { folder: folder.path().to_owned() });
        }
        let watchdog = Watchdog::new(folder.path(), settings.keep, account.as_ref());
        let watchdog = match watchdog {
            Ok(watchdog) => watchdog,
            Err(source) => {
                // The error in hand is the one that matters.
                let _ = folder.remove();
                return Err(StartError::System { what: "start /bin/sh".to_owned(), source });
            }
        };
        let mut server = Private {
            programs,
            account,
            folder,
            lent: Vec::new(),
            port: 0,
            password,
            postmaster: None,
            patience: settings.patience,
            keep: Keep::Nothing,
            interrupt: settings.interrupt.clone(),
            _watchdog: watchdog,
        };
        server.init()?;
        server.configure(&settings.parameters)?;
        server.launch_somewhere()?;
        // What did not come up is not worth keeping.
        server.keep = settings.keep;
        Ok(server)
    }

    /// The address for TCP, password included.
    pub fn url(&self) -> Url {
        Url::new(USER, &self.password, "127.0.0.1", self.port, DATABASE)
    }

    /// The address for the socket, which costs less than TCP; password included.
    pub fn socket_url(&self) -> Url {
        let folder = self.folder.path().to_string_lossy().into_owned();
        Url::new(USER, &self.password, &folder, self.port, DATABASE)
    }

    /// The port, of 127.0.0.1 and in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: socket, log, password and data directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// The programs that it runs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The number of its first process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Child::id)
    }

    /// The user that it runs as, where that is not the user who runs us.
    pub fn user(&self) -> Option<(u32, u32)> {
        self.account.as_ref().map(|account| (account.user, account.group))
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        self.folder.log_tail(0)
    }

    /// Kills all its processes at once, as a loss of power would: nothing is written or cleaned up.
    /// [`Private::restart`] recovers.
    ///
    /// # Errors
    /// If its processes could not be looked up; the first one is killed even then.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        let result = process::kill_all(&postmaster);
        postmaster.wait()?;
        result
    }

    /// Holds its WAL writer still until the end of the server, as a machine does that has no time
    /// for it: what was not written when a commit was acknowledged then stays unwritten.
    ///
    /// # Errors
    /// If it does not run, or its processes could not be looked up.
    pub fn hold_wal_writer(&self) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the server does not run");
        let postmaster = self.pid().ok_or_else(missing)?;
        process::hold(process::child_titled(postmaster, "postgres: walwriter")?);
        Ok(())
    }

    /// Starts it again on the same port, after a clean stop if it runs.
    ///
    /// # Errors
    /// If it does not come up; it is then stopped, and can be started again.
    pub fn restart(&mut self) -> Result<(), RestartError> {
        self.shut_down(libc::SIGINT, STOP).map_err(|error| StartError::NotReady {
            what: format!("could not be stopped ({error})"),
            log: self.log(),
        })?;
        self.launch()
    }

    /// Empties what `ALTER SYSTEM` has written, for a server that does not start with it. At the
    /// next start all is as [`Settings::parameters`] say.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget_settings(&mut self) -> Result<(), RestartError> {
        self.write("exec cat > data/postgresql.auto.conf", "")
    }

    /// Makes a folder below `parent`, on another disk perhaps, that belongs to the server's user: a
    /// place for a tablespace, or for the log. It is removed, or kept, with the server.
    ///
    /// # Errors
    /// If `parent` is no folder, or is closed to us or to the server's user.
    pub fn lend(&mut self, parent: &Path) -> Result<PathBuf, StartError> {
        let parent = fs::canonicalize(parent)
            .map_err(system(format!("use the folder {}", parent.display())))?;
        if let Some(folder) = self.account.as_ref().and_then(|_| archive::closed(&parent)) {
            return Err(StartError::Closed { folder });
        }
        let lent = Lent::new(&parent, self.keep, self.account.as_ref())?;
        let path = lent.path().to_owned();
        self.lent.push(lent);
        Ok(path)
    }

    /// Stops it, moves its write-ahead log to `pg_wal` in a folder of its user's, leaves a symbolic
    /// link, and starts it again.
    ///
    /// # Errors
    /// If the log could not be moved, with the end of the server's log; it is then where it was, and
    /// the server is stopped and can be [started again](Private::restart). Or if it does not start.
    pub fn move_log(&mut self, folder: &Path) -> Result<(), RestartError> {
        self.shut_down(libc::SIGINT, STOP).map_err(|error| StartError::NotReady {
            what: format!("could not be stopped ({error})"),
            log: self.log(),
        })?;
        let since = self.folder.log_length();
        let mut command = self.command(Path::new("/bin/sh"))?;
        command.args(["-c", MOVE_LOG, "sekisho-pg-log"]).arg(folder);
        let status = command.status().map_err(system("start /bin/sh"))?;
        if !status.success() {
            return Err(StartError::NotReady {
                what: format!("stopped, and its log could not be moved to {}", folder.display()),
                log: self.folder.log_tail(since),
            });
        }
        self.launch()
    }

    /// Stops it and removes its folder, or keeps it as the settings say. Dropping does the same
    /// without a word.
    ///
    /// # Errors
    /// If it had to be killed, or its folder is still there.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StopError> {
        match self.keep {
            Keep::Folder => self.shut_down(libc::SIGINT, STOP),
            // Nobody will read what a clean stop would write.
            Keep::Nothing => {
                let stopped = self.shut_down(libc::SIGQUIT, STOP_AT_ONCE);
                let folder = self.folder.path().to_owned();
                let removed = self.folder.remove();
                for lent in &self.lent {
                    let folder = lent.path().to_owned();
                    lent.remove().map_err(|source| StopError::Remove { folder, source })?;
                }
                removed.map_err(|source| StopError::Remove { folder, source })?;
                stopped
            }
        }
    }

    fn shut_down(&mut self, signal: i32, patience: Duration) -> Result<(), StopError> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        process::signal(&postmaster, signal);
        let begun = Instant::now();
        while postmaster.try_wait()?.is_none() {
            if begun.elapsed() > patience {
                process::kill_all(&postmaster)?;
                postmaster.wait()?;
                return Err(StopError::Killed { waited: patience });
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// A command of the server's user that writes to the log.
    fn command(&self, program: &Path) -> Result<Command, StartError> {
        let mut command = Command::new(program);
        account::run_as(&mut command, self.account.as_ref());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        let log = || self.folder.log().map_err(system("use the server's log"));
        command.stdout(log()?).stderr(log()?);
        Ok(command)
    }

    fn init(&self) -> Result<(), StartError> {
        let mut command = self.command(&self.programs.path("initdb"))?;
        command.arg("--pgdata").arg(self.folder.data());
        command.arg("--pwfile").arg(self.folder.password());
        command.args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8"]);
        command.args(["--no-locale", "--data-checksums"]);
        let mut child = command.spawn().map_err(system("start initdb"))?;
        match self.wait_for(&mut child, |_| false)? {
            Waited::Ended(status) if status.success() => Ok(()),
            Waited::Ended(_) => Err(StartError::Init {
                folder: self.folder.path().to_owned(),
                log: self.folder.log_tail(0),
            }),
            Waited::Ready | Waited::TooLong => {
                process::kill_all(&child)
                    .and_then(|()| child.wait())
                    .map_err(system("end initdb"))?;
                let log = format!("no end within {} s", self.patience.as_secs());
                Err(StartError::Init { folder: self.folder.path().to_owned(), log })
            }
        }
    }

    /// Adds the settings to the file, as the server's user: in the folder of somebody else, root
    /// writes nothing.
    fn configure(&self, parameters: &[(String, String)]) -> Result<(), StartError> {
        let mut text = String::new();
        for (name, value) in parameters {
            text += &line(name, value)?;
        }
        self.write("exec cat >> data/postgresql.conf", &text)
    }

    /// Lets a shell of the server's user write `text`.
    fn write(&self, script: &str, text: &str) -> Result<(), StartError> {
        let mut command = self.command(Path::new("/bin/sh"))?;
        command.args(["-c", script]).stdin(Stdio::piped());
        let mut child = command.spawn().map_err(system("start /bin/sh"))?;
        let mut pipe = child.stdin.take().expect("the command asked for a pipe");
        let written = pipe.write_all(text.as_bytes());
        drop(pipe);
        let status = child.wait().map_err(system("wait for /bin/sh"))?;
        if status.success() {
            return written.map_err(system("write the server's settings"));
        }
        let folder = self.folder.path().to_owned();
        Err(StartError::Init { folder, log: self.folder.log_tail(0) })
    }

    /// Starts it on a free port; another one if somebody was faster.
    fn launch_somewhere(&mut self) -> Result<(), StartError> {
        for left in (0..PORTS_MAX).rev() {
            self.port = free_port().map_err(system("find a free port"))?;
            match self.launch() {
                Err(StartError::NotReady { log, .. }) if left > 0 && is_taken(&log) => {}
                result => return result,
            }
        }
        unreachable!("the last try returns")
    }

    fn launch(&mut self) -> Result<(), StartError> {
        let since = self.folder.log_length();
        let folder = self.folder.path().to_string_lossy().replace('"', "\"\"");
        let mut command = self.command(&self.programs.path("postgres"))?;
        command.arg("-D").arg(self.folder.data()).args(["-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("unix_socket_directories=\"{folder}\""),
            "unix_socket_permissions=0700",
            // What it shares lies in its folder, and goes with that however it ends: in /dev/shm it would
            // stay behind a server that had to be killed.
            "dynamic_shared_memory_type=mmap",
            "logging_collector=off",
            "log_destination=stderr",
        ] {
            command.args(["-c", setting]);
        }
        let mut child = command.spawn().map_err(system("start postgres"))?;
        let pid = child.id();
        let waited = self.wait_for(&mut child, |server| server.folder.ready(pid));
        if !matches!(waited, Ok(Waited::Ended(_))) {
            self.postmaster = Some(child);
        }
        let what = match waited {
            Ok(Waited::Ready) => return Ok(()),
            Ok(Waited::Ended(status)) => format!("ended ({status}) before it was ready"),
            Ok(Waited::TooLong) => format!("was not ready within {} s", self.patience.as_secs()),
            Err(error) => {
                self.kill().map_err(system("end postgres"))?;
                return Err(error);
            }
        };
        self.kill().map_err(system("end postgres"))?;
        Err(StartError::NotReady { what, log: self.folder.log_tail(since) })
    }

    fn wait_for(
        &self,
        child: &mut Child,
        ready: impl Fn(&Private) -> bool,
    ) -> Result<Waited, StartError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(system("wait for PostgreSQL"))? {
                return Ok(Waited::Ended(status));
            }
            if ready(self) {
                return Ok(Waited::Ready);
            }
            if self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                process::kill_all(child).map_err(system("end PostgreSQL"))?;
                return Err(StartError::Interrupted);
            }
            if begun.elapsed() > self.patience {
                return Ok(Waited::TooLong);
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // There is nobody to tell; the watchdog tries again when we are gone.
        let _ = self.end();
    }
}

/// End of a wait for a child.
enum Waited {
    Ready,
    Ended(std::process::ExitStatus),
    TooLong,
}

fn find(settings: &Settings, account: Option<&Account>) -> Result<Programs, StartError> {
    let fetch = Fetch {
        repository: settings.repository.clone(),
        cache: settings.cache.clone(),
        interrupt: settings.interrupt.clone(),
        notice: settings.notice,
    };
    let mut rejected = Vec::new();
    let folder = match &settings.search {
        Search::Folder(folder) => Ok(folder.clone()),
        Search::Fetched => fetch.programs(),
        Search::Release(major) => match Programs::on_machine(Some(*major), account) {
            Ok(programs) => return Ok(programs),
            Err(found) => {
                rejected = found;
                match *major == archive::MAJOR {
                    true => fetch.programs(),
                    false => Err(FetchError::Release { major: *major }),
                }
            }
        },
        Search::Machine | Search::Anywhere => match Programs::on_machine(None, account) {
            Ok(programs) => return Ok(programs),
            Err(found) if settings.search == Search::Machine => {
                return Err(StartError::Missing { rejected: found, fetch: None });
            }
            Err(found) => {
                rejected = found;
                fetch.programs()
            }
        },
    };
    let folder = match folder {
        Ok(folder) => folder,
        Err(FetchError::Interrupted) => return Err(StartError::Interrupted),
        Err(error) => return Err(StartError::Missing { rejected, fetch: Some(error) }),
    };
    Programs::in_folder(&folder, account).map_err(|cause| {
        rejected.push(cause);
        StartError::Missing { rejected, fetch: None }
    })
}

fn missing(rejected: &[Rejected], fetch: Option<&FetchError>) -> String {
    let mut text = String::new();
    for Rejected { folder, cause } in rejected {
        text += &format!(";\n{}: {cause}", folder.display());
    }
    if let Some(error) = fetch {
        text += &format!(";\n{error}");
    }
    text
}

/// The advice for the errors of a log.
fn advice(log: &str) -> &'static str {
    let known = [
        ("No space left on device", ": the disk is full; make room, or put it elsewhere"),
        ("Disk quota exceeded", ": the quota is used up; put it elsewhere"),
        ("Read-only file system", ": the disk is read-only; put it elsewhere"),
        ("Permission denied", ": it may not write there; put it elsewhere"),
        ("could not look up effective user ID", ": run it as a user that /etc/passwd knows"),
        ("could not map anonymous shared memory", ": give it less shared_buffers"),
        ("could not resize shared memory", ": give it less shared_buffers"),
        ("unrecognized configuration parameter", ": it has no such setting"),
        ("invalid value for parameter", ": it does not take that value"),
        ("is outside the valid range", ": it does not take that value"),
    ];
    known.iter().find(|(words, _)| log.contains(words)).map_or("", |(_, advice)| advice)
}

fn is_taken(log: &str) -> bool {
    log.contains("could not bind") && log.contains("Address already in use")
}

/// A line of the settings' file.
fn line(name: &str, value: &str) -> Result<String, StartError> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    if !is_name || value.contains(|c: char| c.is_control()) {
        let (name, value) = (name.escape_debug().to_string(), value.escape_debug().to_string());
        return Err(StartError::Parameter { name, value });
    }
    Ok(format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''")))
}

/// The length of a socket's path, whatever its port \[byte\].
fn longest_socket(folder: &Path) -> usize {
    folder.join(format!(".s.PGSQL.{}", u16::MAX)).as_os_str().len()
}

/// 128 bits of the kernel's chance, as text.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::System { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_quoted_and_nothing_else_gets_in() {
        assert_eq!(line("work_mem", "4MB").unwrap(), "work_mem = '4MB'\n");
        assert_eq!(line("a.b", r"it's \n").unwrap(), "a.b = 'it''s \\\\n'\n");
        for (name, value) in [("", "1"), ("a b", "1"), ("a", "1\nfsync = off"), ("1a", "1")] {
            let error = line(name, value).unwrap_err().to_string();
            assert!(error.contains("no setting"), "{error}");
        }
    }

    #[test]
    fn a_log_is_read_for_what_to_do() {
        let full = "initdb: error: could not write to file: No space left on device";
        assert!(advice(full).contains("disk is full"));
        assert_eq!(advice("something else"), "");
        assert!(is_taken(
            "LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use"
        ));
        assert!(!is_taken("could not bind: Permission denied"));
    }

    #[test]
    fn where_nothing_is_found_the_error_says_what_was_tried() {
        let error = StartError::Missing {
            rejected: vec![Rejected { folder: "/opt/pg".into(), cause: "release 9.6".to_owned() }],
            fetch: Some(FetchError::Transfer { url: "u".to_owned(), cause: "no route".to_owned() }),
        };
        let text = error.to_string();
        for words in ["/opt/pg: release 9.6", "cannot fetch u: no route", "apt-get install"] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn passwords_differ() {
        let one = random().unwrap();
        assert_eq!(one.len(), 32);
        assert_ne!(one, random().unwrap());
    }
}
