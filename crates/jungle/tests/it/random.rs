//! Random edits, branches and merges beside a naive tree: after each of them both must be the same.

use std::collections::{BTreeMap, BTreeSet};

use jungle::{
    Conflict, Database, Difference, Editor, NodeId, Operation, Policy, Rejected, Transaction, Tree,
};

use crate::chance::{Chance, seeds};
use crate::naive::{Naive, NaiveNode};

const NAMES: [&str; 4] = ["a", "b", "title", "body"];

/// Some random edits of a tree, through an editor and on the naive tree.
pub(crate) fn edit(
    mut editor: Editor,
    naive: &mut Naive,
    chance: &mut Chance,
    count: usize,
) -> Editor {
    for _ in 0..count {
        let ids: Vec<NodeId> = naive.nodes.keys().copied().collect();
        let node = *chance.pick(&ids);
        let other = *chance.pick(&ids);
        let len = naive.nodes[&node].children.len();
        match chance.below(10) {
            0..=3 => {
                let inside = chance_position(chance, len);
                let position = *chance.pick(&[len, 0, inside]);
                let value = chance.below(50).to_string();
                let attributes = [("v", value.as_bytes())];
                editor = editor.insert(node, position, attributes).unwrap();
                let id = editor.last_made().unwrap();
                naive.insert(id, node, position);
                let own = naive.nodes.get_mut(&id).unwrap();
                own.attributes.insert("v".to_owned(), value.into_bytes());
            }
            4..=6 => {
                let (name, value) = (*chance.pick(&NAMES), chance.below(9).to_string());
                editor = editor.put(node, name, value.as_bytes()).unwrap();
                let own = naive.nodes.get_mut(&node).unwrap();
                own.attributes.insert(name.to_owned(), value.into_bytes());
            }
            7 => {
                let name = *chance.pick(&NAMES);
                let removed = naive.nodes.get_mut(&node).unwrap().attributes.remove(name);
                let done = editor.clone().remove(node, name);
                assert_eq!(done.is_ok(), removed.is_some());
                editor = done.unwrap_or(editor);
            }
            8 => {
                let done = editor.clone().delete(node);
                if node == naive.root {
                    assert!(done.is_err());
                } else if naive.below(node).len() < 12 {
                    editor = done.unwrap();
                    naive.delete(node);
                }
            }
            _ => {
                let same = usize::from(naive.nodes[&node].parent == Some(other));
                let room = naive.nodes[&other].children.len() - same;
                let position = chance_position(chance, room);
                let done = editor.clone().relocate(node, other, position);
                if naive.below(node).contains(&other) || node == naive.root {
                    assert!(done.is_err(), "{node} below {other}");
                } else {
                    editor = done.unwrap();
                    naive.relocate(node, other, position);
                }
            }
        }
    }
    editor
}

fn chance_position(chance: &mut Chance, len: usize) -> usize {
    chance.below(len + 1)
}

/// A database with one tree of some nodes.
fn grown(chance: &mut Chance, count: usize) -> (Database, Naive) {
    let mut database = Database::default();
    database.create_tree("main").unwrap();
    let root = database.private().tree("main").unwrap().root().id();
    let mut naive = Naive::new(root);
    edited(&mut database, "main", &mut naive, chance, count);
    (database, naive)
}

fn edited(
    database: &mut Database,
    tree: &str,
    naive: &mut Naive,
    chance: &mut Chance,
    count: usize,
) {
    let editor = edit(database.private().editor(tree).unwrap(), naive, chance, count);
    assert_eq!(&Naive::of(editor.tree()), naive, "the editor's own view");
    let committed = database.commit(&editor.transaction()).unwrap();
    *naive = naive.settled(committed.seq);
    assert_eq!(&Naive::of(database.private().tree(tree).unwrap()), naive);
}

fn tree<'a>(database: &'a Database, name: &str) -> &'a Tree {
    database.private().tree(name).unwrap()
}

