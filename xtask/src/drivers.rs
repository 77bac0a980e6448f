//! Real drivers of PostgreSQL: what their programs need is installed under `target/drivers`, in the
//! versions that lie beside the programs, and then the tests run that use them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec;

/// The folder of the programs and their lists of versions are.
const SOURCES: &str = "crates/sekisho/tests/drivers";
/// Of the whole workspace, so that nothing is built again that its tests have built.
pub(crate) const TESTS: [&str; 4] = ["test", "--workspace", "--test", "drivers"];
/// Clippy's `--all-targets` leaves out what `cargo test` leaves out.
const CLIPPY: [&str; 7] = ["clippy", "--workspace", "--test", "drivers", "--", "-D", "warnings"];

/// Installs what is missing or has changed, and runs the tests, each line of which goes to `hear`.
///
/// # Errors
/// Something cannot be installed, or a driver does not hear from the gate what it should.
pub(crate) fn run(root: &Path, hear: &mut dyn FnMut(&str)) -> Result<(), String> {
    install(root)?;
    exec::listen(&mut exec::cargo(root, &CLIPPY), exec::SILENCE_MAX, &mut |line| {
        println!("{line}")
    })?;
    exec::listen(&mut exec::cargo(root, &TESTS), exec::SILENCE_MAX, hear)
}

fn install(root: &Path) -> Result<(), String> {
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |target| root.join(target));
    let all = Place { root, target: target.join("drivers"), sources: root.join(SOURCES) };
    all.keep("python", &["requirements.txt"], Place::python)?;
    all.keep("node", &["node/package.json", "node/package-lock.json"], Place::node)?;
    all.keep("pgx", &["pgx/drive.go", "pgx/refused.go", "pgx/go.mod", "pgx/go.sum"], Place::pgx)?;
    all.keep("jdbc", &["jdbc/pom.xml", "jdbc/Drive.java", "jdbc/Refused.java"], Place::jdbc)
}

struct Place<'a> {
    root: &'a Path,
    /// The folder that it is installed in.
    target: PathBuf,
    sources: PathBuf,
}

impl Place<'_> {
    /// Installs one, unless it is there and was made of the same.
    fn keep(
        &self,
        name: &str,
        made_of: &[&str],
        install: fn(&Self, &Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let folder = self.target.join(name);
        let (list, made_of) = (folder.join("made-of"), self.text(made_of)?);
        if fs::read_to_string(&list).is_ok_and(|text| text == made_of) {
            return Ok(());
        }
        println!("drivers: {name} is installed");
        let cannot = |error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(cannot)?;
        }
        fs::create_dir_all(&folder).map_err(cannot)?;
        install(self, &folder)?;
        // Last: what was cut short is made anew.
        fs::write(list, made_of).map_err(cannot)
    }

    fn text(&self, paths: &[&str]) -> Result<String, String> {
        let read = |path: &&str| {
            let path = self.sources.join(path);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        paths.iter().map(read).collect()
    }

    fn does(
        &self,
        program: impl Into<PathBuf>,
        fill: impl FnOnce(&mut Command),
    ) -> Result<(), String> {
        let mut command = Command::new(program.into());
        exec::clean(&mut command, self.root);
        fill(&mut command);
        exec::listen(&mut command, exec::SILENCE_MAX, &mut |line| println!("{line}"))
    }

    fn python(&self, folder: &Path) -> Result<(), String> {
        let venv = folder.join("venv");
        self.does("python3", |python| {
            python.args(["-m", "venv"]).arg(&venv);
        })?;
        self.does(venv.join("bin/python"), |python| {
            python.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
            python.args(["--only-binary", ":all:", "--requirement"]);
            python.arg(self.sources.join("requirements.txt"));
            python.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env_remove("PYTHONHOME");
        })
    }

    fn node(&self, folder: &Path) -> Result<(), String> {
        for name in ["package.json", "package-lock.json"] {
            let (from, to) = (self.sources.join("node").join(name), folder.join(name));
            fs::copy(&from, to).map_err(|error| format!("{}: {error}", from.display()))?;
        }
        self.does("npm", |npm| {
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
            npm.current_dir(folder);
        })
    }

    fn pgx(&self, folder: &Path) -> Result<(), String> {
        self.does("go", |go| {
            go.args(["build", "-mod=readonly", "-trimpath", "-o"])
                .arg(folder.join("drive"))
                .arg(".");
            // A newer compiler than the machine's is not fetched.
            go.current_dir(self.sources.join("pgx")).env("GOTOOLCHAIN", "local");
        })
    }

    fn jdbc(&self, folder: &Path) -> Result<(), String> {
        let (sources, library) = (self.sources.join("jdbc"), folder.join("lib"));
        self.does("mvn", |mvn| {
            mvn.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "--file"]);
            mvn.arg(sources.join("pom.xml"));
            mvn.arg(format!("-DoutputDirectory={}", library.display()));
        })?;
        self.does("javac", |javac| {
            javac.arg("-cp").arg(library.join("*")).arg("-d").arg(folder.join("classes"));
            javac.args(["-encoding", "UTF-8"]);
            javac.args(["Drive.java", "Refused.java"].map(|name| sources.join(name)));
        })
    }
}
