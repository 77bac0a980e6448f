//! Folder of records and predictions: `./.sekisho/` unless they are named.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use formats::bounded;
use formats::exchange::is_recording;
use measure::{KneeRecord, PartRecord, RunRecord, RunWriter};

use crate::Failure;
use crate::text::{pasted, shell_word};

/// No scenario, model, prediction or document set needs to be larger.
const TEXT_MIB: u64 = 64;
/// A run of weeks, by the second.
const RUN_MIB: u64 = 4096;

/// The moment, UTC, as RFC 3339 to the second.
pub fn now_rfc3339() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// A new name: the moment to the millisecond, and the process, by which `--last` knows the runs of one
/// command. No two names of a process have one moment: the next one is a millisecond later. A process is a number of
/// chance, since the system's come again, in other containers too; [`claimed`] sees to it that a file has one owner.
pub fn new_id() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static LAST: AtomicU64 = AtomicU64::new(0);
    // The state of a new hasher is the system's chance.
    let process = PROCESS.get_or_init(|| RandomState::new().build_hasher().finish() & 0xff_ffff);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let next = |last: u64| Some(now.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let moment = now.max(last.expect("there is always a next one") + 1);
    let second = UNIX_EPOCH + Duration::from_secs(moment / 1000);
    let text = humantime::format_rfc3339_seconds(second).to_string().replace(['-', ':'], "");
    format!("{}-{:03}{process:06x}", text.trim_end_matches('Z'), moment % 1000)
}

/// The seed of a call that was told none, drawn once: short enough to be typed again.
pub fn drawn_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    // The state of a new hasher is the system's chance.
    *SEED.get_or_init(|| 2 + RandomState::new().build_hasher().finish() % 999_999_998)
}

/// Name and file of what is kept under `./.sekisho/`: `id`, or a new one if another process, here or on another machine
/// that shares the folder, has a file of that name. The file is there, empty, and nobody else's.
///
/// # Errors
/// If the file or its folder cannot be made.
pub fn claimed(kind: &str, id: &str, ending: &str) -> Result<(String, PathBuf), Failure> {
    claimed_in(&Path::new(".sekisho").join(kind), id, ending)
}

fn claimed_in(folder: &Path, id: &str, ending: &str) -> Result<(String, PathBuf), Failure> {
    make_folder(folder)?;
    let mut id = id.to_owned();
    loop {
        let path = folder.join(format!("{id}.{ending}"));
        match File::create_new(&path) {
            Ok(_) => return Ok((id, path)),
            // Its moment is another one, so that this ends.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => id = new_id(),
            Err(error) => {
                return Err(Failure::Machine(format!("cannot write {}: {error}", path.display())));
            }
        }
    }
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

/// Checks that a file in place of what is `wanted`, a scenario or a run, is no recording of a gate.
///
/// # Errors
/// If it is one: the commands that take it.
pub fn no_recording(path: &Path, wanted: &str) -> Result<(), Failure> {
    if !is_recording(path) {
        return Ok(());
    }
    let name = path.display();
    let command = |verb: &str, more: &str| {
        pasted(&format!("sekisho {verb} {}{more}", shell_word(path)), " \\")
    };
    Err(Failure::Usage(format!(
        "{name} is a gate's recording, and a {wanted} is needed. Other gates with its jobs, and what happened to \
         them:\n\n{}{}\nA gate's `--model FILE` writes a scenario of its servers, which can be asked.",
        command("sim", " --slots 4,16"),
        command("replay", "")
    )))
}

/// Reads a run record.
///
/// # Errors
/// If it cannot be read, is none, or is of one part of a run.
pub fn read_run(path: &Path) -> Result<RunRecord, Failure> {
    let record = read_part(path)?;
    match record.header.part {
        Some(PartRecord { part, .. }) => Err(Failure::Usage(format!(
            "{}: this is part {part} of a run, and one part is no verdict: merge all of them with \
             `sekisho measure merge RECORD...`, and take what that makes",
            path.display()
        ))),
        None => Ok(record),
    }
}

/// Reads a run record that may be one of a part of a run.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn read_part(path: &Path) -> Result<RunRecord, Failure> {
    no_recording(path, "run")?;
    if is_knee(path) {
        return Err(Failure::Usage(format!(
            "{}: this is the record of a search for a knee, and a run is needed: `sekisho report` and `sekisho \
             check` take it; runs are those of `sekisho measure ... --clients 1,4,16` or `--rate`",
            path.display()
        )));
    }
    let file = bounded::open(path, RUN_MIB).map_err(|error| {
        Failure::Usage(format!("cannot read the run {}: {error}", path.display()))
    })?;
    measure::read_run(BufReader::new(file))
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// True if a file is the record of a search for a knee.
pub fn is_knee(path: &Path) -> bool {
    formats::exchange::is_knee(path)
}

/// Reads the record of a search for a knee.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn read_knee(path: &Path) -> Result<KneeRecord, Failure> {
    let failed = |error: &dyn fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
    let file = bounded::open(path, TEXT_MIB).map_err(|error| failed(&error))?;
    measure::read_knee(BufReader::new(file)).map_err(|error| failed(&error))
}

