//! Who changed what, and taking it back.

use std::collections::BTreeSet;

use jungle::{
    Attributes, Change, Database, Edit, Expect, NodeId, Operation, PastError, Place, Policy,
    Rejected, Retention, Rule, Target, Thinning, Timestamp, Transaction,
};

use crate::chance::{Chance, seeds};
use crate::naive::Naive;

const NONE: [(&str, &[u8]); 0] = [];

/// Ten folders of ten documents each.
fn folders(database: &mut Database) -> Vec<Vec<NodeId>> {
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let mut editor = database.private().editor("main").unwrap();
    for folder in 0..10 {
        editor = editor.append(root, [("name", format!("f{folder}").as_bytes())]).unwrap();
        let parent = editor.last_made().unwrap();
        for document in 0..10 {
            editor = editor.append(parent, [("name", format!("d{document}").as_bytes())]).unwrap();
        }
    }
    let seq = database.commit(&editor.transaction().by("setup", "ten folders")).unwrap().seq;
    let id = |folder: u32, node: u32| NodeId::new(seq, folder * 11 + node);
    (0..10).map(|folder| (0..11).map(|node| id(folder, node)).collect()).collect()
}

fn put(database: &mut Database, node: NodeId, name: &str, value: &str, author: &str) -> u64 {
    let editor = database.private().editor("main").unwrap();
    let transaction = editor.put(node, name, value.as_bytes()).unwrap().transaction();
    database.commit(&transaction.by(author, &format!("{name} = {value}"))).unwrap().seq
}

#[test]
fn a_log_names_the_commits_of_a_subtree_and_no_other() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let mut expected = Vec::new();
    for round in 0..200 {
        let folder = round % 10;
        let seq = put(&mut database, nodes[folder][1 + round % 7], "a", &round.to_string(), "x");
        if folder == 3 {
            expected.insert(0, seq);
        }
    }
    expected.push(2);
    let version = database.reader().version();
    let log = version.log("main", nodes[3][0]).unwrap();
    assert_eq!(log.map(|entry| entry.commit.seq()).collect::<Vec<_>>(), expected);
    let whole = version.log("main", version.tree("main").unwrap().root().id()).unwrap();
    assert_eq!(whole.count(), 202);
}

#[test]
fn blame_names_who_set_each_attribute_through_moves_and_merges() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let (node, other) = (nodes[0][1], nodes[5][0]);
    put(&mut database, node, "a", "1", "ann");
    put(&mut database, node, "b", "1", "bob");
    put(&mut database, node, "a", "2", "cid");
    let editor = database.private().editor("main").unwrap();
    let moved = editor.relocate(node, other, 0).unwrap().transaction().by("dot", "move");
    database.commit(&moved).unwrap();
    put(&mut database, nodes[0][2], "a", "2", "eve");
    database.branch("main", "draft").unwrap();
    let editor = database.private().editor("draft").unwrap();
    let editor = editor.put(node, "b", b"3").unwrap();
    database.commit(&editor.transaction().by("fay", "on a branch")).unwrap();
    database.merge("draft", "main", Policy::Refuse).unwrap();
    let version = database.reader().version();
    let blame = version.blame("main", node).unwrap();
    let authors: Vec<_> =
        blame.attributes.iter().map(|(name, commit)| (&**name, commit.unwrap().author())).collect();
    assert_eq!(authors, [("a", "cid"), ("b", "fay"), ("name", "setup")]);
    assert_eq!(blame.moved.unwrap().author(), "dot");
    assert_eq!(blame.made.unwrap().author(), "setup");
    assert_eq!(blame.forgotten, None);
    let commit = version.commit(3).unwrap();
    let changes: Vec<_> = commit.changes().collect();
    assert_eq!(changes, [("main", node, &[Change::Put("a".into())][..])]);
}

