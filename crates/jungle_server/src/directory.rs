//! A directory belongs to one server at a time and to one version of the format; whoever else comes is told so
//! before anything is touched.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jungle::Durability;
use serde::{Deserialize, Serialize};

use crate::disk::FileDisk;

/// The file that one server holds locked.
const LOCK: &str = "lock";
/// The file that says what the directory is.
const DESCRIPTION: &str = "jungle.json";
/// The version of the format.
const FORMAT: u32 = 1;

/// Why a directory cannot be served or looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// Another server has it.
    #[error(
        "{}: the server with process id {holder} has this directory; ask that one, or stop it first",
        .folder.display()
    )]
    InUse {
        /// The directory.
        folder: PathBuf,
        /// The process that holds it, as it says.
        holder: String,
    },
    /// It has files of somebody else.
    #[error(
        "{}: it has files and is no directory of Jungle ({DESCRIPTION} is missing); name an empty or a new one",
        .0.display()
    )]
    Foreign(PathBuf),
    /// There is nothing to look at.
    #[error("{}: no directory of Jungle is there; `sekisho jungle serve` makes one", .0.display())]
    Missing(PathBuf),
    /// Another version of the program wrote it.
    #[error(
        "{}: its format is {found}, and this program knows {FORMAT}; use the version that wrote it, \
         or import its export",
        .folder.display()
    )]
    Format {
        /// The directory.
        folder: PathBuf,
        /// The format that is there.
        found: u32,
    },
    /// The description is damaged.
    #[error("{}: it is damaged: {cause}; restore it from a backup", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The cause.
        cause: String,
    },
    /// It had commits, and has neither log nor snapshot.
    #[error(
        "{}: it had commits, and every file of the log and every snapshot is gone; restore it from a backup",
        .0.display()
    )]
    Lost(PathBuf),
    /// The system refuses.
    #[error("{}: {action}: {cause}", .path.display())]
    System {
        /// The place.
        path: PathBuf,
        /// The action.
        action: &'static str,
        /// The cause.
        cause: io::Error,
    },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    /// It grows whenever something may have been lost that somebody has seen.
    generation: u64,
    /// Whether all that was answered is on the device, should the program end now.
    answered_is_safe: bool,
    /// True from the first commit on: then a directory without log and snapshot has lost them, and is not a new one.
    #[serde(default)]
    has_commits: bool,
}

/// A directory that this process alone has.
#[derive(Debug)]
pub struct Directory {
    folder: PathBuf,
    description: Description,
    /// Locked as long as it is open.
    _lock: File,
}

fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> DirectoryError {
    let path = path.to_owned();
    move |cause| DirectoryError::System { path, action, cause }
}

