//! Fuzzing: the targets of the workspace `fuzz/`, each for a bounded time. They need a nightly
//! compiler and cargo-fuzz, so they are no part of the tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

use crate::{Stop, exec};

/// How long each target runs unless told, in seconds.
const SECONDS: u64 = 60;

/// The wish of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    /// One target, or all.
    target: Option<String>,
    /// The time that each runs, in seconds.
    seconds: u64,
}

/// Runs the target that is named, or all.
///
/// # Errors
/// The command line is wrong, the tools are missing, or a target finds an input that breaks us.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), Stop> {
    let wish = parse(args).map_err(Stop::Unusable)?;
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml"))
        .map_err(|error| Stop::Unusable(format!("fuzz/Cargo.toml: cannot be read: {error}")))?;
    let known = targets(&manifest).map_err(Stop::Unusable)?;
    let chosen = choose(&known, &wish).map_err(Stop::Unusable)?;
    tools(root).map_err(Stop::Unusable)?;
    let mut is_well = true;
    for target in chosen {
        println!("\n=== fuzz {target}: {} s", wish.seconds);
        if let Err(error) = run_one(root, target, wish.seconds) {
            println!("{error}");
            is_well = false;
        }
    }
    if is_well { Ok(()) } else { Err(Stop::Failed) }
}

/// Builds a target and runs it.
fn run_one(root: &Path, target: &str, seconds: u64) -> Result<(), String> {
    let echo = &mut |line: &str| println!("{line}");
    exec::listen(&mut nightly(root, &["fuzz", "build", target]), exec::SILENCE_MAX, echo)?;
    // What it finds goes to the first folder; the seeds stay as they are.
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    fs::create_dir_all(root.join(&corpus))
        .map_err(|error| format!("{corpus}: cannot be made: {error}"))?;
    let limit = format!("-max_total_time={seconds}");
    let args = ["fuzz", "run", target, &corpus, &seeds, "--", &limit];
    exec::listen(&mut nightly(root, &args), exec::SILENCE_MAX, echo)
        .map_err(|error| format!("{error}\n--- the input is in fuzz/artifacts/{target}"))
}

fn parse(args: &[String]) -> Result<Wish, String> {
    let mut wish = Wish { target: None, seconds: SECONDS };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--seconds" => {
                let number = rest.next().and_then(|text| text.parse().ok());
                wish.seconds = number
                    .filter(|seconds| *seconds > 0)
                    .ok_or("xtask fuzz: --seconds takes a whole number of seconds, at least 1")?;
            }
            name if !name.starts_with('-') && wish.target.is_none() => {
                wish.target = Some(name.to_owned());
            }
            unknown => return Err(format!("xtask fuzz: cannot use `{unknown}`")),
        }
    }
    Ok(wish)
}

/// The names of the programs of the fuzzing workspace.
fn targets(manifest: &str) -> Result<Vec<String>, String> {
    let table: Table = manifest.parse().map_err(|error| format!("fuzz/Cargo.toml: {error}"))?;
    let programs = table.get("bin").and_then(Value::as_array).map(Vec::as_slice);
    let name = |program: &Value| Some(program.get("name")?.as_str()?.to_owned());
    let names: Vec<String> = programs.unwrap_or_default().iter().filter_map(name).collect();
    if names.is_empty() {
        Err("fuzz/Cargo.toml: no [[bin]] with a name".to_owned())
    } else {
        Ok(names)
    }
}

fn choose<'a>(known: &'a [String], wish: &Wish) -> Result<Vec<&'a String>, String> {
    let Some(target) = &wish.target else { return Ok(known.iter().collect()) };
    match known.iter().find(|name| *name == target) {
        Some(name) => Ok(vec![name]),
        None => Err(format!("xtask fuzz: no target `{target}`; there are {}", known.join(", "))),
    }
}

fn tools(root: &Path) -> Result<(), String> {
    for (args, line) in [
        (["--version", "--quiet"], "rustup toolchain install nightly --profile minimal"),
        (["fuzz", "--version"], "cargo install cargo-fuzz --locked"),
    ] {
        if exec::output_of(&mut nightly(root, &args)).is_err() {
            return Err(format!("to install what fuzzing needs, run:\n{line}"));
        }
    }
    Ok(())
}

/// Cargo of the nightly toolchain, by rustup's way to choose one.
fn nightly(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    exec::clean(command.arg("+nightly").args(args), root);
    command.env_remove("RUSTUP_TOOLCHAIN");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(line: &str) -> Result<Wish, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read() {
        assert_eq!(wish(""), Ok(Wish { target: None, seconds: SECONDS }));
        let both = Wish { target: Some("scenario".to_owned()), seconds: 5 };
        assert_eq!(wish("scenario --seconds 5").as_ref(), Ok(&both));
        assert_eq!(wish("--seconds 5 scenario"), Ok(both));
        for wrong in ["--seconds", "--seconds 0", "--seconds 1m", "--fast", "a b"] {
            assert!(wish(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let known =
            targets("[[bin]]\nname = \"scenario\"\n[[bin]]\nname = \"response\"\n").unwrap();
        assert_eq!(known, ["scenario", "response"]);
        assert!(targets("[package]\nname = \"fuzz\"\n").is_err());
        assert_eq!(choose(&known, &wish("").unwrap()).unwrap().len(), 2);
        assert_eq!(choose(&known, &wish("response").unwrap()).unwrap(), ["response"]);
        assert!(
            choose(&known, &wish("request").unwrap()).unwrap_err().contains("scenario, response")
        );
    }
}
