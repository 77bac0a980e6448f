//! A directory is looked through without changing it, so that what is broken is known before it is needed.

use std::fmt;
use std::io::Read;
use std::path::Path;

use jungle::{
    BlobHash, BlobId, Disk, LogSettings, SegmentLog, Settings, blob_file, blob_of_file, blobs_of,
    read_snapshot, start,
};
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
    /// Blobs that were read.
    pub blobs: u64,
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
        blobs: 0,
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
    for id in files.iter().filter_map(|file| blob_of_file(file)) {
        found.blobs += 1;
        match check_file(&folder.join(blob_file(id)), id) {
            Ok(wrong) => found.broken.extend(wrong),
            Err(error) => found.broken.push(format!("{}: {error}", blob_file(id))),
        }
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

/// The cause why the bytes that come are not those of a blob; `None` if they are. They go to `to`.
fn copy_blob(
    from: &mut impl Read,
    to: &mut impl std::io::Write,
    id: BlobId,
) -> std::io::Result<Option<String>> {
    let (mut hash, mut part, mut bytes) = (BlobHash::default(), vec![0; 1 << 18], 0_u64);
    loop {
        let read = from.read(&mut part)?;
        if read == 0 {
            break;
        }
        hash.update(&part[..read]);
        to.write_all(&part[..read])?;
        bytes += read as u64;
    }
    let found = hash.id();
    Ok((found != id).then(|| format!("{}: its {bytes} B have the hash {found}", blob_file(id))))
}

fn check_file(path: &Path, id: BlobId) -> std::io::Result<Option<String>> {
    copy_blob(&mut std::fs::File::open(path)?, &mut std::io::sink(), id)
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
/// its bytes \[B\]. `blob` gives each blob that the version names.
///
/// # Errors
/// [`BackupError`]; the directory is then to be removed.
pub fn backed_up<R: Read, E: fmt::Display>(
    folder: &Path,
    seq: u64,
    from: &mut impl Read,
    mut blob: impl FnMut(BlobId) -> Result<R, E>,
) -> Result<u64, BackupError> {
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
    let mut bytes = std::io::copy(from, &mut copy).map_err(write)?;
    copy.sync_all().map_err(write)?;
    disk.sync_directory().map_err(|error| broken(error.to_string()))?;
    let mut blobs = || -> Result<u64, String> {
        let version = read_snapshot(&disk, seq).map_err(|error| error.to_string())?;
        let mut bytes = 0;
        for id in blobs_of([&version]) {
            let mut from = blob(id).map_err(|error| format!("{}: {error}", blob_file(id)))?;
            let path = folder.join(blob_file(id));
            let copied = || -> std::io::Result<Option<String>> {
                let mut to = std::fs::File::create(&path)?;
                let wrong = copy_blob(&mut from, &mut to, id)?;
                to.sync_all()?;
                bytes += to.metadata()?.len();
                Ok(wrong)
            };
            if let Some(wrong) = { copied }().map_err(|error| error.to_string())? {
                return Err(wrong);
            }
        }
        Ok(bytes)
    };
    match blobs() {
        Ok(more) => bytes += more,
        Err(cause) => {
            // It must not be taken for a database by a start.
            drop(disk.remove(&file));
            return Err(broken(cause));
        }
    }
    disk.sync_directory().map_err(|error| broken(error.to_string()))?;
    directory.begin(jungle::Durability::Sync, seq)?;
    Ok(bytes)
}
