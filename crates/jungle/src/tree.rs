//! One version of a tree, and a draft of the next: every rule about single edits is kept here, once, for
//! editors, transactions, merges and replay alike.

use std::ops::Bound;
use std::sync::Arc;

use crate::attributes::{Attributes, NAME_MAX, VALUE_MAX};
use crate::blob::{self, BLOB, BlobRef, Blobs};
use crate::commit::{Change, Timestamp, Touch, Touches};
use crate::expiry::{self, Deadlines, EXPIRES};
use crate::map::{Map, Pair};
use crate::merge::Rule;
use crate::node::{Node, NodeId};
use crate::path::NodePath;

/// The bytes of a value that an index orders by \[B\]. Longer values are found by them and then compared.
const INDEXED_MAX: usize = 512;

/// The left siblings that an insertion names: if so many are deleted at once beside it, it comes first.
pub(crate) const ANCHORS: usize = 8;

/// A version of a named tree. It never changes; an edit makes another that shares all but the edited path.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The identity of the tree, which survives a new name: the id of what created it.
    pub(crate) id: NodeId,
    pub(crate) root: Arc<Node>,
    pub(crate) nodes: u64,
    /// The parent of each node but the root; `None` for a tree without addresses by id.
    pub(crate) places: Option<Map<NodeId, NodeId>>,
    pub(crate) indexes: Map<Arc<str>, Index>,
    pub(crate) rules: Map<Arc<str>, Rule>,
    pub(crate) fork: Option<Arc<Fork>>,
    pub(crate) deadlines: Deadlines,
    pub(crate) blobs: Blobs,
}

/// The nodes of a tree by the value of one attribute.
pub(crate) type Index = Map<(Arc<[u8]>, NodeId), ()>;

/// The origin of a branch and the last state that both had.
#[derive(Debug)]
pub(crate) struct Fork {
    /// The identity of the tree that was branched.
    pub(crate) origin: NodeId,
    pub(crate) base: Tree,
}

/// Why one edit of a tree is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The node was deleted, or never was in this tree.
    #[error("node {0} is not in the tree; it was deleted, or it belongs to another tree")]
    NoSuchNode(NodeId),
    /// Nothing lies at the path.
    #[error("no node at {0}; read the tree again: paths shift when siblings come and go")]
    NoSuchPath(NodePath),
    /// A position beyond the last child.
    #[error(
        "position {position} of node {parent}, which has {children} children; use at most {children}"
    )]
    NoSuchPosition {
        /// The parent.
        parent: NodeId,
        /// The position that was asked for.
        position: usize,
        /// The number of its children.
        children: usize,
    },
    /// A tree without addresses by id was addressed by one.
    #[error(
        "the tree keeps no addresses by id; address nodes by their paths, or make an addressable tree"
    )]
    NotAddressable,
    /// The root can neither be moved nor deleted.
    #[error("the root can be neither moved nor deleted; drop the tree instead")]
    Root,
    /// A node cannot become its own descendant.
    #[error("node {node} cannot move below {parent}, which is itself or lies below it")]
    Cycle {
        /// The node to move.
        node: NodeId,
        /// Its new parent.
        parent: NodeId,
    },
    /// The id of a node that is to come is taken.
    #[error("node {0} is in the tree already")]
    Exists(NodeId),
    /// A name that is empty or too long.
    #[error("`{0}` is no name; a name has 1 to {NAME_MAX} bytes")]
    Name(String),
    /// A value that is too long.
    #[error("attribute `{name}` has {bytes} B; a value has at most {VALUE_MAX} B")]
    Value {
        /// The attribute.
        name: String,
        /// The length of the value \[B\].
        bytes: usize,
    },
    /// An attribute that is not there.
    #[error("node {node} has no attribute `{name}`")]
    NoSuchAttribute {
        /// The node.
        node: NodeId,
        /// The attribute.
        name: String,
    },
    /// An attribute without an index.
    #[error("no index of attribute `{0}`; make one first")]
    NoSuchIndex(String),
    /// More new nodes than a transaction has numbers.
    #[error(
        "a transaction makes at most {} nodes; commit, and go on with a new editor",
        u64::from(NodeId::PER_COMMIT_MAX) + 1
    )]
    TooMany,
    /// A deadline that the node cannot have.
    #[error("node {node} cannot have this deadline (`{EXPIRES}`): {cause}")]
    Deadline {
        /// The node.
        node: NodeId,
        /// The cause, and the way out.
        cause: &'static str,
    },
    /// A rule that would make of two deadlines, or of the names of two blobs, what is none.
    #[error("attribute `{0}` takes the rules conflict and last-in-log, and no other")]
    Rule(String),
    /// A value that names no blob where one stands.
    #[error(
        "attribute `{0}` names a blob: it takes a SHA-256 in hexadecimal digits, a space and a length"
    )]
    Blob(String),
    /// A second index of one attribute.
    #[error("attribute `{0}` has an index already")]
    IndexExists(String),
}

