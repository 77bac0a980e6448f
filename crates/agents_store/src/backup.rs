//! Backups of a folder's store: one file with all trees as they were at one moment, and files beside them.
//! Each block has a checksum that goes on from the one before it, so that none can be missing, doubled or of
//! another backup; the last one says that nothing is missing behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use gate::Time;

use crate::codec::{CodecError, Reader, Writer};
use crate::embedded::{Embedded, EmbeddedSpec, OUTBOX, SENT, State, TIMERS, Tree, hot_row};
use crate::folder::{self, Folder};
use crate::store::StoreError;

const START: &str = "sekisho agents backup, format ";
const FIRST: &str = "sekisho agents backup, format 1\n";

const MOMENT: u8 = 1;
const ROWS: u8 = 2;
const FILE: u8 = 3;
const END: u8 = 4;

/// Bytes of a block from which on it is written.
const BLOCK: usize = 256 << 10;
/// Most bytes of a block that is read: a row has a message of 4 MiB at most.
const BLOCK_MAX: usize = 64 << 20;
/// Kind, length and checksum.
const HEAD: usize = 9;

/// The cause why a backup is not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store has none, or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Whoever takes it does not take it any more.
    #[error("the backup cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// A backup as it is written.
pub struct BackupWriter<'a> {
    to: &'a mut dyn Write,
    taken: Time,
    chain: u32,
    rows: u64,
    block: Vec<u8>,
    tree: Option<Tree>,
}

impl std::fmt::Debug for BackupWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<'a> BackupWriter<'a> {
    /// A backup of this moment.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(to: &'a mut dyn Write, taken: Time) -> io::Result<BackupWriter<'a>> {
        to.write_all(FIRST.as_bytes())?;
        Ok(BackupWriter { to, taken, chain: 0, rows: 0, block: Vec::new(), tree: None })
    }

    /// A file beside the trees, such as `server/undelivered.jsonl`, or its next part.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn file(&mut self, name: &str, part: &[u8]) -> io::Result<()> {
        assert!(is_name(name), "{name} would not be restored");
        let mut payload = Vec::new();
        for part in part.chunks(BLOCK) {
            payload.clear();
            Writer::new(&mut payload).bytes(name.as_bytes()).bytes(part);
            self.block(FILE, &payload)?;
        }
        Ok(())
    }

    /// The partitions at the moment of the backup.
    pub(crate) fn moment(&mut self, states: &BTreeMap<u32, State>) -> io::Result<()> {
        let mut payload = Vec::new();
        let mut w = Writer::new(&mut payload);
        w.number(self.taken.as_nanos()).number(states.len() as u64);
        for (id, state) in states {
            w.number(u64::from(*id)).bytes(&state.encode());
        }
        self.block(MOMENT, &payload)
    }

    /// A row of a tree.
    pub(crate) fn row(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> io::Result<()> {
        if self.tree != Some(tree) || self.block.len() >= BLOCK {
            self.rows_end()?;
            Writer::new(&mut self.block).number(tree as u64);
            self.tree = Some(tree);
        }
        Writer::more(&mut self.block).bytes(key).bytes(value);
        self.rows += 1;
        Ok(())
    }

    /// The rows so far are written.
    pub(crate) fn rows_end(&mut self) -> io::Result<()> {
        if self.tree.take().is_none() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        self.block(ROWS, &block)
    }

    /// Nothing comes behind.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> io::Result<()> {
        let mut payload = Vec::new();
        Writer::new(&mut payload).number(self.rows);
        self.block(END, &payload)?;
        self.to.flush()
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let head = head(self.chain, kind, payload);
        self.chain = chain_of(&head);
        self.to.write_all(&head)?;
        self.to.write_all(payload)
    }
}

/// Kind, length, and the checksum of both, of the payload and of all blocks before.
fn head(chain: u32, kind: u8, payload: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = kind;
    // A block is some 256 KiB and one row.
    head[1..5].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c_append(chain, &head[..5]), payload);
    head[5..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn chain_of(head: &[u8; HEAD]) -> u32 {
    head.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// True for the name of a file that may lie in a store's folder beside its trees: `server/`, then small letters,
/// digits, `-` and `.`.
fn is_name(name: &str) -> bool {
    let of_file = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let rest = name.strip_prefix("server/");
    rest.is_some_and(|it| !it.is_empty() && !it.starts_with('.') && it.chars().all(of_file))
}

/// The content of a backup, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backed {
    /// The moment at which it was begun \[ns since 1970\].
    pub taken_ns: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The partitions, all of one moment.
    pub partitions: Vec<BackedPartition>,
    /// Agents with a state.
    pub agents: u64,
    /// Messages that are kept.
    pub messages: u64,
    /// Notifications that are not delivered.
    pub notifications: u64,
    /// Timers.
    pub timers: u64,
    /// Messages that agents could not handle.
    pub dead: u64,
}

/// A partition in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedPartition {
    /// Its number.
    pub id: u32,
    /// The number of its owner.
    pub epoch: u64,
    /// The number of its last commit.
    pub version: u64,
    /// The position of the last message that was accepted.
    pub position: u64,
    /// All messages up to this position had taken effect.
    pub handled: u64,
}

