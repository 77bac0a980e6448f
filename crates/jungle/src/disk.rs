//! Everything that the log and snapshots ask of a disk, so that a test can be one and fail as disks do.

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
