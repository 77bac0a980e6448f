//! Bytes that are not ours, or not any more: every reader of bytes gives an error or the truth, and never panics.

use std::collections::{BTreeMap, BTreeSet};

use jungle::{
    Database, Disk, DiskError, Durability, Log, LogError, LogSettings, NodeId, Operation, Policy,
    SegmentLog, Settings, SnapshotError, Transaction, decode, encode, read_snapshot, start,
    take_snapshot, write_snapshot,
};

use crate::chance::{Chance, seeds};
use crate::naive::Naive;
use crate::random::edit;

/// Files in memory, a fault, and the files that have no write since their last sync.
#[derive(Clone, Debug, Default)]
struct Memory(BTreeMap<String, Vec<u8>>, Fault, BTreeSet<String>);

/// What an otherwise honest memory does to files of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// It has no room for the second write.
    Full,
    /// It writes another byte than it was given.
    Wrong,
}

impl Memory {
    fn file(&mut self, file: &str) -> Result<&mut Vec<u8>, DiskError> {
        let missing = || DiskError::Failed {
            file: file.to_owned(),
            action: "open",
            cause: "no such file".to_owned(),
        };
        self.0.get_mut(file).ok_or_else(missing)
    }
}

impl Disk for Memory {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.0.keys().cloned().collect())
    }

    fn read(&self, file: &str) -> Result<Vec<u8>, DiskError> {
        self.clone().file(file).cloned()
    }

    fn create(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.0.insert(file.to_owned(), vec![0; bytes as usize]);
        Ok(())
    }

    fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let fault = if file.starts_with("snapshot-") { self.1 } else { Fault::None };
        if fault == Fault::Full && offset > 0 {
            return Err(DiskError::Full { file: file.to_owned() });
        }
        self.2.remove(file);
        let (own, offset) = (self.file(file)?, offset as usize);
        own.resize(own.len().max(offset + bytes.len()), 0);
        own[offset..offset + bytes.len()].copy_from_slice(bytes);
        if fault == Fault::Wrong {
            own[offset] ^= 1;
        }
        Ok(())
    }

    fn truncate(&mut self, file: &str, bytes: u64) -> Result<(), DiskError> {
        self.file(file)?.truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self, file: &str) -> Result<(), DiskError> {
        self.2.insert(file.to_owned());
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let bytes = self.file(from)?.clone();
        self.0.remove(from);
        self.0.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.file(file)?;
        self.0.remove(file);
        Ok(())
    }
}

/// Transactions of every kind, each of which commits after those before it.
fn transactions(chance: &mut Chance, count: usize) -> (Database, Vec<Transaction>) {
    let mut database = Database::default();
    let mut log = Vec::new();
    let one = |operation| Transaction { operations: vec![operation], ..Transaction::default() };
    let pending = NodeId::pending(0);
    let text = str::to_owned;
    let mut wishes = vec![
        one(Operation::CreateTree { root: pending, name: text("main"), addressable: true }),
        Transaction::create_plain_tree("plain").by("ann", "a plain one"),
        one(Operation::MakeIndex { tree: text("main"), attribute: text("v") }),
        one(Operation::SetRule {
            tree: text("main"),
            attribute: text("a"),
            rule: jungle::Rule::LastInLog,
        }),
        one(Operation::Branch { id: pending, tree: text("main"), name: text("draft") }),
        one(Operation::RenameTree { tree: text("plain"), name: text("flat") }),
    ];
    wishes.reverse();
    while log.len() < count {
        let wish = wishes.pop().unwrap_or_else(|| {
            if chance.percent(10) {
                let policy = *chance.pick(&[Policy::Ours, Policy::Theirs]);
                return one(Operation::Merge { from: text("draft"), into: text("main"), policy });
            }
            let editor = database.private().editor(["main", "draft"][chance.below(2)]).unwrap();
            let mut naive = Naive::of(editor.tree());
            let edited = edit(editor, &mut naive, chance, 4);
            if chance.percent(20) {
                edited.transaction_if_unchanged()
            } else {
                edited.transaction()
            }
        });
        if database.commit(&wish).is_ok() {
            log.push(wish);
        }
    }
    (database, log)
}

