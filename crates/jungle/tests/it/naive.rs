//! A tree as one would write it in an afternoon: maps and vectors, copied whole. The witness of the tests.

use std::collections::{BTreeMap, BTreeSet};

use jungle::{NodeId, Tree};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Naive {
    pub(crate) root: NodeId,
    pub(crate) nodes: BTreeMap<NodeId, NaiveNode>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NaiveNode {
    pub(crate) parent: Option<NodeId>,
    pub(crate) attributes: BTreeMap<String, Vec<u8>>,
    pub(crate) children: Vec<NodeId>,
}

impl Naive {
    pub(crate) fn new(root: NodeId) -> Self {
        Self { root, nodes: BTreeMap::from([(root, NaiveNode::default())]) }
    }

    /// All that a tree shows of itself.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut naive = Self::new(tree.root().id());
        for node in tree.root().walk() {
            let own = naive.nodes.entry(node.id()).or_default();
            own.attributes =
                node.attributes().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
            own.children = node.children().map(jungle::Node::id).collect();
            for child in node.children() {
                naive.nodes.entry(child.id()).or_default().parent = Some(node.id());
            }
        }
        naive
    }

    pub(crate) fn insert(&mut self, id: NodeId, parent: NodeId, position: usize) {
        self.nodes.insert(id, NaiveNode { parent: Some(parent), ..NaiveNode::default() });
        self.nodes.get_mut(&parent).expect("a parent").children.insert(position, id);
    }

    pub(crate) fn detach(&mut self, id: NodeId) {
        let parent = self.nodes[&id].parent.expect("not the root");
        self.nodes.get_mut(&parent).expect("a parent").children.retain(|child| *child != id);
    }

    pub(crate) fn delete(&mut self, id: NodeId) {
        self.detach(id);
        for gone in self.below(id) {
            self.nodes.remove(&gone);
        }
    }

    pub(crate) fn relocate(&mut self, id: NodeId, parent: NodeId, position: usize) {
        self.detach(id);
        self.nodes.get_mut(&id).expect("a node").parent = Some(parent);
        self.nodes.get_mut(&parent).expect("a parent").children.insert(position, id);
    }

    /// The node and all below it.
    pub(crate) fn below(&self, id: NodeId) -> BTreeSet<NodeId> {
        let mut below = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            below.insert(id);
            open.extend(&self.nodes[&id].children);
        }
        below
    }

    /// The same tree once pending ids have become those of a commit.
    pub(crate) fn settled(&self, commit: u64) -> Self {
        let settle = |id: NodeId| match id.commit() {
            None => NodeId::new(commit, id.index()),
            Some(_) => id,
        };
        let node = |node: &NaiveNode| NaiveNode {
            parent: node.parent.map(settle),
            attributes: node.attributes.clone(),
            children: node.children.iter().map(|child| settle(*child)).collect(),
        };
        Self {
            root: settle(self.root),
            nodes: self.nodes.iter().map(|(id, own)| (settle(*id), node(own))).collect(),
        }
    }

    /// Names and values, children and order, without ids.
    pub(crate) fn shape(&self) -> String {
        let mut shape = String::new();
        let mut open = vec![(self.root, 0)];
        while let Some((id, depth)) = open.pop() {
            let node = &self.nodes[&id];
            let values: Vec<_> = node
                .attributes
                .iter()
                .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
                .collect();
            shape += &format!("{}{}\n", " ".repeat(depth), values.join(" "));
            open.extend(node.children.iter().rev().map(|child| (*child, depth + 1)));
        }
        shape
    }
}