#[test]
fn commits_beyond_the_bound_are_forgotten_and_the_log_says_so() {
    let retention = Retention { commits: 5, ..Retention::default() };
    let mut database = Database::new(retention, Thinning::default());
    let nodes = folders(&mut database);
    for round in 0..9 {
        put(&mut database, nodes[0][1], "a", &round.to_string(), "x");
    }
    let version = database.reader().version();
    assert_eq!(version.oldest_commit(), Some(7));
    let mut log = version.log("main", nodes[0][1]).unwrap();
    assert_eq!(log.by_ref().map(|entry| entry.commit.seq()).collect::<Vec<_>>(), [11, 10, 9, 8, 7]);
    assert_eq!(log.forgotten(), Some(6));
    let blame = version.blame("main", nodes[0][1]).unwrap();
    assert_eq!(blame.attributes["name"].map(jungle::Commit::seq), None);
    assert_eq!(blame.forgotten, Some(6));
}

#[test]
fn versions_thin_with_age_but_for_those_that_are_held() {
    let thinning =
        Thinning { newest: 10, all_for: 60_000_000, minutes_for: 3_600_000_000, versions: 1_000 };
    let mut database = Database::new(Retention::default(), thinning);
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    // One commit every 10 s for two days.
    let mut held = 0;
    for step in 0..17_280_u64 {
        let time = Timestamp(1_000_000_000_000_000 + step * 10_000_000);
        let append = Transaction { time, ..Transaction::append("main", root, NONE) };
        let seq = database.commit(&append).unwrap().seq;
        if step == 123 {
            assert!(database.hold("audit", seq));
            held = seq;
        }
    }
    let kept: BTreeSet<_> = database.versions().collect();
    assert!(kept.contains(&held), "what is held stays");
    assert!((60..90).contains(&kept.len()), "an hour of minutes, ten newest, days: {}", kept.len());
    assert_eq!(database.freed() + kept.len() as u64, 17_280 + 2);
    assert!(database.let_go("audit") && !database.let_go("audit"));
    assert_eq!(database.revert(5), Err(PastError::NoSuchVersion(4)));
    let version = database.at_time(Timestamp(1_000_000_000_000_000 + 17_000 * 10_000_000)).unwrap();
    assert!(version.time() <= Timestamp(1_000_000_000_000_000 + 17_000 * 10_000_000));
}

/// A commit on one folder, by which no other folder changes: one of each kind of edit.
fn independent(database: &Database, nodes: &[NodeId], chance: &mut Chance) -> Transaction {
    let mut editor = database.private().editor("main").unwrap();
    for _ in 0..1 + chance.below(5) {
        let tree = editor.tree();
        let ids: Vec<_> = tree.node(nodes[0]).unwrap().walk().map(jungle::Node::id).collect();
        let node = ids[chance.below(ids.len())];
        let own = tree.node(node).unwrap();
        let (len, value) = (own.len(), chance.below(1_000).to_string());
        editor = match chance.below(5) {
            0 | 1 => editor.put(node, ["a", "b"][chance.below(2)], value.as_bytes()).unwrap(),
            2 => editor.insert(node, chance.below(len + 1), [("v", value.as_bytes())]).unwrap(),
            3 if node != nodes[0] => editor.delete(node).unwrap(),
            4 => match editor.clone().relocate(node, nodes[0], 0) {
                Ok(editor) if node != nodes[0] => editor,
                _ => editor,
            },
            _ => editor,
        };
    }
    editor.transaction()
}

