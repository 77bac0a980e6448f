//! Places of PostgreSQL's programs: on the search path, where systems install them, or fetched.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::{self, Account};

/// The releases that will do, by their first numbers.
pub const MAJOR_MIN: u32 = 14;
/// The newest of them.
pub const MAJOR_MAX: u32 = 18;
/// The programs that a server needs.
const NEEDED: [&str; 2] = ["postgres", "initdb"];
/// Folders in which systems install releases side by side, and the part of the path in between.
const ROOTS: [(&str, &str, &str); 4] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/lib", "postgresql", "bin"),
    ("/usr/local", "pgsql", "bin"),
];

/// Places to look for PostgreSQL's programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// On this machine; if there is none that will do, fetched.
    #[default]
    Anywhere,
    /// On this machine only.
    Machine,
    /// Of this release, by its first number: on this machine, or fetched if it is the one that is.
    Release(u32),
    /// Fetched only, or what was fetched before.
    Fetched,
    /// In this folder only.
    Folder(PathBuf),
}

/// PostgreSQL's programs, of a release that will do, which the server's user can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
    version: String,
    major: u32,
}

/// A folder with programs that will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The folder.
    pub folder: PathBuf,
    /// The fault.
    pub cause: String,
}

impl Programs {
    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The release, as in `15.18` or `18.1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The first number of the release.
    pub fn major(&self) -> u32 {
        self.major
    }

    pub(crate) fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// Looks on this machine, for one release if one is wanted: what the search path has first, then
    /// the newest.
    pub(crate) fn on_machine(
        wanted: Option<u32>,
        account: Option<&Account>,
    ) -> Result<Programs, Vec<Rejected>> {
        let look = |folder: &Path| {
            let programs = Programs::in_folder(folder, account)?;
            match wanted {
                Some(major) if major != programs.major => {
                    let cause = format!("release {}, and {major} is wanted", programs.version);
                    Err(Rejected { folder: folder.to_owned(), cause })
                }
                _ => Ok(programs),
            }
        };
        let mut rejected = Vec::new();
        for folder in on_search_path() {
            match look(&folder) {
                Ok(programs) => return Ok(programs),
                Err(cause) => rejected.push(cause),
            }
        }
        let mut found = Vec::new();
        for folder in installed() {
            match look(&folder) {
                Ok(programs) => found.push(programs),
                Err(cause) => rejected.push(cause),
            }
        }
        found.into_iter().max_by_key(|programs| programs.major).ok_or(rejected)
    }

    /// The programs of one folder, which `account` must be able to run.
    pub(crate) fn in_folder(
        folder: &Path,
        account: Option<&Account>,
    ) -> Result<Programs, Rejected> {
        let reject = |cause: String| Rejected { folder: folder.to_owned(), cause };
        // A link in a folder of the search path would hide where the other programs are.
        let program = fs::canonicalize(folder.join(NEEDED[0]))
            .map_err(|error| reject(format!("no program `{}` there: {error}", NEEDED[0])))?;
        let real = program.parent().expect("a file is in a folder").to_owned();
        if let Some(missing) = NEEDED.iter().find(|name| !real.join(name).is_file()) {
            return Err(reject(format!("no program `{missing}` there")));
        }
        let mut command = Command::new(&program);
        account::run_as(&mut command, account);
        let output = command.arg("--version").stdin(Stdio::null()).output().map_err(|error| {
            let who = account.map_or("this user", |account| &account.name);
            reject(format!("{who} cannot run `{}`: {error}", program.display()))
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((version, major)) = parse_version(&text) else {
            let said = text + &String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().next_back().unwrap_or("nothing").to_owned();
            return Err(reject(format!("`postgres --version` says: {said}")));
        };
        if !(MAJOR_MIN..=MAJOR_MAX).contains(&major) {
            let cause = format!("release {version}, and {MAJOR_MIN} to {MAJOR_MAX} will do");
            return Err(reject(cause));
        }
        Ok(Programs { folder: real, version, major })
    }
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-0)`; a development release has letters.
fn parse_version(text: &str) -> Option<(String, u32)> {
    let version = text.strip_prefix("postgres (PostgreSQL) ")?.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version.to_owned(), version[..digits].parse().ok()?))
}

fn on_search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let has = |folder: &PathBuf| folder.is_absolute() && folder.join(NEEDED[0]).is_file();
    env::split_paths(&path).filter(has).collect()
}

/// Folders where systems put releases, and the one that the tool for developers names.
fn installed() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (root, prefix, last) in ROOTS {
        let Ok(entries) = fs::read_dir(root) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let folder = entry.path().join(last);
            let named = name.to_str().is_some_and(|name| name.starts_with(prefix));
            if named && folder.join(NEEDED[0]).is_file() {
                found.push(folder);
            }
        }
    }
    let mut config = Command::new("pg_config");
    if let Ok(output) = config.arg("--bindir").stdin(Stdio::null()).output() {
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if folder.is_absolute() && folder.join(NEEDED[0]).is_file() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_version_is_read_with_and_without_a_distribution() {
        let major = |text: &str| parse_version(text).map(|(_, major)| major);
        assert_eq!(major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 18.1\n"), Some(18));
        assert_eq!(major("postgres (PostgreSQL) 19devel\n"), Some(19));
        assert_eq!(major("postgres: error while loading shared libraries"), None);
    }

    /// A folder with a `postgres` that says what it is told to.
    fn folder(name: &str, version: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("sekisho-pg-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for program in NEEDED {
            let path = folder.join(program);
            fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    #[test]
    fn what_will_not_do_is_named_with_the_cause() {
        let old = folder("old", "postgres (PostgreSQL) 13.9");
        let cause = Programs::in_folder(&old, None).unwrap_err().cause;
        assert_eq!(cause, "release 13.9, and 14 to 18 will do");
        fs::remove_file(old.join("initdb")).unwrap();
        let cause = Programs::in_folder(&old, None).unwrap_err().cause;
        assert_eq!(cause, "no program `initdb` there");
        fs::remove_dir_all(&old).unwrap();
        let cause = Programs::in_folder(&old, None).unwrap_err().cause;
        assert!(cause.starts_with("no program `postgres` there"), "{cause}");
        let other = folder("other", "a sheep");
        let cause = Programs::in_folder(&other, None).unwrap_err().cause;
        assert!(cause.ends_with("says: a sheep"), "{cause}");
        fs::remove_dir_all(&other).unwrap();
        let new = folder("new", "postgres (PostgreSQL) 18.0");
        let found = Programs::in_folder(&new, None).unwrap();
        assert_eq!((found.version(), found.major()), ("18.0", 18));
        fs::remove_dir_all(&new).unwrap();
    }
}
