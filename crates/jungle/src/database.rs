//! One writer decides and many readers look: the writer's private version becomes everybody's by one exchange of
//! a pointer, and no reader ever waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::blob::{BlobId, blobs_of};
use crate::commit::Timestamp;
use crate::diff::Diff;
use crate::expiry::{EXPIRES, deadline};
use crate::history::{Thinning, Versions};
use crate::merge::{self, Conflict, Policy};
use crate::node::NodeId;
use crate::operation::{Operation, Precondition, Transaction};
use crate::tree::{Draft, Place, Target, Tree};
use crate::version::{Committed, Rejected, Retention, Version};

/// A database in memory: the newest version, those kept of the past, and readers' access. One thread owns it.
#[derive(Debug)]
pub struct Database {
    /// With all that was staged; nobody else sees it.
    private: Arc<Version>,
    staged: Vec<Arc<Version>>,
    published: Reader,
    versions: Versions,
    retention: Retention,
}

/// Access of readers to the newest published version, from any thread, without a lock.
#[derive(Clone, Debug)]
pub struct Reader {
    root: Arc<ArcSwap<Version>>,
}

impl Reader {
    /// The newest version. It stays readable, unchanged, as long as it is held.
    pub fn version(&self) -> Arc<Version> {
        self.root.load_full()
    }
}

/// Why a change of the past cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PastError {
    /// The version was thinned or never was.
    #[error("version {0} is not kept any more (or not made yet); hold versions that you will need")]
    NoSuchVersion(u64),
    /// No tree of this name.
    #[error("no tree `{0}` in that version")]
    NoSuchTree(String),
    /// The version did not have the node.
    #[error("version {version} has no node {node} in tree `{tree}`")]
    NoSuchNode {
        /// The version.
        version: u64,
        /// The tree.
        tree: String,
        /// The node.
        node: NodeId,
    },
    /// Trees that a commit dropped, branched or that are gone by now are not brought back.
    #[error(
        "commit {commit} dropped tree `{tree}`, or the tree was dropped since; restore it from a snapshot"
    )]
    TreeGone {
        /// The commit.
        commit: u64,
        /// The tree.
        tree: String,
    },
    /// The tree keeps no addresses by id.
    #[error("tree `{0}` keeps no addresses by id, by which changes are found again")]
    NotAddressable(String),
    /// What the commit did to a tree as a whole was changed since.
    #[error(
        "{what} of commit {commit}, in tree `{tree}`, was changed since; take the later changes back first, or do it by hand"
    )]
    Overtaken {
        /// The commit.
        commit: u64,
        /// The tree, by its present name.
        tree: String,
        /// What was changed, such as `the name`.
        what: String,
    },
    /// Later changes exclude it.
    #[error("later commits changed the same: {}", told(.0))]
    Conflicts(Vec<Conflict>),
}

fn told(conflicts: &[Conflict]) -> String {
    conflicts.iter().map(Conflict::to_string).collect::<Vec<_>>().join("; ")
}

impl Default for Database {
    fn default() -> Self {
        Self::new(Retention::default(), Thinning::default())
    }
}

impl Database {
    /// An empty database.
    pub fn new(retention: Retention, thinning: Thinning) -> Self {
        Self::at_version(Version::default(), retention, thinning)
    }

    /// A database that goes on from a version.
    pub fn at_version(version: Version, retention: Retention, thinning: Thinning) -> Self {
        let (mut versions, version) = (Versions::new(thinning), Arc::new(version));
        versions.add(Arc::clone(&version));
        Self {
            published: Reader { root: Arc::new(ArcSwap::new(Arc::clone(&version))) },
            private: version,
            staged: Vec::new(),
            versions,
            retention,
        }
    }

    #[cfg(test)]
    pub(crate) fn plant(&mut self, planted: Option<crate::Planted>) {
        self.versions.planted = planted;
    }

    /// Access for readers.
    pub fn reader(&self) -> Reader {
        self.published.clone()
    }

    /// The version with all that was staged, which readers do not see yet.
    pub fn private(&self) -> &Version {
        &self.private
    }

