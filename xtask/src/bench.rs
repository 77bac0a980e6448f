//! Benchmarks: programs `crates/*/examples/bench_NAME.rs`, built in release, that print ratios
//! measured within one run. What they print is kept with what is needed to run it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Stop;
use crate::exec;
use crate::manifest::{self, Package};
use crate::tree::Tree;

/// Runs the benchmarks that are named, or all.
///
/// # Errors
/// A name is not known, or a benchmark fails; the others still run.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<(), Stop> {
    let known = find(root).map_err(Stop::Unusable)?;
    let list: Vec<&str> = known.keys().map(String::as_str).collect();
    println!("benchmarks: {}", if list.is_empty() { "none".to_owned() } else { list.join(", ") });
    if let Some(unknown) = names.iter().find(|name| !known.contains_key(*name)) {
        return Err(Stop::Unusable(format!("xtask bench: no benchmark `{unknown}`")));
    }
    let chosen = known.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    let mut failed = Vec::new();
    for (name, package) in chosen {
        println!("\n=== {name} (crate {package})");
        if let Err(report) = run_one(root, name, package) {
            println!("{report}");
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    println!("\nfailed: {}", failed.join(", "));
    Err(Stop::Failed)
}

/// The benchmarks by name, each with the crate that it belongs to.
fn find(root: &Path) -> Result<BTreeMap<String, String>, String> {
    among(&Tree::read(root)?, &manifest::packages(root)?)
}

fn among(tree: &Tree, packages: &[Package]) -> Result<BTreeMap<String, String>, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (path, _) in tree.with_extension("rs") {
        let Some((folder, name)) =
            path.strip_suffix(".rs").and_then(|path| path.split_once("/examples/bench_"))
        else {
            continue;
        };
        // The parts of a benchmark lie in a folder of its name.
        if name.contains('/') {
            continue;
        }
        let manifest = format!("{folder}/Cargo.toml");
        let Some(package) = packages.iter().find(|package| package.manifest == manifest) else {
            continue;
        };
        if let Some(other) = found.insert(name.to_owned(), package.name.clone()) {
            return Err(format!("`{other}` and `{}` both have a benchmark `{name}`", package.name));
        }
    }
    Ok(found)
}

fn run_one(root: &Path, name: &str, package: &str) -> Result<(), String> {
    let example = format!("bench_{name}");
    let args = ["run", "--release", "-p", package, "--example", &example];
    let mut text = head(root, &format!("cargo {}", args.join(" ")));
    exec::listen(&mut exec::cargo(root, &args), exec::SILENCE_MAX, &mut |line| {
        println!("{line}");
        text.push_str(line);
        text.push('\n');
    })?;
    // Kept only now: half a table looks like a whole one.
    let folder = format!("bench/runs/{}-{}", date(now()), machine());
    let path = format!("{folder}/{name}.txt");
    let write = || {
        fs::create_dir_all(root.join(&folder))?;
        fs::write(root.join(&path), text)
    };
    write().map_err(|error: std::io::Error| format!("{path}: cannot be written: {error}"))?;
    println!("--- kept in {path}");
    Ok(())
}

/// What is needed to run it again and to judge it.
fn head(root: &Path, line: &str) -> String {
    let ask = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        exec::clean(command.args(args), root);
        exec::output_of(&mut command).map_or("unknown".to_owned(), |text| text.trim().to_owned())
    };
    let seconds = now();
    let of_day = seconds % 86_400;
    let facts = [
        ("command", line.to_owned()),
        ("date", format!("{} {:02}:{:02} UTC", date(seconds), of_day / 3600, of_day / 60 % 60)),
        ("commit", ask("git", &["describe", "--always", "--dirty", "--abbrev=12"])),
        ("compiler", ask("rustc", &["--version"])),
        ("machine", machine()),
        ("kernel", ask("uname", &["-sr"])),
    ];
    let mut text = String::new();
    for (name, value) in facts {
        writeln!(text, "# {name}: {value}").expect("a String takes every text");
    }
    text
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The date of a time in seconds since 1970, in UTC, in the Gregorian calendar.
fn date(seconds: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut day = seconds / 86_400;
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, day + 1)
}

/// The processor and the number of CPUs, fit for a file name. Not the host's name: in a container
/// it is chance, and elsewhere it is nobody's business.
fn machine() -> String {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    format!("{}-{cpus}cpu", slug(model))
}

/// Small letters, digits and single hyphens.
fn slug(text: &str) -> String {
    let lower = text.to_ascii_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages() -> Vec<Package> {
        ["load", "sim"]
            .map(|name| Package {
                name: name.to_owned(),
                manifest: format!("crates/{name}/Cargo.toml"),
                uses: Vec::new(),
            })
            .to_vec()
    }

    #[test]
    fn benchmarks_are_found_with_their_crate() {
        let tree = Tree::of(&[
            ("crates/sim/examples/bench_events.rs", ""),
            ("crates/load/examples/bench_http.rs", ""),
            ("crates/load/examples/bench_http/clients.rs", ""),
            ("crates/load/examples/tour.rs", ""),
            ("crates/gone/examples/bench_gone.rs", ""),
        ]);
        let found = among(&tree, &packages()).unwrap();
        let pairs: Vec<_> = found.iter().map(|(name, of)| (&**name, &**of)).collect();
        assert_eq!(pairs, [("events", "sim"), ("http", "load")]);
    }

    #[test]
    fn two_benchmarks_of_one_name_are_an_error() {
        let tree = Tree::of(&[
            ("crates/sim/examples/bench_all.rs", ""),
            ("crates/load/examples/bench_all.rs", ""),
        ]);
        assert!(among(&tree, &packages()).unwrap_err().contains("both have a benchmark `all`"));
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_735_689_600, "2025-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), day);
        }
    }

    #[test]
    fn a_machine_is_a_file_name() {
        assert_eq!(slug(" Intel(R) Xeon(R) CPU @ 2.20GHz"), "intel-xeon-cpu-2-20ghz");
    }
}
