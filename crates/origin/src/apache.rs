//! A private Apache with preforked helpers: the machine's own program, with a configuration, a
//! port and a folder that last as long as the run.
//!
//! The kernel's accept queue is the dispatcher of fujita's model: idle helpers wait in `accept`,
//! and the kernel hands them connections first come, first served. Apache's prefork module cannot
//! fork for each request (it replaces helpers that end once a second, a few at a time); the
//! built-in origin can.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::affinity::Mask;
use crate::document::{self, Document, DocumentError, Noise, PIECE};
use crate::kept::Kept;
use crate::kernel;
use crate::origin::Memory;

/// Debian's paths of the program and its modules.
const PROGRAM: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";
/// The most helpers.
const HELPERS_MAX: u32 = 1024;
/// Time limit until all helpers are there, and of the end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit of further free ports that are tried if somebody takes one before Apache does.
const PORTS_MAX: usize = 5;
/// A document that no caller can name. That our log grows shows that our Apache answered.
const READY: &str = ".ready";
/// The length of a line in the access log, which holds the status alone: so the length of the log
/// tells how many requests were answered, and nobody has to ask a busy server.
const LOG_LINE: u64 = 4;

/// The Apache that is installed on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apache {
    program: PathBuf,
    modules: PathBuf,
}

/// Why there is no Apache to start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no Apache here ({} is missing). It is in the Debian package apache2-bin; as root, run: \
     apt-get install --yes --no-install-recommends apache2-bin", missing.display()
)]
pub struct ApacheMissing {
    /// The first file that was not found.
    pub missing: PathBuf,
}

/// Source of the CPU time of a request for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Each response is compressed, at level 1, although its bytes do not become fewer: some 14 us
    /// per KB. The response is sent with `Content-Encoding: gzip`, also to a client that did not
    /// say whether it takes that, so that no client escapes the work.
    Deflate,
    /// The kernel sends the file: next to nothing per byte.
    Sendfile,
    /// The helper maps the file and writes it: one copy per byte.
    NoSendfile,
}

/// Configuration of a private Apache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApacheConfig {
    /// Served at `/<name>`, filled with random bytes.
    pub documents: Vec<Document>,
    /// The seed of those bytes.
    pub seed: u64,
    /// Number of helper processes, r: always that many; 1 to 1024.
    pub helpers: u32,
    /// The source of CPU time.
    pub work: Work,
    /// True if a connection may carry several requests; it then holds its helper for up to 5 s of
    /// silence.
    pub keep_alive: bool,
    /// The CPU that all helpers share; `None` leaves them where the caller runs.
    pub cpu: Option<usize>,
    /// Length of the kernel's queue of connections in front of the helpers.
    pub backlog: u32,
    /// The size of a socket's send buffer \[byte\]; `None` leaves it to the kernel, which takes up to
    /// some 4 MB of a document out of the helper's hands at once.
    pub send_buffer: Option<u32>,
}

/// Why a private Apache did not start.
#[derive(Debug, thiserror::Error)]
pub enum ApacheError {
    /// No helpers, or more than there may be.
    #[error("{helpers} helpers: use 1 to {HELPERS_MAX}")]
    Helpers {
        /// The number that was asked for.
        helpers: u32,
    },
    /// The kernel would silently cut the backlog.
    #[error(
        "a backlog of {backlog} connections, of which the kernel keeps {limit}: \
         use 1 to {limit}, or raise net.core.somaxconn"
    )]
    Backlog {
        /// The number that was asked for.
        backlog: u32,
        /// The kernel's limit.
        limit: u32,
    },
    /// A document cannot be served.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// Apache must not serve as root, and there is nobody else.
    #[error("running as root, and /etc/passwd has neither www-data nor nobody to serve as")]
    User,
    /// The helpers cannot run on the CPU that was named.
    #[error("cannot run on CPU {cpu}: {source}; see `taskset -p $$` for those that can be used")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// The error of the kernel.
        source: io::Error,
    },
    /// It ended, or did not answer in time.
    #[error("Apache {what}; it says: {log}")]
    NotReady {
        /// The behaviour of Apache.
        what: String,
        /// The end of its error log.
        log: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The purpose of the call.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// Work of a private Apache so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApacheUsage {
    /// Requests that were answered, with any status.
    pub answered: u64,
    /// Its helpers, by process number.
    pub helpers: Vec<HelperUsage>,
}

/// CPU time and requests of one helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperUsage {
    /// Its process.
    pub pid: u32,
    /// The CPU time it used since it was forked.
    pub cpu: Duration,
}