    /// Commits and publishes a transaction.
    ///
    /// # Errors
    /// [`Rejected`]; the database is as before.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Committed, Rejected> {
        let committed = self.stage(transaction)?;
        drop(self.publish());
        Ok(committed)
    }

    /// Commits a transaction on the private version, behind all others staged.
    ///
    /// # Errors
    /// [`Rejected`]; the private version is as before.
    pub fn stage(&mut self, transaction: &Transaction) -> Result<Committed, Rejected> {
        let (version, committed) = self.private.apply(transaction, self.retention)?;
        self.private = Arc::new(version);
        self.staged.push(Arc::clone(&self.private));
        Ok(committed)
    }

    /// Shows readers all that was staged. The versions that thinning gives up are handed over: freeing a
    /// large one takes time, which the caller may spend on another thread.
    pub fn publish(&mut self) -> Vec<Arc<Version>> {
        let mut freed = Vec::new();
        for version in self.staged.drain(..) {
            freed.extend(self.versions.add(version));
        }
        self.published.root.store(Arc::clone(&self.private));
        freed
    }

    /// Takes back all that was staged.
    pub fn unstage(&mut self) {
        self.staged.clear();
        self.private = self.published.root.load_full();
    }

    /// Creates an addressable tree.
    ///
    /// # Errors
    /// [`Rejected::TreeExists`] and [`Rejected::TreeName`].
    pub fn create_tree(&mut self, name: &str) -> Result<Committed, Rejected> {
        let root = NodeId::pending(0);
        let name = name.to_owned();
        self.alone(Operation::CreateTree { root, name, addressable: true })
    }

    /// Makes a branch of a tree.
    ///
    /// # Errors
    /// [`Rejected`], if the tree is not there or the name is taken.
    pub fn branch(&mut self, tree: &str, name: &str) -> Result<Committed, Rejected> {
        let id = NodeId::pending(0);
        self.alone(Operation::Branch { id, tree: tree.to_owned(), name: name.to_owned() })
    }

    /// Merges a branch into its origin, or an origin into its branch.
    ///
    /// # Errors
    /// [`Rejected::Conflicts`] with all of them, if `policy` refuses them.
    pub fn merge(&mut self, from: &str, into: &str, policy: Policy) -> Result<Committed, Rejected> {
        self.alone(Operation::Merge { from: from.to_owned(), into: into.to_owned(), policy })
    }

    fn alone(&mut self, operation: Operation) -> Result<Committed, Rejected> {
        let operations = vec![operation];
        self.commit(&Transaction { operations, ..Transaction::default() })
    }

    /// A published version of the past, if it is kept.
    pub fn at(&self, seq: u64) -> Option<&Version> {
        self.versions.get(seq)
    }

    /// The numbers of all versions that are kept.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        self.versions.numbers()
    }

    /// The blobs that any kept version names, and the newest.
    pub fn held_blobs(&self) -> BTreeSet<BlobId> {
        let kept = self.versions.numbers().filter_map(|seq| self.versions.get(seq));
        blobs_of(kept.chain([&*self.private]))
    }

    /// The number of versions that were given up.
    pub fn freed(&self) -> u64 {
        self.versions.freed()
    }

    /// Keeps a version under a name, as a tag or a reader's lease; false if it is gone.
    pub fn hold(&mut self, name: &str, seq: u64) -> bool {
        self.versions.hold(name, seq)
    }

    /// Lets go of a name; false if nothing was held by it.
    pub fn let_go(&mut self, name: &str) -> bool {
        self.versions.let_go(name)
    }

    /// The newest kept version at or before a moment.
    pub fn at_time(&self, time: Timestamp) -> Option<&Version> {
        let mut newest = None;
        for seq in self.versions.numbers() {
            let version = self.versions.get(seq).expect("it is kept");
            if version.time() > time {
                break;
            }
            newest = Some(version);
        }
        newest
    }

    /// The transaction that takes back what a commit did, and leaves what others did since. It takes effect only on the
    /// trees as they are now: if one is changed before, it is refused ([`Rejected::Stale`]), and planned anew.
    ///
    /// # Errors
    /// [`PastError::Conflicts`] if later commits changed the same, and the others if the past is gone.
    pub fn revert(&self, seq: u64) -> Result<Transaction, PastError> {
        let (before, after) = self.around(seq)?;
        let (mut operations, mut preconditions) = (Vec::new(), Vec::new());
        let trees = after.trees.iter().filter(|pair| {
            before.trees.get(&pair.key).is_none_or(|old| !Arc::ptr_eq(old, &pair.value))
        });
        for pair in trees {
            let (id, name) = (pair.value.id, pair.key.to_string());
            let gone = || PastError::TreeGone { commit: seq, tree: name.clone() };
            let (now_name, now) = named(&self.private, id).ok_or_else(gone)?;
            let overtaken = |what: String| PastError::Overtaken {
                commit: seq,
                tree: now_name.to_owned(),
                what,
            };
            let Some((old_name, old)) = named(before, id) else {
                // Whatever was done to the tree since would go with it.
                if !Arc::ptr_eq(&now.root, &pair.value.root) {
                    return Err(overtaken("the tree".to_owned()));
                }
                let since = settings(&pair.value, &pair.value, now, now_name).map_err(overtaken)?;
                if let Some(operation) = since.first() {
                    return Err(overtaken(setting(operation)));
                }
                operations.push(Operation::DropTree { tree: now_name.to_owned() });
                preconditions.push(unchanged(now_name, now));
                continue;
            };
            let planned = operations.len();
            operations.extend(self.edits(&pair.value, now, old, now_name)?);
            operations.extend(settings(&pair.value, now, old, now_name).map_err(overtaken)?);
            if old_name != &*pair.key && now_name != old_name {
                if now_name != &*pair.key {
                    return Err(overtaken("the name".to_owned()));
                }
                let (tree, name) = (now_name.to_owned(), old_name.to_owned());
                operations.push(Operation::RenameTree { tree, name });
            }
            if operations.len() > planned {
                preconditions.push(unchanged(now_name, now));
            }
        }
        let dropped = before.trees.iter().find(|pair| named(after, pair.value.id).is_none());
        if let Some(pair) = dropped {
            return Err(PastError::TreeGone { commit: seq, tree: pair.key.to_string() });
        }
        let message = format!("Revert {seq}");
        Ok(Transaction { operations, preconditions, message, ..Transaction::default() })
    }

    /// The transaction that does to a tree what a commit did to it, or to its origin or branch.
    ///
    /// # Errors
    /// [`PastError`], as for a revert.
    pub fn pick(&self, seq: u64, from: &str, into: &str) -> Result<Transaction, PastError> {
        let (before, after) = self.around(seq)?;
        let none = |name: &str| PastError::NoSuchTree(name.to_owned());
        let theirs = after.tree(from).ok_or_else(|| none(from))?;
        let (_, base) = named(before, theirs.id).ok_or_else(|| none(from))?;
        let ours = self.private.tree(into).ok_or_else(|| none(into))?;
        let mut operations = self.edits(base, ours, theirs, into)?;
        let overtaken = |what| PastError::Overtaken { commit: seq, tree: into.to_owned(), what };
        operations.extend(settings(base, ours, theirs, into).map_err(overtaken)?);
        let (message, preconditions) = (format!("Pick {seq}"), vec![unchanged(into, ours)]);
        Ok(Transaction { operations, preconditions, message, ..Transaction::default() })
    }

    /// The transaction that makes a node and all below it what it was at a version. What has come there from
    /// elsewhere since goes back to where it was.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn restore(&self, tree: &str, node: NodeId, seq: u64) -> Result<Transaction, PastError> {
        let none = || PastError::NoSuchTree(tree.to_owned());
        let version = self.at(seq).ok_or(PastError::NoSuchVersion(seq))?;
        let now = self.private.tree(tree).ok_or_else(none)?;
        let (_, old) = named(version, now.id).ok_or_else(none)?;
        addressable(tree, [now, old])?;
        let gone = || PastError::NoSuchNode { version: seq, tree: tree.to_owned(), node };
        let diff = Diff::of_subtree(now, old, old.node(node).ok_or_else(gone)?);
        let plan = merge::plan_of(&diff, [now, now, old], Policy::Refuse, pending(now));
        let operations = operations(tree, plan.edits, plan.conflicts, self.private.time)?;
        let message = format!("Restore {node} of {tree} at {seq}");
        let preconditions = vec![unchanged(tree, now)];
        Ok(Transaction { operations, preconditions, message, ..Transaction::default() })
    }

    fn around(&self, seq: u64) -> Result<(&Version, &Version), PastError> {
        let at = |seq| self.at(seq).ok_or(PastError::NoSuchVersion(seq));
        Ok((at(seq.checked_sub(1).ok_or(PastError::NoSuchVersion(seq))?)?, at(seq)?))
    }

    fn edits(
        &self,
        base: &Tree,
        ours: &Tree,
        theirs: &Tree,
        name: &str,
    ) -> Result<Vec<Operation>, PastError> {
        addressable(name, [base, ours])?;
        addressable(name, [ours, theirs])?;
        let plan = merge::plan(base, pending(ours), theirs, Policy::Refuse);
        operations(name, plan.edits, plan.conflicts, self.private.time)
    }
}

