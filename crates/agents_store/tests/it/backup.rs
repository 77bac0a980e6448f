//! Backups of a folder: of one moment while others write, whole or refused, and restored whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use agents_store::{
    BackupError, BackupWriter, Durability, Embedded, EmbeddedSpec, Memory, Store, StoreError,
    check_backup, restore,
};
use gate::Time;

use crate::killed::{Writer, whole};
use crate::places::Scratch;
use crate::same::as_memory;

const SPEC: EmbeddedSpec = EmbeddedSpec { memory_bytes: 64 << 20, durability: Durability::System };
const KEPT: &str = "server/undelivered.jsonl";

type Any = dyn Store<Vec<u8>>;

/// A file with the backup of a store.
fn backed_up(store: &Any, file: &Path) -> Result<(), BackupError> {
    let mut to = File::create(file)?;
    let mut writer = BackupWriter::new(&mut to, Time::from_nanos(7))?;
    writer.file(KEPT, b"one\n")?;
    store.backup(&mut writer)?;
    writer.file(KEPT, b"two\n")?;
    writer.end()?;
    Ok(())
}

/// A folder for many stores and their backups.
fn folder() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().to_owned();
    (scratch, path)
}

#[test]
fn what_is_restored_answers_as_memory() {
    let (_scratch, at) = folder();
    let mut number = 0;
    for seed in 0..12 {
        number += 1;
        let first = Box::new(Embedded::open(&at.join(number.to_string()), SPEC).unwrap());
        let next = std::cell::Cell::new(number);
        as_memory(seed, 60, first, |store| {
            let file = at.join("backup");
            backed_up(&*store, &file).unwrap();
            drop(store);
            next.set(next.get() + 1);
            let folder = at.join(next.get().to_string());
            let told = restore(&file, &folder, SPEC).unwrap();
            assert_eq!(told, check_backup(&file).unwrap());
            assert_eq!((told.taken_ns, told.bytes), (7, fs::metadata(&file).unwrap().len()));
            assert_eq!(fs::read(folder.join(KEPT)).unwrap(), b"one\ntwo\n");
            Box::new(Embedded::open(&folder, SPEC).unwrap())
        });
        assert!(next.get() < number + 30);
        number = next.get();
    }
    assert!(number > 24, "there were hardly any restores: {number}");
}

/// Ends a writer also where the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_under_load_is_of_one_moment() {
    let (_scratch, at) = folder();
    let store = Embedded::open(&at.join("own"), SPEC).unwrap();
    let over = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut writer = Writer::open(&store);
            while !over.load(Ordering::Relaxed) {
                writer.append();
                writer.commit();
            }
            (writer.version, writer.log_end)
        });
        let (mut last, over) = ((0, 0), Over(&over));
        for round in 0..12 {
            let (file, folder) = (at.join("backup"), at.join(format!("restored-{round}")));
            backed_up(&store, &file).unwrap();
            let told = restore(&file, &folder, SPEC).unwrap();
            let found = whole(&Embedded::open(&folder, SPEC).unwrap());
            let of = told.partitions.first().map_or((0, 0), |of| (of.version, of.position));
            assert_eq!(found, of, "what is told is what is there");
            assert!(found > last || round == 0, "{found:?} does not come behind {last:?}");
            last = found;
        }
        drop(over);
        assert!(writing.join().unwrap() >= last);
        last
    });
    assert!(last.0 > 12, "there was hardly a load: {last:?}");
}

#[track_caller]
fn refused(file: &Path, folder: &Path) -> String {
    let error = restore(file, folder, SPEC).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
    assert_eq!(error, check_backup(file).unwrap_err());
    assert!(!folder.exists() && !folder.with_extension("restoring").exists(), "something is left");
    error.to_string()
}

#[test]
fn a_backup_that_is_torn_or_damaged_anywhere_is_refused_with_its_place() {
    let (_scratch, at) = folder();
    let store = Embedded::open(&at.join("own"), SPEC).unwrap();
    let mut writer = Writer::open(&store);
    writer.append();
    writer.commit();
    let (file, wrong, folder) = (at.join("backup"), at.join("wrong"), at.join("restored"));
    backed_up(&store, &file).unwrap();
    let bytes = fs::read(&file).unwrap();
    for len in (33..bytes.len()).step_by(101).chain([0, 1, bytes.len() - 1]) {
        fs::write(&wrong, &bytes[..len]).unwrap();
        let told = refused(&wrong, &folder);
        let cause = if len < 33 { "it is no backup of agents" } else { "it is torn" };
        assert!(told.contains(cause) && told.contains("byte "), "{len}: {told}");
    }
    for at in (0..bytes.len()).step_by(131) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        fs::write(&wrong, &bytes).unwrap();
        refused(&wrong, &folder);
    }
    fs::write(&wrong, [&bytes[..], b"x"].concat()).unwrap();
    assert!(refused(&wrong, &folder).contains("it goes on behind its end"));
    let later = String::from_utf8_lossy(&bytes[..32]).replace("format 1", "format 9");
    fs::write(&wrong, [later.as_bytes(), &bytes[later.len()..]].concat()).unwrap();
    assert!(refused(&wrong, &folder).contains("it is of format 9"));
    fs::write(&wrong, "price,symbol\n").unwrap();
    assert!(refused(&wrong, &folder).contains("it is no backup of agents"));
}