/// A running private Apache; ends when dropped.
#[derive(Debug)]
pub struct ApacheServer {
    kept: Kept,
    address: SocketAddr,
    /// The length of the access log when the server was handed over \[byte\].
    log_start: u64,
    folder: Folder,
}

impl Apache {
    /// Looks for Apache where Debian puts it.
    ///
    /// # Errors
    /// If it or one of the modules is missing; the message says which package brings it.
    pub fn find() -> Result<Apache, ApacheMissing> {
        Apache::find_in(Path::new(PROGRAM), Path::new(MODULES))
    }

    fn find_in(program: &Path, modules: &Path) -> Result<Apache, ApacheMissing> {
        let apache = Apache { program: program.to_owned(), modules: modules.to_owned() };
        let names = ["mpm_prefork", "authz_core", "env", "deflate"];
        let files = names.map(|name| apache.module(name));
        for file in std::iter::once(program).chain(files.iter().map(PathBuf::as_path)) {
            if !file.is_file() {
                return Err(ApacheMissing { missing: file.to_owned() });
            }
        }
        Ok(apache)
    }

    fn module(&self, name: &str) -> PathBuf {
        self.modules.join(format!("mod_{name}.so"))
    }

    /// Starts a private Apache on a free port of 127.0.0.1. When this returns, all helpers are
    /// there and it answers.
    ///
    /// # Errors
    /// If the configuration is not sound, the system refuses what it asks for, or Apache does not
    /// come up; nothing is left running or lying about then.
    pub fn start(&self, config: &ApacheConfig) -> Result<ApacheServer, ApacheError> {
        config.check()?;
        let folder = Folder::new().map_err(system("make a folder in the temporary folder"))?;
        write_documents(&folder.0, config).map_err(system("write the documents"))?;
        let account = account()?;
        let mut tries = 1..=PORTS_MAX;
        loop {
            tries.next();
            let address = free_address().map_err(system("find a free port"))?;
            let text = self.text(config, address, &account);
            fs::write(folder.0.join("apache.conf"), text).map_err(system("write a file"))?;
            let mut kept = self.spawn(config, &folder.0)?;
            match wait_ready(&kept, address, config.helpers, &folder) {
                Ok(log_start) => return Ok(ApacheServer { kept, address, log_start, folder }),
                Err(what) => {
                    end(&mut kept);
                    let log = folder.log();
                    if !log.contains("Address already in use") || tries.is_empty() {
                        return Err(ApacheError::NotReady { what, log });
                    }
                }
            }
        }
    }

    fn spawn(&self, config: &ApacheConfig, folder: &Path) -> Result<Kept, ApacheError> {
        let output = fs::File::create(folder.join("output.log")).map_err(system("write a file"))?;
        let errors = output.try_clone().map_err(system("write a file"))?;
        let mut command = Command::new(&self.program);
        command.arg("-d").arg(folder).args(["-f", "apache.conf", "-DFOREGROUND"]);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        if let Some(cpu) = config.cpu {
            let mask = Mask::single(cpu);
            #[allow(unsafe_code)]
            // SAFETY: the mask was built here; applying it is one system call.
            unsafe {
                command.pre_exec(move || mask.apply());
            }
        }
        // On this signal Apache ends its helpers before it ends itself.
        let kept = Kept::spawn(command, libc::SIGTERM).map(|(kept, _)| kept);
        kept.map_err(|source| match (source.raw_os_error(), config.cpu) {
            (Some(libc::EINVAL), Some(cpu)) => ApacheError::Cpu { cpu, source },
            _ => ApacheError::System { what: "start Apache", source },
        })
    }

    /// The configuration file. Every path but those of the modules is relative to the folder.
    fn text(&self, config: &ApacheConfig, address: SocketAddr, account: &str) -> String {
        let load =
            |name: &str| format!("LoadModule {name}_module \"{}\"\n", self.module(name).display());
        let on = |yes: bool| if yes { "On" } else { "Off" };
        let r = config.helpers;
        let mut text = load("mpm_prefork") + &load("authz_core");
        text += &format!(
            "ServerName 127.0.0.1\nListen {address}\nListenBacklog {}\nAcceptFilter http none\n\
             PidFile pid\nDefaultRuntimeDir .\nErrorLog error.log\nLogLevel warn\n\
             LogFormat \"%>s\" status\nCustomLog access.log status\nDocumentRoot documents\n\
             {account}ServerLimit {r}\nMaxRequestWorkers {r}\nStartServers {r}\n\
             MinSpareServers {r}\nMaxSpareServers {}\nMaxConnectionsPerChild 0\nTimeout 60\n\
             KeepAlive {}\nMaxKeepAliveRequests 0\nKeepAliveTimeout 5\nEnableSendfile {}\n",
            config.backlog,
            r + 1,
            on(config.keep_alive),
            on(config.work == Work::Sendfile),
        );
        if let Some(bytes) = config.send_buffer {
            text += &format!("SendBufferSize {bytes}\n");
        }
        if config.work == Work::Deflate {
            text += &(load("env") + &load("deflate"));
            text += "SetOutputFilter DEFLATE\nDeflateCompressionLevel 1\nSetEnv force-gzip 1\n";
        }
        text
    }
}

