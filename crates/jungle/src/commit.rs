//! The past must be asked by place: who changed this node, when, why. Each commit keeps, for each node that it
//! changed, the commit that changed it before; a log follows these and never looks at other commits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::node::NodeId;
use crate::sequence::{Item, Sequence};

/// A moment of the caller's clock [us since 1970].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// A change of one node by one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// An attribute was set.
    Put(Arc<str>),
    /// An attribute was taken out.
    Removed(Arc<str>),
    /// The node got another place.
    Moved,
    /// Children came, went or moved.
    Children,
    /// The node came back after it had been deleted, or came from a branch.
    Returned,
    /// The node was deleted, with all below it.
    Deleted,
    /// Its time was over: the node went, with all below it.
    Expired,
}

/// A node that a commit changed, at itself or below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The commit that had changed it before; 0 is none.
    pub(crate) previous: u64,
    /// The commits on merged branches that had changed it, ascending.
    pub(crate) merged: Box<[u64]>,
    /// The changes of the node itself.
    pub(crate) changes: Vec<Change>,
}

impl Touch {
    pub(crate) fn since(previous: u64) -> Self {
        Self { previous, merged: Box::default(), changes: Vec::new() }
    }

    /// Notes a commit of another line that came with a merge.
    pub(crate) fn merge(&mut self, commit: u64) {
        if let Err(at) = self.merged.binary_search(&commit) {
            let mut merged = std::mem::take(&mut self.merged).into_vec();
            merged.insert(at, commit);
            self.merged = merged.into();
        }
    }

    /// Tells whether a log that follows the touch of commit `seq` goes back, and so comes to an end.
    pub(crate) fn leads_back(&self, seq: u64) -> bool {
        self.previous < seq && self.merged.iter().all(|merged| *merged < seq)
    }
}

/// A commit: who, when, why, and what was touched. It outlives the version that it made.
#[derive(Clone, PartialEq, Eq)]
pub struct Commit {
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    pub(crate) author: Arc<str>,
    pub(crate) message: Arc<str>,
    pub(crate) attributes: Vec<(String, Vec<u8>)>,
    pub(crate) trees: Vec<Touched>,
    pub(crate) conflicts: u32,
}

/// The nodes of one tree that a commit touched, by ascending ids.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) tree: NodeId,
    pub(crate) name: Arc<str>,
    pub(crate) nodes: Vec<(NodeId, Touch)>,
}

/// The touched nodes of a tree in the making. Most commits touch few, for which a list allocates least.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touches {
    few: Vec<(NodeId, Touch)>,
    many: BTreeMap<NodeId, Touch>,
}

/// The most nodes of the list.
const FEW: usize = 16;

impl Touches {
    pub(crate) fn get(&self, id: NodeId) -> Option<&Touch> {
        let few = self.few.iter().find(|(own, _)| *own == id).map(|(_, touch)| touch);
        few.or_else(|| self.many.get(&id))
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Touch> {
        let few = self.few.iter_mut().find(|(own, _)| *own == id).map(|(_, touch)| touch);
        few.or_else(|| self.many.get_mut(&id))
    }

    /// Sets the touch of a node.
    pub(crate) fn insert(&mut self, id: NodeId, touch: Touch) {
        if let Some(own) = self.get_mut(id) {
            *own = touch;
        } else if self.many.is_empty() && self.few.len() < FEW {
            self.few.reserve_exact(1);
            self.few.push((id, touch));
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(id, touch);
        }
    }

    /// All, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Touch)> {
        let few = self.few.iter().map(|(id, touch)| (*id, touch));
        few.chain(self.many.iter().map(|(id, touch)| (*id, touch)))
    }

    /// The touch of a node that commit `previous` had changed before, unless it is known already.
    pub(crate) fn touch(&mut self, id: NodeId, previous: u64) -> &mut Touch {
        if self.get_mut(id).is_none() {
            self.insert(id, Touch::since(previous));
        }
        self.get_mut(id).expect("it was just put there")
    }

    /// All, by ascending ids.
    pub(crate) fn into_sorted(self) -> Vec<(NodeId, Touch)> {
        let mut all = self.few;
        all.reserve_exact(self.many.len());
        all.extend(self.many);
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }
}

