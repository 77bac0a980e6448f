//! Reads: each is answered from one version, which is held for so long and asks nobody.

use std::sync::Arc;

use hyper::StatusCode;
use jungle::{
    Node, NodeId, Pointed, Timestamp, Tree, Version, json_at, point, to_json, to_json_with_blobs,
};

use crate::answer::{
    DocumentBlobView, ExportAnswer, FoundAnswer, NodeAnswer, NodeView, Room, Trees, size,
};
use crate::exchange::{Ask, Reply, empty, json, set};
use crate::problem::Problem;
use crate::request::target;
use crate::shared::Shared;
use crate::store::Store;

/// The most nodes of an answer.
pub(crate) const LIMIT_MAX: usize = 10_000;
/// The nodes of an answer where nobody says how many.
pub(crate) const LIMIT: usize = 100;
/// The deepest answer; JSON parsers take no deeper one.
const DEPTH_MAX: usize = 60;
/// The most nodes of a document that is answered whole.
const DOCUMENT_MAX: usize = 1_000_000;
/// The most bytes of its attributes \[B\].
const DOCUMENT_BYTES_MAX: usize = 128 << 20;

/// A position in the log: generation and commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) generation: Option<u64>,
    pub(crate) seq: u64,
}

/// Reads `GENERATION.COMMIT`, or a commit alone.
pub(crate) fn token(text: &str) -> Result<Token, Problem> {
    let number = |text: &str| text.parse::<u64>().ok();
    let read = match text.split_once('.') {
        Some((generation, seq)) => number(generation)
            .zip(number(seq))
            .map(|(generation, seq)| Token { generation: Some(generation), seq }),
        None => number(text).map(|seq| Token { generation: None, seq }),
    };
    read.ok_or_else(|| {
        Problem::bad_request(format!(
            "`{text}` is no position in the log; write a commit, or the token of an answer, such as 1.17"
        ))
    })
}

/// Tells whoever has seen more than is here, by the token that it sends along.
pub(crate) fn has_seen(ask: &Ask, store: &Store) -> Result<(), Problem> {
    let Some(text) = ask.header("jungle-token")? else { return Ok(()) };
    let (token, head) = (token(text)?, store.version().seq());
    let is_other = token.generation.is_some_and(|generation| generation != store.generation());
    if is_other || token.seq > head {
        return Err(Problem::new(
            409,
            "token",
            "Something that was seen is not here",
            format!(
                "the token {text} is not of this log, which stands at {}.{head}: what it has seen \
                 may be lost; read again without it",
                store.generation()
            ),
        ));
    }
    Ok(())
}

/// The version that `?at=` names: a commit, a token or a moment (RFC 3339); the newest if it is left out.
pub(crate) async fn version_at(ask: &mut Ask, store: &Store) -> Result<Arc<Version>, Problem> {
    let newest = store.version();
    let Some(text) = ask.take("at") else { return Ok(newest) };
    if text.contains('T') || text.contains(':') {
        let wrong = |_| {
            Problem::bad_request(format!(
                "`?at={text}` is no moment such as 2026-11-27T12:00:00Z, and no commit"
            ))
        };
        let moment = humantime::parse_rfc3339_weak(&text.replace('T', " ").replace('Z', ""));
        let since = moment.map_err(wrong)?.duration_since(std::time::UNIX_EPOCH);
        let time = Timestamp(since.map_or(0, |since| since.as_micros() as u64));
        let found = store.look(move |database| database.at_time(time).cloned()).await?;
        let none = || gone(format!("no version that old is kept; {text} is before the oldest"));
        return Ok(Arc::new(found.ok_or_else(none)?));
    }
    past_of(store, &text).await
}

/// The version of a commit or a token.
pub(crate) async fn past_of(store: &Store, text: &str) -> Result<Arc<Version>, Problem> {
    let token = token(text)?;
    if token.generation.is_some_and(|generation| generation != store.generation()) {
        return Err(gone(format!("the token {text} is of another generation of this log")));
    }
    past(store, token.seq).await
}

/// A version by its number.
pub(crate) async fn past(store: &Store, seq: u64) -> Result<Arc<Version>, Problem> {
    let newest = store.version();
    if seq == newest.seq() {
        return Ok(newest);
    }
    if seq > newest.seq() {
        let detail = format!("there is no commit {seq} yet; the newest is {}", newest.seq());
        return Err(Problem::not_found(detail));
    }
    let found = store.look(move |database| database.at(seq).cloned()).await?;
    let none = || gone(jungle::PastError::NoSuchVersion(seq).to_string());
    Ok(Arc::new(found.ok_or_else(none)?))
}

