//! Everything that the log and snapshots ask of a disk, so that a test can be one and fail as disks do.

use std::collections::BTreeMap;

/// Files of one directory. Nothing is safe before it is synced: neither bytes, nor the length of a file, nor
/// that a file is there. What a sector of 512 bytes holds after a crash is either all old or all new.
pub trait Disk {
    /// The names of all files.
    ///
    /// # Errors
    /// [`DiskError`].
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// All bytes of a file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError>;

    /// Makes a file of so many zero bytes, in the place of one that there was.
    ///
    /// # Errors
    /// [`DiskError::Full`] if there is no room.
    fn create(&mut self, file: &str, bytes: u64) -> Result<(), DiskError>;

    /// Writes bytes at an offset, which may lengthen the file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Cuts a file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn truncate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError>;

    /// Makes the bytes and the length of a file safe. After an error nobody knows which are.
    ///
    /// # Errors
    /// [`DiskError`].
    fn sync(&mut self, file: &str) -> Result<(), DiskError>;

    /// Makes safe which files there are, and their names.
    ///
    /// # Errors
    /// [`DiskError`].
    fn sync_directory(&mut self) -> Result<(), DiskError>;

    /// Gives a file another name, in the place of one that had it.
    ///
    /// # Errors
    /// [`DiskError`].
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`DiskError`].
    fn remove(&mut self, file: &str) -> Result<(), DiskError>;
}

/// Why a disk does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// No room.
    #[error("{file}: the disk is full; free some space")]
    Full {
        /// The file.
        file: String,
    },
    /// Anything else.
    #[error("{file}: {action} failed: {cause}")]
    Failed {
        /// The file.
        file: String,
        /// The action, such as `sync`.
        action: &'static str,
        /// The cause, as the system tells it.
        cause: String,
    },
}

/// Files in memory, without faults: for what need not outlive its program, such as tests and measurements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDisk {
    /// The bytes of each file, by its name.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl MemoryDisk {
    fn file(&mut self, file: &str) -> Result<&mut Vec<u8>, DiskError> {
        self.files.get_mut(file).ok_or_else(|| missing(file))
    }
}

fn missing(file: &str) -> DiskError {
    let cause = "no such file".to_owned();
    DiskError::Failed { file: file.to_owned(), action: "open", cause }
}

impl Disk for MemoryDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        self.files.get(file).cloned().ok_or_else(|| missing(file))
    }

    fn create(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.files.insert(file.to_owned(), vec![0; bytes as usize]);
        Ok(())
    }

    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (content, start) = (self.file(file)?, offset as usize);
        content.resize(content.len().max(start + bytes.len()), 0);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.file(file)?.truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        self.file(file).map(drop)
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let content = self.files.remove(from).ok_or_else(|| missing(from))?;
        self.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.files.remove(file).map(drop).ok_or_else(|| missing(file))
    }
}
