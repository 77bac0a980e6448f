//! A wish as JSON becomes a transaction here, or a problem that names the operation at fault.

use std::collections::BTreeMap;

use jungle::{
    Attributes, BLOB, EXPIRES, Edit, Expect, NodeId, NodePath, Operation, Place, Policy,
    Precondition, Rule, Target, Transaction, Version,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Value, Values};
use crate::lifetime::Lifetime;
use crate::problem::Problem;

/// The side that decides what the rules of merging cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Neither: a merge with a conflict changes nothing.
    #[default]
    Refuse,
    /// The tree that is merged into.
    Ours,
    /// The tree that is merged.
    Theirs,
}

/// The decision between two values that were set side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// Neither wins.
    Conflict,
    /// The later one in the log wins.
    LastInLog,
    /// Differences of whole numbers are added.
    Counter,
    /// Lines of both.
    Union,
}

/// An operation of a transaction. A node is named by its id (`17.0`), its path (`<-1,0,2>` or `-1,0,2`), `root`, or
/// `#LABEL`, if an earlier operation of the transaction made it under that label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum OperationRequest {
    /// Creates a tree.
    CreateTree {
        /// Its name.
        tree: String,
        /// Whether nodes are found by their ids.
        #[serde(default = "yes")]
        addressable: bool,
    },
    /// Renames a tree.
    RenameTree {
        /// Its name.
        tree: String,
        /// Its new name.
        name: String,
    },
    /// Drops a tree.
    DropTree {
        /// Its name.
        tree: String,
    },
    /// Makes a branch.
    Branch {
        /// The tree.
        tree: String,
        /// The name of the branch.
        name: String,
    },
    /// Merges a branch into its origin, or an origin into its branch.
    Merge {
        /// The tree whose changes are brought.
        from: String,
        /// The tree that is changed.
        into: String,
        /// The side that decides conflicts.
        #[serde(default)]
        policy: PolicyName,
    },
    /// Makes an index.
    MakeIndex {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
    },
    /// Drops an index.
    DropIndex {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
    },
    /// Sets the rule of an attribute.
    SetRule {
        /// The tree.
        tree: String,
        /// The attribute.
        attribute: String,
        /// The rule.
        rule: RuleName,
    },
    /// Inserts a node.
    Insert {
        /// The tree.
        tree: String,
        /// The parent.
        parent: String,
        /// The position among its children when the transaction is applied; left out, the end.
        #[serde(default)]
        position: Option<usize>,
        /// Its attributes.
        #[serde(default)]
        attributes: Values,
        /// The time after which it goes with all below it, such as `90s`.
        #[serde(default)]
        ttl: Option<String>,
        /// A name by which later operations of the transaction may call it.
        #[serde(default)]
        label: Option<String>,
    },
    /// Sets attributes, or with null takes them out.
    Put {
        /// The tree.
        tree: String,
        /// The node.
        node: String,
        /// The values.
        #[serde(default)]
        attributes: BTreeMap<String, Option<Value>>,
        /// The values that are to be there; of those not named any.
        #[serde(default)]
        expect: BTreeMap<String, Option<Value>>,
        /// The time from now on after which it goes with all below it, such as `90s`, or `never`.
        #[serde(default)]
        ttl: Option<String>,
    },
    /// Deletes a node with all below it.
    Remove {
        /// The tree.
        tree: String,
        /// The node.
        node: String,
    },
    /// Moves a node with all below it.
    Move {
        /// The tree.
        tree: String,
        /// The node.
        node: String,
        /// Its new parent.
        parent: String,
        /// Its position there, counted without it; left out, the end.
        #[serde(default)]
        position: Option<usize>,
    },
}

fn yes() -> bool {
    true
}

/// A condition that must hold first: no commit after `since` has changed the node or one below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreconditionRequest {
    /// The tree.
    pub tree: String,
    /// The node; left out, the whole tree.
    #[serde(default)]
    pub node: Option<String>,
    /// The newest commit that may have changed it.
    pub since: u64,
}

/// Operations that take effect together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionRequest {
    /// The author.
    #[serde(default)]
    pub author: String,
    /// The reason.
    #[serde(default)]
    pub message: String,
    /// Free attributes of the commit.
    #[serde(default)]
    pub attributes: Values,
    /// Conditions that must hold first.
    #[serde(default)]
    pub preconditions: Vec<PreconditionRequest>,
    /// The operations, in order.
    pub operations: Vec<OperationRequest>,
}

/// A transaction, and the number of ids that it makes.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) transaction: Transaction,
    pub(crate) made: u32,
}

impl Planned {
    pub(crate) fn of(operations: Vec<Operation>, made: u32) -> Self {
        let transaction = Transaction { operations, ..Transaction::default() };
        Self { transaction, made }
    }
}

/// The bytes of a value that came as JSON.
pub(crate) fn bytes(name: &str, value: &Value) -> Result<Vec<u8>, Problem> {
    value.bytes().ok_or_else(|| {
        Problem::bad_request(format!(
            "attribute `{name}`: its `base64` is none; write a text, or base64 with padding"
        ))
    })
}

