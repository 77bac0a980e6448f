//! A directory is looked through without changing it, so that what is broken is known before it is needed.

use std::io::Read;
use std::path::Path;

use jungle::{Disk, LogSettings, SegmentLog, Settings, read_snapshot, start};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::directory::{Directory, DirectoryError};
use crate::disk::Untouched;

/// A snapshot that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedSnapshot {
    /// Its version.
    pub seq: u64,
    /// What is wrong with it; none if it is whole.
    pub wrong: Option<String>,
}

/// A directory that was looked through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The newest commit; none if the database cannot be had whole.
    pub seq: Option<u64>,
    /// The hash of that version, hexadecimal.
    pub hash: Option<String>,
    /// Its snapshots, the oldest first.
    pub snapshots: Vec<VerifiedSnapshot>,
    /// Entries of the log that were read: where one is broken, those before it.
    pub entries: u64,
    /// The torn tail of a crash, which nobody was promised: the next start cuts it.
    pub torn: Option<String>,
    /// Everything that is broken, each with its file and place.
    pub broken: Vec<String>,
}

/// Looks through a directory: every snapshot, every entry of the log, and the database that they make.
///
/// # Errors
/// [`DirectoryError`], if the directory is not to be had.
pub fn verify(folder: &Path) -> Result<Verified, DirectoryError> {
    let directory = Directory::existing(folder)?;
    let mut found = Verified {
        seq: None,
        hash: None,
        snapshots: Vec::new(),
        entries: 0,
        torn: None,
        broken: Vec::new(),
    };
    let disk = match directory.disk() {
        Err(lost @ DirectoryError::Lost(_)) => {
            found.broken.push(lost.to_string());
            return Ok(found);
        }
        disk => disk?,
    };
    let files = match disk.list() {
        Ok(files) => files,
        Err(error) => {
            found.broken.push(error.to_string());
            return Ok(found);
        }
    };
    for seq in numbers(&files, "snapshot-") {
        let wrong = read_snapshot(&disk, seq).err().map(|error| error.to_string());
        found.broken.extend(wrong.clone());
        found.snapshots.push(VerifiedSnapshot { seq, wrong });
    }
    // All segments, also those that a start would not read.
    let oldest = numbers(&files, "log-").first().map_or(0, |first| first.saturating_sub(1));
    let each = |entry: u64, payload: &[u8]| {
        let wrong = |cause: String| jungle::LogError::Entry { entry, cause };
        jungle::decode(payload).map_err(|error| wrong(error.to_string()))?;
        found.entries += 1;
        Ok(())
    };
    match SegmentLog::open(Untouched(disk), LogSettings::default(), oldest, each) {
        Ok((_, opened)) => {
            found.torn = opened.torn.map(|(file, at)| format!("{file} from byte {at} on"));
        }
        Err(error) => found.broken.push(error.to_string()),
    }
    match start(Untouched(directory.disk()?), Settings::default()) {
        Ok((sequencer, _, _)) => {
            let version = sequencer.reader().version();
            found.seq = Some(version.seq());
            found.hash = Some(version.hash().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        Err(error) => {
            let told = error.to_string();
            if !found.broken.contains(&told) {
                found.broken.push(told);
            }
        }
    }
    Ok(found)
}

/// The numbers in the names of files, ascending.
fn numbers(files: &[String], prefix: &str) -> Vec<u64> {
    let number = |file: &String| file.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<u64> = files.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Why a backup does not count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory has a database already.
    #[error("{0}: it has a database already; name a new directory")]
    Taken(String),
    /// What came is not whole.
    #[error("{folder}: what came is no whole backup: {cause}; make it again, in a new directory")]
    Broken {
        /// The directory.
        folder: String,
        /// The cause.
        cause: String,
    },
    /// It cannot be written.
    #[error("{folder}: {cause}")]
    Write {
        /// The directory.
        folder: String,
        /// The cause.
        cause: std::io::Error,
    },
}

/// Writes the backup of a version, as it comes, into a new directory from which a server starts, and reads it again;
/// its bytes \[B\].
///
/// # Errors
/// [`BackupError`]; the directory is then to be removed.
pub fn backed_up(folder: &Path, seq: u64, from: &mut impl Read) -> Result<u64, BackupError> {
    let told = || folder.display().to_string();
    let mut directory = Directory::take(folder)?;
    let mut disk = directory.disk()?;
    let broken = |cause: String| BackupError::Broken { folder: told(), cause };
    let files = disk.list().map_err(|error| broken(error.to_string()))?;
    if !numbers(&files, "snapshot-").is_empty() || !numbers(&files, "log-").is_empty() {
        return Err(BackupError::Taken(told()));
    }
    let file = format!("snapshot-{seq:020}");
    let path = folder.join(&file);
    let write = |cause| BackupError::Write { folder: told(), cause };
    let mut copy = std::fs::File::create(&path).map_err(write)?;
    let bytes = std::io::copy(from, &mut copy).map_err(write)?;
    copy.sync_all().map_err(write)?;
    disk.sync_directory().map_err(|error| broken(error.to_string()))?;
    if let Err(error) = read_snapshot(&disk, seq) {
        // It must not be taken for a database by a start.
        drop(disk.remove(&file));
        return Err(broken(error.to_string()));
    }
    directory.begin(jungle::Durability::Sync, seq)?;
    Ok(bytes)
}
