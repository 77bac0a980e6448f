//! Cassandra from Maven Central, by the machine's own Maven, once: a folder of jars in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;

use crate::lent::{LOOK, Settings, StartError, system};
use crate::programs;

/// The release.
const RELEASE: &str = "5.0.5";
/// The release of Maven's own part that copies what a project needs.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The folder with the jars of Cassandra, fetched if it is not there.
pub(crate) fn cassandra(settings: &Settings) -> Result<PathBuf, StartError> {
    let cache = settings.cache.clone().or_else(users_cache).ok_or(StartError::NoCache)?;
    let folder = cache.join(format!("cassandra-{RELEASE}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let maven = programs::on_path("mvn").ok_or_else(|| StartError::Missing {
        program: "mvn",
        found: Vec::new(),
        reason: format!("Cassandra {RELEASE} is fetched from Maven Central by it, once"),
        package: "maven",
    })?;
    (settings.notice)(&format!(
        "fetching Cassandra {RELEASE} from Maven Central, once: about 66 MB for {}, and what Maven itself needs",
        folder.display()
    ));
    let own = cache.join(format!("cassandra-{RELEASE}.part-{}", std::process::id()));
    fs::create_dir_all(&own).map_err(system(format!("make {}", own.display())))?;
    let fetched = fetch(&maven, &own, settings);
    let placed = fetched.and_then(|jars| match fs::rename(&jars, &folder) {
        // Somebody else was faster, with the same.
        Err(_) if folder.is_dir() => Ok(()),
        renamed => renamed.map_err(system(format!("make {}", folder.display()))),
    });
    // The error in hand says more than one about what is left.
    let _ = fs::remove_dir_all(&own);
    placed.map(|()| folder)
}

/// Lets Maven copy all jars into a folder inside `own`.
fn fetch(maven: &Path, own: &Path, settings: &Settings) -> Result<PathBuf, StartError> {
    let (pom, jars, log) = (own.join("pom.xml"), own.join("jars"), own.join("log"));
    fs::write(&pom, project()).map_err(system(format!("write {}", pom.display())))?;
    let out = fs::File::create(&log).map_err(system(format!("write {}", log.display())))?;
    let errors = out.try_clone().map_err(system("write Maven's log"))?;
    let mut child = Command::new(maven)
        .args(["--batch-mode", "--quiet", COPY, "-DincludeScope=runtime", "--file"])
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .map_err(system("start mvn"))?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(system("wait for mvn"))? {
            break status;
        }
        if settings.is_interrupted() {
            child.kill().and_then(|()| child.wait()).map_err(system("end mvn"))?;
            return Err(StartError::Interrupted);
        }
        thread::sleep(LOOK);
    };
    // Ctrl-C in a terminal is heard by Maven as well, and may end it before we look.
    if settings.is_interrupted() {
        return Err(StartError::Interrupted);
    }
    let is_whole = jars.join(format!("cassandra-all-{RELEASE}.jar")).is_file();
    if status.success() && is_whole {
        return Ok(jars);
    }
    let text = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().take(8).collect();
    Err(StartError::Fetch { release: RELEASE, log: lines.join("\n") })
}

fn project() -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>sekisho</groupId>\n  <artifactId>cassandra</artifactId>\n  <version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n    <dependency>\n      \
         <groupId>org.apache.cassandra</groupId>\n      <artifactId>cassandra-all</artifactId>\n      \
         <version>{RELEASE}</version>\n    </dependency>\n  </dependencies>\n</project>\n"
    )
}

/// The user's cache.
fn users_cache() -> Option<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("sekisho"))
}

impl Settings {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