/// Nothing, unless the attribute is one that is set otherwise.
fn may_set(name: &str) -> Result<(), Problem> {
    if name.starts_with(BLOB) {
        let way = format!("attribute `{name}` names a blob; send it to `.../blobs/NAME`");
        return Err(Problem::bad_request(way));
    }
    if name == EXPIRES {
        let way =
            format!("attribute `{EXPIRES}` holds a deadline; set it by `ttl`, such as \"90s\"");
        return Err(Problem::bad_request(way));
    }
    Ok(())
}

pub(crate) fn attributes(values: &Values) -> Result<Attributes, Problem> {
    let mut pairs = Vec::with_capacity(values.len());
    for (name, value) in values {
        may_set(name)?;
        if name.is_empty() || name.len() > 255 {
            let error = jungle::EditError::Name(name.chars().take(40).collect());
            return Err(error.into());
        }
        pairs.push((&**name, bytes(name, value)?));
    }
    Ok(Attributes::of(pairs.iter().map(|(name, value)| (*name, &**value))))
}

/// A node as somebody names it.
pub(crate) fn target(text: &str) -> Result<Target, Problem> {
    let text = text.trim();
    if text == "root" {
        return Ok(NodePath::root().into());
    }
    if text.contains('.') {
        return Ok(text.parse::<NodeId>().map_err(Problem::bad_request)?.into());
    }
    let path = text.parse::<NodePath>();
    Ok(path
        .map_err(|error| Problem::bad_request(format!("{error}, an id such as 17.0, or root")))?
        .into())
}

/// The same, by id where that is possible: paths shift when siblings come and go.
pub(crate) fn settled(version: &Version, tree: &str, target: Target) -> Target {
    let Target::Path(path) = &target else { return target };
    let found = version.tree(tree).filter(|tree| tree.is_addressable());
    found.and_then(|tree| tree.at(path)).map_or(target.clone(), |node| node.id().into())
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Refuse => Self::Refuse,
            PolicyName::Ours => Self::Ours,
            PolicyName::Theirs => Self::Theirs,
        }
    }
}

impl From<RuleName> for Rule {
    fn from(name: RuleName) -> Self {
        match name {
            RuleName::Conflict => Self::Conflict,
            RuleName::LastInLog => Self::LastInLog,
            RuleName::Counter => Self::Counter,
            RuleName::Union => Self::Union,
        }
    }
}

impl OperationRequest {
    /// The trees that it names and that are there before it.
    fn trees(&self) -> [Option<&str>; 2] {
        match self {
            Self::CreateTree { .. } => [None, None],
            Self::Merge { from, into, .. } => [Some(from), Some(into)],
            Self::RenameTree { tree, .. }
            | Self::DropTree { tree }
            | Self::Branch { tree, .. }
            | Self::MakeIndex { tree, .. }
            | Self::DropIndex { tree, .. }
            | Self::SetRule { tree, .. }
            | Self::Insert { tree, .. }
            | Self::Put { tree, .. }
            | Self::Remove { tree, .. }
            | Self::Move { tree, .. } => [Some(tree), None],
        }
    }
}

impl TransactionRequest {
    /// The trees that are looked at before it is decided.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &str> {
        let conditions = self.preconditions.iter().map(|condition| &*condition.tree);
        conditions.chain(self.operations.iter().flat_map(OperationRequest::trees).flatten())
    }

    /// The transaction, on a version in which nodes are looked for by their paths.
    pub(crate) fn planned(&self, version: &Version) -> Result<Planned, Problem> {
        let mut plan = Plan { version, labels: BTreeMap::new(), made: 0, operations: Vec::new() };
        for (number, operation) in self.operations.iter().enumerate() {
            plan.add(operation).map_err(|problem| Problem {
                detail: format!("operation {number}: {}", problem.detail).into(),
                ..problem
            })?;
        }
        let (operations, made) = (plan.operations, plan.made);
        let mut transaction = Transaction {
            author: self.author.clone(),
            message: self.message.clone(),
            operations,
            ..Transaction::default()
        };
        for (name, value) in &self.attributes {
            transaction.attributes.push((name.clone(), bytes(name, value)?));
        }
        for one in &self.preconditions {
            transaction.preconditions.push(one.resolved(version)?);
        }
        Ok(Planned { transaction, made })
    }
}

impl PreconditionRequest {
    fn resolved(&self, version: &Version) -> Result<Precondition, Problem> {
        let node = match &self.node {
            None => None,
            Some(text) => match settled(version, &self.tree, target(text)?) {
                Target::Node(id) => Some(id),
                Target::Path(path) => {
                    return Err(Problem::not_found(jungle::EditError::NoSuchPath(path)));
                }
            },
        };
        Ok(Precondition::Unchanged { tree: self.tree.clone(), node, since: self.since })
    }
}

struct Plan<'a> {
    version: &'a Version,
    labels: BTreeMap<&'a str, NodeId>,
    made: u32,
    operations: Vec<Operation>,
}

