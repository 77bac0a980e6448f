//! Large values lie beside the tree: a file of its own for each, named by the hash of what is in it, so that no edit,
//! log entry or snapshot copies it, and whoever reads it can tell whether it is whole.
//!
//! A blob is safe before a commit names it, and is removed only when no version that is kept names it and the log that
//! says so is safe too. So a crash leaves at most blobs that nobody names, and parts of such, which the next start
//! removes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::disk::{Disk, DiskError};
use crate::map::Map;
use crate::node::Node;
use crate::tree::Tree;
use crate::version::Version;

/// The beginning of the names of attributes that name blobs; behind it stands the name that users give.
pub const BLOB: &str = "$blob.";

const PREFIX: &str = "blob-";
const PART: &str = ".part";

/// The identity of a blob: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; 32]);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The hash of bytes that come in parts.
#[derive(Debug, Default)]
pub struct BlobHash(Sha256);

impl BlobHash {
    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The identity of the blob that has all of them.
    pub fn id(self) -> BlobId {
        BlobId(self.0.finalize().into())
    }
}

/// Why a text is no [`BlobId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no blob; its name has 64 hexadecimal digits, as SHA-256 gives them")]
pub struct BlobIdError(String);

impl FromStr for BlobId {
    type Err = BlobIdError;

    fn from_str(text: &str) -> Result<Self, BlobIdError> {
        let wrong = || BlobIdError(text.chars().take(80).collect());
        let mut id = [0; 32];
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(|byte| is_digit(&byte)) {
            return Err(wrong());
        }
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).expect("digits are ASCII");
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(id))
    }
}

/// A blob as an attribute names it: its identity and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobRef {
    /// Its identity.
    pub id: BlobId,
    /// Its bytes \[B\].
    pub bytes: u64,
}

impl BlobRef {
    /// The value of an attribute that names the blob: its hash, a space, its length.
    pub fn value(self) -> Vec<u8> {
        format!("{} {}", self.id, self.bytes).into_bytes()
    }

    /// The blob of such a value; `None` if it is none, or not written as it is written here.
    pub fn of(value: &[u8]) -> Option<Self> {
        let (id, bytes) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let blob = Self { id: id.parse().ok()?, bytes: bytes.parse().ok()? };
        (blob.value() == value).then_some(blob)
    }
}

/// The blob that an attribute names, if it is such an attribute.
pub(crate) fn named(name: &str, value: &[u8]) -> Option<BlobRef> {
    name.starts_with(BLOB).then(|| BlobRef::of(value)).flatten()
}

/// The blobs that a tree names, and how often.
pub(crate) type Blobs = Map<BlobId, u64>;

impl Node {
    /// The blob of a name.
    pub fn blob(&self, name: &str) -> Option<BlobRef> {
        self.attribute(&format!("{BLOB}{name}")).and_then(BlobRef::of)
    }

    /// All blobs with their names, in the order of these.
    pub fn blobs(&self) -> impl Iterator<Item = (&str, BlobRef)> {
        self.attributes()
            .filter_map(|(name, value)| Some((name.strip_prefix(BLOB)?, BlobRef::of(value)?)))
    }
}

impl Tree {
    /// The blobs that all nodes name, by a walk over them.
    pub(crate) fn build_blobs(&self) -> Blobs {
        let mut blobs = Blobs::default();
        for (_, blob) in self.root.walk().flat_map(Node::blobs) {
            let count = blobs.get(&blob.id).copied().unwrap_or(0);
            blobs.insert(blob.id, count + 1);
        }
        blobs
    }
}

/// The blobs that any of these versions names. What versions share is looked at once.
pub fn blobs_of<'a>(versions: impl IntoIterator<Item = &'a Version>) -> BTreeSet<BlobId> {
    let (mut trees_seen, mut blobs_seen) = (BTreeSet::new(), BTreeSet::new());
    let mut blobs = BTreeSet::new();
    for version in versions {
        version.trees.unseen(&mut trees_seen, &mut |_, tree: &Arc<Tree>| {
            tree.blobs.unseen(&mut blobs_seen, &mut |id, _| {
                blobs.insert(*id);
            });
        });
    }
    blobs
}

