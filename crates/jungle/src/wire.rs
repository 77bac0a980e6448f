//! Logs and snapshots outlive the program that wrote them: everything on disk is a protobuf message, whose
//! fields have numbers and can be added to, and which any other program can read.
//!
//! A field keeps its number and meaning for ever; a new one must be such that its absence means what it meant
//! before. An operation that this program does not know is an error, never skipped.

use prost::{Message, Oneof};

use crate::attributes::Attributes;
use crate::commit::{Change, Commit, Timestamp, Touch, Touched};
use crate::merge::{Policy, Rule};
use crate::node::NodeId;
use crate::operation::{Edit, Expect, Operation, Precondition, Transaction};
use crate::path::NodePath;
use crate::tree::{Place, Target};

/// Why bytes are no message of ours, or one that a later version wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be read: {0}; it was written by a newer version, or by something else")]
pub struct WireError(pub(crate) String);

impl From<prost::DecodeError> for WireError {
    fn from(error: prost::DecodeError) -> Self {
        Self(error.to_string())
    }
}

fn missing(what: &str) -> WireError {
    WireError(format!("no known {what}"))
}

/// The bytes of a transaction in the log.
pub fn encode(transaction: &Transaction) -> Vec<u8> {
    TransactionMessage::from(transaction).encode_to_vec()
}

