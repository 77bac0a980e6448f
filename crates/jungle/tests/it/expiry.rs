//! Nodes that live for a time: they go by a tick and by nothing else, at the same commit on every replay.

use std::collections::BTreeSet;

use jungle::{
    Change, Database, EXPIRES, EditError, Node, NodeId, Operation, Policy, Refusal, Rejected,
    Retention, Rule, Thinning, Timestamp, Transaction, Version, decode, encode, to_json,
};
use serde_json::json;

use crate::chance::{Chance, seeds};

/// A database with a tree `main`, and its root.
fn database() -> (Database, NodeId) {
    let mut database = Database::default();
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    (database, root)
}

fn append(database: &mut Database, tree: &str, parent: NodeId, deadline: Option<u64>) -> NodeId {
    let editor = database.private().editor(tree).unwrap().append(parent, []).unwrap();
    let node = editor.last_made().unwrap();
    let editor = match deadline {
        Some(at) => editor.expire(node, Some(Timestamp(at))).unwrap(),
        None => editor,
    };
    let seq = database.commit(&editor.transaction()).unwrap().seq;
    NodeId::new(seq, 0)
}

fn has(database: &Database, tree: &str, node: NodeId) -> bool {
    database.private().tree(tree).unwrap().contains(node)
}

fn due(version: &Version, now: u64) -> Vec<&str> {
    version.due(Timestamp(now)).collect()
}

#[test]
fn a_node_goes_at_its_time_with_all_below_it_and_the_past_says_so() {
    let (mut database, root) = database();
    let node = append(&mut database, "main", root, Some(100));
    let below = append(&mut database, "main", node, None);
    let other = append(&mut database, "main", root, Some(101));
    assert_eq!(
        database.private().tree("main").unwrap().node(node).unwrap().expires().unwrap().0,
        100
    );
    assert_eq!(database.private().next_deadline(), Some(Timestamp(100)));
    assert_eq!(due(database.private(), 99), [""; 0]);
    assert_eq!(due(database.private(), 100), ["main"]);

    let early = database.commit(&Transaction::tick("main", Timestamp(99)));
    assert_eq!(early.unwrap_err(), Rejected::NothingDue("main".to_owned()));
    let tick = database.commit(&Transaction::tick("main", Timestamp(100))).unwrap().seq;
    assert!(!has(&database, "main", node) && !has(&database, "main", below));
    assert!(has(&database, "main", other));
    assert_eq!(database.private().next_deadline(), Some(Timestamp(101)));
    database.private().tree("main").unwrap().assert_sound();

    let version = database.private();
    let commit = version.commit(tick).unwrap();
    let changes: Vec<_> = commit.changes().map(|(_, id, changes)| (id, changes.to_vec())).collect();
    assert_eq!(changes, [(root, vec![Change::Children]), (node, vec![Change::Expired])]);
    assert_eq!((commit.time(), commit.message()), (Timestamp(100), "Expired"));
    let newest = version.log("main", root).unwrap().next().unwrap();
    assert_eq!(newest.commit.seq(), tick);
    assert!(database.at(tick - 1).unwrap().tree("main").unwrap().contains(below));
}

#[test]
fn what_is_brought_back_after_its_time_has_no_deadline_any_more() {
    let (mut database, root) = database();
    let node = append(&mut database, "main", root, Some(100));
    let below = append(&mut database, "main", node, Some(900));
    let tick = database.commit(&Transaction::tick("main", Timestamp(100))).unwrap().seq;
    let restored = database.restore("main", root, tick - 1).unwrap();
    let reverted = database.revert(tick).unwrap();
    assert_eq!(restored.operations, reverted.operations);
    database.commit(&reverted).unwrap();
    let tree = database.private().tree("main").unwrap();
    assert_eq!(tree.node(node).unwrap().expires(), None);
    assert_eq!(tree.node(below).unwrap().expires(), Some(Timestamp(900)));
    tree.assert_sound();
    assert_eq!(due(database.private(), 899), [""; 0]);
    let kinds: Vec<_> =
        database.private().log("main", node).unwrap().map(|entry| entry.changes.to_vec()).collect();
    assert_eq!(kinds[..2], [vec![Change::Returned, Change::Children], vec![Change::Expired]]);
}

#[test]
fn a_deadline_is_changed_taken_away_and_told_like_any_value() {
    let (mut database, root) = database();
    let node = append(&mut database, "main", root, Some(100));
    for (deadline, next) in [(Some(70), Some(70)), (Some(300), Some(300)), (None, None)] {
        let editor = database.private().editor("main").unwrap();
        let editor = editor.expire(node, deadline.map(Timestamp)).unwrap();
        database.commit(&editor.transaction()).unwrap();
        assert_eq!(database.private().next_deadline(), next.map(Timestamp));
        database.private().tree("main").unwrap().assert_sound();
    }
    let none = database.private().editor("main").unwrap().expire(node, None).unwrap_err();
    assert!(matches!(none, EditError::NoSuchAttribute { .. }), "{none}");
    // Side by side two deadlines are a conflict as two values are.
    let one = database.private().editor("main").unwrap().expire(node, Some(Timestamp(1))).unwrap();
    let two = database.private().editor("main").unwrap().expire(node, Some(Timestamp(2))).unwrap();
    let set = database.commit(&one.transaction()).unwrap().seq;
    let refused = database.commit(&two.transaction()).unwrap_err();
    assert!(matches!(refused, Rejected::Edit { cause: Refusal::Value { .. }, .. }), "{refused}");
    let blame = database.private().blame("main", node).unwrap();
    assert_eq!(blame.attributes[EXPIRES].unwrap().seq(), set);
}