/// The name of the file of a blob.
pub fn blob_file(id: BlobId) -> String {
    format!("{PREFIX}{id}")
}

/// The blob of a file's name, if it is one.
pub fn blob_of_file(file: &str) -> Option<BlobId> {
    file.strip_prefix(PREFIX)?.parse().ok()
}

/// Tells whether a file is a part of a blob that was not finished.
pub(crate) fn is_blob_part(file: &str) -> bool {
    file.starts_with(PREFIX) && file.ends_with(PART)
}

/// Why a blob is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It is too long.
    #[error("the blob has more than {0} B, which is the most; store it in parts")]
    TooLarge(u64),
}

/// A blob while it is written. It counts only when it is placed.
#[derive(Debug)]
pub struct BlobWriter {
    part: String,
    hash: BlobHash,
    bytes: u64,
    bytes_max: u64,
}

/// A blob that is written and safe, and has not its name yet.
#[derive(Debug)]
pub struct Sealed {
    part: String,
    /// The blob.
    pub blob: BlobRef,
}

impl BlobWriter {
    /// Begins a blob of at most so many bytes. `number` is one that no other blob in the making has.
    ///
    /// # Errors
    /// [`BlobError`].
    pub fn begin<D: Disk>(disk: &mut D, number: u64, bytes_max: u64) -> Result<Self, BlobError> {
        let part = format!("{PREFIX}{number}{PART}");
        disk.create(&part, 0)?;
        Ok(Self { part, hash: BlobHash::default(), bytes: 0, bytes_max })
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// [`BlobError`]; the blob is then to be given up.
    pub fn write<D: Disk>(&mut self, disk: &mut D, bytes: &[u8]) -> Result<(), BlobError> {
        if self.bytes + bytes.len() as u64 > self.bytes_max {
            return Err(BlobError::TooLarge(self.bytes_max));
        }
        disk.write(&self.part, self.bytes, bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes what was written safe.
    ///
    /// # Errors
    /// [`BlobError`]; the blob is given up.
    pub fn seal<D: Disk>(self, disk: &mut D) -> Result<Sealed, BlobError> {
        if let Err(error) = disk.sync(&self.part) {
            self.abandon(disk);
            return Err(error.into());
        }
        let blob = BlobRef { id: self.hash.id(), bytes: self.bytes };
        Ok(Sealed { part: self.part, blob })
    }

    /// Gives the blob up.
    pub fn abandon<D: Disk>(self, disk: &mut D) {
        // If it cannot be removed now, the next start does it.
        drop(disk.remove(&self.part));
    }
}

impl Sealed {
    /// Gives the blob its name, safe: from then on a commit may name it. The same blob may be there already.
    ///
    /// # Errors
    /// [`BlobError`]; nothing may name it then.
    pub fn place<D: Disk>(self, disk: &mut D) -> Result<BlobRef, BlobError> {
        disk.rename(&self.part, &blob_file(self.blob.id))?;
        disk.sync_directory()?;
        Ok(self.blob)
    }
}

/// The cause why a stored blob is not the one that its name says; `None` if it is.
///
/// # Errors
/// [`DiskError`].
pub fn check_blob<D: Disk>(disk: &D, id: BlobId) -> Result<Option<String>, DiskError> {
    let bytes = disk.read(&blob_file(id))?;
    let found = BlobId(Sha256::digest(&bytes).into());
    Ok((found != id)
        .then(|| format!("{}: its {} B have the hash {found}", blob_file(id), bytes.len())))
}

/// The blobs of a list of files that none of these holds, ascending: they are to be removed once the log is safe.
pub(crate) fn unheld(files: &[String], held: &BTreeSet<BlobId>) -> Vec<BlobId> {
    let mut unheld: Vec<BlobId> = files.iter().filter_map(|file| blob_of_file(file)).collect();
    unheld.retain(|id| !held.contains(id));
    unheld.sort_unstable();
    unheld
}