/// The blocks of two backups, each whole: the checksums are a chain, so that they do not fit.
#[test]
fn blocks_of_another_backup_are_refused() {
    let (_scratch, at) = folder();
    let store = Embedded::open(&at.join("own"), SPEC).unwrap();
    let mut writer = Writer::open(&store);
    let mut both = Vec::new();
    for _ in 0..2 {
        writer.append();
        writer.commit();
        let file = at.join("backup");
        backed_up(&store, &file).unwrap();
        both.push(fs::read(&file).unwrap());
    }
    // First line, a file, then the moment: its block ends where its length says.
    let end = |bytes: &[u8], from: usize| {
        let len = bytes[from + 1..from + 5].try_into().unwrap();
        from + 9 + u32::from_le_bytes(len) as usize
    };
    let first =
        fs::read(at.join("backup")).unwrap().iter().position(|&it| it == b'\n').unwrap() + 1;
    let cut = |bytes: &[u8]| end(bytes, end(bytes, first));
    let mixed = [&both[0][..cut(&both[0])], &both[1][cut(&both[1])..]].concat();
    let wrong = at.join("wrong");
    fs::write(&wrong, mixed).unwrap();
    let told = refused(&wrong, &at.join("restored"));
    assert!(told.contains("does not fit its checksum"), "{told}");
}

#[test]
fn a_restore_that_is_cut_off_leaves_no_store_and_disturbs_none() {
    let (_scratch, at) = folder();
    let store = Embedded::open(&at.join("own"), SPEC).unwrap();
    let mut writer = Writer::open(&store);
    writer.append();
    writer.commit();
    let (file, folder) = (at.join("backup"), at.join("restored"));
    backed_up(&store, &file).unwrap();
    // As far as one came that was killed.
    let beside = at.join("restored.restoring");
    drop(Embedded::open(&beside.join("store"), SPEC).unwrap());
    fs::create_dir_all(beside.join("store/server")).unwrap();
    fs::write(beside.join("store").join(KEPT), b"torn").unwrap();
    restore(&file, &folder, SPEC).unwrap();
    assert!(!beside.exists());
    assert_eq!(fs::read(folder.join(KEPT)).unwrap(), b"one\ntwo\n");
    assert_eq!(whole(&Embedded::open(&folder, SPEC).unwrap()), (1, 3));
    // What is there is left alone: a store, and files of somebody else.
    let told = restore(&file, &folder, SPEC).unwrap_err().to_string();
    assert!(told.contains("name a new or an empty one"), "{told}");
    assert_eq!(whole(&Embedded::open(&folder, SPEC).unwrap()), (1, 3));
    let (folder, beside) = (at.join("other"), at.join("other.restoring"));
    fs::create_dir_all(&beside).unwrap();
    fs::write(beside.join("photo.jpg"), b"mine").unwrap();
    let told = restore(&file, &folder, SPEC).unwrap_err().to_string();
    assert!(told.contains("no restore has left"), "{told}");
    assert_eq!(fs::read(beside.join("photo.jpg")).unwrap(), b"mine");
}

/// Takes some bytes, and then no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn where_there_is_no_backup_the_cause_is_told() {
    let (_scratch, at) = folder();
    let store = Embedded::open(&at.join("own"), SPEC).unwrap();
    Writer::open(&store).append();
    let mut full = Full(60);
    let mut writer = BackupWriter::new(&mut full, Time::ZERO).unwrap();
    let ended = Store::<Vec<u8>>::backup(&store, &mut writer);
    assert!(matches!(ended, Err(BackupError::Write(_))), "{ended:?}");
    let memory: Memory<Vec<u8>> = Memory::new();
    let told = backed_up(&memory, &at.join("backup")).unwrap_err().to_string();
    assert!(told.contains("serve from a folder"), "{told}");
}