impl<'a> Plan<'a> {
    fn make(&mut self) -> Result<NodeId, Problem> {
        if self.made > NodeId::PER_COMMIT_MAX {
            return Err(Problem::too_large(format!(
                "a transaction makes at most {} nodes; commit them in parts",
                NodeId::PER_COMMIT_MAX
            )));
        }
        self.made += 1;
        Ok(NodeId::pending(self.made - 1))
    }

    fn node(&self, tree: &str, text: &str) -> Result<Target, Problem> {
        if let Some(label) = text.strip_prefix('#') {
            let id = self.labels.get(label).copied();
            let none =
                || Problem::bad_request(format!("no earlier operation has the label `{label}`"));
            return Ok(id.ok_or_else(none)?.into());
        }
        Ok(settled(self.version, tree, target(text)?))
    }

    fn edit(&mut self, tree: &str, edit: Edit) {
        self.operations.push(Operation::Edit { tree: tree.to_owned(), edit });
    }

    fn add(&mut self, operation: &'a OperationRequest) -> Result<(), Problem> {
        let done = match operation {
            OperationRequest::CreateTree { tree, addressable } => Operation::CreateTree {
                root: self.make()?,
                name: tree.clone(),
                addressable: *addressable,
            },
            OperationRequest::RenameTree { tree, name } => {
                Operation::RenameTree { tree: tree.clone(), name: name.clone() }
            }
            OperationRequest::DropTree { tree } => Operation::DropTree { tree: tree.clone() },
            OperationRequest::Branch { tree, name } => {
                Operation::Branch { id: self.make()?, tree: tree.clone(), name: name.clone() }
            }
            OperationRequest::Merge { from, into, policy } => Operation::Merge {
                from: from.clone(),
                into: into.clone(),
                policy: (*policy).into(),
            },
            OperationRequest::MakeIndex { tree, attribute } => {
                Operation::MakeIndex { tree: tree.clone(), attribute: attribute.clone() }
            }
            OperationRequest::DropIndex { tree, attribute } => {
                Operation::DropIndex { tree: tree.clone(), attribute: attribute.clone() }
            }
            OperationRequest::SetRule { tree, attribute, rule } => Operation::SetRule {
                tree: tree.clone(),
                attribute: attribute.clone(),
                rule: (*rule).into(),
            },
            edit => return self.add_edit(edit),
        };
        self.operations.push(done);
        Ok(())
    }

    fn add_edit(&mut self, operation: &'a OperationRequest) -> Result<(), Problem> {
        let place = |position: &Option<usize>| position.map_or(Place::Last, Place::At);
        match operation {
            OperationRequest::Insert { tree, parent, position, attributes: values, ttl, label } => {
                let (parent, mut attributes) = (self.node(tree, parent)?, attributes(values)?);
                if let Some(ttl) = Lifetime::of(ttl.as_ref())? {
                    attributes = attributes.expiring(ttl.deadline(self.version));
                }
                let node = self.make()?;
                if let Some(label) = label
                    && self.labels.insert(label, node).is_some()
                {
                    let taken = format!("label `{label}` is taken; give each node its own");
                    return Err(Problem::bad_request(taken));
                }
                let place = place(position);
                self.edit(tree, Edit::Insert { node, parent, place, attributes });
            }
            OperationRequest::Put { tree, node, attributes, expect, ttl } => {
                let node = self.node(tree, node)?;
                for edit in puts(&node, attributes, expect)? {
                    self.edit(tree, edit);
                }
                let ttl = Lifetime::of(ttl.as_ref())?;
                if let Some(edit) = ttl.and_then(|ttl| ttl.edit(self.version, tree, &node)) {
                    self.edit(tree, edit);
                }
            }
            OperationRequest::Remove { tree, node } => {
                let node = self.node(tree, node)?;
                self.edit(tree, Edit::Delete { node, from: None });
            }
            OperationRequest::Move { tree, node, parent, position } => {
                let (node, parent) = (self.node(tree, node)?, self.node(tree, parent)?);
                let place = place(position);
                self.edit(tree, Edit::Move { node, parent, place, from: None });
            }
            _ => unreachable!("the others are no edits"),
        }
        Ok(())
    }
}

/// Edits that set attributes of a node. Without an expectation the last one in the log wins.
pub(crate) fn puts(
    node: &Target,
    attributes: &BTreeMap<String, Option<Value>>,
    expect: &BTreeMap<String, Option<Value>>,
) -> Result<Vec<Edit>, Problem> {
    if let Some(name) = expect.keys().find(|name| !attributes.contains_key(*name)) {
        return Err(Problem::bad_request(format!(
            "`expect` names attribute `{name}`, which `attributes` does not set"
        )));
    }
    let value = |name: &str, value: &Option<Value>| -> Result<_, Problem> {
        value.as_ref().map(|value| bytes(name, value)).transpose()
    };
    let mut edits = Vec::new();
    for (name, wished) in attributes {
        may_set(name)?;
        let expect = match expect.get(name) {
            Some(expected) => Expect::Value(value(name, expected)?),
            None => Expect::Anything,
        };
        let value = value(name, wished)?;
        edits.push(Edit::Put { node: node.clone(), name: name.clone(), value, expect });
    }
    Ok(edits)
}