/// The address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By its identity, wherever it has moved.
    Node(NodeId),
    /// By its place in the tree at the moment when the transaction is applied.
    Path(NodePath),
}

impl From<NodeId> for Target {
    fn from(id: NodeId) -> Self {
        Self::Node(id)
    }
}

impl From<NodePath> for Target {
    fn from(path: NodePath) -> Self {
        Self::Path(path)
    }
}

impl From<&NodePath> for Target {
    fn from(path: &NodePath) -> Self {
        Self::Path(path.clone())
    }
}

/// A place among the children of a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
    /// At a position when the transaction is applied; what was there and behind moves up.
    At(usize),
    /// Behind the first of these that is a child of the parent then, or before all if none is. An insertion
    /// at a position becomes this when it is submitted: its left siblings, the nearest first.
    After(Vec<NodeId>),
}

impl Tree {
    pub(crate) fn new(id: NodeId, root: NodeId, changed: u64, addressable: bool) -> Self {
        Self {
            id,
            root: Arc::new(Node::new(root, changed, Attributes::default())),
            nodes: 1,
            places: addressable.then(Map::default),
            indexes: Map::default(),
            rules: Map::default(),
            fork: None,
            deadlines: Map::default(),
            blobs: Map::default(),
        }
    }

    /// The root.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The number of the newest commit that changed a node.
    pub fn changed(&self) -> u64 {
        self.root.changed
    }

    /// Tells whether nodes are found by their ids.
    pub fn is_addressable(&self) -> bool {
        self.places.is_some()
    }

    /// Tells whether the tree is a branch of another.
    pub fn is_branch(&self) -> bool {
        self.fork.is_some()
    }

    /// The attributes that have an index.
    pub fn indexed(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(|pair| &*pair.key)
    }

    /// The node at a path.
    pub fn at(&self, path: &NodePath) -> Option<&Node> {
        self.at_positions(path.positions())
    }

    pub(crate) fn at_positions(&self, positions: &[usize]) -> Option<&Node> {
        positions.iter().try_fold(&*self.root, |node, position| node.child(*position))
    }