#[test]
fn only_a_node_that_can_be_found_and_taken_has_a_deadline() {
    let (mut database, root) = database();
    let told = |error: EditError| error.to_string();
    let editor = database.private().editor("main").unwrap();
    let of_root = told(editor.clone().expire(root, Some(Timestamp(1))).unwrap_err());
    assert!(of_root.contains("a root does not expire"), "{of_root}");
    for wrong in ["", "x", "-1", "+1", "01", "1.5", "99999999999999999999"] {
        let inserted = editor.clone().append(root, [(EXPIRES, wrong.as_bytes())]);
        let told = told(inserted.unwrap_err());
        assert!(told.contains("microseconds since 1970"), "`{wrong}`: {told}");
    }
    database.commit(&Transaction::create_plain_tree("plain")).unwrap();
    let plain = database.private().editor("plain").unwrap();
    let path = jungle::NodePath::root();
    let told = told(plain.append(path, [(EXPIRES, &b"7"[..])]).unwrap_err());
    assert!(told.contains("no addresses by id"), "{told}");
    for (rule, is_taken) in [
        (Rule::Conflict, true),
        (Rule::LastInLog, true),
        (Rule::Counter, false),
        (Rule::Union, false),
    ] {
        let (tree, attribute) = ("main".to_owned(), EXPIRES.to_owned());
        let operations = vec![Operation::SetRule { tree, attribute, rule }];
        let set = database.commit(&Transaction { operations, ..Transaction::default() });
        assert_eq!(set.is_ok(), is_taken, "{rule:?}");
    }
}

/// A tick takes at most 10,000 nodes and the rest of the last one's, so that no commit waits long behind one.
#[test]
fn a_tick_takes_a_bounded_number_of_nodes_and_the_next_one_goes_on() {
    let (mut database, root) = database();
    let mut editor = database.private().editor("main").unwrap();
    for at in 0..10_100_u64 {
        let value = (at / 2).to_string();
        editor = editor.append(root, [(EXPIRES, value.as_bytes())]).unwrap();
    }
    database.commit(&editor.transaction()).unwrap();
    let tick = Transaction::tick("main", Timestamp(1 << 40));
    database.commit(&tick).unwrap();
    let left = database.private().tree("main").unwrap();
    assert_eq!(
        (left.nodes(), left.next_deadline()),
        (101, Some(Timestamp(5_000))),
        "the earliest went"
    );
    database.commit(&tick).unwrap();
    assert_eq!(database.private().tree("main").unwrap().nodes(), 1);
    assert!(database.commit(&tick).is_err());
}

#[test]
fn a_branch_has_the_deadlines_of_its_origin_and_goes_its_own_way() {
    let (mut database, root) = database();
    let node = append(&mut database, "main", root, Some(100));
    database.branch("main", "draft").unwrap();
    assert_eq!(due(database.private(), 100), ["draft", "main"]);
    let rename = Operation::RenameTree { tree: "main".to_owned(), name: "site".to_owned() };
    database.commit(&Transaction { operations: vec![rename], ..Transaction::default() }).unwrap();
    assert_eq!(due(database.private(), 100), ["draft", "site"]);
    database.commit(&Transaction::tick("site", Timestamp(100))).unwrap();
    assert!(!has(&database, "site", node) && has(&database, "draft", node));
    // The branch has given it more time: what the other side let go of stays gone, and is told.
    let editor = database.private().editor("draft").unwrap();
    let editor = editor.expire(node, Some(Timestamp(500))).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let refused = database.merge("draft", "site", Policy::Refuse).unwrap_err();
    assert!(refused.to_string().contains("was edited on the branch and deleted here"), "{refused}");
    let drop = Operation::DropTree { tree: "draft".to_owned() };
    database.commit(&Transaction { operations: vec![drop], ..Transaction::default() }).unwrap();
    assert_eq!(database.private().next_deadline(), None);
}

#[test]
fn a_deadline_is_no_part_of_a_document_and_outlives_another_value() {
    let (mut database, root) = database();
    let editor = database.private().editor("main").unwrap();
    let editor = editor.append_json(root, &json!({"a": 1, "$expires": "mine"})).unwrap();
    database.commit(&editor.transaction()).unwrap();
    let node = database.private().tree("main").unwrap().root().child(0).unwrap().id();
    let editor = database.private().editor("main").unwrap();
    let editor = editor.expire(node, Some(Timestamp(5))).unwrap();
    let read = |editor: &jungle::Editor| to_json(editor.tree().node(node).unwrap()).unwrap();
    assert_eq!(read(&editor), json!({"a": 1, "$expires": "mine"}));
    let editor = editor.set_json(node, &json!([1])).unwrap();
    assert_eq!(read(&editor), json!([1]));
    assert_eq!(editor.tree().node(node).unwrap().expires(), Some(Timestamp(5)));
}

