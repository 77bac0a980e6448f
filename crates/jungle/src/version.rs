//! The whole database at one moment: what readers hold, and what a transaction makes the next of, by rules
//! that look at nothing but the two.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::commit::{Commit, Commits, Timestamp, Touched};
use crate::diff::{Diff, Difference};
use crate::expiry::EXPIRED_MAX;
use crate::history::{Blame, Log};
use crate::map::Map;
use crate::merge::{self, Conflict, Policy};
use crate::node::{Node, NodeId};
use crate::operation::{Operation, Precondition, Refusal, Transaction};
use crate::tree::{Draft, EditError, Fork, Tree};

/// The most bytes of a tree's name \[B\].
const TREE_NAME_MAX: usize = 255;

/// A version of a database. It never changes; cloning it costs a few counts.
#[derive(Clone, Debug, Default)]
pub struct Version {
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    pub(crate) trees: Map<Arc<str>, Arc<Tree>>,
    pub(crate) commits: Commits,
    /// Trees that have a node with a deadline, by the earliest of them.
    pub(crate) due: Map<(Timestamp, Arc<str>), ()>,
}

/// Bounds of what a database keeps of commits whose versions are gone. The same at every replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The most commits. Kept versions of the past together hold at most an eighth more.
    pub commits: u64,
    /// The most bytes of commits \[B\], their names counted.
    pub bytes: u64,
}

impl Default for Retention {
    /// A million commits in at most 256 MiB.
    fn default() -> Self {
        Self { commits: 1_000_000, bytes: 256 << 20 }
    }
}

/// A transaction that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of its commit.
    pub seq: u64,
    /// Conflicts that the policy of a merge decided.
    pub conflicts: Vec<Conflict>,
}

/// Why a transaction takes no effect. Nothing of it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// No tree has the name.
    #[error("no tree `{0}`; list the trees, or create it")]
    NoSuchTree(String),
    /// A tree has the name already.
    #[error("tree `{0}` exists already; take another name, or drop it first")]
    TreeExists(String),
    /// A name that is empty or too long.
    #[error("`{0}` is no name of a tree; a name has 1 to {TREE_NAME_MAX} bytes")]
    TreeName(String),
    /// An edit failed.
    #[error("operation {operation} on tree `{tree}`: {cause}")]
    Edit {
        /// The number of the operation in the transaction, from 0.
        operation: usize,
        /// The tree.
        tree: String,
        /// The cause.
        cause: Refusal,
    },
    /// Somebody else changed what was to be unchanged.
    #[error(
        "tree `{tree}` was changed by commit {changed}, after {since}; read it again and retry"
    )]
    Stale {
        /// The tree.
        tree: String,
        /// The newest commit that the precondition allows.
        since: u64,
        /// The newest commit there.
        changed: u64,
    },
    /// A merge met conflicts and may decide none.
    #[error("merging `{from}` into `{into}` meets {} conflicts: {}; decide them, or merge for one side",
        .conflicts.len(), told(.conflicts))]
    Conflicts {
        /// The tree whose changes are brought.
        from: String,
        /// The tree that was to be changed.
        into: String,
        /// All conflicts.
        conflicts: Vec<Conflict>,
    },
    /// Two trees without a common state.
    #[error(
        "neither of `{from}` and `{into}` is a branch of the other; merge by way of their origin"
    )]
    NotABranch {
        /// The tree whose changes were to be brought.
        from: String,
        /// The tree that was to be changed.
        into: String,
    },
    /// Ids of new nodes that do not ascend, or name a commit to come; of a new tree one that is not new.
    #[error(
        "operation {operation} makes node {node}; new nodes of a transaction are numbered upwards, and a tree is new"
    )]
    Id {
        /// The number of the operation in the transaction, from 0.
        operation: usize,
        /// The id.
        node: NodeId,
    },
    /// A tick where no deadline has come.
    #[error("no node of tree `{0}` is due; a tick is needed only then")]
    NothingDue(String),
    /// Ids have no room for another commit.
    #[error(
        "the database has made its last commit, {}; export it into a new one",
        NodeId::COMMIT_MAX
    )]
    Full,
}

fn number(hash: &mut Sha256, number: u64) {
    hash.update(number.to_le_bytes());
}

