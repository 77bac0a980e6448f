//! Two lines of edits become one by rules that depend on nothing but three versions, so that every replay of
//! the log merges alike; what the rules cannot decide is listed, never dropped.

use std::collections::BTreeSet;

use crate::attributes::VALUE_MAX;
use crate::diff::{self, Diff, Placed};
use crate::node::{Node, NodeId};
use crate::operation::{Edit, Expect, Refusal};
use crate::tree::{ANCHORS, Draft, Place, Target, Tree};

/// The decision between two values of one attribute that were set side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Neither wins: it is a conflict.
    #[default]
    Conflict,
    /// The one that comes later in the log wins; in a merge that is the merged branch.
    LastInLog,
    /// Both differences to the base are added. Values are decimal whole numbers of 64 bits; a missing one is 0.
    Counter,
    /// Lines that either side added stay, lines that either side took out go; sorted. More than a value holds is
    /// a conflict.
    Union,
}

/// The side that decides what the rules cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Neither: a merge with a conflict changes nothing.
    #[default]
    Refuse,
    /// The tree that is merged into.
    Ours,
    /// The branch that is merged, except into what ours has deleted: a deletion wins.
    Theirs,
}

/// Changes on both sides that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// Both sides set an attribute.
    Attribute {
        /// The node.
        node: NodeId,
        /// The attribute.
        name: String,
        /// The value before both.
        base: Option<Vec<u8>>,
        /// The value of the tree that is merged into.
        ours: Option<Vec<u8>>,
        /// The value of the branch.
        theirs: Option<Vec<u8>>,
    },
    /// The branch edited a node that ours has deleted. It stays deleted.
    EditOfDeleted {
        /// The node.
        node: NodeId,
    },
    /// The branch put a node below one that ours has deleted, or that could not be placed itself.
    ParentDeleted {
        /// The node.
        node: NodeId,
        /// The parent that is not there.
        parent: NodeId,
    },
    /// The branch deleted a node that ours has changed, moved, or changed below.
    DeletionOfEdited {
        /// The node.
        node: NodeId,
    },
    /// Both sides moved a node to different parents.
    Moved {
        /// The node.
        node: NodeId,
        /// Its parent in ours.
        ours: NodeId,
        /// Its parent in the branch.
        theirs: NodeId,
    },
    /// Moves of both sides would put a node below itself.
    Cycle {
        /// The node.
        node: NodeId,
        /// Its parent in the branch.
        parent: NodeId,
    },
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Attribute { node, name, .. } => {
                write!(f, "attribute `{name}` of node {node} was set on both sides")
            }
            Self::EditOfDeleted { node } => {
                write!(f, "node {node} was edited on the branch and deleted here")
            }
            Self::ParentDeleted { node, parent } => {
                write!(f, "node {node} came below {parent} on the branch, which is not here")
            }
            Self::DeletionOfEdited { node } => {
                write!(f, "node {node} was deleted on the branch and edited here")
            }
            Self::Moved { node, ours, theirs } => {
                write!(f, "node {node} moved below {ours} here and below {theirs} on the branch")
            }
            Self::Cycle { node, parent } => {
                write!(
                    f,
                    "node {node} moved below {parent} on the branch, which lies below it here"
                )
            }
        }
    }
}

/// The outcome of a merge: the tree that it makes, the edits that lead there, and the conflicts.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) draft: Draft,
    pub(crate) edits: Vec<Edit>,
    pub(crate) conflicts: Vec<Conflict>,
    /// Nodes that the commit in the making has changed on the branch.
    pub(crate) fresh: Vec<NodeId>,
}

/// Brings the changes from `base` to `theirs` into `ours`. Time is by those changes alone.
pub(crate) fn plan(base: &Tree, ours: Draft, theirs: &Tree, policy: Policy) -> Plan {
    let tree = ours.tree.clone();
    plan_of(&Diff::of(base, theirs), [base, &tree, theirs], policy, ours)
}

