//! Single edits, their errors and their costs.

use std::sync::Arc;

use jungle::{Database, EditError, NodeId, NodePath, Operation, Rejected, Transaction, Tree};

const NONE: [(&str, &[u8]); 0] = [];

fn database() -> Database {
    let mut database = Database::default();
    database.create_tree("main").unwrap();
    database
}

fn main(database: &Database) -> &Tree {
    database.private().tree("main").unwrap()
}

#[test]
fn an_editor_leaves_older_editors_and_versions_as_they_were() {
    let mut database = database();
    let reader = database.reader();
    let before = reader.version();
    let empty = before.editor("main").unwrap();
    let one = empty.clone().append(NodePath::root(), [("title", &b"one"[..])]).unwrap();
    let two = one.clone().append(NodePath::from([0]), [("title", &b"below"[..])]).unwrap();
    assert_eq!([&empty, &one, &two].map(|editor| editor.tree().nodes()), [1, 2, 3]);
    assert_eq!(
        two.tree().at(&NodePath::from([0, 0])).unwrap().attribute("title"),
        Some(&b"below"[..])
    );
    database.commit(&two.transaction()).unwrap();
    assert_eq!(before.tree("main").unwrap().nodes(), 1, "a held version does not move");
    assert_eq!(reader.version().tree("main").unwrap().nodes(), 3);
}

#[test]
fn the_second_of_two_compare_and_sets_loses() {
    let mut database = database();
    let version = database.reader().version();
    let edit = || version.editor("main").unwrap().append(NodePath::root(), NONE).unwrap();
    database.commit(&edit().transaction_if_unchanged()).unwrap();
    let lost = database.commit(&edit().transaction_if_unchanged()).unwrap_err();
    assert_eq!(lost, Rejected::Stale { tree: "main".to_owned(), since: 1, changed: 2 });
    database.commit(&edit().transaction()).unwrap();
    assert_eq!(main(&database).nodes(), 3, "appends side by side both count");
}

#[test]
fn an_insertion_follows_its_left_sibling_and_then_the_next() {
    let mut database = database();
    let root = main(&database).root().id();
    let mut editor = database.private().editor("main").unwrap();
    for name in ["a", "b", "c", "d"] {
        editor = editor.append(root, [("name", name.as_bytes())]).unwrap();
    }
    database.commit(&editor.transaction()).unwrap();
    let version = database.reader().version();
    let inserted =
        version.editor("main").unwrap().insert(root, 2, [("name", &b"new"[..])]).unwrap();
    let other = version.editor("main").unwrap().delete_child(root, 1).unwrap();
    let other = other.insert(root, 0, [("name", &b"front"[..])]).unwrap();
    database.commit(&other.transaction()).unwrap();
    database.commit(&inserted.transaction()).unwrap();
    let names: Vec<_> =
        main(&database).root().children().map(|child| child.attribute("name").unwrap()).collect();
    assert_eq!(names, [&b"front"[..], b"a", b"new", b"c", b"d"]);
}

#[test]
fn impossible_edits_say_why_and_change_nothing() {
    let mut database = database();
    let root = main(&database).root().id();
    let editor = database.private().editor("main").unwrap();
    let editor = editor.append(root, NONE).unwrap().append(NodePath::from([0]), NONE).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let editor = database.private().editor("main").unwrap();
    let (child, grandchild) = (NodeId::new(2, 0), NodeId::new(2, 1));
    let error = |done: Result<jungle::Editor, EditError>| done.unwrap_err();
    assert_eq!(
        error(editor.clone().relocate(child, grandchild, 0)),
        EditError::Cycle { node: child, parent: grandchild }
    );
    assert_eq!(error(editor.clone().delete(root)), EditError::Root);
    assert_eq!(
        error(editor.clone().insert(child, 2, NONE)),
        EditError::NoSuchPosition { parent: child, position: 2, children: 1 }
    );
    assert_eq!(
        error(editor.clone().put(NodePath::from([0, 1]), "a", b"")),
        EditError::NoSuchPath(NodePath::from([0, 1]))
    );
    assert_eq!(error(editor.clone().put(child, "", b"")), EditError::Name(String::new()));
    let absent = NodeId::new(2, 7);
    assert_eq!(error(editor.clone().put(absent, "a", b"")), EditError::NoSuchNode(absent));
    assert_eq!(
        error(editor.clone().remove(child, "a")),
        EditError::NoSuchAttribute { node: child, name: "a".to_owned() }
    );
    // A transaction whose last operation fails leaves nothing of the first.
    let hash = database.private().hash();
    let first = editor.clone().put(child, "a", b"1").unwrap();
    let mut transaction = first.transaction();
    transaction.operations.push(Operation::DropTree { tree: "other".to_owned() });
    let rejected = database.commit(&transaction).unwrap_err();
    assert_eq!(rejected, Rejected::NoSuchTree("other".to_owned()));
    assert_eq!(database.private().hash(), hash);
}