    /// The node with an id; `None` as well if the tree is not addressable.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.chain(id).map(|chain| chain.last().copied().unwrap_or(&*self.root))
    }

    /// Tells whether the tree has a node; never if it is not addressable.
    pub fn contains(&self, id: NodeId) -> bool {
        let places = self.places.as_ref();
        places.is_some_and(|places| id == self.root.id || places.contains(&id))
    }

    /// The parent of a node that is not the root.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.places.as_ref()?.get(&id).copied()
    }

    /// The present place of a node.
    pub fn path_of(&self, id: NodeId) -> Option<NodePath> {
        self.positions(id).map(NodePath::from)
    }

    /// The ids from below the root down to a node, and the node itself last.
    fn line(&self, id: NodeId) -> Option<Vec<NodeId>> {
        let places = self.places.as_ref()?;
        let mut line = Vec::new();
        let mut at = id;
        while at != self.root.id {
            line.push(at);
            at = *places.get(&at)?;
        }
        line.reverse();
        Some(line)
    }

    fn chain(&self, id: NodeId) -> Option<Vec<&Node>> {
        let mut node = &*self.root;
        let chain = self.line(id)?.into_iter().map(|id| {
            let position = node.position(id).expect("places and children agree");
            node = node.child(position).expect("it was found there");
            node
        });
        Some(chain.collect())
    }

    pub(crate) fn positions(&self, id: NodeId) -> Option<Vec<usize>> {
        let mut node = &*self.root;
        let positions = self.line(id)?.into_iter().map(|id| {
            let position = node.position(id).expect("places and children agree");
            node = node.child(position).expect("it was found there");
            position
        });
        Some(positions.collect())
    }

    /// Tells whether `node` is `above` or lies below it.
    pub(crate) fn lies_below(&self, node: NodeId, above: NodeId) -> bool {
        let mut at = Some(node);
        while let Some(id) = at {
            if id == above {
                return true;
            }
            at = self.parent(id);
        }
        false
    }

    /// The nodes whose attribute has this value, by ascending ids: by the index if there is one, else by a
    /// walk over all nodes.
    pub fn find<'a>(
        &'a self,
        attribute: &'a str,
        value: &'a [u8],
    ) -> Box<dyn Iterator<Item = NodeId> + 'a> {
        let Some(index) = self.indexes.find(|own| (**own).cmp(attribute)) else {
            let has = move |node: &&Node| node.attribute(attribute) == Some(value);
            let mut found: Vec<_> = self.root.walk().filter(has).map(Node::id).collect();
            found.sort_unstable();
            return Box::new(found.into_iter());
        };
        let key = indexed(value);
        let start = (Arc::clone(&key), NodeId::from_bits(0));
        let pairs = index.from(Bound::Included(&start));
        let same = pairs.map(|pair| &pair.key).take_while(move |(own, _)| *own == key);
        // Only of a long value the index has a part.
        let whole = value.len() <= INDEXED_MAX;
        let is = move |id: &NodeId| {
            whole || self.node(*id).is_some_and(|node| node.attribute(attribute) == Some(value))
        };
        Box::new(same.map(|(_, id)| *id).filter(is))
    }

    /// The nodes that have an indexed attribute, ordered by the first 512 bytes of its value and then by id, from behind
    /// `after` on: a page ends with the cursor of the next.
    ///
    /// # Errors
    /// [`EditError::NoSuchIndex`].
    pub fn ordered<'a>(
        &'a self,
        attribute: &str,
        after: Option<(&[u8], NodeId)>,
    ) -> Result<impl Iterator<Item = (&'a [u8], NodeId)> + 'a, EditError> {
        let index = self.indexes.find(|own| (**own).cmp(attribute));
        let index = index.ok_or_else(|| EditError::NoSuchIndex(attribute.to_owned()))?;
        let cursor = after.map(|(value, id)| (indexed(value), id));
        let start = cursor.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(index.from(start).map(|pair| (&*pair.key.0, pair.key.1)))
    }

    /// The index of an attribute, built from all nodes.
    pub(crate) fn build_index(&self, attribute: &str) -> Index {
        let key = |node: &Node| Some((indexed(node.attribute(attribute)?), node.id));
        let mut keys: Vec<_> = self.root.walk().filter_map(key).collect();
        keys.sort_unstable();
        Map::from_ascending(keys.into_iter().map(|key| Pair { key, value: () }).collect())
    }

    /// Panics if the parts of the tree contradict each other. Takes time by the size of the tree.
    ///
    /// # Panics
    /// If places, indexes, counts or changes are not those of the nodes.
    pub fn assert_sound(&self) {
        let mut nodes = 0;
        for node in self.root.walk() {
            nodes += 1;
            for (position, child) in node.children().enumerate() {
                assert!(child.changed <= node.changed, "{child:?} changed after {node:?}");
                if self.places.is_some() {
                    assert_eq!(self.parent(child.id), Some(node.id), "the place of {child:?}");
                    assert_eq!(node.position(child.id), Some(position), "{child:?} is not found");
                }
            }
        }
        assert_eq!(self.nodes, nodes, "the number of nodes");
        if let Some(places) = &self.places {
            assert_eq!(places.len() as u64, nodes - 1, "places of nodes that are gone");
        }
        let keys = |of: &Deadlines| of.iter().map(|pair| pair.key).collect::<Vec<_>>();
        assert_eq!(keys(&self.deadlines), keys(&self.build_deadlines()), "the deadlines");
        let keys = |of: &Blobs| of.iter().map(|pair| (pair.key, pair.value)).collect::<Vec<_>>();
        assert_eq!(keys(&self.blobs), keys(&self.build_blobs()), "the blobs");
        for index in self.indexes.iter() {
            let (own, built) = (&index.value, self.build_index(&index.key));
            let keys =
                |index: &Index| index.iter().map(|pair| pair.key.clone()).collect::<Vec<_>>();
            assert_eq!(keys(own), keys(&built), "the index of `{}`", index.key);
        }
    }
}

