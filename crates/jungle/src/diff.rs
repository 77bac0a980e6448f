//! Versions that share almost everything must be compared in time by what they do not share: equal pointers
//! are passed over, whole chunks at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::node::{Node, NodeId};
use crate::sequence::Part;
use crate::tree::Tree;

/// A difference between two versions of a tree, or between a tree and its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A node that only the later version has. Nodes below it have entries of their own.
    Added {
        /// The node.
        node: NodeId,
        /// Its parent.
        parent: NodeId,
        /// Its position there.
        position: usize,
    },
    /// A node that only the earlier version has, with all below it that did not move away.
    Removed {
        /// The node.
        node: NodeId,
    },
    /// A node that has another place.
    Moved {
        /// The node.
        node: NodeId,
        /// Its later parent.
        parent: NodeId,
        /// Its later position there.
        position: usize,
    },
    /// An attribute of a node that both versions have.
    Attribute {
        /// The node.
        node: NodeId,
        /// The name of the attribute.
        name: String,
        /// The earlier value.
        before: Option<Vec<u8>>,
        /// The later value.
        after: Option<Vec<u8>>,
    },
}

/// The differences of two trees, as nodes.
#[derive(Debug, Default)]
pub(crate) struct Diff<'a> {
    /// Nodes in new places, parents before their children, siblings from left to right.
    pub(crate) placed: Vec<Placed<'a>>,
    /// Nodes that are gone, without those below them.
    pub(crate) removed: Vec<&'a Node>,
    /// Nodes whose attributes differ, before and after.
    pub(crate) changed: Vec<(&'a Node, &'a Node)>,
    /// Nodes of the later version that were looked at.
    pub(crate) walked: Vec<&'a Node>,
    /// The nodes and chunks that were looked at.
    pub(crate) visited: u64,
    /// Tells whether only a part of the trees is compared.
    is_part: bool,
    /// Nodes that have come into that part from elsewhere, or moved within it.
    strangers: Vec<NodeId>,
}

/// A node that was added or has moved, in its later place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) node: &'a Node,
    pub(crate) parent: &'a Node,
    pub(crate) position: usize,
    pub(crate) is_new: bool,
}

/// Two nodes of one id to be compared, or a node that only the later version has.
enum Task<'a> {
    Pair(&'a Node, &'a Node),
    New(&'a Node),
}

impl<'a> Diff<'a> {
    /// Compares two trees of one descent: versions, or branches of one tree.
    pub(crate) fn of(before: &'a Tree, after: &'a Tree) -> Self {
        let mut diff = Self::default();
        diff.run(before, after, vec![Task::Pair(&before.root, &after.root)]);
        diff
    }

    /// Compares a node and all below it with what it is in `after`, where it must be. What has come here from
    /// elsewhere is placed where `after` has it.
    pub(crate) fn of_subtree(before: &'a Tree, after: &'a Tree, node: &'a Node) -> Self {
        let mut diff = Self { is_part: true, ..Self::default() };
        let mut tasks = Vec::new();
        match (before.node(node.id), after.parent(node.id)) {
            (Some(old), parent) if before.parent(node.id) == parent => {
                tasks.push(Task::Pair(old, node));
            }
            (_, Some(parent)) => {
                let parent = after.node(parent).expect("it has a child");
                let position = parent.position(node.id).expect("it is its child");
                diff.place(before, node, parent, position, &mut tasks);
            }
            (_, None) => tasks.push(Task::Pair(&before.root, node)),
        }
        diff.run(before, after, tasks);
        // By now the parents inside of the part are placed, and those children of theirs that lie in it.
        while let Some(id) = diff.strangers.pop() {
            if diff.placed.iter().any(|placed| placed.node.id == id) {
                continue;
            }
            let node = after.node(id).expect("it is there");
            let parent = after.parent(id).and_then(|parent| after.node(parent));
            let parent = parent.expect("only the root is without");
            let position = parent.position(id).expect("it is its child");
            let mut tasks = Vec::new();
            diff.place(before, node, parent, position, &mut tasks);
            diff.run(before, after, tasks);
        }
        diff
    }

    fn run(&mut self, before: &'a Tree, after: &'a Tree, mut tasks: Vec<Task<'a>>) {
        let diff = self;
        while let Some(task) = tasks.pop() {
            diff.visited += 1;
            match task {
                Task::Pair(old, new) => {
                    if std::ptr::eq(old, new) {
                        continue;
                    }
                    diff.walked.push(new);
                    if old.attributes != new.attributes {
                        diff.changed.push((old, new));
                    }
                    if !old.children.same(&new.children) {
                        diff.children(before, after, old, new, &mut tasks);
                    }
                }
                Task::New(new) => {
                    diff.walked.push(new);
                    for (position, child) in new.children().enumerate() {
                        diff.place(before, child, new, position, &mut tasks);
                    }
                }
            }
        }
    }

    /// A node that came to its parent, from elsewhere in the tree or new.
    fn place(
        &mut self,
        before: &'a Tree,
        node: &'a Node,
        parent: &'a Node,
        position: usize,
        tasks: &mut Vec<Task<'a>>,
    ) {
        let old = if before.contains(node.id) { before.node(node.id) } else { None };
        self.placed.push(Placed { node, parent, position, is_new: old.is_none() });
        tasks.push(old.map_or(Task::New(node), |old| Task::Pair(old, node)));
    }