#[test]
fn one_transaction_touches_several_trees() {
    let mut database = database();
    let main_root = main(&database).root().id();
    let (root, node) = (NodeId::pending(0), NodeId::pending(1));
    let name = "other".to_owned();
    let insert = |tree: &str, node, parent| Operation::Edit {
        tree: tree.to_owned(),
        edit: jungle::Edit::Insert {
            node,
            parent: jungle::Target::Node(parent),
            place: jungle::Place::Last,
            attributes: jungle::Attributes::default(),
        },
    };
    let operations = vec![
        Operation::CreateTree { root, name, addressable: true },
        insert("other", node, root),
        insert("main", NodeId::pending(2), main_root),
        Operation::RenameTree { tree: "main".to_owned(), name: "renamed".to_owned() },
    ];
    let done = database.commit(&Transaction { operations, ..Transaction::default() }).unwrap();
    let version = database.reader().version();
    assert_eq!(version.trees().collect::<Vec<_>>(), ["other", "renamed"]);
    assert_eq!(version.tree("other").unwrap().root().id(), NodeId::new(done.seq, 0));
    assert_eq!(version.tree("renamed").unwrap().nodes(), 2);
    let twice = vec![insert("other", node, main_root), insert("other", node, main_root)];
    let rejected = database.commit(&Transaction { operations: twice, ..Transaction::default() });
    assert!(matches!(rejected, Err(Rejected::Edit { operation: 0, .. })), "another tree's parent");
}

#[test]
fn a_tree_without_addresses_by_id_is_edited_by_paths() {
    let mut database = Database::default();
    database.commit(&Transaction::create_plain_tree("plain")).unwrap();
    let editor = database.private().editor("plain").unwrap();
    let editor = editor.append(NodePath::root(), NONE).unwrap();
    let editor = editor.append(NodePath::root(), NONE).unwrap();
    let editor = editor.relocate(NodePath::from([0]), NodePath::from([1]), 0).unwrap();
    assert_eq!(editor.clone().delete(NodeId::new(1, 0)).unwrap_err(), EditError::NotAddressable);
    database.commit(&editor.transaction()).unwrap();
    let tree = database.private().tree("plain").unwrap();
    tree.assert_sound();
    assert_eq!(tree.at(&NodePath::from([0, 0])).unwrap().id(), NodeId::new(2, 0));
    let version = database.reader().version();
    let edit = |value| version.editor("plain").unwrap().put(NodePath::from([0]), "a", value);
    database.commit(&edit(b"1").unwrap().transaction()).unwrap();
    let lost = database.commit(&edit(b"2").unwrap().transaction());
    assert!(matches!(lost, Err(Rejected::Stale { .. })), "paths may have shifted");
}