/// Brings these differences, which lead from `base` to `theirs`, into `ours`, which is the draft's tree.
pub(crate) fn plan_of(
    diff: &Diff<'_>,
    [base, ours, theirs]: [&Tree; 3],
    policy: Policy,
    draft: Draft,
) -> Plan {
    let mut merge = Merge {
        base,
        ours,
        theirs,
        policy,
        plan: Plan { draft, edits: Vec::new(), conflicts: Vec::new(), fresh: Vec::new() },
    };
    for placed in &diff.placed {
        merge.place(placed);
    }
    for (old, new) in &diff.changed {
        merge.attributes(old, new);
    }
    for node in &diff.removed {
        merge.remove(node);
    }
    let seq = merge.plan.draft.seq;
    for node in &diff.walked {
        if node.changed < seq {
            merge.plan.draft.note_merged(node.id, node.changed);
        } else {
            merge.plan.fresh.push(node.id);
        }
    }
    merge.plan
}

struct Merge<'a> {
    base: &'a Tree,
    ours: &'a Tree,
    theirs: &'a Tree,
    policy: Policy,
    plan: Plan,
}

impl Merge<'_> {
    fn has(&self, id: NodeId) -> bool {
        self.plan.draft.tree.contains(id)
    }

    fn conflict(&mut self, conflict: Conflict) {
        self.plan.conflicts.push(conflict);
    }

    fn apply(&mut self, edit: Edit) -> Result<(), Refusal> {
        edit.apply(&mut self.plan.draft)?;
        self.plan.edits.push(edit);
        Ok(())
    }

    fn place(&mut self, placed: &Placed<'_>) {
        let (node, parent) = (placed.node.id, placed.parent.id);
        if !placed.is_new && !self.has(node) {
            return self.conflict(Conflict::EditOfDeleted { node });
        }
        if !self.has(parent) {
            return self.conflict(Conflict::ParentDeleted { node, parent });
        }
        if self.plan.draft.tree.lies_below(parent, node) {
            return self.conflict(Conflict::Cycle { node, parent });
        }
        let place = self.place_of(placed);
        if !self.has(node) {
            let edit = Edit::Insert {
                node,
                parent: Target::Node(parent),
                place,
                attributes: placed.node.attributes.clone(),
            };
            return self.apply(edit).expect("parent and place were looked up");
        }
        let here = self.ours.parent(node);
        if placed.is_new && here.is_some() {
            // Both sides brought the node, one of them from the other: only its attributes can differ.
            return self.attributes_of_both(placed.node);
        }
        if let (Some(ours), Some(was)) = (here, self.base.parent(node))
            && ours != was
            && ours != parent
        {
            self.conflict(Conflict::Moved { node, ours, theirs: parent });
            if self.policy != Policy::Theirs {
                return;
            }
        }
        let edit = Edit::Move {
            node: Target::Node(node),
            parent: Target::Node(parent),
            place,
            from: None,
        };
        self.apply(edit).expect("node, parent and place were looked up");
    }

    /// Behind the nearest left siblings that are children of the same parent here.
    fn place_of(&self, placed: &Placed<'_>) -> Place {
        let tree = &self.plan.draft.tree;
        let left = (0..placed.position).rev().filter_map(|at| placed.parent.child(at));
        let here = left.filter(|left| tree.parent(left.id) == Some(placed.parent.id));
        let anchors: Vec<_> = here.map(Node::id).take(ANCHORS).collect();
        if anchors.is_empty() { Place::First } else { Place::After(anchors) }
    }

    fn attributes(&mut self, old: &Node, new: &Node) {
        if !self.has(new.id) {
            return self.conflict(Conflict::EditOfDeleted { node: new.id });
        }
        for (name, base, theirs) in diff::attributes(old, new) {
            self.attribute(new.id, name, base, theirs);
        }
    }

    fn attributes_of_both(&mut self, theirs: &Node) {
        for (name, value) in theirs.attributes() {
            let here = self.plan.draft.tree.node(theirs.id).expect("the caller has looked");
            let ours = here.attribute(name);
            if ours == Some(value) {
                continue;
            }
            if ours.is_some() && self.rule(name) == Rule::Counter {
                // The number that both began with is not known, so nobody can tell what each has counted.
                let (node, ours) = (theirs.id, ours.map(<[u8]>::to_vec));
                self.undecided(node, name, [None, ours, Some(value.to_vec())]);
            } else {
                self.attribute(theirs.id, name, None, Some(value));
            }
        }
    }

    fn rule(&self, name: &str) -> Rule {
        let rule = self.plan.draft.tree.rules.find(|own| (**own).cmp(name)).copied();
        rule.unwrap_or_default()
    }

    /// Values of base, ours and theirs between which the policy decides.
    fn undecided(&mut self, node: NodeId, name: &str, [base, ours, theirs]: [Option<Vec<u8>>; 3]) {
        let (value, owned) = (theirs.clone(), name.to_owned());
        self.conflict(Conflict::Attribute { node, name: owned, base, ours, theirs });
        if self.policy == Policy::Theirs {
            self.put(node, name, value);
        }
    }

    fn put(&mut self, node: NodeId, name: &str, value: Option<Vec<u8>>) {
        let node = Target::Node(node);
        let edit = Edit::Put { node, name: name.to_owned(), value, expect: Expect::Anything };
        self.apply(edit).expect("node and attribute were looked up");
    }

    fn attribute(&mut self, node: NodeId, name: &str, base: Option<&[u8]>, theirs: Option<&[u8]>) {
        let here = self.plan.draft.tree.node(node).expect("the caller has looked");
        let ours = here.attribute(name).map(<[u8]>::to_vec);
        let rule = self.rule(name);
        // Two sides that counted to the same number counted twice.
        if ours.as_deref() == theirs && (rule != Rule::Counter || theirs == base) {
            return;
        }
        let mut value = theirs.map(<[u8]>::to_vec);
        if ours.as_deref() != base {
            match decide(rule, base, ours.as_deref(), theirs) {
                Some(decided) => value = decided,
                None if ours == value => return,
                None => {
                    let base = base.map(<[u8]>::to_vec);
                    return self.undecided(node, name, [base, ours, value]);
                }
            }
        }
        self.put(node, name, value);
    }

    fn remove(&mut self, old: &Node) {
        let here = self.ours.node(old.id);
        // A commit that was taken back has left the same behind.
        let is_same = here.is_some_and(|here| {
            here.changed == old.changed
                || self.ours.parent(old.id) == self.base.parent(old.id) && same_below(old, here)
        });
        if is_same {
            return self.delete(old.id);
        }
        // What ours moved out of the deleted node the branch has deleted too.
        let mut edited: Vec<NodeId> = here.map(|_| old.id).into_iter().collect();
        for node in old.walk().filter(|node| !self.theirs.contains(node.id)) {
            let is_below = |top: &NodeId| self.ours.lies_below(node.id, *top);
            if self.ours.contains(node.id) && !edited.iter().any(is_below) {
                edited.push(node.id);
            }
        }
        for node in edited {
            self.conflict(Conflict::DeletionOfEdited { node });
            if self.policy == Policy::Theirs {
                self.delete(node);
            }
        }
    }

    fn delete(&mut self, node: NodeId) {
        if self.has(node) {
            self.rescue(node);
            let edit = Edit::Delete { node: Target::Node(node), from: None };
            self.apply(edit).expect("the node was looked up, and no root is ever removed");
        }
    }

    /// Brings home what ours moved below a node that the branch has deleted: the branch deleted only that.
    fn rescue(&mut self, doomed: NodeId) {
        let (theirs, top) = (self.theirs, self.plan.draft.tree.node(doomed).expect("it was found"));
        let alive: Vec<_> =
            top.walk().map(Node::id).filter(|node| theirs.contains(*node)).collect();
        for node in alive {
            let parent = theirs.parent(node).expect("the root lies below nothing");
            let tree = &self.plan.draft.tree;
            if !tree.lies_below(node, doomed) || tree.parent(node) == Some(parent) {
                continue;
            }
            if !tree.contains(parent) || tree.lies_below(parent, node) {
                self.conflict(Conflict::ParentDeleted { node, parent });
                continue;
            }
            let home = theirs.node(parent).expect("it is the parent of a node there");
            let position = home.position(node).expect("it is its child");
            let child = home.child(position).expect("it was found there");
            let placed = Placed { node: child, parent: home, position, is_new: false };
            let (place, node, parent) =
                (self.place_of(&placed), Target::Node(node), Target::Node(parent));
            let edit = Edit::Move { node, parent, place, from: None };
            self.apply(edit).expect("node, parent and place were looked up");
        }
    }
}

