//! The papers' way to edit: a chain in which each step is a new editor over a new tree, and a commit that puts
//! the last of them in the place of the root.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::commit::Timestamp;
use crate::expiry::{self, EXPIRES};
use crate::node::{Node, NodeId};
use crate::operation::{Edit, Expect, Operation, Precondition, Transaction};
use crate::tree::{ANCHORS, Draft, EditError, Place, Target, Tree};
use crate::version::Version;

/// An editor of one tree of one version. Each step takes it and gives the next one; a clone stays as it was. A clone
/// costs what was edited, not what the tree has: the first step behind it copies the list of edits. Nobody else sees its
/// tree until a transaction of it is committed.
#[derive(Clone, Debug)]
pub struct Editor {
    name: Arc<str>,
    since: u64,
    draft: Draft,
    edits: Arc<Vec<Edit>>,
    made: u32,
}

impl Version {
    /// An editor of a tree, if there is one of this name.
    pub fn editor(&self, tree: &str) -> Option<Editor> {
        let own = self.tree(tree)?.clone();
        let since = own.changed();
        let draft = Draft::new(own, NodeId::PENDING);
        Some(Editor { name: tree.into(), since, draft, edits: Arc::default(), made: 0 })
    }
}

impl Editor {
    /// The tree with all steps up to here.
    pub fn tree(&self) -> &Tree {
        &self.draft.tree
    }

    /// The number of edits up to here.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Tells whether nothing was edited.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The id that the last inserted node has until the commit; operations of the same transaction may
    /// name it.
    pub fn last_made(&self) -> Option<NodeId> {
        self.made.checked_sub(1).map(NodeId::pending)
    }

    /// Inserts a child with attributes at a position.
    ///
    /// # Errors
    /// [`EditError`], if the parent is not there or has fewer children.
    pub fn insert<'a>(
        self,
        parent: impl Into<Target>,
        position: usize,
        attributes: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, EditError> {
        let (parent, node) = self.find(&parent.into())?;
        if position > node.len() {
            let children = node.len();
            return Err(EditError::NoSuchPosition { parent: node.id, position, children });
        }
        let place = self.place(node, position, None);
        self.made(parent, place, Attributes::of(attributes))
    }

    /// Appends a child with attributes.
    ///
    /// # Errors
    /// [`EditError`], if the parent is not there.
    pub fn append<'a>(
        self,
        parent: impl Into<Target>,
        attributes: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, EditError> {
        let (parent, _) = self.find(&parent.into())?;
        self.made(parent, Place::Last, Attributes::of(attributes))
    }

    /// Deletes the child at a position, with all below it.
    ///
    /// # Errors
    /// [`EditError`], if parent or child are not there.
    pub fn delete_child(
        self,
        parent: impl Into<Target>,
        position: usize,
    ) -> Result<Self, EditError> {
        let child = self.child(&parent.into(), position)?;
        self.delete(child)
    }

    /// Deletes a node, with all below it.
    ///
    /// # Errors
    /// [`EditError`], if the node is not there or is the root.
    pub fn delete(self, node: impl Into<Target>) -> Result<Self, EditError> {
        let (node, _) = self.find(&node.into())?;
        let from = self.parent(&node);
        self.step(Edit::Delete { node, from })
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`EditError`], if the node is not there or name or value are too long.
    pub fn put(self, node: impl Into<Target>, name: &str, value: &[u8]) -> Result<Self, EditError> {
        self.set(&node.into(), name, Some(value))
    }

    /// Takes an attribute out.
    ///
    /// # Errors
    /// [`EditError`], if the node is not there or has no such attribute.
    pub fn remove(self, node: impl Into<Target>, name: &str) -> Result<Self, EditError> {
        self.set(&node.into(), name, None)
    }

    /// Gives a node a deadline, at which it goes with all below it, or with `None` takes the one away that it has.
    ///
    /// # Errors
    /// [`EditError`], if the node is not there, is the root or has none to be taken away, or the tree is not addressable.
    pub fn expire(
        self,
        node: impl Into<Target>,
        deadline: Option<Timestamp>,
    ) -> Result<Self, EditError> {
        let value = deadline.map(expiry::value_of);
        self.set(&node.into(), EXPIRES, value.as_deref())
    }

    /// Moves a node, with all below it, to a position among the children of a parent, counted without it.
    ///
    /// # Errors
    /// [`EditError`], if node, parent or position are not there, or the parent lies below the node.
    pub fn relocate(
        self,
        node: impl Into<Target>,
        parent: impl Into<Target>,
        position: usize,
    ) -> Result<Self, EditError> {
        let (node, moved) = self.find(&node.into())?;
        let (parent, new) = self.find(&parent.into())?;
        let own = new.position(moved.id);
        let children = new.len() - usize::from(own.is_some());
        if position > children {
            return Err(EditError::NoSuchPosition { parent: new.id, position, children });
        }
        let place = self.place(new, position, own);
        let from = self.parent(&node);
        self.step(Edit::Move { node, parent, place, from })
    }

