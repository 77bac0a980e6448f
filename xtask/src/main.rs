//! Automates: one entry for everything that a person or CI does to this repository.

// Printing is what this program is for; the library crates keep the lint.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod background;
mod bench;
mod drivers;
mod exec;
mod fuzz;
mod manifest;
mod needs;
mod pipeline;
mod processor;
mod programs;
mod python;
mod source;
mod supply;
mod tidy;
mod tree;
mod web;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pipeline::Suite;

const USAGE: &str = "\
usage: cargo xtask <verb>

  check                       format, tidy, clippy and tests: before every commit
  test                        installs what the tests need, then runs what CI runs: a bounded share of seeds,
                              tables and crashes
  test --long                 the whole of them, soaks of 120 s each, optional features too: hours;
                              SEKISHO_LONG=SECONDS asks one test for the same
  ci                          the same as test
  tidy                        the rules of ARCHITECTURE.md and STYLE.md that a machine can check
  tidy --figures              lines, largest circle, notes and openings of every crate
  tidy --policies             writes the tables of the policies into docs/gate.md
  schemas                     writes the JSON Schemas of `--json` and of kept files into docs/schemas,
                              and docs/jungle-openapi.json
  supply                      licences, versions and origins of what we depend on (deny.toml)
  web [--check]               builds the module of the reports' sliders (WebAssembly) that is kept with the
                              code; --check compares it with the kept one instead
  references                  writes docs/schemas/*.toml.json and the references of our files from the types
  drivers                     installs real drivers of PostgreSQL and runs them against the gate
  python                      builds the Python package in target/python and runs its tests
  demo [ARGS]                 builds the release binary and runs `sekisho demo ARGS`
  bench [NAME ...] [--small]  runs crates/bench/src/bin/NAME.rs, all without a NAME
  bench agents --rival pekko  an actor library of the JVM instead, by Java 17 and Maven
  fuzz [TARGET] [--seconds N] runs the fuzz targets, 60 s each unless told

exit codes: 0 all is well, 1 something failed, 2 usage, or something is missing that you must install";

/// Why a verb did not succeed; decides the exit code.
enum Stop {
    /// A check, test or program failed, and has said so (exit 1).
    Failed,
    /// The command line is wrong or the machine lacks something (exit 2).
    Unusable(String),
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed) => ExitCode::from(1),
        Err(Stop::Unusable(message)) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Stop> {
    let root = root();
    let Some((verb, rest)) = args.split_first() else {
        return Err(Stop::Unusable(USAGE.to_owned()));
    };
    let takes_args = matches!(verb.as_str(), "demo" | "bench" | "fuzz" | "web" | "test" | "tidy");
    if !takes_args && !rest.is_empty() {
        return Err(Stop::Unusable(format!(
            "xtask {verb}: takes no arguments, got `{}`\n\n{USAGE}",
            rest.join(" ")
        )));
    }
    match verb.as_str() {
        "check" => pipeline::check(&root),
        "test" | "ci" => {
            let suite = match rest {
                [] => Suite::Short,
                [flag] if flag == "--long" => Suite::Long,
                _ => {
                    return Err(Stop::Unusable(format!(
                        "xtask test: takes --long alone\n\n{USAGE}"
                    )));
                }
            };
            needs::install().map_err(Stop::Unusable)?;
            pipeline::test(&root, suite)
        }
        "tidy" => tidy(&root, rest),
        "schemas" => own_check(verb, schemas(&root)),
        "supply" => own_check(verb, supply::run(&root)),
        "web" => web(&root, rest),
        "python" => own_check(verb, python::run(&root)),
        "references" => references(&root),
        "drivers" => own_check(verb, drivers::run(&root, &mut |line| println!("{line}"))),
        "demo" => demo(&root, rest),
        "bench" => bench::run(&root, rest),
        "fuzz" => fuzz::run(&root, rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        unknown => Err(Stop::Unusable(format!("xtask: no verb `{unknown}`\n\n{USAGE}"))),
    }
}

fn own_check(verb: &str, result: Result<(), String>) -> Result<(), Stop> {
    result.map(|()| println!("{verb}: ok")).map_err(|report| {
        eprintln!("{report}");
        Stop::Failed
    })
}

/// The tests that hold `docs/schemas` and the description of Jungle's server to the types write them too: only the
/// tests are built.
fn schemas(root: &Path) -> Result<(), String> {
    for (package, test) in [
        ("jungle_server", "described::the_description_in_docs_is_the_one_that_is_served"),
        ("sekisho", "schemas::the_schemas_in_docs_are_those_of_the_types"),
    ] {
        let words = ["test", "--quiet", "-p", package, "--test", "it", "--", "--exact", test];
        let status = exec::cargo(root, &words).env("SEKISHO_SCHEMAS", "write").status();
        if !status.map_err(|error| format!("cargo does not start: {error}"))?.success() {
            return Err(format!("the schemas of {package} could not be written"));
        }
    }
    Ok(())
}

fn tidy(root: &Path, args: &[String]) -> Result<(), Stop> {
    match args {
        [] => own_check("tidy", tidy::run(root)),
        [flag] if flag == "--figures" => {
            print!("{}", tidy::figures(root).map_err(Stop::Unusable)?);
            Ok(())
        }
        [flag] if flag == "--policies" => own_check("policies", tidy::policies::write(root)),
        _ => Err(Stop::Unusable(format!("xtask tidy: takes one of its flags\n\n{USAGE}"))),
    }
}

fn web(root: &Path, args: &[String]) -> Result<(), Stop> {
    match args {
        [] => own_check("web", web::build(root)),
        [flag] if flag == "--check" => own_check("web --check", web::check(root)),
        _ => Err(Stop::Unusable(format!("xtask web: takes --check alone\n\n{USAGE}"))),
    }
}

fn references(root: &Path) -> Result<(), Stop> {
    let command = &mut exec::cargo(root, &["run", "--quiet", "-p", "reference"]);
    let status = command
        .status()
        .map_err(|error| Stop::Unusable(format!("cargo does not start: {error}")))?;
    if status.success() { Ok(()) } else { Err(Stop::Failed) }
}

fn demo(root: &Path, args: &[String]) -> Result<(), Stop> {
    let mut command = exec::cargo(root, &["run", "--release", "-p", "sekisho", "--", "demo"]);
    let status = command
        .args(args)
        .status()
        .map_err(|error| Stop::Unusable(format!("cargo does not start: {error}")))?;
    if status.success() { Ok(()) } else { Err(Stop::Failed) }
}

/// The repository: the folder above this package. Asked at run time first, because a binary that
/// was built elsewhere and shares the target folder would name the other clone.
fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().expect("the package is a folder inside the repository").to_path_buf()
}
