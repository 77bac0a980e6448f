//! What the tests need beside Rust: found on the machine, else installed, else named with the one
//! line to run. No test is skipped because something is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{exec, python};

/// A program that some test starts.
struct Need {
    /// Any one of these will do.
    programs: &'static [&'static str],
    /// The Debian package that holds it.
    package: &'static str,
    /// The test's reason.
    reason: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
        reason: "the report is opened in a real browser",
    },
    Need {
        programs: &["promtool"],
        package: "prometheus",
        reason: "the alerts of the gates are checked and tested; the program is in no smaller package",
    },
    Need {
        programs: &["apache2", "httpd"],
        package: "apache2-bin",
        reason: "a private prefork Apache is measured; the package starts no service",
    },
    Need { programs: &["nginx"], package: "nginx", reason: "a private nginx is measured" },
    Need {
        programs: &["python3"],
        package: "python3-venv",
        reason: "the Python package is built and tested in an environment of its own",
    },
    Need {
        programs: &["postgres"],
        package: "postgresql",
        reason: "private servers of the machine's own PostgreSQL are started",
    },
    Need {
        programs: &["mvn"],
        package: "maven",
        reason: "it brings the PostgreSQL that machines without one fetch, and the JDBC driver",
    },
    Need {
        programs: &["etcd"],
        package: "etcd-server",
        reason: "a private etcd keeps a bulletin board",
    },
    Need {
        programs: &["psql"],
        package: "postgresql-client",
        reason: "libpq is driven by it, before the gate for PostgreSQL",
    },
    Need {
        programs: &["go"],
        package: "golang-go",
        reason: "pgx, a driver of PostgreSQL, is driven before the gate; Go 1.25 or newer",
    },
    Need {
        programs: &["javac"],
        package: "default-jdk-headless",
        reason: "JDBC, a driver of PostgreSQL, is driven before the gate",
    },
    Need {
        programs: &["npm"],
        package: "npm",
        reason: "node-postgres, a driver of PostgreSQL, is driven before the gate",
    },
];
/// Where Debian puts PostgreSQL's releases side by side, which is on no search path.
const RELEASES: &str = "/usr/lib/postgresql";

/// Where servers are, which the search path of an ordinary user may leave out.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Cargo's commands that a minimal installation lacks, with rustup's name of each.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Makes sure that everything is there.
///
/// # Errors
/// Something is missing and cannot be installed; the message ends with the one line to run.
pub(crate) fn install() -> Result<(), String> {
    install_components()?;
    let folders = search_path();
    // Debian splits Python: the program alone cannot make an environment.
    let is_here = |program: &str| match program {
        "python3" => python::is_here(),
        "postgres" => is_in(&folders, program) || is_in(&releases(), program),
        program => is_in(&folders, program),
    };
    let missing = missing(NEEDS, &is_here);
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("missing: {} ({})", need.package, need.reason);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !is_in(&folders, "apt-get") {
        return Err(without_apt(&missing));
    }
    let line = apt_line(&packages);
    let right = Right::of_this_user();
    if matches!(right, Right::None) {
        return Err(format!("to install what the tests need, run:\n{line}"));
    }
    apt(&right, &packages).map_err(|error| format!("{error}\nto try it yourself, run:\n{line}"))?;
    match missing.iter().find(|need| !need.programs.iter().any(|one| is_here(one))) {
        None => Ok(()),
        Some(need) => Err(format!(
            "apt-get installed `{}`, but none of {} can be found",
            need.package,
            need.programs.join(", ")
        )),
    }
}

fn missing<'a>(needs: &'a [Need], is_here: &dyn Fn(&str) -> bool) -> Vec<&'a Need> {
    needs.iter().filter(|need| !need.programs.iter().any(|program| is_here(program))).collect()
}

fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from)).collect()
}

/// The folders of programs of PostgreSQL's releases.
fn releases() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(RELEASES).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("bin")).collect()
}

fn is_in(folders: &[PathBuf], program: &str) -> bool {
    folders.iter().any(|folder| folder.join(program).is_file())
}

fn apt_line(packages: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
        packages.join(" ")
    )
}