/// A directory of a database that has answered these, one after the other.
fn directory(log: &[Transaction], settings: Settings) -> Memory {
    let (mut sequencer, mut segments, _) = start(Memory::default(), settings).unwrap();
    for (ticket, transaction) in (0..).zip(log) {
        sequencer.submit(ticket, transaction.clone()).unwrap();
        let done = sequencer.run(&mut segments).unwrap();
        done.answers[0].1.as_ref().unwrap();
    }
    segments.into_disk()
}

#[test]
fn transactions_are_read_as_they_were_written() {
    seeds("--test it transactions_are_read", 30, |_, chance| {
        for transaction in transactions(chance, 25).1 {
            assert_eq!(decode(&encode(&transaction)).unwrap(), transaction);
        }
    });
}

#[test]
fn bytes_of_anybody_are_no_reason_to_panic() {
    seeds("--test it bytes_of_anybody", 60, |_, chance| {
        let (database, log) = transactions(chance, 20);
        for transaction in &log {
            let mut bytes = encode(transaction);
            for _ in 0..1 + chance.below(4) {
                match chance.below(3) {
                    _ if bytes.is_empty() => {}
                    0 => bytes.truncate(chance.below(bytes.len())),
                    1 => {
                        let at = chance.below(bytes.len());
                        bytes[at] = chance.next() as u8;
                    }
                    _ => bytes.insert(chance.below(bytes.len()), chance.next() as u8),
                }
            }
            // What can be read is applied or rejected, and leaves a sound tree.
            let mut database = Database::at_version(
                database.private().clone(),
                jungle::Retention::default(),
                jungle::Thinning::default(),
            );
            if decode(&bytes).is_ok_and(|read| database.commit(&read).is_ok()) {
                let version = database.private();
                version.trees().for_each(|name| version.tree(name).unwrap().assert_sound());
            }
        }
    });
}

#[test]
fn every_flipped_bit_of_a_log_is_found_or_harmless() {
    let settings = Settings {
        log: LogSettings { segment_bytes: 2_000, ..LogSettings::default() },
        ..Settings::default()
    };
    let (database, log) = transactions(&mut Chance::new(1), 12);
    let memory = directory(&log, settings);
    let whole = start(memory.clone(), settings).unwrap().0.reader().version();
    assert_eq!(whole.hash(), database.private().hash());
    let (mut found, mut harmless) = (0, 0);
    for (file, bytes) in &memory.0 {
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
        // Where nothing was written, one bit of each byte is enough.
        let bits = |at: usize| if at > written { at % 8..at % 8 + 1 } else { 0..8 };
        for (at, bit) in (0..bytes.len()).flat_map(|at| bits(at).map(move |bit| (at, bit))) {
            let mut memory = memory.clone();
            memory.0.get_mut(file).unwrap()[at] ^= 1 << bit;
            match start(memory, settings) {
                Ok((sequencer, ..)) => {
                    harmless += 1;
                    assert!(at > written, "{file}: byte {at} was written, and its loss not seen");
                    assert_eq!(sequencer.reader().version().hash(), whole.hash(), "{file} at {at}");
                }
                Err(LogError::Damaged { segment, offset, .. }) => {
                    found += 1;
                    assert!(
                        segment == *file && offset <= at as u64,
                        "{segment} at {offset}, not {at}"
                    );
                }
                Err(other) => panic!("{file} at {at}: {other}"),
            }
        }
    }
    assert!(found > 8_000 && harmless > 0, "{found} found, {harmless} where nothing was written");
}

#[test]
fn every_flipped_bit_of_a_snapshot_is_found_and_the_log_is_used() {
    let (database, log) = transactions(&mut Chance::new(2), 14);
    let settings = Settings::default();
    let mut memory = directory(
        &log,
        Settings {
            log: LogSettings { segment_bytes: 4_000, ..LogSettings::default() },
            ..settings
        },
    );
    let file = write_snapshot(&mut memory, database.private()).unwrap();
    let seq = database.private().seq();
    let read = read_snapshot(&memory, seq).unwrap();
    assert_eq!(read.hash(), database.private().hash());
    let commits = |version: &jungle::Version| {
        (1..=seq).map(|seq| version.commit(seq).cloned()).collect::<Vec<_>>()
    };
    assert_eq!(commits(&read), commits(database.private()));
    let length = memory.0[&file].len();
    for (at, bit) in (0..length).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut memory = memory.clone();
        memory.0.get_mut(&file).unwrap()[at] ^= 1 << bit;
        let error = read_snapshot(&memory, seq).unwrap_err();
        assert!(matches!(error, SnapshotError::Damaged { .. }), "{error}");
        if at % 50 == 0 && bit == at / 50 % 8 {
            let (sequencer, _, started) = start(memory, settings).unwrap();
            assert_eq!((started.snapshot, started.unusable.len()), (0, 1));
            assert_eq!(sequencer.reader().version().hash(), database.private().hash());
        }
    }
    for length in 0..length {
        let mut memory = memory.clone();
        memory.0.get_mut(&file).unwrap().truncate(length);
        assert!(read_snapshot(&memory, seq).is_err(), "cut to {length}");
    }
}

