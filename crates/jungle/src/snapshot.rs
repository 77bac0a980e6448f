//! A start must not replay the whole past: a snapshot is a version written out while everybody goes on, and
//! the log counts from there.
//!
//! Nodes come before their children, with the number of these, so that a tree of any depth is read by a stack
//! of its own. A branch is written as edits of its origin, so that it costs what it changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::{Message, Oneof};

use crate::commit::{Commit, Timestamp};
use crate::diff::Diff;
use crate::disk::{Disk, DiskError};
use crate::map::{Map, Pair};
use crate::merge::{self, Policy};
use crate::node::{Node, NodeId};
use crate::operation::Edit;
use crate::sequence::Sequence;
use crate::tree::{Draft, Fork, Tree};
use crate::version::Version;
use crate::wire::{self, CommitMessage, EditMessage, Value, WireError};

const MAGIC: &[u8; 8] = b"JungleS1";
const PREFIX: &str = "snapshot-";
const PART: &str = ".part";
/// Before the name of a snapshot that is damaged.
const ASIDE: &str = "damaged-";
/// The most nodes, edits or commits of one block.
const ROWS: usize = 256;
/// The bytes at which a block is closed \[B\].
const BLOCK_BYTES: usize = 4 << 20;
/// The most nodes of a block whose newest changes are told.
const CHANGES: usize = 1 << 16;
/// The format that this program writes. It reads all from 1 on.
const FORMAT: u32 = 1;

/// Why a snapshot is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A block is damaged or the file ends early.
    #[error("{file}: damaged at byte {offset}: {cause}")]
    Damaged {
        /// The file.
        file: String,
        /// The place in it \[B\].
        offset: u64,
        /// The cause.
        cause: String,
    },
}