/// Tells whether two nodes are the same, with all below them, but for when that was changed.
fn same_below(left: &Node, right: &Node) -> bool {
    left.walk().zip(right.walk()).all(|(left, right)| {
        left.id == right.id && left.len() == right.len() && left.attributes == right.attributes
    })
}

/// The value that a rule makes of two; `None` if it cannot.
#[allow(clippy::option_option, reason = "no decision, or one for a value or for none")]
pub(crate) fn decide(
    rule: Rule,
    base: Option<&[u8]>,
    ours: Option<&[u8]>,
    theirs: Option<&[u8]>,
) -> Option<Option<Vec<u8>>> {
    match rule {
        Rule::Conflict => None,
        Rule::LastInLog => Some(theirs.map(<[u8]>::to_vec)),
        Rule::Counter => {
            let number = |value: Option<&[u8]>| match value {
                None => Some(0_i64),
                Some(value) => std::str::from_utf8(value).ok()?.parse().ok(),
            };
            let gained = number(theirs)?.checked_sub(number(base)?)?;
            Some(Some(number(ours)?.checked_add(gained)?.to_string().into_bytes()))
        }
        Rule::Union => {
            let lines = |value: Option<&[u8]>| -> BTreeSet<Vec<u8>> {
                let lines = value.unwrap_or_default().split(|byte| *byte == b'\n');
                lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
            };
            let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
            let stays = |line: &&Vec<u8>| {
                !base.contains(*line) || (ours.contains(*line) && theirs.contains(*line))
            };
            let union: Vec<_> = ours.union(&theirs).filter(stays).cloned().collect();
            let union = union.join(&b'\n');
            (union.len() <= VALUE_MAX).then_some(Some(union))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_decide_between_two_values() {
        let decided = |rule, base: &str, ours: &str, theirs: &str| {
            let value = |text: &str| (text != "-").then(|| text.as_bytes().to_vec());
            let (base, ours, theirs) = (value(base), value(ours), value(theirs));
            let decided = decide(rule, base.as_deref(), ours.as_deref(), theirs.as_deref())?;
            decided.map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(decided(Rule::Conflict, "a", "b", "c"), None);
        assert_eq!(decided(Rule::LastInLog, "a", "b", "c").as_deref(), Some("c"));
        assert_eq!(decided(Rule::Counter, "10", "15", "7").as_deref(), Some("12"));
        assert_eq!(decided(Rule::Counter, "-", "2", "3").as_deref(), Some("5"));
        assert_eq!(decided(Rule::Counter, "1", "x", "3"), None);
        assert_eq!(decided(Rule::Counter, "0", "9223372036854775807", "1"), None);
        assert_eq!(decided(Rule::Union, "a\nb", "b\nc", "a\nb\nd").as_deref(), Some("b\nc\nd"));
        // A merge that met more lines than a value holds panicked.
        let [left, right] = [b'a', b'b'].map(|line| vec![line; VALUE_MAX / 2]);
        assert!(decide(Rule::Union, None, Some(&left), Some(&right)).is_none());
        assert!(decide(Rule::Union, None, Some(&left), Some(&right[1..])).is_some());
    }
}
