//! Bytes that Jungle reads: a log and a snapshot on a disk that has flipped, lost and cut some, and patches of
//! documents. Played by the fuzzer, and by chance in the tests of the crate.

use std::collections::BTreeMap;

use jungle::{
    Database, Disk, DiskError, LogError, LogSettings, SegmentLog, decode, encode, read_snapshot,
    to_json, write_snapshot,
};
use serde_json::{Value, json};

/// Files in memory.
#[derive(Clone, Debug, Default)]
struct Memory(BTreeMap<String, Vec<u8>>);

impl Memory {
    fn file(&mut self, file: &str) -> Result<&mut Vec<u8>, DiskError> {
        let (action, cause) = ("open", "no such file".to_owned());
        let missing = || DiskError::Failed { file: file.to_owned(), action, cause };
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
        let content = self.file(file)?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
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
        let content = std::mem::take(self.file(from)?);
        self.0.remove(from);
        self.0.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&mut self, file: &str) -> Result<(), DiskError> {
        self.file(file)?;
        self.0.remove(file);
        Ok(())
    }
}

/// Takes three bytes for each damage: a place by its share of the file, and what happens there.
fn damage(file: &mut Vec<u8>, wishes: &[u8]) {
    for wish in wishes.chunks_exact(3) {
        if file.is_empty() {
            return;
        }
        let place = usize::from(wish[0]) << 8 | usize::from(wish[1]);
        let at = place * file.len() / 65_536;
        match wish[2] {
            0 => file.truncate(at),
            1 => {
                let sector = at / 512 * 512;
                let end = (sector + 512).min(file.len());
                file[sector..end].fill(0);
            }
            bits => file[at] ^= bits,
        }
    }
}

fn opened(memory: Memory, settings: LogSettings) -> Result<(Vec<Vec<u8>>, Memory), LogError> {
    let mut payloads = Vec::new();
    let (log, _) = SegmentLog::open(memory, settings, 0, |_, payload| {
        payloads.push(payload.to_vec());
        Ok(())
    })?;
    Ok((payloads, log.into_disk()))
}

/// A log of some entries is damaged: what is read of it is a beginning of what was written, or an error, and what one
/// start has read the next one reads.
///
/// Input: the number of entries, for each a byte of length and one of content, then damages (3 bytes each).
pub fn log(input: &[u8]) {
    // The fuzzer's own bytes as an entry: they are none, or are written back as they mean.
    if let Ok(transaction) = decode(input) {
        assert_eq!(decode(&encode(&transaction)).as_ref(), Ok(&transaction));
    }
    let Some((&count, rest)) = input.split_first() else { return };
    let count = usize::from(count % 16).min(rest.len() / 2);
    let (entries, damages) = rest.split_at(2 * count);
    let settings = LogSettings { segment_bytes: 4_096, ..LogSettings::default() };
    let entry = |two: &[u8]| vec![two[1]; usize::from(two[0]) * 8];
    let payloads: Vec<Vec<u8>> = entries.chunks_exact(2).map(entry).collect();
    let opening = SegmentLog::open(Memory::default(), settings, 0, |_, _| Ok(()));
    let (mut log, _) = opening.expect("an empty disk is none to fear");
    for payload in &payloads {
        let next = jungle::Log::head(&log) + 1;
        jungle::Log::append(&mut log, next, std::slice::from_ref(payload))
            .expect("memory takes it");
    }
    let mut memory = log.into_disk();
    // All damage is to the last segment: one before it that is gone is missing.
    let Some(file) = memory.0.values_mut().next_back() else { return };
    damage(file, damages.get(..damages.len().min(48)).unwrap_or_default());
    let Ok((read, memory)) = opened(memory, settings) else { return };
    assert!(payloads.starts_with(&read), "entries were read that nobody wrote");
    let (again, _) =
        opened(memory, settings).expect("what one start has mended the next one reads");
    assert_eq!(again, read);
}

/// A snapshot that is damaged is told from one that is whole, whatever the damage.
///
/// Input: the number of nodes, then damages (3 bytes each).
pub fn snapshot(input: &[u8]) {
    let Some((&nodes, damages)) = input.split_first() else { return };
    let mut database = Database::default();
    database.create_tree("t").expect("it is new");
    let editor = database.private().editor("t").expect("it was created");
    let root = editor.tree().root().id();
    let children: Vec<Value> = (0..nodes % 32).map(|number| json!({"n": number})).collect();
    let editor = editor.append_json(root, &json!(children)).expect("it is JSON");
    database.commit(&editor.transaction().by("ann", "all")).expect("it is possible");
    let version = database.reader().version();
    let mut memory = Memory::default();
    write_snapshot(&mut memory, &version).expect("memory takes it");
    let file = memory.0.values_mut().next().expect("it was written");
    let whole = file.clone();
    damage(file, damages.get(..damages.len().min(48)).unwrap_or_default());
    let is_whole = *file == whole;
    match read_snapshot(&memory, version.seq()) {
        Ok(read) => {
            assert!(is_whole, "a damaged snapshot was read");
            assert_eq!(read.hash(), version.hash());
        }
        Err(error) => assert!(!is_whole, "a whole snapshot is refused: {error}"),
    }
    // The fuzzer's own bytes behind the magic number of a snapshot.
    let mut own = whole[..8].to_vec();
    own.extend_from_slice(input);
    for file in memory.0.values_mut() {
        file.clone_from(&own);
    }
    drop(read_snapshot(&memory, version.seq()));
}

/// A patch of a document makes of it what the crate json-patch makes of it, or an error.
///
/// Input: a document, a zero, a patch; a Merge Patch where that is no array.
pub fn patch(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let mut next = || serde_json::from_slice::<Value>(parts.next()?).ok();
    let (Some(document), Some(patch)) = (next(), next()) else { return };
    if !document.is_object() && !document.is_array() {
        return;
    }
    let mut database = Database::default();
    database.create_tree("t").expect("it is new");
    let editor = database.private().editor("t").expect("it was created");
    let root = editor.tree().root().id();
    let Ok(editor) = editor.append_json(root, &document) else { return };
    let made = editor.tree().root().child(0).expect("it was appended").id();
    let before = to_json(editor.tree().node(made).expect("it is there")).expect("it was JSON");
    assert_eq!(before, document, "what goes in comes out");
    let edited = if patch.is_array() {
        editor.patch_json(made, &patch)
    } else {
        editor.merge_patch_json(made, &patch)
    };
    let Ok(edited) = edited else { return };
    let Some(node) = edited.tree().node(made) else { return };
    let ours = to_json(node).expect("a patch makes JSON of JSON");
    let mut theirs = document;
    if patch.is_array() {
        let patch: json_patch::Patch =
            serde_json::from_value(patch).expect("an array that was taken is a patch");
        json_patch::patch(&mut theirs, &patch).expect("what we can do can be done");
    } else {
        json_patch::merge(&mut theirs, &patch);
    }
    assert_eq!(ours, theirs);
}
