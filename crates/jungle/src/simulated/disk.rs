//! A disk that does what real ones do to those who do not sync: what is not safe at a crash is there or not,
//! sector by sector, in any order.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::chance::Chance;
use crate::disk::{Disk, DiskError};

const SECTOR: usize = 512;

/// A handle to a disk that outlives the programs that use it.
#[derive(Clone)]
pub(super) struct SimulatedDisk(Rc<RefCell<State>>);

struct State {
    chance: Chance,
    /// Files by name, as programs see them.
    names: BTreeMap<String, u64>,
    /// The same as it would be after a crash, and the changes since.
    safe_names: BTreeMap<String, u64>,
    renames: Vec<Rename>,
    files: BTreeMap<u64, File>,
    next: u64,
    operations: u64,
    crash_at: Option<u64>,
    /// Fails the sync with this number, and counts down.
    fail_sync_in: Option<u64>,
    capacity: u64,
    down: bool,
}

#[derive(Clone)]
enum Rename {
    Made(String, u64),
    Renamed(String, String),
    Removed(String),
}

#[derive(Clone, Default)]
struct File {
    now: Vec<u8>,
    safe: Vec<u8>,
    /// Sectors written since the last sync. A failed sync forgets them, as Linux does: a later sync that
    /// succeeds does not make them safe.
    dirty: BTreeSet<usize>,
}

impl State {
    fn step(&mut self, file: &str, action: &'static str) -> Result<(), DiskError> {
        if self.crash_at == Some(self.operations) {
            self.down = true;
        }
        self.operations += 1;
        if self.down {
            return Err(failed(file, action, "the machine is down"));
        }
        Ok(())
    }

    fn used(&self) -> u64 {
        self.names.values().map(|id| self.files[id].now.len() as u64).sum()
    }

    fn file(&mut self, name: &str, action: &'static str) -> Result<&mut File, DiskError> {
        let id = self.names.get(name).ok_or_else(|| failed(name, action, "no such file"))?;
        Ok(self.files.get_mut(id).expect("names name files"))
    }
}

fn failed(file: &str, action: &'static str, cause: &str) -> DiskError {
    DiskError::Failed { file: file.to_owned(), action, cause: cause.to_owned() }
}

fn rename(names: &mut BTreeMap<String, u64>, change: &Rename) {
    match change {
        Rename::Made(name, id) => drop(names.insert(name.clone(), *id)),
        Rename::Renamed(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        Rename::Removed(name) => drop(names.remove(name)),
    }
}

impl SimulatedDisk {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(State {
            chance: Chance::new(seed ^ 0xd15c),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            renames: Vec::new(),
            files: BTreeMap::new(),
            next: 0,
            operations: 0,
            crash_at: None,
            fail_sync_in: None,
            capacity: u64::MAX,
            down: false,
        })))
    }

    /// The machine goes down at the operation with this number.
    pub(super) fn crash_at(&self, operation: Option<u64>) {
        self.0.borrow_mut().crash_at = operation;
    }

    pub(super) fn is_down(&self) -> bool {
        self.0.borrow().down
    }

    pub(super) fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// The sync after so many others fails.
    pub(super) fn fail_sync_in(&self, syncs: u64) {
        self.0.borrow_mut().fail_sync_in = Some(syncs);
    }

    /// Room for so many bytes more.
    pub(super) fn room(&self, bytes: u64) {
        let mut state = self.0.borrow_mut();
        state.capacity = state.used().saturating_add(bytes);
    }

    /// The machine is up again: of all that was not safe, some has come to the disk.
    pub(super) fn restart(&self) {
        let state = &mut *self.0.borrow_mut();
        // File systems keep the order of names, by their journals.
        let kept = state.chance.below(state.renames.len() + 1);
        let renames = std::mem::take(&mut state.renames);
        renames[..kept].iter().for_each(|change| rename(&mut state.safe_names, change));
        state.names = state.safe_names.clone();
        for file in state.files.values_mut() {
            // All, nothing, or each sector by itself.
            let percent = *state.chance.pick(&[0, 20, 50, 80, 100]);
            let length = if state.chance.percent(50) { file.now.len() } else { file.safe.len() };
            let mut found = file.safe.clone();
            found.resize(length, 0);
            for sector in std::mem::take(&mut file.dirty) {
                let end = ((sector + 1) * SECTOR).min(length).min(file.now.len());
                let start = (sector * SECTOR).min(end);
                if state.chance.percent(percent) {
                    found[start..end].copy_from_slice(&file.now[start..end]);
                }
            }
            (file.now, file.safe) = (found.clone(), found);
        }
        let names: BTreeSet<u64> = state.names.values().copied().collect();
        state.files.retain(|id, _| names.contains(id));
        (state.down, state.crash_at, state.fail_sync_in) = (false, None, None);
        state.capacity = u64::MAX;
    }

    /// No fault is ahead any more, and nothing that was written is gone.
    pub(super) fn come_up(&self) {
        let state = &mut *self.0.borrow_mut();
        (state.down, state.capacity) = (false, u64::MAX);
        (state.crash_at, state.fail_sync_in) = (None, None);
    }

    /// Flips a bit of what was written, somewhere; the place, by which it is taken back.
    pub(super) fn flip(&self) -> Option<(u64, usize, u8)> {
        let state = &mut *self.0.borrow_mut();
        let files: Vec<u64> = state.names.values().copied().collect();
        if files.is_empty() {
            return None;
        }
        let id = *state.chance.pick(&files);
        let file = state.files.get_mut(&id).expect("names name files");
        let written = file.now.iter().rposition(|byte| *byte != 0)? + 1;
        let (at, bit) = (state.chance.below(written), 1 << state.chance.below(8));
        Self::toggle(file, at, bit);
        Some((id, at, bit))
    }

    fn toggle(file: &mut File, at: usize, bit: u8) {
        // A start may have cut what was torn.
        for bytes in [&mut file.now, &mut file.safe] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bit;
            }
        }
    }

    /// Takes a flip back, if the file is still there.
    pub(super) fn unflip(&self, (id, at, bit): (u64, usize, u8)) {
        let state = &mut *self.0.borrow_mut();
        if let Some(file) = state.files.get_mut(&id) {
            Self::toggle(file, at, bit);
        }
    }
}