#[test]
fn a_queue_that_is_full_says_so_and_a_group_is_one_append() {
    let settings = Settings {
        sequencer: jungle::SequencerSettings { queue: 3, ..Default::default() },
        ..Settings::default()
    };
    let (mut sequencer, mut log, _) = start(Memory::default(), settings).unwrap();
    let create = |name: &str| Transaction {
        operations: vec![Operation::CreateTree {
            root: NodeId::pending(0),
            name: name.to_owned(),
            addressable: true,
        }],
        ..Transaction::default()
    };
    for (ticket, name) in (0..).zip(["a", "b", "a"]) {
        sequencer.submit(ticket, create(name)).unwrap();
    }
    let full = sequencer.submit(3, create("c")).unwrap_err();
    assert_eq!(full, jungle::CommitError::QueueFull(3));
    let group = sequencer.next_group().unwrap();
    assert_eq!((group.first, group.payloads.len()), (1, 2));
    assert!(sequencer.next_group().is_none(), "one group at a time");
    assert_eq!(sequencer.reader().version().seq(), 0, "not in the log yet");
    jungle::Log::append(&mut log, group.first, &group.payloads).unwrap();
    let done = sequencer.appended(Ok(()));
    let seqs: Vec<_> =
        done.answers.iter().map(|(_, answer)| answer.as_ref().ok().map(|done| done.seq)).collect();
    assert_eq!(seqs, [Some(1), Some(2), None]);
    assert_eq!(sequencer.reader().version().trees().count(), 2);
}

/// Commits these, and takes a snapshot behind each third of them.
fn with_snapshots(memory: Memory, log: &[Transaction], settings: Settings) -> Memory {
    let (mut sequencer, mut segments, _) = start(memory, settings).unwrap();
    for (ticket, transaction) in (0..).zip(log) {
        sequencer.submit(ticket, transaction.clone()).unwrap();
        sequencer.run(&mut segments).unwrap().answers[0].1.as_ref().unwrap();
        if ticket % 3 == 2 {
            take_snapshot(&sequencer, &mut segments).unwrap();
        }
    }
    segments.into_disk()
}

/// The story: a snapshot that had been damaged counted as one of the two that are kept. The next one then drove out the
/// last whole one, and the log that this one needed.
#[test]
fn a_damaged_snapshot_is_set_aside_and_counts_no_more() {
    let settings = Settings {
        log: LogSettings { segment_bytes: 500, ..LogSettings::default() },
        ..Settings::default()
    };
    let (database, log) = transactions(&mut Chance::new(3), 15);
    let mut memory = with_snapshots(Memory::default(), &log[..9], settings);
    let damage = |memory: &mut Memory, seq: u64| {
        memory.0.get_mut(&format!("snapshot-{seq:020}")).unwrap()[200] ^= 1;
    };
    damage(&mut memory, 9);
    let (.., segments, started) = start(memory, settings).unwrap();
    assert_eq!((started.snapshot, started.unusable.len()), (6, 1));
    let mut memory = with_snapshots(segments.into_disk(), &log[9..12], settings);
    let snapshots = |memory: &Memory| {
        let files = memory.0.keys().filter(|file| file.contains("snapshot"));
        files.map(|file| file.replace("00000000000000000", "")).collect::<Vec<_>>()
    };
    assert_eq!(snapshots(&memory), ["damaged-snapshot-009", "snapshot-006", "snapshot-012"]);
    damage(&mut memory, 12);
    let (sequencer, segments, started) = start(memory, settings).unwrap();
    assert_eq!((started.snapshot, started.unusable.len()), (6, 1));
    assert_eq!(sequencer.reader().version().seq(), 12);
    let memory = with_snapshots(segments.into_disk(), &log[12..], settings);
    assert_eq!(snapshots(&memory), ["damaged-snapshot-012", "snapshot-006", "snapshot-015"]);
    let (sequencer, ..) = start(memory, settings).unwrap();
    assert_eq!(sequencer.reader().version().hash(), database.private().hash());
}