/// The transaction of bytes in the log.
///
/// # Errors
/// [`WireError`], if they are none or hold an operation of a later version.
pub fn decode(bytes: &[u8]) -> Result<Transaction, WireError> {
    TransactionMessage::decode(bytes)?.try_into()
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TransactionMessage {
    #[prost(string, tag = "1")]
    author: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(uint64, tag = "3")]
    time: u64,
    #[prost(message, repeated, tag = "4")]
    attributes: Vec<Value>,
    #[prost(message, repeated, tag = "5")]
    preconditions: Vec<PreconditionMessage>,
    #[prost(message, repeated, tag = "6")]
    operations: Vec<OperationMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct PreconditionMessage {
    #[prost(oneof = "PreconditionKind", tags = "1")]
    kind: Option<PreconditionKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum PreconditionKind {
    #[prost(message, tag = "1")]
    Unchanged(Unchanged),
}

#[derive(Clone, PartialEq, Message)]
struct Unchanged {
    #[prost(string, tag = "1")]
    tree: String,
    #[prost(uint64, optional, tag = "2")]
    node: Option<u64>,
    #[prost(uint64, tag = "3")]
    since: u64,
}

#[derive(Clone, PartialEq, Message)]
struct OperationMessage {
    #[prost(oneof = "OperationKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    kind: Option<OperationKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum OperationKind {
    #[prost(message, tag = "1")]
    CreateTree(Named),
    #[prost(message, tag = "2")]
    RenameTree(Named),
    #[prost(message, tag = "3")]
    DropTree(Named),
    #[prost(message, tag = "4")]
    Branch(Named),
    #[prost(message, tag = "5")]
    Merge(Named),
    #[prost(message, tag = "6")]
    MakeIndex(Named),
    #[prost(message, tag = "7")]
    DropIndex(Named),
    #[prost(message, tag = "8")]
    SetRule(Named),
    #[prost(message, tag = "9")]
    Edit(TreeEdit),
    #[prost(message, tag = "10")]
    Tick(Named),
}

/// An operation on names: of a tree, of another or of an attribute.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    tree: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, tag = "3")]
    id: u64,
    /// Addressable trees: 1. Rules and policies: their numbers.
    #[prost(uint32, tag = "4")]
    choice: u32,
}

#[derive(Clone, PartialEq, Message)]
struct TreeEdit {
    #[prost(string, tag = "1")]
    tree: String,
    #[prost(message, optional, tag = "2")]
    edit: Option<EditMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EditMessage {
    #[prost(oneof = "EditKind", tags = "1, 2, 3, 4")]
    kind: Option<EditKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum EditKind {
    #[prost(message, tag = "1")]
    Insert(Insert),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Relocate),
    #[prost(message, tag = "4")]
    Move(Relocate),
}

#[derive(Clone, PartialEq, Message)]
struct TargetMessage {
    #[prost(oneof = "TargetKind", tags = "1, 2")]
    kind: Option<TargetKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum TargetKind {
    #[prost(uint64, tag = "1")]
    Node(u64),
    #[prost(message, tag = "2")]
    Path(Numbers),
}

#[derive(Clone, PartialEq, Message)]
struct Numbers {
    #[prost(uint64, repeated, tag = "1")]
    numbers: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct PlaceMessage {
    #[prost(oneof = "PlaceKind", tags = "1, 2, 3, 4")]
    kind: Option<PlaceKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum PlaceKind {
    #[prost(bool, tag = "1")]
    First(bool),
    #[prost(bool, tag = "2")]
    Last(bool),
    #[prost(uint64, tag = "3")]
    At(u64),
    #[prost(message, tag = "4")]
    After(Numbers),
}

#[derive(Clone, PartialEq, Message)]
struct Insert {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(message, optional, tag = "2")]
    parent: Option<TargetMessage>,
    #[prost(message, optional, tag = "3")]
    place: Option<PlaceMessage>,
    #[prost(message, repeated, tag = "4")]
    attributes: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(message, optional, tag = "1")]
    node: Option<TargetMessage>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    value: Option<Vec<u8>>,
    #[prost(message, optional, tag = "4")]
    expect: Option<Expected>,
}

#[derive(Clone, PartialEq, Message)]
struct Expected {
    #[prost(bytes = "vec", optional, tag = "1")]
    value: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Relocate {
    #[prost(message, optional, tag = "1")]
    node: Option<TargetMessage>,
    #[prost(message, optional, tag = "2")]
    parent: Option<TargetMessage>,
    #[prost(message, optional, tag = "3")]
    place: Option<PlaceMessage>,
    #[prost(uint64, optional, tag = "4")]
    from: Option<u64>,
}

pub(crate) fn values<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<Value> {
    pairs.map(|(name, value)| Value { name: name.to_owned(), value: value.to_vec() }).collect()
}

pub(crate) fn attributes(values: &[Value]) -> Attributes {
    Attributes::of(values.iter().map(|one| (one.name.as_str(), one.value.as_slice())))
}

impl From<&Target> for TargetMessage {
    fn from(target: &Target) -> Self {
        let kind = match target {
            Target::Node(id) => TargetKind::Node(id.to_bits()),
            Target::Path(path) => {
                let numbers = path.positions().iter().map(|position| *position as u64).collect();
                TargetKind::Path(Numbers { numbers })
            }
        };
        Self { kind: Some(kind) }
    }
}

fn target(message: Option<TargetMessage>) -> Result<Target, WireError> {
    match message.and_then(|message| message.kind).ok_or_else(|| missing("target"))? {
        TargetKind::Node(bits) => Ok(Target::Node(NodeId::from_bits(bits))),
        TargetKind::Path(Numbers { numbers }) => {
            let positions: Vec<_> = numbers.into_iter().map(|number| number as usize).collect();
            Ok(Target::Path(NodePath::from(positions)))
        }
    }
}

impl From<&Place> for PlaceMessage {
    fn from(place: &Place) -> Self {
        let kind = match place {
            Place::First => PlaceKind::First(true),
            Place::Last => PlaceKind::Last(true),
            Place::At(position) => PlaceKind::At(*position as u64),
            Place::After(siblings) => {
                let numbers = siblings.iter().map(|id| id.to_bits()).collect();
                PlaceKind::After(Numbers { numbers })
            }
        };
        Self { kind: Some(kind) }
    }
}

fn place(message: Option<PlaceMessage>) -> Result<Place, WireError> {
    Ok(match message.and_then(|message| message.kind).ok_or_else(|| missing("place"))? {
        PlaceKind::First(_) => Place::First,
        PlaceKind::Last(_) => Place::Last,
        PlaceKind::At(position) => Place::At(position as usize),
        PlaceKind::After(Numbers { numbers }) => {
            Place::After(numbers.into_iter().map(NodeId::from_bits).collect())
        }
    })
}

impl From<&Edit> for EditMessage {
    fn from(edit: &Edit) -> Self {
        let kind = match edit {
            Edit::Insert { node, parent, place, attributes } => EditKind::Insert(Insert {
                node: node.to_bits(),
                parent: Some(parent.into()),
                place: Some(place.into()),
                attributes: values(attributes.iter()),
            }),
            Edit::Put { node, name, value, expect } => EditKind::Put(Put {
                node: Some(node.into()),
                name: name.clone(),
                value: value.clone(),
                expect: match expect {
                    Expect::Anything => None,
                    Expect::Value(value) => Some(Expected { value: value.clone() }),
                },
            }),
            Edit::Delete { node, from } => EditKind::Delete(Relocate {
                node: Some(node.into()),
                parent: None,
                place: None,
                from: from.map(NodeId::to_bits),
            }),
            Edit::Move { node, parent, place, from } => EditKind::Move(Relocate {
                node: Some(node.into()),
                parent: Some(parent.into()),
                place: Some(place.into()),
                from: from.map(NodeId::to_bits),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<EditMessage> for Edit {
    type Error = WireError;

    fn try_from(message: EditMessage) -> Result<Self, WireError> {
        Ok(match message.kind.ok_or_else(|| missing("edit"))? {
            EditKind::Insert(insert) => Self::Insert {
                node: NodeId::from_bits(insert.node),
                parent: target(insert.parent)?,
                place: place(insert.place)?,
                attributes: attributes(&insert.attributes),
            },
            EditKind::Put(put) => Self::Put {
                node: target(put.node)?,
                name: put.name,
                value: put.value,
                expect: put.expect.map_or(Expect::Anything, |expect| Expect::Value(expect.value)),
            },
            EditKind::Delete(delete) => Self::Delete {
                node: target(delete.node)?,
                from: delete.from.map(NodeId::from_bits),
            },
            EditKind::Move(relocate) => Self::Move {
                node: target(relocate.node)?,
                parent: target(relocate.parent)?,
                place: place(relocate.place)?,
                from: relocate.from.map(NodeId::from_bits),
            },
        })
    }
}

pub(crate) fn rule_number(rule: Rule) -> u32 {
    match rule {
        Rule::Conflict => 0,
        Rule::LastInLog => 1,
        Rule::Counter => 2,
        Rule::Union => 3,
    }
}

pub(crate) fn rule(number: u32) -> Result<Rule, WireError> {
    let rules = [Rule::Conflict, Rule::LastInLog, Rule::Counter, Rule::Union];
    rules.get(number as usize).copied().ok_or_else(|| missing("rule"))
}

fn policy(number: u32) -> Result<Policy, WireError> {
    let policies = [Policy::Refuse, Policy::Ours, Policy::Theirs];
    policies.get(number as usize).copied().ok_or_else(|| missing("policy"))
}

impl From<&Operation> for OperationMessage {
    fn from(operation: &Operation) -> Self {
        let named = |tree: &str, name: &str| Named {
            tree: tree.to_owned(),
            name: name.to_owned(),
            ..Named::default()
        };
        let kind = match operation {
            Operation::CreateTree { root, name, addressable } => {
                let (id, choice) = (root.to_bits(), u32::from(*addressable));
                OperationKind::CreateTree(Named { id, choice, ..named(name, "") })
            }
            Operation::RenameTree { tree, name } => OperationKind::RenameTree(named(tree, name)),
            Operation::DropTree { tree } => OperationKind::DropTree(named(tree, "")),
            Operation::Tick { tree } => OperationKind::Tick(named(tree, "")),
            Operation::Branch { id, tree, name } => {
                OperationKind::Branch(Named { id: id.to_bits(), ..named(tree, name) })
            }
            Operation::Merge { from, into, policy } => {
                let choice = match policy {
                    Policy::Refuse => 0,
                    Policy::Ours => 1,
                    Policy::Theirs => 2,
                };
                OperationKind::Merge(Named { choice, ..named(from, into) })
            }
            Operation::MakeIndex { tree, attribute } => {
                OperationKind::MakeIndex(named(tree, attribute))
            }
            Operation::DropIndex { tree, attribute } => {
                OperationKind::DropIndex(named(tree, attribute))
            }
            Operation::SetRule { tree, attribute, rule } => {
                let choice = rule_number(*rule);
                OperationKind::SetRule(Named { choice, ..named(tree, attribute) })
            }
            Operation::Edit { tree, edit } => {
                OperationKind::Edit(TreeEdit { tree: tree.clone(), edit: Some(edit.into()) })
            }
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<OperationMessage> for Operation {
    type Error = WireError;

    fn try_from(message: OperationMessage) -> Result<Self, WireError> {
        Ok(match message.kind.ok_or_else(|| missing("operation"))? {
            OperationKind::CreateTree(Named { tree: name, id, choice, .. }) => {
                Self::CreateTree { root: NodeId::from_bits(id), name, addressable: choice == 1 }
            }
            OperationKind::RenameTree(Named { tree, name, .. }) => Self::RenameTree { tree, name },
            OperationKind::DropTree(Named { tree, .. }) => Self::DropTree { tree },
            OperationKind::Tick(Named { tree, .. }) => Self::Tick { tree },
            OperationKind::Branch(Named { tree, name, id, .. }) => {
                Self::Branch { id: NodeId::from_bits(id), tree, name }
            }
            OperationKind::Merge(Named { tree: from, name: into, choice, .. }) => {
                Self::Merge { from, into, policy: policy(choice)? }
            }
            OperationKind::MakeIndex(Named { tree, name: attribute, .. }) => {
                Self::MakeIndex { tree, attribute }
            }
            OperationKind::DropIndex(Named { tree, name: attribute, .. }) => {
                Self::DropIndex { tree, attribute }
            }
            OperationKind::SetRule(Named { tree, name: attribute, choice, .. }) => {
                Self::SetRule { tree, attribute, rule: rule(choice)? }
            }
            OperationKind::Edit(TreeEdit { tree, edit }) => {
                Self::Edit { tree, edit: edit.ok_or_else(|| missing("edit"))?.try_into()? }
            }
        })
    }
}

impl From<&Transaction> for TransactionMessage {
    fn from(transaction: &Transaction) -> Self {
        let precondition = |Precondition::Unchanged { tree, node, since }: &Precondition| {
            let node = node.map(NodeId::to_bits);
            let unchanged = Unchanged { tree: tree.clone(), node, since: *since };
            PreconditionMessage { kind: Some(PreconditionKind::Unchanged(unchanged)) }
        };
        let attributes = transaction.attributes.iter();
        Self {
            author: transaction.author.clone(),
            message: transaction.message.clone(),
            time: transaction.time.0,
            attributes: values(attributes.map(|(name, value)| (&**name, &**value))),
            preconditions: transaction.preconditions.iter().map(precondition).collect(),
            operations: transaction.operations.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<TransactionMessage> for Transaction {
    type Error = WireError;

    fn try_from(message: TransactionMessage) -> Result<Self, WireError> {
        let precondition = |message: PreconditionMessage| match message.kind {
            Some(PreconditionKind::Unchanged(Unchanged { tree, node, since })) => {
                Ok(Precondition::Unchanged { tree, node: node.map(NodeId::from_bits), since })
            }
            None => Err(missing("precondition")),
        };
        let preconditions = message.preconditions.into_iter().map(precondition);
        let operations = message.operations.into_iter().map(Operation::try_from);
        Ok(Self {
            author: message.author,
            message: message.message,
            time: Timestamp(message.time),
            attributes: message.attributes.into_iter().map(|one| (one.name, one.value)).collect(),
            preconditions: preconditions.collect::<Result<_, _>>()?,
            operations: operations.collect::<Result<_, _>>()?,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommitMessage {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(uint64, tag = "2")]
    time: u64,
    #[prost(string, tag = "3")]
    author: String,
    #[prost(string, tag = "4")]
    message: String,
    #[prost(message, repeated, tag = "5")]
    attributes: Vec<Value>,
    #[prost(message, repeated, tag = "6")]
    trees: Vec<TouchedMessage>,
    #[prost(uint32, tag = "7")]
    conflicts: u32,
}

#[derive(Clone, PartialEq, Message)]
struct TouchedMessage {
    #[prost(uint64, tag = "1")]
    tree: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    nodes: Vec<TouchMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct TouchMessage {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(uint64, tag = "2")]
    previous: u64,
    #[prost(uint64, repeated, tag = "3")]
    merged: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    changes: Vec<ChangeMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ChangeMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    name: String,
}

impl From<&Change> for ChangeMessage {
    fn from(change: &Change) -> Self {
        let (kind, name) = match change {
            Change::Put(name) => (1, &**name),
            Change::Removed(name) => (2, &**name),
            Change::Moved => (3, ""),
            Change::Children => (4, ""),
            Change::Returned => (5, ""),
            Change::Deleted => (6, ""),
            Change::Expired => (7, ""),
        };
        Self { kind, name: name.to_owned() }
    }
}

fn change(message: ChangeMessage) -> Result<Change, WireError> {
    Ok(match message.kind {
        1 => Change::Put(message.name.into()),
        2 => Change::Removed(message.name.into()),
        3 => Change::Moved,
        4 => Change::Children,
        5 => Change::Returned,
        6 => Change::Deleted,
        7 => Change::Expired,
        _ => return Err(missing("change")),
    })
}

impl From<&Commit> for CommitMessage {
    fn from(commit: &Commit) -> Self {
        let touch = |(node, touch): &(NodeId, Touch)| TouchMessage {
            node: node.to_bits(),
            previous: touch.previous,
            merged: touch.merged.to_vec(),
            changes: touch.changes.iter().map(Into::into).collect(),
        };
        let touched = |touched: &Touched| TouchedMessage {
            tree: touched.tree.to_bits(),
            name: touched.name.to_string(),
            nodes: touched.nodes.iter().map(touch).collect(),
        };
        Self {
            seq: commit.seq,
            time: commit.time.0,
            author: commit.author.to_string(),
            message: commit.message.to_string(),
            attributes: values(commit.attributes()),
            trees: commit.trees.iter().map(touched).collect(),
            conflicts: commit.conflicts,
        }
    }
}

impl TryFrom<CommitMessage> for Commit {
    type Error = WireError;

    fn try_from(message: CommitMessage) -> Result<Self, WireError> {
        let touch = |message: TouchMessage| {
            let changes = message.changes.into_iter().map(change).collect::<Result<_, _>>()?;
            let mut touch = Touch { changes, ..Touch::since(message.previous) };
            message.merged.into_iter().for_each(|commit| touch.merge(commit));
            Ok::<_, WireError>((NodeId::from_bits(message.node), touch))
        };
        let touched = |message: TouchedMessage| {
            let nodes: Vec<_> = message.nodes.into_iter().map(touch).collect::<Result<_, _>>()?;
            if !nodes.is_sorted_by(|left, right| left.0 < right.0) {
                return Err(WireError("touched nodes are out of order".to_owned()));
            }
            let tree = NodeId::from_bits(message.tree);
            Ok(Touched { tree, name: message.name.into(), nodes })
        };
        Ok(Self {
            seq: message.seq,
            time: Timestamp(message.time),
            author: message.author.into(),
            message: message.message.into(),
            attributes: message.attributes.into_iter().map(|one| (one.name, one.value)).collect(),
            trees: message.trees.into_iter().map(touched).collect::<Result<_, _>>()?,
            conflicts: message.conflicts,
        })
    }
}