/// A part of a backup.
enum Part<'a> {
    Row(Tree, &'a [u8], &'a [u8]),
    File(&'a str, &'a [u8]),
}

/// The rows that a partition has, beside those that it should have.
#[derive(Default)]
struct Tally {
    state: State,
    /// True once the row of the state has come.
    has_state: bool,
    log: u64,
    with_state: u64,
    cold: u64,
}

/// A backup as it is read: nothing is believed before its checksum.
struct Checker {
    place: String,
    from: BufReader<File>,
    at: u64,
    chain: u32,
    rows: u64,
    backed: Backed,
    tallies: BTreeMap<u32, Tally>,
    moment: bool,
}

fn pair<'a>(r: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), CodecError> {
    Ok((r.bytes()?, r.bytes()?))
}

/// The content of a backup that is whole, without a change of anything.
///
/// # Errors
/// It is no backup, torn, damaged, of a later version or not of one moment, with the place in bytes; or it cannot be
/// read.
pub fn check_backup(file: &Path) -> Result<Backed, StoreError> {
    Checker::open(file)?.all(&mut |_| Ok(()))
}

impl Checker {
    fn open(file: &Path) -> Result<Checker, StoreError> {
        let place = format!("the backup {}", file.display());
        let unavailable = |error: io::Error| StoreError::Unavailable {
            place: place.clone(),
            cause: error.to_string(),
        };
        let from = File::open(file).map_err(unavailable)?;
        let bytes = from.metadata().map_err(unavailable)?.len();
        let from = BufReader::with_capacity(1 << 20, from);
        let backed = Backed { bytes, ..Backed::default() };
        let (tallies, moment) = (BTreeMap::new(), false);
        Ok(Checker { place, from, at: 0, chain: 0, rows: 0, backed, tallies, moment })
    }

    fn unusable(&self, cause: impl Into<String>) -> StoreError {
        let place = format!("{}, byte {}", self.place, self.at);
        StoreError::Unusable { place, cause: cause.into() }
    }

    fn damaged(&self, cause: impl std::fmt::Display) -> StoreError {
        self.unusable(format!("{cause}; take another backup"))
    }

    /// So many bytes.
    fn take(&mut self, len: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        let read = (&mut self.from).take(len as u64).read_to_end(&mut bytes);
        read.map_err(|error| StoreError::Unavailable {
            place: self.place.clone(),
            cause: error.to_string(),
        })?;
        if bytes.len() < len {
            return Err(self.damaged("it is torn: it ends before its end was written"));
        }
        Ok(bytes)
    }