/// The story: a snapshot that could not be finished left its file, and was told as if the log had stopped. One that
/// could not be read let go of the log before it.
#[test]
fn a_snapshot_that_fails_leaves_no_file_and_the_log_whole() {
    let settings = Settings {
        log: LogSettings { segment_bytes: 500, ..LogSettings::default() },
        ..Settings::default()
    };
    let (database, log) = transactions(&mut Chance::new(3), 15);
    for fault in [Fault::Full, Fault::Wrong] {
        let memory = with_snapshots(Memory::default(), &log[..8], settings);
        let (mut sequencer, mut segments, _) = start(memory, settings).unwrap();
        segments.disk_mut().1 = fault;
        let before = segments.disk_mut().0.clone();
        for _ in 0..2 {
            let error = take_snapshot(&sequencer, &mut segments).unwrap_err();
            assert!(matches!(error, LogError::NoSnapshot(_)), "{error}");
            assert!(error.to_string().contains("the log goes on"), "{error}");
            let now = segments.disk_mut().0.clone();
            let new: Vec<_> = now.keys().filter(|file| !before.contains_key(*file)).collect();
            assert!(
                new.iter().all(|file| file.starts_with("damaged-")) && new.len() < 2,
                "{new:?}"
            );
            assert!(before.iter().all(|(file, bytes)| now.get(file) == Some(bytes)), "{fault:?}");
        }
        // The log goes on.
        for (ticket, transaction) in (0..).zip(&log[8..]) {
            sequencer.submit(ticket, transaction.clone()).unwrap();
            sequencer.run(&mut segments).unwrap().answers[0].1.as_ref().unwrap();
        }
        let (sequencer, _, started) = start(segments.into_disk(), settings).unwrap();
        assert_eq!(started.snapshot, 6);
        assert_eq!(sequencer.reader().version().hash(), database.private().hash());
    }
}

/// A log of these payloads, each a group of its own, and what is handed over when it is opened again.
fn written(settings: LogSettings, payloads: &[Vec<u8>]) -> Memory {
    let (mut log, _) = SegmentLog::open(Memory::default(), settings, 0, |_, _| Ok(())).unwrap();
    for payload in payloads {
        log.append(log.head() + 1, std::slice::from_ref(payload)).unwrap();
    }
    log.into_disk()
}

fn reopened(
    memory: Memory,
    settings: LogSettings,
) -> Result<(Vec<Vec<u8>>, u32, Memory), LogError> {
    let mut payloads = Vec::new();
    let (log, _) = SegmentLog::open(memory, settings, 0, |_, payload| {
        payloads.push(payload.to_vec());
        Ok(())
    })?;
    let epoch = log.epoch();
    Ok((payloads, epoch, log.into_disk()))
}

/// The story: payloads were written exclusive-or 0x5a, so that 512 bytes of `Z` in the right place were a sector of
/// zeros: what a crash leaves. A bit that flipped in such an entry made it torn, and it was cut, though it had been
/// answered.
#[test]
fn no_payload_looks_as_if_a_crash_had_torn_it() {
    let settings = LogSettings { segment_bytes: 20_000, ..LogSettings::default() };
    for byte in [b'Z', 0, 0xff] {
        let payloads = [vec![1; 100], vec![byte; 3_000]];
        let memory = written(settings, &payloads);
        assert_eq!(reopened(memory.clone(), settings).unwrap().0, payloads);
        let mut flipped = memory;
        let file = flipped.0.keys().next().unwrap().clone();
        flipped.0.get_mut(&file).unwrap()[500] ^= 4;
        let error = reopened(flipped, settings).unwrap_err();
        assert!(matches!(error, LogError::Damaged { entry: 2, .. }), "{error}");
    }
}

