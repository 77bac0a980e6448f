//! The folder of an embedded store: one process at a time has it, and it says of which format it is, so
//! that neither a second server nor an older version writes into what it does not understand.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::StoreError;

const LOCK: &str = "lock";
const FORMAT: &str = "format";
const TREES: &str = "trees";
/// The file that the engine writes last when it makes its trees.
const MADE: &str = "version";
/// The file that says that there were trees once: from then on they are not made again.
const BEGUN: &str = "begun";
/// The content of the file `format`.
const TEXT: &str = "sekisho agents store, format 1\n";
const START: &str = "sekisho agents store, format ";

/// Attempts to take the lock, and the pause between two.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// A folder that this process has, as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Takes a folder; a new or empty one becomes a store.
    pub(crate) fn take(path: &Path) -> Result<Folder, StoreError> {
        let place = place(path);
        let unavailable = |error: io::Error| StoreError::Unavailable {
            place: place.clone(),
            cause: error.to_string(),
        };
        let unusable = |cause: String| StoreError::Unusable { place: place.clone(), cause };
        fs::create_dir_all(path).map_err(unavailable)?;
        let format = path.join(FORMAT);
        let known = format.exists();
        if !known && !is_new(path).map_err(unavailable)? {
            let cause = "the folder has other files and no store: name a new or an empty one";
            return Err(unusable(cause.to_owned()));
        }
        let lock = File::options().create(true).write(true).truncate(false).open(path.join(LOCK));
        let lock = lock.map_err(unavailable)?;
        locked(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => {
                unusable("another process has it open: stop that one, or name another".to_owned())
            }
            TryLockError::Error(error) => unavailable(error),
        })?;
        if known {
            let text = fs::read_to_string(&format).map_err(unavailable)?;
            if text != TEXT {
                return Err(unusable(wrong_format(&text)));
            }
        } else {
            write_format(path).map_err(unavailable)?;
        }
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The store in an error's words.
    pub(crate) fn place(&self) -> String {
        place(&self.path)
    }

    /// The folder of the trees. If a process ended while they were made the first time, nothing was in them:
    /// they are made again. Trees that were there before, and are not whole now, were lost.
    pub(crate) fn trees(&self) -> Result<PathBuf, StoreError> {
        let trees = self.path.join(TREES);
        if trees.join(MADE).exists() {
            return Ok(trees);
        }
        if self.path.join(BEGUN).exists() {
            let cause = format!(
                "its `{TREES}/{MADE}` is gone, and agents with it: restore it from a backup"
            );
            return Err(StoreError::Unusable { place: self.place(), cause });
        }
        if trees.exists() {
            fs::remove_dir_all(&trees).map_err(|error| self.unavailable(&error))?;
        }
        Ok(trees)
    }

    /// Notes that the trees were made, before anything is in them.
    pub(crate) fn begun(&self) -> Result<(), StoreError> {
        let begun = self.path.join(BEGUN);
        if begun.exists() {
            return Ok(());
        }
        let written =
            || File::create(begun)?.sync_all().and_then(|()| File::open(&self.path)?.sync_all());
        written().map_err(|error| self.unavailable(&error))
    }

    fn unavailable(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable { place: self.place(), cause: error.to_string() }
    }
}

/// Takes the lock, with some patience: a process that ends needs a moment, and one that this process starts
/// has a copy of the lock until it runs its program.
fn locked(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..ATTEMPTS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            end => return end,
        }
    }
    lock.try_lock()
}

/// The store of a folder in an error's words.
pub(crate) fn place(path: &Path) -> String {
    format!("the store {}", path.display())
}

/// Nothing is in it but what an interrupted beginning leaves.
fn is_new(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != LOCK && name.to_str() != Some(&unfinished()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn unfinished() -> String {
    format!("{FORMAT}.new")
}

/// It is there whole or not at all, whenever the machine stops.
fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(unfinished());
    let mut file = File::create(&new)?;
    file.write_all(TEXT.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path.join(FORMAT))?;
    File::open(path)?.sync_all()
}

fn wrong_format(text: &str) -> String {
    match text.strip_prefix(START) {
        Some(number) => format!(
            "it is of format {}, and this version knows format 1: use the version that wrote it",
            number.trim()
        ),
        None => format!("its file `{FORMAT}` is damaged: restore it from a backup"),
    }
}
