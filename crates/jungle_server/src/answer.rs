//! Answers as JSON: each is a type that the server writes and a client reads, so that the two cannot differ.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jungle::{
    BLOB, Blame, BlobRef, Change, Commit, Conflict, Difference, DocumentBlob, EXPIRES, LogEntry,
    Node, NodeId, Timestamp, Version, deadline,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::users::Sight;

/// The value of an attribute: text, or the bytes of what is no UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes {
        /// The bytes in base64.
        base64: String,
    },
}

/// Values by the names of their attributes.
pub type Values = BTreeMap<String, Value>;

impl Value {
    /// The value of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes { base64: STANDARD.encode(bytes) },
        }
    }

    /// Its bytes; `None` if it is no base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Bytes { base64 } => STANDARD.decode(base64).ok(),
        }
    }
}

fn values<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])>) -> Values {
    pairs.map(|(name, value)| (name.to_owned(), Value::of(value))).collect()
}

/// The end of the year 9999, the last moment that RFC 3339 writes \[us since 1970\].
const MOMENT_MAX: u64 = 253_402_300_799_999_999;

/// True of attributes that have a field of their own.
fn is_beside(name: &str) -> bool {
    name == EXPIRES || name.starts_with(BLOB)
}

impl From<BlobRef> for BlobView {
    fn from(blob: BlobRef) -> Self {
        Self { sha256: blob.id.to_string(), bytes: blob.bytes }
    }
}

/// A value as it is told: a deadline as a moment.
fn shown(name: &str, bytes: Option<&[u8]>) -> Option<Value> {
    let bytes = bytes?;
    let deadline = deadline(bytes).filter(|_| name == EXPIRES);
    Some(deadline.map_or_else(|| Value::of(bytes), |at| Value::Text(moment(at))))
}

/// A moment as text, RFC 3339.
pub(crate) fn moment(time: Timestamp) -> String {
    let since = std::time::Duration::from_micros(time.0.min(MOMENT_MAX));
    let time = std::time::UNIX_EPOCH + since;
    humantime::format_rfc3339_micros(time).to_string()
}

/// A tree of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeView {
    /// Its name.
    pub name: String,
    /// The number of its nodes.
    pub nodes: u64,
    /// The newest commit that changed it.
    pub changed: u64,
    /// Whether nodes are found by their ids.
    pub addressable: bool,
    /// The tree that it was branched from, if that is there.
    pub branch_of: Option<String>,
    /// The attributes that have an index.
    pub indexes: Vec<String>,
}

/// All trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trees {
    /// The commit at which this was read.
    pub seq: u64,
    /// The trees, by name.
    pub trees: Vec<TreeView>,
}

impl Trees {
    pub(crate) fn of(version: &Version) -> Self {
        let trees = version.trees().map(|name| {
            let tree = version.tree(name).expect("it was listed");
            TreeView {
                name: name.to_owned(),
                nodes: tree.nodes(),
                changed: tree.changed(),
                addressable: tree.is_addressable(),
                branch_of: version.origin(name).map(str::to_owned),
                indexes: tree.indexed().map(str::to_owned).collect(),
            }
        });
        Self { seq: version.seq(), trees: trees.collect() }
    }
}

/// A blob beside a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobView {
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
    /// Its bytes \[B\].
    pub bytes: u64,
}

/// A blob that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredBlob {
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
}

/// All blobs that a version names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobList {
    /// The commit at which this was read.
    pub seq: u64,
    /// The blobs.
    pub blobs: Vec<StoredBlob>,
}

/// A node with some of those below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Its id.
    pub id: String,
    /// The newest commit that changed it or one below it.
    pub changed: u64,
    /// Its attributes.
    pub attributes: Values,
    /// The moment from which on it goes with all below it, RFC 3339; none if it stays.
    #[serde(default)]
    pub expires: Option<String>,
    /// Blobs beside it, by their names.
    #[serde(default)]
    pub blobs: BTreeMap<String, BlobView>,
    /// The number of its children.
    pub children: usize,
    /// Children, in order; left out beyond the depth that was asked for.
    #[serde(default)]
    pub nodes: Vec<NodeView>,
    /// The position of the first child that is not here, if there is one.
    #[serde(default)]
    pub next_offset: Option<usize>,
}

/// A blob beside a node of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentBlobView {
    /// The JSON Pointer of the node in the document.
    pub at: String,
    /// The id of the node.
    pub node: String,
    /// The name of the blob.
    pub name: String,
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
    /// Its bytes \[B\].
    pub bytes: u64,
}

/// A document with the names of its blobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The document.
    pub document: serde_json::Value,
    /// The blobs beside its nodes.
    pub blobs: Vec<DocumentBlobView>,
}