impl Touched {
    fn get(&self, node: NodeId) -> Option<&Touch> {
        let at = self.nodes.binary_search_by_key(&node, |(id, _)| *id).ok()?;
        Some(&self.nodes[at].1)
    }

    pub(crate) fn of(tree: NodeId, name: &Arc<str>, nodes: Touches) -> Self {
        Self { tree, name: Arc::clone(name), nodes: nodes.into_sorted() }
    }
}

impl Commit {
    /// The number of the commit, from 1 without a gap.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The moment that the author's side gave it. It never runs backwards along the log.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The author, as the transaction named it.
    pub fn author(&self) -> &str {
        &self.author
    }

    /// The reason, as the transaction gave it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Free attributes of the commit.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.attributes.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The trees that it changed, by their names then.
    pub fn trees(&self) -> impl Iterator<Item = &str> {
        self.trees.iter().map(|touched| &*touched.name)
    }

    /// The number of conflicts that a merge in it decided by its policy.
    pub fn conflicts(&self) -> u32 {
        self.conflicts
    }

    /// The nodes that it changed themselves, with the changes. Nodes that it made are not listed; their ids
    /// name the commit.
    pub fn changes(&self) -> impl Iterator<Item = (&str, NodeId, &[Change])> {
        self.trees.iter().flat_map(|touched| {
            let changed = touched.nodes.iter().filter(|(_, touch)| !touch.changes.is_empty());
            changed.map(|(id, touch)| (&*touched.name, *id, &*touch.changes))
        })
    }

    /// The touch of a node: in this tree, or in the one that it was branched from.
    pub(crate) fn touch(&self, tree: NodeId, node: NodeId) -> Option<&Touch> {
        let any = || self.trees.iter().find_map(|touched| touched.get(node));
        self.touch_of(tree, node).or_else(any)
    }

    /// The touch of a node in this tree alone.
    pub(crate) fn touch_of(&self, tree: NodeId, node: NodeId) -> Option<&Touch> {
        self.trees.iter().find(|touched| touched.tree == tree)?.get(node)
    }

    /// The memory that the commit takes, roughly \[B\].
    pub(crate) fn bytes(&self) -> u64 {
        let text = self.author.len() + self.message.len();
        let attributes: usize = self.attributes.iter().map(|(n, v)| n.len() + v.len() + 48).sum();
        let change = |change: &Change| match change {
            Change::Put(name) | Change::Removed(name) => 40 + name.len(),
            _ => 24,
        };
        let touch = |(_, touch): &(NodeId, Touch)| {
            let changes: usize = touch.changes.iter().map(change).sum();
            size_of::<(NodeId, Touch)>() + 8 * touch.merged.len() + changes
        };
        let of = |one: &Touched| one.nodes.iter().map(touch).sum::<usize>();
        let touched: usize = self.trees.iter().map(|one| 64 + one.name.len() + of(one)).sum();
        (128 + text + attributes + touched) as u64
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commit {} by {:?}: {:?}", self.seq, &*self.author, &*self.message)
    }
}

/// The commits of one block.
const BLOCK: u64 = 32;

/// Commits in order, without a gap, persistent: the newest are copied with each commit, full blocks are not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    blocks: Sequence<Block>,
    newest: Arc<Vec<Arc<Commit>>>,
    /// The number of the first commit of the first block, and of the first that is remembered.
    start: u64,
    oldest: u64,
    /// The number behind the last. Of a version of the past there may be more, which are not shown.
    end: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Block(Arc<Vec<Arc<Commit>>>);

impl Item for Block {
    type Measure = ();

    fn measure(&self) {}

    fn join((): &(), (): &()) {}
}

impl Commits {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Commit> {
        if !(self.oldest..self.end).contains(&seq) {
            return None;
        }
        let (block, at) = ((seq - self.start) / BLOCK, (seq - self.start) % BLOCK);
        let block = self.blocks.get(block as usize).map_or(&self.newest, |block| &block.0);
        block.get(at as usize).map(|commit| &**commit)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Commit> {
        (self.oldest..self.end).map(|seq| self.get(seq).expect("there is no gap"))
    }

