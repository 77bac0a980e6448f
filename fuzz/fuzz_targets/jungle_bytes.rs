//! Bytes that Jungle reads: a log and a snapshot on a disk that has flipped, lost and cut some, patches of
//! documents, names of blobs. Played by the fuzzer, and by chance in the tests of the crate.

use std::collections::BTreeMap;

use jungle::{
    BLOB, BlobHash, BlobRef, Database, LogError, LogSettings, MemoryDisk, Pointed, SegmentLog,
    blob_file, blob_of_file, decode, encode, point, read_snapshot, to_json, to_json_with_blobs,
    write_snapshot,
};
use serde_json::{Value, json};

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

fn opened(
    memory: MemoryDisk,
    settings: LogSettings,
) -> Result<(Vec<Vec<u8>>, MemoryDisk), LogError> {
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
    let opening = SegmentLog::open(MemoryDisk::default(), settings, 0, |_, _| Ok(()));
    let (mut log, _) = opening.expect("an empty disk is none to fear");
    for payload in &payloads {
        let next = jungle::Log::head(&log) + 1;
        jungle::Log::append(&mut log, next, std::slice::from_ref(payload))
            .expect("memory takes it");
    }
    let mut memory = log.into_disk();
    // All damage is to the last segment: one before it that is gone is missing.
    let Some(file) = memory.files.values_mut().next_back() else { return };
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
    let mut memory = MemoryDisk::default();
    write_snapshot(&mut memory, &version).expect("memory takes it");
    let file = memory.files.values_mut().next().expect("it was written");
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
    for file in memory.files.values_mut() {
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

/// Whatever the names of members and blobs are, each blob of a document is found by the pointer that is told of it, and
/// only what is written as a blob is named as one.
///
/// Input: pairs of a name of a member and one of a blob, each of which ends with a byte 255.
pub fn names(input: &[u8]) {
    if let Some(blob) = BlobRef::of(input) {
        assert_eq!(blob.value(), input, "a blob has one way to be written");
    }
    let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    if let Some(id) = blob_of_file(&text(input)) {
        assert_eq!(blob_file(id).as_bytes(), input);
    }
    let mut hash = BlobHash::default();
    hash.update(input);
    let blob = BlobRef { id: hash.id(), bytes: input.len() as u64 };
    assert_eq!(
        (BlobRef::of(&blob.value()), blob_of_file(&blob_file(blob.id))),
        (Some(blob), Some(blob.id))
    );
    let mut database = Database::default();
    database.create_tree("t").expect("it is new");
    let editor = database.private().editor("t").expect("it was created");
    let root = editor.tree().root().id();
    let mut editor = editor.append_json(root, &json!({})).expect("it is JSON");
    let document = editor.last_made().expect("it was appended");
    let mut wanted = BTreeMap::new();
    for pair in input.split(|byte| *byte == 255).take(32).collect::<Vec<_>>().chunks_exact(2) {
        let (member, name) = (text(pair[0]), text(pair[1]));
        let patch = json!({&member: {}});
        let Ok(with) = editor.clone().merge_patch_json(document, &patch) else { continue };
        // One that is there already stays as it is.
        let pointer = format!("/{}", member.replace('~', "~0").replace('/', "~1"));
        let Ok(Pointed::Node(node)) = point(with.tree(), document, &pointer) else {
            panic!("{pointer} leads to no node");
        };
        editor = with;
        let Ok(with) = editor.clone().put(node, &format!("{BLOB}{name}"), &blob.value()) else {
            continue;
        };
        editor = with;
        wanted.insert((pointer, name), node);
    }
    let transaction = editor.transaction().by("ann", "all");
    assert_eq!(decode(&encode(&transaction)).as_ref(), Ok(&transaction));
    let committed = database.commit(&transaction).expect("it is possible");
    let tree = database.private().tree("t").expect("it is there");
    let node = tree.root().child(0).expect("it was appended");
    let (value, blobs) = to_json_with_blobs(node).expect("it was JSON");
    let found: BTreeMap<_, _> =
        blobs.into_iter().map(|one| ((one.at, one.name), (one.node, one.blob))).collect();
    assert_eq!(found.len(), wanted.len(), "in {value}");
    for ((pointer, name), (id, own)) in found {
        assert_eq!(own, blob);
        assert_eq!(point(tree, node.id(), &pointer), Ok(Pointed::Node(id)), "{pointer}");
        assert_eq!(tree.node(id).and_then(|node| node.blob(&name)), Some(blob));
        let made = wanted[&(pointer, name)];
        assert_eq!((id.commit(), id.index()), (Some(committed.seq), made.index()));
    }
}