/// The story: a start that may have lost what somebody had seen raised the epoch in memory alone. The next one, if
/// nothing had been appended between, raised it to the same number.
#[test]
fn an_epoch_never_comes_twice() {
    for durability in [Durability::Interval, Durability::None] {
        let settings = LogSettings { durability, segment_bytes: 2_000 };
        let (_, first, mut memory) = reopened(Memory::default(), settings).unwrap();
        let mut epochs = vec![first];
        memory = if first == 1 { written(settings, &[vec![1; 10]]) } else { memory };
        for start in 0..6 {
            let (payloads, epoch, mut after) = reopened(memory, settings).unwrap();
            if start == 3 {
                // One of these segments is new, and larger than others.
                let (mut log, _) = SegmentLog::open(after, settings, 0, |_, _| Ok(())).unwrap();
                log.append(log.head() + 1, &[vec![2; 5_000]]).unwrap();
                assert!(log.epoch() > epoch);
                epochs.extend([epoch, log.epoch()]);
                after = log.into_disk();
            } else {
                epochs.push(epoch);
            }
            assert!(payloads.len() < 3);
            memory = after;
        }
        assert!(epochs.is_sorted_by(|left, right| left < right), "{durability:?}: {epochs:?}");
    }
}

/// The story: a file that ended within an entry was taken for torn, and the entry was cut.
#[test]
fn a_file_that_ends_within_an_entry_is_damaged() {
    for durability in [Durability::Sync, Durability::Interval, Durability::None] {
        let settings = LogSettings { durability, segment_bytes: 4_000 };
        let mut memory = written(settings, &[vec![1; 100], vec![2; 1_000]]);
        let (_, file) = memory.0.iter_mut().next().unwrap();
        file.truncate(1_000);
        let error = reopened(memory, settings).unwrap_err();
        assert!(matches!(error, LogError::Damaged { entry: 2, .. }), "{durability:?}: {error}");
    }
}

/// The story: with `Durability::None` a sync made only the newest segment safe, and a crash that had torn an older one
/// was told as damage.
#[test]
fn without_syncs_an_older_segment_may_be_torn_and_a_sync_covers_all() {
    let settings = LogSettings { durability: Durability::None, segment_bytes: 1_000 };
    let payloads: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 600]).collect();
    let memory = written(settings, &payloads);
    let files: Vec<String> = memory.0.keys().cloned().collect();
    assert_eq!(files.len(), 6);
    // A sector of the third segment was never written.
    let torn = |mut memory: Memory| {
        memory.0.get_mut(&files[2]).unwrap()[512..].fill(0);
        memory
    };
    let (left, _, after) = reopened(torn(memory), settings).unwrap();
    assert_eq!(left, payloads[..2]);
    assert_eq!(reopened(after, settings).unwrap().0, payloads[..2]);
    // The same, behind a sync of all.
    let (mut log, _) = SegmentLog::open(Memory::default(), settings, 0, |_, _| Ok(())).unwrap();
    for payload in &payloads {
        log.append(log.head() + 1, std::slice::from_ref(payload)).unwrap();
        assert_eq!(log.synced(), 0);
    }
    log.sync().unwrap();
    assert_eq!(log.synced(), 6);
    for file in &files {
        assert!(log.disk_mut().2.contains(file), "{file} was not synced");
    }
    log.append(7, &[vec![7; 100]]).unwrap();
    let error = reopened(torn(log.into_disk()), settings).unwrap_err();
    assert!(matches!(error, LogError::Damaged { entry: 3, .. }), "{error}");
}

/// A log of the version before was told to be damaged, and a backup was asked for that would have been as old.
#[test]
fn a_log_of_another_version_is_named() {
    let mut memory = written(LogSettings::default(), &[b"one".to_vec()]);
    let (file, bytes) = memory.0.iter_mut().find(|(file, _)| file.starts_with("log-")).unwrap();
    let file = file.clone();
    bytes[7] = b'1';
    let flipped = reopened(memory.clone(), LogSettings::default()).unwrap_err();
    assert!(matches!(flipped, LogError::Damaged { .. }), "a flipped bit is no version: {flipped}");
    let bytes = memory.0.get_mut(&file).unwrap();
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    let told = reopened(memory, LogSettings::default()).unwrap_err();
    assert_eq!(told, LogError::Format { segment: file.clone(), found: "JungleL1".into() });
    let told = told.to_string();
    assert!(told.contains(&file) && told.contains("JungleL2") && told.contains("export"), "{told}");
}