impl ApacheConfig {
    fn check(&self) -> Result<(), ApacheError> {
        if !(1..=HELPERS_MAX).contains(&self.helpers) {
            return Err(ApacheError::Helpers { helpers: self.helpers });
        }
        let (backlog, limit) = (self.backlog, kernel::backlog_max());
        if !(1..=limit).contains(&backlog) {
            return Err(ApacheError::Backlog { backlog, limit });
        }
        document::check(&self.documents)?;
        Ok(())
    }
}

impl ApacheServer {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that forked the helpers.
    pub fn pid(&self) -> u32 {
        self.kept.pid()
    }

    /// Its work so far.
    ///
    /// # Errors
    /// If its log or its processes cannot be looked at.
    pub fn usage(&self) -> io::Result<ApacheUsage> {
        let log = fs::metadata(self.folder.access_log())?.len();
        let mut helpers = Vec::new();
        for pid in kernel::children(self.pid())? {
            helpers.push(HelperUsage { pid, cpu: kernel::cpu_time(pid)? });
        }
        Ok(ApacheUsage { answered: log.saturating_sub(self.log_start) / LOG_LINE, helpers })
    }

    /// The memory of its processes.
    ///
    /// # Errors
    /// If the kernel does not show a helper's memory (`/proc/<pid>/smaps_rollup`): helpers are not
    /// root even where we are, and a container may lack CAP_SYS_PTRACE.
    pub fn memory(&self) -> io::Result<Memory> {
        kernel::memory(self.pid(), &kernel::children(self.pid())?)
    }

    /// Ends it and its helpers, and removes its folder. Dropping does the same.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ApacheServer {
    fn drop(&mut self) {
        end(&mut self.kept);
    }
}