/// Writes the record of a search for a knee as a whole.
///
/// # Errors
/// If it cannot be written; what stood there before still does.
pub fn write_knee(path: &Path, record: &KneeRecord) -> Result<(), Failure> {
    let mut text = Vec::new();
    measure::write_knee(&mut text, record).map_err(|error| {
        Failure::Machine(format!("cannot write the search {}: {error}", path.display()))
    })?;
    write_whole(path, text)
}

/// The files of runs in `./.sekisho/runs/`, the newest first: `ID.jsonl`, `ID.knee.json` of a search for a knee, and
/// `ID.tpcc.json` of TPC-C.
///
/// # Errors
/// If the folder is there and cannot be read.
pub fn run_files() -> Result<Vec<PathBuf>, Failure> {
    let folder = Path::new(".sekisho").join("runs");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| {
            Failure::Machine(format!("cannot read the folder {}: {error}", folder.display()))
        })?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Failure::machine)?;
        let name = entry.file_name();
        let is_run = |name: &&str| name.split_once('.').is_some_and(|(_, end)| ENDS.contains(&end));
        // One that is empty is claimed by a run that goes on, or whose process was killed.
        let is_written = entry.metadata().is_ok_and(|metadata| metadata.len() > 0);
        names.extend(name.to_str().filter(is_run).filter(|_| is_written).map(str::to_owned));
    }
    // A name begins with the moment.
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Ends of the names of runs, after the id.
const ENDS: [&str; 3] = ["jsonl", "knee.json", "tpcc.json"];

/// Writes a run record, finished or not, as a whole.
///
/// # Errors
/// If it cannot be written; what stood there before still does.
pub fn write_run(path: &Path, record: &RunRecord) -> Result<(), Failure> {
    let failed =
        |error| Failure::Machine(format!("cannot write the run {}: {error}", path.display()));
    let mut text = Vec::new();
    let mut writer = RunWriter::new(&mut text, &record.header).map_err(failed)?;
    for interval in &record.intervals {
        writer.interval(interval).map_err(failed)?;
    }
    if let Some(summary) = &record.summary {
        writer.finish(summary).map_err(failed)?;
    }
    write_whole(path, text)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;

    /// The results of as many threads, which begin at once.
    fn at_once<T: Send + 'static>(one: impl Fn() -> T + Send + Sync + 'static) -> Vec<T> {
        const THREADS: usize = 16;
        let (barrier, one) = (Arc::new(Barrier::new(THREADS)), Arc::new(one));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (barrier, one) = (Arc::clone(&barrier), Arc::clone(&one));
                thread::spawn(move || {
                    barrier.wait();
                    one()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    /// The story: a name was the millisecond and the process, so that two runs of one moment had one record, the last.
    #[test]
    fn names_of_one_moment_differ() {
        let names = at_once(|| (0..2000).map(|_| new_id()).collect::<Vec<_>>());
        let names: Vec<String> = names.into_iter().flatten().collect();
        let distinct: HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        // `--last` finds the runs of one process by this end.
        let end = &names[0][names[0].len() - 6..];
        assert!(names.iter().all(|name| name.ends_with(end)), "{names:?}");
    }

    /// As several machines would that share a folder, and whose chance is the same.
    #[test]
    fn a_name_that_is_taken_gives_way_to_another() {
        let folder = std::env::temp_dir().join(format!("sekisho-claims-{}", std::process::id()));
        let within = folder.clone();
        let claims = at_once(move || {
            let claimed = claimed_in(&within, "20261127T110000-000abcdef", "jsonl");
            let (id, path) = claimed.unwrap_or_else(|failure| panic!("{failure}"));
            write_whole(&path, &id).unwrap_or_else(|failure| panic!("{failure}"));
            (id, path)
        });
        let ids: HashSet<&String> = claims.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), claims.len());
        for (id, path) in &claims {
            assert_eq!(&fs::read_to_string(path).unwrap(), id, "nobody has written over it");
        }
        fs::remove_dir_all(&folder).unwrap();
        let nowhere = claimed_in(Path::new("/dev/null/x"), "id", "jsonl").unwrap_err().to_string();
        assert!(nowhere.contains("/dev/null/x"), "{nowhere}");
    }
}