/// Ids of a tree's nodes that are due, with all below them, found by a walk.
fn due_naively(version: &Version, tree: &str, now: Timestamp) -> BTreeSet<NodeId> {
    let walk = version.tree(tree).unwrap().root().walk();
    let is_due = |node: &&Node| node.expires().is_some_and(|at| at <= now);
    walk.filter(is_due).flat_map(Node::walk).map(Node::id).collect()
}

fn random_edit(database: &Database, chance: &mut Chance, tree: &str, now: u64) -> Transaction {
    let mut editor = database.private().editor(tree).unwrap();
    for _ in 0..1 + chance.below(6) {
        let nodes: Vec<NodeId> = editor.tree().root().walk().map(Node::id).collect();
        let (node, other) = (*chance.pick(&nodes), *chance.pick(&nodes));
        let deadline = Timestamp(now + chance.next() % 40);
        let done = match chance.below(9) {
            0 => editor.clone().delete(node),
            1 | 2 => editor.clone().relocate(node, other, 0),
            3 => editor.clone().expire(node, None),
            4..=6 => editor.clone().expire(node, Some(deadline)),
            _ => editor.clone().append(node, []),
        };
        editor = done.unwrap_or(editor);
    }
    editor.transaction()
}

#[test]
fn random_ticks_take_what_is_due_and_nothing_else_on_every_replay() {
    let (mut ticks, mut taken) = (0, 0);
    seeds("--test it random_ticks", 150, |_, chance| {
        let (mut database, _) = database();
        database.branch("main", "draft").unwrap();
        let mut copy = Database::at_version(
            database.private().clone(),
            Retention::default(),
            Thinning::default(),
        );
        let mut log = Vec::new();
        let mut commit = |database: &mut Database, transaction: &Transaction| {
            let done = database.commit(transaction);
            log.extend(done.is_ok().then(|| encode(transaction)));
            done
        };
        let mut now = 0;
        for _ in 0..40 {
            now += chance.next() % 12;
            let tree = *chance.pick(&["main", "main", "draft"]);
            match chance.below(8) {
                0..=3 => {
                    let edits = random_edit(&database, chance, tree, now);
                    commit(&mut database, &edits).unwrap();
                }
                4 => {
                    let (from, into) = ("draft".to_owned(), "main".to_owned());
                    let operations = vec![Operation::Merge { from, into, policy: Policy::Theirs }];
                    let merge = Transaction { operations, ..Transaction::default() };
                    commit(&mut database, &merge).unwrap();
                }
                5 => {
                    // The first two made the trees.
                    let seq = 3 + chance.next() % database.private().seq();
                    if let Ok(revert) = database.revert(seq) {
                        drop(commit(&mut database, &revert));
                    }
                }
                _ => {
                    let gone = due_naively(database.private(), tree, Timestamp(now));
                    let before = database.private().clone();
                    let tick = commit(&mut database, &Transaction::tick(tree, Timestamp(now)));
                    assert_eq!(tick.is_err(), gone.is_empty());
                    let left = |version: &Version| {
                        let walk = version.tree(tree).unwrap().root().walk();
                        walk.map(Node::id).collect::<BTreeSet<_>>()
                    };
                    let wanted: BTreeSet<_> = left(&before).difference(&gone).copied().collect();
                    assert_eq!(left(database.private()), wanted);
                    (ticks, taken) = (ticks + u64::from(tick.is_ok()), taken + gone.len());
                }
            }
            for tree in ["main", "draft"] {
                database.private().tree(tree).unwrap().assert_sound();
            }
        }
        for entry in log {
            copy.commit(&decode(&entry).unwrap()).unwrap();
        }
        assert_eq!(copy.private().hash(), database.private().hash());
    });
    if std::env::var_os("SEKISHO_SEED").is_none() {
        assert!(ticks > 200 && taken > 500, "{ticks} ticks took {taken} nodes");
    }
}

/// What is written to a log is read again, and does the same.
#[test]
fn a_tick_is_read_back_from_a_log() {
    let (mut database, root) = database();
    let mut copy = Database::default();
    copy.create_tree("main").unwrap();
    let editor = database.private().editor("main").unwrap();
    let transactions = [
        editor.append(root, [(EXPIRES, &b"5"[..])]).unwrap().transaction(),
        Transaction::tick("main", Timestamp(9)),
    ];
    for transaction in transactions {
        database.commit(&transaction).unwrap();
        let read = decode(&encode(&transaction)).unwrap();
        assert_eq!(read, transaction);
        copy.commit(&read).unwrap();
    }
    assert_eq!(copy.private().hash(), database.private().hash());
    assert_eq!(copy.private().commit(3), database.private().commit(3));
}