impl From<DocumentBlob> for DocumentBlobView {
    fn from(one: DocumentBlob) -> Self {
        let (sha256, bytes) = (one.blob.id.to_string(), one.blob.bytes);
        Self { at: one.at, node: one.node.to_string(), name: one.name, sha256, bytes }
    }
}

/// A node at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The tree.
    pub tree: String,
    /// The path of the node, if it is known.
    pub path: Option<String>,
    /// The node.
    pub node: NodeView,
}

/// Room that an answer has left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Nodes.
    pub(crate) nodes: usize,
    /// Bytes of attributes \[B\].
    pub(crate) bytes: usize,
}

/// The most bytes of attributes of an answer, but for those of its first node \[B\].
const BYTES_MAX: usize = 32 << 20;

impl Room {
    pub(crate) fn for_nodes(nodes: usize) -> Self {
        Self { nodes, bytes: BYTES_MAX }
    }

    /// Takes the room of a node; false if there is none left.
    pub(crate) fn take(&mut self, node: &Node) -> bool {
        if self.nodes == 0 || self.bytes == 0 {
            return false;
        }
        self.nodes -= 1;
        self.bytes = self.bytes.saturating_sub(size(node));
        true
    }
}

/// The bytes of a node's attributes \[B\].
pub(crate) fn size(node: &Node) -> usize {
    node.attributes().map(|(name, value)| name.len() + value.len()).sum()
}

impl NodeView {
    /// A node down to a depth, as far as there is room.
    pub(crate) fn of(node: &Node, depth: usize, offset: usize, room: &mut Room) -> Self {
        let mut nodes = Vec::new();
        let mut next_offset = None;
        if depth > 0 {
            for (position, child) in node.children_at(offset..node.len()).enumerate() {
                if !room.take(child) {
                    next_offset = Some(offset + position);
                    break;
                }
                nodes.push(Self::of(child, depth - 1, 0, room));
            }
        }
        Self {
            id: node.id().to_string(),
            changed: node.changed(),
            attributes: values(node.attributes().filter(|(name, _)| !is_beside(name))),
            blobs: node.blobs().map(|(name, blob)| (name.to_owned(), blob.into())).collect(),
            expires: node.expires().map(moment),
            children: node.len(),
            nodes,
            next_offset,
        }
    }
}

/// A change of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeView {
    /// The kind: put, removed, moved, children, returned, deleted, expired.
    pub kind: String,
    /// The attribute of a put or a removal.
    #[serde(default)]
    pub attribute: Option<String>,
}

impl ChangeView {
    fn of(change: &Change) -> Self {
        let (kind, attribute) = match change {
            Change::Put(name) => ("put", Some(name.to_string())),
            Change::Removed(name) => ("removed", Some(name.to_string())),
            Change::Moved => ("moved", None),
            Change::Children => ("children", None),
            Change::Returned => ("returned", None),
            Change::Deleted => ("deleted", None),
            Change::Expired => ("expired", None),
            _ => ("other", None),
        };
        Self { kind: kind.to_owned(), attribute }
    }
}

/// Who, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitView {
    /// The number of the commit.
    pub seq: u64,
    /// The moment, RFC 3339.
    pub time: String,
    /// The author.
    pub author: String,
    /// The reason.
    pub message: String,
    /// Free attributes of the commit.
    #[serde(default)]
    pub attributes: Values,
    /// The trees that it changed.
    pub trees: Vec<String>,
    /// The number of conflicts that a merge in it decided.
    pub conflicts: u32,
    /// Whether author, reason, attributes and trees are left out, as it changed trees too that whoever asks may not
    /// read.
    #[serde(default)]
    pub withheld: bool,
}

impl CommitView {
    pub(crate) fn of(commit: &Commit) -> Self {
        Self {
            seq: commit.seq(),
            time: moment(commit.time()),
            author: commit.author().to_owned(),
            message: commit.message().to_owned(),
            attributes: values(commit.attributes()),
            trees: commit.trees().map(str::to_owned).collect(),
            conflicts: commit.conflicts(),
            withheld: false,
        }
    }

    /// A commit that changed a node which the caller may read, and perhaps others that it may not.
    fn seen(commit: &Commit, sight: &Sight) -> Self {
        if sight.sees(commit) {
            return Self::of(commit);
        }
        Self {
            seq: commit.seq(),
            time: moment(commit.time()),
            author: String::new(),
            message: String::new(),
            attributes: Values::new(),
            trees: Vec::new(),
            conflicts: 0,
            withheld: true,
        }
    }
}

/// A node that a commit changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedNode {
    /// The tree.
    pub tree: String,
    /// The node.
    pub node: String,
    /// The changes of it.
    pub changes: Vec<ChangeView>,
}