    /// The transaction of all steps, to be committed beside others: edits that do not exclude each other all
    /// take effect, wherever nodes have moved. A tree without addresses by id must be unchanged instead.
    pub fn transaction(self) -> Transaction {
        if !self.draft.tree.is_addressable() {
            return self.transaction_if_unchanged();
        }
        let operations = self.edits.iter().map(|edit| self.operation(edit)).collect();
        Transaction { operations, ..Transaction::default() }
    }

    /// The transaction of all steps, to be committed only if nobody else has changed the tree: the papers'
    /// compare-and-set on the root.
    pub fn transaction_if_unchanged(self) -> Transaction {
        let operations = self.edits.iter().map(|edit| self.operation(edit)).collect();
        let (tree, since) = (self.name.to_string(), self.since);
        let preconditions = vec![Precondition::Unchanged { tree, node: None, since }];
        Transaction { operations, preconditions, ..Transaction::default() }
    }

    fn operation(&self, edit: &Edit) -> Operation {
        Operation::Edit { tree: self.name.to_string(), edit: edit.clone() }
    }

    /// The node of a target, and the target as the log is to have it: by id where that is possible.
    fn find(&self, target: &Target) -> Result<(Target, &Node), EditError> {
        let positions = self.draft.resolve(target)?;
        let node = self.draft.tree.at_positions(&positions).expect("it was resolved");
        if self.draft.tree.is_addressable() {
            return Ok((Target::Node(node.id), node));
        }
        Ok((Target::Path(positions.into()), node))
    }

    fn child(&self, parent: &Target, position: usize) -> Result<Target, EditError> {
        let positions = self.draft.resolve(parent)?;
        let node = self.draft.tree.at_positions(&positions).expect("it was resolved");
        let none = EditError::NoSuchPosition { parent: node.id, position, children: node.len() };
        let child = node.child(position).ok_or(none)?;
        if self.draft.tree.is_addressable() {
            return Ok(Target::Node(child.id));
        }
        Ok(Target::Path(crate::NodePath::from(positions).child(position)))
    }

    fn parent(&self, node: &Target) -> Option<NodeId> {
        match node {
            Target::Node(id) => self.draft.tree.parent(*id),
            Target::Path(_) => None,
        }
    }

    /// A position as the log is to have it: behind left siblings, so that it keeps its meaning when others
    /// come and go. `without` is the position of a sibling that does not count.
    fn place(&self, parent: &Node, position: usize, without: Option<usize>) -> Place {
        if !self.draft.tree.is_addressable() {
            return Place::At(position);
        }
        let others = parent.len() - usize::from(without.is_some());
        if position == others {
            return Place::Last;
        }
        let end = position + usize::from(without.is_some_and(|own| own < position));
        let start = end.saturating_sub(ANCHORS + 1);
        let siblings = parent.children_at(start..end).enumerate();
        let counted = siblings.filter(|(index, _)| without != Some(start + index));
        let mut anchors: Vec<_> = counted.map(|(_, sibling)| sibling.id).collect();
        anchors.reverse();
        anchors.truncate(ANCHORS);
        if anchors.is_empty() { Place::First } else { Place::After(anchors) }
    }

    fn set(self, node: &Target, name: &str, value: Option<&[u8]>) -> Result<Self, EditError> {
        let (target, node) = self.find(node)?;
        let expect = Expect::Value(node.attribute(name).map(<[u8]>::to_vec));
        let (name, value) = (name.to_owned(), value.map(<[u8]>::to_vec));
        self.step(Edit::Put { node: target, name, value, expect })
    }

    fn made(
        mut self,
        parent: Target,
        place: Place,
        attributes: Attributes,
    ) -> Result<Self, EditError> {
        if self.made > NodeId::PER_COMMIT_MAX {
            return Err(EditError::TooMany);
        }
        let node = NodeId::pending(self.made);
        self.made += 1;
        self.step(Edit::Insert { node, parent, place, attributes })
    }

    fn step(mut self, edit: Edit) -> Result<Self, EditError> {
        match edit.apply(&mut self.draft) {
            Ok(()) => {}
            Err(crate::Refusal::Edit(error)) => return Err(error),
            Err(other) => unreachable!("an editor expects what it sees: {other}"),
        }
        Arc::make_mut(&mut self.edits).push(edit);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: the insertion beyond the last number of a transaction panicked.
    #[test]
    fn an_editor_makes_as_many_nodes_as_a_transaction_has_numbers() {
        let mut database = crate::Database::default();
        database.create_tree("main").unwrap();
        let editor = database.private().editor("main").unwrap();
        let editor = Editor { made: NodeId::PER_COMMIT_MAX, ..editor };
        let root = editor.tree().root().id();
        let none: [(&str, &[u8]); 0] = [];
        let editor = editor.append(root, none).unwrap();
        assert_eq!(editor.last_made(), Some(NodeId::pending(NodeId::PER_COMMIT_MAX)));
        assert_eq!(editor.append(root, none).unwrap_err(), EditError::TooMany);
    }
}