#[test]
fn reverting_one_of_several_independent_commits_gives_the_tree_that_never_had_it() {
    seeds("--test it reverting_one", 150, |seed, chance| {
        let (mut with, mut without) = (Database::default(), Database::default());
        let nodes = folders(&mut with);
        assert_eq!(folders(&mut without), nodes);
        let count = 2 + chance.below(8);
        let one = chance.below(count);
        let mut reverted = 0;
        for (number, folder) in nodes.iter().enumerate().take(count) {
            let transaction = independent(&with, folder, chance);
            let seq = with.commit(&transaction).unwrap().seq;
            if number == one {
                reverted = seq;
            } else {
                without.commit(&transaction).unwrap();
            }
        }
        let revert = with.revert(reverted).unwrap();
        with.commit(&revert).unwrap();
        let shape =
            |database: &Database| Naive::of(database.private().tree("main").unwrap()).shape();
        assert_eq!(shape(&with), shape(&without), "seed {seed}");
        with.private().tree("main").unwrap().assert_sound();
        // Taken back, and done again by a pick.
        let picked = with.pick(reverted, "main", "main").unwrap();
        with.commit(&picked).unwrap();
        let before = with.at(reverted).unwrap().tree("main").unwrap().node(nodes[one][0]).unwrap();
        let again = with.private().tree("main").unwrap().node(nodes[one][0]).unwrap();
        let ids = |node: &jungle::Node| node.walk().map(jungle::Node::id).collect::<Vec<_>>();
        assert_eq!(ids(before), ids(again));
    });
}

#[test]
fn what_was_changed_since_is_not_reverted_over() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    let first = put(&mut database, node, "a", "1", "ann");
    put(&mut database, node, "a", "2", "bob");
    let Err(PastError::Conflicts(conflicts)) = database.revert(first) else {
        panic!("no conflict")
    };
    assert_eq!(conflicts.len(), 1);
    let made = database.revert(2).unwrap_err();
    assert!(matches!(made, PastError::Conflicts(_)), "a changed folder is not deleted: {made}");
    let operations = vec![Operation::DropTree { tree: "main".to_owned() }];
    let dropped = commit(&mut database, operations);
    assert!(matches!(database.revert(dropped), Err(PastError::TreeGone { .. })));
}

#[test]
fn a_subtree_is_restored_with_its_ids_and_nothing_else_moves() {
    seeds("--test it a_subtree_is_restored", 100, |_, chance| {
        let mut database = Database::default();
        let nodes = folders(&mut database);
        for _ in 0..3 {
            let folder = chance.below(2);
            let transaction = independent(&database, &nodes[folder], chance);
            database.commit(&transaction).unwrap();
        }
        let then = database.private().seq();
        let naive = Naive::of(database.private().tree("main").unwrap());
        for _ in 0..4 {
            let folder = chance.below(2);
            let transaction = independent(&database, &nodes[folder], chance);
            database.commit(&transaction).unwrap();
        }
        // A document of another folder comes in, one goes out.
        let editor = database.private().editor("main").unwrap();
        let editor = editor.relocate(nodes[9][1], nodes[0][0], 0).unwrap();
        database.commit(&editor.transaction()).unwrap();
        if chance.percent(30) {
            let editor = database.private().editor("main").unwrap().delete(nodes[0][0]).unwrap();
            database.commit(&editor.transaction()).unwrap();
        }
        let restore = database.restore("main", nodes[0][0], then);
        let Ok(restore) = restore else {
            // The document that came in was deleted with the folder: nothing else may hinder.
            panic!("{}", restore.unwrap_err());
        };
        let other = Naive::of(database.private().tree("main").unwrap()).below(nodes[1][0]);
        database.commit(&restore).unwrap();
        let now = Naive::of(database.private().tree("main").unwrap());
        for id in naive.below(nodes[0][0]) {
            let (was, is) = (&naive.nodes[&id], &now.nodes[&id]);
            assert_eq!((&was.attributes, &was.children), (&is.attributes, &is.children));
        }
        assert_eq!(now.below(nodes[1][0]), other);
        database.private().tree("main").unwrap().assert_sound();
    });
}