#[test]
fn a_tree_of_depth_a_million_is_made_read_and_freed() {
    const DEPTH: u32 = 1_000_000;
    let mut database = database();
    let top = main(&database).root().id();
    // One transaction for all would walk down to the last node a million times: a chain is loaded upside
    // down, each time above what there is.
    let mut operations = Vec::new();
    for index in 0..DEPTH {
        let node = NodeId::pending(index);
        let insert = jungle::Edit::Insert {
            node,
            parent: jungle::Target::Node(top),
            place: jungle::Place::First,
            attributes: jungle::Attributes::default(),
        };
        operations.push(Operation::Edit { tree: "main".to_owned(), edit: insert });
        if index > 0 {
            let down = jungle::Edit::Move {
                node: jungle::Target::Node(NodeId::pending(index - 1)),
                parent: jungle::Target::Node(node),
                place: jungle::Place::First,
                from: None,
            };
            operations.push(Operation::Edit { tree: "main".to_owned(), edit: down });
        }
    }
    database.commit(&Transaction { operations, ..Transaction::default() }).unwrap();
    let tree = main(&database);
    assert_eq!(tree.nodes(), u64::from(DEPTH) + 1);
    assert_eq!(tree.root().walk().count(), DEPTH as usize + 1);
    let lowest = NodeId::new(2, 0);
    assert_eq!(tree.path_of(lowest).unwrap().positions().len(), DEPTH as usize);
    let reader = database.reader();
    let deleted =
        database.private().editor("main").unwrap().delete(NodeId::new(2, DEPTH - 1)).unwrap();
    database.commit(&deleted.transaction()).unwrap();
    assert_eq!(main(&database).nodes(), 1);
    drop(database);
    assert_eq!(Arc::strong_count(&reader.version()), 2);
}

#[test]
fn a_difference_costs_what_changed_and_not_what_is_there() {
    let mut database = database();
    let root = main(&database).root().id();
    let mut editor = database.private().editor("main").unwrap();
    for _ in 0..50_000 {
        editor = editor.append(root, NONE).unwrap();
    }
    database.commit(&editor.transaction()).unwrap();
    database.branch("main", "draft").unwrap();
    let (_, visited) = database.private().compare("main", "draft").unwrap();
    assert_eq!(visited, 1, "one pointer decides");
    let editor = database.private().editor("draft").unwrap();
    let editor = editor.put(NodeId::new(2, 40_000), "a", b"1").unwrap();
    let editor = editor.delete(NodeId::new(2, 5)).unwrap();
    let editor = editor.relocate(NodeId::new(2, 20_000), root, 100).unwrap();
    let editor = editor.append(NodeId::new(2, 7), NONE).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let (differences, visited) = database.private().compare("main", "draft").unwrap();
    assert_eq!(differences.len(), 4, "{differences:?}");
    assert!(visited < 100, "{visited} nodes and chunks visited for 4 edits among 50,000 nodes");
}

/// The story: a tree could be created, or branched, under an id of an earlier commit. Two trees then had one identity:
/// a snapshot of them was written and could not be read, or was never done.
#[test]
fn only_a_node_that_comes_back_has_the_id_of_an_earlier_commit() {
    let mut database = database();
    let root = main(&database).root().id();
    let hash = database.private().hash();
    let name = || "other".to_owned();
    let create = Operation::CreateTree { root, name: name(), addressable: true };
    let branch = Operation::Branch { id: root, tree: "main".to_owned(), name: name() };
    for operation in [create, branch] {
        let operations = vec![operation];
        let rejected = database.commit(&Transaction { operations, ..Transaction::default() });
        assert_eq!(rejected, Err(Rejected::Id { operation: 0, node: root }));
    }
    assert_eq!(database.private().hash(), hash);
    // A tree that does not know its nodes by id does not know either whether one is there already.
    database.commit(&Transaction::create_plain_tree("plain")).unwrap();
    let editor =
        database.private().editor("plain").unwrap().append(NodePath::root(), NONE).unwrap();
    let seq = database.commit(&editor.transaction()).unwrap().seq;
    let edit = jungle::Edit::Insert {
        node: NodeId::new(seq, 0),
        parent: jungle::Target::Path(NodePath::root()),
        place: jungle::Place::Last,
        attributes: jungle::Attributes::default(),
    };
    let operations = vec![Operation::Edit { tree: "plain".to_owned(), edit }];
    let rejected = database.commit(&Transaction { operations, ..Transaction::default() });
    assert!(matches!(rejected, Err(Rejected::Edit { operation: 0, .. })), "{rejected:?}");
}
