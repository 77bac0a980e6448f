//! Programs on this machine: found on the search path, or where Debian puts them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Releases of Java that Cassandra 5 runs on, best first.
const JAVA: [u32; 2] = [17, 11];
/// Where Debian puts releases of Java side by side.
const JAVA_FOLDERS: &str = "/usr/lib/jvm";

/// A program on the search path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/bin", "/usr/bin", "/usr/sbin"].map(PathBuf::from);
    let mut folders = env::split_paths(&path).chain(more);
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// A Java that Cassandra runs on, and what was found that will not do.
pub(crate) fn java() -> Result<PathBuf, Vec<String>> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    candidates.extend(env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java")));
    candidates.extend(on_path("java"));
    let entries = std::fs::read_dir(JAVA_FOLDERS).into_iter().flatten().flatten();
    let mut installed: Vec<PathBuf> = entries.map(|entry| entry.path().join("bin/java")).collect();
    installed.sort();
    candidates.extend(installed);
    candidates.retain(|program| program.is_file());
    let mut rejected = Vec::new();
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for program in candidates {
        match release(&program) {
            Some(release) if JAVA.contains(&release) => found.push((release, program)),
            Some(release) => rejected.push(format!("{} is Java {release}", program.display())),
            None => rejected.push(format!("{} does not tell its release", program.display())),
        }
    }
    rejected.dedup();
    let best = JAVA.iter().find_map(|wanted| found.iter().find(|(release, _)| release == wanted));
    best.map(|(_, program)| program.clone()).ok_or(rejected)
}

fn release(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("-version").stdin(Stdio::null()).output().ok()?;
    parse_release(&String::from_utf8_lossy(&output.stderr))
}

/// The release in `openjdk version "17.0.15" 2025-04-15`; of `"1.8.0_392"` it is 8.
fn parse_release(text: &str) -> Option<u32> {
    let version = text.split_once("version \"")?.1;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        release => Some(release),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_of_java_is_read_from_what_it_says() {
        assert_eq!(parse_release("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(parse_release("Picked up X\njava version \"1.8.0_392\""), Some(8));
        assert_eq!(parse_release("openjdk version \"21\" 2023"), Some(21));
        assert_eq!(parse_release("no java"), None);
    }
}