#[test]
fn counters_and_sets_merge_without_a_conflict() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let rule = |attribute: &str, rule| jungle::Operation::SetRule {
        tree: "main".to_owned(),
        attribute: attribute.to_owned(),
        rule,
    };
    let operations = vec![rule("likes", Rule::Counter), rule("tags", Rule::Union)];
    database.commit(&Transaction { operations, ..Transaction::default() }).unwrap();
    let node = nodes[0][1];
    put(&mut database, node, "likes", "10", "ann");
    put(&mut database, node, "tags", "old", "ann");
    let version = database.reader().version();
    let edit = |likes: &str, tags: &str| {
        let editor = version.editor("main").unwrap();
        let editor = editor.put(node, "likes", likes.as_bytes()).unwrap();
        editor.put(node, "tags", tags.as_bytes()).unwrap().transaction()
    };
    database.commit(&edit("11", "old\nx")).unwrap();
    database.commit(&edit("12", "y")).unwrap();
    let tree = database.private().tree("main").unwrap();
    assert_eq!(tree.node(node).unwrap().attribute("likes"), Some(&b"13"[..]));
    assert_eq!(tree.node(node).unwrap().attribute("tags"), Some(&b"x\ny"[..]));
}

fn insert(tree: &str, node: NodeId, parent: NodeId) -> Operation {
    let edit = Edit::Insert {
        node,
        parent: Target::Node(parent),
        place: Place::Last,
        attributes: Attributes::default(),
    };
    Operation::Edit { tree: tree.to_owned(), edit }
}

fn set(tree: &str, node: NodeId, name: &str, value: &[u8]) -> Operation {
    let (name, value) = (name.to_owned(), Some(value.to_vec()));
    let edit = Edit::Put { node: Target::Node(node), name, value, expect: Expect::Anything };
    Operation::Edit { tree: tree.to_owned(), edit }
}

fn delete(tree: &str, node: NodeId) -> Operation {
    let edit = Edit::Delete { node: Target::Node(node), from: None };
    Operation::Edit { tree: tree.to_owned(), edit }
}

fn branch(tree: &str, name: &str, index: u32) -> Operation {
    let (tree, name) = (tree.to_owned(), name.to_owned());
    Operation::Branch { id: NodeId::pending(index), tree, name }
}

fn merge(from: &str, into: &str) -> Operation {
    let (from, into) = (from.to_owned(), into.to_owned());
    Operation::Merge { from, into, policy: Policy::Theirs }
}

fn commit(database: &mut Database, operations: Vec<Operation>) -> u64 {
    database.commit(&Transaction { operations, ..Transaction::default() }).unwrap().seq
}

/// The numbers of a log, which must end.
fn logged(database: &Database, tree: &str, node: NodeId) -> Vec<u64> {
    let log = database.private().log(tree, node).unwrap();
    let most = database.private().seq() as usize + 1;
    let seqs: Vec<_> = log.take(most).map(|entry| entry.commit.seq()).collect();
    assert!(seqs.is_sorted_by(|newer, older| newer > older), "the log runs in a circle: {seqs:?}");
    seqs
}

/// The story: a merge noted the commit in the making as one to be followed, from that very commit, and a deletion of
/// what the commit had just changed did so too. Logs then ran in a circle for ever.
#[test]
fn a_log_ends_after_commits_that_edit_branch_merge_and_delete_at_once() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    let own = put(&mut database, node, "a", "1", "ann");
    let made = database.branch("main", "draft").unwrap().seq;
    let both = commit(&mut database, vec![set("draft", node, "a", b"2"), merge("draft", "main")]);
    assert_eq!(logged(&database, "main", node), [both, own, 2]);
    let blame = database.private().blame("main", node).unwrap();
    assert_eq!(blame.attributes["a"].map(jungle::Commit::seq), Some(both));
    // An earlier commit on the branch, and one that merges, edits beside it, and edits the branch once more.
    let on_branch = commit(&mut database, vec![set("draft", node, "b", b"3")]);
    let operations = vec![
        set("main", node, "c", b"4"),
        set("draft", node, "d", b"5"),
        merge("draft", "main"),
        set("main", node, "e", b"6"),
    ];
    let last = commit(&mut database, operations);
    let whole = [last, on_branch, both, own, 2];
    assert_eq!(logged(&database, "main", node), whole);
    let version = database.reader().version();
    let blame = version.blame("main", node).unwrap();
    for (name, seq) in [("a", both), ("b", on_branch), ("c", last), ("d", last), ("e", last)] {
        assert_eq!(blame.attributes[name].map(jungle::Commit::seq), Some(seq), "{name}");
    }
    // Made, branched and deleted at once: the branch keeps the node, whose log is the commit that made it.
    let new = NodeId::pending(0);
    let operations =
        vec![insert("main", new, nodes[0][0]), branch("main", "other", 1), delete("main", new)];
    let seq = commit(&mut database, operations);
    let new = NodeId::new(seq, 0);
    let log: Vec<_> = database
        .private()
        .log("other", new)
        .unwrap()
        .take(3)
        .map(|e| (e.commit.seq(), e.made))
        .collect();
    assert_eq!(log, [(seq, true)]);
    // Changed, branched and deleted at once.
    let operations =
        vec![set("main", node, "a", b"7"), branch("main", "third", 0), delete("main", node)];
    let seq = commit(&mut database, operations);
    assert_eq!(logged(&database, "third", node), [&[seq][..], &whole].concat());
    let changes: Vec<_> =
        database.private().log("third", node).unwrap().next().unwrap().changes.to_vec();
    assert_eq!(changes, [Change::Put("a".into())]);
    assert!(seq > made);
}