impl Directory {
    /// Takes a directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`DirectoryError`]; nothing was changed then but that an empty directory may be there.
    pub fn take(folder: &Path) -> Result<Self, DirectoryError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(system(folder, "it cannot be made"))?;
        let files = fs::read_dir(folder).map_err(system(folder, "it cannot be read"))?;
        let is_empty = files.flatten().all(|entry| entry.file_name() == LOCK);
        if !is_empty && !folder.join(DESCRIPTION).exists() {
            return Err(DirectoryError::Foreign(folder.to_owned()));
        }
        Self::locked(folder)
    }

    /// Takes a directory that is there.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn existing(folder: &Path) -> Result<Self, DirectoryError> {
        if !folder.join(DESCRIPTION).exists() {
            return Err(DirectoryError::Missing(folder.to_owned()));
        }
        Self::locked(folder)
    }

    fn locked(folder: &Path) -> Result<Self, DirectoryError> {
        let path = folder.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(system(&path, "it cannot be opened"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Whoever took it just now has not said yet who it is.
                lock.read_to_string(&mut holder).ok();
                let holder = match holder.trim() {
                    "" => "unknown".to_owned(),
                    known => known.to_owned(),
                };
                return Err(DirectoryError::InUse { folder: folder.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => {
                return Err(system(&path, "it cannot be locked")(error));
            }
        }
        let said = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        said.map_err(system(&path, "it cannot be written"))?;
        let description = described(folder)?;
        Ok(Self { folder: folder.to_owned(), description, _lock: lock })
    }

    /// Begins a session of this durability, in which there are commits already or not.
    ///
    /// # Errors
    /// [`DirectoryError`], if that cannot be written down.
    pub fn begin(&mut self, durability: Durability, commits: u64) -> Result<(), DirectoryError> {
        self.description.has_commits |= commits > 0;
        self.description.generation += u64::from(!self.description.answered_is_safe);
        self.description.answered_is_safe = durability == Durability::Sync;
        self.write()
    }

    /// Notes that a commit is in the log; the first one is written down.
    ///
    /// # Errors
    /// [`DirectoryError`], if that cannot be written down.
    pub fn has_committed(&mut self) -> Result<(), DirectoryError> {
        if std::mem::replace(&mut self.description.has_commits, true) {
            return Ok(());
        }
        self.write()
    }

    /// Ends a session after everything was synced.
    ///
    /// # Errors
    /// [`DirectoryError`], if that cannot be written down; then the next session begins a new generation.
    pub fn end(&mut self) -> Result<(), DirectoryError> {
        self.description.answered_is_safe = true;
        self.write()
    }

    /// The number that grows when something may have been lost that somebody has seen.
    pub fn generation(&self) -> u64 {
        self.description.generation
    }

    /// The place.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its files.
    ///
    /// # Errors
    /// [`DirectoryError::System`], and [`DirectoryError::Lost`] if it had commits and has none of their files.
    pub fn disk(&self) -> Result<FileDisk, DirectoryError> {
        let cannot = |action| system(&self.folder, action);
        let disk = FileDisk::open(&self.folder).map_err(cannot("it cannot be opened"))?;
        if self.description.has_commits {
            let files = fs::read_dir(&self.folder).map_err(cannot("it cannot be read"))?;
            let mut is_there = false;
            for file in files {
                let name = file.map_err(cannot("it cannot be read"))?.file_name();
                is_there |= name.to_str().is_some_and(holds_commits);
            }
            if !is_there {
                return Err(DirectoryError::Lost(self.folder.clone()));
            }
        }
        Ok(disk)
    }

    /// Writes the description beside the old one and puts it in its place, safe.
    fn write(&self) -> Result<(), DirectoryError> {
        let (path, part) = (self.folder.join(DESCRIPTION), self.folder.join("jungle.json.part"));
        let text = serde_json::to_string(&self.description).expect("numbers are JSON") + "\n";
        let written = || -> io::Result<()> {
            let mut file = File::create(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        written().map_err(system(&path, "it cannot be written"))
    }
}

/// True of the names of segments and snapshots, damaged ones too.
fn holds_commits(name: &str) -> bool {
    ["log-", "snapshot-", "damaged-snapshot-"].iter().any(|prefix| name.starts_with(prefix))
}

/// The description, or that of a new directory.
fn described(folder: &Path) -> Result<Description, DirectoryError> {
    #[derive(Deserialize)]
    struct Any {
        format: u32,
    }
    let file = folder.join(DESCRIPTION);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Description {
                format: FORMAT,
                generation: 1,
                answered_is_safe: true,
                has_commits: false,
            });
        }
        Err(error) => return Err(system(&file, "it cannot be read")(error)),
    };
    let damaged = |cause: serde_json::Error| DirectoryError::Damaged {
        file: file.clone(),
        cause: cause.to_string(),
    };
    let any: Any = serde_json::from_str(&text).map_err(damaged)?;
    if any.format != FORMAT {
        return Err(DirectoryError::Format { folder: folder.to_owned(), found: any.format });
    }
    serde_json::from_str(&text).map_err(damaged)
}
