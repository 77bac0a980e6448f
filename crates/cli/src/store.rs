//! Folder of records and predictions: `./.sekisho/` unless they are named.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use formats::bounded;
use measure::{RunRecord, RunWriter};

use crate::Failure;

/// No scenario, model, prediction or document set needs to be larger.
const TEXT_MIB: u64 = 64;
/// A run of weeks, by the second.
const RUN_MIB: u64 = 4096;

/// The moment, UTC, as RFC 3339 to the second.
pub fn now_rfc3339() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// A name that no other run of this folder has: the moment to the millisecond, and the process.
pub fn new_id() -> String {
    let now = SystemTime::now();
    let text = humantime::format_rfc3339_seconds(now).to_string().replace(['-', ':'], "");
    let millis = now.duration_since(UNIX_EPOCH).map_or(0, |span: Duration| span.subsec_millis());
    format!("{}-{millis:03}{:x}", text.trim_end_matches('Z'), std::process::id() & 0xffff)
}

/// The seed of a call that was told none, drawn once: short enough to be typed again.
pub fn drawn_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    // The state of a new hasher is the system's chance.
    *SEED.get_or_init(|| 2 + RandomState::new().build_hasher().finish() % 999_999_998)
}

/// A file under `./.sekisho/`, its folder made.
///
/// # Errors
/// If the folder cannot be made.
pub fn path(kind: &str, name: &str) -> Result<PathBuf, Failure> {
    let folder = Path::new(".sekisho").join(kind);
    make_folder(&folder)?;
    Ok(folder.join(name))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::Machine(format!("cannot make the folder {}: {error}", folder.display()))
    })
}

/// Writes a file whole or not at all: first beside it, then in its place.
///
/// # Errors
/// If it cannot be written; what stood there before still does.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let failed = |error| Failure::Machine(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_folder(folder)?;
    }
    let beside = path.with_extension(format!("part-{}", std::process::id()));
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(content.as_ref()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // What could not be finished is of no use; that it cannot be removed either changes nothing.
        fs::remove_file(&beside).ok();
        failed(error)
    })
}

/// Reads a text file; `what` says what it should have been.
///
/// # Errors
/// If it cannot be read.
pub fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    bounded::text(path, TEXT_MIB).map_err(|error| {
        Failure::Usage(format!("cannot read the {what} {}: {error}", path.display()))
    })
}

/// Reads a run record.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn read_run(path: &Path) -> Result<RunRecord, Failure> {
    let file = bounded::open(path, RUN_MIB).map_err(|error| {
        Failure::Usage(format!("cannot read the run {}: {error}", path.display()))
    })?;
    measure::read_run(BufReader::new(file))
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// The files of runs in `./.sekisho/runs/`, the newest first: `ID.jsonl`, and `ID.tpcc.json` of TPC-C.
///
/// # Errors
/// If the folder is there and cannot be read.
pub fn run_files() -> Result<Vec<PathBuf>, Failure> {
    let folder = Path::new(".sekisho").join("runs");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| {
            Failure::Machine(format!("cannot read the folder {}: {error}", folder.display()))
        })?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(Failure::machine)?.file_name();
        let is_run = |name: &str| name.split_once('.').is_some_and(|(_, end)| ENDS.contains(&end));
        names.extend(name.to_str().filter(|name| is_run(name)).map(str::to_owned));
    }
    // A name begins with the moment.
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Ends of the names of runs, after the id.
const ENDS: [&str; 2] = ["jsonl", "tpcc.json"];

/// Writes a run record, finished or not.
///
/// # Errors
/// If it cannot be written.
pub fn write_run(path: &Path, record: &RunRecord) -> Result<(), Failure> {
    let failed =
        |error| Failure::Machine(format!("cannot write the run {}: {error}", path.display()));
    let file = File::create(path).map_err(failed)?;
    let mut writer = RunWriter::new(BufWriter::new(file), &record.header).map_err(failed)?;
    for interval in &record.intervals {
        writer.interval(interval).map_err(failed)?;
    }
    if let Some(summary) = &record.summary {
        let mut out = writer.finish(summary).map_err(failed)?;
        out.flush().map_err(failed)?;
    }
    Ok(())
}
