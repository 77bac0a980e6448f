//! The Python package: built into an environment of its own under `target`, then tested there.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exec;

/// What the environment holds beside the package.
const PACKAGES: [&str; 4] = ["maturin>=1.7,<2", "matplotlib>=3.8", "pandas>=2", "pytest>=8"];

/// Can this machine make environments?
pub(crate) fn is_here() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).stdout(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// Builds the package and runs its tests.
///
/// # Errors
/// Something is missing, does not build, or a test fails or was skipped.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    if !is_here() {
        return Err("python3 cannot make environments (its modules ensurepip and venv)\n\
                    way out: on Debian, sudo apt-get install --yes python3-venv; else install \
                    Python 3.11 or newer with both"
            .to_owned());
    }
    let folder = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |target| root.join(target))
        .join("python");
    let environment = Environment { root, folder };
    environment.make()?;
    environment.build()?;
    environment.test()
}

struct Environment<'a> {
    root: &'a Path,
    folder: PathBuf,
}

impl Environment<'_> {
    fn venv(&self) -> PathBuf {
        self.folder.join("venv")
    }

    /// A program of the environment, as if that were activated.
    fn command(&self, program: &str) -> Result<Command, String> {
        let bin = self.venv().join("bin");
        let path = env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(bin.clone()).chain(env::split_paths(&path));
        let path: OsString =
            env::join_paths(paths).map_err(|error| format!("{}: {error}", bin.display()))?;
        let mut command = Command::new(bin.join(program));
        exec::clean(&mut command, self.root);
        command.env("VIRTUAL_ENV", self.venv()).env("PATH", path).env_remove("PYTHONHOME");
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        Ok(command)
    }

    fn make(&self) -> Result<(), String> {
        let works =
            self.command("python")?.args(["-c", "import pip"]).stderr(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            let mut python = Command::new("python3");
            python.args(["-m", "venv", "--clear"]).arg(self.venv());
            exec::clean(&mut python, self.root);
            listen(&mut python)?;
        }
        let mut pip = self.command("python")?;
        pip.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES);
        listen(&mut pip)
    }

    fn build(&self) -> Result<(), String> {
        let mut maturin = self.command("maturin")?;
        // Not --locked: a crate of ours that uses another library may add to the lock file.
        // Not --quiet: what it says tells that it goes on.
        maturin.args(["develop", "--profile", "tests"]);
        maturin.args(["--manifest-path", "python/Cargo.toml"]);
        maturin.env("CARGO_TARGET_DIR", self.folder.join("build"));
        listen(&mut maturin)
    }

    fn test(&self) -> Result<(), String> {
        let mut pytest = self.command("python")?;
        pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "python"]);
        let mut skipped = None;
        exec::listen(&mut pytest, exec::SILENCE_MAX, &mut |line| {
            println!("{line}");
            if is_summary_with_skips(line) {
                skipped = Some(line.to_owned());
            }
        })?;
        match skipped {
            Some(line) => Err(format!("no test is skipped, but: {line}")),
            None => Ok(()),
        }
    }
}

fn listen(command: &mut Command) -> Result<(), String> {
    exec::listen(command, exec::SILENCE_MAX, &mut |line| println!("{line}"))
}

/// The last line of pytest, `3 passed, 1 skipped in 0.12s`.
fn is_summary_with_skips(line: &str) -> bool {
    let mut words = line.split([' ', ',', '=']).filter(|word| !word.is_empty());
    let is_summary = line.contains(" in ") && line.trim_end_matches(['=', ' ']).ends_with('s');
    is_summary && words.any(|word| matches!(word, "skipped" | "deselected" | "xfailed"))
}

#[cfg(test)]
mod tests {
    use super::is_summary_with_skips;

    #[test]
    fn a_skipped_test_is_seen() {
        assert!(is_summary_with_skips("==== 3 passed, 1 skipped in 0.12s ===="));
        assert!(is_summary_with_skips("3 passed, 1 xfailed in 1.00s"));
        assert!(!is_summary_with_skips("3 passed in 0.12s"));
        assert!(!is_summary_with_skips("tests/test_sekisho.py::test_skipped PASSED"));
    }
}
