//! `--last`: the newest runs of the store in place of their names.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use cli::text::{pasted, quoted, shell_word};
use cli::{Failure, store};

#[derive(ClapArgs)]
pub(crate) struct Newest {
    /// The newest runs under .sekisho/runs/: so many, or those of the newest command
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    last: Option<usize>,
}

impl Newest {
    /// True if the newest runs are asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.last.is_some()
    }

    /// The files that are named, then the newest ones, the oldest of them first.
    pub(crate) fn with(&self, named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
        self.of(named, |_| true)
    }

    /// The same without searches for a knee, of which nothing can be fitted.
    pub(crate) fn with_runs(&self, named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
        self.of(named, |path| !store::is_knee(path))
    }

    fn of(&self, named: &[PathBuf], takes: fn(&Path) -> bool) -> Result<Vec<PathBuf>, Failure> {
        let mut files = named.to_vec();
        let Some(count) = self.last else {
            return if files.is_empty() { Err(none_named()) } else { Ok(files) };
        };
        let stored = store::run_files()?;
        let all: Vec<&PathBuf> = stored.iter().filter(|path| takes(path)).collect();
        let Some(newest) = all.first() else { return Err(none_stored(stored.first())) };
        // Runs of HTTP and of TPC-C are never of one service.
        let kind = tpcc_verbs::is_record(newest);
        let alike: Vec<&PathBuf> =
            all.iter().copied().filter(|path| tpcc_verbs::is_record(path) == kind).collect();
        let taken = match count {
            0 => of_one_command(&alike),
            count if count > alike.len() => {
                return Err(Failure::Usage(format!(
                    "`--last {count}`: only {} such runs are stored under .sekisho/runs/",
                    alike.len()
                )));
            }
            count => alike[..count].to_vec(),
        };
        files.extend(taken.into_iter().rev().cloned());
        Ok(files)
    }
}

fn none_named() -> Failure {
    Failure::Usage(
        "no run is named: name files, or say `--last` for those of the newest command".into(),
    )
}

/// No run is stored, but a search for a knee may be: the newest.
fn none_stored(search: Option<&PathBuf>) -> Failure {
    let Some(search) = search else {
        return Failure::Usage(
            "`--last`: no run is stored under .sekisho/runs/ of this folder: measure first, or name \
             the file"
                .into(),
        );
    };
    // Of one that cannot be read no command is known.
    let header = store::read_knee(search).ok().map(|record| record.header);
    let is_http = |word: &String| word == "http";
    let measure = match header {
        Some(header) if header.command.get(2).is_some_and(is_http) => {
            let line = format!("sekisho measure http {} --clients 1,4,16", quoted(&header.target));
            format!("runs at several loads:\n\n{}\n", pasted(&line, " \\"))
        }
        // Files of SQL and a database are not typed again by what a search keeps of them.
        _ => "measure the same with `--clients 1,4,16`; ".to_owned(),
    };
    let shown = format!("sekisho report {}", shell_word(search));
    Failure::Usage(format!(
        "`--last`: only searches for a knee are stored under .sekisho/runs/ of this folder, and no run at one load; \
         {}what the newest search has found:\n\n{}",
        measure,
        pasted(&shown, " \\")
    ))
}

/// The files whose runs the process made that made the newest, as their names tell: `MOMENT-MILLISPROCESS`. Those of
/// others that ran meanwhile stand between them.
fn of_one_command<'f>(files: &[&'f PathBuf]) -> Vec<&'f PathBuf> {
    /// Digits of the milliseconds, before those of the process.
    const MILLIS: usize = 3;
    let process = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        let (id, _) = name.split_once('.')?;
        let (_, end) = id.split_once('-')?;
        end.get(MILLIS..).map(str::to_owned)
    };
    let first = files.first().and_then(|path| process(path));
    files.iter().copied().filter(|path| process(path) == first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: of two commands that ran at once, only the last run of the one that ended last was taken.
    #[test]
    fn runs_of_one_process_are_told_by_their_names() {
        let names = [
            "20261126T182603-16200a4eb",
            "20261126T182601-15000300b",
            "20261126T182557-14800a4eb",
            "20261126T182551-13916300b",
        ];
        let files: Vec<PathBuf> = names.map(|name| format!("{name}.jsonl").into()).to_vec();
        let files: Vec<&PathBuf> = files.iter().collect();
        assert_eq!(of_one_command(&files), [files[0], files[2]]);
        assert_eq!(of_one_command(&files[1..2]), [files[1]]);
        assert!(of_one_command(&[]).is_empty());
    }
}