#[derive(Clone, PartialEq, Message)]
struct Frame {
    #[prost(oneof = "Part", tags = "1, 2, 3, 4, 5, 6, 7")]
    part: Option<Part>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Part {
    #[prost(message, tag = "1")]
    Begin(Begin),
    #[prost(message, tag = "2")]
    Tree(TreeMessage),
    #[prost(message, tag = "3")]
    Rows(Rows),
    #[prost(message, tag = "4")]
    Edits(Edits),
    /// The base of a branch is complete, its own edits follow.
    #[prost(bool, tag = "5")]
    Branched(bool),
    #[prost(message, tag = "6")]
    Commits(Commits),
    #[prost(message, tag = "7")]
    End(EndMessage),
}

#[derive(Clone, PartialEq, Message)]
struct Begin {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    seq: u64,
    #[prost(uint64, tag = "3")]
    time: u64,
}

#[derive(Clone, PartialEq, Message)]
struct TreeMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    id: u64,
    #[prost(bool, tag = "3")]
    addressable: bool,
    #[prost(string, repeated, tag = "4")]
    indexes: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    rules: Vec<RuleMessage>,
    /// The identity of the origin of a branch.
    #[prost(uint64, optional, tag = "6")]
    origin: Option<u64>,
    /// The tree, written before, that the base of the branch is edited from; without it rows follow.
    #[prost(string, optional, tag = "7")]
    edited_from: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct RuleMessage {
    #[prost(string, tag = "1")]
    attribute: String,
    #[prost(uint32, tag = "2")]
    rule: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Rows {
    #[prost(message, repeated, tag = "1")]
    rows: Vec<Row>,
}

#[derive(Clone, PartialEq, Message)]
struct Row {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    changed: u64,
    #[prost(uint64, tag = "3")]
    children: u64,
    #[prost(message, repeated, tag = "4")]
    attributes: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Edits {
    #[prost(message, repeated, tag = "1")]
    edits: Vec<EditMessage>,
    /// Nodes, each followed by its newest change.
    #[prost(uint64, repeated, tag = "2")]
    changed: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Commits {
    #[prost(message, repeated, tag = "1")]
    commits: Vec<CommitMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct EndMessage {
    #[prost(bytes = "vec", tag = "1")]
    hash: Vec<u8>,
}

/// The name of the snapshot of a version.
pub(crate) fn file_of(seq: u64) -> String {
    format!("{PREFIX}{seq:020}")
}

/// The versions that have snapshots, newest first.
pub(crate) fn versions(files: &[String]) -> Vec<u64> {
    let mut versions: Vec<u64> =
        files.iter().filter_map(|file| file.strip_prefix(PREFIX)?.parse().ok()).collect();
    versions.sort_unstable_by(|left, right| right.cmp(left));
    versions
}

/// The files of snapshots that were not finished.
pub(crate) fn unfinished(files: &[String]) -> impl Iterator<Item = &str> {
    let is_part = |file: &&String| file.starts_with(PREFIX) && file.ends_with(PART);
    files.iter().filter(is_part).map(String::as_str)
}

/// Writes a snapshot of a version, which somebody holds for so long. It counts only when all of it is safe.
///
/// # Errors
/// [`DiskError`]; nothing has changed then.
pub fn write_snapshot<D: Disk>(disk: &mut D, version: &Version) -> Result<String, DiskError> {
    let file = file_of(version.seq);
    let part = format!("{file}{PART}");
    if let Err(error) = write_part(disk, &part, version) {
        // It takes room that may be short. If it cannot be removed now, the next start does it.
        let _ = disk.remove(&part);
        return Err(error);
    }
    disk.rename(&part, &file)?;
    disk.sync_directory()?;
    Ok(file)
}

fn write_part<D: Disk>(disk: &mut D, part: &str, version: &Version) -> Result<(), DiskError> {
    disk.create(part, 0)?;
    disk.write(part, 0, MAGIC)?;
    let mut offset = MAGIC.len() as u64;
    for block in blocks(version) {
        let block = framed(part, block)?;
        disk.write(part, offset, &block)?;
        offset += block.len() as u64;
    }
    disk.sync(part)
}

/// Sets damaged snapshots aside, where they count no more and may still be looked at, in the place of those that
/// were set aside before.
pub(crate) fn set_aside<D: Disk>(disk: &mut D, damaged: &[u64]) -> Result<(), DiskError> {
    if damaged.is_empty() {
        return Ok(());
    }
    for file in disk.list()?.iter().filter(|file| file.starts_with(ASIDE)) {
        disk.remove(file)?;
    }
    for seq in damaged {
        let file = file_of(*seq);
        disk.rename(&file, &format!("{ASIDE}{file}"))?;
    }
    disk.sync_directory()
}

/// The messages of the blocks of a snapshot.
fn blocks(version: &Version) -> impl Iterator<Item = Part> {
    let begin = Begin { format: FORMAT, seq: version.seq, time: version.time.0 };
    let commits = chunked(version.commits.iter().map(CommitMessage::from));
    std::iter::once(Part::Begin(begin))
        .chain(in_order(version).into_iter().flat_map(|(name, origin)| tree(version, name, origin)))
        .chain(commits.map(|commits| Part::Commits(Commits { commits })))
        .chain(std::iter::once_with(|| Part::End(EndMessage { hash: version.hash().to_vec() })))
}

/// A block: length, checksum, message.
fn framed(file: &str, part: Part) -> Result<Vec<u8>, DiskError> {
    let message = Frame { part: Some(part) }.encode_to_vec();
    let length = u32::try_from(message.len()).map_err(|_| DiskError::Failed {
        file: file.to_owned(),
        action: "encode",
        cause: format!(
            "a node or a commit of {} B; a snapshot takes less than 4 GiB",
            message.len()
        ),
    })?;
    let mut block = Vec::with_capacity(8 + message.len());
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(&crc32c::crc32c(&message).to_le_bytes());
    block.extend_from_slice(&message);
    Ok(block)
}

/// Lists of at most [`ROWS`] messages, which end where they have [`BLOCK_BYTES`].
fn chunked<T: Message>(mut all: impl Iterator<Item = T>) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while chunk.len() < ROWS && bytes < BLOCK_BYTES {
            let Some(one) = all.next() else { break };
            bytes += one.encoded_len();
            chunk.push(one);
        }
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// All trees, origins before their branches, each with the name of its origin if that is there.
fn in_order(version: &Version) -> Vec<(&str, Option<&str>)> {
    let mut order: Vec<(&str, Option<&str>)> = Vec::new();
    let mut written = BTreeSet::new();
    let names: std::collections::BTreeMap<NodeId, &str> =
        version.trees.iter().map(|pair| (pair.value.id, &*pair.key)).collect();
    for pair in version.trees.iter() {
        // From the tree up to the first origin that is written already or is none.
        let mut line = Vec::new();
        let mut at = Some((&*pair.key, &pair.value));
        while let Some((name, tree)) = at.take_if(|(_, tree)| !written.contains(&tree.id)) {
            let origin = tree.fork.as_ref().and_then(|fork| names.get(&fork.origin)).copied();
            line.push((tree.id, name, origin));
            let above =
                origin.and_then(|origin| Some((origin, version.trees.get(&origin.into())?)));
            at = above;
        }
        for (id, name, origin) in line.into_iter().rev() {
            written.insert(id);
            order.push((name, origin));
        }
    }
    order
}

fn tree<'a>(
    version: &'a Version,
    name: &'a str,
    origin: Option<&'a str>,
) -> Box<dyn Iterator<Item = Part> + 'a> {
    let tree = version.tree(name).expect("it was listed");
    let rule = |pair: &Pair<Arc<str>, merge::Rule>| RuleMessage {
        attribute: pair.key.to_string(),
        rule: wire::rule_number(pair.value),
    };
    let head = Part::Tree(TreeMessage {
        name: name.to_owned(),
        id: tree.id.to_bits(),
        addressable: tree.is_addressable(),
        indexes: tree.indexed().map(str::to_owned).collect(),
        rules: tree.rules.iter().map(rule).collect(),
        origin: tree.fork.as_ref().map(|fork| fork.origin.to_bits()),
        edited_from: origin.map(str::to_owned),
    });
    let head = std::iter::once(head);
    let Some(fork) = &tree.fork else { return Box::new(head.chain(rows(tree))) };
    let base: Box<dyn Iterator<Item = Part>> = match origin {
        Some(origin) => edits(version.tree(origin).expect("it was listed"), &fork.base),
        None => Box::new(rows(&fork.base)),
    };
    let branched = std::iter::once(Part::Branched(true));
    Box::new(head.chain(base).chain(branched).chain(edits(&fork.base, tree)))
}

fn rows(tree: &Tree) -> impl Iterator<Item = Part> {
    let rows = tree.root.walk().map(|node| Row {
        id: node.id.to_bits(),
        changed: node.changed,
        children: node.len() as u64,
        attributes: wire::values(node.attributes()),
    });
    chunked(rows).map(|rows| Part::Rows(Rows { rows }))
}

/// The edits that make one tree of another.
fn edits<'a>(from: &'a Tree, to: &'a Tree) -> Box<dyn Iterator<Item = Part> + 'a> {
    let diff = Diff::of(from, to);
    let changed: Vec<Vec<u64>> = diff
        .walked
        .chunks(CHANGES)
        .map(|nodes| nodes.iter().flat_map(|node| [node.id.to_bits(), node.changed]).collect())
        .collect();
    let draft = Draft::new(from.clone(), to.root.changed);
    let plan = merge::plan_of(&diff, [from, from, to], Policy::Theirs, draft);
    assert!(plan.conflicts.is_empty(), "a tree cannot conflict with itself");
    let edits: Vec<Edit> = plan.edits;
    let edits = chunked(edits.into_iter().map(|edit| EditMessage::from(&edit)));
    let edits = edits.map(|edits| Part::Edits(Edits { edits, changed: Vec::new() }));
    let changed =
        changed.into_iter().map(|changed| Part::Edits(Edits { edits: Vec::new(), changed }));
    Box::new(edits.chain(changed))
}

/// Reads a snapshot, and checks it by the hash that it was written with.
///
/// # Errors
/// [`SnapshotError`].
pub fn read_snapshot<D: Disk>(disk: &D, seq: u64) -> Result<Version, SnapshotError> {
    let file = file_of(seq);
    let bytes = disk.read(&file)?;
    let mut reader = Reader::default();
    let mut offset = MAGIC.len();
    let damaged = |offset: usize, cause: &str| SnapshotError::Damaged {
        file: file.clone(),
        offset: offset as u64,
        cause: cause.to_owned(),
    };
    if bytes.get(..offset) != Some(MAGIC) {
        return Err(damaged(0, "not a snapshot"));
    }
    loop {
        let Some((message, end)) = block(&bytes, offset) else {
            return Err(damaged(offset, "a block is wrong or cut"));
        };
        let frame = Frame::decode(message).map_err(WireError::from);
        let done = frame.and_then(|frame| reader.add(frame));
        match done.map_err(|error| damaged(offset, &error.0))? {
            Some(version) => return Ok(version),
            None => offset = end,
        }
    }
}

fn block(bytes: &[u8], offset: usize) -> Option<(&[u8], usize)> {
    let header = bytes.get(offset..offset + 8)?;
    let length = u32::from_le_bytes(header[..4].try_into().expect("four")) as usize;
    let end = (offset + 8).checked_add(length)?;
    let message = bytes.get(offset + 8..end)?;
    let crc = u32::from_le_bytes(header[4..].try_into().expect("four"));
    (crc32c::crc32c(message) == crc).then_some((message, end))
}

/// A version in the making, frame by frame.
#[derive(Default)]
struct Reader {
    version: Version,
    /// The identities of all trees so far.
    identities: BTreeSet<NodeId>,
    tree: Option<Reading>,
    next_commit: Option<u64>,
}

/// A tree that is being read.
struct Reading {
    head: TreeMessage,
    open: Vec<OpenNode>,
    /// The base of a branch until it is complete, then the branch; or the tree.
    draft: Option<Draft>,
    base: Option<Tree>,
}

/// A node some of whose children are to come.
struct OpenNode {
    node: Node,
    missing: u64,
    children: Vec<Arc<Node>>,
}

fn wrong(cause: &str) -> WireError {
    WireError(cause.to_owned())
}

impl Reader {
    fn add(&mut self, frame: Frame) -> Result<Option<Version>, WireError> {
        match frame.part.ok_or_else(|| wrong("a block of a newer version"))? {
            Part::Begin(begin) if begin.format <= FORMAT => {
                (self.version.seq, self.version.time) = (begin.seq, Timestamp(begin.time));
            }
            Part::Begin(begin) => {
                return Err(WireError(format!(
                    "format {}, and {FORMAT} is the last known",
                    begin.format
                )));
            }
            Part::Tree(head) => {
                self.finish_tree()?;
                let origin = head.edited_from.as_deref().filter(|_| head.origin.is_some());
                let draft = match origin {
                    Some(origin) => {
                        let origin = self.version.tree(origin).ok_or_else(|| wrong("no origin"))?;
                        let bare = crate::version::bare(origin);
                        Some(Draft::new(bare, self.version.seq))
                    }
                    None => None,
                };
                self.tree = Some(Reading { head, open: Vec::new(), draft, base: None });
            }
            Part::Rows(rows) => {
                let tree = self.tree.as_mut().ok_or_else(|| wrong("nodes without a tree"))?;
                rows.rows.into_iter().try_for_each(|row| tree.row(row))?;
            }
            Part::Edits(edits) => {
                let tree = self.tree.as_mut().ok_or_else(|| wrong("edits without a tree"))?;
                tree.edits(edits)?;
            }
            Part::Branched(_) => {
                let tree = self.tree.as_mut().ok_or_else(|| wrong("a branch without a tree"))?;
                let draft = tree.draft.take().ok_or_else(|| wrong("a branch without a base"))?;
                tree.base = Some(draft.tree.clone());
                tree.draft = Some(Draft::new(draft.tree, self.version.seq));
            }
            Part::Commits(commits) => {
                for message in commits.commits {
                    let commit = Commit::try_from(message)?;
                    if self.next_commit.is_some_and(|next| next != commit.seq) {
                        return Err(wrong("commits with a gap"));
                    }
                    self.next_commit = Some(commit.seq + 1);
                    self.version.commits.push(commit);
                }
            }
            Part::End(end) => {
                self.finish_tree()?;
                if end.hash != self.version.hash() {
                    return Err(wrong("the hash of the trees is another"));
                }
                return Ok(Some(std::mem::take(&mut self.version)));
            }
        }
        Ok(None)
    }

    fn finish_tree(&mut self) -> Result<(), WireError> {
        let Some(Reading { head, draft, base, open }) = self.tree.take() else { return Ok(()) };
        let draft = draft.filter(|_| open.is_empty()).ok_or_else(|| wrong("a tree is cut"))?;
        let mut tree = draft.tree;
        tree.id = NodeId::from_bits(head.id);
        if !self.identities.insert(tree.id) {
            return Err(wrong("two trees of one identity"));
        }
        for RuleMessage { attribute, rule } in head.rules {
            tree.rules.insert(attribute.into(), wire::rule(rule)?);
        }
        for attribute in head.indexes {
            let index = tree.build_index(&attribute);
            tree.indexes.insert(attribute.into(), index);
        }
        if let Some(origin) = head.origin {
            let base = base.ok_or_else(|| wrong("a branch without a base"))?;
            tree.fork = Some(Arc::new(Fork { origin: NodeId::from_bits(origin), base }));
        }
        let name: Arc<str> = head.name.into();
        tree.next_deadline().map(|at| self.version.due.insert((at, Arc::clone(&name)), ()));
        self.version.trees.insert(name, Arc::new(tree));
        Ok(())
    }
}

impl Reading {
    fn row(&mut self, row: Row) -> Result<(), WireError> {
        if self.draft.is_some() {
            return Err(wrong("more nodes than a tree has"));
        }
        let (id, attributes) = (NodeId::from_bits(row.id), wire::attributes(&row.attributes));
        let node = Node::new(id, row.changed, attributes);
        self.open.push(OpenNode { node, missing: row.children, children: Vec::new() });
        while self.open.last().is_some_and(|open| open.missing == 0) {
            let OpenNode { mut node, children, .. } = self.open.pop().expect("it was looked at");
            node.children = Sequence::from_items(children);
            match self.open.last_mut() {
                Some(parent) => {
                    parent.children.push(Arc::new(node));
                    parent.missing -= 1;
                }
                None => {
                    let tree = whole(node, &self.head)?;
                    self.draft = Some(Draft::new(tree, u64::MAX));
                }
            }
        }
        Ok(())
    }

    fn edits(&mut self, edits: Edits) -> Result<(), WireError> {
        let draft = self.draft.as_mut().ok_or_else(|| wrong("edits before nodes"))?;
        for message in edits.edits {
            let edit = Edit::try_from(message)?;
            edit.apply(draft).map_err(|error| WireError(error.to_string()))?;
        }
        for pair in edits.changed.chunks_exact(2) {
            let done = draft.set_changed(NodeId::from_bits(pair[0]), pair[1]);
            done.map_err(|error| WireError(error.to_string()))?;
        }
        draft.touched = crate::commit::Touches::default();
        Ok(())
    }
}

/// A tree of its root.
fn whole(root: Node, head: &TreeMessage) -> Result<Tree, WireError> {
    let mut tree = Tree::new(NodeId::from_bits(head.id), root.id, root.changed, head.addressable);
    tree.root = Arc::new(root);
    let mut places = Vec::new();
    for node in tree.root.walk() {
        places.extend(node.children().map(|child| Pair { key: child.id, value: node.id }));
    }
    tree.nodes = places.len() as u64 + 1;
    if head.addressable {
        places.sort_unstable_by_key(|place| place.key);
        if !places.is_sorted_by(|left, right| left.key < right.key) {
            return Err(wrong("a node is there twice"));
        }
        tree.places = Some(Map::from_ascending(places));
    }
    tree.deadlines = tree.build_deadlines();
    tree.blobs = tree.build_blobs();
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, NodeId, Transaction};

    /// The story: a block had up to 256 nodes, of whatever size: beyond 4 GiB its length was written modulo 2^32.
    #[test]
    fn blocks_are_bounded_by_bytes_not_by_nodes_alone() {
        let mut database = Database::default();
        database.create_tree("main").unwrap();
        let root = NodeId::new(1, 0);
        let (large, small) = (vec![7; 3 << 20], vec![7; 200]);
        for value in std::iter::repeat_n(&large, 6).chain(std::iter::repeat_n(&small, 600)) {
            database.commit(&Transaction::append("main", root, [("v", &value[..])])).unwrap();
        }
        database.branch("main", "draft").unwrap();
        for value in [&large; 4] {
            database.commit(&Transaction::append("draft", root, [("v", &value[..])])).unwrap();
        }
        let lengths: Vec<usize> =
            blocks(database.private()).map(|part| framed("file", part).unwrap().len()).collect();
        let most = lengths.iter().max().unwrap();
        assert!(*most < BLOCK_BYTES + (3 << 20) + 1_000, "a block of {most} B");
        assert!(lengths.len() < 25, "{lengths:?}");
    }
}