fn indexed(value: &[u8]) -> Arc<[u8]> {
    value[..value.len().min(INDEXED_MAX)].into()
}

/// A tree in the making. What it shares with others it copies before it changes it, once; a draft that is
/// dropped has changed nothing.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) tree: Tree,
    /// The number of the commit in the making.
    pub(crate) seq: u64,
    /// The nodes that were there before and have changed.
    pub(crate) touched: Touches,
}

impl Draft {
    pub(crate) fn new(tree: Tree, seq: u64) -> Self {
        Self { tree, seq, touched: Touches::default() }
    }

    pub(crate) fn resolve(&self, target: &Target) -> Result<Vec<usize>, EditError> {
        match target {
            Target::Node(_) if self.tree.places.is_none() => Err(EditError::NotAddressable),
            Target::Node(id) => {
                let id = id.settle(self.seq);
                self.tree.positions(id).ok_or(EditError::NoSuchNode(id))
            }
            Target::Path(path) => match self.tree.at(path) {
                Some(_) => Ok(path.positions().to_vec()),
                None => Err(EditError::NoSuchPath(path.clone())),
            },
        }
    }

    /// The node at positions that are there, with all on the way marked as changed.
    fn descend(&mut self, positions: &[usize]) -> &mut Node {
        let (seq, touched) = (self.seq, &mut self.touched);
        let mut touch = |node: &mut Node| {
            if node.changed < seq {
                touched.touch(node.id, node.changed);
                node.changed = seq;
            }
        };
        let mut node = Arc::make_mut(&mut self.tree.root);
        touch(node);
        for position in positions {
            let child = node
                .children
                .get_mut(*position, |reach| reach.changed = reach.changed.max(seq))
                .expect("positions were resolved in this tree");
            node = Arc::make_mut(child);
            touch(node);
        }
        node
    }

    fn note(&mut self, id: NodeId, change: Change) {
        if let Some(touch) = self.touched.get_mut(id)
            && !touch.changes.contains(&change)
        {
            touch.changes.reserve_exact(1);
            touch.changes.push(change);
        }
    }

    /// The position that a place is among the children of a node.
    fn position(&self, parent: &[usize], place: &Place) -> Result<usize, EditError> {
        let node = self.tree.at_positions(parent).expect("it was resolved");
        match place {
            Place::First => Ok(0),
            Place::Last => Ok(node.len()),
            Place::At(position) if *position <= node.len() => Ok(*position),
            Place::At(position) => Err(EditError::NoSuchPosition {
                parent: node.id,
                position: *position,
                children: node.len(),
            }),
            Place::After(siblings) => {
                let found =
                    siblings.iter().find_map(|sibling| node.position(sibling.settle(self.seq)));
                Ok(found.map_or(0, |position| position + 1))
            }
        }
    }