fn without_apt(missing: &[&Need]) -> String {
    let lines: Vec<String> = missing
        .iter()
        .map(|need| {
            let programs = need.programs.join(" or ");
            format!("  {programs} (on Debian: {}): {}", need.package, need.reason)
        })
        .collect();
    format!("this system has no apt-get; install these programs yourself:\n{}", lines.join("\n"))
}

/// How this user may install packages.
enum Right {
    Root,
    Sudo,
    None,
}

impl Right {
    fn of_this_user() -> Right {
        let id = Command::new("id").arg("-u").output();
        if id.is_ok_and(|output| output.stdout.trim_ascii() == b"0") {
            return Right::Root;
        }
        let sudo = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
        if sudo.is_ok_and(|status| status.success()) { Right::Sudo } else { Right::None }
    }

    fn apt(&self, args: &[&str]) -> Command {
        let quiet = ["DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let mut command = match self {
            Right::Sudo => {
                let mut command = Command::new("sudo");
                command.args(["-n", "env"]);
                command
            }
            Right::Root | Right::None => Command::new("env"),
        };
        command.args(quiet).args(args);
        command
    }
}

fn apt(right: &Right, packages: &[&str]) -> Result<(), String> {
    let mut print = |line: &str| println!("{line}");
    // An update that fails is not fatal: a source that this machine need not have may be down. If
    // the package lists are missing, the installation says so.
    if let Err(error) =
        exec::listen(&mut right.apt(&["update", "-q"]), exec::SILENCE_MAX, &mut print)
    {
        eprintln!("note: {error}");
    }
    let mut args = vec!["install", "-q", "--yes", "--no-install-recommends"];
    args.extend(packages);
    exec::listen(&mut right.apt(&args), exec::SILENCE_MAX, &mut print)
}

fn install_components() -> Result<(), String> {
    let here = Path::new(".");
    for (command, component) in COMPONENTS {
        if exec::output_of(&mut exec::cargo(here, &[command, "--version"])).is_ok() {
            continue;
        }
        let mut rustup = Command::new("rustup");
        exec::clean(rustup.args(["component", "add", component]), here);
        exec::listen(&mut rustup, exec::SILENCE_MAX, &mut |line| println!("{line}")).map_err(
            |error| {
                format!(
                    "{error}\n`cargo {command}` is missing; run:\nrustup component add {component}"
                )
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_one_of_the_programs_will_do() {
        assert_eq!(missing(NEEDS, &|_| true).len(), 0);
        assert_eq!(missing(NEEDS, &|_| false).len(), NEEDS.len());
        let found: Vec<_> = missing(NEEDS, &|program| program == "google-chrome")
            .iter()
            .map(|one| one.package)
            .collect();
        assert_eq!(
            found,
            [
                "prometheus",
                "apache2-bin",
                "nginx",
                "python3-venv",
                "postgresql",
                "maven",
                "etcd-server",
                "postgresql-client",
                "golang-go",
                "default-jdk-headless",
                "npm"
            ]
        );
    }

    #[test]
    fn programs_are_found_by_folder() {
        let folders = [PathBuf::from(env!("CARGO_MANIFEST_DIR"))];
        assert!(is_in(&folders, "Cargo.toml"));
        assert!(!is_in(&folders, "src"), "a folder is no program");
        assert!(!is_in(&[], "Cargo.toml"));
    }

    #[test]
    fn what_to_run_is_one_line_with_all_packages() {
        let line = apt_line(&["chromium", "apache2-bin"]);
        assert!(line.ends_with(" chromium apache2-bin") && line.lines().count() == 1);
        let text = without_apt(&missing(NEEDS, &|_| false));
        for need in NEEDS {
            assert!(text.contains(need.package) && text.contains(need.reason), "{text}");
        }
    }

    #[test]
    fn apt_is_asked_through_sudo_only_when_not_root() {
        let words = |right: Right| {
            let command = right.apt(&["update"]);
            let args: Vec<_> =
                command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
            format!("{} {}", command.get_program().to_string_lossy(), args.join(" "))
        };
        assert_eq!(words(Right::Root), "env DEBIAN_FRONTEND=noninteractive apt-get update");
        assert_eq!(words(Right::Sudo), "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update");
    }
}