/// The story: two branches merged by one commit left only the newer of their commits to be followed.
#[test]
fn a_commit_that_merges_two_branches_has_the_commits_of_both_in_its_log() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    database.branch("main", "left").unwrap();
    database.branch("main", "right").unwrap();
    let left = commit(&mut database, vec![set("left", node, "l", b"1")]);
    let right = commit(&mut database, vec![set("right", node, "r", b"1")]);
    let both = commit(&mut database, vec![merge("left", "main"), merge("right", "main")]);
    assert_eq!(logged(&database, "main", node), [both, right, left, 2]);
    let blame = database.private().blame("main", node).unwrap();
    let seq = |name: &str| blame.attributes[name].map(jungle::Commit::seq);
    assert_eq!([seq("l"), seq("r")], [Some(left), Some(right)]);
}

/// The story: a value that a merge brought in the place of ours was blamed on ours, whenever that was newer.
#[test]
fn blame_of_a_value_that_a_merge_took_from_the_branch_is_on_the_branch() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    put(&mut database, node, "a", "0", "ann");
    database.branch("main", "draft").unwrap();
    let theirs = commit(&mut database, vec![set("draft", node, "a", b"1")]);
    put(&mut database, node, "a", "2", "bob");
    database.merge("draft", "main", Policy::Theirs).unwrap();
    let blame = database.private().blame("main", node).unwrap();
    assert_eq!(blame.attributes["a"].map(jungle::Commit::seq), Some(theirs));
}

/// The story: the log of a node that came back ended there, and did not say that it was cut.
#[test]
fn the_log_of_a_node_that_came_back_goes_on_before_its_deletion() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let (folder, node) = (nodes[0][0], nodes[0][1]);
    let first = put(&mut database, node, "a", "1", "ann");
    put(&mut database, nodes[1][1], "a", "1", "ann");
    let gone = commit(&mut database, vec![delete("main", folder)]);
    put(&mut database, nodes[1][1], "a", "2", "ann");
    let revert = database.revert(gone).unwrap();
    let back = database.commit(&revert).unwrap().seq;
    assert_eq!(logged(&database, "main", node), [back, first, 2]);
    assert_eq!(logged(&database, "main", folder), [back, gone, first, 2]);
    // Branched since, and taken away and back once more at once.
    database.branch("main", "draft").unwrap();
    let operations = vec![delete("draft", folder), insert("draft", folder, nodes[1][0])];
    let again = commit(&mut database, operations);
    assert_eq!(logged(&database, "draft", folder), [again, back, gone, first, 2]);
    let version = database.reader().version();
    let mut log = version.log("draft", folder).unwrap();
    assert_eq!((log.by_ref().count(), log.forgotten()), (5, None));
}