    /// Inserts a node, new or come back.
    pub(crate) fn insert(
        &mut self,
        id: NodeId,
        parent: &Target,
        place: &Place,
        attributes: Attributes,
    ) -> Result<(), EditError> {
        let id = id.settle(self.seq);
        // Without addresses nobody knows whether a node that comes back has come already.
        if self.tree.places.is_none() && id.commit().is_some_and(|commit| commit < self.seq) {
            return Err(EditError::NotAddressable);
        }
        let parent = self.resolve(parent)?;
        let position = self.position(&parent, place)?;
        if self.tree.contains(id) {
            return Err(EditError::Exists(id));
        }
        attributes.iter().try_for_each(|(name, value)| fits(name, value))?;
        attributes.iter().try_for_each(|(name, value)| fits_blob(name, Some(value)))?;
        let deadline = attributes.get(EXPIRES);
        deadline.map_or(Ok(()), |value| expiry::fits(&self.tree, id, value))?;
        let seq = self.seq;
        self.index_all(id, &attributes, Indexing::Add);
        let node = self.descend(&parent);
        let parent = node.id;
        node.children.insert(position, Arc::new(Node::new(id, seq, attributes)));
        if let Some(places) = &mut self.tree.places {
            places.insert(id, parent);
        }
        self.tree.nodes += 1;
        self.note(parent, Change::Children);
        if id.commit().is_some_and(|commit| commit < seq) {
            // Only its log knows when it went, unless this commit took it away; 0 has the log look for it.
            let mut touch = self.touched.get(id).cloned().unwrap_or_else(|| Touch::since(0));
            touch.changes.push(Change::Returned);
            self.touched.insert(id, touch);
        }
        Ok(())
    }