pub(crate) fn gone(detail: String) -> Problem {
    Problem::new(410, "gone", "That version is not kept", detail)
}

/// The tree of a version.
pub(crate) fn tree_of<'a>(version: &'a Version, name: &str) -> Result<&'a Tree, Problem> {
    version.tree(name).ok_or_else(|| Problem::no_tree(name))
}

/// The node that somebody names.
pub(crate) fn node_of<'a>(tree: &'a Tree, text: &str) -> Result<&'a jungle::Node, Problem> {
    match target(text)? {
        jungle::Target::Node(_) if !tree.is_addressable() => {
            Err(jungle::EditError::NotAddressable.into())
        }
        jungle::Target::Node(id) => {
            tree.node(id).ok_or_else(|| jungle::EditError::NoSuchNode(id).into())
        }
        jungle::Target::Path(path) => {
            tree.at(&path).ok_or_else(|| jungle::EditError::NoSuchPath(path).into())
        }
    }
}

/// `GET /trees`.
pub(crate) async fn trees(mut ask: Ask, shared: &Arc<Shared>) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let sight = ask.caller.sight();
    let mut list = Trees::of(&version);
    list.trees.retain(|tree| sight.reads(&tree.name));
    // The origin of a branch is a name like any other.
    for tree in &mut list.trees {
        tree.branch_of = tree.branch_of.take().filter(|origin| sight.reads(origin));
    }
    Ok(json(StatusCode::OK, &list))
}

/// `GET /trees/TREE`.
pub(crate) async fn tree(mut ask: Ask, shared: &Arc<Shared>, tree: &str) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    ask.nothing_left(&["at"])?;
    let changed = tree_of(&version, tree)?.changed();
    let all = Trees::of(&version);
    let mut one = all.trees.into_iter().find(|one| one.name == tree).expect("it was looked up");
    one.branch_of = one.branch_of.take().filter(|origin| ask.caller.sight().reads(origin));
    let mut reply = json(StatusCode::OK, &one);
    set(&mut reply, "etag", &tag(&shared.store, changed));
    Ok(reply)
}

/// The mark of a node that a commit changed last.
pub(crate) fn tag(store: &Store, changed: u64) -> String {
    format!("\"{}.{changed}\"", store.generation())
}

/// The form in which a node is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Its attributes, blobs and children.
    Node,
    /// The document that it is made of.
    Json,
    /// The same, with the names of its blobs.
    Export,
}

impl Form {
    fn of(text: Option<&str>) -> Result<Self, Problem> {
        match text {
            None | Some("node") => Ok(Self::Node),
            Some("json") => Ok(Self::Json),
            Some("export") => Ok(Self::Export),
            Some(other) => {
                let wrong = format!("`?as={other}`: there are `json`, `export` and `node`");
                Err(Problem::bad_request(wrong))
            }
        }
    }
}

/// `GET /trees/TREE/nodes/NODE`.
pub(crate) async fn node(
    mut ask: Ask,
    shared: &Arc<Shared>,
    name: &str,
    place: &str,
) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    let depth = ask.number("depth")?.unwrap_or(1).min(DEPTH_MAX);
    let limit = ask.number("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    let offset = ask.number("offset")?.unwrap_or(0);
    let (pointer, form) = (ask.take("pointer"), ask.take("as"));
    ask.nothing_left(&["at", "depth", "limit", "offset", "pointer", "as"])?;
    let tree = tree_of(&version, name)?;
    let mut node = node_of(tree, place)?;
    let form = Form::of(form.as_deref())?;
    if form == Form::Export && pointer.is_some() {
        let both = "`as=export` takes no `pointer`: export the node that it names";
        return Err(Problem::bad_request(both));
    }
    let mark = tag(&shared.store, node.changed());
    if ask.header("if-none-match")?.is_some_and(|known| tags(known).any(|one| one == mark)) {
        let mut reply = empty(StatusCode::NOT_MODIFIED);
        set(&mut reply, "etag", &mark);
        return Ok(reply);
    }
    let mut reply = match form {
        Form::Node => {
            if let Some(pointer) = &pointer {
                let Pointed::Node(id) = point(tree, node.id(), pointer)? else {
                    return Err(Problem::impossible(format!(
                        "`{pointer}` is an attribute and no node; ask with `as=json` for its value"
                    )));
                };
                node = tree.node(id).expect("it was pointed at");
            }
            let path = tree.path_of(node.id()).map(|path| path.to_string());
            let view = NodeView::of(node, depth, offset, &mut Room::for_nodes(limit));
            let tree = name.to_owned();
            json(StatusCode::OK, &NodeAnswer { seq: version.seq(), tree, path, node: view })
        }
        Form::Json => {
            has_room(node)?;
            let document = tokio::task::block_in_place(|| match &pointer {
                Some(pointer) => json_at(tree, node.id(), pointer),
                None => to_json(node),
            });
            json(StatusCode::OK, &document?)
        }
        Form::Export => {
            has_room(node)?;
            let (document, blobs) = tokio::task::block_in_place(|| to_json_with_blobs(node))?;
            let blobs = blobs.into_iter().map(DocumentBlobView::from).collect();
            json(StatusCode::OK, &ExportAnswer { seq: version.seq(), document, blobs })
        }
    };
    set(&mut reply, "etag", &mark);
    Ok(reply)
}