#[test]
fn the_log_of_a_node_that_came_back_says_what_was_forgotten() {
    let retention = Retention { commits: 3, ..Retention::default() };
    let mut database = Database::new(retention, Thinning::default());
    let nodes = folders(&mut database);
    let gone = commit(&mut database, vec![delete("main", nodes[0][1])]);
    for round in 0..5 {
        put(&mut database, nodes[1][1], "a", &round.to_string(), "ann");
    }
    let revert = database.revert(gone).unwrap();
    let back = database.commit(&revert).unwrap().seq;
    let version = database.reader().version();
    let mut log = version.log("main", nodes[0][1]).unwrap();
    assert_eq!(log.by_ref().map(|entry| entry.commit.seq()).collect::<Vec<_>>(), [back]);
    assert_eq!(log.forgotten(), Some(back - 3));
}

fn overtaken(planned: Result<Transaction, PastError>, what: &str) {
    match planned {
        Err(PastError::Overtaken { what: told, .. }) => assert_eq!(told, what),
        other => panic!("not overtaken: {other:?}"),
    }
}

/// The story: taking back the commit that had created or branched a tree dropped the tree with all that was done
/// since, in silence.
#[test]
fn a_tree_with_later_work_is_not_dropped_by_the_revert_of_what_made_it() {
    let mut database = Database::default();
    folders(&mut database);
    overtaken(database.revert(1), "the tree");
    let branched = database.branch("main", "draft").unwrap().seq;
    let root = database.private().tree("draft").unwrap().root().id();
    let revert = database.revert(branched).unwrap();
    let worked = commit(&mut database, vec![set("draft", root, "a", b"1")]);
    overtaken(database.revert(branched), "the tree");
    assert!(database.commit(&revert).is_err(), "planned before the work was done");
    let back = database.revert(worked).unwrap();
    database.commit(&back).unwrap();
    overtaken(database.revert(branched), "the tree");
    // A rule alone is work too; and untouched, both go.
    let other = database.branch("main", "other").unwrap().seq;
    let revert = database.revert(other).unwrap();
    database.commit(&revert).unwrap();
    let third = database.branch("main", "third").unwrap().seq;
    commit(&mut database, vec![rule("third", "a", Rule::Counter)]);
    overtaken(database.revert(third), "rule of attribute `a`");
    let empty = database.create_tree("empty").unwrap().seq;
    let revert = database.revert(empty).unwrap();
    database.commit(&revert).unwrap();
    assert_eq!(database.private().trees().collect::<Vec<_>>(), ["draft", "main", "third"]);
}

fn rule(tree: &str, attribute: &str, rule: Rule) -> Operation {
    Operation::SetRule { tree: tree.to_owned(), attribute: attribute.to_owned(), rule }
}

fn make_index(attribute: &str) -> Operation {
    Operation::MakeIndex { tree: "main".to_owned(), attribute: attribute.to_owned() }
}

fn drop_index(attribute: &str) -> Operation {
    Operation::DropIndex { tree: "main".to_owned(), attribute: attribute.to_owned() }
}

/// The story: the revert of a commit that set a rule, or made or dropped an index, was planned as a transaction that
/// did nothing; so was a pick of it.
#[test]
fn rules_and_indexes_are_taken_back_and_picked() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    database.branch("main", "draft").unwrap();
    let operations = vec![rule("main", "n", Rule::Counter), make_index("a"), make_index("b")];
    let made = commit(&mut database, operations);
    let operations = vec![rule("main", "n", Rule::Union), drop_index("b")];
    let changed = commit(&mut database, operations);
    let revert = database.revert(changed).unwrap();
    assert_eq!(revert.operations, [make_index("b"), rule("main", "n", Rule::Counter)]);
    overtaken(database.revert(made), "rule of attribute `n`");
    database.commit(&revert).unwrap();
    // The rule counts again.
    put(&mut database, nodes[0][1], "n", "1", "ann");
    let version = database.reader().version();
    for value in [&b"2"[..], b"3"] {
        let editor = version.editor("main").unwrap().put(nodes[0][1], "n", value).unwrap();
        database.commit(&editor.transaction()).unwrap();
    }
    let tree = database.private().tree("main").unwrap();
    assert_eq!(tree.node(nodes[0][1]).unwrap().attribute("n"), Some(&b"4"[..]));
    assert!(tree.indexed().eq(["a", "b"]));
    let pick = database.pick(made, "main", "draft").unwrap();
    database.commit(&pick).unwrap();
    assert!(database.private().tree("draft").unwrap().indexed().eq(["a", "b"]));
    let revert = database.revert(made).unwrap();
    database.commit(&revert).unwrap();
    assert_eq!(database.private().tree("main").unwrap().indexed().count(), 0);
    // What somebody else has taken back by now is no conflict.
    assert_eq!(database.revert(made).unwrap().operations, []);
}

