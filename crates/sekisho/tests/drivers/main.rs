//! Drivers that people use to talk to PostgreSQL, before the running `sekisho gate postgres`: each
//! driver in transaction and in session mode, more clients than slots, as it behaves when nobody
//! tunes it.
//!
//! A driver is a program of its own language in a folder beside this file, but for two that are
//! written here. It prints a line a check, `ok NAME`, and ends with a failure if one does not hold.
//! `cargo xtask drivers` installs what the programs need, and then runs this. That is why the tests are
//! a binary of their own, which `cargo test` leaves alone.

mod behind;
mod libpq;
mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

use behind::{Behind, Mode, run};

/// Checks that each driver must pass.
const CHECKS: [&str; 8] =
    ["transactions", "prepared", "pipeline", "copy", "cancel", "error", "types", "notify"];

/// Folder in which `cargo xtask drivers` has put what the programs need.
fn installed(name: &str) -> PathBuf {
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let folder = target.join("drivers").join(name);
    assert!(folder.is_dir(), "{}: not there; run: cargo xtask drivers", folder.display());
    folder
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(path)
}

/// Runs a driver's program against a gate of its own.
fn drive(mode: Mode, name: &str, mut program: Command) {
    let behind = Behind::start(mode);
    behind.tell(&mut program, name);
    let checks = run(program);
    assert_eq!(checks, CHECKS, "{name} in {mode:?} mode has shown other things");
    behind.end();
}

/// A driver does not give up its connection for a refusal at the gate, which is none of the session's.
#[test]
fn a_refusal_leaves_a_connection_that_can_be_used() {
    let behind = Behind::start_with(Mode::Transaction, &["--slots", "1", "--wait-max", "300ms"]);
    let programs = [
        ("psycopg", python("psycopg/refused.py")),
        ("asyncpg", python("asyncpg/refused.py")),
        ("pgx", pgx()),
        ("jdbc", java()),
        ("node_postgres", node("node/refused.js")),
    ];
    for (driver, mut program) in programs {
        behind.tell(&mut program, &format!("{driver}_refused"));
        // Who has one program for all is told what to show.
        program.arg("refused");
        let checks = run(program);
        assert_eq!(checks, ["simple", "prepared", "pipeline", "copy"], "{driver}");
    }
    behind.end();
}

fn python(name: &str) -> Command {
    let mut command = Command::new(installed("python").join("venv/bin/python"));
    command.arg("-B").arg(source(name));
    command
}

fn java() -> Command {
    let folder = installed("jdbc");
    let mut command = Command::new("java");
    // The just-in-time compiler would cost more than it saves in so short a run.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    command.arg(format!("{0}/classes:{0}/lib/*", folder.display())).arg("Drive");
    command
}

fn pgx() -> Command {
    Command::new(installed("pgx").join("drive"))
}

fn node(name: &str) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", installed("node").join("node_modules")).arg("--no-deprecation");
    command.arg(source(name));
    command
}

/// The tests of a driver, one a mode.
macro_rules! drivers {
    ($($name:ident: $program:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn in_transaction_mode() {
                drive(Mode::Transaction, stringify!($name), $program);
            }

            #[test]
            fn in_session_mode() {
                drive(Mode::Session, stringify!($name), $program);
            }
        }
    )*};
}

drivers! {
    psycopg: python("psycopg/drive.py");
    asyncpg: python("asyncpg/drive.py");
    pgx: pgx();
    jdbc: java();
    node_postgres: node("node/drive.js");
}