#[test]
fn random_edits_agree_with_a_naive_tree() {
    seeds("--test it random_edits", 60, |_, chance| {
        let (mut database, mut naive) = grown(chance, 20);
        let index = |attribute: &str| Operation::MakeIndex {
            tree: "main".to_owned(),
            attribute: attribute.to_owned(),
        };
        let operations = vec![index("v"), index("a")];
        database.commit(&Transaction { operations, ..Transaction::default() }).unwrap();
        let mut past = BTreeMap::new();
        for _ in 0..25 {
            let count = 1 + chance.below(20);
            edited(&mut database, "main", &mut naive, chance, count);
            past.insert(database.private().seq(), naive.clone());
        }
        tree(&database, "main").assert_sound();
        for value in ["0", "7", "49"] {
            let found: Vec<_> = tree(&database, "main").find("v", value.as_bytes()).collect();
            let has =
                |node: &NaiveNode| node.attributes.get("v").is_some_and(|v| v == value.as_bytes());
            let expected = naive.nodes.iter().filter(|(_, node)| has(node)).map(|(id, _)| *id);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
        // No version of the past has moved, and each differs from others by what the difference says.
        for (seq, naive) in &past {
            assert_eq!(&Naive::of(database.at(*seq).unwrap().tree("main").unwrap()), naive);
            let other = *chance.pick(&past.keys().copied().collect::<Vec<_>>());
            let (earlier, later) = (database.at(other).unwrap(), database.at(*seq).unwrap());
            let differences = later.differences(earlier, "main").unwrap();
            let mut told = told(&differences, naive);
            let before = &past[&other];
            told.2.retain(|id| before.nodes[id].parent != naive.nodes[id].parent);
            assert_eq!(told, told_naively(before, naive), "from {other} to {seq}");
            assert!(*seq != other || differences.is_empty());
        }
    });
}

/// Nodes that came and went, those that came below another parent, and attributes with both values.
type Told = (BTreeSet<NodeId>, BTreeSet<NodeId>, BTreeSet<NodeId>, BTreeSet<Attribute>);
type Attribute = (NodeId, String, Option<Vec<u8>>, Option<Vec<u8>>);

/// What a list of differences says, each once and in its place.
fn told(differences: &[Difference], later: &Naive) -> Told {
    let mut told = Told::default();
    for difference in differences {
        let is_new = match difference {
            Difference::Added { node, parent, position } => {
                assert_eq!(later.nodes[parent].children[*position], *node);
                told.0.insert(*node)
            }
            Difference::Removed { node } => told.1.insert(*node),
            Difference::Moved { node, parent, position } => {
                assert_eq!(later.nodes[parent].children[*position], *node);
                told.2.insert(*node)
            }
            Difference::Attribute { node, name, before, after } => {
                told.3.insert((*node, name.clone(), before.clone(), after.clone()))
            }
            other => unreachable!("a difference that this test does not know: {other:?}"),
        };
        assert!(is_new, "{difference:?} is there twice");
    }
    told
}

/// The same by a look at every node. Which of several siblings have moved among themselves is the difference's choice,
/// so those that kept their parent are not compared.
fn told_naively(earlier: &Naive, later: &Naive) -> Told {
    let gone = |id: &NodeId| !later.nodes.contains_key(id);
    let both =
        || later.nodes.iter().filter_map(|(id, new)| Some((*id, earlier.nodes.get(id)?, new)));
    let added = later.nodes.keys().filter(|id| !earlier.nodes.contains_key(id)).copied();
    // Of a subtree that went its top is told.
    let tops = earlier
        .nodes
        .iter()
        .filter(|(id, node)| gone(id) && !node.parent.is_some_and(|up| gone(&up)));
    let moved = both().filter(|(_, old, new)| old.parent != new.parent).map(|(id, ..)| id);
    let attributes = both().flat_map(|(id, old, new)| {
        let names: BTreeSet<_> = old.attributes.keys().chain(new.attributes.keys()).collect();
        let values = names.into_iter().map(move |name| {
            (id, name.clone(), old.attributes.get(name).cloned(), new.attributes.get(name).cloned())
        });
        values.filter(|(_, _, before, after)| before != after)
    });
    (added.collect(), tops.map(|(id, _)| *id).collect(), moved.collect(), attributes.collect())
}

#[test]
fn a_branch_merged_into_its_untouched_origin_is_the_branch() {
    seeds("--test it a_branch_merged", 150, |_, chance| {
        let (mut database, naive) = grown(chance, 60);
        database.branch("main", "draft").unwrap();
        let mut theirs = naive.clone();
        for _ in 0..1 + chance.below(4) {
            let count = 1 + chance.below(25);
            edited(&mut database, "draft", &mut theirs, chance, count);
        }
        assert_eq!(Naive::of(tree(&database, "main")), naive, "a branch is alone");
        let (differences, _) = database.private().compare("main", "draft").unwrap();
        let merged = database.merge("draft", "main", Policy::Refuse).unwrap();
        assert_eq!(merged.conflicts, []);
        assert_eq!(Naive::of(tree(&database, "main")), theirs);
        tree(&database, "main").assert_sound();
        assert_eq!(differences.is_empty(), naive == theirs);
        // Merged again, either way, nothing is left to bring.
        for (from, into) in [("draft", "main"), ("main", "draft")] {
            database.merge(from, into, Policy::Refuse).unwrap();
            assert_eq!(Naive::of(tree(&database, into)), theirs);
        }
    });
}

fn three<T: PartialEq>(base: T, ours: T, theirs: T) -> T {
    if theirs == base { ours } else { theirs }
}

/// Parents and attributes of a merge by the definition, node by node; what a change cannot decide is left out.
fn merged_naively(base: &Naive, ours: &Naive, theirs: &Naive) -> BTreeMap<NodeId, NaiveNode> {
    let ids: BTreeSet<_> = ours.nodes.keys().chain(theirs.nodes.keys()).copied().collect();
    let mut merged = BTreeMap::new();
    for id in ids {
        let sides = [base, ours, theirs].map(|side| side.nodes.get(&id));
        let node = match sides {
            [None, Some(node), None] | [None, None, Some(node)] => node.clone(),
            [Some(base), Some(ours), Some(theirs)] => {
                let names =
                    [base, ours, theirs].into_iter().flat_map(|node| node.attributes.keys());
                let attributes = names.collect::<BTreeSet<_>>().into_iter().filter_map(|name| {
                    let [base, ours, theirs] =
                        [base, ours, theirs].map(|node| node.attributes.get(name));
                    Some((name.clone(), three(base, ours, theirs)?.clone()))
                });
                NaiveNode {
                    parent: three(base.parent, ours.parent, theirs.parent),
                    attributes: attributes.collect(),
                    children: Vec::new(),
                }
            }
            // Deleted on one side.
            _ => continue,
        };
        merged.insert(id, NaiveNode { children: Vec::new(), ..node });
    }
    merged
}

/// Tells whether a change of the branch is to be seen in the merged tree.
fn is_there(difference: &Difference, merged: &Naive, base: &Naive) -> bool {
    match difference {
        Difference::Added { node, parent, .. } | Difference::Moved { node, parent, .. } => {
            merged.nodes.get(node).is_some_and(|own| own.parent == Some(*parent))
        }
        Difference::Removed { node } => !merged.nodes.contains_key(node),
        Difference::Attribute { node, name, after, .. } => {
            // Of a node that ours deleted too nothing can be seen.
            let Some(own) = merged.nodes.get(node) else { return !base.nodes.contains_key(node) };
            own.attributes.get(name) == after.as_ref()
        }
        _ => unreachable!("a difference that this test does not know"),
    }
}

fn node_of(conflict: &Conflict) -> NodeId {
    match conflict {
        Conflict::Attribute { node, .. }
        | Conflict::EditOfDeleted { node }
        | Conflict::ParentDeleted { node, .. }
        | Conflict::DeletionOfEdited { node }
        | Conflict::Moved { node, .. }
        | Conflict::Cycle { node, .. } => *node,
        _ => unreachable!("a conflict that this test does not know"),
    }
}

#[test]
fn merges_follow_the_rules_and_drop_nothing() {
    let (mut clean, mut refused) = (0, 0);
    seeds("--test it merges_follow", 600, |_, chance| {
        let size = *chance.pick(&[8, 30, 80]);
        let (mut database, base) = grown(chance, size);
        database.branch("main", "draft").unwrap();
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        let most = *chance.pick(&[3, 12]);
        let count = 1 + chance.below(most);
        edited(&mut database, "draft", &mut theirs, chance, count);
        let count = 1 + chance.below(most);
        edited(&mut database, "main", &mut ours, chance, count);
        let before = database.private().hash();
        let (seq, at_branch) = (database.private().seq(), database.private().seq() - 1);
        let theirs_changes = database.at(at_branch).unwrap().compare("main", "draft").unwrap().0;
        match database.merge("draft", "main", Policy::Refuse) {
            Ok(committed) => {
                clean += 1;
                assert_eq!(committed.conflicts, []);
                let merged = Naive::of(tree(&database, "main"));
                let expected = merged_naively(&base, &ours, &theirs);
                let flat = |naive: &Naive| -> BTreeMap<NodeId, NaiveNode> {
                    let bare =
                        |node: &NaiveNode| NaiveNode { children: Vec::new(), ..node.clone() };
                    naive.nodes.iter().map(|(id, node)| (*id, bare(node))).collect()
                };
                assert_eq!(flat(&merged), expected);
                assert!(theirs_changes.iter().all(|change| is_there(change, &merged, &base)));
            }
            Err(Rejected::Conflicts { conflicts, .. }) => {
                refused += 1;
                assert!(!conflicts.is_empty());
                assert_eq!((database.private().hash(), database.private().seq()), (before, seq));
                let policy = *chance.pick(&[Policy::Ours, Policy::Theirs]);
                let committed = database.merge("draft", "main", policy).unwrap();
                let merged = Naive::of(tree(&database, "main"));
                let named: BTreeSet<_> = committed.conflicts.iter().map(node_of).collect();
                for change in &theirs_changes {
                    let node = match change {
                        Difference::Added { node, .. }
                        | Difference::Moved { node, .. }
                        | Difference::Removed { node }
                        | Difference::Attribute { node, .. } => *node,
                        _ => unreachable!(),
                    };
                    // A change is there, or a conflict names its node or one whose deletion took it along.
                    let named = named.contains(&node)
                        || named.iter().any(|top| {
                            [&base, &ours, &theirs].iter().any(|side| {
                                side.nodes.contains_key(top) && side.below(*top).contains(&node)
                            })
                        });
                    assert!(is_there(change, &merged, &base) || named, "{change:?} was dropped");
                }
            }
            Err(other) => panic!("{other}"),
        }
        tree(&database, "main").assert_sound();
    });
    if std::env::var_os("SEKISHO_SEED").is_none() {
        assert!(clean > 150 && refused > 100, "{clean} clean and {refused} refused merges");
    }
}

#[test]
fn edits_side_by_side_rebase_or_are_refused() {
    let (mut taken, mut refused) = (0, 0);
    seeds("--test it edits_side_by_side", 400, |_, chance| {
        let (mut database, base) = grown(chance, 30);
        let version = database.reader().version();
        let (mut first, mut second) = (base.clone(), base.clone());
        let one = edit(version.editor("main").unwrap(), &mut first, chance, 4).transaction();
        let other = edit(version.editor("main").unwrap(), &mut second, chance, 4);
        let strict = other.clone().transaction_if_unchanged();
        database.commit(&one).unwrap();
        let before = database.private().hash();
        if !one.operations.is_empty() {
            assert!(matches!(database.commit(&strict), Err(Rejected::Stale { .. })));
        }
        match database.commit(&other.transaction()) {
            Ok(_) => taken += 1,
            Err(Rejected::Edit { .. }) => {
                refused += 1;
                assert_eq!(database.private().hash(), before, "a refused transaction left traces");
            }
            Err(other) => panic!("{other}"),
        }
        tree(&database, "main").assert_sound();
    });
    if std::env::var_os("SEKISHO_SEED").is_none() {
        assert!(taken > 50 && refused > 50, "{taken} taken, {refused} refused");
    }
}

#[test]
fn replayed_from_empty_a_log_gives_the_same_hash() {
    seeds("--test it replayed_from_empty", 40, |_, chance| {
        let (mut database, mut replay) = (Database::default(), Database::default());
        let mut log: Vec<Transaction> = Vec::new();
        let operation =
            |operation| Transaction { operations: vec![operation], ..Transaction::default() };
        let root = NodeId::pending(0);
        let create = Operation::CreateTree { root, name: "main".to_owned(), addressable: true };
        log.push(operation(create));
        database.commit(&log[0]).unwrap();
        let mut branches = vec!["main".to_owned()];
        for step in 0..30 {
            let name = chance.pick(&branches).clone();
            let transaction = match chance.below(10) {
                0 => {
                    let branch = format!("branch{step}");
                    branches.push(branch.clone());
                    operation(Operation::Branch { id: root, tree: name, name: branch })
                }
                1 | 2 => {
                    let into = chance.pick(&branches).clone();
                    operation(Operation::Merge { from: name, into, policy: Policy::Theirs })
                }
                _ => {
                    let editor = database.private().editor(&name).unwrap();
                    let mut naive = Naive::of(editor.tree());
                    edit(editor, &mut naive, chance, 6).transaction()
                }
            };
            if database.commit(&transaction).is_ok() {
                log.push(transaction);
            }
        }
        for transaction in &log {
            replay.commit(transaction).unwrap();
        }
        assert_eq!(replay.private().hash(), database.private().hash());
    });
}