/// The operations of a plan. A node that comes back after its deadline comes without one: the next tick would take it
/// again.
fn operations(
    tree: &str,
    edits: Vec<crate::Edit>,
    conflicts: Vec<Conflict>,
    now: Timestamp,
) -> Result<Vec<Operation>, PastError> {
    if !conflicts.is_empty() {
        return Err(PastError::Conflicts(conflicts));
    }
    let operation = |mut edit| {
        if let crate::Edit::Insert { attributes, .. } = &mut edit
            && attributes.get(EXPIRES).and_then(deadline).is_some_and(|at| at <= now)
        {
            attributes.set(EXPIRES, None);
        }
        Operation::Edit { tree: tree.to_owned(), edit }
    };
    Ok(edits.into_iter().map(operation).collect())
}

/// The condition that a tree is still what a plan was made for.
fn unchanged(name: &str, tree: &Tree) -> Precondition {
    Precondition::Unchanged { tree: name.to_owned(), node: None, since: tree.changed() }
}

fn pending(tree: &Tree) -> Draft {
    Draft::new(tree.clone(), NodeId::PENDING)
}

/// The operations that bring the changes of indexes and rules from `base` to `theirs` into `ours`. The error names
/// the rule that ours has changed otherwise.
fn settings(base: &Tree, ours: &Tree, theirs: &Tree, name: &str) -> Result<Vec<Operation>, String> {
    let mut operations = Vec::new();
    let pair = |attribute: &Arc<str>| (name.to_owned(), attribute.to_string());
    let indexes = [base, theirs].into_iter().flat_map(|tree| tree.indexes.iter());
    for key in indexes.map(|index| &index.key).collect::<BTreeSet<_>>() {
        let [was, has, is] = [base, ours, theirs].map(|tree| tree.indexes.contains(key));
        let (tree, attribute) = pair(key);
        match (was, is) {
            (false, true) if !has => operations.push(Operation::MakeIndex { tree, attribute }),
            (true, false) if has => operations.push(Operation::DropIndex { tree, attribute }),
            _ => {}
        }
    }
    let rules = [base, theirs].into_iter().flat_map(|tree| tree.rules.iter());
    for key in rules.map(|rule| &rule.key).collect::<BTreeSet<_>>() {
        let rule = |tree: &Tree| tree.rules.get(key).copied().unwrap_or_default();
        let [was, has, is] = [base, ours, theirs].map(rule);
        if was == is || has == is {
            continue;
        }
        let (tree, attribute) = pair(key);
        let operation = Operation::SetRule { tree, attribute, rule: is };
        if has != was {
            return Err(setting(&operation));
        }
        operations.push(operation);
    }
    Ok(operations)
}