/// The story: the revert of a name that had changed once more passed it over.
#[test]
fn a_name_that_has_changed_since_is_not_taken_back_in_silence() {
    let mut database = Database::default();
    folders(&mut database);
    let rename = |tree: &str, name: &str| Operation::RenameTree {
        tree: tree.to_owned(),
        name: name.to_owned(),
    };
    let first = commit(&mut database, vec![rename("main", "one")]);
    let second = commit(&mut database, vec![rename("one", "two")]);
    overtaken(database.revert(first), "the name");
    let revert = database.revert(second).unwrap();
    database.commit(&revert).unwrap();
    let revert = database.revert(first).unwrap();
    database.commit(&revert).unwrap();
    assert_eq!(database.private().trees().collect::<Vec<_>>(), ["main"]);
    assert_eq!(database.revert(first).unwrap().operations, []);
}

/// The story: what was planned from the past overwrote what others did before it was committed.
#[test]
fn a_plan_from_the_past_does_not_overwrite_what_came_between() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    database.branch("main", "draft").unwrap();
    let first = put(&mut database, node, "a", "1", "ann");
    let second = put(&mut database, node, "a", "2", "ann");
    let plans = [
        database.revert(second).unwrap(),
        database.restore("main", node, first).unwrap(),
        database.pick(first, "main", "draft").unwrap(),
    ];
    let seq =
        commit(&mut database, vec![set("main", node, "a", b"3"), set("draft", node, "a", b"3")]);
    for plan in &plans {
        match database.commit(plan) {
            Err(Rejected::Stale { changed, .. }) => assert_eq!(changed, seq),
            other => panic!("{other:?}"),
        }
    }
    // Planned again it takes effect, or says what hinders.
    assert!(matches!(database.revert(second), Err(PastError::Conflicts(_))));
    let restore = database.restore("main", node, first).unwrap();
    database.commit(&restore).unwrap();
    let tree = database.private().tree("main").unwrap();
    assert_eq!(tree.node(node).unwrap().attribute("a"), Some(&b"1"[..]));
}

