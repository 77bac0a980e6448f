//! A transaction is all that the log keeps of a client's wish: operations that any replay applies to the same
//! version with the same result.

use crate::attributes::Attributes;
use crate::blob::{self, BlobRef};
use crate::commit::Timestamp;
use crate::merge::{self, Policy, Rule};
use crate::node::NodeId;
use crate::tree::{Draft, EditError, Place, Target};

/// Operations on one database that take effect together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// Author, for the history.
    pub author: String,
    /// Reason, for the history.
    pub message: String,
    /// Time of the caller's clock.
    pub time: Timestamp,
    /// Free attributes of the commit.
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Conditions that must hold first.
    pub preconditions: Vec<Precondition>,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// A condition on the version that a transaction is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precondition {
    /// No commit after `since` has changed a node or one below it; without a node, the whole tree.
    Unchanged {
        /// The name of the tree.
        tree: String,
        /// The node.
        node: Option<NodeId>,
        /// The newest commit that may have changed it.
        since: u64,
    },
}

/// An expectation of the value that a put replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Any: the last put in the log wins.
    #[default]
    Anything,
    /// This value, or none. If another is there, the attribute's [`Rule`] decides.
    Value(Option<Vec<u8>>),
}

/// An edit of one tree.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Inserts a node.
    Insert {
        /// Its id: pending, or that of a node that was there before and comes back.
        node: NodeId,
        /// Its parent.
        parent: Target,
        /// Its place there.
        place: Place,
        /// Its attributes.
        attributes: Attributes,
    },
    /// Sets an attribute, or with no value takes it out.
    Put {
        /// The node.
        node: Target,
        /// The attribute.
        name: String,
        /// The value.
        value: Option<Vec<u8>>,
        /// The value that is to be there.
        expect: Expect,
    },
    /// Deletes a node with all below it. Deleting what is gone changes nothing.
    Delete {
        /// The node.
        node: Target,
        /// The parent that it is to have: of a move and a deletion side by side the first in the log wins.
        from: Option<NodeId>,
    },
    /// Moves a node with all below it.
    Move {
        /// The node.
        node: Target,
        /// Its new parent.
        parent: Target,
        /// Its new place; positions count without the node.
        place: Place,
        /// The parent that it is to have: of two moves side by side the first in the log wins.
        from: Option<NodeId>,
    },
}

/// An operation on a database.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Creates a tree with a root and nothing else.
    CreateTree {
        /// The pending id of its root, which is the tree's identity too.
        root: NodeId,
        /// Its name.
        name: String,
        /// Tells whether nodes are found by their ids.
        addressable: bool,
    },
    /// Renames a tree.
    RenameTree {
        /// Its name.
        tree: String,
        /// Its new name.
        name: String,
    },
    /// Drops a tree. Its branches stay.
    DropTree {
        /// Its name.
        tree: String,
    },
    /// Makes a branch: a tree of its own that shares everything until it is edited.
    Branch {
        /// The pending id that is the branch's identity.
        id: NodeId,
        /// The tree that is branched.
        tree: String,
        /// The name of the branch.
        name: String,
    },
    /// Merges a branch into its origin, or an origin into its branch.
    Merge {
        /// The tree whose changes are brought.
        from: String,
        /// The tree that is changed.
        into: String,
        /// The side that decides conflicts.
        policy: Policy,
    },
    /// Makes an index of an attribute, of all nodes of a tree.
    MakeIndex {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
    },
    /// Drops an index.
    DropIndex {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
    },
    /// Sets the rule of an attribute.
    SetRule {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
        /// The rule.
        rule: Rule,
    },
    /// Edits a tree.
    Edit {
        /// The tree.
        tree: String,
        /// The edit.
        edit: Edit,
    },
    /// Deletes nodes of a tree whose deadline is not behind the time of the commit, the earliest first, until 10,000
    /// nodes are gone.
    Tick {
        /// The tree.
        tree: String,
    },
}

/// Why an edit has no effect beside those before it in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The edit is not possible.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Another value is there than the one expected.
    #[error("attribute `{name}` of node {node} has another value by now; read it and decide again")]
    Value {
        /// The node.
        node: NodeId,
        /// The attribute.
        name: String,
        /// The value that is there.
        current: Option<Vec<u8>>,
    },
    /// The node has moved away from the parent expected.
    #[error("node {node} has moved by now; read it and decide again")]
    Moved {
        /// The node.
        node: NodeId,
        /// Its parent.
        parent: Option<NodeId>,
    },
}

impl Transaction {
    /// The blobs that its edits name. They are to be stored before it is submitted.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> {
        let edits = self.operations.iter().filter_map(|operation| match operation {
            Operation::Edit { edit, .. } => Some(edit),
            _ => None,
        });
        edits.flat_map(Edit::blobs)
    }
}

impl Edit {
    /// The blobs that the edit names.
    fn blobs(&self) -> Vec<BlobRef> {
        match self {
            Self::Insert { attributes, .. } => {
                attributes.iter().filter_map(|(name, value)| blob::named(name, value)).collect()
            }
            Self::Put { name, value: Some(value), .. } => {
                blob::named(name, value).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The node that the edit makes or brings back.
    pub(crate) fn made(&self) -> Option<NodeId> {
        match self {
            Self::Insert { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Applies the edit, in the order of the log, by the rules for edits made side by side.
    pub(crate) fn apply(&self, draft: &mut Draft) -> Result<(), Refusal> {
        match self {
            Self::Insert { node, parent, place, attributes } => {
                Ok(draft.insert(*node, parent, place, attributes.clone())?)
            }
            Self::Put { node, name, value, expect } => {
                let value = replacing(draft, node, name, value.as_deref(), expect)?;
                Ok(draft.put(node, name, value.as_deref())?)
            }
            Self::Delete { node: Target::Node(id), .. }
                if draft.tree.is_addressable() && !draft.tree.contains(id.settle(draft.seq)) =>
            {
                Ok(())
            }
            Self::Delete { node, from } => {
                still_below(draft, node, *from)?;
                draft.delete(node)?;
                Ok(())
            }
            Self::Move { node, parent, place, from } => {
                still_below(draft, node, *from)?;
                Ok(draft.relocate(node, parent, place)?)
            }
        }
    }
}

/// The value to put: the one wished for, or what the rule makes of it and one that came between.
fn replacing(
    draft: &Draft,
    node: &Target,
    name: &str,
    value: Option<&[u8]>,
    expect: &Expect,
) -> Result<Option<Vec<u8>>, Refusal> {
    let wished = value.map(<[u8]>::to_vec);
    let Expect::Value(expected) = expect else { return Ok(wished) };
    let positions = draft.resolve(node)?;
    let node = draft.tree.at_positions(&positions).expect("it was resolved");
    let current = node.attribute(name);
    if current == expected.as_deref() {
        return Ok(wished);
    }
    let rule = draft.tree.rules.find(|own| (**own).cmp(name)).copied().unwrap_or_default();
    merge::decide(rule, expected.as_deref(), current, value).ok_or_else(|| Refusal::Value {
        node: node.id(),
        name: name.to_owned(),
        current: current.map(<[u8]>::to_vec),
    })
}

fn still_below(draft: &Draft, node: &Target, from: Option<NodeId>) -> Result<(), Refusal> {
    let (Target::Node(node), Some(from)) = (node, from) else { return Ok(()) };
    let (node, from) = (node.settle(draft.seq), from.settle(draft.seq));
    let parent = draft.tree.parent(node);
    if parent == Some(from) || !draft.tree.contains(node) {
        return Ok(());
    }
    Err(Refusal::Moved { node, parent })
}