/// The name of what an operation on an index or a rule sets.
fn setting(operation: &Operation) -> String {
    match operation {
        Operation::SetRule { attribute, .. } => format!("rule of attribute `{attribute}`"),
        Operation::MakeIndex { attribute, .. } | Operation::DropIndex { attribute, .. } => {
            format!("index of attribute `{attribute}`")
        }
        other => unreachable!("{other:?} sets neither an index nor a rule"),
    }
}

fn addressable(name: &str, trees: [&Tree; 2]) -> Result<(), PastError> {
    if trees.iter().all(|tree| tree.is_addressable()) {
        return Ok(());
    }
    Err(PastError::NotAddressable(name.to_owned()))
}

/// The tree with an identity, and its name in a version.
fn named(version: &Version, id: NodeId) -> Option<(&str, &Tree)> {
    let pair = version.trees.iter().find(|pair| pair.value.id == id)?;
    Some((&pair.key, &pair.value))
}

impl Transaction {
    /// A transaction that makes one tree without addresses by id.
    pub fn create_plain_tree(name: &str) -> Self {
        let (root, name) = (NodeId::pending(0), name.to_owned());
        let operations = vec![Operation::CreateTree { root, name, addressable: false }];
        Self { operations, ..Self::default() }
    }

    /// A transaction of one insertion at the end, without an editor.
    pub fn append<'a>(
        tree: &str,
        parent: NodeId,
        attributes: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let edit = crate::Edit::Insert {
            node: NodeId::pending(0),
            parent: Target::Node(parent),
            place: Place::Last,
            attributes: crate::Attributes::of(attributes),
        };
        let operations = vec![Operation::Edit { tree: tree.to_owned(), edit }];
        Self { operations, ..Self::default() }
    }

    /// A transaction that deletes the nodes of a tree whose deadline is at or before a moment.
    pub fn tick(tree: &str, now: Timestamp) -> Self {
        let operations = vec![Operation::Tick { tree: tree.to_owned() }];
        let message = "Expired".to_owned();
        Self { operations, message, time: now, ..Self::default() }
    }

    /// The same with an author and a reason.
    #[must_use]
    pub fn by(self, author: &str, message: &str) -> Self {
        Self { author: author.to_owned(), message: message.to_owned(), ..self }
    }
}
