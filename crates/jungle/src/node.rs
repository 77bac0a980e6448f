//! A node must stay small and be cheap to copy, because every edit copies those on its path: an id, the
//! newest change at or below it, packed attributes and shared children.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::attributes::Attributes;
use crate::sequence::{Item, Iter, Sequence};

/// The bits of an id that number the nodes of one transaction.
const INDEX_BITS: u32 = 24;

/// The identity of a node: the commit that made it and its number among the nodes made there. It stays
/// when the node moves, and is the same wherever the log is replayed. Ids ascend with commits.
///
/// Written as `COMMIT.INDEX`, such as `17.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u64);

impl NodeId {
    /// The highest number of a node in one transaction.
    pub const PER_COMMIT_MAX: u32 = (1 << INDEX_BITS) - 1;
    /// The last commit that ids can name.
    pub const COMMIT_MAX: u64 = (1 << (64 - INDEX_BITS)) - 2;
    /// Stands for the commit that is not known yet.
    pub(crate) const PENDING: u64 = Self::COMMIT_MAX + 1;

    /// The node with number `index` of a commit.
    ///
    /// # Panics
    /// If `commit` is beyond [`NodeId::COMMIT_MAX`] or `index` beyond [`NodeId::PER_COMMIT_MAX`].
    pub fn new(commit: u64, index: u32) -> Self {
        assert!(commit <= Self::COMMIT_MAX && index <= Self::PER_COMMIT_MAX, "{commit}.{index}");
        Self(commit << INDEX_BITS | u64::from(index))
    }

    /// The node with number `index` of the transaction that this id stands in.
    ///
    /// # Panics
    /// If `index` is beyond [`NodeId::PER_COMMIT_MAX`].
    pub fn pending(index: u32) -> Self {
        assert!(index <= Self::PER_COMMIT_MAX, "{index} nodes in one transaction");
        Self(Self::PENDING << INDEX_BITS | u64::from(index))
    }

    /// The commit that made the node; `None` while it is pending.
    pub fn commit(self) -> Option<u64> {
        Some(self.0 >> INDEX_BITS).filter(|commit| *commit != Self::PENDING)
    }

    /// The number among the nodes of its commit.
    pub fn index(self) -> u32 {
        (self.0 & u64::from(Self::PER_COMMIT_MAX)) as u32
    }

    /// The same id once its commit is known, which it never is for an editor's own tree.
    pub(crate) fn settle(self, commit: u64) -> Self {
        if self.commit().is_none() && commit != Self::PENDING {
            Self::new(commit, self.index())
        } else {
            self
        }
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.commit() {
            Some(commit) => write!(f, "{commit}.{}", self.index()),
            None => write!(f, "new.{}", self.index()),
        }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no [`NodeId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id of a node; write COMMIT.INDEX, such as 17.0")]
pub struct NodeIdError(String);

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        let parsed = text.split_once('.').and_then(|(commit, index)| {
            let commit = commit.parse().ok().filter(|commit| *commit <= Self::COMMIT_MAX)?;
            let index = index.parse().ok().filter(|index| *index <= Self::PER_COMMIT_MAX)?;
            Some(Self::new(commit, index))
        });
        parsed.ok_or_else(|| NodeIdError(text.to_owned()))
    }
}

/// A node of one version of a tree. It never changes.
#[derive(Clone)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) changed: u64,
    pub(crate) attributes: Attributes,
    pub(crate) children: Sequence<Arc<Node>>,
}

/// The newest change and the oldest id below an entry of children.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    pub(crate) changed: u64,
    pub(crate) oldest: NodeId,
}

impl Item for Arc<Node> {
    type Measure = Reach;

    fn measure(&self) -> Reach {
        Reach { changed: self.changed, oldest: self.id }
    }

    fn join(left: &Reach, right: &Reach) -> Reach {
        Reach { changed: left.changed.max(right.changed), oldest: left.oldest.min(right.oldest) }
    }
}

impl Node {
    pub(crate) fn new(id: NodeId, changed: u64, attributes: Attributes) -> Self {
        Self { id, changed, attributes, children: Sequence::default() }
    }

    /// The identity of the node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The number of the newest commit that changed this node or one below it.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.attributes.get(name)
    }

    /// The attributes, ordered by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.attributes.iter()
    }

    /// The number of children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Tells whether the node has no children.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The child at a position.
    pub fn child(&self, position: usize) -> Option<&Node> {
        self.children.get(position).map(|child| &**child)
    }

    /// The children in order.
    pub fn children(&self) -> Children<'_> {
        self.children_at(0..self.len())
    }

    /// The children at these positions, in time by their number; positions beyond the last have none.
    pub fn children_at(&self, positions: std::ops::Range<usize>) -> Children<'_> {
        Children { nodes: self.children.range(positions) }
    }

    /// This node and all below it, each before its children. A tree of any depth is walked.
    pub fn walk(&self) -> Walk<'_> {
        Walk { own: Some(self), open: Vec::new() }
    }

    /// The position of a child. Chunks that cannot hold the id are passed over: in a list that grew at
    /// one end one short path is searched, in a list that was shuffled up to all of it.
    pub(crate) fn position(&self, id: NodeId) -> Option<usize> {
        let commit = id.0 >> INDEX_BITS;
        let may = |reach: &Reach| reach.oldest <= id && reach.changed >= commit;
        self.children.find_last(&may, &|child| child.id == id)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("changed", &self.changed)
            .field("attributes", &self.attributes)
            .field("children", &self.children.len())
            .finish()
    }
}

/// Freed level by level: a tree of depth 10^6 must not take as many frames of the stack.
impl Drop for Node {
    fn drop(&mut self) {
        if self.children.is_empty() {
            return;
        }
        let mut pending = vec![std::mem::take(&mut self.children)];
        while let Some(children) = pending.pop() {
            children.consume(&mut |child| {
                if let Some(mut child) = Arc::into_inner(child)
                    && !child.children.is_empty()
                {
                    pending.push(std::mem::take(&mut child.children));
                }
            });
        }
    }
}

/// Children in order.
#[derive(Debug)]
pub struct Children<'a> {
    nodes: Iter<'a, Arc<Node>>,
}

impl<'a> Iterator for Children<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        self.nodes.next().map(|child| &**child)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.nodes.size_hint()
    }
}

impl ExactSizeIterator for Children<'_> {}

/// Nodes, each before its children.
#[derive(Debug)]
pub struct Walk<'a> {
    own: Option<&'a Node>,
    open: Vec<Iter<'a, Arc<Node>>>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let node = match self.own.take() {
            Some(node) => node,
            None => loop {
                match self.open.last_mut()?.next() {
                    Some(child) => break child,
                    None => drop(self.open.pop()),
                }
            },
        };
        if !node.children.is_empty() {
            self.open.push(node.children.iter());
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_with_commits_and_are_read_back() {
        let ids = [NodeId::new(0, 5), NodeId::new(1, 0), NodeId::new(1, 1), NodeId::pending(0)];
        assert!(ids.is_sorted());
        assert_eq!("1.1".parse(), Ok(ids[2]));
        assert_eq!(ids[3].settle(7), NodeId::new(7, 0));
        for wrong in ["", "1", "1.x", "new.0", "1.16777216", "1099511627775.0"] {
            assert!(wrong.parse::<NodeId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_node_is_small() {
        assert_eq!(size_of::<Node>(), 40);
    }
}