impl Disk for SimulatedDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.0.borrow().names.keys().cloned().collect())
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        Ok(self.0.borrow_mut().file(file, "read")?.now.clone())
    }

    fn create(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(file, "create")?;
        if state.used() + bytes > state.capacity {
            return Err(DiskError::Full { file: file.to_owned() });
        }
        let id = state.next;
        state.next += 1;
        // The zeros are there at once; the length is safe with the first sync.
        let made = File { now: vec![0; bytes as usize], ..File::default() };
        state.files.insert(id, made);
        let change = Rename::Made(file.to_owned(), id);
        rename(&mut state.names, &change);
        state.renames.push(change);
        Ok(())
    }

    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(file, "write")?;
        let (offset, used, capacity) = (offset as usize, state.used(), state.capacity);
        let written = state.file(file, "write")?;
        let end = offset + bytes.len();
        let grown = end.saturating_sub(written.now.len());
        if used + grown as u64 > capacity {
            return Err(DiskError::Full { file: file.to_owned() });
        }
        written.now.resize(written.now.len() + grown, 0);
        written.now[offset..end].copy_from_slice(bytes);
        written.dirty.extend(offset / SECTOR..end.div_ceil(SECTOR));
        Ok(())
    }

    fn truncate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(file, "truncate")?;
        let cut = state.file(file, "truncate")?;
        cut.now.truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(file, "sync")?;
        let fails = match &mut state.fail_sync_in {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let percent = if fails { 50 } else { 100 };
        if fails {
            state.fail_sync_in = None;
        }
        let id = *state.names.get(file).ok_or_else(|| failed(file, "sync", "no such file"))?;
        let synced = state.files.get_mut(&id).expect("names name files");
        synced.safe.resize(synced.now.len(), 0);
        for sector in std::mem::take(&mut synced.dirty) {
            let end = ((sector + 1) * SECTOR).min(synced.now.len());
            let start = (sector * SECTOR).min(end);
            if state.chance.percent(percent) {
                synced.safe[start..end].copy_from_slice(&synced.now[start..end]);
            }
        }
        if fails { Err(failed(file, "sync", "input/output error")) } else { Ok(()) }
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step("directory", "sync")?;
        state.renames.clear();
        state.safe_names = state.names.clone();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(from, "rename")?;
        state.file(from, "rename")?;
        let change = Rename::Renamed(from.to_owned(), to.to_owned());
        rename(&mut state.names, &change);
        state.renames.push(change);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        let state = &mut *self.0.borrow_mut();
        state.step(file, "remove")?;
        state.file(file, "remove")?;
        let change = Rename::Removed(file.to_owned());
        rename(&mut state.names, &change);
        state.renames.push(change);
        Ok(())
    }
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedDisk({} operations)", self.operations())
    }
}
