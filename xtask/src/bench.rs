//! Benchmarks: the programs of the crate `bench`, built in release, that print ratios measured within
//! one run. What they print is kept with what is needed to run it again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Stop;
use crate::exec;
use crate::tree::Tree;

/// The folder of the programs.
const FOLDER: &str = "crates/bench/src/bin/";

/// Options that take the next word as their value.
const VALUED: [&str; 2] = ["--part", "--rival"];

/// Runs the benchmarks that are named, or all. Words that begin with `--` go to each program, those of
/// [`VALUED`] with the word after them.
///
/// # Errors
/// A name is not known, or a benchmark fails; the others still run.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<(), Stop> {
    let (options, names) = split(words);
    let known = find(root).map_err(Stop::Unusable)?;
    println!("benchmarks: {}", known.join(", "));
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(Stop::Unusable(format!("xtask bench: no benchmark `{unknown}`")));
    }
    if let (Some(option), true) = (options.first(), names.is_empty()) {
        let told = format!("xtask bench: `{option}` goes to programs that you name");
        return Err(Stop::Unusable(told));
    }
    let mut failed = Vec::new();
    for name in known.iter().filter(|name| names.is_empty() || names.contains(name)) {
        println!("\n=== {name}");
        if let Err(report) = run_one(root, name, &options) {
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

/// The options, and the names of benchmarks.
fn split(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut options, mut names) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.starts_with("--") {
            true if VALUED.contains(&word.as_str()) => match words.next() {
                Some(value) => options.push(format!("{word}={value}")),
                None => options.push(word.clone()),
            },
            true => options.push(word.clone()),
            false => names.push(word.clone()),
        }
    }
    (options, names)
}

/// The name of what a benchmark prints under these options, fit for a file: a part does not go in the place
/// of the whole.
fn kept_as(name: &str, options: &[String]) -> String {
    let value = |option: &String| slug(option.split_once('=').map_or(option, |(_, value)| value));
    let words = options.iter().map(value);
    [name.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join("-")
}

/// The names of the benchmarks.
fn find(root: &Path) -> Result<Vec<String>, String> {
    Ok(among(&Tree::read(root)?))
}

/// The benchmark `NAME` is a file `NAME.rs` or, where it has parts, a folder with a `main.rs`.
fn among(tree: &Tree) -> Vec<String> {
    let name = |path: &str| {
        let name = path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
        let name = name.strip_suffix("/main").unwrap_or(name);
        (!name.contains('/')).then(|| name.to_owned())
    };
    tree.with_extension("rs").filter_map(|(path, _)| name(path)).collect()
}

fn run_one(root: &Path, name: &str, options: &[String]) -> Result<(), String> {
    let program = format!("bench_{name}");
    let mut args = vec!["run", "--release", "-p", "bench", "--bin", &program];
    if !options.is_empty() {
        args.push("--");
        args.extend(options.iter().map(String::as_str));
    }
    let mut text = head(root, &format!("cargo {}", args.join(" ")));
    exec::listen(&mut exec::cargo(root, &args), exec::SILENCE_MAX, &mut |line| {
        println!("{line}");
        text.push_str(line);
        text.push('\n');
    })?;
    // Kept only now: half a table looks like a whole one.
    let folder = format!("bench/runs/{}-{}", date(now()), machine());
    let path = format!("{folder}/{}.txt", kept_as(name, options));
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

    #[test]
    fn benchmarks_are_files_or_folders_with_parts() {
        let tree = Tree::of(&[
            ("crates/bench/src/bin/events.rs", ""),
            ("crates/bench/src/bin/http/clients.rs", ""),
            ("crates/bench/src/bin/http/main.rs", ""),
            ("crates/bench/src/lib.rs", ""),
            ("crates/load/src/bin/tour.rs", ""),
        ]);
        assert_eq!(among(&tree), ["events", "http"]);
    }

    #[test]
    fn every_benchmark_is_a_program_of_its_crate() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifest = fs::read_to_string(root.join("crates/bench/Cargo.toml")).unwrap();
        let known = find(root).unwrap();
        assert!(known.contains(&"postgres".to_owned()), "{known:?}");
        for name in &known {
            assert!(manifest.contains(&format!("name = \"bench_{name}\"\n")), "{name}");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), known.len());
    }

    /// `--rival pekko` was taken for a benchmark `pekko`.
    #[test]
    fn an_option_takes_its_value_along() {
        let words = ["agents", "--rival", "pekko", "--small"].map(str::to_owned);
        let (options, names) = split(&words);
        assert_eq!(
            (options.as_slice(), names.as_slice()),
            (
                ["--rival=pekko", "--small"].map(str::to_owned).as_slice(),
                ["agents".to_owned()].as_slice(),
            )
        );
        assert_eq!(kept_as("agents", &options), "agents-pekko-small");
        assert_eq!(kept_as("agents", &[]), "agents");
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