fn text(hash: &mut Sha256, text: &[u8]) {
    number(hash, text.len() as u64);
    hash.update(text);
}

/// The hash of a node and all below it. Nodes with children are remembered by their addresses, so that what
/// versions share is walked once; all of them are held while the map is used.
fn hash_of(root: &Node, known: &mut BTreeMap<*const Node, [u8; 32]>) -> [u8; 32] {
    let begin = |node: &Node| {
        let mut hash = Sha256::new();
        for part in [node.id().to_bits(), node.changed(), node.len() as u64] {
            number(&mut hash, part);
        }
        number(&mut hash, node.attributes().count() as u64);
        for (name, value) in node.attributes() {
            text(&mut hash, name.as_bytes());
            text(&mut hash, value);
        }
        hash
    };
    if let Some(hash) = known.get(&std::ptr::from_ref(root)) {
        return *hash;
    }
    let mut open = vec![(root, begin(root), root.children())];
    loop {
        let (_, hash, children) = open.last_mut().expect("the root is closed last");
        if let Some(child) = children.next() {
            if child.is_empty() {
                hash.update(begin(child).finalize());
            } else if let Some(known) = known.get(&std::ptr::from_ref(child)) {
                hash.update(known);
            } else {
                open.push((child, begin(child), child.children()));
            }
            continue;
        }
        let (node, hash, _) = open.pop().expect("it was looked at");
        let hash: [u8; 32] = hash.finalize().into();
        known.insert(std::ptr::from_ref(node), hash);
        match open.last_mut() {
            Some((_, parent, _)) => parent.update(hash),
            None => return hash,
        }
    }
}

fn told(conflicts: &[Conflict]) -> String {
    let first: Vec<String> = conflicts.iter().take(3).map(Conflict::to_string).collect();
    first.join("; ") + if conflicts.len() > 3 { "; ..." } else { "" }
}

impl Version {
    /// The number of the newest commit; 0 is the empty database.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The time of the newest commit.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The names of all trees, in order.
    pub fn trees(&self) -> impl Iterator<Item = &str> {
        self.trees.iter().map(|pair| &*pair.key)
    }

    /// The tree with a name.
    pub fn tree(&self, name: &str) -> Option<&Tree> {
        self.trees.find(|own| (**own).cmp(name)).map(|tree| &**tree)
    }

    /// The tree that a branch was made from, by its present name.
    pub fn origin(&self, branch: &str) -> Option<&str> {
        let origin = self.tree(branch)?.fork.as_ref()?.origin;
        self.trees.iter().find(|pair| pair.value.id == origin).map(|pair| &*pair.key)
    }