    fn children(
        &mut self,
        before: &'a Tree,
        after: &'a Tree,
        old: &'a Node,
        new: &'a Node,
        tasks: &mut Vec<Task<'a>>,
    ) {
        let (left, right) = old.children.beside(&new.children, &mut self.visited);
        let mut ranks = BTreeMap::new();
        let mut shared = BTreeMap::new();
        for (rank, part) in left.iter().enumerate() {
            match part {
                Part::Item(child) => drop(ranks.insert(child.id, (rank, *child))),
                Part::Shared(chunk, _) => drop(shared.insert(*chunk, rank)),
            }
        }
        let steady = steady(&right, &ranks, &shared);
        let mut here = BTreeSet::new();
        let mut position = 0;
        for part in &right {
            match part {
                Part::Shared(_, count) => position += count,
                Part::Item(child) => {
                    if let Some((_, was)) = ranks.get(&child.id) {
                        here.insert(child.id);
                        if !steady.contains(&child.id) {
                            let node = &***child;
                            self.placed.push(Placed { node, parent: new, position, is_new: false });
                            // It may be one that a move passed by, and the same in both.
                            self.walked.push(node);
                        }
                        if !Arc::ptr_eq(was, child) {
                            tasks.push(Task::Pair(was, child));
                        }
                    } else {
                        self.place(before, child, new, position, tasks);
                    }
                    position += 1;
                }
            }
        }
        for (id, (_, child)) in ranks {
            if here.contains(&id) {
                continue;
            }
            if !after.contains(id) {
                self.removed.push(child);
            } else if self.is_part {
                self.strangers.push(id);
            }
        }
    }

    /// The differences as values.
    pub(crate) fn list(&self) -> Vec<Difference> {
        let mut list = Vec::new();
        for Placed { node, parent, position, is_new } in self.placed.iter().copied() {
            let (node, parent) = (node.id, parent.id);
            list.push(if is_new {
                Difference::Added { node, parent, position }
            } else {
                Difference::Moved { node, parent, position }
            });
        }
        for (old, new) in &self.changed {
            for (name, before, after) in attributes(old, new) {
                list.push(Difference::Attribute {
                    node: new.id,
                    name: name.to_owned(),
                    before: before.map(<[u8]>::to_vec),
                    after: after.map(<[u8]>::to_vec),
                });
            }
        }
        list.extend(self.removed.iter().map(|node| Difference::Removed { node: node.id }));
        list
    }
}

/// An attribute with its earlier and later value.
type Values<'a> = (&'a str, Option<&'a [u8]>, Option<&'a [u8]>);

/// The attributes that differ.
pub(crate) fn attributes<'a>(old: &'a Node, new: &'a Node) -> Vec<Values<'a>> {
    let mut names: BTreeSet<&str> = old.attributes().map(|(name, _)| name).collect();
    names.extend(new.attributes().map(|(name, _)| name));
    let values = names.into_iter().map(|name| (name, old.attribute(name), new.attribute(name)));
    values.filter(|(_, before, after)| before != after).collect()
}

/// The children that kept their order among those that were there: the fewest others have moved. Chunks
/// that both versions share never change their order, so only what lies between two of them is ranked.
fn steady(
    right: &[Part<'_, Arc<Node>>],
    ranks: &BTreeMap<NodeId, (usize, &Arc<Node>)>,
    shared: &BTreeMap<*const crate::sequence::Chunk<Arc<Node>>, usize>,
) -> BTreeSet<NodeId> {
    let mut steady = BTreeSet::new();
    let mut between: Vec<(usize, NodeId)> = Vec::new();
    let mut low = None;
    let mut close = |between: &mut Vec<(usize, NodeId)>, low: Option<usize>, high: usize| {
        between.retain(|(rank, _)| low.is_none_or(|low| *rank > low) && *rank < high);
        steady.extend(longest_ascending(between));
        between.clear();
    };
    for part in right {
        match part {
            Part::Item(child) => {
                between.extend(ranks.get(&child.id).map(|(rank, _)| (*rank, child.id)));
            }
            Part::Shared(chunk, _) => {
                let rank = shared[chunk];
                close(&mut between, low, rank);
                low = Some(rank);
            }
        }
    }
    close(&mut between, low, usize::MAX);
    steady
}

/// The ids of a longest subsequence whose ranks ascend.
fn longest_ascending(list: &[(usize, NodeId)]) -> Vec<NodeId> {
    // By length - 1: the index of the smallest last rank of an ascending subsequence.
    let mut last: Vec<usize> = Vec::new();
    let mut before = vec![None; list.len()];
    for (index, (rank, _)) in list.iter().enumerate() {
        let length = last.partition_point(|at| list[*at].0 < *rank);
        before[index] = length.checked_sub(1).map(|shorter| last[shorter]);
        if length == last.len() {
            last.push(index);
        } else {
            last[length] = index;
        }
    }
    let mut ids = Vec::new();
    let mut at = last.last().copied();
    while let Some(index) = at {
        ids.push(list[index].1);
        at = before[index];
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_shuffled_list_the_fewest_have_moved() {
        let list = |ranks: &[usize]| {
            ranks.iter().map(|rank| (*rank, NodeId::new(*rank as u64, 0))).collect::<Vec<_>>()
        };
        let kept = |ranks: &[usize]| longest_ascending(&list(ranks)).len();
        assert_eq!(kept(&[]), 0);
        assert_eq!(kept(&[0, 1, 2, 3]), 4);
        assert_eq!(kept(&[3, 0, 1, 2]), 3);
        assert_eq!(kept(&[1, 2, 3, 0]), 3);
        assert_eq!(kept(&[3, 2, 1, 0]), 1);
        assert_eq!(kept(&[2, 0, 3, 1, 4]), 3);
    }
}
