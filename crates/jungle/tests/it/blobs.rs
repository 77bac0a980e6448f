//! Blobs as the tree sees them: named by attributes, counted, held by any version that is kept.

use std::collections::BTreeSet;

use jungle::{
    BLOB, BlobHash, BlobId, BlobRef, Database, DocumentBlob, EditError, JsonError, NodeId,
    Operation, Pointed, Retention, Thinning, Transaction, point, to_json, to_json_with_blobs,
};
use serde_json::json;

use crate::chance::seeds;

fn blob(bytes: &[u8]) -> BlobRef {
    let mut hash = BlobHash::default();
    hash.update(bytes);
    BlobRef { id: hash.id(), bytes: bytes.len() as u64 }
}

fn put(database: &mut Database, tree: &str, node: NodeId, blob: Option<BlobRef>) {
    let editor = database.private().editor(tree).unwrap();
    let name = format!("{BLOB}photo");
    let editor = match blob {
        Some(blob) => editor.put(node, &name, &blob.value()).unwrap(),
        None => editor.remove(node, &name).unwrap(),
    };
    database.commit(&editor.transaction()).unwrap();
    database.private().tree(tree).unwrap().assert_sound();
}

#[test]
fn the_name_of_a_blob_is_its_sha_256_and_its_length() {
    let value = blob(b"abc").value();
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 3";
    assert_eq!(value, text.as_bytes(), "the example of FIPS 180-2");
    assert_eq!(BlobRef::of(&value), Some(blob(b"abc")));
    for wrong in [
        "",
        "3",
        &text[1..],
        &text[..65],
        &text.to_uppercase(),
        &format!("{text}0 "),
        &text.replace(" 3", " 03"),
    ] {
        assert_eq!(BlobRef::of(wrong.as_bytes()), None, "{wrong}");
    }
    assert!("ba78".parse::<BlobId>().is_err());

    let mut database = Database::default();
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let editor = database.private().editor("main").unwrap();
    for (name, value) in [("$blob.x", "no blob"), ("$blob.", text)] {
        let refused = editor.clone().put(root, name, value.as_bytes()).unwrap_err();
        assert!(matches!(refused, EditError::Blob(_)), "{name}: {refused}");
        let appended = editor.clone().append(root, [(name, value.as_bytes())]);
        assert!(appended.is_err(), "{name}");
    }
}

#[test]
fn a_blob_is_held_by_any_version_that_is_kept_and_by_no_other() {
    let thinning = Thinning { newest: 2, all_for: 0, minutes_for: 0, versions: 2 };
    let mut database = Database::new(Retention::default(), thinning);
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let (one, two) = (blob(b"one"), blob(b"two"));
    let held = |database: &Database| database.held_blobs().into_iter().collect::<Vec<_>>();
    let both = BTreeSet::from([one.id, two.id]).into_iter().collect::<Vec<_>>();
    put(&mut database, "main", root, Some(one));
    assert_eq!(held(&database), [one.id]);
    let seq = database.private().seq();
    assert!(database.hold("lease", seq));
    put(&mut database, "main", root, Some(two));
    for number in 0..5 {
        assert_eq!(held(&database), both, "the lease holds it, {number} commits later");
        database.commit(&Transaction::append("main", root, [])).unwrap();
    }
    assert!(database.let_go("lease"));
    database.commit(&Transaction::append("main", root, [])).unwrap();
    assert_eq!(held(&database), [two.id]);
    // A branch holds what it shares, also when its origin is gone.
    database.branch("main", "draft").unwrap();
    let drop = Operation::DropTree { tree: "main".to_owned() };
    database.commit(&Transaction { operations: vec![drop], ..Transaction::default() }).unwrap();
    put(&mut database, "draft", root, Some(two));
    assert_eq!(held(&database), [two.id]);
    put(&mut database, "draft", root, None);
    database.commit(&Transaction::append("draft", root, [])).unwrap();
    database.commit(&Transaction::append("draft", root, [])).unwrap();
    assert_eq!(held(&database), []);
}