    /// The number of the first commit that is remembered.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn len(&self) -> u64 {
        self.end.saturating_sub(self.oldest)
    }

    /// The same commits up to `seq`. They share everything, so that a version of the past holds none that the newest
    /// does not.
    pub(crate) fn up_to(&self, seq: u64) -> Self {
        Self { end: self.end.min(seq + 1), ..self.clone() }
    }

    /// Lets go of what lies behind the end.
    fn cut(&mut self) {
        if self.start + self.blocks.len() as u64 * BLOCK + self.newest.len() as u64 == self.end {
            return;
        }
        while self.start + self.blocks.len() as u64 * BLOCK > self.end {
            let Block(newest) = self.blocks.remove(self.blocks.len() - 1);
            self.newest = newest;
        }
        let left = self.end - self.start - self.blocks.len() as u64 * BLOCK;
        self.newest = Arc::new(self.newest[..left as usize].to_vec());
        self.bytes = self.iter().map(Commit::bytes).sum();
    }

    /// Adds the next commit.
    ///
    /// # Panics
    /// If it is not the next.
    pub(crate) fn push(&mut self, commit: Commit) {
        if self.oldest < self.end {
            self.cut();
        } else {
            *self =
                Self { start: commit.seq, oldest: commit.seq, end: commit.seq, ..Self::default() };
        }
        assert_eq!(commit.seq, self.end, "commits have no gap");
        self.end += 1;
        self.bytes += commit.bytes();
        if Arc::get_mut(&mut self.newest).is_none() {
            let mut copy = Vec::with_capacity(self.newest.len() + 1);
            copy.extend(self.newest.iter().cloned());
            self.newest = Arc::new(copy);
        }
        let newest = Arc::get_mut(&mut self.newest).expect("nobody else holds it");
        newest.push(Arc::new(commit));
        if self.newest.len() as u64 == BLOCK {
            self.blocks.insert(self.blocks.len(), Block(std::mem::take(&mut self.newest)));
        }
    }

    /// Forgets the oldest beyond these bounds; the newest stays.
    pub(crate) fn forget(&mut self, commits: u64, bytes: u64) {
        while self.len() > 1 && (self.len() > commits || self.bytes > bytes) {
            self.bytes -= self.get(self.oldest).expect("it is remembered").bytes();
            self.oldest += 1;
            if self.oldest - self.start == BLOCK && !self.blocks.is_empty() {
                self.blocks.remove(0);
                self.start = self.oldest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(seq: u64) -> Commit {
        let none: Arc<str> = "".into();
        Commit {
            seq,
            time: Timestamp::default(),
            author: Arc::clone(&none),
            message: none,
            attributes: Vec::new(),
            trees: Vec::new(),
            conflicts: 0,
        }
    }

    #[test]
    fn touches_agree_with_a_map() {
        let (mut touches, mut model) = (Touches::default(), BTreeMap::new());
        for step in 0..60_u64 {
            let id = NodeId::new(1 + step * 7 % 31, 0);
            if step % 3 == 0 {
                touches.insert(id, Touch::since(step));
                model.insert(id, Touch::since(step));
            } else {
                touches.touch(id, step).merge(step);
                model.entry(id).or_insert_with(|| Touch::since(step)).merge(step);
            }
            assert_eq!(touches.get_mut(id), model.get_mut(&id));
        }
        assert!(touches.into_sorted().into_iter().eq(model));
    }

    #[test]
    fn commits_are_remembered_up_to_their_bounds() {
        for first in [1, 1_000] {
            let mut commits = Commits::default();
            for seq in first..first + 500 {
                commits.push(commit(seq));
                commits.forget(70, u64::MAX);
                let oldest = (seq + 1).saturating_sub(70).max(first);
                assert!(commits.iter().map(Commit::seq).eq(oldest..=seq), "at {seq}");
                assert_eq!(commits.get(seq).map(Commit::seq), Some(seq));
                assert!(commits.get(oldest - 1).is_none() && commits.get(seq + 1).is_none());
                assert_eq!(commits.bytes(), (seq + 1 - oldest) * commit(0).bytes());
            }
            commits.forget(70, 1);
            assert_eq!(commits.iter().count(), 1, "the newest stays");
        }
    }
}
