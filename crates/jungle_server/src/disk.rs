//! Real files under what the log asks of a disk: what it is told is safe must be on the device.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jungle::{Disk, DiskError};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// The zeros that are written at once where a file system cannot reserve room \[B\].
const ZEROS: usize = 1 << 20;

/// The files of one directory. Handles stay open until what was written by them is synced: Linux tells of a failed
/// write only those who had the file open.
#[derive(Debug)]
pub struct FileDisk {
    folder: PathBuf,
    directory: File,
    open: BTreeMap<String, Handle>,
}

#[derive(Debug)]
struct Handle {
    file: File,
    is_dirty: bool,
}

impl FileDisk {
    /// The files of a directory that is there.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let directory = File::open(folder)?;
        Ok(Self { folder: folder.to_owned(), directory, open: BTreeMap::new() })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The handle of a file, to write by.
    fn handle(&mut self, file: &str) -> io::Result<&mut Handle> {
        if !self.open.contains_key(file) {
            let handle = OpenOptions::new().read(true).write(true).open(self.path(file))?;
            self.keep(file, handle);
        }
        Ok(self.open.get_mut(file).expect("it was just put there"))
    }

    /// Keeps a handle; of the others those stay that have something to be synced.
    fn keep(&mut self, file: &str, handle: File) {
        self.open.retain(|_, other| other.is_dirty);
        self.open.insert(file.to_owned(), Handle { file: handle, is_dirty: false });
    }

    fn make(&mut self, file: &str, bytes: u64) -> io::Result<()> {
        let path = self.path(file);
        let mut made =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        if let Err(error) = reserve(&mut made, bytes) {
            self.open.remove(file);
            fs::remove_file(&path)?;
            return Err(error);
        }
        self.keep(file, made);
        self.open.get_mut(file).expect("it was just put there").is_dirty = true;
        Ok(())
    }
}

/// Takes room for zeros, so that what is written there later finds it.
fn reserve(file: &mut File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(&*file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        reserved => return Ok(reserved?),
    }
    let zeros = vec![0; ZEROS];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(ZEROS as u64);
        file.write_all(&zeros[..part as usize])?;
        left -= part;
    }
    Ok(())
}

/// The error of an action on a file, as the log tells them apart.
fn told(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> DiskError {
    let file = file.to_owned();
    move |error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            DiskError::Full { file }
        }
        _ => DiskError::Failed { file, action, cause: error.to_string() },
    }
}

impl Disk for FileDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let names = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    names.extend(entry.file_name().into_string().ok());
                }
            }
            names.sort();
            Ok(names)
        };
        names().map_err(told(".", "list"))
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        fs::read(self.path(file)).map_err(told(file, "read"))
    }

    fn create(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.make(file, bytes).map_err(told(file, "create"))
    }

    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let written = self.handle(file).and_then(|handle| {
            handle.is_dirty = true;
            handle.file.write_all_at(bytes, offset)
        });
        written.map_err(told(file, "write"))
    }

    fn truncate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        let cut = self.handle(file).and_then(|handle| {
            handle.is_dirty = true;
            handle.file.set_len(bytes)
        });
        cut.map_err(told(file, "truncate"))
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let synced = self.handle(file).and_then(|handle| {
            handle.file.sync_data()?;
            handle.is_dirty = false;
            Ok(())
        });
        synced.map_err(told(file, "sync"))
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        self.directory.sync_all().map_err(told(".", "sync"))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.open.remove(to);
        if let Some(handle) = self.open.remove(from) {
            self.open.insert(to.to_owned(), handle);
        }
        fs::rename(self.path(from), self.path(to)).map_err(told(from, "rename"))
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.open.remove(file);
        fs::remove_file(self.path(file)).map_err(told(file, "remove"))
    }
}

/// A disk that is looked at and never changed: what a start would write is passed over.
#[derive(Debug)]
pub(crate) struct Untouched(pub(crate) FileDisk);

impl Disk for Untouched {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.0.list()
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        self.0.read(file)
    }

    fn create(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn write(&mut self, _: &str, _: u64, _: &[u8]) -> Result<(), DiskError> {
        Ok(())
    }

    fn truncate(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
        Ok(())
    }

    fn sync(&mut self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn rename(&mut self, _: &str, _: &str) -> Result<(), DiskError> {
        Ok(())
    }

    fn remove(&mut self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
}