/// JSON has no place for a blob: that it is left out must not be taken for all that is there.
#[test]
fn a_document_with_a_blob_is_not_read_as_json_and_another_value_keeps_it() {
    let mut database = Database::default();
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let editor = database.private().editor("main").unwrap();
    let editor = editor.append_json(root, &json!({"a": [1, 2]})).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let tree = database.private().tree("main").unwrap();
    let (document, list) = (tree.root().child(0).unwrap(), NodeId::new(2, 1));
    let (document, element) = (document.id(), tree.node(list).unwrap().child(0).unwrap().id());
    for node in [document, list, element] {
        put(&mut database, "main", node, Some(blob(b"one")));
        let told = to_json(database.private().tree("main").unwrap().node(document).unwrap());
        let wanted = JsonError::Blob { node, name: "photo".to_owned() };
        assert_eq!(told.unwrap_err(), wanted);
        let editor = database.private().editor("main").unwrap();
        let editor = editor.set_json(node, &json!([])).unwrap();
        assert!(editor.tree().node(node).unwrap().blob("photo").is_some());
        put(&mut database, "main", node, None);
    }
}

#[test]
fn a_document_is_read_with_its_blobs_by_the_pointers_of_their_nodes() {
    let mut database = Database::default();
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let editor = database.private().editor("main").unwrap();
    let document = json!({"a/b": {"~": [1, [2]]}, "$blob.photo": "a member", "": {}});
    let editor = editor.append_json(root, &document).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let made = database.private().tree("main").unwrap().root().child(0).unwrap().id();
    let pointers = ["", "/", "/a~1b", "/a~1b/~0", "/a~1b/~0/0", "/a~1b/~0/1", "/a~1b/~0/1/0"];
    let mut wanted = Vec::new();
    for (number, at) in pointers.into_iter().enumerate() {
        let Pointed::Node(node) =
            point(database.private().tree("main").unwrap(), made, at).unwrap()
        else {
            panic!("{at} is a node");
        };
        let own = blob(&[number as u8]);
        put(&mut database, "main", node, Some(own));
        wanted.push(DocumentBlob { at: at.to_owned(), node, name: "photo".to_owned(), blob: own });
    }
    let node = database.private().tree("main").unwrap().node(made).unwrap().clone();
    let (read, mut blobs) = to_json_with_blobs(&node).unwrap();
    blobs.sort_by(|left, right| left.at.cmp(&right.at));
    assert_eq!((read, blobs), (document, wanted));
    assert!(matches!(to_json(&node), Err(JsonError::Blob { .. })));
}

#[test]
fn random_edits_hold_the_blobs_that_a_walk_finds() {
    seeds("--test it random_edits_hold", 60, |_, chance| {
        let thinning = Thinning { newest: 3, all_for: 0, minutes_for: 0, versions: 4 };
        let mut database = Database::new(Retention::default(), thinning);
        database.create_tree("main").unwrap();
        let blobs: Vec<BlobRef> = (0..4_u8).map(|n| blob(&[n])).collect();
        for number in 0..60 {
            let trees: Vec<String> = database.private().trees().map(str::to_owned).collect();
            let tree = chance.pick(&trees).clone();
            if chance.percent(5) {
                drop(database.branch(&tree, &format!("branch{number}")));
                continue;
            }
            let mut editor = database.private().editor(&tree).unwrap();
            for _ in 0..1 + chance.below(3) {
                let nodes: Vec<NodeId> =
                    editor.tree().root().walk().map(|node| node.id()).collect();
                let (node, blob) = (*chance.pick(&nodes), chance.pick(&blobs).value());
                let name = *chance.pick(&["$blob.a", "$blob.b"]);
                let done = match chance.below(6) {
                    0 => editor.clone().delete(node),
                    1 => editor.clone().remove(node, name),
                    2 => editor.clone().append(node, [(name, &blob[..])]),
                    _ => editor.clone().put(node, name, &blob),
                };
                editor = done.unwrap_or(editor);
            }
            database.commit(&editor.transaction()).unwrap();
            database.private().tree(&tree).unwrap().assert_sound();
            let kept: Vec<u64> = database.versions().collect();
            let mut walked = BTreeSet::new();
            for version in kept.iter().map(|seq| database.at(*seq).unwrap()) {
                for tree in version.trees().map(|name| version.tree(name).unwrap()) {
                    let nodes = tree.root().walk();
                    walked.extend(nodes.flat_map(|node| node.blobs()).map(|(_, blob)| blob.id));
                }
            }
            assert_eq!(database.held_blobs(), walked);
        }
    });
}
