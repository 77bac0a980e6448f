//! Edits: each becomes a transaction on the newest version, and is answered when the log has it.

use std::sync::Arc;

use hyper::StatusCode;
use jungle::{
    Database, Edit, EditError, Editor, NodeId, Operation, PastError, Precondition, Target,
    Transaction, Version,
};

use crate::answer::{CommittedAnswer, ConflictView};
use crate::bodies::{Create, Insert, Merge, Move, Name, Put, SetRule};
use crate::exchange::{Ask, Reply, json, set};
use crate::idempotency::ATTRIBUTE;
use crate::lifetime::{Lifetime, now};
use crate::problem::Problem;
use crate::reads::{node_of, tag, tags, tree_of};
use crate::request::{Planned, TransactionRequest, attributes, puts, settled, target};
use crate::shared::Shared;
use crate::store::StoreError;

/// How often an edit is decided anew, if others changed the same meanwhile and whoever asked has not said what he
/// had seen.
const TRIES: usize = 8;

/// A node or tree that must be as whoever asks has seen it.
pub(crate) struct Guard<'a> {
    pub(crate) tree: &'a str,
    pub(crate) node: Option<&'a str>,
}

impl Guard<'_> {
    /// The condition of `If-Match` on a version; `None` without the header.
    fn precondition(
        &self,
        ask: &Ask,
        shared: &Shared,
        version: &Version,
    ) -> Result<Option<Precondition>, Problem> {
        let Some(wanted) = ask.header("if-match")? else { return Ok(None) };
        let tree = tree_of(version, self.tree)?;
        let node = self.node.map(|node| node_of(tree, node)).transpose()?;
        if wanted.trim() == "*" {
            return Ok(None);
        }
        let changed = node.map_or(tree.changed(), jungle::Node::changed);
        let own = tag(&shared.store, changed);
        if !tags(wanted).any(|one| one == own) {
            return Err(Problem::stale(format!(
                "it is at {own} and not at {wanted}; read it again and decide anew"
            )));
        }
        let by_id = tree.is_addressable();
        let (node, since) = match node {
            Some(node) if by_id => (Some(node.id()), changed),
            // Of a tree without addresses by id all must stay.
            _ => (None, tree.changed()),
        };
        Ok(Some(Precondition::Unchanged { tree: self.tree.to_owned(), node, since }))
    }
}

/// Commits a transaction, with the author and the reason of the headers if it has none.
async fn once(
    ask: &Ask,
    shared: &Shared,
    Planned { mut transaction, made }: Planned,
) -> Result<Result<CommittedAnswer, StoreError>, Problem> {
    if transaction.author.is_empty() {
        ask.header("jungle-author")?.unwrap_or_default().clone_into(&mut transaction.author);
    }
    if transaction.message.is_empty() {
        ask.header("jungle-message")?.unwrap_or_default().clone_into(&mut transaction.message);
    }
    transaction.author = ask.caller.author(&transaction.author)?;
    ask.caller.must_commit(&transaction)?;
    transaction.time = now();
    if let Some(key) = &ask.key {
        transaction.attributes.push((ATTRIBUTE.to_owned(), key.written(made)));
    }
    let committed = shared.store.commit(transaction, ask.body.len() as u64).await;
    Ok(committed.map(|committed| {
        if let Some(key) = ask.key {
            shared.keys.keep(key, committed.seq, made, committed.conflicts.len() as u32);
        }
        let made = (0..made).map(|index| NodeId::new(committed.seq, index).to_string());
        CommittedAnswer {
            seq: committed.seq,
            token: format!("{}.{}", shared.store.generation(), committed.seq),
            made: made.collect(),
            conflicts: committed.conflicts.iter().map(ConflictView::of).collect(),
        }
    }))
}

/// Commits what `plan` makes of the newest version.
pub(crate) async fn commit(
    ask: &Ask,
    shared: &Shared,
    guard: Option<Guard<'_>>,
    plan: impl Fn(&Version) -> Result<Planned, Problem>,
) -> Result<CommittedAnswer, Problem> {
    commit_within(TRIES, ask, shared, guard, plan).await
}