    /// Sets an attribute, or with `None` takes it out.
    pub(crate) fn put(
        &mut self,
        node: &Target,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<(), EditError> {
        fits(name, value.unwrap_or_default())?;
        fits_blob(name, value)?;
        let positions = self.resolve(node)?;
        let before = self.tree.at_positions(&positions).expect("it was resolved");
        let id = before.id;
        if value.is_none() && before.attribute(name).is_none() {
            return Err(EditError::NoSuchAttribute { node: id, name: name.to_owned() });
        }
        if name == EXPIRES {
            value.map_or(Ok(()), |value| expiry::fits(&self.tree, id, value))?;
            let old = before.expires();
            self.expires(id, old, value.and_then(expiry::deadline));
        }
        if name.starts_with(BLOB) {
            let before = self.tree.at_positions(&positions).expect("it was resolved");
            let old = before.attribute(name).and_then(BlobRef::of);
            self.names(old, Indexing::Remove);
            self.names(value.and_then(BlobRef::of), Indexing::Add);
        }
        let before = self.tree.at_positions(&positions).expect("it was resolved");
        if let Some(index) = self.tree.indexes.find(|own| (**own).cmp(name)) {
            let mut index = index.clone();
            if let Some(old) = before.attribute(name) {
                index.remove(&(indexed(old), id));
            }
            if let Some(new) = value {
                index.insert((indexed(new), id), ());
            }
            self.tree.indexes.insert(name.into(), index);
        }
        self.descend(&positions).attributes.set(name, value);
        let name = name.into();
        self.note(id, if value.is_some() { Change::Put(name) } else { Change::Removed(name) });
        Ok(())
    }

    /// Counts a name of a blob that came or went.
    fn names(&mut self, blob: Option<BlobRef>, indexing: Indexing) {
        let Some(BlobRef { id, .. }) = blob else { return };
        let count = self.tree.blobs.get(&id).copied().unwrap_or(0);
        match (indexing, count) {
            (Indexing::Add, _) => drop(self.tree.blobs.insert(id, count + 1)),
            (Indexing::Remove, 1) => drop(self.tree.blobs.remove(&id)),
            (Indexing::Remove, _) => drop(self.tree.blobs.insert(id, count - 1)),
        }
    }

    /// Gives a node another deadline in the order of deadlines.
    fn expires(&mut self, id: NodeId, old: Option<Timestamp>, new: Option<Timestamp>) {
        old.map(|at| self.tree.deadlines.remove(&(at, id)));
        new.map(|at| self.tree.deadlines.insert((at, id), ()));
    }

    /// Deletes nodes whose deadline is not behind a moment, the earliest first, until so many nodes are gone; their
    /// number.
    pub(crate) fn expire(&mut self, now: Timestamp, nodes_max: usize) -> usize {
        let mut gone = 0;
        while gone < nodes_max
            && let Some((at, id)) = self.tree.deadlines.iter().next().map(|pair| pair.key)
            && at <= now
        {
            let taken = self.take(&Target::Node(id), Change::Expired);
            gone += taken.expect("a node with a deadline is there, and is no root").len();
        }
        gone
    }

    /// Deletes a node and all below it; the ids that are gone.
    pub(crate) fn delete(&mut self, node: &Target) -> Result<Vec<NodeId>, EditError> {
        self.take(node, Change::Deleted)
    }

    fn take(&mut self, node: &Target, why: Change) -> Result<Vec<NodeId>, EditError> {
        let positions = self.resolve(node)?;
        let Some((position, parent)) = positions.split_last() else { return Err(EditError::Root) };
        let node = self.descend(parent);
        let parent = node.id;
        let gone = node.children.remove(*position);
        self.note(parent, Change::Children);
        // A node that this very commit made leaves no trace.
        if gone.id.settle(self.seq).commit() != Some(self.seq) {
            let since = if gone.changed < self.seq { gone.changed } else { 0 };
            self.touched.touch(gone.id, since);
            self.note(gone.id, why);
        }
        let mut ids = Vec::new();
        for node in gone.walk() {
            if let Some(places) = &mut self.tree.places {
                places.remove(&node.id);
            }
            self.index_all(node.id, &node.attributes, Indexing::Remove);
            ids.push(node.id);
        }
        self.tree.nodes -= ids.len() as u64;
        Ok(ids)
    }

    /// Moves a node with all below it. A position among its own siblings counts without it.
    pub(crate) fn relocate(
        &mut self,
        node: &Target,
        parent: &Target,
        place: &Place,
    ) -> Result<(), EditError> {
        let (from, mut to) = (self.resolve(node)?, self.resolve(parent)?);
        let Some((position, old)) = from.split_last() else { return Err(EditError::Root) };
        let id = |positions| self.tree.at_positions(positions).expect("it was resolved").id;
        let (id, new_parent) = (id(&from), id(&to));
        if to.starts_with(&from) {
            return Err(EditError::Cycle { node: id, parent: new_parent });
        }
        if let Place::At(at) = place {
            let children = self.tree.at_positions(&to).expect("it was resolved").len();
            let children = children - usize::from(old == to);
            if *at > children {
                let position = *at;
                return Err(EditError::NoSuchPosition { parent: new_parent, position, children });
            }
        }
        self.descend(&from);
        self.note(id, Change::Moved);
        let source = self.descend(old);
        let old_parent = source.id;
        let moved = source.children.remove(*position);
        // The way to the new parent may have led past the place that is now closed.
        if to.len() > old.len() && to.starts_with(old) && to[old.len()] > *position {
            to[old.len()] -= 1;
        }
        let at = self.position(&to, place)?;
        self.descend(&to).children.insert(at, moved);
        if let Some(places) = &mut self.tree.places {
            places.insert(id, new_parent);
        }
        self.note(old_parent, Change::Children);
        self.note(new_parent, Change::Children);
        Ok(())
    }

    pub(crate) fn make_index(&mut self, attribute: &str) -> Result<(), EditError> {
        fits(attribute, &[])?;
        let name: Arc<str> = attribute.into();
        if self.tree.indexes.contains(&name) {
            return Err(EditError::IndexExists(attribute.to_owned()));
        }
        let index = self.tree.build_index(attribute);
        self.tree.indexes.insert(name, index);
        Ok(())
    }

    pub(crate) fn set_rule(&mut self, attribute: &str, rule: Rule) -> Result<(), EditError> {
        fits(attribute, &[])?;
        let is_other = attribute == EXPIRES || attribute.starts_with(BLOB);
        if is_other && matches!(rule, Rule::Counter | Rule::Union) {
            return Err(EditError::Rule(attribute.to_owned()));
        }
        self.tree.rules.insert(attribute.into(), rule);
        Ok(())
    }

    pub(crate) fn drop_index(&mut self, attribute: &str) -> Result<(), EditError> {
        let gone = self.tree.indexes.remove(&Arc::from(attribute));
        gone.map(drop).ok_or_else(|| EditError::NoSuchIndex(attribute.to_owned()))
    }

    /// Notes that a merge brought changes of a node that another line of commits had made.
    pub(crate) fn note_merged(&mut self, id: NodeId, commit: u64) {
        assert!(commit < self.seq, "commit {commit} of {id} is not before {}", self.seq);
        if let Some(touch) = self.touched.get_mut(id) {
            touch.merge(commit);
        }
    }

    /// Notes that a merge brought what this very commit changed in another draft: the commits before it there
    /// are followed instead.
    pub(crate) fn note_fresh(&mut self, nodes: &[NodeId], theirs: &Self) {
        for id in nodes {
            let Some(touch) = theirs.touched.get(*id) else { continue };
            for commit in touch.merged.iter().chain(&[touch.previous]).filter(|commit| **commit > 0)
            {
                self.note_merged(*id, *commit);
            }
        }
    }

    /// Gives a node the newest change that it has where it is loaded from.
    pub(crate) fn set_changed(&mut self, id: NodeId, changed: u64) -> Result<(), EditError> {
        let positions = self.resolve(&Target::Node(id))?;
        let mut node = Arc::make_mut(&mut self.tree.root);
        for position in positions {
            let child = node.children.get_mut(position, |reach| {
                reach.changed = reach.changed.max(changed);
            });
            node = Arc::make_mut(child.expect("it was resolved"));
        }
        node.changed = changed;
        Ok(())
    }

    fn index_all(&mut self, id: NodeId, attributes: &Attributes, indexing: Indexing) {
        let may_expire = matches!(indexing, Indexing::Add) || !self.tree.deadlines.is_empty();
        if may_expire && let Some(at) = attributes.get(EXPIRES).and_then(expiry::deadline) {
            match indexing {
                Indexing::Add => self.expires(id, None, Some(at)),
                Indexing::Remove => self.expires(id, Some(at), None),
            }
        }
        if matches!(indexing, Indexing::Add) || !self.tree.blobs.is_empty() {
            let blobs = attributes.iter().filter_map(|(name, value)| blob::named(name, value));
            blobs.for_each(|blob| self.names(Some(blob), indexing));
        }
        if self.tree.indexes.is_empty() {
            return;
        }
        for (name, value) in attributes.iter() {
            let name: Arc<str> = name.into();
            let Some(index) = self.tree.indexes.get(&name) else { continue };
            let mut index = index.clone();
            match indexing {
                Indexing::Add => index.insert((indexed(value), id), ()),
                Indexing::Remove => index.remove(&(indexed(value), id)),
            };
            self.tree.indexes.insert(name, index);
        }
    }
}

#[derive(Clone, Copy)]
enum Indexing {
    Add,
    Remove,
}

fn fits_blob(name: &str, value: Option<&[u8]>) -> Result<(), EditError> {
    let is_wrong = |value| name.starts_with(BLOB) && BlobRef::of(value).is_none();
    if name == BLOB || value.is_some_and(is_wrong) {
        return Err(EditError::Blob(name.to_owned()));
    }
    Ok(())
}

fn fits(name: &str, value: &[u8]) -> Result<(), EditError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(EditError::Name(name.chars().take(40).collect()));
    }
    if value.len() > VALUE_MAX {
        return Err(EditError::Value { name: name.to_owned(), bytes: value.len() });
    }
    Ok(())
}