    /// Reads it to its end.
    fn all(
        mut self,
        take: &mut dyn FnMut(Part<'_>) -> Result<(), StoreError>,
    ) -> Result<Backed, StoreError> {
        self.first_line()?;
        loop {
            let head = self.take(HEAD)?;
            let head: [u8; HEAD] = head.try_into().expect("it has so many bytes");
            let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if len > BLOCK_MAX {
                return Err(self.damaged("it is damaged: a block is too long"));
            }
            let payload = self.take(len)?;
            if self::head(self.chain, head[0], &payload) != head {
                return Err(self.damaged("it is damaged: a block does not fit its checksum"));
            }
            self.chain = chain_of(&head);
            let is_end = head[0] == END;
            self.block(head[0], &payload, take)?;
            self.at += (HEAD + len) as u64;
            if is_end {
                return self.ended();
            }
        }
    }

    fn first_line(&mut self) -> Result<(), StoreError> {
        // A file of something else may be shorter.
        let mut first = Vec::new();
        let read = (&mut self.from).take(FIRST.len() as u64).read_to_end(&mut first);
        read.map_err(|error| StoreError::Unavailable {
            place: self.place.clone(),
            cause: error.to_string(),
        })?;
        if first == FIRST.as_bytes() {
            self.at = first.len() as u64;
            return Ok(());
        }
        let text = String::from_utf8_lossy(&first);
        Err(self.unusable(match text.strip_prefix(START) {
            Some(number) => format!(
                "it is of format {}, and this version knows format 1: use the version that wrote it",
                number.split('\n').next().unwrap_or_default()
            ),
            None => "it is no backup of agents: `sekisho agents backup` makes one".to_owned(),
        }))
    }

    fn block(
        &mut self,
        kind: u8,
        payload: &[u8],
        take: &mut dyn FnMut(Part<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let wrong = |it: &Checker, error: CodecError| it.damaged(format!("a block: {error}"));
        let mut r = Reader::new(payload).map_err(|error| wrong(self, error))?;
        match kind {
            MOMENT => self.moment(&mut r).map_err(|error| wrong(self, error)),
            ROWS => {
                let tree = r.number().map_err(|error| wrong(self, error))?;
                let tree = Tree::ALL.into_iter().find(|it| *it as u64 == tree);
                let tree = tree.ok_or_else(|| self.damaged("rows of an unknown kind"))?;
                while !r.is_empty() {
                    let (key, value) = pair(&mut r).map_err(|error| wrong(self, error))?;
                    self.row(tree, key, value).map_err(|error| wrong(self, error))?;
                    take(Part::Row(tree, key, value))?;
                }
                Ok(())
            }
            FILE => {
                let (name, part) = pair(&mut r).map_err(|error| wrong(self, error))?;
                let name = std::str::from_utf8(name).ok().filter(|name| is_name(name));
                let name = name.ok_or_else(|| self.damaged("it has a file of another place"))?;
                take(Part::File(name, part))
            }
            END => match r.number() {
                Ok(rows) if rows == self.rows => Ok(()),
                Ok(rows) => Err(self.damaged(format!("it has {} rows, not {rows}", self.rows))),
                Err(error) => Err(wrong(self, error)),
            },
            _ => {
                Err(self.unusable("it has a part that this version does not know: use a later one"))
            }
        }
    }

    fn moment(&mut self, r: &mut Reader<'_>) -> Result<(), CodecError> {
        self.backed.taken_ns = r.number()?;
        for _ in 0..r.number()? {
            let id = r.number()?;
            let id = u32::try_from(id).map_err(|_| CodecError::Damaged("no partition"))?;
            let state = State::decode(r.bytes()?)?;
            self.tallies.insert(id, Tally { state, ..Tally::default() });
        }
        self.moment = true;
        Ok(())
    }

    /// A row fits what the moment says of its partition.
    fn row(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<(), CodecError> {
        let (tag, rest) = match (tree, key) {
            (Tree::Rest, [tag, rest @ ..]) => (*tag, rest),
            _ => (0, key),
        };
        let id = rest.first_chunk().ok_or(CodecError::Damaged("a row is of no partition"))?;
        let unknown = CodecError::Damaged("a row is of a partition of another moment");
        let tally = self.tallies.get_mut(&u32::from_be_bytes(*id)).ok_or(unknown)?;
        let n = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let another = CodecError::Damaged("a row is of another moment than the rest");
        let cursor = &tally.state.cursor;
        match (tree, tag) {
            (Tree::Log, _) => {
                tally.log += 1;
                // From the first that is kept on, without a gap.
                if n != tally.state.forgotten.0 + tally.log || n > tally.state.log_end.0 {
                    return Err(another);
                }
                self.backed.messages += 1;
            }
            (Tree::Hot, _) => {
                let has_state = u64::from(hot_row(value)?.1.is_some());
                tally.with_state += has_state;
                self.backed.agents += has_state;
            }
            (Tree::Cold, _) => tally.cold += 1,
            (Tree::Rest, crate::embedded::STATE) => {
                if tally.has_state || tally.state.encode() != value {
                    return Err(another);
                }
                tally.has_state = true;
            }
            (Tree::Rest, OUTBOX) if n > cursor.notified => return Err(another),
            (Tree::Rest, SENT) if n > cursor.sent => return Err(another),
            (Tree::Rest, OUTBOX) => self.backed.notifications += 1,
            (Tree::Rest, TIMERS) => self.backed.timers += 1,
            (Tree::Rest, crate::embedded::DEAD) => self.backed.dead += 1,
            (Tree::Rest, _) => {}
        }
        self.rows += 1;
        Ok(())
    }

    /// Everything has come.
    fn ended(mut self) -> Result<Backed, StoreError> {
        let mut byte = [0];
        if self.from.read(&mut byte).unwrap_or(0) > 0 {
            return Err(self.damaged("it goes on behind its end"));
        }
        if !self.moment {
            return Err(self.damaged("it does not say of which moment it is"));
        }
        for (id, tally) in &self.tallies {
            let state = &tally.state;
            let is_whole = tally.has_state
                && tally.log == state.log_end.0 - state.forgotten.0
                && tally.cold == tally.with_state;
            if !is_whole {
                let cause = format!("rows of partition {id} are missing, or are of another moment");
                return Err(self.damaged(cause));
            }
        }
        let each = self.tallies.iter().map(|(&id, Tally { state, .. })| BackedPartition {
            id,
            epoch: state.epoch.0,
            version: state.version,
            position: state.log_end.0,
            handled: state.cursor.low.0,
        });
        self.backed.partitions = each.collect();
        Ok(self.backed)
    }
}

/// Makes a store of a backup, in a folder that is new or empty. Until it is whole it lies beside, in
/// `FOLDER.restoring`, so that a restore that is cut off leaves no store; the next one removes that.
///
/// # Errors
/// As of [`check_backup`]; or the folder is taken or cannot be written.
pub fn restore(file: &Path, folder: &Path, spec: EmbeddedSpec) -> Result<Backed, StoreError> {
    check_restore(folder)?;
    let backed = check_backup(file)?;
    let beside = beside(folder)?;
    let store = beside.join(STORE);
    let failed = |error: io::Error| StoreError::Unavailable {
        place: format!("the store {}", store.display()),
        cause: error.to_string(),
    };
    clear(&beside, &store)?;
    fill(file, &store, spec)?;
    // Opened once more: what is read is on the disk. It ends before the folder gets its name.
    let opened = Embedded::open(&store, spec)?;
    if opened.states()?.len() != backed.partitions.len() {
        let cause = "what was written is not what is read: is the disk sound?".to_owned();
        return Err(StoreError::Unusable { place: opened.place(), cause });
    }
    drop(opened);
    fs::rename(&store, folder).map_err(failed)?;
    fs::remove_dir(&beside).map_err(failed)?;
    let parent = folder.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new("."))).and_then(|it| it.sync_all()).map_err(failed)?;
    Ok(backed)
}

/// Nothing is in the folder that a store would be made of.
///
/// # Errors
/// Something is.
pub fn check_restore(folder: &Path) -> Result<(), StoreError> {
    let place = format!("the store {}", folder.display());
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let cause = "the folder has files: name a new or an empty one".to_owned();
                Err(StoreError::Unusable { place, cause })
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::Unusable { place, cause: error.to_string() }),
    }
}