    /// The earliest deadline of a node of any tree.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.due.iter().next().map(|pair| pair.key.0)
    }

    /// The trees that have a node whose deadline is not behind a moment, the earliest first.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let due = self.due.iter().map(|pair| &pair.key);
        due.take_while(move |(at, _)| *at <= now).map(|(_, tree)| &**tree)
    }

    /// A commit; `None` if there is none yet, or it was forgotten.
    pub fn commit(&self, seq: u64) -> Option<&Commit> {
        self.commits.get(seq)
    }

    /// The oldest commit that is remembered.
    pub fn oldest_commit(&self) -> Option<u64> {
        (self.commits.len() > 0).then(|| self.commits.oldest())
    }

    /// The memory that remembered commits take, roughly \[B\].
    pub fn commit_bytes(&self) -> u64 {
        self.commits.bytes()
    }

    /// The commits that changed a node or one below it, newest first, in time by their number.
    pub fn log(&self, tree: &str, node: NodeId) -> Option<Log<'_>> {
        let tree = self.tree(tree)?;
        Some(Log::of(self, tree.id, tree.node(node)?))
    }

    /// The same for the node at a path.
    pub fn log_at(&self, tree: &str, path: &crate::NodePath) -> Option<Log<'_>> {
        let tree = self.tree(tree)?;
        Some(Log::of(self, tree.id, tree.at(path)?))
    }

    /// The commits that made a node and set its attributes, in time by the changes of its subtree.
    pub fn blame(&self, tree: &str, node: NodeId) -> Option<Blame<'_>> {
        let tree = self.tree(tree)?;
        Some(Blame::of(self, tree.id, tree.node(node)?))
    }

    /// The differences from an earlier version of a tree to this one, in time by their number. Moves are
    /// recognised in addressable trees; in others a moved node is removed and added.
    pub fn differences(&self, earlier: &Self, tree: &str) -> Option<Vec<Difference>> {
        Some(Diff::of(earlier.tree(tree)?, self.tree(tree)?).list())
    }

    /// The differences between two trees of one descent, and the number of nodes and chunks that were
    /// looked at.
    pub fn compare(&self, before: &str, after: &str) -> Option<(Vec<Difference>, u64)> {
        let diff = Diff::of(self.tree(before)?, self.tree(after)?);
        Some((diff.list(), diff.visited))
    }

    /// A hash of all trees: ids, changes, order and attributes. Equal on every replay of one log. It takes time by the
    /// nodes, and by those that branches do not share.
    pub fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut known = BTreeMap::new();
        number(&mut hash, self.seq);
        for pair in self.trees.iter() {
            let (name, tree) = (&pair.key, &pair.value);
            text(&mut hash, name.as_bytes());
            number(&mut hash, tree.id.to_bits());
            number(&mut hash, u64::from(tree.is_addressable()));
            tree.indexed().for_each(|attribute| text(&mut hash, attribute.as_bytes()));
            for rule in tree.rules.iter() {
                text(&mut hash, rule.key.as_bytes());
                number(&mut hash, rule.value as u64);
            }
            if let Some(fork) = &tree.fork {
                number(&mut hash, fork.origin.to_bits());
                hash.update(hash_of(&fork.base.root, &mut known));
            }
            hash.update(hash_of(&tree.root, &mut known));
        }
        hash.finalize().into()
    }

    /// Applies a transaction as the next commit.
    ///
    /// # Errors
    /// [`Rejected`], by nothing but this version and the transaction.
    pub fn apply(
        &self,
        transaction: &Transaction,
        retention: Retention,
    ) -> Result<(Self, Committed), Rejected> {
        let seq = self.seq + 1;
        if seq > NodeId::COMMIT_MAX {
            return Err(Rejected::Full);
        }
        transaction.preconditions.iter().try_for_each(|one| self.holds(one))?;
        let mut next = Next {
            seq,
            time: self.time.max(transaction.time),
            gone: Vec::new(),
            trees: self.trees.clone(),
            drafts: BTreeMap::new(),
            made: None,
            conflicts: Vec::new(),
        };
        for (operation, wish) in transaction.operations.iter().enumerate() {
            next.apply(operation, wish)?;
        }
        Ok(self.commit_of(next, transaction, retention))
    }

    fn holds(&self, precondition: &Precondition) -> Result<(), Rejected> {
        let Precondition::Unchanged { tree: name, node, since } = precondition;
        let tree = self.tree(name).ok_or_else(|| Rejected::NoSuchTree(name.clone()))?;
        let changed = match node {
            None => tree.changed(),
            Some(id) => match tree.node(*id) {
                Some(node) => node.changed(),
                None => {
                    let cause = Refusal::Edit(EditError::NoSuchNode(*id));
                    return Err(Rejected::Edit { operation: 0, tree: name.clone(), cause });
                }
            },
        };
        if changed > *since {
            return Err(Rejected::Stale { tree: name.clone(), since: *since, changed });
        }
        Ok(())
    }

    fn commit_of(
        &self,
        next: Next,
        transaction: &Transaction,
        retention: Retention,
    ) -> (Self, Committed) {
        let due = self.due_after(&next);
        let Next { seq, time, mut trees, drafts, conflicts, .. } = next;
        let mut touched = Vec::with_capacity(drafts.len());
        for (name, draft) in drafts {
            for (node, touch) in draft.touched.iter() {
                assert!(touch.leads_back(seq), "commit {seq} of {node} leads to {touch:?}");
            }
            touched.push(Touched::of(draft.tree.id, &name, draft.touched));
            trees.insert(name, Arc::new(draft.tree));
        }
        let commit = Commit {
            seq,
            time,
            author: transaction.author.as_str().into(),
            message: transaction.message.as_str().into(),
            attributes: transaction.attributes.clone(),
            trees: touched,
            conflicts: u32::try_from(conflicts.len()).unwrap_or(u32::MAX),
        };
        let mut commits = self.commits.clone();
        commits.push(commit);
        commits.forget(retention.commits, retention.bytes);
        (Self { seq, time, trees, commits, due }, Committed { seq, conflicts })
    }

    /// The trees with deadlines in the version in the making.
    fn due_after(&self, next: &Next) -> Map<(Timestamp, Arc<str>), ()> {
        let mut due = self.due.clone();
        if !due.is_empty() {
            for name in next.gone.iter().chain(next.drafts.keys()) {
                if let Some(at) = self.tree(name).and_then(Tree::next_deadline) {
                    due.remove(&(at, Arc::clone(name)));
                }
            }
        }
        for (name, draft) in &next.drafts {
            draft.tree.next_deadline().map(|at| due.insert((at, Arc::clone(name)), ()));
        }
        due
    }
}