/// A commit with the nodes that it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitAnswer {
    /// The commit.
    #[serde(flatten)]
    pub commit: CommitView,
    /// The nodes that it changed, at most 1,000; those that it made are known by their ids.
    pub nodes: Vec<ChangedNode>,
}

/// The most changed nodes that an answer lists.
const NODES_MAX: usize = 1_000;

impl CommitAnswer {
    pub(crate) fn of(commit: &Commit) -> Self {
        let nodes = commit.changes().take(NODES_MAX).map(|(tree, node, changes)| ChangedNode {
            tree: tree.to_owned(),
            node: node.to_string(),
            changes: changes.iter().map(ChangeView::of).collect(),
        });
        Self { commit: CommitView::of(commit), nodes: nodes.collect() }
    }
}

/// A commit in the log of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryView {
    /// The commit.
    #[serde(flatten)]
    pub commit: CommitView,
    /// The changes of the node itself.
    pub changes: Vec<ChangeView>,
    /// Whether the commit made the node.
    pub made: bool,
    /// Whether it merged changes that have commits of their own.
    pub merged: bool,
}

impl EntryView {
    pub(crate) fn of(entry: &LogEntry<'_>, sight: &Sight) -> Self {
        Self {
            commit: CommitView::seen(entry.commit, sight),
            changes: entry.changes.iter().map(ChangeView::of).collect(),
            made: entry.made,
            merged: entry.merged,
        }
    }
}

/// The commits that changed a node or one below it, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The tree.
    pub tree: String,
    /// The node.
    pub node: String,
    /// The commits.
    pub entries: Vec<EntryView>,
    /// The commit before which more are to be asked for, if there are more.
    pub next_before: Option<u64>,
    /// The newest commit of this log that was forgotten; none if the log is whole.
    pub forgotten: Option<u64>,
}

/// The commits that answer for a node as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlameAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The tree.
    pub tree: String,
    /// The node.
    pub node: String,
    /// The commit that made it; none if it was forgotten.
    pub made: Option<CommitView>,
    /// The newest commit that moved it.
    pub moved: Option<CommitView>,
    /// For each attribute the commit that set it; none if that was forgotten.
    pub attributes: BTreeMap<String, Option<CommitView>>,
    /// The newest forgotten commit that may have changed it.
    pub forgotten: Option<u64>,
}

impl BlameAnswer {
    pub(crate) fn of(seq: u64, tree: &str, node: NodeId, blame: &Blame<'_>, sight: &Sight) -> Self {
        let attributes = blame.attributes.iter();
        let seen = |commit| CommitView::seen(commit, sight);
        Self {
            seq,
            tree: tree.to_owned(),
            node: node.to_string(),
            made: blame.made.map(seen),
            moved: blame.moved.map(seen),
            attributes: attributes.map(|(name, commit)| (name.clone(), commit.map(seen))).collect(),
            forgotten: blame.forgotten,
        }
    }
}

/// A difference between two versions of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DifferenceView {
    /// A node that only the later version has.
    Added {
        /// The node.
        node: String,
        /// Its parent.
        parent: String,
        /// Its position there.
        position: usize,
    },
    /// A node that only the earlier version has, with all below it.
    Removed {
        /// The node.
        node: String,
    },
    /// A node in another place.
    Moved {
        /// The node.
        node: String,
        /// Its later parent.
        parent: String,
        /// Its later position there.
        position: usize,
    },
    /// Another value.
    Attribute {
        /// The node.
        node: String,
        /// The attribute.
        name: String,
        /// The earlier value.
        before: Option<Value>,
        /// The later value.
        after: Option<Value>,
    },
}

impl DifferenceView {
    pub(crate) fn of(difference: &Difference) -> Option<Self> {
        let value = |name: &str, bytes: &Option<Vec<u8>>| shown(name, bytes.as_deref());
        Some(match difference {
            Difference::Added { node, parent, position } => Self::Added {
                node: node.to_string(),
                parent: parent.to_string(),
                position: *position,
            },
            Difference::Removed { node } => Self::Removed { node: node.to_string() },
            Difference::Moved { node, parent, position } => Self::Moved {
                node: node.to_string(),
                parent: parent.to_string(),
                position: *position,
            },
            Difference::Attribute { node, name, before, after } => Self::Attribute {
                node: node.to_string(),
                name: name.clone(),
                before: value(name, before),
                after: value(name, after),
            },
            _ => return None,
        })
    }
}

/// The differences between two versions of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffAnswer {
    /// The tree.
    pub tree: String,
    /// The earlier version.
    pub from: u64,
    /// The later version.
    pub to: u64,
    /// The differences, at most as many as were asked for.
    pub differences: Vec<DifferenceView>,
    /// Whether there are more.
    pub more: bool,
}