fn end(kept: &mut Kept) {
    kept.signal(libc::SIGTERM);
    kept.end(PATIENCE);
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ApacheError {
    move |source| ApacheError::System { what, source }
}

/// A folder that is removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let mut tries = 0_u32..1_000;
        let path = loop {
            let number = tries.next().ok_or(io::ErrorKind::AlreadyExists)?;
            let name = format!("sekisho-apache-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // Fails where anything of that name exists, so nobody can put a trap there.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let folder = Folder(path);
        fs::create_dir(folder.0.join("documents"))?;
        // Helpers run as somebody else and must find the documents, whatever the umask.
        for path in [folder.0.clone(), folder.0.join("documents")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(folder)
    }

    fn access_log(&self) -> PathBuf {
        self.0.join("access.log")
    }

    /// The last lines that Apache wrote about itself.
    fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.0.join(name)).unwrap_or_default();
        let all = read("output.log") + &read("error.log");
        let lines: Vec<&str> = all.lines().collect();
        if lines.is_empty() {
            return "nothing".to_owned();
        }
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is nobody to tell; a folder left in the temporary folder harms nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_documents(folder: &Path, config: &ApacheConfig) -> io::Result<()> {
    let mut noise = Noise(config.seed);
    let mut piece = vec![0; PIECE];
    for document in &config.documents {
        let path = folder.join("documents").join(&document.name);
        let mut file = fs::File::create_new(&path)?;
        let mut left = document.bytes;
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            noise.fill(&mut piece[..length]);
            file.write_all(&piece[..length])?;
            left -= length as u64;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    }
    let path = folder.join("documents").join(READY);
    fs::write(&path, "ready")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// The directives that make helpers of root serve as somebody without rights; empty where we are
/// not root ourselves.
fn account() -> Result<String, ApacheError> {
    #[allow(unsafe_code)]
    // SAFETY: a plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        return Ok(String::new());
    }
    let accounts =
        fs::read_to_string("/etc/passwd").map_err(system("look for an account to serve as"))?;
    let group_of = |name: &str| {
        let mut lines = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
        lines.find(|fields| fields.first() == Some(&name)).and_then(|fields| {
            let group: u32 = fields.get(3)?.parse().ok()?;
            Some(format!("User {name}\nGroup #{group}\n"))
        })
    };
    group_of("www-data").or_else(|| group_of("nobody")).ok_or(ApacheError::User)
}

/// A port that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Waits until all helpers are there and a request was answered and logged; returns the length of
/// the log then, or what went wrong.
fn wait_ready(
    kept: &Kept,
    address: SocketAddr,
    helpers: u32,
    folder: &Folder,
) -> Result<u64, String> {
    let begun = Instant::now();
    let mut answered = false;
    while begun.elapsed() < PATIENCE {
        if let Some(status) = kept.status() {
            return Err(format!("ended ({status})"));
        }
        if !answered {
            match fetch_status(address) {
                Ok(status) if status == "HTTP/1.1 200 OK" => answered = true,
                // The helpers are not there yet.
                Err(_) => {}
                Ok(status) => return Err(format!("answers {status:?} instead of a document")),
            }
        }
        let logged = fs::metadata(folder.access_log()).map_or(0, |log| log.len());
        let there = kernel::children(kept.pid()).map_or(0, |children| children.len());
        if answered && logged >= LOG_LINE && there == helpers as usize {
            return Ok(logged);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("did not come up within {} s", PATIENCE.as_secs()))
}

/// Asks for the document that is always there; returns the first line of the response.
fn fetch_status(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("GET /{READY} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut response = Vec::new();
    stream.take(1 << 16).read_to_end(&mut response)?;
    let line = String::from_utf8_lossy(&response);
    let line = line.lines().next().ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ApacheConfig {
        ApacheConfig {
            documents: vec![Document { name: "5k".to_owned(), bytes: 5_000 }],
            seed: 1,
            helpers: 4,
            work: Work::Sendfile,
            keep_alive: false,
            cpu: None,
            backlog: 128,
            send_buffer: None,
        }
    }

    #[test]
    fn a_missing_program_is_named_with_the_way_to_get_it() {
        let error = Apache::find_in(Path::new("/no/apache2"), Path::new(MODULES)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/no/apache2") && text.contains("apt-get install"), "{text}");
        let error = Apache::find_in(Path::new("/proc/self/exe"), Path::new("/no")).unwrap_err();
        assert_eq!(error.missing, Path::new("/no/mod_mpm_prefork.so"));
    }

    #[test]
    fn a_configuration_says_what_was_asked_for() {
        let apache = Apache { program: "/p".into(), modules: "/m".into() };
        let address = "127.0.0.1:81".parse().unwrap();
        let config = ApacheConfig { send_buffer: Some(65_536), ..config() };
        let text = apache.text(&config, address, "User www-data\n");
        let has = |line: &str| text.lines().any(|other| other == line);
        assert!(has("Listen 127.0.0.1:81") && has("ListenBacklog 128"), "{text}");
        assert!(has("StartServers 4") && has("MaxRequestWorkers 4"), "{text}");
        assert!(has("KeepAlive Off") && has("EnableSendfile On"), "{text}");
        assert!(has("SendBufferSize 65536") && has("User www-data"), "{text}");
        assert!(!text.contains("DEFLATE"), "{text}");
        let deflate = ApacheConfig { work: Work::Deflate, send_buffer: None, ..config };
        let text = apache.text(&deflate, address, "");
        assert!(text.contains("SetOutputFilter DEFLATE\nDeflateCompressionLevel 1\n"), "{text}");
        assert!(!text.contains("SendBufferSize"), "{text}");
    }

    #[test]
    fn a_configuration_that_cannot_be_kept_is_refused() {
        let refused = |change: fn(&mut ApacheConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err()
        };
        assert!(matches!(refused(|c| c.helpers = 0), ApacheError::Helpers { .. }));
        assert!(matches!(refused(|c| c.helpers = 1025), ApacheError::Helpers { .. }));
        assert!(matches!(refused(|c| c.backlog = 0), ApacheError::Backlog { .. }));
        let bad = refused(|c| c.documents[0].name = ".ready".to_owned());
        assert!(matches!(bad, ApacheError::Document(DocumentError::Name { .. })));
    }

    #[test]
    fn documents_are_random_bytes_of_the_right_length() {
        let folder = Folder::new().unwrap();
        let documents = vec![
            Document { name: "a".to_owned(), bytes: 0 },
            Document { name: "b".to_owned(), bytes: PIECE as u64 + 1 },
        ];
        write_documents(&folder.0, &ApacheConfig { documents, ..config() }).unwrap();
        let read = |name| fs::read(folder.0.join("documents").join(name)).unwrap();
        assert_eq!(read("a").len(), 0);
        let b = read("b");
        assert_eq!(b.len(), PIECE + 1);
        let zeros = b.iter().filter(|&&byte| byte == 0).count();
        // 256 are expected with a standard deviation of 16: six of them on either side.
        assert!((160..352).contains(&zeros), "{zeros} zeros");
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