/// The same, decided anew so often if others changed the same meanwhile.
async fn commit_within(
    tries_max: usize,
    ask: &Ask,
    shared: &Shared,
    guard: Option<Guard<'_>>,
    plan: impl Fn(&Version) -> Result<Planned, Problem>,
) -> Result<CommittedAnswer, Problem> {
    let mut tries = 0;
    loop {
        let version = shared.store.version();
        let mut planned = plan(&version)?;
        let condition = guard.as_ref().map(|guard| guard.precondition(ask, shared, &version));
        let condition = condition.transpose()?.flatten();
        let is_free = condition.is_none();
        planned.transaction.preconditions.extend(condition);
        drop(version);
        match once(ask, shared, planned).await? {
            Ok(answer) => return Ok(answer),
            Err(error) if is_free && tries < tries_max && Problem::is_race(&error) => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The answer to a commit.
pub(crate) fn committed(status: StatusCode, answer: &CommittedAnswer) -> Reply {
    let mut reply = json(status, answer);
    set(&mut reply, "jungle-token", &answer.token);
    reply
}

/// Commits what is planned of the past, a revert say, and plans it anew if others come between.
pub(crate) async fn commit_past(
    ask: &Ask,
    shared: &Shared,
    plan: impl Fn(&Database) -> Result<Transaction, PastError> + Clone + Send + 'static,
) -> Result<Reply, Problem> {
    if ask.header("if-match")?.is_some() {
        return Err(Problem::bad_request("`If-Match` has no meaning here; leave it out"));
    }
    let mut tries = 0;
    loop {
        let plan = plan.clone();
        let transaction = shared.store.look(move |database| plan(database)).await??;
        match once(ask, shared, Planned { transaction, made: 0 }).await? {
            Ok(answer) => return Ok(committed(StatusCode::OK, &answer)),
            Err(error) if tries < TRIES && Problem::is_race(&error) => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// One operation on a tree as a whole.
async fn alone(
    ask: &Ask,
    shared: &Shared,
    status: StatusCode,
    tree: &str,
    (operation, made): (Operation, u32),
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let plan = |_: &Version| Ok(Planned::of(vec![operation.clone()], made));
    let guard = Some(Guard { tree, node: None });
    Ok(committed(status, &commit(ask, shared, guard, plan).await?))
}

/// `POST /transactions`.
pub(crate) async fn transaction(ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let request: TransactionRequest = ask.json()?;
    if request.attributes.contains_key(ATTRIBUTE) {
        let wrong = format!("`{ATTRIBUTE}` is an attribute that the server sets; send the header");
        return Err(Problem::bad_request(wrong));
    }
    // Before it is planned: that a node is there or not is for those alone who may read its tree.
    request.trees().try_for_each(|tree| ask.caller.must_read(tree))?;
    let plan = |version: &Version| request.planned(version);
    // It says itself what it expects.
    Ok(committed(StatusCode::OK, &commit_within(0, &ask, shared, None, plan).await?))
}

/// `PUT /trees/TREE`.
pub(crate) async fn create(ask: Ask, shared: &Arc<Shared>, tree: &str) -> Result<Reply, Problem> {
    let Create { addressable } = ask.json_or_default()?;
    let (root, name) = (NodeId::pending(0), tree.to_owned());
    let operation = Operation::CreateTree { root, name, addressable };
    ask.nothing_left(&[])?;
    let plan = |_: &Version| Ok(Planned::of(vec![operation.clone()], 1));
    Ok(committed(StatusCode::CREATED, &commit(&ask, shared, None, plan).await?))
}

/// `DELETE /trees/TREE`.
pub(crate) async fn drop_tree(
    ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
) -> Result<Reply, Problem> {
    let operation = Operation::DropTree { tree: tree.to_owned() };
    alone(&ask, shared, StatusCode::OK, tree, (operation, 0)).await
}

/// `POST /trees/TREE/rename`.
pub(crate) async fn rename(ask: Ask, shared: &Arc<Shared>, tree: &str) -> Result<Reply, Problem> {
    let Name { name } = ask.json()?;
    let operation = Operation::RenameTree { tree: tree.to_owned(), name };
    alone(&ask, shared, StatusCode::OK, tree, (operation, 0)).await
}

/// `POST /trees/TREE/branch`.
pub(crate) async fn branch(ask: Ask, shared: &Arc<Shared>, tree: &str) -> Result<Reply, Problem> {
    let Name { name } = ask.json()?;
    let operation = Operation::Branch { id: NodeId::pending(0), tree: tree.to_owned(), name };
    alone(&ask, shared, StatusCode::CREATED, tree, (operation, 1)).await
}

/// `POST /trees/TREE/merge`.
pub(crate) async fn merge(ask: Ask, shared: &Arc<Shared>, tree: &str) -> Result<Reply, Problem> {
    let Merge { from, policy } = ask.json()?;
    let operation = Operation::Merge { from, into: tree.to_owned(), policy: policy.into() };
    alone(&ask, shared, StatusCode::OK, tree, (operation, 0)).await
}

/// `PUT /trees/TREE/indexes/ATTRIBUTE`.
pub(crate) async fn make_index(
    ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    attribute: &str,
) -> Result<Reply, Problem> {
    let (tree, attribute) = (tree.to_owned(), attribute.to_owned());
    let operation = Operation::MakeIndex { tree: tree.clone(), attribute };
    alone(&ask, shared, StatusCode::CREATED, &tree, (operation, 0)).await
}

/// `DELETE /trees/TREE/indexes/ATTRIBUTE`.
pub(crate) async fn drop_index(
    ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    attribute: &str,
) -> Result<Reply, Problem> {
    let (tree, attribute) = (tree.to_owned(), attribute.to_owned());
    let operation = Operation::DropIndex { tree: tree.clone(), attribute };
    alone(&ask, shared, StatusCode::OK, &tree, (operation, 0)).await
}

/// `PUT /trees/TREE/rules/ATTRIBUTE`.
pub(crate) async fn set_rule(
    ask: Ask,
    shared: &Arc<Shared>,
    tree: &str,
    attribute: &str,
) -> Result<Reply, Problem> {
    let SetRule { rule } = ask.json()?;
    let (tree, attribute) = (tree.to_owned(), attribute.to_owned());
    let operation = Operation::SetRule { tree: tree.clone(), attribute, rule: rule.into() };
    alone(&ask, shared, StatusCode::OK, &tree, (operation, 0)).await
}

/// `POST /trees/TREE/nodes/NODE/children`.
pub(crate) async fn insert(
    ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    parent: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let wish: Insert = ask.json()?;
    if wish.json.is_some() && !wish.attributes.is_empty() {
        let both = "`attributes` and `json` exclude each other: a node has either";
        return Err(Problem::bad_request(both));
    }
    let values = attributes(&wish.attributes)?;
    let ttl = Lifetime::of(wish.ttl.as_ref())?;
    let plan = |version: &Version| {
        let deadline = ttl.and_then(|ttl| ttl.deadline(version));
        let values = values.clone().expiring(deadline);
        if wish.json.is_none() && wish.position.is_none() {
            return appended(version, name, parent, &values);
        }
        let editor = editor(version, name)?;
        let parent = node_of(editor.tree(), parent)?.id();
        let len = editor.tree().node(parent).map_or(0, jungle::Node::len);
        let position = wish.position.unwrap_or(len);
        let editor = match &wish.json {
            None => editor.insert(parent, position, values.iter())?,
            Some(value) => {
                let before = editor.last_made().map_or(0, |id| id.index() + 1);
                let mut editor = editor.append_json(parent, value)?;
                if deadline.is_some() {
                    editor = editor.expire(NodeId::pending(before), deadline)?;
                }
                if position == len {
                    editor
                } else {
                    editor.relocate(NodeId::pending(before), parent, position)?
                }
            }
        };
        Ok(edited(editor))
    };
    let guard = Some(Guard { tree: name, node: Some(parent) });
    let answer = commit(&ask, shared, guard, plan).await?;
    let mut reply = committed(StatusCode::CREATED, &answer);
    if let Some(node) = answer.made.first() {
        let tree = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        set(&mut reply, "location", &format!("/trees/{tree}/nodes/{node}"));
    }
    Ok(reply)
}

/// An append, which needs no editor: it takes effect beside whatever others do.
fn appended(
    version: &Version,
    name: &str,
    parent: &str,
    values: &jungle::Attributes,
) -> Result<Planned, Problem> {
    let tree = tree_of(version, name)?;
    let found = node_of(tree, parent)?.id();
    let parent = if tree.is_addressable() { found.into() } else { target(parent)? };
    let edit = Edit::Insert {
        node: NodeId::pending(0),
        parent,
        place: jungle::Place::Last,
        attributes: values.clone(),
    };
    Ok(Planned::of(vec![Operation::Edit { tree: name.to_owned(), edit }], 1))
}

fn editor(version: &Version, name: &str) -> Result<Editor, Problem> {
    version.editor(name).ok_or_else(|| Problem::no_tree(name))
}

fn edited(editor: Editor) -> Planned {
    let made = editor.last_made().map_or(0, |id| id.index() + 1);
    Planned { transaction: editor.transaction(), made }
}

/// `PATCH /trees/TREE/nodes/NODE`: attributes, a JSON Patch or a Merge Patch, by the type of the body.
pub(crate) async fn patch(
    ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let guard = Some(Guard { tree: name, node: Some(place) });
    let answer = match ask.content_type() {
        kind @ ("application/json-patch+json" | "application/merge-patch+json") => {
            let patch: serde_json::Value = ask.json()?;
            let is_merge = kind == "application/merge-patch+json";
            let plan = |version: &Version| {
                let editor = editor(version, name)?;
                if !editor.tree().is_addressable() {
                    return Err(EditError::NotAddressable.into());
                }
                let node = node_of(editor.tree(), place)?.id();
                let editor = if is_merge {
                    editor.merge_patch_json(node, &patch)?
                } else {
                    editor.patch_json(node, &patch)?
                };
                Ok(edited(editor))
            };
            commit(&ask, shared, guard, plan).await?
        }
        "application/json" | "" => {
            let wish: Put = ask.json()?;
            let ttl = Lifetime::of(wish.ttl.as_ref())?;
            let plan = |version: &Version| {
                let tree = tree_of(version, name)?;
                node_of(tree, place)?;
                let node: Target = settled(version, name, target(place)?);
                let mut edits = puts(&node, &wish.attributes, &wish.expect)?;
                edits.extend(ttl.and_then(|ttl| ttl.edit(version, name, &node)));
                let edit = |edit| Operation::Edit { tree: name.to_owned(), edit };
                Ok(Planned::of(edits.into_iter().map(edit).collect(), 0))
            };
            // Nothing that it does not expect itself can stand in its way.
            commit_within(0, &ask, shared, guard, plan).await?
        }
        other => {
            return Err(Problem::new(
                415,
                "type",
                "The type of the body is not known",
                format!(
                    "`{other}`: send application/json (attributes), application/json-patch+json or \
                     application/merge-patch+json"
                ),
            ));
        }
    };
    Ok(committed(StatusCode::OK, &answer))
}

/// `DELETE /trees/TREE/nodes/NODE`.
pub(crate) async fn remove(
    ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let plan = |version: &Version| {
        let editor = editor(version, name)?;
        node_of(editor.tree(), place)?;
        Ok(edited(editor.delete(target(place)?)?))
    };
    let guard = Some(Guard { tree: name, node: Some(place) });
    Ok(committed(StatusCode::OK, &commit(&ask, shared, guard, plan).await?))
}

/// `POST /trees/TREE/nodes/NODE/move`.
pub(crate) async fn relocate(
    ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    ask.nothing_left(&[])?;
    let wish: Move = ask.json()?;
    let plan = |version: &Version| {
        let editor = editor(version, name)?;
        let (node, parent) =
            (node_of(editor.tree(), place)?, node_of(editor.tree(), &wish.parent)?);
        // Counted without the node, if it is there already.
        let own = parent.children().any(|child| child.id() == node.id());
        let position = wish.position.unwrap_or(parent.len() - usize::from(own));
        Ok(edited(editor.relocate(target(place)?, target(&wish.parent)?, position)?))
    };
    let guard = Some(Guard { tree: name, node: Some(place) });
    Ok(committed(StatusCode::OK, &commit(&ask, shared, guard, plan).await?))
}