/// The folder in `FOLDER.restoring` that becomes the store.
const STORE: &str = "store";

fn beside(folder: &Path) -> Result<PathBuf, StoreError> {
    let Some(name) = folder.file_name() else {
        let place = format!("the store {}", folder.display());
        let cause = "it has no name: name a folder that is to be made".to_owned();
        return Err(StoreError::Unusable { place, cause });
    };
    let mut name = name.to_owned();
    name.push(".restoring");
    Ok(folder.with_file_name(name))
}

/// Removes what a restore that was cut off has left; one that runs has its store open.
fn clear(beside: &Path, store: &Path) -> Result<(), StoreError> {
    let place = format!("the folder {}", beside.display());
    let failed = |error: io::Error| StoreError::Unavailable {
        place: place.clone(),
        cause: error.to_string(),
    };
    fs::create_dir_all(beside).map_err(failed)?;
    for entry in fs::read_dir(beside).map_err(failed)? {
        if entry.map_err(failed)?.file_name() != STORE {
            let cause = "it has files that no restore has left: move them away".to_owned();
            return Err(StoreError::Unusable { place, cause });
        }
    }
    if store.exists() {
        drop(Folder::take(store)?);
        fs::remove_dir_all(store).map_err(failed)?;
    }
    Ok(())
}

/// Writes the trees and the files of a backup into a new folder.
fn fill(file: &Path, store: &Path, spec: EmbeddedSpec) -> Result<(), StoreError> {
    let embedded = Embedded::open(store, spec)?;
    let mut filling = embedded.filling()?;
    Checker::open(file)?.all(&mut |part| match part {
        Part::Row(tree, key, value) => filling.put(tree, key, value),
        Part::File(name, part) => {
            append(&store.join(name), part).map_err(|error| StoreError::Unavailable {
                place: folder::place(store),
                cause: format!("{name}: {error}"),
            })
        }
    })?;
    filling.end()
}

fn append(path: &Path, part: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(part)?;
    file.sync_all()
}