/// Nodes that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The tree.
    pub tree: String,
    /// Whether an index answered; without one all nodes are looked at.
    pub indexed: bool,
    /// The nodes, without children.
    pub nodes: Vec<NodeView>,
    /// The cursor of the next page, if there is one.
    pub next_after: Option<String>,
}

/// A value that a JSONPath has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchView {
    /// Its normalized path from the document on (RFC 9535, 2.7).
    pub path: String,
    /// The node that it is, or the object of which it is a member.
    pub node: String,
    /// The attribute that holds it; none if it is a node itself.
    pub attribute: Option<String>,
    /// The value.
    pub value: serde_json::Value,
}

/// Values that a JSONPath has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryAnswer {
    /// The commit at which this was read.
    pub seq: u64,
    /// The tree.
    pub tree: String,
    /// The node that is the document.
    pub node: String,
    /// The number of all values found.
    pub count: usize,
    /// A page of them.
    pub matches: Vec<MatchView>,
    /// The cursor of the next page, of the same version, if there is one.
    pub next_after: Option<String>,
}

/// Changes on both sides that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictView {
    /// The kind: attribute, edit-of-deleted, parent-deleted, deletion-of-edited, moved, cycle.
    pub kind: String,
    /// The node.
    pub node: String,
    /// The attribute, if it is about one.
    #[serde(default)]
    pub attribute: Option<String>,
    /// Its value before both.
    #[serde(default)]
    pub base: Option<Value>,
    /// Its value in the tree that is merged into.
    #[serde(default)]
    pub ours: Option<Value>,
    /// Its value in the tree that is merged.
    #[serde(default)]
    pub theirs: Option<Value>,
    /// The same in words.
    pub text: String,
}

impl ConflictView {
    pub(crate) fn of(conflict: &Conflict) -> Self {
        let (kind, node) = match conflict {
            Conflict::Attribute { node, .. } => ("attribute", Some(node)),
            Conflict::EditOfDeleted { node } => ("edit-of-deleted", Some(node)),
            Conflict::ParentDeleted { node, .. } => ("parent-deleted", Some(node)),
            Conflict::DeletionOfEdited { node } => ("deletion-of-edited", Some(node)),
            Conflict::Moved { node, .. } => ("moved", Some(node)),
            Conflict::Cycle { node, .. } => ("cycle", Some(node)),
            _ => ("other", None),
        };
        let mut view = Self {
            kind: kind.to_owned(),
            node: node.map(NodeId::to_string).unwrap_or_default(),
            attribute: None,
            base: None,
            ours: None,
            theirs: None,
            text: conflict.to_string(),
        };
        if let Conflict::Attribute { name, base, ours, theirs, .. } = conflict {
            let value = |bytes: &Option<Vec<u8>>| shown(name, bytes.as_deref());
            view.attribute = Some(name.clone());
            (view.base, view.ours, view.theirs) = (value(base), value(ours), value(theirs));
        }
        view
    }
}

/// A commit that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommittedAnswer {
    /// Its number.
    pub seq: u64,
    /// The position in the log with which a watch goes on behind it.
    pub token: String,
    /// The ids of the nodes that it made, in the order of its operations; of a branch or tree its identity.
    pub made: Vec<String>,
    /// Conflicts that the policy of a merge decided.
    pub conflicts: Vec<ConflictView>,
}

/// A number of a commit, of a snapshot say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeqAnswer {
    /// The commit.
    pub seq: u64,
}

/// Counts of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// The newest commit.
    pub seq: u64,
    /// The position in the log.
    pub token: String,
    /// The durability: sync, interval, none.
    pub durability: String,
    /// The number of trees.
    pub trees: u64,
    /// The number of nodes of all trees, branches counted as if they shared nothing.
    pub nodes: u64,
    /// Versions that are kept of the past.
    pub versions: u64,
    /// The oldest of them.
    pub oldest_version: Option<u64>,
    /// Versions that thinning has given up.
    pub versions_freed: u64,
    /// The oldest commit that is remembered.
    pub oldest_commit: Option<u64>,
    /// The memory of remembered commits, roughly \[B\].
    pub commits_bytes: u64,
    /// Bytes in the directory: log and snapshots \[B\].
    pub disk_bytes: u64,
    /// Commits since the start.
    pub commits: u64,
    /// Transactions without effect since the start.
    pub rejected: u64,
    /// Wishes turned away since the start because too much waited.
    pub busy: u64,
    /// Commits that wait.
    pub waiting: u64,
    /// Connections.
    pub connections: u64,
    /// The reason why nothing is committed any more.
    pub failed: Option<String>,
}