/// The trees of the version in the making.
struct Next {
    seq: u64,
    time: Timestamp,
    /// Names that were taken from a tree.
    gone: Vec<Arc<str>>,
    trees: Map<Arc<str>, Arc<Tree>>,
    drafts: BTreeMap<Arc<str>, Box<Draft>>,
    /// The highest number of a node that this transaction made.
    made: Option<u32>,
    conflicts: Vec<Conflict>,
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({})", self.seq)
    }
}

impl Next {
    fn apply(&mut self, number: usize, operation: &Operation) -> Result<(), Rejected> {
        let wrong = |tree: &str, cause: Refusal| Rejected::Edit {
            operation: number,
            tree: tree.to_owned(),
            cause,
        };
        match operation {
            Operation::CreateTree { root, name, addressable } => {
                let root = self.make_new(number, *root)?;
                let name = self.free(name)?;
                let tree = Tree::new(root, root, self.seq, *addressable);
                self.drafts.insert(name, Box::new(Draft::new(tree, self.seq)));
            }
            Operation::RenameTree { tree, name } => {
                self.draft(tree)?;
                let name = self.free(name)?;
                let draft = self.drafts.remove(tree.as_str()).expect("it was just made");
                self.forget_name(tree);
                self.drafts.insert(name, draft);
            }
            Operation::DropTree { tree } => {
                self.draft(tree)?;
                self.drafts.remove(tree.as_str());
                self.forget_name(tree);
            }
            Operation::Branch { id, tree, name } => {
                let id = self.make_new(number, *id)?;
                let (name, origin) = (self.free(name)?, self.tree(tree)?);
                if !origin.is_addressable() {
                    return Err(wrong(tree, EditError::NotAddressable.into()));
                }
                let fork = Fork { origin: origin.id, base: bare(&origin) };
                let branch = Tree { id, fork: Some(Arc::new(fork)), ..origin };
                let mut draft = Draft::new(branch, self.seq);
                // What this commit did to the origin it did to the branch.
                if let Some(origin) = self.drafts.get(tree.as_str()) {
                    draft.touched = origin.touched.clone();
                }
                self.drafts.insert(name, Box::new(draft));
            }
            Operation::Merge { from, into, policy } => self.merge(from, into, *policy)?,
            Operation::MakeIndex { tree, attribute } => {
                let made = self.draft(tree)?.make_index(attribute);
                made.map_err(|cause| wrong(tree, cause.into()))?;
            }
            Operation::DropIndex { tree, attribute } => {
                let dropped = self.draft(tree)?.drop_index(attribute);
                dropped.map_err(|cause| wrong(tree, cause.into()))?;
            }
            Operation::SetRule { tree, attribute, rule } => {
                let set = self.draft(tree)?.set_rule(attribute, *rule);
                set.map_err(|cause| wrong(tree, cause.into()))?;
            }
            Operation::Edit { tree, edit } => {
                if let Some(node) = edit.made() {
                    self.make(number, node)?;
                }
                let done = edit.apply(self.draft(tree)?);
                done.map_err(|cause| wrong(tree, cause))?;
            }
            Operation::Tick { tree } => {
                let now = self.time;
                if self.draft(tree)?.expire(now, EXPIRED_MAX) == 0 {
                    return Err(Rejected::NothingDue(tree.clone()));
                }
            }
        }
        Ok(())
    }

