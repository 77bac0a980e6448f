//! Blobs on their way to the disk: never whole in memory, safe before a commit names them, and there as long as one that
//! is under way does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use jungle::{
    BlobError, BlobId, BlobRef, BlobWriter, Disk, DiskError, Transaction, blob_file, blob_of_file,
};

use crate::disk::FileDisk;

/// Why a blob was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unstored {
    /// The disk, or the length.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// It does not come.
    #[error("nothing of the body came for {0:?}; send it again")]
    Late(Duration),
    /// It came in part.
    #[error("the body broke off: {0}")]
    Broken(hyper::Error),
}

/// The blobs of a directory.
#[derive(Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
    state: Mutex<State>,
    /// The number of the next part.
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Blobs that are stored, safe.
    known: BTreeSet<BlobId>,
    /// Those that are to be named by a commit that is under way, and how often.
    pinned: BTreeMap<BlobId, u32>,
    /// True if one has come since the last look for those that nobody names.
    is_fresh: bool,
}

/// A blob that stays until this is dropped, whether a version names it or not.
#[derive(Debug)]
pub(crate) struct Pin<'a>(&'a Blobs, BlobId);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(count) = state.pinned.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                state.pinned.remove(&self.1);
            }
        }
        state.is_fresh = true;
    }
}

impl Blobs {
    /// The blobs of a directory in which a database was started.
    pub(crate) fn of(folder: PathBuf, disk: &FileDisk) -> Result<Self, DiskError> {
        let known = disk.list()?.iter().filter_map(|file| blob_of_file(file)).collect();
        let state = Mutex::new(State { known, is_fresh: true, ..State::default() });
        Ok(Self { folder, state, next: AtomicU64::new(1) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A blob that a transaction names and that is not stored.
    pub(crate) fn missing(&self, transaction: &Transaction) -> Option<BlobId> {
        let mut blobs = transaction.blobs().peekable();
        blobs.peek()?;
        let state = self.state();
        blobs.map(|blob| blob.id).find(|id| !state.known.contains(id))
    }

    /// Tells whether there are any, and whether one has come or was let go of.
    pub(crate) fn are_any(&self) -> (bool, bool) {
        let state = self.state();
        (!state.known.is_empty(), state.is_fresh)
    }

    /// Has `free` remove those that nobody names, while none comes; their number.
    pub(crate) fn free<E>(
        &self,
        free: impl FnOnce(&BTreeSet<BlobId>) -> Result<Vec<BlobId>, E>,
    ) -> Result<u64, E> {
        let mut state = self.state();
        state.is_fresh = false;
        let freed = free(&state.pinned.keys().copied().collect())?;
        for id in &freed {
            state.known.remove(id);
        }
        Ok(freed.len() as u64)
    }

    /// Stores what comes; the blob, which stays as long as it is pinned.
    pub(crate) async fn store(
        &self,
        mut body: Incoming,
        bytes_max: u64,
        patience: Duration,
    ) -> Result<(BlobRef, Pin<'_>), Unstored> {
        let cannot = |error: io::Error| DiskError::Failed {
            file: self.folder.display().to_string(),
            action: "open",
            cause: error.to_string(),
        };
        let disk = FileDisk::open(&self.folder);
        let mut disk = disk.map_err(|error| BlobError::from(cannot(error)))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let writer = BlobWriter::begin(&mut disk, number, bytes_max)?;
        let mut part = Unfinished { writer: Some(writer), disk };
        loop {
            let frame = tokio::time::timeout(patience, body.frame()).await;
            let frame = frame.map_err(|_| Unstored::Late(patience))?;
            let Some(frame) = frame else { break };
            let Ok(bytes) = frame.map_err(Unstored::Broken)?.into_data() else { continue };
            tokio::task::block_in_place(|| part.write(&bytes))?;
        }
        tokio::task::block_in_place(|| {
            let Unfinished { writer, disk } = &mut part;
            let sealed = writer.take().expect("it is finished once").seal(disk)?;
            // Named and pinned at once: whoever frees blobs meanwhile waits.
            let mut state = self.state();
            let blob = sealed.place(disk)?;
            state.known.insert(blob.id);
            *state.pinned.entry(blob.id).or_insert(0) += 1;
            drop(state);
            Ok((blob, Pin(self, blob.id)))
        })
    }

    pub(crate) fn open(&self, id: BlobId) -> io::Result<File> {
        File::open(self.folder.join(blob_file(id)))
    }
}

/// A blob that is given up if it does not come whole.
struct Unfinished {
    writer: Option<BlobWriter>,
    disk: FileDisk,
}

impl Unfinished {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.writer.as_mut().expect("it is not finished").write(&mut self.disk, bytes)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.abandon(&mut self.disk);
        }
    }
}