/// The story: two increments to the same number counted once, and a counter that a pick had brought was doubled when
/// the branch was merged.
#[test]
fn counters_lose_no_increment_and_gain_none() {
    let mut database = Database::default();
    let nodes = folders(&mut database);
    let node = nodes[0][1];
    commit(&mut database, vec![rule("main", "n", Rule::Counter), set("main", node, "n", b"10")]);
    database.branch("main", "draft").unwrap();
    commit(&mut database, vec![set("main", node, "n", b"11")]);
    commit(&mut database, vec![set("draft", node, "n", b"11")]);
    let number = |database: &Database, tree: &str, node: NodeId| {
        let node = database.private().tree(tree).unwrap().node(node).unwrap();
        String::from_utf8(node.attribute("n").unwrap().to_vec()).unwrap()
    };
    database.merge("draft", "main", Policy::Refuse).unwrap();
    assert_eq!(number(&database, "main", node), "12");
    for (from, into) in [("draft", "main"), ("main", "draft"), ("draft", "main")] {
        database.merge(from, into, Policy::Refuse).unwrap();
        assert_eq!(number(&database, "main", node), "12", "merged again");
    }
    assert_eq!(number(&database, "draft", node), "12");
    // A node of the branch with a counter, picked, and then merged as it is, or as it has become.
    let made = commit(
        &mut database,
        vec![
            insert("draft", NodeId::pending(0), nodes[1][0]),
            set("draft", NodeId::pending(0), "n", b"5"),
        ],
    );
    let new = NodeId::new(made, 0);
    let pick = database.pick(made, "draft", "main").unwrap();
    database.commit(&pick).unwrap();
    database.merge("draft", "main", Policy::Refuse).unwrap();
    assert_eq!(number(&database, "main", new), "5");
    let made = commit(
        &mut database,
        vec![
            insert("draft", NodeId::pending(0), nodes[1][0]),
            set("draft", NodeId::pending(0), "n", b"5"),
        ],
    );
    let new = NodeId::new(made, 0);
    let pick = database.pick(made, "draft", "main").unwrap();
    database.commit(&pick).unwrap();
    commit(&mut database, vec![set("draft", new, "n", b"6")]);
    let merged = database.merge("draft", "main", Policy::Refuse);
    assert!(matches!(merged, Err(Rejected::Conflicts { .. })), "nobody knows what both began with");
    database.merge("draft", "main", Policy::Theirs).unwrap();
    assert_eq!(number(&database, "main", new), "6");
}

/// The story: each version that was kept held on to all the commits of its own past, so that the bound of commits was
/// none while old versions were there.
#[test]
fn kept_versions_hold_no_commits_beyond_the_bound() {
    let retention = Retention { commits: 400, ..Retention::default() };
    let mut database = Database::new(retention, Thinning::default());
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    assert!(database.hold("first", 1));
    for round in 0..900 {
        put(&mut database, root, "a", &round.to_string(), "x");
        if round % 30 > 0 {
            continue;
        }
        let newest = database.reader().version();
        let oldest = newest.oldest_commit().unwrap();
        // Versions are looked after whenever an eighth of the commits has gone.
        for seq in database.versions() {
            let version = database.at(seq).unwrap();
            let own = version.oldest_commit();
            assert!(own.is_none_or(|own| own + 400 / 8 + 32 >= oldest), "{seq}: {own:?}, {oldest}");
            assert!((oldest..=seq).all(|commit| version.commit(commit).is_some()));
            assert!(version.commit(seq + 1).is_none(), "{seq} knows what came after it");
        }
    }
    let version = database.at(300).unwrap();
    let mut log = version.log("main", root).unwrap();
    assert_eq!((log.by_ref().count(), log.forgotten()), (0, Some(300)));
    let whole = database.at(800).unwrap().log("main", root).unwrap().count();
    assert!((250..=351).contains(&whole), "{whole}");
    // One that goes on from such a version is like any other.
    let mut other =
        Database::at_version(database.at(800).unwrap().clone(), retention, Thinning::default());
    let remembered = other.private().oldest_commit();
    put(&mut other, root, "a", "z", "y");
    assert_eq!(other.private().oldest_commit(), remembered);
    let log = other.private().log("main", root).unwrap().map(|entry| entry.commit.seq());
    assert_eq!(log.take(3).collect::<Vec<_>>(), [801, 800, 799]);
    assert_eq!(other.private().commit(801).unwrap().author(), "y");
    assert!(other.private().commit_bytes() < database.private().commit_bytes());
}

#[test]
fn names_count_as_memory_of_commits() {
    let bytes = |name: &str| {
        let mut database = Database::default();
        database.create_tree("main").unwrap();
        let root = database.private().tree("main").unwrap().root().id();
        let before = database.private().commit_bytes();
        put(&mut database, root, name, "1", "x");
        // The message has the name once.
        database.private().commit_bytes() - before - name.len() as u64
    };
    assert_eq!(bytes(&"n".repeat(200)) - bytes("n"), 199);
}