    fn forget_name(&mut self, name: &str) {
        let name: Arc<str> = name.into();
        self.trees.remove(&name);
        self.gone.push(name);
    }

    /// The id of a node that an operation makes: the next of this commit, or one of an earlier commit.
    fn make(&mut self, operation: usize, node: NodeId) -> Result<NodeId, Rejected> {
        let wrong = Rejected::Id { operation, node };
        match node.commit() {
            Some(commit) if commit < self.seq && commit > 0 => Ok(node),
            Some(_) => Err(wrong),
            None if self.made.is_some_and(|made| node.index() <= made) => Err(wrong),
            None => {
                self.made = Some(node.index());
                Ok(node.settle(self.seq))
            }
        }
    }

    /// The same for the identity of a tree, which must be new: two trees of one identity would be each other's
    /// origin, branch and past.
    fn make_new(&mut self, operation: usize, node: NodeId) -> Result<NodeId, Rejected> {
        match node.commit() {
            Some(_) => Err(Rejected::Id { operation, node }),
            None => self.make(operation, node),
        }
    }

    fn tree(&self, name: &str) -> Result<Tree, Rejected> {
        if let Some(draft) = self.drafts.get(name) {
            return Ok(draft.tree.clone());
        }
        let tree = self.trees.find(|own| (**own).cmp(name)).map(|tree| Tree::clone(tree));
        tree.ok_or_else(|| Rejected::NoSuchTree(name.to_owned()))
    }

    fn draft(&mut self, name: &str) -> Result<&mut Draft, Rejected> {
        if !self.drafts.contains_key(name) {
            let draft = Draft::new(self.tree(name)?, self.seq);
            self.drafts.insert(name.into(), Box::new(draft));
        }
        Ok(self.drafts.get_mut(name).expect("it was just put there"))
    }

    /// A name that no tree has.
    fn free(&self, name: &str) -> Result<Arc<str>, Rejected> {
        if name.is_empty() || name.len() > TREE_NAME_MAX {
            return Err(Rejected::TreeName(name.chars().take(40).collect()));
        }
        match self.tree(name) {
            Ok(_) => Err(Rejected::TreeExists(name.to_owned())),
            Err(_) => Ok(name.into()),
        }
    }

    fn merge(&mut self, from: &str, into: &str, policy: Policy) -> Result<(), Rejected> {
        let (theirs, ours) = (self.tree(from)?, self.tree(into)?);
        let fork_of = |branch: &Tree, origin: &Tree| {
            branch.fork.as_ref().filter(|fork| fork.origin == origin.id).map(Arc::clone)
        };
        let (fork, branch) = match (fork_of(&theirs, &ours), fork_of(&ours, &theirs)) {
            (Some(fork), _) => (fork, from),
            (_, Some(fork)) => (fork, into),
            (None, None) => {
                let (from, into) = (from.to_owned(), into.to_owned());
                return Err(Rejected::NotABranch { from, into });
            }
        };
        let draft = self.drafts.get(into).map(|draft| Draft::clone(draft));
        let draft = draft.unwrap_or_else(|| Draft::new(ours, self.seq));
        let plan = merge::plan(&fork.base, draft, &theirs, policy);
        if policy == Policy::Refuse && !plan.conflicts.is_empty() {
            let (from, into, conflicts) = (from.to_owned(), into.to_owned(), plan.conflicts);
            return Err(Rejected::Conflicts { from, into, conflicts });
        }
        let mut draft = plan.draft;
        if let Some(branch) = self.drafts.get(from) {
            draft.note_fresh(&plan.fresh, branch);
        }
        self.drafts.insert(into.into(), Box::new(draft));
        let fork = Fork { origin: fork.origin, base: bare(&theirs) };
        self.draft(branch)?.tree.fork = Some(Arc::new(fork));
        self.conflicts.extend(plan.conflicts);
        Ok(())
    }
}

/// A tree as the base of a branch: its nodes and places alone, so that it holds on to nothing else.
pub(crate) fn bare(tree: &Tree) -> Tree {
    Tree { indexes: Map::default(), rules: Map::default(), fork: None, ..tree.clone() }
}