/// A document is small enough to be read whole.
pub(crate) fn has_room(node: &Node) -> Result<(), Problem> {
    let mut bytes = 0;
    for (count, below) in node.walk().enumerate() {
        bytes += size(below);
        if count == DOCUMENT_MAX || bytes > DOCUMENT_BYTES_MAX {
            return Err(Problem::too_large(format!(
                "node {} has more than {DOCUMENT_MAX} nodes or {DOCUMENT_BYTES_MAX} B below it; read it \
                 in parts, by depth, offset and limit",
                node.id()
            )));
        }
    }
    Ok(())
}

/// The marks of a header.
pub(crate) fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(|one| one.trim().trim_start_matches("W/"))
}

/// `GET /trees/TREE/find?attribute=NAME&value=TEXT`, or without a value all in order of an index.
pub(crate) async fn find(mut ask: Ask, shared: &Arc<Shared>, name: &str) -> Result<Reply, Problem> {
    let version = version_at(&mut ask, &shared.store).await?;
    let limit = ask.number("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    let (attribute, value, after) = (ask.take("attribute"), ask.take("value"), ask.take("after"));
    ask.nothing_left(&["at", "attribute", "value", "after", "limit"])?;
    let none = || Problem::bad_request("`?attribute=` is missing: the attribute to look for");
    let attribute = attribute.ok_or_else(none)?;
    let tree = tree_of(&version, name)?;
    if !tree.is_addressable() {
        return Err(jungle::EditError::NotAddressable.into());
    }
    let indexed = tree.indexed().any(|one| one == attribute);
    let (nodes, next_after) = tokio::task::block_in_place(|| match value {
        Some(value) => same(tree, &attribute, &value, after.as_deref(), limit),
        None => ordered(tree, &attribute, after.as_deref(), limit),
    })?;
    let tree = name.to_owned();
    Ok(json(StatusCode::OK, &FoundAnswer { seq: version.seq(), tree, indexed, nodes, next_after }))
}

type Page = (Vec<NodeView>, Option<String>);

fn id(text: &str) -> Result<NodeId, Problem> {
    text.parse().map_err(|_| {
        Problem::bad_request(format!(
            "`?after={text}` is no cursor; send the `next_after` of a page"
        ))
    })
}

/// The nodes with a value, by their ids, from behind the cursor on.
fn same(
    tree: &Tree,
    attribute: &str,
    value: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page, Problem> {
    let after = after.map(id).transpose()?;
    let ids =
        tree.find(attribute, value.as_bytes()).filter(|id| after.is_none_or(|after| *id > after));
    Ok(page(tree, ids, limit))
}

/// All nodes with an indexed attribute, in its order, from behind the cursor on.
fn ordered(
    tree: &Tree,
    attribute: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page, Problem> {
    let after = after.map(id).transpose()?;
    let cursor = match after {
        None => None,
        Some(id) => {
            let node = tree.node(id).and_then(|node| node.attribute(attribute));
            let lost = || {
                Problem::new(
                    410,
                    "cursor",
                    "The cursor is gone",
                    format!("node {id} is not in this index any more; read a version by `?at=`"),
                )
            };
            Some((node.ok_or_else(lost)?, id))
        }
    };
    Ok(page(tree, tree.ordered(attribute, cursor)?.map(|(_, id)| id), limit))
}

/// A page of nodes, as far as there is room, and the cursor behind it if more follow.
fn page(tree: &Tree, ids: impl Iterator<Item = NodeId>, limit: usize) -> Page {
    let mut room = Room::for_nodes(limit);
    let mut page: Vec<NodeView> = Vec::new();
    for id in ids {
        let Some(node) = tree.node(id) else { continue };
        if !room.take(node) {
            let next = page.last().map(|last| last.id.clone());
            return (page, next);
        }
        page.push(NodeView::of(node, 0, 0, &mut room));
    }
    (page, None)
}
